-- One row a key of updates, the mean over keys first. Ticks are of the run's reference; ends hold the clocks' error.
select
    is_mean,                                                 -- true of the mean over keys
    key,                                                     -- value or kind; null: none, or the mean
    ages.average.estimate_ticks as average_ticks,            -- ticks: over time; null: see why
    ages.average.lo_ticks as average_lo_ticks,               -- ticks: not below
    ages.average.hi_ticks as average_hi_ticks,               -- ticks: nor above
    ages.excess.estimate_ticks as excess_ticks,              -- ticks: beyond the age without delays
    ages.excess.lo_ticks as excess_lo_ticks,                 -- ticks
    ages.excess.hi_ticks as excess_hi_ticks,                 -- ticks
    ages.peak.estimate_ticks as peak_ticks,                  -- ticks: mean age right before an update
    ages.peak.lo_ticks as peak_lo_ticks,                     -- ticks; null: the clocks leave an order open
    ages.peak.hi_ticks as peak_hi_ticks,                     -- ticks
    ages.above.estimate as above,                            -- of 1: time above the limit; null: none was given
    ages.above.lo as above_lo,                               -- of 1: not below
    ages.above.hi as above_hi,                               -- of 1: nor above
    received,                                                -- updates received
    lost,                                                    -- updates generated and not received
    effective,                                               -- received in the window, fresher than all before
    obsolete,                                                -- received in the window, not fresher
    out_of_order,                                            -- of these, older than one of an earlier tick
    why                                                      -- why a key has no age
from ages

-- One row a stage of the path, that of the largest excess first. Ticks are of the run's reference.
select
    name as stage,                                           -- node.point>node.point
    share.estimate as share,                                 -- of 1: part of the excess; null: not resolved
    share.interval[1] as share_lo,                          -- of 1: not below, with clocks and chance
    share.interval[2] as share_hi,                           -- of 1: nor above
    share.clocks[1] as share_clocks_lo,                      -- of 1: what the clocks alone leave open
    share.clocks[2] as share_clocks_hi,                      -- of 1
    median_ticks,                                            -- ticks: median of all traces
    mean_ticks,                                              -- ticks: mean of the slow ones
    excess_ticks,                                            -- ticks: the latter less the former
    bound_ticks,                                             -- ticks: how far the clocks may have moved it
    covariance_share,                                        -- of 1: part of the variance of the fastest 95 %
    what_if.from_ticks - what_if.to_ticks as saved_ticks,    -- ticks: by how much the quantile would fall
    what_if.bound_ticks as saved_bound_ticks,                -- ticks: how far the clocks may have moved that
    among_causes,                                            -- slow traces of whose excess it is among the causes
    leads,                                                   -- slow traces in which it is the largest for certain
    sure,                                                    -- part of the draws in which the first stage leads
    unresolved                                               -- why there is no share
from tail

-- One row a stage and quantile. Ticks are of the reference of the first run before.
select
    stage,                                                   -- node.point>node.point, or end-to-end
    lower(role) as role,                                     -- path, whole or branch
    quantile,                                                -- p50 or p99
    before.ticks as before_ticks,                            -- ticks: of the run before, of several the middle one's
    after.ticks as after_ticks,                              -- ticks: of the run after
    shift.ticks as change_ticks,                             -- ticks: from the one to the other; above 0: slower
    shift.lo_ticks as change_lo_ticks,                       -- ticks: not below, clocks and chance together
    shift.hi_ticks as change_hi_ticks,                       -- ticks: nor above; null: nobody can say
    shift.clocks_below_ticks as clocks_below_ticks,          -- ticks: the part of the clocks below
    shift.clocks_above_ticks as clocks_above_ticks,          -- ticks: and above
    verdict,                                                 -- changed, not-changed or not-resolved
    limited_by                                               -- clocks, statistics, both, traces, runs, missing; or null
from comparison

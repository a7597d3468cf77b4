-- One row a stage. Ticks are of the run's reference; nanoseconds are ticks over its declared rate, bounds rounded outward.
select
    stage,                                                   -- node.point>node.point, or end-to-end
    "from" as from_point,                                    -- node.point
    "to" as to_point,                                        -- node.point
    lower(role) as role,                                     -- path, whole or branch
    count,                                                   -- traces with a duration
    missing,                                                 -- traces that lack one of the two stamps
    refused,                                                 -- traces with both stamps but no interval
    impossible,                                              -- traces on the path that took less than no time
    p50.ticks as p50_ticks,                                  -- ticks: median of the estimates
    p50.lo_ticks as p50_lo_ticks,                            -- ticks: the true median is not below
    p50.hi_ticks as p50_hi_ticks,                            -- ticks: nor above
    p99.ticks as p99_ticks,                                  -- ticks: 99th percentile of the estimates
    p99.lo_ticks as p99_lo_ticks,                            -- ticks
    p99.hi_ticks as p99_hi_ticks,                            -- ticks
    common.below_ticks as common_below_ticks,                -- ticks: all values together may be less by this
    common.above_ticks as common_above_ticks,                -- ticks: or more by this
    relative.one_ms_apart_ticks as relative_1ms_ticks,       -- ticks: two values 1 ms apart, against each other
    relative.run_ticks as relative_run_ticks,                -- ticks: any two values of the run
    core_ticks,                                              -- ticks: part of the bounds, for stamps of different cores
    p50.ns as p50_ns,                                        -- ns
    p50.lo_ns as p50_lo_ns,                                  -- ns, rounded down
    p50.hi_ns as p50_hi_ns,                                  -- ns, rounded up
    p99.ns as p99_ns,                                        -- ns
    p99.lo_ns as p99_lo_ns,                                  -- ns
    p99.hi_ns as p99_hi_ns,                                  -- ns
    sign,                                                    -- is it longer than nothing, at the median?
    spread                                                   -- is the distance from median to 99th percentile real?
from figures

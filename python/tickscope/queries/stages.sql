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
    p999.ticks as p999_ticks,                                -- ticks: 99.9th percentile of the estimates
    p999.lo_ticks as p999_lo_ticks,                          -- ticks
    p999.hi_ticks as p999_hi_ticks,                          -- ticks
    max.ticks as max_ticks,                                  -- ticks: the longest
    max.lo_ticks as max_lo_ticks,                            -- ticks
    max.hi_ticks as max_hi_ticks,                            -- ticks
    mean.ticks as mean_ticks,                                -- ticks: mean of the estimates
    mean.lo_ticks as mean_lo_ticks,                          -- ticks
    mean.hi_ticks as mean_hi_ticks,                          -- ticks
    share.ratio as share_ratio,                              -- part of the time from end to end, at the estimates: of 1
    share.lo_ratio as share_lo_ratio,                        -- of 1, rounded down
    share.hi_ratio as share_hi_ratio,                        -- of 1, rounded up
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
    p999.ns as p999_ns,                                      -- ns
    p999.lo_ns as p999_lo_ns,                                -- ns, rounded down
    p999.hi_ns as p999_hi_ns,                                -- ns, rounded up
    max.ns as max_ns,                                        -- ns
    max.lo_ns as max_lo_ns,                                  -- ns, rounded down
    max.hi_ns as max_hi_ns,                                  -- ns, rounded up
    mean.ns as mean_ns,                                      -- ns
    mean.lo_ns as mean_lo_ns,                                -- ns, rounded down
    mean.hi_ns as mean_hi_ns,                                -- ns, rounded up
    sign,                                                    -- is it longer than nothing, at the median?
    spread                                                   -- is the distance from median to 99th percentile real?
from figures

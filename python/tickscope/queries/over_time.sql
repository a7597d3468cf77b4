-- One row a window of the run. Ticks are of the run's reference.
select
    begins_ticks,                                            -- ticks: when it begins, after the first trace did
    traces,                                                  -- traces that began in it
    whole_ticks[1] as p50_ticks,                             -- ticks: median from end to end; null: no trace
    whole_ticks[2] as p99_ticks,                             -- ticks: 99th percentile
    whole_ticks[3] as max_ticks                              -- ticks: the longest
from over_time

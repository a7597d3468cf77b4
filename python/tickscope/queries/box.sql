-- What a box plot of one stage draws: quartiles, and whiskers to the last values within 1.5 times their distance.
with quartiles as (
    select
        quantile_disc(estimate_ticks, 0.25) as q1_ticks,
        quantile_disc(estimate_ticks, 0.5) as median_ticks,
        quantile_disc(estimate_ticks, 0.75) as q3_ticks,
        q1_ticks - (q3_ticks - q1_ticks) * 3 // 2 as lower_fence_ticks,
        q3_ticks + (q3_ticks - q1_ticks) * 3 // 2 as upper_fence_ticks
    from stage_durations
)
select
    'STAGE' as stage,                                                                                 -- its name
    q1_ticks,                                                                                         -- ticks
    median_ticks,                                                                                     -- ticks
    q3_ticks,                                                                                         -- ticks
    min(estimate_ticks) filter (estimate_ticks >= lower_fence_ticks) as lower_whisker_ticks,          -- ticks
    max(estimate_ticks) filter (estimate_ticks <= upper_fence_ticks) as upper_whisker_ticks,          -- ticks
    count(*) filter (estimate_ticks not between lower_fence_ticks and upper_fence_ticks) as outliers  -- a count
from stage_durations, quartiles
group by all

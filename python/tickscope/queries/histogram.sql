-- Estimates of one stage in bins of equal width; bins without any are left out.
with bins as (
    select
        quantile_disc(estimate_ticks, 0.01) as start_ticks,
        greatest((quantile_disc(estimate_ticks, 0.99) - start_ticks) // 60, 1) as width_ticks
    from stage_durations
)
select
    cast(start_ticks + floor((estimate_ticks - start_ticks) / width_ticks) * width_ticks as bigint) as from_ticks,  -- ticks, included
    from_ticks + width_ticks as to_ticks,                                                                           -- ticks, not included
    count(*) as durations                                                                                           -- a count
from stage_durations, bins
group by all
order by from_ticks

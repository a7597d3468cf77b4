-- Estimates of one stage in bins of equal width, about 60 of them from the 1st to the 99th percentile; bins without any
-- are left out. Ticks are of the reference.
with counted as (
    select estimate_ticks, count(*) as traces from stage_durations group by estimate_ticks
), ranked as (
    select
        estimate_ticks,
        cast(sum(traces) over (
            order by estimate_ticks rows between unbounded preceding and current row
        ) as bigint) as up_to,
        cast(sum(traces) over () as bigint) as all_traces
    from counted
), ends as (
    select
        min(case when 100 * up_to >= all_traces then estimate_ticks end) as start_ticks,
        min(case when 100 * up_to >= 99 * all_traces then estimate_ticks end) as end_ticks
    from ranked
), bins as (
    select
        start_ticks,
        greatest(cast((end_ticks - start_ticks - (end_ticks - start_ticks) % 60) / 60 as bigint), 1) as width_ticks
    from ends
), placed as (
    select
        estimate_ticks
            - ((estimate_ticks - start_ticks) % width_ticks + width_ticks) % width_ticks as from_ticks,
        width_ticks,
        traces
    from counted cross join bins
)
select
    from_ticks,  -- ticks, included
    from_ticks + width_ticks as to_ticks,  -- ticks, not included
    cast(sum(traces) as bigint) as durations  -- a count
from placed
group by from_ticks, width_ticks
order by from_ticks

-- What a box plot of one stage draws, STAGE its name: quartiles, and whiskers to the last values within 1.5 times their
-- distance. Quartiles are values of the sample: rank ceil(share * count). Ticks are of the reference.
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
), quartiles as (
    select
        min(case when 4 * up_to >= all_traces then estimate_ticks end) as q1_ticks,
        min(case when 2 * up_to >= all_traces then estimate_ticks end) as median_ticks,
        min(case when 4 * up_to >= 3 * all_traces then estimate_ticks end) as q3_ticks
    from ranked
), fences as (
    select
        q1_ticks,
        median_ticks,
        q3_ticks,
        q1_ticks - (((q3_ticks - q1_ticks) * 3) >> 1) as lower_ticks,
        q3_ticks + (((q3_ticks - q1_ticks) * 3) >> 1) as upper_ticks
    from quartiles
)
select
    'STAGE' as stage,  -- its name
    q1_ticks,  -- ticks
    median_ticks,  -- ticks
    q3_ticks,  -- ticks
    min(case when estimate_ticks >= lower_ticks then estimate_ticks end) as lower_whisker_ticks,  -- ticks
    max(case when estimate_ticks <= upper_ticks then estimate_ticks end) as upper_whisker_ticks,  -- ticks
    cast(sum(
        case when estimate_ticks between lower_ticks and upper_ticks then 0 else traces end
    ) as bigint) as outliers  -- a count
from counted cross join fences
group by q1_ticks, median_ticks, q3_ticks

-- One row a stage and side: counts by outcome, and quantiles that are values of the sample: rank ceil(share * count).
with ranked as (
    select
        *,
        case when value_ticks is null then 0 else 1 end as is_value,
        sum(traces) over (
            partition by stage, side, case when value_ticks is null then 0 else 1 end
            order by value_ticks rows between unbounded preceding and current row
        ) as up_to,
        sum(traces) over (partition by stage, side, case when value_ticks is null then 0 else 1 end) as all_traces
    from sample_values
)
select
    stage,  -- its number in the layout's order
    side,  -- 0 estimates, 1 lower, 2 upper ends
    cast(sum(case when is_value = 1 then traces else 0 end) as bigint) as measured,  -- traces with a duration
    cast(sum(case when outcome = 2 then traces else 0 end) as bigint) as missing,  -- that lack a stamp
    cast(sum(case when outcome = 3 then traces else 0 end) as bigint) as refused,  -- without an interval
    cast(sum(case when outcome = 1 then traces else 0 end) as bigint) as impossible,  -- of less than no time
    cast(sum(case when outcome = 4 then traces else 0 end) as bigint) as repeated,  -- of several passages
    cast(sum(case when outcome = 5 then traces else 0 end) as bigint) as special,  -- of many ids, or sent again
    min(case when up_to * 1000000 >= all_traces * 500000 then value_ticks end) as p50_ticks,  -- ticks
    min(case when up_to * 1000000 >= all_traces * 990000 then value_ticks end) as p99_ticks,  -- ticks
    min(case when up_to * 1000000 >= all_traces * 999000 then value_ticks end) as p999_ticks,  -- ticks
    max(value_ticks) as max_ticks,  -- ticks
    sum(cast(value_ticks as decimal(19, 0)) * cast(traces as decimal(19, 0))) as sum_ticks  -- ticks
from ranked
group by stage, side

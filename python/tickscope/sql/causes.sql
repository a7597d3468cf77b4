-- One row a stage of the path and the whole: X-Lap's rule, of the estimates of the traces that have all of them.
-- Quartiles are interpolated linearly between two values: four times a quartile and eight times a threshold are whole.
with measured as (
    select
        durations.*,
        stages.route,
        count(*) over (partition by durations.kind, durations.id) as stages_found
    from durations join stages on stages.stage = durations.stage
    where stages.route > 0 and durations.outcome in ('measured', 'impossible')
), whole as (
    select * from measured where stages_found = (select count(*) from stages where route > 0)
), counted as (
    select stage, estimate_ticks, count(*) as traces from whole group by stage, estimate_ticks
), ranked as (
    select
        *,
        cast(sum(traces) over (
            partition by stage order by estimate_ticks rows between unbounded preceding and current row
        ) as bigint) as up_to,
        cast(sum(traces) over (partition by stage) as bigint) as all_traces
    from counted
), placed as (
    select
        ranked.*,
        quartiles.number,
        shiftright((all_traces - 1) * quartiles.number, 2) as rank,
        ((all_traces - 1) * quartiles.number) % 4 as quarters
    from ranked cross join (values (1), (3)) as quartiles(number)
), fences as (
    select
        stage,
        cast(sum(
            case when number = 3 then 5 else -3 end * (
                case when up_to - traces <= rank and rank < up_to then (4 - quarters) * estimate_ticks else 0 end
                + case
                    when up_to - traces <= least(rank + 1, all_traces - 1) and least(rank + 1, all_traces - 1) < up_to
                        then quarters * estimate_ticks
                    else 0
                end
            )
        ) as bigint) as eighths
    from placed group by stage
), judged as (
    select
        whole.stage,
        fences.eighths,
        case when 8 * whole.estimate_ticks > fences.eighths then 1 else 0 end as is_outlier,
        max(case when whole.route = 2 and 8 * whole.estimate_ticks > fences.eighths then 1 else 0 end)
            over (partition by whole.kind, whole.id) as is_above
    from whole join fences on fences.stage = whole.stage
)
select
    stage,  -- its number in the layout's order
    max(eighths) as threshold_eighths,  -- eighths of a tick: an outlier above it, Q75 + 1.5 IQR
    cast(sum(is_outlier * is_above) as bigint) as caused,  -- outliers end to end in which it is an outlier, too
    cast(sum(is_above) as bigint) as outliers  -- outliers end to end
from judged
group by stage

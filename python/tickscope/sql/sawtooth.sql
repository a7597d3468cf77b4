-- One row a key: the area under the age between two ticks, exact, as estimated and by both ends. Age is the time since
-- the freshest update that was received had been generated. Lines with SIDE stand for estimates, lower, upper ends.
with followed as (
    select
        *,
        max(generated_SIDE) over until_now as freshest_SIDE,
        lead(at_SIDE) over in_time as next_SIDE,
        0 as unused
    from ARRIVALS
    window
        in_time as (partition by is_keyed, key order by at_ticks, kind, id),
        until_now as (
            partition by is_keyed, key order by at_ticks, kind, id rows between unbounded preceding and current row
        )
), clipped as (
    select
        *,
        greatest(at_SIDE, begin_ticks) as since_SIDE,
        greatest(least(coalesce(next_SIDE, end_ticks), end_ticks), at_SIDE, begin_ticks) as until_SIDE,
        0 as never
    from followed
), stretches as (
    select
        *,
        cast(until_SIDE - since_SIDE as decimal(19, 0)) as passed_SIDE,
        cast(since_SIDE + until_SIDE - 2 * freshest_SIDE as decimal(19, 0)) as ages_SIDE,
        greatest(least(until_SIDE - freshest_SIDE - limit_SIDE, until_SIDE - since_SIDE), 0) as exceeds_SIDE,
        0 as nothing
    from clipped
)
select
    key,  -- value or kind
    is_keyed,  -- 0: it has none
    sum(passed_SIDE * ages_SIDE) as doubled_SIDE,  -- ticks squared: twice the area
    cast(sum(exceeds_SIDE) as bigint) as above_SIDE,  -- ticks: above the limit
    min(at_SIDE) as first_SIDE,  -- ticks: before it the age is not known
    min(at_ticks - generated_SIDE) as least_SIDE,  -- ticks: no delay is below
    0 as unused
from stretches
group by key, is_keyed

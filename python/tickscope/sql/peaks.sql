-- One row a key: its updates within the window, and the ages right before those that lower the age. Lines with SIDE
-- stand for estimates, lower and upper ends. Of two that are received at one tick, which was first is not known.
with ranked as (
    select
        updates.*,
        keys.begin_ticks,
        keys.end_ticks,
        max(generated_ticks) over (
            partition by updates.is_keyed, updates.key order by at_ticks, generated_ticks desc, kind, id
            rows between unbounded preceding and current row
        ) as freshest,
        max(generated_ticks) over (
            partition by updates.is_keyed, updates.key order by at_ticks, generated_ticks desc, kind, id
            rows between unbounded preceding and 1 preceding
        ) as before,
        max(generated_ticks) over (
            partition by updates.is_keyed, updates.key order by at_ticks
            range between unbounded preceding and 1 preceding
        ) as earlier
    from updates
    join keys on keys.key = updates.key and keys.is_keyed = updates.is_keyed
    where updates.fate = 'received'
), judged as (
    select
        *,
        case when before is null or generated_ticks > before then 1 else 0 end as is_fresher,
        case when begin_ticks < at_ticks and at_ticks <= end_ticks then 1 else 0 end as is_within
    from ranked
), named as (
    select
        *,
        max(case when is_fresher = 1 then at_ticks end) over (partition by is_keyed, key, freshest) as fresh_at,
        max(case when is_fresher = 1 then SIDE_ticks end) over (partition by is_keyed, key, freshest) as fresh_SIDE,
        0 as unused
    from judged
), followed as (
    select
        *,
        lag(fresh_at) over in_time as last_at,
        lag(fresh_SIDE) over in_time as last_SIDE,
        0 as never
    from named
    window in_time as (partition by is_keyed, key order by at_ticks, generated_ticks desc, kind, id)
), measured as (
    select
        *,
        case when is_within * is_fresher = 1 then at_ticks - last_at + last_SIDE else 0 end as peak_SIDE,
        0 as nothing
    from followed
)
select
    key,  -- value or kind
    is_keyed,  -- 0: it has none
    cast(sum(is_within * is_fresher) as bigint) as effective,  -- updates that lower the age
    cast(sum(is_within * (1 - is_fresher)) as bigint) as obsolete,  -- that do not
    cast(sum(
        case when is_within = 1 and generated_ticks < earlier then 1 else 0 end
    ) as bigint) as out_of_order,  -- of these: generated before one that was received at an earlier tick
    sum(cast(peak_SIDE as decimal(28, 0))) as peaks_SIDE,  -- ticks: sum of the ages right before
    0 as unused
from measured
group by key, is_keyed

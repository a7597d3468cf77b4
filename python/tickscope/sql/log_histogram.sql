-- Estimates of one stage in bins that widen with them, none wider than a 128th of its values: what any number of runs
-- has is the sum of their counts. Ticks are of the reference.
with sized as (
    select
        estimate_ticks,
        abs(estimate_ticks) as size,
        greatest(cast(length(bin(abs(estimate_ticks))) as int) - 8, 0) as bits
    from stage_durations
), placed as (
    select
        estimate_ticks < 0 as is_negative,
        (size >> bits) << bits as near,
        ((size >> bits) << bits) + (cast(1 as bigint) << bits) - 1 as far
    from sized
)
select
    case when is_negative then -far else near end as least_ticks,  -- ticks, included
    case when is_negative then -near else far end as most_ticks,  -- ticks, included
    count(*) as durations  -- a count
from placed
group by is_negative, near, far
order by least_ticks

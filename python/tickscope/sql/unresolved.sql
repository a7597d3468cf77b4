-- One row a key that has updates whose order the clocks leave open: either stamp may have been the first.
with places as (
    select from_value, kind, id, stage
    from pair_durations
    group by from_value, kind, id, stage
    having sum(case when hi_ticks < 0 and lo_ticks <= hi_ticks then 0 else 1 end) = 2
), updates_open as (
    select from_value, kind, id from places group by from_value, kind, id
)
select
    coalesce(from_value, 0) as key,  -- value or kind
    case when from_value is null then 0 else 1 end as is_keyed,  -- 0: it has none
    count(*) as unresolved  -- updates
from updates_open
group by from_value

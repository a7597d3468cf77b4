-- One row a question of order: a stamp, and the one before it of its key, either way, as ends of a stage; for stamps so
-- near each other that the clocks may leave their order open. Stages 1 and 2 lead from a point to itself. At the first
-- point the one before is the freshest, at the second the last that was received.
with placed as (
    select
        *,
        max(generated_ticks) over (
            partition by is_keyed, key order by at_ticks, kind, id rows between unbounded preceding and current row
        ) as freshest_ticks,
        max(generated_ticks) over (
            partition by is_keyed, key order by at_ticks, kind, id rows between unbounded preceding and 1 preceding
        ) as freshest_before,
        lag(to_tick) over (partition by is_keyed, key order by at_ticks, kind, id) as last_to
    from updates
    where fate = 'received'
), freshest as (
    select
        *,
        max(case when freshest_before is null or generated_ticks > freshest_before then from_tick end)
            over (partition by is_keyed, key, freshest_ticks) as freshest_from
    from placed
), followed as (
    select *, lag(freshest_from) over (partition by is_keyed, key order by at_ticks, kind, id) as last_from
    from freshest
), near as (
    select 1 as at_stage, is_keyed, key, kind, id, last_from as one, from_tick as other
    from followed
    where last_from <> from_tick and abs(from_tick - last_from) <= NEAR_FROM
    union all
    select 2 as at_stage, is_keyed, key, kind, id, last_to as one, to_tick as other
    from followed
    where abs(to_tick - last_to) <= NEAR_TO
)
select
    stages.*,  -- the stage, its point, its slopes
    near.kind,  -- class of the id
    near.id,  -- of the later one
    case when ways.is_back = 0 then near.one else near.other end as from_tick,  -- ticks of the point's counter
    case when ways.is_back = 0 then near.other else near.one end as to_tick,  -- ticks of the point's counter
    case when near.is_keyed = 1 then near.key end as from_value,  -- its key
    0 as special,
    0 as repeats
from near
join stages on stages.stage = near.at_stage
cross join (values (0), (1)) as ways(is_back)

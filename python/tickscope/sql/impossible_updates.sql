-- The first few updates that were received before they were generated, whatever the clocks were.
select
    id,  -- as it was stamped
    from_tick,  -- ticks of the first point's counter
    to_tick,  -- ticks of the second point's counter
    hi_ticks  -- ticks of the reference: its delay is not above
from updates
where fate = 'received' and hi_ticks < 0
order by at_ticks, kind, id
limit 5

-- The stamps of one point.
select
    tick,     -- ticks of the channel's domain
    id,       -- what was stamped
    channel,  -- number within the node
    kind,     -- class of the id; null reads as 0
    cpu,      -- core; null: not recorded
    value     -- what rode along; null: nothing
from stamps

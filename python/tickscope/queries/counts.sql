-- What channels under the policy `count` counted, between two readings of the node's counter.
select
    node,
    channel,      -- row of channels
    before,       -- ticks of the node's counter
    after,
    total,        -- stamps since the channel was opened
    "count",      -- stamps since its row before
    periods,      -- whole ones it covers; 0: no known number: an opening, the first reading, or the rest
    period_ns
from counts

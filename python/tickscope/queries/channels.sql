-- Who stamped where, and how many stamps were kept.
select
    node,           -- its name
    channel,        -- number within the node
    point,          -- its name
    ordering,       -- plain, before or after
    pid,            -- process id, in the process's own namespace
    thread,         -- thread id
    domain,         -- boot-id/counter/epoch
    policy,         -- at the last look
    parameter,      -- of that policy, 64 bits as they stand; null: none
    state,          -- open, closed or recovered
    stored,         -- a count of stamps
    dropped,        -- a count: found no free block
    refused,        -- a count: tick 0, or a later version's policy
    uncommitted,    -- a count: reserved, never written
    removed,        -- a count: stored, and removed by the run's window; null: none
    seen,           -- a count: under `every`, kept or not; null: none
    counted,        -- a count: under `count`; null: none
    overwritten,    -- a count: later ones took their place; null: none
    process_start,  -- clock ticks since boot
    pool,           -- 16 hexadecimal digits
    serial          -- number within the pool
from channels

-- Constraints on the map between two clocks: what `domain` read as `at` happened within `before` and `after` of `reference`.
select
    reference,  -- node.counter
    domain,     -- node.counter
    before,     -- ticks of reference: no earlier; null: open
    "at",       -- ticks of domain
    after,      -- ticks of reference: no later; null: open
    source,     -- what it was made of
    ordering    -- of its two stamps
from brackets

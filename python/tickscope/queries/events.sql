-- What happened and what was lost.
select
    node,     -- a node's name, or host, or run
    what,     -- the kind of event: docs/run-format.md lists them
    value,    -- how many, or how much, by the kind
    text,     -- a sentence
    channel,  -- number within the node; null: of none
    domain,   -- node.counter that the ticks are of; null: of none
    tick,     -- ticks of domain: the first concerned
    until     -- ticks of domain: the last concerned
from events

-- One row a key: what became of its updates. Lines with SIDE stand for estimates, lower and upper ends.
select
    key,  -- value or kind
    is_keyed,  -- 0: it has none
    cast(sum(case when fate = 'received' then 1 else 0 end) as bigint) as received,  -- with a delay
    cast(sum(case when fate = 'lost' then 1 else 0 end) as bigint) as lost,  -- not received
    cast(sum(case when fate = 'refused' then 1 else 0 end) as bigint) as refused,  -- without an interval
    cast(sum(case when fate = 'ungenerated' then 1 else 0 end) as bigint) as ungenerated,  -- of which no key is known
    cast(sum(case when fate = 'received' and hi_ticks < 0 then 1 else 0 end) as bigint) as impossible,  -- of below 0
    min(case when fate = 'received' then at_ticks end) as first_ticks,  -- ticks: when the first was received
    max(case when fate = 'received' then at_ticks end) as last_ticks,  -- ticks: when the last was
    min(case when fate = 'received' then SIDE_ticks end) as least_SIDE,  -- ticks: no delay is below
    0 as unused
from updates
group by key, is_keyed

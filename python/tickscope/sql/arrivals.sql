-- One row an update that was received: when, and when generated, by estimates, by shortest and by longest delays. Lines
-- with SIDE stand for these three. Ticks are of the reference.
select
    updates.is_keyed,  -- 0: it has no key
    updates.key,  -- value or kind
    updates.kind,  -- class of the id
    updates.id,  -- as it was stamped
    updates.at_ticks,  -- ticks: the order
    updates.at_ticks as at_estimate,  -- ticks: received
    updates.at_ticks - keys.reading_ticks as at_lo,  -- ticks: not earlier
    updates.at_ticks + keys.reading_ticks as at_hi,  -- ticks: nor later
    updates.at_ticks - updates.SIDE_ticks as generated_SIDE,  -- ticks: generated
    keys.limit_SIDE,  -- ticks: an age above it counts
    keys.begin_ticks,  -- ticks: of the window
    keys.end_ticks  -- ticks: of the window
from updates
join keys on keys.key = updates.key and keys.is_keyed = updates.is_keyed
where updates.fate = 'received'

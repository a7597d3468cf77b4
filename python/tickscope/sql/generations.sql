-- The rows of `arrivals` if each update had been received when it was generated. Where that stands on the receiver's
-- axis is known as well as its delay is, and the axis over that delay: `off`. Ticks are of the reference.
--
-- error * longest / of is divided by limbs of 20 bits, rounded up, so that no product leaves 64 bits. A quotient is a
-- whole number below 2^24, which a double's division gives to far less than a half.
with spans as (
    select
        updates.*,
        keys.begin_ticks,
        keys.end_ticks,
        keys.error_ticks,
        keys.of_ticks,
        greatest(abs(estimate_ticks - lo_ticks), abs(hi_ticks - estimate_ticks)) + keys.fixed_ticks as reach,
        greatest(abs(lo_ticks), abs(hi_ticks)) as longest
    from updates
    join keys on keys.key = updates.key and keys.is_keyed = updates.is_keyed
    where updates.fate = 'received'
), first_limb as (
    select *, error_ticks * shiftright(longest, 40) as high from spans
), second_limb as (
    select *, (high % of_ticks) * 1048576 + error_ticks * (shiftright(longest, 20) % 1048576) as middle from first_limb
), third_limb as (
    select *, (middle % of_ticks) * 1048576 + error_ticks * (longest % 1048576) as low from second_limb
), reached as (
    select
        *,
        reach
            + cast(floor((high - high % of_ticks) / of_ticks + 0.5) as bigint) * 1099511627776
            + cast(floor((middle - middle % of_ticks) / of_ticks + 0.5) as bigint) * 1048576
            + cast(floor((low - low % of_ticks) / of_ticks + 0.5) as bigint)
            + case when low % of_ticks > 0 then 1 else 0 end as off
    from third_limb
), opened as (
    select *, max(off) over (partition by is_keyed, key) as open from reached
)
select
    is_keyed,  -- 0: it has no key
    key,  -- value or kind
    kind,  -- class of the id
    id,  -- as it was stamped
    generated_ticks as at_ticks,  -- ticks: the order
    generated_ticks as at_estimate,  -- ticks: received
    generated_ticks - open as at_lo,  -- ticks: not earlier
    generated_ticks + open as at_hi,  -- ticks: nor later
    generated_ticks as generated_estimate,  -- ticks: generated
    generated_ticks + off as generated_lo,  -- ticks: not later
    generated_ticks - off as generated_hi,  -- ticks: nor earlier
    0 as limit_SIDE,  -- ticks: no limit is asked of it
    begin_ticks,  -- ticks: of the window
    end_ticks  -- ticks: of the window
from opened

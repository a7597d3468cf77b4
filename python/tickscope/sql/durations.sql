-- One row a trace and stage: what became of it, and the duration in ticks of the reference: estimate and guaranteed
-- interval. Lines with END stand for both ends, lines with BOUND for both bounds.
--
-- A value is a whole number and a part of 2^-60; a slope is two limbs of 30 bits, so no product leaves 64 bits. Sums
-- carry from the small limb to the large one, exactly; only at last is a lower end rounded down, an upper one up.
with looked_up as (
    select /*+ broadcast(from_clock), broadcast(to_clock) */
        ends.*,
        ends.to_tick - ends.from_tick - ends.from_width as fewest,
        ends.to_tick - ends.from_tick + ends.to_width as furthest,
        ends.END_tick - END_clock.first_tick as END_past,
        END_clock.BOUND_whole as END_BOUND_whole,
        END_clock.BOUND_part as END_BOUND_part,
        END_clock.BOUND_large as END_BOUND_large,
        END_clock.BOUND_small as END_BOUND_small,
        END_clock.middle_whole as END_middle_whole,
        END_clock.middle_part as END_middle_part,
        END_clock.middle_large as END_middle_large,
        END_clock.middle_small as END_middle_small,
        0 as unused
    from ends
    left join clocks END_clock on END_clock.place = ends.END_point * 17179869184 + shiftright(ends.END_tick, 30)
        and ends.END_tick >= END_clock.first_tick and ends.END_tick <= END_clock.last_tick
), small as (
    select
        *,
        case when fewest < 0 then fast_large else slow_large end as fewest_large,
        case when fewest < 0 then fast_small else slow_small end as fewest_small,
        case when furthest < 0 then slow_large else fast_large end as furthest_large,
        case when furthest < 0 then slow_small else fast_small end as furthest_small,
        END_BOUND_part + END_BOUND_small * END_past as END_BOUND_low,
        END_middle_part + END_middle_small * END_past as END_middle_low,
        abs(fewest) % 1073741824 as fewest_low,
        shiftright(abs(fewest), 30) as fewest_high,
        abs(furthest) % 1073741824 as furthest_low,
        shiftright(abs(furthest), 30) as furthest_high
    from looked_up
), large as (
    select
        *,
        END_BOUND_large * END_past + shiftright(END_BOUND_low, 30) as END_BOUND_high,
        END_middle_whole + shiftright(END_middle_large * END_past + shiftright(END_middle_low, 31), 30) as END_middle,
        fewest_large * fewest_low + fewest_small * fewest_high
            + shiftright(fewest_small * fewest_low, 30) as fewest_carry,
        furthest_large * furthest_low + furthest_small * furthest_high
            + shiftright(furthest_small * furthest_low, 30) as furthest_carry
    from small
), placed as (
    select
        *,
        END_BOUND_whole + shiftright(END_BOUND_high, 30) as END_BOUND,
        (END_BOUND_high % 1073741824) * 1073741824 + END_BOUND_low % 1073741824 as END_BOUND_rest,
        fewest_large * fewest_high + shiftright(fewest_carry, 30) as ran_fewest,
        case
            when fewest_carry % 1073741824 > 0 or (fewest_small * fewest_low) % 1073741824 > 0 then 1 else 0
        end as ran_fewest_more,
        furthest_large * furthest_high + shiftright(furthest_carry, 30) as ran_furthest,
        case
            when furthest_carry % 1073741824 > 0 or (furthest_small * furthest_low) % 1073741824 > 0 then 1 else 0
        end as ran_furthest_more
    from large
), bounded as (
    select
        *,
        to_middle - from_middle as estimate_ticks,
        case
            when is_mapped = 0 then to_lo - from_hi - case when from_hi_rest > 0 then 1 else 0 end
            else greatest(
                case when fewest < 0 then -(ran_fewest + ran_fewest_more) else ran_fewest end,
                to_lo - from_hi - case when to_lo_rest < from_hi_rest then 1 else 0 end
            )
        end as lo_ticks,
        case
            when is_mapped = 0 then to_hi - from_lo + case when to_hi_rest > 0 then 1 else 0 end
            else least(
                case when furthest < 0 then -ran_furthest else ran_furthest + ran_furthest_more end,
                to_hi - from_lo + case when to_hi_rest > from_lo_rest then 1 else 0 end
            )
        end as hi_ticks
    from placed
)
select
    stage,                           -- its number in the layout's order
    kind,                            -- class of the id
    id,                              -- as it was stamped
    case
        when special > 0 then 'special'
        when repeats > 0 then 'repeated'
        when from_tick is null or to_tick is null then 'missing'
        when from_middle is null or to_middle is null then 'refused'
        when lo_ticks > estimate_ticks or estimate_ticks > hi_ticks then 'refused'
        when hi_ticks < 0 and is_path = 1 then 'impossible'
        else 'measured'
    end as outcome,                  -- measured and impossible ones have a duration
    estimate_ticks,                  -- ticks: lies in the interval
    lo_ticks,                        -- ticks: no admissible duration is shorter
    hi_ticks,                        -- ticks: or longer
    from_tick,                       -- ticks of the first point's counter
    to_tick,                         -- ticks of the second point's counter
    to_middle as at_ticks,           -- ticks: the second point's, as estimated
    from_value                       -- what the program gave with the stamp at the first point
from bounded

-- How often each value stands at each side of a stage: 0 estimates, 1 lower ends, 2 upper ends; null: no duration.
select
    durations.stage,  -- its number in the layout's order
    sides.side,  -- 0, 1 or 2
    durations.outcome,  -- measured and impossible ones have a value
    case
        when durations.outcome not in ('measured', 'impossible') then null
        when sides.side = 0 then durations.estimate_ticks
        when sides.side = 1 then durations.lo_ticks
        else durations.hi_ticks
    end as value_ticks,  -- ticks of the reference
    count(*) as traces  -- that have it
from durations cross join (values (0), (1), (2)) as sides(side)
group by 1, 2, 3, 4

-- How often each value stands at each side of a stage: 0 estimates, 1 lower ends, 2 upper ends; null: no duration.
with coded as (
    select
        stage,
        case outcome
            when 'measured' then 0
            when 'impossible' then 1
            when 'missing' then 2
            when 'refused' then 3
            when 'repeated' then 4
            else 5
        end as outcome,
        estimate_ticks,
        lo_ticks,
        hi_ticks
    from durations
)
select
    coded.stage,  -- its number in the layout's order
    sides.side,  -- 0, 1 or 2
    coded.outcome,  -- 0 measured and 1 impossible have a value; 2 missing, 3 refused, 4 repeated, 5 special have none
    case
        when coded.outcome > 1 then null
        when sides.side = 0 then coded.estimate_ticks
        when sides.side = 1 then coded.lo_ticks
        else coded.hi_ticks
    end as value_ticks,  -- ticks of the reference
    count(*) as traces  -- that have it
from coded cross join (values (0), (1), (2)) as sides(side)
group by 1, 2, 3, 4

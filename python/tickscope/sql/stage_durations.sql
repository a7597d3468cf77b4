-- The durations of one stage, without the traces that lack them; STAGE is its number. Ticks are of the reference.
select
    kind,  -- class of the id
    id,  -- as it was stamped
    cast(0 as int) as occurrence,  -- each id passed once
    estimate_ticks,  -- ticks: lies in the interval
    lo_ticks,  -- ticks: no admissible duration is shorter
    hi_ticks  -- ticks: or longer
from durations
where stage = STAGE and outcome in ('measured', 'impossible')

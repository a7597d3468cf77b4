-- One row a trace: of each stage the estimate and the guaranteed interval, null where it has no duration. Lines with
-- NUMBER stand for each stage of the layout. Ticks are of the reference.
select
    max(case when stage = NUMBER and outcome in ('measured', 'impossible') then estimate_ticks end) as estimate_NUMBER,
    max(case when stage = NUMBER and outcome in ('measured', 'impossible') then lo_ticks end) as lo_NUMBER,
    max(case when stage = NUMBER and outcome in ('measured', 'impossible') then hi_ticks end) as hi_NUMBER,
    kind,  -- class of the id
    id,  -- as it was stamped
    cast(0 as int) as occurrence  -- each id passed once
from durations
group by kind, id

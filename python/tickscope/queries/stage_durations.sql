-- The durations of one stage; STAGE stands for its name. Ticks are of the run's reference.
select
    kind,                              -- class of the id
    id,                                -- as it was stamped
    occurrence,                        -- which passage of the id, from 0
    "STAGE" as estimate_ticks,         -- ticks: lies in the interval
    "STAGE.lo" as lo_ticks,            -- ticks: no admissible duration is shorter
    "STAGE.hi" as hi_ticks             -- ticks: or longer
from durations
where "STAGE" is not null

-- One row a trace and stage: the ticks at its two ends. The lines with POINT stand for each point.
select /*+ broadcast(stages) */
    stages.*,  -- the stage, its points, its slopes
    traces.kind,  -- class of the id
    traces.id,  -- as it was stamped
    case stages.from_point
        when POINT then traces.tick_POINT
    end as from_tick,  -- ticks of the first point's counter
    case stages.to_point
        when POINT then traces.tick_POINT
    end as to_tick,  -- ticks of the second point's counter
    case stages.from_point
        when POINT then traces.value_POINT
    end as from_value,  -- what the program gave with the stamp at the first point
    traces.special,  -- 1: a stamp of many ids, or of an id sent again
    traces.stamps
        - case when traces.tick_POINT is null then 0 else 1 end
        as repeats  -- stamps beyond the first at some point
from traces cross join stages

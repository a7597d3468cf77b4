-- One row a trace: tick and value at each point. The lines with POINT stand for each of them.
-- Stamps are brought together as they are, by the hint: grouped before, they would be as many, each as wide as a trace.
select
    kind,  -- class of the id
    id,  -- as it was stamped
    max(case when point = POINT then tick end) as tick_POINT,  -- ticks of the point's counter
    max(case when point = POINT then value end) as value_POINT,  -- what the program gave with the stamp
    max(case when ids > 1 or attempt > 0 then 1 else 0 end) as special,  -- 1: of many ids, or of one sent again
    count(*) as stamps  -- at all points
from (select /*+ repartition(kind, id) */ * from stamps) as stamps
group by kind, id

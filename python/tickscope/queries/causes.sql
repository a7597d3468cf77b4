-- One row a stage of the path and the whole: X-Lap's rule, of the estimates. Ticks are of the run's reference.
select
    name as stage,                                           -- node.point>node.point, or end-to-end
    is_whole,                                                -- true of end-to-end
    threshold_ticks,                                         -- ticks: an outlier above it, Q75 + 1.5 IQR
    caused,                                                  -- outliers end to end in which it is an outlier, too
    outliers                                                 -- outliers end to end
from jitter

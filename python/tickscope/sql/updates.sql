-- One row an update of which one of two points knows: stage 0 leads from where updates are generated to where they are
-- received. KEY is what tells updates of one thing from those of another. Ticks are of the reference.
select
    coalesce(KEY, 0) as key,  -- value or kind; 0: none
    case when KEY is null then 0 else 1 end as is_keyed,  -- 0: it has none
    kind,  -- class of the id
    id,  -- as it was stamped
    case
        when from_tick is null then 'ungenerated'
        when to_tick is null then 'lost'
        when outcome = 'refused' then 'refused'
        else 'received'
    end as fate,  -- received ones have a delay
    from_tick,  -- ticks of the first point's counter
    to_tick,  -- ticks of the second point's counter
    at_ticks,  -- ticks: when it was received, as estimated
    at_ticks - estimate_ticks as generated_ticks,  -- ticks: when it was generated, as estimated
    estimate_ticks,  -- ticks: its delay
    lo_ticks,  -- ticks: not below
    hi_ticks  -- ticks: nor above
from durations
where stage = 0 and (from_tick is not null or to_tick is not null)

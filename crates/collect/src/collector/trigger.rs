//! Triggers: durations within the node that have what `keep` holds stored.
//!
//! About once a second the records that are new in kept blocks are matched by id. Those of the second point are read
//! before those of the first, so of every second stamp that is found the first one is found too.
//!
//! Guarantees: at most one dump a second, which names the id and the ticks that led to it. Deliberately absent: any
//! bound. A duration that is too long for the window, or of ids beyond [`MOST_OPEN`], is not seen.

use super::*;

/// A duration that has what `keep` holds stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trigger {
    /// The point that it begins at.
    pub from: PointName,
    /// The point that it ends at.
    pub to: PointName,
    /// Ticks that it is longer than.
    pub above_ticks: i64,
}

/// Triggers, and what is known for them.
#[derive(Default)]
pub(super) struct Triggers {
    all: Vec<Watch>,
    looked: Option<Instant>,
}

/// A trigger, and the ids that have passed its first point alone.
struct Watch {
    trigger: Trigger,
    open: BTreeMap<i64, i64>,
    seen: BTreeMap<(u64, u32), ((u32, u32), u32)>,
}

/// Interval at which new records are looked at.
const LOOK_FOR_TRIGGERS_EVERY: Duration = Duration::from_secs(1);
/// Ids that may have passed the first point alone; beyond that all are forgotten.
const MOST_OPEN: usize = 1 << 20;

impl Collector {
    /// Replaces all triggers.
    pub fn set_triggers(&mut self, triggers: Vec<Trigger>) {
        let watch = |trigger| Watch { trigger, open: BTreeMap::new(), seen: BTreeMap::new() };
        self.triggers.all = triggers.into_iter().map(watch).collect();
    }

    /// Dumps if a duration was too long.
    pub(super) fn dump_where_triggered(&mut self, now: Instant) -> Result<()> {
        if self.triggers.all.is_empty() || !is_due(self.triggers.looked, now, LOOK_FOR_TRIGGERS_EVERY) {
            return Ok(());
        }
        self.triggers.looked = Some(now);
        let mut found = None;
        for watch in &mut self.triggers.all {
            let late = watch.look(&self.pools);
            found = found.or(late);
        }
        found.map_or(Ok(()), |why| self.dump(EVERY_POINT, &why).map(|_| ()))
    }
}

impl Watch {
    /// Takes new records in; the first duration among them that is too long, in words.
    fn look(&mut self, pools: &BTreeMap<u64, Watched>) -> Option<String> {
        let Trigger { from, to, above_ticks } = self.trigger.clone();
        let ends = self.new_records(pools, &to);
        let begins = self.new_records(pools, &from);
        if self.open.len() + begins.len() > MOST_OPEN {
            self.open.clear();
        }
        self.open.extend(begins);
        let mut found = None;
        for (id, end) in ends {
            let Some(begin) = self.open.remove(&id) else { continue };
            if end.saturating_sub(begin) > above_ticks && found.is_none() {
                found = Some(format!(
                    "id {id} was at {from} at tick {begin} and at {to} at tick {end}, more than {above_ticks} ticks \
                     apart"
                ));
            }
        }
        found
    }

    /// Ids and ticks of the records of a point that were committed since the last time.
    fn new_records(&mut self, pools: &BTreeMap<u64, Watched>, point: &PointName) -> Vec<(i64, i64)> {
        let mut found = Vec::new();
        for (&instance, watched) in pools {
            watched.pool.kept_at(point, |index, name, records| {
                let seen = self.seen.entry((instance, index)).or_insert((name, 0));
                if seen.0 != name {
                    *seen = (name, 0);
                }
                let new = records(seen.1);
                seen.1 += new.len() as u32;
                found.extend(new);
            });
        }
        self.seen.retain(|(instance, _), _| pools.contains_key(instance));
        found
    }
}

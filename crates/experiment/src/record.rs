//! What a run's end writes of it, whoever ends it: the conductor, or whoever finishes a run that was cut off.
//!
//! Guarantees: written again it says the same again, not twice. Deliberately absent: any process, and any look at a
//! machine.

use std::path::PathBuf;

use tickscope_analysis::unstamped_point;
use tickscope_store::{Event, EventKind, Joined, LayoutText, Manifest, Point, Run, sweep_removed, write_events};
use tickscope_tick::{NodeName, Ordering, PointName, counted, own_points};

use crate::Error;
use crate::declaration::points;
use crate::logs::Log;
use crate::notice;
use crate::object_store::ObjectStore;

/// Memory that the join may hold.
const JOIN_BYTES: usize = 512 << 20;

/// A run, and the events of the run as a whole.
pub(crate) struct RunRecord {
    pub run: Run,
    pub events: Vec<Event>,
}

/// How coarsely a log gives the readings of a point, in ticks of its clock.
pub(crate) type Coarse = (NodeName, PointName, u64);

impl RunRecord {
    pub fn note(&mut self, node: &str, what: EventKind, value: Option<i64>, text: String) {
        self.events.push(Event { node: node.into(), what, value, text, ..Event::default() });
    }

    /// Notes a step that failed; the first one is what the command ends with.
    pub fn go_on(&mut self, failed: &mut Option<Error>, step: Result<(), Error>) {
        if let Err(why) = step {
            self.note(Event::RUN, EventKind::FinishFailed, None, why.to_string());
            failed.get_or_insert(why);
        }
    }

    /// Returns whether the run declares how ids pass its points.
    fn has_layout(&self) -> bool {
        self.run.manifest().layout != LayoutText::default()
    }

    /// Joins the run's stamps, and notes what the join met; returns the number of ids. `None`: the run has no layout,
    /// or its segments lie in object storage; whoever asks it joins it.
    pub fn join(&mut self) -> Result<Option<u64>, Error> {
        // What a collector noted as removed by the window and was killed before it unlinked it.
        for node in self.run.nodes()? {
            sweep_removed(self.run.root(), &node)?;
        }
        if !self.has_layout() || self.run.is_stored_elsewhere()? {
            return Ok(None);
        }
        let joined = tickscope_analysis::join(&self.run, JOIN_BYTES)?;
        self.note_join(&joined);
        Ok(Some(joined.counts.ids))
    }

    /// The points that were stamped, with the resolution of those that a log gave, and those of the layout that were
    /// not.
    pub fn declare_points(&mut self, manifest: &mut Manifest, coarse: &[Coarse]) -> Result<(), Error> {
        manifest.points = points(&self.run)?;
        for (node, point, ticks) in coarse {
            let known = manifest.points.iter_mut().find(|known| known.node == *node && known.name == *point);
            known.into_iter().for_each(|known| known.resolution_ticks = Some(*ticks));
        }
        if self.has_layout() {
            let unstamped = self.unstamped(manifest)?;
            manifest.points.extend(unstamped);
        }
        Ok(())
    }

    /// Points of the layout that nothing was stamped at: each is an event, and its stages are shown as missing.
    fn unstamped(&mut self, manifest: &Manifest) -> Result<Vec<Point>, Error> {
        let known: Vec<String> = manifest.points.iter().map(|point| point.place().to_string()).collect();
        let own = |point: &&Point| own_points::are(point.name.as_str());
        let programs: Vec<String> =
            manifest.points.iter().filter(|point| !own(point)).map(|point| point.place().to_string()).collect();
        let layout = self.run.layout()?;
        let mut unstamped = Vec::new();
        for point in layout.points().iter().filter(|point| !known.contains(&point.place.to_string())) {
            let text = unstamped_point(&self.run, &point.place, &programs)?;
            notice::say(&text);
            let (node, name) = (point.place.node.clone(), point.place.point.clone());
            self.note(node.as_str(), EventKind::PointUnstamped, None, text);
            unstamped.push(Point { node, name, ordering: Ordering::Plain, counter: None, resolution_ticks: None });
        }
        Ok(unstamped)
    }

    /// Logs of programs that read another clock. One that cannot be read becomes an event; the others are imported.
    /// Returns how coarsely each of their points gives its readings, where that is more than a tick of its clock.
    /// `file`: where a log lies, by its position.
    pub fn import_logs(&mut self, logs: &[Log], file: impl Fn(usize, &Log) -> PathBuf) -> Vec<Coarse> {
        let mut coarse = Vec::new();
        for (position, log) in logs.iter().enumerate() {
            let Some(facts) = self.run.manifest().nodes.iter().find(|known| known.name == log.node) else { continue };
            let imported = log.import(&self.run, facts, &file(position, log));
            coarse.extend(imported.coarse.into_iter().map(|(point, ticks)| (log.node.clone(), point, ticks)));
            if imported.what == EventKind::LogRefused {
                notice::say(&imported.text);
            }
            self.note(log.node.as_str(), imported.what, Some(imported.value as i64), imported.text);
            if let Some((places, text)) = imported.gaps {
                notice::say(&text);
                self.note(log.node.as_str(), EventKind::LogGaps, Some(places as i64), text);
            }
        }
        coarse
    }

    pub fn write_events(&self) -> Result<(), Error> {
        if self.events.is_empty() {
            return Ok(());
        }
        Ok(write_events(&self.run.paths().events().join("run.parquet"), &self.events)?)
    }

    /// Writes down what every file is; of a run that goes to object storage, once it is there.
    pub fn write_digests(&self) -> Result<(), Error> {
        let store = ObjectStore::of_run(self.run.manifest())?;
        let list = self.run.digest_list()?;
        match store {
            Some(store) => store.upload(&self.run, &list),
            None => Ok(list.write()?),
        }
    }

    fn note_join(&mut self, joined: &Joined) {
        for refused in &joined.refused {
            self.note(Event::RUN, EventKind::FileRefused, None, refused.to_string());
        }
        if joined.counts.untold > 0 {
            let text = format!(
                "ids whose passages nothing tells apart, of {} that passed a point more than once",
                joined.counts.repeated
            );
            self.note(Event::RUN, EventKind::PassagesUntold, Some(joined.counts.untold as i64), text);
        }
        let layout = self.run.layout().ok();
        for found in layout.iter().flat_map(|layout| joined.findings(layout)) {
            let node = found.node.as_ref().map_or(Event::RUN, NodeName::as_str).to_string();
            self.note(&node, found.what, Some(found.value), found.text);
        }
        let points = layout.iter().flat_map(|layout| layout.points());
        let places: Vec<_> = points.map(|point| point.place.clone()).collect();
        for ((place, counts), &missing) in places.iter().zip(&joined.counts.points).zip(&joined.missing) {
            let ids = counted(joined.counts.ids, "id");
            for (what, count, text) in [
                // Ids that its policy leaves out are none of these; the table says which those are.
                (EventKind::IdsMissing, missing, format!("at {place}, of {ids}")),
                (
                    EventKind::IdsRepeated,
                    counts.duplicates,
                    format!("{} that were there before; {ids}", Event::ids_repeated_at(place)),
                ),
                (EventKind::IdsOutOfOrder, counts.out_of_order, format!("at {place}, of {ids}")),
            ] {
                if count > 0 {
                    self.note(place.node.as_str(), what, Some(count as i64), text);
                }
            }
        }
    }
}

//! The window of a run: segments whose stamps are all older are removed, whole, the oldest of a point first.
//!
//! Idea: a segment says in its footer when it was written, by the clock since boot, which nobody sets; its stamps were
//! taken before. So one that was written longer ago than the window holds no stamp that is inside it. What goes is
//! noted on disk first ([`RemovedNote`]), then unlinked; a collector that is killed
//! between any two of these leaves a note that covers what still lies there, and the next one unlinks it.
//!
//! Assumes: segments were written on this boot; of another boot their age is unknown, and they stay. Guarantees: no
//! stamp that is younger than the window goes; a part goes only after every part of its point with a smaller number.
//! One that can be read no more is told once and goes with the next that is too old: it was written before that one.
//! Deliberately absent: anything but stamps. Brackets and events of a run stay, and so do clocks' stamps that are
//! evidence for twice the window: what is kept of a run stands on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Collector, Pending, is_due};
use tickscope_store::{
    ChannelCount, EventKind, Origin, Paths, RemovedNote, Result, Segment, files_in, keyed_folders, part_number,
    sweep_removed, unlink,
};
use tickscope_tick::{NodeName, PointName, own_points};

/// What was removed of a node, and when was looked.
pub(super) struct Window {
    note: RemovedNote,
    looked: Option<Instant>,
    /// By file: how often it could not be read.
    unreadable: BTreeMap<PathBuf, u32>,
}

/// What is about to go.
#[derive(Default)]
struct Going {
    files: Vec<PathBuf>,
    counts: Vec<ChannelCount>,
    /// Those files that could not be read, and why.
    unreadable: Vec<Unreadable>,
}

/// A part that cannot be read.
struct Unreadable {
    point: PointName,
    number: u64,
    path: PathBuf,
    why: String,
}

/// A part that could not be read so often is not waited for any more.
const TRIES: u32 = 3;

/// The shortest and the longest time that a segment of a window spans.
const SEGMENT: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// The time that a segment of such a window spans at most: an eighth of it, a minute at most.
pub(super) fn segment_of(keep: Duration) -> Duration {
    (keep / 8).clamp(*SEGMENT.start(), *SEGMENT.end()).min(keep)
}

/// What goes, and the note of all that went.
struct Removal {
    note: RemovedNote,
    going: Going,
}

/// The age from which a point's segments are removed.
#[derive(Clone, Copy)]
struct Age {
    stay: Duration,
    /// Now, since boot.
    now_ns: u64,
}

/// How long stamps of a point stay: clocks' own serve stamps of others, which may lie in one segment with younger ones.
fn stay(point: &PointName, keep: Duration) -> Duration {
    if own_points::are(point.as_str()) { keep * 2 } else { keep }
}

impl Window {
    /// What was removed before; what a collector noted that was killed before it unlinked it goes now.
    pub(super) fn resume(run: &Path, node: &NodeName) -> Result<Self> {
        sweep_removed(run, node.as_str())?;
        let note = RemovedNote::read(&Paths::of(run).removed(node.as_str()))?;
        Ok(Self { note, looked: None, unreadable: BTreeMap::new() })
    }
}

impl Collector {
    /// Removes segments that are older than the window, if the run keeps one.
    pub(super) fn keep_window(&mut self, now: Instant) -> Result<()> {
        let Some(keep) = self.settings.keep else { return Ok(()) };
        if !is_due(self.window.looked, now, segment_of(keep) / 2) {
            return Ok(());
        }
        self.remove_older(keep, since_boot_ns())?;
        self.window.looked = Some(now);
        Ok(())
    }

    fn remove_older(&mut self, keep: Duration, now_ns: u64) -> Result<()> {
        let mut removal = Removal { note: self.window.note.clone(), going: Going::default() };
        let stamps = Paths::of(&self.settings.run).node_stamps(self.settings.node.as_str());
        for (name, folder) in keyed_folders(&stamps, "point")? {
            let Ok(point) = PointName::new(&name) else { continue }; // somebody else's folder
            self.remove_older_of(&point, &folder, Age { stay: stay(&point, keep), now_ns }, &mut removal)?;
        }
        self.window.unreadable.retain(|path, _| path.exists());
        self.remove_noted(removal)
    }

    fn remove_older_of(
        &mut self,
        point: &PointName,
        folder: &Path,
        age: Age,
        Removal { note, going }: &mut Removal,
    ) -> Result<()> {
        let (growing, mut unreadable) = (self.growing_part(point), Vec::new());
        for path in files_in(folder, "parquet")? {
            let Some(number) = part_number(&path) else { continue };
            if number < note.below(point.as_str()) {
                going.files.push(path); // one that was emptied as it went, by whoever fetches
                continue;
            }
            let origin = match Segment::open(&path).and_then(|segment| segment.origin()) {
                Ok(origin) => origin,
                Err(_) if growing == Some(number) => return Ok(()),
                Err(why) => {
                    let tries = self.window.unreadable.entry(path.clone()).or_default();
                    *tries += 1;
                    if *tries < TRIES {
                        return Ok(()); // such as of too many open files: it may be read later
                    }
                    unreadable.push(Unreadable { point: point.clone(), number, path, why: why.to_string() });
                    continue;
                }
            };
            let is_old = origin.written.is_some_and(|written| is_older(written, age.now_ns, age.stay));
            if !is_old || growing == Some(number) {
                return Ok(());
            }
            // They were written before it.
            for part in unreadable.drain(..) {
                note.add(point, part.number, &Origin::default());
                going.files.push(part.path.clone());
                going.unreadable.push(part);
            }
            note.add(point, number, &origin);
            going.counts.extend(&origin.counts);
            going.files.push(path);
        }
        Ok(())
    }

    /// Notes what goes, and then unlinks it.
    fn remove_noted(&mut self, Removal { mut note, going }: Removal) -> Result<()> {
        for Unreadable { point, number, why, path } in &going.unreadable {
            let text = format!(
                "{} could not be read when it became older than the window; how many stamps were lost with it is not \
                 known: {why}",
                path.display()
            );
            let event = self.event(EventKind::PartsMissing, text);
            self.write_events(&format!("unreadable-{point}-{number}"), &[event])?;
        }
        if note != self.window.note {
            note.forget_pools(|pool| self.note.is_present(pool));
            note.write(&Paths::of(&self.settings.run).removed(self.settings.node.as_str()))?;
            self.window.note = note;
            self.ledger.remove(&going.counts);
            self.steps.reached("what goes is noted")?;
        }
        for path in &going.files {
            unlink(path)?;
            self.steps.reached("an old segment is gone")?;
        }
        Ok(())
    }

    /// The number of the segment of a point that may still be replaced.
    fn growing_part(&mut self, point: &PointName) -> Option<u64> {
        let grows = |pending: &Pending| pending.growing.is_some();
        if !self.pending.get(point).is_some_and(grows) {
            return None;
        }
        let folder = self.folder(point);
        self.parts.next(&folder).ok().and_then(|place| part_number(&place))
    }
}

/// Returns whether what was written then is older than the window; of what seems to come from another boot: no.
fn is_older(written_ns: u64, now_ns: u64, keep: Duration) -> bool {
    now_ns.checked_sub(written_ns).is_some_and(|age| u128::from(age) > keep.as_nanos())
}

/// Time since the machine was booted, suspends included, ns: nobody sets it.
pub(super) fn since_boot_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a timespec that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_goes_when_the_whole_window_has_passed_since_it_was_written_and_not_before() {
        let keep = Duration::from_nanos(100);
        assert!(!is_older(50, 150, keep) && is_older(50, 151, keep));
        assert!(!is_older(200, 150, keep), "of another boot");
    }

    #[test]
    fn segments_are_an_eighth_of_the_window_and_a_minute_at_most() {
        let of = |seconds| segment_of(Duration::from_secs(seconds)).as_millis();
        assert_eq!([1, 5, 80, 1800].map(of), [1000, 1000, 10_000, 60_000]);
    }

    #[test]
    fn what_the_clocks_stamped_stays_twice_as_long() {
        let of = |point| stay(&PointName::new(point).unwrap(), Duration::from_secs(10)).as_secs();
        assert_eq!(["work", "clock-bracket.realtime", "probe-reply-sent"].map(of), [10, 20, 20]);
    }
}

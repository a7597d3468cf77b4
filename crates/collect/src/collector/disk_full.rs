//! A disk that takes nothing for a while, or is gone: what was not stored stays in shared memory, and is tried again.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Collector, Pending};
use crate::watched_pool::ReadyBlock;
use tickscope_store::{Error, Event, EventKind, Result};
use tickscope_tick::{counted, printable};

/// A time in which the disk took nothing.
pub(super) struct DiskFull {
    since: Instant,
    /// A name for its event: when it began, milliseconds of Unix.
    name: u128,
    why: String,
    /// Whether what failed has been stored since.
    over: Option<Duration>,
}

impl Collector {
    /// What a round returned; `None`: the disk did not take what there was to store, which waits.
    pub(super) fn wait_for_room(&mut self, round: Result<u32>) -> Result<Option<u32>> {
        let result = round.and_then(|filled| self.tell_of_room().map(|()| filled));
        match result.map_err(|why| self.run_folder.reason(why)) {
            Ok(filled) => Ok(Some(filled)),
            Err(why) if why.is_disk_full() => {
                self.note_full(&why);
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }

    fn note_full(&mut self, why: &Error) {
        if self.full.is_none() {
            let text = format!("{why}; stamps wait in {} meanwhile", self.settings.directory.display());
            eprintln!("tickscope: {}", printable(&text));
        }
        let name = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let new = || DiskFull { since: Instant::now(), name, why: why.to_string(), over: None };
        self.full.get_or_insert_with(new).over = None;
    }

    /// Tells of a full disk once what it did not take is stored: whatever was due then is due until it is.
    pub(super) fn tell_of_room(&mut self) -> Result<()> {
        let Some(full) = &mut self.full else { return Ok(()) };
        let seconds = full.over.get_or_insert_with(|| full.since.elapsed()).as_secs_f64().ceil() as i64;
        let text = format!("nothing could be stored for {seconds} s, and stamps waited in shared memory: {}", full.why);
        let name = format!("disk-full-{}", full.name);
        let event = Event { value: Some(seconds), ..self.event(EventKind::DiskFull, text) };
        self.write_events(&name, &[event])?;
        self.full = None;
        Ok(())
    }

    /// Adds to an error of a disk that takes nothing how many stamps it leaves in shared memory. Of programs that live,
    /// more may come.
    pub(super) fn count_unstored(&mut self, why: Error) -> Error {
        if !why.is_disk_full() {
            return why;
        }
        match self.unstored() {
            Ok(stamps) => why.and(format_args!("at least {} not stored", are(stamps))),
            Err(uncounted) => why.and(format_args!("stamps that are not stored could not be counted: {uncounted}")),
        }
    }

    /// Stamps that lie in watched pools and in no segment.
    fn unstored(&mut self) -> Result<u64> {
        let now = Instant::now();
        for pool in self.watched() {
            // What fails here is the event that the disk does not take: the blocks were seen before.
            let _ = self.look_at(pool, now);
        }
        let mut open = self.open_blocks()?;
        for point in self.pending.keys() {
            open.entry(point.clone()).or_default();
        }
        let mut stamps = 0;
        for (point, blocks) in open {
            let mut pending = self.pending.remove(&point).unwrap_or_default();
            pending.blocks.sort();
            let counted = self.rows_beyond(&pending, &blocks);
            self.pending.insert(point, pending);
            stamps += counted?;
        }
        Ok(stamps)
    }

    fn rows_beyond(&mut self, pending: &Pending, open: &[ReadyBlock]) -> Result<u64> {
        let stored = pending.growing.as_ref().map_or(0, |growing| growing.rows);
        Ok(self.take(pending, open)?.rows().saturating_sub(stored))
    }
}

fn are(stamps: u64) -> String {
    format!("{} {}", counted(stamps, "stamp"), if stamps == 1 { "is" } else { "are" })
}

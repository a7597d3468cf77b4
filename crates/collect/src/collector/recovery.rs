//! Changes in a stamp directory: new pools, ended programs, closed channels, and files that are not ours.
//!
//! Each event's file is named after its cause, so that writing it again after a kill replaces it.

use std::fs;
use std::path::Path;
use std::time::{Instant, UNIX_EPOCH};
use tickscope_stamp::directory;

use super::{Collector, Watched};
use crate::watched_pool::{WatchedPool, count};
use tickscope_store::{Error, Event, EventKind, Result};

/// Files left alone that have an event each: a stranger may make any number.
const MOST_LEFT_ALONE: u64 = 1000;
/// The longest name of a note that a program leaves.
const MOST_NAME_BYTES: usize = 64;

impl Collector {
    /// Finds new pools, and what programs left that could not make one.
    pub(super) fn list(&mut self, now: Instant) -> Result<()> {
        let directory = self.settings.directory.clone();
        let unreadable = |e| Error::io(&directory, "list the pools in", e);
        let listing = directory::list(&directory, &self.trust).map_err(unreadable)?;
        for path in &listing.pools {
            self.add_pool(path)?;
        }
        for path in &listing.refused {
            self.note_refused_program(path)?;
        }
        for (path, why) in listing.closed {
            if !self.ignored.contains(&path) {
                self.leave_alone(&path, format!("cannot look into {}: {why}; it is left alone", path.display()))?;
            }
        }
        self.listed = Some(now);
        Ok(())
    }

    fn add_pool(&mut self, path: &Path) -> Result<()> {
        if self.ignored.contains(path) || self.pools.values().any(|watched| watched.pool.path() == path) {
            return Ok(());
        }
        match WatchedPool::open(path, &self.trust) {
            Ok(pool) => {
                self.pools.insert(pool.instance(), Watched { pool, looked: None });
                let bytes = self.pools.values().map(|watched| watched.pool.bytes()).sum();
                self.report.pool_bytes = self.report.pool_bytes.max(bytes);
                Ok(())
            }
            // A program may have ended, and its pool been removed, since the directory was listed.
            Err(_) if !path.exists() => Ok(()),
            Err(why) => self.leave_alone(path, why),
        }
    }

    /// Records a file that is not a pool of this version as an event, once, and never touches it.
    fn leave_alone(&mut self, path: &Path, why: String) -> Result<()> {
        self.ignored.insert(path.into());
        self.report.left_alone += 1;
        if self.report.left_alone > MOST_LEFT_ALONE {
            return Ok(());
        }
        let last = if self.report.left_alone == MOST_LEFT_ALONE { "; further ones are not told" } else { "" };
        let why = why + last;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.write_events(&format!("left-alone-{name}"), &[self.event(EventKind::PoolLeftAlone, why)])
    }

    fn note_refused_program(&mut self, path: &Path) -> Result<()> {
        let Ok(file) = fs::symlink_metadata(path) else { return Ok(()) };
        if self.ignored.contains(path) {
            return Ok(());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !file.is_file() || !self.trust.believes(&file) || name.len() > MOST_NAME_BYTES {
            let why = "expected the note of a program of this user, found another's file, or none; remove it";
            return self.leave_alone(path, format!("{}: {why}. It is left alone", path.display()));
        }
        let who = name.strip_prefix("refused-").unwrap_or_default();
        let mut parts = who.splitn(2, '-');
        let (pid, errno) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let reason = errno.parse().map(std::io::Error::from_raw_os_error).map_or(errno.into(), |e| e.to_string());
        let text = format!(
            "process {pid} could not make its pool: {reason}; its points were off. Enlarge the tmpfs, set \
             TICKSCOPE_POOL_BYTES lower, or check the directory's rights"
        );
        let made = fs::metadata(path).and_then(|file| file.modified()).ok();
        let since = made.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |time| time.as_millis());
        self.write_events(&format!("refused-{who}-{since}"), &[self.event(EventKind::PoolRefused, text)])?;
        self.steps.reached("a refused program is noted")?;
        self.remove(path)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, "remove", e)),
            _ => Ok(()),
        }
    }

    /// Ends what has ended and is stored: closed channels give their entries back, dead programs' pools go.
    pub(super) fn tidy(&mut self) -> Result<()> {
        for instance in self.watched() {
            let Some(watched) = self.pools.get(&instance) else { continue };
            if watched.pool.is_held() {
                self.end_channels(instance)?;
            } else {
                self.end_pool(instance)?;
            }
        }
        Ok(())
    }

    fn end_channels(&mut self, instance: u64) -> Result<()> {
        let Some(watched) = self.pools.get(&instance) else { return Ok(()) };
        let finished = watched.pool.finished_channels();
        // A channel that was closed since the last look has its last counts still to be taken.
        let known = |serial: &u32| self.ledger.is_closed((instance, *serial));
        let finished: Vec<u32> = finished.into_iter().filter(known).collect();
        if finished.is_empty() {
            return Ok(());
        }
        self.write_last_losses(instance, |serial| finished.contains(&serial))?;
        self.ledger.write()?;
        self.steps.reached("closed channels are written")?;
        if let Some(watched) = self.pools.get(&instance) {
            finished.iter().for_each(|&serial| watched.pool.free_entry(serial));
        }
        Ok(())
    }

    /// Writes down what channels lost that no later block tells of.
    fn write_last_losses(&mut self, instance: u64, ended: impl Fn(u32) -> bool) -> Result<()> {
        let Some(watched) = self.pools.get(&instance) else { return Ok(()) };
        for (serial, lost) in watched.pool.lost_at_the_end() {
            if ended(serial) {
                let event = self.lost((instance, serial), lost);
                self.write_events(&format!("end-{instance:016x}-{serial}"), &[event])?;
                self.report.lost = self.report.lost.saturating_add(lost.stamps);
            }
        }
        Ok(())
    }

    /// Removes the pool of a program that has ended, once all its blocks are stored.
    fn end_pool(&mut self, instance: u64) -> Result<()> {
        let waits = |block: &crate::watched_pool::ReadyBlock| block.channel.0 == instance;
        if self.pending.values().any(|pending| pending.blocks.iter().any(waits)) {
            return Ok(());
        }
        self.write_last_losses(instance, |_| true)?;
        self.write_events(&format!("pool-{instance:016x}"), &self.obituary(instance))?;
        self.ledger.write()?;
        self.steps.reached("the pool's end is written")?;
        let Some(watched) = self.pools.remove(&instance) else { return Ok(()) };
        self.report.pools_ended += 1;
        if watched.pool.damaged().is_empty() {
            self.remove(watched.pool.path())?;
            self.steps.reached("the pool is removed")?;
            self.ledger.forget(instance);
        } else {
            self.ignored.insert(watched.pool.path().into());
            self.report.left_alone += 1;
        }
        Ok(())
    }

    fn obituary(&self, instance: u64) -> Vec<Event> {
        let Some(Watched { pool, .. }) = self.pools.get(&instance) else { return Vec::new() };
        let mut events = Vec::new();
        if !pool.was_closed() {
            let uncommitted = self.ledger.of_pool(instance).map(|channel| channel.uncommitted).sum();
            let text = format!(
                "{} ended without closing its channels; all that it had committed is stored, and {uncommitted} \
                 stamp(s) it was in the middle of are not",
                pool.process()
            );
            events.push(Event { value: Some(uncommitted), ..self.event(EventKind::Recovered, text) });
        }
        for (what, number) in pool.homeless() {
            let text = format!(
                "{number} by {}; open a channel under a valid name before stamping, and stamp before closing it",
                pool.process()
            );
            events.push(Event { value: Some(count(number)), ..self.event(what, text) });
        }
        for (block, why) in pool.damaged() {
            let text = format!("{}: block {block} holds {why}; the file is left alone", pool.path().display());
            events.push(self.event(EventKind::BlockLeftAlone, text));
        }
        events
    }
}

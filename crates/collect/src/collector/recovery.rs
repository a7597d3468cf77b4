//! Changes in a stamp directory: new pools, ended programs, closed channels, and files that are not ours.
//!
//! Each event's file is named after its cause, so that writing it again after a kill replaces it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Instant, UNIX_EPOCH};
use tickscope_stamp::directory;
use tickscope_tick::own_points;

use super::{Collector, Watched};
use crate::watched_pool::claim::Claim;
use crate::watched_pool::{Refused, WatchedPool, count};
use tickscope_store::{Channel, ChannelState, Error, Event, EventKind, Result};

/// Files left alone that have an event each: a stranger may make any number.
const MOST_LEFT_ALONE: u64 = 1000;
/// The longest name of a note that a program leaves.
const MOST_NAME_BYTES: usize = 64;

impl Collector {
    /// Finds new pools, and what programs left that could not make one. The others are left alone.
    pub(super) fn list(&mut self, now: Instant) -> Result<()> {
        let directory = self.settings.directory.clone();
        let unreadable = |e| Error::io(&directory, "list the pools in", e);
        self.short = false;
        let listing = directory::list(&directory, &self.trust).map_err(unreadable)?;
        self.note.see(&listing);
        for path in listing.pools.iter().chain(&listing.refused) {
            let name = path.file_name().unwrap_or_default();
            if self.is_known(path, name) {
                continue;
            }
            // Asked of the entry itself, so that no link is followed and nothing odd is opened.
            match fs::symlink_metadata(path) {
                Err(_) => {} // gone since
                Ok(entry) if !entry.is_file() => {
                    self.leave_alone(path, "expected a file, found none; it is left alone")?
                }
                Ok(_) if name.as_bytes().starts_with(b"pool-") => self.add_pool(path)?,
                Ok(note) => self.note_refused_program(path, &note)?,
            }
        }
        self.report.keyless = listing.keyless;
        for (path, why) in listing.closed {
            // Beyond that they are not even kept in mind: a stranger may make new ones for ever.
            if !self.ignored.contains(&path) && self.report.left_alone < MOST_LEFT_ALONE {
                self.leave_alone(&path, &format!("cannot look into it: {why}; it is left alone"))?;
            }
        }
        self.listed = Some(now);
        Ok(())
    }

    /// Tells of pools that are gone though their programs had not ended when they were looked at last: somebody removed
    /// them, or a container was started again on this boot. A collector notes the end of a pool before it removes it.
    /// For a node whose stamps were always in this directory, and that no other run collects from.
    pub fn tell_lost_memory(&mut self) -> Result<()> {
        let mut gone: BTreeMap<u64, Vec<Channel>> = BTreeMap::new();
        for channel in self.ledger.channels().filter(|channel| channel.is_in_memory() && self.note.lacks(channel.pool))
        {
            gone.entry(channel.pool).or_default().push(channel.clone());
        }
        for (pool, channels) in gone {
            let points: BTreeSet<String> = channels.iter().map(|channel| channel.point.to_string()).collect();
            let points = points.into_iter().collect::<Vec<_>>().join(", ");
            let text = format!(
                "the memory that process {} stamped into (at {points}) is gone, and nobody had emptied it: what it \
                 stamped since the last look is in no count, so how many stamps were lost is not known. Was a \
                 container started anew, or the stamp directory removed?",
                channels[0].pid
            );
            self.write_events(&format!("memory-lost-{pool:016x}"), &[self.event(EventKind::MemoryLost, text)])?;
            for channel in channels {
                self.ledger.update((pool, channel.serial), |channel| channel.state = ChannelState::Recovered);
            }
        }
        self.ledger.write()
    }

    fn is_known(&self, path: &Path, name: &OsStr) -> bool {
        let watched = directory::instance_of(name).and_then(|instance| self.pools.get(&instance));
        watched.is_some_and(|watched| watched.pool.path() == path) || self.ignored.contains(path)
    }

    fn add_pool(&mut self, path: &Path) -> Result<()> {
        match WatchedPool::open(path, &self.trust) {
            Ok(pool) if self.pools.contains_key(&pool.instance()) => {
                self.leave_alone(path, "expected each pool once, found a second of its name; it is left alone")
            }
            Ok(pool) if !self.is_of_this_node(&pool) => self.leave_alone(path, &self.why_another_node(&pool)),
            Ok(mut pool) => {
                pool.recall(&self.ledger);
                if self.pools.values().filter(|watched| watched.pool.is_open()).count() >= self.descriptors {
                    pool.close();
                }
                self.pools.insert(pool.instance(), Watched { pool, looked: None, told_late: false, told_claim: false });
                let bytes = self.pools.values().map(|watched| watched.pool.bytes()).sum();
                self.report.pool_bytes = self.report.pool_bytes.max(bytes);
                Ok(())
            }
            // A program may have ended, and its pool been removed, since the directory was listed.
            Err(_) if !path.exists() => Ok(()),
            Err(Refused::Later) => {
                self.short = true;
                Ok(())
            }
            Err(Refused::Foreign(why)) => {
                self.leave_alone(path, why.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&why))
            }
        }
    }

    /// Records a file that cannot be collected as an event, once, and never touches it.
    fn leave_alone(&mut self, path: &Path, why: &str) -> Result<()> {
        if self.report.left_alone < MOST_LEFT_ALONE {
            let last = self.report.left_alone + 1 == MOST_LEFT_ALONE;
            let text = format!("{}: {why}{}", path.display(), if last { "; further ones are not listed" } else { "" });
            let event = self.event(EventKind::PoolLeftAlone, text.replace(char::is_control, "\u{fffd}"));
            // Two users may have files of one name.
            let name = path.strip_prefix(&self.settings.directory).unwrap_or(path).as_os_str();
            self.write_events(&format!("left-alone-{}", short(name)), &[event])?;
        }
        self.ignored.insert(path.into());
        self.report.left_alone += 1;
        Ok(())
    }

    fn note_refused_program(&mut self, path: &Path, note: &fs::Metadata) -> Result<()> {
        let name = path.file_name().unwrap_or_default();
        let who = name.to_str().and_then(|name| name.strip_prefix("refused-")).and_then(refusal);
        let Some((pid, errno)) = who.filter(|_| name.len() <= MOST_NAME_BYTES) else {
            return self.leave_alone(path, "expected the name refused-PID-ERRNO; it is left alone");
        };
        if !self.trust.believes(note) {
            let why = "expected the note of a program of this user, found another's file; remove it. It is left alone";
            return self.leave_alone(path, why);
        }
        let reason = std::io::Error::from_raw_os_error(errno);
        let remedy = tickscope_stamp::directory::remedy(errno);
        let text = format!("process {pid} could not make its pool: {reason}; its points were off. {remedy}");
        let since = note
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |time| time.as_millis());
        self.write_events(&format!("refused-{pid}-{errno}-{since}"), &[self.event(EventKind::PoolRefused, text)])?;
        self.steps.reached("a refused program is noted")?;
        self.remove_or_leave(path)
    }

    /// Removes a file; one that this process may not remove is told and left.
    fn remove_or_leave(&mut self, path: &Path) -> Result<()> {
        match self.remove(path) {
            Err(why) => self.leave_alone(path, &format!("all of it is stored, but {why}")),
            Ok(()) => Ok(()),
        }
    }

    /// Tells at once what is wrong with a pool: its program may live for a long time.
    pub(super) fn tell_oddities(&mut self, instance: u64) -> Result<()> {
        let Some(watched) = self.pools.get_mut(&instance) else { return Ok(()) };
        if !watched.pool.has_news() {
            return Ok(());
        }
        let told = self.write_events(&format!("odd-{instance:016x}"), &self.oddities(instance));
        if let (Err(_), Some(watched)) = (&told, self.pools.get_mut(&instance)) {
            watched.pool.tell_again();
        }
        told
    }

    /// Tells of a pool that its program waited for, once one of its channels is known. Those of tickscope's own
    /// processes lie within nobody's stages.
    pub(super) fn tell_lateness(&mut self, instance: u64) -> Result<()> {
        let Some(watched) = self.pools.get(&instance).filter(|watched| !watched.told_late) else { return Ok(()) };
        let Some([from, until]) = watched.pool.lateness() else { return Ok(()) };
        let is_programs = |channel: &&Channel| !own_points::are(channel.point.as_str());
        let Some(channel) = self.ledger.of_pool(instance).find(is_programs) else { return Ok(()) };
        let text = format!(
            "{} waited while its pool was made, from the one tick to the other: at a forked child's first stamp, or as \
             a library was loaded late. Stages that span it are longer by it",
            watched.pool.process()
        );
        let event = Event {
            channel: Some(channel.channel),
            domain: Some(format!("{}.{}", self.settings.node, watched.pool.counter())),
            tick: Some(from),
            until: Some(until),
            ..self.event(EventKind::PoolLate, text)
        };
        self.write_events(&format!("late-{instance:016x}"), &[event])?;
        if let Some(watched) = self.pools.get_mut(&instance) {
            watched.told_late = true;
        }
        Ok(())
    }

    /// Tells what a program says of its readings, once one of its channels is known.
    pub(super) fn tell_claim(&mut self, instance: u64) -> Result<()> {
        let Some(watched) = self.pools.get(&instance).filter(|watched| !watched.told_claim) else { return Ok(()) };
        let Some(Claim { text, ps }) = watched.pool.claim_of_program() else { return Ok(()) };
        let Some(channel) = self.ledger.of_pool(instance).next() else { return Ok(()) };
        let cost = ps.map(|ps| format!("; a reading took it {}.{} ns at its start", ps / 1000, ps / 100 % 10));
        let text = format!("stamps of {} are of {text}{}", watched.pool.process(), cost.unwrap_or_default());
        let event = Event { channel: Some(channel.channel), value: ps, ..self.event(EventKind::ProgramReading, text) };
        self.write_events(&format!("reading-{instance:016x}"), &[event])?;
        if let Some(watched) = self.pools.get_mut(&instance) {
            watched.told_claim = true;
        }
        Ok(())
    }

    fn oddities(&self, instance: u64) -> Vec<Event> {
        let Some(Watched { pool, .. }) = self.pools.get(&instance) else { return Vec::new() };
        let file = pool.path().display();
        let left = pool.damaged().iter().map(|(block, why)| {
            let text = format!("{file}: block {block} holds {why}; the file is left alone");
            self.event(EventKind::BlockLeftAlone, text)
        });
        let taken = pool.doubtful().iter().map(|(block, said)| {
            let text = format!(
                "{file}: block {block} is inconsistent ({said}); its stamps that were in no file were recovered"
            );
            self.event(EventKind::BlockLeftAlone, text)
        });
        let cut_off = pool.is_cut_off().then(|| {
            let text = format!("{file}: cut short while {} stamped into it; what lay there is lost", pool.process());
            self.event(EventKind::PoolLeftAlone, text)
        });
        left.chain(taken).chain(cut_off).collect()
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
        let lost = self.write_last_losses(instance, |serial| finished.contains(&serial))?;
        self.take_last_counts(instance, |serial| finished.contains(&serial))?;
        self.ledger.write()?;
        self.report.lost = self.report.lost.saturating_add(lost);
        self.steps.reached("closed channels are written")?;
        if let Some(watched) = self.pools.get(&instance) {
            finished.iter().for_each(|&serial| watched.pool.free_entry(serial));
        }
        Ok(())
    }

    /// Writes down what channels lost that no later block tells of. Returns how many stamps.
    fn write_last_losses(&mut self, instance: u64, ended: impl Fn(u32) -> bool) -> Result<u64> {
        let Some(watched) = self.pools.get(&instance) else { return Ok(0) };
        let mut stamps = 0u64;
        for (serial, lost) in watched.pool.lost_at_the_end() {
            if ended(serial) {
                let event = self.lost((instance, serial), lost);
                self.write_events(&format!("end-{instance:016x}-{serial}"), &[event])?;
                stamps = stamps.saturating_add(lost.stamps);
            }
        }
        Ok(stamps)
    }

    /// Removes the pool of a program that has ended, once all its blocks are stored.
    fn end_pool(&mut self, instance: u64) -> Result<()> {
        let waits = |block: &crate::watched_pool::ReadyBlock| block.channel.0 == instance;
        if self.pending.values().any(|pending| pending.blocks.iter().any(waits)) {
            return Ok(());
        }
        let lost = self.write_last_losses(instance, |_| true)?;
        self.take_last_counts(instance, |_| true)?;
        self.write_events(&format!("pool-{instance:016x}"), &self.obituary(instance))?;
        self.ledger.write()?;
        self.steps.reached("the pool's end is written")?;
        let Some(watched) = self.pools.remove(&instance) else { return Ok(()) };
        self.report.lost = self.report.lost.saturating_add(lost);
        self.report.pools_ended += 1;
        if watched.pool.damaged().is_empty() && !watched.pool.is_cut_off() {
            self.remove_or_leave(watched.pool.path())?;
            self.steps.reached("the pool is removed")?;
            self.ledger.forget(instance);
            self.forget_counts(instance);
            self.note.forget_pool(instance);
        } else {
            self.ignored.insert(watched.pool.path().into());
            self.report.left_alone += 1;
            self.forget_counts(instance);
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
        if pool.overwriting() > 0 {
            let text = format!(
                "{} was killed while it overwrote its oldest stamps: what a channel overwrote since the last block \
                 that is stored of it is in no count, so `overwritten` says at least how many there were",
                pool.process()
            );
            events.push(self.event(EventKind::OverwritingCutOff, text));
        }
        if pool.unwritten() > 0 {
            let number = count(pool.unwritten());
            let text = format!(
                "of {number} stamps under the policy all of {} the log has none: set TICKSCOPE_LOGS to a directory \
                 with room; the stamps themselves are stored",
                pool.process()
            );
            events.push(Event { value: Some(number), ..self.event(EventKind::StampsUnwritten, text) });
        }
        for (what, number) in pool.homeless() {
            let remedy = match what {
                EventKind::StampsWithoutChannel => {
                    "no channel was opened, or all of its pool were in use: those of ended threads are free again once \
                     a collector took them. Collect while it runs (--follow), or raise TICKSCOPE_POOL_BYTES"
                }
                EventKind::StampsAfterClose => "stamp before closing a channel",
                _ => "open a channel under a valid name",
            };
            let text = format!("{number} by {}; {remedy}", pool.process());
            events.push(Event { value: Some(count(number)), ..self.event(what, text) });
        }
        events
    }
}

/// Process and error of `PID-ERRNO`.
fn refusal(who: &str) -> Option<(i32, i32)> {
    let (pid, errno) = who.split_once('-')?;
    Some((pid.parse().ok()?, errno.parse().ok()?))
}

/// A name for a file of its own: short and of plain characters, with a digest where that changed something.
fn short(name: &OsStr) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let text = name.to_string_lossy();
    if text.len() <= 60 && text.chars().all(plain) {
        return text.into_owned();
    }
    let kept: String = text.chars().filter(|&c| plain(c)).take(40).collect();
    // FNV-1a: the same in every version, so that another collector replaces the file.
    let digest = name
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |digest, &byte| (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{kept}-{digest:016x}")
}

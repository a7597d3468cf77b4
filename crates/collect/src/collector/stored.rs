//! The note in a stamp directory of what is stored of blocks that still lie there: a collector for another run takes
//! the rest.
//!
//! Footers tell it to collectors of their own run. A line is `open` or `whole`, the run's identity, node, pool, serial,
//! block, slots, those of them that were not committed, and the run's place; each run and node has lines of its own, in
//! which the slots that others stored before count as stored.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tickscope_stamp::directory::{
    DirectoryListing, STORED_FILE, Trust, instance_of, list, private_text, replace_private,
};
use tickscope_store::{Error, Event, EventKind, Manifest, Paths, Result};
use tickscope_tick::{NodeName, printable};

use super::{Collector, cpu_ns};
use crate::ledger::{Handle, Taken};
use crate::watched_pool::count;

/// Note of what is stored, as it lies in a stamp directory.
pub(super) struct StoredNote {
    place: PathBuf,
    own: Owner,
    others: BTreeMap<(Handle, u32), Vec<(Owner, Part)>>,
    /// What stands in the file.
    text: String,
    /// Pools whose files are there.
    present: HashSet<u64>,
    /// Whether those are all: every folder could be looked into.
    is_whole: bool,
    /// Whether something was stored since the note was written.
    pub(super) is_old: bool,
    told: bool,
    /// When it was written, and how long to wait since, so that it takes no more than a fiftieth of a processor.
    pub(super) written: Option<Instant>,
    pub(super) pause: Duration,
}

/// A node of a run.
#[derive(Clone)]
struct Owner {
    /// The run's identity; 0: it has no manifest.
    run: u64,
    node: String,
    place: String,
}

/// What is stored of a block.
#[derive(Clone, PartialEq, Eq)]
struct Part {
    is_whole: bool,
    taken: Taken,
}

impl Owner {
    fn of(run: &Path, node: &NodeName) -> Self {
        let identity = Manifest::read(&Paths::of(run).manifest()).map_or(0, |manifest| manifest.run);
        let place = std::fs::canonicalize(run).unwrap_or_else(|_| run.into());
        Self { run: identity, node: node.to_string(), place: printable(&place.to_string_lossy()).to_string() }
    }

    fn is(&self, other: &Self) -> bool {
        let named = self.run != 0 && other.run != 0;
        self.node == other.node && if named { self.run == other.run } else { self.place == other.place }
    }
}

impl StoredNote {
    /// Reads the note of a directory, as a collector of that run and node.
    pub(super) fn read(directory: &Path, trust: &Trust, (run, node): (&Path, &NodeName)) -> Result<Self> {
        let place = directory.join(STORED_FILE);
        let text = private_text(&place, trust).map_err(|e| Error::io(&place, "read", e))?.unwrap_or_default();
        if text.is_empty() {
            let _ = replace_private(&place, "", trust); // what a collector that was killed had begun to write
        }
        let (own, mut others) = (Owner::of(run, node), BTreeMap::<_, Vec<_>>::new());
        for line in text.lines() {
            let (owner, block, part) = read_line(line).ok_or_else(|| {
                let why = "expected what is stored of a block, found something else. Remove the file: what open \
                           blocks hold is then stored in this run too";
                Error::io(&place, "read", io::Error::new(io::ErrorKind::InvalidData, why))
            })?;
            if !owner.is(&own) {
                others.entry(block).or_default().push((owner, part));
            }
        }
        let present = HashSet::new();
        Ok(Self {
            place,
            own,
            others,
            text,
            present,
            is_whole: false,
            is_old: false,
            told: false,
            written: None,
            pause: Duration::ZERO,
        })
    }

    /// Looks which pools are there; those in a directory that cannot be looked into may still be.
    pub(super) fn see(&mut self, listing: &DirectoryListing) {
        self.is_whole = listing.closed.is_empty();
        if self.is_whole {
            self.present.clear();
        }
        self.present.extend(listing.pools.iter().filter_map(|path| instance_of(path.file_name()?)));
    }

    /// Whether the file of a pool is there.
    pub(super) fn is_present(&self, pool: u64) -> bool {
        self.present.contains(&pool)
    }

    /// Whether the file of a pool is certainly not there.
    pub(super) fn lacks(&self, pool: u64) -> bool {
        self.is_whole && !self.present.contains(&pool)
    }

    /// Forgets a block that is freed.
    pub(super) fn forget(&mut self, channel: Handle, number: u32) {
        self.others.remove(&(channel, number));
        self.is_old = true;
    }

    /// Forgets a pool that is gone.
    pub(super) fn forget_pool(&mut self, pool: u64) {
        self.present.remove(&pool);
        self.is_old = true;
    }
}

impl Collector {
    /// Takes what other runs stored of blocks as stored, and tells of it.
    pub(super) fn take_over_note(&mut self) -> Result<()> {
        let directory = &self.settings.directory;
        let listing = list(directory, &self.trust).map_err(|e| Error::io(directory, "list the pools in", e))?;
        self.note.see(&listing);
        let (mut stamps, mut places) = (0, BTreeSet::new());
        for (&(channel, number), parts) in &self.note.others {
            for (owner, part) in parts.iter().filter(|_| self.note.present.contains(&channel.0)) {
                let more = self.ledger.take_over(channel, number, &part.taken, part.is_whole);
                stamps += more;
                if more > 0 {
                    places.insert(format!("{} (node {})", owner.place, owner.node));
                }
            }
        }
        if stamps == 0 {
            return Ok(());
        }
        let places: Vec<_> = places.into_iter().collect();
        let text = format!(
            "{stamps} stamp(s) of blocks that programs still hold were stored before this run took the directory, in \
             {}; this run has those that follow. Nothing is lost",
            places.join(", ")
        );
        let event = Event { value: Some(count(stamps)), ..self.event(EventKind::StoredElsewhere, text) };
        self.write_events(&format!("stored-elsewhere-{stamps}"), &[event])
    }

    /// Notes in the directory what is stored of the blocks in it, for collectors of other runs.
    pub(super) fn note_stored(&mut self) -> Result<()> {
        if !self.note.is_old {
            return Ok(());
        }
        let began = cpu_ns();
        let text = self.text_of_note();
        if text != self.note.text {
            if let Err(why) = replace_private(&self.note.place, &text, &self.trust) {
                return self.tell_unnoted(&why);
            }
            self.note.text = text;
        }
        self.note.is_old = false;
        self.note.written = Some(Instant::now());
        self.note.pause = Duration::from_nanos(cpu_ns().saturating_sub(began)) * 50;
        Ok(())
    }

    /// Tells once that the note could not be written; it is tried again.
    fn tell_unnoted(&mut self, why: &io::Error) -> Result<()> {
        if self.note.told {
            return Ok(());
        }
        let text = format!(
            "cannot write {}: {why}; a collector for another run would store again what open blocks hold: collect into \
             this run until the programs have ended",
            self.note.place.display()
        );
        self.write_events("stored-unnoted", &[self.event(EventKind::StoredElsewhere, text)])?;
        self.note.told = true;
        Ok(())
    }

    fn text_of_note(&mut self) -> String {
        let present = &self.note.present;
        let mut own: BTreeMap<(Handle, u32), Part> = BTreeMap::new();
        let mut add = |channel: Handle, number, taken, is_whole| {
            if present.contains(&channel.0) {
                own.insert((channel, number), Part { is_whole, taken });
            }
        };
        for (channel, number, taken) in self.ledger.parts() {
            add(channel, number, taken.clone(), false);
        }
        for growing in self.pending.values().filter_map(|pending| pending.growing.as_ref()) {
            for open in &growing.origin.open {
                let taken = Taken { slots: open.slots, uncommitted: open.uncommitted.clone() };
                add((open.pool, open.serial), open.number, taken, false);
            }
            for block in &growing.blocks {
                add(block.channel, block.number, Taken { slots: block.capacity, uncommitted: Vec::new() }, true);
            }
        }
        self.note.others.retain(|(channel, _), _| present.contains(&channel.0));
        let mut text = String::new();
        for (&block, parts) in &self.note.others {
            parts.iter().for_each(|(owner, part)| write_line(&mut text, owner, block, part));
        }
        for (block, part) in own {
            let known = self.note.others.get(&block);
            if known.is_none_or(|parts| parts.iter().all(|(_, other)| *other != part)) {
                write_line(&mut text, &self.note.own, block, &part);
            }
        }
        text
    }
}

fn write_line(text: &mut String, owner: &Owner, ((pool, serial), number): (Handle, u32), part: &Part) {
    let Owner { run, node, place } = owner;
    let Part { is_whole, taken: Taken { slots, uncommitted } } = part;
    let uncommitted: Vec<_> = uncommitted.iter().map(u32::to_string).collect();
    let (kind, gaps) = (if *is_whole { "whole" } else { "open" }, uncommitted.join(","));
    let gaps = if gaps.is_empty() { "-" } else { &gaps };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{kind} {run:016x} {node} {pool:016x} {serial} {number} {slots} {gaps} {place}");
}

fn read_line(line: &str) -> Option<(Owner, (Handle, u32), Part)> {
    let mut words = line.splitn(9, ' ');
    let is_whole = match words.next()? {
        "whole" => true,
        "open" => false,
        _ => return None,
    };
    let run = u64::from_str_radix(words.next()?, 16).ok()?;
    let node = words.next()?.to_owned();
    let pool = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut number = || words.next()?.parse::<u32>().ok();
    let (serial, block, slots) = (number()?, number()?, number()?);
    let gaps = words.next()?;
    let gaps = if gaps == "-" { Some(Vec::new()) } else { gaps.split(',').map(|gap| gap.parse().ok()).collect() };
    // No block has as many records as it has bytes.
    let uncommitted = gaps.filter(|gaps: &Vec<u32>| slots <= 1 << 16 && gaps.is_sorted())?;
    let owner = Owner { run, node, place: words.next()?.to_owned() };
    Some((owner, ((pool, serial), block), Part { is_whole, taken: Taken { slots, uncommitted } }))
}

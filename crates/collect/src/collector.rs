//! The collector: takes full blocks out of shared memory and turns them into the run's segments, each stamp once.
//!
//! A block is stored when a segment that names it in its footer has its final name. So the order of steps is: channel
//! numbers on disk, what was lost on disk, the segment gets its name, the block is marked, zeroed, freed. A collector
//! that is killed between any two of them has lost nothing: the next one reads the footers, zeroes what is named
//! there, and takes the rest again. What is written before the segment gets its name is written again under the same
//! name.
//!
//! Blocks wait in shared memory until enough of one point have come together: a segment costs some hundred bytes.
//!
//! Assumes: one collector a directory and a node of a run (both are locked). Guarantees: stamps stored are exactly
//! those committed, of living, ended and killed programs; what was dropped, refused or never committed is counted;
//! files of others in the directory are named in an event and left alone. Deliberately absent: the clock of the
//! stamps. The collector's own ages are taken from an ordinary monotonic clock and appear in no file.

mod hand_over;
mod lock;
mod recovery;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::ledger::{Ledger, Parts};
use crate::steps::Steps;
use crate::watched_pool::{ReadyBlock, WatchedPool};
use lock::Lock;
use tickscope_stamp::directory::Trust;
use tickscope_store::{Error, Event, EventKind, Paths, Result};
use tickscope_tick::{NodeName, PointName};

/// Settings of a collector: what it collects, where to, and how long stamps may wait.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory on tmpfs that programs make their pools in.
    pub directory: PathBuf,
    /// Directory of the run.
    pub run: PathBuf,
    /// Node that the directory belongs to.
    pub node: NodeName,
    /// The longest that a full block waits.
    pub age: Duration,
    /// Stamps of one point that are stored at once, also before their age.
    pub amount: u64,
    /// Share of a pool's blocks that may wait, in percent; above it the fullest points are stored.
    pub waiting_percent: u32,
}

impl Settings {
    /// Stored after 10 s, or a row group of stamps, or a quarter of a pool.
    pub fn new(directory: impl Into<PathBuf>, run: impl Into<PathBuf>, node: NodeName) -> Self {
        let (directory, run, age) = (directory.into(), run.into(), Duration::from_secs(10));
        Self { directory, run, node, age, amount: 1 << 20, waiting_percent: 25 }
    }
}

/// Counts of a collector's work so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Stamps stored.
    pub stamps: u64,
    /// Blocks taken and freed.
    pub blocks: u64,
    /// Segments written.
    pub segments: u64,
    /// Bytes of those segments, footers included.
    pub bytes: u64,
    /// Slots that were reserved and never committed.
    pub uncommitted: u64,
    /// Stamps that programs dropped because no block was free.
    pub lost: u64,
    /// Pools of ended programs that were emptied and removed.
    pub pools_ended: u64,
    /// Files that were left alone; each has an event.
    pub left_alone: u64,
    /// Shared memory of the pools under watch, the most at one time.
    pub pool_bytes: u64,
    /// Processor time of the collecting thread since it started, ns.
    pub cpu_ns: u64,
}

/// The one collector of a directory.
pub struct Collector {
    settings: Settings,
    trust: Trust,
    _locks: [Lock; 2],
    pools: BTreeMap<u64, Watched>,
    pending: BTreeMap<PointName, Pending>,
    ledger: Ledger,
    parts: Parts,
    ignored: HashSet<PathBuf>,
    refused: Vec<Error>,
    listed: Option<Instant>,
    written: Option<Instant>,
    report: Report,
    cpu_before_ns: u64,
    steps: Steps,
}

struct Watched {
    pool: WatchedPool,
    looked: Option<Instant>,
}

/// Ready blocks of one point.
#[derive(Default)]
struct Pending {
    since: Option<Instant>,
    stamps: u64,
    blocks: Vec<ReadyBlock>,
}

/// Interval at which the directory is listed for new pools: a new one has far more room than it fills in this time.
const LIST_EVERY: Duration = Duration::from_millis(100);
/// Interval at which a pool is looked at that leased no block: its last block may have been filled or released.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval at which the counts of channels are written, unless a number has to be.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// The shortest and the longest sleep between two looks.
const PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(20);

impl Collector {
    /// Takes the directory, and reads what was stored of the node before.
    pub fn start(settings: Settings) -> Result<Self> {
        Self::start_with(settings, Steps::default())
    }

    pub(crate) fn start_with(settings: Settings, steps: Steps) -> Result<Self> {
        let stamps = Paths::of(&settings.run).node_stamps(settings.node.as_str());
        std::fs::create_dir_all(&stamps).map_err(|e| Error::io(&stamps, "make the folder", e))?;
        let trust = Trust::of(&settings.directory).map_err(|e| Error::io(&settings.directory, "look into", e))?;
        let locks = [
            Lock::take(&settings.directory.join("collector.lock"), &trust)?,
            Lock::take(&stamps.join(".lock"), &trust)?,
        ];
        let (ledger, refused) = Ledger::read(&settings.run, &settings.node)?;
        Ok(Self {
            settings,
            trust,
            _locks: locks,
            pools: BTreeMap::new(),
            pending: BTreeMap::new(),
            ledger,
            parts: Parts::default(),
            ignored: HashSet::new(),
            refused,
            listed: None,
            written: None,
            report: Report::default(),
            cpu_before_ns: cpu_ns(),
            steps,
        })
    }

    /// Segments of the node that could not be read at the start: if they hold blocks that still lie in shared memory,
    /// those are stored again.
    pub fn refused(&self) -> &[Error] {
        &self.refused
    }

    /// Counts of the work so far.
    pub fn report(&self) -> Report {
        Report { cpu_ns: cpu_ns().saturating_sub(self.cpu_before_ns), ..self.report }
    }

    /// Collects until `stop` is set; then stores every full block that is left.
    pub fn follow(&mut self, stop: &AtomicBool) -> Result<Report> {
        let mut pause = *PAUSE.start();
        while !stop.load(Ordering::Relaxed) {
            let filled_percent = self.look(Instant::now())?;
            pause = next_pause(pause, filled_percent);
            std::thread::sleep(pause);
        }
        self.once()
    }

    /// Stores everything that lies there: full blocks, closed channels, and all that ended programs left.
    pub fn once(&mut self) -> Result<Report> {
        let now = Instant::now();
        self.list(now)?;
        for pool in self.watched() {
            self.look_at(pool, now)?;
        }
        while let Some(point) = self.pending.keys().next().cloned() {
            self.store(&point)?;
        }
        self.tidy()?;
        self.ledger.write()?;
        Ok(self.report())
    }

    /// One round at time `now`. Returns the largest share of a pool that was filled since the last, in percent.
    pub fn look(&mut self, now: Instant) -> Result<u32> {
        if is_due(self.listed, now, LIST_EVERY) {
            self.list(now)?;
        }
        let mut filled_percent = 0;
        for instance in self.watched() {
            let Some(watched) = self.pools.get_mut(&instance) else { continue };
            if watched.pool.stirred() || is_due(watched.looked, now, LOOK_EVERY) {
                filled_percent = filled_percent.max(self.look_at(instance, now)?);
            }
        }
        self.store_what_is_due(now)?;
        self.tidy()?;
        if is_due(self.written, now, WRITE_EVERY) {
            self.ledger.write()?;
            self.written = Some(now);
        }
        Ok(filled_percent)
    }

    fn watched(&self) -> Vec<u64> {
        self.pools.keys().copied().collect()
    }

    fn look_at(&mut self, instance: u64, now: Instant) -> Result<u32> {
        let Some(watched) = self.pools.get_mut(&instance) else { return Ok(0) };
        let before = watched.pool.waiting_percent();
        let ready = watched.pool.look(&mut self.ledger, &mut self.steps)?;
        watched.looked = Some(now);
        let after = watched.pool.waiting_percent();
        for block in ready {
            let pending = self.pending.entry(block.point.clone()).or_default();
            pending.since.get_or_insert(now);
            pending.stamps += u64::from(block.capacity);
            pending.blocks.push(block);
        }
        Ok(after.saturating_sub(before))
    }

    fn store_what_is_due(&mut self, now: Instant) -> Result<()> {
        let Settings { age, amount, .. } = self.settings;
        let due = |pending: &Pending| pending.stamps >= amount || is_due(pending.since, now, age);
        let points: Vec<_> = self.pending.iter().filter(|(_, p)| due(p)).map(|(point, _)| point.clone()).collect();
        for point in points {
            self.store(&point)?;
        }
        for instance in self.watched() {
            while let Some(point) = self.point_to_relieve(instance) {
                self.store(&point)?;
            }
        }
        Ok(())
    }

    /// The point with most blocks waiting in a pool, if too many wait there or its program has ended.
    fn point_to_relieve(&self, instance: u64) -> Option<PointName> {
        let pool = &self.pools.get(&instance)?.pool;
        let full = pool.waiting_percent() >= self.settings.waiting_percent;
        if !full && pool.is_held() && !pool.is_crowded() {
            return None;
        }
        let waiting = |pending: &Pending| pending.blocks.iter().filter(|block| block.channel.0 == instance).count();
        let most = self.pending.iter().map(|(point, pending)| (waiting(pending), point)).max()?;
        (most.0 > 0).then(|| most.1.clone())
    }

    fn write_events(&self, name: &str, events: &[Event]) -> Result<()> {
        let place = self.events_place(name);
        if !events.is_empty() {
            return tickscope_store::write_events(&place, events);
        }
        match std::fs::remove_file(&place) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&place, "remove the old events in", e)),
            _ => Ok(()),
        }
    }

    /// Names of nodes and points hold no `+`, so these names do not meet.
    fn events_place(&self, name: &str) -> PathBuf {
        let file = format!("{}+{name}.parquet", self.settings.node);
        Paths::of(&self.settings.run).events().join(file)
    }

    fn event(&self, what: EventKind, text: String) -> Event {
        Event { node: self.settings.node.to_string(), what, text, ..Event::default() }
    }
}

fn is_due(last: Option<Instant>, now: Instant, every: Duration) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= every)
}

/// Half as long while a pool fills by more than a 25th between two looks, twice as long while hardly anything happens.
fn next_pause(pause: Duration, filled_percent: u32) -> Duration {
    let next = match filled_percent {
        0 => pause * 2,
        1..4 => pause,
        _ => pause / 2,
    };
    next.clamp(*PAUSE.start(), *PAUSE.end())
}

/// Processor time of this thread, ns.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a timespec that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `part-00000007` of a segment's place.
fn stem(place: &Path) -> String {
    place.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;

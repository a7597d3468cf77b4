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

mod counts;
mod disk_full;
mod dump;
mod hand_over;
mod live;
mod lock;
mod names;
mod recovery;
mod row_groups;
mod run_folder;
mod stored;
mod trigger;
mod window;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::ledger::{Ledger, Parts};
use crate::steps::Steps;
use crate::watched_pool::{ReadyBlock, WatchedPool, count};
use counts::Counts;
use disk_full::DiskFull;
pub use dump::{Dumped, EVERY_POINT};
use hand_over::Growing;
use live::Live;
pub use live::{ChannelNow, LiveRule, Switched};
pub(crate) use lock::Lock;
pub use names::{UNNAMED, node_names};
use run_folder::RunFolder;
use stored::StoredNote;
use tickscope_stamp::directory::Trust;
use tickscope_store::thread_cpu_ns as cpu_ns;
use tickscope_store::{Encoding, Error, Event, EventKind, Paths, Result, Spool};
use tickscope_tick::{NodeName, PointName, own_points};
pub use trigger::Trigger;
use trigger::Triggers;
use window::Window;

/// Settings of a collector: what it collects, where to, and how long stamps may wait.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory on tmpfs that programs make their pools in.
    pub directory: PathBuf,
    /// Directory of the run.
    pub run: PathBuf,
    /// Node that the directory belongs to.
    pub node: NodeName,
    /// Take pools of programs that name another node too; else those of the first name alone.
    pub any_name: bool,
    /// Time that a full block waits for others, so that segments are few: ten times as long while they are small.
    pub age: Duration,
    /// Stamps of a segment that is not small.
    pub least: u64,
    /// Interval at which [`Collector::follow`] brings the run's files up to date, open blocks included.
    pub every: Duration,
    /// Stamps of one point that are stored at once, also before their age.
    pub amount: u64,
    /// Share of a pool's blocks that may wait, in percent; above it the fullest points are stored.
    pub waiting_percent: u32,
    /// The window of stamps that the run keeps; absent: all of them.
    pub keep: Option<Duration>,
    /// How segments are encoded.
    pub encoding: Encoding,
}

impl Settings {
    /// In the run's files after a second; in a segment of their own after a minute, or ten if they are few, or a
    /// million stamps, or a quarter of a pool.
    pub fn new(directory: impl Into<PathBuf>, run: impl Into<PathBuf>, node: NodeName) -> Self {
        let (directory, run, age) = (directory.into(), run.into(), Duration::from_secs(60));
        let every = Duration::from_secs(1);
        let (least, amount, waiting_percent) = (1 << 16, 1 << 20, 25);
        let encoding = Encoding::on_all_processors();
        Self { directory, run, node, any_name: true, age, least, every, amount, waiting_percent, keep: None, encoding }
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
    /// Pools that somebody still holds: all that is committed in them is stored, and more may come.
    pub held: u64,
    /// Files that were left alone; each has an event.
    pub left_alone: u64,
    /// Pools of other users that were left alone because no key tells whether to believe them.
    pub keyless: u64,
    /// Shared memory of the pools under watch, the most at one time.
    pub pool_bytes: u64,
    /// Memory of encoded stamps that waited for their file, the most at one time.
    pub encoded_bytes: u64,
    /// Processor time of the collecting thread and of its encoders since it started, ns.
    pub cpu_ns: u64,
}

/// The one collector of a directory.
pub struct Collector {
    settings: Settings,
    trust: Trust,
    _locks: [Lock; 2],
    run_folder: RunFolder,
    pools: BTreeMap<u64, Watched>,
    pending: BTreeMap<PointName, Pending>,
    ledger: Ledger,
    note: StoredNote,
    window: Window,
    /// Node that the programs name, as far as one does.
    named: Option<NodeName>,
    parts: Parts,
    ignored: HashSet<PathBuf>,
    refused: Vec<Error>,
    listed: Option<Instant>,
    written: Option<Instant>,
    flushed: Option<Instant>,
    /// When stamps of a point were last stored.
    fresh: BTreeMap<PointName, Instant>,
    /// Interval of bringing the files up to date; longer than asked for where that takes long.
    pace: Duration,
    full: Option<DiskFull>,
    live: Live,
    triggers: Triggers,
    counts: Counts,
    /// Pools whose files may be open at one time.
    descriptors: usize,
    /// There was no room for all pools at the last listing.
    short: bool,
    report: Report,
    cpu_before_ns: u64,
    /// Processor time of encoders on other threads.
    helpers_ns: u64,
    steps: Steps,
}

struct Watched {
    pool: WatchedPool,
    looked: Option<Instant>,
    /// That its program waited for it is in an event.
    told_late: bool,
    /// What its program says of its readings is in an event, if it says anything.
    told_claim: bool,
}

/// Ready blocks of one point.
#[derive(Default)]
struct Pending {
    since: Option<Instant>,
    stamps: u64,
    blocks: Vec<ReadyBlock>,
    growing: Option<Growing>,
    /// When the growing segment was begun, as far as anybody asks.
    grows_since: Option<Instant>,
    /// A segment that got its name as the disk went: whether it lies there, or the one before it, is not known.
    unsure: Option<(PathBuf, Growing)>,
}

/// Interval at which the directory is listed for new pools: a new one has far more room than it fills in this time.
const LIST_EVERY: Duration = Duration::from_millis(100);
/// Interval at which a pool is looked at that leased no block: its last block may have been filled or released.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval at which the counts of channels are written, unless a number has to be.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Interval at which a full disk is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(200);
/// The shortest and the longest sleep between two looks.
const PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(20);

impl Collector {
    /// Takes the directory, and reads what was stored of the node before.
    pub fn start(settings: Settings) -> Result<Self> {
        Self::start_with(settings, Steps::default())
    }

    pub(crate) fn start_with(settings: Settings, steps: Steps) -> Result<Self> {
        let stamps = Paths::of(&settings.run).node_stamps(settings.node.as_str());
        tickscope_store::make_folders(&stamps)?;
        let trust = Trust::of(&settings.directory).map_err(|e| Error::io(&settings.directory, "look into", e))?;
        let locks = [
            Lock::take(&settings.directory.join(crate::clear::LOCK), &trust)?,
            Lock::take(&stamps.join(".lock"), &trust)?,
        ];
        let run_folder = RunFolder::of(&settings.run)?;
        let (ledger, refused) = Ledger::read(&settings.run, &settings.node)?;
        let note = StoredNote::read(&settings.directory, &trust, (&settings.run, &settings.node))?;
        let window = Window::resume(&settings.run, &settings.node)?;
        let mut collector = Self {
            pace: settings.every,
            settings,
            trust,
            _locks: locks,
            run_folder,
            pools: BTreeMap::new(),
            pending: BTreeMap::new(),
            ledger,
            note,
            window,
            named: None,
            parts: Parts::default(),
            ignored: HashSet::new(),
            refused,
            listed: None,
            written: None,
            flushed: None,
            fresh: BTreeMap::new(),
            full: None,
            live: Live::default(),
            triggers: Triggers::default(),
            counts: Counts::default(),
            descriptors: descriptors(),
            short: false,
            report: Report::default(),
            cpu_before_ns: cpu_ns(),
            helpers_ns: 0,
            steps,
        };
        collector.tell_missing_parts()?;
        collector.take_over_note()?;
        Ok(collector)
    }

    /// Tells of stamps that were stored once and are gone: somebody removed segments.
    fn tell_missing_parts(&mut self) -> Result<()> {
        let missing = self.ledger.missing();
        if missing == 0 {
            return Ok(());
        }
        let left: i64 = self.ledger.channels().map(|channel| channel.ever_stored()).sum();
        let text = format!(
            "of the stamps that were stored before, {missing} are in no file of the run any more: files of stamps were \
             removed or damaged; {left} are left"
        );
        let event = Event { value: Some(count(missing)), ..self.event(EventKind::PartsMissing, text) };
        // Named by what was found: a collector that is killed here tells the same again in the same place.
        self.write_events(&format!("parts-missing-{missing}-{left}"), &[event])
    }

    /// Segments of the node that could not be read at the start: if they hold blocks that still lie in shared memory,
    /// those are stored again.
    pub fn refused(&self) -> &[Error] {
        &self.refused
    }

    /// Counts of the work so far.
    pub fn report(&self) -> Report {
        let held = self.pools.values().filter(|watched| watched.pool.is_held()).count() as u64;
        let cpu_ns = cpu_ns().saturating_sub(self.cpu_before_ns) + self.helpers_ns;
        Report { held, cpu_ns, ..self.report }
    }

    /// Who still holds a pool, by process id and command; sorted.
    pub fn holders(&self) -> Vec<String> {
        let held = self.pools.values().filter(|watched| watched.pool.is_held());
        let mut holders: Vec<_> = held.map(|watched| watched.pool.process()).collect();
        holders.sort();
        holders
    }

    /// The points that were stamped, each with what its channels are, but for those that tickscope stamps itself.
    pub fn points(&self) -> Vec<(PointName, String, String)> {
        let channels = self.ledger.channels().filter(|channel| !own_points::are(channel.point.as_str()));
        let mut points: Vec<_> =
            channels.map(|channel| (channel.point.clone(), channel.ordering.clone(), channel.domain.clone())).collect();
        points.sort();
        points.dedup();
        points
    }

    /// Collects until `stop` is set; then stores all that is left. While the disk is full, or gone with the run's
    /// directory, it keeps what it has, and tries again.
    pub fn follow(&mut self, stop: &AtomicBool) -> Result<Report> {
        self.follow_and_tell(stop, |_| {})
    }

    /// As [`Collector::follow`]; calls `told` about once a second.
    pub fn follow_and_tell(&mut self, stop: &AtomicBool, told: impl FnMut(&Self)) -> Result<Report> {
        self.follow_and_serve(stop, told, |_| {})
    }

    /// As [`Collector::follow_and_tell`]; calls `serve` between any two rounds, which are 20 ms apart at most unless
    /// the disk is full.
    pub fn follow_and_serve(
        &mut self,
        stop: &AtomicBool,
        mut told: impl FnMut(&Self),
        mut serve: impl FnMut(&mut Self),
    ) -> Result<Report> {
        let mut pause = *PAUSE.start();
        while !stop.load(Ordering::Relaxed) {
            let written = self.written;
            let looked = self.round(Instant::now(), stop);
            pause = match self.wait_for_room(looked)? {
                Some(filled_percent) => next_pause(pause, filled_percent),
                None => FULL_PAUSE,
            };
            if self.written != written {
                told(self);
            }
            serve(self);
            std::thread::sleep(pause);
        }
        let report = self.once()?;
        self.tell_of_room()?;
        Ok(report)
    }

    /// Stores everything that lies there: all that is committed, of living programs too, and closes what has ended.
    pub fn once(&mut self) -> Result<Report> {
        let stored = self.store_all();
        // Also of what was stored before a failure.
        let noted = self.note_stored();
        stored.and_then(|report| noted.map(|()| report)).map_err(|why| {
            let why = self.run_folder.reason(why);
            self.count_unstored(why)
        })
    }

    fn store_all(&mut self) -> Result<Report> {
        let now = Instant::now();
        loop {
            self.run_folder.expect()?;
            self.list(now)?;
            self.keep_back(Some(EVERY_POINT));
            for pool in self.watched() {
                self.look_at(pool, now)?;
                self.take_last_counts(pool, |_| true)?;
            }
            let mut open = self.open_blocks()?;
            self.keep_back(None);
            for point in self.pending.keys() {
                open.entry(point.clone()).or_default();
            }
            for (point, blocks) in open {
                self.store(&point, &blocks)?;
            }
            let ended = self.report.pools_ended;
            self.tidy()?;
            self.ledger.write()?;
            // Where there was no room for more pools at one time, there is now.
            if !self.short || self.report.pools_ended == ended {
                self.note.is_old = true; // a killed collector's note may name what is gone
                return Ok(self.report());
            }
        }
    }

    /// One round at time `now`. Returns the largest share of a pool that was filled since the last, in percent.
    pub fn look(&mut self, now: Instant) -> Result<u32> {
        self.round(now, &AtomicBool::new(false))
    }

    fn round(&mut self, now: Instant, stop: &AtomicBool) -> Result<u32> {
        self.run_folder.expect()?;
        if is_due(self.listed, now, LIST_EVERY) {
            self.list(now)?;
        }
        let mut filled_percent = 0;
        for instance in self.watched() {
            if stop.load(Ordering::Relaxed) {
                return Ok(filled_percent);
            }
            let Some(watched) = self.pools.get_mut(&instance) else { continue };
            if watched.pool.stirred() || is_due(watched.looked, now, LOOK_EVERY) {
                filled_percent = filled_percent.max(self.look_at(instance, now)?);
            }
        }
        self.apply_rules(now)?;
        self.dump_where_asked()?;
        self.dump_where_triggered(now)?;
        self.keep_window(now)?; // before anything is stored: it makes room
        self.expect_room()?;
        self.store_what_is_due(now)?;
        self.flush(now)?;
        self.tidy()?;
        if is_due(self.written, now, WRITE_EVERY) {
            self.ledger.write()?;
            if is_due(self.note.written, now, self.note.pause) {
                self.note_stored()?;
            }
            self.written = Some(now);
        }
        Ok(filled_percent)
    }

    /// Refuses a spool whose files are not fetched as fast as they come.
    fn expect_room(&self) -> Result<()> {
        if !Spool::is_held(&self.settings.run) {
            return Ok(());
        }
        Err(Error::spool_full(&self.settings.run))
    }

    /// Brings the files up to date of each point that was not stored for a while, open blocks included. Takes no more
    /// than a fiftieth of a processor.
    fn flush(&mut self, now: Instant) -> Result<()> {
        if !is_due(self.flushed, now, self.pace) {
            return Ok(());
        }
        let began = cpu_ns();
        let open = self.open_blocks()?;
        let points: BTreeSet<PointName> = open.keys().chain(self.pending.keys()).cloned().collect();
        for point in points {
            if is_due(self.fresh.get(&point).copied(), now, self.pace / 2) {
                self.grow(&point, open.get(&point).map_or(&[], Vec::as_slice))?;
                if let Some(pending) = self.pending.get_mut(&point).filter(|pending| pending.growing.is_some()) {
                    pending.grows_since.get_or_insert(now);
                }
                self.fresh.insert(point, now);
            }
        }
        for watched in self.pools.values() {
            watched.pool.forget_parts(&mut self.ledger);
        }
        self.watch_counts()?;
        self.write_counts(now)?;
        self.note_stored()?;
        self.pace = self.settings.every.max(Duration::from_nanos(cpu_ns().saturating_sub(began)) * 50);
        self.flushed = Some(now);
        self.sample(now);
        Ok(())
    }

    fn watched(&self) -> Vec<u64> {
        self.pools.keys().copied().collect()
    }

    fn look_at(&mut self, instance: u64, now: Instant) -> Result<u32> {
        let Some(watched) = self.pools.get_mut(&instance) else { return Ok(0) };
        let before = watched.pool.waiting_percent();
        watched.pool.free_kept(now, &mut self.ledger, &mut self.steps)?;
        let ready = watched.pool.look(&mut self.ledger, &mut self.steps)?;
        watched.looked = Some(now);
        let after = watched.pool.waiting_percent();
        for block in ready {
            let pending = self.pending.entry(block.point.clone()).or_default();
            pending.since.get_or_insert(now);
            pending.stamps += u64::from(block.capacity);
            pending.blocks.push(block);
        }
        self.tell_oddities(instance)?;
        self.tell_lateness(instance)?;
        self.tell_claim(instance)?;
        Ok(after.saturating_sub(before))
    }

    fn store_what_is_due(&mut self, now: Instant) -> Result<()> {
        let Settings { age, amount, least, keep, .. } = self.settings;
        // Of a window only whole segments can go, so none is long.
        let rolls =
            |pending: &Pending| keep.is_some_and(|keep| is_old(pending.grows_since, now, window::segment_of(keep)));
        let due = |pending: &Pending| {
            let old = is_due(pending.since, now, if pending.stamps >= least { age } else { age * 10 });
            pending.stamps >= amount || old && !pending.blocks.is_empty() || rolls(pending)
        };
        let points: Vec<_> = self.pending.iter().filter(|(_, p)| due(p)).map(|(point, _)| point.clone()).collect();
        for point in points {
            self.store_with_open(&point, now)?;
        }
        for instance in self.watched() {
            while let Some(point) = self.point_to_relieve(instance) {
                self.store_with_open(&point, now)?;
            }
        }
        Ok(())
    }

    /// Stores a point; where its newest segment holds parts of open blocks, with those.
    fn store_with_open(&mut self, point: &PointName, now: Instant) -> Result<()> {
        let grows = self.pending.get(point).is_some_and(|pending| pending.growing.is_some());
        let open = if grows { self.open_blocks()?.remove(point) } else { None };
        self.store(point, &open.unwrap_or_default())?;
        self.fresh.insert(point.clone(), now);
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
        self.run_folder.expect()?;
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

/// As [`is_due`], of something that begins at `since`; not begun: no.
fn is_old(since: Option<Instant>, now: Instant, age: Duration) -> bool {
    since.is_some() && is_due(since, now, age)
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

/// Descriptors that pools may take, of those that this process may have: some are for the run's files.
fn descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid resource and an rlimit that outlives the call.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let most = if asked == 0 { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { 256 };
    most.saturating_sub(64).max(8)
}

/// `part-00000007` of a segment's place.
fn stem(place: &Path) -> String {
    place.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;

//! The sampler: reads the totals of all channels of a node that only count, once a period, together.
//!
//! A thread of its own, so that no segment being written makes a period late. It maps the pools for itself, and reads
//! nothing but the entries of channels: of those that take memory already, for reading one that does not would give
//! it some. Each pass lies between two readings of the node's counter: whatever the kernel
//! does to this thread, a total is one of an instant between the two.
//!
//! Guarantees: the counts of a channel add up to its total, whoever read it: what was counted last is kept under one
//! lock. A period that nobody could look at is not made up: the next row says how many it covers, and a first reading,
//! which covers all the time before it, says none. Before the first
//! total of a channel comes the tick of its opening, when it had counted nothing: it may be found up to
//! [`LOOK_EVERY_NS`] late. A total is a sample only if its channel counted before and after it was read. Deliberately
//! absent: files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tickscope_counter::NodeCounter;
use tickscope_stamp::block::{ChannelEntry, EntryState, Policy};
use tickscope_stamp::policies::Choice;
use tickscope_stamp::policy::{self, Setting};
use tickscope_stamp::pool::Pool as Mapping;
use tickscope_tick::Ordering;

use crate::ledger::Handle;

/// A total of one channel, and what was counted since the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    /// Pool and number of the channel within it.
    pub channel: Handle,
    /// The node's counter before and after.
    pub between: (i64, i64),
    /// Stamps so far.
    pub total: u64,
    /// Stamps since the last sample.
    pub count: u64,
    /// Whole periods that it covers; 0: no known number, it is an opening, the first reading, or the rest.
    pub periods: u64,
    /// Length of a period.
    pub period_ns: u64,
}

/// The thread, as long as it is needed.
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the collector both touch.
struct Shared {
    counter: NodeCounter,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pools: BTreeMap<u64, Arc<Pool>>,
    /// Last sample of each channel that has one, until their entries are another's.
    last: HashMap<Handle, Last>,
    samples: Vec<Sample>,
    stops: bool,
}

/// A pool, and which of its entries took memory when it was mapped; absent: all do.
struct Pool {
    mapping: Mapping,
    present: Option<Vec<bool>>,
}

impl Pool {
    /// Entries that describe a channel, each with its place.
    fn used(&self) -> impl Iterator<Item = (usize, &ChannelEntry)> {
        // Acquire: the entries of these channels are seen. A program takes an entry behind all that were ever in use
        // only where none of those is free: so there are no more of them than channels were opened.
        let opened = self.mapping.header().channels.load(Acquire) as usize;
        let present = move |place: usize| self.present.as_ref().is_none_or(|present| place < opened || present[place]);
        let entries = (0..self.mapping.entries().len()).filter(move |&place| present(place));
        entries.map(|place| (place, &self.mapping.entries()[place])).filter(|(_, entry)| is_used(entry))
    }
}

/// A channel at its last sample.
#[derive(Clone, Copy, Default)]
struct Last {
    total: u64,
    /// Number of the period that ended there, of periods of that length; 0: nobody saw one end.
    number: u64,
    period_ns: u64,
}

impl Last {
    /// The number of the last period of that length.
    fn number_of(self, period_ns: u64) -> u64 {
        if self.period_ns == period_ns { self.number } else { 0 } // another policy since
    }
}

/// A channel that counts.
#[derive(Clone, Copy)]
struct Counting {
    place: usize,
    serial: u32,
    period_ns: u64,
    opened: Option<i64>,
}

/// The total of a channel that has ended.
#[derive(Clone, Copy)]
pub(crate) struct LastTotal {
    /// The channel's number within its pool.
    pub serial: u32,
    /// Stamps that it counted.
    pub total: u64,
    /// Length of a period.
    pub period_ns: u64,
    /// The node's counter when it was opened; `None`: not said.
    pub opened: Option<i64>,
}

/// Samples that wait for the collector at most: some minutes of a thousand channels.
const MOST_SAMPLES: usize = 1 << 20;
/// The shortest time from one pass to the next: shorter periods have a row together.
const REST_NS: u64 = 100_000;
/// Interval at which entries are looked through for channels that count.
const LOOK_EVERY_NS: u64 = 50_000_000;

impl Sampler {
    /// Starts it; `last`: the totals that were stored of each channel.
    pub(crate) fn start(counter: NodeCounter, last: HashMap<Handle, u64>) -> Self {
        let last = last.into_iter().map(|(channel, total)| (channel, Last { total, ..Last::default() })).collect();
        let inner = Mutex::new(Inner { last, ..Inner::default() });
        let shared = Arc::new(Shared { counter, inner });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(move || theirs.follow()).ok();
        Self { shared, thread }
    }

    /// Watches a pool from now on.
    pub(crate) fn watch(&self, instance: u64, path: &Path) {
        let mut inner = self.shared.lock();
        if inner.pools.contains_key(&instance) {
            return;
        }
        // A pool that is gone by now has been looked at for the last time elsewhere.
        if let Ok(mut mapping) = Mapping::open(path) {
            let present = mapping.entries_with_memory();
            mapping.close(); // its mapping is enough
            inner.pools.insert(instance, Arc::new(Pool { mapping, present }));
        }
    }

    /// Forgets a pool.
    pub(crate) fn forget(&self, instance: u64) {
        let mut inner = self.shared.lock();
        inner.pools.remove(&instance);
        inner.last.retain(|&(pool, _), _| pool != instance);
    }

    /// Takes the total of a channel that has ended as its last sample, if it is a new one.
    pub(crate) fn take_rest(&self, instance: u64, ended: LastTotal) {
        let LastTotal { serial, total, period_ns, opened } = ended;
        let before = self.shared.counter.read(Ordering::Before);
        let after = self.shared.counter.read(Ordering::After);
        let channel = (instance, serial);
        let mut inner = self.shared.lock();
        let last = inner.last.get(&channel).copied().unwrap_or_default();
        if total > last.total {
            inner.begin(channel, opened, period_ns);
            inner.last.insert(channel, Last { total, ..last });
            let (between, count) = ((before, after), total - last.total);
            inner.samples.push(Sample { channel, between, total, count, periods: 0, period_ns });
        }
    }

    /// The samples since the last call.
    pub(crate) fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut self.shared.lock().samples)
    }

    /// Gives samples back that could not be stored.
    pub(crate) fn give_back(&self, mut samples: Vec<Sample>) {
        let mut inner = self.shared.lock();
        samples.append(&mut inner.samples);
        inner.samples = samples;
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.lock().stops = true;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(&self) {
        let (mut known, mut looked_ns) = (Vec::new(), 0);
        loop {
            let now_ns = monotonic_ns();
            let pools = {
                let inner = self.lock();
                if inner.stops {
                    return;
                }
                inner.pools.clone()
            };
            if looked_ns == 0 || now_ns - looked_ns >= LOOK_EVERY_NS {
                self.forget_closed(&pools);
                (known, looked_ns) = (channels_that_count(&pools), now_ns);
            }
            self.sample_due(&pools, &known, now_ns);
            let next_ns = known.iter().map(|(_, counting)| next_end_ns(counting.period_ns, now_ns)).min();
            let next_ns = next_ns.unwrap_or(u64::MAX).min(now_ns + LOOK_EVERY_NS);
            sleep_until(next_ns.max(now_ns + REST_NS));
        }
    }

    /// Forgets channels of these pools that have no entry any more: nobody asks for them again. Between two passes,
    /// for one of them may be about to note a total.
    fn forget_closed(&self, pools: &BTreeMap<u64, Arc<Pool>>) {
        // One that is sampled from here on may have been opened behind the look at its entry.
        let known: Vec<Handle> =
            self.lock().last.keys().copied().filter(|(pool, _)| pools.contains_key(pool)).collect();
        let serials = |pool: &Pool| pool.used().map(|(_, entry)| entry.serial.load(Acquire)).collect::<HashSet<u32>>();
        let used: BTreeMap<u64, HashSet<u32>> =
            pools.iter().map(|(&instance, pool)| (instance, serials(pool))).collect();
        let is_gone = |(pool, serial): &Handle| used.get(pool).is_some_and(|used| !used.contains(serial));
        let mut inner = self.lock();
        known.iter().filter(|channel| is_gone(channel)).for_each(|channel| _ = inner.last.remove(channel));
    }

    /// One pass over the channels whose period has ended.
    fn sample_due(&self, pools: &BTreeMap<u64, Arc<Pool>>, known: &[(u64, Counting)], now_ns: u64) {
        let due: Vec<_> = {
            let inner = self.lock();
            let is_due = |(pool, counting): &&(u64, Counting)| {
                let number = now_ns / counting.period_ns;
                let last = inner.last.get(&(*pool, counting.serial)).copied().unwrap_or_default();
                number > last.number_of(counting.period_ns)
            };
            known.iter().filter(is_due).copied().collect()
        };
        if due.is_empty() {
            return;
        }
        let before = self.counter.read(Ordering::Before);
        let totals: Vec<Option<u64>> =
            due.iter().map(|(pool, counting)| total_of(pools.get(pool)?, counting)).collect();
        let between = (before, self.counter.read(Ordering::After));
        let mut inner = self.lock();
        for ((pool, counting), total) in due.into_iter().zip(totals) {
            if let Some(total) = total {
                inner.note((pool, &counting), between, total, now_ns / counting.period_ns);
            }
        }
    }
}

impl Inner {
    /// Says where a channel began, unless totals of it are known.
    fn begin(&mut self, channel: Handle, opened: Option<i64>, period_ns: u64) {
        if let Some(tick) = opened.filter(|_| !self.last.contains_key(&channel)) {
            self.samples.push(Sample { channel, between: (tick, tick), total: 0, count: 0, periods: 0, period_ns });
        }
    }

    fn note(&mut self, (pool, counting): (u64, &Counting), between: (i64, i64), total: u64, number: u64) {
        let (channel, period_ns) = ((pool, counting.serial), counting.period_ns);
        let last = self.last.get(&channel).copied().unwrap_or_default();
        let before = last.number_of(period_ns);
        if total < last.total || number <= before || self.samples.len() >= MOST_SAMPLES {
            return; // its last sample was taken meanwhile, or nobody takes any: the next one covers this too
        }
        if !self.pools.contains_key(&pool) {
            return; // it was forgotten during the pass, with all that it counted stored
        }
        self.begin(channel, counting.opened, period_ns);
        // The first reading covers all the time since the opening, or since a collector before this one looked.
        let periods = if before == 0 { 0 } else { number - before };
        self.last.insert(channel, Last { total, number, period_ns });
        self.samples.push(Sample { channel, between, total, count: total - last.total, periods, period_ns });
    }
}

/// The total of a channel that counts in such periods; `None`: it is no longer there, or has another policy by now.
fn total_of(pool: &Pool, counting: &Counting) -> Option<u64> {
    let entry = pool.mapping.entries().get(counting.place)?;
    read_while_it_counts(entry, counting, || entry.counted.load(Acquire))
}

fn read_while_it_counts(entry: &ChannelEntry, counting: &Counting, read: impl FnOnce() -> u64) -> Option<u64> {
    // Stamps under another policy are not counted, so a total read among them would be taken for all that came.
    let setting = counts_in(entry).filter(|setting| setting.parameter == counting.period_ns)?;
    let total = read();
    // Its program may have closed the channel, and opened another there.
    let is_same = counts_in(entry) == Some(setting) && entry.serial.load(Acquire) == counting.serial;
    (is_same && is_used(entry)).then_some(total)
}

/// The policy of a channel, with its period, if it counts.
fn counts_in(entry: &ChannelEntry) -> Option<Setting> {
    let setting = policy::read(&entry.policy, &entry.parameters);
    let choice = Choice::of(setting.policy, setting.parameter);
    choice.is_some_and(|choice| choice.policy() == Policy::Count).then_some(setting)
}

fn is_used(entry: &ChannelEntry) -> bool {
    let state = entry.state.load(Acquire);
    state == EntryState::Open as u32 || state == EntryState::Closed as u32
}

/// The counter of the node when a channel was opened, before it could count.
pub(crate) fn opened(entry: &ChannelEntry) -> Option<i64> {
    Some(entry.opened_tick.load(Relaxed)).filter(|&tick| tick != 0)
}

fn channels_that_count(pools: &BTreeMap<u64, Arc<Pool>>) -> Vec<(u64, Counting)> {
    let of_pool = |(&instance, pool): (&u64, &Arc<Pool>)| {
        let counting = |(place, entry): (usize, &ChannelEntry)| {
            let period_ns = counts_in(entry)?.parameter;
            let (serial, opened) = (entry.serial.load(Acquire), opened(entry));
            Some((instance, Counting { place, serial, period_ns, opened }))
        };
        pool.used().filter_map(counting).collect::<Vec<_>>()
    };
    pools.iter().flat_map(of_pool).collect()
}

/// The end of the period that `now_ns` lies in: periods begin at whole multiples of their length.
fn next_end_ns(period_ns: u64, now_ns: u64) -> u64 {
    (now_ns / period_ns + 1) * period_ns
}

/// Time since the boot by a clock that nobody sets.
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a timespec that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn sleep_until(end_ns: u64) {
    let left = end_ns.saturating_sub(monotonic_ns());
    std::thread::sleep(Duration::from_nanos(left));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::fabricated::Pool as Made;
    use crate::scratch::Scratch;
    use tickscope_stamp::block::EntryState;

    fn sampler() -> Sampler {
        // No thread of its own: a test calls what the thread calls.
        let shared = Arc::new(Shared { counter: NodeCounter::default(), inner: Mutex::default() });
        Sampler { shared, thread: None }
    }

    fn pools(sampler: &Sampler) -> BTreeMap<u64, Arc<Pool>> {
        sampler.shared.lock().pools.clone()
    }

    #[test]
    fn entries_that_nobody_has_written_are_not_read() {
        // On tmpfs, where reading a page gives it memory.
        let place = Path::new("/dev/shm").join(format!("tickscope-sampler-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let made = Made::sparse(&place, 7, 4);
        let sampler = sampler();
        sampler.watch(7, &made.path);
        made.open_channel(0, "send", 1);
        made.choose(0, "count 10ms");
        made.count_channels(1);
        let before = std::fs::metadata(&made.path).unwrap().blocks();
        let known = channels_that_count(&pools(&sampler));
        sampler.shared.forget_closed(&pools(&sampler));
        let after = std::fs::metadata(&made.path).unwrap().blocks();
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!((known.len(), known[0].1.serial, after), (1, 0, before));
    }

    #[test]
    fn a_first_reading_says_no_number_of_periods_and_later_ones_how_many_they_cover() {
        let scratch = Scratch::new();
        let made = Made::make(scratch.path(), 7, 4);
        made.open_channel(0, "send", 1);
        made.choose(0, "count 10ms");
        made.set_opened(0, 500);
        made.count(0, 90); // in nine periods, of which nobody saw an end
        let sampler = sampler();
        sampler.watch(7, &made.path);
        let pools = pools(&sampler);
        let read = |at: u64| {
            sampler.shared.sample_due(&pools, &channels_that_count(&pools), at * 10_000_000);
            sampler.take().iter().map(|sample| (sample.count, sample.periods)).collect::<Vec<_>>()
        };
        assert_eq!(read(9), [(0, 0), (90, 0)], "the opening, and all since");
        assert_eq!(read(10), [(0, 1)]);
        assert_eq!(read(13), [(0, 3)]);
        let restarted = HashMap::from([((7, 0), Last { total: 70, ..Last::default() })]);
        sampler.shared.lock().last = restarted;
        assert_eq!(read(14), [(20, 0)], "the time in which no collector looked is not one period");
    }

    #[test]
    fn a_total_is_a_sample_only_if_its_channel_still_counts_in_that_period() {
        let scratch = Scratch::new();
        let made = Made::make(scratch.path(), 7, 4);
        let sampler = sampler();
        sampler.watch(7, &made.path);
        made.open_channel(0, "send", 1);
        let period = 10_000_000;
        made.set_policy(0, Policy::Count as u32, 2, period);
        let pools = pools(&sampler);
        // The channels were looked at once, a while ago.
        let known = channels_that_count(&pools);
        let totals = |number: u64| {
            made.count(0, number);
            sampler.shared.sample_due(&pools, &known, number * period);
            sampler.take().iter().map(|sample| sample.total).collect::<Vec<_>>()
        };
        assert_eq!(totals(1), [1]);
        for (policy, parameter) in [(Policy::Buffered, 0), (Policy::Every, period), (Policy::Count, 2 * period)] {
            made.set_policy(0, policy as u32, 3, parameter);
            assert!(totals(2).is_empty(), "{policy:?} {parameter}");
        }
        made.set_policy(0, Policy::Count as u32, 4, period);
        assert_eq!(totals(3), [3]);
        // It is switched while its total is read, and once there and back.
        let (entry, counting) = (&pools[&7].mapping.entries()[0], &known[0].1);
        for back in [Policy::Buffered, Policy::Count] {
            let read = || {
                made.set_policy(0, back as u32, 6, period);
                5
            };
            assert_eq!(read_while_it_counts(entry, counting, read), None, "{back:?}");
            made.set_policy(0, Policy::Count as u32, 8, period);
        }
        assert_eq!(read_while_it_counts(entry, counting, || 5), Some(5));
    }

    #[test]
    fn a_closed_channel_is_forgotten_once_its_entry_is_free() {
        let scratch = Scratch::new();
        let made = Made::make(scratch.path(), 7, 4);
        let sampler = sampler();
        sampler.watch(7, &made.path);
        for serial in [0, 1] {
            made.open_channel(serial, "send", 1);
            made.choose(serial, "count 10ms");
            made.count(serial, 5);
        }
        let (pools, counts) = (pools(&sampler), |sampler: &Sampler| sampler.take().len());
        let period = 10_000_000;
        sampler.shared.sample_due(&pools, &channels_that_count(&pools), period);
        assert_eq!(counts(&sampler), 2);
        made.set_entry(0, EntryState::Closed);
        sampler.shared.forget_closed(&pools);
        sampler.take_rest(7, LastTotal { serial: 0, total: 5, period_ns: period, opened: None });
        assert_eq!(counts(&sampler), 0, "all of it was counted before");
        made.set_entry(0, EntryState::Free);
        sampler.shared.forget_closed(&pools);
        let known: Vec<Handle> = sampler.shared.lock().last.keys().copied().collect();
        assert_eq!(known, [(7, 1)]);
    }
}

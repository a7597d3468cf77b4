//! Detection of steps, slews and suspends of this host's clocks during a run.
//!
//! Two snapshots, each a reading of every kernel clock between two readings of the counter, are compared. A step of
//! `CLOCK_REALTIME` shows exactly as a change of REALTIME - BOOTTIME (which a suspend moves alike), a suspend as a
//! change of BOOTTIME - MONOTONIC, a slew as MONOTONIC running unlike MONOTONIC_RAW. Evidence that uses one of those
//! clocks is void across such an event; evidence between counters is not.
//!
//! A node reads its clocks through [`HostClocks`]: true, or through the known maps of a test, so that nothing sees past
//! them.
//!
//! Assumes a frequency for the counter, to turn a snapshot's width into nanoseconds. Guarantees: an event is reported
//! only if no clock that kept still could have produced the two snapshots. Deliberately absent: setting any clock;
//! and any proof about the counter's own rate, since the kernel derives its clocks from it.

use std::fmt;

pub use crate::discipline::Discipline;
use crate::{Finding, Problem};
use tickscope_counter::NodeCounter;
use tickscope_tick::Ordering;
use tickscope_tick::{Frequency, InjectionError, RealtimeInjection};

/// How a node reads the clocks of its host: true, or through known maps.
///
/// `CLOCK_REALTIME` reads the whole map; `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` what the kernel would slew with it, so
/// neither offset nor steps; `CLOCK_MONOTONIC_RAW` is true; the counter reads through its own map.
#[derive(Clone, Debug, Default)]
pub struct HostClocks {
    counter: NodeCounter,
    realtime: Option<RealtimeInjection>,
}

/// A clock that can be related to the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelClock {
    /// `CLOCK_REALTIME`.
    Realtime,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

/// A kernel clock, read between two readings of the counter: evidence about both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// The counter, read before the clock, with ordering `before`; ticks.
    pub before: i64,
    /// The clock, nanoseconds.
    pub at: i64,
    /// The counter, read after the clock, with ordering `after`; ticks.
    pub after: i64,
}

/// Every kernel clock of a host, read between two readings of its counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The counter, read before the clocks; ticks.
    pub before: i64,
    /// `CLOCK_REALTIME`, nanoseconds since the epoch of Unix.
    pub realtime_ns: i64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: i64,
    /// `CLOCK_MONOTONIC_RAW`, nanoseconds.
    pub monotonic_raw_ns: i64,
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub boottime_ns: i64,
    /// The counter, read after the clocks; ticks.
    pub after: i64,
    /// The kernel's discipline of REALTIME and MONOTONIC; `None` where it refuses to tell.
    pub discipline: Option<Discipline>,
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, realtime_ns, monotonic_ns, monotonic_raw_ns, boottime_ns, after, .. } = self;
        write!(
            f,
            "counter {before} to {after} with REALTIME {realtime_ns}, MONOTONIC {monotonic_ns}, MONOTONIC_RAW \
             {monotonic_raw_ns} and BOOTTIME {boottime_ns} ns"
        )
    }
}

/// Tolerances for the comparison of two snapshots of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tolerance {
    /// The counter's frequency, for the widths of the snapshots.
    pub frequency: Frequency,
    /// How far MONOTONIC may run against MONOTONIC_RAW without being called slewed, parts per 10^9.
    pub slew_ppb: u32,
    /// How wide a reading of the counter is, in its ticks, and the widest of a clock, in nanoseconds.
    pub widths: SnapshotWidths,
}

/// How far counter and clocks may stand beyond what they read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotWidths {
    /// Width of the counter's readings, ticks.
    pub counter_ticks: u64,
    /// Width of those of the clock whose readings are widest, nanoseconds.
    pub clock_ns: u64,
}

impl Default for SnapshotWidths {
    /// Single ticks and nanoseconds.
    fn default() -> Self {
        Self { counter_ticks: 1, clock_ns: 1 }
    }
}

/// A change of a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// REALTIME was set; nanoseconds, positive: forward.
    Step {
        /// How far, as read.
        ns: i64,
    },
    /// The kernel tells that REALTIME was set, by less than the readings can show; nanoseconds, positive: forward.
    Set {
        /// How far, as read.
        ns: i64,
    },
    /// MONOTONIC, and REALTIME with it, ran unlike MONOTONIC_RAW; nanoseconds gained between the snapshots.
    Slew {
        /// Positive: MONOTONIC ran faster.
        ns: i64,
    },
    /// The host was suspended, for that long.
    Suspend {
        /// How long, as read.
        ns: i64,
    },
    /// Somebody changed how the kernel disciplines its clocks; the rate may have changed with it.
    Discipline {
        /// As the earlier snapshot found it.
        from: Discipline,
        /// As the later one found it.
        to: Discipline,
    },
    /// The counter, or a clock that can't run backward, did.
    Backward {
        /// Which one.
        clock: &'static str,
    },
}

/// A change of a clock between two snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockEvent {
    /// The change.
    pub change: Change,
    /// How far a still clock could have seemed to change, nanoseconds: what the snapshots leave open.
    pub uncertainty_ns: i64,
    /// It happened after `earlier.before` ...
    pub earlier: Snapshot,
    /// ... and before `later.after`.
    pub later: Snapshot,
}

impl Tolerance {
    /// Ordinary rate error of crystals, which a settled discipline corrects; chrony and the kernel slew at 500 ppm and
    /// more.
    pub const DEFAULT_SLEW_PPB: u32 = 100_000;

    /// The default over a counter of that frequency, of clocks that move by single ticks.
    pub fn of(frequency: Frequency) -> Self {
        Self { frequency, slew_ppb: Self::DEFAULT_SLEW_PPB, widths: SnapshotWidths::default() }
    }

    /// Nanoseconds that `ticks` take at most, rounded up.
    fn nanoseconds_at_most(&self, ticks: i64) -> i128 {
        let Frequency { hertz, tolerance_ppm } = self.frequency;
        let slowest = i128::from(hertz) * (1_000_000 - i128::from(tolerance_ppm.min(999_999)));
        let scaled = i128::from(ticks) * 1_000_000_000 * 1_000_000;
        scaled / slowest.max(1) + 1
    }
}

impl HostClocks {
    /// Readings tried; the narrowest counts, so that one interruption costs nothing.
    const TRIES: usize = 8;

    /// Clocks read through these maps, or true.
    pub fn new(counter: NodeCounter, realtime: Option<RealtimeInjection>) -> Self {
        Self { counter, realtime }
    }

    /// The clocks that this process was started to read.
    pub fn from_environment() -> Result<Self, InjectionError> {
        Ok(Self::new(NodeCounter::from_environment()?, RealtimeInjection::from_environment()?))
    }

    /// The counter among them.
    pub fn counter(&self) -> &NodeCounter {
        &self.counter
    }

    /// The map put before `CLOCK_REALTIME`, if any.
    pub fn realtime_injection(&self) -> Option<&RealtimeInjection> {
        self.realtime.as_ref()
    }

    /// Reads every clock, between two readings of the counter.
    pub fn snapshot(&self) -> Result<Snapshot, Finding> {
        let narrowest = narrowest(Self::TRIES, || self.snapshot_once(), Snapshot::width_ticks)?;
        Ok(Snapshot { discipline: Discipline::of_this_host(), ..narrowest })
    }

    fn snapshot_once(&self) -> Result<Snapshot, Finding> {
        let before = self.counter.read(Ordering::Before);
        let realtime_ns = nanoseconds(libc::CLOCK_REALTIME)?;
        let monotonic_ns = nanoseconds(libc::CLOCK_MONOTONIC)?;
        let monotonic_raw_ns = nanoseconds(libc::CLOCK_MONOTONIC_RAW)?;
        let boottime_ns = nanoseconds(libc::CLOCK_BOOTTIME)?;
        let after = self.counter.read(Ordering::After);
        // All at the one instant that REALTIME was read at, so that what the kernel would slew together stays together.
        let gained = self.gained(realtime_ns);
        Ok(Snapshot {
            before,
            realtime_ns: self.realtime.as_ref().map_or(realtime_ns, |map| map.apply(realtime_ns)),
            monotonic_ns: monotonic_ns + gained,
            monotonic_raw_ns,
            boottime_ns: boottime_ns + gained,
            after,
            discipline: None,
        })
    }

    fn gained(&self, realtime_ns: i64) -> i64 {
        self.realtime.as_ref().map_or(0, |map| map.gained(realtime_ns))
    }

    /// Reads one clock between two readings of the counter; the narrowest of some tries.
    pub fn bracketed(&self, clock: KernelClock) -> Result<ClockReading, Finding> {
        narrowest(Self::TRIES, || self.bracketed_once(clock), ClockReading::width_ticks)
    }

    fn bracketed_once(&self, clock: KernelClock) -> Result<ClockReading, Finding> {
        let before = self.counter.read(Ordering::Before);
        let (true_ns, realtime_ns) = match clock {
            KernelClock::Realtime => (0, nanoseconds(libc::CLOCK_REALTIME)?),
            KernelClock::Monotonic if self.realtime.is_none() => (nanoseconds(libc::CLOCK_MONOTONIC)?, 0),
            // What it gained is told by REALTIME, so that is read within the bracket too.
            KernelClock::Monotonic => (nanoseconds(libc::CLOCK_MONOTONIC)?, nanoseconds(libc::CLOCK_REALTIME)?),
        };
        let after = self.counter.read(Ordering::After);
        let at = match (&self.realtime, clock) {
            (None, KernelClock::Realtime) => realtime_ns,
            (Some(map), KernelClock::Realtime) => map.apply(realtime_ns),
            (_, KernelClock::Monotonic) => true_ns + self.gained(realtime_ns),
        };
        Ok(ClockReading { before, at, after })
    }
}

fn narrowest<T>(tries: usize, read: impl Fn() -> Result<T, Finding>, width: impl Fn(&T) -> i64) -> Result<T, Finding> {
    let mut narrowest = read()?;
    for _ in 1..tries {
        let next = read()?;
        if width(&next) < width(&narrowest) {
            narrowest = next;
        }
    }
    Ok(narrowest)
}

impl ClockReading {
    /// The orderings of the two readings of the counter, as files of brackets name them.
    pub const ORDERING: &str = "before/after";

    /// Ticks of the counter that the reading took.
    pub fn width_ticks(&self) -> i64 {
        self.after - self.before
    }
}

impl Snapshot {
    /// Reads every clock of this host as it is; the counter as the node reads it.
    pub fn of_this_host(counter: &NodeCounter) -> Result<Self, Finding> {
        HostClocks::new(*counter, None).snapshot()
    }

    /// Ticks of the counter that the readings took together.
    pub fn width_ticks(&self) -> i64 {
        self.after - self.before
    }
}

/// Changes of the host's clocks between two of its snapshots.
pub fn between(earlier: Snapshot, later: Snapshot, tolerance: &Tolerance) -> Vec<ClockEvent> {
    let mut events = sudden(earlier, later, tolerance);
    if matches!(events[..], [ClockEvent { change: Change::Backward { .. }, .. }]) {
        return events;
    }
    let raw_ns = later.monotonic_raw_ns - earlier.monotonic_raw_ns;
    let allowed_slew = saturated(i128::from(raw_ns) * i128::from(tolerance.slew_ppb) / 1_000_000_000 + 1);
    let ns = slewed(&earlier, &later);
    let uncertainty_ns = open_ns(&earlier, &later, tolerance).saturating_add(allowed_slew);
    if ns.unsigned_abs() > uncertainty_ns.unsigned_abs() {
        events.push(ClockEvent { change: Change::Slew { ns }, uncertainty_ns, earlier, later });
    }
    events
}

/// Changes that [`between`] finds, but for slews: those take time.
pub(crate) fn sudden(earlier: Snapshot, later: Snapshot, tolerance: &Tolerance) -> Vec<ClockEvent> {
    let event = |change, uncertainty_ns| ClockEvent { change, uncertainty_ns, earlier, later };
    if let Some(clock) = backward(&earlier, &later) {
        // Widths and distances mean nothing then.
        return vec![event(Change::Backward { clock }, 0)];
    }
    let open = open_ns(&earlier, &later, tolerance);
    let beyond = |ns: i64| ns.unsigned_abs() > open.unsigned_abs();
    let mut events = Vec::new();
    let ns = stepped(&earlier, &later);
    if beyond(ns) {
        events.push(event(Change::Step { ns }, open));
    }
    let ns = gained(&earlier, &later, |s| s.boottime_ns, |s| s.monotonic_ns);
    if beyond(ns) {
        events.push(event(Change::Suspend { ns }, open));
    }
    if let (Some(from), Some(to)) = (earlier.discipline, later.discipline)
        && !to.only_worked_off_since(&from)
    {
        events.push(event(Change::Discipline { from, to }, 0));
    }
    events
}

/// How far a clock may seem to have changed against another only because they cannot be read at once, nanoseconds.
pub(crate) fn open_ns(earlier: &Snapshot, later: &Snapshot, tolerance: &Tolerance) -> i64 {
    // Two clocks read within one snapshot are read at most its width apart, and each stands within its reading's width.
    let SnapshotWidths { counter_ticks, clock_ns } = tolerance.widths;
    let beyond = i64::try_from(counter_ticks.saturating_sub(1)).unwrap_or(i64::MAX);
    let reading = |snapshot: &Snapshot| {
        tolerance.nanoseconds_at_most(snapshot.width_ticks().saturating_add(beyond)) + i128::from(clock_ns)
    };
    saturated(reading(earlier) + reading(later))
}

/// Nanoseconds by which REALTIME gained on BOOTTIME; only setting REALTIME changes their difference.
pub(crate) fn stepped(earlier: &Snapshot, later: &Snapshot) -> i64 {
    gained(earlier, later, |s| s.realtime_ns, |s| s.boottime_ns)
}

/// Nanoseconds by which MONOTONIC gained on MONOTONIC_RAW, which is never slewed.
pub(crate) fn slewed(earlier: &Snapshot, later: &Snapshot) -> i64 {
    gained(earlier, later, |s| s.monotonic_ns, |s| s.monotonic_raw_ns)
}

fn gained(earlier: &Snapshot, later: &Snapshot, clock: fn(&Snapshot) -> i64, against: fn(&Snapshot) -> i64) -> i64 {
    (clock(later) - clock(earlier)) - (against(later) - against(earlier))
}

/// Name of a clock that ran backward, if one did; REALTIME may.
fn backward(earlier: &Snapshot, later: &Snapshot) -> Option<&'static str> {
    let counter = [earlier.before, earlier.after, later.before, later.after];
    [
        ("the counter", !counter.is_sorted()),
        ("CLOCK_MONOTONIC", later.monotonic_ns < earlier.monotonic_ns),
        ("CLOCK_MONOTONIC_RAW", later.monotonic_raw_ns < earlier.monotonic_raw_ns),
        ("CLOCK_BOOTTIME", later.boottime_ns < earlier.boottime_ns),
    ]
    .into_iter()
    .find_map(|(clock, ran_backward)| ran_backward.then_some(clock))
}

/// An allowance that does not fit is wider than any change that does.
fn saturated(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

impl fmt::Display for ClockEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last, open) = (self.earlier.before, self.later.after, self.uncertainty_ns);
        write!(f, "between ticks {first} and {last}: ")?;
        match self.change {
            Change::Step { ns } => write!(
                f,
                "expected CLOCK_REALTIME to keep its distance from CLOCK_BOOTTIME within {open} ns, found a step of \
                 {ns} ns; evidence in CLOCK_REALTIME is void across it"
            ),
            Change::Set { ns } => write!(
                f,
                "expected CLOCK_REALTIME to be left alone, found that the kernel tells of a set, of {ns} ns within \
                 {open} ns; evidence in CLOCK_REALTIME is void across it"
            ),
            Change::Slew { ns } => write!(
                f,
                "expected CLOCK_MONOTONIC to run with CLOCK_MONOTONIC_RAW within {open} ns, found {ns} ns gained; \
                 evidence in CLOCK_REALTIME needs that slew in its rho. Stop the time daemon's slewing, or wait for it"
            ),
            Change::Suspend { ns } => write!(
                f,
                "the host was suspended: CLOCK_BOOTTIME went {ns} ns ahead of CLOCK_MONOTONIC (within \
                 {open} ns); the counter may have stopped: repeat the run with suspend switched off"
            ),
            Change::Discipline { from, to } => write!(
                f,
                "expected an unchanged clock discipline, found {from}, then {to}; evidence in CLOCK_REALTIME is void \
                 unless its rho covers the difference"
            ),
            Change::Backward { clock } => write!(
                f,
                "expected {clock} to advance, found {}, then {}; no bound across it holds: was the host migrated, or \
                 reset?",
                self.earlier, self.later
            ),
        }
    }
}

/// Reads a kernel clock, in nanoseconds.
pub(crate) fn nanoseconds(clock: libc::clockid_t) -> Result<i64, Finding> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, and `time` is one.
    if unsafe { libc::clock_gettime(clock, &mut time) } == 0 {
        return Ok(time.tv_sec * 1_000_000_000 + time.tv_nsec);
    }
    Err(Finding {
        about: "kernel clock",
        problem: Problem::Failure {
            action: format!("read clock {clock}"),
            reason: std::io::Error::last_os_error().to_string(),
        },
        remedy: "allow clock_gettime in the sandbox".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOLERANCE: Tolerance = Tolerance {
        frequency: Frequency { hertz: 1_000_000_000, tolerance_ppm: 0 },
        slew_ppb: 1_000,
        widths: SnapshotWidths { counter_ticks: 1, clock_ns: 1 },
    };
    const SECOND: i64 = 1_000_000_000;
    /// Two widths of 100 ns, and the rounding: what two still snapshots leave open.
    const OPEN: i64 = 2 * (100 + 1 + 1);

    fn at(ns: i64) -> Snapshot {
        Snapshot {
            before: ns,
            realtime_ns: 1_700_000_000 * SECOND + ns,
            monotonic_ns: ns,
            monotonic_raw_ns: ns,
            boottime_ns: ns + 5,
            after: ns + 100,
            discipline: Some(Discipline::STILL),
        }
    }

    fn changes(later: Snapshot) -> Vec<Change> {
        between(at(SECOND), later, &TOLERANCE).iter().map(|event| event.change).collect()
    }

    #[test]
    fn still_clocks_have_no_events() {
        assert_eq!(changes(at(3600 * SECOND)), []);
    }

    #[test]
    fn a_step_is_seen_beyond_the_width_of_the_snapshots_and_not_at_it() {
        let stepped = |ns: i64| Snapshot { realtime_ns: at(2 * SECOND).realtime_ns + ns, ..at(2 * SECOND) };
        for sign in [1, -1] {
            assert_eq!(changes(stepped(sign * OPEN)), []);
            assert_eq!(changes(stepped(sign * (OPEN + 1))), [Change::Step { ns: sign * (OPEN + 1) }]);
        }
    }

    #[test]
    fn a_slew_is_seen_beyond_its_tolerance_and_the_width_and_not_at_them() {
        let slewed = |ns: i64| {
            let still = at(2 * SECOND);
            let (monotonic_ns, realtime_ns) = (still.monotonic_ns + ns, still.realtime_ns + ns);
            Snapshot { monotonic_ns, realtime_ns, boottime_ns: still.boottime_ns + ns, ..still }
        };
        let allowed = OPEN + SECOND / 1_000_000 + 1;
        for sign in [1, -1] {
            assert_eq!(changes(slewed(sign * allowed)), []);
            assert_eq!(changes(slewed(sign * (allowed + 1))), [Change::Slew { ns: sign * (allowed + 1) }]);
        }
    }

    #[test]
    fn what_the_steps_of_counter_and_clocks_leave_open_is_no_event() {
        // A counter that shows every 1000th tick has both its readings on one stair.
        let widths = SnapshotWidths { counter_ticks: 1000, clock_ns: 10 };
        let seen = |ns: i64, widths| {
            let awake = at(2 * SECOND);
            let later = Snapshot { boottime_ns: awake.boottime_ns + ns, realtime_ns: awake.realtime_ns + ns, ..awake };
            between(at(0), later, &Tolerance { widths, ..TOLERANCE }).len()
        };
        assert_eq!([24, 1_900].map(|ns| seen(ns, widths)), [0, 0]);
        assert!(seen(24_000, widths) > 0 && seen(1_900, SnapshotWidths::default()) > 0);
    }

    #[test]
    fn a_suspend_is_seen_beyond_the_width_of_the_snapshots_and_not_at_it() {
        // The kernel lets both go on by the time slept.
        let slept = |ns: i64| {
            let awake = at(2 * SECOND);
            Snapshot { boottime_ns: awake.boottime_ns + ns, realtime_ns: awake.realtime_ns + ns, ..awake }
        };
        assert_eq!(changes(slept(OPEN)), []);
        assert_eq!(changes(slept(OPEN + 1)), [Change::Suspend { ns: OPEN + 1 }]);
    }

    #[test]
    fn any_change_of_the_discipline_is_seen_and_an_unknown_one_is_not_guessed() {
        let (still, other) = (at(2 * SECOND), Discipline { status: 0x41, ..Discipline::STILL });
        let changed = Change::Discipline { from: still.discipline.unwrap(), to: other };
        assert_eq!(changes(Snapshot { discipline: Some(other), ..still }), [changed]);
        assert_eq!(changes(Snapshot { discipline: None, ..still }), []);
    }

    #[test]
    fn a_counter_or_a_monotonic_clock_that_ran_backward_is_an_event_of_its_own() {
        assert_eq!(changes(Snapshot { before: SECOND + 100, ..at(2 * SECOND) }), []);
        let backward = |clock| [Change::Backward { clock }];
        assert_eq!(changes(Snapshot { before: SECOND + 99, ..at(2 * SECOND) }), backward("the counter"));
        assert_eq!(changes(Snapshot { monotonic_ns: SECOND - 1, ..at(2 * SECOND) }), backward("CLOCK_MONOTONIC"));
        assert_eq!(changes(Snapshot { boottime_ns: SECOND, ..at(2 * SECOND) }), backward("CLOCK_BOOTTIME"));
    }

    #[test]
    fn an_event_names_both_stamps() {
        let stepped = Snapshot { realtime_ns: 0, ..at(2 * SECOND) };
        let sentence = between(at(SECOND), stepped, &TOLERANCE)[0].to_string();
        assert!(sentence.contains("1000000000") && sentence.contains("2000000100"), "{sentence}");
    }

    #[test]
    fn this_hosts_counter_and_uptime_advance_between_two_snapshots() {
        let counter = NodeCounter::default();
        let earlier = Snapshot::of_this_host(&counter).unwrap();
        let later = Snapshot::of_this_host(&counter).unwrap();
        assert_eq!(backward(&earlier, &later), None);
    }

    /// A map that moved every term a second ago: offset, drift, a step and a slew.
    fn injected() -> (RealtimeInjection, HostClocks) {
        let now = nanoseconds(libc::CLOCK_REALTIME).unwrap();
        let (anchor, from) = (now - SECOND, now - SECOND);
        let text = format!("{anchor}:5000000000:40000000:0:2;step@{from}:7000000000;slew@{from}:{now}:-90000000");
        let map: RealtimeInjection = text.parse().unwrap();
        (map.clone(), HostClocks::new(NodeCounter::default(), Some(map)))
    }

    #[test]
    fn injected_clocks_read_what_the_map_makes_of_the_true_ones() {
        let (map, clocks) = injected();
        let earlier = HostClocks::default().snapshot_once().unwrap();
        let read = clocks.snapshot_once().unwrap();
        let realtime = clocks.bracketed_once(KernelClock::Realtime).unwrap().at;
        let alone = clocks.bracketed_once(KernelClock::Monotonic).unwrap().at;
        let later = HostClocks::default().snapshot_once().unwrap();
        let ordered = |values: [i64; 4]| assert!(values.is_sorted(), "{values:?}");
        ordered([map.apply(earlier.realtime_ns), read.realtime_ns, realtime, map.apply(later.realtime_ns)]);
        let gained = |truth: &Snapshot| map.gained(truth.realtime_ns);
        // A nanosecond for the instants of the two clocks of one snapshot, where the map's rounding may fall between.
        let monotonic = |truth: &Snapshot| truth.monotonic_ns + gained(truth);
        assert!(monotonic(&earlier) - 1 <= read.monotonic_ns && read.monotonic_ns <= monotonic(&later) + 1);
        let boottime = |truth: &Snapshot| truth.boottime_ns + gained(truth);
        assert!(boottime(&earlier) - 1 <= read.boottime_ns && read.boottime_ns <= boottime(&later) + 1);
        assert!(read.monotonic_ns <= alone && alone <= monotonic(&later) + 1);
        ordered([earlier.monotonic_raw_ns, read.monotonic_raw_ns, later.monotonic_raw_ns, i64::MAX]);
        assert!(gained(&later) < -49_000_000, "40 ppm of drift and -90 of slew, over a second: the map does something");
    }

    #[test]
    fn a_reading_lies_between_the_counters_that_bracket_it() {
        let clocks = HostClocks::default();
        for clock in [KernelClock::Realtime, KernelClock::Monotonic] {
            let readings: Vec<ClockReading> = (0..20).map(|_| clocks.bracketed(clock).unwrap()).collect();
            assert!(readings.iter().all(|reading| reading.width_ticks() > 0));
            assert!(readings.windows(2).all(|pair| pair[0].at < pair[1].at && pair[0].after < pair[1].before));
        }
    }

    #[test]
    fn a_real_suspend_is_no_step_and_a_step_while_asleep_is_both() {
        let awake = at(2 * SECOND);
        let slept = |stepped: i64| Snapshot {
            boottime_ns: awake.boottime_ns + 60 * SECOND,
            realtime_ns: awake.realtime_ns + 60 * SECOND + stepped,
            ..awake
        };
        let suspend = Change::Suspend { ns: 60 * SECOND };
        assert_eq!(changes(slept(0)), [suspend]);
        assert_eq!(changes(slept(-SECOND)), [Change::Step { ns: -SECOND }, suspend]);
    }

    proptest! {
        #[test]
        fn property_clocks_read_anywhere_within_their_snapshots_give_no_events_while_they_keep_still(
            start in 0i64..1 << 50, length in 10_000i64..1 << 45, reads in prop::array::uniform8(0i64..=3000),
        ) {
            let snapshot = |start: i64, reads: &[i64]| {
                let mut moments: Vec<i64> = reads.iter().map(|delay| start + delay).collect();
                moments.sort_unstable();
                Snapshot {
                    before: start,
                    realtime_ns: moments[0] + 77 * SECOND,
                    monotonic_ns: moments[1],
                    monotonic_raw_ns: moments[2],
                    boottime_ns: moments[3] + 9,
                    after: start + 3000,
                    discipline: None,
                }
            };
            let (earlier, later) = (snapshot(start, &reads[..4]), snapshot(start + length, &reads[4..]));
            prop_assert_eq!(between(earlier, later, &TOLERANCE), vec![]);
        }
    }
}

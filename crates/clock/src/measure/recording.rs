//! Recordings of one window of time: readings in a row, costs against time, trials of sections of known length.

use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::*};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_stats::Quantile;

use super::service::{Job, Reader, Service};
use crate::compensation::Trial;
use crate::series::{Series, Span};

/// Readings without anything between them.
const STRETCH: usize = 16;
/// The same of a clock that is slow: so that it looks at the time often enough.
const STRETCH_SLOW: usize = 4;
/// A clock is slow if its cheapest of a few readings takes longer, ticks: some microsecond.
const SLOW_TICKS: i64 = 3_000;
/// Readings that one window keeps at most: a cheap clock's are spaced out over the window.
pub const READINGS_MAX: usize = 1 << 16;
/// Trials that one window keeps at most.
const TRIALS_MAX: usize = 1 << 14;
/// Readings and trials taken even where the window is already over: a busy machine may not have run us at all ...
const READINGS_MIN: usize = 8;
/// ... and where all time is over.
const READINGS_LATE: usize = 2;
/// Slices that a ramp is told in.
const SLICES: usize = 24;

/// Place and length of a measurement.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// Allowed processors.
    pub cpus: &'a [usize],
    /// Threads that read the clock, the measured one among them.
    pub readers: usize,
    /// Ticks of the counter.
    pub ticks: i64,
    /// Length of one tick in the clock's unit.
    pub unit_per_tick: f64,
    /// The counter when time is over, for whatever is not done by then.
    pub latest: i64,
}

/// Readings in a row, while all readers read.
pub struct Steady {
    /// The measured reader's.
    pub series: Series,
    /// Its readings a second of the counter, in readings and ticks.
    pub own: Rate,
    /// The same of all readers, each over its own time.
    pub all: Vec<Rate>,
}

/// Readings in some time.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub readings: u64,
    pub ticks: i64,
}

/// Cost of a reading against time, while other readers start and stop.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Ramp {
    /// From when all were ready to the end of the window, or of the last reading if that ended later; ticks of the
    /// counter.
    pub ticks: i64,
    /// When the others started, as a share of that.
    pub started: Vec<f64>,
    /// When they stopped.
    pub stopped: Vec<f64>,
    /// All of it in slices of equal length.
    pub slices: Vec<Slice>,
}

/// One slice of a ramp.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Slice {
    /// Readings that ended in it.
    pub readings: usize,
    /// Median cost, ticks; `None` of no readings.
    pub cost_ticks: Option<i64>,
}

/// Costs of readings, each between two stamps of the counter.
pub struct Costs {
    /// In order of time, ticks.
    pub ticks: Vec<i64>,
    /// Against time.
    pub ramp: Ramp,
}

/// A trial as recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// The counter before its first reading and after its last one.
    pub from: i64,
    pub to: i64,
    /// In the clock's unit.
    pub t_1: i64,
    pub t_m: i64,
    pub t_4: i64,
    /// Wait between the second and the third reading, ticks of the counter.
    pub waited: i64,
}

/// A pair of readings that a sampler took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampled {
    /// When, ticks of the counter.
    pub at: i64,
    /// From one reading to the other, in the clock's unit.
    pub cost: i64,
}

/// Readings in a row by `window.readers` threads at once.
pub fn steady(service: &Service, window: Window) -> io::Result<Steady> {
    let over = AtomicBool::new(false);
    let gate = Barrier::new(window.readers);
    thread::scope(|scope| {
        let others: Vec<_> = (1..window.readers)
            .map(|other| {
                let (gate, over) = (&gate, &over);
                scope.spawn(move || {
                    let reader = ready(service, window.cpus, other, gate);
                    reader.map(|reader| reader.drive(Rounds { over }))
                })
            })
            .collect();
        let measured = scope.spawn(|| {
            let _others_end = Raised(&over);
            let reader = ready(service, window.cpus, 0, &gate);
            reader.map(|reader| reader.drive(Stretches(Limit::of(&window))))
        });
        let (readings, spans, own) = measured.join().expect(SOUND)?;
        let mut all = vec![own];
        for other in others {
            all.push(other.join().expect(SOUND)?);
        }
        Ok(Steady { series: Series::new(readings, spans, window.unit_per_tick), own, all })
    })
}

/// Costs against time; the other readers start one after another from a fifth of the window on, and stop likewise from
/// three fifths on.
pub fn costs(service: &Service, window: Window) -> io::Result<Costs> {
    const NOT_BEGUN: i64 = i64::MIN;
    let others = window.readers - 1;
    let (begun, over) = (AtomicI64::new(NOT_BEGUN), AtomicBool::new(false));
    let gate = Barrier::new(window.readers);
    let at = |first: f64, other: usize| (window.ticks as f64 * (first + 0.2 * other as f64 / others as f64)) as i64;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..others)
            .map(|other| {
                let (gate, begun, over) = (&gate, &begun, &over);
                let (start, stop) = (at(0.2, other), at(0.6, other));
                scope.spawn(move || {
                    let reader = ready(service, window.cpus, other + 1, gate)?;
                    let passed = || counter::plain() - begun.load(Acquire);
                    while !over.load(Relaxed) && (begun.load(Acquire) == NOT_BEGUN || passed() < start) {
                        thread::sleep(POLL);
                    }
                    let started = passed();
                    reader.drive(Until { over, tick: begun.load(Acquire) + stop });
                    io::Result::Ok((started, passed()))
                })
            })
            .collect();
        let measured = scope.spawn(|| {
            let _others_end = Raised(&over);
            let reader = ready(service, window.cpus, 0, &gate);
            begun.store(counter::plain(), Release);
            reader.map(|reader| reader.drive(Stamped(Limit::of(&window))))
        });
        let stamped = measured.join().expect(SOUND)?;
        let mut ramp = Ramp::of(&stamped, begun.load(Acquire), window.ticks);
        for thread in threads {
            let (started, stopped) = thread.join().expect(SOUND)?;
            ramp.started.push(started as f64 / ramp.ticks as f64);
            ramp.stopped.push(stopped as f64 / ramp.ticks as f64);
        }
        Ok(Costs { ticks: stamped.iter().map(|stamped| stamped.ticks).collect(), ramp })
    })
}

/// Costs against time by one reader: when each reading ended, and what it took, ticks.
pub fn stamped(service: &Service, window: Window) -> io::Result<Vec<[i64; 2]>> {
    let stamped = alone(service, window, Stamped(Limit::of(&window)))?;
    Ok(stamped.iter().map(|reading| [reading.at + reading.ticks, reading.ticks]).collect())
}

/// Trials of sections that wait for `wait_ticks` of the counter, or do nothing.
pub fn trials(service: &Service, window: Window, wait_ticks: i64) -> io::Result<Vec<Recorded>> {
    alone(service, window, Trials { limit: Limit::of(&window), wait_ticks })
}

/// Does a job with the measured reader alone.
fn alone<J: Job<Output: Send> + Send>(service: &Service, window: Window, job: J) -> io::Result<J::Output> {
    thread::scope(|scope| {
        let measured = scope.spawn(|| Ok(ready(service, window.cpus, 0, &Barrier::new(1))?.drive(job)));
        measured.join().expect(SOUND)
    })
}

/// The same while a thread on the last processor samples pairs of readings.
pub fn trials_with_sampler(
    service: &Service,
    window: Window,
    wait_ticks: i64,
) -> io::Result<(Vec<Recorded>, Vec<Sampled>)> {
    let over = AtomicBool::new(false);
    let gate = Barrier::new(2);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let reader = ready(service, window.cpus, window.cpus.len() - 1, &gate);
            reader.map(|reader| reader.drive(Pairs { over: &over, ticks: window.ticks }))
        });
        let measured = scope.spawn(|| {
            let _sampler_ends = Raised(&over);
            let reader = ready(service, window.cpus, 0, &gate);
            reader.map(|reader| reader.drive(Trials { limit: Limit::of(&window), wait_ticks }))
        });
        let trials = measured.join().expect(SOUND)?;
        Ok((trials, sampler.join().expect(SOUND)?))
    })
}

impl Recorded {
    /// Time of its readings together, ticks of the counter.
    pub fn spent(&self) -> i64 {
        self.to - self.from - self.waited
    }

    /// The trial, its wait turned into the clock's unit.
    pub fn trial(&self, truth: impl Fn(i64) -> i64, touched: bool) -> Trial {
        let Self { t_1, t_m, t_4, waited, .. } = *self;
        Trial { t_1, t_m, t_4, truth: truth(waited), sampled: None, touched }
    }
}

/// Costs of the readings around sections of no length, in order of time.
pub fn read_costs(recorded: &[Recorded]) -> Vec<i64> {
    recorded.iter().flat_map(|trial| [trial.t_1, trial.t_m, trial.t_4]).collect()
}

impl Slice {
    /// The slice in which those readings ended.
    pub fn of(mut costs: Vec<i64>) -> Self {
        Self { readings: costs.len(), cost_ticks: Quantile::MEDIAN.of(&mut costs) }
    }
}

const SOUND: &str = "a reader's thread ends well";
/// Interval at which a reader that is to start later looks whether it is time.
pub(super) const POLL: Duration = Duration::from_micros(100);

/// Pins the calling thread to the processor of the reader with that number, and waits for the others. Where pinning is
/// refused the scheduler places it.
fn ready<'a>(service: &'a Service, cpus: &[usize], reader: usize, gate: &Barrier) -> io::Result<Reader<'a>> {
    let _ = affinity::pin(cpus[reader % cpus.len()]);
    let reader = service.reader();
    gate.wait();
    reader
}

/// Tells others that it is over, however the thread ends.
pub(super) struct Raised<'a>(pub(super) &'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// When a loop ends.
#[derive(Clone, Copy)]
struct Limit {
    ticks: i64,
    latest: i64,
}

impl Limit {
    fn of(window: &Window) -> Self {
        Self { ticks: window.ticks, latest: window.latest }
    }

    /// Whether a loop that began then and has taken so many readings is done.
    #[inline]
    fn reached(self, begun: i64, now: i64, taken: usize) -> bool {
        now - begun >= self.ticks && (taken >= READINGS_MIN || now >= self.latest && taken >= READINGS_LATE)
    }
}

impl Ramp {
    /// The median cost in each slice, of readings that ended no earlier than `begun`; nobody started or stopped yet.
    fn of(stamped: &[StampedReading], begun: i64, window_ticks: i64) -> Self {
        let ended = |reading: &StampedReading| reading.at + reading.ticks - begun;
        let ticks = stamped.last().map_or(0, ended).max(window_ticks - 1) + 1;
        let mut costs = vec![Vec::new(); SLICES];
        for reading in stamped {
            costs[(i128::from(ended(reading)) * SLICES as i128 / i128::from(ticks)) as usize].push(reading.ticks);
        }
        let slices = costs.into_iter().map(Slice::of).collect();
        Self { ticks, started: Vec::new(), stopped: Vec::new(), slices }
    }

    /// Whether the median of the slices in the middle, while all read, is at least twice that of the first.
    pub fn felt(&self) -> bool {
        let median = |from: usize, to: usize| {
            let mut costs: Vec<i64> = self.slices.get(from..to)?.iter().filter_map(|slice| slice.cost_ticks).collect();
            costs.sort_unstable();
            costs.get(costs.len() / 2).copied()
        };
        let count = self.slices.len();
        let [first, middle] = [median(0, count / 6), median(count * 2 / 5, count * 3 / 5)];
        first.zip(middle).is_some_and(|(first, middle)| middle >= 2 * first)
    }
}

/// Samples of a window, in memory that was written to once, so that recording faults in no page; spaced out over the
/// window. Whether a reading is kept is decided before it is taken: decided after, long ones would be kept too often.
pub(super) struct SpacedSamples<T> {
    pub(super) values: Vec<T>,
    most: usize,
    every_ticks: i64,
    last: Option<i64>,
}

impl<T: Copy> SpacedSamples<T> {
    /// Room for `most` values of `size` each, like `value`.
    pub(super) fn new(value: T, most: usize, window_ticks: i64) -> Self {
        let mut values = vec![value; most];
        black_box(&mut values);
        values.clear();
        Self { values, most, every_ticks: window_ticks / most as i64, last: None }
    }

    /// Whether the `count` values that begin now are to be kept.
    pub(super) fn due(&mut self, now: i64, count: usize) -> bool {
        let due = self.last.is_none_or(|last| now - last >= self.every_ticks * count as i64);
        if due {
            self.last = Some(now);
        }
        due && self.values.len() + count <= self.most
    }
}

struct Stretches(Limit);

impl Job for Stretches {
    type Output = (Vec<i64>, Vec<Span>, Rate);

    fn run(self, mut read: impl FnMut() -> i64) -> Self::Output {
        let mut samples = SpacedSamples::new(0_i64, READINGS_MAX, self.0.ticks);
        let mut spans = Vec::with_capacity(READINGS_MAX / STRETCH);
        let mut rate = Rate { readings: 0, ticks: 0 };
        let mut longest = [0; STRETCH];
        let stretch = if is_slow(&mut read) { &mut longest[..STRETCH_SLOW] } else { &mut longest[..] };
        let begun = counter::plain();
        loop {
            let from = counter::plain();
            for reading in stretch.iter_mut() {
                *reading = read();
            }
            let to = counter::plain();
            rate = Rate { readings: rate.readings + stretch.len() as u64, ticks: rate.ticks + to - from };
            if samples.due(from, stretch.len()) {
                samples.values.extend_from_slice(stretch);
                spans.push(Span { from, to });
            }
            if self.0.reached(begun, to, samples.values.len()) {
                return (samples.values, spans, rate);
            }
        }
    }
}

fn is_slow(read: &mut impl FnMut() -> i64) -> bool {
    const TRIES: usize = 3;
    let took = |_| {
        let from = counter::plain();
        black_box(read());
        counter::plain() - from
    };
    (0..TRIES).map(took).all(|ticks| ticks > SLOW_TICKS)
}

struct Rounds<'a> {
    over: &'a AtomicBool,
}

impl Job for Rounds<'_> {
    type Output = Rate;

    fn run(self, mut read: impl FnMut() -> i64) -> Rate {
        let from = counter::plain();
        let mut readings = 0;
        while !self.over.load(Relaxed) {
            black_box(read());
            readings += 1;
        }
        Rate { readings, ticks: counter::plain() - from }
    }
}

struct Until<'a> {
    over: &'a AtomicBool,
    tick: i64,
}

impl Job for Until<'_> {
    type Output = ();

    fn run(self, mut read: impl FnMut() -> i64) {
        while counter::plain() < self.tick && !self.over.load(Relaxed) {
            black_box(read());
        }
    }
}

struct Stamped(Limit);

/// A reading between two stamps of the counter.
#[derive(Clone, Copy)]
struct StampedReading {
    /// The earlier stamp.
    at: i64,
    /// From that to the later one.
    ticks: i64,
}

impl Job for Stamped {
    type Output = Vec<StampedReading>;

    fn run(self, mut read: impl FnMut() -> i64) -> Self::Output {
        let mut samples = SpacedSamples::new(StampedReading { at: 0, ticks: 0 }, READINGS_MAX, self.0.ticks);
        let first = counter::plain();
        let mut at = first;
        loop {
            let due = samples.due(at, 1);
            let from = counter::plain();
            black_box(read());
            at = counter::plain();
            if due {
                samples.values.push(StampedReading { at: from, ticks: at - from });
            }
            if self.0.reached(first, at, samples.values.len()) {
                return samples.values;
            }
        }
    }
}

struct Trials {
    limit: Limit,
    wait_ticks: i64,
}

impl Job for Trials {
    type Output = Vec<Recorded>;

    fn run(self, read: impl FnMut() -> i64) -> Vec<Recorded> {
        // Each with a loop of its own: a branch that is taken by one would lie in the sections of both.
        match self.wait_ticks {
            0 => self.sections(read, || 0),
            ticks => self.sections(read, || wait(ticks)),
        }
    }
}

impl Trials {
    #[inline(always)]
    fn sections(&self, mut read: impl FnMut() -> i64, section: impl Fn() -> i64) -> Vec<Recorded> {
        let none = Recorded { from: 0, to: 0, t_1: 0, t_m: 0, t_4: 0, waited: 0 };
        let mut samples = SpacedSamples::new(none, TRIALS_MAX, self.limit.ticks);
        let begun = counter::plain();
        loop {
            let from = counter::plain();
            let first = read();
            let second = read();
            let waited = section();
            let third = read();
            let fourth = read();
            let to = counter::plain();
            if samples.due(from, 1) {
                let [t_1, t_m, t_4] = [second - first, third - second, fourth - third];
                samples.values.push(Recorded { from, to, t_1, t_m, t_4, waited });
            }
            if self.limit.reached(begun, to, samples.values.len()) {
                return samples.values;
            }
        }
    }
}

/// Spins until the counter has gone on by `ticks`; returns by how much it did.
#[inline]
pub fn wait(ticks: i64) -> i64 {
    let from = counter::after();
    loop {
        let now = counter::before();
        if now - from >= ticks {
            return now - from;
        }
    }
}

struct Pairs<'a> {
    over: &'a AtomicBool,
    ticks: i64,
}

impl Job for Pairs<'_> {
    type Output = Vec<Sampled>;

    fn run(self, mut read: impl FnMut() -> i64) -> Vec<Sampled> {
        // The window may last longer than it was to: twice the room.
        let mut samples = SpacedSamples::new(Sampled { at: 0, cost: 0 }, 2 * READINGS_MAX, 2 * self.ticks);
        let mut at = counter::plain();
        while !self.over.load(Relaxed) {
            let due = samples.due(at, 1);
            let first = read();
            let second = read();
            at = counter::plain();
            if due {
                samples.values.push(Sampled { at, cost: second - first });
            }
        }
        samples.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_goes_from_when_all_were_ready_to_the_end_of_the_window_or_of_the_last_reading() {
        let stamped = [StampedReading { at: 1_000, ticks: 50 }, StampedReading { at: 1_150, ticks: 80 }];
        let ramp = Ramp::of(&stamped, 1_000, 2_400);
        let filled = |ramp: &Ramp| {
            let slices = ramp.slices.iter().enumerate();
            slices.filter_map(|(number, slice)| Some((number, slice.cost_ticks?))).collect::<Vec<_>>()
        };
        assert_eq!((ramp.ticks, filled(&ramp)), (2_400, vec![(0, 50), (2, 80)]));
        let late = Ramp::of(&stamped, 1_000, 100);
        assert_eq!((late.ticks, filled(&late)), (231, vec![(5, 50), (23, 80)]));
    }

    #[test]
    fn a_ramp_is_felt_from_twice_the_cost_in_the_middle() {
        let ramp = |middle: i64| {
            let slice = |number: usize| Slice {
                readings: 1,
                cost_ticks: Some(if (8..16).contains(&number) { middle } else { 50 }),
            };
            Ramp { ticks: 24, started: vec![0.3], stopped: vec![0.7], slices: (0..SLICES).map(slice).collect() }
        };
        assert!(ramp(100).felt() && !ramp(99).felt());
    }
}

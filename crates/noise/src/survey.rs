//! A survey: one detector on all its cores at once, window after window.
//!
//! Idea: in a window every core has a thread of its own, pinned, that does nothing but detect; what it noted is looked
//! at after the window, when no core detects, and so is what the kernel did meanwhile. So memory is bounded by one
//! window, and looking disturbs no figure: the time in between is in none. Traces of fixed work follow one another
//! within a window, and what is kept of each is taken in between without ever waiting: a thread that waits before each
//! would be favoured by the scheduler while it measures. Assumes: nothing; a core that cannot be had, or is left in the
//! middle of a window, is told as missing from there on. Deliberately absent: what caused what, which is
//! [`cause`](crate::cause)'s.

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tickscope_counter::{UNROLLED, plain, unrolled, unrolled_writing};
use tickscope_host::affinity;
use tickscope_host::step::{CounterStep, Evidence};
use tickscope_stats::Rule;

use crate::cause::{DetourCause, KernelWindow};
use crate::detector::{Detector, fixed_time, fixed_work, selfish};
use crate::detour::{Detour, DetourLimit};
use crate::fresh_memory::FreshMemory;
use crate::kernel_record::{KernelRecord, clock_ticks, own_counts, stolen};
use crate::profile::{CoreProfile, Machine, NoiseProfile, ThreadCounts, VERSION, Work, share};
use crate::shape::Shapes;
use crate::tally::{DetourTally, SAMPLE, take_fairly};
use crate::window::{WindowSum, Windows};

/// Blocks of memory that fixed work is tried with: multiples of 16 and of 4096 bytes, and primes next to them.
pub const STUDY_BYTES: [u32; 6] = [16, 64, 4096, 17, 67, 4099];
/// The largest block: a trace writes into 10 001 of them.
pub const MOST_BYTES: u32 = 16_384;
/// Length of a window.
const WINDOW: Duration = Duration::from_secs(1);
/// Parts of a second that are summed up by themselves, for comparisons.
const PARTS: f64 = 8.0;
/// A quantum of time: short against a window, long against a reading.
const QUANTUM: Duration = Duration::from_millis(1);
/// Detours that a window has room for; one that is full ends its window.
const MOST_DETOURS: usize = 1 << 17;
/// Traces of fixed work that are kept whole for each use of memory: the study had as many tablets.
const MOST_TRACES: usize = 20;
/// Bytes that the last store of a trace takes beyond its block.
const STORED_BYTES: usize = 8;

/// Settings of a survey.
#[derive(Clone, Debug)]
pub struct NoisePlan {
    /// The detector.
    pub detector: Detector,
    /// How long to measure, about.
    pub seconds: f64,
    /// On these cores.
    pub cores: Vec<usize>,
    /// Fixed work alone: blocks of memory, bytes each, next to none.
    pub memory_bytes: Vec<u32>,
    /// Ticks a second, as declared.
    pub hertz: u64,
    /// How the counter moves.
    pub step: CounterStep,
    /// The machine.
    pub machine: Machine,
    /// Whether the kernel's trace runs beside, which names causes and costs time of its own.
    pub trace: bool,
    /// A rule for outliers that was tuned, next to those that have names.
    pub rule: Option<Rule>,
}

/// Window of a core, as [`survey`] saw it.
#[derive(Clone, Copy, Debug)]
pub struct SeenWindow<'a> {
    /// The core.
    pub core: usize,
    /// The detector's thread.
    pub thread: i32,
    /// The first and the last reading.
    pub ends: [i64; 2],
    /// What tells a detour from a pass.
    pub limit: DetourLimit,
    /// All detours, with their causes where these are recorded.
    pub detours: &'a [(Detour, Option<DetourCause>)],
    /// What the kernel did meanwhile.
    pub events: Option<&'a KernelWindow>,
}

/// Measures; `go_on` hears how far it is and may end it, `each` sees every window that a core completed. An error says
/// why nothing can be measured.
pub fn survey(
    plan: &NoisePlan,
    go_on: &mut dyn FnMut(&str) -> bool,
    each: &(dyn Fn(SeenWindow) + Sync),
) -> Result<NoiseProfile, String> {
    plan.check()?;
    let mut cores: Vec<OnCore> = plan.cores.iter().map(|&core| OnCore::new(core, plan)).collect();
    let mut kernel = KernelRecord::begin(!plan.trace);
    let begun = Instant::now();
    let left = || plan.seconds - begun.elapsed().as_secs_f64();
    loop {
        let seconds = left().min(WINDOW.as_secs_f64()).max(QUANTUM.as_secs_f64());
        let variations = plan.variations().count();
        for variation in 0..variations {
            let ticks = (seconds / variations as f64 * plan.hertz as f64) as i64;
            let parts = if plan.detector == Detector::Fwq { 1 } else { ((seconds * PARTS) as usize).max(1) };
            window(&mut cores, &mut kernel, At { variation, ticks }, Seeing { plan, parts, each });
        }
        let done = format!("{}: {:.0} of {} s", plan.detector, plan.seconds - left().max(0.0), plan.seconds);
        if !go_on(&done) || left() <= 0.0 || cores.iter().all(|of| of.gone.is_some()) {
            break;
        }
    }
    Ok(profile(plan, cores, &kernel))
}

/// A window to come.
#[derive(Clone, Copy)]
struct At {
    variation: usize,
    ticks: i64,
}

impl NoisePlan {
    fn check(&self) -> Result<(), String> {
        if self.step.evidence == Evidence::Still {
            return Err("expected a counter that moves, found one that stands still. Measure on another machine".into());
        }
        let most = self.memory_bytes.iter().copied().max().unwrap_or(0);
        let needed = u64::from(most) * UNROLLED as u64 * self.cores.len() as u64;
        match available_bytes() {
            Some(available) if needed > available / 2 => Err(format!(
                "expected at most half of the {available} bytes of memory that are free, found blocks of {most} bytes, \
                 which take {needed}. Choose smaller --memory, or fewer --cores"
            )),
            _ => Ok(()),
        }
    }

    fn variations(&self) -> impl Iterator<Item = Option<u32>> {
        let memory = self.memory_bytes.iter().filter(|_| self.detector == Detector::Fwq);
        std::iter::once(None).chain(memory.map(|&bytes| Some(bytes)))
    }

    fn quantum_ticks(&self) -> i64 {
        (QUANTUM.as_secs_f64() * self.hertz as f64) as i64
    }
}

fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// One core with what was found on it.
struct OnCore {
    core: usize,
    readings: Box<[i64; UNROLLED]>,
    found: Vec<Detour>,
    passes: Vec<i64>,
    variations: Vec<Variation>,
    /// Thread of the last window.
    thread: i32,
    /// Ticks of the kernel's clock that were stolen before the first window.
    stolen: Option<u64>,
    /// First reading of its first window.
    began: Option<i64>,
    /// Why nothing more is measured there.
    gone: Option<String>,
}

/// What was found with memory used in one way.
struct Variation {
    memory_bytes: Option<u32>,
    limit: Option<DetourLimit>,
    windows: u64,
    measured_ticks: i64,
    sums: Windows,
    /// Traces of fixed work so far, and those that are kept whole.
    kept: u64,
    traces: Vec<Vec<i64>>,
    detours: DetourTally,
    counts: ThreadCounts,
    has_causes: bool,
    shapes: Shapes,
    quanta: Quanta,
}

#[derive(Default)]
struct Quanta {
    count: u64,
    idle: u64,
    most: i64,
    passes: i64,
    sample: Vec<i64>,
}

/// Settings, and who sees what comes of them.
#[derive(Clone, Copy)]
struct Seeing<'a> {
    plan: &'a NoisePlan,
    /// Parts of the window that are summed up by themselves.
    parts: usize,
    each: &'a (dyn Fn(SeenWindow) + Sync),
}

/// One window on every core that is left.
fn window(cores: &mut [OnCore], kernel: &mut Result<KernelRecord, String>, at: At, seeing: Seeing) {
    let plan = seeing.plan;
    let gate = Barrier::new(cores.iter().filter(|of| of.gone.is_none()).count());
    let from = plain();
    let mut left: Vec<(&mut OnCore, Found)> = thread::scope(|scope| {
        let there = cores.iter_mut().filter(|of| of.gone.is_none());
        let threads: Vec<_> = there
            .map(|of| {
                let gate = &gate;
                scope.spawn(move || {
                    let measured = of.detect(at, gate, plan);
                    (of, measured)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a detector's thread ends well")).collect()
    });
    let said = kernel.as_mut().ok().map(|record| record.take(from));
    let events = said.map(|said| {
        said.unwrap_or_else(|why| {
            *kernel = Err(format!("what caused detours is known in a part of the time alone: {why}"));
            KernelWindow::default()
        })
    });
    thread::scope(|scope| {
        for (of, measured) in left.drain(..) {
            let events = events.as_ref();
            scope.spawn(move || of.take(at.variation, measured, events, seeing));
        }
    });
}

/// Stretch that was measured without a pause: a window, or one of its traces of fixed work.
struct Measured {
    /// The first and the last reading.
    ends: [i64; 2],
    /// Detours of its window up to its last one.
    found: usize,
}

/// Stretches of a core in a window, in order, or why it failed.
type Found = Result<Vec<Measured>, String>;

impl OnCore {
    fn new(core: usize, plan: &NoisePlan) -> Self {
        // Written to, so that no page of it faults in a window.
        let mut found = vec![Detour { before: 1, after: 1 }; MOST_DETOURS];
        found.clear();
        let variation = |memory_bytes| Variation {
            memory_bytes,
            limit: None,
            windows: 0,
            measured_ticks: 0,
            sums: Windows::default(),
            kept: 0,
            traces: Vec::new(),
            detours: DetourTally::new(plan.hertz),
            counts: ThreadCounts::default(),
            has_causes: false,
            shapes: Shapes::new(plan.rule),
            quanta: Quanta::default(),
        };
        let variations = plan.variations().map(variation).collect();
        let quanta = (plan.seconds.min(WINDOW.as_secs_f64()) / QUANTUM.as_secs_f64()) as usize;
        let mut passes = vec![1; 2 * quanta];
        passes.clear();
        let (readings, stolen) = (Box::new([1; UNROLLED]), stolen(core));
        Self { core, readings, found, passes, variations, thread: 0, stolen, began: None, gone: None }
    }

    /// Detects on this core, once all others are ready.
    fn detect(&mut self, at: At, gate: &Barrier, plan: &NoisePlan) -> Found {
        let core = self.core;
        // SAFETY: takes no arguments and touches no memory of ours.
        self.thread = unsafe { libc::gettid() };
        let pinned = affinity::pin(core).map_err(|e| format!("core {core} is not measured: {e}"));
        let of = &mut self.variations[at.variation];
        gate.wait();
        pinned?;
        if of.limit.is_none() || plan.detector == Detector::Fwq {
            of.trace(&mut self.readings, plan)?;
        }
        let limit =
            of.limit.ok_or("expected readings that ascend, found a counter that runs backward. Do not trust it")?;
        let until = plain() + at.ticks;
        let mut measured = Vec::new();
        loop {
            let (before, found) = (own_counts(), &mut self.found);
            let ends = match plan.detector {
                Detector::Selfish => selfish(plain, until, limit, found),
                Detector::Ftq => fixed_time(plain, [until, plan.quantum_ticks()], limit, found, &mut self.passes),
                Detector::Fwq => fixed_work(&self.readings[..], limit, found),
            };
            of.counts.add(before, own_counts());
            is_on(core)?;
            measured.push(Measured { ends, found: self.found.len() });
            if plan.detector != Detector::Fwq {
                return Ok(measured);
            }
            of.keep(&self.readings[..], limit);
            if plain() >= until || self.found.len() >= MOST_DETOURS {
                return Ok(measured);
            }
            of.trace(&mut self.readings, plan)?;
        }
    }

    /// Takes what a window left; of one that failed nothing is known.
    fn take(&mut self, at: usize, measured: Found, events: Option<&KernelWindow>, seeing: Seeing) {
        let (of, core, thread) = (&mut self.variations[at], self.core, self.thread);
        of.has_causes |= events.is_some();
        let (found, passes) = (std::mem::take(&mut self.found), &mut self.passes);
        match (measured, of.limit) {
            (Ok(measured), Some(limit)) => {
                // Where the recorder failed, a window without events says that nothing is known.
                let nothing = KernelWindow::default();
                let events = events.or_else(|| of.has_causes.then_some(&nothing));
                let mut begin = 0;
                for Measured { ends, found: end } in measured {
                    self.began.get_or_insert(ends[0]);
                    let cause_of = |detour| events.map(|events| events.cause(detour, core, thread));
                    let detours = of.take(ends, &found[begin..end], cause_of, seeing.parts);
                    (seeing.each)(SeenWindow { core, thread, ends, limit, detours: &detours, events });
                    begin = end;
                }
                of.quanta.take(passes);
            }
            (measured, _) => self.gone = measured.err(),
        }
        passes.clear();
        self.found = found;
        self.found.clear();
    }
}

impl OnCore {
    /// A count of the kernel's clock may lag by one of its ticks.
    fn stolen_ns(&self) -> Option<[i64; 2]> {
        let ticks = stolen(self.core)?.checked_sub(self.stolen?)? as i64;
        let tick_ns = (1_000_000_000 / clock_ticks()) as i64;
        Some([(ticks - 1).max(0) * tick_ns, (ticks + 1) * tick_ns])
    }
}

impl ThreadCounts {
    fn add(&mut self, before: [i64; 3], after: [i64; 3]) {
        self.preempted += after[0] - before[0];
        self.waited += after[1] - before[1];
        self.faults += after[2] - before[2];
    }
}

impl Quanta {
    fn take(&mut self, passes: &[i64]) {
        for &passes in passes {
            self.count += 1;
            self.idle += u64::from(passes == 0);
            self.most = self.most.max(passes);
            self.passes += passes;
            take_fairly(&mut self.sample, SAMPLE, self.count, passes);
        }
    }
}

/// Why the calling thread is not on that core any more.
fn is_on(core: usize) -> Result<(), String> {
    // SAFETY: takes no arguments and touches no memory of ours.
    match usize::try_from(unsafe { libc::sched_getcpu() }) {
        Ok(now) if now == core => Ok(()),
        _ => Err(format!("core {core} is not measured any more: it was taken away. Was it switched off?")),
    }
}

impl Variation {
    /// A trace of fixed work, with stores into fresh memory where it is tried with these.
    fn trace(&mut self, readings: &mut [i64; UNROLLED], plan: &NoisePlan) -> Result<(), String> {
        let bytes = self.memory_bytes.map_or(0, |bytes| bytes as usize);
        let memory = (bytes > 0).then(|| FreshMemory::of(UNROLLED * bytes + STORED_BYTES)).transpose();
        let memory = memory.map_err(|e| format!("cannot map memory: {e}. Choose smaller --memory"))?;
        let before = own_counts();
        match memory {
            Some(mut memory) => unrolled_writing(readings, memory.bytes(), bytes),
            None => unrolled(readings),
        }
        self.counts.add(before, own_counts());
        if self.limit.is_none() {
            self.limit = DetourLimit::of(&readings[..], plan.step.width_ticks);
        }
        Ok(())
    }

    /// Keeps of a trace of fixed work what is kept of each.
    fn keep(&mut self, readings: &[i64], limit: DetourLimit) {
        let differences: Vec<i64> = readings.windows(2).map(|pair| pair[1] - pair[0]).collect();
        self.shapes.add(&differences, limit.width_ticks);
        self.kept += 1;
        take_fairly(&mut self.traces, MOST_TRACES, self.kept, differences);
    }

    /// Adds what was measured without a pause, with the cause of each of its detours.
    fn take(
        &mut self,
        ends @ [first, last]: [i64; 2],
        found: &[Detour],
        cause_of: impl Fn(Detour) -> Option<(DetourCause, i64)>,
        parts: usize,
    ) -> Vec<(Detour, Option<DetourCause>)> {
        let Some(limit) = self.limit else { return Vec::new() };
        self.windows += 1;
        self.measured_ticks += last - first;
        let (number, mut sums) = (self.sums.next(), WindowSum::parts(ends, parts, &self.detours));
        let mut detours = Vec::with_capacity(found.len());
        for &detour in found {
            let cause = cause_of(detour);
            detours.push((detour, cause.as_ref().map(|(cause, _)| cause.clone())));
            let part = WindowSum::part_of(detour.before, ends, parts);
            sums[part].add(detour, limit, cause.as_ref().map(|(cause, _)| cause), &self.detours);
            self.detours.add(detour, limit, number + part as u64, cause);
        }
        sums.into_iter().for_each(|sum| self.sums.push(sum));
        detours
    }

    fn profile(mut self, core: usize, stolen_ns: Option<[i64; 2]>, detector: Detector) -> Option<CoreProfile> {
        let limit = self.limit.filter(|_| self.windows > 0)?;
        let quanta = &self.quanta;
        let (shapes_of, sample) = match detector {
            Detector::Selfish => {
                let ticks = self.detours.sample().iter().map(|(_, ticks)| *ticks);
                ("how far the two readings of a detour are apart, ticks", ticks.collect())
            }
            Detector::Ftq => {
                let lost = quanta.sample.iter().map(|passes| quanta.most - passes);
                ("passes that a quantum lost against the best one", lost.collect::<Vec<_>>())
            }
            Detector::Fwq => ("differences of neighbouring readings, ticks, trace by trace", Vec::new()),
        };
        self.shapes.add(&sample, limit.width_ticks);
        let lost_ticks = self.detours.lost_ticks();
        Some(CoreProfile {
            core,
            memory_bytes: self.memory_bytes,
            limit,
            resolution_ticks: limit.resolution_ticks(),
            windows: self.windows,
            measured_ticks: self.measured_ticks,
            count: self.detours.count(),
            lost_ticks,
            lost_share: share(lost_ticks, self.measured_ticks, limit.width_ticks),
            causes: self.has_causes.then(|| self.detours.causes().sums()),
            counts: self.counts,
            stolen_ns,
            shapes_of: shapes_of.into(),
            shapes: self.shapes.summary(),
            work: Work::of(quanta.count, quanta.idle, quanta.most, quanta.passes),
            sums: self.sums.with_lengths(self.detours.sample()),
            traces: self.traces,
            detours: self.detours,
        })
    }
}

fn profile(plan: &NoisePlan, cores: Vec<OnCore>, kernel: &Result<KernelRecord, String>) -> NoiseProfile {
    let began_tick = cores.iter().filter_map(|of| of.began).min();
    let gone = cores.iter().filter_map(|of| of.gone.clone());
    let lacking: Vec<String> = match kernel {
        Ok(record) => record.missing().collect(),
        Err(why) => vec![format!("causes are not told, only what the kernel counts: {why}")],
    };
    let missing = gone.chain(lacking).collect();
    let of_core = |of: OnCore| {
        let (core, stolen_ns) = (of.core, of.stolen_ns());
        of.variations.into_iter().filter_map(move |variation| variation.profile(core, stolen_ns, plan.detector))
    };
    NoiseProfile {
        version: VERSION,
        detector: plan.detector,
        hertz: plan.hertz,
        step: plan.step.to_string(),
        quantum_ticks: (plan.detector == Detector::Ftq).then(|| plan.quantum_ticks()),
        cores: cores.into_iter().flat_map(of_core).collect(),
        missing,
        machine: Machine { began_tick, ..plan.machine.clone() },
    }
}

//! Detours that are known: each is found once, its length holds the truth, and its cause is named.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tickscope_counter::{NodeCounter, plain};
use tickscope_host::affinity::{allowed_cpus, pin};
use tickscope_host::facts::CounterFacts;
use tickscope_host::kernel_trace::{Class, Lasted};
use tickscope_host::step::CounterStep;
use tickscope_noise::survey::{NoisePlan, SeenWindow, survey};
use tickscope_noise::{CauseClass, Detector, Detour, DetourCause, DetourLimit, Machine, NoiseProfile};

/// Two readings so close together that no task can have had the core in between: it takes two switches.
const GOES_ON_TICKS: i64 = 500;
const ENOUGH: usize = 40;
const DEADLINE: Duration = Duration::from_secs(60);

/// One window, kept.
struct Kept {
    thread: i32,
    ends: [i64; 2],
    limit: DetourLimit,
    detours: Vec<(Detour, Option<DetourCause>)>,
    events: Option<Vec<Lasted>>,
}

impl Kept {
    fn of(seen: SeenWindow) -> Self {
        let SeenWindow { core, thread, ends, limit, detours, events } = seen;
        Self { thread, ends, limit, detours: detours.into(), events: events.map(|events| events.on(core).into()) }
    }

    fn holds(&self, [from, to]: [i64; 2]) -> bool {
        self.ends[0] < from && to < self.ends[1]
    }

    /// Detours around a stretch.
    fn around(&self, [from, to]: [i64; 2]) -> Vec<&(Detour, Option<DetourCause>)> {
        self.detours.iter().filter(|(detour, _)| detour.before <= from && to <= detour.after).collect()
    }

    /// From the first event of the kernel's within a detour to the end of the last one.
    fn told(&self, found: &[&(Detour, Option<DetourCause>)]) -> Option<i64> {
        let [(Detour { before, after, .. }, _)] = found else { return None };
        let within = |event: &&Lasted| event.class != Class::Lost && *before <= event.begin && event.end <= *after;
        let events = self.events.iter().flatten().filter(within);
        let ends = events.map(|event| (event.begin, event.end));
        let (begin, end) = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        Some(end - begin)
    }

    /// Whether nothing is missing in the kernel's own record there.
    fn is_whole(&self, [from, to]: [i64; 2]) -> bool {
        let lost = |event: &Lasted| event.class == Class::Lost && event.begin <= to && event.end >= from;
        self.events.as_ref().is_some_and(|events| !events.iter().any(lost))
    }
}

fn plan(detector: Detector, core: usize, memory_bytes: Vec<u32>) -> NoisePlan {
    let hertz = CounterFacts::of_this_host().unwrap().frequency.hertz;
    let step = CounterStep::of_counter(NodeCounter::true_counter());
    NoisePlan {
        detector,
        seconds: 1000.0,
        cores: vec![core],
        memory_bytes,
        hertz,
        step,
        machine: Machine::default(),
        rule: None,
        trace: true,
    }
}

/// Surveys until there is enough.
fn windows(plan: &NoisePlan, enough: impl Fn(&[Kept]) -> bool) -> (NoiseProfile, Vec<Kept>) {
    // A process has one trace of the kernel's.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (kept, begun) = (Mutex::new(Vec::new()), Instant::now());
    let mut go_on = |_: &str| !enough(&kept.lock().unwrap()) && begun.elapsed() < DEADLINE;
    let profile = survey(plan, &mut go_on, &|seen| kept.lock().unwrap().push(Kept::of(seen))).unwrap();
    let kept = kept.into_inner().unwrap();
    assert!(enough(&kept), "not enough in a minute");
    (profile, kept)
}

/// How injected detours of one kind were found, printed as a line of JSON: `--nocapture` shows it.
#[derive(Default)]
struct Score {
    injected: usize,
    /// In one detour, and in several.
    found: [usize; 2],
    /// Of those whose length the kernel tells too, all that it led to included: how many a detour tells to 1 us or 5 %,
    /// and by how much each is longer, ns.
    near: usize,
    longer_ns: Vec<i64>,
    /// Named by their cause, and those for which the kernel told less.
    named: usize,
    untold: usize,
}

impl Score {
    /// Takes the detours around one that lasted so long, or whose length nobody knows.
    fn add(&mut self, found: &[&(Detour, Option<DetourCause>)], lasted: Option<i64>, hertz: u64) {
        self.injected += 1;
        match found {
            [] => {}
            [_] => self.found[0] += 1,
            _ => self.found[1] += 1,
        }
        let ([(detour, _)], Some(lasted)) = (found, lasted) else { return };
        let ns = |ticks: i64| (i128::from(ticks) * 1_000_000_000 / i128::from(hertz)) as i64;
        let longer = ns(detour.difference() - lasted);
        self.near += usize::from(longer.abs() <= (ns(lasted) / 20).max(1_000));
        self.longer_ns.push(longer);
    }

    fn print(mut self, what: &str) {
        self.longer_ns.sort_unstable();
        let at = |part: usize| self.longer_ns.get(self.longer_ns.len().saturating_sub(1) * part / 100);
        println!(
            "{{\"injected\": {what:?}, \"count\": {}, \"in_one_detour\": {}, \"in_several\": {}, \"lengths\": {}, \
             \"within_1us_or_5_percent\": {}, \"longer_ns_p50_p95_most\": {:?}, \"named\": {}, \"untold\": {}}}",
            self.injected,
            self.found[0],
            self.found[1],
            self.longer_ns.len(),
            self.near,
            [50, 95, 100].map(|part| at(part).copied().unwrap_or(0)),
            self.named,
            self.untold
        );
    }
}

/// Says what cannot be tried here.
fn has_causes(profile: &NoiseProfile) -> bool {
    let why = profile.missing.iter().find(|why| why.starts_with("causes are not told"));
    why.iter().for_each(|why| println!("causes are not tried: {why}"));
    why.is_none()
}

/// Takes the core now and then until it is over, and notes stretches in which it certainly had it.
fn preempt(core: usize, over: &AtomicBool, had: &Mutex<Vec<[i64; 2]>>) {
    const LASTS_TICKS: i64 = 1_000_000;
    pin(core).unwrap();
    let deadline = Instant::now() + 2 * DEADLINE;
    while !over.load(Relaxed) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
        let begun = plain();
        let (mut from, mut last) = (begun, begun);
        while last - begun < LASTS_TICKS {
            let now = plain();
            if now - last > GOES_ON_TICKS {
                had.lock().unwrap().push([from, last]);
                from = now;
            }
            last = now;
        }
        had.lock().unwrap().push([from, last]);
    }
}

#[test]
fn each_time_that_another_thread_had_the_core_is_one_detour_that_holds_it_and_names_that_thread() {
    let core = allowed_cpus().unwrap()[0];
    let (over, had) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let plan = plan(Detector::Selfish, core, Vec::new());
    let within = |windows: &[Kept]| {
        let all = had.lock().unwrap().clone();
        let long = |kept: &Kept, [from, to]: [i64; 2]| to - from > kept.limit.resolution_ticks();
        let of = |kept: &Kept, at: [i64; 2]| kept.holds(at) && long(kept, at);
        let pairs = windows
            .iter()
            .enumerate()
            .flat_map(|(number, kept)| all.iter().filter(move |at| of(kept, **at)).map(move |at| (number, *at)));
        pairs.collect::<Vec<_>>()
    };
    let (profile, windows) = thread::scope(|scope| {
        let injector = thread::Builder::new().name("injected".into());
        injector.spawn_scoped(scope, || preempt(core, &over, &had)).unwrap();
        let found = windows(&plan, |kept| within(kept).len() >= ENOUGH);
        over.store(true, Relaxed);
        found
    });
    let mut score = Score::default();
    let injected = within(&windows);
    for (number, at) in &injected {
        let kept = &windows[*number];
        let found = kept.around(*at);
        score.add(&found, kept.told(&found), plan.hertz);
        assert_eq!(found.len(), 1, "{at:?}: {found:?}");
        let (detour, cause) = found[0];
        let [lo, hi] = kept.limit.lost_ticks(detour.difference());
        assert!(hi >= at[1] - at[0] && lo <= detour.difference(), "{at:?} in {lo}..{hi}");
        let Some(cause) = cause.as_ref().filter(|_| kept.is_whole([detour.before, detour.after])) else {
            score.untold += 1;
            continue;
        };
        assert!(matches!(cause.class, CauseClass::Switch | CauseClass::RealTimeLimit), "{at:?}: {cause:?}");
        let held = |event: &&Lasted| event.class == Class::Task && event.begin <= at[0] && at[1] <= event.end;
        let holder = kept.events.iter().flatten().find(held).map(|event| event.what.as_str());
        assert_eq!(holder, Some("injected"), "{at:?} in {detour:?}");
        // Another may have had it for longer.
        if (at[1] - at[0]) * 2 > detour.difference() {
            assert_eq!(cause.what, "injected", "{at:?} in {detour:?}");
        }
        score.named += 1;
    }
    assert!(!has_causes(&profile) || score.named + score.untold > 0);
    score.print("another thread");
}

/// Each of these events of the kernel is in one detour, whose class is that of the event or comes before it.
fn lie_in_detours(windows: &[Kept], is_event: impl Fn(&Lasted) -> bool, last: CauseClass, hertz: u64) -> Score {
    let mut score = Score::default();
    for kept in windows {
        let resolution = kept.limit.resolution_ticks();
        let seen = |event: &&Lasted| {
            let is_long = event.class == Class::Fault || event.end - event.begin > resolution;
            event.thread == kept.thread && kept.holds([event.begin, event.end]) && is_long && is_event(event)
        };
        for event in kept.events.iter().flatten().filter(seen) {
            let found = kept.around([event.begin, event.end]);
            // The kernel tells a fault without its length.
            let lasted = kept.told(&found).filter(|_| event.class != Class::Fault);
            score.add(&found, lasted, hertz);
            assert_eq!(found.len(), 1, "{event:?}: {found:?}");
            let class = found[0].1.as_ref().unwrap().class;
            let is_explained = class <= last || class == CauseClass::HypervisorOrHardware && last > CauseClass::Fault;
            assert!(is_explained, "{event:?}: {found:?}");
            score.named += usize::from(class <= last);
        }
    }
    score
}

/// Timers that each interrupt this core once, a fraction of a millisecond apart, from soon on.
fn storm(core: usize, count: u32) -> Vec<i32> {
    let arm = move || {
        pin(core).unwrap();
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel fills the struct that it is given.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) }, 0);
        let one = |number: u32| {
            let at = now.tv_nsec + 20_000_000 + i64::from(number) * 700_000;
            let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let at = libc::timespec { tv_sec: now.tv_sec + at / 1_000_000_000, tv_nsec: at % 1_000_000_000 };
            let once = libc::itimerspec { it_interval: zero, it_value: at };
            // SAFETY: takes numbers, and a struct that the kernel only reads.
            unsafe {
                let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK);
                assert!(timer >= 0);
                assert_eq!(libc::timerfd_settime(timer, libc::TFD_TIMER_ABSTIME, &once, std::ptr::null_mut()), 0);
                timer
            }
        };
        (0..count).map(one).collect()
    };
    // A timer interrupts the core that it was armed on.
    thread::spawn(arm).join().unwrap()
}

fn is_over(timer: i32) -> bool {
    let mut times = 0_u64;
    // SAFETY: the kernel writes 8 bytes at most, which are `times`'.
    unsafe { libc::read(timer, (&raw mut times).cast(), 8) == 8 && times == 1 }
}

#[test]
fn each_interrupt_of_a_storm_of_timers_lies_in_one_detour_that_names_it_or_what_it_led_to() {
    let core = *allowed_cpus().unwrap().last().unwrap();
    let (plan, storms) = (plan(Detector::Selfish, core, Vec::new()), Mutex::new(Vec::new()));
    let rounds = |kept: &[Kept]| {
        storms.lock().unwrap().extend(storm(core, 200));
        kept.len() >= 3
    };
    let (profile, windows) = windows(&plan, rounds);
    let over = storms.lock().unwrap().iter().filter(|&&timer| is_over(timer)).count();
    assert!(over >= 200, "{over} timers fired");
    // SAFETY: each was opened above, and is closed once.
    let closed = |&timer: &i32| unsafe { libc::close(timer) } == 0;
    assert!(storms.lock().unwrap().iter().all(closed));
    if has_causes(&profile) {
        let ticks = lie_in_detours(&windows, |event| event.what == "local_timer", CauseClass::Interrupt, plan.hertz);
        println!("{over} timers fired; {} interrupts of timers were long enough", ticks.injected);
        assert!(ticks.injected > 0);
        ticks.print("storm of timers");
    }
}

#[test]
fn each_page_that_faults_lies_in_one_detour_that_names_the_fault_or_what_came_of_it() {
    let core = allowed_cpus().unwrap()[0];
    let plan = plan(Detector::Fwq, core, vec![16]);
    let (profile, windows) = windows(&plan, |kept| kept.len() >= 20);
    if has_causes(&profile) {
        let faults = lie_in_detours(&windows, |event| event.class == Class::Fault, CauseClass::Fault, plan.hertz);
        let of_memory = profile.cores.iter().find(|of| of.memory_bytes == Some(16)).unwrap();
        println!("{} faults; the kernel counted {} in all", faults.injected, of_memory.counts.faults);
        assert!(faults.injected > 0 && of_memory.counts.faults > 0);
        faults.print("page faults");
        let named: BTreeSet<CauseClass> = of_memory.causes.iter().flatten().map(|sum| sum.cause.class).collect();
        assert!(named.contains(&CauseClass::Fault), "{named:?}");
    }
}

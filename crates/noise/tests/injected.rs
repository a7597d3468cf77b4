//! Detours that are known: each is found once, its length holds the truth, and its cause is named.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::*};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tickscope_counter::{NodeCounter, plain};
use tickscope_host::affinity::{allowed_cpus, pin};
use tickscope_host::facts::CounterFacts;
use tickscope_host::kernel_trace::{Class, Lasted};
use tickscope_host::step::CounterStep;
use tickscope_noise::detector::{fixed_time, selfish};
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

/// A reading of the counter that now and then pauses first, and stamps when that began and ended.
struct Pausing {
    due: i64,
    /// The next reading pauses: the one before was due, and was read, so that what held it up lies before it.
    armed: bool,
    lengths: Vec<i64>,
    pauses: Vec<[i64; 2]>,
}

impl Pausing {
    /// How long the loop goes on between two pauses.
    const APART_TICKS: i64 = 100_000;

    fn read(&mut self) -> i64 {
        let begun = plain();
        let Some(length) = self.lengths.last().filter(|_| self.armed) else {
            self.armed = begun >= self.due;
            return begun;
        };
        let mut ended = plain();
        while ended - begun < *length {
            ended = plain();
        }
        self.lengths.pop();
        self.armed = false;
        self.pauses.push([begun, ended]);
        self.due = ended + Self::APART_TICKS;
        plain()
    }
}

#[test]
fn each_pause_that_stamps_its_own_begin_and_end_is_one_detour_and_its_length_is_that_of_the_stamps() {
    const COUNT: i32 = 600;
    const WINDOW_TICKS: i64 = 10_000_000;
    let core = allowed_cpus().unwrap()[0];
    pin(core).unwrap();
    let NoisePlan { hertz, step, .. } = plan(Detector::Selfish, core, Vec::new());
    let readings: Vec<i64> = (0..10_000).map(|_| plain()).collect();
    let limit = DetourLimit::of(&readings, step.width_ticks).unwrap();
    // From a microsecond to a millisecond, as many of each length of that order.
    let length = |number: i32| (hertz as f64 / 1e6 * 1000_f64.powf(f64::from(number) / f64::from(COUNT))) as i64;
    for detector in [Detector::Selfish, Detector::Ftq] {
        let lengths = (0..COUNT).map(length).collect();
        let mut pausing = Pausing { due: 0, armed: false, lengths, pauses: vec![[1; 2]; COUNT as usize] };
        pausing.pauses.clear();
        let mut score = Score::default();
        while !pausing.lengths.is_empty() {
            let (mut found, mut passes) = (Vec::with_capacity(1 << 17), Vec::with_capacity(1 << 10));
            (pausing.due, pausing.armed) = (plain() + Pausing::APART_TICKS, false);
            let until = plain() + WINDOW_TICKS;
            let [first, last] = match detector {
                Detector::Selfish => selfish(|| pausing.read(), until, limit, &mut found),
                _ => fixed_time(|| pausing.read(), [until, WINDOW_TICKS / 10], limit, &mut found, &mut passes),
            };
            // One that comes before the first reading is no detour.
            for [begun, ended] in pausing.pauses.drain(..).filter(|[begun, ended]| first <= *begun && *ended <= last) {
                let detours = found.iter().map(|detour| (*detour, None));
                let detours: Vec<_> = detours.filter(|(it, _)| it.before <= begun && ended <= it.after).collect();
                score.add(&detours.iter().collect::<Vec<_>>(), Some(ended - begun), hertz);
            }
        }
        let Score { injected, found: [once, _], near, .. } = score;
        score.print(&format!("pauses that stamp themselves, {detector}"));
        assert!(injected * 100 >= COUNT as usize * 95, "{injected}");
        assert_eq!(once, injected);
        assert!(near * 100 >= injected * 99, "{near} of {injected} within 1 us or 5 %");
    }
}

/// Watches from another core the readings that a loop publishes, and stamps when they stood still for longer than so
/// many ticks: from its look before to the first one after. Left out is what it cannot tell: while it was away itself,
/// and two stalls with one reading between them, which may have been taken before both and published after the first.
fn witness(core: usize, beat: &AtomicI64, over: &AtomicBool, longer_than: i64) -> Vec<[i64; 2]> {
    pin(core).unwrap();
    let (mut stalls, mut stall) = (Vec::new(), None);
    let (mut seen, mut changed, mut last) = (0, plain(), plain());
    let (mut was_there, mut was_quick) = (false, false);
    while !over.load(Relaxed) {
        let (reading, now) = (beat.load(Relaxed), plain());
        let goes_on = now - last <= GOES_ON_TICKS;
        was_there &= goes_on;
        if reading != seen {
            let is_quick = was_there && now - changed <= longer_than;
            stalls.extend(stall.take().filter(|_| is_quick));
            stall = (was_there && was_quick && !is_quick).then_some([changed, now]);
            (seen, changed, was_there, was_quick) = (reading, now, goes_on, is_quick);
        }
        last = now;
    }
    stalls
}

/// A window of the detector on one core while a witness on another looks on: stalls and detours, of those stalls alone
/// that last longer than what the detector tells for certain.
fn witnessed([core, other]: [usize; 2], plan: &NoisePlan) -> (Vec<[i64; 2]>, Vec<Detour>) {
    let ticks = |ns: i64| (i128::from(ns) * i128::from(plan.hertz) / 1_000_000_000) as i64;
    pin(core).unwrap();
    let (beat, over) = (AtomicI64::new(0), AtomicBool::new(false));
    let mut read = || {
        let now = plain();
        beat.store(now, Relaxed);
        now
    };
    thread::scope(|scope| {
        let stalls = scope.spawn(|| witness(other, &beat, &over, ticks(1_000)));
        let readings: Vec<i64> = (0..10_000).map(|_| read()).collect();
        let limit = DetourLimit::of(&readings, plan.step.width_ticks).unwrap();
        let mut found = vec![Detour { before: 1, after: 1 }; 1 << 17];
        found.clear();
        let [first, last] = selfish(&mut read, plain() + ticks(170_000_000), limit, &mut found);
        over.store(true, Relaxed);
        let long = |[from, to]: &[i64; 2]| first < *from && *to < last && to - from > 2 * limit.resolution_ticks();
        (stalls.join().unwrap().into_iter().filter(long).collect(), found)
    })
}

#[test]
fn each_timer_and_each_preemption_is_one_detour_as_long_as_a_witness_on_another_core_saw_the_loop_stand_still() {
    let cores = allowed_cpus().unwrap();
    let [core, other, ..] = cores[..] else {
        return println!("not tried: it takes two cores, there are {}", cores.len());
    };
    let plan = plan(Detector::Selfish, core, Vec::new());
    let ticks = |ns: i64| (i128::from(ns) * i128::from(plan.hertz) / 1_000_000_000) as i64;
    let (over, had, begun) = (AtomicBool::new(false), Mutex::new(Vec::new()), Instant::now());
    let mut scores = [Score::default(), Score::default()];
    thread::scope(|scope| {
        scope.spawn(|| preempt(core, &over, &had));
        while scores.iter().any(|score| score.injected < ENOUGH / 2) && begun.elapsed() < DEADLINE {
            let timers = storm(core, 200);
            let (stalls, found) = witnessed([core, other], &plan);
            let (tick, now) = (plain(), monotonic_ns());
            let due: BTreeSet<i64> = timers.iter().map(|(_, due)| tick + ticks(due - now)).collect();
            timers.into_iter().for_each(|(timer, _)| close(timer));
            let had: BTreeSet<i64> = had.lock().unwrap().drain(..).map(|[from, to]| from.midpoint(to)).collect();
            for [from, to] in stalls {
                let is_of = |known: &BTreeSet<i64>, slack: i64| known.range(from - slack..to).next().is_some();
                let is_of_timer = is_of(&due, ticks(10_000)) && !is_of(&had, 0);
                let Some(score) = [is_of_timer, is_of(&had, 0)].iter().position(|&is| is) else { continue };
                let middle = from.midpoint(to);
                let around = found.iter().filter(|detour| detour.before <= middle && middle <= detour.after);
                let around: Vec<_> = around.map(|detour| (*detour, None)).collect();
                scores[score].add(&around.iter().collect::<Vec<_>>(), Some(to - from), plan.hertz);
            }
        }
        over.store(true, Relaxed);
    });
    for (score, what) in scores.into_iter().zip(["storm of timers", "another thread"]) {
        let Score { injected, found: [once, _], near, .. } = score;
        score.print(&format!("{what}, seen from another core"));
        if injected == 0 {
            println!("not tried: in a minute the witness had its core at none that came from {what}");
            continue;
        }
        assert!(once * 100 >= injected * 99, "{once} of {injected}");
        assert!(near * 100 >= injected * 99, "{near} of {injected} within 1 us or 5 %");
    }
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

/// Nanoseconds of `CLOCK_MONOTONIC`.
fn monotonic_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the struct that it is given.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) }, 0);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Timers that each interrupt this core once, a fraction of a millisecond apart, from soon on; each with when, ns.
fn storm(core: usize, count: u32) -> Vec<(i32, i64)> {
    let arm = move || {
        pin(core).unwrap();
        let now = monotonic_ns();
        let one = |number: u32| {
            let due = now + 20_000_000 + i64::from(number) * 700_000;
            let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let at = libc::timespec { tv_sec: due / 1_000_000_000, tv_nsec: due % 1_000_000_000 };
            let once = libc::itimerspec { it_interval: zero, it_value: at };
            // SAFETY: takes numbers, and a struct that the kernel only reads.
            unsafe {
                let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK);
                assert!(timer >= 0);
                assert_eq!(libc::timerfd_settime(timer, libc::TFD_TIMER_ABSTIME, &once, std::ptr::null_mut()), 0);
                (timer, due)
            }
        };
        (0..count).map(one).collect()
    };
    // A timer interrupts the core that it was armed on.
    thread::spawn(arm).join().unwrap()
}

fn close(timer: i32) {
    // SAFETY: `storm` opened it, and it is closed once.
    assert_eq!(unsafe { libc::close(timer) }, 0);
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
        storms.lock().unwrap().extend(storm(core, 200).into_iter().map(|(timer, _)| timer));
        kept.len() >= 3
    };
    let (profile, windows) = windows(&plan, rounds);
    let over = storms.lock().unwrap().iter().filter(|&&timer| is_over(timer)).count();
    assert!(over >= 200, "{over} timers fired");
    storms.lock().unwrap().drain(..).for_each(close);
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

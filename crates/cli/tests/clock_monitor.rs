//! The clock monitor over a node's clocks, end to end: slews, steps and drift whose true time is known are each told
//! once, in a span that holds it, and every bracket is true under the map that was injected.
//!
//! The truth is this test's own brackets of the true clocks, taken all the while; the map is applied to those. Nobody
//! sets this machine's clock: what the kernel would tell of that is in crate `tick` (`step_alarm`), as far as it goes.

mod site;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use site::c_program::Running;
use site::{Site, tickscope};
use tickscope_host::host_clocks::{ClockReading, Discipline, HostClocks, KernelClock};
use tickscope_store::{BracketColumns, Event, Pair, Paths, breaks, files_in, read_brackets, read_events};
use tickscope_tick::{Clock, Interval, RealtimeInjection, Reference, Tick};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;

/// A clock monitor as a process, and the true clocks beside it.
struct Scene {
    site: Site,
    monitor: Running,
    truth: Witnessing,
}

/// What it left: its report, its events, and the truth.
struct Seen {
    site: Site,
    report: Value,
    truth: Truth,
}

/// A thread that takes brackets of the true clocks until it is told to end.
struct Witnessing {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Truth>,
}

/// The true clocks, as often as they were read.
#[derive(Default)]
struct Truth {
    realtime: Vec<ClockReading>,
    /// REALTIME - MONOTONIC was no less and no more, at every reading.
    apart: Option<(i64, i64)>,
}

impl Scene {
    /// Begins a clock monitor under a map; `None`: under none.
    fn begin(name: &str, map: Option<&RealtimeInjection>) -> Self {
        Self::begin_in(Site::new(name), map)
    }

    /// Begins one that is ready before its map changes anything: that begins at the true time that the map is made with
    /// and this returns, the later the longer such a process takes to start here.
    fn begin_before(site: &dyn Fn() -> Site, map: &dyn Fn(i64) -> String) -> (Self, RealtimeInjection, i64) {
        for seconds in (0..8).map(|doubled| 1 << doubled) {
            let begun = now() + seconds * SECOND;
            let map = map(begun).parse().unwrap();
            let scene = Self::begin_in(site(), Some(&map));
            if now() < begun {
                return (scene, map, begun);
            }
            scene.truth.end();
        }
        panic!("expected a clock monitor that is ready within two minutes, found none");
    }

    fn begin_in(site: Site, map: Option<&RealtimeInjection>) -> Self {
        let truth = Witnessing::begin();
        let mut command = tickscope(&["role", "clock-monitor", "--node", "n", "--run"]);
        command.arg(site.run_directory()).stdin(Stdio::null()).stdout(Stdio::piped()).env_remove("TICKSCOPE_INJECT");
        match map {
            Some(map) => command.env(RealtimeInjection::VARIABLE, map.to_string()),
            None => command.env_remove(RealtimeInjection::VARIABLE),
        };
        let mut child = command.spawn().unwrap();
        ready(&mut child);
        Self { site, monitor: Running(child), truth }
    }

    /// Goes on until the true REALTIME reads so much, then ends.
    fn until(self, realtime_ns: i64) -> Seen {
        self.until_told(realtime_ns, |_| true)
    }

    /// The same, but not before its events are such; for a minute at most.
    fn until_told(mut self, realtime_ns: i64, are_such: impl Fn(&[Event]) -> bool) -> Seen {
        let run = self.site.run_directory();
        while now() < realtime_ns || now() < realtime_ns + 60 * SECOND && !are_such(&events_at(&run)) {
            assert!(self.monitor.0.try_wait().unwrap().is_none(), "it ended before it was told to");
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: a signal to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.monitor.0.id() as i32, libc::SIGTERM) }, 0);
        let mut printed = String::new();
        self.monitor.0.stdout.as_mut().unwrap().read_to_string(&mut printed).unwrap();
        assert!(self.monitor.0.wait().unwrap().success(), "{printed}");
        let report = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
        Seen { site: self.site, report, truth: self.truth.end() }
    }
}

fn ready(monitor: &mut Child) {
    let mut line = String::new();
    // One byte at a time: what follows is read by others.
    let mut output = BufReader::with_capacity(1, monitor.stdout.as_mut().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
}

/// True `CLOCK_REALTIME`, nanoseconds.
fn now() -> i64 {
    HostClocks::default().bracketed(KernelClock::Realtime).unwrap().at
}

impl Witnessing {
    fn begin() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let (clocks, mut truth) = (HostClocks::default(), Truth::default());
            while !told.load(Ordering::Relaxed) {
                truth.realtime.push(clocks.bracketed(KernelClock::Realtime).unwrap());
                truth.add_distance(&clocks);
                std::thread::sleep(Duration::from_millis(5));
            }
            truth.realtime.push(clocks.bracketed(KernelClock::Realtime).unwrap());
            truth
        });
        Self { ended, thread }
    }

    fn end(self) -> Truth {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

impl Truth {
    /// MONOTONIC between two readings of REALTIME bounds their distance from both sides.
    fn add_distance(&mut self, clocks: &HostClocks) {
        let before = clocks.bracketed(KernelClock::Realtime).unwrap().at;
        let monotonic = clocks.bracketed(KernelClock::Monotonic).unwrap().at;
        let after = clocks.bracketed(KernelClock::Realtime).unwrap().at;
        let (lo, hi) = self.apart.unwrap_or((i64::MIN, i64::MAX));
        self.apart = Some((lo.max(before - monotonic), hi.min(after - monotonic)));
    }

    /// True REALTIME when the counter read `tick`: no less, no more. The straight line between the two readings around
    /// it, off by half their widths and what the kernel may bend it.
    fn realtime_at(&self, tick: i64) -> (i64, i64) {
        let later = self.realtime.partition_point(|reading| middle(reading) <= tick);
        assert!(0 < later && later < self.realtime.len(), "the truth is known all the while");
        let (a, b) = (&self.realtime[later - 1], &self.realtime[later]);
        let (ticks, ns) = (i128::from(middle(b) - middle(a)), i128::from(b.at - a.at));
        let line = a.at + (ns * i128::from(tick - middle(a)) / ticks) as i64;
        let width = a.width_ticks().max(b.width_ticks());
        let slack = (i128::from(width) * ns / ticks / 2 + ns / 1_000_000) as i64 + 3;
        (line - slack, line + slack)
    }

    /// The counter when REALTIME truly read `ns`: no less, no more.
    fn tick_at(&self, ns: i64) -> (i64, i64) {
        let (mut lo, mut hi) = (middle(&self.realtime[0]), middle(self.realtime.last().unwrap()) - 1);
        let (first, last) = (lo, hi);
        let bisect = |lo: &mut i64, hi: &mut i64, reached: &dyn Fn(i64) -> bool| {
            while *hi - *lo > 1 {
                let tick = *lo + (*hi - *lo) / 2;
                if reached(tick) { *hi = tick } else { *lo = tick }
            }
        };
        bisect(&mut lo, &mut hi, &|tick| self.realtime_at(tick).1 >= ns);
        let earliest = lo;
        (lo, hi) = (first, last);
        bisect(&mut lo, &mut hi, &|tick| self.realtime_at(tick).0 > ns);
        (earliest, hi)
    }
}

fn middle(reading: &ClockReading) -> i64 {
    reading.before + reading.width_ticks() / 2
}

impl Seen {
    fn events(&self, what: &str, domain: &str) -> Vec<Event> {
        let all = events_at(&self.site.run_directory());
        all.into_iter().filter(|event| event.what == what && event.domain.as_deref() == Some(domain)).collect()
    }

    fn count(&self, what: &str) -> u64 {
        self.report[what].as_u64().unwrap()
    }

    /// The brackets of a clock, in the order in which they were taken.
    fn brackets(&self, clock: &str) -> BracketColumns {
        let run = self.site.run_directory();
        let label = |clock: &str| format!("n.{clock}").parse().unwrap();
        let pair = Pair { reference: label(Clock::STAMPED.name()), domain: label(clock) };
        let folder = Paths::of(&run).brackets(&pair);
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut all = BracketColumns::default();
        for file in files {
            all.append(read_brackets(&file).unwrap());
        }
        all
    }

    /// Holds every bracket against the map of the true clocks; how many there are.
    fn all_brackets_are_true_under(&self, map: &RealtimeInjection) -> usize {
        let realtime = self.brackets("realtime");
        for (before, at, after) in rows(&realtime) {
            let (lo, hi) = (self.truth.realtime_at(before).0, self.truth.realtime_at(after).1);
            let truly = map.invert(at);
            assert!(
                truly.iter().any(|&(first, last)| first <= hi && lo <= last),
                "{at} truly {truly:?}, in {lo} to {hi}"
            );
        }
        let (nearest, furthest) = self.truth.apart.unwrap();
        let monotonic = self.brackets("monotonic");
        for (before, at, after) in rows(&monotonic) {
            let (lo, hi) = (self.truth.realtime_at(before).0, self.truth.realtime_at(after).1);
            // A nanosecond: what it gained is read off REALTIME a little later, and rounded.
            let (least, most) = (lo + map.gained(lo) - furthest - 1, hi + map.gained(hi) - nearest + 1);
            assert!(least <= at && at <= most, "MONOTONIC {at} in {least} to {most}");
        }
        assert_eq!(realtime.len(), monotonic.len());
        realtime.len()
    }

    /// Fails unless the span of `event` holds the counter at each of these true times.
    #[track_caller]
    fn spans(&self, event: &Event, times: &[i64]) {
        let (tick, until) = (event.tick.unwrap(), event.until.unwrap_or(i64::MAX));
        for &time in times {
            let (earliest, latest) = self.truth.tick_at(time);
            assert!(tick <= latest && earliest <= until, "{event:?} but truly at {earliest} to {latest}");
        }
    }
}

fn events_at(run: &std::path::Path) -> Vec<Event> {
    let files = files_in(&Paths::of(run).events(), "parquet").unwrap();
    files.iter().flat_map(|file| read_events(file).unwrap()).collect()
}

fn rows(brackets: &BracketColumns) -> Vec<(i64, i64, i64)> {
    assert!(brackets.source.iter().all(|source| source == "watch"));
    assert!(brackets.ordering.iter().all(|ordering| ordering == "before/after"));
    let ends = brackets.before.iter().zip(brackets.after.iter());
    ends.zip(&brackets.at).map(|((before, after), &at)| (*before.unwrap(), at, *after.unwrap())).collect()
}

fn void(events: &[Event], domain: &str) -> Vec<Interval<Tick<Reference>>> {
    breaks(events, domain).unwrap()
}

/// Steps: when, in milliseconds from the map's begin, and by how much. No successive ones undo each other: a machine
/// that stands still between two looks sees them as one.
const STEPS: [(i64, i64); 4] = [(2_700, 100 * MS), (3_200, -300 * MS), (3_700, SECOND), (4_200, -500 * MS)];
/// Slews: from when until when, and at which rate, in parts per 10^9.
const SLEWS: [(i64, i64, i64); 3] = [(500, 1_300, 100_000), (1_700, 2_500, 500_000), (4_700, 5_700, -100_000)];

/// Steps and slews, from that true time on.
fn changes(begun: i64) -> String {
    let mut text = format!("{begun}:3600000000000:0:0:2");
    for (ms, ns) in STEPS {
        text += &format!(";step@{}:{ns}", begun + ms * MS);
    }
    for (from, until, ppb) in SLEWS {
        text += &format!(";slew@{}:{}:{ppb}", begun + from * MS, begun + until * MS);
    }
    text
}

/// Fails unless each step that is told is the sum of some successive ones that its span holds, as far as its readings
/// leave open, and each true one is told.
fn expect_steps(seen: &Seen, at: &dyn Fn(i64) -> i64) {
    let told = seen.events("clock-step", "n.realtime");
    let mut first = 0;
    for event in &told {
        let words: Vec<&str> = event.text.split_whitespace().collect();
        let open = words.windows(3).find(|word| word[0] == "within" && word[2].starts_with("ns"));
        let open: i64 = open.unwrap()[1].parse().unwrap();
        let sum = |end: usize| STEPS[first..end].iter().map(|&(_, ns)| ns).sum::<i64>();
        let end = (first + 1..=STEPS.len()).find(|&end| (event.value.unwrap() - sum(end)).abs() <= open);
        let end = end.unwrap_or_else(|| panic!("{event:?} is no sum of steps from number {first} on: {told:#?}"));
        seen.spans(event, &STEPS[first..end].iter().map(|&(ms, _)| at(ms)).collect::<Vec<_>>());
        first = end;
    }
    assert_eq!(first, STEPS.len(), "each is told: {told:#?}");
}

/// Fails unless each slew that is told spans some of a true one of its direction, and all of each true one is void.
fn expect_slews(seen: &Seen, at: &dyn Fn(i64) -> i64) {
    let events = events_at(&seen.site.run_directory());
    for domain in ["n.realtime", "n.monotonic"] {
        let told = seen.events("clock-slew", domain);
        for event in &told {
            let is_it = |&&(from, until, ppb): &&(i64, i64, i64)| {
                let (earliest, latest) = (seen.truth.tick_at(at(from)).0, seen.truth.tick_at(at(until)).1);
                ppb.signum() == event.value.unwrap().signum()
                    && event.tick.unwrap() <= latest
                    && earliest <= event.until.unwrap_or(i64::MAX)
            };
            assert!(SLEWS.iter().find(is_it).is_some(), "{event:?} is none of the true ones");
        }
        let void = void(&events, domain);
        for (from, until, _) in SLEWS {
            let holds = |span: &&Interval<Tick<Reference>>| {
                let (begins, ends) = (seen.truth.tick_at(at(from)).1, seen.truth.tick_at(at(until)).0);
                span.lo().get() <= begins && ends <= span.hi().get()
            };
            assert!(void.iter().find(holds).is_some(), "{from} to {until} ms in {void:?}: {told:#?}");
        }
    }
}

#[test]
fn e2e_each_slew_and_step_is_told_once_in_a_span_that_holds_it_and_every_bracket_is_true() {
    let (scene, map, begun) = Scene::begin_before(&|| Site::new("changes"), &changes);
    let at = |ms: i64| begun + ms * MS;
    let are_over = |events: &[Event]| {
        let mut slews = events.iter().filter(|event| event.what == "clock-slew");
        slews.all(|slew| slew.until.is_some())
    };
    let seen = scene.until_told(at(6_700), are_over);

    let brackets = seen.all_brackets_are_true_under(&map);
    assert_eq!(brackets as u64, seen.report["brackets"].as_u64().unwrap());
    println!("{brackets} brackets, {}", seen.report);
    expect_steps(&seen, &at);
    expect_slews(&seen, &at);
    let number = |what: &str, clock: &str| seen.events(what, clock).len() as u64;
    assert_eq!(
        ["steps", "slews", "suspends", "backward"].map(|what| seen.count(what)),
        [number("clock-step", "n.realtime"), number("clock-slew", "n.realtime"), 0, 0]
    );
    assert!(seen.events("clock-step", "n.monotonic").is_empty(), "a set does not move MONOTONIC");

    let void = void(&events_at(&seen.site.run_directory()), "n.realtime");
    for (ms, _) in STEPS {
        let (earliest, latest) = seen.truth.tick_at(at(ms));
        assert!(void.iter().any(|span| span.lo().get() <= latest && earliest <= span.hi().get()));
    }
    let last = rows(&seen.brackets("realtime")).into_iter().map(|(_, _, after)| after).max().unwrap();
    assert!(!void.iter().any(|span| span.contains(Tick::new(last))), "all are over by {last}: {void:?}");
}

#[test]
fn e2e_clocks_left_alone_have_no_events_and_a_bound_from_the_kernels_own_account() {
    let before = Discipline::of_this_host();
    let seen = Scene::begin("alone", None).until(now() + 3 * SECOND);
    let after = Discipline::of_this_host();
    let identity: RealtimeInjection = "0:0:0:0:2".parse().unwrap();
    assert!(seen.all_brackets_are_true_under(&identity) > 0);
    let bound = seen.count("slew_bound_ppm");
    let constant = before.zip(after).is_some_and(|(before, after)| Discipline::is_constant_between(&before, &after));
    println!("{}", seen.report);
    if constant && seen.report["constant"] == true {
        assert_eq!(events_at(&seen.site.run_directory()), []);
        let trusted = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let own = trusted.is_ok_and(|name| ["tsc", "arch_sys_counter"].contains(&name.trim()));
        assert_eq!(bound, if own { 1 } else { 500 });
    } else {
        let needed = before.into_iter().chain(after).map(|told| told.most_slew_ppb().unsigned_abs().div_ceil(1000));
        assert!(bound >= 500 && needed.into_iter().all(|ppm| bound >= ppm), "{bound}");
    }
    assert_eq!(seen.report["sets_are_told"], true);
}

#[test]
fn e2e_a_rate_unlike_the_account_voids_the_whole_run_and_offset_and_wander_keep_brackets_true() {
    let begun = now();
    let map: RealtimeInjection = format!("{begun}:-86400000000000:12500:2000:4000000000").parse().unwrap();
    let seen = Scene::begin("drift", Some(&map)).until(begun + 4 * SECOND);
    assert!(seen.all_brackets_are_true_under(&map) > 0);
    let events = events_at(&seen.site.run_directory());
    assert_eq!(seen.events("clock-step", "n.realtime"), [], "an offset from the start is no step");
    for domain in ["n.realtime", "n.monotonic"] {
        let void = void(&events, domain);
        assert_eq!(void.len(), 1, "{events:#?}");
        let first = rows(&seen.brackets("realtime"))[0].0;
        assert!(void[0].lo().get() <= first && void[0].hi().get() == i64::MAX, "{void:?} but from {first}");
    }
}

#[test]
fn e2e_a_watch_that_is_killed_leaves_the_slew_it_saw_without_an_end_and_one_started_again_adds_to_it() {
    let map = |begun: i64| format!("{begun}:0:0:0:2;slew@{}:{}:-500000", begun + SECOND, begun + 3600 * SECOND);
    let (scene, _, begun) = Scene::begin_before(&|| Site::new("killed"), &map);
    let run = scene.site.run_directory();
    while now() < begun + 60 * SECOND && void(&events_at(&run), "n.realtime").is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    scene.monitor.kill();
    let truth = scene.truth.end();
    let left = events_at(&run);
    let void = void(&left, "n.realtime");
    assert_eq!(void.len(), 1);
    assert_eq!(void[0].hi().get(), i64::MAX);
    assert!(void[0].lo().get() <= truth.tick_at(begun + SECOND).1);

    let taken_up = || {
        let again = Site::new("again");
        let copied = Command::new("cp").arg("-r").args([&run, &again.run_directory()]).status();
        assert!(copied.unwrap().success());
        again
    };
    let stepping = |begun: i64| format!("{begun}:0:0:0:2;step@{}:{SECOND}", begun + SECOND);
    let (again, _, begun) = Scene::begin_before(&taken_up, &stepping);
    let seen = again.until(begun + 2 * SECOND);
    let told = seen.events("clock-step", "n.realtime");
    assert_eq!(told.len(), 1, "{told:#?}");
    seen.spans(&told[0], &[begun + SECOND]);
    let all = events_at(&seen.site.run_directory());
    assert!(left.iter().all(|event| all.contains(event)), "{all:#?}");
}

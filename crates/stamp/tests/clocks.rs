//! Channels of other clocks than the counter, the brackets that relate them, and what is injected into them.

mod c_program;

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use c_program::{StampDirectory, build, ids};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tickscope_stamp::block::{ChannelEntry, unpadded};
use tickscope_stamp::handover::Block;
use tickscope_stamp::pool::{Pool, Record};
use tickscope_stamp::{Channel, Extra, Fields, Reading, clock_now};
use tickscope_tick::{Clock, Injection, Ordering as ReadOrdering, RealtimeInjection};

/// The entry of a point.
fn entry<'a>(pool: &'a Pool, point: &str) -> &'a ChannelEntry {
    pool.entries().iter().find(|entry| unpadded(&entry.point).is_some_and(|found| found == point)).unwrap()
}

/// What was committed at a point, and the counter that its blocks name.
fn stamps(pool: &Pool, point: &str) -> (Vec<Record>, Option<Clock>) {
    let blocks = (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described());
    let mut mine: Vec<_> =
        blocks.filter(|block| unpadded(&block.header().point).is_some_and(|found| found == point)).collect();
    mine.sort_by_key(|block| block.header().number);
    let counter = mine.first().and_then(|block| Clock::from_number(block.header().counter));
    let records = mine.iter().flat_map(|block| (0..block.capacity()).filter_map(|slot| block.record(slot)));
    (records.collect(), counter)
}

/// `CLOCK_REALTIME` by another way than the one under test.
fn realtime_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

fn run(directory: &StampDirectory, arguments: &[&str]) -> std::process::Output {
    let mut command = build("clocks", &[]);
    let ended = directory.measure(command.args(arguments)).output().unwrap();
    assert!(ended.status.success());
    ended
}

#[test]
fn c_stamps_of_another_clock_read_it_and_name_it_in_entry_and_block() {
    let directory = StampDirectory::new("clocks");
    let earliest = realtime_ns();
    run(&directory, &["stamps", "3000"]);
    let latest = realtime_ns();
    let pools = directory.pools();
    let (realtime, counter) = stamps(&pools[0], "realtime");
    assert_eq!((counter, entry(&pools[0], "realtime").counter), (Some(Clock::Realtime), 3));
    assert_eq!(ids(&realtime), (0..3000).collect::<Vec<_>>());
    assert!(realtime.iter().all(|stamp| earliest <= stamp.tick && stamp.tick <= latest));
    let (given, counter) = stamps(&pools[0], "given");
    assert_eq!((counter, entry(&pools[0], "given").counter), (Some(Clock::Monotonic), 4));
    assert!(given.len() == 3000 && given.iter().all(|stamp| stamp.tick == 1000 + stamp.id));
    let (wide, counter) = stamps(&pools[0], "wide-given");
    assert_eq!((counter, entry(&pools[0], "wide-given").counter), (Some(Clock::STAMPED), 0));
    assert!(wide.iter().all(|stamp| stamp.rider.is_some_and(|rider| (rider.kind, rider.value) == (7, stamp.id * 2))));
    assert_eq!((stamps(&pools[0], "phc").0, entry(&pools[0], "phc").refused.load(Ordering::Relaxed)), (vec![], 3000));
}

#[test]
fn c_a_bracket_holds_every_instant_at_which_its_clock_may_have_been_read() {
    let (directory, map) = (StampDirectory::new("brackets"), "5:1000:12500:0:2");
    let mut command = build("clocks", &[]);
    directory.measure(command.args(["brackets", "300"])).env("TICKSCOPE_INJECT", map);
    let ended = command.output().unwrap();
    // Which counter stood before and after each true reading of the clock.
    let told = String::from_utf8(ended.stdout).unwrap();
    let truth: HashMap<i64, (i64, i64)> = told
        .lines()
        .map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<i64>>())
        .map(|numbers| (numbers[0], (numbers[1], numbers[2])))
        .collect();
    assert_eq!(truth.len(), 300 * 8, "eight readings a bracket");
    let pools = directory.pools();
    let (brackets, counter) = stamps(&pools[0], "clock-bracket.realtime");
    assert_eq!((brackets.len(), counter), (300, Some(Clock::STAMPED)));
    assert_eq!(entry(&pools[0], "clock-bracket.realtime").ordering, ReadOrdering::Before as u8);
    let map: Injection = map.parse().unwrap();
    for bracket in brackets {
        let (earliest, latest) = truth[&bracket.id];
        let after = bracket.rider.unwrap().value;
        assert!(bracket.tick <= map.apply(earliest) && map.apply(latest) <= after, "{bracket:?} {earliest} {latest}");
    }
}

#[test]
fn c_a_stamp_of_both_holds_the_raw_clock_as_it_was_read_after_the_stamps_counter() {
    let (directory, map) = (StampDirectory::new("both"), "5:1000:12500:0:2");
    let mut command = build("clocks", &[]);
    directory.measure(command.args(["both", "200"])).env("TICKSCOPE_INJECT", map);
    let told = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let map: Injection = map.parse().unwrap();
    let truth: Vec<Vec<i64>> =
        told.lines().map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect()).collect();
    let pools = directory.pools();
    let [wide, full] = ["both", "both-full"].map(|point| stamps(&pools[0], point).0);
    assert_eq!((truth.len(), wide.len(), full.len()), (400, 200, 200), "one reading a stamp");
    let mut earlier = i64::MIN;
    for (truth, stamp) in truth.iter().zip(wide.iter().zip(&full).flat_map(|(wide, full)| [wide, full])) {
        let [ns, earliest, latest, clock] = truth[..] else { panic!("{truth:?}") };
        let rider = stamp.rider.unwrap();
        assert_eq!((rider.value, clock), (ns, i64::from(libc::CLOCK_MONOTONIC_RAW)));
        assert!(earlier <= stamp.tick && stamp.tick <= map.apply(earliest), "{stamp:?} {truth:?}");
        assert!(rider.cpu.is_some_and(|cpu| cpu >= 0));
        earlier = map.apply(latest);
    }
    assert!(
        full.iter()
            .all(|stamp| stamp.rider.is_some_and(|rider| rider.kind == 9 && rider.origin.unwrap().batch == Some(3)))
    );
}

/// `CLOCK_MONOTONIC_RAW` by another way than the one under test.
fn monotonic_raw_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec that outlives the call.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC_RAW, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[test]
fn a_rust_stamp_of_both_lies_between_readings_of_both_around_it() {
    let directory = StampDirectory::new("rust-both");
    let mut command = Command::new(std::env::current_exe().unwrap());
    directory.measure(command.args(["--exact", "the_rust_program"])).env("CLOCKS_ROLE", "both").stdout(Stdio::null());
    let around = [tickscope_counter::before(), monotonic_raw_ns()];
    assert!(command.status().unwrap().success());
    let until = [tickscope_counter::after(), monotonic_raw_ns()];
    let pools = directory.pools();
    for point in ["both", "both-full"] {
        let [stamps, between] = [point, "between"].map(|point| stamps(&pools[0], point).0);
        assert_eq!((stamps.len(), between.len()), (1000, 1001));
        for (stamp, pair) in stamps.iter().zip(between.windows(2)) {
            // Those of `between` carry what the system call said of the clock.
            let rider = stamp.rider.unwrap();
            let [before, after] = [&pair[0], &pair[1]].map(|stamp| (stamp.tick, stamp.rider.unwrap().value));
            assert!(before.0 <= stamp.tick && stamp.tick <= after.0, "{point}: {before:?} {stamp:?} {after:?}");
            assert!(before.1 <= rider.value && rider.value <= after.1, "{point}: {before:?} {stamp:?} {after:?}");
            assert_eq!((rider.kind, rider.origin.map_or(Some(3), |origin| origin.batch)), (5, Some(3)));
        }
        assert!(around[0] <= between[0].tick && between[1000].tick <= until[0]);
        let raw = [&between[0], &between[1000]].map(|stamp| stamp.rider.unwrap().value);
        assert!(around[1] <= raw[0] && raw[1] <= until[1]);
    }
}

fn stamp_both() {
    let raw = Reading { monotonic_raw: true, ..Reading::default() };
    assert!(Channel::open_reading("both", ReadOrdering::After, Fields::Slim, raw).is_err(), "no room");
    let wide = Channel::open_reading("both", ReadOrdering::After, Fields::Wide, raw).unwrap();
    let full = Channel::open_reading("both-full", ReadOrdering::Before, Fields::Full, raw).unwrap();
    let between = Channel::open("between", ReadOrdering::Plain, Fields::Wide).unwrap();
    let extra = Extra { kind: 5, value: 7, batch: 3, ..Extra::default() };
    let stamp_between = |id| {
        let (tick, value) = (tickscope_counter::after(), monotonic_raw_ns());
        between.record_with(id, tick, Extra { value, ..extra });
    };
    for id in 0..1000 {
        stamp_between(id);
        wide.stamp_with(id, extra);
        full.stamp_with(id, extra);
    }
    stamp_between(1000);
}

#[test]
fn c_what_is_injected_into_realtime_is_the_same_integers_in_c_and_rust() {
    let now = realtime_ns();
    let offsets = -4_000_000_000i64..4_000_000_000;
    let steep = -100_000_000i64..=100_000_000;
    let step = (offsets.clone(), -2_000_000_000i64..2_000_000_000)
        .prop_map(move |(at, ns)| format!(";step@{}:{ns}", now + at));
    let slew = (offsets.clone(), 0i64..3_000_000_000, steep)
        .prop_map(move |(from, length, ppb)| format!(";slew@{}:{}:{ppb}", now + from, now + from + length));
    let half = prop_oneof![1i64..1 << 40, 1i64 << 40..1 << 45];
    let stairs = prop_oneof![
        Just(String::new()),
        (1i64..100_000, 1i64..50).prop_filter_map("steps below 1", |(step, parts)| {
            (step >= parts).then(|| format!(":{step}:{parts}:{}", (step / parts - 1) / 2))
        })
    ];
    let base = (offsets.clone(), -50_000_000i64..50_000_000, -49_999_999i64..49_999_999, half, stairs).prop_map(
        move |(offset, drift, wander, half, stairs)| format!("{now}:{offset}:{drift}:{wander}:{}{stairs}", 2 * half),
    );
    let changes = prop::collection::vec(prop_oneof![step, slew], 0..=8).prop_map(|changes| changes.concat());
    let case = (base, changes, prop::collection::vec(offsets, 300));
    let mut runner = TestRunner::deterministic();
    let program = c_program::compile_with("cc", "clocks", &[], "clocks-map");
    for _ in 0..30 {
        let (base, changes, offsets) = case.new_tree(&mut runner).unwrap().current();
        let map: RealtimeInjection = format!("{base}{changes}").parse().unwrap();
        let mut readings: Vec<i64> = offsets.iter().map(|offset| now + offset).collect();
        readings.extend(offsets.iter().map(|offset| now + (offset << 27))); // ten years either way
        let moments =
            map.steps.iter().map(|step| step.at).chain(map.slews.iter().flat_map(|slew| [slew.from, slew.until]));
        readings.extend(moments.flat_map(|moment| moment - 1..=moment + 1));
        let expected: Vec<String> = readings.iter().map(|&raw| map.apply(raw).to_string()).collect();
        assert_eq!(mapped_in_c(&program, &map.to_string(), &readings), expected, "{map}");
    }
}

fn mapped_in_c(program: &std::path::Path, map: &str, readings: &[i64]) -> Vec<String> {
    let directory = StampDirectory::new("map");
    let mut command = Command::new(program);
    directory.measure(command.arg("map")).env("TICKSCOPE_INJECT_REALTIME", map);
    command.env("TICKSCOPE_POOL_BYTES", "4096").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let text: String = readings.iter().map(|raw| format!("{raw}\n")).collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn c_a_malformed_injection_turns_points_off_and_says_so() {
    let nine = format!("0:0:0:0:2{}", ";step@1:2".repeat(9));
    for wrong in [
        "0:0:0:0",
        "0:0:0:0:3",
        "0:0:0:0:2;",
        "0:0:0:0:2:40",
        "0:0:0:0:2:40:1:40",
        "0:0:0:0:2;step@1",
        "0:0:0:0:2;slew@2:1:5",
        "0:0:0:0:2;slew@1:2:100000001",
        &nine,
    ] {
        assert!(wrong.parse::<RealtimeInjection>().is_err(), "{wrong}");
        let directory = StampDirectory::new("malformed");
        let mut command = build("clocks", &[]);
        directory.measure(command.args(["stamps", "10"])).env("TICKSCOPE_INJECT_REALTIME", wrong);
        let told = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(told.contains("expected TICKSCOPE_INJECT_REALTIME") && told.contains(wrong), "{told}");
        assert_eq!(directory.pools().len(), 0);
    }
}

#[test]
fn c_what_cannot_be_recorded_is_refused_counted_and_told() {
    let directory = StampDirectory::new("clocks-misuse");
    let told = String::from_utf8(run(&directory, &["misuse"]).stderr).unwrap();
    for expected in [
        "tickscope_open_bracket for a point of that name",
        "a counter of tickscope_counter",
        "a bracket of no other clock",
        "expected TICKSCOPE_WIDE or TICKSCOPE_FULL, and no other clock, with TICKSCOPE_RDTSCP and TICKSCOPE_BOTH",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let pools = directory.pools();
    let work = entry(&pools[0], "work");
    assert_eq!(
        stamps(&pools[0], "work").0.iter().map(|stamp| (stamp.id, stamp.tick)).collect::<Vec<_>>(),
        [(2, 5), (3, 6)]
    );
    assert_eq!(work.refused.load(Ordering::Relaxed), 2, "a tick of 0, and a bracket");
    let header = pools[0].header();
    let counts = [&header.without_channel, &header.after_close, &header.channels_refused];
    assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [1, 1, 5]);
}

/// A program in Rust: this test file, run again.
#[test]
fn the_rust_program() {
    match std::env::var("CLOCKS_ROLE").as_deref() {
        Ok("both") => return stamp_both(),
        Ok(_) => {}
        Err(_) => return,
    }
    let realtime = Channel::open_clock("realtime", Clock::Realtime, ReadOrdering::After, Fields::Slim).unwrap();
    let given = Channel::open_clock("given", Clock::Phc, ReadOrdering::Before, Fields::Wide).unwrap();
    let bracket = Channel::open_bracket(Clock::Realtime).unwrap();
    assert!(Channel::open("clock-bracket.realtime", ReadOrdering::Before, Fields::Wide).is_err());
    for id in 0..3000 {
        let earliest = clock_now(Clock::Realtime).unwrap();
        bracket.bracket();
        realtime.stamp(id);
        let extra = Extra { kind: 7, value: earliest, ..Extra::default() };
        given.record_with(id, clock_now(Clock::Realtime).unwrap(), extra);
        given.record(id, 0); // refused
        given.stamp(id); // refused: only C reads that clock
    }
}

#[test]
fn a_rust_program_stamps_other_clocks_and_relates_them() {
    let (directory, map) = (StampDirectory::new("rust-clocks"), "5:1000000000000:12500:0:2");
    let mut command = Command::new(std::env::current_exe().unwrap());
    directory.measure(command.args(["--exact", "the_rust_program"])).env("CLOCKS_ROLE", "stamp");
    command.env("TICKSCOPE_INJECT_REALTIME", map).stdout(Stdio::null());
    let map: RealtimeInjection = map.parse().unwrap();
    let earliest = map.apply(realtime_ns());
    assert!(command.status().unwrap().success());
    let latest = map.apply(realtime_ns());
    let pools = directory.pools();
    let ((realtime, counter), (given, phc)) = (stamps(&pools[0], "realtime"), stamps(&pools[0], "given"));
    assert_eq!((counter, phc, pools[0].header().injected), (Some(Clock::Realtime), Some(Clock::Phc), 1));
    let (brackets, counter) = stamps(&pools[0], "clock-bracket.realtime");
    assert_eq!((realtime.len(), given.len(), brackets.len(), counter), (3000, 3000, 3000, Some(Clock::STAMPED)));
    assert_eq!(entry(&pools[0], "given").refused.load(Ordering::Relaxed), 6000);
    for ((stamp, given), bracket) in realtime.iter().zip(&given).zip(&brackets) {
        let rider = given.rider.unwrap();
        assert!(earliest <= rider.value && rider.value <= bracket.id && bracket.id <= stamp.tick);
        assert!(stamp.tick <= given.tick && given.tick <= latest && bracket.tick <= bracket.rider.unwrap().value);
    }
}

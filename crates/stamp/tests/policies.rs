//! What lies in the pool is what the policy says, in C and in Rust: ended, killed, interrupted, forked, switched.

mod c_program;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use c_program::{ReturnedCounts, Running, StampDirectory, compile_with, ids, records, until};
use tickscope_stamp::block::{BlockState, ChannelEntry, Policy};
use tickscope_stamp::policies::{Choice, first_last};
use tickscope_stamp::pool::{MappedBlock, Pool, Record};
use tickscope_stamp::{Channel, Extra, Fields, handover, policy};
use tickscope_tick::Ordering as ReadOrdering;

/// Id of the first stamp.
const FIRST: i64 = -500;
/// Every policy that keeps anything, in each of its forms.
const POLICIES: [&str; 10] = [
    "buffered",
    "all",
    "every 7",
    "2 of 5",
    "count 10ms",
    "first-last",
    "first-last 700",
    "return-trip",
    "keep 10s",
    "own",
];

/// A stamp directory, and where its program tells how many stamps have returned.
fn scene(name: &str) -> (StampDirectory, ReturnedCounts) {
    (StampDirectory::new(name), ReturnedCounts::new(name))
}

/// A C program, or the same in Rust: this test file, run again.
fn program(directory: &StampDirectory, is_c: bool, returned: &ReturnedCounts, words: [&str; 2]) -> Command {
    let mut command = if is_c {
        static COMPILED: OnceLock<PathBuf> = OnceLock::new();
        let mut command = Command::new(COMPILED.get_or_init(|| compile_with("cc", "policies", &[], "policies")));
        command.arg(&returned.0).args(words);
        command
    } else {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_rust_program", "--nocapture"]).stdout(Stdio::null());
        command.env("PROGRAM_WITNESS", &returned.0).env("PROGRAM_WAY", words[0]).env("PROGRAM_COUNT", words[1]);
        command
    };
    directory.measure(&mut command);
    command.env("TICKSCOPE_LOGS", &directory.0);
    command
}

fn under(command: &mut Command, policy: &str) -> String {
    command.env("TICKSCOPE_POLICY", format!("w?rk={policy},*=null"));
    policy.to_owned()
}

#[test]
fn the_rust_program() {
    let Some(witness) = std::env::var_os("PROGRAM_WITNESS") else { return };
    let (way, count) = (std::env::var("PROGRAM_WAY").unwrap(), std::env::var("PROGRAM_COUNT").unwrap());
    let count: i64 = count.parse().unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(witness).unwrap();
    // SAFETY: a new shared mapping of a file of 512 bytes, which stays.
    let word: &AtomicU64 = unsafe {
        use std::os::fd::AsRawFd;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        &*libc::mmap(std::ptr::null_mut(), 512, both, libc::MAP_SHARED, file.as_raw_fd(), 0).cast()
    };
    let fields = if way == "stamp_with" { Fields::Wide } else { Fields::Slim };
    let channel = Channel::open("work", ReadOrdering::Before, fields).unwrap();
    channel.choose(|id, tick| tick != 0 && id % 3 == 0);
    for at in (0..).take_while(|&at| count == 0 || at < count) {
        let id = FIRST + at;
        match way.as_str() {
            "record" => channel.record(id, id + 1_000_000),
            "stamp_with" => channel.stamp_with(id, Extra { value: id * 10, ..Extra::default() }),
            _ => channel.stamp(id),
        }
        word.store(at as u64 + 1, Ordering::Release);
    }
    tickscope_stamp::dump();
}

fn entry(pool: &Pool) -> &ChannelEntry {
    pool.entries().iter().find(|entry| entry.opened_tick.load(Ordering::Relaxed) != 0).unwrap()
}

/// The ids in the pool, in the order in which they were stamped.
fn kept(pool: &Pool) -> Vec<i64> {
    ids(&records(pool).into_values().next().unwrap_or_default().0)
}

/// What `policy` says of the first `count` stamps; `None`: more than ids says it.
fn expected(policy: &str, count: i64) -> Option<Vec<i64>> {
    let all = FIRST..FIRST + count;
    match policy {
        "buffered" | "all" | "return-trip" | "keep 10s" => Some(all.collect()),
        "every 7" => Some(all.skip(6).step_by(7).collect()),
        "2 of 5" => Some(all.filter(|id| id.rem_euclid(5) < 2).collect()),
        "own" => Some(all.filter(|id| id % 3 == 0).collect()),
        "count 10ms" => Some(Vec::new()),
        _ => None,
    }
}

/// Holds a pool against its policy, after `count` stamps have returned and perhaps one more was made.
fn hold_against(policy: &str, pool: &Pool, count: i64, more: i64) {
    let found = kept(pool);
    let entry = entry(pool);
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed) as i64;
    let (counted, seen) = (load(&entry.counted), load(&entry.seen));
    let may_be = count..=count + more;
    assert_eq!([load(&entry.refused), load(&entry.dropped)], [0, 0], "{policy}");
    assert!(if policy == "count 10ms" { may_be.contains(&counted) } else { counted == 0 }, "{counted} counted");
    assert!(if policy == "every 7" { may_be.contains(&seen) } else { seen == 0 }, "{seen} seen");
    let (choice, word): (Choice, u64) = (policy.parse().unwrap(), entry.policy.load(Ordering::Relaxed));
    assert_eq!((word, entry.parameters[0].load(Ordering::Relaxed)), (choice.policy() as u64, choice.parameter()));
    if expected(policy, count).is_some() {
        let mut candidates = may_be.map(|count| expected(policy, count).unwrap());
        assert!(candidates.any(|ids| ids == found), "{policy}: {} of {count}", found.len());
        return;
    }
    let marker = policy.strip_prefix("first-last ").map(|marker| marker.parse::<i64>().unwrap());
    let (stamps, _) = records(pool).into_values().next().unwrap();
    let (first, last) = first_last::first_and_last(&stamps, marker, |stamp: &Record| (stamp.tick, stamp.id)).unwrap();
    let last = last.map_or(first.id, |last| last.id);
    assert!(stamps.len() <= 3 && first.id == FIRST, "{stamps:?}");
    let is_last = may_be.map(|count| FIRST + count - 1).any(|id| last == marker.map_or(id, |marker| marker.min(id)));
    assert!(is_last, "{policy}: {last} of {count}");
}

fn check_each(is_c: bool) {
    for policy in POLICIES {
        for way in ["stamp", "stamp_with", "record"] {
            let (directory, returned) = scene(&format!("policies-{is_c}"));
            let mut command = program(&directory, is_c, &returned, [way, "5000"]);
            under(&mut command, policy);
            assert!(command.status().unwrap().success());
            let pool = &directory.pools()[0];
            hold_against(policy, pool, 5000, 0);
            assert_eq!(pool.header().dumps.load(Ordering::Relaxed), 1);
            check_log(&directory, policy, pool);
        }
    }
}

/// Under `all`, the log holds the records verbatim, one behind the other; elsewhere there is none.
fn check_log(directory: &StampDirectory, policy: &str, pool: &Pool) {
    let path = directory.0.join(format!("{:016x}-0.log", pool.header().instance));
    let Ok(log) = fs::read(&path) else { return assert_ne!(policy, "all") };
    assert_eq!(policy, "all");
    let (stamps, _) = records(pool).into_values().next().unwrap();
    let bytes = log.len() / stamps.len();
    let word = |at: usize| i64::from_le_bytes(log[at..][..8].try_into().unwrap());
    let logged: Vec<(i64, i64)> = (0..stamps.len()).map(|at| (word(at * bytes), word(at * bytes + 8))).collect();
    assert_eq!(logged, stamps.iter().map(|stamp| (stamp.id, stamp.tick)).collect::<Vec<_>>());
    assert_eq!(pool.header().unwritten.load(Ordering::Relaxed), 0);
}

#[test]
fn c_what_lies_in_the_pool_is_what_the_policy_says() {
    check_each(true);
}

#[test]
fn what_lies_in_the_pool_is_what_the_policy_says() {
    check_each(false);
}

fn kill_each(is_c: bool) {
    for (round, policy) in (0u64..).zip(POLICIES.iter().cycle().take(30)) {
        let (directory, returned) = scene(&format!("policies-kill-{is_c}"));
        let mut command = program(&directory, is_c, &returned, ["stamp", "0"]);
        under(&mut command, policy);
        let child = Running(command.spawn().unwrap());
        until(|| returned.word(0) > 40 * round * round);
        child.kill();
        let pool = &directory.pools()[0];
        if entry(pool).dropped.load(Ordering::Relaxed) == 0 {
            hold_against(policy, pool, returned.word(0) as i64, 1);
        }
    }
}

#[test]
fn c_a_kill_at_any_instant_leaves_what_the_policy_says() {
    kill_each(true);
}

#[test]
fn a_kill_at_any_instant_leaves_what_the_policy_says() {
    kill_each(false);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn c_handlers_after_every_instruction_find_and_leave_every_policy_whole() {
    for policy in POLICIES.iter().filter(|policy| !policy.ends_with("700")) {
        let (directory, returned) = scene("policies-steps");
        let mut command = program(&directory, true, &returned, ["steps", "600"]);
        under(command.env("TICKSCOPE_BLOCK_BYTES", "4096"), policy);
        assert!(command.status().unwrap().success());
        let (pool, handled) = (&directory.pools()[0], returned.word(1) as i64);
        let (found, entry) = (kept(pool), entry(pool));
        assert!(handled > 3000, "{policy}: {handled} steps");
        let all = || (FIRST..FIRST + 600).chain(100_000..100_000 + handled);
        let keeps: &dyn Fn(&i64) -> bool = match *policy {
            "2 of 5" => &|id| id.rem_euclid(5) < 2,
            "own" => &|id| id % 3 == 0,
            "count 10ms" => &|_| false,
            _ => &|_| true,
        };
        let mut sorted = found.clone();
        sorted.sort_unstable();
        match *policy {
            "every 7" => {
                assert_eq!(found.len() as i64, (600 + handled) / 7);
                assert_eq!(entry.seen.load(Ordering::Relaxed) as i64, 600 + handled);
            }
            "first-last" => {
                let (stamps, _) = records(pool).into_values().next().unwrap();
                let ends = first_last::first_and_last(&stamps, None, |stamp: &Record| (stamp.tick, stamp.id)).unwrap();
                assert!(ends.0.id == FIRST || ends.0.id == 100_000, "{stamps:?}");
                assert!(ends.1.unwrap().id == 100_000 + handled - 1, "{stamps:?}");
            }
            _ => assert_eq!(sorted, all().filter(keeps).collect::<Vec<_>>(), "{policy}"),
        }
        let counted = if *policy == "count 10ms" { 600 + handled } else { 0 };
        assert_eq!(entry.counted.load(Ordering::Relaxed) as i64, counted);
        assert_eq!(entry.refused.load(Ordering::Relaxed), 0);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn c_a_block_of_first_last_that_a_handler_moved_its_channel_from_is_handed_over_by_the_stamp_within() {
    let (directory, returned) = scene("policies-adopt");
    let mut command = program(&directory, true, &returned, ["adopt", "300"]);
    under(command.env("TICKSCOPE_BLOCK_BYTES", "4096"), "first-last");
    assert!(command.status().unwrap().success());
    assert!(returned.word(1) > 300);
    c_program::check_handed_over(&directory.pools()[0]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn c_a_stamp_within_another_takes_nothing_from_it_nor_is_taken() {
    for (policy, channels) in [("every 2", 400), ("first-last", 400)] {
        let (directory, returned) = scene("policies-once");
        let mut command = program(&directory, true, &returned, ["once", "400"]);
        command.env("TICKSCOPE_BLOCK_BYTES", "4096").env("TICKSCOPE_POLICY", format!("w*={policy}"));
        assert!(command.status().unwrap().success());
        let all: Vec<i64> = records(&directory.pools()[0]).into_values().flat_map(|(stamps, _)| ids(&stamps)).collect();
        let [first, own, within] = [1, 2, 3].map(|id| all.iter().filter(|&&found| found == id).count());
        let handled = returned.word(1) as usize;
        assert!((50..=channels).contains(&handled), "{handled} steps");
        if policy == "every 2" {
            assert_eq!((first, own + within), (0, channels), "one of two or three of each channel");
        } else {
            assert_eq!([first, own, within], [channels, channels, handled]);
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn c_a_block_is_leased_under_the_policy_of_one_switch_whichever_instruction_it_comes_after() {
    let (directory, returned) = scene("policies-lease");
    let mut command = program(&directory, true, &returned, ["lease", "300"]);
    under(command.env("TICKSCOPE_BLOCK_BYTES", "4096"), "buffered");
    assert!(command.status().unwrap().success());
    let pool = &directory.pools()[0];
    let described = (0..pool.block_count()).map(|index| pool.block(index)).filter(MappedBlock::is_described);
    let mut epochs = std::collections::BTreeSet::new();
    for header in described.map(|block| block.header()) {
        let expected = if header.policy_epoch % 2 == 0 { (Policy::Buffered, 0) } else { (Policy::Every, 1) };
        let found = (header.policy, header.parameter);
        assert_eq!(found, (expected.0 as u32, expected.1), "epoch {}", header.policy_epoch);
        epochs.insert(header.policy_epoch);
    }
    assert!(epochs.len() > 50, "{epochs:?}");
}

#[test]
fn c_a_forked_child_is_under_the_policy_from_its_first_stamp_on() {
    for policy in POLICIES {
        let (directory, returned) = scene("policies-fork");
        let mut command = program(&directory, true, &returned, ["fork", "3000"]);
        under(&mut command, policy);
        assert!(command.status().unwrap().success());
        let pools = directory.pools();
        assert_eq!(pools.len(), 2);
        for pool in &pools {
            hold_against(policy, pool, 3000, 0);
            check_log(&directory, policy, pool);
        }
    }
}

fn overwrite(is_c: bool, policy: &str, when_full: &str) {
    let (directory, returned) = scene(&format!("overwrite-{is_c}"));
    let mut command = program(&directory, is_c, &returned, ["stamp", "10000"]);
    command.env("TICKSCOPE_POOL_BYTES", "16384").env("TICKSCOPE_BLOCK_BYTES", "4096");
    under(command.env("TICKSCOPE_WHEN_FULL", when_full), policy);
    assert!(command.status().unwrap().success());
    let pool = &directory.pools()[0];
    assert_eq!(entry(pool).dropped.load(Ordering::Relaxed), 0);
    let blocks = (0..pool.block_count()).map(|index| pool.block(index)).filter(MappedBlock::is_described);
    let mut numbers: Vec<u32> = blocks.map(|block| block.header().number).collect();
    numbers.sort_unstable();
    let last = 10_000 / 244;
    assert_eq!(numbers, (last - 3..=last).collect::<Vec<_>>(), "the newest blocks, numbered from the first on");
    let gone = i64::from(numbers[0]) * 244;
    assert_eq!(kept(pool), (FIRST + gone..FIRST + 10_000).collect::<Vec<_>>());
}

#[test]
fn c_a_full_pool_that_overwrites_holds_the_newest_stamps_and_tells_how_many_are_gone() {
    overwrite(true, "buffered", "overwrite");
    overwrite(true, "keep 10s", "drop");
}

#[test]
fn a_full_pool_that_overwrites_holds_the_newest_stamps_and_tells_how_many_are_gone() {
    overwrite(false, "buffered", "overwrite");
    overwrite(false, "keep 10s", "drop");
}

/// A collector takes a full block of a program that overwrites, and keeps it.
fn overwrite_beside_a_collector(is_c: bool) {
    let (directory, returned) = scene(&format!("overwrite-beside-{is_c}"));
    let mut command = program(&directory, is_c, &returned, ["stamp", "0"]);
    command.env("TICKSCOPE_POOL_BYTES", "16384").env("TICKSCOPE_BLOCK_BYTES", "4096");
    under(command.env("TICKSCOPE_WHEN_FULL", "overwrite"), "buffered");
    let child = Running(command.spawn().unwrap());
    until(|| returned.word(0) > 2000);
    let pool = &directory.pools()[0];
    let is_taken = |block: &MappedBlock<'_>| handover::take_done(block, || handover::is_complete(block));
    until(|| (0..4).any(|index| is_taken(&pool.block(index))));
    let begun = returned.word(0);
    until(|| returned.word(0) > begun + 20_000);
    child.kill();
    let own = (0..4)
        .map(|index| pool.block(index))
        .filter(|block| block.is_described() && handover::state(block) == Some(BlockState::Leased));
    let numbers: Vec<u32> = own.map(|block| block.name().1).collect();
    let (first, last) = (numbers.iter().min().unwrap(), numbers.iter().max().unwrap());
    assert!(numbers.len() > 1 && last - first < 3, "the newest blocks alone: {numbers:?}");
}

#[test]
fn c_a_program_that_overwrites_finds_its_oldest_block_where_a_collector_has_taken_one() {
    overwrite_beside_a_collector(true);
}

#[test]
fn a_program_that_overwrites_finds_its_oldest_block_where_a_collector_has_taken_one() {
    overwrite_beside_a_collector(false);
}

#[test]
fn c_all_records_of_a_block_are_under_the_policy_that_it_names_however_often_it_is_switched() {
    let (directory, returned) = scene("switches");
    let mut command = program(&directory, true, &returned, ["threads", "0"]);
    command.env("TICKSCOPE_BLOCK_BYTES", "4096");
    let child = Running(command.spawn().unwrap());
    let opened = |pool: &Pool| pool.header().channels.load(Ordering::Relaxed);
    until(|| directory.pools().first().is_some_and(|pool| opened(pool) >= 3));
    let pool = &directory.pools()[0];
    for policy in
        ["2 of 5", "own", "null", "count 1s", "first-last", "every 3", "buffered", "all"].iter().cycle().take(64)
    {
        let choice: Choice = policy.parse().unwrap();
        for entry in &pool.entries()[..3] {
            policy::switch(&entry.policy, &entry.parameters, choice.policy() as u32, choice.parameter());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill();
    let mut found = std::collections::BTreeSet::new();
    for block in (0..pool.block_count()).map(|index| pool.block(index)).filter(MappedBlock::is_described) {
        let choice = block.choice().unwrap();
        let slots = block.tenancies().unwrap()[0].slots.clone();
        let stamps: Vec<Record> = slots.filter_map(|slot| block.record(slot)).collect();
        let is_of = |id: i64| match choice.policy() {
            Policy::XOfY => id.rem_euclid(5) < 2,
            Policy::Own => id % 3 == 0,
            Policy::Null | Policy::Count => false,
            _ => true,
        };
        assert!(stamps.iter().all(|stamp| is_of(stamp.id)), "{choice}: {:?}", ids(&stamps));
        let steps = stamps.windows(2).map(|pair| pair[1].id - pair[0].id);
        assert!(choice.policy() != Policy::Every || steps.into_iter().all(|step| step == 3), "{:?}", ids(&stamps));
        assert!(choice.policy() != Policy::FirstLast || stamps.len() <= 3);
        found.insert(choice.to_string());
    }
    assert_eq!(found.len(), 6, "{found:?}");
}

/// Settings that no text gives: of a later version, or written by whoever else has the pool.
fn wrong_settings() -> Vec<(u32, u64)> {
    let both = |x: u64, y: u64| x << 32 | y;
    let (every, chosen) = (Policy::Every as u32, Policy::XOfY as u32);
    let mut wrong = vec![(700, 0), (u32::MAX, u64::MAX), (every, 0), (every, 1 << 63), (every, u64::MAX)];
    wrong.extend([0, both(1, 0), both(0, 3), both(3, 3), both(4, 3), u64::MAX].map(|parameter| (chosen, parameter)));
    for spanned in [Policy::Count, Policy::Keep] {
        wrong.extend([0, 999, 24 * 3_600_000_000_000 + 1, u64::MAX].map(|parameter| (spanned as u32, parameter)));
    }
    wrong
}

fn switch_to_what_is_no_policy(is_c: bool) {
    let (directory, returned) = scene(&format!("wrong-settings-{is_c}"));
    let mut command = program(&directory, is_c, &returned, ["stamp", "0"]);
    under(&mut command, "buffered");
    let child = Running(command.spawn().unwrap());
    until(|| returned.word(0) > 100);
    let pool = &directory.pools()[0];
    let entry = entry(pool);
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    for (policy, parameter) in wrong_settings() {
        assert_eq!(Choice::of(policy, parameter), None, "{policy} {parameter}");
        policy::switch(&entry.policy, &entry.parameters, policy, parameter);
        let before = load(&entry.refused);
        until(|| load(&entry.refused) > before + 1);
        policy::switch(&entry.policy, &entry.parameters, Policy::Buffered as u32, 0);
        let before = returned.word(0);
        until(|| returned.word(0) > before + 1); // none is under the other one any more
    }
    child.kill();
    let found = kept(pool);
    assert!(found.windows(2).all(|two| two[0] < two[1]) && load(&entry.counted) == 0);
    let made = found.len() as u64 + load(&entry.refused) + load(&entry.dropped);
    assert!((returned.word(0)..=returned.word(0) + 1).contains(&made), "{made} of {}", returned.word(0));
}

#[test]
fn c_a_policy_of_a_later_version_or_a_wrong_parameter_has_stamps_refused_and_counted_and_harms_no_program() {
    switch_to_what_is_no_policy(true);
}

#[test]
fn a_policy_of_a_later_version_or_a_wrong_parameter_has_stamps_refused_and_counted_and_harms_no_program() {
    switch_to_what_is_no_policy(false);
}

#[test]
fn c_what_is_no_policy_turns_points_off_and_is_told_once_with_every_form() {
    let wrong = [
        "w*=every",
        "w*=every 0",
        "w*=every 9223372036854775808",
        "w*=1 of 0",
        "w*=3 of 3",
        "w*=1 of 4294967296",
        "w*=count 10",
        "w*=count 999ns",
        "w*=count 25h",
        "w*=keep",
        "w*=first-last x",
        "w*=x-of-y",
        "w*=first-last -9223372036854775808",
        "w*=first-last 1 2",
        "w*=Buffered",
        "w*=every +1",
        "buffered",
        "other=every 0",
    ];
    for text in wrong {
        let (directory, returned) = scene("no-policy");
        let mut command = program(&directory, true, &returned, ["stamp", "10"]);
        let run = command.env("TICKSCOPE_POLICY", text).output().unwrap();
        let told = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.success() && told.lines().count() == 1, "{told}");
        assert!(told.contains("expected TICKSCOPE_POLICY") && told.contains("Points are off"), "{told}");
        assert!(told.contains(text.rsplit('=').next().unwrap()), "{told}");
        assert_eq!((directory.pools().len(), returned.word(0)), (0, 10));
    }
}

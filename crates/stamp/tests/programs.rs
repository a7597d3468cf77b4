//! What real programs leave behind, in C and in Rust: killed, forked, interrupted, misused.

mod c_program;

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use c_program::{ReturnedCounts, Running, StampDirectory, build, compile_with, ids, records, until};
use tickscope_stamp::block::{Policy, PoolState};
use tickscope_stamp::policy;
use tickscope_stamp::pool::{MappedBlock, Origin, Pool, Record};
use tickscope_stamp::{Channel, Extra, Fields};
use tickscope_tick::Ordering as ReadOrdering;

#[test]
fn c_a_killed_program_leaves_exactly_the_stamps_that_returned_or_one_more() {
    let stamper = compile_with("cc", "stamper", &[], "stamper-kill");
    for round in 0..20 {
        let (directory, returned) = (StampDirectory::new("kill"), ReturnedCounts::new("kill"));
        let mut command = Command::new(&stamper);
        directory.measure(command.arg(&returned.0).args(["threads", "3", "0"]));
        let child = Running(command.spawn().unwrap());
        until(|| returned.word(2) > 100 * round);
        child.kill();
        let pools = directory.pools();
        assert!(!pools[0].is_held().unwrap() && pools[0].state() == Some(PoolState::Open));
        let mut found: Vec<u64> = records(&pools[0])
            .values()
            .map(|(stamps, open)| {
                assert_eq!(ids(stamps), (0..stamps.len() as i64).collect::<Vec<_>>());
                assert_eq!(*open, 0);
                stamps.len() as u64
            })
            .collect();
        let mut counted: Vec<u64> = (0..3).map(|word| returned.word(word)).collect();
        found.sort_unstable();
        counted.sort_unstable();
        // A full pool drops: then the stamps that lie there are the first ones, and the rest was counted.
        let dropped: u64 = pools[0].entries().iter().map(|entry| entry.dropped.load(Ordering::Relaxed)).sum();
        let (found, counted): (u64, u64) = (found.iter().sum(), counted.iter().sum());
        assert!((counted..=counted + 3).contains(&(found + dropped)), "round {round}: {found}+{dropped} of {counted}");
    }
}

#[test]
fn c_a_forked_child_stamps_into_a_pool_of_its_own() {
    let (directory, returned) = (StampDirectory::new("fork"), ReturnedCounts::new("fork"));
    let mut command = build("stamper", &[]);
    assert!(directory.measure(command.arg(&returned.0).args(["fork", "5000"])).status().unwrap().success());
    assert_eq!(directory.pools().len(), 2);
    let mut found: Vec<usize> = directory
        .pools()
        .iter()
        .flat_map(|pool| {
            assert_eq!(pool.state(), Some(PoolState::Closed));
            records(pool).into_values().map(|(stamps, _)| stamps.len()).collect::<Vec<_>>()
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, [5000, 6000], "the child's, and the parent's before and after");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn c_a_handler_after_every_instruction_of_a_stamp_finds_and_leaves_it_whole() {
    let stamper = compile_with("cc", "stamper", &[], "stamper-steps");
    // More than a block of 4096 bytes holds.
    let count = if all() { 2_000 } else { 300 };
    for way in ["slim", "before", "after", "wide", "full", "both", "record"] {
        let (directory, returned) = (StampDirectory::new("steps"), ReturnedCounts::new("steps"));
        let mut command = Command::new(&stamper);
        command.arg(&returned.0).args(["steps", way, &count.to_string()]).env("TICKSCOPE_BLOCK_BYTES", "4096");
        command.env("TICKSCOPE_POOL_BYTES", "67108864"); // 1000 steps a stamp, of two slots each
        assert!(directory.measure(&mut command).status().unwrap().success());
        let pools = directory.pools();
        let dropped: u64 = pools[0].entries().iter().map(|entry| entry.dropped.load(Ordering::Relaxed)).sum();
        assert_eq!(dropped, 0, "{way}: the pool has no room for {} of the handler", returned.word(1));
        let threads = records(&pools[0]);
        let (stamps, open) = threads.values().next().unwrap();
        let (handled, program): (Vec<i64>, Vec<i64>) = ids(stamps).into_iter().partition(|&id| id < 0);
        assert!(handled.len() > 4 * count as usize, "{way}: {} steps", handled.len());
        assert_eq!(handled, (1..=returned.word(1) as i64).map(|id| -id).collect::<Vec<_>>());
        assert_eq!(program, (0..count).collect::<Vec<_>>());
        assert_eq!(*open, 0);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn c_a_child_that_a_handler_forks_within_a_stamp_goes_on_and_leaves_its_parent_alone() {
    let stamper = compile_with("cc", "stamper", &[], "stamper-fork-steps");
    // As many as a block of 4096 bytes holds, and two more.
    let every = [("slim", 246), ("full", 83), ("record", 246), ("before", 246), ("after", 246), ("wide", 124)];
    for (way, count) in every.into_iter().take(if all() { 6 } else { 3 }) {
        let (directory, returned) = (StampDirectory::new("fork-steps"), ReturnedCounts::new("fork-steps"));
        let mut command = Command::new(&stamper);
        directory.measure(command.arg(&returned.0).args(["fork-steps", way, &count.to_string()]));
        command.env("TICKSCOPE_BLOCK_BYTES", "4096").env("TICKSCOPE_POOL_BYTES", "16384");
        assert!(command.status().unwrap().success());
        let (forked, failed) = (returned.word(1), returned.word(2));
        assert!(forked > 300 && failed == 0, "{failed} of {forked} children crashed");
        check_children(&directory, returned.word(0) as i32, (forked, count));
    }
}

/// Holds what a program and its children left: each stamp in the pool of the process that made it, once.
fn check_children(directory: &StampDirectory, parent: i32, (forked, count): (u64, i64)) {
    let pools = directory.pools();
    assert_eq!(pools.len() as u64, forked + 1, "a pool each");
    let mut within = 0;
    for pool in pools {
        let (stamps, open) = records(&pool).into_values().next().unwrap();
        if pool.header().pid == parent {
            assert_eq!((ids(&stamps), open), ((0..count).collect(), 0));
            continue;
        }
        // The interrupted stamp may be the parent's alone; what came within and after it is the child's.
        let (interrupted, own): (Vec<i64>, Vec<i64>) = ids(&stamps).into_iter().partition(|id| (0..count).contains(id));
        // It may have taken a slot of the child's pool where the handler had opened one; it fills none of them then.
        assert!(interrupted.len() + open < 2, "{open} open, {stamps:?}");
        assert!(matches!(own[..], [1_000_000] | [999_999, 1_000_000]), "{own:?}");
        within += own.len() as u64 - 1;
    }
    assert_eq!(within, forked.div_ceil(2), "stamps within the one that was interrupted");
}

fn all() -> bool {
    std::env::var_os("TICKSCOPE_TESTS").is_some_and(|tests| tests == "all")
}

#[test]
fn c_a_signal_handler_stamps_into_the_same_channel_and_nothing_is_lost_or_torn() {
    let (directory, returned) = (StampDirectory::new("signals"), ReturnedCounts::new("signals"));
    let mut command = build("stamper", &[]);
    assert!(directory.measure(command.arg(&returned.0).args(["signals", "2000000"])).status().unwrap().success());
    let pools = directory.pools();
    let threads = records(&pools[0]);
    let (stamps, open) = threads.values().next().unwrap();
    let (handled, program): (Vec<i64>, Vec<i64>) = ids(stamps).into_iter().partition(|&id| id < 0);
    assert!(handled.len() >= 40, "the timer never fired");
    assert_eq!(handled, (1..=returned.word(1) as i64).map(|id| -id).collect::<Vec<_>>());
    assert_eq!(program, (0..2_000_000).collect::<Vec<_>>());
    assert_eq!(*open, 0);
}

#[test]
fn c_wide_stamps_carry_kind_value_and_core() {
    let (directory, returned) = (StampDirectory::new("wide"), ReturnedCounts::new("wide"));
    let mut command = build("stamper", &[]);
    assert!(directory.measure(command.arg(&returned.0).args(["wide", "3000"])).status().unwrap().success());
    let pools = directory.pools();
    let (stamps, _) = records(&pools[0]).into_values().next().unwrap();
    check_carried(&stamps, false);
}

#[test]
fn c_full_stamps_carry_parent_attempt_and_batch_too() {
    let (directory, returned) = (StampDirectory::new("full-records"), ReturnedCounts::new("full-records"));
    let mut command = build("stamper", &[]);
    assert!(directory.measure(command.arg(&returned.0).args(["full", "3000"])).status().unwrap().success());
    let pools = directory.pools();
    let header = pools[0].block(0).header();
    assert_eq!((header.shape, header.header_bytes), (3, 13 * 16), "a unit is left over in 16 384 bytes");
    let (stamps, open) = records(&pools[0]).into_values().next().unwrap();
    assert_eq!(open, 0);
    check_carried(&stamps, true);
}

/// What `carried` of stamper.c says: 3000 stamped, 9 recorded, 9 by the call that carries nothing.
fn check_carried(stamps: &[Record], full: bool) {
    assert_eq!(ids(stamps), (0..3018).collect::<Vec<_>>());
    for &Record { id, tick, rider } in stamps {
        let rider = rider.unwrap();
        assert!(rider.cpu.is_some_and(|cpu| (0..4096).contains(&cpu)));
        let carries = id < 3009;
        let expected = if carries { (id * 10, (id % 3) as i32) } else { (0, 0) };
        assert_eq!((rider.value, rider.kind), expected);
        assert_eq!(tick == id + 1, (3000..3009).contains(&id));
        let says = carries && id % 7 != 0;
        let origin = Origin {
            parent: (carries && id % 5 != 0).then_some(id - 100),
            attempt: if says { Some((id % 4) as i32) } else { (!carries).then_some(0) },
            batch: says.then_some((id % 64 + 1) as i32),
            ids: None,
        };
        assert_eq!(rider.origin, full.then_some(origin), "{id}");
    }
}

#[test]
fn c_a_policy_is_switched_with_its_parameter_while_the_program_stamps() {
    let (directory, returned) = (StampDirectory::new("switch"), ReturnedCounts::new("switch"));
    let mut command = build("stamper", &[]);
    switch_while_running(&directory, command.arg(&returned.0).args(["paced", "1", "0"]));
}

#[test]
fn a_policy_is_switched_with_its_parameter_while_a_rust_program_stamps() {
    let directory = StampDirectory::new("rust-switch");
    switch_while_running(&directory, &mut rust_stamper(&directory, "paced"));
}

/// Switches a channel off and on again, with a parameter; every block names a policy, an epoch and a parameter of one
/// switch.
fn switch_while_running(directory: &StampDirectory, command: &mut Command) {
    let child = Running(directory.measure(command).spawn().unwrap());
    let leases = |pool: &Pool| pool.header().leases.load(Ordering::Relaxed);
    until(|| directory.pools().first().is_some_and(|pool| leases(pool) > 2));
    let pool = &directory.pools()[0];
    let entry = &pool.entries()[0];
    let switch = |to: Policy, parameter| policy::switch(&entry.policy, &entry.parameters, to as u32, parameter);
    switch(Policy::Null, 1 << 40);
    // A stamp that had looked at the policy before may still lease one.
    let off = std::cell::Cell::new(u64::MAX);
    until(|| {
        std::thread::sleep(Duration::from_millis(20));
        off.replace(leases(pool)) == leases(pool)
    });
    switch(Policy::XOfY, 7 << 32 | 8);
    until(|| leases(pool) > off.get() + 2);
    child.kill();
    let blocks = (0..pool.block_count()).map(|index| pool.block(index)).filter(MappedBlock::is_described);
    let blocks: Vec<MappedBlock<'_>> = blocks.collect();
    blocks.iter().for_each(check_records_are_under_its_policy);
    let numbers = |block: &MappedBlock<'_>| (block.header().number, block.header().first_of_policy);
    let (mut found, mut firsts): (Vec<_>, Vec<_>) =
        blocks.iter().map(|block| ((block.header().number, setting(block)), numbers(block))).unzip();
    found.sort_by_key(|&(number, _)| number);
    firsts.sort_unstable();
    let expected = found.iter().map(|(number, (_, epoch, _))| {
        let first = found.iter().find(|(_, (_, of, _))| of == epoch).map(|&(first, _)| first);
        (*number, first.unwrap())
    });
    assert_eq!(firsts, expected.collect::<Vec<_>>());
    let [on, off, again] = [(1, 0, 0), (0, 1, 1 << 40), (4, 2, 7 << 32 | 8)];
    assert!(found.iter().all(|(_, setting)| [on, off, again].contains(setting)), "{found:?}");
    assert!(found.is_sorted_by_key(|&(_, (_, epoch, _))| epoch), "{found:?}");
    assert_eq!([found.first().unwrap().1, found.last().unwrap().1], [on, again]);
}

/// Ids come one by one, so a block of all stamps has no gap; under `7 of 8` there is one after every seventh.
fn check_records_are_under_its_policy(block: &MappedBlock<'_>) {
    let slots = block.tenancies().unwrap()[0].slots.clone();
    let ids: Vec<i64> = slots.filter_map(|slot| block.record(slot)).map(|record| record.id).collect();
    let has_gap = ids.windows(2).any(|pair| pair[1] != pair[0] + 1);
    let is_thinned = setting(block).0 == Policy::XOfY as u32;
    assert!(if is_thinned { ids.iter().all(|id| id % 8 < 7) } else { !has_gap }, "{:?}: {ids:?}", setting(block));
}

fn setting(block: &MappedBlock<'_>) -> (u32, u32, u64) {
    let header = block.header();
    (header.policy, header.policy_epoch, header.parameter)
}

#[test]
fn a_rust_program_stamps_what_a_c_program_does() {
    let directory = StampDirectory::new("rust-full");
    for (role, full) in [("wide", false), ("full", true)] {
        assert!(rust_stamper(&directory, role).status().unwrap().success());
        let pools = directory.pools();
        check_carried(&records(&pools[0]).into_values().next().unwrap().0, full);
        std::fs::remove_file(pools[0].path()).unwrap();
    }
}

#[test]
fn c_misuse_is_counted_and_told_and_never_crashes() {
    let (directory, returned) = (StampDirectory::new("misuse"), ReturnedCounts::new("misuse"));
    let mut command = build("stamper", &[]);
    let run = directory.measure(command.arg(&returned.0).arg("misuse")).output().unwrap();
    assert!(run.status.success());
    let told = String::from_utf8(run.stderr).unwrap();
    for expected in [
        "expected tickscope_open before tickscope_stamp",
        "expected no stamp after tickscope_close",
        "found no such name",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let pools = directory.pools();
    let header = pools[0].header();
    let counts =
        [&header.without_channel, &header.after_close, &header.channels_refused].map(|c| c.load(Ordering::Relaxed));
    assert_eq!(counts, [2, 1, 1], "on NULL and under no valid name");
    assert_eq!(ids(&records(&pools[0]).into_values().next().unwrap().0), [2]);
}

#[test]
fn c_a_loaded_library_has_a_pool_of_its_own() {
    let (directory, returned) = (StampDirectory::new("plugin"), ReturnedCounts::new("plugin"));
    let library = compile_with("cc", "plugin", &["-shared", "-fPIC"], "plugin.so");
    let mut command = build("stamper", &[]);
    let command = directory.measure(command.arg(&returned.0).arg("plugin").arg(&library).arg("4000"));
    assert!(command.status().unwrap().success());
    let lengths: Vec<usize> =
        directory.pools().iter().flat_map(|pool| records(pool).into_values().map(|(stamps, _)| stamps.len())).collect();
    assert_eq!(lengths, [4000, 4000]);
}

#[test]
fn c_the_end_of_a_thread_releases_its_blocks() {
    let (directory, returned) = (StampDirectory::new("threads"), ReturnedCounts::new("threads"));
    let mut command = build("stamper", &[]);
    assert!(directory.measure(command.arg(&returned.0).args(["threads", "4", "10"])).status().unwrap().success());
    let pools = directory.pools();
    assert_eq!(records(&pools[0]).len(), 4);
    // One thread may have gone on where another had ended.
    let states = (0..pools[0].block_count()).map(|index| pools[0].block(index).header().state.load(Ordering::Relaxed));
    let used: Vec<u32> = states.filter(|&state| state != 0).collect();
    assert!((1..=4).contains(&used.len()) && used.iter().all(|&state| state == 2), "{used:?}");
}

#[test]
fn c_a_full_or_missing_stamp_directory_turns_points_off_and_says_so() {
    for (variable, value, helps) in [
        ("TICKSCOPE_POOL_BYTES", "34359738368", "enlarge that tmpfs"),
        ("TICKSCOPE_DIR", "/no/such/directory", "make that directory first"),
    ] {
        let (directory, returned) = (StampDirectory::new("full"), ReturnedCounts::new("full"));
        let mut command = build("stamper", &[]);
        let run = directory
            .measure(command.arg(&returned.0).args(["threads", "1", "100"]))
            .env(variable, value)
            .output()
            .unwrap();
        assert!(run.status.success());
        let told = String::from_utf8(run.stderr).unwrap();
        assert!(told.contains("tickscope: expected to") && told.contains("Points are off"), "{told}");
        assert!(told.contains(helps), "{told}");
        assert_eq!(directory.pools().len(), 0);
        assert_eq!(returned.word(0), 100, "the program went on");
    }
}

#[test]
fn c_a_full_pool_drops_and_counts_every_stamp_it_cannot_keep() {
    let (directory, returned) = (StampDirectory::new("drop"), ReturnedCounts::new("drop"));
    let mut command = build("stamper", &[]);
    let command = directory.measure(command.arg(&returned.0).args(["threads", "1", "10000"]));
    command.env("TICKSCOPE_POOL_BYTES", "16384").env("TICKSCOPE_BLOCK_BYTES", "4096");
    assert!(command.status().unwrap().success());
    let pools = directory.pools();
    let (stamps, _) = records(&pools[0]).into_values().next().unwrap();
    let entry = pools[0].entries().iter().find(|entry| entry.opened_tick.load(Ordering::Relaxed) != 0).unwrap();
    assert_eq!(stamps.len(), 4 * 244);
    assert_eq!(entry.dropped.load(Ordering::Relaxed), 10_000 - 4 * 244);
    assert_eq!(entry.lost.load(Ordering::Relaxed), entry.dropped.load(Ordering::Relaxed));
    let last_kept = stamps.last().unwrap().tick;
    assert!(last_kept < entry.lost_first.load(Ordering::Relaxed));
    assert!(entry.lost_first.load(Ordering::Relaxed) < entry.lost_last.load(Ordering::Relaxed));
}

#[test]
fn c_an_injected_map_stands_before_every_stamp() {
    let (directory, returned) = (StampDirectory::new("inject"), ReturnedCounts::new("inject"));
    let text = "1000:1000000000:12500:1000:25000000000:49:2:7";
    let map: tickscope_tick::Injection = text.parse().unwrap();
    let mut command = build("stamper", &[]);
    let before = tickscope_counter::before();
    let run = directory
        .measure(command.arg(&returned.0).args(["threads", "1", "5000"]))
        .env("TICKSCOPE_INJECT", text)
        .status();
    let after = tickscope_counter::after();
    assert!(run.unwrap().success());
    let pools = directory.pools();
    let (stamps, _) = records(&pools[0]).into_values().next().unwrap();
    assert_eq!((stamps.len(), pools[0].header().injected), (5000, 1));
    for stamp in stamps {
        assert!(map.apply(before) <= stamp.tick && stamp.tick <= map.apply(after));
        assert!(map.invert(stamp.tick).is_some(), "C and Rust disagree about the map");
    }
}

/// The same program in Rust: this test file, run again.
fn rust_stamper(directory: &StampDirectory, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    directory.measure(command.args(["--exact", "the_rust_stamper", "--nocapture"]).env("STAMPER_ROLE", role));
    command.stdout(Stdio::null());
    command
}

#[test]
fn the_rust_stamper() {
    let Ok(role) = std::env::var("STAMPER_ROLE") else { return };
    if role == "wide" || role == "full" {
        return stamp_carrying(if role == "wide" { Fields::Wide } else { Fields::Full });
    }
    let channel = Channel::open("work", ReadOrdering::Before, Fields::Slim).unwrap();
    let count = if ["forever", "paced"].contains(&role.as_str()) { i64::MAX } else { 5000 };
    if role == "fork" {
        // SAFETY: the child only stamps and leaves by _exit.
        let child = unsafe { libc::fork() };
        (0..count).for_each(|id| channel.stamp(id));
        if child == 0 {
            // SAFETY: ends this process without running the test harness's exit code.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for the child above.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        return;
    }
    for id in 0..count {
        channel.stamp(id);
        if role == "paced" && id % 300 == 299 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn stamp_carrying(fields: Fields) {
    let channel = Channel::open("work", ReadOrdering::After, fields).unwrap();
    let carried = |id: i64| Extra {
        kind: (id % 3) as i32,
        value: id * 10,
        parent: (id % 5 != 0).then_some(id - 100),
        attempt: if id % 7 != 0 { (id % 4) as i32 } else { -1 },
        batch: if id % 7 != 0 { (id % 64 + 1) as i32 } else { 0 },
    };
    (0..3000).for_each(|id| channel.stamp_with(id, carried(id)));
    (3000..3009).for_each(|id| channel.record_with(id, 1 + id, carried(id)));
    (3009..3018).for_each(|id| channel.stamp(id));
}

#[test]
fn a_killed_rust_program_leaves_its_stamps_too() {
    let directory = StampDirectory::new("rust-kill");
    let child = Running(rust_stamper(&directory, "forever").spawn().unwrap());
    until(|| directory.pools().iter().any(|pool| pool.header().leases.load(Ordering::Relaxed) > 10));
    child.kill();
    let (stamps, open) = records(&directory.pools()[0]).into_values().next().unwrap();
    assert_eq!(ids(&stamps), (0..stamps.len() as i64).collect::<Vec<_>>());
    assert_eq!(open, 0);
}

#[test]
fn a_rust_program_and_its_forked_child_have_a_pool_each() {
    let directory = StampDirectory::new("rust-fork");
    assert!(rust_stamper(&directory, "fork").status().unwrap().success());
    assert_eq!(directory.pools().len(), 2);
    let lengths: Vec<usize> =
        directory.pools().iter().flat_map(|pool| records(pool).into_values().map(|(stamps, _)| stamps.len())).collect();
    assert_eq!(lengths, [5000, 5000]);
}

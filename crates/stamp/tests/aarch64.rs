//! `tickscope.h` on aarch64: compiled by a cross compiler, run in an emulator, and its pools read by this machine.
//!
//! What is held here doesn't depend on the counter's rate, nor on how the processor orders instructions: an emulator
//! shows neither. Left out, aloud, where the tools are not there: scripts/setup.sh installs them as root.

mod c_program;

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use c_program::{ReturnedCounts, Running, StampDirectory, build, compile_with, ids, records, until};
use tickscope_stamp::block::PoolState;
use tickscope_tick::Clock;

const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";

fn has_tools() -> bool {
    let runs = |tool: &&str| Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_ok();
    let all = [COMPILER, EMULATOR].iter().all(runs);
    if !all {
        eprintln!("LEFT OUT: aarch64, there is no {COMPILER} or no {EMULATOR} here; tests/run.py says so too");
    }
    all
}

/// The program compiled for aarch64, as a command of the emulator.
fn emulated(name: &str) -> Command {
    let program = compile_with(COMPILER, name, &[], &format!("{name}-aarch64"));
    let mut command = Command::new(EMULATOR);
    command.args(["-L", "/usr/aarch64-linux-gnu"]).arg(program);
    command
}

#[test]
fn c_every_field_lies_where_it_lies_on_x86_64() {
    if has_tools() {
        let [there, here] = [emulated("offsets"), build("offsets", &[])].map(|mut program| program.output().unwrap());
        assert!(there.status.success() && !there.stdout.is_empty());
        assert_eq!(String::from_utf8(there.stdout).unwrap(), String::from_utf8(here.stdout).unwrap());
    }
}

#[test]
fn c_stamps_of_aarch64_are_read_here_whatever_they_carry_and_wherever_they_were_made() {
    if !has_tools() {
        return;
    }
    let stamper = emulated("stamper").get_args().last().unwrap().to_owned();
    for (words, lengths) in [
        (vec!["threads", "3", "700"], vec![700; 3]),
        (vec!["wide", "600"], vec![618]),
        (vec!["full", "600"], vec![618]),
        (vec!["fork", "900"], vec![900, 1900]),
    ] {
        let (directory, returned) = (StampDirectory::new("aarch64"), ReturnedCounts::new("aarch64"));
        let mut command = Command::new(EMULATOR);
        command.args(["-L", "/usr/aarch64-linux-gnu"]).arg(&stamper).arg(&returned.0).args(&words);
        command.env("TICKSCOPE_BLOCK_BYTES", "4096");
        assert!(directory.measure(&mut command).status().unwrap().success(), "{words:?}");
        let mut found = Vec::new();
        for pool in directory.pools() {
            assert_eq!((pool.header().counter, pool.state()), (Clock::Cntvct.number(), Some(PoolState::Closed)));
            for (stamps, open) in records(&pool).into_values() {
                assert_eq!((ids(&stamps)[..3].to_vec(), open), (vec![0, 1, 2], 0), "{words:?}");
                let carries = |rider: tickscope_stamp::pool::Rider, id: i64| rider.value == id * 10;
                assert!(stamps[..600].iter().all(|stamp| stamp.rider.is_none_or(|rider| carries(rider, stamp.id))));
                found.push(stamps.len());
            }
        }
        found.sort_unstable();
        assert_eq!(found, lengths, "{words:?}");
    }
}

#[test]
fn c_a_killed_program_of_aarch64_leaves_its_stamps_and_a_point_that_is_off_none() {
    if !has_tools() {
        return;
    }
    let (directory, returned) = (StampDirectory::new("aarch64-kill"), ReturnedCounts::new("aarch64-kill"));
    let mut command = emulated("stamper");
    let child = directory.measure(command.arg(&returned.0).args(["paced", "1", "0"])).spawn().unwrap();
    let child = Running(child);
    until(|| returned.word(0) >= 3000);
    assert!(directory.pools()[0].is_held().unwrap(), "the lock is the host's");
    child.kill();
    let pools = directory.pools();
    assert!(!pools[0].is_held().unwrap() && pools[0].state() == Some(PoolState::Open));
    let (stamps, open) = records(&pools[0]).into_values().next().unwrap();
    let counted = returned.word(0) as usize;
    assert!((counted..=counted + 1).contains(&stamps.len()) && open == 0, "{} of {counted}", stamps.len());
    assert_eq!(ids(&stamps), (0..stamps.len() as i64).collect::<Vec<_>>());
    let directory = StampDirectory::new("aarch64-off");
    let mut command = emulated("stamper");
    directory.measure(command.arg(&returned.0).args(["threads", "2", "500"])).env("TICKSCOPE_POLICY", "wo*=null");
    assert!(command.status().unwrap().success());
    assert!(records(&directory.pools()[0]).is_empty());
}

#[test]
fn c_the_core_by_the_counters_instruction_is_refused_on_aarch64_and_counted() {
    if !has_tools() {
        return;
    }
    let directory = StampDirectory::new("aarch64-core");
    let ended = directory.measure(emulated("clocks").args(["core", "40"])).output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success() && told.contains("expected an x86-64 processor with rdtscp"), "{told}");
    let pools = directory.pools();
    let header = pools[0].header();
    let counts = [&header.channels_refused, &header.without_channel].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [1, 40]);
}

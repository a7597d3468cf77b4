//! `tickscope.h` under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, of gcc and of clang.
//!
//! ThreadSanitizer sees one process alone: so a thread of the program takes blocks as a collector does, through the
//! same mapping. It sees no instruction that is written in assembly: under it, and only there, the header moves a
//! channel's cursor and counts by the compiler's atomic operations. That the one instruction in their place is whole to
//! signal handlers is what `programs.rs` and `steps.rs` hold, instruction by instruction.

mod c_program;

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use c_program::{StampDirectory, compile, compile_with};
use tickscope_stamp::block::BlockState;
use tickscope_stamp::handover;
use tickscope_stamp::pool::{MappedBlock, Pool};

const THREADS: &str = "-fsanitize=thread";
const MEMORY: &str = "-fsanitize=address,undefined";

/// The compilers that link with that sanitizer here; tests/run.py says which are missing.
fn compilers(sanitizer: &str) -> Vec<&'static str> {
    let links = |compiler: &&str| {
        let mut command = Command::new(compiler);
        command.args([sanitizer, "-xc", "-", "-o", "/dev/null"]).stdin(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"int main(void) { return 0; }\n");
        child.wait().unwrap().success()
    };
    let (found, missing): (Vec<_>, Vec<_>) = ["gcc", "clang"].into_iter().partition(links);
    missing.iter().for_each(|compiler| eprintln!("LEFT OUT: {sanitizer} of {compiler}, which does not link here"));
    found
}

fn count() -> &'static str {
    if std::env::var_os("TICKSCOPE_TESTS").is_some_and(|tests| tests == "all") { "19000" } else { "1500" }
}

/// The program as a command, in an address space that every sanitizer's run-time library can lay out.
fn sanitized(program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env("TICKSCOPE_BLOCK_BYTES", "4096");
    // SAFETY: one system call, without memory.
    unsafe {
        command.pre_exec(|| {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        })
    };
    command
}

/// Ids given, ids that were not found, and records that were torn or found twice, as the program tells.
fn told(run: &Output, what: &str) -> [i64; 3] {
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{what}: {}\n{errors}", run.status);
    for report in ["Sanitizer", "runtime error"] {
        assert!(!errors.contains(report), "{what}: {errors}");
    }
    let text = String::from_utf8_lossy(&run.stdout);
    let numbers: Vec<i64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

fn program(compiler: &'static str, sanitizer: &'static str) -> PathBuf {
    compile_with(
        compiler,
        "sanitized",
        &[sanitizer, "-fno-sanitize-recover=all", "-g"],
        &format!("sanitized-{compiler}"),
    )
}

#[test]
fn c_no_thread_races_with_another_nor_with_who_takes_its_blocks() {
    for compiler in compilers(THREADS) {
        let program = program(compiler, THREADS);
        let directory = StampDirectory::new("races");
        let run = directory.measure(&mut sanitized(&program, &["within", count()])).output().unwrap();
        let [given, missed, torn] = told(&run, compiler);
        assert!(given > 4 * 1500 && (missed, torn) == (0, 0), "{compiler}: {given} {missed} {torn}");
        for (variable, value) in [("TICKSCOPE_INJECT", "0:100:5:0:2"), ("TICKSCOPE_DIR", "")] {
            let directory = StampDirectory::new("races-start");
            let mut command = sanitized(&program, &["start"]);
            directory.measure(&mut command).env("TICKSCOPE_INJECT_REALTIME", "0:100:5:0:2").env(variable, value);
            told(&command.output().unwrap(), &format!("{compiler} {variable}={value}"));
        }
        // A pool and an injected map that are not there before the threads are.
        let directory = StampDirectory::new("races-late");
        let mut command = sanitized(&program, &["start", directory.0.to_str().unwrap()]);
        command.env("TICKSCOPE_INJECT_REALTIME", "0:100:5:0:2").env("TICKSCOPE_INJECT", "0:100:5:0:2");
        told(&command.output().unwrap(), &format!("{compiler}, late"));
        assert_eq!(directory.pools().len(), 1);
    }
}

/// What liburcu does is not seen: it is not compiled here.
#[test]
fn c_no_thread_of_the_forwarder_races_with_another() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/forwarder/forwarder.c");
    for compiler in compilers(THREADS) {
        // gcc warns that it does not follow fences: what the sequence lock reads between its two looks is atomic.
        let more: &[&str] = if compiler == "gcc" { &["-Wno-tsan"] } else { &[] };
        let flags = [&["-D_GNU_SOURCE", THREADS, "-g"], more].concat();
        let program = compile(compiler, &source, &flags, &format!("forwarder-{compiler}"));
        let all = ["rwl-spin", "rwl-spin-readers", "rwl-park-writer", "sharded", "seqlock", "left-right"];
        for (fib, ring) in all.map(|fib| (fib, "16")).into_iter().chain([("rwl-park", "newest"), ("none", "newest")]) {
            let directory = StampDirectory::new("forwarder-races");
            let words = ["--scheduling", "shared", "--rate", "0", "--packets", "6000", "--users", "2", "--cdr", "1"];
            let mut command = sanitized(&program, &words);
            command.args(["--fib", fib, "--layout", "spread", "--ring", ring, "--link", "64"]);
            let run = directory.measure(&mut command).output().unwrap();
            let errors = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success() && !errors.contains("Sanitizer"), "{compiler} {fib}: {errors}");
        }
    }
}

/// Counts of ids, by stamper and number.
type Seen = HashMap<i64, u32>;

/// Takes what a collector may: blocks that are complete or released, or all of a program that has ended.
fn take(pool: &Pool, ended: bool, seen: &mut Seen) {
    for block in (0..pool.block_count()).map(|index| pool.block(index)).filter(MappedBlock::is_described) {
        let released =
            || handover::state(&block) == Some(BlockState::Released) && handover::take(&block, BlockState::Released);
        if !(ended || handover::is_complete(&block) || released()) {
            continue;
        }
        for tenancy in block.tenancies().unwrap() {
            for record in tenancy.slots.filter_map(|slot| block.record(slot)) {
                *seen.entry(record.id).or_default() += 1;
            }
        }
        handover::begin_zeroing(&block);
        handover::finish_zeroing(&block);
    }
}

#[test]
fn c_no_stamp_leaves_its_memory_while_a_process_beside_takes_blocks() {
    for compiler in compilers(MEMORY) {
        let program = program(compiler, MEMORY);
        let directory = StampDirectory::new("memory");
        let mut command = sanitized(&program, &["beside", count()]);
        let child = directory.measure(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut seen = Seen::new();
        let ended: OnceLock<Output> = OnceLock::new();
        std::thread::scope(|scope| {
            scope.spawn(|| ended.set(child.wait_with_output().unwrap()));
            while ended.get().is_none() {
                directory.pools().iter().for_each(|pool| take(pool, false, &mut seen));
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
        directory.pools().iter().for_each(|pool| take(pool, true, &mut seen));
        let [given, ..] = told(&ended.into_inner().unwrap(), compiler);
        let own: Vec<u32> = seen.iter().filter(|(id, _)| **id < 64_000_000).map(|(_, times)| *times).collect();
        assert!(own.iter().all(|times| *times == 1), "{compiler}: an id was found twice");
        assert_eq!(own.len() as i64, given, "{compiler}: each id that was given is found");
        assert_eq!((0..50).filter(|at| seen.contains_key(&(900_000_000 + at))).count(), 50, "{compiler}: of children");
        let mut start = sanitized(&program, &["start"]);
        let directory = StampDirectory::new("memory-start");
        told(&directory.measure(&mut start).output().unwrap(), compiler);
    }
}

//! C programs on `tickscope.h`, compiled with every warning an error, and stamp directories for them to run in.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tickscope_stamp::directory::{self, Trust};
use tickscope_stamp::pool::{Pool, Record};

/// Compiles `tests/c/NAME.c`; the command runs it.
pub fn build(name: &str, flags: &[&str]) -> Command {
    Command::new(compile_with("cc", name, flags, name))
}

pub fn compile_with(compiler: &str, name: &str, flags: &[&str], output: &str) -> PathBuf {
    compile(compiler, &stamp_crate().join("tests/c").join(format!("{name}.c")), flags, output)
}

/// This crate's folder, whichever crate of the workspace these tests belong to.
fn stamp_crate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../stamp")
}

/// Compiles the program at `source`; flags that name libraries come behind it, as linkers want them.
pub fn compile(compiler: &str, source: &Path, flags: &[&str], output: &str) -> PathBuf {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let program = folder.join(format!("{output}-{}-{serial}", std::process::id()));
    let (libraries, others): (Vec<&str>, Vec<&str>) =
        flags.iter().partition(|flag| flag.starts_with("-l") || flag.starts_with("-Wl,"));
    let compiled = Command::new(stamp_crate().join("../../tests/compiled.py"))
        .arg(compiler)
        .args(others)
        .arg("-o")
        .arg(&program)
        .arg(source.canonicalize().unwrap())
        .args(libraries)
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{} {flags:?}:\n{}",
        source.display(),
        String::from_utf8_lossy(&compiled.stderr)
    );
    program
}

/// A stamp directory on tmpfs that is removed with the value.
pub struct StampDirectory(pub PathBuf);

impl StampDirectory {
    pub fn new(name: &str) -> Self {
        let path = Path::new("/dev/shm").join(format!("tickscope-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Every pool in it.
    pub fn pools(&self) -> Vec<Pool> {
        let listing = directory::list(&self.0, &Trust::of(&self.0).unwrap()).unwrap();
        listing.pools.iter().map(|path| Pool::open(path).unwrap()).collect()
    }

    /// Sets up a command to stamp here.
    pub fn measure<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("TICKSCOPE_DIR", &self.0).env("TICKSCOPE_NODE", "test").env("TICKSCOPE_POOL_BYTES", "67108864")
    }
}

impl Drop for StampDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Committed records of a pool: by thread, in the order of blocks and slots, with how many slots stayed open before
/// the end.
pub fn records(pool: &Pool) -> BTreeMap<i32, (Vec<Record>, usize)> {
    let mut blocks: BTreeMap<(i32, u32, i64), Vec<Option<Record>>> = BTreeMap::new();
    for block in (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described()) {
        let header = block.header();
        for (at, tenancy) in block.tenancies().unwrap().into_iter().enumerate() {
            let slots = tenancy.slots.map(|slot| block.record(slot)).collect();
            // A successor's records come before its first block.
            let number = if at == 0 { i64::from(header.number) } else { -1 };
            let before = blocks.insert((tenancy.thread, tenancy.serial, number), slots);
            assert!(before.is_none(), "block {number} of channel {} twice", tenancy.serial);
        }
    }
    let mut threads: BTreeMap<i32, (Vec<Record>, usize)> = BTreeMap::new();
    for ((thread, ..), slots) in blocks {
        let used = slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let (records, open) = threads.entry(thread).or_default();
        *open += slots[..used].iter().filter(|slot| slot.is_none()).count();
        records.extend(slots.into_iter().flatten());
    }
    threads
}

pub fn ids(records: &[Record]) -> Vec<i64> {
    records.iter().map(|record| record.id).collect()
}

/// Waits until a program has done something; a minute is more than a slow machine needs.
#[track_caller]
pub fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "what is waited for has not come within a minute");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The file in which a stamper tells how many stamps have returned.
pub struct ReturnedCounts(pub PathBuf);

impl ReturnedCounts {
    pub fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/tickscope-returned-{name}-{}", std::process::id()));
        fs::write(&path, [0; 512]).unwrap();
        Self(path)
    }

    /// How many stamps of the thread with that word have returned.
    pub fn word(&self, index: usize) -> u64 {
        let bytes = fs::read(&self.0).unwrap();
        u64::from_le_bytes(bytes[index * 8..][..8].try_into().unwrap())
    }
}

impl Drop for ReturnedCounts {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A program that does not outlive its test, whatever happens to the test.
pub struct Running(pub Child);

impl Running {
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        assert_eq!(self.0.wait().unwrap().signal(), Some(9));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have been killed already
        let _ = self.0.wait();
    }
}

/// Holds that of a pool's only channel every block is the collector's but the newest.
pub fn check_handed_over(pool: &Pool) {
    let blocks = (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described());
    let (done, left): (Vec<_>, Vec<_>) = blocks.partition(|block| block.is_ended());
    assert!(done.len() > 20, "{} blocks", done.len());
    let last = done.iter().chain(&left).map(|block| block.header().number).max();
    let left: Vec<u32> = left.iter().map(|block| block.header().number).collect();
    assert!(left.iter().all(|&number| Some(number) == last), "left until the program ends: {left:?} of {last:?}");
}

//! Many threads: what each stamped lies under its own thread, or is counted as lost. And files that nobody else may
//! touch.

mod c_program;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use c_program::{StampDirectory, compile_with};
use tickscope_stamp::pool::{Pool, Record};
use tickscope_stamp::{Fields, point};

/// Every record of a pool with the thread under which it lies, and how many stamps were counted as lost.
fn kept_and_lost(pool: &Pool) -> (Vec<(i32, Record)>, u64) {
    let blocks = (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described());
    let mut kept = Vec::new();
    for block in blocks {
        for tenancy in block.tenancies().unwrap() {
            kept.extend(tenancy.slots.filter_map(|slot| Some((tenancy.thread, block.record(slot)?))));
        }
    }
    let lost: u64 = pool.entries().iter().map(|entry| entry.dropped.load(Ordering::Relaxed)).sum();
    (kept, lost + pool.header().without_channel.load(Ordering::Relaxed))
}

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile_with("cc", "many", &[], "many"))
}

/// Runs `many` with a pool of so many bytes.
fn many(directory: &StampDirectory, words: &[&str], bytes: u32) -> (Pool, String) {
    let mut command = Command::new(program());
    let command = directory.measure(command.args(words)).env("TICKSCOPE_POOL_BYTES", bytes.to_string());
    let run = command.output().unwrap();
    assert!(run.status.success(), "{run:?}");
    (directory.pools().pop().unwrap(), String::from_utf8(run.stderr).unwrap())
}

fn all() -> bool {
    std::env::var_os("TICKSCOPE_TESTS").is_some_and(|tests| tests == "all")
}

#[test]
fn c_sixty_four_threads_stamp_at_ten_points_each_and_nothing_is_lost() {
    let directory = StampDirectory::new("crowd");
    let (pool, told) = many(&directory, &["crowd", "64", "10", "100"], 16 << 20);
    let (kept, lost) = kept_and_lost(&pool);
    assert_eq!((kept.len(), lost, told.as_str()), (64 * 10 * 100, 0, ""));
}

#[test]
fn c_short_threads_without_a_collector_lose_nothing_while_memory_lasts_and_keep_their_names() {
    let threads = if all() { 70_000 } else { 3_000 };
    for (way, at_once) in [("short", "8"), ("short-wide", "8"), ("after", "1")] {
        let directory = StampDirectory::new("short");
        let (pool, told) =
            many(&directory, &[way, &threads.to_string(), at_once], if all() { 16 << 20 } else { 1 << 20 });
        let (kept, lost) = kept_and_lost(&pool);
        assert_eq!((kept.len(), lost, told.as_str()), (threads, 0, ""), "{way}");
        for (thread, record) in kept {
            let stamper = record.rider.map_or(record.id, |rider| rider.value);
            assert_eq!(i64::from(thread), stamper, "{way}: a stamp lies under another thread");
        }
    }
}

#[test]
fn c_stamps_that_find_no_channel_are_counted_under_their_points_and_told_once() {
    let directory = StampDirectory::new("no-channel");
    // 4 blocks and 256 entries: of 640 channels most have no entry, and nearly all no block.
    let (pool, told) = many(&directory, &["crowd", "64", "10", "100"], 65536);
    let (kept, lost) = kept_and_lost(&pool);
    assert_eq!(kept.len() as u64 + lost, 64 * 10 * 100);
    assert_eq!(pool.header().without_channel.load(Ordering::Relaxed), 0, "each is told under its point");
    let shared = pool.entries().iter().filter(|entry| entry.state.load(Ordering::Relaxed) == 4);
    let of_points: u64 = shared.map(|entry| entry.lost.load(Ordering::Relaxed)).sum();
    assert!(of_points >= (640 - 256) * 100, "{of_points}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("at most 256 channels") && told.contains("TICKSCOPE_POOL_BYTES higher"), "{told}");
}

#[test]
fn c_a_limit_on_sizes_turns_points_off_and_does_not_end_the_program() {
    for (limit, wrong) in [("-f 1", "File too large"), ("-v 60000", "Cannot allocate memory")] {
        let directory = StampDirectory::new("limited");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit}; exec \"$0\" limited")]).arg(program());
        let run = directory.measure(&mut command).output().unwrap();
        assert!(run.status.success() && run.stdout == b"went on\n", "{run:?}");
        let told = String::from_utf8(run.stderr).unwrap();
        let remedy = "raise ulimit -f or -v, or set a smaller pool";
        assert!(told.contains(wrong) && told.contains(remedy), "{told}");
        assert!(directory.pools().is_empty());
    }
}

fn modes(directory: &StampDirectory) -> Vec<u32> {
    let pools = directory.pools();
    let places = pools.iter().flat_map(|pool| [pool.path().to_path_buf(), pool.path().parent().unwrap().into()]);
    places.map(|place| place.metadata().unwrap().mode() & 0o7777).collect()
}

#[test]
fn c_pools_are_their_users_alone_whatever_the_umask_says() {
    for umask in ["0", "22", "777"] {
        let directory = StampDirectory::new("umask");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask {umask}; exec {} after 1", program().display())]);
        assert!(directory.measure(&mut command).status().unwrap().success());
        assert_eq!(modes(&directory), [0o600, 0o700], "umask {umask}");
    }
}

#[test]
fn pools_of_rust_programs_are_their_users_alone_and_a_groups_where_one_is_named() {
    let group = std::fs::metadata("/proc/self").unwrap().gid();
    for (variable, expected) in [(None, [0o600, 0o700]), (Some(group), [0o660, 0o770])] {
        let directory = StampDirectory::new("rust-rights");
        let mut command = this_program(&directory, "point");
        command.envs(variable.map(|group| ("TICKSCOPE_GROUP", group.to_string())));
        assert!(command.status().unwrap().success());
        assert_eq!(modes(&directory), expected);
    }
}

#[test]
fn a_directory_that_is_made_is_closed_to_others_or_lets_them_make_their_own_alone() {
    let outer = StampDirectory::new("made");
    let path = outer.0.join("made");
    let key = tickscope_stamp::directory::make(&path).unwrap();
    let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
    // SAFETY: geteuid has no arguments and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    assert_eq!((mode, key.is_some()), if root { (0o1733, true) } else { (0o700, false) });
    assert_eq!(tickscope_stamp::directory::make(&path).unwrap(), key, "found again");
}

/// This test file, run again.
fn this_program(directory: &StampDirectory, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    directory.measure(command.args(["--exact", "the_rust_program", "--nocapture"]).env("MANY_ROLE", role));
    command.env("TICKSCOPE_POOL_BYTES", "1048576").stdout(std::process::Stdio::null());
    command
}

/// A future that other threads go on with.
async fn stamp_twice() {
    let here = point!("work", before, wide);
    here.stamp(1);
    std::future::ready(()).await;
    here.stamp(2);
}

fn is_send<T: Send + 'static>(value: T) -> T {
    value
}

#[test]
fn the_rust_program() {
    let Ok(role) = std::env::var("MANY_ROLE") else { return };
    drop(is_send(stamp_twice()));
    let threads = if role == "short" { 3000 } else { 4 };
    for _ in 0..threads / 4 {
        let all = [(); 4].map(|()| std::thread::spawn(stamp_own_thread));
        all.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn stamp_own_thread() {
    // SAFETY: gettid has no arguments and cannot fail.
    let thread = i64::from(unsafe { libc::gettid() });
    let here = point!("work", before);
    here.stamp(thread);
    here.record(thread, 5);
}

#[test]
fn short_rust_threads_lose_nothing_and_keep_their_names() {
    let directory = StampDirectory::new("rust-short");
    assert!(this_program(&directory, "short").status().unwrap().success());
    let pools = directory.pools();
    let (kept, lost) = kept_and_lost(&pools[0]);
    assert_eq!((pools.len(), kept.len(), lost), (1, 6000, 0));
    assert!(kept.iter().all(|(thread, record)| i64::from(*thread) == record.id));
    assert_eq!(pools[0].block(0).header().shape, Fields::Slim as u8);
}

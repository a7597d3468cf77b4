//! Logs of `all` in programs that are in their way, and what chooses under `own` and stamps itself, in C and in Rust.

mod c_program;

use std::fs::{self, OpenOptions};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use c_program::{StampDirectory, compile_with, ids, records};
use tickscope_stamp::{Channel, Fields};
use tickscope_tick::Ordering as ReadOrdering;

/// The C program, or the same in Rust: this test file, run again.
fn program(is_c: bool, directory: &StampDirectory, way: &str) -> Command {
    let own = directory.0.join("own");
    let mut command = if is_c {
        static COMPILED: OnceLock<PathBuf> = OnceLock::new();
        let mut command = Command::new(COMPILED.get_or_init(|| compile_with("cc", "log", &[], "log")));
        command.arg(way).arg(own);
        command
    } else {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_rust_program", "--nocapture"]).env("PROGRAM_WAY", way).env("PROGRAM_OWN", own);
        command
    };
    let policy = if way == "asked" { "*=own" } else { "*=all" };
    command.env("TICKSCOPE_POLICY", policy).env("TICKSCOPE_LOGS", &directory.0);
    directory.measure(&mut command);
    command
}

/// Runs it to its end, which must be a good one.
fn run(is_c: bool, directory: &StampDirectory, way: &str) -> Output {
    let ended = program(is_c, directory, way).output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{way} of C {is_c}: {}\n{told}", ended.status);
    ended
}

/// Ids in the log of the first channel.
fn logged(directory: &StampDirectory) -> Vec<i64> {
    let instance = directory.pools()[0].header().instance;
    let log = fs::read(directory.0.join(format!("{instance:016x}-0.log"))).unwrap();
    assert_eq!(log.len() % 16, 0);
    log.chunks(16).map(|record| i64::from_le_bytes(record[..8].try_into().unwrap())).collect()
}

/// Ids in the pool, and how many stamps no log took.
fn stored(directory: &StampDirectory) -> (Vec<i64>, u64) {
    let pool = &directory.pools()[0];
    let stored = records(pool).values().flat_map(|(stamps, _)| ids(stamps)).collect();
    (stored, pool.header().unwritten.load(Ordering::Relaxed))
}

#[test]
fn the_rust_program() {
    let Ok(way) = std::env::var("PROGRAM_WAY") else { return };
    let own = || {
        let own = std::env::var_os("PROGRAM_OWN").unwrap();
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(own).map(IntoRawFd::into_raw_fd)
    };
    limit(libc::RLIMIT_NOFILE, 1024);
    // SAFETY: it ends a program that waits for ever.
    unsafe { libc::alarm(30) };
    let open = |name: &str| Rc::new(Channel::open(name, ReadOrdering::Plain, Fields::Slim).unwrap());
    if way == "many" {
        let opened: Vec<_> = (0..900).map(|at| open(&format!("point{at}"))).collect();
        (0..).zip(&opened).for_each(|(at, channel)| channel.stamp(at));
        return (0..400).for_each(|_| _ = own().unwrap());
    }
    let sent = open("send");
    let stamp = |ids: std::ops::Range<i64>| ids.for_each(|id| sent.stamp(id));
    match way.as_str() {
        "limited" => {
            stamp(0..2);
            limit(libc::RLIMIT_FSIZE, 64);
            stamp(2..10);
        }
        "asked" => {
            let chosen = Rc::clone(&sent);
            sent.choose(move |id, _| {
                chosen.stamp(id + 1);
                true
            });
            stamp(0..1);
            std::mem::forget(sent);
        }
        _ => {
            stamp(0..10);
            // SAFETY: nothing of this program needs them any more.
            (3..1024).for_each(|fd| _ = unsafe { libc::close(fd) });
            let mut last = 0;
            while last < 700 {
                last = if way == "closed" {
                    own().unwrap()
                } else {
                    let (_, other) = UnixStream::pair().map(|(one, other)| (one.into_raw_fd(), other)).unwrap();
                    other.into_raw_fd()
                };
            }
            stamp(10..if way == "closed" { 20 } else { 1000 });
            drop(sent);
            // SAFETY: a look at each.
            assert!((3..=last).all(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0));
        }
    }
}

fn limit(of: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: if most == 1024 { most } else { libc::RLIM_INFINITY } };
    // SAFETY: an rlimit that outlives the call.
    assert_eq!(unsafe { libc::setrlimit(of, &limit) }, 0);
}

fn check_limited(is_c: bool) {
    let directory = StampDirectory::new(&format!("log-limited-{is_c}"));
    run(is_c, &directory, "limited");
    assert_eq!(stored(&directory), ((0..10).collect(), 6));
    assert_eq!(logged(&directory), [0, 1, 2, 3], "as far as the limit");
}

#[test]
fn c_a_limit_on_files_that_is_lowered_ends_no_program() {
    check_limited(true);
}

#[test]
fn a_limit_on_files_that_is_lowered_ends_no_program() {
    check_limited(false);
}

fn check_closed(is_c: bool) {
    let directory = StampDirectory::new(&format!("log-closed-{is_c}"));
    run(is_c, &directory, "closed");
    assert_eq!(stored(&directory), ((0..20).collect(), 10));
    assert_eq!(logged(&directory), (0..10).collect::<Vec<_>>());
    assert_eq!(fs::metadata(directory.0.join("own")).unwrap().len(), 0);
    let directory = StampDirectory::new(&format!("log-socket-{is_c}"));
    run(is_c, &directory, "socket");
    assert_eq!(stored(&directory), ((0..1000).collect(), 990));
}

#[test]
fn c_a_log_writes_to_no_file_of_its_program_and_closes_none() {
    check_closed(true);
}

#[test]
fn a_log_writes_to_no_file_of_its_program_and_closes_none() {
    check_closed(false);
}

fn check_many(is_c: bool) {
    let directory = StampDirectory::new(&format!("log-many-{is_c}"));
    let told = String::from_utf8(run(is_c, &directory, "many").stderr).unwrap();
    assert!(told.contains("raise ulimit -n: a log takes a descriptor") && told.lines().count() == 1, "{told}");
    let (stored, unwritten) = stored(&directory);
    let logs = fs::read_dir(&directory.0).unwrap().map(|file| file.unwrap().path());
    let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "log")).count();
    assert_eq!((stored.len(), logs as u64 + unwritten), (900, 900), "logs of nothing go again");
    assert!((450..=512).contains(&logs), "{logs}");
}

#[test]
fn c_logs_leave_half_of_the_descriptors_to_their_program() {
    check_many(true);
}

#[test]
fn logs_leave_half_of_the_descriptors_to_their_program() {
    check_many(false);
}

fn check_asked(is_c: bool) {
    let directory = StampDirectory::new(&format!("log-asked-{is_c}"));
    run(is_c, &directory, "asked");
    let (mut stored, _) = stored(&directory);
    stored.sort_unstable();
    assert_eq!(stored, [0, 1, 2, 3]);
    let pool = &directory.pools()[0];
    assert_eq!(pool.entries().iter().map(|entry| entry.refused.load(Ordering::Relaxed)).sum::<u64>(), 1);
}

#[test]
fn c_what_chooses_may_stamp_its_own_channel() {
    check_asked(true);
}

#[test]
fn what_chooses_may_stamp_its_own_channel() {
    check_asked(false);
}

fn check_told(is_c: bool) {
    let directory = StampDirectory::new(&format!("log-told-{is_c}"));
    symlink(directory.0.join("loop"), directory.0.join("loop")).unwrap();
    for (logs, remedy) in [
        (None, "found none"),
        (Some("absent"), "as under buffered; make that directory, and name it."),
        (Some("loop"), "as under buffered.\n"),
    ] {
        let mut command = program(is_c, &directory, "limited");
        match logs {
            None => command.env_remove("TICKSCOPE_LOGS"),
            Some(logs) => command.env("TICKSCOPE_LOGS", directory.0.join(logs)),
        };
        let told = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(told.contains(remedy) && told.lines().count() == 1, "{told}");
    }
}

#[test]
fn c_the_advice_where_there_is_no_log_is_of_its_cause() {
    check_told(true);
}

#[test]
fn the_advice_where_there_is_no_log_is_of_its_cause() {
    check_told(false);
}

//! A stamp directory, a run, and programs and collectors as processes: the binary of the tests starts itself again.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tickscope_collect::{Collector, Report, Settings};
use tickscope_stamp::{Channel, Fields};
use tickscope_store::{ChannelState, Event, Paths, PointStamps, files_in, read_channels, read_events};
use tickscope_tick::{NodeName, Ordering};

pub const ROLE: &str = "TICKSCOPE_TEST_ROLE";
pub const RUN: &str = "TICKSCOPE_TEST_RUN";
pub const STAMPS: &str = "TICKSCOPE_TEST_STAMPS";

/// Waits until something has happened; a minute is more than a slow machine needs.
#[track_caller]
pub fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "what is waited for has not come within a minute");
        sleep(Duration::from_millis(1));
    }
}

/// A stamp directory on tmpfs and a run; gone at the end.
pub struct Site {
    pub root: PathBuf,
}

impl Site {
    pub fn new(name: &str) -> Self {
        let tmpfs = Path::new("/dev/shm");
        let base = if tmpfs.is_dir() { tmpfs.into() } else { std::env::temp_dir() };
        let root = base.join(format!("tickscope-kill-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("shm")).unwrap();
        Self { root }
    }

    pub fn settings(&self) -> Settings {
        let settings = Settings::new(self.root.join("shm"), self.root.join("run"), NodeName::new("host").unwrap());
        Settings { age: Duration::from_millis(20), least: 0, every: Duration::from_millis(50), ..settings }
    }

    pub fn start(&self, role: &str, stamps: u64) -> Child {
        self.command(role, stamps).spawn().unwrap()
    }

    pub fn collect(&self) -> Report {
        Collector::start(self.settings()).unwrap().once().unwrap()
    }

    /// Ids stored of a point, sorted.
    pub fn ids(&self, point: &str) -> Vec<i64> {
        let run = self.root.join("run");
        let point = PointStamps::open(&Paths::of(&run).stamps(&format!("host.{point}").parse().unwrap())).unwrap();
        assert!(point.refused().is_empty());
        let mut ids = point.read_all().unwrap().id;
        ids.sort_unstable();
        ids
    }

    /// Stamps stored and dropped, as the channels say, and the state of each.
    pub fn counts(&self) -> (i64, i64, Vec<ChannelState>) {
        let run = self.root.join("run");
        let channels = read_channels(&Paths::of(&run).channels("host")).unwrap();
        let sum = |get: fn(&tickscope_store::Channel) -> i64| channels.iter().map(get).sum();
        (sum(|c| c.stored), sum(|c| c.dropped), channels.iter().map(|c| c.state).collect())
    }
}

impl Site {
    pub fn directory(&self) -> PathBuf {
        self.root.join("shm")
    }

    /// The command of a role.
    pub fn command(&self, role: &str, stamps: u64) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &format!("site::{role}"), "--ignored", "--nocapture", "--test-threads=1"])
            .envs([(ROLE, role), ("TICKSCOPE_NODE", "host"), ("TICKSCOPE_POOL_BYTES", "33554432")])
            .env("TICKSCOPE_BLOCK_BYTES", "4096")
            .env("TICKSCOPE_DIR", self.directory())
            .env(RUN, &self.root)
            .env(STAMPS, stamps.to_string())
            .stdout(Stdio::piped());
        command
    }

    pub fn events(&self, what: &str) -> Vec<Event> {
        let files = files_in(&Paths::of(&self.root.join("run")).events(), "parquet").unwrap();
        let all = files.iter().flat_map(|file| read_events(file).unwrap());
        all.filter(|event| event.what == what).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Stamps ids from 1, a few each millisecond, until it is killed.
#[test]
#[ignore = "started by the tests, as a process of its own"]
fn slow_program() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let channel = Channel::open("send", Ordering::Plain, Fields::Slim).unwrap();
    let each: i64 = std::env::var(STAMPS).unwrap().parse().unwrap();
    let mut out = std::io::stdout();
    for first in (1..).step_by(each as usize) {
        (first..first + each).for_each(|id| channel.stamp(id));
        writeln!(out, "\nstamped {}", first + each - 1).unwrap();
        sleep(Duration::from_millis(1));
    }
}

/// Children that stamp five ids each into pools of their own, and live until the input ends.
#[test]
#[ignore = "started by the tests, as a process of its own"]
fn many_programs() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let programs: i64 = std::env::var(STAMPS).unwrap().parse().unwrap();
    for program in 0..programs {
        // SAFETY: the child stamps, waits and ends.
        if unsafe { libc::fork() } == 0 {
            let channel = Channel::open("send", Ordering::Plain, Fields::Slim).unwrap();
            (1..=5).for_each(|id| channel.stamp(program * 5 + id));
            let mut byte = [0u8];
            // SAFETY: a valid descriptor and buffer; then an end without any of the parent's.
            unsafe {
                libc::write(1, c"stamped\n".as_ptr().cast(), 8);
                libc::read(0, byte.as_mut_ptr().cast(), 1);
                libc::_exit(0);
            }
        }
    }
    // SAFETY: waits for all children.
    while unsafe { libc::wait(std::ptr::null_mut()) } > 0 {}
}

/// Takes once what lies there, with 1024 descriptors at most, and prints its counts.
#[test]
#[ignore = "started by the tests, as a process of its own"]
fn small_collector() {
    let Ok(root) = std::env::var(RUN) else { return };
    let site = std::mem::ManuallyDrop::new(Site { root: root.into() });
    let limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: a valid resource and limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let report = Collector::start(site.settings()).unwrap().once().unwrap();
    println!("\ncounts {} {} {}", report.stamps, report.held, report.pools_ended);
}

/// Stamps ids from 1, saying now and then how far it got; about a million a second.
#[test]
#[ignore = "started by the tests, as a process of its own"]
fn program() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let stamps: i64 = std::env::var(STAMPS).unwrap().parse::<u64>().unwrap().min(i64::MAX as u64) as i64;
    let channel = Channel::open("send", Ordering::Plain, Fields::Slim).unwrap();
    let mut out = std::io::stdout();
    for id in 1..=stamps {
        channel.stamp(id);
        if id % 1000 == 0 {
            writeln!(out, "\nstamped {id}").unwrap();
            sleep(Duration::from_micros(900));
        }
    }
}

#[test]
#[ignore = "started by the tests, as a process of its own"]
fn collector() {
    let Ok(root) = std::env::var(RUN) else { return };
    let site = std::mem::ManuallyDrop::new(Site { root: root.into() });
    Collector::start(site.settings()).unwrap().follow(&AtomicBool::new(false)).unwrap();
}

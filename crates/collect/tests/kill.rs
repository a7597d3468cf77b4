//! Programs and collectors that are really killed, as processes, at moments that nobody chose.
//!
//! The binary of these tests starts itself again as program or collector: see the two ignored tests at the end.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

use tickscope_collect::{Collector, Report, Settings};
use tickscope_stamp::{Channel, Fields};
use tickscope_store::{ChannelState, Paths, PointStamps, read_channels};
use tickscope_tick::{NodeName, Ordering};

const ROLE: &str = "TICKSCOPE_TEST_ROLE";
const RUN: &str = "TICKSCOPE_TEST_RUN";
const STAMPS: &str = "TICKSCOPE_TEST_STAMPS";

/// A stamp directory on tmpfs and a run; gone at the end.
struct Site {
    root: PathBuf,
}

impl Site {
    fn new(name: &str) -> Self {
        let tmpfs = Path::new("/dev/shm");
        let base = if tmpfs.is_dir() { tmpfs.into() } else { std::env::temp_dir() };
        let root = base.join(format!("tickscope-kill-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("shm")).unwrap();
        Self { root }
    }

    fn settings(&self) -> Settings {
        let settings = Settings::new(self.root.join("shm"), self.root.join("run"), NodeName::new("host").unwrap());
        Settings { age: Duration::from_millis(20), ..settings }
    }

    fn start(&self, role: &str, stamps: u64) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
            .envs([(ROLE, role), ("TICKSCOPE_NODE", "host"), ("TICKSCOPE_POOL_BYTES", "33554432")])
            .env("TICKSCOPE_BLOCK_BYTES", "4096")
            .env("TICKSCOPE_DIR", self.root.join("shm"))
            .env(RUN, &self.root)
            .env(STAMPS, stamps.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn collect(&self) -> Report {
        Collector::start(self.settings()).unwrap().once().unwrap()
    }

    /// Ids stored of a point, sorted.
    fn ids(&self, point: &str) -> Vec<i64> {
        let run = self.root.join("run");
        let point = PointStamps::open(&Paths::of(&run).stamps(&format!("host.{point}").parse().unwrap())).unwrap();
        assert!(point.refused().is_empty());
        let mut ids = point.read_all().unwrap().id;
        ids.sort_unstable();
        ids
    }

    /// Stamps stored and dropped, as the channels say, and the state of each.
    fn counts(&self) -> (i64, i64, Vec<ChannelState>) {
        let run = self.root.join("run");
        let channels = read_channels(&Paths::of(&run).channels("host")).unwrap();
        let sum = |get: fn(&tickscope_store::Channel) -> i64| channels.iter().map(get).sum();
        (sum(|c| c.stored), sum(|c| c.dropped), channels.iter().map(|c| c.state).collect())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Kills a program `time` after it said its first word. Returns the last id that it said it had stamped.
fn kill_after(mut program: Child, time: Duration) -> i64 {
    let lines = BufReader::new(program.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = lines.filter_map(|line| line.strip_prefix("stamped ")?.parse().ok());
    let first: i64 = said.next().expect("a program that stamps");
    sleep(time);
    program.kill().unwrap();
    program.wait().unwrap();
    said.last().unwrap_or(first)
}

fn consecutive(ids: &[i64]) -> bool {
    ids.iter().zip(1..).all(|(&id, expected)| id == expected)
}

#[test]
fn a_killed_program_loses_no_stamp_that_returned() {
    let site = Site::new("program");
    for time in [30, 60, 110] {
        let said = kill_after(site.start("program", u64::MAX), Duration::from_millis(time));
        site.collect();
        let ids = site.ids("send");
        assert!(consecutive(&ids) && ids.len() as i64 >= said, "{} stored, {said} said", ids.len());
        assert_eq!(site.counts().2, [ChannelState::Recovered]);
        std::fs::remove_dir_all(site.root.join("run")).unwrap();
    }
}

#[test]
fn a_collector_killed_again_and_again_stores_every_stamp_once() {
    let site = Site::new("collector");
    let mut program = site.start("program", 600_000);
    for round in 0..12 {
        let mut collector = site.start("collector", 0);
        sleep(Duration::from_millis(15 + 9 * round));
        collector.kill().unwrap();
        collector.wait().unwrap();
    }
    assert!(program.wait().unwrap().success());
    site.collect();
    let ids = site.ids("send");
    let (stored, dropped, states) = site.counts();
    assert_eq!((stored + dropped, ids.len() as i64), (600_000, stored));
    assert!(dropped > 0 || consecutive(&ids), "an id is missing or there twice");
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "an id is there twice");
    assert_eq!(states, [ChannelState::Closed]);
    assert_eq!(
        std::fs::read_dir(site.root.join("shm")).unwrap().count(),
        2,
        "the lock and the user's directory are left"
    );
}

#[test]
fn program_and_collector_killed_together_lose_nothing() {
    let site = Site::new("both");
    let (program, mut collector) = (site.start("program", u64::MAX), site.start("collector", 0));
    sleep(Duration::from_millis(120));
    collector.kill().unwrap();
    collector.wait().unwrap();
    let said = kill_after(program, Duration::from_millis(5));
    site.collect();
    let ids = site.ids("send");
    assert!(consecutive(&ids) && ids.len() as i64 >= said, "{} stored, {said} said", ids.len());
}

/// Stamps ids from 1, saying now and then how far it got; about a million a second.
#[test]
#[ignore = "started by the tests above, as a process of its own"]
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
#[ignore = "started by the tests above, as a process of its own"]
fn collector() {
    let Ok(root) = std::env::var(RUN) else { return };
    let site = std::mem::ManuallyDrop::new(Site { root: root.into() });
    Collector::start(site.settings()).unwrap().follow(&AtomicBool::new(false)).unwrap();
}

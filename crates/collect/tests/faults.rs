//! What a collector meets in the wild: programs that outlive it, a disk without room, more pools than descriptors.

mod site;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use site::{Site, until};
use tickscope_collect::{Collector, Settings, clear};
use tickscope_tick::NodeName;

/// A program as a process of a session of its own, and the last id that it said it had stamped.
struct Daemon {
    process: Child,
    said: Arc<AtomicI64>,
}

impl Daemon {
    fn start(site: &Site, each: u64) -> Self {
        let mut command = site.command("slow_program", each);
        // SAFETY: one system call without arguments.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                Ok(())
            })
        };
        let mut process = command.spawn().unwrap();
        let said = Arc::new(AtomicI64::new(0));
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        std::thread::spawn({
            let said = said.clone();
            move || {
                let ids = lines.filter_map(|line| line.strip_prefix("stamped ")?.parse().ok());
                ids.for_each(|id| said.store(id, Ordering::Relaxed));
            }
        });
        let daemon = Self { process, said };
        until(|| daemon.said() > 0);
        daemon
    }

    fn said(&self) -> i64 {
        self.said.load(Ordering::Relaxed)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_each_once(mut ids: Vec<i64>) -> bool {
    ids.sort_unstable();
    ids.iter().zip(1..).all(|(&id, expected)| id == expected)
}

fn few_or_all<T>(few: T, all: T) -> T {
    if std::env::var_os("TICKSCOPE_TESTS").is_some() { all } else { few }
}

#[test]
fn a_program_that_outlives_the_collection_loses_nothing_though_its_collectors_are_killed() {
    let site = Site::new("daemon");
    let daemon = Daemon::start(&site, 3);
    let kills = few_or_all(5, 60);
    for round in 0..kills {
        let mut collector = site.start("collector", 0);
        sleep(Duration::from_millis(150 + 37 * round % 200));
        collector.kill().unwrap();
        collector.wait().unwrap();
    }
    let said = daemon.said();
    let report = site.collect();
    let ids = site.ids("send");
    assert!(ids.len() as i64 >= said && is_each_once(ids.clone()), "{} stored, {said} said", ids.len());
    assert_eq!(report.held, 1);
    let cleared = clear(&site.directory()).unwrap();
    assert!(!cleared.gone && cleared.stays[0].why.starts_with("is held by process"), "{cleared:?}");
    let at_least = daemon.said();
    drop(daemon);
    assert_eq!(site.collect().held, 0);
    let ids = site.ids("send");
    println!("{kills} kills of the collector, {at_least} stamps said; {} stored, each once", ids.len());
    assert!(ids.len() as i64 >= at_least && is_each_once(ids.clone()));
    assert_eq!(site.counts().0, ids.len() as i64);
    assert!(clear(&site.directory()).unwrap().gone);
}

#[test]
fn stamps_of_a_slow_program_are_in_one_file_while_it_and_the_collector_go_on() {
    let site = Site::new("slow");
    let daemon = Daemon::start(&site, 1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let settings = Settings::new(site.directory(), site.root.join("run"), NodeName::new("host").unwrap());
        let settings = Settings { every: Duration::from_millis(100), ..settings };
        let collector = scope.spawn(|| Collector::start(settings).unwrap().follow(&stop).unwrap());
        let folder = site.root.join("run/stamps/node=host/point=send");
        for _ in 0..5 {
            let said = daemon.said();
            until(|| folder.is_dir() && site.ids("send").len() as i64 >= said);
        }
        assert_eq!(tickscope_store::files_in(&folder, "parquet").unwrap().len(), 1);
        stop.store(true, Ordering::Relaxed);
        collector.join().unwrap();
    });
    assert!(is_each_once(site.ids("send")));
}

/// A small tmpfs where the run lies.
struct Mount(PathBuf);

impl Mount {
    /// `None`: this user may not mount one.
    fn of(site: &Site, size: &str) -> Option<Self> {
        let place = site.root.join("run");
        std::fs::create_dir_all(&place).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&place).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(Self(place))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

impl Mount {
    /// Takes all its room for so long. What a collector gives up half written makes room again for a moment.
    fn fill_for(&self, time: Duration) {
        let ballast = self.0.join("ballast");
        let mut file = std::fs::File::create(&ballast).unwrap();
        let end = std::time::Instant::now() + time;
        while std::time::Instant::now() < end {
            while file.write_all(&[1; 4096]).is_ok() {}
            sleep(Duration::from_millis(1));
        }
        std::fs::remove_file(&ballast).unwrap();
    }
}

/// The disk takes something for a moment now and then, and the program fills its pool faster than that.
#[test]
fn of_a_disk_that_is_slower_than_the_stamps_each_is_stored_once_or_counted_as_lost() {
    let site = Site::new("slower");
    let Some(mount) = Mount::of(&site, "24m") else {
        println!("LEFT OUT: a small tmpfs needs a root that may mount it");
        return;
    };
    let each = 20_000;
    let daemon = Daemon::start(&site, each);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let collector = scope.spawn(|| Collector::start(site.settings()).unwrap().follow(&stop));
        until(|| mount.0.join("stamps/node=host/point=send").is_dir());
        for _ in 0..few_or_all(5, 20) {
            mount.fill_for(Duration::from_millis(700));
            sleep(Duration::from_millis(30));
        }
        stop.store(true, Ordering::Relaxed);
        collector.join().unwrap().unwrap();
    });
    let at_least = daemon.said();
    drop(daemon);
    site.collect();
    let (mut ids, (stored, dropped, _)) = (site.ids("send"), site.counts());
    println!("{at_least} stamps said: {stored} stored, {dropped} counted as lost");
    let last = *ids.last().unwrap();
    ids.dedup();
    assert_eq!(ids.len() as i64, stored, "none is stored twice");
    assert!(dropped > 0 && stored + dropped >= last.max(at_least), "{stored} and {dropped} of {last}");
    let lost: i64 = site.events("lost").iter().filter_map(|event| event.value).sum();
    assert_eq!(lost, dropped, "each loss is told where it fell");
}

#[test]
fn a_disk_that_is_full_for_a_while_costs_no_stamp_and_is_told_once() {
    let site = Site::new("full");
    let Some(mount) = Mount::of(&site, "24m") else {
        println!("LEFT OUT: a small tmpfs needs a root that may mount it");
        return;
    };
    let seconds = few_or_all(1.2, 3.0);
    let daemon = Daemon::start(&site, 50);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let collector = scope.spawn(|| Collector::start(site.settings()).unwrap().follow(&stop));
        until(|| mount.0.join("stamps/node=host/point=send").is_dir());
        mount.fill_for(Duration::from_secs_f64(seconds));
        until(|| !site.events("disk-full").is_empty());
        stop.store(true, Ordering::Relaxed);
        collector.join().unwrap().unwrap();
    });
    drop(daemon);
    site.collect();
    let (ids, told) = (site.ids("send"), site.events("disk-full"));
    println!("{} stamps, each once; the disk was full for {:?} s, as it is told", ids.len(), told[0].value);
    assert!(is_each_once(ids.clone()) && site.counts().1 == 0);
    assert_eq!((told.len(), site.counts().0), (1, ids.len() as i64));
}

#[test]
fn more_pools_than_descriptors_are_collected_while_their_programs_live_and_when_they_end() {
    let site = Site::new("many");
    let programs = 1200;
    let mut command = site.command("many_programs", programs);
    let mut parent = command.env("TICKSCOPE_POOL_BYTES", "65536").stdin(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    let programs = programs as usize;
    assert_eq!(lines.filter(|line| line.contains("stamped")).take(programs).count(), programs);
    let counts = || {
        let mut out = String::new();
        let mut collector = site.start("small_collector", 0);
        collector.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert!(collector.wait().unwrap().success(), "{out}");
        out.lines().find_map(|line| line.strip_prefix("counts ").map(String::from)).unwrap()
    };
    assert_eq!(counts(), "6000 1200 0");
    drop(parent.stdin.take());
    parent.wait().unwrap();
    assert_eq!(counts(), "0 0 1200");
    assert!(is_each_once(site.ids("send")) && site.counts().0 == 6000);
    assert!(clear(&site.directory()).unwrap().gone);
}

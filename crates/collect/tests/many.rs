//! Many threads under a collector, and users that are strangers to each other: what is taken, from whom, and under
//! which name.

#[path = "../../stamp/tests/c_program/mod.rs"]
mod c_program;

use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use c_program::{Running, StampDirectory, compile_with};
use tickscope_collect::{Collector, Report, Settings};
use tickscope_stamp::directory::{self, PoolKey};
use tickscope_store::{ChannelState, Event, Paths, PointStamps, StampColumns, files_in, read_channels, read_events};
use tickscope_tick::NodeName;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile_with("cc", "many", &[], "collected-many"))
}

/// A run, and the directory that its programs stamp in.
struct Site {
    outer: StampDirectory,
    key: Option<PoolKey>,
}

impl Site {
    fn new(name: &str) -> Self {
        let outer = StampDirectory::new(name);
        std::fs::set_permissions(&outer.0, std::fs::Permissions::from_mode(0o711)).unwrap();
        let key = directory::make(&outer.0.join("shm")).unwrap();
        Self { outer, key }
    }

    fn stamps_place(&self) -> PathBuf {
        self.outer.0.join("shm")
    }

    fn start(&self) -> Collector {
        let node = NodeName::new("host").unwrap();
        let settings = Settings::new(self.stamps_place(), self.outer.0.join("run"), node);
        Collector::start(Settings { age: Duration::from_millis(50), ..settings }).unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        self.outer.measure(command.args(words)).env("TICKSCOPE_DIR", self.stamps_place());
        command.env("TICKSCOPE_POOL_BYTES", "4194304").envs(self.key.map(|key| (PoolKey::VARIABLE, key.to_string())));
        command
    }

    fn stamps(&self, point: &str) -> StampColumns {
        let folder = Paths::of(&self.outer.0.join("run")).stamps(&format!("host.{point}").parse().unwrap());
        PointStamps::open(&folder).unwrap().read_all().unwrap()
    }

    fn ids(&self, point: &str) -> Vec<i64> {
        let mut ids = self.stamps(point).id;
        ids.sort_unstable();
        ids
    }

    fn events(&self, what: &str) -> Vec<Event> {
        let files = files_in(&Paths::of(&self.outer.0.join("run")).events(), "parquet").unwrap();
        files.iter().flat_map(|file| read_events(file).unwrap()).filter(|event| event.what == what).collect()
    }

    /// Runs the program under a collector that follows, and lets that end after it.
    fn follow(&self, command: &mut Command) -> Report {
        let (stop, mut collector) = (AtomicBool::new(false), self.start());
        std::thread::scope(|scope| {
            let following = scope.spawn(|| collector.follow(&stop).unwrap());
            let ended = command.output();
            stop.store(true, Ordering::Relaxed);
            assert!(ended.unwrap().status.success());
            following.join().unwrap()
        })
    }
}

fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("LEFT OUT: several users; only root can become them");
    }
    root
}

#[test]
fn c_short_threads_under_a_collector_are_stored_or_counted_as_lost_to_the_stamp_each_under_its_thread() {
    let threads = if std::env::var_os("TICKSCOPE_TESTS").is_some_and(|tests| tests == "all") { 70_000 } else { 4_000 };
    let site = Site::new("follow-short");
    let report = site.follow(&mut site.command(&["short", &threads.to_string(), "8"]));
    let stamps = site.stamps("work");
    assert_eq!((stamps.id.len() as u64 + report.lost, report.left_alone), (threads, 0));
    let channels = read_channels(&Paths::of(&site.outer.0.join("run")).channels("host")).unwrap();
    assert!(channels.iter().all(|channel| channel.state == ChannelState::Closed));
    let (stored, dropped) = channels.iter().fold((0, 0), |(s, d), channel| (s + channel.stored, d + channel.dropped));
    assert_eq!((stored as usize, dropped as u64), (stamps.id.len(), report.lost));
    let thread_of: HashMap<i32, i32> = channels.iter().map(|channel| (channel.channel, channel.thread)).collect();
    for (id, channel) in stamps.id.iter().zip(&stamps.channel) {
        assert_eq!(i64::from(thread_of[channel]), *id, "a stamp lies under another thread");
    }
}

#[test]
fn c_stamps_without_a_channel_reach_the_run_as_lost_under_their_points() {
    let site = Site::new("lost");
    let mut command = site.command(&["crowd", "64", "10", "100"]);
    assert!(command.env("TICKSCOPE_POOL_BYTES", "65536").output().unwrap().status.success());
    let report = site.start().once().unwrap();
    assert_eq!(report.stamps + report.lost, 64 * 10 * 100);
    let lost = site.events("lost");
    assert_eq!(lost.iter().filter_map(|event| event.value).sum::<i64>() as u64, report.lost);
    assert!(lost.iter().all(|event| event.channel.is_some() && event.tick <= event.until));
    assert!(site.events("channels-refused").is_empty() && site.events("stamps-without-channel").is_empty());
}

#[test]
fn c_a_program_that_closed_its_descriptors_lives_on() {
    let site = Site::new("close");
    let mut command = site.command(&["close"]);
    let mut program = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    program.0.stdout.take().unwrap().read_exact(&mut [0; 7]).unwrap();
    let report = site.start().once().unwrap();
    assert_eq!((report.stamps, report.held, report.pools_ended), (3, 1, 0));
    drop(program);
    let report = site.start().once().unwrap();
    assert_eq!((report.stamps, report.held, report.pools_ended), (0, 0, 1));
}

#[test]
fn c_a_worker_that_gives_up_roots_rights_stamps_on_and_is_collected() {
    if !is_root() {
        return;
    }
    let site = Site::new("drop");
    assert!(site.command(&["drop", "33"]).output().unwrap().status.success());
    let report = site.start().once().unwrap();
    assert_eq!((report.left_alone, report.lost), (0, 0), "{:?}", site.events("pool-left-alone"));
    assert_eq!(site.ids("early"), [1, 2, 3, 11, 12, 13, 31, 32, 33]);
    assert_eq!(site.ids("late"), [21, 22, 23]);
    assert_eq!(site.stamps_place().join("uid-33").metadata().unwrap().uid(), 33);
}

#[test]
fn c_another_user_can_neither_read_nor_inject_nor_block_nor_remove() {
    if !is_root() {
        return;
    }
    let site = Site::new("hostile");
    let mut holder = site.command(&["drop", "33"]);
    assert!(site.command(&["short", "1", "1"]).output().unwrap().status.success());
    let collector = site.start();
    let listing = directory::list(&site.stamps_place(), &directory::Trust::of(&site.stamps_place()).unwrap()).unwrap();
    let pool = listing.pools[0].clone();
    let mut attack = site.command(&["hostile", site.stamps_place().to_str().unwrap(), pool.to_str().unwrap()]);
    let attack = attack.env_remove(PoolKey::VARIABLE).output().unwrap();
    assert!(attack.status.success());
    assert_eq!(String::from_utf8(attack.stdout).unwrap(), "", "what succeeded");
    drop(collector);
    // It has taken the name uid-33, and left a pool, a link and a note of its own.
    assert!(holder.output().unwrap().status.success());
    let report = site.start().once().unwrap();
    assert_eq!(site.ids("late"), [21, 22, 23], "nothing of the stranger's, and all of the worker's");
    assert_eq!(site.ids("work").len(), 1);
    assert_eq!(report.lost, 0);
    let told: Vec<String> = site.events("pool-left-alone").into_iter().map(|event| event.text).collect();
    for expected in ["found one of user 65534", "expected a directory of user 33", "the note of a program of this user"]
    {
        assert!(told.iter().any(|text| text.contains(expected)), "{expected}: {told:?}");
    }
    assert!(site.events("pool-refused").is_empty());
}

#[test]
fn c_a_lock_file_that_a_stranger_made_first_does_not_keep_the_collector_out() {
    if !is_root() {
        return;
    }
    let site = Site::new("lock");
    let lock = site.stamps_place().join("collector.lock");
    std::os::unix::fs::symlink("/dev/shm/tickscope-nowhere", &lock).unwrap();
    drop(site.start());
    assert!(!Path::new("/dev/shm/tickscope-nowhere").exists(), "no link is followed");
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, "").unwrap();
    std::os::unix::fs::chown(&lock, Some(65534), None).unwrap();
    drop(site.start());
    let made = lock.metadata().unwrap();
    assert_eq!((made.uid(), made.mode() & 0o777), (0, 0o600));
}

#[test]
fn c_a_pool_that_others_may_write_is_left_alone() {
    let site = Site::new("writable");
    assert!(site.command(&["short", "1", "1"]).output().unwrap().status.success());
    let listing = directory::list(&site.stamps_place(), &directory::Trust::of(&site.stamps_place()).unwrap()).unwrap();
    std::fs::set_permissions(&listing.pools[0], std::fs::Permissions::from_mode(0o622)).unwrap();
    assert_eq!(site.start().once().unwrap().left_alone, 1);
    assert!(site.events("pool-left-alone")[0].text.contains("only its owner may write"));
}

/// Makes something a stranger's, without following a link.
fn give_to_stranger(path: &Path) {
    std::os::unix::fs::lchown(path, Some(65534), Some(65534)).unwrap();
}

#[test]
fn c_a_strangers_names_do_not_crowd_out_a_workers_directories() {
    if !is_root() {
        return;
    }
    let site = Site::new("crowded");
    // Before and behind the worker's, whichever end a file system lists first.
    let crowd = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let name = site.stamps_place().join(format!("uid-33-{number:016x}"));
            std::fs::create_dir(&name).unwrap();
            give_to_stranger(&name);
        }
    };
    crowd(0..100);
    assert!(site.command(&["drop", "33"]).output().unwrap().status.success());
    let random = site.stamps_place().join("uid-33-00000000000fffff");
    std::fs::rename(site.stamps_place().join("uid-33"), random).unwrap();
    crowd(100..1300);
    let listing = directory::list(&site.stamps_place(), &directory::Trust::of(&site.stamps_place()).unwrap()).unwrap();
    assert_eq!(listing.closed.len(), 1024, "what is told of strangers is bounded");
    site.start().once().unwrap();
    assert_eq!(site.ids("late"), [21, 22, 23]);
    let cleared = tickscope_collect::clear(&site.stamps_place()).unwrap();
    assert!(cleared.gone && cleared.foreign.removed == 1300 && cleared.foreign.first.len() == 8, "{cleared:?}");
}

#[test]
fn c_a_strangers_files_are_removed_at_the_clearing_and_ones_own_stay() {
    if !is_root() {
        return;
    }
    let site = Site::new("foreign");
    assert!(site.command(&["drop", "33"]).output().unwrap().status.success());
    let (place, target) = (site.stamps_place(), site.outer.0.join("target"));
    std::fs::write(&target, "kept").unwrap();
    for name in ["pool-0123.ticks", ".pool-1", "collector.lockx", "refused-1-2"] {
        std::fs::write(place.join(name), "foreign").unwrap();
        give_to_stranger(&place.join(name));
    }
    std::os::unix::fs::symlink(&target, place.join("pool-4.ticks")).unwrap();
    give_to_stranger(&place.join("pool-4.ticks"));
    assert!(Command::new("mkfifo").arg(place.join("pool-5.ticks")).status().unwrap().success());
    give_to_stranger(&place.join("pool-5.ticks"));
    for name in ["empty", "full", "full/within", "uid-65534"] {
        std::fs::create_dir(place.join(name)).unwrap();
        give_to_stranger(&place.join(name));
    }
    std::fs::write(place.join("notes"), "one's own").unwrap();
    let clear = || tickscope_collect::clear(&place).unwrap();
    let before = clear();
    assert!(before.stays.iter().any(|stays| stays.stamps), "the worker's pool is not removed unread: {before:?}");
    assert_eq!((before.foreign.removed, before.foreign.left), (7, 1), "{before:?}");
    assert_eq!(site.start().once().unwrap().left_alone, 0);
    assert_eq!(site.ids("late"), [21, 22, 23]);
    let after = clear();
    let stays: Vec<_> = after.stays.iter().map(|stays| stays.path.clone()).collect();
    assert_eq!((stays, after.foreign.left), (vec![place.join("notes")], 1), "{after:?}");
    std::fs::remove_file(place.join("notes")).unwrap();
    let left = clear();
    assert!(left.stays.is_empty() && !left.gone && place.join("full/within").exists(), "{left:?}");
    assert_eq!(std::fs::read(&target).unwrap(), b"kept");
    std::fs::remove_dir(place.join("full/within")).unwrap();
    assert!(clear().gone);
}

#[test]
fn c_pools_of_another_user_without_a_key_are_counted_and_told_with_a_remedy() {
    if !is_root() {
        return;
    }
    let mut site = Site::new("keyless");
    site.key = None;
    std::fs::remove_file(site.stamps_place().join("key")).unwrap();
    let mut command = site.command(&["drop", "33"]);
    assert!(command.env_remove(PoolKey::VARIABLE).output().unwrap().status.success());
    assert!(site.start().once().unwrap().keyless > 0);
    let told = &site.events("pool-left-alone")[0].text;
    assert!(told.contains("expected pools of user 0, found those of user 33"), "{told}");
    assert!(told.contains(PoolKey::VARIABLE), "{told}");
    let cleared = tickscope_collect::clear(&site.stamps_place()).unwrap();
    assert!(!cleared.gone && cleared.stays.iter().any(|stays| stays.stamps), "without a key nobody is a stranger");
}

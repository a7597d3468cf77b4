//! What is left of programs that are killed at moments that nobody chose, by each policy's own definition, in C and in
//! Rust, with a collector beside them and without.
//!
//! The program says in memory that outlives it how many stamps have returned: what is stored is what the policy keeps
//! of those, or of one more.

#[path = "../../stamp/tests/c_program/mod.rs"]
mod c_program;
mod site;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use c_program::compile_with;
use site::{ROLE, Site, until};
use tickscope_collect::{Collector, Settings};
use tickscope_stamp::{Channel, Fields};
use tickscope_store::{Channel as ChannelRow, Paths, files_in, read_channels, read_counts};
use tickscope_tick::Ordering as ReadOrdering;

const WITNESS: &str = "TICKSCOPE_TEST_WITNESS";
const MARKER_AT: &str = "TICKSCOPE_TEST_MARKER_AT";

/// A policy, how a run begins, and what it must leave of `returned` stamps.
struct Case {
    policy: &'static str,
    when_full: &'static str,
    /// The stamp that carries the marker.
    marker_at: i64,
    /// Checks what is left.
    check: fn(&Left),
}

/// What a killed program left.
struct Left {
    /// Stamps that had returned, at least; one more may have been made.
    returned: i64,
    ids: Vec<i64>,
    channel: ChannelRow,
    counts: Vec<(i64, i64)>,
    log: Vec<u8>,
    /// The disk took nothing more when the program was killed.
    was_full: bool,
    /// A collector was there when it was.
    beside: bool,
}

impl Left {
    /// The number of stamps that were made, by the last id that is stored where each is.
    fn expect_ids(&self, keeps: impl Fn(i64) -> bool) {
        let of = |made: i64| (1..=made).filter(|&id| keeps(id)).collect::<Vec<_>>();
        assert!(
            self.ids == of(self.returned) || self.ids == of(self.returned + 1),
            "{} of {}",
            self.text(),
            self.returned
        );
    }

    fn text(&self) -> String {
        format!("{} ids, {:?} to {:?}", self.ids.len(), self.ids.first(), self.ids.last())
    }

    fn is_made(&self, stamps: i64) -> bool {
        (self.returned..=self.returned + 1).contains(&stamps)
    }

    /// Whether the last stamp is there, as far as it has to be: while a collector holds all other blocks for a full
    /// disk, a program goes on in one alone, and may be killed when that is just overwritten.
    fn has_newest(&self) -> bool {
        self.was_full || self.ids.last().is_some_and(|&last| self.is_made(last))
    }
}

impl Left {
    /// Whether the program was killed when it had just emptied the one block that a dump of the whole pool left it,
    /// before it looked for free ones again: every stamp so far filled a block then, to the last.
    fn had_emptied_its_one_block(&self) -> bool {
        const SLOTS: i64 = 244;
        const OTHERS: usize = 63;
        let filled = (self.returned..=self.returned + 1).any(|made| made % SLOTS == 0);
        self.beside && self.ids.len() >= OTHERS * SLOTS as usize && filled
    }
}

const CASES: [Case; 14] = [
    Case { policy: "null", when_full: "wait", marker_at: 0, check: |left| assert!(left.ids.is_empty()) },
    Case { policy: "buffered", when_full: "wait", marker_at: 0, check: |left| left.expect_ids(|_| true) },
    Case { policy: "return-trip", when_full: "wait", marker_at: 0, check: |left| left.expect_ids(|_| true) },
    Case {
        policy: "all",
        when_full: "wait",
        marker_at: 0,
        check: |left| {
            left.expect_ids(|_| true);
            let logged: Vec<i64> =
                left.log.chunks(16).map(|r| i64::from_le_bytes(r[..8].try_into().unwrap())).collect();
            let (made, all) = (logged.len() as i64, left.ids.len() as i64);
            assert!(left.log.len() % 16 == 0 && logged == (1..=made).collect::<Vec<_>>());
            assert!(left.is_made(made) && made <= all, "{made} in the log, {all} stored, {} returned", left.returned);
        },
    },
    Case {
        policy: "every 7",
        when_full: "wait",
        marker_at: 0,
        check: |left| {
            left.expect_ids(|id| id % 7 == 0);
            assert!(left.is_made(left.channel.seen.unwrap_or(0)), "{:?} of {}", left.channel.seen, left.returned);
        },
    },
    Case { policy: "3 of 16", when_full: "wait", marker_at: 0, check: |left| left.expect_ids(|id| id % 16 < 3) },
    Case { policy: "own", when_full: "wait", marker_at: 0, check: |left| left.expect_ids(|id| id % 3 == 0) },
    Case {
        policy: "count 1ms",
        when_full: "wait",
        marker_at: 0,
        check: |left| {
            let total = left.channel.counted.unwrap_or(0);
            assert!(left.ids.is_empty() && left.is_made(total), "{total} of {}", left.returned);
            assert_eq!(left.counts.iter().map(|&(_, count)| count).sum::<i64>(), total);
            assert_eq!(left.counts.last().map_or(0, |&(last, _)| last), total);
        },
    },
    Case {
        policy: "first-last",
        when_full: "wait",
        marker_at: 0,
        check: |left| {
            let last = *left.ids.last().unwrap();
            assert!(left.ids[0] == 1 && left.is_made(last) && left.ids.len() == if last > 1 { 2 } else { 1 });
        },
    },
    Case {
        policy: "first-last -1",
        when_full: "wait",
        marker_at: 50,
        check: |left| match left.ids[..] {
            [-1, 1] => assert!(left.returned + 1 >= 50),
            [1, last] => assert!(left.is_made(last) && left.returned < 50, "{last} of {}", left.returned),
            _ => assert!(left.ids == [1] && left.returned < 2, "{}", left.text()),
        },
    },
    Case { policy: "keep 1h", when_full: "drop", marker_at: 0, check: expect_newest },
    Case {
        policy: "keep 30m",
        when_full: "drop",
        marker_at: 0,
        check: |left| {
            assert!(left.ids.windows(2).all(|pair| pair[0] < pair[1]), "{}", left.text());
            let told = (left.returned, &left.channel);
            let has_newest = left.has_newest() || left.had_emptied_its_one_block();
            assert!(left.channel.dropped > 0 || has_newest, "{} of {told:?}", left.text());
        },
    },
    Case {
        policy: "keep 2ms",
        when_full: "drop",
        marker_at: 0,
        check: |left| {
            // A program that got no processor for so long before it was killed has nothing in its window.
            if !left.ids.is_empty() {
                expect_newest(left);
            }
        },
    },
    Case {
        policy: "buffered",
        when_full: "overwrite",
        marker_at: 0,
        check: |left| {
            // Where a collector has all full blocks at the moment, there is none to overwrite.
            let (overwritten, dropped) = (left.channel.overwritten.unwrap_or(0), left.channel.dropped);
            let made = left.ids.len() as i64 + overwritten + dropped;
            assert!(left.is_made(made), "{} + {overwritten} + {dropped} of {}", left.text(), left.returned);
            assert!(left.ids.windows(2).all(|pair| pair[0] < pair[1]) && left.has_newest(), "{}", left.text());
        },
    },
];

/// A window's newest stamps are there without a hole, to the last.
fn expect_newest(left: &Left) {
    let last = *left.ids.last().unwrap();
    assert!(left.ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a hole in {}", left.text());
    assert!(left.is_made(last), "{last} of {}", left.returned);
}

/// Kills a round: each case so often in each language.
fn rounds() -> u32 {
    if std::env::var_os("TICKSCOPE_TESTS").is_some_and(|tests| tests == "all") { 40 } else { 2 }
}

#[test]
fn c_a_killed_program_leaves_what_its_policy_keeps() {
    kill_over_every_policy("c", &in_c, false);
}

#[test]
fn a_killed_program_leaves_what_its_policy_keeps() {
    kill_over_every_policy("rust", &in_rust, false);
}

#[test]
fn c_a_killed_program_leaves_what_its_policy_keeps_though_the_disk_is_full_meanwhile() {
    kill_over_every_policy("c-full", &in_c, true);
    kill_over_every_policy("rust-full", &in_rust, true);
}

fn in_c(site: &Site, case: &Case) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(PROGRAM.get_or_init(|| compile_with("cc", "witness", &[], "collected-witness")));
    command.arg(site.root.join("witness")).arg(case.marker_at.to_string());
    command
}

fn in_rust(_: &Site, _: &Case) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "witness", "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// A disk of the run's own, as small as that, until it grows.
struct Disk(PathBuf);

impl Disk {
    const SMALL: &str = "size=64k";

    /// `None`: only root can mount one.
    fn mount(place: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&place).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", Self::SMALL, "tmpfs"]).arg(&place).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(place))
    }

    /// Takes all room but a little.
    fn fill(&self) {
        let room = (0..64).take_while(|at| std::fs::write(self.0.join(format!("filler-{at}")), [1; 4096]).is_ok());
        let taken = room.count();
        let _ = std::fs::remove_file(self.0.join(format!("filler-{taken}"))); // the one that found none
        let _ = std::fs::remove_file(self.0.join("filler-0"));
    }

    /// Whether no table has room.
    fn is_full(&self) -> bool {
        std::fs::write(self.0.join("probe"), [1; 12_000]).is_err()
    }

    fn grow(&self) {
        assert!(Command::new("mount").args(["-o", "remount,size=1g"]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn kill_over_every_policy(language: &str, program: &dyn Fn(&Site, &Case) -> Command, fills: bool) {
    let (mut random, mut full) = (7u64, 0);
    for round in 0..if fills { rounds() / 2 } else { rounds() } {
        for (at, case) in CASES.iter().enumerate() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let site = Site::new(&format!("policy-{language}-{round}-{at}"));
            let after = Duration::from_micros((random >> 33) % 12_000);
            let beside = fills || (round + at as u32).is_multiple_of(2);
            let disk = if fills { Disk::mount(site.root.join("run")) } else { None };
            if fills && disk.is_none() {
                return eprintln!("LEFT OUT: a disk that is full; only root can mount a small one");
            }
            let left = kill(&site, case, program(&site, case), (after, beside), disk.as_ref());
            eprintln!(
                "{language}, {}, after {after:?}, beside a collector: {beside}, {} returned",
                case.policy, left.returned
            );
            (case.check)(&left);
            full += u32::from(left.was_full);
        }
    }
    assert!(!fills || full > 0, "no disk was full");
}

/// Runs the program, beside a collector or not, kills it, and collects.
fn kill(
    site: &Site,
    case: &Case,
    mut command: Command,
    (after, beside): (Duration, bool),
    disk: Option<&Disk>,
) -> Left {
    let witness = File::create_new(site.root.join("witness")).unwrap();
    witness.write_all_at(&[0; 8], 0).unwrap();
    let logs = site.root.join("logs");
    std::fs::create_dir(&logs).unwrap();
    // Room for all, where stamps may not be lost; where they may, so little that they are.
    let pool_bytes = if case.when_full == "wait" { 32 << 20 } else { 256 << 10 };
    command
        .envs([("TICKSCOPE_NODE", "host"), ("TICKSCOPE_BLOCK_BYTES", "4096")])
        .env("TICKSCOPE_POOL_BYTES", pool_bytes.to_string())
        .env("TICKSCOPE_POLICY", format!("send={}", case.policy))
        .env("TICKSCOPE_WHEN_FULL", case.when_full)
        .env("TICKSCOPE_DIR", site.directory())
        .env("TICKSCOPE_LOGS", &logs)
        .env(ROLE, "witness")
        .env(WITNESS, site.root.join("witness"))
        .env(MARKER_AT, case.marker_at.to_string());
    let collector = beside.then(|| Collector::start(site.settings()).unwrap());
    if let Some(disk) = disk {
        disk.fill();
    }
    let read = || {
        let mut bytes = [0; 8];
        File::open(site.root.join("witness")).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        i64::from_le_bytes(bytes)
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let following = collector.map(|mut collector| {
            let stop = &stop;
            // Somebody who asks for a window again and again.
            let dumps = case.policy == "keep 30m";
            let serve = move |collector: &mut Collector| {
                if dumps {
                    let _ = collector.dump("*", "a test wants it"); // the disk may be full
                }
            };
            scope.spawn(move || collector.follow_and_serve(stop, |_| {}, serve).map(|_| ()))
        });
        let mut child: Child = command.spawn().unwrap();
        until(|| read() > 0);
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
        stop.store(true, Ordering::Relaxed);
        if let Some(following) = following {
            let followed = following.join().unwrap();
            assert!(disk.is_some() || followed.is_ok(), "{followed:?}");
        }
    });
    let was_full = disk.is_some_and(Disk::is_full);
    if let Some(disk) = disk {
        disk.grow();
        let fillers = (0..64).map(|at| format!("filler-{at}"));
        fillers.chain(["probe".into()]).for_each(|name| drop(std::fs::remove_file(disk.0.join(name))));
    }
    Left { was_full, beside, ..collect(site, read()) }
}

fn collect(site: &Site, returned: i64) -> Left {
    let settings = Settings { every: Duration::from_millis(10), ..site.settings() };
    Collector::start(settings).unwrap().once().unwrap();
    let run = site.root.join("run");
    let channels = read_channels(&Paths::of(&run).channels("host")).unwrap();
    let [channel] = &channels[..] else { panic!("one channel, found {}", channels.len()) };
    let mut counts = Vec::new();
    for file in files_in(&Paths::of(&run).counts("host"), "parquet").unwrap_or_default() {
        counts.extend(read_counts(&file).unwrap().rows().map(|row| {
            assert!(row.before <= row.after && row.count >= 0 && row.periods >= 0);
            (row.total, row.count)
        }));
    }
    let stamps = Paths::of(&run).stamps(&"host.send".parse().unwrap());
    let ids = if stamps.exists() { site.ids("send") } else { Vec::new() };
    assert_eq!(channel.stored, ids.len() as i64);
    let mut logs = std::fs::read_dir(site.root.join("logs")).unwrap();
    let log = logs.next().map(|log| std::fs::read(log.unwrap().path()).unwrap()).unwrap_or_default();
    Left { returned, ids, channel: channel.clone(), counts, log, was_full: false, beside: false }
}

/// Stamps ids from 1 until it is killed, and says after each how far it got: `witness.c` in Rust.
#[test]
#[ignore = "started by the tests, as a process of its own"]
fn witness() {
    let Some(place) = std::env::var_os(WITNESS) else { return };
    let marker_at: i64 = std::env::var(MARKER_AT).unwrap().parse().unwrap();
    let file = File::options().read(true).write(true).open(place).unwrap();
    // SAFETY: a new shared mapping of a file of eight bytes; it is never unmapped.
    let returned = unsafe {
        use std::os::fd::AsRawFd;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let map = libc::mmap(std::ptr::null_mut(), 8, both, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert!(map != libc::MAP_FAILED);
        &*map.cast::<AtomicI64>()
    };
    let channel = Channel::open("send", ReadOrdering::Plain, Fields::Slim).unwrap();
    channel.choose(|id, _| id % 3 == 0);
    for id in 1.. {
        channel.stamp(if id == marker_at { -1 } else { id });
        returned.store(id, Ordering::Release);
    }
}

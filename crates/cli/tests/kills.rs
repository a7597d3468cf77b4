//! Programs and collectors killed by SIGKILL as processes: every stamp that returned is stored once, at most one more.
//!
//! The programs are in C; the collector is `tickscope collect`. Some collectors are killed at moments that nobody
//! chose, others are stopped by a debugger just after a segment got its name, so that the blocks it names are not yet
//! free.

mod site;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use site::c_program::{ReturnedCounts, Running, StampDirectory, compile_with};
use site::{Ended, Site, few_or_all, tickscope};
use tickscope_store::{Channel, EventKind, Paths, PointStamps, StampColumns, files_in, read_channels, read_events};

/// A stamp directory, a run that it is collected into, and the program that stamps.
struct Scene {
    site: Site,
    directory: StampDirectory,
    stamper: PathBuf,
}

impl Scene {
    fn new(name: &str) -> Self {
        let stamper = compile_with("cc", "stamper", &[], "stamper");
        Self { site: Site::new(name), directory: StampDirectory::new(&format!("e2e-{name}")), stamper }
    }

    fn victim(&self, returned: &ReturnedCounts, words: &[&str], pool_bytes: u32) -> Running {
        let mut command = Command::new(&self.stamper);
        self.directory.measure(command.arg(&returned.0).args(words));
        command.envs([("TICKSCOPE_WHEN_FULL", "wait"), ("TICKSCOPE_BLOCK_BYTES", "4096")]);
        Running(command.env("TICKSCOPE_POOL_BYTES", pool_bytes.to_string()).spawn().unwrap())
    }

    fn collect(&self) -> Command {
        let mut command = tickscope(&["collect", "--node", "test", "--json", "--run"]);
        command.arg(self.site.run_directory()).arg(&self.directory.0);
        command
    }

    fn collect_once(&self) {
        assert_eq!(Ended::of(&mut self.collect()).code, Some(0));
    }

    /// A collector that follows, once it has taken the directory.
    fn follower(&self) -> Running {
        let mut child = self.collect().arg("--follow").stdout(Stdio::piped()).spawn().unwrap();
        ready(&mut child);
        Running(child)
    }

    fn channels(&self) -> Vec<Channel> {
        read_channels(&Paths::of(&self.site.run_directory()).channels("test")).unwrap()
    }

    fn folder(&self) -> PathBuf {
        Paths::of(&self.site.run_directory()).stamps(&"test.work".parse().unwrap())
    }

    /// Ids by channel, in the order stored.
    fn ids(&self) -> BTreeMap<i32, Vec<i64>> {
        let point = PointStamps::open(&self.folder()).unwrap();
        assert!(point.refused().is_empty(), "{:?}", point.refused());
        let mut ids: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
        let mut last: BTreeMap<i32, i64> = BTreeMap::new();
        point
            .read(i64::MIN..=i64::MAX, |part| {
                for ((&id, &tick), &channel) in part.id.iter().zip(&part.tick).zip(&part.channel) {
                    let before = last.insert(channel, tick).unwrap_or(0);
                    let stored = ids.entry(channel).or_default();
                    let previous = stored.last().copied();
                    assert!(
                        before <= tick,
                        "channel {channel}, id {id} after {previous:?}: its tick is {tick} after {before}, and it is \
                         {}",
                        if stored.contains(&id) { "stored twice" } else { "out of order or torn" }
                    );
                    stored.push(id);
                }
            })
            .unwrap();
        ids
    }

    /// How many stamps of the only channel are stored, each later than the one before it, and of a larger id.
    fn kept_in_order(&self) -> u64 {
        let point = PointStamps::open(&self.folder()).unwrap();
        assert!(point.refused().is_empty(), "{:?}", point.refused());
        let (mut kept, mut last) = (0, (-1, 0));
        let check = |part: StampColumns| {
            for now in part.id.into_iter().zip(part.tick) {
                let told = "twice, out of order or torn";
                assert!(last.0 < now.0 && last.1 <= now.1, "id and tick {now:?} after {last:?}: {told}");
                (kept, last) = (kept + 1, now);
            }
        };
        point.read(i64::MIN..=i64::MAX, check).unwrap();
        kept
    }

    /// How many stamps events say were dropped.
    fn lost(&self) -> u64 {
        let files = files_in(&Paths::of(&self.site.run_directory()).events(), "parquet").unwrap();
        let events = files.iter().flat_map(|file| read_events(file).unwrap());
        events.filter(|event| event.what == EventKind::Lost).filter_map(|event| event.value).sum::<i64>() as u64
    }

    /// Blocks that a segment names and that are not yet free: what a kill in the middle of a hand-over leaves.
    fn named_and_not_free(&self) -> usize {
        let mut named = HashSet::new();
        for segment in PointStamps::open(&self.folder()).unwrap().segments() {
            for range in segment.origin().unwrap().blocks {
                named.extend((range.first..=range.last).map(|number| (range.pool, range.serial, number)));
            }
        }
        let pools = self.directory.pools();
        let mut found = 0;
        for pool in &pools {
            for block in (0..pool.block_count()).map(|index| pool.block(index)) {
                let header = block.header();
                let zeroing = header.state.load(std::sync::atomic::Ordering::Acquire) == 3;
                let is_named = block.is_described() && named.contains(&(header.instance, header.serial, header.number));
                found += usize::from(zeroing || is_named);
            }
        }
        found
    }
}

fn ready(collector: &mut Child) {
    let mut line = String::new();
    BufReader::new(collector.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
}

/// A number that nobody chose, below `below`.
fn any(below: u64) -> u64 {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    u64::from_ne_bytes(bytes) % below
}

/// What is stored of a channel, against how many stamps had returned: as many, or the one more that was under way.
fn is_exact(ids: &[i64], channel: &Channel, counted: u64) {
    let (kept, dropped) = (ids.len() as u64, channel.dropped as u64);
    assert!(
        (counted..=counted + 1).contains(&(kept + dropped)),
        "{kept} kept and {dropped} dropped, {counted} returned: {channel:?}"
    );
    assert_eq!(channel.stored as u64, kept);
    assert!(channel.uncommitted <= 1, "{channel:?}");
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "an id twice or out of order in {channel:?}");
    assert!(dropped > 0 || ids.iter().copied().eq(0..kept as i64), "an id is missing in {channel:?}");
}

/// Waits as long as a slow machine may take.
#[track_caller]
fn until(done: impl Fn() -> bool) {
    site::within("what a victim does", || done().then_some(()));
}

#[test]
fn e2e_killed_programs_leave_exactly_what_returned_or_one_more_a_thread() {
    const BATCH: u64 = 50;
    let (mut kills, mut stamps, mut dropped, mut at_work) = (0, 0, 0, 0);
    for batch in 0..few_or_all(1, 4) {
        let scene = Scene::new(&format!("programs-{batch}"));
        let collector = scene.follower();
        let mut witnesses = BTreeMap::new();
        for round in 0..BATCH {
            let returned = ReturnedCounts::new("e2e-programs");
            let victim = scene.victim(&returned, &["threads", "3", "0"], pool_bytes(round));
            let pid = victim.0.id() as i32;
            until(|| (0..3).all(|word| returned.word(word) > 0));
            std::thread::sleep(Duration::from_micros(any(1000)));
            victim.kill();
            let mut words: Vec<u64> = (0..3).map(|word| returned.word(word)).collect();
            words.sort_unstable();
            assert!(witnesses.insert(pid, words).is_none(), "a pid came twice; nothing is wrong but the test");
            kills += 1;
        }
        // What the collector did not come to yet, another takes.
        collector.kill();
        scene.collect_once();
        let (channels, ids) = (scene.channels(), scene.ids());
        assert_eq!(ids.values().map(Vec::len).sum::<usize>() as i64, channels.iter().map(|c| c.stored).sum::<i64>());
        for (pid, words) in witnesses {
            let mut of_pid: Vec<&Channel> = channels.iter().filter(|channel| channel.pid == pid).collect();
            assert_eq!(of_pid.len(), 3);
            // The returned does not say which thread has which word: in order of their counts they must agree.
            of_pid.sort_by_key(|channel| channel.stored + channel.dropped);
            for (channel, counted) in of_pid.into_iter().zip(words) {
                // One that was killed before its first stamp has none.
                is_exact(ids.get(&channel.channel).map_or(&[], Vec::as_slice), channel, counted);
                stamps += channel.stored;
                at_work += u64::from(channel.stored % A_BLOCK != 0);
                dropped += channel.dropped;
            }
        }
        assert_eq!(scene.directory.pools().len(), 0);
    }
    println!(
        "{kills} kills, {at_work} threads hit while they stamped; {stamps} stamps stored, {dropped} dropped and counted"
    );
    assert!(at_work >= kills, "only {at_work} threads were not just waiting for a block");
}

/// Stamps in a block of 4096 bytes.
const A_BLOCK: i64 = 244;

/// In a small pool a program fills every block at once and is killed while it waits; in a large one, while it stamps.
fn pool_bytes(round: u64) -> u32 {
    if round.is_multiple_of(4) { 1 << 18 } else { 1 << 25 }
}

#[test]
fn e2e_killed_collectors_store_every_stamp_once_also_in_the_middle_of_a_hand_over() {
    let (scene, returned) = (Scene::new("collectors"), ReturnedCounts::new("e2e-collectors"));
    let victim = scene.victim(&returned, &["paced", "1", "0"], 8 << 20);
    let (mut hits, mut by_chance) = (0, 0);
    let rounds = few_or_all(10, 50);
    // How many of those that are aimed fall between the two is chance: where too few do, there are more.
    let (mut round, most) = (0, 10 * rounds);
    while round < rounds || hits * 5 < rounds * 2 && round < most {
        round += 1;
        if round > rounds || round % 5 < 3 {
            let stopped = kill_after_a_segment_got_its_name(&scene, any(40_000));
            hits += u32::from(stopped && scene.named_and_not_free() > 0);
        } else {
            let collector = scene.follower();
            std::thread::sleep(Duration::from_micros(any(400_000)));
            collector.kill();
            by_chance += u32::from(scene.named_and_not_free() > 0);
        }
    }
    victim.kill();
    scene.collect_once();
    let (channels, ids) = (scene.channels(), scene.ids());
    assert_eq!(channels.len(), 1);
    is_exact(&ids[&channels[0].channel], &channels[0], returned.word(0));
    let segments = PointStamps::open(&scene.folder()).unwrap().segments().len();
    let (stored, dropped) = (channels[0].stored, channels[0].dropped);
    println!(
        "{round} kills of the collector: after three fifths of {rounds} and all later ones, stopped behind a \
         segment's rename, {hits} times a named block was not free; after those that nobody aimed, {by_chance} \
         times; {stored} stamps in {segments} segments, {dropped} dropped and counted"
    );
    assert!(
        hits * 5 >= rounds * 2,
        "{hits} of {rounds} kills fell between a segment's name and the end of the hand-over"
    );
}

/// Encoders of a collector that is killed: more than a test's machine has processors.
const ENCODERS: usize = 4;

#[test]
fn e2e_collectors_killed_while_several_threads_encode_store_each_stamp_once_or_count_it_as_dropped() {
    let (scene, returned) = (Scene::new("encoders"), ReturnedCounts::new("e2e-encoders"));
    let mut victim = Command::new(&scene.stamper);
    scene.directory.measure(victim.arg(&returned.0).args(["rate", "20", "0"]));
    let victim =
        Running(victim.env("TICKSCOPE_POOL_BYTES", few_or_all(64 << 20, 1 << 30).to_string()).spawn().unwrap());
    let began = Instant::now();
    let (rounds, mut round, mut at_work) = (few_or_all(2, 200), 0, 0);
    // Whether helpers are at work when the kill comes is chance: where too few are, there are more kills.
    while round < rounds || at_work * 2 < rounds && round < 10 * rounds {
        round += 1;
        let encoders = ["--encoders", &ENCODERS.to_string()];
        let mut child = scene.collect().arg("--follow").args(encoders).stdout(Stdio::piped()).spawn().unwrap();
        ready(&mut child);
        let collector = Running(child);
        // Every fourth is killed while it takes over what the one before it left, the others later.
        if round % 4 != 0 {
            let before = parts(&scene.folder());
            until(|| parts(&scene.folder()) > before);
        }
        until(|| helpers_of(&collector) > 0);
        std::thread::sleep(Duration::from_micros(any(10_000))); // the instant of the kill, which nobody chose
        at_work += u32::from(helpers_of(&collector) > 0);
        collector.kill();
    }
    let seconds = began.elapsed().as_secs_f64();
    victim.kill();
    scene.collect_once();
    let (channels, kept) = (scene.channels(), scene.kept_in_order());
    let [channel] = &channels[..] else { panic!("expected one channel, found {channels:?}") };
    let (dropped, counted) = (channel.dropped as u64, returned.word(0));
    assert!((counted..=counted + 1).contains(&(kept + dropped)), "{kept} kept, {counted} returned: {channel:?}");
    assert_eq!((channel.stored as u64, scene.lost()), (kept, dropped));
    assert!(channel.uncommitted <= 1, "{channel:?}");
    println!(
        "{round} kills of a collector with {ENCODERS} encoders, {at_work} while several encoded: {kept} stamps stored, \
         {dropped} dropped and counted, {:.1} million a second",
        counted as f64 / seconds / 1e6
    );
    assert!(at_work * 2 >= rounds, "{at_work} of {rounds} kills fell while several threads encoded");
}

/// Threads of a collector that it started to encode beside its own.
fn helpers_of(collector: &Running) -> usize {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", collector.0.id())) else { return 0 };
    let names = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
    names.filter(|name| name == "helper\n").count()
}

#[test]
fn e2e_a_run_that_a_collector_writes_says_that_it_answers_nobody_and_what_a_signal_does() {
    let scene = Scene::new("answers-nobody");
    let _follower = scene.follower();
    for words in [&["channels"][..], &["policy", "work", "null"], &["dump"], &["status"]] {
        let mut command = tickscope(&words[..1]);
        let ended = Ended::of(command.arg(scene.site.run_directory()).args(&words[1..]));
        ended.said(1, &["tickscope collect, which writes it, answers nobody", "SIGUSR1", "TICKSCOPE_POLICY"]);
        assert!(!ended.err.contains("Ask again"), "{ended:?}");
    }
}

/// Stops a collector where a segment has just got its name, lets it take `steps` instructions more, and kills it there.
/// Whether it came that far.
fn kill_after_a_segment_got_its_name(scene: &Scene, steps: u64) -> bool {
    let before = parts(&scene.folder());
    let mut command = scene.collect();
    command.arg("--follow").stdout(Stdio::null());
    // SAFETY: one system call without arguments.
    unsafe {
        command.pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME);
            Ok(())
        })
    };
    let mut traced = Traced(command.spawn().unwrap());
    assert!(traced.wait_for_stop(), "a program that is traced stops at its first instruction");
    while traced.go_on(libc::PTRACE_SYSCALL) {
        // Stops come in pairs, before and after a system call: the name is there only after the renaming one.
        if parts(&scene.folder()) > before {
            let walked = (0..steps).all(|_| traced.go_on(libc::PTRACE_SINGLESTEP));
            traced.0.kill().unwrap();
            let _ = traced.0.wait(); // it ends by the signal, also where it was traced
            return walked;
        }
    }
    false
}

struct Traced(Child);

impl Traced {
    fn go_on(&mut self, how: libc::c_uint) -> bool {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: our own child, which is stopped and traced by this thread; no memory of ours is handed over.
        let told = unsafe { libc::ptrace(how, self.0.id() as libc::pid_t, none, none) };
        told == 0 && self.wait_for_stop()
    }

    fn wait_for_stop(&mut self) -> bool {
        let mut status = 0;
        // SAFETY: our own child; the status outlives the call.
        let found = unsafe { libc::waitpid(self.0.id() as libc::pid_t, &mut status, 0) };
        found == self.0.id() as libc::pid_t && libc::WIFSTOPPED(status)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it has ended, ordinarily
        let _ = self.0.wait();
    }
}

/// How many segments there are.
fn parts(folder: &Path) -> usize {
    let Ok(listing) = fs::read_dir(folder) else { return 0 };
    listing.filter(|entry| entry.as_ref().is_ok_and(|e| e.file_name().to_string_lossy().starts_with("part-"))).count()
}

#[test]
fn e2e_kills_after_a_fork_leave_what_parent_and_child_stamped_each() {
    let scene = Scene::new("fork");
    let collector = scene.follower();
    let mut ended = Vec::new();
    for round in 0..few_or_all(6, 20u64) {
        let returned = ReturnedCounts::new(&format!("e2e-fork-{round}"));
        let parent = scene.victim(&returned, &["fork", "0"], pool_bytes(round));
        until(|| returned.word(32) > 0 && returned.word(0) != 1000);
        let parent_pid = parent.0.id() as i32;
        let child_pid = child_of(parent_pid);
        std::thread::sleep(Duration::from_micros(any(1000)));
        // Both in one go, the parent before the child, or the child before the parent.
        let pause = Duration::from_micros(if round % 3 == 0 { 0 } else { 2000 });
        if round % 3 == 1 {
            kill(child_pid);
            std::thread::sleep(pause);
            parent.kill();
        } else {
            parent.kill();
            std::thread::sleep(pause);
            kill(child_pid);
        }
        until(|| !Path::new(&format!("/proc/{child_pid}")).exists() || is_zombie(child_pid));
        ended.push((parent_pid, child_pid, returned));
    }
    collector.kill();
    scene.collect_once();
    let (channels, ids) = (scene.channels(), scene.ids());
    let of = |pid: i32| {
        let mut of_pid = channels.iter().filter(move |channel| channel.pid == pid);
        let only = of_pid.next().unwrap();
        assert!(of_pid.next().is_none());
        (&ids[&only.channel], only)
    };
    for (parent, child, returned) in &ended {
        let (child_ids, channel) = of(*child);
        is_exact(child_ids, channel, returned.word(32));
        let (parent_ids, channel) = of(*parent);
        let (inherited, own) = parent_ids.split_at(1000);
        assert!(inherited.iter().copied().eq(0..1000), "what was stamped before the fork is the parent's alone");
        let own_channel = Channel { stored: channel.stored - 1000, ..channel.clone() };
        is_exact(own, &own_channel, returned.word(0));
    }
    println!("{} kills after a fork: {} stamps", ended.len(), ids.values().map(Vec::len).sum::<usize>());
}

fn child_of(parent: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn kill(pid: i32) {
    // SAFETY: the child of a program that this test started; nobody reaps it before it is dead.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

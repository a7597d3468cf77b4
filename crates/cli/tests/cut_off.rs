//! `tickscope run` killed by SIGKILL at moments that nobody chose, and `tickscope finish` after each: every stamp whose
//! call returned is in the run, and nothing of it is left anywhere else.

mod site;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use site::c_program::{ReturnedCounts, compile_with};
use site::{Ended, Site, WITHIN, few_or_all, free_port, tickscope, within};
use tickscope_stamp::directory::instance_of;
use tickscope_store::{Paths, Run, RunState, read_channels};

const NODES: [&str; 2] = ["a", "b"];

/// A run of two stampers, each with a file in which it counts the stamps that returned.
struct Scene {
    site: Site,
    returned: Vec<ReturnedCounts>,
    text: String,
}

impl Scene {
    fn new(name: &str, stamper: &Path, stamps: u64) -> Self {
        let returned = NODES.map(|node| ReturnedCounts::new(&format!("{name}-{node}")));
        let mut text = format!(
            "run = {{ name = \"cut\", seconds = 1 }}\n[clock]\nreference = \"a\"\nsame_boot = \"ignore\"\n\
             probe_port = {}\n[layout]\npath = [\"a.work\", \"b.work\"]\n",
            free_port()
        );
        for (node, returned) in NODES.iter().zip(&returned) {
            text += &format!(
                "[[node]]\nname = \"{node}\"\nends_run = {}\n\
                 command = [\"{}\", \"{}\", \"slow\", \"1\", \"{stamps}\"]\n\
                 environment = {{ TICKSCOPE_WHEN_FULL = \"wait\", TICKSCOPE_BLOCK_BYTES = \"4096\" }}\n",
                *node == "b",
                stamper.display(),
                returned.0.display()
            );
        }
        Self { site: Site::new(name), returned: returned.into(), text }
    }

    fn start(&self) -> Child {
        let mut command = self.site.run_command(&self.text);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn finish(&self) -> Ended {
        Ended::of(tickscope(&["finish", "--json"]).arg(self.site.run_directory()))
    }

    fn run_exists(&self) -> bool {
        Paths::of(&self.site.run_directory()).manifest().exists()
    }

    /// Waits until the kernel has let go of what the killed process held.
    fn until_nobody_writes(&self) {
        let goes_on = || self.run_exists() && self.site.opened().state().unwrap() == RunState::GoingOn;
        within("that nobody writes the run that was killed", || (!goes_on()).then_some(()));
    }

    /// Waits until each node of the run has stamped; a run that ended before has failed.
    fn until_all_stamp(&self, run: &mut Child) {
        awaited(run, "stamps of each node", || self.returned.iter().all(|of| of.word(0) > 0).then_some(()));
    }

    /// Folders in shared memory that name this run's directory, or this run's passes.
    fn folders(&self) -> Vec<PathBuf> {
        let listing = fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path());
        let root = self.site.run_directory().display().to_string();
        listing.filter(|folder| fs::read_to_string(folder.join(".run")).is_ok_and(|of| of.starts_with(&root))).collect()
    }

    /// Fails if a stamp whose call returned is neither stored nor counted as dropped.
    fn expect_every_stamp(&self) -> u64 {
        let mut all = 0;
        for (node, returned) in NODES.iter().zip(&self.returned) {
            let counted = returned.word(0);
            let file = Paths::of(&self.site.run_directory()).channels(node);
            let channels = if file.exists() { read_channels(&file).unwrap() } else { Vec::new() };
            let of_target = channels.iter().filter(|channel| channel.point.as_str() == "work");
            let found: i64 = of_target.map(|channel| channel.stored + channel.dropped).sum();
            let found = found as u64;
            assert!((counted..=counted + 1).contains(&found), "{node}: {counted} returned, {found} found");
            all += found;
        }
        all
    }

    /// Fails if anything of the run is left outside its directory, once its agent has ended: that is a process of its
    /// own, which sees the end of its pipe and clears up by itself.
    fn expect_nothing_left(&self, folders: &[PathBuf]) {
        let marks = [self.site.run_directory().display().to_string(), self.returned[0].0.display().to_string()];
        let until = Instant::now() + WITHIN;
        while Instant::now() < until && !(self.folders().is_empty() && processes(&marks).is_empty()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!((self.folders(), processes(&marks)), (Vec::<PathBuf>::new(), Vec::<String>::new()), "is left");
        for folder in folders {
            let name = folder.file_name().unwrap().to_str().unwrap();
            assert!(!folder.exists() && !folder.with_extension("cost").exists(), "{name} is left");
            let spaces = format!("tickscope-{}-", &name[name.len() - 6..]);
            let named = fs::read_dir("/var/run/netns").into_iter().flatten().flatten();
            let named: Vec<_> =
                named.filter(|entry| entry.file_name().to_string_lossy().starts_with(&spaces)).collect();
            assert!(named.is_empty(), "{named:?}");
        }
    }
}

/// Living processes whose command lines hold one of these words: number and command line.
fn found(marks: &[String]) -> impl Iterator<Item = (i32, String)> {
    let listing = fs::read_dir("/proc").unwrap().flatten();
    let lines = listing.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let bytes = fs::read(entry.path().join("cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&bytes).replace('\0', " ")))
    });
    lines.filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)))
}

fn processes(marks: &[String]) -> Vec<String> {
    found(marks).map(|(_, line)| line).collect()
}

fn pids(marks: &[String]) -> Vec<i32> {
    found(marks).map(|(pid, _)| pid).collect()
}

/// A number that nobody chose, below `below`.
fn any(below: u64) -> u64 {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    u64::from_ne_bytes(bytes) % below
}

const STAMPS: u64 = 12_000;

#[test]
fn e2e_a_run_killed_at_any_moment_is_finished_with_every_stamp_and_leaves_nothing() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let whole = Scene::new("whole", &stamper, STAMPS);
    let started = Instant::now();
    assert!([Some(0), Some(3)].contains(&whole.start().wait().unwrap().code()));
    let takes_us = started.elapsed().as_micros() as u64;
    // The end of b ends the run, and a with it.
    assert!((STAMPS + 1..=2 * STAMPS).contains(&whole.expect_every_stamp()));
    let (mut before_run, mut ended, mut tables, mut empty, mut stamps) = (0, 0, 0, 0, 0);
    let rounds = few_or_all(6, 100);
    for round in 0..rounds {
        let scene = Scene::new(&format!("cut-{round}"), &stamper, STAMPS);
        let mut run = scene.start();
        let after_us = any(takes_us * 21 / 20);
        std::thread::sleep(Duration::from_micros(after_us));
        run.kill().unwrap();
        run.wait().unwrap();
        scene.until_nobody_writes();
        let folders = scene.folders();
        let had_ended = scene.run_exists() && scene.site.opened().state().unwrap() == RunState::Ended;
        let finished = scene.finish();
        let context = format!("killed after {after_us} of {takes_us} us: {finished:?}");
        if !scene.run_exists() {
            let code = if scene.site.run_directory().is_dir() { 1 } else { 2 }; // none: it had not made its directory
            assert!(finished.code == Some(code) && finished.err.contains("cannot finish"), "{context}");
            before_run += 1;
        } else if finished.code == Some(1) {
            // Not one stamp, or stamps of one node only.
            let said =
                ["no trace was measured. the run was cut off at about 20", "expected an id that passed every point"];
            assert!(said.iter().any(|said| finished.err.contains(said)), "{context}");
            empty += 1;
        } else {
            assert!([Some(0), Some(3)].contains(&finished.code) && finished.out.contains("a.work>b.work"), "{context}");
            tables += 1;
            ended += u32::from(had_ended);
        }
        stamps += scene.expect_every_stamp();
        scene.expect_nothing_left(&folders);
        if scene.run_exists() {
            let run = scene.site.opened();
            assert_eq!(run.state().unwrap(), RunState::Ended, "{context}");
            assert_eq!(run.check().unwrap(), [], "{context}");
            assert!(run.manifest().stamp_directories.is_empty(), "{context}");
            assert_eq!(scene.site.events("cut-off").len(), usize::from(!had_ended), "{context}");
            let again = scene.finish();
            assert!(!again.err.contains("took"), "{again:?}");
        }
    }
    println!(
        "{rounds} kills of run: {before_run} before there was a run.json, {empty} without a trace, {tables} tables, \
         {ended} of them of runs that had ended; {stamps} stamps, each of them stored"
    );
}

#[test]
fn e2e_a_run_that_goes_on_is_not_finished_and_one_that_is_cut_off_says_so_first() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let scene = Scene::new("going-on", &stamper, 100_000_000);
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    scene.finish().said(1, &["cannot finish", "it goes on"]);
    run.kill().unwrap();
    run.wait().unwrap();
    scene.until_nobody_writes();
    let shown = scene.site.show(&[]);
    let first = shown.err.lines().next().unwrap_or_default();
    assert!(first.contains("this run was cut off at about 20") && first.contains("tickscope finish"), "{shown:?}");
    let doctor = Ended::of(&mut tickscope(&["doctor"]));
    assert!(doctor.out.contains(&format!("tickscope finish {}", scene.site.run_directory().display())), "{doctor:?}");
    let folders = scene.folders();
    Ended::of(&mut tickscope(&["doctor", "--clean"]));
    assert_eq!(scene.folders(), folders, "nothing is removed unread");
    let resumed = Ended::of(tickscope(&["resume"]).arg(scene.site.run_directory()));
    resumed.said(1, &["nothing of it went on", "tickscope finish"]);
    scene.finish();
    scene.expect_every_stamp();
    scene.expect_nothing_left(&folders);
    assert_eq!(Run::open(&scene.site.run_directory()).unwrap().unfinished().unwrap(), None);
    for named in [scene.site.run_directory(), scene.site.run_directory().join("run.json")] {
        let again = Ended::of(tickscope(&["finish"]).arg(named));
        assert!(again.code == Some(0) && again.out.contains("nothing to do"), "{again:?}");
    }
}

#[test]
fn e2e_finish_of_a_run_whose_shared_memory_somebody_removed_does_not_know_what_was_lost() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let scene = Scene::new("memory-gone", &stamper, 100_000_000);
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let root = scene.site.run_directory();
    let places = Paths::of(&root);
    let is_written = |node: &str| read_channels(&places.channels(node)).is_ok_and(|channels| !channels.is_empty());
    within("channels of both nodes", || (is_written("a") && is_written("b")).then_some(()));
    // Without stamps of both there is no table, and finish says that first.
    let is_stored = |node: &str| {
        let stamps = scene.site.opened().stamps(&format!("{node}.work").parse().unwrap());
        stamps.is_ok_and(|stamps| !stamps.is_empty())
    };
    within("stamps of both nodes", || (is_stored("a") && is_stored("b")).then_some(()));
    // Collectors that went on alone might take the last stamps, and then nothing would be lost.
    let collectors = helpers(&scene.site, "collect");
    let signal = |number: i32| {
        // SAFETY: processes of the run that this test started.
        collectors.iter().for_each(|&pid| assert_eq!(unsafe { libc::kill(pid, number) }, 0, "{pid} was there"));
    };
    signal(libc::SIGSTOP);
    let returned = scene.returned[0].word(0);
    awaited(&mut run, "stamps that nobody took", || (scene.returned[0].word(0) > returned).then_some(()));
    run.kill().unwrap();
    run.wait().unwrap();
    signal(libc::SIGKILL);
    scene.until_nobody_writes();
    for folder in scene.folders() {
        // What the run started may still be leaving its last files there.
        within("that the folder is removed", || {
            let _ = fs::remove_dir_all(&folder);
            (!folder.exists()).then_some(())
        });
    }
    let shown = scene.site.show(&[]);
    assert!([Some(1), Some(3)].contains(&shown.code) && shown.out.contains("\"lost\": null"), "{shown:?}");
    scene.finish().said(1, &["is not known"]);
    assert!(!scene.site.events("memory-lost").is_empty());
    scene.site.show(&[]).said(1, &["is not known"]);
    scene.finish().said(1, &["nothing more of it can be taken", "is not known"]);
}

#[test]
fn e2e_finish_names_a_file_that_nobody_can_read_and_does_not_know_what_it_held_once_it_is_gone() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let scene = Scene::new("unreadable", &stamper, 100_000_000);
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let folder = scene.folders().remove(0);
    let own = fs::metadata(&folder).unwrap().uid();
    let pools_of = |node: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder.join(format!("{node}/uid-{own}"))).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension() == Some("ticks".as_ref())).collect()
    };
    let channels = Paths::of(&scene.site.run_directory()).channels("b");
    let has_begun = |pool: &PathBuf| {
        let instance = instance_of(pool.file_name().unwrap());
        read_channels(&channels).is_ok_and(|known| known.iter().any(|channel| Some(channel.pool) == instance))
    };
    // A pool whose channels the run knows. It is put there again as one that was not taken, and that is damaged.
    let begun = awaited(&mut run, "a pool that is known", || pools_of("b").into_iter().find(has_begun));
    run.kill().unwrap();
    run.wait().unwrap();
    scene.until_nobody_writes();
    let is_free = |node: &&str| tickscope_collect::expect_free(&folder.join(node)).is_ok();
    within("that no collector works there", || NODES.iter().all(is_free).then_some(()));
    // The one is of another version for a while; the other is damaged, and somebody removes it.
    let mut late = Command::new(&stamper);
    late.arg(&scene.returned[0].0).args(["slow", "1", "100"]).env("TICKSCOPE_DIR", folder.join("a"));
    assert!(late.status().unwrap().success());
    let of_a = pools_of("a").into_iter();
    let later: Vec<(PathBuf, Vec<u8>)> = of_a.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    assert!(!later.is_empty());
    let write =
        |place: &Path, bytes: &[u8]| fs::File::options().write(true).open(place).unwrap().write_all(bytes).unwrap();
    later.iter().for_each(|(path, _)| write(path, b"another!"));
    // Where its collector ended before it took that pool, it is left as it is: what it holds would be lost indeed.
    let damaged = folder.join("b/pool-00000000000000aa.ticks");
    let damaged: Vec<PathBuf> = [damaged, begun].into_iter().filter(|place| !place.exists()).collect();
    for place in &damaged {
        fs::write(place, [7; 1 << 16]).unwrap();
    }
    scene.finish().said(1, &["cannot take every stamp", "remove it and run this again"]);
    scene.finish().said(1, &["cannot take every stamp"]);
    let left = scene.site.events("stamps-left");
    assert_eq!(left.len(), later.len() + damaged.len(), "{left:?}");
    assert!(left.iter().any(|event| event.value == Some(0xaa) && event.text.contains("pool-00000000000000aa.ticks")));
    later.iter().for_each(|(path, bytes)| write(path, &bytes[..8]));
    for place in &damaged {
        fs::remove_file(place).unwrap();
    }
    scene.finish().said(1, &["is not known"]);
    let lost = scene.site.events("memory-lost");
    assert!(lost.len() == 1 && lost[0].node == "b", "{lost:?}");
    for place in damaged {
        assert!(lost[0].text.contains(place.file_name().unwrap().to_str().unwrap()), "{place:?}: {lost:?}");
    }
    assert_eq!(scene.site.events("stamps-left").len(), 0);
    scene.site.show(&[]).said(1, &["could not be read, and is gone"]);
    assert!(!folder.exists(), "nothing else is left of it");
}

#[test]
fn e2e_stamps_that_another_run_took_from_a_folder_of_somebody_elses_are_no_lost_memory() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    for is_removed in [false, true] {
        let name = format!("taken-{is_removed}");
        let (site, returned) = (Site::new(&name), ReturnedCounts::new(&name));
        let stamps = PathBuf::from(format!("/dev/shm/tickscope-e2e-{name}-{}", std::process::id()));
        fs::create_dir_all(&stamps).unwrap();
        let text = format!(
            "run = {{ name = \"taken\", seconds = 1000 }}\nclock.reference = \"n\"\n[[node]]\nname = \"n\"\n\
             stamps = {stamps:?}\n"
        );
        let mut command = site.run_command(&text);
        let mut run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut program = Command::new(&stamper);
        program.arg(&returned.0).args(["slow", "1", "100000000"]).env("TICKSCOPE_DIR", &stamps);
        awaited(&mut run, "a collector", || stamps.join("collector.lock").exists().then_some(()));
        let mut program = program.spawn().unwrap();
        let channels = Paths::of(&site.run_directory()).channels("n");
        let has_seen = || read_channels(&channels).is_ok_and(|all| all.iter().any(|it| it.point.as_str() == "work"));
        awaited(&mut run, "a channel of the program", || has_seen().then_some(()));
        run.kill().unwrap();
        run.wait().unwrap();
        let goes_on = || site.opened().state().unwrap() == RunState::GoingOn;
        within("that nobody writes the run that was killed", || (!goes_on()).then_some(()));
        let other = site.path("other");
        let taken = || Ended::of(tickscope(&["collect"]).arg(&stamps).arg("--run").arg(&other)).code == Some(0);
        // The first run's collector is gone, and has seen no end of the program.
        within("that the folder is free", || taken().then_some(()));
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(taken());
        if is_removed {
            fs::remove_dir_all(&stamps).unwrap();
        }
        let finished = Ended::of(tickscope(&["finish"]).arg(site.run_directory()));
        assert_eq!(site.events("memory-lost").len(), 0, "{finished:?}");
        assert_eq!(finished.err.contains("is gone"), is_removed, "{finished:?}");
        let _ = fs::remove_dir_all(&stamps);
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

#[test]
fn e2e_a_copy_of_a_run_is_not_finished_and_one_that_was_moved_is() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let scene = Scene::new("copied", &stamper, 100_000_000);
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let root = scene.site.run_directory();
    let [copied, moved] = ["copied", "moved"].map(|name| root.with_file_name(name));
    copy(&root, &copied);
    let (before, folders) = (pids(&[root.display().to_string()]), scene.folders());
    let finish = |run: &Path| Ended::of(tickscope(&["finish"]).arg(run));
    let refused =
        ["cannot finish", "found another one, such as a copy", &format!("tickscope finish {}", root.display())];
    finish(&copied).said(1, &refused);
    assert_eq!((pids(&[root.display().to_string()]), scene.folders()), (before, folders.clone()));
    run.kill().unwrap();
    finish(&copied).said(1, &refused);
    run.wait().unwrap();
    within("the end of the run's processes", || pids(&[root.display().to_string()]).is_empty().then_some(()));
    fs::rename(&root, &moved).unwrap();
    std::os::unix::fs::symlink("moved", moved.with_file_name("link")).unwrap();
    let finished = finish(&moved.with_file_name("link"));
    assert!([Some(0), Some(3)].contains(&finished.code) && finished.err.contains("took"), "{finished:?}");
    assert!(!folders[0].exists());
    fs::rename(&moved, &root).unwrap();
    scene.expect_every_stamp();
    // A run that was killed once its end was written leaves an empty folder.
    fs::create_dir(&folders[0]).unwrap();
    fs::write(folders[0].join(".run"), root.display().to_string()).unwrap();
    finish(&copied).said(1, &refused);
    finish(&root).said(finished.code.unwrap(), &[&format!("removed {}", folders[0].display())]);
    scene.expect_nothing_left(&folders);
    // Processes of a run that was killed just now may hold it for a while.
    let held = scene.site.opened().write().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(held);
        });
        let again = finish(&root);
        assert!(again.out.contains("nothing to do"), "{again:?}");
    });
}

#[test]
fn e2e_stamp_directories_that_a_run_handed_over_names_are_not_emptied_unless_they_are_its_own() {
    let site = Site::new("handed-over");
    let [stamps, named] = ["stamps", "named"].map(|name| site.run_directory().with_file_name(name));
    fs::create_dir_all(&stamps).unwrap();
    fs::create_dir_all(&named).unwrap();
    fs::write(named.join("collector.lock"), "").unwrap();
    let run = site.run_directory();
    let collected = Ended::of(tickscope(&["collect"]).arg(&stamps).arg("--run").arg(&run));
    assert_eq!(collected.code, Some(0), "{collected:?}");
    let opened = Run::open(&run).unwrap();
    let mut manifest = opened.manifest().clone();
    let node = manifest.nodes[0].name.clone();
    let own = PathBuf::from(format!("/dev/shm/tickscope-{:016x}", manifest.run));
    let beyond = own.join("../../..").join(named.strip_prefix("/").unwrap());
    for directory in [&named, &beyond] {
        manifest.stamp_directories.insert(node.clone(), directory.clone());
        manifest.write(&Paths::of(&run).manifest()).unwrap();
        fs::create_dir_all(&own).unwrap();
        assert!(directory.exists());
        let refused = Ended::of(tickscope(&["finish"]).arg(&run));
        refused.said(1, &["expected stamp directories in /dev/shm/", "tickscope collect"]);
        assert!(named.join("collector.lock").exists());
    }
    let _ = fs::remove_dir_all(own);
}

/// The processes of the run that play that role.
fn helpers(site: &Site, role: &str) -> Vec<i32> {
    let root = site.run_directory().display().to_string();
    found(&[format!(" role {role} ")]).filter(|(_, line)| line.contains(&root)).map(|(pid, _)| pid).collect()
}

/// What is awaited of a run, however long it takes on a slow machine: what has not come when it ends never will.
fn awaited<T>(run: &mut Child, what: &str, look: impl Fn() -> Option<T>) -> T {
    loop {
        let ended = run.try_wait().unwrap();
        if let Some(found) = look() {
            return found;
        }
        assert!(ended.is_none(), "expected {what}, found the run at its end: {ended:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn e2e_collectors_probes_and_clock_monitors_that_are_killed_are_started_again_and_no_stamp_is_lost() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let scene = Scene::new("killed", &stamper, 100_000_000);
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    for word in ["collect"; 5].into_iter().chain(["clock-monitor", "probe", "probe"]) {
        let before = helpers(&scene.site, word);
        std::thread::sleep(Duration::from_millis(any(60)));
        // SAFETY: a process of the run that this test started.
        assert_eq!(unsafe { libc::kill(before[0], libc::SIGKILL) }, 0, "{word} was there");
        let is_new = |pid: &i32| !before.contains(pid);
        awaited(&mut run, word, || helpers(&scene.site, word).into_iter().find(is_new));
    }
    // SAFETY: the run that this test started.
    assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGINT) }, 0);
    let code = run.wait().unwrap().code();
    assert_eq!(code, Some(1), "interrupted, and its table is there");
    assert!(scene.expect_every_stamp() > 0);
    let dropped: usize = scene.site.events("lost").len();
    let (collectors, roles) = (scene.site.events("collector-killed").len(), scene.site.events("role-restarted").len());
    // Each is told; one that is killed before it is ready may be started more than once more.
    assert!(dropped == 0 && collectors >= 5 && roles >= 3, "{dropped} dropped, {collectors} and {roles} told");
    scene.expect_nothing_left(&[]);
}

#[test]
fn e2e_an_agent_that_is_told_to_end_ends_its_commands_and_stores_every_stamp_and_the_run_ends() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let scene = Scene::new("told", &stamper, 100_000_000);
    let mut command = scene.site.run_command(&scene.text);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    scene.until_all_stamp(&mut run);
    let folders = scene.folders();
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let agents = pids(&["agent local --pipe".into()]).into_iter();
    let agents: Vec<i32> = agents.filter(|&pid| parent(pid) == Some(run.id())).collect();
    assert_eq!(agents.len(), 1);
    // SAFETY: the agent of the run that this test started.
    assert_eq!(unsafe { libc::kill(agents[0], libc::SIGTERM) }, 0);
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("this agent is shutting down"), "{said}");
    assert!(scene.expect_every_stamp() > 0);
    assert_eq!(scene.site.opened().state().unwrap(), RunState::Ended);
    scene.expect_nothing_left(&folders);
}

#[test]
fn e2e_a_detached_run_that_is_killed_is_finished_with_every_stamp_while_its_nodes_go_on() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    for (round, shares) in [true, false].into_iter().enumerate() {
        let mut scene = Scene::new(&format!("detached-{round}"), &stamper, 100_000_000);
        if shares {
            scene.text = scene.text.replace("same_boot = \"ignore\"", "same_boot = \"detect\"");
        }
        let mut command = scene.site.run_command(&scene.text);
        command.arg("--detach").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = command.spawn().unwrap();
        scene.until_all_stamp(&mut run);
        run.kill().unwrap();
        run.wait().unwrap();
        scene.until_nobody_writes();
        let (folders, before) = (scene.folders(), scene.returned[0].word(0));
        within("that its nodes go on", || (scene.returned[0].word(0) != before).then_some(()));
        let finished = scene.finish();
        assert!([Some(0), Some(3)].contains(&finished.code), "{finished:?}");
        scene.expect_every_stamp();
        scene.expect_nothing_left(&folders);
        assert_eq!(scene.site.opened().state().unwrap(), RunState::Ended);
    }
}

#[test]
fn e2e_a_run_taken_up_again_lasts_as_long_as_its_command_said() {
    let site = Site::new("seconds");
    let stamps = PathBuf::from(format!("/dev/shm/tickscope-e2e-seconds-{}", std::process::id()));
    fs::create_dir_all(&stamps).unwrap();
    // Something else starts its programs, so its time ends it: the run file's second, or what the command says.
    let text = format!(
        "run = {{ name = \"seconds\", seconds = 1 }}\n[clock]\nreference = \"a\"\n[[node]]\nname = \"a\"\n\
         stamps = \"{}\"\n",
        stamps.display()
    );
    let quietly = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut run = quietly(site.run_command(&text).args(["--detach", "--seconds", "100000"]));
    while !Paths::of(&site.run_directory()).manifest().exists() {
        assert!(run.try_wait().unwrap().is_none(), "it ended at once");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(1_500)); // the run file's second is over
    assert!(run.try_wait().unwrap().is_none(), "its command says longer");
    run.kill().unwrap();
    run.wait().unwrap();
    let goes_on = || site.opened().state().unwrap() == RunState::GoingOn;
    within("the end of the run that was killed", || (!goes_on()).then_some(()));
    let mut resumed = quietly(tickscope(&["resume"]).arg(site.run_directory()));
    while site.events("resumed").is_empty() {
        assert!(resumed.try_wait().unwrap().is_none(), "it was not taken up");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(resumed.try_wait().unwrap().is_none(), "it ended by the run file's second");
    // SAFETY: the command that this test started, and did not wait for yet.
    assert_eq!(unsafe { libc::kill(resumed.id() as i32, libc::SIGINT) }, 0);
    resumed.wait().unwrap();
    assert_eq!(site.opened().state().unwrap(), RunState::Ended);
    fs::remove_dir_all(stamps).unwrap();
}

/// A run that has ended though a program that it started lives on, that program's account, and its process.
fn outlived(name: &str) -> (Scene, ReturnedCounts, i32) {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let scene = Scene::new(name, &stamper, 1000);
    let daemon = ReturnedCounts::new(&format!("{name}-daemon"));
    // Node b's command leaves a program behind, in a session of its own, that stamps a while and lives on.
    let words = format!("{} {} slow 1 0", stamper.display(), daemon.0.display());
    // It has stamped before it stands still, and stands still before its run may end.
    let [stamped, still] = ["stamped", "still"].map(|name| scene.site.path(name).display().to_string());
    let until = |file: &str| format!("until test -e {file}; do sleep 0.01; done");
    let stays = format!("setsid sh -c '{words} & {}; kill -STOP $!; : > {still}; wait'", until(&stamped));
    let script = format!("{stays} > /dev/null 2>&1 & {}; exec \\\"$@\\\"", until(&still));
    let command = format!("name = \"b\"\nends_run = true\ncommand = [\"sh\", \"-c\", \"{script}\", \"sh\", ");
    let text = scene.text.replacen("name = \"b\"\nends_run = true\ncommand = [", &command, 1);
    assert_ne!(text, scene.text);
    let mut command = scene.site.run_command(&text);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    awaited(&mut run, "stamps of what stays", || (daemon.word(0) > 0).then_some(()));
    fs::write(&stamped, "").unwrap();
    Ended::from(run.wait_with_output().unwrap()).said(1, &["cannot take every stamp", "tickscope finish"]);
    let marks = [daemon.0.display().to_string()];
    let (pid, _) = found(&marks).find(|(_, line)| line.starts_with(stamper.to_str().unwrap())).unwrap();
    (scene, daemon, pid)
}

#[test]
fn e2e_memory_that_goes_after_the_end_of_its_run_is_lost_memory() {
    let (scene, daemon, pid) = outlived("memory-late");
    for folder in scene.folders() {
        fs::remove_dir_all(folder).unwrap();
    }
    // SAFETY: the program that this test's run left behind.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    within("the end of the program that was killed", || {
        pids(&[daemon.0.display().to_string()]).is_empty().then_some(())
    });
    scene.finish().said(1, &["is not known"]);
    assert!(!scene.site.events("memory-lost").is_empty());
}

#[test]
fn e2e_a_program_that_outlives_its_run_keeps_its_stamps_until_finish_takes_them() {
    let (scene, daemon, pid) = outlived("outlives");
    let marks = [daemon.0.display().to_string()];
    let (folders, run) = (scene.folders(), scene.site.opened());
    assert_eq!((folders.len(), run.state().unwrap()), (1, RunState::Ended));
    assert_eq!((run.manifest().stamp_directories.len(), scene.site.events("stamps-left").len()), (1, 1));
    let shown = scene.site.show(&[]);
    assert!(shown.err.starts_with("tickscope: stamps of this run still lie in /dev/shm/"), "{shown:?}");
    assert!([Some(1), Some(3)].contains(&shown.code) && shown.out.contains("\"lost\": null"), "{shown:?}");
    scene.finish().said(1, &["stays in /dev/shm/"]);
    // SAFETY: the program that this test's run left behind.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    within("the end of the program that was killed", || pids(&marks).is_empty().then_some(()));
    let finished = scene.finish();
    assert!([Some(0), Some(3)].contains(&finished.code), "{finished:?}");
    let channels = read_channels(&Paths::of(&scene.site.run_directory()).channels("b")).unwrap();
    let of_daemon = channels.iter().filter(|channel| channel.pid == pid);
    let found = of_daemon.map(|channel| channel.stored + channel.dropped).sum::<i64>() as u64;
    let counted = daemon.word(0);
    assert!(counted > 0 && (counted..=counted + 1).contains(&found), "{counted} returned, {found} found");
    scene.expect_nothing_left(&folders);
    assert_eq!(scene.site.opened().check().unwrap(), []);
}

#[test]
fn e2e_a_disk_that_is_full_for_some_seconds_of_a_run_or_at_its_end_loses_no_stamp() {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    for (name, until_the_end) in [("full-meanwhile", false), ("full-at-the-end", true)] {
        let scene = Scene::new(name, &stamper, 40_000);
        let Some(disk) = SmallDisk::mount(&scene.site.run_directory()) else { return };
        let mut run = scene.start();
        scene.until_all_stamp(&mut run);
        disk.fill();
        std::thread::sleep(Duration::from_secs(3));
        if !until_the_end {
            disk.free();
        }
        let code = run.wait().unwrap().code();
        if until_the_end {
            assert_eq!((code, scene.folders().len()), (Some(1), 1), "what was measured stays");
            scene.finish().said(1, &["No space left", "run this again"]);
            disk.free();
            let finished = scene.finish();
            assert!([Some(0), Some(3)].contains(&finished.code), "{finished:?}");
        } else {
            assert!([Some(0), Some(3)].contains(&code), "{code:?}");
        }
        let dropped = scene.site.events("lost");
        // The end of b ends the run, and a with it.
        let found = scene.expect_every_stamp();
        assert!((40_001..=80_000).contains(&found) && dropped.is_empty(), "{found} {dropped:?}");
        assert_eq!(scene.returned[1].word(0), 40_000, "b came to its end");
        scene.expect_nothing_left(&[]);
    }
}

/// A file system of some megabytes; unmounted with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`: this user may not mount.
    fn mount(place: &Path) -> Option<Self> {
        fs::create_dir_all(place).unwrap();
        let mut mount = std::process::Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(place).stderr(Stdio::null()).status();
        if done.is_ok_and(|status| status.success()) {
            return Some(Self(place.into()));
        }
        println!("not tested: this user may not mount a file system");
        None
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while std::io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status(); // a test may have failed before
    }
}

//! Runs that keep a window of their stamps, `--keep`: old segments go while the run goes on, each stamp is stored or
//! counted as removed, also where collectors and `run` are killed; and such a run can be asked meanwhile.

mod site;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use site::c_program::{ReturnedCounts, compile_with};
use site::{Ended, Site, free_port, tickscope};
use tickscope_store::{Channel, Paths, RemovedNote, RunState, files_in, read_channels};

const NODES: [&str; 2] = ["a", "b"];
/// The shortest window.
const SECONDS: u64 = 5;

/// A run of two stampers, here or behind pipes, each with a file in which it counts the stamps that returned.
struct Scene {
    site: Site,
    returned: Vec<ReturnedCounts>,
    text: String,
}

impl Scene {
    fn new(name: &str, behind_pipes: bool) -> Self {
        let stamper = compile_with("cc", "stamper", &[], "stamper");
        let (program, returned) = (stamper.display(), NODES.map(|node| ReturnedCounts::new(&format!("{name}-{node}"))));
        let mut text = format!(
            "run = {{ name = \"keep\", seconds = 1, keep = \"{SECONDS}s\" }}\n[clock]\nreference = \"a\"\n\
             same_boot = \"ignore\"\nprobe_port = {}\n[layout]\npath = [\"a.work\", \"b.work\"]\n",
            free_port()
        );
        for (number, (node, returned)) in NODES.iter().zip(&returned).enumerate() {
            let pipe = format!(
                "connect = [\"env\", \"MARK={name}-{node}\"]\nagent = \"{}\"\naddress = \"127.0.0.{}\"\n",
                env!("CARGO_BIN_EXE_tickscope"),
                number + 1
            );
            text += &format!(
                "[[node]]\nname = \"{node}\"\nends_run = {}\n{}\
                 command = [\"{program}\", \"{}\", \"slow\", \"1\", \"0\"]\n\
                 environment = {{ TICKSCOPE_WHEN_FULL = \"wait\", TICKSCOPE_BLOCK_BYTES = \"4096\" }}\n",
                *node == "b",
                if behind_pipes { &pipe } else { "" },
                returned.0.display(),
            );
        }
        Self { site: Site::new(name), returned: returned.into(), text }
    }

    /// What agents keep lies with the test.
    fn own_folders(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.site.path("state")).env("XDG_CACHE_HOME", self.site.path("cache"));
    }

    fn start(&self) -> Child {
        let mut command = self.site.run_command(&self.text);
        self.own_folders(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn command(&self, words: &[&str]) -> Ended {
        let mut command = tickscope(words);
        self.own_folders(&mut command);
        Ended::of(command.arg(self.site.run_directory()))
    }

    fn note(&self, node: &str) -> RemovedNote {
        RemovedNote::read(&Paths::of(&self.site.run_directory()).removed(node)).unwrap()
    }

    /// Waits until that many segments of each node's point are gone. The run goes on until it is interrupted.
    fn until_removed(&self, segments: u64, run: &mut Child) {
        while NODES.iter().any(|node| self.note(node).below("work") < segments) {
            assert!(run.try_wait().unwrap().is_none(), "the run ended before its window had passed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the run in order. What was measured is kept, and where that is a finding (nothing keeps the programs of two
    /// nodes in step), the run says so.
    fn interrupt(&self, run: &mut Child) {
        // SAFETY: the run that this test started, and did not wait for yet.
        assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGINT) }, 0);
        let code = run.wait().unwrap().code();
        let is_finding = self.command(&["show"]).code == Some(3);
        assert_eq!(code, Some(if is_finding { 3 } else { 1 }), "interrupted");
    }

    fn until_nobody_writes(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.site.opened().state().unwrap() == RunState::GoingOn {
            assert!(Instant::now() < until, "somebody writes the run that was killed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Processes of this run that play that part.
    fn parts(&self, part: &str) -> Vec<i32> {
        let all = self.site.processes().into_iter();
        all.filter(|(_, words)| words.contains(part)).map(|(pid, _)| pid).collect()
    }

    fn channel(&self, node: &str) -> Channel {
        let channels = read_channels(&Paths::of(&self.site.run_directory()).channels(node)).unwrap();
        channels.into_iter().find(|channel| channel.point.as_str() == "work").unwrap()
    }

    /// Fails unless each stamp whose call returned is stored, or removed and noted, and the younger ones are stored.
    fn expect_every_stamp(&self) {
        let run = self.site.opened();
        for (node, returned) in NODES.iter().zip(&self.returned) {
            let (counted, channel) = (returned.word(0), self.channel(node));
            let removed = channel.removed.unwrap_or(0);
            let found = (channel.stored + removed + channel.dropped) as u64;
            // A program that is ended may be in the middle of one more.
            assert!((counted..=counted + 1).contains(&found), "{node}: {counted} returned, {found} found: {channel:?}");
            let stamps = run.stamps(&format!("{node}.work").parse().unwrap()).unwrap();
            assert!(stamps.refused().is_empty(), "{:?}", stamps.refused());
            let all = stamps.read_all().unwrap();
            assert_eq!((all.len() as i64, channel.dropped), (channel.stored, 0), "{node}");
            // One stamp that its program was in the middle of when its segment was written is in the next one.
            let (ids, ticks) = (sorted(all.id), sorted(all.tick));
            assert!(ids[0] <= removed, "{node}: {} is missing, and {removed} went", ids[0]);
            assert!(
                ids[1..].iter().copied().eq(removed + 1..removed + channel.stored),
                "{node}: the newest, each once"
            );
            let note = self.note(node);
            let noted = note.channels().find(|noted| noted.channel == channel.channel).unwrap();
            assert_eq!((noted.stamps, removed > 0), (removed, true), "{node}");
            let hertz = run.manifest().nodes[0].counter.frequency.hertz as i64;
            let window = self.newest(node) - noted.until;
            // What went was older than the window when it did, which is not long after the newest of all stamps.
            assert!(window > hertz / 100 * 75 * SECONDS as i64, "{node}: stamps {window} ticks old are gone");
            assert!(ticks[1] > noted.until, "{node}: {} is older than {noted:?}, which went", ticks[1]);
        }
    }

    /// The newest tick of a node's counter, also of what tickscope itself stamps until the run ends.
    fn newest(&self, node: &str) -> i64 {
        let (run, now) = (self.site.opened(), tickscope_counter::after());
        let channels = read_channels(&Paths::of(&self.site.run_directory()).channels(node)).unwrap();
        let places = channels.iter().map(|channel| format!("{node}.{}", channel.point).parse().unwrap());
        let ticks = places.flat_map(|place| run.stamps(&place).unwrap().read_all().unwrap().tick);
        // Other clocks are in nanoseconds: since a boot they are fewer than its ticks, since 1970 more.
        ticks.filter(|&tick| tick <= now).max().unwrap()
    }

    fn expect_sound(&self) {
        // Two programs that nothing keeps in step may contradict the layout's order: that is a finding, and no fault.
        let ended = self.command(&["check", "--json"]);
        assert!([Some(0), Some(3)].contains(&ended.code), "{ended:?}");
        let checked = ended.json(ended.code.unwrap());
        assert_eq!(checked["faults"], serde_json::json!([]), "{checked}");
        assert_eq!(
            (checked["complete"].as_bool(), checked["state"].as_str()),
            (Some(true), Some("ended")),
            "{checked}"
        );
        let removed: i64 = NODES
            .iter()
            .flat_map(|node| self.note(node).channels().cloned().collect::<Vec<_>>())
            .map(|of| of.stamps)
            .sum();
        assert_eq!(checked["removed"].as_i64(), Some(removed));
        let shown = self.command(&["show", "--json"]);
        assert!([Some(0), Some(3)].contains(&shown.code), "{shown:?}");
        let table = shown.json(shown.code.unwrap());
        assert_eq!((table["removed"].as_i64(), table["window_ms"].as_u64()), (Some(removed), Some(SECONDS * 1000)));
    }
}

fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_unstable();
    numbers
}

fn kill(pids: &[i32]) {
    for &pid in pids {
        // SAFETY: a process of the run that this test started; it may have ended.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

#[test]
fn e2e_a_run_keeps_its_window_is_asked_while_it_goes_on_and_loses_nothing_to_killed_collectors() {
    let scene = Scene::new("kept", false);
    let mut run = scene.start();
    scene.until_removed(1, &mut run);
    let mut removed = BTreeMap::new();
    for round in 1..4 {
        kill(&scene.parts("role collect"));
        scene.until_removed(removed.get("a").copied().unwrap_or(0) + round % 2, &mut run);
        removed.insert("a", scene.note("a").below("work"));
    }
    let shown = scene.command(&["show", "--json"]);
    let table = shown.json(shown.code.unwrap());
    let joined = &table["joined_now"];
    assert_eq!((joined["run"].as_str(), joined["until_unix_ms"].is_i64()), (Some("going-on"), true), "{table}");
    let notes = table["notes"].to_string();
    assert!(notes.contains("the run goes on: figures are of what was stored until 2"), "{notes}");
    assert!(notes.contains("the run keeps the stamps of its last 5s"), "{notes}");
    assert!(table["removed"].as_i64() > Some(0) && table["stages"][0]["count"].as_u64() > Some(0), "{table}");
    let page = scene.command(&["report"]);
    assert!([Some(0), Some(3)].contains(&page.code), "{page:?}");
    let page = fs::read_to_string(scene.site.run_directory().join("report.html")).unwrap();
    assert!(page.contains("This run goes on: the page shows what was stored until 2"));
    let checked = scene.command(&["check"]);
    assert!(
        [Some(0), Some(3)].contains(&checked.code) && checked.out.contains("removed by the run's window"),
        "{checked:?}"
    );
    assert!(run.try_wait().unwrap().is_none(), "the run ended before it was asked");
    scene.interrupt(&mut run);
    assert!(!scene.site.events("collector-killed").is_empty());
    assert_eq!(scene.site.events("parts-missing"), [], "what the window takes is not missed");
    scene.expect_every_stamp();
    scene.expect_sound();
    // What somebody else removes is missed all the same.
    let folder = Paths::of(&scene.site.run_directory()).stamps(&"a.work".parse().unwrap());
    let first = files_in(&folder, "parquet").unwrap().remove(0);
    fs::remove_file(&first).unwrap();
    let checked = scene.command(&["check"]);
    checked.said(1, &[]);
    assert!(checked.out.contains("stamps of channel") && checked.out.contains("no such file"), "{checked:?}");
}

#[test]
fn e2e_a_run_with_a_window_that_was_killed_is_finished_with_every_stamp_stored_or_removed() {
    let scene = Scene::new("kept-killed", false);
    let mut run = scene.start();
    scene.until_removed(3, &mut run);
    run.kill().unwrap();
    run.wait().unwrap();
    scene.until_nobody_writes();
    let finished = scene.command(&["finish", "--json"]);
    assert!([Some(0), Some(3)].contains(&finished.code), "{finished:?}");
    scene.expect_every_stamp();
    scene.expect_sound();
}

#[test]
fn e2e_a_window_holds_behind_pipes_in_the_spool_and_in_the_run_though_collectors_and_run_are_killed() {
    let scene = Scene::new("kept-pipes", true);
    let mut run = scene.start();
    scene.until_removed(1, &mut run);
    let sessions = scene.site.path("state/tickscope/sessions");
    let session = scene.site.opened().manifest().sessions["a"].clone();
    let spool = sessions.join(&session).join("run/stamps/node=a/point=work");
    let parts = files_in(&spool, "parquet").unwrap().len() as u64;
    // An eighth of the window is below a second, which files have at least.
    assert!(parts < SECONDS * 3, "receipts of what went stay in the spool: {parts}");
    let collectors = scene.parts("role collect");
    assert_eq!(collectors.len(), 2);
    kill(&collectors);
    scene.until_removed(scene.note("a").below("work") + 1, &mut run);
    run.kill().unwrap();
    run.wait().unwrap();
    scene.until_nobody_writes();
    std::thread::sleep(Duration::from_secs(1));
    let mut command = tickscope(&["resume"]);
    scene.own_folders(&mut command);
    command.arg(scene.site.run_directory()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut resumed = command.spawn().unwrap();
    while scene.site.events("resumed").is_empty() {
        assert!(resumed.try_wait().unwrap().is_none(), "it was not taken up");
        std::thread::sleep(Duration::from_millis(5));
    }
    scene.until_removed(scene.note("a").below("work") + 1, &mut resumed);
    scene.interrupt(&mut resumed);
    scene.expect_every_stamp();
    scene.expect_sound();
    let number = scene.site.opened().manifest().run;
    assert!(!fs::exists(format!("/dev/shm/tickscope-{number:016x}")).unwrap(), "the killed conductor's folder is left");
    let run = scene.site.run_directory();
    for node in NODES {
        let folder = Paths::of(&run).stamps(&format!("{node}.work").parse().unwrap());
        let below = scene.note(node).below("work");
        let first = files_in(&folder, "parquet").unwrap().remove(0);
        assert!(first.ends_with(format!("part-{below:08}.parquet")), "{node}: what is removed there is gone here");
    }
}

#[test]
fn e2e_what_a_run_will_take_is_said_beforehand_and_a_window_that_is_none_is_refused() {
    let scene = Scene::new("kept-said", false);
    let file = scene.site.path("x.toml");
    fs::write(&file, &scene.text).unwrap();
    let out = scene.site.run_directory();
    let check = |more: &[&str]| Ended::of(tickscope(&["run", "--check", "--out"]).arg(&out).arg(&file).args(more));
    let said = check(&[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for words in [
        "a million stamps",
        "an hour (2 nodes, 1 probed pair)",
        "memory: 16 MB of shared memory",
        "keeping 5s",
        "stamps a second fit",
    ] {
        assert!(said.out.contains(words), "{words}: {said:?}");
    }
    assert!(check(&["--keep", "30m"]).out.contains("keeping 30m, stamps take at most the rate times 1920 s"));
    for wrong in ["4s", "30", "half an hour"] {
        check(&["--keep", wrong]).said(2, &["expected a window from 5s", wrong]);
    }
    fs::write(&file, scene.text.replace("keep = \"5s\"", "keep = 30")).unwrap();
    check(&[]).said(2, &["expected a window such as \"30m\", found 30"]);
    let all = scene.text.replace(", keep = \"5s\"", "");
    fs::write(&file, all).unwrap();
    assert!(check(&[]).out.contains("The run keeps all: --keep WINDOW bounds it"));
    assert!(!out.exists());
}

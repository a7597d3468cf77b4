//! Runs whose nodes are reached through a pipe: `connect = [...]`, with parts killed at moments that nobody chose.
//!
//! Every node has an agent of its own behind `env`, a prefix that runs a command right here: all that ssh would add is
//! the way. Each witness counts the stamps that returned; each of them must be in the run once, or in a count of
//! losses.

mod site;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use site::c_program::{ReturnedCounts, compile_with};
use site::{Ended, Site, few_or_all, free_port, tickscope, within};
use tickscope_store::{Event, EventKind, Paths, RunState, read_channels, write_events};

/// Stamps of each node, enough for its parts to be killed meanwhile.
const STAMPS: u64 = 12_000;
const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A run of five stampers, each with an agent of its own.
struct Scene {
    site: Site,
    returned: Vec<ReturnedCounts>,
    text: String,
}

impl Scene {
    fn new(name: &str, stamps: u64, more: &str) -> Self {
        let stamper = compile_with("cc", "stamper", &[], "stamper");
        let returned: Vec<_> = NODES.iter().map(|node| ReturnedCounts::new(&format!("{name}-{node}"))).collect();
        let mut text = format!(
            "run = {{ name = \"agents\", seconds = 1 }}\n[clock]\nreference = \"a\"\nsame_boot = \"ignore\"\n\
             probe_port = {}\n[layout]\npath = [\"a.work\", \"b.work\", \"c.work\", \"d.work\", \"e.work\"]\n",
            free_port()
        );
        for (number, (node, returned)) in NODES.iter().zip(&returned).enumerate() {
            text += &format!(
                "[[node]]\nname = \"{node}\"\nconnect = [\"env\", \"MARK={name}-{node}\"]\nends_run = {}\n\
                 agent = \"{}\"\naddress = \"127.0.0.{}\"\nfiles = [\"{}\"]\n{more}\n\
                 command = [\"./{}\", \"{}\", \"slow\", \"1\", \"{stamps}\"]\n\
                 environment = {{ TICKSCOPE_BLOCK_BYTES = \"4096\" }}\n",
                *node == "e",
                env!("CARGO_BIN_EXE_tickscope"),
                number + 1,
                stamper.display(),
                stamper.file_name().unwrap().to_str().unwrap(),
                returned.0.display()
            );
        }
        Self { site: Site::new(name), returned, text }
    }

    fn start(&self) -> Child {
        let mut command = self.site.run_command(&self.text);
        self.own_folders(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// What agents keep lies with the test.
    fn own_folders(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.site.path("state")).env("XDG_CACHE_HOME", self.site.path("cache"));
    }

    fn command(&self, words: &[&str]) -> Ended {
        let mut command = tickscope(words);
        self.own_folders(&mut command);
        Ended::of(command.arg("--json").arg(self.site.run_directory()))
    }

    /// Until every node has stamped, and no longer than the run goes on.
    fn until_all_stamp(&self, run: &mut Child) {
        while self.returned.iter().any(|returned| returned.word(0) == 0) {
            assert!(run.try_wait().unwrap().is_none(), "the run ended before its nodes stamped");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the kernel has let go of what the killed process held.
    fn until_nobody_writes(&self) {
        let goes_on = || self.site.opened().state().unwrap() == RunState::GoingOn;
        within("that nobody writes the run that was killed", || (!goes_on()).then_some(()));
    }

    /// Sessions of the run, by node.
    fn sessions(&self) -> Vec<String> {
        self.site.opened().manifest().sessions.values().cloned().collect()
    }

    /// Process ids of a part of an agent of one of these sessions.
    fn parts(&self, part: &str, sessions: &[String]) -> Vec<i32> {
        let marks: Vec<String> = sessions.iter().map(|session| format!("agent {part} --session {session}")).collect();
        processes(|line| marks.iter().any(|mark| line.contains(mark)))
    }

    /// Fails if a stamp whose call returned is neither stored nor counted as dropped. Returns how many were stored.
    fn expect_every_stamp(&self) -> i64 {
        let mut stored = 0;
        for (node, returned) in NODES.iter().zip(&self.returned) {
            let counted = returned.word(0);
            let file = Paths::of(&self.site.run_directory()).channels(node);
            let channels = if file.exists() { read_channels(&file).unwrap() } else { Vec::new() };
            let of_target = channels.iter().filter(|channel| channel.point.as_str() == "work");
            let found: i64 = of_target.clone().map(|channel| channel.stored + channel.dropped).sum();
            assert!((counted..=counted + 1).contains(&(found as u64)), "{node}: {counted} returned, {found} found");
            let counts: i64 = of_target.map(|channel| channel.stored).sum();
            assert_eq!(self.rows(node), counts, "{node}: the rows of its segments, and its channels' count");
            stored += counts;
        }
        stored
    }

    fn rows(&self, node: &str) -> i64 {
        let place = format!("{node}.work").parse().unwrap();
        let stamps = self.site.opened().stamps(&place).unwrap();
        assert!(stamps.refused().is_empty());
        let mut ids = Vec::new();
        stamps.read(i64::MIN..=i64::MAX, |columns| ids.extend_from_slice(&columns.id)).unwrap();
        let rows = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rows, "{node}: no id is stored twice");
        rows as i64
    }

    /// Fails if anything of the run is left outside its directory.
    fn expect_nothing_left(&self, sessions: &[String]) {
        for session in sessions {
            let folder = PathBuf::from(format!("/dev/shm/tickscope-{session}"));
            assert!(!folder.exists(), "{folder:?} is left; it is that of {:?}", programs_of(session));
            assert!(!self.site.path("state/tickscope/sessions").join(session).exists(), "{session}");
        }
        assert_eq!(processes(|line| sessions.iter().any(|session| line.contains(session))), [0; 0]);
        let marks: Vec<String> = self.returned.iter().map(|returned| returned.0.display().to_string()).collect();
        assert_eq!(processes(|line| marks.iter().any(|mark| line.contains(mark))), [0; 0]);
    }
}

impl Drop for Scene {
    /// Nothing of a test that failed goes on.
    fn drop(&mut self) {
        let own = self.site.path("").display().to_string();
        let marks: Vec<String> = self.returned.iter().map(|returned| returned.0.display().to_string()).collect();
        processes(|line| line.contains(&own) || marks.iter().any(|mark| line.contains(mark)))
            .into_iter()
            .for_each(kill);
    }
}

/// Living processes that have a session's folder in their environment: number and command line.
fn programs_of(session: &str) -> Vec<(i32, String)> {
    let line = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
    let environment = |pid: &i32| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let is_of = |pid: &i32| String::from_utf8_lossy(&environment(pid)).contains(session);
    processes(|_| true).into_iter().filter(is_of).map(|pid| (pid, line(&pid))).collect()
}

/// Living processes whose command line is like that.
fn processes(is_wanted: impl Fn(&str) -> bool) -> Vec<i32> {
    let listing = fs::read_dir("/proc").unwrap().flatten();
    let wanted = listing.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let bytes = fs::read(entry.path().join("cmdline")).ok()?;
        is_wanted(&String::from_utf8_lossy(&bytes).replace('\0', " ")).then_some(pid)
    });
    wanted.collect()
}

fn kill(pid: i32) {
    // SAFETY: a process of the run that this test started; it may have ended.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// A number that nobody chose, below `below`.
fn any(below: u64) -> u64 {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    u64::from_ne_bytes(bytes) % below
}

fn code_of(run: Child) -> (Option<i32>, String) {
    let output = run.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn e2e_five_nodes_each_behind_a_pipe_give_one_run() {
    let scene = Scene::new("five", 2000, "");
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let sessions = scene.sessions();
    assert_eq!((sessions.len(), scene.parts("daemon", &sessions).len()), (5, 5));
    let folder = fs::metadata(scene.site.path("state/tickscope/sessions").join(&sessions[0])).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&folder.permissions()) & 0o777, 0o700);
    let (code, said) = code_of(run);
    assert!([Some(0), Some(3)].contains(&code), "{code:?} {said}");
    assert!(scene.expect_every_stamp() > 2000);
    scene.expect_nothing_left(&sessions);
    assert_eq!(scene.site.opened().check().unwrap(), []);
    assert!(scene.site.opened().manifest().sessions.is_empty());
}

#[test]
fn e2e_agents_and_pipes_killed_at_any_moment_lose_no_stamp_and_are_told() {
    let (mut rounds, mut stamps) = (0, 0);
    for round in 0..few_or_all(2, 40) {
        let part = ["daemon", "attach"][round % 2];
        let scene = Scene::new(&format!("{part}-{round}"), STAMPS, "");
        let mut run = scene.start();
        scene.until_all_stamp(&mut run);
        let sessions = scene.sessions();
        std::thread::sleep(Duration::from_micros(any(600_000)));
        let victims = scene.parts(part, &sessions);
        victims.iter().take(1 + round % 3).for_each(|&pid| kill(pid));
        let (_, said) = code_of(run);
        stamps += scene.expect_every_stamp();
        scene.expect_nothing_left(&sessions);
        let what = if part == "daemon" { "agent-restarted" } else { "agent-reached" };
        assert!(victims.is_empty() || !scene.site.events(what).is_empty(), "{part}: {said}");
        rounds += 1;
    }
    println!("{rounds} kills of agents and pipes: {stamps} stamps stored, each once");
}

#[test]
fn e2e_a_run_killed_while_its_nodes_go_on_is_resumed_or_finished_with_every_stamp() {
    for round in 0..few_or_all(2, 40) {
        let scene = Scene::new(&format!("orphaned-{round}"), STAMPS, "");
        let mut run = scene.start();
        scene.until_all_stamp(&mut run);
        let sessions = scene.sessions();
        std::thread::sleep(Duration::from_micros(any(500_000)));
        run.kill().unwrap();
        run.wait().unwrap();
        let before: Vec<u64> = scene.returned.iter().map(|returned| returned.word(0)).collect();
        scene.until_nobody_writes();
        if scene.sessions().is_empty() {
            scene.expect_every_stamp();
            continue; // it had come to its end
        }
        let after = within("stamps while there is no conductor, or all of them", || {
            let after: Vec<u64> = scene.returned.iter().map(|returned| returned.word(0)).collect();
            let went_on = before.iter().zip(&after).any(|(before, after)| after > before);
            (went_on || after[4] == STAMPS).then_some(after)
        });
        let command = ["resume", "finish"][round % 2];
        let ended = scene.command(&[command]);
        assert!([Some(0), Some(3)].contains(&ended.code), "{ended:?}");
        scene.expect_every_stamp();
        scene.expect_nothing_left(&sessions);
        let went_on = before.iter().zip(&after).any(|(before, after)| after > before);
        let full = scene.returned[4].word(0);
        assert!(went_on || full == STAMPS, "nobody stamped while there was no conductor: {before:?} {after:?}");
        if command == "resume" {
            assert_eq!((full, scene.site.events("resumed").len()), (STAMPS, 1), "{ended:?}");
        }
    }
}

#[test]
fn e2e_an_agent_that_nobody_comes_back_to_ends_its_node_at_its_deadline_and_keeps_what_it_has() {
    let scene = Scene::new("deadline", 100_000_000, "deadline = 1.0");
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let sessions = scene.sessions();
    run.kill().unwrap();
    run.wait().unwrap();
    within("the agents' end at their deadline", || scene.parts("daemon", &sessions).is_empty().then_some(()));
    let spool = scene.site.path("state/tickscope/sessions").join(&sessions[0]).join("run/stamps");
    assert!(spool.exists(), "what it has waits in its spool");
    let ended = scene.command(&["finish"]);
    assert!([Some(0), Some(3)].contains(&ended.code), "{ended:?}");
    scene.expect_every_stamp();
    scene.expect_nothing_left(&sessions);
}

/// A machine that can be started anew: a prefix under which the kernel names the boot that stands in a file.
struct Machine {
    boot: PathBuf,
    /// While it is there nobody is let in.
    down: PathBuf,
}

impl Machine {
    /// Puts node `node` of the scene on it.
    fn of(scene: &mut Scene, name: &str, node: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let (boot, program) = (scene.site.path("boot_id"), scene.site.path("machine"));
        let down = scene.site.path("down");
        let within = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        let text = format!(
            "#!/bin/sh\n[ ! -e {} ] || exit 255\nexec unshare -m sh -c '{within}' {} \"$@\"\n",
            down.display(),
            boot.display()
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let plain = format!("connect = [\"env\", \"MARK={name}-{node}\"]");
        assert!(scene.text.contains(&plain));
        scene.text = scene.text.replace(&plain, &format!("connect = [\"{}\"]", program.display()));
        let machine = Self { boot, down };
        machine.begin_boot(1);
        machine
    }

    fn begin_boot(&self, number: u8) {
        fs::write(&self.boot, format!("{number:08x}-0000-4000-8000-000000000000\n")).unwrap();
    }

    fn start_anew(&self, scene: &Scene, session: &str) {
        self.begin_boot(2);
        self.lose_memory(scene, session);
    }

    /// Ends all that lives there, and takes what it had in memory, as when a container is started anew.
    fn lose_memory(&self, scene: &Scene, session: &str) {
        self.go_down(scene, session);
        self.let_in();
    }

    /// Lets in whoever connects.
    fn let_in(&self) {
        fs::remove_file(&self.down).unwrap();
    }

    /// The same, and lets nobody in.
    fn go_down(&self, scene: &Scene, session: &str) {
        fs::write(&self.down, "").unwrap();
        let is_there = |line: &str| line.contains(session) && !line.contains(" attach ");
        // All at one moment: a collector that saw its agent end would take what it can.
        for pid in processes(is_there) {
            // SAFETY: a process of the run that this test started; it may have ended.
            unsafe { libc::kill(pid, libc::SIGSTOP) };
        }
        scene.parts("daemon", &[session.to_owned()]).into_iter().for_each(kill);
        processes(is_there).into_iter().for_each(kill);
        let folder = format!("/dev/shm/tickscope-{session}");
        within("the end of what was killed", || processes(is_there).is_empty().then_some(()));
        let _ = fs::remove_dir_all(folder);
    }
}

#[test]
fn e2e_a_machine_that_is_started_anew_is_lost_to_its_run_and_nothing_of_its_other_counter_gets_in() {
    if tickscope_experiment::may_make_namespaces().is_err() {
        return println!("not tried: boots are named in mount namespaces, which need root");
    }
    for is_killed in [false, true] {
        let name = format!("anew-{is_killed}");
        let mut scene = Scene::new(&name, STAMPS, "");
        let machine = Machine::of(&mut scene, &name, "c");
        let mut run = scene.start();
        scene.until_all_stamp(&mut run);
        let (sessions, of_c) = (scene.sessions(), scene.site.opened().manifest().sessions.clone());
        let of_c = of_c.into_iter().find(|(node, _)| node.as_str() == "c").unwrap().1;
        while scene.rows("c") == 0 {
            assert!(run.try_wait().unwrap().is_none(), "it ended before anything of its nodes was stored");
            std::thread::sleep(Duration::from_millis(20));
        }
        if is_killed {
            run.kill().unwrap();
        }
        machine.start_anew(&scene, &of_c);
        let before = scene.returned[2].word(0);
        let (code, said) = match is_killed {
            false => code_of(run),
            true => {
                run.wait().unwrap();
                scene.until_nobody_writes();
                scene.command(&["resume"]).said(1, &["the machine of node c was started anew", "tickscope finish"]);
                let ended = scene.command(&["finish"]);
                (ended.code, ended.err)
            }
        };
        assert!(said.contains("node c"), "{code:?} {said}");
        assert_eq!(scene.returned[2].word(0), before, "its command is not started again");
        assert!((1..=before as i64).contains(&scene.rows("c")));
        let events = scene.site.events("node-lost");
        assert!(is_killed || events.iter().any(|event| event.text.contains("started anew")), "{said}");
        for (node, returned) in NODES.iter().zip(&scene.returned).filter(|(node, _)| **node != "c") {
            let channels = read_channels(&Paths::of(&scene.site.run_directory()).channels(node)).unwrap();
            let of_target = channels.iter().filter(|channel| channel.point.as_str() == "work");
            let found: i64 = of_target.map(|channel| channel.stored + channel.dropped).sum();
            assert!((returned.word(0)..=returned.word(0) + 1).contains(&(found as u64)), "{node}: {said}");
        }
        let others: Vec<String> = sessions.into_iter().filter(|session| *session != of_c).collect();
        scene.expect_nothing_left(&others);
    }
}

#[test]
fn e2e_a_container_that_is_started_anew_loses_stamps_and_the_run_says_that_it_does_not_know_how_many() {
    if tickscope_experiment::may_make_namespaces().is_err() {
        return println!("not tried: boots are named in mount namespaces, which need root");
    }
    // Nothing keeps the programs in step, so an id may pass their points in the other order: a finding.
    let is_told = |code| [Some(1), Some(3)].contains(&code);
    // A container that is replaced has none of the files that its agent had either.
    for (is_killed, is_replaced) in [(true, false), (false, false), (false, true)].into_iter().take(few_or_all(1, 3)) {
        let name = format!("container-{is_killed}-{is_replaced}");
        let mut scene = Scene::new(&name, STAMPS, "");
        let machine = Machine::of(&mut scene, &name, "c");
        let mut run = scene.start();
        scene.until_all_stamp(&mut run);
        let of_c = scene.site.opened().manifest().sessions.clone();
        let of_c = of_c.into_iter().find(|(node, _)| node.as_str() == "c").unwrap().1;
        within("stored rows of c", || (scene.rows("c") > 0).then_some(()));
        if is_killed {
            run.kill().unwrap();
        }
        machine.go_down(&scene, &of_c);
        if is_replaced {
            fs::remove_dir_all(scene.site.path("state/tickscope/sessions").join(&of_c)).unwrap();
        }
        machine.let_in();
        if is_killed {
            run.wait().unwrap();
            scene.until_nobody_writes();
            let finished = scene.command(&["finish"]);
            let says = finished.code == Some(3) || finished.err.contains("is not known");
            assert!(is_told(finished.code) && says, "{finished:?}");
        } else {
            assert!(is_told(code_of(run).0));
        }
        let told = scene.site.events("memory-lost");
        assert!(!told.is_empty() && told.iter().all(|event| event.node == "c"), "{told:?}");
        let shown = Ended::of(tickscope(&["show"]).arg(scene.site.run_directory()));
        assert!(is_told(shown.code) && shown.out.contains("lost: unknown: "), "{shown:?}");
    }
}

#[test]
fn e2e_a_container_that_is_started_anew_while_its_run_ends_loses_stamps_and_every_way_out_says_so() {
    if tickscope_experiment::may_make_namespaces().is_err() {
        return println!("not tried: boots are named in mount namespaces, which need root");
    }
    let mut scene = Scene::new("container-end", STAMPS, "");
    let machine = Machine::of(&mut scene, "container-end", "c");
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let sessions = scene.site.opened().manifest().sessions.clone();
    let of = |node: &str| sessions.iter().find(|(name, _)| name.as_str() == node).unwrap().1;
    within("stored rows of c", || (scene.rows("c") > 0).then_some(()));
    machine.go_down(&scene, of("c"));
    // With e's command the run ends, and waits for c.
    let of_e = scene.returned[4].0.display().to_string();
    within("the end of e's command", || processes(|line| line.contains(&of_e)).is_empty().then_some(()));
    machine.let_in();
    let (code, said) = code_of(run);
    let is_told = |code| [Some(1), Some(3)].contains(&code);
    assert!(is_told(code) && !said.contains("takes it once that can be mended"), "{code:?} {said}");
    assert!(!scene.site.events("memory-lost").is_empty(), "{said}");
    let run = scene.site.run_directory();
    let shown = Ended::of(tickscope(&["show"]).arg(&run));
    assert!(is_told(shown.code) && shown.out.contains("lost: unknown: "), "{shown:?}");
    let json = Ended::of(tickscope(&["show", "--json"]).arg(&run));
    assert!(is_told(json.code) && json.out.contains("\"lost\": null"), "{json:?}");
    assert!(is_told(Ended::of(tickscope(&["check"]).arg(&run)).code));
    let finished = scene.command(&["finish"]);
    assert!(is_told(finished.code) || finished.out.contains("nothing to do"), "{finished:?}");
    assert!(!scene.site.events("memory-lost").is_empty(), "finish does not make it forgotten");
    scene.expect_nothing_left(&sessions.into_values().collect::<Vec<_>>());
}

#[test]
fn e2e_a_spool_that_is_full_makes_stamps_wait_and_counts_what_finds_no_room() {
    let scene = Scene::new("spool", 20_000, "spool_mb = 0");
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let sessions = scene.sessions();
    let (code, said) = code_of(run);
    assert!([Some(0), Some(1), Some(3)].contains(&code), "{code:?} {said}");
    scene.expect_every_stamp();
    scene.expect_nothing_left(&sessions);
}

/// A run file of one node that is reached in this way.
fn one(site: &Site, connect: &[&str], more: &str) -> Ended {
    let connect: Vec<String> = connect.iter().map(|word| format!("{word:?}")).collect();
    let text = format!(
        "run = {{ name = \"one\", seconds = 1 }}\nclock.reference = \"n\"\n[[node]]\nname = \"n\"\nends_run = true\n\
         connect = [{}]\naddress = \"127.0.0.1\"\ncommand = [\"true\"]\n{more}\n",
        connect.join(", ")
    );
    let mut command = site.run_command(&text);
    command.env("XDG_STATE_HOME", site.path("state")).env("XDG_CACHE_HOME", site.path("cache"));
    Ended::of(&mut command)
}

#[test]
fn e2e_a_node_that_cannot_be_reached_is_an_error_that_says_why_and_what_helps() {
    let site = Site::new("unreachable");
    one(&site, &["/no/such/prefix"], "").said(1, &["cannot reach node n", "cannot start '/no/such/prefix'", "connect"]);
    one(&site, &["false"], "").said(1, &["cannot reach node n", "exit status: 1"]);
    let silent = ["sh", "-c", "exec sleep 1000"];
    one(&site, &silent, "").said(1, &["no answer of a shell within 10 s"]);
    let denied = ["sh", "-c", "echo 'n@host2: Permission denied (publickey).' >&2; exit 255"];
    one(&site, &denied, "").said(1, &["Permission denied", "set up a key that needs none"]);
    let changed = ["sh", "-c", "echo 'Host key verification failed.' >&2; exit 255"];
    one(&site, &changed, "").said(1, &["Host key verification failed", "ssh-keygen -R"]);
    one(&site, &["env"], "agent = \"/no/such/tickscope\"").said(1, &["does not run there", "/no/such/tickscope"]);
    let folder = site.path("bin");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("uname"), "#!/bin/sh\necho riscv64\n").unwrap();
    fs::set_permissions(folder.join("uname"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("PATH={}:{}", folder.display(), std::env::var("PATH").unwrap());
    one(&site, &["env", &path], "").said(1, &["expected Linux on", "riscv64", "agent ="]);
    let noisy = ["sh", "-c", "echo 'Welcome to host2'; echo 'quota: exceeded'; exec cat > /dev/null"];
    one(&site, &noisy, "").said(1, &["cannot reach node n", "it printed: Welcome to host2 / quota: exceeded"]);
    one(&site, &["env"], "files = [\"nowhere\"]").said(2, &["node 'n'", "nowhere", "Correct files"]);
    // Which only the agent there can see.
    one(&site, &["env"], "stamps = \"/no/such\"").said(2, &["node 'n'", "stamp into at /no/such", "Make it"]);
    let sessions = fs::read_dir(site.path("state/tickscope/sessions")).map_or(0, Iterator::count);
    assert_eq!(sessions, 0, "no agent goes on for a run that never began");
}

#[test]
fn e2e_the_program_is_copied_once_past_whatever_login_scripts_print_and_held_against_its_digest() {
    let site = Site::new("copied-program");
    let noisy = ["sh", "-c", "echo 'Welcome to host2'; printf 'no end of line'; exec \"$@\"", "x"];
    let ended = one(&site, &noisy, "");
    assert!(ended.err.contains("expected an id") || ended.code == Some(1), "{ended:?}");
    assert!(!ended.err.contains("cannot reach"), "{ended:?}");
    let cache = site.path("cache/tickscope/agents");
    let copies = || fs::read_dir(&cache).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let [program] = &copies()[..] else { panic!("{:?}", copies()) };
    let whole = fs::read(program).unwrap();
    assert!(program.display().to_string().contains("tickscope-"), "its name is its digest");
    // An agent may still run it, which nobody can write into then.
    let half = program.with_extension("half");
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    fs::set_permissions(&half, fs::metadata(program).unwrap().permissions()).unwrap();
    fs::rename(half, program).unwrap();
    fs::remove_dir_all(site.run_directory()).unwrap();
    assert!(!one(&site, &noisy, "").err.contains("cannot reach"));
    assert_eq!(fs::read(&copies()[0]).unwrap(), whole, "what was changed is copied again");
    let session = site.path("state/tickscope/sessions/0123456789abcdef");
    fs::create_dir_all(session.join("run")).unwrap();
    let mut remove = tickscope(&["agent", "--remove", "--", "env"]);
    remove.env("XDG_CACHE_HOME", site.path("cache")).env("XDG_STATE_HOME", site.path("state"));
    let removed = Ended::of(&mut remove);
    assert!(removed.code == Some(0) && removed.out.contains("removed 1 copied program from"), "{removed:?}");
    assert!(removed.out.contains("removed session 0123456789abcdef") && !session.exists(), "{removed:?}");
    assert_eq!(copies(), Vec::<PathBuf>::new());
}

/// A run whose one node, elsewhere, writes two logs of eight lines and ends, or goes on until the site is removed.
fn logging(site: &Site, goes_on: bool) -> String {
    let folder = site.path("program");
    fs::create_dir(&folder).unwrap();
    let lines = "for id in 1 2 3 4 5 6 7 8; do date +$id,%s%N >> $1; date +$id,%s%N >> late.csv; sleep 0.1; done";
    let then = if goes_on { "while test -e $2; do sleep 0.1; done" } else { ":" };
    fs::write(folder.join("logs.sh"), format!("{lines}; touch $2; {then}")).unwrap();
    format!(
        "run = {{ name = \"far\", seconds = 3000 }}\nclock.reference = \"n\"\n\
         [layout]\npath = [\"n.early\", \"n.late\"]\n\
         [[node]]\nname = \"n\"\nends_run = true\nconnect = [\"env\"]\nagent = \"{}\"\naddress = \"127.0.0.1\"\n\
         files = [\"{}/logs.sh\"]\ncommand = [\"sh\", \"logs.sh\", \"{{run}}/early.csv\", \"{}\"]\n\
         [[log]]\nnode = \"n\"\npoint = \"early\"\nfile = \"{{run}}/early.csv\"\nclock = \"realtime\"\n\
         [[log]]\nnode = \"n\"\npoint = \"late\"\nfile = \"late.csv\"\nclock = \"realtime\"\n",
        env!("CARGO_BIN_EXE_tickscope"),
        folder.display(),
        site.path("written").display()
    )
}

#[test]
fn e2e_the_log_of_a_node_elsewhere_is_fetched_and_taken_in() {
    let site = Site::new("far-log");
    let mut command = site.run_command(&logging(&site, false));
    command.env("XDG_STATE_HOME", site.path("state")).env("XDG_CACHE_HOME", site.path("cache"));
    let ended = Ended::of(&mut command);
    expect_both_logs(&site, &ended.json(0));
}

#[test]
fn e2e_finish_fetches_the_logs_of_a_node_elsewhere_also_where_its_agent_is_gone() {
    // Also where another agent cannot prepare the node again: its directory of stamps is gone too.
    for (is_gone, stamps) in [(false, None), (true, None), (true, Some("stamps"))] {
        let site = Site::new(&format!("far-log-{is_gone}-{}", stamps.is_some()));
        let (mut text, stamps) = (logging(&site, true), stamps.map(|name| site.path(name)));
        if let Some(stamps) = &stamps {
            fs::create_dir(stamps).unwrap();
            text = text.replace("ends_run = true", &format!("ends_run = true\nstamps = {stamps:?}"));
        }
        let mut command = site.run_command(&text);
        command.env("XDG_STATE_HOME", site.path("state")).env("XDG_CACHE_HOME", site.path("cache"));
        let mut run = command.spawn().unwrap();
        while !site.path("written").exists() {
            assert!(run.try_wait().unwrap().is_none(), "it ended early");
            std::thread::sleep(Duration::from_millis(20));
        }
        run.kill().unwrap();
        run.wait().unwrap();
        if is_gone {
            let session = fs::read_dir(site.path("state/tickscope/sessions")).unwrap().next().unwrap().unwrap();
            let session = session.file_name().into_string().unwrap();
            let daemons = || processes(|line| line.contains(&format!("agent daemon --session {session}")));
            within("the end of its agent", || {
                daemons().into_iter().for_each(kill);
                daemons().is_empty().then_some(())
            });
        }
        stamps.iter().for_each(|stamps| fs::remove_dir_all(stamps).unwrap());
        let place = site.run_directory().display().to_string();
        let mut finish = tickscope(&["finish", &place, "--json"]);
        finish.env("XDG_STATE_HOME", site.path("state")).env("XDG_CACHE_HOME", site.path("cache"));
        let ended = Ended::of(&mut finish);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        expect_both_logs(&site, &Ended::of(&mut tickscope(&["show", &place, "--json"])).json(0));
    }
}

fn expect_both_logs(site: &Site, table: &serde_json::Value) {
    assert_eq!(site::count(table, "n.early>n.late"), 8, "{table}");
    assert_eq!(site.events("log").len(), 2);
    let hidden = fs::read_dir(site.run_directory()).unwrap().flatten();
    assert!(!hidden.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(".log")));
}

#[test]
fn e2e_a_second_ctrl_c_waits_for_no_node_that_cannot_be_reached_and_finish_has_its_stamps() {
    let mut scene = Scene::new("insist", STAMPS * 100, "");
    let (broken, program) = (scene.site.path("broken"), scene.site.path("way"));
    fs::write(&program, format!("#!/bin/sh\n[ -e {} ] && exit 1\nexec \"$@\"\n", broken.display())).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let plain = "connect = [\"env\", \"MARK=insist-b\"]";
    assert!(scene.text.contains(plain));
    scene.text = scene.text.replace(plain, &format!("connect = [\"{}\"]", program.display()));
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let sessions = scene.sessions();
    let session = sessions[1].clone(); // of b
    fs::write(&broken, "").unwrap();
    scene.parts("attach", &[session]).into_iter().for_each(kill);
    let interrupt = |run: &Child| {
        // SAFETY: a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGINT) }, 0);
    };
    interrupt(&run);
    // It ends commands, the last first, until it waits for that node.
    let last = scene.returned[4].0.display().to_string();
    within("the end of the last command", || processes(|line| line.contains(&last)).is_empty().then_some(()));
    interrupt(&run);
    let (code, said) = code_of(run);
    assert!(code == Some(1) && said.contains("b was not waited for any longer"), "{code:?} {said}");
    fs::remove_file(&broken).unwrap();
    let ended = scene.command(&["finish"]);
    assert!([Some(0), Some(3)].contains(&ended.code), "{ended:?}");
    scene.expect_every_stamp();
    scene.expect_nothing_left(&sessions);
}

#[test]
fn e2e_an_agent_that_does_not_answer_is_named_and_holds_up_nobody_who_asks() {
    let scene = Scene::new("frozen", STAMPS * 100, "");
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let sessions = scene.sessions();
    let frozen = scene.parts("daemon", &sessions[2..3]); // of c
    assert_eq!(frozen.len(), 1);
    let signal = |signal: i32| {
        frozen.iter().for_each(|&pid| {
            // SAFETY: kill takes numbers alone; the process is one of this test's run.
            assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        })
    };
    let ask = |words: &[&str]| {
        let mut command = tickscope(&words[..1]);
        Ended::of(command.arg(scene.site.run_directory()).args(&words[1..]).arg("--json"))
    };
    let failures = |reply: &serde_json::Value| -> Vec<(String, String)> {
        let failed = reply["nodes"].as_array().unwrap().iter().filter(|node| node["failed"].is_string());
        failed.map(|node| (node["node"].as_str().unwrap().into(), node["failed"].as_str().unwrap().into())).collect()
    };
    loop {
        let status = ask(&["status"]);
        if status.code == Some(0) && failures(&status.json(0)).is_empty() {
            break;
        }
        assert!(run.try_wait().unwrap().is_none(), "it ended before it answered: {status:?}");
        std::thread::sleep(Duration::from_millis(20)); // it does not measure yet
    }
    signal(libc::SIGSTOP);
    let status = ask(&["status"]).json(1);
    let failed = failures(&status);
    assert!(failed.len() == 1 && failed[0].0 == "c" && failed[0].1.contains("did not answer within"), "{status}");
    assert!(status["nodes"][3]["stamps"].as_i64() > Some(0), "the others answer: {status}");
    let policy = ask(&["policy", "work", "null"]).json(1);
    let failed = failures(&policy);
    assert!(failed.len() == 1 && failed[0].0 == "c" && failed[0].1.contains("the rule is kept"), "{policy}");
    signal(libc::SIGCONT);
    loop {
        let channels = ask(&["channels"]);
        let reply: serde_json::Value = serde_json::from_str(&channels.out).unwrap_or_default();
        let of_c = &reply["nodes"][2]["channels"];
        let works = of_c.as_array().into_iter().flatten().filter(|channel| channel["point"] == "work");
        let policies: Vec<_> = works.map(|channel| channel["policy"].as_str().unwrap().to_owned()).collect();
        if policies == ["null"] {
            break; // it was told once it answered
        }
        assert!(run.try_wait().unwrap().is_none(), "{channels:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // SAFETY: a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGINT) }, 0);
    let (code, said) = code_of(run);
    assert!([Some(0), Some(1), Some(3)].contains(&code), "{said}");
    scene.expect_nothing_left(&sessions);
}

/// A run of one node elsewhere whose command leaves a program behind that stamps until it is killed; it ends once there
/// is a file `stamped`.
fn outliving(site: &Site, returned: &ReturnedCounts) -> Command {
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let (program, counts, stamped) = (stamper.display(), returned.0.display(), site.path("stamped"));
    let until = format!("until test -e {}; do sleep 0.01; done", stamped.display());
    let script = format!("setsid {program} {counts} slow 1 0 & {until}");
    let text = format!(
        "run = {{ name = \"outlive\", seconds = 1 }}\nclock.reference = \"n\"\n\
         [[node]]\nname = \"n\"\nends_run = true\n\
         connect = [\"env\"]\nagent = {:?}\naddress = \"127.0.0.1\"\ncommand = [\"sh\", \"-c\", {script:?}]\n\
         environment = {{ TICKSCOPE_BLOCK_BYTES = \"4096\" }}\n",
        env!("CARGO_BIN_EXE_tickscope")
    );
    let mut command = site.run_command(&text);
    command.env("XDG_STATE_HOME", site.path("state")).env("XDG_CACHE_HOME", site.path("cache"));
    command
}

#[test]
fn e2e_a_node_elsewhere_whose_program_outlives_the_run_keeps_its_session_until_all_is_taken() {
    for is_cut_off in [false, true] {
        let name = format!("outlive-{is_cut_off}");
        let (site, returned) = (Site::new(&name), ReturnedCounts::new(&name));
        let mut run = outliving(&site, &returned).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while returned.word(0) < 2000 {
            assert!(run.try_wait().unwrap().is_none(), "it ended early");
            std::thread::sleep(Duration::from_millis(5));
        }
        if is_cut_off {
            run.kill().unwrap();
        }
        fs::write(site.path("stamped"), "").unwrap();
        let (code, said) = code_of(run);
        assert!(is_cut_off || code == Some(1) && said.contains("tickscope finish"), "{code:?} {said}");
        let finish = || {
            let mut command = tickscope(&["finish", "--json"]);
            command.env("XDG_STATE_HOME", site.path("state")).env("XDG_CACHE_HOME", site.path("cache"));
            Ended::of(command.arg(site.run_directory()))
        };
        let ended = finish();
        assert!(ended.code == Some(1) && ended.err.contains("stays in"), "{ended:?}");
        assert_eq!(site.opened().manifest().sessions.len(), 1, "it is asked again");
        let told = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
        assert!(told.err.contains("node n may still hold stamps") || is_cut_off, "{told:?}");
        let mark = returned.0.display().to_string();
        processes(|line| line.contains(&mark)).into_iter().for_each(kill);
        within("the end of what was killed", || processes(|line| line.contains(&mark)).is_empty().then_some(()));
        let ended = finish();
        assert!(!ended.err.contains("stays in"), "{ended:?}");
        assert!(site.opened().manifest().sessions.is_empty(), "{ended:?}");
        let channels = read_channels(&Paths::of(&site.run_directory()).channels("n")).unwrap();
        let of_work = channels.iter().filter(|channel| channel.point.as_str() == "work");
        let found: i64 = of_work.map(|channel| channel.stored + channel.dropped).sum();
        let counted = returned.word(0);
        assert!((counted..=counted + 1).contains(&(found as u64)), "{counted} returned, {found} found");
        assert_eq!(site.opened().check().unwrap(), []);
    }
}

#[test]
fn e2e_what_a_hostile_node_tells_of_others_is_refused_by_name_and_all_else_comes_in() {
    let site = Site::new("hostile-rows");
    let place = site.path("program/events/n+evil.parquet");
    let event = |node: &str, text: &str| Event { node: node.into(), text: text.into(), ..Event::default() };
    write_events(&place, &[event("n", "of itself"), event("run", "of all")]).unwrap();
    let good = site.path("program/events/n+good.parquet");
    write_events(&good, &[event("n", "of itself alone")]).unwrap();
    let text = format!(
        "run = {{ name = \"far\", seconds = 5 }}\nclock.reference = \"n\"\n\
         [[node]]\nname = \"n\"\nends_run = true\nconnect = [\"env\"]\nagent = \"{}\"\naddress = \"127.0.0.1\"\n\
         files = [\"{}\", \"{}\"]\n\
         command = [\"sh\", \"-c\", \"mkdir -p ../run/events; cp n+*.parquet ../run/events/\"]\n",
        env!("CARGO_BIN_EXE_tickscope"),
        place.display(),
        good.display(),
    );
    let mut command = site.run_command(&text);
    let folders = |command: &mut Command| {
        command.env("XDG_STATE_HOME", site.path("state")).env("XDG_CACHE_HOME", site.path("cache"));
    };
    folders(&mut command);
    let ended = Ended::of(&mut command);
    let said = "events/n+evil.parquet of node n is not in the run";
    assert!(ended.err.contains(said) && ended.err.contains("row 1 with the node 'run'"), "{ended:?}");
    let events = site.opened().events().unwrap().found;
    let refused: Vec<_> = events.iter().filter(|event| event.what == EventKind::NodeFileRefused).collect();
    assert!(refused.len() == 1 && refused[0].node == "n" && refused[0].text.contains(said), "{refused:?}");
    assert!(events.iter().all(|event| !["of itself", "of all"].contains(&event.text.as_str())), "{events:?}");
    assert!(events.iter().any(|event| event.text == "of itself alone"), "{events:?}");
    // The file stays where it is, with its session, until somebody has looked at it.
    let sessions: Vec<_> = fs::read_dir(site.path("state/tickscope/sessions")).unwrap().flatten().collect();
    assert!(sessions.len() == 1 && sessions[0].path().join("run/events/n+evil.parquet").exists(), "{sessions:?}");
    // Its agent ends by itself after the run, soon on a machine that has little else to do.
    let until = Instant::now() + Duration::from_secs(120);
    let remove = || {
        let mut remove = tickscope(&["agent", "--remove"]);
        folders(&mut remove);
        Ended::of(&mut remove)
    };
    let mut removed = remove();
    while removed.out.contains("goes on") {
        assert!(Instant::now() < until, "{removed:?}");
        std::thread::sleep(Duration::from_millis(20));
        removed = remove();
    }
    assert!(removed.out.contains("removed session") && !sessions[0].path().exists(), "{removed:?}");
}

#[test]
fn e2e_finish_takes_what_a_program_of_somebody_elses_stamped_where_the_agent_is_gone() {
    let (site, returned) = (Site::new("gone-elsewhere"), ReturnedCounts::new("gone-elsewhere"));
    let stamps = PathBuf::from(format!("/dev/shm/tickscope-e2e-gone-{}", std::process::id()));
    fs::create_dir_all(&stamps).unwrap();
    let text = format!(
        "run = {{ name = \"gone\", seconds = 1000 }}\nclock.reference = \"n\"\n[[node]]\nname = \"n\"\n\
         connect = [\"env\"]\nagent = \"{}\"\naddress = \"127.0.0.1\"\nstamps = \"{}\"\n",
        env!("CARGO_BIN_EXE_tickscope"),
        stamps.display()
    );
    let own = |command: &mut Command| {
        command.env("XDG_STATE_HOME", site.path("state")).env("XDG_CACHE_HOME", site.path("cache"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    };
    let mut command = site.run_command(&text);
    own(&mut command);
    let mut run = command.spawn().unwrap();
    while !stamps.join("collector.lock").exists() {
        assert!(run.try_wait().unwrap().is_none(), "it ended before it collected");
        std::thread::sleep(Duration::from_millis(5));
    }
    let session = site.opened().manifest().sessions.values().next().unwrap().clone();
    run.kill().unwrap();
    run.wait().unwrap();
    processes(|line| line.contains(&format!("agent daemon --session {session}"))).into_iter().for_each(kill);
    let root = site.path("state").display().to_string();
    let is_there = |line: &str| line.contains(&session) || line.contains(&root);
    within("the end of what was killed", || processes(is_there).is_empty().then_some(()));
    let stamper = compile_with("cc", "stamper", &[], "stamper");
    let mut program = Command::new(stamper);
    program.arg(&returned.0).args(["slow", "1", "500"]).env("TICKSCOPE_DIR", &stamps);
    assert!(program.status().unwrap().success());
    let mut finish = tickscope(&["finish"]);
    own(finish.arg(site.run_directory()));
    let ended = finish.status().unwrap();
    let channels = read_channels(&Paths::of(&site.run_directory()).channels("n")).unwrap_or_default();
    let found: i64 = channels.iter().filter(|channel| channel.point.as_str() == "work").map(|of| of.stored).sum();
    assert_eq!(found, 500, "{ended:?}");
    fs::remove_dir_all(stamps).unwrap();
}

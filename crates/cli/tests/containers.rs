//! Nodes in containers: namespaces of their own for processes, mounts, the network and host names, entered as
//! `docker exec` and `kubectl exec` do; programs beside, that something else starts and that outlive the run.

mod site;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use site::c_program::{ReturnedCounts, Running, StampDirectory, compile_with};
use site::{Ended, Site, tickscope};
use tickscope_store::{EventKind, Paths, Run, RunState, read_channels};

/// Namespaces that end with the value. `/dev/shm` is its own; what it shares with others is the volume.
struct Container {
    unshare: Child,
    /// Its first process, as this namespace numbers it.
    init: String,
}

impl Container {
    /// With the volume at `place`.
    fn start(volume: &Path, place: &str) -> Self {
        let volume = volume.display();
        let mounts = format!("mount --bind {volume} {place} && mount -t tmpfs tmpfs /dev/shm");
        let script = format!("{mounts} && echo up; exec sleep 1000000");
        let words = ["-m", "-p", "-f", "-n", "-u", "-i", "--mount-proc", "--kill-child", "sh", "-c", &script];
        let mut unshare = Command::new("unshare").args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(unshare.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "up\n");
        let pid = unshare.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        Self { unshare, init: children.trim().to_owned() }
    }

    /// Words that run a command there.
    fn prefix(&self) -> [&str; 9] {
        ["nsenter", "-t", &self.init, "-m", "-p", "-n", "-u", "-i", "--"]
    }

    /// As `connect` of a run file.
    fn connect(&self) -> String {
        format!(
            "connect = {:?}\nagent = {:?}\naddress = \"127.0.0.1\"\n",
            self.prefix(),
            env!("CARGO_BIN_EXE_tickscope")
        )
    }

    fn command(&self, program: &Path) -> Command {
        let prefix = self.prefix();
        let mut command = Command::new(prefix[0]);
        command.args(&prefix[1..]).arg("env").arg("TICKSCOPE_BLOCK_BYTES=4096").arg(program);
        command
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.unshare.kill(); // its first process ends with it, and all others with that
        let _ = self.unshare.wait();
    }
}

/// Returns whether containers can be made here, and says so where not.
fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("LEFT OUT: namespaces need root");
    }
    root
}

/// A program that stamps 0, 1, ... at "work" until it is killed, and the directory it stamps into.
struct Beside {
    site: Site,
    volume: StampDirectory,
    returned: ReturnedCounts,
    stamper: PathBuf,
}

impl Beside {
    fn new(name: &str) -> Self {
        let (site, volume) = (Site::new(name), StampDirectory::new(name));
        let returned = ReturnedCounts(site.path("returned")); // which containers see, unlike /dev/shm
        fs::write(&returned.0, [0; 512]).unwrap();
        Self { site, volume, returned, stamper: compile_with("cc", "stamper", &[], "stamper") }
    }

    /// Starts it by that command, whose program is the stamper.
    fn start(&self, mut command: Command, directory: &str) -> Running {
        command.env("TICKSCOPE_DIR", directory).env("TICKSCOPE_NODE", "app");
        let child = command.arg(&self.returned.0).args(["slow", "1", "0"]).stdout(Stdio::null()).spawn().unwrap();
        let mut child = Running(child);
        while self.returned.word(0) == 0 {
            assert!(child.0.try_wait().unwrap().is_none(), "it ended before it stamped");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// A run of a second whose one node has those lines; its directory.
    fn run(&self, number: u32, node: &str, seconds: u32) -> (Command, PathBuf) {
        let (file, run) = (self.site.path(&format!("{number}.toml")), self.site.path(&format!("run-{number}")));
        let text = format!(
            "run = {{ name = \"beside\", seconds = {seconds} }}\nclock.reference = \"app\"\n\
             [[node]]\nname = \"app\"\n{node}"
        );
        fs::write(&file, text).unwrap();
        let mut command = tickscope(&["run", "--json"]);
        command.arg(&file).arg("--out").arg(&run);
        self.own_folders(&mut command);
        (command, run)
    }

    fn own_folders(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.site.path("state")).env("XDG_CACHE_HOME", self.site.path("cache"));
    }
}

/// Fails unless the run came to its end and its files are whole. One point makes no stage to show.
fn expect_whole(ended: &Ended, run: &Path) {
    assert!(ended.code == Some(1) && ended.err.contains("it declares no layout"), "{ended:?}");
    let run = Run::open(run).unwrap();
    assert_eq!(run.state().unwrap(), RunState::Ended, "{ended:?}");
    assert_eq!(run.check().unwrap(), []);
    assert!(run.events().unwrap().found.iter().all(|event| event.what != EventKind::StampsLeft), "{ended:?}");
}

/// Ids stored in a run, each once, with nothing dropped.
fn ids(run: &Path) -> Vec<i64> {
    let channels = read_channels(&Paths::of(run).channels("app")).unwrap();
    assert!(channels.iter().all(|channel| channel.dropped == 0), "{channels:?}");
    let mut ids = stored_ids(run).unwrap();
    ids.sort_unstable();
    ids
}

/// Ids stored in a run so far; `None`: there is no run yet, or a file was replaced just now.
fn stored_ids(run: &Path) -> Option<Vec<i64>> {
    let stamps = Run::open(run).ok()?.stamps(&"app.work".parse().unwrap()).ok()?;
    let mut ids = Vec::new();
    stamps.read(i64::MIN..=i64::MAX, |columns| ids.extend_from_slice(&columns.id)).ok()?;
    Some(ids)
}

/// Fails unless the runs together hold 0, 1, ... each once, all that returned and at most one more.
fn expect_each_once(runs: &[PathBuf], returned: u64) {
    let of_each: Vec<Vec<i64>> = runs.iter().map(|run| ids(run)).collect();
    assert!(of_each.iter().all(|ids| !ids.is_empty()));
    let all = of_each.concat();
    let ends: Vec<_> = of_each.iter().map(|ids| (ids[0], ids[ids.len() - 1], ids.len())).collect();
    let wrong = all.iter().zip(0..).find(|&(&id, number)| id != number);
    assert!(wrong.is_none(), "{wrong:?}: an id, and the one expected; first, last and count of each run: {ends:?}");
    assert!((returned..=returned + 1).contains(&(all.len() as u64)), "{} of {returned}", all.len());
}

#[test]
fn e2e_a_sidecar_collects_what_a_container_beside_it_stamps_on_a_shared_volume_run_after_run() {
    if !is_root() {
        return;
    }
    let beside = Beside::new("sidecar");
    let mut application = Some(Container::start(&beside.volume.0, "/mnt"));
    let sidecar = Container::start(&beside.volume.0, "/srv");
    let mut program = beside.start(application.as_ref().unwrap().command(&beside.stamper), "/mnt");
    let node = sidecar.connect() + "stamps = \"/srv\"\n";
    let mut runs = Vec::new();
    for number in 1..=3 {
        if number == 3 {
            drop(application.take()); // with all that goes on in it, by SIGKILL
            program.0.wait().unwrap();
        }
        let (mut command, run) = beside.run(number, &node, 1);
        let ended = Ended::of(&mut command);
        expect_whole(&ended, &run);
        assert!(beside.volume.0.is_dir(), "it is not the run's to remove");
        runs.push(run);
    }
    expect_each_once(&runs, beside.returned.word(0));
    assert!(beside.volume.pools().is_empty(), "the program has ended and all of it is stored");
}

#[test]
fn e2e_a_run_of_programs_that_go_on_is_finished_after_a_kill_and_leaves_them_alone() {
    let beside = Beside::new("go-on");
    let mut plain = Command::new(&beside.stamper);
    plain.env("TICKSCOPE_BLOCK_BYTES", "4096");
    let directory = beside.volume.0.display().to_string();
    let mut program = beside.start(plain, &directory);
    let node = format!("stamps = {directory:?}\n");
    let (mut command, first) = beside.run(1, &node, 3000);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let stored = || stored_ids(&first).map_or(0, |ids| ids.len());
    while stored() < 15_000 {
        assert!(run.try_wait().unwrap().is_none(), "it ended before its time");
        std::thread::sleep(Duration::from_millis(50));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let mut finish = tickscope(&["finish", "--json"]);
    beside.own_folders(&mut finish);
    let ended = Ended::of(finish.arg(&first));
    expect_whole(&ended, &first);
    assert!(program.0.try_wait().unwrap().is_none() && beside.volume.pools().len() == 1, "the program goes on");
    program.0.kill().unwrap();
    program.0.wait().unwrap();
    let (mut command, second) = beside.run(2, &node, 1);
    expect_whole(&Ended::of(&mut command), &second);
    expect_each_once(&[first, second], beside.returned.word(0));
}

#[test]
fn e2e_a_node_elsewhere_without_room_for_a_pool_is_refused_before_anything_starts() {
    if !is_root() {
        return;
    }
    let site = Site::new("no-room");
    let (state, started) = (site.path("state"), site.path("started"));
    let node = |name: &str, more: &str| {
        let agent = env!("CARGO_BIN_EXE_tickscope");
        format!(
            "[[node]]\nname = \"{name}\"\nagent = \"{agent}\"\nends_run = true\n\
             command = [\"touch\", {started:?}]\n{more}\n"
        )
    };
    let mount = "mount -t tmpfs -o size=4m tmpfs /dev/shm && exec \\\"$@\\\"";
    let small = format!("connect = [\"unshare\", \"-m\", \"sh\", \"-c\", \"{mount}\", \"--\"]");
    let run = |pool_bytes: u64| {
        let text = format!(
            "run = {{ name = \"no-room\", seconds = 0.2, pool_bytes = {pool_bytes} }}\nclock.reference = \"wide\"\n\
             {}{}",
            node("wide", "connect = [\"env\"]"),
            node("narrow", &small)
        );
        Ended::of(site.run_command(&text).env("XDG_STATE_HOME", &state))
    };
    let refused = run(8 << 20);
    refused.said(1, &["node 'narrow': expected 8192 KiB free in /dev/shm", "found 40", "set pool_bytes lower"]);
    assert!(!started.exists() && !site.run_directory().exists(), "{refused:?}");
    let begun = run(2 << 20);
    assert!(started.exists(), "it has room for that: {begun:?}");
}

#[test]
fn e2e_commands_in_two_containers_give_one_run_on_one_counter() {
    if !is_root() {
        return;
    }
    let beside = Beside::new("two");
    let [one, other] = ["/mnt", "/srv"].map(|place| Container::start(&beside.volume.0, place));
    let witness = |name: &str| {
        let path = beside.site.path(name);
        fs::write(&path, [0; 512]).unwrap();
        path.display().to_string()
    };
    let node = |name: &str, container: &Container| {
        let ends = name == "b";
        let stamper = beside.stamper.display();
        format!(
            "[[node]]\nname = \"{name}\"\n{}ends_run = {ends}\ncommand = [\"{stamper}\", {:?}, \"threads\", \"2\", \
             \"20000\"]\n",
            container.connect(),
            witness(name)
        )
    };
    let text = format!(
        "run = {{ name = \"two\", seconds = 1 }}\nclock.reference = \"a\"\n[layout]\npath = [\"a.work\", \
         \"b.work\"]\n{}{}",
        node("a", &one),
        node("b", &other)
    );
    let mut command = beside.site.run_command(&text);
    beside.own_folders(&mut command);
    let ended = Ended::of(&mut command);
    assert!([Some(0), Some(3)].contains(&ended.code), "{ended:?}");
    let run = beside.site.opened();
    let boots: Vec<_> = run.manifest().nodes.iter().map(|node| node.boot).collect();
    let related = beside.site.run_directory().join("brackets/reference=a.tsc/domain=b.tsc");
    assert!(boots[0] == boots[1] && !related.exists(), "one boot: one counter");
    for name in ["a", "b"] {
        let channels = read_channels(&Paths::of(run.root()).channels(name)).unwrap();
        let of_work = channels.iter().filter(|channel| channel.point.as_str() == "work");
        assert_eq!(of_work.map(|channel| channel.stored + channel.dropped).sum::<i64>(), 40_000, "{name}");
    }
}

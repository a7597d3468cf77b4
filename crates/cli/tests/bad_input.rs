//! Bad input and bad luck: each is answered with what was expected, what was found and what helps; what was measured
//! stays.
//!
//! Not here: a step of the host's clock. Setting it would disturb the whole machine; how one is seen and told is tested
//! in crate `tick` (`host_clocks::between`) on snapshots that hold one.

mod site;

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use site::c_program::{ReturnedCounts, StampDirectory, compile_with};
use site::{Ended, Experiment, Site, count, stage, tickscope, truth, within};
use tickscope_store::{Pair, Paths, Run, read_events};

/// One run at a time: they would measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static RUNS: Mutex<()> = Mutex::new(());
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run of two seconds, finished.
fn measured(name: &str) -> Site {
    let site = Site::new(name);
    let ran = site.run(&Experiment::new(2.0, 250));
    assert_eq!(count(&ran.json(0), "end-to-end"), 500);
    site
}

#[test]
fn e2e_a_run_file_with_a_typo_is_refused_before_anything_starts() {
    let site = Site::new("typo");
    let text = Experiment::new(1.0, 100).text();
    for (right, wrong) in
        [("probes_hz", "probes_hertz"), ("client.response", "clinet.response"), ("\"unknown\"", "\"x\"")]
    {
        assert!(text.contains(right));
        let ended = Ended::of(&mut site.run_command(&text.replace(right, wrong)));
        ended.said(2, &["experiment.toml", "expected"]);
        assert!(!site.run_directory().exists());
    }
}

#[test]
fn e2e_a_missing_run_file_or_run_is_named() {
    Ended::of(&mut tickscope(&["run", "/no/such/file.toml"]))
        .said(2, &["/no/such/file.toml", "cannot read the run file"]);
    let ended = Ended::of(&mut tickscope(&["show", "/no/such/run"]));
    ended.said(2, &["cannot open the run /no/such/run", "No such file"]);
    let ended = Ended::of(&mut tickscope(&["collect", "/no/such/stamps", "--run", "/no/such/run"]));
    ended.said(2, &["/no/such/stamps", "TICKSCOPE_DIR"]);
}

#[test]
fn e2e_a_source_of_evidence_that_does_not_exist_is_refused_with_those_that_do() {
    let ended = Ended::of(&mut tickscope(&["show", "/no/such/run", "--evidence", "probes,bogus"]));
    ended.said(2, &["bogus", "probes, kernel-probes, messages, kernel-messages"]);
}

#[test]
fn e2e_a_command_that_fails_is_an_event_and_its_message_is_seen() {
    let _alone = alone();
    let site = Site::new("fails");
    let text = Experiment::new(1.0, 100).text().replace("\"--rate\", \"100\"", "\"--rate\", \"no\"");
    let ended = Ended::of(&mut site.run_command(&text));
    ended.said(1, &["expected --rate", "command of client", "failed with exit status"]);
    assert_eq!(site.events("target-failed").len(), 1, "{ended:?}");
}

#[test]
fn e2e_a_command_that_is_killed_leaves_the_table_of_what_it_had_measured() {
    let _alone = alone();
    let site = Site::new("killed-command");
    let mut run = begin(&site, &Experiment::new(60.0, 1000));
    let client = process_of(&mut run, "--rate");
    until_a_block_is_stored(&mut run, &site);
    signal(client, libc::SIGKILL);
    let ended = Ended::from(run.wait_with_output().unwrap());
    ended.said(1, &["command of client", "signal: 9"]);
    let table = ended.json(1);
    let (known, inside) = truth(&table);
    // As many as were stamped before the kill: the client's pool counts them, whatever had been stored by then.
    let counted = |point: &str| {
        let channels = site.opened().channels().unwrap().found.into_iter();
        let of_point = channels.filter(|channel| channel.point.as_str() == point);
        of_point.fold([0, 0], |[stored, dropped], one| [stored + one.stored, dropped + one.dropped])
    };
    let [sent, responses] = ["send", "response"].map(counted);
    assert_eq!((sent[1], responses[1]), (0, 0), "nothing is dropped");
    assert!(responses[0] > 0 && count(&table, "end-to-end") == responses[0] as u64, "{responses:?} {table:#}");
    let missing = stage(&table, "end-to-end")["missing"].as_u64().unwrap();
    assert_eq!(responses[0] as u64 + missing, sent[0] as u64, "each that was sent has a response, or lacks one");
    assert!(known >= 5 * responses[0] as u64 && known == inside, "{inside} of {known}: {table:#}");
    assert_eq!((site.events("target-failed").len(), site.events("recovered").len()), (1, 1));
}

#[test]
fn e2e_a_service_that_ends_by_the_signal_it_is_sent_has_ended_well_and_what_it_started_with_it() {
    let _alone = alone();
    let site = Site::new("service");
    let text = Experiment::new(1.0, 100).text();
    let at = text.find("name = \"server\"").unwrap();
    let file = site.path("pid");
    // The shell becomes a program without a handler; the service proper is a child of it.
    let shell = format!(
        "command = [\"sh\", \"-c\", '\"$@\" --seconds 20 > /dev/null 2>&1 & echo $! > {}; exec sleep 60', \"sh\", ",
        file.display()
    );
    let text = format!("{}{}", &text[..at], text[at..].replacen("command = [", &shell, 1));
    let ended = Ended::of(&mut site.run_command(&text));
    assert_eq!(count(&ended.json(0), "end-to-end"), 100);
    assert_eq!(site.events("target-failed").len(), 0);
    let service = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    assert!(!has_word(service, "server"), "the service goes on after the run");
}

#[test]
fn e2e_a_directory_that_holds_a_run_is_left_as_it_is() {
    let _alone = alone();
    let site = measured("busy");
    let before = fs::read(site.path("run/run.json")).unwrap();
    site.run(&Experiment::new(1.0, 100)).said(2, &["a directory without a run", "give each its own directory"]);
    assert_eq!(fs::read(site.path("run/run.json")).unwrap(), before);
    assert_eq!(count(&site.show(&[]).json(0), "end-to-end"), 500);
}

/// The only file of a folder, or its first.
fn first_of(folder: &Path) -> PathBuf {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().find(|path| path.extension().is_some_and(|found| found == "parquet")).unwrap()
}

/// Half of a file.
fn truncate(file: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
}

/// The same file as of a schema that no version writes: key and value lie in the footer as they are.
fn of_schema(file: &Path, schema: u8) {
    let mut bytes = fs::read(file).unwrap();
    let key = b"tickscope.schema";
    let at = bytes.windows(key.len()).rposition(|window| window == key).unwrap() + key.len();
    let value = bytes[at..].iter().position(|&byte| byte == b'2').unwrap();
    bytes[at + value] = schema;
    fs::write(file, bytes).unwrap();
}

/// The same file without the word that makes it one of ours.
fn foreign(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let key = b"tickscope.schema";
    let at = bytes.windows(key.len()).rposition(|window| window == key).unwrap();
    bytes[at] = b'T';
    fs::write(file, bytes).unwrap();
}

#[test]
fn e2e_a_file_that_cannot_be_read_is_named_and_hides_no_other() {
    let _alone = alone();
    let site = measured("refused");
    let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() };
    let (root, run) = (site.run_directory(), site.opened());
    let across = |known: &Pair| known.reference.node == "client" && known.domain.node == "server";
    let pair = run.pairs().unwrap().found.into_iter().find(across).unwrap_or(pair);
    let brackets = first_of(&run.paths().brackets(&pair));
    let more = |name: &str| brackets.with_file_name(name);
    for name in ["torn.parquet", "newer.parquet", "foreign.parquet"] {
        fs::copy(&brackets, more(name)).unwrap();
    }
    truncate(&more("torn.parquet"));
    of_schema(&more("newer.parquet"), b'9');
    foreign(&more("foreign.parquet"));
    let segment = first_of(&Paths::of(&root).stamps(&"client.send".parse().unwrap()));
    fs::copy(&segment, segment.with_file_name("part-99999999.parquet")).unwrap();
    truncate(&segment.with_file_name("part-99999999.parquet"));
    let channels = Paths::of(&root).channels("server");
    truncate(&channels);
    fs::write(run.paths().events().join("strange.parquet"), "no Parquet at all").unwrap();
    let shown = site.show(&[]);
    shown.said(
        1,
        &[
            "torn.parquet",
            "newer.parquet",
            "foreign.parquet",
            "part-99999999.parquet",
            "node=server.parquet",
            "strange.parquet",
            "do not trust the figures",
        ],
    );
    let table = shown.json(1);
    assert_eq!(count(&table, "end-to-end"), 500);
    let (known, inside) = truth(&table);
    assert!(known > 0 && known == inside);
}

#[test]
fn e2e_torn_traces_and_manifests_are_refused_by_name() {
    let _alone = alone();
    let site = measured("torn");
    let (traces, manifest) = (site.path("run/traces/part-00000000.parquet"), site.path("run/run.json"));
    let whole = fs::read(&traces).unwrap();
    truncate(&traces);
    site.show(&[]).said(1, &["traces/part-00000000.parquet", "expected a complete Parquet file"]);
    fs::write(&traces, whole).unwrap();

    let text = fs::read_to_string(&manifest).unwrap();
    let newer = text.replacen("\"schema\": 2", "\"schema\": 3", 1);
    assert_ne!(newer, text);
    fs::write(&manifest, newer).unwrap();
    site.show(&[]).said(1, &["run.json", "found 3"]);
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    site.show(&[]).said(1, &["run.json", "expected"]);
    fs::write(&manifest, text).unwrap();
    assert_eq!(count(&site.show(&[]).json(0), "end-to-end"), 500);
}

/// A stamper that runs to its end in that directory.
fn stamp(directory: &Path, words: &[&str], more: &[(&str, &str)]) -> Ended {
    let (stamper, returned) = (
        compile_with("cc", "stamper", &[], "stamper"),
        ReturnedCounts::new(&format!("{}-{}", words[0], directory.file_name().unwrap().display())),
    );
    let mut command = Command::new(stamper);
    command.arg(&returned.0).args(words).env("TICKSCOPE_DIR", directory).env("TICKSCOPE_NODE", "node");
    Ended::of(command.envs(more.iter().copied()))
}

/// `collect` into a run of that site.
fn collect(site: &Site, directory: &Path) -> Ended {
    Ended::of(tickscope(&["collect", "--json"]).arg(directory).arg("--run").arg(site.run_directory()))
}

#[test]
fn e2e_a_stamp_directory_without_room_turns_points_off_and_is_an_event() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("LEFT OUT: a tiny tmpfs needs root to mount it");
        return;
    }
    let site = Site::new("tiny");
    let tiny = site.path("tiny");
    fs::create_dir(&tiny).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&tiny).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("LEFT OUT: this root may not mount a tmpfs");
        return;
    }
    let stamped = stamp(&tiny, &["threads", "1", "100"], &[]);
    let collected = collect(&site, &tiny);
    let unmounted = Command::new("umount").arg(&tiny).status();
    stamped.said(0, &["expected", "Points are off", "TICKSCOPE_POOL_BYTES"]);
    assert_eq!(collected.code, Some(0));
    let events = site.events("pool-refused");
    assert!(events.len() == 1 && events[0].text.contains("No space left"), "{events:?}");
    assert!(unmounted.unwrap().success());
}

#[test]
fn e2e_a_stamp_directory_that_may_not_be_written_turns_points_off() {
    let site = Site::new("read-only");
    let directory = site.path("stamps");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o555)).unwrap();
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        println!("LEFT OUT: root may write everywhere");
        return;
    }
    stamp(&directory, &["threads", "1", "100"], &[]).said(0, &["expected", "Points are off"]);
}

/// Children of a process, and theirs: the agent's are the run's.
fn children(pid: u32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let own: Vec<i32> =
        tasks.map(of_task).collect::<String>().split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    own.iter().copied().chain(own.iter().flat_map(|&child| children(child as u32))).collect()
}

fn has_word(pid: i32, word: &str) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|&byte| byte == 0).any(|found| found == word.as_bytes())
}

fn begin(site: &Site, experiment: &Experiment) -> Child {
    let mut command = site.run_command(&experiment.text());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What is awaited of the run, without a limit that a slow machine could miss: what has not come when it ends never
/// will.
fn awaited<T>(run: &mut Child, what: &str, look: impl Fn(u32) -> Option<T>) -> T {
    loop {
        let ended = run.try_wait().unwrap();
        if let Some(found) = look(run.id()) {
            return found;
        }
        if let Some(status) = ended {
            let mut said = [0; 4096]; // one read: what the run started may hold the other end still
            let bytes = run.stderr.as_mut().unwrap().read(&mut said).unwrap();
            panic!("expected {what}, found the run at its end, {status}: {}", String::from_utf8_lossy(&said[..bytes]));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process of the run that has this word in its command line.
fn process_of(run: &mut Child, word: &str) -> i32 {
    let found = |run| children(run).into_iter().find(|&pid| has_word(pid, word));
    awaited(run, &format!("a process with {word}"), found)
}

/// Until the responses to some 1000 packets are in the run's files.
fn until_a_block_is_stored(run: &mut Child, site: &Site) {
    let responses = site.run_directory().join("stamps/node=client/point=response");
    let is_segment = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("part-"))
    };
    let is_stored = || fs::read_dir(&responses).is_ok_and(|mut entries| entries.any(is_segment));
    awaited(run, "stamps of the responses", |_| is_stored().then_some(()));
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: a process that this test started, or a child of one.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn e2e_a_collector_killed_during_a_run_loses_nothing_and_is_told() {
    let _alone = alone();
    let site = Site::new("killed-collector");
    let mut run = begin(&site, &Experiment::new(8.0, 250));
    process_of(&mut run, "--rate"); // the client is there
    until_a_block_is_stored(&mut run, &site);
    signal(process_of(&mut run, "collect"), libc::SIGKILL);
    let table = Ended::from(run.wait_with_output().unwrap()).json(0);
    assert_eq!(count(&table, "end-to-end"), 2000);
    assert_eq!(site.events("collector-killed").len(), 1);
    assert_eq!((site.events("lost").len(), site.events("ids-missing").len()), (0, 0));
}

#[test]
fn e2e_a_collector_that_does_not_end_in_time_is_killed_and_its_stamps_are_kept() {
    let _alone = alone();
    let site = Site::new("stuck-collector");
    let mut run = begin(&site, &Experiment::new(2.0, 250));
    process_of(&mut run, "--rate");
    signal(process_of(&mut run, "collect"), libc::SIGSTOP);
    let ended = Ended::from(run.wait_with_output().unwrap());
    assert_eq!(count(&ended.json(0), "end-to-end"), 500);
    assert_eq!(site.events("collector-killed").len(), 1);
}

#[test]
fn e2e_ctrl_c_keeps_what_was_measured_and_prints_the_table() {
    let _alone = alone();
    let site = Site::new("ctrl-c");
    let mut run = begin(&site, &Experiment::new(60.0, 1000));
    until_a_block_is_stored(&mut run, &site);
    signal(run.id() as i32, libc::SIGINT);
    let ended = Ended::from(run.wait_with_output().unwrap());
    ended.said(1, &["interrupted", "is kept"]);
    let table = ended.json(1);
    let (whole, (known, inside)) = (count(&table, "end-to-end"), truth(&table));
    assert!(whole > 0 && known == inside, "{whole} packets, {inside} of {known}");
    assert_eq!(count(&site.show(&[]).json(0), "end-to-end"), whole);
}

#[test]
fn e2e_stamps_before_open_and_after_close_are_events() {
    let (site, directory) = (Site::new("misuse"), StampDirectory::new("e2e-misuse"));
    assert_eq!(stamp(&directory.0, &["misuse"], &[]).code, Some(0));
    assert_eq!(collect(&site, &directory.0).code, Some(0));
    // Without a channel: one before any was opened, one under a name that is none.
    for (what, count) in [("stamps-without-channel", 2), ("stamps-after-close", 1), ("channels-refused", 1)] {
        let events = site.events(what);
        assert!(
            events.len() == 1 && events[0].value == Some(count) && !events[0].text.is_empty(),
            "{what}: {events:?}"
        );
    }
}

#[test]
fn e2e_a_file_that_is_no_pool_is_told_and_left_alone() {
    let (site, directory) = (Site::new("no-pool"), StampDirectory::new("e2e-no-pool"));
    let strange = directory.0.join("pool-0123456789abcdef.ticks");
    fs::write(&strange, "not a pool").unwrap();
    assert_eq!(stamp(&directory.0, &["threads", "1", "100"], &[]).code, Some(0));
    assert_eq!(collect(&site, &directory.0).code, Some(0));
    assert_eq!(site.events("pool-left-alone").len(), 1);
    assert_eq!(fs::read(&strange).unwrap(), b"not a pool");
    assert_eq!(site.opened().stamps(&"node.work".parse().unwrap()).unwrap().len(), 100, "the others are collected");
    let events = read_events(&first_of(&site.path("run/events"))).unwrap();
    assert!(events.iter().all(|event| !event.text.is_empty()));
}

#[test]
fn e2e_lost_doubled_reordered_and_forged_datagrams_are_counted_and_falsify_nothing() {
    let _alone = alone();
    let site = Site::new("hostile");
    let relayed = Experiment { client_port: 7401, ..Experiment::new(6.0, 250) };
    let address = relayed.addresses.as_ref().unwrap()[0].parse().unwrap();
    let relay = relay::Relay::start(address, [relayed.client_port, relayed.server_port, relayed.probe_port]);
    let ran = site.run(&relayed);
    let did = relay.stop();
    println!("{did:?}");
    let table = ran.json(ran.code.unwrap_or(-1));
    // Two copies of a request are answered twice, and nothing tells which answer is whose: a finding.
    let untold = table["passages"]["untold"].as_u64().unwrap();
    assert_eq!(ran.code, Some(if untold > 0 { 3 } else { 0 }), "{ran:?}");
    assert!(table["passages"]["repeated"].as_u64().unwrap() >= untold);
    assert_eq!(stage(&table, "server.reply>client.response")["refused"].as_u64(), Some(untold));
    let (known, inside) = truth(&table);
    assert!(known > 0 && known == inside, "{inside} of {known}");
    assert!(did.dropped > 10 && did.doubled > 10 && did.late > 10 && did.forged > 10, "{did:?}");
    // Each one that was dropped is a trace without an end, and is told.
    let missing = stage(&table, "end-to-end")["missing"].as_u64().unwrap();
    assert_eq!((count(&table, "end-to-end") + missing, missing), (1500, did.dropped));
    let told = |what: &str, node: &str| -> i64 {
        let events = site.events(what).into_iter().filter(|event| event.node == node);
        events.filter_map(|event| event.value).sum()
    };
    assert!(told("ids-missing", "client") > 0 && told("ids-repeated", "client") > 0);
    assert!(told("ids-out-of-order", "server") + told("ids-out-of-order", "client") > 0);
    assert!(told("datagrams-refused", "server") >= did.forged_probes as i64, "{:?}", site.events("datagrams-refused"));
    let said = site.events("target").into_iter().find(|event| event.text.contains("\"server\"")).unwrap().text;
    assert!(said.contains(&format!("\"strangers\": {}", did.forged)), "{said}, {did:?}");
}

/// A hostile network in between: every hundredth datagram is lost, another doubled, another late; some are forged.
mod relay {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::JoinHandle;
    use std::time::{Duration, Instant};

    #[derive(Debug, Default)]
    pub struct Did {
        pub dropped: u64,
        pub doubled: u64,
        pub late: u64,
        pub forged: u64,
        pub forged_probes: u64,
    }

    pub struct Relay {
        stop: Arc<AtomicBool>,
        thread: JoinHandle<Did>,
    }

    impl Relay {
        /// At the server's address, by the ports on which it listens, the server does, and its probe.
        pub fn start(address: Ipv4Addr, [listen, server, probe]: [u16; 3]) -> Self {
            let near = UdpSocket::bind((address, listen)).unwrap();
            let far = UdpSocket::bind((address, 0)).unwrap();
            far.connect((address, server)).unwrap();
            for socket in [&near, &far] {
                socket.set_nonblocking(true).unwrap();
            }
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = stop.clone();
            let thread = std::thread::spawn(move || work(&near, &far, (address, probe), &stopped));
            Self { stop, thread }
        }

        pub fn stop(self) -> Did {
            self.stop.store(true, Ordering::Relaxed);
            self.thread.join().unwrap()
        }
    }

    fn work(near: &UdpSocket, far: &UdpSocket, probe: (Ipv4Addr, u16), stop: &AtomicBool) -> Did {
        let (mut did, mut client, mut seen) = (Did::default(), None::<SocketAddr>, 0u64);
        let mut late: Vec<(Instant, Vec<u8>)> = Vec::new();
        let mut buffer = [0; 2048];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((bytes, from)) = near.recv_from(&mut buffer) {
                client = Some(from);
                seen += 1;
                let datagram = &buffer[..bytes];
                match seen % 100 {
                    10 => did.dropped += 1,
                    30 => {
                        did.doubled += 1;
                        far.send(datagram).unwrap();
                        far.send(datagram).unwrap();
                    }
                    50 => {
                        did.late += 1;
                        late.push((Instant::now() + Duration::from_millis(20), datagram.to_vec()));
                    }
                    70 => {
                        far.send(datagram).unwrap();
                        forge(far, datagram, probe, &mut did);
                    }
                    _ => far.send(datagram).map(|_| ()).unwrap(),
                }
            }
            late.retain(|(due, datagram)| {
                let waits = Instant::now() < *due;
                if !waits {
                    far.send(datagram).unwrap();
                }
                waits
            });
            while let (Ok(bytes), Some(client)) = (far.recv(&mut buffer), client) {
                near.send_to(&buffer[..bytes], client).unwrap();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        did
    }

    /// The same packet under another token; and a probe's request of another run.
    fn forge(far: &UdpSocket, datagram: &[u8], probe: (Ipv4Addr, u16), did: &mut Did) {
        let mut forged = datagram.to_vec();
        forged[8] ^= 0xff;
        far.send(&forged).unwrap();
        did.forged += 1;
        let mut request = [0u8; 64];
        request[..6].copy_from_slice(b"tsPR\x02\x01");
        request[8..24].fill(0xab);
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&request, probe).unwrap();
        did.forged_probes += 1;
    }
}

#[test]
fn e2e_collectors_of_two_nodes_make_one_run_and_what_is_no_stamp_directory_is_refused_untouched() {
    let (site, directory) = (Site::new("two-collected"), StampDirectory::new("e2e-two-collected"));
    let other = site.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes.txt"), "mine").unwrap();
    assert_eq!(collect(&site, &other).code, Some(2));
    assert!(!site.run_directory().exists() && fs::read_dir(&other).unwrap().count() == 1);
    for node in ["one", "two"] {
        assert_eq!(stamp(&directory.0, &["threads", "1", "100"], &[]).code, Some(0));
        let mut command = tickscope(&["collect", "--json", "--node", node]);
        let ended = Ended::of(command.arg(&directory.0).arg("--run").arg(site.run_directory()));
        assert_eq!(ended.json(0)["stamps"], 100);
    }
    let run = site.opened();
    let manifest = run.manifest();
    assert_eq!(manifest.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(
        manifest.points.iter().map(|point| point.place().to_string()).collect::<Vec<_>>(),
        ["one.work", "two.work"]
    );
    assert!(manifest.run != 0 && manifest.ended_unix_ms.is_some() && manifest.stamp_directories.is_empty());
}

/// `collect` with these words.
fn collect_into(directory: &Path, run: &Path, words: &[&str]) -> Ended {
    Ended::of(tickscope(&["collect", "--json"]).arg(directory).arg("--run").arg(run).args(words))
}

#[test]
fn e2e_stamps_are_not_collected_into_a_run_that_others_made_and_both_stay_whole() {
    let (site, directory) = (Site::new("into-another"), StampDirectory::new("e2e-into-another"));
    assert_eq!(site.run(&Experiment::new(0.5, 250)).code, Some(0));
    assert_eq!(stamp(&directory.0, &["threads", "1", "100"], &[]).code, Some(0));
    for words in [&[][..], &["--node", "client"], &["--node", "client", "--follow"]] {
        let refused = collect_into(&directory.0, &site.run_directory(), words);
        refused.said(2, &["expected a run that collectors made", "--run", "tickscope finish"]);
    }
    assert_eq!(Ended::of(tickscope(&["check"]).arg(site.run_directory())).code, Some(0));
    // A run that begins there has no run.json yet.
    let begins = site.path("begins");
    fs::create_dir(&begins).unwrap();
    let claim = fs::File::create(begins.join(".starting")).unwrap();
    claim.lock().unwrap();
    collect_into(&directory.0, &begins, &[]).said(2, &["expected a run that collectors made", "--run"]);
    drop(claim);
    assert_eq!(collect_into(&directory.0, &site.path("other"), &[]).json(0)["stamps"], 100, "they were left alone");
}

#[test]
fn e2e_a_collection_without_a_stamp_is_no_whole_run_whoever_asks_it() {
    let (site, directory) = (Site::new("empty"), StampDirectory::new("e2e-empty"));
    fs::create_dir_all(&directory.0).unwrap();
    let collected = collect_into(&directory.0, &site.run_directory(), &[]);
    collected.said(0, &["no program has stamped into", "TICKSCOPE_DIR", "--follow"]);
    for command in ["show", "report", "check", "figures"] {
        let asked = Ended::of(tickscope(&[command]).arg(site.run_directory()));
        asked.said(1, &["no stamp is stored in it"]);
    }
}

#[test]
fn e2e_a_collector_beside_another_makes_no_run() {
    let (site, directory) = (Site::new("beside"), StampDirectory::new("e2e-beside"));
    assert_eq!(stamp(&directory.0, &["threads", "1", "100"], &[]).code, Some(0));
    let mut command = tickscope(&["collect", "--follow", "--node", "n"]);
    let mut first =
        command.arg(&directory.0).arg("--run").arg(site.run_directory()).stdout(Stdio::null()).spawn().unwrap();
    let stored = || Run::open(&site.run_directory()).ok()?.stamps(&"n.work".parse().unwrap()).ok();
    within("stamps in the first run", || stored().filter(|stamps| stamps.len() == 100));
    collect_into(&directory.0, &site.path("other"), &[]).said(1, &["another one"]);
    assert!(!site.path("other").exists());
    signal(first.id() as i32, libc::SIGTERM);
    assert!(first.wait().unwrap().success());
}

#[test]
fn e2e_a_collector_that_is_started_again_keeps_the_node_that_the_stamps_had() {
    let (site, directory) = (Site::new("same-node"), StampDirectory::new("e2e-same-node"));
    let (run, stamper) = (site.run_directory(), compile_with("cc", "stamper", &[], "stamper"));
    // It begins before any program says what node it is of, as it does where a service manager starts both.
    let follow = || {
        let mut command = tickscope(&["collect", "--follow"]);
        command.arg(&directory.0).arg("--run").arg(&run).stdout(Stdio::null()).spawn().unwrap()
    };
    let returned = ReturnedCounts::new("same-node");
    let mut first = follow();
    within("the run of the first collector", || Run::open(&run).ok());
    let mut command = Command::new(stamper);
    command.arg(&returned.0).args(["slow", "1", "20000"]).env("TICKSCOPE_DIR", &directory.0);
    let mut program = command.env("TICKSCOPE_NODE", "server").spawn().unwrap();
    let stored = || Run::open(&run).ok()?.stamps(&"node.work".parse().unwrap()).ok().map(|stamps| stamps.len());
    within("stamps in the run", || stored().filter(|&stamps| stamps > 0));
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = follow();
    assert!(program.wait().unwrap().success());
    signal(second.id() as i32, libc::SIGTERM);
    second.wait().unwrap();
    let nodes: Vec<_> = site.opened().manifest().nodes.iter().map(|node| node.name.to_string()).collect();
    assert_eq!((nodes, stored()), (vec!["node".to_owned()], Some(20_000)));
}

#[test]
fn e2e_programs_of_two_nodes_in_one_stamp_directory_are_refused_unless_they_are_given_one_name() {
    let (site, directory) = (Site::new("two-names"), StampDirectory::new("e2e-two-names"));
    let run = site.run_directory();
    let stamp_as =
        |node| assert_eq!(stamp(&directory.0, &["threads", "1", "100"], &[("TICKSCOPE_NODE", node)]).code, Some(0));
    stamp_as("alpha");
    assert_eq!(collect_into(&directory.0, &run, &[]).json(0)["stamps"], 100);
    assert_eq!(site.opened().stamps(&"alpha.work".parse().unwrap()).unwrap().len(), 100);
    ["alpha", "beta"].into_iter().for_each(stamp_as);
    let other = site.path("other");
    collect_into(&directory.0, &other, &[]).said(2, &["alpha, beta", "TICKSCOPE_NODE", "--node NAME"]);
    assert!(!other.exists());
    assert_eq!(collect_into(&directory.0, &other, &["--node", "both"]).json(0)["stamps"], 200);
}

#[test]
fn e2e_each_stamp_of_a_living_program_is_in_one_run_when_the_collectors_run_changes() {
    let (site, directory) = (Site::new("two-runs"), StampDirectory::new("e2e-two-runs"));
    let (stamper, returned) = (compile_with("cc", "stamper", &[], "stamper"), ReturnedCounts::new("two-runs"));
    let mut command = Command::new(stamper);
    command.arg(&returned.0).args(["slow", "1", "20000"]).env("TICKSCOPE_DIR", &directory.0);
    let mut program = command.spawn().unwrap();
    let runs = [site.path("one"), site.path("two")];
    let collect_one = |of: usize| collect_into(&directory.0, &runs[of], &[]).json(0)["stamps"].as_u64().unwrap();
    let mut before = 0;
    while before == 0 {
        before = collect_one(0);
    }
    let alternately: u64 = [1, 0, 1, 0].into_iter().map(collect_one).sum();
    assert!(program.wait().unwrap().success());
    assert_eq!(before + alternately + collect_one(1), 20_000);
    let mut ids = Vec::new();
    for run in &runs {
        let run = tickscope_store::Run::open(run).unwrap();
        assert!(run.faults().unwrap().is_empty());
        ids.extend(run.stamps(&"node.work".parse().unwrap()).unwrap().read_all().unwrap().id);
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..20_000).collect::<Vec<i64>>());
}

//! Probes of a whole run: every two nodes are related, and the keys are nowhere but in the processes.

mod site;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use site::{Ended, Site, free_port};
use tickscope_experiment::may_make_namespaces;
use tickscope_tick::own_points;

/// A run of nodes that sleep; each has a map of its own before its counter, so no two share one.
fn sleepers(nodes: usize, seconds: f64, kind: &str) -> String {
    let mut text = format!(
        "run = {{ name = \"probes\", seconds = {seconds:?} }}\nnetwork.kind = \"{kind}\"\n[clock]\nreference = \"n1\"\n\
         probe_port = {}\n",
        free_port()
    );
    for node in 0..nodes {
        let _ = write!(
            text,
            "[[node]]\nname = \"n{node}\"\ncommand = [\"sleep\", \"{{seconds}}\"]\nends_run = {}\ninject = {{ offset = \
             {}, drift_ppb = {}, wander_ppb = 0, wander_period = 1000000000 }}\n",
            node == 0,
            node * 1_000_000,
            500 * node
        );
    }
    text
}

/// Runs it; every two nodes must have brackets and one rho.
fn expect_every_pair(nodes: usize, site: &Site, seconds: f64) {
    let ended = Ended::of(&mut site.run_command(&sleepers(nodes, seconds, "namespaces")));
    let run = site.opened();
    let pairs = run.pairs().unwrap().found;
    let across: Vec<_> = pairs.iter().filter(|pair| pair.reference.node != pair.domain.node).collect();
    let either: BTreeSet<_> = across
        .iter()
        .map(|pair| [&pair.reference, &pair.domain])
        .map(|mut pair| {
            pair.sort_unstable();
            pair
        })
        .collect();
    assert_eq!((across.len(), either.len()), (nodes * (nodes - 1) / 2, across.len()), "{ended:?}");
    let rho = &run.manifest().rho;
    for &pair in &across {
        let columns = run.brackets(pair).unwrap().found;
        assert!(columns.len() >= 20, "{pair:?}: {} brackets", columns.len());
        let of_pair = |domain: &_| *domain == pair.reference || *domain == pair.domain;
        assert_eq!(rho.iter().filter(|rho| of_pair(&rho.reference) && of_pair(&rho.domain)).count(), 1, "{pair:?}");
    }
    let told = ["impossible-exchange", "role-restarted"];
    assert_eq!(told.map(|what| site.events(what).len()), [0; 2]);
    // On a machine that stands still some replies are late; none is forged.
    let refused = site.events("datagrams-refused");
    assert!(
        refused.iter().all(|event| event.text.contains(": late") || event.text.contains(": unknown-nonce")),
        "{refused:?}"
    );
    // What the kernel stamped of the probes of each two nodes is told apart.
    let channels = run.channels().unwrap().found;
    if channels.iter().any(|channel| channel.point.as_str() == own_points::PROBE_REQUEST_SENT) {
        let names: Vec<_> = run.manifest().nodes.iter().map(|node| node.name.clone()).collect();
        let events = run.events().unwrap().found;
        let messages = tickscope_analysis::MessagePair::of_kernel_probes(&names, &channels);
        let mut served = BTreeSet::new();
        for pair in messages {
            let told = tickscope_analysis::Told { channels: &channels, events: &events, collided: &[] };
            let passages = tickscope_analysis::Passages::of(&run, &pair, None, told).unwrap();
            if !passages.ticks.is_empty() {
                served.insert((pair.from.node.clone(), pair.to.node.clone()));
            }
        }
        assert_eq!(served.len(), nodes * (nodes - 1), "both ways between every two nodes");
    }
}

#[test]
fn e2e_every_two_of_five_nodes_are_related() {
    match may_make_namespaces() {
        Ok(()) => expect_every_pair(5, &Site::new("five"), 1.0),
        Err(why) => println!("not tried: namespaces need rights: {why}"),
    }
}

#[test]
fn e2e_every_two_of_thirty_nodes_are_related() {
    if std::env::var_os("TICKSCOPE_TESTS").is_none_or(|tests| tests != "all") || may_make_namespaces().is_err() {
        println!("not tried: set TICKSCOPE_TESTS=all, as root");
        return;
    }
    expect_every_pair(30, &Site::new("thirty"), 5.0);
}

/// The processes of the run's probes, and the run's own.
fn processes(run: &Child, root: &Path) -> (Vec<u32>, usize) {
    let mut found = vec![run.id()];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains("role\0probe\0") && line.contains(&root.display().to_string()) {
            found.push(pid);
        }
    }
    let probes = found.len() - 1;
    (found, probes)
}

/// The keys that these processes have in their memory, where the first line of their standard input still lies; `None`:
/// it may not be read.
fn keys_in_memory(pids: &[u32]) -> Option<Vec<Vec<u8>>> {
    const BEFORE: &[u8] = b"\"key\":\"";
    let mut keys = BTreeSet::new();
    for pid in pids {
        let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        // Standard input's buffer is on the heap.
        for map in maps.lines().filter(|map| map.ends_with("[heap]")) {
            let (first, rest) = map.split_once('-').unwrap();
            let address = |text: &str| u64::from_str_radix(text, 16).unwrap();
            let (first, last) = (address(first), address(rest.split(' ').next().unwrap()));
            let mut bytes = vec![0; (last - first) as usize];
            let Ok(length) = memory.read_at(&mut bytes, first) else { continue };
            for at in 0..length.saturating_sub(BEFORE.len() + 64) {
                let text = &bytes[at..at + BEFORE.len() + 64];
                let digits = text.strip_prefix(BEFORE).and_then(|text| std::str::from_utf8(text).ok());
                let digit = |at: usize| digits.and_then(|digits| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
                keys.extend((0..64).step_by(2).map(digit).collect::<Option<Vec<u8>>>());
            }
        }
    }
    Some(keys.into_iter().collect())
}

/// Returns whether a key is there, as bytes or as text.
fn holds(bytes: &[u8], keys: &[Vec<u8>]) -> bool {
    keys.iter().any(|key| {
        let text: Vec<u8> = key.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
        [key.as_slice(), &text].iter().any(|wanted| bytes.windows(wanted.len()).any(|window| window == *wanted))
    })
}

fn files_under(folder: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files_under(&path, found) } else { found.extend(fs::read(path)) }
    }
}

#[test]
fn e2e_the_keys_of_the_probes_are_in_no_argument_no_environment_and_no_file() {
    let site = Site::new("keys");
    // It goes on until its keys were seen: each probe reads those of its pairs when it comes to it.
    let mut command = site.run_command(&sleepers(3, 1000.0, "loopback"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = |child: &Child| {
        // SAFETY: the run that this test started, and did not wait for yet.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    };
    let (mut facts, mut keys) = (Vec::new(), BTreeSet::new());
    let until = Instant::now() + Duration::from_secs(60);
    while keys.len() < 3 {
        std::thread::sleep(Duration::from_millis(20));
        assert!(child.try_wait().unwrap().is_none(), "it ended before its keys were seen");
        assert!(Instant::now() < until, "expected a key for each two nodes, found {}", keys.len());
        let (pids, probes) = processes(&child, &site.run_directory());
        if probes < 3 {
            continue;
        }
        let of = |pid| ["cmdline", "environ"].map(|file| fs::read(format!("/proc/{pid}/{file}")).unwrap());
        facts = pids.iter().flat_map(of).collect();
        let Some(found) = keys_in_memory(&pids[1..]) else {
            println!("not tried: the memory of another process may not be read here");
            end(&child);
            child.wait().unwrap();
            return;
        };
        keys.extend(found);
    }
    let keys: Vec<Vec<u8>> = keys.into_iter().collect();
    assert_eq!(keys.len(), 3, "one for each two nodes");
    end(&child);
    assert!(facts.iter().all(|fact| !fact.is_empty() && !holds(fact, &keys)));
    let output = child.wait_with_output().unwrap();
    assert!(!holds(&output.stdout, &keys) && !holds(&output.stderr, &keys));
    let mut files = Vec::new();
    files_under(&site.path(""), &mut files);
    assert!(files.len() > 10 && !files.iter().any(|file| holds(file, &keys)));
}

//! Damaged runs: whatever is done to a run's files, `show` gives the same figures, or says what is wrong first.
//!
//! A small run is written by the crates themselves, damaged in one way at a time, and judged as `tickscope show` judges
//! it, in this process; a sample goes through the command. Once as a run that ended, with digests, and once as one that
//! was cut off, where the files' own digests, their places and the counts have to do. Seeded: a failure prints what was
//! done. Deliberately absent: malice; whoever writes the digests anew is believed.

#[path = "../../store/tests/sample/mod.rs"]
mod sample;
mod site;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use site::{Ended, Site, tickscope};
use tickscope_analysis::{Query, RunJson};
use tickscope_rivals::analyse_and_compare;
use tickscope_show::stage_table;
use tickscope_store::{
    BlockRange, BracketColumns, Channel, ChannelCount, ChannelState, Event, EventKind, Manifest, Nullable, Origin,
    Pair, Run, StampColumns, join_run, next_segment, write_brackets, write_channels, write_events, write_segment,
};
use tickscope_tick::{BootId, Clock, Domain, NodeName, Place, PointName};

/// Every point of the run with its place on the way.
const POINTS: [(&str, &str, i64); 4] =
    [("client", "send", 0), ("client", "sent", 1), ("server", "receive", 2), ("server", "deliver", 3)];
/// Stamps of a part.
const PART: i64 = 40;
const PARTS: i64 = 3;

/// A number that depends on nothing but `seed` and how many were taken (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn stamps(node: &str, place: i64, part: i64, random: &mut Random) -> StampColumns {
    let ahead = if node == "server" { 1_000_000_000 } else { 0 };
    let id: Vec<i64> = (part * PART..(part + 1) * PART).collect();
    let tick = |id: &i64| 5_000_000_000 + ahead + id * 2_500_000 + place * 20_000 + random.below(999) as i64;
    let tick = id.iter().map(tick).collect();
    StampColumns {
        value: id.iter().map(|&id| (place == 2 && id % 10 == 0).then_some(id * 3)).collect(),
        kind: Nullable::nulls(id.len()),
        ..StampColumns::slim(tick, id, vec![place as i32 + 1; PART as usize])
    }
}

fn channel((node, point, place): (&str, &str, i64), run: u64) -> Channel {
    let boot = BootId([if node == "client" { 1 } else { 2 }; 16]);
    Channel {
        channel: place as i32 + 1,
        node: NodeName::new(node).unwrap(),
        pid: 4242,
        process_start: 123_456,
        pool: run + place as u64,
        serial: 0,
        thread: 4243 + place as i32,
        point: PointName::new(point).unwrap(),
        ordering: "before".into(),
        domain: Domain { boot, counter: Clock::Tsc, epoch: 0 }.to_string(),
        policy: "buffered".into(),
        parameter: None,
        stored: PART * PARTS,
        dropped: 0,
        refused: 0,
        uncommitted: 0,
        state: ChannelState::Closed,
        removed: None,
        seen: None,
        counted: None,
        overwritten: None,
        kept: None,
    }
}

fn brackets(part: i64, random: &mut Random) -> BracketColumns {
    let mut brackets = BracketColumns::default();
    for exchange in part * 30..(part + 1) * 30 {
        let (sent, late) = (5_000_000_000 + exchange * 4_000_000, random.below(2000) as i64);
        let there = sent + 1_000_008_000 + late;
        brackets.push_exchange(exchange, [sent, there, there + 100, sent + 20_000 + late], "before/after");
    }
    brackets
}

/// Writes a run; `seed` decides its ticks and its id. `ended`: with its end and its digests.
fn write_run(root: &Path, seed: u64, ended: bool) {
    let random = &mut Random(seed);
    let manifest = Manifest { run: 0xfeed_0000_0000_0000 + seed, ended_unix_ms: None, ..sample::manifest() };
    let mut run = Run::create(root, manifest).unwrap();
    for (node, point, place) in POINTS {
        for part in 0..PARTS {
            let folder = run.paths().stamps(&format!("{node}.{point}").parse::<Place>().unwrap());
            let block = BlockRange { pool: seed + place as u64, serial: 0, first: part as u32, last: part as u32 };
            let count = ChannelCount { channel: place as i32 + 1, stored: PART as u64, ..ChannelCount::default() };
            let origin = Origin { blocks: vec![block], counts: vec![count], ..Origin::default() };
            write_segment(&next_segment(&folder).unwrap(), &stamps(node, place, part, random), &origin).unwrap();
        }
    }
    for node in ["client", "server"] {
        let channels: Vec<_> = POINTS.into_iter().filter(|of| of.0 == node).map(|of| channel(of, seed)).collect();
        write_channels(&run.paths().channels(node), &channels).unwrap();
    }
    for (node, text) in [("client", "7 datagrams of strangers"), ("server", "9 datagrams of strangers")] {
        let what = EventKind::DatagramsRefused;
        let event = Event { node: node.into(), what, value: Some(7), text: text.into(), ..Event::default() };
        write_events(&run.paths().events().join(format!("{node}+probe.parquet")), &[event]).unwrap();
    }
    let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() };
    for part in 0..2 {
        let place = next_segment(&run.paths().brackets(&pair)).unwrap();
        write_brackets(&place, &brackets(part, random)).unwrap();
    }
    join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
    if ended {
        run.set_manifest(Manifest { ended_unix_ms: Some(1_700_000_010_000), ..run.manifest().clone() }).unwrap();
        run.write_digests().unwrap();
    }
}

/// Every file of a run by its path there.
type Files = BTreeMap<String, Vec<u8>>;

fn files(root: &Path) -> Files {
    fn walk(root: &Path, folder: &Path, into: &mut Files) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(root, &path, into),
                // Whoever joins traces into a run holds it; what was written there is nobody's.
                false if path.ends_with("run.lock") => {}
                false => {
                    let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
                    into.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    let mut found = Files::new();
    walk(root, root, &mut found);
    found
}

/// What `tickscope show` makes of a run.
#[derive(PartialEq, Debug)]
enum Shown {
    Figures(String),
    /// Said, with exit code 1: that figures are not to be trusted, or that there are none.
    Said(String),
}

fn shown(root: &Path) -> Shown {
    let said = |e: &dyn std::fmt::Display| Shown::Said(e.to_string());
    let run = match Run::open(root) {
        Ok(run) => run,
        Err(e) => return said(&e),
    };
    let faults = match run.faults() {
        Ok(faults) => faults,
        Err(e) => return said(&e),
    };
    if !faults.is_empty() {
        // The figures are shown below the words, and must not panic; a sample of the damages is enough to see that.
        if faults[0].to_string().len() % 4 == 0 {
            let _ = analyse_and_compare(&run, &Query::default(), false);
        }
        return Shown::Said(faults.iter().map(|fault| format!("{fault}\n")).collect());
    }
    match (analyse_and_compare(&run, &Query::default(), false), run.events()) {
        (Err(e), _) => said(&e),
        (_, Err(e)) => said(&e),
        (Ok((analysis, _)), Ok(_)) if !analysis.refused.is_empty() => said(&analysis.refused[0]),
        (Ok((analysis, rivals)), Ok(events)) => {
            let (events, analysis, rivals) = (&events.found[..], &analysis, &rivals[..]);
            let json = serde_json::to_string(&RunJson::beside(&run, analysis, events, rivals)).unwrap();
            let all = stage_table::Shown { run: &run, analysis, rivals, events, channels: &[] };
            Shown::Figures(json + &stage_table::text(&all, &stage_table::View::default()))
        }
    }
}

/// One kind of damage, by name.
const KINDS: [&str; 14] = [
    "flip 1 bit",
    "flip 1 bit of a footer",
    "flip 8 bits",
    "truncate",
    "zero a range",
    "random bytes in a range",
    "append",
    "swap two files",
    "swap two parts",
    "delete",
    "duplicate",
    "a file of another run",
    "a digit or letter of text",
    "no ordinary file",
];

/// What was done: to which files, and the kind.
struct Damage {
    kind: &'static str,
    files: Vec<String>,
    how: String,
}

/// Damages the run in `root`, which is as `whole` says.
fn damage(root: &Path, whole: &Files, other: &Files, random: &mut Random) -> Damage {
    let names: Vec<&String> = whole.keys().collect();
    let tables: Vec<&String> = names.iter().copied().filter(|name| name.ends_with(".parquet")).collect();
    let texts: Vec<&String> = names.iter().copied().filter(|name| name.ends_with(".json")).collect();
    let kind = *random.of(&KINDS);
    let of = match kind {
        "flip 1 bit of a footer" | "swap two parts" => random.of(&tables),
        "a digit or letter of text" => random.of(&texts),
        _ => random.of(&names),
    };
    let mut bytes = whole[*of].clone();
    let (at, length) = (random.below(bytes.len()), 1 + random.below(200));
    let range = at..(at + length).min(bytes.len());
    let (mut touched, mut how) = (vec![of.to_string()], format!("{range:?}"));
    match kind {
        "flip 1 bit" => bytes[at] ^= 1 << random.below(8),
        "flip 1 bit of a footer" => {
            let at = bytes.len() - 1 - random.below(bytes.len().min(900));
            bytes[at] ^= 1 << random.below(8);
            how = format!("byte {at}");
        }
        "flip 8 bits" => (0..8).for_each(|_| {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }),
        "truncate" => bytes.truncate(at),
        "zero a range" => bytes[range].fill(0),
        "random bytes in a range" => bytes[range].iter_mut().for_each(|byte| *byte = random.next() as u8),
        "append" => (0..length).for_each(|_| bytes.push(random.next() as u8)),
        "a file of another run" => bytes = other[*of].clone(),
        "a digit or letter of text" => how = retype(&mut bytes, random),
        "swap two files" | "swap two parts" => {
            let table = |name: &str| name.split('/').next().map(String::from);
            let mut with = names.clone();
            with.retain(|name| kind == "swap two files" || table(name) == table(of));
            let with = *random.of(&with);
            fs::write(root.join(with), &bytes).unwrap();
            (bytes, how) = (whole[with].clone(), format!("with {with}"));
            touched.push(with.clone());
        }
        "duplicate" => {
            let copies = ["part-00000000.parquet", "part-00000003.parquet", "x.parquet", "node=client.parquet"];
            let copy = Path::new(of).with_file_name(random.of(&copies)).to_str().unwrap().to_string();
            fs::write(root.join(&copy), &bytes).unwrap();
            how = format!("to {copy}");
            touched.push(copy);
        }
        _ => {
            no_file(&root.join(of), if kind == "delete" { 0 } else { 1 + random.below(3) });
            return Damage { kind, files: touched, how };
        }
    }
    if touched.last() != Some(*of) || touched.len() == 1 {
        fs::write(root.join(of), &bytes).unwrap();
    }
    Damage { kind, files: touched, how }
}

/// Changes one letter or digit to another; returns which.
fn retype(bytes: &mut [u8], random: &mut Random) -> String {
    let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_alphanumeric()).collect();
    let at = *random.of(&places);
    let (first, of) = if bytes[at].is_ascii_digit() { (b'0', 10) } else { (b'a', 26) };
    bytes[at] = first + random.below(of) as u8;
    format!("byte {at} becomes {}", bytes[at] as char)
}

/// Removes a file, and puts nothing, a folder, a link or a FIFO in its place.
fn no_file(place: &Path, instead: usize) {
    fs::remove_file(place).unwrap();
    match instead {
        0 => {}
        1 => fs::create_dir(place).unwrap(),
        2 => std::os::unix::fs::symlink("/dev/zero", place).unwrap(),
        _ => {
            let name = std::ffi::CString::new(place.to_str().unwrap()).unwrap();
            // SAFETY: a string that ends in 0.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        }
    }
}

/// Undoes a damage.
fn restore(root: &Path, whole: &Files, damage: &Damage) {
    for name in &damage.files {
        let place = root.join(name);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => fs::remove_dir(&place).unwrap(),
            Ok(_) => fs::remove_file(&place).unwrap(),
            Err(_) => {}
        }
        if let Some(bytes) = whole.get(name) {
            fs::write(&place, bytes).unwrap();
        }
    }
}

/// What nobody can know of a run without digests (docs/run-format.md): that files which nothing else counts are gone.
fn leaves_no_trace(damage: &Damage, ended: bool) -> bool {
    let uncounted = |name: &str| name.starts_with("events/") || name.starts_with("brackets/");
    !ended && damage.kind == "delete" && uncounted(&damage.files[0])
}

/// Whether the words name one of the damaged files, or the table whose counts disagree.
fn names(said: &str, damage: &Damage) -> bool {
    let table = |name: &str| name.split('/').next().unwrap_or_default().to_string();
    // A run.json of another run: its own files then say that they are of the run before.
    let strays = damage.files.iter().any(|name| name == "run.json") && said.contains("found one of run ");
    strays || damage.files.iter().any(|name| said.contains(name.as_str()) || said.contains(&table(name)))
}

/// Damages a run `count` times; returns how often each outcome came, by kind of damage.
fn campaign(site: &Site, seed: u64, ended: bool, count: usize) -> BTreeMap<(&'static str, &'static str), usize> {
    let (root, elsewhere) = (site.path("run"), site.path("other"));
    write_run(&root, 1, ended);
    write_run(&elsewhere, 2, ended);
    let (whole, other) = (files(&root), files(&elsewhere));
    let before = shown(&root);
    assert!(matches!(&before, Shown::Figures(json) if json.contains("end-to-end")), "{before:?}");
    let random = &mut Random(seed);
    let mut outcomes = BTreeMap::new();
    for number in 0..count {
        let damage = damage(&root, &whole, &other, random);
        let after = shown(&root);
        let told = format!("seed {seed}, number {number}: {} {:?} {}", damage.kind, damage.files, damage.how);
        if number % (count / 20).max(1) == 0 {
            judge_by_the_command(&root, [&before, &after], ended, &told);
        }
        let outcome = match &after {
            same if *same == before => "the same figures",
            Shown::Said(said) if names(said, &damage) => "said, naming it",
            Shown::Said(said) => panic!("{told}: said without its name: {said}"),
            Shown::Figures(_) if leaves_no_trace(&damage, ended) => "a deletion without trace",
            Shown::Figures(_) => panic!("{told}: other figures without a word"),
        };
        *outcomes.entry((damage.kind, outcome)).or_default() += 1;
        if number % 500 == 499 {
            report(&format!("{} of {count}, {}", number + 1, if ended { "ended" } else { "cut off" }), &outcomes);
        }
        restore(&root, &whole, &damage);
    }
    assert_eq!(files(&root), whole, "every damage was undone");
    outcomes
}

/// The seed, or another where `TICKSCOPE_SEED` says so.
fn seed(seed: u64) -> u64 {
    let other = std::env::var("TICKSCOPE_SEED").ok().and_then(|other| other.parse::<u64>().ok());
    other.map_or(seed, |other| other.wrapping_add(seed))
}

/// The command ends as the crates judged, and damage that makes ticks contradict one another may be a finding, too. But
/// a directory without `run.json` is no run, which is wrong input, and lost traces are joined by it first.
fn judge_by_the_command(root: &Path, [whole, judged]: [&Shown; 2], ended: bool, told: &str) {
    let is_run = fs::symlink_metadata(root.join("run.json")).is_ok();
    let is_joined = !matches!(judged, Shown::Said(said) if said.contains("cannot find traces in"));
    let found = Ended::of(tickscope(&["show"]).arg(root));
    let expected: &[i32] = match judged {
        _ if !is_run => &[2],
        Shown::Said(_) if is_joined => &[1, 3],
        _ if !ended => &[1], // nobody knows what it lost
        _ => &[0],
    };
    let is_expected = found.code.is_some_and(|code| expected.contains(&code));
    assert!(is_expected, "{told}: expected one of {expected:?}, found {:?}: {}", found.code, found.err);
    assert!(expected == [0] || !found.err.is_empty(), "{told}");
    assert!(is_joined || shown(root) == *whole, "{told}: other figures of traces that were joined again");
}

/// The most memory that this process ever had, in KiB.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn report(which: &str, outcomes: &BTreeMap<(&'static str, &'static str), usize>) {
    for ((kind, outcome), count) in outcomes {
        println!("{which}: {kind}: {outcome}: {count}");
    }
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    outcomes.iter().for_each(|((_, outcome), count)| *sums.entry(outcome).or_default() += count);
    println!("{which}: {sums:?}, at most {} KiB", most_memory());
    assert!(most_memory() < 1 << 20, "a GiB for a run of some kilobytes");
}

#[test]
fn e2e_whatever_is_done_to_the_files_of_an_ended_run_its_figures_are_the_same_or_the_damage_is_said() {
    let site = Site::new("mutations-ended");
    report("ended", &campaign(&site, seed(7), true, site::few_or_all(150, 6000)));
}

#[test]
fn e2e_whatever_is_done_to_the_files_of_a_run_that_was_cut_off_its_figures_are_the_same_or_the_damage_is_said() {
    let site = Site::new("mutations-cut-off");
    report("cut off", &campaign(&site, seed(8), false, site::few_or_all(150, 6000)));
}

#[test]
fn e2e_a_check_says_that_a_run_is_complete_or_what_of_it_is_not() {
    let site = Site::new("check");
    let (ended, cut_off): (PathBuf, PathBuf) = (site.path("ended"), site.path("cut-off"));
    write_run(&ended, 1, true);
    write_run(&cut_off, 1, false);
    let check = |root: &Path, more: &[&str]| Ended::of(tickscope(&["check"]).arg(root).args(more));
    let whole = check(&ended, &[]);
    assert!(whole.code == Some(0) && whole.out.starts_with("complete: 19 files, 480 stamps, "), "{}", whole.out);
    let json = check(&ended, &["--json"]).json(0);
    assert_eq!((&json["version"], &json["complete"], &json["stamps"]), (&1.into(), &true.into(), &480.into()));
    check(&cut_off, &[]).said(1, &["the run was cut off"]);
    assert_eq!(check(&cut_off, &["--json"]).json(1)["state"], "cut-off");
    let gone = ended.join("stamps/node=client/point=send/part-00000001.parquet");
    fs::remove_file(gone).unwrap();
    fs::write(ended.join("notes.txt"), "mine").unwrap();
    let damaged = check(&ended, &[]);
    for said in
        ["no part 1", "80 in the files of stamps/", "part-00000001.parquet: expected ", "notes.txt", "faults in "]
    {
        assert!(damaged.code == Some(1) && damaged.out.contains(said), "{said}: {}", damaged.out);
    }
}

//! A run that is unchanged and asked the same once more is answered by what was kept, and nothing else is.

mod site;

use std::fs::{self, File, Permissions};
use std::hash::Hasher;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use site::{Ended, Site};
use tickscope_store::{
    DIGESTED_AT_EVERY_READING, Digest, Event, KeyedRows, KeyedWriter, Manifest, Run, SCHEMA, write_events,
};

/// Traces of the run: 8 bytes each, more than the least that anything is kept of.
const IDS: i64 = 150_000;
const TICKSCOPE: &str = env!("CARGO_BIN_EXE_tickscope");

/// An ended run of two points of one node, joined.
fn made(root: &Path) -> Run {
    let node = json!({
        "name": "n", "boot": "00000001-0000-0000-0000-000000000000", "cpu_model": "made up", "kernel": "none",
        "counter": {
            "counter": "tsc", "invariant": true, "clocksource": "tsc", "trapped": false,
            "frequency": {"hertz": 2_500_000_000u64, "tolerance_ppm": 100, "origin": "declared"},
            "sharing": {"bound_ticks": null, "checked": "not checked"},
            "reading": {"width_ticks": 1, "seen": "made up"},
        },
    });
    let manifest: Manifest = serde_json::from_value(json!({
        "schema": SCHEMA, "run": "1a00000000000001", "tickscope": "0.1.0", "started_unix_ms": 0, "ended_unix_ms": 1,
        "nodes": [node], "reference": "n.tsc", "layout": {"path": ["n.a", "n.b"]},
    }))
    .unwrap();
    let run = Run::create(root, manifest).unwrap();
    let names = ["n.a", "n.b"].map(String::from);
    let mut writer = KeyedWriter::begin(&run.paths().traces().join("part-00000000.parquet"), &names, &[]).unwrap();
    let scattered = |id: i64| {
        let mixed = (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 34
    };
    let tick = |id: i64| Some((id << 10) + scattered(id) as i64);
    let columns = [0, 1 << 31].map(|later| (0..IDS).map(|id| tick(id + later)).collect());
    writer
        .write(KeyedRows {
            kind: vec![0; IDS as usize],
            id: (0..IDS).collect(),
            occurrence: vec![0; IDS as usize],
            columns: columns.into(),
            ..KeyedRows::default()
        })
        .unwrap();
    writer.finish().unwrap();
    // So large that not every reading holds all its files against their digests.
    File::create(root.join("own.pcap")).unwrap().set_len(DIGESTED_AT_EVERY_READING).unwrap();
    run.write_digests().unwrap();
    run
}

fn show(site: &Site, program: &Path, more: &[&str]) -> Ended {
    let run = site.path("run");
    let mut command = Command::new(program);
    Ended::of(command.arg("show").arg(run).args(more).env("XDG_CACHE_HOME", site.path("cache")))
}

/// The answers that are kept.
fn kept(site: &Site) -> Vec<PathBuf> {
    let folder = fs::read_dir(site.path("cache/tickscope/answers"));
    folder.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Puts words into a kept answer, as nobody but its writer does.
fn marked(place: &Path) {
    let text = fs::read_to_string(place).unwrap();
    let mut answer: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
    answer["text"] = "as kept\n".into();
    let (answer, mut own) = (answer.to_string(), Digest::default());
    own.write(answer.as_bytes());
    fs::write(place, format!("{:032x}\n{answer}", own.finish_128())).unwrap();
}

#[test]
fn e2e_an_unchanged_run_that_is_asked_again_is_answered_by_what_was_kept_and_any_other_is_computed() {
    let site = Site::new("kept-answers");
    let run = made(&site.path("run"));
    let ask = |more: &[&str]| show(&site, TICKSCOPE.as_ref(), more);
    let first = ask(&[]);
    assert!(first.code == Some(0) && first.out.contains("n.a>n.b"), "{first:?}");
    let [place] = kept(&site).try_into().unwrap();
    assert_eq!(place.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let again = ask(&[]);
    assert_eq!((again.code, &again.out, &again.err), (first.code, &first.out, &first.err));
    marked(&place);
    let (is_kept, is_computed) = (|| assert_eq!(ask(&[]).out, "as kept\n"), || assert_eq!(ask(&[]).out, first.out));
    is_kept();
    // Other options, and another program that does the same.
    assert!(ask(&["--wide"]).out.contains("n.a>n.b") && ask(&["--json"]).json(0)["stages"].is_array());
    let other = site.path("tickscope");
    fs::write(&other, [fs::read(TICKSCOPE).unwrap(), b"another".to_vec()].concat()).unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(show(&site, &other, &[]).out, first.out);
    assert_eq!(kept(&site).len(), 4);
    is_kept();

    // A folder that others can write into, and an answer of which a bit changed.
    let folder = place.parent().unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    is_computed();
    fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    is_kept();
    let whole = fs::read(&place).unwrap();
    fs::write(&place, String::from_utf8(whole.clone()).unwrap().replace("as kept", "as kepT")).unwrap();
    is_computed();
    fs::write(&place, &whole).unwrap();

    // A bit of the traces, size and time of modification as they were.
    let traces = run.paths().traces().join("part-00000000.parquet");
    let (bytes, modified) = (fs::read(&traces).unwrap(), traces.metadata().unwrap().modified().unwrap());
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    for (bytes, is_whole) in [(&flipped, false), (&bytes, true)] {
        fs::write(&traces, bytes).unwrap();
        File::options().write(true).open(&traces).unwrap().set_modified(modified).unwrap();
        if is_whole { is_kept() } else { ask(&[]).said(1, &["traces/part-00000000.parquet"]) }
    }

    // Another run, of which the answer would say something else.
    write_events(&run.paths().events().join("more.parquet"), &[Event { node: "n".into(), ..Event::default() }])
        .unwrap();
    assert_ne!(ask(&[]).out, "as kept\n");
    run.write_digests().unwrap();
    assert_ne!(ask(&[]).out, "as kept\n");
}

#[test]
fn e2e_of_a_small_run_nothing_is_kept() {
    let site = Site::new("kept-answers-small");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v2");
    assert!(Command::new("cp").arg("-r").arg(golden).arg(site.path("run")).status().unwrap().success());
    show(&site, TICKSCOPE.as_ref(), &["--json"]).json(0);
    assert_eq!(kept(&site), Vec::<PathBuf>::new());
}

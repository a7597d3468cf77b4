//! A run as large as `make RUN IDS` says, joined already: 10 points on two nodes whose clocks differ in offset and
//! rate, brackets at 1 kHz both ways, an id a microsecond, 1 in 100 missing at each point. `stages RUN` analyses it
//! and says how long that took: the bench of the table of stages, and of whatever stands on it.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use tickscope_store::{BracketColumns, BracketSource, KeyedRows, KeyedWriter, Manifest, Pair, Run};

const POINTS: i64 = 10;
const HERTZ: i64 = 2_500_000_000;
const TICKS_PER_ID: i64 = 2_500;
const PIECE: i64 = 1 << 18;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["make", run, ids] => make(Path::new(run), ids.parse()?),
        ["stages", run] => stages(Path::new(run)),
        _ => Err("expected make RUN IDS or stages RUN".into()),
    }
}

fn stages(root: &Path) -> Result<(), Box<dyn Error>> {
    let run = Run::open(root)?;
    let start = Instant::now();
    let analysis = tickscope_analysis::analyse(&run, &tickscope_analysis::Query::default(), false)?;
    println!("{{\"seconds\": {:.3}, \"stages\": {}}}", start.elapsed().as_secs_f64(), analysis.rows.len());
    Ok(())
}

fn make(root: &Path, ids: i64) -> Result<(), Box<dyn Error>> {
    let run = Run::create(root, manifest()?)?;
    let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() };
    run.add_brackets(&pair, "probe", &brackets(ids))?;
    let names: Vec<String> = (0..POINTS).map(name).collect();
    let mut writer = KeyedWriter::begin(&run.paths().traces().join("part-00000000.parquet"), &names, &[])?;
    for first in (0..ids).step_by(PIECE as usize) {
        let piece = first..ids.min(first + PIECE);
        let rows = (piece.end - piece.start) as usize;
        let column = |point| piece.clone().map(|id| (id % 100 != 7 * point).then(|| stamp(point, id))).collect();
        let columns = (0..POINTS).map(column).collect();
        writer.write(KeyedRows {
            kind: vec![0; rows],
            id: piece.clone().collect(),
            occurrence: vec![0; rows],
            columns,
            ..KeyedRows::default()
        })?;
    }
    println!("{{\"bytes\": {}}}", writer.finish()?);
    run.write_digests()?;
    Ok(())
}

fn name(point: i64) -> String {
    format!("{}.p{point}", if point < POINTS / 2 { "client" } else { "server" })
}

/// 10 000 ticks a point, with jitter of the same size.
fn stamp(point: i64, id: i64) -> i64 {
    let tick = HERTZ + id * TICKS_PER_ID + point * 10_000 + (scattered(id, point) % 4_000) as i64;
    if point < POINTS / 2 { tick } else { at_server(tick) }
}

/// The server's clock stands a second ahead and runs 12.5 ppm fast.
fn at_server(tick: i64) -> i64 {
    tick + HERTZ + tick / 80_000
}

fn brackets(ids: i64) -> BracketColumns {
    let mut brackets = BracketColumns::default();
    let end = HERTZ + ids * TICKS_PER_ID;
    for sent in (HERTZ..end).step_by(HERTZ as usize / 1000) {
        let delay = |of| 20_000 + (scattered(sent, of) % 40_000) as i64;
        let (there, back) = (sent + delay(1), sent + delay(1) + delay(2));
        brackets.push(Some(sent), at_server(there), None, BracketSource::ProbeRequest, "before/after");
        brackets.push(None, at_server(there), Some(back), BracketSource::ProbeReply, "before/after");
    }
    brackets
}

/// A number that depends on both and looks random.
fn scattered(id: i64, of: i64) -> u64 {
    let mixed = (id as u64 ^ (of as u64) << 48).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

fn manifest() -> Result<Manifest, serde_json::Error> {
    let node = |name: &str, boot: u8| {
        json!({
            "name": name, "boot": format!("{boot:08}-0000-0000-0000-000000000000"), "cpu_model": "made up", "kernel": "none",
            "counter": {
                "counter": "tsc", "invariant": true, "clocksource": "tsc", "trapped": false,
                "frequency": {"hertz": HERTZ, "tolerance_ppm": 100, "origin": "declared"},
                "sharing": {"bound_ticks": null, "checked": "not checked"},
                "reading": {"width_ticks": 1, "seen": "made up"},
            },
        })
    };
    serde_json::from_value(json!({
        "schema": tickscope_store::SCHEMA, "run": "1a00000000000001", "tickscope": env!("CARGO_PKG_VERSION"), "started_unix_ms": 0,
        "ended_unix_ms": 1,
        "nodes": [node("client", 1), node("server", 2)], "reference": "client.tsc",
        "layout": {"path": (0..POINTS).map(name).collect::<Vec<_>>()},
    }))
}

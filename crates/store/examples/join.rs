//! The parts of the join's benchmark, each a process of its own so that its time and its memory are its own.
//!
//! - `join make RUN IDS`: a run of 10 points and IDS ids in segments of a million stamps, spaced as a network would:
//!   an id a microsecond or so, some microseconds from point to point, neighbours overtaking each other, 1 in 100
//!   missing.
//! - `join join RUN`: `join_run`: segments read, joined, traces written, with memory kept as commands keep it.
//! - `join scatter RUN`: the floor: the same arrays, already in memory, put into slots by `slot[id] = tick` and nothing
//!   else. Prints the seconds of the scattering alone.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use tickscope_store::{
    LayoutText, Manifest, Origin, Run, SameBoot, StampColumns, join_run, next_segment, thread_cpu_ns, write_segment,
};

#[path = "../../cli/src/memory.rs"]
mod memory;

const POINTS: usize = 10;
const SEGMENT: i64 = 1 << 20;
/// Slots that the join may hold at once, as `tickscope run` lets it.
const BYTES: usize = 512 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["make", run, ids] => make(Path::new(run), ids.parse()?),
        ["join", run] => joined(Path::new(run)),
        ["scatter", run] => scatter(Path::new(run)),
        _ => Err("expected make RUN IDS, join RUN or scatter RUN".into()),
    }
}

fn layout() -> LayoutText {
    let path = (0..POINTS).map(|point| format!("node.p{point}")).collect();
    LayoutText { path, ..LayoutText::default() }
}

fn make(root: &Path, ids: i64) -> Result<(), Box<dyn Error>> {
    let run = Run::create(root, manifest()?)?;
    let mut bytes = 0;
    for point in 0..POINTS {
        let folder = run.paths().stamps(&format!("node.p{point}").parse().unwrap());
        for first in (0..ids).step_by(SEGMENT as usize) {
            let stamps = stamps(point as i64, first, ids.min(first + SEGMENT));
            bytes += write_segment(&next_segment(&folder)?, &stamps, &Origin::default())?;
        }
    }
    println!("{{\"bytes\": {bytes}}}");
    Ok(())
}

/// The stamps of the ids from `first` to before `end`, in the order that they pass a point: groups of 64 are shuffled.
fn stamps(point: i64, first: i64, end: i64) -> StampColumns {
    let passing = (first..end).map(|number| number ^ scattered(number >> 6, 0) as i64 & 63);
    let id: Vec<i64> = passing.filter(|id| id % 100 != 7 * point && *id < end).collect();
    let tick = id.iter().map(|&id| tick(point, id)).collect();
    let channel = vec![point as i32; id.len()];
    StampColumns::slim(tick, id, channel)
}

/// An id each 2 500 ticks (1 us at 2.5 GHz), 10 000 ticks a point, with jitter of the same sizes.
fn tick(point: i64, id: i64) -> i64 {
    let jitter = |span: u64, of: i64| (scattered(id, of) % span) as i64;
    1_000_000_000_000 + id * 2_500 + jitter(2_500, 0) + point * 10_000 + jitter(4_000, point)
}

/// A number that depends on both and looks random.
fn scattered(id: i64, of: i64) -> u64 {
    let mixed = (id as u64 ^ (of as u64) << 48).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

fn joined(root: &Path) -> Result<(), Box<dyn Error>> {
    memory::reuse_freed();
    let joined = join_run(&Run::open(root)?, &layout(), BYTES, &|_, _| true)?;
    let stamps: u64 = joined.counts.points.iter().map(|point| point.stamps).sum();
    println!(
        "{{\"stamps\": {stamps}, \"traces\": {}, \"complete\": {}}}",
        joined.counts.traces, joined.counts.complete
    );
    Ok(())
}

fn scatter(root: &Path) -> Result<(), Box<dyn Error>> {
    let run = Run::open(root)?;
    let (mut seconds, mut cpu_ns, mut stamps) = (0.0, 0, 0);
    for point in 0..POINTS {
        let all = run.stamps(&format!("node.p{point}").parse().unwrap())?.read_all()?;
        let most = all.id.iter().max().map_or(0, |&id| id as usize + 1);
        let (start, before) = (Instant::now(), thread_cpu_ns());
        let mut slots = vec![0i64; most];
        all.id.iter().zip(&all.tick).for_each(|(&id, &tick)| slots[id as usize] = tick);
        black_box(&slots);
        seconds += start.elapsed().as_secs_f64();
        cpu_ns += thread_cpu_ns() - before;
        stamps += all.len();
    }
    let cpu_seconds = cpu_ns as f64 / 1e9;
    println!("{{\"stamps\": {stamps}, \"scatter_seconds\": {seconds}, \"scatter_cpu_seconds\": {cpu_seconds}}}");
    Ok(())
}

/// A run that nobody declared: its points are found in its folders.
fn manifest() -> Result<Manifest, Box<dyn Error>> {
    Ok(Manifest {
        schema: tickscope_store::SCHEMA,
        run: 0,
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: 0,
        stamp_directories: std::collections::BTreeMap::new(),
        sessions: std::collections::BTreeMap::new(),
        run_file: None,
        run_file_directory: None,
        revision: None,
        ended_unix_ms: None,
        nodes: Vec::new(),
        reference: "node.tsc".parse().unwrap(),
        rho: Vec::new(),
        evidence: Default::default(),
        same_boot: SameBoot::Detect,
        points: Vec::new(),
        policies: Vec::new(),
        dumps: Vec::new(),
        limits: Vec::new(),
        layout: layout(),
        assumptions: Vec::new(),
        seconds: None,
        began: None,
        keep_ms: None,
        storage: None,
        segments: Default::default(),
        cost: None,
    })
}

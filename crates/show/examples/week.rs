//! `week RUN [SECONDS]`: a simulated week of two machines as a run, and its page: our bound, the published relation of
//! two points, and what an NTP daemon states of both clocks, over the same week (Cloudprofiler's figure 1).
//!
//! The server's counter runs 12.3 ppm fast and wanders by 0.95 ppm about that. Probes ask once a second, but for some
//! hours in the middle in which they are dead, and in bursts before and after the week. An NTP daemon on each machine
//! asks a server elsewhere once in 64 s, over a network that is busy by day; it states what chrony would of the best of
//! its last eight answers.

use std::error::Error;
use std::path::Path;

use serde_json::json;
use tickscope_analysis::{Analysis, Query};
use tickscope_rivals::{NodeRivals, draw_and_compare};
use tickscope_show::Report;
use tickscope_store::{
    BracketColumns, KeyedRows, KeyedWriter, Manifest, Pair, RivalColumns, RivalSample, Run, next_segment, write_rivals,
    write_whole,
};
use tickscope_tick::Injection;

const HERTZ: i64 = 2_500_000_000;
const WEEK_S: i64 = 7 * 24 * 3600;
/// The server's map: offset, rate, and a wander that comes back after 6.7 h.
const SERVER: &str = "0:1000000000000000:12345:950:60000000000000";
/// Exchanges before the week, and as many after it.
const BURST: i64 = 200;
/// Time between two polls of an NTP daemon, and between two packets of the target.
const POLL_S: i64 = 64;
const PACKET_S: i64 = 60;
/// A daemon remembers so many answers, and takes its clock to wander by so much.
const REMEMBERED: usize = 8;
const WANDERS_PPM: i64 = 15;
const POINTS: [&str; 4] = ["client.send", "server.received", "server.reply", "client.response"];

#[allow(dead_code, clippy::print_stdout, reason = "a test has this file as a module; what was found is printed")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (root, seconds) = match words[..] {
        [run] => (run, WEEK_S),
        [run, seconds] => (run, seconds.parse()?),
        _ => return Err("expected the directory of the run to make, and perhaps its seconds".into()),
    };
    let run = simulated(Path::new(root), seconds)?;
    let (_, rivals, html) = page(&run)?;
    write_whole(&run.paths().report(), html.as_bytes())?;
    for method in rivals.iter().flat_map(|node| &node.methods) {
        let told = json!({
            "method": method.name, "bound": method.bound, "half_width": method.half_width,
            "error_ns": method.error_ns, "outside": method.outside, "samples": method.samples,
        });
        println!("{told}");
    }
    println!("page: {}", run.paths().report().display());
    Ok(())
}

/// A run of so many simulated seconds at `root`.
pub fn simulated(root: &Path, seconds: i64) -> Result<Run, Box<dyn Error>> {
    let world = World { server: SERVER.parse()?, seconds };
    let mut random = Random(7);
    let run = Run::create(root, manifest()?)?;
    let pair = Pair { reference: "client.tsc".parse()?, domain: "server.tsc".parse()? };
    run.add_brackets(&pair, "part-00000000", &world.exchanges(&mut random))?;
    for node in ["client", "server"] {
        let samples = world.ntp(node == "server", &mut random);
        write_rivals(&next_segment(&run.paths().rivals(node))?, &samples)?;
    }
    let names = POINTS.map(String::from);
    let mut writer = KeyedWriter::begin(&run.paths().traces().join("part-00000000.parquet"), &names, &[])?;
    writer.write(world.packets(&mut random))?;
    writer.finish()?;
    Ok(run)
}

/// What the run's files say, what other methods say, and its page.
pub fn page(run: &Run) -> Result<(Analysis, Vec<NodeRivals>, String), Box<dyn Error>> {
    let (analysis, figures, rivals) = draw_and_compare(run, &Query::default(), |_| Ok(()))?;
    let (events, channels) = (run.events()?, run.channels()?);
    let report = Report {
        run,
        analysis: &analysis,
        rivals: &rivals,
        figures: &figures,
        events: &events.found,
        channels: &channels.found,
        counted: &[],
        age: None,
    };
    let html = report.html()?;
    Ok((analysis, rivals, html))
}

/// True time is the client's counter, in ticks.
struct World {
    server: Injection,
    seconds: i64,
}

impl World {
    fn exchanges(&self, random: &mut Random) -> BracketColumns {
        let (mut columns, mut number) = (BracketColumns::default(), 0);
        let mut exchange = |at: i64| {
            let received = at + random.way();
            let reply = received + 2_500;
            let response = reply + random.way();
            let [t2, t3] = [received, reply].map(|tick| self.server.apply(tick));
            columns.push_exchange(number, [at, t2, t3, response], "before/after");
            number += 1;
            response
        };
        // In a burst the next one follows at once.
        (0..BURST).fold(0, |at, _| exchange(at) + 25_000);
        // Both probes were killed, and started again hours later.
        let dead = self.seconds / 2..self.seconds / 2 + self.seconds / 28;
        for second in (2..self.seconds - 2).filter(|second| !dead.contains(second)) {
            exchange(second * HERTZ + second * 7919 % 1000 * (HERTZ / 2000));
        }
        (0..BURST).fold(self.seconds * HERTZ, |at, _| exchange(at) + 25_000);
        columns
    }

    /// What a daemon states at each of its polls.
    fn ntp(&self, of_server: bool, random: &mut Random) -> RivalColumns {
        let (mut columns, mut answers) = (RivalColumns::default(), Vec::<Answer>::new());
        for at_s in (POLL_S..self.seconds - 2).step_by(POLL_S as usize) {
            answers.push(Answer::over_a_network(at_s, random));
            let known = &answers[answers.len().saturating_sub(REMEMBERED)..];
            let Some(best) = known.iter().min_by_key(|answer| answer.distance_ns(at_s)) else { continue };
            let read = |tick: i64| if of_server { self.server.apply(tick) } else { tick };
            let wandered = best.dispersion_ns(at_s) * random.either_way() / 1000;
            columns.push(RivalSample {
                program: "NTP".into(),
                variant: "a daemon that asks every 64 s".into(),
                before: read(at_s * HERTZ),
                after: read(at_s * HERTZ + 250_000),
                state: RivalSample::NORMAL.into(),
                offset_ns: best.error_ns + wandered,
                delay_ns: Some(best.delay_ns),
                dispersion_ns: Some(best.dispersion_ns(at_s)),
                frequency_ppb: None,
                residual_ppb: None,
                skew_ppb: None,
            });
        }
        columns
    }

    fn packets(&self, random: &mut Random) -> KeyedRows {
        let mut columns = vec![Vec::new(); POINTS.len()];
        for at_s in (2..self.seconds - 2).step_by(PACKET_S as usize) {
            let sent = at_s * HERTZ;
            let received = sent + random.way();
            let reply = received + 50_000;
            let ticks = [sent, self.server.apply(received), self.server.apply(reply), reply + random.way()];
            columns.iter_mut().zip(ticks).for_each(|(column, tick)| column.push(Some(tick)));
        }
        let rows = columns[0].len();
        KeyedRows {
            kind: vec![0; rows],
            id: (0..rows as i64).collect(),
            occurrence: vec![0; rows],
            columns: columns.into_iter().map(|column| column.into_iter().collect()).collect(),
            ..KeyedRows::default()
        }
    }
}

/// What a time server elsewhere answered.
struct Answer {
    at_s: i64,
    delay_ns: i64,
    /// By how much it was off, since one way took longer: at most half the delay.
    error_ns: i64,
}

impl Answer {
    fn over_a_network(at_s: i64, random: &mut Random) -> Self {
        let hour = at_s / 3600 % 24;
        let busy = if (9..18).contains(&hour) { 40_000_000 } else { 4_000_000 };
        let waited = if random.below(4) == 0 { random.below(busy) } else { random.below(busy / 20) };
        Self { at_s, delay_ns: 1_800_000 + waited, error_ns: waited / 2 * random.either_way() / 1000 }
    }

    fn dispersion_ns(&self, now_s: i64) -> i64 {
        1_000 + (now_s - self.at_s) * WANDERS_PPM * 1000
    }

    fn distance_ns(&self, now_s: i64) -> i64 {
        self.dispersion_ns(now_s) + self.delay_ns / 2
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end.max(1) as u64) as i64
    }

    /// From -1000 to 1000.
    fn either_way(&mut self) -> i64 {
        self.below(2001) - 1000
    }

    /// Ticks of one way: 30 to 40 us, and one in twenty up to a millisecond.
    fn way(&mut self) -> i64 {
        let queue = if self.below(20) == 0 { self.below(2_500_000) } else { 0 };
        75_000 + self.below(25_000) + queue
    }
}

fn manifest() -> Result<Manifest, serde_json::Error> {
    let node = |name: &str, injected: Option<&str>| {
        json!({
            "name": name, "boot": "00000001-0000-0000-0000-000000000000", "cpu_model": "simulated", "kernel": "none",
            "injected": injected,
            "counter": {
                "counter": "tsc", "invariant": true, "clocksource": "tsc", "trapped": false,
                "frequency": {"hertz": HERTZ, "tolerance_ppm": 100, "origin": "declared"},
                "sharing": {"bound_ticks": null, "checked": "not checked"},
                "reading": {"width_ticks": 1, "seen": "simulated"},
            },
        })
    };
    serde_json::from_value(json!({
        "schema": tickscope_store::SCHEMA, "run": "1a00000000000002", "tickscope": env!("CARGO_PKG_VERSION"),
        "started_unix_ms": 0, "ended_unix_ms": 1, "same_boot": "ignore",
        "nodes": [node("client", None), node("server", Some(SERVER))], "reference": "client.tsc",
        "rho": [{
            "reference": "client.tsc", "domain": "server.tsc", "ppb": 1000, "origin": "server-room", "kind": "preset",
        }],
        "layout": {"path": POINTS},
    }))
}

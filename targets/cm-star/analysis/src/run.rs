//! The calls of a run of `targets/cm-star`, read from its files.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use tickscope_analysis::{Analysis, Error, Query, Span, Spanned, Spans, analyse, spans};
use tickscope_clock::measure::Sampled;
use tickscope_store::{EventKind, Run, StampColumns};
use tickscope_tick::Place;
use tickscope_trace::Apart;

use crate::figures::Example;
use crate::recording::{Bounded, Reach, RecordedCall, Recording, RunFacts};

/// Example of a run, and what else its files say.
pub struct Found {
    /// The figures.
    pub example: Example,
    /// The run's own table.
    pub analysis: Analysis,
}

/// Computes the example's figures from a run that was made ready.
pub fn recorded(run: &Run) -> Result<Found, Error> {
    let query = Query::under(None);
    let analysis = analyse(run, &query, false)?;
    let spans = spans(run, &query)?;
    let nodes = Nodes::of(run)?;
    let client = ClientStamps::of(run, &nodes.client)?;
    let counted = client_counts(run)?;
    let (calls, incomplete) = calls(&spans, &nodes, &client)?;
    let (first, last) = (calls[0].around[0], calls[calls.len() - 1].around[3]);
    let recording = Recording {
        relative_ticks: relative_ticks(&spans, &nodes, &client)?,
        sampled: client.sampled(),
        hertz: analysis.frequency.hertz,
        interval_us: counted.interval_us,
        calls,
    };
    let facts = RunFacts { incomplete, late: counted.late, abandoned: counted.abandoned, ..facts(run, &analysis) };
    let took_s = analysis.frequency.nanoseconds((last - first) as f64) / 1e9;
    let cpus = [client.cpu, most_used(&stamps(run, &nodes.server, "received")?)];
    let recorded = recording.evaluate().map_err(Error::work)?;
    Ok(Found { example: recorded.example(facts, took_s, counted.optimised, cpus), analysis })
}

/// Names of the calling and of the answering node.
struct Nodes {
    client: String,
    server: String,
}

impl Nodes {
    fn of(run: &Run) -> Result<Self, Error> {
        let path = &run.manifest().layout.path;
        let nodes: Vec<&str> = path.iter().filter_map(|point| point.split('.').next()).collect();
        let [client, server, ..] = nodes[..] else { return Err(no_example(&format!("the path {}", path.join(", ")))) };
        let nodes = Self { client: client.into(), server: server.into() };
        if *path != nodes.path() {
            return Err(no_example(&format!("the path {}", path.join(", "))));
        }
        let reference = &run.manifest().reference;
        if reference.node != client {
            return Err(Error::input(format!(
                "expected a run whose reference is the node that calls, '{client}', found '{reference}'. Set \
                 clock.reference in the run file"
            )));
        }
        Ok(nodes)
    }

    fn path(&self) -> [String; 5] {
        let Self { client, server } = self;
        [("send", client), ("received", server), ("reply", server), ("response", client), ("results", client)]
            .map(|(point, node)| format!("{node}.{point}"))
    }

    /// The stage whose duration is a message's latency.
    fn latency(&self) -> String {
        let [send, received, ..] = self.path();
        format!("{send}>{received}")
    }
}

fn no_example(found: &str) -> Error {
    Error::input(format!(
        "expected a run of targets/cm-star, whose path is send, received, reply, response, results, found {found}. \
         experiments/cm-star.toml is its run file"
    ))
}

/// The client's stamps that are no part of the path, by id.
struct ClientStamps {
    around: [HashMap<i64, i64>; 2],
    zero: [HashMap<i64, i64>; 4],
    repetitions: HashMap<i64, i64>,
    samples: [HashMap<i64, i64>; 2],
    cpu: usize,
}

impl ClientStamps {
    fn of(run: &Run, node: &str) -> Result<Self, Error> {
        let ticks = |point: &str| {
            let stamps = stamps(run, node, point)?;
            Ok::<_, Error>(stamps.id.iter().copied().zip(stamps.tick.iter().copied()).collect())
        };
        let first = stamps(run, node, "first")?;
        let value = first.id.iter().zip(first.value.iter()).filter_map(|(&id, value)| Some((id, *value?)));
        Ok(Self {
            around: [ticks("first")?, ticks("last")?],
            zero: [ticks("zero-1")?, ticks("zero-2")?, ticks("zero-3")?, ticks("zero-4")?],
            repetitions: value.collect(),
            samples: [ticks("sample-1")?, ticks("sample-2")?],
            cpu: most_used(&first),
        })
    }

    /// The sampler's pairs, in order of time.
    fn sampled(&self) -> Vec<Sampled> {
        let [first, second] = &self.samples;
        let pair = |(id, &at): (&i64, &i64)| Some(Sampled { at, cost: second.get(id)? - at });
        let mut pairs: Vec<Sampled> = first.iter().filter_map(pair).collect();
        pairs.sort_unstable_by_key(|pair| pair.at);
        pairs
    }
}

fn stamps(run: &Run, node: &str, point: &str) -> Result<StampColumns, Error> {
    let place: Place = format!("{node}.{point}").parse().map_err(|error| Error::input(format!("{error}")))?;
    Ok(run.stamps(&place)?.read_all()?)
}

/// The processor that most of them were taken on.
fn most_used(stamps: &StampColumns) -> usize {
    let mut counts = BTreeMap::new();
    stamps.cpu.iter().flatten().for_each(|&cpu| *counts.entry(cpu).or_insert(0_usize) += 1);
    counts.into_iter().max_by_key(|&(_, count)| count).map_or(0, |(cpu, _)| cpu.max(0) as usize)
}

/// The calls of which every stamp is there, in order of time, and how many others there are.
fn calls(spans: &Spans, nodes: &Nodes, client: &ClientStamps) -> Result<(Vec<RecordedCall>, usize), Error> {
    let stage = |name: &str| spans.stage(name).ok_or_else(|| no_example(&format!("no stage {name}")));
    let point = |name: &str| spans.point(name).ok_or_else(|| no_example(&format!("no point {name}")));
    let [begin, .., end] = nodes.path();
    let places = Paths {
        latency: stage(&nodes.latency())?,
        rpc: stage("end-to-end")?,
        begin: point(&begin)?,
        end: point(&end)?,
    };
    let mut calls: Vec<RecordedCall> = spans.traces.iter().filter_map(|trace| places.call(trace, client)).collect();
    calls.sort_unstable_by_key(|call| call.around[1]);
    match calls.len() {
        0 => Err(no_example(&format!("{} traces, none of them with all stamps of a call", spans.traces.len()))),
        complete => Ok((calls, spans.traces.len() - complete)),
    }
}

/// Where in a trace a call's parts lie.
struct Paths {
    latency: usize,
    rpc: usize,
    begin: usize,
    end: usize,
}

impl Paths {
    fn call(&self, trace: &Spanned, client: &ClientStamps) -> Option<RecordedCall> {
        let of = |map: &HashMap<i64, i64>| map.get(&trace.id).copied();
        let [first, last] = [of(&client.around[0])?, of(&client.around[1])?];
        let [a, b, c, d] = client.zero.each_ref().map(of);
        Some(RecordedCall {
            // What cm-star makes a kind of.
            pairs: u32::try_from(trace.kind / 100_000).ok()?,
            words: u16::try_from(trace.kind % 100_000).ok()?,
            repetition: of(&client.repetitions)?,
            zero: [a?, b?, c?, d?],
            around: [first, trace.ticks[self.begin]?, trace.ticks[self.end]?, last],
            latency: bounded(trace.stages[self.latency]?),
            rpc: bounded(trace.stages[self.rpc]?),
        })
    }
}

fn bounded(Span { estimate, lo, hi }: Span) -> Bounded {
    Bounded { estimate, lo, hi }
}

/// How far two latencies of one repetition may be wrong against each other, for the longest of them.
fn relative_ticks(spans: &Spans, nodes: &Nodes, client: &ClientStamps) -> Result<u64, Error> {
    let [send, received, ..] = nodes.path();
    let longest = |name: &str| {
        let point = spans.point(name)?;
        let mut ends: HashMap<i64, (i64, i64)> = HashMap::new();
        for trace in &spans.traces {
            let Some((repetition, tick)) = client.repetitions.get(&trace.id).zip(trace.ticks[point]) else { continue };
            let (first, last) = ends.entry(*repetition).or_insert((tick, tick));
            (*first, *last) = ((*first).min(tick), (*last).max(tick));
        }
        ends.values().map(|(first, last)| last.abs_diff(*first)).max()
    };
    let (from, to) = longest(&send).zip(longest(&received)).unwrap_or_default();
    let apart = Apart { from_ticks: from, to_ticks: to };
    let stage = spans.stage(&nodes.latency());
    stage.and_then(|stage| spans.relative_ticks(stage, apart)).ok_or_else(|| no_example("no durations of a message"))
}

/// Counts in the client's last line.
#[derive(Deserialize)]
struct ClientCounts {
    interval_us: u32,
    optimised: bool,
    late: u64,
    abandoned: u64,
}

fn client_counts(run: &Run) -> Result<ClientCounts, Error> {
    let lines = run.events()?.found.into_iter().filter(|event| event.what == EventKind::Target);
    let line = lines.filter_map(|event| Some(event.text.get(event.text.find('{')?..)?.to_owned()));
    line.filter_map(|line| serde_json::from_str(&line).ok())
        .next()
        .ok_or_else(|| no_example("no last line of its client, which says what it counted"))
}

/// Facts from the run's manifest; counts are left to be filled in.
fn facts(run: &Run, analysis: &Analysis) -> RunFacts {
    let manifest = run.manifest();
    let network = manifest.assumptions.iter().find(|assumption| assumption.statement.starts_with("the nodes are "));
    let clock_map = analysis.clock_maps.first();
    RunFacts {
        directory: run.root().display().to_string(),
        network: network.map_or_else(|| "nodes whose network is not told".into(), |found| found.statement.clone()),
        rho: clock_map.map_or_else(|| "none: one clock".into(), |clock_map| clock_map.rho.to_string()),
        half_width: clock_map
            .and_then(|clock_map| clock_map.half_width_ticks)
            .map(|ticks| Reach::of_ticks(ticks, analysis.frequency.hertz)),
        truth: analysis.truth.as_ref().map(|truth| [truth.known, truth.inside]),
        incomplete: 0,
        left_out: 0,
        late: 0,
        abandoned: 0,
    }
}

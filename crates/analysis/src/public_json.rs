//! A run's table as public JSON: what `show --json` prints, the report carries and Python reads.
//!
//! Idea: a struct for each object, so that every key stands here once. Guarantees: ticks are exact; nanoseconds are
//! ticks over the declared frequency, bounds rounded outward; within one [`VERSION`] keys and names are added, never
//! removed or renamed, nor do they change their meaning. Deliberately absent: text for people.

use std::path::PathBuf;

use serde::Serialize;
use tickscope_store::{Event, LimitRule, Manifest, Run, RunState};
use tickscope_tick::{Label, Unit, fraction_down, fraction_up};
use tickscope_trace::infer::{Inferred, InferredEdge};
use tickscope_trace::{Answer, Common, QuantileBounds, Share, Sign, StageRole, StageRow, slowest};

use crate::assumptions::{Assumption, OriginKind};
use crate::channel_counts;
use crate::cost::CostJson;
use crate::ready::JoinedNow;
use crate::{
    Analysis, KeptPolicy, LateStage, Limit, LimitBreaker, Neighbour, RunTimes, Span, StageNoise, Stream, Undecided,
};

mod clocks;

use clocks::{AuxiliaryClockJson, ClockMapJson, PairJson};

/// Version of the keys and of what they mean.
pub const VERSION: u32 = 1;
/// Decimals of a nanosecond.
const DECIMALS: u32 = 3;
/// Decimals of a microsecond in words.
const WORDS_DECIMALS: u32 = 2;

/// Everything that is known of a run under one query; `R`: what other methods say of two counters, which whoever
/// compares them knows.
#[derive(Debug, Serialize)]
pub struct RunJson<'a, R = ()> {
    version: u32,
    run: String,
    run_id: String,
    reference: &'a Label,
    frequency: FrequencyJson,
    stages: Vec<StageJson<'a>>,
    layout_inferred: bool,
    inferred: Option<InferredJson<'a>>,
    joined_now: Option<JoinedNowJson>,
    notes: Vec<&'a str>,
    window_ms: Option<u64>,
    removed: u64,
    lost: Option<u64>,
    complete: u64,
    time_of_day: Option<RunTimes>,
    slowest: Vec<&'a str>,
    path_sums: PathSumsJson,
    passages: PassagesJson,
    clock_maps: Vec<ClockMapJson<'a>>,
    pairs: Vec<PairJson<'a>>,
    auxiliary_clocks: Vec<AuxiliaryClockJson<'a>>,
    unplaced: Vec<UnplacedJson<'a>>,
    truth: Option<TruthJson>,
    rivals: &'a [R],
    noise: Vec<StageNoiseJson<'a>>,
    pauses: Vec<StageNoiseJson<'a>>,
    late_pools: &'a [LateStage],
    assumptions: Vec<AssumptionJson>,
    cost: Option<CostJson<'a>>,
    policies: &'a [KeptPolicy],
    policy_notes: Vec<&'a str>,
    limits: Vec<LimitJson<'a>>,
    stream: Option<&'a Stream>,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
    events: Vec<EventJson<'a>>,
}

/// Why figures of a run are not to be trusted, and the file that it is about.
#[derive(Debug, Serialize)]
pub struct FaultJson {
    file: PathBuf,
    text: String,
}

impl FaultJson {
    /// What is said of that fault everywhere.
    pub fn of(fault: &tickscope_store::Error) -> Self {
        Self { file: fault.place().into(), text: fault.to_string() }
    }

    /// The file that it is about.
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    /// What is said of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[derive(Debug, Serialize)]
struct FrequencyJson {
    hertz: u64,
    tolerance_ppm: u32,
}

#[derive(Debug, Serialize)]
struct StageJson<'a> {
    stage: &'a str,
    from: &'a str,
    to: &'a str,
    role: &'static str,
    count: u64,
    missing: u64,
    refused: u64,
    impossible: u64,
    against_inferred: u64,
    p50: Option<QuantileJson>,
    p99: Option<QuantileJson>,
    p999: Option<QuantileJson>,
    max: Option<QuantileJson>,
    mean: Option<QuantileJson>,
    share: Option<ShareJson<'a>>,
    common: SidesJson,
    reading: SidesJson,
    relative: RelativeJson,
    core_ticks: u64,
    sign: &'static str,
    spread: String,
}

/// A layout that nobody declared.
#[derive(Debug, Serialize)]
struct InferredJson<'a> {
    ids: u64,
    edges: Vec<InferredEdgeJson<'a>>,
    wandering: Vec<InferredEdgeJson<'a>>,
    alone: Vec<&'a str>,
    toml: Option<String>,
}

#[derive(Debug, Serialize)]
struct InferredEdgeJson<'a> {
    from: &'a str,
    to: &'a str,
    common: u64,
    agree: u64,
}

/// A join that was made because somebody asked.
#[derive(Debug, Serialize)]
struct JoinedNowJson {
    stamps: u64,
    run: &'static str,
    until_unix_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct QuantileJson {
    ticks: i64,
    lo_ticks: i64,
    hi_ticks: i64,
    ns: f64,
    lo_ns: f64,
    hi_ns: f64,
}

/// A stage without the traces that something disturbed.
#[derive(Debug, Serialize)]
struct StageNoiseJson<'a> {
    stage: &'a str,
    undisturbed: u64,
    disturbed: u64,
    unknown: u64,
    p50: Option<QuantileJson>,
    p99: Option<QuantileJson>,
    p999: Option<QuantileJson>,
    neighbours: &'a [Neighbour],
}

/// The stage's part of the whole that it belongs to, over the traces that have all its stages.
#[derive(Debug, Serialize)]
struct ShareJson<'a> {
    of: &'a str,
    traces: u64,
    /// Sums of estimates; null beyond 64 bits.
    ticks: Option<i64>,
    of_ticks: Option<i64>,
    ratio: Option<f64>,
    lo_ratio: Option<f64>,
    hi_ratio: Option<f64>,
}

/// A limit of a stage, and how the traces stand to it.
#[derive(Debug, Serialize)]
struct LimitJson<'a> {
    name: Option<&'a str>,
    stage: &'a str,
    at_most_ns: Option<u64>,
    at_least_ns: Option<u64>,
    /// At the slowest rate that the reference may have, and at the fastest.
    at_most_ticks: Option<[Option<i64>; 2]>,
    at_least_ticks: Option<[Option<i64>; 2]>,
    share: f64,
    verdict: &'static str,
    /// Why it is not resolved.
    reason: Option<&'static str>,
    traces: u64,
    kept: u64,
    broken: u64,
    straddling: u64,
    unknown: u64,
    missing: u64,
    left_out: u64,
    thinned: &'a [String],
    widest_half_width_ticks: u64,
    widest_half_width_ns: f64,
    /// The half-width that would resolve it; the nanoseconds are rounded down.
    resolving_half_width_ticks: Option<u64>,
    resolving_half_width_lo_ns: Option<f64>,
    worst: Vec<LimitBreakerJson<'a>>,
}

/// A trace that breaks a limit.
#[derive(Debug, Serialize)]
struct LimitBreakerJson<'a> {
    kind: i32,
    id: i64,
    original: Option<&'a str>,
    occurrence: i32,
    duration: QuantileJson,
}

#[derive(Debug, Serialize)]
struct SidesJson {
    below_ticks: u64,
    above_ticks: u64,
    below_ns: f64,
    above_ns: f64,
}

#[derive(Debug, Serialize)]
struct RelativeJson {
    run_ticks: u64,
    run_ns: f64,
    one_ms_apart_ticks: u64,
    one_ms_apart_ns: f64,
}

#[derive(Debug, Serialize)]
struct PathSumsJson {
    mismatches: u64,
}

#[derive(Debug, Serialize)]
struct PassagesJson {
    repeated: u64,
    by_thread: u64,
    by_attempt: u64,
    untold: u64,
}

#[derive(Debug, Serialize)]
struct UnplacedJson<'a> {
    stage: &'a str,
    reason: &'a str,
    count: u64,
}

#[derive(Debug, Serialize)]
struct TruthJson {
    known: u64,
    inside: u64,
}

/// What figures rest on, as every command's JSON has it.
#[derive(Debug, Serialize)]
pub struct AssumptionJson {
    statement: String,
    origin: String,
    origin_kind: OriginKind,
    matters: bool,
}

/// What happened to the measuring.
#[derive(Debug, Serialize)]
pub struct EventJson<'a> {
    node: &'a str,
    channel: Option<i32>,
    domain: Option<&'a str>,
    tick: Option<i64>,
    until: Option<i64>,
    what: &'a str,
    value: Option<i64>,
    text: &'a str,
}

impl<'a> RunJson<'a> {
    /// Everything that `analysis` and `events` say of `run`, where nobody compared other methods.
    pub fn of(run: &'a Run, analysis: &'a Analysis, events: &'a [Event]) -> Self {
        Self::beside(run, analysis, events, &[])
    }
}

impl<'a, R> RunJson<'a, R> {
    /// The same with what other methods say.
    pub fn beside(run: &'a Run, analysis: &'a Analysis, events: &'a [Event], rivals: &'a [R]) -> Self {
        let (manifest, frequency) = (run.manifest(), &analysis.frequency);
        let unit = Unit::nanoseconds(frequency.hertz, DECIMALS);
        let stages = analysis.rows.iter().zip(&analysis.relative_1ms_ticks);
        let stages = stages.map(|(row, &relative)| StageJson::of(&analysis.rows, row, relative, frequency.hertz));
        let unplaced = analysis.unplaced.iter();
        let unplaced = unplaced.map(|(stage, reason, count)| UnplacedJson { stage, reason, count: *count });
        let passages = &analysis.passages;
        Self {
            version: VERSION,
            run: run.root().display().to_string(),
            run_id: format!("{:016x}", manifest.run),
            reference: &manifest.reference,
            frequency: FrequencyJson { hertz: frequency.hertz, tolerance_ppm: frequency.tolerance_ppm },
            stages: stages.collect(),
            layout_inferred: manifest.layout.inferred,
            inferred: analysis.preparation.inferred.as_ref().map(InferredJson::of),
            joined_now: analysis.preparation.joined.as_ref().map(JoinedNowJson::of),
            notes: analysis.preparation.notes.iter().map(String::as_str).collect(),
            window_ms: manifest.keep_ms,
            removed: run.removed_stamps().unwrap_or(0), // what cannot be read is told elsewhere
            lost: known_loss(run, events, analysis),
            complete: analysis.complete,
            time_of_day: RunTimes::of(run, analysis).unwrap_or(None), // as above
            slowest: slowest(&analysis.rows).into_iter().map(|row| analysis.rows[row].name.as_str()).collect(),
            path_sums: PathSumsJson { mismatches: analysis.sum_mismatches },
            passages: PassagesJson {
                repeated: passages.repeated,
                by_thread: passages.by_thread,
                by_attempt: passages.by_attempt,
                untold: passages.untold,
            },
            clock_maps: analysis.clock_maps.iter().map(|clock_map| ClockMapJson::of(clock_map, unit)).collect(),
            pairs: analysis.pairs.iter().map(PairJson::of).collect(),
            auxiliary_clocks: analysis.auxiliary_clocks.iter().map(AuxiliaryClockJson::of).collect(),
            unplaced: unplaced.collect(),
            truth: analysis.truth.as_ref().map(|truth| TruthJson { known: truth.known, inside: truth.inside }),
            rivals,
            pauses: analysis.pauses.iter().map(|stage| StageNoiseJson::of(stage, unit)).collect(),
            late_pools: &analysis.late_pools,
            noise: analysis.noise.iter().map(|stage| StageNoiseJson::of(stage, unit)).collect(),
            assumptions: AssumptionJson::all(manifest, analysis),
            cost: manifest.cost.as_ref().map(CostJson::of),
            policies: &analysis.kept.policies,
            policy_notes: analysis.kept.notes().map(String::as_str).collect(),
            limits: analysis.limits.iter().map(|limit| LimitJson::of(limit, analysis, events)).collect(),
            stream: analysis.stream.as_ref(),
            faults: analysis.refused.iter().map(FaultJson::of).collect(),
            findings: analysis.every_finding(events),
            events: events.iter().map(EventJson::of).collect(),
        }
    }
}

/// How many stamps the run lost; `None`: nobody knows.
fn known_loss(run: &Run, events: &[Event], analysis: &Analysis) -> Option<u64> {
    let channels = run.channels().ok().filter(|channels| channels.refused.is_empty())?;
    channel_counts::known_loss(&channels.found, events, analysis)?.try_into().ok()
}

impl<'a> StageNoiseJson<'a> {
    fn of(stage: &'a StageNoise, unit: Unit) -> Self {
        let [p50, p99, p999] =
            [stage.p50, stage.p99, stage.p999].map(|figure| figure.map(|bounds| QuantileJson::of(bounds, unit)));
        let StageNoise { name, undisturbed, disturbed, unknown, neighbours, .. } = stage;
        let (undisturbed, disturbed, unknown) = (*undisturbed, *disturbed, *unknown);
        Self { stage: name, undisturbed, disturbed, unknown, p50, p99, p999, neighbours }
    }
}

impl<'a> InferredJson<'a> {
    fn of(inferred: &'a Inferred) -> Self {
        Self {
            ids: inferred.ids,
            edges: inferred.edges.iter().map(InferredEdgeJson::of).collect(),
            wandering: inferred.wandering.iter().map(InferredEdgeJson::of).collect(),
            alone: inferred.alone.iter().map(String::as_str).collect(),
            toml: inferred.toml(),
        }
    }
}

impl<'a> InferredEdgeJson<'a> {
    fn of(edge: &'a InferredEdge) -> Self {
        let InferredEdge { from, to, common, agree } = edge;
        Self { from, to, common: *common, agree: *agree }
    }
}

impl JoinedNowJson {
    fn of(joined: &JoinedNow) -> Self {
        let run = match joined.state {
            RunState::GoingOn => "going-on",
            RunState::CutOff => "cut-off",
            RunState::Ended => "ended",
        };
        Self { stamps: joined.stamps, run, until_unix_ms: joined.until_unix_ms }
    }
}

impl<'a> StageJson<'a> {
    fn of(rows: &'a [StageRow], row: &'a StageRow, one_ms_apart_ticks: u64, hertz: u64) -> Self {
        let unit = Unit::nanoseconds(hertz, DECIMALS);
        let bounded = |figure: Option<QuantileBounds>| figure.map(|bounds| QuantileJson::of(bounds, unit));
        Self {
            stage: &row.name,
            from: &row.from,
            to: &row.to,
            role: role(row.role),
            count: row.count,
            missing: row.missing,
            refused: row.refused,
            impossible: row.impossible,
            against_inferred: row.against_inferred,
            p50: bounded(row.p50),
            p99: bounded(row.p99),
            p999: bounded(row.p999),
            max: bounded(row.max),
            mean: bounded(row.mean),
            share: row.share.and_then(|share| ShareJson::of(rows, row, &share)),
            common: SidesJson::of(row.common, unit),
            reading: SidesJson::of(row.own, unit),
            relative: RelativeJson {
                run_ticks: row.relative_ticks,
                run_ns: unit.float_up(row.relative_ticks),
                one_ms_apart_ticks,
                one_ms_apart_ns: unit.float_up(one_ms_apart_ticks),
            },
            core_ticks: row.core_ticks,
            sign: sign(row),
            spread: spread(row, Unit::microseconds(hertz, WORDS_DECIMALS)),
        }
    }
}

impl QuantileJson {
    pub(crate) fn of(QuantileBounds { estimate, lo, hi }: QuantileBounds, unit: Unit) -> Self {
        let (ns, lo_ns, hi_ns) = (unit.float_near(estimate), unit.float_down(lo), unit.float_up(hi));
        Self { ticks: estimate, lo_ticks: lo, hi_ticks: hi, ns, lo_ns, hi_ns }
    }
}

impl<'a> ShareJson<'a> {
    fn of(rows: &'a [StageRow], row: &StageRow, share: &Share) -> Option<Self> {
        const MILLION: i128 = 1_000_000;
        let of = rows.get(share.whole)?;
        // A whole is all of itself, however little is known of how long it is.
        let itself = |all| if std::ptr::eq(of, row) { [MILLION; 3] } else { all };
        let ratios = share.per_million().map(|all| itself(all.map(i128::from)));
        Some(Self {
            of: &of.name,
            traces: share.traces,
            ticks: i64::try_from(share.part.estimate).ok(),
            of_ticks: i64::try_from(share.of.estimate).ok(),
            ratio: ratios.map(|[near, ..]| near as f64 / MILLION as f64),
            lo_ratio: ratios.map(|[_, lo, _]| fraction_down(lo, MILLION)),
            hi_ratio: ratios.map(|[.., hi]| fraction_up(hi, MILLION)),
        })
    }
}

impl<'a> LimitJson<'a> {
    fn of(limit: &'a Limit, analysis: &Analysis, events: &[Event]) -> Self {
        let unit = Unit::nanoseconds(analysis.frequency.hertz, DECIMALS);
        let ticks = |ends: Option<[i128; 2]>| ends.map(|ends| ends.map(|ticks| i64::try_from(ticks).ok()));
        let verdict = analysis.verdict(limit, events);
        Self {
            name: limit.rule.name.as_deref(),
            stage: limit.stage.as_ref().unwrap_or(&limit.rule.stage),
            at_most_ns: limit.rule.at_most_ns,
            at_least_ns: limit.rule.at_least_ns,
            at_most_ticks: ticks(limit.ticks.most),
            at_least_ticks: ticks(limit.ticks.least),
            share: f64::from(limit.rule.share_ppb) / f64::from(LimitRule::ALL_PPB),
            verdict: verdict.name(),
            reason: verdict.unresolved().map(Undecided::name),
            traces: limit.measured(),
            kept: limit.kept,
            broken: limit.broken,
            straddling: limit.straddling,
            unknown: limit.unknown,
            missing: limit.missing,
            left_out: limit.left_out,
            thinned: &limit.thinned,
            widest_half_width_ticks: limit.widest_ticks,
            widest_half_width_ns: unit.float_up(limit.widest_ticks),
            resolving_half_width_ticks: limit.resolving_ticks,
            resolving_half_width_lo_ns: limit.resolving_ticks.map(|ticks| unit.float_down(ticks)),
            worst: limit.worst.iter().map(|trace| LimitBreakerJson::of(trace, unit)).collect(),
        }
    }
}

impl<'a> LimitBreakerJson<'a> {
    fn of(trace: &'a LimitBreaker, unit: Unit) -> Self {
        let Span { estimate, lo, hi } = trace.span;
        Self {
            kind: trace.kind,
            id: trace.id,
            original: trace.original.as_deref(),
            occurrence: trace.occurrence,
            duration: QuantileJson::of(QuantileBounds { estimate, lo, hi }, unit),
        }
    }
}

impl SidesJson {
    fn of(Common { below_ticks, above_ticks }: Common, unit: Unit) -> Self {
        let (below_ns, above_ns) = (unit.float_up(below_ticks), unit.float_up(above_ticks));
        Self { below_ticks, above_ticks, below_ns, above_ns }
    }
}

impl AssumptionJson {
    /// All that the figures of a run rest on.
    pub fn all(manifest: &Manifest, analysis: &Analysis) -> Vec<Self> {
        Assumption::all(manifest, analysis).iter().map(|one| Self::of(one, manifest, analysis)).collect()
    }

    fn of(assumption: &Assumption, manifest: &Manifest, analysis: &Analysis) -> Self {
        Self::alone(assumption, assumption.matters(manifest, analysis))
    }

    /// One of a run without durations: it matters where nobody declared it.
    pub fn of_clocks(assumption: &Assumption) -> Self {
        Self::alone(assumption, assumption.is_default())
    }

    fn alone(assumption: &Assumption, matters: bool) -> Self {
        let (statement, origin) = (assumption.statement(), assumption.origin());
        Self { statement, origin: origin.words, origin_kind: origin.kind, matters }
    }
}

impl<'a> EventJson<'a> {
    /// One event.
    pub fn of(event: &'a Event) -> Self {
        let Event { node, channel, domain, tick, until, what, value, text } = event;
        let (channel, tick, until, value) = (*channel, *tick, *until, *value);
        Self { node, channel, domain: domain.as_deref(), tick, until, what: what.name(), value, text }
    }
}

/// The word for a stage's role.
pub fn role(role: StageRole) -> &'static str {
    match role {
        StageRole::Path => "path",
        StageRole::EndToEnd => "end-to-end",
        StageRole::Branch => "branch",
        StageRole::Extra => "extra",
    }
}

fn sign(row: &StageRow) -> &'static str {
    match row.sign() {
        None => "no durations",
        Some(Answer::Resolved(Sign::Positive)) => "> 0",
        Some(Answer::Resolved(Sign::Zero)) => "= 0",
        Some(Answer::Resolved(Sign::Negative)) => "< 0",
        Some(Answer::NotResolved { .. }) => "sign not resolved",
    }
}

fn spread(row: &StageRow, unit: Unit) -> String {
    match row.spread() {
        None => "no spread".into(),
        Some(Answer::Resolved(ticks)) => format!("spread {} us", unit.near(ticks)),
        Some(Answer::NotResolved { .. }) => "spread not resolved".into(),
    }
}

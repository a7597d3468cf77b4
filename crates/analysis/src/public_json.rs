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

use crate::assumption::{Assumption, OriginKind};
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
    /// Version of the keys: within a version keys and names are added, never removed or renamed, nor do they change
    /// their meaning.
    version: u32,
    /// The run's directory.
    run: String,
    /// Number of the run, 16 hexadecimal digits.
    run_id: String,
    /// The counter whose ticks all figures are in, `node.counter`.
    reference: &'a Label,
    /// The reference's declared frequency.
    frequency: FrequencyJson,
    /// The stages, in the layout's order.
    stages: Vec<StageJson<'a>>,
    /// True if nobody declared the layout.
    layout_inferred: bool,
    /// How the layout was inferred ([inferred layouts](inferred-layouts.md)); `null`: it was declared.
    inferred: Option<InferredJson<'a>>,
    /// The join that was made because somebody asked; `null`: the run was joined at its end.
    joined_now: Option<JoinedNowJson>,
    /// What was done before the run could be shown, a sentence each.
    notes: Vec<&'a str>,
    /// The window of stamps that the run keeps; `null`: it keeps all.
    window_ms: Option<u64>,
    /// Stamps that the window removed.
    removed: u64,
    /// Stamps that programs counted and that are not in the run; `null`: unknown.
    lost: Option<u64>,
    /// Ids that passed every point of some way through the layout.
    complete: u64,
    /// When the first and the last stamp were taken, by `CLOCK_REALTIME`; `null`: nothing relates that clock.
    time_of_day: Option<RunTimes>,
    /// The stage that takes longest; several where it is not resolved between them.
    slowest: Vec<&'a str>,
    /// Path stages held against the whole.
    path_sums: PathSumsJson,
    /// Ids that passed a point more than once.
    passages: PassagesJson,
    /// How well each counter is known against the reference.
    clock_maps: Vec<ClockMapJson<'a>>,
    /// Every pair of counters, where nodes besides the reference have evidence of each other; empty elsewhere.
    pairs: Vec<PairJson<'a>>,
    /// Clocks other than counters that points were stamped with.
    auxiliary_clocks: Vec<AuxiliaryClockJson<'a>>,
    /// Durations that were refused, by stage and reason.
    unplaced: Vec<UnplacedJson<'a>>,
    /// Durations held against the truth; `null` unless the nodes read one counter.
    truth: Option<TruthJson>,
    /// What other methods say of the same clocks: an entry for every node that is related to the reference, then for
    /// every two other nodes that are, 500 pairs at most.
    rivals: &'a [R],
    /// Each stage without the durations that [noise](noise.md) disturbed; empty where the run did not record it.
    noise: Vec<StageNoiseJson<'a>>,
    /// The same of [pauses of JVMs](java.md#pauses-of-the-jvm), in ticks of the reference: a trace that a pause may or
    /// may not have met is `unknown`; empty where the run has no log of a JVM.
    pauses: Vec<StageNoiseJson<'a>>,
    /// Stages with durations that span the making of a program's pool.
    late_pools: &'a [LateStage],
    /// What the figures rest on.
    assumptions: Vec<AssumptionJson>,
    /// What measuring cost; `null`: it was not measured.
    cost: Option<CostJson<'a>>,
    /// Policies of the layout's points; those alone that leave stamps out.
    policies: &'a [KeptPolicy],
    /// What those policies mean for the figures, a sentence each.
    policy_notes: Vec<&'a str>,
    /// [Limits](run-file.md#limits) of stages, and how the traces stand to them.
    limits: Vec<LimitJson<'a>>,
    /// The span of a stream, where points keep the first stamp and the last; `null`: none do.
    stream: Option<&'a Stream>,
    /// Damaged files of the run, as [`check`](#tickscope-check-run---json) has it: do not trust the figures of a run
    /// that has any.
    faults: Vec<FaultJson>,
    /// What contradicts the figures, also where an event tells it; not empty where the exit code is 3.
    findings: Vec<String>,
    /// What happened to the measuring.
    events: Vec<EventJson<'a>>,
}

/// Why figures of a run are not to be trusted, and the file that it is about.
#[derive(Debug, Serialize)]
pub struct FaultJson {
    /// The file.
    file: PathBuf,
    /// What is wrong with it, and what helps.
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
    /// Ticks a second.
    hertz: u64,
    /// How far it may be off, parts per million: an error common to all figures and in none of them.
    tolerance_ppm: u32,
}

#[derive(Debug, Serialize)]
struct StageJson<'a> {
    /// Its name.
    stage: &'a str,
    /// The point that it begins at, `node.point`.
    from: &'a str,
    /// The point that it ends at.
    to: &'a str,
    /// `path`, `end-to-end`, `branch` or `extra` (a pair of points for comparison).
    role: &'static str,
    /// How many durations it has.
    count: u64,
    /// Traces that lack one of the two stamps.
    missing: u64,
    /// Durations that were refused; `unplaced` has the reasons.
    refused: u64,
    /// Durations that cannot be: even the upper end is negative. They count.
    impossible: u64,
    /// Durations that run against an inferred order.
    against_inferred: u64,
    /// The median.
    p50: Option<QuantileJson>,
    /// The 99th percentile.
    p99: Option<QuantileJson>,
    /// The 99.9th percentile.
    p999: Option<QuantileJson>,
    /// The longest, as exact as its bounds.
    max: Option<QuantileJson>,
    /// The mean, rounded to a tick, its ends outward.
    mean: Option<QuantileJson>,
    /// The stage's part of the time of the whole that it belongs to; `null`: it is no part of a whole.
    share: Option<ShareJson<'a>>,
    /// What the clock maps leave open, common to all durations of the stage.
    common: SidesJson,
    /// What the readings of the stage's own stamps leave open, differently from trace to trace.
    reading: SidesJson,
    /// How far two durations may be wrong against each other.
    relative: RelativeJson,
    /// Ticks of either side that stand for stamps from different cores.
    core_ticks: u64,
    /// Whether durations are above 0, as words.
    sign: &'static str,
    /// Whether the spread is resolved, as words.
    spread: String,
}

/// A layout that nobody declared.
#[derive(Debug, Serialize)]
struct InferredJson<'a> {
    /// Ids that were looked at.
    ids: u64,
    /// Edges, each after those that lead to it.
    edges: Vec<InferredEdgeJson<'a>>,
    /// Pairs of points that saw the same ids in no order that holds.
    wandering: Vec<InferredEdgeJson<'a>>,
    /// Points that no edge joins.
    alone: Vec<&'a str>,
    /// It as `[layout]` of a run file.
    toml: Option<String>,
}

#[derive(Debug, Serialize)]
struct InferredEdgeJson<'a> {
    /// The earlier point.
    from: &'a str,
    /// The later point.
    to: &'a str,
    /// Ids that passed both.
    common: u64,
    /// Ids of these seen at the earlier point first, whatever the clocks did.
    agree: u64,
}

/// A join that was made because somebody asked.
#[derive(Debug, Serialize)]
struct JoinedNowJson {
    /// Stamps that were joined.
    stamps: u64,
    /// `going-on`, `cut-off` or `ended`.
    run: &'static str,
    /// When the newest of them were stored.
    until_unix_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct QuantileJson {
    /// As estimated.
    ticks: i64,
    /// It is no less.
    lo_ticks: i64,
    /// It is no more.
    hi_ticks: i64,
    /// The estimate in nanoseconds.
    ns: f64,
    /// The lower end, rounded down.
    lo_ns: f64,
    /// The upper end, rounded up.
    hi_ns: f64,
}

/// A stage without the traces that something disturbed.
#[derive(Debug, Serialize)]
struct StageNoiseJson<'a> {
    /// Its name.
    stage: &'a str,
    /// Durations that nothing disturbed; `p50`, `p99` and `p999` are of these.
    undisturbed: u64,
    /// Durations that something disturbed.
    disturbed: u64,
    /// Durations with unknown disturbance.
    unknown: u64,
    /// The median of the undisturbed.
    p50: Option<QuantileJson>,
    /// Their 99th percentile.
    p99: Option<QuantileJson>,
    /// Their 99.9th percentile.
    p999: Option<QuantileJson>,
    /// What disturbed it, that of the most ticks first; 100 at most.
    neighbours: &'a [Neighbour],
}

/// The stage's part of the whole that it belongs to, over the traces that have all its stages.
#[derive(Debug, Serialize)]
struct ShareJson<'a> {
    /// The whole.
    of: &'a str,
    /// Traces that have all stages of its route: the sums are over these.
    traces: u64,
    /// Sum of the estimates; those of the path's stages add up to `of_ticks`; `null` beyond 64 bits.
    ticks: Option<i64>,
    /// The same of the whole.
    of_ticks: Option<i64>,
    /// One over the other.
    ratio: Option<f64>,
    /// It is no less.
    lo_ratio: Option<f64>,
    /// It is no more.
    hi_ratio: Option<f64>,
}

/// A limit of a stage, and how the traces stand to it.
#[derive(Debug, Serialize)]
struct LimitJson<'a> {
    /// Its name in the run file.
    name: Option<&'a str>,
    /// The stage.
    stage: &'a str,
    /// The longest that is allowed.
    at_most_ns: Option<u64>,
    /// The shortest that is allowed.
    at_least_ns: Option<u64>,
    /// The former at the slowest rate that the reference may have, and at the fastest.
    at_most_ticks: Option<[Option<i64>; 2]>,
    /// The same of the latter.
    at_least_ticks: Option<[Option<i64>; 2]>,
    /// The share of traces that it has to hold for.
    share: f64,
    /// `holds`, `violated` or `not-resolved`.
    verdict: &'static str,
    /// Why it is not resolved: `intervals`, `no-trace`, `no-stage`, `finding` or `lack` ([what they
    /// mean](run-file.md#limits)).
    reason: Option<&'static str>,
    /// Traces that were judged.
    traces: u64,
    /// Traces that keep it.
    kept: u64,
    /// Traces that break it.
    broken: u64,
    /// Traces whose interval holds durations of both kinds.
    straddling: u64,
    /// Traces with both stamps and no duration that can be.
    unknown: u64,
    /// Traces that lack a stamp of it.
    missing: u64,
    /// Traces that lack one where a policy leaves stamps out.
    left_out: u64,
    /// The points of the stage whose policies leave stamps out, with these.
    thinned: &'a [String],
    /// How far the interval of a straddling trace reaches from its estimate, at most.
    widest_half_width_ticks: u64,
    /// The same in nanoseconds.
    widest_half_width_ns: f64,
    /// The half-width that would settle it, to a sixteenth.
    resolving_half_width_ticks: Option<u64>,
    /// The same, rounded down.
    resolving_half_width_lo_ns: Option<f64>,
    /// The traces that break it most.
    worst: Vec<LimitBreakerJson<'a>>,
}

/// A trace that breaks a limit.
#[derive(Debug, Serialize)]
struct LimitBreakerJson<'a> {
    /// Class of its id.
    kind: i32,
    /// Its id.
    id: i64,
    /// What the id is a hash of, where it was kept.
    original: Option<&'a str>,
    /// Which passage of the id.
    occurrence: i32,
    /// How long it took.
    duration: QuantileJson,
}

#[derive(Debug, Serialize)]
struct SidesJson {
    /// By how much the truth may be less.
    below_ticks: u64,
    /// By how much it may be more.
    above_ticks: u64,
    /// The former in nanoseconds.
    below_ns: f64,
    /// The latter in nanoseconds.
    above_ns: f64,
}

#[derive(Debug, Serialize)]
struct RelativeJson {
    /// Any two of the run.
    run_ticks: u64,
    /// The same in nanoseconds.
    run_ns: f64,
    /// Two that are a millisecond apart.
    one_ms_apart_ticks: u64,
    /// The same in nanoseconds.
    one_ms_apart_ns: f64,
}

#[derive(Debug, Serialize)]
struct PathSumsJson {
    /// Traces whose path stages do not sum to the whole.
    mismatches: u64,
}

#[derive(Debug, Serialize)]
struct PassagesJson {
    /// How many there are.
    repeated: u64,
    /// Ids whose passages overlap and were separated by thread.
    by_thread: u64,
    /// Ids whose attempts were separated by what their stamps say.
    by_attempt: u64,
    /// Ids with durations refused because nothing separates their passages.
    untold: u64,
}

#[derive(Debug, Serialize)]
struct UnplacedJson<'a> {
    /// The stage.
    stage: &'a str,
    /// Why.
    reason: &'a str,
    /// How many.
    count: u64,
}

#[derive(Debug, Serialize)]
struct TruthJson {
    /// Durations whose truth is known.
    known: u64,
    /// Durations that lie in their intervals.
    inside: u64,
}

/// What figures rest on, as every command's JSON has it.
#[derive(Debug, Serialize)]
pub struct AssumptionJson {
    /// The assumption, as a sentence.
    statement: String,
    /// Where it comes from, in words.
    origin: String,
    /// `default`, `preset`, `declared`, `measured`, `checked`, `platform` (the kernel, the processor, the authors
    /// vouch for it), `method`, `assumed` or `recorded` (text of `run.json`).
    origin_kind: OriginKind,
    /// True if a figure or bound would be another without it, and nobody checked, measured or declared it.
    matters: bool,
}

/// What happened to the measuring.
#[derive(Debug, Serialize)]
pub struct EventJson<'a> {
    /// The node; `host` or `run` where it is of no one.
    node: &'a str,
    /// The channel concerned.
    channel: Option<i32>,
    /// Label of the domain concerned.
    domain: Option<&'a str>,
    /// First tick concerned.
    tick: Option<i64>,
    /// Last tick concerned.
    until: Option<i64>,
    /// The kind of the event ([the kinds](run-format.md)).
    what: &'a str,
    /// How many, or how much.
    value: Option<i64>,
    /// A sentence for people.
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

//! Analyses with any figures at all, and what is printed of them read back exactly.

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use tickscope_analysis::{
    Analysis, AuxiliaryClockSummary, BreakSummary, ClockMapSummary, JoinedNow, Kept, KeptPolicy, LateStage, LateTrace,
    Limit, LimitBreaker, LimitTicks, PairSummary, PassageSummary, Preparation, SourceSummary, Span, Stream, StreamEnd,
};
use tickscope_bracket::Rho;
use tickscope_rivals::{Acknowledged, NodeRivals, PublishedErrors, RivalBound, RivalMethod, RivalWidth, RoundTrips};
use tickscope_store::{LimitRule, RunState};
use tickscope_tick::Frequency;
use tickscope_trace::infer::{Inferred, InferredEdge};
use tickscope_trace::{Common, QuantileBounds, Share, StageRole, StageRow, Sums};

pub const HERTZ: u64 = 2_299_998_020;

/// A printed number, by its digits alone.
pub fn read(text: &str) -> BigRational {
    let (number, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: BigInt = format!("{whole}{part}").parse().unwrap_or_else(|_| panic!("a number, found '{text}'"));
    BigRational::from(digits)
        * BigRational::from(BigInt::from(10)).pow(exponent.parse::<i32>().unwrap() - part.len() as i32)
}

pub fn exact(ticks: impl Into<BigInt>, hertz: u64, per_second: u64) -> BigRational {
    BigRational::new(ticks.into() * BigInt::from(per_second), BigInt::from(hertz))
}

fn any_hertz() -> impl Strategy<Value = u64> {
    let odd = [1, 7, 999_999_937, 1_000_000_000, HERTZ, 2_449_995_997, 10_000_000_000];
    prop_oneof![prop::sample::select(odd.to_vec()), 1..=10_000_000_000_u64]
}

fn any_ticks() -> impl Strategy<Value = i64> {
    prop_oneof![prop::sample::select(vec![i64::MIN, -1, 0, 1, i64::MAX]), -1_000_000..1_000_000_i64, any::<i64>()]
}

fn any_amount() -> impl Strategy<Value = u64> {
    prop_oneof![prop::sample::select(vec![0, 1, u64::MAX]), 0..1_000_000_u64, any::<u64>()]
}

fn pair(rho: Rho, half: u64) -> PairSummary {
    PairSummary {
        domain: "c.tsc".parse().unwrap(),
        reference: "b.tsc".parse().unwrap(),
        rho,
        prior_ppm: 500,
        rests_on_prior: false,
        brackets: 1,
        direct_half_width_ticks: Some(half),
        closed_half_width_ticks: Some(half),
        ways: vec![vec!["c.tsc".parse().unwrap(), "a.tsc".parse().unwrap(), "b.tsc".parse().unwrap()]],
    }
}

fn row((quantiles, amounts): ([[i64; 3]; 5], [u64; 6])) -> StageRow {
    let [p50, p99, p999, max, mean] = quantiles.map(|mut ends| {
        ends.sort_unstable();
        Some(QuantileBounds { lo: ends[0], estimate: ends[1], hi: ends[2] })
    });
    let side = |at: usize| Common { below_ticks: amounts[at], above_ticks: amounts[at + 1] };
    StageRow {
        name: "a.x>b.y".into(),
        from: "a.x".into(),
        to: "b.y".into(),
        role: StageRole::Path,
        count: 1,
        missing: 0,
        refused: 0,
        refused_by: Default::default(),
        impossible: 0,
        against_inferred: 0,
        p50,
        p99,
        p999,
        max,
        mean,
        quantiles: vec![],
        share: share(quantiles[0]),
        common: side(0),
        own: side(2),
        relative_ticks: amounts[4],
        core_ticks: 0,
    }
}

/// A part of a whole: sums of one trace.
fn share(mut ends: [i64; 3]) -> Option<Share> {
    ends.sort_unstable();
    let [lo, estimate, hi] = ends.map(i128::from);
    let of = Sums { estimate: 1 << 63, lo: 1, hi: 1 << 64 };
    Some(Share { whole: 0, is_whole: false, traces: 1, part: Sums { estimate, lo, hi }, of })
}

/// One method beside ours.
pub fn rivals() -> NodeRivals {
    NodeRivals {
        domain: "b.tsc".parse().unwrap(),
        reference: "a.tsc".parse().unwrap(),
        methods: vec![RivalMethod {
            name: "tickscope".into(),
            bound: RivalBound::Guaranteed,
            samples: 1,
            not_yet: 0,
            half_width: Some(RivalWidth { least_ns: Some(1), median_ns: 1, most_ns: 1 }),
            error_ns: Some([0, 0]),
            outside: Some(0),
            curve: vec![[0, 1]],
            band: vec![],
            errors: vec![],
        }],
        round_trips_ns: [Some(1), None, Some(1)],
        round_trips: vec![RoundTrips {
            from: "a.tsc".parse().unwrap(),
            to: "b.tsc".parse().unwrap(),
            shortest_ns: [Some(1), None, Some(1)],
        }],
        hertz: Some([1, 1]),
        declared_hertz: 1,
        declared_tolerance_ppm: 1,
        declared_by: "kernel".into(),
        published: Some(PublishedErrors { e_ns: 1, apart_ns: 1, rows: vec![] }),
        acknowledged: Some(Acknowledged {
            compared: 1,
            outside_guaranteed: 0,
            late_ns: [1, 1],
            round_trip_ns: [1, 1, 1],
            unmatched: 0,
            repeated: 0,
        }),
        refused: vec![],
        curves_from: 0,
        fastest: vec![],
    }
}

/// A table of one stage, one clock map and one clock whose counter runs at another rate than the reference.
fn source(alone: u64, without: u64) -> SourceSummary {
    let (alone_ticks, without_ticks) = (Some(alone), Some(without));
    SourceSummary { name: "probes", brackets: 1, alone_ticks, without_ticks, unused: vec![] }
}

fn late_stage() -> LateStage {
    let trace = LateTrace { kind: 0, id: 1, original: None, occurrence: 0 };
    LateStage { stage: "a>b".into(), spanning: 1, longest_ticks: 1, traces: vec![trace] }
}

/// A clock whose readings are so wide at the median and at the 99th percentile, and so far outside as published.
fn clock(slew: Rho, hertz: u64, [half, half_p99, furthest]: [u64; 3]) -> AuxiliaryClockSummary {
    AuxiliaryClockSummary {
        domain: "b.realtime".parse().unwrap(),
        counter: "b.tsc".parse().unwrap(),
        slew,
        slew_origin: "declared".into(),
        hertz,
        prior_ppm: 1102,
        rests_on_prior: false,
        brackets: 1,
        unused: vec![],
        epochs: 1,
        breaks: vec![],
        points: 1,
        readings: 1,
        half_width_ticks: Some(half),
        half_width_p99_ticks: Some(half_p99),
        published_inside: 0,
        published_furthest_ticks: furthest,
        contradictions: vec![],
    }
}

fn analysis(hertz: u64, own_hertz: u64, row: StageRow, amounts: [u64; 6]) -> Analysis {
    let ([relative, half, alone, without, own, furthest], rho) = (amounts, "1".parse::<Rho>().unwrap());
    let clock_map = ClockMapSummary {
        domain: "b.tsc".parse().unwrap(),
        rho,
        brackets: 1,
        half_width_ticks: Some(half),
        half_round_trip_ticks: None,
        other_rho: vec![(rho, Some(alone))],
        sources: vec![source(alone, without)],
        slopes: (1.0, 1.0),
        prior_ppm: 500,
        rests_on_prior: false,
    };
    let clock = clock(rho, own_hertz, [own, alone, furthest]);
    Analysis {
        rows: vec![row],
        relative_1ms_ticks: vec![relative],
        clock_maps: vec![clock_map],
        pairs: vec![pair(rho, half)],
        sent_once: vec![],
        noise: vec![],
        pauses: Vec::new(),
        late_pools: vec![late_stage()],
        program_readings: vec!["server: stamps of process 7 (java) are of the TSC".into()],
        not_kept: None,
        one_counter: vec![],
        passages: PassageSummary::default(),
        passages_line: None,
        end_ticks: Default::default(),
        auxiliary_clocks: vec![clock],
        reference: "a.tsc".parse().unwrap(),
        counters: vec![],
        unsound: vec![],
        frequency: Frequency { hertz, tolerance_ppm: 100 },
        truth: None,
        unplaced: vec![],
        suspicions: vec![],
        sum_mismatches: 0,
        refused: vec![],
        complete: 1,
        unstamped: vec![],
        counting: vec![],
        unrelated: vec![],
        alone: vec![],
        kept: Kept::default(),
        limits: vec![],
        stream: None,
        preparation: Default::default(),
        cut_off: false,
    }
}

prop_compose! {
    pub fn any_analysis()(
        hertz in any_hertz(), own_hertz in any_hertz(),
        quantiles in prop::array::uniform5(prop::array::uniform3(any_ticks())),
        of_row in prop::array::uniform6(any_amount()), amounts in prop::array::uniform6(any_amount()),
    ) -> Analysis {
        analysis(hertz, own_hertz, row((quantiles, of_row)), amounts)
    }
}

fn kept() -> Kept {
    Kept {
        policies: vec![KeptPolicy {
            point: "a.x".into(),
            policy: "every 100".into(),
            channels: 1,
            kept: 1,
            seen: Some(100),
            counted: Some(0),
            leaves_out: true,
        }],
        lines: vec!["a line".into()],
        warnings: vec!["a warning".into()],
        unused: vec!["an unused rule".into()],
        alike: false,
        thinned: vec!["a.x (every 100)".into()],
    }
}

fn stream() -> Stream {
    let end = |point: &str| StreamEnd { point: point.into(), thread: 1, tick: 1 };
    Stream {
        ticks: Some(2),
        lo_ticks: Some(1),
        hi_ticks: Some(3),
        from: Some(end("a.x")),
        to: Some(end("b.y")),
        sinks: 1,
        sinks_ended: 0,
        unseen: vec!["b.y, thread 1".into()],
        unbounded: vec!["a reason".into()],
    }
}

fn limit() -> Limit {
    let breaker = LimitBreaker {
        kind: 1,
        id: 17,
        original: Some("an order".into()),
        occurrence: 1,
        span: Span { estimate: 6, lo: 5, hi: 7 },
        beyond_ticks: 2,
    };
    let rule = LimitRule {
        name: Some("a limit".into()),
        stage: "a.x > b.y".into(),
        at_most_ns: Some(1),
        at_least_ns: Some(1),
        share_ppb: 999_000_000,
    };
    Limit {
        rule,
        stage: Some("a.x>b.y".into()),
        ticks: LimitTicks { most: Some([2, 3]), least: Some([2, 3]) },
        kept: 5000,
        broken: 1,
        straddling: 6,
        unknown: 1,
        missing: 2,
        left_out: 3,
        worst: vec![breaker],
        thinned: vec!["a.x (every 100)".into()],
        widest_ticks: 10,
        resolving_ticks: Some(5),
    }
}

/// An analysis that has every part but the truth.
pub fn with_everything() -> Analysis {
    let mut all = analysis(HERTZ, HERTZ, row(([[1; 3]; 5], [1; 6])), [1; 6]);
    let clock = &mut all.auxiliary_clocks[0];
    clock.breaks = vec![BreakSummary { span: (1, 2), declared: true, jump_ns: Some((3, 4)) }];
    clock.unused = vec![("reason", 1)];
    all.clock_maps[0].sources[0].unused = vec![("reason", 1)];
    (all.kept, all.stream, all.limits) = (kept(), Some(stream()), vec![limit()]);
    all.unplaced = vec![("a.x>b.y".into(), "reason", 1)];
    let edge = InferredEdge { from: "a.x".into(), to: "b.y".into(), common: 1, agree: 1 };
    let inferred = Inferred { ids: 1, edges: vec![edge.clone()], wandering: vec![edge], alone: vec!["c.z".into()] };
    let (stamps, state, counts) = (2, RunState::Ended, Default::default());
    all.preparation = Preparation {
        joined: Some(JoinedNow { stamps, state, until_unix_ms: Some(1), kept: true, counts, refused: vec![] }),
        inferred: Some(inferred),
        contradictions: Vec::new(),
        notes: vec!["a note".into()],
    };
    all
}

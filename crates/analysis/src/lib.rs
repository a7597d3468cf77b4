//! From a run's files to what they say: the command, the report and the bindings stand on the same few calls.
//!
//! Idea: [`analyse`] reads manifest, brackets and traces, builds a clock for every point of the layout, and computes
//! each stage's figures with both bounds; [`RunJson`] gives them to programs, [`assumptions`] says what they
//! rest on, [`figures`] are what a page draws. [`ready`] joins what was not joined, and finds a layout where none was
//! declared. Assumes that the run was joined. Guarantees: nothing is computed twice
//! in two ways; a run that contradicts itself is an error of kind finding, never a smoothed figure. Deliberately
//! absent: options, exit codes, starting anything.
#![forbid(unsafe_code)]

mod age;
mod age_plan;
mod analysis;
mod assumption;
mod assumptions;
mod auxiliary_clocks;
pub mod channel_counts;
mod clock_maps;
mod closure;
mod common_host;
mod compare;
pub mod cost;
mod count_only;
mod counted_points;
mod counters;
mod counts;
mod declared_rho;
mod domains;
mod duration_cache;
mod error;
mod evidence;
pub mod figures;
mod findings;
mod groups;
mod impossible_counts;
mod in_time;
mod inference;
mod inputs;
mod jitter;
mod kept;
mod late_pools;
mod limit_verdicts;
mod limits;
mod machines;
mod messages;
mod noise;
mod null_points;
mod over_time;
mod overhead;
mod overview;
mod passages;
mod path_columns;
mod public_json;
mod query;
mod reach;
mod ready;
#[cfg(test)]
#[path = "../../store/tests/sample/mod.rs"]
mod sample;
mod scan;
mod scatter_matrix;
mod span;
mod spans;
mod stream;
mod sustain;
mod sweep;
mod tail;
mod totals;
mod truth;
mod unused_rules;
mod utc;
mod values;

pub use age::{
    Age, AgeKey, AgeQuery, AgeShare, AgeSpan, Ages, DrawnAge, FEW_UPDATES, KeyAge, MOST_AGED_KEYS, NoAge, Updates, age,
};
pub use age_plan::{AgePlan, age_plan};
pub use analysis::{
    Analysis, analyse, analyse_beside, analyse_counts, analyse_scan, analyse_with_figures, analyse_with_figures_beside,
    unknown_loss, unknown_loss_of,
};
pub use assumption::{Assumption, CounterPairs, Fact, Origin, OriginKind, SendProof};
pub use assumptions::{assumptions, what_matters};
pub use auxiliary_clocks::{AuxiliaryClockSummary, BreakSummary};
pub use clock_maps::{ClockMapSummary, RateAlone, SourceSummary, clock_map_of, probed_half_width};
pub use closure::PairSummary;
pub use compare::{
    ChangeTolerance, ChangeVerdict, Ends, Level, LimitedBy, MostChanged, QuantileChange, RunComparison, RunFigure,
    Shift, StageChange, compare,
};
pub use count_only::{only_counted, some_count, switches_to_count};
pub use counted_points::{CountedPeriod, CountedPoint, CountedPoints, CountedRate, counted_points};
pub use counters::{Counters, reference_node, shares_counter};
pub use declared_rho::run_rho;
pub use duration_cache::durations;
pub use error::Error;
pub use evidence::reading_ticks;
pub use groups::{Group, GroupedBy, Groups, grouped, tells_channels};
pub use in_time::{InTime, Ordered};
pub use jitter::{Fit, Jitter, JitterBox, StageJitter};
pub use kept::{Kept, KeptPolicy};
pub use late_pools::{LateStage, LateTrace};
pub use limits::{Limit, LimitBreaker, LimitTicks, LimitVerdict, MOST_WORST, Undecided};
pub use machines::{Machines, only_related};
pub use messages::{MessagePair, Passages, Told, own_send};
pub use noise::{HostNoise, Neighbour, StageNoise, noise_of_slow};
pub use null_points::unstamped_point;
pub use over_time::{OverTime, TimeWindow, Trend};
pub use overhead::{Added, FEWEST_PAIRS, added};
pub use overview::{Overview, StageOverview};
pub use passages::{PassageSummary, join};
pub use public_json::{AssumptionJson, EventJson, FaultJson, RunJson, VERSION, role};
pub use query::Query;
pub use ready::{JOIN_BYTES, JoinedNow, Preparation, ReadyRun, expect_anything, ready};
pub use scan::{Outcome, Part, Piece, Scan, Sink, Wanted};
pub use scatter_matrix::{Correlation, KindPoints, PairCell, ScatterMatrix};
pub use span::Span;
pub use spans::{Spanned, Spans, spans};
pub use stream::{Stream, StreamEnd};
pub use sustain::{MeanDelay, SustainRule, SustainSearch, SustainTrial, SustainVerdict, Sustained, judged};
pub use sweep::{
    KeysLeftOut, PrintedNumber, SweepFigure, SweepNumber, SweepPoint, SweepTable, SweepTrial, TrialFigure, swept,
};
pub use tail::{FEWEST_SLOW, StageTail, Tail, TailShare, Unresolved, WhatIf};
pub use totals::{Total, Totals, TotalsJson, totals};
pub use truth::Truth;
pub use unused_rules::{listed, unused_rules, without_node};
pub use utc::{RunTimes, TimeOfDay, time_of_day};

//! The table of a run for one kind of ids, or one value of a stamp, at a time.
//!
//! Idea: two passes over the traces; the first counts the keys, the second gathers the values of those that most traces
//! have. Guarantees: memory grows with the traces of the groups that are shown, and with the number of keys no further
//! than [`MOST_KEYS`]; every trace is in a group or counted as in none that is shown. Deliberately absent: bounds that
//! belong to a run and not to a group of its traces (common, relative).

use std::collections::BTreeMap;

use tickscope_store::Run;
use tickscope_trace::{Attribute, Column, Common, Quantile, Share, SharePlan, StageRole, StageRow, StageValues};

use crate::error::Error;
use crate::query::Query;
use crate::scan::{Outcome, Piece, Scan, show_group};

/// What traces are grouped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupedBy {
    /// The class of their ids.
    Kind,
    /// The number that the program gave with the first stamp of the path that has one.
    Value,
}

/// Keys that are told apart.
pub const MOST_KEYS: usize = 1 << 16;

/// A run's traces in groups.
#[derive(Debug)]
pub struct Groups {
    /// Those that most traces have, by key.
    pub shown: Vec<Group>,
    /// How many further keys there are; those beyond [`MOST_KEYS`] count as one.
    pub more_keys: usize,
    /// How many traces have one of these.
    pub more_traces: u64,
}

/// Traces of one key.
#[derive(Debug)]
pub struct Group {
    /// The kind or the value; `None`: no stamp of the trace has a value.
    pub key: Option<i64>,
    /// How many traces.
    pub traces: u64,
    /// A row a stage; without common, relative and core bounds, which are the run's.
    pub rows: Vec<StageRow>,
}

/// Gathers the groups of a run under `query`, at most `most` of them.
pub fn grouped(run: &Run, query: &Query, by: GroupedBy, most: usize) -> Result<Groups, Error> {
    let scan = Scan::of(run, query)?;
    let mut counts: BTreeMap<Option<i64>, u64> = BTreeMap::new();
    let mut beyond = 0;
    each_trace(&scan, by, |key, _, _| {
        if counts.len() < MOST_KEYS || counts.contains_key(&key) {
            *counts.entry(key).or_default() += 1;
        } else {
            beyond += 1;
        }
    })?;
    let mut order: Vec<_> = counts.iter().map(|(&key, &count)| (std::cmp::Reverse(count), key)).collect();
    order.sort_unstable();
    let mut kept: BTreeMap<Option<i64>, Gathered> =
        order.iter().take(most).map(|&(_, key)| (key, Gathered::none(scan.layout().stages().len()))).collect();
    let plan = SharePlan::of(scan.layout());
    each_trace(&scan, by, |key, piece, row| {
        if let Some(group) = kept.get_mut(&key) {
            group.add(piece, row, &plan);
        }
    })?;
    let more_keys = counts.len() - kept.len() + usize::from(beyond > 0);
    let more_traces = order.iter().skip(most).map(|(count, _)| count.0).sum::<u64>() + beyond;
    let group = |(key, gathered): (Option<i64>, Gathered)| Group {
        key,
        traces: counts[&key],
        rows: gathered.rows(&scan, query),
    };
    Ok(Groups { shown: kept.into_iter().map(group).collect(), more_keys, more_traces })
}

/// Every trace with its key, once for all its rows.
fn each_trace(scan: &Scan, by: GroupedBy, mut each: impl FnMut(Option<i64>, &Piece<'_>, usize)) -> Result<(), Error> {
    for reader in &scan.readers {
        for group in 0..reader.groups() {
            let values = match by {
                GroupedBy::Kind => Vec::new(),
                GroupedBy::Value => {
                    let points = scan.layout().points().iter();
                    let read = |point: &tickscope_trace::Point| {
                        reader.read_attribute(group, &point.place.to_string(), Attribute::Value)
                    };
                    points.map(read).collect::<Result<Vec<Column>, _>>()?
                }
            };
            let mut first = 0;
            show_group(&scan.inputs, &reader.read_group(group)?, |piece| {
                for row in 0..piece.traces.len() {
                    let key = match by {
                        GroupedBy::Kind => Some(piece.traces.kinds()[row].into()),
                        GroupedBy::Value => values.iter().find_map(|column| column.get(first + row)),
                    };
                    each(key, piece, row);
                }
                first += piece.traces.len();
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// What is known of a group, by stage.
struct Gathered {
    values: Vec<StageValues>,
    /// Count, missing, refused, impossible.
    counts: Vec<[u64; 4]>,
    shares: Vec<Option<Share>>,
}

impl Gathered {
    fn none(stages: usize) -> Self {
        Self { values: vec![StageValues::default(); stages], counts: vec![[0; 4]; stages], shares: vec![None; stages] }
    }

    fn add(&mut self, piece: &Piece<'_>, row: usize, plan: &SharePlan) {
        let stages = piece.layout.stages();
        for stage in 0..stages.len() {
            let (outcome, span) = piece.outcome(stage, row);
            let counts = &mut self.counts[stage];
            match outcome {
                Outcome::Repeated => continue,
                Outcome::Missing => counts[1] += 1,
                Outcome::Refused => counts[2] += 1,
                Outcome::Impossible | Outcome::Measured => {
                    counts[0] += 1;
                    counts[3] += u64::from(outcome == Outcome::Impossible);
                }
            }
            span.into_iter().for_each(|span| self.values[stage].push([span.estimate, span.lo, span.hi]));
        }
        let values = |stage: usize| {
            let (outcome, span) = piece.outcome(stage, row);
            let counts = stages[stage].role != StageRole::EndToEnd || outcome != Outcome::Repeated;
            span.filter(|_| counts).map(|span| [span.estimate, span.lo, span.hi])
        };
        plan.add(values, &mut self.shares);
    }

    fn rows(self, scan: &Scan, query: &Query) -> Vec<StageRow> {
        let points = scan.layout().points();
        let stages = scan.layout().stages().iter().zip(self.values).zip(self.counts).zip(self.shares);
        let row = |(((stage, mut values), counts), share): (((&tickscope_trace::Stage, _), [u64; 4]), _)| {
            let values: &mut StageValues = &mut values;
            let [count, missing, refused, impossible] = counts;
            StageRow {
                name: stage.name.clone(),
                from: points[stage.from].place.to_string(),
                to: points[stage.to].place.to_string(),
                role: stage.role,
                count,
                missing,
                refused,
                refused_by: Default::default(),
                impossible,
                against_inferred: 0,
                p50: values.quantile(Quantile::MEDIAN),
                p99: values.quantile(Quantile::P99),
                p999: values.quantile(Quantile::P999),
                max: values.quantile(Quantile::MAXIMUM),
                quantiles: query.quantiles.iter().filter_map(|&quantile| values.quantile(quantile)).collect(),
                mean: values.mean(),
                share,
                common: Common::default(),
                own: Common::default(),
                relative_ticks: 0,
                core_ticks: 0,
            }
        };
        stages.map(row).collect()
    }
}

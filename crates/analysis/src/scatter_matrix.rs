//! How the stages of the path go with each other: X-Lap's scatter matrix, with coefficients, kinds of ids apart.
//!
//! Guarantees: the same traces are in every cell, and their number is in each; where they are many, both coefficients
//! are of a part of them, evenly chosen; the same for any number of workers. Deliberately absent: bounds. The
//! coefficients are of estimates: an error that two stages share, as neighbours share the stamp between them, is in
//! their coefficient too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::jitter::{Moments, evenly, ranks};
use crate::path_columns::PathColumns;
use crate::scan::in_turns;

/// Stages that are paired, at most, besides the whole.
pub const MOST_PAIRED: usize = 12;
/// Kinds that stand apart, at most.
const MOST_KINDS: usize = 3;
/// Traces that coefficients are of, at most: of so many they are known to 0.004.
const MOST_COMPARED: usize = 1 << 18;
/// Points of a kind, at most.
const MOST_POINTS: usize = 150;

/// Every pair of stages of a path. Ticks of the reference.
#[derive(Clone, Debug, Serialize)]
pub struct ScatterMatrix {
    /// Traces with every stage of the path and the whole.
    pub traces: usize,
    /// Traces that lack one of them: in no cell.
    pub left_out: u64,
    /// The stages in the path's order, then the whole.
    pub stages: Vec<String>,
    /// Stages of the path that are not among them.
    pub more_stages: usize,
    /// The kinds that most traces are of, the most frequent first; all of them together are one group too.
    pub kinds: Vec<KindPoints>,
    /// Kinds besides these, and how many traces they have.
    pub more_kinds: (usize, usize),
    /// A cell for each two stages, the first before the second.
    pub cells: Vec<PairCell>,
}

/// Traces of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindPoints {
    /// The kind.
    pub kind: i32,
    /// How many traces.
    pub traces: usize,
    /// Some of them, evenly from all: a number a stage.
    pub points_ticks: Vec<Vec<i64>>,
    /// Those in which a stage took longest: what a coefficient may be made of alone.
    pub longest_ticks: Vec<Vec<i64>>,
}

/// Two stages.
#[derive(Clone, Debug, Serialize)]
pub struct PairCell {
    /// Indices of the stages.
    pub stages: [usize; 2],
    /// Of all traces.
    pub all: Correlation,
    /// Of each of the kinds; empty where there is but one.
    pub by_kind: Vec<Correlation>,
}

/// How two stages go together. `None`: one of them does not vary.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Correlation {
    /// How many traces it is of.
    pub count: usize,
    /// Pearson's coefficient.
    pub pearson: Option<f64>,
    /// Spearman's, of mean ranks.
    pub spearman: Option<f64>,
}

impl ScatterMatrix {
    /// The same with at most so many points of each kind.
    pub fn with_fewer(&self, points: usize) -> Self {
        let mut fewer = self.clone();
        for kind in &mut fewer.kinds {
            let all = &kind.points_ticks;
            kind.points_ticks = evenly(all.len(), points).map(|at| all[at].clone()).collect();
        }
        fewer
    }

    /// The matrix of all whole traces; `names` are those of the columns.
    pub(crate) fn of(columns: &PathColumns, names: &[String]) -> Self {
        let whole = names.len().saturating_sub(1);
        let paired: Vec<usize> = (0..names.len()).filter(|&at| at < MOST_PAIRED || at == whole).collect();
        let traces = columns.whole().len();
        let (apart, more_kinds) = kinds(columns.kinds());
        let all: Vec<usize> = (0..traces).collect();
        let rows_of = |kind: i32| all.iter().copied().filter(|&row| columns.kinds()[row] == kind).collect::<Vec<_>>();
        let rows: Vec<Vec<usize>> = apart.iter().map(|&(kind, _)| rows_of(kind)).collect();
        let several = apart.len() > 1 || more_kinds.0 > 0;
        let groups: Vec<&[usize]> =
            std::iter::once(&all).chain(rows.iter().filter(|_| several)).map(Vec::as_slice).collect();
        let groups: Vec<Group> = groups.into_iter().map(|rows| Group::of(columns, &paired, rows)).collect();
        let pairs = (0..paired.len()).flat_map(|first| (first + 1..paired.len()).map(move |second| [first, second]));
        let cells = in_turns(pairs.collect(), |stages: [usize; 2]| {
            let (all, by_kind) = groups.split_first().expect("all traces are a group");
            let by_kind = by_kind.iter().map(|group| group.correlation(stages)).collect();
            PairCell { stages, all: all.correlation(stages), by_kind }
        });
        let point = |row: usize| paired.iter().map(|&stage| columns.values()[stage][row]).collect::<Vec<i64>>();
        let points = |rows: &[usize]| evenly(rows.len(), MOST_POINTS).map(|at| point(rows[at])).collect();
        let longest = |rows: &[usize]| {
            let of =
                |&stage: &usize| rows.iter().copied().max_by_key(|&row| (columns.values()[stage][row], Reverse(row)));
            let rows: BTreeSet<usize> = paired.iter().filter_map(of).collect();
            rows.into_iter().map(point).collect()
        };
        let kinds = apart.iter().zip(&rows);
        Self {
            traces,
            left_out: columns.left_out(),
            stages: paired.iter().map(|&at| names[at].clone()).collect(),
            more_stages: names.len() - paired.len(),
            kinds: kinds
                .map(|(&(kind, traces), rows)| KindPoints {
                    kind,
                    traces,
                    points_ticks: points(rows),
                    longest_ticks: longest(rows),
                })
                .collect(),
            more_kinds,
            cells,
        }
    }
}

/// The most frequent kinds with their numbers of traces, and how many others there are, of how many traces.
fn kinds(of: &[i32]) -> (Vec<(i32, usize)>, (usize, usize)) {
    let mut counts = BTreeMap::new();
    of.iter().for_each(|&kind| *counts.entry(kind).or_insert(0) += 1);
    let mut counts: Vec<(i32, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(kind, traces)| (Reverse(traces), kind));
    let more = counts.split_off(counts.len().min(MOST_KINDS));
    (counts, (more.len(), more.iter().map(|&(_, traces)| traces).sum()))
}

/// Values and ranks of some traces, by stage.
struct Group {
    values: Vec<Vec<f64>>,
    ranks: Vec<Vec<f64>>,
    count: usize,
}

impl Group {
    fn of(columns: &PathColumns, stages: &[usize], rows: &[usize]) -> Self {
        let rows: Vec<usize> = evenly(rows.len(), MOST_COMPARED).map(|at| rows[at]).collect();
        let ranked = in_turns(stages.to_vec(), |stage: usize| {
            let values: Vec<i64> = rows.iter().map(|&row| columns.values()[stage][row]).collect();
            let ranks = ranks(&values);
            (values.into_iter().map(|value| value as f64).collect(), ranks)
        });
        let (values, ranks) = ranked.into_iter().unzip();
        Self { values, ranks, count: rows.len() }
    }

    fn correlation(&self, [first, second]: [usize; 2]) -> Correlation {
        let of = |columns: &[Vec<f64>]| {
            let pairs = || columns[first].iter().zip(&columns[second]).map(|(&x, &y)| [x, y]);
            Moments::of(self.count, pairs).correlation()
        };
        Correlation { count: self.count, pearson: of(&self.values), spearman: of(&self.ranks) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("stage {at}")).collect()
    }

    #[test]
    fn a_cell_has_both_coefficients_of_all_and_of_each_kind() {
        // One kind rises, the other falls; 4 of the first, 3 of the second.
        let x = vec![1, 2, 3, 4, 1, 2, 3];
        let y = vec![10, 20, 30, 40, 9, 4, 1];
        let columns = PathColumns::made(vec![x, y.clone(), y], 5).of_kinds(vec![8, 8, 8, 8, 2, 2, 2]);
        let found = ScatterMatrix::of(&columns, &names(3));
        assert_eq!((found.traces, found.left_out, found.more_stages, found.more_kinds), (7, 5, 0, (0, 0)));
        let kinds: Vec<_> = found.kinds.iter().map(|kind| (kind.kind, kind.traces, kind.points_ticks.len())).collect();
        assert_eq!(kinds, [(8, 4, 4), (2, 3, 3)]);
        assert_eq!(found.kinds[1].points_ticks[0], [1, 9, 9]);
        assert_eq!(found.kinds[1].longest_ticks, [[1, 9, 9], [3, 1, 1]]);
        let PairCell { stages, all, by_kind } = &found.cells[0];
        assert_eq!((*stages, all.count), ([0, 1], 7));
        let counted: Vec<_> = by_kind.iter().map(|of| (of.count, of.spearman)).collect();
        assert_eq!(counted, [(4, Some(1.0)), (3, Some(-1.0))]);
        assert!((by_kind[0].pearson.unwrap() - 1.0).abs() < 1e-12 && by_kind[1].pearson.unwrap() > -1.0);
        assert_eq!(found.cells.iter().map(|cell| cell.stages).collect::<Vec<_>>(), [[0, 1], [0, 2], [1, 2]]);
        assert!((found.cells[2].all.pearson.unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn of_one_kind_nothing_stands_apart_and_of_many_the_most_frequent_do() {
        let one = ScatterMatrix::of(&PathColumns::made(vec![vec![1, 2], vec![3, 3]], 0), &names(2));
        assert_eq!((one.kinds.len(), one.cells[0].by_kind.len()), (1, 0));
        assert_eq!(one.cells[0].all, Correlation { count: 2, pearson: None, spearman: None });
        let rows = 100_000;
        let kinds = (0..rows).map(|row| if row % 10 == 0 { row } else { row % 3 }).collect();
        let values: Vec<i64> = (0..i64::from(rows)).collect();
        let many = ScatterMatrix::of(&PathColumns::made(vec![values; 2], 0).of_kinds(kinds), &names(2));
        let told = many.kinds.iter().map(|kind| kind.traces).sum::<usize>() + many.more_kinds.1;
        assert_eq!((many.kinds.len(), many.more_kinds.0, told), (3, 9_999, 100_000));
        assert_eq!(many.kinds[0].points_ticks.len(), MOST_POINTS);
    }

    #[test]
    fn a_long_path_has_its_first_stages_and_its_whole_and_none_has_no_cell() {
        let columns = PathColumns::made(vec![vec![1, 2]; 30], 0);
        let found = ScatterMatrix::of(&columns, &names(30));
        assert_eq!((found.stages.len(), found.more_stages, found.stages[12].as_str()), (13, 17, "stage 29"));
        assert_eq!(found.cells.len(), 13 * 12 / 2);
        let none = ScatterMatrix::of(&PathColumns::made(vec![vec![]; 2], 3), &names(2));
        assert_eq!((none.traces, none.left_out, none.kinds.len(), none.cells[0].all.count), (0, 3, 0, 0));
    }
}

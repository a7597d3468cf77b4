//! All traces of a run at a glance: for each column of time the shortest, the median and the longest of each stage and
//! of the whole, each with what the true one lies between.
//!
//! Guarantees: every whole trace lies in one column; the shortest true duration of a column lies between the least
//! lower and the least upper end, and so do median and longest, of the same rank; an interval's ends are rounded
//! outward to 24 bits. Deliberately absent: single traces (`figures::KeptTraces` has the slowest).

use serde::Serialize;
use tickscope_stats::Quantile;

use crate::figures::Drawn;
use crate::path_columns::PathColumns;
use crate::scan::in_turns;

/// Stages besides the whole, at most.
const MOST_STAGES: usize = 12;
/// Columns of all stages together, about as many as a page has room for.
const ROOM: usize = 900;
/// Columns of a stage, at least and at most.
const COLUMNS: [usize; 2] = [60, 180];

/// A run's traces over time. Ticks of the reference.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// How long a column is.
    pub column_ticks: u64,
    /// Whole traces that began in each column.
    pub traces: Vec<usize>,
    /// Traces that began in each column, the first and the last included, and lack a stage.
    pub holes: Vec<usize>,
    /// Traces that lack a stage and whose beginning is not known.
    pub holes_elsewhere: u64,
    /// The whole, then the first stages of the path in its order.
    pub stages: Vec<StageOverview>,
    /// Stages of the path that are not among them.
    pub more_stages: usize,
}

/// One stage over time.
#[derive(Clone, Debug, Serialize)]
pub struct StageOverview {
    /// Its index in the layout.
    pub stage: usize,
    /// By column: shortest, median and longest; `None`: no trace began in it.
    pub columns: Vec<Option<[Drawn; 3]>>,
}

impl Overview {
    /// Of all whole traces; `instant`: when a raw tick at the first point was, in ticks of the reference. `None`: there
    /// are none, or nothing says when they began.
    pub(crate) fn of(columns: &PathColumns, instant: impl Fn(i64) -> Option<i64>) -> Option<Self> {
        let begun = columns.begun().iter().map(|&raw| instant(raw)).collect::<Option<Vec<i64>>>()?;
        let (first, last) = (*begun.iter().min()?, *begun.iter().max()?);
        let (whole, parts) = columns.stages().split_last()?;
        let shown = parts.len().min(MOST_STAGES);
        let most = (ROOM / (shown + 1)).clamp(COLUMNS[0], COLUMNS[1]) as u64;
        let column_ticks = last.abs_diff(first) / most + 1;
        let count = (last.abs_diff(first) / column_ticks) as usize + 1;
        let mut rows = vec![Vec::new(); count];
        for (row, begun) in begun.iter().enumerate() {
            rows[(begun.abs_diff(first) / column_ticks) as usize].push(row);
        }
        let mut holes = vec![0; count];
        let placed = columns.holes_begun().iter().filter_map(|&raw| instant(raw));
        // A trace without an end may begin before the first whole one, or after the last.
        placed.for_each(|begun| holes[(begun.clamp(first, last).abs_diff(first) / column_ticks) as usize] += 1);
        let holes_elsewhere = columns.left_out() - holes.iter().map(|&number| number as u64).sum::<u64>();
        let order: Vec<usize> = std::iter::once(parts.len()).chain(0..shown).collect();
        let stages = in_turns(order, |at: usize| StageOverview {
            stage: if at == parts.len() { *whole } else { parts[at] },
            columns: rows.iter().map(|rows| bounded(columns, at, rows)).collect(),
        });
        let traces = rows.iter().map(Vec::len).collect();
        let more_stages = parts.len() - shown;
        Some(Self { column_ticks, traces, holes, holes_elsewhere, stages, more_stages })
    }
}

/// Shortest, median and longest of a stage in these traces.
fn bounded(columns: &PathColumns, stage: usize, rows: &[usize]) -> Option<[Drawn; 3]> {
    let mut ends = [Vec::new(), Vec::new(), Vec::new()];
    for &row in rows {
        ends.iter_mut().zip(columns.interval(stage, row)).for_each(|(column, end)| column.push(end));
    }
    let mut drawn = |quantile: Quantile| {
        let [estimate, lo, hi] = ends.each_mut().map(|values| quantile.of(values));
        let (estimate, lo, hi) = (estimate?, lo?, hi?);
        Some((estimate, estimate.abs_diff(lo), hi.abs_diff(estimate)))
    };
    let shortest = Quantile::per_million(0).ok()?;
    Some([drawn(shortest)?, drawn(Quantile::MEDIAN)?, drawn(Quantile::MAXIMUM)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns(whole: Vec<i64>, begun: Vec<i64>, reach: [Vec<u64>; 2]) -> PathColumns {
        PathColumns::made(vec![whole], 4).begun_at(begun).with_reach(0, reach).with_holes(vec![-50, 0, 10_000])
    }

    #[test]
    fn every_trace_and_hole_lies_in_one_column_and_empty_ones_are_there() {
        let all = columns(vec![7, 9, 8], vec![0, 10, 2_000], [vec![0; 3], vec![0; 3]]);
        let found = Overview::of(&all, Some).unwrap();
        assert_eq!((found.column_ticks, found.traces.len()), (12, 167));
        assert_eq!((found.traces[0], found.traces[1], found.traces[166]), (2, 0, 1));
        assert_eq!(found.stages[0].columns[0], Some([(7, 0, 0), (7, 0, 0), (9, 0, 0)]));
        assert_eq!((found.stages[0].columns[1], found.stages[0].stage), (None, 0));
        assert_eq!((found.holes[0], found.holes[166], found.holes_elsewhere), (2, 1, 1));
        assert!(Overview::of(&all, |_| None).is_none());
        assert!(Overview::of(&PathColumns::made(vec![vec![]], 3), Some).is_none());
    }

    #[test]
    fn a_long_path_has_its_whole_first_and_fewer_columns() {
        let begun: Vec<i64> = (0..1_000).collect();
        let all = PathColumns::made(vec![(0..1_000).collect(); 31], 0).begun_at(begun);
        let found = Overview::of(&all, Some).unwrap();
        assert_eq!(
            (found.stages.len(), found.stages[0].stage, found.stages[1].stage, found.more_stages),
            (13, 30, 0, 18)
        );
        assert!(found.traces.len() <= 69 && found.stages.iter().all(|stage| stage.columns.len() == found.traces.len()));
    }

    proptest! {
        #[test]
        fn property_true_shortest_median_and_longest_of_a_column_lie_between_its_ends(
            traces in prop::collection::vec(
                (0i64..1 << 50, 0u64..1 << 45, 0u64..1 << 45, 0.0f64..=1.0, 0i64..1_000_000), 1..60),
        ) {
            let column = |of: fn(&(i64, u64, u64, f64, i64)) -> i64| traces.iter().map(of).collect::<Vec<i64>>();
            let reach = [traces.iter().map(|t| t.1).collect(), traces.iter().map(|t| t.2).collect()];
            let all = columns(column(|t| t.0), column(|t| t.4), reach);
            let found = Overview::of(&all, Some).unwrap();
            let first = traces.iter().map(|t| t.4).min().unwrap();
            for (number, drawn) in found.stages[0].columns.iter().enumerate() {
                let inside = traces.iter().filter(|t| (t.4 - first) as u64 / found.column_ticks == number as u64);
                let truth = |t: &(i64, u64, u64, f64, i64)| {
                    (t.0 - t.1 as i64 + ((t.1 + t.2) as f64 * t.3) as i64).clamp(t.0 - t.1 as i64, t.0 + t.2 as i64)
                };
                let mut truths: Vec<i64> = inside.map(truth).collect();
                truths.sort_unstable();
                prop_assert_eq!(drawn.is_some(), !truths.is_empty());
                let Some(drawn) = drawn else { continue };
                let true_ones = [truths[0], truths[(truths.len() - 1) / 2], truths[truths.len() - 1]];
                for ((estimate, below, above), truth) in drawn.iter().zip(true_ones) {
                    prop_assert!(estimate - *below as i64 <= truth && truth <= estimate + *above as i64);
                }
            }
        }
    }
}

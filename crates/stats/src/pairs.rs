//! The k-th smallest of all pairs of two sorted lists, without making the pairs.
//!
//! The idea: where a value grows with both its row and its column, "below this pivot" is a staircase, found by one walk
//! along its edge, and two staircases bound the pairs still in question (Johnson and Mizoguchi 1978; for the medcouple
//! Brys, Hubert and Struyf 2004). The pivots come from the same question put to every [`STEP`]-th row and column
//! (Mirzaian and Arjomandi 1985). A pair of that grid stands for the block around it, so a rank among all is a rank in the
//! grid, wrong by no more than the blocks that a staircase cuts. Their errors mostly cancel: pivots that allow for a few
//! standard deviations are tried first, those that allow for all of it follow where they miss.
//!
//! Guarantees: O(n) steps for n = rows + columns, whatever the values and ties; all comparisons are exact, only the choice
//! of pivots is a guess; the same input takes the same steps.

use std::cmp::Ordering;

/// A value for every row and column that grows, or stays, with either.
pub(crate) trait Pairs {
    /// Of one pair.
    type Value: Copy;
    /// Rows, counted from 0.
    fn rows(&self) -> usize;
    /// Columns, counted from 0.
    fn columns(&self) -> usize;
    /// Of the pair.
    fn value(&self, row: usize, column: usize) -> Self::Value;
    /// Exactly.
    fn less(a: &Self::Value, b: &Self::Value) -> bool;
}

/// The value of that rank, from 1 to the number of pairs.
pub(crate) fn select<P: Pairs>(pairs: &P, rank: u128) -> P::Value {
    Grid::of(pairs).select(rank)
}

/// The value of rank `rank + 1`, given that of `rank`.
pub(crate) fn successor<P: Pairs>(pairs: &P, value: P::Value, rank: u128) -> P::Value {
    let stair = Band::whole(&Grid::of(pairs)).stair(&value, Edge::UpTo);
    if stair.count > rank {
        return value;
    }
    let next = (0..pairs.rows()).filter(|&row| stair.columns[row] < pairs.columns());
    let next = next.map(|row| pairs.value(row, stair.columns[row])).min_by(order::<P>);
    next.expect("the last rank has no successor")
}

/// How many pairs are less than a value, and how many are not greater.
pub(crate) fn counts<P: Pairs>(pairs: &P, value: &P::Value) -> (u128, u128) {
    let grid = Grid::of(pairs);
    let band = Band::whole(&grid);
    (band.stair(value, Edge::Below).count, band.stair(value, Edge::UpTo).count)
}

/// How many rows and columns become one of the next coarser grid. The coarser, the less it costs to ask it, and the more
/// pairs it leaves. Odd: so that a block has a middle, and what its parts are wrong by cancels.
const STEP: usize = 9;
/// Pairs of the finer grid that one of the coarser stands for.
const BLOCK: u128 = (STEP * STEP) as u128;
/// How far a rank of the coarser grid may be wrong, in units of the square root of the blocks that a staircase can cut: they
/// are wrong by less than one block each, to both sides alike.
const DEVIATIONS: f64 = 2.0;

/// Some of the rows and columns: from the first one, `step` apart.
struct Grid<'a, P> {
    pairs: &'a P,
    first: usize,
    step: usize,
    rows: usize,
    columns: usize,
}

/// The pairs still in question: in each row of the grid the columns from `from` to before `to`.
struct Band<'a, P> {
    grid: &'a Grid<'a, P>,
    from: Stair,
    to: Stair,
}

/// The columns of each row that lie before a pivot: a staircase that never climbs. `count` is their sum.
struct Stair {
    columns: Vec<usize>,
    count: u128,
}

/// Whether pairs equal to the pivot belong to its stair.
#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Below,
    UpTo,
}

/// Two values that the one sought most likely lies between; `None`: as far as there are pairs.
type Pivots<V> = [Option<V>; 2];

impl<'a, P: Pairs> Grid<'a, P> {
    fn of(pairs: &'a P) -> Self {
        Self { pairs, first: 0, step: 1, rows: pairs.rows(), columns: pairs.columns() }
    }

    fn value(&self, row: usize, column: usize) -> P::Value {
        self.pairs.value(self.first + row * self.step, self.first + column * self.step)
    }

    fn select(&self, rank: u128) -> P::Value {
        let few = BLOCK * (self.rows + self.columns) as u128;
        let mut band = Band::whole(self);
        if band.left() > few {
            let coarser = self.coarser();
            for margin in coarser.margins() {
                if let Some(found) = band.narrow(rank, coarser.pivots(rank, margin)) {
                    return found;
                }
                if band.left() <= few {
                    break;
                }
            }
        }
        band.among_all(rank)
    }

    /// The middles of blocks.
    fn coarser(&self) -> Self {
        let among = |count: usize| (count - STEP / 2).div_ceil(STEP);
        let (rows, columns) = (among(self.rows), among(self.columns));
        Self { pairs: self.pairs, first: self.first + STEP / 2 * self.step, step: STEP * self.step, rows, columns }
    }

    /// A likely one, and one that is enough. A finer pair is not less than the nearest of this grid before it, nor greater
    /// than the nearest after it: so of ranks here and there only the pairs outside of the first and last of these are
    /// not accounted for, less than a block for each row and column.
    fn margins(&self) -> [u128; 2] {
        let edges = (self.rows + self.columns) as u128;
        [(DEVIATIONS * (edges as f64).sqrt()) as u128 + 2, edges + 2]
    }

    /// What a rank of the finer grid lies between.
    fn pivots(&self, rank: u128, margin: u128) -> Pivots<P::Value> {
        let last = self.rows as u128 * self.columns as u128;
        let (low, high) = (((rank - 1) / BLOCK + 1).min(last), rank.div_ceil(BLOCK) + margin);
        [(low > margin).then(|| self.select(low - margin)), (high <= last).then(|| self.select(high))]
    }
}

impl<'a, P: Pairs> Band<'a, P> {
    fn whole(grid: &'a Grid<'a, P>) -> Self {
        let from = Stair { columns: vec![0; grid.rows], count: 0 };
        let to = Stair { columns: vec![grid.columns; grid.rows], count: grid.rows as u128 * grid.columns as u128 };
        Self { grid, from, to }
    }

    fn left(&self) -> u128 {
        self.to.count - self.from.count
    }

    /// Cuts off what lies outside of two pivots; the value of that rank itself where it is one of them.
    fn narrow(&mut self, rank: u128, [low, high]: Pivots<P::Value>) -> Option<P::Value> {
        if let Some(low) = low {
            let up_to = self.stair(&low, Edge::UpTo);
            if rank <= up_to.count {
                self.to = self.stair(&low, Edge::Below);
                return (rank > self.to.count).then_some(low);
            }
            self.from = up_to;
        }
        let high = high?;
        let below = self.stair(&high, Edge::Below);
        if rank > below.count {
            self.from = self.stair(&high, Edge::UpTo);
            return (rank <= self.from.count).then_some(high);
        }
        self.to = below;
        None
    }

    /// The stair of a pivot among the pairs in question.
    fn stair(&self, pivot: &P::Value, edge: Edge) -> Stair {
        match edge {
            Edge::Below => self.walk(|value| P::less(value, pivot)),
            Edge::UpTo => self.walk(|value| !P::less(pivot, value)),
        }
    }

    /// Down from the upper stair, never past the lower.
    fn walk(&self, is_before: impl Fn(&P::Value) -> bool) -> Stair {
        let mut columns = Vec::with_capacity(self.grid.rows);
        let (mut column, mut count) = (self.grid.columns, 0);
        for (row, (&from, &to)) in self.from.columns.iter().zip(&self.to.columns).enumerate() {
            column = column.min(to);
            while column > from && !is_before(&self.grid.value(row, column - 1)) {
                column -= 1;
            }
            columns.push(column);
            count += column as u128;
        }
        Stair { columns, count }
    }

    fn among_all(self, rank: u128) -> P::Value {
        let mut left = Vec::with_capacity(self.left() as usize);
        for (row, (&from, &to)) in self.from.columns.iter().zip(&self.to.columns).enumerate() {
            left.extend((from..to).map(|column| self.grid.value(row, column)));
        }
        let place = (rank - self.from.count - 1) as usize;
        *left.select_nth_unstable_by(place, order::<P>).1
    }
}

/// As `less` has it.
fn order<P: Pairs>(a: &P::Value, b: &P::Value) -> Ordering {
    P::less(b, a).cmp(&P::less(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of two ascending lists.
    struct Sums(Vec<i64>, Vec<i64>);

    impl Pairs for Sums {
        type Value = i64;

        fn rows(&self) -> usize {
            self.0.len()
        }

        fn columns(&self) -> usize {
            self.1.len()
        }

        fn value(&self, row: usize, column: usize) -> i64 {
            self.0[row] + self.1[column]
        }

        fn less(a: &i64, b: &i64) -> bool {
            a < b
        }
    }

    fn sums(rows: i64, columns: i64, step: i64) -> (Sums, Vec<i64>) {
        let ascending = |count: i64, seed: i64| {
            let mut values: Vec<i64> = (0..count).map(|k| (k * seed) % 101 / step).collect();
            values.sort_unstable();
            values
        };
        let pairs = Sums(ascending(rows, 37), ascending(columns, 53));
        let mut all: Vec<i64> = pairs.0.iter().flat_map(|a| pairs.1.iter().map(move |b| a + b)).collect();
        all.sort_unstable();
        (pairs, all)
    }

    #[test]
    fn every_rank_is_found_in_matrices_of_every_shape() {
        for (rows, columns, step) in
            [(1, 1, 1), (1, 90, 1), (90, 1, 3), (33, 40, 1), (40, 33, 50), (130, 70, 1), (9, 300, 7)]
        {
            let (pairs, all) = sums(rows, columns, step);
            for (place, &value) in all.iter().enumerate().step_by(1 + all.len() / 300) {
                assert_eq!(select(&pairs, place as u128 + 1), value, "{rows} x {columns}, rank {}", place + 1);
            }
        }
    }

    #[test]
    fn many_pairs_of_one_value_do_not_hide_a_rank() {
        let pairs = Sums(vec![0; 300], (0..400).map(|column| column / 200).collect());
        for (rank, value) in [(1, 0), (60_000, 0), (60_001, 1), (120_000, 1)] {
            assert_eq!(select(&pairs, rank), value);
        }
    }

    #[test]
    fn the_successor_is_the_next_in_order_equal_or_not() {
        let (pairs, all) = sums(20, 30, 3);
        for (place, window) in all.windows(2).enumerate() {
            assert_eq!(successor(&pairs, window[0], place as u128 + 1), window[1]);
        }
    }

    #[test]
    fn the_coarser_grid_brackets_every_rank_and_leaves_no_more_pairs_than_its_edges_hold() {
        for (rows, columns, step) in [(100, 80, 1), (65, 200, 1), (71, 71, 9)] {
            let (pairs, all) = sums(rows, columns, step);
            let coarser = Grid::of(&pairs).coarser();
            let [_, enough] = coarser.margins();
            for rank in (1..=all.len()).step_by(all.len() / 300) {
                let [low, high] = coarser.pivots(rank as u128, enough);
                assert!(low.is_none_or(|low| low <= all[rank - 1]), "rank {rank}: {low:?}");
                assert!(high.is_none_or(|high| all[rank - 1] <= high), "rank {rank}: {high:?}");
                let after = low.map_or(0, |low| all.partition_point(|&value| value <= low));
                let before = high.map_or(all.len(), |high| all.partition_point(|&value| value < high));
                let most = BLOCK as usize * 4 * (coarser.rows + coarser.columns + 2);
                assert!(before.saturating_sub(after) <= most, "{rows} x {columns}, rank {rank}: {before} - {after}");
            }
        }
    }

    #[test]
    fn the_likely_pivots_hold_the_rank_and_leave_few_pairs_where_values_are_smooth() {
        let smooth = |count: i64| (0..count).map(|k| k * k + 1000 * k).collect::<Vec<_>>();
        let pairs = Sums(smooth(1500), smooth(1100));
        let mut all: Vec<i64> = pairs.0.iter().flat_map(|a| pairs.1.iter().map(move |b| a + b)).collect();
        all.sort_unstable();
        let coarser = Grid::of(&pairs).coarser();
        for rank in (1..all.len()).step_by(100_001) {
            let [low, high] = coarser.pivots(rank as u128, coarser.margins()[0]);
            let after = low.map_or(0, |low| all.partition_point(|&value| value < low));
            let before = high.map_or(all.len(), |high| all.partition_point(|&value| value <= high));
            assert!(after < rank && rank <= before && before - after < all.len() / 100, "{after} {rank} {before}");
        }
    }
}

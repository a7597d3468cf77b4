//! The k-th smallest of all pairs of two sorted lists, without making the pairs.
//!
//! The idea: where a value grows with both its row and its column, "below this pivot" is a staircase, found by one walk
//! along its edge, and two staircases bound the pairs still in question (Johnson and Mizoguchi 1978; for the medcouple
//! Brys, Hubert and Struyf 2004). The two pivots come from the same question put to every [`STEP`]-th row and column
//! (Mirzaian and Arjomandi 1985): a pair of that grid is the least of its block and the greatest of the block before it,
//! so its rank in the grid bounds its rank among all, within what the blocks along two edges hold. Of a sample of
//! the pairs left, two more pivots then mostly leave few, and those are looked at one by one.
//!
//! Guarantees: O(n) steps for n = rows + columns, whatever the values and ties; all comparisons are exact, only the choice
//! of pairs to look at is a guess; the same input takes the same steps.

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
    fn compare(a: &Self::Value, b: &Self::Value) -> Ordering;
}

/// The value of that rank, from 1 to the number of pairs.
pub(crate) fn select<P: Pairs>(pairs: &P, rank: u128) -> P::Value {
    Grid::of(pairs).select(rank)
}

/// The value of rank `rank + 1`, given that of `rank`.
pub(crate) fn successor<P: Pairs>(pairs: &P, value: P::Value, rank: u128) -> P::Value {
    let stair = Band::whole(Grid::of(pairs)).stair(&value, Edge::UpTo);
    if stair.count > rank {
        return value;
    }
    let next = (0..pairs.rows()).filter(|&row| stair.columns[row] < pairs.columns());
    let next = next.map(|row| pairs.value(row, stair.columns[row])).min_by(P::compare);
    next.expect("the last rank has no successor")
}

/// How many pairs are less than a value, and how many are not greater.
pub(crate) fn counts<P: Pairs>(pairs: &P, value: &P::Value) -> (u128, u128) {
    let band = Band::whole(Grid::of(pairs));
    (band.stair(value, Edge::Below).count, band.stair(value, Edge::UpTo).count)
}

/// How many rows and columns become one of the next coarser grid. The coarser, the less it costs to ask it, and the more
/// pairs it leaves: at most `2 STEP (rows + columns)`.
const STEP: usize = 8;
/// How many of the pairs left are looked at to choose the second pivots.
const SAMPLE: usize = 1 << 13;
/// How far beside its expected place in the sample the rank is looked for. A miss leaves more pairs than needed.
const DEVIATIONS: f64 = 3.0;

/// Every `step`-th row and column, from the first.
struct Grid<'a, P> {
    pairs: &'a P,
    step: usize,
    rows: usize,
    columns: usize,
}

/// The pairs still in question: in each row of the grid the columns from `from` to before `to`.
struct Band<'a, P> {
    grid: Grid<'a, P>,
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

/// Pivots that the value sought is neither less nor greater than; `None`: as far as there are pairs.
type Pivots<V> = (V, Option<V>);

impl<'a, P: Pairs> Grid<'a, P> {
    fn of(pairs: &'a P) -> Self {
        Self { pairs, step: 1, rows: pairs.rows(), columns: pairs.columns() }
    }

    fn value(&self, row: usize, column: usize) -> P::Value {
        self.pairs.value(row * self.step, column * self.step)
    }

    fn select(self, rank: u128) -> P::Value {
        let (rows, columns) = (self.rows as u128, self.columns as u128);
        // A grid that would leave as many pairs as there are is not asked.
        let pivots = (rows * columns > 2 * STEP as u128 * (rows + columns)).then(|| self.coarser().pivots(rank));
        let mut band = Band::whole(self);
        if let Some(pivots) = pivots
            && let Some(found) = band.narrow(rank, pivots)
        {
            return found;
        }
        if band.left() > 2 * SAMPLE as u128
            && let Some(found) = band.narrow(rank, band.sampled(rank))
        {
            return found;
        }
        band.among_all(rank)
    }

    fn coarser(&self) -> Self {
        let (rows, columns) = (self.rows.div_ceil(STEP), self.columns.div_ceil(STEP));
        Self { pairs: self.pairs, step: self.step * STEP, rows, columns }
    }

    /// What a rank of the finer grid lies between. A pair here is the least of its block: fewer than `(r - 1) block + 1`
    /// of the finer pairs are less than that of rank `r`. And it is the greatest of the block before it, which all have
    /// but those of the first row and column: so at least `(r - rows - columns) block` are not greater.
    fn pivots(self, rank: u128) -> Pivots<P::Value> {
        let block = (STEP * STEP) as u128;
        let low = (rank - 1) / block + 1;
        let high = rank.div_ceil(block) + (self.rows + self.columns) as u128;
        let high = (high <= self.rows as u128 * self.columns as u128).then(|| Grid { ..self }.select(high));
        (self.select(low), high)
    }
}

impl<'a, P: Pairs> Band<'a, P> {
    fn whole(grid: Grid<'a, P>) -> Self {
        let from = Stair { columns: vec![0; grid.rows], count: 0 };
        let to = Stair { columns: vec![grid.columns; grid.rows], count: grid.rows as u128 * grid.columns as u128 };
        Self { grid, from, to }
    }

    fn left(&self) -> u128 {
        self.to.count - self.from.count
    }

    /// Cuts off what lies outside of two pivots; the value of that rank itself where it is one of them.
    fn narrow(&mut self, rank: u128, (low, high): Pivots<P::Value>) -> Option<P::Value> {
        let up_to_low = self.stair(&low, Edge::UpTo);
        if rank <= up_to_low.count {
            self.to = self.stair(&low, Edge::Below);
            return (rank > self.to.count).then_some(low);
        }
        self.from = up_to_low;
        let high = high?;
        let below_high = self.stair(&high, Edge::Below);
        if rank <= below_high.count {
            self.to = below_high;
            return None;
        }
        self.from = self.stair(&high, Edge::UpTo);
        (rank <= self.from.count).then_some(high)
    }

    /// The stair of a pivot among the pairs in question: down from the upper stair, never past the lower.
    fn stair(&self, pivot: &P::Value, edge: Edge) -> Stair {
        let mut columns = Vec::with_capacity(self.grid.rows);
        let (mut column, mut count) = (self.grid.columns, 0);
        for (row, (&from, &to)) in self.from.columns.iter().zip(&self.to.columns).enumerate() {
            column = column.min(to);
            while column > from && !edge.holds(P::compare(&self.grid.value(row, column - 1), pivot)) {
                column -= 1;
            }
            columns.push(column);
            count += column as u128;
        }
        Stair { columns, count }
    }

    /// Pivots that most likely lie close on both sides of the rank: of a sample with one pair from each of equal parts of
    /// those in question, the ones a few standard deviations beside the expected place.
    fn sampled(&self, rank: u128) -> Pivots<P::Value> {
        let (left, size) = (self.left(), SAMPLE as u128);
        let place = |k: u128| (k * left + golden(k, left)) / size;
        let mut sample = Vec::with_capacity(SAMPLE);
        let (mut k, mut passed) = (0, 0);
        for (row, (&from, &to)) in self.from.columns.iter().zip(&self.to.columns).enumerate() {
            let end = passed + (to - from) as u128;
            while k < size && place(k) < end {
                sample.push(self.grid.value(row, from + (place(k) - passed) as usize));
                k += 1;
            }
            passed = end;
        }
        sample.sort_unstable_by(P::compare);
        let expected = ((rank - self.from.count) * size / left) as usize;
        let margin = (DEVIATIONS * (SAMPLE as f64).sqrt() / 2.0) as usize;
        (sample[expected.saturating_sub(margin)], sample.get(expected + margin).copied())
    }

    fn among_all(self, rank: u128) -> P::Value {
        let rows = self.from.columns.iter().zip(&self.to.columns).enumerate();
        let mut left = Vec::with_capacity(self.left() as usize);
        for (row, (&from, &to)) in rows {
            left.extend((from..to).map(|column| self.grid.value(row, column)));
        }
        let place = (rank - self.from.count - 1) as usize;
        *left.select_nth_unstable_by(place, P::compare).1
    }
}

impl Edge {
    fn holds(self, order: Ordering) -> bool {
        order == Ordering::Less || (self == Edge::UpTo && order == Ordering::Equal)
    }
}

/// The k-th of numbers spread evenly below `limit`, in an order without a period: multiples of the golden ratio. With one
/// place for all parts, parts as long as a row would sample a single column.
fn golden(k: u128, limit: u128) -> u128 {
    let fraction = (k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (limit * u128::from(fraction)) >> 32
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

        fn compare(a: &i64, b: &i64) -> Ordering {
            a.cmp(b)
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

    fn grid(pairs: &Sums) -> Grid<'_, Sums> {
        Grid::of(pairs)
    }

    #[test]
    fn every_rank_is_found_in_matrices_of_every_shape() {
        for (rows, columns, step) in
            [(1, 1, 1), (1, 90, 1), (90, 1, 3), (33, 40, 1), (40, 33, 50), (130, 70, 1), (9, 300, 7)]
        {
            let (pairs, all) = sums(rows, columns, step);
            for (place, &value) in all.iter().enumerate() {
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
            for rank in 1..=all.len() {
                let (low, high) = grid(&pairs).coarser().pivots(rank as u128);
                assert!(low <= all[rank - 1] && high.is_none_or(|high| all[rank - 1] <= high), "rank {rank}");
                let after = all.partition_point(|&value| value <= low);
                let before = high.map_or(all.len(), |high| all.partition_point(|&value| value < high));
                let most = 2 * STEP * (rows + columns) as usize + 4 * STEP * STEP;
                assert!(before.saturating_sub(after) <= most, "{rows} x {columns}, rank {rank}: {before} - {after}");
            }
        }
    }

    #[test]
    fn a_sample_brackets_the_rank_and_leaves_few_pairs() {
        let (pairs, all) = sums(400, 400, 1);
        for rank in [1, 40_000, 80_000, 160_000u128] {
            let (low, high) = Band::whole(grid(&pairs)).sampled(rank);
            let sought = all[rank as usize - 1];
            assert!(low <= sought && high.is_none_or(|high| sought <= high), "{low} {sought} {high:?}");
            let kept = high.map_or(all.len(), |high| all.partition_point(|&value| value <= high))
                - all.partition_point(|&value| value < low);
            assert!(kept < all.len() / 8, "{kept} of {}", all.len());
        }
    }
}

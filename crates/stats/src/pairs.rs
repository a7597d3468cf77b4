//! The k-th smallest of all pairs of two sorted lists, without making the pairs.
//!
//! The idea: where a value grows with both its row and its column, "below this pivot" is a staircase, found by one walk
//! along its edge, and two staircases bound the pairs still in question (Johnson and Mizoguchi 1978; for the medcouple
//! Brys, Hubert and Struyf 2004). The pivots come from the same question put to every [`STEP`]-th row and column
//! (Mirzaian and Arjomandi 1985). A pair of that grid stands for the block around it, so a rank among all is a rank in
//! the grid, wrong by no more than the blocks that a staircase cuts. How wrong, a pivot's own staircase tells: the next
//! pivot is chosen by it, just beyond the rank on the other side. Where that does not close in soon (it does, but for
//! the most adverse values), pivots follow that allow for every block that could be cut.
//!
//! Guarantees: O(n) steps for n = rows + columns, whatever the values and ties; all comparisons are exact, only the
//! choice of pivots is a guess; the same input takes the same steps.

use std::cmp::Ordering;

/// A value for every row and column that grows, or stays, with either.
pub(crate) trait Pairs {
    /// Value of one pair.
    type Value: Copy;
    /// Rows, counted from 0.
    fn rows(&self) -> usize;
    /// Columns, counted from 0.
    fn columns(&self) -> usize;
    /// Value of the pair.
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

/// How many rows and columns become one of the next coarser grid. The coarser, the less it costs to ask it, and the
/// more pairs it leaves. Odd: so that a block has a middle, and what its parts are wrong by cancels.
const STEP: usize = 9;
/// Pairs of the finer grid that one of the coarser stands for.
const BLOCK: u128 = (STEP * STEP) as u128;
/// Pivots chosen by what the last one taught; then two that are certain. Each asks the coarser grid once: together they
/// must be fewer than [`STEP`], for its cost to stay below that of this one.
const GUESSES: usize = 6;
/// How far beyond the rank a pivot aims at first, in units of the square root of the blocks that a staircase can cut:
/// they are wrong by less than one block each, to both sides alike.
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

/// Side of the stair for pairs equal to the pivot.
#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Below,
    UpTo,
}

impl<'a, P: Pairs> Grid<'a, P> {
    fn of(pairs: &'a P) -> Self {
        Self { pairs, first: 0, step: 1, rows: pairs.rows(), columns: pairs.columns() }
    }

    fn value(&self, row: usize, column: usize) -> P::Value {
        self.pairs.value(self.first + row * self.step, self.first + column * self.step)
    }

    fn select(&self, rank: u128) -> P::Value {
        let mut band = Band::whole(self);
        if band.left() > BLOCK * self.edges()
            && let Some(found) = band.close_in(&self.coarser(), rank)
        {
            return found;
        }
        band.among_all(rank)
    }

    fn edges(&self) -> u128 {
        (self.rows + self.columns) as u128
    }

    /// The middles of blocks.
    fn coarser(&self) -> Self {
        let among = |count: usize| (count - STEP / 2).div_ceil(STEP);
        let (rows, columns) = (among(self.rows), among(self.columns));
        Self { pairs: self.pairs, first: self.first + STEP / 2 * self.step, step: STEP * self.step, rows, columns }
    }

    /// Ranks of this grid that a rank of the finer one lies between for certain, where there are such. A finer pair is
    /// not less than the nearest of this grid before it, nor greater than the nearest after it: so of ranks here and
    /// there only the pairs outside of the first and last of these are not accounted for, less than a block for each
    /// row and column.
    fn certain(&self, rank: u128) -> [Option<u128>; 2] {
        let margin = self.edges() + 2;
        let (low, high) = ((rank - 1) / BLOCK + 1, rank.div_ceil(BLOCK) + margin);
        [(low > margin).then(|| low - margin), (high <= self.count()).then_some(high)]
    }

    fn count(&self) -> u128 {
        self.rows as u128 * self.columns as u128
    }
}

impl<'a, P: Pairs> Band<'a, P> {
    fn whole(grid: &'a Grid<'a, P>) -> Self {
        let from = Stair { columns: vec![0; grid.rows], count: 0 };
        let to = Stair { columns: vec![grid.columns; grid.rows], count: grid.count() };
        Self { grid, from, to }
    }

    fn left(&self) -> u128 {
        self.to.count - self.from.count
    }

    /// Cuts off pairs on both sides of the rank until few are left; the value of that rank itself where a pivot is it.
    fn close_in(&mut self, coarser: &Grid<'a, P>, rank: u128) -> Option<P::Value> {
        let mut margin = (DEVIATIONS * (coarser.edges() as f64).sqrt()) as u128 + 2;
        // Twice what lies between two pivots that both went as they were to.
        let few = 4 * margin * BLOCK;
        let (mut at, mut first) = ((rank / BLOCK).saturating_sub(margin), Edge::UpTo);
        for _ in 0..GUESSES {
            at = at.clamp(1, coarser.count());
            let pivot = coarser.select(at);
            (at, first) = match self.cut(rank, &pivot, first) {
                Ordering::Equal => return Some(pivot),
                Ordering::Less => (at + (rank - self.from.count) / BLOCK + margin, Edge::Below),
                Ordering::Greater => (at.saturating_sub((self.to.count - rank) / BLOCK + margin), Edge::UpTo),
            };
            if self.left() <= few {
                return None;
            }
            margin *= 2;
        }
        for (at, first) in coarser.certain(rank).into_iter().zip([Edge::UpTo, Edge::Below]) {
            if let Some(pivot) = at.map(|at| coarser.select(at))
                && self.cut(rank, &pivot, first) == Ordering::Equal
            {
                return Some(pivot);
            }
        }
        None
    }

    /// Cuts off the pairs that are not the one of that rank, as the pivot shows, and returns where the pivot is
    /// relative to it. `first` is the stair that most likely suffices: up to a pivot that is expected to be less, below
    /// one expected greater.
    fn cut(&mut self, rank: u128, pivot: &P::Value, first: Edge) -> Ordering {
        let stair = self.stair(pivot, first);
        match first {
            Edge::UpTo if rank > stair.count => {
                self.from = stair;
                Ordering::Less
            }
            Edge::UpTo => {
                self.to = self.stair(pivot, Edge::Below);
                if rank > self.to.count { Ordering::Equal } else { Ordering::Greater }
            }
            Edge::Below if rank <= stair.count => {
                self.to = stair;
                Ordering::Greater
            }
            Edge::Below => {
                self.from = self.stair(pivot, Edge::UpTo);
                if rank <= self.from.count { Ordering::Equal } else { Ordering::Less }
            }
        }
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

    /// All sums, in order.
    fn all(pairs: &Sums) -> Vec<i64> {
        let mut all: Vec<i64> = pairs.0.iter().flat_map(|a| pairs.1.iter().map(move |b| a + b)).collect();
        all.sort_unstable();
        all
    }

    fn sums(rows: i64, columns: i64, step: i64) -> (Sums, Vec<i64>) {
        let ascending = |count: i64, seed: i64| {
            let mut values: Vec<i64> = (0..count).map(|k| (k * seed) % 101 / step).collect();
            values.sort_unstable();
            values
        };
        let pairs = Sums(ascending(rows, 37), ascending(columns, 53));
        let all = all(&pairs);
        (pairs, all)
    }

    /// Values that jump where the coarser grid has its rows and columns, or just after: its pairs are the extremes of
    /// what they stand for.
    fn jumps(rows: i64, columns: i64, at: i64) -> (Sums, Vec<i64>) {
        let ascending = |count: i64| (0..count).map(|k| (k + at) / STEP as i64 * 100_000 + k).collect();
        let pairs = Sums(ascending(rows), ascending(columns));
        let all = all(&pairs);
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
    fn the_certain_ranks_bracket_every_rank_and_leave_no_more_pairs_than_the_edges_hold() {
        let after = STEP as i64 / 2;
        let adverse = [jumps(150, 160, after), jumps(150, 160, after + 1), jumps(310, 65, after + 1)];
        let cases = [sums(100, 80, 1), sums(65, 200, 1), sums(71, 71, 9)].into_iter().chain(adverse);
        for (pairs, all) in cases {
            let (rows, columns) = (pairs.0.len(), pairs.1.len());
            let coarser = Grid::of(&pairs).coarser();
            for rank in (1..=all.len()).step_by(all.len() / 300) {
                let [low, high] = coarser.certain(rank as u128).map(|at| at.map(|at| coarser.select(at)));
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
    fn a_pivot_cuts_off_only_what_the_rank_is_not() {
        let (pairs, all) = sums(12, 15, 2);
        let grid = Grid::of(&pairs);
        for rank in 1..=all.len() {
            let sought = all[rank - 1];
            for (pivot, first) in
                (sought - 2..=sought + 2).flat_map(|pivot| [(pivot, Edge::UpTo), (pivot, Edge::Below)])
            {
                let mut band = Band::whole(&grid);
                assert_eq!(band.cut(rank as u128, &pivot, first), pivot.cmp(&sought));
                if pivot != sought {
                    assert!(band.left() < all.len() as u128 || pivot < all[0] || pivot > all[all.len() - 1]);
                    assert_eq!(band.among_all(rank as u128), sought);
                }
            }
        }
    }

    #[test]
    fn guesses_close_in_on_smooth_values_and_on_jumps() {
        let smooth = |count: i64| (0..count).map(|k| k * k + 1000 * k).collect::<Vec<_>>();
        let pairs = Sums(smooth(1500), smooth(1100));
        let all_smooth = all(&pairs);
        for (pairs, all) in [(pairs, all_smooth), jumps(1500, 1100, STEP as i64 / 2 + 1)] {
            for rank in (1..=all.len()).step_by(100_001) {
                let grid = Grid::of(&pairs);
                let mut band = Band::whole(&grid);
                if let Some(found) = band.close_in(&grid.coarser(), rank as u128) {
                    assert_eq!(found, all[rank - 1]);
                } else {
                    assert!(band.left() <= all.len() as u128 / 100, "rank {rank}: {} left", band.left());
                    assert_eq!(band.among_all(rank as u128), all[rank - 1]);
                }
            }
        }
    }
}

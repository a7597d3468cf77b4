//! All values of one stage in memory, for exact order statistics.
//!
//! Idea: values are packed a piece at a time, ends as distances from their estimates, so a value takes 2 to 6 bytes
//! where 24 would hold any; a quantile is found by counting values by their leading bits, which reads them once or
//! twice in their order and moves none. Guarantees: every figure is that of the sorted values, whatever pieces they
//! came in. Deliberately absent: traces; nobody can tell which one a value was of.

use tickscope_stats::Quantile;

use crate::packed::Packed;
use crate::{Durations, Layout, Traces};

/// A quantile or the mean of the estimates, and what the true one lies between, in ticks of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuantileBounds {
    /// That of the estimates.
    pub estimate: i64,
    /// That of the lower ends; the true one is not below.
    pub lo: i64,
    /// That of the upper ends; the true one is not above.
    pub hi: i64,
}

/// All values of one stage, of the traces that have one.
#[derive(Clone, Debug, Default)]
pub struct StageValues {
    count: usize,
    chunks: Vec<Chunk>,
    open: Open,
    /// Sums of what is packed: of estimates, of lower ends, of upper ends.
    sums: [i128; 3],
    /// All of them in order, where somebody asked for that.
    sorted: [Vec<i64>; 3],
}

/// Values that are not packed yet, each column as a [`Chunk`] has it.
#[derive(Clone, Debug, Default)]
struct Open {
    count: usize,
    /// Memory is kept from chunk to chunk: only the first `count` of each are values.
    columns: [Vec<u64>; 3],
}

/// Values that were packed together.
#[derive(Clone, Debug)]
struct Chunk {
    values: usize,
    /// Shifted by half of all numbers, so that they keep their order.
    estimate: Packed,
    /// How far the interval reaches below the estimate, modulo 2^64.
    below: Packed,
    /// How far above.
    above: Packed,
}

/// Which of the three is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Estimate,
    Lower,
    Upper,
}

/// Values of a chunk at most: what is read together stays in the processor's cache.
const MOST_OF_A_CHUNK: usize = 1 << 11;
/// A chunk with fewer of a run's values is not worth its own overhead.
const FEW: usize = 1 << 9;

impl StageValues {
    /// Adds the values of a stage of `traces`: `stage` is its index in the layout. Repeated ones are left out as in
    /// [`crate::tally`].
    pub fn add(&mut self, layout: &Layout, traces: &Traces, durations: &Durations, stage: usize) {
        let (Some(of), Some(columns)) = (layout.stages().get(stage), durations.stages().get(stage)) else { return };
        let repeats = traces.has_repeats();
        match columns.parts().filter(|_| !repeats) {
            Some(([], values)) => self.add_some(&vec![true; values[0].len()], values),
            Some((valid, values)) => self.add_some(valid, values),
            None => {
                let counts = |row: &usize| !(repeats && traces.repeats(*row, [of.from, of.to]));
                let some = (0..traces.len()).filter(counts).filter_map(|row| columns.values(row));
                some.for_each(|values| self.push(values));
            }
        }
        self.pack_many();
    }

    /// Adds the values that count. Each is written, and the next one goes over it where it does not.
    fn add_some(&mut self, counts: &[bool], [estimates, lower, upper]: [&[i64]; 3]) {
        let [open, below, above] = self.open.room(counts.len());
        let mut next = 0;
        for (((&counts, &estimate), &lo), &hi) in counts.iter().zip(estimates).zip(lower).zip(upper) {
            [open[next], below[next], above[next]] = packable([estimate, lo, hi]);
            next += usize::from(counts);
        }
        self.open.count += next;
    }

    /// Adds one duration: estimate, lo, hi, in ticks of the reference.
    ///
    /// # Panics
    ///
    /// Where the interval does not hold its estimate: every figure rests on that it does.
    pub fn push(&mut self, values: [i64; 3]) {
        let [estimate, lo, hi] = values;
        assert!(
            lo <= estimate && estimate <= hi,
            "expected an estimate within its interval, found {values:?}. Push what `Clocks` measured"
        );
        self.open.room(1).into_iter().zip(packable(values)).for_each(|(room, value)| room[0] = value);
        self.open.count += 1;
        if self.open.count >= MOST_OF_A_CHUNK {
            self.pack_many();
        }
    }

    /// Adds all values of `other`, gathered of other traces of the stage.
    pub fn append(&mut self, mut other: Self) {
        self.count += other.count;
        self.chunks.append(&mut other.chunks);
        self.sums.iter_mut().zip(other.sums).for_each(|(all, more)| *all += more);
        let values = other.open.values();
        let room = self.open.room(other.open.count);
        room.into_iter().zip(values).for_each(|(room, values)| room.copy_from_slice(values));
        self.open.count += other.open.count;
        self.pack_many();
    }

    /// Packs what is open, as long as it is worth it.
    fn pack_many(&mut self) {
        self.sorted = Default::default();
        if self.open.count >= FEW {
            self.pack();
        }
    }

    /// Packs all that is open.
    fn pack(&mut self) {
        let open = self.open.values();
        for first in (0..self.open.count).step_by(MOST_OF_A_CHUNK) {
            let all = first..self.open.count.min(first + MOST_OF_A_CHUNK);
            let chunk = Chunk::of(open.map(|values| &values[all.clone()]));
            self.sums.iter_mut().zip(chunk.sums()).for_each(|(all, sum)| *all += sum);
            self.count += chunk.values;
            self.chunks.push(chunk);
        }
        self.open.count = 0;
    }

    /// The quantile with its bounds; `None` without values.
    pub fn quantile(&mut self, quantile: Quantile) -> Option<QuantileBounds> {
        self.quantiles(&[quantile]).pop()
    }

    /// The quantiles, each with its bounds, in the order in which they are asked for; none without values. Each column
    /// for itself: an order statistic does not ask which lower end belonged to which estimate.
    pub fn quantiles(&mut self, quantiles: &[Quantile]) -> Vec<QuantileBounds> {
        self.pack();
        let ranks: Vec<usize> = quantiles.iter().filter_map(|quantile| quantile.rank(self.count)).collect();
        let estimates = self.of_ranks(Side::Estimate, &ranks);
        let [lower, upper] = [Side::Lower, Side::Upper].map(|side| match self.reach(side) {
            Some(reach) => estimates.iter().map(|&estimate| side.end(estimate, reach)).collect(),
            None => self.of_ranks(side, &ranks),
        });
        let all = estimates.into_iter().zip(lower).zip(upper);
        all.map(|((estimate, lo), hi)| QuantileBounds { estimate, lo, hi }).collect()
    }

    /// How far every interval reaches to that side, if all reach as far: then the ends have the estimates' order.
    fn reach(&self, side: Side) -> Option<u64> {
        let reach = |chunk: &Chunk| chunk.reach(side).only();
        let first = reach(self.chunks.first()?)?;
        self.chunks.iter().all(|chunk| reach(chunk) == Some(first)).then_some(first)
    }

    /// The values of those ranks, counted from 1, in ascending order of all values of a side.
    fn of_ranks(&self, side: Side, ranks: &[usize]) -> Vec<i64> {
        if self.sorted[0].len() == self.count {
            return ranks.iter().map(|&rank| self.sorted[side as usize][rank - 1]).collect();
        }
        let ends = self.chunks.iter().map(|chunk| chunk.ends(side));
        let ends = ends.reduce(|[least, most], [lower, upper]| [least.min(lower), most.max(upper)]);
        let Some([least, most]) = ends else { return Vec::new() };
        let mut sought: Vec<Sought> = Vec::new();
        let whole = Window::of(least, least.abs_diff(most));
        sought.extend(ranks.iter().map(|&rank| Sought { window: whole, rank: rank as u64 }));
        while sought.iter().any(|one| one.window.is_open()) {
            self.narrow(side, &mut sought);
        }
        sought.iter().map(|one| one.window.first).collect()
    }

    /// Finds for each that is sought in which part of its window it is.
    fn narrow(&self, side: Side, sought: &mut [Sought]) {
        let mut windows: Vec<Window> = sought.iter().map(|one| one.window).filter(Window::is_open).collect();
        windows.sort_unstable_by_key(|window| window.first);
        windows.dedup();
        let mut counts: Vec<Vec<u64>> = windows.iter().map(|window| vec![0; window.parts()]).collect();
        let mut buffer = [0; MOST_OF_A_CHUNK];
        for chunk in &self.chunks {
            if side == Side::Estimate {
                let windows = windows.iter().zip(&mut counts);
                windows.for_each(|(window, counts)| chunk.count_estimates(window, counts));
                continue;
            }
            let values = &mut buffer[..chunk.values];
            chunk.read(side, values);
            for (window, counts) in windows.iter().zip(&mut counts) {
                values.iter().for_each(|value| window.count(value.wrapping_sub(window.first) as u64, counts));
            }
        }
        for one in sought.iter_mut().filter(|one| one.window.is_open()) {
            if let Ok(at) = windows.binary_search_by_key(&one.window.first, |window| window.first) {
                one.narrow(&counts[at]);
            }
        }
    }

    /// The mean with its bounds: the true one lies between the means of the ends, rounded outward to a tick. `None`
    /// without values.
    pub fn mean(&self) -> Option<QuantileBounds> {
        let open = Chunk::of(self.open.values());
        let count = Some((self.count + open.values) as i128).filter(|&count| count > 0)?;
        let sums = self.sums.iter().zip(open.sums()).map(|(packed, open)| packed + open);
        let [estimate, lo, hi] = <[i128; 3]>::try_from(sums.collect::<Vec<_>>()).ok()?;
        let near = (2 * estimate + count).div_euclid(2 * count);
        let [estimate, lo, hi] = [near, lo.div_euclid(count), -(-hi).div_euclid(count)].map(i64::try_from);
        Some(QuantileBounds { estimate: estimate.ok()?, lo: lo.ok()?, hi: hi.ok()? })
    }

    /// All estimates, all lower ends, all upper ends, each in ascending order for itself: what any number of quantiles
    /// and counts can be read from. 24 bytes a value, until more are added.
    pub fn sorted(&mut self) -> [&[i64]; 3] {
        self.pack();
        if self.sorted[0].len() != self.count {
            self.sorted = [Side::Estimate, Side::Lower, Side::Upper].map(|side| self.in_order(side));
        }
        self.sorted.each_ref().map(Vec::as_slice)
    }

    fn in_order(&self, side: Side) -> Vec<i64> {
        let mut all = vec![0; self.count];
        let mut rest = all.as_mut_slice();
        for chunk in &self.chunks {
            let (values, more) = rest.split_at_mut(chunk.values);
            chunk.read(side, values);
            rest = more;
        }
        all.sort_unstable();
        all
    }
}

impl Open {
    fn values(&self) -> [&[u64]; 3] {
        self.columns.each_ref().map(|column| &column[..self.count])
    }

    /// Memory for so many values behind those that are there.
    fn room(&mut self, more: usize) -> [&mut [u64]; 3] {
        let (first, end) = (self.count, self.count + more);
        self.columns.each_mut().map(|column| {
            if column.len() < end {
                column.resize(end.next_power_of_two(), 0);
            }
            &mut column[first..end]
        })
    }
}

impl Chunk {
    fn of([estimates, below, above]: [&[u64]; 3]) -> Self {
        let [estimate, below, above] = [estimates, below, above].map(Packed::of);
        Self { values: estimates.len(), estimate, below, above }
    }

    /// Of estimates, lower ends and upper ends, each of which is on its side of the estimate.
    fn sums(&self) -> [i128; 3] {
        let sum = |column: &Packed| column.sum(self.values) as i128;
        let estimate = sum(&self.estimate) - self.values as i128 * i128::from(in_order(0));
        [estimate, estimate - sum(&self.below), estimate + sum(&self.above)]
    }

    fn reach(&self, side: Side) -> &Packed {
        if side == Side::Upper { &self.above } else { &self.below }
    }

    /// Two numbers that all values of a side lie between.
    fn ends(&self, side: Side) -> [i64; 2] {
        let [least, most] = self.estimate.ends().map(|estimate| i128::from(out_of_order(estimate)));
        let [near, far] = self.reach(side).ends().map(i128::from);
        let [least, most] = match side {
            Side::Estimate => [least, most],
            Side::Lower => [least - far, most - near],
            Side::Upper => [least + near, most + far],
        };
        // An end outside of 64 bits is no value's.
        [least, most].map(|end| end.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// Counts its estimates within a window by part.
    fn count_estimates(&self, window: &Window, counts: &mut [u64]) {
        let window = *window;
        let first = in_order(window.first).wrapping_neg();
        self.estimate.each_shifted(self.values, first, |offset| window.count(offset, counts));
    }

    /// Its values of a side, in the order in which they came.
    fn read(&self, side: Side, values: &mut [i64]) {
        self.estimate.each(values, |place, estimate| *place = out_of_order(estimate));
        match side {
            Side::Estimate => {}
            Side::Lower => self.below.each(values, |place, below| *place = place.wrapping_sub(below as i64)),
            Side::Upper => self.above.each(values, |place, above| *place = place.wrapping_add(above as i64)),
        }
    }
}

impl Side {
    fn end(self, estimate: i64, reach: u64) -> i64 {
        match self {
            Self::Estimate => estimate,
            Self::Lower => estimate.wrapping_sub(reach as i64),
            Self::Upper => estimate.wrapping_add(reach as i64),
        }
    }
}

/// Values from one to another, in parts of equal length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    first: i64,
    /// Distance of the last from the first.
    length: u64,
    /// A part holds 2 to the power of so many values.
    bits: u32,
}

/// Parts of a window at most, as a power of 2.
const PART_BITS: u32 = 16;

impl Window {
    fn of(first: i64, length: u64) -> Self {
        Self { first, length, bits: (u64::BITS - length.leading_zeros()).saturating_sub(PART_BITS) }
    }

    /// Returns whether it holds more than one value.
    fn is_open(&self) -> bool {
        self.length > 0
    }

    fn parts(&self) -> usize {
        (self.length >> self.bits) as usize + 1
    }

    /// Counts a value that lies so far from its first one, modulo 2^64, by part if it is within.
    #[inline]
    fn count(&self, offset: u64, counts: &mut [u64]) {
        if offset <= self.length {
            counts[(offset >> self.bits) as usize] += 1;
        }
    }
}

/// Some rank of the values in a window.
#[derive(Clone, Copy, Debug)]
struct Sought {
    window: Window,
    rank: u64,
}

impl Sought {
    /// `counts`: how many values are in each part of its window.
    fn narrow(&mut self, counts: &[u64]) {
        let Window { first, length, bits } = self.window;
        for (part, &count) in counts.iter().enumerate() {
            if self.rank <= count {
                let begins = (part as u64) << bits;
                let ends = (begins | ((1 << bits) - 1)).min(length);
                self.window = Window::of(first.wrapping_add(begins as i64), ends - begins);
                return;
            }
            self.rank -= count;
        }
        self.window.length = 0; // a rank beyond all values: nobody asks for one
    }
}

/// A duration as a [`Chunk`] has it.
#[inline]
fn packable([estimate, lo, hi]: [i64; 3]) -> [u64; 3] {
    [in_order(estimate), estimate.wrapping_sub(lo).cast_unsigned(), hi.wrapping_sub(estimate).cast_unsigned()]
}

/// A number without a sign that compares as `value` does.
fn in_order(value: i64) -> u64 {
    value.cast_unsigned() ^ 1 << 63
}

fn out_of_order(number: u64) -> i64 {
    (number ^ 1 << 63).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Estimates with ends, close together or anywhere, and where another part of them begins.
    fn intervals() -> impl Strategy<Value = Vec<[i64; 3]>> {
        let near = (-50_i64..50, 0_i64..3, 0_i64..3).prop_map(|(at, below, above)| [at, at - below, at + above]);
        let far = any::<[i64; 3]>().prop_map(|mut ends| {
            ends.sort_unstable();
            [ends[1], ends[0], ends[2]]
        });
        let spread = (any::<i32>(), 0_i64..100_000).prop_map(|(at, half)| [at.into(), i64::from(at) - half, at.into()]);
        let of = prop_oneof![8 => near, 1 => far, 3 => spread];
        let alike = (0_i64..9).prop_map(|at| [at, at - 1, at + 1]);
        prop_oneof![3 => prop::collection::vec(of, 0..60), 1 => prop::collection::vec(alike, 0..3_000)]
    }

    proptest! {
        #[test]
        fn property_every_figure_is_that_of_the_sorted_values_in_whatever_parts_they_came(
            all in intervals(),
            parts in prop::collection::vec(0_usize..3_000, 0..4),
            shares in prop::collection::vec(0_u32..=1_000_000, 1..6),
        ) {
            let mut values = StageValues::default();
            let mut first = 0;
            for end in parts.into_iter().map(|end| end.min(all.len())).chain([all.len()]) {
                let mut part = StageValues::default();
                all[first.min(end)..end].iter().for_each(|&value| part.push(value));
                values.append(part);
                first = first.max(end);
            }
            let sorted: [Vec<i64>; 3] = std::array::from_fn(|side| {
                let mut of = all.iter().map(|value| value[side]).collect::<Vec<_>>();
                of.sort_unstable();
                of
            });
            let quantiles: Vec<_> = shares.iter().map(|&share| Quantile::per_million(share).unwrap()).collect();
            let expected: Vec<_> = quantiles.iter().filter_map(|quantile| {
                let at = quantile.rank(all.len())? - 1;
                Some(QuantileBounds { estimate: sorted[0][at], lo: sorted[1][at], hi: sorted[2][at] })
            }).collect();
            let count = all.len() as i128;
            let sums = sorted.each_ref().map(|of| of.iter().map(|&value| i128::from(value)).sum::<i128>());
            let mean = (count > 0).then(|| {
                let near = (2 * sums[0] + count).div_euclid(2 * count);
                let [lo, hi] = [sums[1].div_euclid(count), -(-sums[2]).div_euclid(count)];
                [near, lo, hi].map(|ticks| i64::try_from(ticks).unwrap())
            });
            prop_assert_eq!(values.mean().map(|mean| [mean.estimate, mean.lo, mean.hi]), mean);
            prop_assert_eq!(values.quantiles(&quantiles), expected.clone());
            prop_assert_eq!(values.sorted(), sorted.each_ref().map(Vec::as_slice));
            prop_assert_eq!(values.quantiles(&quantiles), expected);
        }
    }
}

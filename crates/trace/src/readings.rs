//! Stamps that were read from their nodes' counters, a column at a time.
//!
//! Idea: what is the same for all traces is asked once a stage, and a stamp is looked for in its clock map where the
//! one before it was. Guarantees: the values that [`Clocks::measure`] has of each two stamps by themselves.
//! Deliberately absent: stamps of other clocks, and clock maps between counters other than the reference.

use tickscope_bracket::{Held, Near};
use tickscope_tick::{Interval, Local, Reference, Span, Tick};

use crate::clocks::Way;
use crate::{Clocks, Column, StageDurations};

/// The stamps of a point.
pub(crate) struct Readings<'a> {
    raw: &'a Column,
    /// How far the counter may stand beyond what it reads.
    width: i64,
    /// Where they lie in the clock map of the counter; `None`: the counter is the reference.
    mapped: Option<Mapped>,
}

/// Stamps in a clock map, by row; of no meaning where the row has no stamp, or the stamp no interval.
struct Mapped {
    valid: Vec<bool>,
    held: Vec<Held>,
    /// Estimate, lower and upper end on the reference.
    placed: Vec<[i64; 3]>,
}

impl<'a> Readings<'a> {
    pub fn of(clocks: &Clocks, point: usize, raw: &'a Column) -> Self {
        let width = i64::try_from(clocks.width(point)).unwrap_or(i64::MAX);
        Self { raw, width, mapped: Mapped::of(clocks, point, raw) }
    }

    /// The durations from each of these stamps to that of `to` in the same row; `together`: whether the two are of one
    /// passage.
    pub fn until(&self, to: &Self, way: &Way<'_>, together: impl Fn(usize) -> bool) -> StageDurations {
        let rows = self.raw.len();
        match way {
            Way::Reference => StageDurations::of_rows(rows, |row| {
                let [[from, from_last], [to, to_last]] = [self.read(row)?, to.read(row)?];
                let values = [to.checked_sub(from)?, to.checked_sub(from_last)?, to_last.checked_sub(from)?];
                together(row).then_some(values)
            }),
            Way::Across => StageDurations::of_rows(rows, |row| {
                let [[from, from_lo, from_hi], [to, to_lo, to_hi]] = [self.placed(row)?, to.placed(row)?];
                let values = [to.checked_sub(from)?, to_lo.checked_sub(from_hi)?, to_hi.checked_sub(from_lo)?];
                within(values).filter(|_| together(row))
            }),
            Way::Mapped(clock_map) => StageDurations::of_rows(rows, |row| {
                let (start, end) = (self.held(row)?, to.held(row)?);
                let [[from, from_last], [last, to_last]] = [self.read(row)?, to.read(row)?];
                let apart = [last.checked_sub(from_last)?, to_last.checked_sub(from)?].map(Span::<Local>::new);
                let apart = Interval::new(apart[0], apart[1]).ok()?;
                let estimate = to.placed(row)?[0].checked_sub(self.placed(row)?[0])?;
                let bounds: Interval<Span<Reference>> = clock_map.span_between(start, end, apart)?;
                within([estimate, bounds.lo().get(), bounds.hi().get()]).filter(|_| together(row))
            }),
        }
    }

    /// The ticks that the counter may have stood at.
    #[inline]
    fn read(&self, row: usize) -> Option<[i64; 2]> {
        let raw = self.raw.get(row)?;
        Some([raw, raw.checked_add(self.width)?])
    }

    /// Estimate, lower and upper end on the reference.
    #[inline]
    fn placed(&self, row: usize) -> Option<[i64; 3]> {
        match &self.mapped {
            None => self.read(row).map(|[raw, last]| [raw, raw, last]),
            Some(mapped) => mapped.valid[row].then(|| mapped.placed[row]),
        }
    }

    #[inline]
    fn held(&self, row: usize) -> Option<&Held> {
        let mapped = self.mapped.as_ref()?;
        mapped.valid[row].then(|| &mapped.held[row])
    }
}

impl Mapped {
    fn of(clocks: &Clocks, point: usize, raw: &Column) -> Option<Self> {
        let clock_map = clocks.clock_map(point)?;
        let mut near = Near::default();
        let mut place = |raw: i64| {
            let held = clock_map.hold_near(clocks.while_read(point, raw)?, &mut near).ok()?;
            let placed = clock_map.placed(&held)?;
            let (lo, hi) = (placed.interval.lo(), placed.interval.hi());
            Some((held, [placed.estimate, lo, hi].map(Tick::get)))
        };
        let rows = raw.len();
        let mut all = Self { valid: vec![false; rows], held: vec![Held::default(); rows], placed: vec![[0; 3]; rows] };
        let places = all.valid.iter_mut().zip(&mut all.held).zip(&mut all.placed);
        for (row, ((valid, held), placed)) in places.enumerate() {
            if let Some(found) = raw.get(row).and_then(&mut place) {
                (*valid, *held, *placed) = (true, found.0, found.1);
            }
        }
        Some(all)
    }
}

/// An interval that holds its estimate.
#[inline]
fn within([estimate, lo, hi]: [i64; 3]) -> Option<[i64; 3]> {
    (lo <= estimate && estimate <= hi).then_some([estimate, lo, hi])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::placed;
    use crate::{Clock, Layout, LayoutText};
    use proptest::prelude::*;
    use tickscope_bracket::{Bracket, ClockMap, Model, Ratio, Rho};

    /// Node a is the reference; b and c read counters of other rates, with evidence every 1000 ticks or so.
    fn clocks(layout: &Layout, delays: &[(i64, i64)]) -> Clocks {
        let related = |shift: i64, rate: i64| {
            let at = |number: usize| shift + number as i64 * 1_000;
            let bracket = |(number, &(before, after)): (usize, &(i64, i64))| {
                let reference = number as i64 * rate;
                Bracket::new(Some(reference - before), at(number), Some(reference + after))
            };
            let brackets: Vec<_> = delays.iter().enumerate().map(bracket).collect();
            let nominal = Ratio::new(rate.unsigned_abs(), 1_000).unwrap();
            Clock::Related(
                ClockMap::new(&brackets, &Model::new(Rho::declared_ppb(50_000).unwrap(), nominal, Tick::new(shift)))
                    .unwrap(),
            )
        };
        let counters = vec![Clock::Reference, related(7_000_000, 1_000), related(-5, 1_500)];
        let of_node = [("a".into(), 0), ("b".into(), 1), ("c".into(), 2)];
        let widths = [("a".into(), 26), ("b".into(), 1), ("c".into(), 3)];
        Clocks::new(layout, counters, &of_node).unwrap().with_widths(layout, &widths).unwrap()
    }

    fn ticks() -> impl Strategy<Value = Option<i64>> {
        let near = prop_oneof![-3_000_i64..40_000, 6_990_000_i64..7_040_000];
        let any = prop_oneof![any::<i64>(), Just(i64::MAX), Just(i64::MIN), Just(i64::MAX - 2)];
        prop_oneof![1 => Just(None), 6 => near.prop_map(Some), 1 => any.prop_map(Some)]
    }

    proptest! {
        #[test]
        fn property_a_column_has_the_durations_of_each_two_stamps_by_themselves(
            delays in prop::collection::vec((1_i64..400, 1_i64..400), 2..30),
            rows in prop::collection::vec(prop::array::uniform5(ticks()), 1..40),
        ) {
            let path = ["a.x", "a.y", "b.x", "b.y", "c.x"].map(str::to_owned).to_vec();
            let layout = LayoutText { path, ..LayoutText::default() }.parse(None).unwrap();
            let clocks = clocks(&layout, &delays);
            let columns: [Column; 5] = std::array::from_fn(|point| rows.iter().map(|row| row[point]).collect());
            for stage in layout.stages() {
                let [from, to] = [stage.from, stage.to];
                let [start, end] = [from, to].map(|point| Readings::of(&clocks, point, &columns[point]));
                let together = |row: usize| row % 7 != 3;
                let found = start.until(&end, &clocks.way(stage).unwrap(), together);
                let [start, end] = [from, to].map(|point| placed(&clocks, point, &columns[point]));
                prop_assert_eq!(found, StageDurations::between(&clocks, stage, &start, &end, together));
            }
        }
    }
}

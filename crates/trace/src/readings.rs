//! Stamps that were read from their nodes' counters, a column at a time.
//!
//! Idea: what is the same for all traces is asked once a stage, and a stamp is looked for in its clock map where the
//! one before it was. Guarantees: the values that [`Clocks::measure`] has of each two stamps by themselves.
//! Deliberately absent: stamps of other clocks, and clock maps between counters other than the reference.

use std::cell::OnceCell;

use tickscope_bracket::{ClockMap, Held, Near, Placer};
use tickscope_tick::{Interval, Local, Reference, Span, Tick};

use crate::clocks::Way;
use crate::{Clocks, Column, StageDurations};

/// The stamps of a point.
pub(crate) struct Readings<'a> {
    raw: &'a Column,
    /// How far the counter may stand beyond what it reads.
    width: i64,
    /// Where they lie in the clock map of the counter; `None`: the counter is the reference.
    mapped: Option<Mapped<'a>>,
}

/// Stamps in a clock map, by row; of no meaning where the row has no stamp, or the stamp no interval.
struct Mapped<'a> {
    clock_map: &'a ClockMap,
    valid: Vec<bool>,
    /// On the reference.
    estimate: Vec<i64>,
    lo: Vec<i64>,
    hi: Vec<i64>,
    /// None of them is placed on an interval that is narrower.
    narrowest: u64,
    /// In the clock map, for spans that their slopes alone do not bound.
    held: OnceCell<Vec<Held>>,
}

/// Where stamps lie on the reference, by row.
struct Places<'v> {
    /// Which rows have a stamp; empty: all.
    stamped: &'v [bool],
    /// Which of these have a place; empty: all.
    valid: &'v [bool],
    estimate: &'v [i64],
    lo: &'v [i64],
    /// Upper ends, but for `beyond`.
    hi: &'v [i64],
    beyond: i64,
}

impl<'a> Readings<'a> {
    pub fn of(clocks: &'a Clocks, point: usize, raw: &'a Column) -> Self {
        let width = i64::try_from(clocks.width(point)).unwrap_or(i64::MAX);
        let mapped = clocks.clock_map(point).map(|clock_map| Mapped::of(clock_map, width, raw));
        Self { raw, width, mapped }
    }

    /// The durations from each of these stamps to that of `to` in the same row; `together`: whether the two are of one
    /// passage; `None`: all are.
    pub fn until(&self, to: &Self, way: &Way<'_>, together: Option<impl Fn(usize) -> bool>) -> StageDurations {
        let rows = self.raw.len();
        let (Some(start), Some(end)) = (self.places(), to.places()) else { return StageDurations::none(rows) };
        let mut counts = together.map_or_else(|| vec![true; rows], |together| (0..rows).map(together).collect());
        for known in [start.stamped, start.valid, end.stamped, end.valid] {
            counts.iter_mut().zip(known).for_each(|(counts, &known)| *counts &= known);
        }
        match way {
            Way::Mapped(clock_map) => self.apart_on_counter(to, clock_map, [&start, &end], counts),
            Way::Reference | Way::Across => start.until(&end, counts),
        }
    }

    /// The durations between stamps of one counter, at the slopes of its clock map.
    fn apart_on_counter(
        &self,
        to: &Self,
        clock_map: &ClockMap,
        [start, end]: [&Places<'_>; 2],
        counts: Vec<bool>,
    ) -> StageDurations {
        let rows = counts.len();
        let [from_raw, to_raw] = [self.raw, to.raw].map(|raw| raw.parts(0..rows).map_or(&[][..], |(raw, _)| raw));
        let narrowest = self.mapped.as_ref().map_or(0, |mapped| mapped.narrowest);
        let short = clock_map.short_spans(narrowest, self.width);
        let estimates = start.estimate.iter().zip(end.estimate);
        let stamps = from_raw.iter().zip(to_raw).zip(estimates).enumerate();
        StageDurations::of_rows(counts, stamps, |(row, ((from_raw, &to_raw), (from, &to_estimate)))| {
            let apart = to_raw.checked_sub(*from_raw)?;
            let [least, most] = [apart.checked_sub(self.width)?, apart.checked_add(to.width)?];
            let bounds = short.span(least, most).or_else(|| self.span(to, row, clock_map, [least, most]));
            let ([lo, hi], estimate) = (bounds?, to_estimate.checked_sub(*from)?);
            within([estimate, lo, hi])
        })
    }

    /// Lower and upper end of a span that is not short.
    #[inline(never)]
    fn span(&self, to: &Self, row: usize, clock_map: &ClockMap, apart: [i64; 2]) -> Option<[i64; 2]> {
        let apart = apart.map(Span::<Local>::new);
        let apart = Interval::new(apart[0], apart[1]).ok()?;
        let (start, end) = (self.held(row)?, to.held(row)?);
        let bounds: Interval<Span<Reference>> = clock_map.span_between(start, end, apart)?;
        Some([bounds.lo().get(), bounds.hi().get()])
    }

    /// `None`: no row has a stamp.
    fn places(&self) -> Option<Places<'_>> {
        let rows = self.raw.len();
        let (raw, stamped) = self.raw.parts(0..rows)?;
        Some(match &self.mapped {
            None => Places { stamped, valid: &[], estimate: raw, lo: raw, hi: raw, beyond: self.width },
            Some(Mapped { valid, estimate, lo, hi, .. }) => Places { stamped, valid, estimate, lo, hi, beyond: 0 },
        })
    }

    fn held(&self, row: usize) -> Option<&Held> {
        let mapped = self.mapped.as_ref()?;
        mapped.held.get_or_init(|| mapped.held(self.raw, self.width)).get(row)
    }
}

impl Places<'_> {
    /// The durations between stamps on the reference.
    fn until(&self, to: &Self, counts: Vec<bool>) -> StageDurations {
        let places = |places: &Self| places.estimate.iter().zip(places.lo).zip(places.hi);
        let [beyond, to_beyond] = [self.beyond, to.beyond];
        StageDurations::of_rows(counts, places(self).zip(places(to)), |(from, to)| {
            let (((from, from_lo), from_hi), ((to, to_lo), to_hi)) = (from, to);
            let lo = to_lo.checked_sub(from_hi.checked_add(beyond)?)?;
            let hi = to_hi.checked_add(to_beyond)?.checked_sub(*from_lo)?;
            within([to.checked_sub(*from)?, lo, hi])
        })
    }
}

impl<'a> Mapped<'a> {
    fn of(clock_map: &'a ClockMap, width: i64, raw: &Column) -> Self {
        let rows = raw.len();
        let [mut estimate, mut lo, mut hi] = [(); 3].map(|()| vec![0; rows]);
        let (mut valid, mut narrowest) = (vec![true; rows], u64::MAX);
        let (stamps, stamped) = raw.parts(0..rows).unwrap_or_default();
        let mut placer = Placer::new(clock_map, width);
        let places = estimate.iter_mut().zip(&mut lo).zip(&mut hi).zip(&mut valid);
        for (row, ((((estimate, lo), hi), valid), &stamp)) in places.zip(stamps).enumerate() {
            if !stamped.is_empty() && !stamped[row] {
                continue;
            }
            match placer.place(stamp) {
                Some(place) => {
                    [*estimate, *lo, *hi] = place;
                    narrowest = narrowest.min(hi.abs_diff(*lo));
                }
                None => *valid = false,
            }
        }
        Self { clock_map, valid, estimate, lo, hi, narrowest, held: OnceCell::new() }
    }

    /// Of rows with a place.
    fn held(&self, raw: &Column, width: i64) -> Vec<Held> {
        let mut near = Near::default();
        let mut hold = |raw: i64| {
            let ticks = Interval::new(Tick::new(raw), Tick::new(raw.checked_add(width)?)).ok()?;
            self.clock_map.hold_near(ticks, &mut near).ok()
        };
        raw.iter().map(|raw| raw.and_then(|&raw| hold(raw)).unwrap_or_default()).collect()
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
                let found = start.until(&end, &clocks.way(stage).unwrap(), Some(together));
                let [start, end] = [from, to].map(|point| placed(&clocks, point, &columns[point]));
                prop_assert_eq!(found, StageDurations::between(&clocks, stage, &start, &end, together));
            }
        }
    }
}

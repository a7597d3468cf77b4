//! The step of a counter, and how wide that makes each of its readings.
//!
//! A counter moves in steps: a TSC by 1 or 2 ticks, by 24 or 25 in turn, a coarse clock by 4 ms. So a reading `n` names
//! every instant from when the counter came to show `n` until it moved on. Behind the staircase stands a continuous
//! counter `c`, and the reading says `n <= c < n + width`; two readings `d` apart on one counter are more than `d -
//! width` and less than `d + width` apart. The values of a regular counter are `floor(s*k + phi)`: its gaps are `s`
//! rounded down and up, and `width` is `s`, where that is whole and every value fits, else `s + 1` rounded up
//! (`docs/proof.md`, "Readings").
//!
//! How the step is found, in each of the orderings that stamps are read in; the widest counts. Readings one tick apart
//! are one: a processor that never returns a number twice (AMD family 26) shows `n`, then `n + 1` within a step, so a
//! reading may lie a tick above its lattice. Where readings repeat so, every step shows, and the widest gap counts
//! unless a regular step fits. Where a reading takes longer than a step, the largest `s` counts whose lattice fits all
//! readings on all processors; never a greatest common divisor, which says 1 of steps of 24 and 25. Below 3 ticks only
//! a step of exactly 2 is told from another, since gaps of 1 and 2 hit nearly every number: there the width is
//! [`FINEST_WIDTH_TICKS`], which holds for every step up to 3 ticks.
//!
//! A gap of more than [`INTERRUPTED`] usual ones is an interruption and says nothing: no lattice is looked for across
//! it. The candidates are bounded; where a bound is met, the shortest gap counts, which no regular step exceeds.
//!
//! Assumes: where a reading takes longer than a step, steps are regular. Guarantees: widths are rounded up; how the
//! step was seen is told, to be printed with every bound; the work is bounded, whatever the readings. Deliberately
//! absent: a width from a data sheet.

use std::fmt;
use std::thread;

use tickscope_counter::NodeCounter;
use tickscope_tick::Ordering;

use crate::affinity;

/// The width of a reading where no step of 3 ticks or more fits: `c < n + s + 1` with `s` up to 3.
pub const FINEST_WIDTH_TICKS: u64 = 4;
/// The least step that is told by its lattice, unless it is exactly 2.
const LEAST_STEP_TICKS: f64 = 3.0;

/// How a counter moves, and how wide its readings are.
#[derive(Clone, PartialEq, Debug)]
pub struct CounterStep {
    /// The continuous counter stands in `[n, n + width_ticks)` when a reading says `n`.
    pub width_ticks: u64,
    /// The mean step in ticks, for display; below 3 where it is [`Evidence::Fine`].
    pub step_ticks: f64,
    /// Evidence for the step.
    pub evidence: Evidence,
    /// Number of readings examined.
    pub readings: usize,
}

/// How the step of a counter was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Evidence {
    /// No step of 3 ticks or more fits the readings, nor one of exactly 2.
    Fine,
    /// The largest regular step that fits all readings.
    Lattice,
    /// Too many regular steps were to be tried: none is wider than the shortest gap.
    ShortestGap,
    /// Readings repeat, and steps are uneven: the widest gap seen, interruptions left out.
    WidestGap,
    /// The readings never moved: nothing is known.
    Still,
}

/// Readings of one processor in the order they were taken.
pub type Series = Vec<i64>;

/// How far rounding down twice spreads the readings of a regular counter that is scaled from another, in ticks, or
/// rounding once and a tick above; once alone: 1.
const TWICE_ROUNDED_TICKS: f64 = 2.0;
/// By how much a candidate's residues may smear over a window, in ticks, because the candidate is one of a grid.
const SMEAR_TICKS: f64 = 0.25;
/// Readings in the first, shortest windows that candidates are tried on.
const WINDOW: usize = 8;
/// One pair of neighbouring readings in so many is equal, or a tick apart: then a reading is faster than a step.
const REPEATS_ONE_IN: usize = 16;
/// Readings so close are one.
const ONE_READING_TICKS: i64 = 1;
/// A gap beyond so many times the median is an interruption.
const INTERRUPTED: i64 = 30;
/// The most interruptions among readings, one in so many.
const INTERRUPTED_ONE_IN: usize = 64;
/// The most candidates that are tried: some ten milliseconds.
const CANDIDATES_MAX: f64 = 300_000.0;

impl CounterStep {
    /// The step that readings of one counter show, a series a processor.
    pub fn of(series: &[Series]) -> Self {
        let readings = series.iter().map(Vec::len).sum();
        let found = |width_ticks, step_ticks, evidence| Self { width_ticks, step_ticks, evidence, readings };
        let gaps = Gaps::of(series);
        let Some((least, median, widest)) = gaps.quiet() else {
            let moved = if gaps.single > 0 { Evidence::Fine } else { Evidence::Still };
            let width = if gaps.single > 0 { FINEST_WIDTH_TICKS } else { 0 };
            return found(width, if gaps.single > 0 { 1.0 } else { 0.0 }, moved);
        };
        let series = &unbroken(series, median.saturating_mul(INTERRUPTED))[..];
        let from = if gaps.repeat() { least as f64 - 1.0 } else { LEAST_STEP_TICKS };
        let lattice = Lattice::largest(series, from.max(LEAST_STEP_TICKS), least as f64 + TWICE_ROUNDED_TICKS);
        match lattice {
            // No regular step is wider than two ticks more than what lies between two readings, rounded down and one of
            // them above its lattice; a reading is as much wider than its step.
            Err(TooMany) => found(least.unsigned_abs() + 4, least as f64 + 2.0, Evidence::ShortestGap),
            // An uneven counter fits small steps only, if any.
            Ok(Some(lattice)) if gaps.may_be_steps_of(lattice.step) => {
                found(lattice.width_ticks(gaps.single > 0), lattice.step, Evidence::Lattice)
            }
            // A reading that repeats shows that a step outlasts it: then the widest gap is a step, or several.
            _ if gaps.equal + gaps.single > 0 && widest >= 3 => {
                let above = u64::from(gaps.single > 0);
                found(widest.unsigned_abs() + 1 + above, median as f64, Evidence::WidestGap)
            }
            _ if gaps.single == 0 && residue_arc(series, 2) == Some(0) => found(2, 2.0, Evidence::Lattice),
            _ => found(FINEST_WIDTH_TICKS, 1.0, Evidence::Fine),
        }
    }

    /// The step of `counter` in the orderings that stamps are read in; the widest counts.
    pub fn of_counter(counter: NodeCounter) -> Self {
        let of = |ordering| Self::measure(move || counter.read(ordering));
        Ordering::ALL.map(of).into_iter().reduce(Self::widest).expect("there are orderings")
    }

    /// The step of the counter that `read` reads, on every processor that the calling thread may run on: at most
    /// [`CPUS_MAX`] of them, each for a millisecond.
    pub fn measure(read: impl Fn() -> i64 + Sync) -> Self {
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let mut series: Vec<Series> = Vec::new();
        for &cpu in cpus.iter().take(CPUS_MAX) {
            let of_cpu = thread::scope(|scope| scope.spawn(|| affinity::pin(cpu).map(|()| taken(&read))).join());
            series.extend(of_cpu.ok().and_then(Result::ok).into_iter().flatten());
        }
        if series.is_empty() {
            series = taken(&read); // a sandbox without pinning still has a counter
        }
        Self::of(&series)
    }

    /// The wider of two looks at one counter.
    pub fn widest(self, other: Self) -> Self {
        if other.width_ticks > self.width_ticks { other } else { self }
    }
}

impl fmt::Display for CounterStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step_ticks, readings, width_ticks, .. } = self;
        match self.evidence {
            Evidence::Fine => {
                write!(f, "no regular step of 3 ticks or more fits {readings} readings; smaller ones are assumed")
            }
            Evidence::Lattice => {
                let step = (step_ticks * 1000.0).round() / 1000.0;
                write!(f, "regular steps of {step} ticks: the largest that fits {readings} readings")
            }
            Evidence::ShortestGap => {
                write!(f, "regular steps of at most {step_ticks} ticks, the shortest gap of {readings} readings")
            }
            Evidence::WidestGap => {
                write!(
                    f,
                    "uneven steps: the widest gap of {readings} readings, some of which repeat, is {} ticks",
                    width_ticks - 1
                )
            }
            Evidence::Still => write!(f, "unknown steps: {readings} readings did not move"),
        }
    }
}

/// How many processors are looked at.
pub const CPUS_MAX: usize = 16;
/// Series a processor, and readings a series.
const SERIES: usize = 4;
const SERIES_READINGS: usize = 512;
/// Readings are a varying number of such rounds apart, so that no loop stays in step with the counter.
const PAUSES: u32 = 13;

/// Series of readings at changing distances, closer to each other in the second half.
fn taken(read: &impl Fn() -> i64) -> Vec<Series> {
    let mut state = 1u32;
    let mut pause = |longest: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for round in 0..(state >> 16) % longest {
            std::hint::black_box(round);
        }
    };
    let series = |number: usize| {
        let mut readings = Vec::with_capacity(SERIES_READINGS);
        for _ in 0..SERIES_READINGS {
            if number < SERIES / 2 {
                pause(PAUSES);
            }
            readings.push(read());
        }
        readings
    };
    (0..SERIES).map(series).collect()
}

/// Distances of neighbouring readings.
struct Gaps {
    /// Above [`ONE_READING_TICKS`], in ascending order.
    steps: Vec<i64>,
    equal: usize,
    /// Gaps of a single tick.
    single: usize,
}

impl Gaps {
    fn of(series: &[Series]) -> Self {
        let all =
            series.iter().flat_map(|readings| readings.windows(2)).filter_map(|pair| pair[1].checked_sub(pair[0]));
        let (mut steps, mut equal, mut single) = (Vec::new(), 0, 0);
        for gap in all {
            match gap {
                0 => equal += 1,
                ONE_READING_TICKS => single += 1,
                forward if forward > 0 => steps.push(forward),
                _ => {} // a step back is another check's finding
            }
        }
        steps.sort_unstable();
        Self { steps, equal, single }
    }

    fn repeat(&self) -> bool {
        let repeated = self.equal + self.single;
        repeated * REPEATS_ONE_IN >= repeated + self.steps.len()
    }

    /// Whether gaps of one and more such steps are those of a regular counter that is read as often as these repeat.
    fn may_be_steps_of(&self, step: f64) -> bool {
        let multiples = self.steps.len() - self.steps.partition_point(|&gap| (gap as f64) < 1.5 * step);
        let median = self.steps[self.steps.len() / 2] as f64;
        // Two readings a step and more leave no step out, but for interruptions.
        let repeated = self.equal + self.single;
        let are_interruptions =
            repeated < self.steps.len() || multiples * INTERRUPTED_ONE_IN <= repeated + self.steps.len();
        !self.repeat() || step >= 0.75 * median && are_interruptions
    }

    /// The least, the median, and the widest gap that is no interruption.
    fn quiet(&self) -> Option<(i64, i64, i64)> {
        let least = *self.steps.first()?;
        let median = self.steps[self.steps.len() / 2];
        let limit = median.saturating_mul(INTERRUPTED);
        let widest = self.steps[..self.steps.partition_point(|&gap| gap <= limit)].last().copied();
        Some((least, median, widest.unwrap_or(least)))
    }
}

/// More candidates than [`CANDIDATES_MAX`].
#[derive(Debug)]
struct TooMany;

/// A regular step.
struct Lattice {
    step: f64,
    /// Whether the step is a whole number and the values of a series lie on one lattice.
    whole: bool,
    /// The widest spread of residues over a series, smear included.
    spread: f64,
}

impl Lattice {
    /// The largest step in `[from, to]` whose lattice fits every series; an octave after the other from the top, since
    /// small candidates are many and fit much of anything.
    fn largest(series: &[Series], from: f64, to: f64) -> Result<Option<Self>, TooMany> {
        let (mut hi, mut left) = (to, CANDIDATES_MAX);
        while hi >= from {
            let lo = (hi / 2.0).max(from);
            let found = Self::largest_between(series, (lo, hi), &mut left)?;
            if found.is_some() || lo <= from {
                return Ok(found);
            }
            hi = lo;
        }
        Ok(None)
    }

    /// The same in one octave; `left`: how many candidates may still be tried.
    fn largest_between(series: &[Series], octave: (f64, f64), left: &mut f64) -> Result<Option<Self>, TooMany> {
        let mut candidates = vec![octave];
        let longest = series.iter().map(Vec::len).max().unwrap_or(0);
        let mut window = WINDOW;
        loop {
            let mut of_length = windows(series, window);
            while window > 2 && candidates_of(&candidates, &of_length) > *left {
                window /= 2;
                of_length = windows(series, window);
            }
            *left -= candidates_of(&candidates, &of_length);
            if *left < 0.0 {
                return Err(TooMany);
            }
            candidates = fitting(&candidates, &of_length);
            if candidates.is_empty() {
                return Ok(None);
            }
            if window >= longest {
                break;
            }
            window *= 4;
        }
        Ok(candidates.last().map(|&range| Self::in_range(series, range)))
    }

    /// The step of a range of candidates that fit.
    fn in_range(series: &[Series], (lo, hi): (f64, f64)) -> Self {
        if lo <= hi.round()
            && let Some(arc) = residue_arc(series, hi.round() as i64)
        {
            return Self { step: hi.round(), whole: true, spread: arc as f64 };
        }
        let mut residues = Vec::new();
        let spread = series.iter().map(|all| spread(all, (lo + hi) / 2.0, &mut residues)).fold(0.0, f64::max);
        Self { step: hi, whole: false, spread }
    }

    /// `s` where it is whole, and `s + 1` if readings lie a tick above it; else `s + 1`, or `s + 2` of a counter that
    /// was rounded down twice, or that was rounded down and shows readings a tick above; rounded up.
    fn width_ticks(&self, lie_above: bool) -> u64 {
        let rounded = if self.spread <= 1.0 + SMEAR_TICKS && !lie_above { 1.0 } else { TWICE_ROUNDED_TICKS };
        if self.whole { (self.step + self.spread) as u64 } else { (self.step + rounded).ceil() as u64 }
    }
}

/// How many candidates are tried on those windows.
fn candidates_of(ranges: &[(f64, f64)], windows: &[&[i64]]) -> f64 {
    let finest = reach_of(windows) / SMEAR_TICKS;
    ranges.iter().map(|(from, to)| (to / from).ln() * finest + 1.0).sum()
}

/// The longest way from the first to the last reading of a window, in ticks; the windows are sorted by it.
fn reach_of(windows: &[&[i64]]) -> f64 {
    windows.last().map_or(1.0, |window| (window[window.len() - 1].wrapping_sub(window[0]) as f64).max(1.0))
}

/// The stretches of the series without a gap, or a step back, of more than `longest` ticks.
fn unbroken(series: &[Series], longest: i64) -> Vec<Series> {
    let goes_on = |a: &i64, b: &i64| b.checked_sub(*a).is_some_and(|gap| gap.saturating_abs() <= longest);
    series.iter().flat_map(|readings| readings.chunk_by(goes_on)).map(<[i64]>::to_vec).collect()
}

/// How far residues of a step may spread, but for smear: twice a step's own lattice spreads by half of it at least.
fn allowed_spread(step: f64) -> f64 {
    if step < 5.0 { 1.0 } else { TWICE_ROUNDED_TICKS }
}

/// Stretches of up to `length` readings; the shorter ones only where no interruption makes them long.
fn windows(series: &[Series], length: usize) -> Vec<&[i64]> {
    let reach = |window: &&[i64]| window[window.len() - 1].wrapping_sub(window[0]);
    let mut all: Vec<&[i64]> =
        series.iter().flat_map(|readings| readings.chunks(length)).filter(|window| window.len() >= 2).collect();
    all.sort_by_key(reach);
    if series.iter().any(|readings| readings.len() > length) {
        all.truncate(all.len().div_ceil(2));
    }
    all
}

/// The parts of the candidates, in ascending order, that fit every window; joined where they touch.
fn fitting(candidates: &[(f64, f64)], windows: &[&[i64]]) -> Vec<(f64, f64)> {
    let reach = reach_of(windows);
    let (mut ranges, mut residues): (Vec<(f64, f64)>, _) = (Vec::new(), Vec::new());
    for &(from, to) in candidates {
        let mut lo = from;
        loop {
            // Over the window a step that is off by d moves the last residue by d times the steps in it.
            let hi = (lo + SMEAR_TICKS * lo / reach).min(to);
            let middle = (lo + hi) / 2.0;
            let allowed = allowed_spread(middle) + SMEAR_TICKS;
            let fits =
                |window: &&[i64]| near(window, middle, allowed) && spread(window, middle, &mut residues) <= allowed;
            if windows.iter().all(fits) {
                match ranges.last_mut().filter(|last| last.1 >= lo) {
                    Some(last) => last.1 = hi,
                    None => ranges.push((lo, hi)),
                }
            }
            if hi >= to {
                break;
            }
            lo = hi;
        }
    }
    ranges
}

/// Whether neighbouring readings lie whole steps apart, to `allowed` ticks: quickly told, and rarely true of a wrong
/// step.
fn near(readings: &[i64], step: f64, allowed: f64) -> bool {
    readings.windows(2).all(|pair| off(pair[1].wrapping_sub(pair[0]) as f64, step).abs() <= allowed)
}

/// How far `apart` is from the nearest whole number of steps.
fn off(apart: f64, step: f64) -> f64 {
    /// A number this large holds no fraction: adding it rounds to the nearest whole number, and calls no function.
    const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
    apart - step * ((apart / step + WHOLE) - WHOLE)
}

/// The shortest arc of the circle of `step` ticks that holds all residues of the readings.
fn spread(readings: &[i64], step: f64, residues: &mut Vec<f64>) -> f64 {
    let around_first = readings.iter().map(|reading| off(reading.wrapping_sub(readings[0]) as f64, step));
    let (least, most) = around_first.fold((0.0, 0.0), |(least, most), off| (f64::min(least, off), f64::max(most, off)));
    // No gap within half the circle is wider than the one outside.
    if most - least <= step / 2.0 {
        return most - least;
    }
    residues.clear();
    residues.extend(readings.iter().map(|reading| (reading.wrapping_sub(readings[0]) as f64).rem_euclid(step)));
    residues.sort_unstable_by(f64::total_cmp);
    let around = residues[0] + step - residues[residues.len() - 1];
    let widest = residues.windows(2).map(|pair| pair[1] - pair[0]).fold(around, f64::max);
    step - widest
}

/// How far above a lattice of whole steps the readings lie: 0, or 1 tick; `None`: further.
fn residue_arc(series: &[Series], step: i64) -> Option<i64> {
    let residue = |readings: &Series, reading: &i64| reading.wrapping_sub(readings[0]).rem_euclid(step);
    let lies_within = |readings: &Series, lo: i64, hi: i64| {
        readings.iter().all(|reading| {
            let residue = residue(readings, reading);
            (lo..=hi).contains(&residue) || (lo..=hi).contains(&(residue - step))
        })
    };
    if step <= 0 {
        return None;
    }
    // The first reading may be the one above.
    let above = |readings: &Series| lies_within(readings, 0, 1) || lies_within(readings, -1, 0);
    [0, 1].into_iter().find(|&arc| match arc {
        0 => series.iter().all(|readings| lies_within(readings, 0, 0)),
        _ => series.iter().all(above),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A counter in steps of `step / 1000` ticks, read every `period` ticks and up to as much more, now and then
    /// interrupted.
    fn stepping(step: i64, phase: i64, period: i64, seed: u64) -> Vec<Series> {
        let mut random = seed | 1;
        let mut next = |below: i64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as i64 % below.max(1)
        };
        let mut series = || {
            let mut now = 1_000_000_000_000 + next(1 << 40); // thousandths of a tick
            let take = |_| {
                now +=
                    period * 1000 + next(period * 1000) + if next(300) == 0 { 3_000_000 + next(9_000_000) } else { 0 };
                ((now + phase).div_euclid(step) * step).div_euclid(1000)
            };
            (0..1024).map(take).collect()
        };
        (0..4).map(|_| series()).collect()
    }

    #[test]
    fn the_width_of_a_regular_counter_is_its_step_where_that_is_whole_and_its_widest_gap_and_one_where_it_is_not() {
        for (step, width) in [
            (2_000, 2),
            (24_500, 26),
            (24_450, 26),
            (25_000, 25),
            (33_333, 35),
            (40_000, 40),
            (41_667, 43),
            (1_000_000, 1000),
        ] {
            for period in [3, 35, 150] {
                let found = CounterStep::of(&stepping(step, 123, period, 7));
                let seen = (found.width_ticks, found.evidence);
                assert_eq!(seen, (width, Evidence::Lattice), "step {step}, read every {period}: {found}");
            }
        }
    }

    #[test]
    fn a_counter_of_single_ticks_is_never_taken_for_a_coarser_one() {
        for period in [3, 18, 150] {
            let found = CounterStep::of(&stepping(1_000, 0, period, 3));
            assert_eq!((found.width_ticks, found.evidence), (FINEST_WIDTH_TICKS, Evidence::Fine), "{found}");
        }
    }

    #[test]
    fn a_counter_scaled_from_a_stepping_one_is_as_wide_as_both_roundings_leave() {
        for scale in [1_002, 1_049, 998, 2_031] {
            let scaled = |reading: &i64| (reading * scale).div_euclid(1000);
            let series: Vec<Series> =
                stepping(24_500, 5, 35, 9).iter().map(|series| series.iter().map(scaled).collect()).collect();
            let found = CounterStep::of(&series);
            // How far the scaled counter stands from what it reads just before it moves on, in millionths of a tick.
            let beyond = |number: i64| {
                let reads = (number * 24_500).div_euclid(1000) * scale / 1000;
                (number + 1) * 24_500 * scale - reads * 1_000_000
            };
            let truth = (1_000_000..1_004_000).map(beyond).max().unwrap() as f64 / 1e6;
            let enough = truth.ceil() as u64..=truth.ceil() as u64 + 1;
            assert!(enough.contains(&found.width_ticks) && found.evidence == Evidence::Lattice, "{truth}: {found:?}");
        }
    }

    #[test]
    fn an_uneven_counter_whose_readings_repeat_is_as_wide_as_its_widest_gap() {
        let uneven = |seed: u64| {
            let (mut shown, mut next, mut gap) = (0, 0, seed);
            (0..4000)
                .map(|now| {
                    while now * 9 >= next {
                        shown = next;
                        gap = (gap * 5 + 3) % 23;
                        next += 41 + gap as i64;
                    }
                    shown
                })
                .collect::<Series>()
        };
        let found = CounterStep::of(&[uneven(3), uneven(4)]);
        assert_eq!((found.width_ticks, found.evidence), (41 + 22 + 1, Evidence::WidestGap), "{found}");
        // One reading in forty repeats: that a step outlasts a reading shows all the same.
        let repeats = |series: Series| {
            let mut distinct = series;
            distinct.dedup();
            distinct.chunks(39).flat_map(|some| some.iter().copied().chain(some.last().copied())).collect::<Series>()
        };
        let found = CounterStep::of(&[repeats(uneven(3)), repeats(uneven(4))]);
        assert_eq!((found.width_ticks, found.evidence), (41 + 22 + 1, Evidence::WidestGap), "{found}");
    }

    #[test]
    fn a_pause_amid_the_readings_changes_no_step_and_is_not_searched() {
        let mut series = stepping(24_500, 7, 40, 3);
        let quiet = CounterStep::of(&series);
        assert_eq!(quiet.evidence, Evidence::Lattice);
        // Some two years of ticks: a search across them would not end.
        for reading in series.iter_mut().flat_map(|readings| readings.iter_mut().skip(300)) {
            *reading += 49 * 5_000_000_000_000_000;
        }
        let paused = CounterStep::of(&series);
        assert_eq!((paused.width_ticks, paused.evidence), (quiet.width_ticks, quiet.evidence));
    }

    #[test]
    fn where_too_many_steps_were_to_be_tried_the_shortest_gap_counts_and_the_search_ends() {
        // Read so seldom that a step of some ticks lies millions of times between two readings.
        let seldom =
            |seed: u64| stepping(7_500, 5, 1_000_000_000, seed).concat().into_iter().take(512).collect::<Series>();
        let found = CounterStep::of(&[seldom(3)]);
        assert_eq!(found.evidence, Evidence::ShortestGap, "{found}");
        assert!(found.width_ticks > 1_000_000_000 && found.to_string().contains("at most"), "{found}");
    }

    #[test]
    fn the_wider_of_two_looks_counts_whichever_came_first() {
        let look = |width_ticks| CounterStep { width_ticks, step_ticks: 1.0, evidence: Evidence::Fine, readings: 1 };
        assert_eq!(look(26).widest(look(27)).width_ticks, 27);
        assert_eq!(look(27).widest(look(26)).width_ticks, 27);
    }

    #[test]
    fn a_counter_that_does_not_move_has_no_width() {
        assert_eq!(CounterStep::of(&[vec![5; 100]]).evidence, Evidence::Still);
        assert_eq!(CounterStep::of(&[]).evidence, Evidence::Still);
    }

    #[test]
    fn this_hosts_counter_is_seen_to_move() {
        let found = CounterStep::measure(tickscope_counter::plain);
        assert!(found.width_ticks >= 2 && found.evidence != Evidence::Still, "{found}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn property_no_width_is_narrower_than_the_counter_may_stand_beyond_a_reading(
            step in 1_000i64..90_000, phase in 0i64..1_000_000, period in 2i64..200, seed: u64,
        ) {
            let found = CounterStep::of(&stepping(step, phase, period, seed));
            prop_assert!(found.width_ticks * 1000 >= step as u64, "{step}: {found:?}");
            prop_assert!(found.width_ticks <= (step / 1000 + 4) as u64, "{step}: {found:?}");
        }
    }
}

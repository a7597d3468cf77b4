//! The example from a run's stamps: calls between two nodes, each with a clock of its own.
//!
//! A stamp is a reading of the clock, so the zero-time test and every compensation are those of stamps. Beside what
//! they estimate stands what is *guaranteed*: a latency begins on one node's clock and ends on another's, and the clock
//! map of the two gives an interval for it, from stamp to stamp, nothing subtracted. A quantile of the lower ends is no
//! more than that of the true durations, one of the upper ends no less. A call begins and ends on the client's clock,
//! and needs no clock map.
//!
//! **Slope of latencies.** The nodes' clocks may have moved against each other within a repetition, by `relative_ticks`
//! at most. The weights of a slope sum to 0, so what all its calls share falls out, and no repetition's slope is off by
//! more than the positive weights' sum times that. Nor is their median.
//!
//! Assumes: ticks of the client's counter, which is the reference. Guarantees: a repetition counts with all its calls
//! or not at all, and those left out are counted. Deliberately absent: reading a run; who does that knows the points'
//! names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use tickscope_clock::compensation::Trial;
use tickscope_clock::measure::{Sampled, near};
use tickscope_stats::{Error, Quantile};
use tickscope_tick::{Decimal, Frequency, Unit};

use crate::figures::{
    CallCell, Cells, Costs, Example, ExamplePlan, Measured, Published, Subtracted, UnderPairs, cells, weights,
    zero_time,
};

/// A call of which every stamp is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedCall {
    /// Pairs of client and server at once.
    pub pairs: u32,
    /// Words that it carried, there and back.
    pub words: u16,
    /// Which repetition it belongs to.
    pub repetition: i64,
    /// The zero-time test's four stamps.
    pub zero: [i64; 4],
    /// Two stamps before the message leaves, the second where the call begins; two after the results were read, the
    /// first where it ends.
    pub around: [i64; 4],
    /// From the client's stamp before it sends to the server's after it received.
    pub latency: Bounded,
    /// From there to the client's stamp after it read the results.
    pub rpc: Bounded,
}

/// A duration in ticks of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounded {
    /// Lies in the interval.
    pub estimate: i64,
    /// The true one is not shorter.
    pub lo: i64,
    /// The true one is not longer.
    pub hi: i64,
}

/// A run's calls.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// In order of time.
    pub calls: Vec<RecordedCall>,
    /// The sampler's pairs, in order of time; none: there was no sampler.
    pub sampled: Vec<Sampled>,
    /// How fast the client's counter is declared to run.
    pub hertz: u64,
    /// How far two latencies of one repetition may be wrong against each other.
    pub relative_ticks: u64,
    /// From one call to the next, as the client was told.
    pub interval_us: u32,
}

/// Result of [`Recording::evaluate`].
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    /// Settings of the example, as seen in the calls.
    pub plan: ExamplePlan,
    /// By number of pairs.
    pub loads: Vec<UnderPairs>,
    /// Calls of repetitions that lack another one.
    pub left_out: usize,
}

/// Guaranteed figures, whatever the clocks did: from stamp to stamp, the stamps' own cost within.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Guaranteed {
    /// The median latency.
    pub latency_median: Bound,
    /// The 95 % quantile of the latency.
    pub latency_p95: Bound,
    /// The median call.
    pub rpc_median: Bound,
}

/// Bounds of a figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bound {
    /// In ticks of the reference.
    pub ticks: [i64; 2],
    /// The same in nanoseconds, as the reference is declared to run; outward.
    pub ns: [f64; 2],
    #[serde(skip)]
    hertz: u64,
}

/// How far something reaches to either side. In JSON nanoseconds, outward.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "f64")]
pub struct Reach {
    ticks: i128,
    /// Of whatever `ticks` counts: a counter, or parts of its tick.
    unit: Unit,
}

/// About the run that an example was taken from.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunFacts {
    /// Its directory.
    pub directory: String,
    /// Between which nodes.
    pub network: String,
    /// The bound on how far the nodes' rates wander, with its origin.
    pub rho: String,
    /// How well the server's clock is known at the median; `None`: the nodes share one clock.
    #[serde(rename = "half_width_ns")]
    pub half_width: Option<Reach>,
    /// Durations of the run whose truth is known, and those of them that lie in their intervals; `None`: it is not
    /// known.
    pub truth: Option<[u64; 2]>,
    /// Calls that lack a stamp or an interval.
    pub incomplete: usize,
    /// Calls of repetitions that lack another one.
    pub left_out: usize,
    /// Calls that began later than an interval after they were due.
    pub late: u64,
    /// Repetitions made again because an answer was lost.
    pub abandoned: u64,
}

impl Recording {
    /// The figures of every number of pairs.
    pub fn evaluate(&self) -> Result<Recorded, Error> {
        let words: BTreeSet<u16> = self.calls.iter().map(|call| call.words).collect();
        let mut loads: BTreeMap<u32, BTreeMap<i64, Vec<&RecordedCall>>> = BTreeMap::new();
        for call in &self.calls {
            loads.entry(call.pairs).or_default().entry(call.repetition).or_default().push(call);
        }
        // An id passes once, so as many calls as words are one with each.
        loads.values_mut().for_each(|repetitions| repetitions.retain(|_, calls| calls.len() == words.len()));
        let complete: usize = loads.values().flat_map(BTreeMap::values).map(Vec::len).sum();
        let repetitions = loads.values().map(BTreeMap::len).max().unwrap_or(0) as u32;
        let plan = ExamplePlan {
            pairs: loads.keys().copied().collect(),
            words: words.into_iter().collect(),
            repetitions,
            interval_us: self.interval_us,
        };
        let load = |(&pairs, repetitions): (&u32, &BTreeMap<_, Vec<&RecordedCall>>)| {
            let calls: Vec<RecordedCall> = repetitions.values().flatten().map(|&&call| call).collect();
            self.under_pairs(&plan, pairs, &calls)
        };
        let loads = loads.iter().map(load).collect::<Result<_, Error>>()?;
        Ok(Recorded { plan, loads, left_out: self.calls.len() - complete })
    }

    fn under_pairs(&self, plan: &ExamplePlan, pairs: u32, calls: &[RecordedCall]) -> Result<UnderPairs, Error> {
        let test: Vec<Trial> = calls.iter().map(|call| self.trial(call)).collect();
        let measured: Vec<Measured> = calls.iter().map(|call| self.measured(call)).collect();
        let ns = self.ns_per_tick();
        let mut zero = zero_time(&test, ns)?;
        let costs = Costs::of(&measured.iter().flat_map(|call| call.pairs).collect::<Vec<i64>>())?;
        let subtracted = Subtracted { costs, method: zero.chosen };
        let Cells { durations, latency_slope, rpc_slope } = cells(&plan.words, &measured, subtracted, ns)?;
        let cell = |(&words, [latency, rpc]): (&u16, [_; 2])| {
            let guaranteed = Guaranteed::of(calls.iter().filter(|call| call.words == words), self.hertz)?;
            Some(CallCell { words, latency, rpc, guaranteed })
        };
        let cells = plan.words.iter().zip(durations).filter_map(cell).collect();
        if self.sampled.is_empty() {
            zero.no_sampler = Some("the run has no stamps of a sampler".into());
        }
        let latency_slope_clock = self.slope_clock(&plan.words);
        Ok(UnderPairs { pairs, zero, cells, latency_slope, rpc_slope, latency_slope_clock })
    }

    fn trial(&self, call: &RecordedCall) -> Trial {
        let [first, second, third, fourth] = call.zero;
        let sampled = self.sampled(first, fourth);
        Trial { t_1: second - first, t_m: third - second, t_4: fourth - third, truth: 0, sampled, touched: false }
    }

    fn measured(&self, call: &RecordedCall) -> Measured {
        let [first, begin, end, last] = call.around;
        let (latency, rpc) = (call.latency.estimate, call.rpc.estimate);
        Measured {
            words: call.words,
            latency,
            rpc,
            pairs: [begin - first, last - end],
            sampled: self.sampled(first, last),
        }
    }

    fn sampled(&self, from: i64, to: i64) -> Option<[i64; 2]> {
        Some([near(&self.sampled, from)?, near(&self.sampled, to)?])
    }

    /// How far the clocks may have moved any repetition's slope, rounded up to a thousandth of a tick a word.
    fn slope_clock(&self, words: &[u16]) -> Reach {
        const PARTS: u32 = 1000;
        let (weights, divisor) = weights(words);
        let positive: i64 = weights.into_iter().filter(|&weight| weight > 0).sum();
        let moved = i128::from(positive) * i128::from(self.relative_ticks) * i128::from(PARTS);
        let thousandths = if divisor > 0 { (moved + i128::from(divisor) - 1) / i128::from(divisor) } else { 0 };
        Reach { ticks: thousandths, unit: Unit::nanoseconds(self.hertz, Reach::JSON_DECIMALS).of_parts(PARTS) }
    }

    /// For estimates only.
    fn ns_per_tick(&self) -> f64 {
        Frequency { hertz: self.hertz, tolerance_ppm: 0 }.nanoseconds(1.0)
    }
}

impl Recorded {
    /// Example of these figures, with those that were published.
    pub fn example(self, run: RunFacts, took_s: f64, optimised: bool, cpus: [usize; 2]) -> Example {
        let Self { plan, loads, left_out } = self;
        let run = RunFacts { left_out, ..run };
        Example { version: 1, plan, took_s, optimised, cpus, loads, published: Published::as_printed(), run }
    }
}

impl Bound {
    fn of([lo, hi]: [i64; 2], hertz: u64) -> Self {
        let unit = Unit::nanoseconds(hertz, Reach::JSON_DECIMALS);
        Self { ticks: [lo, hi], ns: [unit.float_down(lo), unit.float_up(hi)], hertz }
    }
}

impl Reach {
    const JSON_DECIMALS: u32 = 3;

    /// So many ticks of a counter.
    pub fn of_ticks(ticks: u64, hertz: u64) -> Self {
        Self { ticks: ticks.into(), unit: Unit::nanoseconds(hertz, Self::JSON_DECIMALS) }
    }

    /// In nanoseconds with so many decimals.
    pub fn ns(self, decimals: u32) -> Decimal {
        self.unit.with_decimals(decimals).up(self.ticks)
    }
}

impl From<Reach> for f64 {
    fn from(reach: Reach) -> Self {
        reach.unit.float_up(reach.ticks)
    }
}

impl fmt::Display for Bound {
    /// In microseconds, outward to a hundredth.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([lo, hi], unit) = (self.ticks, Unit::microseconds(self.hertz, 2));
        write!(f, "{} to {}", unit.down(lo), unit.up(hi))
    }
}

impl Guaranteed {
    fn of<'a>(calls: impl Iterator<Item = &'a RecordedCall> + Clone, hertz: u64) -> Option<Self> {
        let of = |duration: fn(&RecordedCall) -> Bounded, quantile: Quantile| {
            let lo = quantile.of(&mut calls.clone().map(|call| duration(call).lo).collect::<Vec<i64>>())?;
            let hi = quantile.of(&mut calls.clone().map(|call| duration(call).hi).collect::<Vec<i64>>())?;
            Some(Bound::of([lo, hi], hertz))
        };
        Some(Self {
            latency_median: of(|call| call.latency, Quantile::MEDIAN)?,
            latency_p95: of(|call| call.latency, Quantile::P95)?,
            rpc_median: of(|call| call.rpc, Quantile::MEDIAN)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickscope_clock::compensation::Method;

    const WORDS: [u16; 5] = [0, 50, 100, 150, 210];
    const REPETITIONS: i64 = 40;
    /// What a stamp costs, ticks.
    const COST: i64 = 60;
    /// How far two latencies of a repetition may be wrong against each other in these tests, ticks.
    const RELATIVE: i64 = 40;

    /// Calls of two numbers of pairs: a latency of `latency(words)`, a call of `rpc(words)` ticks, both too long by
    /// their stamps; `off(id)` is how far the clock map's estimate of a latency is off, and its interval is half a
    /// microsecond either way.
    fn recording(latency: impl Fn(i64) -> i64, rpc: impl Fn(i64) -> i64, off: impl Fn(i64) -> i64) -> Recording {
        let mut calls = Vec::new();
        for repetition in 0..REPETITIONS {
            for (at, &words) in WORDS.iter().chain(&WORDS).enumerate() {
                let id = repetition * 10 + at as i64;
                let from = 1_000_000 * id;
                let (latency, rpc) = (latency(words.into()) + COST, rpc(words.into()) + 4 * COST);
                let estimate = latency + off(id);
                let begin = from + 5 * COST;
                calls.push(RecordedCall {
                    pairs: if at < WORDS.len() { 1 } else { 2 },
                    words,
                    repetition,
                    zero: [0, 1, 2, 3].map(|reading| from + reading * COST),
                    around: [begin - COST, begin, begin + rpc, begin + rpc + COST + 1],
                    latency: Bounded { estimate, lo: estimate - 500, hi: estimate + 500 },
                    rpc: Bounded { estimate: rpc, lo: rpc, hi: rpc },
                });
            }
        }
        let sampled = (0..2000).map(|at| Sampled { at: at * 200_000, cost: COST }).collect();
        let relative_ticks = RELATIVE.unsigned_abs();
        Recording { calls, sampled, hertz: 1_000_000_000, relative_ticks, interval_us: 2000 }
    }

    #[test]
    fn known_latencies_calls_and_slopes_come_out_of_a_run_with_its_stamps_taken_off() {
        let found = recording(|words| 5_000 + 2 * words, |words| 9_000 + 7 * words, |_| 0).evaluate().unwrap();
        assert_eq!((found.plan.pairs.as_slice(), found.plan.words.as_slice()), (&[1, 2][..], &WORDS[..]));
        assert_eq!((found.plan.repetitions, found.left_out), (40, 0));
        for load in &found.loads {
            assert_eq!((load.zero.trials, load.zero.chosen), (200, Method::Constant));
            assert_eq!((load.latency_slope.median_ns, load.rpc_slope.median_ns), (2.0, 7.0));
            for cell in &load.cells {
                let words = f64::from(cell.words);
                assert_eq!(
                    (cell.latency.median_ns, cell.rpc.median_ns),
                    (5_000.0 + 2.0 * words, 9_000.0 + 7.0 * words)
                );
                // What is guaranteed has its stamps within.
                let Guaranteed { latency_median, rpc_median, .. } = cell.guaranteed;
                let latency = 5_060 + 2 * i64::from(cell.words);
                assert_eq!(latency_median.ticks, [latency - 500, latency + 500]);
                assert_eq!(rpc_median.ticks, [9_240 + 7 * i64::from(cell.words); 2]);
            }
        }
    }

    #[test]
    fn the_pairs_of_a_call_are_those_right_beside_it() {
        let recording = recording(|_| 5_000, |_| 9_000, |_| 0);
        assert_eq!(recording.measured(&recording.calls[3]).pairs, [COST, COST + 1]);
    }

    #[test]
    fn a_repetition_that_lacks_a_call_is_left_out_and_counted() {
        let mut recording = recording(|_| 5_000, |_| 9_000, |_| 0);
        recording.calls.remove(17);
        let found = recording.evaluate().unwrap();
        let trials: Vec<usize> = found.loads.iter().map(|load| load.zero.trials).collect();
        assert_eq!((found.left_out, trials), (4, vec![200, 195]));
    }

    #[test]
    fn without_a_sampler_there_is_no_method_2_and_it_says_why() {
        let recording = Recording { sampled: Vec::new(), ..recording(|_| 5_000, |_| 9_000, |_| 0) };
        for load in recording.evaluate().unwrap().loads {
            assert!(load.zero.outcome(Method::Sampler).is_none() && load.zero.no_sampler.is_some());
        }
    }

    #[test]
    fn a_bound_is_rounded_away_from_what_it_bounds() {
        let bound = Bound::of([-1234, 1235], 2_314_278_176);
        assert_eq!((bound.ns, bound.to_string()), ([-533.212, 533.644], "-0.54 to 0.54".into()));
        assert_eq!(Bound::of([25_001, 25_001], 1_000_000_000).to_string(), "25.00 to 25.01");
        let reach = Reach::of_ticks(10_001, 10_000_000_000);
        assert_eq!(
            (f64::from(reach), reach.ns(2).to_string(), reach.ns(0).to_string()),
            (1000.1, "1000.10".into(), "1001".into())
        );
    }

    proptest! {
        #[test]
        fn property_however_the_clocks_moved_within_their_bounds_the_true_slope_and_median_lie_in_theirs(
            slope in -20_i64..20,
            together in -300_i64..300,
            moved in prop::collection::vec(0..=RELATIVE, 400),
        ) {
            let off = |id: i64| together + moved[id as usize];
            let found = recording(|words| 5_000 + slope * words, |_| 9_000, off).evaluate().unwrap();
            for load in &found.loads {
                let clocks = f64::from(load.latency_slope_clock);
                let [lo, hi] = load.latency_slope.interval_ns.unwrap();
                prop_assert!(lo - clocks <= slope as f64 && slope as f64 <= hi + clocks);
                prop_assert!((load.latency_slope.median_ns - slope as f64).abs() <= clocks + 1e-9);
                for cell in &load.cells {
                    let truth = 5_000 + slope * i64::from(cell.words) + COST;
                    let [lo, hi] = cell.guaranteed.latency_median.ticks;
                    prop_assert!(lo <= truth && truth <= hi);
                }
            }
        }

        #[test]
        fn property_the_worst_that_the_clocks_can_do_to_a_slope_is_all_that_is_allowed_for(relative in 1_i64..1000) {
            // Early by all of it where words are few, late where they are many.
            let off = |id: i64| if id % 5 > 2 { relative } else { 0 };
            let made = recording(|_| 5_000, |_| 9_000, off);
            let found = Recording { relative_ticks: relative.unsigned_abs(), ..made }.evaluate().unwrap();
            let load = &found.loads[0];
            let (moved, allowed) = (load.latency_slope.median_ns, f64::from(load.latency_slope_clock));
            prop_assert!(moved <= allowed && allowed <= moved + 0.002 + 1e-9, "{moved} {allowed}");
        }
    }
}

//! The example of the Cm* study (5): latency of a message and execution time of a remote procedure call, against the words
//! that client and server access and against how many pairs of them there are.
//!
//! Differences of readings come in, net durations and their figures go out. The message's section holds one reading of
//! the clock, that of the call more: the server reads it between. Each is subtracted by the method that the zero-time test,
//! taken right before every call, chose on the earlier half of the calls and was judged by on the later half.
//!
//! **Slope.** Every repetition calls once with each number of words, in an order of its own, so it has a slope of its own, by least
//! squares; what is given is the median of those, with its interval of 95 % from order statistics. Interruptions hit any of
//! a repetition's calls alike, so for equally spaced words they make a slope as often too great as too small: the median
//! is that of the words. It assumes that repetitions are independent, which those of one run are not quite; run it
//! again to see how far it moves. Deliberately absent: a bound. Compensation is an estimate; what a run's clocks guarantee
//! stands beside it ([`Guaranteed`]), with nothing subtracted.

mod recorded;

use serde::Serialize;
use tickscope_stats::{Confidence, Error, Quantile, Sample};

use crate::compensation::{Halves, Length, Method, Trial, judge, touched};
use crate::study::SectionTest;
pub use recorded::{Bound, Bounded, Guaranteed, Reach, Recorded, RecordedCall, Recording, RunFacts};

/// What is asked of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExamplePlan {
    /// Pairs of client and server, one study for each number.
    pub pairs: Vec<u32>,
    /// Words of 16 bits that client and server read together, ascending.
    pub words: Vec<u16>,
    /// Timed calls of each.
    pub repetitions: u32,
    /// From one timed call to the next, on average, microseconds.
    pub interval_us: u32,
}

impl ExamplePlan {
    /// More words than this do not fit the page that client and server share.
    pub const WORDS_MAX: u16 = 2000;

    /// As in the paper: 1 to 3 pairs, 0 to 200 words in steps of 50, 512 repetitions.
    pub fn paper() -> Self {
        Self { pairs: vec![1, 2, 3], words: (0..=200).step_by(50).collect(), repetitions: 512, interval_us: 2_000 }
    }
}

/// All of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Example {
    /// What was asked.
    pub plan: ExamplePlan,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Whether the program that measured was compiled with optimisation.
    pub optimised: bool,
    /// The processors of the clients and of the servers.
    pub cpus: [usize; 2],
    /// Measured by each of these.
    pub clocks: Vec<ByClock>,
    /// What the paper found.
    pub published: Published,
    /// The run that it was taken from; `None`: measured by this program, in shared memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunFacts>,
}

/// Measured by one clock.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ByClock {
    /// Its name.
    pub clock: String,
    /// By number of pairs.
    pub loads: Vec<UnderPairs>,
}

/// Under the load of one number of pairs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct UnderPairs {
    /// Pairs, the timed one among them.
    pub pairs: u32,
    /// The zero-time test in each repetition.
    pub zero: SectionTest,
    /// By number of words.
    pub cells: Vec<CallCell>,
    /// Of the message's latency.
    pub latency_slope: Slope,
    /// Of the call's execution time.
    pub rpc_slope: Slope,
    /// Calls that began later than an interval after they were due; of a run they are counted over all loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<u32>,
    /// By how much the clocks of a run's nodes may have moved a latency's slope, nanoseconds a word, guaranteed.
    #[serde(rename = "latency_slope_clock_ns", skip_serializing_if = "Option::is_none")]
    pub latency_slope_clock: Option<Reach>,
}

/// Calls with one number of words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CallCell {
    /// How many.
    pub words: u16,
    /// From the client's reading before it sends to the server's after it received.
    pub latency: Figure,
    /// From there to the client's reading after it read the results.
    pub rpc: Figure,
    /// What holds whatever the clocks did; `None`: one clock, and nothing but estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guaranteed: Option<Guaranteed>,
}

/// A duration's figures over the repetitions, net of what reading the clock cost; nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub deviation_ns: f64,
    /// The median.
    pub median_ns: f64,
    /// What the median lies between with 95 %; `None`: too few repetitions.
    pub median_interval_ns: Option<[f64; 2]>,
    /// 95 of 100 took no longer.
    pub p95_ns: f64,
    /// Durations that compensation made negative, which none is: its error.
    pub negative: usize,
}

/// Nanoseconds a word.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Slope {
    /// The median of the repetitions' own slopes.
    pub median_ns: f64,
    /// What that lies between with 95 %; `None`: too few repetitions.
    pub interval_ns: Option<[f64; 2]>,
    /// Of the line through the means, as published; one long interruption tilts it.
    pub of_means_ns: f64,
}

/// How many readings of the clock a section holds beside its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Readings {
    /// The message's.
    pub message: i64,
    /// The call's.
    pub call: i64,
}

impl Readings {
    /// Where the server reads once, between.
    pub const SERVER_ONCE: Self = Self { message: 1, call: 2 };

    /// Where each of so many points of a path is a reading, the first two of them the message's ends: a section holds its last
    /// one and those within.
    ///
    /// ```
    /// use tickscope_clock::example::Readings;
    /// assert_eq!(Readings::along(5), Readings { message: 1, call: 4 });
    /// ```
    pub fn along(points: usize) -> Self {
        Self { message: 1, call: points as i64 - 1 }
    }
}

/// A call as measured, in the clock's units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// How many words it accessed.
    pub words: u16,
    /// Its message, too long by the readings it holds.
    pub latency: i64,
    /// The whole call, likewise.
    pub rpc: i64,
    /// The pairs of readings right before and right after it.
    pub pairs: [i64; 2],
    /// The sampler's, near its start and near its end.
    pub sampled: Option<[i64; 2]>,
}

/// What reading the clock cost, by every method: the two constants are of all pairs given.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    median: i64,
    mean: f64,
}

impl Costs {
    /// Of pairs of readings.
    pub fn of(pairs: &[i64]) -> Result<Self, Error> {
        let sample = Sample::new(pairs)?;
        Ok(Self { median: sample.quantile(Quantile::MEDIAN), mean: sample.moments().mean })
    }

    /// Twice the cost of a reading at a call; `None`: there was no sampler.
    fn twice(self, method: Method, call: &Measured) -> Option<i64> {
        Some(match method {
            Method::None => 0,
            Method::Constant => 2 * self.median,
            Method::LongTerm => (2.0 * self.mean).round() as i64,
            Method::NearestPairs => call.pairs.iter().sum(),
            Method::Sampler => call.sampled?.iter().sum(),
        })
    }
}

/// What is taken off a section.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Subtracted {
    /// What a reading cost.
    pub costs: Costs,
    /// By which of them.
    pub method: Method,
    /// How many times.
    pub readings: Readings,
}

impl UnderPairs {
    /// The zero-time test chooses the method, and that is subtracted; `test` and `calls` are in order of time.
    pub(crate) fn of(
        plan: &ExamplePlan,
        pairs: u32,
        (test, calls): (&[Trial], &[Measured]),
        readings: Readings,
        ns: f64,
    ) -> Result<Self, Error> {
        let costs: Vec<i64> =
            test[..test.len() / 2].iter().flat_map(|trial| [trial.t_1, trial.t_m, trial.t_4]).collect();
        let spent: Vec<i64> = test.iter().map(|trial| trial.t_1 + trial.t_m + trial.t_4).collect();
        let touched = touched(&spent, (1_000.0 / ns) as i64);
        let test: Vec<Trial> = test.iter().zip(touched).map(|(trial, touched)| Trial { touched, ..*trial }).collect();
        let verdict = judge(Halves::of(&test), &costs, Length::Zero)?;
        let zero = SectionTest::new(0, test.len(), verdict.in_nanoseconds(ns), None);
        let costs = Costs::of(&calls.iter().flat_map(|call| call.pairs).collect::<Vec<i64>>())?;
        let subtracted = Subtracted { costs, method: zero.chosen, readings };
        let Cells { cells, latency_slope, rpc_slope } = cells(plan, calls, subtracted, ns)?;
        Ok(Self { pairs, zero, cells, latency_slope, rpc_slope, late: None, latency_slope_clock: None })
    }
}

/// The figures of calls under one number of pairs, by number of words; calls come repetition by repetition, each of those one
/// call with each number of words in any order. One unit of the clock is `ns`
/// nanoseconds. Repetitions with a call that the method knows no cost for are left out.
pub fn cells(plan: &ExamplePlan, calls: &[Measured], subtracted: Subtracted, ns: f64) -> Result<Cells, Error> {
    let Subtracted { costs, method, readings } = subtracted;
    let net = |call: &Measured| {
        let twice = costs.twice(method, call)?;
        Some([2 * call.latency - readings.message * twice, 2 * call.rpc - readings.call * twice])
    };
    let ascending = |calls: &[Measured]| {
        let mut calls = calls.to_vec();
        calls.sort_by_key(|call| call.words);
        calls.iter().map(net).collect()
    };
    let repetitions: Vec<Vec<[i64; 2]>> = calls.chunks_exact(plan.words.len()).filter_map(ascending).collect();
    let of = |which: usize, at: usize| {
        let net: Vec<i64> = repetitions.iter().map(|calls| calls[at][which]).collect();
        Sample::new(&net).map(|halves| Figure::of(&halves, ns))
    };
    let cell =
        |(at, &words): (usize, &u16)| Ok(CallCell { words, latency: of(0, at)?, rpc: of(1, at)?, guaranteed: None });
    let slope = |which: usize| {
        let net = repetitions.iter().map(|calls| calls.iter().map(|both| both[which]));
        Slope::of(&plan.words, net, ns)
    };
    Ok(Cells {
        cells: plan.words.iter().enumerate().map(cell).collect::<Result<_, Error>>()?,
        latency_slope: slope(0)?,
        rpc_slope: slope(1)?,
    })
}

/// What [`cells`] finds.
#[derive(Clone, PartialEq, Debug)]
pub struct Cells {
    /// By number of words.
    pub cells: Vec<CallCell>,
    /// Of the message's latency.
    pub latency_slope: Slope,
    /// Of the call's execution time.
    pub rpc_slope: Slope,
}

impl Figure {
    /// Of net durations in halves of a unit.
    fn of(halves: &Sample, ns: f64) -> Self {
        let half_ns = |halves: i64| halves as f64 / 2.0 * ns;
        let moments = halves.moments();
        let interval = halves.interval(Quantile::MEDIAN, Confidence::P95);
        Self {
            mean_ns: moments.mean / 2.0 * ns,
            deviation_ns: moments.variance.sqrt() / 2.0 * ns,
            median_ns: half_ns(halves.quantile(Quantile::MEDIAN)),
            median_interval_ns: interval.lo.zip(interval.hi).map(|(lo, hi)| [half_ns(lo), half_ns(hi)]),
            p95_ns: half_ns(halves.quantile(Quantile::P95)),
            negative: halves.values().partition_point(|&value| value < 0),
        }
    }
}

impl Slope {
    /// Of repetitions, each a net duration in halves of a unit for every number of words.
    fn of<R: Iterator<Item = i64>>(words: &[u16], net: impl Iterator<Item = R>, ns: f64) -> Result<Self, Error> {
        let (weights, divisor) = weights(words);
        let weighed = |calls: R| weights.iter().zip(calls).map(|(weight, net)| weight * net).sum::<i64>();
        let slopes = Sample::new(&net.map(weighed).collect::<Vec<i64>>())?;
        let a_word = |weighed: f64| if divisor > 0 { weighed / divisor as f64 / 2.0 * ns } else { 0.0 };
        let interval = slopes.interval(Quantile::MEDIAN, Confidence::P95);
        Ok(Self {
            median_ns: a_word(slopes.quantile(Quantile::MEDIAN) as f64),
            interval_ns: interval.lo.zip(interval.hi).map(|(lo, hi)| [a_word(lo as f64), a_word(hi as f64)]),
            of_means_ns: a_word(slopes.moments().mean),
        })
    }
}

/// What each ordinate is multiplied by in the slope of least squares, `n x - sum x`, and what the sum is divided by,
/// `n sum x^2 - (sum x)^2`: whole numbers. All 0 for one abscissa.
fn weights(words: &[u16]) -> (Vec<i64>, i64) {
    let count = words.len() as i64;
    let sum: i64 = words.iter().map(|&words| i64::from(words)).sum();
    let squares: i64 = words.iter().map(|&words| i64::from(words) * i64::from(words)).sum();
    (words.iter().map(|&words| count * i64::from(words) - sum).collect(), count * squares - sum * sum)
}

/// What the paper says, for the eye; nothing here is computed with it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Published {
    /// Section 4.4 and 4.5: k of the zero-time test by method, system and routine.
    pub k: Vec<PublishedK>,
    /// Section 5.2: k of Method II in the example's own zero-time test, interrupts and all.
    pub k_example: [f64; 2],
    /// The same with interrupts left out by simulation.
    pub k_example_without_interrupts: [f64; 2],
    /// Mean error of that test, microseconds, at most.
    pub mean_error_us: f64,
    /// Latency by number of pairs, microseconds (figure 16).
    pub latency_us: [f64; 3],
    /// Microseconds a word of a call with one pair (figure 17).
    pub rpc_slope_us: f64,
}

/// One of the paper's eight.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PublishedK {
    /// How it was compensated.
    pub method: Method,
    /// The operating system.
    pub system: &'static str,
    /// The routine that read the clock.
    pub routine: &'static str,
    /// Variance before over variance after.
    pub k: f64,
}

impl Published {
    /// As printed.
    pub fn as_printed() -> Self {
        let rows = [
            (Method::NearestPairs, "StarOS", "4-Read", 0.8),
            (Method::NearestPairs, "StarOS", "1-Read", 0.81),
            (Method::NearestPairs, "Medusa", "4-Read", 3.57),
            (Method::NearestPairs, "Medusa", "1-Read", 0.68),
            (Method::Sampler, "StarOS", "4-Read", 1.14),
            (Method::Sampler, "StarOS", "1-Read", 1.98),
            (Method::Sampler, "Medusa", "4-Read", 1.11),
            (Method::Sampler, "Medusa", "1-Read", 0.81),
        ];
        Self {
            k: rows.map(|(method, system, routine, k)| PublishedK { method, system, routine, k }).to_vec(),
            k_example: [0.74, 0.78],
            k_example_without_interrupts: [1.01, 1.22],
            mean_error_us: 4.9,
            latency_us: [7_050.0, 7_960.0, 9_615.0],
            rpc_slope_us: 49.9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan() -> ExamplePlan {
        ExamplePlan { repetitions: 40, ..ExamplePlan::paper() }
    }

    /// Calls of known net durations, `cost(number)` what each of their readings costs.
    fn made(net: impl Fn(u16, u32) -> (i64, i64), cost: impl Fn(u32) -> i64) -> Vec<Measured> {
        let plan = plan();
        let call = |number: u32, words: u16| {
            let ((latency, rpc), cost) = (net(words, number), cost(number));
            let (latency, rpc) = (latency + cost, rpc + 2 * cost);
            Measured { words, latency, rpc, pairs: [cost; 2], sampled: Some([cost; 2]) }
        };
        let mut words = plan.words.clone();
        let mut calls = Vec::new();
        for number in 0..plan.repetitions {
            words.rotate_left(1);
            calls.extend(words.iter().map(|&words| call(number, words)));
        }
        calls
    }

    fn found(calls: &[Measured], method: Method) -> Cells {
        let costs = Costs::of(&calls.iter().flat_map(|call| call.pairs).collect::<Vec<i64>>()).unwrap();
        cells(&plan(), calls, Subtracted { costs, method, readings: Readings::SERVER_ONCE }, 1.0).unwrap()
    }

    #[test]
    fn a_message_holds_one_reading_and_a_call_two() {
        let calls = made(|words, _| (5_000, 9_000 + 3 * i64::from(words)), |_| 700);
        for method in [Method::Constant, Method::LongTerm, Method::NearestPairs, Method::Sampler] {
            let found = found(&calls, method);
            for cell in &found.cells {
                let rpc = f64::from(9_000 + 3 * u32::from(cell.words));
                assert_eq!((cell.latency.median_ns, cell.rpc.median_ns, cell.rpc.deviation_ns), (5_000.0, rpc, 0.0));
            }
            assert!((found.rpc_slope.median_ns - 3.0).abs() < 1e-9 && found.latency_slope.median_ns.abs() < 1e-9);
        }
    }

    #[test]
    fn the_nearest_pairs_follow_a_cost_that_changes_and_a_constant_does_not() {
        let calls = made(|_, _| (5_000, 9_000), |number| 700 + 10 * i64::from(number));
        let deviation = |method| {
            let found = found(&calls, method);
            found.cells[0].rpc.deviation_ns
        };
        assert_eq!((deviation(Method::NearestPairs), deviation(Method::Sampler)), (0.0, 0.0));
        assert!(deviation(Method::Constant) > 100.0);
    }

    #[test]
    fn a_duration_that_compensation_made_negative_is_counted_and_not_mended() {
        let calls = made(|_, number| if number == 0 { (-4, 9_000) } else { (5_000, 9_000) }, |_| 700);
        let found = found(&calls, Method::Constant);
        assert!(found.cells.iter().all(|cell| cell.latency.negative == 1 && cell.rpc.negative == 0));
    }

    #[test]
    fn the_slopes_interval_is_that_of_the_repetitions_own_slopes() {
        // Of repetition n every word costs n: ranks 14 and 27 of 40 hold the median with 95 %.
        let calls = made(|words, number| (5_000, 9_000 + i64::from(words) * i64::from(number)), |_| 700);
        let found = found(&calls, Method::Constant).rpc_slope;
        assert_eq!((found.median_ns, found.interval_ns, found.of_means_ns), (19.0, Some([13.0, 26.0]), 19.5));
    }

    #[test]
    fn a_line_through_one_number_of_words_has_no_slope() {
        assert_eq!(weights(&[50]), (vec![0], 0));
    }

    proptest! {
        #[test]
        fn property_what_hits_whole_repetitions_or_a_third_of_them_anywhere_leaves_the_slope_as_it_is(
            slope in -50_i64..50,
            off in prop::collection::vec(0_i64..1_000_000, 40),
            // A repetition's call that was interrupted, for fewer than half of the repetitions.
            hit in prop::collection::vec((0_usize..5, 0_i64..50_000_000), 13),
        ) {
            let duration = |words: u16, number: u32| {
                let hit = hit.get(number as usize).filter(|&&(at, _)| at == usize::from(words) / 50);
                9_000 + slope * i64::from(words) + off[number as usize] + hit.map_or(0, |&(_, long)| long)
            };
            let calls = made(|words, number| (9_000, duration(words, number)), |_| 700);
            let found = found(&calls, Method::Constant);
            prop_assert!((found.rpc_slope.median_ns - slope as f64).abs() < 1e-6);
            let [lo, hi] = found.rpc_slope.interval_ns.unwrap();
            prop_assert!(lo <= slope as f64 + 1e-6 && slope as f64 <= hi + 1e-6);
        }
    }
}

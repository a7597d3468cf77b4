//! The figures of the calls under one number of pairs: net durations, their spread, and what a word costs.
//!
//! Differences of stamps come in, net durations and their figures go out. The message's section holds one stamp, that
//! of the call [`READINGS_IN_CALL`]. Each is subtracted by the method that the zero-time test, taken right before every
//! call, chose on the earlier half of the calls and was judged by on the later half.
//!
//! **Slope.** Every repetition calls once with each number of words, in an order of its own, so it has a slope of its
//! own, by least squares; what is given is the median of those, with its interval of 95 % from order statistics.
//! Interruptions hit any of a repetition's calls alike, so for equally spaced words they make a slope as often too
//! great as too small: the median is that of the words. It assumes that repetitions are independent, which those of one
//! run are not quite; run it again to see how far it moves. Deliberately absent: a bound. Compensation is an estimate;
//! what a run's clocks guarantee stands next to it ([`Guaranteed`]), with nothing subtracted.

use serde::Serialize;
use tickscope_clock::benchmark::SectionTest;
use tickscope_clock::compensation::{Halves, Length, Method, Trial, judge, touched};
use tickscope_stats::{Confidence, Error, Quantile, Sample};

use crate::recording::{Guaranteed, Reach, RunFacts};

/// Settings of the example.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExamplePlan {
    /// Numbers of pairs of client and server to measure with.
    pub pairs: Vec<u32>,
    /// Words of 16 bits that client and server read together, ascending.
    pub words: Vec<u16>,
    /// Timed calls of each.
    pub repetitions: u32,
    /// From one timed call to the next, on average, microseconds.
    pub interval_us: u32,
}

/// Results of the example, as `--json` prints them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Example {
    /// Version of these fields; within it, fields are only added.
    pub version: u32,
    /// The settings that it was made with.
    pub plan: ExamplePlan,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Whether the program that measured was compiled with optimisation.
    pub optimised: bool,
    /// The processors of the clients and of the servers.
    pub cpus: [usize; 2],
    /// By number of pairs.
    pub loads: Vec<UnderPairs>,
    /// The paper's figures.
    pub published: Published,
    /// The run that it was taken from.
    pub run: RunFacts,
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
    /// By how much the clocks of the nodes may have moved a latency's slope, nanoseconds a word, guaranteed.
    #[serde(rename = "latency_slope_clock_ns")]
    pub latency_slope_clock: Reach,
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
    /// Guaranteed figures, whatever the clocks did.
    pub guaranteed: Guaranteed,
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
    /// 95 % confidence interval of the median; `None`: too few repetitions.
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
    /// 95 % confidence interval of the slope; `None`: too few repetitions.
    pub interval_ns: Option<[f64; 2]>,
    /// Of the line through the means, as published; one long interruption tilts it.
    pub of_means_ns: f64,
}

/// Stamps that a message's section holds next to its work.
pub const READINGS_IN_MESSAGE: i64 = 1;
/// Stamps that a call holds: `received`, `reply`, `response` and its own last one, `results`.
pub const READINGS_IN_CALL: i64 = 4;

/// A call as measured, in the clock's units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Number of words accessed.
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

/// Cost of reading the clock, by every method: the two constants are of all pairs given.
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

/// Correction of a section.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Subtracted {
    /// Costs of a reading.
    pub costs: Costs,
    /// By which of them.
    pub method: Method,
}

/// The zero-time test of `test`, in order of time: which method it chose; one unit of the clock is `ns` nanoseconds.
pub(crate) fn zero_time(test: &[Trial], ns: f64) -> Result<SectionTest, Error> {
    let costs: Vec<i64> = test[..test.len() / 2].iter().flat_map(|trial| [trial.t_1, trial.t_m, trial.t_4]).collect();
    let spent: Vec<i64> = test.iter().map(|trial| trial.t_1 + trial.t_m + trial.t_4).collect();
    let touched = touched(&spent, (1_000.0 / ns) as i64);
    let test: Vec<Trial> = test.iter().zip(touched).map(|(trial, touched)| Trial { touched, ..*trial }).collect();
    let verdict = judge(Halves::of(&test), &costs, Length::Zero)?;
    Ok(SectionTest::new(0, test.len(), verdict.in_nanoseconds(ns), None))
}

/// The figures of calls under one number of pairs, by number of words; calls come repetition by repetition, each of
/// those one call with each number of words in any order. One unit of the clock is `ns` nanoseconds. Repetitions with a
/// call that the method knows no cost for are left out.
pub fn cells(words: &[u16], calls: &[Measured], subtracted: Subtracted, ns: f64) -> Result<Cells, Error> {
    let Subtracted { costs, method } = subtracted;
    let net = |call: &Measured| {
        let twice = costs.twice(method, call)?;
        Some([2 * call.latency - READINGS_IN_MESSAGE * twice, 2 * call.rpc - READINGS_IN_CALL * twice])
    };
    let ascending = |calls: &[Measured]| {
        let mut calls = calls.to_vec();
        calls.sort_by_key(|call| call.words);
        calls.iter().map(net).collect()
    };
    let repetitions: Vec<Vec<[i64; 2]>> = calls.chunks_exact(words.len()).filter_map(ascending).collect();
    let of = |which: usize, at: usize| {
        let net: Vec<i64> = repetitions.iter().map(|calls| calls[at][which]).collect();
        Sample::new(&net).map(|halves| Figure::of(&halves, ns))
    };
    let slope = |which: usize| {
        let net = repetitions.iter().map(|calls| calls.iter().map(|both| both[which]));
        Slope::of(words, net, ns)
    };
    Ok(Cells {
        durations: (0..words.len()).map(|at| Ok([of(0, at)?, of(1, at)?])).collect::<Result<_, Error>>()?,
        latency_slope: slope(0)?,
        rpc_slope: slope(1)?,
    })
}

/// Result of [`cells`].
#[derive(Clone, PartialEq, Debug)]
pub struct Cells {
    /// Of message and call, by number of words.
    pub durations: Vec<[Figure; 2]>,
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

/// Weights of the ordinates in the slope of least squares, `n x - sum x`, and the divisor of their sum,
/// `n sum x^2 - (sum x)^2`: whole numbers. All 0 for one abscissa.
pub(crate) fn weights(words: &[u16]) -> (Vec<i64>, i64) {
    let count = words.len() as i64;
    let sum: i64 = words.iter().map(|&words| i64::from(words)).sum();
    let squares: i64 = words.iter().map(|&words| i64::from(words) * i64::from(words)).sum();
    (words.iter().map(|&words| count * i64::from(words) - sum).collect(), count * squares - sum * sum)
}

/// The paper's figures, for the eye; nothing here is computed with it.
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
    /// Method of compensation.
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

    const WORDS: [u16; 5] = [0, 50, 100, 150, 200];
    const REPETITIONS: u32 = 40;

    /// Calls of known net durations, `cost(number)` what each of their readings costs.
    fn made(net: impl Fn(u16, u32) -> (i64, i64), cost: impl Fn(u32) -> i64) -> Vec<Measured> {
        let call = |number: u32, words: u16| {
            let ((latency, rpc), cost) = (net(words, number), cost(number));
            let (latency, rpc) = (latency + cost, rpc + 4 * cost);
            Measured { words, latency, rpc, pairs: [cost; 2], sampled: Some([cost; 2]) }
        };
        let mut words = WORDS;
        let mut calls = Vec::new();
        for number in 0..REPETITIONS {
            words.rotate_left(1);
            calls.extend(words.iter().map(|&words| call(number, words)));
        }
        calls
    }

    fn found(calls: &[Measured], method: Method) -> Cells {
        let costs = Costs::of(&calls.iter().flat_map(|call| call.pairs).collect::<Vec<i64>>()).unwrap();
        cells(&WORDS, calls, Subtracted { costs, method }, 1.0).unwrap()
    }

    #[test]
    fn a_message_holds_one_reading_and_a_call_four() {
        let calls = made(|words, _| (5_000, 9_000 + 3 * i64::from(words)), |_| 700);
        for method in [Method::Constant, Method::LongTerm, Method::NearestPairs, Method::Sampler] {
            let found = found(&calls, method);
            for ([latency, rpc], words) in found.durations.iter().zip(WORDS) {
                let expected = f64::from(9_000 + 3 * u32::from(words));
                assert_eq!((latency.median_ns, rpc.median_ns, rpc.deviation_ns), (5_000.0, expected, 0.0));
            }
            assert!((found.rpc_slope.median_ns - 3.0).abs() < 1e-9 && found.latency_slope.median_ns.abs() < 1e-9);
        }
    }

    #[test]
    fn the_nearest_pairs_follow_a_cost_that_changes_and_a_constant_does_not() {
        let calls = made(|_, _| (5_000, 9_000), |number| 700 + 10 * i64::from(number));
        let deviation = |method| {
            let found = found(&calls, method);
            found.durations[0][1].deviation_ns
        };
        assert_eq!((deviation(Method::NearestPairs), deviation(Method::Sampler)), (0.0, 0.0));
        assert!(deviation(Method::Constant) > 100.0);
    }

    #[test]
    fn a_duration_that_compensation_made_negative_is_counted_and_not_mended() {
        let calls = made(|_, number| if number == 0 { (-4, 9_000) } else { (5_000, 9_000) }, |_| 700);
        let found = found(&calls, Method::Constant);
        assert!(found.durations.iter().all(|[latency, rpc]| latency.negative == 1 && rpc.negative == 0));
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

//! The example of the Cm* study (5): latency of a message and execution time of a remote procedure call, against the words
//! that client and server access and against how many pairs of them there are.
//!
//! Differences of readings come in, net durations and their figures go out. The message's section holds one reading of
//! the clock, that of the call two: the server reads it between. Each is subtracted by the method that the zero-time test,
//! taken right before every call, chose on the earlier half of the calls and was judged by on the later half.
//!
//! **Slope.** The line through the medians, by least squares: a sum of the medians with known weights. Its interval is that
//! sum over the medians' own intervals, which hold all at once with 95 % (Bonferroni): no assumption about the
//! distribution, which has a long tail. It assumes independent calls, which those of one run are not quite; run it again to
//! see how far it moves. Deliberately absent: a bound. Compensation is an estimate.

use serde::Serialize;
use tickscope_stats::{Confidence, Error, Quantile, Sample};

use crate::compensation::Method;
use crate::study::SectionTest;

/// What is asked of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExamplePlan {
    /// Pairs of client and server, one study for each number.
    pub pairs: Vec<u32>,
    /// Words of 16 bits that client and server read together, ascending.
    pub words: Vec<u16>,
    /// Timed calls of each.
    pub repetitions: u32,
    /// From one timed call to the next, microseconds.
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
    /// Calls that began later than an interval after they were due.
    pub late: u32,
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
    /// Of the line through the medians.
    pub of_medians_ns: f64,
    /// What that lies between with 95 %; `None`: too few repetitions.
    pub interval_ns: Option<[f64; 2]>,
    /// Of the line through the means, as published; one long interruption tilts it.
    pub of_means_ns: f64,
}

/// A call as measured, in the clock's units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// How many words it accessed.
    pub words: u16,
    /// Its message, one reading too long.
    pub latency: i64,
    /// The whole call, two readings too long.
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

/// The figures of calls under one number of pairs, by number of words, one unit of the clock being `ns` nanoseconds.
/// Calls that the method knows no cost for are left out.
pub fn cells(plan: &ExamplePlan, calls: &[Measured], costs: Costs, method: Method, ns: f64) -> Result<Cells, Error> {
    let mut cells = Vec::new();
    let (mut latencies, mut rpcs) = (Vec::new(), Vec::new());
    for &words in &plan.words {
        let net = calls.iter().filter(|call| call.words == words).filter_map(|call| {
            let twice = costs.twice(method, call)?;
            Some((2 * call.latency - twice, 2 * call.rpc - 2 * twice))
        });
        let (latency, rpc): (Vec<i64>, Vec<i64>) = net.unzip();
        let (latency, rpc) = (Sample::new(&latency)?, Sample::new(&rpc)?);
        cells.push(CallCell { words, latency: Figure::of(&latency, ns), rpc: Figure::of(&rpc, ns) });
        latencies.push(latency);
        rpcs.push(rpc);
    }
    let slope = |samples: &[Sample]| Slope::of(&plan.words, samples, ns);
    Ok(Cells { latency_slope: slope(&latencies), rpc_slope: slope(&rpcs), cells })
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
    fn of(words: &[u16], halves: &[Sample], ns: f64) -> Self {
        let weights = weights(words);
        let slope = |value: &dyn Fn(&Sample) -> f64| {
            let terms = weights.iter().zip(halves).map(|(weight, sample)| weight * value(sample));
            terms.sum::<f64>() / 2.0 * ns
        };
        Self {
            of_medians_ns: slope(&|sample| sample.quantile(Quantile::MEDIAN) as f64),
            interval_ns: Self::interval(&weights, halves).map(|ends| ends.map(|end| end / 2.0 * ns)),
            of_means_ns: slope(&|sample| sample.moments().mean),
        }
    }

    /// From the medians' intervals, each wrong with a share of what 95 % leaves.
    fn interval(weights: &[f64], halves: &[Sample]) -> Option<[f64; 2]> {
        const LEFT: u32 = 50_000;
        let confidence = Confidence::per_million(1_000_000 - LEFT / weights.len() as u32).ok()?;
        let mut ends = [0.0; 2];
        for (&weight, sample) in weights.iter().zip(halves) {
            let interval = sample.interval(Quantile::MEDIAN, confidence);
            let (lo, hi) = (interval.lo? as f64 * weight, interval.hi? as f64 * weight);
            ends = [ends[0] + lo.min(hi), ends[1] + lo.max(hi)];
        }
        Some(ends)
    }
}

/// What each ordinate is multiplied by in the slope of least squares: `(x - mean) / sum (x - mean)^2`. All 0 for one abscissa.
fn weights(words: &[u16]) -> Vec<f64> {
    let mean = words.iter().map(|&words| f64::from(words)).sum::<f64>() / words.len() as f64;
    let off: Vec<f64> = words.iter().map(|&words| f64::from(words) - mean).collect();
    let squares: f64 = off.iter().map(|off| off * off).sum();
    off.iter().map(|off| if squares > 0.0 { off / squares } else { 0.0 }).collect()
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
        let words = plan.words.clone();
        (0..plan.repetitions)
            .flat_map(|number| words.iter().map(move |&words| (number, words)))
            .map(|(n, w)| call(n, w))
            .collect()
    }

    fn costs(calls: &[Measured]) -> Costs {
        Costs::of(&calls.iter().flat_map(|call| call.pairs).collect::<Vec<i64>>()).unwrap()
    }

    #[test]
    fn a_message_holds_one_reading_and_a_call_two() {
        let calls = made(|words, _| (5_000, 9_000 + 3 * i64::from(words)), |_| 700);
        for method in [Method::Constant, Method::LongTerm, Method::NearestPairs, Method::Sampler] {
            let found = cells(&plan(), &calls, costs(&calls), method, 1.0).unwrap();
            for cell in &found.cells {
                let rpc = f64::from(9_000 + 3 * u32::from(cell.words));
                assert_eq!((cell.latency.median_ns, cell.rpc.median_ns, cell.rpc.deviation_ns), (5_000.0, rpc, 0.0));
            }
            assert!(
                (found.rpc_slope.of_medians_ns - 3.0).abs() < 1e-9 && found.latency_slope.of_medians_ns.abs() < 1e-9
            );
        }
    }

    #[test]
    fn the_nearest_pairs_follow_a_cost_that_changes_and_a_constant_does_not() {
        let calls = made(|_, _| (5_000, 9_000), |number| 700 + 10 * i64::from(number));
        let deviation = |method| {
            let found = cells(&plan(), &calls, costs(&calls), method, 1.0).unwrap();
            found.cells[0].rpc.deviation_ns
        };
        assert_eq!((deviation(Method::NearestPairs), deviation(Method::Sampler)), (0.0, 0.0));
        assert!(deviation(Method::Constant) > 100.0);
    }

    #[test]
    fn a_duration_that_compensation_made_negative_is_counted_and_not_mended() {
        let calls = made(|_, number| if number == 0 { (-4, 9_000) } else { (5_000, 9_000) }, |_| 700);
        let found = cells(&plan(), &calls, costs(&calls), Method::Constant, 1.0).unwrap();
        assert!(found.cells.iter().all(|cell| cell.latency.negative == 1 && cell.rpc.negative == 0));
    }

    #[test]
    fn the_slopes_interval_is_as_wide_as_all_medians_at_the_ends_of_theirs_make_it() {
        let calls = made(|_, number| (5_000, 9_000 + 10 * i64::from(number)), |_| 700);
        let found = cells(&plan(), &calls, costs(&calls), Method::Constant, 1.0).unwrap();
        // Ranks 12 and 29 of 40 hold the median with 99 %, and the weights' absolute values add up to 300 / 25000.
        let [lo, hi] = found.rpc_slope.interval_ns.unwrap();
        assert!((hi - lo - 170.0 * 300.0 / 25_000.0).abs() < 1e-9, "{lo} {hi}");
    }

    #[test]
    fn a_line_through_one_number_of_words_has_no_slope() {
        assert_eq!(weights(&[50]), [0.0]);
    }

    proptest! {
        #[test]
        fn property_the_slopes_interval_holds_the_line_that_the_medians_scatter_around(
            slope in -50_i64..50,
            // The k-th call of each number of words is off by the same: so the medians' line is known.
            off in prop::collection::vec(0_i64..1_000_000, 40),
        ) {
            let calls = made(|words, number| (9_000, 9_000 + slope * i64::from(words) + off[number as usize]), |_| 700);
            let found = cells(&plan(), &calls, costs(&calls), Method::Constant, 1.0).unwrap();
            let [lo, hi] = found.rpc_slope.interval_ns.unwrap();
            prop_assert!((found.rpc_slope.of_medians_ns - slope as f64).abs() < 1e-6);
            prop_assert!(lo <= slope as f64 + 1e-6 && slope as f64 <= hi + 1e-6);
        }
    }
}

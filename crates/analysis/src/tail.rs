//! Which stages make the slow traces slow, in numbers that add up, with an interval that holds statistics and clocks.
//!
//! Idea: the excess of a stage is its mean among the slowest traces less its median among all; the excesses of the
//! path add up to that of the whole, so each stage has a share. X-Lap's rule counts outliers instead: it names small,
//! noisy stages, and says nothing of size. Assumes: 8 bytes a stage and trace fit in memory; traces further apart than
//! a block of them are independent. Guarantees: of the clocks only the relative bound is taken, once for the mean
//! and the median together: what moves all values moves both; no figure is clamped; a share is not told where the
//! clocks leave open whether there is an excess. Deliberately absent: which traces are the slowest is taken as the
//! estimates have it.

use serde::Serialize;
use tickscope_stats::{Blocks, Quantile, stretches, widening};

use crate::path_columns::PathColumns;
use crate::scan::in_turns;

/// Draws of blocks.
const DRAWS: usize = 2000;
/// Of the draws, those that lie below an interval, and as many above it: it holds 95 of 100.
const OUTSIDE: usize = DRAWS / 40;
/// Share of a trace's excess that its causes make up together.
const CAUSED: f64 = 0.8;
/// Longest duration that is summed up, either way.
const MOST_TICKS: u64 = 1 << 60;
/// Fewest independent stretches of time that shares are told of.
const FEWEST_STRETCHES: f64 = 3.0;
/// Fewest slow traces of which shares are told.
pub const FEWEST_SLOW: usize = 10;

/// What makes the slowest traces of a run slow. Ticks of the reference.
#[derive(Clone, Debug, Serialize)]
pub struct Tail {
    /// Traces with every stage of the path and the whole.
    pub traces: usize,
    /// Traces that lack one of them: in none of these figures.
    pub left_out: u64,
    /// The whole of a slow trace is at least that quantile, parts per million.
    pub quantile_ppm: u32,
    /// What that is; `None`: no trace.
    pub threshold_ticks: Option<i64>,
    /// How many traces are slow.
    pub slow: usize,
    /// How much longer they take than the medians of the stages together, on average.
    pub excess_ticks: f64,
    /// How far the clocks leave that open, either way.
    pub bound_ticks: u64,
    /// Blocks of traces that were drawn from, for what chance leaves open.
    pub blocks: usize,
    /// Traces of a block.
    pub block_traces: usize,
    /// Stretches of time that the slow traces come from, if all were equally many.
    pub stretches: f64,
    /// Why no share is told; `None`: shares are told.
    pub unresolved: Option<Unresolved>,
    /// Of the draws, those in which the first stage has the largest share, however the clocks were.
    pub sure: f64,
    /// The stages of the path, that of the largest excess first.
    pub stages: Vec<StageTail>,
}

/// Why no share of a tail is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unresolved {
    /// No trace has every stage of the path and the whole.
    NoTrace,
    /// Fewer than [`FEWEST_SLOW`] traces are slow.
    FewSlow,
    /// The clocks leave open whether there is an excess.
    Clocks,
    /// Some durations are so long, or so far below 0, that nothing can be summed up: [`MOST_TICKS`].
    OutOfRange,
    /// The excess varies so much from block to block that there may be none.
    Chance,
}

/// One stage of the path.
#[derive(Clone, Debug, Serialize)]
pub struct StageTail {
    /// Its name.
    pub name: String,
    /// Its median among all traces.
    pub median_ticks: i64,
    /// Its mean among the slow ones.
    pub mean_ticks: f64,
    /// The latter less the former.
    pub excess_ticks: f64,
    /// How far the clocks leave that open, either way.
    pub bound_ticks: u64,
    /// Its share of the excess of all.
    pub share: Option<TailShare>,
    /// Its share of the variance of the whole, among traces up to the 95th percentile; `None`: the whole is always
    /// the same.
    pub covariance_share: Option<f64>,
    /// The whole's quantile, were this stage never longer than its median.
    pub what_if: WhatIf,
    /// Slow traces of whose excess it is one of the causes: of the fewest stages that make up four fifths of it.
    pub among_causes: usize,
    /// Slow traces in which its excess is the largest, however the clocks were.
    pub leads: usize,
}

/// A share, 1 the whole. It may be negative: the stage is shorter where the whole is long.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TailShare {
    /// Of the estimates.
    pub estimate: f64,
    /// What the clocks alone leave open.
    pub clocks: [f64; 2],
    /// What clocks and chance leave open: 95 of 100 draws, each with its outer ends.
    pub interval: [f64; 2],
}

/// A quantile of the whole, and what it would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct WhatIf {
    /// As it is.
    pub from_ticks: i64,
    /// As it would be.
    pub to_ticks: i64,
    /// How far the clocks leave the difference open, either way.
    pub bound_ticks: u64,
}

/// What resampling needs of one stage.
struct Resampled {
    stage: StageTail,
    /// Mean of the stage among traces about as slow as the threshold.
    at_threshold: f64,
    /// By block: what its slow traces add to the mean beyond that.
    mean: Vec<f64>,
    /// By block: how far its traces move the median up.
    median: Vec<f64>,
}

/// What all stages are asked for.
struct Asked<'a> {
    whole: &'a [i64],
    quantile: Quantile,
    threshold: i64,
    /// Rows of the slow traces.
    slow: Vec<usize>,
    /// Rows about as slow as the threshold.
    near: Vec<usize>,
    /// The 95th percentile of the whole.
    body: i64,
    blocks: Blocks,
    bound_of_whole: u64,
}

impl<'a> Asked<'a> {
    /// `None`: there is no trace.
    fn of(whole: &'a [i64], quantile: Quantile, bound_of_whole: u64) -> Option<Self> {
        let mut sorted = whole.to_vec();
        let mut at = |quantile: Quantile| quantile.of(&mut sorted);
        let (threshold, body) = (at(quantile)?, at(Quantile::P95)?);
        let around = (1_000_000 - quantile.share()) / 4;
        let at = |share: u32| Quantile::per_million(share.min(1_000_000)).ok().and_then(&mut at);
        let near = [quantile.share() - around.min(quantile.share()), quantile.share() + around].map(at);
        let [least, most] = [near[0].unwrap_or(threshold), near[1].unwrap_or(threshold)];
        let rows = |is: &dyn Fn(i64) -> bool| (0..whole.len()).filter(|&row| is(whole[row])).collect();
        let slow = rows(&|value| value >= threshold);
        let near = rows(&|value| (least..=most).contains(&value));
        let blocks = Blocks::apart(whole.len(), |row| i64::from(whole[row] >= threshold));
        Some(Self { whole, quantile, threshold, slow, near, body, blocks, bound_of_whole })
    }

    fn stretches(&self) -> f64 {
        let mut slow = vec![0.0; self.blocks.count];
        self.slow.iter().for_each(|&row| slow[self.blocks.block(row)] += 1.0);
        stretches(&slow)
    }

    fn resampled(&self, name: String, column: &[i64], bound_ticks: u64) -> Resampled {
        let (count, slow) = (column.len() as f64, self.slow.len() as f64);
        let mean_of = |rows: &[usize]| rows.iter().map(|&row| column[row] as f64).sum::<f64>() / rows.len() as f64;
        let (mean_ticks, at_threshold) = (mean_of(&self.slow), mean_of(&self.near));
        let mut sorted = column.to_vec();
        let mut at =
            |share: u32| Quantile::per_million(share).ok().and_then(|share| share.of(&mut sorted)).unwrap_or(0);
        let median_ticks = at(500_000);
        let ticks_a_value = (at(525_000) - at(475_000)) as f64 / (0.05 * count);
        let mut mean = vec![0.0; self.blocks.count];
        for &row in &self.slow {
            mean[self.blocks.block(row)] += (column[row] as f64 - at_threshold) / slow;
        }
        let rank = |value: i64| match value.cmp(&median_ticks) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 1.0,
        };
        let usual = column.iter().map(|&value| rank(value)).sum::<f64>() / count;
        let of_block = |values: &[i64]| values.iter().map(|&value| rank(value) - usual).sum::<f64>() * ticks_a_value;
        let excess_ticks = mean_ticks - median_ticks as f64;
        let what_if = WhatIf {
            from_ticks: self.threshold,
            to_ticks: self.without(column, median_ticks),
            bound_ticks: self.bound_of_whole.saturating_add(bound_ticks),
        };
        let covariance_share = self.covariance_share(column);
        let stage = StageTail {
            name,
            median_ticks,
            mean_ticks,
            excess_ticks,
            bound_ticks,
            share: None,
            covariance_share,
            what_if,
            among_causes: 0,
            leads: 0,
        };
        let median = column.chunks(self.blocks.length).map(of_block).collect();
        Resampled { stage, at_threshold, mean, median }
    }

    /// The quantile of the whole, were a stage never longer than its median.
    fn without(&self, column: &[i64], median: i64) -> i64 {
        let mut whole: Vec<i64> =
            self.whole.iter().zip(column).map(|(whole, &value)| whole - (value - median).max(0)).collect();
        self.quantile.of(&mut whole).unwrap_or(self.threshold)
    }

    fn covariance_share(&self, column: &[i64]) -> Option<f64> {
        let pairs = || {
            let body = self.whole.iter().zip(column).filter(|(whole, _)| **whole <= self.body);
            body.map(|(&whole, &value)| [value as f64, whole as f64])
        };
        let (count, sum) =
            pairs().fold((0.0, [0.0; 2]), |(count, [x, y]), pair| (count + 1.0, [x + pair[0], y + pair[1]]));
        let [x, y] = sum.map(|sum| sum / count);
        let (products, squares) = pairs().fold((0.0, 0.0), |(products, squares), pair| {
            (products + (pair[0] - x) * (pair[1] - y), squares + (pair[1] - y).powi(2))
        });
        (squares > 0.0).then(|| products / squares)
    }
}

impl Resampled {
    /// The excess of one draw of blocks.
    fn drawn(&self, drawn: &[f64]) -> f64 {
        let sum = |of: &[f64]| of.iter().zip(drawn).map(|(value, times)| value * times).sum::<f64>();
        self.at_threshold + sum(&self.mean) - self.stage.median_ticks as f64 - sum(&self.median)
    }
}

/// Between what a share lies: its excess within `bound`, that of the other stages within theirs. Each end at a corner,
/// since it grows or falls with each of the two. `None`: all of the excess may be none.
fn share_ends(excess: f64, bound: f64, others: f64, bound_of_others: f64) -> Option<[f64; 2]> {
    (excess + others > bound + bound_of_others).then(|| {
        let corners = [-1.0, 1.0].map(|x| [-1.0, 1.0].map(|y| [excess + x * bound, others + y * bound_of_others]));
        let shares = corners.as_flattened().iter().map(|[own, others]| own / (own + others));
        shares.fold([f64::INFINITY, f64::NEG_INFINITY], |[lo, hi], share| [lo.min(share), hi.max(share)])
    })
}

impl Tail {
    /// Of all whole traces; `bounds`: how far durations of a stage may be wrong against each other, the whole last.
    pub(crate) fn of(columns: &PathColumns, names: &[String], bounds: &[u64], quantile: Quantile) -> Self {
        let parts = columns.values().len().saturating_sub(1);
        let blocks = Blocks::of(columns.whole().len());
        let mut tail = Self {
            traces: columns.whole().len(),
            left_out: columns.left_out(),
            quantile_ppm: quantile.share(),
            threshold_ticks: None,
            slow: 0,
            excess_ticks: 0.0,
            bound_ticks: bounds[..parts].iter().fold(0, |sum: u64, &bound| sum.saturating_add(bound)),
            blocks: blocks.count,
            block_traces: blocks.length,
            stretches: 0.0,
            unresolved: Some(Unresolved::NoTrace),
            sure: 0.0,
            stages: Vec::new(),
        };
        let is_out_of_range = |column: &Vec<i64>| column.iter().any(|ticks| ticks.unsigned_abs() > MOST_TICKS);
        if columns.values().iter().any(is_out_of_range) {
            tail.unresolved = Some(Unresolved::OutOfRange);
            return tail;
        }
        let Some(asked) = Asked::of(columns.whole(), quantile, bounds.last().copied().unwrap_or(0)) else {
            return tail;
        };
        (tail.threshold_ticks, tail.slow) = (Some(asked.threshold), asked.slow.len());
        (tail.blocks, tail.block_traces) = (asked.blocks.count, asked.blocks.length);
        tail.stretches = asked.stretches();
        let stages = in_turns((0..parts).collect(), |at: usize| {
            asked.resampled(names[at].clone(), &columns.values()[at], bounds[at])
        });
        let causes = Causes::of(columns, &asked.slow, &stages);
        tail.excess_ticks = stages.iter().map(|resampled| resampled.stage.excess_ticks).sum();
        let mut order: Vec<usize> = (0..parts).collect();
        order.sort_by(|&a, &b| stages[b].stage.excess_ticks.total_cmp(&stages[a].stage.excess_ticks));
        let stages: Vec<Resampled> = {
            let mut stages: Vec<Option<Resampled>> = stages.into_iter().zip(causes.0).map(with_causes).collect();
            order.iter().filter_map(|&at| stages[at].take()).collect()
        };
        tail.told(stages);
        tail
    }

    /// Gives the stages their shares, or says why none is told.
    fn told(&mut self, mut stages: Vec<Resampled>) {
        self.unresolved = self.why_unresolved();
        if self.unresolved.is_none() {
            let (drawn, sure) = self.drawn(&stages);
            self.sure = sure;
            let all = (self.excess_ticks, self.bound_ticks as f64);
            let intervals: Option<Vec<[f64; 2]>> = drawn.into_iter().map(interval).collect();
            let intervals = intervals.filter(|_| self.stretches >= FEWEST_STRETCHES);
            for (at, resampled) in stages.iter_mut().enumerate() {
                let StageTail { excess_ticks: own, bound_ticks, share, .. } = &mut resampled.stage;
                let bound = *bound_ticks as f64;
                let clocks = share_ends(*own, bound, all.0 - *own, all.1 - bound);
                *share = intervals.as_ref().zip(clocks).map(|(intervals, clocks)| TailShare {
                    estimate: *own / all.0,
                    clocks,
                    interval: wider(clocks, intervals[at], widening(self.stretches)),
                });
            }
            self.unresolved = intervals.is_none().then_some(Unresolved::Chance);
        }
        self.stages = stages.into_iter().map(|resampled| resampled.stage).collect();
    }

    fn why_unresolved(&self) -> Option<Unresolved> {
        match (self.slow < FEWEST_SLOW, self.excess_ticks <= self.bound_ticks as f64) {
            (true, _) => Some(Unresolved::FewSlow),
            (_, true) => Some(Unresolved::Clocks),
            (false, false) => None,
        }
    }

    /// By stage, the ends of its share in every draw; and in which share of the draws the first stage leads.
    fn drawn(&self, stages: &[Resampled]) -> (Vec<Vec<[f64; 2]>>, f64) {
        let bounds: Vec<f64> = stages.iter().map(|resampled| resampled.stage.bound_ticks as f64).collect();
        let all: f64 = bounds.iter().sum();
        let mut ends = vec![Vec::with_capacity(DRAWS); stages.len()];
        let mut leads = 0;
        Blocks { length: self.block_traces, count: self.blocks }.draws(DRAWS, |drawn| {
            let excess: Vec<f64> = stages.iter().map(|stage| stage.drawn(drawn)).collect();
            let sum: f64 = excess.iter().sum();
            for (at, ends) in ends.iter_mut().enumerate() {
                let found = share_ends(excess[at], bounds[at], sum - excess[at], all - bounds[at]);
                ends.push(found.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]));
            }
            let others = (1..excess.len()).map(|at| excess[at] + bounds[at]).fold(0.0, f64::max);
            leads += usize::from(excess[0] - bounds[0] > others);
        });
        (ends, leads as f64 / DRAWS as f64)
    }
}

/// What 95 of 100 draws lie within; `None`: too many of them have no ends.
fn interval(draws: Vec<[f64; 2]>) -> Option<[f64; 2]> {
    let (mut least, mut most): (Vec<f64>, Vec<f64>) = draws.into_iter().map(|[lo, hi]| (lo, hi)).unzip();
    least.sort_unstable_by(f64::total_cmp);
    most.sort_unstable_by(f64::total_cmp);
    let ends = [least[OUTSIDE], most[DRAWS - 1 - OUTSIDE]];
    ends.iter().all(|end| end.is_finite()).then_some(ends)
}

/// An interval of draws, so many times as far from what the clocks leave open.
fn wider(clocks: [f64; 2], drawn: [f64; 2], times: f64) -> [f64; 2] {
    [clocks[0] - times * (clocks[0] - drawn[0]).max(0.0), clocks[1] + times * (drawn[1] - clocks[1]).max(0.0)]
}

/// By stage: in how many slow traces it is among the causes, and in how many it leads.
struct Causes(Vec<[usize; 2]>);

impl Causes {
    fn of(columns: &PathColumns, slow: &[usize], stages: &[Resampled]) -> Self {
        let mut found = vec![[0; 2]; stages.len()];
        let bound = |stage: usize| i128::from(stages[stage].stage.bound_ticks);
        for &row in slow {
            let excess = |stage: usize| columns.values()[stage][row] - stages[stage].stage.median_ticks;
            let mut longer: Vec<(i64, usize)> =
                (0..stages.len()).map(|stage| (excess(stage), stage)).filter(|(excess, _)| *excess > 0).collect();
            longer.sort_unstable_by_key(|&(excess, stage)| (std::cmp::Reverse(excess), stage));
            let all: f64 = longer.iter().map(|(excess, _)| *excess as f64).sum();
            let mut sum = 0.0;
            for &(excess, stage) in &longer {
                if sum >= CAUSED * all {
                    break;
                }
                found[stage][0] += 1;
                sum += excess as f64;
            }
            if let Some(&(most, first)) = longer.first() {
                let most = i128::from(most) - bound(first);
                let others = (0..stages.len()).filter(|&other| other != first);
                let next = others.map(|other| i128::from(excess(other)) + bound(other)).max().unwrap_or(0);
                found[first][1] += usize::from(most > next.max(0));
            }
        }
        Self(found)
    }
}

fn with_causes((mut resampled, [among, leads]): (Resampled, [usize; 2])) -> Option<Resampled> {
    (resampled.stage.among_causes, resampled.stage.leads) = (among, leads);
    Some(resampled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that repeat nothing: SplitMix64, uniform in (0, 1).
    struct Uniform(u64);

    impl Uniform {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + 1e-17
        }

        fn exponential(&mut self, mean: f64) -> f64 {
            -self.next().ln() * mean
        }
    }

    /// Three stages of jitter, of which the second is held up now and then, for some traces in a row.
    fn injected(seed: u64, traces: usize, names: usize) -> PathColumns {
        let mut random = Uniform(seed);
        let mut columns = vec![Vec::new(); names + 1];
        let mut held = 0;
        for _ in 0..traces {
            held = if random.next() < 0.01 { 3 } else { held - i32::from(held > 0) };
            let mut row: Vec<i64> =
                (0..names).map(|stage| 1_000 + random.exponential(300.0 + stage as f64) as i64).collect();
            row[1] += if held > 0 { random.exponential(4_000.0) as i64 } else { 0 };
            row.push(row.iter().sum());
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        PathColumns::made(columns, 0)
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|stage| format!("stage {stage}")).chain(["end-to-end".into()]).collect()
    }

    fn found(columns: &PathColumns, bounds: &[u64]) -> Tail {
        Tail::of(columns, &names(bounds.len() - 1), bounds, Quantile::P99)
    }

    /// Two hundred runs of a program that holds up its second stage, against a million traces of the same.
    #[test]
    fn the_cause_is_first_and_its_true_share_lies_in_its_interval() {
        let share = |tail: &Tail| tail.stages.iter().find(|stage| stage.name == "stage 1").unwrap().share.unwrap();
        let truth = share(&found(&injected(1, 1_000_000, 3), &[0; 4])).estimate;
        let (mut first, mut within) = (0, 0);
        for seed in 0..200 {
            let tail = found(&injected(1_000 + seed * 7_919, 2_000, 3), &[0; 4]);
            first += usize::from(tail.stages[0].name == "stage 1" && tail.sure > 0.95);
            let [lo, hi] = share(&tail).interval;
            within += usize::from((lo..=hi).contains(&truth));
        }
        assert!(first >= 198 && (180..=198).contains(&within), "first in {first} of 200, within in {within}");
    }

    /// Whatever the clocks did within their bounds, the shares of the true durations lie in what is left to the clocks.
    #[test]
    fn what_the_clocks_leave_open_holds_the_truth() {
        let mut random = Uniform(5);
        for round in 0..60_u64 {
            let truth = injected(round, 1_500, 3);
            let bounds: Vec<u64> = (0..4).map(|_| (random.next() * 120.0) as u64).collect();
            let common: Vec<i64> = (0..3).map(|_| (random.next() * 1e6) as i64).collect();
            let mut wrong = truth.values().to_vec();
            let late = Quantile::P99.of(&mut truth.whole().to_vec()).unwrap();
            for (row, &whole) in truth.whole().iter().enumerate() {
                for stage in 0..3 {
                    // At their worst: one stage of the slow traces is told as longer, the others as shorter.
                    let longer = (stage == round as usize % 3) == (whole >= late);
                    let corner = if round % 2 == 0 { f64::from(u8::from(longer)) } else { random.next() };
                    wrong[stage][row] += common[stage] + (corner * bounds[stage] as f64) as i64;
                }
                wrong[3][row] = (0..3).map(|stage| wrong[stage][row]).sum();
            }
            let measured = PathColumns::made(wrong, 0);
            let tail = found(&measured, &bounds);
            let slow: Vec<usize> =
                (0..1_500).filter(|&row| measured.whole()[row] >= tail.threshold_ticks.unwrap()).collect();
            let excess = |stage: usize| {
                let column = &truth.values()[stage];
                let mean = slow.iter().map(|&row| column[row] as f64).sum::<f64>() / slow.len() as f64;
                mean - Quantile::MEDIAN.of(&mut column.clone()).unwrap() as f64
            };
            let all: f64 = (0..3).map(excess).sum();
            for stage in &tail.stages {
                let number = stage.name.strip_prefix("stage ").unwrap().parse().unwrap();
                let off = (stage.excess_ticks - excess(number)).abs();
                assert!(off <= stage.bound_ticks as f64 + 1e-6, "{stage:?} is off by {off}");
                let [lo, hi] = stage.share.unwrap().clocks;
                let share = excess(number) / all;
                assert!(lo - 1e-9 <= share && share <= hi + 1e-9, "{share} is outside of {stage:?}");
            }
        }
    }

    /// Runs whose second stage is held up by few, long detours of various lengths.
    fn held_up(seed: u64, traces: usize, detours: f64, longest: f64) -> PathColumns {
        let mut random = Uniform(seed);
        let mut columns = vec![Vec::new(); 4];
        let (mut held, mut depth) = (0_i64, 0.0);
        for _ in 0..traces {
            if held == 0 && random.next() < detours / traces as f64 {
                (held, depth) = ((random.next() * longest) as i64 + 1, random.exponential(6_000.0));
            }
            let mut row: Vec<i64> =
                (0..3).map(|stage| 1_000 + random.exponential(300.0 + f64::from(stage) * 200.0) as i64).collect();
            row[1] += if held > 0 { (depth * random.next()) as i64 } else { 0 };
            held = (held - 1).max(0);
            row.push(row.iter().sum());
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        PathColumns::made(columns, 0)
    }

    /// Few long detours say little of their own spread: what is told then says on how many it rests, and is wider.
    #[test]
    fn shares_that_rest_on_few_stretches_say_so_and_are_wider() {
        let share = |tail: &Tail| tail.stages.iter().find(|stage| stage.name == "stage 1").unwrap().share;
        for (detours, longest, least) in [(20.0, 20.0, 32), (5.0, 60.0, 20)] {
            let rate = detours / 10_000.0;
            let truth = share(&found(&held_up(1, 500_000, rate * 5e5, longest), &[0; 4])).unwrap().estimate;
            let runs: Vec<Tail> =
                (0..40).map(|seed| found(&held_up(1_000 + seed * 7_919, 10_000, detours, longest), &[0; 4])).collect();
            let (told, open): (Vec<&Tail>, Vec<&Tail>) = runs.iter().partition(|run| share(run).is_some());
            assert!(told.iter().all(|run| run.stretches >= FEWEST_STRETCHES), "{detours}");
            assert!(open.iter().all(|run| run.unresolved == Some(Unresolved::Chance)), "{detours}");
            let holds = |run: &&&Tail| share(run).is_some_and(|of| (of.interval[0]..=of.interval[1]).contains(&truth));
            let within = told.iter().filter(holds).count();
            assert!(within >= least, "{detours} detours of up to {longest}: {within} of {} told", told.len());
        }
        // One detour: whatever is drawn of it is drawn of nothing else.
        let mut once = vec![vec![100; 2_000]; 2];
        (700..730).for_each(|row| (once[0][row], once[1][row]) = (1_000, 1_000));
        let tail = found(&PathColumns::made(once, 0), &[0; 2]);
        assert!(tail.stretches < FEWEST_STRETCHES && tail.unresolved == Some(Unresolved::Chance), "{tail:?}");
        assert_eq!(wider([0.5, 0.75], [0.25, 0.75], 2.0), [0.0, 0.75]);
    }

    #[test]
    fn shares_add_up_and_their_ends_are_those_of_the_worst_clocks() {
        let tail = found(&injected(3, 5_000, 4), &[10, 20, 30, 40, 50]);
        let sum: f64 = tail.stages.iter().map(|stage| stage.share.unwrap().estimate).sum();
        assert!((sum - 1.0).abs() < 1e-9 && tail.bound_ticks == 100, "{tail:?}");
        assert!(tail.stages.iter().all(|stage| {
            let TailShare { estimate, clocks: [a, b], interval: [lo, hi] } = stage.share.unwrap();
            lo <= a && a <= estimate && estimate <= b && b <= hi
        }));
        // Of blocks that are all alike chance leaves nothing open.
        let alike = |row: i64, base: i64, more: i64| if row % 50 == 0 { base + more } else { base };
        let column = |base, more| (0..10_000).map(|row| alike(row, base, more)).collect::<Vec<i64>>();
        let columns = vec![column(100, 3_000), column(200, 1_000), column(300, 4_000)];
        for stage in found(&PathColumns::made(columns, 0), &[30, 70, 100]).stages {
            let TailShare { clocks, interval, .. } = stage.share.unwrap();
            assert!(clocks.iter().zip(interval).all(|(clocks, all)| (clocks - all).abs() < 1e-9), "{stage:?}");
        }
        // By hand: (a - e) / (A + E - 2e) and (a + e) / (A - E + 2e).
        assert_eq!(share_ends(60.0, 5.0, 40.0, 10.0), Some([55.0 / 105.0, 65.0 / 95.0]));
        assert_eq!(share_ends(2.0, 5.0, 98.0, 10.0), Some([-3.0 / 85.0, 7.0 / 95.0]));
        assert_eq!(share_ends(5.0, 10.0, 5.0, 0.0), None);
    }

    #[test]
    fn what_cannot_be_told_says_why_and_has_no_share() {
        let told = |columns: &PathColumns, bounds: &[u64]| {
            let tail = found(columns, bounds);
            assert!(tail.stages.iter().all(|stage| stage.share.is_none()), "{tail:?}");
            tail.unresolved
        };
        assert_eq!(told(&injected(3, 5_000, 3), &[9_000; 4]), Some(Unresolved::Clocks));
        assert_eq!(told(&injected(3, 300, 3), &[0; 4]), Some(Unresolved::FewSlow));
        assert_eq!(told(&PathColumns::made(vec![vec![]; 4], 7), &[0; 4]), Some(Unresolved::NoTrace));
        assert_eq!(told(&PathColumns::made(vec![vec![]], 7), &[0]), Some(Unresolved::NoTrace));
        assert_eq!(told(&PathColumns::made(vec![vec![5; 2_000]; 2], 0), &[0; 2]), Some(Unresolved::Clocks));
        let wide = vec![vec![i64::MIN, i64::MAX]; 2];
        assert_eq!(told(&PathColumns::made(wide, 0), &[u64::MAX; 2]), Some(Unresolved::OutOfRange));
        // Ten slow traces in one block: nobody knows whether another run has any.
        let mut held = vec![vec![100; 1_000]; 2];
        (0..11).for_each(|row| (held[0][row], held[1][row]) = (1_000, 1_000));
        assert_eq!(told(&PathColumns::made(held, 0), &[50; 2]), Some(Unresolved::Chance));
    }

    #[test]
    fn a_trace_has_a_leader_where_no_clock_could_make_another() {
        let mut columns = vec![vec![100; 1_000], vec![50; 1_000], vec![150; 1_000]];
        (0..20).for_each(|row| (columns[0][row], columns[1][row], columns[2][row]) = (400, 410, 810));
        let leads = |bounds: [u64; 3]| {
            let tail = found(&PathColumns::made(columns.clone(), 0), &bounds);
            let of = |stage: &StageTail| (stage.name.clone(), stage.leads, stage.among_causes);
            tail.stages.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(leads([0; 3]), [("stage 1".into(), 20, 20), ("stage 0".into(), 0, 20)]);
        assert_eq!(leads([29, 30, 0])[0].1, 20);
        assert_eq!(leads([30, 30, 0])[0].1, 0);
    }

    #[test]
    fn a_stage_that_never_took_longer_than_its_median_would_move_the_quantile() {
        let mut columns = vec![vec![100; 1_000], vec![50; 1_000], vec![150; 1_000]];
        (0..20).for_each(|row| (columns[1][row], columns[2][row]) = (1_000, 1_100));
        let tail = found(&PathColumns::made(columns, 0), &[3, 4, 9]);
        let stage = &tail.stages[0];
        assert_eq!(stage.what_if, WhatIf { from_ticks: 1_100, to_ticks: 150, bound_ticks: 13 });
        assert_eq!((stage.among_causes, stage.leads, stage.name.as_str()), (20, 20, "stage 1"));
        assert_eq!((tail.stages[1].what_if.to_ticks, tail.stages[1].leads), (1_100, 0));
    }
}

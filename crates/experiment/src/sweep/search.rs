//! The search for the highest rate that is sustained, as a state machine: it is asked for the next rate and told what a
//! trial of it said.
//!
//! Idea: MLRsearch's terms (RFC 9971), with trials of one length. A rate is a *lower bound* once so many of its trials
//! sustained it that the others cannot exceed the ratio any more, an *upper bound* once too many did not, and is tried
//! again until it is either. Bisection tries the rate in the middle of what is open; a linear scan the next higher one,
//! as Cloudprofiler does (its figure 9). Trials that say nothing count for neither: a rate of which three said nothing
//! cannot be told, and is the end of what is searched, but no upper bound.
//!
//! Assumes: a system that sustains a rate sustains lower ones. Guarantees: it ends, after at most three trials of one
//! beyond those that decide, of at most as many rates as there are (bisection: as their logarithm); its two bounds are
//! neighbours among the rates. Deliberately absent: rates in numbers, trials, clocks.

use serde::Deserialize;
use tickscope_analysis::SustainVerdict;

/// Trials of one rate that may say nothing, in one search.
const MOST_INVALID: u32 = 3;

/// How the next rate is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SustainMethod {
    /// The one in the middle.
    #[default]
    Bisection,
    /// The next higher one.
    Linear,
}

impl SustainMethod {
    /// Its word in run files and options.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bisection => "bisection",
            Self::Linear => "linear",
        }
    }
}

/// When a rate counts as sustained.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Goal {
    /// Trials that decide, unless the first ones do (the Duration Sum, in trials).
    pub trials: u32,
    /// The share of them, in a million, that may not sustain it (the Exceed Ratio).
    pub exceed_ppm: u32,
}

/// What is known of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    Lower,
    Upper,
    Untold,
    Open,
}

/// Trials of a rate, by what they said.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    sustained: u32,
    not: u32,
    invalid: u32,
}

impl Tally {
    /// The classification of a load by RFC 9971, where all trials have the final length.
    fn bound(self, goal: Goal) -> Bound {
        let whole = u64::from((self.sustained + self.not).max(goal.trials));
        let may_exceed = whole * u64::from(goal.exceed_ppm);
        match self {
            _ if (whole - u64::from(self.sustained)) * 1_000_000 <= may_exceed => Bound::Lower,
            _ if u64::from(self.not) * 1_000_000 > may_exceed => Bound::Upper,
            _ if self.invalid >= MOST_INVALID => Bound::Untold,
            _ => Bound::Open,
        }
    }
}

/// A search among so many rates, the lowest first.
#[derive(Clone, Debug)]
pub struct Search {
    rates: usize,
    method: SustainMethod,
    goal: Goal,
    /// How many rates are lower bounds, or below one.
    sustained: usize,
    /// The rate above which nothing is tried any more; none of `rates`: all may be.
    end: usize,
    /// Whether `end` could not be told.
    untold: bool,
    tally: Tally,
}

/// What a search found; rates by their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchBounds {
    /// The relevant lower bound.
    pub lower: Option<usize>,
    /// The relevant upper bound.
    pub upper: Option<usize>,
    /// The lowest rate of which trials said nothing, where that is why there is no upper bound.
    pub untold: Option<usize>,
}

impl Search {
    /// A search that has tried nothing yet.
    pub fn new(rates: usize, method: SustainMethod, goal: Goal) -> Self {
        Self { rates, method, goal, sustained: 0, end: rates, untold: false, tally: Tally::default() }
    }

    /// The rate to be tried; `None`: the search is over.
    pub fn next(&self) -> Option<usize> {
        let open = self.sustained..self.end;
        let middle = open.start + open.len() / 2;
        let next = match self.method {
            SustainMethod::Bisection => middle,
            SustainMethod::Linear => open.start,
        };
        (!open.is_empty()).then_some(next)
    }

    /// Takes what a trial of [`Self::next`] said.
    pub fn take(&mut self, verdict: SustainVerdict) {
        let Some(rate) = self.next() else { return };
        match verdict {
            SustainVerdict::Sustained => self.tally.sustained += 1,
            SustainVerdict::Invalid => self.tally.invalid += 1,
            _ => self.tally.not += 1,
        }
        match self.tally.bound(self.goal) {
            Bound::Open => return,
            Bound::Lower => self.sustained = rate + 1,
            Bound::Upper => (self.end, self.untold) = (rate, false),
            Bound::Untold => (self.end, self.untold) = (rate, true),
        }
        self.tally = Tally::default();
    }

    /// What is known by now.
    pub fn interval(&self) -> SearchBounds {
        let end = Some(self.end).filter(|&end| end < self.rates);
        let (upper, untold) = if self.untold { (None, end) } else { (end, None) };
        SearchBounds { lower: self.sustained.checked_sub(1), upper, untold }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tickscope_load::SplitMix;

    use super::*;

    const BEST_OF_3: Goal = Goal { trials: 3, exceed_ppm: 500_000 };
    const ONE: Goal = Goal { trials: 1, exceed_ppm: 0 };
    const ALL: [SustainVerdict; 3] = [SustainVerdict::Sustained, SustainVerdict::Backlog, SustainVerdict::Invalid];

    /// Searches to the end; how many trials that took.
    fn ended(mut search: Search, mut trial: impl FnMut(usize) -> SustainVerdict) -> (SearchBounds, usize) {
        let mut trials = 0;
        while let Some(rate) = search.next() {
            search.take(trial(rate));
            trials += 1;
        }
        (search.interval(), trials)
    }

    /// Rates from half of a queue's capacity of a million parts on, each half a percent above the one before.
    fn rates() -> Vec<f64> {
        (0..400).map(|step| 0.5e6 * 1.005_f64.powi(step)).collect()
    }

    /// A trial of a fluid queue without an end, a hundred steps long: its capacity wanders by 2 %, and stalls now and
    /// then. Work that is left at the end counts as loss beyond half a percent.
    fn trial(rate: f64, random: &mut SplitMix) -> SustainVerdict {
        let mut uniform = || (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        let (mut backlog, mut wander) = (0.0_f64, 0.0);
        for _ in 0..100 {
            wander = 0.5 * wander + 0.02 * (uniform() + uniform() + uniform() - 1.5);
            let stalled = if uniform() < 0.005 { 0.5 } else { 1.0 };
            backlog = (backlog + (rate - 1e6 * (1.0 + wander) * stalled) / 100.0).max(0.0);
        }
        if backlog > 0.005 * rate { SustainVerdict::Backlog } else { SustainVerdict::Sustained }
    }

    #[test]
    fn searches_of_a_queue_with_noise_end_within_a_percent_of_its_capacity() {
        const SEARCHES: usize = 200;
        let (rates, mut random) = (rates(), SplitMix::new(7));
        let (mut found, mut most) = (Vec::new(), 0);
        for _ in 0..SEARCHES {
            let search = Search::new(rates.len(), SustainMethod::Bisection, BEST_OF_3);
            let (interval, trials) = ended(search, |rate| trial(rates[rate], &mut random));
            assert_eq!(interval.lower.unwrap() + 1, interval.upper.unwrap());
            found.push((rates[interval.lower.unwrap()] * rates[interval.upper.unwrap()]).sqrt());
            most = most.max(trials);
        }
        let mean = found.iter().sum::<f64>() / SEARCHES as f64;
        let deviation = (found.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / SEARCHES as f64).sqrt();
        // Stalls take 0.25 % of the capacity, and half a percent may be lost.
        assert!((mean / 1e6 - 1.0).abs() < 0.01 && deviation / 1e6 < 0.01, "{mean} {deviation}");
        assert!(most <= 3 * 9, "{most} trials: at most three of each of the nine rates that halve 400");
    }

    #[test]
    fn a_linear_scan_ends_at_the_first_rate_that_is_not_sustained() {
        let mut tried = Vec::new();
        let found = ended(Search::new(100, SustainMethod::Linear, ONE), |rate| {
            tried.push(rate);
            ALL[usize::from(rate >= 7)]
        });
        assert_eq!(found, (SearchBounds { lower: Some(6), upper: Some(7), untold: None }, 8));
        assert_eq!(tried, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn what_never_sustains_never_breaks_or_cannot_be_told_has_no_such_bound() {
        for method in [SustainMethod::Bisection, SustainMethod::Linear] {
            let of = |verdict: SustainVerdict| ended(Search::new(9, method, BEST_OF_3), |_| verdict).0;
            assert_eq!(of(ALL[1]), SearchBounds { lower: None, upper: Some(0), untold: None });
            assert_eq!(of(ALL[0]), SearchBounds { lower: Some(8), upper: None, untold: None });
            assert_eq!(of(ALL[2]), SearchBounds { lower: None, upper: None, untold: Some(0) });
            let late = ended(Search::new(9, method, ONE), |rate| ALL[if rate >= 5 { 2 } else { 0 }]).0;
            assert_eq!(late, SearchBounds { lower: Some(4), upper: None, untold: Some(5) });
            let found = ended(Search::new(9, method, ONE), |rate| ALL[[0, 0, 0, 1, 1, 1, 1, 1, 2][rate]]).0;
            assert_eq!(found, SearchBounds { lower: Some(2), upper: Some(3), untold: None });
        }
    }

    #[test]
    fn a_rate_is_tried_until_its_trials_cannot_say_anything_else() {
        let of = |sustained, not, invalid| Tally { sustained, not, invalid }.bound(BEST_OF_3);
        assert_eq!(
            [of(1, 0, 0), of(2, 0, 0), of(0, 1, 0), of(0, 2, 0), of(1, 1, 0)],
            [Bound::Open, Bound::Lower, Bound::Open, Bound::Upper, Bound::Open]
        );
        assert_eq!(
            [of(1, 1, 2), of(1, 1, 3), of(1, 2, 3), of(2, 1, 3)],
            [Bound::Open, Bound::Untold, Bound::Upper, Bound::Lower]
        );
        let strict = Goal { trials: 3, exceed_ppm: 0 };
        let of = |sustained, not| Tally { sustained, not, invalid: 0 }.bound(strict);
        assert_eq!([of(2, 0), of(3, 0), of(2, 1)], [Bound::Open, Bound::Lower, Bound::Upper]);
    }

    proptest! {
        #[test]
        fn property_whatever_trials_say_a_search_ends_with_neighbours(
            rates in 1..500_usize,
            linear in any::<bool>(),
            trials in 1..6_u32,
            exceed_ppm in 0..1_000_000_u32,
            seed in any::<u64>(),
        ) {
            let (goal, mut random) = (Goal { trials, exceed_ppm }, SplitMix::new(seed));
            let method = if linear { SustainMethod::Linear } else { SustainMethod::Bisection };
            let (found, made) = ended(Search::new(rates, method, goal), |_| ALL[random.below(3) as usize]);
            let at_most = if linear { rates } else { rates.ilog2() as usize + 1 };
            prop_assert!(made <= at_most * (trials + MOST_INVALID) as usize, "{made} trials of {rates} rates");
            let end = found.upper.or(found.untold).unwrap_or(rates);
            prop_assert_eq!(found.lower.map_or(0, |lower| lower + 1), end);
        }
    }
}

//! The granularity at which a load changes too fast to be followed by reading the clock (the Cm* study, 4.6).
//!
//! Method I subtracts what the readings around a section cost. That helps as long as the load that makes them dear is
//! still the same in the section: once it changes within a reading, nothing is left to follow.
//!
//! A verdict is given only where all that k may be, over several rounds, is on one side of 1: a single k a little above
//! it is chance as often as not.

use crate::advice::duration;
use crate::benchmark::PulseTest;
use crate::compensation::{Method, Outcome};
use crate::factor::{Factor, Side};

/// One clock's tests.
#[derive(Clone, PartialEq, Debug)]
pub struct ByPulse<'a> {
    /// The clock's name.
    pub clock: &'a str,
    /// The longest pulse first.
    pub tests: Vec<&'a PulseTest>,
}

/// Effect of Method I.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// All that k may be is above 1.
    Helps,
    /// All that it may be is below.
    Fails,
    /// It may be either, or there is none.
    Undecided,
}

/// Tests by clock, in the order in which the clocks come.
pub fn by_clock(found: &[PulseTest]) -> Vec<ByPulse<'_>> {
    let mut clocks: Vec<ByPulse> = Vec::new();
    for test in found {
        match clocks.iter_mut().find(|of| of.clock == test.clock) {
            Some(of) => of.tests.push(test),
            None => clocks.push(ByPulse { clock: &test.clock, tests: vec![test] }),
        }
    }
    for of in &mut clocks {
        of.tests.sort_by_key(|test| std::cmp::Reverse(test.pulse_ns));
    }
    clocks
}

impl PulseTest {
    /// Residual errors of Method I.
    pub fn nearest_pairs(&self) -> Option<&Outcome> {
        self.test.outcome(Method::NearestPairs)
    }

    /// The k of Method I, without what was interrupted; `None`: durations did not scatter.
    pub fn k(&self) -> Option<Factor> {
        self.nearest_pairs().and_then(|outcome| outcome.k_untouched)
    }

    /// Effect of Method I under these pulses.
    pub fn effect(&self) -> Effect {
        match self.k().map(|k| k.side(1.0)) {
            Some(Side::Above) => Effect::Helps,
            Some(Side::Below) => Effect::Fails,
            _ => Effect::Undecided,
        }
    }
}

impl ByPulse<'_> {
    /// Cost of a reading, nanoseconds: the median section of no length, the most of all pulses.
    pub fn reading_ns(&self) -> f64 {
        let cost = |test: &&PulseTest| test.test.outcome(Method::None).map(|outcome| outcome.residual_median);
        self.tests.iter().filter_map(cost).fold(0.0, f64::max)
    }

    /// The shortest pulses that it helps under, and the longest shorter ones under which it does not, nanoseconds,
    /// where it helps under none that are shorter still; `None` where there is no such place.
    pub fn stops_between(&self) -> Option<[u32; 2]> {
        let last = self.tests.iter().rposition(|test| test.effect() == Effect::Helps)?;
        let next = self.tests[last..].iter().find(|test| test.effect() == Effect::Fails)?;
        Some([self.tests[last].pulse_ns, next.pulse_ns])
    }

    /// Where Method I helps, in a sentence.
    pub fn words(&self) -> String {
        let pulses = |effect: Effect| {
            let of = self.tests.iter().filter(|test| test.effect() == effect);
            of.map(|test| duration(f64::from(test.pulse_ns))).collect::<Vec<String>>()
        };
        let [helps, fails, undecided] = [Effect::Helps, Effect::Fails, Effect::Undecided].map(pulses);
        let cost = duration(self.reading_ns());
        let clock = self.clock;
        let ns = |ns: u32| duration(f64::from(ns));
        let where_it_helps = match self.stops_between() {
            Some([from, no_longer]) if fails.len() + helps.len() == self.tests.len() && self.helps_above(from) => {
                format!("method-1 helps with pulses of {} or longer, and no longer at {}", ns(from), ns(no_longer))
            }
            _ if !self.tests.iter().any(|test| test.k().is_some_and(|k| k.between.is_some())) => {
                "undecided, too few rounds were made to tell; ask for more --seconds".into()
            }
            _ if helps.len() == self.tests.len() => "method-1 helps however short the pulses that were tried".into(),
            _ if fails.len() == self.tests.len() => "method-1 helps under none of the loads tried".into(),
            _ => {
                let parts = [("helps at", helps), ("does not at", fails), ("is undecided at", undecided)];
                let present = parts.iter().filter(|(_, pulses)| !pulses.is_empty());
                let present = present.map(|(what, pulses)| format!("{what} {}", pulses.join(", ")));
                format!("method-1 {}", present.collect::<Vec<String>>().join("; "))
            }
        };
        format!("'{clock}', a reading of which costs {cost}: {where_it_helps}")
    }

    fn helps_above(&self, from: u32) -> bool {
        self.tests.iter().filter(|test| test.pulse_ns >= from).all(|test| test.effect() == Effect::Helps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::SectionTest;

    fn test(pulse_ns: u32, between: [f64; 2]) -> PulseTest {
        let k = Some(Factor { median: f64::midpoint(between[0], between[1]), between: Some(between), stretches: 9 });
        let outcome =
            |method, residual_median| Outcome { method, residual_median, k_untouched: k, ..Outcome::default() };
        let test = SectionTest {
            outcomes: vec![outcome(Method::None, 40.0), outcome(Method::NearestPairs, 0.0)],
            ..SectionTest::default()
        };
        let profile = Vec::new();
        PulseTest { clock: "a clock".into(), pulse_ns, turns_per_s: Some(1.0), cost_ns: 1.0, profile, test }
    }

    const HELPS: [f64; 2] = [1.1, 3.0];
    const FAILS: [f64; 2] = [0.4, 0.9];
    const EITHER: [f64; 2] = [0.9, 1.1];

    #[test]
    fn a_method_helps_only_where_all_that_k_may_be_is_above_1() {
        let effects = [HELPS, FAILS, EITHER, [1.0, 2.0]].map(|k| test(1, k).effect());
        assert_eq!(effects, [Effect::Helps, Effect::Fails, Effect::Undecided, Effect::Undecided]);
    }

    #[test]
    fn where_it_stops_lies_between_the_last_pulse_that_helps_and_the_next() {
        let found = [test(1_000, FAILS), test(1_000_000, HELPS), test(10_000, HELPS)];
        let clocks = by_clock(&found);
        assert_eq!((clocks.len(), clocks[0].stops_between(), clocks[0].reading_ns()), (1, Some([10_000, 1_000]), 40.0));
        let said = "'a clock', a reading of which costs 40.0 ns: method-1 helps with pulses of 10.0 us or longer, and \
                    no longer at 1.0 us";
        assert_eq!(clocks[0].words(), said);
    }

    #[test]
    fn a_method_that_helps_here_and_there_is_said_to() {
        let found = [test(1_000, HELPS), test(10_000, FAILS), test(100_000, EITHER), test(1_000_000, HELPS)];
        let words = by_clock(&found)[0].words();
        assert!(
            words.ends_with("method-1 helps at 1.0 ms, 1.0 us; does not at 10.0 us; is undecided at 100 us"),
            "{words}"
        );
        let words = by_clock(&found[..1])[0].words();
        assert!(words.ends_with("helps however short the pulses that were tried"), "{words}");
        assert!(by_clock(&found[1..2])[0].words().ends_with("helps under none of the loads tried"));
        assert_eq!(by_clock(&found[1..2])[0].stops_between(), None);
        let mut few = [test(1_000, HELPS)];
        for outcome in &mut few[0].test.outcomes {
            outcome.k_untouched = outcome.k_untouched.map(|k| Factor { between: None, ..k });
        }
        assert!(by_clock(&few)[0].words().ends_with("ask for more --seconds"), "{}", by_clock(&few)[0].words());
    }
}

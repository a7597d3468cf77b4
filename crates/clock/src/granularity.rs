//! Where a load changes too fast to be followed by reading the clock (the Cm* study, 4.6).
//!
//! Method I subtracts what the readings beside a section cost. That helps as long as the load that makes them dear is still the
//! same in the section: once it changes within a reading, nothing is left to follow.
//!
//! Whether it helps is said only where two figures agree: the k found, and the k predicted from the other half of the
//! trials; a single k a little above 1 is chance as often as not.

use crate::advice::duration;
use crate::compensation::Method;
use crate::study::PulseTest;

/// One clock's tests.
#[derive(Clone, PartialEq, Debug)]
pub struct ByPulse<'a> {
    /// The clock's name.
    pub clock: &'a str,
    /// The longest pulse first.
    pub tests: Vec<&'a PulseTest>,
}

/// What Method I does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Both k are above 1.
    Helps,
    /// Neither is.
    Fails,
    /// They disagree, or one is missing.
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
    /// What Method I did under these pulses.
    pub fn effect(&self) -> Effect {
        let found = self.test.outcome(Method::NearestPairs).and_then(|outcome| outcome.k_clipped);
        match (self.test.k_predicted, found) {
            (Some(predicted), Some(found)) if predicted > 1.0 && found > 1.0 => Effect::Helps,
            (Some(predicted), Some(found)) if predicted <= 1.0 && found <= 1.0 => Effect::Fails,
            _ => Effect::Undecided,
        }
    }
}

impl ByPulse<'_> {
    /// What a reading costs, nanoseconds: the median section of no length, the most of all pulses.
    pub fn reading_ns(&self) -> f64 {
        let cost = |test: &&PulseTest| test.test.outcome(Method::None).map(|outcome| outcome.residual_median);
        self.tests.iter().filter_map(cost).fold(0.0, f64::max)
    }

    /// The shortest pulses that it helps under as it does under all longer ones, and the next, nanoseconds; `None` where there
    /// is no such place.
    pub fn stops_between(&self) -> Option<[u32; 2]> {
        let helps = self.tests.iter().take_while(|test| test.effect() == Effect::Helps).count();
        match (helps.checked_sub(1), self.tests.get(helps)) {
            (Some(last), Some(next)) => Some([self.tests[last].pulse_ns, next.pulse_ns]),
            _ => None,
        }
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
        let where_it_helps = match (helps.len() == self.tests.len(), self.stops_between()) {
            (true, _) => "method-1 helps however short the pulses that were tried".into(),
            (false, _) if helps.is_empty() && undecided.is_empty() => {
                "method-1 helps under none of the loads tried".into()
            }
            (false, Some([last, next])) if self.helps_nowhere_below(next) => {
                let [last, next] = [last, next].map(|ns| duration(f64::from(ns)));
                format!("method-1 helps down to pulses of {last} and no longer at {next}")
            }
            _ => {
                let parts = [("helps at", helps), ("does not at", fails), ("is undecided at", undecided)];
                let said = parts.iter().filter(|(_, pulses)| !pulses.is_empty());
                let said = said.map(|(what, pulses)| format!("{what} {}", pulses.join(", ")));
                format!("method-1 {}", said.collect::<Vec<String>>().join("; "))
            }
        };
        format!("'{clock}', a reading of which costs {cost}: {where_it_helps}")
    }

    fn helps_nowhere_below(&self, next_ns: u32) -> bool {
        self.tests.iter().filter(|test| test.pulse_ns <= next_ns).all(|test| test.effect() == Effect::Fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compensation::Outcome;
    use crate::study::SectionTest;

    fn test(pulse_ns: u32, k_predicted: f64, k: f64) -> PulseTest {
        let outcome = |method, residual_median, k| Outcome {
            method,
            subtracts: 0.0,
            residual_median,
            residual_interval: None,
            residual_mean: 0.0,
            error: 0.0,
            error_p95: 0.0,
            error_fitted: 0.0,
            drift_fitted: 0.0,
            gains_fitted: true,
            k: Some(k),
            k_clipped: Some(k),
        };
        let test = SectionTest {
            section_ns: 0,
            trials: 8,
            outcomes: vec![outcome(Method::None, 40.0, 1.0), outcome(Method::NearestPairs, 0.0, k)],
            chosen: Method::None,
            why: String::new(),
            no_worse_than_none: true,
            memory: None,
            k_predicted: Some(k_predicted),
            no_sampler: None,
        };
        PulseTest { clock: "a clock".into(), pulse_ns, turns_per_s: Some(1.0), cost_ns: 1.0, test }
    }

    #[test]
    fn a_method_helps_only_where_what_was_found_was_predicted() {
        let effects = [(2.0, 2.0), (0.5, 0.5), (0.5, 2.0), (2.0, 0.5)].map(|(k, found)| test(1, k, found).effect());
        assert_eq!(effects, [Effect::Helps, Effect::Fails, Effect::Undecided, Effect::Undecided]);
    }

    #[test]
    fn where_it_stops_lies_between_the_last_pulse_that_helps_and_the_next() {
        let found = [test(1_000, 0.9, 0.8), test(1_000_000, 3.0, 4.0), test(10_000, 1.1, 1.2)];
        let clocks = by_clock(&found);
        assert_eq!((clocks.len(), clocks[0].stops_between(), clocks[0].reading_ns()), (1, Some([10_000, 1_000]), 40.0));
        let said = "'a clock', a reading of which costs 40.0 ns: method-1 helps down to pulses of 10.0 us and no longer at 1.0 us";
        assert_eq!(clocks[0].words(), said);
    }

    #[test]
    fn a_method_that_helps_here_and_there_is_said_to() {
        let found = [test(1_000, 3.0, 3.0), test(10_000, 0.5, 0.5), test(100_000, 0.5, 2.0), test(1_000_000, 2.0, 2.0)];
        let words = by_clock(&found)[0].words();
        assert!(
            words.ends_with("method-1 helps at 1.0 ms, 1.0 us; does not at 10.0 us; is undecided at 100 us"),
            "{words}"
        );
        let words = by_clock(&found[..1])[0].words();
        assert!(words.ends_with("helps however short the pulses that were tried"), "{words}");
        assert!(by_clock(&found[1..2])[0].words().ends_with("helps under none of the loads tried"));
        assert_eq!(by_clock(&found[1..2])[0].stops_between(), None);
    }
}

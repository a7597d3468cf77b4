//! False brackets: the evidence is refused, and the report names them.

mod world;

use proptest::prelude::*;
use tickscope_bracket::{Bracket, ClockMap, Error, Finding, Inconsistency, Model, Ratio, Rho};
use tickscope_tick::Tick;

const PERIOD: i64 = 2_500_000;
const WIDTH: i64 = 20_000;

/// Exchanges a millisecond apart of clocks that differ by 12 ppm, each within [`WIDTH`] of the truth.
fn exchanges(count: i64) -> Vec<Bracket> {
    let truth = |y: i64| 1_000_000_000 + y + y * 12 / 1_000_000;
    let delay = |k: i64, salt: i64| 4_000 + (k * 7919 + salt) % (WIDTH - 4_000);
    let exchange = |k: i64| {
        let y = k * PERIOD;
        Bracket::new(Some(truth(y) - delay(k, 0)), y, Some(truth(y) + delay(k, 4242)))
    };
    (0..count).map(exchange).collect()
}

fn model(rho_ppb: u32) -> Model {
    Model::new(Rho::declared_ppb(rho_ppb).unwrap(), Ratio::new(1, 1).unwrap(), Tick::new(0))
}

fn refusal(brackets: &[Bracket], model: &Model) -> Inconsistency {
    match ClockMap::new(brackets, model) {
        Err(Error::Inconsistent(report)) => *report,
        other => panic!("expected a contradiction, found {other:?}"),
    }
}

fn names(report: &Inconsistency) -> Vec<usize> {
    report.outliers.iter().map(|outlier| outlier.named.index).collect()
}

#[test]
fn a_bracket_off_by_more_than_its_width_is_named_with_what_would_fit() {
    for error in [2 * WIDTH + 10_000, -2 * WIDTH - 10_000, 5_000_000, -5_000_000] {
        for wrong in [0, 1, 57, 99] {
            let mut brackets = exchanges(100);
            brackets[wrong].at = Tick::new(brackets[wrong].at.get() + error);
            let report = refusal(&brackets, &model(1000));
            assert_eq!(report.outliers[0].named.index, wrong, "error of {error}: {}", Error::from(report.clone()));
            assert_eq!(report.outliers[0].named.bracket, brackets[wrong]);
            assert!(report.resolved && !report.outliers_together);
        }
    }
}

#[test]
fn the_report_says_bracket_values_rho_and_the_smallest_rho_that_fits() {
    let mut brackets = exchanges(50);
    brackets[20].at = Tick::new(brackets[20].at.get() + 60_000);
    let report = refusal(&brackets, &model(1000));
    let smallest = report.smallest_rho_ppb.unwrap();
    assert!(ClockMap::new(&brackets, &model(smallest)).is_ok(), "{smallest} ppb fits");
    assert!(ClockMap::new(&brackets, &model(smallest - 1)).is_err(), "{} ppb does not", smallest - 1);
    let text = Error::from(report).to_string();
    for part in ["1 ppm, declared", "bracket 20 (", "50060000", "without it", "smallest rho that fits all of it is"] {
        assert!(text.contains(part), "'{part}' in: {text}");
    }
}

#[test]
fn several_lies_are_all_named() {
    let mut brackets = exchanges(200);
    for (wrong, error) in [(30, 100_000), (110, -150_000), (170, 120_000)] {
        brackets[wrong].at = Tick::new(brackets[wrong].at.get() + error);
    }
    let report = refusal(&brackets, &model(1000));
    let mut named = names(&report);
    named.sort_unstable();
    assert!(report.resolved && report.outliers_together, "{}", Error::from(report));
    assert_eq!(named, [30, 110, 170]);
}

#[test]
fn two_brackets_that_only_contradict_each_other_are_both_named() {
    let brackets = [Bracket::new(Some(100), 0, Some(110)), Bracket::new(Some(0), 0, Some(10))];
    let report = refusal(&brackets, &model(1000));
    assert_eq!(names(&report), [0, 1]);
    assert!(report.resolved && !report.outliers_together);
    assert_eq!(report.smallest_rho_ppb, None, "at one tick no rho helps");
}

#[test]
fn a_reversed_bracket_is_a_finding_by_itself() {
    let mut brackets = exchanges(5);
    brackets[3] = Bracket::new(Some(11), 7, Some(10));
    let report = refusal(&brackets, &model(1000));
    assert!(matches!(report.finding, Finding::Reversed(named) if named.index == 3));
    assert_eq!(names(&report), [3]);
    brackets[3] = Bracket::new(Some(10), 7, Some(10));
    assert!(
        !matches!(ClockMap::new(&brackets, &model(1000)), Err(Error::Inconsistent(report)) if matches!(report.finding, Finding::Reversed(_)))
    );
}

/// Far from the anchor, rho leaves the slope programme room for a jump of 1000 ticks that two near brackets do not
/// have.
#[test]
fn an_empty_interval_carries_its_tick_and_both_brackets() {
    let exact = |at: i64, jump: i64| Bracket::new(Some(at + jump), at, Some(at + jump));
    let (early, late) = (exact(900_000_000_000, 0), exact(900_001_000_000, 1000));
    let report = refusal(&[late, exact(0, 0), early], &model(1000));
    let Finding::Empty { at, lower, upper, excess_ticks } = report.finding else {
        panic!("{}", report.finding);
    };
    assert_eq!((lower.index, lower.bracket, upper.index, upper.bracket), (0, late, 2, early));
    assert!(at == early.at || at == late.at, "{at}");
    assert!((990..=1000).contains(&excess_ticks), "a jump of 1000 less what rho allows, found {excess_ticks}");
}

/// A rate that keeps stepping: no single bracket is to blame when rho is ten times too small.
#[test]
fn a_rho_that_is_too_small_names_no_outlier_and_names_one_that_fits() {
    let truth = |k: i64| k * 10_000_000_000 + (k % 20).min(20 - k % 20) * 10_000;
    let exact = |k: i64| Bracket::new(Some(truth(k)), k * 10_000_000_000, Some(truth(k)));
    let report = refusal(&(0..100).map(exact).collect::<Vec<_>>(), &model(100));
    assert!(!report.resolved && report.outliers.is_empty());
    assert!(report.smallest_rho_ppb.is_some_and(|ppb| (900..=1100).contains(&ppb)), "{:?}", report.smallest_rho_ppb);
}

proptest! {
    #[test]
    fn property_one_lie_far_beyond_its_width_is_named_first(
        wrong in 0usize..60, error in prop_oneof![-900_000i64..-100_000, 100_000i64..900_000],
    ) {
        let mut brackets = exchanges(60);
        brackets[wrong].at = Tick::new(brackets[wrong].at.get() + error);
        prop_assert_eq!(refusal(&brackets, &model(1000)).outliers[0].named.index, wrong);
    }

    #[test]
    fn property_no_input_panics(
        raw in prop::collection::vec((any::<Option<i64>>(), any::<i64>(), any::<Option<i64>>()), 0..6),
        near in prop::collection::vec((-4i64..4, -4i64..4, -4i64..4), 0..6),
        rho in any::<u32>(), (n, d) in any::<(u64, u64)>(), prior in any::<u32>(), anchor in any::<i64>(),
        asked in any::<(i64, i64)>(),
    ) {
        let (Ok(rho), Ok(nominal)) = (Rho::declared_ppb(rho % 200_000_000), Ratio::new(n % 9000, d % 9000)) else {
            return Ok(());
        };
        let model = Model { prior_ppm: prior % 600_000, ..Model::new(rho, nominal, Tick::new(anchor)) };
        let wild: Vec<Bracket> = raw.iter().map(|&(b, at, a)| Bracket::new(b, at, a)).collect();
        let _ = ClockMap::new(&wild, &model).map_err(|error| error.to_string());
        let tame = near.iter().map(|&(b, at, a)| Bracket::new(Some(b), anchor.saturating_add(at), Some(a)));
        let Ok(clock_map) = ClockMap::new(&tame.collect::<Vec<_>>(), &model) else {
            return Ok(());
        };
        for y in [asked.0, asked.1, anchor, anchor.saturating_add(asked.0 >> 14)].map(Tick::new) {
            let _ = (clock_map.interval(y), clock_map.estimate(y), clock_map.span(y, Tick::new(asked.1)));
            let _ = (clock_map.inverse(Tick::new(asked.0)), clock_map.relative_bound(tickscope_tick::Span::new(asked.1)));
        }
        let _ = clock_map.segments(Tick::new(anchor.saturating_sub(99)), Tick::new(anchor.saturating_add(asked.0 >> 30)));
    }
}

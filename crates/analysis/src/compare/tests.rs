//! Comparisons of series whose law is known.
//!
//! Red if correlation within a run is passed over, if figures share no confidence, if a bound of the clocks is averaged
//! away, or if a wrong stage is named.

use super::*;

/// Seeded random numbers: SplitMix64 (Steele, Lea and Flood 2014).
struct Dice(u64);

impl Dice {
    /// Above 0 and below 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((bits ^ (bits >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Of the standard normal distribution.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

const TRACES: usize = 2_000;
/// Stages of the path, and the whole.
const STAGES: usize = 4;
/// Correlation of a value's slow part with the next one's.
const SLOW: f64 = 0.97;

/// The stages of a run, their sum last: skewed, correlated, in steps of two ticks, with detours of some traces. The
/// stages take `factors` as long.
fn run(dice: &mut Dice, factors: [f64; STAGES - 1]) -> Vec<Vec<i64>> {
    let mut stages: Vec<Vec<i64>> = factors.iter().map(|factor| stage(dice, *factor)).collect();
    stages.push((0..TRACES).map(|at| stages.iter().map(|stage| stage[at]).sum()).collect());
    stages
}

fn stage(dice: &mut Dice, factor: f64) -> Vec<i64> {
    let (mut slow, mut detour) = (dice.normal(), 0);
    let value = |_| {
        slow = SLOW * slow + (1.0 - SLOW * SLOW).sqrt() * dice.normal();
        let mut ticks = 20_000.0 * (0.1 * slow + 0.3 * dice.normal()).exp();
        if detour == 0 && dice.uniform() < 0.002 {
            detour = 1 + (dice.uniform() * 6.0) as u32;
        } else if detour > 0 {
            detour -= 1;
            ticks += 50_000.0 * (1.0 + 5.0 * dice.uniform());
        }
        (factor * ticks) as i64 / 2 * 2
    };
    (0..TRACES).map(value).collect()
}

/// The table of series; all intervals reach `reach` ticks around their estimates.
fn table(before: &[Vec<Vec<i64>>], after: &[Vec<Vec<i64>>], reach: i64) -> RunComparison {
    let quantiles = [Quantile::MEDIAN, Quantile::P99];
    let confidence = confidence(before[0].len() * quantiles.len()).unwrap();
    let figure = |series: &[i64], quantile| {
        let timed = series.iter().zip(0..).map(|(&ticks, at)| [at, ticks, ticks - reach, ticks + reach]);
        RunFigure::of(&mut timed.collect::<Vec<_>>(), quantile, confidence)
    };
    let stages = (0..before[0].len()).map(|stage| {
        let change = |&quantile: &Quantile| {
            let sides = [before, after].map(|side| side.iter().map(|run| figure(&run[stage], quantile)).collect());
            QuantileChange::of(name(quantile), &sides, confidence, None).unwrap()
        };
        let its = if stage + 1 < STAGES { StageRole::Path } else { StageRole::EndToEnd };
        let changes = quantiles.iter().map(change).collect();
        StageChange { stage: stage.to_string(), from: String::new(), to: String::new(), role: role(its), changes }
    });
    RunComparison {
        runs: [before.len(), after.len()],
        hertz: 1_000_000_000,
        confidence_per_million: 950_000,
        stages: stages.collect(),
        not_compared: Default::default(),
        notes: Vec::new(),
    }
}

fn tells_a_change(table: &RunComparison) -> bool {
    table.changes().any(|(_, change)| change.verdict == ChangeVerdict::Changed)
}

const PAIRS: usize = 400;

#[test]
fn of_pairs_of_equal_runs_at_most_8_of_100_tables_tell_a_change() {
    let mut dice = Dice(20_260_317);
    let mut equal = || run(&mut dice, [1.0; STAGES - 1]);
    let alarms = (0..PAIRS).filter(|_| tells_a_change(&table(&[equal()], &[equal()], 0))).count();
    assert!(100 * alarms <= 8 * PAIRS, "{alarms} of {PAIRS}");
}

#[test]
fn of_runs_that_differ_without_any_change_at_most_8_of_100_tables_tell_one_if_there_are_several() {
    let mut dice = Dice(7);
    let mut alarms = 0;
    let tables = PAIRS / 6;
    for _ in 0..tables {
        let mut side = |_| {
            let mut run_of = |_| {
                let placement = [0; STAGES - 1].map(|_| (0.05 * dice.normal()).exp());
                run(&mut dice, placement)
            };
            (0..6).map(&mut run_of).collect::<Vec<_>>()
        };
        let [before, after] = [0, 1].map(&mut side);
        alarms += usize::from(tells_a_change(&table(&before, &after, 0)));
    }
    assert!(100 * alarms <= 8 * tables, "{alarms} of {tables}");
}

#[test]
fn a_stage_that_takes_a_quarter_longer_is_found_and_no_other_is_named() {
    let mut dice = Dice(5);
    let mut found = 0;
    for _ in 0..20 {
        let before = run(&mut dice, [1.0, 1.0, 0.3]);
        let after = run(&mut dice, [1.0, 1.25, 0.3]);
        let table = table(&[before], &[after], 10);
        if let Some(most) = table.most_changed() {
            assert_eq!((most.stage, most.quantile), (1, 0), "{:?}", table.stages);
            found += 1;
        }
    }
    assert!(found >= 15, "{found} of 20");
}

/// Values from a hundred on, in an order without a drift, and so much longer.
fn even(longer: i64) -> Vec<i64> {
    (0..TRACES as i64).map(|at| 100_000 + longer + at * 7_919 % 1_000).collect()
}

#[test]
fn the_clocks_of_both_sides_are_added_whole_to_either_end_however_many_traces_there_are() {
    let of = |reach| table(&[vec![even(0)]], &[vec![even(300)]], reach).stages[0].changes[0].clone();
    let (exact, wide) = (of(0), of(200));
    let (exact_shift, shift) = (exact.shift.unwrap(), wide.shift.unwrap());
    assert_eq!((exact.verdict, exact_shift.ticks), (ChangeVerdict::Changed, 300));
    assert_eq!((exact_shift.clocks_below_ticks, shift.clocks_below_ticks, shift.clocks_above_ticks), (0, 400, 400));
    assert_eq!(shift.lo_ticks, exact_shift.lo_ticks.map(|lo| lo - 400));
    assert_eq!(shift.hi_ticks, exact_shift.hi_ticks.map(|hi| hi + 400));
    // 300 +- 400 is no more than a twentieth of 100 000: no change by more than that.
    assert!(matches!(wide.verdict, ChangeVerdict::NotChanged { by_more_than_ticks: 700.. }), "{:?}", wide.verdict);
    let few = of(6_000).verdict;
    assert!(
        matches!(few, ChangeVerdict::NotResolved { limited_by: LimitedBy::Clocks, needs: Some(1..6_000) }),
        "{few:?}"
    );
}

#[test]
fn the_clocks_of_several_runs_are_not_averaged_away_and_few_runs_say_how_many_would_do() {
    let side = |longer: i64, runs: i64| (0..runs).map(|run| vec![even(longer + run)]).collect::<Vec<_>>();
    let of = |runs, reach| table(&side(0, runs), &side(300, runs), reach).stages[0].changes[0].clone();
    for (runs, reach) in [(6, 0), (6, 200), (12, 200)] {
        let shift = of(runs, reach).shift.unwrap();
        assert_eq!(
            (shift.ticks, shift.clocks_below_ticks, shift.clocks_above_ticks),
            (300, 2 * reach as u64, 400.min(2 * reach) as u64)
        );
        assert_eq!(shift.statistics_lo_ticks.unwrap() - shift.lo_ticks.unwrap(), 2 * reach);
        assert_eq!(shift.hi_ticks.unwrap() - shift.statistics_hi_ticks.unwrap(), 2 * reach);
    }
    let few = of(4, 0);
    assert_eq!(few.verdict, ChangeVerdict::NotResolved { limited_by: LimitedBy::Runs, needs: Some(5) });
    assert_eq!(of(5, 0).verdict, ChangeVerdict::Changed);
}

#[test]
fn too_few_traces_no_traces_and_equal_ones_have_a_verdict_each() {
    let of = |before: &[i64], after: &[i64]| {
        table(&[vec![before.to_vec()]], &[vec![after.to_vec()]], 0).stages[0].changes[0].clone()
    };
    assert_eq!(of(&[5], &[5]).verdict, ChangeVerdict::NotResolved { limited_by: LimitedBy::Traces, needs: Some(80) });
    assert_eq!(of(&[], &[5]).verdict, ChangeVerdict::NotResolved { limited_by: LimitedBy::Missing, needs: None });
    let equal = of(&[40; 100], &[40; 100]);
    assert_eq!(
        (equal.verdict, equal.shift.unwrap().hi_ticks),
        (ChangeVerdict::NotChanged { by_more_than_ticks: 0 }, Some(0))
    );
    assert_eq!(of(&[40; 100], &[42; 100]).verdict, ChangeVerdict::Changed);
}

#[test]
fn a_tolerance_makes_small_changes_none_and_says_what_is_in_the_way_of_others() {
    let shift = |ticks: i64, spread: i64, clocks: u64| Shift {
        ticks,
        lo_ticks: Some(ticks - spread - clocks as i64),
        hi_ticks: Some(ticks + spread + clocks as i64),
        statistics_lo_ticks: Some(ticks - spread),
        statistics_hi_ticks: Some(ticks + spread),
        clocks_below_ticks: clocks,
        clocks_above_ticks: clocks,
    };
    let of = |shift: Shift, tolerance| ChangeVerdict::of(&shift, 1_000, tolerance, None);
    let tenth = Some((ChangeTolerance::PerMillion(100_000), 1));
    assert_eq!(of(shift(30, 5, 5), None), ChangeVerdict::Changed, "a sure change is one, however small");
    assert_eq!(of(shift(30, 5, 5), tenth), ChangeVerdict::NotChanged { by_more_than_ticks: 40 });
    assert_eq!(of(shift(-95, 5, 5), tenth), ChangeVerdict::Changed);
    assert_eq!(
        of(shift(30, 5, 5), Some((ChangeTolerance::Picoseconds(39_000), 1_000_000_000))),
        ChangeVerdict::Changed
    );
    let limit = |shift| match of(shift, tenth) {
        ChangeVerdict::NotResolved { limited_by, needs } => (limited_by, needs),
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(shift(30, 10, 90)), (LimitedBy::Clocks, Some(60)));
    assert_eq!(limit(shift(30, 140, 10)), (LimitedBy::Statistics, Some(6)), "to fall from 140 to 60");
    assert_eq!(limit(shift(30, 140, 90)), (LimitedBy::Both, None));
}

#[test]
fn ticks_of_other_counters_are_scaled_outward_with_what_their_frequencies_leave_open() {
    let scale = run_figures::Scale::between([3, 1], 100);
    let ends = scale.of(run_figures::Ends { ticks: 3_000_000, lo: 2_999_999, hi: 3_000_001 });
    assert_eq!(ends.ticks, 1_000_000);
    assert!(ends.lo <= 999_999 - 100 && ends.lo > 999_999 - 105, "{ends:?}");
    assert!(ends.hi >= 1_000_001 + 100 && ends.hi < 1_000_001 + 105, "{ends:?}");
}

#[test]
fn quantiles_have_the_names_that_people_give_them() {
    let named = |share| name(Quantile::per_million(share).unwrap());
    assert_eq!([500_000, 999_000, 999_900, 1_000_000, 5_000].map(named), ["p50", "p99.9", "p99.99", "p100", "p0.5"]);
}

/// One counter may be slow by all of its tolerance: what it took for a tick less is one of the other's.
#[test]
fn a_counter_at_the_end_of_its_tolerance_is_within_what_is_told() {
    for tolerance_ppm in [1, 9_000, 20_000, 50_000, 100_000] {
        let scale = run_figures::Scale::between([1, 1], tolerance_ppm);
        let truth = 1_000_000_000_i64;
        for told in [
            truth * (1_000_000 - i64::from(tolerance_ppm)) / 1_000_000,
            truth * (1_000_000 + i64::from(tolerance_ppm)) / 1_000_000,
        ] {
            let found = scale.of(run_figures::Ends { ticks: told, lo: told, hi: told });
            assert!(found.lo <= truth && truth <= found.hi, "{tolerance_ppm} ppm: {} to {}", found.lo, found.hi);
        }
    }
}

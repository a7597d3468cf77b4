//! Comparisons of runs against counting every pair and every way to deal the runs, and against R's wilcox.test.
//!
//! Red if a tie is counted as a whole win, if the chance leaves out one side or the value itself, if its variance is
//! not corrected for ties or continuity, or if the shift or its interval is a rank off.

use proptest::prelude::*;
use tickscope_stats::{Comparison, Confidence, EXACT_RUNS, Error, LIMIT_TICKS, Sample, ShiftInterval};

fn sample(values: &[i64]) -> Sample {
    Sample::new(values).unwrap()
}

/// Of pairs (other greater, equal), twice U.
fn twice_u(base: &[i64], other: &[i64]) -> u128 {
    let pairs = other.iter().flat_map(|y| base.iter().map(move |x| y.cmp(x) as i8 + 1));
    pairs.map(|worth| worth as u128).sum()
}

/// The share of all ways to deal the values in which U lies as far from its expectation, or farther.
fn chance_by_dealing(base: &[i64], other: &[i64]) -> f64 {
    let pooled = [base, other].concat();
    let pairs = (base.len() * other.len()) as u128;
    let far = twice_u(base, other).abs_diff(pairs);
    let (mut as_far, mut all) = (0, 0);
    for deal in (0u32..1 << pooled.len()).filter(|deal| deal.count_ones() as usize == other.len()) {
        let of = |kind: bool| -> Vec<i64> {
            (0..pooled.len()).filter(|&k| (deal >> k & 1 == 1) == kind).map(|k| pooled[k]).collect()
        };
        all += 1;
        as_far += u32::from(twice_u(&of(false), &of(true)).abs_diff(pairs) >= far);
    }
    f64::from(as_far) / f64::from(all)
}

fn runs(values: std::ops::Range<i64>, counts: std::ops::Range<usize>) -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(values, counts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn property_the_chance_is_the_share_of_deals_as_far_from_even(base in runs(0..6, 1..6), other in runs(0..6, 1..6)) {
        let (base, other) = (base.as_slice(), other.as_slice());
        let test = Comparison::new(&sample(base), &sample(other)).unwrap().mann_whitney();
        prop_assert!(test.exact);
        prop_assert_eq!((test.twice_u, test.pairs), (twice_u(base, other), (base.len() * other.len()) as u128));
        prop_assert!((test.chance - chance_by_dealing(base, other)).abs() < 1e-12);
    }

    #[test]
    fn property_shift_and_delta_are_those_of_all_pairs(base in runs(-40..40, 1..90), other in runs(-40..60, 1..90)) {
        let (of_base, of_other) = (sample(&base), sample(&other));
        let comparison = Comparison::new(&of_base, &of_other).unwrap();
        let mut differences: Vec<i64> = other.iter().flat_map(|y| base.iter().map(move |x| y - x)).collect();
        differences.sort_unstable();
        let (count, middle) = (differences.len(), differences.len() / 2);
        let median = (differences[(count - 1) / 2] + differences[middle]) as f64 / 2.0;
        prop_assert_eq!(comparison.shift(), median);
        let sign: i64 = differences.iter().map(|difference| difference.signum()).sum();
        prop_assert_eq!(comparison.cliffs_delta(), sign as f64 / count as f64);
        let ShiftInterval { lo, hi } = comparison.shift_interval(Confidence::P95);
        prop_assert!(lo.is_none_or(|lo| lo as f64 <= median) && hi.is_none_or(|hi| median <= hi as f64));
    }
}

#[test]
fn chance_shift_and_interval_are_rs() {
    let numbers = |text: &str| -> Vec<f64> { text.split_whitespace().map(|word| word.parse().unwrap()).collect() };
    let values = |text: &str| -> Vec<i64> { text.split_whitespace().map(|word| word.parse().unwrap()).collect() };
    let (mut counted, mut normal) = (0, 0);
    for line in include_str!("r/comparison.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.split(';');
        let [base, other] = [(); 2].map(|()| sample(&values(parts.next().unwrap())));
        let answer = numbers(parts.next().unwrap());
        let comparison = Comparison::new(&base, &other).unwrap();
        let test = comparison.mann_whitney();
        assert_eq!(test.twice_u as f64 / 2.0, answer[0], "{line}");
        assert!((test.chance / answer[1] - 1.0).abs() < 1e-10, "expected {}, found {}: {line}", answer[1], test.chance);
        assert_eq!(test.exact, base.count() + other.count() <= EXACT_RUNS);
        if let Some(&[shift, lo, hi]) = answer.get(2..5) {
            let interval = ShiftInterval { lo: Some(lo as i64), hi: Some(hi as i64) };
            assert_eq!((comparison.shift(), comparison.shift_interval(Confidence::P95)), (shift, interval), "{line}");
            counted += 1;
        } else {
            normal += 1;
        }
    }
    assert_eq!((counted, normal), (60, 40));
}

#[test]
fn three_runs_against_three_have_no_interval_of_95_percent_and_four_have_one() {
    let interval = |count: i64| {
        let [base, other] = [0, 10].map(|from| sample(&(from..from + count).collect::<Vec<_>>()));
        Comparison::new(&base, &other).unwrap().shift_interval(Confidence::P95)
    };
    assert_eq!(interval(3), ShiftInterval { lo: None, hi: None });
    // 2 of C(8, 4) = 70 deals are the farthest: 2.86 %.
    assert_eq!(interval(4), ShiftInterval { lo: Some(7), hi: Some(13) });
}

#[test]
fn the_interval_hardly_changes_where_counting_ends_and_the_normal_begins() {
    let interval = |count: i64| {
        let base = sample(&(0..EXACT_RUNS as i64 / 2).map(|k| k * 100).collect::<Vec<_>>());
        let other = sample(&(0..count).map(|k| k * 100 + 7).collect::<Vec<_>>());
        assert_eq!(Comparison::new(&base, &other).unwrap().mann_whitney().exact, count <= EXACT_RUNS as i64 / 2);
        Comparison::new(&base, &other).unwrap().shift_interval(Confidence::P95)
    };
    let (counted, normal) = (interval(EXACT_RUNS as i64 / 2), interval(EXACT_RUNS as i64 / 2 + 1));
    assert!(normal.lo.unwrap().abs_diff(counted.lo.unwrap()) <= 100, "{counted:?} {normal:?}");
    assert!(normal.hi.unwrap().abs_diff(counted.hi.unwrap()) <= 200, "{counted:?} {normal:?}");
}

#[test]
fn runs_that_are_all_equal_differ_by_chance_1() {
    for count in [5, 50] {
        let equal = sample(&vec![7; count]);
        let comparison = Comparison::new(&equal, &equal).unwrap();
        assert_eq!((comparison.mann_whitney().chance, comparison.shift(), comparison.cliffs_delta()), (1.0, 0.0, 0.0));
    }
}

#[test]
fn runs_too_far_apart_are_refused_with_both_ends() {
    let limit = LIMIT_TICKS as i64;
    let (near, far) = (sample(&[0]), sample(&[limit]));
    assert_eq!(Comparison::new(&near, &far).unwrap_err(), Error::Apart(0, limit));
    assert_eq!(Comparison::new(&near, &sample(&[limit - 1])).unwrap().shift(), (limit - 1) as f64);
}

#[test]
fn runs_have_an_interval_from_the_number_on_that_is_told() {
    for confidence in [800_000, 950_000, 993_750, 999_900].map(|share| Confidence::per_million(share).unwrap()) {
        for (base, other) in (1..12).flat_map(|base| (1..12).map(move |other| (base, other))) {
            let [of_base, of_other] = [base, other].map(|count| sample(&(0..count).collect::<Vec<i64>>()));
            let found = Comparison::new(&of_base, &of_other).unwrap().shift_interval(confidence);
            let is_met = confidence.is_met_by_runs(base as usize, other as usize);
            assert_eq!((found.lo.is_some(), found.hi.is_some()), (is_met, is_met), "{base} and {other}");
        }
    }
}

//! Moments against exact fractions, L-moments against what they are defined as, autocorrelation against R.
//!
//! Red if the variance is divided by one less, if 3 is subtracted from the kurtosis, if a weight of an L-moment is
//! off by one place, or if each lag has a mean of its own.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use proptest::prelude::*;
use tickscope_stats::{LMoments, Sample, autocorrelation};

fn whole(value: i64) -> BigRational {
    BigInt::from(value).into()
}

fn central(values: &[i64], power: i32) -> BigRational {
    let count = whole(values.len() as i64);
    let mean = values.iter().map(|&value| whole(value)).sum::<BigRational>() / &count;
    values.iter().map(|&value| (whole(value) - &mean).pow(power)).sum::<BigRational>() / count
}

/// Hosking (1990), equation 2.1: the mean over all subsets of `r` values of `1/r sum (-1)^k C(r-1, k) x_(r-k)`.
fn l_moment(values: &[i64], r: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let binomial = [[1, 0, 0, 0], [1, -1, 0, 0], [1, -2, 1, 0], [1, -3, 3, -1]][r - 1];
    let (mut sum, mut subsets) = (0, 0);
    for chosen in (0u32..1 << sorted.len()).filter(|chosen| chosen.count_ones() as usize == r) {
        let subset: Vec<i64> = (0..sorted.len()).filter(|k| chosen >> k & 1 == 1).map(|k| sorted[k]).collect();
        sum += subset.iter().rev().zip(binomial).map(|(value, weight)| value * weight).sum::<i64>();
        subsets += 1;
    }
    (subsets > 0).then(|| sum as f64 / (subsets * r as i64) as f64)
}

fn near(found: Option<f64>, expected: Option<f64>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * (1.0 + expected.abs()),
        (found, expected) => found.is_none() && expected.is_none(),
    }
}

proptest! {
    #[test]
    fn property_moments_are_those_of_exact_fractions(
        mut values in prop::collection::vec(-1000i64..1000, 1..60), offset in prop::sample::select(vec![0i64, 1 << 50]),
        giant in prop::bool::ANY,
    ) {
        values.iter_mut().for_each(|value| *value += offset);
        if giant {
            values[0] += 1 << 30;
        }
        let found = Sample::new(&values).unwrap().moments();
        let [m2, m3, m4] = [2, 3, 4].map(|power| central(&values, power));
        prop_assert!(near(Some(found.variance), m2.to_f64()));
        // g1 squared is a fraction; the root is not.
        let g1 = (!m2.is_zero()).then(|| (m3.pow(2) / m2.pow(3)).to_f64().unwrap().sqrt() * m3.to_f64().unwrap().signum());
        let b2 = (!m2.is_zero()).then(|| (m4 / m2.pow(2)).to_f64().unwrap());
        prop_assert!(near(found.skewness, g1), "{:?} {g1:?}", found.skewness);
        prop_assert!(near(found.kurtosis, b2), "{:?} {b2:?}", found.kurtosis);
    }

    #[test]
    fn property_l_moments_are_means_over_all_subsets(values in prop::collection::vec(-50i64..50, 1..10)) {
        let found = Sample::new(&values).unwrap().l_moments();
        let [l1, l2, l3, l4] = [1, 2, 3, 4].map(|r| l_moment(&values, r));
        let ratio = |of: Option<f64>| of.zip(l2).filter(|(_, l2)| *l2 > 0.0).map(|(of, l2)| of / l2);
        prop_assert!(near(Some(found.location), l1));
        prop_assert!(near(found.scale, l2), "{:?} {l2:?}", found.scale);
        prop_assert!(near(found.skewness, ratio(l3)), "{:?} {:?}", found.skewness, ratio(l3));
        prop_assert!(near(found.kurtosis, ratio(l4)), "{:?} {:?}", found.kurtosis, ratio(l4));
    }
}

#[test]
fn one_giant_among_many_saturates_the_moments() {
    let values: Vec<i64> = (0..10_000).map(|k| if k == 0 { 1 << 40 } else { 20 }).collect();
    let moments = Sample::new(&values).unwrap().moments();
    // (n - 2) / sqrt(n - 1), and that squared plus 1.
    let most = 9_998.0 / 9_999f64.sqrt();
    assert!(near(moments.skewness, Some(most)) && near(moments.kurtosis, Some(most * most + 1.0)));
}

#[test]
fn equal_values_have_no_shape() {
    let equal = Sample::new(&[5; 4]).unwrap();
    let moments = equal.moments();
    assert_eq!((moments.mean, moments.variance, moments.skewness, moments.kurtosis), (5.0, 0.0, None, None));
    assert_eq!(equal.l_moments(), LMoments { location: 5.0, scale: Some(0.0), skewness: None, kurtosis: None });
}

#[test]
fn autocorrelation_is_rs_acf() {
    let mut compared = 0;
    for line in include_str!("r/series.txt").lines().filter(|line| !line.starts_with('#')) {
        let (answers, series) = line.split_once(':').unwrap();
        let series: Vec<i64> = series.split_whitespace().map(|value| value.parse().unwrap()).collect();
        for (answer, lag) in answers.split_whitespace().map(|answer| answer.parse::<f64>().unwrap()).zip(1..) {
            assert!(near(autocorrelation(&series, lag), Some(answer)), "lag {lag}: {line}");
            compared += 1;
        }
    }
    assert_eq!(compared, 150);
}

#[test]
fn autocorrelation_needs_two_values_that_far_apart_and_some_spread() {
    assert_eq!(autocorrelation(&[1, 2, 4], 0), Some(1.0));
    assert!(autocorrelation(&[1, 2, 4], 2).is_some());
    assert_eq!([autocorrelation(&[1, 2, 4], 3), autocorrelation(&[7, 7, 7], 1), autocorrelation(&[], 0)], [None; 3]);
}

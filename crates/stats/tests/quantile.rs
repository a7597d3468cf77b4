//! Quantiles and what their population's lie between, against counting and exact binomial sums.
//!
//! Red if a rank is one off, if a tail takes more than its half of what the confidence leaves, or wastes a rank of it.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use proptest::prelude::*;
use tickscope_stats::{Confidence, Quantile, Ranks, Sample};

#[test]
fn a_quantile_is_the_smallest_value_that_its_share_of_values_does_not_exceed() {
    let of = |share, count: i64| Quantile::per_million(share).unwrap().of(&mut (1..=count).rev().collect::<Vec<_>>());
    assert_eq!([of(500_000, 1), of(500_000, 2), of(500_000, 3), of(500_000, 4)], [1, 1, 2, 2].map(Some));
    assert_eq!([of(990_000, 100), of(990_000, 101), of(70_000, 100)], [99, 100, 7].map(Some));
    assert_eq!([of(0, 5), of(1, 5), of(1_000_000, 5)], [1, 1, 5].map(Some));
    assert_eq!(of(500_000, 0), None);
    assert!(Quantile::per_million(1_000_001).unwrap_err().to_string().contains("found 1000001"));
}

proptest! {
    #[test]
    fn property_at_least_the_share_lies_at_or_below_a_quantile_and_less_than_it_below(
        values in prop::collection::vec(-20i64..20, 1..80), share in 1u32..=1_000_000,
    ) {
        let found = Quantile::per_million(share).unwrap().of(&mut values.clone()).unwrap();
        let needed = u64::from(share) * values.len() as u64;
        let millions = |count: usize| count as u64 * 1_000_000;
        prop_assert!(millions(values.iter().filter(|&&value| value <= found).count()) >= needed);
        prop_assert!(millions(values.iter().filter(|&&value| value < found).count()) < needed);
    }
}

#[test]
fn a_quantile_is_the_largest_of_few_values_and_not_of_as_many_as_it_needs() {
    let of = |millionths, count| Quantile::per_million(millionths).unwrap().is_largest_of(count);
    assert_eq!([0, 1, 99, 100].map(|count| of(990_000, count)), [false, true, true, false]);
    assert_eq!([999, 1000].map(|count| of(999_000, count)), [true, false]);
    assert!(!of(1_000_000, 5), "asked for as the largest");
}

/// Chances of 0, 1, ... `count` successes, exactly.
fn binomial(count: usize, millionths: u32) -> Vec<BigRational> {
    let chance = BigRational::new(millionths.into(), 1_000_000.into());
    let fails = BigRational::one() - &chance;
    let mut chances = vec![BigRational::one()];
    for _ in 0..count {
        let mut next = vec![BigRational::zero(); chances.len() + 1];
        for (k, at) in chances.iter().enumerate() {
            next[k] += at * &fails;
            next[k + 1] += at * &chance;
        }
        chances = next;
    }
    chances
}

/// The chance that the quantile lies below the value of a rank, and above it.
fn beside(chances: &[BigRational], rank: usize) -> (BigRational, BigRational) {
    (chances[..rank].iter().sum(), chances[rank..].iter().sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn property_the_ranks_are_the_narrowest_whose_tails_fit_exactly(
        count in 1usize..40, share in 0u32..=1_000_000, confidence in 1u32..1_000_000,
    ) {
        let quantile = Quantile::per_million(share).unwrap();
        let Ranks { lo, hi, coverage } = quantile.ranks(count, Confidence::per_million(confidence).unwrap());
        let chances = binomial(count, share);
        let tail = BigRational::new(BigInt::from(1_000_000 - confidence), 2_000_000.into());
        let fits_lo = |rank: usize| rank == 0 || beside(&chances, rank).0 <= tail;
        let fits_hi = |rank: usize| rank > count || beside(&chances, rank).1 <= tail;
        let (low, high) = (lo.unwrap_or(0), hi.unwrap_or(count + 1));
        prop_assert!(fits_lo(low) && fits_hi(high));
        prop_assert!(low == count || !fits_lo(low + 1), "a higher rank would do as lower end");
        prop_assert!(high == 1 || !fits_hi(high - 1), "a lower rank would do as upper end");
        let outside = |rank: Option<usize>, side: fn((BigRational, BigRational)) -> BigRational| {
            rank.map_or(BigRational::zero(), |rank| side(beside(&chances, rank)))
        };
        let exact = BigRational::one() - outside(lo, |both| both.0) - outside(hi, |both| both.1);
        prop_assert!((coverage - exact.to_f64().unwrap()).abs() < 1e-9);
    }
}

#[test]
fn ranks_of_the_median_are_those_of_the_printed_tables() {
    // Conover, Practical Nonparametric Statistics, table A3 (sign test): the largest rank with at most 2.5 % below it.
    for (count, lo) in
        [(5, None), (6, Some(1)), (9, Some(2)), (12, Some(3)), (20, Some(6)), (30, Some(10)), (50, Some(18))]
    {
        let ranks = Quantile::MEDIAN.ranks(count, Confidence::P95);
        assert_eq!((ranks.lo, ranks.hi), (lo, lo.map(|lo| count + 1 - lo)), "{count} values");
        assert!(ranks.lo.is_none() || ranks.coverage >= 0.95);
    }
}

#[test]
fn ranks_of_large_samples_are_rs_qbinom() {
    // qbinom(0.025, n, p) and qbinom(0.975, n, p) + 1, R 4.2.2.
    for (count, share, lo, hi) in [
        (1_000, 10_000, 4, 18),
        (1_000, 500_000, 469, 532),
        (1_000, 950_000, 936, 964),
        (1_000, 990_000, 983, 997),
        (10_007, 10_000, 81, 121),
        (10_007, 500_000, 4_905, 5_103),
        (10_007, 950_000, 9_463, 9_550),
        (10_007, 990_000, 9_887, 9_927),
        (10_007, 999_000, 9_990, 10_004),
        (1_000_000, 10_000, 9_805, 10_196),
        (1_000_000, 500_000, 499_020, 500_981),
        (1_000_000, 950_000, 949_572, 950_428),
        (1_000_000, 990_000, 989_805, 990_196),
        (1_000_000, 999_000, 998_938, 999_062),
    ] {
        let ranks = Quantile::per_million(share).unwrap().ranks(count, Confidence::P95);
        assert_eq!((ranks.lo, ranks.hi), (Some(lo), Some(hi)), "{count} values, {share} millionths");
    }
}

#[test]
fn a_sample_too_small_for_an_end_says_so_and_a_certain_end_stays() {
    let sample = Sample::new(&(1..=100).collect::<Vec<_>>()).unwrap();
    let p99 = sample.interval(Quantile::P99, Confidence::P95);
    assert_eq!((p99.lo, p99.hi), (Some(97), None));
    let median = sample.interval(Quantile::MEDIAN, Confidence::P95);
    assert_eq!((median.lo, median.hi), (Some(40), Some(61)));
    let all = sample.interval(Quantile::MAXIMUM, Confidence::P99);
    assert_eq!((all.lo, all.hi, all.coverage), (Some(100), None, 1.0));
}

#[test]
fn a_confidence_is_refused_at_0_and_1() {
    assert!(Confidence::per_million(1).is_ok() && Confidence::per_million(999_999).is_ok());
    assert!(Confidence::per_million(0).is_err() && Confidence::per_million(1_000_000).is_err());
}

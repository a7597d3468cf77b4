//! Whatever the values: no question panics, and what is refused is refused with both ends.
//!
//! Red if a distance, a product or a fence leaves its integer.

use std::num::NonZeroU64;

use proptest::prelude::*;
use tickscope_stats::{
    Abstention, Comparison, Confidence, Error, LIMIT_TICKS, Quantile, Rule, Sample, autocorrelation,
};

/// From the ends of the integers, as far apart as a sample may be, and too far.
fn values() -> impl Strategy<Value = Vec<i64>> {
    let limit = LIMIT_TICKS as i64;
    let base = prop::sample::select(vec![0, i64::MIN, i64::MAX - limit + 1, -limit / 2]);
    let spread = prop::sample::select(vec![1, 3, 1000, limit - 1, limit]);
    (base, spread, prop::sample::select(vec![1usize, 2, 3, 30, 401])).prop_flat_map(|(base, spread, count)| {
        let value =
            prop_oneof![Just(0), Just(spread), 0..=spread].prop_map(move |distance| base.saturating_add(distance));
        prop::collection::vec(value, count)
    })
}

/// Fewer cases than under `make test-all`, which sets TICKSCOPE_TESTS.
fn cases() -> u32 {
    std::env::var_os("TICKSCOPE_TESTS").map_or(100, |_| 300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn property_no_values_panic_whatever_is_asked(values in values(), share in 0u32..=1_000_000, factor in 0u32..=u32::MAX) {
        autocorrelation(&values, 1);
        let (least, most) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        let sample = match Sample::new(&values) {
            Ok(sample) => sample,
            Err(refusal) => {
                prop_assert_eq!(refusal, Error::Apart(least, most));
                prop_assert!(most.abs_diff(least) >= LIMIT_TICKS);
                return Ok(());
            }
        };
        let quantile = Quantile::per_million(share).unwrap();
        let interval = sample.interval(quantile, Confidence::P95);
        let value = sample.quantile(quantile);
        prop_assert!(interval.lo.is_none_or(|lo| lo <= value) && interval.hi.is_none_or(|hi| value <= hi));
        let medcouple = sample.medcouple();
        prop_assert!(medcouple.numerator().abs() <= medcouple.denominator());
        prop_assert!(sample.moments().variance >= 0.0 && sample.l_moments().scale.is_none_or(|scale| scale >= 0.0));
        let free = Rule::Distance { quantile, factor_thousandths: factor };
        for rule in Rule::NAMED.map(|(_, rule)| rule).into_iter().chain([free]) {
            for step in [None, NonZeroU64::new(1), NonZeroU64::new(u64::MAX)] {
                match rule.threshold(&sample, step) {
                    Ok(threshold) => {
                        prop_assert!(threshold.upper >= sample.quantile(Quantile::MEDIAN), "{}", rule);
                        prop_assert!(threshold.removal.count < sample.count());
                        prop_assert!(sample.without(&threshold).is_some());
                    }
                    Err(Abstention { instead, .. }) => {
                        prop_assert!(instead.is_none_or(|other| other.threshold(&sample, step).is_ok()), "{}", rule);
                    }
                }
            }
        }
        let comparison = Comparison::new(&sample, &sample).unwrap();
        prop_assert_eq!((comparison.shift(), comparison.cliffs_delta()), (0.0, 0.0));
        prop_assert_eq!(comparison.mann_whitney().chance, 1.0);
        comparison.shift_interval(Confidence::P99);
    }
}

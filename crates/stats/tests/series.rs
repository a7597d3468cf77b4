//! Quantiles of series that are correlated, or not.
//!
//! Red if the order in time is passed over, if ties or few values are, or if blocks that resemble each other count as
//! independent.

use proptest::prelude::*;
use tickscope_stats::{BLOCKS, Confidence, FEWEST_BLOCKS, FEWEST_OF_A_BLOCK, Quantile, SeriesRanks};

fn ranks(series: &[i64], quantile: Quantile) -> SeriesRanks {
    quantile.series_ranks(series, Confidence::P95).unwrap()
}

/// Ranks between the ends; all where one end is open.
fn width(series: &[i64]) -> usize {
    let SeriesRanks { lo, hi, .. } = ranks(series, Quantile::MEDIAN);
    hi.unwrap_or(series.len()) - lo.unwrap_or(0)
}

#[test]
fn a_run_of_one_value_is_that_value_and_few_values_are_refused() {
    let fewest = FEWEST_BLOCKS * FEWEST_OF_A_BLOCK;
    let SeriesRanks { lo, hi, block_correlation } = ranks(&vec![7; fewest], Quantile::MEDIAN);
    assert!(lo.is_some() && hi.is_some() && block_correlation == 0.0);
    assert_eq!(Quantile::MEDIAN.series_ranks(&vec![7; fewest - 1], Confidence::P95), None);
    assert_eq!(Quantile::MEDIAN.series_ranks(&[], Confidence::P95), None);
}

#[test]
fn the_same_values_say_less_the_longer_neighbours_resemble_each_other() {
    let count = 100 * BLOCKS as i64;
    let mixed: Vec<i64> = (0..count).map(|at| at * 7_919 % count).collect();
    // Half of the blocks are low, half of them high; then the first half of the run is low, and the second high.
    let blocks: Vec<i64> = (0..count).map(|at| mixed[at as usize] % 10 + at / 100 % 2 * 10).collect();
    let drift: Vec<i64> = (0..count).map(|at| mixed[at as usize] % 10 + at / (count / 2) * 10).collect();
    let [mixed, blocks, drift] = [mixed, blocks, drift].map(|series| width(&series));
    assert!(mixed * 5 < blocks && blocks < drift, "{mixed} {blocks} {drift}");
    assert_eq!(drift, count as usize, "it says nothing of the median");
}

proptest! {
    #[test]
    fn property_no_interval_is_narrower_than_that_of_independent_values(
        values in prop::collection::vec(0..50_i64, 80..600), share in 20_000..=980_000_u32,
    ) {
        let quantile = Quantile::per_million(share).unwrap();
        let SeriesRanks { lo, hi, .. } = ranks(&values, quantile);
        let (count, share) = (values.len() as f64, f64::from(share) / 1e6);
        let independent = 1.959 * (count * share * (1.0 - share)).sqrt();
        prop_assert!(lo.is_none_or(|lo| lo as f64 <= count * share - independent));
        prop_assert!(hi.is_none_or(|hi| hi as f64 >= count * share + independent && hi <= values.len()));
    }
}

//! The medcouple beside two that were written by others or otherwise: the definition itself, pair by pair in exact
//! fractions, and what R's robustbase answered.
//!
//! Red if a tie at the median counts otherwise than the definition says, if the upper of two middle values is taken,
//! or if the selection is a rank off.

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use proptest::prelude::*;
use tickscope_stats::{Error, LIMIT_TICKS, Medcouple, Sample};

/// Brys, Hubert and Struyf (2004), equations 2.1 to 2.3, in the order that they are printed.
fn by_definition(values: &[i64]) -> Ratio<i128> {
    let mut sorted: Vec<Ratio<i128>> = values.iter().map(|&value| Ratio::from(i128::from(value))).collect();
    sorted.sort_unstable();
    let median = middle(&sorted);
    let upper: Vec<_> = sorted.iter().copied().filter(|&value| value >= median).collect();
    let lower: Vec<_> = sorted.iter().copied().filter(|&value| value <= median).collect();
    let tied = sorted.iter().filter(|&&value| value == median).count() as i128;
    let mut kernels = Vec::new();
    for (i, &a) in upper.iter().enumerate() {
        for (j, &b) in lower.iter().enumerate() {
            kernels.push(if a == b {
                // From 1, among the tied: the first of the upper values, the last of the lower ones.
                let (i, j) = (i as i128 + 1, (j + tied as usize - lower.len()) as i128 + 1);
                Ratio::from((i + j - 1 - tied).signum())
            } else {
                ((a - median) - (median - b)) / (a - b)
            });
        }
    }
    kernels.sort_unstable();
    middle(&kernels)
}

fn middle(sorted: &[Ratio<i128>]) -> Ratio<i128> {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / Ratio::from(2)
}

fn medcouple(values: &[i64]) -> Medcouple {
    Sample::new(values).unwrap().medcouple()
}

fn fraction(found: Medcouple) -> Ratio<i128> {
    Ratio::new(found.numerator(), found.denominator())
}

/// Few different values, so that ties are everywhere: at the median, beside it, and among the fractions.
fn tied(counts: std::ops::Range<usize>) -> impl Strategy<Value = Vec<i64>> {
    let step = prop::sample::select(vec![1i64, 2, 1_000_003]);
    let span = prop::sample::select(vec![1i64, 2, 3, 5, 9, 40, 500]);
    (step, span, 0i64..100, counts).prop_flat_map(|(step, span, lean, count)| {
        let value = (0..span, 0i64..100, 1i64..30).prop_map(move |(value, chance, far)| {
            if chance < lean / 4 { (value + far * far) * step } else { value * step }
        });
        prop::collection::vec(value, count)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn property_the_medcouple_of_tied_ticks_is_the_definitions(values in tied(1..45)) {
        prop_assert_eq!(fraction(medcouple(&values)), by_definition(&values));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn property_the_medcouple_of_any_ticks_is_the_definitions(values in prop::collection::vec(-(1i64 << 28)..1 << 28, 1..60)) {
        prop_assert_eq!(fraction(medcouple(&values)), by_definition(&values));
    }

    #[test]
    fn property_the_medcouple_of_the_mirrored_sample_is_its_negative(values in tied(1..200)) {
        let mirrored: Vec<i64> = values.iter().map(|value| -value).collect();
        prop_assert_eq!(fraction(medcouple(&mirrored)), -fraction(medcouple(&values)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    // Long enough that the pairs are narrowed down by coarser grids before they are looked at.
    #[test]
    fn property_the_medcouple_of_long_samples_is_the_definitions(values in tied(450..600)) {
        prop_assert_eq!(fraction(medcouple(&values)), by_definition(&values));
    }

    #[test]
    fn property_the_medcouple_of_long_samples_without_ties_is_the_definitions(
        values in prop::collection::vec(-(1i64 << 28)..1 << 28, 450..600),
    ) {
        prop_assert_eq!(fraction(medcouple(&values)), by_definition(&values));
    }
}

#[test]
fn the_medcouple_is_robustbases_on_480_samples() {
    let kept = include_str!("r/medcouple.txt");
    let mut compared = 0;
    for line in kept.lines().filter(|line| !line.starts_with('#')) {
        let (answer, values) = line.split_once(':').unwrap();
        let values: Vec<i64> = values.split_whitespace().map(|value| value.parse().unwrap()).collect();
        let (found, answer) = (medcouple(&values).value(), answer.parse::<f64>().unwrap());
        assert!((found - answer).abs() < 1e-12, "expected {answer}, found {found}: {values:?}");
        compared += 1;
    }
    assert_eq!(compared, 480);
}

#[test]
fn the_medcouple_is_exact_up_to_the_limit_of_a_sample() {
    let most = LIMIT_TICKS as i64 - 1;
    let found = medcouple(&[0, 1, 2, most - 1, most]);
    assert_eq!(fraction(found), Ratio::new(i128::from(most) - 4, i128::from(most)));

    // Of 16 fractions without ties the mean of the middle two, whose parts are as large as they get.
    let values = [0, 3, 17, 101, most - 1000, most - 170, most - 6, most].map(|value| value - most / 2);
    let whole = |value: i64| BigRational::from(BigInt::from(value));
    let median = (whole(values[3]) + whole(values[4])) / whole(2);
    let kernel = |a: i64, b: i64| (whole(a) + whole(b) - whole(2) * &median) / (whole(a) - whole(b));
    let mut kernels: Vec<BigRational> =
        values[4..].iter().flat_map(|&a| values[..4].iter().map(move |&b| (a, b))).map(|(a, b)| kernel(a, b)).collect();
    kernels.sort();
    let expected = (&kernels[7] + &kernels[8]) / whole(2);
    let found = medcouple(&values);
    assert_eq!(BigRational::new(found.numerator().into(), found.denominator().into()), expected);
    assert!(found.denominator() > 1 << 100, "the fraction is a large one");
    assert_eq!(Sample::new(&[0, most + 1]).unwrap_err(), Error::Apart(0, most + 1));
    assert_eq!(Sample::new(&[]).unwrap_err(), Error::Empty);
}

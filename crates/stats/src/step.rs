//! Step by which a counter advances, found in values that were read from it.
//!
//! A clock of 10 ns that is read in ticks of 0.41 ns advances by 24 or 25 of them, and durations of it lie on a
//! lattice of that width, with values one apart where the rounding of two readings differs. So neither the greatest
//! common divisor of the distances nor the smallest of them is the step; the widest distance that is common is.
//!
//! Only the lower half is asked: outliers are not there. Where it is all one value, the next one may be a step away or
//! another mode; it is a step where the same distance occurs again.

use std::num::NonZeroU64;

use crate::sample::LIMIT_TICKS;

/// A distance is common that this part of the neighbours has, or a wider one.
const COMMON_PART: usize = 10;
/// Fewer neighbours show no step.
const FEWEST: usize = 12;

/// Two different values without another between them.
struct Neighbours {
    distance: i64,
    /// Count of the rarer of the two: a value on its own far away is no neighbour of many.
    count: usize,
}

/// The step that values in ascending order show; one tick where they show none.
pub(crate) fn found(sorted: &[i64]) -> i64 {
    let body = neighbours(&sorted[..sorted.len().div_ceil(2)]);
    widest_common(body).or_else(|| repeated(&neighbours(sorted))).unwrap_or(1)
}

/// A step given by the caller, as a distance of values of one sample.
pub(crate) fn given(step: NonZeroU64) -> i64 {
    step.get().min(LIMIT_TICKS) as i64
}

fn neighbours(sorted: &[i64]) -> Vec<Neighbours> {
    let groups: Vec<&[i64]> = sorted.chunk_by(|a, b| a == b).collect();
    let of =
        |pair: &[&[i64]]| Neighbours { distance: pair[1][0] - pair[0][0], count: pair[0].len().min(pair[1].len()) };
    groups.windows(2).map(of).collect()
}

fn widest_common(mut body: Vec<Neighbours>) -> Option<i64> {
    let all: usize = body.iter().map(|pair| pair.count).sum();
    body.sort_unstable_by_key(|pair| -pair.distance);
    let mut as_wide = 0;
    let mut is_common = |pair: &Neighbours| {
        as_wide += pair.count;
        as_wide * COMMON_PART >= all
    };
    body.into_iter().find(|pair| is_common(pair)).filter(|_| all >= FEWEST).map(|pair| pair.distance)
}

/// The distance of the first two common values, if others have it too; one tick more or less is rounding.
fn repeated(all: &[Neighbours]) -> Option<i64> {
    let mut common = all.iter().filter(|pair| pair.count >= FEWEST).map(|pair| pair.distance);
    let first = common.next()?;
    common.filter(|distance| distance.abs_diff(first) <= 1).max().map(|other| other.max(first))
}

#[cfg(test)]
mod tests {
    use super::found;

    fn sorted(counts: &[(i64, usize)]) -> Vec<i64> {
        let mut values: Vec<i64> = counts.iter().flat_map(|&(value, count)| vec![value; count]).collect();
        values.sort_unstable();
        values
    }

    #[test]
    fn a_step_is_the_widest_distance_that_is_common_not_the_smallest_nor_a_divisor() {
        // What an EPYC reads for the same work: a counter of 100 MHz in ticks of 2.45 GHz.
        let lattice = [(269, 70), (270, 65), (294, 834), (318, 14), (319, 12)];
        assert_eq!(found(&sorted(&lattice)), 24);
        let wide: Vec<(i64, usize)> = (0..40).flat_map(|k| [(k * 49 / 2, 10), (k * 49 / 2 + k % 2, 10)]).collect();
        assert_eq!(found(&sorted(&wide)), 24);
        assert_eq!(found(&sorted(&[(0, 333), (1000, 333), (2000, 333)])), 1000);
        assert_eq!(found(&(0..1000).collect::<Vec<_>>()), 1);
    }

    #[test]
    fn values_on_their_own_and_outliers_of_the_upper_half_are_no_steps() {
        assert_eq!(found(&sorted(&[(-50_000, 1), (20, 600), (22, 300), (24, 50)])), 2);
        assert_eq!(found(&sorted(&[(20, 700), (25_020, 300)])), 1);
        assert_eq!(found(&sorted(&[(20, 400), (22, 300), (25_020, 150), (50_020, 150)])), 2);
    }

    #[test]
    fn one_value_in_the_lower_half_leaves_the_step_to_a_distance_that_repeats() {
        assert_eq!(found(&sorted(&[(10, 550), (20, 250), (30, 80), (40, 20)])), 10);
        assert_eq!(found(&sorted(&[(294, 600), (318, 150), (319, 150), (343, 50)])), 24);
        assert_eq!(found(&sorted(&[(294, 600), (319, 150), (343, 50)])), 25);
        assert_eq!(found(&sorted(&[(20, 700), (22, 300)])), 1);
        assert_eq!(found(&[7, 7, 7]), 1);
    }
}

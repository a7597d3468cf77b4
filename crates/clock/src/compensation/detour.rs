//! Which trials something other than reading lengthened: an interrupt, a preemption, the hypervisor.
//!
//! Method I fails there, because what interrupts falls into one of the readings and not into the others (the Cm* study,
//! 4.6), so figures are given with and without such trials (5.2). The evidence is the time that all readings of a trial
//! took together: what is longer than usual by a microsecond and by eight times the usual spread was not reading.
//! Deliberately absent: what the interruption was.

use tickscope_stats::{Quantile, Sample};

/// Times from the median to the 95 % quantile: so many more are no reading's.
const SPREADS: i64 = 8;

/// For each trial whether its readings were lengthened; `spent` is what they took together, `least` the shortest
/// interruption in the same unit: a microsecond, which every one takes.
pub fn touched(spent: &[i64], least: i64) -> Vec<bool> {
    let Ok(sample) = Sample::new(spent) else { return vec![false; spent.len()] };
    let usual = sample.quantile(Quantile::MEDIAN);
    let limit = usual + least.max(SPREADS * (sample.quantile(Quantile::P95) - usual));
    spent.iter().map(|&spent| spent > limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_usual_by_a_microsecond_and_by_eight_spreads_was_interrupted() {
        let mut spent = vec![100; 95];
        spent.extend([110, 1_100, 1_101, 5_000]);
        let found = touched(&spent, 1_000);
        assert_eq!(found.iter().filter(|&&touched| touched).count(), 2);
        assert_eq!(found[96..], [false, true, true]);
        // A reading that varies by 200 is not interrupted where it takes 1 600 more.
        let spent: Vec<i64> = (0..100).map(|of| if of < 90 { 100 } else { 300 }).chain([1_700, 1_701]).collect();
        assert_eq!(touched(&spent, 1_000)[100..], [false, true]);
        assert!(touched(&[], 1).is_empty());
    }
}

//! Cost of a reading from the injection of a load until it has settled. The Cm* study (4.1) injects the timed
//! experiment into a settled load, and leaves open which transients *that* causes; here the load is what is injected.
//!
//! The members of the load all begin at once, every period, and rest after half of it; a reader goes on all the time.
//! Its readings are laid over one another by when in the period they ended, so that what every injection does shows and
//! what else happens does not.

use serde::Serialize;
use tickscope_stats::Quantile;

use super::recording::Slice;

/// Slices of a period.
const SLICES: usize = 40;

/// Costs of one clock's readings while a load is injected again and again.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Transient {
    /// The clock's name.
    pub clock: String,
    /// From one injection to the next, nanoseconds; the load works in the first half.
    pub period_ns: f64,
    /// How often it was injected.
    pub injections: u64,
    /// The period in slices of equal length.
    pub slices: Vec<Slice>,
    /// The median cost in the second half of the work, when start-up is over; `None`: no reading ended there.
    pub settled_ticks: Option<i64>,
    /// From the injection until the cost stays within what it is in the second half of the work; 0: at once. `None`: no
    /// reading.
    pub settles_after_ns: Option<f64>,
}

impl Transient {
    /// Lays readings (when each ended and what it took, ticks) over one another, under a load injected first at
    /// `origin` and then every `period`.
    pub fn of(clock: String, stamped: &[[i64; 2]], origin: i64, period: i64, ns: f64) -> Self {
        let mut costs = vec![Vec::new(); SLICES];
        for &[at, ticks] in stamped {
            let slice = i128::from((at - origin).rem_euclid(period)) * SLICES as i128 / i128::from(period);
            costs[slice as usize].push(ticks);
        }
        let slices: Vec<Slice> = costs.into_iter().map(Slice::of).collect();
        let (work, settled) = (&slices[..SLICES / 2], &slices[SLICES / 4..SLICES / 2]);
        let mut later: Vec<i64> = settled.iter().filter_map(|slice| slice.cost_ticks).collect();
        let range = later.iter().min().zip(later.iter().max());
        let settles = range.map(|(least, most)| {
            let within = |slice: &Slice| slice.cost_ticks.is_none_or(|cost| (*least..=*most).contains(&cost));
            let last = work.iter().rposition(|slice| !within(slice));
            last.map_or(0.0, |last| (last + 1) as f64 / SLICES as f64 * period as f64 * ns)
        });
        let all = stamped.first().zip(stamped.last()).map_or(0, |(first, last)| (last[0] - first[0]) / period);
        Self {
            clock,
            period_ns: period as f64 * ns,
            injections: all.max(0) as u64,
            settled_ticks: Quantile::MEDIAN.of(&mut later),
            settles_after_ns: settles,
            slices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_settles_at_the_first_slice_from_which_it_is_what_it_stays() {
        // 80 injections, a reading every 25 ticks of 1000: dear for the first 200, 60 while the load works, else 40.
        let cost = |phase: i64| {
            if phase < 200 {
                90 - phase / 10
            } else if phase < 500 {
                60
            } else {
                40
            }
        };
        let stamped: Vec<[i64; 2]> = (0..80 * 40).map(|n| n * 25).map(|at| [7 + at, cost(at % 1_000)]).collect();
        let found = Transient::of("a clock".into(), &stamped, 7, 1_000, 2.0);
        assert_eq!((found.settled_ticks, found.settles_after_ns), (Some(60), Some(400.0)));
        assert_eq!(
            (found.injections, found.slices[0].cost_ticks, found.slices[39].cost_ticks),
            (79, Some(90), Some(40))
        );
        let at_once = Transient::of(
            "a clock".into(),
            &stamped.iter().map(|&[at, _]| [at, 50]).collect::<Vec<_>>(),
            7,
            1_000,
            2.0,
        );
        assert_eq!(at_once.settles_after_ns, Some(0.0));
        assert_eq!(Transient::of("a clock".into(), &[], 0, 1_000, 1.0).settles_after_ns, None);
    }
}

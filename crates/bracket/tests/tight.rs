//! Evidence so tight that nothing may be a tick off: a rate that turns at the anchor from the slowest to the fastest
//! that rho allows, bracketed exactly. Only `r0` itself fits the programme, and the interval is the truth itself.
//!
//! Red if rho is halved, if a bound is rounded inward by one tick, if one constraint is dropped, or a slope rounded
//! inward.

use tickscope_bracket::{Bracket, ClockMap, Error, Model, Ratio, Rho};
use tickscope_tick::Tick;

/// 1/512: slopes of `r0 = 1` are then exact in binary, so that not even a slope is rounded.
const RHO_PPB: u32 = 1_953_125;
/// The truth is whole at every multiple of this.
const GRAIN: i64 = 512;
const REACH: i64 = 1 << 30;

/// `f(y) = y + |y| / 512`.
fn truth(y: i64) -> i64 {
    y + y.abs() / GRAIN
}

fn evidence() -> Vec<Bracket> {
    let ticks = [0, REACH, -REACH];
    ticks.map(|y| Bracket::new(Some(truth(y)), y, Some(truth(y)))).to_vec()
}

fn clock_map(brackets: &[Bracket], rho_ppb: u32) -> Result<ClockMap, Error> {
    let rho = Rho::declared_ppb(rho_ppb).unwrap();
    ClockMap::new(brackets, &Model { prior_ppm: 10_000, ..Model::new(rho, Ratio::new(1, 1).unwrap(), Tick::new(0)) })
}

fn ends(clock_map: &ClockMap, y: i64) -> (i64, i64) {
    let interval = clock_map.interval(Tick::new(y)).unwrap();
    (interval.lo().get(), interval.hi().get())
}

#[test]
fn on_tight_evidence_the_interval_is_the_truth_itself() {
    let clock_map = clock_map(&evidence(), RHO_PPB).unwrap();
    assert_eq!(clock_map.cone().r_min(), clock_map.cone().r_max());
    for y in (-REACH..REACH).step_by((REACH / 64) as usize) {
        assert_eq!(ends(&clock_map, y), (truth(y), truth(y)), "at {y}");
        assert_eq!(ends(&clock_map, y + 1).0, if y < 0 { truth(y) } else { truth(y) + 1 }, "rounded down after {y}");
    }
}

#[test]
fn on_tight_evidence_a_bound_between_two_whole_ticks_is_both_of_them() {
    let clock_map = clock_map(&evidence(), RHO_PPB).unwrap();
    let half = GRAIN * 1000 + GRAIN / 2;
    assert_eq!(ends(&clock_map, half), (truth(half), truth(half) + 1));
    assert_eq!(ends(&clock_map, -half), (truth(-half), truth(-half) + 1));
    let span = clock_map.span(Tick::new(0), Tick::new(half)).unwrap();
    assert_eq!((span.lo().get(), span.hi().get()), (truth(half), truth(half) + 1));
}

#[test]
fn on_tight_evidence_estimates_round_down_and_the_inverse_outward() {
    let clock_map = clock_map(&evidence(), RHO_PPB).unwrap();
    let half = GRAIN * 1000 + GRAIN / 2;
    let estimate = |y: i64| clock_map.estimate(Tick::new(y)).unwrap().get();
    assert_eq!([half - GRAIN / 2, half, -half].map(estimate), [truth(half - GRAIN / 2), truth(half), truth(-half)]);
    let inverse = |asked: i64| clock_map.inverse(Tick::new(asked)).map(|local| (local.lo().get(), local.hi().get()));
    let whole = GRAIN * 1000;
    assert_eq!([whole, -whole].map(|y| inverse(truth(y)).unwrap()), [(whole, whole), (-whole, -whole)]);
    assert_eq!(inverse(truth(whole) + 1).unwrap(), (whole, whole + 1));
}

#[test]
fn the_one_rate_that_fits_may_be_an_end_of_the_prior_and_nothing_past_it_is_taken() {
    const PRIOR_PPM: u32 = 500;
    let model = |prior_ppm| Model {
        prior_ppm,
        ..Model::new(Rho::declared_ppb(0).unwrap(), Ratio::new(1, 1).unwrap(), Tick::new(0))
    };
    for ticks_off in [500, -500] {
        let exactly = [0, 1_000_000]
            .map(|at| Bracket::new(Some(at + at / 1_000_000 * ticks_off), at, Some(at + at / 1_000_000 * ticks_off)));
        let clock_map = ClockMap::new(&exactly, &model(PRIOR_PPM)).unwrap();
        let end = Ratio::new((1_000_000 + ticks_off) as u64, 1_000_000).unwrap();
        assert_eq!([clock_map.cone().r_min(), clock_map.cone().r_max()], [end; 2]);
        assert!(matches!(ClockMap::new(&exactly, &model(PRIOR_PPM - 1)), Err(Error::Inconsistent(_))));
    }
}

#[test]
fn on_tight_evidence_half_of_rho_is_refused_and_the_true_rho_named() {
    for rho_ppb in [RHO_PPB / 2, RHO_PPB - 1] {
        let Err(Error::Inconsistent(report)) = clock_map(&evidence(), rho_ppb) else {
            panic!("rho {rho_ppb} must not fit");
        };
        assert_eq!(report.smallest_rho_ppb, Some(RHO_PPB));
    }
}

#[test]
fn on_tight_evidence_every_single_constraint_counts() {
    let complete = clock_map(&evidence(), RHO_PPB).unwrap();
    for dropped in 0..evidence().len() {
        let mut rest = evidence();
        let y = rest.remove(dropped).at.get();
        let without = clock_map(&rest, RHO_PPB).unwrap();
        let [of_all, of_rest] = [&complete, &without].map(|r| r.interval(Tick::new(y)).unwrap().width());
        assert!(of_all == 0 && of_rest > 0, "without the bracket at {y}: {of_rest}");
    }
}

/// 1/3 of 10^9: a slope that no binary fraction holds, over a distance that makes its rounding a hundredth of a tick.
#[test]
fn on_tight_evidence_a_slope_rounded_outward_still_holds_the_truth() {
    let third = 333_333_333_333_333;
    let truth = |y: i64| third + y + y.abs() / 1_000_000_000 * 3_333_333;
    let ticks = [0, 1, -1, 5, -5, 300_000, -300_000].map(|seconds| seconds * 1_000_000_000i64);
    let exactly = ticks.map(|y| Bracket::new(Some(truth(y)), y, Some(truth(y))));
    let clock_map = clock_map(&exactly, 3_333_333).unwrap();
    for y in ticks.into_iter().chain([77_777_000_000_000, -3_000_000_000]) {
        let interval = clock_map.interval(Tick::new(y)).unwrap();
        assert!(interval.contains(Tick::new(truth(y))) && interval.width() <= 2, "{interval:?}, {} at {y}", truth(y));
    }
}

//! Every answer against an oracle that shares no code and no method with the crate.

mod oracle;
mod world;

use oracle::{Oracle, ceil, floor, fraction, whole};
use proptest::prelude::*;
use tickscope_bracket::{Bracket, ClockMap, Error, LIMIT_TICKS};
use tickscope_tick::Tick;

/// Slopes are rounded outward by up to 2^-60, so evidence that misses by less than 2^51 of that may pass.
const ROUNDING: (i128, i128) = (1, 1 << 9);

/// Fewer cases than under `make test-all`, which sets TICKSCOPE_TESTS.
fn cases() -> u32 {
    std::env::var_os("TICKSCOPE_TESTS").map_or(40, |_| 120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn property_intervals_equal_the_oracle_within_one_tick_and_slopes_exactly(
        world in world::worlds(20_000, 24), ticks in prop::collection::vec(-(1i64 << 37)..1 << 38, 12),
    ) {
        let (brackets, model) = (world.brackets(), world.model(20_000));
        let (clock_map, oracle) = (ClockMap::new(&brackets, &model).unwrap(), Oracle::new(&brackets, &model).unwrap());
        let ends = [clock_map.cone().r_min(), clock_map.cone().r_max()]
            .map(|r| fraction(r.numerator() as i128, r.denominator() as i128));
        prop_assert_eq!(ends, [oracle.r_min.clone(), oracle.r_max.clone()]);
        for y in ticks.into_iter().chain(world.messages.iter().map(|m| m.at)).map(|y| world.local(y)) {
            let found = clock_map.interval(Tick::new(y)).unwrap();
            let (lo, hi) = (floor(&oracle.lo(y)), ceil(&oracle.hi(y)));
            prop_assert!((0..=1).contains(&(lo - found.lo().get())), "lo {lo}, found {found:?} at {y}");
            prop_assert!((0..=1).contains(&(found.hi().get() - hi)), "hi {hi}, found {found:?} at {y}");
        }
    }

    #[test]
    fn property_spans_equal_the_oracle_within_one_tick(
        world in world::worlds(20_000, 16), ticks in prop::collection::vec((-(1i64 << 37)..1 << 38, -(1i64 << 37)..1 << 38), 8),
    ) {
        let (brackets, model) = (world.brackets(), world.model(20_000));
        let (clock_map, oracle) = (ClockMap::new(&brackets, &model).unwrap(), Oracle::new(&brackets, &model).unwrap());
        for (from, to) in ticks.into_iter().map(|(from, to)| (world.local(from), world.local(to))) {
            let found = clock_map.span(Tick::new(from), Tick::new(to)).unwrap();
            let (lo, hi) = oracle.span(from, to);
            prop_assert!((0..=1).contains(&(lo - found.lo().get())), "lo {lo}, found {found:?}");
            prop_assert!((0..=1).contains(&(found.hi().get() - hi)), "hi {hi}, found {found:?}");
        }
    }

    #[test]
    fn property_a_year_apart_answers_equal_the_oracle_within_one_tick_and_contain_the_truth(
        world in world::far_worlds(20_000, 24),
        ticks in prop::collection::vec((1 - LIMIT_TICKS..LIMIT_TICKS, 1 - LIMIT_TICKS..LIMIT_TICKS), 6),
    ) {
        let (brackets, model) = (world.brackets(), world.model(20_000));
        let (clock_map, oracle) = (ClockMap::new(&brackets, &model).unwrap(), Oracle::new(&brackets, &model).unwrap());
        let ends = [clock_map.cone().r_min(), clock_map.cone().r_max()]
            .map(|r| fraction(r.numerator() as i128, r.denominator() as i128));
        prop_assert_eq!(ends, [oracle.r_min.clone(), oracle.r_max.clone()]);
        for (from, to) in ticks.into_iter().map(|(from, to)| (world.local(from), world.local(to))) {
            let (found, span) = (clock_map.interval(Tick::new(from)).unwrap(), clock_map.span(Tick::new(from), Tick::new(to)).unwrap());
            let (lo, hi) = (floor(&oracle.lo(from)), ceil(&oracle.hi(from)));
            prop_assert!((0..=1).contains(&(lo - found.lo().get())) && (0..=1).contains(&(found.hi().get() - hi)), "{found:?}");
            prop_assert!(found.contains(clock_map.estimate(Tick::new(from)).unwrap()));
            let (lo, hi) = oracle.span(from, to);
            prop_assert!((0..=1).contains(&(lo - span.lo().get())) && (0..=1).contains(&(span.hi().get() - hi)), "{span:?}");
        }
        for y in world.messages.iter().map(|m| m.at) {
            let (floor, ceil) = world.around(y);
            let (at, found) = (Tick::new(world.local(y)), clock_map.interval(Tick::new(world.local(y))).unwrap());
            prop_assert!(found.contains(Tick::new(floor)) && found.contains(Tick::new(ceil)));
            let [earliest, latest] = [floor, ceil].map(|truth| clock_map.inverse(Tick::new(truth)).unwrap());
            prop_assert!(earliest.lo() <= at && at <= latest.hi());
        }
    }

    #[test]
    fn property_a_year_apart_segments_hold_the_oracles_interval(
        world in world::far_worlds(20_000, 12), first in 1 - LIMIT_TICKS..LIMIT_TICKS - (1 << 33), inside in 0i64..1 << 33,
    ) {
        let (brackets, model) = (world.brackets(), world.model(20_000));
        let (clock_map, oracle) = (ClockMap::new(&brackets, &model).unwrap(), Oracle::new(&brackets, &model).unwrap());
        let (first, last) = (world.local(first), world.local(first) + (1 << 33));
        let segments = clock_map.segments(Tick::new(first), Tick::new(last)).unwrap();
        prop_assert!(segments.len() <= 256, "{}", segments.len());
        for y in [first, first + inside, last] {
            let segment = segments.iter().find(|segment| segment.first_b <= y && y <= segment.last_b).unwrap();
            let middle = segment.translate(y).unwrap();
            let (lo, hi) = (oracle.lo(y), oracle.hi(y));
            prop_assert!(whole(middle - segment.pad) <= lo && hi <= whole(middle + segment.pad), "{segment:?} at {y}");
        }
    }

    #[test]
    fn property_evidence_is_refused_exactly_where_the_oracle_finds_it_empty(
        world in world::worlds(20_000, 12), wrong in any::<prop::sample::Index>(), error in -200_000i64..200_000, rho in 0u32..20_000,
    ) {
        let (mut brackets, model) = (world.brackets(), world.model(rho));
        let wrong = wrong.index(brackets.len());
        brackets[wrong] = moved(brackets[wrong], error);
        let verdict = ClockMap::new(&brackets, &model).map(|_| ());
        let worst = Oracle::new(&brackets, &model).map(|oracle| oracle.worst_excess(&brackets));
        match (verdict, worst) {
            (Ok(()), worst) => prop_assert!(worst.is_some_and(|worst| worst <= fraction(ROUNDING.0, ROUNDING.1))),
            (Err(Error::Inconsistent(_)), worst) => prop_assert!(worst.is_none_or(|worst| worst > fraction(0, 1))),
            (Err(other), _) => prop_assert!(matches!(other, Error::Missing { .. } | Error::TooFar { .. }), "{other}"),
        }
    }
}

fn moved(bracket: Bracket, by: i64) -> Bracket {
    Bracket::new(bracket.before.map(|t| t.get() + by), bracket.at.get(), bracket.after.map(|t| t.get() + by))
}

//! Simulated clocks whose true map is known: the truth lies inside, at every tick tried, whenever rho covers the
//! wander.

mod world;

use proptest::prelude::*;
use tickscope_bracket::{Bracket, ClockMap, Model, Ratio, Rho};
use tickscope_tick::{Injection, Stairs, Tick};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn property_the_truth_lies_in_its_interval_at_every_tick_whenever_rho_covers_the_wander(
        world in world::worlds(5_000, 60), more in prop_oneof![Just(0u32), 0u32..50_000],
        ticks in prop::collection::vec(0i64..1 << 38, 30),
    ) {
        let clock_map = ClockMap::new(&world.brackets(), &world.model(5_000 + more)).unwrap();
        for y in ticks {
            let (floor, ceil) = world.around(y);
            let interval = clock_map.interval(Tick::new(world.local(y))).unwrap();
            prop_assert!(interval.lo().get() <= floor && ceil <= interval.hi().get(), "{floor}..{ceil}, {interval:?} at {y}");
        }
    }

    #[test]
    fn property_true_durations_lie_in_their_span_forward_and_back(
        world in world::worlds(5_000, 40), ticks in prop::collection::vec((0i64..1 << 38, 0i64..1 << 38), 20),
    ) {
        let clock_map = ClockMap::new(&world.brackets(), &world.model(5_000)).unwrap();
        for (from, to) in ticks {
            let (true_span, unit) = (world.exact(to) - world.exact(from), world.unit());
            let span = clock_map.span(Tick::new(world.local(from)), Tick::new(world.local(to))).unwrap();
            prop_assert!(i128::from(span.lo().get()) * unit <= true_span, "{true_span} / {unit}, {span:?}");
            prop_assert!(true_span <= i128::from(span.hi().get()) * unit, "{true_span} / {unit}, {span:?}");
        }
    }

    #[test]
    fn property_the_error_between_two_ticks_changes_by_no_more_than_the_relative_bound(
        world in world::worlds(5_000, 40), from in 0i64..1 << 38, apart in 0i64..1 << 36,
    ) {
        let clock_map = ClockMap::new(&world.brackets(), &world.model(5_000)).unwrap();
        let error = |y: i64| {
            let estimate = clock_map.estimate(Tick::new(world.local(y))).unwrap();
            (i128::from(estimate.get()) - i128::from(world.origin.1)) * world.unit() - world.exact(y)
        };
        let bound = clock_map.relative_bound(Tick::new(from + apart) - Tick::new(from));
        // One tick more: each estimate is rounded down.
        prop_assert!((error(from + apart) - error(from)).abs() <= (i128::from(bound) + 1) * world.unit());
    }

    #[test]
    fn property_an_injected_counter_is_found_again(
        drift in -300_000i64..300_000, wander in 0i64..10_000, period in 1i64..1 << 30, offset in -(1i64 << 50)..1 << 50,
        raw in prop::collection::vec((0i64..1 << 40, 0i64..9_000, 0i64..9_000), 2..60), asked in 0i64..1 << 40,
    ) {
        let map = Injection { anchor: 1 << 30, offset, drift_ppb: drift, wander_ppb: wander, wander_period: 2 * period, stairs: Stairs::default() };
        // The injected counter rounds down, so the instant of a reading may lie up to two true ticks earlier.
        let exchange = |(raw, there, back)| Bracket::new(Some(raw - there - 2), map.apply(raw), Some(raw + back));
        let brackets: Vec<Bracket> = raw.into_iter().map(exchange).collect();
        // The inverse map's rate wanders by wander / (1 + drift - wander), a little more than wander.
        let rho = Rho::declared_ppb(wander as u32 + wander as u32 / 1000 + 1).unwrap();
        let model = Model::new(rho, Ratio::new(1, 1).unwrap(), Tick::new(map.apply(1 << 39)));
        let interval = ClockMap::new(&brackets, &model).unwrap().interval(Tick::new(map.apply(asked))).unwrap();
        prop_assert!(interval.lo().get() <= asked && asked - 2 <= interval.hi().get(), "{interval:?}, {asked}");
    }
}

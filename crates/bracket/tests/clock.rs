//! A clock map as a clock: estimates telescope, the inverse and the segments for SQL never lose a tick.

mod world;

use proptest::prelude::*;
use tickscope_bracket::{ClockMap, Segment};
use tickscope_tick::{Local, Tick};

const RHO: i64 = 5_000;

fn clock_map(world: &world::World) -> ClockMap {
    ClockMap::new(&world.brackets(), &world.model(RHO as u32)).unwrap()
}

proptest! {
    #[test]
    fn property_estimates_lie_in_their_interval_and_never_step_back(
        world in world::worlds(RHO, 30), y in 0i64..1 << 38, apart in 1i64..1 << 20,
    ) {
        let clock_map = clock_map(&world);
        let (near, far) = (Tick::new(world.local(y)), Tick::new(world.local(y + apart)));
        let estimate = clock_map.estimate(near).unwrap();
        prop_assert!(clock_map.interval(near).unwrap().contains(estimate));
        prop_assert!(estimate <= clock_map.estimate(far).unwrap());
    }

    #[test]
    fn property_estimated_durations_lie_in_their_span_and_telescope(
        world in world::worlds(RHO, 30), ticks in prop::collection::vec(0i64..1 << 38, 2..8),
    ) {
        let clock_map = clock_map(&world);
        let ticks: Vec<Tick<Local>> = ticks.into_iter().map(|y| Tick::new(world.local(y))).collect();
        let estimates: Vec<i64> = ticks.iter().map(|&y| clock_map.estimate(y).unwrap().get()).collect();
        let mut sum = 0;
        for (tick, estimate) in ticks.windows(2).zip(estimates.windows(2)) {
            let (span, duration) = (clock_map.span(tick[0], tick[1]).unwrap(), estimate[1] - estimate[0]);
            prop_assert!(span.lo().get() <= duration && duration <= span.hi().get(), "{duration}, {span:?}");
            let back = clock_map.span(tick[1], tick[0]).unwrap();
            prop_assert_eq!((back.lo().get(), back.hi().get()), (-span.hi().get(), -span.lo().get()));
            sum += duration;
        }
        prop_assert_eq!(sum, estimates[estimates.len() - 1] - estimates[0]);
    }

    #[test]
    fn property_the_inverse_holds_every_tick_whose_interval_holds_the_question_and_is_no_wider(
        world in world::worlds(RHO, 30), y in 0i64..1 << 38, off in -100_000i64..100_000,
    ) {
        let clock_map = clock_map(&world);
        let y = Tick::new(world.local(y));
        let interval = clock_map.interval(y).unwrap();
        // The interval is rounded outward: its ends need not be reached, whatever lies inside them is.
        for asked in [interval.lo().get() + 1, interval.middle().get(), interval.hi().get() - 1] {
            let inside = interval.lo().get() < asked && asked < interval.hi().get();
            prop_assert!(!inside || clock_map.inverse(Tick::new(asked)).unwrap().contains(y), "{asked} from {y}");
        }
        let asked = Tick::new(interval.lo().get() + off);
        let inverse = clock_map.inverse(asked).unwrap();
        let before = clock_map.interval(Tick::new(inverse.lo().get() - 1)).unwrap();
        let beyond = clock_map.interval(Tick::new(inverse.hi().get() + 1)).unwrap();
        prop_assert!(before.hi() <= asked && asked <= Tick::new(beyond.lo().get() + 1), "{inverse:?} of {asked}");
    }

    #[test]
    fn property_the_true_local_tick_lies_in_the_inverse(world in world::worlds(RHO, 30), y in 0i64..1 << 38) {
        let clock_map = clock_map(&world);
        let (floor, ceil) = world.around(y);
        let (low, high) = (clock_map.inverse(Tick::new(floor)).unwrap(), clock_map.inverse(Tick::new(ceil)).unwrap());
        prop_assert!(low.lo().get() <= world.local(y) && world.local(y) <= high.hi().get());
    }

    #[test]
    fn property_segments_hold_the_exact_interval_at_every_tick_in_64_bits_and_are_tight(
        world in world::worlds(RHO, 30), from in -(1i64 << 36)..1 << 37, length in 0i64..1 << 38,
        inside in prop::collection::vec(any::<prop::sample::Index>(), 10),
    ) {
        let clock_map = clock_map(&world);
        let (from, to) = (world.local(from), world.local(from + length));
        let segments = clock_map.segments(Tick::new(from), Tick::new(to)).unwrap();
        prop_assert_eq!((segments[0].first_b, segments[segments.len() - 1].last_b), (from, to));
        for pair in segments.windows(2) {
            prop_assert_eq!(pair[0].last_b + 1, pair[1].first_b);
        }
        for segment in &segments {
            let places = inside.iter().map(|i| segment.first_b + i.index((segment.last_b - segment.first_b + 1) as usize) as i64);
            let bends = world.messages.iter().map(|m| world.local(m.at)).filter(|y| segment.first_b <= *y && *y <= segment.last_b);
            let ticks: Vec<i64> = places.chain(bends).chain([segment.first_b, segment.last_b]).collect();
            held(&clock_map, segment, &ticks)?;
        }
    }

    #[test]
    fn property_straight_lines_between_vertices_are_interval_and_estimate_at_every_tick(
        world in world::worlds(RHO, 30), from in -(1i64 << 36)..1 << 37, length in 0i64..1 << 38,
        inside in prop::collection::vec(any::<prop::sample::Index>(), 10),
    ) {
        let clock_map = clock_map(&world);
        let (from, to) = (world.local(from), world.local(from + length));
        let vertices = clock_map.vertices(Tick::new(from), Tick::new(to)).unwrap();
        prop_assert_eq!((vertices[0].at.get(), vertices[vertices.len() - 1].at.get()), (from, to));
        prop_assert!(clock_map.vertices(Tick::new(to), Tick::new(from)).unwrap().len() <= 1);
        for pair in vertices.windows(2) {
            let [(first, begin), (last, end)] = [0, 1].map(|end| (pair[end].at.get(), [pair[end].lo, pair[end].hi]));
            let apart = i128::from(last - first);
            for y in inside.iter().map(|i| first + i.index((last - first) as usize) as i64).chain([last]) {
                let along = |side: usize| begin[side] + (end[side] - begin[side]) / apart * i128::from(y - first);
                prop_assert_eq!([(end[0] - begin[0]) % apart, (end[1] - begin[1]) % apart], [0, 0]);
                let interval = clock_map.interval(Tick::new(y)).unwrap();
                let found = (along(0) >> 60, -(-along(1) >> 60), (along(0) + along(1)) >> 61);
                let estimate = clock_map.estimate(Tick::new(y)).unwrap().get();
                prop_assert_eq!(found, (interval.lo().get().into(), interval.hi().get().into(), estimate.into()));
            }
        }
    }
}

fn held(clock_map: &ClockMap, segment: &Segment, ticks: &[i64]) -> Result<(), TestCaseError> {
    let mut widest = 0;
    for &y in ticks {
        let interval = clock_map.interval(Tick::new(y)).unwrap();
        let product = (y - segment.anchor_b).checked_mul(segment.mult);
        prop_assert!(product.is_some_and(|product| product >= 0), "{segment:?} at {y}");
        let a = segment.base_a.checked_add(product.unwrap() >> segment.shift).unwrap();
        prop_assert_eq!(segment.translate(y), Some(a));
        let (lo, hi) = (a.checked_sub(segment.pad).unwrap(), a.checked_add(segment.pad).unwrap());
        prop_assert!(lo <= interval.lo().get() && interval.hi().get() <= hi, "{segment:?} at {y}: {interval:?}");
        widest = widest.max(interval.half_width());
    }
    // The crossings between two brackets, where the interval may be widest, are not all among the ticks tried.
    let widest = widest.max(crossing(clock_map, segment));
    prop_assert!(segment.pad as u64 <= widest + 2.max(widest / 50), "{segment:?}: half-width at most {widest}");
    Ok(())
}

/// The largest half-width at many ticks of the segment.
fn crossing(clock_map: &ClockMap, segment: &Segment) -> u64 {
    let length = i128::from(segment.last_b - segment.first_b);
    let tick = |k: i128| Tick::new(segment.first_b + (length * k / 5_000) as i64);
    let widths = clock_map.half_widths((0..=5_000).map(tick)).unwrap();
    widths.quantile(1, 1).unwrap()
}

#[test]
fn a_segment_prints_as_an_expression_of_sql() {
    let segment = Segment { first_b: 5, last_b: 9, anchor_b: 5, base_a: -3, mult: 7, shift: 2, pad: 4 };
    assert_eq!(segment.sql("at"), "(-3 + (((at - (5)) * 7) >> 2))");
    assert_eq!((segment.translate(9), segment.translate(4), segment.translate(10)), (Some(4), None, None));
}

//! What evidence does to a clock map: more of it never widens, less never narrows, and its order does not matter.

mod world;

use proptest::prelude::*;
use tickscope_bracket::{Bracket, ClockMap};
use tickscope_tick::{Interval, Reference, Tick};

const RHO: i64 = 5_000;

fn intervals(clock_map: &ClockMap, ticks: &[i64]) -> Vec<Interval<Tick<Reference>>> {
    ticks.iter().map(|&y| clock_map.interval(Tick::new(y)).unwrap()).collect()
}

/// The world's brackets with the first tick, and both sides, always in front: what stays when others leave.
fn kept_first(world: &world::World) -> Vec<Bracket> {
    let mut brackets = world.brackets();
    brackets.sort_by_key(|b| (b.before.is_none() || b.after.is_none(), b.at));
    brackets
}

proptest! {
    #[test]
    fn property_removing_a_bracket_never_narrows_an_interval_and_adding_one_never_widens_it(
        world in world::worlds(RHO, 30), removed in any::<prop::sample::Index>(), ticks in prop::collection::vec(0i64..1 << 38, 20),
    ) {
        let (brackets, model) = (kept_first(&world), world.model(RHO as u32));
        prop_assume!(brackets.len() > 1);
        let mut fewer = brackets.clone();
        fewer.remove(1 + removed.index(brackets.len() - 1));
        let ticks: Vec<i64> = ticks.into_iter().map(|y| world.local(y)).collect();
        let (more, fewer) = (ClockMap::new(&brackets, &model).unwrap(), ClockMap::new(&fewer, &model).unwrap());
        prop_assert!(fewer.cone().r_min() <= more.cone().r_min() && more.cone().r_max() <= fewer.cone().r_max());
        for (narrow, wide) in intervals(&more, &ticks).into_iter().zip(intervals(&fewer, &ticks)) {
            prop_assert!(wide.lo() <= narrow.lo() && narrow.hi() <= wide.hi(), "{narrow:?} within {wide:?}");
        }
    }

    #[test]
    fn property_the_order_of_the_evidence_does_not_matter_nor_do_copies(
        (world, shuffled) in world::worlds(RHO, 30).prop_flat_map(|world| {
            let brackets = [world.brackets(), world.brackets()].concat();
            (Just(world), Just(brackets).prop_shuffle())
        }),
        ticks in prop::collection::vec(0i64..1 << 38, 20),
    ) {
        let model = world.model(RHO as u32);
        let ticks: Vec<i64> = ticks.into_iter().map(|y| world.local(y)).collect();
        let (once, twice) = (ClockMap::new(&world.brackets(), &model).unwrap(), ClockMap::new(&shuffled, &model).unwrap());
        prop_assert_eq!(once.cone(), twice.cone());
        prop_assert_eq!(intervals(&once, &ticks), intervals(&twice, &ticks));
    }

    #[test]
    fn property_a_larger_rho_never_narrows_an_interval(
        world in world::worlds(RHO, 30), more in 0u32..100_000, ticks in prop::collection::vec(0i64..1 << 38, 20),
    ) {
        let ticks: Vec<i64> = ticks.into_iter().map(|y| world.local(y)).collect();
        let with = |rho: u32| intervals(&ClockMap::new(&world.brackets(), &world.model(rho)).unwrap(), &ticks);
        for (narrow, wide) in with(RHO as u32).into_iter().zip(with(RHO as u32 + more)) {
            prop_assert!(wide.lo() <= narrow.lo() && narrow.hi() <= wide.hi(), "{narrow:?} within {wide:?}");
        }
    }
}

//! Brackets kept as they come: the answers are those of all of them, and what is kept stays small.

mod nodes;
mod world;

use nodes::{Exchange, Node, brackets, model};
use proptest::prelude::*;
use tickscope_bracket::{ClockMap, KeptBrackets};
use tickscope_tick::Tick;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn property_what_is_kept_answers_as_all_brackets_do(
        world in world::worlds(5_000, 600), copies in 1usize..4,
        asked in prop::collection::vec(-(1i64 << 38)..1 << 38, 20),
    ) {
        let (all, model) = (world.brackets(), world.model(5_000));
        let mut kept = KeptBrackets::new(&model).unwrap();
        for _ in 0..copies {
            all.iter().for_each(|bracket| kept.add(bracket));
        }
        prop_assert_eq!(kept.count(), (copies * all.len()) as u64);
        let (some, every) = (kept.clock_map(&model).unwrap(), ClockMap::new(&all, &model).unwrap());
        prop_assert_eq!(some.cone(), every.cone());
        for y in asked {
            let tick = Tick::new(world.local(y));
            prop_assert_eq!(some.interval(tick), every.interval(tick));
            prop_assert_eq!(some.estimate(tick), every.estimate(tick));
        }
    }
}

#[test]
fn of_ten_thousand_exchanges_with_queues_few_are_kept() {
    let nodes: Vec<Node> =
        (0..2).map(|node| Node { first: node, hertz: (1, 1), drift_ppb: 0, rates: vec![(1, 0)] }).collect();
    let model = model(&nodes, 1, 0, 500, 0);
    let mut kept = KeptBrackets::new(&model).unwrap();
    let mut random = 1u64;
    for step in 1..10_000i64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let exchange =
            Exchange { instant: step * 250_000, there: (random >> 44) as i64, back: (random >> 45 & 0x7ffff) as i64 };
        brackets(&nodes[1], &nodes[0], exchange, 0).iter().for_each(|bracket| kept.add(bracket));
    }
    let left = kept.brackets().len();
    assert!((2..1_000).contains(&left), "{left}");
}

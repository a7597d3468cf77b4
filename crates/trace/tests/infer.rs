//! Layouts inferred from stamps, against the ways that made the stamps.

use proptest::prelude::*;
use tickscope_tick::Place;
use tickscope_trace::infer::{Inferred, MOST_POINTS, Sighting, infer};

const POINTS: usize = 7;
const IDS: usize = 400;

fn places(points: usize) -> Vec<Place> {
    (0..points).map(|point| format!("n.p{point:03}").parse().unwrap()).collect()
}

/// A stamp of the reference's own counter.
fn at(point: usize, tick: i64) -> Sighting {
    Sighting { point, counter: (0, tick, tick), reference: Some((tick, tick)) }
}

fn edges(inferred: &Inferred) -> Vec<(usize, usize)> {
    let number = |name: &str| name[3..].parse().unwrap();
    let mut edges: Vec<(usize, usize)> =
        inferred.edges.iter().map(|edge| (number(&edge.from), number(&edge.to))).collect();
    edges.sort_unstable();
    edges
}

/// Numbers without an end that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// Edges from a smaller number to a larger one; every way of an id is a walk along them.
fn any_edges() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let all: Vec<(usize, usize)> = (0..POINTS).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
    let picked = prop::collection::vec(prop::bool::weighted(0.3), all.len());
    let found = picked.prop_map(move |picked| {
        all.iter().zip(picked).filter(|(_, picked)| *picked).map(|(edge, _)| *edge).collect::<Vec<_>>()
    });
    found.prop_filter("an edge", |edges| !edges.is_empty())
}

/// Ids that each walk from a start along random edges to an end, with random delays.
fn walks(edges: &[(usize, usize)], dice: &mut Dice) -> Vec<Vec<Sighting>> {
    let is_start =
        |point: &usize| edges.iter().all(|edge| edge.1 != *point) && edges.iter().any(|edge| edge.0 == *point);
    let starts: Vec<usize> = (0..POINTS).filter(is_start).collect();
    let walk = |_| {
        let (mut point, mut tick) = (starts[dice.below(starts.len())], dice.below(1 << 30) as i64);
        let mut walk = vec![at(point, tick)];
        loop {
            let next: Vec<usize> = edges.iter().filter(|edge| edge.0 == point).map(|edge| edge.1).collect();
            if next.is_empty() {
                return walk;
            }
            point = next[dice.below(next.len())];
            tick += 1 + dice.below(1000) as i64;
            walk.push(at(point, tick));
        }
    };
    (0..IDS * 4).map(walk).collect()
}

/// Of the pairs of points that ids went through one right after the other, how many did, and how many had both.
fn steps(ids: &[Vec<Sighting>], (from, to): (usize, usize)) -> (usize, usize) {
    let place = |walk: &[Sighting], point| walk.iter().position(|sighting| sighting.point == point);
    let both = ids.iter().filter_map(|walk| Some((place(walk, from)?, place(walk, to)?)));
    both.fold((0, 0), |(direct, all), (from, to)| (direct + usize::from(to == from + 1), all + 1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn property_the_edges_that_ids_walked_are_found_again(walked in any_edges(), seed in any::<u64>()) {
        let ids = walks(&walked, &mut Dice(seed));
        let found = infer(&places(POINTS), &ids);
        let rare = |edge: &(usize, usize)| {
            let (direct, both) = steps(&ids, *edge);
            direct * 100 < both || both == 0
        };
        // A point that one in a hundred of the other's ids sees at most may count as one that does not meet it.
        let scarce = |edge: &(usize, usize)| {
            let of = |point| ids.iter().filter(|walk| walk.iter().any(|at| at.point == point)).count();
            steps(&ids, *edge).1 * 100 < of(edge.0).min(of(edge.1))
        };
        let expected: Vec<_> = walked.iter().copied().filter(|edge| !rare(edge) && !scarce(edge)).collect();
        let found = edges(&found);
        for edge in &expected {
            prop_assert!(found.contains(edge), "{edge:?} of {walked:?} is not in {found:?}");
        }
        for edge in &found {
            prop_assert!(walked.contains(edge), "{edge:?} in {found:?} is not of {walked:?}");
        }
    }

    #[test]
    fn property_no_edge_disagrees_with_more_than_one_id_in_a_hundred_whatever_the_order_of_stamps(
        ids in prop::collection::vec(prop::collection::vec((0..5usize, 0..6i64), 1..5), 1..60),
        copies in 1..5usize,
    ) {
        let ids: Vec<Vec<Sighting>> = ids.iter().map(|id| {
            let mut seen = [false; 5];
            let mut is_new = |point: usize| !std::mem::replace(&mut seen[point], true);
            id.iter().filter(|(point, _)| is_new(*point)).map(|&(point, tick)| at(point, tick)).collect()
        }).collect();
        let ids: Vec<_> = (0..copies).flat_map(|_| ids.clone()).collect();
        let found = infer(&places(5), &ids);
        let tick = |id: &[Sighting], point| id.iter().find(|at| at.point == point).map(|at| at.counter.1);
        for (from, to) in edges(&found) {
            let both = || ids.iter().filter_map(|id| Some((tick(id, from)?, tick(id, to)?)));
            let (agree, all) = (both().filter(|(from, to)| from < to).count(), both().count());
            prop_assert!(agree * 100 >= all * 99 && all > 0, "{from} > {to}: {agree} of {all}");
        }
        if let Some(layout) = found.layout() {
            prop_assert!(layout.parse(None).is_ok(), "{layout:?}");
        }
    }

    #[test]
    fn property_the_order_of_ids_stamps_and_points_changes_nothing(walked in any_edges(), seed in any::<u64>()) {
        let ids = walks(&walked, &mut Dice(seed));
        let found = infer(&places(POINTS), &ids);
        let turned: Vec<Vec<Sighting>> = ids.iter().rev().map(|walk| {
            walk.iter().rev().map(|sighting| Sighting { point: POINTS - 1 - sighting.point, ..*sighting }).collect()
        }).collect();
        let names: Vec<Place> = places(POINTS).into_iter().rev().collect();
        prop_assert_eq!(infer(&names, &turned), found);
    }
}

#[test]
fn points_whose_order_wanders_part_and_meet_again() {
    let id = |swapped: bool| {
        let (one, other) = if swapped { (30, 20) } else { (20, 30) };
        vec![at(0, 10), at(1, one), at(2, other), at(3, 40)]
    };
    let ids: Vec<_> = (0..1000).map(|number| id(number % 50 == 0)).collect();
    let found = infer(&places(4), &ids);
    assert_eq!(edges(&found), [(0, 1), (0, 2), (1, 3), (2, 3)], "two in a hundred disagree");
    assert_eq!((found.wandering.len(), found.wandering[0].agree, found.wandering[0].common), (1, 980, 1000));
    let ids: Vec<_> = (0..1000).map(|number| id(number % 100 == 0)).collect();
    let found = infer(&places(4), &ids);
    assert_eq!(edges(&found), [(0, 1), (1, 2), (2, 3)], "one in a hundred disagrees");
    assert_eq!(found.layout().unwrap().path, ["n.p000", "n.p001", "n.p002", "n.p003"]);
    let toml = found.toml().unwrap();
    assert!(toml.contains("  \"n.p002\",  # 99 % of 1000 ids\n") && toml.contains("\"n.p001\",  # 100 % of"), "{toml}");
}

#[test]
fn points_that_share_no_ids_are_chains_of_their_own_and_a_point_alone_is_left_out() {
    let ids = (0..10).map(|_| vec![at(0, 1), at(1, 2)]).chain((0..10).map(|_| vec![at(3, 9), at(2, 5)]));
    let ids: Vec<_> = ids.chain((0..10).map(|_| vec![at(4, 1)])).collect();
    let found = infer(&places(5), &ids);
    assert_eq!((edges(&found), found.alone.as_slice()), (vec![(0, 1), (2, 3)], &["n.p004".to_string()][..]));
    let layout = found.layout().unwrap().parse(None).unwrap();
    assert!(layout.is_inferred() && layout.stages().len() == 4, "{:?}", layout.stages());
}

#[test]
fn stamps_of_two_clocks_count_as_ordered_only_where_their_intervals_show_it() {
    let far = |point, tick: i64, reach: i64| Sighting {
        point,
        counter: (1, tick, tick),
        reference: Some((tick - reach, tick + reach)),
    };
    let ids =
        |reach: i64| (0..100).map(|_| vec![at(0, 100), far(1, 110, reach), far(2, 111, reach)]).collect::<Vec<_>>();
    assert_eq!(edges(&infer(&places(3), &ids(9))), [(0, 1), (1, 2)], "within one clock its own ticks decide");
    assert_eq!(edges(&infer(&places(3), &ids(10))), [(0, 2), (1, 2)], "they may be at the same time");
    let apart: Vec<_> =
        ids(0).into_iter().map(|id| id.into_iter().map(|s| Sighting { reference: None, ..s }).collect()).collect();
    assert_eq!(edges(&infer(&places(3), &apart)), [(1, 2)], "nothing relates the two clocks");
}

#[test]
fn an_order_that_leads_in_a_circle_is_no_order() {
    let pair = |from: usize, to: usize| (0..10).map(move |_| vec![at(from, 1), at(to, 2)]);
    let ids: Vec<_> = pair(0, 1).chain(pair(1, 2)).chain(pair(2, 0)).chain(pair(2, 3)).collect();
    let found = infer(&places(4), &ids);
    assert_eq!(edges(&found), [(2, 3)]);
    assert_eq!(infer(&places(MOST_POINTS + 1), &ids), infer(&places(MOST_POINTS + 1), &[]), "too many points");
}

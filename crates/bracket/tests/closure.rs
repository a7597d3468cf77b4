//! Several domains at once: the truth lies inside, nothing is looser than direct, and who contradicts is named.

mod nodes;

use nodes::{Exchange, Node, evidence, turned};
use proptest::prelude::*;
use tickscope_bracket::{Bracket, ClockMap, ClosureError, Conflict, Domains, Model, PairEvidence};
use tickscope_tick::Tick;

const SECOND: i64 = 2_500_000_000;
const WANDER: i64 = 5_000;

/// Nodes, all their pairs with exchanges, and the model's wander.
fn worlds() -> impl Strategy<Value = (Vec<Node>, Vec<PairEvidence>)> {
    let hertz = prop::sample::select(vec![(1u64, 1u64), (2, 5), (5, 2), (1_000_003, 999_983)]);
    let wander = prop_oneof![Just(WANDER), Just(-WANDER), -WANDER..=WANDER];
    let rates = prop::collection::vec((1i64..SECOND, wander), 1..6);
    let first = prop::sample::select(vec![0i64, 1 << 59, -(1 << 60), 77]);
    let node = (first, hertz, -100_000i64..100_000, rates).prop_map(|(first, hertz, drift_ppb, rates)| Node {
        first,
        hertz,
        drift_ppb,
        rates,
    });
    let delay = || prop_oneof![Just(0i64), 0i64..2_000, 0i64..200_000];
    let exchange =
        (SECOND / 100..SECOND, delay(), delay()).prop_map(|(instant, there, back)| Exchange { instant, there, back });
    let exchanges = prop::collection::vec(exchange, 2..10);
    let pairs = prop::collection::vec((exchanges, any::<bool>()), 15);
    (prop::collection::vec(node, 3..=6), pairs).prop_map(|(nodes, pairs)| {
        let known = (0..nodes.len()).flat_map(|local| (0..local).map(move |reference| (local, reference)));
        let known = known.zip(&pairs).map(|(pair, (exchanges, turns))| {
            let told = evidence(&nodes, pair, exchanges, (WANDER, 0));
            if *turns && pair.1 != 0 { turned(&told, &nodes) } else { told }
        });
        let known = known.collect();
        (nodes, known)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn property_the_truth_lies_inside_and_nothing_is_looser_than_direct(
        (nodes, pairs) in worlds(), asked in prop::collection::vec(0i64..2 * SECOND, 12),
    ) {
        let domains = Domains::new(nodes.len(), pairs).unwrap().with_instants(40);
        for reference in 0..nodes.len() {
            for closed in domains.toward(reference).unwrap() {
                let direct = domains.direct(closed.local, reference).unwrap();
                let clock_map = closed.clock_map.unwrap();
                for &instant in &asked {
                    let node = &nodes[closed.local];
                    let [lo, hi] = [node.floor(instant), node.ceil(instant)].map(Tick::new);
                    let (first, last) = (clock_map.interval(lo).unwrap(), clock_map.interval(hi).unwrap());
                    prop_assert!(first.lo().get() <= nodes[reference].ceil(instant));
                    prop_assert!(nodes[reference].floor(instant) <= last.hi().get());
                    let old = direct.interval(lo).unwrap();
                    prop_assert!(old.lo() <= first.lo() && first.hi() <= old.hi(), "{old:?} {first:?}");
                    prop_assert!(first.contains(clock_map.estimate(lo).unwrap()));
                }
                prop_assert!(clock_map.cone().width() <= direct.cone().width());
            }
        }
    }

    #[test]
    fn property_the_order_of_the_nodes_and_pairs_does_not_matter((nodes, pairs) in worlds(), turn in 1usize..5) {
        let count = nodes.len();
        let other = |domain: usize| (domain + turn) % count;
        let renamed = pairs.iter().rev().map(|pair| {
            PairEvidence { local: other(pair.local), reference: other(pair.reference), ..pair.clone() }
        });
        let renamed = Domains::new(count, renamed.collect()).unwrap().with_instants(24);
        let domains = Domains::new(count, pairs).unwrap().with_instants(24);
        let mut there = renamed.toward(other(0)).unwrap();
        there.sort_by_key(|closed| (closed.local + count - turn % count) % count);
        for (here, there) in domains.toward(0).unwrap().into_iter().zip(there) {
            prop_assert_eq!(other(here.local), there.local);
            let (here, there, local) = (here.clock_map.unwrap(), there.clock_map.unwrap(), here.local);
            for part in 0..50 {
                let tick = Tick::new(nodes[local].floor(SECOND / 50 * part));
                prop_assert_eq!(here.interval(tick), there.interval(tick));
            }
        }
    }

    #[test]
    fn property_evidence_that_is_turned_twice_says_what_it_said((nodes, pairs) in worlds()) {
        for pair in pairs {
            let twice = turned(&turned(&pair, &nodes), &nodes);
            let sorted = |pair: &PairEvidence| {
                let mut sides: Vec<_> = pair.brackets.iter().map(|side| (side.at, side.before, side.after)).collect();
                sides.sort();
                sides
            };
            prop_assert_eq!(sorted(&pair), sorted(&twice));
            prop_assert!(twice.model.prior_ppm >= pair.model.prior_ppm);
        }
    }
}

/// Nodes of 2.5 GHz that exchange every 10 ms for a second, all pairs; `delay` in ticks by pair, `lie` likewise.
fn cluster(
    count: usize,
    delay: impl Fn(usize, usize) -> i64,
    lie: impl Fn(usize, usize) -> i64,
    stepping: Option<usize>,
) -> Result<Domains, ClosureError> {
    let rates = |node: usize| match stepping {
        Some(which) if which == node => vec![(SECOND / 2, 0), (SECOND, 200_000)],
        _ => vec![(SECOND, 0)],
    };
    let node = |node: usize| Node {
        first: node as i64 * 1_000_000_007,
        hertz: (1, 1),
        drift_ppb: node as i64 * 7_000,
        rates: rates(node),
    };
    let nodes: Vec<Node> = (0..count).map(node).collect();
    let known = (0..count).flat_map(|local| (0..local).map(move |reference| (local, reference)));
    let pairs = known.map(|(local, reference)| {
        let (delay, lie) = (delay(local, reference), lie(local, reference));
        let exchange = |step: i64| Exchange { instant: SECOND / 100 * (step + 1), there: delay, back: delay };
        evidence(&nodes, (local, reference), &(0..100).map(exchange).collect::<Vec<_>>(), (500, lie))
    });
    Domains::new(count, pairs.collect()).map(|domains| domains.with_instants(64))
}

#[test]
fn a_better_way_through_a_third_node_narrows_a_pair_and_is_named() {
    let slow = |local, reference| if (local, reference) == (2, 0) { 22_000 } else { 3_000 };
    let closed = cluster(3, slow, |_, _| 0, None).unwrap().toward(0).unwrap();
    let half_width =
        |clock_map: &ClockMap| clock_map.interval(Tick::new(2_000_000_014 + SECOND / 2)).unwrap().half_width();
    let clock_map = closed[1].clock_map.as_ref().unwrap();
    assert!((5_900..6_200).contains(&half_width(clock_map)), "{}", half_width(clock_map));
    assert_eq!(closed[1].ways[0].0, [2, 1, 0]);
    assert!(closed[0].ways.is_empty() && (2_900..3_100).contains(&half_width(closed[0].clock_map.as_ref().unwrap())));
}

#[test]
fn a_pair_without_evidence_of_its_own_is_related_through_others() {
    let rates = vec![(SECOND, 0)];
    let nodes: Vec<Node> =
        (0..3).map(|node| Node { first: node, hertz: (1, 1), drift_ppb: 0, rates: rates.clone() }).collect();
    let exchanges: Vec<Exchange> =
        (1..100).map(|step| Exchange { instant: SECOND / 100 * step, there: 900, back: 900 }).collect();
    let pairs = [(1, 0), (2, 1)].map(|pair| evidence(&nodes, pair, &exchanges, (500, 0)));
    let empty = PairEvidence { brackets: Vec::new(), ..evidence(&nodes, (2, 0), &exchanges, (500, 0)) };
    let domains = Domains::new(3, pairs.into_iter().chain([empty]).collect()).unwrap();
    let closed = domains.toward(0).unwrap().remove(1).clock_map.unwrap();
    assert!((1_700..2_000).contains(&closed.interval(Tick::new(SECOND / 2)).unwrap().half_width()));
}

#[test]
fn a_pair_related_through_others_alone_is_as_narrow_however_long_its_clocks_have_run() {
    for first in [0, SECOND * 86_400 * 30, 1 << 60] {
        let node = |node: i64| Node {
            first: first / (node + 1) + node,
            hertz: (1, 1),
            drift_ppb: 20_000 * node,
            rates: vec![(SECOND, 0)],
        };
        let nodes: Vec<Node> = (0..3).map(node).collect();
        let exchanges: Vec<Exchange> =
            (1..100).map(|step| Exchange { instant: SECOND / 100 * step, there: 900, back: 900 }).collect();
        let pairs = [(1, 0), (2, 1)].map(|pair| evidence(&nodes, pair, &exchanges, (500, 0)));
        // As whoever has no evidence anchors it: anywhere.
        let model = Model { anchor: Tick::new(0), ..evidence(&nodes, (2, 0), &exchanges, (500, 0)).model };
        let empty = PairEvidence { local: 2, reference: 0, brackets: Vec::new(), model };
        let domains = Domains::new(3, pairs.into_iter().chain([empty]).collect()).unwrap();
        let closed = domains.toward(0).unwrap().remove(1);
        let (clock_map, (from, until)) = (closed.clock_map.expect("a way"), closed.ticks.unwrap());
        let at = nodes[2].floor(SECOND / 2);
        assert!((1_700..2_000).contains(&clock_map.interval(Tick::new(at)).unwrap().half_width()), "{first}");
        let (length, rate_ppb) = (until.get() - from.get(), (clock_map.cone().width() * 1_000_000_000) >> 60);
        assert!(from.get() <= at && at <= until.get() && length > SECOND / 2, "{first}");
        assert!(rate_ppb < 10_000, "{first}: the rate is known to {rate_ppb} ppb");
    }
}

/// Three nodes for `seconds`, each pair with an exchange a second; `delay` and `lie` in ticks, by pair and second.
fn hours(
    seconds: i64,
    pairs: &[(usize, usize)],
    delay: impl Fn((usize, usize)) -> i64,
    lie: impl Fn((usize, usize), i64) -> i64,
) -> (Vec<Node>, Result<Domains, ClosureError>) {
    let node = |node: i64| Node {
        first: node * 1_000_000_007,
        hertz: (1, 1),
        drift_ppb: 20_000 * node,
        rates: vec![(SECOND * seconds / 2, 10_000 * node), (SECOND * seconds, -10_000 * node)],
    };
    let nodes: Vec<Node> = (0..3).map(node).collect();
    let known = [(1, 0), (2, 1), (2, 0)].map(|pair| {
        let offset = if pair == (2, 1) { SECOND / 2 } else { 0 };
        let exchange =
            |second: i64| Exchange { instant: SECOND * second + offset, there: delay(pair), back: delay(pair) };
        let exchanges: Vec<Exchange> = (1..seconds).map(exchange).collect();
        let mut told = evidence(&nodes, pair, &exchanges, (50_000, 0));
        if !pairs.contains(&pair) {
            told.brackets.clear();
        }
        for (bracket, second) in told.brackets.iter_mut().zip((2..).map(|half| half / 2)) {
            let lie = lie(pair, second);
            *bracket = Bracket { at: Tick::new(bracket.at.get() + lie), ..*bracket };
        }
        told
    });
    (nodes, Domains::new(3, known.to_vec()))
}

#[test]
fn a_way_through_another_is_as_narrow_in_a_run_of_hours_as_in_one_of_minutes() {
    let medians = |seconds: i64| {
        let (nodes, domains) = hours(seconds, &[(1, 0), (2, 1)], |_| 10_000, |_, _| 0);
        let domains = domains.unwrap();
        let closed = domains.toward(0).unwrap();
        let clock_map = closed.iter().find(|closed| closed.local == 2).unwrap().clock_map.as_ref().unwrap();
        let median = |clock_map: &ClockMap, local: usize| {
            let at = (0..2_000).map(|step| Tick::new(nodes[local].floor(SECOND * seconds / 2_000 * step + SECOND / 3)));
            clock_map.half_widths(at).unwrap().median().unwrap()
        };
        let direct = median(domains.direct(1, 0).unwrap(), 1) + median(domains.direct(2, 1).unwrap(), 2);
        [median(clock_map, 2), direct]
    };
    let ([minutes, _], [hours, direct]) = (medians(300), medians(10_800));
    assert!(hours < minutes + minutes / 10, "{hours} ticks in a run of hours, {minutes} in one of minutes");
    assert!(hours < direct + direct / 5, "{hours} ticks, {direct} in both steps of the way");
}

#[test]
fn one_false_exchange_of_thousands_contradicts_the_others_wherever_it_lies() {
    let slow = |pair: (usize, usize)| if pair == (2, 0) { 5_000_000 } else { 5_000 };
    let pairs = [(1, 0), (2, 1), (2, 0)];
    assert!(hours(3_600, &pairs, slow, |_, _| 0).1.unwrap().toward(0).is_ok());
    for most in [None, Some(64)] {
        for second in 1_801..1_807 {
            let false_one = |pair, at: i64| if pair == (2, 0) && at == second { 5_500_000 } else { 0 };
            let domains = hours(3_600, &pairs, slow, false_one).1.unwrap();
            let domains = most.map_or(domains.clone(), |most| domains.with_instants(most));
            let found = (0..3).filter_map(|source| domains.toward(source).err()).next();
            let found = found.unwrap_or_else(|| panic!("second {second}, {most:?}: nothing contradicts"));
            assert!(found.pairs.contains(&(2, 0)), "{found}");
        }
    }
}

fn conflict(found: Result<Domains, ClosureError>) -> Conflict {
    match found {
        Ok(domains) => domains.toward(0).unwrap_err(),
        Err(ClosureError::Conflict(conflict)) => conflict,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn one_of_five_nodes_that_lies_by_20_us_to_two_others_is_named() {
    for liar in 0..5usize {
        let lies_to = |other: usize| (other + 5 - liar) % 5 <= 2;
        let lie = |local: usize, reference: usize| match (local == liar, reference == liar) {
            (true, _) if lies_to(reference) => 50_000,
            (_, true) if lies_to(local) => -50_000,
            _ => 0,
        };
        let found = conflict(cluster(5, |_, _| 4_000, lie, None));
        assert_eq!(found.culprit, Some(liar), "{found}");
        assert!(found.pairs.iter().any(|&(local, reference)| local == liar || reference == liar), "{found}");
    }
}

#[test]
fn one_of_five_nodes_whose_rate_steps_by_200_ppm_is_named() {
    for stepping in 0..5 {
        let found = conflict(cluster(5, |_, _| 4_000, |_, _| 0, Some(stepping)));
        assert_eq!(found.culprit, Some(stepping), "{found}");
        assert_eq!(found.pairs.len(), 4, "{found}");
    }
}

#[test]
fn of_three_nodes_the_pairs_are_named_and_no_culprit() {
    let lie = |local, reference| if (local, reference) == (2, 1) { 50_000 } else { 0 };
    let found = conflict(cluster(3, |_, _| 4_000, lie, None));
    assert_eq!((found.pairs.as_slice(), found.culprit), ([(1, 0), (2, 0), (2, 1)].as_slice(), None));
    assert_eq!(found.suspects, [0, 1, 2], "without any of them nothing contradicts");
    assert!(found.to_string().contains("which domain is wrong cannot be told"), "{found}");
}

#[test]
fn one_of_four_nodes_that_lies_alike_to_two_is_among_the_suspects_and_so_is_the_one_it_is_honest_with() {
    let lie = |local: usize, reference: usize| match (local, reference) {
        (3, 0 | 1) => 50_000,
        _ => 0,
    };
    let found = conflict(cluster(4, |_, _| 4_000, lie, None));
    assert_eq!((found.culprit, found.suspects.as_slice()), (None, [2, 3].as_slice()), "{found}");
}

#[test]
fn where_two_nodes_lie_all_that_contradict_each_other_are_suspects() {
    let lie = |local: usize, reference: usize| match (local, reference) {
        (3, 0 | 1) => 50_000,
        (5, 2 | 4) => -70_000,
        _ => 0,
    };
    let found = conflict(cluster(6, |_, _| 4_000, lie, None));
    let mut named: Vec<usize> = found.pairs.iter().flat_map(|&(local, reference)| [local, reference]).collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!((found.culprit, &found.suspects), (None, &named), "{found}");
}

/// The published errors of a duration between the two exchanges of each pair (`docs/proof.md`, "Durations"), in ticks:
/// half the round trip is `e`, the exchanges lie `D` apart, the duration is `d` long. The published errors assume one
/// line through both exchanges. Here the rate may be either end of the cone at any instant, even at a rho of 0, which
/// adds twice `e` times the way to the nearer exchange; besides that, only rounding outward, the second order,
/// `2*e^2/D`, and what the clocks may wander between.
#[test]
fn durations_are_no_wider_than_published_but_for_the_cone_and_the_wander() {
    let (e, apart) = (5_000i64, SECOND);
    for (wander, second_order) in [(0, 2 * e * e / apart + 2), (100, 2 * e * e / apart + 3)] {
        let rates = vec![(SECOND, 0)];
        let nodes: Vec<Node> = (0..3)
            .map(|node| Node { first: 0, hertz: (1, 1), drift_ppb: node * 9_000, rates: rates.clone() })
            .collect();
        let exchanges = [0, apart].map(|instant| Exchange { instant, there: e, back: e });
        let pairs = [(1, 0), (2, 0), (2, 1)].map(|pair| evidence(&nodes, pair, &exchanges, (wander, 0)));
        let domains = Domains::new(3, pairs.to_vec()).unwrap();
        let [b, c] = [1, 2].map(|local| domains.direct(local, 0).unwrap());
        let c_on_b = domains.direct(2, 1).unwrap();
        for (start, d) in [(apart / 4, 1_000), (apart / 3, apart / 8), (apart / 10, apart / 2)] {
            // The rate swings by `2 * wander` of the pair about its mean, so by at most that much of half the way.
            let swing = 2 * apart * wander / 1_000_000_000;
            let slope = 2 * d * e / apart + 4 * swing * d / apart;
            let from_exchange = |instant: i64| 2 * e * instant.min(apart - instant) / apart;
            let e = e + from_exchange(start).max(from_exchange(start + d));
            let half = |lo: i64, hi: i64| (hi - lo + 1) / 2;
            let [u, v] = [start, start + d].map(|instant| nodes[1].floor(instant));
            let on_b = b.span(Tick::new(u), Tick::new(v)).unwrap();
            assert!(half(on_b.lo().get(), on_b.hi().get()) <= slope + second_order, "both on B: {on_b:?}");
            let from_a = b.interval(Tick::new(v)).unwrap();
            assert!(half(from_a.lo().get(), from_a.hi().get()) <= e + swing + second_order, "A to B: {from_a:?}");
            let w = Tick::new(nodes[2].floor(start + d));
            let there = c_on_b.interval(w).unwrap();
            let u = Tick::new(u);
            let between = [there.lo(), there.hi()].map(|tick| b.span(u, Tick::new(tick.get())).unwrap());
            let [(from, to), baseline] = [
                (between[0].lo().get(), between[1].hi().get()),
                (
                    c.interval(w).unwrap().lo().get() - b.interval(u).unwrap().hi().get(),
                    c.interval(w).unwrap().hi().get() - b.interval(u).unwrap().lo().get(),
                ),
            ];
            assert!(half(from, to) <= e + swing + slope + second_order + 2, "B to C: {from}..{to}");
            assert!(half(baseline.0, baseline.1) <= 2 * (e + swing) + second_order, "through A: {baseline:?}");
            assert!(from.max(baseline.0) <= to.min(baseline.1));
        }
    }
}

#[test]
fn two_domains_have_the_direct_clock_map() {
    let domains = cluster(2, |_, _| 4_000, |_, _| 0, None).unwrap();
    let closed = domains.toward(0).unwrap().remove(0);
    let direct = domains.direct(1, 0).unwrap();
    for part in 0..1000 {
        let tick = Tick::new(1_000_000_007 + SECOND / 1000 * part);
        assert_eq!(closed.clock_map.as_ref().unwrap().interval(tick), direct.interval(tick));
    }
    assert!(closed.ways.is_empty());
}

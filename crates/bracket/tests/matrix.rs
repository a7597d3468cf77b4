//! Injected clocks against simulated delays, direct and through a third node: no bound is false where rho covers the
//! wander. Some thousand bounds here; over a million behind TICKSCOPE_TESTS=all.

mod nodes;

use nodes::{Exchange, Node, evidence};
use tickscope_bracket::{ClockMap, Domains, PairEvidence};
use tickscope_tick::Tick;

const SECOND: i64 = 2_500_000_000;
/// Instants that are asked of every clock map, a lower and an upper bound each.
const ASKED: i64 = 500;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % limit
    }
}

/// One-way delays in ticks of 0.4 ns.
#[derive(Clone, Copy, Debug)]
enum Path {
    /// Stamps of programs: 3 us and more, at times a millisecond.
    User,
    /// Stamps of the kernel: 100 ns and more.
    Kernel,
    /// Messages: one way only, either way, with queues.
    Messages,
}

impl Path {
    fn delay(self, random: &mut Random) -> i64 {
        match self {
            Path::User => 7_500 + random.below(5_000) + if random.below(50) == 0 { random.below(2_500_000) } else { 0 },
            Path::Kernel => 250 + random.below(300),
            Path::Messages => random.below(2) * random.below(100_000),
        }
    }

    fn told(self, nodes: &[Node], pair: (usize, usize), wander: i64, random: &mut Random) -> PairEvidence {
        let exchange = |step: i64| Exchange {
            instant: SECOND / 200 * (step + 1) + random.below(SECOND / 400),
            there: self.delay(random),
            back: self.delay(random),
        };
        let exchanges: Vec<Exchange> = (0..200).map(exchange).collect();
        let mut told = evidence(nodes, pair, &exchanges, (wander, 0));
        if matches!(self, Path::Messages) {
            let mut number = 0;
            told.brackets.retain(|side| {
                number += 1;
                // Of each id one direction only; the first of each stays, so that both sides are bounded.
                number <= 2 || (side.before.is_some()) == (number % 4 < 2)
            });
        }
        told
    }
}

/// A node whose rate swings by `wander` parts per 10^9 either way.
fn node(first: i64, drift_ppb: i64, wander: i64, random: &mut Random) -> Node {
    let swing = |step: i64| (SECOND / 20 + random.below(SECOND / 10), if step % 2 == 0 { wander } else { -wander });
    Node { first, hertz: (1, 1), drift_ppb, rates: (0..24).map(swing).collect() }
}

/// How many bounds were compared, how many are false.
fn held(clock_map: &ClockMap, [local, reference]: [&Node; 2], random: &mut Random) -> [u64; 2] {
    let (mut bounds, mut wrong) = (0, 0);
    for _ in 0..ASKED {
        let instant = random.below(SECOND * 11 / 10);
        let [first, last] = [local.floor(instant), local.ceil(instant)];
        let [first, last] = [first, last].map(|tick| clock_map.interval(Tick::new(tick)).unwrap());
        wrong += u64::from(first.lo().get() > reference.ceil(instant));
        wrong += u64::from(last.hi().get() < reference.floor(instant));
        bounds += 2;
    }
    [bounds, wrong]
}

#[test]
fn no_bound_is_false_under_any_injection_wander_path_and_way_that_rho_covers() {
    let rounds = std::env::var_os("TICKSCOPE_TESTS").map_or(2, |_| 24);
    let (mut random, mut bounds) = (Random(3), 0);
    for (first, drift) in [(0, 0), (1_000_000_000, 12_500)] {
        for wander in [0, 100, 1_000, 10_000] {
            for path in [Path::User, Path::Kernel, Path::Messages] {
                for round in 0..rounds {
                    let place = format!("{first} {drift} {wander} {path:?} {round}");
                    let near = node(0, 0, wander, &mut random);
                    let nodes = [near, node(first, drift, wander, &mut random), node(77, -drift, wander, &mut random)];
                    // Directly 1 to 0; through a third 2 to 0, whose own exchanges are few and slow.
                    let mut pairs = vec![
                        path.told(&nodes, (1, 0), wander, &mut random),
                        path.told(&nodes, (2, 1), wander, &mut random),
                    ];
                    let far = [1, 199].map(|step| Exchange {
                        instant: SECOND / 200 * step,
                        there: 500_000 + random.below(500_000),
                        back: random.below(1_000_000),
                    });
                    pairs.push(evidence(&nodes, (2, 0), &far, (wander, 0)));
                    let domains = Domains::new(3, pairs).unwrap().with_instants(64);
                    for closed in domains.toward(0).unwrap() {
                        let (clock_map, ends) = (closed.clock_map.unwrap(), [&nodes[closed.local], &nodes[0]]);
                        assert!(closed.local != 2 || !closed.ways.is_empty(), "{place}");
                        for asked in [&clock_map, domains.direct(closed.local, 0).unwrap()] {
                            let [compared, wrong] = held(asked, ends, &mut random);
                            assert_eq!(wrong, 0, "false bounds: {place}, node {}", closed.local);
                            bounds += compared;
                        }
                    }
                }
            }
        }
    }
    assert!(bounds >= if rounds > 2 { 1_000_000 } else { 100_000 }, "{bounds}");
    println!("{bounds} bounds, 0 false");
}

/// The same simulation with a rho that does not cover the wander: what the test above would show, it shows.
#[test]
fn a_rho_far_below_the_wander_gives_false_bounds_or_a_contradiction() {
    let mut random = Random(5);
    let nodes = [node(0, 0, 0, &mut random), node(0, 12_500, 10_000, &mut random)];
    let told = Path::Kernel.told(&nodes, (1, 0), 10, &mut random);
    let Ok(clock_map) = ClockMap::new(&told.brackets, &told.model) else { return };
    assert!(held(&clock_map, [&nodes[1], &nodes[0]], &mut random)[1] > 0);
}

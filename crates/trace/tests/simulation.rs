//! Durations of made-up packets between made-up clocks: the truth is known, so every guarantee can be broken.
//!
//! The injected map of `tick` is taken as the true map from a local domain to the reference. It is exact, so local tick
//! `y` names an instant within `[apply(y), apply(y) + 1)`; brackets are put around that.

use proptest::prelude::*;
use tickscope_bracket::{Bracket, ClockMap, Model, Ratio, Rho};
use tickscope_tick::{Injection, Local, Stairs, Tick};
use tickscope_trace::{
    Apart, Clock, Clocks, Column, Durations, Layout, LayoutText, Quantile, StageRole, StageTally, StageValues, Traces,
    tally,
};

const SECOND: i64 = 1_000_000_000;
const PERIOD: i64 = SECOND / 4;

/// A local domain: what is true, and what is known.
#[derive(Clone, Debug)]
struct Host {
    truth: Injection,
    clock_map: ClockMap,
}

impl Host {
    /// `delays`: before and after, of exchanges spread evenly over the second.
    fn new(truth: Injection, delays: &[(i64, i64)]) -> Self {
        let exchange = |(number, &(before, after)): (usize, &(i64, i64))| {
            let at = local(&truth, SECOND / delays.len() as i64 * number as i64);
            let is = truth.apply(at);
            // Every third exchange was a message one way only.
            let one_way = number % 3 == 2;
            Bracket::new(
                (!one_way || before % 2 == 0).then_some(is - before),
                at,
                (!one_way || before % 2 == 1).then_some(is + 1 + after),
            )
        };
        let brackets: Vec<_> = delays.iter().enumerate().map(exchange).collect();
        // The wander is relative to a true rate that may be 50 ppm below 1.
        let rho = Rho::declared_ppb((truth.wander_ppb + truth.wander_ppb / 1000 + 2) as u32).unwrap();
        let model = Model::new(rho, Ratio::new(1, 1).unwrap(), Tick::new(local(&truth, 0)));
        Self { truth, clock_map: ClockMap::new(&brackets, &model).unwrap() }
    }
}

/// A local tick whose instant is at `reference`, or at the first tick after it that the map does not skip.
fn local(truth: &Injection, reference: i64) -> i64 {
    (reference..).find_map(|tick| truth.invert(tick)).unwrap().0
}

/// Packets from a (reference) over b to c and back to a, with a branch on b.
#[derive(Clone, Debug)]
struct World {
    hosts: [Host; 2],
    /// Raw ticks, by point of the layout.
    raw: Vec<Vec<i64>>,
    /// The instants those ticks name, in whole ticks of the reference.
    truth: Vec<Vec<i64>>,
}

fn layout() -> Layout {
    let path = ["a.send", "a.sent", "b.recv", "b.deliver", "c.recv", "a.done"].map(String::from).to_vec();
    LayoutText { path, branches: vec!["b.recv > b.returned".into()], ..LayoutText::default() }.parse(None).unwrap()
}

/// By point of the layout: 0 for the reference, else the host's number and 1.
const CLOCK_OF_POINT: [usize; 7] = [0, 0, 1, 1, 2, 0, 1];

impl World {
    fn new(hosts: [Host; 2], packets: &[(i64, [i64; 6])]) -> Self {
        let mut world = Self { hosts, raw: vec![vec![]; 7], truth: vec![vec![]; 7] };
        for &(sent, waits) in packets {
            let mut at = sent;
            for (point, wait) in [0, waits[0], waits[1], waits[2], waits[3], waits[4], waits[5]].into_iter().enumerate()
            {
                at += wait;
                world.stamp(point, at);
            }
        }
        world
    }

    fn stamp(&mut self, point: usize, at: i64) {
        let (raw, truth) = match CLOCK_OF_POINT[point] {
            0 => (at, at),
            host => {
                let map = &self.hosts[host - 1].truth;
                let raw = local(map, at);
                (raw, map.apply(raw))
            }
        };
        self.raw[point].push(raw);
        self.truth[point].push(truth);
    }

    fn clocks(&self) -> Clocks {
        let [b, c] = self.hosts.clone().map(|host| Clock::Related(host.clock_map));
        let nodes = [("a", 0), ("b", 1), ("c", 2)].map(|(node, clock)| (node.to_string(), clock));
        Clocks::new(&layout(), vec![Clock::Reference, b, c], &nodes).unwrap()
    }

    fn measured(&self) -> (Traces, Durations, Vec<StageTally>) {
        let layout = layout();
        let traces = traces(self.raw.iter().map(|ticks| ticks.iter().map(|&tick| Some(tick)).collect()).collect());
        let clocks = self.clocks();
        let durations = Durations::of(&layout, &clocks, &traces).unwrap();
        let mut tallies = vec![StageTally::default(); layout.stages().len()];
        tally(&layout, &clocks, &traces, &durations, &mut tallies);
        (traces, durations, tallies)
    }

    fn true_durations(&self, stage: usize) -> Vec<i64> {
        let stage = layout().stages()[stage].clone();
        self.truth[stage.to].iter().zip(&self.truth[stage.from]).map(|(to, from)| to - from).collect()
    }
}

fn traces(points: Vec<Column>) -> Traces {
    let rows = points[0].len();
    Traces::new(vec![0; rows], (0..rows as i64).collect(), vec![0; rows], points).unwrap()
}

fn hosts() -> impl Strategy<Value = Host> {
    let wander = prop_oneof![Just(0), Just(100), Just(1_000), Just(10_000)];
    let delays = prop::collection::vec((0i64..20_000, 0i64..20_000), 4..24);
    (-50_000i64..50_000, wander, -SECOND..SECOND, delays).prop_map(|(drift_ppb, wander_ppb, offset, mut delays)| {
        let truth = Injection {
            anchor: 1 << 30,
            offset,
            drift_ppb,
            wander_ppb,
            wander_period: PERIOD,
            stairs: Stairs::default(),
        };
        delays.insert(0, (900, 300));
        Host::new(truth, &delays)
    })
}

fn worlds() -> impl Strategy<Value = World> {
    let wait = || prop_oneof![0i64..3_000, 0i64..3_000_000];
    let waits = [(); 6].map(|()| wait());
    let packets = prop::collection::vec((0..SECOND, waits), 1..24);
    ([hosts(), hosts()], packets).prop_map(|(hosts, packets)| World::new(hosts, &packets))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn property_every_true_duration_and_every_estimate_lies_in_its_interval(world in worlds()) {
        let (_, durations, tallies) = world.measured();
        for (number, stage) in durations.stages().iter().enumerate() {
            let truth = world.true_durations(number);
            prop_assert_eq!(tallies[number].count, truth.len() as u64);
            for (row, truth) in truth.into_iter().enumerate() {
                let [estimate, lo, hi] = [&stage.estimate, &stage.lo, &stage.hi].map(|column| column.get(row).unwrap());
                prop_assert!(lo <= truth && truth <= hi, "stage {number}: {truth} not in [{lo}, {hi}]");
                prop_assert!(lo <= estimate && estimate <= hi);
                let StageTally { common, own, .. } = tallies[number];
                prop_assert!(estimate - truth <= (common.below_ticks + own.below_ticks) as i64);
                prop_assert!(truth - estimate <= (common.above_ticks + own.above_ticks) as i64);
            }
        }
    }

    #[test]
    fn property_the_estimates_of_the_path_sum_to_end_to_end(world in worlds()) {
        let (_, durations, _) = world.measured();
        let layout = layout();
        for row in 0..world.raw[0].len() {
            let of_role = |role| {
                let stages = layout.stages().iter().zip(durations.stages());
                let of_role = stages.filter(|(stage, _)| stage.role == role);
                of_role.map(|(_, columns)| columns.estimate.get(row).unwrap()).sum::<i64>()
            };
            prop_assert_eq!(of_role(StageRole::Path), of_role(StageRole::EndToEnd));
        }
    }

    #[test]
    fn property_no_two_durations_are_wrong_against_each_other_by_more_than_the_relative_bound(world in worlds()) {
        let (layout, clocks) = (layout(), world.clocks());
        let (_, durations, tallies) = world.measured();
        for (number, columns) in durations.stages().iter().enumerate() {
            let stage = &layout.stages()[number];
            let truth = world.true_durations(number);
            let error = |row: usize| columns.estimate.get(row).unwrap() - truth[row];
            for (a, b) in (0..truth.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let apart = |point: usize| world.raw[point][a].abs_diff(world.raw[point][b]);
                let apart = Apart { from_ticks: apart(stage.from), to_ticks: apart(stage.to) };
                let bound = tallies[number].relative(&layout, &clocks, number, apart);
                let (a, b) = (error(a), error(b));
                prop_assert!(a.abs_diff(b) <= bound, "{}: {a} against {b}, bound {bound}", stage.name);
                prop_assert!(bound <= tallies[number].relative_over_run(&layout, &clocks, number));
            }
        }
    }

    #[test]
    fn property_true_quantiles_lie_between_the_quantiles_of_the_bounds(world in worlds(), share in 0u32..=1_000_000) {
        let (traces, durations, _) = world.measured();
        let quantile = Quantile::per_million(share).unwrap();
        for number in 0..durations.stages().len() {
            let mut values = StageValues::default();
            values.add(&layout(), &traces, &durations, number);
            let found = values.quantile(quantile).unwrap();
            let truth = quantile.of(&mut world.true_durations(number)).unwrap();
            prop_assert!(found.lo <= truth && truth <= found.hi);
            prop_assert!(found.lo <= found.estimate && found.estimate <= found.hi);
        }
    }

    #[test]
    fn property_no_tick_makes_anything_panic_and_every_trace_is_counted(
        world in worlds(), ticks in prop::collection::vec(prop::option::of(any::<i64>()), 7..70),
    ) {
        let rows = ticks.len() / 7;
        let points = ticks.chunks_exact(rows).take(7).map(|column| column.iter().copied().collect()).collect();
        let (layout, clocks, traces) = (layout(), world.clocks(), traces(points));
        let durations = Durations::of(&layout, &clocks, &traces).unwrap();
        let mut tallies = vec![StageTally::default(); layout.stages().len()];
        tally(&layout, &clocks, &traces, &durations, &mut tallies);
        for (number, tally) in tallies.iter().enumerate() {
            prop_assert_eq!(tally.count + tally.missing + tally.refused, rows as u64);
            tally.relative_over_run(&layout, &clocks, number);
        }
    }
}

/// Two brackets that each touch the truth on one side only, 1 ms of ticks away on the other: the estimate then runs at
/// the cone's fastest slope while the truth runs at its slowest, so the relative bound is reached, not just kept.
#[test]
fn the_relative_bound_is_reached_by_two_domains_that_drift_apart_as_fast_as_allowed() {
    const PPM: i64 = 100;
    let truth = |at: i64| at - at / 1_000_000 * PPM;
    let (end, far) = (SECOND, 1_000_000);
    let brackets = [
        Bracket::new(Some(truth(-end) - far), -end, Some(truth(-end))),
        Bracket::new(Some(truth(end)), end, Some(truth(end) + far)),
    ];
    let model = Model { prior_ppm: PPM as u32, ..model(0) };
    let clock = Clock::Related(ClockMap::new(&brackets, &model).unwrap());
    let layout =
        LayoutText { path: vec!["a.send".into(), "b.recv".into()], ..LayoutText::default() }.parse(None).unwrap();
    let clocks = Clocks::new(&layout, vec![Clock::Reference, clock], &[("a".into(), 0), ("b".into(), 1)]).unwrap();
    let at = [-SECOND * 9 / 10, SECOND * 9 / 10];
    let traces =
        traces(vec![at.map(|at| Some(truth(at) - 5)).into_iter().collect(), at.map(Some).into_iter().collect()]);
    let durations = Durations::of(&layout, &clocks, &traces).unwrap();
    let mut tallies = vec![StageTally::default(); 2];
    tally(&layout, &clocks, &traces, &durations, &mut tallies);
    let estimates = &durations.stages()[0].estimate;
    let error = |row: usize| estimates.get(row).unwrap() - 5;
    let bound = tallies[0].relative(&layout, &clocks, 0, Apart { from_ticks: 0, to_ticks: at[1].abs_diff(at[0]) });
    let changed = error(0).abs_diff(error(1));
    assert!(changed <= bound && bound <= changed + 8, "errors {} and {}, bound {bound}", error(0), error(1));
    assert_eq!(bound, tallies[0].relative_over_run(&layout, &clocks, 0));
    let same = tallies[0].relative(&layout, &clocks, 0, Apart::by(0));
    assert!((3..=6).contains(&same), "a reading of a tick at either end, rounded: {same}");
}

fn model(anchor: i64) -> Model {
    Model::new(Rho::declared_ppb(0).unwrap(), Ratio::new(1, 1).unwrap(), Tick::<Local>::new(anchor))
}

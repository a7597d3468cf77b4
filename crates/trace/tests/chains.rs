//! Packets through both kernels of two nodes: application stamps by the counters, kernel stamps by a `CLOCK_REALTIME` a
//! node that is slewed and stepped. Every instant is known exactly, so no tolerance is needed.

#[path = "../../bracket/tests/host/mod.rs"]
mod host;

use host::{Act, Bound, Host, MS_NS, PER_TICK, Random, hosts};
use proptest::prelude::*;
use tickscope_bracket::{Bracket, ClockMap, Epochs, Model, Ratio, Rho};
use tickscope_tick::Tick;
use tickscope_trace::{
    Apart, Clock, Clocks, Column, Durations, Layout, LayoutText, Quantile, Reconstruction, RefusedBy, StageRole,
    StageTally, StageValues, Traces, reconstruct, tally,
};

const PATH: [&str; 9] = ["a.send", "a.sched", "a.tx", "b.rx", "b.received", "b.reply", "b.tx", "a.rx", "a.response"];

fn layout() -> Layout {
    LayoutText {
        path: PATH.map(String::from).to_vec(),
        branches: vec!["a.send > a.sent".into()],
        extra: vec!["a.sent > b.rx".into(), "b.rx > b.tx".into()],
        ..LayoutText::default()
    }
    .parse(None)
    .unwrap()
}

/// Whether a point is a kernel's, stamped by its node's `CLOCK_REALTIME`.
fn of_kernel(point: usize) -> bool {
    ["a.sched", "a.tx", "b.rx", "b.tx", "a.rx"].contains(&layout().points()[point].place.to_string().as_str())
}

fn on_a(point: usize) -> bool {
    layout().points()[point].place.node == "a"
}

/// Node a has the reference counter; b's counter drifts against it, and the two start together.
struct World {
    a: Host,
    b: Host,
    /// Where a's counter truly stands, by instants of b.
    drift: Host,
    clocks: Clocks,
    /// By point, raw.
    ticks: Vec<Vec<i64>>,
    /// By point, exactly, in units of [`World::unit`].
    truth: Vec<Vec<i128>>,
}

/// What it was made of; its clocks fill pages.
impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} and {:?}", self.a, self.b)
    }
}

impl World {
    fn new(a: Host, b: Host, drift_ppb: i64, packets: usize, seed: u64) -> Self {
        let steady = |act: &Act| Act { slew_ppb: 0, step_ns: 0, ..*act };
        let acts = b.acts.iter().map(steady).collect();
        let drift = Host::standing(1 << 40, 1_000_000_000, Bound::Narrow, drift_ppb, acts, seed);
        let mut random = Random(seed);
        let clocks = clocks(&a, &b, &drift, &mut random);
        let mut world = Self { a, b, drift, clocks, ticks: vec![vec![]; 10], truth: vec![vec![]; 10] };
        for _ in 0..packets {
            world.send(&mut random);
        }
        world
    }

    /// One tick of the reference.
    fn unit(&self) -> i128 {
        self.drift.unit()
    }

    /// A packet at any time that both hosts know, with waits of up to 20 us.
    fn send(&mut self, random: &mut Random) {
        let room = self.a.lasting(MS_NS);
        let last = (self.a.end() - room).min((self.drift.stands(self.b.end() - room) / 1_000_000_000) as i64);
        let mut at = self.a.begin() + room / 2 + random.below(last - self.a.begin() - room);
        for point in 0..10 {
            let exact = self.stamp(point, at);
            at = (exact / 1_000_000_000) as i64 + self.a.lasting(200 + random.below(20_000));
        }
    }

    /// Stamps at that instant of a, or just after it where b's instants do not meet it; returns the instant exactly.
    fn stamp(&mut self, point: usize, at: i64) -> i128 {
        let (host, at, exact) = if on_a(point) {
            (&self.a, at, i128::from(at) * 1_000_000_000)
        } else {
            let there = self.drift.when(i128::from(at) * 1_000_000_000);
            (&self.b, there, self.drift.stands(there))
        };
        self.ticks[point].push(if of_kernel(point) { host.reads(at) } else { host.counter(at) });
        self.truth[point].push(exact);
        exact
    }

    fn measured(&self) -> (Traces, Durations, Vec<StageTally>) {
        let layout = layout();
        let points = self.ticks.iter().map(|ticks| ticks.iter().copied().map(Some).collect::<Column>()).collect();
        let rows = self.ticks[0].len();
        let traces = Traces::new(vec![0; rows], (0..rows as i64).collect(), vec![0; rows], points).unwrap();
        let durations = Durations::of(&layout, &self.clocks, &traces).unwrap();
        let mut tallies = vec![StageTally::default(); layout.stages().len()];
        tally(&layout, &self.clocks, &traces, &durations, &mut tallies);
        (traces, durations, tallies)
    }

    /// What is counted of the packets of some rows alone.
    fn tallied(&self, packets: std::ops::Range<usize>) -> Vec<StageTally> {
        let layout = layout();
        let some = |ticks: &Vec<i64>| ticks[packets.clone()].iter().copied().map(Some).collect::<Column>();
        let (points, ids) = (self.ticks.iter().map(some).collect(), packets.clone().map(|row| row as i64).collect());
        let traces = Traces::new(vec![0; packets.len()], ids, vec![0; packets.len()], points).unwrap();
        let durations = Durations::of(&layout, &self.clocks, &traces).unwrap();
        let mut tallies = vec![StageTally::default(); layout.stages().len()];
        tally(&layout, &self.clocks, &traces, &durations, &mut tallies);
        tallies
    }

    /// By row, in units.
    fn true_durations(&self, stage: usize) -> Vec<i128> {
        let stage = layout().stages()[stage].clone();
        self.truth[stage.to].iter().zip(&self.truth[stage.from]).map(|(to, from)| to - from).collect()
    }

    /// Where a stamp lies on its node's counter, as estimated.
    fn on_counter(&self, durations: &Durations, point: usize, row: usize) -> Option<i64> {
        durations.own(point).map_or(Some(self.ticks[point][row]), |own| own.estimate.get(row))
    }
}

fn clocks(a: &Host, b: &Host, drift: &Host, random: &mut Random) -> Clocks {
    let layout = layout();
    let counters = vec![Clock::Reference, Clock::Related(clock_map(b, drift, random))];
    let kernels = [a, b].map(|host| Epochs::new(&host.measured(150, 0).0, &host.declared(), &host.model()).unwrap());
    let of_point = layout.points().iter().enumerate().filter(|&(point, _)| of_kernel(point));
    let of_point: Vec<_> =
        of_point.map(|(point, place)| (place.place.to_string(), usize::from(!on_a(point)))).collect();
    let clocks = Clocks::new(&layout, counters, &[("a".into(), 0), ("b".into(), 1)]).unwrap();
    let widths = [("a", a), ("b", b)].map(|(node, host)| (node.to_owned(), host.stairs[1].widest_gap()));
    clocks.with_own(&layout, kernels.into(), &of_point).unwrap().with_widths(&layout, &widths).unwrap()
}

/// Exchanges of b's counter with a's, of 8 to 20 us each way, a hundred a second.
fn clock_map(b: &Host, drift: &Host, random: &mut Random) -> ClockMap {
    let (begin, end) = (b.begin(), b.end());
    let exchange = |number: i64| {
        let at = begin + ((end - begin) / PER_TICK / 200 * number) * PER_TICK;
        let [there, back] = [(); 2].map(|()| 8_000 + random.below(12_000) * random.below(3) / 2);
        let is = (drift.stands(at) / drift.unit()) as i64;
        let read = b.counter(at);
        let left = read + b.stairs[1].widest_gap() as i64;
        [Bracket::new(Some(is - there), left, None), Bracket::new(None, read, Some(is + 1 + back))]
    };
    let brackets: Vec<_> = (0..=200).flat_map(exchange).collect();
    let rho = Rho::declared_ppb(1_002).unwrap();
    ClockMap::new(&brackets, &Model::new(rho, Ratio::new(1, 1).unwrap(), Tick::new(b.counter(begin)))).unwrap()
}

fn worlds() -> impl Strategy<Value = World> {
    (hosts(), hosts(), -100_000i64..100_000, any::<u64>())
        .prop_map(|(a, b, drift_ppb, seed)| World::new(a, b, drift_ppb, 60, seed))
}

fn calm(length_ms: i64) -> Act {
    Act { length_ms, slew_ppb: 0, step_ns: 0, declared: false, seen_us: (1, 1) }
}

fn calm_world() -> World {
    let host = |seed| Host::new(2_100_000_000, Bound::Narrow, 20_000, vec![calm(2_000)], seed);
    World::new(host(1), host(2), 30_000, 400, 5)
}

/// Fewer cases than under `make test-all`, which sets TICKSCOPE_TESTS.
fn cases() -> u32 {
    std::env::var_os("TICKSCOPE_TESTS").map_or(16, |_| 48)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// As several workers count them: of what is lost where they meet, a relative bound knows nothing.
    #[test]
    fn property_tallies_of_parts_are_merged_to_the_tally_of_all(world in worlds(), cuts in prop::array::uniform2(0usize..=60)) {
        let (_, _, whole) = world.measured();
        let (rows, mut cuts) = (world.ticks[0].len(), cuts);
        cuts.sort_unstable();
        let [first, second] = cuts.map(|cut| cut.min(rows));
        let mut merged = vec![StageTally::default(); whole.len()];
        for part in [0..first, first..second, second..rows] {
            merged.iter_mut().zip(world.tallied(part)).for_each(|(all, more)| all.merge(&more));
        }
        prop_assert_eq!(merged, whole);
    }

    #[test]
    fn property_every_true_duration_and_every_estimate_lies_in_its_interval_through_both_chains(world in worlds()) {
        let (layout, (_, durations, tallies)) = (layout(), world.measured());
        for (number, stage) in durations.stages().iter().enumerate() {
            let (tally, unit) = (&tallies[number], world.unit());
            for (row, truth) in world.true_durations(number).into_iter().enumerate() {
                let values = [&stage.estimate, &stage.lo, &stage.hi].map(|column| column.get(row));
                let [Some(estimate), Some(lo), Some(hi)] = values else { continue };
                let name = &layout.stages()[number].name;
                prop_assert!(i128::from(lo) * unit <= truth && truth <= i128::from(hi) * unit, "{name}: {truth} not in [{lo}, {hi}]");
                prop_assert!(lo <= estimate && estimate <= hi, "{name}: {estimate} not in [{lo}, {hi}]");
                let below = i128::from(tally.common.below_ticks + tally.own.below_ticks) * unit;
                let above = i128::from(tally.common.above_ticks + tally.own.above_ticks) * unit;
                let error = i128::from(estimate) * unit - truth;
                prop_assert!(-above <= error && error <= below, "{name}: {error}, {below}, {above}");
            }
            prop_assert_eq!(tally.impossible, 0);
        }
    }

    #[test]
    fn property_the_estimates_of_the_path_sum_to_end_to_end_whatever_clocks_it_leads_through(world in worlds()) {
        let (_, durations, _) = world.measured();
        let layout = layout();
        for row in 0..world.ticks[0].len() {
            let of_role = |role| {
                let stages = layout.stages().iter().zip(durations.stages()).filter(move |(stage, _)| stage.role == role);
                stages.map(|(_, columns)| columns.estimate.get(row)).sum::<Option<i64>>()
            };
            let path = of_role(StageRole::Path);
            prop_assert!(path.is_none() || path == of_role(StageRole::EndToEnd));
        }
    }

    /// Of a mean, the longest and a quantile alike; and shares of the path add up, to the tick.
    #[test]
    fn property_the_true_mean_longest_and_share_of_a_stage_lie_in_their_intervals(world in worlds()) {
        let (layout, unit) = (layout(), world.unit());
        let (traces, durations, tallies) = world.measured();
        let whole = layout.stages().iter().position(|stage| stage.role == StageRole::EndToEnd).unwrap();
        let has_all = |row: &usize| {
            (0..=whole).all(|stage| durations.stages()[stage].estimate.get(*row).is_some())
        };
        let complete: Vec<usize> = (0..traces.len()).filter(has_all).collect();
        let sum = |stage: usize, rows: &[usize]| {
            let truth = world.true_durations(stage);
            rows.iter().map(|&row| truth[row]).sum::<i128>()
        };
        for (number, tally) in tallies.iter().enumerate() {
            let mut values = StageValues::default();
            values.add(&layout, &traces, &durations, number);
            let has_one = |row: &usize| durations.stages()[number].estimate.get(*row).is_some();
            let rows: Vec<usize> = (0..traces.len()).filter(has_one).collect();
            let (Some(mean), Some(max)) = (values.mean(), values.quantile(Quantile::MAXIMUM)) else { continue };
            let (true_sum, count) = (sum(number, &rows), rows.len() as i128);
            let [lo, hi] = [mean.lo, mean.hi].map(|end| i128::from(end) * unit * count);
            prop_assert!(lo <= true_sum && true_sum <= hi);
            prop_assert!(mean.lo <= mean.estimate && mean.estimate <= mean.hi);
            let longest = rows.iter().map(|&row| world.true_durations(number)[row]).max().unwrap();
            prop_assert!(i128::from(max.lo) * unit <= longest && longest <= i128::from(max.hi) * unit);
            prop_assert_eq!(tally.share.is_some(), number <= whole && !complete.is_empty());
            let Some([_, lo, hi]) = tally.share.and_then(|share| share.per_million()) else { continue };
            let (part, of) = (sum(number, &complete) * 1_000_000, sum(whole, &complete));
            prop_assert!(i128::from(lo) * of <= part && part <= i128::from(hi) * of, "{part} of {of}: [{lo}, {hi}]");
        }
        let shares: Vec<_> = tallies[..=whole].iter().filter_map(|tally| tally.share).collect();
        let Some((all, parts)) = shares.split_last() else { return Ok(()) };
        prop_assert_eq!(all.traces, complete.len() as u64);
        prop_assert!(parts.iter().all(|share| share.of == all.part && share.traces == all.traces));
        prop_assert_eq!(parts.iter().map(|share| share.part.estimate).sum::<i128>(), all.part.estimate);
    }

    #[test]
    fn property_no_two_durations_are_wrong_against_each_other_by_more_than_the_relative_bound(world in worlds()) {
        let (layout, unit) = (layout(), world.unit());
        let (_, durations, tallies) = world.measured();
        for (number, stage) in layout.stages().iter().enumerate() {
            let truth = world.true_durations(number);
            let estimates = &durations.stages()[number].estimate;
            let rows: Vec<usize> = (0..truth.len()).filter(|&row| estimates.get(row).is_some()).collect();
            let error = |row: usize| i128::from(estimates.get(row).unwrap()) * unit - truth[row];
            for (&a, &b) in rows.iter().zip(rows.iter().skip(1)) {
                let apart = |point: usize| {
                    let [a, b] = [a, b].map(|row| world.on_counter(&durations, point, row).unwrap());
                    a.abs_diff(b)
                };
                let apart = Apart { from_ticks: apart(stage.from), to_ticks: apart(stage.to) };
                let bound = tallies[number].relative(&layout, &world.clocks, number, apart);
                let changed = (error(a) - error(b)).abs();
                prop_assert!(changed <= i128::from(bound) * unit, "{}: {changed} / {unit}, bound {bound}", stage.name);
                prop_assert!(bound <= tallies[number].relative_over_run(&layout, &world.clocks, number));
            }
        }
    }

    #[test]
    fn property_every_trace_is_counted_once_and_every_refusal_with_its_reason(
        world in worlds(), odd in prop::collection::vec((0usize..10, 0usize..60, prop::option::of(any::<i64>())), 0..40),
    ) {
        let layout = layout();
        let mut columns: Vec<Vec<Option<i64>>> =
            world.ticks.iter().map(|ticks| ticks.iter().copied().map(Some).collect()).collect();
        odd.into_iter().for_each(|(point, row, tick)| columns[point][row] = tick);
        let points = columns.into_iter().map(|column| column.into_iter().collect()).collect();
        let traces = Traces::new(vec![0; 60], (0..60).collect(), vec![0; 60], points).unwrap();
        let durations = Durations::of(&layout, &world.clocks, &traces).unwrap();
        let mut tallies = vec![StageTally::default(); layout.stages().len()];
        tally(&layout, &world.clocks, &traces, &durations, &mut tallies);
        for (number, tally) in tallies.iter().enumerate() {
            prop_assert_eq!(tally.count + tally.missing + tally.refused, 60);
            let RefusedBy { outside, in_break, ambiguous, contradictory, no_interval, untold, unrelated } =
                tally.refused_by;
            let by_reason = outside + in_break + ambiguous + contradictory + no_interval + untold + unrelated;
            prop_assert_eq!(by_reason, tally.refused);
            tally.relative_over_run(&layout, &world.clocks, number);
        }
        let mut reconstructions = vec![Reconstruction::default(); 10];
        reconstruct(&world.clocks, &traces, &durations, &mut reconstructions);
    }
}

fn index(name: &str) -> usize {
    layout().stages().iter().position(|stage| stage.name == name).unwrap()
}

#[test]
fn between_two_kernels_the_clock_maps_error_is_common_and_what_is_left_is_the_clocks_own() {
    let world = calm_world();
    let (_, durations, tallies) = world.measured();
    let channel = index("a.tx>b.rx");
    let (tally, columns) = (&tallies[channel], &durations.stages()[channel]);
    assert_eq!(tally.refused, 0);
    let width = |row: usize| (columns.hi.get(row).unwrap() - columns.lo.get(row).unwrap()) as u64;
    let common = tally.common.below_ticks.max(tally.common.above_ticks);
    assert!(common > 4_000 && width(0) > 8_000, "{common}, {}", width(0));
    let relative = tally.relative(&layout(), &world.clocks, channel, Apart::by(2_100_000));
    let own = tally.own.below_ticks + tally.own.above_ticks;
    // Two readings 1 ms apart at 1 ppm, and two clocks that are each known to some hundred ticks.
    assert!(relative <= own + 50 && own < 2_000 && relative * 4 < common, "{relative}, own {own}, common {common}");
}

#[test]
fn on_one_node_no_stage_carries_the_clock_maps_error_whatever_clocks_its_points_have() {
    let world = calm_world();
    let (_, durations, tallies) = world.measured();
    let width = |stage: usize| {
        let columns = &durations.stages()[stage];
        (0..400).map(|row| columns.hi.get(row).unwrap() - columns.lo.get(row).unwrap()).max().unwrap()
    };
    let between = |name: &str| {
        (width(index(name)), tallies[index(name)].relative_over_run(&layout(), &world.clocks, index(name)))
    };
    for (name, most) in [("a.sched>a.tx", 8), ("b.rx>b.tx", 10), ("b.received>b.reply", 4), ("a.send>a.sent", 2)] {
        let (width, relative) = between(name);
        assert!(width <= most, "{name}: {width}");
        assert!(relative <= width as u64 * 2 + 2, "{name}: {relative}");
    }
    for name in ["a.send>a.sched", "b.rx>b.received", "a.rx>a.response"] {
        let (width, _) = between(name);
        assert!((8..2_000).contains(&width), "{name}: {width}");
        assert!(tallies[index(name)].common.below_ticks <= 3, "{name}: {:?}", tallies[index(name)].common);
    }
}

#[test]
fn the_published_line_is_held_against_every_interval_and_a_step_shows() {
    let host = |acts: Vec<Act>, seed| Host::new(2_100_000_000, Bound::Narrow, 20_000, acts, seed);
    let stepped = Act { step_ns: MS_NS, declared: true, seen_us: (1_000, 1_000), ..calm(2_000) };
    let world = World::new(host(vec![calm(2_000), stepped], 1), host(vec![calm(4_000)], 2), 30_000, 400, 5);
    let (traces, durations, _) = world.measured();
    let mut reconstructions = vec![Reconstruction::default(); 10];
    reconstruct(&world.clocks, &traces, &durations, &mut reconstructions);
    let of =
        |point: &str| reconstructions[layout().points().iter().position(|p| p.place.to_string() == point).unwrap()];
    assert_eq!(of("a.send"), Reconstruction::default());
    let (far, near) = (of("a.tx"), of("b.rx"));
    assert!(far.stamps > 380 && near.stamps == 400, "{far:?}, {near:?}");
    // 1 ms over 4 s: the line is up to half of it off, 1 050 000 ticks.
    assert!((900_000..1_100_000).contains(&far.largest_ticks) && far.inside * 10 < far.stamps, "{far:?}");
    assert!(near.largest_ticks < 20_000, "{near:?}");
}

#[test]
fn a_stamp_that_its_clock_has_no_interval_for_is_refused_with_the_reason() {
    let world = calm_world();
    let mut columns: Vec<Vec<Option<i64>>> = world.ticks.iter().map(|ticks| vec![Some(ticks[0])]).collect();
    columns[2][0] = Some(5);
    let points = columns.into_iter().map(|column| column.into_iter().collect()).collect();
    let traces = Traces::new(vec![0], vec![0], vec![0], points).unwrap();
    let durations = Durations::of(&layout(), &world.clocks, &traces).unwrap();
    let mut tallies = vec![StageTally::default(); layout().stages().len()];
    tally(&layout(), &world.clocks, &traces, &durations, &mut tallies);
    for (stage, tally) in layout().stages().iter().zip(&tallies) {
        let refused = u64::from([stage.from, stage.to].contains(&2));
        assert_eq!(
            (tally.refused, tally.refused_by.outside, tally.suspicions.len() as u64),
            (refused, refused, refused)
        );
    }
}

#[test]
fn a_clock_for_no_point_and_one_clock_for_two_counters_are_refused() {
    let world = calm_world();
    let clock = |host: &Host| Epochs::new(&host.measured(1, 0).0, &[], &host.model()).unwrap();
    let refusal = |of_point: &[(&str, usize)]| {
        let of_point: Vec<_> = of_point.iter().map(|&(name, clock)| (name.to_string(), clock)).collect();
        world.clocks.clone().with_own(&layout(), vec![clock(&world.a)], &of_point).unwrap_err().to_string()
    };
    assert!(refusal(&[("a.nothing", 0)]).contains("found one for 'a.nothing'"));
    assert!(refusal(&[("a.tx", 3)]).contains("clock 3 of 1 for 'a.tx'"));
    assert!(refusal(&[("a.tx", 0), ("b.rx", 0)]).contains("one clock for 'b.rx' and 'a.tx'"));
}

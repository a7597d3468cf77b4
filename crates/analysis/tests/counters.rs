//! Runs whose counters differ in every way: frequency, width of a reading, wander, boot, who asked whom. Every duration
//! of every trace is held against the truth.

mod site;

use site::{Site, Stamped, write};
use tickscope_analysis::{Analysis, Query, RunJson, analyse, assumptions, clock_map_of, spans};
use tickscope_store::{
    BracketColumns, BracketSource, LayoutText, Manifest, Node, Pair, Point, ReadingWidth, RhoDeclaration, Run, join_run,
};
use tickscope_tick::{BootId, Label, NodeName, Ordering, PointName, Tick};

const SECOND: i64 = 2_500_000_000;
const LENGTH: i64 = 4 * SECOND;
const REQUESTS: i64 = 400;
const BILLION: i128 = 1_000_000_000;

/// A counter. An instant is a tick of 2.5 GHz, and so is a tick of a counter without drift.
#[derive(Clone, Copy)]
struct Counter {
    name: &'static str,
    boot: u8,
    /// Its frequency, as a part of 2.5 GHz.
    part: (i64, i64),
    ahead: i64,
    drift_ppb: i64,
    /// It runs that much faster in the first half of the run, and slower in the second.
    wander_ppb: i64,
    /// It moves by so many ticks at once.
    step: i64,
}

const fn counter(name: &'static str, boot: u8) -> Counter {
    Counter { name, boot, part: (1, 1), ahead: boot as i64 * 1_000_000_007, drift_ppb: 0, wander_ppb: 0, step: 1 }
}

impl Counter {
    /// What it reads at an instant.
    fn reads(self, instant: i64) -> i64 {
        let swing = i128::from(instant.min(LENGTH - instant));
        let grown = i128::from(instant) * (BILLION + i128::from(self.drift_ppb)) + swing * i128::from(self.wander_ppb);
        let ticks = grown * i128::from(self.part.0) / (BILLION * i128::from(self.part.1));
        (self.ahead + ticks as i64).div_euclid(self.step) * self.step
    }

    fn domain(self) -> Label {
        format!("{}.tsc", self.name).parse().unwrap()
    }
}

/// Exchanges that `asker` asked of `answerer`, at some instants, that take `delay` each way.
struct Asked {
    asker: usize,
    answerer: usize,
    instants: Vec<i64>,
    delay: i64,
    lie: i64,
    /// Only what bounds one side.
    requests_only: bool,
}

fn asked(asker: usize, answerer: usize) -> Asked {
    // Not at the same place within every step of a counter.
    let instants = (1..400).map(|number| LENGTH / 400 * number + number * 7_919 % 5_003).collect();
    Asked { asker, answerer, instants, delay: 2_000, lie: 0, requests_only: false }
}

/// A run of counters; the first is the reference.
struct World {
    counters: Vec<Counter>,
    asked: Vec<Asked>,
    /// Points in the order of the path: `node.point`, its counter, its ordering.
    path: Vec<(&'static str, usize, Ordering)>,
    messages: Vec<&'static str>,
    /// Pairs with a rho, in parts per billion.
    rho: Vec<(usize, usize, u64)>,
    extra: Vec<&'static str>,
}

impl World {
    fn run(&self, site: &Site) -> Run {
        let path: Vec<&str> = self.path.iter().map(|(place, ..)| *place).collect();
        let mut run = site.run(&path, &self.messages);
        let manifest = self.manifest(run.manifest().clone());
        run.set_manifest(manifest).unwrap();
        let stamps: Vec<Vec<(i64, i64)>> = (0..self.path.len()).map(|stop| self.stamps(stop)).collect();
        let points = self.path.iter().zip(&stamps).map(|(&(place, _, ordering), stamps)| {
            let (node, point) = place.split_once('.').unwrap();
            Stamped { node, point, ordering: ordering.name(), clock: "tsc", stamps, lost: &[] }
        });
        write(&run, &points.collect::<Vec<_>>());
        for asked in &self.asked {
            self.ask(&run, asked);
        }
        join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
        run
    }

    fn manifest(&self, manifest: Manifest) -> Manifest {
        let node = |counter: &Counter| {
            let mut node = Node {
                name: NodeName::new(counter.name).unwrap(),
                boot: BootId([counter.boot; 16]),
                ..manifest.nodes[0].clone()
            };
            node.counter.frequency.hertz = (SECOND / counter.part.1 * counter.part.0) as u64;
            node.counter.reading =
                Some(ReadingWidth { width_ticks: counter.step as u64, seen: "as the test made it".into() });
            node
        };
        let rho = self.rho.iter().map(|&(reference, domain, ppb)| RhoDeclaration {
            reference: self.counters[reference].domain(),
            domain: self.counters[domain].domain(),
            ppb,
            origin: "the test".into(),
            kind: None,
        });
        let point = |&(place, _, ordering): &(&str, usize, Ordering)| {
            let (node, name) = place.split_once('.').unwrap();
            let (node, name) = (NodeName::new(node).unwrap(), PointName::new(name).unwrap());
            Point { node, name, ordering, counter: None, resolution_ticks: None }
        };
        let mut evidence = manifest.evidence.clone();
        evidence.probes = !self.asked.is_empty();
        let extra = self.extra.iter().map(|stage| (*stage).to_owned()).collect();
        Manifest {
            nodes: self.counters.iter().map(node).collect(),
            rho: rho.collect(),
            points: self.path.iter().map(point).collect(),
            layout: LayoutText { extra, ..manifest.layout.clone() },
            evidence,
            ..manifest
        }
    }

    /// The instant of a request's stop on the path.
    fn instant(&self, request: i64, stop: usize) -> i64 {
        LENGTH / (REQUESTS + 20) * (request + 10) + (3_000 + 7 * request) * stop as i64
    }

    fn stamps(&self, stop: usize) -> Vec<(i64, i64)> {
        let counter = self.counters[self.path[stop].1];
        (0..REQUESTS).map(|request| (request, counter.reads(self.instant(request, stop)))).collect()
    }

    fn ask(&self, run: &Run, asked: &Asked) {
        let [asker, answerer] = [asked.asker, asked.answerer].map(|counter| self.counters[counter]);
        let mut columns = BracketColumns::default();
        for &instant in &asked.instants {
            let sent = asker.reads(instant - asked.delay);
            let back = asker.reads(instant + asked.delay);
            let at = answerer.reads(instant) + asked.lie;
            columns.push(Some(sent), at, None, BracketSource::ProbeRequest, "before/after");
            if !asked.requests_only {
                columns.push(None, at, Some(back), BracketSource::ProbeReply, "before/after");
            }
        }
        run.add_brackets(&Pair { reference: asker.domain(), domain: answerer.domain() }, "probe", &columns).unwrap();
    }

    /// Holds the clock map of a counter against the instants at which it comes to its ticks; the reference keeps time.
    fn expect_true_clock_map(&self, run: &Run, counter: Counter) {
        let clock_map = clock_map_of(run, &counter.domain().to_string(), &default()).unwrap();
        for part in 1..2_000 {
            let tick = counter.reads(LENGTH / 2_000 * part);
            let (mut before, mut instant) = (0, LENGTH);
            while instant - before > 1 {
                let middle = before.midpoint(instant);
                if counter.reads(middle) < tick { before = middle } else { instant = middle }
            }
            let [first, last] = [before, instant].map(|instant| self.counters[0].ahead + instant);
            let found = clock_map.interval(Tick::new(tick)).unwrap();
            let is_true = found.lo().get() <= last && first <= found.hi().get();
            assert!(is_true, "{}: {first} to {last} in {found:?}", counter.name);
        }
    }

    /// Half the widest interval of each stage of the path and each extra one, all of which hold the truth; `None`: some
    /// duration is refused.
    fn widest(&self, run: &Run, query: &Query) -> Vec<Option<i64>> {
        let found = spans(run, query).unwrap();
        let stages = self.path.len() - 1;
        let ends: Vec<(usize, usize)> = (0..stages).map(|stop| (stop, stop + 1)).collect();
        let mut widest: Vec<Option<i64>> = vec![Some(0); stages];
        assert_eq!(found.traces.len() as i64, REQUESTS);
        for trace in &found.traces {
            for ((stage, &(from, to)), widest) in trace.stages.iter().zip(&ends).zip(&mut widest) {
                let truth = self.instant(trace.id, to) - self.instant(trace.id, from);
                if let Some(span) = stage {
                    assert!(span.lo <= truth && truth <= span.hi, "{from} to {to}: {truth} in {span:?}");
                }
                *widest = widest.zip(stage.as_ref()).map(|(most, span)| most.max((span.hi - span.lo + 1) / 2));
            }
        }
        widest
    }
}

const BEFORE: Ordering = Ordering::Before;

fn default() -> Query {
    Query::default()
}

fn said(run: &Run, analysis: &Analysis) -> String {
    assumptions(run.manifest(), analysis).iter().map(|(what, origin)| format!("{what} [{origin}]\n")).collect()
}

fn json(run: &Run, analysis: &Analysis) -> serde_json::Value {
    serde_json::to_value(RunJson::of(run, analysis, &[])).unwrap()
}

/// Four nodes; the second and the third wander against each other by twice what is declared of each against the
/// first, and nobody says anything of these two.
fn wandering() -> World {
    let ends = || (0..20).flat_map(|step| [SECOND / 500 * (step + 5), LENGTH - SECOND / 500 * (step + 5)]).collect();
    let pair = |asker, answerer| Asked { instants: ends(), ..asked(asker, answerer) };
    World {
        counters: vec![
            counter("client", 1),
            Counter { wander_ppb: 199_000, ..counter("server", 2) },
            Counter { wander_ppb: -199_000, ..counter("third", 3) },
            counter("fourth", 4),
        ],
        asked: vec![pair(0, 1), pair(0, 2), pair(0, 3), pair(1, 3)],
        path: vec![
            ("client.at", 0, BEFORE),
            ("server.at", 1, BEFORE),
            ("third.at", 2, BEFORE),
            ("fourth.at", 3, BEFORE),
            ("client.back", 0, BEFORE),
        ],
        messages: vec![],
        rho: [(0, 1), (0, 2), (0, 3), (1, 3)].map(|(one, other)| (one, other, 200_000)).to_vec(),
        extra: vec![],
    }
}

#[test]
fn a_pair_without_evidence_rests_on_what_is_declared_of_the_pairs_between() {
    let (site, world) = (Site::new(), wandering());
    let run = world.run(&site);
    assert!(world.widest(&run, &default()).iter().all(Option::is_some));
    let analysis = analyse(&run, &default(), false).unwrap();
    let json = json(&run, &analysis);
    let pair = json["pairs"].as_array().unwrap().iter().find(|pair| pair["reference"] == "server.tsc").unwrap();
    assert_eq!(pair["rho"], "400.04 ppm, from those of the pairs between", "{pair}");
    let said = said(&run, &analysis);
    assert!(!said.contains("third.tsc against server.tsc"), "what follows is no assumption: {said}");
    assert_eq!(said.matches("stays within rho").count(), 1, "{said}");
}

/// The second and third node wander against each other, within what is assumed of each; both say of the fourth what is
/// not so: that they do not wander against it.
fn falsely_steady(requests_only: bool) -> World {
    let mut world = wandering();
    world.counters[1].wander_ppb = 24_000;
    world.counters[2].wander_ppb = -24_000;
    let of_fourth = |asker| Asked { requests_only, ..asked(asker, 3) };
    let few = |answerer| {
        let ends = [SECOND / 100, SECOND / 90, LENGTH - SECOND / 90, LENGTH - SECOND / 100];
        Asked { instants: ends.to_vec(), ..asked(0, answerer) }
    };
    world.asked = vec![few(1), few(2), of_fourth(1), of_fourth(2)];
    world.path.remove(3);
    world.rho = vec![(1, 3, 200), (2, 3, 200)];
    world
}

#[test]
fn what_is_assumed_of_pairs_without_a_clock_map_binds_no_other_pair() {
    let (site, world) = (Site::new(), falsely_steady(true));
    let run = world.run(&site);
    assert!(world.widest(&run, &default()).iter().all(Option::is_some));
    let said = said(&run, &analyse(&run, &default(), false).unwrap());
    assert!(!said.contains("fourth.tsc against"), "nothing rests on it: {said}");
}

#[test]
fn what_is_assumed_of_a_node_that_is_left_out_binds_no_other_pair() {
    let (site, world) = (Site::new(), falsely_steady(false));
    let run = world.run(&site);
    match analyse(&run, &default(), false) {
        Ok(analysis) => {
            assert!(analysis.finding(&[]).unwrap().contains("without fourth.tsc all others agree"));
            assert!(world.widest(&run, &default()).iter().all(Option::is_some));
        }
        Err(why) => assert!(why.is_finding(), "{why}"),
    }
}

#[test]
fn one_poor_exchange_more_makes_no_duration_wider() {
    let world = |more: Option<Asked>| {
        let seldom = |asker, answerer| Asked {
            instants: (1..8).map(|part| LENGTH / 8 * part).collect(),
            ..asked(asker, answerer)
        };
        let mut world = unequal(vec![seldom(0, 1), seldom(1, 2)]);
        for counter in &mut world.counters {
            (counter.drift_ppb, counter.step) = (0, 1);
        }
        world.asked.extend(more);
        world.path = vec![("client.at", 0, BEFORE), ("third.at", 2, BEFORE), ("client.back", 0, BEFORE)];
        world.rho = vec![(0, 1, 200), (1, 2, 200)];
        world
    };
    let widths = |world: World| {
        let site = Site::new();
        world.widest(&world.run(&site), &default()).into_iter().map(Option::unwrap).collect::<Vec<_>>()
    };
    let without = widths(world(None));
    let poor = Asked { instants: vec![LENGTH / 3], delay: 5_000_000, ..asked(0, 2) };
    let with = widths(world(Some(poor)));
    for (without, with) in without.iter().zip(&with) {
        assert!(*with <= without + without / 10, "{without:?} {with:?}");
    }
}

#[test]
fn an_assumption_about_a_node_without_points_is_printed_where_a_bound_rests_on_it() {
    let site = Site::new();
    let mut world = wandering();
    world.asked.remove(1); // the third node is known through the second alone
    world.asked.push(Asked { asker: 1, answerer: 2, ..asked(1, 2) });
    world.rho = vec![(0, 1, 200_000), (1, 2, 400_000), (0, 3, 200_000), (1, 3, 200_000)];
    world.path = vec![("client.at", 0, BEFORE), ("third.at", 2, BEFORE), ("client.back", 0, BEFORE)];
    let run = world.run(&site);
    assert!(world.widest(&run, &default()).iter().all(Option::is_some));
    let said = said(&run, &analyse(&run, &default(), false).unwrap());
    assert!(said.contains("third.tsc against server.tsc stays within rho"), "{said}");
}

#[test]
fn each_pair_has_the_rho_that_was_declared_for_it() {
    let site = Site::new();
    let mut world = wandering();
    world.asked.push(asked(2, 1));
    world.rho = vec![(0, 1, 200_000), (0, 2, 210_000), (0, 3, 220_000), (1, 3, 230_000), (2, 1, 400_000)];
    let run = world.run(&site);
    assert!(world.widest(&run, &default()).iter().all(Option::is_some));
    let json = json(&run, &analyse(&run, &default(), false).unwrap());
    let rho = |domain: &str, reference: &str| {
        let all = json["pairs"].as_array().unwrap();
        let pair = all.iter().find(|pair| pair["domain"] == domain && pair["reference"] == reference).unwrap();
        pair["rho"].as_str().unwrap().split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!([rho("server.tsc", "client.tsc"), rho("fourth.tsc", "server.tsc")], [200.0, 230.0]);
    assert!((400.0..401.0).contains(&rho("third.tsc", "server.tsc")));
    assert!((420.0..440.0).contains(&rho("fourth.tsc", "third.tsc")), "{}", rho("fourth.tsc", "third.tsc"));
}

/// Three counters of other frequencies and widths, each pair asked by one of the two.
/// The second and the third node read one counter, and less is declared of the one than of the other.
#[test]
fn of_a_counter_that_several_nodes_read_the_largest_rho_declared_for_any_of_them_holds() {
    let site = Site::new();
    let mut world = wandering();
    world.counters[2] = Counter { name: "third", ..world.counters[1] };
    world.asked = vec![asked(0, 1), asked(1, 3)];
    world.rho = vec![(0, 1, 200_000), (0, 2, 400_000), (0, 3, 220_000), (1, 3, 230_000), (2, 3, 210_000)];
    let run = world.run(&site);
    let json = json(&run, &analyse(&run, &default(), false).unwrap());
    let all = json["pairs"].as_array().unwrap();
    let pair = all.iter().find(|pair| pair["domain"] == "server.tsc" && pair["reference"] == "client.tsc").unwrap();
    assert!(pair["rho"].as_str().unwrap().starts_with("400 ppm"), "{pair}");
}

fn unequal(asked: Vec<Asked>) -> World {
    World {
        counters: vec![
            Counter { step: 30, ..counter("client", 1) },
            Counter { part: (2, 5), step: 24, drift_ppb: 90_000, ..counter("server", 2) },
            Counter { part: (7, 5), step: 400, drift_ppb: -80_000, ..counter("third", 3) },
        ],
        asked,
        path: vec![
            ("client.at", 0, BEFORE),
            ("server.at", 1, BEFORE),
            ("third.at", 2, BEFORE),
            ("server.again", 1, BEFORE),
            ("client.back", 0, BEFORE),
        ],
        messages: vec![],
        rho: vec![],
        extra: vec![],
    }
}

#[test]
fn whoever_asked_the_evidence_holds_and_is_as_narrow() {
    let quick = |asker, answerer| Asked { delay: 0, ..asked(asker, answerer) };
    for turned in
        [[(0, 1), (0, 2), (1, 2)], [(1, 0), (2, 0), (2, 1)], [(0, 1), (2, 0), (1, 2)], [(1, 0), (0, 2), (2, 1)]]
    {
        let (site, world) = (Site::new(), unequal(turned.map(|(asker, answerer)| quick(asker, answerer)).into()));
        let run = world.run(&site);
        let widths = world.widest(&run, &default());
        let width = widths.iter().map(|width| width.unwrap()).max().unwrap();
        assert!(width < 3_000, "{turned:?}: {widths:?}");
        for counter in &world.counters[1..] {
            world.expect_true_clock_map(&run, *counter);
        }
    }
}

#[test]
fn of_two_nodes_the_reference_may_be_the_one_that_answered() {
    let site = Site::new();
    let mut world = unequal(vec![asked(1, 0)]);
    world.counters.pop();
    world.path.remove(2);
    let run = world.run(&site);
    let widths = world.widest(&run, &default());
    assert!([0, 2].iter().all(|&stage| widths[stage].is_some_and(|width| width < 4_000)), "{widths:?}");
    let analysis = analyse(&run, &default(), false).unwrap();
    let half_round_trip = analysis.clock_maps[0].half_round_trip_ticks.unwrap();
    assert!((1_900..2_100).contains(&half_round_trip), "of 2000 ticks each way: {half_round_trip}");
}

#[test]
fn nodes_of_one_boot_read_one_counter_also_where_it_is_not_the_reference() {
    for asks in [vec![asked(0, 1)], vec![asked(2, 0)], vec![asked(0, 1), asked(0, 2)]] {
        let site = Site::new();
        let mut world = unequal(asks);
        world.counters[2] = Counter { name: "third", ..world.counters[1] };
        let run = world.run(&site);
        let widths = world.widest(&run, &default());
        assert!(widths[1].is_some_and(|width| width < 150), "on one counter: {widths:?}");
        assert!(widths[0].is_some() && widths[3].is_some(), "{widths:?}");
        let said = said(&run, &analyse(&run, &default(), false).unwrap());
        assert!(said.contains("third.tsc") && said.contains("server.tsc") && said.contains("one counter"), "{said}");
    }
}

#[test]
fn nodes_of_one_boot_whose_exchanges_contradict_it_are_a_finding() {
    let site = Site::new();
    let mut world = unequal(vec![asked(0, 1), Asked { lie: 100_000, ..asked(1, 2) }]);
    world.counters[2] = Counter { name: "third", ..world.counters[1] };
    let error = analyse(&world.run(&site), &default(), false).unwrap_err();
    assert!(error.is_finding() && error.to_string().contains("to be one counter"), "{error}");
}

#[test]
fn every_two_nodes_of_one_boot_are_held_against_their_exchanges() {
    let site = Site::new();
    let mut world = unequal(vec![asked(0, 1), Asked { lie: 100_000, ..asked(2, 3) }]);
    world.counters[2] = Counter { name: "third", ..world.counters[1] };
    world.counters.push(Counter { name: "fourth", ..world.counters[1] });
    world.path[3] = ("fourth.at", 3, BEFORE);
    let error = analyse(&world.run(&site), &default(), false).unwrap_err();
    assert!(error.is_finding() && error.to_string().contains("to be one counter"), "{error}");
}

#[test]
fn messages_between_two_nodes_neither_of_which_is_the_reference_narrow_their_stages() {
    let world = |messages| World {
        counters: vec![counter("client", 1), counter("server", 2), Counter { drift_ppb: 3_000, ..counter("third", 3) }],
        asked: vec![Asked { delay: 400_000, ..asked(0, 1) }, Asked { delay: 400_000, ..asked(0, 2) }],
        path: vec![
            ("client.at", 0, BEFORE),
            ("server.sent", 1, BEFORE),
            ("third.got", 2, Ordering::After),
            ("third.sent", 2, BEFORE),
            ("server.got", 1, Ordering::After),
            ("client.back", 0, BEFORE),
        ],
        messages,
        rho: vec![],
        extra: vec![],
    };
    let both = vec!["server.sent > third.got", "third.sent > server.got"];
    for (messages, between) in [(vec![], 350_000..900_000), (both, 0..12_000)] {
        let (site, world) = (Site::new(), world(messages));
        let run = world.run(&site);
        let widths = world.widest(&run, &default());
        assert!(widths[1].is_some_and(|width| between.contains(&width)), "{widths:?}");
        assert!(widths[3].is_some_and(|width| between.contains(&width)), "{widths:?}");
    }
}

#[test]
fn a_node_that_is_bounded_on_one_side_alone_takes_nothing_from_the_others() {
    let site = Site::new();
    let mut world = wandering();
    world.asked = vec![asked(0, 1), asked(0, 2), asked(1, 2), Asked { requests_only: true, ..asked(0, 3) }];
    world.rho = [(0, 1), (0, 2), (0, 3), (1, 2)].map(|(one, other)| (one, other, 400_000)).to_vec();
    let run = world.run(&site);
    let widths = world.widest(&run, &default());
    assert_eq!(widths.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, false], "{widths:?}");
    let analysis = analyse(&run, &default(), false).unwrap();
    assert!(analysis.finding(&[]).is_none());
    let lack = analysis.lack().unwrap();
    assert!(lack.contains("fourth.tsc against client.tsc") && lack.contains("'after'"), "{lack}");
}

#[test]
fn no_duration_rests_on_the_rate_of_a_node_that_contradicts_all_others() {
    for with_pairs in [true, false] {
        let site = Site::new();
        let mut world = wandering();
        world.counters = vec![
            counter("client", 1),
            counter("server", 2),
            Counter { wander_ppb: 1_500_000, ..counter("third", 3) },
            counter("fourth", 4),
        ];
        world.path[3] = ("third.again", 2, BEFORE);
        world.asked = vec![asked(0, 1), asked(0, 2), asked(0, 3)];
        if with_pairs {
            world.asked.extend([asked(1, 2), asked(1, 3), asked(2, 3)]);
        }
        world.rho = vec![];
        let run = world.run(&site);
        let widths = world.widest(&run, &default());
        assert_eq!(widths.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, false], "{widths:?}");
        let analysis = analyse(&run, &default(), false).unwrap();
        let finding = analysis.finding(&[]).unwrap();
        assert!(finding.contains("third.tsc against client.tsc: the evidence contradicts itself"), "{finding}");
        assert!(analysis.lack().unwrap().contains("stages within third"), "{:?}", analysis.lack());
    }
}

#[test]
fn a_reference_that_contradicts_all_others_is_named_and_nothing_is_measured_against_it() {
    let site = Site::new();
    let mut world = wandering();
    for counter in &mut world.counters {
        counter.wander_ppb = 0;
    }
    let lies = |answerer| Asked { lie: 50_000 * answerer as i64, ..asked(0, answerer) };
    world.asked = vec![lies(1), lies(2), lies(3), asked(1, 2), asked(1, 3), asked(2, 3)];
    let error = analyse(&world.run(&site), &default(), false).unwrap_err();
    assert!(error.is_finding() && error.to_string().contains("without client.tsc all others agree"), "{error}");
}

#[test]
fn an_unrelated_node_far_from_zero_has_durations_of_its_own() {
    for ahead in [1 << 60, -(1 << 61), 5] {
        let site = Site::new();
        let mut world = unequal(vec![]);
        world.counters[1] = Counter { ahead, ..world.counters[1] };
        world.path = vec![
            ("client.at", 0, BEFORE),
            ("server.at", 1, BEFORE),
            ("server.again", 1, BEFORE),
            ("client.back", 0, BEFORE),
        ];
        let run = world.run(&site);
        let widths = world.widest(&run, &default());
        assert_eq!(widths.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false], "{ahead}: {widths:?}");
        let analysis = analyse(&run, &default(), false).unwrap();
        assert!(analysis.finding(&[]).is_none(), "{ahead}: {:?}", analysis.finding(&[]));
        let said = said(&run, &analysis);
        assert!(said.contains("server.tsc against client.tsc lies within 500 ppm"), "{said}");
    }
}

/// Readings of one clock by each counter's node, around 40 instants; it runs 2 % fast, and was set forward.
fn read_the_hosts_clock(run: &Run, counters: &[Counter]) {
    for (number, counter) in (0..).zip(counters) {
        let mut columns = BracketColumns::default();
        for instant in (1..40).flat_map(|mark| (-5..5).map(move |near| LENGTH / 40 * mark + 2_000 * near)) {
            let instant = instant + 613 * number;
            let forward = if instant > LENGTH / 2 { 1_000_000 } else { 0 };
            let (before, after) = (counter.reads(instant - 300), counter.reads(instant + 300));
            let shown = instant / 50 * 51 / 5 * 2 + forward;
            columns.push(Some(before), shown, Some(after), BracketSource::Watch, "before/after");
        }
        let clock = format!("{}.phc", counter.name).parse().unwrap();
        run.add_brackets(&Pair { reference: counter.domain(), domain: clock }, "watch", &columns).unwrap();
    }
}

#[test]
fn guests_of_one_host_are_related_by_its_clock_alone_where_that_is_declared() {
    let declared = |names: &[&str]| {
        let (site, world) = (Site::new(), unequal(vec![]));
        let mut run = world.run(&site);
        read_the_hosts_clock(&run, &world.counters);
        let mut manifest = run.manifest().clone();
        manifest.evidence.common_host = names.iter().map(|name| NodeName::new(*name).unwrap()).collect();
        run.set_manifest(manifest).unwrap();
        (site, world, run)
    };
    let (_site, world, run) = declared(&["client", "server", "third"]);
    let widths = world.widest(&run, &default());
    assert!(widths.iter().all(|width| width.is_some_and(|width| width < 16_000)), "{widths:?}");
    world.counters[1..].iter().for_each(|counter| world.expect_true_clock_map(&run, *counter));
    let table = json(&run, &analyse(&run, &default(), false).unwrap());
    assert_eq!(table["clock_maps"][0]["sources"][0]["name"], "common-host", "{table}");
    let (_site, world, run) = declared(&["client", "third"]);
    assert_eq!(world.widest(&run, &default())[0], None, "nobody declared the server to be on that host");
    world.expect_true_clock_map(&run, world.counters[2]);
    let (_site, world, run) = declared(&[]);
    assert!(world.widest(&run, &default())[..4].iter().all(Option::is_none));
}

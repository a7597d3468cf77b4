//! Whole runs of counters and clocks that move in steps: every true duration lies in its interval, and what that
//! rests on is said. Instants are counted in sixteenths of a tick, so that what a reading rounds off is part of the
//! truth.

mod site;

use proptest::prelude::*;
use site::{Site, Stamped, write};
use tickscope_analysis::{Query, Spanned, Spans, analyse, assumptions, spans};
use tickscope_store::{
    BracketColumns, BracketSource, Manifest, Origin, Pair, Point, ReadingWidth, RhoDeclaration, Run, StampColumns,
    join_run, next_segment, write_channels, write_segment,
};
use tickscope_tick::{Clock, NodeName, Ordering, PointName, Stairs};
use tickscope_trace::Apart;

/// Of one tick.
const PARTS: i64 = 16;
/// The server's counter is this far ahead of the client's.
const AHEAD: i64 = 123_456_789 * PARTS + 5;
/// A tick lasts so many tenths of a nanosecond.
const TENTHS: i64 = 4;
/// What the client's log cuts off, in ns.
const LOG_NS: i64 = 1_000;

const PATH: [&str; 6] =
    ["client.send", "client.logged", "client.tx", "server.received", "server.reply", "client.response"];

const ORDERINGS: [Ordering; 6] =
    [Ordering::Before, Ordering::Plain, Ordering::Before, Ordering::After, Ordering::Before, Ordering::After];

fn of_realtime(point: &str) -> bool {
    matches!(point, "logged" | "tx")
}

fn point(place: &str, ordering: Ordering) -> Point {
    let (node, name) = place.split_once('.').unwrap();
    Point {
        node: NodeName::new(node).unwrap(),
        name: PointName::new(name).unwrap(),
        ordering,
        counter: of_realtime(name).then_some(Clock::Realtime),
        resolution_ticks: (name == "logged").then_some(LOG_NS as u64),
    }
}

/// How the clocks of a run move, and how wide the run takes their readings to be.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    client: Stairs,
    server: Stairs,
    realtime: Stairs,
}

/// A request, in parts of a tick: how long after the one before, and from each point of the path to the next.
type Request = (i64, [i64; 5]);

impl Clocks {
    fn realtime_at(&self, instant: i64) -> i64 {
        let ns = 1_700_000_000_000_000_000 + (instant * TENTHS).div_euclid(10 * PARTS);
        self.realtime.shown(ns)
    }

    fn client_at(&self, instant: i64) -> i64 {
        self.client.shown(instant.div_euclid(PARTS))
    }

    fn server_at(&self, instant: i64) -> i64 {
        self.server.shown((instant + AHEAD).div_euclid(PARTS))
    }

    fn reading(&self, point: usize, instant: i64) -> i64 {
        match PATH[point] {
            "client.logged" => self.realtime_at(instant).div_euclid(LOG_NS) * LOG_NS,
            "client.tx" => self.realtime_at(instant),
            of_server if of_server.starts_with("server") => self.server_at(instant),
            _ => self.client_at(instant),
        }
    }
}

fn width(stairs: Stairs) -> Option<ReadingWidth> {
    Some(ReadingWidth { width_ticks: stairs.widest_gap(), seen: "a simulation".into() })
}

/// A run of these requests, and by request the instants at which each point was passed.
fn run(site: &Site, clocks: Clocks, requests: &[Request]) -> (Run, Vec<Vec<i64>>) {
    let mut run = site.run(&PATH, &["client.send > server.received", "server.reply > client.response"]);
    let mut manifest = run.manifest().clone();
    for node in &mut manifest.nodes {
        let client = node.name.as_str() == "client";
        node.counter.reading = width(if client { clocks.client } else { clocks.server });
        node.clocks.extend(width(clocks.realtime).filter(|_| client).map(|width| ("realtime".to_owned(), width)));
    }
    manifest.points = PATH.iter().zip(ORDERINGS).map(|(place, ordering)| point(place, ordering)).collect();
    run.set_manifest(manifest).unwrap();
    let mut now = 1_000_000_000 * PARTS;
    let mut passed: Vec<Vec<i64>> = Vec::new();
    for (wait, delays) in requests {
        now += wait;
        let mut instants = vec![now];
        for delay in delays {
            instants.push(instants[instants.len() - 1] + delay);
        }
        now = instants[instants.len() - 1];
        passed.push(instants);
    }
    let stamps = |point: usize| -> Vec<(i64, i64)> {
        passed.iter().zip(0..).map(|(instants, id)| (id, clocks.reading(point, instants[point]))).collect()
    };
    let all: Vec<Vec<(i64, i64)>> = (0..PATH.len()).map(stamps).collect();
    let points: Vec<Stamped<'_>> = (0..PATH.len())
        .map(|point| {
            let (node, name) = PATH[point].split_once('.').unwrap();
            let clock = if of_realtime(name) { "realtime" } else { "tsc" };
            Stamped { node, point: name, ordering: ORDERINGS[point].name(), clock, stamps: &all[point], lost: &[] }
        })
        .collect();
    write(&run, &points);
    let mut monitor = BracketColumns::default();
    // Readings of the clock that take no time at all, so that nothing but their widths holds them apart.
    let (first, last) = (passed[0][0] - 2_000_000 * PARTS, now + 2_000_000 * PARTS);
    for number in 0..1_000 {
        let instant = first + (last - first) / 999 * number + number * 37 % 97;
        let counter = clocks.client_at(instant);
        monitor.push(Some(counter), clocks.realtime_at(instant), Some(counter), BracketSource::Watch, "before/after");
    }
    let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "client.realtime".parse().unwrap() };
    run.add_brackets(&pair, "watch", &monitor).unwrap();
    join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
    (run, passed)
}

fn stairs(numerator: i64, denominator: i64, uneven: i64) -> Stairs {
    Stairs::new(numerator, denominator, uneven).unwrap()
}

fn any_stairs() -> impl Strategy<Value = Stairs> {
    let some = [(1, 1, 0), (2, 1, 0), (49, 2, 0), (40, 1, 0), (1000, 1, 0), (300, 1, 200)];
    prop::sample::select(some.map(|(numerator, denominator, uneven)| stairs(numerator, denominator, uneven)).to_vec())
}

fn any_clocks() -> impl Strategy<Value = Clocks> {
    let realtime = prop::sample::select(vec![stairs(1, 1, 0), stairs(10, 1, 0), stairs(125, 3, 0)]);
    (any_stairs(), any_stairs(), realtime).prop_map(|(client, server, realtime)| Clocks { client, server, realtime })
}

/// Delays of less than a step, as often as longer ones.
fn request() -> impl Strategy<Value = Request> {
    let delay = || prop_oneof![0i64..30 * PARTS, 0i64..20_000 * PARTS];
    (1_000 * PARTS..2_000_000 * PARTS, [(); 5].map(|()| delay()))
}

/// How many durations were held against the truth, and how many of those are refused; panics on one outside.
fn compared(found: &Spans, passed: &[Vec<i64>]) -> (usize, usize) {
    let (mut known, mut refused) = (0, 0);
    for Spanned { id, stages, .. } in &found.traces {
        let instants = &passed[*id as usize];
        let ends = (0..5).map(|point| (point, point + 1)).chain([(0, 5)]);
        for (stage, (from, to)) in stages.iter().zip(ends) {
            let Some(span) = stage else {
                refused += 1;
                continue;
            };
            let truth = instants[to] - instants[from];
            let inside = span.lo * PARTS <= truth && truth <= span.hi * PARTS;
            assert!(inside, "{} > {}: {truth} / {PARTS} not in {span:?}", PATH[from], PATH[to]);
            known += 1;
        }
    }
    (known, refused)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn property_every_true_duration_lies_in_its_interval_whatever_the_counters_steps(
        clocks in any_clocks(), requests in prop::collection::vec(request(), 150..300),
    ) {
        let site = Site::new();
        let (run, passed) = run(&site, clocks, &requests);
        let query = Query { rho: Some("1".parse().unwrap()), ..Query::default() };
        let found = spans(&run, &query).unwrap();
        let (known, refused) = compared(&found, &passed);
        prop_assert!(known + refused == requests.len() * 6 && refused * 20 < known, "{refused} of {known}");
        let analysis = analyse(&run, &query, false).unwrap();
        prop_assert!(analysis.finding(&[]).is_none(), "{:?}", analysis.finding(&[]));
        for row in &analysis.rows {
            // No reading is exact, so no figure is.
            prop_assert!(row.own.below_ticks > 0 && row.relative_ticks > 0, "{row:?}");
            prop_assert!(row.p50.is_some_and(|p50| p50.lo < p50.estimate && p50.estimate < p50.hi), "{row:?}");
        }
    }
}

/// So many durations as `TICKSCOPE_TRUE_DURATIONS` asks for, a run of 20 000 requests after another.
#[test]
fn true_durations_by_the_thousand_lie_inside_under_every_step() {
    let wanted: usize = std::env::var("TICKSCOPE_TRUE_DURATIONS").map_or(100_000, |text| text.parse().unwrap());
    let steps = [(1, 1, 0), (49, 2, 0), (40, 1, 0), (1000, 1, 0), (300, 1, 200)].map(|(n, d, u)| stairs(n, d, u));
    let (mut known, mut refused, mut random) = (0, 0, 0x9e37_79b9_7f4a_7c15u64);
    let mut below = |limit: i64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) as i64) % limit
    };
    for round in 0.. {
        let (client, server) = (steps[round % 5], steps[(round / 5 + round) % 5]);
        let clocks = Clocks { client, server, realtime: stairs(10, 1, 0) };
        let mut delay = |_: ()| if below(2) == 0 { below(30 * PARTS) } else { below(20_000 * PARTS) };
        let requests: Vec<Request> =
            (0..4_000).map(|_| (50_000 * PARTS + delay(()), [(); 5].map(&mut delay))).collect();
        let site = Site::new();
        let (run, passed) = run(&site, clocks, &requests);
        let found = compared(&spans(&run, &Query::default()).unwrap(), &passed);
        (known, refused) = (known + found.0, refused + found.1);
        if known >= wanted {
            break;
        }
    }
    println!("{known} true durations inside, 0 outside, {refused} refused");
}

#[test]
fn everything_that_a_figure_rests_on_is_said() {
    let site = Site::new();
    let clocks = Clocks { client: stairs(49, 2, 0), server: stairs(1, 1, 0), realtime: stairs(10, 1, 0) };
    let requests: Vec<Request> = (0..200).map(|n| (1_000_000 * PARTS, [160, 320, 160 + n, 16, 160])).collect();
    let (run, _) = run(&site, clocks, &requests);
    let analysis = analyse(&run, &Query::default(), false).unwrap();
    let all: Vec<String> =
        assumptions(run.manifest(), &analysis).into_iter().map(|(what, origin)| format!("{what} [{origin}]")).collect();
    let says = |parts: &[&str]| all.iter().any(|said| parts.iter().all(|part| said.contains(part)));
    for parts in [
        &["rate of server.tsc", "within rho"][..],
        &["rate of server.tsc", "500 ppm", "[default prior; the evidence bounds the rate closer]"],
        &["client.realtime", "1102 ppm"],
        &["client.tsc", "leaves 25 ticks open", "regular where a reading takes longer than one"],
        &["server.tsc", "leaves 1 ticks open"],
        &["client.realtime", "leaves 10 ticks open"],
        &["client.logged", "off by 1000 ticks of its clock either way"],
        &["client.logged", "plain", "reading to reading"],
        &["client.tsc, server.tsc", "one rate in every power state"],
        &["client.tsc, server.tsc", "fence", "the processor does not say"],
        &["client, server", "cores read one counter"],
        &["figures do not include what that check", "cores = \"prove\""],
        &["quantiles are of the traces that have a duration"],
        &["a kernel stamp of sending precedes the packet", "driver"],
        &["seconds", "2500000000 Hz"],
    ] {
        assert!(says(parts), "{parts:?} in {all:#?}");
    }
}

#[test]
fn the_prior_of_a_clock_holds_what_the_frequency_of_its_counter_leaves_open() {
    let site = Site::new();
    let clocks = Clocks { client: stairs(1, 1, 0), server: stairs(1, 1, 0), realtime: stairs(1, 1, 0) };
    let requests: Vec<Request> = (0..3).map(|_| (1_000_000 * PARTS, [1_600_000; 5])).collect();
    let (mut run, _) = run(&site, clocks, &requests);
    // (1 + tolerance)/(1 - 1000 ppm) - 1
    for (tolerance_ppm, prior) in [(1, "1102 ppm"), (20_000, "21022 ppm")] {
        let mut manifest = run.manifest().clone();
        manifest.nodes.iter_mut().for_each(|node| node.counter.frequency.tolerance_ppm = tolerance_ppm);
        run.set_manifest(manifest).unwrap();
        let analysis = analyse(&run, &Query::default(), false).unwrap();
        let said = assumptions(run.manifest(), &analysis);
        let of_clock = |(what, _): &&(String, String)| what.contains("rate of client.realtime") && what.contains(prior);
        assert_eq!(said.iter().filter(of_clock).count(), 1, "{said:#?}");
    }
}

#[test]
fn a_prior_that_carries_a_slope_is_said_to() {
    let site = Site::new();
    let clocks = Clocks { client: stairs(1, 1, 0), server: stairs(1, 1, 0), realtime: stairs(1, 1, 0) };
    let requests: Vec<Request> = (0..3).map(|_| (1_000_000 * PARTS, [1_600_000; 5])).collect();
    let (run, _) = run(&site, clocks, &requests);
    let analysis = analyse(&run, &Query::default(), false).unwrap();
    let said = assumptions(run.manifest(), &analysis);
    let carried =
        |(what, origin): &&(String, String)| what.contains("server.tsc") && origin.contains("carries a slope");
    assert_eq!(said.iter().filter(carried).count(), 1, "{said:#?}");
}

#[test]
fn a_millisecond_is_one_of_each_ends_counter() {
    let site = Site::new();
    let messages = ["client.send > server.received", "server.reply > client.response"];
    let mut run = site.run(&["client.send", "server.received", "server.reply", "client.response"], &messages);
    let mut manifest = run.manifest().clone();
    manifest.nodes[1].counter.frequency.hertz *= 3;
    let (client, server) = (manifest.nodes[0].counter.frequency.hertz, manifest.nodes[1].counter.frequency.hertz);
    assert_eq!((manifest.nodes[0].name.as_str(), manifest.nodes[1].name.as_str()), ("client", "server"));
    run.set_manifest(manifest).unwrap();
    let stamps = |offset: i64, times: i64| -> Vec<(i64, i64)> {
        (0..500).map(|id| (id, (1_000_000_000 + id * 2_000_000 + offset) * times)).collect()
    };
    let (send, received) = (stamps(0, 1), stamps(20_000, 3));
    let (reply, response) = (stamps(20_500, 3), stamps(40_000, 1));
    let counted = |node, point, ordering, stamps| Stamped { node, point, ordering, clock: "tsc", stamps, lost: &[] };
    write(
        &run,
        &[
            counted("client", "send", "before", &send),
            counted("server", "received", "after", &received),
            counted("server", "reply", "before", &reply),
            counted("client", "response", "after", &response),
        ],
    );
    join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
    let query = Query { rho: Some("200".parse().unwrap()), ..Query::default() };
    let (analysis, found) = (analyse(&run, &query, false).unwrap(), spans(&run, &query).unwrap());
    let apart = |from: u64, to: u64| Apart { from_ticks: from.div_ceil(1000), to_ticks: to.div_ceil(1000) };
    let asked = [apart(client, server), apart(server, server), apart(server, client), apart(client, client)];
    for (stage, apart) in asked.into_iter().enumerate() {
        assert_eq!(found.relative_ticks(stage, apart), Some(analysis.relative_1ms_ticks[stage]), "stage {stage}");
    }
    assert!(analysis.relative_1ms_ticks[0] > found.relative_ticks(0, Apart::by(client.div_ceil(1000))).unwrap());
}

#[test]
fn brackets_that_a_program_takes_of_a_clock_are_evidence_only_where_their_stamps_were_ordered_and_are_told_of() {
    let clocks = Clocks { client: stairs(1, 1, 0), server: stairs(1, 1, 0), realtime: stairs(1, 1, 0) };
    let requests: Vec<Request> = (0..50).map(|_| (1_000_000 * PARTS, [1_600; 5])).collect();
    for (ordering, in_file) in [("plain", true), ("before", true), ("before", false)] {
        let site = Site::new();
        let (run, _) = run(&site, clocks, &requests);
        let channels = run.channels().unwrap().found;
        let mut told = channels.iter().find(|channel| channel.node == "client").unwrap().clone();
        (told.channel, told.point, told.ordering) = (99, "clock-bracket.realtime".parse().unwrap(), ordering.into());
        told.domain = told.domain.replace("realtime", "tsc");
        let mut of_client: Vec<_> = channels.iter().filter(|channel| channel.node == "client").cloned().collect();
        of_client.extend(in_file.then_some(told));
        write_channels(&run.paths().channels("client"), &of_client).unwrap();
        let at = 1_000_500_000;
        let columns = StampColumns {
            value: std::iter::once(Some(at + 50)).collect(),
            ..StampColumns::slim(vec![at], vec![clocks.realtime_at(at * PARTS)], vec![99])
        };
        let place = next_segment(&run.paths().stamps(&"client.clock-bracket.realtime".parse().unwrap())).unwrap();
        write_segment(&place, &columns, &Origin::default()).unwrap();
        match analyse(&run, &Query::default(), false) {
            Ok(analysis) => {
                let clock = &analysis.auxiliary_clocks[0];
                let unused: u64 = clock.unused.iter().map(|&(_, count)| count).sum();
                assert_eq!((clock.brackets, unused), if ordering == "plain" { (1000, 1) } else { (1001, 0) });
                assert!(in_file);
            }
            Err(refused) => assert!(!in_file && refused.to_string().contains("the channel 99"), "{refused}"),
        }
    }
}

#[test]
fn what_only_a_log_can_be_said_to_round_and_the_narrower_of_two_rhos_are_not_believed() {
    let clocks = Clocks { client: stairs(1, 1, 0), server: stairs(1, 1, 0), realtime: stairs(1, 1, 0) };
    let requests: Vec<Request> = (0..50).map(|_| (1_000_000 * PARTS, [1_600; 5])).collect();
    let site = Site::new();
    let (mut run, _) = run(&site, clocks, &requests);
    let told = run.manifest().clone();
    let rho = |ppb| RhoDeclaration {
        reference: "client.tsc".parse().unwrap(),
        domain: "server.tsc".parse().unwrap(),
        ppb,
        origin: "declared".into(),
        kind: None,
    };
    run.set_manifest(Manifest { rho: vec![rho(50_000), rho(200_000)], ..told.clone() }).unwrap();
    assert_eq!(analyse(&run, &Query::default(), false).unwrap().clock_maps[0].rho.ppb(), 200_000);
    let mut rounded = told;
    rounded.points[0].resolution_ticks = Some(1000);
    run.set_manifest(rounded).unwrap();
    let refused = analyse(&run, &Query::default(), false).unwrap_err().to_string();
    assert!(refused.contains("resolution_ticks") && refused.contains("client.send"), "{refused}");
}

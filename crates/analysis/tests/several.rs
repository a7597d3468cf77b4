//! Runs of several nodes: brackets between any two of them narrow the bounds, and a node that lies is left out.

mod site;

use serde_json::Value;
use site::{Site, Stamped, write};
use tickscope_analysis::{Analysis, Assumption, Query, RunJson, analyse, analyse_counts, assumptions, spans};
use tickscope_rivals::{NodeRivals, PairRelation, PairState, relations};
use tickscope_store::{
    BracketColumns, BracketSource, Node, Pair, Point, RivalColumns, RivalSample, Run, join_run, write_rivals,
};
use tickscope_tick::{BootId, Label, NodeName, Ordering, PointName};

const NAMES: [&str; 5] = ["client", "server", "third", "fourth", "fifth"];
const SECOND: i64 = 2_500_000_000;
const REQUESTS: i64 = 400;

/// By how many ticks a node's counter is ahead of the first one's.
fn ahead(node: usize) -> i64 {
    node as i64 * 987_654_321_012 + 7 * (node % 2) as i64
}

/// Delays of an exchange between two nodes, each way, and by how much the first one's stamps are off.
type Told = fn(usize, usize) -> Option<(i64, i64)>;

fn domain(node: usize) -> Label {
    format!("{}.tsc", NAMES[node]).parse().unwrap()
}

/// The path visits every node in turn and comes back; between two stamps `100 + 10 * request` ticks pass.
fn run(site: &Site, count: usize, told: Told) -> Run {
    let mut places: Vec<String> = NAMES[..count].iter().map(|name| format!("{name}.at")).collect();
    places.push("client.back".into());
    let path: Vec<&str> = places.iter().map(String::as_str).collect();
    let mut run = site.run(&path, &[]);
    let mut manifest = run.manifest().clone();
    let other = |node: usize| Node {
        name: NodeName::new(NAMES[node]).unwrap(),
        boot: BootId([node as u8 + 1; 16]),
        ..manifest.nodes[1].clone()
    };
    let others: Vec<Node> = (2..count).map(other).collect();
    manifest.nodes.extend(others);
    manifest.evidence.probes = true;
    manifest.points = path.iter().map(|place| point(place)).collect();
    run.set_manifest(manifest).unwrap();
    let passed = |request: i64, stop: usize| SECOND * (request + 1) / REQUESTS + (100 + 10 * request) * stop as i64;
    let stamps: Vec<Vec<(i64, i64)>> = (0..=count)
        .map(|stop| (0..REQUESTS).map(|request| (request, passed(request, stop) + ahead(stop % count))).collect())
        .collect();
    let points: Vec<Stamped<'_>> = (0..=count)
        .map(|stop| {
            let (node, point) = path[stop].split_once('.').unwrap();
            Stamped { node, point, ordering: "before", clock: "tsc", stamps: &stamps[stop], lost: &[] }
        })
        .collect();
    write(&run, &points);
    for asked in 0..count {
        for local in 0..count {
            let Some((delay, lie)) = told(local, asked).filter(|_| local != asked) else { continue };
            let mut columns = BracketColumns::default();
            for number in 0..200 {
                let instant = SECOND * (number + 1) / 190;
                let (before, after) = (instant + ahead(asked) - delay, instant + ahead(asked) + delay);
                columns.push(
                    Some(before),
                    instant + ahead(local) + lie,
                    Some(after),
                    BracketSource::ProbeRequest,
                    "before/after",
                );
            }
            run.add_brackets(&Pair { reference: domain(asked), domain: domain(local) }, "probe", &columns).unwrap();
        }
    }
    join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
    run
}

fn point(place: &str) -> Point {
    let (node, name) = place.split_once('.').unwrap();
    Point {
        node: NodeName::new(node).unwrap(),
        name: PointName::new(name).unwrap(),
        ordering: Ordering::Before,
        counter: None,
        resolution_ticks: None,
    }
}

fn query() -> Query {
    Query { rho: Some("0.2".parse().unwrap()), ..Query::default() }
}

/// Half the widest interval of each stage of the path, all of which hold the truth; `None`: refused.
fn widest(run: &Run, count: usize) -> Vec<Option<i64>> {
    let found = spans(run, &query()).unwrap();
    let mut widest = vec![None; count];
    for trace in &found.traces {
        for (stage, widest) in trace.stages.iter().take(count).zip(&mut widest) {
            let Some(span) = stage else { continue };
            let truth = 100 + 10 * trace.id;
            assert!(span.lo <= truth && truth <= span.hi, "{truth} in {span:?}");
            *widest = (*widest).max(Some((span.hi - span.lo + 1) / 2));
        }
    }
    widest
}

fn json(run: &Run, analysis: &Analysis) -> Value {
    serde_json::to_value(RunJson::of(run, analysis, &[])).unwrap()
}

#[test]
fn evidence_between_two_other_nodes_narrows_their_stages_in_whichever_order_they_are_named() {
    let [towards, backwards]: [Told; 2] = [
        |local, asked| match (local, asked) {
            (1 | 2, 0) => Some((9_000, 0)),
            (2, 1) => Some((500, 0)),
            _ => None,
        },
        |local, asked| match (local, asked) {
            (1 | 2, 0) => Some((9_000, 0)),
            (1, 2) => Some((500, 0)),
            _ => None,
        },
    ];
    let none: Told = |_, asked| (asked == 0).then_some((9_000, 0));
    let without = widest(&run(&Site::new(), 3, none), 3)[1].unwrap();
    assert!((17_900..20_000).contains(&without), "{without}");
    for told in [towards, backwards] {
        let site = Site::new();
        let run = run(&site, 3, told);
        let found = widest(&run, 3)[1].unwrap();
        assert!((400..1_500).contains(&found), "{found}");
        let analysis = analyse(&run, &query(), false).unwrap();
        assert!(analysis.finding(&[]).is_none() && analysis.lack().is_none());
        let json = json(&run, &analysis);
        let pairs = json["pairs"].as_array().unwrap();
        assert_eq!(pairs.len(), 3);
        assert_eq!((&pairs[2]["domain"], &pairs[2]["reference"]), (&"third.tsc".into(), &"server.tsc".into()));
        let said = format!("{:?}", assumptions(run.manifest(), &analysis));
        let all = "the rate between every two of client.tsc, server.tsc, third.tsc stays within rho of one value";
        assert_eq!(said.matches("stays within rho").count(), 1, "{said}");
        assert!(said.contains(all), "{said}");
    }
}

#[test]
fn a_short_way_through_a_third_node_narrows_the_long_one_and_is_told() {
    let told: Told = |local, asked| match (local, asked) {
        (1, 0) | (2, 1) => Some((1_000, 0)),
        (2, 0) => Some((20_000, 0)),
        _ => None,
    };
    let site = Site::new();
    let run = run(&site, 3, told);
    let last = widest(&run, 3)[2].unwrap();
    assert!((1_900..3_500).contains(&last), "{last}");
    let analysis = analyse(&run, &query(), false).unwrap();
    let json = json(&run, &analysis);
    let pair = &json["pairs"][1];
    assert_eq!(pair["ways"][0], serde_json::json!(["third.tsc", "server.tsc", "client.tsc"]), "{json}");
    assert!(pair["direct_half_width_ticks"].as_u64() > Some(19_000), "{pair}");
    assert!(pair["closed_half_width_ticks"].as_u64() < Some(3_000), "{pair}");
}

/// The fourth lies to the first and the second alike, and is honest with the third: nobody can tell it from the third.
#[test]
fn machines_of_which_either_may_lie_have_no_bound_and_no_other_bound_is_false() {
    let told: Told = |local, asked| match (local.max(asked), local.min(asked)) {
        (3, 0 | 1) if local > asked => Some((1_000, 50_000)),
        _ => (local > asked).then_some((1_000, 0)),
    };
    let site = Site::new();
    let run = run(&site, 4, told);
    let found = relations(&run, &query()).unwrap();
    let of = |one: &str, other: &str| {
        let has = |pair: &PairRelation, node: &str| [&pair.domain, &pair.reference].iter().any(|end| end.node == *node);
        let is_it = |pair: &&PairRelation| has(pair, one) && has(pair, other);
        found.pairs.iter().find(is_it).unwrap()
    };
    for (one, other) in [("fourth", "client"), ("fourth", "server"), ("fourth", "third"), ("third", "client")] {
        let pair = of(one, other);
        assert!(pair.closed.is_none() && pair.state == PairState::Contradicted, "{pair:?}");
    }
    let pair = of("server", "client");
    assert!(pair.closed.is_some() && pair.state == PairState::Related, "{pair:?}");
    assert!(found.findings[0].contains("Each of third.tsc, fourth.tsc may be the wrong one"), "{:?}", found.findings);
    let said: Vec<String> = found.assumptions.iter().map(Assumption::statement).collect();
    for words in ["within 500 ppm of what", "a reading leaves", "seconds: client.tsc", "cores read one counter"] {
        assert!(said.iter().any(|one| one.contains(words)), "{words}: {said:?}");
    }
}

#[test]
fn what_a_program_says_of_two_nodes_other_than_the_reference_is_the_difference_with_both_bounds() {
    let site = Site::new();
    let run = run(&site, 4, |local, asked| (local > asked).then_some((1_000, 0)));
    for (node, offset_ns, delay_ns) in [(1, 500, 100), (2, 200, 60), (3, 0, 0)] {
        let mut samples = RivalColumns::default();
        for number in 1..4 {
            let before = SECOND * number / 5 + ahead(node);
            let of = |program: &str| RivalSample {
                before,
                after: before + 1000,
                program: program.into(),
                variant: "default".into(),
                offset_ns,
                delay_ns: Some(delay_ns),
                dispersion_ns: Some(7),
                state: RivalSample::NORMAL.into(),
                frequency_ppb: None,
                residual_ppb: None,
                skew_ppb: None,
            };
            samples.push(of(if node == 3 { "another" } else { "some" }));
        }
        write_rivals(&run.paths().rivals(NAMES[node]).join("some.parquet"), &samples).unwrap();
    }
    let found = relations(&run, &query()).unwrap();
    let method = |one: usize, other: usize| {
        let is_it = |rivals: &&NodeRivals| rivals.domain == domain(one) && rivals.reference == domain(other);
        let rivals = found.rivals.iter().find(is_it)?;
        rivals.methods.iter().find(|method| method.name.starts_with("some,"))
    };
    let both = method(2, 1).unwrap();
    // 7 + 30 and 7 + 50, and twice what rounding leaves.
    assert_eq!(both.half_width.map(|of| (of.median_ns, of.most_ns)), Some((98, 98)), "{both:?}");
    assert_eq!(both.band[0][1..], [-300 - 98, -300 + 98], "{both:?}");
    assert_eq!(method(1, 0).unwrap().half_width.map(|of| of.most_ns), Some(59));
    assert!(method(3, 1).is_none() && method(3, 2).is_none(), "of one of the two alone nothing follows");
}

/// Between the first and the third nothing is declared, and what follows from the chain is wider than what is asked.
#[test]
fn a_larger_rho_than_declared_narrows_no_stage_of_a_pair_that_follows_from_a_chain() {
    let told: Told = |local, asked| matches!((local, asked), (1, 0) | (2, 1)).then_some((40, 0));
    let site = Site::new();
    let mut run = run(&site, 3, told);
    let declared = |domain, reference| tickscope_store::RhoDeclaration {
        domain,
        reference,
        ppb: 12_510,
        origin: "declared".into(),
        kind: Some(tickscope_store::RhoKind::Declared),
    };
    let mut manifest = run.manifest().clone();
    manifest.rho = vec![declared(domain(1), domain(0)), declared(domain(2), domain(1))];
    run.set_manifest(manifest).unwrap();
    let widths = |rho: Option<&str>| -> Vec<i64> {
        let query = Query { rho: rho.map(|rho| rho.parse().unwrap()), ..Query::default() };
        let found = spans(&run, &query).unwrap();
        let stages = found.traces.iter().flat_map(|trace| trace.stages.iter());
        stages.map(|stage| stage.as_ref().map_or(i64::MAX, |span| span.hi - span.lo)).collect()
    };
    let (as_declared, larger) = (widths(None), widths(Some("12.6")));
    assert!(as_declared.iter().zip(&larger).all(|(declared, larger)| declared <= larger));
    assert!(as_declared.iter().any(|&width| width < i64::MAX));
}

/// Cores 300 ticks apart: the server was probed on one that is behind by one of the client's that is ahead, the third
/// on one that is ahead by the client's other one; both stamp on their others. No two nodes are further off than their
/// own cores and the client's.
#[test]
fn proved_cores_bound_a_stage_between_nodes_that_a_third_relates_by_cores_of_its_own() {
    let site = Site::new();
    let mut run = run(&site, 3, |local, asked| match (local, asked) {
        (1, 0) => Some((20, -600)),
        (2, 0) => Some((20, 300)),
        _ => None,
    });
    let mut manifest = run.manifest().clone();
    manifest.nodes.iter_mut().for_each(|node| node.counter.sharing.bound_ticks = Some(300));
    manifest.assumptions.push(tickscope_store::Assumption::cores_proved());
    run.set_manifest(manifest).unwrap();
    let [to_server, between, back] = widest(&run, 3).try_into().unwrap();
    assert!((600..650).contains(&to_server.unwrap()) && (600..650).contains(&back.unwrap()), "{to_server:?} {back:?}");
    assert!((900..970).contains(&between.unwrap()), "{between:?}");
    assert!(analyse(&run, &query(), false).unwrap().finding(&[]).is_none());
}

#[test]
fn rates_of_some_pairs_are_assumed_of_these_alone() {
    let told: Told = |local, asked| ((local, asked) != (2, 1) && local > asked).then_some((1_000, 0));
    let site = Site::new();
    let run = run(&site, 3, told);
    let said = format!("{:?}", assumptions(run.manifest(), &analyse(&run, &query(), false).unwrap()));
    let each = "each rate of server.tsc against client.tsc, third.tsc against client.tsc stays within rho of one value";
    assert!(said.contains(each), "{said}");
}

#[test]
fn a_node_without_evidence_against_the_reference_is_related_through_another() {
    let told: Told = |local, asked| ((local, asked) == (1, 0) || (local, asked) == (2, 1)).then_some((1_000, 0));
    let site = Site::new();
    let run = run(&site, 3, told);
    let found = widest(&run, 3);
    assert!(found.iter().all(|width| width.is_some_and(|width| width < 4_500)), "{found:?}");
    let analysis = analyse(&run, &query(), false).unwrap();
    assert!(analysis.lack().is_none());
    // Two priors of 500 ppm, each of a map or of its inverse, multiplied: of the pair between nothing else is known.
    let pair = analysis.pairs.iter().find(|pair| (&pair.domain, &pair.reference) == (&domain(2), &domain(0))).unwrap();
    assert_eq!(pair.prior_ppm, 1003, "{pair:?}");
}

#[test]
fn a_node_that_lies_by_20_us_is_left_out_named_and_the_others_stay() {
    let told: Told = |local, asked| {
        let lies = |other: usize| other == 0 || other == 1;
        (asked < local).then_some((3_000, if local == 3 && lies(asked) { 50_000 } else { 0 }))
    };
    let site = Site::new();
    let run = run(&site, 5, told);
    let analysis = analyse(&run, &query(), false).unwrap();
    let finding = analysis.finding(&[]).unwrap();
    assert!(finding.contains("without fourth.tsc all others agree"), "{finding}");
    assert!(finding.contains("does not prove that fourth.tsc is wrong"), "{finding}");
    let counts = analyse_counts(&run, &query()).unwrap();
    assert_eq!(counts.standing(&[]), analysis.standing(&[]), "counts alone tell it");
    assert_eq!(analysis.standing(&[]).unwrap_err().code(), 3);
    assert!(analysis.lack().unwrap().contains("fourth.tsc"));
    let widths = widest(&run, 5);
    assert_eq!(widths.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, false, true], "{widths:?}");
}

#[test]
fn three_nodes_that_contradict_each_other_are_an_error_that_names_the_pairs() {
    let told: Told =
        |local, asked| (asked < local).then_some((3_000, if (local, asked) == (2, 1) { 50_000 } else { 0 }));
    let site = Site::new();
    let error = analyse(&run(&site, 3, told), &query(), false).unwrap_err();
    assert!(error.is_finding(), "{error}");
    let text = error.to_string();
    assert!(
        ["server.tsc and client.tsc", "third.tsc and client.tsc", "third.tsc and server.tsc"]
            .iter()
            .all(|pair| text.contains(pair)),
        "{text}"
    );
}

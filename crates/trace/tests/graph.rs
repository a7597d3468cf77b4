//! Layouts that are graphs, against an oracle that walks every route: stages, what is complete, what has holes, which
//! stamps are of one passage, and what byte offsets became beyond a range edge.

mod memory;

use std::collections::BTreeMap;

use memory::{Memory, Stamp};
use proptest::prelude::*;
use tickscope_trace::{JoinCounts, Layout, LayoutText, Limits, LinkCounts, Stage, StageRole, StampAt, Traces, join};

const POINTS: usize = 6;

/// Edges between points `0..POINTS`, each from a smaller number to a larger one.
type Edges = Vec<(usize, usize)>;

fn edges() -> impl Strategy<Value = Edges> {
    let all: Edges = (0..POINTS).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
    let picked = prop::collection::vec(prop::bool::weighted(0.35), all.len());
    let found = (picked, any::<bool>()).prop_map(move |(picked, reverse)| {
        let mut found: Edges = all.iter().zip(picked).filter(|(_, picked)| *picked).map(|(edge, _)| *edge).collect();
        if reverse {
            found.reverse(); // what is written first need not come first
        }
        found
    });
    found.prop_filter("an edge", |edges| !edges.is_empty())
}

fn name(point: usize) -> String {
    format!("n.p{point}")
}

fn layout(edges: &Edges) -> Layout {
    let edges = edges.iter().map(|&(from, to)| format!("{} > {}", name(from), name(to))).collect();
    LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap()
}

/// The number that a point of the layout has in the edges.
fn number(layout: &Layout, point: usize) -> usize {
    layout.points()[point].place.point.as_str()[1..].parse().unwrap()
}

/// Every route from one point to the other, one step at a time.
fn routes(edges: &Edges, from: usize, to: usize) -> Vec<Vec<usize>> {
    if from == to {
        return vec![vec![to]];
    }
    let steps = edges.iter().filter(|edge| edge.0 == from);
    let further = steps.flat_map(|&(_, next)| routes(edges, next, to));
    further.map(|rest| [vec![from], rest].concat()).collect()
}

fn starts_and_ends(edges: &Edges) -> (Vec<usize>, Vec<usize>) {
    let used = || (0..POINTS).filter(|point| edges.iter().any(|(from, to)| from == point || to == point));
    let start = |point: &usize| edges.iter().all(|(_, to)| to != point);
    let end = |point: &usize| edges.iter().all(|(from, _)| from != point);
    (used().filter(start).collect(), used().filter(end).collect())
}

fn joined(layout: &Layout, memory: &Memory, limits: Limits) -> (Traces, JoinCounts) {
    let mut all: Option<Traces> = None;
    let mut rows = Vec::new();
    let in_order = |first: StampAt, second: StampAt| first.tick <= second.tick;
    let counts = join(layout, &mut memory.clone(), limits, &in_order, &mut |traces| {
        memory::check_attributes(traces);
        rows.extend((0..traces.len()).map(|row| (traces.ids()[row], traces.kinds()[row])));
        all.get_or_insert_with(|| traces.clone());
        Ok(())
    });
    (all.unwrap(), counts.unwrap())
}

const WHOLE: Limits = Limits { keys: 1 << 12, rows: 1 << 12 };

/// A stamp at each point that an id's bits name, of `layout`'s points.
fn once_each(layout: &Layout, ids: &[u8]) -> Memory {
    let stamp =
        |id: usize, point: usize| Stamp { id: id as i64, kind: 0, tick: (id * 100 + point) as i64, thread: None };
    let seen = |point: usize| (0..ids.len()).filter(move |&id| ids[id] & 1 << number(layout, point) != 0);
    let points = (0..layout.points().len()).map(|point| seen(point).map(|id| stamp(id, point)).collect());
    Memory { points: points.collect(), group: 7 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn property_stages_are_the_edges_and_every_start_with_every_end_that_it_leads_to(edges in edges()) {
        let layout = layout(&edges);
        let ends = |stage: &Stage| (number(&layout, stage.from), number(&layout, stage.to));
        let of_role = |role: StageRole| layout.stages().iter().filter(move |stage| stage.role == role);
        prop_assert_eq!(of_role(StageRole::Path).map(ends).collect::<Vec<_>>(), edges.clone());
        let (starts, last) = starts_and_ends(&edges);
        let pairs = || starts.iter().flat_map(|&from| last.iter().map(move |&to| (from, to)));
        let mut expected: Vec<_> = pairs().filter(|&(from, to)| !routes(&edges, from, to).is_empty()).collect();
        let mut found: Vec<_> = of_role(StageRole::EndToEnd).map(ends).collect();
        for stage in of_role(StageRole::EndToEnd) {
            let route: Vec<_> = layout.route(stage).into_iter().map(|at| ends(&layout.stages()[at])).collect();
            let points: Vec<_> = route.iter().map(|step| step.0).chain([number(&layout, stage.to)]).collect();
            prop_assert!(routes(&edges, number(&layout, stage.from), number(&layout, stage.to)).contains(&points));
        }
        expected.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
        for point in 0..layout.points().len() {
            let on_all = |at: usize| starts.iter().flat_map(|&start| routes(&edges, start, number(&layout, point)))
                .all(|route| route.contains(&number(&layout, at)));
            let expected: Vec<usize> = (0..=point).rev().filter(|&at| on_all(at)).collect();
            prop_assert_eq!(layout.way_back(point), expected);
        }
    }

    #[test]
    fn property_complete_is_what_came_from_a_start_to_an_end_with_no_point_of_that_route_missing(
        edges in edges(), ids in prop::collection::vec(1u8..1 << POINTS, 1..40),
    ) {
        let layout = layout(&edges);
        let (starts, ends) = starts_and_ends(&edges);
        let (mut complete, mut holes) = (0, 0);
        for id in &ids {
            let seen = |point: &usize| id & 1 << point != 0;
            let whole = |from: usize, to: usize| routes(&edges, from, to).iter().any(|route| route.iter().all(seen));
            complete += u64::from(starts.iter().any(|&from| ends.iter().any(|&to| whole(from, to))));
            let pairs = (0..POINTS).flat_map(|to| (0..to).map(move |from| (from, to)));
            let mut both = pairs.filter(|(from, to)| seen(from) && seen(to) && !routes(&edges, *from, *to).is_empty());
            holes += u64::from(both.any(|(from, to)| !whole(from, to)));
        }
        let memory = once_each(&layout, &ids);
        prop_assume!(memory.points.iter().any(|point| !point.is_empty()));
        let (traces, counts) = joined(&layout, &memory, WHOLE);
        prop_assert_eq!((counts.complete, counts.holes), (complete, holes));
        for row in 0..traces.len() {
            let id = traces.ids()[row];
            for stage in layout.stages() {
                let tick = |point: usize| traces.points()[point].get(row);
                let stamped = |point: usize| ids[id as usize] & 1 << number(&layout, point) != 0;
                let expected = (stamped(stage.from) && stamped(stage.to)).then(|| stage.to as i64 - stage.from as i64);
                prop_assert_eq!(tick(stage.from).zip(tick(stage.to)).map(|(from, to)| to - from), expected);
                prop_assert!(traces.together(&layout, stage, row));
            }
        }
    }
}

/// One passage: by point the choice of successors, and how long each step takes.
type Passage = (Vec<u8>, Vec<i64>);

/// By point of the layout: each stamp with the passages that it belongs to, as bits. Up to the point `own` all passages
/// are one, from there on each has stamps of its own.
fn passed(
    layout: &Layout,
    (passages, own): &(Vec<Passage>, usize),
    id: i64,
    memory: &mut Memory,
) -> Vec<BTreeMap<i64, u8>> {
    let mut truth = vec![BTreeMap::new(); layout.points().len()];
    let starts: Vec<usize> = (0..truth.len()).filter(|&at| layout.edges().iter().all(|edge| edge.to != at)).collect();
    let mut first: Vec<Option<i64>> = Vec::new();
    for (number, (choices, steps)) in passages.iter().enumerate() {
        let mut ticks: Vec<Option<i64>> = vec![None; truth.len()];
        ticks[starts[choices[0] as usize % starts.len()]] = Some(steps[0] * 64);
        for at in 0..ticks.len() {
            if let Some(shared) = first.get(at).filter(|_| at < *own) {
                ticks[at] = *shared; // the same stamps as the first passage's, or none as well
            } else if let Some(tick) = &mut ticks[at] {
                *tick += number as i64 + 1 - *tick % 64;
            }
            let Some(tick) = ticks[at] else { continue };
            let successors: Vec<usize> = layout.edges().iter().filter(|e| e.from == at).map(|e| e.to).collect();
            for (choice, &next) in successors.iter().enumerate().filter(|(_, next)| first.is_empty() || **next >= *own)
            {
                if choices[at] & 1 << (choice % 3) != 0 || choice + 1 == successors.len() {
                    let later = tick - tick % 64 + steps[next] * 64;
                    ticks[next] = ticks[next].max(Some(later));
                }
            }
        }
        for (at, tick) in ticks.iter().enumerate().filter_map(|(at, tick)| Some((at, (*tick)?))) {
            *truth[at].entry(tick).or_insert(0) |= 1 << number;
        }
        if number == 0 {
            first = ticks;
        }
    }
    for (point, stamps) in truth.iter().enumerate() {
        memory.points[point].extend(stamps.keys().map(|&tick| Stamp { id, kind: 0, tick, thread: None }));
    }
    truth
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn property_stamps_of_a_repeated_id_are_paired_only_where_they_are_of_one_passage(
        edges in edges(),
        ids in prop::collection::vec((prop::collection::vec((
            prop::collection::vec(0u8..8, POINTS), prop::collection::vec(1i64..9, POINTS),
        ), 2..4), 0..POINTS), 1..6),
        all in any::<bool>(),
    ) {
        let text = |rules| LayoutText {
            edges: edges.iter().map(|&(from, to)| format!("{} > {}", name(from), name(to))).collect(),
            rules,
            ..LayoutText::default()
        };
        let mut layout = text(vec![]).parse(None).unwrap();
        if all {
            let rules = layout.points().iter().map(|point| (point.place.to_string(), "all".to_string()));
            layout = text(rules.collect()).parse(None).unwrap();
        }
        let mut memory = Memory { points: vec![Vec::new(); layout.points().len()], group: 5 };
        let truths: Vec<_> =
            ids.iter().enumerate().map(|(id, of)| passed(&layout, of, id as i64, &mut memory)).collect();
        let (traces, _) = joined(&layout, &memory, WHOLE);
        // An id without a point that it passed twice looks like one passage, whatever it was.
        for row in (0..traces.len()).filter(|&row| traces.marks(row).is_some()) {
            let truth = &truths[traces.ids()[row] as usize];
            let passages = |point: usize| traces.points()[point].get(row).map(|tick| truth[point][&tick]);
            for (from, to) in (0..truth.len()).flat_map(|to| (0..to).map(move |from| (from, to))) {
                let stage = Stage { name: String::new(), from, to, role: StageRole::Extra };
                if let Some((one, other)) = passages(from).zip(passages(to)) {
                    let together = traces.together(&layout, &stage, row);
                    prop_assert!(!together || one & other != 0, "row {}: {} {}, {:?}", row, from, to, traces.marks(row));
                }
            }
        }
    }
}

/// Blocks, whose packets are counted where they are sent and where they arrive, and what carries those.
fn ranges() -> Layout {
    let edges = ["a.queued > a.written", "a.written ~ a.sent", "a.sent > b.received", "b.received ~ b.read"];
    LayoutText { edges: edges.map(String::from).to_vec(), ..LayoutText::default() }.parse(None).unwrap()
}

/// The smallest offset not below `id` that a point stamped, with its tick, or how the key is counted.
fn reached(stamps: &[Stamp], id: i64, kind: i32) -> Result<(i64, i64), &'static str> {
    let least = stamps.iter().filter(|stamp| stamp.kind == kind && stamp.id >= id).map(|stamp| stamp.id).min();
    let least = least.ok_or("unreached")?;
    let of = stamps.iter().filter(|stamp| stamp.kind == kind && stamp.id == least).collect::<Vec<_>>();
    if of.len() == 1 { Ok((least, of[0].tick)) } else { Err("repeated") }
}

/// What a key that was stamped so often as `id` at the first point of an edge becomes at the second.
fn followed(from: &[Stamp], to: &[Stamp], id: i64, kind: i32) -> Result<(i64, i64), &'static str> {
    match from.iter().filter(|stamp| (stamp.id, stamp.kind) == (id, kind)).count() {
        0 => Err("absent"),
        1 if id < 0 => Err("negative"),
        1 => reached(to, id, kind),
        _ => Err("repeated"),
    }
}

fn count(counts: &mut LinkCounts, found: &Result<(i64, i64), &'static str>) {
    match found {
        Ok(_) => counts.matched += 1,
        Err("unreached") => counts.unreached += 1,
        Err("negative") => counts.negative += 1,
        Err("repeated") => counts.repeated += 1,
        Err(_) => {}
    }
}

fn offsets(kinds: i32) -> impl Strategy<Value = Vec<Stamp>> {
    let stamp = (-3i64..60, 0..kinds, 0i64..1_000).prop_map(|(id, kind, tick)| Stamp { id, kind, tick, thread: None });
    prop::collection::vec(stamp, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn property_beyond_a_range_edge_stands_the_smallest_offset_that_reaches_the_rows(
        mut points in prop::collection::vec(offsets(3), 5), group in 1usize..20, keys in 1usize..40,
        scale in prop::sample::select(vec![1i64, 1_000]),
    ) {
        let layout = ranges();
        points.iter_mut().flatten().for_each(|stamp| stamp.id *= scale);
        let order = ["a.queued", "a.written", "a.sent", "b.received", "b.read"];
        let names: Vec<_> = layout.points().iter().map(|point| point.place.to_string()).collect();
        prop_assert_eq!(&names, &order.map(String::from));
        prop_assume!(!points[0].is_empty() || !points[1].is_empty());
        let memory = Memory { points: points.clone(), group };
        let mut expected = [LinkCounts::default(); 2];
        let mut seen = Vec::new();
        let in_order = |first: StampAt, second: StampAt| first.tick <= second.tick;
        let counts = join(&layout, &mut memory.clone(), Limits { keys, rows: 7 }, &in_order, &mut |traces| {
            memory::check_attributes(traces);
            for row in 0..traces.len() {
                let (id, kind) = (traces.ids()[row], traces.kinds()[row]);
                seen.push((id, kind));
                let tick = |point: usize| traces.points()[point].get(row);
                let sent = followed(&points[1], &points[2], id, kind);
                count(&mut expected[0], &sent);
                assert_eq!(tick(2), sent.ok().map(|sent| sent.1), "{id} {kind}");
                let Ok((offset, _)) = sent else {
                    assert_eq!((tick(3), tick(4)), (None, None));
                    continue;
                };
                let received: Vec<_> = points[3].iter().filter(|s| (s.id, s.kind) == (offset, kind)).collect();
                if received.len() < 2 {
                    assert_eq!(tick(3), received.first().map(|stamp| stamp.tick));
                }
                let read = followed(&points[3], &points[4], offset, kind);
                count(&mut expected[1], &read);
                assert_eq!(tick(4), read.ok().map(|read| read.1));
            }
            Ok(())
        });
        let counts = counts.unwrap();
        prop_assert_eq!(counts.links.as_slice(), &expected[..]);
        let mut keys: Vec<_> = points[..2].iter().flatten().map(|stamp| (stamp.id, stamp.kind)).collect();
        keys.sort_unstable();
        keys.dedup();
        prop_assert_eq!(seen, keys, "rows are the keys before the first range edge");
        prop_assert_eq!(counts.points[4].stamps, points[4].len() as u64);
    }
}

#[test]
fn starts_whose_ways_meet_are_named() {
    let starts = |edges: &[&str]| {
        let edges = edges.iter().map(ToString::to_string).collect();
        let layout = LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap();
        layout.joining_starts().iter().map(|start| start.place.to_string()).collect::<Vec<_>>()
    };
    assert!(starts(&["a.x > b.y", "b.y > c.z"]).is_empty());
    assert!(starts(&["a.x > b.y", "a.x > c.z"]).is_empty(), "one start of two ways");
    assert_eq!(starts(&["a.s > c.m", "b.z > c.m", "a.other > d.end"]), ["a.s", "b.z"]);
    assert_eq!(starts(&["a.s > c.m", "c.m > d.n", "b.z > d.n"]), ["a.s", "b.z"], "they meet further on");
}

#[test]
fn a_block_belongs_to_the_packet_that_holds_its_last_byte() {
    let edges = vec!["a.written ~ a.sent".to_string()];
    let layout = LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap();
    let stamps = |of: &[(i64, i64)]| of.iter().map(|&(id, tick)| Stamp { id, kind: 0, tick, thread: None }).collect();
    let written = [(99, 1), (100, 2), (101, 3), (250, 4), (301, 5)];
    let sent = [(300, 30), (100, 10), (200, 20)];
    let (traces, counts) = joined(&layout, &Memory { points: vec![stamps(&written), stamps(&sent)], group: 9 }, WHOLE);
    let found: Vec<_> = (0..5).map(|row| traces.points()[1].get(row)).collect();
    assert_eq!(found, [Some(10), Some(10), Some(20), Some(30), None]);
    assert_eq!(counts.links, [LinkCounts { matched: 4, unreached: 1, ..LinkCounts::default() }]);
    assert_eq!((counts.complete, counts.points[1].missing), (4, 1));
}

#[test]
fn a_layout_that_is_no_graph_or_ranges_that_leave_open_whose_ids_rows_have_are_refused() {
    let refused = |edges: &[&str], rules: &[(&str, &str)]| {
        let edges = edges.iter().map(|&text| text.into()).collect();
        let rules = rules.iter().map(|&(point, rule)| (point.into(), rule.into())).collect();
        LayoutText { edges, rules, ..LayoutText::default() }.parse(None).unwrap_err().to_string()
    };
    for (edges, rules, says) in [
        (&["a.x > b.y", "b.y > c.z", "c.z > b.y"][..], &[][..], "without a cycle, found one among b.y, c.z"),
        (&["a.x > a.x"], &[], "found 'a.x' with itself"),
        (&["a.x > b.y", "a.x ~ b.y"], &[], "'a.x ~ b.y' twice"),
        (&["a.x, b.y"], &[], "an edge as node.point > node.point, found 'a.x, b.y'"),
        (&["a.x > b.y", "b.y > c.z", "a.x ~ c.z"], &[], "share no id, found 'a.x ~ c.z'"),
        (&["a.x ~ c.z", "b.y ~ c.z"], &[], "found 'a.x ~ c.z' and 'b.y ~ c.z'"),
        (&["a.x ~ c.z", "b.y > d.w"], &[], "lead on from the points of one id, found 2 such sets"),
        (&["a.x ~ c.z"], &[("c.z", "all")], "first or last beyond a range edge, found 'all' at 'c.z'"),
    ] {
        let found = refused(edges, rules);
        assert!(found.contains(says), "{found:?} lacks {says:?}");
    }
}

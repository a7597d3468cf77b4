//! Stamps that stand for many ids, ids that are parts of others, attempts, and ids that two things have: against the
//! same stamps one by one, and against what was made up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::ops::RangeInclusive;

use proptest::prelude::*;
use tickscope_trace::{
    AttemptContradiction, Columns, Extent, JoinCounts, KeptStamps, Layout, LayoutText, Limits, LinkCounts, LongSpans,
    SHORT_SPAN, Stage, StageRole, StampAt, StampColumns, StampSource, Traces, join,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    id: i64,
    /// Ids that it stands for.
    n: i64,
    kind: i32,
    tick: i64,
    attempt: Option<i32>,
    parent: Option<i64>,
}

impl Stamp {
    const fn of(id: i64, tick: i64) -> Self {
        Self { id, n: 1, kind: 0, tick, attempt: None, parent: None }
    }

    fn last(&self) -> i64 {
        self.id + (self.n - 1)
    }
}

/// Stamps by point, in row groups of `group`, read whole if they touch the range.
#[derive(Clone, Debug, Default)]
struct Source {
    points: Vec<Vec<Stamp>>,
    group: usize,
    ambiguous: Vec<i64>,
    kept: Option<(usize, KeptStamps)>,
}

impl Source {
    fn of(points: &[&[Stamp]]) -> Self {
        Self { points: points.iter().map(|stamps| stamps.to_vec()).collect(), group: 3, ..Self::default() }
    }

    fn extent(&self, point: usize, group: &[Stamp]) -> Extent {
        let whole = self.clone().long_spans(point).unwrap().are_whole();
        let is_whole = |stamp: &Stamp| stamp.n <= SHORT_SPAN as i64 || whole;
        let lasts = group.iter().map(|stamp| if is_whole(stamp) { stamp.last() } else { stamp.id });
        let first = group.iter().map(|stamp| stamp.id).min().unwrap();
        Extent { first, last: lasts.max().unwrap(), stamps: group.len() as u64 }
    }
}

impl StampSource for Source {
    type Error = Infallible;

    fn extents(&mut self, point: usize) -> Result<Vec<Extent>, Infallible> {
        Ok(self.points[point].chunks(self.group).map(|group| self.extent(point, group)).collect())
    }

    fn long_spans(&mut self, point: usize) -> Result<LongSpans, Infallible> {
        let long = || self.points[point].iter().filter(|stamp| stamp.n > SHORT_SPAN as i64);
        Ok(LongSpans { stamps: long().count() as u64, ids: long().map(|stamp| stamp.n as u64).sum() })
    }

    fn kept_stamps(&mut self, point: usize) -> Result<KeptStamps, Infallible> {
        Ok(self.kept.filter(|kept| kept.0 == point).map_or(KeptStamps::All, |kept| kept.1))
    }

    fn ambiguous_ids(&mut self) -> Result<Vec<i64>, Infallible> {
        Ok(self.ambiguous.clone())
    }

    fn read(
        &mut self,
        point: usize,
        ids: RangeInclusive<i64>,
        columns: Columns,
        sink: &mut dyn FnMut(StampColumns<'_>),
    ) -> Result<(), Infallible> {
        for group in self.points[point].chunks(self.group) {
            if group.iter().all(|stamp| stamp.id > *ids.end() || stamp.last() < *ids.start()) {
                continue;
            }
            let column = |of: fn(&Stamp) -> i64| group.iter().map(of).collect::<Vec<_>>();
            let (ids, ticks, lasts) = (column(|s| s.id), column(|s| s.tick), column(|s| s.last()));
            let kinds: Vec<i32> = group.iter().map(|stamp| stamp.kind).collect();
            let attempts: Vec<_> = group.iter().map(|stamp| stamp.attempt).collect();
            let parents: Vec<_> = group.iter().map(|stamp| stamp.parent).collect();
            let mut stamps = StampColumns::new(&ids, &ticks, Some(&kinds)).unwrap();
            if group.iter().any(|stamp| stamp.n > 1) {
                stamps = stamps.with_lasts(&lasts).unwrap();
            }
            match columns {
                Columns::Keys => {}
                Columns::KeysAndAttempts | Columns::KeysAndThreads => stamps = stamps.with_attempts(&attempts).unwrap(),
                Columns::KeysAndParents => stamps = stamps.with_parents(&parents).unwrap(),
            }
            sink(stamps);
        }
        Ok(())
    }
}

/// Kind, id, occurrence, ticks and marks.
type Row = (i32, i64, i32, Vec<Option<i64>>, Option<String>);

fn joined(layout: &Layout, source: &Source, limits: Limits) -> (Vec<Row>, JoinCounts) {
    let mut rows = Vec::new();
    let in_order = |first: StampAt, second: StampAt| first.tick <= second.tick;
    let counts = join(layout, &mut source.clone(), limits, &in_order, &mut |traces: &Traces| {
        rows.extend((0..traces.len()).map(|row| {
            let ticks = traces.points().iter().map(|column| column.get(row)).collect();
            let marks = traces.marks(row).map(|marks| marks.text());
            (traces.kinds()[row], traces.ids()[row], traces.occurrences()[row], ticks, marks)
        }));
        Ok(())
    });
    (rows, counts.unwrap())
}

fn layout(edges: &[&str]) -> Layout {
    let edges = edges.iter().map(ToString::to_string).collect();
    LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap()
}

const WIDE: Limits = Limits { keys: 1 << 20, rows: 1 << 20 };

fn stamps() -> impl Strategy<Value = Vec<Stamp>> {
    let stamp = (0i64..300, prop_oneof![Just(1i64), 1i64..9, 60i64..90], 0i32..3, 0i64..100_000);
    let stamp = stamp.prop_map(|(id, n, kind, tick)| Stamp { n, kind, ..Stamp::of(id, tick) });
    prop::collection::vec(stamp, 0..40)
}

proptest! {
    #[test]
    fn property_a_stamp_of_many_ids_is_joined_as_one_of_each(
        points in prop::collection::vec(stamps(), 3), keys in 1usize..60, rows in 1usize..9, group in 1usize..9,
    ) {
        let layout = layout(&["n.a > n.b", "n.b > n.c"]);
        let each = |stamp: &Stamp| {
            let stamp = *stamp;
            (stamp.id..=stamp.last()).map(move |id| Stamp { id, n: 1, ..stamp })
        };
        let one_by_one = points.iter().map(|stamps| stamps.iter().flat_map(each).collect()).collect();
        let (rows_of_many, mut many) =
            joined(&layout, &Source { points: points.clone(), group, ..Source::default() }, Limits { keys, rows });
        let single = Source { points: one_by_one, group, ..Source::default() };
        let (rows_of_one, mut one) = joined(&layout, &single, WIDE);
        prop_assert_eq!(rows_of_many, rows_of_one);
        let taken = many.points.iter().map(|point| point.stamps).collect::<Vec<_>>();
        prop_assert_eq!(taken, points.iter().map(|stamps| stamps.len() as u64).collect::<Vec<_>>());
        [&mut many, &mut one].into_iter().for_each(|counts| counts.points.iter_mut().for_each(|p| p.stamps = 0));
        prop_assert_eq!(many, one);
    }

    #[test]
    fn property_a_stamp_of_too_many_ids_has_those_that_others_saw_and_the_rest_is_counted(
        seen in prop::collection::btree_set(-200_000_000i64..900_000_000, 0..40), keys in 1usize..60,
    ) {
        let layout = layout(&["n.a > n.b"]);
        let long = Stamp { n: 1 << 29, ..Stamp::of(0, 7) };
        let others: Vec<Stamp> = seen.iter().map(|&id| Stamp::of(id, id + 1000)).collect();
        let (rows, counts) = joined(&layout, &Source::of(&[&[long], &others]), Limits { keys, rows: 9 });
        let all: BTreeSet<i64> = seen.iter().copied().chain([0]).collect();
        prop_assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), all.iter().copied().collect::<Vec<_>>());
        let within = |id: i64| (0..1 << 29).contains(&id);
        prop_assert!(rows.iter().all(|row| row.3[0] == within(row.1).then_some(7)));
        let met = all.iter().filter(|&&id| within(id)).count() as u64;
        prop_assert_eq!((counts.points[0].stamps, counts.points[0].unexpanded), (1, (1 << 29) - met));
    }

    #[test]
    fn property_parts_have_the_tick_of_their_whole_and_what_meets_nothing_is_counted(
        parts in prop::collection::btree_map(0i64..60, prop::option::of(0i64..12), 0..40),
        wholes in prop::collection::btree_set(0i64..12, 0..12), becomes in any::<bool>(), keys in 1usize..50,
    ) {
        let part = |(&id, &parent): (&i64, &Option<i64>)| Stamp { parent, ..Stamp::of(id, 1000 + id) };
        let of_parts: Vec<Stamp> = parts.iter().map(part).collect();
        let of_wholes: Vec<Stamp> = wholes.iter().map(|&id| Stamp::of(id, 5000 + id)).collect();
        let layout = layout(if becomes { &["n.part + n.whole"] } else { &["n.whole / n.part"] });
        let (part, whole) = if becomes { (0, 1) } else { (1, 0) };
        let mut source = Source { points: vec![vec![]; 2], group: 4, ..Source::default() };
        source.points[part] = of_parts;
        source.points[whole] = of_wholes;
        let (rows, counts) = joined(&layout, &source, Limits { keys, rows: 7 });
        let told: BTreeMap<i64, (Option<i64>, Option<i64>)> =
            rows.iter().map(|row| (row.1, (row.3[part], row.3[whole]))).collect();
        let met = |parent: Option<i64>| parent.filter(|parent| wholes.contains(parent)).map(|parent| 5000 + parent);
        let expected = parts.iter().map(|(&id, &parent)| (id, (Some(1000 + id), met(parent))));
        prop_assert_eq!(told, expected.collect::<BTreeMap<_, _>>());
        let count = |is: &dyn Fn(Option<i64>) -> bool| parts.values().filter(|parent| is(**parent)).count() as u64;
        let named: BTreeSet<i64> = parts.values().flatten().copied().collect();
        let apart = (named.len() <= keys).then(|| wholes.difference(&named).count() as u64);
        let expected = LinkCounts {
            matched: count(&|parent| met(parent).is_some()),
            unreached: count(&|parent| parent.is_some() && met(parent).is_none()),
            unsaid: count(&|parent| parent.is_none()),
            apart,
            ..LinkCounts::default()
        };
        if apart.is_some() || counts.links[0].apart.is_none() {
            prop_assert_eq!(counts.links, [expected]);
        }
    }

    /// Attempts of one id, each sent and perhaps received, in any order: with attempts said, each receive comes from
    /// the send of its own.
    #[test]
    fn property_attempts_that_overlap_are_paired_by_what_both_ends_say(
        attempts in prop::collection::vec((0i64..50, prop::option::of(1i64..200)), 2..7),
    ) {
        let layout = rule_all(&["n.send > n.receive"]);
        let sent: Vec<Stamp> = attempts.iter().zip(0..).map(|(&(sent, _), attempt)| {
            Stamp { attempt: Some(attempt), ..Stamp::of(7, sent) }
        }).collect();
        let received: Vec<Stamp> = attempts.iter().zip(0..).filter_map(|(&(sent, later), attempt)| {
            Some(Stamp { attempt: Some(attempt), ..Stamp::of(7, sent + later?) })
        }).collect();
        let (rows, counts) = joined(&layout, &Source::of(&[&sent, &received]), WIDE);
        prop_assert_eq!(counts.untold, 0);
        let found: BTreeSet<(i64, Option<i64>)> = rows.iter().map(|row| (row.3[0].unwrap(), row.3[1])).collect();
        let expected = attempts.iter().map(|&(sent, later)| (sent, later.map(|later| sent + later)));
        prop_assert_eq!(found, expected.collect::<BTreeSet<_>>());
    }
}

fn rule_all(edges: &[&str]) -> Layout {
    let edges = edges.iter().map(ToString::to_string).collect();
    let rules = vec![("n.send".into(), "all".into())];
    LayoutText { edges, rules, ..LayoutText::default() }.parse(None).unwrap()
}

#[test]
fn attempts_that_one_end_does_not_say_tell_nothing() {
    let layout = rule_all(&["n.send > n.receive"]);
    let sent = [0, 1].map(|attempt| Stamp { attempt: Some(attempt), ..Stamp::of(7, 10 * i64::from(attempt)) });
    let (_, counts) = joined(&layout, &Source::of(&[&sent, &[Stamp::of(7, 30)]]), WIDE);
    assert_eq!((counts.repeated, counts.untold), (1, 1));
    let second = Stamp { attempt: Some(1), ..Stamp::of(7, 30) };
    let (rows, counts) = joined(&layout, &Source::of(&[&sent, &[second]]), WIDE);
    assert_eq!((counts.repeated, counts.untold), (1, 0));
    let told: Vec<_> = rows.iter().map(|row| (row.3.clone(), row.4.clone().unwrap())).collect();
    let [first, retried] = [vec![Some(0), None], vec![Some(10), Some(30)]];
    assert_eq!(told, [(first, "na".into()), (retried, "na".into())]);
}

#[test]
fn attempts_that_contradict_the_time_are_refused_with_both_stamps_and_never_paired_by_time() {
    let layout = rule_all(&["n.send > n.receive"]);
    let stamp = |attempt, tick| Stamp { attempt: Some(attempt), ..Stamp::of(7, tick) };
    let told = |sent: &[Stamp], received: &[Stamp]| {
        let (rows, counts) = joined(&layout, &Source::of(&[sent, received]), WIDE);
        (rows[0].4.clone().unwrap(), counts.untold, counts.contradicted, counts.contradiction)
    };
    // Attempt 1 was received before it was sent; by time it would be attempt 0.
    let at = |point, tick| StampAt { point, tick };
    let found = AttemptContradiction { attempt: 1, from: at(0, 10), to: at(1, 5) };
    assert_eq!(told(&[stamp(0, 0), stamp(1, 10)], &[stamp(1, 5)]), ("n?".into(), 1, 1, Some((0, 7, found))));
    // An attempt whose send is not there, and one that was received twice: nothing that cannot be, and nothing told.
    let nothing = ("n?".into(), 1, 0, None);
    assert_eq!(told(&[stamp(0, 0), stamp(1, 10)], &[stamp(2, 5)]), nothing);
    let twice = told(&[stamp(0, 0), stamp(1, 10)], &[stamp(0, 5), stamp(0, 30)]);
    assert_eq!(twice, ("n*".into(), 1, 0, None));
    assert_eq!(told(&[stamp(0, 0), stamp(0, 10)], &[stamp(1, 5)]), ("n1".into(), 0, 0, None), "said by one end");
    let (sent, received) = ([stamp(0, 0), stamp(1, 10)], [stamp(1, 5)]);
    let of_two = Source { ambiguous: vec![7], ..Source::of(&[&sent, &received]) };
    assert_eq!(joined(&layout, &of_two, WIDE).1.contradicted, 0, "of an id of two things nothing is known");
}

/// Marks of id 7 with these stamps at three points of a path, of which the first kept what `kept` says.
fn path_of(kept: KeptStamps, points: [&[Stamp]; 3]) -> String {
    let edges = ["n.send > n.receive".into(), "n.receive > n.done".into()];
    let layout = LayoutText { edges: edges.to_vec(), ..LayoutText::default() }.parse(None).unwrap();
    let source = Source { kept: Some((0, kept)), ..Source::of(&points) };
    joined(&layout, &source, WIDE).0[0].4.clone().unwrap()
}

#[test]
fn of_repeated_ids_nothing_is_paired_from_a_point_whose_policy_left_out_stamps_but_by_attempt() {
    let at = |tick| Stamp::of(7, tick);
    let both = |stamps: [&[Stamp]; 3]| [KeptStamps::WholeIds, KeptStamps::Any].map(|kept| path_of(kept, stamps));
    // One send is there: the second receive need not be of it.
    assert_eq!(both([&[at(0)], &[at(5), at(15)], &[at(6)]]), ["1n1", "n*1"]);
    // Two are there, in between which another may have been left out: 5 may come from it.
    assert_eq!(both([&[at(0), at(20)], &[at(5), at(25)], &[]]), ["nn.", "n*."]);
    assert_eq!(both([&[at(0), at(20)], &[at(5)], &[at(6)]]), ["n11", "n?1"], "what comes after it stays");
    let attempt = |attempt, tick| Stamp { attempt: Some(attempt), ..at(tick) };
    let (sent, received) = ([attempt(1, 10), attempt(3, 30)], [attempt(3, 35)]);
    assert_eq!(both([&sent, &received, &[]]), ["na.", "na."]);
}

/// How the ids of two points were told apart, by id, where the first point kept what `kept` says.
fn of_two(kept: KeptStamps, [sent, received]: [&[Stamp]; 2], limits: Limits) -> Vec<(i64, Option<String>)> {
    let source = Source { kept: Some((0, kept)), ..Source::of(&[sent, received]) };
    let (rows, _) = joined(&layout(&["n.send > n.receive"]), &source, limits);
    rows.into_iter().map(|row| (row.1, row.4)).collect()
}

#[test]
fn single_stamps_that_say_to_be_of_different_attempts_are_no_pair_where_a_policy_may_have_left_out_others() {
    let of = |id, attempt, tick| Stamp { attempt: Some(attempt), ..Stamp::of(id, tick) };
    let sent = [of(1, 0, 0), of(2, 1, 10), of(3, 0, 20), of(4, 2, 30), of(5, 0, 40)];
    let received = [of(1, 0, 5), of(2, 0, 5), of(3, 1, 25), of(4, 2, 35), Stamp::of(5, 45)];
    let marks = |all: [&str; 5]| {
        let told = all.iter().map(|marks| (!marks.is_empty()).then(|| marks.to_string()));
        (1..).zip(told).collect::<Vec<_>>()
    };
    let told = marks(["", "n?", "n?", "na", ""]);
    // Chunk by chunk, and hashed.
    let far = |stamps: [Stamp; 5]| stamps.map(|stamp| Stamp { id: stamp.id * 1_000_000, ..stamp });
    for keys in [1 << 20, 2, 1] {
        let limits = Limits { keys, ..WIDE };
        assert_eq!(of_two(KeptStamps::Any, [&sent, &received], limits), told, "{keys}");
        let hashed = of_two(KeptStamps::Any, [&far(sent), &far(received)], limits);
        assert_eq!(hashed.into_iter().map(|(id, marks)| (id / 1_000_000, marks)).collect::<Vec<_>>(), told, "{keys}");
    }
    // A point that shows all shows where several come from; ids that were left out whole say nothing of others.
    for kept in [KeptStamps::All, KeptStamps::WholeIds] {
        assert_eq!(of_two(kept, [&sent, &received], WIDE), marks([""; 5]), "{kept:?}");
    }
}

#[test]
fn a_batch_that_says_its_attempt_says_it_of_each_of_its_ids() {
    for n in [3, SHORT_SPAN as i64 + 9] {
        let batch = |attempt, tick| Stamp { n, attempt: Some(attempt), ..Stamp::of(10, tick) };
        let one = Stamp { attempt: Some(0), ..Stamp::of(11, 5) };
        let told = of_two(KeptStamps::Any, [&[batch(1, 10)], &[one]], WIDE);
        assert!(told.contains(&(11, Some("n?".into()))), "{told:?}");
        assert!(of_two(KeptStamps::Any, [&[batch(0, 0)], &[one]], WIDE).contains(&(11, None)));
        assert!(of_two(KeptStamps::Any, [&[batch(5, 0)], &[batch(5, 9)]], WIDE).contains(&(11, Some("na".into()))));
    }
    // Beyond what is taken whole, the further ids of the batch are those that others have.
    let long = Stamp { n: 1 << 29, attempt: Some(1), ..Stamp::of(10, 10) };
    let one = Stamp { attempt: Some(0), ..Stamp::of(500, 5) };
    assert!(of_two(KeptStamps::Any, [&[long], &[one]], WIDE).contains(&(500, Some("n?".into()))));
}

#[test]
fn an_attempt_that_one_stamp_at_each_point_says_and_that_cannot_be_is_a_finding() {
    let stamp = |tick| Stamp { attempt: Some(2), ..Stamp::of(7, tick) };
    let source = Source { kept: Some((0, KeptStamps::Any)), ..Source::of(&[&[stamp(10)], &[stamp(5)]]) };
    let (rows, counts) = joined(&layout(&["n.send > n.receive"]), &source, WIDE);
    assert_eq!((rows[0].4.as_deref(), counts.contradicted), (Some("n?"), 1));
}

#[test]
fn no_duration_is_made_of_one_stamp_of_a_repeated_id_whose_others_a_policy_may_have_left_out() {
    let layout = layout(&["n.send > n.receive", "n.receive > n.done"]);
    let (sent, received, done) = ([Stamp::of(7, 0)], [Stamp::of(7, 5), Stamp::of(7, 15)], [Stamp::of(7, 20)]);
    let source = Source::of(&[&sent, &received, &done]);
    let told = |kept| {
        let (mut source, mut told) = (Source { kept: Some((0, kept)), ..source.clone() }, vec![]);
        join(&layout, &mut source, WIDE, &|first, second| first.tick <= second.tick, &mut |traces: &Traces| {
            for (from, to) in [(0, 1), (0, 2)] {
                let stage = Stage { name: String::new(), from, to, role: StageRole::Path };
                told.push(traces.together(&layout, &stage, 0));
            }
            Ok(())
        })
        .unwrap();
        told
    };
    assert_eq!(told(KeptStamps::All), [true, true]);
    assert_eq!(told(KeptStamps::Any), [false, false]);
}

#[test]
fn an_offset_reaches_no_other_one_of_a_point_that_a_policy_left_stamps_out_of() {
    let layout = layout(&["n.written ~ n.sent"]);
    let (written, sent) = ([100, 200, 300], [100, 250, 350]);
    let [written, sent] = [written, sent].map(|ids| ids.map(|id| Stamp::of(id, id)));
    let reached = |kept| {
        let source = Source { kept: Some((1, kept)), ..Source::of(&[&written, &sent]) };
        let (rows, counts) = joined(&layout, &source, WIDE);
        (rows.iter().map(|row| row.3[1]).collect::<Vec<_>>(), counts.links[0].unreached)
    };
    assert_eq!(reached(KeptStamps::All), (vec![Some(100), Some(250), Some(350)], 0));
    for kept in [KeptStamps::WholeIds, KeptStamps::Any] {
        assert_eq!(reached(kept), (vec![Some(100), None, None], 2), "what held their last byte may be left out");
    }
}

#[test]
fn parts_go_through_a_whole_and_the_whole_of_that() {
    let layout = layout(&["n.request / n.packet", "n.packet > n.sent", "n.sent + n.block", "n.block + n.file"]);
    let part = |id: i64, tick, parent| Stamp { parent: Some(parent), ..Stamp::of(id, tick) };
    let requests = [Stamp::of(1, 10), Stamp::of(2, 20), Stamp::of(3, 30)];
    let packets = [part(1, 11, 1), part(2, 12, 1), part(3, 21, 2), Stamp { n: 3, ..part(4, 22, 2) }];
    let sent = [part(1, 13, 9), part(2, 14, 9), part(3, 23, 8), part(5, 24, 9), part(5, 25, 8)];
    let blocks = [part(9, 40, 100), Stamp::of(8, 41)];
    let files = [Stamp::of(100, 50)];
    let points: Vec<String> = layout.points().iter().map(|point| point.place.to_string()).collect();
    assert_eq!(points, ["n.request", "n.packet", "n.sent", "n.block", "n.file"]);
    let (rows, counts) = joined(&layout, &Source::of(&[&requests, &packets, &sent, &blocks, &files]), WIDE);
    let told: Vec<_> = rows.iter().map(|row| (row.1, row.3.clone())).collect();
    let row = |ticks: [i64; 5]| ticks.map(|tick| Some(tick).filter(|&tick| tick != 0)).to_vec();
    let expected = [
        (1, row([10, 11, 13, 40, 50])),
        (2, row([10, 12, 14, 40, 50])),
        (3, row([20, 21, 23, 41, 0])),
        (4, row([20, 22, 0, 0, 0])),
        (5, row([20, 22, 24, 0, 0])),
        (6, row([20, 22, 0, 0, 0])),
    ];
    assert_eq!(told, expected);
    let apart = |links: &[LinkCounts]| links.iter().map(|link| (link.matched, link.apart)).collect::<Vec<_>>();
    assert_eq!(apart(&counts.links), [(6, Some(1)), (3, Some(0)), (2, Some(0))]);
    assert_eq!((counts.links[1].repeated, counts.links[2].unsaid), (1, 1));
}

/// The tick of each part's whole, or that of what it became, by part; and how many have none that is told.
fn wholes(edge: &str, parts: &[Stamp], wholes: &[Stamp], ambiguous: &[i64]) -> (Vec<Option<i64>>, LinkCounts) {
    let mut source = Source { ambiguous: ambiguous.to_vec(), ..Source::default() };
    let (part, whole) = if edge.contains('+') { (0, 1) } else { (1, 0) };
    source = Source { points: vec![vec![]; 2], group: 2, ..source };
    (source.points[part], source.points[whole]) = (parts.to_vec(), wholes.to_vec());
    let (rows, counts) = joined(&layout(&[edge]), &source, WIDE);
    (rows.iter().map(|row| row.3[whole]).collect(), counts.links[0])
}

#[test]
fn a_part_has_no_whole_that_was_stamped_twice_or_is_two_things() {
    let part = |id: i64, parent| Stamp { parent: Some(parent), ..Stamp::of(id, 100 + id) };
    let parts = [part(1, 7), part(2, 7), part(3, 8)];
    let told = |untold, matched| LinkCounts { untold, matched, apart: Some(0), ..LinkCounts::default() };
    for edge in ["n.whole / n.part", "n.part + n.whole"] {
        let found = wholes(edge, &parts, &[Stamp::of(7, 10), Stamp::of(7, 900), Stamp::of(8, 20)], &[]);
        assert_eq!(found, (vec![None, None, Some(20)], told(2, 1)), "{edge}: sent again, or another of that id");
        let found = wholes(edge, &parts, &[Stamp::of(7, 10), Stamp::of(8, 20)], &[7]);
        assert_eq!(found, (vec![None, None, Some(20)], told(2, 1)), "{edge}: stamped once, of which of the two?");
    }
    let again = [part(1, 7), Stamp { tick: 950, ..part(1, 7) }, part(3, 8)];
    let once = [Stamp::of(7, 10), Stamp::of(8, 20)];
    let of_one = wholes("n.whole / n.part", &again, &once, &[]);
    assert_eq!(of_one, (vec![Some(10), Some(20)], told(0, 2)), "a part that is sent again comes from the same whole");
    let becomes = wholes("n.part + n.whole", &again, &once, &[]);
    assert_eq!(becomes, (vec![None, Some(20)], LinkCounts { apart: Some(1), ..told(1, 1) }), "and becomes one once");
}

#[test]
fn nothing_is_made_of_an_id_that_two_things_have_and_the_others_are_as_they_were() {
    let layout = layout(&["n.a > n.b"]);
    let (a, b) = ([Stamp::of(7, 10), Stamp::of(8, 20)], [Stamp::of(7, 15), Stamp::of(8, 25)]);
    let source = Source { ambiguous: vec![-3, 7], ..Source::of(&[&a, &b]) };
    let mut told = HashMap::new();
    let counts = join(&layout, &mut source.clone(), WIDE, &|_, _| true, &mut |traces: &Traces| {
        let stage = Stage { name: String::new(), from: 0, to: 1, role: StageRole::Path };
        told.extend((0..traces.len()).map(|row| (traces.ids()[row], traces.together(&layout, &stage, row))));
        Ok(())
    });
    assert_eq!(told, HashMap::from([(7, false), (8, true)]));
    let counts = counts.unwrap();
    assert_eq!((counts.ambiguous, counts.untold, counts.ids), (1, 1, 2));
}

#[test]
fn edges_of_parts_that_leave_open_whose_ids_rows_have_are_refused() {
    let refused = |edges: &[&str]| {
        let edges = edges.iter().map(ToString::to_string).collect();
        LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap_err().to_string()
    };
    for (edges, says) in [
        (&["n.a + n.b", "n.a > n.b2", "n.b2 > n.b"][..], "an edge of parts between points that share no id"),
        (&["n.a + n.b", "n.c + n.b"], "one edge of parts to the points of one id, found 'n.a + n.b' and 'n.c + n.b'"),
        (&["n.a / n.b", "n.a / n.c"], "one edge of parts to the points of one id"),
        (&["n.a + n.b", "n.c > n.d"], "found 2 such sets of points"),
        (&["n.a * n.b"], "a '+' between parts and what they become, a '/' between a whole and its parts"),
    ] {
        let refused = refused(edges);
        assert!(refused.contains(says), "{refused:?} lacks {says:?}");
    }
}

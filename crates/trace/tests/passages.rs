//! Ids that pass a point several times: made-up passages whose truth is known, and every way to assign their stamps,
//! counted one by one.

mod memory;

use std::collections::{BTreeMap, HashSet};

use memory::{Memory, Stamp};
use proptest::prelude::*;
use tickscope_trace::{
    Clock, Clocks, JoinCounts, Layout, LayoutText, Limits, Mark, Marks, Stage, StageRole, StampAt, Traces, join,
};

const PATH: usize = 4;
/// The branch leaves this point of the path; its own point is the last.
const LEFT: usize = 1;
const POINTS: usize = PATH + 1;

fn layout(rules: [&str; POINTS]) -> Layout {
    let name = |point: usize| format!("n.p{point}");
    LayoutText {
        path: (0..PATH).map(name).collect(),
        branches: vec![format!("n.p{LEFT} > n.p{PATH}")],
        rules: (0..POINTS).map(|point| (name(point), rules[point].into())).collect(),
        ..LayoutText::default()
    }
    .parse(None)
    .unwrap()
}

fn joined(
    layout: &Layout,
    points: &[Vec<Stamp>],
    may_precede: &dyn Fn(StampAt, StampAt) -> bool,
) -> (Traces, JoinCounts) {
    let mut all = None;
    let mut memory = Memory { points: points.to_vec(), group: 5 };
    let limits = Limits { keys: 1 << 10, rows: 1 << 10 };
    let counts = join(layout, &mut memory, limits, may_precede, &mut |traces| {
        memory::check_attributes(traces);
        assert!(all.replace(traces.clone()).is_none(), "one batch");
        Ok(())
    });
    (all.unwrap(), counts.unwrap())
}

/// By point, `(tick, thread)` of the stamps of id 7.
fn stamps(points: [&[(i64, u32)]; POINTS]) -> Vec<Vec<Stamp>> {
    let stamp = |&(tick, thread)| Stamp { id: 7, kind: 0, tick, thread: Some(thread) };
    points.map(|stamps: &[(i64, u32)]| stamps.iter().map(stamp).collect()).to_vec()
}

fn in_order(first: StampAt, second: StampAt) -> bool {
    first.tick <= second.tick
}

/// Marks, and by trace the ticks, of one id on one clock.
fn told(rules: [&str; POINTS], points: [&[(i64, u32)]; POINTS]) -> (String, Vec<Vec<Option<i64>>>) {
    let (traces, _) = joined(&layout(rules), &stamps(points), &in_order);
    let ticks = (0..traces.len()).map(|row| traces.points().iter().map(|point| point.get(row)).collect());
    (traces.marks(0).unwrap().text(), ticks.collect())
}

fn duration(traces: &Traces, layout: &Layout, row: usize, from: usize, to: usize) -> Option<i64> {
    let stage = Stage { name: String::new(), from, to, role: StageRole::Path };
    let ticks = traces.points()[from].get(row).zip(traces.points()[to].get(row));
    ticks.filter(|_| traces.together(layout, &stage, row)).map(|(from, to)| to - from)
}

const FIRST: [&str; POINTS] = ["first"; POINTS];
const LAST: [&str; POINTS] = ["last"; POINTS];
const ALL: [&str; POINTS] = ["all"; POINTS];

#[test]
fn passages_that_overlap_on_two_threads_are_paired_within_each() {
    let points: [&[_]; POINTS] = [&[(0, 1), (100, 2)], &[(300, 2), (1_000, 1)], &[], &[], &[]];
    let pair = |from, to| vec![Some(from), Some(to), None, None, None];
    assert_eq!(told(FIRST, points), ("nt...".into(), vec![pair(0, 1_000)]));
    assert_eq!(told(LAST, points), ("nt...".into(), vec![pair(100, 300)]));
    assert_eq!(told(ALL, points), ("nt...".into(), vec![pair(0, 1_000), pair(100, 300)]));
}

#[test]
fn passages_that_overlap_and_change_threads_are_refused_and_those_that_do_not_overlap_are_not() {
    let apart: [&[_]; POINTS] = [&[(0, 1), (500, 1)], &[(300, 2), (900, 3)], &[], &[], &[]];
    assert_eq!(told(ALL, apart).0, "nn...");
    let overlapping: [&[_]; POINTS] = [&[(0, 1), (500, 1)], &[(600, 2), (900, 3)], &[], &[], &[]];
    let layout = layout(ALL);
    let (traces, counts) = joined(&layout, &stamps(overlapping), &in_order);
    assert_eq!(traces.marks(0).unwrap().text(), "n*...");
    assert_eq!([0, 1].map(|row| duration(&traces, &layout, row, 0, 1)), [None; 2]);
    assert_eq!((counts.repeated, counts.untold), (1, 1));
}

#[test]
fn a_message_sent_twice_before_one_receive_is_refused_and_one_sent_again_afterwards_is_not() {
    let late: [&[_]; POINTS] = [&[(0, 1), (100, 1)], &[(150, 2)], &[(160, 2)], &[], &[]];
    let layout = layout(FIRST);
    let (traces, _) = joined(&layout, &stamps(late), &in_order);
    assert_eq!(traces.marks(0).unwrap().text(), "n?1..");
    let found = [(0, 1), (0, 2), (1, 2)].map(|(from, to)| duration(&traces, &layout, 0, from, to));
    assert_eq!(found, [None, None, Some(10)], "what comes after the one receive is its own");
    let again: [&[_]; POINTS] = [&[(0, 1), (200, 1)], &[(150, 2)], &[], &[], &[]];
    assert_eq!(told(FIRST, again), ("n1...".into(), vec![vec![Some(0), Some(150), None, None, None]]));
    assert_eq!(told(LAST, again).1, [[Some(0), Some(150), None, None, None]], "the last one was not received");
}

#[test]
fn every_stamp_after_a_single_one_comes_from_it_and_what_joins_again_is_told_only_from_that() {
    let points: [&[_]; POINTS] = [&[(0, 1)], &[(10, 2), (20, 3)], &[(50, 3), (60, 2)], &[(90, 4)], &[]];
    assert_eq!(told(FIRST, points).1, [[Some(0), Some(10), Some(60), Some(90), None]]);
    let layout = layout(ALL);
    let (traces, _) = joined(&layout, &stamps(points), &in_order);
    assert_eq!(traces.marks(0).unwrap().text(), "1nt?.");
    let all = |from, to| [0, 1].map(|row| duration(&traces, &layout, row, from, to));
    assert_eq!((all(0, 1), all(1, 2)), ([Some(10), Some(20)], [Some(50), Some(30)]));
    assert_eq!((all(2, 3), all(1, 3)), ([None; 2], [None; 2]), "either may be what the batch waited for");
    assert_eq!((all(0, 3), traces.repeats(1, [0, 3])), ([Some(90); 2], true), "one, told once");
}

#[test]
fn a_stamp_before_the_only_one_that_it_could_come_from_shows_that_one_is_lacking() {
    let points: [&[_]; POINTS] = [&[(100, 1)], &[(50, 2), (150, 2)], &[], &[], &[]];
    assert_eq!(told(FIRST, points).0, "1*...");
}

#[test]
fn two_copies_of_one_message_are_strangers_also_off_the_path() {
    let points: [&[_]; POINTS] = [&[], &[(0, 1)], &[(10, 2), (20, 2)], &[], &[(5, 1), (6, 1)]];
    let layout = layout(FIRST);
    let (traces, _) = joined(&layout, &stamps(points), &in_order);
    assert_eq!(duration(&traces, &layout, 0, PATH, 2), None);
    assert_eq!(
        (duration(&traces, &layout, 0, LEFT, PATH), duration(&traces, &layout, 0, LEFT, 2)),
        (Some(5), Some(10))
    );
}

#[test]
fn a_thread_that_is_not_known_pairs_nothing() {
    let mut points = stamps([&[(0, 1), (100, 2)], &[(300, 2), (1_000, 1)], &[], &[], &[]]);
    points[1][0].thread = None;
    let (traces, _) = joined(&layout(FIRST), &points, &in_order);
    assert_eq!(traces.marks(0).unwrap().text(), "n*...");
}

#[test]
fn readings_of_one_counter_are_ordered_exactly_and_those_of_unlike_clocks_as_far_as_they_are_known() {
    let layout = LayoutText { path: vec!["a.x".into(), "b.y".into()], ..LayoutText::default() }.parse(None).unwrap();
    let at = |point, tick| StampAt { point, tick };
    let one = Clocks::new(&layout, vec![Clock::Reference], &[("a".into(), 0), ("b".into(), 0)]).unwrap();
    assert!(one.may_precede(at(0, 5), at(1, 5)) && !one.may_precede(at(0, 6), at(1, 5)));
    let brackets = [tickscope_bracket::Bracket::new(Some(900), 1_000, Some(1_100))];
    let model = tickscope_bracket::Model::new(
        tickscope_bracket::Rho::declared_ppb(1).unwrap(),
        tickscope_bracket::Ratio::new(1, 1).unwrap(),
        tickscope_tick::Tick::new(1_000),
    );
    let related = Clock::Related(tickscope_bracket::ClockMap::new(&brackets, &model).unwrap());
    let two = Clocks::new(&layout, vec![Clock::Reference, related], &[("a".into(), 0), ("b".into(), 1)]).unwrap();
    assert!(two.may_precede(at(0, 1_100), at(1, 1_000)) && two.may_precede(at(1, 1_000), at(0, 900)));
    assert!(!two.may_precede(at(0, 1_200), at(1, 1_000)) && !two.may_precede(at(1, 1_000), at(0, 800)));
    assert!(!two.may_precede(at(1, 1_001), at(1, 1_000)), "one clock's own order needs no clock map");
}

#[test]
fn marks_read_as_they_are_written_and_no_others() {
    let text = ".1nt?*";
    assert_eq!(Marks::parse(text).unwrap().text(), text);
    assert_eq!(Marks::parse("1x"), None);
}

/// What truly happened to one id: by point, each stamp with the passages that it belongs to, as bits.
type Truth = Vec<BTreeMap<i64, u8>>;

/// How an id passes.
#[derive(Clone, Debug)]
struct Story {
    /// By passage: the step to its first stamp, the steps from point to point (the branch's last), the last point that
    /// it comes to, its thread.
    passages: Vec<(i64, [i64; POINTS], usize, u32)>,
    /// Points before this one are passed once for all.
    fork: usize,
    /// From this point on only one of them goes on, and which.
    merge: usize,
    owner: usize,
    /// Points that another thread takes over before.
    handed: [bool; POINTS],
    /// Passages one after the other.
    in_turn: bool,
}

fn stories() -> impl Strategy<Value = Story> {
    let steps = prop::array::uniform5(1i64..9);
    let reach = prop_oneof![3 => Just(PATH - 1), 1 => 0..PATH];
    let passage = (0i64..20, steps, reach, 0u32..3);
    let handed = prop::array::uniform5(prop::bool::weighted(0.3));
    (prop::collection::vec(passage, 1..5), 0..PATH, 1..PATH + 3, 0usize..4, handed, prop::bool::weighted(0.3)).prop_map(
        |(passages, fork, merge, owner, handed, in_turn)| Story { passages, fork, merge, owner, handed, in_turn },
    )
}

impl Story {
    /// The stamps of `id`, and the truth. Ticks tell the passage in their last digits, so that no two are equal.
    fn told(&self, id: i64, points: &mut [Vec<Stamp>]) -> Truth {
        let mut truth = vec![BTreeMap::new(); POINTS];
        let all = (1u8 << self.passages.len()) - 1;
        let owner = self.owner % self.passages.len();
        let mut now = 0;
        let mut put = |point: usize, tick: i64, thread: u32, passages: u8| {
            truth[point].insert(tick, passages);
            let thread = Some(thread + if self.handed[point] { 10 * (point as u32 + 1) } else { 0 });
            points[point].push(Stamp { id, kind: 0, tick, thread });
        };
        let mut shared = 0;
        for (point, step) in self.passages[0].1.iter().enumerate().take(self.fork) {
            shared += step * 64;
            put(point, shared, 0, all);
        }
        for (number, &(start, steps, reach, thread)) in self.passages.iter().enumerate() {
            let mut tick = if self.in_turn { now.max(shared) } else { shared } + start * 64 + number as i64 + 1;
            for point in self.fork..PATH {
                if point > reach.max(self.fork) || (point >= self.merge && number != owner) {
                    break;
                }
                tick += steps[point] * 64;
                put(point, tick, thread, 1 << number);
                if point == LEFT && steps[PATH] > 2 {
                    put(PATH, tick + steps[PATH] * 64, thread, 1 << number);
                }
            }
            now = tick.max(now);
        }
        truth
    }
}

/// How many ways there are to give every stamp here one of its own there, not later; `alike`: of the same thread.
fn ways(there: &[Stamp], here: &[Stamp], may: &dyn Fn(&Stamp, &Stamp) -> bool) -> u64 {
    let Some((first, rest)) = here.split_first() else { return 1 };
    let free = |index: usize| there.iter().enumerate().filter(move |(at, _)| *at != index).map(|(_, stamp)| *stamp);
    let fit = there.iter().enumerate().filter(|(_, stamp)| may(stamp, first));
    fit.map(|(index, _)| ways(&free(index).collect::<Vec<_>>(), rest, may)).sum()
}

/// The point that the layout of these tests puts before `point`, among those that saw the id.
fn before(point: usize, of: &[Vec<Stamp>]) -> Option<usize> {
    let way: Vec<usize> = if point == PATH { (0..=LEFT).collect() } else { (0..point).collect() };
    way.into_iter().rev().chain(0..point).find(|&at| !of[at].is_empty())
}

/// Stamps of all ids, as they are read: on some points' clocks a tick reads otherwise by `shift`, known to within
/// `slack`.
struct World {
    layout: Layout,
    rules: [&'static str; POINTS],
    points: Vec<Vec<Stamp>>,
    truths: Vec<Truth>,
    clocks: [bool; POINTS],
    slack: i64,
    shift: i64,
}

impl World {
    fn new(stories: &[Story], rules: [usize; POINTS], clocks: [bool; POINTS], (slack, off): (i64, i64)) -> Self {
        let rules = rules.map(|rule| ["first", "last", "all"][rule]);
        let mut points = vec![Vec::new(); POINTS];
        let truths = stories.iter().enumerate().map(|(id, story)| story.told(id as i64, &mut points)).collect();
        let mut world = Self { layout: layout(rules), rules, points, truths, clocks, slack, shift: off * slack };
        for point in 0..POINTS {
            let shift = world.shift(point);
            world.points[point].iter_mut().for_each(|stamp| stamp.tick += shift);
        }
        world
    }

    fn shift(&self, point: usize) -> i64 {
        if self.clocks[point] { self.shift } else { 0 }
    }

    fn may_precede(&self, first: StampAt, second: StampAt) -> bool {
        let unlike = self.clocks[first.point] != self.clocks[second.point];
        first.tick <= second.tick + if unlike { self.slack } else { 0 }
    }

    fn joined(&self, layout: &Layout) -> (Traces, JoinCounts) {
        joined(layout, &self.points, &|first, second| self.may_precede(first, second))
    }

    fn stamps_of(&self, id: i64) -> Vec<Vec<Stamp>> {
        let of = |point: &Vec<Stamp>| point.iter().filter(|stamp| stamp.id == id).copied().collect();
        self.points.iter().map(of).collect()
    }

    /// What is paired is of one passage, and is told once.
    fn check_pairs(&self, traces: &Traces, rows: &[usize], truth: &Truth) {
        let pairs = (0..POINTS).flat_map(|from| (0..POINTS).map(move |to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            let mut told = HashSet::new();
            for &row in rows.iter().filter(|&&row| duration(traces, &self.layout, row, from, to).is_some()) {
                let tick = |point: usize| traces.points()[point].get(row).unwrap();
                let passages = |point: usize| truth[point][&(tick(point) - self.shift(point))];
                assert!(passages(from) & passages(to) != 0, "row {row}: {from} {to}, {:?}", traces.marks(row));
                assert!(traces.repeats(row, [from, to]) || told.insert((tick(from), tick(to))));
            }
        }
    }

    /// What is refused can be paired in two ways, what is told in one.
    fn check_refusals(&self, marks: &Marks, stamps: &[Vec<Stamp>]) {
        for (point, mark) in marks.points().iter().enumerate() {
            let Some(at) = before(point, stamps).filter(|_| !stamps[point].is_empty()) else { continue };
            if stamps[at].len() == 1 {
                assert!(!mark.is_untold(), "{point} of {marks:?}");
                continue;
            }
            let in_time = |a: &Stamp, b: &Stamp| {
                self.may_precede(StampAt { point: at, tick: a.tick }, StampAt { point, tick: b.tick })
            };
            let of_thread = |a: &Stamp, b: &Stamp| a.thread == b.thread && in_time(a, b);
            let by_time = ways(&stamps[at], &stamps[point], &in_time);
            let by_thread = ways(&stamps[at], &stamps[point], &of_thread);
            match mark {
                Mark::ByThread => assert_eq!(by_thread, 1),
                mark if mark.is_untold() => assert!(by_time > 1 && by_thread != 1, "{point} of {marks:?}"),
                _ => assert_eq!(by_time, 1),
            }
        }
    }

    /// A rule says which passages are followed; `every`: the traces by rule `all`.
    fn check_rule(&self, traces: &Traces, rows: &[usize], every: &Traces, stamps: &[Vec<Stamp>]) {
        let (id, marks) = (traces.ids()[rows[0]], traces.marks(rows[0]).unwrap().points());
        let root = (0..POINTS).find(|&point| !stamps[point].is_empty()).unwrap();
        let of_all: Vec<usize> = (0..every.len()).filter(|&row| every.ids()[row] == id).collect();
        let told = (root + 1..PATH).take_while(|&point| !marks[point].is_untold()).count();
        let length =
            |row: usize| (root..=root + told).filter(|&point| every.points()[point].get(row).is_some()).count();
        let longest = of_all.iter().map(|&row| length(row)).max();
        let furthest = || of_all.iter().filter(|&&row| Some(length(row)) == longest);
        let ticks = || furthest().filter_map(|&row| every.points()[root].get(row));
        let begun = traces.points()[root].get(rows[0]);
        match self.rules[root] {
            "first" => assert_eq!(begun, ticks().min()),
            "last" => assert_eq!(begun, ticks().max()),
            _ => {}
        }
        assert!(self.rules.contains(&"all") || rows.len() == 1);
        for (point, stamps) in stamps.iter().enumerate() {
            let shown = |tick| of_all.iter().any(|&row| every.points()[point].get(row) == Some(tick));
            assert!(stamps.iter().all(|stamp| shown(stamp.tick)), "by rule all every stamp is in a trace");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn property_what_is_paired_is_of_one_passage_and_what_is_refused_can_be_paired_in_two_ways(
        stories in prop::collection::vec(stories(), 1..5), rules in prop::array::uniform5(0usize..3),
        clocks in prop::array::uniform5(any::<bool>()), slack_and_off in (0i64..300, -1i64..2),
    ) {
        let world = World::new(&stories, rules, clocks, slack_and_off);
        let (traces, counts) = world.joined(&world.layout);
        let (every, _) = world.joined(&layout(ALL));
        let (mut repeated, mut untold) = (0, 0);
        for (id, truth) in world.truths.iter().enumerate() {
            let rows: Vec<usize> = (0..traces.len()).filter(|&row| traces.ids()[row] == id as i64).collect();
            let stamps = world.stamps_of(id as i64);
            world.check_pairs(&traces, &rows, truth);
            let marks = traces.marks(rows[0]);
            prop_assert_eq!(stamps.iter().any(|stamps| stamps.len() > 1), marks.is_some());
            let Some(marks) = marks else { continue };
            repeated += 1;
            untold += u64::from(marks.points().iter().any(|mark| mark.is_untold()));
            world.check_refusals(marks, &stamps);
            world.check_rule(&traces, &rows, &every, &stamps);
        }
        prop_assert_eq!((counts.repeated, counts.untold), (repeated, untold));
    }
}

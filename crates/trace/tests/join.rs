//! The join against a naive one: a map from key to the list of all ticks, written without looking at the other.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::ops::RangeInclusive;

use proptest::prelude::*;
use tickscope_trace::{Extent, JoinCounts, Layout, LayoutText, Limits, StampColumns, StampSource, Traces, join};

#[derive(Clone, Copy, Debug)]
struct Stamp {
    id: i64,
    kind: i32,
    tick: i64,
}

/// Stamps in memory, in row groups of `group`, read whole if they touch the range.
#[derive(Clone, Debug)]
struct Memory {
    points: Vec<Vec<Stamp>>,
    group: usize,
}

impl StampSource for Memory {
    type Error = Infallible;

    fn extents(&mut self, point: usize) -> Result<Vec<Extent>, Infallible> {
        Ok(self.points[point].chunks(self.group).map(extent).collect())
    }

    fn read(
        &mut self,
        point: usize,
        ids: RangeInclusive<i64>,
        sink: &mut dyn FnMut(StampColumns<'_>),
    ) -> Result<(), Infallible> {
        for group in self.points[point].chunks(self.group) {
            let Extent { first, last, .. } = extent(group);
            if first > *ids.end() || last < *ids.start() {
                continue;
            }
            let column = |of: fn(&Stamp) -> i64| group.iter().map(of).collect::<Vec<_>>();
            let kinds: Vec<i32> = group.iter().map(|stamp| stamp.kind).collect();
            let kinds = kinds.iter().any(|&kind| kind != 0).then_some(kinds.as_slice());
            sink(StampColumns::new(&column(|s| s.id), &column(|s| s.tick), kinds).unwrap());
        }
        Ok(())
    }
}

fn extent(group: &[Stamp]) -> Extent {
    let ids = || group.iter().map(|stamp| stamp.id);
    Extent { first: ids().min().unwrap(), last: ids().max().unwrap(), stamps: group.len() as u64 }
}

const RULES: [&str; 3] = ["first", "last", "all"];

/// Points `n.p0`, `n.p1` ... on the path, and one branch.
fn layout(path: usize, rules: &[usize]) -> Layout {
    let name = |point: usize| format!("n.p{point}");
    let rules = rules.iter().enumerate().take(path + 1).map(|(point, &rule)| (name(point), RULES[rule].into()));
    let branches = vec![format!("n.p0 > {}", name(path))];
    LayoutText { path: (0..path).map(name).collect(), branches, beside: vec![], rules: rules.collect() }
        .parse(None)
        .unwrap()
}

type Row = (i64, i32, i32, Vec<Option<i64>>);

fn joined(layout: &Layout, memory: &Memory, limits: Limits) -> (Vec<Row>, JoinCounts) {
    let mut rows = Vec::new();
    let counts = join(layout, &mut memory.clone(), limits, &mut |traces| {
        rows.extend((0..traces.len()).map(|row| row_of(traces, row)));
        Ok(())
    });
    (rows, counts.unwrap())
}

fn row_of(traces: &Traces, row: usize) -> Row {
    let ticks = traces.points().iter().map(|column| column.get(row)).collect();
    (traces.ids()[row], traces.kinds()[row], traces.occurrences()[row], ticks)
}

/// Every key's ticks at every point, sorted.
fn by_key(memory: &Memory) -> BTreeMap<(i64, i32), Vec<Vec<i64>>> {
    let mut keys = BTreeMap::new();
    for (point, stamps) in memory.points.iter().enumerate() {
        for stamp in stamps {
            let ticks = keys.entry((stamp.id, stamp.kind)).or_insert_with(|| vec![vec![]; memory.points.len()]);
            ticks[point].push(stamp.tick);
            ticks[point].sort_unstable();
        }
    }
    keys
}

fn naive_rows(memory: &Memory, rules: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((id, kind), ticks) in by_key(memory) {
        let passages = (0..ticks.len()).filter(|&p| RULES[rules[p]] == "all").map(|p| ticks[p].len()).max();
        for occurrence in 0..passages.unwrap_or(1).max(1) {
            let pick = |point: usize| match RULES[rules[point]] {
                "first" => ticks[point].first().copied(),
                "last" => ticks[point].last().copied(),
                _ => ticks[point].get(occurrence).copied(),
            };
            rows.push((id, kind, occurrence as i32, (0..ticks.len()).map(pick).collect()));
        }
    }
    rows
}

fn check_counts(memory: &Memory, rules: &[usize], rows: &[Row], path: usize, counts: &JoinCounts) {
    let keys = by_key(memory);
    assert_eq!((counts.ids, counts.traces), (keys.len() as u64, rows.len() as u64));
    for (point, stamps) in memory.points.iter().enumerate() {
        let present = keys.values().filter(|ticks| !ticks[point].is_empty()).count() as u64;
        let found = counts.points[point];
        assert_eq!((found.stamps, found.ids), (stamps.len() as u64, present));
        assert_eq!((found.missing, found.duplicates), (keys.len() as u64 - present, stamps.len() as u64 - present));
        let mut last: HashMap<i32, i64> = HashMap::new();
        let ticks = rows.iter().filter(|row| row.2 == 0).filter_map(|row| Some((row.1, row.3[point]?)));
        let overtook = ticks.filter(|&(kind, tick)| last.insert(kind, tick).is_some_and(|before| tick < before));
        assert_eq!(found.out_of_order, overtook.count() as u64);
    }
    let word = |ticks: &Vec<Vec<i64>>| ticks[..path].iter().map(|t| if t.is_empty() { '.' } else { 'x' }).collect();
    let words: Vec<String> = keys.values().map(word).collect();
    assert_eq!(counts.complete, words.iter().filter(|word| !word.contains('.')).count() as u64);
    assert_eq!(counts.holes, words.iter().filter(|word| word.trim_matches('.').contains('.')).count() as u64);
    let uneven = |ticks: &&Vec<Vec<i64>>| {
        let all: Vec<_> = (0..ticks.len()).filter(|&p| RULES[rules[p]] == "all").map(|p| ticks[p].len()).collect();
        all.iter().any(|&n| n > 1) && all.iter().any(|&n| n != all[0])
    };
    assert_eq!(counts.uneven, keys.values().filter(uneven).count() as u64);
}

/// How ids are spread: from dense through several dense islands to hashes over all of `i64`.
fn spread(how: usize, id: i64) -> i64 {
    match how {
        0 => id,
        1 => id - 40,
        2 => i64::MAX - id,
        3 => i64::MIN + id,
        4 => id * 1_000_003,
        5 => {
            if id % 2 == 0 {
                id
            } else {
                id + (1 << 50)
            }
        }
        _ => id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64),
    }
}

fn stamps(kinds: i32) -> impl Strategy<Value = Vec<Stamp>> {
    let tick = prop_oneof![9 => -50i64..50, 1 => any::<i64>()];
    let stamp = (0i64..80, 0..kinds, tick).prop_map(|(id, kind, tick)| Stamp { id, kind: kind - 1, tick });
    prop::collection::vec(stamp, 0..120)
}

fn memories() -> impl Strategy<Value = Memory> {
    let few = prop::collection::vec(stamps(3), 4);
    let many = prop::collection::vec(stamps(20), 4);
    (prop_oneof![few, many], 0usize..7, 1usize..60, any::<bool>()).prop_map(|(mut points, how, group, single)| {
        for stamp in points.iter_mut().flatten() {
            stamp.id = spread(how, stamp.id);
            stamp.kind = if single { 0 } else { stamp.kind };
        }
        Memory { points, group }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn property_the_join_is_the_naive_join_however_ids_are_spread_and_chunks_are_cut(
        memory in memories(), rules in prop::collection::vec(0usize..3, 4), keys in 1usize..300, rows in 1usize..50,
    ) {
        let layout = layout(3, &rules);
        let expected = naive_rows(&memory, &rules);
        let (found, counts) = joined(&layout, &memory, Limits { keys, rows });
        prop_assert_eq!(&found, &expected);
        check_counts(&memory, &rules, &expected, 3, &counts);
        let whole = joined(&layout, &memory, Limits::within(Limits::DEFAULT_BYTES, 4));
        prop_assert_eq!((found, counts), whole);
    }
}

fn stamp(id: i64, tick: i64) -> Stamp {
    Stamp { id, kind: 0, tick }
}

fn small(points: [&[(i64, i64)]; 3]) -> Memory {
    let point = |stamps: &[(i64, i64)]| stamps.iter().map(|&(id, tick)| stamp(id, tick)).collect();
    Memory { points: points.map(point).to_vec(), group: 4 }
}

#[test]
fn first_and_last_follow_the_ticks_and_not_the_order_of_arrival() {
    let memory = small([&[(7, 30), (7, 10), (7, 20)], &[(7, 50), (7, 90), (7, 60)], &[]]);
    let (rows, counts) = joined(&layout(2, &[0, 1, 0]), &memory, Limits { keys: 9, rows: 9 });
    assert_eq!(rows, [(7, 0, 0, vec![Some(10), Some(90), None])]);
    assert_eq!((counts.points[0].duplicates, counts.points[1].duplicates, counts.points[2].missing), (2, 2, 1));
}

#[test]
fn with_rule_all_the_nth_passage_meets_the_nth_and_the_single_stamp_every_one() {
    let memory = small([&[(1, 5)], &[(1, 30), (1, 20), (1, 25)], &[(1, 40), (1, 35)]]);
    let (rows, counts) = joined(&layout(2, &[0, 2, 2]), &memory, Limits { keys: 9, rows: 9 });
    let ticks: Vec<_> = rows.into_iter().map(|row| row.3).collect();
    let expected = [[Some(5), Some(20), Some(35)], [Some(5), Some(25), Some(40)], [Some(5), Some(30), None]];
    assert_eq!(ticks, expected.map(Vec::from));
    assert_eq!((counts.ids, counts.traces, counts.uneven), (1, 3, 1));
}

#[test]
fn any_tick_is_a_tick_and_a_missing_one_is_none() {
    let memory = small([&[(0, 0), (1, i64::MIN), (2, i64::MAX)], &[(1, 0), (3, -1)], &[]]);
    let (rows, counts) = joined(&layout(2, &[0, 0, 0]), &memory, Limits { keys: 9, rows: 9 });
    let ticks: Vec<_> = rows.iter().map(|row| (row.3[0], row.3[1])).collect();
    assert_eq!(ticks, [(Some(0), None), (Some(i64::MIN), Some(0)), (Some(i64::MAX), None), (None, Some(-1))]);
    assert_eq!(counts.complete, 1);
}

#[test]
fn one_id_of_two_kinds_is_two_traces() {
    let mut memory = small([&[(4, 1), (4, 2)], &[(4, 8), (4, 9)], &[]]);
    memory.points.iter_mut().take(2).for_each(|point| point[1].kind = 5);
    let (rows, _) = joined(&layout(2, &[0, 0, 0]), &memory, Limits { keys: 9, rows: 9 });
    let expected = [(4, 0, 0, vec![Some(1), Some(8), None]), (4, 5, 0, vec![Some(2), Some(9), None])];
    assert_eq!(rows, expected);
}

#[test]
fn a_run_without_stamps_has_no_traces() {
    let (rows, counts) = joined(&layout(2, &[0, 0, 0]), &small([&[], &[], &[]]), Limits { keys: 0, rows: 0 });
    assert_eq!((rows, counts.ids, counts.points[1].missing), (vec![], 0, 0));
}

#[test]
fn columns_of_unequal_length_are_refused() {
    let refused = StampColumns::new(&[1, 2], &[3], Some(&[0])).unwrap_err().to_string();
    assert!(refused.contains("found 2 ids, 1 ticks, 1 kinds"), "{refused}");
}

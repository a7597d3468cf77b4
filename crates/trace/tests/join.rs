//! The join against a naive one: a map from key to the list of all ticks, written without looking at the other.

mod memory;

use std::collections::{BTreeMap, HashMap};

use memory::{Memory, Stamp};
use proptest::prelude::*;
use tickscope_trace::{JoinCounts, Layout, LayoutText, Limits, StampAt, StampColumns, Traces, join};

const RULES: [&str; 3] = ["first", "last", "all"];

/// Points `n.p0`, `n.p1` ... on the path, and one branch.
fn layout(path: usize, rules: &[usize]) -> Layout {
    let name = |point: usize| format!("n.p{point}");
    let rules = rules.iter().enumerate().take(path + 1).map(|(point, &rule)| (name(point), RULES[rule].into()));
    let branches = vec![format!("n.p0 > {}", name(path))];
    LayoutText { path: (0..path).map(name).collect(), branches, rules: rules.collect(), ..LayoutText::default() }
        .parse(None)
        .unwrap()
}

type Row = (i64, i32, i32, Vec<Option<i64>>);

fn joined(layout: &Layout, memory: &Memory, limits: Limits) -> (Vec<Row>, JoinCounts) {
    let mut rows = Vec::new();
    let may_precede = |first: StampAt, second: StampAt| first.tick <= second.tick;
    let counts = join(layout, &mut memory.clone(), limits, &may_precede, &mut |traces| {
        memory::check_attributes(traces);
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

/// The traces of the keys that no point saw twice.
fn naive_rows(memory: &Memory) -> Vec<Row> {
    let plain = by_key(memory).into_iter().filter(|(_, ticks)| ticks.iter().all(|ticks| ticks.len() <= 1));
    plain.map(|((id, kind), ticks)| (id, kind, 0, ticks.iter().map(|ticks| ticks.first().copied()).collect())).collect()
}

fn check_counts(memory: &Memory, rows: &[Row], path: usize, counts: &JoinCounts) {
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
    let repeated = keys.values().filter(|ticks| ticks.iter().any(|ticks| ticks.len() > 1)).count() as u64;
    assert_eq!(counts.repeated, repeated);
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
    let stamp =
        (0i64..80, 0..kinds, tick).prop_map(|(id, kind, tick)| Stamp { id, kind: kind - 1, tick, thread: None });
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
        let (found, counts) = joined(&layout, &memory, Limits { keys, rows });
        check_counts(&memory, &found, 3, &counts);
        let expected = naive_rows(&memory);
        let plain = |row: &&Row| expected.iter().any(|(id, kind, ..)| (*id, *kind) == (row.0, row.1));
        prop_assert_eq!(found.iter().filter(plain).cloned().collect::<Vec<_>>(), expected.clone());
        let ascend = |two: &[Row]| (two[0].0, two[0].1, two[0].2) < (two[1].0, two[1].1, two[1].2);
        prop_assert!(found.windows(2).all(ascend), "in the order (id, kind, occurrence)");
        let whole = joined(&layout, &memory, Limits::within(Limits::DEFAULT_BYTES, 4));
        prop_assert_eq!((found, counts), whole);
    }
}

fn stamp(id: i64, tick: i64) -> Stamp {
    Stamp { id, kind: 0, tick, thread: None }
}

fn small(points: [&[(i64, i64)]; 3]) -> Memory {
    let point = |stamps: &[(i64, i64)]| stamps.iter().map(|&(id, tick)| stamp(id, tick)).collect();
    Memory { points: points.map(point).to_vec(), group: 4 }
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

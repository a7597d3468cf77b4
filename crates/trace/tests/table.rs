//! What the table says of stages whose figures can be worked out by hand.

use tickscope_bracket::{Bracket, ClockMap, Model, Ratio, Rho};
use tickscope_tick::Tick;
use tickscope_trace::{
    Answer, Clock, Clocks, Column, Common, Durations, Layout, LayoutText, Quantile, QuantileBounds, Refusal,
    SUSPICIONS_KEPT, Share, Sign, StageRole, StageRow, StageTally, StageValues, Sums, Suspicion, Traces, largest_share,
    slowest, tally,
};

fn layout(path: &[&str], branches: &[&str], rules: &[(&str, &str)]) -> Layout {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_string()).collect();
    let rules = rules.iter().map(|&(point, rule)| (point.into(), rule.into())).collect();
    LayoutText { path: owned(path), branches: owned(branches), rules, ..LayoutText::default() }.parse(None).unwrap()
}

/// Node a is the reference; node b reads the same ticks, known to within `half` either way.
fn clocks(layout: &Layout, half: i64) -> Clocks {
    let exchange = |at: i64| Bracket::new(Some(at - half), at, Some(at + half));
    let brackets: Vec<_> = (-4..=4).map(|n| exchange(n * 1_000_000)).collect();
    let model = Model::new(Rho::declared_ppb(0).unwrap(), Ratio::new(1, 1).unwrap(), Tick::new(0));
    let model = Model { prior_ppm: 0, ..model };
    let related = Clock::Related(ClockMap::new(&brackets, &model).unwrap());
    Clocks::new(layout, vec![Clock::Reference, related], &[("a".into(), 0), ("b".into(), 1)]).unwrap()
}

fn column(ticks: &[Option<i64>]) -> Column {
    ticks.iter().copied().collect()
}

fn traces(points: &[&[Option<i64>]]) -> Traces {
    let rows = points[0].len();
    let points = points.iter().map(|ticks| column(ticks)).collect();
    Traces::new(vec![7; rows], (0..rows as i64).collect(), vec![0; rows], points).unwrap()
}

fn measured(layout: &Layout, clocks: &Clocks, traces: &Traces) -> (Durations, Vec<StageTally>, Vec<StageRow>) {
    let durations = Durations::of(layout, clocks, traces).unwrap();
    let mut tallies = vec![StageTally::default(); layout.stages().len()];
    tally(layout, clocks, traces, &durations, &mut tallies);
    let row = |(stage, tally): (usize, &StageTally)| {
        let mut values = StageValues::default();
        values.add(layout, traces, &durations, stage);
        StageRow::new(layout, clocks, stage, tally, values).unwrap()
    };
    let rows = tallies.iter().enumerate().map(row).collect();
    (durations, tallies, rows)
}

#[test]
fn on_the_reference_only_what_two_readings_leave_open_is_not_known() {
    let layout = layout(&["a.x", "a.y"], &[], &[]);
    let traces = traces(&[&[Some(5), Some(10), None], &[Some(9), Some(30), Some(1)]]);
    let (durations, _, rows) = measured(&layout, &clocks(&layout, 100), &traces);
    assert_eq!(durations.stages()[0].estimate, column(&[Some(4), Some(20), None]));
    assert_eq!(durations.stages()[0].lo, column(&[Some(3), Some(19), None]));
    assert_eq!(durations.stages()[0].hi, column(&[Some(5), Some(21), None]));
    let row = &rows[0];
    assert_eq!((row.count, row.missing, row.refused, row.impossible), (2, 1, 0, 0));
    assert_eq!((row.common, row.own), (Common::default(), Common { below_ticks: 1, above_ticks: 1 }));
    assert_eq!(row.relative_ticks, 2);
    assert_eq!(row.p50, Some(QuantileBounds { estimate: 4, lo: 3, hi: 5 }));
    assert_eq!(row.p99, Some(QuantileBounds { estimate: 20, lo: 19, hi: 21 }));
    assert_eq!((row.from.as_str(), row.to.as_str(), row.role), ("a.x", "a.y", StageRole::Path));
}

#[test]
fn a_counter_that_moves_by_26_ticks_leaves_26_open_at_either_end() {
    let layout = layout(&["a.x", "a.y", "b.z"], &[], &[]);
    let traces = traces(&[&[Some(0)], &[Some(52)], &[Some(1000)]]);
    let widths = [("a".to_owned(), 26), ("b".to_owned(), 40)];
    let clocks = clocks(&layout, 100).with_widths(&layout, &widths).unwrap();
    let (durations, _, rows) = measured(&layout, &clocks, &traces);
    let bounds: Vec<_> = durations.stages().iter().map(|stage| (stage.lo.get(0), stage.hi.get(0))).collect();
    let expected = [(26, 78), (948 - 26 - 100, 948 + 40 + 100), (1000 - 26 - 100, 1000 + 40 + 100)];
    assert_eq!(bounds, expected.map(|(lo, hi)| (Some(lo), Some(hi))));
    assert_eq!((rows[0].own.below_ticks, rows[1].own.above_ticks), (26, 40));
    for wrong in [0, 1 << 50] {
        let refused = clocks.clone().with_widths(&layout, &[("a".into(), wrong)]).unwrap_err().to_string();
        assert!(refused.contains(&format!("found {wrong}")), "{refused}");
    }
}

#[test]
fn between_domains_the_common_bound_is_the_half_width_and_the_relative_one_rounding_and_readings() {
    let layout = layout(&["a.x", "b.y"], &[], &[]);
    let traces = traces(&[&[Some(0), Some(2_000)], &[Some(50), Some(2_300)]]);
    let (_, _, rows) = measured(&layout, &clocks(&layout, 100), &traces);
    assert_eq!(rows[0].common, Common { below_ticks: 100, above_ticks: 100 });
    assert_eq!(rows[0].relative_ticks, 3);
    assert_eq!(rows[0].sign(), Some(Answer::NotResolved { bound_ticks: 101, needed_ticks: 50 }));
    assert_eq!(rows[0].spread(), Some(Answer::Resolved(250)));
}

#[test]
fn a_missing_stamp_is_missing_and_not_a_duration() {
    let layout = layout(&["a.x", "b.y"], &["a.x > b.q"], &[]);
    let traces = traces(&[&[None, Some(1), Some(2)], &[Some(3), None, Some(5)], &[None, None, None]]);
    let (durations, tallies, rows) = measured(&layout, &clocks(&layout, 0), &traces);
    assert_eq!(durations.stages()[0].estimate, column(&[None, None, Some(3)]));
    assert_eq!((tallies[0].count, tallies[0].missing, tallies[0].refused), (1, 2, 0));
    assert_eq!(
        (rows[2].count, rows[2].missing, rows[2].p50, rows[2].sign(), rows[2].spread()),
        (0, 3, None, None, None)
    );
}

#[test]
fn less_than_no_time_on_the_path_is_counted_with_both_stamps_and_kept() {
    let layout = layout(&["a.x", "b.y"], &["a.x > a.r"], &[]);
    let traces = traces(&[&[Some(1_000), Some(1_000)], &[Some(898), Some(899)], &[Some(7), Some(8)]]);
    let (durations, tallies, rows) = measured(&layout, &clocks(&layout, 100), &traces);
    assert_eq!(tallies[0].impossible, 1, "-102 +- 101 cannot be, -101 +- 101 can");
    let interval = Some((-203, -1));
    let expected = Suspicion { kind: 7, id: 0, occurrence: 0, from_tick: 1_000, to_tick: 898, interval, refusal: None };
    assert_eq!(tallies[0].suspicions, [expected]);
    assert_eq!(durations.stages()[0].estimate, column(&[Some(-102), Some(-101)]));
    assert_eq!((tallies[1].impossible, tallies[2].impossible), (1, 0), "end-to-end is on the path, the branch is not");
    assert_eq!(rows[2].sign(), Some(Answer::Resolved(Sign::Negative)));
}

#[test]
fn a_duration_without_an_interval_is_refused_with_both_stamps() {
    let layout = layout(&["a.x", "a.y", "b.z"], &[], &[]);
    let far = [Some(i64::MIN); SUSPICIONS_KEPT + 1];
    let traces = traces(&[&far, &[Some(i64::MAX); SUSPICIONS_KEPT + 1], &far]);
    let (durations, tallies, rows) = measured(&layout, &clocks(&layout, 100), &traces);
    assert_eq!((durations.stages()[0].estimate.get(0), durations.stages()[1].estimate.get(0)), (None, None));
    assert_eq!((rows[0].refused, rows[1].refused, rows[0].count), (17, 17, 0));
    let found = tallies[0].suspicions[0];
    assert_eq!((found.from_tick, found.to_tick, found.interval), (i64::MIN, i64::MAX, None));
    let expected = Suspicion { kind: 7, id: 0, refusal: Some(Refusal::NoInterval), ..found };
    assert_eq!((found, tallies[0].suspicions.len()), (expected, SUSPICIONS_KEPT));
}

#[test]
fn a_stage_between_single_stamps_counts_once_an_id_whatever_passes_often() {
    let layout = layout(&["a.x", "a.y", "a.z"], &[], &[("a.z", "all")]);
    let points = [&[Some(1), Some(1)], &[Some(5), Some(5)], &[Some(6), Some(9)]].map(|ticks| column(ticks));
    let traces = Traces::new(vec![0; 2], vec![4; 2], vec![0, 1], points.to_vec()).unwrap();
    let (durations, tallies, _) = measured(&layout, &clocks(&layout, 0), &traces);
    assert_eq!(tallies.iter().map(|tally| tally.count).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!(durations.stages()[2].estimate, column(&[Some(5), Some(8)]));
}

/// By what the widths hold, which of both points of a stage between two counters count.
#[test]
fn stages_name_what_their_cores_leave_open_once_for_each_counter() {
    let layout = layout(&["a.x", "a.y", "b.w"], &[], &[]);
    let traces = traces(&[&[Some(10)], &[Some(30)], &[Some(90)]]);
    let cores = [("a".into(), 7), ("b".into(), 5)];
    let widths = [("a".into(), 8), ("b".into(), 6)];
    let clocks = clocks(&layout, 0).with_widths(&layout, &widths).unwrap().with_cores(&layout, &cores);
    let (durations, _, rows) = measured(&layout, &clocks, &traces);
    let bounds: Vec<_> = durations.stages().iter().map(|stage| (stage.lo.get(0), stage.hi.get(0))).collect();
    assert_eq!(bounds[..2], [(12, 28), (52, 66)].map(|(lo, hi)| (Some(lo), Some(hi))));
    assert_eq!(
        rows.iter().map(|row| (row.core_ticks, row.relative_ticks)).collect::<Vec<_>>()[..2],
        [(7, 16), (12, 14)]
    );
}

#[test]
fn a_node_without_a_clock_and_traces_of_another_layout_are_refused() {
    let layout = layout(&["a.x", "b.y"], &[], &[]);
    let none = Clocks::new(&layout, vec![Clock::Reference], &[("a".into(), 0)]).unwrap_err().to_string();
    assert!(none.contains("none for 'b'"), "{none}");
    let past =
        Clocks::new(&layout, vec![Clock::Reference], &[("a".into(), 0), ("b".into(), 1)]).unwrap_err().to_string();
    assert!(past.contains("clock 1 of 1 for 'b'"), "{past}");
    let other = Durations::of(&layout, &clocks(&layout, 0), &traces(&[&[Some(1)]])).unwrap_err().to_string();
    assert!(other.contains("the layout's 2 points, found 1 columns"), "{other}");
}

/// A path stage with that median and nothing else.
fn row(name: &str, role: StageRole, lo: i64, estimate: i64, hi: i64) -> StageRow {
    let layout = layout(&["a.x", "a.y"], &[], &[]);
    let traces = traces(&[&[Some(0)], &[Some(0)]]);
    let (_, _, mut rows) = measured(&layout, &clocks(&layout, 0), &traces);
    StageRow { name: name.into(), role, p50: Some(QuantileBounds { estimate, lo, hi }), ..rows.swap_remove(0) }
}

#[test]
fn the_sign_is_resolved_where_the_medians_interval_excludes_0() {
    let sign = |lo, estimate, hi| row("s", StageRole::Path, lo, estimate, hi).sign().unwrap();
    assert_eq!(sign(1, 5, 9), Answer::Resolved(Sign::Positive));
    assert_eq!(sign(-9, -5, -1), Answer::Resolved(Sign::Negative));
    assert_eq!(sign(0, 0, 0), Answer::Resolved(Sign::Zero));
    assert_eq!(sign(0, 5, 9), Answer::NotResolved { bound_ticks: 5, needed_ticks: 5 });
    assert_eq!(sign(-9, -5, 2), Answer::NotResolved { bound_ticks: 7, needed_ticks: 5 });
    assert_eq!(sign(-2, 0, 3), Answer::NotResolved { bound_ticks: 3, needed_ticks: 0 });
}

#[test]
fn a_spread_is_real_only_above_the_relative_bound_whatever_the_common_one() {
    let spread = |relative_ticks| {
        let p99 = Some(QuantileBounds { estimate: 60, lo: -1_000, hi: 2_000 });
        let common = Common { below_ticks: 900, above_ticks: 900 };
        StageRow { p99, relative_ticks, common, ..row("s", StageRole::Path, -900, 50, 950) }.spread().unwrap()
    };
    assert_eq!(spread(9), Answer::Resolved(10));
    assert_eq!(spread(10), Answer::NotResolved { bound_ticks: 10, needed_ticks: 10 });
}

#[test]
fn the_slowest_stage_is_one_only_where_no_other_stage_of_the_path_reaches_it() {
    let end_to_end = row("end-to-end", StageRole::EndToEnd, 500, 510, 520);
    let rows =
        |lo| vec![row("p", StageRole::Path, 0, 10, 40), row("q", StageRole::Path, lo, 50, 60), end_to_end.clone()];
    assert_eq!(slowest(&rows(41)), [1]);
    assert_eq!(slowest(&rows(40)), [1, 0]);
    assert_eq!(slowest(std::slice::from_ref(&end_to_end)), Vec::<usize>::new());
}

#[test]
fn the_largest_share_is_one_stage_only_where_no_other_of_its_whole_reaches_it_whatever_the_medians() {
    let share = |whole, lo: i128, hi: i128| {
        let part = Sums { estimate: (lo + hi) / 2, lo, hi };
        Some(Share { whole, is_whole: false, traces: 3, part, of: Sums { estimate: 900, lo: 890, hi: 910 } })
    };
    let rows = |lo| {
        let stage = |name, median, share| StageRow { share, ..row(name, StageRole::Path, median, median, median) };
        let whole = StageRow { share: share(3, 890, 910), ..row("end-to-end", StageRole::EndToEnd, 60, 60, 60) };
        let other = stage("of another whole", 5, share(7, 5_000, 5_000));
        vec![stage("tail", 10, share(3, lo, 800)), stage("slow", 50, share(3, 80, 100)), other, whole]
    };
    assert_eq!((slowest(&rows(101)), largest_share(&rows(101))), (vec![1], vec![0]));
    assert_eq!(largest_share(&rows(100)), [0, 1]);
    assert_eq!(largest_share(&rows(100)[..3]), Vec::<usize>::new());
}

#[test]
fn where_a_trace_stood_is_bounded_directly_and_not_by_the_sum_of_its_stages() {
    let layout = layout(&["a.x", "b.y", "a.z"], &["b.y > b.q"], &[]);
    let traces = traces(&[&[Some(1_000)], &[Some(1_500)], &[Some(2_000)], &[None]]);
    let clocks = clocks(&layout, 100);
    let since = Durations::since_first(&layout, &clocks, &traces).unwrap();
    let found: Vec<_> = since.stages().iter().map(|s| (s.estimate.get(0), s.lo.get(0), s.hi.get(0))).collect();
    assert_eq!(found[0], (Some(0), Some(0), Some(0)));
    assert_eq!(found[1], (Some(500), Some(399), Some(601)));
    assert_eq!(found[2], (Some(1_000), Some(999), Some(1_001)), "back on the reference readings alone are open");
    assert_eq!(found[3], (None, None, None));
}

#[test]
fn ends_are_kept_from_the_first_interval_that_reaches_elsewhere() {
    let mut values = StageValues::default();
    for value in [[5, 5, 5], [3, 3, 3], [9, 4, 11], [1, 1, 1]] {
        values.push(value);
    }
    assert_eq!(values.clone().sorted(), [[1, 3, 5, 9], [1, 3, 4, 5], [1, 3, 5, 11]]);
    let all = Quantile::per_million(1_000_000).unwrap();
    assert_eq!(values.quantile(all), Some(QuantileBounds { estimate: 9, lo: 5, hi: 11 }));
    let mut exact = StageValues::default();
    [7, 2].into_iter().for_each(|value| exact.push([value; 3]));
    assert_eq!(exact.sorted(), [[2, 7]; 3]);
}

use super::*;
use crate::detour::{Detour, DetourLimit};
use crate::profile::{Machine, ThreadCounts, VERSION};
use crate::tally::DetourTally;
use crate::{Detector, DetourCause};

const LIMIT: DetourLimit = DetourLimit { pass_ticks: 10, width_ticks: 3, threshold_ticks: 92 };
const SECOND: i64 = 1_000_000_000;

/// A profile of one core at 1 GHz, of windows of a second with detours of so many ticks.
pub(crate) fn profile(windows: &[Vec<i64>], class: Option<CauseClass>) -> NoiseProfile {
    let cause = class.map(|class| DetourCause { class, what: "x".into(), waited: None });
    let mut tally = DetourTally::new(SECOND as u64);
    let mut sums = Vec::new();
    for (number, lengths) in windows.iter().enumerate() {
        let mut sum = WindowSum::of(SECOND, &tally);
        for &ticks in lengths {
            let detour = Detour { before: 0, after: ticks };
            sum.add(detour, LIMIT, cause.as_ref(), &tally);
            sum.lengths_ticks.push(ticks);
            tally.add(detour, LIMIT, number as u64, cause.clone().map(|cause| (cause, 0)));
        }
        sums.push(sum);
    }
    let measured_ticks = SECOND * windows.len() as i64;
    let core = CoreProfile {
        core: 0,
        memory_bytes: None,
        limit: LIMIT,
        resolution_ticks: LIMIT.resolution_ticks(),
        windows: windows.len() as u64,
        measured_ticks,
        count: tally.count(),
        lost_ticks: tally.lost_ticks(),
        lost_share: [0.0; 2],
        causes: class.map(|_| tally.causes().sums()),
        counts: ThreadCounts::default(),
        stolen_ns: None,
        shapes_of: String::new(),
        shapes: Vec::new(),
        work: None,
        sums,
        traces: Vec::new(),
        detours: tally,
    };
    NoiseProfile {
        version: VERSION,
        detector: Detector::Selfish,
        hertz: SECOND as u64,
        step: String::new(),
        quantum_ticks: None,
        cores: vec![core],
        missing: Vec::new(),
        machine: Machine::default(),
    }
}

fn figure<'a>(found: &'a NoiseComparison, name: &str) -> &'a FigurePair {
    found.figures.iter().find(|pair| pair.figure == name).unwrap_or_else(|| panic!("no {name} in {found:?}"))
}

#[test]
fn every_figure_is_in_its_unit_and_holds_what_passes_leave_open() {
    let of = |ticks: i64| profile(&vec![vec![ticks, ticks, 20_000_000]; 10], Some(CauseClass::Interrupt));
    let found = compare([&of(2_000), &of(20_000)]).unwrap();
    let lost = figure(&found, "lost");
    let [before, after] = lost.sides;
    let truth = |side: i64| 2 * side + 20_000_000;
    assert_eq!(before.at[1..], [truth(2_000) - 3 * 94, truth(2_000) + 3 * 2], "less a pass each, and widths");
    assert_eq!(after.at[1..], [truth(20_000) - 3 * 94, truth(20_000) + 3 * 2]);
    assert_eq!((before.low, before.high, before.windows), (Some(before.at[0]), Some(before.at[0]), 10));
    assert_eq!(figure(&found, "detours").sides.map(|side| side.at), [[3_000_000; 3]; 2]);
    assert_eq!(figure(&found, "above 10 µs").sides.map(|side| side.at[0]), [1_000_000, 3_000_000]);
    assert_eq!(
        figure(&found, "length p50").sides.map(|side| side.at),
        [2_000_000, 20_000_000].map(|ps| [ps, ps - 2_001, ps + 2_001])
    );
    assert_eq!(figure(&found, "lost: interrupt").sides, lost.sides);
    assert_eq!(figure(&found, "detours: interrupt").sides.map(|side| side.at[0]), [3_000_000; 2]);
}

#[test]
fn causes_that_one_side_lacks_are_not_compared_and_neither_are_other_detectors_or_cores() {
    let [with, without] = [Some(CauseClass::Fault), None].map(|class| profile(&vec![vec![500]; 9], class));
    let found = compare([&with, &without]).unwrap();
    assert!(found.figures.iter().all(|pair| !pair.figure.contains("fault")));
    assert!(found.notes.iter().any(|note| note.contains("causes are not compared")), "{:?}", found.notes);
    let mut elsewhere = without.clone();
    elsewhere.cores[0].core = 5;
    assert!(compare([&with, &elsewhere]).unwrap_err().contains("the same cores"));
    let other = NoiseProfile { detector: Detector::Fwq, ..without };
    assert!(compare([&with, &other]).unwrap_err().contains("selfish and fwq"));
}

#[test]
fn a_rate_of_none_at_all_is_below_what_chance_may_leave_out_of_the_time_measured() {
    let sides = [2_000, 2_100].map(|ticks| profile(&vec![vec![ticks; 10]; 8], None));
    let found = compare(sides.each_ref()).unwrap();
    let above = figure(&found, "above 1 ms");
    let [seconds, chance] = {
        let ticks: i64 = sides[0].cores[0].sums.iter().map(|sum| sum.measured_ticks).sum();
        [ticks as f64 / sides[0].hertz as f64, 0.05 / found.figures.len() as f64]
    };
    for side in &above.sides {
        assert_eq!((side.at, side.low), ([0; 3], Some(0)));
        // Of events so frequent that none is seen with that chance, in a million seconds.
        let most = -chance.ln() / seconds * 1e6;
        assert!(side.high.is_some_and(|high| high as f64 >= most && (high as f64) < 2.0 * most), "{side:?} {most}");
    }
    assert!(!changed(&sides[0], &sides[1]).contains(&"above 1 ms".to_string()));
}

#[test]
fn what_many_comparisons_leave_to_chance_is_told_where_it_is_more_than_was_to_be() {
    let of = |ticks: i64| profile(&vec![vec![ticks; 10]; 8], None);
    let sides = [&of(2_000), &of(2_100)];
    let sure = |comparisons| compare_among(sides, comparisons).unwrap().confidence_per_million;
    assert_eq!([sure(1), sure(1_000)], [950_000; 2]);
    let figures = compare(sides).unwrap().figures.len() as u32;
    assert_eq!(sure(100_000), 1_000_000 - 100_000 * figures);
}

#[test]
fn a_profile_whose_windows_do_not_add_up_is_refused() {
    let good = profile(&vec![vec![500]; 9], None);
    assert_eq!(good.check(), Ok(()));
    type Spoil = fn(&mut NoiseProfile);
    let spoilt: [(Spoil, &str); 9] = [
        (|of| of.cores[0].lost_share = [0.5, 1e300], "no such shares"),
        (|of| of.cores[0].traces = vec![vec![i64::MIN]], "no such traces"),
        (|of| of.cores.push(of.cores[0].clone()), "core 0 twice"),
        (|of| of.cores[0].detours.longest[0].detour = Detour { before: i64::MIN, after: i64::MAX }, "no such detours"),
        (|of| of.cores[0].sums[3].bands[0] += 1, "add up"),
        (|of| of.cores[0].sums[3].measured_ticks = i64::MAX, "no such windows"),
        (|of| of.hertz = 0, "0 Hz"),
        (|of| of.cores[0].detours.backward_count = 1, "backward"),
        (|of| of.version = 2, "version 2"),
    ];
    for (spoil, words) in spoilt {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert!(bad.check().unwrap_err().contains(words), "{words}");
    }
}

/// The next of SplitMix64, from 0 to 1.
fn dice(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// Thirty windows with many short detours and, now and then, long ones with a heavy tail.
fn noisy(state: &mut u64, times: f64) -> NoiseProfile {
    let window = |state: &mut u64| {
        let many = 60 + (dice(state) * 40.0) as usize;
        let length = |state: &mut u64| {
            let tail = if dice(state) < 0.02 { dice(state).max(1e-4).powf(-0.7) * 100_000.0 } else { 0.0 };
            (times * (1_000.0 + 10_000.0 * dice(state) + tail)) as i64
        };
        (0..many).map(|_| length(state)).collect::<Vec<i64>>()
    };
    let windows: Vec<Vec<i64>> = (0..30).map(|_| window(state)).collect();
    profile(&windows, None)
}

/// Figures whose intervals, as far as chance goes, exclude that nothing changed.
fn changed(before: &NoiseProfile, after: &NoiseProfile) -> Vec<String> {
    let away = |pair: &&FigurePair| {
        let [[before, low, high], [after, least, most]] =
            pair.sides.map(|side| [Some(side.at[0]), side.low, side.high].map(|of| of.map(|of| of as f64)));
        let (Some(before), Some(after)) = (before, after) else { return false };
        let down = least.zip(high).map(|(least, high)| (after - least).hypot(high - before));
        let up = most.zip(low).map(|(most, low)| (most - after).hypot(before - low));
        down.is_some_and(|down| after - before > down) || up.is_some_and(|up| before - after > up)
    };
    compare([before, after]).unwrap().figures.iter().filter(away).map(|pair| pair.figure.clone()).collect()
}

#[test]
fn of_pairs_of_equal_machines_few_tables_tell_a_change_and_one_that_loses_half_as_much_again_is_found() {
    let (mut state, pairs) = (7, 150);
    let alarms = (0..pairs).filter(|_| !changed(&noisy(&mut state, 1.0), &noisy(&mut state, 1.0)).is_empty()).count();
    assert!(100 * alarms <= 8 * pairs, "{alarms} of {pairs}");
    let found = (0..20).filter(|_| {
        let names = changed(&noisy(&mut state, 1.0), &noisy(&mut state, 1.5));
        names.iter().any(|name| name == "length p50")
    });
    let found = found.count();
    assert!(found >= 18, "{found} of 20");
}

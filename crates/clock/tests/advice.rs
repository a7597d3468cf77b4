//! The words that a benchmark is put into: each sentence where its figure calls for it, and only there; and no sentence,
//! of studies made at random, that contradicts another or a table.

use proptest::prelude::*;
use tickscope_clock::advice::duration;
use tickscope_clock::benchmark::{
    Across, Benchmark, BenchmarkPlan, Cell, ClockResult, Cost, CounterSeen, LoadResult, SectionTest,
};
use tickscope_clock::compensation::{Length, Method, Outcome, Verdict};
use tickscope_clock::factor::Factor;
use tickscope_clock::load::Load;
use tickscope_clock::measure::{Agreement, CoreSpeed, Unit};

fn cell(readers: usize, p99_ns: f64, usable_ns: f64) -> Cell {
    Cell {
        readers,
        takes_turns: readers > 2,
        cost: Cost { p99_ns, ..Cost::default() },
        resolution_ns: Some(1.0),
        usable_ns: Some(usable_ns),
        shortest_section_ns: Some(100.0 * usable_ns),
        ..Cell::default()
    }
}

/// A test in which the constant of 17 ns left `left` and nothing subtracted 20 ns.
fn test(section_ns: u32, left: f64) -> SectionTest {
    let outcome = |method, error| Outcome {
        method,
        subtracts: if method == Method::Constant { 17.0 } else { 0.0 },
        residual_median: error,
        residual_mean: error,
        error,
        error_p95: 2.0 * error,
        error_fitted: error,
        gains_fitted: method != Method::None,
        ..Outcome::default()
    };
    let outcomes = vec![outcome(Method::None, 20.0), outcome(Method::Constant, left)];
    let (rho_1, k_stretches) = (None, None);
    let chosen = Method::Constant;
    let verdict = Verdict { outcomes, chosen, memory: None, rho_1, k_stretches, touched: 0, length: Length::Zero };
    SectionTest::new(section_ns, 100, verdict, None)
}

fn clock(name: &str, usable_ns: [f64; 2]) -> ClockResult {
    let load = |(busy_processes, usable_ns)| LoadResult {
        busy_processes,
        turns_per_s: None,
        cells: vec![cell(1, 30.0, usable_ns), cell(4, 40.0, usable_ns)],
        zero: test(0, 1.0),
        section: test(10_000, 1.0),
        lost_requests: 0,
    };
    ClockResult {
        clock: name.into(),
        unit: if name.starts_with("tsc") { Unit::Ticks } else { Unit::Nanoseconds },
        declared_resolution_ns: None,
        width_ns: Some(1.0),
        step: "steps of 1 ns".into(),
        across_processors: Across::Seen(Agreement { passages: 100, backward: 0, backward_worst: 0 }),
        loads: [0, 2].into_iter().zip(usable_ns).map(load).collect(),
    }
}

/// A host on which nothing is amiss.
fn sound() -> Benchmark {
    let speed = |cpu| CoreSpeed { cpu, work_ns_min: 1e4, work_ns_median: 1e4, slower_percent: 0.1 };
    Benchmark {
        plan: BenchmarkPlan {
            seconds: 1.0,
            loads: vec![0, 2],
            load: Load::SPINNING,
            readers: vec![1, 4],
            percent: 1.0,
            section_ns: 10_000,
        },
        took_s: 1.0,
        counter: CounterSeen {
            name: "tsc".into(),
            hertz: 2_000_000_000,
            declared: "declared by the processor".into(),
            hypervisor: None,
            trapped: false,
            clocksource: Some("tsc".into()),
        },
        optimised: true,
        cpus: vec![0, 1],
        speeds: vec![speed(0), speed(1)],
        clocks: vec![
            clock("tsc plain", [3.0; 2]),
            clock("tsc after", [4.0; 2]),
            clock("monotonic", [6.0; 2]),
            clock("monotonic-raw", [4.0; 2]),
        ],
        instructions: Vec::new(),
        absent: Vec::new(),
        cut_short: false,
        transients: Vec::new(),
    }
}

fn advice(change: impl Fn(&mut Benchmark)) -> String {
    let mut benchmark = sound();
    change(&mut benchmark);
    benchmark.advice().join("\n")
}

#[test]
fn a_sound_host_is_told_what_to_read_and_nothing_else_is_made_of_it() {
    let said = advice(|_| ());
    for words in [
        "read 'tsc after' (lfence; rdtsc) right before the section",
        "subtract 17.0 ns (34 ticks), the same from every section (method 'constant')",
        "With the machine as it is: subtract 17.0 ns",
        "One timing is good to ±4.0 ns in 19 of 20, and to 1 % for sections of 400 ns or more",
        "'tsc after' with 2 busy processes running: subtract 17.0 ns",
        "read 'monotonic' (clock_gettime(CLOCK_MONOTONIC))",
        "subtract 17.0 ns, the same",
        "a section of 100 ns: one timing by 'tsc after' is good to 4 % only. For 1 %, run it 4 times",
        "Where nothing interrupts, it is good to 0.4 % of 1 us, less than 0.1 % of 10 us, less than 0.1 % of 1 ms",
        "at one speed",
        "--load 0,2,8",
        "not bounds",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    for words in [
        "trapped",
        "slower",
        "stand still",
        "slow when",
        "less exact",
        "backward",
        "optimisation",
        "marked",
        "over before",
    ] {
        assert!(!said.contains(words), "{words}: {said}");
    }
    assert!(sound().findings().is_empty());
}

#[test]
fn what_is_amiss_is_named_with_its_figure() {
    let still = |benchmark: &mut Benchmark| {
        let cell = &mut benchmark.clocks[3].loads[0].cells[0];
        (cell.stands_still, cell.resolution_ns) = (true, Some(4e6));
    };
    for (words, said) in [
        ("processor 1 does the same work 4.6 % slower", advice(|benchmark| benchmark.speeds[1].slower_percent = 4.6)),
        ("'monotonic-raw' for 4.0 ms", advice(still)),
        (
            "4 threads read at once (by turns, on 2 processors); one reading in 100 then takes longer than: 'tsc \
             after' 90.0 ns (alone 30.0 ns)",
            advice(|benchmark| benchmark.clocks[1].loads[0].cells[1].cost.p99_ns = 90.0),
        ),
        (
            "'monotonic' ±1.2 us instead of ±6.0 ns",
            advice(|benchmark| benchmark.clocks[2] = clock("monotonic", [6.0, 1_200.0])),
        ),
        ("without optimisation", advice(|benchmark| benchmark.optimised = false)),
        (
            "left more error in the other half, or in longer sections, than nothing did: 'tsc plain' with 2 busy \
             processes running (constant)",
            advice(|benchmark| benchmark.clocks[0].loads[1].section = test(10_000, 21.0)),
        ),
        ("is trapped", advice(|benchmark| benchmark.counter.trapped = true)),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn what_to_do_comes_before_what_to_beware_of() {
    let mut benchmark = sound();
    benchmark.speeds[1].slower_percent = 4.6;
    let advice = benchmark.advice();
    assert!(advice[0].starts_with("read 'tsc after'"), "{advice:?}");
    let at = |words: &str| advice.iter().position(|said| said.contains(words));
    assert!(at("a section of 100 ns") < at("4.6 % slower"), "{advice:?}");
}

#[test]
fn a_counter_that_is_trapped_is_not_recommended() {
    let said = advice(|benchmark| benchmark.counter.trapped = true);
    assert!(!said.contains("read 'tsc after' (") && said.contains("one timing by 'monotonic'"), "{said}");
}

#[test]
fn a_correction_subtracts_what_the_chosen_method_was_fitted_to_and_promises_the_worst_that_was_seen() {
    let mut load = clock("monotonic", [3.0; 2]).loads.remove(0);
    let correction = load.correction(1.0);
    assert_eq!((correction.method, correction.subtract_ns, correction.good_to_ns), (Method::Constant, 17.0, Some(3.0)));
    assert_eq!(correction.from_ns, Some(300.0));
    assert_eq!([50.0, 299.0, 300.0].map(|ns| correction.repeats(ns)), [6, 2, 1].map(Some));
    // Off by 10 in 19 of 20: in sections of the plan's length, or in those of no length.
    load.section = test(10_000, 5.0);
    assert_eq!(load.correction(1.0).good_to_ns, Some(10.0));
    (load.zero, load.section) = (test(0, 5.0), test(10_000, 1.0));
    assert_eq!(load.correction(2.0).from_ns, Some(500.0));
    load.zero.chosen = Method::None;
    assert_eq!(load.correction(1.0).subtract_ns, 0.0);
}

#[test]
fn nothing_is_subtracted_where_the_chosen_method_left_more_than_nothing_in_sections_of_either_length() {
    let mut load = clock("monotonic", [3.0; 2]).loads.remove(0);
    for (zero, section, refused) in [(20.0, 20.0, false), (20.1, 1.0, true), (1.0, 20.1, true)] {
        (load.zero, load.section) = (test(0, zero), test(10_000, section));
        let correction = load.correction(1.0);
        let (method, subtract_ns) = if refused { (Method::None, 0.0) } else { (Method::Constant, 17.0) };
        assert_eq!((correction.method, correction.subtract_ns), (method, subtract_ns), "{zero} {section}");
        assert_eq!(correction.refused, refused.then_some(Method::Constant), "{zero} {section}");
    }
    // What nothing subtracted leaves is then what one timing is good to.
    assert_eq!(load.correction(1.0).good_to_ns, Some(40.0));
    // Nearer on average, further at the median: the table marks it, so it is not recommended.
    load.section = test(10_000, 1.0);
    load.zero.outcomes[1].residual_median = -20.1;
    assert_eq!(load.correction(1.0).refused, Some(Method::Constant));
}

#[test]
fn a_clock_that_never_stepped_has_no_correction_that_measures_anything() {
    let mut load = clock("ticker thread", [3.0; 2]).loads.remove(0);
    load.cells[0].usable_ns = None;
    let correction = load.correction(1.0);
    assert_eq!((correction.good_to_ns, correction.from_ns, correction.repeats(100.0)), (None, None, None));
}

#[test]
fn pairs_beside_a_section_are_said_to_be_read_anew_for_each() {
    let said = advice(|benchmark| {
        for load in &mut benchmark.clocks[2].loads {
            load.zero.outcomes.push(Outcome {
                method: Method::NearestPairs,
                subtracts: 150.5,
                ..load.zero.outcomes[1].clone()
            });
            load.zero.chosen = Method::NearestPairs;
        }
    });
    assert!(said.contains("subtract about 150 ns, found anew for each section: read four times, r1 and r2"), "{said}");
    assert!(
        said.contains("'monotonic' with 2 busy processes running: subtract 150 ns by 'method-1' as above"),
        "{said}"
    );
}

#[test]
fn the_constant_is_offered_instead_of_pairs_only_where_it_does_as_well() {
    let offered_after = |drift_fitted: f64, left: f64, error: f64| {
        let said = advice(|benchmark| {
            let load = &mut benchmark.clocks[1].loads[0];
            let pairs = Outcome { method: Method::NearestPairs, ..load.zero.outcomes[1].clone() };
            let constant = Outcome { residual_median: left, error, drift_fitted, ..load.zero.outcomes[1].clone() };
            load.zero.outcomes = vec![load.zero.outcomes[0].clone(), constant, pairs];
            load.zero.chosen = Method::NearestPairs;
        });
        said.contains("Always subtracting 17.0 ns (34 ticks) instead")
    };
    let offered = |left, error| offered_after(1.0, left, error);
    assert!(!offered_after(1.1, 0.0, 1.0), "it drifted in the half that it was fitted on");
    assert!(offered(1.0, 1.9) && offered(-1.0, 0.5));
    assert!(!offered(1.0, 2.0) && !offered(-1.1, 1.0));
    assert!(!advice(|_| ()).contains("Always subtracting"), "it is the constant already");
}

#[test]
fn the_constant_is_not_offered_where_it_did_harm_to_longer_sections() {
    let offered = |left: f64| {
        let said = advice(|benchmark| {
            let load = &mut benchmark.clocks[1].loads[0];
            let pairs = Outcome { method: Method::NearestPairs, ..load.zero.outcomes[1].clone() };
            load.zero.outcomes.push(pairs.clone());
            load.zero.chosen = Method::NearestPairs;
            load.section.outcomes.push(pairs);
            load.section.outcomes[1].error = left;
        });
        said.contains("Always subtracting")
    };
    assert!(offered(1.0) && !offered(20.1));
}

#[test]
fn a_clock_that_stood_still_through_whole_sections_promises_nothing() {
    let good_to = |usable, left| {
        let mut load = clock("ticker thread", [usable; 2]).loads.remove(0);
        for outcome in &mut load.section.outcomes {
            outcome.residual_median = left;
        }
        load.correction(1.0).good_to_ns
    };
    assert_eq!(good_to(200.0, -10_000.0), None);
    assert_eq!(good_to(200.0, -8_000.0), Some(200.0));
    assert_eq!(good_to(200.0, 10_000.0), Some(200.0), "too long is not still");
    assert_eq!(good_to(4e6, -10_000.0), Some(4e6), "one of coarse steps is known to");
}

#[test]
fn a_clock_much_finer_than_the_first_is_picked_instead() {
    let said = advice(|benchmark| benchmark.clocks[2] = clock("monotonic", [6.0, 100.0]));
    assert!(said.contains("'monotonic-raw' (clock_gettime(CLOCK_MONOTONIC_RAW))"), "{said}");
}

#[test]
fn only_a_clock_that_promises_order_is_a_finding_when_it_goes_backward() {
    let backward = |of: usize| {
        let mut benchmark = sound();
        benchmark.clocks[of].across_processors =
            Across::Seen(Agreement { passages: 100, backward: 3, backward_worst: 7 });
        benchmark
    };
    let plain = backward(0);
    assert!(plain.findings().is_empty());
    assert!(plain.advice().join("\n").contains("'tsc plain' went backward 0 times within a thread and 3 times"));
    for of in [1, 2, 3] {
        assert_eq!(backward(of).findings().len(), 1, "{of}");
    }
    let mut trapped = sound();
    trapped.counter.trapped = true;
    assert_eq!(trapped.findings().len(), 1);
}

#[test]
fn a_clock_that_never_stepped_is_called_of_no_use() {
    let mut clock = clock("ticker thread", [3.0; 2]);
    clock.loads[1].cells[0].usable_ns = None;
    let words = clock.words();
    assert!(words.contains("by 3.0 ns and 300 ns long with 0 busy") && words.contains("of no use with 2"), "{words}");
}

#[test]
fn durations_have_the_unit_that_fits() {
    let said = [0.87, 99.94, 99.96, 999.0, 1_234.0, 4e6, 32.1e9, -2_500.0, f64::INFINITY].map(duration);
    assert_eq!(said, ["0.9 ns", "99.9 ns", "100 ns", "999 ns", "1.2 us", "4.0 ms", "32.1 s", "-2.5 us", "unknown"]);
}

#[test]
fn never_is_said_only_of_clocks_of_which_something_was_compared_and_with_the_fewest_handings() {
    let mut benchmark = sound();
    let seen = |passages, backward| Across::Seen(Agreement { passages, backward, backward_worst: 0 });
    benchmark.clocks[0].across_processors = seen(0, 0);
    benchmark.clocks[1].across_processors = seen(7, 0);
    benchmark.clocks[2].across_processors = seen(90, 3);
    let said = benchmark.order();
    assert!(
        said[0].starts_with("2 clocks never went backward") && said[0].contains("in 7 handings over or more"),
        "{said:?}"
    );
    assert!(said[1].contains("'monotonic' went backward 0 times within a thread and 3 times"), "{said:?}");
    assert!(
        said[2].starts_with("not compared") && said[2].contains("'tsc plain' (no reading was handed over"),
        "{said:?}"
    );
    for clock in &mut benchmark.clocks {
        clock.across_processors = seen(0, 0);
    }
    assert!(!benchmark.order().join(" ").contains("never"), "{:?}", benchmark.order());
}

#[test]
fn a_counter_that_was_seen_to_go_backward_is_not_recommended() {
    let said = advice(|benchmark| {
        benchmark.clocks[1].across_processors = Across::Seen(Agreement { passages: 9, backward: 1, backward_worst: 5 });
    });
    assert!(!said.contains("read 'tsc after'") && !said.contains("Stamp with ordering"), "{said}");
    assert!(said.contains("'tsc after' went backward") && said.contains("read 'monotonic'"), "{said}");
}

#[test]
fn the_sign_of_the_correlation_is_said_only_where_all_that_it_may_be_agrees_under_every_load() {
    let rho = |lo: f64, hi: f64| Some(Factor { median: (lo + hi) / 2.0, between: Some([lo, hi]), stretches: 12 });
    let said = advice(|benchmark| {
        for (clock, rhos) in benchmark.clocks.iter_mut().zip([
            [rho(0.1, 0.3), rho(0.2, 0.4)],
            [rho(-0.3, -0.1), rho(-0.2, -0.05)],
            [rho(0.1, 0.3), rho(-0.1, 0.2)],
            [rho(0.1, 0.3), rho(-0.3, -0.1)],
        ]) {
            for (load, rho) in clock.loads.iter_mut().zip(rhos) {
                load.zero.rho_1 = rho;
            }
        }
    });
    assert!(said.contains("holds for 1 clocks; it is negative for 'tsc after'; undecided, or another"), "{said}");
    assert!(said.contains("under another load: 2\n"), "{said}");
}

#[test]
fn a_benchmark_that_the_time_was_too_short_for_says_so_first() {
    let advice = {
        let mut benchmark = sound();
        benchmark.cut_short = true;
        benchmark.advice()
    };
    assert!(advice[0].starts_with("--seconds 1 were over before all was read, 4 of 4 clocks were"), "{advice:?}");
}

const METHODS: [Method; 5] = Method::ALL;

/// What a method is said to leave: on average, at the median.
fn left(test: &SectionTest, method: Method) -> Option<[f64; 2]> {
    test.outcomes.iter().find(|of| of.method == method).map(|of| [of.error, of.residual_median.abs()])
}

/// Whether a table shows that method to leave more than nothing does.
fn doubted(load: &LoadResult, method: Method) -> bool {
    [&load.zero, &load.section].into_iter().any(|test| {
        let (with, without) = (left(test, method), left(test, Method::None));
        with.zip(without).is_some_and(|(with, without)| with[0] > without[0] || with[1] > without[1])
    })
}

fn any_test(section_ns: u32) -> impl Strategy<Value = SectionTest> {
    let figures = prop::collection::vec((0.0..30.0_f64, -30.0..30.0_f64, 0.0..2.0_f64), 5);
    let rho = (-0.9..0.9_f64, 0.0..0.5_f64);
    (figures, 0_usize..5, rho).prop_map(move |(figures, chosen, (rho, half))| {
        let mut test = test(section_ns, 1.0);
        let pattern = test.outcomes[0].clone();
        let outcome = |(method, &(error, residual_median, drift_fitted)): (Method, &(f64, f64, f64))| Outcome {
            method,
            subtracts: if method == Method::None { 0.0 } else { 10.0 + error },
            residual_median,
            error,
            error_p95: 2.0 * error,
            error_fitted: error / 2.0,
            drift_fitted,
            ..pattern.clone()
        };
        test.outcomes = METHODS.into_iter().zip(&figures).map(outcome).collect();
        test.chosen = METHODS[chosen];
        test.rho_1 = Some(Factor { median: rho, between: Some([rho - half, rho + half]), stretches: 12 });
        test
    })
}

fn any_benchmark() -> impl Strategy<Value = Benchmark> {
    let clock = (
        prop::collection::vec((any_test(0), any_test(10_000), 1.0..9.0_f64), 2),
        (0_u64..3, prop::bool::weighted(0.2)),
    );
    prop::collection::vec(clock, 4).prop_map(|clocks| {
        let mut benchmark = sound();
        for (clock, (loads, (passages, backward))) in benchmark.clocks.iter_mut().zip(clocks) {
            let backward = u64::from(backward).min(passages);
            clock.across_processors = Across::Seen(Agreement { passages, backward, backward_worst: 0 });
            for (load, (zero, section, usable_ns)) in clock.loads.iter_mut().zip(loads) {
                (load.zero, load.section, load.cells[0].usable_ns) = (zero, section, Some(usable_ns));
            }
        }
        benchmark
    })
}

/// The sentence that says how to read that clock under that load; the first load's begins with what to read.
fn told<'a>(said: &'a [String], clock: &str, number: usize) -> Option<&'a String> {
    let others = format!("'{clock}' with 2 busy processes running: ");
    let first = format!("read '{clock}' (");
    said.iter().find(|words| {
        if number == 0 {
            words.contains(&first) && words.contains("With the machine as it is")
        } else {
            words.starts_with(&others)
        }
    })
}

proptest! {
    #[test]
    fn property_no_sentence_of_any_benchmark_contradicts_another_or_a_table(benchmark in any_benchmark()) {
        let said = benchmark.advice();
        for clock in &benchmark.clocks {
            let went_backward = matches!(&clock.across_processors, Across::Seen(seen) if seen.backward > 0);
            for (number, load) in clock.loads.iter().enumerate() {
                let correction = load.correction(benchmark.plan.percent);
                prop_assert!(!doubted(load, correction.method), "{} {correction:?}", clock.clock);
                prop_assert_eq!(correction.refused.is_some(), doubted(load, load.zero.chosen));
                // Whatever one timing is said to be good to, no test of that method left more in 19 of 20.
                for test in [&load.zero, &load.section] {
                    let off = test.outcome(correction.method).map(|of| of.error_p95);
                    prop_assert!(off <= correction.good_to_ns, "{correction:?}");
                }
                let Some(words) = told(&said, &clock.clock, number) else { continue };
                prop_assert!(!went_backward, "{words}");
                prop_assert_eq!(words.contains("subtract nothing"), correction.method == Method::None, "{}", words);
                let named = |method: Method| {
                    let forms = [format!("(method '{method}')"), format!("by '{method}' as above")];
                    forms.iter().any(|form| words.contains(form))
                };
                for method in METHODS {
                    prop_assert!(!named(method) || method == correction.method && !doubted(load, method), "{words}");
                }
                prop_assert!(!words.contains("Always subtracting") || !doubted(load, Method::Constant), "{words}");
                let worth = format!("good to ±{} in 19 of 20", duration(correction.good_to_ns.unwrap()));
                prop_assert!(words.contains(&worth), "{words}");
            }
        }
        let ordered = |clock: &&ClockResult| {
            matches!(&clock.across_processors, Across::Seen(seen) if seen.passages > 0 && seen.backward == 0)
        };
        let ordered = benchmark.clocks.iter().filter(ordered);
        let order = benchmark.order().join("\n");
        let never = format!("{} clocks never went backward", ordered.clone().count());
        prop_assert_eq!(order.contains("never"), ordered.clone().count() > 0);
        prop_assert!(ordered.clone().count() == 0 || order.contains(&never), "{order}");
        prop_assert!(!order.contains("in 0 handings"), "{order}");
        let joined = said.join("\n");
        prop_assert!(!(joined.contains("at one speed") && joined.contains("slower:")));
    }
}

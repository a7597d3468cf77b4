//! What a study is put into words as: each sentence where its figure calls for it, and only there.

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::{Length, Method, Outcome, Verdict};
use tickscope_clock::load::Load;
use tickscope_clock::measure::{Agreement, CoreSpeed, Ramp, Unit};
use tickscope_clock::study::{Across, Cell, ClockStudy, Cost, CounterSeen, LoadStudy, Plan, SectionTest, Study};

fn cell(readers: usize, p99_ns: f64, usable_ns: f64) -> Cell {
    Cell {
        readers,
        cost: Cost { readings: 1, min_ns: 10.0, median_ns: 20.0, p99_ns, max_ns: 2.0 * p99_ns, histogram: Vec::new() },
        reads_per_s: 5e7,
        reads_per_s_all: 5e7,
        finest_step_ns: Some(1.0),
        quantum_ns: Some(1.0),
        stands_still: false,
        resolution_ns: Some(1.0),
        usable_ns: Some(usable_ns),
        shortest_section_ns: Some(100.0 * usable_ns),
        backward: 0,
        backward_worst_ns: 0.0,
        ramp: Ramp { started: Vec::new(), stopped: Vec::new(), slices: Vec::new() },
    }
}

/// A test in which the constant left `left` and nothing subtracted 20 ns.
fn test(section_ns: u32, left: f64) -> SectionTest {
    let outcome = |method, error| Outcome {
        method,
        residual_median: error,
        residual_interval: None,
        residual_mean: error,
        error,
        error_fitted: error,
        drift_fitted: 0.0,
        gains_fitted: method != Method::None,
        k: None,
        k_clipped: None,
    };
    let outcomes = vec![outcome(Method::None, 20.0), outcome(Method::Constant, left)];
    let verdict = Verdict { outcomes, chosen: Method::Constant, memory: None, length: Length::Zero };
    SectionTest::new(section_ns, 100, verdict, None)
}

fn clock(name: &str, usable_ns: [f64; 2]) -> ClockStudy {
    let load = |(busy_processes, usable_ns)| LoadStudy {
        busy_processes,
        turns_per_s: None,
        cells: vec![cell(1, 30.0, usable_ns), cell(4, 40.0, usable_ns)],
        zero: test(0, 1.0),
        section: test(10_000, 1.0),
        lost_requests: 0,
    };
    ClockStudy {
        clock: name.into(),
        unit: if name.starts_with("tsc") { Unit::Ticks } else { Unit::Nanoseconds },
        declared_resolution_ns: None,
        across_processors: Across::Seen(Agreement { passages: 100, backward: 0, backward_worst: 0 }),
        loads: [0, 2].into_iter().zip(usable_ns).map(load).collect(),
    }
}

/// A host on which nothing is amiss.
fn sound() -> Study {
    let speed = |cpu| CoreSpeed { cpu, work_ns_min: 1e4, work_ns_median: 1e4, slower_percent: 0.1 };
    Study {
        plan: Plan {
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
        absent: Vec::new(),
    }
}

fn advice(change: impl Fn(&mut Study)) -> String {
    let mut study = sound();
    change(&mut study);
    study.advice().join("\n")
}

#[test]
fn a_sound_host_is_told_what_to_read_and_nothing_else_is_made_of_it() {
    let said = advice(|_| ());
    for words in
        ["read directly", "at one speed", "read 'tsc plain'", "'monotonic' (", "method 'constant'", "not bounds"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    for words in ["trapped:", "slower", "stand still", "dear", "suffers", "backward", "optimisation", "on the other"] {
        assert!(!said.contains(words), "{words}: {said}");
    }
    assert!(sound().findings().is_empty());
}

#[test]
fn what_is_amiss_is_named_with_its_figure() {
    let still = |study: &mut Study| {
        let cell = &mut study.clocks[3].loads[0].cells[0];
        (cell.stands_still, cell.resolution_ns) = (true, Some(4e6));
    };
    for (words, said) in [
        ("processor 1 does the same work 4.6 % slower", advice(|study| study.speeds[1].slower_percent = 4.6)),
        ("'monotonic-raw' for 4.0 ms", advice(still)),
        (
            "'tsc after' 30.0 ns to 90.0 ns with 4 readers",
            advice(|study| study.clocks[1].loads[0].cells[1].cost.p99_ns = 90.0),
        ),
        ("'monotonic' 6.0 ns to 1.2 us", advice(|study| study.clocks[2] = clock("monotonic", [6.0, 1_200.0]))),
        ("without optimisation", advice(|study| study.optimised = false)),
        (
            "'tsc plain' under 2, sections of 10000 ns",
            advice(|study| study.clocks[0].loads[1].section = test(10_000, 21.0)),
        ),
        ("is trapped", advice(|study| study.counter.trapped = true)),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_clock_much_finer_than_the_first_is_picked_instead() {
    let said = advice(|study| study.clocks[2] = clock("monotonic", [6.0, 100.0]));
    assert!(said.contains("'monotonic-raw' ("), "{said}");
}

#[test]
fn only_a_clock_that_promises_order_is_a_finding_when_it_goes_backward() {
    let backward = |of: usize| {
        let mut study = sound();
        study.clocks[of].across_processors = Across::Seen(Agreement { passages: 100, backward: 3, backward_worst: 7 });
        study
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

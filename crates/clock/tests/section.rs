//! Sections hold what they are of, on counters of every step; `tickscope_section.h` says of a section what `section.rs`
//! does.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tickscope_clock::section::{Costs, Meter, Readings, Took, Unproven};
use tickscope_counter as counter;
use tickscope_counter::NodeCounter;
use tickscope_tick::{Injection, Stairs};

/// The header's languages.
const LANGUAGES: [(&str, [&str; 2]); 3] =
    [("cc", ["-std=c99", "-xc"]), ("cc", ["-std=gnu11", "-xc"]), ("c++", ["-std=c++17", "-xc++"])];

/// Sections a test measures in each case; more by `TICKSCOPE_SECTIONS`.
fn sections() -> usize {
    std::env::var("TICKSCOPE_SECTIONS").map_or(10_000, |count| count.parse().unwrap())
}

/// Compiles a program of the stamp library's tests.
fn compile(program: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let source = tree.join("crates/stamp/tests/c").join(program).with_extension("c");
    let name = format!("{program}-{}-{}", flags.concat().replace(['-', '+', '='], ""), std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(tree.join("tests/compiled.py"));
    let compiled = command.arg(compiler).args(flags).arg("-o").arg(&program).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// As the C program prints it.
fn told(took: Took) -> String {
    let unproven = match took.between {
        Ok(_) => 0,
        Err(Unproven::NotTold) => 1,
        Err(Unproven::Switched { .. }) => 2,
        Err(Unproven::Disturbed { .. }) => 3,
        Err(Unproven::Contradiction { .. }) => 4,
    };
    let (lo, hi) = took.between.map_or((0, -1), |between| (between.lo().get(), between.hi().get()));
    format!("{} {unproven} {lo} {hi}", took.at_most.get())
}

#[test]
fn c_sections_are_bounded_as_in_rust_in_every_language_of_the_header() {
    let any = (1_i64..60, 0_i64..60, -60_i64..300, 0_i64..70, -1_i64..2);
    let mut runner = TestRunner::deterministic();
    let cases: Vec<_> = (0..3_000).map(|_| any.new_tree(&mut runner).unwrap().current()).collect();
    let (mut asked, mut expected) = (String::new(), String::new());
    for (width, most, ticks, pair, switches) in cases {
        let costs = Costs { width_ticks: width, usual_ticks: 60, most_ticks: most };
        let readings = Readings { ticks, pair, switches: (switches >= 0).then_some(switches) };
        writeln!(asked, "{width} 60 {most} {ticks} {pair} {switches}").unwrap();
        writeln!(expected, "{}", told(costs.took(readings))).unwrap();
    }
    assert!((0..=4).all(|unproven| expected.lines().any(|line| line.split(' ').nth(1) == Some(&unproven.to_string()))));
    for (compiler, flags) in LANGUAGES {
        let mut program = Command::new(compile("section", compiler, &flags))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = program.stdin.take().unwrap();
        let lines = asked.clone();
        let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
        let found = String::from_utf8(program.wait_with_output().unwrap().stdout).unwrap();
        writer.join().unwrap().unwrap();
        assert!(found == expected, "{flags:?}");
    }
}

#[test]
fn c_a_sleep_is_a_switch() {
    let ended = Command::new(compile("section", "cc", &["-std=gnu99", "-xc"])).arg("sleep").output().unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(told.split(' ').nth(1), Some("2"), "{told}");
}

/// What `section_truth` counted in each case: name, sections, false `at_most`, with a lower end, false lower ends.
fn counted(compiler: &str, flags: &[&str], kind: &str) -> Vec<(String, [usize; 4])> {
    let mut program = Command::new(compile("section_truth", compiler, flags));
    let ended = program.args([kind, &sections().to_string()]).output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    print!("{flags:?}\n{text}");
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].to_owned(), [2, 4, 6, 8].map(|at| words[at].parse().unwrap()))
    };
    text.lines().map(line).collect()
}

#[test]
fn c_no_section_leaves_its_interval_whatever_the_step_of_the_counter() {
    for (compiler, flags) in LANGUAGES {
        let cases = counted(compiler, &flags, "simulated");
        assert_eq!(cases.len(), 11);
        for (name, [sections, false_at_most, ended, false_lower_end]) in cases {
            assert_eq!((false_at_most, false_lower_end), (0, 0), "{name}, {flags:?}");
            assert!(ended * 10 > sections * 9, "{name}, {flags:?}: {ended} of {sections} with a lower end");
        }
    }
}

#[test]
fn c_work_of_known_least_length_is_never_said_to_be_shorter_and_empty_sections_have_no_length() {
    for (name, [_, false_at_most, ended, longer]) in counted("cc", &["-std=gnu11", "-xc"], "real") {
        assert_eq!(false_at_most, 0, "{name}");
        // A delay does take time, of a busy machine most. Longer chains run on cores slower than the fastest, too.
        let short = name.trim_start_matches("chain-").parse::<u32>().unwrap() < 100;
        assert!(!short || longer * 20 <= ended, "{name}: {longer} of {ended} with a lower end");
    }
}

#[test]
fn a_section_lies_between_readings_within_it_and_around_it_whatever_the_step_of_the_counter() {
    for injected in [
        "0:0:0:0:2",
        "0:0:90000000:0:2",
        "0:0:0:0:2:49:2:0",
        "0:8:0:0:2:40:1:0",
        "0:0:0:0:2:1000:1:0",
        "0:0:0:0:2:5000:1:2000",
    ] {
        let map: Injection = injected.parse().unwrap();
        let meter = Meter::of_counter(NodeCounter::new(Some(map)));
        // What it would take by the injected counter if that showed every value; to this machine's own step.
        let behind = Injection { stairs: Stairs::default(), ..map };
        let apart = |from, to| behind.apply(to) - behind.apply(from);
        let mut ended = 0;
        for section in 0..sections() {
            let outer = counter::before();
            let (inner, took) = meter.measure(|| {
                let from = counter::after();
                while counter::before() - from < (section % 7 * 1_000) as i64 {}
                (from, counter::after())
            });
            let (inner, outer) = (apart(inner.0, inner.1) - 3, apart(outer, counter::after()) + 3);
            assert!(took.at_most.get() >= inner, "{injected}: {took:?}, {inner} to {outer}");
            let Ok(between) = took.between else { continue };
            assert!(between.lo().get() <= outer && inner <= between.hi().get(), "{injected}: {took:?}");
            ended += 1;
        }
        println!("{injected}: {} sections, {ended} with a lower end, {:?}", sections(), meter.costs);
    }
}

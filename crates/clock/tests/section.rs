//! `tickscope_section.h` says of a section what `section.rs` does.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tickscope_clock::section::{Meter, Readings, Took, Unproven};

/// Compiles `section.c` of the stamp library's tests.
fn compile(compiler: &str, flags: &[&str]) -> PathBuf {
    let stamp = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stamp");
    let name = format!("section-{}-{}", flags.concat().replace(['-', '+', '='], ""), std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-O2", "-pthread"]).args(flags).arg("-I").arg(stamp.join("include"));
    let compiled = command.arg("-o").arg(&program).arg(stamp.join("tests/c/section.c")).arg("-ldl").output().unwrap();
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
        Err(Unproven::Contradiction) => 4,
    };
    let (lo, hi) = took.between.map_or((0, -1), |between| (between.lo().get(), between.hi().get()));
    let less = took.at_most_less_reading.map_or(-1, |span| span.get());
    format!("{} {less} {unproven} {lo} {hi}", took.at_most.get())
}

#[test]
fn c_sections_are_bounded_as_in_rust_in_every_language_of_the_header() {
    let any = (1_i64..60, 0_i64..60, 0_i64..300, 0_i64..150, -1_i64..2);
    let mut runner = TestRunner::deterministic();
    let cases: Vec<_> = (0..3_000).map(|_| any.new_tree(&mut runner).unwrap().current()).collect();
    let (mut asked, mut expected) = (String::new(), String::new());
    for (least, more, ticks, pair, switches) in cases {
        let meter = Meter { least_ticks: least, most_ticks: least + more };
        let readings = Readings { ticks, pair, switches: (switches >= 0).then_some(switches) };
        writeln!(asked, "{least} {} {ticks} {pair} {switches}", least + more).unwrap();
        writeln!(expected, "{}", told(meter.took(readings))).unwrap();
    }
    assert!((0..=4).all(|unproven| expected.lines().any(|line| line.split(' ').nth(2) == Some(&unproven.to_string()))));
    for (compiler, flags) in
        [("cc", ["-std=c99", "-xc"]), ("cc", ["-std=gnu11", "-xc"]), ("c++", ["-std=c++17", "-xc++"])]
    {
        let mut program =
            Command::new(compile(compiler, &flags)).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
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
    let ended = Command::new(compile("cc", &["-std=gnu99", "-xc"])).arg("sleep").output().unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(told.split(' ').nth(2), Some("2"), "{told}");
}

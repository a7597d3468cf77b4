//! The pages of `tickscope clock` that are not the study's: each is written where it is asked for, beside what is printed.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What was printed, and the page.
fn page(arguments: &[&str], name: &str) -> (String, String) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.html", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickscope"));
    let output = command.arg("clock").args(arguments).args(["--html", place.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(&place).unwrap();
    fs::remove_file(&place).unwrap();
    assert!(html.contains("default-src 'none'") && !html.contains("<script") && !html.contains("http:"));
    assert!(["NaN", "inf"].iter().all(|wrong| !html.contains(&format!("\"{wrong}"))), "a coordinate is no number");
    (String::from_utf8(output.stdout).unwrap(), html)
}

#[test]
fn e2e_the_page_of_loads_in_pulses_says_of_every_clock_where_subtracting_helps() {
    let (printed, html) = page(&["--granularity", "--seconds", "1", "--load", "1", "--json"], "granularity");
    let found: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    for test in &found {
        let clock = test["clock"].as_str().unwrap();
        assert!(html.contains(&format!("<p>&#39;{clock}&#39;, a reading of which costs ")), "{clock}");
    }
    assert_eq!(html.matches("<th scope=\"row\">").count(), found.len());
}

#[test]
fn e2e_the_page_of_two_words_shows_every_counter_example_that_is_printed() {
    let (printed, html) = page(&["--two-words"], "two-words");
    let told: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(html.matches("class=\"panel\"").count(), told.len());
    for line in told {
        let (_, example) = line.split_once(": ").unwrap();
        assert!(html.contains(example), "{line}");
    }
}

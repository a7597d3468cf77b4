//! `tickscope clock --example` as its users run it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn clock(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tickscope")).arg("clock").args(arguments).output().unwrap()
}

#[test]
fn e2e_the_example_has_every_cell_of_the_papers_figures_and_its_k_beside_ours() {
    let output = clock(&["--example", "--repetitions", "8", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["plan"]["pairs"], serde_json::json!([1, 2, 3]));
    for load in found["clocks"].as_array().unwrap().iter().flat_map(|clock| clock["loads"].as_array().unwrap()) {
        let words: Vec<u64> =
            load["cells"].as_array().unwrap().iter().map(|cell| cell["words"].as_u64().unwrap()).collect();
        assert_eq!(words, [0, 50, 100, 150, 200]);
        assert_eq!(load["zero"]["trials"], 40);
        assert!(load["rpc_slope"]["median_ns"].is_f64() && load["cells"][4]["latency"]["deviation_ns"].is_f64());
    }
    let published: Vec<f64> =
        found["published"]["k"].as_array().unwrap().iter().map(|row| row["k"].as_f64().unwrap()).collect();
    assert_eq!(published, [0.8, 0.81, 3.57, 0.68, 1.14, 1.98, 1.11, 0.81]);
}

/// A page that opens offline: nothing is asked of anything, and nothing runs.
fn page(arguments: &[&str], name: &str) -> (Value, String) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.html", std::process::id()));
    let output = clock(&[arguments, &["--json", "--html", place.to_str().unwrap()]].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(&place).unwrap();
    fs::remove_file(&place).unwrap();
    assert!(html.contains("default-src 'none'") && !html.contains("<script") && !html.contains("http:"));
    assert!(["NaN", "inf"].iter().all(|wrong| !html.contains(&format!("\"{wrong}"))), "a coordinate is no number");
    (serde_json::from_slice(&output.stdout).unwrap(), html)
}

#[test]
fn e2e_the_examples_page_has_both_figures_for_every_clock_and_every_published_k() {
    let (found, html) = page(&["--example", "--repetitions", "8"], "example");
    let clocks = found["clocks"].as_array().unwrap().len();
    assert_eq!(html.matches("<svg viewBox").count(), 2 * clocks);
    // A line for each number of pairs, an upright to the 95th percentile for each cell.
    assert_eq!(html.matches("<polyline").count(), 2 * clocks * 3);
    assert_eq!(html.matches("stroke-width=\"0.8\"").count(), 2 * clocks * 3 * 5);
    assert!(["0.80", "0.81", "3.57", "0.68", "1.14", "1.98", "1.11"].iter().all(|k| html.contains(k)));
}

#[test]
fn e2e_the_studys_page_shows_every_clock_its_words_and_all_advice() {
    let (found, html) = page(&["--seconds", "2", "--load", "0", "--readers", "2"], "study");
    for clock in found["clocks"].as_array().unwrap() {
        let name = clock["clock"].as_str().unwrap();
        assert!(html.contains(&format!("<h3>{name}</h3>")) && html.contains(&format!("<th scope=\"row\">{name}</th>")));
    }
    for advice in found["advice"].as_array().unwrap() {
        assert!(html.contains(&advice.as_str().unwrap().replace('\'', "&#39;").replace('>', "&gt;")), "{advice}");
    }
}

#[test]
fn e2e_words_that_do_not_fit_the_shared_page_or_do_not_ascend_are_refused() {
    for words in ["0,2001", "50,0", "50,50"] {
        let output = clock(&["--example", "--words", words]);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("expected --words that ascend up to 2000"));
    }
}

#[test]
fn e2e_repetitions_are_the_examples_alone() {
    let output = clock(&["--repetitions", "8"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--example"));
}

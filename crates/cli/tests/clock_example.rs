//! `tickscope clock --example` as its users run it.

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
        assert!(load["rpc_slope"]["of_medians_ns"].is_f64() && load["cells"][4]["latency"]["deviation_ns"].is_f64());
    }
    let published: Vec<f64> =
        found["published"]["k"].as_array().unwrap().iter().map(|row| row["k"].as_f64().unwrap()).collect();
    assert_eq!(published, [0.8, 0.81, 3.57, 0.68, 1.14, 1.98, 1.11, 0.81]);
}

#[test]
fn e2e_repetitions_are_the_examples_alone() {
    let output = clock(&["--repetitions", "8"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--example"));
}

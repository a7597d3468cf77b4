//! The pages of `tickscope clock`: each is written where it is asked for, with the same words as are printed.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What was printed, and the page.
fn page(arguments: &[&str], name: &str) -> (String, String) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.html", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickscope"));
    let output = command.arg("clock").args(arguments).args(["--html", place.to_str().unwrap()]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(&place).unwrap();
    fs::remove_file(&place).unwrap();
    assert!(html.contains("default-src 'none'") && !html.contains("<script") && !html.contains("http:"));
    assert!(["NaN", "inf"].iter().all(|wrong| !html.contains(&format!("\"{wrong}"))), "a coordinate is no number");
    (String::from_utf8(output.stdout).unwrap(), html)
}

#[test]
fn e2e_the_page_of_loads_in_pulses_says_of_every_clock_where_subtracting_helps() {
    let (printed, html) = page(&["sweep", "--seconds", "1", "--load", "1", "--json"], "sweep");
    let found: Value = serde_json::from_str(&printed).unwrap();
    let found = found["tests"].as_array().unwrap();
    for test in found {
        let clock = test["clock"].as_str().unwrap();
        assert!(html.contains(&format!("<p>&#39;{clock}&#39;, a reading of which costs ")), "{clock}");
    }
    assert_eq!(html.matches("<th scope=\"row\">").count(), 2 * found.len());
}

#[test]
fn e2e_the_benchmarks_page_shows_every_clock_its_words_and_all_advice() {
    let (printed, html) = page(&["--seconds", "2", "--load", "0", "--readers", "2", "--json"], "benchmark");
    let found: Value = serde_json::from_str(&printed).unwrap();
    for clock in found["clocks"].as_array().unwrap() {
        let name = clock["clock"].as_str().unwrap();
        assert!(html.contains(&format!("<h3>{name}</h3>")) && html.contains(&format!("<th scope=\"row\">{name}</th>")));
    }
    // The terminal's letters for microseconds: a word may begin with them, too.
    let html = html.replace(" µs", " us");
    for advice in found["advice"].as_array().unwrap() {
        let advice = advice.as_str().unwrap().replace('\'', "&#39;").replace('>', "&gt;");
        assert!(html.contains(&advice), "{advice}");
    }
}

#[test]
fn e2e_the_page_of_a_counter_read_by_halves_has_figures_1_to_3_with_the_studys_numbers() {
    let (printed, html) = page(&["two-words", "--seconds", "1", "--json"], "two-words");
    assert!(serde_json::from_str::<Value>(&printed).unwrap()["tests"].as_array().unwrap().len() == 6);
    for (figure, routine) in ["varying-read", "4-read", "1-read"].iter().enumerate() {
        for title in [format!("As figure {}: {routine}", figure + 1), format!("{routine} by turn")] {
            assert_eq!(html.matches(&format!("<h3>{title}</h3>")).count(), 1, "{title}");
        }
    }
    assert!(html.contains("90 000 words/s") && html.contains("<svg"));
}

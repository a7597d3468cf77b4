//! Saved profiles of `tickscope noise`: printed again, compared, and the study's analysis of them.

mod site;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use site::{Ended, Site, tickscope};
use tickscope_host::affinity::allowed_cpus;

fn words(of: &[&str], files: &[&PathBuf]) -> Ended {
    Ended::of(tickscope(of).args(files))
}

/// Saves a profile of a core, and gives what was printed of it.
fn saved(site: &Site, more: &[&str]) -> (PathBuf, Value) {
    let (file, core) = (site.path("profile.json"), allowed_cpus().unwrap()[0].to_string());
    let survey = [&["noise", "--json", "--seconds", "0.3", "--cores", &core, "--out", file.to_str().unwrap()], more];
    let printed = Ended::of(&mut tickscope(&survey.concat())).json(0);
    (file, printed)
}

#[test]
fn e2e_a_saved_profile_is_printed_again_as_it_was_and_one_that_is_none_is_refused() {
    let site = Site::new("noise-saved");
    let (file, printed) = saved(&site, &["--no-trace"]);
    assert_eq!(words(&["noise", "show", "--json"], &[&file]).json(0), printed);
    let missing = printed["missing"][0].as_str().unwrap();
    assert!(printed["cores"][0]["causes"].is_null() && missing.contains("--no-trace"), "{missing}");
    let text = words(&["noise", "show"], &[&file]).out;
    for words in ["Noise of this machine", "Advice", "isolated cores", "not told"] {
        assert!(text.contains(words), "expected '{words}' in\n{text}");
    }
    let advice = printed["advice"].as_array().unwrap();
    let is_told = |one: &Value| one["found"].is_null() != one["unread"].is_null();
    assert!(advice.len() == 7 && advice.iter().all(is_told), "{advice:?}");
    let mut profile: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    profile["cores"][0]["count"] = json!(u64::MAX);
    let spoilt = site.path("spoilt.json");
    fs::write(&spoilt, profile.to_string()).unwrap();
    words(&["noise", "show"], &[&spoilt]).said(2, &["spoilt.json", "windows that do not add up of core"]);
    let mut profile: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let core = &mut profile["cores"][0];
    let one_more = json!(core["count"].as_u64().unwrap() + 1);
    core["causes"] = json!([{"class": "fault", "what": "page fault", "waited": null, "count": one_more,
        "lost_ticks": core["lost_ticks"], "explained_ticks": 0, "longest_ticks": 1}]);
    fs::write(&spoilt, profile.to_string()).unwrap();
    words(&["noise", "show"], &[&spoilt]).said(2, &["spoilt.json", "causes that do not add up of core"]);
    fs::write(&spoilt, "{}").unwrap();
    words(&["noise", "show"], &[&spoilt]).said(2, &["tickscope noise --out saved", "missing field"]);
    words(&["noise", "compare"], &[&file, &site.path("none.json")]).said(2, &["cannot read", "none.json"]);
}

/// Makes the profile one of ten equal windows, in which so much was lost.
fn even(profile: &mut Value, lost: i64) {
    let core = &mut profile["cores"][0];
    let mut window = core["sums"][0].clone();
    window["lost_ticks"] = json!([lost, lost]);
    window["lengths_ticks"] = json!([]);
    core["measured_ticks"] = json!(10 * window["measured_ticks"].as_i64().unwrap());
    let count: u64 = window["bands"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
    core["count"] = json!(10 * count);
    core["sums"] = json!(vec![window; 10]);
}

#[test]
fn e2e_what_differs_between_profiles_for_sure_is_a_change_and_ends_with_the_code_that_is_asked_for() {
    let site = Site::new("noise-compared");
    let (file, _) = saved(&site, &[]);
    let few = words(&["noise", "compare", "--json", "--fail-on", "unresolved"], &[&file, &file]);
    let figures = few.json(5)["figures"].as_array().unwrap().clone();
    assert!(
        figures.iter().all(|one| one["verdict"] == "not-resolved" && one["limited_by"] == "windows"),
        "{figures:?}"
    );
    let sides = [1_000_000, 3_000_000].map(|lost| {
        let mut profile: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        even(&mut profile, lost);
        let place = site.path(&format!("lost-{lost}.json"));
        fs::write(&place, profile.to_string()).unwrap();
        place
    });
    let [less, more] = &sides;
    let compared = words(&["noise", "compare", "--json"], &[less, more]).json(0);
    let figures = compared["figures"].as_array().unwrap();
    let lost = figures.iter().find(|one| one["figure"] == "lost").unwrap();
    assert!(
        lost["verdict"] == "changed" && lost["change"].as_i64() > Some(0) && lost["unit"] == "ns-a-second",
        "{lost}"
    );
    let others = figures.iter().filter(|one| one["figure"] == "detours");
    assert!(others.clone().count() == 1 && others.clone().all(|one| one["verdict"] == "not-changed"), "{compared}");
    words(&["noise", "compare", "--fail-on", "slower"], &[less, more]).said(4, &["slower: core", "lost"]);
    assert_eq!(words(&["noise", "compare", "--fail-on", "slower"], &[more, less]).code, Some(0));
    words(&["noise", "compare", "--fail-on", "changed"], &[more, less]).said(4, &["changed: core", "lost"]);
    assert_eq!(
        words(&["noise", "compare", "--fail-on", "changed", "--tolerance", "100%"], &[more, less]).code,
        Some(0)
    );
    words(&["noise", "compare", "--tolerance", "5us"], &[more, less]).said(2, &["expected a share such as 2%"]);
    let fleet = words(&["noise", "fleet", "--json"], &[less, more, less]).json(0);
    let odd = fleet["odd"].as_array().unwrap();
    assert!(odd.len() == 1 && odd[0]["profile"] == more.to_str().unwrap() && odd[0]["more"] == true, "{fleet}");
    assert_eq!(fleet["divided"], json!([]));
    let text = words(&["noise", "compare"], &[less, more]).out;
    assert!(text.contains("changed: core") && text.contains("lost"), "{text}");
}

#[test]
fn e2e_the_studys_tables_stand_beside_what_it_published_and_a_rule_is_tuned_saved_and_used_again() {
    let site = Site::new("noise-study");
    let (file, printed) = saved(&site, &["--detector", "fwq", "--memory", "16"]);
    assert!(printed["cores"][0]["traces"].is_null(), "they are in the file alone");
    let (rule, figures) = (site.path("rule.json"), site.path("figures"));
    let study = tickscope(&["noise", "study", "--save-rule"])
        .arg(&rule)
        .arg("--figures")
        .args([&figures, &file])
        .output()
        .unwrap();
    let text = Ended::from(study).out;
    for words in ["published", "25.35", "989.32", "0.34", "6.05", "as advised", "Tuned: p", "Exemplars"] {
        assert!(text.contains(words), "expected '{words}' in\n{text}");
    }
    for kind in ["svg", "pdf"] {
        let place = figures.join("noise-traces").with_extension(kind);
        assert!(fs::metadata(&place).unwrap().len() > 1_000, "{}", place.display());
    }
    let again = words(&["noise", "study", "--json", "--rule"], &[&rule, &file]).json(0);
    let kept: Value = serde_json::from_slice(&fs::read(&rule).unwrap()).unwrap();
    assert_eq!(again["tuned"], kept);
    let core = allowed_cpus().unwrap()[0].to_string();
    let survey =
        ["noise", "--json", "--seconds", "0.2", "--detector", "fwq", "--memory", "16", "--cores", &core, "--rule"];
    let shapes = words(&survey, &[&rule]).json(0)["cores"][0]["shapes"].clone();
    assert!(shapes.as_array().unwrap().iter().any(|shape| shape["rule"] == "tuned"), "{shapes}");
    fs::write(&rule, "{\"version\": 1}").unwrap();
    words(&["noise", "study", "--rule"], &[&rule, &file]).said(2, &["--save-rule saved", "rule.json"]);
    let (selfish, _) = saved(&site, &[]);
    words(&["noise", "study"], &[&selfish]).said(2, &["--detector fwq --out FILE"]);
}

//! `tickscope noise`: what each detector says of this machine hangs together. No figure is compared with a limit: that
//! is another machine's matter.

mod site;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use serde_json::Value;
use site::{Ended, few_or_all, tickscope};
use tickscope_host::affinity::allowed_cpus;

fn number(value: &Value, of: &str) -> i64 {
    value[of].as_i64().unwrap_or_else(|| panic!("expected a whole number {of}, found {value}"))
}

fn pair(value: &Value) -> [i64; 2] {
    [0, 1].map(|end| value[end].as_i64().unwrap_or_else(|| panic!("expected two numbers, found {value}")))
}

fn list<'a>(value: &'a Value, of: &str) -> &'a Vec<Value> {
    value[of].as_array().unwrap_or_else(|| panic!("expected a list {of}, found {value}"))
}

fn survey(detector: &str, more: &[&str]) -> Value {
    let seconds = few_or_all("0.5", "5");
    let words = [&["noise", "--json", "--seconds", seconds, "--detector", detector], more].concat();
    let profile = Ended::of(&mut tickscope(&words)).json(0);
    assert_eq!((&profile["version"], &profile["detector"]), (&1.into(), &detector.into()));
    profile
}

/// What holds of a core, whatever it was that disturbed it.
fn hangs_together(core: &Value) {
    let (limit, detours) = (&core["limit"], &core["detours"]);
    let [pass, width, threshold] = ["pass_ticks", "width_ticks", "threshold_ticks"].map(|name| number(limit, name));
    assert_eq!((threshold, number(core, "resolution_ticks")), (9 * pass + width - 1, threshold + width - 1), "{limit}");
    let bands = list(detours, "bands");
    assert_eq!(bands.iter().map(|band| number(band, "count")).sum::<i64>(), number(core, "count"));
    assert!(bands.iter().all(|band| number(band, "certain") <= number(band, "count")), "{detours}");
    let lost = [0, 1].map(|end| bands.iter().map(|band| pair(&band["lost_ticks"])[end]).sum::<i64>());
    assert_eq!(lost, pair(&core["lost_ticks"]));
    let share = [0, 1].map(|end| core["lost_share"][end].as_f64().unwrap());
    let measured = number(core, "measured_ticks") as f64;
    assert!(share[0] * measured <= lost[0] as f64 && share[1] * measured >= lost[1] as f64, "{share:?} of {core}");
    assert!(lost[0] <= lost[1] && lost[0] as f64 <= measured && number(core, "windows") > 0);
    let lengths: Vec<i64> =
        list(detours, "longest").iter().map(|detour| number(detour, "after") - number(detour, "before")).collect();
    assert!(lengths.iter().all(|&length| length > threshold) && lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
    assert_eq!(lengths.is_empty(), number(core, "count") == 0);
    if let Some(causes) = core["causes"].as_array() {
        assert_eq!(causes.iter().map(|cause| number(cause, "count")).sum::<i64>(), number(core, "count"));
        assert_eq!([0, 1].map(|end| causes.iter().map(|cause| pair(&cause["lost_ticks"])[end]).sum::<i64>()), lost);
        let named: BTreeSet<_> =
            causes.iter().map(|cause| ["class", "what", "waited"].map(|of| cause[of].to_string())).collect();
        assert_eq!(named.len(), causes.len(), "each cause is there once");
        let explained = |cause: &Value| number(cause, "explained_ticks") <= pair(&cause["lost_ticks"])[1];
        assert!(causes.iter().all(explained), "{causes:?}");
    }
    for shape in list(core, "shapes") {
        assert_eq!(shape["why"].is_string(), number(shape, "abstained") > 0, "{shape}");
        assert!(number(shape, "removed") < number(shape, "of").max(1), "{shape}");
    }
}

fn cores(profile: &Value) -> Vec<i64> {
    list(profile, "cores").iter().map(|core| number(core, "core")).collect()
}

#[test]
fn e2e_each_detector_says_of_all_cores_what_they_lost_and_all_parts_add_up() {
    let allowed: Vec<i64> = allowed_cpus().unwrap().into_iter().map(|core| core as i64).collect();
    for detector in ["selfish", "ftq"] {
        let profile = survey(detector, &[]);
        assert_eq!(cores(&profile), allowed);
        for core in list(&profile, "cores") {
            hangs_together(core);
            assert_eq!(
                core["causes"].is_null(),
                list(&profile, "missing")
                    .iter()
                    .any(|why| { why.as_str().unwrap().starts_with("causes are not told") })
            );
            assert_eq!(core["work"].is_object(), detector == "ftq", "{core}");
            assert!(detector == "selfish" || number(&core["work"], "quanta") > 0, "{core}");
        }
    }
}

#[test]
fn e2e_fixed_work_has_every_difference_of_each_trace_and_each_use_of_memory() {
    let core = allowed_cpus().unwrap()[0].to_string();
    let profile = survey("fwq", &["--cores", &core, "--memory", "16", "67"]);
    let memory: Vec<&Value> = list(&profile, "cores").iter().map(|core| &core["memory_bytes"]).collect();
    assert_eq!(memory, [&Value::Null, &16.into(), &67.into()]);
    for core in list(&profile, "cores") {
        hangs_together(core);
        let raw = &list(core, "shapes")[0];
        assert_eq!((&raw["rule"], number(raw, "removed")), (&"raw".into(), 0));
        assert_eq!(
            (number(raw, "traces"), number(raw, "of")),
            (number(core, "windows"), number(core, "windows") * 10_000)
        );
    }
    let text = Ended::of(&mut tickscope(&["noise", "--seconds", "0.1", "--detector", "fwq", "--cores", &core]));
    for words in ["fixed work quantum", "blocks of 4099 bytes", "Detours by length", "gap-or-tail", "ipad", "25.35"] {
        assert!(text.out.contains(words), "expected '{words}' in\n{}", text.out);
    }
}

#[test]
fn e2e_without_rights_less_is_told_and_what_it_takes_to_know_more() {
    const NOBODY: u32 = 65_534;
    let mut command = tickscope(&["noise", "--json", "--seconds", "0.2"]);
    // SAFETY: takes no arguments.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    let Ok(ended) = command.stdin(Stdio::null()).output() else {
        return println!("not tried: nobody may not run {}", env!("CARGO_BIN_EXE_tickscope"));
    };
    let profile = Ended::from(ended).json(0);
    let missing = list(&profile, "missing")[0].as_str().unwrap();
    for words in ["causes are not told", "/sys/kernel/tracing", "root's rights"] {
        assert!(missing.contains(words), "expected '{words}' in {missing}");
    }
    for core in list(&profile, "cores") {
        hangs_together(core);
        assert!(core["causes"].is_null() && core["counts"]["preempted"].is_i64(), "{core}");
    }
}

#[test]
fn e2e_one_that_is_interrupted_says_what_it_found_until_then() {
    let mut command = tickscope(&["noise", "--json", "--seconds", "1000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("noise:") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it ended");
    }
    // SAFETY: takes numbers; the child was not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let profile = Ended::from(child.wait_with_output().unwrap()).json(0);
    list(&profile, "cores").iter().for_each(hangs_together);
    assert_eq!(cores(&profile).len(), allowed_cpus().unwrap().len());
}

//! Runs beside a busy neighbour on the target's core, with and without `[noise]`.

mod site;

use serde_json::Value;
use site::{Ended, Experiment, Site, cannot_record_noise, few_or_all, noise, tickscope, udp_echo};
use tickscope_host::trace_instance::left;
use tickscope_store::{NoiseClass, NoiseRow};

/// The demo's kind, with the server and a neighbour that never sleeps on core 0, and the client on core 1: whenever the
/// server waits, the neighbour has its core.
fn text(seconds: f64, more: &str) -> String {
    let mut text = Experiment { probes_hz: 0, ..Experiment::new(seconds, 200) }.text();
    for (core, role) in [(0, "server"), (1, "client")] {
        let command = format!("command = [\"{}\", \"{role}\"", udp_echo().display());
        assert!(text.contains(&command));
        let pinned = command.replace("[", &format!("[\"taskset\", \"-c\", \"{core}\", "));
        text = text.replace(&command, &pinned);
    }
    let busy = "[[node]]\nname = \"busy\"\ncommand = [\"taskset\", \"-c\", \"0\", \"sh\", \"-c\", \
                \"printf noisy-one > /proc/$$/comm; while :; do :; done\"]\n";
    let text = text.replace("same_boot = \"ignore\"", "same_boot = \"detect\"");
    format!("{}{more}\n", text.replacen("[[node]]", &format!("{busy}[[node]]"), 1))
}

#[test]
fn e2e_with_switches_alone_tasks_are_neighbours_and_what_is_not_recorded_is_told() {
    if cannot_record_noise() {
        return;
    }
    let site = Site::new("noise-switches");
    let more = "[noise]\nevents = \"switches\"";
    let table = Ended::of(&mut site.run_command(&text(few_or_all(1.0, 5.0), more))).json(0);
    assert!(site.events("noise-missing")[0].text.contains("asks for switches alone"));
    let stages = table["noise"].as_array().unwrap();
    let neighbours: Vec<&Value> = stages.iter().flat_map(|one| one["neighbours"].as_array().unwrap()).collect();
    assert!(!neighbours.is_empty() && neighbours.iter().all(|one| one["class"] == "task"), "{neighbours:?}");
}

#[test]
fn e2e_a_busy_neighbour_on_the_targets_core_is_named_and_all_figures_stay() {
    if cannot_record_noise() {
        return;
    }
    let site = Site::new("noise");
    let table = Ended::of(&mut site.run_command(&text(few_or_all(2.0, 10.0), "[noise]"))).json(0);
    // Some virtual machines' kernels trace no switch away from certain tasks, which their count has.
    let missing = site.events("noise-missing");
    assert!(missing.iter().all(|event| event.text.contains("switches that its trace does not show")), "{missing:?}");
    let stage = noise(&table, "client.send>server.received");
    // However busy the machine is: the neighbour has the server's core whenever nobody else has.
    let neighbours = stage["neighbours"].as_array().unwrap();
    let named = neighbours.iter().find(|one| one["name"] == "noisy-one").unwrap_or_else(|| panic!("{stage:#}"));
    assert!(named["class"] == "task" && named["disturbed"].as_u64() > Some(0), "{stage:#}");
    assert!(named["ticks"].as_i64() > Some(0), "{stage:#}");
    for one in neighbours {
        let [disturbed, held_up] = ["disturbed", "held_up"].map(|of| one[of].as_u64().unwrap());
        let [ticks, held_up_ticks] = ["ticks", "held_up_ticks"].map(|of| one[of].as_i64().unwrap());
        assert!(held_up <= disturbed && held_up_ticks <= ticks && (held_up > 0) == (held_up_ticks > 0), "{one}");
    }
    for one in table["noise"].as_array().unwrap() {
        let name = one["stage"].as_str().unwrap();
        let parts = ["undisturbed", "disturbed", "unknown"].map(|part| one[part].as_u64().unwrap());
        assert_eq!(parts.iter().sum::<u64>(), site::count(&table, name), "each duration is in one: {one:#}");
    }
    let whole = noise(&table, "end-to-end");
    // Messages that were under way when it ended have the stage alone.
    let [wholes, stages] = ["end-to-end", "client.send>server.received"].map(|name| site::count(&table, name));
    let [of_wholes, of_stages] = [whole, stage].map(|of| of["disturbed"].as_u64().unwrap());
    let lacking = stages.saturating_sub(wholes);
    assert!(of_wholes + lacking >= of_stages, "a whole has what its stages have, but for {lacking}: {whole:#}");
    slow_traces_are_a_part(&site, &table);
    let recorded: Vec<NoiseRow> = site.opened().noise("busy").unwrap().found.rows().collect();
    let is_lost = |row: &NoiseRow| row.class == NoiseClass::Lost && row.what.contains("not understood");
    assert!(!recorded.is_empty());
    assert_eq!(recorded.iter().find(|row| is_lost(row)), None, "all that the kernel traced is understood");
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    // Who took most of a busy machine is for the machine to say.
    let most = neighbours[0]["name"].as_str().unwrap();
    for words in ["with and without noise", "all traces", "undisturbed", "most: ", most] {
        assert!(shown.out.contains(words), "expected '{words}' in\n{}", shown.out);
    }
    let page = Ended::of(tickscope(&["report", "--out", "-"]).arg(site.run_directory())).out;
    for words in [
        "With and without noise",
        "undisturbed",
        "disturbed ",
        "waited for it",
        &format!("{} {most} took ", neighbours[0]["class"].as_str().unwrap()),
    ] {
        assert!(page.contains(words), "expected '{words}' on the page");
    }
    assert_eq!(left(), Vec::<std::path::PathBuf>::new(), "the kernel's trace of the run is gone");
}

/// What disturbed the slow traces is told of each of them, in one stage no more of than of all.
fn slow_traces_are_a_part(site: &Site, table: &Value) {
    let tail = || tickscope(&["tail", "--slowest", "20"]);
    let told = Ended::of(tail().arg(site.run_directory()).arg("--json")).json(0);
    let slow = told["tail"]["slow"].as_u64().unwrap();
    let whole = told["disturbed"].as_array().unwrap().iter().find(|one| one["stage"] == "end-to-end").unwrap();
    let part = |of: &Value| ["undisturbed", "disturbed", "unknown"].map(|part| of[part].as_u64().unwrap());
    assert!(slow > 0 && part(whole).iter().sum::<u64>() == slow, "{slow} are slow: {whole:#}");
    let of_all = part(noise(table, "end-to-end"));
    assert!(part(whole).iter().zip(of_all).all(|(slow, all)| *slow <= all), "{whole:#}, of all {of_all:?}");
    let text = Ended::of(tail().arg(site.run_directory())).out;
    let line = format!("end-to-end: disturbed {}", part(whole)[1]);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("What else had the cores of the slow traces:") && flat.contains(&line), "{text}");
    let means = told["tail"]["stages"].as_array().unwrap().iter().map(|stage| stage["mean_ticks"].as_f64().unwrap());
    let lasted = means.sum::<f64>() * slow as f64;
    if let Some(most) = whole["neighbours"].as_array().unwrap().first().filter(|most| most["class"] != "pause") {
        let share = format!("(some {:.0} %)", 100.0 * most["ticks"].as_f64().unwrap() / lasted);
        let of_whole = &flat[flat.find(&line).unwrap()..];
        assert!(of_whole.contains(&share), "{share} of {most} in {of_whole}");
    }
}

#[test]
fn e2e_without_the_section_nothing_is_recorded_and_nothing_is_shown() {
    let site = Site::new("no-noise");
    let table = site.run(&Experiment { probes_hz: 0, ..Experiment::new(0.5, 200) }).json(0);
    assert_eq!(table["noise"], Value::Array(vec![]));
    assert!(!site.run_directory().join("noise").exists());
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    assert!(!shown.out.contains("noise"), "{}", shown.out);
}

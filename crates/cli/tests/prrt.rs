//! The transport PRRT through all its layers: its run file, its figures, and both other layouts.

mod site;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use site::{Ended, Site, cannot_record_noise, count, free_port, noise, stage, tickscope, truth};

const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The target, built where the command was.
fn prrt() -> String {
    let command = Path::new(env!("CARGO_BIN_EXE_tickscope"));
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "-p", "tickscope-prrt", "--bin", "prrt"])
        .args(if command.parent().unwrap().ends_with("release") { &["--release"][..] } else { &[] })
        .current_dir(TREE)
        .status();
    assert!(built.unwrap().success(), "targets/prrt is built");
    command.with_file_name("prrt").display().to_string()
}

/// A run file over loopback, two seconds long, with a deadline that no pause of a machine passes.
fn run_file(name: &str) -> String {
    let (port, probe_port) = (free_port(), free_port());
    let replaced = [
        ("../target/release/prrt", prrt()),
        ("\"7400\"", format!("\"{port}\"")),
        ("ready = 7400", format!("ready = {port}")),
        ("kind = \"auto\"", "kind = \"loopback\"".into()),
        ("seconds = 10", "seconds = 2".into()),
        ("\"1000\"", "\"500\"".into()),
        ("\"--deadline-ms\", \"50\"", "\"--deadline-ms\", \"3000\"".into()),
        ("rho = 1", format!("rho = 1\nprobe_port = {probe_port}")),
    ];
    let text = std::fs::read_to_string(format!("{TREE}/experiments/{name}.toml")).unwrap();
    replaced.into_iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "experiments/{name}.toml lacks {from}");
        text.replace(from, &to)
    })
}

/// Report that an end printed.
fn said(site: &Site, role: &str) -> Value {
    let mut texts = site.events("target").into_iter().map(|event| event.text);
    let line = texts.find(|text| text.contains(&format!("\"role\":\"{role}\"")));
    let line = line.unwrap_or_else(|| panic!("the {role} printed its counts"));
    serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap()
}

fn counted(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap_or_else(|| panic!("{name} of {counts}"))
}

#[test]
fn e2e_every_payload_of_prrt_has_its_trace_whether_it_came_or_was_recovered() {
    let site = Site::new("prrt");
    let table = Ended::of(&mut site.run_command(&run_file("prrt"))).json(0);
    let (known, inside) = truth(&table);
    assert!(known > 0 && known == inside, "{inside} of {known}");
    let [sender, receiver] = ["sender", "receiver"].map(|role| said(&site, role));
    assert_eq!(count(&table, "sender.send>sender.submitted"), counted(&sender, "submitted"));
    // The table is of payloads alone, and says what it leaves out; another layout has parity.
    assert_eq!(count(&table, "sender.link-send>receiver.link-receive"), counted(&receiver, "sources"));
    let sent = stage(&table, "sender.link-send>receiver.link-receive");
    assert_eq!(sent["missing"], counted(&sender, "sources") - counted(&receiver, "sources"), "{sent}");
    let left_out = site.events("kinds-left-out");
    let at = |place: &str| left_out.iter().find(|event| event.text.contains(place)).and_then(|event| event.value);
    assert_eq!(at("sender.link-send"), Some(counted(&sender, "parity") as i64), "{left_out:?}");
    for stage in table["stages"].as_array().unwrap() {
        assert_eq!((stage["impossible"].as_u64(), stage["refused"].as_u64()), (Some(0), Some(0)), "{stage}");
    }

    // By the other layout a recovered payload is whole, and those of a block meet where it is decoded.
    let by = |layout: &str| site.show(&["--layout", &format!("{TREE}/targets/prrt/{layout}.toml")]).json(0);
    let recovered = counted(&receiver, "delivered_recovered");
    assert!(recovered > 0, "{receiver}");
    let parity = by("parity");
    assert_eq!(count(&parity, "sender.link-send>receiver.link-receive"), counted(&receiver, "parity"));
    let both = by("recovered");
    assert_eq!(count(&both, "sender.link-send>receiver.recovered"), recovered);
    assert_eq!(count(&both, "end-to-end"), counted(&receiver, "delivered"));
    // And alone, for `tail` to have traces with every stage.
    let alone = format!("{TREE}/targets/prrt/recovery.toml");
    assert_eq!(count(&by("recovery"), "receiver.recovered>receiver.hand-over"), recovered);
    let tail = Ended::of(tickscope(&["tail", "--layout", &alone]).arg(site.run_directory())).out;
    assert!(tail.contains("receiver.recovered") && !tail.contains("no trace has every stage"), "{tail}");
    let decoded = by("blocks");
    let waited = stage(&decoded, "receiver.link-receive>receiver.decode-start");
    assert!(waited["p50"]["hi_ticks"].as_i64().unwrap() >= 0 && waited["refused"] == 0, "{waited}");

    let drawn = site.path("drawn");
    Ended::of(tickscope(&["figures", "--json"]).arg(site.run_directory()).arg("--out").arg(&drawn)).json(0);
    for figure in ["trace", "jitter", "causes", "correlation"] {
        assert!(drawn.join(format!("{figure}.pdf")).is_file(), "{figure}");
    }
}

#[test]
fn e2e_the_way_between_prrts_sockets_has_the_kernels_stages_of_each_payload() {
    let site = Site::new("prrt-kernel");
    let table = Ended::of(&mut site.run_command(&run_file("prrt-kernel"))).json(0);
    let (known, inside) = truth(&table);
    assert!(known > 0 && known == inside, "{inside} of {known}");
    let [sender, receiver] = ["sender", "receiver"].map(|role| said(&site, role));
    // Every packet has the kernel's stamp, or had it too early to be trusted; what is of no payload is another kind.
    let stamps = |counts: &Value| ["stamped", "missing", "discarded"].map(|name| counted(&counts["kernel"], name));
    let ([sent, sent_missing, sent_early], [came, came_missing, came_early]) = (stamps(&sender), stamps(&receiver));
    assert_eq!((sent_missing, came_missing), (0, 0), "{sender} {receiver}");
    assert_eq!(sent + sent_early, counted(&sender, "sources") + counted(&sender, "parity"), "{sender}");
    assert_eq!(came + came_early, counted(&receiver, "sources") + counted(&receiver, "parity"), "{receiver}");
    let left_out = |place: &str| {
        let events = site.events("kinds-left-out");
        events.iter().find(|event| event.text.contains(place)).and_then(|event| event.value).unwrap_or(0) as u64
    };
    assert!(left_out("sender.tx") > 0 && left_out("receiver.rx") > 0);
    let below = ["sender.link-send>sender.tx", "sender.tx>receiver.rx", "receiver.rx>receiver.link-receive"];
    assert_eq!(count(&table, below[0]), sent - left_out("sender.tx"), "payloads whose send the kernel stamped");
    assert_eq!(count(&table, below[2]), came - left_out("receiver.rx"), "payloads whose arrival the kernel stamped");
    for stage in table["stages"].as_array().unwrap() {
        assert_eq!((stage["impossible"].as_u64(), stage["refused"].as_u64()), (Some(0), Some(0)), "{stage}");
    }

    // Of one trace application, transport and kernel, whose parts add up to it.
    let rows = Ended::of(tickscope(&["export", "--csv", "-"]).arg(site.run_directory())).out;
    let mut traces: BTreeMap<&str, Vec<(&str, i64, i64)>> = BTreeMap::new();
    for row in rows.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let ticks = |at: usize| cells[at].parse::<i64>().unwrap();
        if cells[4] == "measured" {
            traces.entry(cells[1]).or_default().push((cells[3], ticks(6), ticks(7)));
        }
    }
    traces.retain(|_, stages| stages.len() == table["stages"].as_array().unwrap().len());
    assert!(traces.len() > 500, "{} of {came} payloads", traces.len());
    for (id, stages) in traces {
        let (whole, parts): (Vec<_>, Vec<_>) = stages.into_iter().partition(|(stage, ..)| *stage == "end-to-end");
        let path: Vec<_> = parts.iter().filter(|(stage, ..)| *stage != "sender.link-send>sender.link-sent").collect();
        let (lo, hi): (i64, i64) = (path.iter().map(|part| part.1).sum(), path.iter().map(|part| part.2).sum());
        assert!(below.iter().all(|stage| path.iter().any(|part| part.0 == *stage)), "{id}: {path:?}");
        assert!(lo <= whole[0].2 && whole[0].1 <= hi, "{id}: {whole:?} is not the sum of {path:?}");
    }
}

#[test]
fn e2e_who_had_the_cores_of_prrts_slow_payloads_is_named_by_every_layout() {
    if cannot_record_noise() {
        return;
    }
    // A neighbour that never sleeps on the receiver's core: whenever the receiver waits, it has it.
    let busy = "[[node]]\nname = \"busy\"\ncommand = [\"taskset\", \"-c\", \"0\", \"sh\", \"-c\", \
                \"printf noisy-one > /proc/$$/comm; while :; do :; done\"]\n";
    let program = format!("\"{}\", ", prrt());
    let pinned = |text: String, core: u32, role: &str| {
        let command = format!("{program}\"{role}\"");
        assert!(text.contains(&command), "{text}");
        text.replace(&command, &format!("\"taskset\", \"-c\", \"{core}\", {command}"))
    };
    let text = pinned(pinned(run_file("prrt-noise"), 0, "receiver"), 1, "sender");
    let site = Site::new("prrt-noise");
    let table = Ended::of(&mut site.run_command(&text.replacen("[[node]]", &format!("{busy}[[node]]"), 1))).json(0);
    let by = |layout: &str| site.show(&["--layout", &format!("{TREE}/targets/prrt/{layout}.toml")]).json(0);
    for (table, name) in [
        (&table, "sender.link-send>receiver.link-receive"),
        (&by("recovered"), "sender.link-send>receiver.recovered"),
        (&by("blocks"), "receiver.link-receive>receiver.decode-start"),
        (&by("parity"), "sender.link-send>receiver.link-receive"),
    ] {
        let of = noise(table, name);
        let parts = ["undisturbed", "disturbed", "unknown"].map(|part| of[part].as_u64().unwrap());
        assert_eq!(parts.iter().sum::<u64>(), count(table, name), "each duration is in one: {of:#}");
        let mut neighbours = of["neighbours"].as_array().unwrap().iter();
        let named = neighbours.find(|one| one["name"] == "noisy-one").unwrap_or_else(|| panic!("{of:#}"));
        assert!(named["disturbed"].as_u64() > Some(0), "{named}");
    }
    let tail = Ended::of(tickscope(&["tail", "--json"]).arg(site.run_directory())).json(0);
    let whole = tail["disturbed"].as_array().unwrap().iter().find(|one| one["stage"] == "end-to-end").unwrap();
    assert!(whole["neighbours"].as_array().unwrap().iter().any(|one| one["name"] == "noisy-one"), "{whole:#}");
}

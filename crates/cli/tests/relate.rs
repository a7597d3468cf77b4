//! `tickscope relate`: machines that stamp nothing, each a network namespace with a counter of its own. Every pair is
//! bounded, the truth lies inside, and what one pair lacks takes nothing from the others.

mod site;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use site::{Ended, Site, few_or_all, free_port, tickscope, within};
use tickscope_experiment::may_make_namespaces;
use tickscope_store::{BracketColumns, BracketRow, Pair, Run};

/// A run file of so many machines without a program.
fn machines(nodes: usize, seconds: f64) -> String {
    let mut text = format!(
        "run = {{ name = \"machines\", seconds = {seconds:?}, pool_bytes = 4194304 }}\n\
         network.kind = \"namespaces\"\n[clock]\nreference = \"n0\"\nrho = \"lab\"\nsame_boot = \"ignore\"\n\
         probe_share = 0.02\nprobe_port = {}\n",
        free_port()
    );
    for node in 0..nodes {
        let _ = write!(
            text,
            "[[node]]\nname = \"n{node}\"\ninject = {{ offset = {}, drift_ppb = {}, wander_ppb = 0, wander_period = \
             1000000000 }}\n",
            node * 1_000_000,
            500 * node
        );
    }
    text
}

fn related(site: &Site, text: &str) -> Ended {
    let file = site.path("machines.toml");
    fs::write(&file, text).unwrap();
    Ended::of(tickscope(&["relate", "--json"]).arg(&file).arg("--out").arg(site.run_directory()))
}

fn pair<'a>(table: &'a Value, one: &str, other: &str) -> &'a Value {
    let is = |pair: &&Value| {
        let ends = [&pair["domain"], &pair["reference"]].map(|end| end.as_str().unwrap().split('.').next().unwrap());
        ends == [one, other] || ends == [other, one]
    };
    table["pairs"].as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {one} and {other}"))
}

/// Every pair has a bound by all evidence that holds the truth, and none is wider than its own exchanges make it.
fn expect_bounded(table: &Value, nodes: usize) {
    let pairs = table["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), nodes * (nodes - 1) / 2);
    for pair in pairs {
        let [direct, closed] = [&pair["direct"], &pair["closed"]];
        assert_eq!((&closed["outside"], &pair["state"]), (&json!(0), &json!("related")), "{pair}");
        let median = |known: &Value| known["half_width"]["median_ns"].as_i64();
        assert!(median(closed) > Some(0) && (direct.is_null() || median(closed) <= median(direct)), "{pair}");
        assert!(closed["curve"].as_array().unwrap().len() > 1, "{pair}");
        let trips = pair["round_trips"].as_array().unwrap();
        assert_eq!((trips.len(), &trips[0]["from"]), (2, &trips[1]["to"]));
        assert!(trips.iter().flat_map(|trip| trip["shortest_ns"].as_array().unwrap()).any(|ns| ns.as_i64() > Some(0)));
    }
    assert_eq!(table["findings"], json!([]));
    let rivals = table["rivals"].as_array().unwrap();
    assert_eq!(rivals.len(), pairs.len());
    rivals.iter().for_each(expect_table_ii);
}

/// Table II from the pair's own e, D and d, computed once more, and intervals of ours that hold the truth.
fn expect_table_ii(of: &Value) {
    let published = &of["published"];
    let [e, apart] = ["e_ns", "apart_ns"].map(|key| published[key].as_f64().unwrap());
    let rows = published["rows"].as_array().unwrap();
    let against_reference = of["reference"] == "n0.tsc";
    assert!(rows.len() >= 2 && e > 0.0, "{of}");
    for row in rows {
        let [d, size] = ["duration_ns", "published_ns"].map(|key| row[key].as_f64().unwrap());
        assert_eq!(row["outside_guaranteed"], 0, "{row}");
        assert!(row["durations"].as_u64() > Some(0) && row["error_ns"][0].as_i64() > Some(-1), "{row}");
        let case = row["case"].as_str().unwrap();
        match case {
            // Both e and D are rounded up, the size to a tick of a quarter of a ns or more.
            "scenario-1" => assert!((size - 2.0 * d / apart * e).abs() <= 3.0, "{row} {published}"),
            "scenario-2" => assert!((size - e).abs() <= 2.0, "{row} {published}"),
            // Its 2 d/D e is of the other pair, and r differs from 1 by millionths.
            "scenario-3" => assert!(size > 0.99 * e, "{row} {published}"),
            _ => assert_eq!(case, "baseline"),
        }
        assert_eq!(["scenario-1", "scenario-2"].contains(&case), against_reference, "{of}");
    }
}

#[test]
fn e2e_machines_without_a_program_are_related_in_one_table_and_one_page() {
    if let Err(why) = may_make_namespaces() {
        return println!("not tried: namespaces need rights: {why}");
    }
    let (nodes, seconds) = few_or_all((4, 1.0), (30, 6.0));
    let site = Site::new("relate");
    let table = related(&site, &machines(nodes, seconds)).json(0);
    expect_bounded(&table, nodes);
    let page = fs::read_to_string(site.run_directory().join("report.html")).unwrap();
    assert!(page.len() < 2_000_000 && page.contains("How well each pair is known"), "{} bytes", page.len());
    for word in ["n2 and n1", "by all, median", "Over time"] {
        assert!(page.contains(word), "{word}");
    }
    let drawn = Ended::of(tickscope(&["figures", "--json"]).arg(site.run_directory()).arg("--out").arg(site.path("f")));
    let names = ["clock-intervals", "clock-errors", "clock-bounds"].map(|name| format!("{name}.svg"));
    assert!(drawn.json(0)["files"].as_array().unwrap().len() == 6, "as SVG and as PDF");
    names.iter().for_each(|name| assert!(site.path("f").join(name).is_file(), "{name}"));
    // Shown again, as any run; and what a pair lacks is said of it, while the others stand.
    let shown = site.show(&[]).json(0);
    assert_eq!(shown["pairs"], table["pairs"]);
    without_exchanges(&site, nodes);
    one_way(&site);
    lying(&site);
}

#[test]
fn e2e_machines_that_read_one_counter_have_a_sentence_and_no_head_of_a_table_without_rows() {
    let site = Site::new("relate-one");
    let text = format!(
        "run = {{ name = \"one\", seconds = 0.2 }}\nclock.reference = \"a\"\nclock.probe_port = {}\n\
         [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n",
        free_port()
    );
    assert_eq!(related(&site, &text).json(0)["pairs"], json!([]));
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    assert!(shown.code == Some(0) && shown.out.contains("All nodes read one counter"), "{shown:?}");
    assert!(["How well each pair", "by itself, median"].iter().all(|head| !shown.out.contains(head)), "{shown:?}");
}

/// Brackets of two nodes.
fn evidence(run: &Run, one: &str, other: &str) -> Pair {
    let is = |pair: &Pair| {
        let ends = [&pair.reference, &pair.domain].map(|label| label.node.as_str());
        ends == [one, other] || ends == [other, one]
    };
    run.pairs().unwrap().found.into_iter().find(is).unwrap()
}

/// The same run, had its evidence of two nodes been what `told` makes of it, and no kernel stamped a probe.
fn with_evidence(site: &Site, name: &str, pair: [&str; 2], told: impl Fn(BracketRow) -> Option<BracketRow>) -> Ended {
    let place = site.path(name);
    copied(&site.run_directory(), &place);
    let _ = fs::remove_dir_all(place.join("stamps"));
    let _ = fs::remove_dir_all(place.join("channels"));
    let run = Run::open(&place).unwrap();
    let pair = evidence(&run, pair[0], pair[1]);
    let old = run.brackets(&pair).unwrap().found;
    let mut new = BracketColumns::default();
    let rows = old.before.iter().zip(old.after.iter()).zip(old.exchange.iter()).enumerate();
    for (row, ((before, after), exchange)) in rows {
        let [before, after, exchange] = [before, after, exchange].map(|tick| tick.copied());
        let (at, source, ordering) = (old.at[row], old.source[row].clone(), old.ordering[row].clone());
        told(BracketRow { before, at, after, source, ordering, exchange })
            .into_iter()
            .for_each(|row| new.push_row(row));
    }
    let folder = run.paths().brackets(&pair);
    fs::read_dir(&folder).unwrap().for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
    if !new.is_empty() {
        run.add_brackets(&pair, "made", &new).unwrap();
    }
    run.write_digests().unwrap();
    Ended::of(tickscope(&["show", "--json"]).arg(&place))
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copied(&entry.path(), &place),
            false => _ = fs::copy(entry.path(), place).unwrap(),
        }
    }
}

fn table(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

fn without_exchanges(site: &Site, nodes: usize) {
    let ended = with_evidence(site, "silent", ["n1", "n2"], |_| None);
    let table = table(&ended);
    let silent = pair(&table, "n1", "n2");
    assert_eq!((&silent["state"], &silent["direct"]), (&json!("no-exchange"), &Value::Null));
    assert!(silent["reason"].as_str().unwrap().contains("nothing arrived between"), "{silent}");
    assert_eq!(silent["closed"]["outside"], 0, "known by way of others: {silent}");
    assert_eq!(pair(&table, "n1", "n0")["state"], "related");
    assert_eq!(table["pairs"].as_array().unwrap().len(), nodes * (nodes - 1) / 2);
}

fn one_way(site: &Site) {
    // Only the answerer heard of the other.
    let there = |row: BracketRow| row.before.is_some().then_some(BracketRow { after: None, ..row });
    let table = table(&with_evidence(site, "one-way", ["n1", "n2"], there));
    let told = pair(&table, "n1", "n2");
    assert_eq!((&told["state"], &told["direct"]), (&json!("one-way"), &Value::Null));
    let Pair { reference, domain } = evidence(&site.opened(), "n1", "n2");
    let said = format!("packets of {} reach {}, none comes back", reference.node, domain.node);
    assert!(told["reason"].as_str().unwrap().contains(&said), "{said}: {told}");
    assert_eq!(told["closed"]["outside"], 0, "{told}");
}

fn lying(site: &Site) {
    // n1 and n2 tell each other other times than all others, by a hundredth of a second: each pair by itself agrees.
    let late = |row: BracketRow| Some(BracketRow { at: row.at + 30_000_000, ..row });
    let ended = with_evidence(site, "lies", ["n1", "n2"], late);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let table = table(&ended);
    assert!(table["findings"][0].as_str().unwrap().contains("found a contradiction between"), "{table}");
    let told = pair(&table, "n1", "n2");
    assert_eq!(told["state"], "contradicted");
    assert!(!told["direct"].is_null() && ended.err.contains("contradiction"), "{told}");
    // Three pairs at least contradict each other, and none of them is believed more than the others.
    let reasons = table["pairs"].as_array().unwrap().iter().map(|pair| &pair["reason"]);
    assert!(reasons.filter(|&reason| *reason == told["reason"]).count() >= 3, "{table}");
    // One of the two is wrong, or what they say of each other: neither is believed of anybody; the others stand.
    for (one, other) in [("n1", "n2"), ("n1", "n0"), ("n2", "n0"), ("n1", "n3"), ("n2", "n3")] {
        let told = pair(&table, one, other);
        assert_eq!((&told["state"], &told["closed"]), (&json!("contradicted"), &Value::Null), "{told}");
    }
    let stands = pair(&table, "n3", "n0");
    assert_eq!((&stands["closed"]["outside"], &stands["state"]), (&json!(0), &json!("related")));
}

#[test]
fn e2e_a_machine_that_goes_and_one_heard_one_way_have_no_end_of_the_run_while_the_others_stand() {
    if let Err(why) = may_make_namespaces() {
        return println!("not tried: namespaces need rights: {why}");
    }
    let site = Site::new("relate-cut");
    let file = site.path("machines.toml");
    fs::write(&file, machines(4, 600.0)).unwrap();
    let begun = Instant::now();
    let mut relate = tickscope(&["relate", "--json"]);
    relate.arg(&file).arg("--out").arg(site.run_directory()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let relate = relate.spawn().unwrap();
    let run = within("evidence of every pair", || {
        let run = Run::open(&site.run_directory()).ok()?;
        let pairs = run.pairs().ok()?.found;
        let machines = pairs.iter().filter(|pair| pair.reference.node != pair.domain.node);
        let known = machines.filter(|pair| run.brackets(pair).is_ok_and(|found| !found.found.is_empty()));
        (known.count() == 6).then_some(run)
    });
    let space = |node: &str| format!("tickscope-{:06x}-{node}", run.manifest().run & 0xff_ffff);
    ip(&["-n", &space("n3"), "link", "set", "veth0", "down"]);
    // What the one that answers sends to the one that asks goes to nobody's address.
    let Pair { reference, domain } = evidence(&run, "n1", "n2");
    let asks = ip(&["-n", &space(reference.node.as_str()), "-o", "-4", "addr", "show", "dev", "veth0"]);
    let address = asks.split_whitespace().nth(3).unwrap().split('/').next().unwrap();
    let nobody = ["neigh", "replace", address, "lladdr", "02:00:00:00:00:01", "dev", "veth0"];
    ip(&[&["-n", &space(domain.node.as_str())][..], &nobody].concat());
    // Silent for longer than 3 s and twice its longest pause, which was no longer than all the time until here.
    let (before, cut) = (begun.elapsed(), Instant::now());
    within("a silence that no pause explains", || {
        (cut.elapsed().as_secs_f64() > 2.0 * before.as_secs_f64() + 4.0).then_some(())
    });
    // SAFETY: only sends a signal, to a child that was not waited for.
    unsafe { libc::kill(relate.id() as i32, libc::SIGINT) };
    let ended = Ended::from(relate.wait_with_output().unwrap());
    ended.said(1, &["n3"]);
    expect_cut(&table(&ended), [reference.node.as_str(), domain.node.as_str()]);
}

#[test]
fn e2e_a_machine_that_nobody_reaches_and_one_whose_counter_lies_take_nothing_from_the_others() {
    if let Err(why) = may_make_namespaces() {
        return println!("not tried: namespaces need rights: {why}");
    }
    let site = Site::new("relate-lies");
    // n2's probe listens where no other namespace sends; n3's counter wanders by milliseconds, beyond any width here.
    let text = machines(3, 1.0).replace("name = \"n2\"\n", "name = \"n2\"\nprobe_address = \"127.0.0.9\"\n")
        + "[[node]]\nname = \"n3\"\ninject = { offset = 0, drift_ppb = 0, wander_ppb = 50000000, wander_period = \
           1000000000 }\n";
    let ended = related(&site, &text);
    ended.said(3, &["found a contradiction between", "n3.tsc", "n2: its probe exchanged nothing before the run with"]);
    let table = table(&ended);
    let states = [("n2", "no-exchange"), ("n3", "contradicted")];
    for (one, other) in [("n0", "n2"), ("n1", "n2"), ("n2", "n3"), ("n0", "n3"), ("n1", "n3")] {
        let (_, state) = states.into_iter().find(|(node, _)| [one, other].contains(node)).unwrap();
        let told = pair(&table, one, other);
        assert_eq!((&told["state"], &told["closed"]), (&json!(state), &Value::Null), "{told}");
        assert!(!told["reason"].is_null(), "{told}");
    }
    let stands = pair(&table, "n0", "n1");
    assert_eq!((&stands["state"], &stands["closed"]["outside"]), (&json!("related"), &json!(0)), "{stands}");
    let page = fs::read_to_string(site.run_directory().join("report.html")).unwrap();
    assert!(page.contains("nothing arrived between n3 and n2") && page.contains("a contradiction between"));
}

fn ip(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// n3 went; of two others the packets of the first alone arrive.
fn expect_cut(table: &Value, [asks, answers]: [&str; 2]) {
    for (one, other, state, said) in [
        ("n0", "n1", "related", None),
        ("n0", "n2", "related", None),
        ("n0", "n3", "gone", Some("silent since".to_owned())),
        ("n1", "n3", "gone", Some("silent since".to_owned())),
        ("n2", "n3", "gone", Some("silent since".to_owned())),
        ("n1", "n2", "one-way", Some(format!("packets of {asks} reach {answers}, none comes back since"))),
    ] {
        let told = pair(table, one, other);
        assert_eq!(told["state"], state, "{told}");
        match said {
            Some(words) => assert!(told["reason"].as_str().unwrap().contains(&words), "{words}: {told}"),
            None => assert!(told["reason"].is_null(), "{told}"),
        }
        // Round trips before, during and after the run: of a pair that ended none is called one after it.
        for trips in told["round_trips"].as_array().unwrap() {
            assert_eq!(trips["shortest_ns"][2].is_null(), state != "related", "{told}");
        }
        assert_eq!(told["closed"]["outside"], 0, "{told}");
    }
    let compared = table["rivals"].as_array().unwrap();
    assert!(compared.len() == 2 && compared.iter().all(|of| of["reference"] == "n0.tsc"), "{compared:?}");
    assert_eq!(table["findings"], json!([]));
}

#[test]
fn e2e_a_file_that_is_of_no_two_machines_is_refused_with_what_helps() {
    let site = Site::new("relate-refused");
    let one = "run = { name = \"t\", seconds = 1 }\nclock.reference = \"a\"\n[[node]]\nname = \"a\"\ncommand = \
               [\"true\"]\nends_run = true\n";
    related(&site, one).said(2, &["two machines or more to relate, found 'a' alone"]);
    let bare = "run = { name = \"t\", seconds = 1 }\nclock.reference = \"a\"\n[[node]]\nname = \"a\"\n";
    related(&site, bare).said(2, &["two machines or more to relate, found 'a' alone"]);
    related(&site, &format!("{one}[sweep]\n")).said(2, &["a file of one run, found a [sweep]"]);
    related(&site, "run = 3").said(2, &["machines.toml"]);
}

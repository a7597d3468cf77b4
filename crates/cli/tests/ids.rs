//! Ids that are text, parts of one another, stamped many at once and sent again, from the program to the command's
//! answers; the program is killed right after its last stamp.

mod site;

use std::fs;
use std::path::Path;
use std::process::Command;

use site::c_program::{self, StampDirectory};
use site::{Ended, Site, count, stage, tickscope};
use tickscope_stamp::id_of;
use tickscope_store::{Manifest, Run};
use tickscope_trace::LayoutText;

const ORDERS: u64 = 50;
const PACKETS: u64 = 8;

#[test]
fn e2e_ids_of_text_come_apart_are_polled_in_batches_and_become_others_and_a_kill_costs_none_of_it() {
    let (site, directory) = (Site::new("ids"), StampDirectory::new("cli-ids"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/ids.c");
    let program = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "ids");
    let mut command = Command::new(program);
    let _ = directory.measure(command.args(["-", &ORDERS.to_string()])).status().unwrap();
    let run = site.run_directory();
    let collect = ["collect", directory.0.to_str().unwrap(), "--node", "test", "--run"];
    assert_eq!(Ended::of(tickscope(&collect).arg(&run)).code, Some(0));
    let layout = site.path("layout.toml");
    let edges = ["test.placed / test.cut", "test.cut > test.sent", "test.sent > test.seen", "test.cut > test.polled"];
    let edges: Vec<_> = edges.iter().chain(&["test.polled + test.stored"]).map(|edge| format!("\"{edge}\"")).collect();
    fs::write(&layout, format!("[layout]\nedges = [{}]\n", edges.join(", "))).unwrap();

    let shown = || tickscope(&["show", "--json", "--layout", layout.to_str().unwrap()]);
    let table = Ended::of(shown().arg(&run)).json(0);
    for name in ["test.placed>test.cut", "test.cut>test.polled", "test.polled>test.stored"] {
        let row = stage(&table, name);
        assert_eq!(
            (count(&table, name), &row["missing"], &row["refused"]),
            (ORDERS * PACKETS, &0.into(), &0.into()),
            "{name}"
        );
    }
    assert_eq!(count(&table, "test.sent>test.seen"), ORDERS * PACKETS, "of the two attempts the rule takes one");
    let (repeated, untold) = (&table["passages"]["repeated"], &table["passages"]["untold"]);
    assert_eq!((repeated, untold), (&(ORDERS * PACKETS).into(), &0.into()));
    assert_eq!(table["passages"]["by_attempt"], ORDERS * PACKETS);

    let ids = Ended::of(tickscope(&["ids", "--json"]).arg(&run)).json(0);
    let names: Vec<String> = (0..ORDERS).map(|number| format!("order number {number} of many")).collect();
    let mut expected: Vec<_> = names.iter().map(|name| (id_of(name), name.as_str())).collect();
    expected.sort_unstable();
    let found = ids["ids"].as_array().unwrap().iter();
    let found: Vec<_> = found.map(|id| (id["id"].as_i64().unwrap(), id["original"].as_str().unwrap())).collect();
    assert_eq!(found, expected);
    let of = Ended::of(&mut tickscope(&["ids", "--of", &names[7]]));
    assert_eq!(of.out.trim(), id_of(&names[7]).to_string());
    let one = Ended::of(tickscope(&["ids", "--id", of.out.trim()]).arg(&run));
    assert_eq!(one.out, format!("{} {}\n", id_of(&names[7]), names[7]));
    expect_absent_ids_are_told(&run, id_of(&names[7]));
}

/// Two requests whose texts have one hash, three packets of each 5 ms and more apart; told by whoever is asked, and
/// each time, and no packet's duration is taken from the other's request.
#[test]
fn e2e_two_texts_with_one_hash_are_a_finding_however_often_it_is_asked_for() {
    let texts = ["gkheghkbhbecloed", "pcdhbnmgcodolgmj"]; // found by search: the key of the hash is known
    assert_eq!(id_of(texts[0]), id_of(texts[1]));
    let (site, directory) = (Site::new("collision"), StampDirectory::new("cli-collision"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/ids.c");
    let program = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "ids");
    let mut command = Command::new(program);
    let _ = directory.measure(command.args(["-"]).args(texts)).status().unwrap();
    let run = site.run_directory();
    let collect = ["collect", directory.0.to_str().unwrap(), "--node", "test", "--run"];
    assert_eq!(Ended::of(tickscope(&collect).arg(&run)).code, Some(0));
    let layout = site.path("layout.toml");
    fs::write(&layout, "[layout]\nedges = [\"test.placed / test.cut\"]\n").unwrap();
    let told = format!("two things have the id {}: 'gkheghkbhbecloed' and 'pcdhbnmgcodolgmj'", id_of(texts[0]));
    let of_layout = ["--layout", layout.to_str().unwrap()];
    let show = |words: &[&str]| Ended::of(tickscope(&["show"]).args(words).arg(&run));
    let expect_told = |ended: &Ended| {
        ended.said(3, &[&told]);
        assert_eq!(ended.out.matches(&told).count(), 1, "{ended:?}");
    };
    let asked = show(&of_layout);
    expect_told(&asked);
    assert!(asked.out.contains("16 parts at test.cut without their whole at test.placed"), "{asked:?}");
    let mut opened = Run::open(&run).unwrap();
    let layout = LayoutText { edges: vec!["test.placed / test.cut".into()], ..LayoutText::default() };
    opened.set_manifest(Manifest { layout, ..opened.manifest().clone() }).unwrap();
    opened.digest_list().unwrap().write().unwrap();
    (0..2).for_each(|_| expect_told(&show(&[]))); // joined now, and then by the traces that are kept
    assert!(run.join("traces").exists());
    let table = show(&["--json"]).json(3);
    assert_eq!(count(&table, "test.placed>test.cut"), 0);
}

/// An id without an original is a failure that says what was looked for, what is there, and what helps.
fn expect_absent_ids_are_told(run: &Path, there: i64) {
    let ask = |words: &[&str]| Ended::of(tickscope(&["ids"]).args(words).arg(run));
    let said = ["has an original of (50 originals, such as ", ", found 7. tickscope ids ", "--of TEXT"];
    for json in [&["--id", "7"][..], &["--id", "7", "--json"]] {
        let ended = ask(json);
        ended.said(2, &said);
        assert_eq!(ended.out, "");
    }
    let both = ask(&["--id", "7", "--id", &there.to_string()]);
    both.said(2, &said);
    assert!(both.out.starts_with(&format!("{there} ")) && both.out.lines().count() == 1, "{both:?}");
    let json = ask(&["--id", "7", "--json", "--id", &there.to_string()]);
    json.said(2, &said);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json.out).unwrap()["ids"][0]["id"], there);
}

#[test]
fn e2e_a_run_without_originals_is_told_with_how_to_keep_them() {
    let (site, directory) = (Site::new("no-ids"), StampDirectory::new("cli-no-ids"));
    let collect = ["collect", directory.0.to_str().unwrap(), "--node", "test", "--run"];
    let run = site.run_directory();
    assert_eq!(Ended::of(tickscope(&collect).arg(&run)).code, Some(0));
    for words in [&["ids"][..], &["ids", "--json"], &["ids", "--id", "7"]] {
        let ended = Ended::of(tickscope(words).arg(&run));
        ended.said(1, &["expected originals of ids in", "found none", "tickscope.keep_id in Python"]);
        assert_eq!(ended.out, "");
    }
}

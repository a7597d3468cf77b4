//! Runs that nobody joined, or that no layout was declared for: what they are asked with, and what they leave behind.

mod site;

use std::path::PathBuf;

use site::{Site, Stamped, write};
use tickscope_analysis::{Analysis, Query, ReadyRun, analyse, ready};
use tickscope_store::{LayoutText, Manifest, PolicyRule, Run, RunState, SameBoot, write_channels};

const PATH: [&str; 4] = ["client.send", "server.received", "server.reply", "client.response"];
const IDS: i64 = 500;

/// Where each id was after the request was sent, by point.
fn passed(ids: std::ops::Range<i64>, after: i64) -> Vec<(i64, i64)> {
    ids.map(|id| (id, 1_000_000 + id * 10_000 + after)).collect()
}

/// Stamps of `ids` at every point of [`PATH`].
fn stamp(run: &Run, ids: std::ops::Range<i64>) {
    let stamps = [0, 100, 200, 400].map(|after| passed(ids.clone(), after));
    let of = |at: usize, ordering| {
        let (node, point) = PATH[at].split_once('.').unwrap();
        Stamped { node, point, ordering, clock: "tsc", stamps: &stamps[at], lost: &[] }
    };
    write(run, &[of(0, "before"), of(1, "after"), of(2, "before"), of(3, "after")]);
}

/// A run of two nodes of one machine, as `change` has it.
fn run(site: &Site, path: &[&str], change: impl Fn(&mut Manifest)) -> Run {
    let mut run = site.run(path, &[]);
    let mut manifest = run.manifest().clone();
    manifest.nodes[1].boot = manifest.nodes[0].boot;
    change(&mut manifest);
    run.set_manifest(manifest).unwrap();
    stamp(&run, 0..IDS);
    run
}

fn layout(path: &[&str]) -> LayoutText {
    LayoutText { path: path.iter().map(ToString::to_string).collect(), ..LayoutText::default() }
}

fn asked(ready: &ReadyRun) -> Analysis {
    analyse(&ready.run, &Query::default(), false).unwrap()
}

/// Everything in the run's directory that is not there before or beside a join.
fn derived(run: &Run) -> Vec<PathBuf> {
    let all = std::fs::read_dir(run.root()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.ends_with("traces") || path.file_name().unwrap().to_string_lossy().starts_with('.'))
        .collect()
}

fn joined(ready: &ReadyRun) -> Option<(u64, RunState, bool)> {
    ready.preparation.joined.as_ref().map(|joined| (joined.stamps, joined.state, joined.kept))
}

#[test]
fn a_run_that_goes_on_is_joined_beside_it_and_leaves_nothing_once_it_was_looked_at() {
    let site = Site::new();
    let run = run(&site, &PATH, |manifest| manifest.ended_unix_ms = None);
    let _writing = run.write().unwrap();
    let looked = ready(run.clone(), None).unwrap();
    assert_eq!(joined(&looked), Some((4 * IDS as u64, RunState::GoingOn, false)));
    assert!(looked.preparation.notes[0].contains("joined now from 2000 stamps: the run goes on"));
    let analysis = asked(&looked);
    assert_eq!((analysis.complete, analysis.lack()), (IDS as u64, None));
    analyse(&looked.run, &Query::default(), true).unwrap();
    assert_eq!(derived(&run).len(), 1, "one hidden folder");
    stamp(&run, IDS..2 * IDS);
    assert_eq!(asked(&ready(run.clone(), None).unwrap()).complete, 2 * IDS as u64, "what was stored meanwhile");
    drop(looked);
    assert!(derived(&run).is_empty() && !run.root().join("durations").exists(), "{:?}", derived(&run));
}

#[test]
fn a_run_that_was_cut_off_is_joined_once_and_again_when_stamps_were_added() {
    let site = Site::new();
    let run = run(&site, &PATH, |manifest| manifest.ended_unix_ms = None);
    let first = ready(run.clone(), None).unwrap();
    assert_eq!(joined(&first), Some((4 * IDS as u64, RunState::CutOff, true)));
    assert!(first.preparation.notes[0].contains("the run's end was never written"));
    assert_eq!(derived(&run), [run.paths().traces()]);
    let again = ready(run.clone(), None).unwrap();
    assert_eq!(joined(&again), None);
    assert_eq!(again.preparation.notes, ["the run's end was never written: figures are of what was stored"]);
    stamp(&run, IDS..2 * IDS);
    let later = ready(run.clone(), None).unwrap();
    assert_eq!(joined(&later), Some((8 * IDS as u64, RunState::CutOff, true)));
    assert_eq!(asked(&later).complete, 2 * IDS as u64);
    std::fs::remove_dir_all(run.root().join("stamps")).unwrap();
    assert_eq!(asked(&ready(run, None).unwrap()).complete, 2 * IDS as u64, "traces outlive the stamps");
}

#[test]
fn an_ended_run_whose_traces_were_removed_is_joined_again_and_another_layout_leaves_its_own_alone() {
    let site = Site::new();
    let run = run(&site, &PATH, |_| ());
    assert_eq!(joined(&ready(run.clone(), None).unwrap()), Some((4 * IDS as u64, RunState::Ended, true)));
    let traces = || std::fs::read(run.paths().traces().join("part-00000000.parquet")).unwrap();
    let kept = traces();
    let other = ready(run.clone(), Some(layout(&["client.send", "client.response"]))).unwrap();
    assert_eq!(joined(&other), Some((2 * IDS as u64, RunState::Ended, false)));
    assert_eq!(
        asked(&other).rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(),
        ["client.send>client.response", "end-to-end"]
    );
    assert_eq!(traces(), kept);
    drop(other);
    std::fs::remove_dir_all(run.paths().traces()).unwrap();
    ready(run.clone(), Some(layout(&["client.send", "client.response"]))).unwrap();
    assert!(derived(&run).is_empty(), "traces by another layout are never the run's");
    assert_eq!(joined(&ready(run.clone(), Some(layout(&PATH))).unwrap()).map(|of| of.2), Some(true), "its own, named");
    assert_eq!(traces(), kept, "as they were");
    let wrong = ready(run, Some(layout(&["client.send", "client.respnse"]))).unwrap_err();
    assert!(wrong.code() == 2 && wrong.to_string().ends_with("did you mean 'client.response'?"), "{wrong}");
}

#[test]
fn of_many_who_look_at_one_run_without_traces_one_joins_them_and_the_others_wait() {
    let site = Site::new();
    let run = run(&site, &PATH, |_| ());
    run.write_digests().unwrap();
    let looks = std::thread::scope(|scope| {
        let looking: Vec<_> = (0..8).map(|_| scope.spawn(|| ready(run.clone(), None).unwrap())).collect();
        looking.into_iter().map(|look| look.join().unwrap()).collect::<Vec<_>>()
    });
    let joins: Vec<_> = looks.iter().filter_map(joined).collect();
    assert_eq!(joins, [(4 * IDS as u64, RunState::Ended, true)]);
    looks.iter().for_each(|look| assert_eq!(asked(look).complete, IDS as u64));
    assert!(run.faults().unwrap().is_empty() && run.check().unwrap().is_empty());
}

#[test]
fn a_layout_that_nobody_declared_is_inferred_and_contradicts_nothing() {
    let site = Site::new();
    let run = run(&site, &[], |_| ());
    // Two ids in a thousand came the other way round.
    let turned = [(1000, 7_000), (1001, 7_000)];
    let early = [(1000, 6_000), (1001, 6_000)];
    let of = |point, stamps| Stamped { node: "client", point, ordering: "plain", clock: "tsc", stamps, lost: &[] };
    write(&run, &[of("send", &turned), of("response", &early)]);
    stamp(&run, 2000..2000 + IDS);
    let looked = ready(run.clone(), None).unwrap();
    let inferred = looked.preparation.inferred.as_ref().unwrap();
    assert_eq!(inferred.layout().unwrap().path, PATH);
    assert_eq!((inferred.ids, joined(&looked).unwrap().2), (2 * IDS as u64 + 2, false), "its traces are not the run's");
    let analysis = asked(&looked);
    let whole = analysis.rows.iter().find(|row| row.name == "end-to-end").unwrap();
    assert_eq!((whole.impossible, whole.against_inferred), (0, 2));
    assert_eq!((analysis.finding(&[]), analysis.truth.is_none(), analysis.lack()), (None, true, None));
    let declared = ready(run, Some(layout(&PATH))).unwrap();
    let analysis = asked(&declared);
    let finding = analysis.finding(&[]).unwrap();
    assert!(finding.contains("name different things by the same id, or the layout's order"), "{finding}");
    assert!(!finding.contains("rho"), "one counter: {finding}");
}

#[test]
fn a_node_that_run_json_lacks_is_the_machine_whose_boot_its_stamps_name() {
    let site = Site::new();
    let run = run(&site, &[], |_| ());
    let mut manifest = run.manifest().clone();
    manifest.nodes.pop();
    let mut run = run;
    run.set_manifest(manifest).unwrap();
    let looked = ready(run, None).unwrap();
    assert_eq!(looked.run.manifest().nodes.len(), 2);
    assert_eq!(looked.run.manifest().layout.path, PATH);
    let said = looked.preparation.notes.iter().any(|note| note.starts_with("reference: client.tsc, the first node's"));
    assert!(said, "{:?}", looked.preparation.notes);
}

#[test]
fn stages_between_machines_that_nothing_relates_are_refused_and_those_within_one_are_shown() {
    let site = Site::new();
    let apart = |manifest: &mut Manifest| manifest.same_boot = SameBoot::Ignore;
    let looked = ready(run(&site, &PATH, apart), None).unwrap();
    let analysis = asked(&looked);
    let counts: Vec<_> = analysis.rows.iter().map(|row| (row.count, row.refused_by.unrelated)).collect();
    let ids = IDS as u64;
    assert_eq!(counts, [(0, ids), (ids, 0), (0, ids), (ids, 0)], "end-to-end starts and ends at one node");
    let within = analysis.rows[1].p50.unwrap();
    assert!(within.lo <= 100 && within.hi >= 100 && within.hi - within.lo < 10, "{within:?}");
    let lack = analysis.lack().unwrap();
    assert!(lack.contains("expected brackets of server.tsc against client.tsc, found none: stages between"), "{lack}");
    assert!(analysis.finding(&[]).is_none());
}

#[test]
fn without_one_complete_trace_the_points_that_were_never_stamped_are_named() {
    let site = Site::new();
    let looked = ready(run(&site, &["client.send", "server.recieved", "client.response"], |_| ()), None).unwrap();
    let analysis = asked(&looked);
    assert_eq!(analysis.complete, 0);
    let lack = analysis.lack().unwrap();
    assert!(lack.contains("stamps at server.recieved, found none; did you mean 'server.received'?"), "{lack}");
    let site = Site::new();
    let declared = site.run(&PATH, &["client.send > server.receved"]);
    stamp(&declared, 0..IDS);
    let looked = ready(declared, None).unwrap();
    let note = "evidence messages: expected stamps at server.receved, found none; did you mean 'server.received'?";
    assert!(looked.preparation.notes.iter().any(|said| said == note), "{:?}", looked.preparation.notes);
}

#[test]
fn a_point_that_the_policy_null_left_out_is_told_with_its_rule_and_is_no_misspelt_name() {
    let site = Site::new();
    let rule = PolicyRule { channels: "recieve?".into(), policy: "null".into() };
    let path = ["client.send", "server.recieved", "client.response"];
    let declared = run(&site, &path, |manifest| manifest.policies = vec![rule.clone()]);
    let left_out = "stamps at server.recieved, found none: the policy null left out whatever was stamped there (by the \
                    rule for 'recieve?')";
    for asked_by in [None, Some(layout(&["client.send", "server.recieved"]))] {
        let analysis = asked(&ready(declared.clone(), asked_by).unwrap());
        let lack = analysis.lack().unwrap();
        assert!(lack.contains(left_out) && !lack.contains("did you mean"), "{lack}");
    }
    let nothing = ready(declared.clone(), Some(layout(&["server.recieved", "server.recieve2"]))).unwrap_err();
    assert!(nothing.code() == 1 && nothing.to_string().contains(left_out), "{nothing}");
    // Nothing was stamped at any point.
    let site = Site::new();
    let mut all = site.run(&[], &[]);
    write(&all, &[Stamped { node: "client", point: "send", ordering: "plain", clock: "tsc", stamps: &[], lost: &[] }]);
    let mut channels = all.channels().unwrap().found;
    channels[0].policy = "null".into();
    write_channels(&all.paths().channels("client"), &channels).unwrap();
    let said = ready(all.clone(), None).unwrap_err().to_string();
    assert!(said.ends_with("the policy null left out those of client.send"), "{said}");
    all.set_manifest(Manifest { layout: layout(&["client.send", "client.gone"]), ..all.manifest().clone() }).unwrap();
    let said = ready(all, None).unwrap_err().to_string();
    assert!(said.contains("stamps at client.send, found none: the policy null left out"), "{said}");
}

#[test]
fn a_run_without_a_stamp_and_one_whose_points_share_no_ids_say_so() {
    let site = Site::new();
    let nothing = ready(site.run(&[], &[]), None).unwrap_err().to_string();
    assert!(nothing.contains("no stamp is stored in it"), "{nothing}");
    let site = Site::new();
    let strangers = site.run(&[], &[]);
    let (one, other) = (passed(0..10, 0), passed(10..20, 0));
    let of = |point, stamps| Stamped { node: "client", point, ordering: "plain", clock: "tsc", stamps, lost: &[] };
    write(&strangers, &[of("a", &one), of("b", &other)]);
    let alone = Site::new();
    let run = alone.run(&[], &[]);
    write(&run, &[of("a", &one)]);
    let stage_of_one = ready(run, None).unwrap_err().to_string();
    assert!(stage_of_one.contains("all its stamps are at client.a, and a stage needs two points"), "{stage_of_one}");
    let nothing = ready(strangers, None).unwrap_err().to_string();
    assert!(nothing.contains("no two of these points saw the same ids: client.a, client.b"), "{nothing}");
    assert!(nothing.contains("--layout"), "{nothing}");
}

//! Runs of known stamps compared: what is compared, what is refused and why, and whose bounds an interval holds.
//!
//! Red if a run counts twice, if a stretch is taken for another of its name, if holes are traces, or if a clock's bound
//! is less than the table says.

#[path = "site/copied.rs"]
mod copied;
mod site;

use copied::Copied;
use site::{Site, Stamped, write};
use tickscope_analysis::{ChangeVerdict, Error, LimitedBy, Query, RunComparison, analyse, compare};
use tickscope_store::{Run, join_run};

const TRACES: i64 = 400;

/// A run of a client alone that passes `path`, each point so many ticks after the one before; `holes`: no trace passes
/// the last one.
fn run(site: &Site, number: u64, path: &[(&str, i64)], [traces, holes]: [i64; 2]) -> Run {
    let places: Vec<String> = path.iter().map(|(point, _)| format!("client.{point}")).collect();
    let mut run = site.run(&places.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let mut manifest = run.manifest().clone();
    (manifest.run, manifest.started_unix_ms) = (number, manifest.started_unix_ms + number as i64);
    run.set_manifest(manifest).unwrap();
    let mut late = 0;
    let mut stamps = Vec::new();
    for (at, (_, ticks)) in path.iter().enumerate() {
        late += ticks;
        let first = if at + 1 == path.len() { holes } else { 0 };
        let tick = |id: i64| 1_000_000 + id * 100_000 + late + id * 7_919 % 100;
        stamps.push((first..traces).map(|id| (id, tick(id))).collect::<Vec<_>>());
    }
    let of =
        |((point, _), stamps)| Stamped { node: "client", point, ordering: "plain", clock: "tsc", stamps, lost: &[] };
    write(&run, &path.iter().copied().zip(&stamps).map(|(point, stamps)| of((point, stamps))).collect::<Vec<_>>());
    join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
    run
}

const PATH: [(&str, i64); 3] = [("a", 0), ("b", 10_000), ("c", 20_000)];

fn compared(before: &Run, after: &Run) -> Result<RunComparison, Error> {
    compare(&[before], &[after], &Query::default(), None)
}

fn message(found: Result<RunComparison, Error>) -> (u8, String) {
    let error = found.unwrap_err();
    (error.code(), error.to_string())
}

#[test]
fn stages_that_both_runs_have_are_compared_and_others_are_named() {
    let sites = [Site::new(), Site::new(), Site::new()];
    let before = run(&sites[0], 1, &PATH, [TRACES, 0]);
    let after = run(&sites[1], 2, &[("a", 0), ("b", 10_500), ("d", 20_000)], [TRACES, 0]);
    let found = compared(&before, &after).unwrap();
    let names: Vec<&str> = found.stages.iter().map(|stage| stage.stage.as_str()).collect();
    assert_eq!(names, ["client.a>client.b"]);
    let [of_before, of_after] = &found.not_compared;
    assert_eq!(*of_before, ["client.b>client.c", "end-to-end (client.a>client.c)"]);
    assert_eq!(*of_after, ["client.b>client.d", "end-to-end (client.a>client.d)"]);
    assert!(found.notes[0].contains("before client.b>client.c, end-to-end"), "{:?}", found.notes);
    let change = &found.stages[0].changes[0];
    assert_eq!((change.verdict, change.shift.unwrap().ticks), (ChangeVerdict::Changed, 500));
    let other = run(&sites[2], 3, &[("x", 0), ("y", 5)], [TRACES, 0]);
    let (code, said) = message(compared(&before, &other));
    assert!(
        code == 2 && said.contains("a stage in common, found none") && said.contains("client.x>client.y"),
        "{said}"
    );
}

#[test]
fn one_run_twice_and_one_against_several_are_refused() {
    let sites = [Site::new(), Site::new(), Site::new()];
    let [one, same, other] = [(0, 1), (1, 1), (2, 2)].map(|(at, number)| run(&sites[at], number, &PATH, [TRACES, 0]));
    for (code, said) in [message(compared(&one, &one)), message(compared(&one, &same))] {
        assert!(code == 2 && said.contains("found one twice"), "{said}");
    }
    let (code, said) = message(compare(&[&one], &[&same, &other], &Query::default(), None));
    assert!(code == 2 && said.contains("found 1 and 2"), "{said}");
    let (code, said) = message(compare(&[&one, &same], &[&same, &other], &Query::default(), None));
    assert!(code == 2 && said.contains("found one twice"), "{said}");
}

#[test]
fn runs_of_one_trace_or_of_holes_alone_have_a_sentence_and_no_empty_table() {
    let sites = [Site::new(), Site::new(), Site::new(), Site::new()];
    let whole = run(&sites[0], 1, &PATH, [TRACES, 0]);
    let single = run(&sites[1], 2, &PATH, [1, 0]);
    let holes = run(&sites[2], 3, &PATH, [TRACES, TRACES]);
    let no_common = run(&sites[3], 4, &PATH[..2], [TRACES, TRACES]);
    let found = compared(&whole, &single).unwrap();
    let few = ChangeVerdict::NotResolved { limited_by: LimitedBy::Traces, needs: Some(80) };
    assert!(found.changes().all(|(_, change)| change.verdict == few), "{found:?}");
    let found = compared(&whole, &holes).unwrap();
    let missing = ChangeVerdict::NotResolved { limited_by: LimitedBy::Missing, needs: None };
    let verdicts = |at: usize| found.stages[at].changes.iter().map(|change| change.verdict).collect::<Vec<_>>();
    assert!(matches!(verdicts(0)[0], ChangeVerdict::NotChanged { .. }), "the first stage is there: {found:?}");
    assert_eq!((verdicts(1), verdicts(2)), (vec![missing; 2], vec![missing; 2]));
    let (code, said) = message(compared(&whole, &no_common));
    assert!(code == 1 && said.contains("expected traces") && said.contains("tickscope show"), "{said}");
}

#[test]
fn an_interval_holds_the_bounds_that_the_tables_of_both_runs_have() {
    let copies = [Copied::numbered(2, 1), Copied::numbered(3, 2)];
    let runs = copies.each_ref().map(Copied::run);
    let found = compared(&runs[0], &runs[1]).unwrap();
    let tables = runs.each_ref().map(|run| analyse(run, &Query::default(), false).unwrap().rows);
    for (at, stage) in found.stages.iter().enumerate() {
        let [before, after] = tables.each_ref().map(|rows| rows[at].p50.unwrap());
        assert_eq!(stage.stage, tables[0][at].name);
        let change = &stage.changes[0];
        assert_eq!([change.before.unwrap().ticks, change.after.unwrap().ticks], [before.estimate, after.estimate]);
        let shift = change.shift.unwrap();
        let below = after.estimate.abs_diff(after.lo) + before.estimate.abs_diff(before.hi);
        let above = after.estimate.abs_diff(after.hi) + before.estimate.abs_diff(before.lo);
        assert!(shift.clocks_below_ticks >= below && shift.clocks_above_ticks >= above, "{shift:?}");
        assert_ne!(change.verdict, ChangeVerdict::Changed, "the same traces under another number");
    }
    assert!(found.stages.iter().any(|stage| stage.changes[0].shift.unwrap().clocks_below_ticks > 100), "of two hosts");
}

//! Limits over a run's traces: each is counted once, as the table has it, and a doubtful run keeps none.

#[path = "site/copied.rs"]
mod copied;

use std::collections::BTreeSet;

use copied::Copied;
use tickscope_analysis::{Analysis, Limit, LimitVerdict, MOST_WORST, Query, Undecided, analyse, spans};
use tickscope_store::{Event, EventKind, LimitRule, Run};

/// As the golden run has it.
const HERTZ: u64 = 2_500_000_000;

fn at_most(stage: &str, ns: u64) -> LimitRule {
    let share_ppb = LimitRule::ALL_PPB;
    LimitRule { name: None, stage: stage.into(), at_most_ns: Some(ns), at_least_ns: None, share_ppb }
}

fn analysed(run: &Run, limits: &[LimitRule]) -> Analysis {
    analyse(run, &Query { limits: Some(limits.to_vec()), ..Query::default() }, false).unwrap()
}

#[test]
fn traces_are_counted_as_the_table_counts_them_and_judged_as_one_by_one() {
    let copied = Copied::new(7);
    copied.lose_stamps();
    let run = copied.run();
    let stages: Vec<String> = run.layout().unwrap().stages().iter().map(|stage| stage.name.clone()).collect();
    let ns = 600;
    let analysis = analysed(&run, &stages.iter().map(|stage| at_most(stage, ns)).collect::<Vec<_>>());
    let all = spans(&run, &Query::default()).unwrap();
    // 100 ppm of tolerance are a part of a tick here.
    let (keeps, breaks) = ((ns * HERTZ / 1_000_000_000) as i64 - 1, (ns * HERTZ / 1_000_000_000) as i64);
    let mut seen = BTreeSet::new();
    for (stage, (limit, row)) in analysis.limits.iter().zip(&analysis.rows).enumerate() {
        assert_eq!(limit.stage.as_deref(), Some(row.name.as_str()));
        assert_eq!(limit.unknown, row.refused + row.impossible, "{limit:?}");
        assert_eq!(limit.measured(), row.count + row.refused, "{limit:?}");
        assert_eq!((limit.missing, limit.left_out), (row.missing, 0), "{limit:?}");
        let of = all.traces.iter().filter_map(|trace| Some((trace.id, trace.stages[stage]?)));
        let of = of.filter(|(_, span)| span.hi >= 0 || row.impossible == 0);
        let mut broken: Vec<(i64, i64)> =
            of.clone().filter(|(_, span)| span.lo > breaks).map(|(id, span)| (-span.lo, id)).collect();
        broken.sort_unstable();
        assert_eq!(limit.kept, of.filter(|(_, span)| span.hi <= keeps).count() as u64, "{limit:?}");
        assert_eq!(limit.broken, broken.len() as u64, "{limit:?}");
        let worst: Vec<i64> = limit.worst.iter().map(|trace| trace.id).collect();
        assert_eq!(worst, broken.iter().take(MOST_WORST).map(|(_, id)| *id).collect::<Vec<_>>());
        seen.extend(
            [("kept", limit.kept), ("broken", limit.broken), ("open", limit.straddling)]
                .iter()
                .chain(&[("missing", limit.missing), ("impossible", row.impossible)])
                .filter(|(_, count)| *count > 0)
                .map(|(what, _)| *what),
        );
    }
    assert_eq!(seen, BTreeSet::from(["broken", "impossible", "kept", "missing", "open"]), "the run has them all");
}

#[test]
fn a_run_that_is_doubtful_keeps_no_limit() {
    let copied = Copied::new(1);
    let run = copied.run();
    let verdict = |analysis: &Analysis, events: &[Event]| {
        let said = analysis.expect_limits(events).map_err(|why| why.code());
        let verdicts: Vec<LimitVerdict> =
            analysis.limits.iter().map(|limit: &Limit| analysis.verdict(limit, events)).collect();
        (verdicts[0], said)
    };
    let limits = [at_most("client.send > client.sent", 86_400_000_000_000)];
    let mut analysis = analysed(&run, &limits);
    let finding = LimitVerdict::NotResolved(Undecided::Finding);
    assert_eq!(verdict(&analysis, &[]), (finding, Err(5)), "this copy has durations that cannot be");
    analysis.suspicions.clear();
    analysis.rows.iter_mut().for_each(|row| row.impossible = 0);
    assert_eq!(verdict(&analysis, &[]), (LimitVerdict::Holds, Ok(())), "{:?}", analysis.standing(&[]));
    let event = |what| [Event { what, text: "why".into(), ..Event::default() }];
    assert_eq!(verdict(&analysis, &event(EventKind::ImpossibleExchange)), (finding, Err(5)));
    let lack = LimitVerdict::NotResolved(Undecided::Lack);
    assert_eq!(verdict(&analysis, &event(EventKind::MemoryLost)), (lack, Err(5)));
    // What is violated stays so: the lost traces cannot mend it.
    let mut broken = analysed(&run, &[at_most("client.send > client.sent", 1)]);
    broken.suspicions.clear();
    broken.rows.iter_mut().for_each(|row| row.impossible = 0);
    assert_eq!(verdict(&broken, &event(EventKind::MemoryLost)), (LimitVerdict::Violated, Err(4)));
    assert_eq!(verdict(&broken, &event(EventKind::ImpossibleExchange)), (finding, Err(5)));
    let elsewhere = analysed(&run, &[at_most("a.b > c.d", 1)]);
    assert_eq!(verdict(&elsewhere, &[]), (LimitVerdict::NotResolved(Undecided::NoStage), Err(5)));
}

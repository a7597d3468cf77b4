//! Ids that passed a point several times, of which a policy left out stamps: no duration is made of what it left.

mod site;

use site::{Site, Stamped, write};
use tickscope_analysis::{Analysis, Query, analyse, analyse_counts, assumptions, join};
use tickscope_store::{Choice, Run, write_channels};

const PATH: [&str; 2] = ["client.send", "client.answer"];

/// Each id in turn is sent and answered twice; the truth is 10 ticks for each. What is kept of the sends is `kept`.
fn shown(policy: &str, kept: fn(usize) -> bool) -> (Run, Analysis, Site) {
    let site = Site::new();
    let run = site.run(&PATH, &[]);
    let passages = || (0..40).map(|at| (i64::from(at) / 2, 1_000_000 + 1_000 * i64::from(at)));
    let send: Vec<_> = passages().enumerate().filter(|&(at, _)| kept(at)).map(|(_, stamp)| stamp).collect();
    let answer: Vec<_> = passages().map(|(id, tick)| (id, tick + 10)).collect();
    let of = |point, stamps| Stamped { node: "client", point, ordering: "plain", clock: "tsc", stamps, lost: &[] };
    write(&run, &[of("send", &send), of("answer", &answer)]);
    let choice: Choice = policy.parse().unwrap();
    let mut channels = run.channels().unwrap().found;
    channels[0].policy = choice.policy().name().into();
    channels[0].parameter = Some(choice.parameter() as i64).filter(|_| !choice.is_plain());
    write_channels(&run.paths().channels("client"), &channels).unwrap();
    join(&run, 1 << 20).unwrap();
    let analysis = analyse(&run, &Query::default(), false).unwrap();
    (run, analysis, site)
}

#[test]
fn repeated_ids_of_which_a_policy_left_out_stamps_are_refused_with_the_point_and_the_remedy() {
    for policy in ["every 3", "keep 1us", "own", "first-last"] {
        let (run, analysis, _site) = shown(policy, |at| at % 3 == 2);
        let row = &analysis.rows[0];
        assert_eq!((row.count, row.refused_by.untold, row.missing), (0, 13, 7), "{policy}");
        let finding = analysis.finding(&[]).unwrap();
        let counts = analyse_counts(&run, &Query::default()).unwrap();
        assert_eq!(counts.standing(&[]).unwrap_err().to_string(), finding, "counts alone tell it");
        let said = format!("Policies may have left out other stamps of such an id at client.send ({policy})");
        assert!(finding.contains(&said) && finding.contains("X of Y"), "{finding}");
        let assumed = assumptions(run.manifest(), &analysis);
        let said = format!("passed once at client.send ({policy})");
        assert!(assumed.iter().any(|(statement, _)| statement.contains(&said)), "{assumed:?}");
    }
}

#[test]
fn repeated_ids_are_told_apart_where_a_policy_chose_among_ids() {
    let (run, analysis, _site) = shown("1 of 2", |at| at / 2 % 2 == 0);
    let row = &analysis.rows[0];
    assert_eq!((row.count, row.refused), (10, 0), "of two passages the rule takes one");
    assert_eq!(analysis.finding(&[]), None);
    let assumed = assumptions(run.manifest(), &analysis);
    assert!(!assumed.iter().any(|(statement, _)| statement.contains("passed once")), "{assumed:?}");
}

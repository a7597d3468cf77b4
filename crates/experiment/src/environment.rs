//! What environments say of stamps: the own one of `tickscope run`, which commands of this machine get too, and those
//! that a run file gives its nodes.
//!
//! Guarantees: no variable that a measured program reads is without effect in silence. What a run sets itself is
//! refused in a node's `environment`, with the field that says it instead, and told where the own environment has it.
//! Values that would turn a program's points off are refused before anything starts. Deliberately absent: how values
//! are read, which is `tickscope-stamp`'s.

use std::collections::BTreeMap;
use std::ffi::OsString;

use tickscope_stamp::directory::PoolKey;
use tickscope_stamp::policies::rules;
use tickscope_store::PolicyRule;
use tickscope_tick::{Injection, RealtimeInjection};

use crate::leftovers::RUN_VARIABLE;
use crate::node_plan::NodePlan;
use crate::plan::{Plan, RunPlan};

const POLICY: &str = "TICKSCOPE_POLICY";
pub(crate) const LOGS: &str = "TICKSCOPE_LOGS";
pub(crate) const POOL_BYTES: &str = "TICKSCOPE_POOL_BYTES";
const WHEN_FULL: &str = "TICKSCOPE_WHEN_FULL";
const BLOCK_BYTES: &str = "TICKSCOPE_BLOCK_BYTES";
/// What commands of this machine take from the own environment, where neither the run nor their node says otherwise.
const TAKEN: [&str; 3] = [POOL_BYTES, WHEN_FULL, BLOCK_BYTES];

/// A variable of the environment of `tickscope run`; none where it is empty.
pub(crate) fn own(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The policies of a command that no run file starts.
pub(crate) fn policies(own: impl Fn(&str) -> Option<OsString>) -> Result<Vec<PolicyRule>, String> {
    let text = own(POLICY).unwrap_or_default();
    let text = text.to_str().ok_or(format!("expected {POLICY} as text, found other bytes. Correct or unset it"))?;
    let rule = |(channels, policy): (String, _)| PolicyRule { channels, policy: format!("{policy}") };
    Ok(rules(text)?.into_iter().map(rule).collect())
}

/// What of the own environment has no effect in a run, in lines.
pub(crate) fn unused(plan: &Plan, own: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let elsewhere = plan.nodes.iter().any(|node| !node.is_here());
    let told = |name: &str, why: &str| own(name).map(|_| format!("{name} of the environment is not used: {why}"));
    let of_logs =
        format!("a run makes its logs a folder; environment = {{ {LOGS} = \"...\" }} of a node names another");
    let mut all = vec![
        told(POLICY, "policies of a run file are its [[policy]]").filter(|_| plan.origin.text.is_some()),
        told(LOGS, &of_logs),
        told(POOL_BYTES, "the run file says pool_bytes").filter(|_| plan.run.pool_bytes.is_some()),
        told(WHEN_FULL, "the run file says when_full").filter(|_| plan.run.when_full.is_some()),
    ];
    let here_alone = |name: &&str| elsewhere && own(name).is_some();
    all.extend(TAKEN.into_iter().filter(here_alone).map(|name| {
        Some(format!("{name} of the environment holds on this machine alone: a node with connect needs it in its own"))
    }));
    all.into_iter().flatten().collect()
}

/// The variables that a node's command is given.
pub(crate) fn of_target(plan: &Plan, node: &NodePlan) -> BTreeMap<String, String> {
    let mut environment = node.environment.clone();
    let rules = plan.policies.iter().map(|rule| format!("{}={}", rule.channels, rule.policy));
    environment.insert(POLICY.into(), rules.collect::<Vec<_>>().join(","));
    if let Some(bytes) = plan.run.pool_bytes {
        environment.insert(POOL_BYTES.into(), bytes.to_string());
    }
    if let Some(when_full) = plan.run.when_full {
        environment.insert(WHEN_FULL.into(), when_full.name().into());
    }
    environment
}

/// Fails where a node's command would turn its points off.
pub(crate) fn expect_settings(
    plan: &Plan,
    node: &NodePlan,
    own: impl Fn(&str) -> Option<OsString>,
) -> Result<(), String> {
    let given = of_target(plan, node);
    let inherited = |name: &str| own(name).filter(|_| node.is_here() && TAKEN.contains(&name));
    let get = |name: &str| given.get(name).map(Into::into).or_else(|| inherited(name));
    tickscope_stamp::expect_settings(get).map_err(|wrong| format!("node '{}': {wrong}", node.name))
}

/// Fails where a node is given a variable that the run sets itself.
pub(crate) fn check(run: &RunPlan, node: &NodePlan) -> Result<(), String> {
    const NOT_AT_ALL: &str = "leave it out: the run sets it";
    let of_run = |is_given: bool, instead| is_given.then_some(instead);
    let set = [
        (POLICY, Some("write a [[policy]] with channels and policy")),
        (POOL_BYTES, of_run(run.pool_bytes.is_some(), "leave it or pool_bytes of [run] out")),
        (WHEN_FULL, of_run(run.when_full.is_some(), "leave it or when_full of [run] out")),
        (Injection::VARIABLE, Some("write inject = { ... }")),
        (RealtimeInjection::VARIABLE, Some("write inject_realtime = { ... }")),
        ("TICKSCOPE_NODE", Some(NOT_AT_ALL)),
        ("TICKSCOPE_DIR", Some(NOT_AT_ALL)),
        (PoolKey::VARIABLE, Some(NOT_AT_ALL)),
        (RUN_VARIABLE, Some(NOT_AT_ALL)),
    ];
    let refused = set.iter().find_map(|&(name, instead)| node.environment.get(name).and(instead).map(|i| (name, i)));
    match refused {
        None => Ok(()),
        Some((name, instead)) => Err(format!(
            "node '{}': expected no variable in environment that the run sets, found {name}. Instead, {instead}",
            node.name
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &str = include_str!("../../../experiments/demo.toml");

    fn own<'a>(set: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    #[test]
    fn a_command_without_a_run_file_has_the_policies_of_the_environment() {
        let rules = policies(own(&[(POLICY, "passed=own, *=every 10")])).unwrap();
        let rules = rules.iter().map(|rule| format!("{} {}", rule.channels, rule.policy));
        assert_eq!(rules.collect::<Vec<_>>(), ["passed own", "* every 10"]);
        assert_eq!(policies(own(&[])), Ok(vec![]));
        let wrong = policies(own(&[(POLICY, "passed=sometimes")])).unwrap_err();
        assert!(wrong.contains(POLICY) && wrong.contains("'sometimes'"), "{wrong}");
    }

    #[test]
    fn what_of_the_environment_a_run_file_overrides_is_told() {
        let mut plan = Plan::parse(DEMO).unwrap();
        let set = [(POLICY, "*=null"), (LOGS, "/x"), (POOL_BYTES, "65536"), (WHEN_FULL, "wait")];
        let told = |plan: &Plan| unused(plan, own(&set));
        assert!(matches!(&told(&plan)[..], [policy, logs] if policy.contains("[[policy]]") && logs.contains(LOGS)));
        plan.run.pool_bytes = Some(4096);
        plan.run.when_full = Some(crate::plan::WhenFull::Drop);
        assert!(matches!(&told(&plan)[2..], [bytes, full] if bytes.contains(POOL_BYTES) && full.contains(WHEN_FULL)));
        assert_eq!(unused(&plan, own(&[])), Vec::<String>::new());
        plan.origin.text = None;
        assert!(!told(&plan)[0].contains(POLICY), "it holds");
    }

    #[test]
    fn a_node_is_given_no_variable_that_the_run_sets() {
        let with = |variable: &str, run: &str| {
            let node = format!("name = \"server\"\nenvironment = {{ {variable} = \"4096\" }}");
            Plan::parse(&DEMO.replacen("name = \"server\"", &node, 1).replacen("[run]", &format!("[run]\n{run}"), 1))
        };
        for (variable, run, instead) in [
            (POLICY, "", "[[policy]]"),
            (POOL_BYTES, "pool_bytes = 65536", "pool_bytes of [run]"),
            (WHEN_FULL, "when_full = \"drop\"", "when_full of [run]"),
            ("TICKSCOPE_INJECT", "", "inject ="),
            ("TICKSCOPE_DIR", "", "leave it out"),
        ] {
            let why = with(variable, run).unwrap_err();
            assert!(why.contains(variable) && why.contains(instead) && why.contains("node 'server'"), "{why}");
        }
        for variable in [POOL_BYTES, LOGS, "OTHER"] {
            with(variable, "").unwrap();
        }
    }

    #[test]
    fn what_would_turn_points_off_is_refused_before_anything_starts() {
        let plan = Plan::parse(DEMO).unwrap();
        let mut node = plan.nodes[0].clone();
        let wrong = |node: &NodePlan, set: &[(&str, &str)]| expect_settings(&plan, node, own(set)).unwrap_err();
        for (name, value) in [(POOL_BYTES, "much"), (WHEN_FULL, "never"), (BLOCK_BYTES, "5000")] {
            let why = wrong(&node, &[(name, value)]);
            assert!(why.contains(name) && why.contains(value) && why.contains("node 'server'"), "{why}");
        }
        node.environment.insert(WHEN_FULL.into(), "wait".into());
        let set = [(WHEN_FULL, "never"), ("TICKSCOPE_NODE", "a b"), (POLICY, "garbage")];
        expect_settings(&plan, &node, own(&set)).unwrap(); // the node's own goes first, the others are not taken
        node.environment.insert(WHEN_FULL.into(), "never".into());
        assert!(wrong(&node, &[]).contains("'never'"));
    }
}

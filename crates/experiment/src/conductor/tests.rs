//! The conductor over simulated agents: what it guarantees when processes fail, and between machines.

mod simulated;

use tickscope_store::{CounterFacts, DeclaredFrequency, Node, RunState, Sharing, read_events};
use tickscope_tick::BootId;

use super::*;
use crate::agent::Left;
use simulated::{Asked, SimulatedAgent};

/// A directory for one run; gone at the end.
struct Site(PathBuf);

impl Site {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tickscope-conductor-{name}-{}", std::process::id())))
    }

    fn events(&self, what: &str) -> usize {
        let events = read_events(&self.0.join("events/run.parquet")).unwrap();
        events.iter().filter(|event| event.what == what).count()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // what stays lies in the system's own folder for such
    }
}

fn plan(nodes: &[&str], same_boot: &str) -> Plan {
    let mut text = format!(
        "run = {{ name = \"simulated\", seconds = 1 }}\n[clock]\nreference = \"{0}\"\nsame_boot = \"{same_boot}\"\n\
         [layout]\npath = [\"{0}.x\", \"{1}.y\"]\n",
        nodes[0], nodes[1]
    );
    for node in nodes {
        text += &format!("[[node]]\nname = \"{node}\"\ncommand = [\"true\"]\nends_run = {}\n", *node == nodes[0]);
    }
    Plan::parse(&text).unwrap()
}

fn machine(boot: u8) -> Node {
    Node {
        name: NodeName::new("unnamed").unwrap(),
        boot: BootId([boot; 16]),
        host: None,
        cpu_model: "a processor".into(),
        kernel: "6.1.0".into(),
        counter: CounterFacts {
            counter: Clock::STAMPED,
            invariant: true,
            clocksource: "tsc".into(),
            hypervisor: None,
            hypervisor_clocks: Vec::new(),
            trapped: false,
            fence_serialises: None,
            frequency: DeclaredFrequency { hertz: 1_000_000_000, tolerance_ppm: 100, origin: "kernel".into() },
            sharing: Sharing { bound_ticks: None, checked: "not at all".into() },
            reading: Some(tickscope_store::ReadingWidth { width_ticks: 1, seen: "simulated".into() }),
        },
        command: Vec::new(),
        injected: None,
        clocks: BTreeMap::new(),
    }
}

fn asked_for<'a>(asked: &'a [String], words: &str) -> Vec<&'a str> {
    asked.iter().filter(|line| line.starts_with(words)).map(String::as_str).collect()
}

#[test]
fn a_collector_that_dies_is_followed_by_another_before_the_join_and_is_told() {
    let (site, plan, asked) = (Site::new("dies"), plan(&["a", "b"], "detect"), Asked::default());
    let agent = SimulatedAgent { dies: Some("collect"), ..SimulatedAgent::new(machine(1), &asked) };
    let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0, 0]).unwrap();
    conductor.measure().unwrap();
    let run = conductor.finish(None).unwrap();
    let asked = asked.borrow();
    assert_eq!(asked_for(&asked, "perform collect-once"), ["perform collect-once a", "perform collect-once b"]);
    let last = asked.iter().rposition(|line| line.starts_with("perform")).unwrap();
    assert_eq!(asked[last + 1], "clear", "stamps are given up when all are taken");
    assert_eq!(site.events("collector-killed"), 2);
    assert!(run.manifest().ended_unix_ms.is_some());
    for node in &run.manifest().cost.as_ref().unwrap().nodes {
        assert_eq!(node.collector_cpu_ns, Some(2), "of the one that died and of the one that followed");
        assert_eq!(node.shared_memory_bytes, None, "neither saw all of it");
    }
}

#[test]
fn a_join_that_fails_leaves_out_the_traces_alone_and_the_first_failure_is_told() {
    let (site, plan, asked) = (Site::new("join"), plan(&["a", "b"], "detect"), Asked::default());
    let agent = SimulatedAgent { never_ready: Some("look again"), ..SimulatedAgent::new(machine(1), &asked) };
    let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0, 0]).unwrap();
    conductor.measure().unwrap();
    std::fs::write(site.0.join("traces"), "a file where the join makes its folder").unwrap();
    let why = conductor.finish(None).unwrap_err().to_string();
    assert!(why.starts_with("look again"), "{why}");
    assert_eq!(asked_for(&asked.borrow(), "clear").len(), 1, "all was collected");
    let run = Run::open(&site.0).unwrap();
    let manifest = run.manifest();
    assert!(manifest.ended_unix_ms.is_some() && manifest.cost.is_some() && manifest.points.len() == 2);
    assert_eq!(site.events("finish-failed"), 2, "the look and the join");
    assert!(site.0.join("digests.json").exists());
}

#[test]
fn a_role_that_never_becomes_ready_ends_the_run_and_leaves_nothing_running() {
    for role in ["collect", "clock-monitor", "probe", "target b"] {
        let (site, plan, asked) = (Site::new(&role.replace(' ', "-")), plan(&["a", "b"], "ignore"), Asked::default());
        let agent = SimulatedAgent { never_ready: Some(role), ..SimulatedAgent::new(machine(1), &asked) };
        let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0, 0]).unwrap();
        let why = conductor.measure().unwrap_err();
        assert!(why.code() == 1 && why.to_string().contains("become ready"), "{role}: {why}");
        // The agent itself looks that nothing runs when it is told to clear away.
        assert!(conductor.finish(None).unwrap().manifest().ended_unix_ms.is_some());
        assert_eq!(asked_for(&asked.borrow(), "clear").len(), 1, "{role}");
    }
}

#[test]
fn every_two_nodes_that_do_not_read_one_counter_get_probes_whichever_agents_they_live_with() {
    let (site, plan, asked) = (Site::new("machines"), plan(&["a", "b", "c", "d"], "detect"), Asked::default());
    let agents = [1, 2].map(|boot| Box::new(SimulatedAgent::new(machine(boot), &asked)) as Box<dyn Agent>);
    // `a` and `b` on one machine, `c` and `d` on another.
    let mut conductor = Conductor::begin(&plan, 1, &site.0, agents.into(), &[0, 0, 1, 1]).unwrap();
    conductor.measure().unwrap();
    let run = conductor.finish(None).unwrap();
    let asked = asked.borrow();
    let all = |words: &str| ["a", "b", "c", "d"].map(|node| format!("{words} {node}"));
    assert_eq!(asked_for(&asked, "start probe"), all("start probe"), "one process a node");
    let bursts = |asked: &[String]| {
        let mut bursts: Vec<String> = asked.iter().filter(|line| line.contains(" burst ")).cloned().collect();
        bursts.sort_unstable();
        bursts
    };
    // The reference asks both of the other machine; of the rest each asks one.
    let pairs = ["a burst 2 200 500", "a burst 3 200 500", "b burst 2 200 500", "d burst 1 200 500"]
        .map(|pair| format!("tell probe {pair}"));
    let at = |words: &str| asked.iter().position(|line| line.starts_with(words)).unwrap();
    let last = |words: &str| asked.iter().rposition(|line| line.starts_with(words)).unwrap();
    let (before, after) = asked.split_at(at("start target"));
    assert_eq!((bursts(before), bursts(after)), (pairs.to_vec(), pairs.to_vec()), "before the run, and after it");
    assert_eq!(asked.iter().filter(|line| line.ends_with(" steady")).count(), 4);
    let steady = asked.iter().position(|line| line.ends_with(" steady")).unwrap();
    assert!(before.iter().rposition(|line| line.contains(" burst ")).unwrap() < steady, "bursts are quiescent");
    assert!(last("end target") < asked.iter().position(|line| line.ends_with(" quiet")).unwrap());
    assert!(asked.iter().rposition(|line| line.contains(" burst ")).unwrap() < at("end probe"));
    assert_eq!(asked_for(&asked, "perform stamp-cost"), ["perform stamp-cost a", "perform stamp-cost c"]);
    assert_eq!(asked_for(&asked, "look again").len(), 2);
    let of_pairs = run.manifest().rho.iter().filter(|rho| rho.reference.node != rho.domain.node);
    let rho: Vec<String> = of_pairs.map(|rho| format!("{} {}", rho.reference.node, rho.domain.node)).collect();
    assert_eq!(rho, ["a b", "a c", "a d", "b c", "b d"], "and that of the reference's own machine, as ever");
}

#[test]
fn a_node_that_answers_no_probe_is_told_once_and_ends_nothing() {
    let (site, plan, asked) = (Site::new("silent"), plan(&["a", "b", "c", "d"], "ignore"), Asked::default());
    let agent = SimulatedAgent { silent: Some(3), ..SimulatedAgent::new(machine(1), &asked) };
    let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0; 4]).unwrap();
    conductor.measure().unwrap();
    conductor.finish(None).unwrap();
    let events = read_events(&site.0.join("events/run.parquet")).unwrap();
    let told: Vec<_> = events.iter().filter(|event| event.what == "probes-unanswered").collect();
    assert_eq!(told.len(), 2, "before the run and after it: {told:?}");
    // `b` asks `c` and `a` all; nobody gets an answer from `d`.
    assert!(told.iter().all(|event| event.node == "d"), "{told:?}");
}

#[test]
fn a_probe_that_is_started_again_goes_on_at_its_rate_with_its_peers_and_keys() {
    let (site, plan, asked) = (Site::new("again"), plan(&["a", "b"], "ignore"), Asked::default());
    let agent = SimulatedAgent::new(machine(1), &asked);
    let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0, 0]).unwrap();
    conductor.start_probes().unwrap();
    let settings = |conductor: &mut Conductor| conductor.nodes[1].helper(HelperKind::Probe).clone().unwrap().role;
    let before = settings(&mut conductor);
    conductor.revive().unwrap();
    assert_eq!(settings(&mut conductor), before);
    assert_eq!(asked_for(&asked.borrow(), "start probe b").len(), 2);
    assert_eq!(asked_for(&asked.borrow(), "tell probe b steady").len(), 2);
    conductor.finish(None).unwrap();
}

#[test]
fn a_run_holds_its_lock_and_names_its_stamp_directories_until_all_is_taken() {
    let (site, plan, asked) = (Site::new("lock"), plan(&["a", "b"], "detect"), Asked::default());
    let agent = SimulatedAgent::new(machine(1), &asked);
    let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0, 0]).unwrap();
    let run = Run::open(&site.0).unwrap();
    assert_eq!((run.state().unwrap(), run.manifest().stamp_directories.len()), (RunState::GoingOn, 2));
    conductor.measure().unwrap();
    let run = conductor.finish(None).unwrap();
    assert_eq!((run.state().unwrap(), run.manifest().stamp_directories.len()), (RunState::GoingOn, 0));
    drop(conductor);
    assert_eq!(run.state().unwrap(), RunState::Ended);
}

#[test]
fn stamps_that_a_living_program_holds_are_looked_at_again_then_kept_and_told() {
    let (site, plan, asked) = (Site::new("held"), plan(&["a", "b"], "detect"), Asked::default());
    let node = NodeName::new("b").unwrap();
    let left = Left {
        node: node.clone(),
        directory: "/stamps".into(),
        what: "a pool".into(),
        held: true,
        foreign: false,
        untaken: Vec::new(),
    };
    let agent = SimulatedAgent { left: vec![left], ..SimulatedAgent::new(machine(1), &asked) };
    let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0, 0]).unwrap();
    conductor.measure().unwrap();
    let why = conductor.finish(None).unwrap_err();
    let (code, text) = (why.code(), why.to_string());
    assert!(code == 1 && text.contains("a pool stays in /stamps") && text.contains("tickscope finish"), "{text}");
    assert!(asked_for(&asked.borrow(), "perform collect-once b").len() > 1);
    assert_eq!(asked_for(&asked.borrow(), "perform collect-once a"), [""; 0]);
    let run = Run::open(&site.0).unwrap();
    assert!(run.manifest().stamp_directories.keys().eq([&node]) && run.manifest().ended_unix_ms.is_some());
    assert_eq!(site.events("stamps-left"), 1);
}

#[test]
fn what_strangers_put_into_a_stamp_directory_is_told_and_fails_nothing() {
    let (site, plan, asked) = (Site::new("foreign"), plan(&["a", "b"], "detect"), Asked::default());
    let (node, what) = (NodeName::new("b").unwrap(), "1 file of other users".to_owned());
    let left = Left { node, directory: "/stamps".into(), what, held: false, foreign: true, untaken: Vec::new() };
    let agent = SimulatedAgent { left: vec![left], ..SimulatedAgent::new(machine(1), &asked) };
    let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0, 0]).unwrap();
    conductor.measure().unwrap();
    assert!(conductor.finish(None).unwrap().manifest().stamp_directories.is_empty());
    let told = ["pool-left-alone", "stamps-left", "finish-failed"].map(|what| site.events(what));
    assert_eq!(told, [1, 0, 0]);
}

#[test]
fn what_dies_while_the_run_goes_on_is_started_again_each_time_and_told() {
    let (site, plan, asked) = (Site::new("revive"), plan(&["a", "b"], "ignore"), Asked::default());
    // Every process of this agent is seen to have died at each look.
    let agent = SimulatedAgent::new(machine(1), &asked);
    let mut conductor = Conductor::begin(&plan, 1, &site.0, vec![Box::new(agent)], &[0, 0]).unwrap();
    conductor.start_helper(HelperKind::Collector, 1, 1, Role::Collect).unwrap();
    conductor.start_helper(HelperKind::Monitor, 1, 1, Role::ClockMonitor).unwrap();
    for _ in 0..8 {
        conductor.revive().unwrap();
    }
    let failures = conductor.nodes[1].helper(HelperKind::Collector).as_ref().unwrap().failures;
    assert!(failures >= 5, "the fifth restart waits for its pause");
    assert_eq!(asked_for(&asked.borrow(), "start collect b").len() as u32, failures, "after the last, a pause");
    assert_eq!(site.events("collector-killed"), 5);
    assert_eq!(site.events("role-restarted"), 5);
    let ended = conductor.finish(None).unwrap();
    assert_eq!(ended.manifest().cost.as_ref().unwrap().nodes[1].shared_memory_bytes, None, "no one saw all of it");
    assert_eq!(site.events("clock-unwatched"), 1, "no clock monitor speaks for all of the run");
}

#[test]
fn a_clock_that_was_set_does_not_change_how_long_a_run_has_lasted() {
    let now = crate::since_boot().unwrap();
    let plan = plan(&["a", "b"], "detect");
    let named = |name: &str| Node { name: NodeName::new(name).unwrap(), ..machine(1) };
    let manifest = |plan: &Plan| manifest(plan, 1, vec![named("a"), named("b")], "");
    for set_ms in [-3_600_000, 0, 3_600_000] {
        let began = Some(tickscope_store::SinceBoot { ms: now.ms - 2_000, ..now });
        let run = Manifest { started_unix_ms: crate::unix_ms() - 2_000 + set_ms, began, ..manifest(&plan) };
        let lasted = since(&run);
        assert!(lasted >= Duration::from_secs(2) && lasted < Duration::from_secs(1800), "{lasted:?}");
    }
    let anew = tickscope_store::SinceBoot { boot: tickscope_tick::BootId([9; 16]), ms: 0 };
    let label = crate::unix_ms() - 5_000;
    let run = |label| Manifest { started_unix_ms: label, began: Some(anew), ..manifest(&plan) };
    assert!(since(&run(label)) >= Duration::from_secs(5), "started anew: by the label");
    assert_eq!(since(&run(label + 60_000)), Duration::ZERO, "which lies ahead");
}

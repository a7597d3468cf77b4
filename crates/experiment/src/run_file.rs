//! The run file: TOML, parsed into a [`Plan`] once.
//!
//! Policies are a list, `[[policy]]`, whose first match decides. The table `[policies]` of earlier run files is refused, with
//! the list that says the same: a TOML table has no order, so which of two globs that both match would decide was not in
//! the file; and reading it only where it says one thing would be a second rule to know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tickscope_analysis::{FEWEST_PAIRS, MessagePair};
use tickscope_bracket::Rho;
use tickscope_stamp::block::Policy;
use tickscope_store::{Evidence, Layout, PolicyRule, SameBoot};
use tickscope_tick::{Clock, Injection, NodeName, Ordering, PointName};
use tickscope_trace::LayoutText;

use crate::error::Error;
use crate::plan::{Cores, Inject, InjectRealtime, Log, NetworkKind, NodePlan, OverheadSettings, Plan, Slew};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogTable {
    node: NodeName,
    point: PointName,
    file: String,
    clock: String,
    #[serde(default = "plain")]
    ordering: Ordering,
}

/// A log's readings are ordered against nothing, unless whoever wrote the program knows better.
fn plain() -> Ordering {
    Ordering::Plain
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    channels: String,
    policy: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    run: RunTable,
    #[serde(default)]
    network: NetworkTable,
    clock: ClockTable,
    node: Vec<NodeTable>,
    layout: LayoutTable,
    #[serde(default)]
    evidence: EvidenceTable,
    #[serde(default)]
    policy: Vec<PolicyTable>,
    policies: Option<toml::Table>,
    #[serde(default)]
    log: Vec<LogTable>,
    #[serde(default)]
    overhead: OverheadSettings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunTable {
    name: PointName,
    seconds: f64,
    out: Option<PathBuf>,
    pool_bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkTable {
    kind: NetworkKind,
}

impl Default for NetworkTable {
    fn default() -> Self {
        Self { kind: NetworkKind::Auto }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockTable {
    reference: NodeName,
    rho: Option<toml::Value>,
    slew: Option<toml::Value>,
    #[serde(default)]
    same_boot: SameBoot,
    #[serde(default = "assume")]
    cores: Cores,
    #[serde(default = "hundred")]
    probes_hz: f64,
    #[serde(default = "probe_port")]
    probe_port: u16,
}

fn assume() -> Cores {
    Cores::Assume
}

/// Enough for a bound of a few round trips under any rho, at a cost that no target notices.
fn hundred() -> f64 {
    100.0
}

fn probe_port() -> u16 {
    7411
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    name: NodeName,
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    ends_run: bool,
    inject: Option<Inject>,
    inject_realtime: Option<InjectRealtime>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutTable {
    path: Vec<String>,
    #[serde(default)]
    branches: Vec<String>,
    #[serde(default)]
    beside: Vec<String>,
    #[serde(default)]
    rules: BTreeMap<String, String>,
}

/// What serves as evidence between nodes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EvidenceTable {
    probes: bool,
    kernel_probes: bool,
    messages: Vec<String>,
}

impl Default for EvidenceTable {
    fn default() -> Self {
        let Evidence { probes, kernel_probes, messages } = Evidence::default();
        Self { probes, kernel_probes, messages }
    }
}

impl From<EvidenceTable> for Evidence {
    fn from(EvidenceTable { probes, kernel_probes, messages }: EvidenceTable) -> Self {
        Self { probes, kernel_probes: probes && kernel_probes, messages }
    }
}

impl Plan {
    /// Reads and checks a run file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::input(format!("cannot read the run file {}: {e}. experiments/demo.toml is one, docs/run-file.md says what may stand in it", path.display())))?;
        Self::parse(&text).map_err(|why| Error::input(format!("{}: {why}", path.display())))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        let nodes: Vec<NodePlan> = file.node.into_iter().map(node).collect::<Result<_, _>>()?;
        let rules = file.layout.rules.into_iter().collect();
        let LayoutTable { path, branches, beside, .. } = file.layout;
        let layout = Layout { path, branches, beside, rules };
        let plan = Self {
            name: file.run.name,
            seconds: within("run.seconds", file.run.seconds, 0.1, 1e6)?,
            out: file.run.out,
            network: file.network.kind,
            rho: rho("clock.rho", file.clock.rho)?.unwrap_or_default(),
            slew: slew(file.clock.slew)?,
            logs: file.log.into_iter().map(log).collect::<Result<_, _>>()?,
            same_boot: file.clock.same_boot,
            cores: file.clock.cores,
            probes_hz: within("clock.probes_hz", file.clock.probes_hz, 0.0, 100_000.0)?,
            probe_port: file.clock.probe_port,
            pool_bytes: file.run.pool_bytes,
            policies: policies(file.policy, file.policies)?,
            reference: file.clock.reference,
            nodes,
            layout,
            evidence: file.evidence.into(),
            overhead: overhead(file.overhead)?,
        };
        plan.check()?;
        Ok(plan)
    }

    /// What spans several fields.
    fn check(&self) -> Result<(), String> {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        for (position, name) in names.iter().enumerate() {
            if names[..position].contains(name) {
                return Err(format!("expected node names that differ, found '{name}' twice. Rename one"));
            }
        }
        if !names.contains(&self.reference.as_str()) {
            let (reference, known) = (&self.reference, names.join(", "));
            return Err(format!("expected clock.reference to be a node, found '{reference}'. The nodes are: {known}"));
        }
        let ending = self.nodes.iter().filter(|node| node.ends_run).count();
        if ending == 0 {
            return Err(
                "expected a node with ends_run = true, found none. Mark the one whose command ends the run".into()
            );
        }
        if let Some(log) = self.logs.iter().find(|log| !names.contains(&log.node.as_str())) {
            let (node, known) = (&log.node, names.join(", "));
            return Err(format!("[[log]] expected one of the nodes {known}, found '{node}'. Correct it"));
        }
        for text in &self.evidence.messages {
            let pair: MessagePair = text.parse().map_err(|e| format!("[evidence] {e}"))?;
            let unknown = [&pair.from, &pair.to].into_iter().find(|place| !names.contains(&place.node.as_str()));
            if let Some(place) = unknown {
                let known = names.join(", ");
                return Err(format!("[evidence] expected a point of a node ({known}), found '{place}'. Correct it"));
            }
            if ![&pair.from.node, &pair.to.node].contains(&&self.reference) {
                let reference = &self.reference;
                return Err(format!(
                    "[evidence] expected messages to or from the reference '{reference}', found '{pair}'. Leave it out"
                ));
            }
        }
        let layout = LayoutText {
            path: self.layout.path.clone(),
            branches: self.layout.branches.clone(),
            beside: self.layout.beside.clone(),
            rules: self.layout.rules.clone(),
        };
        let layout = layout.parse(None).map_err(|e| format!("[layout] {e}"))?;
        match layout.points().iter().find(|point| !names.contains(&point.place.node.as_str())) {
            Some(point) => Err(format!(
                "[layout] expected a point of a node ({}), found '{}'. Correct it, or add the node",
                names.join(", "),
                point.place.to_string()
            )),
            None => Ok(()),
        }
    }
}

fn node(table: NodeTable) -> Result<NodePlan, String> {
    let name = table.name;
    if table.command.is_empty() {
        return Err(format!(
            "node '{name}': expected a command, found an empty list. Give the program and its arguments"
        ));
    }
    if table.environment.contains_key(Injection::VARIABLE) {
        return Err(format!(
            "node '{name}': expected a known map in inject = {{ ... }}, found {} in environment. Move it there",
            Injection::VARIABLE
        ));
    }
    let (command, environment) = (table.command, table.environment);
    let (inject, inject_realtime) = (table.inject, table.inject_realtime);
    if let Some(wrong) = inject.as_ref().and_then(|inject| inject.stairs().err()) {
        return Err(format!("node '{name}': {wrong}"));
    }
    Ok(NodePlan { name, command, environment, ends_run: table.ends_run, inject, inject_realtime })
}

fn within(field: &str, found: f64, least: f64, most: f64) -> Result<f64, String> {
    let fits = (least..=most).contains(&found);
    if fits {
        Ok(found)
    } else {
        Err(format!("expected {field} from {least} to {most}, found {found}. Correct it in the run file"))
    }
}

fn rho(field: &str, value: Option<toml::Value>) -> Result<Option<Rho>, String> {
    let parse = |text: &str| text.parse::<Rho>().map(Some).map_err(|e| format!("{field}: {e}"));
    match value {
        None => Ok(None),
        Some(toml::Value::String(text)) => parse(&text),
        Some(toml::Value::Integer(ppm)) => parse(&ppm.to_string()),
        Some(toml::Value::Float(ppm)) => parse(&ppm.to_string()),
        Some(other) => Err(format!(
            "expected {field} as a preset or a number of ppm, found {other}. Write \"server-room\" or 1 for example"
        )),
    }
}

fn slew(value: Option<toml::Value>) -> Result<Slew, String> {
    if value.as_ref().and_then(toml::Value::as_str) == Some("auto") {
        return Ok(Slew::Auto);
    }
    Ok(rho("clock.slew", value)?.map_or(Slew::Auto, Slew::Declared))
}

fn overhead(settings: OverheadSettings) -> Result<OverheadSettings, String> {
    within("overhead.seconds", settings.seconds, 0.1, 1e6)?;
    let (least, most) = (f64::from(FEWEST_PAIRS), 1e6);
    within("overhead.pairs", f64::from(settings.pairs), least, most)?;
    Ok(settings)
}

fn log(table: LogTable) -> Result<Log, String> {
    let clock = Clock::ALL.into_iter().find(|(_, name, _)| *name == table.clock).map(|(counter, ..)| counter);
    let clock = clock.filter(|clock| matches!(clock, Clock::Realtime | Clock::Monotonic));
    let wrong = format!(
        "[[log]] expected clock = \"realtime\" or \"monotonic\", found '{}'. Name the clock that was logged",
        table.clock
    );
    Ok(Log {
        node: table.node,
        point: table.point,
        file: table.file,
        clock: clock.ok_or(wrong)?,
        ordering: table.ordering,
    })
}

fn policies(list: Vec<PolicyTable>, table: Option<toml::Table>) -> Result<Vec<PolicyRule>, String> {
    if let Some(table) = table {
        let rule =
            |(glob, policy)| format!("\n\n[[policy]]\nchannels = {}\npolicy = {policy}", toml::Value::String(glob));
        let rules: String = table.into_iter().map(rule).collect();
        return Err(format!(
            "[policies] is a list now, whose first match decides. Write, in the order that you mean:{rules}"
        ));
    }
    let rule = |PolicyTable { channels, policy }| {
        let known = Policy::from_name(&policy).ok_or_else(|| {
            format!("[[policy]] expected null or buffered for '{channels}', found '{policy}'. Choose one of them")
        })?;
        Ok(PolicyRule { channels, policy: known.name().into() })
    };
    list.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &str = include_str!("../../../experiments/demo.toml");

    #[test]
    fn the_demo_is_a_run_file() {
        let demo = Plan::parse(DEMO).unwrap();
        assert_eq!((demo.nodes.len(), demo.rho.ppb(), demo.probes_hz), (2, 50_000, 1000.0));
        assert_eq!(demo.fill(&demo.nodes[1], &addresses(), "r").unwrap()[2..4], ["s", "7400"]);
    }

    #[test]
    fn a_typo_is_answered_with_what_was_expected_and_found() {
        for (right, wrong, said) in [
            ("probes_hz", "probes_hertz", "probes_hertz"),
            ("seconds = 60", "seconds = -1", "expected run.seconds from 0.1"),
            ("\"unknown\" ", "\"unknwon\" ", "unknwon"),
            ("reference = \"client\"", "reference = \"clinet\"", "The nodes are: server, client"),
            ("ends_run = true", "ends_run = false", "ends_run = true"),
            ("client.send > client.sent", "client.sned > client.sent", "client.sned"),
            ("server.reply", "sever.reply", "sever.reply"),
            ("branches = [", "beside = [\"client.sent > sever.received\"]\nbranches = [", "sever.received"),
            ("kind = \"auto\"", "kind = \"wifi\"", "wifi"),
            ("name = \"server\"", "name = \"client\"", "twice"),
            ("[layout]", "[layuot]", "layuot"),
        ] {
            assert!(DEMO.contains(right), "{right}");
            let error = Plan::parse(&DEMO.replacen(right, wrong, 1)).unwrap_err();
            assert!(error.contains(said), "{right} -> {wrong}: {error}");
        }
    }

    #[test]
    fn an_unknown_placeholder_is_refused() {
        let demo = Plan::parse(&DEMO.replace("{server.address}", "{sevrer.address}")).unwrap();
        let error = demo.fill(&demo.nodes[1], &addresses(), "r").unwrap_err();
        assert!(error.to_string().contains("{sevrer.address}"));
    }

    #[test]
    fn policies_keep_their_order_and_the_table_without_one_is_refused_with_the_list_that_says_the_same() {
        let list =
            "\n[[policy]]\nchannels = \"z*\"\npolicy = \"null\"\n[[policy]]\nchannels = \"*\"\npolicy = \"buffered\"\n";
        let plan = Plan::parse(&format!("{DEMO}{list}")).unwrap();
        let rules: Vec<_> = plan.policies.iter().map(|rule| (rule.channels.as_str(), rule.policy.as_str())).collect();
        assert_eq!(rules, [("z*", "null"), ("*", "buffered")]);
        let error = Plan::parse(&format!("{DEMO}[policies]\n\"sent\" = \"null\"\n")).unwrap_err();
        assert!(error.contains("[[policy]]\nchannels = \"sent\"\npolicy = \"null\""), "{error}");
        for wrong in [list.replace("null", "nil"), list.replace("channels", "channel")] {
            assert!(Plan::parse(&format!("{DEMO}{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_two_ends_of_a_runs_probes_have_the_same_number() {
        let more = |name| format!("\n[[node]]\nname = \"{name}\"\ncommand = [\"true\"]\n");
        let plan = Plan::parse(&format!("{DEMO}{}{}", more("a"), more("b"))).unwrap();
        let mut numbers: Vec<u32> = plan.probe_pairs().flat_map(|pair| [pair.server, pair.client]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 2 * (plan.nodes.len() - 1));
    }

    fn addresses() -> BTreeMap<NodeName, String> {
        [("client", "c"), ("server", "s")].map(|(node, at)| (NodeName::new(node).unwrap(), at.into())).into()
    }
}

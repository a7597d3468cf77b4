//! The run file: one experiment, parsed into a valid type once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tickscope_bracket::Rho;
use tickscope_stamp::block::Policy;
use tickscope_store::{Layout, Name, SameBoot};
use tickscope_trace::LayoutText;

use crate::failure::Failure;

/// One experiment, checked.
#[derive(Debug)]
pub struct Experiment {
    pub name: String,
    pub seconds: f64,
    pub out: Option<PathBuf>,
    pub network: NetworkKind,
    pub reference: Name,
    pub rho: Rho,
    pub same_boot: SameBoot,
    pub cores: Cores,
    pub probes_hz: f64,
    pub probe_port: u16,
    pub pool_bytes: Option<u64>,
    pub nodes: Vec<Node>,
    pub layout: Layout,
    pub policies: Vec<(String, Policy)>,
}

/// A node and what runs there.
#[derive(Debug)]
pub struct Node {
    pub name: Name,
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub ends_run: bool,
    pub inject: Option<Inject>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    Auto,
    Namespaces,
    Loopback,
}

/// What is done about the cores of a node, which are taken to share one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cores {
    /// The kernel's word, checked and printed.
    Assume,
    /// What the check leaves open is added to stages between different threads.
    Prove,
}

/// A known map before a node's counter, in tests; the anchor is the counter at the start.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inject {
    pub offset: i64,
    pub drift_ppb: i64,
    pub wander_ppb: i64,
    pub wander_period: i64,
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
    policies: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunTable {
    name: String,
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
    reference: String,
    rho: Option<toml::Value>,
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

/// Enough for a bound of a few round trips under any rho, at a cost that no subject notices.
fn hundred() -> f64 {
    100.0
}

fn probe_port() -> u16 {
    7411
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    name: String,
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    ends_run: bool,
    inject: Option<Inject>,
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

impl Experiment {
    /// Reads and checks a run file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::input(format!("expected a run file at {}, found: {e}", path.display())))?;
        Self::parse(&text).map_err(|why| Failure::input(format!("{}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        let nodes: Vec<Node> = file.node.into_iter().map(node).collect::<Result<_, _>>()?;
        let reference = name("clock.reference", file.clock.reference)?;
        let rules = file.layout.rules.into_iter().collect();
        let LayoutTable { path, branches, beside, .. } = file.layout;
        let layout = Layout { path, branches, beside, rules };
        let experiment = Self {
            name: name("run.name", file.run.name)?.to_string(),
            seconds: within("run.seconds", file.run.seconds, 0.1, 1e6)?,
            out: file.run.out,
            network: file.network.kind,
            rho: rho(file.clock.rho)?,
            same_boot: file.clock.same_boot,
            cores: file.clock.cores,
            probes_hz: within("clock.probes_hz", file.clock.probes_hz, 0.0, 100_000.0)?,
            probe_port: file.clock.probe_port,
            pool_bytes: file.run.pool_bytes,
            policies: file.policies.into_iter().map(policy).collect::<Result<_, _>>()?,
            reference,
            nodes,
            layout,
        };
        experiment.check()?;
        Ok(experiment)
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
        let layout = LayoutText {
            path: self.layout.path.clone(),
            branches: self.layout.branches.clone(),
            beside: self.layout.beside.clone(),
            rules: self.layout.rules.clone(),
        };
        let layout = layout.parse(None).map_err(|e| format!("[layout] {e}"))?;
        match layout.points().iter().find(|point| !names.contains(&point.node.as_str())) {
            Some(point) => Err(format!(
                "[layout] expected a point of a node ({}), found '{}'. Correct it, or add the node",
                names.join(", "),
                point.full_name()
            )),
            None => Ok(()),
        }
    }

    /// A command with `{address}`, `{NODE.address}` and `{seconds}` filled in.
    pub fn fill(&self, node: &Node, addresses: &BTreeMap<String, String>) -> Result<Vec<String>, Failure> {
        let fill = |word: &String| {
            let mut word = word.replace("{seconds}", &self.seconds.to_string());
            word = word.replace("{address}", &addresses[node.name.as_str()]);
            for (name, address) in addresses {
                word = word.replace(&format!("{{{name}.address}}"), address);
            }
            match word.contains('{') {
                true => Err(Failure::input(format!(
                    "node '{}': expected the placeholders {{address}}, {{NODE.address}} and {{seconds}}, found '{word}'",
                    node.name
                ))),
                false => Ok(word),
            }
        };
        node.command.iter().map(fill).collect()
    }
}

fn name(field: &str, text: String) -> Result<Name, String> {
    let wrong = format!("expected {field} as 1 to 47 letters, digits, '_', '-', '.', found '{text}'");
    Name::new(text).ok_or(wrong)
}

fn node(table: NodeTable) -> Result<Node, String> {
    let name = name("node.name", table.name)?;
    if name.as_str().contains('.') {
        return Err(format!("expected a node's name without a dot, found '{name}': the dot parts node and point"));
    }
    if table.command.is_empty() {
        return Err(format!("node '{name}': expected a command, found an empty list"));
    }
    if table.environment.contains_key(tickscope_tick::Injection::VARIABLE) {
        return Err(format!(
            "node '{name}': expected a known map in inject = {{ ... }}, found {} in environment. Move it there",
            tickscope_tick::Injection::VARIABLE
        ));
    }
    let (command, environment) = (table.command, table.environment);
    Ok(Node { name, command, environment, ends_run: table.ends_run, inject: table.inject })
}

fn within(field: &str, found: f64, least: f64, most: f64) -> Result<f64, String> {
    let fits = (least..=most).contains(&found);
    if fits { Ok(found) } else { Err(format!("expected {field} from {least} to {most}, found {found}")) }
}

fn rho(value: Option<toml::Value>) -> Result<Rho, String> {
    let parse = |text: &str| text.parse::<Rho>().map_err(|e| format!("clock.rho: {e}"));
    match value {
        None => Ok(Rho::default()),
        Some(toml::Value::String(text)) => parse(&text),
        Some(toml::Value::Integer(ppm)) => parse(&ppm.to_string()),
        Some(toml::Value::Float(ppm)) => parse(&ppm.to_string()),
        Some(other) => Err(format!("expected clock.rho as a preset or a number of ppm, found {other}")),
    }
}

fn policy((glob, policy): (String, String)) -> Result<(String, Policy), String> {
    let wrong = format!("[policies] expected null or buffered for '{glob}', found '{policy}'");
    Ok((glob, Policy::from_name(&policy).ok_or(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &str = include_str!("../../../demo/demo.toml");

    #[test]
    fn the_demo_is_a_run_file() {
        let demo = Experiment::parse(DEMO).unwrap();
        assert_eq!((demo.nodes.len(), demo.rho.ppb(), demo.probes_hz), (2, 50_000, 1000.0));
        let addresses = BTreeMap::from([("client".into(), "c".into()), ("server".into(), "s".into())]);
        assert_eq!(demo.fill(&demo.nodes[1], &addresses).unwrap()[2..4], ["s", "7400"]);
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
            let error = Experiment::parse(&DEMO.replacen(right, wrong, 1)).unwrap_err();
            assert!(error.contains(said), "{right} -> {wrong}: {error}");
        }
    }

    #[test]
    fn an_unknown_placeholder_is_refused() {
        let demo = Experiment::parse(&DEMO.replace("{server.address}", "{sevrer.address}")).unwrap();
        let addresses = BTreeMap::from([("client".into(), "c".into()), ("server".into(), "s".into())]);
        assert!(demo.fill(&demo.nodes[1], &addresses).unwrap_err().to_string().contains("{sevrer.address}"));
    }
}

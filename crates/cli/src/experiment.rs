//! The run file: one experiment, parsed into a valid type once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tickscope_analysis::{FEWEST_PAIRS, MessagePair};
use tickscope_bracket::Rho;
use tickscope_stamp::block::Policy;
use tickscope_store::{Evidence, LayoutText, SameBoot};
use tickscope_tick::{Clock, NameError, NodeName, Ordering, PointName, RealtimeInjection, Stairs};

use crate::failure::Failure;

/// One experiment, checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub name: String,
    pub seconds: f64,
    pub out: Option<PathBuf>,
    pub network: NetworkKind,
    pub reference: NodeName,
    pub rho: Rho,
    pub same_boot: SameBoot,
    pub cores: Cores,
    pub probes_hz: f64,
    pub probe_port: u16,
    pub pool_bytes: Option<u64>,
    pub nodes: Vec<Node>,
    pub layout: LayoutText,
    pub evidence: Evidence,
    pub slew: Slew,
    pub logs: Vec<Log>,
    pub policies: Vec<(String, Policy)>,
    pub overhead: OverheadSettings,
}

/// How `run --overhead` compares.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadSettings {
    /// Numbers of the commands' last lines; none: all that end in `_ns`.
    pub fields: Vec<String>,
    pub pairs: u32,
    /// Of a pass.
    pub seconds: f64,
}

impl Default for OverheadSettings {
    /// Under a minute, and an interval that leaves out the smallest and the largest difference.
    fn default() -> Self {
        Self { fields: Vec::new(), pairs: 10, seconds: 2.0 }
    }
}

/// A node and what runs there.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: NodeName,
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub ends_run: bool,
    pub inject: Option<Inject>,
    pub inject_realtime: Option<InjectRealtime>,
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
    /// Ticks that it moves by at once, as numerator and denominator.
    #[serde(default = "single_ticks")]
    pub step: [i64; 2],
    /// By how many ticks steps differ.
    #[serde(default)]
    pub uneven: i64,
}

fn single_ticks() -> [i64; 2] {
    [1, 1]
}

impl Inject {
    /// The values that the counter shows.
    pub fn stairs(&self) -> Result<Stairs, String> {
        let [numerator, denominator] = self.step;
        Stairs::new(numerator, denominator, self.uneven).ok_or_else(|| {
            format!(
                "expected inject.step = [numerator, denominator] of at least 1 and below 2^31, and inject.uneven from 0 and \
                 below a step, found step {:?} and uneven {}. Leave both out for single ticks",
                self.step, self.uneven
            )
        })
    }
}

/// How far a clock that somebody may set can run off the rate that the kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slew {
    /// What the clock monitor recommends at the end, with its reason.
    Auto,
    /// Declared.
    Declared(Rho),
}

/// A log of a program that read another clock, taken into the run at its end.
#[derive(Clone, Debug)]
pub struct Log {
    pub node: NodeName,
    pub point: PointName,
    pub file: String,
    pub clock: Clock,
    pub ordering: Ordering,
}

/// A known map before a node's `CLOCK_REALTIME`, in tests; times are seconds from the start.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InjectRealtime {
    pub offset_ns: i64,
    pub drift_ppb: i64,
    /// `{ at = seconds, ns = how far }`.
    pub steps: Vec<InjectStep>,
    /// `{ from = seconds, until = seconds, ppb = rate }`.
    pub slews: Vec<InjectSlew>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectStep {
    pub at: f64,
    pub ns: i64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectSlew {
    pub from: f64,
    pub until: f64,
    pub ppb: i64,
}

impl InjectRealtime {
    /// The map, with its times counted from `now_ns`.
    pub fn starting_at(&self, now_ns: i64) -> Result<RealtimeInjection, String> {
        let at = |seconds: f64| now_ns + (seconds * 1e9) as i64;
        let mut text = format!("{now_ns}:{}:{}:0:2", self.offset_ns, self.drift_ppb);
        for InjectStep { at: seconds, ns } in &self.steps {
            let _ = write!(text, ";step@{}:{ns}", at(*seconds)); // writing to a String cannot fail
        }
        for InjectSlew { from, until, ppb } in &self.slews {
            let _ = write!(text, ";slew@{}:{}:{ppb}", at(*from), at(*until));
        }
        text.parse().map_err(|e: tickscope_tick::InjectionError| e.to_string())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogTable {
    node: String,
    point: String,
    file: String,
    clock: String,
    #[serde(default = "plain")]
    ordering: String,
}

/// A log's readings are ordered against nothing, unless whoever wrote the program knows better.
fn plain() -> String {
    "plain".into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    run: RunTable,
    #[serde(default)]
    network: NetworkTable,
    clock: ClockTable,
    node: Vec<NodeTable>,
    layout: LayoutText,
    #[serde(default)]
    evidence: EvidenceTable,
    #[serde(default)]
    policies: BTreeMap<String, String>,
    #[serde(default)]
    log: Vec<LogTable>,
    #[serde(default)]
    overhead: OverheadSettings,
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
    name: String,
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    ends_run: bool,
    inject: Option<Inject>,
    inject_realtime: Option<InjectRealtime>,
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

impl Experiment {
    /// The kernel stamps one exchange of the probes in so many; 0: none.
    pub fn kernel_every(&self) -> u32 {
        /// About 100 a second at most: collecting a transmit stamp slows its sender, and more of them narrow nothing.
        const MOST_HZ: f64 = 100.0;
        if self.evidence.kernel_probes { (self.probes_hz / MOST_HZ).ceil().max(1.0) as u32 } else { 0 }
    }

    /// Reads and checks a run file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::input(format!("expected a run file at {}, found: {e}. experiments/demo.toml is one, docs/run-file.md says what may stand in it", path.display())))?;
        Self::parse(&text).map_err(|why| Failure::input(format!("{}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        let nodes: Vec<Node> = file.node.into_iter().map(node).collect::<Result<_, _>>()?;
        let reference = name("clock.reference", file.clock.reference)?;
        let experiment = Self {
            name: name::<PointName>("run.name", file.run.name)?.to_string(),
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
            policies: file.policies.into_iter().map(policy).collect::<Result<_, _>>()?,
            reference,
            nodes,
            layout: file.layout,
            evidence: file.evidence.into(),
            overhead: overhead(file.overhead)?,
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
        let layout = self.layout.parse(None).map_err(|e| format!("[layout] {e}"))?;
        match layout.points().iter().find(|point| !names.contains(&point.place.node.as_str())) {
            Some(point) => Err(format!(
                "[layout] expected a point of a node ({}), found '{}'. Correct it, or add the node",
                names.join(", "),
                point.place.to_string()
            )),
            None => Ok(()),
        }
    }

    /// A command with `{address}`, `{NODE.address}`, `{seconds}` and `{run}`, the run's directory, filled in.
    pub fn fill(&self, node: &Node, addresses: &BTreeMap<String, String>, run: &Path) -> Result<Vec<String>, Failure> {
        let fill = |word: &String| {
            let mut word = word.replace("{seconds}", &self.seconds.to_string());
            word = word.replace("{run}", &run.display().to_string());
            word = word.replace("{address}", &addresses[node.name.as_str()]);
            for (name, address) in addresses {
                word = word.replace(&format!("{{{name}.address}}"), address);
            }
            match word.contains('{') {
                true => Err(Failure::input(format!(
                    "node '{}': expected the placeholders {{address}}, {{NODE.address}}, {{seconds}} and {{run}}, found '{word}'. Correct it, or leave the braces out",
                    node.name
                ))),
                false => Ok(word),
            }
        };
        node.command.iter().map(fill).collect()
    }
}

fn name<T: TryFrom<String, Error = NameError>>(field: &str, text: String) -> Result<T, String> {
    text.try_into().map_err(|e| format!("{field}: {e}"))
}

fn node(table: NodeTable) -> Result<Node, String> {
    let name: NodeName = name("node.name", table.name)?;
    if table.command.is_empty() {
        return Err(format!(
            "node '{name}': expected a command, found an empty list. Give the program and its arguments"
        ));
    }
    if table.environment.contains_key(tickscope_tick::Injection::VARIABLE) {
        return Err(format!(
            "node '{name}': expected a known map in inject = {{ ... }}, found {} in environment. Move it there",
            tickscope_tick::Injection::VARIABLE
        ));
    }
    let (command, environment) = (table.command, table.environment);
    let (inject, inject_realtime) = (table.inject, table.inject_realtime);
    if let Some(wrong) = inject.as_ref().and_then(|inject| inject.stairs().err()) {
        return Err(format!("node '{name}': {wrong}"));
    }
    Ok(Node { name, command, environment, ends_run: table.ends_run, inject, inject_realtime })
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
        node: name("log.node", table.node)?,
        point: name("log.point", table.point)?,
        file: table.file,
        clock: clock.ok_or(wrong)?,
        ordering: table.ordering.parse().map_err(|e| format!("[[log]] {e}"))?,
    })
}

fn policy((glob, policy): (String, String)) -> Result<(String, Policy), String> {
    let wrong = format!("[policies] expected null or buffered for '{glob}', found '{policy}'. Choose one of them");
    Ok((glob, Policy::from_name(&policy).ok_or(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &str = include_str!("../../../experiments/demo.toml");

    #[test]
    fn the_demo_is_a_run_file() {
        let demo = Experiment::parse(DEMO).unwrap();
        assert_eq!((demo.nodes.len(), demo.rho.ppb(), demo.probes_hz), (2, 50_000, 1000.0));
        let addresses = BTreeMap::from([("client".into(), "c".into()), ("server".into(), "s".into())]);
        assert_eq!(demo.fill(&demo.nodes[1], &addresses, Path::new("r")).unwrap()[2..4], ["s", "7400"]);
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
            ("branches = [", "extra = [\"client.sent > sever.received\"]\nbranches = [", "sever.received"),
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
        assert!(
            demo.fill(&demo.nodes[1], &addresses, Path::new("r")).unwrap_err().to_string().contains("{sevrer.address}")
        );
    }
}

//! The run file: TOML, parsed into a [`Plan`] and checked once.
//!
//! Policies are a list, `[[policy]]`, whose first match decides. The table `[policies]` of earlier run files is
//! refused, with the list that says the same: a TOML table has no order, so which of two globs that both match would
//! decide was not in the file; and to read it only where no two can match would be a second rule to know.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tickscope_analysis::{FEWEST_PAIRS, MessagePair};
use tickscope_bracket::Rho;
use tickscope_stamp::policies::Choice;
use tickscope_store::{Event, Evidence, LayoutText, PolicyRule};
use tickscope_tick::NodeName;

use crate::Error;
use crate::environment;
use crate::network::MOST_NODES;
use crate::node_plan::{check_node, check_what_stamps};
use crate::plan::{DumpPlan, Link, NetworkKind, PairPlan, Plan, PlanOrigin, Slew, THIS_PROGRAM};
use crate::process::Forward;
use crate::storage_plan::StoragePlan;

/// Bytes of a run file; a longer one is none.
const MOST_BYTES: u64 = 1 << 20;

/// The `[layout]` of a TOML file; whatever else stands in it, as in a run file, is not looked at.
pub fn layout_of(path: &Path) -> Result<LayoutText, Error> {
    #[derive(Deserialize)]
    struct File {
        layout: LayoutText,
    }
    let name = path.display();
    let text = read_text(path).map_err(|e| {
        Error::input(format!("cannot read the layout {name}: {e}. docs/run-file.md says what may stand in it"))
    })?;
    let file: File =
        toml::from_str(&text).map_err(|e| Error::input(format!("{name}: {}", e.to_string().trim_end())))?;
    Ok(file.layout)
}

/// A run file that was read, and where its paths start from.
#[derive(Clone, Debug)]
pub struct RunText {
    /// What messages call it.
    pub name: String,
    /// Where it lies, from the file system's root on; `None`: it was read from standard input.
    pub place: Option<PathBuf>,
    /// Its text.
    pub text: String,
    /// The folder that its paths start from.
    pub folder: PathBuf,
}

impl RunText {
    /// Reads a run file. `-` is standard input; its paths start from the current directory.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let (name, text, place) = if path == Path::new("-") {
            ("the run file on standard input".into(), text_of(std::io::stdin()), None)
        } else {
            (path.display().to_string(), read_text(path), Some(path))
        };
        let text = text.map_err(|e| {
            Error::input(format!(
                "cannot read the run file {name}: {e}. `tickscope init` writes one to start from; `tickscope run -- \
                 COMMAND` needs none"
            ))
        })?;
        let folder = place.and_then(Path::parent).unwrap_or(Path::new(""));
        let folder =
            std::path::absolute(std::env::current_dir().unwrap_or_default().join(folder)).map_err(Error::work)?;
        let place = place.map(std::path::absolute).transpose().map_err(Error::work)?;
        Ok(Self { name, place, text, folder })
    }

    /// The machines of a checked run file without what runs on them: the same file, but no command, no point, no log.
    pub fn without_programs(self) -> Result<Self, Error> {
        /// What a run of nothing but clocks has.
        const KEPT: [&str; 6] = ["run", "network", "clock", "node", "evidence", "rivals"];
        const OF_PROGRAMS: [&str; 8] =
            ["command", "stamps", "environment", "ends_run", "ready", "ready_timeout", "files", "outputs"];
        let in_file = |why: &dyn std::fmt::Display| Error::input(format!("{}: {why}", self.name));
        let mut file: toml::Table = self.text.parse().map_err(|e: toml::de::Error| in_file(&e))?;
        if let Some(many) = ["sweep", "sustain"].into_iter().find(|many| file.contains_key(*many)) {
            return Err(in_file(&format!("expected a file of one run, found a [{many}]. Leave it out")));
        }
        if let Some([only]) = file.get("node").and_then(toml::Value::as_array).map(Vec::as_slice) {
            let name = only.get("name").and_then(toml::Value::as_str).unwrap_or("one");
            return Err(in_file(&format!(
                "expected two machines or more to relate, found '{name}' alone. Add the others"
            )));
        }
        Plan::of(&self)?;
        file.retain(|key, _| KEPT.contains(&key));
        let nodes = file.get_mut("node").and_then(toml::Value::as_array_mut).into_iter().flatten();
        nodes.filter_map(toml::Value::as_table_mut).for_each(|node| {
            node.retain(|key, _| !OF_PROGRAMS.contains(&key));
        });
        if let Some(evidence) = file.get_mut("evidence").and_then(toml::Value::as_table_mut) {
            evidence.remove("messages");
        }
        let text = toml::to_string(&file).map_err(Error::work)?;
        Ok(Self { text, ..self })
    }

    /// The machines of a checked run file, each with this same program for its command, which leaves one output.
    pub fn with_own_program(self, words: &[&str], output: &str) -> Result<Self, Error> {
        let file = self.without_programs()?;
        let mut table: toml::Table = file.text.parse().map_err(Error::work)?;
        table.remove("rivals");
        let command: Vec<&str> = [THIS_PROGRAM].into_iter().chain(words.iter().copied()).collect();
        let nodes = table.get_mut("node").and_then(toml::Value::as_array_mut).into_iter().flatten();
        nodes.filter_map(toml::Value::as_table_mut).for_each(|node| {
            node.insert("command".into(), command.clone().into());
            node.insert("outputs".into(), vec![output].into());
            node.insert("ends_run".into(), true.into());
        });
        let text = toml::to_string(&table).map_err(Error::work)?;
        Ok(Self { text, ..file })
    }
}

impl Plan {
    /// The checked plan of a run file.
    pub fn of(file: &RunText) -> Result<Self, Error> {
        let RunText { name, text, folder, .. } = file;
        let mut plan = Self::parse(text).map_err(|why| Error::input(format!("{name}: {why}")))?;
        plan.run.out = plan.run.out.map(|out| folder.join(out));
        plan.origin = PlanOrigin { folder: folder.clone(), text: Some(text.clone()), ..PlanOrigin::default() };
        Ok(plan)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut plan: Self = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        plan.check()?;
        plan.check_limits(text)?;
        plan.origin.text = Some(text.into());
        Ok(plan)
    }

    /// The plan of one command alone, run where the user is: a node that is named after its program.
    pub fn of_command(command: &[String]) -> Result<Self, Error> {
        let node = node_of(command);
        let text = format!(
            "run = {{ name = \"{node}\", seconds = 1 }}\nnetwork.kind = \"loopback\"\nclock.reference = \"{node}\"\n\
             [[node]]\nname = \"{node}\"\nends_run = true\ncommand = [\"{node}\"]\n"
        );
        let mut plan = Self::parse(&text).map_err(Error::work)?;
        plan.nodes[0].command = command.to_vec();
        let folder =
            std::env::current_dir().map_err(|e| Error::work(format!("cannot find the current directory: {e}")))?;
        plan.origin = PlanOrigin { folder, text: None, forward: Forward::Stdout, ..PlanOrigin::default() };
        Ok(plan)
    }

    /// Rules that span several fields.
    fn check(&self) -> Result<(), String> {
        within("run.seconds", self.run.seconds, 0.1, 1e6)?;
        within("clock.probes_hz", self.clock.probes_hz, 0.0, 100_000.0)?;
        within("clock.probe_share", self.clock.probe_share, 1e-4, 1.0)?;
        within("overhead.seconds", self.overhead.seconds, 0.1, 1e6)?;
        within("the number of nodes", self.nodes.len() as f64, 1.0, MOST_NODES as f64)?;
        within("overhead.pairs", self.overhead.pairs.into(), FEWEST_PAIRS.into(), 1e6)?;
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        for (position, name) in names.iter().enumerate() {
            if names[..position].contains(name) {
                return Err(format!("expected node names that differ, found '{name}' twice. Rename one"));
            }
        }
        if !names.contains(&self.clock.reference.as_str()) {
            let (reference, known) = (&self.clock.reference, names.join(", "));
            return Err(format!("expected clock.reference to be a node, found '{reference}'. The nodes are: {known}"));
        }
        if self.ends_by_time() && !self.nodes.iter().any(|node| node.command.is_empty()) {
            return Err(
                "expected a node with ends_run = true, found none. Mark the one whose command ends the run".into()
            );
        }
        self.check_network()?;
        self.check_clock_pairs(&names)?;
        self.nodes.iter().try_for_each(check_node)?;
        let bare = self.has_no_programs();
        self.nodes.iter().try_for_each(|node| check_what_stamps(node, bare))?;
        self.nodes.iter().try_for_each(|node| environment::check(&self.run, node))?;
        self.rivals.check()?;
        self.return_trip.check()?;
        self.storage.as_ref().map_or(Ok(()), StoragePlan::check)?;
        self.network.link.map_or(Ok(()), Link::check)?;
        self.logs.iter().try_for_each(|log| log.check(&self.nodes))?;
        self.dumps.iter().try_for_each(|dump| dump.check(&names))?;
        self.evidence.messages.iter().try_for_each(|text| self.check_messages(text, &names))?;
        self.check_common_host(&names)?;
        if !self.has_layout() {
            return Ok(());
        }
        let layout = self.layout.parse(None).map_err(|e| format!("[layout] {e}"))?;
        match layout.points().iter().find(|point| !names.contains(&point.place.node.as_str())) {
            Some(point) => Err(format!(
                "[layout] expected a point of a node ({}), found '{}'. Correct it, or add the node",
                names.join(", "),
                point.place
            )),
            None => Ok(()),
        }
    }

    /// Each limit is of a stage of the layout.
    fn check_limits(&self, text: &str) -> Result<(), String> {
        if self.limits.is_empty() {
            return Ok(());
        }
        let layout = self.has_layout().then(|| self.layout.parse(None)).transpose();
        self.limits.check(text, layout.map_err(|e| format!("[layout] {e}"))?.as_ref())
    }

    /// Each pair that has a rho of its own is of two nodes, and stands there once.
    fn check_network(&self) -> Result<(), String> {
        let elsewhere = self.nodes.iter().find(|node| !node.is_here());
        elsewhere.filter(|_| self.network.kind == NetworkKind::Namespaces).map_or(Ok(()), |node| {
            Err(format!(
                "network.kind = \"namespaces\": expected every node on this host, found connect of '{}'. Leave \
                 network.kind out: nodes that are reached by connect are in the network of their machines",
                node.name
            ))
        })
    }

    fn check_clock_pairs(&self, names: &[&str]) -> Result<(), String> {
        for (position, PairPlan { nodes, .. }) in self.clock.pairs.iter().enumerate() {
            let [one, other] = nodes;
            if let Some(unknown) = nodes.iter().find(|node| !names.contains(&node.as_str())) {
                let known = names.join(", ");
                return Err(format!(
                    "[[clock.pair]] expected nodes of the run ({known}), found '{unknown}'. Correct it"
                ));
            }
            let again = |earlier: &PairPlan| earlier.nodes.contains(one) && earlier.nodes.contains(other);
            if one == other || self.clock.pairs[..position].iter().any(again) {
                return Err(format!(
                    "[[clock.pair]] expected each pair of two nodes once, found '{one}' and '{other}'. Leave it out"
                ));
            }
        }
        Ok(())
    }

    /// Guests of one host are two nodes of the run or more, each named once.
    fn check_common_host(&self, names: &[&str]) -> Result<(), String> {
        let guests = &self.evidence.common_host;
        let strange = guests
            .iter()
            .enumerate()
            .find(|(position, guest)| !names.contains(&guest.as_str()) || guests[..*position].contains(guest));
        match (strange, guests.len()) {
            (Some((_, guest)), _) => Err(format!(
                "[evidence] common_host: expected nodes of the run ({}), each once, found '{guest}'. Correct it",
                names.join(", ")
            )),
            (None, 1) => Err(format!(
                "[evidence] common_host: expected two nodes of one host or more, found '{}' alone. Name the others, or \
                 leave it out",
                guests[0]
            )),
            _ => Ok(()),
        }
    }

    /// Messages are evidence about a node and the reference.
    fn check_messages(&self, text: &str, names: &[&str]) -> Result<(), String> {
        let pair: MessagePair = text.parse().map_err(|e| format!("[evidence] {e}"))?;
        let unknown = [&pair.from, &pair.to].into_iter().find(|place| !names.contains(&place.node.as_str()));
        if let Some(place) = unknown {
            let known = names.join(", ");
            return Err(format!("[evidence] expected a point of a node ({known}), found '{place}'. Correct it"));
        }
        let reference = &self.clock.reference;
        if [&pair.from.node, &pair.to.node].contains(&reference) {
            return Ok(());
        }
        Err(format!(
            "[evidence] expected messages to or from the reference '{reference}', found '{pair}'. Leave it out"
        ))
    }
}

impl DumpPlan {
    /// Its two points are of one node of the run: nothing relates the clocks of two while the run goes on.
    fn check(&self, names: &[&str]) -> Result<(), String> {
        let DumpPlan { from, to, .. } = self;
        if from.node != to.node || from == to {
            return Err(format!(
                "[[dump]] expected two points of one node, found '{from}' and '{to}'. Their ticks are compared while \
                 the run goes on: choose two of one node"
            ));
        }
        if !names.contains(&from.node.as_str()) {
            let known = names.join(", ");
            return Err(format!("[[dump]] expected points of a node ({known}), found '{from}'. Correct it"));
        }
        Ok(())
    }
}

/// Name of the node that runs a command: its program's, if a node may have it.
pub fn node_of(command: &[String]) -> NodeName {
    let program = command.first().and_then(|program| Path::new(program).file_stem()).unwrap_or_default();
    let named = NodeName::new(program.to_string_lossy()).ok().filter(|name| Event::expect_node(name).is_ok());
    named.unwrap_or_else(|| NodeName::new("node").expect("it is letters alone"))
}

/// Opens a file that has an end: no pipe, whose writer may never come, and no device.
pub(crate) fn open_regular(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    let found = match kind {
        kind if kind.is_file() => return Ok(file),
        kind if kind.is_dir() => return Err(std::io::ErrorKind::IsADirectory.into()),
        kind if kind.is_fifo() => "a pipe",
        _ => "a device",
    };
    Err(std::io::Error::other(format!("it is {found}")))
}

/// The text of a file that has no more than a run file may have.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    open_regular(path).and_then(text_of)
}

fn text_of(file: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    let bytes = file.take(MOST_BYTES + 1).read_to_string(&mut text)? as u64;
    if bytes > MOST_BYTES {
        return Err(std::io::Error::other(format!("it has more than {MOST_BYTES} bytes")));
    }
    Ok(text)
}

pub(crate) fn within(field: &str, found: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(format!("expected {field} from {least} to {most}, found {found}. Correct it in the run file"))
}

/// The address or the name of a host.
pub(crate) fn host<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let Some(host) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '%' | '[' | ']');
    if !host.is_empty() && host.chars().all(is_part) {
        return Ok(Some(host));
    }
    Err(D::Error::custom(format!(
        "expected the address or the name of a host, such as \"10.0.0.2\", found '{host}'. Correct it, or leave it \
         out: then its machine is asked"
    )))
}

/// Words that run a command where a node is; the first names a program.
pub(crate) fn way<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    match words(from)? {
        words if words.first().is_some_and(|program| program.trim().is_empty()) => Err(D::Error::custom(
            "expected a program as the first word, found an empty one. Write [\"ssh\", \"host2\"] for example, or \
             leave connect out",
        )),
        words => Ok(words),
    }
}

/// Words of a command, a string each.
pub(crate) fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let list = match toml::Value::deserialize(from)? {
        toml::Value::Array(list) => list,
        toml::Value::String(text) => {
            let words: Vec<String> = text.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            return Err(D::Error::custom(format!(
                "expected a list of words, found the string '{text}'. Write each word in quotes of its own: [{}]",
                words.join(", ")
            )));
        }
        other => {
            return Err(D::Error::custom(format!(
                "expected a list of words, found {other}. Write [\"ssh\", \"host2\"]"
            )));
        }
    };
    let word = |value: toml::Value| match value {
        toml::Value::String(word) => Ok(word),
        other => Err(D::Error::custom(format!("expected a word in quotes, found {other}. Write \"{other}\""))),
    };
    list.into_iter().map(word).collect()
}

pub(crate) fn rho<'de, D: Deserializer<'de>>(from: D) -> Result<Rho, D::Error> {
    let text = match toml::Value::deserialize(from)? {
        toml::Value::String(text) => text,
        toml::Value::Integer(ppm) => ppm.to_string(),
        toml::Value::Float(ppm) => ppm.to_string(),
        other => {
            return Err(D::Error::custom(format!(
                "expected a preset or a number of ppm, found {other}. Write \"server-room\" or 1 for example"
            )));
        }
    };
    text.parse().map_err(D::Error::custom)
}

pub(crate) fn slew<'de, D: Deserializer<'de>>(from: D) -> Result<Slew, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::String(text) if text == "auto" => Ok(Slew::Auto),
        value => rho(value).map(Slew::Declared).map_err(D::Error::custom),
    }
}

pub(crate) fn evidence<'de, D: Deserializer<'de>>(from: D) -> Result<Evidence, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        probes: Option<bool>,
        kernel_probes: Option<bool>,
        #[serde(default)]
        messages: Vec<String>,
        #[serde(default)]
        common_host: Vec<NodeName>,
    }
    let (default, table) = (Evidence::default(), Table::deserialize(from)?);
    let probes = table.probes.unwrap_or(default.probes);
    let kernel_probes = probes && table.kernel_probes.unwrap_or(default.kernel_probes);
    Ok(Evidence { probes, kernel_probes, messages: table.messages, common_host: table.common_host })
}

/// A length of time in nanoseconds, as `keep` of a policy has it.
pub(crate) fn span<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    let choice = format!("keep {text}").parse::<Choice>();
    choice.map(Choice::parameter).map_err(|_| {
        D::Error::custom(format!("expected a time from 1us to 24h, found '{text}'. Write \"10ms\" for example"))
    })
}

pub(crate) fn policies<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PolicyRule>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        channels: String,
        policy: String,
    }
    let rule = |Table { channels, policy }| {
        let wrong = |wrong| D::Error::custom(format!("policy of '{channels}': {wrong}"));
        let known: Choice = policy.parse().map_err(wrong)?;
        Ok(PolicyRule { channels, policy: known.to_string() })
    };
    Vec::<Table>::deserialize(from)?.into_iter().map(rule).collect()
}

pub(crate) fn refuse_table<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
    let rule = |(glob, policy)| format!("\n\n[[policy]]\nchannels = {}\npolicy = {policy}", toml::Value::String(glob));
    let rules: String = toml::Table::deserialize(from)?.into_iter().map(rule).collect();
    let mend = "Write, in the order that you mean:";
    Err(D::Error::custom(format!("policies are a list now, whose first match decides. {mend}{rules}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{SustainPlan, SweepPlan};
    use std::collections::BTreeSet;
    use tickscope_store::{Codec, Encoding};

    const DEMO: &str = include_str!("../../../experiments/demo.toml");

    #[test]
    fn every_file_in_experiments_is_a_plan() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        for file in std::fs::read_dir(folder).unwrap() {
            let file = RunText::read(&file.unwrap().path()).unwrap();
            if SweepPlan::of(&file).unwrap().is_none() && SustainPlan::of(&file).unwrap().is_none() {
                Plan::of(&file).unwrap();
            }
        }
    }

    #[test]
    fn the_demo_is_a_run_file() {
        let demo = Plan::parse(DEMO).unwrap();
        assert_eq!((demo.nodes.len(), demo.clock.rho.ppb(), demo.clock.probes_hz), (2, 50_000, 1000.0));
        assert_eq!(demo.fill(&demo.nodes[1], &addresses(), "r").unwrap()[2..4], ["s", "7400"]);
    }

    #[test]
    fn nodes_elsewhere_are_in_no_namespace_of_this_host() {
        let elsewhere =
            DEMO.replacen("name = \"server\"", "name = \"server\"\nconnect = [\"env\"]\naddress = \"127.0.0.2\"", 1);
        let both = elsewhere.replacen("kind = \"auto\"", "kind = \"namespaces\"", 1);
        assert!(elsewhere != DEMO && both != elsewhere);
        let why = Plan::parse(&both).unwrap_err().to_string();
        assert!(why.contains("connect of 'server'") && why.contains("Leave network.kind out"), "{why}");
        Plan::parse(&elsewhere).unwrap();
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
            ("kind = \"auto\"", "link = { mbit = 0, queue_ms = 5 }", "expected network.link mbit from 1"),
            ("kind = \"auto\"", "link = { mbit = 5, queue_ms = 50000 }", "expected network.link queue_ms from 1"),
            ("name = \"server\"", "name = \"client\"", "twice"),
            ("name = \"demo\"", "name = \"a/b\"", "expected the name of a run"),
            ("name = \"server\"", "name = \"host\"", "expected a node's name, found 'host'"),
            ("name = \"server\"", "name = \"run\"", "expected a node's name, found 'run'"),
            ("[layout]", "[layuot]", "layuot"),
            ("command = [", "command = [\"\", ", "as the first word of command, found ''"),
        ] {
            assert!(DEMO.contains(right), "{right}");
            let error = Plan::parse(&DEMO.replacen(right, wrong, 1)).unwrap_err();
            assert!(error.contains(said), "{right} -> {wrong}: {error}");
        }
    }

    #[test]
    fn segments_are_encoded_as_the_run_file_says_and_by_default_as_a_collector_would() {
        let default = Plan::parse(DEMO).unwrap().segments;
        assert_eq!(default.encoding(), Encoding::on_all_processors());
        let asked = format!("{DEMO}\n[segments]\ncodec = \"lz4\"\nencoders = 3\n");
        let Encoding { codec, encoders } = Plan::parse(&asked).unwrap().segments.encoding();
        assert_eq!((codec, encoders.get()), (Codec::Lz4, 3));
        for (right, wrong, said) in [("lz4", "gzip", "`none`, `zstd`, `lz4`"), ("= 3", "= 0", "nonzero")] {
            let error = Plan::parse(&asked.replace(right, wrong)).unwrap_err();
            assert!(error.contains(said), "{error}");
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
        for text in tickscope_stamp::policies::FORMS {
            let text = text.replace("[MARKER]", "-1").replace("DURATION", "5s").replace("PERIOD", "10ms");
            let text = text.replace("N", "100").replace("X", "2").replace("Y", "1024");
            let plan = Plan::parse(&format!("{DEMO}{}", list.replace("null", &text))).unwrap();
            assert_eq!(plan.policies[0].policy, text);
        }
        for (wrong, said) in [("every", "every N"), ("4 of 4", "X is below Y"), ("keep 10", "10ms or 5s")] {
            let why = Plan::parse(&format!("{DEMO}{}", list.replace("null", wrong))).unwrap_err();
            assert!(why.contains("policy of 'z*'") && why.contains(said) && why.contains(wrong), "{why}");
        }
        for wrong in [list.replace("null", "nil"), list.replace("channels", "channel")] {
            assert!(Plan::parse(&format!("{DEMO}{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_full_pool_and_a_dump_are_declared_and_what_they_cannot_be_is_refused() {
        let full = |word: &str| Plan::parse(&DEMO.replacen("[run]\n", &format!("[run]\nwhen_full = \"{word}\"\n"), 1));
        for word in ["drop", "wait", "overwrite"] {
            assert_eq!(full(word).unwrap().run.when_full.map(crate::plan::WhenFull::name), Some(word));
        }
        assert!(full("block").unwrap_err().contains("overwrite"));
        let dump = |from: &str, to: &str, above: &str| {
            Plan::parse(&format!("{DEMO}\n[[dump]]\nfrom = \"{from}\"\nto = \"{to}\"\nabove = \"{above}\"\n"))
        };
        assert_eq!(dump("client.send", "client.response", "10ms").unwrap().dumps[0].above, 10_000_000);
        for (from, to, above, said) in [
            ("client.send", "server.reply", "1ms", "two points of one node"),
            ("client.send", "client.send", "1ms", "two points of one node"),
            ("other.a", "other.b", "1ms", "a node (server, client)"),
            ("client", "client.b", "1ms", "client"),
            ("client.a", "client.b", "10", "a time from 1us to 24h, found '10'"),
        ] {
            let why = dump(from, to, above).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn guests_of_one_host_are_nodes_of_the_run_each_once_and_none_by_default() {
        let parse = |guests: &str| {
            let node = |name| format!("[[node]]\nname = \"{name}\"\ncommand = [\"true\"]\nends_run = true\n");
            let nodes: String = ["a", "b", "c"].map(node).concat();
            let head = "run = { name = \"t\", seconds = 1 }\nclock.reference = \"a\"";
            Plan::parse(&format!("{head}\n{guests}\n{nodes}"))
        };
        let of = |guests| parse(&format!("evidence.common_host = {guests}"));
        assert!(parse("").unwrap().evidence.common_host.is_empty());
        let names = |plan: Plan| plan.evidence.common_host.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(of("[\"a\", \"c\"]").unwrap()), ["a", "c"]);
        for (guests, said) in [
            ("[\"a\"]", "two nodes of one host or more, found 'a' alone"),
            ("[\"a\", \"x\"]", "nodes of the run (a, b, c), each once, found 'x'"),
            ("[\"a\", \"a\"]", "each once, found 'a'"),
            ("true", "invalid type"),
        ] {
            let why = of(guests).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn every_two_nodes_are_a_pair_once_and_a_round_has_each_node_once() {
        for count in 1..=33 {
            let node = |at: usize| format!("[[node]]\nname = \"n{at}\"\ncommand = [\"true\"]\nends_run = true\n");
            let nodes: String = (0..count).map(node).collect();
            let reference = count / 2;
            let text = format!("run = {{ name = \"t\", seconds = 1 }}\nclock.reference = \"n{reference}\"\n{nodes}");
            let pairs: Vec<_> = Plan::parse(&text).unwrap().probe_pairs().collect();
            let either: BTreeSet<_> =
                pairs.iter().map(|p| (p.asker.min(p.answerer), p.asker.max(p.answerer))).collect();
            assert_eq!((pairs.len(), either.len()), (count * (count - 1) / 2, pairs.len()), "{count} nodes");
            for round in pairs.chunks((count / 2).max(1)) {
                let busy: BTreeSet<_> = round.iter().flat_map(|pair| [pair.asker, pair.answerer]).collect();
                assert_eq!(busy.len(), 2 * round.len(), "{count} nodes");
            }
            let asks = |node| pairs.iter().filter(|pair| pair.asker == node).count();
            assert_eq!(asks(reference), count - 1);
            let others = (0..count).filter(|&node| node != reference).map(asks);
            let (least, most) = others.fold((usize::MAX, 0), |(least, most), asks| (least.min(asks), most.max(asks)));
            assert!(count == 1 || most - least <= 2, "{count} nodes: {least} to {most}");
        }
    }

    #[test]
    fn machines_alone_have_no_programs_and_none_of_what_these_need() {
        let text = "run = { name = \"t\", seconds = 1 }\nclock.reference = \"a\"\nevidence.messages = [\"a.x > b.y\"]\n\
                    layout.path = [\"a.x\", \"b.y\"]\n\
                    [[node]]\nname = \"a\"\ncommand = [\"true\"]\nends_run = true\nready = 7400\n\
                    [[node]]\nname = \"b\"\nstamps = \"/srv/stamps\"\nenvironment = { A = \"1\" }\n\
                    inject = { offset = 1, drift_ppb = 2, wander_ppb = 0, wander_period = 1000 }\n\
                    [[log]]\nnode = \"a\"\npoint = \"p\"\nfile = \"f\"\nclock = \"counter\"\nordering = \"plain\"\n";
        let file = |text: &str| RunText { name: "f.toml".into(), place: None, text: text.into(), folder: "/".into() };
        let plan = Plan::of(&file(text).without_programs().unwrap()).unwrap();
        assert!(plan.has_no_programs() && plan.ends_by_time() && !plan.has_layout() && plan.logs.is_empty());
        assert!(plan.evidence.messages.is_empty() && plan.nodes[1].inject.is_some_and(|inject| inject.drift_ppb == 2));
        let one = &text[..text.find("[[node]]\nname = \"b\"").unwrap()].replace("b.y", "a.z");
        for (text, said) in [
            (one.replace("evidence.messages = [\"a.x > a.z\"]\n", ""), "two machines or more"),
            (format!("{text}[sweep]\n"), "found a [sweep]"),
            (text.replace("seconds = 1", "seconds = -1"), "run.seconds"),
        ] {
            let why = file(&text).without_programs().unwrap_err().to_string();
            assert!(why.contains(said) && why.starts_with("f.toml"), "{said}: {why}");
        }
        // Beside a machine with a program each has one.
        let half = text.replace("stamps = \"/srv/stamps\"\n", "");
        assert!(Plan::parse(&half).unwrap_err().contains("node 'b': expected a command"));
    }

    #[test]
    fn a_node_has_a_command_or_a_directory_that_others_stamp_into() {
        let plan = |node: &str| {
            let node = format!("[[node]]\nname = \"a\"\n{node}\n");
            Plan::parse(&format!("run = {{ name = \"t\", seconds = 1 }}\nclock.reference = \"a\"\n{node}"))
        };
        let beside = plan("stamps = \"/srv/stamps\"").unwrap();
        assert!(beside.ends_by_time() && beside.stamps_of(&beside.nodes[0].name) == Some(Path::new("/srv/stamps")));
        let both = plan("stamps = \"/srv/stamps\"\ncommand = [\"true\"]\nends_run = true").unwrap();
        assert!(!both.ends_by_time());
        for (node, said) in [
            ("", "stamps = its TICKSCOPE_DIR"),
            ("command = []", "stamps = its TICKSCOPE_DIR"),
            ("stamps = \"stamps\"", "from the file system's root on"),
            ("stamps = \"/s\"\nends_run = true", "leave ends_run out"),
            ("stamps = \"/s\"\nready = 7400", "leave ready out"),
            ("stamps = \"/s\"\ncommand = [\"true\"]", "Mark the one whose command ends the run"),
            ("stamps = \"/s\"\nconnect = [\"env\"]\ndeadline = -1.0", "expected deadline from 1"),
            ("stamps = \"/s\"\nconnect = [\"env\"]\ndeadline = inf", "expected deadline from 1"),
            ("stamps = \"/s\"\nconnect = [\"env\"]\ndeadline = nan", "expected deadline from 1"),
            ("stamps = \"/s\"\ndeadline = 5", "deadline needs connect"),
            ("stamps = \"/s\"\nspool_mb = 5", "spool_mb needs connect"),
            ("stamps = \"/s\"\nagent = \"/bin/x\"", "agent needs connect"),
            ("stamps = \"/s\"\nfiles = [\"x\"]", "files needs connect"),
            ("stamps = \"/s\"\nconnect = \"ssh host2\"", "[\"ssh\", \"host2\"]"),
            ("command = \"sleep 1\"", "[\"sleep\", \"1\"]"),
            ("command = [\"sleep\", 1]", "Write \"1\""),
            ("command = [\"true\"]\nconnect = [\"\"]", "a program as the first word"),
            ("command = [\"true\"]\nconnect = [\" \", \"host2\"]", "a program as the first word"),
            ("command = [\"true\"]\naddress = \"not an address\"", "found 'not an address'"),
            ("command = [\"true\"]\nprobe_address = \"\"", "the name of a host"),
        ] {
            let error = plan(node).unwrap_err();
            assert!(error.contains(said), "{node}: {error}");
        }
    }

    #[test]
    fn a_pair_of_nodes_may_have_a_rho_of_its_own() {
        let more = |name| format!("\n[[node]]\nname = \"{name}\"\ncommand = [\"true\"]\n");
        let with = |pairs: &str| Plan::parse(&format!("{DEMO}{}{pairs}", more("a")));
        let pair = |one, other| format!("\n[[clock.pair]]\nnodes = [\"{one}\", \"{other}\"]\nrho = \"lab\"\n");
        let clock = with(&pair("a", "server")).unwrap().clock;
        let [a, client, server] = ["a", "client", "server"].map(|name| NodeName::new(name).unwrap());
        let ppb = [(&server, &a), (&a, &server), (&client, &a)].map(|(one, other)| clock.rho_of(one, other).ppb());
        assert_eq!(ppb, [200, 200, 50_000]);
        for (wrong, why) in [
            (pair("a", "nobody"), "found 'nobody'"),
            (pair("a", "a"), "each pair of two nodes once"),
            (pair("a", "server") + &pair("server", "a"), "each pair of two nodes once"),
        ] {
            let error = with(&wrong).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    fn addresses() -> std::collections::BTreeMap<NodeName, String> {
        [("client", "c"), ("server", "s")].map(|(node, at)| (NodeName::new(node).unwrap(), at.into())).into()
    }
}

//! `run.json`: what the run was, on which machines, and which assumptions its figures stand on.
//!
//! Assumes: one writer at a time. Guarantees: what was read is valid: names, domains and the schema are checked once,
//! while reading; fields of a later version of the same schema are kept out of the way. Deliberately absent: results,
//! but for what measuring cost.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tickscope_bracket::Rho;
use tickscope_tick::{BootId, Clock, Label, NodeName, Ordering, Place, PointName};
use tickscope_trace::LayoutText;

use crate::SCHEMA;
use crate::codec::EncodingChoice;
use crate::cost::Cost;
use crate::digests::Digest;
use crate::error::{Error, Result};
use crate::whole_file::{read_text, write_whole};

/// The contents of `run.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the run directory.
    pub schema: u32,
    /// Random identity of the run.
    #[serde(with = "hexadecimal")]
    pub run: u64,
    /// Version of the tickscope that began it.
    pub tickscope: String,
    /// When it began, milliseconds since the epoch of Unix, by an ordinary clock: a label, no measurement.
    pub started_unix_ms: i64,
    /// When it ended; absent while it goes on, or if it was cut off.
    #[serde(default)]
    pub ended_unix_ms: Option<i64>,
    /// Machines taking part.
    pub nodes: Vec<Node>,
    /// The domain that durations are expressed in, `node.counter`.
    pub reference: Label,
    /// How far rates may be off, for each pair of domains.
    #[serde(default)]
    pub rho: Vec<RhoDeclaration>,
    /// Sources of evidence between nodes.
    #[serde(default)]
    pub evidence: Evidence,
    /// Treatment of nodes that turn out to share one kernel.
    #[serde(default)]
    pub same_boot: SameBoot,
    /// Points that were stamped.
    #[serde(default)]
    pub points: Vec<Point>,
    /// Which channels keep what, the first match decides.
    #[serde(default)]
    pub policies: Vec<PolicyRule>,
    /// Durations within a node that have what `keep` holds stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dumps: Vec<DumpRule>,
    /// How long stages may take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitRule>,
    /// How an id passes the points.
    #[serde(default)]
    pub layout: LayoutText,
    /// Assumptions that the figures stand on.
    #[serde(default)]
    pub assumptions: Vec<Assumption>,
    /// How long it is to measure, seconds; absent in older runs, which have what their run file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// When it began, by a clock that nobody sets; absent in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<SinceBoot>,
    /// The window of stamps that the run keeps, milliseconds; absent: it keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// Address in object storage that the run goes to, segments straight from nodes elsewhere; absent: it stays here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// How its collectors encode segments; absent: as by default.
    #[serde(default, skip_serializing_if = "EncodingChoice::is_default")]
    pub segments: EncodingChoice,
    /// The cost of measuring to the target; absent in runs that did not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Directories of shared memory, by node, whose stamps this run has not taken yet; none once all is stored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stamp_directories: BTreeMap<NodeName, PathBuf>,
    /// Sessions of agents elsewhere, by node, that may hold stamps which this run has not taken yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sessions: BTreeMap<NodeName, String>,
    /// The run file as it was read; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_file: Option<String>,
    /// The directory that the paths in it start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_file_directory: Option<PathBuf>,
    /// Revision of the repository that the run file lies in, with `-dirty` if it was changed since; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// A window of stamps in words: `30m`.
pub fn window_text(ms: u64) -> String {
    let whole = |unit: u64| ms.is_multiple_of(unit).then(|| ms / unit);
    match (whole(3_600_000), whole(60_000)) {
        (Some(hours), _) => format!("{hours}h"),
        (_, Some(minutes)) => format!("{minutes}m"),
        _ => format!("{}s", ms as f64 / 1e3),
    }
}

/// A machine, container or namespace taking part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Boot of its kernel.
    pub boot: BootId,
    /// Model of its processor, as the kernel names it.
    pub cpu_model: String,
    /// Release of its kernel.
    pub kernel: String,
    /// The name that its kernel has for the machine; absent in runs that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The counter that its stamps were read from.
    pub counter: CounterFacts,
    /// The command that was run there.
    #[serde(default)]
    pub command: Vec<String>,
    /// The known map that its counters were read through, in tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected: Option<String>,
    /// How wide the readings of its other clocks are, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clocks: BTreeMap<String, ReadingWidth>,
}

/// Facts about a node's counter.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CounterFacts {
    /// Which counter.
    pub counter: Clock,
    /// True if the processor says that it runs at one rate in every power state.
    pub invariant: bool,
    /// The kernel's clock source.
    pub clocksource: String,
    /// The hypervisor, if there is one.
    #[serde(default)]
    pub hypervisor: Option<String>,
    /// What the hypervisor lets the node see of time, a sentence a device; none where there is no such device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hypervisor_clocks: Vec<String>,
    /// True if reading it traps into a hypervisor.
    pub trapped: bool,
    /// True if the processor says that the fence around ordered readings waits for what precedes; absent: nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_serialises: Option<bool>,
    /// How fast it is declared to run.
    pub frequency: DeclaredFrequency,
    /// How well the cores are known to share it.
    pub sharing: Sharing,
    /// How wide its readings are; absent only in runs of schema 1 that did not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<ReadingWidth>,
}

/// How wide the readings of a clock are: one that says `n` leaves open where in `[n, n + width_ticks)` the clock stood.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadingWidth {
    /// In ticks of that clock.
    pub width_ticks: u64,
    /// How its steps were seen, in words.
    pub seen: String,
}

/// An instant of the machine that conducts the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SinceBoot {
    /// Its boot id.
    pub boot: BootId,
    /// Milliseconds since it started, suspended ones included.
    pub ms: u64,
}

/// A rate and where it came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeclaredFrequency {
    /// Ticks a second.
    pub hertz: u64,
    /// How far the true rate may be off, parts per million either way.
    pub tolerance_ppm: u32,
    /// `declared`, `kernel`, `default`, ...
    pub origin: String,
}

/// How far the cores of a node are known to read one counter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sharing {
    /// The proven bound: two cores differ by at most so many ticks; absent: not checked.
    pub bound_ticks: Option<u64>,
    /// How it was checked.
    pub checked: String,
}

impl Sharing {
    /// Of stamps that other programs took.
    pub const IMPORTED: &str = "imported, and checked by nobody";
}

/// How far the rate of one domain may wander against another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RhoDeclaration {
    /// The reference.
    pub reference: Label,
    /// The other domain.
    pub domain: Label,
    /// Parts per billion of the nominal ratio, both oscillators together.
    pub ppb: u64,
    /// The preset's name, or where the number came from, in words.
    pub origin: String,
    /// The same for programs; absent in runs that tell it by the words alone ([`RhoDeclaration::kind`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RhoKind>,
}

/// Where a rho came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RhoKind {
    /// Nobody declared anything else.
    Default,
    /// A preset, which `origin` names.
    Preset,
    /// The run file's number.
    Declared,
    /// The clock monitor's.
    Watched,
    /// A kind of a later version.
    #[serde(other)]
    Other,
}

/// Treatment of nodes whose kernels turn out to be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SameBoot {
    /// They share their counter; no brackets are needed.
    #[default]
    Detect,
    /// They are treated as strangers: for experiments that know the truth.
    Ignore,
}

/// Sources of evidence between the counters of two nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The exchanges of tickscope's own probes.
    pub probes: bool,
    /// The kernel's time-stamps of a sample of those exchanges.
    pub kernel_probes: bool,
    /// Pairs of points of two nodes, `node.point > node.point`, that every id passes once: declared, not checked
    /// further than that no id was stamped twice there.
    pub messages: Vec<String>,
    /// Nodes that are guests of one host, whose clock each of them reads: declared, checked by nobody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub common_host: Vec<NodeName>,
}

impl Default for Evidence {
    fn default() -> Self {
        Self { probes: true, kernel_probes: true, messages: Vec::new(), common_host: Vec::new() }
    }
}

/// A place in code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its node.
    pub node: NodeName,
    /// Its name.
    pub name: PointName,
    /// The order of its stamps against the code around them.
    pub ordering: Ordering,
    /// Which of the node's clocks it was stamped with, by name; absent: its counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Clock>,
    /// How coarsely a log gives its readings, in ticks of that clock: the clock may have read as much less or more.
    /// Absent: as the clock was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_ticks: Option<u64>,
}

/// A policy and the channels it is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyRule {
    /// Glob over the names of points.
    pub channels: String,
    /// The policy with its parameter, as a run file names it.
    pub policy: String,
}

/// A duration that has what `keep` holds stored where it is longer than a limit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DumpRule {
    /// The point that it begins at.
    pub from: Place,
    /// The point that it ends at, of the same node.
    pub to: Place,
    /// The limit, ns.
    pub above_ns: u64,
}

/// How long a stage may take, or must.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LimitRule {
    /// The name that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The stage, as the layout names it.
    pub stage: String,
    /// No duration may be longer, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_ns: Option<u64>,
    /// No duration may be shorter, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_ns: Option<u64>,
    /// The share of traces that must keep it, parts per billion.
    #[serde(default = "LimitRule::all")]
    pub share_ppb: u32,
}

/// A sentence that the figures stand on, and where it came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Assumption {
    /// The assumption, as a sentence.
    pub statement: String,
    /// `declared`, `default`, `checked`, ...
    pub origin: String,
    /// Which assumption it is, where the analysis acts on it; absent in runs that tell it by the origin alone
    /// ([`Manifest::cores_proved`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<AssumptionKind>,
}

/// An assumption that the analysis acts on, or knows to matter to some runs only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssumptionKind {
    /// Stages carry what the check of the cores leaves open.
    CoresProved,
    /// What joins the nodes.
    Network,
    /// Nobody on the way forges datagrams, and peers are honest.
    Peers,
    /// No live migration and no suspend.
    NeverMoved,
    /// The outcome of a check.
    Checked,
    /// A kind of a later version.
    #[serde(other)]
    Other,
}

impl LimitRule {
    /// The share of every trace.
    pub const ALL_PPB: u32 = 1_000_000_000;

    fn all() -> u32 {
        Self::ALL_PPB
    }
}

impl Node {
    /// The domain that its stamps are read from.
    pub fn domain(&self) -> Label {
        Label { node: self.name.clone(), clock: self.counter.counter }
    }
}

impl Point {
    /// Where it is.
    pub fn place(&self) -> Place {
        Place { node: self.node.clone(), point: self.name.clone() }
    }
}

/// The words by which runs without `kind` say the same; nothing else recognises a sentence.
mod words {
    pub(super) const DEFAULT_RHO: &str = "default";
    pub(super) const CORES_PROVED: &str = "declared: proved, term added";
    pub(super) const KINDS: [(&str, super::AssumptionKind); 4] = [
        ("the nodes are ", super::AssumptionKind::Network),
        ("peers are honest", super::AssumptionKind::Peers),
        ("no live migration", super::AssumptionKind::NeverMoved),
        ("cores looked at again", super::AssumptionKind::Checked),
    ];
}

impl RhoDeclaration {
    /// Where it came from.
    pub fn kind(&self) -> RhoKind {
        self.kind.unwrap_or_else(|| match self.origin.as_str() {
            words::DEFAULT_RHO => RhoKind::Default,
            origin if Rho::PRESETS.iter().any(|(name, _)| *name == origin) => RhoKind::Preset,
            _ => RhoKind::Declared,
        })
    }
}

impl Assumption {
    /// Which one it is; `None` where nothing tells.
    pub fn kind(&self) -> Option<AssumptionKind> {
        let by_words = || words::KINDS.iter().find(|(start, _)| self.statement.starts_with(start));
        self.kind.or_else(|| by_words().map(|(_, kind)| *kind))
    }

    /// Makes the analysis add what the check of the cores leaves open.
    pub fn cores_proved() -> Self {
        let statement = "stages carry what the check of the cores leaves open, those between nodes that of both".into();
        Self { statement, origin: words::CORES_PROVED.into(), kind: Some(AssumptionKind::CoresProved) }
    }
}

impl Manifest {
    /// Returns whether the run adds to its figures what the check of its cores leaves open.
    pub fn cores_proved(&self) -> bool {
        let proved = |one: &Assumption| match one.kind {
            Some(kind) => kind == AssumptionKind::CoresProved,
            None => one.origin == words::CORES_PROVED,
        };
        self.assumptions.iter().any(proved)
    }

    /// Reads `run.json` at `place`; refuses what is torn, foreign or of a later schema.
    pub fn read(place: &Path) -> Result<Self> {
        let text = read_text(place, Self::BYTES).map_err(|e| Error::io(place, "open", e))?;
        let json: serde_json::Value = serde_json::from_str(&text)
            .map_err(|e| Error::corrupt(place, "a complete JSON document", e.to_string()))?;
        // The number comes first: a later schema may differ in everything else.
        let schema = json.get("schema").and_then(serde_json::Value::as_u64);
        match schema {
            None => Err(Error::foreign(place, "a JSON object with a number 'schema'", "none")),
            Some(0) => Err(Error::foreign(place, "a schema from 1", "0")),
            Some(later) if later > u64::from(SCHEMA) => Err(Error::newer(place, "schema", SCHEMA, later)),
            Some(known) => {
                let manifest: Self = serde_json::from_value(json)
                    .map_err(|e| Error::corrupt(place, format!("a manifest of schema {known}"), e.to_string()))?;
                manifest.refuse_unmeasured(place)?;
                manifest.refuse_repetitions(place)?;
                Ok(manifest)
            }
        }
    }

    /// Since schema 2 the width of a counter's readings is measured, and no longer assumed.
    fn refuse_unmeasured(&self, place: &Path) -> Result<()> {
        let unmeasured = self.nodes.iter().find(|node| self.schema >= 2 && node.counter.reading.is_none());
        let wrong = |node: &Node| {
            let found = format!("none of {}: did its counter stand still?", node.name);
            Error::corrupt(place, "counter.reading of every node, as schema 2 asks", found)
        };
        unmeasured.map_or(Ok(()), |node| Err(wrong(node)))
    }

    /// Bytes that a `run.json` has at most.
    const BYTES: u64 = 16 << 20;
    /// Nodes that a run has at most: every pair of them may be asked for.
    const NODES: usize = 1000;

    /// Two entries of the same name would leave it to the order which of them holds.
    fn refuse_repetitions(&self, place: &Path) -> Result<()> {
        if self.nodes.len() > Self::NODES {
            return Err(Error::corrupt(place, format!("at most {} nodes", Self::NODES), self.nodes.len()));
        }
        if let Some(twice) = repeated(self.nodes.iter().map(|node| node.name.to_string())) {
            return Err(Error::corrupt(place, "every node once", format!("{twice} twice")));
        }
        // Either way round it is one pair.
        let pairs = self.rho.iter().map(|rho| {
            let mut pair = [rho.domain.to_string(), rho.reference.to_string()];
            pair.sort();
            let [one, other] = pair;
            format!("{other} against {one}")
        });
        match repeated(pairs) {
            Some(twice) => Err(Error::corrupt(place, "one rho a pair of domains", format!("two of {twice}"))),
            None => Ok(()),
        }
    }

    /// Writes `run.json` at `place`, whole, with the digest of its own text as its last key.
    pub fn write(&self, place: &Path) -> Result<()> {
        self.refuse_unmeasured(place)?;
        write_whole(place, self.text().as_bytes())
    }

    /// The text of `run.json`.
    pub fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a manifest of text and numbers is JSON");
        let body = text.trim_end_matches("\n}");
        format!("{body}{OWN}{}\"\n}}\n", own_digest(body))
    }

    /// What is wrong with the text of the `run.json` at `place`: other text than was written. Earlier versions wrote no
    /// digest into it.
    pub(crate) fn fault(place: &Path) -> Option<Error> {
        let text = match read_text(place, Self::BYTES) {
            Ok(text) => text,
            Err(e) => return Some(Error::io(place, "read", e)),
        };
        let (body, rest) = text.rsplit_once(OWN)?;
        let expected = own_digest(body);
        let intact =
            rest.strip_prefix(&expected).is_some_and(|rest| rest.split_whitespace().collect::<String>() == "\"}");
        (!intact).then(|| Error::changed(place, "the text that was written, by its own digest", "another"))
    }
}

/// The last key of `run.json`, up to its value.
const OWN: &str = ",\n  \"own\": \"";

/// The digest of all the text before it.
fn own_digest(body: &str) -> String {
    let mut own = Digest::default();
    own.write(body.as_bytes());
    format!("{:032x}", own.finish_128())
}

/// The first name that came before.
fn repeated(names: impl Iterator<Item = String>) -> Option<String> {
    let mut known = BTreeSet::new();
    names.into_iter().find(|name| !known.insert(name.clone()))
}

/// A number as 16 hexadecimal digits: JSON numbers are exact to 53 bits only.
mod hexadecimal {
    use super::*;

    pub(super) fn serialize<S: Serializer>(number: &u64, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{number:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = |_| {
            serde::de::Error::custom(format!(
                "expected 16 hexadecimal digits, found '{text}'. Restore run.json as it was written"
            ))
        };
        u64::from_str_radix(&text, 16).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::manifest;
    use crate::scratch::Scratch;

    #[test]
    fn a_manifest_reads_back_as_it_was_written() {
        let scratch = Scratch::new();
        let place = scratch.path().join("run.json");
        manifest().write(&place).unwrap();
        assert_eq!(Manifest::read(&place).unwrap(), manifest());
        assert!(std::fs::read_to_string(place).unwrap().contains("\"run\": \"00c0ffee00000001\""));
    }

    #[test]
    fn a_torn_a_foreign_and_a_later_manifest_are_told_apart() {
        let scratch = Scratch::new();
        let place = scratch.path().join("run.json");
        let text = serde_json::to_string(&manifest()).unwrap();
        let refused = |text: &str| {
            std::fs::write(&place, text).unwrap();
            Manifest::read(&place).unwrap_err()
        };
        let torn = refused(&text[..text.len() / 2]);
        assert!(!torn.is_newer() && torn.to_string().contains("complete JSON"), "{torn}");
        assert!(refused("{\"name\": 3}").is_foreign() && refused("[]").is_foreign());
        let newer = refused("{\"schema\": 3, \"nodes\": \"elsewhere\"}");
        assert!(newer.is_newer() && newer.to_string().contains("found 3; read it with the tickscope"), "{newer}");
    }

    #[test]
    fn what_is_said_twice_is_refused_and_so_are_more_nodes_than_can_be_paired() {
        let scratch = Scratch::new();
        let place = scratch.path().join("run.json");
        let refused = |manifest: &Manifest| {
            manifest.write(&place).unwrap();
            Manifest::read(&place).unwrap_err().to_string()
        };
        let mut twice = manifest();
        twice.nodes.push(twice.nodes[0].clone());
        assert!(refused(&twice).contains("expected every node once, found client twice"));
        let mut twice = manifest();
        twice.rho.push(RhoDeclaration { ppb: 1, ..twice.rho[0].clone() });
        assert!(
            refused(&twice).contains("expected one rho a pair of domains, found two of server.tsc against client.tsc")
        );
        let RhoDeclaration { domain, reference, .. } = twice.rho[0].clone();
        *twice.rho.last_mut().unwrap() =
            RhoDeclaration { domain: reference, reference: domain, ..twice.rho[0].clone() };
        assert!(
            refused(&twice).contains("expected one rho a pair of domains, found two of server.tsc against client.tsc"),
            "either way round"
        );
        let mut many = manifest();
        let node = |at: usize| Node { name: NodeName::new(format!("n{at}")).unwrap(), ..manifest().nodes[0].clone() };
        many.nodes = (0..10_000).map(node).collect();
        assert!(refused(&many).contains("expected at most 1000 nodes, found 10000"));
        std::fs::File::create(&place).unwrap().set_len(1 << 30).unwrap();
        assert!(Manifest::read(&place).unwrap_err().to_string().contains("of at most 16777216"));
    }

    #[test]
    fn every_flipped_bit_of_a_manifest_is_refused_or_told_or_changes_nothing() {
        let scratch = Scratch::new();
        let place = scratch.path().join("run.json");
        manifest().write(&place).unwrap();
        assert!(Manifest::fault(&place).is_none());
        let whole = std::fs::read(&place).unwrap();
        for bit in (0..whole.len() * 8).step_by(3) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&place, &damaged).unwrap();
            if let Ok(read) = Manifest::read(&place) {
                assert!(read == manifest() || Manifest::fault(&place).is_some(), "bit {bit}");
            }
        }
    }

    #[test]
    fn the_width_of_readings_is_required_since_schema_2() {
        let scratch = Scratch::new();
        let place = scratch.path().join("run.json");
        let mut unmeasured = manifest();
        unmeasured.nodes[1].counter.reading = None;
        let error = unmeasured.write(&place).unwrap_err().to_string();
        assert!(error.contains("counter.reading") && error.contains("none of server"), "{error}");
        std::fs::write(&place, serde_json::to_string(&unmeasured).unwrap()).unwrap();
        assert!(Manifest::read(&place).unwrap_err().to_string().contains("counter.reading"));
        unmeasured.schema = 1;
        unmeasured.write(&place).unwrap();
        assert_eq!(Manifest::read(&place).unwrap(), unmeasured);
    }

    #[test]
    fn the_words_of_schema_1_are_read() {
        let old = r#"{"node": "a", "ran_ns": 1, "stamps": 2, "subject_cpu_ns": 3, "watch_cpu_ns": 4}"#;
        let read: crate::NodeCost = serde_json::from_str(old).unwrap();
        assert_eq!((read.target_cpu_ns, read.monitor_cpu_ns), (Some(3), Some(4)));
        assert_eq!("subject-failed".parse(), Ok(crate::EventKind::TargetFailed));
    }

    #[test]
    fn a_kind_of_a_later_version_is_read_and_is_none_of_ours() {
        let rho = r#"{"reference": "a.tsc", "domain": "b.tsc", "ppb": 1, "origin": "default""#;
        let kind = |more: &str| serde_json::from_str::<RhoDeclaration>(&format!("{rho}{more}}}")).unwrap().kind();
        assert_eq!([kind(""), kind(r#", "kind": "declared""#)], [RhoKind::Default, RhoKind::Declared]);
        assert_eq!(kind(r#", "kind": "of-a-later-version""#), RhoKind::Other);
        let mut later = manifest();
        let kind = Some(serde_json::from_str(r#""of-a-later-version""#).unwrap());
        later.assumptions.push(Assumption { kind, ..Assumption::cores_proved() });
        assert!(!later.cores_proved());
    }

    #[test]
    fn a_layout_reads_the_key_of_schema_1_for_extra_pairs_and_no_key_that_would_make_another_layout() {
        let layout = |text: &str| serde_json::from_str::<LayoutText>(text);
        let old = r#"{"path": ["a.x", "b.y"], "branches": [], "beside": ["b.y > a.x"], "rules": [["a.x", "last"]]}"#;
        let new = r#"{"edges": ["a.x > b.y"], "extra": ["b.y > a.x"], "rules": {"b.y": "all", "a.x": "last"}}"#;
        let (old, new) = (layout(old).unwrap(), layout(new).unwrap());
        assert_eq!((&old.extra, &old.rules[..]), (&new.extra, &new.rules[..1]));
        assert_eq!(old.parse(None).unwrap().stages(), new.parse(None).unwrap().stages());
        assert!(layout(r#"{"path": [], "edgse": []}"#).unwrap_err().to_string().contains("edgse"));
    }

    #[test]
    fn names_and_domains_are_checked_while_reading() {
        let scratch = Scratch::new();
        let place = scratch.path().join("run.json");
        let text = serde_json::to_string(&manifest()).unwrap();
        for (right, wrong) in [("\"client\"", "\"../client\""), ("\"tsc\"", "\"hpet\""), ("\"after\"", "\"behind\"")] {
            assert!(text.contains(right));
            std::fs::write(&place, text.replace(right, wrong)).unwrap();
            let error = Manifest::read(&place).unwrap_err().to_string();
            assert!(error.contains(wrong.trim_matches('"')), "{error}");
        }
    }
}

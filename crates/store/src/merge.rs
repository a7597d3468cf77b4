//! Two runs as one: the nodes of both, each with its own stamps, channels, events and evidence about its clocks.
//!
//! Idea: every table is read, and written again as one of the new run, so that seals, places and digests are the new
//! run's. Rows stay as they were, but for the names of nodes that are given others, and for the numbers of nodes that
//! the kernel's stamps of probes carry. Nothing relates the nodes of one run to those of the other but what relates
//! nodes in any run: a boot that they share.
//!
//! Assumes, and says so in the new run: ids name the same things in both, and no counter that both read was reset
//! between them. Guarantees: stages of either layout are stages of the new one; what holds of a run as a whole, and is
//! not the same in both, is refused and not guessed. Deliberately absent: what is derived from others (traces, pages);
//! logs of `all`, which no figure needs; limits and dumps, whose stages may have other names among several ends; what
//! measuring cost; the run files.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use tickscope_tick::{Label, NodeName, Place, own_points};
use tickscope_trace::LayoutText;

use crate::SCHEMA;
use crate::brackets::{read_brackets, write_brackets};
use crate::channels::{read_channels, write_channels};
use crate::counts::{read_counts, write_counts};
use crate::digests::Digest;
use crate::error::{Error, Result};
use crate::events::{Event, read_events, write_events};
use crate::manifest::{Assumption, Evidence, Manifest, Node, Point, RhoDeclaration, SameBoot};
use crate::noise::{read_noise, write_noise};
use crate::returns::{read_returns, write_returns};
use crate::rivals::{read_rivals, write_rivals};
use crate::run::{Pair, Run};
use crate::stamps::{Segment, StampColumns, write_segment_encoded};
use crate::whole_file::files_in;

/// Two runs that can be one, and what that will be.
pub struct Merge<'a> {
    parts: [Part<'a>; 2],
    manifest: Manifest,
}

/// One of the two, and its nodes' names in the new run.
struct Part<'a> {
    run: &'a Run,
    names: Names,
    /// Number of its first node among those of the new run.
    first_node: u32,
    /// Ends the names of its files that would meet those of the other run.
    suffix: String,
}

/// New names of nodes, by the old ones; others stay.
#[derive(Clone, Default)]
struct Names(BTreeMap<NodeName, NodeName>);

impl<'a> Merge<'a> {
    /// Holds two runs against each other; `renamed`: new names of the second one's nodes. `Err`: why they are not one.
    pub fn of(
        first: &'a Run,
        second: &'a Run,
        renamed: &BTreeMap<NodeName, NodeName>,
    ) -> std::result::Result<Self, String> {
        let names = Names(renamed.clone());
        let (one, other) = (first.manifest(), second.manifest());
        if let Some(unknown) = renamed.keys().find(|name| other.nodes.iter().all(|node| node.name != **name)) {
            let known: Vec<&str> = other.nodes.iter().map(|node| node.name.as_str()).collect();
            return Err(format!(
                "expected nodes of the second run to rename, found '{unknown}'. Name one of {}",
                known.join(", ")
            ));
        }
        renamed.values().try_for_each(Event::expect_node)?;
        expect_alike(one, other)?;
        let nodes: Vec<Node> = one.nodes.iter().cloned().chain(names.nodes(other)).collect();
        let mut known = BTreeSet::new();
        if let Some(at) = nodes.iter().position(|node| !known.insert(&node.name)) {
            let (twice, own) = (&nodes[at].name, &other.nodes[at - one.nodes.len()].name);
            return Err(format!(
                "expected other nodes in each run, found {twice} in both. Rename that of the second: --rename \
                 {own}={twice}-2"
            ));
        }
        let (run, first_node) = (merged_id(one, other, renamed), one.nodes.len() as u32);
        let mut manifest = Manifest { run, nodes, ..manifest(one, other, &names)? };
        if is_related(&manifest, one.nodes.len()) {
            let unwatched = "no counter that both merged runs read was reset between them: nobody watched it then";
            manifest.assumptions.push(assumed(unwatched.into()));
        }
        let part = |run: &'a Run, names, first_node, suffix: String| Part { run, names, first_node, suffix };
        let parts = [
            part(first, Names::default(), 0, String::new()),
            part(second, names, first_node, format!("+{:016x}", other.run)),
        ];
        Ok(Self { parts, manifest })
    }

    /// Returns whether a node of one run reads a counter that one of the other reads: else nothing relates the two.
    pub fn is_related(&self) -> bool {
        is_related(&self.manifest, self.parts[1].first_node as usize)
    }

    /// Writes the run at `root`, where nothing may be, with its digests.
    pub fn write(&self, root: &Path) -> Result<Run> {
        let (run, writing) = Run::begin(root, self.manifest.clone())?;
        for part in &self.parts {
            part.copy(&run)?;
        }
        run.write_digests()?;
        drop(writing);
        let run = Run::open(root)?;
        match run.faults()?.into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(run),
        }
    }
}

fn is_related(manifest: &Manifest, nodes_of_first: usize) -> bool {
    let (one, other) = manifest.nodes.split_at(nodes_of_first);
    let of = |node: &Node| (node.boot, node.counter.counter, node.injected.is_some());
    let shared = |node: &Node| node.injected.is_none() && other.iter().any(|counter| of(counter) == of(node));
    manifest.same_boot == SameBoot::Detect && one.iter().any(shared)
}

fn assumed(statement: String) -> Assumption {
    Assumption { statement, origin: "merged".into(), kind: None }
}

/// Refuses runs that differ in what holds of a run as a whole.
fn expect_alike(one: &Manifest, other: &Manifest) -> std::result::Result<(), String> {
    let differs = |what: &str| {
        format!(
            "expected runs with the same {what}, since it holds of a run as a whole, found two. Compare them instead: \
             tickscope compare"
        )
    };
    let sources = |evidence: &Evidence| (evidence.probes, evidence.kernel_probes);
    match (one, other) {
        _ if one.run == other.run => Err("expected two runs, found one twice. Name another".into()),
        _ if one.schema != SCHEMA || other.schema != SCHEMA => {
            Err(format!("expected runs of schema {SCHEMA}, found one of an earlier one. Measure again"))
        }
        _ if one.keep_ms.is_some() || other.keep_ms.is_some() => {
            Err("expected runs that keep all of their stamps, found one that keeps a window. Measure without it".into())
        }
        _ if one.policies != other.policies => Err(differs("policies")),
        _ if one.same_boot != other.same_boot => Err(differs("same_boot")),
        _ if sources(&one.evidence) != sources(&other.evidence) => Err(differs("sources of evidence")),
        _ if [one, other].iter().all(|run| !run.evidence.common_host.is_empty()) => Err(
            "expected evidence.common_host in one run at most, found it in both, and nobody says that they mean one \
             host. Compare them instead: tickscope compare"
                .into(),
        ),
        _ if one.cores_proved() != other.cores_proved() => Err(differs("belief in the check of the cores")),
        _ if one.layout.inferred != other.layout.inferred => Err(differs("origin of the layout")),
        _ => Ok(()),
    }
}

/// The identity of a run that is made of two, the same each time.
fn merged_id(one: &Manifest, other: &Manifest, renamed: &BTreeMap<NodeName, NodeName>) -> u64 {
    let mut digest = Digest::default();
    digest.write(format!("{:016x} {:016x} {renamed:?}", one.run, other.run).as_bytes());
    digest.finish()
}

/// What both say, but for the nodes and the identity.
fn manifest(one: &Manifest, other: &Manifest, names: &Names) -> std::result::Result<Manifest, String> {
    let layout = names.layout(&other.layout);
    if !one.layout.is_empty() && !layout.is_empty() && one.layout.kinds != layout.kinds {
        return Err(format!(
            "expected layouts of the same kinds of ids, found {:?} and {:?} (none: all kinds): stages of one would be \
             of other ids than before. Merge runs whose run files have the same kinds",
            one.layout.kinds, layout.kinds
        ));
    }
    let layout = match (one.layout.is_empty(), layout.is_empty()) {
        (_, true) => one.layout.clone(),
        (true, false) => layout,
        (false, false) => both_layouts(&one.layout, layout),
    };
    if !layout.is_empty() {
        layout.parse(None).map_err(|why| format!("the layouts of both make none: {why}"))?;
    }
    let mut assumptions: Vec<Assumption> = one.assumptions.clone();
    for assumption in &other.assumptions {
        let kind = assumption.kind();
        let statement = format!("{}{}", names.of_second(), assumption.statement);
        let assumption = Assumption { statement, kind, origin: assumption.origin.clone() };
        let is_known = assumptions.iter().any(|known| known.statement == assumption.statement);
        assumptions.extend((!is_known).then_some(assumption));
    }
    let ids = "ids name the same things in both";
    assumptions.push(assumed(format!("merged from the runs {:016x} and {:016x}: {ids}", one.run, other.run)));
    let messages = other.evidence.messages.iter().map(|text| names.places(text));
    let messages = one.evidence.messages.iter().cloned().chain(messages).collect();
    let guests = other.evidence.common_host.iter().map(|node| names.node(node));
    let common_host = one.evidence.common_host.iter().cloned().chain(guests).collect();
    Ok(Manifest {
        started_unix_ms: one.started_unix_ms.min(other.started_unix_ms),
        ended_unix_ms: one.ended_unix_ms.max(other.ended_unix_ms),
        rho: one.rho.iter().cloned().chain(other.rho.iter().map(|rho| names.rho(rho))).collect(),
        evidence: Evidence { messages, common_host, ..one.evidence },
        points: one.points.iter().cloned().chain(names.points(other)).collect(),
        dumps: Vec::new(),
        limits: Vec::new(),
        layout,
        assumptions,
        seconds: None,
        began: None,
        cost: None,
        storage: None,
        run_file: None,
        run_file_directory: None,
        revision: one.revision.clone().filter(|revision| other.revision.as_ref() == Some(revision)),
        ..one.clone()
    })
}

/// The edges of both, side by side.
fn both_layouts(one: &LayoutText, other: LayoutText) -> LayoutText {
    let path = other.path.windows(2).map(|pair| format!("{} > {}", pair[0], pair[1]));
    LayoutText {
        path: one.path.clone(),
        edges: one.edges.iter().cloned().chain(path).chain(other.edges).collect(),
        branches: [one.branches.clone(), other.branches].concat(),
        extra: [one.extra.clone(), other.extra].concat(),
        rules: [one.rules.clone(), other.rules].concat(),
        kinds: other.kinds,
        inferred: one.inferred,
    }
}

impl Names {
    fn node(&self, name: &NodeName) -> NodeName {
        self.0.get(name).unwrap_or(name).clone()
    }

    fn label(&self, label: &Label) -> Label {
        Label { node: self.node(&label.node), clock: label.clock }
    }

    /// A node's name among other words.
    fn word(&self, word: &str) -> String {
        NodeName::new(word).map_or_else(|_| word.into(), |name| self.node(&name).to_string())
    }

    /// A text that names points, such as an edge or a stage.
    fn places(&self, text: &str) -> String {
        let is_between = |letter: char| letter.is_whitespace() || ">~+/:".contains(letter);
        let renamed = |piece: &str| match piece.trim_end_matches(is_between).parse::<Place>() {
            Ok(Place { node, .. }) => piece.replacen(node.as_str(), self.node(&node).as_str(), 1),
            Err(_) => piece.into(),
        };
        text.split_inclusive(is_between).map(renamed).collect()
    }

    /// Ahead of sentences that have the second run's own names.
    fn of_second(&self) -> &'static str {
        if self.0.is_empty() { "" } else { "second run, by its own names: " }
    }

    fn rename_in(&self, event: &mut Event) {
        event.node = self.word(&event.node);
        let label = event.domain.as_ref().and_then(|domain| domain.parse::<Label>().ok());
        event.domain = label.map(|label| self.label(&label).to_string()).or(event.domain.take());
        event.text.insert_str(0, self.of_second());
    }

    fn nodes(&self, of: &Manifest) -> impl Iterator<Item = Node> {
        of.nodes.iter().map(|node| Node { name: self.node(&node.name), ..node.clone() })
    }

    fn points(&self, of: &Manifest) -> impl Iterator<Item = Point> {
        of.points.iter().map(|point| Point { node: self.node(&point.node), ..point.clone() })
    }

    fn rho(&self, rho: &RhoDeclaration) -> RhoDeclaration {
        RhoDeclaration { reference: self.label(&rho.reference), domain: self.label(&rho.domain), ..rho.clone() }
    }

    fn layout(&self, text: &LayoutText) -> LayoutText {
        let all = |texts: &[String]| texts.iter().map(|text| self.places(text)).collect();
        LayoutText {
            path: all(&text.path),
            edges: all(&text.edges),
            branches: all(&text.branches),
            extra: all(&text.extra),
            rules: text.rules.iter().map(|(place, rule)| (self.places(place), rule.clone())).collect(),
            kinds: text.kinds.clone(),
            inferred: text.inferred,
        }
    }
}

impl Part<'_> {
    /// Writes its tables into the new run.
    fn copy(&self, into: &Run) -> Result<()> {
        let (from, to, names) = (self.run.paths(), into.paths(), &self.names);
        for node in self.run.nodes()? {
            let (old, new) = (node.as_str(), names.word(&node));
            self.copy_stamps(old, &new, into)?;
            if from.channels(old).exists() {
                let mut channels = read_channels(&from.channels(old))?;
                channels.iter_mut().for_each(|channel| channel.node = names.node(&channel.node));
                write_channels(&vacant(to.channels(&new))?, &channels)?;
            }
        }
        for file in files_in(&from.events(), "parquet")? {
            let mut events = read_events(&file)?;
            events.iter_mut().for_each(|event| names.rename_in(event));
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            write_events(&vacant(to.events().join(format!("{stem}{}.parquet", self.suffix)))?, &events)?;
        }
        for pair in self.run.pairs()?.found {
            let renamed = Pair { reference: names.label(&pair.reference), domain: names.label(&pair.domain) };
            each(&from.brackets(&pair), &to.brackets(&renamed), |file, to| write_brackets(to, &read_brackets(file)?))?;
        }
        for node in self.run.manifest().nodes.iter().map(|node| node.name.as_str()) {
            let new = &names.word(node);
            each(&from.counts(node), &to.counts(new), |file, to| write_counts(to, &read_counts(file)?))?;
            each(&from.noise(node), &to.noise(new), |file, to| write_noise(to, &read_noise(file)?))?;
            each(&from.rivals(node), &to.rivals(new), |file, to| write_rivals(to, &read_rivals(file)?))?;
            each(&from.returns(node), &to.returns(new), |file, to| {
                let mut returns = read_returns(file)?;
                returns.source.iter_mut().for_each(|source| *source = names.word(source));
                write_returns(to, &returns)
            })?;
        }
        Ok(())
    }

    /// Writes the segments of a node, one at a time.
    fn copy_stamps(&self, old: &str, new: &str, into: &Run) -> Result<()> {
        let encoding = into.manifest().segments.encoding();
        for point in self.run.points(old)? {
            let is_of_probes = point.starts_with("probe-") && own_points::are(&point);
            let folder = |run: &Run, node: &str| run.paths().node_stamps(node).join(format!("point={point}"));
            each(&folder(self.run, old), &folder(into, new), |file, to| {
                let segment = Segment::open(file)?;
                let mut stamps = StampColumns::default();
                for group in 0..segment.extents().len() {
                    stamps.append(segment.read_group(group)?);
                }
                if is_of_probes {
                    let shift = own_points::probe_kind(self.first_node, self.first_node);
                    // Kind 0 is of no pair.
                    let shifted = |kind: Option<&i32>| kind.map(|&kind| if kind == 0 { 0 } else { kind + shift });
                    stamps.kind = stamps.kind.iter().map(shifted).collect();
                }
                write_segment_encoded(to, &stamps, &segment.origin()?, encoding).map(|_| ())
            })?;
        }
        Ok(())
    }
}

/// Copies each table of a folder, under its name.
fn each(from: &Path, to: &Path, copy: impl Fn(&Path, &Path) -> Result<()>) -> Result<()> {
    for file in files_in(from, "parquet")? {
        copy(&file, &vacant(to.join(file.file_name().unwrap_or_default()))?)?;
    }
    Ok(())
}

/// A place that the other run has no file for.
fn vacant(place: PathBuf) -> Result<PathBuf> {
    match place.exists() {
        true => Err(Error::busy(&place, "a place without a file", "one of the other run")),
        false => Ok(place),
    }
}

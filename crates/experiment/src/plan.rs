//! The plan of an experiment: its nodes, their commands, how their clocks are related. The fields are those of a run
//! file.
//!
//! Guarantees: a plan that was read was checked as a whole; only what a host finds out (an address, a right) can still
//! be missing. Deliberately absent: the checks, which are `run_file`'s.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tickscope_bracket::Rho;
use tickscope_store::{EncodingChoice, Evidence, LayoutText, PolicyRule, SameBoot};
use tickscope_tick::{NodeName, Place, RunName};

use crate::Error;
use crate::limits::LimitPlans;
use crate::logs::Log;
use crate::node_plan::NodePlan;
use crate::outputs;
use crate::process::Forward;
use crate::readiness::Readiness;
use crate::return_trip_plan::ReturnTripPlan;
use crate::rivals_plan::RivalsPlan;
use crate::roles::noise::NoiseSettings;
use crate::run_file;
use crate::storage_plan::StoragePlan;
use crate::window::Keep;

/// In commands: seconds since 1970 by this machine's clock, the same for all, by which they should have been started.
pub(crate) const SOON: &str = "{soon}";
/// As the first word of a command: this same program, wherever the node is.
pub(crate) const THIS_PROGRAM: &str = "{tickscope}";

/// One experiment, checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub(crate) run: RunPlan,
    #[serde(default)]
    pub(crate) network: NetworkPlan,
    pub(crate) clock: ClockPlan,
    /// In the order in which their commands are started.
    #[serde(rename = "node")]
    pub(crate) nodes: Vec<NodePlan>,
    /// Empty: whoever shows the run says in which order the points were passed.
    #[serde(default)]
    pub(crate) layout: LayoutText,
    #[serde(default, deserialize_with = "run_file::evidence")]
    pub(crate) evidence: Evidence,
    /// The first whose glob matches a channel decides.
    #[serde(default, rename = "policy", deserialize_with = "run_file::policies")]
    pub(crate) policies: Vec<PolicyRule>,
    #[serde(default, rename = "policies", deserialize_with = "run_file::refuse_table")]
    _no_table: (),
    /// Durations within a node that have what `keep` holds stored.
    #[serde(default, rename = "dump")]
    pub(crate) dumps: Vec<DumpPlan>,
    /// How long stages may take.
    #[serde(default, rename = "limit")]
    pub(crate) limits: LimitPlans,
    #[serde(default, rename = "log")]
    pub(crate) logs: Vec<Log>,
    #[serde(default)]
    pub(crate) overhead: OverheadPlan,
    #[serde(default)]
    pub(crate) rivals: RivalsPlan,
    /// Asks for a record of what the kernel does on the cores of this host.
    pub(crate) noise: Option<NoiseSettings>,
    /// How collectors encode stamps.
    #[serde(default)]
    pub(crate) segments: EncodingChoice,
    #[serde(default)]
    pub(crate) return_trip: ReturnTripPlan,
    /// Where in object storage runs go; absent: they stay in their directory.
    pub(crate) storage: Option<StoragePlan>,
    #[serde(skip)]
    pub(crate) origin: PlanOrigin,
}

/// Where a plan came from.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanOrigin {
    /// The folder that commands run in and that paths of the run file start from, from the file system's root on.
    pub folder: PathBuf,
    /// The run file's text; `None`: there is none, and words of the command are no placeholders.
    pub text: Option<String>,
    /// Where the commands' standard output goes on to.
    pub forward: Forward,
    /// The nodes of this host outlive the command that runs them, too.
    pub detach: bool,
    /// What progress calls the run, where it is one of several.
    pub trial: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunPlan {
    pub name: RunName,
    /// The value of `{seconds}` in commands.
    pub seconds: f64,
    pub out: Option<PathBuf>,
    pub pool_bytes: Option<u64>,
    /// The window of stamps that is kept; absent: all of them.
    pub keep: Option<Keep>,
    /// What a stamp does that finds no free block; absent: what the programs' environment says, or drop.
    pub when_full: Option<WhenFull>,
}

/// What a stamp does that finds no free block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WhenFull {
    /// It is counted as lost.
    Drop,
    /// It waits for one: the program may stand still.
    Wait,
    /// It takes the channel's oldest full block, whose stamps are lost and counted.
    Overwrite,
}

impl WhenFull {
    /// The word in a run file and in `TICKSCOPE_WHEN_FULL`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Wait => "wait",
            Self::Overwrite => "overwrite",
        }
    }
}

/// A duration that has what `keep` holds stored: from one point of a node to another of the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DumpPlan {
    pub from: Place,
    pub to: Place,
    /// Longer than this.
    #[serde(deserialize_with = "run_file::span")]
    pub above: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkPlan {
    #[serde(default)]
    pub kind: NetworkKind,
    /// What each node's way to the others takes; absent: as much as the kernel moves.
    pub link: Option<Link>,
}

/// A narrow link, made of the kernel's token bucket (`tbf`): each way takes so much, what waits beyond that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Megabits a second.
    pub mbit: u32,
    /// Milliseconds that a packet waits, about; what would wait longer is lost.
    pub queue_ms: u32,
}

impl Link {
    /// What the kernel's timers are good for, and 32 bits of bytes that wait.
    const MBITS: std::ops::RangeInclusive<u32> = 1..=10_000;
    const QUEUES_MS: std::ops::RangeInclusive<u32> = 1..=1000;

    pub(crate) fn check(self) -> Result<(), String> {
        let expect = |what: &str, range: &std::ops::RangeInclusive<u32>, found: u32| match range.contains(&found) {
            true => Ok(()),
            false => Err(format!(
                "expected network.link {what} from {} to {}, found {found}. Change it, or leave link out",
                range.start(),
                range.end()
            )),
        };
        expect("mbit", &Self::MBITS, self.mbit)?;
        expect("queue_ms", &Self::QUEUES_MS, self.queue_ms)
    }
}

/// Where the nodes of a local run live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// Namespaces where this user may make them, and otherwise loopback; the machine's own network where a node of the
    /// run is elsewhere.
    #[default]
    Auto,
    /// Network namespaces.
    Namespaces,
    /// Addresses of the loopback.
    Loopback,
    /// The network that the machine is on.
    Host,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClockPlan {
    /// The node whose counter durations are expressed in.
    pub reference: NodeName,
    #[serde(default, deserialize_with = "run_file::rho")]
    pub rho: Rho,
    #[serde(default, deserialize_with = "run_file::slew")]
    pub slew: Slew,
    #[serde(default)]
    pub same_boot: SameBoot,
    #[serde(default)]
    pub cores: Cores,
    #[serde(default = "probes_hz")]
    pub probes_hz: f64,
    #[serde(default = "probe_port")]
    pub probe_port: u16,
    /// Share of a core that a node's probe may take during the run.
    #[serde(default = "probe_share")]
    pub probe_share: f64,
    /// Pairs of nodes whose rho is not the run's.
    #[serde(default, rename = "pair")]
    pub pairs: Vec<PairPlan>,
}

/// A pair of nodes whose counters wander as declared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairPlan {
    pub nodes: [NodeName; 2],
    #[serde(deserialize_with = "run_file::rho")]
    pub rho: Rho,
}

impl ClockPlan {
    /// The rho that is declared for two nodes.
    pub(crate) fn rho_of(&self, one: &NodeName, other: &NodeName) -> Rho {
        let of = |pair: &&PairPlan| pair.nodes.contains(one) && pair.nodes.contains(other);
        self.pairs.iter().find(of).map_or(self.rho, |pair| pair.rho)
    }
}

/// Default rate of probes: gives bounds of a few round trips under any rho, and does not disturb a target.
fn probes_hz() -> f64 {
    100.0
}

/// Default share of a core that a node's probe may take.
fn probe_share() -> f64 {
    0.05
}

fn probe_port() -> u16 {
    7411
}

/// How far a clock that somebody may set can run off the rate that the kernel gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Slew {
    /// The bound that the clock monitor recommends at the end, with its reason.
    #[default]
    Auto,
    Declared(Rho),
}

/// Treatment of a node's cores, which are taken to share one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cores {
    /// Assume what the kernel says, that they share it; the outcome of the check is printed.
    #[default]
    Assume,
    /// The ticks that the check leaves open are added to stages between different threads.
    Prove,
}

/// How `run --overhead` compares.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OverheadPlan {
    /// Numbers of the commands' last lines; none: all that end in `_ns`.
    pub fields: Vec<String>,
    pub pairs: u32,
    /// Seconds of a pass.
    pub seconds: f64,
}

impl Default for OverheadPlan {
    /// Defaults: less than a minute, and pairs enough for an interval without the smallest and the largest difference.
    fn default() -> Self {
        Self { fields: Vec::new(), pairs: 10, seconds: 2.0 }
    }
}

/// Two nodes that have exchanges, by their positions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ProbePair {
    /// The node that asks.
    pub asker: usize,
    /// The node that answers.
    pub answerer: usize,
}

impl Plan {
    /// The kernel stamps every n-th probe exchange; 0 turns this off.
    pub(crate) fn kernel_every(&self) -> u32 {
        /// About 100 a second at most: collecting a transmit stamp slows its sender, and more of them narrow nothing.
        const MOST_HZ: f64 = 100.0;
        if self.evidence.kernel_probes { (self.clock.probes_hz / MOST_HZ).ceil().max(1.0) as u32 } else { 0 }
    }

    /// How the nodes of this host are joined: on its own network where others are elsewhere.
    pub(crate) fn network_kind(&self) -> NetworkKind {
        let elsewhere = self.nodes.iter().any(|node| !node.is_here());
        if elsewhere && self.network.kind == NetworkKind::Auto { NetworkKind::Host } else { self.network.kind }
    }

    /// Position of the reference among the nodes.
    pub(crate) fn reference_at(&self) -> usize {
        self.nodes.iter().position(|node| node.name == self.clock.reference).expect("the run file was checked")
    }

    /// All pairs of nodes in the order of a round-robin tournament: any so many pairs after each other as make a round
    /// are of different nodes. The reference asks; of two others, the asking is shared out evenly.
    pub(crate) fn probe_pairs(&self) -> impl Iterator<Item = ProbePair> + use<> {
        let (nodes, reference) = (self.nodes.len(), self.reference_at());
        // One node stays, the others move on by a place each round; an odd number gets a place that nobody has.
        let places = nodes + nodes % 2;
        let circle = places.saturating_sub(1);
        let meet = move |round: usize, table: usize| match table {
            0 => (circle, round),
            _ => ((round + table) % circle, (round + circle - table) % circle),
        };
        let rounds = (0..circle).flat_map(move |round| (0..places / 2).map(move |table| meet(round, table)));
        rounds.filter(move |&(one, other)| one.max(other) < nodes).map(move |(one, other)| {
            let (first, second) = (one.min(other), one.max(other));
            let first_asks = first == reference || second != reference && (first + second) % 2 == 1;
            let (asker, answerer) = if first_asks { (first, second) } else { (second, first) };
            ProbePair { asker, answerer }
        })
    }

    /// True if nobody's end is the run's: it lasts its seconds.
    pub(crate) fn ends_by_time(&self) -> bool {
        !self.nodes.iter().any(|node| node.ends_run)
    }

    /// True if it is of machines whose clocks are related, and on which nothing stamps.
    pub(crate) fn has_no_programs(&self) -> bool {
        self.nodes.len() > 1 && self.nodes.iter().all(|node| node.command.is_empty() && node.stamps.is_none())
    }

    /// Where something else makes the directory that a node's programs stamp into.
    pub(crate) fn stamps_of(&self, node: &NodeName) -> Option<&Path> {
        self.nodes.iter().find(|known| known.name == *node)?.stamps.as_deref()
    }

    /// What is waited for after that node's command was started.
    pub(crate) fn readiness(&self, at: usize) -> Option<Readiness> {
        let node = &self.nodes[at];
        node.ready.clone().map(|ready| Readiness { ready, timeout: node.ready_timeout })
    }

    /// True if the run says in which order an id passes the points.
    pub(crate) fn has_layout(&self) -> bool {
        self.layout != LayoutText::default()
    }

    /// A command with `{address}`, `{NODE.address}`, `{seconds}`, `{run}`, the run's directory, and `{outputs}` filled
    /// in; [`SOON`] and [`THIS_PROGRAM`] are known where and when it is started.
    pub(crate) fn fill(
        &self,
        node: &NodePlan,
        addresses: &BTreeMap<NodeName, String>,
        run: &str,
    ) -> Result<Vec<String>, Error> {
        if self.origin.text.is_none() {
            return Ok(node.command.clone());
        }
        let outputs = outputs::folder(Path::new(run), &node.name).display().to_string();
        let fill = |(position, word): (usize, &String)| {
            let mut word = word.replace("{seconds}", &self.run.seconds.to_string());
            word = word.replace("{run}", run).replace("{outputs}", &outputs);
            word = word.replace("{address}", &addresses[node.name.as_str()]);
            for (name, address) in addresses {
                word = word.replace(&format!("{{{name}.address}}"), address);
            }
            let is_later = position == 0 && word == THIS_PROGRAM;
            match !is_later && word.replace(SOON, "").contains('{') {
                true => Err(Error::input(format!(
                    "node '{}': expected the placeholders {{address}}, {{NODE.address}}, {{seconds}}, {{run}}, \
                     {{outputs}}, {{soon}} and, as the first word, {{tickscope}}, found '{word}'. Correct it, or leave \
                     the braces out",
                    node.name
                ))),
                false => Ok(word),
            }
        };
        node.command.iter().enumerate().map(fill).collect()
    }
}

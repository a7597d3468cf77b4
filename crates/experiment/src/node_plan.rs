//! A node of a plan: what runs there and where it lives.
//!
//! Guarantees: what says how a node elsewhere is set up is no part of one here, so [`Site`] alone tells it.
//! Deliberately absent: rules that span several nodes, which are `run_file`'s.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tickscope_store::Event;
use tickscope_tick::{Injection, NodeName, RealtimeInjection, Stairs};

use crate::outputs;
use crate::readiness::{self, Ready};
use crate::run_file::within;

/// A node and what runs there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// Its name.
    pub name: NodeName,
    /// The target, with placeholders; empty: something else starts the programs that stamp.
    #[serde(default, deserialize_with = "crate::run_file::words")]
    pub command: Vec<String>,
    /// The directory that its programs stamp into, where something else makes it and starts them; absent: one of the
    /// run's own.
    #[serde(default)]
    pub stamps: Option<PathBuf>,
    /// Variables that the target gets.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// True if the run is over when the target ends.
    #[serde(default)]
    pub ends_run: bool,
    /// What is waited for before the next command is started.
    #[serde(default)]
    pub ready: Option<Ready>,
    /// Seconds that this may take.
    #[serde(default = "ready_timeout")]
    pub ready_timeout: f64,
    /// Words that run a command where the node is; none: here.
    #[serde(default, deserialize_with = "crate::run_file::way")]
    connect: Vec<String>,
    /// Path of tickscope there; absent: it is copied there if need be.
    #[serde(default)]
    agent: Option<String>,
    /// Address that other nodes reach it by; absent: found there.
    #[serde(default, deserialize_with = "crate::run_file::host")]
    pub address: Option<String>,
    /// Address for its probes, where they take another way.
    #[serde(default, deserialize_with = "crate::run_file::host")]
    pub probe_address: Option<String>,
    /// Files that are copied into the folder that its command runs in.
    #[serde(default)]
    files: Vec<PathBuf>,
    /// Seconds for which its agent goes on without this run.
    #[serde(default = "deadline")]
    deadline: f64,
    /// Megabytes that wait there for their way into the run, at most.
    #[serde(default = "spool_mb")]
    spool_mb: u64,
    /// Files that its command leaves in `{outputs}`, and that the run has in the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// A known map before its counter.
    #[serde(default)]
    pub inject: Option<Inject>,
    /// A known map before its `CLOCK_REALTIME`.
    #[serde(default)]
    pub inject_realtime: Option<InjectRealtime>,
}

/// Where a node lives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site<'a> {
    /// On this host.
    Here,
    /// Where a command leads.
    There(There<'a>),
}

/// The way to a node elsewhere, and how it is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct There<'a> {
    /// Words that run a command there.
    pub connect: &'a [String],
    /// Path of tickscope there; `None`: it is copied there if need be.
    pub agent: Option<&'a str>,
    /// Files that are copied into the folder that its command runs in.
    pub files: &'a [PathBuf],
    /// Seconds for which its agent goes on without this run.
    pub deadline_seconds: f64,
    /// Bytes that wait there for their way into the run, at most.
    pub spool_bytes: u64,
}

impl NodePlan {
    /// Where it lives.
    pub(crate) fn site(&self) -> Site<'_> {
        if self.is_here() {
            return Site::Here;
        }
        let Self { connect, agent, files, deadline, spool_mb, .. } = self;
        Site::There(There {
            connect,
            agent: agent.as_deref(),
            files,
            deadline_seconds: *deadline,
            spool_bytes: spool_mb.saturating_mul(1_000_000),
        })
    }

    /// Returns whether it lives on this host.
    pub(crate) fn is_here(&self) -> bool {
        self.connect.is_empty()
    }
}

/// An hour.
fn deadline() -> f64 {
    3600.0
}

/// 4 GB.
fn spool_mb() -> u64 {
    4096
}

fn ready_timeout() -> f64 {
    readiness::TIMEOUT_SECONDS
}

pub(crate) fn check_node(node: &NodePlan) -> Result<(), String> {
    let NodePlan { name, inject, ready, ready_timeout, deadline, .. } = node;
    Event::expect_node(name)?;
    check_what_needs_connect(node)?;
    let in_node = |wrong: String| format!("node '{name}': {wrong}");
    node.outputs.iter().try_for_each(|output| outputs::check(output)).map_err(in_node)?;
    ready.as_ref().map_or(Ok(()), Ready::check).map_err(in_node)?;
    within("ready_timeout", *ready_timeout, 0.0, 86_400.0).map_err(in_node)?;
    within("deadline", *deadline, 1.0, 366.0 * 86_400.0).map_err(in_node)?;
    inject.map_or(Ok(()), |inject| inject.stairs().map(drop)).map_err(in_node)
}

/// A node has a command, or a directory that somebody else's programs stamp into, or both; or none of the run has
/// either, which is `bare`.
pub(crate) fn check_what_stamps(node: &NodePlan, bare: bool) -> Result<(), String> {
    let NodePlan { name, command, stamps, ends_run, ready, .. } = node;
    if let Some(directory) = stamps.as_ref().filter(|directory| !directory.is_absolute()) {
        let found = directory.display();
        return Err(format!(
            "node '{name}': expected stamps = a path from the file system's root on, found '{found}'. Give the \
             TICKSCOPE_DIR of its programs as it is there"
        ));
    }
    if command.first().is_some_and(String::is_empty) {
        return Err(format!(
            "node '{name}': expected a program as the first word of command, found ''. Give its name or its path"
        ));
    }
    let of_a_command = if *ends_run { "ends_run" } else { "ready" };
    match (command.is_empty(), stamps.is_some()) {
        (true, false) if !bare => Err(format!(
            "node '{name}': expected a command, found none. Give the program and its arguments, or, where something \
             else starts it, stamps = its TICKSCOPE_DIR"
        )),
        (true, _) if *ends_run || ready.is_some() => Err(format!(
            "node '{name}': {of_a_command} needs a command, found none. Give one, or leave {of_a_command} out"
        )),
        _ => Ok(()),
    }
}

/// What says how a node elsewhere is set up is no part of one here.
fn check_what_needs_connect(node: &NodePlan) -> Result<(), String> {
    let NodePlan { name, agent, files, .. } = node;
    let given = [
        ("agent", agent.is_some()),
        ("files", !files.is_empty()),
        ("deadline", node.deadline != deadline()),
        ("spool_mb", node.spool_mb != spool_mb()),
    ];
    match given.into_iter().find(|(_, given)| *given && node.is_here()) {
        None => Ok(()),
        Some((field, _)) => Err(format!(
            "node '{name}': {field} needs connect, found none: the node lives on this machine. Give connect, or \
             leave {field} out"
        )),
    }
}

/// A known map before a node's counter, in tests; the anchor is the counter at the start.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
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
    /// The map of a counter that reads `anchor` now; `None`: its steps are none.
    pub(crate) fn anchored(self, anchor: i64) -> Option<Injection> {
        let Self { offset, drift_ppb, wander_ppb, wander_period, .. } = self;
        let stairs = self.stairs().ok()?; // the run file was checked
        Some(Injection { anchor, offset, drift_ppb, wander_ppb, wander_period, stairs })
    }

    /// The values that the counter shows.
    pub(crate) fn stairs(&self) -> Result<Stairs, String> {
        let [numerator, denominator] = self.step;
        Stairs::new(numerator, denominator, self.uneven).ok_or_else(|| {
            format!(
                "expected inject.step = [numerator, denominator] of at least 1 and below 2^31, and inject.uneven from \
                 0 and below a step, found step [{numerator}, {denominator}] and uneven {}. Leave both out for single \
                 ticks",
                self.uneven
            )
        })
    }
}

/// A known map before a node's `CLOCK_REALTIME`, in tests; times are seconds from the start.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InjectRealtime {
    pub offset_ns: i64,
    pub drift_ppb: i64,
    /// `{ at = seconds, ns = how far }`.
    pub steps: Vec<InjectStep>,
    /// `{ from = seconds, until = seconds, ppb = rate }`.
    pub slews: Vec<InjectSlew>,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectStep {
    pub at: f64,
    pub ns: i64,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectSlew {
    pub from: f64,
    pub until: f64,
    pub ppb: i64,
}

impl InjectRealtime {
    /// The map, with its times counted from `now_ns`.
    pub(crate) fn starting_at(&self, now_ns: i64) -> Result<RealtimeInjection, String> {
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

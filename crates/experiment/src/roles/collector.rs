//! A node's collector: stamps out of shared memory into a run.

use std::path::PathBuf;

use serde_json::{Value, json};
use tickscope_collect::{Collector, Report};
use tickscope_store::{Event, Manifest, Paths, SameBoot};
use tickscope_tick::NodeName;

use super::{RoleContext, ready, say};
use crate::Error;
use crate::host::{Host, KnownMaps};
use crate::interrupt;

/// The stamp directory, and the run that it is collected into.
#[derive(Clone, Debug)]
pub struct CollectorSettings {
    /// The stamp directory.
    pub directory: PathBuf,
    /// The run's directory; it is given a manifest where it has none.
    pub run: PathBuf,
    /// The node that the stamps belong to; events keep `host` and `run` for themselves.
    pub node: NodeName,
    /// Go on until the process is told to end, instead of taking once what lies there.
    pub follow: bool,
}

impl CollectorSettings {
    /// In a role the stamp directory is that of the node's programs.
    pub(super) fn of_role(place: &RoleContext, follow: bool) -> Self {
        let directory = std::env::var_os("TICKSCOPE_DIR").unwrap_or_default().into();
        Self { directory, run: place.run.clone(), node: place.node.clone(), follow }
    }
}

/// Takes the stamps of a directory.
pub fn collect(settings: &CollectorSettings) -> Result<Report, Error> {
    interrupt::catch();
    let CollectorSettings { directory, run, node, follow } = settings;
    Event::expect_node(node).map_err(Error::input)?;
    if !directory.is_dir() {
        let directory = directory.display();
        return Err(Error::input(format!(
            "expected a stamp directory at {directory}, found none. It is what TICKSCOPE_DIR named"
        )));
    }
    let manifest = Paths::of(run).manifest();
    if manifest.exists() {
        Manifest::read(&manifest)?; // a run of another schema is refused before anything is taken
    } else {
        std::fs::create_dir_all(run).map_err(|e| {
            Error::work(format!("cannot make the directory {}: {e}. Name another one with --run", run.display()))
        })?;
        undeclared(node)?.write(&manifest)?;
    }
    let mut collector = Collector::start(tickscope_collect::Settings::new(directory, run, node.clone()))?;
    for refused in collector.refused() {
        say(refused);
    }
    if *follow {
        ready();
        Ok(collector.follow(&interrupt::ENDED)?)
    } else {
        Ok(collector.once()?)
    }
}

/// The report as JSON.
pub fn json(report: &Report) -> Value {
    let Report { stamps, blocks, segments, bytes, uncommitted, lost, pools_ended, held, left_alone, .. } = *report;
    let Report { pool_bytes, cpu_ns, .. } = *report;
    json!({
        "stamps": stamps, "blocks": blocks, "segments": segments, "bytes": bytes, "uncommitted": uncommitted,
        "lost": lost, "pools_ended": pools_ended, "held": held, "left_alone": left_alone, "pool_bytes": pool_bytes,
        "cpu_ns": cpu_ns,
    })
}

/// The manifest of a run that nobody declared: one node, this host.
fn undeclared(node: &NodeName) -> Result<Manifest, Error> {
    let described = Host::look()?.node(node.clone(), KnownMaps::default())?;
    Ok(Manifest {
        schema: tickscope_store::SCHEMA,
        run: 0,
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: crate::unix_ms(),
        stamp_directories: std::collections::BTreeMap::new(),
        run_file: None,
        revision: None,
        ended_unix_ms: None,
        reference: described.domain(),
        nodes: vec![described],
        rho: Vec::new(),
        evidence: Default::default(),
        same_boot: SameBoot::Detect,
        points: Vec::new(),
        policies: Vec::new(),
        layout: Default::default(),
        assumptions: Vec::new(),
        cost: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_named_as_events_name_the_host_or_the_run_is_refused_and_leaves_nothing() {
        let run = std::env::temp_dir().join(format!("tickscope-collect-{}", std::process::id()));
        for name in [Event::HOST, Event::RUN] {
            let node = NodeName::new(name).unwrap();
            let settings = CollectorSettings { directory: std::env::temp_dir(), run: run.clone(), node, follow: false };
            let why = collect(&settings).unwrap_err();
            assert!(why.code() == 2 && why.to_string().contains("rename the node"), "{why}");
        }
        assert!(!run.exists());
    }
}

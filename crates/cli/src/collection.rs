//! `tickscope collect`: stamps out of shared memory into a run.

use std::io::Write;

use serde_json::json;
use tickscope_collect::{Collector, Report, Settings};
use tickscope_store::{Manifest, Paths, SameBoot};
use tickscope_tick::NodeName;

use crate::failure::Failure;
use crate::host::{Host, KnownMaps};
use crate::interrupt;
use crate::options::CollectOptions;
use tickscope_analysis::domain_of;

/// Takes what lies in a stamp directory, once or until the process is told to end.
pub fn collect(options: &CollectOptions) -> Result<(), Failure> {
    interrupt::catch();
    let node = NodeName::new(options.node.clone()).map_err(|e| Failure::input(format!("--node: {e}")))?;
    if !options.directory.is_dir() {
        let directory = options.directory.display();
        return Err(Failure::input(format!(
            "expected a stamp directory at {directory}, found none. It is what TICKSCOPE_DIR named"
        )));
    }
    let manifest = Paths::of(&options.run).manifest();
    if manifest.exists() {
        Manifest::read(&manifest)?; // a run of another schema is refused before anything is taken
    } else {
        std::fs::create_dir_all(&options.run).map_err(|e| {
            Failure::work(format!(
                "expected to make {}, found: {e}. Name another directory with --run",
                options.run.display()
            ))
        })?;
        alone(&node)?.write(&manifest)?;
    }
    let mut collector = Collector::start(Settings::new(&options.directory, &options.run, node))?;
    for refused in collector.refused() {
        eprintln!("tickscope: {refused}");
    }
    let report = if options.follow {
        println!("ready");
        let _ = std::io::stdout().flush();
        collector.follow(&interrupt::ENDED)?
    } else {
        collector.once()?
    };
    print(&report, options);
    Ok(())
}

fn print(report: &Report, options: &CollectOptions) {
    let Report { stamps, blocks, segments, bytes, uncommitted, lost, pools_ended, left_alone, pool_bytes, cpu_ns } =
        *report;
    if options.json {
        let value = json!({
            "stamps": stamps, "blocks": blocks, "segments": segments, "bytes": bytes, "uncommitted": uncommitted, "lost": lost,
            "pools_ended": pools_ended, "left_alone": left_alone, "pool_bytes": pool_bytes, "cpu_ns": cpu_ns,
        });
        println!("{value}");
        return;
    }
    println!("{stamps} stamps in {segments} segments ({bytes} bytes), from {pools_ended} ended programs");
    if lost + uncommitted + left_alone > 0 {
        println!(
            "{lost} dropped, {uncommitted} never committed, {left_alone} files left alone: see events/ in the run"
        );
    }
    println!("the run's files: {}", options.run.display());
}

/// The manifest of a run that nobody declared: one node, this host.
fn alone(node: &NodeName) -> Result<Manifest, Failure> {
    let described = Host::look()?.node(node.clone(), Vec::new(), KnownMaps::default())?;
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(Manifest {
        schema: tickscope_store::SCHEMA,
        run: 0,
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: started.map_or(0, |since| since.as_millis() as i64),
        ended_unix_ms: None,
        reference: domain_of(&described),
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

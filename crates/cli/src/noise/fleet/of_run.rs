//! Profiles that a run takes on its machines at one instant.
//!
//! Idea: each machine begins at the same second by its own clock; when it did is a reading of its counter, which the
//! run's clock maps place on the reference. So clocks that disagree are told, with how far apart the profiles began at
//! most. Assumes: what clock maps assume. Deliberately absent: how machines are reached, which is the run's.

use std::collections::BTreeSet;
use std::path::Path;

use tickscope_analysis::{Counters, Machines, Query};
use tickscope_experiment::{RunSettings, RunSource, RunText};
use tickscope_noise::{Detector, NoiseProfile};
use tickscope_store::{Node, Run};
use tickscope_tick::Tick;

use super::{Fleet, TOGETHER_NS};
use crate::chosen_run;
use crate::clock::seconds;
use crate::failure::Failure;
use crate::noise::saved::read;
use crate::options::FleetOptions;
use crate::output::note;

/// Name of the file with its profile that each machine leaves in its node's folder.
const OUTPUT: &str = "noise.json";
/// How long a machine is measured unless something else is asked for.
const SECONDS: f64 = 30.0;

/// Takes profiles on the machines of a run file, of whose programs none is started; what came of it, and of the run.
pub(super) fn measured(file: &Path, options: &FleetOptions) -> Result<(Fleet, Result<(), Failure>), Failure> {
    let seconds = seconds(options.seconds.unwrap_or(SECONDS))?;
    let detector = options.detector.unwrap_or(Detector::Selfish).name();
    let out = format!("{{outputs}}/{OUTPUT}");
    let words = ["noise", "--begin-at", "{soon}", "--seconds", "{seconds}", "--detector", detector, "--out", &out];
    let settings = RunSettings {
        source: RunSource::File(RunText::read(file)?.with_own_program(&words, OUTPUT)?),
        out: options.out.clone(),
        seconds: Some(seconds),
        keep: None,
        overhead: false,
        detach: false,
        trial: None,
    };
    let (run, measured) = tickscope_experiment::run(&settings)?;
    note(format!("run: {}", run.root().display()));
    Ok((of(&run)?, measured))
}

/// The profiles of a run that took some.
pub(super) fn saved(place: &Path) -> Result<Fleet, Failure> {
    of(&chosen_run::open(Some(place))?)
}

fn of(run: &Run) -> Result<Fleet, Failure> {
    let (mut names, mut profiles, mut nodes, mut notes) = (Vec::new(), Vec::new(), Vec::new(), BTreeSet::new());
    for node in &run.manifest().nodes {
        let place = run.root().join(format!("outputs/node={}", node.name)).join(OUTPUT);
        if !place.exists() {
            notes.insert(format!("{} left no profile: see the events of {}", node.name, run.root().display()));
            continue;
        }
        match read(&place) {
            Ok(profile) => {
                names.push(node.name.to_string());
                profiles.push(profile);
                nodes.push(node);
            }
            Err(why) => _ = notes.insert(format!("{} is left out: {why}", node.name)),
        }
    }
    let began_within_ns = began_within(run, &nodes, &profiles, &mut notes)?;
    if let Some(apart_ns) = began_within_ns.filter(|&apart_ns| apart_ns > TOGETHER_NS) {
        notes
            .insert(format!("the profiles may have begun {} ms apart: set the machines' clocks", apart_ns / 1_000_000));
    }
    Ok(Fleet { names, profiles, began_within_ns, notes })
}

/// How far apart all began at most, ns; `None`, and a note: nothing tells it of some.
fn began_within(
    run: &Run,
    nodes: &[&Node],
    profiles: &[NoiseProfile],
    notes: &mut BTreeSet<String>,
) -> Result<Option<i128>, Failure> {
    let (manifest, query) = (run.manifest(), Query::default());
    let machines = Machines::of(run, Counters::of(manifest)?, &query)?;
    let counters = machines.counters();
    let mut ends = Vec::new();
    for (&node, profile) in nodes.iter().zip(profiles) {
        let is_of = |counter: &usize| counters.nodes(*counter).iter().any(|known| known.name == node.name);
        let counter = (0..counters.count()).find(is_of);
        let same: Vec<&str> = counter.map_or_else(Vec::new, |counter| {
            let here = counters.nodes(counter).iter().map(|known| known.name.as_str());
            here.filter(|name| nodes.iter().any(|known| known.name.as_str() == *name)).collect()
        });
        if same.len() > 1 {
            notes
                .insert(format!("{} are one machine, whose detectors took the cores from each other", same.join(", ")));
        }
        let is_same_boot = profile.machine.boot.as_deref() == Some(node.boot.to_string().as_str());
        let began = profile.machine.began_tick.filter(|_| is_same_boot && node.injected.is_none());
        let placed = began.zip(counter).and_then(|(tick, counter)| match counter {
            0 => Some((tick, tick)),
            _ => {
                machines.to_reference(counter)?.interval(Tick::new(tick)).ok().map(|at| (at.lo().get(), at.hi().get()))
            }
        });
        match placed {
            Some(placed) => ends.push(placed),
            None => _ = notes.insert(format!("{}: when it began is told by its machine's clock alone", node.name)),
        }
    }
    let ends = Some(ends).filter(|ends| ends.len() == nodes.len() && !ends.is_empty());
    let hertz = i128::from(counters.name(0).counter.frequency.hertz.max(1));
    let apart = |ends: Vec<(i64, i64)>| {
        let first = ends.iter().map(|end| end.0).min()?;
        let last = ends.iter().map(|end| end.1).max()?;
        Some((i128::from(last) - i128::from(first)) * 1_000_000_000 / hertz + 1)
    };
    Ok(ends.and_then(apart))
}

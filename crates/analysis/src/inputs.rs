//! Inputs of a scan of traces: what a run's files say of its layout, its clocks and its evidence.
//!
//! Assumes that the run was joined. Guarantees: everything that a duration is computed from is read here, once.
//! Deliberately absent: durations.

use tickscope_bracket::Rho;
use tickscope_store::{KeyedReader, Manifest, Run};
use tickscope_trace::{Clocks, Layout, Point};

use crate::assumption::Assumption;
use crate::auxiliary_clocks::AuxiliaryClockSummary;
use crate::clock_maps::{ClockMapSummary, RateAlone, Related, relate};
use crate::closure::PairSummary;
use crate::counters::reference_node;
use crate::declared_rho::run_rho;
use crate::error::Error;
use crate::evidence::{core_ticks, on_reference, reading_ticks};
use crate::figures::ClockMapCurve;
use crate::query::Query;

/// Inputs of a scan of traces: everything between a run's files and its durations.
pub(crate) struct Inputs {
    pub layout: Layout,
    pub clocks: Clocks,
    pub rho: Rho,
    pub clock_maps: Vec<ClockMapSummary>,
    /// Every pair of counters, and findings about nodes that contradict all others.
    pub several: (Vec<PairSummary>, Vec<String>),
    pub sent_once: Vec<Assumption>,
    pub one_counter: Vec<Assumption>,
    pub auxiliary_clocks: Vec<AuxiliaryClockSummary>,
    pub unrelated: Vec<String>,
    /// Counters that nothing relates to the reference, and what durations within their nodes rest on.
    pub alone: Vec<RateAlone>,
    /// By point of the layout: index into `auxiliary_clocks`, if it was stamped with one of them.
    pub clock_of_point: Vec<Option<usize>>,
    pub refused: Vec<tickscope_store::Error>,
    /// Nodes of the layout by name, each with the index of its counter among those of `clocks`.
    pub of_node: Vec<(String, usize)>,
}

impl Inputs {
    /// `curves`: receives the plot data of each clock map, if given.
    pub(crate) fn of(run: &Run, query: &Query, curves: Option<&mut Vec<ClockMapCurve>>) -> Result<Self, Error> {
        let manifest = run.manifest();
        let layout = run.layout()?;
        let Related {
            clocks,
            of_node,
            own,
            clock_maps,
            between,
            pairs,
            culprits,
            sent_once,
            one_counter,
            unrelated,
            alone,
            refused,
        } = relate(run, &layout, query, curves)?;
        let rho = query.rho.map_or_else(|| run_rho(manifest), Ok)?;
        let coarse = own.coarse();
        let (own, of_point, auxiliary_clocks) = own.into_parts(&layout);
        let widths: Vec<_> =
            manifest.nodes.iter().map(|node| (node.name.to_string(), reading_ticks(manifest, node))).collect();
        let clocks = Clocks::new(&layout, clocks, &of_node)
            .and_then(|clocks| clocks.with_pairs(between))
            .and_then(|clocks| clocks.with_widths(&layout, &widths))
            .and_then(|clocks| clocks.with_own(&layout, own, &of_point))
            .and_then(|clocks| clocks.with_coarse(&layout, &coarse));
        let clocks = with_cores(manifest, &layout, clocks.map_err(Error::work)?)?;
        let clock =
            |point: &Point| of_point.iter().find(|(name, _)| *name == point.place.to_string()).map(|&(_, clock)| clock);
        let clock_of_point = layout.points().iter().map(clock).collect();
        Ok(Self {
            layout,
            clocks,
            rho,
            clock_maps,
            several: (pairs, culprits),
            sent_once,
            one_counter,
            auxiliary_clocks,
            unrelated,
            alone,
            clock_of_point,
            refused,
            of_node,
        })
    }
}

/// The files of traces, joined by this layout.
pub(crate) fn traces_of(run: &Run, layout: &Layout) -> Result<Vec<KeyedReader>, Error> {
    let listing = run.traces()?;
    if let Some(other) = listing.found.iter().find(|reader| !reader.is_joined_by(&run.manifest().layout)) {
        return Err(Error::work(format!(
            "{}: expected traces joined by the layout of run.json, found those of another. Join the run again",
            other.path().display()
        )));
    }
    let names: Vec<String> = layout.points().iter().map(|point| point.place.to_string()).collect();
    for reader in &listing.found {
        if reader.names() != names {
            return Err(Error::work(format!(
                "traces: expected the points {names:?}, found {:?}. Join the run again",
                reader.names()
            )));
        }
    }
    match listing.refused.into_iter().next() {
        Some(refused) => Err(refused.into()),
        // Joined from no stamps at all they would still be a file.
        None if listing.found.is_empty() => Err(Error::work(format!(
            "cannot find traces in {}: the run still goes on, or ended before its stamps were joined, or the \
             files were removed. Wait for its end; tickscope show joins stamps that are in the run, and tickscope \
             finish takes what still lies in shared memory",
            run.derived().traces().display()
        ))),
        None => Ok(listing.found),
    }
}

/// Notes what the check of the cores leaves open, which the widths of the readings hold already.
fn with_cores(manifest: &Manifest, layout: &Layout, clocks: Clocks) -> Result<Clocks, Error> {
    if !manifest.cores_proved() {
        return Ok(clocks);
    }
    if manifest.nodes.iter().any(|node| node.counter.sharing.bound_ticks.is_none()) {
        return Err(Error::work(
            "expected a checked bound between the cores (clock.cores = \"prove\"), found none. See tickscope doctor",
        ));
    }
    let reference_hertz = reference_node(manifest)?.counter.frequency.hertz;
    let of_node = manifest.nodes.iter().map(|node| {
        let ticks = on_reference(core_ticks(manifest, node), node.counter.frequency.hertz, reference_hertz);
        (node.name.to_string(), ticks)
    });
    Ok(clocks.with_cores(layout, &of_node.collect::<Vec<_>>()))
}

//! From a run's traces and brackets to its table, under the run's rho or another.

use tickscope_bracket::{Refused, Rho};
use tickscope_store::{KeyedReader, KeyedRows, KeyedWriter, Run};
use tickscope_tick::Frequency;
use tickscope_trace::{
    Apart, Clocks, Column, CoreTerm, Durations, Layout, Reconstruction, StageDurations, StageRow, StageTally,
    StageValues, Traces, reconstruct, tally,
};

use crate::error::Error;
use crate::own_clocks::{OwnClockSummary, Widths, reason};
use crate::relating::{Related, RelationSummary, reference_node, relate, run_rho};
use crate::terms::Terms;
use crate::truth::Truth;

/// Everything that the table says.
#[derive(Debug)]
pub struct Analysis {
    /// A row a stage, in the layout's order.
    pub rows: Vec<StageRow>,
    /// By stage: how far two values 1 ms apart may be wrong against each other, in ticks.
    pub relative_1ms_ticks: Vec<u64>,
    /// How well each node's counter is known.
    pub relations: Vec<RelationSummary>,
    /// Clocks of nodes beside their counters that points were stamped with.
    pub own_clocks: Vec<OwnClockSummary>,
    /// How fast the reference is declared to run.
    pub frequency: Frequency,
    /// What was held against the truth, where it is known.
    pub truth: Option<Truth>,
    /// Durations that were refused because a stamp's own clock has no interval for it: stage, reason, how many.
    pub unplaced: Vec<(String, &'static str, u64)>,
    /// Durations that cannot be, with both stamps.
    pub suspicions: Vec<String>,
    /// Traces whose path stages do not sum to the whole.
    pub sum_mismatches: u64,
    /// Files of brackets that could not be read, and why.
    pub refused: Vec<tickscope_store::Error>,
}

/// Computes the table under `terms`. `write`: keep the durations in the run.
pub fn analyse(run: &Run, terms: &Terms, write: bool) -> Result<Analysis, Error> {
    let manifest = run.manifest();
    let layout = manifest.layout.parse(run)?;
    let Related { clocks, of_node, own, relations, refused } = relate(run, &layout, terms)?;
    let rho = terms.rho.map_or_else(|| run_rho(manifest), Ok)?;
    let (own, of_point, mut own_clocks) = own.into_parts(&layout);
    let clocks = Clocks::new(&layout, clocks, &of_node).and_then(|clocks| clocks.with_own(&layout, own, &of_point));
    let clocks = clocks.map_err(Error::work)?;
    let clocks = with_cores(run, &layout, clocks)?;
    let stages = layout.stages().len();
    let (mut tallies, mut values) = (vec![StageTally::default(); stages], vec![StageValues::default(); stages]);
    let mut published = vec![Reconstruction::default(); layout.points().len()];
    let mut widths = vec![Widths::default(); own_clocks.len()];
    let clock_of_point: Vec<Option<usize>> = layout
        .points()
        .iter()
        .map(|point| of_point.iter().find(|(name, _)| *name == point.full_name()).map(|&(_, clock)| clock))
        .collect();
    let mut truth = Truth::of(manifest);
    let mut sum_mismatches = 0;
    let mut writer = if write { Some(durations_writer(run, &layout, rho, &relations)?) } else { None };
    for reader in traces_of(run, &layout)? {
        for group in 0..reader.groups() {
            let keyed = reader.read_group(group)?;
            let traces = columns(&keyed)?;
            let durations = Durations::of(&layout, &clocks, &traces).map_err(Error::work)?;
            tally(&layout, &clocks, &traces, &durations, &mut tallies);
            for (stage, values) in values.iter_mut().enumerate() {
                values.add(&layout, &traces, &durations, stage);
            }
            if let Some(truth) = &mut truth {
                truth.compare(&layout, &traces, &durations);
            }
            reconstruct(&layout, &clocks, &traces, &durations, &mut published);
            for (point, clock) in clock_of_point.iter().enumerate() {
                if let (Some(clock), Some(stamps)) = (clock, durations.own(point)) {
                    widths[*clock].add(stamps);
                }
            }
            sum_mismatches += mismatches(&layout, &traces, &durations);
            if let Some(writer) = &mut writer {
                writer.write(duration_rows(keyed, &durations))?;
            }
        }
    }
    if let Some(writer) = writer {
        writer.finish()?;
    }
    for (clock, summary) in own_clocks.iter_mut().enumerate() {
        let points = clock_of_point.iter().zip(&published).filter(|(of, _)| **of == Some(clock));
        summary.tell(&widths[clock], &points.map(|(_, found)| *found).collect::<Vec<_>>());
    }
    let frequency = reference_node(manifest)?.counter.frequency.clone();
    let millisecond = frequency.hertz / 1000;
    let relative_1ms_ticks = tallies.iter().enumerate();
    let relative_1ms_ticks = relative_1ms_ticks
        .map(|(stage, tally)| tally.relative(&layout, &clocks, stage, Apart::by(millisecond)))
        .collect();
    let suspicions = suspicions(&layout, &tallies);
    let rows = tallies.iter().zip(values).enumerate();
    let rows =
        rows.filter_map(|(stage, (tally, values))| StageRow::new(&layout, &clocks, stage, tally, values)).collect();
    Ok(Analysis {
        rows,
        relative_1ms_ticks,
        relations,
        own_clocks,
        frequency: Frequency { hertz: frequency.hertz, tolerance_ppm: frequency.tolerance_ppm },
        truth,
        suspicions,
        unplaced: unplaced(&layout, &tallies),
        sum_mismatches,
        refused,
    })
}

/// Adds what the check of the cores leaves open, where the run asked for it.
fn with_cores(run: &Run, layout: &Layout, clocks: Clocks) -> Result<Clocks, Error> {
    let manifest = run.manifest();
    let prove = manifest.assumptions.iter().any(|assumption| assumption.origin == CORES_PROVED);
    if !prove {
        return Ok(clocks);
    }
    let bound = manifest.nodes.iter().map(|node| node.counter.sharing.bound_ticks).collect::<Option<Vec<_>>>();
    let ticks = bound.and_then(|bounds| bounds.into_iter().max()).ok_or_else(|| {
        Error::work(
            "expected a checked bound between the cores (clock.cores = \"prove\"), found none. See tickscope doctor",
        )
    })?;
    // Threads may have migrated between any two stamps: no stage within a node is taken to be on one core.
    let threads = vec![None; layout.points().len()];
    clocks.with_core_term(CoreTerm { ticks, threads }).map_err(Error::work)
}

/// Marks the assumption that makes the analysis add the cores' term.
pub const CORES_PROVED: &str = "declared: proved, term added";

fn traces_of(run: &Run, layout: &Layout) -> Result<Vec<KeyedReader>, Error> {
    let listing = run.traces()?;
    let names: Vec<String> = layout.points().iter().map(tickscope_trace::Point::full_name).collect();
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
        None => Ok(listing.found),
    }
}

fn columns(rows: &KeyedRows) -> Result<Traces, Error> {
    let column = |sparse: &tickscope_store::Sparse<i64>| {
        let values = sparse.iter().map(|value| value.copied().unwrap_or(0)).collect();
        Column::new(values, sparse.iter().map(|value| value.is_some()).collect())
    };
    let points = rows.columns.iter().map(column).collect::<Result<Vec<_>, _>>().map_err(Error::work)?;
    Traces::new(rows.kind.clone(), rows.id.clone(), rows.occurrence.clone(), points).map_err(Error::work)
}

fn durations_writer(run: &Run, layout: &Layout, rho: Rho, relations: &[RelationSummary]) -> Result<KeyedWriter, Error> {
    let names = layout.stages().iter().flat_map(|stage| ["", ".lo", ".hi"].map(|end| format!("{}{end}", stage.name)));
    let slopes = relations.iter().map(|relation| {
        let (slowest, fastest) = relation.slopes;
        serde_json::json!({"domain": relation.domain, "slowest": slowest, "fastest": fastest, "brackets": relation.brackets})
    });
    let stages = layout.stages().iter();
    let stages = stages.map(|stage| {
        let name = |point: usize| layout.points()[point].full_name();
        serde_json::json!({"stage": stage.name, "from": name(stage.from), "to": name(stage.to)})
    });
    let keys = [
        ("tickscope.model", format!("drift; rho {rho}; anchor: middle of the evidence")),
        ("tickscope.stages", serde_json::Value::from_iter(stages).to_string()),
        ("tickscope.cones", serde_json::Value::from_iter(slopes).to_string()),
    ];
    let place = run.places().durations(rho.ppb().into()).join("part-00000000.parquet");
    Ok(KeyedWriter::begin(&place, &names.collect::<Vec<_>>(), &keys)?)
}

fn duration_rows(keyed: KeyedRows, durations: &Durations) -> KeyedRows {
    let column = |column: &Column| (0..column.len()).map(|row| column.get(row)).collect();
    let columns = |stage: &StageDurations| [column(&stage.estimate), column(&stage.lo), column(&stage.hi)];
    KeyedRows { columns: durations.stages().iter().flat_map(columns).collect(), ..keyed }
}

/// Traces whose path stages do not sum to the whole exactly: there are none, and the table says that it was looked at.
fn mismatches(layout: &Layout, traces: &Traces, durations: &Durations) -> u64 {
    let path = layout.path().len() - 1;
    let (path, rest) = durations.stages().split_at(path);
    let whole = &rest[0].estimate;
    let differs = |&row: &usize| {
        let sum: Option<i64> = path.iter().map(|stage| stage.estimate.get(row)).sum();
        sum.is_some() && sum != whole.get(row)
    };
    (0..traces.len()).filter(differs).count() as u64
}

fn unplaced(layout: &Layout, tallies: &[StageTally]) -> Vec<(String, &'static str, u64)> {
    let by_reason = |tally: &StageTally| {
        let by = &tally.refused_by;
        let reasons = [Refused::Outside, Refused::InBreak, Refused::Ambiguous, Refused::Contradictory];
        reasons.map(reason).into_iter().zip([by.outside, by.in_break, by.ambiguous, by.contradictory])
    };
    let all = layout.stages().iter().zip(tallies);
    let all = all.flat_map(|(stage, tally)| by_reason(tally).map(|(why, count)| (stage.name.clone(), why, count)));
    all.filter(|&(.., count)| count > 0).collect()
}

fn suspicions(layout: &Layout, tallies: &[StageTally]) -> Vec<String> {
    let all = layout.stages().iter().zip(tallies);
    all.flat_map(|(stage, tally)| {
        // A reading that its clock has no interval for is missing evidence, told by its reason; it is no contradiction.
        let refusals_matter = tally.refused_by.no_interval > 0;
        let suspicious = tally.suspicions.iter().filter(move |found| found.interval.is_some() || refusals_matter);
        suspicious.map(|found| {
            let (lo_hi, id) = (found.interval, found.id);
            let what = lo_hi.map_or("no interval at all".into(), |(lo, hi)| format!("{lo} to {hi} ticks"));
            format!(
                "{} of id {id}: expected a duration that is not negative, found {what} between the stamps {} and {}",
                stage.name, found.from_tick, found.to_tick
            )
        })
    })
    .collect()
}

//! From a run's traces and brackets to its table, under the run's rho or another.

use tickscope_bracket::{Bracket, Cone, Error as BracketError, Model, Ratio, Relation, Rho};
use tickscope_store::{BracketColumns, KeyedReader, KeyedRows, KeyedWriter, Manifest, Node, Pair, Run, SameBoot};
use tickscope_tick::{Frequency, Local, Tick};
use tickscope_trace::{
    Apart, Clock, Clocks, Column, CoreTerm, Durations, Layout, StageDurations, StageRow, StageTally, StageValues,
    Traces, tally,
};

use crate::failure::Failure;
use crate::truth::Truth;

/// Everything that the table says.
#[derive(Debug)]
pub struct Analysis {
    pub rows: Vec<StageRow>,
    /// By stage: how far two values 1 ms apart may be wrong against each other, in ticks.
    pub relative_1ms_ticks: Vec<u64>,
    pub relations: Vec<RelationSummary>,
    pub frequency: Frequency,
    pub truth: Option<Truth>,
    pub suspicions: Vec<String>,
    pub sum_mismatches: u64,
    /// Files of brackets that could not be read, and why.
    pub refused: Vec<tickscope_store::Error>,
}

/// How well a node's counter is known in ticks of the reference.
#[derive(Debug)]
pub struct RelationSummary {
    pub domain: String,
    pub rho: Rho,
    pub brackets: usize,
    pub half_width_ticks: Option<u64>,
    pub half_round_trip_ticks: Option<i64>,
    /// The same half-width under other rho, by preset.
    pub beside: Vec<(Rho, Option<u64>)>,
    /// Slopes of the cone, reference ticks a local tick.
    pub slopes: (f64, f64),
}

/// Where a node's clock comes from.
struct Related {
    clocks: Vec<Clock>,
    of_node: Vec<(String, usize)>,
    relations: Vec<RelationSummary>,
    refused: Vec<tickscope_store::Error>,
}

/// Computes the table; `rho` takes the place of the run's own. `write`: keep the durations in the run.
pub fn analyse(run: &Run, rho: Option<Rho>, write: bool) -> Result<Analysis, Failure> {
    let manifest = run.manifest();
    let layout = manifest.layout.parse(run)?;
    let related = relate(run, &layout, rho)?;
    let rho = rho.map_or_else(|| run_rho(manifest), Ok)?;
    let clocks = Clocks::new(&layout, related.clocks, &related.of_node).map_err(Failure::work)?;
    let clocks = with_cores(run, &layout, clocks)?;
    let stages = layout.stages().len();
    let (mut tallies, mut values) = (vec![StageTally::default(); stages], vec![StageValues::default(); stages]);
    let mut truth = Truth::of(manifest);
    let mut sum_mismatches = 0;
    let mut writer = if write { Some(durations_writer(run, &layout, rho, &related.relations)?) } else { None };
    for reader in traces_of(run, &layout)? {
        for group in 0..reader.groups() {
            let keyed = reader.read_group(group)?;
            let traces = columns(&keyed)?;
            let durations = Durations::of(&layout, &clocks, &traces).map_err(Failure::work)?;
            tally(&layout, &clocks, &traces, &durations, &mut tallies);
            for (stage, values) in values.iter_mut().enumerate() {
                values.add(&layout, &traces, &durations, stage);
            }
            if let Some(truth) = &mut truth {
                truth.compare(&layout, &traces, &durations);
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
        relations: related.relations,
        frequency: Frequency { hertz: frequency.hertz, tolerance_ppm: frequency.tolerance_ppm },
        truth,
        suspicions,
        sum_mismatches,
        refused: related.refused,
    })
}

/// The rho that the run declared.
pub fn run_rho(manifest: &Manifest) -> Result<Rho, Failure> {
    match manifest.rho.first() {
        None => Ok(Rho::default()),
        Some(rho) => rho.origin.parse::<Rho>().or_else(|_| {
            if rho.origin == "default" {
                return Ok(Rho::default());
            }
            let ppb = u32::try_from(rho.ppb).map_err(Failure::work)?;
            Rho::declared_ppb(ppb).map_err(Failure::work)
        }),
    }
}

fn reference_node(manifest: &Manifest) -> Result<&Node, Failure> {
    let found = manifest.nodes.iter().find(|node| domain_of(node) == manifest.reference);
    found.ok_or_else(|| {
        Failure::work(format!("run.json: expected a node with the domain {}, found none", manifest.reference))
    })
}

/// The label of the domain that a node's stamps are read from.
pub fn domain_of(node: &Node) -> String {
    format!("{}.{}", node.name, node.counter.counter)
}

/// A clock for every node of the layout: the reference's own, shared with it, or through a relation.
fn relate(run: &Run, layout: &Layout, rho: Option<Rho>) -> Result<Related, Failure> {
    let manifest = run.manifest();
    let reference = reference_node(manifest)?;
    let mut related =
        Related { clocks: vec![Clock::Reference], of_node: Vec::new(), relations: Vec::new(), refused: Vec::new() };
    for node in &manifest.nodes {
        if !layout.points().iter().any(|point| point.node == node.name.as_str()) {
            continue;
        }
        if shares_counter(manifest, node, reference) {
            related.of_node.push((node.name.to_string(), 0));
            continue;
        }
        let pair = Pair { reference: manifest.reference.clone(), domain: domain_of(node) };
        let rho = rho.map_or_else(|| run_rho(manifest), Ok)?;
        let nominal =
            Ratio::new(reference.counter.frequency.hertz, node.counter.frequency.hertz).map_err(Failure::work)?;
        let listing = run.brackets(&pair)?;
        let (relation, summary) = relation(&listing.found, &pair, rho, nominal)?;
        related.refused.extend(listing.refused);
        related.of_node.push((node.name.to_string(), related.clocks.len()));
        related.clocks.push(Clock::Related(relation));
        related.relations.push(summary);
    }
    Ok(related)
}

fn shares_counter(manifest: &Manifest, node: &Node, reference: &Node) -> bool {
    let one_counter = node.boot == reference.boot && node.counter.counter == reference.counter.counter;
    node.name == reference.name
        || (manifest.same_boot == SameBoot::Detect
            && one_counter
            && node.injected.is_none()
            && reference.injected.is_none())
}

fn relation(
    columns: &BracketColumns,
    pair: &Pair,
    rho: Rho,
    nominal: Ratio,
) -> Result<(Relation, RelationSummary), Failure> {
    let ends = columns.before.iter().zip(columns.after.iter());
    let brackets: Vec<Bracket> =
        columns.at.iter().zip(ends).map(|(&at, (b, a))| whole_ticks(b, at, a, nominal)).collect();
    let (Some(&first), Some(&last)) = (columns.at.iter().min(), columns.at.iter().max()) else {
        let Pair { reference, domain } = pair;
        return Err(Failure::work(format!(
            "expected brackets of {domain} against {reference}, found none. Was the probe's port reachable? Were the files refused?"
        )));
    };
    let anchor = Tick::<Local>::new(first + (last - first) / 2);
    let built = |rho| Relation::new(&brackets, &Model::new(rho, nominal, anchor));
    let relation = built(rho).map_err(|error| refuse(pair, &error))?;
    let half_width = |relation: &Relation| {
        const SAMPLES: i64 = 1000;
        let at = (0..=SAMPLES)
            .map(|step| Tick::new(first + ((last - first) as i128 * i128::from(step) / i128::from(SAMPLES)) as i64));
        relation.half_widths(at).ok().and_then(|widths| widths.median())
    };
    let beside = ["unknown", "server-room"].into_iter().filter_map(|preset| preset.parse::<Rho>().ok());
    let beside = beside.filter(|other| other.ppb() != rho.ppb());
    let beside = beside.map(|other| (other, built(other).ok().as_ref().and_then(half_width))).collect();
    let cone = relation.cone();
    let summary = RelationSummary {
        domain: pair.domain.clone(),
        rho,
        brackets: brackets.len(),
        half_width_ticks: half_width(&relation),
        half_round_trip_ticks: half_round_trip(&brackets),
        beside,
        slopes: (fixed_to_float(cone.slowest()), fixed_to_float(cone.fastest())),
    };
    Ok((relation, summary))
}

/// A reading of `n` says that the counter stood somewhere from `n` to `n + 1`. The evidence keeps raw readings, so what
/// that leaves open is added here: a tick of the reference above, and what the reference counts in one local tick below.
fn whole_ticks(before: Option<&i64>, at: i64, after: Option<&i64>, nominal: Ratio) -> Bracket {
    let a_local_tick = 1 + nominal.numerator().div_ceil(nominal.denominator()) as i64;
    Bracket::new(before.map(|tick| tick - a_local_tick), at, after.map(|tick| tick + 1))
}

/// For display only.
fn fixed_to_float(slope: i128) -> f64 {
    slope as f64 / (1u128 << Cone::FRACTION_BITS) as f64
}

/// Half the shortest round trip, the peer's turnaround taken off: request and reply brackets stand in pairs.
fn half_round_trip(brackets: &[Bracket]) -> Option<i64> {
    let pairs = brackets.windows(2).filter_map(|pair| {
        let (t1, t4) = (pair[0].before?, pair[1].after?);
        Some((t4 - t1).get() - (pair[1].at - pair[0].at).get())
    });
    pairs.min().map(|shortest| shortest / 2)
}

fn refuse(pair: &Pair, error: &BracketError) -> Failure {
    let Pair { reference, domain } = pair;
    let message = format!("{domain} against {reference}: {error}");
    if matches!(error, BracketError::Inconsistent(_)) { Failure::finding(message) } else { Failure::work(message) }
}

/// Adds what the check of the cores leaves open, where the run asked for it.
fn with_cores(run: &Run, layout: &Layout, clocks: Clocks) -> Result<Clocks, Failure> {
    let manifest = run.manifest();
    let prove = manifest.assumptions.iter().any(|assumption| assumption.origin == CORES_PROVED);
    if !prove {
        return Ok(clocks);
    }
    let bound = manifest.nodes.iter().map(|node| node.counter.sharing.bound_ticks).collect::<Option<Vec<_>>>();
    let ticks = bound.and_then(|bounds| bounds.into_iter().max()).ok_or_else(|| {
        Failure::work(
            "expected a checked bound between the cores (clock.cores = \"prove\"), found none. See tickscope doctor",
        )
    })?;
    // Threads may have migrated between any two stamps: no stage within a node is taken to be on one core.
    let threads = vec![None; layout.points().len()];
    clocks.with_core_term(CoreTerm { ticks, threads }).map_err(Failure::work)
}

/// Marks the assumption that makes the analysis add the cores' term.
pub const CORES_PROVED: &str = "declared: proved, term added";

fn traces_of(run: &Run, layout: &Layout) -> Result<Vec<KeyedReader>, Failure> {
    let listing = run.traces()?;
    let names: Vec<String> = layout.points().iter().map(tickscope_trace::Point::full_name).collect();
    for reader in &listing.found {
        if reader.names() != names {
            return Err(Failure::work(format!(
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

fn columns(rows: &KeyedRows) -> Result<Traces, Failure> {
    let column = |sparse: &tickscope_store::Sparse<i64>| {
        let values = sparse.iter().map(|value| value.copied().unwrap_or(0)).collect();
        Column::new(values, sparse.iter().map(|value| value.is_some()).collect())
    };
    let points = rows.columns.iter().map(column).collect::<Result<Vec<_>, _>>().map_err(Failure::work)?;
    Traces::new(rows.kind.clone(), rows.id.clone(), rows.occurrence.clone(), points).map_err(Failure::work)
}

fn durations_writer(
    run: &Run,
    layout: &Layout,
    rho: Rho,
    relations: &[RelationSummary],
) -> Result<KeyedWriter, Failure> {
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

fn suspicions(layout: &Layout, tallies: &[StageTally]) -> Vec<String> {
    let all = layout.stages().iter().zip(tallies);
    all.flat_map(|(stage, tally)| {
        tally.suspicions.iter().map(|found| {
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

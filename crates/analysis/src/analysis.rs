//! From a run's traces and brackets to its table, under the run's rho or another.

use std::collections::{BTreeMap, BTreeSet};

use tickscope_bracket::Refused;
use tickscope_store::{Event, EventKind, LimitRule, Manifest, Node, Run, RunState};
use tickscope_tick::{Frequency, Label, counted};
use tickscope_trace::{Apart, Clocks, Layout, Refusal, StageRow, StageTally};

use crate::assumption::Assumption;
use crate::auxiliary_clocks::{AuxiliaryClockSummary, reason};
use crate::clock_maps::{ClockMapSummary, RateAlone};
use crate::closure::PairSummary;
use crate::counters::reference_node;
use crate::counts::Counts;
use crate::domains;
use crate::duration_cache::{DurationRows, Table};
use crate::error::Error;
use crate::figures::{ClockMapCurve, Collector, Figures, StageFigures, ToDraw};
use crate::impossible_counts::impossible_counts;
use crate::inputs::Inputs;
use crate::kept::Kept;
use crate::late_pools::{LatePools, LateStage};
use crate::limits::{Limit, Limits};
use crate::noise::{Noise, StageNoise};
use crate::passages::PassageSummary;
use crate::path_columns::PathColumns;
use crate::query::Query;
use crate::ready::{self, Preparation, Unstamped};
use crate::scan::{self, Scan, Sink};
use crate::stream::{Known, Stream};
use crate::truth::Truth;
use crate::values::Values;

/// Everything that the table says.
#[derive(Debug)]
pub struct Analysis {
    /// A row a stage, in the layout's order.
    pub rows: Vec<StageRow>,
    /// By stage: how far two values 1 ms apart may be wrong against each other, in ticks.
    pub relative_1ms_ticks: Vec<u64>,
    /// How well each node's counter is known.
    pub clock_maps: Vec<ClockMapSummary>,
    /// Every pair of counters, where nodes besides the reference have evidence of each other; empty elsewhere.
    pub pairs: Vec<PairSummary>,
    /// On what it rests that messages that serve as evidence were sent once.
    pub sent_once: Vec<Assumption>,
    /// On what it rests that nodes read one counter.
    pub one_counter: Vec<Assumption>,
    /// Clocks other than counters that points were stamped with.
    pub auxiliary_clocks: Vec<AuxiliaryClockSummary>,
    /// The reference.
    pub reference: Label,
    /// All counters that points of the layout were stamped with.
    pub counters: Vec<Label>,
    /// Findings about counters, other clocks and counts of stamps that leave a bound, or what was lost, without ground.
    pub unsound: Vec<String>,
    /// How fast the reference is declared to run.
    pub frequency: Frequency,
    /// Durations held against the truth, where it is known.
    pub truth: Option<Truth>,
    /// Durations that were refused because a stamp's auxiliary clock has no interval for it, or because nothing tells
    /// which stamps of an id belong together: stage, reason, how many.
    pub unplaced: Vec<(String, &'static str, u64)>,
    /// Durations that cannot be, with both stamps.
    pub suspicions: Vec<String>,
    /// Ids that passed some point more than once.
    pub passages: PassageSummary,
    /// Treatment of those ids, in words; `None` where there are none.
    pub passages_line: Option<String>,
    /// Traces whose path stages do not sum to the whole.
    pub sum_mismatches: u64,
    /// The first and the last stamp of any trace on each node's counter, as estimated.
    pub end_ticks: BTreeMap<String, (i64, i64)>,
    /// Files of evidence that could not be read, and why; and what [`Run::faults`] finds, where whoever asked adds it.
    pub refused: Vec<tickscope_store::Error>,
    /// Ids that passed every point of some way through the layout.
    pub complete: u64,
    /// Points of the layout that nothing was stamped at, a sentence each with the nearest name or the policy that left
    /// it out; empty where some id is complete.
    pub unstamped: Vec<String>,
    /// Points of the layout that only count, a sentence each; empty where some id is complete.
    pub counting: Vec<String>,
    /// Nodes whose clocks nothing relates to the reference, a sentence each.
    pub unrelated: Vec<String>,
    /// Counters that nothing relates to the reference, and what durations within their nodes rest on.
    pub alone: Vec<RateAlone>,
    /// Each stage without the traces that something disturbed, in the layout's order; empty where nobody recorded it.
    pub noise: Vec<StageNoise>,
    /// The same of pauses that JVMs told of, in their logs; empty where the run has none.
    pub pauses: Vec<StageNoise>,
    /// Stages with traces that span the making of a program's pool.
    pub late_pools: Vec<LateStage>,
    /// What programs say that their stamps are read from, a sentence each.
    pub program_readings: Vec<String>,
    /// Why durations are not kept in the run, where they were to be: whoever asks for them has them computed again.
    pub not_kept: Option<tickscope_store::Error>,
    /// What the policies of the layout's points leave out.
    pub kept: Kept,
    /// How the traces stand to each limit of the run, or of whoever asks.
    pub limits: Vec<Limit>,
    /// The span of a stream, where points keep the first stamp and the last.
    pub stream: Option<Stream>,
    /// What was done to make the run ready, where [`ready`](crate::ready) did.
    pub preparation: Preparation,
    /// True if the run was cut off: what its programs stamped since the last look is in no count.
    pub cut_off: bool,
}

/// Computes the table under `query`. `write`: keep the durations in the run.
pub fn analyse(run: &Run, query: &Query, write: bool) -> Result<Analysis, Error> {
    Ok(analyse_beside(run, query, write, |_| Ok(()))?.0)
}

/// The same with one more question to the same traces: the sink that `ask` makes of what the evidence says.
pub fn analyse_beside<S: Sink>(
    run: &Run,
    query: &Query,
    write: bool,
    ask: impl FnOnce(&Scan) -> Result<S, Error>,
) -> Result<(Analysis, S), Error> {
    let scan = Scan::of(run, query)?;
    let mut asked = ask(&scan)?;
    let wanted = Wanted { write, draw: false, values: true };
    Ok((analysed(run, query, scan, &mut asked, wanted)?.0, asked))
}

/// The same without quantiles and means, for whoever shows other figures and has to say how the run stands: memory does
/// not grow with the run.
pub fn analyse_counts(run: &Run, query: &Query) -> Result<Analysis, Error> {
    analyse_scan(run, query, Scan::of(run, query)?)
}

/// The same of a scan under that query which has shown other figures: the evidence is not read again.
pub fn analyse_scan(run: &Run, query: &Query, scan: Scan) -> Result<Analysis, Error> {
    Ok(analysed(run, query, scan, &mut (), Wanted { write: false, draw: false, values: false })?.0)
}

/// The same, and what a page draws, in one scan of the traces.
pub fn analyse_with_figures(run: &Run, query: &Query, write: bool) -> Result<(Analysis, Figures), Error> {
    let (analysis, figures, ()) = analyse_with_figures_beside(run, query, write, |_| Ok(()))?;
    Ok((analysis, figures))
}

/// The same with one more question to the same traces, as [`analyse_beside`] takes it.
pub fn analyse_with_figures_beside<S: Sink>(
    run: &Run,
    query: &Query,
    write: bool,
    ask: impl FnOnce(&Scan) -> Result<S, Error>,
) -> Result<(Analysis, Figures, S), Error> {
    let mut curves = Vec::new();
    let mut scan = Scan::with(run, query, Some(&mut curves))?;
    scan.curves = curves;
    let mut asked = ask(&scan)?;
    let wanted = Wanted { write, draw: true, values: true };
    let (analysis, figures) = analysed(run, query, scan, &mut asked, wanted)?;
    let mut figures = figures.ok_or_else(|| {
        Error::work("no figures were computed though they were asked for. This is a bug: report it with the run")
    })?;
    figures.traces.name_originals(run)?;
    Ok((analysis, figures, asked))
}

/// What is made of a scan besides counts.
#[derive(Clone, Copy)]
struct Wanted {
    /// Durations are kept in the run.
    write: bool,
    /// A page is drawn.
    draw: bool,
    /// Quantiles and means are computed, of values that are all in memory.
    values: bool,
}

/// Outcome of one scan over the traces.
struct Scanned {
    inputs: Inputs,
    counts: Counts,
    values: Values,
    collector: Option<(Collector, PathColumns)>,
    disturbed: Disturbed,
    curves: Vec<ClockMapCurve>,
    limits: Option<Limits>,
    not_kept: Option<tickscope_store::Error>,
}

/// What is known of what disturbed stages.
struct Disturbed {
    noise: Vec<StageNoise>,
    pauses: Vec<StageNoise>,
    late_pools: Vec<LateStage>,
}

fn scanned(run: &Run, query: &Query, scan: Scan, asked: &mut impl Sink, wanted: Wanted) -> Result<Scanned, Error> {
    let Wanted { write, draw, values } = wanted;
    let Scan { mut inputs, readers, curves, channels, .. } = scan;
    let table = Table::of(run, &inputs, &readers)?;
    let folder = run.derived().durations(inputs.rho.ppb().into());
    let (mut writer, unbegun) = match write.then(|| table.begin(&folder)).transpose() {
        Ok(writer) => (writer, None),
        Err(why) => (None, Some(why)),
    };
    // An inferred order was read off the very stamps: holding it against the truth would say nothing.
    let truth = if inputs.layout.is_inferred() { None } else { Truth::of(run.manifest()) };
    let counts = Counts::none(&inputs, &readers, truth);
    let none = || Values::none(inputs.layout.stages().len());
    let gathered = (counts, values.then(none));
    let frequency = &reference_node(run.manifest())?.counter.frequency;
    let rules = if values { rules(run, query) } else { &[] };
    let limits = Limits::of(rules, &inputs.layout, frequency.hertz, frequency.tolerance_ppm);
    let (noise, unread) = match values {
        true => Noise::of(run, &inputs.layout, |point| inputs.clock_of_point[point].is_some())?,
        false => Default::default(),
    };
    inputs.refused.extend(unread);
    let pauses = if values { Noise::of_pauses(run, &inputs, query)? } else { None };
    let late = if values { LatePools::of(run, &inputs)? } else { None };
    let mut sink = (
        gathered,
        (
            (
                draw.then(|| (Collector::none(&inputs.layout, &readers, channels), PathColumns::of(&inputs.layout))),
                (asked, ((noise, pauses), late)),
            ),
            (writer.as_mut().map(DurationRows::to), limits),
        ),
    );
    scan::over(&inputs, &readers, scan::processors(), &mut sink)?;
    let ((counts, values), ((collector, (_, ((noise, pauses), late))), (rows, limits))) = sink;
    let unwritten = unbegun.or(rows.and_then(|rows| rows.failed));
    let unfinished = || writer.and_then(|writer| writer.finish().err());
    let not_kept = unwritten.or_else(unfinished);
    let values = values.unwrap_or_else(none);
    let finish = |noise: Option<Noise>| noise.map_or_else(Vec::new, |noise| noise.finish(&inputs.layout));
    let late_pools = late.map(|late| late.finish(&inputs.layout, run)).transpose()?.unwrap_or_default();
    let disturbed = Disturbed { noise: finish(noise), pauses: finish(pauses), late_pools };
    Ok(Scanned { inputs, counts, values, collector, disturbed, curves, limits, not_kept })
}

/// An analysis, and what a page draws, if one is drawn.
type Drawn = (Analysis, Option<Figures>);

fn analysed(run: &Run, query: &Query, scan: Scan, asked: &mut impl Sink, wanted: Wanted) -> Result<Drawn, Error> {
    let manifest = run.manifest();
    let Scanned { inputs, counts, values, collector, disturbed, curves, limits, not_kept } =
        scanned(run, query, scan, asked, wanted)?;
    let Inputs {
        layout,
        clocks,
        clock_maps,
        several: (pairs, culprits),
        sent_once,
        one_counter,
        mut auxiliary_clocks,
        unrelated,
        alone,
        clock_of_point,
        refused,
        ..
    } = inputs;
    tell(&mut auxiliary_clocks, &clock_of_point, &counts);
    let frequency = reference_node(manifest)?.counter.frequency.clone();
    let Counts { tallies, passages, truth, sum_mismatches, complete, .. } = counts;
    let (kept, stream, limits) = covered(run, query, &layout, &clocks, limits)?;
    let mut suspicions = suspicions(&layout, &clocks, &tallies);
    suspicions.extend(untold(&layout, &tallies, &passages, &kept.thinned).filter(|_| !layout.is_inferred()));
    let unstamped = if complete == 0 { ready::unstamped(run, &layout)? } else { Unstamped::default() };
    let (rows, drawn) = stages(&layout, &clocks, &tallies, values, query, wanted.draw);
    let drawn = ToDraw { stages: drawn, clock_maps: curves, slow: query.slow() };
    let figures = collector.map(|(kept, path)| kept.figures(&layout, &clocks, drawn, &rows, path));
    let nodes = || manifest.nodes.iter().filter(|node| layout.points().iter().any(|at| at.place.node == node.name));
    let unfit = culprits.into_iter().chain(domains::unfit(nodes())).chain(impossible_counts(run)?);
    let analysis = Analysis {
        unsound: unfit.chain(auxiliary_clocks.iter().flat_map(AuxiliaryClockSummary::findings)).collect(),
        counters: nodes().map(Node::domain).collect(),
        one_counter,
        rows,
        relative_1ms_ticks: relative_1ms(manifest, &layout, &clocks, &tallies),
        clock_maps,
        pairs,
        sent_once,
        auxiliary_clocks,
        reference: manifest.reference.clone(),
        frequency: Frequency { hertz: frequency.hertz, tolerance_ppm: frequency.tolerance_ppm },
        truth,
        suspicions,
        end_ticks: end_ticks(&layout, &tallies),
        passages_line: passages.line(&layout),
        passages,
        unplaced: unplaced(&layout, &tallies),
        sum_mismatches,
        refused,
        complete,
        unstamped: unstamped.never,
        counting: unstamped.counting,
        unrelated,
        alone,
        noise: disturbed.noise,
        pauses: disturbed.pauses,
        late_pools: disturbed.late_pools,
        program_readings: program_readings(run)?,
        not_kept,
        kept,
        limits,
        stream,
        preparation: Preparation::default(),
        cut_off: run.state()? == RunState::CutOff,
    };
    Ok((analysis, figures.transpose()?))
}

/// What programs say that their stamps are read from, in the order of their nodes.
fn program_readings(run: &Run) -> Result<Vec<String>, Error> {
    let events = run.events()?.found.into_iter().filter(|event| event.what == EventKind::ProgramReading);
    let all: BTreeSet<String> = events.map(|event| format!("{}: {}", event.node, event.text)).collect();
    Ok(all.into_iter().collect())
}

/// The limits that are asked for, or else the run's own.
fn rules<'a>(run: &'a Run, query: &'a Query) -> &'a [LimitRule] {
    query.limits.as_ref().unwrap_or(&run.manifest().limits)
}

/// What the policies of the layout's points leave out, the span of a stream over it, and its limits.
fn covered(
    run: &Run,
    query: &Query,
    layout: &Layout,
    clocks: &Clocks,
    limits: Option<Limits>,
) -> Result<(Kept, Option<Stream>, Vec<Limit>), Error> {
    let (channels, events) = (run.channels()?, run.events()?.found);
    let kept = Kept::of_run(run, layout, &channels.found, &events)?;
    let known = Known { channels: &channels, events: &events };
    let stream = Stream::of(run, layout, clocks, known)?;
    let limits = limits.map(|limits| limits.finish(rules(run, query), layout, &kept, run)).transpose()?;
    Ok((kept, stream, limits.unwrap_or_default()))
}

/// The stages' rows, of those that have values, and what is to be drawn of all.
fn stages(
    layout: &Layout,
    clocks: &Clocks,
    tallies: &[StageTally],
    values: Values,
    query: &Query,
    draw: bool,
) -> (Vec<StageRow>, Vec<StageFigures>) {
    let all = values.finish_stages(|stage, mut values| {
        let drawn = draw.then(|| StageFigures::of(&layout.stages()[stage], &mut values));
        let asked = values.quantiles(&query.quantiles);
        let row = StageRow::new(layout, clocks, stage, &tallies[stage], values);
        (row.map(|row| StageRow { quantiles: asked, ..row }), drawn)
    });
    let (rows, drawn): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    (rows.into_iter().flatten().collect(), drawn.into_iter().flatten().collect())
}

/// Gives each auxiliary clock what was counted of its readings.
fn tell(clocks: &mut [AuxiliaryClockSummary], clock_of_point: &[Option<usize>], counts: &Counts) {
    for (clock, summary) in clocks.iter_mut().enumerate() {
        let points = clock_of_point.iter().zip(&counts.published).filter(|(of, _)| **of == Some(clock));
        summary.tell(&counts.widths[clock], &points.map(|(_, found)| *found).collect::<Vec<_>>());
    }
}

impl Analysis {
    /// The first thing that contradicts the figures, the bounds or an assumption, or else that the end of a stream is
    /// not known: whoever shows the figures has to say it.
    pub fn finding(&self, events: &[Event]) -> Option<String> {
        self.contradiction(events).or_else(|| self.open_stream())
    }

    /// Sinks of a stream that never saw its end. It contradicts nothing: all other figures stand.
    pub fn open_stream(&self) -> Option<String> {
        self.stream.as_ref().and_then(Stream::finding)
    }

    /// The first thing that contradicts the figures, the bounds or an assumption: no figure is to be believed without
    /// a look at why.
    pub fn contradiction(&self, events: &[Event]) -> Option<String> {
        self.told(events).or_else(|| self.findings_in_brief().into_iter().next())
    }

    /// What events, the truth and sums tell, which [`Analysis::findings`] does not have.
    fn told(&self, events: &[Event]) -> Option<String> {
        let outside = self.truth.as_ref().map_or(0, |truth| truth.known - truth.inside);
        if outside > 0 {
            return Some(match outside {
                1 => "1 true duration lies outside its interval: a false bound".into(),
                _ => format!("{outside} true durations lie outside their intervals: a false bound"),
            });
        }
        let of_events = events.iter().find(|event| event.what.contradicts()).map(|event| &event.text);
        if let Some(text) = of_events.or(self.preparation.contradictions.first()) {
            return Some(text.clone());
        }
        // Across these no bound holds, whatever the evidence seems to say.
        let counters = || self.counters.iter().chain([&self.reference]);
        let broke = |event: &&Event| {
            let of_counter =
                event.domain.as_ref().is_none_or(|domain| counters().any(|counter| counter.to_string() == *domain));
            matches!(event.what, EventKind::ClockSuspend | EventKind::CounterDisrupted)
                || event.what == EventKind::ClockBackward && of_counter
        };
        if let Some(event) = events.iter().find(broke) {
            return Some(event.text.clone());
        }
        if self.sum_mismatches > 0 {
            let traces = counted(self.sum_mismatches, "trace");
            let message = "expected path stages to sum to end-to-end, found";
            return Some(format!("{message} {traces} where they do not. Report it with the run"));
        }
        if self.passages.by_rank && events.iter().any(|event| event.what == EventKind::IdsRepeated) {
            return Some(BY_RANK.into());
        }
        None
    }

    /// Why these are no figures of a run, or not all of them: no trace is complete, or a node's clock is not related to
    /// the reference. Whoever shows them has failed to show what was asked for.
    pub fn lack(&self) -> Option<String> {
        // Where a point only counts no id can be complete, and nobody expects one.
        let is_as_chosen = self.unstamped.is_empty() && !self.counting.is_empty();
        let has_span = self.stream.as_ref().is_some_and(|stream| stream.ticks.is_some());
        if self.complete == 0 && !has_span && !is_as_chosen {
            let reasons: Vec<String> = self.unstamped.iter().chain(&self.counting).cloned().collect();
            let reasons = match reasons.as_slice() {
                [] if !self.kept.warnings.is_empty() => self.kept.warnings.join(". "),
                [] => "The points saw different ids, or stamps are missing: compare the counts of the stages".into(),
                reasons => ready::sentences(reasons),
            };
            return Some(format!(
                "expected an id that passed every point of some way through the layout, found none. {reasons}"
            ));
        }
        (!self.unrelated.is_empty()).then(|| self.unrelated.join(". "))
    }

    /// All that contradicts the figures, the bounds or an assumption, one by one, but for what events tell.
    pub fn findings(&self) -> impl Iterator<Item = &String> {
        self.unsound.iter().chain(&self.suspicions)
    }

    /// The same with what events tell, first, and a stream whose end is not known: for programs. Not empty where
    /// [`Analysis::finding`] finds something.
    pub fn every_finding(&self, events: &[Event]) -> Vec<String> {
        self.told(events).into_iter().chain(self.findings().cloned()).chain(self.open_stream()).collect()
    }

    /// How a run stands whose figures somebody shows or hands on: with a finding, without what was asked for, or well.
    /// Every way out asks here, so that none is silent where another is not. Damage comes before it.
    pub fn standing(&self, events: &[Event]) -> Result<(), Error> {
        match self.finding(events) {
            Some(finding) => Err(Error::finding(finding)),
            None => self.lack().or_else(|| self.unknown_loss(events)).map_or(Ok(()), |lack| Err(Error::work(lack))),
        }
    }

    /// Why nobody knows how many stamps the run lost, where its end is missing, too.
    pub fn unknown_loss(&self, events: &[Event]) -> Option<String> {
        loss_of(events, self.cut_off)
    }
}

/// The same of a run without an analysis, such as one that only counted.
pub fn unknown_loss_of(run: &Run, events: &[Event]) -> Result<Option<String>, Error> {
    Ok(loss_of(events, run.state()? == RunState::CutOff))
}

fn loss_of(events: &[Event], cut_off: bool) -> Option<String> {
    unknown_loss(events).or_else(|| cut_off.then(|| CUT_OFF.into()))
}

/// Why nobody knows how many stamps a run that was cut off lost.
const CUT_OFF: &str = "the run was cut off: how many stamps it lost is not known until tickscope finish has taken what \
                       is left of them";

/// Why nobody knows how many stamps a run lost: memory is gone, or stamps lie where they were not taken from yet.
pub fn unknown_loss(events: &[Event]) -> Option<String> {
    let of = |what| events.iter().find(|event| event.what == what).map(|event| event.text.clone());
    of(EventKind::MemoryLost).or_else(|| of(EventKind::StampsLeft))
}

/// Finding of old runs, whose traces do not tell passages apart.
const BY_RANK: &str = "this run was joined by a tickscope that paired the k-th stamp of an id here with the k-th \
                       there, whether passages overlapped or not; of ids that passed a point more than once \
                       (ids-repeated) the durations may be of no passage. Measure again, or trust only ids that passed once";

/// By stage: how far two values 1 ms apart may be wrong against each other.
fn relative_1ms(manifest: &Manifest, layout: &Layout, clocks: &Clocks, tallies: &[StageTally]) -> Vec<u64> {
    let all = tallies.iter().enumerate();
    all.map(|(stage, tally)| tally.relative(layout, clocks, stage, a_millisecond(manifest, layout, stage))).collect()
}

/// A millisecond in ticks of the counter at either end of a stage.
fn a_millisecond(manifest: &Manifest, layout: &Layout, stage: usize) -> Apart {
    let ticks = |point: usize| {
        let node = manifest.nodes.iter().find(|node| node.name == layout.points()[point].place.node);
        node.map_or(u64::MAX, |node| node.counter.frequency.hertz.div_ceil(1000))
    };
    let stage = &layout.stages()[stage];
    Apart { from_ticks: ticks(stage.from), to_ticks: ticks(stage.to) }
}

fn end_ticks(layout: &Layout, tallies: &[StageTally]) -> BTreeMap<String, (i64, i64)> {
    let mut ends = BTreeMap::new();
    for (stage, tally) in layout.stages().iter().zip(tallies) {
        for (point, ticks) in [stage.from, stage.to].into_iter().zip(tally.end_ticks()) {
            let node = layout.points()[point].place.node.to_string();
            ticks.into_iter().for_each(|ticks| {
                let known: &mut (i64, i64) = ends.entry(node.clone()).or_insert(ticks);
                *known = (known.0.min(ticks.0), known.1.max(ticks.1));
            });
        }
    }
    ends
}

fn unplaced(layout: &Layout, tallies: &[StageTally]) -> Vec<(String, &'static str, u64)> {
    let by_reason = |tally: &StageTally| {
        let by = &tally.refused_by;
        let reasons = [Refused::Outside, Refused::InBreak, Refused::Ambiguous, Refused::Contradictory].map(reason);
        let passages = ("nothing tells which stamps of their ids belong to one passage", by.untold);
        let unrelated = ("nothing relates the clocks of the two nodes", by.unrelated);
        let counts = [by.outside, by.in_break, by.ambiguous, by.contradictory];
        reasons.into_iter().zip(counts).chain([passages, unrelated])
    };
    let all = layout.stages().iter().zip(tallies);
    let all = all.flat_map(|(stage, tally)| by_reason(tally).map(|(why, count)| (stage.name.clone(), why, count)));
    all.filter(|&(.., count)| count > 0).collect()
}

fn suspicions(layout: &Layout, clocks: &Clocks, tallies: &[StageTally]) -> Vec<String> {
    let all = layout.stages().iter().zip(tallies);
    all.flat_map(|(stage, tally)| {
        // A reading that its clock has no interval for is missing evidence, counted by its reason; it is no
        // contradiction.
        let matters = |refusal: Option<Refusal>| refusal.is_none_or(|refusal| refusal == Refusal::NoInterval);
        let suspicious = tally.suspicions.iter().filter(move |found| matters(found.refusal));
        // Between stamps of one counter no rho plays a part.
        let rho = if clocks.on_one_counter(stage) { "" } else { "; or rho is too small: ask under a larger one" };
        suspicious.map(move |found| {
            let (lo_hi, id) = (found.interval, found.id);
            let what = lo_hi.map_or("no interval at all".into(), |(lo, hi)| format!("{lo} to {hi} ticks"));
            format!(
                "{} of id {id}: expected a duration that is not negative, found {what} between the stamps {} and {}. \
                 Either the two points name different things by the same id; or their order in the layout is wrong{rho}",
                stage.name, found.from_tick, found.to_tick
            )
        })
    })
    .collect()
}

/// The finding that passages of some ids cannot be told apart, with the first example.
fn untold(layout: &Layout, tallies: &[StageTally], passages: &PassageSummary, thinned: &[String]) -> Option<String> {
    let (stage, found) = layout.stages().iter().zip(tallies).find_map(|(stage, tally)| {
        let found = tally.suspicions.iter().find(|found| found.refusal == Some(Refusal::Untold));
        found.map(|found| (stage, found))
    })?;
    let left_out = match thinned {
        [] => String::new(),
        points => format!(
            ". Policies may have left out other stamps of such an id at {}: keep all of them there, or X of Y, which \
             keeps all stamps of an id or none",
            points.join(", ")
        ),
    };
    Some(format!(
        "expected that time, attempt or thread tells the passages of an id apart, found {} where they do not, such as \
         id {} at {} with the stamps {} and {}; those durations are refused. Give every attempt an id or a kind of its own, or \
         leave the points where they overlap out of the layout{left_out}",
        counted(passages.untold, "id"),
        found.id,
        stage.name,
        found.from_tick,
        found.to_tick
    ))
}

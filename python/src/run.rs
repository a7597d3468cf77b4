//! A run, opened: its figures as the command prints them, its clock maps, and which of its files Python may read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use serde::Serialize;
use tickscope_analysis::figures::Figures;
use tickscope_analysis::{
    AgeQuery, Analysis, Jitter, OverTime, Query, ReadyRun, RunJson, Scan, Tail, age, age_plan, analyse_counts,
    analyse_with_figures, clock_map_of, compare, durations, ready, role,
};
use tickscope_bracket::Rho;
use tickscope_rivals::{NodeRivals, analyse_and_compare, draw_and_compare};
use tickscope_show::stage_table::{self, Shown, View};
use tickscope_show::{DrawnFigure, XLap};
use tickscope_stats::Quantile;
use tickscope_store::{Event, LayoutText, RunState, Table};
use tickscope_tick::{DurationForm, Place, Source};

use crate::clock_map::ClockMap;
use crate::error::Refusal;

/// A run's directory.
#[pyclass(frozen, module = "tickscope._tickscope")]
pub(crate) struct Run {
    opened: tickscope_store::Run,
    layout: Option<LayoutText>,
    /// Made once it is needed: the traces, joined where nobody joined them.
    ready: Mutex<Option<Arc<ReadyRun>>>,
}

/// What is said of a run that somebody writes.
const GOES_ON: &str = "this run goes on: figures are of what was stored until now; open it again to see more";

/// Rho, slew bound and sources of evidence; `None`: the run's own.
type Asked = (Option<String>, Option<String>, Option<Vec<String>>);
/// Files that can be read, and why others cannot.
type Files = (Vec<PathBuf>, Vec<String>);

/// A point's name, its counter, the width of a reading and the clock map, `None` on the reference.
type PointPlan = (String, usize, i64, Option<ClockMap>);
/// A stage's name, the indices of its points, and its role.
type StagePlan = (String, usize, usize, &'static str);
/// Points, stages, and whether their order was inferred.
type Plan = (Vec<PointPlan>, Vec<StagePlan>, bool);

/// Keys, the limit in ns and in ticks, the receiver's axis (reading, fixed, slope), ticks by which cores differ at the
/// two points, stamps that are missing there.
type AgePlan = (String, Option<u64>, Option<(i64, i64)>, (u64, u64, u64, u64), (u64, u64), Vec<String>);

/// The finding that `tickscope show` would end with, and what was read and is damaged, of which opening did not tell.
type Standing = (Option<String>, Vec<String>);

/// Name, title and SVG of each plot, and why others are missing.
type Plots = (Vec<(String, String, String)>, Vec<String>);

/// What is asked of slow traces.
#[derive(Serialize)]
struct Slow {
    tail: Tail,
    jitter: Jitter,
    over_time: Option<OverTime>,
    hertz: u64,
}

#[pymethods]
impl Run {
    /// `layout`: JSON of the one to ask by, in place of the run's own.
    #[new]
    #[pyo3(signature = (root, layout = None))]
    fn open(root: PathBuf, layout: Option<&str>) -> Result<Self, Refusal> {
        let unusable =
            |error| Refusal::new(format!("expected a layout as in docs/run-file.md, found one with: {error}"));
        let layout = layout.map(serde_json::from_str).transpose().map_err(unusable)?;
        let opened = tickscope_store::Run::open(&root)?;
        opened.expect_here()?;
        Ok(Self { opened, layout, ready: Mutex::default() })
    }

    /// What was done to make the run ready to be asked, a sentence each.
    fn notes(&self, py: Python<'_>) -> Result<Vec<String>, Refusal> {
        py.detach(|| Ok(self.ready()?.preparation.notes.clone()))
    }

    /// `run.json`, as it was understood.
    fn manifest(&self) -> Result<String, Refusal> {
        serde_json::to_string(self.opened.manifest()).map_err(|error| Refusal::new(error.to_string()))
    }

    /// Why figures of this run are not to be trusted, each with its file.
    fn faults(&self, py: Python<'_>) -> Result<Vec<String>, Refusal> {
        py.detach(|| Ok(self.opened.faults()?.iter().map(ToString::to_string).collect()))
    }

    /// Why figures of this run are of a part of it, and what helps; `None`: it has come to its end.
    fn unfinished(&self, py: Python<'_>) -> Result<Option<String>, Refusal> {
        py.detach(|| match self.opened.state()? {
            RunState::GoingOn => Ok(Some(GOES_ON.into())),
            RunState::CutOff | RunState::Ended => Ok(self.opened.unfinished()?),
        })
    }

    /// What `tickscope show --json` prints, and how it stands.
    fn figures(&self, py: Python<'_>, query: Asked) -> Result<(String, Standing), Refusal> {
        let query = parsed(query)?;
        py.detach(|| {
            let run = &self.ready()?.run;
            let ((analysis, rivals), events) = (self.analysis(&query)?, run.events()?.found);
            let table = serde_json::to_string(&RunJson::beside(run, &analysis, &events, &rivals));
            Ok((table.map_err(|error| Refusal::new(error.to_string()))?, self.standing(&analysis, &events)?))
        })
    }

    /// What `tickscope show` prints to a file.
    fn table(&self, py: Python<'_>) -> Result<String, Refusal> {
        py.detach(|| {
            let run = &self.ready()?.run;
            let (events, channels) = (run.events()?.found, run.channels()?.found);
            let (analysis, rivals) = self.analysis(&Query::default())?;
            let shown = Shown { run, analysis: &analysis, rivals: &rivals, events: &events, channels: &channels };
            Ok(stage_table::text(&shown, &View::default()))
        })
    }

    /// What `tickscope tail --json`, `figures --json` and the page have of slow traces, of jitter and over time; a
    /// trace is slow from that quantile on, parts per million.
    fn slow(&self, py: Python<'_>, quantile_ppm: u32, query: Asked) -> Result<String, Refusal> {
        let quantile = Quantile::per_million(quantile_ppm).map_err(|error| Refusal::new(error.to_string()))?;
        let query = Query { tail: Some(quantile), ..parsed(query)? };
        py.detach(|| {
            let (analysis, figures) = analyse_with_figures(&self.ready()?.run, &query, false)?;
            let Figures { tail, jitter, over_time, .. } = figures;
            let text = serde_json::to_string(&Slow { tail, jitter, over_time, hertz: analysis.frequency.hertz });
            text.map_err(|error| Refusal::new(error.to_string()))
        })
    }

    /// What `tickscope figures` draws.
    fn plots(&self, py: Python<'_>, query: Asked) -> Result<Plots, Refusal> {
        let query = parsed(query)?;
        py.detach(|| {
            let (analysis, figures, rivals) = draw_and_compare(&self.ready()?.run, &query, |_| Ok(()))?;
            let (drawn, missing) = XLap::of(&figures, analysis.frequency.hertz).figures(&rivals);
            let plot = |drawn: DrawnFigure| (drawn.name.into(), drawn.title.clone(), drawn.svg());
            Ok((drawn.into_iter().map(plot).collect(), missing))
        })
    }

    /// What `tickscope show --age --json` has of updates from one point to another.
    fn age(
        &self,
        py: Python<'_>,
        points: (String, String),
        limit: Option<&str>,
        key: Option<&str>,
        query: Asked,
    ) -> Result<String, Refusal> {
        let (asked, query) = (of_age(points, limit, key)?, parsed(query)?);
        py.detach(|| {
            let found = age(&Scan::of(&self.ready()?.run, &query)?, &asked)?;
            serde_json::to_string(&found).map_err(|error| Refusal::new(error.to_string()))
        })
    }

    /// The plan by which another engine computes those ages from the run's files.
    fn age_plan(
        &self,
        py: Python<'_>,
        points: (String, String),
        limit: Option<&str>,
        key: Option<&str>,
        query: Asked,
    ) -> Result<AgePlan, Refusal> {
        let (asked, query) = (of_age(points, limit, key)?, parsed(query)?);
        py.detach(|| {
            let found = age_plan(&Scan::of(&self.ready()?.run, &query)?, &asked)?;
            let axis = (found.axis.reading, found.axis.fixed, found.axis.slope[0], found.axis.slope[1]);
            Ok((
                found.key.name().into(),
                asked.limit_ns,
                found.limit_ticks.map(Into::into),
                axis,
                found.core_ticks.into(),
                found.lacking,
            ))
        })
    }

    /// What `tickscope compare --json` has of these runs, and of others after a change.
    #[staticmethod]
    fn compared(py: Python<'_>, before: Vec<Py<Self>>, after: Vec<Py<Self>>, query: Asked) -> Result<String, Refusal> {
        let query = parsed(query)?;
        py.detach(|| {
            let ready = |side: &[Py<Self>]| side.iter().map(|run| run.get().ready()).collect::<Result<Vec<_>, _>>();
            let (before, after) = (ready(&before)?, ready(&after)?);
            let found = compare(&runs(&before), &runs(&after), &query, None)?;
            serde_json::to_string(&found).map_err(|error| Refusal::new(error.to_string()))
        })
    }

    /// How the run stands, for whoever asks for other figures than the table's.
    fn finding(&self, py: Python<'_>, query: Asked) -> Result<Standing, Refusal> {
        let query = parsed(query)?;
        py.detach(|| {
            let run = &self.ready()?.run;
            let events = run.events()?.found;
            match analyse_counts(run, &query) {
                Ok(analysis) => self.standing(&analysis, &events),
                Err(why) => Ok((Some(why.to_string()), Vec::new())),
            }
        })
    }

    /// Folder of the durations under a rho, computed if they are not kept; `aside` where the run cannot be written.
    fn durations(&self, py: Python<'_>, rho: Option<String>, aside: PathBuf) -> Result<PathBuf, Refusal> {
        let rho = parsed((rho, None, None))?.rho;
        py.detach(|| Ok(durations(&self.ready()?.run, rho, &aside)?))
    }

    /// The clock map of a domain, or a node's, to the run's reference.
    fn clock_map(&self, py: Python<'_>, domain: &str, query: Asked) -> Result<ClockMap, Refusal> {
        let query = parsed(query)?;
        let domain = self.label(domain);
        py.detach(|| Ok(ClockMap(clock_map_of(&self.ready()?.run, &domain, &query)?)))
    }

    /// What another engine computes the table from. Refused where that is not all that decides.
    fn plan(&self, py: Python<'_>, query: Asked) -> Result<Plan, Refusal> {
        let query = parsed(query)?;
        py.detach(|| {
            let run = &self.ready()?.run;
            let scan = Scan::of(run, &query)?;
            let (layout, clocks) = (scan.layout(), scan.clocks());
            // A run that was joined after its end has no event that says so.
            let collided = run.collisions()?.len();
            if collided > 0 {
                return Err(elsewhere(format!("ids name more than one thing: {collided} of them")));
            }
            if let Some(edge) = layout.links().first() {
                let [from, to] = [edge.from, edge.to].map(|point| &layout.points()[point].place);
                return Err(elsewhere(format!("{from} and {to} are joined by other things than equal ids")));
            }
            let point = |index: usize| {
                let name = layout.points()[index].place.to_string();
                let why = "is not related to the reference by its node's counter alone";
                let way = clocks.counter_way(index).ok_or_else(|| elsewhere(format!("{name} {why}")))?;
                Ok((name, way.counter, way.width, way.clock_map.cloned().map(ClockMap)))
            };
            let points = (0..layout.points().len()).map(point).collect::<Result<_, Refusal>>()?;
            let stages = layout.stages().iter();
            let stages = stages.map(|stage| (stage.name.clone(), stage.from, stage.to, role(stage.role)));
            Ok((points, stages.collect(), layout.is_inferred()))
        })
    }

    /// `node.counter` for a node's name; anything else as it is.
    fn label(&self, name: &str) -> String {
        let node = self.opened.manifest().nodes.iter().find(|node| node.name.as_str() == name);
        node.map_or_else(|| name.into(), |node| node.domain().to_string())
    }

    /// Ids, and what they are hashes of, where programs kept it; of one id each different original.
    fn originals(&self, py: Python<'_>) -> Result<(Vec<i64>, Vec<String>), Refusal> {
        py.detach(|| {
            let mut found = (Vec::new(), Vec::new());
            self.opened.each_original(i64::MIN..=i64::MAX, |id, original| {
                found.0.push(id);
                found.1.push(original.to_string());
            })?;
            Ok(found)
        })
    }

    /// Segments of `node.point`, of which the footers were read, and why others cannot be: for whoever reads and checks
    /// the rest elsewhere.
    fn segments(&self, point: &str) -> Result<Files, Refusal> {
        let listing = self.opened.files(Table::Stamps(&self.known(point)?))?;
        Ok((listing.found, listing.refused.iter().map(ToString::to_string).collect()))
    }

    /// Files of `stamps` (of `node.point`), `channels`, `events`, `brackets`, `counts` or `traces`.
    #[pyo3(signature = (table, point = None))]
    fn files(&self, table: &str, point: Option<&str>) -> Result<Files, Refusal> {
        let dotted = point.filter(|point| point.contains('.'));
        let place = dotted.filter(|_| table == "stamps").map(|point| self.known(point)).transpose()?;
        let table = match (table, &place) {
            ("stamps", Some(place)) => Table::Stamps(place),
            ("channels", _) => Table::Channels,
            ("events", _) => Table::Events,
            ("brackets", _) => Table::Brackets,
            ("counts", _) => Table::Counts,
            ("traces", _) => Table::Traces,
            _ => {
                return Err(Refusal::new(format!(
                    "expected a point as node.point, found '{}'. Put the node's name and a dot before it",
                    point.unwrap_or(table)
                )));
            }
        };
        let listing = match table {
            Table::Traces => self.ready()?.run.intact_files(table)?,
            table => self.opened.intact_files(table)?,
        };
        Ok((listing.found, listing.refused.iter().map(ToString::to_string).collect()))
    }
}

impl Run {
    /// The figures of a run, with all that is wrong with its files; beside them, what other methods say of its clocks.
    fn analysis(&self, query: &Query) -> Result<(Analysis, Vec<NodeRivals>), Refusal> {
        let ready = self.ready()?;
        let (mut analysis, rivals) = analyse_and_compare(&ready.run, query, false)?;
        let mut faults = self.opened.faults()?;
        analysis.refused.retain(|fault| faults.iter().all(|known| known.place() != fault.place()));
        faults.append(&mut analysis.refused);
        Ok((Analysis { preparation: ready.preparation.clone(), refused: faults, ..analysis }, rivals))
    }

    /// What contradicts an analysis, and which files it could not read.
    fn standing(&self, analysis: &Analysis, events: &[Event]) -> Result<Standing, Refusal> {
        let known = if analysis.refused.is_empty() { Vec::new() } else { self.opened.faults()? };
        let is_new = |fault: &&tickscope_store::Error| known.iter().all(|known| known.place() != fault.place());
        let faults = analysis.refused.iter().filter(is_new).map(ToString::to_string).collect();
        Ok((analysis.standing(events).err().map(|why| why.to_string()), faults))
    }

    /// The run with its traces, which are joined if nobody joined them.
    fn ready(&self) -> Result<Arc<ReadyRun>, Refusal> {
        let mut made = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*made {
            return Ok(made.clone());
        }
        let new = Arc::new(ready(self.opened.clone(), self.layout.clone())?);
        *made = Some(new.clone());
        Ok(new)
    }

    /// The point of that name; one without a folder of stamps is refused: most likely it is misspelt.
    fn known(&self, wanted: &str) -> Result<Place, Refusal> {
        let mut all = Vec::new();
        for node in self.opened.nodes()? {
            all.extend(self.opened.points(&node)?.into_iter().map(|point| format!("{node}.{point}")));
        }
        let known = all.iter().any(|point| point == wanted).then(|| wanted.parse().ok()).flatten();
        known.ok_or_else(|| {
            let all = all.join(", ");
            Refusal::new(format!("expected a point that was stamped: {all}; found '{wanted}'. Choose one of them"))
        })
    }
}

/// What only the core tells exactly.
fn elsewhere(found: String) -> Refusal {
    Refusal::new(format!(
        "expected a run whose table SQL tells to the last tick, found one where {found}. Open it without engine"
    ))
}

fn runs(side: &[Arc<ReadyRun>]) -> Vec<&tickscope_store::Run> {
    side.iter().map(|ready| &ready.run).collect()
}

fn of_age(points: (String, String), limit: Option<&str>, key: Option<&str>) -> Result<AgeQuery, Refusal> {
    let [from, to] = [points.0, points.1].map(|point| point.parse::<Place>());
    let limit_ns = limit.map(|limit| DurationForm::LIMIT.read(limit)).transpose().map_err(Refusal::new)?;
    Ok(AgeQuery { from: from?, to: to?, key: key.map(str::parse).transpose()?, limit_ns })
}

/// Reads what may be asked differently than the run declares.
fn parsed((rho, slew, sources): Asked) -> Result<Query, Refusal> {
    let read = |text: Option<String>| text.as_deref().map(str::parse::<Rho>).transpose();
    let sources = sources.map(|names| names.iter().map(|name| name.parse::<Source>()).collect::<Result<_, _>>());
    Ok(Query { rho: read(rho)?, slew: read(slew)?, sources: sources.transpose()?, ..Query::default() })
}

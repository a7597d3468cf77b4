//! A run made ready to be asked: with every node that was stamped, a layout, and traces.
//!
//! Idea: `tickscope run` joins when it ends. Any other run, collected, cut off, going on or looked at by another
//! layout, is joined when somebody asks. Assumes: nothing of how the run came about. Guarantees: traces get into the
//! run only where it does not go on, has none that fit, and its own declared layout made them; all others go to a
//! folder that goes with [`ReadyRun`]. What was done is said in [`Preparation::notes`]. Deliberately absent: any
//! change to `run.json`.

use std::collections::BTreeSet;

use tickscope_store::{Aside, Joined, KeyedReader, Manifest, Node, Point, Run, RunState, utc, window_text};
use tickscope_tick::{Clock, Place, counted, own_points};
use tickscope_trace::infer::Inferred;
use tickscope_trace::{JoinCounts, Layout, LayoutText};

use crate::count_only::{counting, named, some_count};
use crate::error::Error;
use crate::inference::{inferred, programs_points};
use crate::machines::only_related;
use crate::messages::MessagePair;
use crate::null_points::{null_channels, under_null, unstamped_point};
use crate::passages::join;

/// What is said of a run that was cut off, whoever joined it.
const END_UNWRITTEN: &str = "the run's end was never written: figures are of what was stored";

/// Memory that a join may hold.
pub const JOIN_BYTES: usize = 512 << 20;

/// A run that can be asked for its figures, by [`analyse`](crate::analyse) and whatever else takes a [`Run`].
#[derive(Debug)]
pub struct ReadyRun {
    /// The run, with the layout and the nodes that it is asked with.
    pub run: Run,
    /// What was done.
    pub preparation: Preparation,
    /// Holds the traces, where they are not in the run.
    _apart: Option<Aside>,
}

impl ReadyRun {
    /// The same run with traces of this version, apart from the run, which keeps its own.
    pub fn joined_apart(mut self, why: &str) -> Result<Self, Error> {
        let apart = Aside::of(&self.run)?;
        let manifest = self.run.manifest().clone();
        self.run = self.run.seen_as(manifest, Some(apart.path().to_path_buf()));
        let found = join(&self.run, JOIN_BYTES)?;
        self.preparation.notes.insert(0, format!("joined now from {} stamps: {why}", found.stamps));
        self._apart = Some(apart);
        Ok(self)
    }
}

/// What was done to make a run ready.
#[derive(Clone, Debug, Default)]
pub struct Preparation {
    /// The join, if its traces were not there.
    pub joined: Option<JoinedNow>,
    /// Origin of the layout, if nobody declared one.
    pub inferred: Option<Inferred>,
    /// Sentences on what the join found that contradicts the traces it made, whenever that was; but for what events
    /// tell.
    pub contradictions: Vec<String>,
    /// All, those included, that whoever sees the figures has to know of it, a sentence each.
    pub notes: Vec<String>,
}

/// A join that was made because somebody asked.
#[derive(Clone, Debug)]
pub struct JoinedNow {
    /// Stamps at the layout's points.
    pub stamps: u64,
    /// Where the run stood.
    pub state: RunState,
    /// When the newest of them were stored, milliseconds of Unix.
    pub until_unix_ms: Option<i64>,
    /// True if the traces are in the run now.
    pub kept: bool,
    /// What the join counted.
    pub counts: JoinCounts,
    /// Files that it could not read, and why.
    pub refused: Vec<String>,
}

/// Makes `run` ready to be asked by `layout`; `None`: by its own, or the one that its stamps suggest.
pub fn ready(run: Run, layout: Option<LayoutText>) -> Result<ReadyRun, Error> {
    let state = run.state()?;
    let mut preparation = Preparation::default();
    let mut manifest = run.manifest().clone();
    let own = !manifest.layout.is_empty() && layout.as_ref().is_none_or(|layout| *layout == manifest.layout);
    name_nodes(&run, &mut manifest, &mut preparation.notes)?;
    let run = run.seen_as(manifest, None);
    let chosen = match layout {
        Some(layout) => {
            let mut known = names(&run)?;
            known.extend(counting(&run)?.into_keys());
            let unusable = |why| Error::input(format!("the layout that was asked for: {why}"));
            let parsed = layout.parse(None).map_err(unusable)?;
            let left_out = under_null(&run, parsed.points().iter().map(|point| &point.place))?;
            known.extend(left_out.into_iter().map(Place::to_string));
            layout.parse((!known.is_empty()).then_some(&known)).map_err(unusable)?;
            layout
        }
        None if run.manifest().layout.is_empty() => infer(&run, &mut preparation)?,
        None => run.manifest().layout.clone(),
    };
    let mut manifest = Manifest { layout: chosen, ..run.manifest().clone() };
    name_points(&run, &mut manifest)?;
    let run = run.seen_as(manifest, None);
    preparation.notes.extend(unstamped_evidence(&run)?);
    preparation.notes.extend(windowed(&run)?);
    let mut traces = standing(&run)?;
    let may_keep = own && state != RunState::GoingOn && traces != Traces::OfAnother;
    // What another process has joined and not yet digested is neither removed nor joined twice.
    let joining = if may_keep && traces != Traces::Fit { run.lock_traces() } else { None };
    if joining.is_some() {
        traces = standing(&run)?;
    }
    if traces == Traces::Fit {
        if state == RunState::CutOff {
            preparation.notes.insert(0, END_UNWRITTEN.into());
        }
        preparation.tell_contradictions(&run)?;
        return Ok(ReadyRun { run, preparation, _apart: None });
    }
    joined(run, preparation, state, traces, may_keep)
}

impl Preparation {
    /// Takes in what the join found that made the traces, now or before, where no event of the run's end tells it.
    fn tell_contradictions(&mut self, run: &Run) -> Result<(), Error> {
        let found: Vec<String> = run.traces()?.found.iter().flat_map(KeyedReader::contradictions).collect();
        if found.is_empty() {
            return Ok(());
        }
        let told: BTreeSet<String> = run.events()?.found.into_iter().map(|event| event.text).collect();
        self.contradictions = found.into_iter().filter(|text| !told.contains(text)).collect();
        self.notes.extend(self.contradictions.iter().cloned());
        Ok(())
    }
}

/// What the window of a run took, if it keeps one.
fn windowed(run: &Run) -> Result<Option<String>, Error> {
    let removed = run.removed_stamps()?;
    let window = run.manifest().keep_ms.map_or("a window".into(), window_text);
    Ok((removed > 0).then(|| {
        format!(
            "the run keeps the stamps of its last {window}, as was asked for, and older ones were removed: ids at \
             that edge lack the stamps that went, and of an id that passed a point before it and after it only the \
             later passage is known"
        )
    }))
}

/// What there is of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Traces {
    /// Those of this layout and of all stamps; or files that nobody can read, which the analysis names.
    Fit,
    /// None.
    None,
    /// Traces of fewer stamps than there are now.
    Older,
    /// Traces that the digests of the run do not name.
    Undigested,
    /// Traces of another layout.
    OfAnother,
}

fn standing(run: &Run) -> Result<Traces, Error> {
    if run.has_undigested_traces()? {
        return Ok(Traces::Undigested);
    }
    let listing = run.traces()?;
    if !listing.refused.is_empty() {
        return Ok(Traces::Fit);
    }
    if listing.found.is_empty() {
        return Ok(Traces::None);
    }
    let manifest = run.manifest();
    let of_another = |layout: LayoutText| layout != manifest.layout;
    if listing.found.iter().any(|reader| reader.layout().is_some_and(of_another)) {
        return Ok(Traces::OfAnother);
    }
    let now = stamps(run, &run.layout()?)?;
    let older = listing.found.iter().any(|reader| reader.joined_stamps().is_some_and(|then| then < now));
    Ok(if older { Traces::Older } else { Traces::Fit })
}

fn joined(
    run: Run,
    mut preparation: Preparation,
    state: RunState,
    traces: Traces,
    kept: bool,
) -> Result<ReadyRun, Error> {
    let layout = run.layout()?;
    let until_unix_ms = run.stored_until(); // before the files are read: what they hold reaches at least so far
    let until = until_unix_ms.map_or("now".into(), utc);
    if stamps(&run, &layout)? == 0 {
        return Err(nothing_stamped(&run, &layout)?);
    }
    let into_run = kept.then(|| join_into(&run)).and_then(Result::ok);
    let (run, found, apart) = match into_run {
        Some(found) => (run, found, None),
        None => {
            let apart = Aside::of(&run)?; // also where the run cannot be written
            let manifest = run.manifest().clone();
            let run = run.seen_as(manifest, Some(apart.path().to_path_buf()));
            let found = join(&run, JOIN_BYTES)?;
            (run, found, Some(apart))
        }
    };
    let why = match (state, traces) {
        (RunState::GoingOn, _) => &format!("the run goes on: figures are of what was stored until {until}"),
        (_, Traces::OfAnother) => "by another layout than its traces were joined by; those are kept as they are",
        (_, Traces::Undigested) => "nothing says that the traces that were there are its own",
        (_, Traces::Older) => "stamps were stored after its traces had been joined",
        (RunState::CutOff, _) => END_UNWRITTEN,
        (RunState::Ended, _) => "its traces were not there",
    };
    preparation.notes.insert(0, format!("joined now from {}: {why}", counted(found.stamps, "stamp")));
    preparation.tell_contradictions(&run)?;
    let others = found.findings(&layout).into_iter().filter(|finding| !finding.what.contradicts());
    preparation.notes.extend(others.map(|finding| format!("{} {}", finding.value, finding.text)));
    let refused: Vec<String> = found.refused.iter().map(ToString::to_string).collect();
    let kept = apart.is_none();
    preparation.joined =
        Some(JoinedNow { stamps: found.stamps, state, until_unix_ms, kept, counts: found.counts, refused });
    Ok(ReadyRun { run, preparation, _apart: apart })
}

/// Joins into the run itself, in place of traces that no digest is of, and says in its digests what it made.
fn join_into(run: &Run) -> Result<Joined, Error> {
    run.remove_undigested_traces()?;
    let found = join(run, JOIN_BYTES)?;
    run.digest_traces()?;
    Ok(found)
}

/// Stamps at the points of a layout.
fn stamps(run: &Run, layout: &Layout) -> Result<u64, Error> {
    let at = |point: &tickscope_trace::Point| Ok(run.stamps(&point.place)?.len());
    layout.points().iter().map(at).sum()
}

fn nothing_stamped(run: &Run, layout: &Layout) -> Result<Error, Error> {
    let root = run.root().display();
    let reasons = unstamped(run, layout)?.all();
    let left_out = under_null(run, layout.points().iter().map(|point| &point.place))?;
    Ok(if names(run)?.is_empty() && left_out.is_empty() {
        no_stamp(run)?
    } else {
        Error::work(format!("cannot show {root}: no point of the layout was stamped. {}", sentences(&reasons)))
    })
}

/// Refuses a run that no stamp is stored in, of a program or a log, and whose points do not count either; clocks alone
/// are enough where nothing else was asked for.
pub fn expect_anything(run: &Run) -> Result<(), Error> {
    let has_something = !names(run)?.is_empty() || some_count(run)? || only_related(run)?;
    if has_something { Ok(()) } else { Err(no_stamp(run)?) }
}

fn no_stamp(run: &Run) -> Result<Error, Error> {
    let (root, counting, null) = (run.root().display(), counting(run)?, null_channels(run)?);
    Ok(Error::work(match (counting.is_empty(), null.is_empty()) {
        (true, true) => format!(
            "cannot show {root}: no stamp is stored in it. Was a program stamping, and its directory collected?"
        ),
        (true, false) => format!(
            "cannot show {root}: no stamp is stored in it: the policy null left out those of {}",
            null.into_iter().collect::<Vec<_>>().join(", ")
        ),
        (false, _) => format!(
            "cannot show durations of {root}: its points only count, so no stamp is stored in it: {}. tickscope show \
             {root} --counts prints what they counted",
            named(&counting)
        ),
    }))
}

/// Infers the layout, and says so.
fn infer(run: &Run, preparation: &mut Preparation) -> Result<LayoutText, Error> {
    let (found, repeated) = inferred(run)?;
    let root = run.root().display();
    let Some(layout) = found.layout() else {
        let mut why: Vec<String> = found.wandering.iter().map(wandering).collect();
        if why.is_empty() && found.alone.len() > 1 {
            why.push(format!("no two of these points saw the same ids: {}", found.alone.join(", ")));
        }
        if why.is_empty() {
            why.push(match names(run)?.as_slice() {
                [] => return Err(no_stamp(run)?),
                [only] => format!("all its stamps are at {only}, and a stage needs two points"),
                all => format!("no id passed two of {}", all.join(", ")),
            });
        }
        let counting = counting(run)?;
        if !counting.is_empty() {
            why.push(format!("{} only count: tickscope show {root} --counts", named(&counting)));
        }
        return Err(Error::work(format!(
            "cannot show {root}: it declares no layout, and its stamps suggest none: {}. Name the points in the order \
             that an id passes them, in a file for --layout",
            why.join("; ")
        )));
    };
    let notes = &mut preparation.notes;
    notes.push(format!(
        "layout: inferred from {}, not declared: an order that was seen, not one that is known",
        counted(found.ids, "id")
    ));
    if repeated > 0 {
        let repeated = counted(repeated, "id");
        notes.push(format!("layout: of {repeated} that passed a point more than once, the first passage counted"));
    }
    notes.extend(
        found.wandering.iter().map(|pair| format!("layout: {}, so neither follows the other", wandering(pair))),
    );
    if !found.alone.is_empty() {
        notes.push(format!(
            "layout: left out, since no other point follows them or they it: {}",
            found.alone.join(", ")
        ));
    }
    let manifest = run.manifest();
    if manifest.nodes.len() > 1 && manifest.run_file.is_none() {
        notes.push(format!("reference: {}, the first node's, since none was declared", manifest.reference));
    }
    preparation.inferred = Some(found);
    Ok(layout)
}

fn wandering(pair: &tickscope_trace::infer::InferredEdge) -> String {
    let percent = pair.agreement_bp() / 100;
    format!("of {} at {} and {} the former came first in {percent} %", counted(pair.common, "id"), pair.from, pair.to)
}

/// Names nodes that were stamped, and that the manifest lacks, after another of their boot: it is the same machine.
fn name_nodes(run: &Run, manifest: &mut Manifest, notes: &mut Vec<String>) -> Result<(), Error> {
    for channel in run.channels()?.found {
        if manifest.nodes.iter().any(|node| node.name == channel.node) {
            continue;
        }
        let boot = channel.domain().ok().map(|domain| domain.boot);
        let same = manifest.nodes.iter().find(|node| Some(node.boot) == boot && node.injected.is_none());
        let Some(same) = same else {
            let note = format!(
                "{}: left out, since run.json does not name it, nor another node of its machine: collect it again",
                channel.node
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
            continue;
        };
        manifest.nodes.push(Node { name: channel.node, command: Vec::new(), ..same.clone() });
    }
    Ok(())
}

/// Adds the points that were stamped, and those of the run's own layout that were not, where the manifest lacks them.
fn name_points(run: &Run, manifest: &mut Manifest) -> Result<(), Error> {
    if run.manifest().points.is_empty() || run.manifest().ended_unix_ms.is_none() {
        for channel in run.channels()?.found {
            let Ok(ordering) = channel.ordering.parse() else { continue };
            if !manifest.points.iter().any(|known| channel.is_at(&known.place())) {
                let counter =
                    channel.domain().ok().map(|domain| domain.counter).filter(|&clock| clock != Clock::STAMPED);
                let (node, name) = (channel.node, channel.point);
                manifest.points.push(Point { node, name, ordering, counter, resolution_ticks: None });
            }
        }
    }
    let Ok(layout) = manifest.layout.parse(None) else { return Ok(()) }; // the analysis says why
    for Place { node, point: name } in layout.points().iter().map(|point| point.place.clone()) {
        if !manifest.points.iter().any(|known| known.node == node && known.name == name) {
            let ordering = tickscope_tick::Ordering::Plain;
            manifest.points.push(Point { node, name, ordering, counter: None, resolution_ticks: None });
        }
    }
    Ok(())
}

/// Points that programs stamped.
fn names(run: &Run) -> Result<Vec<String>, Error> {
    Ok(programs_points(run)?.iter().map(Place::to_string).collect())
}

/// Points of a layout that no stamp is stored of, a sentence each.
#[derive(Debug, Default)]
pub(crate) struct Unstamped {
    /// Points that nothing was stamped at, each with the nearest name or the policy that left it out; one for all where
    /// programs stamped nothing.
    pub never: Vec<String>,
    /// Those that only count.
    pub counting: Vec<String>,
}

impl Unstamped {
    pub fn all(&self) -> Vec<String> {
        self.never.iter().chain(&self.counting).cloned().collect()
    }
}

/// Points of a layout that no stamp is stored of.
pub(crate) fn unstamped(run: &Run, layout: &Layout) -> Result<Unstamped, Error> {
    let (mut known, counting) = (names(run)?, counting(run)?);
    known.extend(counting.keys().cloned());
    let mut found = Unstamped::default();
    let left_out = under_null(run, layout.points().iter().map(|point| &point.place))?;
    if known.is_empty() && left_out.is_empty() {
        found.never.push("no program stamped anything; did it get so far, and is it built to stamp?".into());
        return Ok(found);
    }
    for place in layout.points().iter().map(|point| &point.place) {
        if let Some(policy) = counting.get(&place.to_string()) {
            let root = run.root().display();
            found.counting.push(format!("{place} only counts ({policy}): tickscope show {root} --counts"));
        } else if run.stamps(place)?.is_empty() {
            found.never.push(unstamped_point(run, place, &known)?);
        }
    }
    Ok(found)
}

/// Statements as sentences, a question without a full stop.
pub(crate) fn sentences(statements: &[String]) -> String {
    let sentence = |text: &String| {
        let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}{}", first.to_uppercase(), if text.ends_with('?') { "" } else { "." })
    };
    let all: Vec<_> = statements.iter().map(sentence).collect();
    all.join(" ").trim_end_matches('.').into()
}

/// The same of messages that are declared as evidence.
fn unstamped_evidence(run: &Run) -> Result<Vec<String>, Error> {
    let (known, mut all) = (names(run)?, Vec::new());
    for pair in run.manifest().evidence.messages.iter().filter_map(|text| text.parse::<MessagePair>().ok()) {
        for place in [pair.from, pair.to] {
            if !own_points::are(place.point.as_str()) && run.stamps(&place)?.is_empty() {
                all.push(format!("evidence messages: {}", unstamped_point(run, &place, &known)?));
            }
        }
    }
    Ok(all)
}

//! A run that was cut off, finished later: what is left is taken, joined and written down.
//!
//! Order: one process alone; when it was cut off is written first; processes of the run end, which lets collectors and
//! probes write what they hold; what lies in shared memory is taken; then as at any run's end. Each step may be cut off
//! itself: the next attempt goes on where it stood.
//!
//! Guarantees: every stamp whose call returned is in the run afterwards, or is named with the place where it lies. What
//! cannot be made up for is said. Deliberately absent: measuring anything now for then.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tickscope_stamp::directory::pool_file;
use tickscope_store::{
    Cost, EncodingChoice, Event, EventKind, Manifest, NodeCost, Paths, Run, RunState, Segment, files_in, newest_file,
    read_channels, read_events, utc,
};
use tickscope_tick::{NodeName, counted, own_points};

use crate::Error;
use crate::agent::{Agent, Left, News, Unread, take_outputs};
use crate::leftovers::{self, Claim};
use crate::logs::Log;
use crate::node_plan::Site;
use crate::notice;
use crate::object_store::{ObjectStore, RunPlace};
use crate::original::{expect_original, expect_own_directories, goes_on};
use crate::pipe::{PipeAgent, session_goes_on};
use crate::plan::Plan;
use crate::preflight;
use crate::record::RunRecord;
use crate::roles::collector::{CollectorSettings, collect};
use crate::sites;

/// A run that was finished.
pub struct Finished {
    /// The run.
    pub run: Run,
    /// What was done, a sentence each.
    pub done: Vec<String>,
    /// Ids that the join found, 0: there is no table; `None`: the run has no layout to join by.
    pub ids: Option<u64>,
    /// The first step that failed; the others were taken all the same.
    pub outcome: Result<(), Error>,
}

/// How long processes of a run that was killed just now may take to end.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long until it is asked again whether they have.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Kinds of events that a run's end notes: written again they take the place of the old ones.
const OF_THE_END: [EventKind; 17] = [
    EventKind::FinishFailed,
    EventKind::StampsLeft,
    EventKind::CutOff,
    EventKind::Log,
    EventKind::LogRefused,
    EventKind::LogGaps,
    EventKind::PointUnstamped,
    EventKind::FileRefused,
    EventKind::PassagesUntold,
    EventKind::IdsMissing,
    EventKind::IdsRepeated,
    EventKind::IdsOutOfOrder,
    EventKind::IdsUnexpanded,
    EventKind::KindsLeftOut,
    EventKind::IdsApart,
    EventKind::IdsCollided,
    EventKind::AttemptsContradicted,
];

/// Finishes the run in `root`; `None`: it has ended, and nothing is left of it.
pub fn finish(root: &Path) -> Result<Option<Finished>, Error> {
    if !Paths::of(root).manifest().exists() {
        return Err(nothing_begun(root)?);
    }
    let run = Run::open(root)?;
    let _alone = alone(&run, "finish")?;
    let (run, state) = settled(root)?;
    expect_own_directories(run.manifest(), plan_of(run.manifest()).as_ref(), root)?;
    if state == RunState::Ended && !is_left(&run)? {
        return cleared(run, root);
    }
    let was_cut_off = state == RunState::CutOff;
    let _writing = run.write()?;
    let root = std::path::absolute(root).unwrap_or_else(|_| root.into());
    // A run of collectors alone has no number, and no folder of its own.
    let number = run.manifest().run;
    let _claim = (number != 0).then(|| Claim::take(number, &root)).transpose()?;
    let mut ending = Ending {
        record: RunRecord { run, events: Vec::new() },
        done: Vec::new(),
        was_cut_off,
        untaken: BTreeMap::new(),
    };
    ending.recall()?;
    let mut failed = None;
    let ids = ending.work(&mut failed);
    let Ending { record, done, .. } = ending;
    Ok(Some(Finished { run: record.run, done, ids, outcome: failed.map_or(Ok(()), Err) }))
}

/// The run that nobody writes, and where it stands; processes of a run that was killed just now are waited for.
///
/// It is read again here: another process may have finished it meanwhile.
fn settled(root: &Path) -> Result<(Run, RunState), Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let run = Run::open(root)?;
        let (number, state) = (run.manifest().run, run.state()?);
        expect_original(number, root)?;
        if state != RunState::GoingOn && !goes_on(number) {
            return Ok((run, state));
        }
        if state != RunState::GoingOn && session_goes_on(number) {
            end_detached(&run)?;
        }
        if Instant::now() >= deadline {
            let run = root.display();
            return Err(Error::work(format!("cannot finish {run}: it goes on. End it with Ctrl-C, or let it end")));
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// Ends nodes of this host that go on though their run was killed: their agent writes into the run what they have.
fn end_detached(run: &Run) -> Result<(), Error> {
    let manifest = run.manifest();
    let place = run.root().display();
    let none = || Error::work(format!("cannot finish {place}: run.json has no run file that says which nodes go on"));
    let mut plan = plan_of(manifest).ok_or_else(none)?;
    plan.origin.folder = manifest.run_file_directory.clone().unwrap_or_default();
    let root = std::path::absolute(run.root()).unwrap_or_else(|_| run.root().into());
    let mut agent = sites::rejoin_here(&plan, manifest.run, &root)?;
    agent.end_all()?;
    agent.bye()
}

/// Removes what a run that has ended left empty: it was killed once its end was written.
fn cleared(run: Run, root: &Path) -> Result<Option<Finished>, Error> {
    let number = run.manifest().run;
    if number == 0 {
        return Ok(None);
    }
    let folder = leftovers::stamps_of(number);
    let root = std::path::absolute(root).unwrap_or_else(|_| root.into());
    let claim = folder.exists().then(|| Claim::take(number, &root)).transpose()?;
    let mut done = leftovers::remove_namespaces(number)?;
    if claim.is_some() {
        drop(claim);
        let folder = (folder.exists(), folder.display());
        done.push(match folder {
            (false, folder) => format!("removed {folder}"),
            (true, folder) => format!("left {folder}, where something lies that this run does not name"),
        });
    }
    Ok((!done.is_empty()).then_some(Finished { run, done, ids: None, outcome: Ok(()) }))
}

/// The answer where no run was begun; what a killed `run` left before that goes.
fn nothing_begun(root: &Path) -> Result<Error, Error> {
    if !leftovers::is_claimed(root) {
        leftovers::await_agents(root);
    }
    let done = leftovers::discard(root)?;
    let _ = std::fs::remove_dir_all(root.join(leftovers::PASSES)); // passes of a comparison; mostly there are none
    let place = root.display();
    Ok(match done.is_empty() {
        // A run that was killed before it wrote anything is no wrong input, as another directory is.
        true if root.is_dir() && (Paths::of(root).lock().exists() || preflight::expect_empty(root).is_ok()) => {
            Error::work(format!("cannot finish {place}: there is no run.json. Name the directory of a run"))
        }
        true => Error::input(format!("cannot finish {place}: there is no run.json. Name the directory of a run")),
        false => {
            let done = done.join(", ");
            Error::work(format!("cannot finish {place}: it was cut off before it measured anything; {done}"))
        }
    })
}

/// Lets one process at a time finish a run, by a lock of another kind than the one that says that it goes on.
pub(crate) fn alone(run: &Run, to_do: &str) -> Result<File, Error> {
    let root = run.root().display();
    let wait = || Error::work(format!("cannot {to_do} {root}: another process finishes or resumes it. Wait for it"));
    lock(&run.paths().lock())?.ok_or_else(wait)
}

/// Holds a file, which is made if need be, as long as what is returned lives; `None`: another process does.
pub(crate) fn lock(place: &Path) -> Result<Option<File>, Error> {
    let wrong = |e: std::io::Error| Error::work(format!("cannot lock {}: {e}. Check its rights", place.display()));
    let file = File::options().read(true).write(true).create(true).truncate(false).open(place).map_err(wrong)?;
    // SAFETY: a system call on a descriptor that outlives it.
    Ok((unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0).then_some(file))
}

/// Returns whether an ended run lacks anything that can still be had.
fn is_left(run: &Run) -> Result<bool, Error> {
    let never_joined = has_points(run) && run.traces()?.found.is_empty() && !run.is_stored_elsewhere()?;
    let undigested = run.manifest().schema > 1 && !run.has_digests();
    Ok(never_joined
        || undigested
        || !run.manifest().stamp_directories.is_empty()
        || !run.manifest().sessions.is_empty())
}

/// What its run file says; `None`: it has none.
fn plan_of(manifest: &Manifest) -> Option<Plan> {
    Plan::parse(manifest.run_file.as_deref()?).ok()
}

/// Returns whether a run's file names programs that something else starts, whose stamps it was made for.
pub fn awaits_stamps(run: &Run) -> bool {
    plan_of(run.manifest()).is_some_and(|plan| plan.nodes.iter().any(|node| node.stamps.is_some()))
}

/// Returns whether tickscope's own processes stamp there.
fn is_own(point: &str) -> bool {
    use own_points::*;
    let probes = [PROBE_REQUEST_SENT, PROBE_REQUEST_RECEIVED, PROBE_REPLY_SENT, PROBE_REPLY_RECEIVED];
    point.starts_with(CLOCK_BRACKET) || probes.contains(&point)
}

fn has_points(run: &Run) -> bool {
    run.layout().is_ok_and(|layout| !layout.points().is_empty())
}

/// A run while it is finished.
struct Ending {
    record: RunRecord,
    done: Vec<String>,
    was_cut_off: bool,
    /// By node: pools that could not be taken at the run's end, or by an earlier attempt.
    untaken: BTreeMap<String, BTreeSet<u64>>,
}

impl Ending {
    fn run(&self) -> &Run {
        &self.record.run
    }

    fn manifest(&self) -> &Manifest {
        self.record.run.manifest()
    }

    /// The events that the run's conductor left, and when it was cut off: by an earlier attempt's word, or now, before
    /// anything is written.
    fn recall(&mut self) -> Result<(), Error> {
        let place = self.run().paths().events().join("run.parquet");
        let mut before = if place.exists() { read_events(&place)? } else { Vec::new() };
        let known = before.iter().position(|event| event.what == EventKind::CutOff).map(|at| before.remove(at));
        for event in before.iter().filter(|event| event.what == EventKind::StampsLeft) {
            let of_node = self.untaken.entry(event.node.clone()).or_default();
            of_node.extend(event.value.map(i64::cast_unsigned));
        }
        before.retain(|event| !OF_THE_END.contains(&event.what));
        self.record.events = before;
        if let Some(event) = known {
            self.was_cut_off = true;
            self.record.events.push(event);
        } else if self.was_cut_off {
            let directories = self.directories().into_values();
            let newest = directories.filter_map(|directory| newest_file(&directory));
            let newest = newest.chain(newest_file(self.run().root())).max();
            let text = self.cut_off(newest);
            self.record.note(Event::RUN, EventKind::CutOff, None, text);
            // It stays, whatever becomes of this attempt.
            let written = self.record.write_events();
            let wait = "Stamps that are not stored wait in shared memory; run this again";
            written.map_err(|why| Error::work(format!("{why}. {wait}")))?;
        }
        Ok(())
    }

    /// By node: where its stamps may still lie. A run of an older version does not say, but its number does.
    fn directories(&self) -> BTreeMap<NodeName, PathBuf> {
        let Manifest { stamp_directories, run, nodes, .. } = self.manifest();
        if !stamp_directories.is_empty() || *run == 0 {
            return stamp_directories.clone();
        }
        nodes.iter().map(|node| (node.name.clone(), leftovers::stamps_of(*run).join(node.name.as_str()))).collect()
    }

    /// All steps; those that can go on without one that failed do. Returns the number of ids.
    fn work(&mut self, failed: &mut Option<Error>) -> Option<u64> {
        let ended = self.end_what_is_left();
        self.record.go_on(failed, ended);
        let sessions = self.fetch(failed);
        let left = self.take_stamps(failed);
        let coarse = self.import_logs(failed);
        let written = self.record.write_events(); // which the join reads
        self.record.go_on(failed, written);
        let joined = self.record.join();
        let ids = joined.as_ref().map_or(Some(0), |ids| *ids);
        self.record.go_on(failed, joined.map(|_| ()));
        let mut manifest = self.manifest().clone();
        let declared = self.record.declare_points(&mut manifest, &coarse);
        self.record.go_on(failed, declared);
        let counted = self.cost(&manifest).map(|cost| manifest.cost = Some(cost));
        self.record.go_on(failed, counted);
        manifest.stamp_directories = left;
        manifest.sessions = sessions;
        if failed.is_none() || manifest.ended_unix_ms.is_some() {
            // Until then it stays cut off, and can be finished again.
            manifest.ended_unix_ms = manifest.ended_unix_ms.or(Some(crate::unix_ms()));
        }
        let completed = self.record.run.set_manifest(manifest);
        self.record.go_on(failed, completed.map_err(Error::from));
        let written = self.record.write_events();
        self.record.go_on(failed, written);
        if self.manifest().ended_unix_ms.is_some() {
            let digested = self.record.write_digests();
            self.record.go_on(failed, digested);
        }
        ids
    }

    /// Ends processes and removes namespaces of a run that was cut off. What outlives one that ended does so by the
    /// will of whoever started it.
    fn end_what_is_left(&mut self) -> Result<(), Error> {
        let done = match self.manifest().run {
            0 => Vec::new(),
            run if self.was_cut_off => leftovers::end_what_is_left(run)?,
            run => leftovers::remove_namespaces(run)?,
        };
        self.done.extend(done);
        Ok(())
    }

    /// Ends what nodes elsewhere still do, and fetches what they hold; returns the sessions that could not be ended.
    fn fetch(&mut self, failed: &mut Option<Error>) -> BTreeMap<NodeName, String> {
        let mut kept = BTreeMap::new();
        for (node, session) in self.manifest().sessions.clone() {
            let fetched = self.fetch_from(&node);
            match fetched {
                Ok(()) => self.done.push(format!("fetched what node {node} held")),
                Err(why) => {
                    self.note_not_seen(&node);
                    let text = format!("what node {node} holds is not in the run: {why}");
                    self.record.note(node.as_str(), EventKind::StampsLeft, None, text.clone());
                    let then = "Run this again once it can be reached, and what holds stamps there has ended";
                    failed.get_or_insert(Error::work(format!("{text}. {then}")));
                    kept.insert(node, session);
                }
            }
        }
        kept
    }

    fn fetch_from(&mut self, node: &NodeName) -> Result<(), Error> {
        let manifest = self.manifest();
        let no_file = || Error::work("the run has no run file that says how to reach it");
        let text = manifest.run_file.as_deref().ok_or_else(no_file)?;
        let plan = Plan::parse(text).map_err(Error::work)?;
        let of_plan = plan.nodes.iter().find(|known| known.name == *node).ok_or_else(no_file)?;
        let folder = manifest.run_file_directory.clone().unwrap_or_default();
        let Site::There(there) = of_plan.site() else { return Err(no_file()) };
        let place = RunPlace { root: self.run().root().into(), store: ObjectStore::of_run(manifest)? };
        let (connect, settings) = sites::elsewhere(manifest.run, node, there, &folder);
        let mut agent = PipeAgent::rejoin(connect, settings, folder, &place)?;
        agent.begun(&manifest.text())?;
        if agent.inventory()?.nodes.is_empty() {
            // One that took over from an agent that is gone has to be told where the node's programs stamp.
            let known = manifest.nodes.iter().find(|known| known.name == *node);
            if let Err(why) = agent.prepare_as(of_plan, known.and_then(|known| known.injected.clone())) {
                notice::say(format_args!("node {node}: {why}")); // what it spooled is there all the same
            }
        }
        let there = agent.inventory()?.pools;
        agent.end_all()?;
        let left = agent.clear(Unread::Keep)?;
        let fetched = agent.flush();
        for News { what, value, text } in agent.news() {
            self.record.note(node.as_str(), what, value, text);
        }
        fetched?;
        self.copy_logs(&mut agent, node)?;
        let left = left.iter().find(|left| !left.foreign);
        self.note_gone(node, &there);
        match left {
            // Its agent goes on: it would take its word of what was stored with it.
            Some(left) => {
                self.note_untaken(node, left);
                Err(Error::work(format!("{} stays in {} there", left.what, left.directory)))
            }
            None => agent.bye(),
        }
    }

    /// Copies the logs and outputs of a node elsewhere, which go with its session.
    fn copy_logs(&mut self, agent: &mut PipeAgent, node: &NodeName) -> Result<(), Error> {
        let prepared = agent.inventory()?.nodes.into_iter().find(|known| known.facts.name == *node);
        // An agent that took over from one that is gone knows of no node; its files are beside the spool.
        let run = prepared.map_or_else(|| "../run".into(), |known| known.run);
        for (position, log) in self.logs().iter().enumerate().filter(|(_, log)| log.node == *node) {
            let path = log.path(&run, Path::new(""));
            agent.copy_log(&path.display().to_string(), &Log::copy(self.run().root(), position))?;
        }
        let plan = plan_of(self.manifest());
        for of_plan in plan.iter().flat_map(|plan| &plan.nodes).filter(|of_plan| of_plan.name == *node) {
            let lacking = take_outputs(of_plan, agent, &run, self.run().root())?;
            self.record.events.extend(lacking);
        }
        Ok(())
    }

    /// Takes what lies in shared memory; returns the directories that hold stamps still.
    fn take_stamps(&mut self, failed: &mut Option<Error>) -> BTreeMap<NodeName, PathBuf> {
        let mut kept = BTreeMap::new();
        for (node, directory) in self.directories() {
            let there = leftovers::pools_in(&directory);
            let taken = self.take(&node, &directory).map(|left| self.tell_foreign(left));
            match &taken {
                Ok(_) => self.note_gone(&node, &there),
                Err(_) => self.note_not_seen(&node),
            }
            match taken {
                Ok(None) => {}
                Ok(Some(left @ Left { held: false, .. })) => {
                    self.note_untaken(&node, &left);
                    let (what, place) = (left.what, directory.display());
                    let why = format!(
                        "cannot take every stamp: {what} stays in {place}. Run this again as its user and with its \
                         version; if nobody can read it, remove it and run this again: how many stamps were lost is \
                         not known then"
                    );
                    failed.get_or_insert(Error::work(why));
                    kept.insert(node, directory);
                }
                Ok(Some(left)) => {
                    self.note_untaken(&node, &left);
                    let (what, place) = (left.what, directory.display());
                    let why = format!(
                        "cannot take every stamp: {what} stays in {place}. Once that has ended, run this again"
                    );
                    failed.get_or_insert(Error::work(why));
                    kept.insert(node, directory);
                }
                Err(why) => {
                    let place = directory.display();
                    let why =
                        format!("{why}. The stamps of {node} still lie in {place}; run this again once it is mended");
                    self.record.note(node.as_str(), EventKind::StampsLeft, None, why.clone());
                    self.record.go_on(failed, Err(Error::work(why)));
                    kept.insert(node, directory);
                }
            }
        }
        kept
    }

    /// Notes what stays, with the pools that nobody holds.
    fn note_untaken(&mut self, node: &NodeName, left: &Left) {
        for (value, text) in left.notes() {
            self.record.note(node.as_str(), EventKind::StampsLeft, value, text);
        }
    }

    /// Notes again what could not be taken before, where nobody could look now.
    fn note_not_seen(&mut self, node: &NodeName) {
        for pool in self.untaken.remove(node.as_str()).unwrap_or_default() {
            let text = format!("{} of {node} could not be taken: its stamps are not in the run", pool_file(pool));
            self.record.note(node.as_str(), EventKind::StampsLeft, Some(pool.cast_signed()), text);
        }
    }

    /// Notes that pools which could not be taken before are gone, with what they held: they were not there when this
    /// attempt began. One that was there has been taken, or stays and is noted again. A channel that is theirs proves
    /// nothing: a collector may have begun with a pool that it could not read to its end.
    fn note_gone(&mut self, node: &NodeName, there: &BTreeSet<u64>) {
        let untaken = self.untaken.remove(node.as_str()).unwrap_or_default();
        let gone: Vec<String> = untaken.difference(there).map(|pool| pool_file(*pool)).collect();
        if !gone.is_empty() {
            let gone = gone.join(", ");
            let text = format!("{gone} of {node} could not be read, and is gone: how many stamps it held is not known");
            self.note_lost_memory(node, text);
        }
    }

    /// Notes it once, however often the run is finished.
    fn note_lost_memory(&mut self, node: &NodeName, text: String) {
        let is_it = |event: &Event| event.what == EventKind::MemoryLost && event.node == node.as_str();
        if !self.record.events.iter().any(is_it) {
            self.record.note(node.as_str(), EventKind::MemoryLost, None, text);
        }
    }

    /// Tells what strangers put into a stamp directory; returns what else stays there.
    fn tell_foreign(&mut self, left: Vec<Left>) -> Option<Left> {
        let (foreign, left): (Vec<Left>, Vec<Left>) = left.into_iter().partition(|left| left.foreign);
        for Left { node, directory, what, .. } in foreign {
            self.record.note(node.as_str(), EventKind::PoolLeftAlone, None, format!("in {directory}: {what}"));
        }
        left.into_iter().next()
    }

    /// Tells of programs whose stamp directory is gone though they had not ended when it was looked at last. From
    /// somebody else's directory another run may have taken what they stamped.
    fn tell_lost_memory(&mut self, node: &NodeName, directory: &Path) -> Result<(), Error> {
        let place = self.run().paths().channels(node.as_str());
        let channels = if place.exists() { read_channels(&place)? } else { Vec::new() };
        let open = channels.iter().filter(|channel| channel.is_in_memory()).count();
        if !leftovers::is_in_folder_of_run(directory) {
            self.done.push(format!("took no stamps of {node}: its directory {} is gone", directory.display()));
        } else if open > 0 {
            let text = format!(
                "the stamp directory of {node} is gone, and nobody had emptied it: what its {} stamped since the last \
                 look is in no count, so how many stamps were lost is not known",
                counted(open as u64, "channel")
            );
            self.note_lost_memory(node, text);
        }
        Ok(())
    }

    fn take(&mut self, node: &NodeName, directory: &Path) -> Result<Vec<Left>, Error> {
        if !directory.is_dir() {
            self.tell_lost_memory(node, directory)?;
            return Ok(Vec::new());
        }
        let run = self.run().root().to_path_buf();
        let (directory, node) = (directory.to_path_buf(), node.clone());
        let (follow, every, any_name, conducted) = (false, None, true, true);
        let segments = EncodingChoice::default();
        let settings = CollectorSettings { directory, run, node, follow, every, any_name, conducted, segments };
        let stamps = collect(&settings)?.report.stamps;
        let CollectorSettings { node, directory, .. } = settings;
        self.done.push(format!("took {} of {node} from {}", counted(stamps, "stamp"), directory.display()));
        match plan_of(self.manifest()).is_some_and(|plan| plan.stamps_of(&node).is_some()) {
            true => Ok(Vec::new()), // its programs go on
            false => leftovers::clear(&node, &directory),
        }
    }

    /// The logs of the run file, where `run.json` has it and none was imported before.
    fn import_logs(&mut self, failed: &mut Option<Error>) -> Vec<crate::record::Coarse> {
        let (mut wanted, mut places) = (Vec::new(), Vec::new());
        let root = self.run().root().to_path_buf();
        let run = root.display().to_string();
        let folder = self.manifest().run_file_directory.clone().unwrap_or_default();
        let copies: Vec<PathBuf> = (0..self.logs().len()).map(|position| Log::copy(&root, position)).collect();
        for (log, copy) in self.logs().into_iter().zip(&copies) {
            match self.is_imported(&log) {
                Ok(true) => {}
                Ok(false) => {
                    places.push(if copy.exists() { copy.clone() } else { log.path(&run, &folder) });
                    wanted.push(log);
                }
                Err(why) => self.record.go_on(failed, Err(why)),
            }
        }
        let coarse = self.record.import_logs(&wanted, |position, _| places[position].clone());
        for copy in copies {
            let _ = std::fs::remove_file(copy); // mostly there is none
        }
        coarse
    }

    fn logs(&self) -> Vec<Log> {
        plan_of(self.manifest()).map(|plan| plan.logs).unwrap_or_default()
    }

    /// Returns whether the channels list the log's readings. Segments of an import that was cut off, which no channel
    /// lists, go: it is made anew.
    fn is_imported(&self, log: &Log) -> Result<bool, Error> {
        let channels = self.run().channels()?.found;
        let of_node = || channels.iter().filter(|channel| channel.node == log.node.as_str());
        let known: Vec<i32> = of_node().map(|channel| channel.channel).collect();
        // Without names in the run file a column of the log names its points.
        let is_of_log = |point: &str| log.point.is_empty() || log.point.iter().any(|known| known.as_str() == point);
        for point in self.run().points(log.node.as_str())?.iter().filter(|point| is_of_log(point)) {
            let folder = self.run().paths().node_stamps(log.node.as_str()).join(format!("point={point}"));
            for file in files_in(&folder, "parquet")? {
                let Ok(origin) = Segment::open(&file).and_then(|segment| segment.origin()) else { continue };
                let of_program = !origin.blocks.is_empty() || !origin.open.is_empty();
                if of_program || origin.counts.iter().any(|count| known.contains(&count.channel)) {
                    continue;
                }
                let removed = std::fs::remove_file(&file);
                removed.map_err(|e| Error::work(format!("cannot remove {}: {e}. Check its rights", file.display())))?;
            }
        }
        Ok(of_node().any(|channel| channel.thread == 0 && is_of_log(channel.point.as_str())))
    }

    /// When the run was cut off, and what cannot be made up for.
    fn cut_off(&self, newest: Option<i64>) -> String {
        let logs = match (self.manifest().run_file.is_some(), self.logs().len()) {
            (true, 0) => "",
            (true, _) => "; the log files of the run file were taken in now",
            (false, _) => "; log files of the run file, if it names any, were not taken in",
        };
        let when = newest.map_or("an unknown time".into(), utc);
        format!(
            "the run was cut off at about {when}, the time of its newest file, and finished later. Missing: the last \
             look at the clocks, the check of the cores at the end, how the commands ended and what they and \
             tickscope's processes cost{logs}"
        )
    }

    /// Stamps by node; what nobody counted stays unknown.
    fn cost(&self, manifest: &Manifest) -> Result<Cost, Error> {
        let before = manifest.cost.clone().unwrap_or_default();
        if !before.nodes.is_empty() {
            return Ok(before); // the run had come to its end before it was cut off
        }
        let channels = self.run().channels()?.found;
        let node = |node: &tickscope_store::Node| {
            let of_target =
                channels.iter().filter(|channel| channel.node == node.name.as_str() && !is_own(channel.point.as_str()));
            let stamps = of_target
                .map(|channel| channel.ever_stored().unsigned_abs() + channel.ever_lost().unsigned_abs())
                .sum();
            NodeCost { stamps, ..NodeCost::none(node.name.clone()) }
        };
        Ok(Cost { nodes: manifest.nodes.iter().map(node).collect(), ..before })
    }
}

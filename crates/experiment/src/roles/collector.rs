//! A node's collector: stamps out of shared memory into a run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tickscope_collect::{Collector, EVERY_POINT, Report, Settings, UNNAMED, expect_free};
use tickscope_stamp::directory::{KEY_FILE, STORED_FILE, user_of};
use tickscope_store::{EncodingChoice, Event, Manifest, Node, Paths, Point, Run, RunState, SameBoot, Writing};
use tickscope_tick::{Domain, NodeName, Ordering, PointName, quoted};

use super::{RoleContext, live, ready};
use crate::Error;
use crate::host::{Host, KnownMaps};
use crate::interrupt;
use crate::leftovers;
use crate::notice::say;

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
    /// Interval of bringing the run's files up to date meanwhile; absent: a second.
    pub every: Option<Duration>,
    /// Take pools of programs whose TICKSCOPE_NODE names another node too.
    pub any_name: bool,
    /// It is part of a run that another process began, and ends.
    pub conducted: bool,
    /// How segments are encoded; of a run that is conducted its manifest says it.
    pub segments: EncodingChoice,
}

/// What was collected.
#[derive(Clone, Debug)]
pub struct Collected {
    /// How much.
    pub report: Report,
    /// Programs that still hold their pools, by process id and command: more may come of them.
    pub held: Vec<String>,
}

impl CollectorSettings {
    /// In a role the stamp directory is that of the node's programs.
    pub(super) fn of_role(place: &RoleContext, follow: bool) -> Self {
        let directory = std::env::var_os("TICKSCOPE_DIR").unwrap_or_default().into();
        let (run, node) = (place.run.clone(), place.node.clone());
        let segments = EncodingChoice::default();
        Self { directory, run, node, follow, every: None, any_name: true, conducted: true, segments }
    }

    /// The command that takes what still lies in the directory.
    fn command(&self) -> String {
        if self.conducted {
            return format!("tickscope finish {}", quoted(self.run.display()));
        }
        let [directory, run] = [&self.directory, &self.run].map(|place| quoted(place.display()));
        format!("tickscope collect {directory} --run {run} --node {}", self.node)
    }

    /// An error, and where the stamps lie if the disk was full or gone.
    fn told(&self, error: tickscope_store::Error) -> Error {
        if !error.is_disk_full() {
            return error.into();
        }
        Error::work(format!(
            "{error}. The stamps lie in {}: once the run takes files again, {}",
            self.directory.display(),
            self.command()
        ))
    }
}

/// Takes the stamps of a directory.
pub fn collect(settings: &CollectorSettings) -> Result<Collected, Error> {
    interrupt::catch();
    prepare_process();
    let CollectorSettings { directory, run, node, follow, .. } = settings;
    Event::expect_node(node).map_err(Error::input)?;
    expect_stamp_directory(directory)?;
    let part = match settings.conducted {
        true => None,
        false => {
            expect_free(directory).map_err(|error| settings.told(error))?;
            Some(Part::begin(settings)?)
        }
    };
    let mut how = Settings::new(directory, run, node.clone());
    if settings.conducted {
        // A run of another schema is refused before anything is taken.
        let manifest = Manifest::read(&Paths::of(run).manifest())?;
        how.keep = manifest.keep_ms.map(Duration::from_millis);
        how.encoding = manifest.segments.encoding();
    } else {
        how.encoding = settings.segments.encoding();
    }
    how.every = settings.every.unwrap_or(how.every);
    how.any_name = settings.any_name;
    let told = |error| settings.told(error);
    let mut collector = Collector::start(how).map_err(told)?;
    // Another run may have taken what is gone from somebody else's directory.
    if settings.conducted && leftovers::is_in_folder_of_run(directory) {
        collector.tell_lost_memory().map_err(told)?;
    }
    for refused in collector.refused() {
        say(refused);
    }
    let report = if *follow {
        ready();
        let mut known = Vec::new();
        let tell = |collector: &Collector| {
            let points = collector.points();
            // A disk that is full now takes it later.
            if let Some(part) = part.as_ref().filter(|_| points != known)
                && part.note(&points).is_ok()
            {
                known = points;
            }
        };
        // What a collector is told that nobody conducts is no order.
        let orders = settings.conducted.then(|| live::Orders::listen(&mut collector)).transpose()?;
        interrupt::catch_dump();
        let serve = |collector: &mut Collector| {
            orders.iter().for_each(|orders| orders.serve(collector));
            if interrupt::take_dump()
                && let Err(why) = collector.dump(EVERY_POINT, "the collector was sent SIGUSR1")
            {
                say(settings.told(why));
            }
        };
        collector.follow_and_serve(&interrupt::ENDED, tell, serve)
    } else {
        collector.once()
    };
    let collected = Collected { report: report.map_err(told)?, held: collector.holders() };
    if let Some(part) = part {
        part.end(&collector.points(), collected.held.is_empty())?;
    }
    Ok(collected)
}

/// The node of a stamp directory: the one under which the run has its stamps already, however its programs came to be
/// named since; else the one that its programs say they belong to; `node` where none names one.
pub fn node_of(directory: &Path, run: &Path) -> Result<NodeName, Error> {
    expect_stamp_directory(directory)?;
    if let Some(node) = node_before(directory, run)? {
        return Ok(node);
    }
    let names: Vec<_> = tickscope_collect::node_names(directory)?.into_iter().collect();
    match names.as_slice() {
        [] => NodeName::new(UNNAMED).map_err(Error::input),
        [name] => Ok(name.clone()),
        several => {
            let several: Vec<_> = several.iter().map(NodeName::as_str).collect();
            Err(Error::input(format!(
                "expected programs of one node in {}, found those of {} (TICKSCOPE_NODE). Collect all of them under \
                 one name with `--node NAME`, or give each node a directory of its own",
                directory.display(),
                several.join(", ")
            )))
        }
    }
}

/// The node that an earlier collector of that directory gave its stamps, in a run of collectors.
fn node_before(directory: &Path, run: &Path) -> Result<Option<NodeName>, Error> {
    let Some(manifest) = made_by_collectors(run)? else { return Ok(None) };
    let directory = canonical(directory);
    let of_directory = manifest.stamp_directories.iter().find(|(_, of)| **of == directory);
    let of_unnamed = manifest.points.iter().find(|point| point.node.as_str() == UNNAMED);
    Ok(of_directory.map(|(node, _)| node.clone()).or_else(|| of_unnamed.map(|point| point.node.clone())))
}

/// The manifest of a run that collectors made; `None`: there is no run yet. Any other is refused: its nodes are
/// declared, and its digests name the files that it has.
fn made_by_collectors(run: &Path) -> Result<Option<Manifest>, Error> {
    let place = Paths::of(run).manifest();
    if run.exists() && !run.is_dir() {
        let run = run.display();
        return Err(Error::input(format!(
            "expected a directory for the run, found the file {run}. Name another, --run"
        )));
    }
    if !place.exists() && leftovers::is_claimed(run) {
        return Err(of_others(run));
    }
    if !place.exists() {
        let left = ["stamps", "channels", "traces"].into_iter().find(|folder| run.join(folder).is_dir());
        return left.map_or(Ok(None), |folder| {
            let run = run.display();
            Err(Error::input(format!(
                "expected a run, or no run yet, found {run} with {folder}/ and without run.json: these stamps would \
                 ruin it. Restore its run.json, or name another directory with --run"
            )))
        });
    }
    let manifest = Manifest::read(&place)?;
    if is_undeclared(&manifest) {
        return Ok(Some(manifest));
    }
    Err(of_others(run))
}

fn of_others(run: &Path) -> Error {
    let run = quoted(run.display());
    Error::input(format!(
        "expected a run that collectors made, or no run yet, found {run}, which tickscope run made: these stamps would \
         ruin it. Name another directory with --run; what that run left in shared memory, tickscope finish {run} takes"
    ))
}

fn canonical(directory: &Path) -> PathBuf {
    std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned())
}

/// A file that grows past a limit is an error and not a signal; pools of many programs may be open at one time.
fn prepare_process() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid signal and disposition; a valid resource and an rlimit that outlives the calls.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Refuses a directory that stamps cannot lie in: one of other files, or none.
pub(crate) fn expect_stamp_directory(directory: &Path) -> Result<(), Error> {
    let wrong = |found: &str| {
        let directory = directory.display();
        Error::input(format!(
            "expected a stamp directory at {directory}, found {found}. It is what TICKSCOPE_DIR named"
        ))
    };
    if !directory.is_dir() {
        return Err(wrong("none"));
    }
    let listing = std::fs::read_dir(directory)
        .map_err(|e| Error::work(format!("cannot list {}: {e}. Check its rights", directory.display())))?;
    let (mut entries, mut ours) = (0, 0);
    for name in listing.flatten().map(|entry| entry.file_name()) {
        let name = name.to_string_lossy();
        let pool = name.trim_start_matches('.').starts_with("pool-") && name.ends_with(".ticks");
        entries += 1;
        let of_a_user = user_of(OsStr::new(&*name)).is_some();
        let own = [KEY_FILE, STORED_FILE, "collector.lock"].contains(&&*name);
        ours += usize::from(pool || of_a_user || own || name.starts_with("refused-"));
    }
    if entries > 0 && ours == 0 { Err(wrong("a directory of other files, and no pool")) } else { Ok(()) }
}

/// This collector's part in a run that nobody conducts: several may meet there, one after another or at once.
struct Part<'a> {
    settings: &'a CollectorSettings,
    _writing: Writing,
}

impl<'a> Part<'a> {
    fn begin(settings: &'a CollectorSettings) -> Result<Self, Error> {
        let CollectorSettings { directory, run, node, .. } = settings;
        let place = Paths::of(run).manifest();
        let known = made_by_collectors(run)?.map_or_else(Vec::new, |manifest| manifest.nodes);
        let described = if known.iter().any(|one| one.name == *node) { None } else { Some(describe(node)?) };
        let directory = canonical(directory);
        let mut is_of_others = false; // begun since it was looked at
        let opened = Run::amend(run, |before, _| {
            let mut manifest = match (before, &described) {
                (Some(manifest), _) => manifest,
                (None, Some(described)) => undeclared(described.clone()),
                (None, None) => return Err(removed(&place)),
            };
            is_of_others = !is_undeclared(&manifest);
            if is_of_others {
                return Ok(manifest);
            }
            let is_there = manifest.nodes.iter().any(|one| one.name == *node);
            manifest.nodes.extend(described.filter(|_| !is_there));
            manifest.ended_unix_ms = None;
            // They are of the run as it ended before.
            Run::forget_digests(run)?;
            manifest.stamp_directories.insert(node.clone(), directory);
            Ok(manifest)
        })
        .map_err(|error| settings.told(error))?;
        if is_of_others {
            return Err(of_others(run));
        }
        Ok(Self { settings, _writing: opened.write().map_err(|error| settings.told(error))? })
    }

    /// Adds points to the manifest.
    fn note(&self, points: &[(PointName, String, String)]) -> Result<(), Error> {
        let node = &self.settings.node;
        amend(self.settings, |manifest, _| add_points(manifest, node, points))
    }

    /// Writes what was found, and the run's end if no other collector works on it.
    fn end(self, points: &[(PointName, String, String)], is_empty: bool) -> Result<(), Error> {
        let Self { settings, _writing } = self;
        drop(_writing);
        amend(settings, |manifest, written| {
            add_points(manifest, &settings.node, points);
            if is_empty {
                manifest.stamp_directories.remove(&settings.node);
            }
            if !written {
                manifest.ended_unix_ms = Some(crate::unix_ms());
            }
        })?;
        let run = Run::open(&settings.run)?;
        if is_undeclared(run.manifest()) && run.state()? == RunState::Ended {
            run.write_digests().map_err(|error| settings.told(error))?;
        }
        Ok(())
    }
}

/// Changes the manifest of a run that nobody declared; any other is left as it is.
fn amend(settings: &CollectorSettings, change: impl FnOnce(&mut Manifest, bool)) -> Result<(), Error> {
    let amended = Run::amend(&settings.run, |before, written| {
        let mut manifest = before.ok_or_else(|| removed(&Paths::of(&settings.run).manifest()))?;
        if is_undeclared(&manifest) {
            change(&mut manifest, written);
        }
        Ok(manifest)
    });
    amended.map(|_| ()).map_err(|error| settings.told(error))
}

fn removed(manifest: &Path) -> tickscope_store::Error {
    tickscope_store::Error::io(manifest, "find", std::io::ErrorKind::NotFound.into())
}

/// Whether the run was made by collectors alone.
fn is_undeclared(manifest: &Manifest) -> bool {
    manifest.run_file.is_none() && manifest.layout == Default::default() && manifest.cost.is_none()
}

/// A point whose channels differ in their ordering is ordered as the least of them.
fn add_points(manifest: &mut Manifest, node: &NodeName, points: &[(PointName, String, String)]) {
    let own = manifest.nodes.iter().find(|one| one.name == *node).map(|one| one.counter.counter);
    for (name, ordering, domain) in points {
        let ordering: Ordering = ordering.parse().unwrap_or(Ordering::Plain);
        let counter =
            domain.parse::<Domain>().ok().map(|domain| domain.counter).filter(|&counter| Some(counter) != own);
        let known = manifest.points.iter_mut().find(|point| point.node == *node && point.name == *name);
        match known {
            Some(point) if point.ordering != ordering => point.ordering = Ordering::Plain,
            Some(_) => {}
            None => {
                let (node, name) = (node.clone(), name.clone());
                manifest.points.push(Point { node, name, ordering, counter, resolution_ticks: None });
            }
        }
    }
}

/// The report as JSON.
pub fn json(collected: &Collected) -> Value {
    let Collected { report, held } = collected;
    let Report {
        stamps,
        blocks,
        segments,
        bytes,
        uncommitted,
        lost,
        pools_ended,
        left_alone,
        pool_bytes,
        encoded_bytes,
        cpu_ns,
        ..
    } = *report;
    json!({
        "stamps": stamps, "blocks": blocks, "segments": segments, "bytes": bytes, "uncommitted": uncommitted,
        "lost": lost, "pools_ended": pools_ended, "held": held, "left_alone": left_alone, "pool_bytes": pool_bytes,
        "encoded_bytes": encoded_bytes, "cpu_ns": cpu_ns,
    })
}

/// This host as a node.
fn describe(node: &NodeName) -> Result<Node, Error> {
    Host::look()?.node(node.clone(), KnownMaps::default())
}

/// The manifest of a run that nobody declared: one node, this host.
fn undeclared(described: Node) -> Manifest {
    Manifest {
        schema: tickscope_store::SCHEMA,
        run: crate::conductor::random().unwrap_or(0).max(1),
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: crate::unix_ms(),
        stamp_directories: std::collections::BTreeMap::new(),
        sessions: std::collections::BTreeMap::new(),
        run_file: None,
        run_file_directory: None,
        revision: None,
        ended_unix_ms: None,
        reference: described.domain(),
        nodes: vec![described],
        rho: Vec::new(),
        evidence: Default::default(),
        same_boot: SameBoot::Detect,
        points: Vec::new(),
        policies: Vec::new(),
        dumps: Vec::new(),
        limits: Vec::new(),
        layout: Default::default(),
        assumptions: Vec::new(),
        seconds: None,
        began: None,
        keep_ms: None,
        storage: None,
        segments: Default::default(),
        cost: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_named_as_events_name_the_host_or_the_run_is_refused_and_leaves_nothing() {
        let run = std::env::temp_dir().join(format!("tickscope-collect-{}", std::process::id()));
        for name in [Event::HOST, Event::RUN] {
            let node = NodeName::new(name).unwrap();
            let (directory, run) = (std::env::temp_dir(), run.clone());
            let (follow, every, any_name, conducted) = (false, None, true, false);
            let segments = EncodingChoice::default();
            let settings = CollectorSettings { directory, run, node, follow, every, any_name, conducted, segments };
            let why = collect(&settings).unwrap_err();
            assert!(why.code() == 2 && why.to_string().contains("rename the node"), "{why}");
        }
        assert!(!run.exists());
    }
}

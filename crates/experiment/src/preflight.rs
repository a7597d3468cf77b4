//! What is looked at before anything is started: commands, ports, logs, shared memory, the run's directory. A fault
//! that is found here has left nothing behind, and is told alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use tickscope_stamp::block::DEFAULT_POOL_BYTES;
use tickscope_store::{Manifest, OF_A_RUN, Paths, Run, SameBoot, Writing};
use tickscope_tick::{NodeName, counted, printable, quoted};

use crate::Error;
use crate::conductor::random;
use crate::environment::{POOL_BYTES, expect_settings, own};
use crate::forecast::forecast;
use crate::leftovers::{self, CLAIM, PASSES};
use crate::network::Arrangement;
use crate::node_plan::{NodePlan, Site, There};
use crate::object_store::expect_curl;
use crate::plan::Plan;
use crate::roles::collector::expect_stamp_directory;

/// Looks at all of it; the arrangement of the network that the run would have.
pub(crate) fn check(plan: &Plan, root: &Path) -> Result<Arrangement, Error> {
    expect_empty(root)?;
    if let Some(storage) = &plan.storage {
        storage.store(root)?;
        expect_curl().map_err(Error::work)?;
    }
    let here = plan.nodes.iter().filter(|node| node.is_here());
    here.clone().filter(|node| !node.command.is_empty()).try_for_each(|node| check_command(plan, node))?;
    let mut targets = plan.nodes.iter().filter(|node| !node.command.is_empty());
    targets.try_for_each(|node| expect_settings(plan, node, own)).map_err(Error::input)?;
    here.clone().try_for_each(expect_stamps)?;
    plan.nodes.iter().try_for_each(|node| expect_files(plan, node))?;
    check_logs(plan)?;
    expect_few_strangers(probed(plan).count())?;
    let arrangement = Arrangement::of(plan.network_kind(), here.count())?;
    arrangement.expect_room_for(plan.network.link)?;
    let addresses = addresses(plan, arrangement);
    plan.nodes.iter().try_for_each(|node| plan.fill(node, &addresses, "").map(drop))?;
    if arrangement == Arrangement::Loopback {
        check_ports(plan, &addresses)?; // namespaces of this run's own have every port free
    }
    leftovers::expect_room(least_pool(plan))?;
    Ok(arrangement)
}

/// Bytes of the smallest pool that programs of a node here make: with less room no point is on.
fn least_pool(plan: &Plan) -> u64 {
    let here = plan.nodes.iter().filter(|node| node.is_here());
    here.map(|node| pool_of(plan, node)).min().unwrap_or(0)
}

/// Refuses a node whose programs would find no room for a pool where this process runs: all its points would be off.
pub(crate) fn expect_pool_room(node: &NodePlan) -> Result<(), Error> {
    if node.command.is_empty() || node.stamps.is_some() {
        return Ok(()); // whoever made the directory saw to its room
    }
    let set = node.environment.get(POOL_BYTES).cloned().or_else(|| env::var(POOL_BYTES).ok());
    let bytes = set.and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_POOL_BYTES);
    leftovers::expect_room(bytes).map_err(|e| Error::work(format!("node '{}': {e}", node.name)))
}

/// Bytes of shared memory that each program of a node makes its pool with.
pub(crate) fn pool_of(plan: &Plan, node: &NodePlan) -> u64 {
    let ours = env::var(POOL_BYTES).ok().filter(|_| node.is_here());
    let set = || node.environment.get(POOL_BYTES).or(ours.as_ref()).and_then(|text| text.parse().ok());
    plan.run.pool_bytes.or_else(set).unwrap_or(DEFAULT_POOL_BYTES)
}

/// How many pairs of nodes would have exchanges, at most: nodes elsewhere may turn out to read one counter.
pub(crate) fn probed_pairs(plan: &Plan) -> u64 {
    let apart = |at: usize| plan.nodes[at].inject.is_some() || plan.clock.same_boot == SameBoot::Ignore;
    let elsewhere = |at: usize| !plan.nodes[at].is_here();
    let strange = |one: usize, other: usize| [one, other].into_iter().any(|at| apart(at) || elsewhere(at));
    let pairs = plan.probe_pairs().filter(|pair| strange(pair.asker, pair.answerer)).count();
    if plan.evidence.probes { pairs as u64 } else { 0 }
}

/// What a run would do, in lines.
pub(crate) fn describe(plan: &Plan, root: &Path, arrangement: Arrangement) -> Result<String, Error> {
    let elsewhere = plan.nodes.iter().filter(|node| !node.is_here()).count();
    let arrangement = if elsewhere == plan.nodes.len() { Arrangement::Host } else { arrangement };
    let mut text = format!("network: {}\n", arrangement.told(plan.network.link));
    let addresses = addresses(plan, arrangement);
    let run = root.display().to_string();
    for node in &plan.nodes {
        let command: Vec<String> = plan.fill(node, &addresses, &run)?.iter().map(quoted).collect();
        let mut what = printable(&command.join(" ")).to_string();
        if let Some(directory) = &node.stamps {
            let directory = directory.display().to_string();
            what += &format!(
                "{}programs that stamp into {}",
                if what.is_empty() { "" } else { ", and " },
                printable(&directory)
            );
        }
        let what = if what.is_empty() { "its clocks alone".into() } else { what };
        let ends = if node.ends_run { "; the run ends with it" } else { "" };
        let (name, address) = (&node.name, &addresses[&node.name]);
        let ends = match node.site() {
            Site::Here => ends.to_owned(),
            Site::There(There { connect, .. }) => {
                let through: Vec<String> = connect.iter().map(quoted).collect();
                format!(" through '{}'{ends}", printable(&through.join(" ")))
            }
        };
        let _ = writeln!(text, "{name} at {address}{ends}: {what}"); // to a String
    }
    let folder = plan.origin.folder.display().to_string();
    let [folder, place] = [&folder, &run].map(|place| printable(place));
    let layout = match (plan.has_layout(), plan.limits.rules().len()) {
        (false, _) => "none is declared, points are ordered when the run is shown".into(),
        (true, 0) => "as [layout] says".into(),
        (true, limits) => format!("as [layout] says, with {} of its stages", counted(limits, "limit")),
    };
    let probes = match probed(plan).count() {
        0 if !plan.evidence.probes => "none: evidence.probes is off".to_owned(),
        0 if elsewhere > 0 => format!(
            "{} a second between each two nodes that read counters of their own, port {}; their machines are not asked \
             here",
            plan.clock.probes_hz, plan.clock.probe_port
        ),
        0 => "none: the nodes read one counter".to_owned(),
        nodes => format!(
            "{} a second between each two of {nodes} nodes, port {}",
            plan.clock.probes_hz, plan.clock.probe_port
        ),
    };
    let folder = match elsewhere {
        0 => folder,
        all if all == plan.nodes.len() => "a folder of its own on each node's machine".into(),
        _ => format!("{folder}; with connect, a folder of its own on the node's machine").into(),
    };
    text += &format!("commands run in: {folder}\nprobes: {probes}\nlayout: {layout}\nthe run would be: {place}\n");
    if let Some(storage) = &plan.storage {
        text += &format!("in storage: {}, segments straight from nodes elsewhere\n", storage.address(root));
    }
    Ok(text + &forecast(plan, root))
}

/// Addresses of the nodes, by name; those that only their machines know are called what they are.
fn addresses(plan: &Plan, arrangement: Arrangement) -> BTreeMap<NodeName, String> {
    let mut here = 0;
    let address = |node: &NodePlan| {
        let address = match (&node.address, node.is_here()) {
            (Some(address), _) => address.clone(),
            (None, false) => "its-address".into(),
            (None, true) => {
                here += 1;
                arrangement.address(here - 1)
            }
        };
        (node.name.clone(), address)
    };
    plan.nodes.iter().map(address).collect()
}

/// A run gets a directory of its own: what is there already is somebody's.
pub(crate) fn expect_empty(root: &Path) -> Result<(), Error> {
    Run::expect_none(root).map_err(Error::input)?;
    let place = root.display();
    match fs::read_dir(root) {
        Ok(entries) => match entries.flatten().find(|entry| entry.file_name() != CLAIM) {
            None => Ok(()),
            Some(_) => Err(Error::input(format!(
                "{place}: expected no such directory or an empty one, found files in it. Name another with --out"
            ))),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => {
            Err(Error::input(format!("cannot take {place} as the run's directory: {e}. Name another with --out")))
        }
    }
}

/// Refuses a node whose programs are to stamp into a directory that is not there, or is one of other files.
pub(crate) fn expect_stamps(node: &NodePlan) -> Result<(), Error> {
    match &node.stamps {
        Some(directory) if !directory.is_dir() => Err(Error::input(format!(
            "node '{}': expected the directory that its programs stamp into at {}, found none. Make it, on tmpfs, and \
             start them with TICKSCOPE_DIR naming it",
            node.name,
            directory.display()
        ))),
        Some(directory) => expect_stamp_directory(directory),
        None => Ok(()),
    }
}

/// Refuses a file that a node's machine is to have from here, and that is not here.
fn expect_files(plan: &Plan, node: &NodePlan) -> Result<(), Error> {
    let Site::There(There { files, .. }) = node.site() else { return Ok(()) };
    for file in files {
        let path: PathBuf = plan.origin.folder.join(file).components().collect();
        tickscope_store::open_regular(&path).map_err(|e| {
            Error::input(format!("node '{}': cannot read {}: {e}. Correct files", node.name, path.display()))
        })?;
    }
    Ok(())
}

fn check_command(plan: &Plan, node: &NodePlan) -> Result<(), Error> {
    let (program, name, folder) = (&node.command[0], &node.name, &plan.origin.folder);
    if program.contains('{') && plan.origin.text.is_some() {
        return Ok(()); // known once the node has an address
    }
    let wrong = |why: String| Err(Error::input(format!("node '{name}': cannot start '{program}': {why}")));
    if !program.contains('/') {
        let path = node.environment.get("PATH").map(Into::into).or_else(|| env::var_os("PATH")).unwrap_or_default();
        if env::split_paths(&path).any(|directory| is_program(&folder.join(directory).join(program)).is_ok()) {
            return Ok(());
        }
        let path = path.display();
        return wrong(format!("no directory of PATH has it ({path}). Install it, or give its path: './{program}'"));
    }
    let file: PathBuf = folder.join(program).components().collect();
    match is_program(&file) {
        Ok(()) => Ok(()),
        Err(why) => {
            let here: PathBuf = env::current_dir().unwrap_or_default().join(program).components().collect();
            let elsewhere = if here != file && is_program(&here).is_ok() {
                format!("; there is one at {}", here.display())
            } else {
                String::new()
            };
            let whose = if plan.origin.text.is_some() { "the run file's directory" } else { "the current directory" };
            wrong(format!(
                "{}: {why}{elsewhere}. Paths start from {whose}: build it there, or correct the path",
                file.display()
            ))
        }
    }
}

fn is_program(file: &Path) -> io::Result<()> {
    let found = fs::metadata(file)?;
    if found.is_file() && found.permissions().mode() & 0o111 != 0 {
        return Ok(());
    }
    Err(io::Error::other("it is no program that may be run"))
}

/// A log that is there already may be one that is written on; what is no regular file is none.
fn check_logs(plan: &Plan) -> Result<(), Error> {
    for log in plan.logs.iter().filter(|log| !log.file.contains("{run}")) {
        let file = log.path("", &plan.origin.folder);
        if fs::metadata(&file).is_ok_and(|found| !found.is_file()) {
            let file = file.display();
            return Err(Error::input(format!(
                "[[log]] {file}: expected a regular file, found a directory, a pipe or a device. Let the program \
                 write a file"
            )));
        }
    }
    Ok(())
}

/// Nodes that would be probed, by their positions: those that do not read every other node's counter.
fn probed(plan: &Plan) -> impl Iterator<Item = usize> + use<'_> {
    let injected = |at: usize| plan.nodes[at].inject.is_some() || plan.clock.same_boot == SameBoot::Ignore;
    let count = plan.nodes.len();
    let strange = move |at: &usize| (0..count).any(|other| other != *at && (injected(*at) || injected(other)));
    (0..count).filter(|_| plan.evidence.probes).filter(strange)
}

/// Every two nodes that are strangers have a rho in `run.json`, which has an end.
fn expect_few_strangers(nodes: usize) -> Result<(), Error> {
    const MOST: usize = 300;
    if nodes <= MOST {
        return Ok(());
    }
    Err(Error::input(format!(
        "expected at most {MOST} nodes that are related by probes, found {nodes}. Let nodes of one host read its \
         counter (clock.same_boot = \"detect\"), or leave some out"
    )))
}

fn check_ports(plan: &Plan, addresses: &BTreeMap<NodeName, String>) -> Result<(), Error> {
    let port = plan.clock.probe_port;
    for node in probed(plan).map(|at| &plan.nodes[at]).filter(|node| node.is_here()) {
        let address = node.probe_address.as_ref().unwrap_or(&addresses[&node.name]);
        UdpSocket::bind((address.as_str(), port)).map_err(|e| {
            Error::work(format!(
                "cannot bind the probe to {address}, port {port}: {e}. Is another run going on? Give this one another \
                 clock.probe_port"
            ))
        })?;
    }
    Ok(())
}

/// The directories that do not exist yet of a path, the outermost last: those that a failed start removes again.
fn missing(root: &Path) -> Vec<PathBuf> {
    let ancestors = root.ancestors().filter(|path| !path.as_os_str().is_empty());
    ancestors.take_while(|path| !path.exists()).map(Into::into).collect()
}

/// A directory that this process alone begins a run in.
#[derive(Debug)]
pub(crate) struct Claimed {
    root: PathBuf,
    run: u64,
    missing: Vec<PathBuf>,
    held: Option<File>,
}

impl Claimed {
    /// Takes an empty directory, which is made if need be; what a start that was killed has left there is taken, too.
    pub fn take(root: &Path) -> Result<Self, Error> {
        let missing = missing(root);
        let (run, held) = (random()?, Some(hold(root)?));
        let claimed = Self { root: root.into(), run, missing, held };
        match expect_empty(root) {
            Ok(()) => Ok(claimed),
            Err(why) => {
                let mut claimed = claimed;
                claimed.let_go(); // a run was begun there meanwhile, which is another's
                Err(why)
            }
        }
    }

    /// Number of the run that is to begin there.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The run has begun: its own files keep others out.
    pub fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            let _ = fs::remove_file(self.root.join(CLAIM)); // one that stays is taken by the next
            drop(held);
        }
    }

    /// Removes what a start that failed has written, with the directories that it made. Where it wrote no `run.json`,
    /// or another's lies there, that is next to nothing: whatever else came there meanwhile stays.
    pub fn remove(mut self) {
        if self.held.is_none() {
            self.held = hold(&self.root).ok(); // its run.json kept others out until here
        }
        if self.held.is_none() {
            return; // somebody begins there
        }
        let has_begun = Manifest::read(&Paths::of(&self.root).manifest()).is_ok_and(|found| found.run == self.run);
        let of_run = has_begun.then_some(OF_A_RUN).into_iter().flatten();
        for entry in of_run.chain([PASSES]).map(|name| self.root.join(name)) {
            // That the start failed is told; what cannot be removed stays.
            let _ = if entry.is_dir() { fs::remove_dir_all(entry) } else { fs::remove_file(entry) };
        }
        // The disk may have filled between the two files.
        let lock = Paths::of(&self.root).lock();
        if !Paths::of(&self.root).manifest().exists() && Writing::is_held(&lock).is_ok_and(|held| !held) {
            let _ = fs::remove_file(lock);
        }
        self.let_go();
        // Somebody may have put something there.
        self.missing.iter().for_each(|directory| drop(fs::remove_dir(directory)));
    }
}

/// Makes the directory if need be, and holds the file in it by which one process at a time begins a run there.
fn hold(root: &Path) -> Result<File, Error> {
    let place = root.join(CLAIM);
    let wrong = |e: io::Error| {
        let root = root.display();
        Error::input(format!("cannot take {root} as the run's directory: {e}. Name another with --out"))
    };
    loop {
        // Under any umask nobody else may put another run.json there, or begin in its stead.
        fs::DirBuilder::new().recursive(true).mode(0o755).create(root).map_err(wrong)?;
        let file = match File::options().write(true).create(true).truncate(false).mode(0o600).open(&place) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue, // removed by a start that failed just now
            file => file.map_err(wrong)?,
        };
        // SAFETY: a system call on a descriptor that outlives it.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(Error::input(format!(
                "cannot take {} as the run's directory: another run begins there just now. Name another with --out",
                root.display()
            )));
        }
        let (found, ours) = (fs::metadata(&place), file.metadata().map_err(wrong)?);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino())) {
            return Ok(file); // if not, it was let go between the two calls
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftovers::is_claimed;

    #[test]
    fn no_more_nodes_are_strangers_than_a_manifest_has_room_for() {
        assert_eq!(expect_few_strangers(300), Ok(()));
        assert!(expect_few_strangers(301).unwrap_err().to_string().contains("at most 300 nodes"));
    }

    #[test]
    fn what_a_failed_start_wrote_is_removed_with_the_directories_it_made_and_nothing_else() {
        let place = std::env::temp_dir().join(format!("tickscope-preflight-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("of somebody"), "").unwrap();
        let root = place.join("runs/first");
        let mut claimed = Claimed::take(&root).unwrap();
        assert_eq!(claimed.missing, [place.join("runs/first"), place.join("runs")]);
        fs::create_dir_all(root.join("stamps")).unwrap();
        write_manifest(&root, claimed.run());
        claimed.let_go();
        assert!(!root.join(CLAIM).exists());
        claimed.remove();
        assert!(!place.join("runs").exists() && place.join("of somebody").exists());
        fs::remove_dir_all(place).unwrap();
    }

    fn write_manifest(root: &Path, run: u64) {
        let known = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v1/run.json");
        let mut manifest = Manifest::read(Path::new(known)).unwrap();
        manifest.run = run;
        fs::write(root.join("run.json"), manifest.text()).unwrap();
    }

    #[test]
    fn what_others_put_into_a_directory_while_a_start_failed_there_stays() {
        let root = std::env::temp_dir().join(format!("tickscope-others-{}", std::process::id()));
        for has_begun in [None, Some(true), Some(false)] {
            let claimed = Claimed::take(&root).unwrap();
            has_begun.into_iter().for_each(|own| write_manifest(&root, claimed.run() ^ u64::from(!own)));
            for name in ["stamps", "mine", PASSES] {
                fs::create_dir(root.join(name)).unwrap();
            }
            fs::write(root.join("run.lock"), "").unwrap();
            claimed.remove();
            let stays = |name: &str| root.join(name).exists();
            let own = has_begun == Some(true);
            assert_eq!(["stamps", "mine", PASSES, CLAIM].map(stays), [!own, true, false, false], "{has_begun:?}");
            assert_eq!(["run.json", "run.lock"].map(stays), [has_begun == Some(false); 2], "{has_begun:?}");
            fs::remove_dir_all(&root).unwrap();
        }
        let claimed = Claimed::take(&root).unwrap();
        let held = Writing::hold(&root.join("run.lock")).unwrap();
        claimed.remove();
        assert!(root.join("run.lock").exists(), "somebody writes a run there");
        drop(held);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn of_two_that_begin_a_run_in_one_directory_the_second_is_refused_and_removes_nothing() {
        let root = std::env::temp_dir().join(format!("tickscope-claimed-{}", std::process::id()));
        let mut first = Claimed::take(&root).unwrap();
        fs::write(root.join("of the first"), "").unwrap();
        let refused = Claimed::take(&root).unwrap_err();
        assert!(refused.code() == 2 && refused.to_string().contains("another run begins there"), "{refused}");
        assert!(root.join("of the first").exists() && is_claimed(&root));
        first.let_go();
        assert!(!is_claimed(&root));
        assert!(Claimed::take(&root).unwrap_err().to_string().contains("found files in it"));
        assert!(root.join("of the first").exists() && !root.join(CLAIM).exists());
        first.remove();
        assert!(root.join("of the first").exists());
        fs::remove_file(root.join("of the first")).unwrap();
        fs::write(root.join(CLAIM), "").unwrap(); // of a start that was killed
        Claimed::take(&root).unwrap().remove();
        assert!(fs::read_dir(&root).unwrap().next().is_none(), "it was there before, and stays");
        fs::remove_dir(root).unwrap();
    }

    #[test]
    fn a_command_is_shown_as_a_shell_takes_it() {
        assert_eq!(
            [quoted("--rate=5"), quoted("a b"), quoted("it's"), quoted("")],
            ["--rate=5", "'a b'", "'it'\\''s'", "''"]
        );
    }
}

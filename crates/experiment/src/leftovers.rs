//! What a run on this host has outside its directory: shared memory, network namespaces, processes.
//!
//! Idea: before anything else a run makes its folder in shared memory, with a file `.run` that names the run's
//! directory, and holds that file while it lives; the folder goes last. So whatever carries a run's number while nobody
//! holds its file is left over, and the folder leads to the run that can take it.
//!
//! Guarantees: nothing of a living run is touched, and no stamp is removed unread unless [`discard`] is told to. Anyone
//! may make a folder of such a name: only directories of this user count, reached without a link. Shared memory is
//! sticky and a run's folder is this user's to write, so nobody else can put a link in their place once looked at.
//! Deliberately absent: taking stamps, which is the collector's.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tickscope_collect::{Cleared, Foreign, Stays};
use tickscope_host::free_space;
use tickscope_stamp::directory::{STORED_FILE, STORED_FILE_NEW, instance_of, user};
use tickscope_store::{Writing, open_regular};
use tickscope_tick::{NodeName, counted, quoted};

use crate::Error;
use crate::agent::{Left, UntakenPool};
use crate::interrupt;

/// Where stamp directories are.
const SHARED_MEMORY: &str = "/dev/shm";
/// Where the kernel's names of network namespaces are.
const NAMESPACES: &str = "/var/run/netns";
/// Files of a stamp directory that hold no stamp.
const EMPTY: [&str; 3] = ["collector.lock", STORED_FILE, STORED_FILE_NEW];
/// How long a process may take to end once it was asked to; then it is killed, which loses no stamp.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a run's folder holds besides stamp directories.
const OWN: [&str; 4] = [".run", crate::control::SOCKET, crate::control::RULES, crate::control::RULES_NEW];
/// The longest path that a file `.run` holds.
const ROOT_BYTES: u64 = 4096;

/// Tells whose a process of a run is that stamps into a directory of somebody else's: the run's number.
pub(crate) const RUN_VARIABLE: &str = "TICKSCOPE_RUN";

/// The folder in shared memory of run number `run`: a stamp directory for each node.
pub(crate) fn stamps_of(run: u64) -> PathBuf {
    Path::new(SHARED_MEMORY).join(format!("tickscope-{run:016x}"))
}

/// Returns whether a stamp directory lies in the folder of a run, where nobody else takes stamps: not one that a run
/// file names by `stamps`.
pub(crate) fn is_in_folder_of_run(directory: &Path) -> bool {
    directory.parent().is_some_and(|of| of.parent() == Some(Path::new(SHARED_MEMORY)) && run_of(of).is_some())
}

/// The folder next to it that the cost of a stamp is measured in.
pub(crate) fn cost_folder(run: u64) -> PathBuf {
    stamps_of(run).with_extension("cost")
}

/// How the names of a run's namespaces begin.
pub(crate) fn namespace_prefix(run: u64) -> String {
    format!("tickscope-{:06x}-", run & 0xff_ffff)
}

/// Refuses shared memory that a run can make no folder in, or that has no room for a pool of `pool_bytes`.
pub(crate) fn expect_room(pool_bytes: u64) -> Result<(), Error> {
    expect_room_in(Path::new(SHARED_MEMORY), pool_bytes)
}

fn expect_room_in(place: &Path, pool_bytes: u64) -> Result<(), Error> {
    let (shown, path) = (place.display(), CString::new(place.as_os_str().as_bytes()).map_err(Error::input)?);
    // SAFETY: faccessat reads a terminated path.
    if unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) } != 0 {
        let e = std::io::Error::last_os_error();
        return Err(Error::work(format!(
            "cannot make a folder in {shown}: {e}. Mount a tmpfs there that all may write"
        )));
    }
    let Some(free) = free_space::free_bytes(place).filter(|&free| free < pool_bytes) else {
        return Ok(()); // whatever cannot be told is no reason
    };
    Err(Error::work(format!(
        "expected {} KiB free in {shown} for the stamps of a program, found {} KiB: all points would be off. Free \
         some, such as by tickscope doctor --clean, or set pool_bytes lower",
        pool_bytes >> 10,
        free >> 10
    )))
}

/// A run's folder in shared memory, held; it goes with the value, if nothing but `.run` is in it.
#[derive(Debug)]
pub(crate) struct Claim {
    folder: PathBuf,
    _held: Writing,
}

/// Held while an agent makes its folder.
static MAKING: Mutex<()> = Mutex::new(());

/// Ends this process at once, but not while it makes its folder.
pub(crate) fn end_at_once() -> ! {
    let _made = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    std::process::exit(0)
}

impl Claim {
    /// The same for an agent: no folder is made, or stays, once this process was told to end. So who finds none of a
    /// run that was killed need not look again.
    pub fn take_unless_told_to_end(run: u64, root: &Path) -> Result<Self, Error> {
        let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let claim = Self::take(run, root)?;
        if interrupt::ended() {
            return Err(Error::work("the agent is shutting down, so no node was started. Run it again"));
        }
        Ok(claim)
    }

    /// Makes the folder of run number `run`, whose directory is `root`, or takes the one that a killed run left.
    pub fn take(run: u64, root: &Path) -> Result<Self, Error> {
        let folder = stamps_of(run);
        let wrong = |e| Error::work(format!("cannot make {}: {e}. Mount a tmpfs there", folder.display()));
        loop {
            own_folder(&folder).map_err(wrong)?;
            let file = folder.join(".run");
            let held = Writing::hold(&file)?;
            // Whoever cleans up may have removed the folder before it was held.
            match fs::write(&file, root.display().to_string()) {
                Ok(()) if file.exists() => return Ok(Self { folder, _held: held }),
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::work(format!("cannot write {}: {e}. Free some of that tmpfs", file.display())));
                }
                _ => {}
            }
        }
    }
}

/// Makes a folder that nobody else can write, whatever the umask; programs that gave up root pass through it to their
/// stamp directories. One that is there already has to be ours.
pub(crate) fn own_folder(folder: &Path) -> std::io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let (found, ours) = (fs::symlink_metadata(folder)?, user());
    if !is_ours(folder) {
        return Err(std::io::Error::other(format!("it is there already and belongs to user {}", found.uid())));
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(if ours == 0 { 0o711 } else { 0o700 }))
}

/// Returns whether it is a directory, and no link to one, that belongs to this user.
pub(crate) fn is_ours(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == user())
}

impl Drop for Claim {
    fn drop(&mut self) {
        remove_if_empty(&self.folder);
    }
}

/// Removes a run's folder if only `.run` and empty stamp directories are in it.
fn remove_if_empty(folder: &Path) {
    let Ok(listing) = fs::read_dir(folder) else { return };
    let others: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).filter(|path| !is_own(path)).collect();
    if others.iter().all(|node| fs::remove_dir(node).is_ok()) {
        OWN.iter().for_each(|name| drop(fs::remove_file(folder.join(name)))); // one of an older version has none
        let _ = fs::remove_dir(folder); // where something appeared meanwhile it stays, and is found again
    }
}

/// Removes a node's stamp directory if nothing lies in it but pools that are stored; if not, what stays. What other
/// users had put there is told too.
pub(crate) fn clear(node: &NodeName, directory: &Path) -> Result<Vec<Left>, Error> {
    // Each user's pools have a folder; into those of others its collector looks.
    let own = entries(directory).into_iter().filter(|path| is_ours(path)).flat_map(|folder| entries(&folder));
    for path in own.chain(entries(directory)).filter(|path| is_unmade_pool(path)) {
        let _ = fs::remove_file(path); // what cannot be removed stays, and is named below
    }
    let Cleared { gone, stays, foreign, .. } = tickscope_collect::clear(directory)?;
    let left = |what, (held, foreign), untaken| Left {
        node: node.clone(),
        directory: directory.display().to_string(),
        what,
        held,
        foreign,
        untaken,
    };
    let strangers = describe_foreign(&foreign).map(|what| left(what, (false, true), Vec::new()));
    // What is held tells whether looking again may help.
    let first = stays.iter().find(|stays| is_held(&stays.path)).or(stays.first());
    let what = match first {
        None if gone || foreign.left > 0 => return Ok(strangers.into_iter().collect()),
        None => "a file that appeared just now".into(),
        Some(stays) => in_words(stays),
    };
    let held = first.is_none_or(|stays| is_held(&stays.path));
    let untaken = stays.iter().filter(|stays| stays.stamps && !is_held(&stays.path)).filter_map(|stays| {
        let instance = instance_of(stays.path.file_name()?)?;
        Some(UntakenPool { instance, what: in_words(stays) })
    });
    let untaken = untaken.collect();
    Ok(std::iter::once(left(what, (held, false), untaken)).chain(strangers).collect())
}

/// The pools that lie in a stamp directory, by instance; none where it cannot be looked into.
pub(crate) fn pools_in(directory: &Path) -> BTreeSet<u64> {
    let users = entries(directory).into_iter().flat_map(|folder| entries(&folder));
    let files = users.chain(entries(directory));
    files.filter_map(|path| instance_of(path.file_name()?)).collect()
}

fn in_words(Stays { path, why, .. }: &Stays) -> String {
    format!("{}, which {why},", path.file_name().unwrap_or_default().to_string_lossy())
}

/// In words: what strangers put into a stamp directory.
fn describe_foreign(found: &Foreign) -> Option<String> {
    let Foreign { removed, left, first } = found;
    let number = removed + left;
    let more = number - first.len() as u64;
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    let of = counted(number, "file");
    (number > 0)
        .then(|| format!("{of} of other users without the run's key, {removed} removed: {}{more}", first.join("; ")))
}

fn is_own(path: &Path) -> bool {
    OWN.iter().any(|name| path.ends_with(name))
}

fn holds_no_stamp(path: &Path) -> bool {
    EMPTY.iter().any(|name| path.ends_with(name))
}

/// Returns whether a program was killed while it made the pool: no stamp is in it yet.
fn is_unmade_pool(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let own = user();
    let is_own = || fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.uid() == own);
    name.starts_with(".pool-") && is_own() && !is_held(path)
}

fn is_held(path: &Path) -> bool {
    Writing::is_held(path).unwrap_or(true)
}

/// What is left of one run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orphan {
    /// The run's number, as names have it.
    pub run: String,
    /// Its directory; absent where nothing tells.
    pub root: Option<PathBuf>,
    /// Folders in shared memory.
    pub folders: Vec<PathBuf>,
    /// Files with stamps in them that no run has taken.
    pub unread: Vec<PathBuf>,
    /// Network namespaces.
    pub namespaces: Vec<String>,
    /// Processes: number and command.
    pub processes: Vec<(u32, String)>,
}

/// What is left of this user's runs that no longer live.
pub fn orphans() -> Vec<Orphan> {
    let mut found: BTreeMap<String, Orphan> = BTreeMap::new();
    let mut living = Vec::new();
    for folder in entries(Path::new(SHARED_MEMORY)) {
        let Some(run) = run_of(&folder) else { continue };
        if lives(&folder, &run) {
            living.push(run);
            continue;
        }
        if !is_ours(&folder) {
            continue; // whatever it holds and whomever it names, it may be made for root to clean
        }
        let orphan = found.entry(run.clone()).or_insert_with(|| Orphan { run, ..Orphan::default() });
        orphan.root = orphan.root.take().or_else(|| root_of(&folder));
        if folder.extension().is_none() {
            orphan.unread.extend(unread_in(&folder));
        }
        orphan.folders.push(folder);
    }
    found.retain(|run, _| !living.contains(run));
    for orphan in found.values_mut() {
        orphan.processes = processes_of(&orphan.run, Whose::This);
    }
    for name in namespaces() {
        let Some(short) = name.strip_prefix("tickscope-").and_then(|rest| rest.split('-').next()) else { continue };
        if is_dead_probe(&name) {
            let orphan = Orphan { run: short.into(), ..Orphan::default() };
            found.entry(short.into()).or_insert(orphan).namespaces.push(name);
        } else if is_hex(short, 6) && !living.iter().any(|run| run.ends_with(short)) {
            let known = found.keys().find(|run| run.ends_with(short)).cloned();
            if known.is_none() && is_new(&name) {
                continue; // its run may be about to make its folder
            }
            let run = known.unwrap_or_else(|| short.into());
            found.entry(run.clone()).or_insert_with(|| Orphan { run, ..Orphan::default() }).namespaces.push(name);
        }
    }
    found.into_values().collect()
}

impl Orphan {
    /// In words: what is left, and where.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        let list = |items: Vec<String>| items.join(", ");
        for (what, items) in [
            ("shared memory", self.folders.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()),
            ("namespaces", self.namespaces.clone()),
            ("processes", self.processes.iter().map(|(pid, command)| format!("{pid} ({command})")).collect()),
        ] {
            if !items.is_empty() {
                parts.push(format!("{what} {}", list(items)));
            }
        }
        format!("run {}: {}", self.run, parts.join("; "))
    }

    /// The command that takes what it holds; `None`: it holds no stamps.
    pub fn remedy(&self) -> Option<String> {
        let first = self.unread.first()?;
        let finishes = self.root.as_ref().filter(|root| root.join("run.json").exists());
        Some(match (finishes, first.parent()) {
            (Some(root), _) => format!("tickscope finish {}", quoted(root.display())),
            (None, Some(directory)) => format!("tickscope collect {} --run RUN", quoted(directory.display())),
            (None, None) => "tickscope collect DIRECTORY --run RUN".into(),
        })
    }

    /// Ends and removes what is left, but for shared memory with stamps that nobody has taken.
    pub fn clean(&self) -> Result<(), Error> {
        if self.unread.is_empty() {
            end_processes(&self.run, Whose::This, &mut |_| {});
            self.folders.iter().for_each(|folder| empty_folder(folder));
        }
        self.namespaces.iter().try_for_each(|name| remove_namespace(name))
    }
}

/// Removes the folder of a run in which no stamp lies, if nobody holds it by now.
fn empty_folder(folder: &Path) {
    if !is_ours(folder) || is_held(&folder.join(".run")) {
        return;
    }
    for node in entries(folder).into_iter().filter(|path| is_ours(path)) {
        for path in entries(&node).into_iter().filter(|path| is_unmade_pool(path) || holds_no_stamp(path)) {
            let _ = fs::remove_file(path); // what cannot be removed stays, and so does its folder
        }
    }
    match folder.extension() {
        // What was stamped to find out what a stamp costs is of no run.
        Some(_) => drop(fs::remove_dir_all(folder)),
        None => remove_if_empty(folder),
    }
}

/// Ends all that carries the number of a run that is to be finished, and removes its namespaces; in words what it was.
/// Stamp directories stay.
pub(crate) fn end_what_is_left(run: u64) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    let mut end = |process: &(u32, String)| done.push(format!("ended process {} ({})", process.0, process.1));
    // Whoever they are: a program of this run may have given up root.
    end_processes(&format!("{run:016x}"), Whose::Any, &mut end);
    for name in namespaces().into_iter().filter(|name| is_dead_probe(name)) {
        remove_namespace(&name)?;
        done.push(format!("removed network namespace {name}"));
    }
    done.extend(remove_namespaces(run)?);
    Ok(done)
}

/// Removes the namespaces of a run that is to be finished; in words what it was.
pub(crate) fn remove_namespaces(run: u64) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    let others: Vec<String> = entries(Path::new(SHARED_MEMORY)).iter().filter_map(|folder| run_of(folder)).collect();
    let (short, own) = (format!("{:06x}", run & 0xff_ffff), format!("{run:016x}"));
    let is_shared = others.iter().any(|other| *other != own && other.ends_with(&short));
    for name in namespaces() {
        if name.starts_with(&namespace_prefix(run)) && !is_shared {
            remove_namespace(&name)?;
            done.push(format!("removed network namespace {name}"));
        }
    }
    let _ = fs::remove_dir_all(cost_folder(run)); // of no run, and mostly not there
    Ok(done)
}

/// Waits, within reason, for the agent of a run that was killed just now before there was a `run.json`: it ends by
/// itself, and holds the run's folder until then.
pub(crate) fn await_agents(root: &Path) {
    let root = std::path::absolute(root).unwrap_or_else(|_| root.into());
    let is_of = |of: PathBuf| of == root || of.starts_with(root.join(PASSES));
    let is_held = |folder: PathBuf| {
        let run = run_of(&folder).filter(|_| root_of(&folder).is_some_and(is_of) && is_ours(&folder));
        run.is_some_and(|run| lives(&folder, &run))
    };
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until && entries(Path::new(SHARED_MEMORY)).into_iter().any(is_held) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A file in the run's directory that whoever begins a run there holds, until there is a run.
pub(crate) const CLAIM: &str = ".starting";

/// A folder in it, of the passes of a comparison that comes first.
pub(crate) const PASSES: &str = ".overhead";

/// Returns whether a process that lives begins a run in that directory.
pub(crate) fn is_claimed(root: &Path) -> bool {
    let Ok(file) = File::open(root.join(CLAIM)) else { return false };
    // SAFETY: a system call on a descriptor that outlives it.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) != 0 }
}

/// Removes what runs left that began no run in `root` or below, stamps too: of passes without a run, and of a run that
/// was killed before there was a `run.json`. Returns in words what it was.
pub(crate) fn discard(root: &Path) -> Result<Vec<String>, Error> {
    let root = std::path::absolute(root).unwrap_or_else(|_| root.into());
    let mut done = Vec::new();
    for folder in entries(Path::new(SHARED_MEMORY)) {
        let (Some(run), Some(of)) = (run_of(&folder), root_of(&folder)) else { continue };
        if !of.starts_with(&root) || !is_ours(&folder) || lives(&folder, &run) {
            continue;
        }
        if let Ok(number) = u64::from_str_radix(&run, 16) {
            done.extend(end_what_is_left(number)?);
        }
        let removed = fs::remove_dir_all(&folder);
        removed.map_err(|e| Error::work(format!("cannot remove {}: {e}. Check its rights", folder.display())))?;
        done.push(format!("removed {}", folder.display()));
    }
    Ok(done)
}

/// The number in `tickscope-0123456789abcdef` or `tickscope-0123456789abcdef.cost`.
fn run_of(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?.strip_prefix("tickscope-")?;
    let run = name.strip_suffix(".cost").unwrap_or(name);
    is_hex(run, 16).then(|| run.to_owned())
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Returns whether the run lives that the folder belongs to; on a doubt it does. Folders of older versions have no file
/// to hold: there a process tells.
pub(crate) fn lives(folder: &Path, run: &str) -> bool {
    let file = folder.with_extension("").join(".run");
    match file.exists() {
        true => Writing::is_held(&file).unwrap_or(true),
        false => fs::read_dir(folder).is_err() || !processes_of(run, Whose::Any).is_empty(),
    }
}

/// The directory that a run's folder names. A stranger's word does not count, and a stranger's FIFO is not waited for.
pub(crate) fn root_of(folder: &Path) -> Option<PathBuf> {
    let file = open_regular(&folder.join(".run")).ok()?;
    let found = file.metadata().ok()?;
    if ![0, user()].contains(&found.uid()) || found.len() > ROOT_BYTES {
        return None;
    }
    let text = std::io::read_to_string(std::io::Read::take(file, ROOT_BYTES)).ok()?;
    (!text.is_empty()).then(|| text.into())
}

/// What of a run's folder is no empty stamp directory.
fn unread_in(folder: &Path) -> Vec<PathBuf> {
    let nodes = entries(folder).into_iter().filter(|path| !is_own(path));
    let mut unread = Vec::new();
    for node in nodes {
        match is_ours(&node) {
            true => {
                let files = entries(&node).into_iter();
                unread.extend(files.filter(|path| !is_unmade_pool(path) && !holds_no_stamp(path)));
            }
            false => unread.push(node),
        }
    }
    unread
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn namespaces() -> Vec<String> {
    let names = entries(Path::new(NAMESPACES)).into_iter();
    names
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| name.starts_with("tickscope-"))
        .collect()
}

/// Returns whether it is the namespace that a process made to see whether it may, and that process is gone.
fn is_dead_probe(namespace: &str) -> bool {
    let pid = namespace.strip_prefix("tickscope-probe-").and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Returns whether the namespace was made within the last minute.
fn is_new(namespace: &str) -> bool {
    let made = fs::metadata(Path::new(NAMESPACES).join(namespace)).and_then(|file| file.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < Duration::from_secs(60)))
}

fn remove_namespace(name: &str) -> Result<(), Error> {
    let wrong = |why: String| {
        Error::work(format!("cannot remove network namespace {name}: {why}. Run as root, or: ip netns del {name}"))
    };
    let output = Command::new("ip").args(["netns", "del", name]).output().map_err(|e| wrong(e.to_string()))?;
    let gone = output.status.success() || !Path::new(NAMESPACES).join(name).exists();
    if gone { Ok(()) } else { Err(wrong(String::from_utf8_lossy(&output.stderr).trim().into())) }
}

/// Whose processes are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// This user's.
    This,
    Any,
}

/// Processes that were started to stamp into the folder of that run: number and command. None of this process's
/// ancestors: a shell may carry the variable, and the user sits at it.
fn processes_of(run: &str, whose: Whose) -> Vec<(u32, String)> {
    let wanted = format!("TICKSCOPE_DIR={SHARED_MEMORY}/tickscope-{run}").into_bytes();
    let by_name = format!("{RUN_VARIABLE}={run}").into_bytes();
    let ours = ancestors();
    let mut found = Vec::new();
    for process in entries(Path::new("/proc")) {
        let Some(pid) = process.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else { continue };
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let of_run = |variable: &[u8]| {
            let rest = variable.strip_prefix(wanted.as_slice());
            let by_place = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || rest == b".cost");
            by_place || variable == by_name
        };
        let is_meant = || whose == Whose::Any || owner(&process) == Some(user());
        if !ours.contains(&pid) && environment.split(|&b| b == 0).any(of_run) && is_meant() {
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            let words: Vec<_> = words.split(|&b| b == 0).take(3).map(String::from_utf8_lossy).collect();
            found.push((pid, words.join(" ").trim().to_owned()));
        }
    }
    found
}

/// The user that a process runs for. Whom its files in /proc belong to does not tell: root, for one that may not dump.
fn owner(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}

/// This process and those above it.
fn ancestors() -> Vec<u32> {
    let mut all = vec![std::process::id()];
    while let Some(parent) = all.last().and_then(|pid| parent(*pid)).filter(|&pid| pid > 0) {
        all.push(parent);
    }
    all
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

/// Asks the processes of a run to end, waits, and kills those that do not.
fn end_processes(run: &str, whose: Whose, ended: &mut dyn FnMut(&(u32, String))) {
    let (mut asked, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        let processes = processes_of(run, whose);
        if processes.is_empty() {
            return;
        }
        let late = Instant::now() >= deadline;
        for process in processes {
            let pid = process.0 as libc::pid_t;
            if late {
                // SAFETY: a system call; the process was seen to carry this run's folder just now.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            } else if !asked.contains(&process.0) {
                // SAFETY: as above.
                unsafe { libc::kill(pid, libc::SIGTERM) };
                asked.push(process.0);
                ended(&process);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_of_a_run_that_was_killed_before_it_began_is_waited_for_and_its_folder_goes() {
        let run = 0x00fe_dcba_0000_0000 | u64::from(std::process::id());
        let (folder, root) = (stamps_of(run), std::env::temp_dir().join(format!("tickscope-unbegun-{run:016x}")));
        own_folder(&folder).unwrap();
        let held = Writing::hold(&folder.join(".run")).unwrap();
        fs::write(folder.join(".run"), root.display().to_string()).unwrap();
        // An agent that ends at once lets go of its folder, and removes nothing.
        let agent = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(held);
        });
        let finished = crate::finish::finish(&root).map(drop).unwrap_err().to_string();
        agent.join().unwrap();
        assert!(finished.contains(&format!("removed {}", folder.display())) && !folder.exists(), "{finished}");
    }

    #[test]
    fn shared_memory_that_is_not_there_or_has_no_room_is_refused_with_what_helps() {
        let said = |place: &str, bytes| expect_room_in(Path::new(place), bytes).unwrap_err().to_string();
        assert!(said("/dev/shm/no such folder", 0).contains("Mount a tmpfs there"));
        assert!(said(SHARED_MEMORY, u64::MAX).contains("all points would be off"));
        expect_room_in(Path::new(SHARED_MEMORY), 0).unwrap();
    }

    #[test]
    fn only_what_carries_a_whole_run_number_is_a_runs_folder() {
        let run = |name: &str| run_of(&Path::new(SHARED_MEMORY).join(name));
        assert_eq!(run("tickscope-0123456789abcdef").as_deref(), Some("0123456789abcdef"));
        assert_eq!(run("tickscope-0123456789abcdef.cost").as_deref(), Some("0123456789abcdef"));
        for other in ["tickscope-test-x-1", "tickscope-0123456789abcde", "tickscope-0123456789abcdeF", "other"] {
            assert_eq!(run(other), None, "{other}");
        }
    }

    #[test]
    fn a_claimed_folder_is_no_orphan_and_one_that_nobody_holds_is() {
        let run = 0xfeed_0000_0000_0000 | u64::from(std::process::id());
        let is_orphan = || orphans().iter().any(|orphan| orphan.run == format!("{run:016x}"));
        let claim = Claim::take(run, Path::new("/nowhere")).unwrap();
        let folder = stamps_of(run);
        fs::create_dir(folder.join("node")).unwrap();
        fs::write(folder.join("node/pool-1.ticks"), "stamps").unwrap();
        assert!(!is_orphan());
        drop(claim);
        assert!(is_orphan(), "what holds stamps stays");
        let orphan = orphans().into_iter().find(|orphan| orphan.folders == [folder.clone()]).unwrap();
        assert_eq!(orphan.unread, [folder.join("node/pool-1.ticks")]);
        orphan.clean().unwrap();
        assert!(folder.join("node/pool-1.ticks").exists(), "nothing is removed unread");
        fs::remove_file(folder.join("node/pool-1.ticks")).unwrap();
        orphans().iter().find(|orphan| orphan.folders == [folder.clone()]).unwrap().clean().unwrap();
        assert!(!folder.exists());
    }

    /// A user that is not this one, which is root.
    const STRANGER: u32 = 65534;

    /// Returns whether a stranger can be played here, and says so where not.
    #[allow(clippy::print_stdout, reason = "what is left out is said")]
    fn is_root() -> bool {
        if user() != 0 {
            println!("LEFT OUT: what a stranger made needs root");
        }
        user() == 0
    }

    /// A run number that no other test has.
    fn number(test: u64) -> u64 {
        0x0bad_0000_0000_0000 | test << 32 | u64::from(std::process::id())
    }

    fn orphan_of(run: u64) -> Option<Orphan> {
        orphans().into_iter().find(|orphan| orphan.run == format!("{run:016x}"))
    }

    #[test]
    fn a_link_in_shared_memory_leads_no_cleaning_out_of_it() {
        let victim = std::env::temp_dir().join(format!("tickscope-victim-{}", std::process::id()));
        let kept = [STORED_FILE, "collector.lock"].map(|name| victim.join(name));
        fs::create_dir_all(victim.join("empty")).unwrap();
        kept.iter().for_each(|file| fs::write(file, "of the victim").unwrap());
        let [linked, own, strange] = [1, 2, 3].map(number);
        std::os::unix::fs::symlink(&victim, stamps_of(linked)).unwrap();
        for run in [own, strange] {
            fs::create_dir(stamps_of(run)).unwrap();
            std::os::unix::fs::symlink(&victim, stamps_of(run).join("n")).unwrap();
        }
        if is_root() {
            std::os::unix::fs::lchown(stamps_of(linked), Some(STRANGER), None).unwrap();
            std::os::unix::fs::chown(stamps_of(strange), Some(STRANGER), None).unwrap();
            assert_eq!(orphan_of(strange), None, "a stranger's folder is no run's");
        }
        assert_eq!(orphan_of(linked), None, "a link is no folder");
        let found = orphan_of(own).unwrap();
        assert_eq!(found.unread, [stamps_of(own).join("n")], "a link is no stamp directory");
        for run in [linked, own, strange] {
            orphan_of(run).into_iter().for_each(|orphan| orphan.clean().unwrap());
            empty_folder(&stamps_of(run)); // it may have been swapped since it was looked at
        }
        let whole = kept.iter().all(|file| file.exists()) && victim.join("empty").exists();
        fs::remove_file(stamps_of(linked)).unwrap();
        [stamps_of(own), stamps_of(strange), victim].iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
        assert!(whole, "root's files were removed through a link");
    }

    #[test]
    fn only_processes_of_this_user_are_ended_and_none_for_the_folder_of_a_stranger() {
        use std::os::unix::process::CommandExt;
        if !is_root() {
            return;
        }
        let run = number(4);
        let start = |user| {
            let mut command = Command::new("sleep");
            command.arg("600").uid(user).env(RUN_VARIABLE, format!("{run:016x}")).spawn().unwrap()
        };
        let (mut own, mut strange) = (start(user()), start(STRANGER));
        fs::create_dir(stamps_of(run)).unwrap();
        fs::write(stamps_of(run).join(".run"), "/nowhere").unwrap();
        std::os::unix::fs::chown(stamps_of(run), Some(STRANGER), None).unwrap();
        let of_stranger = orphan_of(run);
        std::os::unix::fs::chown(stamps_of(run), Some(user()), None).unwrap();
        let found = orphan_of(run);
        found.iter().for_each(|orphan| orphan.clean().unwrap());
        let strange_goes_on = strange.try_wait().unwrap().is_none();
        [&mut own, &mut strange].into_iter().for_each(|process| drop(process.kill()));
        let (ended, _) = (own.wait().unwrap(), strange.wait().unwrap());
        let _ = fs::remove_dir_all(stamps_of(run));
        assert_eq!(of_stranger, None);
        assert_eq!(found.unwrap().processes, [(own.id(), "sleep 600".to_owned())]);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGTERM));
        assert!(strange_goes_on, "a process of another user was ended");
    }

    #[test]
    fn a_folder_whose_file_is_a_fifo_or_endless_or_not_there_names_no_run_and_is_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("tickscope-root-{}", std::process::id()));
        let file = folder.join(".run");
        fs::create_dir(&folder).unwrap();
        assert_eq!(root_of(&folder), None);
        let name = CString::new(file.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string that ends in 0.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(root_of(&folder), None);
        fs::remove_file(&file).unwrap();
        fs::write(&file, "x".repeat(4097)).unwrap();
        assert_eq!(root_of(&folder), None);
        fs::write(&file, "/a").unwrap();
        assert_eq!(root_of(&folder).as_deref(), Some(Path::new("/a")));
        if user() == 0 {
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            assert_eq!(root_of(&folder), None, "a stranger's word");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_command_that_takes_stamps_can_be_copied_into_a_shell_whatever_a_folder_is_called() {
        let root = std::env::temp_dir().join(format!("x; touch 'y' {}", std::process::id()));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("run.json"), "").unwrap();
        let unread = vec![PathBuf::from("/dev/shm/a b/pool-1.ticks")];
        let orphan = Orphan { root: Some(root.clone()), unread, ..Orphan::default() };
        assert_eq!(orphan.remedy().unwrap(), format!("tickscope finish {}", quoted(root.display())));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(orphan.remedy().unwrap(), "tickscope collect '/dev/shm/a b' --run RUN");
    }

    #[test]
    fn a_stamp_directory_with_anything_in_it_stays_and_is_named() {
        let directory = std::env::temp_dir().join(format!("tickscope-clear-{}", std::process::id()));
        let node = NodeName::new("a").unwrap();
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("collector.lock"), "").unwrap();
        fs::write(directory.join("anything"), "stamps").unwrap();
        let left = clear(&node, &directory).unwrap().remove(0);
        assert!(left.what.starts_with("anything") && !left.held, "{left:?}");
        fs::remove_file(directory.join("anything")).unwrap();
        // A program was killed while it made its pool.
        let own = directory.join(format!("uid-{}", user()));
        fs::create_dir(&own).unwrap();
        fs::write(own.join(".pool-0000000000000001.ticks"), "").unwrap();
        assert_eq!(clear(&node, &directory).unwrap(), []);
        assert!(!directory.exists());
        assert_eq!(clear(&node, &directory).unwrap(), [], "one that is gone holds nothing");
    }
}

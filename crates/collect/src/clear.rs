//! Removal of a stamp directory, as far as nothing lies there any more.
//!
//! Assumes: whoever stored the stamps is done; nothing is read of the run. Guarantees: a pool goes only if its program
//! has ended and no block of it holds anything, so whatever a collector did not take stays, with the reason; the
//! directory goes only if it is empty. What strangers put into a directory that all may write is removed or left, and
//! told; it never counts as something that stays. Deliberately absent: force.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Acquire;

use tickscope_stamp::block::BlockState;
use tickscope_stamp::directory::{KEY_FILE, STORED_FILE, STORED_FILE_NEW, Trust, user_of};
use tickscope_stamp::handover::{self, Block};
use tickscope_store::{Error, Result};

use crate::collector::Lock;
use crate::watched_pool::{Refused, WatchedPool};

/// What became of a stamp directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cleared {
    /// Whether the directory is gone.
    pub gone: bool,
    /// Pools that were removed.
    pub removed: Vec<PathBuf>,
    /// What stays in it; sorted.
    pub stays: Vec<Stays>,
    /// What other users put there, who do not know the key.
    pub foreign: Foreign,
}

/// Files and directories of users that are strangers to the run: no stamps of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Foreign {
    /// How many were removed.
    pub removed: u64,
    /// How many could not be removed, such as a directory with something in it.
    pub left: u64,
    /// The first of them, with their owners.
    pub first: Vec<String>,
}

impl Foreign {
    fn add(&mut self, path: &Path, owner: u32, removed: bool) {
        *if removed { &mut self.removed } else { &mut self.left } += 1;
        if self.first.len() < MOST_NAMED {
            let name = path.file_name().unwrap_or_default().to_string_lossy().replace(char::is_control, "\u{fffd}");
            self.first.push(format!("{name} of user {owner}{}", if removed { "" } else { ", which stays" }));
        }
    }
}

/// Files of strangers that are named: they may make any number.
const MOST_NAMED: usize = 8;

/// Something that stays in a stamp directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stays {
    /// The file.
    pub path: PathBuf,
    /// Why it stays, to be put behind its name: "is held by process 7 (echo)".
    pub why: String,
    /// Whether it may hold stamps that no collector has stored.
    pub stamps: bool,
}

/// Refuses a directory that a collector works in, before anything is made for another.
pub fn expect_free(directory: &Path) -> Result<()> {
    let trust = Trust::of(directory).map_err(|e| Error::io(directory, "look into", e))?;
    Lock::take(&directory.join(LOCK), &trust).map(drop)
}

/// Removes the pools in `directory` whose programs have ended and of which all is stored, and the directory itself if
/// nothing is left. An error is a directory that cannot be listed, or that a collector works in.
pub fn clear(directory: &Path) -> Result<Cleared> {
    if matches!(fs::symlink_metadata(directory), Err(e) if e.kind() == ErrorKind::NotFound) {
        return Ok(Cleared { gone: true, ..Cleared::default() });
    }
    let trust = Trust::of(directory).map_err(|e| Error::io(directory, "look into", e))?;
    let held = Lock::take(&directory.join(LOCK), &trust)?;
    let mut cleared = Cleared::default();
    let users = clear_entries(directory, &trust, &mut cleared).map_err(|e| Error::io(directory, "list", e))?;
    for user in &users {
        // What another user's directory holds cannot always be seen; it stays, and the others are cleared.
        match clear_entries(user, &trust, &mut cleared) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                let why = format!("cannot be looked into: {e}");
                cleared.stays.push(Stays { path: user.clone(), why, stamps: true });
            }
            _ => {}
        }
    }
    cleared.stays.sort();
    cleared.removed.sort();
    if cleared.stays.is_empty() && cleared.foreign.left == 0 {
        cleared.gone = remove_empty(directory, &users);
    }
    drop(held);
    Ok(cleared)
}

/// Removes an empty stamp directory with its users' directories. A program may begin at any time: then it is not
/// empty, and stays.
fn remove_empty(directory: &Path, users: &[PathBuf]) -> bool {
    let is_gone = |path: &PathBuf| match fs::remove_dir(path) {
        Err(e) => e.kind() == ErrorKind::NotFound,
        Ok(()) => true,
    };
    if !users.iter().all(is_gone) {
        return false;
    }
    for name in OWN {
        let _ = fs::remove_file(directory.join(name));
    }
    fs::remove_dir(directory).is_ok()
}

/// Removes the pools in a directory that may go, and notes what stays. Returns the directories of users in it.
fn clear_entries(directory: &Path, trust: &Trust, cleared: &mut Cleared) -> std::io::Result<Vec<PathBuf>> {
    let mut users = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let found = match entry.metadata() {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            found => found?,
        };
        let is_own = !is_foreign(directory, &found, trust);
        if found.is_dir() && user_of(&name).is_some_and(|user| is_own || user == found.uid()) {
            users.push(path);
            continue;
        }
        if OWN.iter().any(|own| name == *own) {
            continue;
        }
        match reason(&path, &name.to_string_lossy(), found.is_file(), trust) {
            Some(_) if !is_own && !may_be_read(&path, found.is_file(), trust) => {
                remove_foreign(directory, &path, &found, cleared);
            }
            Some((why, stamps)) => cleared.stays.push(Stays { path, why, stamps }),
            None => match fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    let why = format!("is empty, and cannot be removed: {e}");
                    cleared.stays.push(Stays { path, why, stamps: false });
                }
                _ => cleared.removed.push(path),
            },
        }
    }
    Ok(users)
}

/// Whether something belongs to a stranger: to a user whom only the key could make known. Only a sticky directory of
/// our own that has a key can tell; in any other nothing is a stranger's.
fn is_foreign(directory: &Path, found: &fs::Metadata, trust: &Trust) -> bool {
    let own = tickscope_stamp::directory::user();
    let is_open = |place: &Path| {
        fs::symlink_metadata(place).is_ok_and(|place| place.uid() == own && place.mode() & libc::S_ISVTX != 0)
    };
    let of_a_user = directory.file_name().is_some_and(|name| user_of(name).is_some());
    let place = if of_a_user { directory.parent().unwrap_or(directory) } else { directory };
    trust.has_key() && !trust.believes(found) && is_open(place)
}

/// Whether a file is a pool that carries the key, or may be one: just now there is no room to look.
fn may_be_read(path: &Path, is_file: bool, trust: &Trust) -> bool {
    is_file && !matches!(WatchedPool::open(path, trust), Err(Refused::Foreign(_)))
}

/// Removes what a stranger put into the stamp directory itself; no link is followed, and a directory goes only if it is
/// empty. In a directory of its own, which it may replace at any moment, nothing is removed.
fn remove_foreign(directory: &Path, path: &Path, found: &fs::Metadata, cleared: &mut Cleared) {
    let of_a_user = directory.file_name().is_some_and(|name| user_of(name).is_some());
    let removed = match found.is_dir() {
        _ if of_a_user => false,
        true => fs::remove_dir(path).is_ok(),
        false => fs::remove_file(path).is_ok(),
    };
    cleared.foreign.add(path, found.uid(), removed);
}

/// The lock of a directory's collector.
pub(crate) const LOCK: &str = "collector.lock";

/// Files that go with the directory: they say nothing once no pool is there.
const OWN: [&str; 4] = [LOCK, KEY_FILE, STORED_FILE, STORED_FILE_NEW];

/// Why a file stays, and whether it may hold stamps; `None`: it is a pool that may go.
fn reason(path: &Path, name: &str, is_file: bool, trust: &Trust) -> Option<(String, bool)> {
    if !is_file {
        return Some(("is no file of tickscope's".into(), false));
    }
    if name.starts_with("refused-") {
        return Some(("says that a program could not make its pool, and was not collected".into(), false));
    }
    if name.starts_with(".pool-") {
        return Some(("is a pool that a program was making".into(), false));
    }
    if !(name.starts_with("pool-") && name.ends_with(".ticks")) {
        return Some(("is no file of tickscope's".into(), false));
    }
    let Ok(pool) = WatchedPool::open(path, trust) else {
        return Some(("is no pool that this version and user may read".into(), true));
    };
    if pool.lives() {
        return Some((format!("is held by {}", pool.process()), true));
    }
    match pool.blocks_that_hold_something() {
        0 => None,
        blocks => Some((format!("has {blocks} block(s) that were not collected"), true)),
    }
}

impl WatchedPool {
    /// Blocks that are not free, or have their header still.
    fn blocks_that_hold_something(&self) -> usize {
        let holds = |index: &u32| {
            let block = self.pool().block(*index);
            let freed = [Some(BlockState::Free), Some(BlockState::Zeroing)].contains(&handover::state(&block));
            !freed || block.magic().load(Acquire) != 0
        };
        self.present_blocks().filter(holds).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::fabricated::{Pool, full};
    use crate::scratch::Scratch;
    use crate::{Collector, Settings};
    use std::os::unix::fs::MetadataExt;
    use tickscope_tick::NodeName;

    #[test]
    fn a_directory_goes_when_all_is_stored_and_names_what_stays_before() {
        let scratch = Scratch::new();
        let directory = scratch.path().join("shm");
        fs::create_dir(&directory).unwrap();
        let mut held = Pool::make(&directory, 7, 4).live();
        let user = directory.join(format!("uid-{}", fs::metadata(&directory).unwrap().uid()));
        fs::create_dir(&user).unwrap();
        fs::write(directory.join(KEY_FILE), "").unwrap();
        let ended = Pool::make(&user, 8, 4);
        for pool in [&held, &ended] {
            pool.open_channel(0, "send", 1);
            pool.fill(0, (0, 0), "send", &full(1)[..5]);
        }
        let why = |cleared: &Cleared| cleared.stays.iter().map(|stays| stays.why.clone()).collect::<Vec<_>>();
        let cleared = clear(&directory).unwrap();
        assert_eq!(why(&cleared), ["is held by process 4242 (echo)", "has 1 block(s) that were not collected"]);
        let collect = || {
            let node = NodeName::new("host").unwrap();
            Collector::start(Settings::new(&directory, scratch.path().join("run"), node)).unwrap().once().unwrap().held
        };
        assert_eq!(collect(), 1);
        let cleared = clear(&directory).unwrap();
        assert_eq!((why(&cleared).len(), cleared.gone, cleared.stays[0].stamps), (1, false, true));
        held.kill();
        assert!(!clear(&directory).unwrap().gone, "its open block is not freed");
        assert_eq!(collect(), 0);
        assert!(clear(&directory).unwrap().gone && !directory.exists());
        assert!(clear(&directory).unwrap().gone);
    }

    #[test]
    fn a_directory_with_a_stranger_in_it_or_a_collector_at_work_stays() {
        let scratch = Scratch::new();
        let directory = scratch.path().join("shm");
        fs::create_dir(&directory).unwrap();
        let node = NodeName::new("host").unwrap();
        let collector = Collector::start(Settings::new(&directory, scratch.path().join("run"), node)).unwrap();
        assert!(clear(&directory).unwrap_err().is_busy());
        drop(collector);
        fs::create_dir(directory.join("pool-x.ticks")).unwrap();
        fs::write(directory.join("notes"), "mine").unwrap();
        let cleared = clear(&directory).unwrap();
        assert!(!cleared.gone && cleared.stays.len() == 2 && directory.join("notes").exists());
    }
}

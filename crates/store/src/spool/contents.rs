//! What lies in a spool: an index that is brought up to date at the cost of what is new.
//!
//! Idea: parts of a folder are numbered and written in that order, none is written again once it has a successor, and
//! what a window removes goes from the front. So a look at a folder asks for its first part, its last one and the one
//! after that, however many receipts lie there; its names are listed only where the first one is gone. The other tables
//! are listed where their folder has changed, and of their files only those are asked for that are another file now.
//!
//! Assumes: parts are renamed to their names, as every table is. Guarantees: what is kept in memory are files that were
//! not made receipts yet, and one row a folder; a look that finds nothing new does not grow it. Deliberately absent:
//! reading any file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tickscope_tick::NodeName;

use crate::error::Error;
use crate::parcel::{Version, expect_path};
use crate::stamps::part_number;

/// Tables whose files are numbered parts, and how many folders lie above them.
const PARTS: [(&str, u32); 5] = [("stamps", 2), ("brackets", 2), ("counts", 1), ("rivals", 1), ("returns", 1)];
/// The others; what the window removed is told before the counts that it is missing from.
const TABLES: [&str; 3] = ["removed", "channels", "events"];
/// A folder that changed as lately may change again without another time.
const SETTLES: Duration = Duration::from_secs(1);

/// The index.
#[derive(Debug)]
pub(super) struct Contents {
    root: PathBuf,
    nodes: Vec<NodeName>,
    /// By path in the run.
    files: BTreeMap<String, Listed>,
    /// Those that are to be fetched, the oldest first.
    queue: BTreeSet<(i64, String)>,
    /// By folder.
    parts: BTreeMap<String, Parts>,
    /// By folder: when it changed last, where that is long enough ago to tell.
    settled: BTreeMap<&'static str, (i64, i64)>,
    bytes: u64,
    /// Events that were stored and withdrawn: of losses that were counted anew after a kill.
    gone: BTreeMap<String, Version>,
    /// Parts that were stored and have got a successor since.
    superseded: Vec<String>,
    /// What could not be looked at.
    failed: Vec<(String, Error)>,
    /// How often the file system was asked about a file, and how many names it listed.
    asked: u64,
}

/// A file.
#[derive(Debug)]
pub(super) struct Listed {
    /// What it is now.
    pub version: Version,
    /// What the run has of it, and since when.
    pub stored: Option<(Version, Instant)>,
    /// Digest of that version.
    pub digest: Option<String>,
    /// What of it cannot be fetched.
    aside: Option<Version>,
    /// It was another file before, under this name.
    rewritten: bool,
}

/// The parts of a folder.
#[derive(Clone, Copy, Debug)]
struct Parts {
    first: u64,
    last: u64,
    receipts: u64,
    receipt_bytes: u64,
}

impl Contents {
    pub fn new(root: PathBuf, nodes: Vec<NodeName>) -> Self {
        Self {
            root,
            nodes,
            files: BTreeMap::new(),
            queue: BTreeSet::new(),
            parts: BTreeMap::new(),
            settled: BTreeMap::new(),
            bytes: 0,
            gone: BTreeMap::new(),
            superseded: Vec::new(),
            failed: Vec::new(),
            asked: 0,
        }
    }

    /// Takes in what is new. `whole`: lists every name, whatever seems to have changed.
    pub fn look(&mut self, whole: bool) {
        for table in TABLES {
            self.look_at_table(table, whole);
        }
        for (table, depth) in PARTS {
            for folder in self.folders_below(table, depth) {
                self.look_at_parts(&folder, whole);
            }
        }
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.parts.values().fold(self.bytes, |sum, parts| sum.saturating_add(parts.receipt_bytes))
    }

    /// The next file to fetch after `before`, the oldest first.
    pub fn next(&self, before: Option<&(i64, String)>) -> Option<&(i64, String)> {
        let start = before.map_or(Bound::Unbounded, Bound::Excluded);
        self.queue.range::<(i64, String), _>((start, Bound::Unbounded)).next()
    }

    pub fn file(&mut self, path: &str) -> Option<&mut Listed> {
        self.files.get_mut(path)
    }

    /// Returns whether the file may still grow.
    pub fn grows(&self, path: &str) -> bool {
        match part_of(path) {
            Some((folder, number)) => self.parts.get(folder).is_none_or(|parts| number >= parts.last),
            None => path.starts_with("channels/"),
        }
    }

    /// Returns whether some file is not fetched as it is now.
    pub fn sets_aside(&self) -> bool {
        self.files.values().any(|file| file.aside == Some(file.version))
    }

    /// Events that were withdrawn.
    pub fn gone(&self) -> impl Iterator<Item = (&String, &Version)> {
        self.gone.iter()
    }

    /// The run has withdrawn it, too.
    pub fn forget_gone(&mut self, path: &str) {
        self.gone.remove(path);
    }

    /// What could not be looked at since this was asked for last.
    pub fn take_failed(&mut self) -> Vec<(String, Error)> {
        std::mem::take(&mut self.failed)
    }

    /// Stored parts that got a successor since this was asked for last.
    pub fn take_superseded(&mut self) -> Vec<String> {
        std::mem::take(&mut self.superseded)
    }

    /// The run has stored this version.
    pub fn store(&mut self, path: &str, version: Version) {
        if let Some(file) = self.files.get_mut(path) {
            file.stored = Some((version, Instant::now()));
            if file.version == version {
                self.queue.remove(&(order_of(path, version), path.into()));
            }
        }
    }

    /// This version is not fetched: it is not asked for again until it changes, or [`Contents::try_again`].
    pub fn set_aside(&mut self, path: &str) {
        if let Some(file) = self.files.get_mut(path) {
            file.aside = Some(file.version);
            self.queue.remove(&(order_of(path, file.version), path.into()));
        }
    }

    pub fn try_again(&mut self, path: &str) {
        let Some(file) = self.files.get_mut(path) else { return };
        if file.aside.take().is_some() {
            self.queue.insert((order_of(path, file.version), path.into()));
        }
    }

    /// It is a receipt of so many bytes now.
    pub fn finish(&mut self, path: &str, bytes: u64) {
        self.forget(path);
        if let Some(parts) = part_of(path).and_then(|(folder, _)| self.parts.get_mut(folder)) {
            (parts.receipts, parts.receipt_bytes) = (parts.receipts + 1, parts.receipt_bytes + bytes);
        }
    }

    fn forget(&mut self, path: &str) -> Option<Listed> {
        let file = self.files.remove(path)?;
        self.queue.remove(&(order_of(path, file.version), path.into()));
        self.bytes = self.bytes.saturating_sub(file.version.bytes);
        Some(file)
    }

    fn look_at_parts(&mut self, folder: &str, whole: bool) {
        match self.parts.get(folder).copied() {
            Some(parts) if !whole && self.is_there(&part(folder, parts.first)) => self.look_at_last(folder, parts),
            _ => self.list_parts(folder, whole),
        }
    }

    fn look_at_last(&mut self, folder: &str, before: Parts) {
        self.ask(&part(folder, before.last));
        let mut last = before.last;
        while self.ask(&part(folder, last + 1)) {
            last += 1;
        }
        if last == before.last {
            return;
        }
        if let Some(parts) = self.parts.get_mut(folder) {
            parts.last = last;
        }
        self.supersede(part(folder, before.last));
    }

    /// Takes in that a part has got a successor.
    fn supersede(&mut self, path: String) {
        self.ask(&path); // it may have grown just before
        let is_stored = |file: &Listed| file.stored.is_some_and(|(version, _)| version == file.version);
        if self.files.get(&path).is_some_and(is_stored) {
            self.superseded.push(path);
        }
    }

    /// Takes in all names of a folder: one that is new, or that the window has removed parts of.
    fn list_parts(&mut self, folder: &str, whole: bool) {
        let Some(entries) = self.list(folder) else { return };
        let numbers: BTreeSet<u64> = entries.iter().filter_map(|(path, _)| Some(part_of(path)?.1)).collect();
        let stale = |(path, _): (&String, &Listed)| {
            part_of(path).is_none_or(|(_, number)| !numbers.contains(&number)).then(|| path.clone())
        };
        let stale: Vec<String> = self.in_folder(folder).filter_map(stale).collect();
        stale.iter().for_each(|path| drop(self.forget(path)));
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
            self.parts.remove(folder);
            return;
        };
        let before = self.parts.get(folder).copied();
        let finished = (numbers.len() - self.in_folder(folder).count()) as u64;
        // More than became receipts: some part has not been seen yet.
        let unseen = before.is_none_or(|before| whole && finished > before.receipts);
        for &number in &numbers {
            if unseen || before.is_some_and(|before| number >= before.last) {
                self.ask(&part(folder, number));
            }
        }
        let (receipts, receipt_bytes) = match before {
            Some(Parts { receipts, receipt_bytes, .. }) if !unseen && receipts > 0 => {
                let left = (numbers.len() - self.in_folder(folder).count()) as u64;
                (left, receipt_bytes / receipts * left)
            }
            _ => (0, 0),
        };
        self.parts.insert(folder.into(), Parts { first, last, receipts, receipt_bytes });
        if let Some(before) = before.filter(|before| before.last < last) {
            self.supersede(part(folder, before.last));
        }
    }

    fn look_at_table(&mut self, folder: &'static str, whole: bool) {
        self.asked += 1;
        let Ok(found) = fs::symlink_metadata(self.root.join(folder)) else { return };
        let changed = (found.mtime(), found.mtime_nsec());
        if !whole && self.settled.get(folder) == Some(&changed) {
            return;
        }
        let Some(entries) = self.list(folder) else { return };
        let names: BTreeSet<&String> = entries.iter().map(|(path, _)| path).collect();
        let stale = |(path, _): (&String, &Listed)| (!names.contains(path)).then(|| path.clone());
        for path in self.in_folder(folder).filter_map(stale).collect::<Vec<_>>() {
            if let Some(Listed { stored: Some((version, _)), .. }) = self.forget(&path)
                && folder == "events"
            {
                self.gone.insert(path, version);
            }
        }
        for (path, inode) in &entries {
            self.gone.remove(path);
            let is_same = |file: &Listed| file.version.inode == *inode && !file.rewritten;
            if whole || !self.files.get(path).is_some_and(is_same) {
                self.ask(path);
            }
        }
        let is_long_ago = found
            .modified()
            .is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age > SETTLES));
        match is_long_ago {
            true => drop(self.settled.insert(folder, changed)),
            false => drop(self.settled.remove(folder)),
        }
    }

    /// Paths of the files in a folder that travel, with their inodes; `None`: there is none, or it cannot be listed.
    fn list(&mut self, folder: &str) -> Option<Vec<(String, u64)>> {
        let place = self.root.join(folder);
        let listed = || fs::read_dir(&place)?.collect::<io::Result<Vec<DirEntry>>>();
        let entries = match listed() {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => {
                self.failed.push((folder.into(), Error::io(&place, "list", e)));
                return None;
            }
        };
        self.asked += entries.len() as u64;
        let path = |entry: &DirEntry| Some((format!("{folder}/{}", entry.file_name().to_str()?), entry.ino()));
        Some(entries.iter().filter_map(path).filter(|(path, _)| expect_path(path, &self.nodes).is_ok()).collect())
    }

    fn in_folder(&self, folder: &str) -> impl Iterator<Item = (&String, &Listed)> {
        let start = format!("{folder}/");
        self.files.range(start.clone()..).take_while(move |(path, _)| path.starts_with(&start))
    }

    fn is_there(&mut self, path: &str) -> bool {
        self.asked += 1;
        fs::symlink_metadata(self.root.join(path)).is_ok()
    }

    /// Asks what a file is now; false where there is none.
    fn ask(&mut self, path: &str) -> bool {
        self.asked += 1;
        let place = self.root.join(path);
        let unfit = || io::Error::new(io::ErrorKind::InvalidInput, "it is no ordinary file");
        let found =
            fs::symlink_metadata(&place).and_then(|found| if found.is_file() { Ok(found) } else { Err(unfit()) });
        match found {
            Ok(found) => {
                self.note(path, Version::of_metadata(&found));
                true
            }
            Err(e) => {
                self.forget(path);
                if e.kind() != io::ErrorKind::NotFound {
                    self.failed.push((path.into(), Error::io(&place, "look at", e)));
                }
                false
            }
        }
    }

    fn note(&mut self, path: &str, version: Version) {
        let before = self.forget(path);
        let new = || Listed { version, stored: None, digest: None, aside: None, rewritten: false };
        let mut file = match before {
            None => new(),
            Some(file) if file.version == version => file,
            Some(file) => Listed { stored: file.stored, rewritten: true, ..new() },
        };
        file.version = version;
        self.bytes = self.bytes.saturating_add(version.bytes);
        if file.stored.is_none_or(|(stored, _)| stored != version) && file.aside != Some(version) {
            self.queue.insert((order_of(path, version), path.into()));
        }
        self.files.insert(path.into(), file);
    }

    /// Folders so deep below a table, as paths in the run; links are none.
    fn folders_below(&mut self, table: &str, depth: u32) -> Vec<String> {
        let mut folders = vec![table.to_owned()];
        for _ in 0..depth {
            let mut below = Vec::new();
            for folder in &folders {
                match subfolders(&self.root.join(folder)) {
                    Ok(names) => below.extend(names.into_iter().map(|name| format!("{folder}/{name}"))),
                    Err(why) => self.failed.push((folder.clone(), why)),
                }
            }
            folders = below;
        }
        folders
    }

    #[cfg(test)]
    pub fn asked(&self) -> u64 {
        self.asked
    }

    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.files.len() + self.queue.len() + self.gone.len() + self.superseded.len() + self.failed.len()
    }
}

/// A part's path.
fn part(folder: &str, number: u64) -> String {
    format!("{folder}/part-{number:08}.parquet")
}

/// The folder and the number of a part.
pub(super) fn part_of(path: &str) -> Option<(&str, u64)> {
    Some((path.rsplit_once('/')?.0, part_number(Path::new(path))?))
}

/// The place in the queue: what the window removed is told before the counts that it is missing from.
fn order_of(path: &str, version: Version) -> i64 {
    if path.starts_with("removed/") { i64::MIN } else { version.changed_ns }
}

/// Names of the folders in a folder.
fn subfolders(folder: &Path) -> Result<Vec<String>, Error> {
    let listing = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|e| Error::io(folder, "list", e))?,
    };
    let is_folder = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut names: Vec<String> =
        listing.flatten().filter(is_folder).filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

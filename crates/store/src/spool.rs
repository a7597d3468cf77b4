//! A spool: a directory laid out like a run on another machine, whose files are fetched into the run, each once.
//!
//! Who fetches asks which files are new ([`Spool::pending`]), takes each in pieces, stores it under its name in the run
//! ([`Intake`]), and then says so ([`Spool::acknowledge`]): only then may the spool forget what is in it. A file that
//! grows is fetched again, whole, under the same name; a transfer that broke off is made again: neither can count a
//! stamp twice, for a name of the run comes from one name of the spool alone.
//!
//! What was acknowledged and will not grow any more becomes a receipt: the same file without rows, but with the footer
//! that says which blocks it held. So a collector that is started again on the node knows what is stored, and gives no
//! number twice. A receipt takes some hundred bytes.
//!
//! Assumes: one fetcher at a time; a segment with a successor is not written again (the collector's way). Guarantees:
//! no file outside the folders of tables and of the agent's own nodes is read there or written here, whatever a peer
//! says; nothing is visible in the run before its digest was found right. Deliberately absent: the way the pieces take.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickscope_tick::{Label, NodeName, PointName};

use crate::brackets::{BracketColumns, read_brackets, write_brackets};
use crate::digests::Digest;
use crate::error::{Error, Result};
use crate::removed::{open_unless_removed, sweep_removed};
use crate::stamps::{Segment, StampColumns, part_number, write_segment};
use crate::whole_file::{WholeFile, files_in, open_regular};

/// A file that waits in a spool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// Its path in the run, with `/` between its folders.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// Digest of them, 32 hexadecimal digits; empty: the file is gone, and goes from the run, too.
    pub digest: String,
    /// What it was when it was listed.
    version: Version,
}

/// One writing of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
struct Version {
    inode: u64,
    bytes: u64,
    changed_ns: i64,
}

/// Bytes of a file that is fetched: more than any segment has.
const FILE_MOST_BYTES: u64 = 8 << 30;
/// Characters of a path.
const PATH_MOST: usize = 1024;
/// How often a file that grows is fetched.
const GROWING_EVERY: Duration = Duration::from_secs(2);
/// What a spool is told by to take no more: its collector waits then, as for a full disk.
const HOLD: &str = ".hold";

impl Parcel {
    /// Returns whether the file is gone.
    pub fn is_gone(&self) -> bool {
        self.digest.is_empty()
    }
}

impl Version {
    fn of(file: &File) -> std::io::Result<Self> {
        let found = file.metadata()?;
        let changed_ns = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        Ok(Self { inode: found.ino(), bytes: found.size(), changed_ns })
    }
}

/// The sending end.
#[derive(Debug)]
pub struct Spool {
    root: PathBuf,
    nodes: Vec<NodeName>,
    limit: u64,
    /// What was stored in the run, and when.
    stored: BTreeMap<String, (Version, Instant)>,
    /// Digests of what was listed and not stored yet.
    listed: BTreeMap<String, Parcel>,
}

impl Spool {
    /// The spool in `root` of these nodes. `limit`: bytes beyond which its collectors are to wait.
    pub fn new(root: impl Into<PathBuf>, nodes: Vec<NodeName>, limit: u64) -> Self {
        Self { root: root.into(), nodes, limit, stored: BTreeMap::new(), listed: BTreeMap::new() }
    }

    /// Up to `most` files that are new or have changed, the oldest first. `all`: files that grow too, each time.
    pub fn pending(&mut self, most: usize, all: bool) -> Result<Vec<Parcel>> {
        let (mut waiting, mut parcels, mut bytes) = (Vec::new(), Vec::new(), 0);
        for folder in self.folders()? {
            let files = files_in(&folder, "parquet")?;
            let last = files.last().cloned();
            for place in files {
                let Some((path, version)) = self.name_of(&place) else { continue };
                bytes += version.bytes;
                let known = self.stored.get(&path);
                let recent = known.is_some_and(|(_, stored)| stored.elapsed() < GROWING_EVERY);
                let grows = last.as_ref() == Some(&place);
                if known.is_some_and(|(known, _)| *known == version) || (grows && recent && !all) {
                    continue;
                }
                // What the window removed is told before the counts that it is missing from.
                let first = if path.starts_with("removed/") { i64::MIN } else { version.changed_ns };
                waiting.push((first, path, version));
            }
        }
        self.hold(bytes)?;
        parcels.extend(self.gone());
        waiting.sort();
        waiting.truncate(most);
        for (_, path, version) in waiting {
            if let Some(parcel) = self.parcel(path, version)? {
                parcels.push(parcel);
            }
        }
        Ok(parcels)
    }

    /// Events that were stored and withdrawn: of losses that were counted anew after a kill.
    fn gone(&self) -> impl Iterator<Item = Parcel> {
        let gone = |(path, _): &(&String, _)| path.starts_with("events/") && !self.root.join(path).exists();
        self.stored.iter().filter(gone).map(|(path, (version, _))| Parcel {
            path: path.clone(),
            bytes: 0,
            digest: String::new(),
            version: *version,
        })
    }

    /// Folders whose files travel.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders = ["removed", "channels", "events"].map(|table| self.root.join(table)).to_vec();
        for table in ["stamps", "brackets", "rivals"] {
            for (_, outer) in subfolders(&self.root.join(table))? {
                folders.push(outer.clone());
                folders.extend(subfolders(&outer)?.into_iter().map(|(_, inner)| inner));
            }
        }
        Ok(folders)
    }

    /// The path of a file of this spool's nodes, and what it is now; `None`: it does not travel, or is gone.
    fn name_of(&self, place: &Path) -> Option<(String, Version)> {
        let path = place.strip_prefix(&self.root).ok()?.to_str()?.to_owned();
        expect_path(&path, &self.nodes).ok()?;
        let version = Version::of(&open_regular(place).ok()?).ok()?;
        Some((path, version))
    }

    /// With its digest; `None`: it is a receipt, or was replaced just now.
    fn parcel(&mut self, path: String, version: Version) -> Result<Option<Parcel>> {
        if let Some(known) = self.listed.get(&path).filter(|known| known.version == version) {
            return Ok(Some(known.clone()));
        }
        let place = self.root.join(&path);
        if is_receipt(&path, &place) {
            self.stored.insert(path, (version, Instant::now()));
            return Ok(None);
        }
        let Ok(file) = open_regular(&place) else { return Ok(None) };
        let digest = digest_of(&file, version.bytes).map_err(|e| Error::io(&place, "read", e))?;
        if Version::of(&file).ok() != Some(version) {
            return Ok(None);
        }
        let parcel = Parcel { path: path.clone(), bytes: version.bytes, digest, version };
        self.listed.insert(path, parcel.clone());
        Ok(Some(parcel))
    }

    /// Bytes of a file from `offset`, at most `most`; an error if it is not any more what was listed.
    pub fn piece(&self, parcel: &Parcel, offset: u64, most: usize) -> Result<Vec<u8>> {
        let place = self.root.join(&parcel.path);
        expect_path(&parcel.path, &self.nodes).map_err(|why| refused(&place, why))?;
        let file = open_regular(&place).map_err(|e| Error::io(&place, "open", e))?;
        let read = |file: &File| -> std::io::Result<Option<Vec<u8>>> {
            if Version::of(file)? != parcel.version {
                return Ok(None);
            }
            let left = usize::try_from(parcel.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
            let mut bytes = vec![0; left.min(most)];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(Some(bytes))
        };
        let found = read(&file).map_err(|e| Error::io(&place, "read", e))?;
        found.ok_or_else(|| refused(&place, "it was replaced meanwhile"))
    }

    /// The run has stored it. What will not grow any more becomes a receipt.
    pub fn acknowledge(&mut self, parcel: &Parcel) -> Result<()> {
        let place = self.root.join(&parcel.path);
        expect_path(&parcel.path, &self.nodes).map_err(|why| refused(&place, why))?;
        self.listed.remove(&parcel.path);
        if parcel.is_gone() {
            self.stored.remove(&parcel.path);
            return Ok(());
        }
        self.stored.insert(parcel.path.clone(), (parcel.version, Instant::now()));
        let folder = place.parent().unwrap_or(&self.root);
        let is_part = part_number(&place).is_some();
        if !is_part || files_in(folder, "parquet")?.last() == Some(&place) {
            return Ok(());
        }
        let now = open_regular(&place).and_then(|file| Version::of(&file));
        if now.ok() == Some(parcel.version) {
            self.make_receipt(&parcel.path, &place)?;
        }
        Ok(())
    }

    fn make_receipt(&mut self, path: &str, place: &Path) -> Result<()> {
        if path.starts_with("stamps/") {
            let Some(segment) = open_unless_removed(place) else { return Ok(()) };
            let origin = segment?.origin()?;
            let mut none = StampColumns::default();
            none.fill_with_nulls();
            write_segment(place, &none, &origin)?;
        } else if path.starts_with("brackets/") {
            write_brackets(place, &BracketColumns::default())?;
        } else {
            return Ok(());
        }
        let version = open_regular(place).and_then(|file| Version::of(&file));
        let version = version.map_err(|e| Error::io(place, "look at", e))?;
        self.stored.insert(path.into(), (version, Instant::now()));
        Ok(())
    }

    /// Tells collectors to wait, or to go on.
    fn hold(&self, bytes: u64) -> Result<()> {
        let place = self.root.join(HOLD);
        if bytes <= self.limit {
            return self.release();
        }
        match place.exists() {
            true => Ok(()),
            false => fs::write(&place, "").map_err(|e| Error::io(&place, "write", e)),
        }
    }

    /// Lets collectors go on, for they are about to end.
    pub fn release(&self) -> Result<()> {
        let place = self.root.join(HOLD);
        match fs::remove_file(&place) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&place, "remove", e)),
            _ => Ok(()),
        }
    }

    /// Returns whether the collectors of the spool or run at `root` are to wait.
    pub fn is_held(root: &Path) -> bool {
        root.join(HOLD).exists()
    }
}

/// A file that was stored in the run and emptied here.
fn is_receipt(path: &str, place: &Path) -> bool {
    if path.starts_with("stamps/") {
        let Ok(segment) = Segment::open(place) else { return false };
        return segment.is_empty()
            && segment.origin().is_ok_and(|origin| origin.counts.iter().any(|count| count.stored > 0));
    }
    path.starts_with("brackets/") && read_brackets(place).is_ok_and(|brackets| brackets.is_empty())
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct Intake {
    root: PathBuf,
    nodes: Vec<NodeName>,
}

/// A file that is being received; gone again unless it is finished.
pub struct Receiving {
    parcel: Parcel,
    root: PathBuf,
    whole: WholeFile,
    place: PathBuf,
    received: u64,
    digest: Digest,
}

impl Intake {
    /// Files of these nodes go to the run in `root`.
    pub fn new(root: impl Into<PathBuf>, nodes: Vec<NodeName>) -> Self {
        Self { root: root.into(), nodes }
    }

    /// Removes a file that is gone.
    pub fn remove(&self, parcel: &Parcel) -> Result<()> {
        let place = self.place_of(parcel)?;
        if !parcel.path.starts_with("events/") {
            return Err(refused(&place, "only events are withdrawn"));
        }
        match fs::remove_file(&place) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&place, "remove", e)),
            _ => Ok(()),
        }
    }

    /// Begins a file. Nothing is written where it must not be.
    pub fn begin(&self, parcel: &Parcel) -> Result<Receiving> {
        let place = self.place_of(parcel)?;
        let whole = WholeFile::begin(&place)?;
        let root = self.root.clone();
        Ok(Receiving { parcel: parcel.clone(), root, whole, place, received: 0, digest: Digest::default() })
    }
}

impl Intake {
    /// Where a parcel goes, if it may.
    fn place_of(&self, parcel: &Parcel) -> Result<PathBuf> {
        let shown = Path::new(&parcel.path);
        expect_path(&parcel.path, &self.nodes).map_err(|why| refused(shown, why))?;
        if parcel.bytes > FILE_MOST_BYTES {
            return Err(refused(shown, "it claims more bytes than any file of a run has"));
        }
        let place = self.root.join(&parcel.path);
        for folder in place.ancestors().skip(1).take_while(|folder| *folder != self.root) {
            // Also of a folder that is not there yet: it is made below the one that is.
            if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
                return Err(refused(&place, "a folder on its way is none"));
            }
        }
        Ok(place)
    }
}

impl Receiving {
    /// Where the next piece begins; `None`: all of it is there.
    pub fn next(&self) -> Option<u64> {
        (self.received < self.parcel.bytes).then_some(self.received)
    }

    /// Takes the next piece.
    pub fn piece(&mut self, bytes: &[u8]) -> Result<()> {
        let received = self.received + bytes.len() as u64;
        if bytes.is_empty() || received > self.parcel.bytes {
            return Err(refused(&self.place, "its pieces are not what was said"));
        }
        self.whole.file().write_all(bytes).map_err(|e| Error::io(&self.place, "write", e))?;
        self.digest.write(bytes);
        self.received = received;
        Ok(())
    }

    /// Gives it its name in the run.
    pub fn finish(self) -> Result<()> {
        if self.next().is_some() || hexadecimal(&self.digest) != self.parcel.digest {
            return Err(refused(&self.place, "its bytes are not those that were said"));
        }
        self.whole.finish()?;
        // The node has removed what the note tells of; here it goes once the note is here.
        match self.parcel.path.strip_prefix("removed/node=").and_then(|file| file.strip_suffix(".parquet")) {
            Some(node) => sweep_removed(&self.root, node).map(drop),
            None => Ok(()),
        }
    }
}

/// Refuses every path but those of tables of these nodes.
fn expect_path(path: &str, nodes: &[NodeName]) -> std::result::Result<(), &'static str> {
    let own = |name: &str| nodes.iter().any(|node| node.as_str() == name);
    let part = |file: &str| {
        let digits = file.strip_prefix("part-").and_then(|rest| rest.strip_suffix(".parquet"));
        digits
            .is_some_and(|digits| digits.len() >= 8 && digits.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let label = |text: &str| text.parse::<Label>().ok();
    let fits = path.len() <= PATH_MOST
        && match path.split('/').collect::<Vec<_>>()[..] {
            ["stamps", node, point, file] => {
                node.strip_prefix("node=").is_some_and(own)
                    && point.strip_prefix("point=").is_some_and(|point| PointName::new(point).is_ok())
                    && part(file)
            }
            ["rivals", node, file] => node.strip_prefix("node=").is_some_and(own) && part(file),
            ["channels" | "removed", file] => {
                file.strip_prefix("node=").and_then(|rest| rest.strip_suffix(".parquet")).is_some_and(own)
            }
            ["events", file] => {
                let words = file.strip_suffix(".parquet").and_then(|stem| stem.split_once('+'));
                words.is_some_and(|(node, rest)| own(node) && !rest.is_empty() && rest.chars().all(is_plain))
            }
            ["brackets", reference, domain, file] => {
                let reference = reference.strip_prefix("reference=").and_then(label);
                let domain = domain.strip_prefix("domain=").and_then(label);
                reference.is_some_and(|label| own(label.node.as_str())) && domain.is_some() && part(file)
            }
            _ => false,
        };
    if fits { Ok(()) } else { Err("it is no table of that agent's nodes") }
}

/// What names of events have.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+-_.".contains(letter)
}

fn refused(place: &Path, why: &str) -> Error {
    Error::corrupt(place, "a file of a node's spool", why)
}

fn digest_of(file: &File, bytes: u64) -> std::io::Result<String> {
    let (mut digest, mut buffer, mut offset) = (Digest::default(), vec![0; 1 << 20], 0);
    while offset < bytes {
        let piece = buffer.len().min((bytes - offset) as usize);
        file.read_exact_at(&mut buffer[..piece], offset)?;
        digest.write(&buffer[..piece]);
        offset += piece as u64;
    }
    Ok(hexadecimal(&digest))
}

fn hexadecimal(digest: &Digest) -> String {
    format!("{:032x}", digest.finish_128())
}

/// Folders in a folder, no links, in the order of their names.
fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let listing = match fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|e| Error::io(folder, "list", e))?,
    };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<_> = listing
        .flatten()
        .filter(is_folder)
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::removed::RemovedNote;
    use crate::run::Paths;
    use crate::scratch::Scratch;
    use crate::stamps::{ChannelCount, Origin, PointStamps, next_segment};

    fn node() -> Vec<NodeName> {
        vec![NodeName::new("n").unwrap()]
    }

    fn segment(spool: &Path, stamps: std::ops::Range<i64>) -> PathBuf {
        let place = next_segment(&spool.join("stamps/node=n/point=p")).unwrap();
        let mut origin = Origin::default();
        origin.add((7, 1), stamps.start as u32);
        origin.counts = vec![ChannelCount { channel: 1, stored: stamps.clone().count() as u64, uncommitted: 0 }];
        let ids: Vec<i64> = stamps.collect();
        write_segment(&place, &StampColumns::slim(ids.clone(), ids.clone(), vec![1; ids.len()]), &origin).unwrap();
        place
    }

    /// Fetches all that is new; `most`: bytes of a piece.
    fn fetch(spool: &mut Spool, intake: &Intake, most: usize) -> usize {
        let parcels = spool.pending(100, true).unwrap();
        for parcel in &parcels {
            if parcel.is_gone() {
                intake.remove(parcel).unwrap();
            } else {
                let mut receiving = intake.begin(parcel).unwrap();
                while let Some(offset) = receiving.next() {
                    receiving.piece(&spool.piece(parcel, offset, most).unwrap()).unwrap();
                }
                receiving.finish().unwrap();
            }
            spool.acknowledge(parcel).unwrap();
        }
        parcels.len()
    }

    #[test]
    fn each_segment_is_fetched_once_and_what_has_a_successor_becomes_a_receipt() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        let first = segment(&there, 0..1000);
        assert_eq!(fetch(&mut spool, &intake, 100), 1);
        assert_eq!(fetch(&mut spool, &intake, 100), 0);
        assert_eq!(Segment::open(&first).unwrap().len(), 1000, "it may still grow");
        segment(&there, 1000..1500);
        segment(&there, 1500..1600);
        assert_eq!(fetch(&mut spool, &intake, 1 << 20), 2);
        let second = there.join("stamps/node=n/point=p/part-00000001.parquet");
        let receipt = Segment::open(&second).unwrap();
        assert_eq!((receipt.len(), receipt.origin().unwrap().counts[0].stored), (0, 500));
        assert_eq!(receipt.origin().unwrap().blocks[0].first, 1000);
        // Another agent takes over: it fetches no receipt, and what lies there whole again under its name.
        let mut again = Spool::new(&there, node(), u64::MAX);
        assert_eq!(fetch(&mut again, &intake, 1 << 20), 2);
        let stored = PointStamps::open(&here.join("stamps/node=n/point=p")).unwrap();
        assert_eq!((stored.len(), stored.segments().len(), stored.refused().len()), (1600, 3, 0));
    }

    #[test]
    fn what_the_window_removed_there_goes_here_once_its_note_has_come_and_not_before() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        let places: Vec<_> = (0..3).map(|part| segment(&there, part * 10..part * 10 + 10)).collect();
        assert_eq!(fetch(&mut spool, &intake, 1 << 20), 3);
        let mut note = RemovedNote::default();
        for (number, place) in places.iter().take(2).enumerate() {
            let origin = Segment::open(place).unwrap().origin().unwrap();
            assert_eq!(origin.counts[0].stored, 10, "a receipt tells what it held");
            note.add(&PointName::new("p").unwrap(), number as u64, &origin);
        }
        note.write(&Paths::of(&there).removed("n")).unwrap();
        places.iter().take(2).for_each(|place| std::fs::remove_file(place).unwrap());
        let folder = here.join("stamps/node=n/point=p");
        assert_eq!(files_in(&folder, "parquet").unwrap().len(), 3);
        segment(&there, 30..40);
        let parcels = spool.pending(100, true).unwrap();
        assert!(parcels[0].path.starts_with("removed/"), "before the counts that it belongs to: {parcels:?}");
        assert_eq!(fetch(&mut spool, &intake, 1 << 20), 2);
        let stored = PointStamps::open(&folder).unwrap();
        assert_eq!((stored.len(), stored.removed_of(1), stored.segments().len()), (20, 20, 2));
        assert_eq!(files_in(&folder, "parquet").unwrap().len(), 2);
    }

    #[test]
    fn a_segment_that_grew_while_it_was_fetched_is_fetched_again() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        let place = segment(&there, 0..10);
        let parcel = spool.pending(1, true).unwrap().remove(0);
        std::fs::remove_file(&place).unwrap();
        segment(&there, 0..20);
        assert!(spool.piece(&parcel, 0, 1 << 20).unwrap_err().to_string().contains("replaced"));
        spool.acknowledge(&parcel).unwrap();
        assert_eq!(fetch(&mut spool, &intake, 1 << 20), 1);
        assert_eq!(PointStamps::open(&here.join("stamps/node=n/point=p")).unwrap().len(), 20);
    }

    #[test]
    fn what_is_no_table_of_the_agents_nodes_is_refused_and_nothing_is_written() {
        let scratch = Scratch::new();
        let intake = Intake::new(scratch.path().join("run"), node());
        let version = Version { inode: 1, bytes: 1, changed_ns: 1 };
        let refused = |path: &str, bytes| {
            let parcel = Parcel { path: path.into(), bytes, digest: "0".repeat(32), version };
            assert!(intake.begin(&parcel).is_err(), "{path} {bytes}");
            assert!(intake.remove(&parcel).is_err() || path.starts_with("events/n+"), "{path} {bytes}");
        };
        let good = "stamps/node=n/point=p/part-00000000.parquet";
        for path in [
            "",
            "/",
            "..",
            "run.json",
            "/etc/passwd",
            "../stamps/node=n/point=p/part-00000000.parquet",
            "stamps/node=n/point=../part-00000000.parquet",
            "stamps/node=n/../part-00000000.parquet",
            "stamps/node=m/point=p/part-00000000.parquet",
            "stamps/node=n/point=p/part-0.parquet",
            "stamps/node=n/point=p/.part-00000000.parquet",
            "stamps/node=n/point=p/part-0000000\0.parquet",
            "stamps/node=n/point=p/part-000000000000000000000000.parquet",
            "stamps//node=n/point=p/part-00000000.parquet",
            "events/run.parquet",
            "events/m+lost.parquet",
            "events/n+../x.parquet",
            "events/n+.parquet",
            "events/n+\n.parquet",
            "channels/node=m.parquet",
            "channels/n.parquet",
            "brackets/reference=m.tsc/domain=n.tsc/part-00000000.parquet",
            "brackets/reference=n.tsc/domain=../part-00000000.parquet",
            "traces/part-00000000.parquet",
            "report.html",
            "stamps/node=n/point=p/part-00000000.parquet/",
            "./stamps/node=n/point=p/part-00000000.parquet",
        ] {
            refused(path, 1);
        }
        refused(&format!("events/n+{}.parquet", "x".repeat(PATH_MOST)), 1);
        for bytes in [FILE_MOST_BYTES + 1, 1 << 63, u64::MAX] {
            refused(good, bytes);
        }
        assert!(!scratch.path().join("run").exists());
        for path in [
            good,
            "events/n+lost.parquet",
            "channels/node=n.parquet",
            "brackets/reference=n.tsc/domain=m.tsc/part-00000012.parquet",
        ] {
            assert_eq!(expect_path(path, &node()), Ok(()), "{path}");
        }
    }

    #[test]
    fn bytes_that_are_not_those_that_were_said_get_no_name() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        segment(&there, 0..10);
        let parcel = spool.pending(1, true).unwrap().remove(0);
        let mut bytes = spool.piece(&parcel, 0, 1 << 20).unwrap();
        bytes[9] ^= 1;
        let mut receiving = intake.begin(&parcel).unwrap();
        receiving.piece(&bytes).unwrap();
        assert!(receiving.piece(&[0]).is_err(), "more than was said");
        assert!(receiving.finish().is_err());
        assert!(intake.begin(&parcel).unwrap().finish().is_err(), "less than was said");
        assert!(files_in(&here.join("stamps/node=n/point=p"), "parquet").unwrap().is_empty());
    }

    #[test]
    fn a_folder_of_the_run_that_is_a_link_leads_nowhere() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        segment(&there, 0..10);
        let outside = scratch.path().join("outside");
        std::fs::create_dir_all(here.join("stamps")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, here.join("stamps/node=n")).unwrap();
        let parcel = spool.pending(1, true).unwrap().remove(0);
        assert!(intake.begin(&parcel).is_err());
        assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
    }

    #[test]
    fn a_spool_beyond_its_limit_tells_collectors_to_wait_and_lets_them_go_on() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        segment(&there, 0..100_000);
        segment(&there, 0..10);
        let (mut spool, intake) = (Spool::new(&there, node(), 2000), Intake::new(&here, node()));
        spool.pending(1, true).unwrap();
        assert!(Spool::is_held(&there));
        fetch(&mut spool, &intake, 1 << 20);
        spool.pending(1, true).unwrap();
        assert!(!Spool::is_held(&there), "a receipt takes little");
    }
}

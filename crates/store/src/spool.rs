//! A spool: a directory laid out like a run on another machine, whose files are fetched into the run, each once.
//!
//! Who fetches asks which files are new ([`Spool::pending`]), takes each in pieces, stores it under its name in the run
//! ([`crate::Intake`]), and then says so ([`Spool::acknowledge`]): only then may the spool forget what is in it. A file
//! that grows is fetched again, whole, under the same name; a transfer that broke off is made again: neither can count
//! a stamp twice, for a name of the run comes from one name of the spool alone.
//!
//! What was acknowledged and will not grow any more becomes a receipt: the same file without rows, but with the footer
//! that says which blocks it held. So a collector that is started again on the node knows what is stored, and gives no
//! number twice. A receipt takes some hundred bytes on disk, and nothing in memory ([`contents`]).
//!
//! A file that cannot be read holds up no other: it is told once, as an event of the node, and tried again.
//!
//! Assumes: one fetcher at a time; a segment with a successor is not written again (the collector's way). Guarantees:
//! no file outside the folders of tables and of the agent's own nodes is read there, whatever a peer says; collectors
//! wait while more lies there than the limit, whether or not anybody fetches. Deliberately absent: the way the pieces
//! take.

mod contents;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::Hasher;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tickscope_tick::{NodeName, printable};

use self::contents::{Contents, part_of};
use crate::brackets::{BracketColumns, read_brackets, write_brackets};
use crate::digests::Digest;
use crate::error::{Error, Result};
use crate::event_kind::EventKind;
use crate::events::{Event, write_events};
use crate::parcel::{Parcel, Version, digest_of, expect_path, hexadecimal, is_of_programs, refused};
use crate::removed::open_unless_removed;
use crate::stamps::{Segment, StampColumns, write_segment};
use crate::whole_file::open_regular;

/// How often a file that grows is fetched.
const GROWING_EVERY: Duration = Duration::from_secs(2);
/// How often a file that could not be read is tried again.
const TRIED_EVERY: Duration = Duration::from_secs(10);
/// Files that are made receipts at a time.
const RECEIPTS_AT_ONCE: usize = 64;
/// What a spool is told by to take no more: its collector waits then, as for a full disk.
const HOLD: &str = ".hold";

/// The sending end.
#[derive(Debug)]
pub struct Spool {
    root: PathBuf,
    nodes: Vec<NodeName>,
    limit: u64,
    /// Segments of programs are listed once they do not grow any more, or all is asked for.
    waits_for_whole: bool,
    contents: Contents,
    /// Stored in the run, and not made receipts yet.
    whole: BTreeSet<String>,
    /// By path: what could not be read.
    unread: BTreeMap<String, Unread>,
}

/// A file that could not be read.
#[derive(Debug)]
struct Unread {
    why: String,
    /// Its event is written.
    told: bool,
    tried: Instant,
}

impl Spool {
    /// The spool in `root` of these nodes. `limit`: bytes beyond which its collectors are to wait.
    pub fn new(root: impl Into<PathBuf>, nodes: Vec<NodeName>, limit: u64) -> Self {
        let root = root.into();
        let contents = Contents::new(root.clone(), nodes.clone());
        Self { root, nodes, limit, waits_for_whole: false, contents, whole: BTreeSet::new(), unread: BTreeMap::new() }
    }

    /// The same spool, whose segments of programs go from here to object storage: each once, when it is whole.
    pub fn of_whole_segments(self) -> Self {
        Self { waits_for_whole: true, ..self }
    }

    /// Looks at what is there, without anybody to fetch it, and tells collectors to wait where that is too much.
    pub fn watch(&mut self) -> Result<()> {
        self.look(false);
        self.hold()
    }

    /// Up to `most` files that are new or have changed, the oldest first. `all`: files that grow too, each time; none
    /// is left once there are none.
    pub fn pending(&mut self, most: usize, all: bool) -> Result<Vec<Parcel>> {
        let _ = self.watch(); // a full disk may not take the file that tells of it, and fetching makes room
        let mut parcels = self.waiting(most, all);
        if all && parcels.is_empty() {
            self.look(true);
            parcels = self.waiting(most, all);
        }
        self.tell_unread();
        Ok(parcels)
    }

    fn look(&mut self, whole: bool) {
        for (path, unread) in &mut self.unread {
            if whole || unread.tried.elapsed() > TRIED_EVERY {
                unread.tried = Instant::now();
                self.contents.try_again(path);
            }
        }
        let is_gone = |path: &String| !self.root.join(path).exists();
        for path in self.unread.keys().filter(|path| whole && is_gone(path)).cloned().collect::<Vec<_>>() {
            self.clear_unread(&path);
        }
        self.contents.look(whole);
        for (path, why) in self.contents.take_failed() {
            self.set_unread(&path, &why);
        }
        self.whole.extend(self.contents.take_superseded());
    }

    /// Up to `most` files that were withdrawn, and as many that are to be fetched, with their digests.
    fn waiting(&mut self, most: usize, all: bool) -> Vec<Parcel> {
        let gone = |(path, version): (&String, &Version)| Parcel {
            path: path.clone(),
            bytes: 0,
            digest: String::new(),
            settled: false,
            version: *version,
        };
        let mut parcels: Vec<Parcel> = self.contents.gone().map(gone).take(most).collect(); // the others the next time
        let (most, mut last) = (most + parcels.len(), None);
        while let Some(next) = self.contents.next(last.as_ref()).cloned().filter(|_| parcels.len() < most) {
            match self.parcel(&next.1, all) {
                Ok(parcel) => parcels.extend(parcel),
                Err(why) => self.set_unread(&next.1, &why),
            }
            last = Some(next);
        }
        parcels
    }

    /// With its digest; `None`: it is a receipt, grows and was fetched just now, or was replaced just now.
    fn parcel(&mut self, path: &str, all: bool) -> Result<Option<Parcel>> {
        let (grows, place) = (self.contents.grows(path), self.root.join(path));
        let Some(file) = self.contents.file(path) else { return Ok(None) };
        let waits = self.waits_for_whole && is_of_programs(path)
            || file.stored.is_some_and(|(_, stored)| stored.elapsed() < GROWING_EVERY);
        if grows && !all && waits {
            return Ok(None);
        }
        let version = file.version;
        let settled = part_of(path).is_some() && !grows;
        let parcel = |digest| Ok(Some(Parcel { path: path.into(), bytes: version.bytes, digest, settled, version }));
        if let Some(digest) = file.digest.clone() {
            return parcel(digest);
        }
        if is_receipt(path, &place) {
            if grows {
                self.contents.store(path, version);
            } else {
                self.contents.finish(path, version.bytes);
            }
            return Ok(None);
        }
        let opened = match open_regular(&place) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| Error::io(&place, "open", e))?,
        };
        let digest = digest_of(&opened, version.bytes).map_err(|e| Error::io(&place, "read", e))?;
        if Version::of(&opened).ok() != Some(version) {
            return Ok(None);
        }
        file.digest = Some(digest.clone());
        self.clear_unread(path);
        parcel(digest)
    }

    /// Bytes of a file from `offset`, at most `most`; an error if it is not any more what was listed.
    pub fn piece(&mut self, parcel: &Parcel, offset: u64, most: usize) -> Result<Vec<u8>> {
        let place = self.root.join(&parcel.path);
        expect_path(&parcel.path, &self.nodes).map_err(|why| refused(&place, why))?;
        let file = open_regular(&place).map_err(|e| Error::io(&place, "open", e))?;
        let read = || -> std::io::Result<Option<Vec<u8>>> {
            if Version::of(&file)? != parcel.version {
                return Ok(None);
            }
            let left = usize::try_from(parcel.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
            let mut bytes = vec![0; left.min(most)];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(Some(bytes))
        };
        match read() {
            Ok(found) => found.ok_or_else(|| refused(&place, "it was replaced meanwhile")),
            Err(e) => {
                let why = Error::io(&place, "read", e);
                self.set_unread(&parcel.path, &why);
                Err(why)
            }
        }
    }

    /// A listed file, open, and where it lies. `Err`: it is not any more what was listed.
    pub fn opened(&self, parcel: &Parcel) -> Result<(PathBuf, File)> {
        let place = self.root.join(&parcel.path);
        expect_path(&parcel.path, &self.nodes).map_err(|why| refused(&place, why))?;
        let file = open_regular(&place).map_err(|e| Error::io(&place, "open", e))?;
        match Version::of(&file) {
            Ok(version) if version == parcel.version => Ok((place, file)),
            _ => Err(refused(&place, "it was replaced meanwhile")),
        }
    }

    /// The run has stored it. What will not grow any more becomes a receipt.
    pub fn acknowledge(&mut self, parcel: &Parcel) -> Result<()> {
        expect_path(&parcel.path, &self.nodes).map_err(|why| refused(&self.root.join(&parcel.path), why))?;
        if parcel.is_gone() {
            self.contents.forget_gone(&parcel.path);
            return Ok(());
        }
        self.contents.store(&parcel.path, parcel.version);
        if part_of(&parcel.path).is_some() && !self.contents.grows(&parcel.path) {
            self.whole.insert(parcel.path.clone());
        }
        self.shrink();
        Ok(())
    }

    /// The run does not take it, and has told so: it stays here.
    pub fn set_aside(&mut self, parcel: &Parcel) -> Result<()> {
        expect_path(&parcel.path, &self.nodes).map_err(|why| refused(&self.root.join(&parcel.path), why))?;
        if parcel.is_gone() {
            self.contents.forget_gone(&parcel.path);
        }
        self.contents.set_aside(&parcel.path);
        Ok(())
    }

    /// Returns whether files lie there that the run does not take, or that could not be read.
    pub fn keeps_some(&self) -> bool {
        !self.unread.is_empty() || self.contents.sets_aside()
    }

    /// Makes receipts; a disk without room for one may have it later.
    fn shrink(&mut self) {
        for path in self.whole.iter().take(RECEIPTS_AT_ONCE).cloned().collect::<Vec<_>>() {
            match self.make_receipt(&path) {
                Ok(bytes) => {
                    self.whole.remove(&path);
                    bytes.into_iter().for_each(|bytes| self.contents.finish(&path, bytes));
                }
                Err(why) if why.is_of_the_file() => drop(self.whole.remove(&path)), // it stays as it is
                Err(_) => return,
            }
        }
    }

    /// Returns how many bytes it has; `None`: it is no file any more that the run has.
    fn make_receipt(&mut self, path: &str) -> Result<Option<u64>> {
        let place = self.root.join(path);
        let now = || open_regular(&place).and_then(|file| Version::of(&file));
        let stored = self.contents.file(path).and_then(|file| Some(file.stored?.0));
        if stored.is_none() || now().ok() != stored {
            return Ok(None);
        }
        if path.starts_with("stamps/") {
            let Some(segment) = open_unless_removed(&place) else { return Ok(None) };
            let origin = segment?.origin()?;
            let mut none = StampColumns::default();
            none.fill_with_nulls();
            write_segment(&place, &none, &origin)?;
        } else if path.starts_with("brackets/") {
            write_brackets(&place, &BracketColumns::default())?;
        }
        Ok(Some(now().map_err(|e| Error::io(&place, "look at", e))?.bytes))
    }

    fn set_unread(&mut self, path: &str, why: &Error) {
        self.contents.set_aside(path);
        let (why, tried) = (why.to_string(), Instant::now());
        self.unread.entry(path.into()).or_insert(Unread { why, told: false, tried }).tried = tried;
    }

    /// It could be read after all: its event is withdrawn.
    fn clear_unread(&mut self, path: &str) {
        if self.unread.remove(path).is_some() {
            let _ = self.unread_event(path).map(fs::remove_file); // it may not have been written
        }
    }

    /// Writes an event of each file that could not be read; where that fails, it is tried again.
    fn tell_unread(&mut self) {
        let untold: Vec<(String, String)> = self
            .unread
            .iter()
            .filter(|(_, unread)| !unread.told)
            .map(|(path, unread)| (path.clone(), unread.why.clone()))
            .collect();
        for (path, why) in untold {
            let (Some(place), Some(node)) = (self.unread_event(&path), self.nodes.first()) else { continue };
            let text = format!("{} stays there and is not in the run: {}", printable(&path), printable(&why));
            let event = Event { node: node.to_string(), what: EventKind::NodeFileRefused, text, ..Event::default() };
            if let (Ok(()), Some(unread)) = (write_events(&place, &[event]), self.unread.get_mut(&path)) {
                unread.told = true;
            }
        }
    }

    /// Where the event lies of a file that cannot be read.
    fn unread_event(&self, path: &str) -> Option<PathBuf> {
        let mut digest = Digest::default();
        digest.write(path.as_bytes());
        Some(self.root.join("events").join(format!("{}+unread-{}.parquet", self.nodes.first()?, hexadecimal(&digest))))
    }

    /// Tells collectors to wait, or to go on.
    fn hold(&self) -> Result<()> {
        let place = self.root.join(HOLD);
        if self.contents.bytes() <= self.limit {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::{CountColumns, CountRow, read_counts, write_counts};
    use crate::intake::{FILE_MOST_BYTES, Intake};
    use crate::parcel::PATH_MOST;
    use crate::removed::RemovedNote;
    use crate::run::Paths;
    use crate::scratch::Scratch;
    use crate::stamps::{ChannelCount, Origin, PointStamps, next_segment};
    use crate::whole_file::files_in;

    fn node() -> Vec<NodeName> {
        vec![NodeName::new("n").unwrap()]
    }

    fn segment(spool: &Path, stamps: std::ops::Range<i64>) -> PathBuf {
        let place = next_segment(&spool.join("stamps/node=n/point=p")).unwrap();
        let mut origin = Origin::default();
        origin.add((7, 1), stamps.start as u32);
        origin.counts =
            vec![ChannelCount { channel: 1, stored: stamps.clone().count() as u64, ..ChannelCount::default() }];
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
    fn however_many_events_were_withdrawn_an_answer_names_a_few_and_the_rest_comes_the_next_time() {
        let (place, run) = (Scratch::new(), Scratch::new());
        let intake = Intake::new(run.path(), node());
        let mut spool = Spool::new(place.path(), node(), u64::MAX);
        let events: Vec<PathBuf> =
            (0..50).map(|event| place.path().join(format!("events/n+{event}.parquet"))).collect();
        fs::create_dir_all(place.path().join("events")).unwrap();
        events.iter().for_each(|event| crate::events::write_events(event, &[]).unwrap());
        while fetch(&mut spool, &intake, 1000) > 0 {}
        events.iter().for_each(|event| fs::remove_file(event).unwrap());
        let mut all = 0;
        loop {
            let parcels = spool.pending(16, true).unwrap();
            let withdrawn: Vec<&Parcel> = parcels.iter().filter(|parcel| parcel.is_gone()).collect();
            assert!(withdrawn.len() <= 16);
            if withdrawn.is_empty() {
                break;
            }
            all += withdrawn.len();
            withdrawn.into_iter().for_each(|parcel| spool.acknowledge(parcel).unwrap());
        }
        assert_eq!(all, 50);
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
        assert!(Segment::open(&first).unwrap().is_empty(), "it has a successor now");
        // Another agent takes over: it fetches no receipt, and what lies there whole again under its name.
        let mut again = Spool::new(&there, node(), u64::MAX);
        assert_eq!(fetch(&mut again, &intake, 1 << 20), 1);
        let stored = PointStamps::open(&here.join("stamps/node=n/point=p")).unwrap();
        assert_eq!((stored.len(), stored.segments().len(), stored.refused().len()), (1600, 3, 0));
    }

    #[test]
    fn counts_are_fetched_as_they_grow_and_stay_for_a_collector_that_takes_over() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        let folder = there.join("counts/node=n");
        fs::create_dir_all(&folder).unwrap();
        let write = |part: u32, rows: i64| {
            let mut counts = CountColumns::default();
            (0..rows).for_each(|count| counts.push(CountRow { count, ..CountRow::default() }));
            write_counts(&folder.join(format!("part-{part:08}.parquet")), &counts).unwrap();
        };
        let rows = |root: &Path| -> usize {
            let files = files_in(&root.join("counts/node=n"), "parquet").unwrap();
            files.iter().map(|file| read_counts(file).unwrap().rows().count()).sum()
        };
        for (part, count) in [(0, 3), (0, 5), (1, 7), (2, 1)] {
            write(part, count);
            assert!(fetch(&mut spool, &intake, 100) > 0, "part {part} of {count} rows");
        }
        assert_eq!((rows(&here), rows(&there)), (13, 13));
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
            note.add(&tickscope_tick::PointName::new("p").unwrap(), number as u64, &origin);
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
    fn a_spool_of_whole_segments_lists_each_once_it_has_a_successor_and_the_last_one_when_all_is_asked_for() {
        let scratch = Scratch::new();
        let there = scratch.path().join("there");
        let mut spool = Spool::new(&there, node(), 1 << 30).of_whole_segments();
        segment(&there, 0..10);
        assert_eq!(spool.pending(16, false).unwrap(), []);
        segment(&there, 10..20);
        let listed = spool.pending(16, false).unwrap();
        assert_eq!(listed.iter().map(|parcel| parcel.settled).collect::<Vec<_>>(), [true]);
        assert!(listed[0].path.ends_with("part-00000000.parquet"));
        spool.acknowledge(&listed[0]).unwrap();
        let listed = spool.pending(16, true).unwrap();
        assert_eq!(listed.iter().map(|parcel| parcel.settled).collect::<Vec<_>>(), [false]);
        assert!(listed[0].path.ends_with("part-00000001.parquet"));
    }

    #[test]
    fn what_is_no_table_of_the_agents_nodes_is_refused_and_nothing_is_written() {
        let scratch = Scratch::new();
        let intake = Intake::new(scratch.path().join("run"), node());
        let version = Version { inode: 1, bytes: 1, changed_ns: 1 };
        let refused = |path: &str, bytes| {
            let parcel = Parcel { path: path.into(), bytes, digest: "0".repeat(32), settled: true, version };
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
            "counts/node=n/part-00000012.parquet",
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
        let segments = [segment(&there, 0..100_000), segment(&there, 0..10)];
        let bytes: u64 = segments.iter().map(|place| place.metadata().unwrap().len()).sum();
        let (mut spool, intake) = (Spool::new(&there, node(), bytes - 1), Intake::new(&here, node()));
        spool.pending(1, true).unwrap();
        assert!(Spool::is_held(&there));
        fetch(&mut spool, &intake, 1 << 20);
        spool.pending(1, true).unwrap();
        assert!(!Spool::is_held(&there), "a receipt takes little");
    }

    #[test]
    fn receipts_before_what_is_new_hide_none_of_it() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        (0..30).for_each(|part| drop(segment(&there, part * 10..part * 10 + 10)));
        assert_eq!(fetch(&mut spool, &intake, 1 << 20), 30);
        (30..32).for_each(|part| drop(segment(&there, part * 10..part * 10 + 10)));
        // An agent that took over knows of no receipt, and asks for few files at a time.
        let mut again = Spool::new(&there, node(), u64::MAX);
        let new: Vec<String> = again.pending(4, true).unwrap().into_iter().map(|parcel| parcel.path).collect();
        assert_eq!(new, [29, 30, 31].map(|part| format!("stamps/node=n/point=p/part-{part:08}.parquet")));
    }

    #[test]
    fn a_look_costs_what_is_new_and_keeps_nothing_of_what_was_stored() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        let mut look = |parts: i64| {
            (0..parts).for_each(|part| drop(segment(&there, part * 10..part * 10 + 10)));
            while fetch(&mut spool, &intake, 1 << 20) > 0 {}
            let before = spool.contents.asked();
            spool.pending(16, false).unwrap();
            (spool.contents.asked() - before, spool.contents.kept())
        };
        let few = look(3);
        assert_eq!(look(60), few, "as many questions and entries, however many receipts there are");
        assert!(few.0 < 10, "{few:?}");
    }

    #[test]
    fn what_cannot_be_read_is_told_once_and_holds_up_no_other() {
        let scratch = Scratch::new();
        let (there, here) = (scratch.path().join("there"), scratch.path().join("here"));
        let (mut spool, intake) = (Spool::new(&there, node(), u64::MAX), Intake::new(&here, node()));
        segment(&there, 0..10);
        let odd = segment(&there, 10..20);
        std::fs::remove_file(&odd).unwrap();
        std::os::unix::fs::symlink("/proc/self/mem", &odd).unwrap();
        std::fs::create_dir_all(there.join("channels/node=n.parquet")).unwrap();
        segment(&there, 20..30);
        while fetch(&mut spool, &intake, 1 << 20) > 0 {}
        assert_eq!(PointStamps::open(&here.join("stamps/node=n/point=p")).unwrap().len(), 20);
        let told = |folder: &Path| {
            let files = files_in(&folder.join("events"), "parquet").unwrap();
            files.iter().flat_map(|file| crate::events::read_events(file).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(told(&here).len(), 2, "{:?}", told(&here));
        for event in told(&here) {
            assert!(event.node == "n" && event.what == EventKind::NodeFileRefused, "{event:?}");
            assert!(event.text.contains("no ordinary file"), "{event:?}");
        }
        assert!(spool.keeps_some());
        // Once it can be read it is fetched, and its event goes.
        std::fs::remove_dir(there.join("channels/node=n.parquet")).unwrap();
        std::fs::remove_file(&odd).unwrap();
        while fetch(&mut spool, &intake, 1 << 20) > 0 {}
        assert_eq!(told(&here), []);
        assert!(!spool.keeps_some());
    }

    #[test]
    fn the_limit_holds_while_nobody_fetches() {
        let scratch = Scratch::new();
        let there = scratch.path().join("there");
        let mut spool = Spool::new(&there, node(), 100);
        std::fs::create_dir_all(&there).unwrap();
        spool.watch().unwrap();
        assert!(!Spool::is_held(&there));
        segment(&there, 0..100_000);
        spool.watch().unwrap();
        assert!(Spool::is_held(&there));
    }

    #[test]
    fn a_file_that_the_run_refuses_stays_and_is_not_offered_again_until_it_changes() {
        let scratch = Scratch::new();
        let there = scratch.path().join("there");
        let mut spool = Spool::new(&there, node(), u64::MAX);
        let place = there.join("events/n+x.parquet");
        let event = |node: &str| Event { node: node.into(), ..Event::default() };
        write_events(&place, &[event("m")]).unwrap();
        let parcel = spool.pending(1, true).unwrap().remove(0);
        spool.set_aside(&parcel).unwrap();
        assert!(spool.pending(1, true).unwrap().is_empty() && spool.keeps_some() && place.exists());
        write_events(&place, &[event("n")]).unwrap();
        let again = spool.pending(1, true).unwrap().remove(0);
        spool.acknowledge(&again).unwrap();
        assert!(spool.pending(1, true).unwrap().is_empty() && !spool.keeps_some());
    }
}

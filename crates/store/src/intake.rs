//! The receiving end of a spool: files of a node come into the run, each held against that node's name.
//!
//! A node may speak of itself alone. The path says which node and table a file is of; events and channels name nodes
//! and clocks in their rows as well, so those are read before the file gets its name. Small tables that every reading
//! of the run takes whole are decoded, too: one that is torn would stop the reading of what other nodes measured.
//!
//! Guarantees: nothing is visible in the run before its digest and its rows were found right; a refused file leaves
//! nothing. Deliberately absent: what becomes of the node; whoever fetches tells of the file and goes on.

use std::fs;
use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};

use tickscope_tick::{NodeName, printable};

use crate::channels::read_channels;
use crate::digests::Digest;
use crate::error::{Error, Result};
use crate::events::read_events;
use crate::parcel::{Parcel, expect_path, hexadecimal, refused};
use crate::removed::{RemovedNote, sweep_removed};
use crate::whole_file::WholeFile;

/// Bytes of a file that is fetched: more than any segment has.
pub(crate) const FILE_MOST_BYTES: u64 = 8 << 30;
/// Bytes of one that is read as a whole.
const TABLE_MOST_BYTES: u64 = 64 << 20;

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
    nodes: Vec<NodeName>,
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
        let (root, nodes) = (self.root.clone(), self.nodes.clone());
        Ok(Receiving { parcel: parcel.clone(), root, nodes, whole, place, received: 0, digest: Digest::default() })
    }

    /// Where a parcel goes, if it may.
    fn place_of(&self, parcel: &Parcel) -> Result<PathBuf> {
        let shown = Path::new(&parcel.path);
        expect_path(&parcel.path, &self.nodes).map_err(|why| refused(shown, why))?;
        let is_part = ["stamps/", "brackets/", "rivals/", "counts/", "returns/"]
            .iter()
            .any(|table| parcel.path.starts_with(table));
        if parcel.bytes > if is_part { FILE_MOST_BYTES } else { TABLE_MOST_BYTES } {
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
            return Err(refused(&self.place, "its pieces do not match what was announced"));
        }
        self.whole.file().write_all(bytes).map_err(|e| Error::io(&self.place, "write", e))?;
        self.digest.write(bytes);
        self.received = received;
        Ok(())
    }

    /// Gives it its name in the run.
    pub fn finish(self) -> Result<()> {
        if self.next().is_some() || hexadecimal(&self.digest) != self.parcel.digest {
            return Err(refused(&self.place, "its content does not match its announced digest"));
        }
        expect_own_rows(&self.parcel.path, self.whole.hidden(), &self.nodes)
            .map_err(|why| refused(&self.place, &why))?;
        self.whole.finish()?;
        // The node has removed what the note tells of; here it goes once the note is here.
        match self.parcel.path.strip_prefix("removed/node=").and_then(|file| file.strip_suffix(".parquet")) {
            Some(node) => sweep_removed(&self.root, node).map(drop),
            None => Ok(()),
        }
    }
}

/// Refuses small tables that cannot be read, and rows that speak of other nodes or of their clocks.
fn expect_own_rows(path: &str, file: &Path, nodes: &[NodeName]) -> std::result::Result<(), String> {
    let own = |name: &str| nodes.iter().any(|node| node.as_str() == name);
    let of_other = |row: usize, what: &str, name: &str| {
        Err(format!("row {row} with {what} '{}': a node may speak of itself alone", printable(name)))
    };
    match path.split('/').next() {
        Some("events") => {
            for (row, event) in read_events(file).map_err(|why| why.to_string())?.iter().enumerate() {
                let clock =
                    event.domain.as_deref().filter(|clock| !clock.split_once('.').is_some_and(|(node, _)| own(node)));
                match clock {
                    _ if !own(&event.node) => return of_other(row, "the node", &event.node),
                    Some(clock) => return of_other(row, "the clock", clock),
                    None => {}
                }
            }
        }
        Some("channels") => {
            for (row, channel) in read_channels(file).map_err(|why| why.to_string())?.iter().enumerate() {
                if !own(channel.node.as_str()) {
                    return of_other(row, "the node", channel.node.as_str());
                }
            }
        }
        Some("removed") => drop(RemovedNote::read(file).map_err(|why| why.to_string())?),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{Channel, ChannelState, write_channels};
    use crate::events::{Event, write_events};
    use crate::parcel::Version;
    use crate::scratch::Scratch;

    fn channel(node: &str) -> Channel {
        Channel {
            channel: 1,
            node: NodeName::new(node).unwrap(),
            pid: 1,
            process_start: 1,
            pool: 1,
            serial: 0,
            thread: 1,
            point: tickscope_tick::PointName::new("p").unwrap(),
            ordering: "plain".into(),
            domain: String::new(),
            policy: "all".into(),
            parameter: None,
            stored: 0,
            dropped: 0,
            refused: 0,
            uncommitted: 0,
            state: ChannelState::Open,
            removed: None,
            seen: None,
            counted: None,
            overwritten: None,
            kept: None,
        }
    }

    /// Offers the file at `place` as that of the path; what the run says of it.
    fn offer(intake: &Intake, place: &Path, path: &str) -> Result<()> {
        let (bytes, mut digest) = (fs::read(place).unwrap(), Digest::default());
        digest.write(&bytes);
        let version = Version { inode: 1, bytes: bytes.len() as u64, changed_ns: 1 };
        let (bytes_there, digest) = (bytes.len() as u64, hexadecimal(&digest));
        let parcel = Parcel { path: path.into(), bytes: bytes_there, digest, settled: true, version };
        let mut receiving = intake.begin(&parcel)?;
        receiving.piece(&bytes)?;
        receiving.finish()
    }

    #[test]
    fn a_node_speaks_of_itself_alone_also_in_the_rows_of_its_files() {
        let scratch = Scratch::new();
        let (place, run) = (scratch.path().join("x.parquet"), scratch.path().join("run"));
        let intake = Intake::new(&run, vec![NodeName::new("n").unwrap()]);
        let event = |node: &str, domain: Option<&str>| Event {
            node: node.into(),
            domain: domain.map(str::to_owned),
            ..Event::default()
        };
        let own = event("n", Some("n.boottime"));
        for (rows, said) in [
            (vec![own.clone(), event("n", None)], None),
            (vec![own.clone(), event("m", None)], Some("row 1 with the node 'm'")),
            (vec![event("run", None)], Some("row 0 with the node 'run'")),
            (vec![event("host", None)], Some("row 0 with the node 'host'")),
            (vec![own.clone(), event("n", Some("m.realtime"))], Some("row 1 with the clock 'm.realtime'")),
            (vec![event("n", Some("n"))], Some("row 0 with the clock 'n'")),
        ] {
            write_events(&place, &rows).unwrap();
            let offered = offer(&intake, &place, "events/n+x.parquet");
            match said {
                None => offered.unwrap(),
                Some(said) => {
                    let why = offered.unwrap_err();
                    assert!(why.is_of_the_file() && why.to_string().contains(said), "{why}");
                    assert!(why.to_string().contains("events/n+x.parquet"), "{why}");
                }
            }
            assert_eq!(read_events(&run.join("events/n+x.parquet")).unwrap().len(), 2, "the one of before stays");
        }
        write_channels(&place, &[channel("n"), channel("m")]).unwrap();
        let why = offer(&intake, &place, "channels/node=n.parquet").unwrap_err().to_string();
        assert!(why.contains("row 1 with the node 'm'"), "{why}");
        assert_eq!(fs::read_dir(run.join("channels")).unwrap().count(), 0);
        write_channels(&place, &[channel("n")]).unwrap();
        offer(&intake, &place, "channels/node=n.parquet").unwrap();
    }

    #[test]
    fn a_small_table_that_is_torn_does_not_come_in() {
        let scratch = Scratch::new();
        let (place, run) = (scratch.path().join("x.parquet"), scratch.path().join("run"));
        let intake = Intake::new(&run, vec![NodeName::new("n").unwrap()]);
        fs::write(&place, "torn").unwrap();
        for path in ["events/n+x.parquet", "channels/node=n.parquet", "removed/node=n.parquet"] {
            let why = offer(&intake, &place, path).unwrap_err();
            assert!(why.is_of_the_file() && !run.join(path).exists(), "{why}");
        }
    }
}

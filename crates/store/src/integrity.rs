//! What of a run is damaged, missing, or not its own.
//!
//! Each file shows its own damage ([`crate::table`]); here the files are held against one another and against
//! `digests.json`: the parts of a point follow on one another, no block is there twice, and the stamps of a channel are
//! as many as its row of `channels` says. A run that goes on or was cut off has no digests, and then that is all.
//!
//! Assumes: counts of channels are written after the segments they count. Guarantees: whatever is found is said by the
//! file's name; nothing is repaired. Deliberately absent: what nobody can know without digests (docs/run-format.md).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::channels::{Channel, ChannelState};
use crate::digests::{Difference, is_of_traces};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::removed::{is_removed, parts_in};
use crate::run::{Pair, Run, Table};
use crate::stamps::{PointStamps, Segment, part_number};
use crate::state::RunState;
use crate::stored;
use crate::table::TableReader;
use crate::whole_file::{files_in, keyed_folders};

/// Up to so many bytes in all, every reading of a run reads all its files first and holds them against their digests.
pub const DIGESTED_AT_EVERY_READING: u64 = 64 << 20;

/// What is fed into figures; anything else in a run's directory is the user's own.
const FEEDS: [&str; 12] = [
    "run.json",
    "digests.json",
    "stamps/",
    "removed/",
    "channels/",
    "counts/",
    "events/",
    "brackets/",
    "noise/",
    "returns/",
    "rivals/",
    "traces/",
];

fn feeds(path: &str) -> bool {
    FEEDS.iter().any(|fed| path.starts_with(fed))
}

/// The outcome of reading a run wholly.
#[derive(Debug, Default)]
pub struct Examined {
    /// Files read.
    pub files: u64,
    /// Stamps in them.
    pub stamps: u64,
    /// Stamps that the run's window removed.
    pub removed: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What is wrong.
    pub faults: Vec<Error>,
}

impl Run {
    /// Returns whether segments of the run lie in object storage and not here.
    pub fn is_stored_elsewhere(&self) -> Result<bool> {
        Ok(!stored::entries(self.root())?.is_empty())
    }

    /// Refuses a run whose segments do not lie here.
    pub fn expect_here(&self) -> Result<()> {
        if !self.is_stored_elsewhere()? {
            return Ok(());
        }
        let address = self.manifest().storage.as_deref().unwrap_or("object storage");
        Err(Error::stored_elsewhere(self.root(), address))
    }

    /// Why the figures of this run are not to be trusted, each with the file it is about: what every reading asks
    /// first. Whole files are held against their digests only where all of them together are small; else their sizes.
    pub fn faults(&self) -> Result<Vec<Error>> {
        if let Err(why) = self.expect_here() {
            return Ok(vec![why]);
        }
        let mut faults: Vec<Error> = Manifest::fault(&self.paths().manifest()).into_iter().collect();
        faults.extend(self.refused()?);
        faults.extend(self.files(Table::Brackets)?.refused);
        faults.extend(self.disagreements()?);
        if self.owes_digests()? {
            let differences = self.differences(DIGESTED_AT_EVERY_READING, feeds)?;
            // Traces that no digest is of feed nothing: whoever reads the run joins it anew.
            let are_left = self.has_undigested_traces()?;
            self.add_differences(&mut faults, differences, |path| !(are_left && is_of_traces(path)));
        }
        Ok(faults)
    }

    /// Returns whether the run's list of digests is the one of that digest ([`Run::list_digest`]), and each file that
    /// figures are made of, read whole, as it says, with none besides.
    pub fn is_as_listed(&self, list: u128) -> Result<bool> {
        Ok(self.differences(u64::MAX, feeds)?.is_empty() && self.list_digest()? == Some(list))
    }

    /// Reads every byte and every value of every file, and says all that is wrong. `progress` is told the bytes read.
    pub fn examine(&self, mut progress: impl FnMut(u64)) -> Result<Examined> {
        let mut examined = Examined::default();
        examined.faults.extend(Manifest::fault(&self.paths().manifest()));
        for path in self.tables()? {
            let size = std::fs::symlink_metadata(&path).map_or(0, |file| file.len());
            (examined.files, examined.bytes) = (examined.files + 1, examined.bytes + size);
            match self.read_wholly(&path) {
                Ok(stamps) => examined.stamps += stamps,
                Err(_) if is_removed(&path) => {} // since the folders were listed
                Err(fault) => examined.faults.push(fault),
            }
            progress(examined.bytes);
        }
        examined.removed = self.removed_stamps()?;
        examined.faults.extend(self.pairs()?.refused);
        examined.faults.extend(self.disagreements()?);
        if self.owes_digests()? {
            let differences = self.check()?;
            self.add_differences(&mut examined.faults, differences, |_| true);
        }
        Ok(examined)
    }

    /// The files of a table, each wholly read and held against its own digests: for readers other than this crate.
    pub fn intact_files(&self, table: Table<'_>) -> Result<crate::Listing<Vec<PathBuf>>> {
        let mut listing = self.files(table)?;
        let mut damaged = Vec::new();
        listing.found.retain(|path| match TableReader::open(path).and_then(|table| table.verify()) {
            Ok(()) => true,
            Err(fault) => {
                damaged.push(fault);
                false
            }
        });
        listing.refused.append(&mut damaged);
        Ok(listing)
    }

    /// Returns whether the run's digests can be asked: it has some, or ought to.
    fn owes_digests(&self) -> Result<bool> {
        let owes = match self.state()? {
            RunState::GoingOn => false,
            RunState::CutOff => self.has_digests(),
            RunState::Ended => self.has_digests() || self.manifest().schema > 1,
        };
        Ok(owes)
    }

    /// Adds the differences that `counts` holds for, but for files of which something is said already.
    fn add_differences(&self, faults: &mut Vec<Error>, differences: Vec<Difference>, counts: impl Fn(&str) -> bool) {
        for Difference { path, expected, found } in differences {
            let place = self.root().join(&path);
            if counts(&path) && faults.iter().all(|fault| fault.place() != place) {
                faults.push(Error::changed(&place, expected, found));
            }
        }
    }

    /// Every table of the run but the derived ones.
    fn tables(&self) -> Result<Vec<PathBuf>> {
        let mut folders: Vec<PathBuf> =
            ["channels", "removed", "events", "traces"].map(|name| self.root().join(name)).to_vec();
        for (outer, inner) in [(("stamps", "node"), "point"), (("brackets", "reference"), "domain")] {
            for (_, folder) in keyed_folders(&self.root().join(outer.0), outer.1)? {
                folders.extend(keyed_folders(&folder, inner)?.into_iter().map(|(_, folder)| folder));
            }
        }
        for name in ["counts", "returns"] {
            folders.extend(keyed_folders(&self.root().join(name), "node")?.into_iter().map(|(_, folder)| folder));
        }
        let mut files = Vec::new();
        for folder in folders {
            // A note that cannot be read is a table of its own here.
            files.extend(parts_in(&folder).map_or_else(|_| files_in(&folder, "parquet"), |(_, parts)| Ok(parts))?);
        }
        Ok(files)
    }

    /// Decodes a table; returns how many stamps it has, where it is a segment.
    fn read_wholly(&self, path: &Path) -> Result<u64> {
        if !path.starts_with(self.root().join("stamps")) {
            return TableReader::open(path)?.decode_all().map(|()| 0);
        }
        let segment = Segment::open(path)?;
        segment.decode_all()?;
        let mut rows: BTreeMap<i32, u64> = BTreeMap::new();
        for group in 0..segment.extents().len() {
            segment.read_channels(group)?.into_iter().for_each(|channel| *rows.entry(channel).or_default() += 1);
        }
        let told: BTreeMap<i32, u64> =
            segment.origin()?.counts.iter().filter(|count| count.stored > 0).map(|c| (c.channel, c.stored)).collect();
        if !told.is_empty() && told != rows {
            return Err(Error::changed(path, format!("stamps by channel {told:?}"), format!("{rows:?}")));
        }
        Ok(segment.len())
    }

    /// What the files say of one another and is not so: counts, parts and blocks, by the footers alone.
    fn disagreements(&self) -> Result<Vec<Error>> {
        let mut faults = Vec::new();
        // Before the segments: a run that goes on only gains stamps.
        let channels = self.channels()?;
        let ended = self.state()? == RunState::Ended;
        for node in self.nodes()? {
            let of_node: Vec<_> = channels.found.iter().filter(|channel| channel.node.as_str() == node).collect();
            let place = self.paths().channels(&node);
            let readable = channels.refused.iter().all(|refused| refused.place() != place);
            let stored = self.stored(&node, &mut faults)?;
            if let Some(rows) = stored.rows.filter(|_| readable) {
                faults.extend(count_faults(&place, &of_node, &rows, ended));
            }
        }
        for Pair { reference, domain } in self.pairs()?.found {
            faults.extend(missing_part(&self.paths().brackets(&Pair { reference, domain }), 0)?);
        }
        faults.extend(missing_part(&self.paths().traces(), 0)?);
        Ok(faults)
    }

    /// The stamps of a node, by channel, as its segments' footers tell.
    fn stored(&self, node: &str, faults: &mut Vec<Error>) -> Result<Stored> {
        let mut stored = Stored { rows: Some(HashMap::new()), blocks: Vec::new() };
        for (point, folder) in keyed_folders(&self.paths().node_stamps(node), "point")? {
            let stamps = PointStamps::open(&folder)?;
            faults.extend(missing_part(&folder, stamps.removed_below())?);
            if !stamps.refused().is_empty() {
                stored.rows = None; // they are told, and what they held is not known
            }
            for segment in stamps.segments() {
                match stored.add(segment) {
                    Ok(()) => {}
                    Err(fault) => faults.push(fault),
                }
            }
            if let Some(rows) = &mut stored.rows {
                for channel in stamps.removed_at(&point) {
                    let rows = rows.entry(channel).or_default();
                    *rows = rows.saturating_add(stamps.removed_of(channel));
                }
            }
        }
        faults.extend(stored.block_twice());
        Ok(stored)
    }
}

/// What the segments of a node hold.
struct Stored {
    /// By channel: stamps, removed ones too. `None` where some file does not tell.
    rows: Option<HashMap<i32, u64>>,
    /// Pool, serial, first block, last block, file.
    blocks: Vec<(u64, u32, u32, u32, PathBuf)>,
}

impl Stored {
    fn add(&mut self, segment: &Segment) -> Result<()> {
        let origin = segment.origin()?;
        let place = || segment.path().to_path_buf();
        self.blocks.extend(origin.blocks.iter().map(|of| (of.pool, of.serial, of.first, of.last, place())));
        if origin.counts.is_empty() {
            self.rows = None;
            return Ok(());
        }
        let told = origin.counts.iter().fold(0, |sum: u64, count| sum.saturating_add(count.stored));
        if told != segment.len() {
            return Err(Error::changed(segment.path(), format!("{told} stamps, as its footer counts"), segment.len()));
        }
        if let Some(rows) = &mut self.rows {
            for count in &origin.counts {
                let rows = rows.entry(count.channel).or_default();
                *rows = rows.saturating_add(count.stored);
            }
        }
        Ok(())
    }

    /// Two files that hold one block: a copy, and its stamps would count twice.
    fn block_twice(&mut self) -> Option<Error> {
        self.blocks.sort();
        let (one, other) = self.blocks.windows(2).find_map(|pair| {
            let [one, other] = pair else { return None };
            ((one.0, one.1) == (other.0, other.1) && other.2 <= one.3).then_some((one, other))
        })?;
        let found = format!("block {} of channel {} of pool {:016x} in {} too", other.2, one.1, one.0, one.4.display());
        Some(Error::changed(&other.4, "blocks that no other file holds", found))
    }
}

/// Stamps of a node's segments held against what its channels say was stored.
fn count_faults(place: &Path, channels: &[&Channel], rows: &HashMap<i32, u64>, ended: bool) -> Vec<Error> {
    let mut faults = Vec::new();
    for channel in channels {
        let (stored, rows) = (channel.ever_stored().max(0) as u64, rows.get(&channel.channel).copied().unwrap_or(0));
        let last = ended && channel.state != ChannelState::Open;
        if rows < stored || last && rows > stored {
            let expected = format!("{stored} stamps of channel {} at {}", channel.channel, channel.point);
            let removed =
                if channel.removed.is_some() { " and in the note of those that the window removed" } else { "" };
            faults.push(Error::changed(place, expected, format!("{rows} in the files of stamps/{removed}")));
        }
    }
    let known: BTreeSet<i32> = channels.iter().map(|channel| channel.channel).collect();
    let unknown: BTreeSet<i32> = rows.keys().copied().filter(|channel| !known.contains(channel)).collect();
    if !unknown.is_empty() {
        faults.push(Error::changed(place, format!("channels {unknown:?}, of which there are stamps"), "none of them"));
    }
    faults
}

/// The first number that is missing among `part-N.parquet` of a folder, from `first` on.
fn missing_part(folder: &Path, first: u64) -> Result<Option<Error>> {
    let numbers = files_in(folder, "parquet")?;
    let numbers = numbers.iter().filter_map(|path| part_number(path)).filter(|&number| number >= first);
    let numbers: BTreeSet<u64> = numbers.collect();
    let missing = (first..).zip(&numbers).find(|(expected, found)| expected != *found).map(|(expected, _)| expected);
    Ok(missing.map(|missing| {
        let last = numbers.last().copied().unwrap_or(0);
        Error::changed(folder, format!("parts {first} to {last} without a gap"), format!("no part {missing}"))
    }))
}

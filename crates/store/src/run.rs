//! A run directory, opened: where everything lies, and what is there.
//!
//! Assumes: nothing about completeness; a run may be read while it is being written. Guarantees: a file that cannot be
//! read never hides the others: listings return what is there and, beside it, what was refused and why.

use std::path::{Path, PathBuf};

use tickscope_tick::{Interval, Label, NameError, Place, Tick};

use crate::brackets::{BracketColumns, read_brackets, write_brackets};
use crate::channels::{Channel, ChannelColumns, read_channels};
use crate::counts::{CountColumns, read_counts};
use crate::error::{Error, Result};
use crate::events::{Event, EventColumns, breaks, read_events};
use crate::manifest::Manifest;
use crate::noise::{NoiseColumns, read_noise};
use crate::removed::{Removed, RemovedNote, all_parts_in, parts_in};
use crate::returns::{ReturnColumns, read_returns};
use crate::rivals::{RivalColumns, read_rivals};
use crate::stamps::{PointStamps, StampColumns};
use crate::state::Writing;
use crate::table::{Columns, Field, TableReader, forget_run_id};
use crate::traces::KeyedReader;
use crate::whole_file::{files_in, keyed_folders, make_folders};

/// A run's directory and its manifest.
#[derive(Clone, Debug)]
pub struct Run {
    root: PathBuf,
    manifest: Manifest,
    /// Where traces and durations lie, if not in the run.
    apart: Option<PathBuf>,
}

/// Contents of the readable files, and the others with the reason of each.
#[derive(Debug)]
pub struct Listing<T> {
    /// From the files that can be read.
    pub found: T,
    /// The files that cannot.
    pub refused: Vec<Error>,
}

/// A pair of domains that there are brackets of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The domain that brackets are expressed in.
    pub reference: Label,
    /// The domain that is related to it.
    pub domain: Label,
}

/// The tables of a run whose rows are as they were written: what readers other than this crate may be pointed at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table<'a> {
    /// The stamps of one point.
    Stamps(&'a Place),
    /// The channels of all nodes.
    Channels,
    /// The events of all nodes.
    Events,
    /// The brackets of all pairs.
    Brackets,
    /// What was counted on all nodes.
    Counts,
    /// The joined stamps.
    Traces,
}

impl Table<'_> {
    /// Its columns; `None` of traces, whose columns are the layout's points.
    fn fields(&self) -> Option<&'static [Field]> {
        match self {
            Self::Stamps(_) => Some(StampColumns::FIELDS),
            Self::Channels => Some(ChannelColumns::FIELDS),
            Self::Events => Some(EventColumns::FIELDS),
            Self::Brackets => Some(BracketColumns::FIELDS),
            Self::Counts => Some(CountColumns::FIELDS),
            Self::Traces => None,
        }
    }
}

/// Where the files of a run lie; all of them, and nowhere else.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    root: &'a Path,
}

/// Names of all that a run writes into its directory, `run.json` last.
pub const OF_A_RUN: [&str; 17] = [
    "stamps",
    "channels",
    "removed",
    "events",
    "brackets",
    "counts",
    "returns",
    "noise",
    "rivals",
    "outputs",
    "stored",
    "traces",
    "durations",
    "report.html",
    "digests.json",
    "run.lock",
    "run.json",
];

impl<'a> Paths<'a> {
    /// Paths of the run at `root`.
    pub fn of(root: &'a Path) -> Self {
        Self { root }
    }

    /// `run.json`.
    pub fn manifest(&self) -> PathBuf {
        self.root.join("run.json")
    }

    /// `run.lock`, which whoever writes the run holds.
    pub fn lock(&self) -> PathBuf {
        self.root.join("run.lock")
    }

    /// Folder of all stamps of a node.
    pub fn node_stamps(&self, node: &str) -> PathBuf {
        self.root.join(format!("stamps/node={node}"))
    }

    /// Folder of a point's segments.
    pub fn stamps(&self, place: &Place) -> PathBuf {
        self.node_stamps(place.node.as_str()).join(format!("point={}", place.point))
    }

    /// File of a node's channels.
    pub fn channels(&self, node: &str) -> PathBuf {
        self.root.join(format!("channels/node={node}.parquet"))
    }

    /// The note of what the run's window removed of a node's stamps.
    pub fn removed(&self, node: &str) -> PathBuf {
        self.root.join(format!("removed/node={node}.parquet"))
    }

    /// Folder of the events.
    pub fn events(&self) -> PathBuf {
        self.root.join("events")
    }

    /// The next free file for what happened to a node's clocks: a clock monitor that is started again takes a new one.
    pub fn next_clock_events(&self, node: &str) -> PathBuf {
        let first = self.events().join(format!("{node}+clocks.parquet"));
        let later = (1..).map(|again| self.events().join(format!("{node}+clocks+{again}.parquet")));
        std::iter::once(first).chain(later).find(|place| !place.exists()).expect("numbers without an end")
    }

    /// Folder of a pair's brackets.
    pub fn brackets(&self, pair: &Pair) -> PathBuf {
        self.root.join(format!("brackets/reference={}/domain={}", pair.reference, pair.domain))
    }

    /// Folder of what was counted on a node.
    pub fn counts(&self, node: &str) -> PathBuf {
        self.root.join(format!("counts/node={node}"))
    }

    /// Folder of the acknowledgements of a node's stamps.
    pub fn returns(&self, node: &str) -> PathBuf {
        self.root.join(format!("returns/node={node}"))
    }

    /// Folder of what the kernel did on the cores of a node's host.
    pub fn noise(&self, node: &str) -> PathBuf {
        self.root.join(format!("noise/node={node}"))
    }

    /// Folder of what other programs said of a node's clock.
    pub fn rivals(&self, node: &str) -> PathBuf {
        self.root.join(format!("rivals/node={node}"))
    }

    /// Folder of the traces.
    pub fn traces(&self) -> PathBuf {
        self.root.join("traces")
    }

    /// The page that shows the run.
    pub fn report(&self) -> PathBuf {
        self.root.join("report.html")
    }

    /// Folder of the durations under a rho, in parts per billion.
    pub fn durations(&self, rho_ppb: u64) -> PathBuf {
        crate::traces::rho_folder(&self.root.join("durations"), rho_ppb)
    }
}

impl Run {
    /// Begins a run in `root`, which must not hold one yet.
    pub fn create(root: &Path, manifest: Manifest) -> Result<Self> {
        Self::expect_none(root)?;
        manifest.write(&Paths::of(root).manifest())?;
        Ok(Self { root: root.into(), manifest, apart: None })
    }

    /// Begins a run that is written from the start: at no moment does it look cut off.
    pub fn begin(root: &Path, manifest: Manifest) -> Result<(Self, Writing)> {
        Self::expect_none(root)?;
        make_folders(root)?;
        let writing = Writing::hold(&Paths::of(root).lock())?;
        Ok((Self::create(root, manifest)?, writing))
    }

    /// Refuses a directory that holds a run.
    pub fn expect_none(root: &Path) -> Result<()> {
        if Paths::of(root).manifest().exists() {
            return Err(Error::busy(root, "a directory without a run", "a run.json"));
        }
        Ok(())
    }

    /// Opens the run in `root`.
    pub fn open(root: &Path) -> Result<Self> {
        let manifest = Manifest::read(&Paths::of(root).manifest())?;
        forget_run_id();
        Ok(Self { root: root.into(), manifest, apart: None })
    }

    /// The same run as it is to be looked at: under another manifest, which is not written, and with traces and
    /// durations in the folder `apart`, if one is given.
    pub fn seen_as(self, manifest: Manifest, apart: Option<PathBuf>) -> Self {
        Self { manifest, apart, ..self }
    }

    /// The contents of `run.json`.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Replaces the manifest.
    pub fn set_manifest(&mut self, manifest: Manifest) -> Result<()> {
        manifest.write(&self.paths().manifest())?;
        self.manifest = manifest;
        Ok(())
    }

    /// The run's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where its files lie.
    pub fn paths(&self) -> Paths<'_> {
        Paths::of(&self.root)
    }

    /// Where traces and durations lie: in the run, unless they were made for one look at it.
    pub fn derived(&self) -> Paths<'_> {
        Paths::of(self.apart.as_deref().unwrap_or(&self.root))
    }

    /// Nodes that there are stamps or channels of, whether or not the manifest names them.
    pub fn nodes(&self) -> Result<Vec<String>> {
        let mut nodes: Vec<_> =
            keyed_folders(&self.root.join("stamps"), "node")?.into_iter().map(|(node, _)| node).collect();
        for file in files_in(&self.root.join("channels"), "parquet")? {
            let name = file.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.strip_prefix("node="));
            nodes.extend(name.map(String::from));
        }
        nodes.sort();
        nodes.dedup();
        Ok(nodes)
    }

    /// Points of `node` that there are stamps of.
    pub fn points(&self, node: &str) -> Result<Vec<String>> {
        let folders = keyed_folders(&self.paths().node_stamps(node), "point")?;
        Ok(folders.into_iter().map(|(point, _)| point).collect())
    }

    /// The stamps of a point; none if nothing was stamped there.
    pub fn stamps(&self, place: &Place) -> Result<PointStamps> {
        PointStamps::open(&self.paths().stamps(place))
    }

    /// The channels of all nodes.
    pub fn channels(&self) -> Result<Listing<Vec<Channel>>> {
        let files = files_in(&self.root.join("channels"), "parquet")?;
        Ok(Listing::gather(&files, read_channels, |all: &mut Vec<_>, mut some| all.append(&mut some)))
    }

    /// What the run's window removed of all nodes, by channel: node and counts.
    pub fn removed(&self) -> Result<Listing<Vec<(String, Removed)>>> {
        let files = files_in(&self.root.join("removed"), "parquet")?;
        let read = |place: &Path| {
            let node = place.file_stem().and_then(|stem| stem.to_str()?.strip_prefix("node=")).unwrap_or_default();
            let note = RemovedNote::read(place)?;
            Ok(note.channels().map(|removed| (node.to_owned(), removed.clone())).collect::<Vec<_>>())
        };
        Ok(Listing::gather(&files, read, |all: &mut Vec<_>, mut some| all.append(&mut some)))
    }

    /// How many stamps the run's window removed, as far as the notes can be read.
    pub fn removed_stamps(&self) -> Result<u64> {
        Ok(self.removed()?.found.iter().fold(0, |sum: u64, (_, of)| sum.saturating_add(of.stamps.max(0) as u64)))
    }

    /// All events, file by file.
    pub fn events(&self) -> Result<Listing<Vec<Event>>> {
        let files = files_in(&self.paths().events(), "parquet")?;
        Ok(Listing::gather(&files, read_events, |all: &mut Vec<_>, mut some| all.append(&mut some)))
    }

    /// The spans in which `domain` is not to be trusted ([`breaks`]). Events that cannot be read are an error here:
    /// what they tell might void the evidence.
    pub fn breaks<D>(&self, domain: &str) -> Result<Vec<Interval<Tick<D>>>> {
        let mut events = self.events()?;
        if let Some(refused) = events.refused.pop() {
            return Err(refused);
        }
        breaks(&events.found, domain).map_err(|wrong| {
            Error::corrupt(&self.paths().events(), "events that end after they begin", wrong.to_string())
        })
    }

    /// Pairs of domains that there are brackets of; folders whose names are no labels are refused.
    pub fn pairs(&self) -> Result<Listing<Vec<Pair>>> {
        let mut pairs = Listing { found: Vec::new(), refused: Vec::new() };
        for (reference, folder) in keyed_folders(&self.root.join("brackets"), "reference")? {
            for (domain, folder) in keyed_folders(&folder, "domain")? {
                let pair = reference.parse().and_then(|reference| Ok(Pair { reference, domain: domain.parse()? }));
                match pair {
                    Ok(pair) => pairs.found.push(pair),
                    Err(NameError { expected, found, .. }) => {
                        pairs.refused.push(Error::foreign(&folder, expected, format!("'{found}'")));
                    }
                }
            }
        }
        Ok(pairs)
    }

    /// All brackets of a pair.
    pub fn brackets(&self, pair: &Pair) -> Result<Listing<BracketColumns>> {
        let files = files_in(&self.paths().brackets(pair), "parquet")?;
        Ok(Listing::gather(&files, read_brackets, BracketColumns::append))
    }

    /// What was counted on a node; none where no channel only counted.
    pub fn counts(&self, node: &str) -> Result<Listing<CountColumns>> {
        let files = files_in(&self.paths().counts(node), "parquet")?;
        Ok(Listing::gather(&files, read_counts, CountColumns::append))
    }

    /// The answered acknowledgements of a node's stamps; none where none were sent back.
    pub fn returns(&self, node: &str) -> Result<Listing<ReturnColumns>> {
        let files = files_in(&self.paths().returns(node), "parquet")?;
        Ok(Listing::gather(&files, read_returns, ReturnColumns::append))
    }

    /// What the kernel did on the cores of a node's host; none where it was not recorded.
    pub fn noise(&self, node: &str) -> Result<Listing<NoiseColumns>> {
        let files = files_in(&self.paths().noise(node), "parquet")?;
        Ok(Listing::gather(&files, read_noise, NoiseColumns::append))
    }

    /// What other programs said of a node's clock; none if none was asked.
    pub fn rivals(&self, node: &str) -> Result<Listing<RivalColumns>> {
        let files = files_in(&self.paths().rivals(node), "parquet")?;
        Ok(Listing::gather(&files, read_rivals, RivalColumns::append))
    }

    /// Adds brackets of a pair as a file of their own, named `name`.
    pub fn add_brackets(&self, pair: &Pair, name: &str, brackets: &BracketColumns) -> Result<()> {
        write_brackets(&self.paths().brackets(pair).join(format!("{name}.parquet")), brackets)
    }

    /// Files that cannot be read, and why: of channels and events by all their rows, of stamps by their footers. They
    /// hide no other file; but whoever shows the run's results has to name them.
    pub fn refused(&self) -> Result<Vec<Error>> {
        let mut refused = self.channels()?.refused;
        refused.extend(self.events()?.refused);
        refused.extend(self.removed()?.refused);
        for (_, node) in keyed_folders(&self.root.join("stamps"), "node")? {
            for (_, folder) in keyed_folders(&node, "point")? {
                refused.extend(PointStamps::open(&folder)?.into_refused());
            }
        }
        Ok(refused)
    }

    /// The files of a table, judged by their footers.
    pub fn files(&self, table: Table<'_>) -> Result<Listing<Vec<PathBuf>>> {
        let mut refused = Vec::new();
        let folders = match table {
            Table::Stamps(place) => vec![self.paths().stamps(place)],
            Table::Channels => vec![self.root.join("channels")],
            Table::Events => vec![self.paths().events()],
            Table::Brackets => {
                let pairs = self.pairs()?;
                refused = pairs.refused;
                pairs.found.iter().map(|pair| self.paths().brackets(pair)).collect()
            }
            Table::Counts => self.manifest.nodes.iter().map(|node| self.paths().counts(node.name.as_str())).collect(),
            Table::Traces => vec![self.derived().traces()],
        };
        let mut files = Vec::new();
        for folder in folders {
            files.extend(match parts_in(&folder) {
                Ok((_, parts)) => parts,
                Err(why) => all_parts_in(&folder, why, &mut refused)?,
            });
        }
        let fields = table.fields();
        let readable = |file: &Path| {
            fields.map_or_else(|| TableReader::open(file), |known| TableReader::open_as(file, known))?;
            Ok(file.to_path_buf())
        };
        let mut listing = Listing::gather(&files, readable, Vec::push);
        listing.refused.append(&mut refused);
        Ok(listing)
    }

    /// The files of traces.
    pub fn traces(&self) -> Result<Listing<Vec<KeyedReader>>> {
        let files = files_in(&self.derived().traces(), "parquet")?;
        Ok(Listing::gather(&files, KeyedReader::open, Vec::push))
    }

    /// The files of durations under a rho, in parts per billion.
    pub fn durations(&self, rho_ppb: u64) -> Result<Listing<Vec<KeyedReader>>> {
        let files = files_in(&self.derived().durations(rho_ppb), "parquet")?;
        Ok(Listing::gather(&files, KeyedReader::open, Vec::push))
    }
}

impl<T: Default> Listing<T> {
    fn gather<U>(files: &[PathBuf], read: impl Fn(&Path) -> Result<U>, add: impl Fn(&mut T, U)) -> Self {
        let mut listing = Self { found: T::default(), refused: Vec::new() };
        for file in files {
            match read(file) {
                Ok(some) => add(&mut listing.found, some),
                Err(reason) => listing.refused.push(reason),
            }
        }
        listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;
    use crate::events::write_events;
    use crate::sample::manifest;
    use crate::scratch::Scratch;
    use crate::table::TableWriter;
    use tickscope_tick::Local;

    #[test]
    fn a_run_is_begun_once_and_opened_often() {
        let scratch = Scratch::new();
        Run::create(scratch.path(), manifest()).unwrap();
        assert!(Run::create(scratch.path(), manifest()).unwrap_err().is_busy());
        let mut run = Run::open(scratch.path()).unwrap();
        run.set_manifest(Manifest { ended_unix_ms: Some(9), ..manifest() }).unwrap();
        assert_eq!(Run::open(scratch.path()).unwrap().manifest().ended_unix_ms, Some(9));
    }

    #[test]
    fn a_refused_file_does_not_hide_the_others() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let event = Event { node: "client".into(), what: EventKind::Lost, ..Event::default() };
        write_events(&run.paths().events().join("b.parquet"), std::slice::from_ref(&event)).unwrap();
        std::fs::write(run.paths().events().join("a.parquet"), "not a table").unwrap();
        let events = run.events().unwrap();
        assert_eq!((events.found, events.refused.len()), (vec![event], 1));
        assert!(events.refused[0].to_string().contains("a.parquet"));
        assert!(run.breaks::<Local>("client.realtime").unwrap_err().to_string().contains("a.parquet"));
    }

    #[test]
    fn a_table_with_an_unknown_column_is_refused_however_it_is_asked_for() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let place: Place = "client.send".parse().unwrap();
        let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() };
        let paths = run.paths();
        let folders = [paths.stamps(&place), paths.root.join("channels"), paths.events(), paths.brackets(&pair)];
        for folder in folders {
            let fields = [Field::of::<i64>("colour".into())];
            TableWriter::begin(&folder.join("x.parquet"), &fields, &[]).unwrap().finish().unwrap();
        }
        let told = |refused: &[Error]| refused.iter().filter(|why| why.to_string().contains("'colour'")).count();
        assert_eq!(told(&run.refused().unwrap()), 3, "stamps, channels and events");
        assert_eq!(told(run.stamps(&place).unwrap().refused()), 1);
        assert_eq!(told(&run.channels().unwrap().refused), 1);
        assert_eq!(told(&run.events().unwrap().refused), 1);
        assert_eq!(told(&run.brackets(&pair).unwrap().refused), 1);
        for table in [Table::Stamps(&place), Table::Channels, Table::Events, Table::Brackets] {
            assert_eq!(told(&run.files(table).unwrap().refused), 1);
        }
    }

    #[test]
    fn a_table_of_a_later_version_is_ignored() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let fields = [Field::of::<i64>("colour".into())];
        TableWriter::begin(&scratch.path().join("counts/x.parquet"), &fields, &[]).unwrap().finish().unwrap();
        run.write_digests().unwrap();
        assert!(run.refused().unwrap().is_empty() && run.check().unwrap().is_empty());
    }

    #[test]
    fn a_table_is_its_readable_files_and_beside_them_the_others() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() };
        run.add_brackets(&pair, "probe", &BracketColumns::default()).unwrap();
        std::fs::write(run.paths().brackets(&pair).join("torn.parquet"), "PAR1").unwrap();
        let brackets = run.files(Table::Brackets).unwrap();
        assert_eq!(brackets.found, [run.paths().brackets(&pair).join("probe.parquet")]);
        assert_eq!(brackets.refused.len(), 1);
        assert!(run.files(Table::Traces).unwrap().found.is_empty());
        std::fs::create_dir(run.paths().brackets(&pair).with_file_name("domain=elsewhere")).unwrap();
        let refused = run.files(Table::Brackets).unwrap().refused;
        assert!(refused.len() == 2 && refused[1].to_string().contains("'elsewhere'"), "{refused:?}");
    }
}

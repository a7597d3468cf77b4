//! Tables into a run: written aside, and given its name once it is whole.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tickscope_store::{
    Assumption, Channel, ChannelCount, ChannelState, CounterFacts, DeclaredFrequency, Event, EventKind, Evidence,
    Manifest, Node, Origin, Point, ReadingWidth, Run, SCHEMA, SameBoot, Sharing, StampColumns, WholeFolder,
    next_segment, write_channels, write_events, write_segment,
};
use tickscope_tick::{BootId, Domain, NodeName, Place, PointName, counted};

use crate::error::{Error, open};
use crate::form::{Plan, ReadClock, Table};
use crate::rows::{Counts, Stamp, read};

/// Stamps that are held before they are written.
const MOST_HELD: usize = 1 << 20;

/// What became of the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// One a table.
    pub files: Vec<FileRead>,
    /// What whoever imports them has to know, a sentence each.
    pub notes: Vec<String>,
}

/// What was found in one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRead {
    /// Where it lies.
    pub file: PathBuf,
    /// The node whose stamps it holds.
    pub node: NodeName,
    /// Its rows.
    pub rows: u64,
    /// Stamps taken of it.
    pub stamps: u64,
    /// Records of the file that are none of the table's: other events, packets, spans.
    pub others: u64,
    /// Times that say that no stamp was taken.
    pub not_taken: u64,
    /// Stamps earlier than the one before them of the same point.
    pub backward: u64,
    /// The line of the first of them.
    pub first_backward: Option<u64>,
}

/// A node as it comes together from its tables.
struct Growing {
    boot: BootId,
    clock: ReadClock,
    /// The step of its readings.
    step: i64,
    /// How wide its files say that a reading is.
    width_ticks: u64,
    points: BTreeMap<PointName, Point>,
    channels: Vec<Channel>,
}

/// Writes the tables of a plan as a run at `out`, where nothing may be.
pub(crate) fn write(plan: &Plan, out: &Path) -> Result<Imported, Error> {
    if out.exists() {
        let found = "expected a place where nothing is, found something. Name another with --out, or remove it";
        return Err(Error::input(out.display(), found));
    }
    let folder = WholeFolder::begin(out)?;
    let imported = fill(plan, folder.path())?;
    folder.finish()?;
    Ok(imported)
}

fn fill(plan: &Plan, root: &Path) -> Result<Imported, Error> {
    let manifest = manifest(plan, Vec::new());
    let (mut run, writing) = Run::begin(root, manifest.clone())?;
    let mut nodes: Vec<(NodeName, Growing)> = Vec::new();
    let (mut files, mut events) = (Vec::new(), Vec::new());
    for table in &plan.tables {
        let at = nodes.iter().position(|(name, _)| *name == table.node).unwrap_or_else(|| {
            nodes.push((table.node.clone(), Growing::of(&table.clock)));
            nodes.len() - 1
        });
        let counts = take(&run, table, &mut nodes[at].1)?;
        let read = FileRead::of(table, &counts);
        events.push(Event {
            node: table.node.to_string(),
            what: EventKind::Log,
            value: i64::try_from(counts.stamps).ok(),
            text: read.sentence(),
            ..Event::default()
        });
        files.push(read);
    }
    for (node, growing) in &nodes {
        write_channels(&run.paths().channels(node.as_str()), &growing.channels)?;
    }
    write_events(&run.paths().events().join("import.parquet"), &events)?;
    let points = nodes.iter().flat_map(|(_, growing)| growing.points.values().cloned()).collect();
    let reference = manifest.reference.clone();
    let nodes = nodes.into_iter().map(|(name, growing)| growing.node(name)).collect();
    let ended_unix_ms = Some(unix_ms());
    run.set_manifest(Manifest { nodes, points, reference, ended_unix_ms, ..manifest })?;
    run.write_digests()?;
    drop(writing);
    Ok(Imported { files, notes: plan.notes.clone() })
}

/// Takes the stamps of one table; a channel for each of its points.
fn take(run: &Run, table: &Table, node: &mut Growing) -> Result<Counts, Error> {
    let first = node.channels.len() as i32 + 1;
    let mut held: Vec<StampColumns> = Vec::new();
    let mut stored: Vec<i64> = Vec::new();
    let mut waiting = 0;
    let mut names: Vec<PointName> = Vec::new();
    let write = |held: &mut Vec<StampColumns>, names: &[PointName]| -> Result<(), Error> {
        for ((stamps, name), channel) in
            held.iter_mut().zip(names).zip(first..).filter(|((stamps, _), _)| !stamps.tick.is_empty())
        {
            let mut stamps = std::mem::take(stamps);
            stamps.fill_with_nulls();
            let count = ChannelCount { channel, stored: stamps.tick.len() as u64, ..ChannelCount::default() };
            let place = Place { node: table.node.clone(), point: name.clone() };
            let segment = next_segment(&run.paths().stamps(&place))?;
            write_segment(&segment, &stamps, &Origin { counts: vec![count], ..Origin::default() })?;
        }
        Ok(())
    };
    let counts = read(table, open(&table.file)?, |stamp: Stamp, points: &[PointName]| {
        if names.len() < points.len() {
            names = points.to_vec();
            held.resize_with(points.len(), StampColumns::default);
            stored.resize(points.len(), 0);
        }
        push(&mut held[stamp.point], &stamp, first, table);
        stored[stamp.point] += 1;
        waiting += 1;
        if waiting == MOST_HELD {
            waiting = 0;
            write(&mut held, &names)?;
        }
        Ok(())
    })?;
    write(&mut held, &names)?;
    node.step = if node.step == 0 { counts.step } else { common_step(node.step, counts.step) };
    node.width_ticks = node.width_ticks.max(counts.width_ticks);
    for ((name, stored), channel) in names.iter().zip(stored).zip(first..).filter(|((_, stored), _)| *stored > 0) {
        node.channels.push(node.channel(table, name, channel, stored));
        let point = Point {
            node: table.node.clone(),
            name: name.clone(),
            ordering: table.ordering,
            counter: None,
            resolution_ticks: None,
        };
        node.points.insert(name.clone(), point);
    }
    Ok(counts)
}

fn push(columns: &mut StampColumns, stamp: &Stamp, first: i32, table: &Table) {
    columns.tick.push(stamp.tick);
    columns.id.push(stamp.id);
    columns.channel.push(first + stamp.point as i32);
    if table.kind.is_some() {
        columns.kind.push(stamp.kind);
    }
    if table.value.is_some() {
        columns.value.push(stamp.value);
    }
}

/// Of two powers of ten the one that divides both.
fn common_step(one: i64, other: i64) -> i64 {
    one.min(other)
}

impl Growing {
    fn of(clock: &ReadClock) -> Self {
        let mut boot = [0; 16];
        boot[..8].copy_from_slice(&random().to_le_bytes());
        boot[8..].copy_from_slice(&random().to_le_bytes());
        Self {
            boot: BootId(boot),
            clock: clock.clone(),
            step: 0,
            width_ticks: 1,
            points: BTreeMap::new(),
            channels: Vec::new(),
        }
    }

    fn channel(&self, table: &Table, point: &PointName, channel: i32, stored: i64) -> Channel {
        let domain = Domain { boot: self.boot, counter: self.clock.clock, epoch: 0 };
        Channel {
            channel,
            node: table.node.clone(),
            pid: 0,
            process_start: 0,
            pool: 0,
            serial: channel as u32,
            thread: 0,
            point: point.clone(),
            ordering: table.ordering.to_string(),
            domain: domain.to_string(),
            policy: Channel::LOG_POLICY.into(),
            parameter: None,
            stored,
            dropped: 0,
            refused: 0,
            uncommitted: 0,
            state: ChannelState::Closed,
            removed: None,
            seen: None,
            kept: None,
            counted: None,
            overwritten: None,
        }
    }

    fn node(self, name: NodeName) -> Node {
        let step = u64::try_from(self.step.max(1)).unwrap_or(1);
        let width_ticks = step.max(self.width_ticks);
        let seen = match width_ticks > step {
            true => format!("imported: the widest bound of any span that was taken, {width_ticks} ns"),
            false => format!("imported: every reading is a whole multiple of {step}"),
        };
        let ReadClock { clock, hertz, tolerance_ppm, origin, .. } = self.clock;
        Node {
            name,
            boot: self.boot,
            cpu_model: "not known: imported".into(),
            kernel: "not known: imported".into(),
            host: None,
            counter: CounterFacts {
                counter: clock,
                invariant: true, // assumed, and said so in the manifest
                clocksource: clock.name().into(),
                hypervisor: None,
                hypervisor_clocks: Vec::new(),
                trapped: false,
                fence_serialises: None,
                frequency: DeclaredFrequency { hertz, tolerance_ppm, origin },
                sharing: Sharing { bound_ticks: None, checked: Sharing::IMPORTED.into() },
                reading: Some(ReadingWidth { width_ticks, seen }),
            },
            command: Vec::new(),
            injected: None,
            clocks: BTreeMap::new(),
        }
    }
}

impl FileRead {
    fn of(table: &Table, counts: &Counts) -> Self {
        Self {
            file: table.file.clone(),
            node: table.node.clone(),
            rows: counts.rows,
            stamps: counts.stamps,
            others: counts.others,
            not_taken: counts.not_taken,
            backward: counts.backward,
            first_backward: counts.first_backward,
        }
    }

    /// What was found, in words.
    pub fn sentence(&self) -> String {
        let (rows, stamps) = (counted(self.rows, "row"), counted(self.stamps, "stamp"));
        let mut text = format!("{}: {rows}, {stamps} of {}", self.file.display(), self.node);
        if self.others > 0 {
            text += &format!("; {} not asked for", counted(self.others, "other record"));
        }
        if self.not_taken > 0 {
            text += &format!("; {} not taken there", counted(self.not_taken, "stamp"));
        }
        if let Some(line) = self.first_backward {
            text += &format!(
                "; {} earlier than the one before at the same point, first in line {line}: rows out of order, or a \
                 clock that went backward",
                counted(self.backward, "stamp")
            );
        }
        text
    }
}

/// The manifest of a run of that plan, as far as it is known before its tables are read.
fn manifest(plan: &Plan, nodes: Vec<Node>) -> Manifest {
    let reference = &plan.tables[0];
    let assumed =
        |statement: &String| Assumption { statement: statement.clone(), origin: "imported".into(), kind: None };
    let one_rate = "each clock of the files ran at one rate, and nobody set it: the files do not say".to_owned();
    let width =
        "a reading is no wider than the power of ten that divides all of its clock's: the files do not say in what \
                 steps a counter goes on"
            .to_owned();
    let taken = format!(
        "imported from {}: its stamps are what they say, and its ids name the same things at every point",
        plan.from
    );
    let now = unix_ms();
    Manifest {
        schema: SCHEMA,
        run: random(),
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: now,
        ended_unix_ms: None,
        nodes,
        reference: tickscope_tick::Label { node: reference.node.clone(), clock: reference.clock.clock },
        rho: Vec::new(),
        evidence: Evidence::default(),
        same_boot: SameBoot::Ignore,
        points: Vec::new(),
        policies: Vec::new(),
        dumps: Vec::new(),
        limits: Vec::new(),
        layout: plan.layout.clone(),
        assumptions: [&taken, &one_rate, &width]
            .into_iter()
            .chain(&plan.assumptions)
            .chain(&plan.notes)
            .map(assumed)
            .collect(),
        seconds: None,
        began: None,
        keep_ms: None,
        storage: None,
        segments: Default::default(),
        cost: None,
        stamp_directories: BTreeMap::new(),
        sessions: BTreeMap::new(),
        run_file: None,
        run_file_directory: None,
        revision: None,
    }
}

fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0))
}

/// Bits that no other run has: the seed of the standard library's maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

//! X-Lap's pair of tables with its `xlap.yml`: a row a packet, by sequence number and type; a column a stamp.
//!
//! What X-Lap calls a cycle-stamp is a tick of the host's time-stamp counter and becomes a stamp of the nodes `sender`
//! and `receiver`; their rates come from the two stamps of each host that have both a cycle and a time. A point that
//! has a time alone becomes one of the nodes `sender-time` and `receiver-time`: X-Lap reads a time and a cycle one
//! after the other in an order that nobody knows, so nothing brackets one by the other, and nothing the hosts.
//!
//! The order of points is that of the packets. Two points that packets pass now in one order and now in the other are
//! not both on the path: one of them is a branch, and not the one that a duration or a reference of `xlap.yml` names.
//! X-Lap's own durations are extra stages.

mod yaml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tickscope_store::LayoutText;
use tickscope_tick::{Clock, NodeName, Ordering, PointName};

use crate::cells::Separator;
use crate::error::{Error, open};
use crate::form::{MOST_TOLERANCE_PPM, Plan, ReadClock, Table, Times, Unit, Zero, misnamed, shortened};
use crate::lines::Lines;
use crate::records::{Form, header};
use crate::rows::read;
use yaml::Yaml;

/// Both sides, sender first.
const SIDES: [&str; 2] = ["sender", "receiver"];
/// Columns that hold a packet's sequence number, and its type, where `xlap.yml` does not name them.
const SEQUENCE: [&str; 6] = ["SeqNo", "seqno", "Sequence", "sequence", "seq", "id"];
const KIND: [&str; 6] = ["Kind", "kind", "PacketType", "packet_type", "Type", "type"];
/// How far a span of times may be off: a microsecond at either end, and as much for the cycles read beside them.
const SPAN_ERROR_US: i128 = 4;

/// A stamp that `xlap.yml` names.
struct Declared {
    /// Its name without the suffix.
    base: String,
    column: String,
    is_cycle: bool,
}

/// Reads `xlap.yml`; paths in it start at `folder`.
pub(crate) fn plan(text: &str, folder: &Path, place: &Path) -> Result<Plan, Error> {
    let wrong = |why: String| Error::input(place.display(), why);
    let yaml = Yaml::read(text).map_err(|why| wrong(format!("{why}. Correct the line")))?;
    let files = files(&yaml, folder).map_err(wrong)?;
    let pillars = pillars(&yaml);
    let mut tables = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut branches = Vec::new();
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let mut notes = Vec::new();
    let mut timed = Vec::new();
    for (side, file) in files.iter().enumerate() {
        let names = names(file)?;
        let declared = declared(&yaml, side, &names).map_err(wrong)?;
        let base = Table { file: file.clone(), ..empty(side, &yaml, &names).map_err(wrong)? };
        let (cycles, times) = split(&declared);
        let clock = counter(&yaml, side, &base, &declared).map_err(|why| match why {
            Why::Description(why) => wrong(why),
            Why::File(error) => error,
        })?;
        let of_cycles = Table { clock, times: Times::Each(points(&cycles).map_err(wrong)?), ..base.clone() };
        let order = Order::of(&of_cycles, &pillars)?;
        for name in &order.path {
            path.push(format!("{}.{name}", SIDES[side]));
        }
        branches.extend(order.branches.iter().map(|(from, to)| format!("{0}.{from} > {0}.{to}", SIDES[side])));
        places.extend(cycles.iter().map(|one| (one.base.clone(), format!("{}.{}", SIDES[side], one.base))));
        tables.push(of_cycles);
        if !times.is_empty() {
            let node = NodeName::new(format!("{}-time", SIDES[side])).expect("a plain name");
            let clock = ReadClock {
                clock: Clock::Monotonic,
                unit: Unit::Us,
                hertz: 1_000_000_000,
                tolerance_ppm: tickscope_tick::Frequency::DEFAULT_TOLERANCE_PPM,
                origin: "X-Lap's time-stamps are microseconds".into(),
            };
            notes.push(format!(
                "without guarantee: {} of the {} have time-stamps alone, and are points of {node}, which nothing \
                 relates to its cycles",
                times.iter().map(|one| one.base.as_str()).collect::<Vec<_>>().join(", "),
                SIDES[side]
            ));
            timed.push(Table { node, clock, times: Times::Each(points(&times).map_err(wrong)?), ..base });
        }
    }
    tables.extend(timed);
    let unrelated = "nothing brackets the sender's clock by the receiver's, so no duration between them is given";
    notes.push(format!("without guarantee: {unrelated}"));
    let extra = extra(&yaml, &places, &path, &branches);
    let layout = LayoutText { path, branches, extra, ..LayoutText::default() };
    layout.parse(None).map_err(|why| wrong(format!("the points that it names make no layout: {why}")))?;
    let rate =
        "X-Lap's cycles run at one rate, the median one of its references, whose times were not read ever later \
                after the cycles"
            .into();
    Ok(Plan { from: "X-Lap".into(), tables, layout, assumptions: vec![rate], notes })
}

/// The two tables.
fn files(yaml: &Yaml, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let of = |side: &&str| {
        let file = yaml.get("data_files").and_then(|files| files.get(side)?.word());
        file.map(|file| folder.join(file)).ok_or_else(|| {
            format!("expected data_files with the files of sender and receiver, found none of {side}. Add it")
        })
    };
    SIDES.iter().map(of).collect()
}

/// The names of a table's columns.
fn names(file: &Path) -> Result<Vec<String>, Error> {
    let plain = Table { file: file.into(), ..plain(0) };
    header(&plain, Separator::Comma, &mut Lines::of(open(file)?, file))
}

/// A table without columns.
fn plain(side: usize) -> Table {
    Table {
        file: PathBuf::new(),
        node: NodeName::new(SIDES[side]).expect("a plain name"),
        clock: ReadClock { clock: Clock::Tsc, unit: Unit::Ticks, hertz: 1, tolerance_ppm: 0, origin: String::new() },
        form: Form::Cells(Separator::Comma),
        service: None,
        columns: None,
        id: String::new(),
        kind: None,
        value: None,
        times: Times::Each(Vec::new()),
        zero: Zero::Missing,
        ordering: Ordering::Plain,
    }
}

/// A table with its columns of sequence numbers and types.
fn empty(side: usize, yaml: &Yaml, names: &[String]) -> Result<Table, String> {
    let find = |key: &str, known: &[&str]| match yaml.get(key).and_then(Yaml::word) {
        Some(named) => names.iter().find(|name| *name == named).cloned(),
        None => known.iter().find_map(|known| names.iter().find(|name| name == known).cloned()),
    };
    let id = find("sequence", &SEQUENCE).ok_or_else(|| {
        format!(
            "expected a column of sequence numbers in {}'s table ({}), found none. Add `sequence: COLUMN`",
            SIDES[side],
            SEQUENCE.join(", ")
        )
    })?;
    let kind = find("type", &KIND);
    if kind.is_none() && yaml.get("packet_types").is_some() {
        let known = KIND.join(", ");
        return Err(format!(
            "expected a column of packet types in {}'s table ({known}), found none. Add `type: COLUMN`",
            SIDES[side]
        ));
    }
    Ok(Table { id, kind, ..plain(side) })
}

/// The stamps of one side.
fn declared(yaml: &Yaml, side: usize, names: &[String]) -> Result<Vec<Declared>, String> {
    let stamps = yaml.get("stamps").map(Yaml::entries).unwrap_or_default();
    if stamps.is_empty() {
        return Err("expected stamps, each with its Source and Type, found none. Add them".into());
    }
    let mut found = Vec::new();
    for (name, stamp) in stamps {
        let of = |key: &str| stamp.get(key).and_then(Yaml::word);
        let source = of("Source").and_then(|source| SIDES.iter().position(|side| *side == source));
        let is_cycle = match of("Type") {
            Some("cycle") => Some(true),
            Some("time") => Some(false),
            _ => None,
        };
        let (Some(source), Some(is_cycle)) = (source, is_cycle) else {
            return Err(format!(
                "stamps: expected a Source (sender, receiver) and a Type (time, cycle) of {}, found another. Correct \
                 it",
                shortened(name)
            ));
        };
        if source != side {
            continue;
        }
        let suffix = if is_cycle { "_C" } else { "_T" };
        let base = name.strip_suffix(suffix).unwrap_or(name);
        let columns = [name.clone(), format!("{base}{suffix}")];
        let column = columns.into_iter().find(|column| names.contains(column)).ok_or_else(|| {
            format!(
                "expected a column {base}{suffix} in {}'s table, found none. Correct stamps, or the table",
                SIDES[side]
            )
        })?;
        found.push(Declared { base: base.into(), column, is_cycle });
    }
    if !found.iter().any(|one| one.is_cycle) {
        return Err(format!(
            "expected cycle-stamps of the {}, found none. Import its times by a mapping in TOML",
            SIDES[side]
        ));
    }
    Ok(found)
}

/// The points by their cycles, and those that have a time alone.
fn split(declared: &[Declared]) -> (Vec<&Declared>, Vec<&Declared>) {
    let (cycles, times): (Vec<_>, Vec<_>) = declared.iter().partition(|one| one.is_cycle);
    let alone = times.into_iter().filter(|time| !cycles.iter().any(|cycle| cycle.base == time.base)).collect();
    (cycles, alone)
}

fn points(declared: &[&Declared]) -> Result<Vec<(PointName, String)>, String> {
    let of = |one: &&Declared| Ok((PointName::new(one.base.as_str()).map_err(misnamed)?, one.column.clone()));
    declared.iter().map(of).collect()
}

/// A stamp's name without its suffix.
fn base_of(name: &str) -> &str {
    name.strip_suffix("_T").or_else(|| name.strip_suffix("_C")).unwrap_or(name)
}

/// Both ends of X-Lap's durations, without suffixes.
fn durations(yaml: &Yaml) -> impl Iterator<Item = (&str, &str)> {
    let durations = yaml.get("durations").map(Yaml::entries).unwrap_or_default().iter();
    durations.filter_map(|(_, of)| Some((base_of(of.get("Start")?.word()?), base_of(of.get("Stop")?.word()?))))
}

/// Points that durations and references name.
fn pillars(yaml: &Yaml) -> Vec<&str> {
    let references = yaml.get("cycle_reference").map(Yaml::entries).unwrap_or_default().iter();
    let references = references.filter_map(|(_, name)| name.word().map(base_of));
    durations(yaml).flat_map(|(from, to)| [from, to]).chain(references).collect()
}

/// X-Lap's durations between points that have cycles, but for those that are stages anyway.
fn extra(yaml: &Yaml, places: &BTreeMap<String, String>, path: &[String], branches: &[String]) -> Vec<String> {
    let mut known: Vec<String> = path.windows(2).map(|two| format!("{} > {}", two[0], two[1])).collect();
    known.extend_from_slice(branches);
    let mut extra = Vec::new();
    for (from, to) in durations(yaml) {
        let Some((from, to)) = places.get(from).zip(places.get(to)).filter(|(from, to)| from != to) else { continue };
        let stage = format!("{from} > {to}");
        if !known.contains(&stage) {
            extra.push(stage.clone());
            known.push(stage);
        }
    }
    extra
}

/// What is wrong: with `xlap.yml`, or with a table.
enum Why {
    Description(String),
    File(Error),
}

/// The counter of one side, at the rate that its references show.
fn counter(yaml: &Yaml, side: usize, base: &Table, declared: &[Declared]) -> Result<ReadClock, Why> {
    let name = SIDES[side];
    let named = |key: &str| yaml.get(key).and_then(|of| of.get(name)?.word());
    if let Some(hertz) = named("hertz") {
        let hertz = hertz.parse().ok().filter(|hertz| (1_000..=100_000_000_000).contains(hertz));
        let hertz = hertz.ok_or_else(|| {
            Why::Description(format!("expected hertz of {name} from 1000 to 10^11, found another. Correct it"))
        })?;
        return Ok(clock(hertz, tickscope_tick::Frequency::DEFAULT_TOLERANCE_PPM, "declared in xlap.yml".into()));
    }
    let column = |key: &str, is_cycle: bool| {
        let base = named(key).map(base_of);
        declared
            .iter()
            .find(|one| one.is_cycle == is_cycle && Some(one.base.as_str()) == base)
            .map(|one| one.column.clone())
    };
    let (Some(cycle), Some(time)) = (column("cycle_reference", true), column("time_reference", false)) else {
        return Err(Why::Description(format!(
            "expected cycle_reference and time_reference of {name}, two of its stamps, found none. Add them, or hertz"
        )));
    };
    rate(base, name, cycle, time)
}

/// The rate at which most packets have their cycle and their time, and how far that may be off.
fn rate(base: &Table, name: &str, cycle: String, time: String) -> Result<ReadClock, Why> {
    let both = ["cycle", "time"].map(|name| PointName::new(name).expect("a plain name"));
    let times = Times::Each(both.into_iter().zip([cycle, time]).collect());
    let table = Table { times, ..base.clone() };
    let mut pairs = Sample::default();
    each_pair(&table, |pair| pairs.add(pair))?;
    let seen = pairs.seen;
    let wrong = |found: String| {
        Why::Description(format!(
            "expected cycles and microseconds of the {name}'s references at 10 MHz to 100 GHz, known to \
             {MOST_TOLERANCE_PPM} ppm, found {found}. Correct the references or the times' unit, or add hertz"
        ))
    };
    let Some(line) = Line::through(pairs.kept) else {
        return Err(wrong(format!("{seen} packets with both, no two of them apart in time")));
    };
    let believed = 10_000_000..=100_000_000_000;
    let Some(hertz) = u64::try_from(line.hertz()).ok().filter(|hertz| believed.contains(hertz)) else {
        return Err(wrong(format!("{} cycles in {} us", line.cycles, line.us)));
    };
    let tolerance_ppm = line.error_ppm().saturating_add(tickscope_tick::Frequency::DEFAULT_TOLERANCE_PPM);
    if tolerance_ppm > MOST_TOLERANCE_PPM {
        return Err(wrong(format!("{hertz} Hz to {tolerance_ppm} ppm, by times {} us apart", line.us)));
    }
    let origin = format!(
        "the references of xlap.yml: the median rate of packets {} us apart; 95 of 100 times lie within {} us of it",
        line.us, line.beside_us
    );
    Ok(clock(hertz, tolerance_ppm, origin))
}

/// Calls `found` with the cycle and the time of each packet that has both.
fn each_pair(table: &Table, mut found: impl FnMut((i64, i64))) -> Result<(), Why> {
    let mut pending: Option<i64> = None;
    let file = open(&table.file).map_err(Why::File)?;
    let all = read(table, file, |stamp, _| {
        match (stamp.point, pending.take()) {
            (0, _) => pending = Some(stamp.tick),
            (_, Some(cycle)) => found((cycle, stamp.tick)),
            _ => {}
        }
        Ok(())
    });
    all.map(|_| ()).map_err(Why::File)
}

/// A cycle and a time, us, that a host read one after the other.
type Pair = (i64, i64);

/// So many of the packets, evenly chosen.
#[derive(Default)]
struct Sample {
    kept: Vec<Pair>,
    seen: usize,
    step: usize,
}

impl Sample {
    /// Packets that are kept at most.
    const MOST: usize = 1 << 16;

    fn add(&mut self, pair: Pair) {
        if pair.0 < 0 || pair.1 < 0 {
            return; // no reading
        }
        if self.seen.is_multiple_of(1 << self.step) {
            if self.kept.len() == Self::MOST {
                let mut number = 0;
                self.kept.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.step += 1;
            }
            if self.seen.is_multiple_of(1 << self.step) {
                self.kept.push(pair);
            }
        }
        self.seen += 1;
    }
}

/// The line on which most packets lie: of the packets and as many later ones, half of all between them, the two whose
/// rate is the median.
struct Line {
    /// What passed between the two.
    cycles: i128,
    us: i128,
    /// How far 95 of 100 packets lie beside the line, about their own median.
    beside_us: i128,
}

impl Line {
    /// `None`: no two packets are apart in time.
    fn through(mut pairs: Vec<Pair>) -> Option<Self> {
        pairs.sort_unstable();
        let wide = |from: i64, to: i64| i128::from(to) - i128::from(from);
        let (earlier, later) = (&pairs[..pairs.len() / 2], &pairs[pairs.len().div_ceil(2)..]);
        let steps = earlier.iter().zip(later).map(|(from, to)| (wide(from.0, to.0), wide(from.1, to.1)));
        let mut steps: Vec<(i128, i128)> = steps.filter(|&(cycles, us)| cycles > 0 && us > 0).collect();
        steps.sort_unstable_by(|one, other| (one.0 * other.1).cmp(&(other.0 * one.1)));
        let &(cycles, us) = steps.get(steps.len() / 2)?;
        let first = pairs[0];
        let beside = pairs.iter().map(|pair| wide(first.1, pair.1) - wide(first.0, pair.0) * us / cycles);
        let mut beside: Vec<i128> = beside.collect();
        beside.sort_unstable();
        let middle = beside[beside.len() / 2];
        let mut beside: Vec<i128> = beside.into_iter().map(|us| (us - middle).abs()).collect();
        beside.sort_unstable();
        let beside_us = beside[(beside.len() * 95 / 100).min(beside.len() - 1)];
        Some(Self { cycles, us, beside_us })
    }

    /// Rounded to the nearest.
    fn hertz(&self) -> i128 {
        (self.cycles * 1_000_000 + self.us / 2) / self.us
    }

    /// As the time at either end may be off: as far as those of 95 of 100 packets, and by what a reading leaves open.
    fn error_ppm(&self) -> u32 {
        let error_us = 2 * self.beside_us + SPAN_ERROR_US;
        u32::try_from((error_us * 1_000_000 + self.us - 1) / self.us).unwrap_or(u32::MAX)
    }
}

fn clock(hertz: u64, tolerance_ppm: u32, origin: String) -> ReadClock {
    ReadClock { clock: Clock::Tsc, unit: Unit::Ticks, hertz, tolerance_ppm, origin }
}

/// The order in which packets pass the points of one side.
struct Order {
    path: Vec<String>,
    branches: Vec<(String, String)>,
}

impl Order {
    /// The path: `pillars` first, then all others, each that no packet passes in another order than the rest of it; in
    /// the order of how long after a packet's first stamp they come on average.
    fn of(table: &Table, pillars: &[&str]) -> Result<Self, Error> {
        let mut row = Row::default();
        let counts = read(table, open(&table.file)?, |stamp, points| {
            if row.key != Some((stamp.kind, stamp.id)) || row.ticks.iter().any(|(point, _)| *point >= stamp.point) {
                row.end();
                row.key = Some((stamp.kind, stamp.id));
            }
            row.before.resize(points.len(), vec![false; points.len()]);
            row.sums.resize(points.len(), (0, 0));
            row.ticks.push((stamp.point, stamp.tick));
            Ok(())
        })?;
        row.end();
        let mean = |point: usize| row.sums[point].0.checked_div(row.sums[point].1);
        let mut passed: Vec<usize> = (0..counts.points.len()).filter(|&point| mean(point).is_some()).collect();
        passed.sort_by_key(|&point| (mean(point), point));
        let is_pillar = |point: &usize| pillars.contains(&counts.points[*point].as_str());
        let (first, others): (Vec<usize>, Vec<usize>) = passed.iter().copied().partition(is_pillar);
        let both_ways = |one: usize, other: usize| row.before[one][other] && row.before[other][one];
        let (mut on_path, mut off): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for point in first.into_iter().chain(others) {
            match on_path.iter().any(|&known| both_ways(point, known)) {
                true => off.push(point),
                false => on_path.push(point),
            }
        }
        let path: Vec<usize> = passed.into_iter().filter(|point| on_path.contains(point)).collect();
        let branches: Vec<(usize, usize)> = off.into_iter().map(|point| (path[0], point)).collect();
        let name = |point: usize| counts.points[point].to_string();
        let branches = branches.into_iter().map(|(from, to)| (name(from), name(to))).collect();
        Ok(Self { path: path.into_iter().map(name).collect(), branches })
    }
}

/// The stamps of one packet, and what all packets before it showed.
#[derive(Default)]
struct Row {
    key: Option<(Option<i32>, i64)>,
    ticks: Vec<(usize, i64)>,
    /// Whether some packet passed one point before another.
    before: Vec<Vec<bool>>,
    /// By point: how long after the packet's first stamp, summed, and of how many packets.
    sums: Vec<(i128, i128)>,
}

impl Row {
    fn end(&mut self) {
        let ticks = std::mem::take(&mut self.ticks);
        let Some(first) = ticks.iter().map(|(_, tick)| *tick).min() else { return };
        for &(point, tick) in &ticks {
            let (sum, packets) = &mut self.sums[point];
            *sum += i128::from(tick) - i128::from(first);
            *packets += 1;
            for &(other, its) in &ticks {
                self.before[point][other] |= tick < its;
            }
        }
    }
}

//! A log of a program that read another clock than ours: lines `id,time`, taken into the run as stamps of its points.
//!
//! A program that only logs `clock_gettime`, a virtual machine's `nanoTime` or a tracer's counter is measured with no
//! library in it: its readings are ticks of a domain like any other, and brackets of that clock against the node's
//! counter relate them.
//!
//! Assumes: the collector of the node has ended (the node's channels are rewritten). Guarantees: every line of the
//! log's form is a stamp, every other is counted, and the first of them is told with its number; how coarse the
//! readings are is told by themselves, so that a rounded one is never believed to the nanosecond; a log of any size is
//! read a segment at a time; what has no end is refused. Deliberately absent: any claim that a log's readings are
//! ordered against anything: they are `plain` unless the run file says otherwise.

mod cells;
mod form;
mod grid;
mod jvm;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use regex::Regex;
use tickscope_store::Run;
use tickscope_store::{Channel, ChannelState, read_channels, write_channels};
use tickscope_store::{ChannelCount, Origin, StampColumns, next_segment, write_segment};
use tickscope_store::{Error, Result};
use tickscope_tick::{Domain, NodeName, Ordering, Place, PointName};

use cells::Found;
use form::{Columns, Time, Times};
pub use form::{LogForm, LogIds, LogSyntax, LogUnit};
use grid::Grid;
use jvm::{JvmLog, Pause};

/// Where a log's readings belong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPlace {
    /// The node that the program ran on.
    pub node: NodeName,
    /// The clock that it read, of that node's boot.
    pub domain: Domain,
    /// Ordering of each reading, as declared by the program's author.
    pub ordering: Ordering,
}

/// Contents of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogRead {
    /// What became of it, point by point.
    pub points: Vec<LogPoint>,
    /// Lines that are no reading; a header is not counted.
    pub refused: u64,
    /// The first of those: its number from 1, and what it says.
    pub first_refused: Option<(usize, String)>,
    /// Places of a JVM's log where pauses may be missing.
    pub gaps: u64,
    /// Number of the line behind the first of those, from 1.
    pub first_gap: Option<usize>,
    /// Lines of another kind, which a pattern does not match or which lack a key.
    pub other: u64,
    /// The first of those.
    pub first_other: Option<(usize, String)>,
    /// What was expected of every line.
    pub columns: String,
}

/// A point of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPoint {
    /// Its name.
    pub point: PointName,
    /// Readings that became stamps.
    pub stamps: u64,
    /// How coarse its readings are, in ticks of the clock; 0: it has none.
    pub resolution: i64,
}

impl LogRead {
    /// Readings that became stamps.
    pub fn stamps(&self) -> u64 {
        self.points.iter().map(|point| point.stamps).sum()
    }
}

/// Stamps of the segments that are written at once.
const MOST_ROWS: usize = 1 << 20;
/// Bytes of a line: a few of the longest numbers, with room. What is longer is no reading.
const MOST_BYTES: u64 = 4096;
/// Points that a log may name by itself.
const MOST_POINTS: usize = 256;

/// Takes the log at `file` into `run` as stamps of its points.
pub fn import_log(run: &Run, place: &LogPlace, form: &LogForm, file: &Path) -> Result<LogRead> {
    let unreadable = |e| Error::io(file, "read the log", e);
    let log = BufReader::new(open(file).map_err(unreadable)?);
    store(run, place, Lines::of(log, form), MOST_ROWS, unreadable)
}

/// A pipe's writer may never come, and a device may never end.
fn open(file: &Path) -> io::Result<File> {
    if fs::metadata(file)?.is_file() {
        return File::open(file);
    }
    Err(io::Error::other("it is no regular file, and may have no end"))
}

/// All of the log or none: stamps of a channel that no file lists could not be told from those of a damaged run.
fn store(
    run: &Run,
    place: &LogPlace,
    mut lines: Lines<impl BufRead>,
    most: usize,
    unreadable: impl Fn(io::Error) -> Error,
) -> Result<LogRead> {
    let channels_file = run.paths().channels(place.node.as_str());
    let mut channels = if channels_file.exists() { read_channels(&channels_file)? } else { Vec::new() };
    let first = channels.iter().map(|channel| channel.channel).max().map_or(0, |last| last + 1);
    let mut segments = Vec::new();
    let mut segment_by_segment = || {
        lines.begin().map_err(&unreadable)?;
        let mut more = true;
        while more {
            more = lines.fill(first, most).map_err(&unreadable)?;
            for (number, point) in (first..).zip(&mut lines.points).filter(|(_, point)| !point.stamps.is_empty()) {
                let place = Place { node: place.node.clone(), point: point.name.clone() };
                let segment = next_segment(&run.paths().stamps(&place))?;
                segments.push(segment.clone());
                let mut stamps = std::mem::take(&mut point.stamps);
                stamps.fill_with_nulls();
                let count = ChannelCount { channel: number, stored: stamps.len() as u64, ..ChannelCount::default() };
                write_segment(&segment, &stamps, &Origin { counts: vec![count], ..Origin::default() })?;
            }
        }
        let refused = lines.read.refused as i64;
        channels.extend((first..).zip(&lines.points).map(|(number, point)| channel(place, number, point, refused)));
        write_channels(&channels_file, &channels)
    };
    if let Err(error) = segment_by_segment() {
        for segment in segments {
            let _ = fs::remove_file(segment); // the last may not be there; the error that is told is the first
        }
        return Err(error);
    }
    Ok(lines.finish())
}

/// A log, and what was found in it so far.
struct Lines<'a, R> {
    log: R,
    form: &'a LogForm,
    columns: Columns,
    /// A first line that was no header.
    pending: Option<Vec<u8>>,
    pattern: Option<Regex>,
    jvm: JvmLog,
    number: usize,
    points: Vec<Readings>,
    /// All readings of the log: what is too few of a point may be enough of them.
    grid: Grid,
    read: LogRead,
}

/// Readings of one point.
struct Readings {
    name: PointName,
    /// Where the log itself proves it.
    ordering: Option<Ordering>,
    stamps: StampColumns,
    grid: Grid,
}

impl Readings {
    fn of(name: PointName) -> Self {
        Self { name, ordering: None, stamps: StampColumns::default(), grid: Grid::default() }
    }
}

/// What became of a line: a reading, or a line of another kind, or (`Err`) one that is wrong.
type Taken = std::result::Result<Option<Row>, ()>;

/// What a line says.
struct Row {
    id: i64,
    kind: Option<i32>,
    value: Option<i64>,
    /// That of its last time, where it has another.
    last_value: Option<i64>,
    /// Position of the point, and the time.
    times: Vec<(usize, Time)>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    fn of(log: R, form: &'a LogForm) -> Self {
        let columns = Columns { names: Vec::new(), id: 0, kind: None, value: None, times: Times::One(0) };
        let points = form.points.iter().cloned().map(Readings::of).collect();
        let (grid, read) = (Grid::default(), LogRead::default());
        Self { log, form, columns, pending: None, pattern: None, jvm: JvmLog::default(), number: 0, points, grid, read }
    }

    /// Finds out what the columns are; a first line that names them is no reading.
    fn begin(&mut self) -> io::Result<()> {
        if self.form.syntax == LogSyntax::Jvm {
            self.columns.names = vec![JvmLog::EXPECTED.into()];
            return Ok(());
        }
        if self.form.syntax != LogSyntax::Commas {
            if let LogSyntax::Pattern(pattern) = &self.form.syntax {
                self.pattern = Some(cells::pattern(pattern).map_err(io::Error::other)?);
            }
            let names = self.form.named().map_err(io::Error::other)?.unwrap_or_default();
            self.columns = self.form.columns_of(&names).map_err(io::Error::other)?;
            return Ok(());
        }
        let mut line = Vec::new();
        self.next(&mut line)?;
        let text = String::from_utf8_lossy(&line);
        let cells: Vec<String> = text.split(',').map(|cell| cell.trim().to_owned()).collect();
        let is_header =
            self.form.columns.as_ref().map_or(cells.iter().any(|cell| cell == "id"), |names| *names == cells);
        let names = match &self.form.columns {
            Some(names) => names.clone(),
            None if is_header => cells,
            None => ["id", "time"].map(String::from).to_vec(),
        };
        self.columns = self.form.columns_of(&names).map_err(io::Error::other)?;
        self.pending = (!is_header).then_some(line);
        Ok(())
    }

    /// Reads up to `most` stamps for channels from `first` on, one a point; false: the log is over.
    fn fill(&mut self, first: i32, most: usize) -> io::Result<bool> {
        let (mut line, mut rows) = (Vec::new(), 0);
        while rows < most {
            match self.pending.take() {
                Some(pending) => line = pending,
                None if !self.next(&mut line)? => return Ok(false),
                None => {}
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\r', '\n']);
            let found = match (&self.form.syntax, &self.pattern) {
                _ if text.trim().is_empty() => continue,
                (LogSyntax::Jvm, _) => self.pause(text),
                (LogSyntax::Json(keys), _) => self.row(cells::keyed(keys, &self.columns.names, text)),
                (_, Some(pattern)) => self.row(cells::matched(pattern, &self.columns.names, text)),
                _ => self.row(Found::Cells(text.split(',').map(|cell| cell.trim().into()).collect())),
            };
            let told = || (self.number, text.chars().take(80).collect());
            match found {
                Ok(Some(row)) => {
                    rows += row.times.len();
                    self.keep(&row, first);
                }
                Ok(None) => {
                    self.read.other += 1;
                    self.read.first_other.get_or_insert_with(told);
                }
                Err(()) => {
                    self.read.refused += 1;
                    self.read.first_refused.get_or_insert_with(told);
                }
            }
        }
        Ok(true)
    }

    /// What the cells of a line say.
    fn row(&mut self, found: Found<'_>) -> Taken {
        match found {
            Found::Cells(cells) => self.row_of(&cells).map(Some).ok_or(()),
            Found::Other => Ok(None),
            Found::Wrong => Err(()),
        }
    }

    fn row_of(&mut self, cells: &[Cow<'_, str>]) -> Option<Row> {
        if cells.len() != self.columns.names.len() {
            return None;
        }
        let number = |column: Option<usize>| column.map(|at| &*cells[at]).filter(|cell| !cell.is_empty());
        let kind = number(self.columns.kind).map(str::parse).transpose().ok()?;
        let value = number(self.columns.value).map(str::parse).transpose().ok()?;
        let id = self.form.ids.read(&cells[self.columns.id])?;
        let unit = self.form.unit;
        let times = match &self.columns.times {
            Times::One(at) => vec![(0, unit.read(&cells[*at])?)],
            Times::Named { point, time } => {
                let (name, time) = (&cells[*point], unit.read(&cells[*time])?);
                vec![(self.position(name)?, time)]
            }
            Times::Each(columns) => {
                let given = columns.iter().enumerate().filter(|(_, at)| !cells[**at].is_empty());
                given.map(|(point, at)| Some((point, unit.read(&cells[*at])?))).collect::<Option<Vec<_>>>()?
            }
        };
        Some(Row { id, kind, value, last_value: None, times }).filter(|row| !row.times.is_empty())
    }

    /// The pause that a line of a JVM ends, if it is one of its lines.
    fn pause(&mut self, text: &str) -> Taken {
        let gaps = self.jvm.gaps;
        let Some(pause) = self.jvm.take(text)? else { return Ok(None) };
        if gaps < self.jvm.gaps {
            self.read.gaps = self.jvm.gaps;
            self.read.first_gap.get_or_insert(self.number);
        }
        let Pause { id, name, collection, begin, end, still_until_end, still_from_begin } = pause;
        let ends = [("begin", Ordering::Before, begin), ("end", Ordering::After, end)];
        let times = ends.map(|(what, ordering, ticks)| {
            let at = self.position(&format!("jvm.{name}.{what}"))?;
            self.points[at].ordering = Some(ordering);
            Some((at, Time { ticks, float_ticks: None, has_decimals: false }))
        });
        let times = times.into_iter().collect::<Option<_>>().ok_or(())?;
        let (value, last_value) = (Some(still_until_end), Some(still_from_begin));
        Ok(Some(Row { id, kind: collection, value, last_value, times }))
    }

    /// Position of the point of that name; a log whose points are not declared may name new ones.
    fn position(&mut self, name: &str) -> Option<usize> {
        let known = self.points.iter().position(|point| point.name.as_str() == name);
        if known.is_some() || !self.form.points.is_empty() || self.points.len() == MOST_POINTS {
            return known;
        }
        self.points.push(Readings::of(PointName::new(name).ok()?));
        Some(self.points.len() - 1)
    }

    fn keep(&mut self, row: &Row, first: i32) {
        for (place, &(at, time)) in row.times.iter().enumerate() {
            let Readings { stamps, grid, .. } = &mut self.points[at];
            stamps.tick.push(time.ticks);
            stamps.id.push(row.id);
            stamps.channel.push(first + at as i32);
            let is_jvm = self.form.syntax == LogSyntax::Jvm;
            if is_jvm || self.columns.kind.is_some() {
                stamps.kind.push(row.kind);
            }
            if is_jvm || self.columns.value.is_some() {
                let is_last = place + 1 == row.times.len();
                stamps.value.push(row.last_value.filter(|_| is_last).or(row.value));
            }
            grid.add(time);
            self.grid.add(time);
        }
    }

    /// Reads a line, of a long one the beginning and a mark that no number has; whether there was one.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        self.number += 1;
        let bytes = self.log.by_ref().take(MOST_BYTES).read_until(b'\n', line)? as u64;
        if bytes == MOST_BYTES && line.last() != Some(&b'\n') {
            line.extend_from_slice("…".as_bytes());
            self.log.skip_until(b'\n')?;
        }
        Ok(bytes > 0)
    }

    fn finish(self) -> LogRead {
        // Whole nanoseconds, as its clock has them, however few.
        let is_jvm = self.form.syntax == LogSyntax::Jvm;
        let step = |grid: &Grid| if is_jvm { 1 } else { grid.step_within(&self.grid) };
        let point = |Readings { name, grid, .. }: Readings| LogPoint {
            point: name,
            stamps: grid.readings,
            resolution: step(&grid).max(self.form.resolution),
        };
        let points = self.points.into_iter().map(point).collect();
        LogRead { points, columns: self.columns.names.join(","), ..self.read }
    }
}

fn channel(place: &LogPlace, number: i32, point: &Readings, refused: i64) -> Channel {
    let Domain { boot, counter, epoch } = place.domain;
    Channel {
        channel: number,
        node: place.node.clone(),
        pid: 0,
        process_start: 0,
        pool: 0,
        serial: 0,
        thread: 0,
        point: point.name.clone(),
        ordering: point.ordering.unwrap_or(place.ordering).to_string(),
        domain: format!("{boot}/{counter}/{epoch}"),
        policy: Channel::LOG_POLICY.into(),
        parameter: None,
        stored: point.grid.readings as i64,
        dropped: 0,
        refused,
        uncommitted: 0,
        state: ChannelState::Closed,
        removed: None,
        seen: None,
        kept: None,
        counted: None,
        overwritten: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sample::manifest;
    use crate::scratch::Scratch;
    use tickscope_tick::{BootId, Clock};

    fn form(points: &[&str]) -> LogForm {
        LogForm { points: points.iter().map(|name| PointName::new(*name).unwrap()).collect(), ..LogForm::default() }
    }

    fn place() -> LogPlace {
        let domain = Domain { boot: BootId([7; 16]), counter: Clock::Monotonic, epoch: 0 };
        LogPlace { node: NodeName::new("client").unwrap(), domain, ordering: Ordering::After }
    }

    /// Stamps by point, as id, time, kind and value; how many lines were refused.
    type All = (Vec<(String, i64, i64, Option<i32>, Option<i64>)>, u64);

    fn read(form: &LogForm, log: &str) -> All {
        let mut lines = Lines::of(log.as_bytes(), form);
        lines.begin().unwrap();
        assert!(!lines.fill(0, 1000).unwrap());
        let mut all = Vec::new();
        for point in &mut lines.points {
            point.stamps.fill_with_nulls();
            let StampColumns { tick, id, kind, value, .. } = &point.stamps;
            let row = |at| (point.name.to_string(), id[at], tick[at], kind.get(at), value.get(at));
            all.extend((0..point.stamps.len()).map(row));
        }
        (all, lines.read.refused)
    }

    #[test]
    fn every_line_of_two_numbers_is_a_stamp_and_every_other_is_told() {
        let form = form(&["a"]);
        let mut lines = Lines::of("id,ns\r\n1,100\n\n 2 , 200\r\nthree,300\n4,4x\n-5,500".as_bytes(), &form);
        lines.begin().unwrap();
        assert!(!lines.fill(7, 100).unwrap());
        let stamps = &lines.points[0].stamps;
        assert_eq!(
            (&stamps.id[..], &stamps.tick[..], &stamps.channel[..]),
            (&[1, 2, -5][..], &[100, 200, 500][..], &[7; 3][..])
        );
        let read = lines.finish();
        assert_eq!((read.stamps(), read.points[0].resolution, read.refused), (3, 100, 2));
        assert_eq!(read.first_refused, Some((5, "three,300".into())));
    }

    #[test]
    fn kinds_values_units_and_several_points_are_read_as_the_columns_say() {
        let row = |point: &str, id, time, kind, value| (point.to_owned(), id, time, kind, value);
        let in_seconds = LogForm { unit: LogUnit::Seconds, ..form(&["a"]) };
        let log = "kind,id,time,colour,value\n3,1,0.5,red,9\n,2,1.000000001,blue,\n3,3,1,\n";
        let expected = vec![row("a", 1, 500_000_000, Some(3), Some(9)), row("a", 2, 1_000_000_001, None, None)];
        assert_eq!(read(&in_seconds, log), (expected, 1), "the last lacks a cell");

        let log = "point,id,time\nx,1,10\ny,1,20\nx,2,30\n?!,3,40\n";
        let expected = vec![row("x", 1, 10, None, None), row("x", 2, 30, None, None), row("y", 1, 20, None, None)];
        assert_eq!(read(&form(&[]), log), (expected, 1));
        assert_eq!(read(&form(&["y"]), log), (vec![row("y", 1, 20, None, None)], 3), "of the declared points alone");

        let columns = Some(["id", "received", "sent"].map(String::from).to_vec());
        let each = LogForm { columns, ..form(&["sent", "received"]) };
        let expected = vec![
            row("sent", 1, 20, None, None),
            row("received", 1, 10, None, None),
            row("received", 2, 30, None, None),
        ];
        assert_eq!(read(&each, "1,10,20\n2,30,\n3,,\n4,1,x\n"), (expected, 2));
    }

    #[test]
    fn a_pattern_takes_the_lines_that_it_matches_and_a_wrong_number_is_told_from_another_line() {
        let row = |point: &str, id, time, kind, value| (point.to_owned(), id, time, kind, value);
        let pattern = LogSyntax::Pattern(r"order (?<id>\S+) took .*at (?<time>[0-9.]+)(?: \((?<value>\d+)\))?$".into());
        let form = LogForm { syntax: pattern, unit: LogUnit::Seconds, ..form(&["a"]) };
        let log = "INFO started\nINFO order 7 took long, at 1.5\nWARN order 8 took long, at 1.25 (3)\n\
                   order x took so, at 1\n";
        let expected = vec![row("a", 7, 1_500_000_000, None, None), row("a", 8, 1_250_000_000, None, Some(3))];
        assert_eq!(read(&form, log), (expected, 1));
        let mut lines = Lines::of(log.as_bytes(), &form);
        lines.begin().unwrap();
        lines.fill(0, 100).unwrap();
        let read = lines.finish();
        assert_eq!((read.other, read.first_other), (1, Some((1, "INFO started".into()))));
        assert_eq!(read.columns, "id,time,value");
        for (wrong, why) in
            [("(?<id>[", "expected a pattern"), ("[0-9]+", "named groups"), ("(?<id>a)", "a column time")]
        {
            let form = LogForm { syntax: LogSyntax::Pattern(wrong.into()), ..form.clone() };
            assert!(form.check().unwrap_err().contains(why), "{wrong}");
            assert!(Lines::of(log.as_bytes(), &form).begin().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_of_json_are_read_by_their_keys_and_numbers_to_their_last_digit() {
        let row = |point: &str, id, time, kind, value| (point.to_owned(), id, time, kind, value);
        let keys = [("id", "order"), ("time", "@t")].map(|(column, key)| (column.into(), key.into()));
        let json =
            |points: &[&str], unit| LogForm { syntax: LogSyntax::Json(keys.clone().into()), unit, ..form(points) };
        let log = "{\"@t\": 1763849123.123456789, \"order\": 7, \"deep\": {\"id\": 1}}\n{\"level\": \"info\"}\n\
                   {\"order\": \"8\", \"@t\": \"1.5\", \"value\": -3, \"kind\": null}\n\
                   {\"order\": 9.5, \"@t\": 1}\n{torn\n";
        let expected =
            vec![row("a", 7, 1_763_849_123_123_456_789, None, None), row("a", 8, 1_500_000_000, None, Some(-3))];
        assert_eq!(
            read(&json(&["a"], LogUnit::Seconds), log),
            (expected, 2),
            "9.5 is no id, and the last is no object"
        );
        let named = "{\"point\": \"x\", \"order\": 1, \"@t\": 10}\n{\"order\": 2, \"@t\": 20}\n";
        assert_eq!(
            read(&json(&[], LogUnit::Ticks), named),
            (vec![row("x", 1, 10, None, None)], 0),
            "the last is another"
        );
    }

    #[test]
    fn ids_are_numbers_texts_or_traces_as_declared() {
        let ids = |ids, log: &str| {
            let (rows, refused) = read(&LogForm { ids, ..form(&["a"]) }, log);
            (rows.into_iter().map(|(_, id, ..)| id).collect::<Vec<_>>(), refused)
        };
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let bytes = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
        assert_eq!(ids(LogIds::Texts, "order-7,1\n,2\n"), (vec![tickscope_stamp::id_of("order-7")], 1));
        let log = format!("{trace},1\n{},2\n+{},3\n", &trace[1..], &trace[1..]);
        assert_eq!(ids(LogIds::Traces, &log), (vec![tickscope_stamp::id_of(bytes)], 2));
    }

    #[test]
    fn pauses_of_a_jvm_are_stamps_before_their_begins_and_after_their_ends() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let file = scratch.path().join("jvm.log");
        let log = "[1010ns][10ns] Using G1\n\
                   [1880ns][880ns] GC(7) Pause Full (System.gc()) 9M->3M(50M) 0.080ms\n[1900ns][900ns] Safepoint \
                   \"G1CollectFull\", Time since last: 50 ns, Reaching safepoint: 10 ns, Total: 100 ns\n\
                   [1950ns][950ns] Other\nnothing\n";
        fs::write(&file, log).unwrap();
        let read = import_log(&run, &place(), &LogForm { syntax: LogSyntax::Jvm, ..form(&[]) }, &file).unwrap();
        assert_eq!((read.stamps(), read.refused, read.other), (2, 1, 3));
        assert!(read.points.iter().all(|point| point.resolution == 1));
        assert_eq!((read.gaps, read.first_gap), (0, None));
        let channels = run.channels().unwrap().found;
        let seen: Vec<_> = channels.iter().map(|c| (c.point.as_str(), c.ordering.as_str(), c.refused)).collect();
        assert_eq!(seen, [("jvm.G1CollectFull.begin", "before", 1), ("jvm.G1CollectFull.end", "after", 1)]);
        for (point, tick, still) in [("begin", 1780, 90), ("end", 1900, 100)] {
            let place = format!("client.jvm.G1CollectFull.{point}").parse().unwrap();
            let stamps = run.stamps(&place).unwrap().read_all().unwrap();
            assert_eq!((&stamps.tick[..], &stamps.id[..]), (&[tick][..], &[1][..]));
            assert_eq!((stamps.kind.get(0), stamps.value.get(0)), (Some(7), Some(still)));
        }
        let form = LogForm { syntax: LogSyntax::Jvm, ..form(&[]) };
        fs::write(&file, log.split_once('\n').unwrap().1).unwrap();
        let rotated = import_log(&run, &place(), &form, &file).unwrap();
        assert_eq!((rotated.stamps(), rotated.refused, rotated.gaps, rotated.first_gap), (2, 1, 1, Some(2)));
    }

    #[test]
    fn a_log_is_read_a_segment_at_a_time_and_a_line_without_end_is_no_reading() {
        let long = "7,".to_owned() + &"1".repeat(5_000_000);
        let log = [b"1,100\n2,200\n\xff\n" as &[u8], long.as_bytes(), b"\n3,300\n4,400\n5,500"].concat();
        let form = form(&["a"]);
        let mut lines = Lines::of(log.as_slice(), &form);
        lines.begin().unwrap();
        let mut segment = || (lines.fill(0, 2).unwrap(), std::mem::take(&mut lines.points[0].stamps).id);
        assert_eq!([segment(), segment(), segment()], [(true, vec![1, 2]), (true, vec![3, 4]), (false, vec![5])]);
        assert_eq!((lines.grid.readings, lines.read.refused), (5, 2));
        let padded = format!("1,2{}\n3,4\n", " ".repeat(MOST_BYTES as usize)); // a number whose end is not read is none
        let (stamps, refused) = read(&form, &padded);
        assert_eq!((stamps.len(), stamps[0].1, refused), (1, 3, 1));
    }

    struct Unreadable;

    impl Read for Unreadable {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("torn"))
        }
    }

    #[test]
    fn a_log_that_cannot_be_read_to_its_end_leaves_no_stamps_and_what_was_there_before() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let form = form(&["first"]);
        let stored = |log: &mut dyn Read| {
            let unreadable = |e| Error::io(scratch.path(), "read the log", e);
            store(&run, &place(), Lines::of(BufReader::new(log), &form), 2, unreadable)
        };
        stored(&mut "1,100\n2,200\n3,300\n".as_bytes()).unwrap();
        let error = stored(&mut "4,400\n5,500\n".as_bytes().chain(Unreadable)).unwrap_err().to_string();
        assert!(error.contains("torn"), "{error}");
        assert_eq!(run.stamps(&"client.first".parse().unwrap()).unwrap().read_all().unwrap().tick, [100, 200, 300]);
        assert_eq!(run.channels().unwrap().found.len(), 1);
    }

    #[test]
    fn a_log_becomes_stamps_of_its_auxiliary_clock_beside_what_was_collected() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let file = scratch.path().join("a.csv");
        fs::write(&file, "1,100\n2,200\n").unwrap();
        import_log(&run, &place(), &form(&["first"]), &file).unwrap();
        import_log(&run, &place(), &form(&["second"]), &file).unwrap();
        let channels = run.channels().unwrap().found;
        let seen: Vec<_> = channels.iter().map(|c| (c.channel, c.point.as_str(), c.ordering.as_str())).collect();
        assert_eq!(seen, [(0, "first", "after"), (1, "second", "after")]);
        assert!(channels[0].domain.ends_with("/monotonic/0"), "{}", channels[0].domain);
        assert_eq!(run.stamps(&"client.second".parse().unwrap()).unwrap().read_all().unwrap().tick, [100, 200]);
        let missing =
            import_log(&run, &place(), &form(&["x"]), &scratch.path().join("none.csv")).unwrap_err().to_string();
        assert!(missing.contains("read the log") && missing.contains("none.csv"), "{missing}");
    }

    #[test]
    fn the_resolution_is_the_coarser_of_what_is_declared_and_what_the_readings_show() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let file = scratch.path().join("a.csv");
        let of = |log: &str, resolution: i64| {
            fs::write(&file, log).unwrap();
            import_log(&run, &place(), &LogForm { resolution, ..form(&["x"]) }, &file).unwrap().points[0].resolution
        };
        assert_eq!([of("1,100\n2,250\n", 0), of("1,0\n2,7\n", 0), of("", 0)], [10, 1, 0]);
        assert_eq!([of("1,100\n2,250\n", 1000), of("1,1000000\n", 1000)], [1000, 1_000_000]);
        // Two readings of a point are few; of the log, which one program wrote, there are enough.
        let mut log: String = (0..40).map(|k| format!("many,{k},{}\n", k * k * 40 + 7)).collect();
        log.insert_str(0, "point,id,time\nfew,1,407\nfew,2,807\n");
        fs::write(&file, log).unwrap();
        let read = import_log(&run, &place(), &form(&[]), &file).unwrap();
        let resolutions: Vec<_> = read.points.iter().map(|point| (point.point.as_str(), point.resolution)).collect();
        assert_eq!(resolutions, [("few", 40), ("many", 40)]);
    }

    #[test]
    fn what_has_no_end_is_refused_and_not_waited_for() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let pipe = scratch.path().join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: a path that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for endless in [Path::new("/dev/null"), pipe.as_path(), Path::new("/dev/zero"), scratch.path()] {
            let error = import_log(&run, &place(), &form(&["x"]), endless).unwrap_err().to_string();
            assert!(error.contains("it is no regular file"), "{error}");
        }
    }
}

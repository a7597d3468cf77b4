//! The rows of one table, each as the stamps that it holds.

use std::fs::File;

use tickscope_tick::PointName;

use crate::error::Error;
use crate::form::{Table, Times, Zero, misnamed, shortened};
use crate::records::{Form, Record, Records};

/// Points that a table may name by itself.
const MOST_POINTS: usize = 256;

/// A stamp; `point` is an index into [`Counts::points`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub point: usize,
    pub tick: i64,
    pub id: i64,
    pub kind: Option<i32>,
    pub value: Option<i64>,
}

/// What was found in a table.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    /// The points, in the order in which they came.
    pub points: Vec<PointName>,
    /// By point: the last tick.
    last: Vec<Option<i64>>,
    pub rows: u64,
    pub stamps: u64,
    /// Records of the file that are none of the table's.
    pub others: u64,
    /// Times that were empty, or 0 where that means none.
    pub not_taken: u64,
    /// Stamps earlier than the one before them of the same point: rows that were not in order, or a clock that went
    /// backward.
    pub backward: u64,
    /// The first of them: its line.
    pub first_backward: Option<u64>,
    /// The largest power of ten, up to 10^9, that divides every tick; 0: there is none.
    pub step: i64,
    /// How wide the file says that a reading is.
    pub width_ticks: u64,
}

/// Which cells are what.
struct Places {
    id: usize,
    kind: Option<usize>,
    value: Option<usize>,
    times: TimePlaces,
}

enum TimePlaces {
    Of(usize),
    Named { point: usize, time: usize },
    Each(Vec<usize>),
}

/// Reads all rows, and hands each stamp to `take`, with the points that are known by then.
pub(crate) fn read(
    table: &Table,
    input: File,
    mut take: impl FnMut(Stamp, &[PointName]) -> Result<(), Error>,
) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    match &table.times {
        Times::Of(point, _) => counts.points.push(point.clone()),
        Times::Each(points) => counts.points.extend(points.iter().map(|(point, _)| point.clone())),
        Times::Named { .. } => {}
    }
    let (mut records, names) = Records::of(table, input)?;
    let places = Places::of(table, &names).map_err(|why| records.wrong(table, why))?;
    let mut stamps = Vec::new();
    while let Some(record) = records.next()? {
        stamps.clear();
        let taken = stamps_of(table, &places, &record, &mut counts, &mut stamps);
        drop(record);
        taken.map_err(|why| records.wrong(table, why))?;
        for stamp in &stamps {
            counts.add(stamp, records.number());
            take(*stamp, &counts.points)?;
        }
        counts.rows += 1;
    }
    counts.others = records.others();
    counts.width_ticks = records.width_ticks();
    if counts.stamps == 0 {
        return Err(Error::input(
            table.file.display(),
            format_args!(
                "expected stamps of {}, found none in {} rows. Name another file, or columns",
                table.node, counts.rows
            ),
        ));
    }
    Ok(counts)
}

impl Places {
    fn of(table: &Table, names: &[String]) -> Result<Self, String> {
        let at = |wanted: &String| {
            let mut found = names.iter().enumerate().filter(|(_, name)| *name == wanted);
            match (found.next(), found.next()) {
                (Some((at, _)), None) => Ok(at),
                (None, _) => Err(format!(
                    "expected a column '{wanted}', found {}. Name one of these, or the columns of a file without a \
                     header in `columns`",
                    shortened(&names.join(", "))
                )),
                _ => Err(format!("expected one column '{wanted}', found several. Give each a name of its own")),
            }
        };
        Ok(Self {
            id: at(&table.id)?,
            kind: table.kind.as_ref().map(at).transpose()?,
            value: table.value.as_ref().map(at).transpose()?,
            times: match &table.times {
                Times::Of(_, time) => TimePlaces::Of(at(time)?),
                Times::Named { point, time } => TimePlaces::Named { point: at(point)?, time: at(time)? },
                Times::Each(points) => {
                    TimePlaces::Each(points.iter().map(|(_, time)| at(time)).collect::<Result<_, _>>()?)
                }
            },
        })
    }
}

/// The stamps of a record; `Err`: what is wrong with it.
fn stamps_of(
    table: &Table,
    places: &Places,
    cells: &Record<'_>,
    counts: &mut Counts,
    stamps: &mut Vec<Stamp>,
) -> Result<(), String> {
    let whole = |at: usize, what: &str| {
        cells[at].parse::<i64>().map_err(|_| {
            let found = shortened(&cells[at]);
            format!(
                "expected a whole number from -2^63 to 2^63 - 1 as {what}, found '{found}'. Correct it, or name \
                 another column"
            )
        })
    };
    let id = whole(places.id, "id")?;
    let given = |at: Option<usize>| at.filter(|&at| !cells[at].is_empty());
    let kind = given(places.kind).map(|at| {
        i32::try_from(whole(at, "kind")?)
            .map_err(|_| format!("expected a kind of 32 bits, found {}. Correct it", cells[at]))
    });
    let (kind, value) = (kind.transpose()?, given(places.value).map(|at| whole(at, "value")).transpose()?);
    let is_sparse = matches!(table.form, Form::Events | Form::Packets | Form::Spans);
    let mut add = |point: usize, at: usize, not_taken: &mut u64| {
        let tick = if cells[at].is_empty() { None } else { Some(table.clock.read(&cells[at], table.zero)?) };
        match tick.filter(|&tick| tick != 0 || table.zero == Zero::Time) {
            Some(tick) => stamps.push(Stamp { point, tick, id, kind, value }),
            None if is_sparse => {} // a record has one time
            None => *not_taken += 1,
        }
        Ok::<_, String>(())
    };
    match &places.times {
        TimePlaces::Of(at) => add(0, *at, &mut counts.not_taken)?,
        TimePlaces::Each(all) => {
            for (point, at) in all.iter().enumerate() {
                add(point, *at, &mut counts.not_taken)?;
            }
        }
        TimePlaces::Named { point, time } => {
            let point = counts.position(&cells[*point])?;
            add(point, *time, &mut counts.not_taken)?;
        }
    }
    Ok(())
}

impl Counts {
    /// Position of the point of that name.
    fn position(&mut self, name: &str) -> Result<usize, String> {
        if let Some(known) = self.points.iter().position(|point| point.as_str() == name) {
            return Ok(known);
        }
        if self.points.len() == MOST_POINTS {
            return Err(format!(
                "expected at most {MOST_POINTS} points, found another, '{}'. Name another column",
                shortened(name)
            ));
        }
        self.points.push(PointName::new(name).map_err(misnamed)?);
        Ok(self.points.len() - 1)
    }

    fn add(&mut self, stamp: &Stamp, line: u64) {
        const MOST_STEP: i64 = 1_000_000_000;
        self.last.resize(self.points.len(), None);
        let last = self.last[stamp.point].replace(stamp.tick);
        if last.is_some_and(|last| stamp.tick < last) {
            self.backward += 1;
            self.first_backward.get_or_insert(line);
        }
        if self.stamps == 0 {
            self.step = MOST_STEP;
        }
        while stamp.tick % self.step != 0 {
            self.step /= 10;
        }
        self.stamps += 1;
    }
}

//! Traces as columns: one row a trace, one column of raw ticks a point.

use std::collections::BTreeMap;

use crate::{Attribute, Error, Layout, Mark, Marks, Nullable, Stage};

/// Raw ticks or durations, one row a trace; null where there is none.
pub type Column = Nullable<i64>;

/// The name of a trace: its id, the id's class, and which passage of the id it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceKey {
    /// Class of the id.
    pub kind: i32,
    /// The id.
    pub id: i64,
    /// Which passage of the id; 0 for the first.
    pub occurrence: i32,
}

/// Some traces of a run, in the order (id, kind, occurrence); the ticks are raw readings of each point's own domain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Traces {
    kinds: Vec<i32>,
    ids: Vec<i64>,
    occurrences: Vec<i32>,
    points: Vec<Column>,
    /// Attributes of the stamps of some points.
    attributes: Vec<(usize, Attribute, Column)>,
    /// By row, of ids that passed some point several times.
    marks: BTreeMap<usize, Marks>,
}

impl Traces {
    /// Columns of equal length, the points in the layout's order.
    pub fn new(kinds: Vec<i32>, ids: Vec<i64>, occurrences: Vec<i32>, points: Vec<Column>) -> Result<Self, Error> {
        let rows = ids.len();
        let equal = kinds.len() == rows && occurrences.len() == rows && points.iter().all(|p| p.len() == rows);
        if equal {
            return Ok(Self { kinds, ids, occurrences, points, ..Self::default() });
        }
        let lengths: Vec<_> = points.iter().map(Column::len).collect();
        let found = format!("kinds {}, ids {rows}, occurrences {}, points {lengths:?}", kinds.len(), occurrences.len());
        Err(Error::new("columns of equal length", found, "hand over whole rows"))
    }

    pub(crate) fn empty(points: usize, attributes: &[(usize, Attribute)]) -> Self {
        let attributes = attributes.iter().map(|&(point, attribute)| (point, attribute, Column::default()));
        Self { points: vec![Column::default(); points], attributes: attributes.collect(), ..Self::default() }
    }

    /// The same traces with the marks of those whose ids passed some point several times, by row.
    pub fn with_marks(self, marks: impl IntoIterator<Item = (usize, Marks)>) -> Result<Self, Error> {
        let marks: BTreeMap<usize, Marks> = marks.into_iter().collect();
        let wrong = marks.iter().find(|(row, marks)| **row >= self.len() || marks.points().len() != self.points.len());
        match wrong {
            None => Ok(Self { marks, ..self }),
            Some((row, marks)) => {
                let (points, rows) = (self.points.len(), self.len());
                let found = format!("{} at row {row} of {rows}", marks.points().len());
                Err(Error::new(format!("{points} marks a row, one a point"), found, "join the run again"))
            }
        }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// The first row of each key.
    pub fn first_rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter(|&row| self.occurrences[row] == 0)
    }

    /// Returns whether the key of a row was stamped at a point, by whatever passage.
    #[inline]
    pub fn is_seen(&self, point: usize, row: usize) -> bool {
        let is_marked = |marks: &Marks| marks.points()[point] != Mark::Unseen;
        self.points[point].get(row).is_some() || self.marks(row).is_some_and(is_marked)
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The classes of the ids.
    pub fn kinds(&self) -> &[i32] {
        &self.kinds
    }

    /// The ids.
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// How the stamps of a row belong together; `None` where its id passed every point once at most.
    pub fn marks(&self, row: usize) -> Option<&Marks> {
        if self.marks.is_empty() { None } else { self.marks.get(&row) }
    }

    /// Returns whether some row has marks.
    pub fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Returns whether both stamps of a stage are of one passage in this row.
    pub fn together(&self, layout: &Layout, stage: &Stage, row: usize) -> bool {
        self.marks(row).is_none_or(|marks| marks.together(layout, stage.from, stage.to))
    }

    /// Returns whether some row may repeat what the row before says.
    pub(crate) fn has_repeats(&self) -> bool {
        self.occurrences.iter().any(|&occurrence| occurrence != 0)
    }

    /// Returns whether this row only repeats what the row before says of these points: a further trace of the same id
    /// that has the same stamps there, or none.
    pub fn repeats(&self, row: usize, points: [usize; 2]) -> bool {
        if self.occurrences[row] == 0 {
            return false;
        }
        let tick = |point: usize, row: usize| self.points.get(point).and_then(|column| column.get(row));
        let none = points.iter().all(|&point| tick(point, row).is_none());
        let before = row.checked_sub(1).filter(|&before| self.ids[before] == self.ids[row]);
        none || before.is_some_and(|before| points.iter().all(|&point| tick(point, row) == tick(point, before)))
    }

    /// The key of a row.
    #[inline]
    pub fn key(&self, row: usize) -> TraceKey {
        TraceKey { kind: self.kinds[row], id: self.ids[row], occurrence: self.occurrences[row] }
    }

    /// Which passage of the id a row is; 0 for the first, and always 0 where no point has rule `all`.
    pub fn occurrences(&self) -> &[i32] {
        &self.occurrences
    }

    /// The raw ticks, one column a point, in the layout's order.
    pub fn points(&self) -> &[Column] {
        &self.points
    }

    /// An attribute of the stamps at a point; `None` where no stamp of the point has it.
    pub fn attribute(&self, point: usize, attribute: Attribute) -> Option<&Column> {
        self.attributes.iter().find(|(at, of, _)| (*at, *of) == (point, attribute)).map(|(.., column)| column)
    }

    /// All attributes, with the point whose stamps have them.
    pub fn attributes(&self) -> impl Iterator<Item = (usize, Attribute, &Column)> {
        self.attributes.iter().map(|(point, attribute, column)| (*point, *attribute, column))
    }

    pub(crate) fn attributes_mut(&mut self) -> impl Iterator<Item = &mut (usize, Attribute, Column)> {
        self.attributes.iter_mut()
    }

    pub(crate) fn clear(&mut self) {
        self.kinds.clear();
        self.ids.clear();
        self.occurrences.clear();
        self.points.iter_mut().for_each(Column::clear);
        self.attributes.iter_mut().for_each(|(.., column)| column.clear());
        self.marks.clear();
    }

    /// Marks the row of the key that was pushed last.
    pub(crate) fn mark_last(&mut self, marks: Marks) {
        self.marks.insert(self.ids.len() - 1, marks);
    }

    /// Appends a row of `other`, traces of the same layout and attributes.
    pub(crate) fn push_row(&mut self, other: &Self, row: usize) {
        self.push_key(other.ids[row], other.kinds[row], other.occurrences[row]);
        other.marks(row).into_iter().for_each(|marks| self.mark_last(marks.clone()));
        self.points.iter_mut().zip(&other.points).for_each(|(to, from)| to.push(from.get(row)));
        self.attributes.iter_mut().zip(&other.attributes).for_each(|(to, from)| to.2.push(from.2.get(row)));
    }

    pub(crate) fn push_key(&mut self, id: i64, kind: i32, occurrence: i32) {
        self.ids.push(id);
        self.kinds.push(kind);
        self.occurrences.push(occurrence);
    }

    pub(crate) fn point_mut(&mut self, point: usize) -> &mut Column {
        &mut self.points[point]
    }
}

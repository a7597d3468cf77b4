//! The rows of one chunk, complete, on their way out as traces.

use std::collections::HashMap;
use std::ops::Range;

use super::attempts::AttemptContradiction;
use super::links::Linked;
use super::passages::{MayPrecede, Passages, Threaded};
use super::rows::{Keys, Rows, Slots};
use crate::{Attribute, KeptStamps, Layout, Mark, Marks, Traces};

/// Rows that no stamp is added to any more.
pub struct Gathered {
    points: Vec<Slots>,
    order: Order,
    /// The traces of rows with several stamps at some point, by row.
    passages: HashMap<usize, Passages>,
    /// Ids that two things have, sorted.
    ambiguous: Vec<i64>,
}

/// Which row is which key, in the order that traces leave.
enum Order {
    /// Planes as `(kind, first row)`, by kind; a row without a stamp is no trace.
    Planes { first: i64, width: usize, planes: Vec<(i32, usize)>, used: Vec<bool> },
    /// `(id, kind, row)`, sorted.
    Keys(Vec<(i64, i32, u32)>),
}

/// One trace to be: a row, the number of its key, and the stamps of its passage where the row has several.
#[derive(Clone, Copy)]
struct Pick<'a> {
    row: usize,
    key: usize,
    passage: Option<&'a [Option<Threaded>]>,
}

impl Rows {
    /// Sorts what has to be sorted and tells passages apart; nothing is added afterwards.
    pub fn finish(
        mut self,
        layout: &Layout,
        may_precede: &MayPrecede<'_>,
        kept: &[KeptStamps],
        ambiguous: &[i64],
    ) -> Gathered {
        let rows = self.len();
        self.of.iter().for_each(|&point| self.points[point].grow(rows));
        let order = self.order();
        let passages = self.repeated.into_iter().map(|(row, mut stamps)| {
            stamps.sort_unstable();
            (row as usize, Passages::of(layout, may_precede, kept, &stamps))
        });
        Gathered { passages: passages.collect(), points: self.points, order, ambiguous: ambiguous.to_vec() }
    }

    fn order(&self) -> Order {
        match &self.keys {
            Keys::Planes { kinds } => {
                let width = self.width();
                let mut planes: Vec<_> = kinds.iter().enumerate().map(|(plane, &kind)| (kind, plane * width)).collect();
                planes.sort_unstable();
                Order::Planes { first: self.first(), width, planes, used: used(&self.points, self.len()) }
            }
            Keys::Table(table) => {
                let mut keys: Vec<_> = table.iter().map(|(&(id, kind), &row)| (id, kind, row)).collect();
                keys.sort_unstable();
                Order::Keys(keys)
            }
        }
    }
}

impl Gathered {
    /// Hands every trace to `sink`, about `rows` at a time, in `batch`; `linked`: its stamps beyond range edges.
    pub fn emit<E>(
        &self,
        linked: &Linked,
        batch: &mut Traces,
        rows: usize,
        sink: &mut dyn FnMut(&Traces) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut picks = Vec::with_capacity(rows);
        let mut key = 0;
        self.each_key(&mut |id, kind, row| {
            let passages = self.passages_of(row);
            let seen = |point: usize| {
                let beyond =
                    || linked.at(point, key).is_some_and(|(traces, row)| traces.points()[point].get(row).is_some());
                self.points[point].seen.get(row).copied().unwrap_or_else(beyond)
            };
            let marks = if self.is_ambiguous(id) {
                Some(Marks::ambiguous(self.points.len(), seen))
            } else {
                linked.marks(key, passages.map(|passages| &passages.marks), seen)
            };
            let mut push = |occurrence: usize, passage| {
                batch.push_key(id, kind, i32::try_from(occurrence).unwrap_or(i32::MAX));
                marks.iter().for_each(|marks| batch.mark_last(marks.clone()));
                picks.push(Pick { row, key, passage });
            };
            match passages {
                None => push(0, None),
                Some(passages) => {
                    passages
                        .traces
                        .iter()
                        .enumerate()
                        .for_each(|(number, stamps)| push(number, Some(stamps.as_slice())));
                }
            }
            key += 1;
            if picks.len() >= rows { self.flush(linked, &mut picks, batch, sink) } else { Ok(()) }
        })?;
        if picks.is_empty() { Ok(()) } else { self.flush(linked, &mut picks, batch, sink) }
    }

    /// The slots, for their memory.
    pub(super) fn into_slots(self) -> Vec<Slots> {
        self.points
    }

    /// How a row was stamped at a point.
    pub fn mark(&self, point: usize, row: usize) -> Mark {
        let once = if self.points[point].seen.get(row) == Some(&true) { Mark::Once } else { Mark::Unseen };
        self.passages_of(row).map_or(once, |passages| passages.marks.points()[point])
    }

    /// `(stamps, duplicates)` of each point.
    pub fn stamps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.points.iter().map(|slots| (slots.stamps, slots.duplicates))
    }

    /// Every key with its row, in the order that traces leave.
    pub fn each_key<E>(&self, visit: &mut dyn FnMut(i64, i32, usize) -> Result<(), E>) -> Result<(), E> {
        match &self.order {
            Order::Keys(keys) => keys.iter().try_for_each(|&(id, kind, row)| visit(id, kind, row as usize)),
            Order::Planes { first, width, planes, used } => (0..*width).try_for_each(|offset| {
                let id = first.wrapping_add_unsigned(offset as u64);
                let rows = planes.iter().map(|&(kind, base)| (kind, base + offset));
                rows.filter(|&(_, row)| used[row]).try_for_each(|(kind, row)| visit(id, kind, row))
            }),
        }
    }

    fn is_ambiguous(&self, id: i64) -> bool {
        !self.ambiguous.is_empty() && self.ambiguous.binary_search(&id).is_ok()
    }

    /// Keys whose id two things have.
    pub fn ambiguous(&self) -> u64 {
        let mut keys = 0;
        if !self.ambiguous.is_empty() {
            let counted: Result<(), std::convert::Infallible> = self.each_key(&mut |id, _, _| {
                keys += u64::from(self.is_ambiguous(id));
                Ok(())
            });
            counted.unwrap_or(());
        }
        keys
    }

    /// Calls `visit` with every key whose stamps contradict what they say of its attempts, by kind and id.
    pub fn each_contradiction(&self, visit: &mut dyn FnMut(i32, i64, AttemptContradiction)) {
        if self.passages.is_empty() {
            return;
        }
        let visited: Result<(), std::convert::Infallible> = self.each_key(&mut |id, kind, row| {
            let found = self.passages_of(row).and_then(|passages| passages.contradiction);
            found.filter(|_| !self.is_ambiguous(id)).into_iter().for_each(|found| visit(kind, id, found));
            Ok(())
        });
        visited.unwrap_or(());
    }

    fn passages_of(&self, row: usize) -> Option<&Passages> {
        if self.passages.is_empty() { None } else { self.passages.get(&row) }
    }

    fn flush<E>(
        &self,
        linked: &Linked,
        picks: &mut Vec<Pick<'_>>,
        batch: &mut Traces,
        sink: &mut dyn FnMut(&Traces) -> Result<(), E>,
    ) -> Result<(), E> {
        let stretch = stretch(picks);
        for (point, slots) in self.points.iter().enumerate() {
            if slots.seen.is_empty() {
                let tick =
                    |pick: &Pick<'_>| linked.at(point, pick.key).and_then(|(of, row)| of.points()[point].get(row));
                picks.iter().for_each(|pick| batch.point_mut(point).push(tick(pick)));
                continue;
            }
            match &stretch {
                Some(rows) => {
                    batch.point_mut(point).append_rows(&slots.ticks[rows.clone()], &slots.seen[rows.clone()]);
                }
                None => batch.point_mut(point).extend(picks.iter().map(|&pick| slots.at(point, pick))),
            }
        }
        for (point, attribute, column) in batch.attributes_mut() {
            let slots = &self.points[*point];
            match slots.channels.as_deref().filter(|_| *attribute == Attribute::Channel && !slots.seen.is_empty()) {
                Some(channels) => column.extend(picks.iter().map(|&pick| slots.channel_at(channels, *point, pick))),
                None => {
                    picks.iter().for_each(|pick| column.push(self.attribute(*point, *attribute, linked, pick)));
                }
            }
        }
        let answer = sink(batch);
        picks.clear();
        batch.clear();
        answer
    }
}

impl Gathered {
    /// The attribute of a trace's stamp at a point.
    fn attribute(&self, point: usize, attribute: Attribute, linked: &Linked, pick: &Pick<'_>) -> Option<i64> {
        let slots = &self.points[point];
        match pick.passage {
            _ if slots.seen.is_empty() => {
                let (traces, row) = linked.at(point, pick.key)?;
                traces.attribute(point, attribute)?.get(row)
            }
            Some(stamps) => stamps[point]?.attributes[attribute as usize],
            None => slots.attributes.get(attribute as usize)?.as_ref()?.get(pick.row).copied().flatten(),
        }
    }
}

impl Slots {
    /// The tick at this point, 0 if missing, and whether it is there.
    #[inline]
    fn at(&self, point: usize, Pick { row, passage, .. }: Pick<'_>) -> (i64, bool) {
        match passage {
            None => (self.ticks[row], self.seen[row]),
            Some(stamps) => (stamps[point].map_or(0, |stamp| stamp.tick), stamps[point].is_some()),
        }
    }
}

impl Slots {
    /// The channel at this point, 0 if there is no stamp, and whether there is one.
    #[inline]
    fn channel_at(&self, channels: &[i32], point: usize, Pick { row, passage, .. }: Pick<'_>) -> (i64, bool) {
        match passage {
            None => (channels[row].into(), self.seen[row]),
            Some(stamps) => {
                let channel = stamps[point].and_then(|stamp| stamp.attributes[Attribute::Channel as usize]);
                (channel.unwrap_or(0), channel.is_some())
            }
        }
    }
}

/// The rows of traces that are of one passage each and lie one behind the other, as they do where ids are dense: such
/// columns are copied as they lie.
fn stretch(picks: &[Pick<'_>]) -> Option<Range<usize>> {
    let first = picks.first()?.row;
    let mut in_order = picks.iter().zip(first..);
    in_order.all(|(pick, row)| pick.row == row && pick.passage.is_none()).then_some(first..first + picks.len())
}

/// Which rows have a stamp at any point.
fn used(points: &[Slots], rows: usize) -> Vec<bool> {
    let mut used = vec![false; rows];
    for slots in points {
        used.iter_mut().zip(&slots.seen).for_each(|(used, &seen)| *used |= seen);
    }
    used
}

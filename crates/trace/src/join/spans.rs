//! Stamps that stand for several consecutive ids, on their way into rows.
//!
//! Such a stamp is a stamp of each of its ids, with one tick. A span of up to [`SHORT_SPAN`] ids is taken whole, and so
//! are longer ones as long as those of a point together have no more than [`MOST_SPANNED`] ids. Beyond that one stamp
//! could ask for two thousand million rows: of each long span its first id is then a stamp like any other, and each
//! further one counts where the id is there already, from another stamp; that is looked up in the sorted keys, once all
//! points are read. What is left over is counted ([`super::PointCounts::unexpanded`]).
//!
//! Guarantees: rows and time are bounded by the stamps that were read, times `SHORT_SPAN`, and by `MOST_SPANNED` for
//! each point. Deliberately absent: a second stamp of one id at a point by a long span that is not whole.

use super::passages::Threaded;
use super::rows::{Full, Keys, Rows};
use crate::{Attribute, StampColumns};

/// Ids up to which the span of a stamp is always taken whole: what a poll returns at once.
pub const SHORT_SPAN: u64 = 64;

/// Ids of one point's longer spans, together, up to which these are taken whole: two gigabytes of traces or so.
pub const MOST_SPANNED: u64 = 1 << 28;

/// Keys of a chunk with their rows, by kind and id.
#[derive(Default)]
pub(super) struct KeyIndex(Vec<(i32, i64, u32)>);

impl KeyIndex {
    fn of(mut keys: Vec<(i32, i64, u32)>) -> Self {
        keys.sort_unstable();
        Self(keys)
    }

    /// The rows of a kind's ids from `first` to `last`.
    fn within(&self, kind: i32, first: i64, last: i64) -> &[(i32, i64, u32)] {
        let from = self.0.partition_point(|&(of, id, _)| (of, id) < (kind, first));
        let length = self.0[from..].partition_point(|&(of, id, _)| (of, id) <= (kind, last));
        &self.0[from..from + length]
    }
}

/// What long spans that are not taken whole added to a chunk.
#[derive(Default)]
pub(super) struct Tails {
    keys: KeyIndex,
    /// Stamps that they became, by row.
    stamps: Vec<(u32, Threaded)>,
    /// By point: keys that may still be looked at.
    left: Vec<u64>,
}

impl Rows {
    /// Takes those stamps of `point` that stand for ids of the range, up to the `lasts`.
    pub(super) fn put_spans(&mut self, point: usize, stamps: &StampColumns<'_>, lasts: &[i64]) -> Result<(), Full> {
        self.has_spans = true;
        for (index, (&id, &tick)) in stamps.ids().iter().zip(stamps.ticks()).enumerate() {
            let is_whole = self.takes_whole(point, id, lasts[index]);
            self.has_tails |= !is_whole;
            let Some((first, last)) = self.cut(id, if is_whole { lasts[index] } else { id }) else { continue };
            for at in first..=last {
                let row = self.row_or_new(point, at, stamps.kind(index))?;
                self.points[point].put(row, tick, stamps, index);
                self.points[point].stamps -= u64::from(at != id); // it is one stamp
                self.retried.extend(stamps.is_retry(index).then_some(row as u32));
            }
            self.hold_again(point)?;
        }
        Ok(())
    }

    /// Makes the keys known that other ids of long spans are looked for in; `left`: how many may be looked at, by
    /// point.
    pub(super) fn begin_tails(&mut self, left: Vec<u64>) {
        let keys = match &self.keys {
            Keys::Table(table) => table.iter().map(|(&(id, kind), &row)| (kind, id, row)).collect(),
            Keys::Planes { .. } => {
                let used = |row: usize| self.points.iter().any(|slots| slots.seen.get(row) == Some(&true));
                (0..self.len()).filter(|&row| used(row)).map(|row| self.key(row)).collect()
            }
        };
        self.tails = Tails { keys: KeyIndex::of(keys), stamps: Vec::new(), left };
        let rows = self.len();
        self.of.iter().for_each(|&point| self.points[point].grow(rows));
    }

    /// Takes the further ids of long spans at `point` where other stamps have them.
    pub(super) fn put_tails(&mut self, point: usize, stamps: StampColumns<'_>) -> Result<(), Full> {
        let Some(lasts) = stamps.lasts() else { return Ok(()) };
        for (index, (&id, &tick)) in stamps.ids().iter().zip(stamps.ticks()).enumerate() {
            if self.takes_whole(point, id, lasts[index]) {
                continue;
            }
            let Some((first, last)) = self.cut(id + 1, lasts[index]) else { continue };
            for &(.., row) in self.tails.keys.within(stamps.kind(index), first, last) {
                let Some(left) = self.tails.left[point].checked_sub(1) else { break };
                self.tails.left[point] = left;
                let slots = &mut self.points[point];
                if !slots.seen[row as usize] {
                    slots.put(row as usize, tick, &stamps, index);
                    slots.stamps -= 1;
                    slots.tails += 1;
                    self.retried.extend(stamps.is_retry(index).then_some(row));
                    self.tails.stamps.push((row, threaded(point, &stamps, index)));
                }
            }
        }
        Ok(())
    }

    /// Adds by point the ids that were put, and takes those that were looked at; returns how many were put.
    pub(super) fn tails_of(&self, all: &mut [(u64, u64)]) -> u64 {
        for (at, (put, left)) in all.iter_mut().enumerate() {
            *put += self.points[at].tails;
            *left = self.tails.left.get(at).copied().unwrap_or(*left);
        }
        self.points.iter().map(|slots| slots.tails).sum()
    }

    /// The keys of rows that have several stamps at some point, and what long spans became there.
    pub(super) fn index_repeated(&mut self) {
        let keys = match &self.keys {
            Keys::Table(table) => {
                let repeated = table.iter().filter(|(_, row)| self.repeated.contains_key(row));
                repeated.map(|(&(id, kind), &row)| (kind, id, row)).collect()
            }
            Keys::Planes { .. } => self.repeated.keys().map(|&row| self.key(row as usize)).collect(),
        };
        self.repeated_keys = KeyIndex::of(keys);
        for (row, stamp) in std::mem::take(&mut self.tails.stamps) {
            self.repeated.get_mut(&row).into_iter().for_each(|stamps| stamps.push(stamp));
        }
    }

    /// As [`Rows::put_repeated`], of stamps that stand for ids up to the `lasts`.
    pub(super) fn put_repeated_spans(
        &mut self,
        point: usize,
        stamps: &StampColumns<'_>,
        lasts: &[i64],
    ) -> Result<(), Full> {
        for (index, &id) in stamps.ids().iter().enumerate() {
            let last = if self.takes_whole(point, id, lasts[index]) { lasts[index] } else { id };
            let Some((first, last)) = self.cut(id, last) else { continue };
            let stamp = threaded(point, stamps, index);
            for (.., row) in self.repeated_keys.within(stamps.kind(index), first, last) {
                self.repeated.get_mut(row).into_iter().for_each(|stamps| stamps.push(stamp));
                self.held += 1;
            }
            if self.most.is_some_and(|most| self.held > most) {
                return Err(Full::Keys);
            }
        }
        Ok(())
    }

    fn takes_whole(&self, point: usize, id: i64, last: i64) -> bool {
        last.abs_diff(id) < SHORT_SPAN || self.whole[point]
    }

    /// The part of `first..=last` that lies in the chunk.
    fn cut(&self, first: i64, last: i64) -> Option<(i64, i64)> {
        let end = self.first().wrapping_add_unsigned(self.span);
        let (first, last) = (first.max(self.first()), last.min(end));
        (first <= last).then_some((first, last))
    }
}

/// A stamp as passages are told apart by.
pub(super) fn threaded(point: usize, stamps: &StampColumns<'_>, index: usize) -> Threaded {
    let attributes = Attribute::ALL.map(|attribute| stamps.attribute(attribute, index));
    let thread = stamps.threads().and_then(|threads| threads[index]);
    Threaded { point, tick: stamps.ticks()[index], attempt: stamps.attempt(index), thread, attributes }
}

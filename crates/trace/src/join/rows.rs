//! The stamps of one chunk, while they are being put into rows.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::passages::Threaded;
use super::plan::{Chunk, Method};
use super::spans::{KeyIndex, Tails, threaded};
use super::{Limits, SPARSEST};
use crate::{Attribute, StampColumns};

/// Rows of one chunk: one a key, filled point by point.
pub struct Rows {
    /// The points whose ids these are.
    pub(super) of: Vec<usize>,
    first: i64,
    /// Ids in the range, less one.
    pub(super) span: u64,
    pub(super) keys: Keys,
    pub(super) points: Vec<Slots>,
    /// The most rows; `None` where the chunk is a single id, which cannot be cut further.
    pub(super) most: Option<usize>,
    /// Rows of which a stamp says that others of its id came before it.
    pub(super) retried: Vec<u32>,
    /// Every stamp of the rows that have several at some point or were retried, once they are known.
    pub(super) repeated: Repeated,
    /// How many those are.
    pub(super) held: usize,
    /// By point of the layout: whether long spans are taken whole.
    pub(super) whole: Vec<bool>,
    /// True if a stamp stands for several ids.
    pub(super) has_spans: bool,
    /// True if ids of a long span are only taken where other stamps have them.
    pub(super) has_tails: bool,
    pub(super) tails: Tails,
    /// Keys of the rows in `repeated`, where stamps stand for several ids.
    pub(super) repeated_keys: KeyIndex,
}

/// Stamps by row, of some rows.
pub(super) type Repeated = HashMap<u32, Vec<Threaded>, BuildHasherDefault<Mixer>>;

/// How a key finds its row.
pub(super) enum Keys {
    /// One plane of rows for each kind met, in the order they were met.
    Planes { kinds: Vec<i32> },
    /// Rows in the order the keys were met.
    Table(HashMap<(i64, i32), u32, BuildHasherDefault<Mixer>>),
}

/// One point's stamps, by row.
#[derive(Default)]
pub(super) struct Slots {
    pub ticks: Vec<i64>,
    pub seen: Vec<bool>,
    /// The attributes that some stamp of the point has, by row.
    pub attributes: [Option<Vec<Option<i64>>>; Attribute::OPTIONAL.len()],
    /// The channel of each stamp, of no meaning where none was seen; where the channels are kept.
    pub channels: Option<Vec<i32>>,
    has_attributes: bool,
    /// The row of every stamp but the first to arrive.
    pub again: Vec<u32>,
    pub stamps: u64,
    pub duplicates: u64,
    /// Ids of long spans, but the first of each, that other stamps have.
    pub tails: u64,
}

/// Why a chunk cannot be joined as it was planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// More keys, or repeated stamps, than may be held: take fewer ids.
    Keys,
    /// More kinds than slots are worth: hash.
    Kinds,
}

impl Rows {
    /// No rows yet, for the stamps of the points in `of`, with their `attributes`; by point of the layout, whether long
    /// spans are taken `whole`.
    pub fn new(whole: &[bool], of: &[usize], attributes: &[(usize, Attribute)], chunk: &Chunk, limits: Limits) -> Self {
        let points = whole.len();
        let keys = match chunk.method {
            Method::Scatter => Keys::Planes { kinds: Vec::new() },
            Method::Hash => Keys::Table(HashMap::default()),
        };
        let mut points: Vec<Slots> = (0..points).map(|_| Slots::default()).collect();
        for &(point, attribute) in attributes {
            points[point].keep(attribute);
        }
        let (first, span) = (chunk.first, chunk.span());
        let most = (span > 0).then_some(limits.keys);
        Self {
            of: of.to_vec(),
            first,
            span,
            keys,
            points,
            most,
            retried: Vec::new(),
            repeated: Repeated::default(),
            held: 0,
            whole: whole.to_vec(),
            has_spans: false,
            has_tails: false,
            tails: Tails::default(),
            repeated_keys: KeyIndex::default(),
        }
    }

    /// The same, in the memory of slots that nobody needs any more: fresh memory costs more than clearing this.
    pub(super) fn in_memory_of(mut self, spare: Vec<Slots>) -> Self {
        for (slots, spare) in self.points.iter_mut().zip(spare) {
            (slots.ticks, slots.seen) = (spare.ticks, spare.seen);
            slots.ticks.clear();
            slots.seen.clear();
        }
        self
    }

    /// The points whose stamps these are.
    pub fn of(&self) -> &[usize] {
        &self.of
    }

    /// Takes those stamps of `point` whose ids are in the range.
    pub fn put(&mut self, point: usize, stamps: StampColumns<'_>) -> Result<(), Full> {
        if let Some(lasts) = stamps.lasts() {
            return self.put_spans(point, &stamps, lasts);
        }
        match &mut self.keys {
            Keys::Planes { .. } => self.scatter(point, &stamps)?,
            Keys::Table(_) => self.look_up(point, &stamps)?,
        }
        if stamps.says_attempts() {
            let retries = (0..stamps.ids().len()).filter(|&index| stamps.is_retry(index));
            let rows =
                retries.filter_map(|index| self.row(stamps.ids()[index], stamps.kind(index))).collect::<Vec<_>>();
            self.retried.extend(rows);
        }
        self.hold_again(point)
    }

    /// Refuses more stamps at `point`, or in all, than can be told apart at once.
    pub(super) fn hold_again(&self, point: usize) -> Result<(), Full> {
        let again = self.points[point].again.len().max(self.retried.len());
        if self.most.is_some_and(|most| again > most) { Err(Full::Keys) } else { Ok(()) }
    }

    /// Returns whether a row has several stamps at some point, or was retried: then all of its stamps are needed, with
    /// their threads.
    pub fn find_repeated(&mut self) -> bool {
        let rows = self.points.iter_mut().flat_map(|slots| std::mem::take(&mut slots.again));
        let rows = rows.chain(std::mem::take(&mut self.retried));
        self.repeated = rows.map(|row| (row, Vec::new())).collect();
        if self.has_spans {
            self.index_repeated();
        }
        !self.repeated.is_empty()
    }

    /// Takes those stamps of `point` that belong to such rows.
    pub fn put_repeated(&mut self, point: usize, batch: StampColumns<'_>) -> Result<(), Full> {
        if let Some(lasts) = batch.lasts() {
            return self.put_repeated_spans(point, &batch, lasts);
        }
        for (index, &id) in batch.ids().iter().enumerate() {
            let row = self.row(id, batch.kind(index));
            if let Some(stamps) = row.and_then(|row| self.repeated.get_mut(&row)) {
                stamps.push(threaded(point, &batch, index));
                self.held += 1;
            }
        }
        if self.most.is_some_and(|most| self.held > most) { Err(Full::Keys) } else { Ok(()) }
    }

    /// The row of a key that was put before.
    fn row(&self, id: i64, kind: i32) -> Option<u32> {
        let offset = id.wrapping_sub(self.first) as u64;
        match &self.keys {
            _ if offset > self.span => None,
            Keys::Planes { kinds } => {
                let plane = kinds.iter().position(|&of| of == kind)?;
                Some((plane * self.width() + offset as usize) as u32)
            }
            Keys::Table(table) => table.get(&(id, kind)).copied(),
        }
    }

    /// The row of a key of the range, which is made where there is none yet.
    pub(super) fn row_or_new(&mut self, point: usize, id: i64, kind: i32) -> Result<usize, Full> {
        if let Keys::Planes { .. } = self.keys {
            let offset = id.wrapping_sub(self.first) as u64 as usize;
            return Ok(self.plane(point, kind)? + offset);
        }
        let Keys::Table(table) = &mut self.keys else { return Err(Full::Kinds) };
        let next = table.len() as u32;
        let row = *table.entry((id, kind)).or_insert(next);
        if row == next && self.most.is_some_and(|most| next as usize >= most) {
            return Err(Full::Keys);
        }
        self.points[point].grow(row as usize + 1);
        Ok(row as usize)
    }

    /// The key of a row of a plane, as kind, id and row.
    pub(super) fn key(&self, row: usize) -> (i32, i64, u32) {
        let Keys::Planes { kinds } = &self.keys else { return (0, 0, row as u32) };
        let (plane, offset) = (row / self.width(), row % self.width());
        (kinds[plane], self.first.wrapping_add_unsigned(offset as u64), row as u32)
    }

    fn scatter(&mut self, point: usize, stamps: &StampColumns<'_>) -> Result<(), Full> {
        let mut plane = None;
        for (index, (&id, &tick)) in stamps.ids().iter().zip(stamps.ticks()).enumerate() {
            let offset = id.wrapping_sub(self.first) as u64;
            if offset > self.span {
                continue;
            }
            let kind = stamps.kinds().map_or(0, |kinds| kinds[index]);
            let base = match plane {
                Some((of, base)) if of == kind => base,
                _ => self.plane(point, kind)?,
            };
            plane = Some((kind, base));
            self.points[point].put(base + offset as usize, tick, stamps, index);
        }
        Ok(())
    }

    /// The first row of the plane of `kind`, with room for all of it at `point`.
    fn plane(&mut self, point: usize, kind: i32) -> Result<usize, Full> {
        let width = self.width();
        let Keys::Planes { kinds } = &mut self.keys else { return Err(Full::Kinds) };
        let known = kinds.iter().position(|&of| of == kind);
        let plane = match known {
            Some(plane) => plane,
            None if kinds.len() as u64 == SPARSEST => return Err(Full::Kinds),
            None if !kinds.is_empty() && self.most.is_some_and(|most| (kinds.len() + 1) * width > most) => {
                return Err(Full::Keys);
            }
            None => {
                kinds.push(kind);
                kinds.len() - 1
            }
        };
        self.points[point].grow((plane + 1) * width);
        Ok(plane * width)
    }

    fn look_up(&mut self, point: usize, stamps: &StampColumns<'_>) -> Result<(), Full> {
        let Keys::Table(table) = &mut self.keys else { return Err(Full::Kinds) };
        let slots = &mut self.points[point];
        for (index, (&id, &tick)) in stamps.ids().iter().zip(stamps.ticks()).enumerate() {
            if id.wrapping_sub(self.first) as u64 > self.span {
                continue;
            }
            let kind = stamps.kinds().map_or(0, |kinds| kinds[index]);
            let next = table.len() as u32;
            let row = *table.entry((id, kind)).or_insert(next);
            if row == next && self.most.is_some_and(|most| next as usize >= most) {
                return Err(Full::Keys);
            }
            slots.grow(row as usize + 1);
            slots.put(row as usize, tick, stamps, index);
        }
        Ok(())
    }

    /// Ids in the range. A scattered range spans no more than what may be held at once.
    pub(super) fn width(&self) -> usize {
        self.span as usize + 1
    }

    pub(super) fn first(&self) -> i64 {
        self.first
    }

    /// How many rows there are, used or not.
    pub(super) fn len(&self) -> usize {
        match &self.keys {
            Keys::Planes { kinds } => kinds.len() * self.width(),
            Keys::Table(table) => table.len(),
        }
    }
}

impl Slots {
    /// Keeps an attribute of every stamp from now on.
    fn keep(&mut self, attribute: Attribute) {
        self.has_attributes = true;
        match attribute {
            Attribute::Channel => self.channels = Some(Vec::new()),
            Attribute::Cpu | Attribute::Value => self.attributes[attribute as usize] = Some(Vec::new()),
        }
    }

    #[inline]
    pub(super) fn grow(&mut self, rows: usize) {
        if self.seen.capacity() == 0 {
            // Fresh zeroed memory costs nothing until it is touched; growing it later copies.
            (self.seen, self.ticks) = (vec![false; rows], vec![0; rows]);
        } else if self.seen.len() < rows {
            self.seen.resize(rows, false);
            self.ticks.resize(rows, 0);
        }
        if self.has_attributes {
            self.grow_attributes(rows);
        }
    }

    #[inline]
    pub(super) fn put(&mut self, row: usize, tick: i64, stamps: &StampColumns<'_>, index: usize) {
        self.stamps += 1;
        if self.seen[row] {
            return self.put_again(row);
        }
        self.seen[row] = true;
        self.ticks[row] = tick;
        if self.has_attributes {
            self.put_attributes(row, stamps, index);
        }
    }

    #[inline(never)]
    fn grow_attributes(&mut self, rows: usize) {
        self.attributes.iter_mut().flatten().for_each(|values| values.resize(values.len().max(rows), None));
        match &mut self.channels {
            Some(channels) if channels.is_empty() => *channels = vec![0; rows],
            Some(channels) if channels.len() < rows => channels.resize(rows, 0),
            _ => {}
        }
    }

    // Most points have none, and `put` is to be inlined where stamps are scattered.
    #[inline(never)]
    fn put_attributes(&mut self, row: usize, stamps: &StampColumns<'_>, index: usize) {
        if let (Some(channels), Some(of)) = (&mut self.channels, stamps.channels()) {
            channels[row] = of[index];
        }
        for (attribute, values) in Attribute::OPTIONAL.into_iter().zip(&mut self.attributes) {
            if let Some(values) = values {
                values[row] = stamps.attribute(attribute, index);
            }
        }
    }

    #[cold]
    fn put_again(&mut self, row: usize) {
        self.duplicates += 1;
        self.again.push(row as u32);
    }
}

/// Spreads a key over 64 bits by folded multiplication: ids are often multiples of something, or hashes already.
#[derive(Default)]
pub(super) struct Mixer(u64);

impl Mixer {
    /// 2^64 divided by the golden ratio, and the next prime of similar kind: any two odd numbers with mixed bits serve.
    const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ Self::MULTIPLIERS[1]) * u128::from(Self::MULTIPLIERS[0]);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.mix(u64::from(byte)));
    }
    fn write_i64(&mut self, id: i64) {
        self.mix(id as u64);
    }
    fn write_i32(&mut self, kind: i32) {
        self.mix(kind as u64);
    }
    fn write_u32(&mut self, row: u32) {
        self.mix(u64::from(row));
    }
}

//! Where stamps come from, as far as this crate needs to know: columns, by point and by range of ids.
//!
//! The store implements [`StampSource`] over Parquet row groups; tests implement it over vectors.

use std::ops::RangeInclusive;

use crate::Error;

/// A batch of stamps of one point, one row a stamp, in any order.
#[derive(Clone, Copy, Debug)]
pub struct StampColumns<'a> {
    ids: &'a [i64],
    ticks: &'a [i64],
    kinds: Option<&'a [i32]>,
    lasts: Option<&'a [i64]>,
    threads: Option<&'a [Option<u32>]>,
    attempts: Option<&'a [Option<i32>]>,
    parents: Option<&'a [Option<i64>]>,
    attributes: [Option<&'a [Option<i64>]>; Attribute::OPTIONAL.len()],
    channels: Option<&'a [i32]>,
}

/// An attribute of a stamp besides its id, kind and tick; kept with it in its trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Attribute {
    /// The core that the stamp was read on.
    Cpu,
    /// A number that the program gave along with the stamp.
    Value,
    /// The number of the channel that took it, unique within the point's node.
    Channel,
}

/// A request for stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Columns {
    /// Ids, ticks and kinds.
    Keys,
    /// Also which attempt of its id each was, where it says so: only where a policy may have left out others.
    KeysAndAttempts,
    /// Also which thread took each, and which attempt of its id it was, where that is known: only for ids that passed a
    /// point several times.
    KeysAndThreads,
    /// Also which id each one's is part of: only for edges between parts and wholes.
    KeysAndParents,
}

/// Stamps that stand for more than [`crate::SHORT_SPAN`] ids each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LongSpans {
    /// How many.
    pub stamps: u64,
    /// Ids that they stand for together.
    pub ids: u64,
}

impl LongSpans {
    /// Returns whether each of their ids is a stamp of its own to the join, whoever else saw it.
    pub fn are_whole(self) -> bool {
        self.ids <= crate::MOST_SPANNED
    }
}

/// Some of a point's stamps, as statistics know them: a row group, a file, or all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The smallest id.
    pub first: i64,
    /// The largest id.
    pub last: i64,
    /// How many stamps.
    pub stamps: u64,
}

/// Which of the stamps that a program took at a point are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeptStamps {
    /// All, but for those that were lost.
    #[default]
    All,
    /// Of each id all or none: a policy chose among the ids.
    WholeIds,
    /// Any: a policy may have kept one stamp of an id and left out another.
    Any,
}

/// A source of stamps for the join. A point is named by its index in [`crate::Layout::points`].
pub trait StampSource {
    /// The error of reading.
    type Error;

    /// Which ids `point` may have: extents that together hold every stamp, with all of its ids where those are taken
    /// whole. The finer they are, the fewer ids the join looks for in gaps; one a row group is fine enough.
    fn extents(&mut self, point: usize) -> Result<Vec<Extent>, Self::Error>;

    /// Which attributes some stamp of `point` has; the others are neither read nor kept.
    fn attributes(&mut self, _point: usize) -> Result<Vec<Attribute>, Self::Error> {
        Ok(Vec::new())
    }

    /// Stamps of `point` that stand for many ids each.
    fn long_spans(&mut self, _point: usize) -> Result<LongSpans, Self::Error> {
        Ok(LongSpans::default())
    }

    /// Which stamps of `point` are there.
    fn kept_stamps(&mut self, _point: usize) -> Result<KeptStamps, Self::Error> {
        Ok(KeptStamps::All)
    }

    /// Ids that two things have, sorted: they are joined, and no durations are made of them.
    fn ambiguous_ids(&mut self) -> Result<Vec<i64>, Self::Error> {
        Ok(Vec::new())
    }

    /// Hands every stamp of `point` that stands for an id in `ids` to `sink`, in batches of any size, each exactly
    /// once. Stamps with other ids may come along (row groups are read whole) and are ignored. May be asked for one
    /// range twice.
    fn read(
        &mut self,
        point: usize,
        ids: RangeInclusive<i64>,
        columns: Columns,
        sink: &mut dyn FnMut(StampColumns<'_>),
    ) -> Result<(), Self::Error>;
}

impl Attribute {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [Self::Cpu, Self::Value, Self::Channel];
    /// Those that a stamp may lack.
    pub const OPTIONAL: [Self; 2] = [Self::Cpu, Self::Value];

    /// The name of the attribute's column in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Value => "value",
            Self::Channel => "channel",
        }
    }
}

impl<'a> StampColumns<'a> {
    /// Columns of equal length; `kinds`: `None` where every kind is 0 (a null kind is 0 too).
    pub fn new(ids: &'a [i64], ticks: &'a [i64], kinds: Option<&'a [i32]>) -> Result<Self, Error> {
        let lengths = [ids.len(), ticks.len(), kinds.map_or(ids.len(), <[i32]>::len)];
        if lengths.iter().any(|&length| length != ids.len()) {
            let found = format!("{} ids, {} ticks, {} kinds", lengths[0], lengths[1], lengths[2]);
            return Err(Error::new("columns of equal length", found, "hand over whole rows"));
        }
        Ok(Self {
            ids,
            ticks,
            kinds,
            lasts: None,
            threads: None,
            attempts: None,
            parents: None,
            attributes: [None; Attribute::OPTIONAL.len()],
            channels: None,
        })
    }

    /// The same stamps, each of which stands for all ids from its own to that one of `lasts`.
    pub fn with_lasts(self, lasts: &'a [i64]) -> Result<Self, Error> {
        match self.ids.iter().zip(lasts).find(|(id, last)| id > last) {
            None if lasts.len() == self.ids.len() => Ok(Self { lasts: Some(lasts), ..self }),
            None => Err(self.unequal(lasts.len(), "last ids")),
            Some((id, last)) => {
                Err(Error::new("a last id that is not below the first", format!("{last} of {id}"), "order the two"))
            }
        }
    }

    /// The same stamps with the number of transmissions of its id before each; `None`: not said.
    pub fn with_attempts(self, attempts: &'a [Option<i32>]) -> Result<Self, Error> {
        if attempts.len() == self.ids.len() {
            return Ok(Self { attempts: Some(attempts), ..self });
        }
        Err(self.unequal(attempts.len(), "attempts"))
    }

    /// The same stamps with the id that each one's is part of; `None`: not said.
    pub fn with_parents(self, parents: &'a [Option<i64>]) -> Result<Self, Error> {
        if parents.len() == self.ids.len() {
            return Ok(Self { parents: Some(parents), ..self });
        }
        Err(self.unequal(parents.len(), "parents"))
    }

    fn unequal(&self, found: usize, of: &str) -> Error {
        let found = format!("{} ids, {found} {of}", self.ids.len());
        Error::new("columns of equal length", found, "hand over whole rows")
    }

    /// The same stamps with the number of the thread that took each, equal at every point; `None`: not known.
    pub fn with_threads(self, threads: &'a [Option<u32>]) -> Result<Self, Error> {
        if threads.len() == self.ids.len() {
            return Ok(Self { threads: Some(threads), ..self });
        }
        Err(self.unequal(threads.len(), "threads"))
    }

    /// The same stamps with the channel that took each.
    pub fn with_channels(self, channels: &'a [i32]) -> Result<Self, Error> {
        if channels.len() == self.ids.len() {
            return Ok(Self { channels: Some(channels), ..self });
        }
        Err(self.unequal(channels.len(), "channels"))
    }

    /// The same stamps with an attribute of each, one of [`Attribute::OPTIONAL`], where it has one.
    pub fn with_attribute(mut self, attribute: Attribute, values: &'a [Option<i64>]) -> Result<Self, Error> {
        let place = self.attributes.get_mut(attribute as usize);
        if let Some(place) = place.filter(|_| values.len() == self.ids.len()) {
            *place = Some(values);
            return Ok(self);
        }
        Err(self.unequal(values.len(), &format!("values of '{}'", attribute.name())))
    }

    /// The id of the stamped thing.
    pub fn ids(&self) -> &'a [i64] {
        self.ids
    }

    /// The counter's readings.
    pub fn ticks(&self) -> &'a [i64] {
        self.ticks
    }

    /// Classes of the ids; `None`: every kind is 0.
    pub fn kinds(&self) -> Option<&'a [i32]> {
        self.kinds
    }

    /// The attribute of the stamp with that index.
    pub fn attribute(&self, attribute: Attribute, index: usize) -> Option<i64> {
        match attribute {
            Attribute::Channel => self.channels?.get(index).map(|&channel| channel.into()),
            Attribute::Cpu | Attribute::Value => self.attributes[attribute as usize]?.get(index).copied().flatten(),
        }
    }

    /// The channels that took the stamps, where they were asked for.
    pub fn channels(&self) -> Option<&'a [i32]> {
        self.channels
    }

    /// The last id that each stamp stands for; `None`: each for its own alone.
    pub fn lasts(&self) -> Option<&'a [i64]> {
        self.lasts
    }

    /// The attempt of its id that the stamp with that index was of.
    pub fn attempt(&self, index: usize) -> Option<i32> {
        self.attempts?.get(index).copied().flatten()
    }

    /// Returns whether the stamps may say which attempts they are of.
    pub(crate) fn says_attempts(&self) -> bool {
        self.attempts.is_some()
    }

    /// Returns whether the stamp with that index says that others of its id came before it.
    pub(crate) fn is_retry(&self, index: usize) -> bool {
        self.attempt(index).is_some_and(|attempt| attempt != 0)
    }

    /// The id that the one of the stamp with that index is part of.
    pub fn parent(&self, index: usize) -> Option<i64> {
        self.parents?.get(index).copied().flatten()
    }

    /// The kind of the id of the stamp with that index.
    pub fn kind(&self, index: usize) -> i32 {
        self.kinds.map_or(0, |kinds| kinds[index])
    }

    /// The threads that took the stamps; `None`: of none it is known.
    pub fn threads(&self) -> Option<&'a [Option<u32>]> {
        self.threads
    }
}

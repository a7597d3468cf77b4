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
    threads: Option<&'a [Option<u32>]>,
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
    /// Also which thread took each, where that is known: only for ids that passed a point several times.
    KeysAndThreads,
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

/// A source of stamps for the join. A point is named by its index in [`crate::Layout::points`].
pub trait StampSource {
    /// The error of reading.
    type Error;

    /// Which ids `point` may have: extents that together hold every stamp. The finer they are, the fewer ids the join
    /// looks for in gaps; one a row group is fine enough.
    fn extents(&mut self, point: usize) -> Result<Vec<Extent>, Self::Error>;

    /// Which attributes some stamp of `point` has; the others are neither read nor kept.
    fn attributes(&mut self, _point: usize) -> Result<Vec<Attribute>, Self::Error> {
        Ok(Vec::new())
    }

    /// Hands every stamp of `point` whose id lies in `ids` to `sink`, in batches of any size, each exactly once. Stamps
    /// with other ids may come along (row groups are read whole) and are ignored. May be asked for one range twice.
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
        Ok(Self { ids, ticks, kinds, threads: None, attributes: [None; Attribute::OPTIONAL.len()], channels: None })
    }

    /// The same stamps with the number of the thread that took each, equal at every point; `None`: not known.
    pub fn with_threads(self, threads: &'a [Option<u32>]) -> Result<Self, Error> {
        if threads.len() == self.ids.len() {
            return Ok(Self { threads: Some(threads), ..self });
        }
        let found = format!("{} ids, {} threads", self.ids.len(), threads.len());
        Err(Error::new("columns of equal length", found, "hand over whole rows"))
    }

    /// The same stamps with the channel that took each.
    pub fn with_channels(self, channels: &'a [i32]) -> Result<Self, Error> {
        if channels.len() == self.ids.len() {
            return Ok(Self { channels: Some(channels), ..self });
        }
        let found = format!("{} ids, {} channels", self.ids.len(), channels.len());
        Err(Error::new("columns of equal length", found, "hand over whole rows"))
    }

    /// The same stamps with an attribute of each, one of [`Attribute::OPTIONAL`], where it has one.
    pub fn with_attribute(mut self, attribute: Attribute, values: &'a [Option<i64>]) -> Result<Self, Error> {
        let place = self.attributes.get_mut(attribute as usize);
        if let Some(place) = place.filter(|_| values.len() == self.ids.len()) {
            *place = Some(values);
            return Ok(self);
        }
        let found = format!("{} ids, {} values of '{}'", self.ids.len(), values.len(), attribute.name());
        Err(Error::new("columns of equal length", found, "hand over whole rows"))
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

    /// The threads that took the stamps; `None`: of none it is known.
    pub fn threads(&self) -> Option<&'a [Option<u32>]> {
        self.threads
    }
}

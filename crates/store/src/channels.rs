//! Channels: which process, thread and point each stamp came from, and what became of all that was stamped there.

use std::path::Path;

use tickscope_tick::Place;

use crate::Sparse;
use crate::error::Result;
use crate::table::{Field, TableReader, TableWriter, Values};

/// One row of `channels/node=N.parquet`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Number, unique within the node.
    pub channel: i32,
    /// Node.
    pub node: String,
    /// Process id, in the process's own pid namespace.
    pub pid: i32,
    /// Start time of the process, clock ticks since boot.
    pub process_start: i64,
    /// Shared-memory pool it stamped into.
    pub pool: u64,
    /// Number within the pool.
    pub serial: u32,
    /// Thread id.
    pub thread: i32,
    /// Point.
    pub point: String,
    /// `plain`, `before` or `after`.
    pub ordering: String,
    /// `boot-id/counter/epoch`.
    pub domain: String,
    /// The policy at the last look.
    pub policy: String,
    /// What that policy takes, such as the n of `every n`; `None`: nothing.
    pub parameter: Option<i64>,
    /// Stamps stored.
    pub stored: i64,
    /// Stamps that found no block.
    pub dropped: i64,
    /// Stamps after close, or with a tick of 0.
    pub refused: i64,
    /// Slots reserved and never committed.
    pub uncommitted: i64,
    /// Whether more may come.
    pub state: ChannelState,
}

/// Whether more stamps may come on a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChannelState {
    /// In use.
    #[default]
    Open,
    /// Closed by its program.
    Closed,
    /// Its process ended without closing it.
    Recovered,
}

impl ChannelState {
    const NAMES: [(Self, &str); 3] = [(Self::Open, "open"), (Self::Closed, "closed"), (Self::Recovered, "recovered")];

    /// The name in files.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The state of that name; a later version's is taken for open: nothing is known to have ended.
    fn from_name(name: &str) -> Self {
        Self::NAMES.iter().find(|(_, known)| *known == name).map_or(Self::Open, |&(state, _)| state)
    }
}

impl Channel {
    /// Whether its stamps are of that point.
    pub fn is_at(&self, place: &Place) -> bool {
        place.node == self.node.as_str() && place.point == self.point.as_str()
    }
}

/// Replaces the file at `place` by one with these channels.
pub fn write_channels(place: &Path, channels: &[Channel]) -> Result<()> {
    let text = |get: fn(&Channel) -> String| channels.iter().map(get).collect::<Vec<_>>();
    let long = |get: fn(&Channel) -> i64| channels.iter().map(get).collect::<Vec<_>>();
    let int = |get: fn(&Channel) -> i32| channels.iter().map(get).collect::<Vec<_>>();
    let parameter: Sparse<i64> = channels.iter().map(|c| c.parameter).collect();
    let mut table = TableWriter::begin(place, &fields(), &[])?;
    table.group(&[
        Values::Int(&int(|c| c.channel)),
        Values::Text(&text(|c| c.node.clone())),
        Values::Int(&int(|c| c.pid)),
        Values::Long(&long(|c| c.process_start)),
        Values::Text(&text(|c| format!("{:016x}", c.pool))),
        Values::Int(&int(|c| c.serial as i32)),
        Values::Int(&int(|c| c.thread)),
        Values::Text(&text(|c| c.point.clone())),
        Values::Text(&text(|c| c.ordering.clone())),
        Values::Text(&text(|c| c.domain.clone())),
        Values::Text(&text(|c| c.policy.clone())),
        Values::Long(&long(|c| c.stored)),
        Values::Long(&long(|c| c.dropped)),
        Values::Long(&long(|c| c.refused)),
        Values::Long(&long(|c| c.uncommitted)),
        Values::Text(&text(|c| c.state.name().into())),
        Values::LongOrNull(&parameter),
    ])?;
    table.finish().map(|_| ())
}

fn fields() -> [Field; 17] {
    [
        Field::int("channel"),
        Field::text("node"),
        Field::int("pid"),
        Field::long("process_start"),
        Field::text("pool"),
        Field::int("serial"),
        Field::int("thread"),
        Field::text("point"),
        Field::text("ordering"),
        Field::text("domain"),
        Field::text("policy"),
        Field::long("stored"),
        Field::long("dropped"),
        Field::long("refused"),
        Field::long("uncommitted"),
        Field::text("state"),
        Field::long("parameter").nullable(),
    ]
}

/// The channels in the file at `place`.
pub fn read_channels(place: &Path) -> Result<Vec<Channel>> {
    let table = TableReader::open(place)?;
    let text = |name| table.whole_column::<String>(name).map(Vec::into_iter);
    let long = |name| table.whole_column::<i64>(name).map(Vec::into_iter);
    let int = |name| table.whole_column::<i32>(name).map(Vec::into_iter);
    let (mut node, mut pool, mut point) = (text("node")?, text("pool")?, text("point")?);
    let (mut ordering, mut domain, mut policy) = (text("ordering")?, text("domain")?, text("policy")?);
    let (mut pid, mut serial, mut thread) = (int("pid")?, int("serial")?, int("thread")?);
    let (mut start, mut stored, mut dropped) = (long("process_start")?, long("stored")?, long("dropped")?);
    let (mut refused, mut uncommitted, mut state) = (long("refused")?, long("uncommitted")?, text("state")?);
    let parameter: Vec<Option<i64>> = table.whole_sparse("parameter")?.iter().map(Option::<&i64>::copied).collect();
    let mut parameter = parameter.into_iter();
    let row = |channel| {
        Some(Channel {
            channel,
            node: node.next()?,
            pid: pid.next()?,
            process_start: start.next()?,
            pool: u64::from_str_radix(&pool.next()?, 16).unwrap_or(0),
            serial: serial.next()? as u32,
            thread: thread.next()?,
            point: point.next()?,
            ordering: ordering.next()?,
            domain: domain.next()?,
            policy: policy.next()?,
            parameter: parameter.next()?,
            stored: stored.next()?,
            dropped: dropped.next()?,
            refused: refused.next()?,
            uncommitted: uncommitted.next()?,
            state: ChannelState::from_name(&state.next()?),
        })
    };
    Ok(int("channel")?.map_while(row).collect())
}

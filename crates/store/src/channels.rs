//! Channels: which process, thread and point each stamp came from, and how many stamps were stored, lost and refused.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use tickscope_stamp::block::Policy;
use tickscope_tick::{Domain, DomainError, NodeName, Place, PointName};

use crate::error::Result;
use crate::run::Run;
use crate::stamps::{PointStamps, Segment};
use crate::table::{Columns, columns, named_values};

columns! {
    /// One row of `channels/node=N.parquet`.
    row Channel,
    /// Channels as columns.
    pub(crate) columns ChannelColumns {
        /// Number, unique within the node.
        channel: i32,
        /// The node.
        node: NodeName,
        /// Process id, in the process's own pid namespace.
        pid: i32,
        /// Start time of the process, clock ticks since boot: with pid and boot id, the process instance.
        process_start: i64,
        /// The shared-memory pool it stamped into, 16 hexadecimal digits.
        pool: u64,
        /// The channel's number within its pool, counting from 0 in the order of opening.
        serial: u32,
        /// Thread id.
        thread: i32,
        /// The point.
        point: PointName,
        /// `plain`, `before` or `after`.
        ordering: String,
        /// `boot-id/counter/epoch`; all channels of a node's counter name one boot, that of `run.json`, and one
        /// epoch: others are refused.
        domain: String,
        /// The policy at the last look; `switched`: it keeps all now, and may not have done so before.
        policy: String,
        /// The parameter of that policy, 64 bits as they stand; null: none. Older files lack the column.
        parameter: Option<i64>,
        /// Stamps stored, and not removed since.
        stored: i64,
        /// Stamps that found no block, counted by the producer.
        dropped: i64,
        /// Stamps refused: a tick of 0, or a policy of a later version.
        refused: i64,
        /// Slots reserved and never committed: the process was killed in the middle of a stamp (at most one a thread
        /// and handler).
        uncommitted: i64,
        /// `open`, `closed`, or `recovered`: the process ended without closing it.
        state: ChannelState,
        /// Stamps stored, and removed since by the run's window; null: none. Only runs that keep a window have the
        /// column.
        removed: Option<i64> [spared],
        /// Stamps under `every`, kept or not; null: none.
        seen: Option<i64> [spared],
        /// Of those, the ones that were kept and stored; null: none were seen.
        kept: Option<i64> [spared],
        /// Stamps under `count`; null: none.
        counted: Option<i64> [spared],
        /// Stamps that later ones took the place of, because the program overwrites where no block is free; null: none.
        overwritten: Option<i64> [spared],
    }
}

/// State of a channel: more stamps may come, or not.
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
}

impl fmt::Display for ChannelState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ChannelState {
    type Err = Infallible;

    /// The state of that name; a later version's is taken for open: nothing is known to have ended.
    fn from_str(name: &str) -> std::result::Result<Self, Infallible> {
        Ok(Self::NAMES.iter().find(|(_, known)| *known == name).map_or(Self::Open, |&(state, _)| state))
    }
}

named_values!(ChannelState);

/// More than any thread can count: one a nanosecond for two years.
const MOST_COUNTED: i64 = 1 << 56;

impl Channel {
    /// `policy` of the channel that a log was imported as: every line that is a reading is a stamp.
    pub const LOG_POLICY: &str = "log";

    /// `policy` of a channel that had another one for a while, or may have had.
    pub const SWITCHED_POLICY: &str = "switched";

    /// Returns whether every stamp was stored or counted as lost; false for a policy of a later version.
    pub fn keeps_all(&self) -> bool {
        self.policy == Self::LOG_POLICY || Policy::from_name(&self.policy).is_some_and(Policy::keeps_all)
    }

    /// Returns whether it had not ended when its memory was looked at last, so that the memory must be there still.
    pub fn is_in_memory(&self) -> bool {
        self.state == ChannelState::Open
    }

    /// Stamps that were stored, whether or not the run's window removed them since.
    pub fn ever_stored(&self) -> i64 {
        self.stored.saturating_add(self.removed.unwrap_or(0))
    }

    /// Stamps that found no free block, or that later ones took the place of.
    pub fn ever_lost(&self) -> i64 {
        self.dropped.saturating_add(self.overwritten.unwrap_or(0))
    }

    /// A count that no program can have made, with its name in the file, if there is one: whatever it was read from,
    /// as a rule a pool of shared memory, was damaged.
    pub fn impossible_count(&self) -> Option<(&'static str, i64)> {
        let spared = [
            ("removed", self.removed),
            ("seen", self.seen),
            ("kept", self.kept),
            ("counted", self.counted),
            ("overwritten", self.overwritten),
        ];
        let always = [
            ("stored", self.stored),
            ("dropped", self.dropped),
            ("refused", self.refused),
            ("uncommitted", self.uncommitted),
        ];
        let all = always.into_iter().chain(spared.map(|(name, count)| (name, count.unwrap_or(0))));
        all.into_iter().find(|(_, count)| !(0..=MOST_COUNTED).contains(count))
    }

    /// Returns whether the run's window removed stamps of it.
    pub fn was_thinned(&self) -> bool {
        self.removed.is_some_and(|removed| removed > 0)
    }

    /// The domain of its ticks; error: `domain` is no text of one.
    pub fn domain(&self) -> std::result::Result<Domain, DomainError> {
        self.domain.parse()
    }

    /// Returns whether its stamps are of that point.
    pub fn is_at(&self, place: &Place) -> bool {
        place.node == self.node && place.point == self.point
    }
}

impl Run {
    /// Numbers of the channels whose stamps at `place` are stored.
    pub fn channels_at(&self, place: &Place) -> Result<BTreeSet<i32>> {
        Ok(stamped_by(place, &self.stamps(place)?, &self.channels()?.found))
    }
}

/// Numbers of the channels that the stamps of `place` came from, by their footers and by `channels`: either may be
/// ahead of the other while a run goes on or after it was cut off.
pub(crate) fn stamped_by(place: &Place, stamps: &PointStamps, channels: &[Channel]) -> BTreeSet<i32> {
    let known = channels.iter().filter(|channel| channel.is_at(place) && channel.stored > 0);
    let counted = stamps.segments().iter().flat_map(Segment::counted_channels);
    known.map(|channel| channel.channel).chain(counted).collect()
}

/// Replaces the file at `place` by one with these channels.
pub fn write_channels(place: &Path, channels: &[Channel]) -> Result<()> {
    channels.iter().cloned().collect::<ChannelColumns>().write(place, &[]).map(|_| ())
}

/// The channels in the file at `place`.
pub fn read_channels(place: &Path) -> Result<Vec<Channel>> {
    Ok(ChannelColumns::read(place)?.into_rows().collect())
}

//! The hand-over of a point's ready blocks: what makes it exactly-once is the order of the steps here.

use std::collections::BTreeMap;

use super::{Collector, Pending, stem};
use crate::watched_pool::{Lost, ReadyBlock, count};
use tickscope_store::{ChannelCount, Event, EventKind, Origin, Paths, Result, StampColumns, write_segment};
use tickscope_tick::{Place, PointName};

/// Rows to be written of a point.
#[derive(Default)]
struct Taken {
    stamps: StampColumns,
    origin: Origin,
    lost: Vec<Event>,
}

impl Collector {
    /// Stores the ready blocks of `point` as one segment and frees them.
    pub(super) fn store(&mut self, point: &PointName) -> Result<()> {
        let Some(mut pending) = self.pending.remove(point) else { return Ok(()) };
        pending.blocks.sort();
        let stored = self.write(point, &pending);
        if stored.is_err() {
            // Nothing has its final name: the blocks wait on, and the next attempt writes the same.
            self.pending.insert(point.clone(), pending);
            return stored;
        }
        self.free(&pending)
    }

    fn write(&mut self, point: &PointName, pending: &Pending) -> Result<()> {
        // A reader of the segment finds each channel's row; a restarted collector gives no number twice.
        self.ledger.write_numbers()?;
        self.steps.reached("channels have their numbers")?;
        let taken = self.take(pending);
        let place = Place { node: self.settings.node.clone(), point: point.clone() };
        let folder = Paths::of(&self.settings.run).stamps(&place);
        let place = self.parts.next(&folder)?;
        // Before the segment, and named after it: whoever comes after a kill here writes it again under the same name.
        self.write_events(&format!("{point}+{}", stem(&place)), &taken.lost)?;
        self.steps.reached("losses are written")?;
        let bytes = write_segment(&place, &taken.stamps, &taken.origin)?;
        self.parts.taken(&folder);
        self.note(&taken, pending, bytes);
        Ok(())
    }

    fn take(&self, pending: &Pending) -> Taken {
        let mut taken = Taken::default();
        let mut sums: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
        taken.stamps.reserve(pending.stamps as usize);
        for block in &pending.blocks {
            let Some(watched) = self.pools.get(&block.channel.0) else { continue };
            let counts = watched.pool.read(block, &mut taken.stamps);
            let nothing_yet = ChannelCount { channel: block.node_channel, stored: 0, uncommitted: 0 };
            taken.origin.add(block.channel, block.number, nothing_yet);
            for count in counts {
                let sum = sums.entry(count.channel).or_insert((0, 0));
                *sum = (sum.0 + count.stored, sum.1 + count.uncommitted);
            }
            taken.lost.extend(watched.pool.lost_before(block).map(|lost| self.lost(block.channel, lost)));
        }
        let count = |(channel, (stored, uncommitted))| ChannelCount { channel, stored, uncommitted };
        taken.origin.counts = sums.into_iter().map(count).collect();
        taken
    }

    fn note(&mut self, taken: &Taken, pending: &Pending, bytes: u64) {
        self.ledger.add(&taken.origin);
        self.report.segments += 1;
        self.report.bytes += bytes;
        self.report.blocks += pending.blocks.len() as u64;
        self.report.stamps += taken.stamps.len() as u64;
        self.report.uncommitted += taken.origin.counts.iter().map(|count| count.uncommitted).sum::<u64>();
        self.report.lost += taken.lost.iter().filter_map(|event| event.value).sum::<i64>() as u64;
    }

    fn free(&mut self, pending: &Pending) -> Result<()> {
        self.steps.reached("the segment has its name")?;
        for ReadyBlock { channel, index, .. } in &pending.blocks {
            if let Some(watched) = self.pools.get_mut(&channel.0) {
                watched.pool.free(*index, &mut self.steps)?;
            }
        }
        Ok(())
    }

    pub(super) fn lost(&self, channel: (u64, u32), lost: Lost) -> Event {
        let text = format!(
            "{} stamps were dropped because no block was free; enlarge the pool (TICKSCOPE_POOL_BYTES) or stamp less",
            lost.stamps
        );
        Event {
            channel: self.ledger.known_number(channel),
            tick: Some(lost.first),
            until: Some(lost.last),
            value: Some(count(lost.stamps)),
            domain: Some(format!("{}.{}", self.settings.node, lost.counter)),
            ..self.event(EventKind::Lost, text)
        }
    }
}

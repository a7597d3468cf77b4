//! The hand-over of a point's blocks: what makes it exactly-once is the order of the steps here.
//!
//! The newest segment of a point grows: it is replaced, whole, by one that holds more, as long as all that it holds
//! lies in shared memory too. It is kept as it is, and its full blocks are freed, once they are many or old, or their
//! pool is crowded. A collector that is killed leaves one segment or the other, and each names what it holds.
//!
//! Losses are written before the segment that tells of their blocks, under its name, and only for a segment that is not
//! there yet: one that grows would be kept by a kill, and the losses told again with the next.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::row_groups::{Found, Gathered, Source, Task};
use super::window::since_boot_ns;
use super::{Collector, Pending, Watched, stem};
use crate::ledger::{Handle, Taken as PartTaken};
use crate::watched_pool::{Lost, ReadyBlock, count};
use tickscope_store::{
    ChannelCount, Event, EventKind, OpenBlock, Origin, Paths, Result, Segment, StampColumns, StampGroup,
    write_segment_groups,
};
use tickscope_tick::{Place, PointName};

/// Rows to be written of a point.
#[derive(Default)]
pub(super) struct Taken {
    groups: Vec<StampGroup>,
    /// In a run that keeps a window: the newest tick of each channel.
    newest: BTreeMap<i32, i64>,
    origin: Origin,
    /// Counts of each channel.
    sums: BTreeMap<i32, ChannelCount>,
    lost: Vec<Event>,
    /// By channel that overwrites: number of its last block so far, and tick of the last stamp there.
    ends: BTreeMap<Handle, (u32, i64)>,
}

/// The newest segment of a point, while it may still be replaced.
pub(super) struct Growing {
    pub(super) origin: Origin,
    pub(super) blocks: Vec<ReadyBlock>,
    lost: Vec<Event>,
    pub(super) rows: u64,
    bytes: u64,
}

impl Collector {
    /// Stores the ready blocks of `point`, and what is committed in `open` ones, in a segment that is kept; frees the
    /// ready ones.
    pub(super) fn store(&mut self, point: &PointName, open: &[ReadyBlock]) -> Result<()> {
        let mut pending = self.pending.remove(point).unwrap_or_default();
        let written = self.write(point, &mut pending, open);
        if written.is_err() {
            // Nothing has its final name: the blocks wait on, and the next attempt writes the same.
            self.pending.insert(point.clone(), pending);
            return written;
        }
        self.keep(point, &mut pending)
    }

    /// Stores what has come since in the segment that grows.
    pub(super) fn grow(&mut self, point: &PointName, open: &[ReadyBlock]) -> Result<()> {
        let mut pending = self.pending.remove(point).unwrap_or_default();
        let written = self.write(point, &mut pending, open);
        if !pending.blocks.is_empty() || pending.growing.is_some() || pending.unsure.is_some() {
            self.pending.insert(point.clone(), pending);
        }
        written
    }

    fn write(&mut self, point: &PointName, pending: &mut Pending, open: &[ReadyBlock]) -> Result<()> {
        pending.blocks.sort();
        self.settle(pending)?;
        if self.is_all_held(pending, open) {
            return Ok(());
        }
        let mut taken = self.take(pending, open)?;
        if pending.growing.as_ref().is_some_and(|growing| !growing.may_become(&taken)) {
            self.keep(point, pending)?;
            taken = self.take(pending, open)?;
        }
        self.write_taken(point, pending, &mut taken)
    }

    /// Returns whether the growing segment holds all that there is. Full blocks are not read for that: they do not
    /// change while their program lives. Where it can overwrite them, what is lost before them changes.
    fn is_all_held(&self, pending: &Pending, open: &[ReadyBlock]) -> bool {
        let steady = |block: &ReadyBlock| {
            self.pools.get(&block.channel.0).is_some_and(|of| of.pool.is_held() && !of.pool.overwrites(block))
        };
        let growing = pending.growing.as_ref().filter(|growing| growing.blocks == pending.blocks);
        let Some(growing) = growing.filter(|_| pending.blocks.iter().chain(open).all(steady)) else { return false };
        let mut tasks: Vec<Task<'_>> = open.iter().map(|block| Task { block, is_open: true }).collect();
        tasks.sort();
        let (source, mut piece) = (self.source(), StampColumns::default());
        let part = |task: Task<'_>| Some(open_part(task.block, source.read(&task, &mut piece)?.open?));
        tasks.into_iter().filter_map(part).eq(growing.origin.open.iter().cloned())
    }

    fn write_taken(&mut self, point: &PointName, pending: &mut Pending, taken: &mut Taken) -> Result<()> {
        let rows = taken.rows();
        let unchanged = pending.growing.as_ref().is_some_and(|growing| growing.is_as_good_as(taken));
        if unchanged || taken.is_nothing() {
            return Ok(());
        }
        self.run_folder.expect()?;
        // A reader of the segment finds each channel's row; a restarted collector gives no number twice.
        self.ledger.write_numbers()?;
        self.steps.reached("channels have their numbers")?;
        let place = self.parts.next(&self.folder(point))?;
        if pending.growing.is_none() {
            // Whoever comes after a kill here writes it again under the same name.
            self.write_events(&format!("{point}+{}", stem(&place)), &taken.lost)?;
            self.steps.reached("losses are written")?;
        }
        let written = write_segment_groups(&place, &taken.groups, &self.aged(taken), self.settings.encoding)?;
        self.steps.reached("the segment is written")?;
        let (origin, lost) = (std::mem::take(&mut taken.origin), std::mem::take(&mut taken.lost));
        let grown = Growing { origin, lost, blocks: pending.blocks.clone(), rows, bytes: written.bytes };
        if let Err(gone) = self.run_folder.expect() {
            pending.unsure = Some((place, grown));
            return Err(gone);
        }
        self.replace(pending, grown);
        self.steps.reached("the segment has its name")
    }

    /// Takes a segment as the growing one in place of that before it.
    fn replace(&mut self, pending: &mut Pending, grown: Growing) {
        self.note(&grown, pending.growing.as_ref());
        pending.growing = Some(grown);
        self.note.is_old = true;
    }

    /// Finds out, once the disk is back that went as a segment got its name, whether it is that segment which lies
    /// there, or the one that it was to replace.
    fn settle(&mut self, pending: &mut Pending) -> Result<()> {
        let Some((place, _)) = &pending.unsure else { return Ok(()) };
        self.run_folder.expect()?;
        let found = match Segment::open(place).and_then(|segment| segment.origin()) {
            Err(why) if why.is_disk_full() => return Err(why),
            found => found.ok(),
        };
        if let Some((_, grown)) = pending.unsure.take()
            && found.is_some_and(|found| found.holds_as(&grown.origin))
        {
            self.replace(pending, grown);
        }
        Ok(())
    }

    /// What the footer of a segment says that is written now: its age too, where a window asks for that.
    fn aged(&self, taken: &Taken) -> Origin {
        let origin = taken.origin.clone();
        if self.settings.keep.is_some() { origin.aged(&taken.newest, since_boot_ns()) } else { origin }
    }

    pub(super) fn folder(&self, point: &PointName) -> PathBuf {
        Paths::of(&self.settings.run).stamps(&Place { node: self.settings.node.clone(), point: point.clone() })
    }

    /// What there is of a point.
    pub(super) fn take(&mut self, pending: &Pending, open: &[ReadyBlock]) -> Result<Taken> {
        let ready = pending.blocks.iter().map(|block| Task { block, is_open: false });
        let mut tasks: Vec<Task<'_>> = ready.chain(open.iter().map(|block| Task { block, is_open: true })).collect();
        tasks.sort();
        self.steps.reached("stamps are packed")?;
        let (gathered, helpers_ns) = self.source().gather(&tasks);
        self.helpers_ns += helpers_ns;
        let (mut taken, mut tasks) = (Taken::default(), tasks.into_iter());
        for gathered in gathered {
            let Gathered { group, found, newest } = gathered?;
            // In this order: behind the last of a group, none of the next is taken.
            for (found, task) in found.into_iter().zip(tasks.by_ref()) {
                if let Some(found) = found {
                    self.note_found(task.block, found, &mut taken);
                }
            }
            newest.into_iter().for_each(|(channel, tick)| taken.age(channel, tick));
            taken.groups.push(group);
        }
        let bytes = taken.groups.iter().map(StampGroup::bytes).sum();
        self.report.encoded_bytes = self.report.encoded_bytes.max(bytes);
        taken.origin.counts = std::mem::take(&mut taken.sums).into_values().collect();
        Ok(taken)
    }

    fn source(&self) -> Source<'_> {
        Source { pools: &self.pools, ledger: &self.ledger, settings: &self.settings }
    }

    fn note_found(&self, block: &ReadyBlock, Found { counts, open }: Found, taken: &mut Taken) {
        taken.count(&counts);
        if let Some(now) = open {
            return taken.origin.open.push(open_part(block, now));
        }
        let Some(watched) = self.pools.get(&block.channel.0) else { return };
        taken.origin.add(block.channel, block.number);
        taken.lost.extend(watched.pool.lost_before(block).map(|lost| self.lost(block.channel, lost)));
        if let Some((overwritten, event)) = self.overwritten_before(watched, block, &mut taken.ends) {
            taken.lost.push(event);
            taken.count(&[ChannelCount { channel: block.node_channel, overwritten, ..ChannelCount::default() }]);
        }
        taken.lost.extend(watched.pool.unseen_marker(block).map(|marker| self.unseen_marker(block, marker)));
    }

    /// The stamps whose blocks the program overwrote before this one, and the event: numbers of blocks have no gaps
    /// otherwise. What an earlier policy left out is no loss, and its last block tells of what was one.
    fn overwritten_before(
        &self,
        watched: &Watched,
        block: &ReadyBlock,
        ends: &mut BTreeMap<Handle, (u32, i64)>,
    ) -> Option<(u64, Event)> {
        if !watched.pool.overwrites(block) {
            return None;
        }
        let (first, last) = watched.pool.ends_of(block)?;
        let before = ends.insert(block.channel, (block.number, last));
        if self.ledger.last_before(block.channel, u32::MAX).is_some_and(|stored| stored > block.number) {
            return None; // what is gone before it was counted with the one behind it
        }
        let stored = self.ledger.last_before(block.channel, block.number);
        let next = before.map(|(number, _)| number).max(stored).map_or(0, |number| number.saturating_add(1));
        let next = next.max(watched.pool.first_of_policy(block));
        let numbers = next..block.number;
        let here = watched.pool.blocks_among(block.channel.1, &numbers);
        let gone = u64::from(block.number.saturating_sub(next)).saturating_sub(here);
        if gone == 0 {
            return None;
        }
        let stamps = gone * u64::from(block.capacity);
        let counter = watched.pool.counter_of(block)?;
        let lost = Lost { stamps, first: before.map(|(_, tick)| tick), last: first, counter };
        let text = format!(
            "{stamps} stamps were overwritten by later ones because no block was free; enlarge the pool \
             (TICKSCOPE_POOL_BYTES) or stamp less"
        );
        Some((stamps, Event { what: EventKind::Overwritten, text, ..self.lost(block.channel, lost) }))
    }

    fn unseen_marker(&self, block: &ReadyBlock, marker: i64) -> Event {
        let text = format!(
            "{} ended without the marker {marker}: its last stamp is the last that came, not the end of a stream; send \
             the marker through every path of the program",
            block.point
        );
        let channel = self.ledger.known_number(block.channel);
        Event { channel, ..self.event(EventKind::MarkerUnseen, text) }
    }

    /// Counts a segment in place of the one that it replaced.
    fn note(&mut self, grown: &Growing, before: Option<&Growing>) {
        let none = Growing { origin: Origin::default(), blocks: Vec::new(), lost: Vec::new(), rows: 0, bytes: 0 };
        self.report.segments += u64::from(before.is_none());
        let before = before.unwrap_or(&none);
        self.ledger.uncount(&before.origin.counts);
        self.ledger.count(&grown.origin.counts);
        let replace =
            |total: &mut u64, of: &dyn Fn(&Growing) -> u64| *total = (*total + of(grown)).saturating_sub(of(before));
        let report = &mut self.report;
        replace(&mut report.bytes, &|growing| growing.bytes);
        replace(&mut report.stamps, &|growing| growing.rows);
        replace(&mut report.uncommitted, &|growing| {
            growing.origin.counts.iter().map(|count| count.uncommitted).sum::<u64>()
        });
        replace(&mut report.lost, &|growing| growing.lost.iter().filter_map(|event| event.value).sum::<i64>() as u64);
    }

    /// Leaves the segment as it is, and frees the ready blocks that it holds.
    fn keep(&mut self, point: &PointName, pending: &mut Pending) -> Result<()> {
        pending.grows_since = None;
        let Some(Growing { origin, blocks, .. }) = pending.growing.take() else {
            return self.free_stored(point, pending);
        };
        self.parts.taken(&self.folder(point));
        self.ledger.hold(&origin);
        // Both are sorted, and blocks are only ever added.
        let mut stored = blocks.into_iter().peekable();
        let mut freed = Vec::new();
        pending.blocks.retain(|block| {
            let is_stored = stored.next_if_eq(block).is_some();
            freed.extend(is_stored.then(|| block.clone()));
            !is_stored
        });
        pending.stamps = pending.blocks.iter().map(|block| u64::from(block.capacity)).sum();
        self.free(&freed)
    }

    /// Frees blocks of which all was stored while they were open.
    fn free_stored(&mut self, _point: &PointName, pending: &mut Pending) -> Result<()> {
        pending.stamps = 0;
        let blocks = std::mem::take(&mut pending.blocks);
        self.free(&blocks)
    }

    fn free(&mut self, blocks: &[ReadyBlock]) -> Result<()> {
        for ReadyBlock { channel, index, number, .. } in blocks {
            if let Some(watched) = self.pools.get_mut(&channel.0) {
                watched.pool.free(*index, &mut self.steps)?;
                self.report.blocks += 1;
                self.ledger.drop_part(*channel, *number);
                self.note.forget(*channel, *number);
            }
        }
        Ok(())
    }

    /// Blocks that are still being filled, by point.
    pub(super) fn open_blocks(&mut self) -> Result<BTreeMap<PointName, Vec<ReadyBlock>>> {
        let mut open: BTreeMap<PointName, Vec<ReadyBlock>> = BTreeMap::new();
        for watched in self.pools.values().filter(|watched| watched.pool.is_held()) {
            for block in watched.pool.open_blocks(&mut self.ledger, &mut self.steps)? {
                open.entry(block.point.clone()).or_default().push(block);
            }
        }
        Ok(open)
    }

    pub(super) fn lost(&self, channel: (u64, u32), lost: Lost) -> Event {
        let text = format!(
            "{} dropped because no block was free; enlarge the pool (TICKSCOPE_POOL_BYTES) or stamp less",
            if lost.stamps == 1 { "1 stamp was".into() } else { format!("{} stamps were", lost.stamps) }
        );
        Event {
            channel: self.ledger.known_number(channel),
            tick: lost.first,
            until: Some(lost.last),
            value: Some(count(lost.stamps)),
            domain: Some(format!("{}.{}", self.settings.node, lost.counter)),
            ..self.event(EventKind::Lost, text)
        }
    }
}

/// The part of an open block that is stored.
fn open_part(block: &ReadyBlock, now: PartTaken) -> OpenBlock {
    let ((pool, serial), number) = (block.channel, block.number);
    OpenBlock { pool, serial, number, slots: now.slots, uncommitted: now.uncommitted }
}

impl Taken {
    pub(super) fn rows(&self) -> u64 {
        self.groups.iter().map(StampGroup::len).sum()
    }

    fn age(&mut self, channel: i32, tick: i64) {
        self.newest.entry(channel).and_modify(|known| *known = tick.max(*known)).or_insert(tick);
    }

    fn count(&mut self, counts: &[ChannelCount]) {
        for count in counts {
            let none = ChannelCount { channel: count.channel, ..ChannelCount::default() };
            let sum = self.sums.entry(count.channel).or_insert(none);
            sum.stored += count.stored;
            sum.uncommitted += count.uncommitted;
            sum.overwritten = sum.overwritten.saturating_add(count.overwritten);
            sum.every += count.every;
        }
    }

    /// Whether a segment of it would tell nothing.
    fn is_nothing(&self) -> bool {
        let told = self.origin.counts.iter().any(|count| count.uncommitted > 0) || !self.lost.is_empty();
        self.rows() == 0 && !told
    }
}

impl Growing {
    /// Whether a segment of `taken` may replace it: what it holds is all there, and no loss is new.
    fn may_become(&self, taken: &Taken) -> bool {
        self.lost == taken.lost && self.rows <= taken.rows()
    }

    /// Whether a segment of `taken` would hold nothing new.
    fn is_as_good_as(&self, taken: &Taken) -> bool {
        self.rows == taken.rows() && self.origin == taken.origin
    }
}

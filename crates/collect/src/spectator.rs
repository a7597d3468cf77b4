//! The spectator: sees the stamps of some points of a node as soon as they are committed, and takes none.
//!
//! For whoever must act on a stamp while the run goes on, where the run's files come a second later. It maps the pools
//! for itself and reads the blocks that are written to just now. What it is to see is decided by the policy that each
//! block's records are under, so a switch while the run goes on counts from the first stamp under the new one.
//!
//! Assumes: a look more often than a collector frees blocks; what was freed before is not seen. Guarantees: nothing is
//! written into a pool and no lock is taken, so neither programs nor collectors know of it; a stamp is seen once at
//! most, as it was committed; a description of a channel that shares the block is never taken for a stamp; only stamps
//! of the node's own counter are seen. Deliberately absent: any promise to see every stamp, which is the collector's.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

use tickscope_stamp::block::{BlockState, Policy, unpadded};
use tickscope_stamp::directory::{self, Trust};
use tickscope_stamp::handover;
use tickscope_stamp::pool::{MappedBlock, Pool};
use tickscope_tick::PointName;

/// A stamp that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Position of its point among those that are looked at.
    pub point: usize,
    /// Id of what was stamped.
    pub id: i64,
    /// The node's counter.
    pub tick: i64,
}

/// Looks at the stamps of some points under one policy.
pub struct Spectator {
    directory: PathBuf,
    trust: Trust,
    points: Vec<PointName>,
    policy: Policy,
    pools: BTreeMap<PathBuf, Watched>,
    /// Files that are no pools of this version.
    ignored: BTreeSet<PathBuf>,
    listed: Option<Instant>,
}

/// A pool, and how far it was seen.
struct Watched {
    pool: Pool,
    /// What its program had leased at the last search.
    leases: Option<u64>,
    searched: Option<Instant>,
    /// By block.
    followed: BTreeMap<u32, Followed>,
}

/// A block of one of the points.
struct Followed {
    /// The channel that it began with, and its number within it: another pair is another block.
    name: (u32, u32),
    point: usize,
    /// The first slot that was not seen yet.
    next: u32,
}

/// Interval at which the directory is listed for new pools.
const LIST_EVERY: Duration = Duration::from_millis(100);
/// Interval at which a pool's blocks are searched that leased none: one may have been leased and not yet described.
const SEARCH_EVERY: Duration = Duration::from_millis(20);

impl Spectator {
    /// Looks at these points in the pools of a stamp directory, at stamps under `policy` alone.
    pub fn new(directory: &Path, points: Vec<PointName>, policy: Policy) -> io::Result<Self> {
        let (trust, directory) = (Trust::of(directory)?, directory.into());
        let (pools, ignored) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { directory, trust, points, policy, pools, ignored, listed: None })
    }

    /// Adds what was stamped since the last look.
    pub fn look(&mut self, seen: &mut Vec<Seen>) -> io::Result<()> {
        let now = Instant::now();
        if self.listed.is_none_or(|listed| now >= listed + LIST_EVERY) {
            self.list()?;
            self.listed = Some(now);
        }
        for watched in self.pools.values_mut() {
            if watched.has_stirred(now) {
                watched.search(&self.points, self.policy);
            }
            watched.follow(seen);
        }
        Ok(())
    }

    fn list(&mut self) -> io::Result<()> {
        let listing = directory::list(&self.directory, &self.trust)?;
        let known: BTreeSet<PathBuf> = listing.pools.into_iter().collect();
        self.pools.retain(|path, _| known.contains(path));
        self.ignored.retain(|path| known.contains(path));
        for path in known {
            if self.pools.contains_key(&path) || self.ignored.contains(&path) {
                continue;
            }
            match Pool::open(&path) {
                Ok(mut pool) => {
                    pool.close(); // its mapping is enough
                    let (leases, searched, followed) = (None, None, BTreeMap::new());
                    self.pools.insert(path, Watched { pool, leases, searched, followed });
                }
                Err(why) if why.is_shortage() => {}
                Err(_) => {
                    self.ignored.insert(path); // its collector says why
                }
            }
        }
        Ok(())
    }
}

impl Watched {
    /// Returns whether there may be blocks that the last search did not find.
    fn has_stirred(&mut self, now: Instant) -> bool {
        let leases = self.pool.header().leases.load(Acquire);
        let stirred = self.leases.replace(leases) != Some(leases)
            || self.searched.is_none_or(|searched| now >= searched + SEARCH_EVERY);
        if stirred {
            self.searched = Some(now);
        }
        stirred
    }

    /// Finds the blocks of the points, and forgets those that are others now.
    fn search(&mut self, points: &[PointName], policy: Policy) {
        let (present, counter) = (self.pool.blocks_with_memory(), self.pool.header().counter);
        for index in 0..self.pool.block_count() {
            if present.as_ref().is_some_and(|present| !present[index as usize]) {
                continue;
            }
            let block = self.pool.block(index);
            let is_own = [0, counter].contains(&block.header().counter);
            let Some((name, point)) = name_of(&block, points, policy).filter(|_| is_own) else {
                self.followed.remove(&index);
                continue;
            };
            if self.followed.get(&index).is_none_or(|followed| followed.name != name) {
                self.followed.insert(index, Followed { name, point, next: 0 });
            }
        }
    }

    fn follow(&mut self, seen: &mut Vec<Seen>) {
        for (&index, followed) in &mut self.followed {
            followed.read(&self.pool.block(index), seen);
        }
    }
}

/// A block's channel and number, and its point, if it holds stamps of one of `points` under `policy`.
fn name_of(block: &MappedBlock<'_>, points: &[PointName], policy: Policy) -> Option<((u32, u32), usize)> {
    let holds = matches!(handover::state(block)?, BlockState::Leased | BlockState::Released | BlockState::Taken);
    let of_policy = || block.choice().is_some_and(|choice| choice.policy() == policy);
    if !holds || !block.is_described() || !of_policy() {
        return None;
    }
    let header = block.header();
    let name = unpadded(&header.point)?;
    let point = points.iter().position(|point| *point == name)?;
    Some(((header.serial, header.number), point))
}

impl Followed {
    /// Adds what was committed in it since the last look, up to the first record of a channel that is not.
    ///
    /// Its program may describe a channel that goes on in the block where a record was looked for, and a collector may
    /// free it meanwhile: what was read counts only if neither happened.
    fn read(&mut self, block: &MappedBlock<'_>, seen: &mut Vec<Seen>) {
        let is_it = || block.is_described() && (block.header().serial, block.header().number) == self.name;
        if !is_it() {
            return;
        }
        let Ok(before) = block.tenancies() else { return };
        let (from, mut next) = (seen.len(), self.next);
        for tenancy in before.iter().filter(|tenancy| tenancy.slots.end > self.next) {
            next = next.max(tenancy.slots.start);
            while let Some(record) = block.record(next).filter(|_| next < tenancy.slots.end) {
                seen.push(Seen { point: self.point, id: record.id, tick: record.tick });
                next += 1;
            }
        }
        // What was read above is read before the block is asked again.
        fence(Acquire);
        let is_the_same = block.tenancies().is_ok_and(|after| after == before) && is_it();
        if is_the_same && !is_being_freed(block) {
            self.next = next;
        } else {
            seen.truncate(from);
        }
    }
}

fn is_being_freed(block: &MappedBlock<'_>) -> bool {
    matches!(handover::state(block), None | Some(BlockState::Zeroing | BlockState::Free | BlockState::Overwritten))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabricated::{Pool as Fabricated, SLOTS, Slot, full};
    use crate::scratch::Scratch;
    use tickscope_stamp::block::{Fields, SUCCESSOR_MAGIC, first_unit, successor_units};

    const INSTANCE: u64 = 0x5ee;

    fn point(name: &str) -> PointName {
        PointName::new(name).unwrap()
    }

    fn ids(spectator: &mut Spectator) -> Vec<i64> {
        let mut seen = Vec::new();
        spectator.look(&mut seen).unwrap();
        seen.iter().for_each(|seen| assert_eq!((seen.tick, seen.point), (seen.id * 10 + 1, 0)));
        seen.iter().map(|seen| seen.id).collect()
    }

    /// A living program's pool, and who looks at its point `sink` under `return-trip`.
    fn site(scratch: &Scratch) -> (Fabricated, Spectator) {
        let pool = Fabricated::make(scratch.path(), INSTANCE, 4).live();
        let spectator = Spectator::new(scratch.path(), vec![point("sink")], Policy::ReturnTrip).unwrap();
        (pool, spectator)
    }

    /// Its block `index` as that channel's first, under a policy, with records.
    fn fill(pool: &Fabricated, index: u32, serial: u32, name: &str, policy: &str, slots: &[Slot]) {
        pool.open_channel(serial, name, Fields::Slim as u8);
        pool.fill(index, (serial, 0), name, slots);
        pool.under(index, policy);
    }

    #[test]
    fn each_committed_stamp_of_its_points_under_its_policy_is_seen_once() {
        let scratch = Scratch::new();
        let (pool, mut spectator) = site(&scratch);
        let committed = |id: i64| Slot::Committed { id, tick: id * 10 + 1 };
        fill(&pool, 0, 0, "sink", "return-trip", &[committed(1), committed(2), Slot::Reserved { id: 3 }, committed(4)]);
        fill(&pool, 1, 1, "sink", "buffered", &[committed(5)]);
        fill(&pool, 2, 2, "source", "return-trip", &[committed(6)]);
        assert_eq!(ids(&mut spectator), [1, 2], "what is reserved is waited for");
        assert_eq!(ids(&mut spectator), [0; 0]);
        pool.fill(0, (0, 0), "sink", &[committed(1), committed(2), committed(3), committed(4)]);
        pool.under(0, "return-trip");
        assert_eq!(ids(&mut spectator), [3, 4]);
        assert_eq!(ids(&mut spectator), [0; 0]);
    }

    #[test]
    fn a_block_that_was_freed_and_leased_anew_is_another() {
        let scratch = Scratch::new();
        let (pool, mut spectator) = site(&scratch);
        fill(&pool, 0, 0, "sink", "return-trip", &full(1));
        assert_eq!(ids(&mut spectator).len(), SLOTS as usize);
        pool.fill(0, (0, 1), "sink", &full(1000));
        std::thread::sleep(SEARCH_EVERY);
        assert_eq!(ids(&mut spectator).first(), Some(&1000));
        assert_eq!(ids(&mut spectator), [0; 0]);
        pool.set_block(0, BlockState::Zeroing);
        std::thread::sleep(SEARCH_EVERY);
        assert_eq!(ids(&mut spectator), [0; 0]);
    }

    #[test]
    fn stamps_of_another_clock_are_not_seen() {
        let scratch = Scratch::new();
        let (pool, mut spectator) = site(&scratch);
        fill(&pool, 0, 0, "sink", "return-trip", &full(1));
        pool.set_counter(0, Some(0), tickscope_tick::Clock::Realtime.number());
        fill(&pool, 1, 1, "sink", "return-trip", &full(1000));
        pool.set_counter(1, Some(1), tickscope_tick::Clock::STAMPED.number());
        assert_eq!(ids(&mut spectator).first(), Some(&1000), "the pool's own by its number");
    }

    #[test]
    fn a_description_of_a_channel_that_shares_the_block_is_no_stamp() {
        let scratch = Scratch::new();
        let (pool, mut spectator) = site(&scratch);
        let committed = |id: i64| Slot::Committed { id, tick: id * 10 + 1 };
        fill(&pool, 0, 0, "sink", "return-trip", &[committed(1), committed(2)]);
        assert_eq!(ids(&mut spectator), [1, 2]);
        let first = first_unit(crate::fabricated::BLOCK_BYTES, Fields::Slim);
        pool.succeed(0, first + 2, u64::from(SUCCESSOR_MAGIC) | 7 << 32);
        assert_eq!(ids(&mut spectator), [0; 0], "slots {}", successor_units(Fields::Slim));
    }
}

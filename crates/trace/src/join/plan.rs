//! Which ranges of ids the join takes, one after the other, and how.

use std::ops::RangeInclusive;

use super::{Limits, SPARSEST};
use crate::Extent;

/// How the stamps of one chunk find their rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// By subtraction: a slot for every id of the range.
    Scatter,
    /// By a table of the keys that occur.
    Hash,
}

/// A range of ids, joined at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    pub first: i64,
    pub last: i64,
    pub method: Method,
    /// The most ids that are taken at once, less one.
    reach: u64,
}

/// The chunks still to come, and what earlier ones have taught.
pub struct JoinPlan {
    /// The next one is the last of these.
    pending: Vec<Chunk>,
    /// The most ids that a scattered chunk may span, less one; shrinks when several kinds share the memory.
    reach: u64,
    /// True if a chunk had too many kinds to scatter; the others are taken to be like it.
    hash_all: bool,
}

/// Ids with no known gap between them.
struct Island {
    first: i64,
    last: i64,
    /// By point.
    stamps: Vec<u64>,
}

impl Chunk {
    pub fn ids(&self) -> RangeInclusive<i64> {
        self.first..=self.last
    }

    /// Ids in the range, less one.
    pub fn span(&self) -> u64 {
        self.last.abs_diff(self.first)
    }
}

impl JoinPlan {
    /// A plan that covers every extent; `extents` by point.
    pub fn new(extents: &[Vec<Extent>], limits: Limits) -> Self {
        let chunk = |island: &Island| island.chunk(limits);
        let pending = islands(extents).iter().rev().map(chunk).collect();
        Self { pending, reach: limits.keys as u64 - 1, hash_all: false }
    }

    /// The next chunk, cut to what may be held at once.
    pub fn next(&mut self) -> Option<Chunk> {
        let mut chunk = self.pending.pop()?;
        let reach = if chunk.method == Method::Scatter { self.reach.min(chunk.reach) } else { chunk.reach };
        if chunk.span() > reach {
            let last = chunk.first.wrapping_add_unsigned(reach);
            self.pending.push(Chunk { first: last + 1, ..chunk });
            chunk.last = last;
        }
        if self.hash_all {
            chunk.method = Method::Hash;
        }
        Some(chunk)
    }

    /// Takes `chunk`, of at least two ids, again in two parts: it held more keys than fit.
    pub fn halve(&mut self, chunk: Chunk) {
        let reach = chunk.span() / 2;
        if chunk.method == Method::Scatter {
            self.reach = self.reach.min(reach);
        }
        let last = chunk.first.wrapping_add_unsigned(reach);
        self.pending.push(Chunk { first: last + 1, ..chunk });
        self.pending.push(Chunk { last, ..chunk });
    }

    /// Takes `chunk` again, and all that follow, by hashing: it had too many kinds for slots.
    pub fn hash(&mut self, chunk: Chunk) {
        self.hash_all = true;
        self.pending.push(Chunk { method: Method::Hash, ..chunk });
    }
}

impl Island {
    fn method(&self) -> Method {
        // Stamps stand for ids: repeated ones make a range seem denser than it is, at a cost in memory only.
        let most = self.stamps.iter().copied().max().unwrap_or(0);
        let ids = self.last.abs_diff(self.first).saturating_add(1);
        if most.saturating_mul(SPARSEST) >= ids { Method::Scatter } else { Method::Hash }
    }

    fn chunk(&self, limits: Limits) -> Chunk {
        let keys = limits.keys as u64;
        let reach = match self.method() {
            Method::Scatter => keys - 1,
            Method::Hash => {
                let most = self.stamps.iter().copied().max().unwrap_or(0);
                self.last.abs_diff(self.first) / most.div_ceil(keys).max(1)
            }
        };
        Chunk { first: self.first, last: self.last, method: self.method(), reach }
    }

    fn joined(&self, next: &Self) -> Self {
        let stamps = self.stamps.iter().zip(&next.stamps).map(|(a, b)| a.saturating_add(*b)).collect();
        Self { first: self.first.min(next.first), last: self.last.max(next.last), stamps }
    }
}

fn islands(extents: &[Vec<Extent>]) -> Vec<Island> {
    let mut found: Vec<Island> = Vec::new();
    for (point, extents_of_point) in extents.iter().enumerate() {
        for extent in extents_of_point.iter().filter(|extent| extent.first <= extent.last) {
            let mut stamps = vec![0; extents.len()];
            stamps[point] = extent.stamps;
            found.push(Island { first: extent.first, last: extent.last, stamps });
        }
    }
    found.sort_by_key(|island| (island.first, island.last));
    let overlapping = merged(found, |island, next| next.first <= island.last);
    merged(overlapping, |island, next| {
        let method = island.joined(next).method();
        method == Method::Scatter || (island.method() == method && next.method() == method)
    })
}

fn merged(islands: Vec<Island>, belong: impl Fn(&Island, &Island) -> bool) -> Vec<Island> {
    let mut result: Vec<Island> = Vec::new();
    for next in islands {
        match result.last_mut() {
            Some(island) if belong(island, &next) => *island = island.joined(&next),
            _ => result.push(next),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(extents: &[Vec<Extent>], keys: usize) -> Vec<(i64, i64, Method)> {
        let mut plan = JoinPlan::new(extents, Limits { keys, rows: 1 });
        std::iter::from_fn(|| plan.next()).map(|chunk| (chunk.first, chunk.last, chunk.method)).take(99).collect()
    }

    fn extent(first: i64, last: i64, stamps: u64) -> Extent {
        Extent { first, last, stamps }
    }

    #[test]
    fn one_used_id_in_eight_is_scattered_and_one_in_nine_is_hashed() {
        assert_eq!(planned(&[vec![extent(0, 79, 10)]], 99), [(0, 79, Method::Scatter)]);
        assert_eq!(planned(&[vec![extent(0, 80, 10)]], 99), [(0, 80, Method::Hash)]);
    }

    #[test]
    fn two_dense_ranges_far_apart_are_scattered_each_and_small_gaps_do_not_cut() {
        let extents = [vec![extent(0, 9, 10), extent(1 << 40, (1 << 40) + 9, 10)], vec![extent(11, 20, 10)]];
        let far = 1 << 40;
        assert_eq!(planned(&extents, 99), [(0, 20, Method::Scatter), (far, far + 9, Method::Scatter)]);
    }

    #[test]
    fn the_whole_range_of_ids_is_covered_without_overlap() {
        let whole = planned(&[vec![extent(i64::MIN, i64::MAX, 10)]], 4);
        assert_eq!((whole[0].0, whole[whole.len() - 1].1), (i64::MIN, i64::MAX));
        assert!(whole.len() >= 3 && whole.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "{whole:?}");
        let top = planned(&[vec![extent(i64::MAX - 6, i64::MAX, 7)]], 3);
        let cuts: Vec<_> = top.iter().map(|chunk| (i64::MAX - chunk.0, i64::MAX - chunk.1)).collect();
        assert_eq!(cuts, [(6, 4), (3, 1), (0, 0)]);
    }

    #[test]
    fn empty_and_reversed_extents_ask_for_nothing() {
        assert_eq!(planned(&[vec![], vec![extent(3, 2, 9)]], 4), []);
    }
}

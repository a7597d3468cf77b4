//! Counts of channels under the policy `count`: from the sampler to `counts/node=N`.
//!
//! Idea: the newest file grows by replacement, as segments do, until it is long or old. A collector that is killed has
//! lost rows at most, never stamps: totals lie in shared memory, so the next row covers what they said.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Collector, is_due};
use crate::ledger::Handle;
use crate::sampler::{Sample, Sampler};
use crate::watched_pool::count;
use tickscope_store::{CountColumns, CountRow, Paths, Result, files_in, next_segment, read_counts, write_counts};

/// The sampler, once a channel only counts, and the newest file.
#[derive(Default)]
pub(super) struct Counts {
    sampler: Option<Sampler>,
    newest: Option<Newest>,
}

/// A file that still grows.
struct Newest {
    place: PathBuf,
    rows: Vec<CountRow>,
    since: Instant,
}

/// Rows of a file, and its age, at which the next one begins.
const ROWS: usize = 1 << 16;
const AGE: Duration = Duration::from_secs(60);

impl Collector {
    /// Has the sampler watch pools with channels that only count.
    pub(super) fn watch_counts(&mut self) -> Result<()> {
        let counting = |(&instance, watched): (&u64, &super::Watched)| {
            watched.pool.counts().then(|| (instance, watched.pool.path().to_owned()))
        };
        let counting: Vec<(u64, PathBuf)> = self.pools.iter().filter_map(counting).collect();
        if counting.is_empty() {
            return Ok(());
        }
        if self.counts.sampler.is_none() {
            let last = self.stored_totals()?;
            self.counts.sampler = Some(Sampler::start(self.counter(), last));
        }
        if let Some(sampler) = &self.counts.sampler {
            counting.iter().for_each(|(instance, path)| sampler.watch(*instance, path));
        }
        Ok(())
    }

    /// Totals of all channels, as far as files have them: the sum of their counts.
    fn stored_totals(&self) -> Result<HashMap<Handle, u64>> {
        let handles: HashMap<i32, Handle> =
            self.ledger.channels().map(|channel| (channel.channel, (channel.pool, channel.serial))).collect();
        let mut totals = HashMap::new();
        for path in files_in(&self.counts_folder(), "parquet")? {
            for row in read_counts(&path)?.rows() {
                if let Some(&handle) = handles.get(&row.channel) {
                    *totals.entry(handle).or_insert(0) += row.count.max(0) as u64;
                }
            }
        }
        Ok(totals)
    }

    fn counts_folder(&self) -> PathBuf {
        Paths::of(&self.settings.run).counts(self.settings.node.as_str())
    }

    /// Takes the last totals of channels of a pool that have ended.
    pub(super) fn take_last_counts(&mut self, instance: u64, ended: impl Fn(u32) -> bool) -> Result<()> {
        let Some(watched) = self.pools.get(&instance) else { return Ok(()) };
        let totals: Vec<_> = watched.pool.totals().into_iter().filter(|one| ended(one.serial)).collect();
        if totals.is_empty() {
            return Ok(());
        }
        if self.counts.sampler.is_none() {
            let last = self.stored_totals()?;
            self.counts.sampler = Some(Sampler::start(self.counter(), last));
        }
        if let Some(sampler) = &self.counts.sampler {
            totals.into_iter().for_each(|total| sampler.take_rest(instance, total));
        }
        self.write_counts(Instant::now())
    }

    /// Forgets a pool whose counts are all stored.
    pub(super) fn forget_counts(&mut self, instance: u64) {
        if let Some(sampler) = &self.counts.sampler {
            sampler.forget(instance);
        }
    }

    /// Stores what the sampler has.
    pub(super) fn write_counts(&mut self, now: Instant) -> Result<()> {
        let Some(sampler) = &self.counts.sampler else { return Ok(()) };
        let is_known = |sample: &Sample| self.ledger.known_number(sample.channel).is_some();
        let (samples, early): (Vec<_>, Vec<_>) = sampler.take().into_iter().partition(is_known);
        if !early.is_empty() {
            sampler.give_back(early); // of channels that have no number yet
        }
        if samples.is_empty() {
            return Ok(());
        }
        let stored = self.store_samples(&samples, now);
        if let (Err(_), Some(sampler)) = (&stored, &self.counts.sampler) {
            sampler.give_back(samples);
        }
        stored
    }

    fn store_samples(&mut self, samples: &[Sample], now: Instant) -> Result<()> {
        let row = |sample: &Sample| {
            let channel = self.ledger.known_number(sample.channel)?;
            let (before, after) = sample.between;
            Some(CountRow {
                channel,
                before,
                after,
                total: count(sample.total),
                count: count(sample.count),
                periods: sample.periods.min(i32::MAX as u64) as i32,
                period_ns: count(sample.period_ns),
            })
        };
        let rows: Vec<CountRow> = samples.iter().filter_map(row).collect();
        self.ledger.write_numbers()?;
        let ends = |newest: &Newest| newest.rows.len() >= ROWS || is_due(Some(newest.since), now, AGE);
        let (place, mut all, since) = match self.counts.newest.take_if(|newest| !ends(newest)) {
            Some(Newest { place, rows, since }) => (place, rows, since),
            None => {
                let folder = self.counts_folder();
                tickscope_store::make_folders(&folder)?;
                (next_segment(&folder)?, Vec::new(), now)
            }
        };
        let known = all.len();
        all.extend(rows);
        let mut columns = CountColumns::default();
        all.iter().for_each(|row| columns.push(row.clone()));
        let written = write_counts(&place, &columns);
        if written.is_err() {
            all.truncate(known);
        }
        self.counts.newest = Some(Newest { place, rows: all, since });
        written
    }
}

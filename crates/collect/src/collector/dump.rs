//! Dumps: what channels under the policy `keep` hold, stored because somebody asked.

use super::*;
use tickscope_tick::counted;

/// What a dump stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dumped {
    /// Stamps of channels under `keep`.
    pub stamps: u64,
    /// Channels that they are of.
    pub channels: u64,
}

/// The glob that every point matches.
pub const EVERY_POINT: &str = "*";

impl Collector {
    /// Stores what channels under `keep` hold now of all points that match the glob `points`, and notes it as an event
    /// that says `why`.
    pub fn dump(&mut self, points: &str, why: &str) -> Result<Dumped> {
        let now = Instant::now();
        self.list(now)?;
        let before = self.stored_of_kept();
        self.keep_back(Some(points));
        let stored = self.store_kept(now);
        self.keep_back(None);
        stored?;
        let more = |(channel, stored): (&i32, &i64)| stored - before.get(channel).unwrap_or(&0);
        let stamps: Vec<i64> = self.stored_of_kept().iter().map(more).filter(|&more| more > 0).collect();
        let dumped = Dumped { stamps: stamps.iter().sum::<i64>() as u64, channels: stamps.len() as u64 };
        let tick = self.counter().read(tickscope_tick::Ordering::Plain);
        let (stamps, channels) = (counted(dumped.stamps, "stamp"), counted(dumped.channels, "channel"));
        let verb = if dumped.stamps == 1 { "is" } else { "are" };
        let text = format!("{stamps} of {channels} under the policy keep {verb} stored: {why}");
        let domain = Some(format!("{}.{}", self.settings.node, tickscope_tick::Clock::STAMPED));
        let event = Event {
            tick: Some(tick),
            domain,
            value: Some(count(dumped.stamps)),
            ..self.event(EventKind::Dumped, text)
        };
        self.write_events(&format!("dump-{tick:020}"), &[event])?;
        self.ledger.write()?;
        Ok(dumped)
    }

    fn store_kept(&mut self, now: Instant) -> Result<()> {
        for pool in self.watched() {
            self.look_at(pool, now)?;
        }
        let mut open = self.open_blocks()?;
        for point in self.pending.keys() {
            open.entry(point.clone()).or_default();
        }
        for (point, blocks) in open {
            self.store(&point, &blocks)?;
        }
        Ok(())
    }

    /// Dumps where a program has asked.
    pub(super) fn dump_where_asked(&mut self) -> Result<()> {
        let asked =
            self.pools.values_mut().filter_map(|watched| watched.pool.is_asked_for().then(|| watched.pool.process()));
        let asked: Vec<String> = asked.collect();
        if asked.is_empty() {
            return Ok(());
        }
        self.dump(EVERY_POINT, &format!("{} asked", asked.join(", "))).map(|_| ())
    }

    /// Keeps back what `keep` holds, but of the points that match `asked`.
    pub(super) fn keep_back(&mut self, asked: Option<&str>) {
        self.pools.values_mut().for_each(|watched| watched.pool.keep_back(asked));
    }

    /// Stamps stored of each channel under `keep`.
    fn stored_of_kept(&self) -> BTreeMap<i32, i64> {
        let kept = self.ledger.channels().filter(|channel| channel.policy == "keep");
        kept.map(|channel| (channel.channel, channel.ever_stored())).collect()
    }
}

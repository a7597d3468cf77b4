//! How far back the stored stamps of a point under `keep` reach.
//!
//! Assumes: blocks of a channel count from 0, and a segment names those that it holds. Guarantees: what is said to fall
//! short of its window does, by the declared frequency of the clock, and blocks before were let go. Deliberately
//! absent: gaps between two dumps.

use std::collections::BTreeMap;

use tickscope_store::{Channel, Choice, Node, Policy, Run};
use tickscope_tick::{Clock, Place, Unit};

use crate::error::Error;

/// The reach of the stored stamps of one point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reach {
    /// From the oldest to the newest, in ticks of their clock.
    ticks: i128,
    /// Ticks a second, as declared.
    hertz: u64,
    /// The window that was asked for, ns.
    window_ns: u64,
    /// Some channel has let blocks go before the first that is stored.
    cut: bool,
}

impl Reach {
    /// The reach at a point; `None`: none of its channels is under `keep`, or none of their stamps is stored.
    pub fn of(run: &Run, place: &Place, channels: &[Channel]) -> Result<Option<Self>, Error> {
        let kept: Vec<(&Channel, u64)> = channels
            .iter()
            .filter(|channel| channel.is_at(place))
            .filter_map(|channel| Some((channel, window_ns(channel)?)))
            .collect();
        let node = run.manifest().nodes.iter().find(|node| node.name == place.node);
        let (Some(&(first, _)), Some(node)) = (kept.first(), node) else { return Ok(None) };
        let stamps = run.stamps(place)?;
        let mut ends: Option<(i64, i64)> = None;
        stamps.read(i64::MIN..=i64::MAX, |part| {
            for (&tick, channel) in part.tick.iter().zip(&part.channel) {
                if kept.iter().any(|(one, _)| one.channel == *channel) {
                    ends = Some(ends.map_or((tick, tick), |(oldest, newest)| (tick.min(oldest), tick.max(newest))));
                }
            }
        })?;
        let mut lowest: BTreeMap<(u64, u32), u32> = BTreeMap::new();
        for segment in stamps.segments() {
            let origin = segment.origin()?;
            let whole = origin.blocks.iter().map(|range| ((range.pool, range.serial), range.first));
            let open = origin.open.iter().map(|open| ((open.pool, open.serial), open.number));
            for (channel, number) in whole.chain(open) {
                lowest.entry(channel).and_modify(|known| *known = number.min(*known)).or_insert(number);
            }
        }
        let is_cut = |channel: &Channel| {
            let first = lowest.get(&(channel.pool, channel.serial));
            // What the run's window took was stored once.
            channel.removed.unwrap_or(0) == 0 && first.is_some_and(|&first| first > 0)
        };
        let window_ns = kept.iter().map(|&(_, window)| window).max().unwrap_or(0);
        let cut = kept.iter().any(|(channel, _)| is_cut(channel));
        let ticks = ends.map(|(oldest, newest)| i128::from(newest) - i128::from(oldest));
        Ok(ticks.map(|ticks| Self { ticks, hertz: hertz(node, first), window_ns, cut }))
    }

    /// `0.491234 s`.
    fn seconds(&self) -> String {
        let unit = Unit::seconds(self.hertz, 6);
        format!("{} {}", unit.near(self.ticks), unit.name())
    }

    /// The end of the line that tells the policy.
    pub fn words(&self) -> String {
        format!("; the stored ones reach over {}, by the declared frequency", self.seconds())
    }

    /// Returns whether the window may not have been held.
    fn is_short(&self) -> bool {
        self.cut && self.ticks * 1_000_000_000 < i128::from(self.window_ns) * i128::from(self.hertz)
    }
}

/// A warning for each policy whose window may not have been held at some of its points; `all`: point, policy, reach.
pub(crate) fn warnings<'a>(all: impl Iterator<Item = (&'a str, &'a str, &'a Reach)>) -> Vec<String> {
    let mut by: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (point, policy, reach) in all.filter(|(.., reach)| reach.is_short()) {
        by.entry(policy).or_default().push(format!("{point} ({})", reach.seconds()));
    }
    let line = |(policy, points): (&str, Vec<String>)| {
        format!(
            "stored stamps reach less far back than the window of {policy} at {}, where older ones were let go: the \
             pool is too small for the window (pool_bytes), or nothing was stamped for a while before they were stored",
            points.join(", ")
        )
    };
    by.into_iter().map(line).collect()
}

/// The window of a channel under `keep`.
fn window_ns(channel: &Channel) -> Option<u64> {
    let choice = Choice::named(&channel.policy, channel.parameter).filter(|one| one.policy() == Policy::Keep)?;
    Some(choice.parameter())
}

/// Ticks a second of the clock that a channel was stamped with.
fn hertz(node: &Node, channel: &Channel) -> u64 {
    match channel.domain().map(|domain| domain.counter) {
        Ok(Clock::Tsc | Clock::Cntvct) | Err(_) => node.counter.frequency.hertz.max(1),
        Ok(_) => 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests;
    use tickscope_store::{Origin, StampColumns, next_segment, write_segment};

    #[test]
    fn a_window_that_was_not_held_is_a_warning_only_where_older_stamps_were_let_go() {
        let reach = |ticks, cut| Reach { ticks, hertz: 1_000_000, window_ns: 2_000_000_000, cut };
        assert_eq!(reach(491_234, true).words(), "; the stored ones reach over 0.491234 s, by the declared frequency");
        let (held, whole, short) = (reach(2_000_000, true), reach(1, false), reach(1_999_999, true));
        let told = warnings([("a.p", "keep 2s", &held), ("a.q", "keep 2s", &whole)].into_iter());
        assert_eq!(told, Vec::<String>::new());
        let told = warnings([("a.p", "keep 2s", &held), ("a.q", "keep 2s", &short)].into_iter());
        let said = "stored stamps reach less far back than the window of keep 2s at a.q (1.999999 s), where older ones";
        assert!(told.len() == 1 && told[0].starts_with(said), "{told:?}");
    }

    #[test]
    fn a_reach_is_that_of_the_kept_stamps_alone_and_is_cut_where_the_first_stored_block_is_not_the_first() {
        let folder = std::env::temp_dir().join(format!("tickscope-reach-{}", std::process::id()));
        let run = Run::create(&folder, crate::sample::manifest()).unwrap();
        let node = run.manifest().nodes[0].name.clone();
        let place: Place = format!("{node}.p").parse().unwrap();
        let of = |channel, policy| Channel {
            channel,
            serial: channel as u32,
            node: node.clone(),
            ..tests::channel("p", policy)
        };
        let channels = [of(0, "keep 1ms"), of(1, "buffered"), of(2, "keep 1ms")];
        let add = |channel: i32, ticks: [i64; 2], number| {
            let mut origin = Origin::default();
            origin.add((1, channel as u32), number);
            let stamps = StampColumns::slim(ticks.to_vec(), vec![1, 2], vec![channel; 2]);
            write_segment(&next_segment(&run.paths().stamps(&place)).unwrap(), &stamps, &origin).unwrap();
        };
        let reach = || Reach::of(&run, &place, &channels).unwrap().unwrap();
        add(0, [1_000, 3_000], 0);
        add(1, [1, 9_000_000], 4);
        assert_eq!((reach().ticks, reach().cut, reach().window_ns), (2_000, false, 1_000_000));
        add(2, [2_000, 4_000], 7);
        assert_eq!((reach().ticks, reach().cut, reach().hertz), (3_000, true, 2_500_000_000));
        assert!(reach().is_short());
        assert!(Reach::of(&run, &place, &channels[1..2]).unwrap().is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

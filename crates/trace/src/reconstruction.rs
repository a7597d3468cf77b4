//! The published way from a time-stamp to the counter, held against the guaranteed one.
//!
//! X-Lap relates time-stamps and cycle-stamps of a packet by linear interpolation between its first and last reading on
//! a host (2.2.1, 3.1). Here the line is one for the run ([`tickscope_bracket::Epochs::published`]), because a packet
//! has no two readings of both clocks. How often that lies within the interval, and how far outside,
//! is shown next to it. Deliberately absent: using it for anything.

use tickscope_tick::Tick;

use crate::{Clocks, Durations, Traces};

/// The published values of one point's stamps, in ticks of its node's counter; grows in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reconstruction {
    /// Stamps with an interval and a published value.
    pub stamps: u64,
    /// Published values that lie in the interval.
    pub inside: u64,
    /// Distance of the worst of them from the interval.
    pub largest_ticks: u64,
}

/// Adds the stamps of `traces` to the reconstructions of the layout's points, one each, in order; those of points that
/// were stamped with their node's counter stay as they are.
pub fn reconstruct(clocks: &Clocks, traces: &Traces, durations: &Durations, reconstructions: &mut [Reconstruction]) {
    for (point, reconstruction) in reconstructions.iter_mut().enumerate() {
        let (Some(clock), Some(own)) = (clocks.own(point), durations.own(point)) else { continue };
        let Some(column) = traces.points().get(point) else { continue };
        for row in (0..traces.len()).filter(|&row| !traces.repeats(row, [point; 2])) {
            let interval = own.lo.get(row).zip(own.hi.get(row));
            let published = column.get(row).and_then(|raw| clock.published(Tick::new(raw)));
            if let (Some(interval), Some(published)) = (interval, published) {
                reconstruction.add(interval, published.get());
            }
        }
    }
}

impl Reconstruction {
    /// Adds what is known of further traces.
    pub fn merge(&mut self, later: Self) {
        self.stamps += later.stamps;
        self.inside += later.inside;
        self.largest_ticks = self.largest_ticks.max(later.largest_ticks);
    }

    fn add(&mut self, (lo, hi): (i64, i64), published: i64) {
        self.stamps += 1;
        if lo <= published && published <= hi {
            self.inside += 1;
            return;
        }
        let outside = if published < lo { published.abs_diff(lo) } else { published.abs_diff(hi) };
        self.largest_ticks = self.largest_ticks.max(outside);
    }
}

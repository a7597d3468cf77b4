//! Age of information at a receiver: the area under its sawtooth, its peaks, the time that it is above a limit.
//!
//! Idea: age is the time since the freshest update that was received had been generated. It grows with time, and falls
//! where a fresher update arrives; between two arrivals it is a trapezoid, so its integral is a sum of products of
//! ticks. At any instant it is the least of "delay of an update, and the time since it arrived" over all that arrived.
//! That falls with none of these delays, nor where an update arrives later: so the sawtooth of the smallest delays and
//! the earliest arrivals lies below the true one everywhere, that of the largest and latest above, whatever the order
//! in which updates were generated truly is; and so do their averages and the times that they are above a limit.
//! Assumes: arrivals on one axis, the receiver's own time. Guarantees: exact integers of 128 bits, rounded outward once
//! and last; nothing is clamped. Deliberately absent: keys, clocks, files.

use std::cmp::Reverse;

/// An update that arrived, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When, on the receiver's axis.
    pub at: i64,
    /// How long before that it was generated: estimate, at least, at most.
    pub delay: [i64; 3],
}

/// How far the receiver's axis may be off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisError {
    /// An update may have arrived so many ticks earlier or later than its stamp says.
    pub reading: u64,
    /// Time that passes after an arrival may be wrong by so many ticks, however short it is,
    pub fixed: u64,
    /// and by the first for each of the second: a part of it.
    pub slope: [u64; 2],
}

impl AxisError {
    /// An axis that is right.
    pub const NONE: Self = Self { reading: 0, fixed: 0, slope: [0, 1] };

    /// How far so much time may be wrong.
    pub(crate) fn over(&self, ticks: i128) -> Option<i128> {
        let [error, of] = self.slope.map(i128::from);
        let part = error.checked_mul(ticks.max(0))?;
        Some(i128::from(self.fixed) - (-part).div_euclid(of.max(1)))
    }

    /// How far so much true time may be from what the axis says of it, by the axis's rate.
    pub(crate) fn off(&self, ticks: i128) -> Option<i128> {
        let [part, of] = self.slope.map(i128::from);
        let rest = Some(of - part).filter(|&rest| rest > 0)?;
        Some(-(-part.checked_mul(ticks.abs())?).div_euclid(rest))
    }

    /// Parts of a window of that length, with what they may be of it in true time: where the axis runs too fast while
    /// the age is above and too slow while it is not, or the other way round, a part `a` and the rest `b` become
    /// `a (1 + e)` and `b (1 - e)`, and the share moves by less than `2 e min(a, b) / (1 - e)`.
    fn around(&self, [near, lo, hi]: [i128; 3], length: i128) -> Option<[i128; 3]> {
        let open = |part: i128| Some(2 * (self.off(part.min(length - part))? + i128::from(self.fixed)));
        // No part is below nothing or above all: this bounds, and hides nothing.
        Some([near, (lo - open(lo)?).max(0), (hi + open(hi)?).min(length)])
    }
}

/// A figure, and what the true one lies between, rounded outward to whole ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgeBounds {
    /// Of the estimates.
    pub estimate: i64,
    /// The true one is not below.
    pub lo: i64,
    /// The true one is not above.
    pub hi: i64,
}

/// Age over a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aged {
    /// Updates that arrived in the window and lowered the age.
    pub effective: u64,
    /// Those that arrived in it, and were not fresher than the freshest before them.
    pub obsolete: u64,
    /// Of these, those that were generated before it and arrived later: out of order. Which of two that arrive at one
    /// tick was first is not known.
    pub overtaken: u64,
    /// Over time.
    pub average: AgeBounds,
    /// Mean over the effective updates: the age right before each of them; `None`: there is none.
    pub peak: Option<AgeBounds>,
    /// How long the age was above the limit; `None`: nobody gave one.
    pub above: Option<AgeBounds>,
}

/// The age over a window, by updates in the order in which they arrive.
#[derive(Clone, Copy, Debug)]
pub struct Sawtooth {
    begin: i128,
    at: i128,
    end: i128,
    limit: Option<i128>,
    freshest: Option<i128>,
    /// When the last update arrived, and the freshest of those before that tick.
    last: Option<i128>,
    freshest_before: Option<i128>,
    uncovered: i128,
    /// Twice the area; `None`: 128 bits do not hold it.
    doubled: Option<i128>,
    above: i128,
    arrivals: [u64; 2],
    overtaken: u64,
    peaks: i128,
}

/// What a [`Sawtooth`] has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Twice the area under it, ticks squared.
    pub doubled: i128,
    /// Time above the limit.
    pub above: i128,
    /// Updates that lowered the age within the window.
    pub effective: u64,
    /// Those that did not.
    pub obsolete: u64,
    /// Of these, those that are older than the freshest that arrived before them, not as old.
    pub overtaken: u64,
    /// Sum of the ages right before those that did.
    pub peaks: i128,
}

impl Sawtooth {
    /// Nothing received yet.
    pub fn over([begin, end]: [i64; 2], limit: Option<i64>) -> Self {
        let [begin, end] = [begin, end].map(i128::from);
        Self {
            begin,
            at: begin,
            end,
            limit: limit.map(i128::from),
            freshest: None,
            last: None,
            freshest_before: None,
            uncovered: 0,
            doubled: Some(0),
            above: 0,
            arrivals: [0; 2],
            overtaken: 0,
            peaks: 0,
        }
    }

    /// The next update that arrives; returns whether it lowers the age.
    pub fn receive(&mut self, at: i64, generated: i64) -> bool {
        let (at, generated) = (i128::from(at), i128::from(generated));
        self.pass_until(at);
        if self.last.replace(at) != Some(at) {
            self.freshest_before = self.freshest;
        }
        let is_fresher = self.freshest.is_none_or(|freshest| generated > freshest);
        if self.begin < at && at <= self.end {
            self.arrivals[usize::from(!is_fresher)] += 1;
            self.overtaken += u64::from(self.freshest_before.is_some_and(|freshest| generated < freshest));
            self.peaks += self.freshest.filter(|_| is_fresher).map_or(0, |freshest| at - freshest);
        }
        if is_fresher {
            self.freshest = Some(generated);
        }
        is_fresher
    }

    /// `None`: nothing had been received when the window began, or 128 bits do not hold the area.
    pub fn area(mut self) -> Option<Area> {
        self.pass_until(self.end);
        let Self { above, peaks, arrivals: [effective, obsolete], overtaken, .. } = self;
        let doubled = self.doubled.filter(|_| self.uncovered == 0)?;
        Some(Area { doubled, above, effective, obsolete, overtaken, peaks })
    }

    fn pass_until(&mut self, instant: i128) {
        let until = instant.min(self.end);
        let passed = until - self.at;
        if passed <= 0 {
            return;
        }
        let Some(freshest) = self.freshest else {
            self.uncovered += passed;
            self.at = until;
            return;
        };
        let [first, last] = [self.at, until].map(|tick| tick - freshest);
        let doubled = passed.checked_mul(first + last);
        self.doubled = self.doubled.zip(doubled).and_then(|(sum, more)| sum.checked_add(more));
        if let Some(limit) = self.limit {
            self.above += (last - limit).clamp(0, passed);
        }
        self.at = until;
    }
}

/// The age over `window`, which begins when something was received however late that was; `updates` in the order of
/// their arrival; `limit`: rounded down and up. `None`: the window is empty or begins before that, or 128 bits do not
/// hold the area.
///
/// An age is a delay `d` and the time `s` since an arrival, and `s` may be wrong by a part `e` of it. No delay is below
/// `m`, so that is at most `e` times what the age is above `m`: the axis moves a bound by no more than that.
pub fn aged(updates: &[Arrival], window: [i64; 2], limit: Option<[i64; 2]>, error: AxisError) -> Option<Aged> {
    let length = i128::from(window[1]) - i128::from(window[0]);
    if length <= 0 {
        return None;
    }
    let least = |which: usize| updates.iter().map(|update| i128::from(update.delay[which])).min();
    let least = [least(0)?, least(1)?, least(2)?];
    let reading = i64::try_from(error.reading).ok()?;
    let sawtooth = |which: usize, later: i64, limit: Option<i64>| {
        let mut sawtooth = Sawtooth::over(window, limit);
        for update in updates {
            sawtooth.receive(update.at.checked_add(later)?, update.at.checked_sub(update.delay[which])?);
        }
        sawtooth.area()
    };
    let limits = match limit {
        None => [None; 3],
        Some([down, up]) => limits([down, up].map(i128::from), least, error)?.map(Some),
    };
    let estimate = sawtooth(0, 0, limits[0])?;
    let below = sawtooth(1, -reading, limits[1])?;
    let above = sawtooth(2, reading, limits[2])?;
    let bounded = |[near, lo, hi]: [i128; 3], count: i128| {
        let (lo, hi) = (lo.div_euclid(count), -(-hi).div_euclid(count));
        AgeBounds::of([nearest(near, count), lo - error.over(lo - least[1])?, hi + error.over(hi - least[2])?])
    };
    let peak = match estimate.effective {
        0 => None,
        count => Some(bounded(peaks(updates, window), count.into())?),
    };
    let time_above = error.around([estimate, below, above].map(|area| area.above), length)?;
    Some(Aged {
        effective: estimate.effective,
        obsolete: estimate.obsolete,
        overtaken: estimate.overtaken,
        average: bounded([estimate, below, above].map(|area| area.doubled), 2 * length)?,
        peak,
        above: if limit.is_some() { Some(AgeBounds::of(time_above)?) } else { None },
    })
}

/// The age over `window` if every update had arrived when it was generated: what is left of an age without delays.
/// `None` as in [`aged`].
///
/// Where a generation stands on the receiver's axis is known as well as its delay is, and the axis over that delay.
pub fn aged_without_delay(updates: &[Arrival], window: [i64; 2], error: AxisError) -> Option<Aged> {
    let mut open = 0;
    let mut generated = Vec::with_capacity(updates.len());
    for Arrival { at, delay: [estimate, lo, hi] } in updates {
        let reach = estimate.abs_diff(*lo).max(hi.abs_diff(*estimate));
        let axis = error.over(i128::from(lo.unsigned_abs().max(hi.unsigned_abs())))?;
        let off = i64::try_from(i128::from(reach) + axis).ok()?;
        open = open.max(off);
        generated.push(Arrival { at: at.checked_sub(*estimate)?, delay: [0, -off, off] });
    }
    by_arrival(&mut generated);
    aged(&generated, window, None, AxisError { reading: u64::try_from(open).ok()?, ..error })
}

/// Corners of the age over `window` as a line: tick and age there; as estimated, of what it is not below, of what it is
/// not above. `None` as in [`aged`].
pub fn corners(updates: &[Arrival], window: [i64; 2], error: AxisError) -> Option<[Vec<[i64; 2]>; 3]> {
    let reading = i64::try_from(error.reading).ok()?;
    let of = |which: usize, later: i64, outward: i128| {
        let least = updates.iter().map(|update| i128::from(update.delay[which])).min()?;
        let mut line = Vec::new();
        let mut corner = |tick: i64, freshest: i64| {
            let age = i128::from(tick) - i128::from(freshest);
            line.push([tick, i64::try_from(age + outward * error.over(age - least)?).ok()?]);
            Some(())
        };
        let (mut freshest, mut began) = (None, false);
        for update in updates {
            let (at, generated) = (update.at.checked_add(later)?, update.at.checked_sub(update.delay[which])?);
            if at > window[1] || freshest.is_some_and(|freshest| generated <= freshest) {
                continue;
            }
            if at > window[0] {
                let before = freshest?;
                if !began {
                    corner(window[0], before)?;
                    began = true;
                }
                corner(at, before)?;
                corner(at, generated)?;
            }
            freshest = Some(generated);
        }
        if !began {
            corner(window[0], freshest?)?;
        }
        corner(window[1], freshest?)?;
        Some(line)
    };
    Some([of(0, 0, 0)?, of(1, -reading, -1)?, of(2, reading, 1)?])
}

impl AgeBounds {
    /// How much more it is than another.
    pub fn beyond(self, other: Self) -> Option<Self> {
        Some(Self {
            estimate: self.estimate.checked_sub(other.estimate)?,
            lo: self.lo.checked_sub(other.hi)?,
            hi: self.hi.checked_sub(other.lo)?,
        })
    }
}

/// What the three sawteeth are held against, so that the lower one is above its limit only where the true age surely is
/// above the given one, and the upper one wherever that may be.
fn limits([down, up]: [i128; 2], least: [i128; 3], error: AxisError) -> Option<[i64; 3]> {
    let fixed = i128::from(error.fixed);
    let [lower, upper] = [up + fixed, down - fixed];
    // An age `a` is at least `m + (1 - e) (a - m) - fixed`: what is above the limit solves that for `a`.
    let [part, of] = error.slope.map(i128::from);
    let beyond = (lower - least[1]).max(0).checked_mul(of)?;
    let lower = lower.min(least[1]) - (-beyond).div_euclid(Some(of - part).filter(|&rest| rest > 0)?);
    let upper = upper + fixed - error.over(upper - least[2])?;
    let ticks = |ticks: i128| i64::try_from(ticks).ok();
    Some([ticks(down)?, ticks(lower)?, ticks(upper)?])
}

impl AgeBounds {
    fn of(ticks: [i128; 3]) -> Option<Self> {
        let [estimate, lo, hi] = ticks.map(|ticks| i64::try_from(ticks).ok());
        Some(Self { estimate: estimate?, lo: lo?, hi: hi? })
    }
}

/// Sums of the ages right before the updates that lower it within the window, in the order of the estimates: with each
/// of the three delays.
fn peaks(updates: &[Arrival], [begin, end]: [i64; 2]) -> [i128; 3] {
    let mut sums = [0; 3];
    let mut freshest: Option<Arrival> = None;
    let generated = |update: &Arrival| i128::from(update.at) - i128::from(update.delay[0]);
    for update in updates {
        if let Some(before) = freshest {
            if generated(update) <= generated(&before) {
                continue;
            }
            if begin < update.at && update.at <= end {
                let since = i128::from(update.at) - i128::from(before.at);
                sums.iter_mut().zip(before.delay).for_each(|(sum, delay)| *sum += since + i128::from(delay));
            }
        }
        freshest = Some(*update);
    }
    sums
}

/// Puts updates in the order of their arrival; of those that arrive at one tick the freshest first, since the others
/// lower nothing.
pub fn by_arrival(updates: &mut [Arrival]) {
    updates.sort_by_key(|update| (update.at, Reverse(i128::from(update.at) - i128::from(update.delay[0]))));
}

fn nearest(sum: i128, count: i128) -> i128 {
    sum.div_euclid(count) + i128::from(2 * sum.rem_euclid(count) >= count)
}

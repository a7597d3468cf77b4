//! Excess of an age over what it would be without delays, bounded by what the two do not share.
//!
//! Idea: update `k` is generated at `G(k)` and arrives at `A(k)`, after `D(k)`. At an instant `t` the age is `t` less
//! the freshest generation that had arrived, and without delays `t` less the freshest generation. Their difference is
//! the length of the levels `x` between these two: those that a generation has reached, at `Γ(x) = min {G(j) >= x}`,
//! and no arrival yet, at `Α(x) = min {A(j) : G(j) >= x}`. So over a window, with `[y]` for `y` brought into it,
//!
//! ```text
//! area of the excess = integral over x of [Α(x)] - [Γ(x)]
//! ```
//!
//! Instants and levels need no common origin: the clocks' common error enters through `Α - Γ` alone, which is a delay,
//! once; the difference of the two bounded ages has it three times (the age, the generations' places and their age).
//!
//! Let `g(k)` be where the generating clock puts `k`, distances of which are off by at most `f` and a part `s` of them,
//! and number updates by it. Levels from the highest `G(j)`, `j < k`, up to `G(k)` are those of `k`. Of these
//! - there are at least `(1 - s) d - f` and at most `(1 + s) d + f`, with `d = g(k) - g(k - 1)`, since `g(k) - g(j) >=
//!   d` for each such `j`;
//! - who reaches them is not before `k`: so `Α >= min {A(j) : j >= k}`, and `Γ <= G(k)`;
//! - `Α <= A(j)` for `k`, and for each `j` that is generated after it for sure: `(1 - s) (g(j) - g(k)) >= f`;
//! - `Γ >= G(k) - f`, and `Γ = G(k)` where all after `k` are so for sure.
//!
//! `A(j) - G(k)` is `D(k)` and what the receiver's clock says between two arrivals. Where `Α - Γ` lies between two
//! lengths, so does `[Α] - [Γ]` after it was cut at the ends of the window: `[ ]` is monotone and stretches nothing.
//! Levels below all generations have passed before the window if one of these has for sure, and an arrival; where none
//! has, there is no answer.
//!
//! Assumes: arrivals, with errors as in `age.rs`, on a receiver's axis whose rate is exact: a wait that is cut at the
//! window's end is told on it. Guarantees: integers of 128 bits, rounded outward; exact where clocks
//! are. Deliberately absent: the estimate, which is the difference of the two ages'.

use crate::age::{Arrival, AxisError};

/// What the mean excess over `window` lies between; `source`: how far distances between the generations may be off,
/// where the estimates of the delays put them. `None`: nothing had been generated and received for sure when the window
/// begins, or 128 bits do not hold the area.
pub fn excess(updates: &[Arrival], window: [i64; 2], error: AxisError, source: AxisError) -> Option<[i64; 2]> {
    let [begin, end] = window.map(i128::from);
    let reading = i128::from(error.reading);
    let updates = placed(updates, error)?;
    let is_primed = updates.iter().map(|update| update.at).min()? + reading <= begin
        && updates.iter().any(|update| update.at + reading - update.delay[0] <= begin);
    let length = Some(end - begin).filter(|&length| length > 0 && is_primed)?;
    let open = i128::from(source.fixed);
    let open = open + error.off(open)?;
    let (mut least, mut most) = (0_i128, 0_i128);
    let (mut later, mut sure, mut after) = (None, None, updates.len());
    for (place, update) in updates.iter().enumerate().rev() {
        while after > place + 1 && source.is_later(updates[after - 1].generated - update.generated)? {
            after -= 1;
            sure = earlier(sure, updates[after].at);
        }
        let wait =
            Wait { begin, end, length, reading, update, later, sure, open: if after == place + 1 { 0 } else { open } };
        let levels = place.checked_sub(1).map_or(0, |before| update.generated - updates[before].generated);
        let off = source.over(levels)?;
        let [fewest, highest] = [(levels - off).max(0), levels + off];
        let [shortest, longest] = [wait.least(), wait.most()];
        let sign = if shortest < 0 { highest } else { fewest };
        least = least.checked_add(sign.checked_mul(shortest)?)?;
        most = most.checked_add(highest.checked_mul(longest)?)?;
        later = earlier(later, update.at);
    }
    let ticks = |ticks: i128| i64::try_from(ticks).ok();
    Some([ticks(least.div_euclid(length))?, ticks(-(-most).div_euclid(length))?])
}

/// An update on the receiver's axis.
struct Placed {
    at: i128,
    /// Where its own clock puts it.
    generated: i128,
    /// At least, at most.
    delay: [i128; 2],
}

/// Updates by where the generating clock puts them.
fn placed(updates: &[Arrival], error: AxisError) -> Option<Vec<Placed>> {
    let on_axis = |Arrival { at, delay }: &Arrival| {
        let [estimate, lo, hi] = delay.map(i128::from);
        let at = i128::from(*at);
        Some(Placed { at, generated: at - estimate, delay: [lo - error.off(lo)?, hi + error.off(hi)?] })
    };
    let mut placed = updates.iter().map(on_axis).collect::<Option<Vec<Placed>>>()?;
    placed.sort_by_key(|update| update.generated);
    Some(placed)
}

fn earlier(known: Option<i128>, at: i128) -> Option<i128> {
    Some(known.map_or(at, |known| known.min(at)))
}

/// From the generation of a level of `update` to the arrival of something as fresh, as far as it is in the window.
struct Wait<'a> {
    begin: i128,
    end: i128,
    length: i128,
    reading: i128,
    update: &'a Placed,
    /// The first arrival of those numbered after it, and of those generated after it for sure.
    later: Option<i128>,
    sure: Option<i128>,
    /// How long before it one that is numbered after it may have been generated.
    open: i128,
}

impl Wait<'_> {
    /// Below 0: the clocks leave open whether it arrived before it was generated.
    fn least(&self) -> i128 {
        let Self { begin, end, length, reading, update, later, .. } = *self;
        let shorter = later.map_or(0, |later| (later - update.at - 2 * reading).min(0));
        let least = update.delay[0] + shorter;
        if least < 0 {
            return least.max(-length);
        }
        let arrives = later.map_or(update.at, |later| later.min(update.at)) - reading;
        let generated = update.at + reading - update.delay[0];
        least.min(arrives - begin).min(end - generated).min(length).max(0)
    }

    fn most(&self) -> i128 {
        let Self { begin, end, length, reading, update, sure, open, .. } = *self;
        let shorter = sure.map_or(0, |sure| (sure - update.at + 2 * reading).min(0));
        let arrives = sure.map_or(update.at, |sure| sure.min(update.at)) + reading;
        let generated = update.at - reading - update.delay[1] - open;
        (update.delay[1] + shorter + open).min(arrives - begin).min(end - generated).min(length).max(0)
    }
}

impl AxisError {
    /// Returns whether so many ticks on the axis are some time for sure, or none at all.
    fn is_later(&self, ticks: i128) -> Option<bool> {
        let [part, of] = self.slope.map(i128::from);
        Some((of - part).checked_mul(ticks)? >= of.checked_mul(self.fixed.into())?)
    }
}

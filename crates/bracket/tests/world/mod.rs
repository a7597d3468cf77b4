//! A simulated pair of clocks whose true map is known exactly, and a network that delays, loses and reorders.
#![allow(dead_code, reason = "each test file uses another part")]

use proptest::prelude::*;
use tickscope_bracket::{Bracket, LIMIT_TICKS, Model, Ratio, Rho};
use tickscope_tick::Tick;

/// Rates of the reference per local tick that are tried: near 1 is not enough.
pub const RATES: [(u64, u64); 6] = [(1, 1), (2, 5), (5, 2), (1_249_999, 1_050_000), (7, 3), (1_000_003, 999_983)];

/// The first local and reference tick: small, near 2^60, negative.
pub const ORIGINS: [(i64, i64); 4] = [(0, 0), (1 << 59, 1 << 60), (-(1 << 60) - 12_345, 77), (5, -(1 << 61) + 3)];

const BILLION: i128 = 1_000_000_000;

/// A strictly increasing map whose rate swings within `r0 * (1 ± wander)`.
#[derive(Clone, Debug)]
pub struct World {
    pub nominal: (u64, u64),
    pub origin: (i64, i64),
    /// `r0` relative to nominal, parts per 10^9.
    pub drift_ppb: i64,
    /// Local ticks and the rate relative to `r0`, parts per 10^9, one after another; the last one goes on.
    pub rates: Vec<(i64, i64)>,
    /// Local tick 0 of the first rate lies this far after the origin.
    pub messages: Vec<Message>,
}

/// An exchange or a message: `at` from the origin; delays in reference ticks.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub at: i64,
    pub before: Option<i64>,
    pub after: Option<i64>,
}

impl World {
    /// `(f(y) - first reference tick)` in units of [`World::unit`], for `y` from the origin.
    pub fn exact(&self, y: i64) -> i128 {
        let (mut left, mut grown) = (i128::from(y), 0i128);
        for (position, &(length, wander)) in self.rates.iter().enumerate() {
            let last = position + 1 == self.rates.len();
            let part = if last { left } else { left.min(length.into()) };
            grown += part * (BILLION + i128::from(wander));
            left -= part;
            if left <= 0 {
                break;
            }
        }
        grown * (BILLION + i128::from(self.drift_ppb)) * i128::from(self.nominal.0)
    }

    /// Reference ticks are counted in this fraction.
    pub fn unit(&self) -> i128 {
        BILLION * BILLION * i128::from(self.nominal.1)
    }

    /// The whole reference ticks around `f`.
    pub fn around(&self, y: i64) -> (i64, i64) {
        let (exact, unit) = (self.exact(y), self.unit());
        let floor = self.origin.1 as i128 + exact.div_euclid(unit);
        let ceil = self.origin.1 as i128 - (-exact).div_euclid(unit);
        (floor as i64, ceil as i64)
    }

    pub fn local(&self, y: i64) -> i64 {
        self.origin.0 + y
    }

    pub fn brackets(&self) -> Vec<Bracket> {
        self.messages.iter().map(|message| self.bracket(message)).collect()
    }

    fn bracket(&self, message: &Message) -> Bracket {
        let (floor, ceil) = self.around(message.at);
        let before = message.before.map(|delay| floor - delay);
        Bracket::new(before, self.local(message.at), message.after.map(|delay| ceil + delay))
    }

    pub fn model(&self, rho_ppb: u32) -> Model {
        let nominal = Ratio::new(self.nominal.0, self.nominal.1).unwrap();
        let anchor = Tick::new(self.local(self.length() / 3));
        Model::new(Rho::declared_ppb(rho_ppb).unwrap(), nominal, anchor)
    }

    pub fn length(&self) -> i64 {
        self.messages.iter().map(|m| m.at).max().unwrap_or(0)
    }
}

/// Worlds whose wander stays within `rho_ppb` and often is exactly that, with both sides present, messages lost,
/// duplicated, one-sided and out of order, and paths as asymmetric as can be.
pub fn worlds(rho_ppb: i64, most_messages: usize) -> impl Strategy<Value = World> {
    let wander = prop_oneof![Just(rho_ppb), Just(-rho_ppb), Just(0), -rho_ppb..=rho_ppb];
    let rates = prop::collection::vec((1i64..1 << 34, wander), 1..12);
    let place = (prop::sample::select(RATES.to_vec()), prop::sample::select(ORIGINS.to_vec()), -400_000i64..400_000);
    let scale = prop::sample::select(vec![1i64 << 20, 1 << 30, 1 << 37]);
    (rates, place, messages(most_messages), scale).prop_map(
        |(rates, (nominal, origin, drift_ppb), mut messages, scale)| {
            let least = messages.iter().map(|m| m.at % scale).min().unwrap_or(0);
            messages.iter_mut().for_each(|m| m.at = m.at % scale - least);
            World { nominal, origin, drift_ppb, rates, messages }
        },
    )
}

/// Rates for [`far_worlds`], of parts so small that their exact maps fit 128 bits.
const FAR_RATES: [(u64, u64); 5] = [(1, 1), (2, 5), (5, 2), (7, 3), (1, 3)];

/// Such worlds stretched until they last as long as a clock map may: nearly to the limit of the domain that runs
/// faster.
pub fn far_worlds(rho_ppb: i64, most_messages: usize) -> impl Strategy<Value = World> {
    (worlds(rho_ppb, most_messages), prop::sample::select(FAR_RATES.to_vec())).prop_map(|(mut world, nominal)| {
        world.nominal = nominal;
        let most = LIMIT_TICKS - LIMIT_TICKS / 500;
        let room = if nominal.0 > nominal.1 { most / nominal.0 as i64 * nominal.1 as i64 } else { most };
        let factor = room / (world.length() + 1);
        world.messages.iter_mut().for_each(|m| m.at *= factor);
        world.rates.iter_mut().for_each(|(length, _)| *length = length.saturating_mul(factor));
        world
    })
}

fn messages(most: usize) -> impl Strategy<Value = Vec<Message>> {
    let delay = || prop_oneof![Just(0i64), 0i64..20, 0i64..50_000];
    let exchange = |(at, before, after): (i64, i64, i64)| Message { at, before: Some(before), after: Some(after) };
    let both = (0i64..1 << 37, delay(), delay()).prop_map(exchange);
    let any = (0i64..1 << 37, delay(), delay(), 0..4u8).prop_map(move |(at, before, after, side)| match side {
        0 => Message { at, before: Some(before), after: None },
        1 => Message { at, before: None, after: Some(after) },
        _ => exchange((at, before, after)),
    });
    let duplicated = |(first, mut rest, again): (Message, Vec<Message>, usize)| {
        let copy = rest.get(again).copied();
        rest.extend(copy);
        rest.push(first);
        rest
    };
    (both, prop::collection::vec(any, 0..most), 0..2 * most).prop_map(duplicated)
}

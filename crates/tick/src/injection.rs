//! A known map put between a node's counters and everything that reads them: the truth that tests compare with.
//!
//! Two processes of one host share a TSC, so their true clock map is known. An injection makes one of them read
//! `y = apply(x)` instead of `x`, at every reading, before anything is stored. The clock map that tickscope then finds
//! must contain this map. It is exact in integers and the same in `tickscope.h`, so that no rounding blurs the truth:
//!
//! `y = anchor + offset + d + floor((d * drift_ppb + W(d)) / 10^9)` with `d = x - anchor`, where `W` is the integral
//! of a rate that swings linearly between `+wander_ppb` and `-wander_ppb` with the period given. (A triangle in the
//! rate: it reaches the same peak as a sinusoid, and needs no floating point.) At last the counter shows only the
//! values of its [`Stairs`], if it has any. Exact at every distance that 64 bits hold; a reading beyond 64 bits
//! wraps, as a counter of 64 bits does.

use std::fmt;
use std::str::FromStr;

use crate::Stairs;

/// A map from a counter's true ticks to the ticks it is made to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Injection {
    /// The true tick around which the map is stated.
    pub anchor: i64,
    /// Ticks added at the anchor.
    pub offset: i64,
    /// Constant relative rate, parts per 10^9; positive: the injected counter is faster.
    pub drift_ppb: i64,
    /// Peak of the swinging relative rate, parts per 10^9.
    pub wander_ppb: i64,
    /// Ticks of one swing; even, at least 2.
    pub wander_period: i64,
    /// Which values the injected counter shows.
    pub stairs: Stairs,
}

/// A description of an injection that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InjectionError {
    variable: &'static str,
    expected: &'static str,
    found: String,
}

impl InjectionError {
    /// What `variable` was expected to hold, and holds instead.
    pub(crate) fn of(variable: &'static str, expected: &'static str, found: &str) -> Self {
        Self { variable, expected, found: found.to_owned() }
    }
}

impl fmt::Display for InjectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, expected, found } = self;
        write!(f, "{variable}: expected {expected}; found '{found}'. Unset it to read the true clock")
    }
}

impl std::error::Error for InjectionError {}

impl FromStr for Injection {
    type Err = InjectionError;

    fn from_str(text: &str) -> Result<Self, InjectionError> {
        let wrong = || wrong(text);
        let fields: Result<Vec<i64>, _> = text.split(':').map(str::parse).collect();
        let (&[anchor, offset, drift_ppb, wander_ppb, wander_period], stairs) = match fields.as_deref() {
            Ok([map @ .., numerator, denominator, uneven]) if map.len() == 5 => (
                map.first_chunk().ok_or_else(wrong)?,
                Stairs::new(*numerator, *denominator, *uneven).ok_or_else(wrong)?,
            ),
            Ok(map) if map.len() == 5 => (map.first_chunk().ok_or_else(wrong)?, Stairs::default()),
            _ => return Err(wrong()),
        };
        let steep = drift_ppb.unsigned_abs().saturating_add(wander_ppb.unsigned_abs()) >= 100_000_000;
        if wander_period < 2 || wander_period % 2 != 0 || wander_period >= 1 << 46 || steep {
            return Err(wrong());
        }
        Ok(Self { anchor, offset, drift_ppb, wander_ppb, wander_period, stairs })
    }
}

fn wrong(text: &str) -> InjectionError {
    InjectionError::of(
        Injection::VARIABLE,
        "anchor:offset:drift_ppb:wander_ppb:wander_period, five whole numbers with an even period >= 2 and |drift| + \
         |wander| < 10^8, and perhaps :step_numerator:step_denominator:uneven with a step >= 1 and 0 <= uneven < step",
        text,
    )
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { anchor, offset, drift_ppb, wander_ppb, wander_period, stairs } = self;
        write!(f, "{anchor}:{offset}:{drift_ppb}:{wander_ppb}:{wander_period}")?;
        if stairs.are_flat() { Ok(()) } else { write!(f, ":{stairs}") }
    }
}

impl Injection {
    /// The environment variable that `tickscope.h` and this crate read, once a process.
    pub const VARIABLE: &str = "TICKSCOPE_INJECT";

    /// The injection that this process was started with; `None`: its counters read true.
    pub fn from_environment() -> Result<Option<Self>, InjectionError> {
        match std::env::var(Self::VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().map(Some),
            Err(std::env::VarError::NotUnicode(raw)) => Err(wrong(&raw.to_string_lossy())),
            _ => Ok(None),
        }
    }

    /// What the injected counter reads when the true one reads `raw`.
    pub fn apply(&self, raw: i64) -> i64 {
        self.stairs.shown(self.behind_stairs(raw))
    }

    /// What the injected counter would read if it showed every value.
    pub(crate) fn behind_stairs(&self, raw: i64) -> i64 {
        self.whole(raw.into()) as i64
    }

    /// The same without an end at 64 bits. Distances from the anchor are below 2^66 here, rates below 2^27, periods
    /// below 2^46: the drift is divided before the wander's denominator is multiplied in, so that every product fits
    /// 128 bits.
    fn whole(&self, raw: i128) -> i128 {
        const BILLION: i128 = 1_000_000_000;
        let d = raw - i128::from(self.anchor);
        let period = i128::from(self.wander_period);
        let phase = d.rem_euclid(period);
        let (sign, p) = if 2 * phase < period { (1, phase) } else { (-1, phase - period / 2) };
        // The rate is wander * (1 - 4p/period), so its integral is wander * p * (period - 2p) / period.
        let wander = sign * i128::from(self.wander_ppb) * p * (period - 2 * p);
        let drift = d * i128::from(self.drift_ppb);
        let rest = (drift.rem_euclid(BILLION) * period + wander).div_euclid(BILLION * period);
        raw + i128::from(self.offset) + drift.div_euclid(BILLION) + rest
    }

    /// Every true tick at which the injected counter reads `injected`: first and last. `None` where it skips the
    /// value, or would read it at a tick beyond 64 bits.
    pub fn invert(&self, injected: i64) -> Option<(i64, i64)> {
        if self.stairs.shown(injected) != injected {
            return None;
        }
        let flat = self.stairs.are_flat();
        let next = if flat { i128::from(injected) + 1 } else { self.stairs.next(injected).into() };
        let (first, last) = (self.first_reaching(injected.into()), self.first_reaching(next) - 1);
        if last < first { None } else { Some((i64::try_from(first).ok()?, i64::try_from(last).ok()?)) }
    }

    /// The first true tick at which the injected counter reads at least `injected`; the map never steps back.
    fn first_reaching(&self, injected: i128) -> i128 {
        let guess = injected - i128::from(self.offset);
        let reach = 1 + (guess - i128::from(self.anchor)).abs() / 5 + i128::from(self.wander_period) / 8;
        let (mut below, mut reached) = (guess - reach, guess + reach);
        while reached - below > 1 {
            let middle = below + (reached - below) / 2;
            if self.whole(middle) >= injected { reached = middle } else { below = middle }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;

    #[test]
    fn the_identity_changes_nothing() {
        let identity: Injection = "0:0:0:0:2".parse().unwrap();
        assert_eq!([-5, 0, 7, i64::MAX].map(|raw| identity.apply(raw)), [-5, 0, 7, i64::MAX]);
    }

    #[test]
    fn an_injected_counter_at_the_ends_of_64_bits_wraps_and_is_not_inverted_beyond_them() {
        let ahead: Injection = "0:10:0:0:2".parse().unwrap();
        assert_eq!([i64::MAX - 10, i64::MAX - 9].map(|raw| ahead.apply(raw)), [i64::MAX, i64::MIN]);
        assert_eq!(ahead.invert(i64::MAX), Some((i64::MAX - 10, i64::MAX - 10)));
        assert_eq!([i64::MIN + 9, i64::MIN + 10].map(|read| ahead.invert(read)), [None, Some((i64::MIN, i64::MIN))]);
    }

    #[test]
    fn the_wander_returns_to_zero_each_half_period_and_peaks_at_an_eighth_of_it() {
        let map: Injection = "0:0:0:1000:8000000".parse().unwrap();
        assert_eq!([0, 4_000_000, 8_000_000].map(|d| map.apply(d) - d), [0, 0, 0]);
        assert_eq!(map.apply(2_000_000) - 2_000_000, 1, "1 ppm of an eighth of the period is one tick");
        assert_eq!(map.apply(6_000_000) - 6_000_000, -1);
    }

    #[test]
    fn a_malformed_description_is_refused_with_what_was_found() {
        for text in [
            "",
            "1:2:3",
            "a:b:c:d:e",
            "0:0:0:0:3",
            "0:0:0:0:0",
            "0:0:100000000:0:2",
            "0:0:0:-9223372036854775808:2",
            "0:0:0:0:2:40",
            "0:0:0:0:2:40:1:40",
            "0:0:0:0:2:1:2:0",
        ] {
            assert!(text.parse::<Injection>().unwrap_err().to_string().contains(&format!("'{text}'")));
        }
    }

    proptest! {
        #[test]
        fn property_the_rate_never_leaves_drift_plus_minus_wander(
            drift in -50_000i64..50_000, wander in 0i64..10_000, from in 0i64..1 << 40, length in 1i64..1 << 36,
        ) {
            let map = Injection { anchor: 1 << 30, offset: 9, drift_ppb: drift, wander_ppb: wander, wander_period: 1 << 34, stairs: Stairs::default() };
            let gained = i128::from(map.apply(from + length)) - i128::from(map.apply(from)) - i128::from(length);
            let (slowest, fastest) = (i128::from(drift - wander), i128::from(drift + wander));
            let length = i128::from(length);
            prop_assert!((gained + 1) * 1_000_000_000 >= slowest * length && (gained - 1) * 1_000_000_000 <= fastest * length);
        }

        /// A year and more at any rate, up to the ends of 64 bits.
        #[test]
        fn property_the_map_is_exact_at_every_distance(
            anchor in -(1i64 << 61)..1 << 61, distance in prop_oneof![-(1i64 << 61)..1 << 61, -(1i64 << 57)..1 << 57],
            rates in (-50_000_000i64..50_000_000, -49_999_999i64..49_999_999),
            half in prop_oneof![1i64..1000, 1i64..1 << 45], offset in -(1i64 << 60)..1 << 60,
        ) {
            let (drift_ppb, wander_ppb) = rates;
            let stairs = Stairs::default();
            let map = Injection { anchor, offset, drift_ppb, wander_ppb, wander_period: 2 * half, stairs };
            let raw = anchor + distance;
            let whole = |value: i64| BigInt::from(value);
            let phase = distance.rem_euclid(2 * half);
            let (sign, p) = if phase < half { (1, phase) } else { (-1, phase - half) };
            let wander = whole(sign) * wander_ppb * p * (2 * half - 2 * p);
            let gained = whole(distance) * drift_ppb * 2 * half + wander;
            let slow = BigRational::new(gained, whole(1_000_000_000) * 2 * half).floor().to_integer();
            let read = whole(raw) + offset + slow;
            prop_assert_eq!(BigInt::from(map.apply(raw)), read);
            let (first, last) = map.invert(map.apply(raw)).unwrap();
            prop_assert!(first <= raw && raw <= last);
        }

        #[test]
        fn property_inversion_finds_exactly_the_ticks_that_read_so(
            drift in -50_000i64..50_000, wander in 0i64..10_000, raw in -(1i64 << 45)..1 << 45, step in 1i64..2000,
        ) {
            let stairs = Stairs::new(step, 2.min(step), step / 5).unwrap_or_default();
            let map = Injection {
                anchor: 77, offset: 1_000_000_000, drift_ppb: drift, wander_ppb: wander, wander_period: 1 << 34, stairs,
            };
            let (first, last) = map.invert(map.apply(raw)).unwrap();
            prop_assert!(first <= raw && raw <= last);
            prop_assert!(map.apply(first - 1) < map.apply(raw) && map.apply(raw) < map.apply(last + 1));
        }
    }
}

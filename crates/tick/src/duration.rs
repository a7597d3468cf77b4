//! Durations as people write them, a decimal number with its unit, read exactly.
//!
//! Guarantees: what is read is what was written; a part of a step, or what is out of range, is refused and never
//! rounded. Deliberately absent: signs and exponents; durations in words, which `tickscope.h` reads too.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Units, and how many decimals of each are whole nanoseconds.
const UNITS: [(&str, usize); 5] = [("ns", 0), ("us", 3), ("\u{b5}s", 3), ("ms", 6), ("s", 9)];
/// Decimals of a nanosecond that are whole picoseconds.
const PICOSECONDS: usize = 3;

/// Durations that are taken.
#[derive(Clone, Debug)]
pub struct DurationForm {
    ns: RangeInclusive<u64>,
    /// Decimals of a nanosecond that it may have.
    decimals: usize,
}

impl DurationForm {
    /// Limits, to a day; a limit of no time is none.
    pub const LIMIT: Self = Self::nanoseconds(1..=86_400_000_000_000);

    /// Whole nanoseconds of that range.
    pub const fn nanoseconds(ns: RangeInclusive<u64>) -> Self {
        Self { ns, decimals: 0 }
    }

    /// Whole picoseconds of a range in nanoseconds; at most 18 million seconds, which 64 bits hold.
    pub const fn picoseconds(ns: RangeInclusive<u64>) -> Self {
        Self { ns, decimals: PICOSECONDS }
    }

    /// The duration in its steps, or why it is none.
    ///
    /// ```
    /// use tickscope_tick::DurationForm;
    /// assert_eq!(DurationForm::LIMIT.read("1.25us"), Ok(1_250));
    /// assert!(DurationForm::LIMIT.read("0.5ns").unwrap_err().contains("in whole nanoseconds, found '0.5ns'"));
    /// ```
    pub fn read(&self, text: &str) -> Result<u64, String> {
        self.steps(text).ok_or_else(|| self.wrong(format_args!("'{text}'")))
    }

    /// What to say where `found` is none of them.
    pub fn wrong(&self, found: impl Display) -> String {
        let [from, to] = [self.ns.start(), self.ns.end()].map(|ns| shortest(*ns));
        let steps = if self.decimals == 0 { "nanoseconds" } else { "picoseconds" };
        format!(
            "expected a duration from {from} to {to} with its unit (ns, us, ms, s) in whole {steps}, found {found}. \
             Write \"250us\" for example"
        )
    }

    fn steps(&self, text: &str) -> Option<u64> {
        let (number, decimals) =
            UNITS.iter().find_map(|(unit, decimals)| Some((text.strip_suffix(unit)?.trim_end(), decimals)))?;
        let steps = decimal(number, decimals + self.decimals)?;
        let a_nanosecond = 10_u64.pow(u32::try_from(self.decimals).ok()?);
        let [least, most] = [self.ns.start(), self.ns.end()].map(|ns| ns.checked_mul(a_nanosecond));
        (least? <= steps && steps <= most?).then_some(steps)
    }
}

/// A number such as `12.5`, without a sign, times ten to the power of `decimals`; `None`: it is none, has more decimals
/// than that, or does not fit.
pub fn decimal(text: &str, decimals: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let part = Some(part).filter(|part| is_number(part))?.trim_end_matches('0');
    let fits = is_number(whole) && part.len() <= decimals;
    fits.then(|| format!("{whole}{part:0<decimals$}").parse().ok()).flatten()
}

/// In the largest unit that gives a whole number.
fn shortest(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let fitting = units.into_iter().find(|&(size, _)| ns > 0 && ns.is_multiple_of(size));
    fitting.map_or_else(|| format!("{ns}ns"), |(size, name)| format!("{}{name}", ns / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: DurationForm = DurationForm::LIMIT;
    /// The longest whose picoseconds fit.
    const MOST: DurationForm = DurationForm::picoseconds(0..=18_446_744_000_000_000);

    #[test]
    fn durations_are_read_to_the_last_digit_and_at_both_ends() {
        for (text, ns) in [
            ("1ns", 1),
            ("0.5us", 500),
            ("1.250\u{b5}s", 1_250),
            ("250 us", 250_000),
            ("0.000001ms", 1),
            ("0.000000001s", 1),
            ("0.1s", 100_000_000),
            ("86400s", 86_400_000_000_000),
            ("86399.999999999s", 86_399_999_999_999),
            ("007ns", 7),
            ("2.000ns", 2),
        ] {
            assert_eq!(DAY.read(text), Ok(ns), "{text}");
        }
        // A double holds none of these.
        assert_eq!(MOST.read("18446743.999999999999s"), Ok(18_446_743_999_999_999_999));
        assert_eq!(MOST.read("9007199254740.993ns"), Ok(9_007_199_254_740_993));
        assert_eq!((MOST.read("0ns"), MOST.read("0.001ns"), MOST.read("1.5ms")), (Ok(0), Ok(1), Ok(1_500_000_000)));
    }

    #[test]
    fn what_is_no_duration_is_told_with_what_was_found() {
        for text in [
            "",
            "ns",
            "5",
            ".5us",
            "1.us",
            "1.2.3us",
            "-1us",
            "+1us",
            "1e3ns",
            "1 min",
            "1m",
            "1_000ns",
            " 1ns",
            "1ns ",
            "0ns",
            "0.5ns",
            "0.0000001ms",
            "86400.000000001s",
            "99999999999999999999s",
            "\u{661}ns",
            "1\u{3bc}s",
        ] {
            let why = DAY.read(text).unwrap_err();
            let said =
                "expected a duration from 1ns to 86400s with its unit (ns, us, ms, s) in whole nanoseconds, found";
            assert_eq!(why, format!("{said} '{text}'. Write \"250us\" for example"));
        }
        let why = MOST.read("0.0001ns").unwrap_err();
        assert!(why.contains("from 0ns to 18446744s") && why.contains("whole picoseconds"), "{why}");
        assert!(MOST.read("18446744.000000000001s").is_err());
    }

    #[test]
    fn decimals_are_whole_numbers_of_their_last_place() {
        assert_eq!((decimal("2", 4), decimal("0.0001", 4), decimal("0.00001", 4)), (Some(20_000), Some(1), None));
        assert_eq!((decimal("18446744073709551615", 0), decimal("18446744073709551616", 0)), (Some(u64::MAX), None));
    }
}

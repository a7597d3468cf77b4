//! Quantities as a page writes them: durations with a typographic minus, counts in groups, dates.

use tickscope_tick::Decimal;

/// One unit for all durations of a page, so that a column can be compared by eye: [`tickscope_tick::Unit`], typeset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit(pub(crate) tickscope_tick::Unit);

impl Unit {
    /// Its symbol.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// An estimate.
    pub fn near(self, ticks: impl Into<i128>) -> String {
        typeset(self.0.near(ticks))
    }

    /// A bound from below.
    pub fn down(self, ticks: impl Into<i128>) -> String {
        typeset(self.0.down(ticks))
    }

    /// A bound from above.
    pub fn up(self, ticks: impl Into<i128>) -> String {
        typeset(self.0.up(ticks))
    }

    /// `±1.25 µs`, outward; `unknown` where nothing bounds it.
    pub fn reach(self, ticks: Option<u64>, unknown: &str) -> String {
        ticks.map_or_else(|| unknown.into(), |ticks| format!("±{} {}", self.up(ticks), self.name()))
    }

    /// `[lo, hi]`, outward.
    pub fn interval(self, lo: i64, hi: i64) -> String {
        format!("[{},\u{a0}{}]", self.down(lo), self.up(hi))
    }
}

fn typeset(decimal: Decimal) -> String {
    decimal.to_string().replace('-', "\u{2212}")
}

/// `60 000`: a count in groups of three.
pub(crate) fn count(number: impl TryInto<i128>) -> String {
    let number = number.try_into().unwrap_or(i128::MAX); // wider than any count
    let digits = number.unsigned_abs().to_string();
    let mut grouped = String::from(if number < 0 { "−" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 stamp`, `2 stamps`.
pub(crate) fn counted(number: impl TryInto<i128>, one: &str) -> String {
    let number = number.try_into().unwrap_or(i128::MAX);
    format!("{}\u{a0}{one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `2026-11-21 07:04 UTC`, of milliseconds since the epoch of Unix.
pub(crate) fn utc(unix_ms: i64) -> String {
    let (days, minutes) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000) / 60_000);
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Year, month and day of the Gregorian calendar, of days since 1970-01-01: years are taken to begin in March, so that
/// the leap day ends one.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_outward_and_its_minus_typographic() {
        let unit = Unit(tickscope_tick::Unit::for_durations_up_to(3_000_000_000, 3_000_000));
        assert_eq!(unit.interval(-2_999, 3_001), "[−1.00,\u{a0}1.01]");
        assert_eq!((unit.near(-2_999), unit.up(u64::MAX)), ("−1.00".into(), "6148914691236517.21".into()));
    }

    #[test]
    fn counts_and_times_read_as_people_write_them() {
        assert_eq!(
            (count(7), count(1_234u64), count(60_000_000u64)),
            ("7".into(), "1\u{202f}234".into(), "60\u{202f}000\u{202f}000".into())
        );
        assert_eq!(
            (count(-1_234), count(1i128 << 65)),
            ("−1\u{202f}234".into(), "36\u{202f}893\u{202f}488\u{202f}147\u{202f}419\u{202f}103\u{202f}232".into())
        );
        assert_eq!((counted(1, "event"), counted(0, "event")), ("1\u{a0}event".into(), "0\u{a0}events".into()));
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(1_709_210_096_000), "2024-02-29 12:34 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59 UTC");
    }
}

//! Ticks as people read them. Integers throughout, so that a bound stays a bound to the last digit shown.

/// One unit for all durations of a page, so that a column can be compared by eye.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    hertz: u64,
    /// Its symbol.
    pub name: &'static str,
    /// How many of it are a second.
    pub per_second: u64,
    /// Digits shown after the point.
    pub decimals: u32,
}

/// From this many on, the next larger unit is easier to read.
const MOST_OF_A_UNIT: i128 = 100_000;

impl Unit {
    /// The unit in which durations up to `ticks` have at most five digits before the point: microseconds or more.
    pub fn for_durations_up_to(hertz: u64, ticks: i64) -> Self {
        let units = [("µs", 1_000_000, 2), ("ms", 1_000, 3), ("s", 1, 4)];
        let unit = |(name, per_second, decimals)| Self { hertz: hertz.max(1), name, per_second, decimals };
        let fits =
            |unit: &Self| i128::from(ticks) * i128::from(unit.per_second) < MOST_OF_A_UNIT * i128::from(unit.hertz);
        units.into_iter().map(unit).find(fits).unwrap_or(unit(units[2]))
    }

    /// Whole nanoseconds, for what a host knows of its own clocks.
    pub fn nanoseconds(hertz: u64) -> Self {
        Self { hertz: hertz.max(1), name: "ns", per_second: 1_000_000_000, decimals: 0 }
    }

    /// The nearest number of the digits shown.
    pub fn near(self, ticks: i64) -> String {
        let (scaled, hertz) = self.scaled(ticks);
        self.decimal((2 * scaled + hertz).div_euclid(2 * hertz))
    }

    /// The next number below, of the digits shown.
    pub fn down(self, ticks: i64) -> String {
        let (scaled, hertz) = self.scaled(ticks);
        self.decimal(scaled.div_euclid(hertz))
    }

    /// The next number above, of the digits shown.
    pub fn up(self, ticks: i64) -> String {
        let (scaled, hertz) = self.scaled(ticks);
        self.decimal(-(-scaled).div_euclid(hertz))
    }

    /// The same of a bound that has no sign.
    pub fn at_most(self, ticks: u64) -> String {
        self.up(i64::try_from(ticks).unwrap_or(i64::MAX))
    }

    /// `[lo, hi]`, outward.
    pub fn interval(self, lo: i64, hi: i64) -> String {
        format!("[{},\u{a0}{}]", self.down(lo), self.up(hi))
    }

    fn scaled(self, ticks: i64) -> (i128, i128) {
        let scale = i128::from(self.per_second) * 10i128.pow(self.decimals);
        (i128::from(ticks) * scale, i128::from(self.hertz))
    }

    fn decimal(self, scaled: i128) -> String {
        let one = 10u128.pow(self.decimals);
        let (whole, part) = (scaled.unsigned_abs() / one, scaled.unsigned_abs() % one);
        let sign = if scaled < 0 { "\u{2212}" } else { "" };
        match self.decimals {
            0 => format!("{sign}{whole}"),
            width => format!("{sign}{whole}.{part:0width$}", width = width as usize),
        }
    }
}

/// `60 000`: a count in groups of three.
pub(crate) fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 stamp`, `2 stamps`.
pub(crate) fn counted(number: impl TryInto<u64>, one: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{}\u{a0}{one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `2026-11-21 07:04 UTC`, of milliseconds since the epoch of Unix.
pub(crate) fn utc(unix_ms: i64) -> String {
    let (days, minutes) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000) / 60_000);
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Year, month and day of the Gregorian calendar, of days since 1970-01-01: years are taken to begin in March, so that the
/// leap day ends one.
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
    fn a_bound_is_rounded_outward_to_the_digit_shown() {
        let unit = Unit::for_durations_up_to(3_000_000_000, 3_000_000);
        assert_eq!((unit.near(1), unit.down(1), unit.up(1)), ("0.00".into(), "0.00".into(), "0.01".into()));
        assert_eq!((unit.near(-1), unit.down(-1), unit.up(-1)), ("0.00".into(), "−0.01".into(), "0.00".into()));
        assert_eq!((unit.down(3_000), unit.up(3_000)), ("1.00".into(), "1.00".into()));
        assert_eq!(unit.interval(-2_999, 3_001), "[−1.00,\u{a0}1.01]");
        assert_eq!(unit.at_most(u64::MAX), unit.up(i64::MAX));
        assert_eq!(Unit::nanoseconds(3_000_000_000).interval(-4, 4), "[−2,\u{a0}2]");
    }

    #[test]
    fn the_unit_grows_with_the_durations() {
        let name = |ticks| Unit::for_durations_up_to(1_000_000_000, ticks).name;
        assert_eq!(name(99_999_999), "µs");
        assert_eq!(name(100_000_000), "ms");
        assert_eq!((name(99_999_999_999), name(100_000_000_000)), ("ms", "s"));
    }

    #[test]
    fn counts_and_times_read_as_people_write_them() {
        assert_eq!(
            (count(7), count(1_234u64), count(60_000_000u64)),
            ("7".into(), "1\u{202f}234".into(), "60\u{202f}000\u{202f}000".into())
        );
        assert_eq!((counted(1, "event"), counted(0, "event")), ("1\u{a0}event".into(), "0\u{a0}events".into()));
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(1_709_210_096_000), "2024-02-29 12:34 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59 UTC");
    }
}

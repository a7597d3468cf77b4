//! The window of stamps that a run keeps, as people write it: `30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tickscope_store::window_text;

/// A window of the newest stamps; what is older is removed while the run goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep(Duration);

/// Below this a window would hold a few files of stamps at most: each holds what came in a second or more.
const LEAST: Duration = Duration::from_secs(5);
/// A year: more is no window.
const MOST: Duration = Duration::from_secs(366 * 86_400);
/// Letters and how many milliseconds each is.
const UNITS: [(char, f64); 3] = [('s', 1e3), ('m', 60e3), ('h', 3600e3)];

impl Keep {
    /// As milliseconds.
    pub fn ms(self) -> u64 {
        self.0.as_millis() as u64 // below a year
    }

    /// A window of as many milliseconds; `None`: no window is that short or long.
    pub(crate) fn of_ms(ms: u64) -> Option<Self> {
        Some(Duration::from_millis(ms)).filter(|window| (LEAST..=MOST).contains(window)).map(Self)
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |(unit, ms): (char, f64)| {
            let number = text.strip_suffix(unit)?.parse::<f64>().ok().filter(|number| number.is_finite())?;
            Some(Duration::from_millis((number * ms).clamp(0.0, 1e15).round() as u64))
        };
        let window = UNITS.into_iter().find_map(parse);
        window.filter(|window| (LEAST..=MOST).contains(window)).map(Self).ok_or_else(|| {
            format!(
                "expected a window from 5s to a year, such as 30m, 90s or 2h, found '{text}'. Files of stamps go as a \
                 whole, and each holds a second or more: leave it out to keep all"
            )
        })
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&window_text(self.ms()))
    }
}

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(from)? {
            toml::Value::String(text) => text.parse().map_err(D::Error::custom),
            other => {
                Err(D::Error::custom(format!("expected a window such as \"30m\", found {other}. Write it in quotes")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_number_with_a_unit_and_neither_short_nor_a_year() {
        let ms = |text: &str| text.parse::<Keep>().map(Keep::ms);
        assert_eq!(
            ["5s", "90s", "30m", "1.5h", "2h"].map(|text| ms(text).unwrap()),
            [5_000, 90_000, 1_800_000, 5_400_000, 7_200_000]
        );
        for wrong in ["", "30", "m", "4.9s", "-3m", "NaNs", "infh", "1d", "30 m", "9000h", "1e300h"] {
            let why = ms(wrong).unwrap_err();
            assert!(why.contains("expected a window from 5s") && why.contains(&format!("'{wrong}'")), "{why}");
        }
    }

    #[test]
    fn a_window_is_printed_in_the_largest_unit_that_is_whole() {
        let again = |text: &str| text.parse::<Keep>().unwrap().to_string();
        assert_eq!(["7200s", "90m", "90s", "5.5s"].map(again), ["2h", "90m", "90s", "5.5s"]);
    }
}

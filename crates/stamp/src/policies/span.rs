//! A length of time as text: a whole number and a unit, `10ms`.

/// Units, the longest first, in nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// From a microsecond, below which nobody can look, to a day.
const NS: std::ops::RangeInclusive<u64> = 1_000..=86_400_000_000_000;

/// Returns whether a policy may have that length, in nanoseconds.
pub(super) fn is_valid(ns: u64) -> bool {
    NS.contains(&ns)
}

/// The length in nanoseconds; `None`: it is none, or out of range.
pub(super) fn parse(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let (_, ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*ns).filter(|&ns| is_valid(ns))
}

/// The same in the longest unit that gives a whole number.
pub(super) fn text(ns: u64) -> String {
    let (name, unit) = UNITS.iter().find(|(_, unit)| ns.is_multiple_of(*unit)).unwrap_or(&("ns", 1));
    format!("{}{name}", ns / unit)
}

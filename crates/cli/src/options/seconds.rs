//! Seconds of an option.

/// Reads a number of seconds, `3` or `3s`.
pub fn seconds(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let within = number.filter(|seconds| (0.1..=1e6).contains(seconds));
    within
        .ok_or_else(|| "expected seconds from 0.1 to 1000000, such as 3 or 0.5. Leave it out for the run file's".into())
}

//! `[return_trip]` of a run file: what acknowledgements of the policy `return-trip` may take.

use serde::Deserialize;

/// How many acknowledgements there may be, and where they are answered.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReturnTripPlan {
    /// Acknowledgements a second of each node where a path ends, at most.
    pub most_hz: u32,
    /// Port that they are answered on.
    pub port: u16,
}

impl Default for ReturnTripPlan {
    /// A tenth of what a run of an hour can be shown with; the port is next to that of the probes.
    fn default() -> Self {
        Self { most_hz: 200, port: 7413 }
    }
}

impl ReturnTripPlan {
    /// One a window at least; more than probes may ask is a load and no comparison.
    const MOST_HZ: std::ops::RangeInclusive<u32> = 10..=10_000;

    pub fn check(&self) -> Result<(), String> {
        if Self::MOST_HZ.contains(&self.most_hz) {
            return Ok(());
        }
        let (least, most, found) = (Self::MOST_HZ.start(), Self::MOST_HZ.end(), self.most_hz);
        Err(format!("expected return_trip.most_hz from {least} to {most}, found {found}. Change it, or leave it out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_beyond_what_may_be_sent_is_refused() {
        let plan = |text: &str| toml::from_str::<ReturnTripPlan>(text).map_err(|e| e.to_string());
        assert_eq!(plan("").unwrap(), ReturnTripPlan::default());
        for (rate, is_well) in [(9, false), (10, true), (10_000, true), (10_001, false)] {
            assert_eq!(plan(&format!("most_hz = {rate}")).unwrap().check().is_ok(), is_well, "{rate}");
        }
        assert!(plan("most = 10").unwrap_err().contains("most"));
    }
}

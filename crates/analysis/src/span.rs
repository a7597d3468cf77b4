//! A duration as every sink gets it: its estimate and both bounds, in ticks of the reference.

use tickscope_trace::StageDurations;

/// A duration in ticks of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Lies in the interval.
    pub estimate: i64,
    /// No admissible duration is shorter.
    pub lo: i64,
    /// No admissible duration is longer.
    pub hi: i64,
}

impl Span {
    pub(crate) fn of(stage: &StageDurations, row: usize) -> Option<Self> {
        let [estimate, lo, hi] = stage.columns().map(|column| column.get(row));
        Some(Self { estimate: estimate?, lo: lo?, hi: hi? })
    }
}

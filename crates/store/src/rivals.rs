//! What other programs said of a node's clock while the run went on, to be compared with the run's own bounds.

use std::path::Path;

use crate::error::Result;
use crate::table::{Columns, columns};

columns! {
    /// One sample.
    row RivalSample,
    /// Samples of one node as columns, one row each time a program was asked.
    pub columns RivalColumns {
        /// The program: `chrony` or `ptp4l`; `NTP`: what the kernel states.
        program: String,
        /// How it was set up, as the run file names it.
        variant: String,
        /// Tick of the node's counter before the answer.
        before: i64,
        /// Tick of the node's counter after it.
        after: i64,
        /// What the program said of itself: `normal`, or why its figures do not count yet.
        state: String,
        /// By how many ns the node's `CLOCK_REALTIME` is ahead of the clock that it follows, negative: behind.
        offset_ns: i64,
        /// chrony: root delay, ns; ptp4l: its path delay; NTP: 0, the bound holds it.
        delay_ns: Option<i64>,
        /// Root dispersion, ns; NTP: the kernel's `maxerror`; null: the program states none, and so no bound.
        dispersion_ns: Option<i64>,
        /// By how much the node's clock gains on its own, parts per 10^9.
        frequency_ppb: Option<i64>,
        /// What of that the program has not yet taken into account, parts per 10^9.
        residual_ppb: Option<i64>,
        /// The program's own bound on its frequency, parts per 10^9.
        skew_ppb: Option<i64>,
    }
}

impl RivalSample {
    /// The state of a sample that counts.
    pub const NORMAL: &str = "normal";
}

impl RivalColumns {
    /// Adds a sample.
    pub fn push(&mut self, sample: RivalSample) {
        self.push_row(sample);
    }

    /// The samples in order.
    pub fn samples(self) -> impl Iterator<Item = RivalSample> {
        self.into_rows()
    }
}

/// Writes `samples` as the file at `place`.
pub fn write_rivals(place: &Path, samples: &RivalColumns) -> Result<()> {
    samples.write(place, &[]).map(|_| ())
}

/// The samples in the file at `place`.
pub fn read_rivals(place: &Path) -> Result<RivalColumns> {
    RivalColumns::read(place)
}

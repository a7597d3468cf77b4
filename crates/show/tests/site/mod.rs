//! The golden run, analysed, and its report.

#[path = "../../../analysis/tests/site/copied.rs"]
pub mod copied;

use copied::Copied;
use tickscope_analysis::figures::Figures;
use tickscope_analysis::{Analysis, Query};
use tickscope_rivals::{NodeRivals, draw_and_compare};
use tickscope_show::Report;
use tickscope_store::Run;

/// A copy of the golden run, gone when dropped, with an analysis that a test may change.
pub struct Analysed {
    pub run: Run,
    pub analysis: Analysis,
    pub rivals: Vec<NodeRivals>,
    pub figures: Figures,
    _copied: Copied,
}

impl Analysed {
    pub fn new() -> Self {
        Self::of(Copied::new(1))
    }

    pub fn of(copied: Copied) -> Self {
        let run = copied.run();
        let (analysis, figures, rivals) = draw_and_compare(&run, &Query::default(), |_| Ok(())).unwrap();
        Self { run, analysis, rivals, figures, _copied: copied }
    }

    /// Its report, without events, channels and counts.
    pub fn report(&self) -> Report<'_> {
        Report {
            run: &self.run,
            analysis: &self.analysis,
            rivals: &self.rivals,
            figures: &self.figures,
            events: &[],
            channels: &[],
            counted: &[],
            age: None,
        }
    }
}

//! The golden run, analysed, and its report.

#[path = "../../../analysis/tests/site/copied.rs"]
pub mod copied;

use copied::Copied;
use tickscope_analysis::figures::Figures;
use tickscope_analysis::{Analysis, Query, analyse_with_figures};
use tickscope_show::Report;
use tickscope_store::Run;

/// A copy of the golden run, gone when dropped, with an analysis that a test may change.
pub struct Analysed {
    pub run: Run,
    pub analysis: Analysis,
    pub figures: Figures,
    _copied: Copied,
}

impl Analysed {
    pub fn new() -> Self {
        Self::of(Copied::new(1))
    }

    pub fn of(copied: Copied) -> Self {
        let run = copied.run();
        let (analysis, figures) = analyse_with_figures(&run, &Query::default(), false).unwrap();
        Self { run, analysis, figures, _copied: copied }
    }

    /// Its report, without events, channels and counts.
    pub fn report(&self) -> Report<'_> {
        Report {
            run: &self.run,
            analysis: &self.analysis,
            figures: &self.figures,
            events: &[],
            channels: &[],
            counted: &[],
            age: None,
        }
    }
}

//! What tickscope shows: a run as one page, and documents that are text in a terminal and a page alike ([`document`]).
//!
//! A run's page, `report.html`, opens offline and is all that a colleague has to be sent.
//!
//! Idea: whatever is text stands in the page as text, tables included, so that it reads without a script, in print and
//! by ear; the figures are drawn from numbers that were computed before ([`tickscope_analysis::figures`]). Everything
//! the page needs is in the one file, and its policy forbids it to ask for anything else.
//!
//! Assumes: nothing about the run's texts: names, events and assumptions are untrusted, and [`document`] escapes them.
//! Guarantees: at most 2 MB; a bound is rounded outward to the digit that is shown; what is left out is said.
//! Deliberately absent: computing, colours that mean something without a word beside them, anything from a network.
#![forbid(unsafe_code)]

mod age;
#[cfg(test)]
#[path = "../../analysis/tests/site/any_analysis.rs"]
#[allow(dead_code, reason = "the tests of the public JSON use the rest")]
mod any_analysis;
mod chapters;
mod clock_errors;
pub mod clock_page;
mod comparison;
mod counts;
pub mod document;
mod drawn_figure;
mod few_traces;
mod headline;
mod histograms;
mod kinds;
mod limits;
mod noise;
pub mod noise_comparison;
pub mod noise_study;
pub mod noise_survey;
mod page;
mod path_bar;
mod pdf;
pub mod plot;
mod policy;
mod preparation;
mod quantity;
mod relations;
mod remarks;
mod rivals;
mod scatter_matrix;
pub mod stage_table;
mod stages;
mod summary;
mod sustain;
mod sweep;
mod tail;
pub mod terminal;
mod text;
mod traffic;
mod transfers;
mod typesetting;
mod x_lap;

use serde::Serialize;
use tickscope_analysis::figures::Figures;
use tickscope_analysis::{Age, Analysis, CountedPoint, RunJson};
use tickscope_rivals::NodeRivals;
use tickscope_store::{Channel, Event, Run};
use tickscope_tick::Label;

pub use age::AgeTable;
pub use clock_errors::clock_figures;
pub use comparison::comparison_text;
pub use counts::counts_document;
use document::Words;
pub use drawn_figure::DrawnFigure;
pub use noise::noise_of_slow_text;
use quantity::Unit;
pub use relations::relations_document;
pub use rivals::rivals_text;
pub use sustain::{sustain_figure, sustained_text};
pub use sweep::{SweepText, sweep_figure};
pub use tail::SlowTraces;
pub use x_lap::XLap;

/// What a page says and draws, as public JSON. Within a version keys are added, never removed or renamed, nor do they
/// change their meaning.
#[derive(Debug, Serialize)]
pub struct ReportJson<'a> {
    version: u32,
    headline: Vec<String>,
    table: RunJson<'a, NodeRivals>,
    figures: &'a Figures,
    rival_curves: Vec<RivalCurve<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<&'a Age>,
}

/// How well one method knew one node's clock, over the run.
#[derive(Debug, Serialize)]
struct RivalCurve<'a> {
    domain: &'a Label,
    reference: &'a Label,
    method: &'a str,
    /// Time since the first exchange and half-width, ns; of a method without a bound, the error.
    points: &'a [[i64; 2]],
}

impl ReportJson<'_> {
    /// Version of the keys and of what they mean; `table` has its own.
    pub const VERSION: u32 = 1;
}

/// What a page is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The run.
    pub run: &'a Run,
    /// What its files say.
    pub analysis: &'a Analysis,
    /// What other methods say of the same clocks.
    pub rivals: &'a [NodeRivals],
    /// What is to be drawn.
    pub figures: &'a Figures,
    /// What happened to the measuring.
    pub events: &'a [Event],
    /// All channels, with how many stamps each stored, dropped and refused.
    pub channels: &'a [Channel],
    /// What points under the policy `count` counted.
    pub counted: &'a [CountedPoint],
    /// How fresh what one point receives of another is; `None`: nobody asked.
    pub age: Option<&'a Age>,
}

impl Report<'_> {
    /// The page; an error if it does not fit into 2 MB, whatever is left out.
    pub fn html(&self) -> Result<String, String> {
        page::page(self)
    }

    /// What the page says and draws, for programs.
    pub fn json(&self) -> ReportJson<'_> {
        ReportJson {
            version: ReportJson::VERSION,
            headline: headline::sentences(self).iter().map(Words::plain).collect(),
            table: RunJson::beside(self.run, self.analysis, self.events, self.rivals),
            figures: self.figures,
            rival_curves: self.rival_curves(),
            age: self.age,
        }
    }

    fn rival_curves(&self) -> Vec<RivalCurve<'_>> {
        let mut all = Vec::new();
        for node in self.rivals {
            all.extend(node.methods.iter().map(|method| RivalCurve {
                domain: &node.domain,
                reference: &node.reference,
                method: &method.name,
                points: &method.curve,
            }));
        }
        all
    }

    /// The unit that the page's durations are in.
    fn unit(&self) -> Unit {
        Unit(stage_table::fitting_unit(self.analysis))
    }

    fn name(&self) -> String {
        name(self.run)
    }

    fn directory(&self) -> String {
        directory(self.run)
    }
}

/// The run's name: what its run file calls it, else that of its directory.
fn name(run: &Run) -> String {
    let file = run.manifest().run_file.as_ref().and_then(|text| text.parse::<toml::Table>().ok());
    let named = file.as_ref().and_then(|file| file.get("run")?.get("name")?.as_str());
    named.map_or_else(|| directory(run), Into::into)
}

fn directory(run: &Run) -> String {
    let root = run.root();
    let root = root.canonicalize().unwrap_or_else(|_| root.into());
    root.file_name().map_or_else(|| root.display().to_string(), |name| name.to_string_lossy().into_owned())
}

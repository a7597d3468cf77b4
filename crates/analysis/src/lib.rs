//! From a run's files to what they say: the command, the report and the bindings stand on the same few calls.
//!
//! Idea: [`analyse`] reads manifest, brackets and traces, builds a clock for every point of the layout, and computes each
//! stage's figures with both bounds; [`stage_table`] prints them, [`figures`] are what a page draws. Assumes that the run
//! was joined. Guarantees: nothing is computed twice in two ways; a run that contradicts itself is an error of kind
//! finding, never a smoothed figure. Deliberately absent: options, exit codes, starting anything.
#![forbid(unsafe_code)]

mod analysis;
pub mod cost;
mod domains;
mod error;
pub mod figures;
mod kept;
mod messages;
mod overhead;
mod own_clocks;
mod pass;
mod passages;
mod relating;
mod spans;
pub mod stage_table;
mod terms;
mod truth;
mod typesetting;

pub use analysis::{Analysis, CORES_PROVED, analyse, analyse_with_figures};
pub use error::Error;
pub use kept::durations;
pub use messages::{MessagePair, Passages, Place};
pub use overhead::{Added, FEWEST_PAIRS, added};
pub use own_clocks::{BreakSummary, OwnClockSummary};
pub use passages::{PassageSummary, join};
pub use relating::{RelationSummary, SourceSummary, domain_of, relation_of, run_rho};
pub use spans::{Span, Spanned, Spans, spans};
pub use terms::Terms;
pub use truth::Truth;

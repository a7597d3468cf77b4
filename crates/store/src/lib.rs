//! The run directory: every file of a run is written and read here (`docs/run-format.md`).
//!
//! A run is a directory of ordinary files that any Parquet reader can use while it is still being written. [`Run`]
//! opens one; crate `collect` fills it from the shared memory that programs stamp into.
//!
//! Assumes: one writer for each file. Guarantees: a file appears under its name complete or not at all; what is
//! foreign, torn or of a later version is refused by name and the rest of the run stays readable. Deliberately
//! absent: any computation. Stamps go in as they were taken and come out the same.

mod aside;
mod brackets;
mod channels;
mod codec;
mod cost;
mod counts;
mod digests;
mod error;
mod event_kind;
mod events;
mod intake;
mod integrity;
mod join;
mod kept_ids;
mod kept_stamps;
mod manifest;
mod merge;
mod noise;
mod on_threads;
mod originals;
mod parcel;
mod removal;
mod removed;
mod returns;
mod rivals;
mod run;
mod spool;
mod stamp_groups;
mod stamps;
mod state;
mod stored;
mod sweep;
mod table;
mod traces;
mod whole_file;
mod whole_folder;
mod words;

#[cfg(test)]
mod documents;
#[cfg(test)]
extern crate self as tickscope_store;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;
#[cfg(test)]
mod scratch;

pub use aside::Aside;
pub use brackets::{BracketColumns, BracketRow, BracketSource, read_brackets, write_brackets};
pub use channels::{Channel, ChannelState, read_channels, write_channels};
pub use codec::{Codec, Encoding, EncodingChoice, thread_cpu_ns};
pub use cost::{Compared, Cost, NodeCost, Overhead, Passes, StampCost};
pub use counts::{CountColumns, CountRow, read_counts, write_counts};
pub use digests::{Difference, Digest, DigestList};
pub use error::{Error, Result};
pub use event_kind::EventKind;
pub use events::{Event, breaks, read_events, write_events};
pub use intake::{Intake, Receiving};
pub use integrity::{DIGESTED_AT_EVERY_READING, Examined};
pub use join::{JoinFinding, Joined, join_run};
pub use kept_stamps::{kept_stamps, policy_text};
pub use manifest::{
    Assumption, AssumptionKind, CounterFacts, DeclaredFrequency, DumpRule, Evidence, LimitRule, Manifest, Node, Point,
    PolicyRule, ReadingWidth, RhoDeclaration, RhoKind, SameBoot, Sharing, SinceBoot, window_text,
};
pub use merge::Merge;
pub use noise::{NoiseClass, NoiseColumns, NoiseRow, read_noise, write_noise};
pub use on_threads::on_threads;
pub use originals::Collision;
pub use parcel::Parcel;
pub use removal::RunRemoval;
pub use removed::{Removed, RemovedNote, sweep_removed, unlink};
pub use returns::{ReturnColumns, ReturnRow, read_returns, write_returns};
pub use rivals::{RivalColumns, RivalSample, read_rivals, write_rivals};
pub use run::{Listing, OF_A_RUN, Pair, Paths, Run, Table};
pub use spool::Spool;
pub use stamp_groups::{StampGroup, StampPacker, write_segment_groups};
pub use stamps::{
    BlockRange, ChannelCount, ChannelNewest, GROUP_STAMPS, OpenBlock, Origin, PointStamps, Segment, StampColumns,
    next_segment, part_number, write_segment, write_segment_encoded,
};
pub use state::{RunState, Writing, newest_file, utc};
pub use stored::StoredNote;
pub use sweep::{
    AgeFigure, Measure, ParameterValue, PrintedField, SweepManifest, SweepOrder, SweepParameter, TrialRecord,
    TrialState,
};
pub use table::{Written, guarded};
/// What the rows of channels and events of switches name.
pub use tickscope_stamp::{
    block::Policy,
    policies::{Choice, first_last::NO_MARKER},
    policy::matches,
};
pub use tickscope_trace::{LayoutText, Nullable};
pub use traces::{KeyedReader, KeyedRows, KeyedWriter, rho_folder};
pub use whole_file::{WholeFile, files_in, keyed_folders, make_folders, open_regular, write_whole};
pub use whole_folder::WholeFolder;

/// The version of the run directory that this crate writes, and the latest that it reads.
pub const SCHEMA: u32 = 2;

//! Noise: what the kernel did on a host's cores while the run went on, by its own trace.
//!
//! Ticks are of the host's counter as the kernel read it, under no map; nodes of one boot share them.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::Result;
use crate::table::{Columns, columns, named_values};

columns! {
    /// One thing that lasted on one core.
    row NoiseRow,
    /// What happened on the cores of a node's host as columns, one row each.
    pub columns NoiseColumns {
        /// The core.
        core: i32,
        /// Tick of the host's counter when it began.
        begin: i64,
        /// Tick when it was over; of a fault, which the kernel tells once, its beginning.
        end: i64,
        /// `task`: a task had the core; `interrupt`, `softirq`, `fault`: the task there was interrupted; `recorded`:
        /// all of the core was seen; `lost`: part of that was not; `arrived`: a task came to the core, which nobody
        /// had, at some time from `begin` to `end`.
        class: NoiseClass,
        /// The task's name, the interrupt's or that of the softirq; of what was lost, why.
        what: String,
        /// Thread id of the task that had the core, or was interrupted; 0: nobody's, or not of one.
        thread: i32,
        /// Of a task, how it gave up the core at `end`: 1: it wanted to go on; 0: it waited for something; null: it had
        /// the core still, or that is not known.
        preempted: Option<i32>,
    }
}

/// Classes of what happens on a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum NoiseClass {
    /// A task had the core; thread 0: nobody had it.
    #[default]
    Task,
    /// An interrupt.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A page fault of a program.
    Fault,
    /// Everything was seen there, but for what was lost.
    Recorded,
    /// Something was not seen there: nothing is known of it.
    Lost,
    /// A task came to the core, which nobody had, at some time in between; nobody else did.
    Arrived,
}

impl NoiseClass {
    const NAMES: [(Self, &str); 7] = [
        (Self::Task, "task"),
        (Self::Interrupt, "interrupt"),
        (Self::Softirq, "softirq"),
        (Self::Fault, "fault"),
        (Self::Recorded, "recorded"),
        (Self::Lost, "lost"),
        (Self::Arrived, "arrived"),
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

impl fmt::Display for NoiseClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for NoiseClass {
    type Err = Infallible;

    /// The class of that name; a later version's says that something is not known.
    fn from_str(name: &str) -> std::result::Result<Self, Infallible> {
        Ok(Self::NAMES.iter().find(|(_, known)| *known == name).map_or(Self::Lost, |&(class, _)| class))
    }
}

named_values!(NoiseClass);

impl NoiseColumns {
    /// Adds a row.
    pub fn push(&mut self, row: NoiseRow) {
        self.push_row(row);
    }

    /// The rows in order.
    pub fn rows(self) -> impl Iterator<Item = NoiseRow> {
        self.into_rows()
    }
}

/// Writes `noise` as the file at `place`.
pub fn write_noise(place: &Path, noise: &NoiseColumns) -> Result<()> {
    noise.write(place, &[]).map(|_| ())
}

/// The rows in the file at `place`.
pub fn read_noise(place: &Path) -> Result<NoiseColumns> {
    NoiseColumns::read(place)
}

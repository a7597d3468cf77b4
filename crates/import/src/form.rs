//! What a description says of its tables, checked.

use std::path::PathBuf;

use serde::Deserialize;
use tickscope_store::LayoutText;
use tickscope_tick::{Clock, NameError, NodeName, Ordering, PointName, decimal};

use crate::records::Form;

/// Everything that becomes one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// What the run is told to come from, in words.
    pub from: String,
    pub tables: Vec<Table>,
    pub layout: LayoutText,
    /// Sentences that its figures stand on.
    pub assumptions: Vec<String>,
    /// What else whoever imports it has to know.
    pub notes: Vec<String>,
}

/// One file of stamps of one clock of one node.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub file: PathBuf,
    pub node: NodeName,
    pub clock: ReadClock,
    pub form: Form,
    /// The service whose spans are meant; `None`: all.
    pub service: Option<String>,
    /// Names of its columns, where its first line does not name them.
    pub columns: Option<Vec<String>>,
    pub id: String,
    pub kind: Option<String>,
    pub value: Option<String>,
    pub times: Times,
    pub zero: Zero,
    pub ordering: Ordering,
}

impl Table {
    /// What says which trace a record is of: the columns of id, kind and value, each once.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = vec![self.id.clone()];
        for key in [&self.kind, &self.value].into_iter().flatten() {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        keys
    }

    /// The columns of times.
    pub fn times_wanted(&self) -> Vec<String> {
        match &self.times {
            Times::Of(_, time) | Times::Named { time, .. } => vec![time.clone()],
            Times::Each(points) => points.iter().map(|(_, time)| time.clone()).collect(),
        }
    }

    /// All that records of it are asked for, in this order.
    pub fn columns_wanted(&self) -> Vec<String> {
        let point = match &self.times {
            Times::Named { point, .. } => vec![point.clone()],
            _ => Vec::new(),
        };
        [self.keys(), self.times_wanted(), point].concat()
    }
}

/// A clock whose rate is known no better than that is none: a run refuses it, too.
pub(crate) const MOST_TOLERANCE_PPM: u32 = 100_000;

/// Where the times of a row stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    /// In one column, all of one point.
    Of(PointName, String),
    /// In one column, of the point that another names.
    Named { point: String, time: String },
    /// In a column a point.
    Each(Vec<(PointName, String)>),
}

/// What a time of 0 says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Zero {
    /// That time.
    #[default]
    Time,
    /// That no stamp was taken.
    Missing,
}

/// A clock as a table has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReadClock {
    pub clock: Clock,
    pub unit: Unit,
    /// Ticks a second.
    pub hertz: u64,
    pub tolerance_ppm: u32,
    /// Where these came from.
    pub origin: String,
}

/// The unit of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    Ticks,
    Ns,
    Us,
    Ms,
    S,
}

/// Seconds since the epoch of Unix between which `CLOCK_REALTIME` is believed: 1990 and 2100.
const BELIEVED_S: std::ops::RangeInclusive<i64> = 631_152_000..=4_102_444_800;
const NS_PER_S: i64 = 1_000_000_000;

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Ticks => "ticks",
            Self::Ns => "ns",
            Self::Us => "us",
            Self::Ms => "ms",
            Self::S => "s",
        }
    }

    /// Decimals that a whole tick has in it.
    fn decimals(self) -> usize {
        match self {
            Self::Ticks | Self::Ns => 0,
            Self::Us => 3,
            Self::Ms => 6,
            Self::S => 9,
        }
    }
}

impl ReadClock {
    /// A time in ticks of the clock; `Err`: why it is none.
    /// A time of 0 is one only under `Zero::Time`.
    pub fn read(&self, cell: &str, zero: Zero) -> Result<i64, String> {
        let unit = self.unit.name();
        let steps = match self.unit {
            Unit::Ticks => "whole numbers",
            _ => "decimal numbers of whole nanoseconds",
        };
        let ticks = decimal(cell, self.unit.decimals()).and_then(|ticks| i64::try_from(ticks).ok()).ok_or_else(|| {
            let found = shortened(cell);
            format!(
                "expected a time in {unit}, {steps} from 0 to 2^63 - 1 ticks, found '{found}'. Correct it, or `unit`"
            )
        })?;
        let is_believed = || BELIEVED_S.contains(&(ticks / NS_PER_S));
        if self.clock == Clock::Realtime && (ticks != 0 || zero == Zero::Time) && !is_believed() {
            return Err(format!(
                "expected a time of the clock realtime between 1990 and 2100, found {cell} {unit} since 1970. Correct \
                 `unit`, or `clock`"
            ));
        }
        Ok(ticks)
    }

    /// Refuses a column that says itself that its times are in another unit.
    pub fn expect_unit(&self, column: &str, found: Unit) -> Result<(), String> {
        if self.unit == found {
            return Ok(());
        }
        let (own, found, column) = (self.unit.name(), found.name(), shortened(column));
        Err(format!("expected times in {own} in '{column}', as `unit` says, found {found}. Correct `unit`"))
    }
}

/// What is said of a name that is none.
pub(crate) fn misnamed(why: NameError) -> String {
    format!("expected {}, found '{}'; {}", why.expected, shortened(&why.found), why.remedy)
}

/// The beginning of a cell.
pub(crate) fn shortened(cell: &str) -> String {
    const MOST: usize = 40;
    shortened_to(cell, MOST)
}

/// The first letters of a text.
pub(crate) fn shortened_to(text: &str, most: usize) -> String {
    let beginning: String = text.chars().take(most).collect();
    if beginning.len() < text.len() { format!("{beginning}...") } else { beginning }
}

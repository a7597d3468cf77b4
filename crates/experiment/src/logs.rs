//! Logs of programs that read another clock: what the run file says of one, and its import at the end of a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use tickscope_collect::{LogForm, LogIds, LogPlace, LogPoint, LogRead, LogSyntax, LogUnit, import_log};
use tickscope_store::{EventKind, Node, Run};
use tickscope_tick::{Clock, Domain, NodeName, Ordering, PointName, counted};

use crate::node_plan::NodePlan;

/// A log of a program that read another clock, taken into the run at its end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    pub node: NodeName,
    /// The point, a list of them, or absent where a column names them.
    #[serde(default, deserialize_with = "points")]
    pub point: Vec<PointName>,
    pub file: String,
    pub clock: LogClock,
    /// Readings are ordered against nothing, unless whoever wrote the program knows better.
    #[serde(default = "plain")]
    pub ordering: Ordering,
    /// Names of its columns, where the file does not begin with them.
    pub columns: Option<Vec<String>>,
    /// Unit of its times; absent: nanoseconds.
    pub unit: Option<String>,
    /// How its lines are written; absent: with commas between the cells.
    #[serde(default)]
    pub format: LogFormat,
    /// A pattern whose named groups are the columns.
    pub pattern: Option<String>,
    /// Keys of a JSON object that stand for columns, by column.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// What its ids are.
    #[serde(default)]
    pub ids: LogIdForm,
    /// How coarsely it gives them, such as `1us`; absent: what its readings show.
    pub resolution: Option<String>,
}

/// How the lines of a log are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Commas,
    /// A JSON object a line.
    Json,
    /// The unified log of a JVM.
    Jvm,
}

/// What a log has for ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogIdForm {
    #[default]
    Number,
    Text,
    /// The 32 digits of a `traceparent`.
    Trace,
}

/// The clock that a log's program read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogClock {
    Realtime,
    Monotonic,
    /// The node's counter, in its ticks.
    Counter,
}

fn plain() -> Ordering {
    Ordering::Plain
}

fn points<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PointName>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected the name of a point, or a list of names")]
    enum Names {
        One(PointName),
        List(Vec<PointName>),
    }
    Ok(match Names::deserialize(from)? {
        Names::One(name) => vec![name],
        Names::List(names) => names,
    })
}

/// Outcome of a log's import: what to tell of it, and how coarse its points' readings are.
pub(crate) struct Imported {
    /// What kind of event it is.
    pub what: EventKind,
    /// Stamps that came of it, or lines that are none.
    pub value: u64,
    pub text: String,
    /// Places where pauses may be missing, and what to tell of them; `None`: there are none.
    pub gaps: Option<(u64, String)>,
    /// Points whose readings are coarser than a tick of their clock, and by how many.
    pub coarse: Vec<(PointName, u64)>,
}

impl Log {
    /// Refuses what cannot be read as it says.
    pub fn check(&self, nodes: &[NodePlan]) -> Result<(), String> {
        let Some(node) = nodes.iter().find(|node| node.name == self.node) else {
            let known: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            return Err(format!(
                "[[log]] expected one of the nodes {}, found '{}'. Correct it",
                known.join(", "),
                self.node
            ));
        };
        let wrong = |why: String| format!("[[log]] {}: {why}", self.file);
        self.form().and_then(|form| form.check()).map_err(wrong)?;
        let says_more = !self.point.is_empty() || self.columns.is_some() || self.unit.is_some();
        if self.format == LogFormat::Jvm && (self.clock != LogClock::Monotonic || says_more) {
            let why = "expected clock = \"monotonic\" and no point, columns or unit of a JVM's log, which says them \
                       itself. Correct it";
            return Err(wrong(why.into()));
        }
        if self.clock == LogClock::Counter && (self.unit.is_some() || self.resolution.is_some()) {
            return Err(wrong(
                "expected no unit and no resolution of a counter's ticks, found one. Leave it out".into(),
            ));
        }
        if self.clock == LogClock::Counter && node.inject.is_some() {
            let why = "expected a node whose counter is read as it is, which is what the log's program does, found \
                       inject. Leave it out";
            return Err(wrong(why.into()));
        }
        Ok(())
    }

    fn form(&self) -> Result<LogForm, String> {
        let unit = self.unit.as_deref().unwrap_or("ns");
        let wrong = || format!("expected unit = \"ns\", \"us\", \"ms\" or \"s\", found '{unit}'. Correct it");
        let unit = LogUnit::from_name(unit).ok_or_else(wrong)?;
        let resolution = self.resolution.as_deref().map_or(Ok(0), duration_ns)?;
        let syntax = match (self.format, &self.pattern) {
            (LogFormat::Commas, None) => LogSyntax::Commas,
            (LogFormat::Commas, Some(pattern)) => LogSyntax::Pattern(pattern.clone()),
            (LogFormat::Json, None) => LogSyntax::Json(self.keys.clone()),
            (LogFormat::Jvm, None) => LogSyntax::Jvm,
            (_, Some(_)) => return Err("expected a pattern or a format, found both. Leave one out".into()),
        };
        if self.format != LogFormat::Json && !self.keys.is_empty() {
            return Err("`keys` needs format = \"json\". Add it, or leave `keys` out".into());
        }
        let ids = match self.ids {
            LogIdForm::Number => LogIds::Numbers,
            LogIdForm::Text => LogIds::Texts,
            LogIdForm::Trace => LogIds::Traces,
        };
        Ok(LogForm { points: self.point.clone(), columns: self.columns.clone(), unit, resolution, syntax, ids })
    }

    /// Its file, where the run's directory is `run` and paths start from `folder`.
    pub fn path(&self, run: &str, folder: &Path) -> PathBuf {
        folder.join(self.file.replace("{run}", run))
    }

    /// Where a copy of a log from elsewhere lies until it is imported: the run file's `position`-th.
    pub fn copy(root: &Path, position: usize) -> PathBuf {
        root.join(format!(".log-{position}"))
    }

    /// Takes the log at `file` into the run, as readings of that node.
    pub fn import(&self, run: &Run, node: &Node, file: &Path) -> Imported {
        let counter = match self.clock {
            LogClock::Realtime => Clock::Realtime,
            LogClock::Monotonic => Clock::Monotonic,
            LogClock::Counter => node.counter.counter,
        };
        let place = LogPlace {
            node: self.node.clone(),
            domain: Domain { boot: node.boot, counter, epoch: 0 },
            ordering: self.ordering,
        };
        let width = node.counter.reading.as_ref().map_or(1, |width| width.width_ticks);
        let read = match self.form() {
            Ok(form) => import_log(run, &place, &form, file).map_err(|why| why.to_string()),
            Err(why) => Err(why),
        };
        let refused =
            |value, text| Imported { what: EventKind::LogRefused, value, text, gaps: None, coarse: Vec::new() };
        let read = match read {
            Ok(read) => read,
            Err(why) => return refused(0, why),
        };
        let coarse = |most: u64| {
            let wide =
                read.points.iter().map(|LogPoint { point, resolution, .. }| (point.clone(), resolution.unsigned_abs()));
            wide.filter(move |(_, ticks)| *ticks > most).collect::<Vec<_>>()
        };
        Imported { coarse: coarse(if self.clock == LogClock::Counter { width } else { 1 }), ..self.told(&read, file) }
    }

    fn told(&self, read: &LogRead, file: &Path) -> Imported {
        let (file, node) = (file.display(), &self.node);
        let places: Vec<String> = read.points.iter().map(|point| format!("{node}.{}", point.point)).collect();
        let is_jvm = self.format == LogFormat::Jvm;
        let first_other = read.first_other.as_ref().filter(|_| read.stamps() == 0 && !is_jvm);
        let other = match read.other {
            0 => String::new(),
            _ if is_jvm => String::new(),
            other => format!("; {} of another kind", counted(other, "line")),
        };
        let (what, value, text) = match read.first_refused.as_ref().or(first_other) {
            None => (
                EventKind::Log,
                read.stamps(),
                format!("{} of {file} as {}{other}", counted(read.stamps(), "reading"), places.join(", ")),
            ),
            Some((line, text)) => {
                let columns = &read.columns;
                let text = format!("{file}:{line}: expected {columns}, found '{text}'. Mend what writes it");
                (EventKind::LogRefused, if read.refused > 0 { read.refused } else { read.other }, text)
            }
        };
        let gaps = read.first_gap.map(|line| {
            let text = format!(
                "{file}:{line}: other safepoints may be missing before this one, as at {} of the log: rotated? \
                 (:filecount=0 keeps all)",
                counted(read.gaps, "place")
            );
            (read.gaps, text)
        });
        Imported { what, value, text, gaps, coarse: Vec::new() }
    }
}

/// A length of time such as `1us`, in nanoseconds.
fn duration_ns(text: &str) -> Result<i64, String> {
    let wrong =
        || format!("expected resolution = \"1us\", a whole number of ns, us, ms or s, found '{text}'. Correct it");
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let ns = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let found = number.parse::<i64>().ok().and_then(|number| number.checked_mul(ns));
    found.filter(|ns| *ns > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolution_is_a_whole_number_and_a_unit() {
        assert_eq!([duration_ns("1us"), duration_ns("20 ms"), duration_ns("7ns")], [Ok(1000), Ok(20_000_000), Ok(7)]);
        for wrong in ["1", "us", "1.5us", "0s", "-1ns", "1min", "9999999999999s"] {
            assert!(duration_ns(wrong).unwrap_err().contains("expected resolution"), "{wrong}");
        }
    }
}

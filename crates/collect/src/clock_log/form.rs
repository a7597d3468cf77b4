//! The form of a log: which column holds what, in which unit times are, and which points a line stamps.

use std::collections::BTreeMap;

use tickscope_stamp::id_of;
use tickscope_tick::PointName;

use super::cells;

/// Form of a log, as the run file gives it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogForm {
    /// The points that its readings are stamps of; empty: those that its column `point` names.
    pub points: Vec<PointName>,
    /// Names of its columns; `None`: those of its first line, or `id,time`.
    pub columns: Option<Vec<String>>,
    /// The unit of its times.
    pub unit: LogUnit,
    /// How coarsely it is declared to give its readings, in ticks of its clock; what the readings show counts if that
    /// is coarser.
    pub resolution: i64,
    /// How a line gives its cells.
    pub syntax: LogSyntax,
    /// What its ids are.
    pub ids: LogIds,
}

/// What a log has for ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogIds {
    /// Whole numbers.
    #[default]
    Numbers,
    /// Texts, whose id is that of their bytes.
    Texts,
    /// Traces, as the 32 hexadecimal digits of `traceparent`.
    Traces,
}

impl LogIds {
    pub(super) fn read(self, cell: &str) -> Option<i64> {
        match self {
            Self::Numbers => cell.parse().ok(),
            Self::Texts => (!cell.is_empty()).then(|| id_of(cell)),
            Self::Traces if cell.len() == 32 && cell.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
                Some(id_of(u128::from_str_radix(cell, 16).ok()?.to_be_bytes()))
            }
            Self::Traces => None,
        }
    }
}

/// How a line gives its cells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LogSyntax {
    /// With commas between them.
    #[default]
    Commas,
    /// What the named groups of a pattern match, wherever in the line; each group is a column.
    Pattern(String),
    /// An object of JSON; keys that stand for columns, by column.
    Json(BTreeMap<String, String>),
    /// Safepoints of a JVM's unified log, each a reading of the points `jvm.OPERATION.begin` and `jvm.OPERATION.end`.
    Jvm,
}

/// The unit of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogUnit {
    /// Whole ticks of the clock: nanoseconds, or a counter's.
    #[default]
    Ticks,
    /// Microseconds, with decimals.
    Microseconds,
    /// Milliseconds, with decimals.
    Milliseconds,
    /// Seconds, with decimals.
    Seconds,
}

/// A time that was read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Time {
    /// In ticks of the clock.
    pub ticks: i64,
    /// Where it has decimals that a floating-point number would be printed with: how far such numbers lie apart there,
    /// in ticks.
    pub float_ticks: Option<i64>,
    /// True if it has decimals.
    pub has_decimals: bool,
}

impl LogUnit {
    /// The unit of that name: `ns`, `us`, `ms`, `s`.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [("ns", Self::Ticks), ("us", Self::Microseconds), ("ms", Self::Milliseconds), ("s", Self::Seconds)];
        all.into_iter().find(|(known, _)| *known == name).map(|(_, unit)| unit)
    }

    /// Decimals that a nanosecond has in it.
    fn decimals(self) -> usize {
        match self {
            Self::Ticks => 0,
            Self::Microseconds => 3,
            Self::Milliseconds => 6,
            Self::Seconds => 9,
        }
    }

    /// A time, exactly; `None`: it is none, or finer than a tick.
    pub(super) fn read(self, text: &str) -> Option<Time> {
        let (whole, decimals) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
        let Some(decimals) = decimals else {
            let ticks = whole.parse::<i64>().ok()?.checked_mul(10_i64.pow(self.decimals() as u32))?;
            return Some(Time { ticks, float_ticks: None, has_decimals: false });
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (kept, finer) = decimals.split_at_checked(self.decimals()).unwrap_or((decimals, ""));
        if self == Self::Ticks
            || !digits(decimals)
            || !digits(whole.trim_start_matches('-'))
            || finer.contains(|c| c != '0')
        {
            return None;
        }
        let ticks = format!("{whole}{kept:0<width$}", width = self.decimals()).parse().ok()?;
        Some(Time { ticks, float_ticks: self.float_ticks(text, decimals.len()), has_decimals: true })
    }

    /// Distance of two neighbours among the floating-point numbers of 64 bits, if `text` is how one of them is printed.
    fn float_ticks(self, text: &str, decimals: usize) -> Option<i64> {
        let number: f64 = text.parse().ok()?;
        let printed = format!("{number:.decimals$}") == text;
        let apart = (number.abs().next_up() - number.abs()) * 10_f64.powi(self.decimals() as i32);
        printed.then(|| apart.ceil() as i64)
    }
}

/// Which cells of a line are what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Columns {
    pub names: Vec<String>,
    pub id: usize,
    pub kind: Option<usize>,
    pub value: Option<usize>,
    pub times: Times,
}

/// Where the times of a line stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Times {
    /// One, of the only point.
    One(usize),
    /// One, of the point that another cell names.
    Named { point: usize, time: usize },
    /// One for each point, in their order.
    Each(Vec<usize>),
}

impl LogForm {
    /// Refuses columns that say not which cell is what.
    pub fn check(&self) -> Result<(), String> {
        self.named()?.map_or(Ok(()), |names| self.columns_of(&names).map(drop))
    }

    /// Names of its columns, where its first line need not be looked at.
    pub(super) fn named(&self) -> Result<Option<Vec<String>>, String> {
        let own = |names: &[&str]| names.iter().map(|name| String::from(*name)).collect();
        Ok(match &self.syntax {
            LogSyntax::Pattern(_) if self.columns.is_some() => {
                return Err(
                    "`columns` and `pattern` exclude each other: the pattern's groups name the columns. Leave \
                            `columns` out"
                        .into(),
                );
            }
            LogSyntax::Pattern(pattern) => Some(cells::groups(&cells::pattern(pattern)?)),
            LogSyntax::Json(_) if self.columns.is_none() && self.points.len() == 1 => {
                Some(own(&["id", "time", "kind", "value"]))
            }
            LogSyntax::Json(_) if self.columns.is_none() => Some(own(&["point", "id", "time", "kind", "value"])),
            LogSyntax::Commas | LogSyntax::Json(_) => self.columns.clone(),
            LogSyntax::Jvm => None,
        })
    }

    /// The columns of these names.
    pub(super) fn columns_of(&self, names: &[String]) -> Result<Columns, String> {
        let at = |wanted: &str| names.iter().position(|name| name == wanted);
        let found = names.join(",");
        let id = at("id").ok_or_else(|| format!("expected a column id, found {found}. Name the columns"))?;
        let time = at("time").or_else(|| at("ns").filter(|_| self.unit == LogUnit::Ticks));
        let times = match (at("point"), time, self.points.as_slice()) {
            (Some(point), Some(time), _) => Times::Named { point, time },
            (None, Some(time), [_]) => Times::One(time),
            (None, None, points) if !points.is_empty() => {
                let column = |point: &PointName| {
                    at(point.as_str()).ok_or_else(|| {
                        format!("expected a column time, or one of the name '{point}', found {found}. Name the columns")
                    })
                };
                Times::Each(points.iter().map(column).collect::<Result<_, _>>()?)
            }
            (_, Some(_), _) => {
                return Err(format!(
                    "expected a column point where the log is not of one point, found {found}. Name the columns"
                ));
            }
            _ => return Err(format!("expected a column time, found {found}. Name the columns")),
        };
        Ok(Columns { names: names.to_vec(), id, kind: at("kind"), value: at("value"), times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(unit: LogUnit, text: &str) -> Option<i64> {
        unit.read(text).map(|time| time.ticks)
    }

    #[test]
    fn a_time_is_read_exactly_or_not_at_all() {
        for (unit, text, expected) in [
            (LogUnit::Ticks, "12", Some(12)),
            (LogUnit::Ticks, "12.0", None),
            (LogUnit::Microseconds, "12.345", Some(12_345)),
            (LogUnit::Microseconds, "12.3450", Some(12_345)),
            (LogUnit::Microseconds, "12.3456", None),
            (LogUnit::Milliseconds, "-0.5", Some(-500_000)),
            (LogUnit::Seconds, "1763849123.123456789", Some(1_763_849_123_123_456_789)),
            (LogUnit::Seconds, "5", Some(5_000_000_000)),
            (LogUnit::Seconds, "1e3", None),
            (LogUnit::Seconds, "1.", None),
            (LogUnit::Seconds, ".5", None),
            (LogUnit::Seconds, "9999999999999", None),
            (LogUnit::Seconds, "1.é", None),
        ] {
            assert_eq!(ticks(unit, text), expected, "{text}");
        }
    }

    #[test]
    fn decimals_that_a_floating_point_number_is_printed_with_are_told_from_exact_ones() {
        let float = |text: &str| LogUnit::Seconds.read(text).unwrap().float_ticks;
        assert_eq!(float("1763849123.1234567"), Some(239), "printed shortest by Python");
        assert_eq!(float("1763849123.123456717"), Some(239), "all nine decimals of the same number");
        assert_eq!(float("1763849123.123456789"), None, "no such number");
        assert_eq!(float("12.345"), Some(1));
    }

    #[test]
    fn columns_say_which_cell_is_what() {
        let names = |text: &str| text.split(',').map(String::from).collect::<Vec<_>>();
        let form = |points: &[&str]| LogForm {
            points: points.iter().map(|name| PointName::new(*name).unwrap()).collect(),
            ..LogForm::default()
        };
        let times = |points: &[&str], text: &str| form(points).columns_of(&names(text)).map(|columns| columns.times);
        assert_eq!(times(&["a"], "id,time"), Ok(Times::One(1)));
        assert_eq!(times(&["a"], "status,ns,id"), Ok(Times::One(1)));
        assert_eq!(times(&[], "point,id,time"), Ok(Times::Named { point: 0, time: 2 }));
        assert_eq!(times(&["b", "a"], "id,a,b"), Ok(Times::Each(vec![2, 1])));
        for (points, text) in
            [(&["a"] as &[&str], "time"), (&[], "id,time"), (&["a", "b"], "id,time"), (&["a"], "id,b")]
        {
            assert!(times(points, text).unwrap_err().contains("expected a column"), "{text}");
        }
        let in_seconds = LogForm { unit: LogUnit::Seconds, ..form(&["a"]) };
        assert!(in_seconds.columns_of(&names("id,ns")).is_err());
    }
}

//! OpenMetrics text (<https://openmetrics.io>, version 1.0.0): each stage's quantiles with both ends, its bounds, its
//! traces by outcome, and what all of it rests on.
//!
//! Guarantees: ends in seconds are outward, as a decimal and as the double that a reader makes of it; every sample
//! carries the run and the time of its end. Deliberately absent: histograms, whose buckets would count durations that
//! may lie in the next one.

use std::fmt::Display;
use std::io::Write;

use tickscope_analysis::{Analysis, Error, Outcome, Part, Piece, Scan, Sink};
use tickscope_tick::Unit;
use tickscope_trace::{QuantileBounds, StageRow};

use crate::about::{About, Exported, Tally};
use crate::output::Output;

/// Decimals of a second.
const DECIMALS: u32 = 12;

/// Writes the figures of all stages; `analysis` has their quantiles. `place` names `out` in errors.
pub fn write_openmetrics(
    scan: &Scan,
    analysis: &Analysis,
    about: &About,
    out: impl Write,
    place: &str,
) -> Result<Exported, Error> {
    let mut counted = Counted(Tally::of(scan.layout()));
    scan.over(&mut counted)?;
    let tally = counted.0;
    let mut text = Metrics { text: String::new(), about };
    text.run();
    text.durations(&analysis.rows, Unit::seconds(scan.hertz(), DECIMALS));
    text.bounds(&analysis.rows, Unit::seconds(scan.hertz(), DECIMALS));
    text.traces(&analysis.rows, &tally);
    text.standing();
    let mut output = Output { out, format: "metrics", place };
    output.put(text.text.as_bytes())?;
    output.finish()?;
    let left_out = tally.without_a_duration(scan.layout());
    Ok(Exported { outcomes: tally.outcomes(), left_out, notes: Vec::new() })
}

/// The text as far as it is written.
struct Metrics<'a> {
    text: String,
    about: &'a About,
}

impl Metrics<'_> {
    /// Begins the samples of one name.
    fn family(&mut self, name: &str, form: &str, help: &str) {
        self.text += &format!("# TYPE {name} {form}\n");
        if name.ends_with("_seconds") {
            self.text += &format!("# UNIT {name} seconds\n");
        }
        self.text += &format!("# HELP {name} {help}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let run = [("run", self.about.run.as_str())];
        let labels = run.iter().chain(labels).map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let ms = self.about.last_unix_ms();
        self.text += &format!("{name}{{{labels}}} {value} {}.{:03}\n", ms.div_euclid(1000), ms.rem_euclid(1000));
    }

    fn run(&mut self) {
        self.family("tickscope_run", "info", "The run, and the counter that its durations are expressed in.");
        let reference = self.about.reference.clone();
        self.sample("tickscope_run_info", &[("reference", &reference)], 1);
    }

    fn durations(&mut self, rows: &[StageRow], unit: Unit) {
        let name = "tickscope_stage_duration_seconds";
        self.family(name, "gauge", "A statistic of a stage: the true one lies from lo to hi.");
        for row in rows {
            let all = [("p50", row.p50), ("p99", row.p99), ("p99.9", row.p999), ("max", row.max), ("mean", row.mean)];
            for (statistic, value) in all.into_iter().filter_map(|(name, value)| Some((name, value?))) {
                let QuantileBounds { estimate, lo, hi } = value;
                let ends =
                    [("lo", unit.float_down(lo)), ("estimate", unit.float_near(estimate)), ("hi", unit.float_up(hi))];
                for (end, seconds) in ends {
                    let labels = [("stage", row.name.as_str()), ("statistic", statistic), ("end", end)];
                    self.sample(name, &labels, seconds);
                }
            }
        }
    }

    fn bounds(&mut self, rows: &[StageRow], unit: Unit) {
        let name = "tickscope_stage_common_bound_seconds";
        self.family(name, "gauge", "How far all durations of a stage may be shifted together.");
        for row in rows.iter().filter(|row| row.count > 0) {
            for (side, ticks) in [("below", row.common.below_ticks), ("above", row.common.above_ticks)] {
                let seconds = unit.float_up(ticks);
                self.sample(name, &[("stage", &row.name), ("side", side)], seconds);
            }
        }
        let name = "tickscope_stage_relative_bound_seconds";
        self.family(name, "gauge", "How far any two durations of a stage may be wrong against each other.");
        for row in rows.iter().filter(|row| row.count > 0) {
            let seconds = unit.float_up(row.relative_ticks);
            self.sample(name, &[("stage", &row.name)], seconds);
        }
    }

    fn traces(&mut self, rows: &[StageRow], tally: &Tally) {
        let name = "tickscope_stage_traces";
        self.family(name, "gauge", "Traces of a stage by outcome; those without a duration are in no statistic.");
        for (row, counts) in rows.iter().zip(&tally.stages) {
            for outcome in Outcome::ALL {
                let labels = [("stage", row.name.as_str()), ("outcome", outcome.name())];
                self.sample(name, &labels, counts[outcome as usize]);
            }
        }
    }

    fn standing(&mut self) {
        let about = self.about;
        let count = "How many findings contradict the figures.";
        self.family("tickscope_findings", "gauge", count);
        self.sample("tickscope_findings", &[], about.findings.len());
        let all = [
            ("tickscope_finding", "What contradicts the figures.", &about.findings),
            ("tickscope_assumption", "What the figures rest on.", &about.assumptions),
        ];
        for (name, help, lines) in all {
            self.family(name, "info", help);
            for (number, line) in (1..).zip(lines) {
                self.sample(&format!("{name}_info"), &[("number", &format!("{number}")), ("text", line)], 1);
            }
        }
        self.text += "# EOF\n";
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Outcomes, counted.
struct Counted(Tally);

impl Sink for Counted {
    type Part = Self;

    fn part(&self) -> Self {
        Self(Tally { stages: vec![Default::default(); self.0.stages.len()] })
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.0.merge(&part.0);
        Ok(())
    }
}

impl Part for Counted {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        for row in 0..piece.traces.len() {
            (0..self.0.stages.len()).for_each(|stage| self.0.note(stage, piece.outcome(stage, row).0));
        }
        Ok(())
    }
}

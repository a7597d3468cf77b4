//! A log of HdrHistogram (<http://hdrhistogram.org>), version 1.3: a tagged histogram of every stage's lower ends, of
//! its estimates and of its upper ends, in nanoseconds.
//!
//! Idea: a bucket holds several values, and readers take the lowest, the middle or the highest of them. A lower end is
//! counted in the highest bucket that holds no value above it, an upper end in the lowest that holds none below: so
//! every quantile that any reader finds is outward.
//!
//! Guarantees: memory does not grow with the run; a histogram that could not hold all of its stage's values, since one
//! lies below zero, is left out whole and counted: quantiles of the others would be no bound. Deliberately absent:
//! compression, which the format wants as a zlib stream: blocks are stored as they are.

mod histogram;

use std::io::Write;

use tickscope_analysis::{Error, Outcome, Part, Piece, Scan, Sink};
use tickscope_tick::{Decimal, Unit};
use tickscope_trace::Layout;

use crate::about::{About, Exported, LeftOut, Tally};
use crate::output::Output;
use histogram::{Histogram, Reading};

/// Ends of durations: the tag of their histogram, how they go into buckets, and why some are left out.
const ENDS: [(&str, Reading, &str); 3] = [
    ("lo", Reading::Below, "lower ends: some lie below 0, which no histogram holds"),
    ("estimate", Reading::Within, "estimates: some lie below 0, which no histogram holds"),
    ("hi", Reading::Above, "upper ends: some lie below 0, which no histogram holds"),
];
const MS_PER_S: i64 = 1000;

/// Writes three histograms a stage. `place` names `out` in errors.
pub fn write_hdr(scan: &Scan, about: &About, out: impl Write, place: &str) -> Result<Exported, Error> {
    let mut all = Histograms::none(scan.layout(), Unit::nanoseconds(scan.hertz(), 0));
    scan.over(&mut all)?;
    let mut left_out = all.tally.without_a_duration(scan.layout());
    let mut output = Output { out, format: "histogram log", place };
    output.put(head(about).as_bytes())?;
    let length_ms = about.last_unix_ms().saturating_sub(about.started_unix_ms).max(0);
    for (stage, histograms) in scan.layout().stages().iter().zip(&all.stages) {
        for (histogram, (end, _, why)) in histograms.iter().zip(ENDS) {
            if histogram.unheld > 0 {
                left_out.push(LeftOut { stage: stage.name.clone(), count: histogram.total(), why });
            } else if histogram.total() > 0 {
                let (tag, length) = (format!("{}/{end}", stage.name.replace(' ', "_")), seconds(length_ms));
                let (max, text) = (histogram.max_ms(), histogram.text());
                output.put(format!("Tag={tag},0.000,{length},{max},{text}\n").as_bytes())?;
            }
        }
    }
    output.finish()?;
    let notes = vec![format!("values in ns; {} comments hold what they rest on", about.assumptions.len())];
    Ok(Exported { outcomes: all.tally.outcomes(), left_out, notes })
}

/// The comments of the log.
fn head(about: &About) -> String {
    let mut text = String::from("#[Histogram log format version 1.3]\n");
    let started = seconds(about.started_unix_ms);
    text += &format!("#[Run {} of tickscope: durations in ns by {}]\n", about.run, about.reference);
    text += "#[Tag STAGE/lo: lower ends; STAGE/estimate: estimates; STAGE/hi: upper ends; the true quantile is \
             between]\n";
    let comments = about.assumptions.iter().map(|line| ("Assumption", line));
    for (what, line) in comments.chain(about.findings.iter().map(|line| ("Finding", line))) {
        text += &format!("#[{what}: {}]\n", line.replace(['\n', '\r'], " "));
    }
    text += &format!("#[StartTime: {started} (seconds since epoch)]\n#[BaseTime: {started} (seconds since epoch)]\n");
    text + "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
}

fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(MS_PER_S), ms.rem_euclid(MS_PER_S))
}

/// The histograms of all stages: of lower ends, estimates, upper ends.
struct Histograms {
    stages: Vec<[Histogram; 3]>,
    tally: Tally,
    unit: Unit,
}

impl Histograms {
    fn none(layout: &Layout, unit: Unit) -> Self {
        let stages = layout.stages().iter().map(|_| Default::default()).collect();
        Self { stages, tally: Tally::of(layout), unit }
    }
}

impl Sink for Histograms {
    type Part = Self;

    fn part(&self) -> Self {
        let tally = Tally { stages: vec![Default::default(); self.stages.len()] };
        Self { stages: self.stages.iter().map(|_| Default::default()).collect(), tally, unit: self.unit }
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        for (all, more) in self.stages.iter_mut().zip(&part.stages) {
            all.iter_mut().zip(more).for_each(|(all, more)| all.merge(more));
        }
        self.tally.merge(&part.tally);
        Ok(())
    }
}

impl Part for Histograms {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let unit = self.unit;
        for row in 0..piece.traces.len() {
            for (stage, histograms) in self.stages.iter_mut().enumerate() {
                let (outcome, span) = piece.outcome(stage, row);
                self.tally.note(stage, outcome);
                let (Outcome::Measured | Outcome::Impossible, Some(span)) = (outcome, span) else { continue };
                let ends = [unit.down(span.lo), unit.near(span.estimate), unit.up(span.hi)];
                for ((histogram, end), (_, reading, _)) in
                    histograms.iter_mut().zip(ends.map(Decimal::digits)).zip(ENDS)
                {
                    histogram.count(end, reading);
                }
            }
        }
        Ok(())
    }
}

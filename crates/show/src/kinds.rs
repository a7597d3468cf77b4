//! How often each stage took how long, kinds of ids apart: a row a kind.
//!
//! Guarantees: each row says how many durations it is of and between what its median lies. Deliberately absent: runs of
//! one kind, whose histogram is the one of all.

use tickscope_analysis::figures::{KindDurations, KindStage, Kinds, LengthBin, MOST_KINDS};
use tickscope_tick::Unit as Ticks;

use crate::drawn_figure::DrawnFigure;
use crate::plot::{Axis, Figure, Ink, Room, Row};
use crate::quantity::{Unit, count};
use crate::transfers::density;

/// Its name for files.
pub(crate) const NAME: &str = "kinds";
/// Kinds that are drawn of a stage, at most.
const MOST_ROWS: usize = 12;
const ROW: f64 = 30.0;

/// A drawing a stage, the whole first. `Err`: why there is none, though there are several kinds; `None`: there is one.
pub(crate) fn figure(all: &Kinds, hertz: u64, room: Room) -> Option<Result<DrawnFigure, String>> {
    if all.too_many {
        return Some(Err(format!("no durations by kind: ids are of more than {MOST_KINDS} kinds")));
    }
    let several: Vec<&KindStage> = all.stages.iter().filter(|stage| stage.kinds.len() > 1).collect();
    let most = several.iter().map(|stage| stage.kinds.len()).max()?;
    let drawings = several.iter().map(|stage| rows(stage, hertz, room)).collect();
    let more = match most > MOST_ROWS {
        true => format!(" The {MOST_ROWS} most frequent kinds of {most} are drawn."),
        false => String::new(),
    };
    let caption = format!(
        "Share of the durations for each factor of two, each row up to its own highest, by estimates; the median with \
         what the clocks leave open of it.{more}"
    );
    Some(Ok(DrawnFigure::of(NAME, "How often each stage took how long, by kind of ids".into(), caption, drawings)))
}

fn rows(stage: &KindStage, hertz: u64, room: Room) -> Figure {
    let ns = |ticks: i64| ticks as f64 * 1e9 / hertz.max(1) as f64;
    let shown: Vec<&KindDurations> = stage.kinds.iter().take(MOST_ROWS).collect();
    let longest = shown.iter().map(|of| of.median_ticks.hi).max().unwrap_or(0);
    let unit = Unit(Ticks::for_durations_up_to(hertz.max(1), longest));
    let name = |of: &&KindDurations| {
        let median = of.median_ticks;
        let (p50, open) = (unit.near(median.estimate), unit.interval(median.lo, median.hi));
        let nothing: u64 = of.shape.iter().filter(|bin| bin.to <= 0).map(|bin| bin.count).sum();
        let nothing = if nothing > 0 { format!(", {} not above 0", count(nothing)) } else { String::new() };
        format!("kind {}, n {}: p50 {p50} {} {open}{nothing}", of.kind, count(of.count), unit.name())
    };
    let names: Vec<String> = shown.iter().map(name).collect();
    let ends = shown.iter().flat_map(|of| [of.shape.first(), of.shape.last()]).flatten();
    let axis = Axis::of_durations(ends.flat_map(|LengthBin { from, to, .. }| [(*from).max(1), *to].map(ns)));
    let mut figure = Figure::rows(axis.named(&stage.stage), &names, ROW, room);
    for (number, of) in shown.iter().enumerate() {
        let (points, most) = density(&of.shape, ns);
        figure.profile(&points, (most, ROW - 4.0), Row { number, shift: 0.0 }, Ink::of(0));
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_analysis::figures::Bounded;

    fn kinds(kinds: i32) -> Kinds {
        let of = |kind: i32| KindDurations {
            kind,
            count: 1_234,
            median_ticks: Bounded { estimate: 5_000, lo: 4_000, hi: 6_001 },
            shape: vec![LengthBin { from: 4_900, to: 5_100, count: 1_234 }],
        };
        let stage = KindStage { stage: "end-to-end".into(), is_whole: true, kinds: (0..kinds).map(of).collect() };
        Kinds { too_many: false, stages: vec![stage] }
    }

    #[test]
    fn kinds_stand_apart_where_there_are_several_and_too_many_are_a_sentence() {
        assert!(figure(&kinds(1), 1_000_000_000, Room::Wide).is_none());
        let drawn = figure(&kinds(30), 1_000_000_000, Room::Wide).unwrap().unwrap();
        let svg = drawn.svg();
        assert!(svg.contains("kind 11, n 1") && !svg.contains("kind 12,"), "{svg}");
        assert!(drawn.caption.contains("The 12 most frequent kinds of 30 are drawn."), "{}", drawn.caption);
        let none = figure(&Kinds { too_many: true, stages: Vec::new() }, 1, Room::Wide).unwrap();
        assert!(none.is_err_and(|why| why.contains("more than 64 kinds")));
    }
}

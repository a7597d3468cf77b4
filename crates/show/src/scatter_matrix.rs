//! X-Lap's scatter matrix: below the diagonal each stage against each other, above it their coefficients.
//!
//! Guarantees: every cell says how many traces its coefficients are of; stages, kinds and traces that are not drawn are
//! counted in the caption. Deliberately absent: computing (`tickscope_analysis::ScatterMatrix`).

use std::fmt::Write;

use tickscope_analysis::{Correlation, KindPoints, ScatterMatrix};

use crate::drawn_figure::{Drawing, DrawnFigure};
use crate::plot::{Axis, Ink, Room, short, shortened};
use crate::text::Text;

/// Width of the whole in a wide and in a narrow place, pixels.
const WIDTHS: [f64; 2] = [860.0, 340.0];
/// No cell is wider.
const WIDEST: f64 = 172.0;
/// Stages besides the whole that a narrow place has room for.
const MOST_NARROW: usize = 4;
/// A cell this wide has room for the coefficients of each kind too.
const ROOM_FOR_KINDS: f64 = 100.0;
const LETTER: f64 = 6.2;
const LINE: f64 = 13.0;
const PAD: f64 = 5.0;

/// The matrix as one drawing.
pub(crate) fn figure(matrix: &ScatterMatrix, hertz: u64, room: Room) -> DrawnFigure {
    let drawn = Drawn::of(matrix, hertz, room);
    let drawing = drawn.drawing(TITLE);
    DrawnFigure::of_drawings("pairs", TITLE.into(), drawn.caption(), vec![drawing])
}

const TITLE: &str = "Each stage against each other";

struct Drawn<'a> {
    matrix: &'a ScatterMatrix,
    /// Stages that are drawn, by their index in the matrix.
    stages: Vec<usize>,
    axes: Vec<Axis>,
    hertz: u64,
    cell: f64,
}

impl<'a> Drawn<'a> {
    fn of(matrix: &'a ScatterMatrix, hertz: u64, room: Room) -> Self {
        let whole = matrix.stages.len().saturating_sub(1);
        let (width, most) = match room {
            Room::Wide => (WIDTHS[0], whole),
            Room::Narrow => (WIDTHS[1], MOST_NARROW),
        };
        let stages: Vec<usize> = (0..=whole).filter(|&at| at < most || at == whole).collect();
        let cell = (width / stages.len() as f64).min(WIDEST);
        let values = |stage: usize| {
            let points = matrix.kinds.iter().flat_map(drawn);
            points.map(|point| nanoseconds(point[stage], hertz)).collect::<Vec<f64>>()
        };
        let axes = stages.iter().map(|&stage| axis(&values(stage))).collect();
        Self { matrix, stages, axes, hertz, cell }
    }

    fn drawing(&self, words: &str) -> Drawing {
        let side = self.cell * self.stages.len() as f64;
        let mut inside = String::new();
        for row in 0..self.stages.len() {
            for column in 0..self.stages.len() {
                let at = [column as f64 * self.cell, row as f64 * self.cell];
                self.frame(&mut inside, at);
                match row.cmp(&column) {
                    std::cmp::Ordering::Equal => self.name(&mut inside, row, at),
                    std::cmp::Ordering::Greater => self.dots(&mut inside, [column, row], at),
                    std::cmp::Ordering::Less => self.coefficients(&mut inside, [row, column], at),
                }
            }
        }
        let svg = format!(
            "<svg viewBox=\"-1 -1 {0:.0} {0:.0}\" role=\"img\" aria-label=\"{1}\" \
             style=\"max-width:{0:.0}px;width:100%\">{inside}</svg>",
            side + 2.0,
            Text(words)
        );
        Drawing { size: [side + 2.0; 2], svg }
    }

    fn frame(&self, svg: &mut String, [x, y]: [f64; 2]) {
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{0:.1}\" height=\"{0:.1}\" \
             style=\"fill:none;stroke:var(--rule)\"/>",
            self.cell
        );
    }

    /// Name and reach of a stage, in its cell of the diagonal.
    fn name(&self, svg: &mut String, at: usize, [x, y]: [f64; 2]) {
        let axis = &self.axes[at];
        let name = &self.matrix.stages[self.stages[at]];
        let letters = ((self.cell - 2.0 * PAD) / LETTER) as usize;
        let mut lines = vec![number(at, self.stages.len())];
        lines.extend(if self.cell >= ROOM_FOR_KINDS { halves(name, letters) } else { Vec::new() });
        lines.extend([short(axis.ends()[0]), format!("to {}", short(axis.ends()[1]))]);
        lines.extend(axis.is_logarithmic().then(|| "log".to_string()));
        for (line, text) in lines.iter().enumerate() {
            self.line(svg, [x, y], line, &shortened(text, letters.max(3)), if line == 0 { "ink" } else { "muted" });
        }
    }

    fn coefficients(&self, svg: &mut String, [first, second]: [usize; 2], at: [f64; 2]) {
        let stages = [self.stages[first], self.stages[second]];
        let Some(cell) = self.matrix.cells.iter().find(|cell| cell.stages == stages) else { return };
        for (line, text) in told(&cell.all).into_iter().enumerate() {
            self.line(svg, at, line, &text, "ink");
        }
        if self.cell < ROOM_FOR_KINDS {
            return;
        }
        for (number, of) in cell.by_kind.iter().enumerate() {
            let [pearson, spearman, _] = told(of);
            self.line(svg, at, 4 + number, &format!("{pearson} {spearman}"), Ink::of(number).name());
        }
    }

    fn line(&self, svg: &mut String, [x, y]: [f64; 2], line: usize, text: &str, colour: &str) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" style=\"fill:var(--{colour});font-size:11px\">{}</text>",
            x + PAD,
            y + PAD + (line as f64 + 0.75) * LINE,
            Text(text)
        );
    }

    /// One stage to the right, the other upward; kinds by colour.
    fn dots(&self, svg: &mut String, [x, y]: [usize; 2], at: [f64; 2]) {
        let room = self.cell - 2.0 * PAD;
        let place = |point: &[i64]| {
            let share = |of: usize| self.axes[of].share(nanoseconds(point[self.stages[of]], self.hertz));
            [at[0] + PAD + share(x) * room, at[1] + self.cell - PAD - share(y) * room]
        };
        for (number, kind) in self.matrix.kinds.iter().enumerate() {
            let dot = |[x, y]: [f64; 2]| format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.3\"/>");
            let dots: String = drawn(kind).map(|point| dot(place(point))).collect();
            let _ = write!(svg, "<g style=\"fill:var(--{})\" fill-opacity=\"0.6\">{dots}</g>", Ink::of(number).name());
        }
    }

    fn caption(&self) -> String {
        let ScatterMatrix { traces, left_out, stages, more_stages, kinds, more_kinds, cells } = self.matrix;
        let names = stages.iter().enumerate().map(|(at, name)| format!("{} {name}", number(at, stages.len())));
        let compared = cells.first().map_or(0, |cell| cell.all.count);
        let part = if compared < *traces { format!(", coefficients of {compared} of them") } else { String::new() };
        let longer = match more_stages {
            0 => String::new(),
            more => format!(" {more} further stages are not paired."),
        };
        let narrow = if stages.len() > MOST_NARROW + 1 {
            format!(" On a narrow screen the first {MOST_NARROW} and the whole are drawn.")
        } else {
            String::new()
        };
        format!(
            "{}. Below the diagonal a dot is a trace, the stage of the column to the right, that of the row upward, \
             each between the ends in its own cell of the diagonal; above it Pearson r, Spearman s and the number of \
             traces n. Traces with every stage: {traces}, {left_out} lack one and are in no \
             cell{part}.{longer}{}{narrow} Of estimates: neighbours share a stamp, and with it its error.",
            names.collect::<Vec<_>>().join(", "),
            kinds_told(kinds.iter().map(|kind| (kind.kind, kind.traces, drawn(kind).count())), *more_kinds)
        )
    }
}

/// Which colour is which kind, and how many of its traces are drawn.
fn kinds_told(kinds: impl ExactSizeIterator<Item = (i32, usize, usize)>, (more, traces): (usize, usize)) -> String {
    const COLOURS: [&str; 3] = ["blue", "brown", "green"];
    let several = kinds.len() > 1 || more > 0;
    let kind = |((kind, traces, drawn), colour): ((i32, usize, usize), &str)| match several {
        true => format!("kind {kind} ({colour}), {drawn} dots of {traces} traces"),
        false => format!("{drawn} dots of {traces} traces, all of kind {kind}"),
    };
    let told: Vec<String> = kinds.zip(COLOURS).map(kind).collect();
    let others = match more {
        0 => String::new(),
        1 => format!("; one further kind, {traces} traces, is in n alone"),
        _ => format!("; {more} further kinds, {traces} traces, are in n alone"),
    };
    if told.is_empty() {
        return String::new();
    }
    format!(" Drawn, evenly from all and the longest of each stage: {}{others}.", told.join("; "))
}

/// The traces of a kind that are drawn: some, and those in which a stage took longest.
fn drawn(kind: &KindPoints) -> impl Iterator<Item = &Vec<i64>> {
    kind.points_ticks.iter().chain(kind.longest_ticks.iter().filter(|point| !kind.points_ticks.contains(point)))
}

fn nanoseconds(ticks: i64, hertz: u64) -> f64 {
    ticks as f64 * 1e9 / hertz.max(1) as f64
}

/// By powers of ten where one value would flatten the others, else between the least and the greatest.
fn axis(values: &[f64]) -> Axis {
    let by_spread = Axis::of_durations_by_spread(values.iter().copied());
    if by_spread.is_logarithmic() { by_spread } else { Axis::around(values.iter().copied(), short) }
}

/// What a stage is called on the diagonal.
fn number(at: usize, all: usize) -> String {
    if at + 1 == all { "whole".into() } else { format!("{}", at + 1) }
}

/// A name in two lines of so many letters.
fn halves(name: &str, letters: usize) -> Vec<String> {
    match name.split_once('>') {
        Some((from, to)) => vec![shortened(from, letters), shortened(&format!("\u{2192} {to}"), letters)],
        None => vec![shortened(name, letters)],
    }
}

fn told(of: &Correlation) -> [String; 3] {
    let coefficient = |value: Option<f64>| match value.map(|value| format!("{value:.2}")) {
        Some(nothing) if nothing == "-0.00" => "0.00".into(),
        Some(number) => number,
        None => "none".into(),
    };
    [format!("r {}", coefficient(of.pearson)), format!("s {}", coefficient(of.spearman)), format!("n {}", of.count)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_analysis::PairCell;

    fn matrix(stages: usize, kinds: &[i32]) -> ScatterMatrix {
        let names = (0..stages).map(|at| format!("a.{at}>a<{at}")).chain(["end-to-end".into()]);
        let pairs = (0..=stages).flat_map(|first| (first + 1..=stages).map(move |second| [first, second]));
        let of = |count| Correlation { count, pearson: Some(0.25), spearman: None };
        let kind = |&kind: &i32| KindPoints {
            kind,
            traces: 40,
            points_ticks: vec![vec![5; stages + 1]],
            longest_ticks: vec![vec![5; stages + 1], vec![9; stages + 1]],
        };
        ScatterMatrix {
            traces: 90,
            left_out: 11,
            stages: names.collect(),
            more_stages: 3,
            kinds: kinds.iter().map(kind).collect(),
            more_kinds: (2, 10),
            cells: pairs
                .map(|stages| PairCell { stages, all: of(80), by_kind: kinds.iter().map(|_| of(33)).collect() })
                .collect(),
        }
    }

    #[test]
    fn each_pair_has_a_cell_of_dots_and_one_of_coefficients() {
        let found = figure(&matrix(3, &[4, 7]), 1_000_000_000, Room::Wide);
        let svg = found.svg();
        assert_eq!((svg.matches(">r 0.25<").count(), svg.matches(">n 80<").count()), (6, 6));
        assert_eq!(svg.matches(">r 0.25 s none<").count(), 12, "of each of two kinds");
        assert_eq!(svg.matches("<circle").count(), 6 * 4);
        assert!(svg.contains("a&lt;0") && !svg.contains("a<0") && found.pdf().unwrap().starts_with(b"%PDF-"));
    }

    #[test]
    fn the_caption_counts_what_is_in_no_cell() {
        let caption = figure(&matrix(3, &[4, 7]), 1_000_000_000, Room::Wide).caption;
        for words in [
            "1 a.0>a<0, 2 ",
            "every stage: 90, 11 lack one and are in no cell, coefficients of 80 of them. 3 further stages",
            "kind 4 (blue), 2 dots of 40 traces; kind 7 (brown), 2 dots of 40 traces; 2 further kinds, 10 traces, are",
        ] {
            assert!(caption.contains(words), "{caption}");
        }
    }

    #[test]
    fn a_narrow_place_has_the_first_stages_and_the_whole() {
        let svg = figure(&matrix(12, &[0]), 1_000_000_000, Room::Narrow).svg();
        assert_eq!((svg.matches(">r 0.25<").count(), svg.matches(">whole<").count()), (10, 1));
        let wide = figure(&matrix(12, &[0]), 1_000_000_000, Room::Wide).svg();
        assert_eq!(wide.matches(">r 0.25<").count(), 13 * 12 / 2);
    }
}

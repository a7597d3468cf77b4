//! X-Lap's figures of any run: a trace, the jitter of each stage, what causes it, how each goes with the whole and with
//! each other, and how often it took how long; on the page, and each in a file of its own.
//!
//! Guarantees: each says its unit, how many traces it is of, and what is drawn of how many; a figure of nothing is a
//! sentence. Deliberately absent: computing (`tickscope_analysis::jitter`).

use tickscope_analysis::figures::{DrawnTrace, Figures, Kinds, StageHistogram, Traffic, Transfer};
use tickscope_analysis::{Fit, Jitter, JitterBox, OverTime, ScatterMatrix, StageJitter, TimeWindow, Trend};
use tickscope_rivals::NodeRivals;
use tickscope_tick::Unit as Ticks;

use crate::clock_errors::clock_figures;
use crate::document::Block;
use crate::drawn_figure::DrawnFigure;
use crate::headline::sentence;
use crate::plot::{Axis, Figure, Ink, Room, Row, short};
use crate::quantity::Unit;
use crate::{histograms, kinds, scatter_matrix, traffic, transfers};

/// Stages that are drawn, at most; a path of more is told so.
pub(crate) const MOST_STAGES: usize = 12;
/// Points of a scatter plot and outliers of a box on a page, which is to stay small.
const PAGE_POINTS: usize = 60;
const PAGE_OUTLIERS: usize = 16;
/// Points of all cells of the scatter matrix on a page.
const PAGE_DOTS: usize = 200;

/// In the place of the figures of places and kinds, where a page has no room.
const NO_PLACES: &str = "This page has no room for durations by how far apart the points ran and by kind, stamps over \
                         the run and where each point ran: tickscope figures draws them as files.";

/// A run's path as X-Lap draws it.
pub struct XLap<'a> {
    /// Its jitter.
    pub jitter: &'a Jitter,
    /// A typical trace; `None`: no trace is whole.
    pub typical: Option<&'a DrawnTrace>,
    /// Ticks of the reference a second.
    pub hertz: u64,
    /// The stages of the layout by name, with the points between which each lies.
    pub stages: Vec<(String, [usize; 2])>,
    /// The whole while the run went on; `None`: nothing says when traces began.
    pub over_time: Option<&'a OverTime>,
    /// How often each stage took how long.
    pub histograms: &'a [StageHistogram],
    /// How the stages go with each other.
    pub scatter_matrix: &'a ScatterMatrix,
    /// How long it took from point to point, by how far apart the two ran.
    pub transfers: &'a [Transfer],
    /// Where the points ran, and their stamps over time.
    pub traffic: &'a Traffic,
    /// How long each stage took, kinds apart.
    pub kinds: &'a Kinds,
    /// Draw the last three.
    pub(crate) places: bool,
}

impl<'a> XLap<'a> {
    /// The plot of what a page draws.
    pub fn of(figures: &'a Figures, hertz: u64) -> Self {
        let stages = figures.stages.iter().filter(|stage| stage.role != "end-to-end");
        let stages = stages.map(|stage| (stage.stage.clone(), [stage.from, stage.to])).collect();
        let (typical, over_time) = (figures.traces.typical.as_ref(), figures.over_time.as_ref());
        Self {
            jitter: &figures.jitter,
            typical,
            hertz,
            stages,
            over_time,
            histograms: &figures.histograms,
            scatter_matrix: &figures.scatter_matrix,
            transfers: &figures.transfers,
            traffic: &figures.traffic,
            kinds: &figures.kinds,
            places: true,
        }
    }

    /// All that can be drawn, with that of the run's clocks where they are related; a sentence for each that cannot.
    pub fn figures(&self, rivals: &[NodeRivals]) -> (Vec<DrawnFigure>, Vec<String>) {
        let (mut figures, mut missing) = self.drawn(Room::Wide);
        if !rivals.is_empty() {
            let (of_clocks, without) = clock_figures(rivals);
            figures.extend(of_clocks);
            missing.extend(without);
        }
        (figures, missing)
    }

    fn drawn(&self, room: Room) -> (Vec<DrawnFigure>, Vec<String>) {
        let (mut figures, mut missing) = self.of_whole_traces(room);
        if !self.places {
            return (figures, missing);
        }
        if self.transfers.is_empty() {
            missing
                .push("no durations from point to point: no trace has both stamps of a stage, with an interval".into());
        }
        figures.extend(transfers::figures(self.transfers, self.hertz, room));
        match kinds::figure(self.kinds, self.hertz, room) {
            Some(Ok(figure)) => figures.push(figure),
            Some(Err(why)) => missing.push(why),
            None => {}
        }
        let (traffic, without) = traffic::figures(self.traffic, self.hertz, room);
        figures.extend(traffic);
        missing.extend(without);
        (figures, missing)
    }

    /// What is of traces that have every stage, and histograms.
    fn of_whole_traces(&self, room: Room) -> (Vec<DrawnFigure>, Vec<String>) {
        let nothing = |what: &str| format!("no {what}: no trace has every stage of the path and the whole");
        let histograms = histograms::figure(self.histograms, self.hertz);
        if self.jitter.traces == 0 {
            return (histograms.into_iter().collect(), vec![nothing("other figure of stages")]);
        }
        let mut missing = Vec::new();
        let mut figures = Vec::new();
        match self.trace(room) {
            Some(figure) => figures.push(figure),
            None => missing.push(nothing("typical trace")),
        }
        match self.over_time {
            Some(found) if found.windows.len() < 2 => {
                missing.push("no figure over time: all traces began at one instant".into());
            }
            Some(found) => figures.push(self.over_time(found)),
            None => {
                missing.push("no figure over time: nothing relates the first point's clock to the reference".into())
            }
        }
        figures.push(self.boxes(room, "jitter", |stage| stage.below.as_ref()));
        figures.push(self.boxes(room, "jitter-all", |stage| stage.all.as_ref()));
        figures.extend(histograms);
        if self.jitter.above == 0 {
            let threshold = self.jitter.threshold_ticks.map_or("none".into(), |ticks| short(self.ns(ticks)));
            missing.push(format!("no causes of outliers: no trace takes longer than the threshold, {threshold}"));
        } else {
            figures.extend([self.above_and_below(room), self.causes(room)]);
        }
        if self.jitter.traces < 2 {
            missing.push("no stage against another or end-to-end: one trace alone has every stage".into());
        } else {
            figures.extend([self.correlations(), scatter_matrix::figure(self.scatter_matrix, self.hertz, room)]);
        }
        (figures, missing)
    }

    /// The figures in a page, for wide screens and narrow ones; with `places`, also where, how far apart and for which
    /// kinds.
    pub(crate) fn blocks(&self, places: bool) -> Vec<Block> {
        let traffic = &traffic::with_fewer(self.traffic);
        let few = self.jitter.with_fewer(PAGE_POINTS, PAGE_OUTLIERS);
        let matrix =
            self.scatter_matrix.with_fewer(PAGE_POINTS.min(PAGE_DOTS / self.scatter_matrix.cells.len().max(1)));
        let stages = self.stages.clone();
        let few = XLap { jitter: &few, scatter_matrix: &matrix, traffic, stages, places, ..*self };
        let (wide, missing) = few.drawn(Room::Wide);
        let (narrow, _) = few.drawn(Room::Narrow);
        // The page has a histogram of the whole that answers the pointer, and no room for one of each stage.
        let both = wide.into_iter().zip(narrow).filter(|(wide, _)| wide.name != histograms::NAME);
        let drawn = both.flat_map(|(mut wide, narrow)| {
            let mut blocks = vec![Block::Heading(wide.title), Block::Note(wide.caption)];
            if wide.name == kinds::NAME {
                wide.drawings.truncate(1);
            }
            match (wide.drawings, narrow.drawings) {
                (drawings, _) if drawings.len() > 1 => {
                    blocks.extend(drawings.into_iter().map(|drawing| Block::Figure(drawing.svg)));
                }
                (wide, narrow) => blocks.extend(
                    wide.into_iter().zip(narrow).map(|(wide, narrow)| Block::WideOrNarrow([wide.svg, narrow.svg])),
                ),
            }
            blocks
        });
        let missing = missing.iter().map(|why| Block::paragraph(sentence(why)));
        let absent = (!places).then(|| Block::paragraph(NO_PLACES));
        drawn.chain(missing).chain(absent).collect()
    }

    fn ns(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.hertz.max(1) as f64
    }

    /// The stages that are drawn, and what is said of the others.
    fn shown(&self) -> (Vec<&StageJitter>, String) {
        let (parts, whole): (Vec<_>, Vec<_>) = self.jitter.stages.iter().partition(|stage| !stage.is_whole);
        let left = parts.len().saturating_sub(MOST_STAGES);
        let told = if left > 0 {
            format!(" The first {MOST_STAGES} stages of {} are drawn.", parts.len())
        } else {
            String::new()
        };
        (parts.into_iter().take(MOST_STAGES).chain(whole).collect(), told)
    }

    fn of_how_many(&self) -> String {
        let Jitter { traces, left_out, above, .. } = self.jitter;
        let threshold = self.jitter.threshold_ticks.map_or("none".into(), |ticks| short(self.ns(ticks)));
        format!(
            "n = {traces} traces with every stage, {left_out} without; {above} above the end-to-end threshold \
             (Q75 + 1.5 IQR) of {threshold}. Durations are estimates: their bounds are in the table."
        )
    }

    /// Figure 3: where the time of a typical trace goes, phase by phase.
    fn trace(&self, room: Room) -> Option<DrawnFigure> {
        let trace = self.typical?;
        let phases: Vec<(&str, [f64; 2])> = self
            .stages
            .iter()
            .filter_map(|(name, [from, to])| {
                let at = |point: usize| Some(self.ns(trace.since_first.get(point)?.as_ref()?.0 as f64));
                Some((name.as_str(), [at(*from)?, at(*to)?]))
            })
            .collect();
        let ends = || phases.iter().flat_map(|(_, ends)| *ends);
        let names: Vec<String> = phases.iter().map(|(name, _)| (*name).to_string()).collect();
        let axis = Axis::around(ends().chain([0.0]), short).named("time since the first stamp of the path");
        let mut figure = Figure::rows(axis, &names, 22.0, room);
        for (number, (_, ends)) in phases.iter().enumerate() {
            let row = Row { number, shift: 0.0 };
            figure.bar(*ends, 12.0, row, Ink::of(number));
        }
        let caption = format!(
            "Trace {} of kind {}, the one nearest to the median of a sample of {}. Bars over each other are phases \
             that overlap; stages of the path follow one another.",
            trace.id, trace.kind, self.jitter.traces
        );
        Some(DrawnFigure::of("trace", "A typical trace over time".into(), caption, vec![figure]))
    }

    /// The whole while the run went on, and how many traces began.
    fn over_time(&self, found: &OverTime) -> DrawnFigure {
        let seconds = |ticks: u64| self.ns(ticks as f64) / 1e9;
        let at = |window: &TimeWindow| seconds(window.begins_ticks) + seconds(found.window_ticks) / 2.0;
        let measured = || found.windows.iter().filter_map(|window| Some((at(window), window.whole_ticks?)));
        let durations = measured().flat_map(|(_, ticks)| ticks.map(|ticks| self.ns(ticks as f64)));
        let durations: Vec<f64> = durations.collect();
        let time = || {
            let ends = [0.0, seconds(found.window_ticks) * found.windows.len() as f64];
            Axis::around(ends.into_iter(), |at| format!("{} s", short_number(at))).named("since the first trace")
        };
        let y = Axis::of_durations_by_spread(durations.into_iter()).named("end-to-end");
        let mut figure = Figure::plane(time(), y);
        for quantile in 0..3 {
            let points = measured().map(|(at, ticks)| [at, self.ns(ticks[quantile] as f64)]);
            figure.curve(&points.collect::<Vec<_>>(), Ink::of(quantile));
        }
        let rate = |window: &TimeWindow| window.traces as f64 / seconds(found.window_ticks).max(1e-9);
        let y = Axis::from_0(found.windows.iter().map(|window| rate(window) * 1.1), short_number);
        let mut counts = Figure::plane(time(), y.named("traces a second"));
        let points: Vec<[f64; 2]> = found.windows.iter().map(|window| [at(window), rate(window)]).collect();
        counts.curve(&points, Ink::of(0));
        let caption = format!(
            "Left, from below: median, 99th percentile and longest from end to end of each of {} windows of {}; \
             right: traces that began in it. {} {}",
            found.windows.len(),
            short(self.ns(found.window_ticks as f64)),
            self.trend(found.trend),
            self.of_how_many()
        );
        DrawnFigure::of("over-time", "End to end over the run".into(), caption, vec![figure, counts])
    }

    fn trend(&self, trend: Option<Trend>) -> String {
        let Some(Trend { change_ticks, interval_ticks: [lo, hi], bound_ticks, resolved, .. }) = trend else {
            return "Trend: too few traces.".into();
        };
        let most = [lo, hi].map(f64::abs).into_iter().fold(bound_ticks as f64, f64::max);
        let unit = Unit(Ticks::for_durations_up_to(self.hertz.max(1), most.ceil() as i64));
        let verdict = if resolved { "" } else { "; which may be nothing" };
        format!(
            "Trend, a straight line: from start to end it changed by {} {}, the clocks leave {} open{verdict}.",
            format_args!("{} {}", unit.near(change_ticks.round() as i64), unit.name()),
            unit.interval(lo.floor() as i64, hi.ceil() as i64),
            unit.reach(Some(bound_ticks), "all"),
        )
    }

    /// Figure 4: box plots, a row a stage.
    fn boxes(&self, room: Room, name: &'static str, of: impl Fn(&StageJitter) -> Option<&JitterBox>) -> DrawnFigure {
        let of_which = if name == "jitter" { "up to the threshold" } else { "of all traces" };
        let (stages, more) = self.shown();
        let names: Vec<String> = stages.iter().map(|stage| stage.name.clone()).collect();
        let drawn = stages.iter().filter_map(|stage| of(stage));
        let axis =
            Axis::of_durations_by_spread(drawn.flat_map(|found| self.extremes(found)).collect::<Vec<_>>().into_iter());
        let mut figure = Figure::rows(axis.named("duration"), &names, 24.0, room);
        for (number, stage) in stages.iter().enumerate() {
            of(stage)
                .into_iter()
                .for_each(|found| self.draw(&mut figure, found, Row { number, shift: 0.0 }, Ink::of(0)));
        }
        let drawn: Vec<String> = stages
            .iter()
            .filter_map(|stage| {
                let found = of(stage)?;
                (found.outliers > found.outliers_ticks.len())
                    .then(|| format!("{} of {} at {}", found.outliers_ticks.len(), found.outliers, stage.name))
            })
            .collect();
        let thinned =
            if drawn.is_empty() { String::new() } else { format!(" Of outliers {} are drawn.", drawn.join(", ")) };
        let caption = format!(
            "Median, quartiles, whiskers at the last value within 1.5 IQR, outliers as circles. {}{thinned}{more}",
            self.of_how_many()
        );
        DrawnFigure::of(name, format!("Jitter of each stage, {of_which}"), caption, vec![figure])
    }

    /// What a box reaches to, with the outliers that are drawn, ns.
    fn extremes(&self, found: &JitterBox) -> Vec<f64> {
        let outliers = found.outliers_ticks.iter().copied();
        outliers.chain(found.whiskers_ticks).map(|ticks| self.ns(ticks as f64)).collect()
    }

    fn draw(&self, figure: &mut Figure, found: &JitterBox, row: Row, ink: Ink) {
        let [q1, median, q3] = found.quartiles_ticks.map(|ticks| self.ns(ticks));
        let [first, last] = found.whiskers_ticks.map(|ticks| self.ns(ticks as f64));
        figure.bar([first, last], 1.4, row, ink);
        [first, last].into_iter().for_each(|end| figure.notch(end, 7.0, row, ink));
        figure.bar([q1, q3], 11.0, row, ink);
        figure.notch(median, 11.0, row, Ink::of(1));
        let outliers: Vec<f64> = found.outliers_ticks.iter().map(|&ticks| self.ns(ticks as f64)).collect();
        figure.circles(&outliers, row, ink);
    }

    /// The stages of traces above and below the threshold, two boxes a row.
    fn above_and_below(&self, room: Room) -> DrawnFigure {
        let (stages, more) = self.shown();
        let names: Vec<String> = stages.iter().map(|stage| stage.name.clone()).collect();
        let boxes = |stage: &&StageJitter| [stage.below.clone(), stage.above.clone()];
        let ends: Vec<f64> = stages.iter().flat_map(boxes).flatten().flat_map(|found| self.extremes(&found)).collect();
        let mut figure =
            Figure::rows(Axis::of_durations_by_spread(ends.into_iter()).named("duration"), &names, 34.0, room);
        for (number, stage) in stages.iter().enumerate() {
            for (found, shift, ink) in [(&stage.below, -7.0, Ink::of(0)), (&stage.above, 7.0, Ink::of(2))] {
                found.iter().for_each(|found| self.draw(&mut figure, found, Row { number, shift }, ink));
            }
        }
        let caption = format!(
            "Upper box of each stage: traces up to the end-to-end threshold; lower box: those above it. {}{more}",
            self.of_how_many()
        );
        DrawnFigure::of("above-below", "Stages of traces below and above the threshold".into(), caption, vec![figure])
    }

    /// Figure 5: how often each stage is an outlier where the whole is one.
    fn causes(&self, room: Room) -> DrawnFigure {
        let Jitter { above, uncaused, several, .. } = self.jitter;
        let (stages, more) = self.shown();
        let parts = stages.iter().filter(|stage| !stage.is_whole);
        let mut rows: Vec<(String, usize)> = parts.map(|stage| (stage.name.clone(), stage.caused)).collect();
        rows.push(("no stage".into(), *uncaused));
        let names: Vec<String> = rows.iter().map(|(name, _)| name.clone()).collect();
        let axis = Axis::from_0(rows.iter().map(|&(_, count)| count as f64 * 1.1), |at| format!("{at:.0}"));
        let mut figure = Figure::rows(axis.named("traces"), &names, 22.0, room);
        for (number, (_, count)) in rows.iter().enumerate() {
            let (row, ink) = (Row { number, shift: 0.0 }, Ink::of(if number + 1 == rows.len() { 2 } else { 0 }));
            figure.bar([0.0, *count as f64], 12.0, row, ink);
            figure.words(*count as f64, row, &count.to_string());
        }
        let caption = format!(
            "Of {above} outliers end to end, those that are outliers of a stage, by stage; {several} have more than \
             one such stage. The published rule: it has no magnitude, and names noisy stages that are small. {}{more}",
            self.of_how_many()
        );
        let threshold = self.jitter.threshold_ticks.map_or("none".into(), |ticks| short(self.ns(ticks)));
        let title = format!("Jitter causes (threshold: {threshold}, {above} traces)");
        DrawnFigure::of("causes", title, caption, vec![figure])
    }

    /// Figure 6: each stage against the whole.
    fn correlations(&self) -> DrawnFigure {
        let (stages, more) = self.shown();
        let mut said = Vec::new();
        let mut drawings = Vec::new();
        for stage in stages.iter().filter(|stage| !stage.is_whole) {
            for (points, fit, which, ink) in [
                (&stage.points_below, stage.fit_below, "up to the threshold", Ink::of(0)),
                (&stage.points_above, stage.fit_above, "above the threshold", Ink::of(2)),
            ] {
                let points: Vec<_> = points.iter().map(|point| point.map(|ticks| self.ns(ticks as f64))).collect();
                // On axes of their own: the few above are so much longer that the others would be one line.
                let axis = |at: usize| Axis::around(points.iter().map(|point| point[at]), short);
                let y = axis(1).named(&format!("end-to-end {which}"));
                let mut figure = Figure::plane(axis(0).named(&stage.name), y);
                figure.dots(&points, ink);
                let line = fit.and_then(|fit| self.line(fit, &points));
                line.into_iter().for_each(|line| figure.curve(&line, ink));
                drawings.extend((!points.is_empty()).then_some(figure));
            }
            said.push(format!("{}: below {}, above {}", stage.name, told(stage.fit_below), told(stage.fit_above)));
        }
        let shown = stages.iter().flat_map(|stage| [stage.points_below.len(), stage.points_above.len()]);
        let points = shown.max().unwrap_or(0);
        let caption = format!(
            "Each stage against end-to-end, and the line of least squares; traces up to the threshold and above it \
             apart, each on axes of their own, up to {points} points of each. Pearson r, Spearman s: {}. \
             No correlation is a cause. {}{more}",
            said.join("; "),
            self.of_how_many()
        );
        DrawnFigure::of("correlation", "Each stage against end-to-end".into(), caption, drawings)
    }

    /// The line of a fit over the stretch of these points.
    fn line(&self, fit: Fit, points: &[[f64; 2]]) -> Option<[[f64; 2]; 2]> {
        let (slope, intercept) = (fit.slope?, self.ns(fit.intercept_ticks?));
        let (least, most) =
            points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), [x, _]| (lo.min(*x), hi.max(*x)));
        (least < most).then(|| [least, most].map(|x| [x, intercept + slope * x]))
    }
}

pub(crate) fn short_number(value: f64) -> String {
    let digits = if value.abs() < 10.0 { 1 } else { 0 };
    format!("{value:.digits$}").trim_end_matches(".0").into()
}

fn told(fit: Option<Fit>) -> String {
    let number = |value: Option<f64>| value.map_or("none".into(), |value| format!("{value:.2}"));
    fit.map_or("none".into(), |fit| format!("r {} s {} (n {})", number(fit.pearson), number(fit.spearman), fit.count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_analysis::figures::Histogram;

    fn jitter(traces: usize, above: usize) -> Jitter {
        let of = |values: [i64; 2]| JitterBox {
            count: traces,
            quartiles_ticks: [1.0, 2.0, 3.0],
            whiskers_ticks: values,
            outliers: 0,
            outliers_ticks: Vec::new(),
        };
        let stage = |number: usize| StageJitter {
            name: format!("a<{number}"),
            is_whole: number == 20,
            threshold_ticks: Some(6.0),
            caused: 0,
            below: Some(of([0, 5])),
            above: (above > 0).then(|| of([4, 9])),
            all: Some(of([0, 9])),
            fit_below: None,
            fit_above: None,
            points_below: vec![[1, 2]],
            points_above: Vec::new(),
        };
        let stages = (0..=20).map(stage).collect();
        Jitter { traces, left_out: 7, threshold_ticks: Some(6.0), above, uncaused: above, several: 0, stages }
    }

    fn histogram() -> StageHistogram {
        let of = [&[1_000][..], &[900], &[1_100]];
        let histogram = Histogram::of(of);
        StageHistogram { stage: "a<0".into(), is_whole: false, traces: 1, missing: 0, refused: 0, histogram }
    }

    fn matrix(traces: usize) -> ScatterMatrix {
        let stages = ["a<0", "end-to-end"].map(String::from).into();
        ScatterMatrix { traces, left_out: 7, stages, more_stages: 0, kinds: vec![], more_kinds: (0, 0), cells: vec![] }
    }

    fn drawn(jitter: &Jitter) -> (Vec<DrawnFigure>, Vec<String>) {
        let window = |begins_ticks, traces, whole_ticks| TimeWindow { begins_ticks, traces, whole_ticks };
        let windows =
            vec![window(0, 2, Some([5, 9, 9])), window(1_000_000_000, 0, None), window(2_000_000_000, 1, None)];
        let trend = Trend {
            change_ticks: 300.0,
            interval_ticks: [-20.0, 410.0],
            stretches: 40.0,
            bound_ticks: 7,
            resolved: false,
        };
        let over_time = OverTime { window_ticks: 1_000_000_000, windows, trend: Some(trend) };
        let (stages, over_time) = (Vec::new(), Some(&over_time));
        let histograms = &[histogram()][..jitter.traces.min(1)];
        let scatter_matrix = &matrix(jitter.traces);
        let (typical, hertz) = (None, 1_000_000_000);
        let (transfers, traffic, kinds) = (&[][..], &Traffic::default(), &Kinds::default());
        let places = true;
        let x_lap = XLap {
            jitter,
            typical,
            hertz,
            stages,
            over_time,
            histograms,
            scatter_matrix,
            transfers,
            traffic,
            kinds,
            places,
        };
        x_lap.figures(&[])
    }

    #[test]
    fn a_figure_over_time_says_its_windows_and_what_of_the_trend_is_open() {
        let (figures, _) = drawn(&jitter(3, 0));
        let figure = figures.iter().find(|figure| figure.name == "over-time").unwrap();
        for words in
            ["each of 3 windows of 1 s", "by 0.30 µs [−0.02,\u{a0}0.41]", "±0.01 µs open; which may be nothing"]
        {
            assert!(figure.caption.contains(words), "{}", figure.caption);
        }
        let svg = figure.svg();
        assert!(svg.contains("3 s") && svg.contains("traces a second"), "{svg}");
    }

    #[test]
    fn what_cannot_be_drawn_is_a_sentence_and_never_an_empty_figure() {
        let (figures, missing) = drawn(&jitter(0, 0));
        assert!(
            figures.is_empty() && missing.len() == 4 && missing[0].contains("no trace has every stage"),
            "{missing:?}"
        );
        let (figures, missing) = drawn(&jitter(3, 0));
        let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        assert_eq!(names, ["over-time", "jitter", "jitter-all", "histogram", "correlation", "pairs"]);
        assert!(
            missing.len() == 5 && missing[1].contains("no trace takes longer than the threshold, 6 ns"),
            "{missing:?}"
        );
    }

    #[test]
    fn traces_above_the_threshold_have_axes_of_their_own_that_say_so() {
        let of = |above: usize| {
            let mut jitter = jitter(30, above);
            jitter.stages.iter_mut().for_each(|stage| stage.points_above = vec![[1_000_000, 2_000_000]; above]);
            drawn(&jitter).0.into_iter().find(|figure| figure.name == "correlation").unwrap()
        };
        let said = |figure: &DrawnFigure, which: &str| figure.svg().matches(which).count();
        let (both, below) = (of(3), of(0));
        assert_eq!(both.drawings.len(), 2 * MOST_STAGES);
        assert_eq!([said(&both, "end-to-end up to the"), said(&both, "end-to-end above the")], [MOST_STAGES; 2]);
        // 2 ns lies on an axis around it, not on one of milliseconds.
        assert!(both.drawings[0].svg.contains("2 ns") && !both.drawings[0].svg.contains("ms"));
        assert_eq!((below.drawings.len(), said(&below, "end-to-end above the")), (MOST_STAGES, 0));
    }

    #[test]
    fn one_trace_has_no_figure_that_takes_several() {
        let (figures, missing) = drawn(&jitter(1, 0));
        assert!(figures.iter().all(|figure| !["correlation", "pairs"].contains(&figure.name)));
        assert!(missing.iter().any(|why| why.contains("one trace alone has every stage")), "{missing:?}");
    }

    #[test]
    fn a_path_of_many_stages_says_how_many_are_drawn_and_names_are_text() {
        let (figures, _) = drawn(&jitter(30, 3));
        let of_stages = |figure: &DrawnFigure| !["over-time", "histogram", "pairs"].contains(&figure.name);
        for figure in figures.into_iter().filter(of_stages) {
            let svg = figure.svg();
            assert!(figure.caption.contains("The first 12 stages of 20 are drawn"), "{}", figure.caption);
            assert!(figure.caption.contains("n = 30 traces") && figure.caption.contains("7 without; 3 above"));
            assert!(figure.pdf().unwrap().starts_with(b"%PDF-"));
            assert!(svg.contains("a&lt;11") && !svg.contains("a&lt;12") && !svg.contains("a<1"), "{svg}");
        }
    }
}

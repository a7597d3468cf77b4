//! How often each stage took how long: the counts of estimates, and between what each true count lies.
//!
//! Guarantees: a bin's band holds its true count; what is longer than the last edge is counted in the caption, as are
//! the traces that lack a stamp. Deliberately absent: counting (`tickscope_analysis::figures::Histogram`).

use tickscope_analysis::figures::{Histogram, StageHistogram};
use tickscope_tick::Unit as Ticks;

use crate::drawn_figure::DrawnFigure;
use crate::plot::{Axis, Figure, Ink, short};
use crate::quantity::Unit;
use crate::x_lap::{MOST_STAGES, short_number};

/// Its name for files.
pub(crate) const NAME: &str = "histogram";
/// A band that is higher than so many times the highest count leaves the figure.
const MOST_ABOVE: f64 = 2.5;

/// A panel a stage, the whole last; `None`: no stage has a duration.
pub(crate) fn figure(all: &[StageHistogram], hertz: u64) -> Option<DrawnFigure> {
    let (wholes, stages): (Vec<_>, Vec<_>) = all.iter().partition(|stage| stage.is_whole);
    let shown: Vec<&StageHistogram> = stages.iter().take(MOST_STAGES).chain(&wholes).copied().collect();
    let drawings: Vec<Figure> = shown.iter().filter_map(|stage| panel(stage, hertz)).collect();
    if drawings.is_empty() {
        return None;
    }
    let counts: Vec<String> = shown.iter().map(|stage| counted(stage, hertz)).collect();
    let more = match stages.len().saturating_sub(MOST_STAGES) {
        0 => String::new(),
        _ => format!(" The first {MOST_STAGES} stages of {} are drawn.", stages.len()),
    };
    let caption = format!(
        "Line: durations in each bin by their estimates; band: the fewest and the most that can truly lie there, for \
         each bin by itself, whatever the clocks did within their bounds. Traces of each: {}.{more}",
        counts.join("; ")
    );
    Some(DrawnFigure::of(NAME, "How often each stage took how long".into(), caption, drawings))
}

fn panel(stage: &StageHistogram, hertz: u64) -> Option<Figure> {
    let found = stage.histogram.as_ref()?;
    let edges: Vec<f64> = found.edges.iter().map(|&ticks| ticks as f64 * 1e9 / hertz.max(1) as f64).collect();
    let x = match found.logarithmic {
        true => Axis::of_durations(edges.iter().copied()),
        false => Axis::around(edges.iter().copied(), short),
    };
    let y = Axis::from_0(std::iter::once(highest(found)), short_number).named("traces");
    let mut figure = Figure::plane(x.named(&stage.stage), y);
    let steps = |counts: &[usize]| {
        let step = |(bin, &count): (usize, &usize)| [[edges[bin], count as f64], [edges[bin + 1], count as f64]];
        counts.iter().enumerate().flat_map(step).collect::<Vec<_>>()
    };
    figure.between(&steps(&found.least), &steps(&found.most));
    figure.curve(&steps(&found.count), Ink::of(0));
    Some(figure)
}

fn highest(found: &Histogram) -> f64 {
    let most = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0) as f64;
    most(&found.most).min(MOST_ABOVE * most(&found.count))
}

/// How many durations a stage has, how many traces have none, and what its panel does not show.
fn counted(stage: &StageHistogram, hertz: u64) -> String {
    let StageHistogram { stage: name, traces, missing, refused, histogram, .. } = stage;
    let mut words = format!("{name} n = {traces}");
    for (number, what) in [(missing, "lack a stamp"), (refused, "have no interval")] {
        if *number > 0 {
            words += &format!(", {number} {what}");
        }
    }
    let Some(found) = histogram else { return words };
    let end = found.edges.last().copied().unwrap_or(0);
    let unit = Unit(Ticks::for_durations_up_to(hertz.max(1), end));
    let [estimate, least, most] = found.beyond;
    if most > 0 {
        let truly = if least == most { String::new() } else { format!(" (truly {least} to {most})") };
        words += &format!(", {estimate}{truly} longer than {} {}", unit.up(end), unit.name());
    }
    let above = found.most.iter().copied().max().unwrap_or(0);
    if above as f64 > highest(found) {
        words += &format!(", the band up to {above} traces");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, values: [Vec<i64>; 3], missing: u64) -> StageHistogram {
        let histogram = Histogram::of(values.each_ref().map(Vec::as_slice));
        let traces = values[0].len() as u64;
        StageHistogram { stage: name.into(), is_whole: name == "whole", traces, missing, refused: 0, histogram }
    }

    #[test]
    fn a_panel_has_line_and_band_and_the_caption_counts_holes_and_what_lies_beyond() {
        let mut estimates: Vec<i64> = (0..2_000).map(|n| 100 + n % 50).collect();
        estimates.extend([9_000, 9_900]);
        estimates.sort_unstable();
        let ends =
            [estimates.clone(), estimates.iter().map(|n| n - 7).collect(), estimates.iter().map(|n| n + 9).collect()];
        let found = figure(&[stage("a>b", ends.clone(), 3), stage("whole", ends, 0)], 1_000_000_000).unwrap();
        assert!(
            found.caption.contains("a>b n = 2002, 3 lack a stamp, 2 longer than 0.16 µs, the band up to "),
            "{}",
            found.caption
        );
        assert!(found.caption.contains("; whole n = 2002, "), "{}", found.caption);
        let svg = found.svg();
        let points = |after: &str| svg.split(after).nth(1).and_then(|rest| rest.split_once('"')).unwrap().0.to_string();
        let corners: Vec<String> = points("<polygon points=\"").split(' ').map(String::from).collect();
        let (lower, upper) = corners.split_at(corners.len() / 2);
        assert!(lower.iter().ne(upper.iter().rev()), "the band has a width");
        assert!(svg.matches("<polygon").count() == 2 && svg.contains(">whole") && svg.contains(">traces<"), "{svg}");
        assert!(found.pdf().unwrap().starts_with(b"%PDF-"));
    }

    #[test]
    fn a_stage_without_durations_is_counted_and_none_at_all_is_no_figure() {
        let none = || stage("a>b", Default::default(), 9);
        assert!(figure(&[none()], 1).is_none() && figure(&[], 1).is_none());
        let one = stage("b>c", [vec![5], vec![4], vec![6]], 8);
        let found = figure(&[none(), one], 1_000_000_000).unwrap();
        assert!(found.caption.contains("a>b n = 0, 9 lack a stamp; b>c n = 1, 8 lack a stamp."), "{}", found.caption);
    }

    #[test]
    fn of_a_path_of_many_stages_the_first_are_drawn_and_the_whole() {
        let all: Vec<StageHistogram> = (0..20)
            .map(|at| stage(&format!("stage {at}"), [vec![5], vec![4], vec![6]], 0))
            .chain([stage("whole", [vec![50], vec![40], vec![60]], 0)])
            .collect();
        let found = figure(&all, 1_000_000_000).unwrap();
        assert!(found.caption.ends_with("The first 12 stages of 20 are drawn."), "{}", found.caption);
        assert!(found.svg().contains(">whole<") && !found.svg().contains("stage 12"));
    }
}

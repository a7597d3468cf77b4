//! Figures 12 to 15 of the Cm* study (CMU-CS-86-136), and readings after a load is injected, drawn of this host's
//! clocks.

use tickscope_clock::advice::duration;
use tickscope_clock::benchmark::{Benchmark, ClockResult};
use tickscope_clock::compensation::{Method, Outcome};
use tickscope_clock::load::LoadKind;
use tickscope_clock::measure::Transient;

use super::between;
use super::readers::{FIRST, densities};
use crate::document::{Block, Panel, Panels, panel};
use crate::plot::{Axis, Figure, Ink, short};

/// The improvement factors that the study prints with its figures 12 to 15 (4.4 and 4.5), of 4-Read.
const PUBLISHED_K: [(&str, f64); 4] = [("StarOS", 0.8), ("Medusa", 3.57), ("StarOS", 1.14), ("Medusa", 1.11)];

/// Figures 12 to 15: what is measured of nothing, before and after compensation.
pub(super) fn residuals(benchmark: &Benchmark) -> Vec<Block> {
    let mut panels = Panels { summary: "The other clocks", ..Panels::default() };
    let loads = [benchmark.plan.loads.first(), benchmark.plan.loads.last()];
    for clock in &benchmark.clocks {
        for (of_method, method) in [Method::NearestPairs, Method::Sampler].into_iter().enumerate() {
            for (at, &load) in loads.into_iter().enumerate().filter_map(|(at, load)| Some((at, load?))) {
                let drawn = zero_time(benchmark, clock, (method, load), 2 * of_method + at);
                let among = if FIRST.contains(&clock.clock.as_str()) { &mut panels.first } else { &mut panels.others };
                among.push(drawn);
            }
        }
    }
    let note = "Sections that do nothing, measured: the density of what comes out, before anything is subtracted and \
                after. The ideal is all at 0. Method-1 subtracts the readings just before and after, method-2 those \
                of a thread beside. k: variance before over variance after, next to the one that the study prints for \
                4-Read. Its load was of processes that read the clock (--load-kind replica) for method-1, and of pairs \
                that send each other messages (--load-kind messages) for method-2; each figure says whether its load \
                is that. The first and the last size that was asked for stand in the place of its two systems.";
    vec![Block::note(note), Block::Panels(panels)]
}

/// `figure`: which of the four.
fn zero_time(benchmark: &Benchmark, clock: &ClockResult, (method, load): (Method, u32), figure: usize) -> Panel {
    let phrase = benchmark.plan.load.phrase(load);
    let title = format!("As figure {}: {}, {method}, {phrase}", 12 + figure, clock.clock);
    let zero = clock.loads.iter().find(|of| of.busy_processes == load).map(|of| &of.zero);
    let missing = |why: &str| panel(&title, vec![Block::paragraph(format!("Not drawn: {why}."))]);
    let Some(zero) = zero else { return missing("the clock was not read under this load") };
    let Some(Outcome { before, after, k, k_untouched, .. }) = zero.outcome(method) else {
        let why = zero.no_sampler.as_deref().filter(|_| method == Method::Sampler);
        return missing(
            why.unwrap_or("too few sections have readings before and after that the method could subtract"),
        );
    };
    let (Some(before), Some(after)) = (before, after) else { return missing("no result is left to draw") };
    let curves = [("before".into(), before), (format!("after {method}"), after)];
    let words = format!("What is measured of nothing by {}, before and after {method}.", clock.clock);
    let (system, published) = PUBLISHED_K[figure];
    let factors = format!(
        "k {}; without interrupted ones {}; the study's, {system}: {published}, {}",
        between(*k),
        between(*k_untouched),
        study_load(benchmark.plan.load.kind, method, load)
    );
    let mut blocks = densities(&curves, "measured", &words);
    blocks.push(Block::note(factors));
    panel(&title, blocks)
}

/// How the load of a figure compares with the study's for that method.
fn study_load(kind: LoadKind, method: Method, load: u32) -> &'static str {
    match (method, kind) {
        _ if load == 0 => "under a load where this has none",
        (Method::NearestPairs, LoadKind::Replica) => "under such a load, of readers of the clock",
        (Method::Sampler, LoadKind::Messages) => "under such a load, of pairs that exchange messages",
        (Method::NearestPairs, _) => "under another load, of readers of the clock",
        _ => "under another load, of pairs that exchange messages",
    }
}

/// What a reading costs after the load is injected, laid over one another.
pub(super) fn transients(benchmark: &Benchmark) -> Vec<Block> {
    if benchmark.transients.is_empty() {
        return vec![Block::note("Without a load (--load), or without the time for it, nothing was injected.")];
    }
    let panels = benchmark.transients.iter().map(|of| {
        let said = match of.settles_after_ns {
            None => "no reading ended while the load worked".into(),
            Some(0.0) => "settled at once".into(),
            Some(ns) => format!("settled after {}", duration(ns)),
        };
        let readings = of.slices.iter().map(|slice| slice.readings).sum::<usize>();
        let said = format!("{said}; {readings} readings over {} injections", of.injections);
        panel(&of.clock, vec![transient(benchmark, of), Block::note(said)])
    });
    let most = benchmark.plan.loads.iter().max().copied().unwrap_or(0);
    let note = format!(
        "The load ({}) works in the first half of each period and rests in the second; all injections are laid over \
         one another. The median cost of readings in each slice; solid upright: the load is injected, dashed: it \
         rests.",
        benchmark.plan.load.words(most)
    );
    vec![Block::note(note), Block::panels(panels.collect())]
}

fn transient(benchmark: &Benchmark, of: &Transient) -> Block {
    let ns = |ticks: i64| ticks as f64 * 1e9 / benchmark.counter.hertz as f64;
    let slice_ns = of.period_ns / of.slices.len() as f64;
    let slices = of.slices.iter().enumerate();
    let points: Vec<[f64; 2]> =
        slices.filter_map(|(at, slice)| Some([(at as f64 + 0.5) * slice_ns, ns(slice.cost_ticks?)])).collect();
    let x = Axis::from_0([of.period_ns].into_iter(), short).named("since the injection");
    let y = Axis::of_durations_by_spread(points.iter().map(|at| at[1])).named("median cost of a reading");
    let mut figure = Figure::plane(x, y);
    figure.mark(0.0, false);
    figure.mark(of.period_ns / 2.0, true);
    figure.line(&points, Ink::of(0));
    figure.block(&format!("Median cost of a reading of {} after a load is injected.", of.clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_the_studys_for_the_method_that_it_had_it_for_alone() {
        let said = |method, kind| study_load(kind, method, 2);
        for (method, own, other) in [
            (Method::NearestPairs, LoadKind::Replica, LoadKind::Messages),
            (Method::Sampler, LoadKind::Messages, LoadKind::Replica),
        ] {
            assert!(said(method, own).starts_with("under such a load"), "{method}");
            for kind in [other, LoadKind::Spin] {
                assert!(said(method, kind).starts_with("under another load"), "{method} {kind:?}");
            }
            assert!(study_load(own, method, 0).contains("this has none"));
        }
    }
}

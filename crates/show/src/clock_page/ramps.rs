//! What a reading costs while other readers start and stop, against time.

use tickscope_clock::measure::Ramp;
use tickscope_clock::study::{ClockStudy, Study};

use super::{multiples, panel};
use crate::plot::{Axis, Figure, Ink, short};

/// A figure for every clock, load and number of readers; first those with the most readers where the others are felt.
pub(super) fn ramps(study: &Study) -> String {
    let (mut felt, mut others) = (String::new(), String::new());
    for clock in &study.clocks {
        for load in &clock.loads {
            for cell in load.cells.iter().filter(|cell| cell.readers > 1) {
                let title = format!(
                    "{}, {} readers, {}",
                    clock.clock,
                    cell.readers,
                    study.plan.load.beside(load.busy_processes)
                );
                let most = load.cells.last().is_some_and(|last| last.readers == cell.readers);
                let among = if most && cell.ramp.felt() { &mut felt } else { &mut others };
                among.push_str(&panel(&title, &figure(study, clock, &cell.ramp)));
            }
        }
    }
    if felt.is_empty() && others.is_empty() {
        return "<p class=\"note\">Only one reader was asked for (--readers), so nobody started or stopped.</p>".into();
    }
    let none =
        if felt.is_empty() { "<p>With the most readers at once no clock's median cost doubled.</p>" } else { "" };
    format!(
        "<p class=\"note\">One reader goes on all the time; others start one after another and later stop one after another. The median cost of its \
         readings in each of {} slices of that time, first for the clocks whose cost at least doubles in between. A line with a gap: no reading \
         ended there.</p>\
         <p class=\"legend\"><span><i class=\"line\"></i>median cost</span><span><i class=\"line muted\"></i>another reader starts</span>\
         <span><i class=\"line muted dashed\"></i>it stops</span></p>{none}{}",
        study
            .clocks
            .iter()
            .flat_map(|clock| &clock.loads)
            .map(|load| load.alone().ramp.slices.len())
            .max()
            .unwrap_or(0),
        multiples(&felt, &others, "Every other clock, load and number of readers")
    )
}

fn figure(study: &Study, clock: &ClockStudy, ramp: &Ramp) -> String {
    let ns = |ticks: f64| ticks * 1e9 / study.counter.hertz as f64;
    let all_ns = ns(ramp.ticks as f64);
    let costs = ramp.slices.iter().filter_map(|slice| slice.cost_ticks).map(|ticks| ns(ticks as f64));
    let x = Axis::from_0([all_ns].into_iter(), short).named("time");
    let y = Axis::of_durations_by_spread(costs).named("median cost of a reading");
    let mut figure = Figure::plane(x, y);
    for (at, end) in ramp.started.iter().map(|at| (at, false)).chain(ramp.stopped.iter().map(|at| (at, true))) {
        figure.mark(at * all_ns, end);
    }
    let middle = |number: usize| (number as f64 + 0.5) / ramp.slices.len() as f64 * all_ns;
    let points = ramp.slices.iter().enumerate();
    let points = points.map(|(number, slice)| Some([middle(number), ns(slice.cost_ticks? as f64)]));
    for stretch in points.collect::<Vec<_>>().split(Option::is_none) {
        let stretch: Vec<[f64; 2]> = stretch.iter().copied().flatten().collect();
        figure.line(&stretch, Ink::of(0));
    }
    let words = format!(
        "Median cost of a reading of {} against time; {} other readers start, then stop.",
        clock.clock,
        ramp.started.len()
    );
    figure.svg(&words)
}

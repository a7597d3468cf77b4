//! Figures 1 to 7 and 12 to 15 of the Cm* study (CMU-CS-86-136), drawn of this host's clocks.

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::{Method, Outcome};
use tickscope_clock::density::Density;
use tickscope_clock::measure::Transient;
use tickscope_clock::study::{ClockStudy, Study};
use tickscope_clock::two_word::{LiveTest, Routine, Writer};

use super::{between, legend, multiples, panel, table};
use crate::plot::{Axis, Figure, Ink, short};
use crate::text::Text;

/// Figures 1 to 3: what a reading takes, one after another and by where in a turn of the low word it began.
pub(super) fn running_clock(study: &Study) -> String {
    let Some(&first_load) = study.plan.loads.first() else { return String::new() };
    let tests = |routine: Routine| of_routine(study, routine, first_load);
    let panels = Routine::ALL.into_iter().enumerate().map(|(number, routine)| {
        let tests: Vec<&LiveTest> = ends(&tests(routine));
        let said = tests.iter().map(|test| format!("<p class=\"note\">{}: {}</p>", readers(test), Text(&test.words())));
        let said: String = said.collect();
        let inks = legend(tests.iter().map(|test| readers(test)));
        let figures = format!("{inks}{}{}{said}", one_by_one(routine, &tests), by_phase(routine, &tests));
        panel(&format!("As figure {}: {routine}", number + 1), &figures)
    });
    let panels: String = panels.collect();
    if study.two_words.is_empty() {
        return "<p class=\"note\">There was no time for it (--seconds).</p>".into();
    }
    format!(
        "<p class=\"note\">Seen {}. A clock of two words, of which a reading gets one at a time: the counter, whose low word here wraps every few readings. \
         Each reading is two calls of a routine one right after the other: how far apart are their results? Varying-read returns the low word \
         that it read last where the high word flipped meanwhile: so readings are longer where the second call saw that (a peak), and shorter where the \
         first did (a trough). 4-read and 1-read always return the first low word. Uprights: what the median lies between with 99.9 %.</p>\
         <div class=\"multiples\">{panels}</div>{}",
        Text(&study.plan.load.beside(first_load)),
        two_stores(study)
    )
}

fn of_routine(study: &Study, routine: Routine, load: u32) -> Vec<&LiveTest> {
    let of = |test: &&LiveTest| test.routine == routine && test.writer == Writer::Atomic && test.busy_processes == load;
    study.two_words.iter().filter(of).collect()
}

/// With one reader and with the most.
fn ends<'a>(tests: &[&'a LiveTest]) -> Vec<&'a LiveTest> {
    let mut ends: Vec<&LiveTest> = tests.iter().take(1).copied().collect();
    ends.extend(tests.last().filter(|_| tests.len() > 1));
    ends
}

fn readers(test: &LiveTest) -> String {
    let count = if test.readers == 1 { "1 reader".into() } else { format!("{} readers", test.readers) };
    let turns = if test.takes_turns { " taking turns" } else { "" };
    format!("{count}{turns}, {} words/s each", rate(test.words_per_s))
}

fn rate(per_s: f64) -> String {
    match per_s {
        per_s if per_s >= 1e6 => format!("{:.1} M", per_s / 1e6),
        per_s if per_s >= 1e3 => format!("{:.1} k", per_s / 1e3),
        per_s => format!("{per_s:.0}"),
    }
}

/// The first readings, each where it was made.
fn one_by_one(routine: Routine, tests: &[&LiveTest]) -> String {
    const SHOWN: usize = 120;
    let shown: Vec<&[[f64; 2]]> = tests.iter().map(|test| &test.first[..test.first.len().min(SHOWN)]).collect();
    let all = || shown.iter().copied().flatten();
    // One that was put aside would press all others onto the axis.
    let most = tests.iter().map(|test| 4.0 * test.level_ns).fold(0.0, f64::max);
    let until = shown.iter().take(1).filter_map(|of| of.last()).map(|at| at[0]).fold(0.0, f64::max);
    let within = || all().filter(|at| at[1] <= most && at[0] <= until);
    let x = Axis::from_0(within().map(|at| at[0]), short).named("time");
    let mut figure = Figure::plane(x, Axis::from_0(within().map(|at| at[1]), short).named("a reading"));
    for (number, points) in shown.iter().enumerate() {
        let points: Vec<[f64; 2]> = points.iter().copied().filter(|at| at[0] <= until).collect();
        figure.curve(&points, Ink::of(number));
    }
    figure.svg(&format!("What readings by {routine} take, one after another."))
}

fn by_phase(routine: Routine, tests: &[&LiveTest]) -> String {
    let phases = || tests.iter().flat_map(|test| &test.phases);
    let x = Axis::from_0(tests.iter().map(|test| test.turn_ns), short).named("began so long after a flip");
    let mut figure =
        Figure::plane(x, Axis::from_0(phases().map(|phase| phase.between_ns[1]), short).named("a reading"));
    for (number, test) in tests.iter().enumerate() {
        for phase in &test.phases {
            figure.upright(phase.at_ns, phase.between_ns, 1.2, Ink::of(number));
        }
        let points: Vec<[f64; 2]> = test.phases.iter().map(|phase| [phase.at_ns, phase.median_ns]).collect();
        figure.curve(&points, Ink::of(number));
    }
    figure.svg(&format!("The median of what a reading by {routine} takes by where in a turn of the low word it began."))
}

/// What a program's two stores made of the results.
fn two_stores(study: &Study) -> String {
    let row = |test: &LiveTest| {
        let order = match test.writer {
            Writer::Atomic => "the counter",
            Writer::LowFirst => "a program's, low word stored first",
            Writer::HighFirst => "a program's, high word stored first",
        };
        let load = study.plan.load.beside(test.busy_processes);
        let counts = [test.wrong, test.pairs, test.writer_away].map(|count| count.to_string());
        [vec![format!("{}, {order}, {load}", test.routine)], counts.to_vec()].concat()
    };
    let rows = study.two_words.iter().filter(|test| test.readers == 1).map(row);
    let columns = ["routine and clock", "off by half a turn or more", "right", "left out: the program was not running"];
    format!("<h3>Results that cannot be</h3>{}", table("Results that cannot be", &columns, rows))
}

/// Figures 4 to 7: how what a reading takes is spread, a curve for each number of readers.
pub(super) fn spreads(study: &Study) -> String {
    let loads = [study.plan.loads.first(), study.plan.loads.last()];
    let mut number = 3;
    let mut panels = String::new();
    for &load in loads.into_iter().flatten() {
        for routine in [Routine::FourRead, Routine::OneRead] {
            number += 1;
            let tests = of_routine(study, routine, load);
            let curves: Vec<(String, &Density)> =
                tests.iter().filter_map(|test| Some((moments(test), test.density.as_ref()?))).collect();
            let title = format!("As figure {number}: {routine}, {}", study.plan.load.beside(load));
            let words = format!("How what a reading by {routine} takes is spread, one curve a number of readers.");
            panels.push_str(&panel(&title, &densities(&curves, "a reading", &words)));
        }
    }
    format!(
        "<p class=\"note\">Readings of the clock of two words, as in figures 1 to 3. All curves enclose the same area but for the readings beyond the figure; the \
         paper's two systems are two loads here. Readers beyond the processors take turns, which is not what as many processors do.</p>\
         <div class=\"multiples\">{panels}</div>"
    )
}

fn moments(test: &LiveTest) -> String {
    format!("{}: mean {}, deviation {}", readers(test), duration(test.mean_ns), duration(test.deviation_ns))
}

/// Curves that enclose the same area; where one reaches ten times as far as another begins, by powers of ten, as densities of the
/// logarithm, so that their areas stay the same.
pub(super) fn densities(curves: &[(String, &Density)], axis: &str, words: &str) -> String {
    const WIDE: f64 = 10.0;
    let mut points: Vec<Vec<[f64; 2]>> = curves.iter().map(|(_, density)| density.points()).collect();
    let at = points.iter().flatten().map(|at| at[0]);
    let (least, most) = at.fold((f64::INFINITY, 0.0_f64), |(lo, hi), at| (lo.min(at), hi.max(at)));
    let wide = least > 0.0 && most > WIDE * least;
    if wide {
        points.iter_mut().flatten().for_each(|[at, share]| *share *= *at * std::f64::consts::LN_10);
    }
    let at = || points.iter().flatten().map(|at| at[0]);
    let x = if wide { Axis::of_durations(at()) } else { Axis::around(at(), short) };
    let shares = points.iter().flatten().map(|at| at[1]);
    let mut figure = Figure::plane(x.named(axis), Axis::from_0(shares, |_| String::new()).named("density"));
    for (number, points) in points.iter().enumerate() {
        figure.curve(points, Ink::of(number));
    }
    format!("{}{}", legend(curves.iter().map(|(name, _)| name.clone())), figure.svg(words))
}

/// Figures 12 to 15: what is measured of nothing, before and after compensation.
pub(super) fn residuals(study: &Study) -> String {
    /// The clocks that are shown first: one that a program would read, one that its readers fight over.
    const FIRST: [&str; 3] = ["tsc after", "cntvct after", "mutex"];
    let (mut first, mut others) = (String::new(), String::new());
    let loads = [study.plan.loads.first(), study.plan.loads.last()];
    for clock in &study.clocks {
        let mut number = 11;
        for method in [Method::NearestPairs, Method::Sampler] {
            for &load in loads.into_iter().flatten() {
                number += 1;
                let drawn = zero_time(study, clock, (method, load), number);
                let among = if FIRST.contains(&clock.clock.as_str()) { &mut first } else { &mut others };
                among.push_str(&drawn.unwrap_or_default());
            }
        }
    }
    format!(
        "<p class=\"note\">Sections that do nothing, measured: the density of what comes out, before anything is subtracted and after. The ideal is all at \
         0. Method-1 subtracts the readings just before and after, method-2 those of a thread beside.</p>{}",
        multiples(&first, &others, "The other clocks")
    )
}

fn zero_time(study: &Study, clock: &ClockStudy, (method, load): (Method, u32), number: u32) -> Option<String> {
    let of_load = clock.loads.iter().find(|of| of.busy_processes == load)?;
    let Outcome { before, after, k, k_untouched, .. } = of_load.zero.outcome(method)?;
    let curves = [("before".into(), before.as_ref()?), (format!("after {method}"), after.as_ref()?)];
    let words = format!("What is measured of nothing by {}, before and after {method}.", clock.clock);
    let title = format!("As figure {number}: {}, {method}, {}", clock.clock, study.plan.load.beside(load));
    let factors = format!("k {}; without interrupted ones {}", between(*k), between(*k_untouched));
    Some(panel(&title, &format!("{}<p class=\"note\">{}</p>", densities(&curves, "measured", &words), Text(&factors))))
}

/// What a reading costs after the load is injected, laid over one another.
pub(super) fn transients(study: &Study) -> String {
    if study.transients.is_empty() {
        return "<p class=\"note\">Without a load (--load), or without the time for it, nothing was injected.</p>"
            .into();
    }
    let panels = study.transients.iter().map(|of| {
        let said = match of.settles_after_ns {
            None => "no reading ended while the load worked".into(),
            Some(0.0) => "settled at once".into(),
            Some(ns) => format!("settled after {}", duration(ns)),
        };
        let rate = of.slices.iter().map(|slice| slice.readings).sum::<usize>();
        let said = format!("{said}; {rate} readings over {} injections", of.injections);
        panel(&of.clock, &format!("{}<p class=\"note\">{}</p>", transient(study, of), Text(&said)))
    });
    let most = study.plan.loads.iter().max().copied().unwrap_or(0);
    format!(
        "<p class=\"note\">The load ({}) works in the first half of each period and rests in the second; all injections are laid over one another. The median \
         cost of readings in each slice; solid upright: the load is injected, dashed: it rests.</p><div class=\"multiples\">{}</div>",
        Text(&study.plan.load.words(most)),
        panels.collect::<String>()
    )
}

fn transient(study: &Study, of: &Transient) -> String {
    let ns = |ticks: i64| ticks as f64 * 1e9 / study.counter.hertz as f64;
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
    figure.svg(&format!("Median cost of a reading of {} after a load is injected.", of.clock))
}

//! The page of a study of all clocks.

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::Method;
use tickscope_clock::density::Density;
use tickscope_clock::recipe::Recipe;
use tickscope_clock::study::{Cell, ClockStudy, Cost, LoadStudy, Study};

use super::cm_star::{self, densities};
use super::ramps::ramps;
use super::{Part, between, lead_of, legend, multiples, page, panel, parts, table, terms};
use crate::plot::{Axis, Figure, Ink, Room, Row, power_of_ten};
use crate::text::Text;

/// What the columns of the tables say.
const COLUMNS: [(&str, &str); 12] = [
    (
        "least, median, 99 of 100",
        "what one reading costs: the cheapest; as many are dearer as cheaper; only one in a hundred is dearer. It holds one reading of the \
         counter, which took the time",
    ),
    ("mean, deviation", "the mean of the costs and their standard deviation, interruptions and all"),
    ("median in a crowd", "the median cost with the most readers at once; beyond the processors they take turns"),
    ("reads/s", "readings a second of one reader that does nothing else"),
    ("step", "how far the clock goes in one go: it tells nothing finer, however cheap it is"),
    (
        "usable",
        "two durations that differ by less cannot be told apart by measuring each once. It is the step, and how unevenly readings take, in 19 of \
         20 measurements; what a reading costs on average is no part of it, since that can be subtracted",
    ),
    ("measures to ... from", "the shortest section whose duration comes out that exactly, in 19 of 20 measurements"),
    (
        "left by ...",
        "sections that do nothing are measured, so the result should be 0. What is left, at the median, when the cost of reading is subtracted by \
         each method: none, one constant (the median cost), one long-term mean, method-1 (the readings just before and after), method-2 (what a \
         thread beside saw at the time). Negative: too much was subtracted",
    ),
    (
        "use",
        "the method to use with this clock under this load: the simplest of those that leave about the least; none where that left more than nothing \
         subtracted did, in measurements that it was not chosen on",
    ),
    ("off", "what that method leaves on average in the better 19 of 20: of sections that do nothing"),
    ("off in a section", "the same of waits whose length is known"),
    (
        "rho_1, k predicted, k, k without interrupted",
        "the correlation of a reading's cost with the next one's, which method-1 assumes not to be negative; how much less durations scatter with \
         method-1, as predicted from one half of the measurements and as found on the other, also without those that an interrupt touched: it helps \
         above 1. In brackets what each lies between with 95 %, by stretches of time",
    ),
];

/// The page of a study.
pub fn study_page(study: &Study) -> String {
    let advice = lead_of(&study.findings(), &study.chapters());
    let mut list = vec![
        Part::of("Each clock at a glance", at_a_glance(study)),
        Part::of("What a reading costs", costs(study)),
        Part::of("How finely each clock can be used", resolutions(study)),
        Part::of("Several readers at once", crowds(study)),
        Part::of("While readers start and stop", ramps(study)),
        Part::of("After a load is injected", cm_star::transients(study)),
        Part::of("Cm*, figures 1 to 3: a running clock of two words", cm_star::running_clock(study)),
        Part::of("Cm*, figures 4 to 7: how readings are spread", cm_star::spreads(study)),
        Part::of("Cm*, figures 12 to 15: nothing, measured", cm_star::residuals(study)),
    ];
    list.extend(study.plan.loads.iter().enumerate().map(|(number, &busy)| Part {
        title: format!("All figures, {}", study.plan.load.beside(busy)),
        body: format!(
            "<h3>Cost and resolution</h3>{}<h3>What methods leave of sections that do nothing</h3>{}",
            figures_table(study, number),
            methods_table(study, number)
        ),
    }));
    list.push(Part::of("What the columns say", terms(&COLUMNS)));
    list.push(Part::of("Cost, reading by reading", histograms(study)));
    list.push(Part::of("Other pages", OTHER_PAGES.into()));
    let counter = &study.counter;
    let about = format!(
        "{} at {} Hz, {}; kernel's clocksource {}; {} processors",
        counter.name,
        counter.hertz,
        counter.declared,
        counter.clocksource.as_deref().unwrap_or("unknown"),
        study.cpus.len()
    );
    page("Clocks of this host", &about, &format!("{advice}{}", parts(&list)))
}

/// What the names of clocks stand for.
const CLOCKS: [(&str, &str); 6] = [
    (
        "tsc plain, before, after",
        "the processor's own counter (cntvct on ARM), not ordered, or ordered against what comes after it or before it",
    ),
    (
        "realtime ... thread-cpu",
        "the C library's clocks; most are read without entering the kernel. -coarse: cheaper, and stands still for milliseconds",
    ),
    ("... syscall", "the same clocks through a system call, as where the kernel allows no other way"),
    (
        "ticker thread",
        "a word in memory that a thread keeps at the counter; it stands still whenever that thread is not running",
    ),
    ("mutex", "the counter behind a lock"),
    ("unix socket, udp socket", "the counter, asked of another thread by a message"),
];

const OTHER_PAGES: &str = "<ul><li><code>tickscope clock --granularity --html FILE</code>: a load in ever shorter pulses, and where subtracting \
    nearby readings stops helping</li><li><code>tickscope clock --two-words --html FILE</code>: clocks read by halves, which routines are right and how \
    the others fail</li><li><code>tickscope clock --example --html FILE</code>: messages and calls between processes, as in the Cm* study</li></ul>";

/// The recipe for every clock under every load; then what the clocks are.
fn at_a_glance(study: &Study) -> String {
    let percent = study.plan.percent;
    let row = |clock: &ClockStudy| {
        let of_load = |load: &LoadStudy| {
            let Recipe { method, subtract_ns, good_to_ns, from_ns, refused } = load.recipe(percent);
            let still = || "of no use: stood still".to_string();
            let [good_to, from] = [good_to_ns, from_ns].map(|ns| ns.map_or_else(still, duration));
            let subtract =
                if method == Method::None { "nothing".into() } else { format!("{} ({method})", duration(subtract_ns)) };
            let refused = refused.map_or_else(String::new, |method| format!(", not by {method}"));
            [format!("{subtract}{refused}"), good_to, from]
        };
        [vec![clock.clock.clone()], clock.loads.iter().flat_map(of_load).collect()].concat()
    };
    let columns = study.plan.loads.iter().flat_map(|&busy| {
        let under = study.plan.load.beside(busy);
        [format!("subtract, {under}"), format!("then off by, {under}"), format!("to {percent} % from, {under}")]
    });
    let columns: Vec<String> = ["clock".into()].into_iter().chain(columns).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let absent = study.absent.iter().map(|absent| format!("<li>{}: {}</li>", Text(&absent.clock), Text(&absent.why)));
    let absent = absent.collect::<String>();
    let absent =
        if absent.is_empty() { absent } else { format!("<h3>Clocks that could not be read</h3><ul>{absent}</ul>") };
    format!(
        "<p class=\"note\">Read the clock at the start and at the end of a section, and subtract what stands here. One timing is then off by no more than the next \
         column in 19 of 20, by one reader; from the length in the last one on that is at most {percent} % of the section. Not by: one half of the \
         trials called for that method, and in the other half it left more than subtracting nothing did.</p>{}{absent}{}",
        table("Each clock at a glance", &columns, study.clocks.iter().map(row)),
        terms(&CLOCKS)
    )
}

/// From one value to another, and a dot.
struct Range {
    ends: [f64; 2],
    dot: f64,
}

/// A row a clock, a range a load, in two shapes: that which fits the screen is shown.
fn ranges(study: &Study, axis: &str, words: &str, of: fn(&Cell) -> Option<Range>) -> String {
    const HEIGHT: f64 = 22.0;
    const APART: f64 = 6.0;
    let names: Vec<String> = study.clocks.iter().map(|clock| clock.clock.clone()).collect();
    let all = study.clocks.iter().flat_map(|clock| &clock.loads).filter_map(|load| of(load.alone()));
    let axis = Axis::of_durations(all.flat_map(|range| range.ends)).named(axis);
    let draw = |room| {
        let mut figure = Figure::rows(axis.clone(), &names, HEIGHT, room);
        for (number, clock) in study.clocks.iter().enumerate() {
            for (kind, load) in clock.loads.iter().enumerate() {
                let Some(Range { ends, dot }) = of(load.alone()) else { continue };
                let shift = (kind as f64 - (clock.loads.len() as f64 - 1.0) / 2.0) * APART;
                figure.range(ends, dot, Row { number, shift }, Ink::of(kind));
            }
        }
        figure.svg(words)
    };
    format!(
        "{}<div class=\"wide\">{}</div><div class=\"narrow\">{}</div>",
        load_legend(study),
        draw(Room::Wide),
        draw(Room::Narrow)
    )
}

fn load_legend(study: &Study) -> String {
    legend(study.plan.loads.iter().map(|&busy| study.plan.load.beside(busy)))
}

/// Least to 99 of 100, a dot at the median, for every clock under every load.
fn costs(study: &Study) -> String {
    let words = "For every clock and load the cost of a reading: from the least to what 99 of 100 cost, a dot at the median. The table has the numbers.";
    let range = |cell: &Cell| Some(Range { ends: [cell.cost.min_ns, cell.cost.p99_ns], dot: cell.cost.median_ns });
    format!(
        "<p class=\"note\">One reader. From the cheapest reading to what 99 of 100 cost at most, a dot at the median. Each holds a stamp of the counter.</p>{}",
        ranges(study, "cost of a reading", words, range)
    )
}

/// The step, and to what more the readings' unevenness makes it.
fn resolutions(study: &Study) -> String {
    let words = "For every clock and load the step that the clock itself goes in, and a dot at the usable resolution. The table has the numbers.";
    let range = |cell: &Cell| {
        let usable = cell.usable_ns?;
        Some(Range { ends: [cell.resolution_ns?, usable], dot: usable })
    };
    format!(
        "<p class=\"note\">One reader. The dot: durations that differ by less cannot be told apart by measuring each once. The line begins at the step that the \
         clock itself goes in; where there is only a dot, the step is all. A row without a dot: the clock was never seen to step.</p>{}",
        ranges(study, "usable resolution", words, range)
    )
}

/// One small figure a clock: how many readings cost more than so much.
fn histograms(study: &Study) -> String {
    let mut html = String::from(
        "<p class=\"note\">Share of readings that cost more than so much, both by powers of ten: the tail is to the right. Alone, one line a load \
         as above; where a line ends, nothing costlier was seen.</p>",
    );
    html.push_str(&load_legend(study));
    html.push_str("<div class=\"multiples\">");
    for clock in &study.clocks {
        let tails: Vec<Vec<[f64; 2]>> = clock.loads.iter().map(|load| tail(&load.alone().cost)).collect();
        let of = |axis: usize| tails.iter().flatten().map(move |point| point[axis]);
        let percent = |share: f64| format!("{} %", power_of_ten(share * 100.0));
        let y = Axis::logarithmic(of(1).chain([1.0]), percent);
        let mut figure =
            Figure::plane(Axis::of_durations(of(0)).named("cost of a reading"), y.named("of the readings"));
        for (kind, points) in tails.iter().enumerate() {
            figure.line(points, Ink::of(kind));
        }
        let words = format!("Share of readings of {} that cost more than so much, one line a load.", clock.clock);
        html.push_str(&panel(&clock.clock, &figure.svg(&words)));
    }
    html.push_str("</div>");
    html
}

/// What share of the readings cost as much as a bin's limit or more; from the limit that none lay below.
fn tail(cost: &Cost) -> Vec<[f64; 2]> {
    let mut left = cost.readings;
    let all = cost.readings as f64;
    let from = [[cost.min_ns, 1.0]];
    let bins = cost.histogram.iter().filter_map(|bin| {
        left -= bin.readings;
        (left > 0).then_some([bin.below_ns, left as f64 / all])
    });
    from.into_iter().chain(bins).collect()
}

/// Cost and usable resolution against the number of readers; first the clocks for which that is felt.
fn crowds(study: &Study) -> String {
    if study.plan.readers.len() < 2 {
        return "<p class=\"note\">Only one number of readers was asked for (--readers).</p>".into();
    }
    let (mut felt, mut others) = (String::new(), String::new());
    for clock in &study.clocks {
        let is_felt = grows(clock, |cell| Some(cell.cost.median_ns)) || grows(clock, |cell| cell.usable_ns);
        let among = if is_felt { &mut felt } else { &mut others };
        let cost = against_readers(clock, "median cost", |cell| Some(cell.cost.median_ns));
        let usable = against_readers(clock, "usable resolution", |cell| cell.usable_ns);
        among.push_str(&panel(&clock.clock, &format!("{cost}{usable}{}", by_readers(study, clock))));
    }
    let none = if felt.is_empty() { "<p>There is no such clock.</p>" } else { "" };
    format!(
        "<p class=\"note\">The median cost of a reading and the usable resolution against the readers at once, one line a load; first the clocks of which \
         either is at least twice as much with the most readers as with one. Below them how the cost is spread, with its mean, its deviation and the readings \
         a second. Readers beyond the {} processors take turns: their curve is not that of as many processors.</p>{}{none}{}",
        study.cpus.len(),
        load_legend(study),
        multiples(&felt, &others, "The other clocks")
    )
}

/// How the cost is spread under the first load, a curve for each number of readers.
fn by_readers(study: &Study, clock: &ClockStudy) -> String {
    let Some(load) = clock.loads.first() else { return String::new() };
    let name = |cell: &Cell| {
        let turns = if cell.takes_turns { " by turns" } else { "" };
        let [mean, deviation] = [cell.cost.mean_ns, cell.cost.deviation_ns].map(duration);
        let reads = count(cell.reads_per_s);
        format!("{} at once{turns}: mean {mean}, deviation {deviation}, {reads} reads/s each", cell.readers)
    };
    let curves: Vec<(String, &Density)> =
        load.cells.iter().filter_map(|cell| Some((name(cell), cell.cost.density.as_ref()?))).collect();
    let words = format!("How the cost of a reading of {} is spread, one curve a number of readers.", clock.clock);
    densities(&curves, &format!("cost, {}", study.plan.load.beside(load.busy_processes)), &words)
}

/// So many, in a few letters.
fn count(of: f64) -> String {
    match of {
        of if of >= 1e6 => format!("{:.1} M", of / 1e6),
        of if of >= 1e3 => format!("{:.1} k", of / 1e3),
        of => format!("{of:.0}"),
    }
}

/// Whether it is at least twice as much with the most readers as with one, under any load.
fn grows(clock: &ClockStudy, of: fn(&Cell) -> Option<f64>) -> bool {
    clock.loads.iter().any(|load| {
        let most = load.cells.last().and_then(of);
        of(load.alone()).zip(most).is_some_and(|(alone, most)| most >= 2.0 * alone)
    })
}

fn against_readers(clock: &ClockStudy, what: &str, of: fn(&Cell) -> Option<f64>) -> String {
    let cells = || clock.loads.iter().flat_map(|load| &load.cells);
    let readers = cells().map(|cell| cell.readers as f64);
    let x = Axis::from_0(readers, |at| if at.fract() == 0.0 { format!("{at}") } else { String::new() });
    let y = Axis::of_durations_by_spread(cells().filter_map(of)).named(what);
    let mut figure = Figure::plane(x.named("readers at once"), y);
    for (kind, load) in clock.loads.iter().enumerate() {
        let point = |cell: &Cell| Some([cell.readers as f64, of(cell)?]);
        figure.line(&load.cells.iter().filter_map(point).collect::<Vec<_>>(), Ink::of(kind));
    }
    figure.svg(&format!("{what} of {} against the number of readers, one line a load.", clock.clock))
}

fn or_dash(ns: Option<f64>) -> String {
    ns.map_or_else(|| "–".into(), duration)
}

fn figures_table(study: &Study, number: usize) -> String {
    let row = |clock: &ClockStudy| {
        let load = &clock.loads[number];
        let cell = load.alone();
        let crowd = load.cells.last().map(|cell| cell.cost.median_ns);
        let Cost { min_ns, median_ns, p99_ns, mean_ns, deviation_ns, .. } = cell.cost;
        let cost = [min_ns, median_ns, p99_ns, mean_ns, deviation_ns].map(|ns| or_dash(Some(ns)));
        let ns = [cell.resolution_ns, cell.usable_ns, cell.shortest_section_ns].map(or_dash);
        let reads = vec![or_dash(crowd), count(cell.reads_per_s)];
        [vec![clock.clock.clone()], cost.to_vec(), reads, ns.to_vec()].concat()
    };
    let from = format!("measures to {} % from", study.plan.percent);
    let columns = [
        "clock",
        "least",
        "median",
        "99 of 100",
        "mean",
        "deviation",
        "median in a crowd",
        "reads/s",
        "step",
        "usable",
        &from,
    ];
    table("Cost and resolution", &columns, study.clocks.iter().map(row))
}

fn methods_table(study: &Study, number: usize) -> String {
    let row = |clock: &ClockStudy| {
        let zero = &clock.loads[number].zero;
        let left = Method::ALL.map(|method| or_dash(zero.outcome(method).map(|outcome| outcome.residual_median)));
        let pairs = zero.outcome(Method::NearestPairs);
        let [found, untouched] = [pairs.and_then(|pairs| pairs.k), pairs.and_then(|pairs| pairs.k_untouched)];
        let method = clock.loads[number].recipe(study.plan.percent).method;
        let off =
            [zero, &clock.loads[number].section].map(|test| or_dash(test.outcome(method).map(|outcome| outcome.error)));
        let ks = [zero.rho_1, zero.k_predicted, found, untouched].map(between).to_vec();
        [vec![clock.clock.clone()], left.to_vec(), vec![method.to_string()], off.to_vec(), ks].concat()
    };
    let columns = [
        "left by",
        "none",
        "constant",
        "long-term",
        "method-1",
        "method-2",
        "use",
        "off",
        "off in a section",
        "rho_1",
        "k predicted",
        "k",
        "k without interrupted",
    ];
    table("What methods leave of sections of no length", &columns, study.clocks.iter().map(row))
}

//! The benchmark of all clocks: advice, a correction for every clock under every load, figures, tables, and what
//! their words mean.

use tickscope_clock::advice::duration;
use tickscope_clock::benchmark::{Benchmark, Cell, ClockResult, Cost, SectionTest};
use tickscope_clock::compensation::Method;
use tickscope_clock::correction::Correction;
use tickscope_clock::measure::{InstructionCost, PUBLISHED};

use super::readers::{crowds, load_legend, ramps, spreads};
use super::{between, cm_star, rate};
use crate::document::{Block, Document, Tone, panel, part};
use crate::plot::{Axis, Figure, Ink, Room, Row, power_of_ten};

/// Head of the advice that comes before all other.
const BEFORE_ALL: &str = "Before all";

/// What the columns of the tables say.
const COLUMNS: [(&str, &str); 17] = [
    (
        "subtract, method",
        "from the difference of the readings around a section, and how that is found; of a method that finds it anew, \
         the typical value. '?': what one half of the trials called for left more than nothing in the other",
    ),
    ("good to ±", "19 of 20 timings are off by no more. '–': nothing is known, the clock stood still"),
    ("... % from", "the shortest section that one timing measures so well"),
    (
        "least, median, 99 of 100",
        "what one reading costs: the cheapest; as many are dearer as cheaper; only one in a hundred is dearer. It \
         holds one reading of the counter, which took the time",
    ),
    ("mean, deviation", "the mean of the costs and their standard deviation, interruptions and all"),
    ("median in a crowd", "the median cost with the most readers at once; beyond the processors they take turns"),
    ("reads/s", "readings a second of one reader that does nothing else"),
    ("step", "how far the clock goes in one go: it tells nothing finer, however cheap it is"),
    (
        "usable",
        "two sections that differ by less cannot be told apart from one timing each. It is the step, and how unevenly \
         readings take, in 19 of 20 measurements; what a reading costs on average is no part of it, since that can be \
         subtracted",
    ),
    (
        "left by",
        "sections that do nothing are measured, so the result should be 0. What is left, at the median, when the cost \
         of reading is subtracted by each method. Negative: too much was subtracted. '!': further from 0 than with \
         nothing subtracted",
    ),
    ("use", "the method of the correction"),
    ("off", "what that method leaves on average in the better 19 of 20: of sections that do nothing"),
    ("off in a section", "the same of waits whose length is known"),
    ("rho_1", "the correlation of a reading's cost with the next one's, which method-1 assumes not to be negative"),
    (
        "k predicted, k, k uninterrupted",
        "how much less durations scatter with method-1, as predicted from one half of the measurements and as found \
         on the other, also without those that an interrupt touched: it helps above 1. In brackets what each lies \
         between with 95 %, by stretches of time",
    ),
    ("touched", "measurements that took a microsecond and eight usual spreads longer than usual, of all of that half"),
    (
        "19 of 20",
        "the share of measurements that a statement is about: the rest were interrupted, and no clock can help that",
    ),
];

/// The ways to find what to subtract.
const METHODS: [(&str, &str); 5] = [
    ("none", "nothing is subtracted"),
    ("constant", "the median gap between two readings one right after the other"),
    ("long-term", "the mean of these gaps, interruptions and all"),
    (
        "method-1",
        "r3 - r2 less the mean of r2 - r1 and r4 - r3, read right before (r1, r2) and after (r3, r4) the section",
    ),
    ("method-2", "the mean of the gaps nearest to start and end, found by a thread on another processor all the time"),
];

/// What the names of clocks stand for.
const CLOCKS: [(&str, &str); 6] = [
    (
        "tsc plain, before, after",
        "the processor's own counter (cntvct on ARM), not ordered, or ordered against what comes after it or before it",
    ),
    (
        "realtime ... thread-cpu",
        "the C library's clocks; most are read without entering the kernel. -coarse: cheaper, and stands still for \
         milliseconds",
    ),
    ("... syscall", "the same clocks through a system call, as where the kernel allows no other way"),
    (
        "ticker thread",
        "a word in memory that a thread keeps at the counter; it stands still whenever that thread is not running",
    ),
    ("mutex", "the counter behind a lock"),
    ("unix socket, udp socket", "the counter, asked of another thread by a message"),
];

/// The benchmark as a document.
pub fn benchmark_document(benchmark: &Benchmark) -> Document {
    let mut parts = vec![
        part("Each clock at a glance", at_a_glance(benchmark)),
        part("How finely each clock can be used", resolutions(benchmark)).folded(),
        part("Several readers at once", crowds(benchmark)).folded(),
        part("While readers start and stop", ramps(benchmark)).folded(),
        part("After a load is injected", cm_star::transients(benchmark)).folded(),
        part("Cm*, figures 4 to 7: how readings are spread", spreads(benchmark)).folded(),
        part("Cm*, figures 12 to 15: nothing, measured", cm_star::residuals(benchmark)).folded(),
    ];
    parts.extend(benchmark.plan.loads.iter().enumerate().map(|(number, &busy)| {
        part(&format!("All figures, {}", benchmark.plan.load.phrase(busy)), figures(benchmark, number)).folded()
    }));
    parts.push(part("What the columns say", vec![Block::terms(&COLUMNS)]).folded());
    parts.push(part("What the methods and clocks are", vec![Block::terms(&METHODS), Block::terms(&CLOCKS)]).folded());
    parts.push(part("Cost, reading by reading", histograms(benchmark)).folded());
    parts.push(part("The machine", machine(benchmark)).folded());
    Document {
        title: "Clocks of this host".into(),
        about: about(benchmark),
        lead: lead(benchmark),
        first: costs(benchmark),
        parts,
    }
}

/// What contradicts a clock's promises, and advice: what comes before all and the first advice stand open, the rest is
/// one click away.
fn lead(benchmark: &Benchmark) -> Vec<Block> {
    let findings: Vec<Block> = benchmark.findings().into_iter().map(Block::Alarm).collect();
    let mut blocks = if findings.is_empty() { findings } else { vec![Block::Box(Tone::Bad, findings)] };
    let chapters = benchmark.chapters();
    let warned = usize::from(chapters.first().is_some_and(|chapter| chapter.head == BEFORE_ALL));
    for (number, chapter) in chapters.into_iter().enumerate() {
        let sentences: Vec<Block> = chapter.sentences.into_iter().map(Block::paragraph).collect();
        match number {
            before if before < warned => blocks.extend([Block::heading(chapter.head)].into_iter().chain(sentences)),
            first if first == warned => {
                let mut sentences = sentences.into_iter();
                blocks.push(Block::heading(chapter.head));
                blocks.extend(sentences.next());
                let others: Vec<Block> = sentences.collect();
                if !others.is_empty() {
                    blocks.push(Block::Folded("The same under other loads, and by another clock".into(), others));
                }
            }
            _ => blocks.push(Block::Folded(chapter.head.into(), sentences)),
        }
    }
    blocks
}

fn about(benchmark: &Benchmark) -> String {
    let counter = &benchmark.counter;
    format!(
        "{} at {} Hz, {}; {}; hypervisor {}; kernel's clocksource {}; {} processors; took {:.0} s",
        counter.name,
        counter.hertz,
        counter.declared,
        if counter.trapped { "each reading of it is trapped" } else { "read directly, not trapped" },
        counter.hypervisor.as_deref().unwrap_or("none"),
        counter.clocksource.as_deref().unwrap_or("unknown"),
        benchmark.cpus.len(),
        benchmark.took_s
    )
}

/// The correction of every clock under every load.
fn at_a_glance(benchmark: &Benchmark) -> Vec<Block> {
    let percent = benchmark.plan.percent;
    let words = format!(
        "Read the clock at the start and at the end of a section, and subtract what stands here. One timing is then \
         good to the next column in 19 of 20, by one reader; from the length in the last one on that is at most \
         {percent} % of the section."
    );
    let from = format!("{percent} % from");
    let mut blocks = vec![Block::paragraph(words)];
    for (number, &busy) in benchmark.plan.loads.iter().enumerate() {
        let row = |clock: &ClockResult| {
            let Correction { method, subtract_ns, good_to_ns, from_ns, refused } =
                clock.loads[number].correction(percent);
            let method = format!("{method}{}", if refused.is_some() { "?" } else { "" });
            vec![clock.clock.clone(), duration(subtract_ns), method, or_dash(good_to_ns), or_dash(from_ns)]
        };
        let load = benchmark.plan.load.phrase(busy);
        let columns = ["clock", "subtract", "method", "good to ±", &from];
        let table = Block::table(&format!("At a glance, {load}"), &columns, benchmark.clocks.iter().map(row));
        let turns = benchmark.clocks.iter().find_map(|clock| clock.loads[number].turns_per_s).map(|turns| {
            Block::paragraph(format!("The load: {}, {} turns/s", benchmark.plan.load.words(busy), rate(turns)))
        });
        let of_load = [table.explained()].into_iter().chain(turns);
        match number {
            0 => blocks.extend([Block::heading(&load)].into_iter().chain(of_load)),
            _ => blocks.push(Block::Folded(load, of_load.collect())),
        }
    }
    if !benchmark.absent.is_empty() {
        blocks.push(Block::heading("Clocks that could not be read"));
        blocks
            .push(Block::List(benchmark.absent.iter().map(|of| format!("{}: {}", of.clock, of.why).into()).collect()));
    }
    blocks
}

/// From one value to another, and a dot.
struct Range {
    ends: [f64; 2],
    dot: f64,
}

/// A row a clock, a range a load, in two shapes: that which fits the screen is shown.
fn ranges(benchmark: &Benchmark, axis: &str, words: &str, of: fn(&Cell) -> Option<Range>) -> Vec<Block> {
    const HEIGHT: f64 = 22.0;
    const APART: f64 = 6.0;
    let names: Vec<String> = benchmark.clocks.iter().map(|clock| clock.clock.clone()).collect();
    let all = benchmark.clocks.iter().flat_map(|clock| &clock.loads).filter_map(|load| of(load.alone()));
    let axis = Axis::of_durations(all.flat_map(|range| range.ends)).named(axis);
    let draw = |room| {
        let mut figure = Figure::rows(axis.clone(), &names, HEIGHT, room);
        for (number, clock) in benchmark.clocks.iter().enumerate() {
            for (kind, load) in clock.loads.iter().enumerate() {
                let Some(Range { ends, dot }) = of(load.alone()) else { continue };
                let shift = (kind as f64 - (clock.loads.len() as f64 - 1.0) / 2.0) * APART;
                figure.range(ends, dot, Row { number, shift }, Ink::of(kind));
            }
        }
        figure.svg(words)
    };
    vec![load_legend(benchmark), Block::WideOrNarrow([draw(Room::Wide), draw(Room::Narrow)])]
}

/// Least to 99 of 100, a dot at the median, for every clock under every load.
fn costs(benchmark: &Benchmark) -> Vec<Block> {
    let words = "For every clock and load the cost of a reading: from the least to what 99 of 100 cost, a dot at the \
                 median. The tables have the numbers.";
    let range = |cell: &Cell| Some(Range { ends: [cell.cost.min_ns, cell.cost.p99_ns], dot: cell.cost.median_ns });
    let note = "What a reading costs, one reader: from the cheapest to what 99 of 100 cost at most, a dot at the \
                median. Each holds a stamp of the counter.";
    [vec![Block::note(note)], ranges(benchmark, "cost of a reading", words, range)].concat()
}

/// The step, and to what more the readings' unevenness makes it.
fn resolutions(benchmark: &Benchmark) -> Vec<Block> {
    let words = "For every clock and load the step that the clock itself goes in, and a dot at the usable resolution. \
                 The table has the numbers.";
    let range = |cell: &Cell| {
        let usable = cell.usable_ns?;
        Some(Range { ends: [cell.resolution_ns?, usable], dot: usable })
    };
    let note = "One reader. The dot: durations that differ by less cannot be told apart by measuring each once. The \
                line begins at the step that the clock itself goes in; where there is only a dot, the step is all. A \
                row without a dot: the clock was never seen to step.";
    [vec![Block::note(note)], ranges(benchmark, "usable resolution", words, range)].concat()
}

/// One small figure a clock: how many readings cost more than so much.
fn histograms(benchmark: &Benchmark) -> Vec<Block> {
    let note = "Share of readings that cost more than so much, both by powers of ten: the tail is to the right. \
                Alone, one line a load as above; where a line ends, nothing costlier was seen.";
    let mut panels = Vec::new();
    for clock in &benchmark.clocks {
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
        panels.push(panel(&clock.clock, vec![figure.block(&words)]));
    }
    vec![Block::note(note), load_legend(benchmark), Block::panels(panels)]
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

fn or_dash(ns: Option<f64>) -> String {
    ns.map_or_else(|| "–".into(), duration)
}

/// Every clock under one load: costs, what methods leave, by what factor method-1 helps.
fn figures(benchmark: &Benchmark, number: usize) -> Vec<Block> {
    let percent = benchmark.plan.percent;
    let from = format!("{percent} % from");
    let costs = |clock: &ClockResult| {
        let load = &clock.loads[number];
        let cell = load.alone();
        let crowd = load.cells.last().map(|cell| cell.cost.median_ns);
        let Cost { min_ns, median_ns, p99_ns, mean_ns, deviation_ns, .. } = cell.cost;
        let cost = [min_ns, median_ns, p99_ns, mean_ns, deviation_ns].map(|ns| or_dash(Some(ns)));
        let ns = [cell.resolution_ns, cell.usable_ns, cell.shortest_section_ns].map(or_dash);
        let reads = vec![or_dash(crowd), rate(cell.reads_per_s)];
        [vec![clock.clock.clone()], cost.to_vec(), reads, ns.to_vec()].concat()
    };
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
    let leave = |clock: &ClockResult| {
        let load = &clock.loads[number];
        let method = load.correction(percent).method;
        let off = [&load.zero, &load.section].map(|test| or_dash(test.outcome(method).map(|outcome| outcome.error)));
        let left = Method::ALL.map(|method| left(&load.zero, method));
        [vec![clock.clock.clone()], left.to_vec(), vec![method.to_string()], off.to_vec()].concat()
    };
    let methods =
        ["left by", "none", "constant", "long-term", "method-1", "method-2", "use", "off", "off in a section"];
    let factors = |clock: &ClockResult| {
        let zero = &clock.loads[number].zero;
        let pairs = zero.outcome(Method::NearestPairs);
        let [found, untouched] = [pairs.and_then(|pairs| pairs.k), pairs.and_then(|pairs| pairs.k_untouched)];
        let ks = [zero.rho_1, zero.k_predicted, found, untouched].map(between).to_vec();
        let touched = format!("{} of {}", zero.touched, zero.trials - zero.trials / 2);
        [vec![clock.clock.clone()], ks, vec![touched]].concat()
    };
    let of_factors = ["clock", "rho_1", "k predicted", "k", "k uninterrupted", "touched"];
    vec![
        Block::heading("Cost and resolution"),
        Block::table("Cost and resolution", &columns, benchmark.clocks.iter().map(costs)).explained(),
        Block::heading("What methods leave of sections that do nothing"),
        Block::table("What methods leave of sections that do nothing", &methods, benchmark.clocks.iter().map(leave))
            .explained(),
        Block::heading("By what factor method-1 makes these scatter less"),
        Block::table("Factors of method-1", &of_factors, benchmark.clocks.iter().map(factors)).explained(),
    ]
}

/// Marked where it is further from 0 than if nothing had been subtracted.
fn left(test: &SectionTest, method: Method) -> String {
    let residual = |method| test.outcome(method).map(|outcome| outcome.residual_median);
    let worse = residual(method).zip(residual(Method::None)).is_some_and(|(with, without)| with.abs() > without.abs());
    format!("{}{}", or_dash(residual(method)), if worse { "!" } else { "" })
}

/// What stands between a program and the clocks, and whether the processors are equally fast.
fn machine(benchmark: &Benchmark) -> Vec<Block> {
    let mut blocks: Vec<Block> = benchmark.order().into_iter().map(Block::paragraph).collect();
    for published in PUBLISHED {
        let of = |cost: &&InstructionCost| cost.instruction == published.instruction;
        let ours: Vec<String> = benchmark.instructions.iter().filter(of).map(instruction).collect();
        if !ours.is_empty() {
            let ([few, many], cloud) = (published.bare_ns, published.cloud_ns);
            blocks.push(Block::paragraph(format!(
                "{}: {}; published: {few:.0} ns over 10^5 and {many:.0} over 10^10 on bare metal, {cloud:.0} on a \
                 cloud's node",
                published.instruction,
                ours.join(", ")
            )));
        }
    }
    blocks.push(Block::paragraph(
        "The same piece of computing, again and again on each processor, to see whether they are equally fast:",
    ));
    let speed = benchmark.speeds.iter().map(|speed| {
        let [least, median] = [speed.work_ns_min, speed.work_ns_median].map(duration);
        vec![speed.cpu.to_string(), least, median, format!("{:.2} %", speed.slower_percent)]
    });
    let columns = ["processor", "at best", "in the median", "slower than the fastest at best"];
    blocks.push(Block::table("Speed of the processors", &columns, speed));
    blocks
}

fn instruction(cost: &InstructionCost) -> String {
    let power = (cost.reads as f64).log10();
    format!("{:.1} ns over 10^{power:.0} readings ({:.1} uninterrupted)", cost.ns, cost.median_ns)
}

#[cfg(test)]
mod tests {
    use tickscope_clock::compensation::{Halves, Length, Trial, judge};

    use super::*;

    /// Sections of no length that seem to take `measured`, next to pairs of readings that take `pair`.
    fn test([pair, measured]: [i64; 2]) -> SectionTest {
        let trial = Trial { t_1: pair, t_m: measured, t_4: pair, truth: 0, sampled: None, touched: false };
        let trials = vec![trial; 100];
        SectionTest::new(0, 100, judge(Halves::of(&trials), &[pair, pair + 1, pair], Length::Zero).unwrap(), None)
    }

    #[test]
    fn what_is_left_is_marked_where_it_is_further_from_0_than_with_nothing_subtracted() {
        let said = |trial| left(&test(trial), Method::Constant);
        let trials = [[4_034_000, 34_000], [41, 20], [40, 20], [40, 40], [0, 0]];
        assert_eq!(trials.map(said), ["-4.0 ms!", "-21.0 ns!", "-20.0 ns", "0.0 ns", "0.0 ns"]);
        assert_eq!(left(&test([40, 40]), Method::Sampler), "–");
    }
}

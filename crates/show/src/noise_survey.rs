//! What `tickscope noise` found: what each core lost, its detours by length, the longest, and what rules make of them.
//!
//! Guarantees: lengths and shares are intervals, rounded outward; what a rule removed, or why it abstained, stands
//! beside its figures, and the raw figures first. Deliberately absent: computing.

use tickscope_noise::advice::{Advice, Lever, advice};
use tickscope_noise::detector::Detector;
use tickscope_noise::detour::Detour;
use tickscope_noise::shape::{PUBLISHED, Shape};
use tickscope_noise::tally::{Band, LongDetour};
use tickscope_noise::{CauseClass, CauseSum, CoreProfile, DetourCause, NoiseProfile};
use tickscope_tick::{Decimal, Unit, counted, decimal_down, decimal_up};

use crate::clock_page::rate;
use crate::document::{Block, Document, Words, part};

/// Detours of a core that are listed; the JSON has more.
const MOST_LISTED: usize = 5;
/// Causes of a core that are listed; the JSON has all.
const MOST_CAUSES: usize = 12;

const TERMS: [(&str, &str); 7] = [
    (
        "cause",
        "each detour has one; explained is how much of all of them lies within what the kernel told. Assumed, and no \
               more: a softirq or an interrupt that takes a quarter of a detour is its cause, since the way into the \
               kernel and out is in no event. docs/noise.md has the order in which they are tried",
    ),
    (
        "worth",
        "what the detours lost that a setting moves: the most that a change can win. not told: the kernel's causes do \
               not have it, or were not recorded",
    ),
    ("detour", "two neighbouring readings further apart than the threshold: something else had the core"),
    ("length", "how far these readings are apart: more by a reading's width or less, and a pass of the loop is in it"),
    (
        "lost",
        "what the detours took from the loop: at least the lengths less a threshold and a width each, at most the \
              lengths and a width each",
    ),
    ("removed", "values that a rule calls outliers; a small skewness may come from deleting genuine ones"),
    (
        "medcouple",
        "skewness that outliers do not move, from -1 to 1; of several traces the least, the median and the \
                   greatest",
    ),
];

/// The profile as a document.
pub fn noise_document(profile: &NoiseProfile) -> Document {
    let cores = profile.cores.iter();
    let missing = profile.missing.iter().map(Block::paragraph);
    let mut parts = vec![
        part("Detours by length", vec![by_length(profile)]),
        part("Causes", causes(profile)),
        part("The longest", vec![longest(profile)]),
        part("Advice", vec![advised(profile)]),
        part("Rules for outliers", rules(profile)),
        part("Words", vec![Block::terms(&TERMS)]),
    ];
    if profile.detector == Detector::Ftq {
        parts.insert(0, part("Work in quanta of time", vec![work(profile)]));
    }
    Document {
        title: "Noise of this machine".into(),
        about: format!("{}; the counter at {} Hz, {}", profile.detector, profile.hertz, profile.step),
        lead: cores.map(|of| Block::paragraph(sentence(of, profile.hertz))).chain(missing).collect(),
        first: Vec::new(),
        parts,
    }
}

/// An amount in the unit that fits.
fn near(ticks: i64, hertz: u64) -> String {
    let unit = Unit::for_durations_up_to(hertz, ticks);
    format!("{} {}", unit.near(ticks), unit.name())
}

fn between([lo, hi]: [i64; 2], hertz: u64) -> String {
    let unit = Unit::for_durations_up_to(hertz, hi);
    format!("{} to {} {}", unit.down(lo), unit.up(hi), unit.name())
}

/// A share in percent, outward.
fn percent([lo, hi]: [f64; 2]) -> String {
    // Doubles of at most 15 digits: a millionth of a percent more holds whatever is rounded here.
    const PARTS: f64 = 1e12;
    let whole = PARTS as i128 / 100;
    let [lo, hi]: [Decimal; 2] =
        [decimal_down((lo * PARTS).floor() as i128, whole, 3), decimal_up((hi * PARTS).ceil() as i128, whole, 3)];
    format!("{lo} to {hi} %")
}

fn a_second(count: u64, of: &CoreProfile, hertz: u64) -> f64 {
    count as f64 * hertz as f64 / of.measured_ticks.max(1) as f64
}

fn sentence(of: &CoreProfile, hertz: u64) -> String {
    let nanoseconds = Unit::nanoseconds(hertz, 1);
    let above = [(1_000, "1 µs"), (10_000, "10 µs"), (100_000, "100 µs"), (1_000_000, "1 ms")];
    let above = above.map(|(ns, name)| format!("{} above {name}", rate(a_second(of.detours.at_least(ns), of, hertz))));
    let backward = match of.detours.backward_count {
        0 => String::new(),
        count => format!(
            ". The counter ran BACKWARD {}, first from {} to {}: trust no figure",
            counted(count, "time"),
            of.detours.backward[0].before,
            of.detours.backward[0].after
        ),
    };
    format!(
        "{}: {} of {} lost in {}; a second {}, {}. Threshold {} ns: nine passes of {} ns, and a reading's width of {} \
         ns; whatever lasts longer than {} ns was found{backward}",
        of.name(),
        percent(of.lost_share),
        near(of.measured_ticks, hertz),
        counted(of.count, "detour"),
        rate(a_second(of.count, of, hertz)),
        above.join(", "),
        nanoseconds.up(of.limit.threshold_ticks),
        nanoseconds.up(of.limit.pass_ticks),
        nanoseconds.up(of.limit.width_ticks),
        nanoseconds.up(of.resolution_ticks),
    )
}

fn by_length(profile: &NoiseProfile) -> Block {
    let hertz = profile.hertz;
    let row = |of: &CoreProfile, band: &Band| {
        let from = band.from_ticks.max(of.limit.threshold_ticks + 1);
        let share = tickscope_noise::profile::share(band.lost_ticks, of.measured_ticks, of.limit.width_ticks);
        let rate = rate(a_second(band.count, of, hertz));
        [of.name(), near(from, hertz), band.count.to_string(), rate, percent(share)].map(Words::from).into()
    };
    let rows = profile.cores.iter().flat_map(|of| {
        let bands = of.detours.bands.iter().filter(|band| band.count > 0);
        bands.map(move |band| row(of, band))
    });
    Block::table("Detours by length", &["", "length from", "detours", "a second", "lost"], rows)
}

fn longest(profile: &NoiseProfile) -> Block {
    let rows = profile.cores.iter().flat_map(|of| {
        of.detours.longest.iter().take(MOST_LISTED).map(move |LongDetour { detour, cause }| {
            let Detour { before, after } = detour;
            let lost = between(of.limit.lost_ticks(detour.difference()), profile.hertz);
            let cause = cause.as_ref().map_or_else(|| "not recorded".into(), cause_words);
            [of.name(), lost, before.to_string(), after.to_string(), cause].map(Words::from).into()
        })
    });
    let heads = ["", "lost", "from tick", "to tick", "cause"];
    Block::table_ending_in_words("The longest detours", &heads, rows)
}

/// What took most of each core, and what the kernel counted.
fn causes(profile: &NoiseProfile) -> Vec<Block> {
    let hertz = profile.hertz;
    let row = |of: &CoreProfile, sum: &CauseSum| {
        let share = tickscope_noise::profile::share(sum.lost_ticks, of.measured_ticks, of.limit.width_ticks);
        let (rate, longest) = (rate(a_second(sum.count, of, hertz)), near(sum.longest_ticks, hertz));
        let explained = match sum.lost_ticks[1] {
            0 => "–".into(),
            most => format!("{:.0} %", 100.0 * sum.explained_ticks as f64 / most as f64),
        };
        let cause = cause_words(&sum.cause);
        [of.name(), sum.count.to_string(), rate, longest, percent(share), explained, cause].map(Words::from).into()
    };
    let rows = profile.cores.iter().flat_map(|of| {
        let sums = of.causes.iter().flatten().take(MOST_CAUSES);
        sums.map(move |sum| row(of, sum))
    });
    let rows: Vec<Vec<Words>> = rows.collect();
    let heads = ["", "detours", "a second", "longest", "lost", "explained", "cause"];
    let table = Block::table_ending_in_words("Causes", &heads, rows.into_iter());
    let has_any = profile.cores.iter().any(|of| of.causes.is_some());
    let counted = profile.cores.iter().map(|of| Words::from(counts(of)));
    has_any.then_some(table).into_iter().chain([Block::List(counted.collect())]).collect()
}

fn counts(of: &CoreProfile) -> String {
    let tickscope_noise::profile::ThreadCounts { preempted, waited, faults } = of.counts;
    let [preempted, waited, faults] = [preempted, waited, faults].map(|count| count.to_string());
    let stolen = match of.stolen_ns {
        None => "nothing, it has no such count".into(),
        Some([lo, hi]) => format!("{} to {} ms", lo / 1_000_000, hi / 1_000_000),
    };
    format!(
        "{}: the kernel counted that the detector was preempted {preempted} times, waited {waited} times and faulted \
         in {faults} pages; of stolen time it says {stolen}",
        of.name()
    )
}

fn cause_words(cause: &DetourCause) -> String {
    let DetourCause { class, what, waited } = cause;
    let how = match waited {
        Some(true) => "waited",
        Some(false) => "preempted",
        None => "away",
    };
    match class {
        CauseClass::Unknown => format!("unknown: {what}"),
        CauseClass::RealTimeLimit => format!("real-time limit, meanwhile {what}: the measurement's own"),
        CauseClass::Migration => format!("migration to {what}"),
        CauseClass::Switch => format!("switch, {how}: {what}"),
        CauseClass::Fault => what.clone(),
        CauseClass::Softirq => format!("softirq {what}"),
        CauseClass::Interrupt if what == "local_timer" => "interrupt local_timer, the timer's tick".into(),
        CauseClass::Interrupt => format!("interrupt {what}"),
        CauseClass::HypervisorOrHardware => "hypervisor or hardware: no event of the kernel".into(),
    }
}

fn work(profile: &NoiseProfile) -> Block {
    let rows = profile.cores.iter().filter_map(|of| {
        let work = of.work?;
        let cells = [of.name(), work.quanta.to_string(), work.idle.to_string(), work.most.to_string()];
        Some(cells.into_iter().chain([percent(work.lost_share)]).map(Words::from).collect())
    });
    Block::table("Work in quanta", &["", "quanta", "without work", "passes of the best", "lost against it"], rows)
}

fn rules(profile: &NoiseProfile) -> Vec<Block> {
    let rows = profile.cores.iter().flat_map(|of| of.shapes.iter().map(move |shape| rule_cells(of.name(), shape)));
    let why = profile.cores.iter().flat_map(|of| {
        let why = of.shapes.iter().filter_map(move |shape| Some((of, &shape.rule, shape.why.as_ref()?)));
        why.map(|(of, rule, why)| Words::from(format!("{}: {rule} abstained: {why}", of.name())))
    });
    let mut blocks = vec![Block::table("Rules for outliers", &RULE_HEADS, rows)];
    let of = profile.cores.first().map(|of| Block::paragraph(format!("Of: {}.", of.shapes_of)));
    blocks.extend(of);
    let why: Vec<Words> = why.collect();
    if !why.is_empty() {
        blocks.push(Block::List(why));
    }
    if profile.detector == Detector::Fwq {
        let [raw, cleaned] = PUBLISHED;
        blocks.push(Block::paragraph(format!(
            "The study published mean skewness {} and kurtosis {} raw, {} and {} by the rule ipad.",
            raw[0], raw[1], cleaned[0], cleaned[1]
        )));
    }
    blocks
}

/// Settings of the machine, with what each is worth.
fn advised(profile: &NoiseProfile) -> Block {
    let row = |Advice { setting, change, worth }: Advice| {
        let name = match setting.lever {
            Lever::IsolatedCores => "isolated cores",
            Lever::TicklessCores => "tickless cores",
            Lever::InterruptAffinity => "interrupts here",
            Lever::Governor => "governor",
            Lever::HugePages => "huge pages",
            Lever::RealTimeLimit => "real-time limit",
            Lever::Steal => "steal time",
        };
        let found = match (setting.found, setting.unread) {
            (Some(found), _) if found.is_empty() => "none".into(),
            (Some(found), _) => found,
            (None, why) => why.unwrap_or_else(|| "not read".into()),
        };
        let [of_lost, of_time] = worth.map_or_else(
            || ["not told".into(), "not told".into()],
            |worth| [percent(worth.of_lost), percent(worth.of_time)],
        );
        let change = change.unwrap_or_else(|| "nothing to change, as far as is known".into());
        [name.into(), of_lost, of_time, format!("found {found}; {change}")].map(Words::from).into()
    };
    let heads = ["", "worth of lost time", "of all time", "found, and what to change"];
    Block::table_ending_in_words("Advice", &heads, advice(profile).into_iter().map(row))
}

/// Heads of a table of rules.
pub(crate) const RULE_HEADS: [&str; 8] =
    ["", "rule", "traces", "abstained", "removed %", "skewness", "kurtosis", "medcouple"];

/// A row of it, with what it is of.
pub(crate) fn rule_cells(name: String, shape: &Shape) -> Vec<Words> {
    let figure = |figure: Option<f64>| figure.map_or_else(|| "–".into(), |figure| format!("{figure:.2}"));
    let medcouple = match shape.medcouple {
        None => "–".into(),
        Some([_, median, _]) if shape.traces == 1 => format!("{median:.2}"),
        Some([least, median, most]) => format!("{least:.2}, {median:.2}, {most:.2}"),
    };
    let removed = match shape.of {
        0 => "–".into(),
        of => format!("{:.3}", 100.0 * shape.removed as f64 / of as f64),
    };
    let (traces, abstained) = (shape.traces.to_string(), shape.abstained.to_string());
    let figures = [figure(shape.skewness), figure(shape.kurtosis), medcouple];
    [name, shape.rule.clone(), traces, abstained, removed].into_iter().chain(figures).map(Words::from).collect()
}

//! `tickscope clock`: what this host's clocks cost, how finely each can be used, and what to subtract.

use serde::Serialize;
use tickscope_clock::advice::duration;
use tickscope_clock::benchmark::{Benchmark, BenchmarkPlan, ClockResult, LoadResult, PulseTest, Sweep};
use tickscope_clock::correction::Correction;
use tickscope_clock::load::{self, Load};
use tickscope_clock::measure::{self, Clock, TwoWordPlan, pulses};
use tickscope_clock::two_word::contention::Contention;
use tickscope_host::affinity;
use tickscope_host::facts::CounterFacts;
use tickscope_show::clock_page::{benchmark_document, sweep_document, two_words_document};
use tickscope_show::document::Document;
use tickscope_store::write_whole;

use crate::chosen_run;
use crate::failure::Failure;
use crate::load_factor::load_factor;
use crate::options::{
    BenchmarkOptions, ClockOptions, ClockPart, ExampleOptions, LoadKind, LoadOptions, OutputOptions,
    RestingLoadOptions, SweepOptions, TwoWordsOptions,
};
use crate::output::{expect_folder, note, print, print_json};
use crate::progress::Progress;
use crate::show::Opened;

/// Benchmarks the clocks, or does what is asked for instead; exit code 3 where a clock breaks its promise.
pub fn clock(options: &ClockOptions) -> Result<(), Failure> {
    let output = match &options.part {
        None => Some(&options.benchmark.output),
        Some(ClockPart::Sweep(options)) => Some(&options.output),
        Some(ClockPart::LoadFactor(_)) => None,
        Some(ClockPart::TwoWords(options)) => Some(&options.output),
        Some(ClockPart::Example(options)) => Some(&options.output),
    };
    // Before a minute's work.
    output.and_then(|output| output.html.as_deref()).map_or(Ok(()), |place| expect_folder(place, "--html"))?;
    match &options.part {
        None => benchmark(&options.benchmark),
        Some(ClockPart::Sweep(options)) => sweep(options),
        Some(ClockPart::LoadFactor(options)) => load_factor(options),
        Some(ClockPart::TwoWords(options)) => two_words(options),
        Some(ClockPart::Example(options)) => example(options),
    }
}

fn benchmark(options: &BenchmarkOptions) -> Result<(), Failure> {
    let plan = plan(options)?;
    let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
    let mut progress = Progress::of("clocks");
    let benchmark = measure::benchmark(&plan, &facts, &mut |at| progress.say(at)).map_err(Failure::work)?;
    progress.over();
    let findings = benchmark.findings();
    show(&options.output, || benchmark_document(&benchmark), &BenchmarkJson::of(&benchmark))?;
    if findings.is_empty() { Ok(()) } else { Err(Failure::finding(findings.join("; "))) }
}

/// Writes the page and prints what was found, as asked.
fn show(output: &OutputOptions, document: impl Fn() -> Document, json: &impl Serialize) -> Result<(), Failure> {
    if let Some(place) = &output.html {
        write_whole(place, document().html().as_bytes())?;
    }
    match output.json {
        true => print_json(json),
        false => print(document().text().as_bytes()),
    }
}

/// A benchmark as JSON: every figure, with the advice and findings derived from them.
#[derive(Serialize)]
struct BenchmarkJson<'a> {
    version: u32,
    #[serde(flatten)]
    benchmark: &'a Benchmark,
    clocks: Vec<ClockJson<'a>>,
    advice: Vec<String>,
    order: Vec<String>,
    findings: Vec<String>,
}

#[derive(Serialize)]
struct ClockJson<'a> {
    #[serde(flatten)]
    clock: &'a ClockResult,
    words: String,
    loads: Vec<LoadJson<'a>>,
}

#[derive(Serialize)]
struct LoadJson<'a> {
    #[serde(flatten)]
    load: &'a LoadResult,
    correction: Correction,
}

impl<'a> BenchmarkJson<'a> {
    fn of(benchmark: &'a Benchmark) -> Self {
        let load = |load: &'a LoadResult| LoadJson { load, correction: load.correction(benchmark.plan.percent) };
        let clock = |clock: &'a ClockResult| {
            let loads = clock.loads.iter().map(load).collect();
            ClockJson { clock, words: clock.words(), loads }
        };
        let clocks = benchmark.clocks.iter().map(clock).collect();
        let (advice, order, findings) = (benchmark.advice(), benchmark.order(), benchmark.findings());
        Self { version: 1, benchmark, clocks, advice, order, findings }
    }
}

/// Upper limit of `--seconds`, about 11 days.
const SECONDS_MAX: f64 = 1e6;
/// Turns of an injected load in the time that a clock is read in.
const TURNS_MIN: f64 = 5.0;

fn refuse<T>(what: &str, found: impl std::fmt::Display) -> Result<T, Failure> {
    Err(Failure::input(format!("expected {what}, found {found}")))
}

/// `--seconds` above 0.
pub(crate) fn seconds(seconds: f64) -> Result<f64, Failure> {
    let fit = seconds > 0.0 && seconds <= SECONDS_MAX;
    if fit { Ok(seconds) } else { refuse("--seconds above 0 and at most 1000000", seconds) }
}

/// What the background load does, on processors that are allowed.
pub(crate) fn load(placed: &LoadOptions, injected: Option<load::Injection>) -> Result<Load, Failure> {
    let allowed = affinity::allowed_cpus().map_err(Failure::work)?;
    if let Some(barred) = placed.load_cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        return refuse(&format!("--load-cpus of {}", allowed.join(", ")), barred);
    }
    let kind = match placed.load_kind {
        LoadKind::Spin => load::LoadKind::Spin,
        LoadKind::Replica => load::LoadKind::Replica,
        LoadKind::Messages => load::LoadKind::Messages,
    };
    Ok(Load { kind, cpus: placed.load_cpus.clone(), injected })
}

/// Sizes of the load, ascending, each once.
pub(crate) fn sizes(load: &[u32]) -> Vec<u32> {
    let mut sizes = load.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn plan(options: &BenchmarkOptions) -> Result<BenchmarkPlan, Failure> {
    let seconds = seconds(options.seconds)?;
    if !(options.percent.is_finite() && options.percent > 0.0) {
        return refuse("--percent above 0", options.percent);
    }
    if options.readers == Some(0) {
        return refuse("--readers of at least 1", 0);
    }
    let RestingLoadOptions { placed, inject } = &options.background;
    let load = load(placed, *inject)?;
    let processors = affinity::allowed_cpus().map_err(Failure::work)?.len();
    let most = options.readers.unwrap_or(processors.max(4));
    let doubling = std::iter::successors(Some(1), |readers| Some(readers * 2)).take_while(|&readers| readers < most);
    let loads = sizes(&options.load);
    // A load is started for each clock anew: one that seldom works would meet some of them never.
    let each_ns = seconds * 1e9 / loads.len().max(1) as f64 / Clock::all().len() as f64;
    if let Some(injected) = inject.filter(|injected| f64::from(injected.period_ns) > each_ns / TURNS_MIN) {
        let most = duration(each_ns / TURNS_MIN);
        return refuse(
            &format!(
                "a PERIOD of at most {most} with --inject in --seconds {seconds}, so that every clock is read through \
                 some turns of the load"
            ),
            injected,
        );
    }
    let readers = doubling.chain([most]).collect();
    Ok(BenchmarkPlan { seconds, loads, load, readers, percent: options.percent, section_ns: options.section_ns })
}

/// Method I under a load in pulses, from far longer than a reading to far shorter.
fn sweep(options: &SweepOptions) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct SweepJson<'a> {
        version: u32,
        sweep: &'a Sweep,
        tests: &'a [PulseTest],
    }
    let pulses_ns = vec![100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000];
    let (seconds, load) = (seconds(options.seconds)?, load(&options.placed, None)?);
    let sweep = Sweep { seconds, busy_processes: options.load, load, pulses_ns };
    let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
    let mut progress = Progress::of("clocks");
    let found = pulses(&sweep, &facts, &mut |at| progress.say(at)).map_err(Failure::work)?;
    progress.over();
    show(&options.output, || sweep_document(&sweep, &found), &SweepJson { version: 1, sweep: &sweep, tests: &found })
}

/// Figures 1 to 3 of the Cm* study: the counter read by halves, by one reader and by several.
fn two_words(options: &TwoWordsOptions) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct TwoWordsJson<'a> {
        version: u32,
        hertz: u64,
        tests: &'a [Contention],
    }
    let processors = affinity::allowed_cpus().map_err(Failure::work)?.len();
    let plan =
        TwoWordPlan { seconds: seconds(options.seconds)?, readers: options.readers.unwrap_or(processors.max(4)) };
    if plan.readers < 2 {
        return refuse("--readers of at least 2, next to one alone", plan.readers);
    }
    let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
    let mut progress = Progress::of("clocks");
    let found = measure::two_words(plan, facts.frequency, &mut |at| progress.say(at)).map_err(Failure::work)?;
    progress.over();
    let about = format!(
        "{} at {} Hz, read by halves under one lock; {processors} processors; {} s",
        facts.counter, facts.frequency.hertz, plan.seconds
    );
    let json = TwoWordsJson { version: 1, hertz: facts.frequency.hertz, tests: &found };
    show(&options.output, || two_words_document(&found, about.clone()), &json)
}

/// The example of the Cm* study, from a run.
fn example(options: &ExampleOptions) -> Result<(), Failure> {
    use tickscope_cm_star::{Found, document, recorded};
    let Opened { ready, faults } = Opened::of(chosen_run::open(Some(&options.run))?, None)?;
    ready.preparation.notes.iter().for_each(note);
    let Found { example, mut analysis } = recorded(&ready.run)?;
    let faults = faults.also(std::mem::take(&mut analysis.refused));
    show(&options.output, || document(&example), &example)?;
    faults.verdict(analysis.standing(&ready.run.events()?.found))
}

//! `tickscope noise`: how noisy this machine is; profiles that were saved, and what differs between them.

mod comparison;
mod fleet;
mod saved;
mod study;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickscope_counter::NodeCounter;
use tickscope_experiment::interrupt;
use tickscope_host::affinity;
use tickscope_host::facts::CounterFacts;
use tickscope_host::step::CounterStep;
use tickscope_noise::advice::settings;
use tickscope_noise::survey::{NoisePlan, STUDY_BYTES, survey};
use tickscope_noise::{Detector, Machine, NoiseProfile};

use crate::clock::seconds;
use crate::failure::Failure;
use crate::options::{NoiseOptions, NoisePart, SurveyOptions};
use crate::output::{expect_folder, note};
use crate::progress::Progress;

/// Measures, or does what is asked for instead.
pub fn noise(options: &NoiseOptions) -> Result<(), Failure> {
    match &options.part {
        None => measure(&options.survey),
        Some(NoisePart::Show(options)) => saved::show(options),
        Some(NoisePart::Compare(options)) => comparison::compare(options),
        Some(NoisePart::Fleet(options)) => fleet::fleet(options),
        Some(NoisePart::Study(options)) => study::study(options),
    }
}

/// Measures until the time is over or somebody interrupts; exit code 3 where the counter ran backward, or reading it
/// takes so long that it is noise itself.
fn measure(options: &SurveyOptions) -> Result<(), Failure> {
    options.out.as_deref().map_or(Ok(()), |place| expect_folder(place, "--out"))?;
    let seconds = seconds(options.seconds)?;
    let rule = options.rule.as_deref().map(|place| study::rule(&study::read_rule(place)?, place)).transpose()?;
    let cores = chosen_cores(options)?;
    let memory_bytes = match (&options.memory, options.detector) {
        (Some(_), Detector::Selfish | Detector::Ftq) => {
            return Err(Failure::input("--memory is of --detector fwq alone. Add that, or leave --memory out"));
        }
        (memory, Detector::Fwq) => memory.clone().unwrap_or_else(|| STUDY_BYTES.into()),
        (None, _) => Vec::new(),
    };
    let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
    if facts.trapped() {
        let findings = facts.findings();
        let of_reading = findings.iter().find(|finding| finding.about == "counter reading");
        return Err(Failure::finding(of_reading.map_or_else(String::new, ToString::to_string)));
    }
    facts.findings().iter().for_each(note);
    let (hertz, step) = (facts.frequency.hertz, CounterStep::of_counter(NodeCounter::true_counter()));
    interrupt::catch();
    options.begin_at.map_or(Ok(()), wait_until)?;
    let (detector, machine) = (options.detector, machine(&facts, &cores));
    let plan =
        NoisePlan { detector, seconds, cores, memory_bytes, hertz, step, machine, rule, trace: !options.no_trace };
    let mut progress = Progress::of("noise");
    let mut go_on = |at: &str| {
        progress.say(at);
        !interrupt::ended()
    };
    let profile = survey(&plan, &mut go_on, &|_| {});
    progress.over();
    let profile = profile.map_err(Failure::work)?;
    // Where it cannot be saved, it has been seen.
    let printed = saved::print_profile(profile.clone(), options.json);
    options.out.as_ref().map_or(Ok(()), |place| saved::save(&profile, place))?;
    printed
}

/// Waits for an instant of this machine's clock.
fn wait_until(unix_seconds: f64) -> Result<(), Failure> {
    const MOST: Duration = Duration::from_secs(24 * 3600);
    const LOOK_EVERY: Duration = Duration::from_millis(20);
    let left = || {
        let due = Duration::try_from_secs_f64(unix_seconds).ok().and_then(|due| UNIX_EPOCH.checked_add(due));
        due.and_then(|due| due.duration_since(SystemTime::now()).ok())
    };
    if left().is_none_or(|left| left > MOST) {
        return Err(Failure::input(format!(
            "--begin-at: expected seconds since 1970 within the next day, found {unix_seconds}, which is past or too \
             far. In ten seconds: $(($(date +%s) + 10))"
        )));
    }
    while let Some(left) = left().filter(|_| !interrupt::ended()) {
        std::thread::sleep(left.min(LOOK_EVERY));
    }
    match left() {
        None => Ok(()),
        Some(_) => Err(Failure::work("interrupted before the time of --begin-at: nothing was measured")),
    }
}

fn machine(facts: &CounterFacts, cores: &[usize]) -> Machine {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut priority: libc::c_int = 0;
    // By the call's number: musl's function of that name only fails.
    // SAFETY: the kernel fills its struct, which is this one number, and keeps no pointer to it.
    let known = unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority) } == 0;
    Machine {
        boot: facts.boot.map(|boot| boot.to_string()),
        kernel: facts.kernel_release.clone(),
        processor: facts.cpu_model.clone(),
        hypervisor: facts.hypervisor.clone(),
        began_unix_ms: now.as_millis() as u64,
        began_tick: None,
        real_time_priority: if known { priority } else { 0 },
        settings: settings(Path::new("/"), cores),
    }
}

fn chosen_cores(options: &SurveyOptions) -> Result<Vec<usize>, Failure> {
    let allowed = affinity::allowed_cpus().map_err(Failure::work)?;
    let Some(chosen) = &options.cores else { return Ok(allowed) };
    if let Some(barred) = chosen.0.iter().find(|core| !allowed.contains(core)) {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let allowed = allowed.join(", ");
        return Err(Failure::input(format!(
            "expected --cores of {allowed}, found {barred}. Others are switched off, or not this program's: see taskset"
        )));
    }
    Ok(chosen.0.clone())
}

fn verdict(profile: &NoiseProfile) -> Result<(), Failure> {
    let backward = |of: &tickscope_noise::CoreProfile| Some((of.core, *of.detours.backward.first()?));
    match profile.cores.iter().find_map(backward) {
        Some((core, at)) => Err(Failure::finding(format!(
            "expected a counter that never runs backward, found {} after {} on core {core}. Trust no bound over it",
            at.after, at.before
        ))),
        None if profile.cores.is_empty() => Err(Failure::work("no core could be measured; see above for each")),
        None => Ok(()),
    }
}

//! `tickscope noise`: how noisy this machine is.

use tickscope_counter::NodeCounter;
use tickscope_experiment::interrupt;
use tickscope_host::affinity;
use tickscope_host::facts::CounterFacts;
use tickscope_host::step::CounterStep;
use tickscope_noise::survey::{NoisePlan, STUDY_BYTES, survey};
use tickscope_noise::{Detector, NoiseProfile};
use tickscope_show::noise_survey::noise_document;

use crate::clock::seconds;
use crate::failure::Failure;
use crate::options::NoiseOptions;
use crate::output::{note, print, print_json};
use crate::progress::Progress;

/// Measures until the time is over or somebody interrupts; exit code 3 where the counter ran backward, or reading it
/// takes so long that it is noise itself.
pub fn noise(options: &NoiseOptions) -> Result<(), Failure> {
    let seconds = seconds(options.seconds)?;
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
    let plan = NoisePlan { detector: options.detector, seconds, cores, memory_bytes, hertz, step };
    interrupt::catch();
    let mut progress = Progress::of("noise");
    let mut go_on = |at: &str| {
        progress.say(at);
        !interrupt::ended()
    };
    let profile = survey(&plan, &mut go_on, &|_| {});
    progress.over();
    let profile = profile.map_err(Failure::work)?;
    match options.json {
        true => print_json(&profile)?,
        false => print(noise_document(&profile).text().as_bytes())?,
    }
    verdict(&profile)
}

fn chosen_cores(options: &NoiseOptions) -> Result<Vec<usize>, Failure> {
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

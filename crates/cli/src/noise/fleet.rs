//! `tickscope noise fleet`: which of several machines, whose profiles were taken at one instant, is the odd one.
//!
//! Idea: a machine is odd in a figure if it differs from each of the others for sure, and from all in one direction,
//! while no two of the others do from each other. Guarantees: the confidence is shared among all pairs and figures;
//! profiles that were not begun together are told, by the clock maps where a run took them. Deliberately absent: why it
//! is odd.

mod of_run;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;
use tickscope_analysis::{ChangeTolerance, ChangeVerdict};
use tickscope_noise::NoiseProfile;
use tickscope_noise::comparison::compare_among;

use super::comparison::judged;
use super::saved::read;
use crate::failure::Failure;
use crate::options::FleetOptions;
use crate::output::{line, print_json};

/// Profiles that began further apart were not taken at one instant.
const TOGETHER_NS: i128 = 1_000_000_000;
/// The odd one of two is not known.
const FEWEST: usize = 3;

/// The profiles of a fleet, and what is known of when they began.
struct Fleet {
    names: Vec<String>,
    profiles: Vec<NoiseProfile>,
    /// All began within so many nanoseconds for certain, by a run's clock maps.
    began_within_ns: Option<i128>,
    notes: BTreeSet<String>,
}

/// What was found. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report {
    version: u32,
    profiles: Vec<String>,
    confidence_per_million: u32,
    /// All began within so many nanoseconds for certain, by the clock maps of the run that took them.
    began_within_ns: Option<i128>,
    odd: Vec<Odd>,
    /// Figures of which one machine differs from another, and none is odd.
    divided: Vec<String>,
    notes: BTreeSet<String>,
}

/// A machine that differs from all others in a figure.
#[derive(Serialize)]
struct Odd {
    profile: String,
    figure: String,
    more: bool,
}

/// Of a figure, each pair that differs for sure: the one of which it is more stands last.
type Differences = BTreeMap<String, BTreeSet<[usize; 2]>>;

/// Names the odd machines.
pub(super) fn fleet(options: &FleetOptions) -> Result<(), Failure> {
    let (fleet, measured) = match options.profiles.as_slice() {
        [one] if one.extension().is_some_and(|extension| extension == "toml") => of_run::measured(one, options)?,
        _ if options.seconds.is_some() || options.detector.is_some() || options.out.is_some() => {
            return Err(Failure::input(
                "expected a run file (.toml) beside --seconds, --detector or --out, found none: profiles that are \
                 saved are measured already. Leave the option out",
            ));
        }
        [one] if one.is_dir() => (of_run::saved(one)?, Ok(())),
        files if files.len() < FEWEST => {
            let found: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            return Err(Failure::input(format!(
                "expected profiles of at least {FEWEST} machines, a run file (.toml) or a run, found {}: {}. Name one \
                 of these",
                files.len(),
                found.join(", ")
            )));
        }
        files => (of_files(files)?, Ok(())),
    };
    if fleet.profiles.len() < FEWEST {
        measured?;
        let (found, notes) = (fleet.names.join(", "), fleet.notes.into_iter().collect::<Vec<_>>().join("; "));
        return Err(Failure::input(format!(
            "expected profiles of at least {FEWEST} machines, found {}: {found}. {notes}",
            fleet.profiles.len()
        )));
    }
    let report = judge(fleet, options.tolerance)?;
    let printed = if options.json { print_json(&report) } else { lines(&report).into_iter().try_for_each(line) };
    measured.and(printed)
}

/// Profiles in files, whose machines' clocks alone tell when they began.
fn of_files(files: &[PathBuf]) -> Result<Fleet, Failure> {
    let profiles = files.iter().map(|file| read(file)).collect::<Result<Vec<NoiseProfile>, Failure>>()?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let began = profiles.iter().map(|profile| profile.machine.began_unix_ms);
    let apart_ms = began.clone().max().unwrap_or(0) - began.min().unwrap_or(0);
    let notes = (i128::from(apart_ms) * 1_000_000 > TOGETHER_NS).then(|| {
        format!("the profiles began {apart_ms} ms apart by their machines' clocks: begin them with --begin-at")
    });
    let boots = profiles.iter().filter_map(|profile| profile.machine.boot.as_deref());
    let mut seen = BTreeSet::new();
    let same = boots.filter(|&boot| !seen.insert(boot)).count() > 0;
    let same = same.then(|| "some of the profiles are of one boot of one machine".to_string());
    Ok(Fleet { names, profiles, began_within_ns: None, notes: notes.into_iter().chain(same).collect() })
}

/// Holds every two profiles against each other.
fn judge(fleet: Fleet, tolerance: Option<ChangeTolerance>) -> Result<Report, Failure> {
    let Fleet { names, profiles, began_within_ns, mut notes } = fleet;
    let (count, mut differences) = (profiles.len(), Differences::new());
    let pairs: Vec<[usize; 2]> = (0..count).flat_map(|one| (one + 1..count).map(move |other| [one, other])).collect();
    let mut confidence_per_million = 1_000_000;
    let mut of_pairs = BTreeMap::<String, Vec<String>>::new();
    for &[one, other] in &pairs {
        let found = compare_among([&profiles[one], &profiles[other]], pairs.len()).map_err(Failure::input)?;
        confidence_per_million = found.confidence_per_million.min(confidence_per_million);
        for change in found.figures.iter().map(|pair| judged(pair, tolerance)) {
            let of = differences.entry(change.name()).or_default();
            if change.verdict == ChangeVerdict::Changed {
                of.insert(if change.shift.ticks > 0 { [one, other] } else { [other, one] });
            }
        }
        for note in found.not_compared.into_iter().chain(found.notes) {
            of_pairs.entry(note).or_default().push(format!("{} and {}", names[one], names[other]));
        }
    }
    for (note, of) in of_pairs {
        match of.len() == pairs.len() {
            true => notes.extend([note]),
            false => notes.extend(of.into_iter().map(|pair| format!("{pair}: {note}"))),
        }
    }
    let (mut odd_ones, mut divided) = (Vec::new(), Vec::new());
    for (figure, pairs) in differences.into_iter().filter(|(_, pairs)| !pairs.is_empty()) {
        match odd(&pairs, count) {
            Some((at, more)) => odd_ones.push(Odd { profile: names[at].clone(), figure, more }),
            None => divided.push(figure),
        }
    }
    Ok(Report { version: 1, profiles: names, confidence_per_million, began_within_ns, odd: odd_ones, divided, notes })
}

/// The one that is in every pair, on one side of it, with each of the others; and whether it has more.
fn odd(pairs: &BTreeSet<[usize; 2]>, count: usize) -> Option<(usize, bool)> {
    let is = |at: usize, side: usize| pairs.len() == count - 1 && pairs.iter().all(|pair| pair[side] == at);
    (0..count)
        .find_map(|at| [(0, false), (1, true)].into_iter().find(|&(side, _)| is(at, side)).map(|(_, more)| (at, more)))
}

fn lines(report: &Report) -> Vec<String> {
    let odd = report.odd.iter().map(|Odd { profile, figure, more }| {
        format!("{profile} is the odd one: {figure} is {} than on each other", if *more { "more" } else { "less" })
    });
    let divided = report.divided.iter().map(|figure| format!("{figure}: some differ, and none is the odd one"));
    let sure = format!(
        "all of it together with {} % confidence, by how the windows of each profile differ",
        report.confidence_per_million / 10_000
    );
    let nothing = report.odd.is_empty().then(|| "no odd one was found".to_string());
    let began = report.began_within_ns.map(|ns| {
        format!("all profiles began within {} us of each other, by the run's clock maps", ns.div_euclid(1_000) + 1)
    });
    odd.chain(nothing).chain(divided).chain([sure]).chain(began).chain(report.notes.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odd_one_differs_from_each_other_in_one_direction_and_no_two_others_differ() {
        let of = |pairs: &[[usize; 2]]| odd(&pairs.iter().copied().collect(), 4);
        assert_eq!(of(&[[0, 2], [1, 2], [3, 2]]), Some((2, true)));
        assert_eq!(of(&[[2, 0], [2, 1], [2, 3]]), Some((2, false)));
        assert_eq!(of(&[[0, 2], [2, 1], [2, 3]]), None, "it lies between them");
        assert_eq!(of(&[[0, 2], [1, 2]]), None, "it may be as the fourth is");
        assert_eq!(of(&[[0, 2], [1, 2], [3, 2], [0, 1]]), None, "two others differ");
    }
}

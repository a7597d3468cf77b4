//! `tickscope noise fleet`: which of several machines, whose profiles were taken at one instant, is the odd one.
//!
//! Idea: a machine is odd in a figure if it differs from each of the others for sure, and from all in one direction,
//! while no two of the others do from each other. Guarantees: the confidence is shared among all pairs and figures;
//! profiles that were not begun together are told. Deliberately absent: why it is odd.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tickscope_analysis::ChangeVerdict;
use tickscope_noise::NoiseProfile;
use tickscope_noise::comparison::compare_among;

use super::comparison::judged;
use super::saved::read;
use crate::failure::Failure;
use crate::options::FleetOptions;
use crate::output::{line, print_json};

/// Profiles that began further apart, by their machines' clocks, were not taken at one instant.
const TOGETHER_MS: u64 = 1_000;

/// What was found. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report {
    version: u32,
    profiles: Vec<String>,
    confidence_per_million: u32,
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
    let profiles = options.files.iter().map(|file| read(file)).collect::<Result<Vec<NoiseProfile>, Failure>>()?;
    let names: Vec<String> = options.files.iter().map(|file| file.display().to_string()).collect();
    let (count, mut notes, mut differences) = (profiles.len(), BTreeSet::new(), Differences::new());
    let pairs: Vec<[usize; 2]> = (0..count).flat_map(|one| (one + 1..count).map(move |other| [one, other])).collect();
    let mut confidence_per_million = 0;
    for &[one, other] in &pairs {
        let found = compare_among([&profiles[one], &profiles[other]], pairs.len()).map_err(Failure::input)?;
        confidence_per_million = found.confidence_per_million;
        for change in found.figures.iter().map(|pair| judged(pair, options.tolerance)) {
            let of = differences.entry(change.name()).or_default();
            if change.verdict == ChangeVerdict::Changed {
                of.insert(if change.shift.ticks > 0 { [one, other] } else { [other, one] });
            }
        }
        let between = |note: String| format!("{} and {}: {note}", names[one], names[other]);
        notes.extend(found.not_compared.into_iter().map(between));
    }
    let began = profiles.iter().map(|profile| profile.machine.began_unix_ms);
    let apart = began.clone().max().unwrap_or(0) - began.min().unwrap_or(0);
    if apart > TOGETHER_MS {
        notes.insert(format!(
            "the profiles began {apart} ms apart by their machines' clocks: begin them with --begin-at"
        ));
    }
    let mut report =
        Report { version: 1, profiles: names, confidence_per_million, odd: Vec::new(), divided: Vec::new(), notes };
    for (figure, pairs) in differences.into_iter().filter(|(_, pairs)| !pairs.is_empty()) {
        match odd(&pairs, count) {
            Some((at, more)) => report.odd.push(Odd { profile: report.profiles[at].clone(), figure, more }),
            None => report.divided.push(figure),
        }
    }
    if options.json { print_json(&report) } else { lines(&report).into_iter().try_for_each(line) }
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
    odd.chain(nothing).chain(divided).chain([sure]).chain(report.notes.iter().cloned()).collect()
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

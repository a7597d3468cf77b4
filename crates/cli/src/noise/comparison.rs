//! `tickscope noise compare`: what differs between two profiles, and how surely.

use serde::Serialize;
use tickscope_analysis::{ChangeTolerance, ChangeVerdict, Ends, LimitedBy, RunFigure, Shift};
use tickscope_noise::NoiseProfile;
use tickscope_noise::comparison::{FigurePair, NoiseComparison, NoiseFigure, compare as compared};
use tickscope_show::noise_comparison::{NoiseChange, noise_comparison_document};
use tickscope_stats::FEWEST_BLOCKS;

use super::saved::read;
use crate::compare::expect_none;
use crate::failure::Failure;
use crate::options::ProfilesOptions;
use crate::output::{print, print_json};

/// What was compared. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    before: String,
    after: String,
    confidence_per_million: u32,
    figures: &'a [NoiseChange],
    not_compared: &'a [String],
    notes: &'a [String],
}

/// Compares profiles, and ends with what `--fail-on` names.
pub(super) fn compare(options: &ProfilesOptions) -> Result<(), Failure> {
    let sides: [NoiseProfile; 2] = [read(&options.before)?, read(&options.after)?];
    let found = compared(sides.each_ref()).map_err(Failure::input)?;
    let changes: Vec<NoiseChange> = found.figures.iter().map(|pair| judged(pair, options.tolerance)).collect();
    let NoiseComparison { confidence_per_million, not_compared, notes, .. } = &found;
    let [before, after] = [&options.before, &options.after].map(|place| place.display().to_string());
    match options.json {
        true => print_json(&Report {
            version: 1,
            before,
            after,
            confidence_per_million: *confidence_per_million,
            figures: &changes,
            not_compared,
            notes,
        })?,
        false => print(noise_comparison_document(sides.each_ref(), &changes, &found).text().as_bytes())?,
    }
    let of = |change: &NoiseChange| (change.name(), change.verdict, Some(change.shift.ticks));
    expect_none(&options.fail_on, || changes.iter().map(of))
}

/// A figure with what can be said of its change.
pub(super) fn judged(pair: &FigurePair, tolerance: Option<ChangeTolerance>) -> NoiseChange {
    let figure = |side: &NoiseFigure| {
        let [ticks, lo, hi] = side.at;
        let exact = |ticks: i64| Ends { ticks, lo: ticks, hi: ticks };
        RunFigure {
            count: side.windows as u64,
            at: Ends { ticks, lo, hi },
            low: side.low.map(exact),
            high: side.high.map(exact),
        }
    };
    let shift = Shift::between(&figure(&pair.sides[0]), &figure(&pair.sides[1]));
    let is_few = pair.sides.iter().any(|side| side.windows < FEWEST_BLOCKS);
    let few = is_few.then_some((LimitedBy::Windows, FEWEST_BLOCKS as u64));
    let verdict = ChangeVerdict::of(&shift, pair.sides[0].at[0], tolerance.map(|of| (of, 1)), few);
    NoiseChange { pair: pair.clone(), shift, verdict }
}

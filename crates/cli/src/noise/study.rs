//! `tickscope noise study`: the OS-noise study's analysis of a saved profile.

use std::path::Path;

use tickscope_noise::study::{TunedRule, study as studied};
use tickscope_show::noise_study::{noise_study_document, noise_study_figure};
use tickscope_stats::Rule;
use tickscope_store::write_whole;

use super::saved::{read, read_json, wrong};
use crate::failure::Failure;
use crate::figures::written;
use crate::options::StudyOptions;
use crate::output::{expect_folder, print, print_json};

const RULE: &str = "a rule that tickscope noise study --save-rule saved";

/// Prints the tables, and saves and draws what is asked for.
pub(super) fn study(options: &StudyOptions) -> Result<(), Failure> {
    options.save_rule.as_deref().map_or(Ok(()), |place| expect_folder(place, "--save-rule"))?;
    let profile = read(&options.file)?;
    let used = options.rule.as_deref().map(read_rule).transpose()?;
    let study = studied(&profile, used).map_err(|why| Failure::input(format!("{}: {why}", options.file.display())))?;
    if let Some(place) = &options.save_rule {
        write_whole(place, &serde_json::to_vec_pretty(&study.tuned).map_err(Failure::work)?)?;
    }
    match options.json {
        true => print_json(&study)?,
        false => print(noise_study_document(&profile, &study).text().as_bytes())?,
    }
    if let Some(folder) = &options.figures {
        let figure = noise_study_figure(&profile, &study);
        written(figure.as_slice(), folder, options.json)?;
    }
    Ok(())
}

/// Reads a rule that was tuned.
pub(super) fn read_rule(place: &Path) -> Result<TunedRule, Failure> {
    let tuned: TunedRule = read_json(place, RULE)?;
    rule(&tuned, place)?;
    Ok(tuned)
}

/// The rule itself.
pub(super) fn rule(tuned: &TunedRule, place: &Path) -> Result<Rule, Failure> {
    tuned.rule().map_err(|why| wrong(place, RULE, why))
}

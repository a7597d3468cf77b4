//! Profiles in files, as JSON: written by a survey, read again.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tickscope_noise::NoiseProfile;
use tickscope_noise::advice::{Advice, advice};
use tickscope_show::noise_survey::noise_document;
use tickscope_store::write_whole;

use super::verdict;
use crate::failure::Failure;
use crate::options::ShownProfileOptions;
use crate::output::{print, print_json};

/// Prints a saved profile, and ends as the survey did.
pub(super) fn show(options: &ShownProfileOptions) -> Result<(), Failure> {
    print_profile(read(&options.file)?, options.json)
}

/// Writes a profile with everything that a comparison needs.
pub(super) fn save(profile: &NoiseProfile, place: &Path) -> Result<(), Failure> {
    let text = serde_json::to_vec(profile).map_err(Failure::work)?;
    Ok(write_whole(place, &text)?)
}

/// Reads a profile; one that no survey writes is refused.
pub(super) fn read(place: &Path) -> Result<NoiseProfile, Failure> {
    const WHAT: &str = "a profile that tickscope noise --out saved";
    let profile: NoiseProfile = read_json(place, WHAT)?;
    profile.check().map_err(|why| wrong(place, WHAT, why))?;
    Ok(profile)
}

/// Reads what was saved as JSON.
pub(super) fn read_json<T: DeserializeOwned>(place: &Path, what: &str) -> Result<T, Failure> {
    let unread = |e| Failure::input(format!("cannot read {}: {e}. Name {what}", place.display()));
    serde_json::from_slice(&fs::read(place).map_err(unread)?).map_err(|why| wrong(place, what, why))
}

/// The failure of a file that does not hold what it should.
pub(super) fn wrong(place: &Path, what: &str, found: impl Display) -> Failure {
    Failure::input(format!("{}: expected {what}, found: {found}. Make it again", place.display()))
}

/// A profile as JSON, with what is advised.
#[derive(Serialize)]
struct ProfileJson<'a> {
    #[serde(flatten)]
    profile: &'a NoiseProfile,
    advice: Vec<Advice>,
}

/// Prints a profile; exit code 3 where its counter ran backward.
pub(super) fn print_profile(mut profile: NoiseProfile, json: bool) -> Result<(), Failure> {
    match json {
        true => {
            profile.cores.iter_mut().for_each(|of| of.traces.clear());
            print_json(&ProfileJson { advice: advice(&profile), profile: &profile })?;
        }
        false => print(noise_document(&profile).text().as_bytes())?,
    }
    verdict(&profile)
}

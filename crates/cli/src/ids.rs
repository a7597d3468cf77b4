//! `tickscope ids`: what the ids of a run are hashes of.

use std::collections::BTreeSet;

use serde::Serialize;
use tickscope_stamp::id_of;
use tickscope_store::Run;
use tickscope_tick::{counted, printable};

use crate::chosen_run;
use crate::failure::Failure;
use crate::options::IdsOptions;
use crate::output::{print, print_json};

/// Ids that a message names.
const EXAMPLES: usize = 3;

#[derive(Serialize)]
struct IdsJson<'a> {
    version: u32,
    ids: &'a [IdJson],
}

#[derive(Serialize)]
struct IdJson {
    id: i64,
    original: String,
    bytes: usize,
}

/// Prints every original that programs kept of ids, or those that are asked for; or, of text, the id alone.
pub fn ids(options: &IdsOptions) -> Result<(), Failure> {
    if let Some(text) = &options.of {
        return print(format!("{}\n", id_of(text)).as_bytes());
    }
    let run: Run = chosen_run::open(options.run.as_deref())?;
    let asked: BTreeSet<i64> = options.id.iter().copied().collect();
    let (first, last) = (asked.first().copied(), asked.last().copied());
    let mut found = Vec::new();
    run.each_original(first.unwrap_or(i64::MIN)..=last.unwrap_or(i64::MAX), |id, original| {
        if asked.is_empty() || asked.contains(&id) {
            found.push(IdJson { id, original: original.to_string(), bytes: original.length });
        }
    })?;
    let absent: Vec<i64> = asked.into_iter().filter(|id| !found.iter().any(|known| known.id == *id)).collect();
    if found.is_empty() {
        return Err(nothing(&run, &absent)?);
    }
    if options.json {
        print_json(&IdsJson { version: 1, ids: &found })?;
    } else {
        let lines: Vec<_> = found.iter().map(|of| format!("{} {}\n", of.id, printable(&of.original))).collect();
        print(lines.concat().as_bytes())?;
    }
    if absent.is_empty() { Ok(()) } else { Err(nothing(&run, &absent)?) }
}

/// The failure to find originals: of those ids, or any.
fn nothing(run: &Run, absent: &[i64]) -> Result<Failure, Failure> {
    let (mut known, mut ids) = (0u64, BTreeSet::new());
    run.each_original(i64::MIN..=i64::MAX, |id, _| {
        known += 1;
        if ids.len() < EXAMPLES {
            ids.insert(id);
        }
    })?;
    let root = run.root().display();
    if known == 0 {
        return Ok(Failure::work(format!(
            "expected originals of ids in {root}, found none: no program kept one, or its points were off. Call \
             tickscope_keep_id_text in C, Ids::keep in Rust, or tickscope.keep_id in Python where an id is born; \
             tickscope ids --of TEXT tells the id of a text without a run"
        )));
    }
    let asked: Vec<String> = absent.iter().take(EXAMPLES).map(ToString::to_string).collect();
    let more = absent.len().saturating_sub(EXAMPLES);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let such_as: Vec<String> = ids.iter().map(ToString::to_string).collect();
    Ok(Failure::input(format!(
        "expected ids that {root} has an original of ({}, such as {}), found {}{more}. tickscope ids {root} lists them \
         all; tickscope ids --of TEXT tells the id of a text",
        counted(known, "original"),
        such_as.join(", "),
        asked.join(", ")
    )))
}

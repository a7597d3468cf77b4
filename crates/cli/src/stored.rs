//! The line that stands for the table of a run whose segments went to object storage: where it lies, and who answers.

use serde_json::json;
use tickscope_store::Run;

use crate::failure::Failure;
use crate::output;

/// Prints where the run lies, in place of its table; `None`: its segments are here, and nothing is missing in storage.
pub fn instead(run: &Run, json: bool) -> Option<Result<(), Failure>> {
    let address = run.manifest().storage.as_deref()?;
    if !run.has_digests() {
        return Some(Err(Failure::work(format!(
            "the run is not whole at {address} yet: tickscope finish {} goes on",
            run.root().display()
        ))));
    }
    match run.is_stored_elsewhere() {
        Ok(false) => None,
        Err(why) => Some(Err(why.into())),
        Ok(true) if json => Some(output::line(json!({ "stored": address }))),
        Ok(true) => {
            Some(output::line(format!("the run lies at {address}; tickscope.open(\"{address}\") asks it, in Python")))
        }
    }
}

//! Whether what carries a run's number on this host is of the directory that is to be finished.
//!
//! A copy of a run's directory carries the same number, and a `run.json` from elsewhere names what it likes. The folder
//! in shared memory tells: only this user writes it, it names the run's directory, and the run holds it while it lives.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tickscope_store::{Manifest, Paths};
use tickscope_tick::quoted;

use crate::Error;
use crate::leftovers::{is_ours, lives, root_of, stamps_of};
use crate::plan::Plan;

/// Refuses a directory that is not the one of run number `run`.
pub(crate) fn expect_original(run: u64, root: &Path) -> Result<(), Error> {
    let (folder, place) = (stamps_of(run), root.display());
    let Ok(found) = fs::symlink_metadata(&folder) else { return Ok(()) };
    if !is_ours(&folder) {
        let (folder, user) = (folder.display(), found.uid());
        return Err(Error::work(format!(
            "cannot finish {place}: expected {folder} to be a directory of this user, found one of user {user}. Finish \
             it as whoever measured it"
        )));
    }
    match root_of(&folder) {
        Some(named) if !is_same(&named, root) => expect_gone(run, &named, root),
        _ => Ok(()),
    }
}

/// Refuses `root` if the run's directory `named`, which is another one, is still there. One that was moved is not.
fn expect_gone(run: u64, named: &Path, root: &Path) -> Result<(), Error> {
    let (place, shown) = (root.display(), named.display());
    let manifest = Paths::of(named).manifest();
    if fs::symlink_metadata(named).is_err_and(|e| e.kind() == ErrorKind::NotFound)
        || Manifest::read(&manifest).is_ok_and(|found| found.run != run)
    {
        return Ok(());
    }
    if fs::symlink_metadata(&manifest).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
        // Its collectors may have written there once it was moved.
        return Err(Error::work(format!(
            "cannot finish {place}: expected nothing at {shown}, where this run was before, found a directory without \
             run.json. Move what is in it to {place}, or remove it"
        )));
    }
    Err(Error::work(format!(
        "cannot finish {place}: expected the directory of run {run:016x}, {shown}, found another one, such as a copy. \
         Once that run has ended: tickscope finish {}",
        quoted(&shown)
    )))
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Returns whether a process holds the folder of run number `run`, as every run that goes on does.
pub(crate) fn goes_on(run: u64) -> bool {
    let folder = stamps_of(run);
    folder.exists() && lives(&folder, &format!("{run:016x}"))
}

/// Refuses stamp directories that are not in the folder of the run: somebody else's stamps may lie there.
pub(crate) fn expect_own_directories(manifest: &Manifest, plan: Option<&Plan>, root: &Path) -> Result<(), Error> {
    let own = stamps_of(manifest.run);
    for (node, directory) in &manifest.stamp_directories {
        let Ok(found) = fs::symlink_metadata(directory) else { continue };
        if plan.is_some_and(|plan| plan.stamps_of(node) == Some(directory)) {
            continue; // the run file names it
        }
        let is_below = directory.parent() == Some(&own) && directory.file_name().is_some();
        if manifest.run == 0 || !is_below || !found.is_dir() {
            let (place, shown, own) = (root.display(), directory.display(), own.display());
            let (directory, root) = (quoted(directory.display()), quoted(root.display()));
            return Err(Error::work(format!(
                "cannot finish {place}: expected stamp directories in {own}, found {shown} in its run.json. If its \
                 stamps are of this run: tickscope collect {directory} --run {root} --node {node}"
            )));
        }
    }
    Ok(())
}

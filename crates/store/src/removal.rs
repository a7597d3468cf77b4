//! Removal of whole runs: by their names all of them or none.
//!
//! Idea: every run is locked against whoever would write it; then each is given a hidden name, and is no run any more;
//! only then its files go. Guarantees: a run that somebody writes, or takes up again meanwhile, is left as it is; where
//! one cannot be given its hidden name, all get their own names back. Deliberately absent: bringing back files: where
//! one cannot be removed, or the process is killed, what is left lies under the hidden name, its lock to the
//! last, and goes with the next removal of a run of that name; somebody else's folder of that name is left.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::run::Paths;
use crate::state::Writing;

/// Runs that nobody else can begin to write.
#[derive(Debug)]
pub struct RunRemoval {
    runs: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    root: PathBuf,
    hidden: PathBuf,
    /// For as long as it may still get its name back.
    _lock: Writing,
}

impl RunRemoval {
    /// Holds all of these runs; refuses if somebody writes one of them, or holds it ([`Error::is_busy`]).
    pub fn hold(roots: &[PathBuf]) -> Result<Self> {
        let runs = roots.iter().map(|root| Held::of(root)).collect::<Result<_>>()?;
        Ok(Self { runs })
    }

    /// Removes them.
    pub fn finish(self) -> Result<()> {
        for (position, run) in self.runs.iter().enumerate() {
            if let Err(fault) = run.hide() {
                // All of them, whatever becomes of one.
                let back: Vec<Result<()>> = self.runs[..position].iter().map(Held::show).collect();
                return back.into_iter().find_map(Result::err).map_or(Err(fault), Err);
            }
        }
        self.runs.iter().try_for_each(|run| {
            remove(&run.hidden).map_err(|e| Error::io(&run.hidden, "remove all of a run, whose rest is now", e))
        })
    }
}

impl Held {
    fn of(root: &Path) -> Result<Self> {
        let root = root.canonicalize().map_err(|e| Error::io(root, "find", e))?;
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        let hidden = root.with_file_name(format!(".{name}.removed"));
        let lock = Writing::hold_alone(&Paths::of(&root).lock())?;
        Ok(Self { hidden, root, _lock: lock })
    }

    fn hide(&self) -> Result<()> {
        if fs::symlink_metadata(&self.hidden).is_ok() {
            let left = if Paths::of(&self.hidden).lock().exists() {
                remove(&self.hidden)
            } else {
                let why = "somebody else's folder is where the run goes first; move it away";
                Err(io::Error::new(ErrorKind::AlreadyExists, why))
            };
            left.map_err(|e| Error::io(&self.hidden, "remove", e))?;
        }
        fs::rename(&self.root, &self.hidden).map_err(|e| Error::io(&self.root, "remove", e))
    }

    fn show(&self) -> Result<()> {
        let what = "give its name back to a run that is now";
        fs::rename(&self.hidden, &self.root).map_err(|e| Error::io(&self.hidden, what, e))
    }
}

/// Removes a run whose lock goes last: what is left without it is no rest of a run.
fn remove(hidden: &Path) -> io::Result<()> {
    let lock = Paths::of(hidden).lock();
    for entry in fs::read_dir(hidden)? {
        let (entry, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        match kind.is_dir() {
            true => fs::remove_dir_all(&entry)?,
            false if entry == lock => {}
            false => fs::remove_file(&entry)?,
        }
    }
    fs::remove_dir_all(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;
    use crate::sample::manifest;
    use crate::scratch::Scratch;

    fn runs(scratch: &Scratch) -> Vec<PathBuf> {
        let roots = ["a", "b", "c"].map(|name| scratch.path().join(name));
        roots.iter().for_each(|root| drop(Run::begin(root, manifest()).unwrap()));
        roots.into()
    }

    #[test]
    fn a_run_that_is_written_is_not_held_and_one_that_is_held_is_not_written() {
        let scratch = Scratch::new();
        let roots = runs(&scratch);
        let run = Run::open(&roots[1]).unwrap();
        let writing = run.write().unwrap();
        assert!(RunRemoval::hold(&roots).unwrap_err().is_busy());
        drop(writing);
        let removal = RunRemoval::hold(&roots).unwrap();
        assert!(run.write().unwrap_err().is_busy(), "taken up again between the look and the removal");
        assert!(RunRemoval::hold(&roots).unwrap_err().is_busy(), "a second removal");
        drop(removal);
        drop(run.write().unwrap());
        RunRemoval::hold(&roots).unwrap().finish().unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert!(run.write().is_err() && !roots[1].exists());
    }

    #[test]
    fn where_one_cannot_be_removed_all_are_there_as_they_were() {
        let scratch = Scratch::new();
        let roots = runs(&scratch);
        let removal = RunRemoval::hold(&roots).unwrap();
        fs::rename(&roots[2], scratch.path().join("elsewhere")).unwrap();
        let told = removal.finish().unwrap_err().to_string();
        assert!(told.contains("cannot remove ") && told.contains("/c: "), "{told}");
        assert!(roots[..2].iter().all(|root| Run::open(root).is_ok()));
        let rest = scratch.path().join(".a.removed");
        fs::create_dir_all(rest.join("left")).unwrap();
        let told = RunRemoval::hold(&roots[..2]).unwrap().finish().unwrap_err().to_string();
        assert!(told.contains("somebody else's") && rest.join("left").exists() && Run::open(&roots[0]).is_ok());
        fs::write(Paths::of(&rest).lock(), "").unwrap();
        RunRemoval::hold(&roots[..2]).unwrap().finish().unwrap();
        let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["elsewhere"]);
    }
}

//! A folder for what is derived from a run for one look at it: traces of a run that goes on, or under another layout.
//!
//! Idea: a hidden folder in the run, which has room for it, or one among the system's temporary files where the run
//! cannot be written. Guarantees: it goes with the value; what a killed process left is removed when the next folder is
//! made in the same run, and never while its owner lives, who holds a lock. Deliberately absent: any file of the run
//! itself.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::run::Run;
use crate::state::lock;

/// Beginning of the folder's name in a run; hidden, so that readers skip it.
const HIDDEN: &str = ".look-";
/// The file in it that its owner holds locked.
const LOCK: &str = "lock";

/// The folder, as long as it is needed.
#[derive(Debug)]
pub struct Aside {
    root: PathBuf,
    _lock: File,
}

impl Aside {
    /// An empty folder for one look at `run`.
    pub fn of(run: &Run) -> Result<Self> {
        remove_forsaken(run.root());
        Self::make(|serial| run.root().join(format!("{HIDDEN}{}-{serial}", std::process::id()))).or_else(|_| {
            Self::make(|serial| std::env::temp_dir().join(format!("tickscope{HIDDEN}{}-{serial}", std::process::id())))
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    fn make(name: impl Fn(u32) -> PathBuf) -> Result<Self> {
        for serial in 0.. {
            let root = name(serial);
            match DirBuilder::new().mode(0o700).create(&root) {
                Ok(()) => {
                    let lock = locked(&root.join(LOCK)).map_err(|e| Error::io(&root, "lock", e))?;
                    return Ok(Self { root, _lock: lock });
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io(&root, "make the folder", e)),
            }
        }
        unreachable!("numbers without an end")
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn locked(place: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(place)?;
    lock(&file, libc::F_OFD_SETLK, libc::F_WRLCK, 0).map(|_| file)
}

/// Removes the folders whose owners have ended. A run that cannot be written, or listed, has none of ours.
fn remove_forsaken(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let forsaken = |place: &Path| place.join(LOCK).exists() && locked(&place.join(LOCK)).is_ok();
        if entry.file_name().to_string_lossy().starts_with(HIDDEN) && forsaken(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::manifest;
    use crate::scratch::Scratch;

    #[test]
    fn a_folder_apart_goes_with_its_owner_and_what_a_killed_one_left_goes_with_the_next() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let left = scratch.path().join(".look-0-0");
        fs::create_dir_all(left.join("traces")).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        let (one, other) = (Aside::of(&run).unwrap(), Aside::of(&run).unwrap());
        assert!(!left.exists() && one.path().is_dir() && other.path().is_dir() && one.path() != other.path());
        let places = [one.path().to_path_buf(), other.path().to_path_buf()];
        drop((one, other));
        assert!(places.iter().all(|place| !place.exists()));
    }
}

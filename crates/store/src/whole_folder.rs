//! A folder that appears under its name complete or not at all.
//!
//! Idea: it is filled under a hidden name beside its place and renamed at the end; meanwhile a file in it is locked. Of
//! two who fill one, the second is refused; what a killed process left is replaced, and nothing else that is there.
//! Assumes and guarantees else what [`WholeFile`](crate::WholeFile) does.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::state::{lock, open_lock};
use crate::whole_file::make_folders;

/// The file that whoever fills the folder holds locked.
const LOCK: &str = ".filled";

/// A folder being filled; gone again unless [`WholeFolder::finish`] is reached.
pub struct WholeFolder {
    hidden: PathBuf,
    place: PathBuf,
    _lock: File,
}

impl WholeFolder {
    /// Begins the folder that is to appear at `place`, where nothing may be; makes the folders above it.
    pub fn begin(place: &Path) -> Result<Self> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let hidden = place.with_file_name(format!(".{name}.part"));
        let there = fs::symlink_metadata(&hidden).is_ok();
        if there && !hidden.join(LOCK).exists() {
            let why = std::io::Error::new(ErrorKind::AlreadyExists, "somebody else's folder is there; move it away");
            return Err(Error::io(&hidden, "make", why));
        }
        if !there {
            make_folders(&hidden)?;
        }
        let held = locked(&hidden)?;
        if there {
            for left in fs::read_dir(&hidden).map_err(|e| Error::io(&hidden, "list", e))?.flatten() {
                let path = left.path();
                let removed = match path.is_dir() && !path.is_symlink() {
                    true => fs::remove_dir_all(&path),
                    false if path.ends_with(LOCK) => Ok(()),
                    false => fs::remove_file(&path),
                };
                removed.map_err(|e| Error::io(&path, "remove", e))?;
            }
        }
        Ok(Self { hidden, place: place.into(), _lock: held })
    }

    /// Where its files go.
    pub fn path(&self) -> &Path {
        &self.hidden
    }

    /// Gives the folder its name.
    pub fn finish(self) -> Result<()> {
        let held = self.hidden.join(LOCK);
        fs::remove_file(&held).map_err(|e| Error::io(&held, "remove", e))?;
        fs::rename(&self.hidden, &self.place).map_err(|e| Error::io(&self.place, "give its name to", e))
    }
}

fn locked(hidden: &Path) -> Result<File> {
    let place = hidden.join(LOCK);
    let file = open_lock(&place)?;
    match lock(&file, libc::F_OFD_SETLK, libc::F_WRLCK, 0) {
        Ok(_) => Ok(file),
        Err(_) => {
            let why = std::io::Error::new(ErrorKind::ResourceBusy, "another command fills it now; wait for it");
            Err(Error::io(hidden, "fill", why))
        }
    }
}

impl Drop for WholeFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.hidden); // after the renaming there is none
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn of_two_who_fill_one_folder_the_second_is_refused_and_loses_the_first_nothing() {
        let scratch = Scratch::new();
        let place = scratch.path().join("run");
        let first = WholeFolder::begin(&place).unwrap();
        fs::write(first.path().join("file"), "first").unwrap();
        let told = WholeFolder::begin(&place).err().unwrap().to_string();
        assert!(told.contains("another command fills it now"), "{told}");
        first.finish().unwrap();
        let all: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(all, ["file"]);
    }

    #[test]
    fn what_a_killed_process_left_is_replaced_and_what_somebody_else_made_is_not() {
        let scratch = Scratch::new();
        let (place, hidden) = (scratch.path().join("run"), scratch.path().join(".run.part"));
        let killed = WholeFolder::begin(&place).unwrap();
        fs::create_dir(killed.path().join("stamps")).unwrap();
        fs::write(killed.path().join("stamps/file"), "left").unwrap();
        let WholeFolder { _lock, .. } = &killed;
        lock(_lock, libc::F_OFD_SETLK, libc::F_UNLCK, 0).unwrap();
        let next = WholeFolder::begin(&place).unwrap();
        assert!(!next.path().join("stamps").exists());
        drop(next);
        std::mem::forget(killed);
        assert!(!hidden.exists());
        fs::create_dir(&hidden).unwrap();
        fs::write(hidden.join("precious"), "").unwrap();
        let told = WholeFolder::begin(&place).err().unwrap().to_string();
        assert!(told.contains("somebody else's folder") && hidden.join("precious").exists(), "{told}");
    }
}

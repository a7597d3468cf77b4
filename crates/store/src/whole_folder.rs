//! A folder that appears under its name complete or not at all.
//!
//! Idea: it is filled under a hidden name beside its place and renamed at the end. Assumes and guarantees what
//! [`WholeFile`](crate::WholeFile) does; nothing that is there is replaced.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::whole_file::make_folders;

/// A folder being filled; gone again unless [`WholeFolder::finish`] is reached.
pub struct WholeFolder {
    hidden: PathBuf,
    place: PathBuf,
}

impl WholeFolder {
    /// Begins the folder that is to appear at `place`, where nothing may be; makes the folders above it.
    pub fn begin(place: &Path) -> Result<Self> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let hidden = place.with_file_name(format!(".{name}.part"));
        if fs::symlink_metadata(&hidden).is_ok() {
            fs::remove_dir_all(&hidden).map_err(|e| Error::io(&hidden, "remove", e))?;
        }
        make_folders(&hidden)?;
        Ok(Self { hidden, place: place.into() })
    }

    /// Where its files go.
    pub fn path(&self) -> &Path {
        &self.hidden
    }

    /// Gives the folder its name.
    pub fn finish(self) -> Result<()> {
        fs::rename(&self.hidden, &self.place).map_err(|e| Error::io(&self.place, "give its name to", e))
    }
}

impl Drop for WholeFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.hidden); // after the renaming there is none
    }
}

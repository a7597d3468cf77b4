//! The run's directory, told from another of the same name. Where a disk is unmounted, folders made anew lie below its
//! mount point, in another file system than everyone looks at.
//!
//! Guarantees: blocks are freed only where the run's directory was the one of the start after their segment had its
//! name. Deliberately absent: a search for the directory where it went.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tickscope_store::{Error, Result};

/// The run's directory, as it was when the collector began.
pub(super) struct RunFolder {
    place: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl RunFolder {
    pub(super) fn of(place: &Path) -> Result<Self> {
        let found = std::fs::metadata(place).map_err(|e| Error::io(place, "look at", e))?;
        Ok(Self { place: place.into(), identity: identity(&found) })
    }

    /// Refuses another directory at its place, or none.
    pub(super) fn expect(&self) -> Result<()> {
        let found = match std::fs::metadata(&self.place) {
            Ok(found) if identity(&found) == self.identity => return Ok(()),
            Ok(found) => said(identity(&found)),
            Err(e) => e.to_string(),
        };
        Err(Error::vanished(&self.place, said(self.identity), found))
    }

    /// Why something could not be done there: that the directory is gone, if it is.
    pub(super) fn reason(&self, why: Error) -> Error {
        match self.expect() {
            Err(gone) if !why.is_disk_full() => gone,
            _ => why,
        }
    }
}

fn identity(of: &std::fs::Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

fn said(identity: (u64, u64)) -> String {
    let (device, inode) = identity;
    format!("inode {inode} of device {}:{}", libc::major(device), libc::minor(device))
}

//! The lock that says "a collector works here", for as long as it lives.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use tickscope_stamp::directory::{Trust, lock_file};
use tickscope_stamp::pool::lock_of_first_byte;

use tickscope_store::{Error, Result};

/// An open-file-description lock: programs ask for it to know whether waiting for a block makes sense.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock at `place`, or says that someone else has it.
    pub(crate) fn take(place: &Path, trust: &Trust) -> Result<Self> {
        let unusable = |e| Error::io(place, "lock", e);
        let file = lock_file(place, trust).map_err(unusable)?;
        let lock = lock_of_first_byte();
        // SAFETY: a valid descriptor and a flock that outlives the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
            return Ok(Self { file });
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Err(Error::busy(place, "to be the only collector", "another one")),
            _ => Err(unusable(error)),
        }
    }
}

impl Drop for Lock {
    /// Gives the lock back at once: a child that was forked a moment ago has the same open file until it executes.
    fn drop(&mut self) {
        let mut lock = lock_of_first_byte();
        lock.l_type = libc::F_UNLCK as i16;
        // SAFETY: a valid descriptor and a flock that outlives the call.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
    }
}

//! Whether a run goes on, was cut off or has ended.
//!
//! Whoever writes a run holds a read lock on its `run.lock` for as long as it lives; the kernel lets go of it however
//! the process ends. So a run without an end time and without a lock was cut off.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

use crate::error::{Error, Result};
use crate::run::Run;
use crate::whole_file::open_regular;

/// Where a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunState {
    /// A process still writes it.
    GoingOn,
    /// Nobody writes it, and its end was never written: killed, or out of memory or disk.
    CutOff,
    /// Its end was written.
    Ended,
}

/// The lock that says "this run goes on", for as long as it lives.
#[derive(Debug)]
pub struct Writing {
    _file: File,
}

impl Run {
    /// Says that this process writes the run, until the returned value is dropped; several may.
    pub fn write(&self) -> Result<Writing> {
        let place = self.paths().lock();
        let unusable = |e| Error::io(&place, "lock", e);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&place).map_err(unusable)?;
        file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(unusable)?;
        match lock(&file, libc::F_OFD_SETLK, libc::F_RDLCK) {
            Ok(_) => Ok(Writing { _file: file }),
            Err(e) => Err(unusable(e)),
        }
    }

    /// Where the run stands.
    pub fn state(&self) -> Result<RunState> {
        let place = self.paths().lock();
        let held = match open_regular(&place) {
            Ok(file) => lock(&file, libc::F_OFD_GETLK, libc::F_WRLCK).map_err(|e| Error::io(&place, "look at", e))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
            Err(e) => return Err(Error::io(&place, "open", e)),
        };
        Ok(match (held, self.manifest().ended_unix_ms) {
            (true, _) => RunState::GoingOn,
            (false, Some(_)) => RunState::Ended,
            (false, None) => RunState::CutOff,
        })
    }
}

/// Locks the first byte of `file`, or asks; returns whether a lock of somebody else is in the way.
fn lock(file: &File, command: i32, kind: i32) -> std::io::Result<bool> {
    // SAFETY: all zeros is a valid flock.
    let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
    (wanted.l_type, wanted.l_whence, wanted.l_len) = (kind as i16, libc::SEEK_SET as i16, 1);
    // SAFETY: a valid descriptor and a flock that outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &mut wanted) } {
        0 => Ok(i32::from(wanted.l_type) != libc::F_UNLCK && command == libc::F_OFD_GETLK),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Manifest;
    use crate::sample::manifest;
    use crate::scratch::Scratch;

    #[test]
    fn a_run_goes_on_while_someone_writes_it_and_is_cut_off_if_nobody_wrote_its_end() {
        let scratch = Scratch::new();
        let mut run = Run::create(scratch.path(), Manifest { ended_unix_ms: None, ..manifest() }).unwrap();
        assert_eq!(run.state().unwrap(), RunState::CutOff);
        let (one, other) = (run.write().unwrap(), run.write().unwrap());
        assert_eq!(run.state().unwrap(), RunState::GoingOn);
        drop(one);
        assert_eq!(run.state().unwrap(), RunState::GoingOn);
        drop(other);
        assert_eq!(run.state().unwrap(), RunState::CutOff);
        run.set_manifest(Manifest { ended_unix_ms: Some(1), ..manifest() }).unwrap();
        assert_eq!(run.state().unwrap(), RunState::Ended);
    }
}

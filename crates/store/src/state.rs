//! Whether a run goes on, was cut off or has ended.
//!
//! Whoever writes a run holds a read lock on its `run.lock` for as long as it lives; the kernel lets go of it however
//! the process ends. So a run without an end time and without a lock was cut off.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::run::{Paths, Run};

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
        let file = open_lock(&place)?;
        match lock(&file, libc::F_OFD_SETLK, libc::F_RDLCK, WRITERS) {
            Ok(_) => Ok(Writing { _file: file }),
            Err(e) => Err(Error::io(&place, "lock", e)),
        }
    }

    /// Makes or changes the run's manifest at `root`, one process at a time: `change` is given what is there, and
    /// whether somebody writes the run. An error of its own leaves all as it was. Several collectors meet here.
    pub fn amend<E: From<Error>>(
        root: &Path,
        change: impl FnOnce(Option<Manifest>, bool) -> std::result::Result<Manifest, E>,
    ) -> std::result::Result<Self, E> {
        std::fs::create_dir_all(root).map_err(|e| Error::io(root, "make the directory", e))?;
        let (paths, place) = (Paths::of(root), Paths::of(root).lock());
        let file = open_lock(&place)?;
        let unusable = |e| Error::io(&place, "lock", e);
        lock(&file, libc::F_OFD_SETLKW, libc::F_WRLCK, CHANGE).map_err(unusable)?;
        let written = lock(&file, libc::F_OFD_GETLK, libc::F_WRLCK, WRITERS).map_err(unusable)?;
        let before = if paths.manifest().exists() { Some(Manifest::read(&paths.manifest())?) } else { None };
        let manifest = change(before.clone(), written)?;
        if before.as_ref() != Some(&manifest) {
            manifest.write(&paths.manifest())?;
        }
        Ok(Self::open(root)?)
    }

    /// Where the run stands.
    pub fn state(&self) -> Result<RunState> {
        let place = self.paths().lock();
        let held = match File::open(&place) {
            Ok(file) => {
                lock(&file, libc::F_OFD_GETLK, libc::F_WRLCK, WRITERS).map_err(|e| Error::io(&place, "look at", e))?
            }
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

/// The byte of `run.lock` that whoever writes the run holds.
const WRITERS: libc::off_t = 0;
/// The byte that whoever changes `run.json` holds meanwhile.
const CHANGE: libc::off_t = 1;

fn open_lock(place: &Path) -> Result<File> {
    let unusable = |e| Error::io(place, "lock", e);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(place).map_err(unusable)?;
    file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(unusable)?;
    Ok(file)
}

/// Locks a byte of `file`, or asks; returns whether a lock of somebody else is in the way.
fn lock(file: &File, command: i32, kind: i32, byte: libc::off_t) -> std::io::Result<bool> {
    // SAFETY: all zeros is a valid flock.
    let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
    (wanted.l_type, wanted.l_whence) = (kind as i16, libc::SEEK_SET as i16);
    (wanted.l_start, wanted.l_len) = (byte, 1);
    // SAFETY: a valid descriptor and a flock that outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &mut wanted) } {
        0 => Ok(i32::from(wanted.l_type) != libc::F_UNLCK && command == libc::F_OFD_GETLK),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::manifest;
    use crate::scratch::Scratch;

    #[test]
    fn many_processes_add_to_a_manifest_and_none_is_lost() {
        let scratch = Scratch::new();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let root = scratch.path();
                scope.spawn(move || {
                    Run::amend(root, |before, _| {
                        let mut now =
                            before.unwrap_or_else(|| Manifest { run_file: Some(String::new()), ..manifest() });
                        now.run_file = now.run_file.map(|text| format!("{text}{thread}"));
                        Ok::<_, Error>(now)
                    })
                    .unwrap();
                });
            }
        });
        let run = Run::open(scratch.path()).unwrap();
        let mut written: Vec<_> = run.manifest().run_file.clone().unwrap().chars().collect();
        written.sort_unstable();
        assert_eq!(written, ['0', '1', '2', '3', '4', '5', '6', '7']);
        let writing = run.write().unwrap();
        let asked = |expected| {
            Run::amend(scratch.path(), |before, written| {
                assert_eq!(written, expected);
                before.ok_or_else(|| Error::busy(scratch.path(), "a manifest", "none"))
            })
        };
        asked(true).unwrap();
        drop(writing);
        asked(false).unwrap();
    }

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

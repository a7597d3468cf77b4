//! Whether a run goes on, was cut off or has ended.
//!
//! Whoever writes a run holds a read lock on its `run.lock` for as long as it lives; the kernel lets go of it however
//! the process ends. So a run without an end time and without a lock was cut off.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tickscope_tick::quoted;

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::run::{Paths, Run};
use crate::whole_file::{make_folders, open_regular};

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

/// The lock that says "this goes on", for as long as it lives.
#[derive(Debug)]
pub struct Writing {
    _file: File,
}

impl Writing {
    /// Holds the file at `place`, which is made if need be; several processes may.
    pub fn hold(place: &Path) -> Result<Self> {
        Self::hold_as(place, libc::F_RDLCK, "a run that is there", "one that is being removed")
    }

    /// Holds it alone, for a removal: nobody holds it, and nobody else can.
    pub(crate) fn hold_alone(place: &Path) -> Result<Self> {
        Self::hold_as(place, libc::F_WRLCK, "a run that nobody writes", "one that goes on, or is being removed")
    }

    fn hold_as(place: &Path, kind: i32, expected: &str, found: &str) -> Result<Self> {
        let file = open_lock(place)?;
        match lock(&file, libc::F_OFD_SETLK, kind, WRITERS) {
            Ok(_) => Ok(Self { _file: file }),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                Err(Error::busy(place, expected, found))
            }
            Err(e) => Err(Error::io(place, "lock", e)),
        }
    }

    /// Returns whether some process holds the file at `place`; a file that is not there is held by none.
    pub fn is_held(place: &Path) -> Result<bool> {
        match open_regular(place) {
            Ok(file) => {
                lock(&file, libc::F_OFD_GETLK, libc::F_WRLCK, WRITERS).map_err(|e| Error::io(place, "look at", e))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io(place, "open", e)),
        }
    }
}

impl Run {
    /// Says that this process writes the run, until the returned value is dropped; several may.
    pub fn write(&self) -> Result<Writing> {
        Writing::hold(&self.paths().lock())
    }

    /// What is not as in a run that came to its end, and what helps, in a sentence; `None`: nothing, or nobody knows.
    ///
    /// A run that no `tickscope run` wrote has no end to come to.
    pub fn unfinished(&self) -> Result<Option<String>> {
        let (run, left) = (quoted(self.root().display()), &self.manifest().stamp_directories);
        let (state, sessions) = (self.state()?, &self.manifest().sessions);
        if left.is_empty() && sessions.is_empty() || state == RunState::GoingOn {
            return Ok(None);
        }
        if state == RunState::Ended && left.is_empty() {
            let nodes: Vec<_> = sessions.keys().map(|node| node.as_str()).collect();
            return Ok(Some(format!(
                "node {} may still hold stamps of this run; tickscope finish {run} fetches them",
                nodes.join(", ")
            )));
        }
        if state == RunState::Ended {
            let places: Vec<_> = left.values().map(|place| place.display().to_string()).collect();
            return Ok(Some(format!(
                "stamps of this run still lie in {}; tickscope finish {run} takes them",
                places.join(", ")
            )));
        }
        if !sessions.is_empty() {
            return Ok(Some(format!(
                "tickscope run was killed, and nodes of this run may go on: tickscope resume {run} goes on with it; \
                 tickscope finish {run} ends them and takes what they hold"
            )));
        }
        let newest = newest_file(self.root()).map_or("an unknown time".into(), utc);
        Ok(Some(format!(
            "this run was cut off at about {newest}; tickscope finish {run} collects what is left in shared memory \
             (one begun with --detach may go on: tickscope resume {run}; finish ends it)"
        )))
    }

    /// Makes or changes the run's manifest at `root`, one process at a time: `change` is given what is there, and
    /// whether somebody writes the run. An error of its own leaves all as it was. Several collectors meet here.
    pub fn amend<E: From<Error>>(
        root: &Path,
        change: impl FnOnce(Option<Manifest>, bool) -> std::result::Result<Manifest, E>,
    ) -> std::result::Result<Self, E> {
        make_folders(root)?;
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

    /// Waits until nobody else joins traces into the run, and keeps others from it until the returned file is dropped.
    /// `None`: this user can't write the run's lock, nor its traces then.
    pub fn lock_traces(&self) -> Option<File> {
        let file = open_lock(&self.paths().lock()).ok()?;
        lock(&file, libc::F_OFD_SETLKW, libc::F_WRLCK, JOIN).ok().map(|_| file)
    }

    /// When a file of its stamps was last written, milliseconds of Unix by an ordinary clock: until then its data
    /// reach, give or take the second that stamps may wait. `None`: there is none.
    pub fn stored_until(&self) -> Option<i64> {
        newest_file(&self.root().join("stamps"))
    }

    /// Where the run stands. For whom its lock is unreadable, an end that was written is the end, and else the kernel's
    /// list of locks tells.
    pub fn state(&self) -> Result<RunState> {
        let (lock, end) = (self.paths().lock(), self.manifest().ended_unix_ms);
        let held = match open_regular(&lock) {
            Err(e) if e.kind() == ErrorKind::PermissionDenied && end.is_some() => false,
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                is_listed(&lock).ok_or_else(|| Error::io(&lock, "tell whether the run goes on by", e))?
            }
            _ => Writing::is_held(&lock)?,
        };
        Ok(match (held, end) {
            (true, _) => RunState::GoingOn,
            (false, Some(_)) => RunState::Ended,
            (false, None) => RunState::CutOff,
        })
    }
}

/// `2026-11-21 07:04:31 UTC`, of milliseconds since the epoch of Unix.
pub fn utc(unix_ms: i64) -> String {
    let seconds: i64 = unix_ms.div_euclid(1000);
    // SAFETY: all zeros is a valid tm.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both places outlive the call, which keeps neither.
    if unsafe { libc::gmtime_r(&seconds, &mut parts) }.is_null() {
        return format!("{unix_ms} ms since 1970");
    }
    let libc::tm { tm_year, tm_mon, tm_mday, tm_hour, tm_min, tm_sec, .. } = parts;
    format!("{}-{:02}-{tm_mday:02} {tm_hour:02}:{tm_min:02}:{tm_sec:02} UTC", tm_year + 1900, tm_mon + 1)
}

/// File systems of this host alone whose numbers of files are the list's, too: ext4, XFS, tmpfs, by the kernel's
/// numbers. Of network file systems other hosts' locks are in no list here; overlayfs and Btrfs may show other numbers.
const LOCAL: [i64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Whether somebody holds the writers' byte of a lock that may not be opened, by the kernel's list of all locks of this
/// host; `None`: nobody can tell. A lock of another file with its number would count as its own, which errs on the safe
/// side: the run is said to go on.
fn is_listed(lock: &Path) -> Option<bool> {
    let inode = std::fs::symlink_metadata(lock).ok()?.ino();
    let place = std::ffi::CString::new(lock.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeros is a valid statfs.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a text and a place that outlive the call.
    if unsafe { libc::statfs(place.as_ptr(), &mut found) } != 0 || !LOCAL.contains(&(found.f_type as i64)) {
        return None;
    }
    let list = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: OFDLCK ADVISORY READ -1 fe:00:1234 0 0`: device and number of the file, from byte, to byte.
    let is_it = |line: &str| {
        let mut words = line.split_ascii_whitespace().rev();
        let [_, from, file] = std::array::from_fn(|_| words.next().unwrap_or_default());
        from == WRITERS.to_string() && file.rsplit(':').next() == Some(&inode.to_string())
    };
    Some(list.lines().any(is_it))
}

/// The byte of `run.lock` that whoever writes the run holds.
const WRITERS: libc::off_t = 0;
/// The byte that whoever changes `run.json` holds meanwhile.
const CHANGE: libc::off_t = 1;
/// The byte that whoever looks whether the run has its traces, and joins them into it, holds meanwhile.
const JOIN: libc::off_t = 2;

/// Opens a lock, which is its owner's alone, though all may read the run: whoever may open it for reading may take a
/// read lock, which would hold up a change of `run.json` for ever and let a run that has ended go on.
pub(crate) fn open_lock(place: &Path) -> Result<File> {
    let unusable = |e| Error::io(place, "lock", e);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(place).map_err(unusable)?;
    file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(unusable)?;
    Ok(file)
}

/// Locks a byte of `file`, or asks; returns whether a lock of somebody else is in the way.
pub(crate) fn lock(file: &File, command: i32, kind: i32, byte: libc::off_t) -> std::io::Result<bool> {
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

/// What whoever looks at a run writes, or holds, in its directory.
const OF_READERS: [&str; 5] = ["run.lock", "traces", "durations", "report.html", "figures"];

/// When the newest file in `folder` or below was written, milliseconds since the epoch of Unix; but for those that
/// whoever looks at a run writes.
pub fn newest_file(folder: &Path) -> Option<i64> {
    let when = |entry: std::fs::DirEntry| {
        if OF_READERS.iter().any(|name| entry.file_name() == *name) {
            return None;
        }
        let found = entry.metadata().ok()?;
        match found.is_dir() {
            true => newest_file(&entry.path()),
            false => Some(found.mtime() * 1000 + found.mtime_nsec() / 1_000_000),
        }
    };
    std::fs::read_dir(folder).ok()?.flatten().filter_map(when).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::manifest;
    use crate::scratch::Scratch;

    #[test]
    fn the_newest_file_is_none_that_a_look_at_the_run_wrote() {
        let scratch = Scratch::new();
        let write = |name: &str, seconds: u64| {
            let place = scratch.path().join(name);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            let when = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            std::fs::File::create(place).unwrap().set_modified(when).unwrap();
        };
        write("events/run.parquet", 5);
        write("stamps/node=a/point=work/part-00000000.parquet", 7);
        for (name, later) in [("run.lock", 8), ("traces/part-00000000.parquet", 9), ("report.html", 10)] {
            write(name, later);
        }
        assert_eq!(newest_file(scratch.path()), Some(7000));
    }

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

    #[test]
    fn whoever_may_not_open_the_lock_believes_an_end_that_was_written_and_else_the_list_of_locks() {
        let scratch = Scratch::new();
        let (mut run, writing) = Run::begin(scratch.path(), Manifest { ended_unix_ms: None, ..manifest() }).unwrap();
        let mode = |run: &Run| run.paths().lock().metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(&run), 0o600, "a stranger could hold it");
        let is_root = tickscope_stamp::directory::user() == 0;
        let of_stranger = |run: &Run| {
            let look = || {
                // SAFETY: a system call without memory; it changes this thread alone, which ends here.
                unsafe { libc::setfsuid(65534) };
                run.state().map_err(|e| e.to_string())
            };
            std::thread::scope(|scope| scope.spawn(look).join().unwrap())
        };
        if !is_root {
            return println!("LEFT OUT: what another user finds needs root");
        }
        assert_eq!(of_stranger(&run), Ok(RunState::GoingOn));
        run.set_manifest(Manifest { ended_unix_ms: Some(1), ..manifest() }).unwrap();
        assert_eq!((of_stranger(&run), run.state().unwrap()), (Ok(RunState::Ended), RunState::GoingOn));
        drop(writing);
        assert_eq!((of_stranger(&run), run.state().unwrap()), (Ok(RunState::Ended), RunState::Ended));
        run.set_manifest(Manifest { ended_unix_ms: None, ..manifest() }).unwrap();
        let _changing = run.lock_traces(); // another byte of the same file
        assert_eq!((of_stranger(&run), run.state().unwrap()), (Ok(RunState::CutOff), RunState::CutOff));
    }

    #[test]
    fn only_a_run_that_lacks_its_end_says_so_and_names_the_command_that_helps() {
        let scratch = Scratch::new();
        let directory = std::path::PathBuf::from("/dev/shm/tickscope-0");
        let of = |ended_unix_ms, left: bool| {
            let stamp_directories = left.then(|| (manifest().nodes[0].name.clone(), directory.clone()));
            Manifest { ended_unix_ms, stamp_directories: stamp_directories.into_iter().collect(), ..manifest() }
        };
        let mut run = Run::create(scratch.path(), of(None, true)).unwrap();
        let told = run.unfinished().unwrap().unwrap();
        let finish = format!("tickscope finish {}", scratch.path().display());
        assert!(told.starts_with("this run was cut off at about 20") && told.contains(&finish), "{told}");
        let sessions = [(manifest().nodes[0].name.clone(), "a session".into())].into_iter().collect();
        run.set_manifest(Manifest { sessions, ..of(None, true) }).unwrap();
        let told = run.unfinished().unwrap().unwrap();
        assert!(told.contains("may go on: tickscope resume") && told.contains(&finish), "{told}");
        run.set_manifest(of(None, true)).unwrap();
        let going_on = run.write().unwrap();
        assert_eq!(run.unfinished().unwrap(), None);
        drop(going_on);
        run.set_manifest(of(Some(1), true)).unwrap();
        let told = run.unfinished().unwrap().unwrap();
        assert!(told.contains("/dev/shm/tickscope-0") && told.contains(&finish), "{told}");
        for without in [of(Some(1), false), of(None, false)] {
            run.set_manifest(without).unwrap();
            assert_eq!(run.unfinished().unwrap(), None);
        }
    }

    #[test]
    fn a_time_is_told_to_the_second() {
        assert_eq!(utc(1_709_210_096_789), "2024-02-29 12:34:56 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59:59 UTC");
    }
}

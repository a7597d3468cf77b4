//! Errors of a run's files, said so that the reader knows what to do next.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

/// A file or directory that could not be used: what failed or was not as expected, and what would help.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    place: PathBuf,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Io,
    Foreign,
    Newer,
    Corrupt,
    Missing,
    Strange,
    Busy,
    Full,
}

/// What is there of a file that is not.
pub(crate) const NO_FILE: &str = "no such file";

/// The result of a function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns whether the file was written by a later version of tickscope than this one reads.
    pub fn is_newer(&self) -> bool {
        self.kind == Kind::Newer
    }

    /// Returns whether the file was written by something else than tickscope.
    pub fn is_foreign(&self) -> bool {
        self.kind == Kind::Foreign
    }

    /// Returns whether someone else holds what was asked for.
    pub fn is_busy(&self) -> bool {
        self.kind == Kind::Busy
    }

    /// Returns whether the disk did not take what was written: full, over a quota or a limit, failing, or gone.
    pub fn is_disk_full(&self) -> bool {
        self.kind == Kind::Full
    }

    /// Returns whether the file itself is not what it has to be, whatever the system does.
    pub fn is_of_the_file(&self) -> bool {
        matches!(self.kind, Kind::Foreign | Kind::Newer | Kind::Corrupt | Kind::Missing | Kind::Strange)
    }

    /// What is wrong with the file, after its name.
    pub fn word(&self) -> &'static str {
        match self.kind {
            Kind::Missing => "missing",
            Kind::Corrupt => "changed",
            Kind::Foreign | Kind::Strange => "strange",
            Kind::Newer => "of a later version",
            Kind::Io | Kind::Busy | Kind::Full => "not readable",
        }
    }

    /// The file or directory concerned.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The system refused what was tried; `action` is a verb that the place follows: "open", "make the folder".
    pub fn io(place: &Path, action: &str, error: std::io::Error) -> Self {
        // A disk that takes nothing: full, beyond a limit, failing, gone, or read-only since it failed.
        const FULL: [i32; 3] = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG];
        const GONE: [i32; 5] = [libc::EIO, libc::EROFS, libc::ENODEV, libc::ENXIO, libc::ESTALE];
        let full = error.raw_os_error().is_some_and(|code| FULL.contains(&code) || GONE.contains(&code));
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "check the rights of the directory, or run as its owner",
            std::io::ErrorKind::StorageFull => "free some space; nothing that was already stored is lost",
            std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::FileTooLarge => {
                "raise the quota or limit (ulimit -f); nothing that was already stored is lost"
            }
            _ => "check the file system and try again",
        };
        let kind = if full { Kind::Full } else { Kind::Io };
        let message = format!("cannot {action} {}: {error}; {remedy}", place.display());
        Self { kind, place: place.into(), message }
    }

    /// A spool that holds all that it may.
    pub fn spool_full(root: &Path) -> Self {
        let message = format!(
            "cannot add to {}: what waits there to be fetched takes as much as the node's spool_mb allows; raise it in \
             the run file",
            root.display()
        );
        Self { kind: Kind::Full, place: root.into(), message }
    }

    /// A run's directory in whose place there is another, or none.
    pub fn vanished(root: &Path, expected: impl Display, found: impl Display) -> Self {
        let expected = format_args!("the run's directory ({expected})");
        let remedy = "its disk was unmounted, or it was moved: mount the same disk again (one made anew is another), \
                      or move it back";
        Self::unlike(Kind::Full, root, expected, found, remedy)
    }

    /// The same error, which says more.
    pub fn and(self, more: impl Display) -> Self {
        Self { message: format!("{}; {more}", self.message), ..self }
    }

    /// A run whose segments lie in object storage.
    pub(crate) fn stored_elsewhere(root: &Path, address: &str) -> Self {
        let (expected, found) = ("the segments of a run", format_args!("that they lie in {address}"));
        let remedy = format!("once the run has ended and is uploaded, tickscope.open('{address}') asks it, in Python");
        Self::unlike(Kind::Missing, root, expected, found, &remedy)
    }

    fn unlike(kind: Kind, place: &Path, expected: impl Display, found: impl Display, remedy: &str) -> Self {
        let message = format!("{}: expected {expected}, found {found}; {remedy}", place.display());
        Self { kind, place: place.into(), message }
    }

    /// Not written by tickscope.
    pub fn foreign(place: &Path, expected: impl Display, found: impl Display) -> Self {
        let remedy = "it was not written by tickscope: move it out of the run";
        Self::unlike(Kind::Foreign, place, expected, found, remedy)
    }

    /// Written by a later tickscope.
    pub fn newer(place: &Path, what: &str, known: u32, found: impl Display) -> Self {
        let remedy = "read it with the tickscope that wrote it, or a later one";
        Self::unlike(Kind::Newer, place, format_args!("{what} {known} or older"), found, remedy)
    }

    /// Torn, damaged or changed.
    pub fn corrupt(place: &Path, expected: impl Display, found: impl Display) -> Self {
        let remedy = "remove it or restore it from a copy; the other files of the run are not affected";
        Self::unlike(Kind::Corrupt, place, expected, found, remedy)
    }

    /// A note of segments that lie in storage alone, torn or changed.
    pub(crate) fn damaged_note(place: &Path, expected: impl Display, found: impl Display) -> Self {
        let remedy = "correct the line or restore the file from a copy; do not remove it: nothing else names these \
                      segments, and their nodes have forgotten them";
        Self::unlike(Kind::Corrupt, place, expected, found, remedy)
    }

    /// A file of this run that lies where it does not belong, or of another run.
    pub(crate) fn stray(place: &Path, here: &str, of: &str) -> Self {
        let (expected, found) = (format_args!("a file of {here}"), format_args!("one of {of}"));
        let remedy = "move it back where it belongs, and restore the one that belongs here from a copy";
        Self::unlike(Kind::Strange, place, expected, found, remedy)
    }

    /// Something about a run's files that is unlike what was written.
    pub(crate) fn changed(place: &Path, expected: impl Display, found: impl Display) -> Self {
        let remedy = match place.parent().and_then(Path::file_name).is_some_and(|folder| folder == "traces") {
            true => {
                "do not trust figures of it: restore it from a copy, or, without it, let tickscope show join it again \
                 from stamps/"
            }
            false => "do not trust figures of it: restore the run from a copy, or measure again",
        };
        let (expected, found) = (expected.to_string(), found.to_string());
        let kind = match [expected.as_str(), &found] {
            [_, NO_FILE] => Kind::Missing,
            [NO_FILE, _] => Kind::Strange,
            _ => Kind::Corrupt,
        };
        Self::unlike(kind, place, expected, found, remedy)
    }

    /// A table with a column that this version knows nothing of.
    pub(crate) fn unknown_column(place: &Path, known: &str, found: &str) -> Self {
        let (expected, found) = (format_args!("columns {known}"), format_args!("a column '{found}'"));
        let remedy = "remove that column, or read the run with the tickscope that wrote it";
        Self::unlike(Kind::Corrupt, place, expected, found, remedy)
    }

    /// Held by someone else.
    pub fn busy(place: &Path, expected: impl Display, found: impl Display) -> Self {
        Self::unlike(Kind::Busy, place, expected, found, "stop the other one, or give each its own directory")
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_takes_nothing_is_told_from_a_file_that_may_not_be_written() {
        let failed = |code| Error::io(Path::new("part"), "write", std::io::Error::from_raw_os_error(code));
        let full = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG, libc::EIO, libc::EROFS, libc::ENODEV, libc::ENXIO];
        assert!(full.into_iter().chain([libc::ESTALE]).all(|code| failed(code).is_disk_full()));
        assert!(![libc::EACCES, libc::ENOENT, libc::EINVAL].into_iter().any(|code| failed(code).is_disk_full()));
    }
}

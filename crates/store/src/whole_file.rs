//! A file that appears under its name complete or not at all.
//!
//! It is written under a hidden name beside its place and renamed at the end. Assumes: nobody else writes the same
//! place at the same time. Guarantees: whoever is killed while writing leaves at most a hidden file, which readers
//! skip and the next writer of the same place removes; what lies under the hidden name is never written into, be it a
//! link out of the run; nobody but its owner may write folders and files, whatever the umask. Deliberately absent: a
//! promise about power loss. Stamps
//! come from memory that does not survive one either, and waiting for the disk at each segment would stall the
//! collector; a file torn by a power loss lacks its footer and is refused by name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A file being written; gone again unless [`WholeFile::finish`] is reached.
pub struct WholeFile {
    file: File,
    hidden: PathBuf,
    place: PathBuf,
}

impl WholeFile {
    /// Begins the file that is to appear at `place`; makes the folders above it.
    pub fn begin(place: &Path) -> Result<Self> {
        let hidden = hidden_name(place);
        if let Some(folder) = place.parent() {
            make_folders(folder)?;
        }
        // A device would be gone, and a file in its place.
        if fs::symlink_metadata(place).is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
            let unfit = io::Error::new(io::ErrorKind::InvalidInput, "it is no ordinary file");
            return Err(Error::io(place, "write", unfit));
        }
        match fs::remove_file(&hidden) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io(&hidden, "remove", e)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        // Never through a link: a new file, or none.
        options.read(true).write(true).create_new(true).mode(0o644);
        let file = options.open(&hidden).map_err(|e| Error::io(&hidden, "write", e))?;
        Ok(Self { file, hidden, place: place.into() })
    }

    /// Where its bytes go.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where its bytes lie until it has its name.
    pub(crate) fn hidden(&self) -> &Path {
        &self.hidden
    }

    /// Gives the file its name, in place of any other of that name.
    pub fn finish(self) -> Result<()> {
        fs::rename(&self.hidden, &self.place).map_err(|e| Error::io(&self.place, "give its name to", e))
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        // After `finish` there is no hidden file left, and that is no error.
        let _ = fs::remove_file(&self.hidden);
    }
}

/// Makes a folder, and those above it, that nobody but its owner may write.
pub fn make_folders(folder: &Path) -> Result<()> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
    made.map_err(|e| Error::io(folder, "make the folder", e))
}

/// Waits until the disk has the names in a folder, as far as its filesystem can: one that cannot says `EINVAL`.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(e) if e.raw_os_error() != Some(libc::EINVAL) => Err(Error::io(folder, "flush", e)),
        _ => Ok(()),
    }
}

/// Writes `bytes` as the file at `place`, whole, in place of any other of that name.
pub fn write_whole(place: &Path, bytes: &[u8]) -> Result<()> {
    let whole = WholeFile::begin(place)?;
    whole.file().write_all(bytes).map_err(|e| Error::io(place, "write", e))?;
    whole.finish()
}

/// Opens the file at `place` for reading, and nothing that is no ordinary file: no FIFO, which would be waited for, no
/// device, which need not end, and no link, which may lead out of the run.
pub fn open_regular(place: &Path) -> io::Result<File> {
    let unfit = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what} and no ordinary file"));
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = match options.open(place) {
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return Err(unfit("a symbolic link")),
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => return Err(unfit("a socket")),
        other => other?,
    };
    let kind = file.metadata()?.file_type();
    match kind.is_file() {
        true => Ok(file),
        false => Err(unfit(if kind.is_dir() { "a directory" } else { "a FIFO or a device" })),
    }
}

/// Reads the text file at `place`, of at most `limit` bytes; see [`open_regular`].
pub(crate) fn read_text(place: &Path, limit: u64) -> io::Result<String> {
    let file = open_regular(place)?;
    let bytes = file.metadata()?.len();
    if bytes > limit {
        let found = format!("it has {bytes} bytes, of at most {limit}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, found));
    }
    io::read_to_string(io::Read::take(file, limit))
}

/// `folder/.name.part` for `folder/name`.
fn hidden_name(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.part"))
}

/// The name that a file under a hidden name is about to get; any other name as it is.
pub(crate) fn name_to_be(name: &str) -> &str {
    name.strip_prefix('.').and_then(|name| name.strip_suffix(".part")).unwrap_or(name)
}

/// Whatever lies in `folder` under names that end in `extension`, in the order of the names; hidden ones are not
/// listed. What is no file is listed too, so that whoever opens it says so.
pub fn files_in(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = entries(folder)?;
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    Ok(files)
}

/// The folders in `folder` named `key=value`, as `value` and path, in the order of their names.
pub fn keyed_folders(folder: &Path, key: &str) -> Result<Vec<(String, PathBuf)>> {
    let value = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let (found, value) = name.split_once('=')?;
        (found == key && path.is_dir()).then(|| (value.to_string(), path.clone()))
    };
    Ok(entries(folder)?.iter().filter_map(value).collect())
}

/// Entries of `folder` that are not hidden, sorted; nothing if there is no such folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let wrong = |e| Error::io(folder, "list", e);
    let listing = match fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(wrong)?,
    };
    let mut paths = Vec::new();
    for entry in listing {
        let entry = entry.map_err(wrong)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_is_seen_only_once_it_is_finished() {
        let scratch = Scratch::new();
        let place = scratch.path().join("a=1/x.parquet");
        let whole = WholeFile::begin(&place).unwrap();
        whole.file().write_all(b"half").unwrap();
        assert!(!place.exists() && files_in(place.parent().unwrap(), "parquet").unwrap().is_empty());
        whole.finish().unwrap();
        assert_eq!(files_in(place.parent().unwrap(), "parquet").unwrap(), [place]);
        assert_eq!(keyed_folders(scratch.path(), "a").unwrap()[0].0, "1");
    }

    #[test]
    fn what_lies_under_the_hidden_name_is_not_written_into() {
        let scratch = Scratch::new();
        let [place, hidden, others] = ["x.json", ".x.json.part", "others"].map(|name| scratch.path().join(name));
        fs::write(&others, "theirs").unwrap();
        std::os::unix::fs::symlink(&others, &hidden).unwrap();
        write_whole(&place, b"ours").unwrap();
        let name = std::ffi::CString::new(hidden.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends in 0.
        let fifo = || assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
        fifo();
        write_whole(&place, b"again").unwrap();
        assert_eq!([&place, &others].map(|file| fs::read(file).unwrap()), [b"again".to_vec(), b"theirs".to_vec()]);
        assert!(place.symlink_metadata().unwrap().is_file());
        fifo();
        let refused = write_whole(&hidden, b"a FIFO stays one").unwrap_err().to_string();
        assert!(refused.contains("no ordinary file"), "{refused}");
    }

    #[test]
    fn what_is_no_ordinary_file_is_refused_and_not_waited_for() {
        let scratch = Scratch::new();
        let [fifo, folder, link] = ["fifo", "folder", "link"].map(|name| scratch.path().join(name));
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends in 0.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        let socket = scratch.path().join("socket");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for place in [&fifo, &folder, &link, &socket, &"/dev/zero".into()] {
            let said = open_regular(place).unwrap_err().to_string();
            assert!(said.starts_with("it is a") && said.ends_with("no ordinary file"), "{said}");
        }
    }

    #[test]
    fn a_file_given_up_leaves_nothing_behind() {
        let scratch = Scratch::new();
        drop(WholeFile::begin(&scratch.path().join("x.json")).unwrap());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}

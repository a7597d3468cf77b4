//! Descriptors that the library keeps in a program which may close them, and get their numbers for files of its own.
//!
//! Guarantees: a number that leads to another file by now is neither used nor closed, unless another thread changes it
//! between the look at it and the use. Numbers are high: the lower ones stay the program's, and those of stdin, stdout
//! and stderr always.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd};

/// Numbers begin here, or at half of what the process may have.
const LOWEST: u64 = 512;

/// What a descriptor led to once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenFile {
    pub device: u64,
    /// 0: it led to nothing.
    pub inode: u64,
}

impl OpenFile {
    /// What a descriptor leads to.
    pub fn of(descriptor: i32) -> Self {
        let mut found = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: a stat is plain data and outlives the call; a descriptor that is none is an error.
        let found = unsafe { (libc::fstat(descriptor, found.as_mut_ptr()) == 0).then(|| found.assume_init()) };
        found.map_or(Self { device: 0, inode: 0 }, |found| Self { device: found.st_dev, inode: found.st_ino })
    }

    /// Whether a descriptor leads there still.
    pub fn is_at(self, descriptor: i32) -> bool {
        self.inode != 0 && Self::of(descriptor) == self
    }
}

/// A file that stays open until this is dropped, or the program closes it.
#[derive(Debug)]
pub(crate) struct Kept {
    descriptor: i32,
    file: OpenFile,
}

impl Kept {
    /// Keeps the file, under a high number where there is one.
    pub fn of(file: File) -> Self {
        let descriptor = raised(&file).unwrap_or_else(|_| file.into_raw_fd());
        Self { descriptor, file: OpenFile::of(descriptor) }
    }

    /// Keeps the file under a high number of its own.
    pub fn high(file: &File) -> io::Result<Self> {
        raised(file).map(|descriptor| Self { descriptor, file: OpenFile::of(descriptor) })
    }

    /// The file, unless the program has closed it.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: it is open, and this value's.
        self.file.is_at(self.descriptor).then(|| unsafe { BorrowedFd::borrow_raw(self.descriptor) })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.file.is_at(self.descriptor) {
            // SAFETY: the descriptor is this value's alone.
            unsafe { libc::close(self.descriptor) };
        }
    }
}

/// A new file under a high number before anything is in it, and as empty as it was: while it had a low one, which may
/// be that of a stderr that the program has closed, another thread may have written to it. Such a one is not kept.
pub(crate) fn moved_up(file: File) -> io::Result<File> {
    let high = match raised(&file) {
        Err(_) if file.as_raw_fd() > libc::STDERR_FILENO => return Ok(file),
        raised => raised?,
    };
    // SAFETY: it was made just now, and is nobody else's.
    let file = unsafe { File::from_raw_fd(high) };
    file.set_len(0).map(|()| file)
}

/// The same file under a descriptor of its own that the program is not likely to get again.
pub(crate) fn raised(file: &File) -> io::Result<i32> {
    let lowest = limit(libc::RLIMIT_NOFILE).map_or(LOWEST, |limit| LOWEST.min(limit / 2));
    // SAFETY: a valid descriptor; the new one is the caller's alone.
    let high = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest.max(3) as i32) };
    match io::Error::last_os_error().raw_os_error() {
        _ if high >= 0 => Ok(high),
        Some(libc::EINVAL) => Err(io::Error::from_raw_os_error(libc::EMFILE)), // the limit is below that
        error => Err(io::Error::from_raw_os_error(error.unwrap_or(0))),
    }
}

/// The number of a limit, which C libraries declare differently.
#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

/// What the process may have of something; `None`: as much as it wants.
pub(crate) fn limit(of: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: an rlimit that outlives the call.
    let asked = unsafe { libc::getrlimit(of, &mut limit) } == 0;
    (asked && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

//! Free space of a file system.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that a user may still write where `place` is; `None`: it is not there, or the kernel does not say.
pub fn free_bytes(place: &Path) -> Option<u64> {
    let path = CString::new(place.as_os_str().as_bytes()).ok()?;
    // SAFETY: statvfs fills the zeroed struct that it is given, and reads a terminated path.
    let (status, found) = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut found), found)
    };
    (status == 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

//! The log of a channel under `all`: its records, verbatim, each written at once.
//!
//! A file a channel in the directory that `TICKSCOPE_LOGS` names, `<pool>-<serial>.log`, 0600. Each stamp is one
//! write of its record behind the others. What the log does not take is counted; the record lies in a block all the
//! same.
//!
//! Guarantees: a descriptor that the program has closed, and perhaps got again for a file of its own, is neither
//! written nor closed, unless another thread does so between the look at it and the write; and such a write never
//! waits. No signal comes of a limit on the size of files. Deliberately absent: a mapping of the file. A store to it
//! ends the program where somebody cut the file, or where a file system copies on write and its disk is full.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::mem::{self, MaybeUninit};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use tickscope_tick::printable;

use super::Handle;
use crate::block::UNIT_BYTES;
use crate::descriptor::{limit, raised};
use crate::entropy;
use crate::policies::Action;
use crate::primitive::own_fetch_add;
use crate::process::{OwnPool, Process};

/// Opens the log of a channel whose policy is `all`; that there is none is told once, with what helps.
pub(super) fn open_log(handle: &Handle, pool: OwnPool, process: &mut Process) {
    if !matches!(handle.rule.get(), Action::All) || handle.log.get() >= 0 {
        return;
    }
    let logs = process.environment.as_ref().and_then(|environment| environment.logs.clone());
    let open = |directory: &PathBuf| {
        let mark = entropy::number()? >> 25 | 1 << 39; // 512 GiB and above
        let path = directory.join(format!("{:016x}-{}.log", pool.header().instance, handle.serial.get()));
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(&path)?;
        let raised = file.seek(SeekFrom::Start(mark)).and_then(|_| raised(&file));
        if raised.is_err() {
            let _ = fs::remove_file(&path); // empty
        }
        Ok((raised?, mark))
    };
    let none = io::Error::from_raw_os_error(libc::ENOENT);
    match logs.as_ref().map_or(Err(none), open) {
        Ok((log, mark)) => {
            handle.log_mark.set(mark as i64);
            handle.log_length.store(0, Ordering::Relaxed);
            handle.log.set(log);
        }
        Err(why) if !mem::replace(&mut process.told_logs, true) => {
            let found = logs.map_or("none".to_owned(), |directory| format!("{}: {why}", directory.display()));
            process.said += &format!(
                "tickscope: expected TICKSCOPE_LOGS to name a directory for the logs of channels under the policy all, \
                 found {}. Their stamps are kept as under buffered{}.\n",
                printable(&found),
                remedy(&why)
            );
        }
        Err(_) => {}
    }
}

/// What helps where a log can't be opened; empty where nothing is known to.
fn remedy(why: &io::Error) -> &'static str {
    match why.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => "; make that directory, and name it",
        Some(libc::EMFILE) => "; raise ulimit -n: a log takes a descriptor",
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => "; name a directory that this user can write",
        _ => "",
    }
}

/// Returns whether the log's descriptor still leads to it: the program may have closed that, and got it for a file of
/// its own. A log is told by its position, which is drawn by lot, and which no write of it moves.
fn has_log(handle: &Handle) -> bool {
    // SAFETY: a look at a position; a descriptor of -1 is an error.
    unsafe { libc::lseek(handle.log.get(), 0, libc::SEEK_CUR) == handle.log_mark.get() }
}

/// Writes a record behind the others; what the log does not take whole, it does not take.
pub(super) fn write_log(handle: &Handle, pool: OwnPool, record: *const u8) {
    let bytes = handle.fields as u64 * UNIT_BYTES as u64;
    // First: a signal handler goes behind it.
    let length = own_fetch_add(&handle.log_length, bytes);
    // Beyond that limit the kernel sends SIGXFSZ, which ends a program that does not expect it.
    let fits = limit(libc::RLIMIT_FSIZE).is_none_or(|limit| length + bytes <= limit);
    if fits && has_log(handle) && append(handle, record, (bytes as usize, length)) {
        return;
    }
    own_fetch_add(&handle.log_length, bytes.wrapping_neg());
    pool.header().unwritten.fetch_add(1, Ordering::Relaxed);
}

/// Returns whether the log has taken the record. The offset keeps a pipe or a socket, in which a program could wait for
/// ever, from being written to; a log takes everything at its end.
fn append(handle: &Handle, record: *const u8, (bytes, length): (usize, u64)) -> bool {
    let log = handle.log.get();
    // SAFETY: the record is as long as that; a descriptor of -1 is an error.
    let written = unsafe { libc::pwrite(log, record.cast(), bytes, length as libc::off_t) };
    if written > 0 && written != bytes as isize && !is_cut(log, written as libc::off_t) {
        close_log(handle); // it ends so
    }
    written == bytes as isize
}

/// Takes the last bytes of a log away; returns whether they are gone.
fn is_cut(log: i32, bytes: libc::off_t) -> bool {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a stat is plain data and outlives the calls; a descriptor of -1 is an error.
    unsafe {
        libc::fstat(log, found.as_mut_ptr()) == 0 && libc::ftruncate(log, found.assume_init().st_size - bytes) == 0
    }
}

/// Closes the log, unless its descriptor is the program's by now.
pub(super) fn close_log(handle: &Handle) {
    let has_log = has_log(handle);
    let log = handle.log.replace(-1);
    if has_log {
        // SAFETY: the descriptor is this handle's alone.
        unsafe { libc::close(log) };
    }
}

//! Folders of sessions whose agents have ended: what is of no use any more is removed.
//!
//! A session's folder goes with its agent once the run has all that it holds. What stays is of a run that never came
//! back: its conductor was killed and nobody finished it, or its directory was removed.
//!
//! Guarantees: no folder of a session goes that an agent serves, and, unless told to, none that holds stamps.
//! Deliberately absent: shared memory, which `tickscope doctor` lists.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;

use tickscope_store::{PointStamps, keyed_folders};
use tickscope_tick::counted;

use super::session::homes;
use crate::Error;
use crate::leftovers::is_ours;

/// Treatment of ended sessions that hold stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfetched {
    /// They stay, and are named.
    Keep,
    /// They go.
    Remove,
}

/// Removes the folders of sessions of this user that are over; what was done, and what stays, a line each.
pub fn remove_ended_sessions(unfetched: Unfetched) -> Vec<String> {
    let mut lines = Vec::new();
    for sessions in homes().iter().map(|home| home.join("sessions")).filter(|sessions| is_ours(sessions)) {
        let mut names: Vec<_> = fs::read_dir(&sessions).into_iter().flatten().flatten().collect();
        names.sort_by_key(fs::DirEntry::file_name);
        for entry in names {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_session = name.len() == 16 && name.bytes().all(|digit| digit.is_ascii_hexdigit());
            if is_session && is_ours(&entry.path()) {
                let done = remove(&name, &entry.path(), unfetched);
                lines.push(done.unwrap_or_else(|why| why.to_string()));
            }
        }
    }
    lines
}

fn remove(name: &str, folder: &Path, unfetched: Unfetched) -> Result<String, Error> {
    let wrong = |what: &str, e: &dyn std::fmt::Display| {
        Error::work(format!("cannot {what} session {name}: {e}. See {}", folder.display()))
    };
    // Whoever serves it holds this; whoever begins to serve it meanwhile finds it held, and tries again.
    let lock = File::options().write(true).create(true).truncate(false).open(folder.join("lock"));
    let lock = lock.map_err(|e| wrong("look at", &e))?;
    // SAFETY: a system call on a descriptor that outlives it.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Ok(format!("session {name} goes on"));
    }
    let stamps = stamps_in(&folder.join("run")).map_err(|e| wrong("read", &e))?;
    if stamps.is_none_or(|stamps| stamps > 0) && unfetched == Unfetched::Keep {
        let what = stamps.map_or_else(|| "files that cannot be read".into(), |stamps| counted(stamps, "stamp"));
        return Ok(format!(
            "left session {name}: it holds {what}, and no run said that it has them; tickscope finish RUN fetches \
             them, --unfetched removes them"
        ));
    }
    fs::remove_dir_all(folder).map_err(|e| wrong("remove", &e))?;
    Ok(format!("removed session {name}"))
}

/// Stamps in the spool, receipts not counted; `None`: some file cannot be read.
fn stamps_in(spool: &Path) -> tickscope_store::Result<Option<u64>> {
    let mut stamps = 0;
    for (_, node) in keyed_folders(&spool.join("stamps"), "node")? {
        for (_, point) in keyed_folders(&node, "point")? {
            let point = PointStamps::open(&point)?;
            if !point.refused().is_empty() {
                return Ok(None);
            }
            stamps += point.len();
        }
    }
    Ok(Some(stamps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_store::{ChannelCount, Origin, StampColumns, next_segment, write_segment};

    #[test]
    fn an_ended_session_goes_unless_it_holds_stamps_and_one_that_is_served_stays() {
        let home = std::env::temp_dir().join(format!("tickscope-sessions-{}", std::process::id()));
        let make = |name: &str| {
            let folder = home.join(name);
            fs::create_dir_all(folder.join("run")).unwrap();
            folder
        };
        let segment = |folder: &Path, stamps: &StampColumns| {
            let counts = vec![ChannelCount { channel: 1, stored: 3, ..ChannelCount::default() }];
            let place = next_segment(&folder.join("run/stamps/node=n/point=p")).unwrap();
            write_segment(&place, stamps, &Origin { counts, ..Origin::default() }).unwrap();
        };
        let empty = make("empty");
        segment(&empty, &StampColumns::slim(vec![], vec![], vec![])); // a receipt
        let full = make("full");
        segment(&full, &StampColumns::slim(vec![1, 2, 3], vec![1, 2, 3], vec![1; 3]));
        let served = make("served");
        let lock = File::create(served.join("lock")).unwrap();
        // SAFETY: a system call on a descriptor that outlives it.
        assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }, 0);
        let said = |folder: &Path, unfetched| remove("x", folder, unfetched).unwrap();
        assert_eq!(said(&empty, Unfetched::Keep), "removed session x");
        let left = said(&full, Unfetched::Keep);
        assert!(left.contains("left session x: it holds 3 stamps") && left.contains("--unfetched"), "{left}");
        assert!(!empty.exists() && full.exists());
        assert_eq!(said(&full, Unfetched::Remove), "removed session x");
        assert_eq!(said(&served, Unfetched::Remove), "session x goes on");
        assert!(!full.exists() && served.exists());
        fs::remove_dir_all(home).unwrap();
    }
}

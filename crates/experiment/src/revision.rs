//! The revision of the repository that a run file lies in.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long git may take: in a large repository it looks at every file.
const PATIENCE: Duration = Duration::from_secs(2);

/// What `git describe` says there; `None`: no repository, no git, or it took too long.
pub(crate) fn revision(folder: &Path) -> Option<String> {
    let mut git = Command::new("git");
    // Nothing is written, and no program of the repository's own is started.
    git.env("GIT_OPTIONAL_LOCKS", "0").args(["-c", "core.fsmonitor=false", "-C"]).arg(folder);
    git.args(["describe", "--always", "--dirty"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = git.spawn().ok()?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            None => {
                let _ = child.kill(); // it may have ended meanwhile
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|text| status.success() && !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_outside_of_any_repository_has_no_revision() {
        assert_eq!(revision(Path::new("/proc")), None);
        assert_eq!(revision(Path::new("/no/such/folder")), None);
    }
}

//! Kept answers: a run that is unchanged, and asked the same once more, need not be computed anew.
//!
//! Idea: an answer is kept under a digest of all that it follows from: the list of digests of the run's files, the run
//! as it is asked, the options, and the bytes of this program. It lies in the user's cache, since whoever reads a run
//! leaves nothing in it. Assumes: what lies in a folder of this user alone was left there by this command. Guarantees:
//! an answer is given only while each file that figures are made of has, read whole, the digest that it was computed
//! from: so it is what computing anew would say, bit for bit. One that is torn or changed is not used. Deliberately
//! absent: times of modification, which prove nothing; answers of a run that goes on, was cut off or has faults.

use std::fs::{self, DirBuilder};
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tickscope_analysis::Query;
use tickscope_show::terminal::Terminal;
use tickscope_store::{Digest, Run, open_regular, write_whole};

use crate::failure::Failure;
use crate::output::{note, print};
use crate::show::Opened;

/// Of a run with fewer bytes of traces nothing is kept: it takes no longer to compute.
const LEAST_TRACES_BYTES: u64 = 1 << 20;
/// ShowAnswers that are kept, at most: the oldest go.
const MOST_ANSWERS: usize = 64;
/// Bytes of an answer that is kept, at most.
const MOST_BYTES: u64 = 4 << 20;

/// All that `show` says of a run without faults.
#[derive(Serialize, Deserialize)]
pub struct ShowAnswer {
    /// On standard error, before the text.
    pub notes: Vec<String>,
    /// On standard output.
    pub text: String,
    /// How the command ends.
    pub verdict: Result<(), Failure>,
}

impl ShowAnswer {
    /// Says it, and ends as it does.
    pub fn say(&self) -> Result<(), Failure> {
        self.notes.iter().for_each(note);
        print(self.text.as_bytes())?;
        self.verdict.clone()
    }
}

/// A question whose answer may be kept.
pub struct TableQuestion {
    /// Digest of the run's list of digests.
    list: u128,
    place: PathBuf,
}

impl TableQuestion {
    /// The question that this process was started with, to an opened run, for that terminal. `None`: nothing is kept.
    pub fn of(opened: &Opened, query: &Query, terminal: &Terminal) -> Option<Self> {
        let Opened { ready, faults } = opened;
        let run = &ready.run;
        if !faults.all().is_empty() || ready.preparation.joined.is_some() || traces_bytes(run)? < LEAST_TRACES_BYTES {
            return None;
        }
        let list = run.list_digest().ok()??;
        let mut name = Digest::default();
        name.read(&std::env::current_exe().ok()?).ok()?;
        (std::env::args_os().skip(1).collect::<Vec<_>>(), terminal).hash(&mut name);
        // What the files that options name say: limits, and the layout that the manifest has now.
        let named = [serde_json::to_string(&query.limits), serde_json::to_string(run.manifest())];
        for text in named {
            text.ok()?.hash(&mut name);
        }
        (list, run.root(), &ready.preparation.notes).hash(&mut name);
        Some(Self { list, place: folder()?.join(format!("{:032x}.json", name.finish_128())) })
    }

    /// The answer, if it is kept and `run` is as it was.
    pub fn answer(&self, run: &Run) -> Option<ShowAnswer> {
        let mut text = String::new();
        open_regular(&self.place).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        let (own, answer) = text.split_once('\n')?;
        let answer = (own == own_digest(answer)).then(|| serde_json::from_str(answer).ok())??;
        run.is_as_listed(self.list).ok()?.then_some(answer)
    }

    /// Keeps an answer that was computed from `run`, if that is still as it was listed. A failure costs no more than to
    /// compute once more.
    pub fn keep(&self, run: &Run, answer: &ShowAnswer) {
        let Ok(answer) = serde_json::to_string(answer) else { return };
        let text = format!("{}\n{answer}", own_digest(&answer));
        if text.len() as u64 <= MOST_BYTES && run.is_as_listed(self.list).unwrap_or(false) {
            let _ = write_whole(&self.place, text.as_bytes());
            self.place.parent().map(remove_oldest);
        }
    }
}

fn own_digest(answer: &str) -> String {
    let mut own = Digest::default();
    own.write(answer.as_bytes());
    format!("{:032x}", own.finish_128())
}

fn traces_bytes(run: &Run) -> Option<u64> {
    let files = fs::read_dir(run.paths().traces()).ok()?;
    Some(files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum())
}

/// The folder of answers, which nobody but this user can reach; `None`: there is none, and none can be made.
fn folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|cache| cache.is_absolute());
    let cache = cache.or_else(home)?;
    let user = tickscope_stamp::directory::user();
    // As root, in a home that is somebody else's, nothing is made.
    if cache.ancestors().find_map(|above| above.metadata().ok())?.uid() != user {
        return None;
    }
    let folder = cache.join("tickscope").join("answers");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let is_own = |place: &Path| place.symlink_metadata().is_ok_and(|at| at.is_dir() && at.uid() == user);
    let is_closed = folder.metadata().is_ok_and(|at| at.mode() & 0o077 == 0);
    (is_closed && folder.ancestors().take(2).all(is_own)).then_some(folder)
}

/// Removes the oldest answers, so that no more are kept than may be.
fn remove_oldest(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut kept: Vec<_> =
        entries.flatten().filter_map(|at| Some((at.metadata().ok()?.modified().ok()?, at.path()))).collect();
    kept.sort();
    for (_, oldest) in &kept[..kept.len().saturating_sub(MOST_ANSWERS)] {
        let _ = fs::remove_file(oldest);
    }
}

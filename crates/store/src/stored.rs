//! `stored/node=N.jsonl`: segments of a run that went from their node straight to object storage, and do not lie here.
//!
//! Idea: one line a segment, with its size and digest, on disk before the node is told that it may forget it. So the
//! run's `digests.json` names it, and a conductor that takes over knows of it. Assumes: a segment's name in storage has
//! one content, ever: only segments that do not grow any more are noted; a disk keeps what `fsync` said that it has, of
//! a file and of a folder, which no test here takes the power from. Guarantees: a line that a kill cut short is no
//! line, and its segment is put again; what grew here under the same name is removed once it is noted. Deliberately
//! absent: the way to storage, which is the experiment's.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use tickscope_tick::NodeName;

use crate::error::{Error, Result};
use crate::whole_file::{files_in, make_folders, read_text, sync_folder};

/// The folder of the notes.
pub(crate) const FOLDER: &str = "stored";
/// Bytes of a note: some million segments.
const NOTE_BYTES: u64 = 256 << 20;

/// A file of a run as it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub path: String,
    pub bytes: u64,
    pub xxh3_128: String,
}

/// The note of one agent's segments that storage has.
pub struct StoredNote {
    root: PathBuf,
    place: PathBuf,
    file: File,
    /// Bytes of its whole lines.
    whole: u64,
}

impl StoredNote {
    /// The note of the agent that has `node`, in the run at `root`.
    pub fn open(root: &Path, node: &NodeName) -> Result<Self> {
        let place = root.join(FOLDER).join(format!("node={node}.jsonl"));
        make_folders(&root.join(FOLDER))?;
        let wrong = |e| Error::io(&place, "write", e);
        let file = OpenOptions::new().append(true).create(true).open(&place).map_err(wrong)?;
        let whole = lines(&place)?.iter().map(|line| line.len() as u64 + 1).sum();
        // A line on disk is lost if the disk has no name for its file.
        [root.join(FOLDER).as_path(), root].into_iter().try_for_each(sync_folder)?;
        Ok(Self { root: root.into(), place, file, whole })
    }

    /// Notes a segment that storage has whole: its path in the run, bytes, and digest.
    pub fn add(&mut self, path: &str, bytes: u64, digest: &str) -> Result<()> {
        let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || !path.starts_with("stamps/") {
            return Err(Error::corrupt(&self.place, "a segment of the run", format!("'{}'", path.escape_debug())));
        }
        let entry = Entry { path: path.into(), bytes, xxh3_128: digest.into() };
        let line = serde_json::to_string(&entry).expect("text and numbers are JSON") + "\n";
        self.write(line.as_bytes()).map_err(|e| Error::io(&self.place, "write", e))?;
        self.whole += line.len() as u64;
        forget_here(&self.root, &entry)
    }

    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        // What a kill or a full disk cut short is taken away: this line begins a line.
        self.file.set_len(self.whole)?;
        self.file.write_all(line)?;
        self.file.sync_data()
    }
}

/// Removes what lies here of a segment that storage has: it was fetched while it grew.
fn forget_here(root: &Path, entry: &Entry) -> Result<()> {
    let place = root.join(&entry.path);
    match fs::remove_file(&place) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&place, "remove", e)),
        _ => Ok(()),
    }
}

/// The whole lines of a note.
fn lines(place: &Path) -> Result<Vec<String>> {
    let text = read_text(place, NOTE_BYTES).map_err(|e| Error::io(place, "read", e))?;
    let whole = text.rfind('\n').map_or("", |last| &text[..last]);
    Ok(whole.split('\n').filter(|line| !line.is_empty()).map(String::from).collect())
}

/// The segments that are noted in the run at `root`, each once, by their paths.
pub(crate) fn entries(root: &Path) -> Result<Vec<Entry>> {
    let mut found = std::collections::BTreeMap::new();
    for place in files_in(&root.join(FOLDER), "jsonl")? {
        for line in lines(&place)? {
            let entry: Entry = serde_json::from_str(&line).map_err(|e| {
                Error::damaged_note(&place, "a segment with its size and digest in each line", e.to_string())
            })?;
            found.insert(entry.path.clone(), entry);
        }
    }
    Ok(found.into_values().collect())
}

/// Removes what a conductor that was killed had noted, and not yet removed.
pub(crate) fn forget_all_here(root: &Path, entries: &[Entry]) -> Result<()> {
    entries.iter().try_for_each(|entry| forget_here(root, entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn node() -> NodeName {
        NodeName::new("n").unwrap()
    }

    fn path(part: u32) -> String {
        format!("stamps/node=n/point=p/part-{part:08}.parquet")
    }

    fn paths(root: &Path) -> Vec<String> {
        entries(root).unwrap().into_iter().map(|entry| entry.path).collect()
    }

    #[test]
    fn a_note_that_a_kill_cut_short_lacks_the_segment_that_it_was_at_and_no_other() {
        let scratch = Scratch::new();
        let root = scratch.path();
        let mut note = StoredNote::open(root, &node()).unwrap();
        (0..3).for_each(|part| note.add(&path(part), 7, "d").unwrap());
        let place = root.join("stored/node=n.jsonl");
        let text = fs::read_to_string(&place).unwrap();
        let all = paths(root);
        assert_eq!(all.len(), 3);
        for cut in 0..text.len() {
            fs::write(&place, &text[..cut]).unwrap();
            let kept = text[..cut].matches('\n').count();
            assert_eq!(paths(root), all[..kept], "{cut}");
            StoredNote::open(root, &node()).unwrap().add(&path(2), 7, "d").unwrap();
            let again = paths(root);
            assert!(again.contains(&all[2]) && again.len() == (kept + 1).min(3), "{cut}: {again:?}");
        }
    }

    #[test]
    fn what_a_full_disk_left_of_a_line_is_gone_before_the_next() {
        let scratch = Scratch::new();
        let mut note = StoredNote::open(scratch.path(), &node()).unwrap();
        note.add(&path(0), 7, "d").unwrap();
        note.file.write_all(b"{\"path\":\"stam").unwrap();
        assert_eq!(paths(scratch.path()), [path(0)]);
        (1..3).for_each(|part| note.add(&path(part), 7, "d").unwrap());
        assert_eq!(paths(scratch.path()), [path(0), path(1), path(2)]);
    }

    #[test]
    fn a_note_that_is_damaged_is_not_to_be_removed() {
        let scratch = Scratch::new();
        StoredNote::open(scratch.path(), &node()).unwrap();
        fs::write(scratch.path().join("stored/node=n.jsonl"), "{\"{}\n").unwrap();
        let why = entries(scratch.path()).unwrap_err().to_string();
        assert!(why.contains("do not remove it") && !why.contains("not affected"), "{why}");
    }

    #[test]
    fn what_grew_here_goes_once_storage_has_it_and_nothing_outside_the_segments_does() {
        let scratch = Scratch::new();
        let mut note = StoredNote::open(scratch.path(), &node()).unwrap();
        let place = scratch.path().join(path(0));
        make_folders(place.parent().unwrap()).unwrap();
        fs::write(&place, "as it grew").unwrap();
        note.add(&path(0), 7, "d").unwrap();
        assert!(!place.exists());
        for path in ["stamps/../run.json", "../stamps/x", "/etc/passwd", "run.json"] {
            assert!(note.add(path, 7, "d").is_err(), "{path}");
        }
        assert_eq!(paths(scratch.path()), [path(0)]);
    }
}

//! `digests.json`: what every file of a run was when the run ended, so that later changes show.
//!
//! Idea: the digest is of a file's whole bytes, so that a flipped bit in a footer shows as one in a row does; the
//! list ends with its own digest, so that an edited list shows too. Assumes: no two different files meet in 128 bits
//! by chance (XXH3 is no defence against somebody who wants that). Guarantees: of an ended run, every changed,
//! missing and added file is a [`Difference`]. Deliberately absent: files that are derived from the others and
//! written at any later time (`durations/`, `report.html`; the former name what they were derived from), and hidden
//! files, which readers skip. Traces that are joined after the end are added to the list.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::hash::Hasher;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use twox_hash::xxhash3_128;

use crate::error::{Error, NO_FILE, Result};
use crate::stored::{self, Entry};
use crate::whole_file::{WholeFile, files_in, open_regular, read_text};
use crate::{Run, RunState, SCHEMA, write_whole};

/// The file's name.
pub(crate) const FILE: &str = "digests.json";
/// Begins the digest of a file that cannot be read.
const UNREADABLE: &str = "none:";
/// Bytes that the list has at most.
const LIST_BYTES: u64 = 256 << 20;
/// Files that hold nothing of their own: derived from the others of a run, locked only, or what this list names.
const DERIVED: [&str; 5] = ["durations", "figures", "report.html", "run.lock", stored::FOLDER];

/// Something about a run's files that is not as it was when the run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The file, relative to the run's directory.
    pub path: String,
    /// Size and digest when the run ended.
    pub expected: String,
    /// Size and digest now.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.path, self.expected, self.found)
    }
}

/// XXH3 of 128 bits, fed with bytes or with whatever has a [`Hash`](std::hash::Hash).
#[derive(Default)]
pub struct Digest(xxhash3_128::Hasher);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish_128() as u64
    }
}

impl Digest {
    /// All 128 bits.
    pub fn finish_128(&self) -> u128 {
        self.0.finish_128()
    }

    /// Adds a file's whole bytes; returns how many.
    pub fn read(&mut self, path: &Path) -> std::io::Result<u64> {
        let (mut file, mut piece, mut bytes) = (open_regular(path)?, vec![0; 1 << 18], 0);
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(bytes),
                length => {
                    self.0.write(&piece[..length]);
                    bytes += length as u64;
                }
            }
        }
    }
}

/// The list that `digests.json` has, of a run whose files are all written.
pub struct DigestList {
    root: PathBuf,
    text: String,
    here: Vec<Entry>,
}

impl DigestList {
    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Files that lie here, and whether a list of before, `known`, has each as it is.
    pub fn here(&self, known: Option<&str>) -> Vec<(String, bool)> {
        let known: Option<Digests> = known.and_then(|text| serde_json::from_str(text).ok());
        let known: BTreeMap<&str, &Entry> =
            known.iter().flat_map(|list| &list.files).map(|entry| (entry.path.as_str(), entry)).collect();
        let is_known = |entry: &Entry| known.get(entry.path.as_str()) == Some(&entry);
        self.here.iter().map(|entry| (entry.path.clone(), is_known(entry))).collect()
    }

    /// Writes the file.
    pub fn write(&self) -> Result<()> {
        self.write_once(|_| Ok(()))
    }

    /// Writes the file once `first` went well, which is given a file with the list's text: until then the run has none.
    pub fn write_once<E: From<Error>>(
        &self,
        first: impl FnOnce(&Path) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let place = self.root.join(FILE);
        let whole = WholeFile::begin(&place)?;
        whole.file().write_all(self.text.as_bytes()).map_err(|e| Error::io(&place, "write", e))?;
        first(whole.hidden())?;
        Ok(whole.finish()?)
    }
}

#[derive(Serialize, Deserialize)]
struct Digests {
    schema: u32,
    /// The run's id, 16 hexadecimal digits; earlier lists do not say.
    #[serde(default)]
    run: Option<String>,
    files: Vec<Entry>,
    /// Digest of the text before it.
    own: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes with digest {}", self.bytes, self.xxh3_128)
    }
}

/// The file's text: one line a file, the own digest last.
fn text(schema: u32, run: Option<&str>, files: &[Entry]) -> String {
    let run = run.map_or(String::new(), |run| format!("\"run\": \"{run}\",\n"));
    let mut text = format!("{{\n\"schema\": {schema},\n{run}\"files\": [\n");
    for (position, entry) in files.iter().enumerate() {
        let end = if position + 1 < files.len() { "," } else { "" };
        let entry = serde_json::to_string(entry).expect("text and numbers are JSON");
        writeln!(text, "{entry}{end}").expect("a String takes any text");
    }
    text.push_str("],\n\"own\": \"");
    let mut own = Digest::default();
    own.write(text.as_bytes());
    write!(text, "{:032x}\"\n}}\n", own.finish_128()).expect("a String takes any text");
    text
}

impl Run {
    /// Writes down what every file is, once the run has ended and all of them are written.
    pub fn write_digests(&self) -> Result<()> {
        self.digest_list()?.write()
    }

    /// The list of what every file is, also of those that lie in object storage alone.
    pub fn digest_list(&self) -> Result<DigestList> {
        let stored = stored::entries(self.root())?;
        stored::forget_all_here(self.root(), &stored)?;
        let here = entries(self.root(), Digested::Whole, |_| true)?;
        if let Some(unreadable) = here.iter().find(|entry| entry.xxh3_128.starts_with(UNREADABLE)) {
            let place = self.root().join(&unreadable.path);
            return Err(Error::io(&place, "read", std::io::Error::other(unreadable.xxh3_128.clone())));
        }
        let mut files: Vec<Entry> = here.iter().cloned().chain(stored).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(DigestList { root: self.root().into(), text: text(SCHEMA, Some(&self.id()), &files), here })
    }

    /// Every difference between the files and what they were when the run ended; none: they are the same. A run without
    /// digests (of schema 1, or that did not end) differs by that.
    pub fn check(&self) -> Result<Vec<Difference>> {
        self.differences(u64::MAX, |_| true)
    }

    /// Adds the run's traces to a list that names none: they were joined since the run ended.
    pub fn digest_traces(&self) -> Result<()> {
        let Some(digests) = self.digests_without_traces() else { return Ok(()) };
        let now = entries(self.root(), Digested::BySize(&digests.files), is_of_traces)?;
        let mut files: Vec<Entry> = digests.files.iter().cloned().chain(now).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        write_whole(&self.root().join(FILE), text(digests.schema, digests.run.as_deref(), &files).as_bytes())
    }

    /// Returns whether the run has digests and traces that these do not name: whoever made them did not get so far as
    /// to say what they are, or is a stranger.
    pub fn has_undigested_traces(&self) -> Result<bool> {
        Ok(!self.undigested_traces()?.is_empty())
    }

    /// Removes such traces.
    pub fn remove_undigested_traces(&self) -> Result<()> {
        let removed = |place: PathBuf| fs::remove_file(&place).map_err(|e| Error::io(&place, "remove", e));
        self.undigested_traces()?.into_iter().try_for_each(removed)
    }

    fn undigested_traces(&self) -> Result<Vec<PathBuf>> {
        match self.digests_without_traces() {
            Some(_) => files_in(&self.paths().traces(), "parquet"),
            None => Ok(Vec::new()),
        }
    }

    /// The list, where it is as it was written and names no traces.
    fn digests_without_traces(&self) -> Option<Digests> {
        let told = read_text(&self.root().join(FILE), LIST_BYTES).ok()?;
        let digests: Digests = serde_json::from_str(&told).ok()?;
        let is_intact =
            digests.schema <= SCHEMA && text(digests.schema, digests.run.as_deref(), &digests.files) == told;
        (is_intact && !digests.files.iter().any(|entry| is_of_traces(&entry.path))).then_some(digests)
    }

    /// The run's id as files name it.
    fn id(&self) -> String {
        format!("{:016x}", self.manifest().run)
    }

    /// Removes the digests of a run at `root` that is written again after its end.
    pub fn forget_digests(root: &Path) -> Result<()> {
        let place = root.join(FILE);
        match fs::remove_file(&place) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&place, "remove", e)),
            _ => Ok(()),
        }
    }

    /// Returns whether the run's digests were written, as they are once it has ended.
    pub fn has_digests(&self) -> bool {
        fs::symlink_metadata(self.root().join(FILE)).is_ok()
    }

    /// Digest of the list of digests of a run that has ended; `None`: there is none, since it goes on or was cut off.
    pub fn list_digest(&self) -> Result<Option<u128>> {
        if self.state()? != RunState::Ended || !self.has_digests() {
            return Ok(None);
        }
        let (place, mut digest) = (self.root().join(FILE), Digest::default());
        digest.read(&place).map_err(|e| Error::io(&place, "read", e))?;
        Ok(Some(digest.finish_128()))
    }

    /// As [`Run::check`], of those files whose path is `asked` for; where the run's files have more than `limit` bytes
    /// in all, presence and sizes only.
    pub(crate) fn differences(&self, limit: u64, asked: fn(&str) -> bool) -> Result<Vec<Difference>> {
        let place = self.root().join(FILE);
        let none = |expected: &str, found: &str| {
            Ok(vec![Difference { path: FILE.into(), expected: expected.into(), found: found.into() }])
        };
        let told = match read_text(&place, LIST_BYTES) {
            Ok(told) => told,
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&place, "read", e));
            }
            Err(_) if self.manifest().schema < 2 => {
                return none("digests, since schema 2", "a run of schema 1: it has none");
            }
            Err(_) if self.manifest().ended_unix_ms.is_none() => {
                return none("a run that ended", "one that goes on, or was cut off: it has no digests");
            }
            Err(_) => return none("the digests of a run that ended", NO_FILE),
        };
        let digests: Digests = match serde_json::from_str(&told) {
            Ok(digests) => digests,
            Err(e) => return none("a list of files with their digests", &e.to_string()),
        };
        if digests.schema > SCHEMA {
            return Err(Error::newer(&place, "schema", SCHEMA, digests.schema));
        }
        let mut differences = Vec::new();
        if let Some(other) = digests.run.as_ref().filter(|run| **run != self.id()) {
            differences.extend(none(&format!("digests of run {}", self.id()), &format!("those of run {other}"))?);
        }
        if text(digests.schema, digests.run.as_deref(), &digests.files) != told {
            differences.extend(none("a list with its own digest at its end", "a list that was changed")?);
        }
        let bytes = digests.files.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.bytes));
        let how = if bytes <= limit { Digested::Whole } else { Digested::BySize(&digests.files) };
        let were: Vec<Entry> = digests.files.iter().filter(|entry| asked(&entry.path)).cloned().collect();
        differences.extend(between(&were, &entries(self.root(), how, asked)?));
        Ok(differences)
    }
}

/// A file of traces, by its path within the run.
pub(crate) fn is_of_traces(path: &str) -> bool {
    path.starts_with("traces/")
}

fn between(were: &[Entry], are: &[Entry]) -> Vec<Difference> {
    let by_path = |entries: &[Entry]| entries.iter().map(|entry| (entry.path.clone(), entry.to_string())).collect();
    let (were, are): (BTreeMap<String, String>, BTreeMap<String, String>) = (by_path(were), by_path(are));
    let changed = were.iter().filter(|(path, was)| are.get(*path) != Some(was)).map(|(path, was)| Difference {
        path: path.clone(),
        expected: was.clone(),
        found: are.get(path).cloned().unwrap_or_else(|| NO_FILE.into()),
    });
    let added = are.iter().filter(|(path, _)| !were.contains_key(*path)).map(|(path, is)| Difference {
        path: path.clone(),
        expected: NO_FILE.into(),
        found: is.clone(),
    });
    changed.chain(added).collect()
}

/// How a file becomes an entry.
#[derive(Clone, Copy)]
enum Digested<'a> {
    /// By its whole bytes.
    Whole,
    /// By its size: one that has the size that the list says is taken to be what the list says.
    BySize(&'a [Entry]),
}

impl Digested<'_> {
    fn entry(self, place: &Path, path: String) -> Entry {
        let told = match self {
            Self::BySize(list) => list.binary_search_by(|entry| entry.path.cmp(&path)).ok().map(|at| &list[at]),
            Self::Whole => None,
        };
        let size = open_regular(place).and_then(|file| Ok(file.metadata()?.len()));
        if let (Some(told), Ok(bytes)) = (told, &size) {
            let xxh3_128 = if told.bytes == *bytes { told.xxh3_128.clone() } else { "not taken".into() };
            return Entry { path, bytes: *bytes, xxh3_128 };
        }
        let mut digest = Digest::default();
        match size.and_then(|_| digest.read(place)) {
            Ok(bytes) => Entry { path, bytes, xxh3_128: format!("{:032x}", digest.finish_128()) },
            Err(e) => Entry { path, bytes: 0, xxh3_128: format!("{UNREADABLE} {e}") },
        }
    }
}

/// Every file of a run that is neither hidden nor derived and is `asked` for, in the order of the paths.
fn entries(root: &Path, how: Digested<'_>, asked: fn(&str) -> bool) -> Result<Vec<Entry>> {
    let mut paths = Vec::new();
    walk(root, "", &mut paths)?;
    paths.retain(|path| asked(path));
    paths.sort();
    Ok(paths.into_iter().map(|path| how.entry(&root.join(&path), path)).collect())
}

fn walk(root: &Path, folder: &str, found: &mut Vec<String>) -> Result<()> {
    let here = root.join(folder);
    let wrong = |e| Error::io(&here, "list", e);
    for entry in fs::read_dir(&here).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if name.starts_with('.') || path == FILE || DERIVED.contains(&path.as_str()) {
            continue;
        }
        if entry.file_type().map_err(wrong)?.is_dir() {
            walk(root, &path, found)?;
            continue;
        }
        found.push(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::manifest;
    use crate::scratch::Scratch;
    use crate::{BracketColumns, BracketSource, Event, Manifest, Pair, write_events};

    /// An ended run with brackets, events and derived files.
    fn run(scratch: &Scratch) -> Run {
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() };
        let mut brackets = BracketColumns::default();
        brackets.push(Some(1), 2, None, BracketSource::ProbeRequest, "before/after");
        run.add_brackets(&pair, "probe", &brackets).unwrap();
        write_events(&run.paths().events().join("a.parquet"), &[Event::default()]).unwrap();
        run.write_digests().unwrap();
        run
    }

    fn paths(run: &Run) -> Vec<String> {
        run.check().unwrap().into_iter().map(|difference| difference.path).collect()
    }

    #[test]
    fn an_untouched_run_has_no_difference_and_derived_files_are_none() {
        let scratch = Scratch::new();
        let run = run(&scratch);
        assert_eq!(run.check().unwrap(), []);
        fs::create_dir(scratch.path().join("durations")).unwrap();
        for derived in ["durations/x.parquet", "report.html", "run.lock", ".hidden.part"] {
            fs::write(scratch.path().join(derived), "derived").unwrap();
        }
        assert_eq!(run.check().unwrap(), []);
    }

    #[test]
    fn traces_are_a_difference_until_they_are_added_to_the_list_and_when_they_change() {
        let scratch = Scratch::new();
        let run = run(&scratch);
        let list = || fs::read_to_string(scratch.path().join(FILE)).unwrap();
        let before = list();
        run.digest_traces().unwrap();
        assert_eq!((list(), run.has_undigested_traces().unwrap()), (before, false), "there are none");
        let place = scratch.path().join("traces/part-00000000.parquet");
        fs::create_dir(scratch.path().join("traces")).unwrap();
        fs::write(&place, "joined since").unwrap();
        assert_eq!(
            (paths(&run), run.has_undigested_traces().unwrap()),
            (vec!["traces/part-00000000.parquet".into()], true)
        );
        run.digest_traces().unwrap();
        assert_eq!((paths(&run), run.has_undigested_traces().unwrap()), (vec![], false));
        fs::write(&place, "JOINED SINCE").unwrap();
        run.digest_traces().unwrap();
        assert_eq!(paths(&run), ["traces/part-00000000.parquet"], "the list names them already");
    }

    #[test]
    fn adding_traces_hides_nothing_that_changed() {
        let scratch = Scratch::new();
        let run = run(&scratch);
        fs::create_dir(scratch.path().join("traces")).unwrap();
        fs::write(scratch.path().join("traces/part-00000000.parquet"), "joined since").unwrap();
        fs::write(scratch.path().join("events/a.parquet"), "more").unwrap();
        fs::write(scratch.path().join("events/b.parquet"), "more").unwrap();
        run.digest_traces().unwrap();
        assert_eq!(paths(&run), ["events/a.parquet", "events/b.parquet"]);
        let edited = fs::read_to_string(scratch.path().join(FILE)).unwrap().replace("events/a", "events/z");
        fs::write(scratch.path().join(FILE), &edited).unwrap();
        run.digest_traces().unwrap();
        assert_eq!(fs::read_to_string(scratch.path().join(FILE)).unwrap(), edited, "a list that was edited stays so");
    }

    #[test]
    fn every_flipped_byte_of_every_file_shows() {
        let scratch = Scratch::new();
        let run = run(&scratch);
        for entry in entries(scratch.path(), Digested::Whole, |_| true).unwrap() {
            let place = scratch.path().join(&entry.path);
            let whole = fs::read(&place).unwrap();
            for position in (0..whole.len()).step_by(7).chain([whole.len() - 5]) {
                let mut flipped = whole.clone();
                flipped[position] ^= 1;
                fs::write(&place, flipped).unwrap();
                assert_eq!(paths(&run), std::slice::from_ref(&entry.path), "byte {position}");
            }
            fs::write(&place, &whole).unwrap();
        }
    }

    #[test]
    fn a_deleted_an_added_and_an_edited_file_show() {
        let scratch = Scratch::new();
        let run = run(&scratch);
        fs::write(scratch.path().join("events/b.parquet"), "more").unwrap();
        assert_eq!(paths(&run), ["events/b.parquet"]);
        fs::remove_file(scratch.path().join("events/a.parquet")).unwrap();
        assert_eq!(paths(&run), ["events/a.parquet", "events/b.parquet"]);
        let text = fs::read_to_string(run.paths().manifest()).unwrap();
        fs::write(run.paths().manifest(), text.replace("50000", "50")).unwrap();
        assert_eq!(paths(&run), ["events/a.parquet", "run.json", "events/b.parquet"]);
        let said = run.check().unwrap()[1].to_string();
        assert!(said.starts_with("run.json: expected ") && said.contains(" bytes with digest "), "{said}");
    }

    #[test]
    fn of_files_that_are_large_together_only_presence_and_size_are_asked() {
        let scratch = Scratch::new();
        let run = run(&scratch);
        let place = scratch.path().join("events/a.parquet");
        let whole = fs::read(&place).unwrap();
        let mut flipped = whole.clone();
        flipped[20] ^= 1;
        fs::write(&place, &flipped).unwrap();
        assert_eq!((run.check().unwrap().len(), run.differences(0, |_| true).unwrap()), (1, vec![]));
        fs::write(&place, &whole[1..]).unwrap();
        assert_eq!(run.differences(0, |_| true).unwrap().len(), 1);
        fs::remove_file(&place).unwrap();
        assert!(run.differences(0, |_| true).unwrap()[0].found == NO_FILE);
    }

    #[test]
    fn a_run_is_as_listed_until_a_byte_of_what_figures_are_made_of_differs_or_the_list_does() {
        let scratch = Scratch::new();
        let mut run = run(&scratch);
        let list = run.list_digest().unwrap().unwrap();
        for own in ["report.html", "notes.txt"] {
            fs::write(scratch.path().join(own), "whose reader they are").unwrap();
        }
        assert!(run.is_as_listed(list).unwrap() && !run.is_as_listed(list ^ 1).unwrap());
        for path in ["events/a.parquet", "brackets/reference=client.tsc/domain=server.tsc/probe.parquet", "run.json"] {
            let place = scratch.path().join(path);
            let whole = fs::read(&place).unwrap();
            let mut flipped = whole.clone();
            flipped[whole.len() / 2] ^= 1;
            fs::write(&place, &flipped).unwrap();
            assert!(!run.is_as_listed(list).unwrap(), "{path}");
            fs::write(&place, &whole).unwrap();
        }
        fs::write(scratch.path().join("events/b.parquet"), "more").unwrap();
        assert!(!run.is_as_listed(list).unwrap());
        run.write_digests().unwrap();
        assert!(!run.is_as_listed(list).unwrap() && run.is_as_listed(run.list_digest().unwrap().unwrap()).unwrap());
        run.set_manifest(Manifest { ended_unix_ms: None, ..manifest() }).unwrap();
        assert_eq!(run.list_digest().unwrap(), None);
    }

    #[test]
    fn an_edited_list_shows_by_its_own_digest() {
        let scratch = Scratch::new();
        let run = run(&scratch);
        let place = scratch.path().join(FILE);
        let told = fs::read_to_string(&place).unwrap();
        fs::remove_file(scratch.path().join("events/a.parquet")).unwrap();
        let without: String =
            told.lines().filter(|line| !line.contains("events/a.parquet")).map(|l| l.to_owned() + "\n").collect();
        fs::write(&place, without).unwrap();
        assert_eq!(paths(&run), [FILE], "both were made to agree, but for the list's own digest");
        fs::write(&place, &told[..told.len() / 2]).unwrap();
        assert_eq!(paths(&run), [FILE]);
    }

    #[test]
    fn a_run_without_digests_says_why() {
        let scratch = Scratch::new();
        let mut run = run(&scratch);
        fs::remove_file(scratch.path().join(FILE)).unwrap();
        assert_eq!(run.check().unwrap()[0].found, NO_FILE);
        run.set_manifest(Manifest { ended_unix_ms: None, ..manifest() }).unwrap();
        assert!(run.check().unwrap()[0].found.contains("goes on, or was cut off"));
        run.set_manifest(Manifest { schema: 1, ..manifest() }).unwrap();
        assert!(run.check().unwrap()[0].found.contains("schema 1"));
    }
}

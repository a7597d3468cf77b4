//! The words by which a file shows its own damage: a digest of every column chunk, a digest of the footer, and where
//! the file belongs.
//!
//! Parquet's own checksum covers the data of a page, but neither the page's header, by which the data is decoded, nor
//! the footer; so the digests here are of all bytes of a chunk, headers included, and of the footer's own bytes. The
//! footer's digest lies in the footer: it is taken with zeros in its place.
//!
//! Assumes: damage, not malice: whoever writes the digests anew is not found. Guarantees: of a sealed file, no byte of
//! a column that was changed is decoded. Deliberately absent: a demand for seals: files of earlier versions have none.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

use serde::Deserialize;

use crate::digests::Digest;
use crate::whole_file::{name_to_be, open_regular};

/// Footer key: 16 hexadecimal digits for each column chunk, row group by row group.
pub(super) const CHUNKS_KEY: &str = "tickscope.chunks";
/// Footer key: the footer's digest, 32 hexadecimal digits.
pub(super) const SEAL_KEY: &str = "tickscope.seal";
/// Footer key: the file's path in its run.
pub(super) const PLACE_KEY: &str = "tickscope.place";
/// Footer key: the run that it belongs to, 16 hexadecimal digits.
pub(super) const RUN_KEY: &str = "tickscope.run";
/// What the footer's digest is taken with in its own place.
pub(super) const UNSEALED: &str = "00000000000000000000000000000000";
/// Thrift's compact protocol: the next field, binary, of 32 bytes.
const VALUE_FOLLOWS: [u8; 2] = [0x18, 32];

/// The folders that a run's tables lie in.
const FOLDERS: [&str; 7] = ["stamps", "removed", "channels", "events", "brackets", "traces", "durations"];

/// The digest of a column chunk: its bytes as they lie in the file.
pub(super) fn chunk_digest(bytes: &[u8]) -> String {
    let mut digest = Digest::default();
    digest.write(bytes);
    format!("{:016x}", digest.finish())
}

/// Writes the footer's digest into the footer of a finished file.
pub(super) fn seal(file: &File, size: u64) -> io::Result<()> {
    let mut length = [0; 4];
    file.read_exact_at(&mut length, size - 8)?;
    let mut footer = vec![0; u32::from_le_bytes(length) as usize];
    let start = size - 8 - footer.len() as u64;
    file.read_exact_at(&mut footer, start)?;
    let Some(position) = position(&footer) else {
        return Err(io::Error::other(format!("the footer lacks {SEAL_KEY}")));
    };
    file.write_all_at(footer_digest(&footer).as_bytes(), start + position as u64)
}

/// Returns whether a footer's seal is that of its other bytes; `None`: it has no seal.
pub(super) fn is_intact(footer: &[u8]) -> Option<bool> {
    let position = position(footer)?;
    let (mut unsealed, value) = (footer.to_vec(), position..position + UNSEALED.len());
    unsealed[value.clone()].copy_from_slice(UNSEALED.as_bytes());
    Some(footer_digest(&unsealed).as_bytes() == &footer[value])
}

fn footer_digest(unsealed: &[u8]) -> String {
    let mut digest = Digest::default();
    digest.write(unsealed);
    format!("{:032x}", digest.finish_128())
}

/// Where the seal's value lies in a footer.
fn position(footer: &[u8]) -> Option<usize> {
    let key = [SEAL_KEY.as_bytes(), &VALUE_FOLLOWS].concat();
    let found = footer.windows(key.len()).rposition(|window| window == key)? + key.len();
    (found + UNSEALED.len() <= footer.len()).then_some(found)
}

/// The run's directory that a table at `path` lies in, and its path there; `None` for a table outside of runs.
pub(super) fn belongs(path: &Path) -> Option<(PathBuf, String)> {
    let parts: Vec<_> = path.components().collect();
    let is_folder = |part: &Component<'_>| FOLDERS.iter().any(|folder| part.as_os_str() == *folder);
    let folder = parts[..parts.len().saturating_sub(1)].iter().rposition(is_folder)?;
    let mut inside: Vec<_> = parts[folder..].iter().map(|part| part.as_os_str().to_string_lossy()).collect();
    if let Some(name) = inside.last_mut() {
        *name = name_to_be(name).to_owned().into();
    }
    let root: PathBuf = parts[..folder].iter().collect();
    Some((if folder == 0 { ".".into() } else { root }, inside.join("/")))
}

/// A `run.json`, what the file system says of it, and the run's id.
type Known = (PathBuf, (u64, u64, i64, i64, u64), String);

/// Every table that is opened asks for its run's id: of the same run, nearly always.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Has the next table read the id of its run anew: a file may have been changed faster than its times tell.
pub(crate) fn forget_run_id() {
    *KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
}

/// The id of the run in `root`, as its `run.json` says it; `None` if there is none that can be read.
pub(super) fn run_id(root: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Identity {
        run: String,
    }
    let place = root.join("run.json");
    let now = fs::metadata(&place).ok()?;
    let now = (now.dev(), now.ino(), now.mtime(), now.mtime_nsec(), now.len());
    let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((of, when, id)) = &*known
        && (of, when) == (&place, &now)
    {
        return Some(id.clone());
    }
    let text = io::read_to_string(open_regular(&place).ok()?).ok()?;
    let id = serde_json::from_str::<Identity>(&text).ok()?.run;
    *known = Some((place, now, id.clone()));
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tables_place_is_its_path_in_the_run() {
        let of = |path: &str| belongs(Path::new(path)).map(|(root, place)| (root.display().to_string(), place));
        let stamps = "stamps/node=a/point=b/part-00000000.parquet";
        assert_eq!(of(&format!("/x/stamps/run/{stamps}")), Some(("/x/stamps/run".into(), stamps.into())));
        assert_eq!(of("events/a.parquet"), Some((".".into(), "events/a.parquet".into())));
        assert_eq!(
            of("x/events/.a.parquet.part"),
            Some(("x".into(), "events/a.parquet".into())),
            "before it has its name"
        );
        assert_eq!(of("/x/t.parquet"), None);
        assert_eq!(of("/x/stamps"), None);
    }
}

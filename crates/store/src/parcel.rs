//! What passes from a spool into a run: a file's name, size and digest, and which names may pass.

use std::fs::{File, Metadata};
use std::hash::Hasher;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tickscope_tick::{Label, NodeName, PointName, own_points};

use crate::digests::Digest;
use crate::error::Error;

/// A file that waits in a spool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// Its path in the run, with `/` between its folders.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// Digest of them, 32 hexadecimal digits; empty: the file is gone, and goes from the run, too.
    pub digest: String,
    /// A part that has a successor: it is not written again.
    #[serde(default)]
    pub settled: bool,
    /// What it was when it was listed.
    pub(crate) version: Version,
}

/// One writing of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) changed_ns: i64,
}

/// Characters of a path.
pub(crate) const PATH_MOST: usize = 1024;
impl Parcel {
    /// Returns whether the file is gone.
    pub fn is_gone(&self) -> bool {
        self.digest.is_empty()
    }

    /// Returns whether it is a segment of a program that one of these nodes measured, and not of a point that tickscope
    /// itself stamps.
    pub fn is_of_programs(&self, nodes: &[NodeName]) -> bool {
        expect_path(&self.path, nodes).is_ok() && is_of_programs(&self.path)
    }
}

/// A segment of a measured program, by its path.
pub(crate) fn is_of_programs(path: &str) -> bool {
    let point = |folder: &str| folder.strip_prefix("point=").is_some_and(|point| !own_points::are(point));
    matches!(path.split('/').collect::<Vec<_>>()[..], ["stamps", _, folder, _] if point(folder))
}

impl Version {
    pub(crate) fn of(file: &File) -> std::io::Result<Self> {
        file.metadata().map(|found| Self::of_metadata(&found))
    }

    pub(crate) fn of_metadata(found: &Metadata) -> Self {
        let changed_ns = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        Self { inode: found.ino(), bytes: found.size(), changed_ns }
    }
}

/// Refuses every path but those of tables of these nodes.
pub(crate) fn expect_path(path: &str, nodes: &[NodeName]) -> std::result::Result<(), &'static str> {
    let own = |name: &str| nodes.iter().any(|node| node.as_str() == name);
    let part = |file: &str| {
        let digits = file.strip_prefix("part-").and_then(|rest| rest.strip_suffix(".parquet"));
        digits
            .is_some_and(|digits| digits.len() >= 8 && digits.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let label = |text: &str| text.parse::<Label>().ok();
    let fits = path.len() <= PATH_MOST
        && match path.split('/').collect::<Vec<_>>()[..] {
            ["stamps", node, point, file] => {
                node.strip_prefix("node=").is_some_and(own)
                    && point.strip_prefix("point=").is_some_and(|point| PointName::new(point).is_ok())
                    && part(file)
            }
            ["rivals" | "counts" | "returns", node, file] => node.strip_prefix("node=").is_some_and(own) && part(file),
            ["channels" | "removed", file] => {
                file.strip_prefix("node=").and_then(|rest| rest.strip_suffix(".parquet")).is_some_and(own)
            }
            ["events", file] => {
                let words = file.strip_suffix(".parquet").and_then(|stem| stem.split_once('+'));
                words.is_some_and(|(node, rest)| own(node) && !rest.is_empty() && rest.chars().all(is_plain))
            }
            ["brackets", reference, domain, file] => {
                let reference = reference.strip_prefix("reference=").and_then(label);
                let domain = domain.strip_prefix("domain=").and_then(label);
                reference.is_some_and(|label| own(label.node.as_str())) && domain.is_some() && part(file)
            }
            _ => false,
        };
    if fits { Ok(()) } else { Err("it is no table of that agent's nodes") }
}

/// What names of events have.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+-_.".contains(letter)
}

pub(crate) fn refused(place: &Path, why: &str) -> Error {
    Error::corrupt(place, "a file of a node's spool", why)
}

pub(crate) fn digest_of(file: &File, bytes: u64) -> std::io::Result<String> {
    let (mut digest, mut buffer, mut offset) = (Digest::default(), vec![0; 1 << 20], 0);
    while offset < bytes {
        let piece = buffer.len().min((bytes - offset) as usize);
        file.read_exact_at(&mut buffer[..piece], offset)?;
        digest.write(&buffer[..piece]);
        offset += piece as u64;
    }
    Ok(hexadecimal(&digest))
}

pub(crate) fn hexadecimal(digest: &Digest) -> String {
    format!("{:032x}", digest.finish_128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_of_a_nodes_programs_is_none_of_another_node_or_place_and_none_of_tickscopes_own() {
        let nodes = [NodeName::new("n").unwrap()];
        let is_of_programs = |path: &str| {
            let (path, version) = (path.into(), Version { inode: 1, bytes: 1, changed_ns: 1 });
            Parcel { path, bytes: 1, digest: "0".repeat(32), settled: true, version }.is_of_programs(&nodes)
        };
        assert!(is_of_programs("stamps/node=n/point=work/part-00000000.parquet"));
        for other in [
            "stamps/node=m/point=work/part-00000000.parquet",
            "stamps/../point=work/part-00000000.parquet",
            "stamps/node=n/point=work/../../../../other/digests.json",
            "stamps/node=n/point=probe-request-sent/part-00000000.parquet",
            "stamps/node=n/point=id-original/part-00000000.parquet",
            "brackets/reference=n.tsc/domain=m.tsc/part-00000000.parquet",
            "channels/node=n.parquet",
        ] {
            assert!(!is_of_programs(other), "{other}");
        }
    }
}

//! Names of nodes, points, places and domains, each parsed into its type once.
//!
//! A *place* is a point of a node, written `node.point`; a *label* names a clock of a node, written `node.clock`. Names
//! appear in file names and in blocks, so they are short and plain.
//!
//! Guarantees: a value of these types is valid, and its text parses back to it. The first dot of a place ends the
//! node's name; a point's name may hold further ones.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "serde")]
use crate::{BootId, Ordering, Source};
use crate::{Clock, DomainError};

/// The longest name of a node or a point, in bytes: what a block's header has room for.
pub const NAME_BYTES: usize = 47;

/// Points that tickscope itself stamps.
pub mod own_points {
    /// Beginning of points that hold brackets of a clock, whose name ends theirs.
    pub const CLOCK_BRACKET: &str = "clock-bracket.";
    /// Originals of ids that are hashes, 16 bytes a stamp.
    pub const ID_ORIGINAL: &str = "id-original";
    /// The kernel's stamp of a probe's request, where it was sent.
    pub const PROBE_REQUEST_SENT: &str = "probe-request-sent";
    /// The kernel's stamp of a probe's request, where it was received.
    pub const PROBE_REQUEST_RECEIVED: &str = "probe-request-received";
    /// The kernel's stamp of a probe's reply, where it was sent.
    pub const PROBE_REPLY_SENT: &str = "probe-reply-sent";
    /// The kernel's stamp of a probe's reply, where it was received.
    pub const PROBE_REPLY_RECEIVED: &str = "probe-reply-received";

    /// The kind of the stamps of one pair's probes, by the numbers of the node that asks and of the one that answers:
    /// so both ends' stamps meet, and no other pair's with them. Runs of before have kind 0, which no pair has.
    pub const fn probe_kind(asker: u32, answerer: u32) -> i32 {
        const BITS: u32 = 15; // a run has fewer nodes
        ((asker << BITS) | answerer) as i32
    }

    /// All of them; of those that hold brackets of a clock their common beginning.
    pub const ALL: [&str; 6] = [
        CLOCK_BRACKET,
        ID_ORIGINAL,
        PROBE_REQUEST_SENT,
        PROBE_REQUEST_RECEIVED,
        PROBE_REPLY_SENT,
        PROBE_REPLY_RECEIVED,
    ];

    /// Returns whether a point of that name is tickscope's own, not the program's.
    pub fn are(name: &str) -> bool {
        name.starts_with(CLOCK_BRACKET) || ALL.contains(&name)
    }
}

/// The name of a node: 1 to 47 letters, digits, `_` or `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeName(String);

/// The name of a point within its node: 1 to 47 letters, digits, `_`, `-` or `.`, the first of them no dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PointName(String);

/// The name of a run: what a point's name may be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunName(String);

/// A point of a node, `node.point`.
///
/// ```
/// use tickscope_tick::Place;
/// let place: Place = "server.reply.sent".parse().unwrap();
/// assert_eq!((place.node.as_str(), place.point.as_str()), ("server", "reply.sent"));
/// assert_eq!(place.to_string(), "server.reply.sent");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The node.
    pub node: NodeName,
    /// The point.
    pub point: PointName,
}

/// A clock of a node, `node.clock`: the name of a domain in files and results.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Label {
    /// The node.
    pub node: NodeName,
    /// Which of its clocks.
    pub clock: Clock,
}

/// A text that is no name of the kind that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    /// What a name of the kind is.
    pub expected: &'static str,
    /// The text.
    pub found: String,
    /// What mends it.
    pub remedy: &'static str,
}

impl NameError {
    pub(crate) fn new(expected: &'static str, found: String, remedy: &'static str) -> Self {
        Self { expected, found, remedy }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found '{}'; {}", self.expected, self.found, self.remedy)
    }
}

impl std::error::Error for NameError {}

fn is_plain(text: &str, dots: bool) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-') || dots && b == b'.';
    !text.is_empty() && !text.starts_with('.') && text.len() <= NAME_BYTES && text.bytes().all(plain)
}

macro_rules! name {
    ($type:ident, dots: $dots:literal, $expected:literal, $remedy:literal) => {
        impl $type {
            /// The name, if `text` may be one.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let found = text.into();
                if is_plain(&found, $dots) {
                    return Ok(Self(found));
                }
                Err(NameError { expected: $expected, found, remedy: $remedy })
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $type {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $type {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name!(
    NodeName,
    dots: false,
    "the name of a node, 1 to 47 letters, digits, '_' or '-'",
    "a dot parts node and point: rename the node"
);
name!(
    PointName,
    dots: true,
    "the name of a point, 1 to 47 letters, digits, '_', '-' or '.', no dot first",
    "rename the point"
);
name!(
    RunName,
    dots: true,
    "the name of a run, 1 to 47 letters, digits, '_', '-' or '.', no dot first",
    "rename the run"
);

impl FromStr for Place {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        let parts = text.split_once('.').and_then(|(node, point)| {
            Some(Self { node: NodeName::new(node).ok()?, point: PointName::new(point).ok()? })
        });
        parts.ok_or_else(|| NameError {
            expected: "a point as node.point, each 1 to 47 letters, digits, '_' or '-', the point also '.', not first",
            found: text.into(),
            remedy: "write the node's name, a dot and the point's name, such as client.send",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.point)
    }
}

impl FromStr for Label {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts = text.split_once('.').and_then(|(node, clock)| {
            let clock: Result<Clock, DomainError> = clock.parse();
            Some(Self { node: NodeName::new(node).ok()?, clock: clock.ok()? })
        });
        parts.ok_or_else(|| NameError {
            expected: "a clock of a node, as node.clock",
            found: text.into(),
            remedy: "write the node's name, a dot and one of tsc, cntvct, realtime, monotonic, monotonic-raw and phc",
        })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.clock)
    }
}

#[cfg(feature = "serde")]
macro_rules! text_in_files {
    ($($type:ident),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
#[cfg(feature = "serde")]
text_in_files!(NodeName, PointName, RunName, Place, Label, Ordering, Source, Clock, BootId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_as_it_is_written() {
        for text in ["client.send", "a-b_1.x.y", "n.p."] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in ["client.tsc", "a.monotonic-raw"] {
            assert_eq!(text.parse::<Label>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_was_found() {
        let long = "x".repeat(NAME_BYTES + 1);
        for text in ["", "a.b", ".a", "a/b", "ä", long.as_str()] {
            let error = NodeName::new(text).unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
        assert!(NodeName::new("x".repeat(NAME_BYTES)).is_ok() && PointName::new("a.b").is_ok());
        for text in ["a", ".a", "a.", "a..b", "a b.c", "../x.y"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
        assert!("client.sundial".parse::<Label>().is_err());
    }
}

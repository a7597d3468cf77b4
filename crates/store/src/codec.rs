//! How segments are encoded: by which codec their pages are compressed, and on how many threads.
//!
//! Guarantees: a segment's bytes are the same however many threads encode it. Deliberately absent: levels of a codec;
//! above the first, deltas that are packed to their bits shrink no further.

use std::num::NonZeroUsize;

use parquet::basic::{Compression, ZstdLevel};
use serde::{Deserialize, Serialize};

/// What compresses the pages of segments. Any Parquet reader of today reads each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Nothing does: deltas are packed to their bits, and no more.
    None,
    /// zstd at level 1.
    #[default]
    Zstd,
    /// LZ4's blocks.
    Lz4,
}

impl Codec {
    /// Every codec.
    pub const ALL: [Self; 3] = [Self::None, Self::Zstd, Self::Lz4];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    /// The codec of that word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    pub(crate) fn compression(self) -> Compression {
        match self {
            Self::None => Compression::UNCOMPRESSED,
            Self::Zstd => Compression::ZSTD(ZstdLevel::default()), // 1
            Self::Lz4 => Compression::LZ4_RAW,
        }
    }
}

/// How segments are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encoding {
    /// What compresses their pages.
    pub codec: Codec,
    /// Threads that encode the columns of one, the caller's included.
    pub encoders: NonZeroUsize,
}

impl Default for Encoding {
    /// By the default codec, on the caller's thread.
    fn default() -> Self {
        Self { codec: Codec::default(), encoders: NonZeroUsize::MIN }
    }
}

/// What a user asked of the encoding of segments; what is absent is as by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodingChoice {
    /// What compresses their pages; absent: zstd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<Codec>,
    /// Threads of a collector that encode them; absent: as many as there are processors that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoders: Option<NonZeroUsize>,
}

impl EncodingChoice {
    /// Returns whether nothing was asked.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The encoding that was asked for.
    pub fn encoding(self) -> Encoding {
        let default = Encoding::on_all_processors();
        Encoding { codec: self.codec.unwrap_or(default.codec), encoders: self.encoders.unwrap_or(default.encoders) }
    }
}

impl Encoding {
    /// By the default codec, on all processors that this process may use.
    pub fn on_all_processors() -> Self {
        let encoders = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { encoders, ..Self::default() }
    }
}

/// Processor time of this thread, ns.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a timespec that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

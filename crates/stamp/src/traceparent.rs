//! The header `traceparent` of W3C Trace Context, as an id.
//!
//! The trace's 128 bits are the original whose hash is the id ([`id_of`]); the caller's span has 64 and rides along as
//! a stamp's value. Guarantees: what is not a valid header is refused with what was expected; versions to come are read
//! as the recommendation asks, by their first four fields. `include/tickscope_id.h` is the same for C.

use std::fmt;
use std::str::FromStr;

use crate::channel::Extra;
use crate::id::id_of;

/// A `traceparent` as its header says it.
///
/// ```
/// use tickscope_stamp::Traceparent;
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: Traceparent = header.parse().unwrap();
/// assert_eq!((parent.span, parent.flags), (0x00f0_67aa_0ba9_02b7, 1));
/// assert_eq!(parent.id(), tickscope_stamp::id_of(parent.trace_id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traceparent {
    /// The trace, most significant byte first; not zero.
    pub trace_id: [u8; 16],
    /// The caller's span, as 64 bits stand; not zero.
    pub span: i64,
    /// Flags; 1: the caller recorded it.
    pub flags: u8,
}

/// Why a text is no `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceparentError(&'static str);

impl Traceparent {
    /// The id of the trace: the same in all its spans. Where the trace begins, [`crate::Ids::keep`] of `trace_id` keeps
    /// the original.
    pub fn id(&self) -> i64 {
        id_of(self.trace_id)
    }

    /// What a stamp of it carries: the caller's span as its value.
    pub fn extra(&self) -> Extra {
        Extra { value: self.span, ..Extra::default() }
    }
}

const LENGTH: usize = 55;

impl FromStr for Traceparent {
    type Err = TraceparentError;

    fn from_str(text: &str) -> Result<Self, TraceparentError> {
        let text = text.as_bytes();
        if text.len() < LENGTH || [2, 35, 52].iter().any(|&at| text[at] != b'-') {
            return Err(TraceparentError("fields of 2, 32, 16 and 2 digits with '-' between them"));
        }
        let digits = "hexadecimal digits in lower case";
        let [version] = hexadecimal(&text[..2]).ok_or(TraceparentError(digits))?;
        let trace_id: [u8; 16] = hexadecimal(&text[3..35]).ok_or(TraceparentError(digits))?;
        let span: [u8; 8] = hexadecimal(&text[36..52]).ok_or(TraceparentError(digits))?;
        let [flags] = hexadecimal(&text[53..55]).ok_or(TraceparentError(digits))?;
        let ends = if version == 0 { text.len() == LENGTH } else { text.get(LENGTH).is_none_or(|&next| next == b'-') };
        match (version, trace_id, span) {
            (0xff, ..) => Err(TraceparentError("a version other than ff")),
            _ if !ends => Err(TraceparentError("nothing behind the flags")),
            (_, id, _) if id == [0; 16] => Err(TraceparentError("a trace id other than 0")),
            (.., span) if span == [0; 8] => Err(TraceparentError("a span id other than 0")),
            _ => Ok(Self { trace_id, span: i64::from_be_bytes(span), flags }),
        }
    }
}

fn hexadecimal<const BYTES: usize>(text: &[u8]) -> Option<[u8; BYTES]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    for (byte, digits) in bytes.iter_mut().zip(text.as_chunks::<2>().0) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(bytes)
}

impl fmt::Display for TraceparentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected a traceparent with {}, found another; pass the header as it came", self.0)
    }
}

impl std::error::Error for TraceparentError {}

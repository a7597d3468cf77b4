//! Frames on a pipe: a document and bytes, with their lengths before them.
//!
//! A frame is the length of all that follows (4 bytes, most significant first), the length of the document (4 bytes),
//! the document (JSON), and bytes, of which most frames have none. Guarantees: whatever comes in, no more than
//! [`MOST_BYTES`] are ever held, and what does not fit is refused before any of it is kept. Deliberately absent:
//! integrity and secrecy, which are the pipe's; files have digests of their own.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a frame's document and bytes together: a piece of a file, and room to describe it.
pub const MOST_BYTES: usize = 8 << 20;
/// Bytes of the two lengths.
const HEAD: usize = 8;

/// Writes one frame, and lets it go.
pub fn write(to: &mut impl Write, document: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let document = serde_json::to_vec(document).map_err(io::Error::other)?;
    let length = document.len() + bytes.len();
    if length > MOST_BYTES {
        return Err(wrong(format!(
            "expected a frame of at most {MOST_BYTES} bytes, found one of {length}. Give fewer nodes to one agent"
        )));
    }
    let [all, of_document] = [length + 4, document.len()].map(|length| (length as u32).to_be_bytes());
    to.write_all(&[&all[..], &of_document[..], &document].concat())?;
    to.write_all(bytes)?;
    to.flush()
}

/// Reads one frame; `None`: the other end closed the pipe between two frames.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut head = [0; HEAD];
    match from.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut head[1..])?,
    }
    let (document, bytes) = lengths(head)?;
    let mut all = vec![0; document + bytes];
    from.read_exact(&mut all)?;
    let bytes = all.split_off(document);
    let document = serde_json::from_slice(&all).map_err(|e| wrong(format!("cannot read a frame's document: {e}")))?;
    Ok(Some((document, bytes)))
}

/// How long the document is, and the bytes after it.
fn lengths(head: [u8; HEAD]) -> io::Result<(usize, usize)> {
    let [all, document] =
        [0, 4].map(|at| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize);
    let length = all.checked_sub(4).filter(|&length| length <= MOST_BYTES);
    match length.and_then(|length| Some((document, length.checked_sub(document)?))) {
        Some(lengths) => Ok(lengths),
        None => Err(wrong(format!(
            "expected a frame of at most {MOST_BYTES} bytes, found one that claims {all} bytes with a document of \
             {document}. Something else writes to this pipe"
        ))),
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe::protocol::{Asked, FromAgent};
    use proptest::prelude::*;
    use serde_json::Value;

    /// Documents of frames, a line each, right ones and such as once seemed worth a look.
    const DOCUMENTS: &str = include_str!("frames.txt");

    /// Bytes of a frame of that document.
    fn wire(document: &[u8], bytes: &[u8]) -> Vec<u8> {
        let [all, of_document] = [4 + document.len() + bytes.len(), document.len()];
        let lengths = [all, of_document].map(|length| (length as u32).to_be_bytes()).concat();
        [&lengths, document, bytes].concat()
    }

    /// Reads until there is nothing, or something is refused, as either end does.
    fn read_all(wire: &[u8]) {
        fn ends<T: DeserializeOwned>(mut from: &[u8]) {
            loop {
                let before = from.len();
                match read::<T>(&mut from) {
                    Ok(Some((_, bytes))) => assert!(bytes.len() <= MOST_BYTES && from.len() + HEAD <= before),
                    Ok(None) => return assert!(from.is_empty()),
                    Err(_) => return,
                }
            }
        }
        ends::<FromAgent>(wire);
        ends::<Asked>(wire);
    }

    #[test]
    fn kept_documents_are_a_frame_or_refused() {
        for document in DOCUMENTS.lines() {
            read_all(&wire(document.as_bytes(), b""));
        }
        let known = |document: &str| read::<FromAgent>(&mut &wire(document.as_bytes(), b"x")[..]);
        assert!(known("\"beat\"").is_ok(), "some of them are right");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn property_whatever_comes_through_a_pipe_is_a_frame_or_refused(
            noise in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            read_all(&noise);
            let documents: Vec<&str> = DOCUMENTS.lines().collect();
            let mut frames = wire(at.get(&documents).as_bytes(), &noise);
            frames.extend(wire(b"\"beat\"", b""));
            for (place, byte) in changes {
                let place = place.index(frames.len());
                frames[place] = byte;
            }
            read_all(&frames);
            read_all(&frames[..cut.index(frames.len())]);
        }
    }

    fn framed(document: &Value, bytes: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        write(&mut wire, document, bytes).unwrap();
        wire
    }

    #[test]
    fn frames_come_back_as_they_went_one_after_another() {
        let wire = [framed(&Value::from("a"), b""), framed(&Value::Null, &[0, 255])].concat();
        let mut from = &wire[..];
        assert_eq!(read::<Value>(&mut from).unwrap(), Some((Value::from("a"), Vec::new())));
        assert_eq!(read::<Value>(&mut from).unwrap(), Some((Value::Null, vec![0, 255])));
        assert_eq!(read::<Value>(&mut from).unwrap(), None);
    }

    #[test]
    fn a_frame_that_claims_more_than_any_has_is_refused_before_it_is_read() {
        struct Endless(Vec<u8>, usize);
        impl Read for Endless {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let taken = self.0.len().min(into.len());
                into[..taken].copy_from_slice(&self.0[..taken]);
                self.0.drain(..taken);
                self.1 += taken;
                Ok(taken)
            }
        }
        for (all, document) in
            [(u32::MAX, 0), (0, 0), (3, 0), (4 + 10, 11), (MOST_BYTES as u32 + 5, 1), (1 << 31, u32::MAX)]
        {
            let mut from = Endless([all.to_be_bytes(), document.to_be_bytes()].concat(), 0);
            assert!(read::<Value>(&mut from).is_err(), "{all} {document}");
            assert_eq!(from.1, HEAD);
        }
        let too_long = vec![0; MOST_BYTES];
        assert!(write(&mut Vec::new(), &Value::Null, &too_long).is_err());
    }

    #[test]
    fn a_pipe_that_breaks_within_a_frame_is_an_error_and_no_end() {
        let wire = framed(&Value::from("text"), b"bytes");
        for cut in 1..wire.len() {
            assert!(read::<Value>(&mut &wire[..cut]).is_err(), "{cut}");
        }
    }
}

//! Lines of a table, with their numbers: bounded, in UTF-8, or refused.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Bytes of a line; hundreds of the longest numbers.
pub(crate) const MOST_BYTES: u64 = 1 << 16;
/// What a compressed file begins with, its format, and what decompresses it.
const COMPRESSIONS: [(&[u8], &str, &str); 3] =
    [(b"\x1f\x8b", "gzip", "gunzip -k"), (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"), (b"\xfd7zXZ", "xz", "unxz -k")];

/// The lines of one file.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    file: PathBuf,
    number: u64,
    bytes: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub fn of(input: R, file: &Path) -> Self {
        Self { input: BufReader::new(input), file: file.into(), number: 0, bytes: Vec::new() }
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// An error of the line that was read last.
    pub fn wrong(&self, message: impl std::fmt::Display) -> Error {
        Error::input(format_args!("{}:{}", self.file.display(), self.number), message)
    }

    /// The next line that is not blank, without its end.
    pub fn next(&mut self) -> Result<Option<&str>, Error> {
        loop {
            self.bytes.clear();
            let mut bounded = self.input.by_ref().take(MOST_BYTES + 1);
            let read = bounded.read_until(b'\n', &mut self.bytes).map_err(|e| Error::unreadable(&self.file, &e))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.number == 1 {
                self.strip_mark()?;
            }
            if self.bytes.len() as u64 > MOST_BYTES {
                return Err(self.wrong(format_args!(
                    "expected lines of at most {MOST_BYTES} bytes, found a longer one. Name a table of text"
                )));
            }
            if self.bytes.contains(&0) {
                return Err(
                    self.wrong(format_args!("expected text in UTF-8, found a byte 0. {}", self.convert("UTF-16")))
                );
            }
            let has_end = self.bytes.ends_with(b"\n");
            while self.bytes.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
                self.bytes.pop();
            }
            if !self.bytes.trim_ascii().is_empty() {
                // A number that was cut off is another number.
                return if has_end { self.text().map(Some) } else { Err(self.cut_off()) };
            }
        }
    }

    fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let (at, byte) = (error.valid_up_to() + 1, self.bytes[error.valid_up_to()]);
            let remedy = self.convert("LATIN1");
            self.wrong(format_args!(
                "expected text in UTF-8, found the byte 0x{byte:02x} at place {at} of the line. {remedy}"
            ))
        })
    }

    fn cut_off(&self) -> Error {
        let file = self.file.display();
        self.wrong(format_args!(
            "expected a line's end, found the file's: it was cut off, or its last line has none. Write it again, or \
             echo >> {file}"
        ))
    }

    /// Takes away the mark that some programs begin UTF-8 with; refuses that of another encoding or of a compression.
    fn strip_mark(&mut self) -> Result<(), Error> {
        for (mark, format, command) in COMPRESSIONS {
            if self.bytes.starts_with(mark) {
                let file = self.file.display();
                return Err(self.wrong(format_args!(
                    "expected text in UTF-8, found {format}. Decompress it first: {command} {file}"
                )));
            }
        }
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            self.bytes.drain(..3);
        }
        if self.bytes.starts_with(b"\xff\xfe") || self.bytes.starts_with(b"\xfe\xff") {
            return Err(self.wrong(format_args!("expected text in UTF-8, found UTF-16. {}", self.convert("UTF-16"))));
        }
        Ok(())
    }

    fn convert(&self, from: &str) -> String {
        format!("Convert it: iconv -f {from} -t UTF-8 {}", self.file.display())
    }
}

//! Where a format is written to, and what is said where that fails.

use std::io::{self, Write};

use tickscope_analysis::Error;

/// The place that one format is written to.
pub(crate) struct Output<'a, W> {
    /// What the bytes go to.
    pub out: W,
    /// Name of the format in messages.
    pub format: &'static str,
    /// Name of the place in messages.
    pub place: &'a str,
}

impl<W: Write> Output<'_, W> {
    /// Writes bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|error| self.cannot_write(&error))
    }

    /// Writes what is held back.
    pub fn finish(mut self) -> Result<(), Error> {
        self.out.flush().map_err(|error| self.cannot_write(&error))
    }

    fn cannot_write(&self, error: &io::Error) -> Error {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull => "; free some space, or name another place",
            _ => "",
        };
        Error::work(format!("cannot write the {} to {}: {error}{remedy}", self.format, self.place))
    }
}

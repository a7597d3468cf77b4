//! Where evidence about two clocks comes from.

use std::fmt;
use std::str::FromStr;

use crate::NameError;

/// A source of evidence between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// Exchanges of tickscope's own datagrams, stamped by the programs that send and receive them.
    Probes,
    /// The same datagrams, stamped by the kernel.
    KernelProbes,
    /// Messages of the measured programs, of which an end or both was stamped by the program.
    Messages,
    /// Messages of the measured programs, stamped by the kernel at both ends.
    KernelMessages,
    /// The clock of the host that nodes are guests of, which both read.
    CommonHost,
}

impl Source {
    /// Every source.
    pub const ALL: [Source; 5] =
        [Source::Probes, Source::KernelProbes, Source::Messages, Source::KernelMessages, Source::CommonHost];

    /// The name in files, options and results.
    pub fn name(self) -> &'static str {
        match self {
            Source::Probes => "probes",
            Source::KernelProbes => "kernel-probes",
            Source::Messages => "messages",
            Source::KernelMessages => "kernel-messages",
            Source::CommonHost => "common-host",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Source {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::ALL.into_iter().find(|source| source.name() == text).ok_or_else(|| {
            let remedy = "choose one of probes, kernel-probes, messages, kernel-messages and common-host";
            NameError::new("a source of evidence", text.into(), remedy)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_reads_back_and_another_word_is_refused() {
        for source in Source::ALL {
            assert_eq!(source.to_string().parse(), Ok(source));
        }
        assert!("bogus".parse::<Source>().unwrap_err().to_string().contains("found 'bogus'"));
    }
}

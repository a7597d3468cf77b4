//! Every routine against every writer, as a table.

use std::fmt;

use serde::Serialize;

use super::enumeration::{Failures, Regime, Widths, Writer, failures};
use super::routine::{Routine, Text};

/// What became of one routine against one writer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// The routine ...
    pub routine: Routine,
    /// ... in which text ...
    pub text: Text,
    /// ... against whom.
    pub writer: Writer,
    /// What went wrong.
    pub failures: Failures,
}

/// All of them, for words of some widths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Table {
    widths: Widths,
    rows: Vec<Row>,
}

impl Table {
    /// Tries every execution; takes well under a second up to 2 bits a word.
    pub fn of(widths: Widths) -> Self {
        let mut rows = Vec::new();
        for routine in Routine::ALL {
            for text in Text::ALL {
                for writer in Writer::ALL {
                    rows.push(Row { routine, text, writer, failures: failures(widths, writer, routine, text) });
                }
            }
        }
        Self { widths, rows }
    }

    /// How wide the words are.
    pub fn widths(&self) -> Widths {
        self.widths
    }

    /// The rows: by routine, then text, then writer.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Widths { high_bits, low_bits } = self.widths;
        writeln!(
            f,
            "wrong results of all executions, words of {high_bits} and {low_bits} bits; by how far the clock ran on"
        )?;
        writeln!(f, "during a call (1-read: since the call before):")?;
        write!(f, "{:13} {:11} {:22}", "routine", "text", "written by")?;
        for regime in Regime::ALL {
            write!(f, " {regime:>18}")?;
        }
        writeln!(f)?;
        for Row { routine, text, writer, failures } in &self.rows {
            write!(f, "{routine:13} {text:11} {writer:22}")?;
            for regime in Regime::ALL {
                let tally = failures.of(regime);
                write!(f, " {:>18}", format!("{} of {}", tally.wrong(), tally.tried))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "one example of each that fails, words as high:low:")?;
        for Row { routine, text, writer, failures } in &self.rows {
            let found =
                Regime::ALL.into_iter().find_map(|regime| Some((regime, failures.of(regime).example.as_ref()?)));
            if let Some((regime, example)) = found {
                writeln!(f, "- {routine} {text}, {writer}, {regime}: {example}")?;
            }
        }
        Ok(())
    }
}

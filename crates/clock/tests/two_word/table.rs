//! Every routine against every writer, as the tables of `docs/two-word-clocks.md`.

use std::fmt::{self, Display};

use crate::enumeration::{Failures, Regime, Widths, failures};
use crate::routine::{Routine, RoutineText, Writer};

/// One routine against one writer.
pub struct Row {
    /// The routine ...
    pub routine: Routine,
    /// ... in which text ...
    pub text: RoutineText,
    /// ... against whom.
    pub writer: Writer,
    /// What went wrong.
    pub failures: Failures,
}

/// All of them, for words of some widths.
pub struct Table(Vec<Row>);

impl Table {
    /// Tries every execution; takes well under a second up to 2 bits a word.
    pub fn of(widths: Widths) -> Self {
        let mut rows = Vec::new();
        for routine in Routine::ALL {
            for text in RoutineText::ALL {
                for writer in Writer::ALL {
                    rows.push(Row { routine, text, writer, failures: failures(widths, writer, routine, text) });
                }
            }
        }
        Self(rows)
    }

    /// The rows: by routine, then text, then writer.
    pub fn rows(&self) -> &[Row] {
        &self.0
    }
}

impl Display for Table {
    /// Two tables in Markdown: wrong results by regime, then the shortest call of each that fails.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| routine | text | written by | {} |", Regime::ALL.map(|regime| regime.to_string()).join(" | "))?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- |")?;
        for Row { routine, text, writer, failures } in &self.0 {
            let count = |regime| {
                let tally = failures.of(regime);
                format!("{} of {}", tally.wrong(), tally.tried)
            };
            writeln!(f, "| `{routine}` | {text} | {writer} | {} |", Regime::ALL.map(count).join(" | "))?;
        }
        writeln!(f, "\n| routine | text | written by | regime | shortest wrong call, words as high:low |")?;
        writeln!(f, "| --- | --- | --- | --- | --- |")?;
        for Row { routine, text, writer, failures } in &self.0 {
            let found =
                Regime::ALL.into_iter().find_map(|regime| Some((regime, failures.of(regime).example.as_ref()?)));
            if let Some((regime, example)) = found {
                writeln!(f, "| `{routine}` | {text} | {writer} | {regime} | {example} |")?;
            }
        }
        Ok(())
    }
}

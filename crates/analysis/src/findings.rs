//! What contradicts the figures, counted: a line for people, where [`Analysis::findings`] lists examples for programs.
//!
//! Guarantees: counts are those of all traces; examples are capped, counts are not. Deliberately absent: colours.

use tickscope_store::Event;
use tickscope_tick::counted;
use tickscope_trace::StageRow;

use crate::Analysis;

impl Analysis {
    /// Durations that cannot be: with an interval that is negative as a whole, or with both stamps and no interval.
    pub fn impossible(&self) -> u64 {
        self.rows.iter().map(impossible).sum()
    }

    /// Everything that [`Analysis::findings`] gives examples of, in lines that count it: what makes all figures
    /// doubtful first, then a line of totals for impossible durations and a line for each stage that has some.
    pub fn findings_in_brief(&self) -> Vec<String> {
        let mut lines = self.unsound.clone();
        let stages: Vec<&StageRow> = self.rows.iter().filter(|row| impossible(row) > 0).collect();
        if !stages.is_empty() {
            let (all, in_stages) = (counted(self.impossible(), "impossible duration"), counted(stages.len(), "stage"));
            lines.push(format!("{all} in {in_stages}: {}", self.cause(&stages)));
            lines.extend(stages.iter().map(|row| self.of_stage(row)));
        }
        lines.extend(self.suspicions.iter().filter(|line| !self.is_example(line)).cloned());
        lines
    }

    /// Everything that contradicts the figures, with what events and the truth tell of them first: it is the cause of
    /// the others, and how a command ends. The terminal and the page print these lines.
    pub fn contradictions(&self, events: &[Event]) -> Vec<String> {
        let brief = self.findings_in_brief();
        let cause = self.contradiction(events).filter(|cause| !brief.contains(cause));
        cause.into_iter().chain(brief).collect()
    }

    /// The same, and a stream whose end is not known.
    pub fn all_findings(&self, events: &[Event]) -> Vec<String> {
        self.contradictions(events).into_iter().chain(self.open_stream()).collect()
    }

    /// What may be wrong.
    fn cause(&self, stages: &[&StageRow]) -> String {
        let node = |place: &str| place.split('.').next().unwrap_or_default().to_string();
        let related = |place: &str| self.clock_maps.iter().any(|map| map.domain.node.as_str() == node(place));
        let across = stages
            .iter()
            .any(|row| node(&row.from) != node(&row.to) && [&row.from, &row.to].iter().any(|at| related(at)));
        let rho = if across { ", or rho is too small" } else { "" };
        format!("two points name different things by the same id, or the layout's order is wrong{rho}")
    }

    fn of_stage(&self, row: &StageRow) -> String {
        let durations = row.count + row.refused_by.no_interval;
        let example = self.suspicions.iter().find(|line| is_of(line, row));
        let example = example.and_then(|line| line.split(" of ").nth(1)?.split(": ").next());
        let such_as = example.map_or(String::new(), |id| format!(", such as of {id}"));
        format!("  {}: {} of {durations}{such_as}", row.name, impossible(row))
    }

    fn is_example(&self, line: &str) -> bool {
        self.rows.iter().any(|row| is_of(line, row))
    }
}

fn impossible(row: &StageRow) -> u64 {
    row.impossible + row.refused_by.no_interval
}

/// Returns whether the finding is one of that stage.
fn is_of(finding: &str, row: &StageRow) -> bool {
    finding.strip_prefix(&row.name).is_some_and(|rest| rest.starts_with(" of id "))
}

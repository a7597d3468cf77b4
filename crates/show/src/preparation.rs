//! What was done before a run could be shown: a join that nobody had made, a layout that nobody declared.

use tickscope_analysis::Analysis;
use tickscope_store::Event;
use tickscope_tick::printable;

use crate::typesetting::paragraph;

/// Lines under the table; none where the run was joined when it ended and nothing else is to be said than what the
/// findings above it do.
pub(crate) fn lines(analysis: &Analysis, events: &[Event], width: usize) -> Vec<String> {
    let above = analysis.contradictions(events);
    let notes = analysis.preparation.notes.iter().filter(|note| !above.contains(note)).cloned();
    let notes = notes.chain(against(analysis));
    let mut lines: Vec<String> = notes.map(|note| paragraph(&printable(&note), width)).collect();
    if let Some(toml) = analysis.preparation.inferred.as_ref().and_then(|inferred| inferred.toml()) {
        lines.push("to declare it, paste this into a run file, or into a file for --layout:".into());
        lines.push(String::new());
        lines.extend(toml.lines().map(printable_line));
    }
    lines
}

fn printable_line(line: &str) -> String {
    printable(line).into_owned()
}

/// Traces whose order is not the inferred one, a line a stage.
pub(crate) fn against(analysis: &Analysis) -> impl Iterator<Item = String> {
    let rows = analysis.rows.iter().filter(|row| row.against_inferred > 0);
    rows.map(|row| {
        format!(
            "against the inferred order: {} of {} traces of {}; the order is inferred, so this is no finding",
            row.against_inferred, row.count, row.name
        )
    })
}

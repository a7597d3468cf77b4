//! What was done before a run could be shown: a join that nobody had made, a layout that nobody declared.

use tickscope_analysis::Analysis;

use crate::typesetting::paragraph;

/// Text under the table; empty where the run was joined when it ended and nothing else is to be said.
pub(crate) fn text(analysis: &Analysis) -> String {
    let lines = analysis.preparation.notes.iter().chain(&analysis.unrelated).map(|note| paragraph(note) + "\n");
    let mut text: String = lines.collect();
    text.extend(against(analysis).map(|line| paragraph(&line) + "\n"));
    if let Some(toml) = analysis.preparation.inferred.as_ref().and_then(|inferred| inferred.toml()) {
        text.push_str("to declare it, paste this into a run file, or into a file for --layout:\n\n");
        text.push_str(&toml);
        text.push('\n');
    }
    text
}

/// Traces whose order is not the inferred one, a line a stage.
pub(crate) fn against(analysis: &Analysis) -> impl Iterator<Item = String> {
    let rows = analysis.rows.iter().filter(|row| row.against_inferred > 0);
    rows.map(|row| {
        format!(
            "against the inferred order: {} of {} traces of {}; nobody declared that order, so they contradict nothing",
            row.against_inferred, row.count, row.name
        )
    })
}

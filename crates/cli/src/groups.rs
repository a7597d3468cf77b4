//! `tickscope show --by`: a table for each kind of ids, or each value of a stamp.

use tickscope_analysis::{Query, grouped};
use tickscope_show::stage_table::{View, group_table};
use tickscope_store::Run;

use crate::failure::Failure;
use crate::options::By;
use crate::output;

/// Groups that are shown.
const MOST_GROUPS: usize = 12;

/// Prints a table a group, those of the most traces; the others are counted.
pub fn show(run: &Run, query: &Query, by: By, view: &View) -> Result<(), Failure> {
    let groups = grouped(run, query, by.into(), MOST_GROUPS)?;
    let hertz = run.manifest().nodes.iter().find(|node| node.domain() == run.manifest().reference);
    let hertz = hertz.map_or(1, |node| node.counter.frequency.hertz);
    let mut text = String::new();
    for group in &groups.shown {
        let key = group.key.map_or("none".into(), |key| key.to_string());
        let traces = if group.traces == 1 { "trace" } else { "traces" };
        text += &format!("{} {key}: {} {traces}\n", by.word(), group.traces);
        text += &group_table(&group.rows, hertz, view);
        text += "\n";
    }
    if groups.more_keys > 0 {
        let more = if groups.more_keys == 1 { "" } else { "s" };
        let (traces, word) = (groups.more_traces, by.word());
        text += &format!("{} more {word}{more}, of {traces} traces in all, are not shown\n", groups.more_keys);
    }
    if groups.shown.is_empty() {
        return Err(Failure::work(
            "expected traces to group, found none. Is there one in tickscope show without --by?",
        ));
    }
    output::print(text.as_bytes())?;
    match groups.shown.iter().flat_map(|group| &group.rows).map(|row| row.impossible).sum::<u64>() {
        0 => Ok(()),
        impossible => Err(Failure::finding(format!("{impossible} impossible durations: tickscope show says where"))),
    }
}

//! Counts of stamps that cannot be: of a pool whose shared memory was damaged.

use std::collections::BTreeMap;

use tickscope_store::{Channel, Run};
use tickscope_tick::counted;

use crate::error::Error;

/// Findings about counts of stamps that no program can have made, one for each file that has some.
pub(crate) fn impossible_counts(run: &Run) -> Result<Vec<String>, Error> {
    let channels = run.channels()?.found;
    let mut by_node: BTreeMap<&str, Vec<(&Channel, &str, i64)>> = BTreeMap::new();
    for channel in &channels {
        let found = channel.impossible_count().map(|(name, count)| (channel, name, count));
        found.into_iter().for_each(|found| by_node.entry(channel.node.as_str()).or_default().push(found));
    }
    let line = |(node, found): (&str, Vec<(&Channel, &str, i64)>)| {
        let (Channel { channel, point, .. }, name, count) = found[0];
        let more = match found.len() {
            1 => String::new(),
            several => format!(", and others of {}", counted(several - 1, "more channel")),
        };
        format!(
            "channels/node={node}.parquet: expected counts of stamps, found counts that cannot be: {name} = {count} of \
             channel {channel} ({node}.{point}){more}. The shared memory that they were read from was damaged, so what \
             was lost is not known. Measure again"
        )
    };
    Ok(by_node.into_iter().map(line).collect())
}

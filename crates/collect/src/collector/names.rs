//! The node that programs were told they belong to, where nobody says which node a directory is.

use std::collections::BTreeSet;
use std::path::Path;

use tickscope_stamp::directory::{Trust, list};
use tickscope_store::{Error, Result};
use tickscope_tick::NodeName;

use super::Collector;
use crate::watched_pool::WatchedPool;

/// Name that programs write which were told none.
pub const UNNAMED: &str = "node";

/// Nodes that the programs of a stamp directory name, but for those that were told none.
pub fn node_names(directory: &Path) -> Result<BTreeSet<NodeName>> {
    let unreadable = |e| Error::io(directory, "list the pools in", e);
    let trust = Trust::of(directory).map_err(unreadable)?;
    let pools = list(directory, &trust).map_err(unreadable)?.pools;
    Ok(pools.iter().filter_map(|path| name_of(&WatchedPool::open(path, &trust).ok()?)).collect())
}

fn name_of(pool: &WatchedPool) -> Option<NodeName> {
    pool.node().filter(|name| name.as_str() != UNNAMED)
}

impl Collector {
    /// Whether a pool's program names no other node than the programs before it.
    pub(super) fn is_of_this_node(&mut self, pool: &WatchedPool) -> bool {
        let Some(name) = name_of(pool).filter(|_| !self.settings.any_name) else { return true };
        *self.named.get_or_insert_with(|| name.clone()) == name
    }

    pub(super) fn why_another_node(&self, pool: &WatchedPool) -> String {
        let text = |name: Option<&NodeName>| name.map_or(UNNAMED, NodeName::as_str).to_owned();
        format!(
            "expected a pool of node {} (TICKSCOPE_NODE), found one of {}; collect all with `--node NAME`, or give \
             each node a directory of its own. It is left alone",
            text(self.named.as_ref()),
            text(pool.node().as_ref())
        )
    }
}

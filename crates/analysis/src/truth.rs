//! The truth, where it is known: nodes that read one counter, true or through a known map.
//!
//! Two nodes of one host that were declared strangers (`same_boot = "ignore"`) read one TSC, each perhaps through an
//! injected map. So every duration between them is known, and must lie in its interval.

use std::collections::BTreeMap;

use tickscope_store::{Manifest, SameBoot};
use tickscope_tick::Injection;
use tickscope_trace::{Durations, Layout, Traces};

/// The nodes' true counters, and counts of the durations held against them.
#[derive(Clone, Debug)]
pub struct Truth {
    maps: BTreeMap<String, Option<Injection>>,
    reference: Option<Injection>,
    /// Durations whose truth is known.
    pub known: u64,
    /// Durations with a known truth that lie in their intervals.
    pub inside: u64,
}

impl Truth {
    /// `None`: not known, which is the ordinary case.
    pub fn of(manifest: &Manifest) -> Option<Self> {
        let first = manifest.nodes.first()?;
        let one_boot = manifest.nodes.iter().all(|node| node.boot == first.boot);
        if manifest.same_boot != SameBoot::Ignore || !one_boot || manifest.nodes.len() < 2 {
            return None;
        }
        let mut maps = BTreeMap::new();
        for node in &manifest.nodes {
            let map = node.injected.as_ref().map(|text| text.parse::<Injection>()).transpose().ok()?;
            maps.insert(node.name.to_string(), map);
        }
        let reference = manifest.nodes.iter().find(|node| node.name == manifest.reference.node)?;
        let reference = maps[reference.name.as_str()];
        Some(Self { maps, reference, known: 0, inside: 0 })
    }

    /// Whether any duration was held against it: the truth of logs and kernel stamps is not known.
    pub fn is_checked(&self) -> bool {
        self.known > 0
    }

    /// The same truth, nothing held against it.
    pub(crate) fn uncounted(&self) -> Self {
        Self { known: 0, inside: 0, ..self.clone() }
    }

    /// Holds every duration of these traces against the truth.
    pub fn compare(&mut self, layout: &Layout, traces: &Traces, durations: &Durations) {
        for (stage, columns) in layout.stages().iter().zip(durations.stages()) {
            for row in 0..traces.len() {
                // What another clock truly read is not known.
                if durations.own(stage.from).is_some() || durations.own(stage.to).is_some() {
                    break;
                }
                let tick = |point: usize| {
                    let raw = traces.points()[point].get(row)?;
                    self.on_reference(layout.points()[point].place.node.as_str(), raw)
                };
                let (Some(from), Some(to)) = (tick(stage.from), tick(stage.to)) else { continue };
                let (Some(lo), Some(hi)) = (columns.lo.get(row), columns.hi.get(row)) else { continue };
                self.known += 1;
                // A slow map reads one tick at two true ones: then the truth is one of the values between.
                let apart = |from: i64, to: i64| i128::from(to) - i128::from(from);
                self.inside +=
                    u64::from(i128::from(lo) <= apart(from.0, to.1) && apart(from.1, to.0) <= i128::from(hi));
            }
        }
    }

    /// First and last tick that the reference truly read when the node read `raw`.
    pub fn on_reference(&self, node: &str, raw: i64) -> Option<(i64, i64)> {
        self.through(self.reference, node, raw)
    }

    /// First and last tick that the counter of `reader` truly read when that of `node` read `raw`.
    pub fn read_by(&self, reader: &str, node: &str, raw: i64) -> Option<(i64, i64)> {
        self.through(*self.maps.get(reader)?, node, raw)
    }

    fn through(&self, reader: Option<Injection>, node: &str, raw: i64) -> Option<(i64, i64)> {
        let (first, last) = match self.maps.get(node)? {
            None => (raw, raw),
            Some(map) => map.invert(raw)?,
        };
        Some(reader.map_or((first, last), |map| (map.apply(first), map.apply(last))))
    }
}

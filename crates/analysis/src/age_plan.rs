//! The part of a question about ages that an engine which computes by table cannot know: clocks and missing stamps.
//!
//! Assumes: points that are stamped by their nodes' counters, so that one receiver's axis errs alike for all updates.
//! Deliberately absent: the ages, which `age.rs` computes; `python/tickscope/ages.py` gives the same numbers.

use tickscope_trace::{AxisError, Stage, StageRole};

use crate::age::{AgeKey, AgeQuery, ends_of, key_of, lacking_at, limit_ticks};
use crate::error::Error;
use crate::scan::Scan;

/// A question about ages, with what the clocks and the points say of it.
#[derive(Clone, PartialEq, Debug)]
pub struct AgePlan {
    /// Attribute that tells updates apart.
    pub key: AgeKey,
    /// The limit in ticks, rounded down and up.
    pub limit_ticks: Option<[i64; 2]>,
    /// How far the receiver's axis may be off.
    pub axis: AxisError,
    /// Ticks of the reference by which cores differ at each of the two points.
    pub core_ticks: [u64; 2],
    /// Reasons why ages are lacking, as [`crate::Age::lacking`].
    pub lacking: Vec<String>,
}

/// Reads a question, as [`crate::age`] does.
pub fn age_plan(scan: &Scan, asked: &AgeQuery) -> Result<AgePlan, Error> {
    let [from, to] = ends_of(scan, asked)?;
    let clocks = scan.clocks();
    let reach = clocks.reading_reach(to, 0).unwrap_or_default();
    let at = |point: usize| Stage { name: String::new(), from: point, to: point, role: StageRole::Extra };
    Ok(AgePlan {
        key: key_of(scan, asked),
        limit_ticks: asked.limit_ns.map(|ns| limit_ticks(ns, scan.hertz())),
        axis: clocks.axis_error(to, reach),
        core_ticks: [from, to].map(|point| clocks.core_ticks(&at(point))),
        lacking: lacking_at(scan, asked),
    })
}

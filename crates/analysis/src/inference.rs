//! Inference of a run's layout from its stamps, where nobody declared one (`docs/inferred-layouts.md`).
//!
//! Idea: of every point the same sample of ids, chosen by a hash; each id's first passage there; its place on the
//! reference, as far as evidence relates the clocks. Guarantees: the same run gives the same layout. Deliberately
//! absent: the order itself, which is [`tickscope_trace::infer`]'s.

use std::collections::HashMap;

use tickscope_store::{Manifest, Run};
use tickscope_tick::{Place, own_points};
use tickscope_trace::infer::{Inferred, MOST_POINTS, infer};
use tickscope_trace::{LayoutText, Sighting};

use crate::Query;
use crate::error::Error;
use crate::inputs::Inputs;

/// Ids that are looked at, at most.
const MOST_IDS: u64 = 100_000;
/// Comparisons of two points' ticks, at most.
const MOST_COMPARISONS: u64 = 100_000_000;

/// (kind, id).
type Key = (i32, i64);

/// The layout that the stamps of `run` suggest, whose manifest names all nodes; and how many of the ids looked at
/// passed some point more than once.
pub(crate) fn inferred(run: &Run) -> Result<(Inferred, u64), Error> {
    let points = programs_points(run)?;
    if points.len() > MOST_POINTS {
        let found = points.len();
        return Err(Error::work(format!(
            "cannot infer a layout of {}: {found} points were stamped, more than {MOST_POINTS}. Name those of interest \
             with --layout",
            run.root().display()
        )));
    }
    if points.len() < 2 {
        let alone = points.iter().map(Place::to_string).collect();
        return Ok((Inferred { alone, ..Inferred::default() }, 0));
    }
    let path = points.iter().map(Place::to_string).collect();
    let layout = LayoutText { path, inferred: true, ..LayoutText::default() };
    let manifest = Manifest { layout, ..run.manifest().clone() };
    let inputs = Inputs::of(&run.clone().seen_as(manifest, None), &Query::default(), None)?;
    let (mut ids, mut repeated): (HashMap<Key, Vec<Sighting>>, _) = (HashMap::new(), HashMap::<Key, ()>::new());
    let most = sample_size(run, &points)?;
    for (at, point) in inputs.layout.points().iter().enumerate() {
        for (key, (tick, again)) in first_passages(run, &point.place, most)? {
            if again {
                repeated.insert(key, ());
            }
            // What its clock has no interval for orders nothing.
            ids.entry(key).or_default().extend(inputs.clocks.sighting(at, tick));
        }
    }
    let places: Vec<Place> = inputs.layout.points().iter().map(|point| point.place.clone()).collect();
    let ids: Vec<Vec<Sighting>> = ids.into_values().collect();
    Ok((infer(&places, &ids), repeated.len() as u64))
}

/// Points that programs stamped, of nodes that the manifest names.
pub(crate) fn programs_points(run: &Run) -> Result<Vec<Place>, Error> {
    let mut points = Vec::new();
    for node in run.manifest().nodes.iter().map(|node| &node.name) {
        let stamped = run.points(node.as_str())?.into_iter().filter(|point| !own_points::are(point));
        points.extend(stamped.filter_map(|point| format!("{node}.{point}").parse::<Place>().ok()));
    }
    let mut found = Vec::new();
    for place in points {
        if !run.stamps(&place)?.is_empty() {
            found.push(place);
        }
    }
    found.sort_by_key(Place::to_string);
    Ok(found)
}

/// The largest hash of an id that is looked at.
fn sample_size(run: &Run, points: &[Place]) -> Result<u64, Error> {
    let stamps = points.iter().map(|place| Ok(run.stamps(place)?.len())).collect::<Result<Vec<_>, Error>>()?;
    let most = MOST_IDS.min(MOST_COMPARISONS / (points.len() * points.len()).max(1) as u64).max(1);
    let (largest, all) = (stamps.iter().max().copied().unwrap_or(0), stamps.iter().sum::<u64>());
    // Of points that share no ids, each has its own.
    let share = |of: u64, most: u64| u128::from(u64::MAX) * u128::from(most) / u128::from(of.max(most).max(1));
    let hash = share(largest, most).min(share(all, most.saturating_mul(points.len() as u64).min(40 * MOST_IDS)));
    Ok(u64::try_from(hash).unwrap_or(u64::MAX))
}

/// By id of the sample: the smallest tick at a point, and whether there was more than one.
fn first_passages(run: &Run, place: &Place, most: u64) -> Result<HashMap<Key, (i64, bool)>, Error> {
    let mut first: HashMap<Key, (i64, bool)> = HashMap::new();
    run.stamps(place)?.read_keys(|ids, ticks, kinds| {
        for (row, (&id, &tick)) in ids.iter().zip(ticks).enumerate() {
            let kind = kinds.get(row).unwrap_or(0);
            if hash(kind, id) <= most {
                let seen = |known: &mut (i64, bool)| *known = (known.0.min(tick), true);
                first.entry((kind, id)).and_modify(seen).or_insert((tick, false));
            }
        }
    })?;
    Ok(first)
}

/// Spreads ids evenly: the finisher of `SplitMix64`.
fn hash(kind: i32, id: i64) -> u64 {
    let mut mixed = (id as u64).wrapping_add((kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

//! Originals of ids that are hashes: what programs kept of text and of longer ids, by id.
//!
//! They lie in the stamps of the point `id-original` of every node, parts of 16 bytes (crate `stamp`, `id`). Idea: ids
//! are taken slice by slice, sorted, and assembled, so memory stays bounded however many there are. Guarantees: two
//! originals of one hash are found, wherever they were kept. Deliberately absent: a file of their own, which would be a
//! second truth; and originals that nobody kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use tickscope_stamp::id::{Original, OriginalPart, assemble};
use tickscope_tick::own_points::ID_ORIGINAL;
use tickscope_tick::{Place, PointName};

use crate::error::Result;
use crate::run::Run;
use crate::stamps::{PointStamps, StampColumns};

/// Parts that are held at once.
const MOST_PARTS: u64 = 1 << 22;

/// One part, with the call that kept it.
type Part = ((i64, usize, i32, i64), OriginalPart);

/// Two things of one id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collision {
    /// The id.
    pub id: i64,
    /// The originals, two of them or more.
    pub originals: Vec<Original>,
}

impl Run {
    /// Hands every original that was kept of an id in `ids` to `sink`, in the order of ids; of one id each different
    /// one.
    pub fn each_original(&self, ids: RangeInclusive<i64>, mut sink: impl FnMut(i64, Original)) -> Result<()> {
        let nodes = self.manifest().nodes.iter().map(|node| node.name.clone());
        let point = PointName::new(ID_ORIGINAL).expect("a point's name");
        let places = nodes.map(|node| Place { node, point: point.clone() });
        let kept: Vec<PointStamps> = places.map(|place| self.stamps(&place)).collect::<Result<_>>()?;
        let parts: u64 = kept.iter().map(PointStamps::len).sum();
        for slice in slices(ids, parts.div_ceil(MOST_PARTS)) {
            each_in(&kept, slice, &mut sink)?;
        }
        Ok(())
    }

    /// The original of each of `ids` that was kept, where it is one.
    pub fn originals_of(&self, ids: &[i64]) -> Result<BTreeMap<i64, Original>> {
        let mut found = BTreeMap::new();
        let (Some(&first), Some(&last)) = (ids.iter().min(), ids.iter().max()) else { return Ok(found) };
        let (wanted, mut several): (BTreeSet<i64>, _) = (ids.iter().copied().collect(), Vec::new());
        self.each_original(first..=last, |id, original| {
            if wanted.contains(&id) && found.insert(id, original).is_some() {
                several.push(id);
            }
        })?;
        several.iter().for_each(|id| _ = found.remove(id));
        Ok(found)
    }

    /// Ids that were kept for two things, in the order of ids.
    pub fn collisions(&self) -> Result<Vec<Collision>> {
        let mut found: Vec<Collision> = Vec::new();
        let mut before: Option<(i64, Original)> = None;
        self.each_original(i64::MIN..=i64::MAX, |id, original| match (&before, found.last_mut()) {
            (_, Some(known)) if known.id == id => known.originals.push(original),
            (Some((other, first)), _) if *other == id => {
                found.push(Collision { id, originals: vec![first.clone(), original] });
            }
            _ => before = Some((id, original)),
        })?;
        Ok(found)
    }
}

/// A range of ids in equal parts: hashes lie evenly.
fn slices(ids: RangeInclusive<i64>, parts: u64) -> Vec<RangeInclusive<i64>> {
    let step = ids.end().abs_diff(*ids.start()) / parts.max(1);
    let mut slices = Vec::new();
    let mut first = *ids.start();
    while first <= *ids.end() {
        let last = first.checked_add_unsigned(step).map_or(*ids.end(), |last| last.min(*ids.end()));
        slices.push(first..=last);
        let Some(next) = last.checked_add(1) else { break };
        first = next;
    }
    slices
}

fn each_in(kept: &[PointStamps], ids: RangeInclusive<i64>, sink: &mut impl FnMut(i64, Original)) -> Result<()> {
    let mut parts: Vec<Part> = Vec::new();
    for (node, stamps) in kept.iter().enumerate() {
        stamps.read(ids.clone(), |columns| parts.extend(parts_of(node, columns)))?;
    }
    parts.sort_unstable();
    for of_id in parts.chunk_by(|a, b| a.0.0 == b.0.0) {
        let calls = of_id.chunk_by(|a, b| a.0 == b.0);
        let originals = calls.filter_map(|call| assemble(&mut call.iter().map(|part| part.1).collect::<Vec<_>>()));
        let mut different: Vec<Original> = Vec::new();
        for original in originals {
            match different.iter_mut().find(|known| are_same(known, &original)) {
                Some(known) if known.bytes.len() < original.bytes.len() => *known = original,
                Some(_) => {}
                None => different.push(original),
            }
        }
        different.sort_unstable();
        different.into_iter().for_each(|original| sink(of_id[0].0.0, original));
    }
    Ok(())
}

/// Whether what was kept of one may be of the other: a kill cuts the end off.
fn are_same(one: &Original, other: &Original) -> bool {
    one.length == other.length && one.bytes.iter().zip(&other.bytes).all(|(one, other)| one == other)
}

fn parts_of(node: usize, columns: StampColumns) -> Vec<Part> {
    let part = |row: usize| {
        let id = columns.id[row];
        let parent = columns.parent.get(row).unwrap_or(id); // the id itself reads as none
        let words = [columns.value.get(row)?, parent];
        let chunk = OriginalPart { number: columns.kind.get(row)?, length: columns.attempt.get(row)?, words };
        Some(((id, node, columns.channel[row], columns.tick[row]), chunk))
    };
    (0..columns.id.len()).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::manifest;
    use crate::scratch::Scratch;
    use crate::{Origin, next_segment, write_segment};

    fn word(bytes: &[u8]) -> i64 {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        i64::from_le_bytes(all)
    }

    /// `(id, channel, tick, number, length, bytes)`.
    type Row<'a> = (i64, i32, i64, i32, i32, &'a [u8]);

    fn put(run: &Run, node: &str, rows: &[Row<'_>]) {
        let halves = |bytes: &[u8]| [word(&bytes[..bytes.len().min(8)]), word(&bytes[bytes.len().min(8)..])];
        let columns = StampColumns {
            kind: rows.iter().map(|row| Some(row.3)).collect(),
            attempt: rows.iter().map(|row| Some(row.4)).collect(),
            value: rows.iter().map(|row| Some(halves(row.5)[0])).collect(),
            parent: rows.iter().map(|row| Some(halves(row.5)[1]).filter(|&parent| parent != row.0)).collect(),
            ..StampColumns::slim(
                rows.iter().map(|row| row.2).collect(),
                rows.iter().map(|row| row.0).collect(),
                rows.iter().map(|row| row.1).collect(),
            )
        };
        let place = next_segment(&run.paths().stamps(&format!("{node}.id-original").parse().unwrap())).unwrap();
        write_segment(&place, &columns, &Origin::default()).unwrap();
    }

    #[test]
    fn originals_of_every_node_are_assembled_once_each_and_two_of_one_hash_are_found() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        assert!(run.collisions().unwrap().is_empty());
        let long = b"a name of eighteen";
        put(
            &run,
            "client",
            &[(7, 1, 10, 1, 18, &long[16..]), (9, 1, 11, 0, 5, b"order"), (7, 1, 10, 0, 18, &long[..16])],
        );
        put(&run, "client", &[(9, 1, 30, 0, 5, b"order"), (0, 1, 31, 0, 3, b"nil"), (7, 2, 12, 0, 18, &long[..16])]);
        put(&run, "server", &[(9, 1, 11, 0, 5, b"other"), (5, 1, 12, 0, 0, b"")]);
        let mut told = Vec::new();
        run.each_original(i64::MIN..=i64::MAX, |id, original| told.push((id, original.to_string()))).unwrap();
        let expected = [(0, "nil"), (5, ""), (7, "a name of eighteen"), (9, "order"), (9, "other")];
        assert_eq!(told, expected.map(|(id, text)| (id, text.to_string())));
        let collisions = run.collisions().unwrap();
        let found: Vec<_> = collisions[0].originals.iter().map(ToString::to_string).collect();
        assert_eq!((collisions.len(), collisions[0].id, found), (1, 9, vec!["order".into(), "other".into()]));
        let known = run.originals_of(&[9, 0, 8]).unwrap();
        assert_eq!(known.iter().map(|(id, o)| (*id, o.to_string())).collect::<Vec<_>>(), [(0, "nil".into())]);
    }

    #[test]
    fn slices_cover_a_range_without_overlap_to_both_ends_of_64_bits() {
        for (ids, parts) in [(i64::MIN..=i64::MAX, 7), (i64::MIN..=i64::MAX, 1), (-3..=9, 4), (5..=5, 3)] {
            let found = slices(ids.clone(), parts);
            assert_eq!((*found[0].start(), *found[found.len() - 1].end()), (*ids.start(), *ids.end()));
            assert!(found.windows(2).all(|two| two[0].end().checked_add(1) == Some(*two[1].start())));
        }
    }
}

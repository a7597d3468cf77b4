//! The table of a run for one kind of ids, one value of a stamp, or one channel of a point, at a time.
//!
//! Idea: two passes over the traces; the first counts the keys, the second gathers the values of those that most traces
//! have. Guarantees: memory grows with the traces of the groups that are shown, and with the number of keys no further
//! than [`MOST_KEYS`] and the keys of the row groups that are read at the moment; which keys are told apart depends on
//! the order of the traces alone; every trace is in a group or counted as in none that is shown. Deliberately absent:
//! bounds that belong to a run and not to a group of its traces (common, relative).

use std::collections::{BTreeMap, HashMap};

use tickscope_store::{KeyedReader, Run};
use tickscope_tick::Place;
use tickscope_trace::{Attribute, Common, Quantile, Share, SharePlan, StageRole, StageRow, StageValues, suggestion};

use crate::error::Error;
use crate::query::Query;
use crate::scan::{Outcome, Part, Piece, Scan, Sink, Wanted};

/// What traces are grouped by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupedBy {
    /// The class of their ids.
    Kind,
    /// The number that the program gave with the first stamp of the path that has one.
    Value,
    /// The channel, one a thread, that took their stamp at this point; `None`: at the first point of the layout that
    /// several channels stamped.
    Channel(Option<Place>),
}

/// Keys that are told apart.
pub const MOST_KEYS: usize = 1 << 16;

/// A run's traces in groups.
#[derive(Debug)]
pub struct Groups {
    /// The point whose channels the keys are.
    pub point: Option<Place>,
    /// Those that most traces have, by key.
    pub shown: Vec<Group>,
    /// How many further keys there are; those beyond [`MOST_KEYS`] count as one.
    pub more_keys: usize,
    /// How many traces have one of these.
    pub more_traces: u64,
}

/// Traces of one key.
#[derive(Debug)]
pub struct Group {
    /// The kind, the value, or the number of the channel within its node; `None`: no stamp of the trace has a value, or
    /// it has no stamp at the point.
    pub key: Option<i64>,
    /// How many traces.
    pub traces: u64,
    /// A row a stage; without common, relative and core bounds, which are the run's.
    pub rows: Vec<StageRow>,
}

/// Gathers the groups of a run under `query`, at most `most` of them.
pub fn grouped(run: &Run, query: &Query, by: &GroupedBy, most: usize) -> Result<Groups, Error> {
    let scan = Scan::of(run, query)?;
    let (key, point) = Key::of(run, &scan, by)?;
    let mut counted = Counted::none(key.clone());
    scan.over(&mut counted)?;
    let Counted { counts, beyond, .. } = counted;
    let mut order: Vec<_> = counts.iter().map(|(&key, &count)| (std::cmp::Reverse(count), key)).collect();
    order.sort_unstable();
    let none = || Gathered::none(scan.layout().stages().len());
    let kept = order.iter().take(most).map(|&(_, key)| (key, none())).collect();
    let mut gathered = GatheredByKey { key, plan: SharePlan::of(scan.layout()), kept };
    scan.over(&mut gathered)?;
    let kept = gathered.kept;
    let more_keys = counts.len() - kept.len() + usize::from(beyond > 0);
    let more_traces = order.iter().skip(most).map(|(count, _)| count.0).sum::<u64>() + beyond;
    let group = |(key, gathered): (Option<i64>, Gathered)| Group {
        key,
        traces: counts[&key],
        rows: gathered.rows(&scan, query),
    };
    Ok(Groups { point, shown: kept.into_iter().map(group).collect(), more_keys, more_traces })
}

/// Returns whether the traces of `run` tell the channels of every point apart that several channels stamped; those of
/// earlier versions do not.
pub fn tells_channels(run: &Run) -> Result<bool, Error> {
    let (layout, readers) = (run.layout()?, run.traces()?.found);
    for point in layout.points() {
        if !have_channels(&readers, &point.place) && run.channels_at(&point.place)?.len() > 1 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn have_channels(readers: &[KeyedReader], place: &Place) -> bool {
    readers.iter().all(|reader| reader.has_attribute(&place.to_string(), Attribute::Channel))
}

/// The point whose channels are asked for.
fn point_of_channels(run: &Run, scan: &Scan, named: Option<&Place>) -> Result<Place, Error> {
    let places: Vec<&Place> = scan.layout().points().iter().map(|point| &point.place).collect();
    if let Some(named) = named.filter(|named| !places.contains(named)) {
        let known: Vec<String> = places.iter().map(ToString::to_string).collect();
        let helps = suggestion(&named.to_string(), &known);
        return Err(Error::input(format!("--by: expected a point of the layout, found '{named}'; {helps}")));
    }
    let asked = || places.iter().copied().filter(|place| named.is_none_or(|named| named == *place));
    if let Some(place) = asked().find(|place| have_channels(&scan.readers, place)) {
        return Ok(place.clone());
    }
    let several = |place: &&Place| run.channels_at(place).map_or(0, |channels| channels.len()) > 1;
    if let Some(place) = asked().find(several) {
        return Err(Error::work(format!(
            "expected traces that tell the channels of {place} apart, found traces of an earlier version. Join the run \
             again"
        )));
    }
    let found = named.map_or("none in the layout".into(), |named| format!("one at most at {named}"));
    let others: Vec<String> = places.iter().copied().filter(several).map(ToString::to_string).collect();
    let helps = match others.as_slice() {
        [] => "Traces are grouped by channel where several threads or processes stamp one point".into(),
        others => format!("Name one of {}", others.join(", ")),
    };
    Err(Error::input(format!("--by: expected a point that several channels stamped, found {found}. {helps}")))
}

/// Where the key of a trace is read.
#[derive(Clone)]
enum Key {
    Kind,
    /// The attribute of the first of these stamps that has one.
    Attribute(Vec<Wanted>),
}

impl Key {
    fn of(run: &Run, scan: &Scan, by: &GroupedBy) -> Result<(Self, Option<Place>), Error> {
        let points = scan.layout().points();
        let read = |attribute: Attribute| move |point: usize| Wanted { point, attribute };
        Ok(match by {
            GroupedBy::Kind => (Self::Kind, None),
            GroupedBy::Value => (Self::Attribute((0..points.len()).map(read(Attribute::Value)).collect()), None),
            GroupedBy::Channel(named) => {
                let place = point_of_channels(run, scan, named.as_ref())?;
                let at = points.iter().position(|point| point.place == place);
                (Self::Attribute(at.into_iter().map(read(Attribute::Channel)).collect()), Some(place))
            }
        })
    }

    fn wanted(&self) -> Vec<Wanted> {
        match self {
            Self::Kind => Vec::new(),
            Self::Attribute(wanted) => wanted.clone(),
        }
    }

    fn at(&self, piece: &Piece<'_>, row: usize) -> Option<i64> {
        match self {
            Self::Kind => Some(piece.traces.kinds()[row].into()),
            Self::Attribute(wanted) => wanted.iter().find_map(|&wanted| piece.attribute(wanted, row)),
        }
    }
}

/// How many traces have each of the first [`MOST_KEYS`] keys.
struct Counted {
    key: Key,
    counts: BTreeMap<Option<i64>, u64>,
    /// Traces of keys beyond [`MOST_KEYS`].
    beyond: u64,
}

impl Counted {
    fn none(key: Key) -> Self {
        Self { key, counts: BTreeMap::new(), beyond: 0 }
    }

    fn count(&mut self, key: Option<i64>, traces: u64) {
        if self.counts.len() < MOST_KEYS || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += traces;
        } else {
            self.beyond += traces;
        }
    }
}

/// How many traces of a part have each key, in the order in which the keys come up. All of them: which ones are beyond
/// [`MOST_KEYS`] depends on the parts before.
struct CountedPart {
    key: Key,
    counts: Vec<(Option<i64>, u64)>,
    /// Where a key is in `counts`.
    places: HashMap<Option<i64>, usize>,
}

impl CountedPart {
    fn none(key: Key) -> Self {
        Self { key, counts: Vec::new(), places: HashMap::new() }
    }

    fn count(&mut self, key: Option<i64>) {
        let place = *self.places.entry(key).or_insert(self.counts.len());
        match self.counts.get_mut(place) {
            Some((_, traces)) => *traces += 1,
            None => self.counts.push((key, 1)),
        }
    }
}

impl Part for CountedPart {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        for row in 0..piece.traces.len() {
            self.count(self.key.at(piece, row));
        }
        Ok(())
    }

    fn end(&mut self) {
        self.places = HashMap::new();
    }
}

impl Sink for Counted {
    type Part = CountedPart;

    fn part(&self) -> CountedPart {
        CountedPart::none(self.key.clone())
    }

    fn merge(&mut self, part: CountedPart) -> Result<(), Error> {
        part.counts.into_iter().for_each(|(key, traces)| self.count(key, traces));
        Ok(())
    }

    fn wanted(&self) -> Vec<Wanted> {
        self.key.wanted()
    }
}

/// Values and counts of the groups that are shown.
struct GatheredByKey {
    key: Key,
    plan: SharePlan,
    kept: BTreeMap<Option<i64>, Gathered>,
}

impl Part for GatheredByKey {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        for row in 0..piece.traces.len() {
            if let Some(group) = self.kept.get_mut(&self.key.at(piece, row)) {
                group.add(piece, row, &self.plan);
            }
        }
        Ok(())
    }
}

impl Sink for GatheredByKey {
    type Part = Self;

    fn part(&self) -> Self {
        let none = |(&key, gathered): (&Option<i64>, &Gathered)| (key, Gathered::none(gathered.values.len()));
        let kept = self.kept.iter().map(none).collect();
        Self { key: self.key.clone(), plan: self.plan.clone(), kept }
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        for (all, later) in self.kept.values_mut().zip(part.kept.into_values()) {
            all.append(later);
        }
        Ok(())
    }

    fn wanted(&self) -> Vec<Wanted> {
        self.key.wanted()
    }
}

/// Values and counts of a group, by stage.
struct Gathered {
    values: Vec<StageValues>,
    /// Count, missing, refused, impossible.
    counts: Vec<[u64; 4]>,
    shares: Vec<Option<Share>>,
}

impl Gathered {
    fn none(stages: usize) -> Self {
        Self { values: vec![StageValues::default(); stages], counts: vec![[0; 4]; stages], shares: vec![None; stages] }
    }

    fn add(&mut self, piece: &Piece<'_>, row: usize, plan: &SharePlan) {
        let stages = piece.layout.stages();
        for stage in 0..stages.len() {
            let (outcome, span) = piece.outcome(stage, row);
            let counts = &mut self.counts[stage];
            match outcome {
                Outcome::Repeated => continue,
                Outcome::Missing => counts[1] += 1,
                Outcome::Refused => counts[2] += 1,
                Outcome::Impossible | Outcome::Measured => {
                    counts[0] += 1;
                    counts[3] += u64::from(outcome == Outcome::Impossible);
                }
            }
            span.into_iter().for_each(|span| self.values[stage].push([span.estimate, span.lo, span.hi]));
        }
        let values = |stage: usize| {
            let (outcome, span) = piece.outcome(stage, row);
            let counts = stages[stage].role != StageRole::EndToEnd || outcome != Outcome::Repeated;
            span.filter(|_| counts).map(|span| [span.estimate, span.lo, span.hi])
        };
        plan.add(values, &mut self.shares);
    }

    fn append(&mut self, later: Self) {
        self.values.iter_mut().zip(later.values).for_each(|(all, later)| all.append(later));
        self.shares.iter_mut().zip(later.shares).for_each(|(all, later)| Share::merge_into(all, later));
        for (all, later) in self.counts.iter_mut().zip(later.counts) {
            all.iter_mut().zip(later).for_each(|(all, later)| *all += later);
        }
    }

    fn rows(self, scan: &Scan, query: &Query) -> Vec<StageRow> {
        let points = scan.layout().points();
        let stages = scan.layout().stages().iter().zip(self.values).zip(self.counts).zip(self.shares);
        let row = |(((stage, mut values), counts), share): (((&tickscope_trace::Stage, _), [u64; 4]), _)| {
            let values: &mut StageValues = &mut values;
            let [count, missing, refused, impossible] = counts;
            StageRow {
                name: stage.name.clone(),
                from: points[stage.from].place.to_string(),
                to: points[stage.to].place.to_string(),
                role: stage.role,
                count,
                missing,
                refused,
                refused_by: Default::default(),
                impossible,
                against_inferred: 0,
                p50: values.quantile(Quantile::MEDIAN),
                p99: values.quantile(Quantile::P99),
                p999: values.quantile(Quantile::P999),
                max: values.quantile(Quantile::MAXIMUM),
                quantiles: query.quantiles.iter().filter_map(|&quantile| values.quantile(quantile)).collect(),
                mean: values.mean(),
                share,
                common: Common::default(),
                own: Common::default(),
                relative_ticks: 0,
                core_ticks: 0,
            }
        };
        stages.map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys counted in parts that end at those places.
    fn counted(keys: &[Option<i64>], ends: &[usize]) -> (BTreeMap<Option<i64>, u64>, u64) {
        let mut all = Counted::none(Key::Kind);
        let mut first = 0;
        for &end in ends.iter().chain([&keys.len()]) {
            let mut part = all.part();
            keys[first..end].iter().for_each(|&key| part.count(key));
            part.end();
            all.merge(part).unwrap();
            first = end;
        }
        (all.counts, all.beyond)
    }

    #[test]
    fn which_keys_are_told_apart_depends_on_no_part_and_none_of_their_traces_is_missing() {
        let most = MOST_KEYS as i64;
        // Some known key comes up again behind more others than are told apart; and keys fall while traces go on.
        let keys: Vec<Option<i64>> =
            [Some(7), None].into_iter().chain((0..2 * most).rev().map(Some)).chain([Some(7), None]).collect();
        let whole = counted(&keys, &[]);
        assert_eq!((whole.0.len(), whole.0[&Some(7)], whole.0[&None]), (MOST_KEYS, 3, 2));
        assert_eq!(whole.0.values().sum::<u64>() + whole.1, keys.len() as u64);
        let several = [&[1][..], &[2], &[3], &[MOST_KEYS, MOST_KEYS + 100], &[2, 2 * MOST_KEYS + 2]];
        for ends in several {
            assert_eq!(counted(&keys, ends), whole, "{ends:?}");
        }
    }
}

//! The join over a run's files: segments in, `traces/` out.
//!
//! Row groups whose ids are elsewhere are not read. The traces carry raw ticks and the layout they were joined by; no
//! rho is in them, so they are made once.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use tickscope_tick::{NodeName, Place, counted, printable};
use tickscope_trace::{
    Attribute, Columns, Extent, JoinCounts, KeptStamps, Layout, LayoutText, Limits, LongSpans, MOST_SPANNED, Match,
    MayPrecede, Nullable, PointCounts, SHORT_SPAN, StampColumns as Batch, StampSource, Traces, join,
};

use crate::channels::{Channel, stamped_by};
use crate::codec::Encoding;
use crate::error::{Error, Result};
use crate::event_kind::EventKind;
use crate::kept_ids::KeptIds;
use crate::on_threads::in_order;
use crate::originals::Collision;
use crate::run::Run;
use crate::stamps::{PointStamps, Segment};
use crate::traces::{KeyedWriter, attribute_column, contradictions_key, layout_key, stamps_key};

/// Counts of the join, and the segments it could not read.
#[derive(Debug)]
pub struct Joined {
    /// Counts at each point and in the whole.
    pub counts: JoinCounts,
    /// Stamps at the layout's points when it began.
    pub stamps: u64,
    /// Segments that were not read, and why: their stamps count as missing.
    pub refused: Vec<Error>,
    /// By point: ids that its policies keep, that another point saw and that it did not.
    pub missing: Vec<u64>,
    /// By point: stamps of kinds that the layout is not of.
    pub left_out: Vec<u64>,
    /// Ids that two originals have: no durations are made of them.
    pub collisions: Vec<Collision>,
}

impl Run {
    /// The layout of the run, checked against its points.
    pub fn layout(&self) -> Result<Layout> {
        parsed(self, &self.manifest().layout)
    }
}

fn parsed(run: &Run, layout: &LayoutText) -> Result<Layout> {
    let known: Vec<_> = run.manifest().points.iter().map(|p| p.place().to_string()).collect();
    let known = (!known.is_empty()).then_some(known.as_slice());
    layout.parse(known).map_err(|e| Error::corrupt(run.root(), "a layout of the run's points", e.to_string()))
}

/// Joins the stamps of `run` by `layout`, holding about `bytes` at once, and replaces `traces/part-00000000.parquet`.
/// `may_precede` tells passages of one id apart ([`join`]).
pub fn join_run(run: &Run, layout: &LayoutText, bytes: usize, may_precede: &MayPrecede<'_>) -> Result<Joined> {
    let parsed = parsed(run, layout)?;
    let mut source = RunStamps::open(run, &parsed)?;
    let mut names: Vec<_> = parsed.points().iter().map(|point| point.place.to_string()).collect();
    for (point, place) in parsed.points().iter().map(|point| point.place.to_string()).enumerate() {
        names.extend(source.attributes(point)?.into_iter().map(|attribute| attribute_column(&place, attribute)));
    }
    let place = run.derived().traces().join("part-00000000.parquet");
    let stamps = source.points.iter().map(PointStamps::len).sum();
    let (collisions, left_out) = (source.collisions.clone(), source.left_out.clone());
    let mut writer = KeyedWriter::begin_traces(&place, &names, &[layout_key(layout), stamps_key(stamps)])?;
    let limits = Limits::within(bytes, names.len());
    let mut lacking = Lacking::of(run, &parsed)?;
    let counts = join(&parsed, &mut source, limits, may_precede, &mut |traces| {
        lacking.add(traces);
        writer.write_traces(traces)
    })?;
    let missing = lacking.counts(&counts);
    let joined = Joined { missing, counts, stamps, refused: source.refused(), left_out, collisions };
    let contradictions = joined.findings(&parsed).into_iter().filter(|found| found.what.contradicts());
    let contradictions: Vec<String> = contradictions.map(|found| found.text).collect();
    writer.finish_with(&[contradictions_key(&contradictions)][..usize::from(!contradictions.is_empty())])?;
    Ok(joined)
}

/// By point: what its policies keep, and how many ids of that it lacks.
struct Lacking {
    points: Vec<(KeptIds, u64)>,
}

impl Lacking {
    fn of(run: &Run, layout: &Layout) -> Result<Self> {
        let (channels, events) = (run.channels()?.found, run.events()?.found);
        let kept = |(at, point): (usize, &tickscope_trace::Point)| match KeptIds::of(&point.place, &channels, &events) {
            // Its rule is about ids that no trace is named by.
            KeptIds::Chosen(_) if !layout.names_traces(at) => (KeptIds::Unknown, 0),
            kept => (kept, 0),
        };
        Ok(Self { points: layout.points().iter().enumerate().map(kept).collect() })
    }

    fn add(&mut self, traces: &Traces) {
        for (point, (kept, lacking)) in self.points.iter_mut().enumerate() {
            if let KeptIds::Chosen(_) = kept {
                let lacks = |row: &usize| !traces.is_seen(point, *row) && kept.keeps(traces.ids()[*row]);
                *lacking += traces.first_rows().filter(lacks).count() as u64;
            }
        }
    }

    fn counts(self, all: &JoinCounts) -> Vec<u64> {
        let count = |((kept, lacking), counts): ((KeptIds, u64), &PointCounts)| match kept {
            KeptIds::All => counts.missing,
            KeptIds::Chosen(_) => lacking,
            KeptIds::Unknown => 0,
        };
        self.points.into_iter().zip(&all.points).map(count).collect()
    }
}

/// What a join tells of ids, beyond what is missing, repeated or out of order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinFinding {
    /// The node concerned; `None`: the run as a whole.
    pub node: Option<NodeName>,
    /// Its kind as an event.
    pub what: EventKind,
    /// How many ids; of two originals of one id, the id.
    pub value: i64,
    /// A sentence.
    pub text: String,
}

impl Joined {
    /// Ids that two originals have, attempts that cannot be, ids that have no trace, stamps that the layout leaves out,
    /// and parts and wholes that did not meet.
    pub fn findings(&self, layout: &Layout) -> Vec<JoinFinding> {
        let place = |point: usize| &layout.points()[point].place;
        let mut all: Vec<JoinFinding> = self.collisions.iter().map(Collision::finding).collect();
        all.extend(self.contradicted_attempts(layout));
        let at = |point: usize, what, ids: u64, text: String| {
            let value = i64::try_from(ids).unwrap_or(i64::MAX);
            (ids > 0).then(|| JoinFinding { node: Some(place(point).node.clone()), what, value, text })
        };
        for (point, counts) in self.counts.points.iter().enumerate() {
            let text = format!(
                "ids at {} have no trace: its stamps of more than {SHORT_SPAN} ids each stand for more than \
                 {MOST_SPANNED} together, so they are joined only where other stamps have those ids",
                place(point)
            );
            all.extend(at(point, EventKind::IdsUnexpanded, counts.unexpanded, text));
        }
        for (point, left_out) in self.left_out.iter().enumerate() {
            let text = format!("stamps at {} are not of the layout's kinds ({:?})", place(point), layout.kinds());
            all.extend(at(point, EventKind::KindsLeftOut, *left_out, text));
        }
        for (edge, counts) in layout.links().iter().zip(&self.counts.links) {
            let (part, whole) = match edge.by {
                Match::FanIn => (edge.from, edge.to),
                Match::FanOut => (edge.to, edge.from),
                Match::Id | Match::Range => continue,
            };
            let alone = counts.unsaid + counts.repeated + counts.unreached + counts.untold;
            let text = format!(
                "{} at {} without {} whole at {}: {} say no parent, {} say several, of {} it was not stamped, of {} \
                 nothing tells which stamp of it is theirs",
                if alone == 1 { "part" } else { "parts" },
                place(part),
                if alone == 1 { "its" } else { "their" },
                place(whole),
                counts.unsaid,
                counts.repeated,
                counts.unreached,
                counts.untold
            );
            all.extend(at(part, EventKind::IdsApart, alone, text));
            let apart = counts.apart.unwrap_or(0);
            let wholes = if apart == 1 { "whole" } else { "wholes" };
            let text = format!("{wholes} at {} that no part at {} names", place(whole), place(part));
            all.extend(at(whole, EventKind::IdsApart, apart, text));
        }
        all
    }
}

impl Joined {
    fn contradicted_attempts(&self, layout: &Layout) -> Option<JoinFinding> {
        let (_, id, found) = self.counts.contradiction?;
        let [from, to] = [found.from, found.to].map(|stamp| &layout.points()[stamp.point].place);
        let text = format!(
            "expected each attempt of an id at {from} before it was at {to}, found {} where one was not, such as \
             attempt {} of id {id} with the stamps {} and {}. Durations between points that contradict each other are \
             refused: let both points say the attempt of what they stamp, or neither",
            counted(self.counts.contradicted, "id"),
            found.attempt,
            found.from.tick,
            found.to.tick
        );
        let value = i64::try_from(self.counts.contradicted).unwrap_or(i64::MAX);
        Some(JoinFinding { node: None, what: EventKind::AttemptsContradicted, value, text })
    }
}

impl Collision {
    fn finding(&self) -> JoinFinding {
        let originals: Vec<_> =
            self.originals.iter().map(|original| format!("'{}'", printable(&original.to_string()))).collect();
        let text = format!(
            "two things have the id {}: {}. No duration is made of it; give one of them another name",
            self.id,
            originals.join(" and ")
        );
        JoinFinding { node: None, what: EventKind::IdsCollided, value: self.id, text }
    }
}

/// The stamps of each point of a layout.
struct RunStamps {
    points: Vec<PointStamps>,
    /// By point: what its stamps have.
    attributes: Vec<Vec<Attribute>>,
    /// By point, then by channel: a number for each thread of the run.
    threads: Vec<HashMap<i32, u32>>,
    /// By point: its row groups.
    groups: Vec<Vec<Group>>,
    collisions: Vec<Collision>,
    /// By point: which of its stamps are there.
    kept: Vec<KeptStamps>,
    /// Kinds of ids that the layout is of; empty: of any.
    kinds: Vec<i32>,
    /// By point: stamps of others.
    left_out: Vec<u64>,
}

/// A row group of a point.
struct Group {
    segment: usize,
    group: usize,
    stamps: u64,
    first: i64,
    /// The last id that a stamp stands for, and the last where long spans count as their first id.
    last: i64,
    last_of_short: i64,
    long: LongSpans,
}

impl Group {
    /// The row groups of a point, each with the ids that its stamps stand for.
    fn all(stamps: &PointStamps, kinds: &[i32]) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for (at, segment) in stamps.segments().iter().enumerate() {
            for (group, (first, last, stamps)) in segment.extents().into_iter().enumerate() {
                let long = LongSpans::default();
                let found = Self { segment: at, group, stamps, first, last, last_of_short: last, long };
                all.extend(found.of_kinds(segment, kinds)?.map(|found| found.widened(segment, kinds)).transpose()?);
            }
        }
        Ok(all)
    }

    /// What of it is of these kinds; `None`: nothing is.
    fn of_kinds(mut self, segment: &Segment, kinds: &[i32]) -> Result<Option<Self>> {
        if !kinds.is_empty() {
            let (ids, _, of) = segment.read_keys(self.group)?;
            let ids = Kept::of(kinds, &of).column(ids);
            let ends = ids.iter().min().zip(ids.iter().max());
            let Some((first, last)) = ends else { return Ok(None) };
            (self.stamps, self.first, self.last, self.last_of_short) = (ids.len() as u64, *first, *last, *last);
        }
        Ok(Some(self))
    }

    fn widened(mut self, segment: &Segment, kinds: &[i32]) -> Result<Self> {
        if !segment.has_column("ids") {
            return Ok(self);
        }
        let (ids, _, of) = segment.read_keys(self.group)?;
        let lasts = segment.read_lasts(self.group, &ids)?;
        let kept = Kept::of(kinds, &of);
        for (id, last) in kept.column(ids).into_iter().zip(lasts.map(|lasts| kept.column(lasts)).into_iter().flatten())
        {
            let more = last.abs_diff(id);
            self.last = self.last.max(last);
            if more < SHORT_SPAN {
                self.last_of_short = self.last_of_short.max(last);
            } else {
                self.long = LongSpans { stamps: self.long.stamps + 1, ids: self.long.ids.saturating_add(more + 1) };
            }
        }
        Ok(self)
    }
}

/// Which rows of a row group are of the layout's kinds; `None`: all.
struct Kept(Option<Vec<bool>>);

impl Kept {
    fn of(kinds: &[i32], of: &Nullable<i32>) -> Self {
        let is_kept = |kind: Option<&i32>| kinds.contains(&kind.copied().unwrap_or(0));
        Self((!kinds.is_empty()).then(|| of.iter().map(is_kept).collect()))
    }

    fn column<T>(&self, column: Vec<T>) -> Vec<T> {
        let Some(kept) = &self.0 else { return column };
        column.into_iter().zip(kept).filter(|(_, kept)| **kept).map(|(value, _)| value).collect()
    }
}

/// Row groups of a point that are decoded ahead, on all processors, while those before them are joined: eight of a
/// collector's are a million stamps.
const GROUPS_AHEAD: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Stamps for which no other thread is worth starting.
const STAMPS_ALONE: u64 = 1 << 17;

/// Columns of a row group that every join needs, of the layout's kinds.
struct Keys {
    ids: Vec<i64>,
    ticks: Vec<i64>,
    /// The last id that each stands for; `None`: its own alone.
    lasts: Option<Vec<i64>>,
    /// `None`: all are of kind 0.
    kinds: Option<Vec<i32>>,
    kept: Kept,
}

impl Keys {
    fn read(segment: &Segment, group: usize, of: &[i32]) -> Result<Self> {
        let (ids, ticks, kinds) = segment.read_keys(group)?;
        let lasts = segment.read_lasts(group, &ids)?;
        let kept = Kept::of(of, &kinds);
        let (ids, ticks, lasts) = (kept.column(ids), kept.column(ticks), lasts.map(|lasts| kept.column(lasts)));
        let kinds: Option<Vec<i32>> =
            (!kinds.is_all_null()).then(|| kinds.iter().map(|kind| kind.copied().unwrap_or(0)).collect());
        let kinds = kinds.map(|kinds| kept.column(kinds));
        Ok(Self { ids, ticks, lasts, kinds, kept })
    }
}

impl RunStamps {
    fn open(run: &Run, layout: &Layout) -> Result<Self> {
        let points: Result<Vec<PointStamps>> = layout.points().iter().map(|point| run.stamps(&point.place)).collect();
        let points = points?;
        let channels = run.channels()?.found;
        let places = layout.points().iter().map(|point| &point.place);
        let attributes: Result<_> =
            places.zip(&points).map(|(place, stamps)| attributes_of(place, stamps, &channels)).collect();
        let kinds = layout.kinds().to_vec();
        let groups: Vec<Vec<Group>> = points.iter().map(|stamps| Group::all(stamps, &kinds)).collect::<Result<_>>()?;
        let left_out = |(stamps, groups): (&PointStamps, &Vec<Group>)| {
            let kept: u64 = groups.iter().map(|group| group.stamps).sum();
            if kinds.is_empty() { 0 } else { stamps.len() - kept }
        };
        let left_out = points.iter().zip(&groups).map(left_out).collect();
        let events = run.events()?.found;
        let places = layout.points().iter().map(|point| &point.place);
        let kept = places.map(|place| run.kept_stamps(place, &channels, &events)).collect::<Result<_>>()?;
        let (attributes, threads, collisions) = (attributes?, threads(channels, layout), run.collisions()?);
        Ok(Self { points, attributes, threads, groups, collisions, kept, kinds, left_out })
    }

    fn refused(self) -> Vec<Error> {
        self.points.into_iter().flat_map(PointStamps::into_refused).collect()
    }
}

impl StampSource for RunStamps {
    type Error = Error;

    fn extents(&mut self, point: usize) -> Result<Vec<Extent>> {
        let whole = self.long_spans(point)?.are_whole();
        let all = self.groups[point].iter().filter(|group| group.stamps > 0);
        let extent = |group: &Group| {
            let last = if whole { group.last } else { group.last_of_short };
            Extent { first: group.first, last, stamps: group.stamps }
        };
        Ok(all.map(extent).collect())
    }

    fn long_spans(&mut self, point: usize) -> Result<LongSpans> {
        let add = |all: LongSpans, group: &Group| LongSpans {
            stamps: all.stamps + group.long.stamps,
            ids: all.ids.saturating_add(group.long.ids),
        };
        Ok(self.groups[point].iter().fold(LongSpans::default(), add))
    }

    fn kept_stamps(&mut self, point: usize) -> Result<KeptStamps> {
        Ok(self.kept[point])
    }

    fn ambiguous_ids(&mut self) -> Result<Vec<i64>> {
        Ok(self.collisions.iter().map(|collision| collision.id).collect())
    }

    fn attributes(&mut self, point: usize) -> Result<Vec<Attribute>> {
        Ok(self.attributes[point].clone())
    }

    fn read(
        &mut self,
        point: usize,
        ids: RangeInclusive<i64>,
        columns: Columns,
        sink: &mut dyn FnMut(Batch<'_>),
    ) -> Result<()> {
        let stamps = &self.points[point];
        let stamps_of = |group: &Group| &stamps.segments()[group.segment];
        let touched = |group: &&Group| group.first <= *ids.end() && *ids.start() <= group.last;
        let touched: Vec<&Group> = self.groups[point].iter().filter(touched).collect();
        let read = |at: usize| Keys::read(stamps_of(touched[at]), touched[at].group, &self.kinds);
        let mut put = |at: usize, keys: Result<Keys>| {
            let &Group { segment, group, .. } = touched[at];
            let segment = &stamps.segments()[segment];
            let Keys { ids, ticks, lasts, kinds, kept } = keys?;
            let unequal = |e: tickscope_trace::Error| Error::corrupt(segment.path(), "equal columns", e.to_string());
            let mut batch = Batch::new(&ids, &ticks, kinds.as_deref()).map_err(unequal)?;
            if let Some(lasts) = &lasts {
                batch = batch.with_lasts(lasts).map_err(unequal)?;
            }
            if columns == Columns::KeysAndParents {
                let parents = kept.column(segment.read_parents(group)?);
                sink(batch.with_parents(&parents).map_err(unequal)?);
                return Ok(());
            }
            let optional = self.attributes[point].iter().filter(|attribute| **attribute != Attribute::Channel);
            let read = |&attribute: &Attribute| Ok((attribute, kept.column(segment.read_attribute(group, attribute)?)));
            let attributes: Vec<(Attribute, Vec<Option<i64>>)> = optional.map(read).collect::<Result<_>>()?;
            for (attribute, values) in &attributes {
                batch = batch.with_attribute(*attribute, values).map_err(unequal)?;
            }
            let told = self.attributes[point].contains(&Attribute::Channel);
            let attempts =
                if columns == Columns::Keys { None } else { Some(kept.column(segment.read_attempts(group)?)) };
            if let Some(attempts) = &attempts {
                batch = batch.with_attempts(attempts).map_err(unequal)?;
            }
            let with_threads = columns == Columns::KeysAndThreads;
            let channels = if told || with_threads { kept.column(segment.read_channels(group)?) } else { Vec::new() };
            if told {
                batch = batch.with_channels(&channels).map_err(unequal)?;
            }
            if !with_threads {
                sink(batch);
                return Ok(());
            }
            let threads: Vec<_> = channels.iter().map(|channel| self.threads[point].get(channel).copied()).collect();
            sink(batch.with_threads(&threads).map_err(unequal)?);
            Ok(())
        };
        if touched.iter().map(|group| group.stamps).sum::<u64>() < STAMPS_ALONE {
            return (0..touched.len()).try_for_each(|at| put(at, read(at)));
        }
        in_order(touched.len(), Encoding::on_all_processors().encoders, GROUPS_AHEAD, read, put)
    }
}

/// The attributes that some stamp of a point has; the channel only where it tells stamps apart.
fn attributes_of(place: &Place, stamps: &PointStamps, channels: &[Channel]) -> Result<Vec<Attribute>> {
    let mut found = Vec::new();
    for attribute in Attribute::ALL {
        if attribute == Attribute::Channel && stamped_by(place, stamps, channels).len() < 2 {
            continue;
        }
        for segment in stamps.segments() {
            if segment.has_attribute(attribute)? {
                found.push(attribute);
                break;
            }
        }
    }
    Ok(found)
}

/// By point of the layout, then by channel: the thread that stamped there, numbered over the run. Logs name none.
fn threads(channels: Vec<Channel>, layout: &Layout) -> Vec<HashMap<i32, u32>> {
    let mut numbers = HashMap::new();
    let mut threads = vec![HashMap::new(); layout.points().len()];
    for channel in channels.into_iter().filter(|channel| channel.thread != 0) {
        let next = numbers.len() as u32;
        let thread = (channel.node.clone(), channel.pool, channel.pid, channel.process_start, channel.thread);
        let number = *numbers.entry(thread).or_insert(next);
        let here = |point: &tickscope_trace::Point| {
            point.place.node == channel.node.as_str() && point.place.point == channel.point.as_str()
        };
        if let Some(point) = layout.points().iter().position(here) {
            threads[point].insert(channel.channel, number);
        }
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::write_channels;
    use crate::sample::manifest;
    use crate::scratch::Scratch;
    use crate::{BlockRange, ChannelCount, Nullable, Origin, StampColumns, next_segment, write_segment};

    fn put(run: &Run, node: &str, point: &str, stamps: &[(i64, i64)]) {
        put_with(run, node, point, stamps, Nullable::nulls(stamps.len()));
    }

    fn put_with(run: &Run, node: &str, point: &str, stamps: &[(i64, i64)], value: Nullable<i64>) {
        let rows = stamps.len();
        let (id, tick) = stamps.iter().copied().unzip();
        let columns = StampColumns { value, ..StampColumns::slim(tick, id, vec![1; rows]) };
        let blocks = vec![BlockRange { pool: 1, serial: 0, first: 0, last: 0 }];
        let place = next_segment(&run.paths().stamps(&format!("{node}.{point}").parse().unwrap())).unwrap();
        write_segment(&place, &columns, &Origin { blocks, ..Origin::default() }).unwrap();
    }

    #[test]
    fn stamps_of_several_segments_become_one_trace_an_id() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        put(&run, "client", "send", &[(2, 20), (1, 10)]);
        put(&run, "client", "send", &[(3, 30)]);
        put(&run, "server", "receive", &[(1, 1_011), (3, 1_031)]);
        put(&run, "server", "deliver", &[(1, 1_012), (2, 1_022), (3, 1_032)]);
        let joined = join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap();
        assert_eq!((joined.counts.ids, joined.counts.complete, joined.refused.len()), (3, 2, 0));
        let traces = &run.traces().unwrap().found[0];
        assert_eq!(traces.names(), ["client.send", "server.receive", "server.deliver", "client.sent"]);
        let rows = traces.read_all().unwrap();
        assert_eq!(rows.id, [1, 2, 3]);
        assert_eq!(rows.columns[0], [Some(10), Some(20), Some(30)].into_iter().collect());
        assert_eq!(rows.columns[1], [Some(1_011), None, Some(1_031)].into_iter().collect());
        assert!(rows.columns[3].is_all_null());
        assert!(traces.key("tickscope.layout").unwrap().contains("client.send > client.sent"));
    }

    /// Kind (none is 0), id, tick and value.
    type OfAKind = (Option<i32>, i64, i64, Option<i64>);

    /// Traces of these stamps, a segment for each three, by the sample's layout of these kinds; and what it leaves out.
    fn of_kinds(points: [&[OfAKind]; 2], kinds: &[i32]) -> (Vec<String>, Vec<u64>, Vec<u64>) {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        for (place, stamps) in ["client.send", "server.receive"].into_iter().zip(points) {
            for stamps in stamps.chunks(3) {
                let (id, tick) = stamps.iter().map(|stamp| (stamp.1, stamp.2)).unzip();
                let columns = StampColumns {
                    kind: stamps.iter().map(|stamp| stamp.0).collect(),
                    value: stamps.iter().map(|stamp| stamp.3).collect(),
                    ..StampColumns::slim(tick, id, vec![1; stamps.len()])
                };
                let place = next_segment(&run.paths().stamps(&place.parse().unwrap())).unwrap();
                write_segment(&place, &columns, &Origin::default()).unwrap();
            }
        }
        let layout = LayoutText { kinds: kinds.to_vec(), ..manifest().layout };
        let joined = join_run(&run, &layout, 1 << 20, &|_, _| true).unwrap();
        let findings = joined.findings(&layout.parse(None).unwrap());
        let told = findings.into_iter().filter(|finding| finding.what == EventKind::KindsLeftOut);
        let traces = &run.traces().unwrap().found[0];
        let rows = traces.read_all().unwrap();
        let value = |row| traces.read_attribute(0, "server.receive", Attribute::Value).unwrap().get(row);
        let of = |row: usize| format!("{} {} {:?}", rows.kind[row], rows.id[row], rows.columns[1].get(row));
        let rows = (0..rows.id.len()).map(|row| format!("{} {:?}", of(row), value(row)));
        (rows.collect(), joined.left_out, told.map(|finding| finding.value as u64).collect())
    }

    #[test]
    fn a_layout_of_some_kinds_joins_what_a_run_of_these_alone_would_and_counts_the_rest() {
        let sent: [OfAKind; 7] = [
            (None, 1, 10, None),
            (Some(1), 1, 11, None),
            (Some(0), 2, 12, None),
            (Some(2), 3, 13, None),
            (Some(1), i64::MAX, 14, None),
            (Some(1), 4, 15, None),
            (Some(0), 4, 16, None),
        ];
        let received: [OfAKind; 4] = [
            (Some(1), 4, 1_015, Some(-1)),
            (Some(0), 2, 1_012, Some(7)),
            (Some(1), 1, 1_011, None),
            (None, 4, 1_016, Some(8)),
        ];
        for (kinds, left_out) in [(&[0][..], [4, 2]), (&[1], [4, 2]), (&[2], [6, 4]), (&[1, 0], [1, 0]), (&[9], [7, 4])]
        {
            let of = |stamps: &[OfAKind]| -> Vec<OfAKind> {
                stamps.iter().filter(|stamp| kinds.contains(&stamp.0.unwrap_or(0))).copied().collect()
            };
            let (traces, counted, told) = of_kinds([&sent, &received], kinds);
            assert_eq!(traces, of_kinds([&of(&sent), &of(&received)], &[]).0, "{kinds:?}");
            assert_eq!(counted, [left_out[0], left_out[1], 0, 0], "{kinds:?}");
            assert_eq!(told, left_out.into_iter().filter(|stamps| *stamps > 0).collect::<Vec<_>>());
        }
        assert_eq!(of_kinds([&sent, &received], &[]).1, [0; 4]);
    }

    #[test]
    fn ids_that_a_point_keeps_are_missing_where_it_lacks_them_and_those_that_its_rule_leaves_out_are_not() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let stamps = |ids: &[i64]| ids.iter().map(|&id| (id, 10 + id)).collect::<Vec<_>>();
        put(&run, "client", "send", &stamps(&[0, 1, 4, 5]));
        put(&run, "server", "receive", &stamps(&[0, 1, 5]));
        put(&run, "server", "deliver", &stamps(&[0, 1, 2, 3, 5, 6, 7]));
        let under = crate::kept_ids::tests::under;
        let channels = ["client.send", "server.receive"].map(|place| under(place, "2 of 4"));
        write_channels(&run.paths().channels("server"), &channels).unwrap();
        let joined = join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap();
        assert_eq!(joined.counts.points.iter().map(|counts| counts.missing).collect::<Vec<_>>(), [4, 5, 1, 8]);
        assert_eq!(joined.missing, [0, 1, 1, 8]);
        let channels = [under("client.send", "2 of 4"), under("server.receive", "every 2")];
        write_channels(&run.paths().channels("server"), &channels).unwrap();
        assert_eq!(join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap().missing, [0, 0, 1, 8]);
    }

    #[test]
    fn the_value_of_a_stamp_stays_with_its_tick_and_points_without_one_have_no_column() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        put(&run, "client", "send", &[(1, 10), (2, 20)]);
        put_with(&run, "server", "receive", &[(2, 21), (1, 11)], [Some(7), None].into_iter().collect());
        join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap();
        let traces = &run.traces().unwrap().found[0];
        assert_eq!(traces.names(), ["client.send", "server.receive", "server.deliver", "client.sent"]);
        let read = |place, attribute| traces.read_attribute(0, place, attribute).unwrap();
        assert_eq!(read("server.receive", Attribute::Value), [None, Some(7)].into_iter().collect());
        assert!(
            read("server.receive", Attribute::Cpu).is_all_null() && read("client.send", Attribute::Value).is_all_null()
        );
    }

    #[test]
    fn the_channel_of_a_stamp_stays_with_its_tick_where_a_point_has_several_and_costs_no_column_elsewhere() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let (one, other) = ([(1, 11), (3, 31)], [(5, 51), (4, 41)]);
        let all = [("client.send", 1, [(1, 10), (2, 20)]), ("server.receive", 4, one), ("server.receive", 7, other)];
        for (place, channel, stamps) in all {
            let (id, tick) = stamps.into_iter().unzip();
            let counts = vec![ChannelCount { channel, stored: 2, ..ChannelCount::default() }];
            let place = next_segment(&run.paths().stamps(&place.parse().unwrap())).unwrap();
            let columns = StampColumns::slim(tick, id, vec![channel; 2]);
            write_segment(&place, &columns, &Origin { counts, ..Origin::default() }).unwrap();
        }
        join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap();
        let traces = &run.traces().unwrap().found[0];
        let has = |place| traces.has_attribute(place, Attribute::Channel);
        assert!(has("server.receive") && !has("client.send") && !has("server.deliver"));
        let read = traces.read_attribute(0, "server.receive", Attribute::Channel).unwrap();
        assert_eq!(traces.read_all().unwrap().id, [1, 2, 3, 4, 5]);
        assert_eq!(read, [Some(4), None, Some(4), Some(7), Some(7)].into_iter().collect());
    }

    #[test]
    fn a_stamp_of_many_ids_is_a_stamp_of_each_whatever_segment_the_others_lie_in() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let long = 1 << 29;
        for (stamps, ids) in [(vec![(1, 10)], [Some(3)]), (vec![(5, 20)], [Some(long)]), (vec![(9, 30)], [None])] {
            let (id, tick): (Vec<i64>, Vec<i64>) = stamps.into_iter().unzip();
            let columns = StampColumns { ids: ids.into_iter().collect(), ..StampColumns::slim(tick, id, vec![1]) };
            let place = next_segment(&run.paths().stamps(&"client.send".parse().unwrap())).unwrap();
            write_segment(&place, &columns, &Origin::default()).unwrap();
        }
        put(&run, "server", "receive", &[(2, 1_011), (3, 1_012), (4, 1_013), (1 << 20, 1_014)]);
        let joined = join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap();
        let rows = run.traces().unwrap().found[0].read_all().unwrap();
        assert_eq!(rows.id, [1, 2, 3, 4, 5, 9, 1 << 20]);
        let sent = [Some(10), Some(10), Some(10), None, Some(20), Some(30), Some(20)];
        assert_eq!(rows.columns[0], sent.into_iter().collect());
        // The id 9 has a stamp of its own there, so the long one adds nothing to it.
        assert_eq!(joined.counts.points[0].unexpanded, long as u64 - 2);
        assert!(run.stamps(&"client.send".parse().unwrap()).unwrap().has_spans().unwrap());
    }

    #[test]
    fn attempts_are_read_of_every_id_where_a_policy_leaves_stamps_out() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        for (place, attempts, tick) in [("client.send", [0, 0, 1], 10), ("server.receive", [1, 0, 1], 1_010)] {
            let attempt = attempts.into_iter().map(Some).collect();
            let columns = StampColumns { attempt, ..StampColumns::slim(vec![tick; 3], vec![1, 2, 3], vec![1; 3]) };
            let place = next_segment(&run.paths().stamps(&place.parse().unwrap())).unwrap();
            write_segment(&place, &columns, &Origin::default()).unwrap();
        }
        let told = |policy| {
            let channels = [crate::kept_ids::tests::under("client.send", policy)];
            write_channels(&run.paths().channels("client"), &channels).unwrap();
            let untold = join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap().counts.untold;
            let rows = run.traces().unwrap().found[0].read_all().unwrap();
            (untold, rows.passages.iter().map(|text| text.cloned()).collect::<Vec<_>>())
        };
        assert_eq!(told("every 2"), (1, vec![Some("n?..".into()), None, Some("na..".into())]));
        assert_eq!(told("2 of 4"), (0, vec![None; 3]));
    }

    #[test]
    fn ids_of_two_originals_get_no_durations() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        put(&run, "client", "send", &[(7, 10), (8, 20)]);
        put(&run, "server", "receive", &[(7, 11), (8, 21)]);
        let kept = |word, tick| StampColumns {
            kind: [Some(0)].into_iter().collect(),
            attempt: [Some(5)].into_iter().collect(),
            value: [Some(word)].into_iter().collect(),
            parent: [Some(0)].into_iter().collect(),
            ..StampColumns::slim(vec![tick], vec![7], vec![2])
        };
        for (word, tick) in [(0x0072_6564_726f, 1), (0x6568_746f, 2)] {
            let place = next_segment(&run.paths().stamps(&"client.id-original".parse().unwrap())).unwrap();
            write_segment(&place, &kept(word, tick), &Origin::default()).unwrap();
        }
        let joined = join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap();
        assert_eq!((joined.collisions.len(), joined.counts.ambiguous, joined.counts.untold), (1, 1, 1));
        let rows = run.traces().unwrap().found[0].read_all().unwrap();
        let passages: Vec<_> = rows.passages.iter().map(|text| text.cloned()).collect();
        assert_eq!((rows.id, passages), (vec![7, 8], vec![Some("**..".into()), None]));
    }

    #[test]
    fn a_torn_segment_is_named_beside_the_traces_of_the_others() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        put(&run, "client", "send", &[(1, 10)]);
        std::fs::write(next_segment(&run.paths().stamps(&"client.send".parse().unwrap())).unwrap(), "PAR1").unwrap();
        let joined = join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap();
        assert_eq!((joined.counts.ids, joined.refused.len()), (1, 1));
    }
}

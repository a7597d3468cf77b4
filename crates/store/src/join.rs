//! The join over a run's files: segments in, `traces/` out.
//!
//! Row groups whose ids are elsewhere are not read. The traces carry raw ticks and the layout they were joined by; no
//! rho is in them, so they are made once.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use tickscope_tick::Place;
use tickscope_trace::{
    Attribute, Columns, Extent, JoinCounts, Layout, LayoutText, Limits, Marks, MayPrecede, StampColumns as Batch,
    StampSource, Traces, join,
};

use crate::channels::{Channel, stamped_by};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::stamps::PointStamps;
use crate::traces::{KeyedRows, KeyedWriter, attribute_column, layout_key, stamps_key};

/// Counts of the join, and the segments it could not read.
#[derive(Debug)]
pub struct Joined {
    /// Counts at each point and in the whole.
    pub counts: JoinCounts,
    /// Stamps at the layout's points when it began.
    pub stamps: u64,
    /// Segments that were not read, and why: their stamps count as missing.
    pub refused: Vec<Error>,
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
    let mut writer = KeyedWriter::begin_traces(&place, &names, &[layout_key(layout), stamps_key(stamps)])?;
    let limits = Limits::within(bytes, names.len());
    let counts = join(&parsed, &mut source, limits, may_precede, &mut |traces| writer.write(rows(traces)))?;
    writer.finish()?;
    Ok(Joined { counts, stamps, refused: source.refused() })
}

/// The stamps of each point of a layout.
struct RunStamps {
    points: Vec<PointStamps>,
    /// By point: what its stamps have.
    attributes: Vec<Vec<Attribute>>,
    /// By point, then by channel: a number for each thread of the run.
    threads: Vec<HashMap<i32, u32>>,
}

impl RunStamps {
    fn open(run: &Run, layout: &Layout) -> Result<Self> {
        let points: Result<Vec<PointStamps>> = layout.points().iter().map(|point| run.stamps(&point.place)).collect();
        let points = points?;
        let channels = run.channels()?.found;
        let places = layout.points().iter().map(|point| &point.place);
        let attributes: Result<_> =
            places.zip(&points).map(|(place, stamps)| attributes_of(place, stamps, &channels)).collect();
        Ok(Self { points, attributes: attributes?, threads: threads(channels, layout) })
    }

    fn refused(self) -> Vec<Error> {
        self.points.into_iter().flat_map(PointStamps::into_refused).collect()
    }
}

impl StampSource for RunStamps {
    type Error = Error;

    fn extents(&mut self, point: usize) -> Result<Vec<Extent>> {
        let all = self.points[point].segments().iter().flat_map(|segment| segment.extents());
        Ok(all.filter(|&(.., stamps)| stamps > 0).map(|(first, last, stamps)| Extent { first, last, stamps }).collect())
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
        for (segment, group) in stamps.groups_with(ids) {
            let segment = &stamps.segments()[segment];
            let (ids, ticks, kinds) = segment.read_keys(group)?;
            let kinds: Option<Vec<i32>> =
                (!kinds.is_all_null()).then(|| kinds.iter().map(|kind| kind.copied().unwrap_or(0)).collect());
            let unequal = |e: tickscope_trace::Error| Error::corrupt(segment.path(), "equal columns", e.to_string());
            let mut batch = Batch::new(&ids, &ticks, kinds.as_deref()).map_err(unequal)?;
            let optional = self.attributes[point].iter().filter(|attribute| **attribute != Attribute::Channel);
            let read = |&attribute: &Attribute| Ok((attribute, segment.read_attribute(group, attribute)?));
            let attributes: Vec<(Attribute, Vec<Option<i64>>)> = optional.map(read).collect::<Result<_>>()?;
            for (attribute, values) in &attributes {
                batch = batch.with_attribute(*attribute, values).map_err(unequal)?;
            }
            let told = self.attributes[point].contains(&Attribute::Channel);
            let with_threads = columns == Columns::KeysAndThreads;
            let channels = if told || with_threads { segment.read_channels(group)? } else { Vec::new() };
            if told {
                batch = batch.with_channels(&channels).map_err(unequal)?;
            }
            if !with_threads {
                sink(batch);
                continue;
            }
            let threads: Vec<_> = channels.iter().map(|channel| self.threads[point].get(channel).copied()).collect();
            sink(batch.with_threads(&threads).map_err(unequal)?);
        }
        Ok(())
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

fn rows(traces: &Traces) -> KeyedRows {
    KeyedRows {
        passages: (0..traces.len()).map(|row| traces.marks(row).map(Marks::text)).collect(),
        kind: traces.kinds().to_vec(),
        id: traces.ids().to_vec(),
        occurrence: traces.occurrences().to_vec(),
        columns: traces.points().iter().chain(traces.attributes().map(|(.., column)| column)).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let counts = vec![ChannelCount { channel, stored: 2, uncommitted: 0 }];
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
    fn a_torn_segment_is_named_beside_the_traces_of_the_others() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        put(&run, "client", "send", &[(1, 10)]);
        std::fs::write(next_segment(&run.paths().stamps(&"client.send".parse().unwrap())).unwrap(), "PAR1").unwrap();
        let joined = join_run(&run, &manifest().layout, 1 << 20, &|_, _| true).unwrap();
        assert_eq!((joined.counts.ids, joined.refused.len()), (1, 1));
    }
}

//! The packets of a trace as Perfetto reads them (`protos/perfetto/trace`, "TracePacket"): tracks, names, events.

use tickscope_trace::TraceKey;

use crate::message::Message;
use crate::tracks::{Shape, Track, Tracks};

/// Annotations of an event, each by its place here, from 1.
const NAMES: [&str; 11] = [
    "id",
    "kind",
    "occurrence",
    "estimate_ns",
    "lo_ns",
    "hi_ns",
    "common_below_ns",
    "common_above_ns",
    "relative_ns",
    "from_tick",
    "to_tick",
];
/// The only writer of the trace.
const SEQUENCE: u64 = 1;

mod packet {
    pub const OF_TRACE: u32 = 1;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const EVENT: u32 = 11;
    pub const INTERNED: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TRACK: u32 = 60;
    /// Names are given anew.
    pub const NAMES_BEGIN: u64 = 1;
    /// Names given before are meant.
    pub const NAMES_NEEDED: u64 = 2;
}

mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const PARENT: u32 = 5;
    pub const CHILD_ORDER: u32 = 11;
    pub const RANK: u32 = 12;
    pub const MERGED: u32 = 15;
    pub const BY_RANK: u64 = 3;
    pub const NEVER_MERGED: u64 = 2;
    pub const PROCESS_ID: u32 = 1;
    pub const PROCESS_NAME: u32 = 6;
}

mod event {
    pub const ANNOTATION: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const FLOW: u32 = 47;
    pub const FLOW_ENDS: u32 = 48;
    pub const BEGINS: u64 = 1;
    pub const ENDS: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const ANNOTATION_NAME: u32 = 1;
    pub const ANNOTATION_SIGNED: u32 = 4;
}

mod interned {
    pub const EVENT_NAMES: u32 = 2;
    pub const ANNOTATION_NAMES: u32 = 3;
    pub const NUMBER: u32 = 1;
    pub const NAME: u32 = 2;
}

/// Bounds of a stage that hold for all its traces, in nanoseconds, rounded up.
#[derive(Clone, Copy, Default)]
pub(crate) struct StageBounds {
    pub common_below_ns: i64,
    pub common_above_ns: i64,
    pub relative_ns: i64,
}

/// What is said of one event.
pub(crate) struct Event<'a> {
    pub shape: &'a Shape,
    /// Index of its track, and its lane there.
    pub place: (usize, u32),
    pub is_arrival: bool,
    pub trace: TraceKey,
    /// Estimate, lower and upper end in nanoseconds.
    pub duration_ns: [i64; 3],
    pub bounds: StageBounds,
    /// Arrows that begin and that end here.
    pub flows: (&'a [u64], &'a [u64]),
    /// Subtracted from its times.
    pub origin_ns: i64,
}

/// The packets ahead of all events; `lanes`: how many each track has.
pub(crate) fn head(tracks: &Tracks, lanes: &[u32]) -> Vec<u8> {
    let mut all = Message::default();
    for (node, name) in tracks.nodes.iter().enumerate() {
        all.within(packet::OF_TRACE, |packet| {
            packet.within(packet::TRACK, |track| {
                track.number(track::UUID, node_uuid(node));
                track.within(track::PROCESS, |process| {
                    process.number(track::PROCESS_ID, node as u64 + 1);
                    process.text(track::PROCESS_NAME, name);
                });
                track.number(track::CHILD_ORDER, track::BY_RANK);
            });
        });
    }
    let mut rank = 0;
    for (index, (of, &lanes)) in tracks.all.iter().zip(lanes).enumerate() {
        for lane in 0..lanes {
            rank += 1;
            lane_track(&mut all, of, (index, lane), rank);
        }
    }
    names(&mut all, tracks);
    all.0
}

fn lane_track(all: &mut Message, of: &Track, place: (usize, u32), rank: u64) {
    all.within(packet::OF_TRACE, |packet| {
        packet.within(packet::TRACK, |track| {
            track.number(track::UUID, lane_uuid(place));
            track.number(track::PARENT, node_uuid(of.node));
            match place.1 {
                0 => track.text(track::NAME, &of.name),
                more => track.text(track::NAME, &format!("{} ({})", of.name, more + 1)),
            }
            track.number(track::RANK, rank);
            track.number(track::MERGED, track::NEVER_MERGED);
        });
    });
}

/// The names of events, two a track, and those of annotations.
fn names(all: &mut Message, tracks: &Tracks) {
    let entry = |message: &mut Message, field: u32, number: u64, name: &str| {
        message.within(field, |entry| {
            entry.number(interned::NUMBER, number);
            entry.text(interned::NAME, name);
        });
    };
    all.within(packet::OF_TRACE, |packet| {
        packet.number(packet::SEQUENCE_ID, SEQUENCE);
        packet.number(packet::SEQUENCE_FLAGS, packet::NAMES_BEGIN);
        packet.within(packet::INTERNED, |inner| {
            for (index, of) in tracks.all.iter().enumerate() {
                entry(inner, interned::EVENT_NAMES, name_number(index, false), &of.name);
                entry(inner, interned::EVENT_NAMES, name_number(index, true), &format!("{} (negative)", of.name));
            }
            for (number, name) in (1..).zip(NAMES) {
                entry(inner, interned::ANNOTATION_NAMES, number, name);
            }
        });
    });
}

/// The packets of one event.
pub(crate) fn event(all: &mut Message, event: &Event<'_>) {
    let Event { shape, is_arrival, .. } = event;
    if shape.is_negative || *is_arrival {
        return packet(all, event, shape.begin_ns, event::INSTANT);
    }
    packet(all, event, shape.begin_ns, event::BEGINS);
    packet(all, event, shape.end_ns, event::ENDS);
}

fn packet(all: &mut Message, of: &Event<'_>, at_ns: i64, form: u64) {
    all.within(packet::OF_TRACE, |packet| {
        packet.number(packet::TIMESTAMP, at_ns.abs_diff(of.origin_ns));
        packet.number(packet::SEQUENCE_ID, SEQUENCE);
        packet.number(packet::SEQUENCE_FLAGS, packet::NAMES_NEEDED);
        packet.within(packet::EVENT, |event| {
            event.number(event::TYPE, form);
            event.number(event::TRACK, lane_uuid(of.place));
            if form != event::ENDS {
                said(event, of);
            }
        });
    });
}

/// Everything but when and where.
fn said(event: &mut Message, of: &Event<'_>) {
    event.number(event::NAME, name_number(of.place.0, of.shape.is_negative));
    of.flows.0.iter().for_each(|&flow| event.fixed(event::FLOW, flow));
    of.flows.1.iter().for_each(|&flow| event.fixed(event::FLOW_ENDS, flow));
    let TraceKey { kind, id, occurrence } = of.trace;
    let [estimate, lo, hi] = of.duration_ns;
    let StageBounds { common_below_ns, common_above_ns, relative_ns } = of.bounds;
    let [from, to] = of.shape.ticks;
    let rest = [estimate, lo, hi, common_below_ns, common_above_ns, relative_ns, from, to];
    let values = [id, kind.into(), occurrence.into()].into_iter().chain(rest);
    for (number, value) in (1..).zip(values) {
        let is_plain = matches!(number, 2 | 3) && value == 0; // most runs have one kind and no repetition
        let is_of_stage = of.is_arrival && (4..=9).contains(&number);
        if !(is_plain || is_of_stage) {
            event.within(event::ANNOTATION, |annotation| {
                annotation.number(event::ANNOTATION_NAME, number);
                annotation.signed(event::ANNOTATION_SIGNED, value);
            });
        }
    }
}

fn node_uuid(node: usize) -> u64 {
    node as u64 + 1
}

/// Above those of the nodes, of which there are fewer.
fn lane_uuid((track, lane): (usize, u32)) -> u64 {
    (track as u64 + 1) << 32 | u64::from(lane)
}

fn name_number(track: usize, is_negative: bool) -> u64 {
    2 * track as u64 + u64::from(is_negative) + 1
}

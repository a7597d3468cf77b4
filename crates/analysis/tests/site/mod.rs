//! Runs made of known stamps, in directories of their own.
#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../store/tests/sample/mod.rs"]
mod sample;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tickscope_store::{
    Channel, ChannelState, Event, EventKind, Evidence, LayoutText, Manifest, Origin, Run, StampColumns, next_segment,
    write_channels, write_events, write_segment,
};
use tickscope_tick::BootId;

/// A directory for one run; gone at the end.
pub struct Site(PathBuf);

impl Site {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tickscope-analysis-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// An empty run of a client and a server that are strangers, with messages as the only evidence.
    pub fn run(&self, path: &[&str], messages: &[&str]) -> Run {
        let text = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let manifest = Manifest {
            evidence: Evidence {
                probes: false,
                kernel_probes: false,
                messages: text(messages),
                common_host: Vec::new(),
            },
            layout: LayoutText { path: text(path), ..LayoutText::default() },
            points: Vec::new(),
            ..sample::manifest()
        };
        Run::create(&self.0, manifest).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Stamps `(id, reading)` of one point, as a segment and a channel of the run.
pub struct Stamped<'a> {
    pub node: &'a str,
    pub point: &'a str,
    pub ordering: &'a str,
    /// Which clock was read.
    pub clock: &'a str,
    pub stamps: &'a [(i64, i64)],
    /// Readings of those that were lost, in order.
    pub lost: &'a [i64],
}

/// Writes all stamps of a node.
pub fn write(run: &Run, points: &[Stamped<'_>]) {
    let mut channels: Vec<Channel> = Vec::new();
    for (number, of) in points.iter().enumerate() {
        let number = number as i32;
        let rows = of.stamps.len();
        let (id, tick) = of.stamps.iter().copied().unzip();
        let columns = StampColumns::slim(tick, id, vec![number; rows]);
        let place = next_segment(&run.paths().stamps(&format!("{}.{}", of.node, of.point).parse().unwrap())).unwrap();
        write_segment(&place, &columns, &Origin::default()).unwrap();
        channels.push(Channel {
            channel: number,
            node: of.node.parse().unwrap(),
            pid: 1,
            process_start: 0,
            pool: 1,
            serial: number as u32,
            thread: 1,
            point: of.point.parse().unwrap(),
            ordering: of.ordering.into(),
            domain: format!("{}/{}/0", boot(run, of.node), of.clock),
            policy: "buffered".into(),
            parameter: None,
            stored: rows as i64,
            dropped: of.lost.len() as i64,
            refused: 0,
            uncommitted: 0,
            state: ChannelState::Closed,
            removed: None,
            seen: None,
            counted: None,
            overwritten: None,
            kept: None,
        });
    }
    let told = points.iter().zip(0..).filter_map(|(of, channel)| lost(of, channel));
    write_events(&run.paths().events().join("lost.parquet"), &told.collect::<Vec<_>>()).unwrap();
    for node in run.manifest().nodes.iter().map(|node| node.name.as_str()) {
        let of_node: Vec<_> = channels.iter().filter(|channel| channel.node == node).cloned().collect();
        write_channels(&run.paths().channels(node), &of_node).unwrap();
    }
}

fn boot(run: &Run, node: &str) -> BootId {
    run.manifest().nodes.iter().find(|known| known.name.as_str() == node).unwrap().boot
}

/// What the collector tells of lost stamps.
fn lost(of: &Stamped<'_>, channel: i32) -> Option<Event> {
    Some(Event {
        node: of.node.into(),
        channel: Some(channel),
        tick: Some(*of.lost.first()?),
        until: of.lost.last().copied(),
        what: EventKind::Lost,
        value: Some(of.lost.len() as i64),
        ..Event::default()
    })
}

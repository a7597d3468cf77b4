//! A manifest of two nodes, for tests.

use tickscope_store::{
    Assumption, CounterFacts, DeclaredFrequency, LayoutText, Manifest, Node, Point, PolicyRule, ReadingWidth,
    RhoDeclaration, SCHEMA, SameBoot, Sharing,
};
use tickscope_tick::{BootId, Clock, NodeName, Ordering, PointName};

pub fn manifest() -> Manifest {
    Manifest {
        schema: SCHEMA,
        run: 0x00c0_ffee_0000_0001,
        tickscope: "0.1.0".into(),
        started_unix_ms: 1_700_000_000_000,
        stamp_directories: std::collections::BTreeMap::new(),
        sessions: std::collections::BTreeMap::new(),
        run_file: None,
        run_file_directory: None,
        revision: None,
        ended_unix_ms: Some(1_700_000_010_000),
        nodes: vec![node("client", 1), node("server", 2)],
        reference: "client.tsc".parse().unwrap(),
        rho: vec![RhoDeclaration {
            reference: "client.tsc".parse().unwrap(),
            domain: "server.tsc".parse().unwrap(),
            ppb: 50_000,
            origin: "preset unknown".into(),
            kind: None,
        }],
        evidence: Default::default(),
        same_boot: SameBoot::Detect,
        points: vec![
            point("client", "send", Ordering::Before),
            point("client", "sent", Ordering::Plain),
            point("server", "receive", Ordering::After),
            point("server", "deliver", Ordering::Plain),
        ],
        policies: vec![PolicyRule { channels: "*".into(), policy: "buffered".into() }],
        dumps: Vec::new(),
        limits: Vec::new(),
        layout: LayoutText {
            path: ["client.send", "server.receive", "server.deliver"].map(String::from).to_vec(),
            branches: vec!["client.send > client.sent".into()],
            rules: vec![("server.receive".into(), "first".into())],
            ..LayoutText::default()
        },
        assumptions: vec![Assumption {
            statement: "client.tsc and server.tsc: rates differ by at most 50 ppm from their ratio".into(),
            origin: "preset unknown".into(),
            kind: None,
        }],
        seconds: None,
        began: None,
        keep_ms: None,
        storage: None,
        segments: Default::default(),
        cost: None,
    }
}

fn node(name: &str, boot: u8) -> Node {
    Node {
        name: NodeName::new(name).unwrap(),
        boot: BootId([boot; 16]),
        host: None,
        cpu_model: "a processor at 2.5 GHz".into(),
        kernel: "6.1.0".into(),
        counter: CounterFacts {
            counter: Clock::Tsc,
            invariant: true,
            clocksource: "tsc".into(),
            hypervisor: Some("kvm".into()),
            hypervisor_clocks: Vec::new(),
            trapped: false,
            fence_serialises: None,
            frequency: DeclaredFrequency { hertz: 2_500_000_000, tolerance_ppm: 100, origin: "kernel".into() },
            sharing: Sharing { bound_ticks: Some(270), checked: "ping-pong over all pairs of cores".into() },
            reading: Some(ReadingWidth { width_ticks: 1, seen: "steps of single ticks".into() }),
        },
        command: vec!["echo".into(), name.into()],
        injected: None,
        clocks: Default::default(),
    }
}

fn point(node: &str, name: &str, ordering: Ordering) -> Point {
    Point {
        node: NodeName::new(node).unwrap(),
        name: PointName::new(name).unwrap(),
        ordering,
        counter: None,
        resolution_ticks: None,
    }
}

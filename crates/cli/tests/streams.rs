//! The span of a stream that several programs send to several others, told by pills, held against their own account.

mod site;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use site::{Ended, Site, few_or_all, free_port, own_address, tickscope};
use tickscope_stamp::{Channel, Fields, Ordering};
use tickscope_tick::Injection;

/// Set for the processes that this test program is started as again.
const PROGRAM: &str = "TICKSCOPE_STREAMS_PROGRAM";
const SOURCES: [&str; 3] = ["a", "b", "c"];
const SINKS: [&str; 2] = ["d", "e"];
const PORT: u16 = 7400;
const PILL: i64 = -1;

/// A source or a sink of the stream: it stamps by ticks that it read itself, and writes down the true ones.
#[test]
fn a_program_of_the_test_below() {
    let Ok(words) = std::env::var(PROGRAM) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let (account, told) = match words[..] {
        ["source", account, first, count, ref sinks @ ..] => {
            (account, source(first.parse().unwrap(), count.parse().unwrap(), sinks))
        }
        ["sink", account, address] => (account, sink(address)),
        _ => panic!("{words:?}"),
    };
    fs::write(account, told.to_string()).unwrap();
}

/// Stamps at a point, as the node's counter reads; returns the true tick.
struct Point {
    channel: Channel,
    injection: Option<Injection>,
}

impl Point {
    fn open(name: &str, ordering: Ordering) -> Self {
        let channel = Channel::open(name, ordering, Fields::Slim).unwrap();
        Self { channel, injection: Injection::from_environment().unwrap() }
    }

    fn stamp(&self, id: i64, ordering: Ordering) -> i64 {
        let tick = tickscope_counter::read(ordering);
        self.channel.record(id, self.injection.map_or(tick, |map| map.apply(tick)));
        tick
    }
}

/// Sends ids to the sinks in turn, and the pill to each; returns when it sent the first.
fn source(first: i64, count: i64, sinks: &[&str]) -> i64 {
    let point = Point::open("in", Ordering::Before);
    let mut sinks: Vec<_> = sinks.iter().map(|sink| TcpStream::connect((*sink, PORT)).unwrap()).collect();
    let mut began = None;
    for id in first..first + count {
        began.get_or_insert(point.stamp(id, Ordering::Before));
        let at = id as usize % sinks.len();
        sinks[at].write_all(&id.to_le_bytes()).unwrap();
    }
    sinks.iter_mut().for_each(|sink| sink.write_all(&PILL.to_le_bytes()).unwrap());
    began.unwrap()
}

/// Receives until each source has sent the pill, of which it stamps the last; returns when that was.
fn sink(address: &str) -> i64 {
    let (listener, point) = (TcpListener::bind((address, PORT)).unwrap(), Point::open("out", Ordering::After));
    let point = &point;
    println!("listening");
    let mut sources: Vec<_> = SOURCES.iter().map(|_| listener.accept().unwrap().0).collect();
    let mut bytes = [0; 8];
    while !sources.is_empty() {
        sources.retain_mut(|source| {
            source.read_exact(&mut bytes).unwrap();
            let id = i64::from_le_bytes(bytes);
            if id != PILL {
                point.stamp(id, Ordering::After);
            }
            id != PILL
        });
    }
    point.stamp(PILL, Ordering::After)
}

/// Counters that begin elsewhere, and one that runs 400 ppm faster.
fn inject(node: &str) -> &str {
    match node {
        "b" | "d" => {
            "inject = { offset = 1000000000, drift_ppb = 400000, wander_ppb = 0, wander_period = 20000000000 }"
        }
        "c" | "e" => "inject = { offset = -70000000, drift_ppb = 0, wander_ppb = 0, wander_period = 20000000000 }",
        _ => "",
    }
}

#[test]
fn e2e_the_span_of_three_sources_and_two_sinks_by_pills_is_the_programs_own_within_its_interval() {
    for _ in 0..few_or_all(1, 10) {
        expect_span();
    }
}

fn expect_span() {
    let site = Site::new("streams");
    let own = std::env::current_exe().unwrap();
    let account = |node: &str| site.path(&format!("{node}.account"));
    let node = |node: &str, words: &str, ready: &str| {
        format!(
            "[[node]]\nname = \"{node}\"\nends_run = true\n{}\n{ready}\ncommand = [\"env\", \"{PROGRAM}={words}\", \
             \"{}\", \"--exact\", \"a_program_of_the_test_below\", \"--nocapture\"]\n",
            inject(node),
            own.display()
        )
    };
    let addresses = SINKS.map(|_| own_address());
    let sinks = SINKS.iter().zip(&addresses).map(|(sink, address)| {
        let words = format!("sink {} {address}", account(sink).display());
        node(sink, &words, "ready = \"listening\"")
    });
    // The last that the layout names begins.
    let sources = SOURCES.iter().enumerate().rev().map(|(number, source)| {
        let words = format!("source {} {} 20000 {}", account(source).display(), number << 32, addresses.join(" "));
        node(source, &words, "")
    });
    let edges: Vec<String> =
        SOURCES.iter().flat_map(|from| SINKS.map(|to| format!("\"{from}.in > {to}.out\""))).collect();
    let text = format!(
        "run = {{ name = \"streams\", seconds = 60, when_full = \"wait\" }}\nnetwork.kind = \"loopback\"\n[clock]\n\
         reference = \"a\"\nrho = \"1\"\nsame_boot = \"ignore\"\nprobe_port = {}\n[[policy]]\nchannels = \"*\"\n\
         policy = \"first-last {PILL}\"\n{}[layout]\nedges = [{}]\n",
        free_port(),
        sinks.chain(sources).collect::<String>(),
        edges.join(", ")
    );
    let ended = Ended::of(&mut site.run_command(&text));
    let told = ended.json(0);
    let stream = &told["stream"];
    let ticks = |node: &&str| fs::read_to_string(account(node)).unwrap().parse::<i64>().unwrap();
    let span = SINKS.iter().map(ticks).max().unwrap() - SOURCES.iter().map(ticks).min().unwrap();
    let [lo, hi] = ["lo_ticks", "hi_ticks"].map(|end| stream[end].as_i64().unwrap_or_else(|| panic!("{stream}")));
    println!("{span} ticks by its own account, told {lo} to {hi}");
    assert!(0 < lo && lo <= span && span <= hi, "{span} in {stream}");
    assert_eq!((&stream["sinks"], &stream["sinks_ended"]), (&2.into(), &2.into()), "{stream}");
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    assert!(shown.out.contains("2 of 2 sinks saw the marker"), "{shown:?}");
    let points = SOURCES.map(|node| format!("{node}.in")).into_iter().chain(SINKS.map(|node| format!("{node}.out")));
    for point in points {
        assert_eq!(site.opened().stamps(&point.parse().unwrap()).unwrap().len(), 2, "{point}");
    }
}

//! Tracy, with no server connected: plots, which are an event with a value, and zones. A program of its own, because
//! its client starts before `main`.
//!
//! As it comes it records from the start, into a queue that grows until a server takes it. Compiled on demand it
//! records nothing before a server has connected: that is what a point costs which is off.

#[path = "../recorder.rs"]
mod recorder;
#[path = "../../../../rounds.rs"]
mod rounds;

use recorder::{Failed, Recorder};
use rounds::{repeat, variant};
use tracy_client::{Client, plot_name, span_location};

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    recorder::run(&words, |_| Ok(tracy()))
}

fn tracy() -> Recorder {
    let plot = |id: u64| Client::start().plot(plot_name!("id"), id as f64);
    let zone = |id: u64| Client::start().span(span_location!("zone"), 0).emit_value(id);
    let [plots, zones] =
        if cfg!(feature = "tracy-on-demand") { ["off", "a zone that is off"] } else { ["event", "a zone with its id"] };
    let variants =
        vec![variant(plots, move |events| repeat(events, plot)), variant(zones, move |events| repeat(events, zone))];
    Recorder { variants, record: Box::new(plot), close: Box::new(|| None) }
}

//! `tracing`: events with one field, to a subscriber as small as one can be, and to JSON in a file.
//!
//! One global subscriber a process: a scoped one would take another, slower path.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use tickscope_counter as counter;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::recorder::{Failed, Recorder};
use crate::rounds::{repeat, variant};

/// Room for so many events; then it begins anew, as if somebody had taken them.
const ROOM: usize = 1 << 20;

thread_local! {
    static KEPT: RefCell<Vec<(i64, u64)>> = RefCell::new(Vec::with_capacity(ROOM));
}
static RECORDED: AtomicU64 = AtomicU64::new(0);

/// The counter and the field, into memory of the thread.
struct Memory;

struct Id(u64);

impl Visit for Id {
    fn record_u64(&mut self, _: &Field, value: u64) {
        self.0 = value;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Memory {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut id = Id(0);
        event.record(&mut id);
        KEPT.with_borrow_mut(|kept| {
            if kept.len() == ROOM {
                RECORDED.fetch_add(kept.len() as u64, Ordering::Relaxed);
                kept.clear();
            }
            kept.push((counter::plain(), id.0));
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// As little as a subscriber can do.
pub fn to_memory() -> Result<Recorder, Failed> {
    tracing::subscriber::set_global_default(Memory)?;
    let kept = || KEPT.with_borrow(|kept| Some(RECORDED.load(Ordering::Relaxed) + kept.len() as u64));
    Ok(recorder(Box::new(kept)))
}

/// Lines of JSON through a thread of its own, whose queue blocks when it is full.
pub fn to_json(folder: &str) -> Result<Recorder, Failed> {
    let file = tracing_appender::rolling::never(folder, "events.json");
    let (writer, guard) = tracing_appender::non_blocking::NonBlockingBuilder::default().lossy(false).finish(file);
    tracing_subscriber::fmt().json().with_writer(writer).init();
    Ok(recorder(Box::new(move || {
        drop(guard); // waits for the thread
        None
    })))
}

fn recorder(close: Box<dyn FnOnce() -> Option<u64>>) -> Recorder {
    let variants = vec![
        variant("event", |events| repeat(events, |id| tracing::info!(id))),
        variant("off", |events| repeat(events, |id| tracing::trace!(id))),
    ];
    Recorder { variants, record: Box::new(|id| tracing::info!(id)), close }
}

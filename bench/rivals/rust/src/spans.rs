//! fastrace: spans within one trace a block. A span is two readings of the clock and has no number unless as text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrace::Span;
use fastrace::collector::{Config, Reporter, SpanContext, SpanRecord};
use fastrace::local::LocalSpan;

use crate::recorder::Recorder;
use crate::rounds::{repeat, variant};

/// Counts spans and drops them: fastrace's own part ends where a reporter begins.
struct Counting(Arc<AtomicU64>);

impl Reporter for Counting {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        let ours = spans.iter().filter(|span| span.name == "event").count();
        self.0.fetch_add(ours as u64, Ordering::Relaxed);
    }
}

pub fn fastrace() -> Recorder {
    let reported = Arc::new(AtomicU64::new(0));
    fastrace::set_reporter(Counting(reported.clone()), Config::default());
    let in_a_trace = |events: u64, once: fn(u64)| {
        let root = Span::root("block", SpanContext::random());
        let _parent = root.set_local_parent();
        repeat(events, once);
    };
    let variants = vec![
        variant("event", move |events| in_a_trace(events, |_| drop(LocalSpan::enter_with_local_parent("event")))),
        variant("with its id", move |events| {
            in_a_trace(events, |id| {
                drop(LocalSpan::enter_with_local_parent("with id").with_property(|| ("id", id.to_string())));
            })
        }),
        variant("off", |events| repeat(events, |_| drop(LocalSpan::enter_with_local_parent("off")))),
    ];
    let close = move || {
        fastrace::flush();
        Some(reported.load(Ordering::Relaxed))
    };
    Recorder {
        variants,
        record: Box::new(|_| drop(LocalSpan::enter_with_local_parent("event"))),
        close: Box::new(close),
    }
}

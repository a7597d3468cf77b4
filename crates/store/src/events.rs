//! Events: what happened to the measuring itself, such as lost stamps, recoveries and refused files.

use std::path::Path;

use tickscope_tick::{Contradiction, Interval, Tick};

use crate::error::Result;
use crate::table::{Field, TableReader, TableWriter, Values};

/// One row of `events/*.parquet`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// Node.
    pub node: String,
    /// Channel concerned.
    pub channel: Option<i32>,
    /// Label of the domain concerned.
    pub domain: Option<String>,
    /// First tick concerned.
    pub tick: Option<i64>,
    /// Last tick concerned.
    pub until: Option<i64>,
    /// What happened: `lost`, `recovered`, `refused-pool`, ... (`docs/run-format.md`).
    pub what: String,
    /// How many, or how much.
    pub value: Option<i64>,
    /// A sentence for people: expected, found, remedy.
    pub text: String,
}

impl Event {
    /// A clock was set; value: nanoseconds, positive: forward.
    pub const CLOCK_STEP: &str = "clock-step";
    /// A clock ran unlike what the kernel's account allows; value: parts per 10^9 beyond it, positive: faster.
    pub const CLOCK_SLEW: &str = "clock-slew";
    /// The host was suspended; value: nanoseconds.
    pub const CLOCK_SUSPEND: &str = "clock-suspend";
    /// The kernel disciplines the clock otherwise from then on; the slew bound tells what that means.
    pub const CLOCK_DISCIPLINE: &str = "clock-discipline";
    /// A clock that cannot run backward did.
    pub const CLOCK_BACKWARD: &str = "clock-backward";
    /// Evidence about a clock is void across these.
    const BREAKS: [&str; 4] = [Self::CLOCK_STEP, Self::CLOCK_SLEW, Self::CLOCK_SUSPEND, Self::CLOCK_BACKWARD];
}

/// The spans of the counter in which `domain` is not to be trusted, apart from one another and in rising order: no
/// clock map holds across one, and no evidence within one does. An event without a first tick began before everything,
/// one without a last goes on. `D`: the counter that the brackets of `domain` are expressed in.
pub fn breaks<D>(events: &[Event], domain: &str) -> std::result::Result<Vec<Interval<Tick<D>>>, Contradiction> {
    let concerned = events
        .iter()
        .filter(|event| event.domain.as_deref() == Some(domain) && Event::BREAKS.contains(&event.what.as_str()));
    let mut spans: Vec<(i64, i64)> =
        concerned.map(|event| (event.tick.unwrap_or(i64::MIN), event.until.unwrap_or(i64::MAX))).collect();
    spans.sort_unstable();
    let mut apart: Vec<Interval<Tick<D>>> = Vec::new();
    for (first, last) in spans {
        let span = Interval::new(Tick::new(first), Tick::new(last))?;
        match apart.last_mut() {
            Some(before) if first <= before.hi().get() => {
                *before = Interval::new(before.lo(), before.hi().max(span.hi()))?;
            }
            _ => apart.push(span),
        }
    }
    Ok(apart)
}

/// Writes `events` as the file at `place`, with `keys` in its footer.
pub(crate) fn write_events_with(place: &Path, events: &[Event], keys: &[(&str, String)]) -> Result<()> {
    let fields = [
        Field::text("node"),
        Field::int("channel").nullable(),
        Field::text("domain").nullable(),
        Field::long("tick").nullable(),
        Field::long("until").nullable(),
        Field::text("what"),
        Field::long("value").nullable(),
        Field::text("text"),
    ];
    let text = |get: fn(&Event) -> &String| events.iter().map(|event| get(event).clone()).collect::<Vec<_>>();
    let mut table = TableWriter::begin(place, &fields, keys)?;
    table.group(&[
        Values::Text(&text(|e| &e.node)),
        Values::IntOrNull(&events.iter().map(|e| e.channel).collect()),
        Values::TextOrNull(&events.iter().map(|e| e.domain.clone()).collect()),
        Values::LongOrNull(&events.iter().map(|e| e.tick).collect()),
        Values::LongOrNull(&events.iter().map(|e| e.until).collect()),
        Values::Text(&text(|e| &e.what)),
        Values::LongOrNull(&events.iter().map(|e| e.value).collect()),
        Values::Text(&text(|e| &e.text)),
    ])?;
    table.finish().map(|_| ())
}

/// Writes `events` as the file at `place`.
pub fn write_events(place: &Path, events: &[Event]) -> Result<()> {
    write_events_with(place, events, &[])
}

/// The events in the file at `place`.
pub fn read_events(place: &Path) -> Result<Vec<Event>> {
    let table = TableReader::open(place)?;
    let (channel, domain) = (table.whole_sparse::<i32>("channel")?, table.whole_sparse::<String>("domain")?);
    let (tick, until) = (table.whole_sparse::<i64>("tick")?, table.whole_sparse::<i64>("until")?);
    let value = table.whole_sparse::<i64>("value")?;
    let (mut channel, mut domain, mut tick) = (channel.iter(), domain.iter(), tick.iter());
    let (mut until, mut value) = (until.iter(), value.iter());
    let mut what = table.whole_column::<String>("what")?.into_iter();
    let mut text = table.whole_column::<String>("text")?.into_iter();
    let row = |node| {
        Some(Event {
            node,
            channel: channel.next()?.copied(),
            domain: domain.next()?.cloned(),
            tick: tick.next()?.copied(),
            until: until.next()?.copied(),
            what: what.next()?,
            value: value.next()?.copied(),
            text: text.next()?,
        })
    };
    Ok(table.whole_column::<String>("node")?.into_iter().map_while(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickscope_tick::Local;

    fn event(what: &str, domain: &str, tick: Option<i64>, until: Option<i64>) -> Event {
        Event { what: what.into(), domain: Some(domain.into()), tick, until, ..Event::default() }
    }

    fn spans(events: &[Event]) -> Vec<(i64, i64)> {
        let breaks = breaks::<Local>(events, "a.realtime").unwrap();
        breaks.iter().map(|span| (span.lo().get(), span.hi().get())).collect()
    }

    #[test]
    fn only_what_voids_evidence_of_that_clock_breaks_it() {
        for what in ["clock-step", "clock-slew", "clock-suspend", "clock-backward"] {
            assert_eq!(spans(&[event(what, "a.realtime", Some(1), Some(5))]), [(1, 5)], "{what}");
            assert_eq!(spans(&[event(what, "a.monotonic", Some(1), Some(5))]), []);
        }
        for what in ["clock-discipline", "lost", "clock"] {
            assert_eq!(spans(&[event(what, "a.realtime", Some(1), Some(5))]), [], "{what}");
        }
    }

    #[test]
    fn an_event_without_an_end_breaks_all_that_follows() {
        assert_eq!(spans(&[event("clock-slew", "a.realtime", Some(7), None)]), [(7, i64::MAX)]);
        assert_eq!(spans(&[event("clock-slew", "a.realtime", None, Some(7))]), [(i64::MIN, 7)]);
    }

    #[test]
    fn an_event_that_ends_before_it_begins_is_refused() {
        let events = [event("clock-step", "a.realtime", Some(7), Some(6))];
        assert_eq!(breaks::<Local>(&events, "a.realtime"), Err(Contradiction { lo: 7, hi: 6 }));
    }

    proptest! {
        #[test]
        fn property_breaks_cover_the_events_and_nothing_else_and_lie_apart(
            of in prop::collection::vec((0i64..200, 0i64..30), 0..12),
        ) {
            let events: Vec<Event> =
                of.iter().map(|&(from, length)| event("clock-step", "a.realtime", Some(from), Some(from + length))).collect();
            let spans = spans(&events);
            for tick in -1..240 {
                let truly = of.iter().any(|&(from, length)| from <= tick && tick <= from + length);
                prop_assert_eq!(spans.iter().any(|&(lo, hi)| lo <= tick && tick <= hi), truly, "{}", tick);
            }
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}

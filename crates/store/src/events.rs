//! Events: what happened to the measuring itself, such as lost stamps, recoveries and refused files.

use std::path::Path;

use tickscope_tick::{Contradiction, Interval, NodeName, Place, Tick};

use crate::EventKind;
use crate::error::Result;
use crate::table::{Columns, columns};

columns! {
    /// One row of `events/*.parquet`.
    #[derive(Default)]
    row Event,
    /// Events as columns.
    pub(crate) columns EventColumns {
        /// The node.
        node: String,
        /// The channel concerned.
        channel: Option<i32>,
        /// Label of the domain concerned.
        domain: Option<String>,
        /// First tick concerned.
        tick: Option<i64>,
        /// Last tick concerned.
        until: Option<i64>,
        /// The kind of the event, a word from the table below.
        what: EventKind,
        /// How many, or how much.
        value: Option<i64>,
        /// A sentence for people.
        text: String,
    }
}

impl Event {
    /// `node` of events of the host that nodes live on.
    pub const HOST: &str = "host";
    /// `node` of events of the run as a whole.
    pub const RUN: &str = "run";

    /// How the text of an event of `IdsRepeated` begins that counts stamps at that point.
    pub fn ids_repeated_at(place: &Place) -> String {
        format!("stamps at {place} of ids")
    }

    /// Refuses a node whose events would be taken for the host's or the run's.
    pub fn expect_node(name: &NodeName) -> std::result::Result<(), String> {
        if ![Self::HOST, Self::RUN].contains(&name.as_str()) {
            return Ok(());
        }
        Err(format!(
            "expected a node's name, found '{name}', which stands for the whole {name} in events; rename the node"
        ))
    }
}

/// The spans of the counter in which `domain` is not to be trusted, apart from one another and in rising order: no
/// clock map holds across one, and no evidence within one does. An event without a first tick began before everything,
/// one without a last goes on. `D`: the counter that the brackets of `domain` are expressed in.
pub fn breaks<D>(events: &[Event], domain: &str) -> std::result::Result<Vec<Interval<Tick<D>>>, Contradiction> {
    let concerned = events.iter().filter(|event| event.domain.as_deref() == Some(domain) && event.what.is_break());
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

/// Writes `events` as the file at `place`.
pub fn write_events(place: &Path, events: &[Event]) -> Result<()> {
    events.iter().cloned().collect::<EventColumns>().write(place, &[]).map(|_| ())
}

/// The events in the file at `place`.
pub fn read_events(place: &Path) -> Result<Vec<Event>> {
    Ok(EventColumns::read(place)?.into_rows().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickscope_tick::Local;

    fn event(what: &str, domain: &str, tick: Option<i64>, until: Option<i64>) -> Event {
        Event { what: what.parse().unwrap(), domain: Some(domain.into()), tick, until, ..Event::default() }
    }

    fn spans(events: &[Event]) -> Vec<(i64, i64)> {
        let breaks = breaks::<Local>(events, "a.realtime").unwrap();
        breaks.iter().map(|span| (span.lo().get(), span.hi().get())).collect()
    }

    #[test]
    fn only_what_voids_evidence_of_that_clock_breaks_it() {
        for what in ["clock-step", "clock-slew", "clock-suspend", "clock-backward", "clock-gap", "counter-disrupted"] {
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

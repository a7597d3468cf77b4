//! Events: what happened to the measuring itself, such as lost stamps, recoveries and refused files.

use std::path::Path;

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

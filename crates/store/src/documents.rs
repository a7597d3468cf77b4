//! docs/run-format.md against the declarations: what it says of tables and events is what the code has.

use std::collections::BTreeSet;

use crate::brackets::BracketColumns;
use crate::channels::ChannelColumns;
use crate::counts::CountColumns;
use crate::events::EventColumns;
use crate::noise::NoiseColumns;
use crate::removed::RemovedColumns;
use crate::returns::ReturnColumns;
use crate::rivals::RivalColumns;
use crate::stamps::StampColumns;
use crate::table::Columns;
use crate::{EventKind, SCHEMA};

fn page() -> String {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run-format.md");
    std::fs::read_to_string(place).unwrap()
}

fn table<T: Columns>() -> String {
    let row = |(field, meaning): (&crate::table::Field, &&str)| {
        let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("| {} | {} | {meaning} |\n", field.name(), field.documented())
    };
    let rows: String = T::FIELDS.iter().zip(T::MEANINGS).map(row).collect();
    format!("| column | type | meaning |\n| --- | --- | --- |\n{rows}\n")
}

#[test]
fn the_documented_columns_of_every_table_are_the_declared_ones() {
    let page = page();
    assert!(page.starts_with(&format!("# The run directory, schema {SCHEMA}\n")));
    for (section, table) in [
        ("stamps", table::<StampColumns>()),
        ("removed", table::<RemovedColumns>()),
        ("channels", table::<ChannelColumns>()),
        ("counts", table::<CountColumns>()),
        ("events", table::<EventColumns>()),
        ("brackets", table::<BracketColumns>()),
        ("returns", table::<ReturnColumns>()),
        ("rivals", table::<RivalColumns>()),
        ("noise", table::<NoiseColumns>()),
    ] {
        let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap();
        let of_section = rest.split("## ").next().unwrap();
        assert!(of_section.contains(&table), "{section}: expected in docs/run-format.md\n{table}");
    }
}

#[test]
fn the_documented_kinds_of_events_are_the_declared_ones() {
    let page = page();
    let (_, rest) = page.split_once("| what | when | value |\n| --- | --- | --- |\n").unwrap();
    let rows = rest.lines().take_while(|line| line.starts_with('|'));
    let words = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    assert_eq!(words.collect::<BTreeSet<_>>(), EventKind::KNOWN.iter().copied().collect());
    for word in EventKind::KNOWN {
        let kind = word.parse::<EventKind>().unwrap();
        assert!(kind.name() == *word && !matches!(kind, EventKind::Other(_)), "{word}");
    }
    assert_eq!("of-a-later-version".parse::<EventKind>().unwrap().name(), "of-a-later-version");
}

//! A scan shows every trace once, in order, to whatever sink it is given, on any number of threads.

#[path = "site/copied.rs"]
mod copied;

use copied::Copied;
use tickscope_analysis::{Error, InTime, Outcome, Part, Piece, Query, Scan, Sink, Wanted, analyse};
use tickscope_trace::Attribute;

/// Numbers, ids and outcomes in the order in which they were seen.
#[derive(Default, PartialEq, Debug)]
struct Seen(Vec<(u64, i64, Vec<Outcome>)>);

impl Sink for Seen {
    type Part = Self;

    fn part(&self) -> Self {
        Self::default()
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.0.extend(part.0);
        Ok(())
    }
}

impl Part for Seen {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let stages = piece.layout.stages().len();
        let outcomes = |row| (0..stages).map(|stage| piece.outcome(stage, row).0).collect();
        let seen = |row| (piece.number + row as u64, piece.traces.ids()[row], outcomes(row));
        self.0.extend((0..piece.traces.len()).map(seen));
        Ok(())
    }
}

#[test]
fn a_sink_sees_every_trace_once_in_order_on_any_number_of_threads() {
    let copied = Copied::new(7);
    let scan = Scan::of(&copied.run(), &Query::default()).unwrap();
    let expected: Vec<i64> = copied.ids();
    let mut streamed = Seen::default();
    scan.stream(&mut streamed).unwrap();
    let numbered: Vec<(u64, i64)> = (0..).zip(expected).collect();
    assert_eq!(streamed.0.iter().map(|(number, id, _)| (*number, *id)).collect::<Vec<_>>(), numbered);
    let mut in_parallel = Seen::default();
    scan.stream_in_parallel(&mut in_parallel).unwrap();
    assert_eq!(in_parallel, streamed);
    for workers in [1, 2, 3, 16] {
        let mut seen = Seen::default();
        scan.over_with(workers, &mut seen).unwrap();
        assert_eq!(seen, streamed, "{workers} threads");
    }
}

/// Ids by the instant at which they were sent, and their core: a sink of a few lines.
#[test]
fn traces_can_be_had_in_order_of_time_with_attributes_of_their_stamps() {
    let copied = Copied::new(7);
    let scan = Scan::of(&copied.run(), &Query::default()).unwrap();
    let value = Wanted { point: 0, attribute: Attribute::Value };
    let in_time = |workers: usize| {
        let mut sink = InTime::new(vec![value], move |piece: &Piece<'_>, row, found: &mut Vec<_>| {
            let sent = piece
                .instant(0, row)
                .map(|sent| (sent.lo, (piece.traces.ids()[row], sent, piece.attribute(value, row))));
            found.extend(sent);
        });
        scan.over_with(workers, &mut sink).unwrap();
        sink.ordered().collect::<Vec<_>>()
    };
    let all = in_time(1);
    assert!(all.is_sorted_by_key(|&(tick, _)| tick) && all.len() > 100);
    assert!(all.iter().all(|(_, (_, sent, _))| sent.lo <= sent.estimate && sent.estimate <= sent.hi));
    let mut ids: Vec<i64> = all.iter().map(|(_, (id, ..))| *id).collect();
    ids.sort_unstable();
    assert_eq!(ids, copied.ids());
    for workers in [2, 5] {
        assert_eq!(in_time(workers), all, "{workers} threads");
    }
}

#[test]
fn outcomes_are_those_that_the_table_counts() {
    let copied = Copied::new(3);
    let analysis = analyse(&copied.run(), &Query::default(), false).unwrap();
    let mut both = (Some(Seen::default()), (Seen::default(), None::<Seen>));
    Scan::of(&copied.run(), &Query::default()).unwrap().over(&mut both).unwrap();
    let (Some(seen), (again, None)) = both else { panic!("options stay what they are") };
    assert_eq!(seen, again);
    for (stage, row) in analysis.rows.iter().enumerate() {
        let of = |outcome| seen.0.iter().filter(|(.., outcomes)| outcomes[stage] == outcome).count() as u64;
        assert_eq!(of(Outcome::Impossible), row.impossible, "{}", row.name);
        assert_eq!(of(Outcome::Measured) + of(Outcome::Impossible), row.count, "{}", row.name);
        assert_eq!((of(Outcome::Missing), of(Outcome::Refused)), (row.missing, row.refused), "{}", row.name);
    }
    assert!(analysis.rows.iter().any(|row| row.impossible > 0));
}

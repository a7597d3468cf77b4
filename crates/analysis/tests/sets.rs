//! A clock that is set while a run goes on, told as the clock monitor tells it: no stamp is placed by what it was set.

mod site;

use site::{Site, Stamped, write};
use tickscope_analysis::{Query, spans};
use tickscope_store::{BracketColumns, BracketSource, Event, EventKind, Pair, join_run, write_events};

/// Ticks.
const MS: i64 = 2_500_000;
const REQUESTS: i64 = 405;
const TOOK: i64 = 5_000;

/// A set of the clock by so many nanoseconds, and from when until when the monitor tells it.
struct Set {
    at: i64,
    ns: i64,
    told: [i64; 2],
}

/// Of stamps of the clock each 10 ms, which the monitor reads each 100 ms: how many durations there are, and how many
/// hold the truth.
fn durations(sets: &[Set]) -> [usize; 2] {
    let site = Site::new();
    let run = site.run(&["client.send", "client.response"], &[]);
    let set = |t: i64| sets.iter().filter(|set| t >= set.at).map(|set| set.ns).sum::<i64>();
    let real = |t: i64| 10_000_000_000 + t * 2 / 5 + set(t);
    let at = |request: i64| (request + 1) * 10 * MS;
    let send: Vec<(i64, i64)> = (0..REQUESTS).map(|request| (request, at(request))).collect();
    let response: Vec<(i64, i64)> = (0..REQUESTS).map(|request| (request, real(at(request) + TOOK))).collect();
    let of = |point, ordering, clock, stamps| Stamped { node: "client", point, ordering, clock, stamps, lost: &[] };
    write(&run, &[of("send", "before", "tsc", &send), of("response", "after", "realtime", &response)]);
    let mut monitor = BracketColumns::default();
    for look in 0..42 {
        let t = look * 100 * MS;
        monitor.push(Some(t - 30), real(t), Some(t + 40), BracketSource::Watch, "before/after");
    }
    let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "client.realtime".parse().unwrap() };
    run.add_brackets(&pair, "watch", &monitor).unwrap();
    let event = |set: &Set| Event {
        node: "client".into(),
        domain: Some("client.realtime".into()),
        tick: Some(set.told[0]),
        until: Some(set.told[1]),
        what: EventKind::ClockStep,
        value: Some(set.ns),
        ..Event::default()
    };
    let events: Vec<Event> = sets.iter().map(event).collect();
    write_events(&run.paths().events().join("watch.parquet"), &events).unwrap();
    join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
    let found = spans(&run, &Query::default()).unwrap();
    let known: Vec<_> = found.traces.iter().filter_map(|trace| trace.stages[0].as_ref()).collect();
    [known.len(), known.iter().filter(|span| span.lo <= TOOK && TOOK <= span.hi).count()]
}

/// From the look before to the look after, as the monitor tells each: its snapshots lie around the brackets.
fn told(at: i64, ns: i64, beyond: i64) -> Set {
    let look = at / (100 * MS) * 100 * MS;
    Set { at, ns, told: [look - beyond, look + 100 * MS + beyond] }
}

#[test]
fn two_sets_in_a_row_place_nothing_read_between_them_in_the_time_around_both() {
    for (first, second) in [(500_000_000, -500_000_000), (-500_000_000, 500_000_000), (500_000_000, 500_000_000)] {
        let sets = [told(2050 * MS, first, 40), told(2150 * MS, second, 40)];
        let [known, inside] = durations(&sets);
        assert!(known == inside && known > 300, "{first}, {second}: {inside} of {known}");
    }
}

#[test]
fn a_set_in_the_first_or_the_last_gap_places_nothing_by_what_it_was_set() {
    for (at, ns) in [(4050, -500_000_000), (4050, 500_000_000), (50, -500_000_000), (50, 500_000_000)] {
        for beyond in [40, -40] {
            let [known, inside] = durations(&[told(at * MS, ns, beyond)]);
            assert!(known == inside && known > 350, "{at}, {ns}, {beyond}: {inside} of {known}");
        }
    }
}

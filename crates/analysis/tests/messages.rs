//! Application messages alone relate two nodes, soundly: also where ids are sent again and stamps are missing.

mod site;

use proptest::prelude::*;
use site::{Site, Stamped, write};
use tickscope_analysis::{Query, SourceSummary, analyse, assumptions};
use tickscope_store::{
    BracketColumns, BracketSource, Origin, Pair, Run, StampColumns, join_run, next_segment, write_segment,
};

const PATH: [&str; 4] = ["client.send", "server.received", "server.reply", "client.response"];
const MESSAGES: [&str; 2] = ["client.send > server.received", "server.reply > client.response"];
/// The server's counter is this far ahead of the client's: the truth.
const AHEAD: i64 = 123_456_789;

/// One request and its reply: delays in ticks, and what went wrong.
#[derive(Clone, Debug)]
struct Exchange {
    wait: i64,
    there: i64,
    work: i64,
    back: i64,
    /// Sent again after it was received, this much later.
    again: Option<i64>,
    /// The stamp of its reply's receive is missing.
    unheard: bool,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let again = proptest::option::weighted(0.2, 1i64..100_000);
    (1i64..5_000_000, 1i64..50_000, 1i64..5_000, 1i64..50_000, again, proptest::bool::weighted(0.1))
        .prop_map(|(wait, there, work, back, again, unheard)| Exchange { wait, there, work, back, again, unheard })
}

/// Stamps of one point by its node's counter, none of them lost.
fn stamped<'a>(node: &'a str, point: &'a str, ordering: &'a str, stamps: &'a [(i64, i64)]) -> Stamped<'a> {
    Stamped { node, point, ordering, clock: "tsc", stamps, lost: &[] }
}

fn unused(source: &SourceSummary, reason: &str) -> usize {
    source.unused.iter().find(|(r, _)| *r == reason).map_or(0, |&(_, count)| count as usize)
}

/// What the client's `CLOCK_REALTIME` reads at a tick.
fn realtime(tick: i64) -> i64 {
    1_700_000_000_000_000_000 + tick * 2 / 5
}

/// Relates the client's `CLOCK_REALTIME` to its counter, from before tick `first` until after `last`.
fn bracket_realtime(run: &Run, first: i64, last: i64) {
    let mut columns = BracketColumns::default();
    for tick in (first - 1_000_000..last + 1_000_000).step_by(250_000) {
        columns.push(Some(tick - 30), realtime(tick), Some(tick + 40), BracketSource::Watch, "before/after");
    }
    let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "client.realtime".parse().unwrap() };
    run.add_brackets(&pair, "watch", &columns).unwrap();
}

/// A request that the kernel stamps, and what became of it.
#[derive(Clone, Debug)]
struct Request {
    wait: i64,
    queued: i64,
    there: i64,
    work: i64,
    back: i64,
    again: Option<Again>,
}

/// It was sent once more, though the first copy had come.
#[derive(Clone, Debug)]
struct Again {
    /// So long after the first.
    later: i64,
    /// The kernel did not deliver the first copy's stamp.
    first_unstamped: bool,
    /// The program's own stamp of the second send was lost; in the last quarter of the run alone.
    own_lost: bool,
}

fn request() -> impl Strategy<Value = Request> {
    let again = (1i64..400_000, proptest::bool::weighted(0.8), proptest::bool::weighted(0.3));
    let again = again.prop_map(|(later, first_unstamped, own_lost)| Again { later, first_unstamped, own_lost });
    let again = proptest::option::weighted(0.25, again);
    (400_000i64..3_000_000, 1i64..3_000, 1i64..50_000, 1i64..5_000, 1i64..50_000, again)
        .prop_map(|(wait, queued, there, work, back, again)| Request { wait, queued, there, work, back, again })
}

#[test]
fn a_sender_that_the_kernel_alone_stamps_rests_on_the_declaration_and_the_table_says_so() {
    for (path, told) in [
        (&["client.tx", "server.received", "client.response"][..], "no point where the program itself stamps"),
        (&["client.response", "client.tx", "server.received"], "no point where the program itself stamps"),
        (&["client.send", "client.tx", "server.received", "client.response"], "ids that client.send, stamped before"),
    ] {
        let site = Site::new();
        let run = site.run(path, &["client.tx > server.received", "server.reply > client.response"]);
        let at = |offset: i64| (0..50).map(|id| (id, 1_000_000_000 + id * 2_500_000 + offset)).collect::<Vec<_>>();
        let (send, received, reply, response) = (at(0), at(20_000 + AHEAD), at(21_000 + AHEAD), at(40_000));
        let tx: Vec<_> = at(1_000).into_iter().map(|(id, tick)| (id, realtime(tick))).collect();
        write(
            &run,
            &[
                stamped("client", "send", "before", &send),
                Stamped { clock: "realtime", ..stamped("client", "tx", "before", &tx) },
                stamped("server", "received", "after", &received),
                stamped("server", "reply", "before", &reply),
                stamped("client", "response", "after", &response),
            ],
        );
        bracket_realtime(&run, send[0].1, response[49].1);
        join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
        let analysis = analyse(&run, &Query::default(), false).unwrap();
        assert_eq!(analysis.clock_maps[0].sources[0].brackets, 100, "{path:?}");
        let assumptions = assumptions(run.manifest(), &analysis);
        let declared: Vec<_> = assumptions.iter().filter(|(statement, _)| statement.contains(told)).collect();
        assert_eq!(declared.len(), 1, "{path:?}: {assumptions:?}");
        assert!(declared[0].0.contains("client.tx > server.received once"), "{}", declared[0].0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn property_no_bound_is_false_though_the_kernel_stamped_only_the_second_copy(
        requests in proptest::collection::vec(request(), 40..150)
    ) {
        let (mut send, mut tx, mut received, mut reply, mut response) = (vec![], vec![], vec![], vec![], vec![]);
        let (mut now, mut lost, mut unproven) = (1_000_000_000i64, vec![], 0);
        for (id, request) in requests.iter().enumerate() {
            let (number, id) = (id, id as i64);
            now += request.wait;
            let sent = now;
            send.push((id, sent));
            if !request.again.as_ref().is_some_and(|again| again.first_unstamped) {
                tx.push((id, realtime(sent + request.queued)));
            }
            if let Some(again) = &request.again {
                tx.push((id, realtime(sent + again.later + request.queued)));
                let own_lost = again.own_lost && number * 4 >= requests.len() * 3;
                if own_lost { lost.push(sent + again.later) } else { send.push((id, sent + again.later)) }
                unproven += usize::from(again.first_unstamped && !own_lost);
            }
            received.push((id, sent + request.queued + request.there + AHEAD));
            now += request.queued + request.there + request.work;
            reply.push((id, now + AHEAD));
            now += request.back;
            response.push((id, now));
        }
        lost.sort_unstable();
        let site = Site::new();
        let path = ["client.send", "client.tx", "server.received", "server.reply", "client.response"];
        let run = site.run(&path, &["client.tx > server.received", "server.reply > client.response"]);
        write(&run, &[
            Stamped { lost: &lost, ..stamped("client", "send", "before", &send) },
            Stamped { clock: "realtime", ..stamped("client", "tx", "before", &tx) },
            stamped("server", "received", "after", &received),
            stamped("server", "reply", "before", &reply),
            stamped("client", "response", "after", &response),
        ]);
        bracket_realtime(&run, 1_000_000_000, now);
        join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
        let analysis = analyse(&run, &Query::default(), true).unwrap();
        let source = &analysis.clock_maps[0].sources[0];
        let why = "ids that the program's own stamps do not show to be sent exactly once";
        prop_assert_eq!(unused(source, why), unproven);
        let proven = requests.iter().filter(|request| request.again.is_none()).count();
        prop_assert!(!lost.is_empty() || source.brackets == proven + response.len());
        let rows = run.durations(50_000).unwrap().found.remove(0);
        let (names, rows) = (rows.names().to_vec(), rows.read_all().unwrap());
        let column = |name: &str| {
            let place = names.iter().position(|known| known == name).unwrap();
            rows.columns[place].iter().map(|value| value.copied()).collect::<Vec<_>>()
        };
        let stage = "server.reply>client.response";
        let (lo, hi) = (column(&format!("{stage}.lo")), column(&format!("{stage}.hi")));
        for (row, &id) in rows.id.iter().enumerate() {
            let back = requests[id as usize].back;
            let (lo, hi) = (lo[row].unwrap(), hi[row].unwrap());
            prop_assert!(lo <= back && back <= hi, "id {id}: {lo} {back} {hi}");
        }
    }

    #[test]
    fn property_every_true_duration_lies_in_the_interval_that_messages_give(
        exchanges in proptest::collection::vec(exchange(), 20..200)
    ) {
        let (mut send, mut received, mut reply, mut response) = (vec![], vec![], vec![], vec![]);
        let (mut now, mut repeated, mut unheard) = (1_000_000_000i64, 0, 0);
        for (id, exchange) in exchanges.iter().enumerate() {
            let id = id as i64;
            now += exchange.wait;
            send.push((id, now));
            now += exchange.there;
            received.push((id, now + AHEAD));
            now += exchange.work;
            reply.push((id, now + AHEAD));
            now += exchange.back;
            if let Some(later) = exchange.again {
                // Stamped first in the file: whoever takes the first row for the first transmission is wrong.
                send.insert(send.len() - 1, (id, now + later));
                repeated += 1;
            }
            if exchange.unheard { unheard += 1 } else { response.push((id, now)) }
        }
        let site = Site::new();
        let mut run = site.run(&PATH, &MESSAGES);
        write(&run, &[
            stamped("client", "send", "before", &send),
            stamped("client", "response", "after", &response),
            stamped("server", "received", "after", &received),
            stamped("server", "reply", "before", &reply),
        ]);
        let layout = run.manifest().layout.clone();
        join_run(&run, &layout, 1 << 20, &|_, _| true).unwrap();
        prop_assume!(response.len() > 2 && repeated + 2 < exchanges.len());
        let analysis = analyse(&run, &Query::default(), true).unwrap();
        let source = &analysis.clock_maps[0].sources[0];
        prop_assert_eq!(source.name, "messages");
        prop_assert_eq!(source.brackets, exchanges.len() - repeated + response.len());
        prop_assert_eq!(unused(source, "ids stamped more than once"), repeated);
        prop_assert_eq!(unused(source, "one stamp only"), unheard);
        let durations = run.durations(50_000).unwrap().found.remove(0);
        let rows = durations.read_all().unwrap();
        let column = |name: &str| {
            let place = durations.names().iter().position(|known| known == name).unwrap();
            rows.columns[place].iter().map(|value| value.copied()).collect::<Vec<_>>()
        };
        let (lo, hi) = (column("client.send>server.received.lo"), column("client.send>server.received.hi"));
        for (row, &id) in rows.id.iter().enumerate() {
            let exchange = &exchanges[id as usize];
            if exchange.again.is_none() {
                prop_assert!(lo[row].unwrap() <= exchange.there && exchange.there <= hi[row].unwrap());
            }
        }
        // Another query: a source that is left out is not there.
        let probes = Query { sources: Some(vec![tickscope_tick::Source::Probes]), ..Query::default() };
        let refused = analyse(&run, &probes, false).unwrap();
        prop_assert!(refused.unrelated[0].contains("expected brackets"));
        run.set_manifest(run.manifest().clone()).unwrap();
    }
}

#[test]
fn only_messages_that_are_evidence_name_what_they_rest_on() {
    let site = Site::new();
    let mut run = site.run(&PATH, &MESSAGES);
    let at = |later: i64| (0..100).map(|id| (id, 1_000_000_000 + id * 1_000_000 + later)).collect::<Vec<_>>();
    write(
        &run,
        &[
            stamped("client", "send", "before", &at(0)),
            stamped("server", "received", "after", &at(AHEAD + 1000)),
            stamped("server", "reply", "before", &at(AHEAD + 2000)),
            stamped("client", "response", "after", &at(3000)),
        ],
    );
    let layout = run.manifest().layout.clone();
    join_run(&run, &layout, 1 << 20, &|_, _| true).unwrap();
    let mut columns = BracketColumns::default();
    for (_, sent) in at(0) {
        columns.push(Some(sent), sent + AHEAD + 500, None, BracketSource::ProbeRequest, "before/after");
        columns.push(None, sent + AHEAD + 600, Some(sent + 1100), BracketSource::ProbeReply, "before/after");
    }
    let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() };
    run.add_brackets(&pair, "probe", &columns).unwrap();
    let mut manifest = run.manifest().clone();
    manifest.evidence.probes = true;
    run.set_manifest(manifest).unwrap();
    let rests_on = |sources: Option<&str>| {
        let query = Query { sources: sources.map(|name| vec![name.parse().unwrap()]), ..Query::default() };
        analyse(&run, &query, false).unwrap().sent_once.len()
    };
    assert_eq!([rests_on(None), rests_on(Some("messages")), rests_on(Some("probes"))], [2, 2, 0]);
}

#[test]
fn sends_that_are_stamped_many_at_once_are_no_evidence_for_nobody_knows_that_each_was_sent_once() {
    let brackets = |ids: Option<i32>| {
        let site = Site::new();
        let run = site.run(&PATH, &MESSAGES);
        let at = |later: i64| (0..100).map(|id| (id, 1_000_000_000 + id * 1_000_000 + later)).collect::<Vec<_>>();
        let (send, received, reply, response) = (at(0), at(AHEAD + 1000), at(AHEAD + 2000), at(3000));
        write(
            &run,
            &[
                stamped("client", "send", "before", &send),
                stamped("server", "received", "after", &received),
                stamped("server", "reply", "before", &reply),
                stamped("client", "response", "after", &response),
            ],
        );
        // The ids 40 to 42 again, before their messages came.
        let again = StampColumns {
            ids: [ids].into_iter().collect(),
            ..StampColumns::slim(vec![1_000_000_000 + 50 * 1_000_000], vec![40], vec![0])
        };
        let place = next_segment(&run.paths().stamps(&"client.send".parse().unwrap())).unwrap();
        write_segment(&place, &again, &Origin::default()).unwrap();
        let layout = run.manifest().layout.clone();
        join_run(&run, &layout, 1 << 20, &|_, _| true).unwrap();
        let analysis = analyse(&run, &Query::default(), false).unwrap();
        analysis.clock_maps.first().map(|map| map.sources[0].brackets)
    };
    // The other way's messages alone bound one side, so nothing relates the two.
    assert_eq!([brackets(None), brackets(Some(3))], [Some(199), None]);
}

#[test]
fn an_id_that_two_originals_have_is_no_evidence_however_it_was_stamped() {
    let site = Site::new();
    let run = site.run(&PATH, &MESSAGES);
    let at = |later: i64| (0..100).map(|id| (id, 1_000_000_000 + id * 1_000_000 + later)).collect::<Vec<_>>();
    let (send, mut received, reply, response) = (at(0), at(AHEAD + 1000), at(AHEAD + 2000), at(3000));
    received[40].1 -= 5_000_000; // of another thing, received before this one was sent: a false bracket
    write(
        &run,
        &[
            stamped("client", "send", "before", &send),
            stamped("server", "received", "after", &received),
            stamped("server", "reply", "before", &reply),
            stamped("client", "response", "after", &response),
        ],
    );
    for (word, tick) in [(0x0072_6564_726f, 1), (0x6568_746f, 2)] {
        let original = StampColumns {
            kind: [Some(0)].into_iter().collect(),
            attempt: [Some(5)].into_iter().collect(),
            value: [Some(word)].into_iter().collect(),
            parent: [Some(0)].into_iter().collect(),
            ..StampColumns::slim(vec![tick], vec![40], vec![2])
        };
        let place = next_segment(&run.paths().stamps(&"client.id-original".parse().unwrap())).unwrap();
        write_segment(&place, &original, &Origin::default()).unwrap();
    }
    join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
    let analysis = analyse(&run, &Query::default(), false).unwrap();
    let source = &analysis.clock_maps[0].sources[0];
    assert_eq!((source.brackets, unused(source, "ids that two originals have")), (198, 2), "{source:?}");
}

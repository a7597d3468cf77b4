//! Application messages alone relate two nodes, soundly: also where ids are sent again and stamps are missing.

mod site;

use proptest::prelude::*;
use site::{Site, Stamped, write};
use tickscope_analysis::{Terms, analyse};
use tickscope_store::join_run;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

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
        let stamped = |node, point, ordering, stamps| Stamped { node, point, ordering, stamps };
        write(&run, &[
            stamped("client", "send", "before", &send),
            stamped("client", "response", "after", &response),
            stamped("server", "received", "after", &received),
            stamped("server", "reply", "before", &reply),
        ]);
        let layout = run.manifest().layout.clone();
        join_run(&run, &layout, 1 << 20).unwrap();
        prop_assume!(response.len() > 2 && repeated + 2 < exchanges.len());
        let analysis = analyse(&run, &Terms::default(), true).unwrap();
        let source = &analysis.relations[0].sources[0];
        prop_assert_eq!(source.name.as_str(), "messages");
        prop_assert_eq!(source.brackets, exchanges.len() - repeated + response.len());
        let unused = |reason: &str| source.unused.iter().find(|(r, _)| *r == reason).map_or(0, |&(_, count)| count);
        prop_assert_eq!(unused("ids stamped more than once"), repeated as u64);
        prop_assert_eq!(unused("one stamp only"), unheard);
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
        // Other terms: a source that is left out is not there.
        let refused = analyse(&run, &Terms { sources: Some(vec!["probes".into()]), ..Terms::default() }, false);
        prop_assert!(refused.unwrap_err().to_string().contains("expected brackets"));
        run.set_manifest(run.manifest().clone()).unwrap();
    }
}

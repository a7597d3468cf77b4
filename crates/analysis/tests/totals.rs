//! X-Lap's totals of a path from one node to another, from stamps that are known.

mod site;

use site::{Site, Stamped, write};
use tickscope_analysis::{Query, Scan, Totals, ready, totals};
use tickscope_store::Run;

const PATH: [&str; 5] = ["client.send", "client.queued", "client.out", "server.in", "server.done"];
const IDS: i64 = 1_000;
/// Ticks of the sender and of the channel; the receiver's are 30 and a part of the id.
const SENDER: i64 = 100;
const CHANNEL: i64 = 5_000;

/// A run of a client and a server that read one counter; every tenth id is lost on the way.
fn run(site: &Site, path: &[&str]) -> Run {
    let mut run = site.run(path, &[]);
    let mut manifest = run.manifest().clone();
    manifest.nodes[1].boot = manifest.nodes[0].boot;
    run.set_manifest(manifest).unwrap();
    let received = SENDER + CHANNEL;
    let after = |at: usize, id: i64| match at {
        0 => 0,
        1 => 40,
        2 => SENDER,
        3 => received,
        4 => received + 30 + id % 7,
        _ => received + CHANNEL,
    };
    let stamps: Vec<Vec<(i64, i64)>> = (0..path.len())
        .map(|at| {
            let ids = (0..IDS).filter(|id| at < 3 || id % 10 > 0);
            ids.map(|id| (id, 1_000_000 + id * 100_000 + after(at, id))).collect()
        })
        .collect();
    let stamped = path.iter().zip(&stamps).map(|(place, stamps)| {
        let (node, point) = place.split_once('.').unwrap();
        Stamped { node, point, ordering: "plain", clock: "tsc", stamps, lost: &[] }
    });
    write(&run, &stamped.collect::<Vec<_>>());
    ready(run, None).unwrap().run
}

fn found(path: &[&str]) -> Option<Totals> {
    let site = Site::new();
    let run = run(&site, path);
    totals(&run, &Scan::of(&run, &Query::default()).unwrap()).unwrap()
}

#[test]
fn totals_are_those_of_the_paper_and_the_published_sum_lacks_the_channel() {
    let found = found(&PATH).unwrap();
    assert_eq!((found.traces, found.left_out), (900, 100));
    let names: Vec<&str> = found.all.iter().map(|total| total.name).collect();
    assert_eq!(names, ["sender_total", "receiver_total", "channel", "end_to_end_published", "end_to_end"]);
    let longest = [SENDER, 36, CHANNEL, SENDER + 36, SENDER + CHANNEL + 36];
    let medians = [SENDER, 33, CHANNEL, SENDER + 33, SENDER + CHANNEL + 33];
    for (total, (longest, median)) in found.all.iter().zip(longest.into_iter().zip(medians)) {
        let (max, p50) = (total.max.unwrap(), total.p50.unwrap());
        assert_eq!((max.estimate, p50.estimate), (longest, median), "{total:?}");
        assert!(max.lo < max.estimate && max.estimate < max.hi, "a reading is a tick wide: {total:?}");
    }
    let width = |at: usize| found.all[at].max.map(|max| max.hi - max.lo).unwrap();
    assert_eq!(width(3), width(0) + width(1), "a sum of intervals");
    assert_eq!(found.all[3].of, "client.send > client.out and server.in > server.done, without the channel");
}

#[test]
fn a_path_that_leads_back_or_has_one_point_on_a_node_has_no_totals() {
    assert!(found(&PATH[..4]).is_none(), "the receiver has one point");
    assert!(found(&PATH[2..]).is_none(), "the sender has one point");
    assert!(found(&[PATH[0], PATH[1], PATH[3], PATH[4], "client.back"]).is_none());
    assert!(found(&PATH[..3]).is_none(), "one node");
}

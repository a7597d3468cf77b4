//! Age of information of a run by hand: keys that come late, once, or never, and updates that are lost or obsolete.

mod site;

use site::{Site, Stamped, write};
use tickscope_analysis::{
    Age, AgeKey, AgeQuery, AgeSpan, KeyAge, NoAge, Query, Scan, age, analyse_counts, analyse_scan, ready,
};
use tickscope_store::{Origin, Run, StampColumns, next_segment, read_channels, write_channels, write_segment};

const PATH: [&str; 2] = ["client.send", "server.received"];
const BEGIN: i64 = 1_000_000;
/// By id: key, generation, reception.
const UPDATES: [(i64, i64, Option<i64>); 11] = [
    (1, 0, Some(100)),
    (1, 1000, Some(1200)),
    (1, 2000, Some(2100)),
    (1, 3000, Some(3300)),
    (2, 0, Some(300)),
    (2, 1500, Some(1900)),
    (2, 1400, Some(2000)),
    (3, 200, Some(400)),
    (3, 2500, None),
    (4, 2900, Some(3000)),
    (5, 2600, None),
];

/// Both nodes read one counter of a tick a nanosecond.
fn run(site: &Site) -> Run {
    run_with(site, &[])
}

/// Ids in `again` are received once more.
fn run_with(site: &Site, again: &[(i64, i64)]) -> Run {
    run_of(site, &UPDATES, [&[], again])
}

/// Ids in `again` are generated and received once more.
fn run_of(site: &Site, all: &[(i64, i64, Option<i64>)], again: [&[(i64, i64)]; 2]) -> Run {
    let mut run = site.run(&PATH, &[]);
    let mut manifest = run.manifest().clone();
    manifest.nodes[1].boot = manifest.nodes[0].boot;
    manifest.nodes.iter_mut().for_each(|node| node.counter.frequency.hertz = 1_000_000_000);
    run.set_manifest(manifest).unwrap();
    let updates = || all.iter().zip(0..);
    let sent = updates().map(|((_, generated, _), id)| (id, BEGIN + generated));
    let sent: Vec<(i64, i64)> = sent.chain(again[0].iter().copied()).collect();
    let received = updates().filter_map(|((.., received), id)| Some((id, BEGIN + (*received)?)));
    // An id whose generation nobody stamped.
    let received: Vec<(i64, i64)> = received.chain([(99, BEGIN + 2222)]).chain(again[1].iter().copied()).collect();
    let stamped = [(PATH[0], &sent), (PATH[1], &received)].map(|(place, stamps)| {
        let (node, point) = place.split_once('.').unwrap();
        Stamped { node, point, ordering: "plain", clock: "tsc", stamps, lost: &[] }
    });
    let segment = next_segment(&run.paths().stamps(&PATH[0].parse().unwrap())).unwrap();
    write(&run, &stamped);
    let (id, tick): (Vec<i64>, Vec<i64>) = sent.into_iter().unzip();
    let value = all.iter().map(|(key, ..)| Some(*key)).chain(again[0].iter().map(|_| Some(1))).collect();
    let columns = StampColumns { value, ..StampColumns::slim(tick, id, vec![0; all.len() + again[0].len()]) };
    std::fs::remove_file(&segment).unwrap();
    write_segment(&segment, &columns, &Origin::default()).unwrap();
    ready(run, None).unwrap().run
}

fn asked(run: &Run, [from, to]: [&str; 2], key: Option<AgeKey>) -> Age {
    let [from, to] = [from, to].map(|place| place.parse().unwrap());
    let scan = Scan::of(run, &Query::default()).unwrap();
    let found = age(&scan, &AgeQuery { from, to, key, limit_ns: Some(1000) }).unwrap();
    // Whoever needs both reads the evidence once.
    let counts = analyse_scan(run, &Query::default(), scan).unwrap();
    assert_eq!(counts.rows, analyse_counts(run, &Query::default()).unwrap().rows);
    found
}

/// The window is from 401 (the third key at 400, and a reading is a tick wide) to 3300: 2899 ticks.
#[test]
fn ages_of_keys_are_those_that_a_pen_finds() {
    let site = Site::new();
    let found = asked(&run(&site), PATH, None);
    assert_eq!((found.key, found.counted_keys, found.keys_with_few), (AgeKey::Value, 3, 3));
    assert_eq!(found.window_ticks, [BEGIN + 401, BEGIN + 3300]);
    let all = found.updates;
    assert_eq!([all.received, all.lost, all.ungenerated, all.refused, all.impossible], [9, 2, 1, 0, 0]);
    assert_eq!([all.effective, all.obsolete, all.out_of_order, all.doubled, all.unresolved], [4, 1, 1, 0, 0]);
    assert_eq!((found.receptions_ticks, found.primed_share), ([BEGIN + 101, BEGIN + 3300], 2899.0 / 3199.0));
    assert_eq!(found.few, [Some(3), Some(2), Some(1)], "those of the fewest updates in the window first");
    let of = |key: i64| found.keys.iter().find(|row| row.key == Some(key)).unwrap();
    // Squares of the ages at the ends of each trapezoid.
    let areas = [
        1200 * 1200 - 401 * 401 + 1100 * 1100 - 200 * 200 + 1300 * 1300 - 100 * 100,
        1900 * 1900 - 401 * 401 + 1800 * 1800 - 400 * 400,
        3100 * 3100 - 201 * 201,
    ];
    let mut means = 0.0;
    for (key, area) in (1..).zip(areas) {
        let exact = f64::from(area) / (2.0 * 2899.0);
        means += exact / 3.0;
        let average = of(key).ages.unwrap().average;
        let (lo, hi) = (average.lo_ticks.unwrap(), average.hi_ticks.unwrap());
        assert!((average.estimate_ticks as f64 - exact).abs() <= 0.5, "{key}: {average:?} for {exact}");
        assert!(lo as f64 <= exact && exact <= hi as f64 && hi - lo <= 10, "{key}: {average:?} for {exact}");
    }
    let over = found.over_keys.unwrap();
    assert!((over.average.estimate_ticks as f64 - means).abs() <= 1.0, "{over:?} for {means}");
    let peaks = [1, 2, 3].map(|key| of(key).ages.unwrap().peak.map(|peak| peak.estimate_ticks));
    assert_eq!(peaks, [Some(1200), Some(1900), None]);
    // Had each arrived when it was generated: 401 to 1000 of the first key, then a thousand twice, and 300.
    let without = f64::from(1000 * 1000 - 401 * 401 + 2 * 1000 * 1000 + 300 * 300) / (2.0 * 2899.0);
    let ages = of(1).ages.unwrap();
    assert_eq!(ages.without_delay.unwrap().estimate_ticks, without.round() as i64);
    let excess = ages.excess.unwrap();
    assert_eq!(excess.estimate_ticks, ages.average.estimate_ticks - without.round() as i64);
    assert!(excess.lo_ticks.unwrap() < excess.estimate_ticks && excess.estimate_ticks < excess.hi_ticks.unwrap());
    // The first key has three updates in the window, the second two, the third none.
    let excesses = [1, 2].map(|key| of(key).ages.unwrap().excess.unwrap());
    let weighted = |of: fn(&AgeSpan) -> i64| (3 * of(&excesses[0]) + 2 * of(&excesses[1])) as f64 / 5.0;
    let by_update = found.excess_by_update.unwrap();
    assert_eq!(by_update.estimate_ticks, weighted(|one| one.estimate_ticks).round() as i64);
    assert_eq!(by_update.lo_ticks.unwrap(), weighted(|one| one.lo_ticks.unwrap()).floor() as i64);
    assert_eq!(by_update.hi_ticks.unwrap(), weighted(|one| one.hi_ticks.unwrap()).ceil() as i64);
    let above = of(1).ages.unwrap().above.unwrap();
    assert_eq!(above.estimate, 600.0 / 2899.0);
    assert!(above.lo < above.estimate && above.estimate < above.hi);
}

#[test]
fn keys_without_an_age_say_why() {
    let site = Site::new();
    let found = asked(&run(&site), PATH, None);
    let row = |key: i64| found.keys.iter().find(|row| row.key == Some(key)).unwrap();
    let told = |of: &KeyAge| (of.why, of.ages.is_some(), [of.generated, of.received, of.lost]);
    assert_eq!(told(row(3)), (None, true, [2, 1, 1]));
    assert_eq!(told(row(4)), (Some(NoAge::Late), false, [1, 1, 0]));
    assert_eq!(told(row(5)), (Some(NoAge::NeverReceived), false, [1, 0, 1]));
    assert_eq!(found.keys.iter().map(|row| row.received).collect::<Vec<_>>(), [4, 3, 1, 1, 0]);
}

#[test]
fn an_id_that_is_received_again_is_counted_and_changes_no_age() {
    let sites = [Site::new(), Site::new()];
    let [once, twice] = [&[][..], &[(0, BEGIN + 150), (1, BEGIN + 2500), (1, BEGIN + 2600)]];
    let [once, twice] =
        [(&sites[0], once), (&sites[1], twice)].map(|(site, again)| asked(&run_with(site, again), PATH, None));
    assert_eq!([once.updates.doubled, twice.updates.doubled], [0, 2]);
    assert_eq!(twice.updates.ungenerated, once.updates.ungenerated);
    assert_eq!((twice.over_keys, twice.keys), (once.over_keys, once.keys));
}

#[test]
fn without_keys_all_updates_are_of_one_thing() {
    let site = Site::new();
    let run = run(&site);
    for (key, named) in [(AgeKey::None, None), (AgeKey::Kind, Some(0))] {
        let found = asked(&run, PATH, Some(key));
        assert_eq!((found.keys.len(), found.keys[0].key, found.keys[0].received), (1, named, 9));
        // Those at 300 and 2000 are not fresher than the one before.
        assert_eq!([found.updates.effective, found.updates.obsolete], [6, 2]);
    }
}

#[test]
fn updates_received_before_they_were_generated_are_a_finding_and_stay_in_the_figures() {
    let site = Site::new();
    let found = asked(&run(&site), [PATH[1], PATH[0]], Some(AgeKey::None));
    assert_eq!((found.updates.received, found.updates.impossible), (9, 9));
    assert!(found.findings[0].contains("9 updates were received at client.send before"), "{:?}", found.findings);
    let told = format!("id 0, generated at {}, received at {BEGIN}, at most -99 ticks later", BEGIN + 100);
    assert!(found.findings[0].contains(&told), "{:?}", found.findings);
    assert!(found.over_keys.unwrap().average.estimate_ticks < 1000);
}

#[test]
fn ids_that_are_generated_again_are_refused_where_one_passage_is_kept() {
    let site = Site::new();
    let run = run_of(&site, &UPDATES, [&[(1, BEGIN + 1600)], &[(1, BEGIN + 1700)]]);
    let scan = Scan::of(&run, &Query::default()).unwrap();
    let [from, to] = PATH.map(|place| place.parse().unwrap());
    let why = age(&scan, &AgeQuery { from, to, key: None, limit_ns: None }).unwrap_err().to_string();
    assert!(why.contains("ids that pass client.send once, found 1 ") && why.contains("rule 'all'"), "{why}");
}

#[test]
fn where_stamps_are_missing_no_ends_are_told_and_why() {
    for (dropped, policy, said) in [
        (2, "buffered", "server.received: 2 stamps were dropped, refused, overwritten or cut off"),
        (0, "every", "server.received: policy every"),
    ] {
        let site = Site::new();
        let run = run(&site);
        let whole = asked(&run, PATH, None);
        let place = run.paths().channels("server");
        let mut channels = read_channels(&place).unwrap();
        (channels[0].dropped, channels[0].policy) = (dropped, policy.into());
        write_channels(&place, &channels).unwrap();
        let found = asked(&run, PATH, None);
        assert_eq!((whole.lacking.len(), &found.lacking[..]), (0, &[said.to_owned()][..]));
        let [before, after] = [whole, found].map(|found| found.over_keys.unwrap());
        assert_eq!(after.average.estimate_ticks, before.average.estimate_ticks);
        let spans = [Some(after.average), after.peak, after.without_delay, after.excess];
        assert!(spans.iter().flatten().all(|span| span.lo_ticks.is_none() && span.hi_ticks.is_none()), "{after:?}");
        assert_eq!(after.above.map(|above| (above.lo, above.hi)), Some((0.0, 1.0)));
    }
}

#[test]
fn two_receptions_of_one_reading_leave_the_peaks_open() {
    let peak = |second: i64| {
        let updates = [(1, 0, Some(100)), (1, 900, Some(1200)), (1, 1000, Some(second)), (1, 2900, Some(3000))];
        let site = Site::new();
        let found = asked(&run_of(&site, &updates, [&[], &[]]), PATH, None);
        (found.updates.unresolved > 0, found.over_keys.unwrap().peak.unwrap().lo_ticks.is_none())
    };
    assert_eq!([peak(1200), peak(1300)], [(true, true), (false, false)]);
}

//! Traces in groups, by the channel that stamped a point.

mod site;

use std::collections::BTreeMap;
use std::fs;

use site::{Site, Stamped, write};
use tickscope_analysis::{Error, GroupedBy, Groups, Query, ReadyRun, grouped, ready, tells_channels};
use tickscope_store::{KeyedWriter, Run};
use tickscope_tick::Place;

const PATH: [&str; 3] = ["client.send", "server.received", "server.reply"];
/// More than the rows of a piece that is looked at together.
const IDS: i64 = 5_000;

/// A run whose `server.received` two channels stamped, 100 and 200 ticks after `client.send`, and a tenth of the ids
/// passed unseen; three channels stamped `server.reply`.
fn run(site: &Site) -> Run {
    let mut run = site.run(&PATH, &[]);
    let mut manifest = run.manifest().clone();
    manifest.nodes[1].boot = manifest.nodes[0].boot;
    run.set_manifest(manifest).unwrap();
    let stamps = |ids: std::ops::Range<i64>, after: i64| -> Vec<(i64, i64)> {
        ids.map(|id| (id, 1_000_000 + id * 10_000 + after)).collect()
    };
    let parts = [
        (PATH[0], stamps(0..IDS, 0)),
        (PATH[1], stamps(0..1_500, 100)),
        (PATH[1], stamps(1_500..4_500, 200)),
        (PATH[2], stamps(0..2_500, 300)),
        (PATH[2], stamps(2_500..4_000, 300)),
        (PATH[2], stamps(4_000..IDS, 300)),
    ];
    let stamped = parts.iter().map(|(place, stamps)| {
        let (node, point) = place.split_once('.').unwrap();
        Stamped { node, point, ordering: "plain", clock: "tsc", stamps, lost: &[] }
    });
    write(&run, &stamped.collect::<Vec<_>>());
    run
}

fn by(run: &Run, place: Option<&str>, most: usize) -> Result<Groups, Error> {
    let place = place.map(|place| place.parse::<Place>().unwrap());
    grouped(run, &Query::default(), &GroupedBy::Channel(place), most)
}

fn traces(groups: &Groups) -> BTreeMap<Option<i64>, u64> {
    groups.shown.iter().map(|group| (group.key, group.traces)).collect()
}

/// The file of traces as a version wrote it that kept no channels.
fn without_channels(ready: &ReadyRun) -> Vec<u8> {
    let reader = ready.run.traces().unwrap().found.remove(0);
    let key = |key: &'static str| (key, reader.key(key).unwrap().to_owned());
    let keys = [key("tickscope.layout"), key("tickscope.stamps")];
    let mut writer = KeyedWriter::begin_traces(reader.path(), reader.names(), &keys).unwrap();
    writer.write(reader.read_all().unwrap()).unwrap();
    writer.finish().unwrap();
    fs::read(reader.path()).unwrap()
}

#[test]
fn traces_are_grouped_by_the_channel_that_stamped_a_point_and_those_without_a_stamp_there_are_a_group() {
    let site = Site::new();
    let ready = ready(run(&site), None).unwrap();
    let groups = by(&ready.run, None, 10).unwrap();
    assert_eq!(groups.point.as_ref().map(Place::to_string).as_deref(), Some("server.received"));
    assert_eq!(traces(&groups), BTreeMap::from([(None, 500), (Some(1), 1_500), (Some(2), 3_000)]));
    assert_eq!((groups.more_keys, groups.more_traces), (0, 0));
    for group in &groups.shown {
        let row = &group.rows[0];
        let after = group.key.map(|channel| channel * 100);
        assert_eq!((row.count + row.missing, row.p50.map(|p50| p50.estimate)), (group.traces, after), "{group:?}");
    }
    let named = by(&ready.run, Some("server.reply"), 10).unwrap();
    assert_eq!(traces(&named), BTreeMap::from([(Some(3), 2_500), (Some(4), 1_500), (Some(5), 1_000)]));
    let few = by(&ready.run, None, 1).unwrap();
    assert_eq!((traces(&few), few.more_keys, few.more_traces), (BTreeMap::from([(Some(2), 3_000)]), 2, 2_000));
}

#[test]
fn a_point_that_one_channel_stamped_and_one_that_is_not_there_are_refused_with_what_can_be_named() {
    let site = Site::new();
    let ready = ready(run(&site), None).unwrap();
    let said = |place| {
        let error = by(&ready.run, Some(place), 10).unwrap_err();
        assert_eq!(error.code(), 2, "{error}");
        error.to_string()
    };
    let error = said("client.send");
    assert!(error.contains("one at most at client.send. Name one of server.received, server.reply"), "{error}");
    let error = said("server.recieved");
    assert!(error.contains("found 'server.recieved'; did you mean 'server.received'?"), "{error}");
}

#[test]
fn traces_of_an_earlier_version_are_refused_and_joined_apart_they_tell_the_channels() {
    let site = Site::new();
    let ready = ready(run(&site), None).unwrap();
    assert!(tells_channels(&ready.run).unwrap());
    let new = traces(&by(&ready.run, None, 10).unwrap());
    let old = without_channels(&ready);
    assert!(!tells_channels(&ready.run).unwrap());
    let error = by(&ready.run, None, 10).unwrap_err();
    assert!(error.to_string().contains("the channels of server.received apart, found traces of an earlier version"));
    let place = ready.run.traces().unwrap().found[0].path().to_path_buf();
    let apart = ready.joined_apart("asked").unwrap();
    assert_eq!(apart.preparation.notes[0], "joined now from 14500 stamps: asked");
    assert_eq!(traces(&by(&apart.run, None, 10).unwrap()), new);
    assert_eq!(fs::read(&place).unwrap(), old, "the run keeps its own");
}

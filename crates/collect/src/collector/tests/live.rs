//! Policies that are switched while a collector works.

use std::mem::offset_of;

use tickscope_stamp::block::{PoolHeader, READING_BYTES};

use super::*;
use crate::watched_pool::Outcome;
use tickscope_stamp::policies::Choice;

fn rules(rules: &[(&str, Choice)]) -> Vec<LiveRule> {
    rules.iter().map(|&(glob, policy)| LiveRule { glob: glob.into(), policy }).collect()
}

/// Policies of the open channels, in the order of their numbers.
fn policies(collector: &Collector) -> Vec<String> {
    collector.channels_now(false).into_iter().map(|now| now.policy).collect()
}

/// A pool of a living program, with channels of these points.
fn pool(site: &Site, points: &[&str]) -> Pool {
    let pool = Pool::make(&site.directory(), 7, 4).live();
    for (serial, point) in points.iter().enumerate() {
        pool.open_channel(serial as u32, point, 1);
    }
    pool.count_channels(points.len() as u32);
    pool
}

#[test]
fn a_switch_is_an_event_with_the_ticks_around_it_and_a_channel_that_was_switched_proves_nothing() {
    let site = Site::new();
    let _pool = pool(&site, &["send", "receive", "sent"]);
    let mut collector = Collector::start(site.settings()).unwrap();
    for (policy, kept) in [(Choice::NULL, "null"), (Choice::BUFFERED, "switched")] {
        let before = tickscope_counter::before();
        let switched = collector.set_rules(rules(&[("sen*", policy)])).unwrap();
        let after = tickscope_counter::after();
        assert!(before < switched.before && switched.before < switched.after && switched.after < after);
        assert_eq!((switched.channels, policies(&collector)[0].as_str()), (2, policy.to_string().as_str()));
        let events = site.events();
        let event = events.last().unwrap();
        assert_eq!((event.tick, event.until, event.value), (Some(switched.before), Some(switched.after), Some(2)));
        let domain = format!("host.{}", Clock::STAMPED);
        assert_eq!((event.what.name(), event.domain.as_deref()), ("policy-switched", Some(&*domain)));
        collector.ledger.write().unwrap();
        let told: Vec<_> =
            site.channels().into_iter().map(|channel| (channel.policy.clone(), channel.keeps_all())).collect();
        assert_eq!(told, [(kept.into(), false), ("buffered".into(), true), (kept.into(), false)]);
    }
    assert_eq!(
        (site.events().len(), collector.set_rules(rules(&[("sen*", Choice::BUFFERED)])).unwrap().channels),
        (2, 0)
    );
    assert_eq!(site.events().len(), 2, "what changes nothing is no event");
}

#[test]
fn a_live_rule_holds_for_channels_that_are_opened_later_and_the_last_that_matches_decides() {
    let site = Site::new();
    let pool = pool(&site, &["send"]);
    let mut collector = Collector::start(site.settings()).unwrap();
    let both = [("*", Choice::NULL), ("s*", Choice::BUFFERED)];
    assert_eq!(collector.set_rules(rules(&both)).unwrap().channels, 0);
    let own = format!("{}x", tickscope_tick::own_points::CLOCK_BRACKET);
    for (serial, point) in [(1, "receive"), (2, "sent"), (3, own.as_str())] {
        pool.open_channel(serial, point, 1);
        pool.count_channels(serial + 1);
    }
    collector.look(Instant::now() + LIST_EVERY).unwrap();
    assert_eq!(policies(&collector), ["buffered", "null", "buffered", "buffered"]);
    let event = site.event("policy-switched");
    assert!(event.value == Some(1) && event.until > event.tick && event.text.contains("opened since"), "{event:?}");
    // Where nothing was opened nothing is looked at; later there is nothing to switch.
    collector.look(Instant::now() + 30 * LIST_EVERY).unwrap();
    assert_eq!(site.events().len(), 1);
}

#[test]
fn no_channel_is_switched_without_an_event_whichever_step_a_kill_follows() {
    for steps in 0..4 {
        let site = Site::new();
        let _pool = pool(&site, &["send"]);
        let mut killed = Collector::start_with(site.settings(), Steps::ending_after(steps)).unwrap();
        let done = killed.set_rules(rules(&[("send", Choice::NULL)]));
        let now = policies(&killed);
        drop(killed);
        let events = site.events();
        assert!(now == ["buffered"] || events.len() == 1, "{steps}: {now:?} {events:?}");
        assert!(now == ["buffered"] || !site.channels()[0].keeps_all(), "{steps}: what was switched proves nothing");
        assert_eq!(done.is_err(), events.first().is_none_or(|event| event.until.is_none()), "{steps}: {events:?}");
        let mut next = Collector::start(site.settings()).unwrap();
        let switched = next.set_rules(rules(&[("send", Choice::NULL)])).unwrap();
        assert_eq!((policies(&next), switched.channels), (vec!["null".into()], u64::from(now == ["buffered"])));
        let told: i64 = site.events().iter().filter_map(|event| event.value).sum();
        assert!(told == 1 || events.len() == 1, "{steps}: {:?}", site.events());
    }
}

#[test]
fn what_cannot_be_noted_is_not_switched() {
    let site = Site::new();
    let _pool = pool(&site, &["send"]);
    let mut collector = Collector::start(site.settings()).unwrap();
    std::fs::write(Paths::of(&site.run()).events(), "").unwrap();
    assert!(collector.set_rules(rules(&[("send", Choice::NULL)])).is_err());
    assert_eq!(policies(&collector), ["buffered"]);
}

#[test]
fn a_channel_that_was_opened_where_another_closed_gets_its_policy_back() {
    let site = Site::new();
    let pool = pool(&site, &["send"]);
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.look(Instant::now()).unwrap();
    let watched = &collector.pools[&7].pool;
    let due = watched.due(|_| Some((0, Choice::NULL)))[0];
    pool.open_in(0, 1, "other");
    assert_eq!(watched.switch(&due, Choice::NULL), Outcome::Strayed);
    assert_eq!(watched.policies(), [(1, "buffered".to_owned())].into());
    pool.set_entry(0, EntryState::Free);
    assert_eq!(watched.switch(&due, Choice::NULL), Outcome::Closed);
    pool.open_in(0, 0, "send");
    pool.set_entry(0, EntryState::Open);
    assert_eq!(
        (watched.switch(&due, Choice::NULL), watched.policies()),
        (Outcome::Done, [(0, "null".to_owned())].into())
    );
}

#[test]
fn the_channels_are_listed_with_their_rate_and_closed_ones_on_demand() {
    let site = Site::new();
    let pool = pool(&site, &["send", "receive"]);
    let every = Duration::from_millis(10);
    let mut collector = Collector::start(Settings { every, ..site.settings() }).unwrap();
    let mut now = Instant::now();
    for stamps in [1, 2, 4] {
        pool.fill(0, (0, 0), "send", &full(1)[..stamps]);
        collector.look(now).unwrap();
        now += Duration::from_secs(1);
    }
    let rates: Vec<_> = collector.channels_now(false).into_iter().map(|now| (now.channel.stored, now.rate)).collect();
    assert_eq!(rates, [(4, Some(1.5)), (0, Some(0.0))]);
    pool.set_entry(1, EntryState::Free);
    collector.look(now).unwrap();
    assert_eq!([false, true].map(|all| collector.channels_now(all).len()), [1, 2]);
    assert_eq!(collector.totals(), [1, 1, 4, 0]);
}

#[test]
fn a_pool_that_its_program_waited_for_is_an_event_with_both_ticks_and_one_of_its_channels() {
    let late = |pool: &Pool, from: i64, until: i64| {
        pool.damage(offset_of!(PoolHeader, late_from) as u64, &from.to_le_bytes());
        pool.damage(offset_of!(PoolHeader, late_until) as u64, &until.to_le_bytes());
    };
    let own = tickscope_tick::own_points::PROBE_REQUEST_SENT;
    for (point, from, until, is_told) in
        [("send", 100, 300, true), (own, 100, 300, false), ("send", 300, 100, false), ("send", 0, 0, false)]
    {
        let site = Site::new();
        let pool = Pool::make(&site.directory(), 7, 4).live();
        late(&pool, from, until);
        pool.open_channel(0, point, 1);
        pool.fill(0, (0, 0), point, &full(1)[..5]);
        site.collect();
        site.collect(); // by another collector: the same event
        let found: Vec<_> = site.events().into_iter().filter(|event| event.what == "pool-late").collect();
        assert_eq!(found.len(), usize::from(is_told), "{point} {from} {until}: {found:?}");
        for event in found {
            assert_eq!(
                (event.tick, event.until, event.channel),
                (Some(100), Some(300), Some(site.channels()[0].channel))
            );
            assert!(event.domain.is_some_and(|domain| domain.ends_with(".tsc")) && event.text.contains("process 4242"));
        }
    }
}

#[test]
fn what_a_program_says_of_its_readings_is_one_event_with_its_cost_also_of_a_program_that_was_killed() {
    let long = "x".repeat(READING_BYTES);
    for (said, ps, expected) in [
        (
            "the TSC, by JNI",
            9_250_i64,
            Some(("are of the TSC, by JNI; a reading took it 9.2 ns at its start", Some(9_250))),
        ),
        ("a clock", 0, Some(("are of a clock", None))),
        (&*long, -1, Some((&*long, None))),
        ("", 9_250, None),
    ] {
        let site = Site::new();
        let pool = Pool::make(&site.directory(), 7, 4);
        pool.damage(offset_of!(PoolHeader, reading_ps) as u64, &ps.to_le_bytes());
        pool.damage(offset_of!(PoolHeader, reading) as u64, said.as_bytes());
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &full(1)[..5]);
        site.collect();
        let found: Vec<_> = site.events().into_iter().filter(|event| event.what == "program-reading").collect();
        let found: Vec<_> = found.iter().map(|event| (&*event.text, event.value, event.channel)).collect();
        match expected {
            None => assert_eq!(found, []),
            Some((text, value)) => {
                assert_eq!(found.len(), 1, "{said}");
                assert!(found[0].0.starts_with("stamps of process 4242") && found[0].0.ends_with(text), "{found:?}");
                assert_eq!((found[0].1, found[0].2), (value, Some(site.channels()[0].channel)));
            }
        }
    }
}

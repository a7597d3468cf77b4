//! Collectors of several runs, one after another, over programs that live on.

use super::*;
use crate::clear;

impl Site {
    fn of_run(&self, run: &str) -> Settings {
        Settings { run: self.scratch.path().join(run), ..self.settings() }
    }

    fn ids(&self, run: &str) -> Vec<i64> {
        let folder = Paths::of(&self.scratch.path().join(run)).stamps(&"host.send".parse().unwrap());
        tickscope_store::PointStamps::open(&folder).unwrap().read_all().unwrap().id
    }

    fn stored(&self, run: &str) -> i64 {
        read_channels(&Paths::of(&self.scratch.path().join(run)).channels("host")).unwrap()[0].stored
    }

    fn elsewhere(&self, run: &str) -> Vec<Event> {
        let place = Paths::of(&self.scratch.path().join(run)).events();
        let files = tickscope_store::files_in(&place, "parquet").unwrap();
        let events = files.iter().flat_map(|file| read_events(file).unwrap());
        events.filter(|event| event.what == "stored-elsewhere").collect()
    }
}

fn once(settings: Settings) -> Report {
    Collector::start(settings).unwrap().once().unwrap()
}

#[test]
fn a_collector_for_another_run_stores_only_what_no_run_has_of_an_open_block() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    let (done, open) = (|id| Slot::Committed { id, tick: id }, Slot::Reserved { id: 0 });
    let mut slots = vec![done(1), open, done(3)];
    pool.fill(0, (0, 0), "send", &slots);
    assert_eq!(once(site.of_run("a")).stamps, 2);
    assert!(site.directory().join("stored").exists() && site.elsewhere("a").is_empty());
    slots.extend([done(4), open]);
    pool.fill(0, (0, 0), "send", &slots);
    assert_eq!([once(site.of_run("b")).stamps, once(site.of_run("b")).stamps], [1, 0]);
    (slots[1], slots[4]) = (done(2), done(5));
    pool.fill(0, (0, 0), "send", &slots);
    // A third run, of which nothing is stored; the first again.
    assert_eq!([once(site.of_run("c")).stamps, once(site.of_run("a")).stamps], [2, 0]);
    slots.push(done(6));
    pool.fill(0, (0, 0), "send", &slots);
    pool.kill();
    assert_eq!(once(site.of_run("a")).stamps, 1);
    assert_eq!([site.ids("a"), site.ids("b"), site.ids("c")], [vec![1, 3, 6], vec![4], vec![2, 5]]);
    assert_eq!(["a", "b", "c"].map(|run| site.stored(run)), [3, 1, 2]);
    let told = &site.elsewhere("b")[0];
    assert!(told.value == Some(2) && told.text.contains("/a (node host)"), "{told:?}");
    assert!(!site.directory().join("stored").exists(), "nothing lies there any more");
}

#[test]
fn full_blocks_that_wait_in_a_growing_segment_of_a_killed_collector_are_not_stored_in_another_run() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 64).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.fill(1, (0, 1), "send", &full(1000)[..5]);
    let mut killed = Collector::start(site.of_run("a")).unwrap();
    killed.look(Instant::now()).unwrap();
    drop(killed);
    assert!(!pool.is_zeroed(0));
    pool.fill(1, (0, 1), "send", &full(1000)[..7]);
    assert_eq!(once(site.of_run("b")).stamps, 2);
    assert_eq!(site.ids("b"), [1005, 1006]);
    assert!(pool.is_zeroed(0));
    assert_eq!(site.elsewhere("b")[0].value, Some(i64::from(SLOTS) + 5));
}

#[test]
fn a_note_goes_with_the_pools_it_names_whichever_step_a_kill_follows() {
    for steps in 0..20 {
        let site = Site::new();
        let mut pool = Pool::make(&site.directory(), 7, 4).live();
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &full(1)[..5]);
        let mut killed = Collector::start_with(site.slow_settings(), Steps::ending_after(steps)).unwrap();
        let start = Instant::now();
        let looked = killed.look(start);
        assert!(looked.is_err() || site.directory().join("stored").exists());
        pool.fill(0, (0, 0), "send", &full(1)[..7]);
        pool.kill();
        let _ = looked.and_then(|_| killed.look(start + Duration::from_secs(11)));
        drop(killed);
        once(site.settings());
        assert_eq!(site.stamps("send").id.len(), 7);
        assert!(!site.directory().join("stored").exists(), "left after {steps} steps");
    }
}

#[test]
fn a_note_of_what_is_stored_goes_with_its_directory_and_a_damaged_one_is_refused() {
    let site = Site::new();
    let note = site.directory().join("stored");
    std::fs::write(&note, "open 1 2\n").unwrap();
    let why = Collector::start(site.settings()).err().unwrap().to_string();
    assert!(why.contains("stored") && why.contains("Remove the file"), "{why}");
    assert!(clear(&site.directory()).unwrap().gone);
}

#[test]
fn a_pool_of_another_node_is_left_alone_and_told_unless_all_are_asked_for() {
    let site = Site::new();
    let pools = [(7, "alpha"), (8, "beta"), (9, "node")].map(|(instance, node)| {
        let pool = Pool::make(&site.directory(), instance, 4).live();
        pool.name_node(node);
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &full(1));
        pool
    });
    let names: Vec<_> = crate::node_names(&site.directory()).unwrap().into_iter().collect();
    assert_eq!(names.iter().map(tickscope_tick::NodeName::as_str).collect::<Vec<_>>(), ["alpha", "beta"]);
    let report = once(Settings { any_name: false, ..site.settings() });
    assert_eq!((report.stamps, report.left_alone), (2 * u64::from(SLOTS), 1));
    assert_eq!(pools.iter().filter(|pool| pool.is_zeroed(0)).count(), 2);
    assert!(site.event("pool-left-alone").text.contains("`--node NAME`"));
    assert_eq!(once(site.settings()).stamps, u64::from(SLOTS), "with a name all are collected");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn property_each_stamp_of_a_living_program_is_in_one_run_however_runs_change(
        rounds in prop::collection::vec((0usize..3, prop::collection::vec(0..SLOTS, 0..40), any::<bool>()), 1..8),
    ) {
        let site = Site::new();
        let mut pool = Pool::make(&site.directory(), 7, 8).live();
        pool.open_channel(0, "send", 1);
        let mut slots = vec![Slot::Reserved { id: 0 }; SLOTS as usize - 1];
        let runs = ["a", "b", "c"];
        for (run, committed, is_kept) in &rounds {
            for &slot in committed.iter().filter(|&&slot| slot < SLOTS - 1) {
                slots[slot as usize] = Slot::Committed { id: i64::from(slot) + 1, tick: i64::from(slot) + 1 };
            }
            pool.fill(0, (0, 0), "send", &slots);
            let mut collector = Collector::start(site.of_run(runs[*run])).unwrap();
            if *is_kept { collector.once().unwrap(); } else { collector.look(Instant::now()).unwrap(); }
        }
        pool.kill();
        once(site.of_run(runs[0]));
        let used = runs.iter().filter(|run| {
            Paths::of(&site.scratch.path().join(run)).stamps(&"host.send".parse().unwrap()).exists()
        });
        let mut stored: Vec<i64> = used.flat_map(|run| site.ids(run)).collect();
        stored.sort_unstable();
        let committed: Vec<i64> = slots.iter().filter_map(id).collect();
        prop_assert_eq!(stored, committed);
    }
}

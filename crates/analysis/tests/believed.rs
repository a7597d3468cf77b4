//! What a run says of itself is believed, and printed; or it is refused, with what contradicts it.

mod site;

use std::fs;

use site::{Site, Stamped, write};
use tickscope_analysis::{Analysis, Query, RunJson, analyse, assumptions, run_rho, what_matters};
use tickscope_show::stage_table;
use tickscope_store::{
    Assumption, BracketColumns, BracketSource, Channel, Event, Manifest, Pair, RhoDeclaration, Run, SameBoot, join_run,
    write_channels,
};
use tickscope_tick::BootId;

const PATH: [&str; 4] = ["client.send", "server.received", "server.reply", "client.response"];
const MESSAGES: [&str; 2] = ["client.send > server.received", "server.reply > client.response"];
const REQUESTS: i64 = 50;

/// A run of requests whose server's counter is `ahead` of the client's, with the probes' brackets; `told`: what its
/// `run.json` says otherwise than usual.
fn run(site: &Site, ahead: i64, messages: &[&str], told: impl FnOnce(&mut Manifest)) -> Run {
    let mut run = site.run(&PATH, messages);
    let mut manifest = run.manifest().clone();
    manifest.evidence.probes = true;
    told(&mut manifest);
    run.set_manifest(manifest).unwrap();
    let at = |offset: i64| (0..REQUESTS).map(|id| (id, 1_000_000_000 + id * 2_500_000 + offset)).collect::<Vec<_>>();
    let (send, received, reply, response) = (at(0), at(2_000 + ahead), at(3_000 + ahead), at(5_000));
    let of = |node, point, ordering, stamps| Stamped { node, point, ordering, clock: "tsc", stamps, lost: &[] };
    write(
        &run,
        &[
            of("client", "send", "before", &send),
            of("server", "received", "after", &received),
            of("server", "reply", "before", &reply),
            of("client", "response", "after", &response),
        ],
    );
    let mut brackets = BracketColumns::default();
    for (sent, at, received) in (0..send.len()).map(|row| (send[row].1, received[row].1, response[row].1)) {
        brackets.push(Some(sent + 1_900), at, None, BracketSource::ProbeRequest, "before/after");
        brackets.push(None, at, Some(received - 2_900), BracketSource::ProbeReply, "before/after");
    }
    let pair = Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() };
    run.add_brackets(&pair, "probes", &brackets).unwrap();
    join_run(&run, &run.manifest().layout.clone(), 1 << 20, &|_, _| true).unwrap();
    run
}

fn ask(run: &Run) -> Result<Analysis, tickscope_analysis::Error> {
    analyse(run, &Query::default(), false)
}

/// Writes a node's channels again, changed.
fn retell(run: &Run, node: &str, change: impl Fn(&mut Channel)) {
    let mut channels = run.channels().unwrap().found;
    channels.retain(|channel| channel.node == node);
    channels.iter_mut().for_each(change);
    write_channels(&run.paths().channels(node), &channels).unwrap();
}

fn one_boot(manifest: &mut Manifest) {
    manifest.nodes[1].boot = manifest.nodes[0].boot;
}

fn assumed(run: &Run, analysis: &Analysis, part: &str) -> Vec<(String, String)> {
    let all = assumptions(run.manifest(), analysis);
    all.into_iter().filter(|(statement, _)| statement.contains(part)).collect()
}

#[test]
fn stamps_of_another_boot_or_epoch_are_no_stamps_of_the_counter() {
    let site = Site::new();
    let run = run(&site, 0, &[], |_| {});
    let told = run.channels().unwrap().found[1].domain.clone();
    assert!(ask(&run).is_ok());
    for other in [told.replace("01", "09"), told.replace("/tsc/0", "/tsc/5"), told.replace("02", "07")] {
        if other == told {
            continue;
        }
        retell(&run, "client", |channel| {
            if channel.point == "response" {
                channel.domain.clone_from(&other);
            }
        });
        let refused = ask(&run).unwrap_err();
        assert!(refused.is_finding(), "{refused}");
        for part in ["channels/node=client.parquet", "client.response", &other, &told, "make a run of each"] {
            assert!(refused.to_string().contains(part), "'{part}' in: {refused}");
        }
        retell(&run, "client", |channel| channel.domain.clone_from(&told));
    }
    retell(&run, "client", |channel| channel.domain = "what/ever".into());
    let refused = ask(&run).unwrap_err();
    assert!(refused.to_string().contains("expected a domain: boot-id/counter/epoch, found 'what/ever'"), "{refused}");
}

#[test]
fn nodes_that_are_taken_to_share_a_counter_must_be_of_one_epoch() {
    let site = Site::new();
    let run = run(&site, 0, &[], one_boot);
    assert!(ask(&run).is_ok());
    retell(&run, "server", |channel| channel.domain = channel.domain.replace("/tsc/0", "/tsc/1"));
    assert!(ask(&run).unwrap_err().is_finding());
}

#[test]
fn one_boot_id_is_one_counter_only_as_far_as_the_brackets_between_the_nodes_allow_it() {
    // The brackets leave 100 ticks either way, the check of the cores 270, and a reading some more.
    for (ahead, is_one) in [(0, true), (369, true), (-369, true), (470, false), (-470, false), (1 << 40, false)] {
        let site = Site::new();
        let run = run(&site, ahead, &[], one_boot);
        match ask(&run) {
            Ok(analysis) => {
                assert!(is_one, "{ahead}");
                let told = assumed(&run, &analysis, "server.tsc and client.tsc are one counter");
                assert_eq!(told[0].1, "detected by boot id; checked against 100 brackets");
            }
            Err(refused) => {
                assert!(!is_one && refused.is_finding(), "{ahead}: {refused}");
                for part in ["found 50 of 100 brackets", "same_boot = \"ignore\"", "0101-"] {
                    assert!(refused.to_string().contains(part), "'{part}' in: {refused}");
                }
            }
        }
    }
}

#[test]
fn nodes_of_one_boot_that_are_declared_strangers_are_not_taken_for_one_counter() {
    let site = Site::new();
    let run = run(&site, 1 << 40, &[], |manifest| {
        one_boot(manifest);
        manifest.same_boot = SameBoot::Ignore;
    });
    let analysis = ask(&run).unwrap();
    assert_eq!((analysis.clock_maps.len(), analysis.one_counter.len()), (1, 0));
}

#[test]
fn messages_contradict_one_counter_too() {
    let site = Site::new();
    let run = run(&site, 1 << 20, &MESSAGES, |manifest| {
        one_boot(manifest);
        manifest.evidence.probes = false;
    });
    let refused = ask(&run).unwrap_err();
    assert!(refused.is_finding() && refused.to_string().contains("50 of 100 brackets"), "{refused}");
}

#[test]
fn messages_whose_channels_nobody_tells_of_are_no_evidence() {
    for missing in ["client", "server"] {
        let site = Site::new();
        let run = run(&site, 0, &MESSAGES, |_| {});
        assert_eq!(ask(&run).unwrap().clock_maps[0].sources.len(), 2);
        fs::remove_file(run.paths().channels(missing)).unwrap();
        let refused = ask(&run).unwrap_err().to_string();
        assert!(refused.contains(&format!("channels/node={missing}.parquet")), "{refused}");
        assert!(refused.contains("is ordered and what it lost, found no such channel"), "{refused}");
    }
    let site = Site::new();
    let run = run(&site, 0, &MESSAGES, |_| {});
    retell(&run, "server", |channel| channel.channel += 100);
    assert!(ask(&run).unwrap_err().to_string().contains("tell how channel 1, by which server.received"));
}

#[test]
fn a_counter_that_ran_backward_is_a_finding_also_where_nodes_share_it() {
    let site = Site::new();
    let run = run(&site, 0, &[], one_boot);
    let analysis = ask(&run).unwrap();
    let backward = |domain: &str| Event {
        node: "server".into(),
        domain: Some(domain.into()),
        what: tickscope_store::EventKind::ClockBackward,
        text: "it ran backward".into(),
        ..Event::default()
    };
    assert_eq!(analysis.finding(&[]), None);
    for domain in ["client.tsc", "server.tsc"] {
        assert_eq!(analysis.finding(&[backward(domain)]).as_deref(), Some("it ran backward"), "{domain}");
    }
    assert_eq!(analysis.finding(&[backward("server.realtime")]), None, "another clock than the counter");
}

#[test]
fn a_counter_that_is_not_invariant_is_a_finding_and_what_is_unusual_about_one_is_printed() {
    let site = Site::new();
    let run = run(&site, 0, &[], |manifest| {
        manifest.nodes[1].counter.invariant = false;
        manifest.nodes[0].counter.trapped = true;
        manifest.nodes[0].counter.clocksource = "hpet".into();
    });
    let analysis = ask(&run).unwrap();
    let finding = analysis.finding(&[]).unwrap();
    assert!(finding.starts_with("server.tsc: expected a counter that runs at one rate"), "{finding}");
    assert_eq!(serde_json::to_value(RunJson::of(&run, &analysis, &[])).unwrap()["findings"][0], finding);
    let shown = stage_table::Shown { run: &run, analysis: &analysis, rivals: &[], events: &[], channels: &[] };
    let text = stage_table::text(&shown, &stage_table::View::default());
    assert!(text.contains("finding: server.tsc: expected a counter"));
    for (part, origin) in
        [("traps into a hypervisor", "run.json: trapped"), ("time by hpet", "run.json: clocksource hpet")]
    {
        let told = assumed(&run, &analysis, part);
        assert_eq!(told.len(), 1, "{part}");
        assert!(told[0].0.contains("client.tsc") && told[0].1 == origin, "{told:?}");
    }
    let usual = Site::new();
    let run = self::run(&usual, 0, &[], |_| {});
    assert!(assumed(&run, &ask(&run).unwrap(), "hypervisor").is_empty());
}

#[test]
fn a_rho_declared_the_other_way_round_holds_for_the_pair() {
    let rho = |reference: &str, domain: &str, ppb| {
        let (reference, domain) = (reference.parse().unwrap(), domain.parse().unwrap());
        RhoDeclaration { reference, domain, ppb, origin: "declared".into(), kind: None }
    };
    // 1 / (1 - 10 %) is 11.1 % more: rounded up, never down.
    for (ppb, inverse) in [(0, 0), (200_000, 200_041), (1_000, 1_001), (1_000_000, 1_001_002), (90_000_000, 98_901_099)]
    {
        let site = Site::new();
        let run = run(&site, 0, &[], |manifest| manifest.rho = vec![rho("server.tsc", "client.tsc", ppb)]);
        assert_eq!(ask(&run).unwrap().clock_maps[0].rho.ppb(), inverse);
        assert_eq!(run_rho(run.manifest()).unwrap().ppb(), inverse, "the durations' folder is named by it");
    }
    let site = Site::new();
    let both = vec![rho("server.tsc", "client.tsc", 200_000), rho("client.tsc", "server.tsc", 70_000)];
    let run = run(&site, 0, &[], |manifest| manifest.rho = both);
    assert_eq!(ask(&run).unwrap().clock_maps[0].rho.ppb(), 200_041, "the narrower may be wrong");
    let beyond = Site::new();
    let run = self::run(&beyond, 0, &[], |manifest| manifest.rho = vec![rho("server.tsc", "client.tsc", 95_000_000)]);
    assert!(ask(&run).unwrap_err().to_string().contains("rho: expected"));
}

#[test]
fn a_clock_of_a_node_that_contradicts_itself_is_a_finding_and_a_larger_slew_would_help() {
    let site = Site::new();
    let run = run(&site, 0, &[], |_| {});
    retell(&run, "client", |channel| {
        if channel.point == "response" {
            channel.domain = channel.domain.replace("tsc", "realtime");
        }
    });
    let mut monitor = BracketColumns::default();
    for tick in (999_000_000..1_130_000_000).step_by(250_000) {
        let ends = if tick == 1_050_000_000 { (tick + 40, tick - 30) } else { (tick - 30, tick + 40) };
        monitor.push(Some(ends.0), tick * 2 / 5, Some(ends.1), BracketSource::Watch, "before/after");
    }
    run.add_brackets(
        &Pair { reference: "client.tsc".parse().unwrap(), domain: "client.realtime".parse().unwrap() },
        "watch",
        &monitor,
    )
    .unwrap();
    let analysis = ask(&run).unwrap();
    let finding = analysis.finding(&[]).unwrap();
    for part in ["client.realtime", "contradicts itself", "expected before <= after", "--slew"] {
        assert!(finding.contains(part), "'{part}' in: {finding}");
    }
    assert!(!finding.contains("rho"), "{finding}");
}

#[test]
fn proved_cores_add_the_largest_bound_of_all_nodes() {
    let of_an_old_run = Assumption { kind: None, ..Assumption::cores_proved() };
    for (bounds, proved) in [([270, 900], Assumption::cores_proved()), ([900, 270], of_an_old_run)] {
        let site = Site::new();
        let run = run(&site, 0, &[], |manifest| {
            one_boot(manifest);
            (0..2).for_each(|node| manifest.nodes[node].counter.sharing.bound_ticks = Some(bounds[node]));
            manifest.assumptions.push(proved.clone());
        });
        let analysis = ask(&run).unwrap();
        assert!(analysis.rows.iter().all(|row| row.core_ticks == 909), "{bounds:?}");
        let whole = analysis.rows.last().unwrap().p50.unwrap();
        assert!(whole.lo <= 5_000 - 900 && 5_000 + 900 <= whole.hi, "{whole:?}");
    }
    let unchecked = Site::new();
    let run = run(&unchecked, 0, &[], |manifest| {
        manifest.nodes[1].counter.sharing.bound_ticks = None;
        manifest.assumptions.push(Assumption::cores_proved());
    });
    assert!(ask(&run).unwrap_err().to_string().contains("expected a checked bound between the cores"));
}

#[test]
fn two_nodes_of_one_boot_that_declare_two_frequencies_are_refused() {
    for (more, is_one) in [(0, true), (200, true), (201, false), (1_400_000, false)] {
        let site = Site::new();
        let run = run(&site, 0, &[], |manifest| {
            one_boot(manifest);
            let hertz = manifest.nodes[0].counter.frequency.hertz;
            manifest.nodes[1].counter.frequency.hertz = hertz - hertz / 1_000_000 * more / 2;
            let tolerance_ppm = if more > 201 { 100 } else { 50 };
            manifest.nodes.iter_mut().for_each(|node| node.counter.frequency.tolerance_ppm = tolerance_ppm);
        });
        match ask(&run) {
            Ok(_) => assert!(is_one, "{more}"),
            Err(why) => assert!(!is_one && why.code() == 3 && why.to_string().contains("Hz"), "{more}: {why}"),
        }
    }
}

#[test]
fn boot_ids_of_two_machines_are_two_counters() {
    let site = Site::new();
    let run = run(&site, 1 << 40, &[], |manifest| manifest.nodes[1].boot = BootId([9; 16]));
    assert_eq!(ask(&run).unwrap().clock_maps.len(), 1);
}

/// What nobody checked is printed by default; what was checked, and what concerns no shown stage, is not.
#[test]
fn an_assumption_matters_where_a_bound_rests_on_it_and_nobody_checked_it() {
    let site = Site::new();
    let mut run = run(&site, 0, &[], |manifest| {
        manifest.nodes.iter_mut().for_each(|node| {
            node.counter.sharing.bound_ticks = Some(0);
            node.counter.fence_serialises = Some(true);
            node.counter.hypervisor = None;
        });
        let assume = |statement: &str| Assumption { statement: statement.into(), origin: "x".into(), kind: None };
        manifest.assumptions =
            ["the nodes are apart", "peers are honest, x", "no live migration, x"].map(assume).into();
    });
    let matter = |run: &Run, query: &Query| {
        let analysis = analyse(run, query, false).unwrap();
        let json = serde_json::to_value(RunJson::of(run, &analysis, &[])).unwrap();
        let all = json["assumptions"].as_array().unwrap().clone();
        let matter = all.iter().filter(|one| one["matters"] == true);
        let matter: Vec<String> = matter.map(|one| one["statement"].as_str().unwrap().into()).collect();
        let sentence = what_matters(run.manifest(), &analysis);
        (matter, sentence)
    };
    let has = |(all, _): &(Vec<String>, String), part: &str| all.iter().any(|one| one.contains(part));
    let declared = Query::under(Some("1".parse().unwrap()));
    let usual = matter(&run, &Query::under(Some("unknown".parse().unwrap())));
    assert!(
        has(&usual, "stays within rho") && usual.1.contains("the rate of server.tsc stays within rho (50 ppm"),
        "{usual:?}"
    );
    assert!(has(&usual, "peers are honest"), "its probes go from boot to boot: {usual:?}");
    for part in ["the nodes are apart", "no live migration", "fence", "runs at one rate", "quantiles", "seconds"] {
        assert!(!has(&usual, part), "{part}: {usual:?}");
    }
    assert!(!has(&matter(&run, &declared), "stays within rho"));
    let mut manifest = run.manifest().clone();
    manifest.nodes[0].counter.hypervisor = Some("KVM".into());
    manifest.nodes[0].counter.fence_serialises = None;
    manifest.nodes[0].counter.sharing.bound_ticks = Some(40);
    run.set_manifest(manifest).unwrap();
    let guest = matter(&run, &declared);
    for part in ["no live migration", "the fence of ordered stamps", "what that check of the cores leaves open"] {
        assert!(has(&guest, part), "{part}: {guest:?}");
    }
    assert!(guest.1.contains(" unchecked assumption") && guest.1.contains("the cores of a node"), "{guest:?}");
}

//! Known truth, end to end: two processes of one host read one counter, one of them through a known map.
//!
//! `docs/proof.md`, "Brackets": whenever rho covers the true wander, every true duration lies in its interval.

mod site;

use site::{Experiment, Site, count, few_or_all, truth};

const GIGATICKS: i64 = 1_000_000_000;
/// Half a swing in about four seconds, whatever the counter: from here on the rate is never constant during a run.
const PERIOD: i64 = 20 * GIGATICKS;

/// 0.8 ms in two seconds: far beyond the round trips of a slow machine, and below the 500 ppm that frequencies allow.
const DRIFT_PPB: i64 = 400_000;

/// Offset, drift, wander: the rate that the clock map must find is `1 + drift`, or one over it.
fn map(drifts: bool, wander_ppb: i64) -> [i64; 4] {
    if drifts { [GIGATICKS, DRIFT_PPB, wander_ppb, PERIOD] } else { [0, 0, wander_ppb, PERIOD] }
}

#[test]
fn e2e_every_true_duration_lies_in_its_interval() {
    let (mut packets, mut known_in_all, mut rounds) = (0, 0, 0);
    let each = [(false, "server"), (true, "client")].map(|side| [0, 100, 1000].map(|wander_ppb| (side, wander_ppb)));
    // Each once; where the machine loses packets, more often.
    let (wanted, seconds) = few_or_all((50_000, 2.0), (100_000, 4.0));
    while packets < wanted {
        rounds += 1;
        assert!(rounds <= 10, "{packets} whole packets after 10 rounds: nearly all are lost");
        for ((drifts, node), wander_ppb) in each.into_iter().flatten() {
            let site = Site::new("truth");
            let inject = Some((node, map(drifts, wander_ppb)));
            let experiment = Experiment { rho: "1", inject, ..Experiment::new(seconds, 5000) };
            let ran = site.run(&experiment);
            for table in [ran.json(0), site.show(&[]).json(0), site.show(&["--rho", "unknown"]).json(0)] {
                let (known, inside) = truth(&table);
                assert!(known > 0 && known == inside, "{inside} of {known} with {node}'s counter {inject:?}");
                assert_eq!(table["path_sums"]["mismatches"], 0);
                assert_eq!(table["findings"].as_array().unwrap().len(), 0);
            }
            let table = ran.json(0);
            let whole = count(&table, "end-to-end");
            assert!(truth(&table).0 >= 5 * whole, "every stage of every packet is held against the truth");
            packets += whole;
            known_in_all += truth(&table).0;
            if drifts {
                finds_the_rate(&table["clock_maps"][0]["slopes"], 1.0 + DRIFT_PPB as f64 / 1e9);
            }
            println!(
                "{node} {inject:?}: {whole} packets, known to {} ns, half the shortest round trip {} ns",
                table["clock_maps"][0]["half_width_ns"], table["clock_maps"][0]["half_round_trip_min_ns"]
            );
        }
    }
    println!("{packets} packets, {known_in_all} true durations, all inside");
}

/// The true rate is among the slopes, and that the clocks run alike is not.
fn finds_the_rate(slopes: &serde_json::Value, rate: f64) {
    let (slowest, fastest) = (slopes[0].as_f64().unwrap(), slopes[1].as_f64().unwrap());
    assert!(slowest <= rate && rate <= fastest && slowest > 1.0, "{rate} in [{slowest}, {fastest}]");
}

#[test]
fn e2e_a_truth_outside_its_interval_is_a_finding() {
    let site = Site::new("moved");
    let inject = Some(("server", map(true, 0)));
    let table = site.run(&Experiment { inject, ..Experiment::new(1.0, 200) }).json(0);
    let moved = |ticks: i64| {
        let mut run = site.opened();
        let mut manifest = run.manifest().clone();
        let injected = manifest.nodes.iter_mut().find_map(|node| node.injected.as_mut()).unwrap();
        let mut fields: Vec<i64> = injected.split(':').map(|field| field.parse().unwrap()).collect();
        fields[1] += ticks;
        *injected = fields.iter().map(i64::to_string).collect::<Vec<_>>().join(":");
        run.set_manifest(manifest).unwrap();
        run.write_digests().unwrap(); // not damaged, but wrong
    };
    // As if the server's counter had been that much behind: beyond any interval of this run. Ahead, its first readings
    // would be of a time before the map begins, whose truth nobody knows.
    // A counter that gains a tick in 2500 skips every 2501st value, and a reading of a skipped value has no truth.
    // Moved by whole periods of that, all readings keep theirs.
    const WHOLE_PERIODS: i64 = 400_000 * (1_000_000_000 / DRIFT_PPB + 1);
    moved(-WHOLE_PERIODS);
    let shown = site.show(&[]);
    shown.said(3, &["outside their intervals", "a false bound"]);
    let (known, inside) = truth(&shown.json(3));
    assert_eq!(known, truth(&table).0);
    // A reply that was lost has crossed one way alone.
    let crossed = ["client.send>server.received", "server.reply>client.response"].map(|stage| count(&table, stage));
    assert_eq!(known - inside, crossed.iter().sum::<u64>(), "one stage each way crosses between the nodes");
    moved(WHOLE_PERIODS);
    assert_eq!(truth(&site.show(&[]).json(0)), truth(&table));
}

#[test]
fn e2e_a_rho_far_below_the_wander_is_never_passed_over_in_silence() {
    let site = Site::new("dishonest");
    // A millisecond to both sides, which no round trips of a slow machine hide.
    let inject = Some(("server", [0, 0, 1_000_000, 20 * GIGATICKS]));
    let ran = site.run(&Experiment { rho: "0.01", inject, ..Experiment::new(10.0, 1000) });
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let told = ["no rate", "contradict", "outside", "inconsistent", "empty", "within rho"];
    assert!(told.iter().any(|word| ran.err.to_lowercase().contains(word)), "{}", ran.err);
    println!("{}", ran.err);
    // The evidence itself is sound: under an honest rho the same files give true bounds.
    let table = site.show(&["--rho", "1001"]).json(0);
    let (known, inside) = truth(&table);
    assert!(known > 0 && known == inside, "{inside} of {known}");
}

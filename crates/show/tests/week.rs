//! The example of a simulated week, cut short: the truth is known, so every method's interval is held against it.

#[path = "../examples/week.rs"]
mod week;

use tickscope_rivals::{NodeRivals, RivalBound, RivalMethod};

/// Long enough for the counter to wander up and down, and for the page to count in hours.
const SECONDS: i64 = 10 * 3600;

fn method<'a>(rivals: &'a [NodeRivals], name: &str) -> &'a RivalMethod {
    let methods = &rivals[0].methods;
    methods.iter().find(|method| method.name == name).unwrap_or_else(|| panic!("no {name} in {methods:?}"))
}

#[test]
fn the_truth_of_a_simulated_week_is_in_every_bound_but_the_published_one() {
    let root = std::env::temp_dir().join(format!("tickscope-week-{}", std::process::id()));
    let run = week::simulated(&root, SECONDS).unwrap();
    let (analysis, rivals, page) = week::page(&run).unwrap();
    let _ = std::fs::remove_dir_all(&root);
    let truth = analysis.truth.as_ref().unwrap();
    assert!(truth.known > 1000 && truth.inside == truth.known, "{truth:?}");
    let ntp = method(&rivals, "NTP, a daemon that asks every 64 s");
    let ours = method(&rivals, "tickscope");
    for method in [ours, ntp, method(&rivals, "the same two points, with rho")] {
        assert_eq!(method.outside, Some(0), "{method:?}");
    }
    let published = method(&rivals, "Min-RTT, two points");
    assert!(published.bound == RivalBound::Published && published.outside > Some(100), "{published:?}");
    // Both daemons' milliseconds add up.
    let [ours, ntp] = [ours, ntp].map(|method| method.half_width.unwrap());
    assert!(ours.median_ns < 60_000 && ntp.least_ns > Some(1_800_000), "{ours:?} {ntp:?}");
    assert!(page.contains("NTP, a daemon that asks every 64 s"));
    assert!(page.contains(">10 h<"), "the page counts in hours");
}

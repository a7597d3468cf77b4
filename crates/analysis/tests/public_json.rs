//! No bound in the public JSON lies inside the exact one, whoever reads it.

use std::collections::BTreeSet;

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use serde_json::{Value, json};
use tickscope_analysis::{Query, RunJson, VERSION, analyse};
use tickscope_rivals::{RivalBound, analyse_and_compare};
use tickscope_store::{Compared, Cost, Overhead, Passes, Run, StampCost};
use tickscope_tick::NodeName;

#[path = "site/any_analysis.rs"]
mod any_analysis;
#[path = "site/copied.rs"]
mod copied;
#[path = "site/keys.rs"]
mod keys;
use any_analysis::{any_analysis, exact, read};
use copied::Copied;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v1");

/// Every `X_ns` beside an `X_ticks`: a lower end is not above, whatever else is named so not below, read as the
/// decimal that stands there and as the double that a program makes of it.
fn held(value: &Value, hertz: u64) -> usize {
    let Value::Object(fields) = value else { panic!("an object, found {value}") };
    let mut found = 0;
    for (key, ns) in fields.iter().filter(|(key, _)| key.ends_with("_ns")) {
        let Some(ticks) = fields.get(&key.replace("_ns", "_ticks")) else { continue };
        let exact =
            exact(ticks.as_i64().map_or_else(|| ticks.as_u64().unwrap().into(), BigInt::from), hertz, 1_000_000_000);
        for ns in [read(&ns.to_string()), BigRational::from_float(ns.as_f64().unwrap()).unwrap()] {
            assert!(if key == "lo_ns" { ns <= exact } else { ns >= exact }, "{key}: {ns} of {exact}");
        }
        found += 1;
    }
    found
}

/// What measuring may have cost, every part of it.
fn cost(node: NodeName) -> Cost {
    let (name, pairs) = (node.clone(), vec![Passes { measured: 2.0, alone: 1.0 }; 10]);
    let node = serde_json::from_value(json!({"node": node, "ran_ns": 1, "stamps": 1})).unwrap();
    let fields = vec![Compared { node: name, field: "x_ns".into(), pairs }];
    let stamp = Some(StampCost { plain_ps: 1, before_ps: 1, after_ps: 1 });
    Cost { stamp, nodes: vec![node], overhead: Some(Overhead { pass_seconds: 1.0, fields }) }
}

/// Keys that this version once had, in `public_json_v1.txt`: new ones are added there, none is taken out.
#[test]
fn no_key_of_this_version_is_ever_removed_or_renamed() {
    let copied = Copied::new(1);
    copied.retell(|manifest| manifest.cost = Some(cost(manifest.nodes[0].name.clone())));
    let run = copied.run();
    let (analysis, rivals) = analyse_and_compare(&run, &Query::default(), false).unwrap();
    let events = run.events().unwrap().found;
    let table = serde_json::to_value(RunJson::beside(&run, &analysis, &events, &rivals)).unwrap();
    assert_eq!(table["version"], VERSION);
    let analysis = any_analysis::with_everything();
    let rivals = [any_analysis::rivals()];
    let everything = serde_json::to_value(RunJson::beside(&run, &analysis, &[], &rivals)).unwrap();
    keys::hold(include_str!("public_json_v1.txt"), &[table, everything]);
}

/// Names of this version, which programs ask for: what is told apart later in words keeps its name.
#[test]
fn bounds_of_methods_have_names() {
    use RivalBound::{Guaranteed, None, OfOneNode, Published, Stated};
    let named = [Guaranteed, Published, OfOneNode, Stated, None].map(|bound| serde_json::to_value(bound).unwrap());
    assert_eq!(named, ["guaranteed", "published", "published", "stated", "none"]);
    assert_eq!(OfOneNode.words(), "of one node");
}

#[test]
fn roles_have_names() {
    let run = Run::open(GOLDEN.as_ref()).unwrap();
    let table =
        serde_json::to_value(RunJson::of(&run, &analyse(&run, &Query::default(), false).unwrap(), &[])).unwrap();
    let roles: BTreeSet<_> = table["stages"].as_array().unwrap().iter().map(|stage| stage["role"].as_str()).collect();
    assert_eq!(roles, BTreeSet::from([Some("path"), Some("end-to-end"), Some("branch")]));
}

proptest! {
    #[test]
    fn property_no_bound_in_json_lies_inside_the_exact_one_read_as_decimal_or_as_double(analysis in any_analysis()) {
        let run = Run::open(GOLDEN.as_ref()).unwrap();
        // As a program gets it: printed, and read again.
        let json: Value = serde_json::from_str(&serde_json::to_string(&RunJson::of(&run, &analysis, &[])).unwrap()).unwrap();
        let hertz = analysis.frequency.hertz;
        let stage = &json["stages"][0];
        let parts = ["p50", "p99", "p999", "max", "mean", "common", "reading", "relative"];
        let parts = parts.map(|part| held(&stage[part], hertz));
        prop_assert_eq!(parts, [2; 8]);
        let share = &stage["share"];
        // The only stage is its own whole, of which it is all.
        let ratios = ["ratio", "lo_ratio", "hi_ratio"].map(|end| share[end].as_f64());
        prop_assert!(ratios == [Some(1.0); 3] || ratios == [None; 3], "{:?}", ratios);
        let clock_map = &json["clock_maps"][0];
        prop_assert_eq!((held(clock_map, hertz), held(&clock_map["sources"][0], hertz)), (1, 2));
        let (other_rho, clock) = (&analysis.clock_maps[0].other_rho[0], &analysis.auxiliary_clocks[0]);
        let own = &json["auxiliary_clocks"][0];
        for (ns, ticks, hertz) in [
            (&clock_map["other_rho"][0]["half_width_ns"], other_rho.1, hertz),
            (&own["half_width_ns"]["p50"], clock.half_width_ticks, clock.hertz),
            (&own["half_width_ns"]["p99"], clock.half_width_p99_ticks, clock.hertz),
            (&own["published"]["furthest_outside_ns"], Some(clock.published_furthest_ticks), clock.hertz),
        ] {
            held(&json!({"x_ns": ns, "x_ticks": ticks}), hertz);
        }
    }
}

//! No bound in the public JSON lies inside the exact one, whoever reads it.

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use serde_json::{Value, json};
use tickscope_analysis::public_json;
use tickscope_store::Run;

#[path = "site/any_analysis.rs"]
mod any_analysis;
use any_analysis::{any_analysis, exact, read};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v1");

/// Every `X_ns` beside an `X_ticks`: a lower end is not above, whatever else is named so not below, read as the decimal that
/// stands there and as the double that a program makes of it.
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

proptest! {
    #[test]
    fn property_no_bound_in_json_lies_inside_the_exact_one_read_as_decimal_or_as_double(analysis in any_analysis()) {
        let run = Run::open(GOLDEN.as_ref()).unwrap();
        // As a program gets it: printed, and read again.
        let json: Value = serde_json::from_str(&public_json::json(&run, &analysis, &[]).unwrap().to_string()).unwrap();
        let hertz = analysis.frequency.hertz;
        let stage = &json["stages"][0];
        let parts = ["p50", "p99", "common", "own", "relative"].map(|part| held(&stage[part], hertz));
        prop_assert_eq!(parts, [2, 2, 2, 2, 2]);
        let clock_map = &json["clock_maps"][0];
        prop_assert_eq!((held(clock_map, hertz), held(&clock_map["sources"][0], hertz)), (1, 2));
        let (beside, clock) = (&analysis.clock_maps[0].beside[0], &analysis.auxiliary_clocks[0]);
        let own = &json["own_clocks"][0];
        for (ns, ticks, hertz) in [
            (&clock_map["beside"][0]["half_width_ns"], beside.1, hertz),
            (&own["half_width_ns"]["p50"], clock.half_width_ticks, clock.hertz),
            (&own["half_width_ns"]["p99"], clock.half_width_p99_ticks, clock.hertz),
            (&own["published"]["furthest_outside_ns"], Some(clock.published_furthest_ticks), clock.hertz),
        ] {
            held(&json!({"x_ns": ns, "x_ticks": ticks}), hertz);
        }
    }
}

//! Reference answers of model `drift`, computed elsewhere in rationals by brute force:
//! `tests/conformance/bracket-vectors.json`.

use serde_json::Value;
use tickscope_bracket::{Bracket, ClockMap, Error, Model, Ratio, ReadingWidths, Rho};
use tickscope_tick::Tick;

const VECTORS: &str = include_str!("../../../tests/conformance/bracket-vectors.json");

struct Case {
    name: String,
    brackets: Vec<Bracket>,
    model: Model,
    /// `[r_min, r_max]` as fractions; `None`: no rate fits.
    slope: Option<[[i128; 2]; 2]>,
    consistent: bool,
    /// `[y, lo, hi]`.
    queries: Vec<[i64; 3]>,
}

fn cases() -> Vec<Case> {
    let all: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    all.iter().map(Case::read).collect()
}

impl Case {
    fn read(case: &Value) -> Self {
        let rows = |key: &str| case[key].as_array().unwrap().clone();
        let bracket = |row: &Value| Bracket::new(row[0].as_i64(), row[1].as_i64().unwrap(), row[2].as_i64());
        let part = |row: &Value| row.to_string().parse::<i128>().unwrap();
        let fraction = |row: &Value| [part(&row[0]), part(&row[1])];
        let number = |key: &str| case[key].as_u64().unwrap();
        Self {
            name: case["name"].as_str().unwrap().into(),
            brackets: rows("brackets").iter().map(bracket).collect(),
            model: Model {
                rho: Rho::declared_ppb(number("rho_ppb") as u32).unwrap(),
                nominal: Ratio::new(case["nominal"][0].as_u64().unwrap(), case["nominal"][1].as_u64().unwrap())
                    .unwrap(),
                prior_ppm: number("prior_ppm") as u32,
                anchor: Tick::new(case["anchor"].as_i64().unwrap()),
                widths: ReadingWidths::default(),
            },
            slope: case["slope"].as_array().map(|ends| [fraction(&ends[0]), fraction(&ends[1])]),
            consistent: case["verdict"] == "ok",
            queries: rows("queries").iter().map(|q| [0, 1, 2].map(|i| q[i].as_i64().unwrap())).collect(),
        }
    }
}

/// All equal: none is tighter, so none needs a proof.
#[test]
fn every_interval_of_the_vectors_is_met_exactly() {
    let (mut queries, mut equal) = (0, 0);
    for case in cases().iter().filter(|case| case.consistent) {
        let clock_map = ClockMap::new(&case.brackets, &case.model).unwrap();
        for &[y, lo, hi] in &case.queries {
            let interval = clock_map.interval(Tick::new(y)).unwrap();
            let (lo_off, hi_off) = (lo - interval.lo().get(), interval.hi().get() - hi);
            assert!((0..=1).contains(&lo_off) && (0..=1).contains(&hi_off), "{}: {interval:?} at {y}", case.name);
            queries += 1;
            equal += usize::from(lo_off == 0 && hi_off == 0);
        }
    }
    println!("{queries} intervals, {equal} equal");
    assert_eq!((queries, equal), (408, 408));
}

#[test]
fn every_slope_of_the_vectors_is_met_as_the_same_fraction() {
    for case in cases() {
        let Some(ends) = case.slope else { continue };
        let cone = ClockMap::new(&case.brackets, &case.model).unwrap().cone();
        let found = [cone.r_min(), cone.r_max()].map(|r| [r.numerator() as i128, r.denominator() as i128]);
        assert_eq!(found, ends, "{}", case.name);
    }
}

#[test]
fn every_inconsistent_vector_is_refused() {
    let refused = cases().into_iter().filter(|case| !case.consistent);
    let refusals: Vec<Error> = refused.map(|case| ClockMap::new(&case.brackets, &case.model).unwrap_err()).collect();
    assert_eq!(refusals.len(), 2);
    for refusal in refusals {
        println!("{refusal}");
        assert!(matches!(refusal, Error::Inconsistent(_)), "{refusal}");
    }
}

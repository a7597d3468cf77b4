//! The search of `tickscope sustain`, asked by another program: `search RATES bisection|linear TRIALS EXCEED-PPM`.
//!
//! Prints `try PLACE`, and reads what the trial of that rate said, `sustained`, `invalid` or another word; at the end
//! prints `found LOWER UPPER`, where `-` is an end that there is none of. `bench/sustain.py` simulates the trials.

use std::error::Error;
use std::io::stdin;

use tickscope_analysis::SustainVerdict;
use tickscope_experiment::SustainMethod;
use tickscope_experiment::search::{Goal, Search};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [rates, method, trials, exceed_ppm] = &words[..] else {
        return Err("expected RATES bisection|linear TRIALS EXCEED-PPM".into());
    };
    let method = if method == "linear" { SustainMethod::Linear } else { SustainMethod::Bisection };
    let goal = Goal { trials: trials.parse()?, exceed_ppm: exceed_ppm.parse()? };
    let mut search = Search::new(rates.parse()?, method, goal);
    while let Some(place) = search.next() {
        println!("try {place}");
        let mut said = String::new();
        stdin().read_line(&mut said)?;
        search.take(match said.trim() {
            "sustained" => SustainVerdict::Sustained,
            "invalid" => SustainVerdict::Invalid,
            _ => SustainVerdict::Backlog,
        });
    }
    let found = search.interval();
    let end = |place: Option<usize>| place.map_or("-".into(), |place| place.to_string());
    println!("found {} {}", end(found.lower), end(found.upper));
    Ok(())
}

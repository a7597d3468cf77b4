//! Outlier rules judged by truth: clean families with known detours. `cargo run --release --example outliers [tuned]`.
//!
//! Every case is one trace of one family at one rate of detours. Precision, recall, F1 and accuracy (share of samples on
//! their right side) are means over the cases that a rule accepts; coverage is the share of cases that it does. "F1 of all"
//! is over all cases: a rule that abstains removes nothing, which finds no detour, and is right on a clean trace. False
//! positives are the share of samples of clean traces called outliers: mean over the accepted ones, and the worst family;
//! "touched" is the share of those traces that lost any. "silent" is the share of cases that a rule accepted and left half
//! of the detours in, or more. `tuned` leaves out the families that are held out and the contaminated ones.

mod families;
mod random;
mod score;

use families::Family;
use score::{Case, Tally};
use tickscope_stats::{Rule, Sample};

/// Of rare detours: what rules are made for.
const RARE: &[f64] = &[0.0, 0.0004, 0.004, 0.015];
/// Of frequent ones.
const FREQUENT: &[f64] = &[0.0, 0.02, 0.05, 0.1, 0.2, 0.3];
const REPEATS: u64 = 15;
/// Families are told apart at this rate.
const SHOWN: usize = 2;

fn main() {
    judge("tuned on", &families::tuned_on(), RARE);
    if std::env::args().nth(1).as_deref() != Some("tuned") {
        judge("held out", &families::held_out(), RARE);
        judge("contaminated", &families::contaminated(), FREQUENT);
    }
}

fn judge(title: &str, families: &[Family], rates: &[f64]) {
    // By rule, rate and family.
    let mut cases = vec![vec![vec![Vec::new(); families.len()]; rates.len()]; Rule::NAMED.len()];
    for (number, family) in families.iter().enumerate() {
        for (rate, &detours) in rates.iter().enumerate() {
            for repeat in 0..REPEATS {
                let seed = (number as u64 * rates.len() as u64 + rate as u64) * REPEATS + repeat + 1;
                let trace = family.trace(detours, seed << 20);
                let sample = Sample::new(&trace.values).expect("a trace is a sample");
                for ((_, rule), cases) in Rule::NAMED.iter().zip(&mut cases) {
                    cases[rate][number].push(Case::of(&trace, rule.threshold(&sample).ok()));
                }
            }
        }
    }
    print_rules(title, families.len(), rates, &cases);
    print_families(title, families, rates, &cases);
}

fn print_rules(title: &str, families: usize, rates: &[f64], cases: &[Vec<Vec<Vec<Case>>>]) {
    println!("\n{title}: {families} families, {REPEATS} traces each");
    println!(
        "{:14}{:>8}{:>9}{:>10}{:>8}{:>8}{:>10}{:>11}{:>8}",
        "rule", "detours", "coverage", "precision", "recall", "F1", "accuracy", "F1 of all", "silent"
    );
    for ((name, _), by_rate) in Rule::NAMED.iter().zip(cases) {
        for (rate, by_family) in rates.iter().zip(by_rate).skip(1) {
            let Tally { coverage, precision, recall, f1, accuracy, f1_of_all, silent, .. } =
                Tally::of(by_family.iter().flatten());
            let rate = format!("{:.2} %", rate * 100.0);
            println!(
                "{name:14}{rate:>8}{coverage:>9.3}{precision:>10.3}{recall:>8.3}{f1:>8.3}{accuracy:>10.5}{f1_of_all:>11.3}{silent:>8.3}"
            );
        }
    }
    println!("{:14}{:>8}{:>9}{:>10}{:>10}{:>9}", "rule", "detours", "coverage", "FP mean", "FP worst", "touched");
    for ((name, _), by_rate) in Rule::NAMED.iter().zip(cases) {
        let all = Tally::of(by_rate[0].iter().flatten());
        let worst = by_rate[0].iter().map(|cases| Tally::of(cases.iter()).false_positives).fold(0.0, f64::max);
        let [mean, worst] = [all.false_positives, worst].map(|share| format!("{:.3} %", share * 100.0));
        println!("{name:14}{:>8}{:>9.3}{mean:>10}{worst:>10}{:>9.3}", "none", all.coverage, all.touched);
    }
}

fn print_families(title: &str, families: &[Family], rates: &[f64], cases: &[Vec<Vec<Vec<Case>>>]) {
    println!(
        "\n{title}, F1 at {} % detours on accepted traces (share accepted), then false positives on clean traces in %",
        rates[SHOWN] * 100.0
    );
    print!("{:31}{:>6}{:>7}", "family", "step", "MC");
    Rule::NAMED.iter().for_each(|(name, _)| print!("{name:>22}"));
    println!();
    for (number, family) in families.iter().enumerate() {
        let clean = Sample::new(&family.trace(0.0, 1).values).expect("a trace is a sample");
        print!("{:31}{:>6}{:>7.2}", family.name, family.step(), clean.medcouple().value());
        for by_rate in cases {
            let (noisy, clean) = (Tally::of(by_rate[SHOWN][number].iter()), Tally::of(by_rate[0][number].iter()));
            let false_positives = shown(clean.false_positives * 100.0, 3);
            print!("{:>22}", format!("{} ({:.2}) {false_positives:>6}", shown(noisy.f1, 2), noisy.coverage));
        }
        println!();
    }
}

/// A mean of no cases is none.
fn shown(mean: f64, digits: usize) -> String {
    if mean.is_nan() { "-".into() } else { format!("{mean:.digits$}") }
}

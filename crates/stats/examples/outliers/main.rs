//! Outlier rules judged by truth: clean families with known detours. `cargo run --release --example outliers [tuned]`.
//!
//! Every case is one trace of one family at one rate of detours. Precision, recall, F1 and accuracy (share of samples
//! on their right side) are means over the cases that a rule accepts; coverage is the share of cases that it does. "F1
//! of all" is over all cases: a rule that abstains removes nothing, which finds no detour, and is right on a clean
//! trace. False positives are the share of samples of clean traces called outliers: mean over the accepted ones, and
//! the worst family; "touched" is the share of those traces that lost any. "silent" is the share of cases that a rule
//! accepted and left half of the detours in, or more. `gap-or-tail` finds the step of the counter by itself,
//! `step-told` is told it; `as-advised` does what an abstention of that says to whoever must have an answer. `tuned`
//! leaves out all but the 18.

mod families;
mod random;
mod score;

use std::num::NonZeroU64;

use families::{CONTAMINATED_SEED, Family, SETTLED_SEED, Trace};
use score::{Case, Tally};
use tickscope_stats::{Rule, Sample, Why};

/// Of rare detours: what rules are made for.
const RARE: &[f64] = &[0.0, 0.0004, 0.004, 0.015];
/// Of frequent ones.
const FREQUENT: &[f64] = &[0.0, 0.02, 0.05, 0.1, 0.2, 0.3];
const REPEATS: u64 = 15;
/// Families are told apart at this rate.
const SHOWN: usize = 2;

/// Cases by rule, rate and family.
type Judged = Vec<Vec<Vec<Vec<Case>>>>;
/// The threshold for a sample whose clock has this step.
type Upper = fn(&Sample, NonZeroU64) -> Option<i64>;
/// Rules to judge, by name.
type Judge = (&'static str, Upper);

const JUDGES: [Judge; 7] = [
    ("gap-or-tail", |sample, _| upper(Rule::GapOrTail, sample, None)),
    ("step-told", |sample, step| upper(Rule::GapOrTail, sample, Some(step))),
    ("as-advised", |sample, step| as_advised(sample, step)),
    ("ipad", |sample, _| upper(Rule::IPAD, sample, None)),
    ("tukey", |sample, _| upper(Rule::Tukey, sample, None)),
    ("one-sided", |sample, _| upper(Rule::OneSided, sample, None)),
    ("adjusted", |sample, _| upper(Rule::Adjusted, sample, None)),
];

fn upper(rule: Rule, sample: &Sample, step: Option<NonZeroU64>) -> Option<i64> {
    rule.threshold(sample, step).ok().map(|threshold| threshold.upper)
}

/// For whoever must have an answer, and takes all that stands apart for noise.
fn as_advised(sample: &Sample, step: NonZeroU64) -> Option<i64> {
    match Rule::GapOrTail.threshold(sample, Some(step)) {
        Ok(threshold) => Some(threshold.upper),
        Err(abstention) => match (abstention.why, abstention.instead) {
            (Why::Frequent { above, .. }, _) => Some(above),
            (_, instead) => instead.and_then(|rule| upper(rule, sample, Some(step))),
        },
    }
}

/// Sizes of samples that the default rule abstains from.
const SMALL: [usize; 4] = [10, 30, 100, 399];
const SMALL_RATES: [f64; 3] = [0.004, 0.02, 0.05];
/// The first of the judges that answer small samples.
const SMALL_JUDGES: usize = 2;

fn main() {
    let tuned_on = judge("tuned on", &families::tuned_on(), RARE);
    if std::env::args().nth(1).as_deref() == Some("tuned") {
        return;
    }
    let held_out = judge("held out", &families::held_out(), RARE);
    let contaminated = judge("contaminated", &families::contaminated(CONTAMINATED_SEED), FREQUENT);
    judge("drawn again", &families::contaminated(SETTLED_SEED), FREQUENT);
    print_all(&[tuned_on, held_out, contaminated]);
    judge_small();
}

fn judge(title: &str, families: &[Family], rates: &[f64]) -> Judged {
    let mut cases = vec![vec![vec![Vec::new(); families.len()]; rates.len()]; JUDGES.len()];
    for (number, family) in families.iter().enumerate() {
        for (rate, &detours) in rates.iter().enumerate() {
            for repeat in 0..REPEATS {
                let seed = (number as u64 * rates.len() as u64 + rate as u64) * REPEATS + repeat + 1;
                let trace = family.trace(detours, seed << 20);
                let sample = Sample::new(&trace.values).expect("a trace is a sample");
                for ((_, upper), cases) in JUDGES.iter().zip(&mut cases) {
                    cases[rate][number].push(Case::of(&trace, upper(&sample, family.step())));
                }
            }
        }
    }
    print_rules(title, families.len(), rates, &cases);
    print_families(title, families, rates, &cases);
    cases
}

/// Table that the default is chosen by: every family at every rate that it was judged at, each trace counted once.
fn print_all(groups: &[Judged]) {
    println!("\nall 42 families, {REPEATS} traces each at every rate");
    println!(
        "{:14}{:>10}{:>9}{:>10}{:>8}{:>8}{:>8}{:>10}{:>10}{:>9}",
        "rule", "F1 of all", "coverage", "precision", "recall", "F1", "silent", "FP mean", "FP worst", "touched"
    );
    for (number, (name, _)) in JUDGES.iter().enumerate() {
        let groups = || groups.iter().map(|group| &group[number]);
        let noisy = Tally::of(groups().flat_map(|rates| rates[1..].iter().flatten().flatten()));
        let clean = Tally::of(groups().flat_map(|rates| rates[0].iter().flatten()));
        let worst = groups().flat_map(|rates| &rates[0]).map(|cases| Tally::of(cases.iter()).false_positives);
        let [mean, worst] =
            [clean.false_positives, worst.fold(0.0, f64::max)].map(|share| format!("{:.3} %", share * 100.0));
        println!(
            "{name:14}{:>10.3}{:>9.3}{:>10.3}{:>8.3}{:>8.3}{:>8.3}{mean:>10}{worst:>10}{:>9.3}",
            noisy.f1_of_all, noisy.coverage, noisy.precision, noisy.recall, noisy.f1, noisy.silent, clean.touched
        );
    }
}

fn print_rules(title: &str, families: usize, rates: &[f64], cases: &Judged) {
    println!("\n{title}: {families} families, {REPEATS} traces each");
    println!(
        "{:14}{:>8}{:>9}{:>10}{:>8}{:>8}{:>10}{:>11}{:>8}",
        "rule", "detours", "coverage", "precision", "recall", "F1", "accuracy", "F1 of all", "silent"
    );
    for ((name, _), by_rate) in JUDGES.iter().zip(cases) {
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
    for ((name, _), by_rate) in JUDGES.iter().zip(cases) {
        let all = Tally::of(by_rate[0].iter().flatten());
        let worst = by_rate[0].iter().map(|cases| Tally::of(cases.iter()).false_positives).fold(0.0, f64::max);
        let [mean, worst] = [all.false_positives, worst].map(|share| format!("{:.3} %", share * 100.0));
        println!("{name:14}{:>8}{:>9.3}{mean:>10}{worst:>10}{:>9.3}", "none", all.coverage, all.touched);
    }
}

fn print_families(title: &str, families: &[Family], rates: &[f64], cases: &Judged) {
    println!(
        "\n{title}, F1 at {} % detours on accepted traces (share accepted), then false positives on clean traces in %",
        rates[SHOWN] * 100.0
    );
    print!("{:31}{:>6}{:>7}", "family", "step", "MC");
    JUDGES.iter().for_each(|(name, _)| print!("{name:>22}"));
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

/// Where the default rule abstains from too few values: the first ones of every family's traces, by the rules that
/// don't.
fn judge_small() {
    let families = [families::tuned_on(), families::held_out(), families::contaminated(CONTAMINATED_SEED)].concat();
    println!(
        "\nsmall: F1 of all {} families, {REPEATS} traces each, by number of values and share of detours",
        families.len()
    );
    print!("{:14}", "rule");
    let columns = || SMALL.iter().flat_map(|&count| SMALL_RATES.iter().map(move |&rate| (count, rate)));
    columns().for_each(|(count, rate)| print!("{:>12}", format!("{count}: {:.1} %", rate * 100.0)));
    println!();
    for &(name, upper) in &JUDGES[SMALL_JUDGES..] {
        print!("{name:14}");
        for (count, rate) in columns() {
            let cases: Vec<Case> = families
                .iter()
                .zip(0..)
                .flat_map(|(family, number)| {
                    let of = move |repeat| small_case(family, number * REPEATS + repeat + 1, count, rate, upper);
                    (0..REPEATS).filter_map(of)
                })
                .collect();
            print!("{:>12.2}", Tally::of(cases.iter()).f1_of_all);
        }
        println!();
    }
}

/// `None` where no value holds a detour: every rule that removes nothing is right there.
fn small_case(family: &Family, number: u64, count: usize, rate: f64, upper: Upper) -> Option<Case> {
    let Trace { values, detour } = family.trace(rate, (number << 20) + 1);
    let trace = Trace { values: values[..count].to_vec(), detour: detour[..count].to_vec() };
    let sample = Sample::new(&trace.values).expect("a trace is a sample");
    trace.detour.contains(&true).then(|| Case::of(&trace, upper(&sample, family.step())))
}

/// A mean of no cases is none.
fn shown(mean: f64, digits: usize) -> String {
    if mean.is_nan() { "-".into() } else { format!("{mean:.digits$}") }
}

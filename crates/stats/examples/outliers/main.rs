//! Outlier rules judged by truth: clean families with known detours. `cargo run --release --example outliers`.

mod families;
mod random;

fn main() {
    for family in [families::tuned_on(), families::held_out()].concat() {
        let trace = family.trace(0.004, 1);
        let mut sorted = trace.values.clone();
        sorted.sort_unstable();
        let hits = trace.detour.iter().filter(|&&hit| hit).count();
        println!(
            "{}, {family:?}: {} {} {}, {hits} detours",
            family.name,
            sorted[0],
            sorted[sorted.len() / 2],
            sorted[sorted.len() - 1]
        );
    }
}

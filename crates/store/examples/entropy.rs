//! How many bytes a stamp takes in a run's segments, beside how many its tick and its id hold information for.
//!
//! `entropy RUN` prints one line of JSON a point. The estimator: of a column's first and second differences (in the
//! order stored), the entropy of a piecewise uniform density over log-linear classes, 8 an octave and sign: H(class)
//! plus the mean of log2(width of class); the smaller of the two. Entropies of tick and id are added. It knows no
//! model beyond that (no dependence between neighbours or between points), so a cleverer code could go lower; one
//! that treats differences as independent cannot, but for what the classes smooth over.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use tickscope_store::{PointStamps, Run};

/// Classes an octave, as bits.
const FINENESS: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::args().nth(1).ok_or("expected a run's directory")?;
    let run = Run::open(Path::new(&root))?;
    for node in run.nodes()? {
        for point in run.points(&node)? {
            print(&format!("{node}.{point}"), &run.stamps(&format!("{node}.{point}").parse()?)?)?;
        }
    }
    Ok(())
}

fn print(name: &str, stamps: &PointStamps) -> Result<(), Box<dyn Error>> {
    let all = stamps.read_all()?;
    let sizes: Result<Vec<u64>, _> = stamps.segments().iter().map(|s| Ok(s.path().metadata()?.len())).collect();
    let bytes: u64 = sizes.map_err(|e: std::io::Error| e)?.iter().sum();
    let (tick_bits, id_bits) = (bits(&all.tick), bits(&all.id));
    println!(
        "{{\"point\": \"{name}\", \"stamps\": {}, \"segments\": {}, \"bytes\": {bytes}, \"tick_bits\": {tick_bits:.3}, \"id_bits\": {id_bits:.3}}}",
        all.len(),
        stamps.segments().len()
    );
    Ok(())
}

/// Bits a row that a column's differences hold.
fn bits(column: &[i64]) -> f64 {
    let first = differences(column);
    entropy(&first).min(entropy(&differences(&first)))
}

fn differences(column: &[i64]) -> Vec<i64> {
    column.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect()
}

/// Differences are taken from their median, which is told once: a constant step costs nothing.
fn entropy(values: &[i64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let mut classes: HashMap<(bool, u64), (u64, u32)> = HashMap::new();
    for value in values {
        let distance = value.abs_diff(median);
        let width_bits = distance.checked_ilog2().unwrap_or(0).saturating_sub(FINENESS);
        let class = (value < &median, distance >> width_bits << width_bits);
        classes.entry(class).or_insert((0, width_bits)).0 += 1;
    }
    let count = values.len() as f64;
    let share = |of: u64| of as f64 / count;
    classes.values().map(|&(of, width_bits)| share(of) * (f64::from(width_bits) - share(of).log2())).sum()
}

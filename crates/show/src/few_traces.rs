//! Quantiles of so few traces that they are the longest of them, which is said wherever one is shown.

use tickscope_trace::Quantile;

/// The quantiles of a table for which no others are asked.
pub(crate) const USUAL: [(&str, Quantile); 3] =
    [("p50", Quantile::MEDIAN), ("p99", Quantile::P99), ("p99.9", Quantile::P999)];

/// `longest of 100`; nothing of a quantile that has traces above it, or is asked for as the longest.
pub(crate) fn longest(quantile: Quantile, count: u64) -> Option<String> {
    quantile.is_largest_of(count).then(|| format!("longest of {count}"))
}

/// A line below a table with these quantiles: `p99, p99.9 = longest of 50`, with the rows where it is not so of all.
/// A row is its name and its count.
pub(crate) fn remark(rows: &[(&str, u64)], quantiles: &[(&str, Quantile)]) -> Option<String> {
    let mut said: Vec<(Vec<&str>, String)> = Vec::new();
    for &(name, quantile) in quantiles {
        let few: Vec<(&str, u64)> = rows.iter().copied().filter(|(_, count)| quantile.is_largest_of(*count)).collect();
        let counts = few.iter().map(|(_, count)| *count);
        let Some((least, most)) = counts.clone().min().zip(counts.max()) else { continue };
        let mut words =
            if least == most { format!("longest of {most}") } else { format!("longest of {least} to {most}") };
        if few.len() < rows.iter().filter(|(_, count)| *count > 0).count() {
            let names: Vec<&str> = few.iter().map(|(name, _)| *name).collect();
            words += &format!(" in {}", names.join(", "));
        }
        match said.iter_mut().find(|(_, known)| *known == words) {
            Some((names, _)) => names.push(name),
            None => said.push((vec![name], words)),
        }
    }
    let said: Vec<String> = said.iter().map(|(names, words)| format!("{} = {words}", names.join(", "))).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

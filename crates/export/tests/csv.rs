//! The CSV of a run, read back, is what the cached durations are: every trace, every stage, missing ones too.

#[path = "../../analysis/tests/site/copied.rs"]
mod copied;

use std::collections::BTreeMap;

use copied::{Copied, FILE};
use tickscope_analysis::{Query, Scan, analyse, durations};
use tickscope_export::{CSV, write};
use tickscope_store::KeyedReader;

/// The lines of an export, each split at its commas.
fn exported(copied: &Copied) -> (Vec<Vec<String>>, [u64; 5]) {
    let mut text = Vec::new();
    let rows = write(&Scan::of(&copied.run(), &Query::default()).unwrap(), &mut text, &CSV, "memory").unwrap();
    let text = String::from_utf8(text).unwrap();
    (text.lines().map(|line| line.split(',').map(String::from).collect()).collect(), rows)
}

/// A whole number of thousandths, from a decimal with three places.
fn thousandths(text: &str) -> i128 {
    let (whole, part) = text.split_once('.').unwrap();
    assert_eq!(part.len(), 3, "{text}");
    format!("{whole}{part}").parse().unwrap()
}

#[test]
fn every_duration_is_in_the_csv_as_it_is_in_the_cache_and_every_bound_outward() {
    let copied = Copied::new(3);
    copied.lose_stamps();
    // At the golden run's 2.5 GHz every tick is a whole number of thousandths.
    copied.retell(|manifest| manifest.nodes.iter_mut().for_each(|node| node.counter.frequency.hertz = 2_299_998_035));
    let analysis = analyse(&copied.run(), &Query::default(), false).unwrap();
    let hertz = i128::from(analysis.frequency.hertz);
    let (lines, counts) = exported(&copied);
    assert_eq!(lines[0].len(), 11);
    let folder = durations(&copied.run(), None, &copied.0.join("aside")).unwrap();
    let cached = KeyedReader::open(&folder.join(FILE)).unwrap();
    let (names, rows) = (cached.names().to_vec(), cached.read_all().unwrap());
    let columns: BTreeMap<_, Vec<_>> =
        names.iter().zip(&rows.columns).map(|(name, column)| (name.as_str(), column.iter().collect())).collect();
    let mut lines = lines.into_iter().skip(1);
    let mut by_outcome = BTreeMap::<String, u64>::new();
    #[allow(clippy::needless_range_loop, reason = "a row is an index into several columns")]
    for row in 0..rows.len() {
        for stage in &analysis.rows {
            let line = lines.next().expect("a line for every trace and stage");
            let key = [rows.kind[row].to_string(), rows.id[row].to_string(), rows.occurrence[row].to_string()];
            assert_eq!((&line[..3], line[3].as_str()), (&key[..], stage.name.as_str()));
            *by_outcome.entry(line[4].clone()).or_default() += 1;
            let value = |end: &str| columns[format!("{}{end}", stage.name).as_str()][row].copied();
            let expected = ["", ".lo", ".hi"].map(value);
            let shown = [5, 6, 7].map(|at| line[at].parse::<i64>().ok());
            assert_eq!(shown, expected, "{line:?}");
            let [Some(_), Some(lo), Some(hi)] = expected else {
                assert!(line[5..].iter().all(String::is_empty) && line[4] == "missing", "{line:?}");
                continue;
            };
            let exact = |ticks: i64| i128::from(ticks) * 1_000_000_000_000;
            let (lo_ns, hi_ns) = (thousandths(&line[9]) * hertz, thousandths(&line[10]) * hertz);
            assert!(lo_ns <= exact(lo) && exact(lo) < lo_ns + hertz, "{line:?}");
            assert!(hi_ns >= exact(hi) && exact(hi) > hi_ns - hertz, "{line:?}");
        }
    }
    assert_eq!(lines.next(), None);
    let of = |name: &str| by_outcome.get(name).copied().unwrap_or(0);
    assert_eq!(counts, ["measured", "impossible", "repeated", "missing", "refused"].map(of));
    let missing: u64 = analysis.rows.iter().map(|row| row.missing).sum();
    assert!(missing > 0 && of("missing") == missing && of("impossible") > 0, "{by_outcome:?}");
}

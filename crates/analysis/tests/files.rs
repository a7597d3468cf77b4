//! How a run's traces are cut into files is no part of its figures, and durations are kept for what they were derived from.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tickscope_analysis::{Query, analyse, durations, public_json};
use tickscope_bracket::Rho;
use tickscope_store::{Assumption, KeyedReader, KeyedRows, KeyedWriter, Manifest, Run};

const FILE: &str = "part-00000000.parquet";

/// A copy of the golden run, gone when dropped; no two of its traces take equally long, and some less than no time.
struct Copied(PathBuf);

impl Copied {
    fn new(files: usize) -> Self {
        static COPIES: AtomicU32 = AtomicU32::new(0);
        let name = format!("tickscope-analysis-{}-{}", std::process::id(), COPIES.fetch_add(1, Relaxed));
        let copied = Self(std::env::temp_dir().join(name));
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/golden/v1"), &copied.0);
        copied.cut_traces(files);
        copied
    }

    fn run(&self) -> Run {
        Run::open(&self.0).unwrap()
    }

    /// Writes `run.json` again, changed.
    fn retell(&self, change: impl FnOnce(&mut Manifest)) {
        let mut run = self.run();
        let mut manifest = run.manifest().clone();
        change(&mut manifest);
        run.set_manifest(manifest).unwrap();
    }

    /// Writes the traces again, as so many files.
    fn cut_traces(&self, files: usize) {
        let folder = self.0.join("traces");
        let reader = KeyedReader::open(&folder.join(FILE)).unwrap();
        let (names, all) = (reader.names().to_vec(), reader.read_all().unwrap());
        let rows_a_file = all.len().div_ceil(files);
        for (number, first) in (0..all.len()).step_by(rows_a_file).enumerate() {
            let rows = some(&all, &(first..all.len().min(first + rows_a_file)).collect::<Vec<_>>());
            let place = folder.join(format!("part-{number:08}.parquet"));
            let mut writer = KeyedWriter::begin(&place, &names, &[]).unwrap();
            writer.write(rows).unwrap();
            writer.finish().unwrap();
        }
    }

    fn figures(&self, rho: Option<Rho>) -> serde_json::Value {
        let run = self.run();
        let analysis = analyse(&run, &Query::under(rho), false).unwrap();
        let mut figures = public_json::json(&run, &analysis, &[]).unwrap();
        figures["run"].take(); // where it lies
        figures
    }

    fn durations(&self, rho: Option<Rho>) -> (PathBuf, KeyedRows) {
        let folder = durations(&self.run(), rho, &self.0.join("aside")).unwrap();
        let rows = KeyedReader::open(&folder.join(FILE)).unwrap().read_all().unwrap();
        (folder, rows)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// These rows; each arrives at the last point later than the one before, but each 9th long before it left.
fn some(all: &KeyedRows, rows: &[usize]) -> KeyedRows {
    let columns = all.columns.iter().enumerate().map(|(point, column)| {
        let column: Vec<_> = column.iter().map(Option::<&i64>::copied).collect();
        let late = |row: usize| match (point, row % 9) {
            (2, 4) => -1_000_000,
            (2, _) => 13 * row as i64,
            _ => 0,
        };
        rows.iter().map(|&row| column[row].map(|tick| tick + late(row))).collect()
    });
    KeyedRows {
        kind: rows.iter().map(|&row| all.kind[row]).collect(),
        id: rows.iter().map(|&row| all.id[row]).collect(),
        occurrence: rows.iter().map(|&row| all.occurrence[row]).collect(),
        columns: columns.collect(),
        ..KeyedRows::default()
    }
}

#[test]
fn the_table_does_not_depend_on_how_traces_are_cut_into_files() {
    let whole = Copied::new(1).figures(None);
    assert!(whole["stages"][1]["impossible"].as_u64().unwrap() > 16, "{whole}");
    assert!(whole["findings"].as_array().unwrap().len() > 1);
    for files in [2, 3, 7] {
        assert_eq!(Copied::new(files).figures(None), whole, "{files} files");
    }
}

#[test]
fn durations_do_not_depend_on_how_traces_are_cut_into_files() {
    let whole = Copied::new(1).durations(None).1;
    for files in [2, 5] {
        assert_eq!(Copied::new(files).durations(None).1, whole, "{files} files");
    }
}

#[test]
fn durations_are_kept_in_the_run_by_rho() {
    let (copied, lab) = (Copied::new(1), "lab".parse::<Rho>().unwrap());
    let (folder, rows) = copied.durations(Some(lab));
    assert_eq!(folder, copied.0.join("durations/rho=0.2ppm"));
    assert_ne!(rows, copied.durations(None).1);
    let written = || fs::metadata(folder.join(FILE)).unwrap().modified().unwrap();
    let first = written();
    assert_eq!(copied.durations(Some("0.2".parse().unwrap())), (folder.clone(), rows));
    assert_eq!(written(), first);
}

#[test]
fn durations_of_other_traces_are_not_taken_for_these() {
    let copied = Copied::new(1);
    let all = copied.durations(None).1;
    let place = copied.0.join("traces").join(FILE);
    let names = KeyedReader::open(&place).unwrap().names().to_vec();
    let kept = KeyedReader::open(&place).unwrap().read_all().unwrap();
    let mut writer = KeyedWriter::begin(&place, &names, &[]).unwrap();
    writer.write(some(&kept, &(10..kept.len()).collect::<Vec<_>>())).unwrap();
    writer.finish().unwrap();
    assert_eq!(copied.durations(None).1.id, all.id[10..]);
}

#[test]
fn durations_of_other_evidence_are_not_taken_for_todays() {
    let copied = Copied::new(1);
    let before = copied.durations(None).1;
    let (run, pair) = (copied.run(), copied.run().pairs().unwrap().remove(0));
    let mut evidence = run.brackets(&pair).unwrap().found;
    let (before_first, at_first) = (evidence.before.iter().flatten().min().copied().unwrap(), evidence.at[0]);
    evidence = tickscope_store::BracketColumns::default();
    evidence.push(Some(before_first + 2_000), at_first, None, "probe-request", "before/after");
    run.add_brackets(&pair, "more", &evidence).unwrap();
    assert_ne!(copied.durations(None).1, before);
}

/// Each of these leaves slopes and counts as they were.
#[test]
fn durations_derived_under_anything_that_changed_since_are_derived_again() {
    type Change = fn(&Copied);
    let changes: [(&str, Change); 5] = [
        ("as many other brackets", |copied| {
            let pair = copied.run().pairs().unwrap().remove(0);
            let places = copied.run().paths().brackets(&pair);
            let told = copied.run().brackets(&pair).unwrap().found;
            let mut moved = tickscope_store::BracketColumns::default();
            for (row, (before, after)) in told.before.iter().zip(told.after.iter()).enumerate() {
                let later = |tick: Option<&i64>| tick.map(|tick| tick + 900_000);
                moved.push(later(before), told.at[row], later(after), &told.source[row], &told.ordering[row]);
            }
            fs::remove_dir_all(places).unwrap();
            copied.run().add_brackets(&pair, "moved", &moved).unwrap();
        }),
        ("proved cores", |copied| {
            copied.retell(|manifest| {
                let origin = tickscope_analysis::CORES_PROVED.into();
                manifest.assumptions.push(Assumption { statement: "cores share a counter".into(), origin });
            });
        }),
        ("another frequency", |copied| copied.retell(|manifest| manifest.nodes[1].counter.frequency.hertz += 1_000)),
        ("another layout", |copied| copied.retell(|manifest| manifest.layout.rules.clear())),
        ("a trace in a file of the same name and size", |copied| {
            let place = copied.0.join("traces").join(FILE);
            let reader = KeyedReader::open(&place).unwrap();
            let (names, bytes, all) = (reader.names().to_vec(), reader.bytes(), reader.read_all().unwrap());
            let places = (0..names.len()).flat_map(|point| (0..all.len()).map(move |row| (point, row)));
            let mut same_size = places.map(|(point, row)| {
                let mut rows = all.clone();
                let later = |(at, tick): (usize, Option<&i64>)| tick.map(|tick| tick + i64::from(at == row));
                rows.columns[point] = rows.columns[point].iter().enumerate().map(later).collect();
                let mut writer = KeyedWriter::begin(&place, &names, &[]).unwrap();
                writer.write(rows).unwrap();
                writer.finish().unwrap() == bytes
            });
            assert!(same_size.any(|same| same), "one tick later anywhere, and the file has another size");
        }),
    ];
    for (what, change) in changes {
        let copied = Copied::new(1);
        let derived = |copied: &Copied| {
            let (folder, _) = copied.durations(None);
            KeyedReader::open(&folder.join(FILE)).unwrap().key("tickscope.derived_from").unwrap().to_owned()
        };
        let first = derived(&copied);
        assert_eq!(derived(&copied), first);
        change(&copied);
        assert_ne!(derived(&copied), first, "{what}");
    }
}

#[test]
fn what_measuring_cost_is_no_part_of_what_durations_were_derived_from() {
    let copied = Copied::new(1);
    let (folder, _) = copied.durations(None);
    let written = || fs::metadata(folder.join(FILE)).unwrap().modified().unwrap();
    let first = written();
    copied.retell(|manifest| manifest.ended_unix_ms = Some(7));
    copied.durations(None);
    assert_eq!(written(), first);
}

#[test]
fn a_run_that_cannot_be_written_has_its_durations_aside() {
    let copied = Copied::new(1);
    let rows = copied.durations(None).1;
    fs::remove_dir_all(copied.0.join("durations")).unwrap();
    fs::write(copied.0.join("durations"), "in the way").unwrap();
    assert_eq!(copied.durations(None), (copied.0.join("aside/rho=50ppm"), rows));
}

#[test]
fn a_run_without_its_traces_is_an_error_that_says_so_and_not_a_table_of_zeros() {
    let copied = Copied::new(1);
    fs::remove_dir_all(copied.0.join("traces")).unwrap();
    let error = analyse(&copied.run(), &Query::under(None), false).unwrap_err();
    assert!(!error.is_finding() && error.to_string().contains("expected the traces of a run"), "{error}");
}

#[test]
fn a_rho_that_no_run_can_declare_is_named_with_what_is_allowed() {
    let copied = Copied::new(1);
    let mut manifest = copied.run().manifest().clone();
    for ppb in [1 << 33, u64::from(Rho::MOST_PPB) + 1] {
        manifest.rho.iter_mut().for_each(|rho| (rho.ppb, rho.origin) = (ppb, "declared".into()));
        copied.run().set_manifest(manifest.clone()).unwrap();
        let error = analyse(&copied.run(), &Query::under(None), false).unwrap_err().to_string();
        assert!(error.contains("at most 100000000 ppb") && error.contains(&format!("found {ppb}")), "{error}");
    }
}

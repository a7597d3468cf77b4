//! Copies of the golden run that tests change.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tickscope_store::{KeyedReader, KeyedRows, KeyedWriter, Manifest, Run};

pub const FILE: &str = "part-00000000.parquet";

/// A copy of the golden run, gone when dropped; no two of its traces take equally long, and some less than no time.
pub struct Copied(pub PathBuf);

impl Copied {
    pub fn new(files: usize) -> Self {
        let copied = Self::of_golden();
        copied.cut_traces(files);
        copied
    }

    /// The same as another run.
    pub fn numbered(files: usize, number: u64) -> Self {
        let copied = Self::of_golden();
        copied.retell(|manifest| manifest.run = number);
        copied.cut_traces(files);
        copied
    }

    fn of_golden() -> Self {
        static COPIES: AtomicU32 = AtomicU32::new(0);
        let name = format!("tickscope-copied-{}-{}", std::process::id(), COPIES.fetch_add(1, Relaxed));
        let copied = Self(std::env::temp_dir().join(name));
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/golden/v1"), &copied.0);
        copied
    }

    pub fn run(&self) -> Run {
        Run::open(&self.0).unwrap()
    }

    /// Writes `run.json` again, changed.
    pub fn retell(&self, change: impl FnOnce(&mut Manifest)) {
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

    /// Takes the stamp of every 11th trace at its second point away.
    pub fn lose_stamps(&self) {
        for reader in self.run().traces().unwrap().found {
            let (names, mut rows) = (reader.names().to_vec(), reader.read_all().unwrap());
            let kept = |(row, tick): (usize, Option<&i64>)| tick.filter(|_| row % 11 > 0).copied();
            rows.columns[1] = rows.columns[1].iter().enumerate().map(kept).collect();
            let mut writer = KeyedWriter::begin(reader.path(), &names, &[]).unwrap();
            writer.write(rows).unwrap();
            writer.finish().unwrap();
        }
    }

    /// The ids of all traces, in their order.
    pub fn ids(&self) -> Vec<i64> {
        let listing = self.run().traces().unwrap().found;
        listing.iter().flat_map(|reader| reader.read_all().unwrap().id).collect()
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
pub fn some(all: &KeyedRows, rows: &[usize]) -> KeyedRows {
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

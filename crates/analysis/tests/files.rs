//! How a run's traces are cut into files is no part of its figures, and durations are kept for what they were derived
//! from.

#[path = "site/copied.rs"]
mod copied;

use std::fs;
use std::path::PathBuf;

use copied::{Copied, FILE, some};
use tickscope_analysis::{Query, RunJson, analyse, analyse_counts, durations};
use tickscope_bracket::Rho;
use tickscope_store::{Assumption, KeyedReader, KeyedRows, KeyedWriter};

/// The public JSON of a copy, without where it lies.
fn figures(copied: &Copied, rho: Option<Rho>) -> serde_json::Value {
    let run = copied.run();
    let analysis = analyse(&run, &Query::under(rho), false).unwrap();
    let mut figures = serde_json::to_value(RunJson::of(&run, &analysis, &[])).unwrap();
    figures["run"].take();
    figures
}

/// The folder of a copy's durations, and what is in it.
fn derived(copied: &Copied, rho: Option<Rho>) -> (PathBuf, KeyedRows) {
    let folder = durations(&copied.run(), rho, &copied.0.join("aside")).unwrap();
    let rows = KeyedReader::open(&folder.join(FILE)).unwrap().read_all().unwrap();
    (folder, rows)
}

#[test]
fn durations_that_cannot_be_kept_cost_no_figure_and_are_told() {
    let expected = figures(&Copied::new(1), None);
    // Where the folder is to be lies a file, so nothing can be begun; under the file's name a folder: not completed.
    for in_the_way in ["file", "folder"] {
        let copied = Copied::new(1);
        let folder = copied.run().derived().durations(copied.run().manifest().rho[0].ppb);
        let _ = fs::remove_dir_all(&folder);
        match in_the_way {
            "file" => {
                fs::create_dir_all(folder.parent().unwrap()).unwrap();
                fs::write(&folder, "").unwrap();
            }
            _ => fs::create_dir_all(folder.join(FILE).join("of somebody")).unwrap(),
        }
        let analysis = analyse(&copied.run(), &Query::default(), true).unwrap();
        assert!(analysis.not_kept.is_some(), "{in_the_way}");
        let mut found = serde_json::to_value(RunJson::of(&copied.run(), &analysis, &[])).unwrap();
        found["run"].take();
        assert_eq!(found, expected, "{in_the_way}");
    }
}

#[test]
fn the_table_does_not_depend_on_how_traces_are_cut_into_files() {
    let whole = figures(&Copied::new(1), None);
    assert!(whole["stages"][1]["impossible"].as_u64().unwrap() > 16, "{whole}");
    assert!(whole["findings"].as_array().unwrap().len() > 1);
    for files in [2, 3, 7] {
        assert_eq!(figures(&Copied::new(files), None), whole, "{files} files");
    }
}

#[test]
fn durations_do_not_depend_on_how_traces_are_cut_into_files() {
    let whole = derived(&Copied::new(1), None).1;
    for files in [2, 5] {
        assert_eq!(derived(&Copied::new(files), None).1, whole, "{files} files");
    }
}

#[test]
fn durations_are_kept_in_the_run_by_rho() {
    let (copied, lab) = (Copied::new(1), "lab".parse::<Rho>().unwrap());
    let (folder, rows) = derived(&copied, Some(lab));
    assert_eq!(folder, copied.0.join("durations/rho=0.2ppm"));
    assert_ne!(rows, derived(&copied, None).1);
    let written = || fs::metadata(folder.join(FILE)).unwrap().modified().unwrap();
    let first = written();
    assert_eq!(derived(&copied, Some("0.2".parse().unwrap())), (folder.clone(), rows));
    assert_eq!(written(), first);
}

#[test]
fn durations_of_other_traces_are_not_taken_for_these() {
    let copied = Copied::new(1);
    let all = derived(&copied, None).1;
    let place = copied.0.join("traces").join(FILE);
    let names = KeyedReader::open(&place).unwrap().names().to_vec();
    let kept = KeyedReader::open(&place).unwrap().read_all().unwrap();
    let mut writer = KeyedWriter::begin(&place, &names, &[]).unwrap();
    writer.write(some(&kept, &(10..kept.len()).collect::<Vec<_>>())).unwrap();
    writer.finish().unwrap();
    assert_eq!(derived(&copied, None).1.id, all.id[10..]);
}

#[test]
fn durations_of_other_evidence_are_not_taken_for_todays() {
    let copied = Copied::new(1);
    let before = derived(&copied, None).1;
    let (run, pair) = (copied.run(), copied.run().pairs().unwrap().found.remove(0));
    let mut evidence = run.brackets(&pair).unwrap().found;
    let (before_first, at_first) = (evidence.before.iter().flatten().min().copied().unwrap(), evidence.at[0]);
    evidence = tickscope_store::BracketColumns::default();
    evidence.push(
        Some(before_first + 2_000),
        at_first,
        None,
        tickscope_store::BracketSource::ProbeRequest,
        "before/after",
    );
    run.add_brackets(&pair, "more", &evidence).unwrap();
    assert_ne!(derived(&copied, None).1, before);
}

#[test]
fn brackets_that_cannot_be_read_are_named_by_an_analysis_that_compares_no_other_methods() {
    let copied = Copied::new(1);
    let before = analyse_counts(&copied.run(), &Query::default()).unwrap();
    assert!(before.refused.is_empty(), "{:?}", before.refused);
    let pair = copied.run().pairs().unwrap().found.remove(0);
    let torn = copied.run().paths().brackets(&pair).join("torn.parquet");
    fs::write(&torn, "PAR1").unwrap();
    let after = analyse_counts(&copied.run(), &Query::default()).unwrap();
    let places: Vec<_> = after.refused.iter().map(|refused| refused.place()).collect();
    assert_eq!((places, after.complete), (vec![torn.as_path()], before.complete));
}

/// Each of these leaves slopes and counts as they were.
#[test]
fn durations_derived_under_anything_that_changed_since_are_derived_again() {
    type Change = fn(&Copied);
    let changes: [(&str, Change); 5] = [
        ("as many other brackets", |copied| {
            let pair = copied.run().pairs().unwrap().found.remove(0);
            let places = copied.run().paths().brackets(&pair);
            let told = copied.run().brackets(&pair).unwrap().found;
            let mut moved = tickscope_store::BracketColumns::default();
            for (row, (before, after)) in told.before.iter().zip(told.after.iter()).enumerate() {
                let later = |tick: Option<&i64>| tick.map(|tick| tick + 900_000);
                moved.push(later(before), told.at[row], later(after), told.source[row].clone(), &told.ordering[row]);
            }
            fs::remove_dir_all(places).unwrap();
            copied.run().add_brackets(&pair, "moved", &moved).unwrap();
        }),
        ("proved cores", |copied| {
            copied.retell(|manifest| manifest.assumptions.push(Assumption::cores_proved()));
        }),
        ("another frequency", |copied| copied.retell(|manifest| manifest.nodes[1].counter.frequency.hertz += 1_000)),
        ("another layout", |copied| copied.retell(|manifest| manifest.layout.rules.clear())),
        ("a trace in a file of the same name and size", |copied| {
            let place = copied.0.join("traces").join(FILE);
            let reader = KeyedReader::open(&place).unwrap();
            let (names, bytes, all) = (reader.names().to_vec(), reader.bytes(), reader.read_all().unwrap());
            let before = fs::read(&place).unwrap();
            let places = (0..names.len()).flat_map(|point| (0..all.len()).map(move |row| (point, row)));
            let changes = places.flat_map(|place| (1..=8).map(move |later| (place, later)));
            let mut same_size = changes.map(|((point, row), later)| {
                let mut rows = all.clone();
                let moved = |(at, tick): (usize, Option<&i64>)| tick.map(|tick| tick + i64::from(at == row) * later);
                rows.columns[point] = rows.columns[point].iter().enumerate().map(moved).collect();
                let mut writer = KeyedWriter::begin(&place, &names, &[]).unwrap();
                writer.write(rows).unwrap();
                writer.finish().unwrap() == bytes && fs::read(&place).unwrap() != before
            });
            assert!(same_size.any(|same| same), "some ticks later anywhere, and the file has another size");
        }),
    ];
    for (what, change) in changes {
        let copied = Copied::new(1);
        let digest = |copied: &Copied| {
            let (folder, _) = derived(copied, None);
            KeyedReader::open(&folder.join(FILE)).unwrap().key("tickscope.derived_from").unwrap().to_owned()
        };
        let first = digest(&copied);
        assert_eq!(digest(&copied), first);
        change(&copied);
        assert_ne!(digest(&copied), first, "{what}");
    }
}

#[test]
fn what_measuring_cost_is_no_part_of_what_durations_were_derived_from() {
    let copied = Copied::new(1);
    let (folder, _) = derived(&copied, None);
    let written = || fs::metadata(folder.join(FILE)).unwrap().modified().unwrap();
    let first = written();
    copied.retell(|manifest| manifest.ended_unix_ms = Some(7));
    derived(&copied, None);
    assert_eq!(written(), first);
}

#[test]
fn a_run_that_cannot_be_written_has_its_durations_aside() {
    let copied = Copied::new(1);
    let rows = derived(&copied, None).1;
    fs::remove_dir_all(copied.0.join("durations")).unwrap();
    fs::write(copied.0.join("durations"), "in the way").unwrap();
    assert_eq!(derived(&copied, None), (copied.0.join("aside/rho=50ppm"), rows));
}

#[test]
fn a_run_without_its_traces_is_an_error_that_says_so_and_not_a_table_of_zeros() {
    let copied = Copied::new(1);
    fs::remove_dir_all(copied.0.join("traces")).unwrap();
    let error = analyse(&copied.run(), &Query::under(None), false).unwrap_err();
    assert!(!error.is_finding() && error.to_string().contains("cannot find traces in"), "{error}");
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

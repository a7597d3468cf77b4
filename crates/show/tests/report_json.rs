//! The public JSON of a report.

use tickscope_analysis::{Query, analyse_with_figures};
use tickscope_show::{Report, ReportJson};

#[path = "../../analysis/tests/site/copied.rs"]
mod copied;
#[path = "../../analysis/tests/site/keys.rs"]
mod keys;

/// Keys that this version once had, in `report_json_v1.txt`: new ones are added there, none is taken out. Those below
/// `table` are the analysis' own.
#[test]
fn no_key_of_this_version_is_ever_removed_or_renamed() {
    let copied = copied::Copied::new(1);
    let run = copied.run();
    let (analysis, figures) = analyse_with_figures(&run, &Query::default(), false).unwrap();
    let report = Report { run: &run, analysis: &analysis, figures: &figures, events: &[], channels: &[], refused: &[] };
    let json = serde_json::to_value(report.json()).unwrap();
    assert_eq!(json["version"], ReportJson::VERSION);
    keys::hold(include_str!("report_json_v1.txt"), &[json]);
}

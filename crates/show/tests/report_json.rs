//! The public JSON of a report.

mod site;

use site::Analysed;
use tickscope_show::ReportJson;

#[path = "../../analysis/tests/site/keys.rs"]
mod keys;

/// Keys that this version once had, in `report_json_v1.txt`: new ones are added there, none is taken out. Those below
/// `table` are the analysis' own.
#[test]
fn no_key_of_this_version_is_ever_removed_or_renamed() {
    let json = serde_json::to_value(Analysed::new().report().json()).unwrap();
    assert_eq!(json["version"], ReportJson::VERSION);
    keys::hold(include_str!("report_json_v1.txt"), &[json]);
}

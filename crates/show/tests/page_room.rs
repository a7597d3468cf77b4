//! A page stays below its 2 MB, whatever a run holds: figures that have no room are named, and the page is made.

mod site;

use site::Analysed;

#[test]
fn figures_without_room_are_left_out_of_the_page_and_named() {
    let mut analysed = Analysed::new();
    let usual = analysed.report().html().unwrap();
    assert!(usual.contains("Jitter of each stage, up to the threshold") && !usual.contains("has no room for them"));
    assert!(usual.contains("Durations by how far apart the points ran") && usual.contains("Stamps over the run"));
    analysed.figures.traffic.throughput.as_mut().unwrap().from[0] = "x".repeat(2_000_000);
    let page = analysed.report().html().unwrap();
    assert!(page.contains("This page has no room for durations by how far apart") && page.len() <= 2_000_000);
    assert!(page.contains("Jitter of each stage, up to the threshold") && !page.contains("has no room for them"));
    analysed.figures.jitter.stages[0].name = "x".repeat(2_000_000);
    assert!(analysed.figures.clock_maps.iter().any(|curve| !curve.brackets.is_empty()), "brackets go first");
    let page = analysed.report().html().unwrap();
    assert!(page.contains("This page has no room for them: tickscope figures draws them") && page.len() <= 2_000_000);
    assert!(!page.contains("Jitter of each stage, up to the threshold"));
}

#[test]
fn figures_take_no_room_from_the_slowest_traces() {
    let mut analysed = Analysed::new();
    let mut page = |letters: usize| {
        analysed.figures.jitter.stages[0].name = "x".repeat(letters);
        analysed.report().html().unwrap()
    };
    let (usual, longer) = (page(1), page(1001));
    let [from, until] = ["\"worst\":[{", "\"incomplete\":["].map(|text| usual.find(text).unwrap());
    let times = (longer.len() - usual.len()) / 1000;
    let full = (2_000_000 - usual.len()) / times;
    let most = full + 400_000 / times;
    // From where the whole page is too large to where no trace would be left.
    let traces = (until - from) / times;
    for letters in [full, full + traces / 2, full + traces - 300, full + traces - 100, full + traces, most] {
        let page = page(letters);
        assert!(page.contains("\"worst\":[{") && page.len() <= 2_000_000, "{letters} letters: no trace");
        assert!(letters < most || page.contains("has no room for them"));
    }
}

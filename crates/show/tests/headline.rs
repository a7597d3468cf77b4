//! The sentences that a page begins with.

mod site;

use site::Analysed;
use tickscope_analysis::{Analysis, KeptPolicy, Stream, StreamEnd, Truth};
use tickscope_show::Report;
use tickscope_show::stage_table::{Shown, View, text};
use tickscope_store::{Channel, SameBoot};
use tickscope_trace::{QuantileBounds, StageRole, StageRow, Sums};

/// What stands above the stages on the page, and the sentences of the JSON, of the golden run with its analysis
/// changed.
fn said(change: impl FnOnce(&mut Analysis)) -> (String, String) {
    let (page, json) = whole(change);
    (page.split("id=\"stages\"").next().map(plain).unwrap(), json)
}

/// The same with all of the page, as it is.
fn whole(change: impl FnOnce(&mut Analysis)) -> (String, String) {
    let mut analysed = Analysed::new();
    let analysis = &mut analysed.analysis;
    // The copy contradicts itself, which leaves no headline.
    analysis.suspicions.clear();
    for row in &mut analysis.rows {
        (row.impossible, row.refused_by) = (0, Default::default());
    }
    change(analysis);
    let report = analysed.report();
    let page = report.html().unwrap();
    let json = serde_json::to_value(report.json()).unwrap();
    (page[page.find("<main>").unwrap()..].to_owned(), plain(&json["headline"].to_string()))
}

/// Text without tags, with plain spaces.
fn plain(html: &str) -> String {
    let text: String = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    text.replace(['\u{a0}', '\u{202f}', '\n'], " ")
}

/// Gives the first two stages of the path these medians and shares of 1000 ticks.
fn with(analysis: &mut Analysis, medians: [i64; 2], shares: [i128; 2]) {
    let whole = analysis.rows.iter().position(|row| row.role == StageRole::EndToEnd).unwrap();
    let path = analysis.rows.iter_mut().filter(|row| row.role == StageRole::Path);
    for ((row, median), part) in path.zip(medians).zip(shares) {
        row.p50 = Some(QuantileBounds { estimate: median, lo: median, hi: median });
        let share = row.share.as_mut().unwrap();
        (share.whole, share.of) = (whole, Sums { estimate: 1000, lo: 1000, hi: 1000 });
        share.part = Sums { estimate: part, lo: part, hi: part };
    }
}

#[test]
fn the_stage_that_takes_the_largest_part_of_the_time_is_told_next_to_the_slowest_at_the_median() {
    let mut names = Vec::new();
    let (page, json) = said(|analysis| {
        names = analysis.rows.iter().map(|row| format!("{} → {}", row.from, row.to)).collect();
        with(analysis, [40_000, 50_000], [950, 50]);
    });
    let [tail, slow] = [&names[0], &names[1]];
    let most = format!("; the largest part of the time goes into {tail} (95 % of the whole)");
    assert!(page.contains(&format!("{most}; the slowest stage at the median is {slow} (")), "{page}");
    assert!(json.contains(&format!("The slowest stage at the median is {slow} (")) && json.contains(&most), "{json}");
    let (page, json) = said(|analysis| with(analysis, [40_000, 50_000], [50, 950]));
    assert!(page.contains(&format!("; the slowest stage at the median is {slow} (")), "{page}");
    assert!(page.contains("; 95 % of the whole time)") && !page.contains("largest part"), "{page}");
    assert!(!json.contains("largest part"), "{json}");
}

#[test]
fn the_bar_has_shares_alone_so_that_no_median_in_the_sentence_above_it_contradicts_its_widths() {
    let (page, _) = whole(|analysis| with(analysis, [40_000, 50_000], [950, 50]));
    let (_, figure) = page.split_once("<figure class=\"path\"").expect("a bar");
    let figure = figure.split("</figure>").next().unwrap();
    // What a pointer asks for says of each figure what it is.
    let parts = figure.split("<span class=\"told\"").map(|part| part.split_once("</span>").unwrap_or(("", part)).1);
    let seen = plain(&format!("<i{}", figure.split("<span class=\"told\"").next().unwrap()))
        + &parts.skip(1).map(plain).collect::<String>();
    let (bar, caption) = seen.split_once("Filled: ").unwrap();
    assert!(bar.contains("95 %") && bar.contains(" 0 %"), "{bar}");
    assert!(!bar.contains("µs") && !bar.contains("ns") && !caption.contains("labelled with its median"), "{seen}");
    assert!(figure.contains("median ") && figure.contains("mean "), "{figure}");
}

/// The page's text with so many traces in every row, and the sentences of the JSON.
fn of_so_many(traces: u64) -> (String, String) {
    let (page, json) = whole(|analysis| {
        with(analysis, [40_000, 50_000], [950, 50]);
        analysis.rows.iter_mut().for_each(|row| row.count = traces);
    });
    (plain(&page), json)
}

#[test]
fn a_quantile_of_so_few_traces_that_it_is_the_longest_is_called_that_on_the_page() {
    let (page, json) = of_so_many(99);
    assert!(page.contains(" in the longest of 99; ") && json.contains(" in the longest of 99"), "{json}");
    assert!(!page.contains("at the 99th percentile") && !json.contains("99th"), "{json}");
    let (page, json) = of_so_many(999);
    assert!(page.contains("longest of 999") && json.contains("at the 99th percentile"), "{json}");
    let (page, _) = of_so_many(1000);
    assert!(!page.contains("longest of 1000"), "999 of 1000 took no longer than p99.9");
}

#[test]
fn the_table_of_stages_has_all_quantiles_and_every_head_of_it_leads_to_one_place() {
    let (page, _) = whole(|_| {});
    let (_, table) = page.split_once("aria-label=\"Table of stages\"").unwrap();
    let head = table.split("</thead>").next().unwrap();
    assert!(plain(head).contains("median99 %99.9 %longest"), "{}", plain(head));
    for link in head.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert_eq!(page.matches(&format!("id=\"{link}\"")).count(), 1, "{link}");
    }
}

#[test]
fn a_truth_that_nothing_was_held_against_is_not_told_as_a_check() {
    let mut manifest = Analysed::new().run.manifest().clone();
    manifest.same_boot = SameBoot::Ignore;
    let boot = manifest.nodes[0].boot;
    manifest.nodes.iter_mut().for_each(|node| node.boot = boot);
    let truth = Truth::of(&manifest).unwrap();
    let told = |known| {
        let mut truth = truth.clone();
        (truth.known, truth.inside) = (known, known);
        let (page, json) = whole(|analysis| analysis.truth = Some(truth));
        [plain(&page), json].map(|text| text.contains("true durations lie in their intervals"))
    };
    assert_eq!((told(7), told(0)), ([true; 2], [false; 2]));
    let in_a_terminal = |known, wide| {
        let mut analysed = Analysed::new();
        analysed.analysis.truth = Some(truth.clone());
        let of = analysed.analysis.truth.as_mut().unwrap();
        (of.known, of.inside) = (known, known);
        let shown = Shown { run: &analysed.run, analysis: &analysed.analysis, rivals: &[], events: &[], channels: &[] };
        text(&shown, &View { wide, ..View::default() }).contains(" durations lie in their")
    };
    assert_eq!([false, true].map(|wide| [in_a_terminal(7, wide), in_a_terminal(0, wide)]), [[true, false]; 2]);
}

#[test]
fn stamps_that_were_overwritten_are_lost_in_the_first_words_too() {
    let analysed = Analysed::new();
    let mut channels = analysed.run.channels().unwrap().found;
    let lost = |channels: &[Channel]| {
        let page = Report { channels, ..analysed.report() }.html().unwrap();
        let words = plain(&page[page.find("<main>").unwrap()..]);
        let (before, _) = words.split_once(" stamps lost").unwrap_or_else(|| panic!("{words:.2000}"));
        before.rsplit(' ').next().unwrap().parse::<i64>().unwrap()
    };
    channels[0].overwritten = Some(3);
    let few = lost(&channels);
    channels[0].overwritten = Some(7);
    assert_eq!(lost(&channels), few + 4);
}

/// A stream of 2 s of 1 GHz.
fn stream() -> Stream {
    let end = |point: &str| StreamEnd { point: point.into(), thread: 1, tick: 1 };
    let ticks = Some(2_000_000_000);
    let (from, to) = (Some(end("client.send")), Some(end("server.deliver")));
    Stream { ticks, lo_ticks: ticks, hi_ticks: ticks, from, to, sinks: 1, sinks_ended: 1, ..Stream::default() }
}

#[test]
fn a_stream_whose_end_was_not_seen_is_told_as_that_and_contradicts_nothing() {
    let unseen = vec!["server.deliver, thread 1".into()];
    let (page, json) = said(|analysis| {
        analysis.stream = Some(Stream { hi_ticks: None, sinks_ended: 0, unseen, ..stream() });
        assert!(analysis.finding(&[]).is_some() && analysis.contradiction(&[]).is_none());
    });
    assert!(page.contains("How long the stream took is not known: its end was not seen."), "{page}");
    assert!(page.contains("1 of 1 that did not: server.deliver, thread 1"), "{page}");
    assert!(!page.contains("contradicts itself") && page.contains("at the median"), "{page}");
    assert!(json.contains("the end of a stream was not seen"), "{json}");
}

/// The policy of a point that keeps the first stamp and the last.
fn first_last(point: &str) -> KeptPolicy {
    let (policy, point) = ("first-last -1".into(), point.into());
    KeptPolicy { point, policy, channels: 1, kept: 2, seen: None, counted: None, leaves_out: true }
}

#[test]
fn figures_of_traces_that_policies_left_over_say_of_how_many_they_are_and_come_behind_the_streams_span() {
    let (page, json) = said(|analysis| {
        analysis.frequency.hertz = 1_000_000_000;
        analysis.stream = Some(stream());
        analysis.kept.policies = vec![first_last("server.deliver")];
        analysis.rows.iter_mut().for_each(|row| row.missing = 2);
    });
    let (span, trace) = page.split_once("From client.send to server.deliver it took ").unwrap();
    assert!(span.contains("The stream took 2.0000000 s [±0.0000000], from client.send to server.deliver."), "{page}");
    assert!(trace.contains(" traces: policies left others out; "), "{page}");
    assert!(
        json.contains("The stream took 2.0000000 s") && json.contains(": policies left other traces out."),
        "{json}"
    );
    let (page, _) = said(|analysis| analysis.kept.policies = vec![first_last("server.receive")]);
    assert!(!page.contains("policies left others out"), "the ends keep all: {page}");
}

#[test]
fn what_traces_lack_where_policies_leave_stamps_out_is_not_told_as_lost() {
    let told = "where policies leave some out: left out or lost is not known";
    let lacking = |points: &[&str]| {
        let mut stages = 0;
        let (page, json) = whole(|analysis| {
            analysis.kept.policies = points.iter().map(|point| first_last(point)).collect();
            analysis.rows.iter_mut().for_each(|row| row.missing = 2);
            let is_at = |row: &&StageRow| points.iter().any(|&point| row.from == point || row.to == point);
            stages = analysis.rows.iter().filter(is_at).count();
        });
        (page.matches(told).count() - stages, json.contains(told))
    };
    assert_eq!(lacking(&[]), (0, false));
    assert_eq!(lacking(&["server.receive"]), (1, true), "all stages of the path end there");
    assert_eq!(lacking(&["client.send"]), (0, false), "no policy is why the second stage lacks some");
}

#[test]
fn where_a_finding_stands_no_sentence_says_that_nothing_contradicts_itself_or_promises_a_bound() {
    let (page, json) = whole(|_| ());
    for told in [&plain(&page), &json] {
        assert!(told.contains("a guarantee, as long as") && !told.contains("contradicts itself or"), "{told}");
    }
    let (page, json) = whole(|analysis| analysis.unsound.push("a.tsc stepped back".into()));
    for told in [&plain(&page), &json] {
        assert!(
            told.contains("the run contradicts itself or an assumption") && told.contains("no guarantee"),
            "{told}"
        );
        assert!(!told.contains("nothing contradicts itself") && !told.contains("a guarantee, as long as"), "{told}");
    }
}

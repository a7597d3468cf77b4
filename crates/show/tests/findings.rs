//! Findings, in the terminal and on the page.

mod site;

use site::Analysed;
use site::copied::Copied;
use tickscope_show::Report;
use tickscope_show::stage_table::{Shown, View, text};
use tickscope_show::terminal::Terminal;
use tickscope_store::{Channel, Event, EventKind, write_channels};

const CAUSE: &str = "an exchange <that> cannot be";

#[test]
fn the_page_counts_and_names_findings_as_the_terminal_does_with_the_cause_first() {
    let mut analysed = Analysed::new();
    let analysis = &mut analysed.analysis;
    analysis.rows.iter_mut().for_each(|row| (row.impossible, row.refused_by) = Default::default());
    let [first, second, ..] = &mut analysis.rows[..] else { panic!("two stages") };
    (first.impossible, first.refused_by.no_interval, second.refused_by.no_interval) = (2, 3, 1);
    analysis.suspicions = vec![format!("{} of id 7: from 1 to 2", first.name)];
    let cause = Event { what: EventKind::ImpossibleExchange, text: CAUSE.into(), ..Event::default() };
    let Analysed { run, analysis, .. } = &analysed;
    for (events, all) in [(vec![], 3), (vec![cause], 4)] {
        let shown = Shown { run, analysis, rivals: &[], events: &events, channels: &[] };
        let terminal = text(&shown, &View { terminal: Terminal::of_width(1000), ..View::default() });
        let (found, _) = terminal.split_once("\n\n").unwrap();
        let lines: Vec<_> = found.lines().map(said).collect();
        assert_eq!(lines.len(), all, "{found}");
        assert!(lines[all - 3].starts_with("6 impossible durations in 2 stages: "), "{found}");
        let first = if all == 4 { CAUSE } else { &lines[0] };
        assert_eq!((lines[0].as_str(), analysis.finding(&events).as_deref()), (first, Some(first)));

        let report = Report { events: &events, ..analysed.report() };
        let page = report.html().unwrap();
        let (_, alarm) = page.split_once("<div class=\"alarm finding\"").unwrap();
        let (list, _) = alarm.split_once("</ul>").unwrap();
        let items: Vec<_> = list.split("<li>").skip(1).map(|item| said(item.split("</li>").next().unwrap())).collect();
        assert_eq!(items, lines);
        assert!(page.contains("6\u{a0}impossible durations"), "the chapter on losses counts the same");
    }
}

#[test]
fn overwritten_stamps_are_lost_in_the_terminal_and_on_the_page() {
    let analysed = Analysed::new();
    let Analysed { run, analysis, .. } = &analysed;
    let mut channels = run.channels().unwrap().found;
    let told = |channels: &[Channel]| {
        let shown = Shown { run, analysis, rivals: &[], events: &[], channels };
        let terminal = text(&shown, &View { terminal: Terminal::of_width(1000), ..View::default() });
        let report = Report { channels, ..analysed.report() };
        [terminal.contains("5 were overwritten by later ones"), report.html().unwrap().contains(">overwritten</th>")]
    };
    assert_eq!(told(&channels), [false; 2]);
    channels[0].overwritten = Some(5);
    assert_eq!(told(&channels), [true; 2]);
}

#[test]
fn counts_that_cannot_be_are_a_finding_with_their_file_and_no_sum_of_them_is_what_was_lost() {
    let told = |change: fn(&mut Channel, usize)| {
        let copied = Copied::new(1);
        let mut channels = copied.run().channels().unwrap().found;
        let node = channels[0].node.clone();
        channels.retain(|channel| channel.node == node);
        assert!(channels.len() >= 2);
        channels.iter_mut().enumerate().for_each(|(at, channel)| change(channel, at));
        write_channels(&copied.run().paths().channels(node.as_str()), &channels).unwrap();
        let analysed = Analysed::of(copied);
        let shown =
            Shown { run: &analysed.run, analysis: &analysed.analysis, rivals: &[], events: &[], channels: &channels };
        let terminal = text(&shown, &View { terminal: Terminal::of_width(1000), ..View::default() });
        let page = Report { channels: &channels, ..analysed.report() }.html().unwrap();
        ([terminal, page], format!("channels/node={node}.parquet: expected counts of stamps, found"))
    };
    let (whole, file) = told(|_, _| ());
    assert!(whole.iter().all(|text| !text.contains(&file) && !text.contains("what cannot be")), "{whole:?}");
    for change in [
        |channel: &mut Channel, _: usize| (channel.dropped, channel.refused) = (i64::MAX, i64::MAX),
        |channel: &mut Channel, _| channel.overwritten = Some(i64::MIN),
        |channel: &mut Channel, at| channel.uncommitted = [7, -7].get(at).copied().unwrap_or(0),
    ] {
        let ([terminal, page], file) = told(change);
        assert!(terminal.contains(&file) && page.contains(&file), "{terminal}");
        assert!(terminal.contains("lost: unknown: ") && page.contains("what was lost is not known"), "{terminal}");
        for text in [&terminal, &page] {
            assert!(!text.contains("none was dropped") && !text.contains(&u64::MAX.to_string()), "{text}");
        }
    }
}

/// A line, without how it is set.
fn said(line: &str) -> String {
    let line = line.trim().trim_start_matches("finding: ");
    line.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'").replace("&quot;", "\"")
}

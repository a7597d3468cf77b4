//! The chapters that are words and tables: assumptions, clocks, what was lost, what happened, which machines.

use std::fmt::Write;

use tickscope_analysis::{AuxiliaryClockSummary, ClockMapSummary, SourceSummary, cost};
use tickscope_store::{Channel, ChannelState, Event, Node};

use crate::Report;
use crate::quantity::{Unit, count, counted, utc};
use crate::text::{Text, at_most};

/// Events shown; a run that tells more has them all in its files.
const MOST_EVENTS: usize = 200;
/// Letters of one event or assumption shown.
const MOST_LETTERS: usize = 600;
/// Findings, refused files, channels shown.
const MOST_LINES: usize = 100;

/// Name, time and reference, above the first sentence.
pub(crate) fn about(report: &Report<'_>) -> String {
    let manifest = report.run.manifest();
    let seconds = manifest.ended_unix_ms.map(|ended| (ended - manifest.started_unix_ms) as f64 / 1000.0);
    let lasted = seconds.map_or(String::new(), |seconds| format!(" · {seconds:.0} s from start to end"));
    format!(
        "{}{lasted} · {} · reference clock {}",
        utc(manifest.started_unix_ms),
        counted(manifest.nodes.len(), "node"),
        Text(&manifest.reference)
    )
}

/// What the figures stand on.
pub(crate) fn assumptions(report: &Report<'_>) -> String {
    let mut html = String::new();
    for (statement, origin) in tickscope_analysis::assumptions(report.run.manifest(), report.analysis) {
        let statement = at_most(MOST_LETTERS, &statement);
        // Writing to a String cannot fail.
        let _ = writeln!(
            html,
            "<li>{} <span class=\"aside\">{}</span></li>",
            Text(statement),
            Text(at_most(MOST_LETTERS, &origin))
        );
    }
    html
}

/// Each related clock: a sentence, a place for its figure, what each source of evidence gives.
pub(crate) fn clocks(report: &Report<'_>) -> String {
    let (unit, mut html) = (report.unit(), String::new());
    if report.analysis.clock_maps.is_empty() {
        html.push_str("<p>The nodes read one counter: there is nothing to relate between them.</p>\n");
    }
    for (number, clock_map) in report.analysis.clock_maps.iter().enumerate() {
        let curve = report.figures.clock_maps.iter().position(|curve| curve.domain == clock_map.domain);
        let _ = write!(
            html,
            "<h3>{} against {}</h3>\n<p>{}</p>\n",
            Text(&clock_map.domain),
            Text(&report.run.manifest().reference),
            known(clock_map, unit)
        );
        if let Some(curve) = curve {
            let _ = writeln!(
                html,
                "<div class=\"figure clock-map\" id=\"clock-map-{number}\" data-curve=\"{curve}\"></div>\n<p \
                 class=\"caption\" id=\"clock-map-{number}-caption\"></p>"
            );
        }
        html.push_str(&sources(report, clock_map, curve, unit));
    }
    html.extend(report.analysis.auxiliary_clocks.iter().map(|clock| auxiliary_clock(report, clock)));
    html
}

/// A clock of a node beside its counter, in words.
fn auxiliary_clock(report: &Report<'_>, clock: &AuxiliaryClockSummary) -> String {
    let nodes = &report.run.manifest().nodes;
    let node = nodes.iter().find(|node| node.domain() == clock.counter);
    let unit = Unit(tickscope_tick::Unit::nanoseconds(clock.hertz, 0));
    let width = |ticks: Option<u64>| ticks.map_or("an unknown width".into(), |ticks| format!("±{} ns", unit.up(ticks)));
    let mut html = format!(
        "<h3>{} against {}</h3>\n<p>{} from {}, in {}; it runs off its rate by at most {} ({}).",
        Text(&clock.domain),
        Text(&clock.counter),
        match clock.readings {
            0 => "Evidence only,".into(),
            readings => format!(
                "{} known to <strong>{}</strong> at the median, {} at the 99th percentile,",
                counted(readings, "reading"),
                width(clock.half_width_ticks),
                width(clock.half_width_p99_ticks)
            ),
        },
        counted(clock.brackets, "bracket"),
        counted(clock.epochs, "stretch").replace("stretchs", "stretches"),
        Text(clock.slew),
        Text(&clock.slew_origin),
    );
    let outside = clock.readings - clock.published_inside;
    if clock.readings > 0 {
        let _ = write!(
            html,
            " The published method, a line between the run's ends, puts {} of them outside, by {} ns at most.",
            count(outside),
            unit.up(clock.published_furthest_ticks)
        );
    }
    html.push_str("</p>\n");
    let breaks = clock.breaks.iter().map(|found| {
        let span = span(report, node, found.span.0, Some(found.span.1));
        let who = if found.declared { "the clock monitor saw it set or slewed" } else { "the brackets show a break" };
        let jump = found.jump_ns.map_or(String::new(), |(least, most)| format!("; it jumped by {least} to {most} ns"));
        format!("not trusted from {span}: {who}{jump}")
    });
    let contradictions = clock.contradictions.iter().map(|why| format!("a stretch contradicts itself: {why}"));
    html + &lines("mind", &breaks.chain(contradictions).collect::<Vec<_>>())
}

fn known(clock_map: &ClockMapSummary, unit: Unit) -> String {
    let width = |ticks: Option<u64>| {
        ticks.map_or("a width that nothing bounds".into(), |ticks| format!("±{} {}", unit.up(ticks), unit.name()))
    };
    let mut text = format!(
        "Known to <strong>{}</strong> at the median instant, from {}, under rho {}.",
        width(clock_map.half_width_ticks),
        counted(clock_map.brackets, "bracket"),
        Text(clock_map.rho)
    );
    for (rho, ticks) in &clock_map.beside {
        let _ = write!(text, " Under rho {}: {}.", Text(rho), width(*ticks));
    }
    if let Some(half) = clock_map.half_round_trip_ticks {
        let _ = write!(text, " Half the shortest round trip is {} {}.", unit.near(half), unit.name());
    }
    text
}

fn sources(report: &Report<'_>, clock_map: &ClockMapSummary, curve: Option<usize>, unit: Unit) -> String {
    let mut html = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Sources of evidence\"><table \
         class=\"cards\"><thead><tr><th scope=\"col\">evidence</th><th scope=\"col\">brackets</th><th \
         scope=\"col\">sides that the band stands on</th><th scope=\"col\">known by it alone</th><th \
         scope=\"col\">known without it</th><th scope=\"col\" class=\"words\">not used</th></tr></thead><tbody>\n",
    );
    for source in &clock_map.sources {
        let shown = curve
            .and_then(|curve| report.figures.clock_maps[curve].sources.iter().find(|shown| shown.name == source.name));
        let tight = shown.map_or("–".into(), |shown| count(shown.tight));
        let width = |ticks: Option<u64>| {
            ticks.map_or("not bounded".into(), |ticks| format!("±{} {}", unit.up(ticks), unit.name()))
        };
        let without = if clock_map.sources.len() > 1 { width(source.without_ticks) } else { "–".into() };
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"brackets\">{}</td><td data-label=\"sides the band stands \
             on\">{tight}</td><td data-label=\"known by it alone\">{}</td><td data-label=\"known without \
             it\">{without}</td><td data-label=\"not used\" class=\"words\">{}</td></tr>",
            Text(&source.name),
            count(source.brackets),
            width(source.alone_ticks),
            unused(source)
        );
    }
    html + "</tbody></table></div>\n"
}

fn unused(source: &SourceSummary) -> String {
    let reasons: Vec<String> =
        source.unused.iter().map(|(reason, number)| format!("{} {}", count(*number), Text(reason))).collect();
    if reasons.is_empty() { "–".into() } else { format!("<span>{}</span>", reasons.join("<br>")) }
}

/// What is missing, by stage and by channel.
pub(crate) fn losses(report: &Report<'_>) -> String {
    let traces = &report.figures.traces;
    let mut html = format!(
        "<p>{} of the path's traces have both ends; {} a point of the path.</p>\n",
        count(traces.measured),
        match traces.lacking {
            0 => "none lacks".into(),
            1 => "1 lacks".into(),
            lacking => format!("<strong>{}</strong> lack", count(lacking)),
        }
    );
    html.push_str(&lacking_stages(report));
    let passages = report.analysis.passages_line.iter();
    html.extend(passages.map(|line| format!("<p>{}</p>\n", Text(line))));
    html.push_str(&lines("finding", &report.analysis.suspicions));
    html.push_str(&lines("not read", report.refused));
    html.push_str(&channels(report));
    html
}

fn lacking_stages(report: &Report<'_>) -> String {
    let mut html = String::new();
    for row in &report.analysis.rows {
        let of = Text(format!("{} → {}", row.from, row.to));
        let kinds = [
            (row.missing, "lack a stamp of"),
            (row.refused, "have no interval for"),
            (row.impossible, "took less than no time on"),
        ];
        for (number, what) in kinds.into_iter().filter(|&(number, _)| number > 0) {
            let _ = writeln!(html, "<li>{} {what} {of}</li>", counted(number, "trace"));
        }
    }
    for (stage, why, number) in &report.analysis.unplaced {
        let _ = writeln!(
            html,
            "<li>{} of {} without an interval: {}</li>",
            counted(*number, "duration"),
            Text(stage),
            Text(why)
        );
    }
    if html.is_empty() { html } else { format!("<ul class=\"plain\">\n{html}</ul>\n") }
}

fn lines(what: &str, all: &[String]) -> String {
    let mut html = String::new();
    for line in all.iter().take(MOST_LINES) {
        let _ = writeln!(html, "<li><strong class=\"bad\">{what}</strong> {}</li>", Text(at_most(MOST_LETTERS, line)));
    }
    if all.len() > MOST_LINES {
        let _ = writeln!(html, "<li>and {} more</li>", count(all.len() - MOST_LINES));
    }
    if html.is_empty() { html } else { format!("<ul class=\"plain\">\n{html}</ul>\n") }
}

/// Channels of one point are one row: a program has as many channels as threads.
fn channels(report: &Report<'_>) -> String {
    let mut points: Vec<(String, Vec<&Channel>)> = Vec::new();
    for channel in report.channels {
        let name = format!("{}.{}", channel.node, channel.point);
        match points.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of)) => of.push(channel),
            None => points.push((name, vec![channel])),
        }
    }
    // Points of tickscope's own that were never passed say nothing.
    let idle = |of: &[&Channel]| of.iter().all(|c| c.stored + c.dropped + c.refused + c.uncommitted == 0);
    let known = |name: &str| report.figures.points.iter().any(|point| format!("{}.{}", point.node, point.name) == name);
    points.retain(|(name, of)| known(name) || !idle(of));
    if points.is_empty() {
        return String::new();
    }
    let order = |name: &str| {
        let known = &report.figures.points;
        known.iter().position(|point| format!("{}.{}", point.node, point.name) == name).unwrap_or(known.len())
    };
    points.sort_by_cached_key(|(name, _)| (order(name), name.clone()));
    let mut html = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"What became of the stamps\"><table \
         class=\"cards\"><thead><tr><th scope=\"col\">point</th><th scope=\"col\">stored</th><th scope=\"col\">found \
         no room</th><th scope=\"col\">refused</th><th scope=\"col\">cut off by the program's end</th><th \
         scope=\"col\">channels</th></tr></thead><tbody>\n",
    );
    for (name, of) in points.iter().take(MOST_LINES) {
        let sum = |get: fn(&Channel) -> i64| of.iter().map(|channel| get(channel)).sum::<i64>();
        let mark = |number: i64| {
            if number > 0 { format!("<strong class=\"bad\">{} lost</strong>", count(number)) } else { "0".into() }
        };
        let recovered = of.iter().filter(|channel| channel.state == ChannelState::Recovered).count();
        let state = if recovered > 0 { format!(", {} recovered", count(recovered)) } else { String::new() };
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"stored\">{}</td><td data-label=\"found no \
             room\">{}</td><td data-label=\"refused\">{}</td><td data-label=\"cut off by the program's \
             end\">{}</td><td data-label=\"channels\">{}{state}</td></tr>",
            Text(name),
            count(sum(|channel| channel.stored)),
            mark(sum(|channel| channel.dropped)),
            mark(sum(|channel| channel.refused)),
            mark(sum(|channel| channel.uncommitted)),
            count(of.len())
        );
    }
    html + "</tbody></table></div>\n"
}

/// What happened to the measuring.
pub(crate) fn events(report: &Report<'_>) -> String {
    if report.events.is_empty() {
        return "<p>Nothing happened that the run took note of.</p>\n".into();
    }
    let mut html = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Events\"><table class=\"cards \
         events\"><thead><tr><th scope=\"col\">what</th><th scope=\"col\">where</th><th scope=\"col\">when</th><th \
         scope=\"col\">how many</th><th scope=\"col\" class=\"words\">in words</th></tr></thead><tbody>\n",
    );
    for event in report.events.iter().take(MOST_EVENTS) {
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"where\">{}</td><td data-label=\"when\">{}</td><td \
             data-label=\"how many\">{}</td><td data-label=\"in words\" class=\"words\">{}</td></tr>",
            Text(at_most(60, event.what.name())),
            Text(at_most(60, &event.node)),
            when(report, event),
            event.value.map_or("–".into(), |value| value.to_string()),
            Text(at_most(MOST_LETTERS, &event.text))
        );
    }
    html.push_str("</tbody></table></div>\n");
    if report.events.len() > MOST_EVENTS {
        let _ = writeln!(
            html,
            "<p>The first {} of {}; all are in the run's events.</p>",
            count(MOST_EVENTS),
            count(report.events.len())
        );
    }
    html
}

/// When: whatever clock an event is about, its ticks are of the node's counter.
fn when(report: &Report<'_>, event: &Event) -> String {
    let nodes = &report.run.manifest().nodes;
    let node = nodes.iter().find(|node| node.name.as_str() == event.node);
    // The host's own counter is what a node reads that no map was injected into.
    let node = node.or_else(|| nodes.iter().find(|node| event.node == "host" && node.injected.is_none()));
    event.tick.map_or("–".into(), |tick| span(report, node, tick, event.until))
}

/// Seconds after the first stamp of that node, a span outward; ticks, where no stamp tells when that was.
fn span(report: &Report<'_>, node: Option<&Node>, tick: i64, until: Option<i64>) -> String {
    let until = until.filter(|&until| until != tick);
    let begun = node.and_then(|node| {
        let points = report.figures.points.iter().filter(|point| point.node == node.name.as_str());
        Some((points.filter_map(|point| point.ticks).map(|(first, _)| first).min()?, node.counter.frequency.hertz))
    });
    let Some((first, hertz)) = begun else {
        return until.map_or_else(|| format!("tick {tick}"), |until| format!("tick {tick} to tick {until}"));
    };
    let unit = Unit(tickscope_tick::Unit::seconds(hertz, 3));
    let since = |tick: i64| i128::from(tick) - i128::from(first);
    match until {
        None => format!("{}\u{a0}s", unit.near(since(tick))),
        Some(until) => format!("{} to {}\u{a0}s", unit.down(since(tick)), unit.up(since(until))),
    }
}

/// What measuring cost, where the run counted it.
pub(crate) fn cost(report: &Report<'_>) -> String {
    let lines = report.run.manifest().cost.as_ref().map(cost::lines).unwrap_or_default();
    let mut html = String::new();
    for line in lines.iter().take(MOST_LINES) {
        // The chapter's name says it already.
        let line = line.strip_prefix("cost: ").or_else(|| line.strip_prefix("cost ")).unwrap_or(line);
        let _ = writeln!(html, "<li>{}</li>", Text(at_most(MOST_LETTERS, line)));
    }
    if html.is_empty() { html } else { format!("<h2>What measuring cost</h2>\n<ul class=\"plain\">\n{html}</ul>\n") }
}

/// The machines, for who wants to measure it again.
pub(crate) fn machines(report: &Report<'_>) -> String {
    let mut html = String::new();
    for node in report.run.manifest().nodes.iter().take(MOST_LINES) {
        let counter = &node.counter;
        let hypervisor = counter.hypervisor.as_ref().map_or(String::new(), |name| format!(", under {name}"));
        let injected =
            node.injected.as_ref().map_or(String::new(), |map| format!(", read through a known map ({map})"));
        let text = format!(
            "{}, Linux {}{hypervisor}; {} at {} Hz{}{injected}",
            node.cpu_model,
            node.kernel,
            node.domain(),
            counter.frequency.hertz,
            if counter.invariant { ", invariant" } else { ", not said to be invariant" },
        );
        let _ = writeln!(
            html,
            "<li><strong>{}</strong> {}</li>",
            Text(node.name.as_str()),
            Text(at_most(MOST_LETTERS, &text))
        );
    }
    html
}

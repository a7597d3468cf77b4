//! The chapters that are words and tables: assumptions, clocks, what was lost, what happened, which machines.

use tickscope_analysis::channel_counts::{self, CountReader};
use tickscope_analysis::{AuxiliaryClockSummary, ClockMapSummary, LimitVerdict, cost};
use tickscope_store::{Channel, ChannelState, Event, Node, RunState};

use crate::Report;
use crate::document::{Block, Tone, Words};
use crate::headline::{self, arrow};
use crate::limits;
use crate::preparation;
use crate::quantity::{Unit, count, counted, utc};
use crate::rivals;
use crate::summary;
use crate::text::micro;
use crate::typesetting::beginning;

/// Events shown; a run that tells more has them all in its files.
const MOST_EVENTS: usize = 200;
/// Letters of one event or assumption shown.
const MOST_LETTERS: usize = 600;
/// Findings, refused files, channels shown.
const MOST_LINES: usize = 100;
/// Letters of a run file shown.
const MOST_OF_A_RUN_FILE: usize = 20_000;

/// Name, time and reference, above the first sentence.
pub(crate) fn about(report: &Report<'_>) -> String {
    let manifest = report.run.manifest();
    let seconds = manifest.ended_unix_ms.map(|ended| (ended - manifest.started_unix_ms) as f64 / 1000.0);
    let lasted = seconds.map_or(String::new(), |seconds| format!(" · {seconds:.0} s from start to end"));
    format!(
        "{}{lasted} · {} · reference clock {}",
        utc(manifest.started_unix_ms),
        counted(manifest.nodes.len(), "node"),
        manifest.reference
    )
}

/// What comes before all figures: a run that is damaged, one that has no end, one that contradicts itself, a stream
/// whose end is not known.
pub(crate) fn alarms(report: &Report<'_>) -> Vec<Block> {
    let state = match report.run.state() {
        Ok(RunState::Ended) => None,
        Ok(RunState::GoingOn) => Some(format!(
            "This run goes on: the page shows what was stored until {}. What is still under way seems lost; make the \
             page again when the run has ended.",
            report.run.stored_until().map_or("it was made".into(), utc)
        )),
        Ok(RunState::CutOff) => Some(
            "This run was cut off before its end was recorded. Figures are of what was stored until then, and what was \
             lost with the rest is not known."
                .to_string(),
        ),
        Err(e) => Some(format!("Whether this run has ended is not known: {e}.")),
    };
    let state = state.map(|words| Block::Box(Tone::Strong, vec![Block::paragraph(words)]));
    damage(report).into_iter().chain(state).chain(findings(report)).chain(open_stream(report)).collect()
}

/// A stream whose end is not known; the other figures stand.
fn open_stream(report: &Report<'_>) -> Option<Block> {
    let why = report.analysis.open_stream()?;
    let head = Words::default().stress("How long the stream took is not known: its end was not seen.");
    Some(Block::Box(Tone::Strong, vec![Block::Paragraph(head), Block::paragraph(headline::sentence(&cut(&why)))]))
}

/// The faults of the run's files.
fn damage(report: &Report<'_>) -> Option<Block> {
    let head = Block::Paragraph(headline::damage(report)?);
    let texts: Vec<String> = report.analysis.refused.iter().map(ToString::to_string).collect();
    Some(Block::Box(Tone::Bad, vec![head].into_iter().chain(lines("", &texts)).collect()))
}

/// True if the run is damaged or contradicts itself, so that no figure of it is to be believed without a look at why.
pub(crate) fn is_doubtful(report: &Report<'_>) -> bool {
    !report.analysis.refused.is_empty() || is_contradicted(report)
}

/// True if the run contradicts itself.
fn is_contradicted(report: &Report<'_>) -> bool {
    report.analysis.contradiction(report.events).is_some()
}

/// The lines of the terminal's table; those of stages are indented there.
fn findings(report: &Report<'_>) -> Option<Block> {
    let all = report.analysis.contradictions(report.events);
    if all.is_empty() {
        return None;
    }
    let head = Words::default().stress("This run contradicts itself, so its figures are not to be believed.");
    let shown = all.iter().take(MOST_LINES).map(|line| Words::from(cut(line.trim_start())));
    let more = all.len().checked_sub(MOST_LINES).filter(|&more| more > 0);
    let shown = shown.chain(more.map(|more| format!("and {} more", count(more)).into()));
    let mut blocks = vec![Block::Paragraph(head.say(" Look for the cause first:")), Block::List(shown.collect())];
    let examples = &report.analysis.suspicions;
    if !examples.is_empty() {
        let shown = examples.len().min(MOST_LINES);
        let line = format!("{} with their stamps", counted(shown, "example"));
        blocks.push(Block::Folded(line, lines("finding", examples)));
    }
    Some(Block::Box(Tone::Bad, blocks))
}

/// What the figures stand on: which matter in a line, all of them once it is opened.
pub(crate) fn assumptions(report: &Report<'_>) -> Vec<Block> {
    let all = tickscope_analysis::assumptions(report.run.manifest(), report.analysis);
    let folded = format!("All {}", counted(all.len(), "assumption"));
    let line = |(statement, origin): (String, String)| {
        let [statement, origin] = [statement, origin].map(|words| micro(&cut(&words)));
        Words::from(statement).say(" ").set(Tone::Aside, origin)
    };
    let matter = micro(&cut(&tickscope_analysis::what_matters(report.run.manifest(), report.analysis)));
    vec![Block::paragraph(matter), Block::Folded(folded, vec![Block::List(all.into_iter().map(line).collect())])]
}

/// Each related clock: a sentence, a place for its figure, what each source of evidence gives.
pub(crate) fn clocks(report: &Report<'_>) -> Vec<Block> {
    let unrelated = &report.analysis.unrelated;
    let mut blocks: Vec<Block> = unrelated.iter().map(Block::paragraph).collect();
    if report.analysis.clock_maps.is_empty() && unrelated.is_empty() {
        blocks.push(Block::paragraph("The nodes read one counter: there is nothing to relate between them."));
    }
    for clock_map in &report.analysis.clock_maps {
        let curve = report.figures.clock_maps.iter().position(|curve| curve.domain == clock_map.domain);
        blocks.push(Block::heading(format!("{} against {}", clock_map.domain, report.run.manifest().reference)));
        blocks.push(Block::Paragraph(known(clock_map, report.unit())));
        blocks.extend(curve.map(|curve| Block::Place(format!("clock-map-{curve}"))));
        blocks.push(sources(report, clock_map, curve));
    }
    blocks.extend(report.analysis.auxiliary_clocks.iter().flat_map(|clock| auxiliary_clock(report, clock)));
    blocks.extend(rivals::blocks(report.rivals, &report.analysis.reference, report.events));
    blocks
}

/// A clock of a node beside its counter, in words.
fn auxiliary_clock(report: &Report<'_>, clock: &AuxiliaryClockSummary) -> Vec<Block> {
    let nodes = &report.run.manifest().nodes;
    let node = nodes.iter().find(|node| node.domain() == clock.counter);
    let unit = Unit(tickscope_tick::Unit::nanoseconds(clock.hertz, 0));
    let width = |ticks: Option<u64>| unit.reach(ticks, "an unknown width");
    let words = match clock.readings {
        0 => "Evidence only,".into(),
        readings => Words::from(format!("{} known to ", counted(readings, "reading")))
            .stress(width(clock.half_width_ticks))
            .say(format!(" at the median, {} at the 99th percentile,", width(clock.half_width_p99_ticks))),
    };
    let words = words.say(format!(
        " from {}, in {}; it runs off its rate by at most {} ({}).",
        counted(clock.brackets, "bracket"),
        counted(clock.epochs, "stretch").replace("stretchs", "stretches"),
        clock.slew,
        micro(&clock.slew_origin.to_string()),
    ));
    let published = format!(
        " One line between the run's ends (X-Lap draws one a packet) puts {} of them outside, by {} ns at most.",
        count(clock.readings - clock.published_inside),
        unit.up(clock.published_furthest_ticks)
    );
    let breaks = clock.breaks.iter().map(|found| {
        let span = span(report, node, found.span.0, Some(found.span.1));
        let who = if found.declared { "the clock monitor saw it set or slewed" } else { "the brackets show a break" };
        let jump = found.jump_ns.map_or(String::new(), |(least, most)| format!("; it jumped by {least} to {most} ns"));
        format!("not trusted from {span}: {who}{jump}")
    });
    let contradictions = clock.contradictions.iter().map(|why| format!("a stretch contradicts itself: {why}"));
    let mind = lines("mind", &breaks.chain(contradictions).collect::<Vec<_>>());
    let heading = Block::heading(format!("{} against {}", clock.domain, clock.counter));
    let words = if clock.readings > 0 { words.say(published) } else { words };
    [heading, Block::Paragraph(words)].into_iter().chain(mind).collect()
}

fn known(clock_map: &ClockMapSummary, unit: Unit) -> Words {
    let width = |ticks: Option<u64>| unit.reach(ticks, "a width that nothing bounds");
    let brackets = counted(clock_map.brackets, "bracket");
    let mut words = Words::from("Known to ")
        .stress(width(clock_map.half_width_ticks))
        .say(format!(" at the median instant, from {brackets}, under rho {}.", clock_map.rho));
    for (rho, ticks) in &clock_map.other_rho {
        words = words.say(format!(" Under rho {rho}: {}.", width(*ticks)));
    }
    match clock_map.half_round_trip_ticks {
        Some(half) => words.say(format!(" Half the shortest round trip is {} {}.", unit.near(half), unit.name())),
        None => words,
    }
}

fn sources(report: &Report<'_>, clock_map: &ClockMapSummary, curve: Option<usize>) -> Block {
    const COLUMNS: [&str; 6] =
        ["evidence", "brackets", "sides that the band stands on", "known by it alone", "known without it", "not used"];
    let unit = report.unit();
    let width = |ticks: Option<u64>| unit.reach(ticks, "not bounded");
    let rows = clock_map.sources.iter().map(|source| {
        let shown = curve
            .and_then(|curve| report.figures.clock_maps[curve].sources.iter().find(|shown| shown.name == source.name));
        let without = if clock_map.sources.len() > 1 { width(source.without_ticks) } else { "–".into() };
        let unused = source.unused.iter().map(|(reason, number)| format!("{} {reason}", count(*number)));
        vec![
            source.name.into(),
            count(source.brackets).into(),
            shown.map_or("–".into(), |shown| count(shown.tight)).into(),
            width(source.alone_ticks).into(),
            without.into(),
            unused.map(Words::from).reduce(Words::line).unwrap_or_else(|| "–".into()),
        ]
    });
    Block::table_ending_in_words("Sources of evidence", &COLUMNS, rows)
}

/// What was done before the run could be shown, what its policies keep, and the layout that was inferred.
pub(crate) fn prepared(report: &Report<'_>) -> Vec<Block> {
    let notes = headline::preparation(report).map(Block::Paragraph);
    let inferred = report.analysis.preparation.inferred.as_ref().and_then(|inferred| inferred.toml());
    let folded = inferred.map(|toml| {
        let declare = "To declare this order, paste this into a run file, or into a file for --layout";
        Block::Folded(declare.into(), vec![Block::Verbatim(toml)])
    });
    let covered = summary::covered(report.analysis).into_iter().map(|line| Block::paragraph(micro(&cut(&line))));
    notes.chain(covered).chain(folded).collect()
}

/// Whether each limit of a stage holds; nothing where there are none.
pub(crate) fn limits(report: &Report<'_>) -> Vec<Block> {
    let lines = limits::lines(report.analysis, report.events, report.unit().0).into_iter().map(|line| {
        let tone = match line.verdict {
            LimitVerdict::Holds => Tone::Strong,
            LimitVerdict::Violated => Tone::Bad,
            LimitVerdict::NotResolved(_) => Tone::Open,
        };
        Words::default().set(tone, line.head).say(format!(": {}", micro(&cut(&line.rest))))
    });
    let lines = list(lines);
    if lines.is_empty() { lines } else { [vec![Block::heading("Limits")], lines].concat() }
}

/// How sure the figures are, and what is missing, by stage and by channel.
pub(crate) fn losses(report: &Report<'_>) -> Vec<Block> {
    let traces = &report.figures.traces;
    let both = format!("{} of the path's traces have both ends", count(traces.measured));
    let both = both + if traces.lacking == 0 { "; none lacks a point of the path." } else { "." };
    let passages = report.analysis.passages_line.iter();
    let found = if is_contradicted(report) { Vec::new() } else { lines("finding", &report.analysis.suspicions) };
    let parts = [
        headline::certainty(report).into_iter().map(Block::Paragraph).collect(),
        vec![Block::paragraph(both)],
        list(lacking_stages(report).map(Words::from)),
        passages.map(Block::paragraph).collect(),
        list(preparation::against(report.analysis).map(Words::from)),
        found,
        channels(report),
    ];
    parts.concat()
}

fn lacking_stages(report: &Report<'_>) -> impl Iterator<Item = String> {
    let rows = report.analysis.rows.iter().flat_map(|row| {
        let kinds = [
            (row.missing, ["lacks a stamp of", "lack a stamp of"]),
            (row.refused, ["has no interval for", "have no interval for"]),
            (row.impossible, ["took less than no time on"; 2]),
        ];
        let left_out = row.missing > 0 && summary::may_be_left_out(report.analysis, row);
        let left_out = if left_out { format!(", {}", summary::LEFT_OUT) } else { String::new() };
        let kinds = kinds.into_iter().enumerate().filter(|&(_, (number, _))| number > 0);
        kinds.map(move |(kind, (number, [one, several]))| {
            let why = if kind == 0 { &left_out } else { "" };
            format!("{} {} {}{why}", counted(number, "trace"), if number == 1 { one } else { several }, arrow(row))
        })
    });
    rows.chain(
        report.analysis.unplaced.iter().map(|(stage, why, number)| {
            format!("{} of {stage} without an interval: {why}", counted(*number, "duration"))
        }),
    )
}

/// A list, or nothing if it is empty.
fn list(lines: impl Iterator<Item = Words>) -> Vec<Block> {
    let lines: Vec<Words> = lines.collect();
    if lines.is_empty() { Vec::new() } else { vec![Block::List(lines)] }
}

fn cut(text: &str) -> String {
    beginning(text, MOST_LETTERS, "")
}

fn lines(what: &str, all: &[String]) -> Vec<Block> {
    let shown = all.iter().take(MOST_LINES);
    let shown = shown.map(|line| Words::default().set(Tone::Bad, what).say(format!(" {}", cut(line))));
    let more = all.len().checked_sub(MOST_LINES).filter(|&more| more > 0);
    list(shown.chain(more.map(|more| format!("and {} more", count(more)).into())))
}

/// Channels of one point are one row: a program has as many channels as threads.
fn channels(report: &Report<'_>) -> Vec<Block> {
    let mut points: Vec<(String, Vec<&Channel>)> = Vec::new();
    for channel in report.channels {
        let name = format!("{}.{}", channel.node, channel.point);
        match points.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of)) => of.push(channel),
            None => points.push((name, vec![channel])),
        }
    }
    let known = &report.figures.points;
    let order = |name: &str| known.iter().position(|point| format!("{}.{}", point.node, point.name) == name);
    // Points of tickscope's own that were never passed say nothing.
    let idle = |of: &[&Channel]| of.iter().all(|channel| channel.ever_stored() == 0 && !channel_counts::loses(channel));
    points.retain(|(name, of)| order(name).is_some() || !idle(of));
    points.sort_by_cached_key(|(name, _)| (order(name).unwrap_or(known.len()), name.clone()));
    if points.is_empty() {
        return Vec::new();
    }
    let sum = |of: CountReader| channel_counts::sum(report.channels, of);
    let removed = sum(|channel| channel.removed.unwrap_or(0));
    let overwritten = sum(|channel| channel.overwritten.unwrap_or(0));
    let mut columns = vec!["point", "stored", "found no room", "refused", "cut off by the program's end", "channels"];
    if overwritten != 0 {
        columns.insert(3, "overwritten");
    }
    if removed != 0 {
        columns.insert(2, "removed by the window");
    }
    let rows = points.iter().take(MOST_LINES).map(|(name, of)| channel_row(name, of, (removed != 0, overwritten != 0)));
    let table = Block::table("What became of the stamps", &columns, rows);
    if channel_counts::lost(report.channels) == 0 && channel_counts::impossible(report.channels) == 0 {
        let since = match removed {
            0 => String::new(),
            removed => format!(" {} were removed since, older than the run's window.", counted(removed, "stamp")),
        };
        let line = format!(
            "All {} at {} were stored: none was dropped, refused or cut off.{since}",
            counted(sum(|channel| channel.stored) + removed, "stamp"),
            counted(points.len(), "point")
        );
        return vec![Block::paragraph(line), Block::Folded("By point".into(), vec![table])];
    }
    let more = points.len().checked_sub(MOST_LINES).filter(|&more| more > 0);
    let more = more
        .map(|more| Block::paragraph(format!("And {} more; all are in the run's channels.", counted(more, "point"))));
    [table].into_iter().chain(more).collect()
}

/// Traces that span the making of a program's pool; nothing where none does.
pub(crate) fn late_pools(report: &Report<'_>) -> Vec<Block> {
    let lines = summary::late_pools(report.analysis);
    let items = lines.iter().map(|line| Words::from(headline::sentence(line))).collect::<Vec<_>>();
    (!items.is_empty()).then_some(Block::List(items)).into_iter().collect()
}

fn channel_row(name: &str, of: &[&Channel], (windowed, overwrites): (bool, bool)) -> Vec<Words> {
    let sum = |count: CountReader| channel_counts::sum(of.iter().copied(), count);
    let lost = |number: i128| match number {
        0 => "0".into(),
        number => Words::default().set(Tone::Bad, format!("{} lost", count(number))),
    };
    let recovered = of.iter().filter(|channel| channel.state == ChannelState::Recovered).count();
    let state = if recovered > 0 { format!(", {} recovered", count(recovered)) } else { String::new() };
    let mut row = vec![
        name.into(),
        count(sum(|channel| channel.stored)).into(),
        lost(sum(|channel| channel.dropped)),
        lost(sum(|channel| channel.refused)),
        lost(sum(|channel| channel.uncommitted)),
        (count(of.len()) + &state).into(),
    ];
    if overwrites {
        row.insert(3, lost(sum(|channel| channel.overwritten.unwrap_or(0))));
    }
    if windowed {
        row.insert(2, count(sum(|channel| channel.removed.unwrap_or(0))).into());
    }
    row
}

/// What happened to the measuring.
pub(crate) fn events(report: &Report<'_>) -> Vec<Block> {
    /// Events that are read at a glance.
    const FEW: usize = 8;
    if report.events.is_empty() {
        return vec![Block::paragraph("Nothing happened that the run took note of.")];
    }
    let rows = report.events.iter().take(MOST_EVENTS).map(|event| {
        let value = event.value.map_or("–".into(), |value| value.to_string());
        let [what, node] = [event.what.name(), &event.node].map(|name| beginning(name, 60, ""));
        [what, node, when(report, event), value, cut(&event.text)].map(Words::from).to_vec()
    });
    let columns = ["what", "where", "when", "how many", "in words"];
    let mut blocks = vec![Block::table_ending_in_words("Events", &columns, rows)];
    if report.events.len() > MOST_EVENTS {
        let [shown, all] = [MOST_EVENTS, report.events.len()].map(count);
        blocks.push(Block::paragraph(format!("The first {shown} of {all}; all are in the run's events.")));
    }
    match report.events.len() {
        ..=FEW => blocks,
        many => vec![Block::Folded(format!("All {}", counted(many, "event")), blocks)],
    }
}

/// When: whatever clock an event is about, its ticks are of the node's counter.
fn when(report: &Report<'_>, event: &Event) -> String {
    let nodes = &report.run.manifest().nodes;
    let node = nodes.iter().find(|node| node.name.as_str() == event.node);
    // The host's own counter is what a node reads that no map was injected into.
    let node = node.or_else(|| nodes.iter().find(|node| event.node == Event::HOST && node.injected.is_none()));
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
fn cost(report: &Report<'_>) -> Vec<Block> {
    let lines = report.run.manifest().cost.as_ref().map(cost::lines).unwrap_or_default();
    let lines = lines.iter().take(MOST_LINES).map(|line| {
        // The heading says it already.
        let line = line.strip_prefix("cost: ").or_else(|| line.strip_prefix("cost ")).unwrap_or(line);
        micro(&cut(line)).into()
    });
    let blocks = list(lines);
    if blocks.is_empty() { blocks } else { [vec![Block::heading("What measuring cost")], blocks].concat() }
}

/// What ran, where and by what, for who was not there or wants to measure it again.
pub(crate) fn ran(report: &Report<'_>) -> Vec<Block> {
    let manifest = report.run.manifest();
    let mut facts: Vec<(String, String)> = vec![
        ("Run".into(), format!("{:016x}, in the folder {}", manifest.run, report.directory())),
        ("Begun".into(), utc(manifest.started_unix_ms)),
        ("Ended".into(), manifest.ended_unix_ms.map_or_else(|| "no end was written".into(), utc)),
        ("Revision".into(), manifest.revision.clone().unwrap_or_else(|| "not known".into())),
        ("tickscope".into(), format!("{}; page by {}", manifest.tickscope, env!("CARGO_PKG_VERSION"))),
    ];
    facts.iter_mut().for_each(|(_, fact)| *fact = cut(fact));
    let file = match &manifest.run_file {
        Some(text) => vec![Block::Verbatim(beginning(text, MOST_OF_A_RUN_FILE, "\n(the rest is in run.json)"))],
        None => vec![Block::paragraph("The run did not keep one.")],
    };
    let nodes = manifest.nodes.iter().take(MOST_LINES).flat_map(node);
    [vec![Block::Facts(facts)], nodes.collect(), vec![Block::heading("The run file")], file, cost(report)].concat()
}

/// A node: what ran there, and on which machine.
fn node(node: &Node) -> Vec<Block> {
    let counter = &node.counter;
    let words: Vec<String> = node.command.iter().map(|word| quoted(word)).collect();
    let command = if words.is_empty() { "not known".into() } else { words.join(" ") };
    let hypervisor = counter.hypervisor.as_ref().map_or(String::new(), |name| format!(", under {name}"));
    let facts = [
        ("Command", command),
        ("Host", node.host.clone().unwrap_or_else(|| "not known".into())),
        ("Processor", format!("{}{hypervisor}", node.cpu_model)),
        ("Kernel", format!("Linux {}", node.kernel)),
        (
            "Counter",
            format!(
                "{} at {} Hz, {}",
                node.domain(),
                counter.frequency.hertz,
                if counter.invariant { "invariant" } else { "invariance not reported" },
            ),
        ),
        ("Known map", node.injected.clone().unwrap_or_default()),
    ];
    let facts = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
    let facts = facts.map(|(name, fact)| (name.to_string(), cut(&fact))).collect();
    vec![Block::heading(cut(node.name.as_str())), Block::Facts(facts)]
}

/// A word of a command as a shell would take it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "_-./:=,@%+{}".contains(letter);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

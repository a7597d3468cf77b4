//! `tickscope show --by`: a table for each kind of ids, each value of a stamp, or each channel of a point.

use tickscope_analysis::{Group, GroupedBy, Groups, Query, ReadyRun, grouped, tells_channels};
use tickscope_show::stage_table::{View, group_table};
use tickscope_store::{Channel, Run};
use tickscope_tick::Place;

use crate::failure::Failure;
use crate::output::{self, note};

/// Kinds or values that are shown.
const MOST_GROUPS: usize = 12;

/// Channels that are shown: a thread each, and one asks for the slow one, not for the frequent ones.
const MOST_CHANNELS: usize = 64;

/// Prints a table a group, those of the most traces; the others are counted.
pub fn show(ready: ReadyRun, query: &Query, by: &GroupedBy, view: &View) -> Result<(), Failure> {
    let ready = told_apart(ready, by)?;
    let run = &ready.run;
    let (word, most) = word(by);
    let groups = grouped(run, query, by, most)?;
    let names = Names::of(run, word, groups.point.as_ref())?;
    if groups.shown.is_empty() {
        return Err(Failure::work(
            "expected traces to group, found none. Is there one in tickscope show without --by?",
        ));
    }
    output::print(text(run, &groups, &names, view).as_bytes())?;
    match groups.shown.iter().flat_map(|group| &group.rows).map(|row| row.impossible).sum::<u64>() {
        0 => Ok(()),
        impossible => Err(Failure::finding(format!("{impossible} impossible durations: tickscope show says where"))),
    }
}

/// The run, joined by this version where its traces do not tell the channels apart that are asked for.
fn told_apart(ready: ReadyRun, by: &GroupedBy) -> Result<ReadyRun, Failure> {
    if !matches!(by, GroupedBy::Channel(_)) || tells_channels(&ready.run)? {
        return Ok(ready);
    }
    let why = "its traces are of an earlier version, which kept no channels; they stay as they are";
    let ready = ready.joined_apart(why)?;
    ready.preparation.notes.first().into_iter().for_each(note);
    Ok(ready)
}

/// The name of a group's key, and how many groups are shown.
fn word(by: &GroupedBy) -> (&'static str, usize) {
    match by {
        GroupedBy::Kind => ("kind", MOST_GROUPS),
        GroupedBy::Value => ("value", MOST_GROUPS),
        GroupedBy::Channel(_) => ("channel", MOST_CHANNELS),
    }
}

fn text(run: &Run, groups: &Groups, names: &Names, view: &View) -> String {
    let hertz = run.manifest().nodes.iter().find(|node| node.domain() == run.manifest().reference);
    let hertz = hertz.map_or(1, |node| node.counter.frequency.hertz);
    let mut text = groups.point.as_ref().map_or_else(String::new, |place| format!("channels of {place}\n\n"));
    for group in &groups.shown {
        let traces = if group.traces == 1 { "trace" } else { "traces" };
        text += &format!("{}: {} {traces}\n", names.of_group(group), group.traces);
        text += &group_table(&group.rows, hertz, view);
        text += "\n";
    }
    if groups.more_keys > 0 {
        let more = if groups.more_keys == 1 { "" } else { "s" };
        let (traces, word) = (groups.more_traces, names.word);
        text += &format!("{} more {word}{more}, of {traces} traces in all, are not shown\n", groups.more_keys);
    }
    text
}

/// How groups are named.
struct Names {
    word: &'static str,
    /// The point whose channels the keys are, and its channels.
    channels: Option<(Place, Vec<Channel>)>,
}

impl Names {
    fn of(run: &Run, word: &'static str, place: Option<&Place>) -> Result<Self, Failure> {
        let Some(place) = place else { return Ok(Self { word, channels: None }) };
        let mut channels = run.channels()?.found;
        channels.retain(|channel| channel.is_at(place));
        Ok(Self { word, channels: Some((place.clone(), channels)) })
    }

    fn of_group(&self, group: &Group) -> String {
        match (group.key, &self.channels) {
            (None, None) => format!("{} none", self.word),
            (None, Some((place, _))) => format!("no stamp at {place}"),
            (Some(key), None) => format!("{} {key}", self.word),
            (Some(key), Some((_, channels))) => channel_name(key, channels),
        }
    }
}

/// The thread and the process of a channel, as `ps -L` shows them, and its number in the run; the number alone where no
/// thread is known, as of a log.
fn channel_name(number: i64, channels: &[Channel]) -> String {
    match channels.iter().find(|channel| i64::from(channel.channel) == number) {
        Some(Channel { thread, pid, .. }) if *thread != 0 => {
            format!("channel {number}, thread {thread} of process {pid}")
        }
        _ => format!("channel {number}"),
    }
}

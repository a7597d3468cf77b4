//! `tickscope status`, `channels`, `policy` and `dump`: a run that goes on is asked, or told, through its socket.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tickscope_analysis::probed_half_width;
use tickscope_experiment::control::{RunRequest, ask};
use tickscope_host::free_space::free_bytes;
use tickscope_store::{Node, Paths, Policy, Run};
use tickscope_tick::{counted, own_points, printable};

use crate::chosen_run;
use crate::failure::Failure;
use crate::options::{ChannelsOptions, DumpOptions, PolicyOptions, StatusOptions};
use crate::output::{line, note, print, print_json};
use crate::unmatched::{self, Named};

/// Version of the JSON that these commands print: within it keys are added, never removed or renamed.
const VERSION: u32 = 1;
/// Channels that the text lists of a node.
const MOST_LISTED: usize = 1000;

/// Lists a run's channels.
pub fn channels(options: &ChannelsOptions) -> Result<(), Failure> {
    let run = chosen_run::open_to_steer(options.run.as_deref())?;
    let reply = ask(run.root(), &RunRequest::Channels { all: options.all })?;
    if options.json {
        print_json(&versioned(reply.clone()))?;
        return expect_answers(&reply);
    }
    let mut rows = vec![words(["NODE", "POINT", "PROCESS", "THREAD", "POLICY", "STATE", "STAMPS", "A SECOND", "LOST"])];
    let mut left_out = 0;
    for node in nodes(&reply) {
        let channels = node["channels"].as_array().map_or(&[][..], Vec::as_slice);
        left_out += channels.len().saturating_sub(MOST_LISTED) as u64 + node["left_out"].as_u64().unwrap_or(0);
        for channel in channels.iter().take(MOST_LISTED) {
            let text = |name: &str| text_of(&channel[name]);
            let rate = channel["rate"].as_f64().map_or_else(|| "-".into(), |rate| format!("{rate:.0}"));
            let [point, policy, state, stamps, lost] = ["point", "policy", "state", "stamps", "lost"].map(text);
            rows.push(vec![
                text_of(&node["node"]),
                point,
                text("pid"),
                text("thread"),
                policy,
                state,
                stamps,
                rate,
                lost,
            ]);
        }
    }
    print_table(&rows, 6)?;
    if left_out > 0 {
        note(format!("{left_out} more channels are not listed"));
    }
    expect_answers(&reply)
}

/// Gives channels another policy.
pub fn policy(options: &PolicyOptions) -> Result<(), Failure> {
    let run = chosen_run::open_to_steer(Some(&options.run))?;
    let (glob, policy) = (options.points.clone(), options.policy.join(" "));
    if own_points::are(&glob) {
        return Err(Failure::input(format!(
            "expected points of a program, found '{glob}', which is tickscope's own: it is evidence, and no rule is \
             for it. tickscope channels {} lists the others",
            run.root().display()
        )));
    }
    if let Some(why) = unmatched::with_node(&run, &Named { glob: &glob, node: options.node.as_ref() }) {
        return Err(Failure::input(why));
    }
    let reply = ask(run.root(), &RunRequest::Policy { glob, policy: policy.clone(), node: options.node.clone() })?;
    if channels_of(&reply, "switched") == Some(0) {
        unmatched::rule(&run, &Named { glob: &options.points, node: options.node.as_ref() }).iter().for_each(note);
    }
    if policy.trim() == Policy::Own.name() {
        note("under own each stamp is refused and counted until its program names a function: tickscope_choose");
    }
    if options.json {
        print_json(&versioned(reply.clone()))?;
        return expect_answers(&reply);
    }
    for node in nodes(&reply).iter().filter(|node| node["switched"].is_object()) {
        let switched = &node["switched"];
        let channels = counted(switched["channels"].as_u64().unwrap_or(0), "channel");
        let [name, before, after] = [&node["node"], &switched["before"], &switched["after"]].map(text_of);
        line(format!("{name}: {channels} switched to {policy}, between ticks {before} and {after} of its counter"))?;
    }
    expect_answers(&reply)
}

/// Has what `keep` holds stored.
pub fn dump(options: &DumpOptions) -> Result<(), Failure> {
    let run = chosen_run::open_to_steer(Some(&options.run))?;
    let reply = ask(run.root(), &RunRequest::Dump { glob: options.points.clone(), node: options.node.clone() })?;
    let answered = || {
        expect_answers(&reply)?;
        let named = Named { glob: &options.points, node: options.node.as_ref() };
        if channels_of(&reply, "dumped") == Some(0) { unmatched::expect_kept(&run, &named) } else { Ok(()) }
    };
    if options.json {
        print_json(&versioned(reply.clone()))?;
        return answered();
    }
    for node in nodes(&reply).iter().filter(|node| node["dumped"].is_object()) {
        let count = |name: &str, what| counted(node["dumped"][name].as_u64().unwrap_or(0), what);
        let (stamps, channels) = (count("stamps", "stamp"), count("channels", "channel"));
        line(format!("{}: {stamps} of {channels} under the policy keep stored", text_of(&node["node"])))?;
    }
    answered()
}

/// Sum of `channels` in what nodes answered of `what`; `None`: none of them has answered.
fn channels_of(reply: &Value, what: &str) -> Option<u64> {
    let answers: Vec<u64> = nodes(reply).iter().filter_map(|node| node[what]["channels"].as_u64()).collect();
    (!answers.is_empty()).then(|| answers.iter().sum())
}

/// Says how a run's nodes stand.
pub fn status(options: &StatusOptions) -> Result<(), Failure> {
    let run = chosen_run::open_to_steer(options.run.as_deref())?;
    let mut reply = ask(run.root(), &RunRequest::Status)?;
    add_files(&mut reply, &run);
    if options.json {
        print_json(&versioned(reply.clone()))?;
        return expect_answers(&reply);
    }
    let seconds = |value: &Value| value.as_f64().map_or_else(|| "-".into(), |seconds| format!("{seconds:.0} s"));
    let free = |value: &Value| value.as_u64().map_or_else(|| "unknown".into(), |bytes| format!("{} MiB", bytes >> 20));
    line(format!(
        "{}: measures since {} of {}; {} free on disk, {} in shared memory",
        run.root().display(),
        seconds(&reply["seconds"]),
        seconds(&reply["wanted_seconds"]),
        free(&reply["disk_free_bytes"]),
        free(&reply["shared_memory_free_bytes"])
    ))?;
    let mut rows = vec![words(["NODE", "AGENT", "IS", "SINCE", "OPEN", "CLOSED", "STAMPS", "LOST", "BYTES", "CLOCK"])];
    for node in nodes(&reply) {
        let text = |name: &str| text_of(&node[name]);
        let clock = match (node["is_reference"] == true, node["clock_ns"].as_u64()) {
            (true, _) => "reference".into(),
            (_, Some(ns)) => format!("±{ns} ns"),
            _ => "-".into(),
        };
        let channels = &node["channels"];
        let [open, closed] = ["open", "closed"].map(|name| text_of(&channels[name]));
        let [name, host, connection] = ["node", "host", "connection"].map(text);
        let [stamps, lost, bytes] = ["stamps", "lost", "bytes"].map(text);
        let since = seconds(&node["since_seconds"]);
        rows.push(vec![name, host, connection, since, open, closed, stamps, lost, bytes, clock]);
    }
    print_table(&rows, 3)?;
    for rule in reply["rules"].as_array().into_iter().flatten() {
        let node = rule["node"].as_str().map_or_else(String::new, |node| format!(" on {node}"));
        line(format!("live rule: {} {}{node}", text_of(&rule["glob"]), text_of(&rule["policy"])))?;
    }
    expect_answers(&reply)
}

/// Adds what the run's files say: bytes of stamps, and how well the probes relate each node to the reference so far.
fn add_files(reply: &mut Value, run: &Run) {
    let manifest = run.manifest();
    let pairs = run.pairs().map(|listing| listing.found).unwrap_or_default();
    let hertz = |node: &Node| node.counter.frequency.hertz.max(1);
    for row in reply["nodes"].as_array_mut().into_iter().flatten() {
        let Some(node) = manifest.nodes.iter().find(|node| row["node"] == node.name.as_str()) else { continue };
        row["bytes"] = json!(bytes_below(&Paths::of(run.root()).node_stamps(node.name.as_str())));
        row["is_reference"] = json!(node.domain() == manifest.reference);
        let both = [node.domain(), manifest.reference.clone()];
        let pair = pairs.iter().find(|pair| [&pair.reference, &pair.domain].iter().all(|label| both.contains(label)));
        let Some(pair) = pair.filter(|_| row["is_reference"] == false) else { continue };
        // What cannot be told yet, or contradicts itself, is told once the run has ended.
        let ticks = probed_half_width(run, pair).ok().flatten();
        let of = manifest.nodes.iter().find(|node| node.domain() == pair.reference).map_or(1, hertz);
        row["clock_ns"] = json!(ticks.map(|ticks| (u128::from(ticks) * 1_000_000_000).div_ceil(of.into()) as u64));
    }
    reply["disk_free_bytes"] = json!(free_bytes(run.root()));
    reply["shared_memory_free_bytes"] = json!(free_bytes(Path::new("/dev/shm")));
}

/// Bytes of the files below a folder; what goes meanwhile does not count.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |file| file.len()),
    };
    entries.map(size).sum()
}

/// Fails if a node did not answer, which is named.
fn expect_answers(reply: &Value) -> Result<(), Failure> {
    let silent = nodes(reply).iter().filter_map(|node| Some((text_of(&node["node"]), node["failed"].as_str()?)));
    let silent: Vec<String> = silent.map(|(node, why)| format!("{node}: {why}")).collect();
    if silent.is_empty() {
        return Ok(());
    }
    Err(Failure::work(format!(
        "cannot hear all nodes: {}. They get a policy as soon as they answer; tickscope status says how they \
         stand",
        silent.join("; ")
    )))
}

fn nodes(reply: &Value) -> &[Value] {
    reply["nodes"].as_array().map_or(&[], Vec::as_slice)
}

fn versioned(mut reply: Value) -> Value {
    reply["version"] = json!(VERSION);
    reply
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).into()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => printable(text).into_owned(),
        other => other.to_string(),
    }
}

/// Prints rows, the first columns to the left, from the one named on to the right.
fn print_table(rows: &[Vec<String>], first_to_the_right: usize) -> Result<(), Failure> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(column, cell): (usize, &String)| match column < first_to_the_right {
            true => format!("{cell:<0$}", widths[column]),
            false => format!("{cell:>0$}", widths[column]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        text += &format!("{}\n", cells.join("  ").trim_end());
    }
    print(text.as_bytes())
}

//! `run --overhead`: the target in pairs of passes, measured and not, and the numbers that it reports in each.
//!
//! Idea: only the target can tell what it does unmeasured, so the numbers are those of its own last line. The two
//! passes of a pair follow each other, and every second pair begins with the other one: what changes slowly cancels
//! within pairs, a trend over them. A first, short pass counts for nothing: it shows that the numbers are there.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tickscope_store::{Compared, Overhead, Passes, make_folders};
use tickscope_tick::NodeName;

use crate::Error;
use crate::conductor::{Measuring, pass};
use crate::interrupt;
use crate::leftovers::PASSES;
use crate::notice::{Shown, show_progress};
use crate::plan::{OverheadPlan, Plan};

/// Numbers of one pass: by node and field.
type Numbers = Vec<((NodeName, String), f64)>;

/// Makes all passes, in a folder of the run's directory that is gone afterwards.
pub(crate) fn compare(plan: &Plan, root: &Path) -> Result<Overhead, Error> {
    let OverheadPlan { fields, pairs, seconds } = &plan.overhead;
    if let Some(node) = plan.nodes.iter().find(|node| node.stamps.is_some()) {
        return Err(Error::input(format!(
            "cannot compare with and without measuring: something else starts programs of node '{}', and measures \
             them all the time. Leave --overhead out",
            node.name
        )));
    }
    let mut shorter = plan.clone();
    shorter.logs.clear();
    let scratch = Scratch::new(root)?;
    let mut progress = Progress::default();
    let mut told = |number: u32, measuring| {
        progress.show(number, 2 * pairs);
        shorter.run.seconds = if number == 0 { seconds.min(FIRST_SECONDS) } else { *seconds };
        let last_lines = pass(&shorter, &scratch.pass(number), measuring)?;
        if interrupt::ended() {
            return Err(Error::work("interrupted between passes with and without measuring; nothing was kept"));
        }
        numbers(&last_lines, fields)
    };
    let names = told(0, Measuring::Nothing)?.into_iter().map(|(name, _)| name);
    let mut all: Vec<Compared> =
        names.map(|(node, field)| Compared { node, field, pairs: Vec::with_capacity(*pairs as usize) }).collect();
    for pair in 0..*pairs {
        let mut order = [Measuring::All, Measuring::Nothing];
        if pair % 2 == 1 {
            order.reverse();
        }
        let first = told(2 * pair + 1, order[0])?;
        let second = told(2 * pair + 2, order[1])?;
        let (measured, alone) = if order[0] == Measuring::All { (first, second) } else { (second, first) };
        for compared in &mut all {
            let found = |numbers: &Numbers| number_of(numbers, compared);
            let passes = Passes { measured: found(&measured)?, alone: found(&alone)? };
            compared.pairs.push(passes);
        }
    }
    Ok(Overhead { pass_seconds: *seconds, fields: all })
}

/// Seconds of the first pass: whoever misses a number should not wait for long to be told.
const FIRST_SECONDS: f64 = 0.5;

/// Tells how far the passes are: in place on a terminal, elsewhere a line every few seconds.
#[derive(Default)]
struct Progress {
    shown: Option<Instant>,
}

impl Progress {
    /// How often without a terminal.
    const EVERY: Duration = Duration::from_secs(10);

    fn show(&mut self, pass: u32, of: u32) {
        let terminal = std::io::stderr().is_terminal();
        let place = if terminal { Shown::OnTerminal { last: pass == of } } else { Shown::AsLine };
        if terminal || self.shown.is_none_or(|shown| shown.elapsed() >= Self::EVERY) {
            self.shown = Some(Instant::now());
            show_progress(&format!("overhead: pass {pass:>2} of {of}, with and without measuring in turn"), place);
        }
    }
}

/// The numbers of the commands' last lines: those asked for, each of which must be there, or all in nanoseconds.
fn numbers(last_lines: &[(NodeName, Option<String>)], fields: &[String]) -> Result<Numbers, Error> {
    let objects: Vec<(&NodeName, Map<String, Value>)> =
        last_lines.iter().filter_map(|(node, last)| Some((node, object(last.as_deref()?)?))).collect();
    let mut found = Numbers::new();
    for (node, object) in &objects {
        for (field, value) in object {
            let wanted = if fields.is_empty() { field.ends_with("_ns") } else { fields.contains(field) };
            if let (true, Some(number)) = (wanted, value.as_f64()) {
                found.push((((*node).clone(), field.clone()), number));
            }
        }
    }
    let missing = |field: &&String| !found.iter().any(|((_, known), _)| known == *field);
    match fields.iter().find(missing) {
        None if !found.is_empty() => Ok(found),
        missing => Err(nothing_to_compare(last_lines, missing)),
    }
}

fn object(line: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(line).ok()
}

fn nothing_to_compare(last_lines: &[(NodeName, Option<String>)], missing: Option<&String>) -> Error {
    let expected = missing.map_or("numbers whose names end in _ns".into(), |field| format!("a number '{field}'"));
    let lines: Vec<String> = last_lines
        .iter()
        .map(|(node, last)| format!("{node}: {}", last.as_ref().map_or("nothing".into(), |line| format!("'{line}'"))))
        .collect();
    Error::input(format!(
        "--overhead: expected {expected} in the last line of a command, a JSON object; found {}. Let the target print \
         what it measures of itself, or name it in [overhead] fields",
        lines.join(", ")
    ))
}

fn number_of(numbers: &Numbers, compared: &Compared) -> Result<f64, Error> {
    let found = numbers.iter().find(|((node, field), _)| *node == compared.node && *field == compared.field);
    let (node, field) = (&compared.node, &compared.field);
    let wrong = || {
        format!(
            "--overhead: expected '{field}' of {node} in every pass, found one without it. Let the target print it \
             each time"
        )
    };
    found.map(|(_, number)| *number).ok_or_else(|| Error::input(wrong()))
}

/// The passes' directories; gone at the end.
struct Scratch {
    root: PathBuf,
    folder: PathBuf,
}

impl Scratch {
    fn new(root: &Path) -> Result<Self, Error> {
        let folder = root.join(PASSES);
        let made = make_folders(&folder);
        made.map_err(|e| Error::work(format!("{e}. Name another directory with --out")))?;
        Ok(Self { root: root.into(), folder })
    }

    fn pass(&self, number: u32) -> PathBuf {
        self.folder.join(number.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder); // what stays is hidden, and read by nobody
        let _ = fs::remove_dir(&self.root); // only where nothing else is in it
    }
}

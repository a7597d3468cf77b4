//! Steps of a conformance program (`tests/conformance/README.md`), a line each on stdin, taken by this crate.
//!
//! Ends with 64 at a step it does not know. Channels that are not closed are closed at its end, as in C.

use std::collections::HashMap;
use std::io::stdin;
use std::process::exit;

use tickscope_stamp::{Channel, Extra, Fields, Ids, id_of};
use tickscope_tick::Ordering;

fn main() {
    let mut channels: HashMap<String, Channel> = HashMap::new();
    for line in stdin().lines() {
        let line = line.unwrap_or_default();
        let words: Vec<&str> = line.split(' ').collect();
        if take(&mut channels, &words).is_none() {
            exit(64);
        }
    }
}

/// One step; `None` where it is none.
fn take(channels: &mut HashMap<String, Channel>, words: &[&str]) -> Option<()> {
    if words == ["kill"] {
        // SAFETY: a signal to this process alone, which has nothing left to do.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    let &[step, at, ref rest @ ..] = words else { return None };
    match (step, rest) {
        ("open", &[point, ordering, fields]) => {
            let ordering: Ordering = ordering.parse().ok()?;
            let fields = match fields {
                "full" => Fields::Full,
                "wide" => Fields::Wide,
                _ => Fields::Slim,
            };
            channels.insert(at.to_owned(), Channel::open(point, ordering, fields).ok()?);
        }
        ("stamp", &[id]) => channels.get(at)?.stamp(id.parse().ok()?),
        ("stamp_with", &[id, kind, value]) => {
            let extra = Extra { kind: kind.parse().ok()?, value: value.parse().ok()?, ..Extra::default() };
            channels.get(at)?.stamp_with(id.parse().ok()?, extra);
        }
        ("record", &[id, tick]) => channels.get(at)?.record(id.parse().ok()?, tick.parse().ok()?),
        ("record_with", &[id, kind, value, tick]) => {
            let extra = Extra { kind: kind.parse().ok()?, value: value.parse().ok()?, ..Extra::default() };
            channels.get(at)?.record_with(id.parse().ok()?, tick.parse().ok()?, extra);
        }
        ("record_batch", &[id, n, tick]) => {
            let channel = channels.get(at)?;
            channel.record_batch_with(id.parse().ok()?, n.parse().ok()?, tick.parse().ok()?, Extra::default());
        }
        ("keep_and_stamp", &[text]) => {
            let ids = Ids::open().ok()?;
            channels.get(at)?.stamp(ids.keep(text));
            std::mem::forget(ids); // as in C, where it is the thread's
        }
        ("stamp_text", &[text]) => channels.get(at)?.stamp(id_of(text)),
        ("choose", &[divisor]) => {
            let divisor: i64 = divisor.parse().ok()?;
            channels.get(at)?.choose(move |id, tick| tick != 0 && id % divisor == 0);
        }
        ("close", &[]) => drop(channels.remove(at)?),
        _ => return None,
    }
    Some(())
}

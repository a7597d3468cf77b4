//! Pauses of a HotSpot virtual machine, by its unified log (Java 17 and later): each safepoint between two instants.
//!
//! Idea: the machine's own thread reads `CLOCK_MONOTONIC` as it asks the program's threads to stop and after it let
//! them go, and writes down how far the two lie apart (`Total`), to the nanosecond, but not when. Of each line it says
//! when that was begun: the line of a safepoint is begun after its end, one that is written within it (`Pause Young ...
//! 1.2ms`, `end VM_Operation`) before. So the end lies between the two, and the begin as far before. Where no line is
//! written within, `Time since last` carries the last safepoint's end on.
//!
//! Assumes: those lines are the machine's own thread's, and written in their order. Guarantees: no thread is stopped
//! for it before the begin or after the end; a line that was lost in between makes neither wrong. Deliberately absent:
//! threads in native code, which go on until they come back; pauses of `uptime` alone, a clock without an origin.

/// One safepoint, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pause {
    /// Number in the log, from 1.
    pub id: i64,
    /// The operation that it was for.
    pub name: String,
    /// Number of its garbage collection, if it is of one.
    pub collection: Option<i32>,
    /// Not after its begin.
    pub begin: i64,
    /// Not before its end.
    pub end: i64,
    /// From its begin to its end.
    pub total: i64,
}

/// What was found in a log so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct JvmLog {
    safepoints: i64,
    /// An instant that the end of the last safepoint is not before.
    ended: Option<i64>,
    /// When the last line within a safepoint was begun.
    within: Option<i64>,
    collection: Option<i32>,
}

impl JvmLog {
    /// What to run a program with.
    pub const EXPECTED: &'static str =
        "lines of java -Xlog:safepoint,gc,vmoperation=debug:file=FILE:timenanos,uptimenanos";

    /// Takes a line; `Err`: it is no such line, `Ok(None)`: it ends no safepoint.
    pub fn take(&mut self, line: &str) -> Result<Option<Pause>, ()> {
        let (at, message) = decorated(line).ok_or(())?;
        if let Some(safepoint) = message.strip_prefix("Safepoint \"") {
            return self.safepoint(at, safepoint).map(Some).ok_or(());
        }
        if message.contains("messages dropped due to async logging") {
            return Err(());
        }
        let collection = collected(message);
        if collection.is_some() || message.starts_with("end VM_Operation ") {
            self.within = Some(at);
            self.collection = collection.or(self.collection);
        }
        Ok(None)
    }

    fn safepoint(&mut self, at: i64, text: &str) -> Option<Pause> {
        let (name, fields) = text.split_once("\", ")?;
        let ns = |key: &str| {
            let field = fields.split(", ").find_map(|field| field.strip_prefix(key)?.strip_suffix(" ns"));
            field?.parse::<i64>().ok().filter(|ns| *ns >= 0)
        };
        let (since, total) = (ns("Time since last: ")?, ns("Total: ")?);
        self.safepoints += 1;
        let carried = self.ended.and_then(|ended| ended.checked_add(since)?.checked_add(total));
        let (within, collection) = (self.within.take(), self.collection.take());
        let least = within.max(carried).filter(|least| *least <= at)?;
        self.ended = Some(least);
        Some(Pause {
            id: self.safepoints,
            name: name.into(),
            collection,
            begin: least.checked_sub(total)?,
            end: at,
            total,
        })
    }
}

/// When a line was begun, and what it says. `timenanos` and `uptimenanos` look alike: both must be there.
fn decorated(line: &str) -> Option<(i64, &str)> {
    let (mut rest, mut ns) = (line, Vec::new());
    while let Some((decoration, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        ns.extend(decoration.strip_suffix("ns").and_then(|digits| digits.parse::<i64>().ok()));
        rest = after;
    }
    match ns[..] {
        [at, uptime] if 0 <= uptime && uptime < at => Some((at, rest.trim_start())),
        _ => None,
    }
}

/// Number of the garbage collection whose pause this message ends.
fn collected(message: &str) -> Option<i32> {
    let (number, what) = message.strip_prefix("GC(")?.split_once(") ")?;
    // A generational ZGC says which generation: `Y: Pause Mark Start`.
    let what = what.split_once(": ").filter(|(generation, _)| generation.len() == 1).map_or(what, |(_, what)| what);
    (what.starts_with("Pause ") && what.ends_with("ms")).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(log: &str) -> Vec<Result<Option<Pause>, ()>> {
        let mut jvm = JvmLog::default();
        log.lines().map(|line| jvm.take(line)).collect()
    }

    /// The last line's begin, end and total.
    fn last(log: &str) -> Option<(i64, i64, i64)> {
        pauses(log).pop()?.ok()?.map(|pause| (pause.begin, pause.end, pause.total))
    }

    const SAFEPOINT: &str = "[1900ns][900ns][safepoint] Safepoint \"G1CollectFull\", Time since last: 50 ns, \
                             Reaching safepoint: 10 ns, At safepoint: 80 ns, Leaving safepoint: 10 ns, Total: 100 ns, \
                             Threads: 0 runnable, 10 total";

    #[test]
    fn a_pause_ends_between_its_last_line_and_its_own() {
        let log =
            format!("[1880ns][880ns][gc        ] GC(7) Pause Full (System.gc()) 9M->3M(50M) 0.080ms\n{SAFEPOINT}");
        let name = "G1CollectFull".to_owned();
        let expected = Pause { id: 1, name, collection: Some(7), begin: 1780, end: 1900, total: 100 };
        assert_eq!(pauses(&log), [Ok(None), Ok(Some(expected))]);
        let operation = "[1890ns][890ns] end VM_Operation (0x0000): G1CollectFull, mode: safepoint\n";
        assert_eq!(last(&format!("{operation}{SAFEPOINT}")), Some((1790, 1900, 100)));
        let of_zgc = "[1885ns][885ns] GC(0) Y: Pause Mark Start (Major) 0.005ms\n";
        assert_eq!(last(&format!("{of_zgc}{SAFEPOINT}")), Some((1785, 1900, 100)));
    }

    #[test]
    fn without_a_line_within_the_time_since_the_last_one_carries_on() {
        let first = SAFEPOINT.replace("[1900ns]", "[1700ns]");
        let log = format!("[1690ns][700ns] end VM_Operation (0x0): A\n{first}\n{SAFEPOINT}");
        assert_eq!(last(&log), Some((1740, 1900, 100)), "1690 + 50 + 100");
        assert_eq!(pauses(SAFEPOINT), [Err(())], "nothing says when it ended");
    }

    #[test]
    fn what_contradicts_itself_or_is_of_another_clock_is_refused() {
        for wrong in [
            "[1910ns][910ns] end VM_Operation (0x0): A\n".to_owned() + SAFEPOINT,
            SAFEPOINT.replacen("[900ns]", "", 1),
            SAFEPOINT.replacen("[1900ns][900ns]", "[900ns][1900ns]", 1),
            SAFEPOINT.replace("Total: 100", "Total: -1"),
            "[1900ns][900ns]      7 messages dropped due to async logging".into(),
            "Safepoint".into(),
        ] {
            let within = "[1890ns][890ns] end VM_Operation (0x0): A\n";
            assert_eq!(pauses(&format!("{within}{wrong}")).pop(), Some(Err(())), "{wrong}");
        }
        let not_within =
            "[1895ns][895ns] GC(1) Pause Init Mark (G)   312 us\n[1896ns][896ns] GC(1) Concurrent Mark 1.0ms\n";
        assert_eq!(pauses(&format!("{not_within}{SAFEPOINT}")).pop(), Some(Err(())));
    }
}

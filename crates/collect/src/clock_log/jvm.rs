//! Pauses of a HotSpot virtual machine, by its unified log (Java 17 and later): each safepoint between two instants.
//!
//! Idea: the machine's own thread reads `CLOCK_MONOTONIC` as it asks the program's threads to stop and after it let
//! them go, and writes down how far the two lie apart (`Total`), to the nanosecond, but not when. Of each line it says
//! when that was begun: the line of a safepoint is begun after its end, one that is written within it (`Pause Young ...
//! 1.2ms`, `end VM_Operation`) before. So the end lies between the two, and the begin as far before. Where no line is
//! written within, `Time since last` carries the last safepoint's end on. Threads stop one after the other (`Reaching`)
//! and go on one after the other (`Leaving`): all of them stand still from the end of the one to the begin of the other
//! alone, and certainly until the last line within.
//!
//! Assumes: those lines are the machine's own thread's, and written in their order. Guarantees: no thread is stopped
//! for it before the begin or after the end; a line that was lost in between makes neither wrong, and is found where
//! the next safepoint has a line within and began later after the one before it than it says; a log that begins in the
//! middle lacks the machine's line on its collector (`Using G1`). Deliberately absent: threads in native code, which go
//! on until they come back; pauses of `uptime` alone, a clock without an origin.

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
    /// From when all threads stood still, at the latest, to its end.
    pub still_until_end: i64,
    /// From its begin to when the first thread was let go, at the earliest.
    pub still_from_begin: i64,
}

/// What was found in a log so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct JvmLog {
    safepoints: i64,
    /// Two instants that the end of the last safepoint lies between.
    ended: Option<[i64; 2]>,
    /// The machine said which collector it uses, before anything else that is told of here.
    has_begun: bool,
    /// How often safepoints may be missing before one.
    pub gaps: u64,
    /// When the last line within a safepoint was begun.
    within: Option<i64>,
    collection: Option<i32>,
}

impl JvmLog {
    /// What to run a program with.
    pub const EXPECTED: &'static str =
        "lines of java -Xlog:safepoint,gc,vmoperation=debug:file=FILE:timenanos,uptimenanos:filecount=0";

    /// Takes a line; `Err`: it is no such line, `Ok(None)`: it ends no safepoint.
    pub fn take(&mut self, line: &str) -> Result<Option<Pause>, ()> {
        let (at, message) = decorated(line).ok_or(())?;
        if let Some(safepoint) = message.strip_prefix("Safepoint \"") {
            return self.safepoint(at, safepoint).map(Some).ok_or(());
        }
        self.has_begun |= message.starts_with("Using ");
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
        // Java 17 does not say how long leaving took.
        let (reaching, leaving) = (ns("Reaching safepoint: ").unwrap_or(total), ns("Leaving safepoint: "));
        self.safepoints += 1;
        let carried = self.ended.and_then(|[ended, _]| ended.checked_add(since)?.checked_add(total));
        let (within, collection) = (self.within.take(), self.collection.take());
        let least = within.max(carried).filter(|least| *least <= at)?;
        let begin = least.checked_sub(total)?;
        let latest = self.ended.and_then(|[_, ended]| ended.checked_add(since)).unwrap_or(i64::MAX);
        let is_late = within.and_then(|within| within.checked_sub(total)).is_some_and(|begin| latest < begin);
        self.gaps += u64::from(is_late || !std::mem::replace(&mut self.has_begun, true));
        self.ended = Some([least, at]);
        let let_go = leaving.map(|leaving| least - leaving).max(within).unwrap_or(begin);
        Some(Pause {
            id: self.safepoints,
            name: name.into(),
            collection,
            begin,
            end: at,
            still_until_end: total.checked_sub(reaching)?,
            still_from_begin: let_go.checked_sub(begin)?,
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

    /// The last line's begin and end, and between which instants all threads certainly stood still.
    fn last(log: &str) -> Option<(i64, i64, [i64; 2])> {
        let pause = pauses(log).pop()?.ok()??;
        let still = [pause.end - pause.still_until_end, pause.begin + pause.still_from_begin];
        Some((pause.begin, pause.end, still))
    }

    const SAFEPOINT: &str = "[1900ns][900ns][safepoint] Safepoint \"G1CollectFull\", Time since last: 50 ns, \
                             Reaching safepoint: 10 ns, At safepoint: 80 ns, Leaving safepoint: 10 ns, Total: 100 ns, \
                             Threads: 0 runnable, 10 total";

    #[test]
    fn a_pause_ends_between_its_last_line_and_its_own() {
        let log =
            format!("[1880ns][880ns][gc        ] GC(7) Pause Full (System.gc()) 9M->3M(50M) 0.080ms\n{SAFEPOINT}");
        let name = "G1CollectFull".to_owned();
        let still = (90, 100);
        let expected = Pause {
            id: 1,
            name,
            collection: Some(7),
            begin: 1780,
            end: 1900,
            still_until_end: still.0,
            still_from_begin: still.1,
        };
        assert_eq!(pauses(&log), [Ok(None), Ok(Some(expected))]);
        let operation = "[1890ns][890ns] end VM_Operation (0x0000): G1CollectFull, mode: safepoint\n";
        assert_eq!(last(&format!("{operation}{SAFEPOINT}")), Some((1790, 1900, [1810, 1890])));
        let of_zgc = "[1885ns][885ns] GC(0) Y: Pause Mark Start (Major) 0.005ms\n";
        assert_eq!(last(&format!("{of_zgc}{SAFEPOINT}")), Some((1785, 1900, [1810, 1885])));
    }

    #[test]
    fn without_a_line_within_the_time_since_the_last_one_carries_on() {
        let first = SAFEPOINT.replace("[1900ns]", "[1700ns]");
        let log = format!("[1690ns][700ns] end VM_Operation (0x0): A\n{first}\n{SAFEPOINT}");
        assert_eq!(last(&log), Some((1740, 1900, [1810, 1830])), "1690 + 50 + 100, less 10 of leaving");
        assert_eq!(pauses(SAFEPOINT), [Err(())], "nothing says when it ended");
    }

    #[test]
    fn threads_that_are_let_go_one_after_the_other_stand_still_no_longer_than_the_first() {
        let slow = "Reaching safepoint: 10 ns, At safepoint: 30 ns, Leaving safepoint: 60 ns, Total: 100 ns";
        let text = SAFEPOINT.split("Reaching").next().unwrap().to_owned() + slow;
        let first = SAFEPOINT.replace("[1900ns]", "[1700ns]");
        let log = |text: &str| {
            format!(
                "[1690ns][700ns] end VM_Operation (0x0): A\n{first}\n[1775ns][775ns] end VM_Operation (0x0): B\n{text}"
            )
        };
        assert_eq!(last(&log(&text)), Some((1740, 1900, [1810, 1780])), "certainly still at no instant");
        let java_17 = text.replace("Leaving safepoint: 60 ns, ", "").replace("At safepoint: 30", "At safepoint: 90");
        assert_eq!(last(&log(&java_17)), Some((1740, 1900, [1810, 1775])), "until the last line within");
    }

    #[test]
    fn safepoints_that_are_missing_are_found_by_the_time_since_the_last_one() {
        let line = |end: i64, since: i64| {
            let (within, at) = (end - 15, end + 5);
            format!(
                "[{within}ns][{}ns] end VM_Operation (0x0): A\n[{at}ns][{}ns] Safepoint \"A\", \
                 Time since last: {since} ns, Reaching safepoint: 10 ns, At safepoint: 80 ns, \
                 Leaving safepoint: 10 ns, Total: 100 ns\n",
                within - 1_000,
                at - 1_000
            )
        };
        let gaps = |log: &str| {
            let mut jvm = JvmLog::default();
            assert!(log.lines().all(|line| jvm.take(line).is_ok()));
            jvm.gaps
        };
        let whole = [line(5_000_000, 4_900_000), line(7_000_000, 1_999_900), line(9_000_000, 1_999_900)];
        let begin = "[1010ns][10ns][gc] Using G1\n";
        assert_eq!(gaps(&[begin, &whole.concat()].concat()), 0);
        assert_eq!(gaps(&[begin, &whole[0], &whole[2]].concat()), 1, "the second is not there");
        assert_eq!(gaps(&whole.concat()), 1, "the log begins in the middle");
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

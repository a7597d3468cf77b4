//! Limits of stages in words: whether each holds, which traces break it, and what would settle it.
//!
//! Guarantees: one sentence for the terminal and the page; a duration that breaks a limit is shown by its lower end,
//! or by its upper one where it is too short. Deliberately absent: verdicts, which are the analysis's.

use tickscope_analysis::{Analysis, Limit, LimitBreaker, LimitVerdict, Undecided};
use tickscope_store::{Event, LimitRule};
use tickscope_tick::{Unit, counted, printable};

/// A limit in a line.
pub(crate) struct LimitLine {
    pub verdict: LimitVerdict,
    /// `limit holds`, `limit violated`, `limit not resolved`.
    pub head: &'static str,
    /// The limit, and how the traces stand to it.
    pub rest: String,
}

/// Each limit, in the order of the run file.
pub(crate) fn lines(analysis: &Analysis, events: &[Event], unit: Unit) -> Vec<LimitLine> {
    let line = |limit: &Limit| {
        let verdict = analysis.verdict(limit, events);
        let head = match verdict {
            LimitVerdict::Holds => "limit holds",
            LimitVerdict::Violated => "limit violated",
            LimitVerdict::NotResolved(_) => "limit not resolved",
        };
        let counts = [reason(verdict), counts(limit, verdict, analysis, unit), lacking(limit), thinned(limit)];
        let counts = counts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let rest = format!("{} {}: {counts}", limit.title(), bounds(&limit.rule));
        LimitLine { verdict, head, rest: printable(&rest).into_owned() }
    };
    analysis.limits.iter().map(line).collect()
}

/// `at most 250 µs in 99.9 % of the traces`.
fn bounds(rule: &LimitRule) -> String {
    let ends = [("at least", rule.at_least_ns), ("at most", rule.at_most_ns)];
    let ends = ends.into_iter().filter_map(|(word, ns)| Some(format!("{word} {}", duration(ns?))));
    let share = match rule.share_ppb {
        LimitRule::ALL_PPB => String::new(),
        ppb => format!(" in {} % of the traces", decimal(ppb.into(), 7)),
    };
    ends.collect::<Vec<_>>().join(", ") + &share
}

/// Nanoseconds exactly, in the largest unit of which they are one or more.
fn duration(ns: u64) -> String {
    let (digits, unit) = match ns {
        0..1_000 => (0, "ns"),
        1_000..1_000_000 => (3, "µs"),
        1_000_000..1_000_000_000 => (6, "ms"),
        _ => (9, "s"),
    };
    format!("{} {unit}", decimal(ns, digits))
}

/// A whole number of parts, so many digits of which stand after the point.
fn decimal(parts: u64, digits: usize) -> String {
    let text = format!("{parts:0>width$}", width = digits + 1);
    let (whole, part) = text.split_at(text.len() - digits);
    match part.trim_end_matches('0') {
        "" => whole.into(),
        part => format!("{whole}.{part}"),
    }
}

fn reason(verdict: LimitVerdict) -> Option<String> {
    let reason = match verdict.unresolved()? {
        Undecided::Intervals => return None,
        Undecided::NoTrace => "no trace has the stage",
        Undecided::NoStage => "the layout has no such stage",
        Undecided::Finding => "the run is damaged or contradicts itself, so no bound is to be believed",
        Undecided::Lack => "the run lacks something of what was asked for, and with it maybe traces",
    };
    Some(reason.into())
}

fn counts(limit: &Limit, verdict: LimitVerdict, analysis: &Analysis, unit: Unit) -> Option<String> {
    let (all, open) = (counted(limit.measured(), "trace"), limit.straddling + limit.unknown);
    if limit.measured() == 0 {
        return None;
    }
    let mut said = Vec::new();
    if limit.broken > 0 {
        said.push(format!("broken by {} of {all}, furthest by {}", limit.broken, worst(limit, unit)));
    } else {
        said.push(format!("kept by {} of {all}", limit.kept));
    }
    if open > 0 {
        said.push(format!("open in {open}"));
    }
    // Of an interval the digits matter, however long the stages are.
    let fine = Unit::nanoseconds(analysis.frequency.hertz, 1);
    if limit.straddling > 0 {
        said.push(format!("whose intervals reach up to ±{} ns", fine.up(limit.widest_ticks)));
    }
    let settled = (verdict.unresolved() == Some(Undecided::Intervals)).then(|| match limit.resolving_ticks {
        Some(ticks) => format!("; ±{} ns would settle it", fine.down(ticks)),
        None => "; no narrower interval would settle it".into(),
    });
    Some(said.join(", ") + &settled.unwrap_or_default())
}

/// The traces that break a limit most.
fn worst(limit: &Limit, unit: Unit) -> String {
    let name = |trace: &LimitBreaker| {
        let kind = if trace.kind == 0 { String::new() } else { format!(" of kind {}", trace.kind) };
        let passage = if trace.occurrence == 0 { String::new() } else { format!(" passage {}", trace.occurrence + 1) };
        let original = trace.original.as_ref().map_or(String::new(), |original| format!(" '{original}'"));
        let is_long = limit.ticks.most.is_some_and(|[_, breaks]| i128::from(trace.span.lo) > breaks);
        let took = match is_long {
            true => format!("at least {}", unit.down(trace.span.lo)),
            false => format!("at most {}", unit.up(trace.span.hi)),
        };
        format!("{}{kind}{passage}{original} ({took} {})", trace.id, unit.name())
    };
    let named: Vec<String> = limit.worst.iter().map(name).collect();
    format!("{} {}", if named.len() == 1 { "id" } else { "ids" }, named.join(", "))
}

fn lacking(limit: &Limit) -> Option<String> {
    let lack = |count: u64| if count == 1 { "lacks" } else { "lack" };
    let missing = (limit.missing > 0)
        .then(|| format!("{} {} a stamp of it", counted(limit.missing, "more trace"), lack(limit.missing)));
    let left_out = (limit.left_out > 0).then(|| {
        format!("{} {} one where policies leave some out", counted(limit.left_out, "more trace"), lack(limit.left_out))
    });
    let both: Vec<String> = missing.into_iter().chain(left_out).collect();
    (!both.is_empty()).then(|| both.join(", "))
}

fn thinned(limit: &Limit) -> Option<String> {
    let points = &limit.thinned;
    (!points.is_empty()).then(|| format!("of the traces that policies keep alone: {}", points.join(", ")))
}

#[cfg(test)]
mod tests {
    use tickscope_analysis::Span;

    use super::*;
    use crate::any_analysis::with_everything;

    #[test]
    fn a_limit_is_told_with_who_breaks_it_what_is_open_and_what_would_settle_it() {
        let mut analysis = Analysis { stream: None, ..with_everything() };
        let unit = Unit::nanoseconds(analysis.frequency.hertz, 1);
        let mut said = |verdict: &str, with: &dyn Fn(&mut Limit)| {
            let mut limit = with_everything().limits.remove(0);
            with(&mut limit);
            analysis.limits = vec![limit];
            let line = lines(&analysis, &[], unit).remove(0);
            assert_eq!(line.head, format!("limit {verdict}"), "{}", line.rest);
            line.rest
        };
        let title = "a limit (a.x>b.y) at least 1 ns, at most 1 ns in 99.9 % of the traces: ";
        let rest = "2 more traces lack a stamp of it, 3 more traces lack one where policies leave some out; of the \
                    traces that policies keep alone: a.x (every 100)";
        let broken = "broken by 1 of 5008 traces, furthest by id 17 of kind 1 passage 2 'an order' (at least 2.1 ns), \
                      open in 7, whose intervals reach up to ±4.4 ns";
        assert_eq!(said("not resolved", &|_| ()), format!("{title}{broken}; ±2.1 ns would settle it; {rest}"));
        assert!(said("not resolved", &|limit| limit.resolving_ticks = None).contains("no narrower interval would"));
        assert_eq!(
            said("violated", &|limit| limit.broken = 20),
            format!("{title}{}; {rest}", broken.replace("1 of 5008", "20 of 5027"))
        );
        let all = |limit: &mut Limit| {
            (limit.broken, limit.straddling, limit.unknown, limit.missing, limit.left_out) = (0, 0, 0, 0, 0);
            limit.thinned.clear();
        };
        assert_eq!(said("holds", &all), format!("{title}kept by 5000 of 5000 traces"));
        let short = |limit: &mut Limit| limit.worst[0].span = Span { estimate: 1, lo: 0, hi: 1 };
        assert!(said("not resolved", &short).contains("(at most 0.5 ns)"));
        let none = |limit: &mut Limit| {
            all(limit);
            limit.kept = 0;
        };
        assert_eq!(said("not resolved", &none), format!("{title}no trace has the stage"));
        assert!(said("not resolved", &|limit| limit.stage = None).contains("the layout has no such stage; broken"));
    }

    #[test]
    fn a_limit_is_shown_as_it_was_declared() {
        let rule = |at_least_ns, at_most_ns, share_ppb| {
            bounds(&LimitRule { name: None, stage: "a>b".into(), at_most_ns, at_least_ns, share_ppb })
        };
        assert_eq!(rule(None, Some(250_000), LimitRule::ALL_PPB), "at most 250 µs");
        assert_eq!(
            rule(Some(1), Some(1_500_000), 999_000_000),
            "at least 1 ns, at most 1.5 ms in 99.9 % of the traces"
        );
        assert_eq!(rule(Some(86_400_000_000_001), None, 1), "at least 86400.000000001 s in 0.0000001 % of the traces");
    }
}

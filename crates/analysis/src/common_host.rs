//! Evidence between two guests of one host: both read the host's clock, each between readings of its own counter.
//!
//! Idea: a clock that is never set back shows a lesser value earlier. So of two readings, the counter of the one that
//! showed less stood before the counter of the other: what a message from the first guest to the second would prove.
//! No rate of the host's clock is assumed: it may be slewed, and be set forward.
//!
//! Assumes: both are guests of one host, which is declared and printed. Guarantees: where a guest itself saw the clock
//! go back, nothing is made of it. Deliberately absent: a clock that was set back between two readings, and had caught
//! up by the second: that contradicts other evidence, or nothing shows it.

use tickscope_store::{BracketColumns, BracketSource, Manifest, Node};

/// Returns whether the run file declares that two nodes are guests of one host.
pub(crate) fn is_declared(manifest: &Manifest, nodes: [&Node; 2]) -> bool {
    nodes.iter().all(|node| manifest.evidence.common_host.contains(&node.name))
}

/// A reading of the host's clock: what it showed, and the counter before and after.
#[derive(Clone, Copy)]
struct Reading {
    shown: i64,
    before: i64,
    after: i64,
}

/// Brackets of the counter behind `local` in ticks of the one behind `reference`, of readings of one clock by both;
/// `None`: the clock went back.
pub(crate) fn brackets(local: &BracketColumns, reference: &BracketColumns) -> Option<BracketColumns> {
    let (local, reference) = (in_order(local)?, in_order(reference)?);
    let mut found = BracketColumns::default();
    let mut push = |before, at, after| found.push(before, at, after, BracketSource::SharedHost, "before/after");
    for reading in &local {
        if let Some(earlier) = last_below(&reference, reading.shown) {
            push(Some(earlier.before), reading.after, None);
        }
    }
    for reading in &reference {
        if let Some(earlier) = last_below(&local, reading.shown) {
            push(None, earlier.before, Some(reading.after));
        }
    }
    Some(found)
}

/// The readings in the order in which they were taken; `None` where the clock does not keep to it.
fn in_order(columns: &BracketColumns) -> Option<Vec<Reading>> {
    let whole =
        columns.ordered().filter_map(|(before, shown, after)| Some(Reading { shown, before: before?, after: after? }));
    let mut readings: Vec<Reading> = whole.collect();
    readings.sort_unstable_by_key(|reading| reading.before);
    readings.is_sorted_by_key(|reading| reading.shown).then_some(readings)
}

/// The last reading that showed less: one that showed the same may have been taken before or after.
fn last_below(readings: &[Reading], shown: i64) -> Option<Reading> {
    let at = readings.partition_point(|reading| reading.shown < shown);
    at.checked_sub(1).map(|last| readings[last])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns(readings: &[(i64, i64, i64)]) -> BracketColumns {
        let mut columns = BracketColumns::default();
        for &(before, shown, after) in readings {
            columns.push(Some(before), shown, Some(after), BracketSource::Watch, "before/after");
        }
        columns
    }

    type Row = (Option<i64>, i64, Option<i64>);

    fn rows(local: &[(i64, i64, i64)], reference: &[(i64, i64, i64)]) -> Option<Vec<Row>> {
        brackets(&columns(local), &columns(reference)).map(|found| found.ordered().collect())
    }

    #[test]
    fn what_showed_less_was_read_earlier_and_the_same_says_nothing() {
        let (local, reference) = ([(10, 100, 12)], [(1000, 99, 1002), (1004, 100, 1006), (1008, 101, 1010)]);
        let expected = [(Some(1000), 12, None), (None, 10, Some(1010))];
        assert_eq!(rows(&local, &reference).unwrap(), expected);
        assert_eq!(rows(&[(10, 100, 12)], &[(1004, 100, 1006)]).unwrap(), []);
    }

    #[test]
    fn a_clock_that_a_guest_saw_go_back_is_no_evidence_for_either() {
        let (sound, back) = ([(10, 100, 12), (14, 101, 16)], [(10, 100, 12), (14, 99, 16)]);
        assert!(rows(&sound, &sound).is_some());
        assert!(rows(&back, &sound).is_none() && rows(&sound, &back).is_none());
        assert_eq!(rows(&[(14, 101, 16), (10, 100, 12)], &sound), rows(&sound, &sound), "files come in any order");
    }

    proptest! {
        /// Two counters and a host's clock of known maps, slewed and set forward: each bracket holds the truth.
        #[test]
        fn property_each_bracket_holds_the_truth_whatever_the_hosts_clock_does_but_for_going_back(
            steps in prop::collection::vec((1i64..40, 0i64..30, prop::bool::ANY, 0i64..9, 0i64..9), 1..60),
            offset in -1000i64..1000,
        ) {
            let (mut instant, mut shown) = (0i64, 5000i64);
            let (mut local, mut reference) = (Vec::new(), Vec::new());
            for (passed, gained, of_local, before, after) in steps {
                (instant, shown) = (instant + passed, shown + gained);
                // The local counter is 3 times as fast, and off.
                let own = |instant: i64| if of_local { 3 * instant + offset } else { instant };
                let reading = (own(instant - before), shown, own(instant + after));
                if of_local { local.push(reading) } else { reference.push(reading) }
            }
            // Readings of one guest do not overlap in truth; here they may, so their order is that of `shown`.
            prop_assume!([&local, &reference].iter().all(|all| all.is_sorted_by_key(|reading| reading.0)));
            for (before, at, after) in rows(&local, &reference).unwrap() {
                // The reference's counter when the local one stood at `at`, in thirds.
                let truth = at - offset;
                prop_assert!(before.is_none_or(|before| 3 * before <= truth), "{before:?} {at}");
                prop_assert!(after.is_none_or(|after| truth <= 3 * after), "{at} {after:?}");
            }
        }
    }
}

//! Shortest round trips between two nodes, in both directions, in the quiescent bursts before and after a run and
//! between them.
//!
//! Idea: of two exchanges in a row, the first one's reply and the second one's request are a round trip too, from the
//! node that answers to the one that asks and back. What a node did between the two packets is taken off by the other
//! node's ticks.
//!
//! Assumes: the slopes of the clock map. Guarantees: no shortest round trip is told shorter than it was; a burst holds
//! no exchange of the run as long as nothing paused longer within it than between it and the run. Deliberately absent:
//! how long each way took, which no round trip tells.

use serde::Serialize;
use tickscope_bracket::Cone;
use tickscope_store::{BracketColumns, BracketSource};
use tickscope_tick::Label;

/// One exchange of a probe: the reference sent, the node received and answered, the reference received.
pub(crate) type Exchange = [i64; 4];

/// The shortest round trips from one node to another and back, what the other took to answer taken off.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RoundTrips {
    /// Where they begin and end.
    pub from: Label,
    /// Where they turn.
    pub to: Label,
    /// Before, during and after the run, ns, rounded up; `None`: there was none.
    pub shortest_ns: [Option<i64>; 3],
}

impl RoundTrips {
    /// Of two nodes that exchanged nothing after the run: what was taken for that is of the run.
    pub(crate) fn without_end(self) -> Self {
        let [before, during, last] = self.shortest_ns;
        Self { shortest_ns: [before, during.into_iter().chain(last).min(), None], ..self }
    }
}

/// Exchanges in a burst, at least and at most, as the probes take them.
const BURST: [usize; 2] = [50, 200];

/// Exchanges before, during and after the run.
pub(crate) struct Bursts(pub [Vec<Exchange>; 3]);

/// The exchanges in the order of their requests.
pub(crate) fn exchanges(columns: &BracketColumns) -> Vec<Exchange> {
    let ends: Vec<_> = columns.before.iter().zip(columns.after.iter()).collect();
    let of_exchange: Vec<_> = columns.source.iter().zip(columns.exchange.iter()).collect();
    let of = |row: usize| {
        let ((first, number), (second, same)) = (of_exchange[row], of_exchange[row + 1]);
        let one = *first == BracketSource::ProbeRequest && *second == BracketSource::ProbeReply && number == same;
        let (t1, t4) = (ends[row].0?, ends[row + 1].1?);
        one.then_some([*t1, columns.at[row], columns.at[row + 1], *t4])
    };
    let mut all: Vec<Exchange> = (1..columns.len()).filter_map(|row| of(row - 1)).collect();
    all.sort_unstable();
    all
}

/// From a request to its reply, the node's time to answer included.
pub(crate) fn round_trip(&[t1, _, _, t4]: &Exchange) -> i64 {
    t4.saturating_sub(t1)
}

impl Bursts {
    /// Cuts at the longest pause that a burst can end at, and at the one that a burst can begin at.
    pub(crate) fn of(all: &[Exchange]) -> Option<Self> {
        let pause = |at: &usize| i128::from(all[*at][0]) - i128::from(all[*at - 1][3]);
        let [least, most] = BURST.map(|exchanges| exchanges.min(all.len() / 3));
        if least == 0 {
            return None;
        }
        // The first of the longest from the front, the last of the longest from the back: bursts as short as can be.
        let first = (least..=most).rev().max_by_key(pause)?;
        let last = (all.len() - most..=all.len() - least).max_by_key(pause)?;
        Some(Self([&all[..first], &all[first..last], &all[last..]].map(<[Exchange]>::to_vec)))
    }

    /// The same as the other node asked: the replies are its requests.
    pub(crate) fn turned(&self) -> Self {
        let turned = |pair: &[Exchange]| [pair[0][2], pair[0][3], pair[1][0], pair[1][1]];
        // A request that was sent before the last reply came answers nothing.
        let answers = |[_, received, sent, _]: &Exchange| received <= sent;
        Self([0, 1, 2].map(|phase| self.0[phase].windows(2).map(turned).filter(answers).collect()))
    }

    /// The shortest from request to reply, in ticks of the node that asked.
    pub(crate) fn shortest(&self) -> [Option<i64>; 3] {
        [0, 1, 2].map(|phase| self.0[phase].iter().map(round_trip).min())
    }

    /// The shortest on the way alone, from the reference and from the node, in ticks of the reference; `widths`: how
    /// far readings leave the node's and the reference's counter open, in their own ticks.
    pub(crate) fn on_the_way(&self, cone: &Cone, widths: [i128; 2]) -> [[Option<i128>; 3]; 2] {
        let [local, reference] = widths;
        let apart = |from: i64, to: i64| i128::from(to) - i128::from(from);
        let asked = |&[t1, t2, t3, t4]: &Exchange| {
            let answering = (apart(t2, t3) - local).max(0) * cone.slowest();
            apart(t1, t4) + reference - answering.div_euclid(1 << Cone::FRACTION_BITS)
        };
        let returned = |pair: &[Exchange]| {
            // Either may be negative: a request may be under way before the last reply is.
            let gone = apart(pair[0][2], pair[1][1]) + local;
            let gone = (gone * cone.fastest()).max(gone * cone.slowest());
            -(-gone).div_euclid(1 << Cone::FRACTION_BITS) - (apart(pair[0][3], pair[1][0]) - reference)
        };
        let phases = [0, 1, 2];
        [
            phases.map(|phase| self.0[phase].iter().map(asked).min()),
            phases.map(|phase| self.0[phase].windows(2).map(returned).min()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickscope_bracket::{Bracket, ClockMap, Model, Ratio, Rho};
    use tickscope_tick::Tick;

    /// Exchanges of so many ticks each, after these pauses.
    fn after_pauses(pauses: &[i64]) -> Vec<Exchange> {
        let mut at = 0;
        let exchange = |pause: &i64| {
            at += pause + 10;
            [at - 10, at - 6, at - 4, at]
        };
        pauses.iter().map(exchange).collect()
    }

    fn lengths(pauses: &[i64]) -> Option<[usize; 3]> {
        Bursts::of(&after_pauses(pauses)).map(|bursts| bursts.0.map(|phase| phase.len()))
    }

    #[test]
    fn without_an_end_the_last_round_trips_are_of_the_run() {
        let [from, to] = ["a.tsc", "b.tsc"].map(|label| label.parse::<Label>().unwrap());
        let of = |shortest_ns| RoundTrips { from: from.clone(), to: to.clone(), shortest_ns };
        assert_eq!(of([Some(3), Some(5), Some(4)]).without_end(), of([Some(3), Some(4), None]));
        assert_eq!(of([Some(3), None, Some(4)]).without_end(), of([Some(3), Some(4), None]));
    }

    #[test]
    fn exchanges_are_pairs_of_one_number_in_the_order_of_their_requests() {
        let mut columns = BracketColumns::default();
        columns.push_exchange(1, [50, 60, 61, 70], "before/after");
        columns.push(Some(1), 2, None, BracketSource::ProbeRequest, "before/after");
        columns.push_exchange(0, [10, 20, 21, 30], "before/after");
        assert_eq!(exchanges(&columns), [[10, 20, 21, 30], [50, 60, 61, 70]]);
    }

    #[test]
    fn a_burst_ends_at_its_longest_pause_however_many_exchanges_it_has() {
        for [before, during, after] in [[200, 1000, 200], [50, 1000, 120], [100, 700, 50]] {
            let pauses: Vec<i64> = [(before, 1), (during, 400), (after, 1)]
                .into_iter()
                .flat_map(|(count, pause)| std::iter::once(900).chain(std::iter::repeat_n(pause, count - 1)))
                .collect();
            assert_eq!(lengths(&pauses), Some([before, during, after]));
        }
        assert_eq!(lengths(&[1, 1]), None);
        assert_eq!(lengths(&[1, 1, 1]), Some([1, 1, 1]), "too few for bursts are three thirds");
    }

    #[test]
    fn without_exchanges_during_the_run_there_are_none_between_its_bursts() {
        let pauses: Vec<i64> = (0..400).map(|number| if number == 200 { 1_000_000 } else { 1 }).collect();
        let bursts = Bursts::of(&after_pauses(&pauses)).unwrap();
        assert!(bursts.0[0].len() <= 200 && bursts.0[2].len() <= 200);
        assert!(bursts.shortest()[0].is_some() && bursts.shortest()[2].is_some());
    }

    #[test]
    fn turned_exchanges_begin_and_end_at_the_other_node() {
        let in_flight = [8, 110, 112, 15]; // sent before the reply came at 10
        let bursts = Bursts([vec![[0, 105, 107, 10], [12, 117, 119, 22]], vec![[0, 105, 107, 10], in_flight], vec![]]);
        assert_eq!(bursts.turned().0, [vec![[107, 10, 12, 117]], vec![], vec![]]);
    }

    proptest! {
        #[test]
        fn property_no_shortest_round_trip_is_told_shorter_than_it_was_nor_much_longer(
            ways in prop::collection::vec(
                ([1_i64..100_000, 1_i64..100_000], 0_i64..50_000, prop_oneof![0_i64..3_000_000, -200_000_i64..0]),
                3..30,
            ),
            ahead in -1_000_000_i64..1_000_000,
            gains_ppb in -20_000_i64..20_000,
        ) {
            // The node reads `at * (1 + gains) + ahead`, whole ticks of both.
            let gained = |at: i64| (i128::from(at) * i128::from(gains_ppb) / 1_000_000_000) as i64;
            let read = |at: i64| at + gained(at) + ahead;
            let (mut at, mut all, mut sent, mut answered) = (0, Vec::new(), Vec::new(), Vec::new());
            for &([there, back], answering, pause) in &ways {
                let (t1, t2) = (at, at + there);
                let (t3, t4) = (t2 + answering, t2 + answering + back);
                sent.push(there + back);
                answered.push([back, there]);
                all.push([t1, read(t2), read(t3), t4]);
                // Also before the reply came, but in order.
                at = (t4 + pause).max(at);
            }
            let rho: Rho = "50".parse().unwrap();
            let ends = [0, 1 << 45].map(|at| Bracket::new(Some(at), read(at), Some(at + 1)));
            let model = Model::new(rho, Ratio::new(1, 1).unwrap(), Tick::new(read(0)));
            let cone = ClockMap::new(&ends, &model).unwrap().cone();
            let bursts = Bursts([all, vec![], vec![]]);
            let [asked, returned] = bursts.on_the_way(&cone, [1, 1]).map(|phases| phases[0].unwrap());
            let shortest = i128::from(*sent.iter().min().unwrap());
            prop_assert!(asked >= shortest && asked <= shortest + 20, "{} {}", asked, shortest);
            let back = answered.windows(2).map(|pair| i128::from(pair[0][0] + pair[1][1])).min().unwrap();
            // 100 ppm of a pause, and of both ways.
            prop_assert!(returned >= back && returned <= back + 400, "{} {}", returned, back);
        }
    }
}

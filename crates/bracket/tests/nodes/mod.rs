//! Several simulated nodes whose clocks are known exactly at every instant, and messages between them.
#![allow(dead_code, reason = "each test file uses another part")]

use tickscope_bracket::{Bracket, Model, PairEvidence, Ratio, Rho};
use tickscope_tick::Tick;

const BILLION: i128 = 1_000_000_000;
/// Clocks count in this fraction of a tick.
pub const UNIT: i128 = BILLION * BILLION;

/// A node's clock: its first tick, its nominal rate, and how that is off, from instant to instant.
#[derive(Clone, Debug)]
pub struct Node {
    pub first: i64,
    pub hertz: (u64, u64),
    pub drift_ppb: i64,
    /// Lengths in instants and the rate relative to the mean, parts per 10^9; the last goes on.
    pub rates: Vec<(i64, i64)>,
}

impl Node {
    /// Where the clock stands at an instant, exactly, in fractions of [`UNIT`] times the nominal rate's denominator.
    fn exact(&self, instant: i64) -> (i128, i128) {
        let (mut left, mut grown) = (i128::from(instant), 0i128);
        for (position, &(length, wander)) in self.rates.iter().enumerate() {
            let last = position + 1 == self.rates.len();
            let part = if last { left } else { left.min(length.into()) };
            grown += part * (BILLION + i128::from(wander));
            left -= part;
        }
        let scale = UNIT * i128::from(self.hertz.1);
        (grown * (BILLION + i128::from(self.drift_ppb)) * i128::from(self.hertz.0), scale)
    }

    pub fn floor(&self, instant: i64) -> i64 {
        let (grown, scale) = self.exact(instant);
        self.first + grown.div_euclid(scale) as i64
    }

    pub fn ceil(&self, instant: i64) -> i64 {
        let (grown, scale) = self.exact(instant);
        self.first - (-grown).div_euclid(scale) as i64
    }
}

/// An exchange that `reference` asked and `local` stamped at an instant, with the delays there and back.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    pub instant: i64,
    pub there: i64,
    pub back: i64,
}

/// Evidence of an exchange. `lie`: by so many ticks the local node's stamp is off.
pub fn brackets(local: &Node, reference: &Node, exchange: Exchange, lie: i64) -> [Bracket; 2] {
    let Exchange { instant, there, back } = exchange;
    let before = Bracket::new(Some(reference.floor(instant - there)), local.ceil(instant) + lie, None);
    [before, Bracket::new(None, local.floor(instant) + lie, Some(reference.ceil(instant + back)))]
}

/// The rho of a pair whose two clocks wander by so much each.
pub fn pair_rho(wander_ppb: i64) -> Rho {
    let wander = wander_ppb as u128;
    Rho::declared_ppb((2 * wander * 1_000_000_000).div_ceil(1_000_000_000 - wander) as u32).unwrap()
}

pub fn model(nodes: &[Node], local: usize, reference: usize, wander_ppb: i64, middle: i64) -> Model {
    let (l, r) = (nodes[local].hertz, nodes[reference].hertz);
    let nominal = Ratio::new(r.0 * l.1, r.1 * l.0).unwrap();
    Model::new(pair_rho(wander_ppb), nominal, Tick::new(nodes[local].floor(middle)))
}

/// What exchanges say about a pair of nodes. `lie`: as in [`brackets`].
pub fn evidence(
    nodes: &[Node],
    (local, reference): (usize, usize),
    exchanges: &[Exchange],
    (wander_ppb, lie): (i64, i64),
) -> PairEvidence {
    let of = |&exchange: &Exchange| brackets(&nodes[local], &nodes[reference], exchange, lie);
    let middle = exchanges.iter().map(|exchange| exchange.instant).max().unwrap_or(0) / 2;
    let model = model(nodes, local, reference, wander_ppb, middle);
    PairEvidence { local, reference, brackets: exchanges.iter().flat_map(of).collect(), model }
}

/// The same evidence as the other node would tell it.
pub fn turned(evidence: &PairEvidence, nodes: &[Node]) -> PairEvidence {
    let anchor = Tick::new(nodes[evidence.reference].floor(0));
    PairEvidence {
        local: evidence.reference,
        reference: evidence.local,
        brackets: evidence.brackets.iter().flat_map(Bracket::turned).flatten().collect(),
        model: evidence.model.turned(anchor).unwrap(),
    }
}

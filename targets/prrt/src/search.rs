//! The cheapest coding that keeps an application's demands on a path: adaptive hybrid error coding.
//!
//! Every block size `k` that the deadline leaves is looked at. For each the fewest parity packets `p` are found that
//! keep the residual loss, and for these the schedule of rounds that sends least (Gorius 2012; the dynamic programme of
//! SHARQ). Losses are of Gilbert and Elliott's channel: independent planning is wrong by a factor of hundreds where
//! losses come in bursts. Redundancy is parity per payload; a block is asked for while it lacks packets and those
//! that are left could still help.
//!
//! Assumes: packets of a block follow one another on the channel, those of later rounds too. In truth the channel has
//! recovered somewhat by then, so with bursts the residual loss is below what is told. Guarantees: of all codings with
//! the fewest parity packets for their size, or up to [`MORE_PARITY`] beyond where requests may be late, redundancy is
//! the least under these formulas. Deliberately absent: a clock, estimates (`estimate`).

use crate::code::{Coding, MOST_PACKETS};
use crate::{Error, LossModel};

/// Parity packets of a block that are looked at, at most.
const MOST_PARITY: usize = 100;
/// Rounds of a schedule that are looked at, at most, those of proactive parity apart.
const MOST_ROUNDS: usize = 16;
/// Parity packets beyond the fewest that keep the residual loss, where requests may be late.
const MORE_PARITY: usize = 3;
/// A probability that changes no residual loss that anybody asks for: numbers of losses beyond it are left out.
const NEGLIGIBLE: f64 = 1e-20;

/// What a sum of probabilities may be too large by, since each addition rounds.
const ROUNDED_UP: f64 = 1.0 - 1e-9;

/// An application's constraints.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// Share of payloads that may be missing at the deadline.
    pub residual_loss: f64,
    /// Nanoseconds from a payload's submission to its deadline.
    pub deadline_ns: f64,
    /// Nanoseconds from one payload to the next.
    pub interval_ns: f64,
    /// Bits of a packet on the path.
    pub packet_bits: f64,
    /// Bits a second that the path takes; infinite where nothing limits it.
    pub rate_bps: f64,
}

/// What is known of a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathState {
    /// Its losses.
    pub loss: LossModel,
    /// Round trip, nanoseconds.
    pub rtt_ns: f64,
    /// What of it is the way to the receiver; `None`: nobody knows, and it is taken to be half.
    pub way_ns: Option<f64>,
    /// How long an end takes to answer, nanoseconds.
    pub response_ns: f64,
    /// How long a loss takes to be noticed, nanoseconds.
    pub detection_ns: f64,
    /// Nanoseconds from a block to the packet of the next one, which shows that it ended and may be lost as well;
    /// `None`: `detection_ns` is all that it takes, as the literature has it.
    pub next_ns: Option<f64>,
    /// The share of requests that are lost on their way; each is made again after a round. The literature has 0.
    pub requests_lost: f64,
}

/// A coding with what it costs and leaves.
#[derive(Clone, PartialEq, Debug)]
pub struct CodingChoice {
    /// The coding.
    pub coding: Coding,
    /// Share of payloads that will be missing.
    pub residual_loss: f64,
    /// Expected parity packets per payload.
    pub redundancy: f64,
}

impl Demand {
    fn packet_ns(&self) -> f64 {
        self.packet_bits / self.rate_bps * 1e9
    }

    /// What a block of a size has left for rounds of requests, nanoseconds; `None`: it has no time for itself and its
    /// parity.
    fn left_ns(&self, path: &PathState, k: usize, parity: usize) -> Option<f64> {
        let blocks_ns = k as f64 * self.interval_ns + parity as f64 * self.packet_ns();
        let way_ns = path.way_ns.unwrap_or(path.rtt_ns / 2.0) + path.response_ns / 2.0;
        Some(self.deadline_ns - blocks_ns - way_ns).filter(|left_ns| *left_ns >= 0.0)
    }

    /// The schedule of least redundancy whose first request is too late no more often than that, and the parity that
    /// it sends on the average; and what the best schedule would send if no request were late.
    fn schedule(&self, path: &PathState, left_ns: f64, needed: &[f64], late: f64) -> (Vec<u8>, f64, f64) {
        let parity = needed.len();
        let rounds = path.rounds(left_ns).min(parity);
        let requests = Requests::of(needed, rounds);
        let (mut best, mut sent, mut least) = ((parity, 0), parity as f64, parity as f64);
        for rounds in 1..=rounds {
            let is_late = path.late(left_ns, rounds);
            for (proactive, needed) in needed.iter().enumerate() {
                let sends = proactive as f64 + requests.least[rounds][proactive];
                least = least.min(sends);
                if sends < sent && needed * is_late <= late {
                    (best, sent) = ((proactive, rounds), sends);
                }
            }
        }
        (requests.schedule(best), sent, least)
    }

    /// The largest redundancy for which the path has room.
    fn most_redundancy(&self) -> f64 {
        self.interval_ns / self.packet_ns() - 1.0
    }
}

impl PathState {
    fn round_ns(&self) -> f64 {
        self.rtt_ns + self.response_ns + self.detection_ns
    }

    /// Rounds of requests in that time.
    fn rounds(&self, left_ns: f64) -> usize {
        let (left_ns, round_ns) = (left_ns - self.next_ns.unwrap_or(0.0), self.round_ns());
        if left_ns < 0.0 {
            return 0;
        }
        if round_ns > 0.0 { MOST_ROUNDS.min((left_ns / round_ns) as usize) } else { MOST_ROUNDS }
    }

    /// How likely it is at most that nothing which follows a loss comes in time for that many rounds, or none of the
    /// requests for which there is time besides.
    fn late(&self, left_ns: f64, rounds: usize) -> f64 {
        if rounds == 0 {
            return 0.0;
        }
        let following = |next_ns: f64| (left_ns - rounds as f64 * self.round_ns()) / next_ns;
        let unseen =
            self.next_ns.map_or(0.0, |next_ns| self.loss.after_a_loss().powi(following(next_ns).min(1e6) as i32));
        let besides = self.rounds(left_ns).saturating_sub(rounds);
        unseen + self.requests_lost.powi(besides as i32 + 1)
    }
}

/// The coding of least redundancy that keeps `demand` on `path`; an error names the constraint that none keeps.
///
/// ```
/// use tickscope_prrt::{Demand, LossModel, PathState, search};
/// let demand = Demand {
///     residual_loss: 1e-4, deadline_ns: 100e6, interval_ns: 30e6, packet_bits: 9600.0, rate_bps: 3e9,
/// };
/// let loss = LossModel::independent(0.07)?;
/// let (way_ns, next_ns, requests_lost) = (None, None, 0.0);
/// let (rtt_ns, response_ns, detection_ns) = (8e6, 1e6, 2e6);
/// let path = PathState { loss, rtt_ns, way_ns, response_ns, detection_ns, next_ns, requests_lost };
/// let choice = search(&demand, &path)?;
/// assert_eq!((choice.coding.k(), choice.coding.schedule()), (2, &[0, 1, 1, 1][..]));
/// # Ok::<(), tickscope_prrt::Error>(())
/// ```
pub fn search(demand: &Demand, path: &PathState) -> Result<CodingChoice, Error> {
    if demand.left_ns(path, 1, 0).is_none() {
        let expected =
            format!("a deadline of half a round trip and one interval or more on this path of {} ns", path.rtt_ns);
        return Err(Error::new(expected, format!("{} ns", demand.deadline_ns), "Deadline: make it longer"));
    }
    if demand.most_redundancy() < 0.0 {
        let expected =
            format!("{} bit/s or more, which the payloads take alone", demand.packet_bits / demand.interval_ns * 1e9);
        return Err(Error::new(expected, demand.rate_bps, "Rate: send less"));
    }
    let (mut losses, mut packets) = (Losses::new(path.loss), Packets::new(path.loss));
    let mut best: Option<CodingChoice> = None;
    for k in 1..MOST_PACKETS {
        if demand.left_ns(path, k, 0).is_none() {
            break;
        }
        losses.add_source();
        let limit = best.as_ref().map_or(f64::INFINITY, |best| best.redundancy);
        let better = packets.coding(demand, path, k, &losses, limit);
        best = better.or(best);
    }
    let Some(best) = best else {
        let expected =
            format!("a residual loss that a block can keep by the deadline at a loss of {}", path.loss.mean());
        let remedy = "Residual loss: allow more of it, or make the deadline longer";
        return Err(Error::new(expected, demand.residual_loss, remedy));
    };
    if best.redundancy > demand.most_redundancy() {
        let expected = format!("room for {:.4} parity packets a payload", best.redundancy);
        let found = format!("room for {:.4} at {} bit/s", demand.most_redundancy(), demand.rate_bps);
        return Err(Error::new(expected, found, "Rate: send less, or allow more residual loss or a longer deadline"));
    }
    Ok(best)
}

/// By state of the channel and number of losses among the packets of a block so far: the probability, and the expected
/// number of lost source packets on that event. Losses beyond the most that parity covers are one number.
struct Losses {
    model: LossModel,
    probability: [Vec<f64>; 2],
    sources: [Vec<f64>; 2],
    /// The largest number of losses that is likelier than [`NEGLIGIBLE`].
    most: usize,
}

impl Losses {
    fn new(model: LossModel) -> Self {
        let bad = model.bad_share();
        let begun = |share: f64| [vec![share], vec![0.0; MOST_PARITY + 1]].concat();
        let nothing = vec![0.0; MOST_PARITY + 2];
        Self { model, probability: [begun(1.0 - bad), begun(bad)], sources: [nothing.clone(), nothing], most: 0 }
    }

    fn add_source(&mut self) {
        self.add(true);
    }

    fn add(&mut self, is_source: bool) {
        let most = (self.most + 1).min(MOST_PARITY + 1);
        let lost = [self.model.lost_in_good, self.model.lost_in_bad];
        for ((lost, p), s) in lost.into_iter().zip(&mut self.probability).zip(&mut self.sources) {
            let (kept, newly) = (1.0 - lost, if is_source { 1.0 } else { 0.0 });
            if most > MOST_PARITY {
                s[most] += newly * p[most] * lost + (s[most - 1] + newly * p[most - 1]) * lost;
                p[most] += p[most - 1] * lost;
            }
            // Slices of a known length: then the compiler has several numbers at a time.
            let exact = most.min(MOST_PARITY);
            let (p, s) = (&mut p[..=exact], &mut s[..=exact]);
            for losses in (1..=exact).rev() {
                s[losses] = s[losses] * kept + (s[losses - 1] + newly * p[losses - 1]) * lost;
                p[losses] = p[losses] * kept + p[losses - 1] * lost;
            }
            (p[0], s[0]) = (p[0] * kept, s[0] * kept);
        }
        let (leaves, comes) = (self.model.good_to_bad, self.model.bad_to_good);
        for [goods, bads] in [&mut self.probability, &mut self.sources] {
            for (in_good, in_bad) in goods.iter_mut().zip(bads).take(most + 1) {
                let (good, bad) = (*in_good, *in_bad);
                *in_good = good * (1.0 - leaves) + bad * comes;
                *in_bad = good * leaves + bad * (1.0 - comes);
            }
        }
        self.most = most;
        while self.probability.iter().all(|of| of[self.most] < NEGLIGIBLE) {
            let cut = self.probability.iter_mut().chain(&mut self.sources);
            cut.for_each(|of| of[self.most] = 0.0);
            self.most -= 1;
        }
    }
}

/// What is the same for blocks of all sizes, and made once.
struct Packets {
    chain: Losses,
    /// By number of packets: how likely each number of losses among them is.
    losses: Vec<Vec<f64>>,
    /// By number of parity packets, by state of the channel before them, and by a number: how likely more of them than
    /// that are lost.
    beyond: Vec<[Vec<f64>; 2]>,
}

impl Packets {
    fn new(model: LossModel) -> Self {
        Self { chain: Losses::new(model), losses: vec![vec![1.0]], beyond: vec![[vec![], vec![]]] }
    }

    /// Makes what is said of blocks of `k` payloads and that many parity packets.
    fn make(&mut self, k: usize, parity: usize) {
        while self.losses.len() < k + parity {
            self.chain.add(false);
            let [good, bad] = self.chain.probability.each_ref().map(|of| &of[..=MOST_PARITY]);
            self.losses.push(good.iter().zip(bad).map(|(good, bad)| good + bad).collect());
        }
        let LossModel { good_to_bad, bad_to_good, lost_in_good, lost_in_bad } = self.chain.model;
        let (to_bad, lost) = ([good_to_bad, 1.0 - bad_to_good], [lost_in_good, lost_in_bad]);
        while self.beyond.len() <= parity {
            let [good, bad] = &self.beyond[self.beyond.len() - 1];
            let after = |state: usize, more: usize| match (good.get(more), bad.get(more)) {
                (Some(good), Some(bad)) => good * (1.0 - to_bad[state]) + bad * to_bad[state],
                _ => 0.0,
            };
            let of = |state: usize, more: usize| {
                let less = if more == 0 { 1.0 } else { after(state, more - 1) };
                lost[state] * less + (1.0 - lost[state]) * after(state, more)
            };
            let next = [0, 1].map(|state| (0..=good.len()).map(|more| of(state, more)).collect());
            self.beyond.push(next);
        }
    }

    /// How many payloads of a block are missing on the average.
    fn missing(&self, losses: &Losses, parity: usize) -> f64 {
        let of = |state: usize| {
            let lost = &losses.sources[state][..=losses.most];
            let (repaired, beyond_repair) = lost.split_at((parity + 1).min(losses.most + 1));
            let beyond = self.beyond[parity][state].iter().rev();
            let too_many = repaired.iter().skip(1).zip(beyond).map(|(lost, beyond)| lost * beyond);
            too_many.sum::<f64>() + beyond_repair.iter().sum::<f64>()
        };
        of(0) + of(1)
    }

    /// By parity packets sent before: how likely a round after them is, since the block lacks packets and is not beyond
    /// repair.
    fn needed(&self, k: usize, parity: usize) -> Vec<f64> {
        (0..parity).map(|sent| self.losses[k + sent][sent + 1..=parity].iter().sum()).collect()
    }

    /// The best schedule of the fewest parity packets that keep the residual loss, or, where requests that may be late
    /// are in its way, of a few more; if its redundancy is below `limit`.
    fn coding(
        &mut self,
        demand: &Demand,
        path: &PathState,
        k: usize,
        losses: &Losses,
        limit: f64,
    ) -> Option<CodingChoice> {
        let (mut best, mut looked): (Option<CodingChoice>, usize) = (None, 0);
        for parity in 0..=MOST_PARITY.min(MOST_PACKETS - k) {
            self.make(k, parity);
            let residual_loss = self.missing(losses, parity) / k as f64;
            let Some(left_ns) = demand.left_ns(path, k, parity) else { break };
            if residual_loss > demand.residual_loss {
                continue;
            }
            let late = demand.residual_loss - residual_loss;
            let limit = best.as_ref().map_or(limit, |best| best.redundancy);
            let needed = self.needed(k, parity);
            // A request is the less likely the more was sent before it: so no schedule sends a packet less often than
            // one that asks for it alone.
            if needed.iter().sum::<f64>() / k as f64 * ROUNDED_UP > limit {
                break;
            }
            let (schedule, sent, least) = demand.schedule(path, left_ns, &needed, late);
            let [redundancy, least] = [sent, least].map(|sent| sent / k as f64);
            if redundancy < limit {
                let coding = Coding::new(k as u8, &schedule).ok()?;
                best = Some(CodingChoice { coding, residual_loss, redundancy });
            }
            looked += 1;
            if least >= redundancy.min(limit) || looked > MORE_PARITY {
                break;
            }
        }
        best
    }
}

/// What requests send at least on the average, by how likely each packet is needed. By number of requests and packets
/// that were sent before them.
struct Requests {
    least: Vec<Vec<f64>>,
    /// Packets that are sent once the first of these requests was answered.
    then: Vec<Vec<usize>>,
}

impl Requests {
    fn of(needed: &[f64], rounds: usize) -> Self {
        let parity = needed.len();
        let nothing = [vec![f64::INFINITY; parity], vec![0.0]].concat();
        let (mut least, mut then) = (vec![nothing], vec![vec![parity; parity + 1]]);
        for round in 1..=rounds {
            let (mut costs, mut ends) = (vec![f64::INFINITY; parity + 1], vec![parity; parity + 1]);
            for (before, needed) in needed.iter().enumerate() {
                for (sent, rest) in least[round - 1].iter().enumerate().skip(before + 1) {
                    let cost = (sent - before) as f64 * needed + rest;
                    if cost < costs[before] {
                        (costs[before], ends[before]) = (cost, sent);
                    }
                }
            }
            least.push(costs);
            then.push(ends);
        }
        Self { least, then }
    }

    /// The schedule that begins with so many packets and has so many requests.
    fn schedule(&self, (proactive, rounds): (usize, usize)) -> Vec<u8> {
        let (mut sent, mut schedule) = (proactive, vec![proactive as u8]);
        for round in (1..=rounds).rev() {
            let then = self.then[round][sent];
            schedule.push((then - sent) as u8);
            sent = then;
        }
        schedule
    }
}

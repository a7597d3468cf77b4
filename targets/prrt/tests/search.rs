//! The search for a coding against one that looks at everything, and against published choices.

use tickscope_prrt::{Coding, CodingChoice, Demand, LossModel, PathState, search};

const MS: f64 = 1e6;

/// Probability of each pattern of losses of `n` packets, a bit a packet, by walking the channel.
fn patterns(model: &LossModel, n: u32) -> Vec<f64> {
    let lost = [model.lost_in_good, model.lost_in_bad];
    let leaves = [model.good_to_bad, model.bad_to_good];
    let walk = |pattern: u32| {
        let mut state = [1.0 - model.bad_share(), model.bad_share()];
        for at in 0..n {
            let here = |of: usize| state[of] * if pattern >> at & 1 == 1 { lost[of] } else { 1.0 - lost[of] };
            let [good, bad] = [here(0), here(1)];
            state = [good * (1.0 - leaves[0]) + bad * leaves[1], good * leaves[0] + bad * (1.0 - leaves[1])];
        }
        state[0] + state[1]
    };
    (0..1 << n).map(walk).collect()
}

/// Residual loss and redundancy of a coding, from every pattern: each round is sent while the block lacks packets, and
/// not more of them than it has parity.
fn counted(probabilities: &[f64], coding: &Coding) -> (f64, f64) {
    let (k, n) = (u32::from(coding.k()), u32::from(coding.n()));
    let (mut missing, mut sent) = (0.0, 0.0);
    for (pattern, probability) in probabilities.iter().enumerate() {
        let losses = |packets: u32| (pattern as u32 & ((1 << packets) - 1)).count_ones();
        missing += if losses(n) > n - k { probability * f64::from(losses(k)) } else { 0.0 };
        let mut parity = 0;
        for (round, packets) in coding.schedule().iter().enumerate() {
            let lacks = losses(k + parity) > parity && losses(k + parity) <= n - k;
            if round == 0 || lacks {
                sent += probability * f64::from(*packets);
            }
            parity += u32::from(*packets);
        }
    }
    (missing / f64::from(k), sent / f64::from(k))
}

/// Every schedule of `parity` packets with up to `rounds` requests, none of them empty.
fn schedules(parity: u8, rounds: usize) -> Vec<Vec<u8>> {
    fn rest(left: u8, rounds: usize) -> Vec<Vec<u8>> {
        if left == 0 {
            return vec![vec![]];
        }
        let first = |now: u8| rest(left - now, rounds - 1).into_iter().map(move |more| [vec![now], more].concat());
        if rounds == 0 { vec![] } else { (1..=left).flat_map(first).collect() }
    }
    let with = |now: u8| rest(parity - now, rounds).into_iter().map(move |more| [vec![now], more].concat());
    (0..=parity).flat_map(with).collect()
}

/// The best coding of at most `most` packets, by looking at every one.
fn exhausted(demand: &Demand, path: &PathState, most: u8) -> Option<(f64, Coding)> {
    let mut best: Option<(f64, Coding)> = None;
    for n in 1..=most {
        let probabilities = patterns(&path.loss, n.into());
        for k in 1..=n {
            let parity = n - k;
            let packet_ns = demand.packet_bits / demand.rate_bps * 1e9;
            let left = demand.deadline_ns - f64::from(k) * demand.interval_ns - f64::from(parity) * packet_ns;
            let left = left - (path.rtt_ns + path.response_ns) / 2.0;
            if left < 0.0 {
                continue;
            }
            let rounds = (left / (path.rtt_ns + path.response_ns + path.detection_ns)) as usize;
            for schedule in schedules(parity, rounds.min(parity.into())) {
                let coding = Coding::new(k, &schedule).unwrap();
                let (residual_loss, redundancy) = counted(&probabilities, &coding);
                let keeps =
                    residual_loss <= demand.residual_loss && (1.0 + redundancy) * packet_ns <= demand.interval_ns;
                if keeps && best.as_ref().is_none_or(|(least, _)| redundancy < *least) {
                    best = Some((redundancy, coding));
                }
            }
        }
    }
    best
}

/// How likely the first request of a coding is, and that it is too late or lost as often as there is time for it.
fn too_late(probabilities: &[f64], coding: &Coding, path: &PathState, left_ns: f64) -> f64 {
    let (k, n) = (u32::from(coding.k()), u32::from(coding.n()));
    let requests = coding.schedule().len() - 1;
    if requests == 0 {
        return 0.0;
    }
    let losses = |pattern: usize, packets: u32| (pattern as u32 & ((1 << packets) - 1)).count_ones();
    let proactive = u32::from(coding.proactive());
    let lacks = |pattern: usize| losses(pattern, k + proactive) > proactive && losses(pattern, k + proactive) <= n - k;
    let asked: f64 = (0..probabilities.len()).filter(|at| lacks(*at)).map(|at| probabilities[at]).sum();
    let (next_ns, round_ns) = (path.next_ns.unwrap(), path.rtt_ns + path.response_ns + path.detection_ns);
    let following = (left_ns - requests as f64 * round_ns) / next_ns;
    let possible = ((left_ns - next_ns) / round_ns) as usize;
    let lost = path.requests_lost.powi((possible - requests) as i32 + 1);
    asked * (path.loss.after_a_loss().powi(following as i32) + lost)
}

/// The least redundancy of all codings of at most `most` packets on a path on which requests may be late or lost.
fn exhausted_late(demand: &Demand, path: &PathState, most: u8) -> Option<f64> {
    let mut best: Option<f64> = None;
    for n in 1..=most {
        let probabilities = patterns(&path.loss, n.into());
        for k in 1..=n {
            let packets_ns = f64::from(n - k) * demand.packet_bits / demand.rate_bps * 1e9;
            let left_ns = demand.deadline_ns - f64::from(k) * demand.interval_ns - packets_ns;
            let left_ns = left_ns - (path.rtt_ns + path.response_ns) / 2.0;
            if left_ns < 0.0 {
                continue;
            }
            let round_ns = path.rtt_ns + path.response_ns + path.detection_ns;
            let rounds = ((left_ns - path.next_ns.unwrap()).max(0.0) / round_ns) as usize;
            for schedule in schedules(n - k, rounds.min((n - k).into())) {
                let coding = Coding::new(k, &schedule).unwrap();
                let (missing, redundancy) = counted(&probabilities, &coding);
                let is_kept = missing + too_late(&probabilities, &coding, path, left_ns) <= demand.residual_loss;
                if missing <= demand.residual_loss && is_kept && best.is_none_or(|least| redundancy < least) {
                    best = Some(redundancy);
                }
            }
        }
    }
    best
}

#[test]
fn where_requests_may_be_late_or_lost_the_search_is_as_good_as_one_that_looks_at_every_coding() {
    const MOST: u8 = 9;
    let bursts = LossModel { good_to_bad: 0.02, bad_to_good: 0.4, lost_in_good: 0.001, lost_in_bad: 0.6 };
    let independent = [0.03, 0.1, 0.2].map(|lost| LossModel::independent(lost).unwrap());
    let (mut looked_at, mut dearer) = (0, 0);
    for loss in independent.into_iter().chain([bursts]) {
        for (residual_loss, rtt_ms, blocks) in
            [(1e-2, 3.0, 3.0), (3e-3, 5.0, 3.0), (1e-3, 2.0, 4.0), (1e-3, 8.0, 2.0), (3e-4, 1.0, 3.0)]
        {
            for (next, requests_lost) in [(1.0, 0.0), (1.0, 0.1), (0.3, 0.3), (0.3, 0.0)] {
                let interval_ns = 10.0 * MS;
                let deadline_ns = blocks * interval_ns + rtt_ms * MS * 2.0;
                let (packet_bits, rate_bps) = (9600.0, f64::INFINITY);
                let demand = Demand { residual_loss, deadline_ns, interval_ns, packet_bits, rate_bps };
                let next_ns = Some(next * interval_ns);
                let path = PathState { next_ns, requests_lost, ..path(loss, rtt_ms) };
                let free = PathState { next_ns: None, requests_lost: 0.0, ..path };
                let Ok(choice) = search(&demand, &path) else { continue };
                let Some(least) = exhausted_late(&demand, &path, MOST) else { continue };
                assert!(choice.redundancy <= least * 1.05 + 1e-12, "{demand:?} {path:?}: {choice:?}, not {least}");
                if choice.coding.n() <= MOST {
                    assert!(choice.redundancy >= least - 1e-12, "{demand:?} {path:?}: {choice:?} is too late");
                }
                looked_at += 1;
                dearer += usize::from(choice.redundancy > search(&demand, &free).unwrap().redundancy * 1.01);
            }
        }
    }
    assert!(looked_at >= 40 && dearer >= 20, "{looked_at}, of which {dearer} plan for what is late");
}

fn path(loss: LossModel, rtt_ms: f64) -> PathState {
    PathState {
        loss,
        rtt_ns: rtt_ms * MS,
        way_ns: None,
        response_ns: 0.1 * MS,
        detection_ns: 0.2 * MS,
        next_ns: None,
        requests_lost: 0.0,
    }
}

#[test]
fn the_search_is_as_good_as_one_that_looks_at_every_coding() {
    let independent = [0.002, 0.03, 0.2].map(|lost| LossModel::independent(lost).unwrap());
    let bursts = LossModel { good_to_bad: 0.02, bad_to_good: 0.4, lost_in_good: 0.001, lost_in_bad: 0.6 };
    let (mut feasible, mut infeasible) = (0, 0);
    for loss in independent.into_iter().chain([bursts]) {
        for (residual_loss, rtt_ms, blocks_ms) in
            [(0.05, 1.0, 6.0), (1e-2, 9.0, 5.0), (1e-3, 2.0, 5.0), (1e-4, 4.0, 4.0)]
        {
            let (interval_ns, packet_bits) = (MS, 9600.0);
            for rate_bps in [f64::INFINITY, 12e6] {
                // Blocks of 4 to 6 fit into what the round trip leaves of the deadline: n stays small.
                let deadline_ns = blocks_ms * MS + rtt_ms * MS * 2.0;
                let demand = Demand { residual_loss, deadline_ns, interval_ns, packet_bits, rate_bps };
                let path = path(loss, rtt_ms);
                match (search(&demand, &path), exhausted(&demand, &path, 11)) {
                    (Ok(choice), _) if choice.coding.n() > 11 => feasible += agrees(&choice, None, &loss),
                    (Ok(choice), Some(best)) => feasible += agrees(&choice, Some(best.0), &loss),
                    (Err(_), None) => infeasible += 1,
                    (one, other) => panic!("{demand:?} {path:?}: {one:?} against {other:?}"),
                }
            }
        }
    }
    assert!(feasible >= 8 && infeasible >= 4, "{feasible} and {infeasible}");
}

/// What a choice says of itself is what counting says, and as good as the best; answers whether both were looked at.
fn agrees(choice: &CodingChoice, best: Option<f64>, loss: &LossModel) -> usize {
    if choice.coding.n() <= 16 {
        let (residual_loss, redundancy) = counted(&patterns(loss, choice.coding.n().into()), &choice.coding);
        assert!((residual_loss - choice.residual_loss).abs() < 1e-12, "{choice:?}: {residual_loss}");
        assert!((redundancy - choice.redundancy).abs() < 1e-12, "{choice:?}: {redundancy}");
    }
    let Some(best) = best else { return 0 };
    assert!(choice.redundancy <= best * 1.05 + 1e-12, "{choice:?}: {best} is possible");
    assert!(choice.redundancy >= best - 1e-12, "{choice:?}: {best} is the least that keeps the constraints");
    1
}

#[test]
fn published_choices_are_found_again() {
    for (demand, [lost, rtt, response, detection], (k, parity, redundancy)) in [
        ([1e-4, 100.0, 30.0, 3e9], [0.07, 8.0, 1.0, 2.0], (2, 3, 0.075)),
        ([1e-6, 20.0, 0.2, 100e6], [0.01, 1.0, 0.1, 0.2], (42, 5, 0.010)),
        ([1e-5, 100.0, 1.0, 50e6], [0.03, 10.0, 0.5, 1.0], (17, 5, 0.031)),
        ([1e-3, 200.0, 5.0, 5e6], [0.10, 40.0, 1.0, 5.0], (3, 3, 0.11)),
        ([1e-6, 200.0, 0.5, 200e6], [0.05, 20.0, 0.5, 1.0], (8, 6, 0.053)),
    ] {
        let [residual_loss, deadline, interval, rate_bps] = demand;
        let (deadline_ns, interval_ns) = (deadline * MS, interval * MS);
        let demand = Demand { residual_loss, deadline_ns, interval_ns, packet_bits: 9600.0, rate_bps };
        let loss = LossModel::independent(lost).unwrap();
        let path = PathState {
            loss,
            rtt_ns: rtt * MS,
            way_ns: None,
            response_ns: response * MS,
            detection_ns: detection * MS,
            next_ns: None,
            requests_lost: 0.0,
        };
        let found = search(&demand, &path).unwrap();
        let total = found.coding.n() - found.coding.k();
        assert_eq!((found.coding.k(), total), (k, parity), "{found:?}");
        assert!((found.redundancy - redundancy).abs() < 0.001 + redundancy * 0.01, "{found:?}, expected {redundancy}");
        // The formula for independent losses, P[n - 1 packets lose p or more] times p_e, apart from the programme.
        let (n, p) = (found.coding.n(), total);
        let tail: f64 = (p..n).map(|losses| binomial(n - 1, losses, lost)).sum();
        assert!((found.residual_loss / (lost * tail) - 1.0).abs() < 1e-9, "{found:?}");
    }
}

#[test]
fn a_loss_that_the_next_packet_may_not_show_is_not_left_to_requests() {
    let demand = Demand {
        residual_loss: 1e-4,
        deadline_ns: 100.0 * MS,
        interval_ns: 30.0 * MS,
        packet_bits: 9600.0,
        rate_bps: 3e9,
    };
    let of = |next_ns, interval_ns| {
        let path = PathState { next_ns, detection_ns: 2.0 * MS, ..path(LossModel::independent(0.07).unwrap(), 8.0) };
        search(&Demand { interval_ns, ..demand }, &path).unwrap().coding
    };
    // Of three packets that follow within the deadline all are lost one time in three thousand.
    assert_eq!(of(None, 30.0 * MS).schedule(), [0, 1, 1, 1]);
    assert_eq!(of(Some(30.0 * MS), 30.0 * MS).schedule().len(), 1, "nothing is left to be asked for");
    // Ten times as many follow.
    assert_eq!(of(Some(3.0 * MS), 3.0 * MS), of(None, 3.0 * MS));
    let bursts = LossModel { good_to_bad: 0.02, bad_to_good: 0.25, lost_in_good: 0.001, lost_in_bad: 0.6 };
    assert!((LossModel::independent(0.07).unwrap().after_a_loss() - 0.07).abs() < 1e-12);
    assert!((0.4..0.5).contains(&bursts.after_a_loss()), "{}", bursts.after_a_loss());
}

fn binomial(n: u8, losses: u8, lost: f64) -> f64 {
    let choose = (0..losses).fold(1.0, |all, at| all * f64::from(n - at) / f64::from(at + 1));
    choose * lost.powi(losses.into()) * (1.0 - lost).powi((n - losses).into())
}

#[test]
fn what_no_coding_keeps_is_told_by_the_constraint_that_is_at_fault() {
    let demand =
        Demand { residual_loss: 1e-5, deadline_ns: 50.0 * MS, interval_ns: MS, packet_bits: 9600.0, rate_bps: 1e9 };
    let lossy = |lost: f64, rtt: f64| {
        let loss = LossModel::independent(lost).unwrap();
        PathState {
            loss,
            rtt_ns: rtt * MS,
            way_ns: None,
            response_ns: 0.5 * MS,
            detection_ns: MS,
            next_ns: None,
            requests_lost: 0.0,
        }
    };
    let told = |demand: Demand, path: PathState| search(&demand, &path).unwrap_err().to_string();
    assert!(search(&demand, &lossy(0.05, 10.0)).is_ok());
    let text = told(Demand { rate_bps: 10e6, ..demand }, lossy(0.05, 10.0));
    assert!(text.contains("Rate:") && text.contains("room for 0.0417 at 10000000 bit/s"), "{text}");
    // A link that the payloads alone are too much for: no residual loss would help.
    for rate_bps in [9.5e6, 1e5, 20e3] {
        let text = told(Demand { rate_bps, ..demand }, lossy(0.05, 10.0));
        assert!(text.contains("Rate:") && text.contains("expected 9600000 bit/s or more"), "{text}");
    }
    let text = told(demand, lossy(0.05, 101.0));
    assert!(text.contains("Deadline:"), "{text}");
    let text = told(demand, lossy(0.9, 97.0));
    assert!(text.contains("Residual loss:") && text.contains("found 0.00001"), "{text}");
}

#[test]
fn bursts_need_more_parity_than_as_many_losses_that_come_one_by_one() {
    let bursts = LossModel { good_to_bad: 0.02, bad_to_good: 0.25, lost_in_good: 0.001, lost_in_bad: 0.6 };
    assert!((bursts.mean() - 0.0454).abs() < 0.0001, "{}", bursts.mean());
    let demand =
        Demand { residual_loss: 1e-4, deadline_ns: 30.0 * MS, interval_ns: MS, packet_bits: 9600.0, rate_bps: 1e9 };
    let [one, other] = [bursts, LossModel::independent(bursts.mean()).unwrap()]
        .map(|loss| search(&demand, &path(loss, 40.0)).unwrap());
    assert!(one.redundancy > 2.0 * other.redundancy, "{one:?} and {other:?}");
}

/// How many payloads of a block are missing on the average, payload by payload: it is lost, and with it more packets
/// than the parity of its block.
fn missing(model: &LossModel, coding: &Coding) -> f64 {
    let (k, n) = (usize::from(coding.k()), usize::from(coding.n()));
    let (lost, leaves) = ([model.lost_in_good, model.lost_in_bad], [model.good_to_bad, model.bad_to_good]);
    let of = |payload: usize| {
        let mut by_losses = vec![[0.0; 2]; n + 1];
        by_losses[0] = [1.0 - model.bad_share(), model.bad_share()];
        for packet in 0..n {
            let mut next = vec![[0.0; 2]; n + 1];
            for losses in 0..=packet {
                for state in 0..2 {
                    for is_lost in 0..2 {
                        let here = by_losses[losses][state] * [1.0 - lost[state], lost[state]][is_lost];
                        if packet != payload || is_lost == 1 {
                            next[losses + is_lost][state] += here * (1.0 - leaves[state]);
                            next[losses + is_lost][1 - state] += here * leaves[state];
                        }
                    }
                }
            }
            by_losses = next;
        }
        by_losses[n - k + 1..].iter().flatten().sum::<f64>()
    };
    (0..k).map(of).sum()
}

#[test]
fn large_blocks_have_the_choices_of_a_search_that_counts_the_losses_of_each() {
    let bursts = LossModel { good_to_bad: 0.01, bad_to_good: 0.5, lost_in_good: 0.0, lost_in_bad: 1.0 };
    let long = LossModel { good_to_bad: 0.02, bad_to_good: 0.25, lost_in_good: 0.001, lost_in_bad: 0.6 };
    let independent = |lost| LossModel::independent(lost).unwrap();
    // What the search chose when it walked the channel for each block and number of parity packets anew.
    let cases = [
        (independent(0.03), [1e-4, 250.0, 10.0, 0.001], (59, &[0, 1, 1, 1, 1, 1, 1, 1][..])),
        (independent(0.03), [1e-6, 250.0, 60.0, 0.01], (37, &[2, 7][..])),
        (independent(0.15), [1e-3, 150.0, 20.0, 0.0], (3, &[0, 1, 1, 1, 1][..])),
        (bursts, [1e-4, 100.0, 10.0, 0.001], (18, &[0, 1, 1, 1, 1, 2, 5][..])),
        (bursts, [1e-5, 200.0, 40.0, 0.01], (8, &[0, 2, 3, 12][..])),
        (long, [1e-3, 250.0, 10.0, 0.0], (64, &[0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2][..])),
        (long, [1e-4, 120.0, 60.0, 0.001], (18, &[4, 17][..])),
    ];
    for (loss, [residual_loss, deadline, rtt, requests_lost], (k, schedule)) in cases {
        let (deadline_ns, interval_ns, packet_bits, rate_bps) = (deadline * MS, MS, 9600.0, 1e9);
        let demand = Demand { residual_loss, deadline_ns, interval_ns, packet_bits, rate_bps };
        let path = PathState { next_ns: Some(interval_ns), requests_lost, ..path(loss, rtt) };
        let choice = search(&demand, &path).unwrap();
        assert_eq!((choice.coding.k(), choice.coding.schedule()), (k, schedule), "{choice:?}");
        let counted = missing(&loss, &choice.coding) / f64::from(k);
        assert!((choice.residual_loss / counted - 1.0).abs() < 1e-9, "{choice:?}: {counted}");
    }
}

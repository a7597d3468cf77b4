//! Both ends over a channel in virtual time.

mod network;

use network::{MS, Network, Way};
use tickscope_prrt::{
    Coding, Constraints, Header, LossModel, Packet, PacketKind, Punctuality, Receiver, ReceiverPlan, Sender, SenderPlan,
};

fn plan(k: u8, schedule: &[u8]) -> SenderPlan {
    let coding = Coding::new(k, schedule).unwrap();
    SenderPlan { session: 7, coding, deadline_ns: 100 * MS, flush_ns: 20 * MS, pace_ns: 0 }
}

const RECEIVER: ReceiverPlan = ReceiverPlan { feedback_ns: 5 * MS, reordered_ns: 2 * MS, vanished_ns: 60_000 * MS };

/// `payloads` of them, one a millisecond, and time for all of them to expire.
fn sent(network: &mut Network, payloads: i64) {
    for at in 0..payloads {
        network.run_until(at * MS);
        network.submit();
    }
    network.run_until(payloads * MS + 400 * MS);
}

fn network(k: u8, schedule: &[u8], forth: Way, seed: u64) -> Network {
    Network::new(plan(k, schedule), RECEIVER, (forth, Way::clean(5 * MS)), seed)
}

#[test]
fn without_losses_every_payload_comes_at_once_and_nothing_is_asked_for() {
    let mut network = network(4, &[1, 1], Way::clean(5 * MS), 1);
    sent(&mut network, 1000);
    assert_eq!(network.trips.len(), 1000);
    assert!(network.trips.values().all(|trip| trip.delivered_ns - trip.submitted_ns == 5 * MS && !trip.recovered));
    let (sender, receiver) = (network.sender.counts(), network.receiver.counts());
    assert_eq!((sender.parity, receiver.parity, sender.asked, receiver.given_up), (250, 250, 0, 0));
    assert_eq!(network.sender.rtt_ns_min(), Some(10 * MS));
}

#[test]
fn proactive_parity_recovers_within_the_block_and_asks_for_nothing() {
    // Every block loses one packet at most: the loss process of this seed is looked at, not assumed.
    let mut network = network(4, &[2], Way::clean(5 * MS).losing(0.02), 3);
    sent(&mut network, 4000);
    assert!(network.forth.lost > 60, "{}", network.forth.lost);
    let counts = network.receiver.counts();
    assert!(counts.recovered > 40 && network.sender.counts().asked == 0, "{counts:?}");
    let late = network.trips.values().filter(|trip| trip.delivered_ns - trip.submitted_ns > 8 * MS + MS);
    assert_eq!(late.count(), 0, "the block's last packet and its parity follow within 3 ms");
    assert_eq!(4000 - network.trips.len() as u64, counts_missing(&network));
}

/// Payloads that neither came nor were recovered, by the receiver's blocks.
fn counts_missing(network: &Network) -> u64 {
    let counts = network.receiver.counts();
    network.sender.counts().submitted - counts.sources - counts.recovered
}

#[test]
fn parity_that_is_asked_for_recovers_what_was_lost_in_time() {
    let mut network = network(4, &[0, 2, 2], Way::clean(5 * MS).losing(0.05), 4);
    sent(&mut network, 4000);
    let (sender, receiver) = (network.sender.counts(), network.receiver.counts());
    assert!(receiver.recovered > 100 && sender.asked > 100, "{receiver:?}");
    // No parity but where it is asked for: far below one packet a block.
    assert!(sender.parity < 700, "{sender:?}");
    assert!(network.trips.len() > 3980, "{}", network.trips.len());
    let in_time = network.trips.values().all(|trip| trip.delivered_ns - trip.submitted_ns <= 105 * MS);
    assert!(in_time, "what was recovered came by its deadline, and a way");
}

#[test]
fn a_block_of_which_nothing_came_is_asked_for_until_its_parity_came() {
    let mut network = network(1, &[0, 1, 1], Way::clean(5 * MS).losing(1.0 / 7.0), 4);
    sent(&mut network, 4000);
    let (sender, receiver) = (network.sender.counts(), network.receiver.counts());
    assert!((3970..4000).contains(&network.trips.len()), "one in 343 loses all three: {}", network.trips.len());
    assert_eq!(receiver.given_up, 4000 - network.trips.len() as u64, "{receiver:?}");
    assert!(sender.refused_asks < 10 * receiver.given_up, "only of blocks that lost all three: {sender:?}");
    // Of larger blocks as many parity packets as payloads must be left.
    let mut larger = self::network(4, &[0, 4, 4], Way::clean(5 * MS).losing(0.4), 5);
    sent(&mut larger, 8000);
    let lost_whole = 2000.0 * 0.4_f64.powi(4);
    assert!(lost_whole > 50.0 && larger.receiver.counts().given_up < 40, "{:?}", larger.receiver.counts());
}

/// The blocks that a receiver asks for, 4 ms after it heard the first packets of these ones: base and k.
fn asked_after(blocks: &[(u64, u8)]) -> (Receiver, Vec<u64>) {
    let mut receiver = Receiver::new(RECEIVER);
    let (mut bytes, mut asked) = (Vec::new(), Vec::new());
    for (sequence, (base, k)) in blocks.iter().enumerate() {
        let (kind, session, sequence) = (PacketKind::Source, 7, sequence as u64);
        let (index, n, filled, left_us, sent_ns, rtt_us) = (0, 3 * k, 1, 50_000, 0, 1000);
        let header = Header { kind, index, k: *k, n, filled, session, left_us, base: *base, sequence, sent_ns, rtt_us };
        header.write(&[0; 1400], &mut bytes);
        assert!(receiver.handle(&bytes, MS).is_some());
        while receiver.feedback(4 * MS, &mut bytes).is_some() {
            let Ok(Packet::Feedback(_, feedback)) = Packet::parse(&bytes) else { panic!("it is no feedback") };
            asked.extend(feedback.blocks.iter().map(|block| block.base));
        }
    }
    (receiver, asked)
}

#[test]
fn a_gap_of_ids_is_as_many_blocks_as_fit_between_their_neighbours() {
    for (blocks, expected) in [
        (&[(0, 2), (2, 2)][..], &[][..]),
        (&[(4, 2)], &[]), // who joins late knows of nothing before
        (&[(0, 2), (6, 4)], &[2, 4]),
        (&[(0, 2), (5, 3)], &[2]), // of the size of the one after: the one before does not fit
        (&[(0, 4), (9, 2)], &[4, 6]), // of neither: what is no block the sender refuses
        (&[(0, 1), (4, 1), (2, 1)], &[1, 2, 3]), // 2 was overtaken
    ] {
        assert_eq!(asked_after(blocks).1, expected, "{blocks:?}");
    }
}

#[test]
fn a_block_of_which_nothing_came_is_given_up_at_its_deadline_and_no_sooner() {
    let (mut receiver, mut bytes) = (Receiver::new(RECEIVER), Vec::new());
    for (sequence, base) in [(0, 0), (1, 8)] {
        let (kind, session, left_us, sent_ns, rtt_us) = (PacketKind::Source, 7, 50_000, 0, 1000);
        let (index, k, n, filled) = (0, 2, 4, 0);
        let header = Header { kind, index, k, n, filled, session, left_us, base, sequence, sent_ns, rtt_us };
        header.write(b"a payload", &mut bytes);
        assert!(receiver.handle(&bytes, MS).is_some());
    }
    // Of the blocks at 0 and 8 a later payload may still come; those at 2, 4 and 6 came before 8 was submitted.
    for (now, given_up) in [(51 * MS - 1, 0), (51 * MS, 3), (101 * MS - 1, 3), (101 * MS, 5)] {
        receiver.on_time(now);
        assert_eq!(receiver.counts().given_up, given_up, "at {now}");
    }
}

#[test]
fn payloads_that_waited_long_at_the_sender_come_though_little_time_is_left() {
    for k in [1, 4, 10, 40] {
        let plan = SenderPlan { deadline_ns: 50 * MS, pace_ns: MS + MS / 20, ..plan(k, &[0]) };
        let mut network = Network::new(plan, RECEIVER, (Way::clean(MS / 10), Way::clean(MS / 10)), 3);
        sent(&mut network, 5000);
        let (sender, receiver) = (network.sender.counts(), network.receiver.counts());
        assert!(sender.sources > 4700 && sender.expired > 100, "{sender:?}");
        assert_eq!((receiver.too_late, network.trips.len() as u64), (0, sender.sources), "k = {k}: {receiver:?}");
    }
}

#[test]
fn a_pace_that_leaves_no_room_for_parity_is_a_rate_that_no_coding_keeps() {
    let mut network = network(4, &[1], Way::clean(5 * MS).losing(0.05), 40);
    let constraints = Constraints { residual_loss: 1e-3, rate_bps: f64::INFINITY, detection_ns: 3e6 };
    sent(&mut network, 1000);
    assert!(network.sender.adapt(&constraints).unwrap().is_ok());
    let plan = SenderPlan { pace_ns: MS * 99 / 100, ..plan(4, &[1]) };
    let mut paced = Network::new(plan, RECEIVER, (Way::clean(5 * MS).losing(0.05), Way::clean(5 * MS)), 40);
    sent(&mut paced, 1000);
    let refused = paced.sender.adapt(&constraints).unwrap().unwrap_err().to_string();
    assert!(refused.contains("Rate:"), "{refused}");
}

#[test]
fn one_packet_makes_no_flood_and_a_block_is_hopeless_once() {
    for (payload, most) in [(&[0; 9][..], 1), (&[0; 1000], 4)] {
        let (mut receiver, mut bytes) = (Receiver::new(RECEIVER), Vec::new());
        let (kind, session, sequence, base) = (PacketKind::Source, 7, 0, 1000);
        let (index, k, n, filled, left_us, sent_ns, rtt_us) = (0, 4, 12, 4, 60_000_000, 0, 1);
        let header = Header { kind, index, k, n, filled, session, left_us, base, sequence, sent_ns, rtt_us };
        header.write(payload, &mut bytes);
        assert!(receiver.handle(&bytes, 0).is_some());
        let (mut now, mut sent, came) = (0, Vec::new(), bytes.len());
        while let Some(wake_ns) = receiver.wake_at() {
            assert!(wake_ns > now || sent.is_empty(), "it wants to wake at {wake_ns}, it is {now}");
            now = wake_ns.max(now);
            receiver.on_time(now);
            while receiver.feedback(now, &mut bytes).is_some() {
                sent.push(bytes.len());
            }
        }
        assert_eq!(sent.len(), most, "{sent:?}");
        assert!(sent.iter().sum::<usize>() <= 3 * came, "{sent:?} for {came} bytes");
    }
    let mut hopeless =
        Network::new(plan(20, &[0, 4]), RECEIVER, (Way::clean(45 * MS).losing(0.1), Way::clean(45 * MS)), 5);
    self::sent(&mut hopeless, 2000);
    let counts = hopeless.receiver.counts();
    assert!(counts.hopeless <= 100 && counts.hopeless + 12 >= counts.given_up, "of 100 blocks: {counts:?}");
}

#[test]
fn rounds_that_were_asked_for_before_anything_came_of_a_block_count() {
    let (mut receiver, asked) = asked_after(&[(0, 2), (4, 2)]);
    assert_eq!(asked, [2]);
    let (kind, session, sequence) = (PacketKind::Parity, 7, 2);
    let (index, k, n, filled, left_us, base, sent_ns, rtt_us) = (2, 2, 6, 2, 50_000, 2, 0, 1000);
    let header = Header { kind, index, k, n, filled, session, left_us, base, sequence, sent_ns, rtt_us };
    let mut bytes = Vec::new();
    header.write(b"some parity", &mut bytes);
    assert!(receiver.handle(&bytes, 5 * MS).is_some());
    assert!(receiver.feedback(8 * MS, &mut bytes).is_some());
    let Ok(Packet::Feedback(_, feedback)) = Packet::parse(&bytes) else { panic!("it is no feedback") };
    let told: Vec<_> = feedback.blocks.iter().map(|block| (block.base, block.round, block.needs)).collect();
    assert_eq!(told, [(2, 2, 1)]);
}

#[test]
fn ids_that_leap_make_a_receiver_ask_for_no_more_than_it_has_room_for() {
    let (mut receiver, asked) = asked_after(&[(0, 1), (1000, 1), (1040, 1)]);
    assert!((80..=3 * 4 * 8).contains(&asked.len()), "{}: four feedbacks a packet, eight blocks each", asked.len());
    receiver.on_time(60 * MS);
    assert_eq!((receiver.counts().given_up, receiver.held()), (128 + 39, (0, 0)));
}

#[test]
fn a_hopeless_block_is_not_asked_for() {
    // A round trip of 90 ms, a deadline of 100 ms, and blocks of 20 ms: no answer can be in time.
    let forth = Way::clean(45 * MS).losing(0.1);
    let mut network = Network::new(plan(20, &[0, 4]), RECEIVER, (forth, Way::clean(45 * MS)), 5);
    sent(&mut network, 2000);
    let receiver = network.receiver.counts();
    assert!(receiver.hopeless > 30, "{receiver:?}");
    assert_eq!(network.sender.rtt_ns_min(), Some(90 * MS));
    let asked_in_time = network.sender.counts().asked;
    assert!(asked_in_time < 12, "only before the round trip was known: {asked_in_time}");
}

#[test]
fn whatever_the_channel_does_each_payload_comes_once_at_most_and_as_it_was() {
    for seed in 0..40 {
        let loss = LossModel { good_to_bad: 0.02, bad_to_good: 0.25, lost_in_good: 0.001, lost_in_bad: 0.6 };
        let forth = Way { loss, delay_ns: 3 * MS, jitter_ns: 6 * MS, doubled_percent: 5 };
        let back = Way { loss, delay_ns: 3 * MS, jitter_ns: 6 * MS, doubled_percent: 5 };
        let k = 1 + (seed % 9) as u8;
        let mut network = Network::new(plan(k, &[1, 1, 2]), RECEIVER, (forth, back), seed);
        sent(&mut network, 600);
        let (sender, receiver) = (network.sender.counts(), network.receiver.counts());
        assert_eq!(receiver.sources + receiver.recovered, network.trips.len() as u64);
        assert!(receiver.recovered > 0 && receiver.replayed > 0, "{receiver:?}");
        assert_eq!((sender.contradicting, receiver.contradicting, receiver.undecodable), (0, 0, 0));
        assert_eq!((sender.malformed, receiver.malformed, sender.sources), (0, 0, 600));
        assert_eq!((network.sender.held(), network.receiver.held()), ((0, 0), (0, 0)), "all is cleaned");
    }
}

#[test]
fn any_losses_up_to_n_less_k_of_a_block_in_any_order_are_recovered() {
    for (k, schedule) in [(3_u8, [2_u8]), (4, [3]), (5, [2])] {
        let n = k + schedule[0];
        for pattern in (0_u32..1 << n).filter(|pattern| pattern.count_ones() <= schedule[0].into()) {
            for backwards in [false, true] {
                assert_eq!(came(k, &schedule, pattern, backwards), k.into(), "({k}, {n}), lost {pattern:b}");
            }
        }
    }
}

/// Payloads of one block that came, of whose packets those in `lost` did not.
fn came(k: u8, schedule: &[u8], lost: u32, backwards: bool) -> usize {
    let mut network = network(k, schedule, Way::clean(0), 6);
    let (mut bytes, mut packets) = (Vec::new(), Vec::new());
    for _ in 0..k {
        network.sender.submit(b"a payload", 0).unwrap();
    }
    network.sender.encode();
    while network.sender.transmit(0, &mut bytes).is_some() {
        packets.push(bytes.clone());
    }
    let mut left: Vec<&Vec<u8>> =
        packets.iter().enumerate().filter(|(index, _)| lost >> index & 1 == 0).map(|(_, packet)| packet).collect();
    if backwards {
        left.reverse();
    }
    for packet in left {
        network.receiver.handle(packet, 0);
        network.receiver.decode();
    }
    std::iter::from_fn(|| network.receiver.next_delivery(0)).filter(|delivery| delivery.payload == b"a payload").count()
}

#[test]
fn a_stream_that_ends_within_a_block_has_its_parity_all_the_same() {
    let mut network = network(8, &[2], Way::clean(5 * MS), 8);
    for _ in 0..3 {
        network.submit();
    }
    network.run_until(19 * MS);
    assert_eq!(network.parity, 0);
    network.run_until(21 * MS);
    assert_eq!((network.parity, network.sender.counts().cut_short), (2, 1));
    // Its other ids are left out: the next block begins behind them.
    assert_eq!(network.submit(), 8);
}

#[test]
fn packets_leave_at_the_pace_that_was_asked_for() {
    let mut sender = plan(4, &[1]);
    sender.pace_ns = 3 * MS;
    let mut network = Network::new(sender, RECEIVER, (Way::clean(MS), Way::clean(MS)), 9);
    for _ in 0..8 {
        network.submit();
    }
    network.run_until(90 * MS);
    let mut came: Vec<i64> = network.trips.values().map(|trip| trip.delivered_ns).collect();
    came.sort_unstable();
    assert_eq!(came, (0..8).map(|at| at * 3 * MS + MS).collect::<Vec<_>>());
}

#[test]
fn payloads_that_expired_before_they_could_leave_are_counted_and_never_sent() {
    let mut sender = plan(4, &[0]);
    (sender.pace_ns, sender.deadline_ns) = (10 * MS, 35 * MS);
    let mut network = Network::new(sender, RECEIVER, (Way::clean(MS), Way::clean(MS)), 9);
    for _ in 0..8 {
        network.submit();
    }
    network.run_until(200 * MS);
    let counts = network.sender.counts();
    assert_eq!((network.trips.len(), counts.sources, counts.expired), (4, 4, 4));
}

#[test]
fn a_payload_that_expired_is_left_out_though_its_block_goes_on() {
    let mut sender = plan(4, &[0]);
    (sender.pace_ns, sender.deadline_ns) = (20 * MS, 35 * MS);
    let mut network = Network::new(sender, RECEIVER, (Way::clean(MS), Way::clean(MS)), 9);
    (0..3).for_each(|id| assert_eq!(network.submit(), id));
    network.run_until(15 * MS);
    network.submit();
    network.run_until(200 * MS);
    let mut came: Vec<u64> = network.trips.keys().copied().collect();
    came.sort_unstable();
    assert_eq!((came, network.sender.counts().expired), (vec![0, 1, 3], 1));
}

#[test]
fn a_sender_that_adapts_keeps_its_constraints_where_it_says_that_it_can() {
    const PAYLOADS: i64 = 8000;
    let bursts = LossModel { good_to_bad: 0.01, bad_to_good: 0.5, lost_in_good: 0.0, lost_in_bad: 1.0 };
    for (loss, way_ms, deadline_ms, residual_loss) in [
        (LossModel::independent(0.01).unwrap(), 5, 100, 0.001),
        (LossModel::independent(0.05).unwrap(), 10, 100, 0.01),
        (LossModel::independent(0.05).unwrap(), 45, 100, 0.001),
        // Blocks of one payload each, of which nothing comes one time in seven.
        (LossModel::independent(1.0 / 7.0).unwrap(), 5, 50, 0.001),
        (bursts, 5, 100, 0.002),
        (bursts, 40, 100, 0.01),
    ] {
        let forth = Way { loss, ..Way::clean(way_ms * MS) };
        let constraints = Constraints { residual_loss, rate_bps: f64::INFINITY, detection_ns: 3e6 };
        let plan = SenderPlan { deadline_ns: deadline_ms * MS, ..plan(4, &[1]) };
        let mut network = Network::new(plan, RECEIVER, (forth, Way::clean(way_ms * MS)), 40);
        let mut known_since = None;
        for at in 0..PAYLOADS {
            network.run_until(at * MS);
            network.submit();
            if at % 1000 == 999 {
                let choice = network.sender.adapt(&constraints).expect("feedback came").expect("it is feasible");
                assert!(choice.residual_loss <= residual_loss && choice.redundancy < 1.0, "{choice:?}");
                known_since = known_since.or(Some(network.now));
            }
        }
        network.run_until((PAYLOADS + 400) * MS);
        let (mut payloads, mut missing) = (0, 0);
        for (id, (submitted_ns, _)) in network.submitted.iter().filter(|(_, (at, _))| Some(*at) > known_since) {
            let in_time =
                network.trips.get(id).is_some_and(|trip| trip.delivered_ns <= submitted_ns + deadline_ms * MS);
            (payloads, missing) = (payloads + 1, missing + i32::from(!in_time));
        }
        let share = f64::from(missing) / f64::from(payloads);
        assert!(share <= residual_loss, "{loss:?}, {way_ms} ms: {share} of {payloads}, {:?}", network.sender.counts());
        assert!(network.forth.lost > 50, "{}", network.forth.lost);
    }
}

#[test]
fn a_constraint_that_no_coding_keeps_is_named_and_the_coding_stays() {
    let mut network = network(4, &[1], Way::clean(5 * MS).losing(0.05), 40);
    sent(&mut network, 1000);
    let constraints = Constraints { residual_loss: 1e-4, rate_bps: 1e5, detection_ns: 3e6 };
    let refused = network.sender.adapt(&constraints).expect("enough is known").unwrap_err().to_string();
    assert!(refused.contains("Rate:") || refused.contains("Residual loss:"), "{refused}");
    let parity = network.sender.counts().parity;
    for _ in 0..4 {
        network.submit();
    }
    assert_eq!(network.sender.counts().parity, parity + 1);
}

#[test]
fn a_sender_learns_how_many_payloads_of_blocks_that_are_over_are_missing() {
    for (k, schedule) in [(1, &[0][..]), (4, &[1]), (4, &[0, 2])] {
        let mut network = network(k, schedule, Way::clean(5 * MS).losing(0.2), 4);
        sent(&mut network, 4000);
        let told = network.sender.counts();
        // Blocks of the last deadline are over after the last feedback.
        let (over, missing) = (told.settled as f64, told.missing as f64);
        assert!((3700..=4000).contains(&told.settled), "{told:?}");
        let truly = (4000 - network.trips.len()) as f64;
        assert!(truly > 40.0 && missing > 0.9 * truly * over / 4000.0 && missing <= truly, "{truly}: {told:?}");
    }
}

#[test]
fn a_receiver_that_forgot_its_sender_is_believed_at_once() {
    for is_started_anew in [false, true] {
        let receiver = ReceiverPlan { vanished_ns: 1000 * MS, ..RECEIVER };
        let ways = (Way::clean(5 * MS).losing(0.05), Way::clean(5 * MS));
        let mut network = Network::new(plan(4, &[0, 2, 2]), receiver.clone(), ways, 4);
        sent(&mut network, 4000);
        let before = network.sender.counts();
        network.run_until(if is_started_anew { network.now } else { 6000 * MS });
        if is_started_anew {
            network.receiver = Receiver::new(receiver);
        }
        let (begun, came) = (network.now, network.trips.len());
        for at in 0..4000 {
            network.run_until(begun + at * MS);
            network.submit();
        }
        network.run_until(begun + 4400 * MS);
        let counts = network.sender.counts();
        assert!(network.trips.len() - came > 3980, "{}: {counts:?}", network.trips.len() - came);
        assert!((counts.stale, counts.restarts) == (0, 1) && counts.asked > before.asked + 100, "{counts:?}");
        assert!(counts.settled > before.settled + 3700 && counts.missing < 60, "{counts:?}");
        let constraints = Constraints { residual_loss: 1e-3, rate_bps: f64::INFINITY, detection_ns: 3e6 };
        let choice = network.sender.adapt(&constraints).unwrap().unwrap();
        assert!(choice.redundancy < 0.5, "what came before the restart is no loss: {choice:?}");
    }
}

#[test]
fn the_shortest_round_trip_is_one_of_late() {
    let mut network = network(4, &[1], Way::clean(2 * MS), 1);
    sent(&mut network, 1000);
    assert_eq!(network.sender.rtt_ns_min(), Some(7 * MS));
    network.forth.way.delay_ns = 20 * MS;
    for at in 0..1000 {
        network.run_until((1500 + at) * MS);
        network.submit();
    }
    assert_eq!(network.sender.rtt_ns_min(), Some(25 * MS));
}

#[test]
fn the_longest_deadline_is_one_that_packets_can_say() {
    let with = |deadline_ns| SenderPlan { deadline_ns, ..plan(4, &[1]) };
    let mut network = Network::new(with(60_000 * MS), RECEIVER, (Way::clean(MS), Way::clean(MS)), 9);
    network.submit();
    network.run_until(2 * MS);
    assert_eq!((network.trips.len(), network.receiver.counts().malformed), (1, 0));
    let wrong = with(60_000 * MS + 1);
    for (plan, says) in [
        (wrong, "a deadline above 0 of 60 s at most, found 60000000001 ns. Packets say no longer time than that"),
        (SenderPlan { flush_ns: 0, ..with(MS) }, "a time to flush above 0, found 0 ns. It is how long a block waits"),
        (SenderPlan { pace_ns: -1, ..with(MS) }, "a pace of 0 or more, found -1 ns. Without a pace, 0,"),
    ] {
        let refused = Sender::new(plan).err().unwrap().to_string();
        assert!(refused.contains(says), "{refused}");
    }
}

/// 4000 payloads, one a millisecond, over ways of so many milliseconds, of which the first loses 5 %: parity that was
/// sent because it was asked for, and payloads that were recovered by their deadline and after it.
fn over(ways_ms: [i64; 2], deadline_ms: i64, way_ms: Option<i64>) -> (u64, usize, usize) {
    let plan = SenderPlan { deadline_ns: deadline_ms * MS, ..plan(4, &[0, 2, 2]) };
    let [forth, back] = ways_ms.map(|way_ms| Way::clean(way_ms * MS));
    let mut network = Network::new(plan, RECEIVER, (forth.losing(0.05), back), 40);
    network.sender.set_way(way_ms.map(|way_ms| way_ms * MS));
    network.receiver.set_way(way_ms.map(|way_ms| way_ms * MS));
    sent(&mut network, 4000);
    assert_eq!(network.sender.rtt_ns_min(), Some(25 * MS), "either way the round trip is the same");
    let recovered = network.trips.values().filter(|trip| trip.recovered);
    let (late, in_time): (Vec<network::Trip>, Vec<network::Trip>) =
        recovered.partition(|trip| trip.delivered_ns - trip.submitted_ns > deadline_ms * MS);
    (network.sender.counts().parity, in_time.len(), late.len())
}

#[test]
fn deadlines_by_the_way_there_send_nothing_in_vain_and_lose_nothing_that_half_a_round_trip_gives_up() {
    // 20 ms there, 5 back: what is asked for comes 28 ms after it was lost, of a deadline of 45 ms.
    let (half, way) = (over([20, 5], 45, None), over([20, 5], 45, Some(20)));
    assert!(half.0 > 200 && half.1 <= 4 && half.2 > 100, "sent in vain by half a round trip: {half:?}");
    assert_eq!(way, (0, 0, 0), "nothing can be in time, and nothing is sent");
    // 5 ms there, 20 back: it comes 33 ms after the last payload of its block, of a deadline of 37 ms.
    let (half, way) = (over([5, 20], 37, None), over([5, 20], 37, Some(5)));
    assert!(half.1 <= 10, "given up by half a round trip: {half:?}");
    assert!(way.1 > 120 && way.2 == 0, "recovered in time: {way:?}");
}

#[test]
fn what_is_handed_over_late_is_counted_and_nothing_is_called_what_it_is_not() {
    const DEADLINE_NS: i64 = 45 * MS;
    // Known of the quickest packet: nothing but the round trip, or that it takes 21 ms at most.
    for (way_ms, least) in [(None, [700, 1000]), (Some(21), [700, 1400])] {
        let plan = SenderPlan { deadline_ns: DEADLINE_NS, ..plan(4, &[1, 2, 2]) };
        let forth = Way { jitter_ns: 60 * MS, ..Way::clean(20 * MS).losing(0.05) };
        let mut network = Network::new(plan, RECEIVER, (forth, Way::clean(5 * MS)), 40);
        network.receiver.set_way(way_ms.map(|way_ms| way_ms * MS));
        sent(&mut network, 4000);
        let told = |what| network.trips.values().filter(move |trip| trip.punctuality == what);
        let is_late = |trip: &network::Trip| trip.delivered_ns - trip.submitted_ns > DEADLINE_NS;
        assert!(told(Punctuality::Late).all(is_late), "what is called late is");
        assert!(!told(Punctuality::InTime).any(is_late), "what is called in time is");
        let [late, in_time, undecided] =
            [Punctuality::Late, Punctuality::InTime, Punctuality::Undecided].map(|what| told(what).count() as u64);
        let counts = network.receiver.counts();
        assert_eq!((counts.late, counts.undecided), (late, undecided));
        assert!(late > least[0] && in_time > least[1], "{way_ms:?}: {late} {in_time} {undecided}");
        let recovered = told(Punctuality::Late).filter(|trip| trip.recovered).count();
        assert!(recovered > 30, "{recovered}");
        let truly = network.trips.values().filter(|trip| is_late(trip)).count();
        println!("{way_ms:?}: {truly} are late, {late} called so, {in_time} in time, {undecided} undecided");
    }
}

#[test]
fn a_block_waits_for_no_payload_longer_than_its_deadline() {
    let mut sender = Sender::new(SenderPlan { deadline_ns: 35 * MS, flush_ns: 100 * MS, ..plan(4, &[1]) }).unwrap();
    sender.submit(b"a payload", 0).unwrap();
    assert_eq!(sender.wake_at(), Some(i64::MIN), "it is to be sent");
    assert!(sender.transmit(0, &mut Vec::new()).is_some());
    assert_eq!(sender.wake_at(), Some(35 * MS));
    sender.on_time(35 * MS - 1);
    assert_eq!(sender.held().1, 1);
    sender.on_time(35 * MS);
    assert_eq!((sender.held(), sender.next_id()), ((0, 0), 4));
}

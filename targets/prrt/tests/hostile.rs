//! What nobody should send, and peers that vanish: refused, counted, bounded.

mod network;

use network::{MS, Network, Way};
use tickscope_load::SplitMix;
use tickscope_prrt::{
    Coding, Feedback, HEADER_BYTES, Header, MOST_BLOCKS, MOST_DATAGRAM_BYTES, MOST_HELD_BYTES, MOST_ID,
    MOST_PAYLOAD_BYTES, Packet, PacketKind, Receiver, ReceiverPlan, Sender, SenderPlan,
};

const RECEIVER: ReceiverPlan = ReceiverPlan { feedback_ns: 5 * MS, reordered_ns: 2 * MS, vanished_ns: 1000 * MS };

fn plan() -> SenderPlan {
    let coding = Coding::new(4, &[1, 1]).unwrap();
    SenderPlan { session: 7, coding, deadline_ns: 100 * MS, flush_ns: 20 * MS, pace_ns: 0 }
}

/// A packet of block 0 of four.
fn header(index: u8, sequence: u64) -> Header {
    let kind = if index < 4 { PacketKind::Source } else { PacketKind::Parity };
    let filled = if index < 4 { 0 } else { 4 };
    let (session, left_us, base) = (7, 50_000, 0);
    Header { kind, index, k: 4, n: 6, filled, session, left_us, base, sequence, sent_ns: 0, rtt_us: 0 }
}

fn bytes_of(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.write(payload, &mut bytes);
    bytes
}

/// Counts of a receiver that took each datagram in turn.
fn counted(datagrams: &[Vec<u8>]) -> tickscope_prrt::ReceiverCounts {
    let mut receiver = Receiver::new(RECEIVER);
    for datagram in datagrams {
        receiver.handle(datagram, 0);
    }
    receiver.counts()
}

#[test]
fn random_datagrams_never_panic_and_memory_stays_bounded() {
    let rounds = if std::env::var_os("TICKSCOPE_TESTS").is_some() { 10_000_000 } else { 200_000 };
    let (mut random, mut now) = (SplitMix::new(40), 0);
    let mut network = Network::new(plan(), RECEIVER, (Way::clean(0), Way::clean(0)), 1);
    let mut bytes = Vec::new();
    for round in 0..rounds {
        datagram(&mut random, &mut bytes);
        now += random.below(1000) as i64;
        network.receiver.handle(&bytes, now);
        network.sender.handle(&bytes, now);
        if round % 5 == 0 {
            network.receiver.decode();
            network.receiver.feedback(now, &mut bytes);
            let _ = network.sender.submit(&bytes, now);
            network.sender.encode();
            network.sender.transmit(now, &mut bytes);
            network.sender.on_time(now);
        }
        while network.receiver.next_delivery(now).is_some() {}
        for (held, blocks) in [network.receiver.held(), network.sender.held()] {
            assert!(held <= MOST_HELD_BYTES + 255 * MOST_DATAGRAM_BYTES && blocks <= MOST_BLOCKS, "{held}, {blocks}");
        }
    }
    let counts = network.receiver.counts();
    let reached = [counts.malformed, counts.strangers, counts.contradicting, counts.sources, counts.parity];
    assert!(reached.iter().all(|count| *count > 0), "{counts:?}");
}

/// Bytes at random, or a packet with some of its numbers at random: what gets further in.
fn datagram(random: &mut SplitMix, bytes: &mut Vec<u8>) {
    bytes.clear();
    if random.below(4) == 0 {
        let length = random.below(MOST_DATAGRAM_BYTES as u64 + 100);
        return bytes.extend((0..length).map(|_| random.bits() as u8));
    }
    let mut made = header(random.below(6) as u8, random.below(5000));
    made.base = 4 * random.below(3000) + random.below(40) / 39;
    made.left_us = random.below(80_000) as u32;
    made.session = 7 + (random.below(50) / 49) as u32;
    if random.below(8) == 0 {
        (made.k, made.n, made.index, made.filled) =
            (random.bits() as u8, random.bits() as u8, random.bits() as u8, random.bits() as u8);
    }
    let payload: Vec<u8> = (0..2 + random.below(30)).map(|_| random.bits() as u8).collect();
    made.write(&payload, bytes);
    if random.below(8) == 0 {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = random.bits() as u8;
    }
}

#[test]
fn every_malformed_packet_is_refused_by_its_reason() {
    let good = bytes_of(header(0, 0), b"abc");
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let reason = |bytes: &[u8]| Packet::parse(bytes).expect_err("it is malformed");
    assert_eq!(reason(&good[..HEADER_BYTES - 1]), "shorter than a header");
    assert_eq!(reason(&vec![0; MOST_DATAGRAM_BYTES + 1]), "longer than a datagram may be");
    assert_eq!(reason(&with(0, b'Q')), "another protocol or version");
    assert_eq!(reason(&with(1, 0x10)), "another protocol or version");
    assert_eq!(reason(&with(1, 0x23)), "an unknown kind");
    assert_eq!(reason(&good[..good.len() - 1]), "another length than it says");
    let contradicting = [
        with(2, 4), // a source packet beyond k
        with(3, 0), // no source packet
        with(4, 3), // n below k
        with(5, 5), // more payloads than k
        bytes_of(Header { index: 6, ..header(5, 0) }, b"abc"),
        bytes_of(Header { filled: 0, ..header(5, 0) }, b"abc"),
        bytes_of(Header { index: 2, filled: 2, ..header(0, 0) }, b"abc"),
        bytes_of(header(5, 0), b"a"), // parity without a length
        bytes_of(Header { base: MOST_ID + 1, ..header(0, 0) }, b"abc"),
        bytes_of(header(0, 0), &vec![0; MOST_PAYLOAD_BYTES + 1]),
    ];
    for bytes in &contradicting {
        assert_eq!(reason(bytes), "a header that contradicts itself", "{:?}", &bytes[..8]);
    }
    assert_eq!(counted(&contradicting).malformed, contradicting.len() as u64);
    let far = bytes_of(Header { left_us: 60_000_001, ..header(0, 0) }, b"abc");
    assert_eq!((counted(&[far]).malformed, counted(&[good]).malformed), (1, 0));
}

#[test]
fn every_feedback_reads_as_it_was_written_and_a_cut_one_not_at_all() {
    let mut network = Network::new(plan(), RECEIVER, (Way::clean(0).losing(0.3), Way::clean(MS)), 2);
    let (mut bytes, mut read) = (Vec::new(), 0);
    for at in 0..200 {
        network.run_until(at * MS);
        network.submit();
        if network.receiver.feedback(network.now + 10 * MS, &mut bytes).is_some() {
            let Ok(Packet::Feedback(7, feedback)) = Packet::parse(&bytes) else { panic!("it is a feedback") };
            let mut again = Vec::new();
            feedback.write(7, &mut again);
            assert_eq!(again, bytes);
            for cut in HEADER_BYTES..bytes.len() {
                assert!(Packet::parse(&bytes[..cut]).is_err(), "{cut}");
            }
            read += feedback.blocks.len();
        }
    }
    assert!(read > 0);
}

#[test]
fn replays_strangers_late_and_contradicting_packets_are_counted_apart() {
    let first = bytes_of(header(0, 0), b"abc");
    assert_eq!(counted(&[first.clone(), first.clone()]).replayed, 1);
    let stranger = bytes_of(Header { session: 8, ..header(1, 1) }, b"abc");
    assert_eq!(counted(&[first.clone(), stranger]).strangers, 1);
    let far_ahead = bytes_of(Header { base: 8, ..header(0, 5000) }, b"abc");
    assert_eq!(counted(&[far_ahead, first.clone()]).stale, 1);
    let again = bytes_of(header(0, 1), b"abc");
    assert_eq!(counted(&[first.clone(), again]).superseded, 1);
    let contradicting = [
        Header { k: 3, ..header(1, 1) },                // another block of that id
        Header { base: 2, ..header(0, 1) },             // one that lies across it
        Header { index: 5, filled: 1, ..header(5, 1) }, // fewer payloads than came
    ];
    let second = bytes_of(header(2, 2), b"abc");
    for other in contradicting {
        let counts = counted(&[first.clone(), second.clone(), bytes_of(other, b"abc")]);
        assert_eq!((counts.contradicting, counts.sources), (1, 2), "{other:?}");
    }
    let longer = [bytes_of(header(4, 1), b"abc"), bytes_of(header(5, 2), b"abcd")];
    assert_eq!(counted(&longer).contradicting, 1, "parity of one block has one length");
}

#[test]
fn a_packet_far_ahead_has_nothing_refused_that_follows() {
    let next = |index: u8| bytes_of(header(index, index.into()), b"abc");
    // A packet, how often it is refused, and of all which are taken.
    for (sequence, base, leaps, sources) in [
        (1024, 0, 0, 3),
        (1025, 0, 1, 3), // once more it is 1023 ahead
        (1 << 60, 0, 2, 2),
        (1, 1024, 0, 3),
        (1, 1028, 2, 2),
        (1, MOST_ID, 2, 2),
        (1 << 60, MOST_ID, 2, 2),
    ] {
        let far = bytes_of(Header { base, sequence, ..header(3, 0) }, b"abc");
        let counts = counted(&[next(0), far.clone(), next(2), far]);
        // It may come again and again, as long as others come between.
        let told = (counts.leaps, counts.sources, counts.stale, counts.too_late);
        assert_eq!(told, (leaps, sources, 0, 0), "{sequence}, {base}: {counts:?}");
    }
    // Where blocks are large, as many of them.
    let wide = |base, sequence| bytes_of(Header { base, k: 16, n: 18, ..header(0, sequence) }, b"abc");
    assert_eq!(counted(&[wide(0, 0), wide(2048, 1)]).leaps, 0);
    assert_eq!(counted(&[wide(0, 0), wide(2064, 1)]).leaps, 1);
}

#[test]
fn after_a_long_silence_the_second_packet_is_taken() {
    let at = |sequence: u64| bytes_of(Header { base: 4 * sequence, ..header(0, sequence) }, b"abc");
    let counts = |numbers: &[u64]| {
        let counts = counted(&numbers.iter().map(|number| at(*number)).collect::<Vec<_>>());
        (counts.leaps, counts.sources)
    };
    assert_eq!(counts(&[0, 9000, 9001, 9002, 9000]), (1, 4));
    assert_eq!(counts(&[0, 9001, 9000, 9002]), (2, 2), "the first is the one that follows none");
    assert_eq!(counts(&[0, 9000, 1, 9001]), (2, 2), "they are not in a row");
    assert_eq!(counts(&[0, 9000, 11_000]), (2, 1), "the second is as far ahead of the first");
    assert_eq!(counts(&[0, MOST_ID / 4 - 1, MOST_ID / 4]), (1, 2));
}

#[test]
fn feedback_has_three_times_the_bytes_at_most_that_came_from_where_it_goes() {
    let mut receiver = Receiver::new(RECEIVER);
    let (mut answer, mut answered) = (Vec::new(), 0);
    let lacking =
        |base, sequence, payload: &[u8]| bytes_of(Header { base, n: 12, filled: 4, ..header(0, sequence) }, payload);
    for block in 0..20 {
        let bytes = lacking(4 * block, block, &[0; 1000]);
        assert!(receiver.handle(&bytes, 0).is_some());
    }
    let small = lacking(80, 20, b"abc");
    assert!(receiver.handle(&small, 2 * MS).is_some());
    receiver.moved(small.len());
    while receiver.feedback(5 * MS, &mut answer).is_some() {
        answered += answer.len();
    }
    assert_eq!(answered, 140, "three times 47 bytes: no room for one of 21 blocks that lack packets");
    assert!(receiver.handle(&lacking(84, 21, b"abc"), 5 * MS).is_some());
    while receiver.feedback(10 * MS, &mut answer).is_some() {
        answered += answer.len();
    }
    assert_eq!(answered, 2 * 140, "what was sent is no longer there to be sent");
    assert!(receiver.handle(&lacking(88, 22, &[0; 1000]), 10 * MS).is_some());
    answered = 0;
    while receiver.feedback(15 * MS, &mut answer).is_some() {
        answered += answer.len();
    }
    assert!((1000..=3 * 1044 + 2).contains(&answered), "{answered}");
}

#[test]
fn forged_parity_hands_over_nothing_that_was_not_submitted_in_length() {
    let parity = [4, 5].map(|index| bytes_of(header(index, index.into()), &[0xff; 20]));
    let sources = [0, 1].map(|index| bytes_of(header(index, index.into()), b"abc"));
    let mut receiver = Receiver::new(RECEIVER);
    for datagram in sources.iter().chain(&parity) {
        receiver.handle(datagram, 0);
    }
    assert_eq!((receiver.decode(), receiver.counts().undecodable), (Vec::new(), 1));
    assert_eq!(receiver.held().0, 0, "a block that cannot be decoded keeps no bytes");
}

#[test]
fn feedback_of_what_cannot_be_is_refused_and_an_old_one_changes_nothing() {
    let mut sender = Sender::new(plan()).unwrap();
    let mut bytes = Vec::new();
    sender.submit(b"abc", 0).unwrap();
    sender.transmit(0, &mut bytes);
    let mut tell = |feedback: Feedback, session: u32, now: i64| {
        feedback.write(session, &mut bytes);
        sender.handle(&bytes, now)
    };
    let good = Feedback { sequence: 3, echo: 0, echo_sent_ns: 0, held_ns: 2, ..Feedback::default() };
    assert_eq!(tell(good.clone(), 8, 10), None, "a stranger");
    assert_eq!(tell(Feedback { echo: 1, ..good.clone() }, 7, 10), None, "an echo of what was not sent");
    assert_eq!(tell(Feedback { held_ns: 11, ..good.clone() }, 7, 10), None, "held for longer than it took");
    assert_eq!(tell(Feedback { held_ns: u64::MAX, ..good.clone() }, 7, 10), None);
    assert_eq!(tell(good.clone(), 7, 10), Some(3));
    assert_eq!(tell(good.clone(), 7, 5), None, "the same again");
    assert_eq!(tell(Feedback { sequence: 2, ..good }, 7, 5), None, "an older one");
    let counts = sender.counts();
    assert_eq!((counts.strangers, counts.contradicting, counts.stale, counts.feedback), (1, 3, 2, 1));
    assert_eq!(sender.rtt_ns_min(), Some(8));
}

#[test]
fn a_sender_that_vanishes_is_forgotten_with_all_its_memory_and_another_may_come() {
    let mut receiver = Receiver::new(RECEIVER);
    receiver.handle(&bytes_of(header(0, 0), b"abc"), 0);
    let other = bytes_of(Header { session: 8, ..header(0, 0) }, b"abc");
    assert_eq!(receiver.handle(&other, 999 * MS), None);
    assert!(receiver.handle(&other, 1000 * MS).is_some());
    let counts = receiver.counts();
    assert_eq!((counts.strangers, counts.vanished, counts.sources, counts.given_up), (1, 1, 2, 1));
    receiver.on_time(2000 * MS);
    assert_eq!((receiver.held(), receiver.wake_at()), ((0, 0), None));
}

#[test]
fn a_receiver_that_vanishes_costs_a_sender_no_more_memory_than_its_deadline_holds() {
    let mut network = Network::new(plan(), RECEIVER, (Way::clean(0).losing(1.0), Way::clean(0)), 1);
    for at in 0..2000 {
        network.run_until(at * MS);
        network.submit();
        assert!(network.sender.held().1 <= 27, "100 ms of blocks of 4 ms, and two that are not over");
    }
}

#[test]
fn more_than_memory_holds_is_refused_with_what_helps() {
    let mut sender = Sender::new(SenderPlan { coding: Coding::new(1, &[0]).unwrap(), ..plan() }).unwrap();
    for _ in 0..MOST_BLOCKS {
        sender.submit(b"abc", 0).unwrap();
    }
    let error = sender.submit(b"abc", 0).unwrap_err().to_string();
    assert!(error.contains("at most 1024 blocks") && error.contains("the deadline shorter"), "{error}");
    assert!(sender.submit(b"abc", 100 * MS).is_ok(), "once they expired there is room");
    let error = sender.submit(&[0; MOST_PAYLOAD_BYTES + 1], 0).unwrap_err().to_string();
    assert!(error.contains("a payload of at most 1426 bytes, found 1427"), "{error}");
}

#[test]
fn blocks_beyond_what_a_receiver_holds_cost_the_oldest() {
    let mut receiver = Receiver::new(RECEIVER);
    for block in 0..MOST_BLOCKS as u64 + 3 {
        receiver.handle(&bytes_of(Header { base: 4 * block, ..header(0, block) }, b"abc"), 0);
    }
    assert_eq!((receiver.counts().evicted, receiver.held().1), (3, MOST_BLOCKS));
    assert_eq!(receiver.handle(&bytes_of(header(1, 2000), b"abc"), 0), None);
    assert_eq!(receiver.counts().too_late, 1);
}

#[test]
fn a_block_that_was_forgotten_ends_where_the_next_one_begins() {
    let mut receiver = Receiver::new(RECEIVER);
    receiver.handle(&bytes_of(header(0, 0), b"abc"), 0);
    receiver.on_time(200 * MS);
    assert_eq!(receiver.counts().given_up, 1);
    let of_one = |base, sequence| bytes_of(Header { base, k: 1, n: 1, ..header(0, sequence) }, b"abc");
    assert_eq!(receiver.handle(&of_one(3, 1), 200 * MS), None, "an id of the block that was forgotten");
    assert!(receiver.handle(&of_one(4, 2), 200 * MS).is_some());
    assert_eq!(receiver.counts().too_late, 1);
}

#[test]
fn more_is_asked_for_as_long_as_enough_is_unsent() {
    for (sources, asked) in [(&[0, 1][..], Some(1)), (&[0], None)] {
        let mut receiver = Receiver::new(RECEIVER);
        // Parity 4 came, so 5 alone is unsent, of a block that lacks one, or two.
        for index in sources.iter().chain(&[4]) {
            let bytes = bytes_of(Header { rtt_us: 1, ..header(*index, u64::from(*index)) }, &[0; 200]);
            assert!(receiver.handle(&bytes, 0).is_some());
        }
        let mut bytes = Vec::new();
        assert!(receiver.feedback(2 * MS, &mut bytes).is_some());
        let Ok(Packet::Feedback(_, feedback)) = Packet::parse(&bytes) else { panic!("it is no feedback") };
        assert_eq!(feedback.blocks.first().map(|block| block.needs), asked);
        assert_eq!(receiver.counts().hopeless, u64::from(asked.is_none()));
    }
}

#[test]
fn a_packet_that_was_overtaken_is_not_echoed() {
    let mut receiver = Receiver::new(RECEIVER);
    for (came_ns, (sequence, sent_ns)) in (MS..).zip([(0, 10), (2, 30), (1, 20)]) {
        let made = Header { sent_ns, ..header(sequence as u8, sequence) };
        assert!(receiver.handle(&bytes_of(made, &[0; 200]), came_ns).is_some());
    }
    let mut bytes = Vec::new();
    receiver.feedback(2 * MS, &mut bytes);
    let Ok(Packet::Feedback(_, feedback)) = Packet::parse(&bytes) else { panic!("it is no feedback") };
    assert_eq!((feedback.echo, feedback.echo_sent_ns, feedback.held_ns), (2, 30, MS as u64 - 1));
}

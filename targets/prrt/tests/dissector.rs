//! The dissector for Wireshark, by `tshark`, against the parser: the same fields of every packet, and the same reason
//! for every datagram that is none.

use std::path::{Path, PathBuf};
use std::process::Command;

use tickscope_load::SplitMix;
use tickscope_prrt::{BlockState, FEEDBACK_BLOCKS, Feedback, HEADER_BYTES, Header, Packet, PacketKind};

/// Fields in the order in which `tshark` is to print them; the last is why the packet is refused.
const FIELDS: [&str; 31] = [
    "kind",
    "session",
    "index",
    "k",
    "n",
    "filled",
    "left",
    "base",
    "sequence",
    "sent",
    "rtt",
    "id",
    "payload",
    "echo",
    "echo_sent",
    "held",
    "received",
    "gaps",
    "lost",
    "bursts",
    "squares",
    "payloads",
    "missing",
    "first",
    "blocks",
    "block",
    "round",
    "needs",
    "has",
    "length",
    "refused",
];

fn data(random: &mut SplitMix) -> Vec<u8> {
    let (k, parity) = (1 + random.below(40) as u8, random.below(40) as u8);
    let kind = if parity > 0 && random.below(2) == 0 { PacketKind::Parity } else { PacketKind::Source };
    let (index, filled) = match kind {
        PacketKind::Parity => (k + random.below(parity.into()) as u8, 1 + random.below(k.into()) as u8),
        _ => (random.below(k.into()) as u8, 0),
    };
    let header = Header {
        kind,
        index,
        k,
        n: k + parity,
        filled,
        session: random.bits() as u32,
        left_us: random.below(60_000_001) as u32,
        base: random.bits() >> 11,
        sequence: random.bits() >> 4,
        sent_ns: random.bits() as i64,
        rtt_us: random.bits() as u32,
    };
    let payload: Vec<u8> = (0..2 + random.below(60)).map(|_| random.bits() as u8).collect();
    let mut bytes = Vec::new();
    header.write(&payload, &mut bytes);
    bytes
}

fn feedback(random: &mut SplitMix) -> Vec<u8> {
    let blocks = (0..random.below(1 + FEEDBACK_BLOCKS as u64)).map(|_| BlockState {
        base: random.bits(),
        round: random.bits() as u8,
        needs: random.bits() as u8,
        bitmap: std::array::from_fn(|_| if random.below(3) == 0 { 255 } else { random.bits() as u8 }),
    });
    let blocks = blocks.collect();
    let [sequence, echo, held_ns, received, gaps, lost, bursts] = std::array::from_fn(|_| random.bits());
    let [squares, payloads, missing, first] = std::array::from_fn(|_| random.bits());
    let echo_sent_ns = random.bits() as i64;
    let mut bytes = Vec::new();
    let channel = Feedback { received, gaps, lost, bursts, squares, first, ..Feedback::default() };
    let feedback = Feedback { sequence, echo, echo_sent_ns, held_ns, payloads, missing, blocks, ..channel };
    feedback.write(random.bits() as u32, &mut bytes);
    bytes
}

/// A packet that a few bytes were changed of, or its end.
fn spoilt(random: &mut SplitMix, mut bytes: Vec<u8>) -> Vec<u8> {
    match random.below(4) {
        0 => bytes.truncate(2 + random.below(bytes.len() as u64 - 2) as usize),
        1 => bytes.extend((0..1 + random.below(2000)).map(|_| 7)),
        // More than a minute left.
        2 => bytes.get_mut(12).into_iter().for_each(|byte| *byte = 4),
        // The number of a feedback's blocks.
        _ => bytes.get_mut(139).into_iter().for_each(|byte| *byte ^= random.below(2) as u8),
    }
    for _ in 0..random.below(3) {
        let at = 2 + random.below(bytes.len() as u64 - 2).min(30) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = random.bits() as u8;
        }
    }
    bytes[1] = 32 | random.below(4) as u8; // of its version: what is another's is not the dissector's
    bytes
}

/// Lines that `tshark` is to print of a datagram.
fn expected(bytes: &[u8]) -> Vec<String> {
    let mut cells = vec![String::new(); FIELDS.len()];
    let mut set = |name: &str, text: String| {
        let at = FIELDS.iter().position(|field| *field == name).expect("a field");
        cells[at] = text;
    };
    match Packet::parse(bytes) {
        Err(why) => set("refused", why.into()),
        Ok(Packet::Data(header, payload)) => {
            set("kind", (header.kind as u8).to_string());
            let numbers = [("index", header.index), ("k", header.k), ("n", header.n), ("filled", header.filled)];
            numbers.into_iter().for_each(|(name, value)| set(name, value.to_string()));
            set("session", format!("0x{:08x}", header.session));
            set("left", header.left_us.to_string());
            set("base", header.base.to_string());
            set("sequence", header.sequence.to_string());
            set("sent", header.sent_ns.to_string());
            set("rtt", header.rtt_us.to_string());
            if header.kind == PacketKind::Source {
                set("id", header.id().to_string());
            }
            set("payload", payload.iter().map(|byte| format!("{byte:02x}")).collect());
            set("length", payload.len().to_string());
        }
        Ok(Packet::Feedback(session, feedback)) => {
            set("kind", (PacketKind::Feedback as u8).to_string());
            set("session", format!("0x{session:08x}"));
            set("length", (bytes.len() - HEADER_BYTES).to_string());
            set("echo_sent", feedback.echo_sent_ns.to_string());
            let numbers = [
                ("sequence", feedback.sequence),
                ("echo", feedback.echo),
                ("held", feedback.held_ns),
                ("received", feedback.received),
                ("gaps", feedback.gaps),
                ("lost", feedback.lost),
                ("bursts", feedback.bursts),
                ("squares", feedback.squares),
                ("payloads", feedback.payloads),
                ("missing", feedback.missing),
                ("first", feedback.first),
                ("blocks", feedback.blocks.len() as u64),
            ];
            numbers.into_iter().for_each(|(name, value)| set(name, value.to_string()));
            let of = |text: fn(&BlockState) -> String| feedback.blocks.iter().map(text).collect::<Vec<_>>().join(",");
            set("block", of(|block| block.base.to_string()));
            set("round", of(|block| block.round.to_string()));
            set("needs", of(|block| block.needs.to_string()));
            set("has", of(indices));
        }
    }
    cells
}

/// Runs of the packets that are there: `0-3 5`.
fn indices(block: &BlockState) -> String {
    let has = |index: u16| index < 256 && block.has(index as u8);
    let starts = (0..256u16).filter(|&index| has(index) && (index == 0 || !has(index - 1)));
    let runs = starts.map(|first| {
        let last = (first..256).take_while(|&index| has(index)).last().expect("the first");
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// A capture of datagrams over IPv4 and UDP, without a link's header, that keeps so many bytes of each.
fn capture(datagrams: &[Vec<u8>], kept: impl Fn(usize) -> usize) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for (number, bytes) in datagrams.iter().enumerate() {
        let udp = (8 + bytes.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend((20 + udp).to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([40_000u16, 40_001, udp, 0].iter().flat_map(|word| word.to_be_bytes()));
        packet.extend(bytes);
        let whole = packet.len();
        packet.truncate(28 + kept(number));
        for word in [number as u32, 0, packet.len() as u32, whole as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

/// Runs `tshark` on each datagram, with its fields for an answer; `None`: it is not installed.
fn dissected(place: &Path, more: &[&str]) -> Option<Vec<Vec<String>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("wireshark/prrt.lua");
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(place);
    command.args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"]).args(more);
    for field in FIELDS {
        command.arg("-e").arg(if field == "refused" { "_ws.expert.message".into() } else { format!("prrt.{field}") });
    }
    let output = match command.output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !told.contains("Lua"), "{told}");
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(|line| line.split('\t').map(String::from).collect()).collect())
}

fn written(name: &str, datagrams: &[Vec<u8>], kept: impl Fn(usize) -> usize) -> PathBuf {
    let place = std::env::temp_dir().join(format!("tickscope-{name}-{}.pcap", std::process::id()));
    std::fs::write(&place, capture(datagrams, kept)).unwrap();
    place
}

#[test]
fn e2e_wireshark_shows_what_the_parser_reads_and_refuses_what_it_refuses() {
    let mut random = SplitMix::new(1);
    let mut datagrams = Vec::new();
    for number in 0..6000 {
        let sound = if number % 3 == 0 { feedback(&mut random) } else { data(&mut random) };
        datagrams.push(if number % 2 == 0 { sound } else { spoilt(&mut random, sound) });
    }
    let place = written("dissector", &datagrams, |_| usize::MAX - 28);
    let Some(rows) = dissected(&place, &["-d", "udp.port==40001,prrt"]) else {
        println!("not tried: tshark is not installed (the package is tshark)");
        return;
    };
    assert_eq!(rows.len(), datagrams.len());
    let mut reasons = std::collections::BTreeMap::new();
    for (bytes, row) in datagrams.iter().zip(&rows) {
        let expected = expected(bytes);
        let why = expected.last().expect("a reason").clone();
        if why.is_empty() {
            assert_eq!(*row, expected, "{bytes:02x?}");
        } else {
            assert_eq!(row.last(), Some(&why), "{bytes:02x?}");
        }
        *reasons.entry(why).or_insert(0) += 1;
    }
    assert!(reasons.len() == 8 && reasons.values().all(|&many| many >= 20), "each reason, and none: {reasons:?}");
    std::fs::remove_file(place).unwrap();
}

#[test]
fn e2e_wireshark_refuses_nothing_for_what_the_capture_did_not_keep() {
    let mut random = SplitMix::new(4);
    let sound: Vec<_> = (0..2).flat_map(|_| [feedback(&mut random), data(&mut random)]).collect();
    let longest = sound.iter().map(Vec::len).max().unwrap();
    let datagrams: Vec<_> = (2..longest).flat_map(|_| sound.clone()).collect();
    let place = written("cut", &datagrams, |number| 2 + number / sound.len());
    let Some(rows) = dissected(&place, &["-d", "udp.port==40001,prrt"]) else {
        println!("not tried: tshark is not installed (the package is tshark)");
        return;
    };
    assert_eq!(rows.len(), datagrams.len());
    for (number, (bytes, row)) in datagrams.iter().zip(&rows).enumerate() {
        let (kept, whole) = (2 + number / sound.len(), expected(bytes));
        assert_eq!(row.last().map(String::as_str), Some(""), "{kept} of {}: {row:?}", bytes.len());
        // What it shows is what there is, or the beginning of it.
        assert!(row.iter().zip(&whole).all(|(shown, whole)| whole.starts_with(shown.as_str())), "{kept}: {row:?}");
        assert!(kept < bytes.len() || *row == whole, "{row:?}");
    }
    std::fs::remove_file(place).unwrap();
}

#[test]
fn e2e_wireshark_knows_the_packets_without_their_port_and_leaves_others_alone() {
    let mut random = SplitMix::new(2);
    let other = |first: [u8; 2]| {
        let mut bytes = data(&mut SplitMix::new(3));
        bytes[..2].copy_from_slice(&first);
        bytes
    };
    let datagrams = [data(&mut random), feedback(&mut random), other(*b"Q\x20"), other(*b"P\x10"), vec![b'P'; 100]];
    let place = written("heuristic", &datagrams, |_| usize::MAX - 28);
    let Some(rows) = dissected(&place, &[]) else {
        println!("not tried: tshark is not installed (the package is tshark)");
        return;
    };
    for (bytes, row) in datagrams[..2].iter().zip(&rows) {
        assert_eq!(*row, expected(bytes));
    }
    assert!(rows[2..].iter().all(|row| row[..FIELDS.len() - 1].iter().all(String::is_empty)), "{:?}", &rows[2..]);
    std::fs::remove_file(place).unwrap();
}

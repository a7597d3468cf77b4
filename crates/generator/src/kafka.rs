//! Kafka's protocol (kafka.apache.org/protocol), as far as a producer needs it: Metadata 4 to find who leads a
//! partition, Produce 3, which brokers have spoken since 1.0, and record batches of version 2.
//!
//! By hand, since the crates that speak it bring an asynchronous runtime, and queues of their own that batch and wait:
//! here what is due leaves at once, as one batch. A request's correlation id says how many tuples were sent up to its
//! end, so that its answer says whose it is. Deliberately absent: TLS, SASL, compression, idempotence, a new leader.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::frames::Wrapped;

const CLIENT: &str = "tickscope";
/// Requests by number, each with the version that is spoken.
const PRODUCE: (i16, i16) = (0, 3);
const METADATA: (i16, i16) = (3, 4);
/// A batch has as many records as an offset within it has room for in one byte, at most.
pub(crate) const MOST_RECORDS: u64 = 64;
/// Bytes of a batch that a broker takes unless it was told otherwise are a MiB.
const MOST_BATCH_BYTES: usize = 1 << 20;
/// Answers to batches are short; metadata of a topic of thousands of partitions is not.
const MOST_ANSWER_BYTES: usize = 16 << 20;
/// How long a broker may wait for its replicas, milliseconds.
const REPLICAS_MS: i32 = 30_000;
/// The checksum of a batch ends there, and covers all that follows.
const UNCHECKED_BYTES: usize = 21;
/// The first record of a batch begins there.
const BATCH_HEAD_BYTES: usize = 61;

/// The record of a tuple, but for its offset within its batch, which is written as the batch is made.
pub(crate) fn record(tuple: &[u8]) -> Wrapped {
    // Attributes, milliseconds after the batch, offset, no key.
    let mut fields = vec![0, 0, 0, 1];
    put_varint(&mut fields, tuple.len());
    let mut head = Vec::new();
    put_varint(&mut head, fields.len() + tuple.len() + 1);
    head.extend(fields);
    Wrapped { head, tail: vec![0] } // no headers
}

/// Zigzag, seven bits a byte, the lowest first.
fn put_varint(bytes: &mut Vec<u8>, value: usize) {
    let mut rest = 2 * value as u64;
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// What one sender's records are wrapped in: a request for each batch of them.
#[derive(Debug)]
pub(crate) struct Batches {
    topic: String,
    partition: i32,
    /// Whether all replicas are to have a batch before it is answered; else it is not.
    acknowledged: bool,
    tuples: u32,
    request: Vec<u8>,
}

impl Batches {
    /// How many records of such a length a batch has at most.
    pub fn most(record_bytes: usize) -> u64 {
        ((MOST_BATCH_BYTES - BATCH_HEAD_BYTES) / record_bytes.max(1)).clamp(1, MOST_RECORDS as usize) as u64
    }

    /// The request that so many records make.
    pub fn request(&mut self, records: &[u8], count: u64) -> &[u8] {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        self.request_at(records, count, now_ms)
    }

    fn request_at(&mut self, records: &[u8], count: u64, now_ms: i64) -> &[u8] {
        self.tuples = (self.tuples + count as u32) & i32::MAX as u32;
        let batch_bytes = BATCH_HEAD_BYTES + records.len();
        let request = &mut self.request;
        request.clear();
        request.extend(0_i32.to_be_bytes()); // its length, below
        put_head(request, PRODUCE, self.tuples as i32);
        request.extend((-1_i16).to_be_bytes()); // no transaction
        request.extend(if self.acknowledged { -1_i16 } else { 0 }.to_be_bytes());
        request.extend(REPLICAS_MS.to_be_bytes());
        request.extend(1_i32.to_be_bytes());
        put_text(request, &self.topic);
        for number in [1, self.partition, batch_bytes as i32] {
            request.extend(number.to_be_bytes());
        }
        let batch = request.len();
        request.extend(0_i64.to_be_bytes()); // the broker numbers them
        request.extend((batch_bytes as i32 - 12).to_be_bytes());
        request.extend((-1_i32).to_be_bytes()); // epoch of the leader
        request.push(2);
        request.extend(0_u32.to_be_bytes()); // its checksum, below
        request.extend(0_i16.to_be_bytes()); // as it is
        request.extend((count as i32 - 1).to_be_bytes());
        request.extend([now_ms, now_ms, -1].map(i64::to_be_bytes).concat()); // from and until; no producer
        request.extend((-1_i16).to_be_bytes());
        request.extend((-1_i32).to_be_bytes());
        request.extend((count as i32).to_be_bytes());
        request.extend(records);
        number_records(&mut request[batch + BATCH_HEAD_BYTES..]);
        let checksum = crc32c::crc32c(&request[batch + UNCHECKED_BYTES..]);
        request[batch + UNCHECKED_BYTES - 4..batch + UNCHECKED_BYTES].copy_from_slice(&checksum.to_be_bytes());
        end_request(request);
        request
    }
}

/// Writes into each record the offset that it has within its batch.
fn number_records(mut records: &mut [u8]) {
    for number in 0.. {
        let Some((length, at)) = varint(records) else { return };
        records[at + 2] = 2 * number;
        records = &mut records[at + length..];
    }
}

/// A number and the bytes that it takes.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value / 2, at + 1));
        }
    }
    None
}

fn put_head(request: &mut Vec<u8>, (key, version): (i16, i16), correlation: i32) {
    request.extend([key, version].map(i16::to_be_bytes).concat());
    request.extend(correlation.to_be_bytes());
    put_text(request, CLIENT);
}

fn put_text(request: &mut Vec<u8>, text: &str) {
    request.extend((text.len() as i16).to_be_bytes());
    request.extend(text.as_bytes());
}

fn end_request(request: &mut [u8]) {
    let length = request.len() as i32 - 4;
    request[..4].copy_from_slice(&length.to_be_bytes());
}

/// The answer to a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub bytes: usize,
    /// What the batch's request had for its correlation id.
    pub tuples: u32,
    /// Whether the broker took it.
    pub well: bool,
}

/// How many tuples an answer is for, by its correlation id, where so many had theirs before; one that comes to more
/// than a batch holds is of no batch of ours, and counts as one that belongs to no tuple.
pub(crate) fn since(tuples: u32, before: u64) -> u64 {
    let more = tuples.wrapping_sub(before as u32) & i32::MAX as u32;
    if (1..=MOST_RECORDS).contains(&u64::from(more)) { u64::from(more) } else { 0 }
}

/// The answer that bytes begin with; `None`: it is not whole yet.
pub(crate) fn answer(bytes: &[u8]) -> Result<Option<Answer>, String> {
    let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = i32::from_be_bytes(*head);
    let strange = |what: &str| format!("expected Kafka's answer to a batch, found {what}. Check what listens there");
    if !(0..=MOST_ANSWER_BYTES as i32).contains(&length) {
        return Err(strange(&format!("one of {length} bytes")));
    }
    let Some(body) = bytes[4..].get(..length as usize) else { return Ok(None) };
    let mut rest = Rest(body);
    let read = |rest: &mut Rest<'_>| {
        let (tuples, topics) = (rest.i32()?, rest.i32()?);
        rest.text()?;
        let partitions = rest.i32()?;
        rest.i32()?;
        let error = rest.i16()?;
        (topics == 1 && partitions == 1).then_some((tuples as u32, error == 0))
    };
    let (tuples, well) = read(&mut rest).ok_or_else(|| strange("one without its topic and partition"))?;
    Ok(Some(Answer { bytes: 4 + length as usize, tuples, well }))
}

/// Asks a broker for a topic, which may be made for it: the partition that the sender of that number writes to, and
/// the address of who leads it.
pub(crate) fn route(
    stream: &mut (impl Read + Write),
    topic: &str,
    (sender, acknowledged): (usize, bool),
) -> io::Result<(String, Batches)> {
    let mut request = vec![0; 4];
    put_head(&mut request, METADATA, 0);
    request.extend(1_i32.to_be_bytes());
    put_text(&mut request, topic);
    request.push(1); // it may be made
    end_request(&mut request);
    stream.write_all(&request)?;
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = i32::from_be_bytes(head);
    let strange = |what: &str| {
        let told = format!("expected Kafka's metadata of '{topic}', found {what}. Check what listens there");
        io::Error::new(ErrorKind::InvalidData, told)
    };
    if !(0..=MOST_ANSWER_BYTES as i32).contains(&length) {
        return Err(strange(&format!("an answer of {length} bytes")));
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body)?;
    let Metadata { brokers, error, leaders } = metadata(&body).ok_or_else(|| strange("another answer"))?;
    match error {
        0 if !leaders.is_empty() => {}
        // It is being made, or has no leader yet.
        0 | 3 | 5 => {
            return Err(io::Error::other(format!("no partition of '{topic}' has a leader yet (error {error})")));
        }
        17 => return Err(io::Error::new(ErrorKind::InvalidData, format!("Kafka takes no topic named '{topic}'"))),
        _ => return Err(io::Error::other(format!("Kafka refuses the topic '{topic}' with error {error}"))),
    }
    let (partition, leader) = leaders[sender % leaders.len()];
    let address = brokers.into_iter().find(|(node, _)| *node == leader).map(|(_, address)| address);
    let address =
        address.ok_or_else(|| io::Error::other(format!("partition {partition} of '{topic}' has no leader")))?;
    let batches = Batches { topic: topic.into(), partition, acknowledged, tuples: 0, request: Vec::new() };
    Ok((address, batches))
}

/// What a broker says of one topic.
struct Metadata {
    brokers: Vec<(i32, String)>,
    error: i16,
    /// Of each partition that has one, by number.
    leaders: Vec<(i32, i32)>,
}

fn metadata(body: &[u8]) -> Option<Metadata> {
    let mut rest = Rest(body);
    rest.i32()?; // correlation
    rest.i32()?; // milliseconds to wait
    let mut brokers = Vec::new();
    for _ in 0..rest.i32()? {
        let (node, host, port) = (rest.i32()?, rest.text()?.to_owned(), rest.i32()?);
        rest.text()?; // rack
        brokers.push((node, if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }));
    }
    rest.text()?; // cluster
    rest.i32()?; // controller
    if rest.i32()? != 1 {
        return None;
    }
    let error = rest.i16()?;
    rest.text()?;
    rest.take::<1>()?; // whether it is Kafka's own
    let mut leaders = Vec::new();
    for _ in 0..rest.i32()? {
        let (_, partition, leader) = (rest.i16()?, rest.i32()?, rest.i32()?);
        for _ in 0..2 {
            for _ in 0..rest.i32()? {
                rest.i32()?; // replicas, and those in step
            }
        }
        leaders.extend((leader >= 0).then_some((partition, leader)));
    }
    leaders.sort_unstable();
    Some(Metadata { brokers, error, leaders })
}

/// What is left to read of an answer.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (found, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*found)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    /// Empty where it is null.
    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.i16()?).unwrap_or(0);
        let (found, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(found).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by Kafka's own classes (kafka-clients 4.1.1): a request of three records, answers to it, metadata.
    const REQUEST: &str = "\
        000000d3000000030000000300097469636b73636f7065ffffffff000075300000000100067475706c6573000000010000000100\
        0000a0000000000000000000000094ffffffff026cbd0a3d0000000000020000018bcfe5687b0000018bcfe5687bffffffffffff\
        ffffffffffffffff0000000316000000010a6669727374009a01000002018c017878787878787878787878787878787878787878\
        7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878000e\
        00000401020000";
    const TAKEN: &str =
        "0000002e000000030000000100067475706c6573000000010000000100000000000000000005ffffffffffffffff00000000";
    const REFUSED: &str =
        "0000002e000000030000000100067475706c65730000000100000001000a0000000000000005ffffffffffffffff00000000";
    const METADATA_OF_TWO: &str = "\
        000000a50000000000000000000000020000000100093132372e302e302e3100001d44ffff0000000700033a3a3100001d450001\
        720001630000000100000001000000067475706c6573000000000300000000000100000007000000020000000100000007000000\
        0100000001000000000000000000010000000200000001000000070000000100000001000000000002ffffffff00000002000000\
        01000000070000000100000001";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn records(tuples: &[&[u8]]) -> Vec<u8> {
        let of = |tuple: &&[u8]| {
            let Wrapped { head, tail } = record(tuple);
            [&head, *tuple, &tail].concat()
        };
        tuples.iter().flat_map(of).collect()
    }

    fn batches() -> Batches {
        Batches { topic: "tuples".into(), partition: 1, acknowledged: true, tuples: 0, request: Vec::new() }
    }

    #[test]
    fn a_batch_is_what_kafkas_own_client_sends() {
        let records = records(&[b"first", &[b'x'; 70], &[0]]);
        let mut batches = batches();
        assert_eq!(batches.request_at(&records, 3, 1_700_000_000_123), bytes(REQUEST));
        let again = batches.request_at(&records, 3, 1_700_000_000_123).to_vec();
        assert_eq!((&again[8..12], &again[12..]), (&6_i32.to_be_bytes()[..], &bytes(REQUEST)[12..]));
    }

    #[test]
    fn the_records_of_a_full_batch_are_numbered_within_it() {
        let tuples = vec![&[7_u8; 200][..]; MOST_RECORDS as usize];
        let records = records(&tuples);
        let mut batches = batches();
        let request = batches.request_at(&records, MOST_RECORDS, 0);
        let own = &request[request.len() - records.len()..];
        let each = own.chunks(records.len() / tuples.len());
        assert!(each.enumerate().all(|(at, record)| usize::from(record[4]) == 2 * at && record[5] == 1));
        assert_eq!([1, 16_383, 16_384, 2 << 20].map(Batches::most), [64, 64, 63, 1]);
    }

    #[test]
    fn an_answer_says_how_far_the_broker_has_taken_the_tuples_or_refused_them() {
        for (hex, well) in [(TAKEN, true), (REFUSED, false)] {
            let whole = [bytes(hex), b"next".to_vec()].concat();
            let taken = whole.len() - 4;
            assert_eq!(answer(&whole), Ok(Some(Answer { bytes: taken, tuples: 3, well })));
            assert!((0..taken).all(|cut| answer(&whole[..cut]) == Ok(None)));
        }
        let counted =
            [(3, 0), (3, 2), (3, 3), (2, (1 << 31) - 1), (67, 0)].map(|(tuples, before)| since(tuples, before));
        assert_eq!(counted, [3, 1, 0, 3, 0]);
        for strange in [&b"HTTP/1.1 400 Bad Request"[..], b"\xff\xff\xff\xff", b"\0\0\0\x06\0\0\0\x03\0\0"] {
            assert!(answer(strange).unwrap_err().contains("Check what listens there"));
        }
    }

    /// What was written to it, and what it answers.
    struct Broker(Vec<u8>, io::Cursor<Vec<u8>>);

    impl Read for Broker {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.read(buffer)
        }
    }

    impl Write for Broker {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn senders_take_the_partitions_that_have_a_leader_in_turn() {
        let asked = |answer: &[u8], sender| {
            let mut broker = Broker(Vec::new(), io::Cursor::new(answer.to_vec()));
            let found = route(&mut broker, "tuples", (sender, false));
            assert!(broker.0.ends_with(b"\0\x09tickscope\0\0\0\x01\0\x06tuples\x01"));
            found.map(|(address, batches)| (address, batches.partition))
        };
        let whole = bytes(METADATA_OF_TWO);
        let found = [0, 1, 2].map(|sender| asked(&whole, sender).unwrap());
        let [first, second] = [("127.0.0.1:7492".into(), 0), ("[::1]:7493".into(), 1)];
        assert_eq!(found, [first.clone(), second, first]);
        for cut in 0..whole.len() {
            assert!(asked(&whole[..cut], 0).is_err(), "{cut}");
        }
        let error = whole.windows(8).position(|window| window == b"\0\x06tuples").unwrap() - 2;
        for (code, kind) in [(3, ErrorKind::Other), (5, ErrorKind::Other), (17, ErrorKind::InvalidData)] {
            let mut refused = whole.clone();
            refused[error + 1] = code;
            assert_eq!(asked(&refused, 0).unwrap_err().kind(), kind, "{code}");
        }
    }
}

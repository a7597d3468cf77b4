//! pcap, as tcpdump writes it with `-w`: packets with the kernel's time of each.
//!
//! A time's column is `src PORT` or `dst PORT`, packets of UDP or TCP from or to that port; an id's column says where
//! its bytes stand in the payload: `payload 0 le64`, or `be`, `16`, `32`. Packets of other ports, and fragments without
//! a port, are counted; a packet of such a port that was cut off ahead of its id is refused.

use std::borrow::Cow;
use std::io::{BufReader, Read};
use std::path::PathBuf;

use crate::error::Error;
use crate::form::Table;
use crate::records::Record;

/// Bytes of a packet at most, as libpcap has it.
const MOST_BYTES: u32 = 262_144;
const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const MAGIC_PCAPNG: u32 = 0x0a0d_0d0a;
const NS_PER_S: u64 = 1_000_000_000;

/// The packets of one file that are of the table's ports.
pub(crate) struct Packets<R> {
    input: BufReader<R>,
    file: PathBuf,
    number: u64,
    others: u64,
    is_big: bool,
    /// Nanoseconds in a unit of its times' fractions.
    fraction_ns: u64,
    link: u32,
    ids: Vec<IdAt>,
    ports: Vec<Port>,
}

/// Where a number stands in a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IdAt {
    offset: usize,
    bytes: usize,
    is_big: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Port {
    is_source: bool,
    number: u16,
}

impl IdAt {
    fn of(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (payload, offset, form) = (words.next()?, words.next()?, words.next()?);
        let (is_big, bits) = match form.split_at_checked(2)? {
            ("le", bits) => (false, bits),
            ("be", bits) => (true, bits),
            _ => return None,
        };
        let bytes = match bits {
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return None,
        };
        let offset = offset.parse::<u16>().ok()?.into();
        (payload == "payload" && words.next().is_none()).then_some(Self { offset, bytes, is_big })
    }

    fn read(&self, payload: &[u8]) -> Option<i64> {
        let found = payload.get(self.offset..self.offset + self.bytes)?;
        let all = found.iter().enumerate().map(|(at, &byte)| {
            let place = if self.is_big { self.bytes - 1 - at } else { at };
            u64::from(byte) << (8 * place)
        });
        Some(all.sum::<u64>().cast_signed())
    }
}

impl Port {
    fn of(text: &str) -> Option<Self> {
        let (side, number) = text.split_once(' ')?;
        let is_source = match side {
            "src" => true,
            "dst" => false,
            _ => return None,
        };
        Some(Self { is_source, number: number.parse().ok()? })
    }
}

/// Checks what a mapping says of the packets of a table.
pub(crate) fn check(table: &Table) -> Result<(), String> {
    for key in table.keys() {
        IdAt::of(&key).ok_or_else(|| {
            format!("expected where an id stands in packets, such as \"payload 0 le64\", found '{key}'. Correct it")
        })?;
    }
    for time in table.times_wanted() {
        Port::of(&time).ok_or_else(|| {
            format!("expected packets of a port, \"src PORT\" or \"dst PORT\", found '{time}'. Correct it")
        })?;
    }
    Ok(())
}

impl<R: Read> Packets<R> {
    pub fn of(input: R, table: &Table) -> Result<Self, Error> {
        let wrong = |why: String| Error::input(table.file.display(), why);
        let mut input = BufReader::new(input);
        let mut head = [0; 24];
        input.read_exact(&mut head).map_err(|_| {
            wrong("expected the 24 bytes that a pcap begins with, found fewer. Name a capture of tcpdump -w".into())
        })?;
        let magic = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        let (is_big, fraction_ns) = match (magic, magic.swap_bytes()) {
            (MAGIC_US, _) => (false, 1000),
            (MAGIC_NS, _) => (false, 1),
            (_, MAGIC_US) => (true, 1000),
            (_, MAGIC_NS) => (true, 1),
            (MAGIC_PCAPNG, _) => {
                return Err(wrong("expected a pcap, found a pcapng. Convert it: editcap -F pcap IN OUT".into()));
            }
            _ => return Err(wrong(format!("expected a pcap, found the first bytes {magic:08x}. Name another file"))),
        };
        let number = |at: usize| number(&head[at..at + 4], is_big);
        let link = number(20) & 0xffff;
        if !matches!(link, 0 | 1 | 101 | 113 | 276) {
            return Err(wrong(format!(
                "expected packets of Ethernet, of Linux cooked capture, of loopback or raw IP, found the link type \
                 {link}. Capture on another interface"
            )));
        }
        let ids = table.keys().iter().filter_map(|key| IdAt::of(key)).collect();
        let ports = table.times_wanted().iter().filter_map(|time| Port::of(time)).collect();
        Ok(Self { input, file: table.file.clone(), number: 0, others: 0, is_big, fraction_ns, link, ids, ports })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn others(&self) -> u64 {
        self.others
    }

    pub fn next<'a>(&mut self) -> Result<Option<Record<'a>>, Error> {
        while let Some((time_ns, bytes)) = self.packet()? {
            let found = transport(self.link, &bytes);
            let matching = |port: &Port| {
                found.as_ref().is_some_and(|of| port.number == if port.is_source { of.ports[0] } else { of.ports[1] })
            };
            let (Some(at), Some(found)) = (self.ports.iter().position(matching), &found) else {
                self.others += 1;
                continue;
            };
            if found.is_bare {
                self.others += 1;
                continue;
            }
            let mut cells: Vec<Cow<'a, str>> = Vec::new();
            for id in &self.ids {
                let Some(value) = id.read(found.payload) else {
                    let (needed, held) = (id.offset + id.bytes, found.payload.len());
                    return Err(self.wrong(format!(
                        "expected {needed} bytes of payload, found {held} in the capture. Capture whole packets \
                         (tcpdump -s 0), or correct where the id stands"
                    )));
                };
                cells.push(value.to_string().into());
            }
            let keys = cells.len();
            cells.extend(self.ports.iter().map(|_| Cow::Borrowed("")));
            cells[keys + at] = time_ns.to_string().into();
            return Ok(Some(cells));
        }
        Ok(None)
    }

    /// The next packet and its time in nanoseconds.
    fn packet(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let mut head = Vec::with_capacity(16);
        self.input.by_ref().take(16).read_to_end(&mut head).map_err(|e| Error::unreadable(&self.file, &e))?;
        if head.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if head.len() < 16 {
            return Err(self.cut_off());
        }
        let of = |at: usize| number(&head[at..at + 4], self.is_big);
        let (seconds, fraction, length) = (of(0), of(4), of(8));
        if length > MOST_BYTES {
            let found = format!(
                "expected a packet of at most {MOST_BYTES} bytes, found {length}: the file is damaged. Capture again"
            );
            return Err(self.wrong(found));
        }
        if u64::from(fraction) * self.fraction_ns >= NS_PER_S {
            let found = format!("expected a part of a second, found {fraction}: the file is damaged. Capture again");
            return Err(self.wrong(found));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        let length_u64 = u64::from(length);
        self.input.by_ref().take(length_u64).read_to_end(&mut bytes).map_err(|e| Error::unreadable(&self.file, &e))?;
        if bytes.len() as u64 != length_u64 {
            return Err(self.cut_off());
        }
        Ok(Some((u64::from(seconds) * NS_PER_S + u64::from(fraction) * self.fraction_ns, bytes)))
    }

    fn cut_off(&self) -> Error {
        let found = "expected a whole packet, found the end of the file: it was cut off. Take the packets ahead of it: \
                     editcap -F pcap";
        self.wrong(found.into())
    }

    fn wrong(&self, why: String) -> Error {
        Error::input(format_args!("{}: packet {}", self.file.display(), self.number), why)
    }
}

fn number(bytes: &[u8], is_big: bool) -> u32 {
    let bytes: [u8; 4] = bytes.try_into().expect("four bytes");
    if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

/// What a packet of UDP or TCP carries.
struct Transport<'a> {
    /// Source and destination.
    ports: [u16; 2],
    payload: &'a [u8],
    /// Of TCP, and without a byte of payload when it was sent: it opens, acknowledges or ends.
    is_bare: bool,
}

/// The payload of a packet of UDP or TCP over IP; `None`: it is none, or a later fragment.
fn transport(link: u32, bytes: &[u8]) -> Option<Transport<'_>> {
    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;
    const VLAN: [u16; 2] = [0x8100, 0x88a8];
    let short = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let at = match link {
        0 => 4,
        1 => {
            let mut at = 12;
            while VLAN.contains(&short(at)?) {
                at += 4;
            }
            matches!(short(at)?, IPV4 | IPV6).then_some(at + 2)?
        }
        113 => matches!(short(14)?, IPV4 | IPV6).then_some(16)?,
        276 => matches!(short(0)?, IPV4 | IPV6).then_some(20)?,
        _ => 0,
    };
    let ip = bytes.get(at..)?;
    let (protocol, rest, sent) = match ip.first()? >> 4 {
        4 => {
            let head = usize::from(ip[0] & 0xf) * 4;
            let is_later = u16::from_be_bytes(ip.get(6..8)?.try_into().ok()?) & 0x1fff != 0;
            let all = usize::from(u16::from_be_bytes(ip.get(2..4)?.try_into().ok()?));
            // Behind a short packet there is padding; 0: the card computed it.
            let end = if all < head { ip.len() } else { all.min(ip.len()) };
            let sent = if all < head { ip.len() } else { all }.checked_sub(head)?;
            (!is_later && head >= 20).then_some((*ip.get(9)?, ip.get(head..end)?, sent))?
        }
        6 => (*ip.get(6)?, ip.get(40..)?, u16::from_be_bytes(ip.get(4..6)?.try_into().ok()?).into()),
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?));
    let head = match protocol {
        17 => 8,
        6 => usize::from(rest.get(12)? >> 4) * 4,
        _ => return None,
    };
    let is_bare = protocol == 6 && sent == head;
    Some(Transport { ports: [port(0)?, port(2)?], payload: rest.get(head..)?, is_bare })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_was_cut_off_anywhere_is_none_or_ends_there() {
        const RAW: u32 = 101;
        let head = |all: u16| [&[0x45, 0][..], &all.to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0], &[0; 8]].concat();
        let udp = [0x1c, 0xe8, 0x1c, 0xe9, 0, 12, 0, 0, b'a', b'b', b'c', b'd'];
        for all in [0, 19, 32, u16::MAX] {
            let packet = [&head(all)[..], &udp].concat();
            for until in 0..=packet.len() {
                let found = transport(RAW, &packet[..until]).map(|found| (found.ports, found.payload.to_vec()));
                let expected = (until >= 28).then(|| ([7400, 7401], packet[28..until].to_vec()));
                assert_eq!(found, expected, "{until} bytes of a packet that says {all}");
            }
        }
    }
}

//! ZMTP 3.0, the protocol of ZeroMQ, as far as a PUSH socket needs it: greeting, mechanism NULL, messages of a frame.
//!
//! By hand, since the crate that speaks it brings an asynchronous runtime, and queues of its own that hide
//! back-pressure: here a message is in the kernel's socket, or it was not sent. Specification: rfc.zeromq.org/spec/23.

use std::io::{self, Read, Write};

use crate::frames::Wrapped;

const GREETING_BYTES: usize = 64;
/// Flags of a frame: its length has 64 bits; it is a command.
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// Commands of a handshake are short.
const MOST_COMMAND_BYTES: usize = 4096;

/// Signature, version 3.0, mechanism, as a client.
fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

fn ready() -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", "PUSH"), ("Identity", "")] {
        body.push(name.len() as u8);
        body.extend(name.as_bytes());
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value.as_bytes());
    }
    [vec![COMMAND, body.len() as u8], body].concat()
}

/// Makes a connection one of ZeroMQ; the other end must be a PULL socket.
pub(crate) fn shake_hands(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.write_all(&greeting())?;
    let mut theirs = [0; GREETING_BYTES];
    stream.read_exact(&mut theirs)?;
    if theirs[0] != 0xff || theirs[9] & 1 == 0 || theirs[10] < 3 {
        return Err(refused("ZMTP 3.0 or later", &theirs[..11]));
    }
    if theirs[12..32] != greeting()[12..32] {
        return Err(refused("the mechanism NULL", &theirs[12..32]));
    }
    stream.write_all(&ready())?;
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let length = if head[0] & LONG == 0 { usize::from(head[1]) } else { MOST_COMMAND_BYTES + 1 };
    if head[0] & COMMAND == 0 || length > MOST_COMMAND_BYTES {
        return Err(refused("the command READY", &head));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    if !body.starts_with(b"\x05READY") {
        return Err(refused("the command READY", &body));
    }
    let kind = property(&body[6..], b"socket-type");
    if kind != Some(b"PULL") {
        return Err(refused("a PULL socket", kind.unwrap_or_default()));
    }
    Ok(())
}

fn refused(expected: &str, found: &[u8]) -> io::Error {
    let found = found.escape_ascii();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("expected {expected}, found '{found}'. Check what listens there"),
    )
}

/// A property of a command; names are of any case.
fn property<'a>(mut rest: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    loop {
        let (&length, after) = rest.split_first()?;
        let (name, after) = after.split_at_checked(length.into())?;
        let (length, after) = after.split_first_chunk::<4>()?;
        let (value, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = after;
    }
}

/// A message of one frame.
pub(crate) fn message(tuple: &[u8]) -> Wrapped {
    let head = match u8::try_from(tuple.len()) {
        Ok(length) => vec![0, length],
        Err(_) => [&[LONG][..], &(tuple.len() as u64).to_be_bytes()].concat(),
    };
    Wrapped { head, tail: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the other end says, and what it is told.
    struct Peer {
        says: io::Cursor<Vec<u8>>,
        told: Vec<u8>,
    }

    impl Read for Peer {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.says.read(buffer)
        }
    }

    impl Write for Peer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.told.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The greeting of libzmq 4.3 is of version 3.1; its properties may come in any order.
    fn pull(kind: &str) -> Vec<u8> {
        let mut says = greeting().to_vec();
        says[11] = 1;
        let mut body = b"\x05READY\x08Identity\0\0\0\0\x0bSocket-Type\0\0\0".to_vec();
        body.push(kind.len() as u8);
        body.extend(kind.as_bytes());
        says.extend([COMMAND, body.len() as u8]);
        says.extend(body);
        says
    }

    fn shaken(says: Vec<u8>) -> Result<Vec<u8>, String> {
        let mut peer = Peer { says: io::Cursor::new(says), told: Vec::new() };
        shake_hands(&mut peer).map(|()| peer.told).map_err(|e| e.to_string())
    }

    #[test]
    fn a_pull_socket_is_told_what_it_expects_and_no_other_is_taken() {
        let told = shaken(pull("PULL")).unwrap();
        assert_eq!(told.len(), GREETING_BYTES + 2 + 6 + (1 + 11 + 4 + 4) + (1 + 8 + 4));
        assert_eq!(&told[..GREETING_BYTES], &greeting());
        assert!(shaken(pull("SUB")).unwrap_err().contains("'SUB'"));
        for (at, byte, words) in [(0, b'H', "ZMTP"), (10, 1, "ZMTP"), (12, b'C', "NULL"), (64, 0, "READY")] {
            let mut says = pull("PULL");
            says[at] = byte;
            let said = shaken(says).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
        for cut in [0, 10, 64, 66, 80] {
            assert!(shaken(pull("PULL")[..cut].to_vec()).is_err());
        }
        let mut wild = pull("PULL");
        wild[GREETING_BYTES + 2 + 6] = 0xff; // a name beyond the end
        assert!(shaken(wild).unwrap_err().contains("PULL"));
    }

    #[test]
    fn a_frame_says_its_length_in_one_byte_or_in_eight() {
        assert_eq!(message(&[1; 255]).head, [0, 255]);
        assert_eq!(message(&[1; 256]).head, [2, 0, 0, 0, 0, 0, 0, 1, 0]);
    }
}

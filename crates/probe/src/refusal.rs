//! Why a datagram was not used as evidence, and how often each reason came up.

use std::fmt;

use tickscope_tick::{Local, Reference, Tick};

/// Why a datagram was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Not as long as a datagram.
    Length {
        /// Bytes.
        found: usize,
    },
    /// Does not begin like a datagram.
    Foreign {
        /// Its first bytes.
        found: [u8; 4],
    },
    /// A version that this program does not speak.
    Version {
        /// Its version.
        found: u8,
    },
    /// A field has a value that this version never writes.
    Malformed,
    /// A reply sent to a server, or a request sent to a client.
    Kind,
    /// Belongs to another run.
    Run {
        /// The run that it names.
        found: u64,
    },
    /// From or for another node.
    Node {
        /// Its declared sender.
        from: u32,
        /// Its declared receiver.
        to: u32,
    },
    /// Its code is not the one that the key of the two nodes gives: forged, or changed on the way.
    Mac,
    /// A reply to nothing that was asked, or asked too long ago to be remembered: replayed.
    Nonce,
    /// A second one with the same nonce, or one so old that nobody remembers whether it is.
    Duplicate,
    /// A reply after the window: true, but so wide that it tells nothing.
    Late {
        /// Ticks of the client between request and reply.
        after_ticks: i128,
    },
    /// The server's counter ran backward between receiving and sending.
    ServerBackward {
        /// The server's tick after it received the request.
        t2: Tick<Local>,
        /// The server's tick before it sent the reply.
        t3: Tick<Local>,
    },
    /// The client's counter ran backward between sending and receiving.
    ClientBackward {
        /// The client's tick before it sent the request.
        t1: Tick<Reference>,
        /// The client's tick after it received the reply.
        t4: Tick<Reference>,
    },
}

impl Refusal {
    /// Every reason's name in reports, in the order of the counts.
    pub const NAMES: [&str; 13] = [
        "wrong-length",
        "foreign",
        "wrong-version",
        "malformed",
        "wrong-kind",
        "wrong-run",
        "wrong-node",
        "wrong-mac",
        "unknown-nonce",
        "duplicate",
        "late",
        "server-backward",
        "client-backward",
    ];

    /// The reason's name in reports.
    pub fn name(&self) -> &'static str {
        Self::NAMES[self.number()]
    }

    /// Whether an honest peer with a sound counter can't have caused it: worth a finding, not just a count.
    pub fn is_impossible(&self) -> bool {
        matches!(self, Refusal::ServerBackward { .. } | Refusal::ClientBackward { .. })
    }

    fn number(&self) -> usize {
        match self {
            Refusal::Length { .. } => 0,
            Refusal::Foreign { .. } => 1,
            Refusal::Version { .. } => 2,
            Refusal::Malformed => 3,
            Refusal::Kind => 4,
            Refusal::Run { .. } => 5,
            Refusal::Node { .. } => 6,
            Refusal::Mac => 7,
            Refusal::Nonce => 8,
            Refusal::Duplicate => 9,
            Refusal::Late { .. } => 10,
            Refusal::ServerBackward { .. } => 11,
            Refusal::ClientBackward { .. } => 12,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Length { found } => write!(f, "expected 64 bytes, found {found}: something else uses this port"),
            Refusal::Foreign { found } => {
                write!(
                    f,
                    "expected a datagram that begins with 'tsPR', found {found:02x?}: something else uses this port"
                )
            }
            Refusal::Version { found } => {
                write!(f, "expected version 2, found {found}: run the same tickscope on every node")
            }
            Refusal::Malformed => f.write_str(
                "expected kind and stamps as version 2 writes them, found others: forged, damaged, or of another \
                 tickscope",
            ),
            Refusal::Kind => {
                f.write_str("expected the other kind of datagram, found this node's own: it was reflected")
            }
            Refusal::Run { found } => {
                write!(f, "expected this run's datagrams, found run {found:#x}: stop the agents of earlier runs")
            }
            Refusal::Node { from, to } => {
                write!(
                    f,
                    "expected a datagram between these two nodes, found one from {from} to {to}: check the addresses"
                )
            }
            Refusal::Mac => f.write_str(
                "expected the code that the key of the two nodes gives, found another: forged, or changed on the way",
            ),
            Refusal::Nonce => f.write_str(
                "expected the nonce of an outstanding request, found another: replayed, or its request was given up as \
                 lost",
            ),
            Refusal::Duplicate => f.write_str("expected each nonce once, found it again: duplicated or replayed"),
            Refusal::Late { after_ticks } => {
                write!(
                    f,
                    "expected a reply within the window, found one after {after_ticks} ticks: widen the window to use \
                     it"
                )
            }
            Refusal::ServerBackward { t2, t3 } => write!(
                f,
                "expected the server's tick t3 not before t2, found t2 {t2} and t3 {t3}: its counter is unsound; \
                 check that its processors share one"
            ),
            Refusal::ClientBackward { t1, t4 } => write!(
                f,
                "expected the client's tick t4 not before t1, found t1 {t1} and t4 {t4}: its counter is unsound; check \
                 that its processors share one"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// Count of each reason, and the first impossible ones with their stamps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refusals {
    counts: [u64; Refusal::NAMES.len()],
    impossible: Vec<Refusal>,
}

impl Refusals {
    /// Impossible datagrams kept with their stamps; the others are only counted.
    pub const IMPOSSIBLE_MAX: usize = 16;

    /// Counts one, and hands it back.
    pub(crate) fn count(&mut self, refusal: Refusal) -> Refusal {
        self.counts[refusal.number()] += 1;
        if refusal.is_impossible() && self.impossible.len() < Self::IMPOSSIBLE_MAX {
            self.impossible.push(refusal);
        }
        refusal
    }

    /// Adds what another end of the same node refused.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        let room = Self::IMPOSSIBLE_MAX - self.impossible.len();
        self.impossible.extend(other.impossible.iter().take(room));
    }

    /// Every reason's name with how often it came up.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::NAMES.into_iter().zip(self.counts)
    }

    /// Count of the reason of that name; 0 for a name that is none.
    pub fn of(&self, name: &str) -> u64 {
        self.counts().find(|(other, _)| *other == name).map_or(0, |(_, count)| count)
    }

    /// Number of refused datagrams.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The first few that no honest peer with a sound counter can have caused.
    pub fn impossible(&self) -> &[Refusal] {
        &self.impossible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> [Refusal; 13] {
        [
            Refusal::Length { found: 3 },
            Refusal::Foreign { found: [1; 4] },
            Refusal::Version { found: 9 },
            Refusal::Malformed,
            Refusal::Kind,
            Refusal::Run { found: 9 },
            Refusal::Node { from: 1, to: 2 },
            Refusal::Mac,
            Refusal::Nonce,
            Refusal::Duplicate,
            Refusal::Late { after_ticks: 7 },
            Refusal::ServerBackward { t2: Tick::new(77), t3: Tick::new(66) },
            Refusal::ClientBackward { t1: Tick::new(55), t4: Tick::new(44) },
        ]
    }

    #[test]
    fn every_reason_is_counted_under_its_own_name() {
        let mut refusals = Refusals::default();
        for (position, refusal) in every().into_iter().enumerate() {
            (0..=position).for_each(|_| {
                refusals.count(refusal);
            });
        }
        let expected: Vec<_> = Refusal::NAMES.into_iter().zip(1..).collect();
        assert_eq!(refusals.counts().collect::<Vec<_>>(), expected);
        assert_eq!((refusals.of("duplicate"), refusals.of("none such"), refusals.total()), (10, 0, 91));
    }

    #[test]
    fn only_the_impossible_is_kept_with_its_stamps_and_not_without_end() {
        let mut refusals = Refusals::default();
        for refusal in every().into_iter().cycle().take(13 * 100) {
            refusals.count(refusal);
        }
        assert_eq!(refusals.impossible().len(), Refusals::IMPOSSIBLE_MAX);
        let sentences: Vec<String> = refusals.impossible()[..2].iter().map(Refusal::to_string).collect();
        assert!(sentences[0].contains("t2 77 and t3 66") && sentences[1].contains("t1 55 and t4 44"), "{sentences:?}");
    }
}

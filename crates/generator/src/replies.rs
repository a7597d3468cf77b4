//! What comes back: read by a thread of its own, stamped, counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tickscope_stamp::{Channel, Fields, Ordering};

use crate::frames::{IdPlace, Share};
use crate::link::{Link, Took};
use crate::{Replies, http, kafka};

const BUFFER_BYTES: usize = 256 << 10;
/// Of one reply.
const MOST_BYTES: usize = 64 << 20;

/// What is known of a sender while it sends.
#[derive(Default)]
pub(crate) struct Progress {
    /// Tuples that were given to the socket, or are just about to be.
    pub sent: AtomicU64,
    /// Nothing more is sent.
    pub done: AtomicBool,
    /// Replies are not waited for any more.
    pub over: AtomicBool,
}

/// Replies of a sender: each is of a tuple that had none before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ReplyCounts {
    pub replies: u64,
    /// Those that say that the target did not take the tuple.
    pub refused: u64,
    /// Those that belong to no tuple that was sent.
    pub strange: u64,
}

/// One reply.
struct Reply {
    length: usize,
    /// Whether it says that all went well.
    well: bool,
    /// How many tuples it is for.
    tuples: u64,
}

/// Replies as they come.
pub(crate) struct Reader<'a> {
    pub link: Link,
    pub form: Replies,
    pub tuple_bytes: usize,
    pub id: Option<IdPlace>,
    pub share: Share,
    pub progress: &'a Progress,
    pub channel: Channel,
    /// Where refusals are stamped, from the first on: they are no replies of work that was done.
    pub refusals: Option<Channel>,
    /// By place, a bit a tuple of this sender: those whose echo came.
    pub echoed: Vec<u64>,
}

impl Reader<'_> {
    /// Reads until each tuple has its reply, the target ends, or nobody waits any more; an error is why they cannot be
    /// told apart.
    pub fn read(&mut self) -> (ReplyCounts, Option<String>) {
        let (mut counts, mut buffer, mut filled) = (ReplyCounts::default(), vec![0; BUFFER_BYTES], 0);
        loop {
            let done = self.progress.done.load(Relaxed);
            if self.progress.over.load(Relaxed) || done && counts.replies >= self.progress.sent.load(Relaxed) {
                return (counts, None);
            }
            if filled == buffer.len() {
                if filled >= MOST_BYTES {
                    let why = format!(
                        "expected a reply of at most {MOST_BYTES} bytes, found a longer one. Check what listens there"
                    );
                    return (counts, Some(why));
                }
                buffer.resize(2 * filled, 0);
            }
            match self.link.read(&mut buffer[filled..]) {
                Ok(Took::Nothing) => _ = self.link.wait_readable(),
                Ok(Took::Bytes(0)) if !self.link.takes_one_by_one() => return (counts, None),
                Ok(Took::Bytes(bytes)) => filled += bytes,
                Err(_) => return (counts, None), // the sender meets it too, and says what was lost
            }
            match self.take(&buffer[..filled], &mut counts) {
                // A datagram that is no reply whole is none.
                Ok(taken) if self.link.takes_one_by_one() => {
                    counts.strange += u64::from(taken < filled);
                    filled = 0;
                }
                Ok(taken) => {
                    buffer.copy_within(taken..filled, 0);
                    filled -= taken;
                }
                Err(why) => return (counts, Some(why)),
            }
        }
    }

    /// Takes the replies that are whole; answers how many bytes they were.
    fn take(&mut self, bytes: &[u8], counts: &mut ReplyCounts) -> Result<usize, String> {
        let mut at = 0;
        while let Some(Reply { length, well, tuples }) = self.reply(&bytes[at..], counts.replies)? {
            counts.strange += u64::from(tuples == 0);
            for _ in 0..tuples {
                let id = self.id_of(&bytes[at..at + length], counts.replies);
                match id.filter(|_| counts.replies < self.progress.sent.load(Relaxed)) {
                    Some(id) => {
                        if well { &self.channel } else { self.refusals()? }.stamp(id);
                        counts.replies += 1;
                        counts.refused += u64::from(!well);
                    }
                    None => counts.strange += 1,
                }
            }
            at += length;
        }
        Ok(at)
    }

    fn refusals(&mut self) -> Result<&Channel, String> {
        if self.refusals.is_none() {
            let opened = Channel::open("refused", Ordering::After, Fields::Slim).map_err(|why| why.to_string())?;
            self.refusals = Some(opened);
        }
        Ok(self.refusals.as_ref().expect("just opened"))
    }

    /// The first reply, where so many tuples had theirs before it.
    fn reply(&self, bytes: &[u8], before: u64) -> Result<Option<Reply>, String> {
        let of_one = |(length, well)| Reply { length, well, tuples: 1 };
        Ok(match self.form {
            Replies::Http => http::response(bytes)?.map(of_one),
            Replies::Lines => {
                let end = bytes.iter().position(|&byte| byte == b'\n');
                end.map(|end| of_one((end + 1, !bytes.starts_with(b"-"))))
            }
            Replies::Acknowledged => kafka::answer(bytes)?.map(|answer| Reply {
                length: answer.bytes,
                well: answer.well,
                tuples: kafka::since(answer.tuples, before),
            }),
            _ => (bytes.len() >= self.tuple_bytes).then_some(of_one((self.tuple_bytes, true))),
        })
    }

    /// The id of the tuple that a reply is for: it says so, or they come in order. `None`: of none that was sent, or of
    /// one whose echo came before.
    fn id_of(&mut self, reply: &[u8], number: u64) -> Option<i64> {
        let (Replies::Echo, Some(place)) = (self.form, self.id) else { return Some(self.share.id(number)) };
        let id = place.read(reply)?;
        let own = self.share.number_of(id).filter(|own| *own < self.progress.sent.load(Relaxed))?;
        let (word, bit) = (usize::try_from(own / 64).ok()?, 1 << (own % 64));
        if self.echoed.len() <= word {
            self.echoed.resize(word + 1, 0);
        }
        let is_first = self.echoed[word] & bit == 0;
        self.echoed[word] |= bit;
        is_first.then_some(id)
    }
}

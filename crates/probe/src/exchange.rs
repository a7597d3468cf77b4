//! The exchange that turns a round trip between two hosts into two brackets; no clock and no socket in it.
//!
//! The client draws a nonce, reads t1 and sends; the server reads t2 on arrival and t3 on departure; the client reads
//! t4. The request alone says that t2 happened after t1, the reply alone that t3 happened before t4. They stay two
//! one-sided brackets, so that the fastest of each direction counts, from whichever exchange.
//!
//! Assumes stamps taken in order: t1 and t3 `before` the datagram could leave, t2 and t4 `after` it was seen; and an
//! honest peer, who keeps the pair's key. Guarantees: only the first reply to an outstanding request of this run,
//! between these two nodes, written by who has their key, within the window, becomes evidence; everything else is
//! refused with a counted reason and changes nothing. A request is answered once. Memory is bounded whatever the
//! network does. Delay, loss, duplication, reordering, forging and replaying can widen what follows, not falsify it.

use std::collections::{BTreeMap, VecDeque};

use tickscope_bracket::Bracket;
use tickscope_tick::{Local, Reference, Tick};

use crate::datagram::{Datagram, LENGTH, Message, NodeId, Nonce, RunId};
use crate::key::PairKey;
use crate::replay::Replays;
use crate::{Refusal, Refusals};

/// The four stamps of one round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// The client, before the request could leave.
    pub t1: Tick<Reference>,
    /// The server, after it saw the request.
    pub t2: Tick<Local>,
    /// The server, before the reply could leave.
    pub t3: Tick<Local>,
    /// The client, after it saw the reply.
    pub t4: Tick<Reference>,
}

impl Exchange {
    /// The orderings of the stamps of both, as the run's files have it: before and after the message.
    pub const ORDERING: &str = "before/after";

    /// Bracket that the request proves: t2 happened after t1.
    pub fn request_bracket(&self) -> Bracket {
        Bracket { before: Some(self.t1), at: self.t2, after: None }
    }

    /// Bracket that the reply proves: t3 happened before t4.
    pub fn reply_bracket(&self) -> Bracket {
        Bracket { before: None, at: self.t3, after: Some(self.t4) }
    }

    /// Ticks of the client from t1 to t4, the server's turnaround included.
    pub fn round_trip_ticks(&self) -> i64 {
        (self.t4 - self.t1).get()
    }
}

/// The two ends of an exchange, and the run it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parties {
    /// The run.
    pub run: RunId,
    /// The node that asks; its counter is the reference.
    pub client: NodeId,
    /// The node that answers.
    pub server: NodeId,
}

/// Settings of a client: the exchanges that it remembers, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Requests that may be outstanding; one more gives up the oldest as lost. 0 acts as 1.
    pub outstanding_max: usize,
    /// Ticks of the client after which a reply is late.
    pub window_ticks: i64,
}

impl Memory {
    /// One second at the counter's frequency, and as many requests as a fast schedule has under way in it.
    pub fn of_a_second(counter_hertz: u64) -> Self {
        Self { outstanding_max: 1024, window_ticks: i64::try_from(counter_hertz).unwrap_or(i64::MAX) }
    }
}

/// The side that asks.
#[derive(Clone, Debug)]
pub struct Client {
    parties: Parties,
    key: PairKey,
    memory: Memory,
    /// Exchanges a second that the server affords this client, by its last reply; 0: any.
    pace: u16,
    outstanding: VecDeque<Outstanding>,
    answered: Recent,
    counts: ClientCounts,
}

/// Outcomes of the requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientCounts {
    /// Requests handed out to be sent and not withdrawn.
    pub asked: u64,
    /// Replies that became evidence.
    pub answered: u64,
    /// Requests given up: the memory was full, or [`Client::give_up`].
    pub lost: u64,
    /// Datagrams that did not become evidence.
    pub refusals: Refusals,
}

/// A request, ready to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The whole datagram.
    pub bytes: [u8; LENGTH],
    /// By which the driver tells when it was sent.
    pub nonce: Nonce,
}

/// A nonce was drawn twice: the source of randomness is broken, and replies could be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepeatedNonce(pub Nonce);

impl std::fmt::Display for RepeatedNonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "expected a nonce that was not drawn before, found {:#x} again: check the source of randomness",
            self.0.0
        )
    }
}

impl std::error::Error for RepeatedNonce {}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    nonce: Nonce,
    /// `None` until the driver has told.
    t1: Option<Tick<Reference>>,
}

impl Client {
    /// A client that has asked nothing yet; `key`: of the two nodes.
    pub fn new(parties: Parties, key: PairKey, memory: Memory) -> Self {
        let (outstanding, answered) = (VecDeque::new(), Recent::of(memory.outstanding_max));
        Self { parties, key, memory, pace: 0, outstanding, answered, counts: ClientCounts::default() }
    }

    /// Prepares a request under a `nonce` that no other request of these nodes has. Tell when it was sent by
    /// [`Client::sent`], before any reply is shown to the client; or [`Client::withdraw`] it.
    pub fn request(&mut self, nonce: Nonce) -> Result<Request, RepeatedNonce> {
        if self.answered.holds(nonce) || self.position(nonce).is_some() {
            return Err(RepeatedNonce(nonce));
        }
        if self.outstanding.len() >= self.memory.outstanding_max {
            self.counts.lost += u64::from(self.outstanding.pop_front().is_some());
        }
        self.outstanding.push_back(Outstanding { nonce, t1: None });
        self.counts.asked += 1;
        let Parties { run, client, server } = self.parties;
        let datagram = Datagram { run, nonce, from: client, to: server, message: Message::Request };
        Ok(Request { bytes: datagram.encode(&self.key), nonce })
    }

    /// Notes that a request was sent, and what the counter read `before` that.
    pub fn sent(&mut self, nonce: Nonce, t1: Tick<Reference>) {
        if let Some(position) = self.position(nonce) {
            self.outstanding[position].t1 = Some(t1);
        }
    }

    /// Forgets a request that could not be sent.
    pub fn withdraw(&mut self, nonce: Nonce) {
        if let Some(position) = self.position(nonce) {
            self.outstanding.remove(position);
            self.counts.asked -= 1;
        }
    }

    /// Takes what arrived, seen at t4: evidence, or why not.
    pub fn reply(&mut self, bytes: &[u8], t4: Tick<Reference>) -> Result<Exchange, Refusal> {
        match self.admit(bytes, t4) {
            Ok(exchange) => {
                self.counts.answered += 1;
                Ok(exchange)
            }
            Err(refusal) => Err(self.counts.refusals.count(refusal)),
        }
    }

    fn admit(&mut self, bytes: &[u8], t4: Tick<Reference>) -> Result<Exchange, Refusal> {
        let datagram = Datagram::decode(bytes)?;
        let Message::Reply { t2, t3, pace } = datagram.message else { return Err(Refusal::Kind) };
        let Parties { run, client, server } = self.parties;
        belongs(&datagram, run, Some(server), client)?;
        Datagram::authenticate(bytes, &self.key)?;
        if self.answered.holds(datagram.nonce) {
            return Err(Refusal::Duplicate);
        }
        let t1 = self.settle(datagram.nonce).ok_or(Refusal::Nonce)?;
        if t3 < t2 {
            return Err(Refusal::ServerBackward { t2, t3 });
        }
        if t4 < t1 {
            return Err(Refusal::ClientBackward { t1, t4 });
        }
        let after_ticks = i128::from(t4.get()) - i128::from(t1.get());
        if after_ticks > i128::from(self.memory.window_ticks) {
            return Err(Refusal::Late { after_ticks });
        }
        self.pace = pace;
        Ok(Exchange { t1, t2, t3, t4 })
    }

    /// Takes the request with that nonce, if it was sent, out of the outstanding ones: a second reply finds nothing.
    fn settle(&mut self, nonce: Nonce) -> Option<Tick<Reference>> {
        let position = self.position(nonce)?;
        let t1 = self.outstanding[position].t1?;
        self.outstanding.remove(position);
        self.answered.remember(nonce);
        Some(t1)
    }

    /// Counts what is still outstanding as lost; replies to it are then refused.
    pub fn give_up(&mut self) {
        self.counts.lost += self.outstanding.len() as u64;
        self.outstanding.clear();
    }

    /// Exchanges a second that the server affords this client, by its last reply; 0: any.
    pub fn pace(&self) -> u16 {
        self.pace
    }

    /// Requests under way.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Outcomes of the requests so far.
    pub fn counts(&self) -> &ClientCounts {
        &self.counts
    }

    /// Searched from the newest, which is nearly always the one.
    fn position(&self, nonce: Nonce) -> Option<usize> {
        self.outstanding.iter().rposition(|outstanding| outstanding.nonce == nonce)
    }
}

/// The side that answers.
#[derive(Clone, Debug)]
pub struct Server {
    run: RunId,
    node: NodeId,
    /// Whom it answers.
    clients: BTreeMap<NodeId, (PairKey, Replays)>,
    pace: u16,
    counts: ServerCounts,
}

/// Outcomes of the requests that reached a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerCounts {
    /// Requests admitted for an answer.
    pub admitted: u64,
    /// Datagrams that were not.
    pub refusals: Refusals,
}

/// A request that waits for its answer's stamp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingReply {
    key: PairKey,
    run: RunId,
    nonce: Nonce,
    from: NodeId,
    to: NodeId,
    t2: Tick<Local>,
    pace: u16,
}

impl Server {
    /// A server that answers these nodes of that run, each under the key that it has in common with them.
    pub fn new(run: RunId, node: NodeId, clients: impl IntoIterator<Item = (NodeId, PairKey)>) -> Self {
        let clients = clients.into_iter().map(|(node, key)| (node, (key, Replays::default()))).collect();
        Self { run, node, clients, pace: 0, counts: ServerCounts::default() }
    }

    /// Tells each client from now on how many exchanges a second it affords him; 0: any.
    pub fn set_pace(&mut self, hertz: u16) {
        self.pace = hertz;
    }

    /// Takes what arrived, seen at t2: a reply that waits for t3, or why there is none.
    pub fn request(&mut self, bytes: &[u8], t2: Tick<Local>) -> Result<PendingReply, Refusal> {
        match self.admit(bytes) {
            Ok((Datagram { run, nonce, from, .. }, key)) => {
                self.counts.admitted += 1;
                Ok(PendingReply { key, run, nonce, from: self.node, to: from, t2, pace: self.pace })
            }
            Err(refusal) => Err(self.counts.refusals.count(refusal)),
        }
    }

    fn admit(&mut self, bytes: &[u8]) -> Result<(Datagram, PairKey), Refusal> {
        let datagram = Datagram::decode(bytes)?;
        if datagram.message != Message::Request {
            return Err(Refusal::Kind);
        }
        belongs(&datagram, self.run, None, self.node)?;
        let stranger = Refusal::Node { from: datagram.from.0, to: datagram.to.0 };
        let (key, replays) = self.clients.get_mut(&datagram.from).ok_or(stranger)?;
        Datagram::authenticate(bytes, key)?;
        if !replays.admit(datagram.nonce) {
            return Err(Refusal::Duplicate);
        }
        Ok((datagram, key.clone()))
    }

    /// Outcomes of the requests so far.
    pub fn counts(&self) -> &ServerCounts {
        &self.counts
    }
}

impl PendingReply {
    /// The reply, with what the counter read right before it is sent.
    pub fn at(&self, t3: Tick<Local>) -> [u8; LENGTH] {
        let Self { run, nonce, from, to, t2, pace, .. } = *self;
        Datagram { run, nonce, from, to, message: Message::Reply { t2, t3, pace } }.encode(&self.key)
    }
}

/// Refuses what is of another run, or not between `from` (`None`: anyone) and `to`.
fn belongs(datagram: &Datagram, run: RunId, from: Option<NodeId>, to: NodeId) -> Result<(), Refusal> {
    if datagram.run != run {
        return Err(Refusal::Run { found: datagram.run.0 });
    }
    if datagram.to != to || from.is_some_and(|from| datagram.from != from) {
        return Err(Refusal::Node { from: datagram.from.0, to: datagram.to.0 });
    }
    Ok(())
}

/// The nonces seen last, so many of them.
#[derive(Clone, Debug)]
struct Recent {
    nonces: VecDeque<Nonce>,
    max: usize,
}

impl Recent {
    fn of(max: usize) -> Self {
        Self { nonces: VecDeque::new(), max }
    }

    fn holds(&self, nonce: Nonce) -> bool {
        self.nonces.contains(&nonce)
    }

    fn remember(&mut self, nonce: Nonce) {
        if self.nonces.len() >= self.max {
            self.nonces.pop_front();
        }
        self.nonces.push_back(nonce);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTIES: Parties = Parties { run: RunId(5), client: NodeId(1), server: NodeId(2) };
    const MEMORY: Memory = Memory { outstanding_max: 4, window_ticks: 1000 };

    fn tick<D>(count: i64) -> Tick<D> {
        Tick::new(count)
    }

    fn key() -> PairKey {
        PairKey::new([3; 32])
    }

    fn client() -> Client {
        Client::new(PARTIES, key(), MEMORY)
    }

    fn server() -> Server {
        Server::new(PARTIES.run, PARTIES.server, [(PARTIES.client, key())])
    }

    /// Asks at t1 = 100 and returns the server's answer with t2 = 7, t3 = 9.
    fn asked(client: &mut Client, nonce: u64) -> [u8; LENGTH] {
        let request = client.request(Nonce(nonce)).unwrap();
        client.sent(request.nonce, tick(100));
        server().request(&request.bytes, tick(7)).unwrap().at(tick(9))
    }

    fn reply_with(change: impl Fn(&mut Datagram)) -> [u8; LENGTH] {
        let message = Message::Reply { t2: tick(7), t3: tick(9), pace: 0 };
        let mut datagram = Datagram { run: RunId(5), nonce: Nonce(77), from: NodeId(2), to: NodeId(1), message };
        change(&mut datagram);
        datagram.encode(&key())
    }

    /// Outcome of receiving `bytes` while a request with nonce 77, sent at 100, is outstanding.
    fn verdict(bytes: &[u8], t4: i64) -> Result<Exchange, Refusal> {
        let mut client = client();
        asked(&mut client, 77);
        let verdict = client.reply(bytes, tick(t4));
        assert_eq!(client.counts().refusals.total(), u64::from(verdict.is_err()));
        verdict
    }

    #[test]
    fn an_exchange_is_two_one_sided_brackets_each_with_the_stamps_of_its_own_message() {
        let exchange = verdict(&reply_with(|_| {}), 120).unwrap();
        assert_eq!(exchange, Exchange { t1: tick(100), t2: tick(7), t3: tick(9), t4: tick(120) });
        let (request, reply) = (exchange.request_bracket(), exchange.reply_bracket());
        assert_eq!((request.before, request.at, request.after), (Some(tick(100)), tick(7), None));
        assert_eq!((reply.before, reply.at, reply.after), (None, tick(9), Some(tick(120))));
        assert_eq!(exchange.round_trip_ticks(), 20);
    }

    #[test]
    fn a_duplicate_reply_is_refused() {
        let mut client = client();
        let reply = asked(&mut client, 77);
        assert!(client.reply(&reply, tick(120)).is_ok());
        assert_eq!(client.reply(&reply, tick(121)), Err(Refusal::Duplicate));
        assert_eq!((client.counts().answered, client.counts().refusals.of("duplicate")), (1, 1));
    }

    #[test]
    fn a_reply_to_nothing_that_was_asked_is_refused() {
        assert_eq!(verdict(&reply_with(|reply| reply.nonce = Nonce(78)), 120), Err(Refusal::Nonce));
    }

    #[test]
    fn a_reply_to_a_request_that_was_never_sent_is_refused() {
        let mut client = client();
        client.request(Nonce(77)).unwrap();
        assert_eq!(client.reply(&reply_with(|_| {}), tick(120)), Err(Refusal::Nonce));
    }

    #[test]
    fn another_runs_reply_is_refused() {
        assert_eq!(verdict(&reply_with(|reply| reply.run = RunId(6)), 120), Err(Refusal::Run { found: 6 }));
    }

    #[test]
    fn a_reply_between_other_nodes_is_refused() {
        let strangers: [fn(&mut Datagram); 2] = [|reply| reply.from = NodeId(3), |reply| reply.to = NodeId(3)];
        for stranger in strangers {
            assert!(matches!(verdict(&reply_with(stranger), 120), Err(Refusal::Node { .. })));
        }
    }

    #[test]
    fn a_request_that_is_reflected_is_no_reply() {
        assert_eq!(verdict(&reply_with(|reply| reply.message = Message::Request), 120), Err(Refusal::Kind));
    }

    #[test]
    fn a_reply_is_late_beyond_the_window_and_not_at_it() {
        assert!(verdict(&reply_with(|_| {}), 1100).is_ok());
        assert_eq!(verdict(&reply_with(|_| {}), 1101), Err(Refusal::Late { after_ticks: 1001 }));
    }

    #[test]
    fn counters_that_ran_backward_are_refused_with_both_stamps_and_equal_ones_are_not() {
        let reply = |t3| reply_with(|reply| reply.message = Message::Reply { t2: tick(7), t3: tick(t3), pace: 0 });
        assert!(verdict(&reply(7), 100).is_ok());
        assert_eq!(verdict(&reply(6), 120), Err(Refusal::ServerBackward { t2: tick(7), t3: tick(6) }));
        assert_eq!(verdict(&reply(7), 99), Err(Refusal::ClientBackward { t1: tick(100), t4: tick(99) }));
    }

    #[test]
    fn ticks_at_the_ends_of_their_range_are_refused_without_overflow() {
        let message = Message::Reply { t2: tick(i64::MIN), t3: tick(i64::MAX), pace: 0 };
        let extreme = reply_with(|reply| reply.message = message);
        let mut client = client();
        client.request(Nonce(77)).unwrap();
        client.sent(Nonce(77), tick(i64::MIN));
        assert!(matches!(client.reply(&extreme, tick(i64::MAX)), Err(Refusal::Late { .. })));
    }

    #[test]
    fn one_request_more_than_the_memory_holds_gives_up_the_oldest_as_lost() {
        let mut client = client();
        let replies: Vec<_> = (0..5).map(|nonce| asked(&mut client, nonce)).collect();
        assert_eq!((client.outstanding(), client.counts().lost), (4, 1));
        assert_eq!(client.reply(&replies[0], tick(120)), Err(Refusal::Nonce));
        assert!(client.reply(&replies[1], tick(120)).is_ok());
        client.give_up();
        assert_eq!((client.outstanding(), client.counts().lost, client.counts().asked), (0, 4, 5));
    }

    #[test]
    fn a_withdrawn_request_was_never_asked() {
        let mut client = client();
        let reply = asked(&mut client, 77);
        client.withdraw(Nonce(77));
        assert_eq!(client.reply(&reply, tick(120)), Err(Refusal::Nonce));
        assert_eq!((client.counts().asked, client.counts().lost), (0, 0));
    }

    #[test]
    fn a_nonce_is_not_drawn_twice() {
        let mut client = client();
        let reply = asked(&mut client, 77);
        assert_eq!(client.request(Nonce(77)), Err(RepeatedNonce(Nonce(77))));
        client.reply(&reply, tick(120)).unwrap();
        assert_eq!(client.request(Nonce(77)), Err(RepeatedNonce(Nonce(77))));
    }

    #[test]
    fn a_reply_under_another_key_is_refused_and_takes_nothing_from_the_true_one() {
        let mut client = client();
        let reply = asked(&mut client, 77);
        let forged = Datagram::decode(&reply).unwrap().encode(&PairKey::new([4; 32]));
        assert_eq!(client.reply(&forged, tick(110)), Err(Refusal::Mac));
        for byte in [5, 6, 16, 24, 28, 32, 40, 48, 63] {
            let mut changed = reply;
            changed[byte] ^= 1;
            assert!(client.reply(&changed, tick(110)).is_err(), "byte {byte}");
        }
        assert_eq!(client.reply(&reply, tick(120)).map(|exchange| exchange.t4), Ok(tick(120)));
        assert_eq!(client.counts().refusals.of("wrong-mac"), 7);
    }

    #[test]
    fn a_request_that_is_turned_into_a_reply_is_refused() {
        let mut client = client();
        let request = client.request(Nonce(77)).unwrap();
        client.sent(request.nonce, tick(100));
        let mut turned = Datagram::decode(&request.bytes).unwrap();
        (turned.from, turned.to) = (turned.to, turned.from);
        turned.message = Message::Reply { t2: tick(0), t3: tick(0), pace: 0 };
        let mut bytes = turned.encode(&PairKey::new([0; 32]));
        bytes[48..].copy_from_slice(&request.bytes[48..]);
        assert_eq!(client.reply(&bytes, tick(120)), Err(Refusal::Mac));
    }

    #[test]
    fn the_pace_of_the_last_reply_is_kept() {
        let (mut client, mut server) = (client(), server());
        for (nonce, pace) in [(1, 7), (2, 0), (3, u16::MAX)] {
            server.set_pace(pace);
            let request = client.request(Nonce(nonce)).unwrap();
            client.sent(request.nonce, tick(100));
            let reply = server.request(&request.bytes, tick(7)).unwrap().at(tick(9));
            client.reply(&reply, tick(120)).unwrap();
            assert_eq!(client.pace(), pace);
        }
    }

    #[test]
    fn a_server_answers_each_request_of_its_run_once() {
        let mut server = server();
        let sealed = |change: fn(&mut Datagram), key: &PairKey| {
            let message = Message::Request;
            let mut request = Datagram { run: RunId(5), nonce: Nonce(1), from: NodeId(1), to: NodeId(2), message };
            change(&mut request);
            request.encode(key)
        };
        let request = |change| sealed(change, &key());
        let mut refusal = |bytes: &[u8]| server.request(bytes, tick(0)).err();
        assert_eq!(refusal(&request(|r| r.run = RunId(6))), Some(Refusal::Run { found: 6 }));
        assert_eq!(refusal(&request(|r| r.to = NodeId(9))), Some(Refusal::Node { from: 1, to: 9 }));
        assert_eq!(refusal(&request(|r| r.from = NodeId(9))), Some(Refusal::Node { from: 9, to: 2 }));
        assert_eq!(refusal(&reply_with(|r| r.to = NodeId(2))), Some(Refusal::Kind));
        assert_eq!(refusal(&sealed(|_| {}, &PairKey::new([4; 32]))), Some(Refusal::Mac));
        assert_eq!(refusal(&request(|_| {})), None, "what was refused before took nothing from it");
        assert_eq!(refusal(&request(|_| {})), Some(Refusal::Duplicate));
        assert_eq!(server.counts().admitted, 1);
    }
}

//! The exchange that turns a round trip between two hosts into two brackets; no clock and no socket in it.
//!
//! The client draws a nonce, reads t1 and sends; the server reads t2 on arrival and t3 on departure; the client reads
//! t4. The request alone says that t2 happened after t1, the reply alone that t3 happened before t4. They stay two
//! one-sided brackets, so that the fastest of each direction counts, from whichever exchange.
//!
//! Assumes stamps taken in order: t1 and t3 `before` the datagram could leave, t2 and t4 `after` it was seen; and an
//! honest peer. Guarantees: only the first reply to an outstanding request of this run, between these two nodes, within
//! the window, becomes evidence; everything else is refused with a counted reason. Memory is bounded whatever the
//! network does. Delay, loss, duplication and reordering can widen what follows, not falsify it. Deliberately absent:
//! a defence against who can *read* the requests and forge a reply before the true one: that needs the MAC that
//! [`crate::datagram`] leaves room for.

use std::collections::VecDeque;

use tickscope_bracket::Bracket;
use tickscope_tick::{Local, Reference, Tick};

use crate::datagram::{Datagram, LENGTH, Message, NodeId, Nonce, RunId};
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
    memory: Memory,
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
    /// A client that has asked nothing yet.
    pub fn new(parties: Parties, memory: Memory) -> Self {
        let answered = Recent::of(memory.outstanding_max);
        Self { parties, memory, outstanding: VecDeque::new(), answered, counts: ClientCounts::default() }
    }

    /// Prepares a request under an unpredictable `nonce`. Tell when it was sent by [`Client::sent`], before any reply
    /// is shown to the client; or [`Client::withdraw`] it.
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
        Ok(Request { bytes: datagram.encode(), nonce })
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
        let Message::Reply { t2, t3 } = datagram.message else { return Err(Refusal::Kind) };
        let Parties { run, client, server } = self.parties;
        belongs(&datagram, run, Some(server), client)?;
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
    asked: Recent,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingReply {
    run: RunId,
    nonce: Nonce,
    from: NodeId,
    to: NodeId,
    t2: Tick<Local>,
}

impl Server {
    /// Nonces remembered, to refuse a request that is duplicated or replayed soon after.
    pub const REMEMBERED: usize = 256;

    /// A server that answers any client of that run.
    pub fn new(run: RunId, node: NodeId) -> Self {
        Self { run, node, asked: Recent::of(Self::REMEMBERED), counts: ServerCounts::default() }
    }

    /// Takes what arrived, seen at t2: a reply that waits for t3, or why there is none.
    pub fn request(&mut self, bytes: &[u8], t2: Tick<Local>) -> Result<PendingReply, Refusal> {
        match self.admit(bytes) {
            Ok(Datagram { run, nonce, from, .. }) => {
                self.counts.admitted += 1;
                Ok(PendingReply { run, nonce, from: self.node, to: from, t2 })
            }
            Err(refusal) => Err(self.counts.refusals.count(refusal)),
        }
    }

    fn admit(&mut self, bytes: &[u8]) -> Result<Datagram, Refusal> {
        let datagram = Datagram::decode(bytes)?;
        if datagram.message != Message::Request {
            return Err(Refusal::Kind);
        }
        belongs(&datagram, self.run, None, self.node)?;
        if self.asked.holds(datagram.nonce) {
            return Err(Refusal::Duplicate);
        }
        self.asked.remember(datagram.nonce);
        Ok(datagram)
    }

    /// Outcomes of the requests so far.
    pub fn counts(&self) -> &ServerCounts {
        &self.counts
    }
}

impl PendingReply {
    /// The reply, with what the counter read right before it is sent.
    pub fn at(&self, t3: Tick<Local>) -> [u8; LENGTH] {
        let Self { run, nonce, from, to, t2 } = *self;
        Datagram { run, nonce, from, to, message: Message::Reply { t2, t3 } }.encode()
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

    fn client() -> Client {
        Client::new(PARTIES, MEMORY)
    }

    /// Asks at t1 = 100 and returns the server's answer with t2 = 7, t3 = 9.
    fn asked(client: &mut Client, nonce: u64) -> [u8; LENGTH] {
        let request = client.request(Nonce(nonce)).unwrap();
        client.sent(request.nonce, tick(100));
        let mut server = Server::new(PARTIES.run, PARTIES.server);
        server.request(&request.bytes, tick(7)).unwrap().at(tick(9))
    }

    fn reply_with(change: impl Fn(&mut Datagram)) -> [u8; LENGTH] {
        let message = Message::Reply { t2: tick(7), t3: tick(9) };
        let mut datagram = Datagram { run: RunId(5), nonce: Nonce(77), from: NodeId(2), to: NodeId(1), message };
        change(&mut datagram);
        datagram.encode()
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
        let reply = |t3| reply_with(|reply| reply.message = Message::Reply { t2: tick(7), t3: tick(t3) });
        assert!(verdict(&reply(7), 100).is_ok());
        assert_eq!(verdict(&reply(6), 120), Err(Refusal::ServerBackward { t2: tick(7), t3: tick(6) }));
        assert_eq!(verdict(&reply(7), 99), Err(Refusal::ClientBackward { t1: tick(100), t4: tick(99) }));
    }

    #[test]
    fn ticks_at_the_ends_of_their_range_are_refused_without_overflow() {
        let extreme = reply_with(|reply| reply.message = Message::Reply { t2: tick(i64::MIN), t3: tick(i64::MAX) });
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
    fn a_server_answers_each_request_of_its_run_once() {
        let mut server = Server::new(RunId(5), NodeId(2));
        let request = |change: fn(&mut Datagram)| {
            let message = Message::Request;
            let mut request = Datagram { run: RunId(5), nonce: Nonce(1), from: NodeId(1), to: NodeId(2), message };
            change(&mut request);
            request.encode()
        };
        let mut refusal = |bytes: &[u8]| server.request(bytes, tick(0)).err();
        assert_eq!(refusal(&request(|r| r.run = RunId(6))), Some(Refusal::Run { found: 6 }));
        assert_eq!(refusal(&request(|r| r.to = NodeId(9))), Some(Refusal::Node { from: 1, to: 9 }));
        assert_eq!(refusal(&reply_with(|r| r.to = NodeId(2))), Some(Refusal::Kind));
        assert_eq!(refusal(&request(|_| {})), None);
        assert_eq!(refusal(&request(|_| {})), Some(Refusal::Duplicate));
        assert_eq!(server.counts().admitted, 1);
    }
}

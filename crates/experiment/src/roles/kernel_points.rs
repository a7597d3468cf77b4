//! Points that the kernel's stamps of the probes go to, on the node that the probe's end runs on, like any program's.
//!
//! Ids are the exchanges' nonces and kinds say which two nodes' they are ([`own_points::probe_kind`]), so that both
//! ends' stamps meet as messages do; the clock's brackets are stamps too. They survive this process, are collected
//! exactly once, and become evidence only in the analysis.

use tickscope_probe::kernel::{ExchangeId, KernelCounts, KernelStamps, Passage};
use tickscope_stamp::{Channel, Extra, Fields};
use tickscope_tick::{Clock, Ordering, RealtimeInjection, own_points};

use crate::Error;

/// This process's channels for what the kernel stamps.
pub(super) struct KernelPoints {
    request_sent: Channel,
    request_received: Channel,
    reply_sent: Channel,
    reply_received: Channel,
    clock: Channel,
    injection: Option<RealtimeInjection>,
}

impl KernelPoints {
    /// Opens the channels of this node's stamp directory.
    pub(super) fn open() -> Result<Self, Error> {
        let open =
            |point, ordering| Channel::open_clock(point, Clock::Realtime, ordering, Fields::Wide).map_err(Error::work);
        Ok(Self {
            request_sent: open(own_points::PROBE_REQUEST_SENT, Ordering::Before)?,
            request_received: open(own_points::PROBE_REQUEST_RECEIVED, Ordering::After)?,
            reply_sent: open(own_points::PROBE_REPLY_SENT, Ordering::Before)?,
            reply_received: open(own_points::PROBE_REPLY_RECEIVED, Ordering::After)?,
            clock: Channel::open_bracket(Clock::Realtime).map_err(Error::work)?,
            injection: RealtimeInjection::from_environment().map_err(Error::input)?,
        })
    }
}

impl KernelStamps for KernelPoints {
    fn stamped(&mut self, passage: Passage, exchange: ExchangeId, realtime_ns: i64) {
        let channel = match passage {
            Passage::RequestSent => &self.request_sent,
            Passage::RequestReceived => &self.request_received,
            Passage::ReplySent => &self.reply_sent,
            Passage::ReplyReceived => &self.reply_received,
        };
        let read = self.injection.as_ref().map_or(realtime_ns, |map| map.apply(realtime_ns));
        let ExchangeId { client, server, nonce } = exchange;
        let kind = own_points::probe_kind(client.0, server.0);
        channel.record_with(nonce.0 as i64, read, Extra { kind, ..Extra::default() });
    }

    fn bracket(&mut self) {
        self.clock.bracket();
    }
}

/// Outcome of the kernel's stamps in words, and how many are missing.
pub(super) fn summary(counts: &KernelCounts) -> (String, u64) {
    let KernelCounts { asked, transmitted, received, unstamped, transmitted_early, received_early } = counts;
    let missing = counts.missing() + unstamped;
    let early = transmitted_early + received_early;
    let text = format!(
        "kernel stamps of {asked} sent: {transmitted}; of those received: {received}; discarded in the first 0.1 s: \
         {early}; missing: {missing}"
    );
    (text, missing)
}

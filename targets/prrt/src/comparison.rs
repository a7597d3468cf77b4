//! The roles of the program over UDP alone, TCP and QUIC, as those over PRRT.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tickscope_load::Lateness;
use tickscope_prrt::rivals::{Link, RivalSender, receive_tcp, receive_udp};
use tickscope_prrt::udp::Stopwatch;
use tickscope_prrt::{Delivery, Punctuality, filter};
use tickscope_stamp::{Channel, Fields, Ordering};

use crate::{Over, ReceiverOptions, SenderOptions, application, due_ticks, is_stopped, ns, sent_payload, socket};

/// Sends over a rival; answers its counts.
pub fn send(options: &SenderOptions) -> io::Result<serde_json::Value> {
    let clock = Stopwatch::start();
    let address = (options.address.as_str(), options.port);
    let link = match options.over {
        Over::Tcp => Link::tcp(address)?,
        Over::Quic => quic(address)?,
        _ => Link::Udp(blocking(socket(address, true)?)?),
    };
    let mut link = RivalSender::new(link).map_err(io::Error::other)?;
    let mut due = due_ticks(options, &clock)?;
    let mut lateness = Lateness::new(1_000_000);
    while let Some(next) = due.peek().filter(|_| !is_stopped()) {
        let now = clock.now();
        if now < next {
            thread::sleep(Duration::from_nanos((next - now).min(100_000_000) as u64));
            continue;
        }
        due.next();
        lateness.record(next, clock.now(), 1);
        link.submit(&sent_payload(link.submitted, options));
    }
    // What is sent again is on the wire by then.
    thread::sleep(Duration::from_nanos(ns("--deadline-ms", options.deadline_ms, 1e6)? as u64));
    let wire_bytes = link.wire_bytes()?;
    let payload_bytes = link.submitted * options.size as u64;
    let faults: Vec<String> = lateness.faults().iter().map(ToString::to_string).collect();
    Ok(json!({
        "role": "sender", "over": options.over.word(), "submitted": link.submitted,
        "refused_sends": link.refused_sends, "wire_bytes": wire_bytes,
        "overhead": wire_bytes as f64 / payload_bytes as f64 - 1.0, "schedule_faults": faults,
        "late_sends_p50_ns": lateness.quantile_ticks(500),
    }))
}

#[cfg(feature = "quic")]
fn quic(address: (&str, u16)) -> io::Result<Link> {
    tickscope_prrt::quic::QuicLink::connect(address).map(Link::Quic)
}

#[cfg(not(feature = "quic"))]
fn quic(_: (&str, u16)) -> io::Result<Link> {
    Err(without_quic())
}

#[cfg(not(feature = "quic"))]
fn without_quic() -> io::Error {
    io::Error::other("expected a prrt with QUIC, found one that was built without. Run make quic")
}

fn blocking(socket: UdpSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Receives over a rival; answers its counts.
pub fn receive(options: &ReceiverOptions) -> io::Result<serde_json::Value> {
    let address = (options.address.as_str(), options.port);
    let mut application = application(options)?;
    let open = |point: &str, ordering| Channel::open(point, ordering, Fields::Slim).map_err(io::Error::other);
    let (link_receive, hand_over) = (open("link-receive", Ordering::After)?, open("hand-over", Ordering::Before)?);
    let mut untaken = 0_u64;
    let mut hand_over_as = |id: u64, payload: Vec<u8>| {
        link_receive.stamp(id as i64);
        hand_over.stamp(id as i64);
        untaken += u64::from(!application.hand_over(Delivery {
            id,
            payload,
            recovered: false,
            punctuality: Punctuality::Undecided,
        }));
    };
    let take = |payload: Vec<u8>| {
        payload.first_chunk().into_iter().for_each(|id| hand_over_as(u64::from_be_bytes(*id), payload.clone()));
    };
    let lose = |socket: std::os::fd::BorrowedFd<'_>| options.lose.map_or(Ok(()), |share| filter::lose(socket, share));
    let mut is_reset = false;
    match options.over {
        Over::Tcp => is_reset = receive_tcp(&TcpListener::bind(address)?, is_stopped, lose, hand_over_as)?,
        #[cfg(feature = "quic")]
        Over::Quic => tickscope_prrt::quic::receive_quic(socket(address, false)?, is_stopped, lose, take)?,
        #[cfg(not(feature = "quic"))]
        Over::Quic => return Err(without_quic()),
        _ => {
            let socket = socket(address, false)?;
            lose(socket.as_fd())?;
            receive_udp(&socket, is_stopped, take)?;
        }
    }
    let taken = application.end()?;
    Ok(json!({
        "role": "receiver", "over": options.over.word(), "delivered": taken.delivered, "corrupt": taken.corrupt,
        "one_sided_clock": taken.one_sided_clock, "untaken": untaken, "reset": is_reset,
        "delay_p50_ns": taken.delay_ns(50), "delay_p99_ns": taken.delay_ns(99),
    }))
}

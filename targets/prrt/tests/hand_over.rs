//! The three ways of a payload to the application: what is taken, in which order, and what becomes of too much.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tickscope_prrt::hand_over::{Application, HandOver};
use tickscope_prrt::udp::{Stopwatch, UdpReceiver, UdpSender, Waits};
use tickscope_prrt::{
    Coding, Delivery, LossModel, LossProcess, MOST_PAYLOAD_BYTES, Punctuality, Receiver, ReceiverPlan, Sender,
    SenderPlan,
};

const WAYS: [HandOver; 3] = [HandOver::Condvar, HandOver::Spin, HandOver::Inline];
const MS: i64 = 1_000_000;
const WITHIN: Duration = Duration::from_secs(60);

fn ends(k: u8, schedule: &[u8]) -> (Sender, Receiver) {
    let coding = Coding::new(k, schedule).unwrap();
    let plan = SenderPlan { session: 7, coding, deadline_ns: 100 * MS, flush_ns: 20 * MS, pace_ns: 0 };
    let receiver = ReceiverPlan { feedback_ns: 5 * MS, reordered_ns: 2 * MS, vanished_ns: 60_000 * MS };
    (Sender::new(plan).unwrap(), Receiver::new(receiver))
}

/// Deliveries of a receiver that was sent 2000 payloads, of whose packets one in ten was lost.
fn delivered() -> Vec<Delivery> {
    let (mut sender, mut receiver) = ends(4, &[2]);
    let mut losses = LossProcess::new(LossModel::independent(0.1).unwrap(), 40);
    let (mut bytes, mut all) = (Vec::new(), Vec::new());
    for id in 0_i64..2000 {
        let now = id * MS;
        sender.submit(&id.to_be_bytes(), now).unwrap();
        sender.on_time(now);
        loop {
            while sender.transmit(now, &mut bytes).is_some() {
                if !losses.loses() {
                    receiver.handle(&bytes, now);
                }
            }
            if sender.next_to_encode().is_none() {
                break;
            }
            sender.encode();
        }
        while receiver.next_to_decode().is_some() {
            receiver.decode();
        }
        all.extend(std::iter::from_fn(|| receiver.next_delivery(now)));
    }
    let out_of_order = all.windows(2).filter(|two| two[0].id > two[1].id).count();
    assert!(all.len() > 1900 && out_of_order > 50, "{} with {out_of_order}", all.len());
    all
}

#[test]
fn all_payloads_are_taken_once_and_in_the_same_order_in_all_three_ways() {
    let deliveries = delivered();
    for way in WAYS {
        let count = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&count);
        let mut application = Application::start(way, deliveries.len(), move || {
            Ok(move |delivery, taken: &mut Vec<Delivery>| {
                taken.push(delivery);
                counts.fetch_add(1, Ordering::Relaxed);
            })
        })
        .unwrap();
        for (at, delivery) in deliveries.iter().enumerate() {
            assert!(application.hand_over(delivery.clone()), "{way:?}: room for all of them");
            // Now and then its thread has taken all there is: it has to be told of the next one.
            let until = Instant::now() + WITHIN;
            while at % 50 == 0 && count.load(Ordering::Relaxed) <= at {
                assert!(Instant::now() < until, "{way:?}: payload {at} is not taken");
                std::thread::yield_now();
            }
        }
        assert!(application.end().unwrap() == deliveries, "{way:?}");
    }
}

fn delivery(id: u64) -> Delivery {
    Delivery { id, payload: vec![id as u8], recovered: false, punctuality: Punctuality::InTime }
}

#[test]
fn a_full_ring_refuses_what_has_no_room_and_loses_nothing_that_it_took() {
    const ROOM: usize = 4;
    for way in [HandOver::Condvar, HandOver::Spin] {
        let ((began, begun), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
        let mut application = Application::start(way, ROOM, move || {
            Ok(move |delivery: Delivery, taken: &mut Vec<u64>| {
                began.send(()).unwrap();
                gone.recv().unwrap();
                taken.push(delivery.id);
            })
        })
        .unwrap();
        assert!(application.hand_over(delivery(0)));
        begun.recv().unwrap(); // it is busy with the first, and the ring is empty
        let had_room: Vec<bool> = (1..=10).map(|id| application.hand_over(delivery(id))).collect();
        assert_eq!(had_room, [[true; 4].as_slice(), &[false; 6]].concat(), "{way:?}");
        // It goes on once the transport has ended: what waits is taken all the same.
        let later = std::thread::spawn(move || {
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until {
                std::thread::yield_now();
            }
            (0..=ROOM).for_each(|_| go.send(()).unwrap());
        });
        assert_eq!(application.end().unwrap(), [0, 1, 2, 3, 4], "{way:?}");
        later.join().unwrap();
    }
}

#[test]
fn an_application_that_does_not_open_is_an_error_and_holds_up_nobody() {
    for way in WAYS {
        let refuse = || {
            let opened = Err(io::Error::other("no place for its stamps"));
            opened.map(|()| |_: Delivery, _: &mut Vec<Delivery>| ())
        };
        let started = Application::<Vec<Delivery>>::start(way, 2, refuse);
        let ended = started.and_then(|mut application| {
            let room = (0..9).filter(|id| application.hand_over(delivery(*id)));
            assert!(room.count() <= 2, "{way:?}");
            application.end()
        });
        assert_eq!(ended.unwrap_err().to_string(), "no place for its stamps", "{way:?}");
    }
}

#[test]
fn e2e_payloads_without_room_are_counted_and_all_others_come() {
    const PAYLOADS: u64 = 40;
    for way in WAYS {
        let (clock, (sender, receiver)) = (Stopwatch::start(), ends(4, &[0]));
        let [there, here] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        here.connect(there.local_addr().unwrap()).unwrap();
        there.set_nonblocking(true).unwrap();
        here.set_nonblocking(true).unwrap();
        let (go, gone) = mpsc::channel::<()>();
        let application = Application::start(way, 3, move || {
            Ok(move |delivery: Delivery, taken: &mut Vec<u64>| {
                let _ = gone.recv(); // an error once the other side lets go of all: then it is as fast as it can be
                taken.push(delivery.id);
            })
        });
        // Called on this thread, it cannot wait for this thread.
        let go = (way != HandOver::Inline).then_some(go);
        let at = (clock, Waits::Poll);
        let mut link = UdpReceiver::new(there, receiver, at, None, application.unwrap()).unwrap();
        let mut from = UdpSender::new(here, sender, clock, Waits::Poll).unwrap();
        (0..PAYLOADS).for_each(|_| {
            from.submit(|id| vec![id as u8; MOST_PAYLOAD_BYTES]).unwrap();
        });
        let until = Instant::now() + WITHIN;
        while link.receiver.counts().sources < PAYLOADS && Instant::now() < until {
            link.run().unwrap();
        }
        assert_eq!(link.receiver.counts().sources, PAYLOADS, "{way:?}");
        drop(go);
        let untaken = link.untaken;
        let taken = link.application.end().unwrap();
        assert_eq!(taken.len() as u64 + untaken, PAYLOADS, "{way:?}: {untaken} had no room");
        assert!(taken.is_sorted_by(|one, other| one < other), "{way:?}: {taken:?}");
        // Three wait, and one at most is in the application's hands.
        let expected = if way == HandOver::Inline { 0..=0 } else { PAYLOADS - 4..=PAYLOADS - 3 };
        assert!(expected.contains(&untaken), "{way:?}: {untaken}");
    }
}

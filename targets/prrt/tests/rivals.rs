//! What both ends of a rival call a payload.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

use tickscope_prrt::rivals::{Link, RivalSender, receive_tcp};

#[test]
fn e2e_a_payload_over_tcp_is_known_at_both_ends_by_where_it_ends_in_the_stream() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let payloads: Vec<Vec<u8>> =
        [8_usize, 1426, 9, 40_000, 8].iter().map(|length| vec![*length as u8; *length]).collect();
    let sending = payloads.clone();
    let sender = thread::spawn(move || {
        let mut sender = RivalSender::new(Link::tcp(("127.0.0.1", port)).unwrap()).unwrap();
        sending.iter().map(|payload| sender.submit(payload)).collect::<Vec<u64>>()
    });
    let mut came = Vec::new();
    let reset = receive_tcp(&listener, || false, |_| Ok(()), |end, payload| came.push((end, payload))).unwrap();
    assert!(!reset);
    let ends = [10, 1438, 1449, 41_451, 41_461];
    assert_eq!(sender.join().unwrap(), ends);
    assert!(came == ends.into_iter().zip(payloads).collect::<Vec<_>>());
}

#[test]
fn a_connection_that_is_reset_ends_a_receiver_with_what_it_has() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (now, bytes) = (libc::linger { l_onoff: 1, l_linger: 0 }, size_of::<libc::linger>() as u32);
    // SAFETY: the kernel reads one `linger`, which lives until the call returns, by its true length.
    let set = unsafe {
        let now = (&raw const now).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, now, bytes)
    };
    assert_eq!(set, 0);
    let reset = |_: std::os::fd::BorrowedFd<'_>| {
        drop(stream);
        Ok(())
    };
    assert!(receive_tcp(&listener, || false, reset, |_, _| panic!("nothing was sent")).unwrap());
}

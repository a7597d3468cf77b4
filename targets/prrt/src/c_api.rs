//! The functions of `include/prrt.h`, which says what each does: the state machines behind opaque pointers.
//!
//! Assumes: a pointer that is not null comes from the function that makes it and was not freed, buffers are as large as
//! the header says, an end is one thread's at a time. Guarantees: null pointers and constraints that cannot be are
//! refused, with a sentence in `prrt_error`. Deliberately absent: sockets, clocks, stamps; those are [`crate::udp`]'s.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};

use crate::{
    Coding, Constraints, Error, MOST_DATAGRAM_BYTES, MOST_PAYLOAD_BYTES, Punctuality, Receiver, ReceiverPlan, Sender,
    SenderPlan,
};

/// `struct prrt_constraints`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PrrtConstraints {
    residual_loss: f64,
    rate_bps: f64,
    deadline_ns: i64,
    detection_ns: i64,
    flush_ns: i64,
    pace_ns: i64,
}

/// `prrt_sender`.
pub struct PrrtSender {
    sender: Sender,
    constraints: Constraints,
    bytes: Vec<u8>,
}

/// `prrt_receiver`.
pub struct PrrtReceiver {
    receiver: Receiver,
    bytes: Vec<u8>,
}

thread_local! {
    static FAILED: RefCell<CString> = RefCell::default();
}

/// Keeps why a call failed, and answers what the call does.
fn fail<T>(why: &Error, answer: T) -> T {
    let text = CString::new(why.to_string()).unwrap_or_default(); // no message has a zero byte
    FAILED.with(|failed| *failed.borrow_mut() = text);
    answer
}

fn null<T>(what: &str, answer: T) -> T {
    fail(&Error::new(format!("a pointer to {what}"), "NULL", "Give what prrt.h names"), answer)
}

/// The bytes that a caller gives; `None`: a null pointer to some.
///
/// # Safety
/// `at` is null, or `bytes` bytes lie there for as long as the answer is used.
unsafe fn given<'a>(at: *const c_void, bytes: usize) -> Option<&'a [u8]> {
    match (at.is_null(), bytes) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's; nobody changes them meanwhile, since the call is synchronous.
        _ => Some(unsafe { std::slice::from_raw_parts(at.cast(), bytes) }),
    }
}

/// Copies to a caller's buffer, which `most` bytes fit into.
///
/// # Safety
/// `most` bytes may be written at `to`.
unsafe fn copied(bytes: &[u8], to: *mut c_void, most: usize) -> isize {
    assert!(bytes.len() <= most, "{} bytes for {most}", bytes.len());
    // SAFETY: the caller's buffer is at least as long, and not one of ours.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
    bytes.len() as isize
}

/// See `prrt.h`.
#[unsafe(no_mangle)]
pub extern "C" fn prrt_error() -> *const c_char {
    FAILED.with(|failed| failed.borrow().as_ptr())
}

/// See `prrt.h`.
///
/// # Safety
/// `constraints` is null, or points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_sender_new(session: u32, constraints: *const PrrtConstraints) -> *mut PrrtSender {
    let none = std::ptr::null_mut();
    // SAFETY: the caller's pointer, which is null or points to one.
    let Some(asked) = (unsafe { constraints.as_ref() }) else { return null("constraints", none) };
    match sender_of(session, asked) {
        Ok(sender) => Box::into_raw(Box::new(sender)),
        Err(why) => fail(&why, none),
    }
}

fn sender_of(session: u32, asked: &PrrtConstraints) -> Result<PrrtSender, Error> {
    let PrrtConstraints { residual_loss, rate_bps, deadline_ns, detection_ns, flush_ns, pace_ns } = *asked;
    // Not a number is in no range.
    let is_sound = residual_loss > 0.0 && residual_loss < 1.0 && (0.0..f64::INFINITY).contains(&rate_bps);
    if !is_sound || detection_ns < 0 {
        let expected = "a residual_loss above 0 and below 1, and a rate_bps and a detection_ns of 0 or more";
        let found = format!("{residual_loss}, {rate_bps} and {detection_ns}");
        return Err(Error::new(expected, found, "A rate_bps of 0 says that nothing limits it"));
    }
    let coding = Coding::new(4, &[1, 1, 2])?;
    let sender = Sender::new(SenderPlan { session, coding, deadline_ns, flush_ns, pace_ns })?;
    let rate_bps = if rate_bps == 0.0 { f64::INFINITY } else { rate_bps };
    let constraints = Constraints { residual_loss, rate_bps, detection_ns: detection_ns as f64 };
    Ok(PrrtSender { sender, constraints, bytes: Vec::with_capacity(MOST_DATAGRAM_BYTES) })
}

/// See `prrt.h`.
///
/// # Safety
/// `sender` is null, or of `prrt_sender_new` and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_sender_free(sender: *mut PrrtSender) {
    if !sender.is_null() {
        // SAFETY: `prrt_sender_new` made it of a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(sender) });
    }
}

/// See `prrt.h`.
///
/// # Safety
/// `sender` is null or alive, and `bytes` bytes lie at `payload`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_submit(sender: *mut PrrtSender, payload: *const c_void, bytes: usize, now: i64) -> i64 {
    // SAFETY: the caller's pointers, alive and nobody else's meanwhile.
    let (sender, payload) = unsafe { (sender.as_mut(), given(payload, bytes)) };
    let (Some(end), Some(payload)) = (sender, payload) else { return null("a sender, and to a payload", -1) };
    end.sender.submit(payload, now).map_or_else(|why| fail(&why, -1), |id| id as i64)
}

/// See `prrt.h`.
///
/// # Safety
/// `sender` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_flush(sender: *mut PrrtSender) -> c_int {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(end) = (unsafe { sender.as_mut() }) else { return null("a sender", -1) };
    end.sender.flush();
    0
}

/// See `prrt.h`.
///
/// # Safety
/// `sender` is null or alive, and a datagram fits at `datagram`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_transmit(sender: *mut PrrtSender, now: i64, datagram: *mut c_void) -> isize {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(PrrtSender { sender, bytes, .. }) = (unsafe { sender.as_mut() }).filter(|_| !datagram.is_null()) else {
        return null("a sender, and to a datagram", -1);
    };
    sender.on_time(now);
    while sender.transmit(now, bytes).is_none() {
        if sender.next_to_encode().is_none() {
            return 0;
        }
        sender.encode(); // once all payloads that wait have left, or while they are paced
    }
    // SAFETY: the caller's buffer, as large as the header says.
    unsafe { copied(bytes, datagram, MOST_DATAGRAM_BYTES) }
}

/// See `prrt.h`.
///
/// # Safety
/// `sender` is null or alive, and `bytes` bytes lie at `datagram`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_sender_handle(
    sender: *mut PrrtSender,
    datagram: *const c_void,
    bytes: usize,
    now: i64,
) -> c_int {
    // SAFETY: the caller's pointers, alive and nobody else's meanwhile.
    let (sender, datagram) = unsafe { (sender.as_mut(), given(datagram, bytes)) };
    let (Some(end), Some(datagram)) = (sender, datagram) else { return null("a sender, and to a datagram", -1) };
    end.sender.handle(datagram, now).is_some().into()
}

/// See `prrt.h`.
///
/// # Safety
/// `sender` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_adapt(sender: *mut PrrtSender) -> c_int {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(end) = (unsafe { sender.as_mut() }) else { return null("a sender", -1) };
    match end.sender.adapt(&end.constraints) {
        None => 0,
        Some(Ok(_)) => 1,
        Some(Err(why)) => fail(&why, -1),
    }
}

/// See `prrt.h`.
///
/// # Safety
/// `sender` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_sender_wake_at(sender: *const PrrtSender) -> i64 {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(end) = (unsafe { sender.as_ref() }) else { return null("a sender", i64::MAX) };
    // Parity that is to be computed is due at once.
    if end.sender.next_to_encode().is_some() { i64::MIN } else { end.sender.wake_at().unwrap_or(i64::MAX) }
}

/// See `prrt.h`.
#[unsafe(no_mangle)]
pub extern "C" fn prrt_receiver_new(feedback_ns: i64, reordered_ns: i64, vanished_ns: i64) -> *mut PrrtReceiver {
    if feedback_ns.min(reordered_ns).min(vanished_ns) <= 0 {
        let found = format!("{feedback_ns}, {reordered_ns} and {vanished_ns}");
        let why = Error::new("three times above 0", found, "Give nanoseconds");
        return fail(&why, std::ptr::null_mut());
    }
    let receiver = Receiver::new(ReceiverPlan { feedback_ns, reordered_ns, vanished_ns });
    Box::into_raw(Box::new(PrrtReceiver { receiver, bytes: Vec::with_capacity(MOST_DATAGRAM_BYTES) }))
}

/// See `prrt.h`.
///
/// # Safety
/// `receiver` is null, or of `prrt_receiver_new` and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_receiver_free(receiver: *mut PrrtReceiver) {
    if !receiver.is_null() {
        // SAFETY: `prrt_receiver_new` made it of a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(receiver) });
    }
}

/// See `prrt.h`.
///
/// # Safety
/// `receiver` is null or alive, and `bytes` bytes lie at `datagram`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_receiver_handle(
    receiver: *mut PrrtReceiver,
    datagram: *const c_void,
    bytes: usize,
    now: i64,
) -> c_int {
    // SAFETY: the caller's pointers, alive and nobody else's meanwhile.
    let (receiver, datagram) = unsafe { (receiver.as_mut(), given(datagram, bytes)) };
    let (Some(end), Some(datagram)) = (receiver, datagram) else { return null("a receiver, and to a datagram", -1) };
    let arrived = end.receiver.handle(datagram, now);
    while end.receiver.next_to_decode().is_some() {
        end.receiver.decode();
    }
    arrived.is_some().into()
}

/// See `prrt.h`.
///
/// # Safety
/// `receiver` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_receiver_moved(receiver: *mut PrrtReceiver, bytes: usize) -> c_int {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(end) = (unsafe { receiver.as_mut() }) else { return null("a receiver", -1) };
    end.receiver.moved(bytes);
    0
}

/// See `prrt.h`.
///
/// # Safety
/// `receiver` is null or alive, a payload fits at `payload`; `id`, `recovered` and `is_late` are null or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_deliver(
    receiver: *mut PrrtReceiver,
    now: i64,
    payload: *mut c_void,
    id: *mut u64,
    recovered: *mut c_int,
    is_late: *mut c_int,
) -> isize {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(end) = (unsafe { receiver.as_mut() }).filter(|_| !payload.is_null()) else {
        return null("a receiver, and to a payload", -1);
    };
    let Some(next) = end.receiver.next_delivery(now) else { return -1 };
    let late = match next.punctuality {
        Punctuality::InTime => 0,
        Punctuality::Late => 1,
        Punctuality::Undecided => -1,
    };
    // SAFETY: the caller's pointers, null or of one number each, and its buffer, as large as the header says.
    unsafe {
        id.as_mut().into_iter().for_each(|id| *id = next.id);
        recovered.as_mut().into_iter().for_each(|recovered| *recovered = next.recovered.into());
        is_late.as_mut().into_iter().for_each(|is_late| *is_late = late);
        copied(&next.payload, payload, MOST_PAYLOAD_BYTES)
    }
}

/// See `prrt.h`.
///
/// # Safety
/// `receiver` is null or alive, and a datagram fits at `datagram`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_feedback(receiver: *mut PrrtReceiver, now: i64, datagram: *mut c_void) -> isize {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(PrrtReceiver { receiver, bytes }) = (unsafe { receiver.as_mut() }).filter(|_| !datagram.is_null()) else {
        return null("a receiver, and to a datagram", -1);
    };
    receiver.on_time(now);
    match receiver.feedback(now, bytes) {
        None => 0,
        // SAFETY: the caller's buffer, as large as the header says.
        Some(_) => unsafe { copied(bytes, datagram, MOST_DATAGRAM_BYTES) },
    }
}

/// See `prrt.h`.
///
/// # Safety
/// `receiver` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_receiver_wake_at(receiver: *const PrrtReceiver) -> i64 {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(end) = (unsafe { receiver.as_ref() }) else { return null("a receiver", i64::MAX) };
    end.receiver.wake_at().unwrap_or(i64::MAX)
}

/// See `prrt.h`.
///
/// # Safety
/// `sender` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_sender_way(sender: *mut PrrtSender, way_ns: i64) -> c_int {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(end) = (unsafe { sender.as_mut() }) else { return null("a sender", -1) };
    end.sender.set_way((way_ns >= 0).then_some(way_ns));
    0
}

/// See `prrt.h`.
///
/// # Safety
/// `receiver` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prrt_receiver_way(receiver: *mut PrrtReceiver, way_ns: i64) -> c_int {
    // SAFETY: the caller's pointer, alive and nobody else's meanwhile.
    let Some(end) = (unsafe { receiver.as_mut() }) else { return null("a receiver", -1) };
    end.receiver.set_way((way_ns >= 0).then_some(way_ns));
    0
}

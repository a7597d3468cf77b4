//! Losses that the kernel makes on one socket, for any protocol: a classic BPF program that drops packets at random.
//!
//! Needs no right. The kernel draws the numbers, so losses are independent and cannot be repeated; the dropper of
//! [`crate::LossProcess`] has a seed, and is PRRT's alone. TCP drops a segment before it looks at it.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::Error;

/// Loses `share` of the packets that come to `socket`, each by itself.
pub fn lose(socket: BorrowedFd<'_>, share: f64) -> io::Result<()> {
    if !(0.0..1.0).contains(&share) {
        return Err(io::Error::other(Error::new("a share from 0 to below 1", share, "Give shares, not per cent")));
    }
    let limit = (share * (1_u64 << 32) as f64) as u32;
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let step = |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, random),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, limit),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
    ];
    let described = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives until the call returns, by a description of its true length.
    let attached = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const described).cast(),
            size_of_val(&described) as u32,
        )
    };
    if attached == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

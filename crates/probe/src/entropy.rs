//! Numbers that nobody can predict, from the kernel.

use std::io;

use crate::datagram::Nonce;

/// Draws a nonce; waits only in the first moments of a machine's life.
pub(crate) fn nonce() -> io::Result<Nonce> {
    let mut bytes = [0u8; 8];
    loop {
        // SAFETY: the kernel writes at most `bytes.len()` bytes into `bytes`, which lives here.
        let written = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if usize::try_from(written) == Ok(bytes.len()) {
            return Ok(Nonce(u64::from_ne_bytes(bytes)));
        }
        // Fewer bytes than asked for are as good as none; only an interruption is worth another try.
        let error = io::Error::last_os_error();
        if written < 0 && error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nonces_differ_and_use_all_their_bits() {
        let drawn: HashSet<u64> = (0..1000).map(|_| nonce().unwrap().0).collect();
        assert_eq!(drawn.len(), 1000);
        assert_eq!(drawn.iter().fold(0, |seen, nonce| seen | nonce), u64::MAX);
        assert_eq!(drawn.iter().fold(u64::MAX, |seen, nonce| seen & nonce), 0);
    }
}

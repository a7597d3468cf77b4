//! Numbers that nobody can predict, from the kernel.

use std::io;

/// Draws a number; waits only in the first moments of a machine's life.
pub(crate) fn number() -> io::Result<u32> {
    let mut bytes = [0u8; 4];
    loop {
        // SAFETY: the kernel writes at most `bytes.len()` bytes into `bytes`, which lives here.
        let written = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if usize::try_from(written) == Ok(bytes.len()) {
            return Ok(u32::from_ne_bytes(bytes));
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
    fn numbers_differ_and_use_all_their_bits() {
        let drawn: HashSet<u32> = (0..1000).map(|_| number().unwrap()).collect();
        assert!(drawn.len() >= 999, "two of a thousand are alike once in 8000 tries");
        assert_eq!(drawn.iter().fold(0, |seen, number| seen | number), u32::MAX);
        assert_eq!(drawn.iter().fold(u32::MAX, |seen, number| seen & number), 0);
    }
}

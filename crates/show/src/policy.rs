//! Content-Security-Policy of a page with scripts: each is named by its hash, so no other runs.

use tickscope_tick::base64;

/// The sources of `script-src` that let exactly these scripts run.
pub(crate) fn sources(scripts: &[&str]) -> String {
    let source = |script: &&str| format!("'sha256-{}'", base64(&sha256(script.as_bytes())));
    scripts.iter().map(source).collect::<Vec<_>>().join(" ")
}

/// FIPS 180-4, section 6.2.
fn sha256(message: &[u8]) -> [u8; 32] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - message.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    let mut state = roots::<8>(|prime| prime.sqrt());
    let constants = roots::<64>(|prime| prime.cbrt());
    padded.chunks_exact(64).for_each(|block| compress(&mut state, block, &constants));
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// The first 32 bits of the fractional parts of roots of the first primes.
fn roots<const N: usize>(root: fn(f64) -> f64) -> [u32; N] {
    let is_prime = |number: &u32| (2..*number).take_while(|by| by * by <= *number).all(|by| !number.is_multiple_of(by));
    let mut primes = (2..).filter(is_prime);
    std::array::from_fn(|_| (root(f64::from(primes.next().unwrap_or(0))).fract() * 4_294_967_296.0) as u32)
}

fn compress(state: &mut [u32; 8], block: &[u8], constants: &[u32; 64]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    let turned = |word: u32, by: [u32; 2]| word.rotate_right(by[0]) ^ word.rotate_right(by[1]);
    for at in 16..64 {
        let small_0 = turned(words[at - 15], [7, 18]) ^ words[at - 15] >> 3;
        let small_1 = turned(words[at - 2], [17, 19]) ^ words[at - 2] >> 10;
        words[at] = words[at - 16].wrapping_add(small_0).wrapping_add(words[at - 7]).wrapping_add(small_1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.iter().zip(constants) {
        let choice = e & f ^ !e & g;
        let big_1 = turned(e, [6, 11]) ^ e.rotate_right(25);
        let first = h.wrapping_add(big_1).wrapping_add(choice).wrapping_add(*constant).wrapping_add(*word);
        let big_0 = turned(a, [2, 13]) ^ a.rotate_right(22);
        let second = big_0.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(message: &str) -> String {
        sha256(message.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_hash_is_that_of_the_standards_examples_also_where_padding_needs_a_block_of_its_own() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let two = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_eq!(["", "abc"].map(hexadecimal), [empty, abc]);
        assert_eq!(hexadecimal("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), two);
    }

    #[test]
    fn a_source_is_the_hash_in_base_64() {
        assert_eq!(sources(&["abc"]), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
    }
}

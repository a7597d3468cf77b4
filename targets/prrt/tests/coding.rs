//! The code against a decoder that shares nothing with it: elimination over GF(2^8) on the matrix that the code shows.

use proptest::prelude::*;
use tickscope_load::SplitMix;
use tickscope_prrt::{Code, Coding};

/// GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1.
fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        product ^= if b & 1 == 1 { a } else { 0 };
        a = a << 1 ^ if a & 128 == 128 { 0x1d } else { 0 };
        b >>= 1;
    }
    product
}

fn inverse(a: u8) -> u8 {
    (1..=255).find(|b| times(a, *b) == 1).expect("no element but 0 lacks an inverse")
}

/// Bytes of a payload in parity: its length comes first.
fn coded(payload: &[u8], bytes: usize) -> Vec<u8> {
    let mut coded = (payload.len() as u16).to_be_bytes().to_vec();
    coded.extend(payload);
    coded.resize(bytes, 0);
    coded
}

/// Coefficients of the parity packets: what each is where one source packet holds a one, and the others nothing.
fn coefficients(code: &mut Code, k: u8, n: u8) -> Vec<Vec<u8>> {
    let unit = |at: u8| (0..k).map(|index| vec![u8::from(index == at)]).collect::<Vec<_>>();
    let columns: Vec<Vec<Vec<u8>>> = (0..k).map(|at| code.encode(k, n, &unit(at))).collect();
    (0..usize::from(n - k)).map(|row| columns.iter().map(|column| column[row][2]).collect()).collect()
}

/// The source packets, from any `k` packets by their indices.
fn eliminated(k: usize, rows: &[Vec<u8>], there: &[(usize, Vec<u8>)]) -> Vec<Vec<u8>> {
    let coefficient = |index: usize, at: usize| if index < k { u8::from(index == at) } else { rows[index - k][at] };
    let mut lines: Vec<(Vec<u8>, Vec<u8>)> = there
        .iter()
        .map(|(index, bytes)| ((0..k).map(|at| coefficient(*index, at)).collect(), bytes.clone()))
        .collect();
    let scale = |line: &mut (Vec<u8>, Vec<u8>), by: u8| {
        line.0.iter_mut().chain(&mut line.1).for_each(|byte| *byte = times(*byte, by));
    };
    for at in 0..k {
        let pivot = (at..k).find(|line| lines[*line].0[at] != 0).expect("any k packets are independent");
        lines.swap(at, pivot);
        let by = inverse(lines[at].0[at]);
        scale(&mut lines[at], by);
        let (pivot, factors) = (lines[at].clone(), lines.iter().map(|line| line.0[at]).collect::<Vec<_>>());
        for (line, factor) in
            lines.iter_mut().zip(factors).enumerate().filter(|(other, _)| *other != at).map(|(_, l)| l)
        {
            let of_pivot = pivot.0.iter().chain(&pivot.1);
            line.0.iter_mut().chain(&mut line.1).zip(of_pivot).for_each(|(byte, of)| *byte ^= times(*of, factor));
        }
    }
    lines.into_iter().map(|line| line.1).collect()
}

/// Payloads of unlike lengths, one of them of length 0 now and then.
fn payloads(random: &mut SplitMix, filled: u8, most: u64) -> Vec<Vec<u8>> {
    let payload = |random: &mut SplitMix| (0..random.below(most)).map(|_| random.bits() as u8).collect();
    (0..filled).map(|_| payload(random)).collect()
}

/// Loses `lost` of a block, and recovers it by the code and by elimination.
fn check(code: &mut Code, (k, filled): (u8, u8), sources: &[Vec<u8>], parity: &[Vec<u8>], lost: &[usize]) {
    let rows = coefficients(code, k, k + parity.len() as u8);
    let bytes = parity[0].len();
    let sent: Vec<Option<Vec<u8>>> = (0..usize::from(k))
        .map(|index| sources.get(index).cloned())
        .chain(parity.iter().cloned().map(Some))
        .enumerate()
        .map(|(index, packet)| packet.filter(|_| !lost.contains(&index)))
        .collect();
    let mut recovered = sent.clone();
    let missing = code.recover(k, filled, &mut recovered).expect("any n - k losses are recovered");
    assert!(missing.iter().all(|index| lost.contains(&usize::from(*index))));
    assert!(recovered.iter().zip(sources).all(|(packet, source)| packet.as_ref() == Some(source)), "{k} {lost:?}");

    let as_coded = |(index, packet): (usize, &Option<Vec<u8>>)| {
        let absent = (usize::from(filled)..usize::from(k)).contains(&index).then(|| vec![0; bytes]);
        let packet = packet.as_ref().map(|p| if index < usize::from(k) { coded(p, bytes) } else { p.clone() });
        Some((index, packet.or(absent)?))
    };
    let there: Vec<(usize, Vec<u8>)> = sent.iter().enumerate().filter_map(as_coded).take(k.into()).collect();
    let independent = eliminated(k.into(), &rows, &there);
    assert!(independent.iter().zip(sources).all(|(packet, source)| *packet == coded(source, bytes)), "{k} {lost:?}");
}

#[test]
fn every_pattern_of_up_to_n_less_k_losses_is_recovered_as_an_independent_decoder_has_it() {
    let most = if std::env::var_os("TICKSCOPE_TESTS").is_some() { 12 } else { 8 };
    let (mut code, mut random, mut patterns) = (Code::default(), SplitMix::new(40), 0);
    for n in 2..=most {
        for k in 1..n {
            let sources = payloads(&mut random, k, 12);
            let parity = code.encode(k, n, &sources);
            for pattern in 1_u32..1 << n {
                let lost: Vec<usize> = (0..usize::from(n)).filter(|index| pattern >> index & 1 == 1).collect();
                if lost.len() <= usize::from(n - k) && lost.iter().any(|index| *index < usize::from(k)) {
                    if (usize::from(k)..usize::from(n)).all(|index| lost.contains(&index)) {
                        continue; // no parity is left: then a source packet less cannot be recovered, nor is one lost
                    }
                    check(&mut code, (k, k), &sources, &parity, &lost);
                    patterns += 1;
                }
            }
        }
    }
    assert!(patterns > 500, "{patterns}");
}

#[test]
fn a_parity_packet_is_the_same_however_many_a_block_has() {
    let (mut code, mut random) = (Code::default(), SplitMix::new(41));
    for k in [1, 2, 7, 30, 128] {
        let sources = payloads(&mut random, k, 40);
        let all = code.encode(k, 200, &sources);
        let mut growing = Code::default();
        for n in [k + 1, k + 3, 180] {
            assert_eq!(code.encode(k, n, &sources), all[..usize::from(n - k)], "({k}, {n})");
            assert_eq!(growing.encode(k, n, &sources), all[..usize::from(n - k)], "({k}, {n}), made for fewer before");
        }
    }
}

#[test]
fn one_loss_too_many_recovers_nothing_and_what_no_code_made_is_refused() {
    let (mut code, mut random) = (Code::default(), SplitMix::new(42));
    let sources = payloads(&mut random, 4, 30);
    let parity = code.encode(4, 6, &sources);
    let block = || sources.iter().chain(&parity).cloned().map(Some).collect::<Vec<_>>();
    let mut short = block();
    [0, 1, 4].iter().for_each(|index| short[*index] = None);
    assert_eq!(code.recover(4, 4, &mut short), None);
    let mut forged = block();
    forged[0] = None;
    forged[4].as_mut().unwrap()[0] ^= 0x80; // a length that no datagram has
    assert_eq!(code.recover(4, 4, &mut forged), None);
    let uneven = [5, 30, 10, 20].map(|bytes| vec![9; bytes]);
    let mut parity = code.encode(4, 5, &uneven);
    *parity[0].last_mut().unwrap() ^= 1; // behind the end of the payload that is missing, where zeros belong
    let mut forged: Vec<_> = uneven.iter().chain(&parity).cloned().map(Some).collect();
    forged[0] = None;
    assert_eq!(code.recover(4, 4, &mut forged), None);
    let mut long = block();
    (long[0], long[1]) = (None, Some(vec![7; 1000]));
    assert_eq!(code.recover(4, 4, &mut long), None);
}

#[test]
fn a_coding_that_no_block_can_have_is_refused() {
    for (k, schedule) in [(0, &[1][..]), (4, &[]), (250, &[3, 3]), (1, &[255]), (255, &[1])] {
        let error = Coding::new(k, schedule).unwrap_err().to_string();
        assert!(error.contains("at most 255 packets a block"), "{error}");
    }
    assert_eq!(Coding::new(250, &[2, 3]).map(|coding| coding.n()), Ok(255));
    assert_eq!(Coding::new(255, &[0]).map(|coding| (coding.n(), coding.rounds())), Ok((255, 0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("TICKSCOPE_TESTS").is_some() { 400 } else { 6 }))]
    #[test]
    fn property_random_losses_of_blocks_up_to_255_packets_are_recovered(
        k in 1_u8..120, parity in 1_u8..100, short in 0_u8..120, seed: u64,
    ) {
        let (mut code, mut random) = (Code::default(), SplitMix::new(seed));
        let filled = k - short.min(k - 1);
        let sources = payloads(&mut random, filled, 24);
        let made = code.encode(k, k + parity, &sources);
        let mut sent: Vec<usize> = (0..usize::from(filled)).chain(usize::from(k)..usize::from(k + parity)).collect();
        // One parity packet stays, and at least as many packets as there are payloads.
        let kept = usize::from(k) + random.below(parity.into()) as usize;
        sent.retain(|index| *index != kept);
        let lost: Vec<usize> = (0..random.below(u64::from(parity) + 1).min(sent.len() as u64))
            .map(|_| sent.swap_remove(random.below(sent.len() as u64) as usize))
            .collect();
        check(&mut code, (k, filled), &sources, &made, &lost);
    }
}

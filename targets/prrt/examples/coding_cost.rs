//! What coding a block takes, and a search for a coding, next to copying the block: `coding_cost ROUNDS`.
//!
//! A line of JSON a round, medians of nanoseconds. Decoding loses other packets each time, from a seed: a decoder that
//! remembers patterns has no profit of it.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use tickscope_load::SplitMix;
use tickscope_prrt::{Code, Demand, LossModel, PathState, search};

const BYTES: usize = 1200;
const BLOCKS: usize = 200;
const SIZES: [(u8, u8); 3] = [(4, 2), (8, 4), (32, 8)];

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: u64 = std::env::args().nth(1).ok_or("expected ROUNDS")?.parse()?;
    for round in 0..rounds {
        for (k, parity) in SIZES {
            coded(k, parity, round);
        }
        searched()?;
    }
    Ok(())
}

/// The median of what `BLOCKS` calls took, nanoseconds.
fn median_ns(mut call: impl FnMut(usize)) -> u128 {
    let took = |block: usize| {
        let start = Instant::now();
        call(block);
        start.elapsed().as_nanos()
    };
    let mut all = Vec::with_capacity(BLOCKS);
    (0..BLOCKS).map(took).for_each(|ns| all.push(ns));
    all.sort_unstable();
    all[BLOCKS / 2]
}

fn coded(k: u8, parity: u8, seed: u64) {
    let (mut code, mut random) = (Code::default(), SplitMix::new(seed));
    let n = k + parity;
    let payload = |random: &mut SplitMix| (0..BYTES).map(|_| random.bits() as u8).collect::<Vec<u8>>();
    let sources: Vec<Vec<u8>> = (0..k).map(|_| payload(&mut random)).collect();
    let made = code.encode(k, n, &sources);
    let encode_ns = median_ns(|_| drop(black_box(code.encode(k, n, black_box(&sources)))));
    let packets: Vec<Option<Vec<u8>>> = sources.iter().chain(&made).cloned().map(Some).collect();
    let lossy = |random: &mut SplitMix| {
        let mut left = packets.clone();
        // One packet of parity stays: without any, no payload would be missing.
        (1..parity).for_each(|_| left[random.below(n.into()) as usize] = None);
        left[random.below(k.into()) as usize] = None;
        left[usize::from(k)] = Some(made[0].clone());
        left
    };
    let mut blocks: Vec<Vec<Option<Vec<u8>>>> = (0..BLOCKS).map(|_| lossy(&mut random)).collect();
    let decode_ns = median_ns(|block| drop(black_box(code.recover(k, k, black_box(&mut blocks[block])))));
    let copy_ns = median_ns(|_| drop(black_box(black_box(&packets).clone())));
    print!("{{\"k\": {k}, \"parity\": {parity}, \"encode_ns\": {encode_ns}, ");
    println!("\"decode_ns\": {decode_ns}, \"copy_ns\": {copy_ns}}}");
}

fn searched() -> Result<(), Box<dyn Error>> {
    let channel =
        |good_to_bad, bad_to_good, lost_in_bad| LossModel { good_to_bad, bad_to_good, lost_in_good: 0.0, lost_in_bad };
    let (bursts, third, slow) = (channel(0.01, 0.5, 1.0), channel(0.005, 0.05, 0.3), channel(0.0005, 0.0045, 0.3));
    for (name, loss, deadline_ns) in [
        ("independent, 100 ms", LossModel::independent(0.03)?, 100e6),
        ("bursts, 100 ms", bursts, 100e6),
        ("independent, 250 ms", LossModel::independent(0.03)?, 250e6),
        ("a third lost in bad times, 100 ms", third, 100e6),
        ("a third lost in bad times, 250 ms", third, 250e6),
        ("a third lost in rare and long bad times, 250 ms", slow, 250e6),
    ] {
        let demand = Demand { residual_loss: 1e-4, deadline_ns, interval_ns: 1e6, packet_bits: 9600.0, rate_bps: 1e9 };
        let next_ns = Some(demand.interval_ns);
        let path = PathState {
            loss,
            rtt_ns: 10e6,
            way_ns: None,
            response_ns: 0.5e6,
            detection_ns: 1e6,
            next_ns,
            requests_lost: 0.001,
        };
        search(&demand, &path)?;
        let search_ns = median_ns(|_| drop(black_box(search(black_box(&demand), black_box(&path)))));
        println!("{{\"search\": \"{name}\", \"search_ns\": {search_ns}}}");
    }
    Ok(())
}

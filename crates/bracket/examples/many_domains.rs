//! Many simulated nodes that probe some others each, all related to one: what it costs, and what the others' evidence
//! gains. `cargo run --release -p tickscope-bracket --example many_domains [nodes] [brackets] [peers] [instants]`

use std::collections::BTreeMap;
use std::time::Instant;

use tickscope_bracket::{Bracket, Closed, Domains, KeptBrackets, Model, PairEvidence, Ratio, Rho};
use tickscope_tick::Tick;

const SECOND: i64 = 2_500_000_000;
const LENGTH: i64 = 60 * SECOND;
const BILLION: i128 = 1_000_000_000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % limit
    }
}

/// A node's counter: it drifts, and its rate is 0.1 ppm higher in odd seconds than in even ones.
fn reads(node: usize, instant: i64) -> i64 {
    let drift = (node as i128 * 7_919) % 100_000 - 50_000;
    let (instant, second) = (i128::from(instant), i128::from(SECOND));
    let odd = instant.div_euclid(2 * second) * second + (instant.rem_euclid(2 * second) - second).max(0);
    (instant + instant * drift / BILLION + odd / 10_000_000) as i64 + node as i64 * 1_000_003
}

type Error = Box<dyn std::error::Error>;
type Pairs = BTreeMap<(usize, usize), (KeptBrackets, i64)>;

fn model(node: usize) -> Result<Model, Error> {
    Ok(Model::new("0.2".parse::<Rho>()?, Ratio::new(1, 1)?, Tick::new(reads(node, LENGTH / 2))))
}

/// Pairs with their delays: a quarter of them 4 us, the others 40 us each way.
fn pairs(nodes: usize, peers: usize, random: &mut Random) -> Result<Pairs, Error> {
    let mut pairs = Pairs::new();
    for local in 1..nodes {
        for _ in 0..peers.min(local) {
            let reference = random.below(local as i64) as usize;
            let delay = if random.below(4) == 0 { 10_000 } else { 100_000 };
            pairs.entry((local, reference)).or_insert((KeptBrackets::new(&model(local)?)?, delay));
        }
    }
    Ok(pairs)
}

fn exchange(pairs: &mut Pairs, rounds: usize, random: &mut Random) {
    for round in 0..rounds {
        for (&(local, reference), (kept, delay)) in &mut *pairs {
            let instant = LENGTH / rounds as i64 * round as i64 + random.below(SECOND / 100);
            let [there, back] = [(); 2].map(|()| *delay + if random.below(8) == 0 { 0 } else { random.below(200_000) });
            let at = reads(local, instant);
            kept.add(&Bracket::new(Some(reads(reference, instant - there) - 2), at, None));
            kept.add(&Bracket::new(None, at, Some(reads(reference, instant + back) + 2)));
        }
    }
}

fn evidence(pairs: Pairs, nodes: usize) -> Result<Vec<PairEvidence>, Error> {
    let bare = (1..nodes).filter(|&local| !pairs.contains_key(&(local, 0))).collect::<Vec<_>>();
    let mut evidence = Vec::new();
    for ((local, reference), (mut kept, _)) in pairs {
        evidence.push(PairEvidence { local, reference, brackets: kept.brackets(), model: model(local)? });
    }
    for local in bare {
        evidence.push(PairEvidence { local, reference: 0, brackets: Vec::new(), model: model(local)? });
    }
    Ok(evidence)
}

/// Prints how many true ticks lie outside, and what the others' evidence gained.
fn compare(domains: &Domains, closed: &[Closed]) -> Result<(), Error> {
    let (mut direct, mut narrowed, mut outside, mut unrelated) = (Vec::new(), Vec::new(), 0, 0);
    for one in closed {
        let Some(clock_map) = &one.clock_map else {
            unrelated += 1;
            continue;
        };
        for part in 1..20 {
            let instant = LENGTH / 20 * part;
            let (tick, truth) = (Tick::new(reads(one.local, instant)), reads(0, instant));
            let interval = clock_map.interval(tick)?;
            outside += usize::from(truth + 1 < interval.lo().get() || interval.hi().get() < truth - 1);
            narrowed.push(interval.half_width());
            let own = domains.direct(one.local, 0).map(|map| map.interval(tick)).transpose()?;
            direct.extend(own.map(|interval| interval.half_width()));
        }
    }
    println!("{outside} of {} true ticks outside; {unrelated} nodes unrelated", narrowed.len());
    direct.sort_unstable();
    narrowed.sort_unstable();
    let middle = |widths: &[u64]| widths.get(widths.len() / 2).copied().unwrap_or(0) as f64 / 2500.0;
    let nodes = [direct.len() / 19, narrowed.len() / 19];
    let (own, all) = (middle(&direct), middle(&narrowed));
    println!("half-width, median: {} nodes have {own:.2} us of their own, all {} have {all:.2} us", nodes[0], nodes[1]);
    Ok(())
}

fn main() -> Result<(), Error> {
    let mut asked = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |otherwise: usize| asked.next().unwrap_or(Ok(otherwise));
    let (nodes, brackets, peers, instants) = (next(1000)?, next(10_000_000)?, next(20)?, next(32)?);
    let (began, mut random) = (Instant::now(), Random(7));
    let mut pairs = pairs(nodes, peers, &mut random)?;
    let rounds = brackets / (2 * pairs.len());
    exchange(&mut pairs, rounds, &mut random);
    let (known, added) = (pairs.len(), pairs.values().map(|(kept, _)| kept.count()).sum::<u64>());
    let streamed = began.elapsed();
    let evidence = evidence(pairs, nodes)?;
    let left: usize = evidence.iter().map(|pair| pair.brackets.len()).sum();
    let domains = Domains::new(nodes, evidence)?.with_instants(instants);
    let built = began.elapsed();
    let closed = domains.toward(0)?;
    let took = began.elapsed();
    println!("{nodes} nodes, {known} pairs, {added} brackets, of which {left} were kept");
    println!("streamed {streamed:.1?}, clock maps of all pairs until {built:.1?}, all to one until {took:.1?}");
    compare(&domains, &closed)?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not known"));
    Ok(())
}

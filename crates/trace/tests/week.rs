//! A week of two machines, of which nothing is watched in the middle: every true duration lies in its interval to the
//! end.

#[path = "../../bracket/tests/host/mod.rs"]
mod host;

use host::Random;
use tickscope_bracket::{Bracket, ClockMap, Model, Ratio, Rho};
use tickscope_tick::Tick;
use tickscope_trace::{Clock, Clocks, Column, Durations, Layout, LayoutText, Traces};

const HERTZ: i64 = 2_500_000_000;
const WEEK_S: i64 = 7 * 24 * 3600;
/// Nobody sends a probe here: both were killed, and started again hours later.
const GAP_S: std::ops::Range<i64> = 300_000..322_000;
/// The server's counter runs this much faster, and wanders by so much about that, parts per 10^9.
const DRIFT_PPB: i64 = 12_345;
const WANDER_PPB: i64 = 950;
const RHO_PPB: u32 = 1_000;
const BILLION: i128 = 1_000_000_000;
/// Where the server's counter stood when the client's read 0.
const OFFSET: i64 = 1 << 61;
const PIECE_S: i64 = 600;
const PACKETS: i64 = 26_000;
const DAY: i64 = 24 * 3600 * HERTZ;

/// The client's counter by ticks of the server's: a rate that walks at random, another one every ten minutes.
struct Map {
    /// At the beginning of each piece: the client's counter in parts of 10^9 of a tick, and the rate from there on.
    pieces: Vec<(i128, i128)>,
}

impl Map {
    fn new(random: &mut Random) -> Self {
        let (mut stands, mut wander, mut pieces) = (0i128, 0i64, Vec::new());
        for _ in 0..=(WEEK_S + 3600) / PIECE_S {
            wander = (wander + random.below(401) - 200).clamp(-WANDER_PPB, WANDER_PPB);
            let rate = BILLION - i128::from(DRIFT_PPB + wander);
            pieces.push((stands, rate));
            stands += i128::from(PIECE_S * HERTZ) * rate;
        }
        Self { pieces }
    }

    /// Where the client's counter stands when the server's comes to read `tick`, in parts of 10^9.
    fn exact(&self, tick: i64) -> i128 {
        let (piece, rest) = ((tick - OFFSET) / (PIECE_S * HERTZ), (tick - OFFSET) % (PIECE_S * HERTZ));
        let (stands, rate) = self.pieces[piece as usize];
        stands + i128::from(rest) * rate
    }

    /// A tick of the server's at or shortly after the client's reads `at`.
    fn when(&self, at: i64) -> i64 {
        let (mut before, mut after) = (OFFSET - 1, OFFSET + at + at / 10_000 + 10);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if self.exact(middle) < i128::from(at) * BILLION { before = middle } else { after = middle }
        }
        after
    }
}

/// An exchange a second, but for a hundred in each of some seconds, and none in the gap.
fn evidence(map: &Map, random: &mut Random) -> Vec<Bracket> {
    let mut brackets = Vec::new();
    for second in (0..WEEK_S).filter(|second| !GAP_S.contains(second)) {
        let rate = if second % 20_000 < 10 { 100 } else { 1 };
        for number in 0..rate {
            let at = OFFSET + second * HERTZ + number * HERTZ / rate + random.below(HERTZ / rate);
            let stands = map.exact(at);
            // From 4 to 80 us either way, and one way is lost at times.
            let mut way = || 10_000 + random.below(190_000);
            let (before, after) =
                (stands.div_euclid(BILLION) as i64 - way(), -(-stands).div_euclid(BILLION) as i64 + way());
            let lost = random.below(20);
            brackets.push(Bracket::new((lost != 0).then_some(before), at, (lost != 1).then_some(after)));
        }
    }
    brackets
}

fn layout() -> Layout {
    let path = ["a.send", "b.received", "b.reply", "a.response"].map(String::from).to_vec();
    LayoutText { path, ..LayoutText::default() }.parse(None).unwrap()
}

/// Raw ticks by point, and where the client's counter truly stood, in parts of 10^9. Every hundredth takes days.
fn packets(map: &Map, random: &mut Random) -> (Vec<Vec<i64>>, Vec<Vec<i128>>) {
    let (mut raw, mut truth) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
    for number in 0..PACKETS {
        let mut wait = || if number % 100 == 7 { random.below(DAY) } else { 5_000 + random.below(400_000) };
        let sent =
            ((WEEK_S * HERTZ - 3 * DAY) / PACKETS * number) + if number % 100 == 7 { 0 } else { wait() * (number % 2) };
        // Most of them are sent up to the very end of the week.
        let sent = if number % 100 == 7 { sent } else { (WEEK_S * HERTZ / PACKETS) * number + sent % HERTZ };
        let received = map.when(sent + wait());
        let reply = received + wait();
        let response = (map.exact(reply) / BILLION) as i64 + 1 + wait();
        for (point, (tick, stands)) in [
            (sent, i128::from(sent) * BILLION),
            (received, map.exact(received)),
            (reply, map.exact(reply)),
            (response, i128::from(response) * BILLION),
        ]
        .into_iter()
        .enumerate()
        {
            raw[point].push(tick);
            truth[point].push(stands);
        }
    }
    (raw, truth)
}

#[test]
fn every_true_duration_of_a_week_lies_in_its_interval_also_where_nobody_probed() {
    let mut random = Random(7);
    let map = Map::new(&mut random);
    let brackets = evidence(&map, &mut random);
    let model = Model::new(
        Rho::declared_ppb(RHO_PPB).unwrap(),
        Ratio::new(1, 1).unwrap(),
        Tick::new(OFFSET + WEEK_S / 2 * HERTZ),
    );
    let clock_map = ClockMap::new(&brackets, &model).unwrap();
    let layout = layout();
    let (raw, truth) = packets(&map, &mut random);
    let nodes = [("a", 0), ("b", 1)].map(|(node, clock)| (node.to_string(), clock));
    let clocks = Clocks::new(&layout, vec![Clock::Reference, Clock::Related(clock_map.clone())], &nodes).unwrap();
    let rows = raw[0].len();
    let columns = raw.iter().map(|ticks| ticks.iter().copied().map(Some).collect::<Column>()).collect();
    let traces = Traces::new(vec![0; rows], (0..rows as i64).collect(), vec![0; rows], columns).unwrap();
    let durations = Durations::of(&layout, &clocks, &traces).unwrap();
    let (mut inside, mut in_gap) = (0, 0);
    for (stage, columns) in layout.stages().iter().zip(durations.stages()) {
        for row in 0..rows {
            let true_ticks = truth[stage.to][row] - truth[stage.from][row];
            let [lo, estimate, hi] =
                [&columns.lo, &columns.estimate, &columns.hi].map(|column| column.get(row).unwrap());
            let held = i128::from(lo) * BILLION <= true_ticks && true_ticks <= i128::from(hi) * BILLION;
            assert!(held, "{}, packet {row}: {true_ticks} in 10^-9, not in [{lo}, {hi}]", stage.name);
            assert!(lo <= estimate && estimate <= hi);
            inside += 1;
            in_gap += i32::from(GAP_S.contains(&(raw[0][row] / HERTZ)));
        }
    }
    assert!(inside >= 100_000 && in_gap > 2_000, "{inside}, {in_gap} of them in the gap");
    // Right is not enough: some microseconds where there is evidence, some more in the middle of the gap.
    let width_us = |second: i64| clock_map.interval(Tick::new(OFFSET + second * HERTZ)).unwrap().half_width() / 2_500;
    assert!((1..=40).contains(&width_us(WEEK_S - 100)), "{} us", width_us(WEEK_S - 100));
    assert!(width_us((GAP_S.start + GAP_S.end) / 2) > 5_000);
}

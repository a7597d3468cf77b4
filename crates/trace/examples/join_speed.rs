//! How fast stamps are joined in memory, dense and sparse ids: ns a stamp and the process's peak memory.
//!
//! `cargo run --release -p tickscope-trace --example join_speed [ids]`; 10 points x 2 million ids unless told. The
//! stamps themselves are made up as they are read, so the peak is the join's own.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use tickscope_trace::{Columns, Extent, Layout, LayoutText, Limits, StampColumns, StampSource, join};

const POINTS: usize = 10;
const BATCH: i64 = 65_536;

/// `ids` stamps a point, slightly out of order, 1 in 100 missing; made anew at each reading.
struct Made {
    ids: i64,
    sparse: bool,
    /// Time that went into making stamps, not into joining them.
    making: Duration,
}

impl Made {
    fn id(&self, number: i64) -> i64 {
        if self.sparse { number.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) } else { number }
    }

    fn batch(&self, point: usize, from: i64, to: i64, columns: &mut (Vec<i64>, Vec<i64>)) {
        columns.0.clear();
        columns.1.clear();
        // Reversed in groups of 64: neighbours overtake each other.
        for number in (from..to).map(|n| n ^ 63).filter(|n| (n + 7 * point as i64) % 100 != 0) {
            columns.0.push(self.id(number));
            columns.1.push(1_000_000_000_000 + number * 1000 + point as i64 * 100);
        }
    }
}

impl StampSource for Made {
    type Error = Infallible;

    fn extents(&mut self, _: usize) -> Result<Vec<Extent>, Infallible> {
        let stamps = self.ids as u64;
        let (first, last) = if self.sparse { (i64::MIN, i64::MAX) } else { (0, self.ids - 1) };
        Ok(vec![Extent { first, last, stamps }])
    }

    fn read(
        &mut self,
        point: usize,
        ids: RangeInclusive<i64>,
        _: Columns,
        sink: &mut dyn FnMut(StampColumns<'_>),
    ) -> Result<(), Infallible> {
        let all = self.sparse;
        let (from, to) = if all { (0, self.ids) } else { (*ids.start() / BATCH * BATCH, *ids.end() + 1) };
        let mut columns = (Vec::new(), Vec::new());
        for start in (from..to).step_by(BATCH as usize) {
            let began = Instant::now();
            self.batch(point, start, (start + BATCH).min(self.ids), &mut columns);
            self.making += began.elapsed();
            sink(StampColumns::new(&columns.0, &columns.1, None).expect("equal lengths"));
        }
        Ok(())
    }
}

fn main() {
    let ids: i64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000_000);
    // Whole groups of 64, so that the reversal stays within the range.
    let ids = ids / 64 * 64;
    let names: Vec<_> = (0..POINTS).map(|point| format!("node.p{point}")).collect();
    let layout = LayoutText { path: names, ..LayoutText::default() }.parse(None).expect("ten points");
    for sparse in [false, true] {
        measure(&layout, Made { ids, sparse, making: Duration::ZERO });
    }
}

fn measure(layout: &Layout, mut source: Made) {
    let began = Instant::now();
    let limits = Limits::within(Limits::DEFAULT_BYTES, POINTS);
    let mut complete = 0;
    let counts = join(layout, &mut source, limits, &|_, _| true, &mut |traces| {
        complete += traces.len();
        Ok(())
    });
    let Ok(counts) = counts;
    let stamps: u64 = counts.points.iter().map(|point| point.stamps).sum();
    let ns = (began.elapsed() - source.making).as_nanos() as f64 / stamps as f64;
    let how = if source.sparse { "sparse" } else { "dense" };
    println!("{how}: {stamps} stamps, {} traces, {ns:.1} ns a stamp, peak {} MB", counts.traces, peak_mb());
}

/// The most memory this process ever held, from the kernel; 0 where it does not say.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1000
}

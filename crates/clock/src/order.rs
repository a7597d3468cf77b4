//! Summary of clocks that went backward: within a thread, and from one processor to another.
//!
//! "Never" is said only of clocks of which readings were compared, with how many: handing a reading over takes two
//! threads that run at once, and on a busy machine none may come about in the time.

use crate::benchmark::{Across, Benchmark, ClockResult};
use crate::measure::Agreement;

/// Clocks that promise to go on from one thread's reading to another's.
const PROMISE_ORDER: [&str; 7] =
    ["tsc after", "cntvct after", "monotonic", "monotonic-raw", "monotonic-coarse", "boottime", "mutex"];

impl Benchmark {
    /// Which clocks kept order, which did not, and of which nothing is known, a sentence each.
    pub fn order(&self) -> Vec<String> {
        let (mut ordered, mut broken, mut unknown): (Vec<u64>, Vec<String>, Vec<String>) = Default::default();
        for clock in &self.clocks {
            match (clock.backward(), &clock.across_processors) {
                (Some(words), _) => broken.push(words),
                (None, Across::Seen(Agreement { passages: 0, .. })) => {
                    unknown.push(format!("'{}' (no reading was handed over in the time)", clock.clock));
                }
                (None, Across::Seen(seen)) => ordered.push(seen.passages),
                (None, Across::NotLooked(why)) => unknown.push(format!("'{}' ({why})", clock.clock)),
            }
        }
        let ordered = ordered.iter().min().map(|fewest| {
            format!(
                "{} clocks never went backward, within a thread or from one processor to another (in {fewest} \
                 handings over or more)",
                ordered.len()
            )
        });
        let list = |what: &str, of: Vec<String>| (!of.is_empty()).then(|| format!("{what}: {}", of.join(", ")));
        let others = [list("went backward", broken), list("not compared between processors", unknown)];
        [ordered].into_iter().chain(others).flatten().collect()
    }
}

impl ClockResult {
    /// Whether the clock promises not to go backward.
    pub fn promises_order(&self) -> bool {
        PROMISE_ORDER.contains(&self.clock.trim_end_matches(" syscall"))
    }

    /// How often it went backward; `None`: it was never seen to.
    pub fn backward(&self) -> Option<String> {
        let within: u64 = self.loads.iter().flat_map(|load| &load.cells).map(|cell| cell.backward).sum();
        let across = match &self.across_processors {
            Across::Seen(seen) => seen.backward,
            Across::NotLooked(_) => 0,
        };
        (within + across > 0).then(|| {
            format!("'{}' went backward {within} times within a thread and {across} times between two", self.clock)
        })
    }
}

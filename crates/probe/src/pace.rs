//! How often a node can be probed for a declared share of a processor core.
//!
//! Idea: the rate of its exchanges is multiplied by the share declared over the share taken, look by look, so it
//! settles where the two are equal, whatever an exchange costs there. Both ends of a pair do that, and the lower rate
//! holds.

use std::time::Duration;

/// A node's rate of exchanges with each of its peers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    share: f64,
    most_hertz: f64,
    hertz: f64,
}

/// No pair is probed less often, unless it is wished: its bound would widen by what little more is saved.
const LEAST_HERTZ: f64 = 1.0;
/// A look changes the rate by this factor at most: one that something disturbed is made good by the next.
const MOST_CHANGE: f64 = 2.0;

impl Pace {
    /// A node with so many peers that may take `share` of a core, and whose exchanges took so long each until now;
    /// `hertz`: what is wished a pair.
    pub fn new(share: f64, hertz: f64, peers: usize, exchange: Duration) -> Self {
        let afforded = share / (exchange.as_secs_f64() * peers as f64); // infinite where nothing was measured
        let pace = Self { share, most_hertz: hertz, hertz };
        Self { hertz: pace.within(afforded), ..pace }
    }

    /// Takes the processor time that was used in a span of time.
    pub fn look(&mut self, used: Duration, span: Duration) {
        let taken = used.as_secs_f64() / span.as_secs_f64();
        let change = (self.share / taken).clamp(1.0 / MOST_CHANGE, MOST_CHANGE);
        if !change.is_nan() {
            self.hertz = self.within(self.hertz * change);
        }
    }

    /// Between two requests to one peer; `None`: no rate is wished.
    pub fn period(&self) -> Option<Duration> {
        (self.hertz > 0.0).then(|| Duration::from_secs_f64(1.0 / self.hertz))
    }

    /// Exchanges a second with each peer, rounded up, as a reply tells it; 0: any.
    pub fn told(&self) -> u16 {
        if self.hertz >= self.most_hertz { 0 } else { self.hertz.ceil().min(u16::MAX.into()) as u16 }
    }

    fn within(&self, hertz: f64) -> f64 {
        hertz.max(LEAST_HERTZ).min(self.most_hertz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks once a second at a node that takes `fixed` anyway and `exchange` for each of its exchanges; the rates.
    fn paced(mut pace: Pace, peers: f64, fixed: f64, exchange: f64) -> Vec<f64> {
        let rate = |pace: &Pace| pace.period().map_or(0.0, |period| 1.0 / period.as_secs_f64());
        (0..50)
            .map(|_| {
                pace.look(Duration::from_secs_f64(fixed + rate(&pace) * peers * exchange), SECOND);
                rate(&pace)
            })
            .collect()
    }

    #[test]
    fn a_node_settles_where_it_takes_its_share() {
        let pace = Pace::new(0.02, 1000.0, 29, Duration::from_micros(5));
        let last = *paced(pace, 29.0, 0.005, 40e-6).last().unwrap();
        let taken = 0.005 + last * 29.0 * 40e-6;
        assert!((0.0198..0.0202).contains(&taken), "{taken}");
    }

    #[test]
    fn what_is_wished_is_never_exceeded_and_a_pair_is_probed_now_and_then() {
        let pace = |hertz, exchange| Pace::new(0.02, hertz, 1, Duration::from_micros(exchange));
        assert_eq!(paced(pace(100.0, 10), 1.0, 0.0, 1e-6), [100.0; 50]);
        assert_eq!((pace(100.0, 10).told(), pace(1000.0, 40).told()), (0, 500));
        assert_eq!(*paced(pace(100.0, 10), 1.0, 0.5, 1e-6).last().unwrap(), 1.0);
        assert_eq!(*paced(pace(0.1, 10), 1.0, 0.5, 1e-6).last().unwrap(), 0.1);
        assert_eq!(pace(0.0, 10).period(), None);
        assert_eq!(pace(100.0, 0).period(), Some(Duration::from_millis(10)), "nothing was measured yet");
    }
}

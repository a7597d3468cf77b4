//! How a run stands to its limits: no limit holds where the run is damaged, contradicts itself or lacks something.
//!
//! Guarantees: how the run stands comes before what its traces say ([`Analysis::standing`]).

use tickscope_store::Event;
use tickscope_tick::counted;

use crate::Analysis;
use crate::error::Error;
use crate::limits::{Limit, LimitVerdict, Undecided};

impl Analysis {
    /// What can be said of one of its limits, of a run that has these events.
    pub fn verdict(&self, limit: &Limit, events: &[Event]) -> LimitVerdict {
        match limit.by_traces() {
            LimitVerdict::Holds | LimitVerdict::Violated
                if !self.refused.is_empty() || self.contradiction(events).is_some() =>
            {
                LimitVerdict::NotResolved(Undecided::Finding)
            }
            LimitVerdict::Holds if self.standing(events).is_err() => LimitVerdict::NotResolved(Undecided::Lack),
            verdict => verdict,
        }
    }

    /// An error with a code of its own where a limit is violated, another where one is not resolved. A run without
    /// limits keeps all of them. How the run stands comes before it.
    pub fn expect_limits(&self, events: &[Event]) -> Result<(), Error> {
        let of = |wanted: fn(LimitVerdict) -> bool| {
            let found = self.limits.iter().filter(move |limit| wanted(self.verdict(limit, events)));
            found.map(Limit::title).collect::<Vec<_>>()
        };
        let violated = of(|verdict| verdict == LimitVerdict::Violated);
        let open = of(|verdict| matches!(verdict, LimitVerdict::NotResolved(_)));
        let all = counted(self.limits.len(), "limit");
        match (violated.as_slice(), open.as_slice()) {
            ([], []) => Ok(()),
            ([], open) => Err(Error::unresolved(format!("not resolved, {} of {all}: {}", open.len(), open.join("; ")))),
            (violated, _) => {
                Err(Error::violated(format!("violated, {} of {all}: {}", violated.len(), violated.join("; "))))
            }
        }
    }
}

//! Overrides for a query of a run: rho, slew bound, sources of evidence.

use tickscope_bracket::Rho;
use tickscope_store::LimitRule;
use tickscope_tick::Source;
use tickscope_trace::Quantile;

/// Choices of whoever asks that replace the run's. Default: none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Query {
    /// Takes the place of the run's rho, for every pair of nodes.
    pub rho: Option<Rho>,
    /// Takes the place of the run's slew bound for clocks that somebody may set.
    pub slew: Option<Rho>,
    /// The only sources of evidence to use between nodes. `None`: all that the run declares.
    pub sources: Option<Vec<Source>>,
    /// Further quantiles of every stage, in [`tickscope_trace::StageRow::quantiles`].
    pub quantiles: Vec<Quantile>,
    /// A trace is slow from this quantile of the whole on, in [`crate::Tail`]. `None`: the 99th percentile.
    pub tail: Option<Quantile>,
    /// Take the place of the run's limits.
    pub limits: Option<Vec<LimitRule>>,
}

impl Query {
    /// The run's own query under another rho.
    pub fn under(rho: Option<Rho>) -> Self {
        Self { rho, ..Self::default() }
    }

    /// From which quantile of the whole on a trace is slow.
    pub(crate) fn slow(&self) -> Quantile {
        self.tail.unwrap_or(Quantile::P99)
    }

    /// Returns whether evidence of that source may be used.
    pub(crate) fn admit(&self, source: Source) -> bool {
        self.sources.as_ref().is_none_or(|sources| sources.contains(&source))
    }
}

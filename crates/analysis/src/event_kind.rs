//! Kinds of events that figures and findings depend on, besides the breaks of clocks, which crate `store` knows.

use tickscope_store::Event;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventKind {
    /// Stamps found no free memory.
    Lost,
    /// Ids passed a point more than once.
    IdsRepeated,
    /// An exchange that no two sound counters can have had.
    ImpossibleExchange,
    /// A step of the run's end failed.
    FinishFailed,
}

impl EventKind {
    /// Whether `event` is of this kind.
    pub(crate) fn is(self, event: &Event) -> bool {
        event.what == self.name()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::IdsRepeated => "ids-repeated",
            Self::ImpossibleExchange => "impossible-exchange",
            Self::FinishFailed => "finish-failed",
        }
    }
}

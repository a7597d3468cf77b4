//! Measuring: threads on their processors, clocks and their servers, a background load.
//!
//! Each window of time has one measured reader, pinned to the first allowed processor; the others read the same clock,
//! pinned to the next ones in turn; servers and tickers are pinned to the last. What is recorded is kept in memory that
//! was touched before, and looked at afterwards.

mod agreement;
mod benchmark;
mod clock;
mod instructions;
mod load_factor;
mod recording;
mod running_load;
mod service;
mod shared_counts;
mod speed;
mod sweep;
mod transient;
mod two_word;
mod waits;

pub use agreement::Agreement;
pub use benchmark::{benchmark, near};
pub use clock::{Clock, Unit};
pub use instructions::{InstructionCost, PUBLISHED, Published};
pub use load_factor::{LoadFactorPlan, LoadMeter, LoadReading, load_factor};
pub use recording::{Ramp, Sampled, Slice};
pub use speed::CoreSpeed;
pub use sweep::pulses;
pub use transient::Transient;
pub use two_word::{TwoWordPlan, two_words};

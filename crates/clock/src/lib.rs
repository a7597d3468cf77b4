//! Benchmark of a host's clocks: the cost of reading each, its resolution, and how much of the cost can be subtracted.
//!
//! After the study of the clocks of Cm* (Kong, Spector and Siewiorek 1986), made again for the clocks of a host of
//! today.

pub mod advice;
pub mod benchmark;
pub mod compensation;
pub mod correction;
pub mod density;
pub mod factor;
pub mod granularity;
pub mod load;
pub mod measure;
pub mod order;
pub mod section;
pub mod series;
pub mod tick_choice;
pub mod two_word;

//! Statistics of samples of ticks: skewed, full of ties, and with a tail that is the question.
#![forbid(unsafe_code)]

//! Channels, policies and the shared-memory blocks behind them: what a measured program carries.

pub mod block;
pub mod handover;
pub mod pool;
pub mod primitive;

//! `tickscope collect`: stamps out of shared memory into a run.

use crate::failure::Failure;
use crate::options::CollectOptions;

pub fn collect(_options: &CollectOptions) -> Result<(), Failure> {
    Err(Failure::work("being written"))
}

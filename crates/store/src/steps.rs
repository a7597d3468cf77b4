//! The steps of the hand-over that a kill may fall between.
//!
//! In a program these are nothing. In a test the chosen one ends the collector as a kill would: what it had done so far
//! stands on disk and in shared memory, and nothing after it happens.

use crate::error::Result;

#[derive(Debug, Default)]
pub(crate) struct Steps {
    #[cfg(test)]
    left: Option<u32>,
}

impl Steps {
    /// Ends the collector after so many steps more.
    #[cfg(test)]
    pub(crate) fn ending_after(steps: u32) -> Self {
        Self { left: Some(steps) }
    }

    /// Notes that a step is done.
    #[cfg(not(test))]
    pub(crate) fn reached(&mut self, _step: &'static str) -> Result<()> {
        Ok(())
    }

    /// Notes that a step is done; an error if the test ends here.
    #[cfg(test)]
    pub(crate) fn reached(&mut self, step: &'static str) -> Result<()> {
        match &mut self.left {
            Some(0) => Err(crate::Error::busy(std::path::Path::new("test"), "to go on", step)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

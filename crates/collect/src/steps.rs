//! The steps of the hand-over that a kill may fall between.
//!
//! In a program these are nothing. In a test the chosen one ends the collector as a kill would: what it had done so far
//! stands on disk and in shared memory, and nothing after it happens.

use tickscope_store::Result;

#[derive(Debug, Default)]
pub(crate) struct Steps {
    #[cfg(test)]
    left: Option<u32>,
    /// Action of a test, once, at the step of that name.
    #[cfg(test)]
    meanwhile: Option<(&'static str, fn())>,
}

impl Steps {
    /// Ends the collector after so many steps more.
    #[cfg(test)]
    pub(crate) fn ending_after(steps: u32) -> Self {
        Self { left: Some(steps), meanwhile: None }
    }

    /// Does something when that step is first done: what a program might do meanwhile.
    #[cfg(test)]
    pub(crate) fn meanwhile(step: &'static str, what: fn()) -> Self {
        Self { left: None, meanwhile: Some((step, what)) }
    }

    /// Notes that a step is done.
    #[cfg(not(test))]
    pub(crate) fn reached(&mut self, _step: &'static str) -> Result<()> {
        Ok(())
    }

    /// Notes that a step is done; an error if the test ends here.
    #[cfg(test)]
    pub(crate) fn reached(&mut self, step: &'static str) -> Result<()> {
        if let Some((_, what)) = self.meanwhile.take_if(|(of, _)| *of == step) {
            what();
        }
        match &mut self.left {
            Some(0) => Err(tickscope_store::Error::busy(std::path::Path::new("test"), "to go on", step)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

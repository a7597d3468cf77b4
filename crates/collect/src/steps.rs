//! The steps of the hand-over that a kill may fall between.
//!
//! In a program these are nothing. In a test the chosen one ends the collector as a kill would: what it had done so far
//! stands on disk and in shared memory, and nothing after it happens.

use tickscope_store::Result;

#[derive(Debug, Default)]
pub(crate) struct Steps {
    #[cfg(test)]
    left: Option<u32>,
    /// Actions of a test, once each, at the step of that name.
    #[cfg(test)]
    meanwhile: Vec<(&'static str, fn())>,
}

impl Steps {
    /// Ends the collector after so many steps more.
    #[cfg(test)]
    pub(crate) fn ending_after(steps: u32) -> Self {
        Self { left: Some(steps), meanwhile: Vec::new() }
    }

    /// Does something when that step is first done: what a program might do meanwhile.
    #[cfg(test)]
    pub(crate) fn meanwhile(step: &'static str, what: fn()) -> Self {
        Self { left: None, meanwhile: vec![(step, what)] }
    }

    /// Does something at a later step, too.
    #[cfg(test)]
    pub(crate) fn then(mut self, step: &'static str, what: fn()) -> Self {
        self.meanwhile.push((step, what));
        self
    }

    /// Notes that a step is done.
    #[cfg(not(test))]
    pub(crate) fn reached(&mut self, _step: &'static str) -> Result<()> {
        Ok(())
    }

    /// Notes that a step is done; an error if the test ends here.
    #[cfg(test)]
    pub(crate) fn reached(&mut self, step: &'static str) -> Result<()> {
        if self.meanwhile.first().is_some_and(|(of, _)| *of == step) {
            self.meanwhile.remove(0).1();
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

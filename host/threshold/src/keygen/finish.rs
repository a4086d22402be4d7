//! The end: nobody has a key before everybody has said to have seen the same ceremony.

use super::KeygenOutput;
use super::ceremony::payload;
use super::machine::Step;
use crate::ThresholdError;
use crate::inbox::Bodies;
use crate::suite::Suite;

/// Our transcript is out; those of the others are awaited.
pub(super) struct AwaitEchoes {
    /// The key, not yet to be shown.
    pub(super) output: Box<KeygenOutput>,
}

impl AwaitEchoes {
    /// Takes the round-3 bodies of all peers.
    pub(super) fn step<C: Suite>(self, bodies: &Bodies) -> Result<Step<C>, ThresholdError> {
        // Step 5.1
        let differs = bodies.iter().filter(|(_, body)| payload(body) != self.output.transcript);
        let differing = differs.map(|(from, _)| *from).collect();
        ThresholdError::unless_empty(differing, |participants| ThresholdError::TranscriptDiffers {
            participants,
        })?;
        // Step 5.2
        Ok(Step::Done(self.output))
    }
}

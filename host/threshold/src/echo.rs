//! The echo round of every protocol: a participant returns no result before all others have sent the same transcript.

use std::collections::BTreeMap;

use crate::ceremony::{Bodies, Ceremony, payload};
use crate::hash::TaggedHash;
use crate::public_keys::Group;
use crate::session::{Stage, Step};
use crate::{Message, ThresholdError};

/// The round of the echo, in every protocol.
const ROUND: u8 = 3;

/// Bytes of a transcript.
pub(crate) const TRANSCRIPT_BYTES: usize = 32;

/// Step 0.6: the hash of all broadcasts, by sender, and of the resulting public keys.
pub(crate) fn transcript(
    tag: &'static str,
    ceremony: &Ceremony,
    broadcasts: &BTreeMap<u16, Vec<u8>>,
    group: &Group,
) -> [u8; TRANSCRIPT_BYTES] {
    let opened = TaggedHash::new(tag).bytes(&ceremony.binding);
    let hash = broadcasts.iter().fold(opened, |hash, (from, payload)| hash.number(*from).bytes(payload));
    hash.bytes(&group.to_bytes()).finish()
}

/// Step 0.7: broadcasts our transcript, and continues with `then` once all others sent the same.
pub(crate) fn exchange(
    ceremony: &Ceremony,
    transcript: [u8; TRANSCRIPT_BYTES],
    then: Step,
) -> (Message, Box<dyn Stage>) {
    (ceremony.message(ROUND, None, &transcript), Box::new(AwaitEchoes { transcript, then }))
}

/// Waits for the others' transcripts, after sending ours.
struct AwaitEchoes {
    transcript: [u8; TRANSCRIPT_BYTES],
    /// The step after the comparison.
    then: Step,
}

impl Stage for AwaitEchoes {
    /// Compares the others' transcripts with ours.
    fn step(self: Box<Self>, _: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        // Step 0.8
        let differs = bodies.iter().filter(|(_, body)| payload(body) != self.transcript);
        let differing = differs.map(|(from, _)| *from).collect();
        ThresholdError::unless_empty(differing, |participants| ThresholdError::TranscriptMismatch {
            participants,
        })?;
        // Step 0.9
        Ok(self.then)
    }
}

//! Key generation: all participants of a roster make a key together, in three rounds.
//!
//! Pedersen's DKG with proofs of knowledge (FROST paper, <https://eprint.iacr.org/2020/852.pdf>, figure 1) in
//! frost-core, followed by a round in which all compare what they saw. `protocols.md`, section "Key generation", is the
//! numbered text; each file below is one stretch of it.

mod ceremony;
mod finish;
mod machine;
mod round1;
mod round2;
mod round3;

use std::collections::BTreeSet;
use std::fmt;

use rand_core::CryptoRngCore;

use crate::suite::with_suite;
use crate::{KeyShare, Message, Progress, PublicKeys, SignatureProfile, ThresholdError};
use ceremony::Ceremony;
use machine::Machine;

/// What the participants of one ceremony have agreed on beforehand. Any difference, and they refuse each other's
/// messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// The scheme the key is for.
    pub profile: SignatureProfile,
    /// This participant. The only field in which participants differ.
    pub me: u16,
    /// All participants, 0-based; at most [`PARTICIPANTS_MAX`](crate::limits::PARTICIPANTS_MAX), gaps allowed.
    pub roster: BTreeSet<u16>,
    /// Signers required for a signature: from 2 to the size of the roster.
    pub threshold: u16,
    /// Names this attempt and no other: a repeated attempt needs a new one.
    pub ceremony_id: [u8; 32],
}

/// What a participant has at the end.
#[derive(Debug)]
pub struct KeygenOutput {
    /// This participant's share. To be stored before any other participant hears that we are done.
    pub share: KeyShare,
    /// The same at every participant.
    pub keys: PublicKeys,
    /// The transcript all participants confirmed, 32 bytes; evidence of the ceremony.
    pub transcript: [u8; 32],
}

/// One participant's run of a key generation. Lives in memory only; drop it to abort.
pub struct Session(Box<dyn Handle + Send + Sync>);

impl Session {
    /// Opens the ceremony. The messages returned are for all other participants.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::Threshold`], [`ThresholdError::TooManyParticipants`] or [`ThresholdError::NotInRoster`] if the
    /// parameters make no sense.
    pub fn start(
        params: Params,
        rng: &mut impl CryptoRngCore,
    ) -> Result<(Self, Vec<Message>), ThresholdError> {
        let ceremony = Ceremony::open(params)?;
        with_suite!(ceremony.profile, C => {
            let (machine, message) = Machine::<C>::start(ceremony, rng)?;
            Ok((Self(Box::new(machine)), vec![message]))
        })
    }

    /// Takes one message of another participant, in any order.
    ///
    /// A repeated message is [`Progress::Wait`], also after the end.
    ///
    /// # Errors
    ///
    /// A message that has no place here is refused and the session goes on: [`ThresholdError::UnknownSender`],
    /// [`Misaddressed`](ThresholdError::Misaddressed), [`UnknownRound`](ThresholdError::UnknownRound),
    /// [`WrongLength`](ThresholdError::WrongLength), [`ForeignCeremony`](ThresholdError::ForeignCeremony).
    ///
    /// Anything else ends the session, also in place of messages that were due; the caller tells the others that the
    /// ceremony is over. Later messages get [`ThresholdError::SessionOver`]:
    /// [`ConflictingMessages`](ThresholdError::ConflictingMessages),
    /// [`MalformedMessage`](ThresholdError::MalformedMessage),
    /// [`ProofOfKnowledge`](ThresholdError::ProofOfKnowledge), [`SecretShare`](ThresholdError::SecretShare),
    /// [`TranscriptDiffers`](ThresholdError::TranscriptDiffers), [`Library`](ThresholdError::Library).
    pub fn handle(&mut self, message: Message) -> Result<Progress<KeygenOutput>, ThresholdError> {
        self.0.handle(message)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("keygen::Session").finish_non_exhaustive()
    }
}

/// A machine with its suite forgotten.
trait Handle {
    fn handle(&mut self, message: Message) -> Result<Progress<KeygenOutput>, ThresholdError>;
}

//! The crate's error type, and the participants that an error proves to be at fault.

use std::collections::BTreeSet;

use crate::SignatureProfile;

/// An error of a threshold protocol. Participants are 0-based indexes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    // Errors of the caller's arguments.
    /// Keys, shares or nonces of different profiles were used together.
    #[error("profile `{actual}` does not match the expected profile `{expected}`")]
    ProfileMismatch {
        /// The profile of the operation.
        expected: SignatureProfile,
        /// The profile of the key, share or nonces.
        actual: SignatureProfile,
    },
    /// The threshold is below [`THRESHOLD_MIN`](crate::THRESHOLD_MIN) or above the number of participants.
    #[error("threshold {threshold} is out of range for {participants} participants")]
    Threshold {
        /// Signers required.
        threshold: u16,
        /// Participants in the roster.
        participants: usize,
    },
    /// More than [`PARTICIPANTS_MAX`](crate::PARTICIPANTS_MAX) participants.
    #[error("{participants} participants exceed the limit")]
    TooManyParticipants {
        /// Participants in the roster.
        participants: usize,
    },
    /// The participant is not in the roster or holds no share, or its index is 65535, which has no FROST identifier.
    #[error("participant {participant} is not in the roster")]
    NotInRoster {
        /// The participant.
        participant: u16,
    },
    /// A dealer or helper was started without its share.
    #[error("participant {participant} was started without the share that it contributes")]
    ShareMissing {
        /// The participant.
        participant: u16,
    },
    /// The participant whose share is to be repaired is among the helpers.
    #[error("participant {participant} is both the target of the repair and a helper")]
    TargetIsHelper {
        /// The participant.
        participant: u16,
    },
    /// Our own contribution to a repair is not the admitted one, or the admitted root is not that of the contributions. No
    /// participant has deviated from the protocol.
    #[error("the contributions to the repair are not the admitted ones")]
    NotAdmitted,
    /// Key material does not decode, or is inconsistent.
    #[error("malformed {what}")]
    MalformedMaterial {
        /// The kind of material.
        what: &'static str,
    },
    /// The key share is of another key, epoch or participant than these public keys require.
    #[error("the key share of participant {participant} does not belong to these public keys")]
    ShareMismatch {
        /// The owner of the share.
        participant: u16,
    },
    /// The profile does not support child keys and Taproot output keys.
    #[error("profile `{profile}` has no non-hardened derivation")]
    DerivationUnsupported {
        /// The key's profile.
        profile: SignatureProfile,
    },
    /// The index is hardened (2³¹ or above): its derivation needs the private key, which exists nowhere.
    #[error("derivation index {index} is hardened")]
    HardenedIndex {
        /// The index as BIP-32 counts it, with the top bit.
        index: u32,
    },
    /// The path has more than [`PATH_INDEXES_MAX`](crate::derive::PATH_INDEXES_MAX) indexes.
    #[error("a derivation path of {indexes} indexes is too long")]
    PathTooDeep {
        /// Indexes in the path.
        indexes: usize,
    },
    /// The child is invalid according to BIP-32 (probability below 2⁻¹²⁷). Use the next index.
    #[error("derivation index {index} has no valid child key")]
    InvalidChild {
        /// The index.
        index: u32,
    },
    /// The Taproot tweak is not below the group order, or the output key is the identity (probability below 2⁻¹²⁷).
    #[error("the key has no Taproot output key")]
    InvalidOutputKey,
    /// The tweak of the key for payments is zero, or that key is the identity (probability below 2⁻²⁴⁷).
    #[error("the key has no key for payments")]
    InvalidPaymentsKey,

    // Rejected messages; the session continues as if they had not arrived.
    /// The sender has no message for us in any round of the ceremony.
    #[error("participant {from} sends us no messages in this ceremony")]
    UnknownSender {
        /// Sender.
        from: u16,
    },
    /// A broadcast names a recipient, or a private message names another recipient or none.
    #[error("the round {round} message of participant {from} names a wrong recipient")]
    WrongRecipient {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// The protocol has no such round, or the sender has no message for us in it.
    #[error("participant {from} has no message for us in round {round}")]
    UnknownRound {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// The message belongs to another ceremony, or to this one with other parameters.
    #[error("the round {round} message of participant {from} belongs to another ceremony")]
    OtherCeremony {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// The message has the wrong length.
    #[error("the round {round} message of participant {from} has the wrong length of {bytes} bytes")]
    WrongLength {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
        /// Length of the body.
        bytes: usize,
    },

    // Errors that end the session.
    /// The session has failed; start another ceremony.
    #[error("the session has failed")]
    SessionFailed,
    /// A participant sent two different messages for one round.
    #[error("participant {from} sent two different messages in round {round}")]
    ConflictingMessages {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// A field of the message is not the canonical encoding of a valid value.
    #[error("the round {round} message of participant {from} is malformed")]
    MalformedMessage {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// The proof that the participant knows its own secret does not verify.
    #[error("the proof of knowledge of participant {from} does not verify")]
    InvalidProofOfKnowledge {
        /// Sender.
        from: u16,
    },
    /// The sender's commitments are not to its share of the key in the current epoch.
    #[error("participant {from} did not commit to its share of the key")]
    CommitmentMismatch {
        /// Sender.
        from: u16,
    },
    /// The helpers' contributions to a repair are not the admitted ones.
    #[error("the contributions of participants {helpers:?} are not the admitted ones")]
    ContributionMismatch {
        /// Helpers, ascending.
        helpers: Vec<u16>,
    },
    /// The scalar of the private message does not match the sender's commitments of round 1.
    #[error("the secret value from participant {from} does not match its commitments")]
    InvalidSecretShare {
        /// Sender.
        from: u16,
    },
    /// Transcripts differ, for example because a participant sent different messages to different recipients.
    ///
    /// This does not prove which participant is at fault: the ones named may be those that received the other messages.
    /// Compare the signed round-1 envelopes of both sides to find out.
    #[error("participants {participants:?} sent a different transcript")]
    TranscriptMismatch {
        /// Participants whose transcript differs from ours, ascending.
        participants: Vec<u16>,
    },

    /// The echo is not the transcript of the broadcasts that were relayed to all. Only an observer who relayed them knows.
    #[error("participant {from} echoed another transcript than that of the broadcasts")]
    WrongEcho {
        /// Sender.
        from: u16,
    },

    // Signing.
    /// Fewer signers than the key requires.
    #[error("the package has {signers} signers, but {threshold} are required")]
    TooFewSigners {
        /// Signers in the package.
        signers: usize,
        /// Signers required.
        threshold: u16,
    },
    /// The package names signers that hold no share of the key.
    #[error("signers {signers:?} hold no share of the key")]
    UnknownSigners {
        /// Signers without a share, ascending.
        signers: Vec<u16>,
    },
    /// Commitments do not decode.
    #[error("the commitments of signers {signers:?} are malformed")]
    MalformedCommitments {
        /// Owners of the commitments, ascending.
        signers: Vec<u16>,
    },
    /// The package does not contain the commitments of the nonces that should sign it.
    #[error("the signing package does not contain our own commitments")]
    OwnCommitmentsMissing,
    /// The owners of the signature shares are not exactly the package's signers.
    #[error("signature shares are missing from {missing:?} and unexpected from {unexpected:?}")]
    SignerSetMismatch {
        /// Signers without a share, ascending.
        missing: Vec<u16>,
        /// Shares without a signer, ascending.
        unexpected: Vec<u16>,
    },
    /// Some signature shares do not verify.
    #[error("the signature shares of {signers:?} do not verify")]
    InvalidSignatureShares {
        /// Owners of all such shares, ascending.
        signers: Vec<u16>,
    },
    /// The signature does not verify under the public key.
    #[error("the signature does not verify")]
    InvalidSignature,

    /// The FROST library returned an error that our checks should have excluded.
    #[error("unexpected error of the FROST library: {detail}")]
    Library {
        /// The library's message.
        detail: String,
    },
}

impl ThresholdError {
    /// Participants that this error proves to have deviated from the protocol, ascending; may be empty.
    ///
    /// Correct only if the caller authenticated the senders: see the crate's documentation. The commitments in a signing package
    /// come from the coordinator, which can make an honest signer appear at fault. To find out, compare the package with the
    /// [`SigningPackage::hash`](crate::sign::SigningPackage::hash) that nodes sign.
    #[must_use]
    pub fn culprits(&self) -> Vec<u16> {
        match self {
            Self::UnknownRound { from, .. }
            | Self::OtherCeremony { from, .. }
            | Self::WrongLength { from, .. }
            | Self::ConflictingMessages { from, .. }
            | Self::MalformedMessage { from, .. }
            | Self::InvalidProofOfKnowledge { from }
            | Self::CommitmentMismatch { from }
            | Self::InvalidSecretShare { from }
            | Self::WrongEcho { from } => vec![*from],
            Self::MalformedCommitments { signers: culprits }
            | Self::InvalidSignatureShares { signers: culprits }
            | Self::ContributionMismatch { helpers: culprits } => culprits.clone(),
            Self::ProfileMismatch { .. }
            | Self::Threshold { .. }
            | Self::TooManyParticipants { .. }
            | Self::NotInRoster { .. }
            | Self::ShareMissing { .. }
            | Self::TargetIsHelper { .. }
            | Self::NotAdmitted
            | Self::MalformedMaterial { .. }
            | Self::ShareMismatch { .. }
            | Self::DerivationUnsupported { .. }
            | Self::HardenedIndex { .. }
            | Self::PathTooDeep { .. }
            | Self::InvalidChild { .. }
            | Self::InvalidOutputKey
            | Self::InvalidPaymentsKey
            | Self::UnknownSender { .. }
            | Self::WrongRecipient { .. }
            | Self::SessionFailed
            | Self::TranscriptMismatch { .. }
            | Self::TooFewSigners { .. }
            | Self::UnknownSigners { .. }
            | Self::OwnCommitmentsMissing
            | Self::SignerSetMismatch { .. }
            | Self::InvalidSignature
            | Self::Library { .. } => Vec::new(),
        }
    }

    /// Returns `error` with these participants, or `Ok` if there are none.
    pub(crate) fn unless_empty(
        participants: BTreeSet<u16>,
        error: impl FnOnce(Vec<u16>) -> Self,
    ) -> Result<(), Self> {
        if participants.is_empty() { Ok(()) } else { Err(error(participants.into_iter().collect())) }
    }
}

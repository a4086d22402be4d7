//! What can go wrong, and who did it.

use std::collections::BTreeSet;

use crate::SignatureProfile;

/// A refusal or failure of a threshold protocol. Participants are 0-based indexes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    // What the caller asked for.
    /// No profile has this name.
    #[error("`{name}` is not a signature profile")]
    UnknownProfile {
        /// The name given.
        name: String,
    },
    /// Material of one profile was used with material of another.
    #[error("material of profile `{actual}` where `{expected}` is due")]
    ProfileMismatch {
        /// The profile the operation is for.
        expected: SignatureProfile,
        /// The profile of the material.
        actual: SignatureProfile,
    },
    /// The threshold is below [`THRESHOLD_MIN`](crate::limits::THRESHOLD_MIN) or above the number of participants.
    #[error("threshold {threshold} with {participants} participants")]
    Threshold {
        /// Signers required.
        threshold: u16,
        /// Participants in the roster.
        participants: usize,
    },
    /// More than [`PARTICIPANTS_MAX`](crate::limits::PARTICIPANTS_MAX) participants.
    #[error("{participants} participants are too many")]
    TooManyParticipants {
        /// Participants in the roster.
        participants: usize,
    },
    /// The participant is not in the roster, or its index has no FROST identifier (65535).
    #[error("participant {participant} is not in the roster")]
    NotInRoster {
        /// The participant.
        participant: u16,
    },
    /// The participant has its share to give to this ceremony and did not.
    #[error("participant {participant} takes part with its share and was started without")]
    ShareMissing {
        /// The participant.
        participant: u16,
    },
    /// The participant whose share is to be repaired can not help with it.
    #[error("participant {participant} is the target and among the helpers")]
    TargetHelps {
        /// The participant.
        participant: u16,
    },
    /// Stored or received key material does not decode.
    #[error("malformed {what}")]
    MalformedMaterial {
        /// What was being read.
        what: &'static str,
    },
    /// The key share is not a share of these public keys: another key, or another epoch of it.
    #[error("the key share of participant {participant} does not belong to these public keys")]
    ForeignShare {
        /// Owner of the share.
        participant: u16,
    },
    /// The profile has no public-key derivation.
    #[error("profile `{profile}` has no non-hardened derivation")]
    DerivationUnsupported {
        /// The key's profile.
        profile: SignatureProfile,
    },
    /// A hardened index (2³¹ or above) needs the private key, which nobody has.
    #[error("derivation index {index} is hardened")]
    HardenedIndex {
        /// The index as BIP-32 counts it, with the top bit.
        index: u32,
    },
    /// The path has more than [`PATH_INDEXES_MAX`](crate::limits::PATH_INDEXES_MAX) indexes.
    #[error("a derivation path of {indexes} indexes is too deep")]
    PathTooDeep {
        /// Indexes in the path.
        indexes: usize,
    },
    /// BIP-32 calls the child invalid (probability below 2⁻¹²⁷); take the next index.
    #[error("derivation index {index} has no valid child key")]
    InvalidChild {
        /// The index.
        index: u32,
    },

    // A message that is refused; the session goes on as if it had not come.
    /// The sender is not another participant of the ceremony.
    #[error("participant {from} is no peer in this ceremony")]
    UnknownSender {
        /// Sender.
        from: u16,
    },
    /// A broadcast came addressed, or a private message came to the wrong participant or to all.
    #[error("the round {round} message of participant {from} is misaddressed")]
    Misaddressed {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// The protocol has no such round, or the sender nothing to tell us in it.
    #[error("participant {from} has no message of round {round} for us")]
    UnknownRound {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// The message belongs to another ceremony, or to this one under other parameters.
    #[error("the round {round} message of participant {from} belongs to another ceremony")]
    ForeignCeremony {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// The message has the wrong length.
    #[error("the round {round} message of participant {from} has {bytes} bytes")]
    WrongLength {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
        /// Length of the body.
        bytes: usize,
    },

    // The end of the session.
    /// The session failed before; start another ceremony.
    #[error("the session is over")]
    SessionOver,
    /// A participant sent two different messages for one round.
    #[error("participant {from} sent two different messages of round {round}")]
    ConflictingMessages {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// A message has a field that is not the canonical encoding of a valid value.
    #[error("the round {round} message of participant {from} is malformed")]
    MalformedMessage {
        /// Sender.
        from: u16,
        /// Round.
        round: u8,
    },
    /// The proof that the participant knows its own secret does not hold.
    #[error("the proof of knowledge of participant {from} does not hold")]
    ProofOfKnowledge {
        /// Sender.
        from: u16,
    },
    /// What the sender committed to is not its share of the key in the current epoch.
    #[error("the commitments of participant {from} are not to its share of the key")]
    ForeignSecret {
        /// Sender.
        from: u16,
    },
    /// The private message is not what the commitments of round 1 say it has to be.
    #[error("the secret share from participant {from} contradicts its commitments")]
    SecretShare {
        /// Sender.
        from: u16,
    },
    /// Participants saw different ceremonies: somebody sent different things to different nodes.
    ///
    /// This proves that somebody lied, not who: those named may be the ones lied to. Compare the signed round-1
    /// envelopes of both sides to settle it.
    #[error("participants {participants:?} saw a different transcript")]
    TranscriptDiffers {
        /// Those whose transcript is not ours, ascending.
        participants: Vec<u16>,
    },

    // Signing.
    /// Fewer signers than the key requires.
    #[error("{signers} signers where {threshold} are required")]
    TooFewSigners {
        /// Signers in the package.
        signers: usize,
        /// Signers required.
        threshold: u16,
    },
    /// The package names signers that hold no share of the key.
    #[error("signers {signers:?} hold no share of the key")]
    UnknownSigners {
        /// Those signers, ascending.
        signers: Vec<u16>,
    },
    /// Commitments do not decode.
    #[error("the commitments of signers {signers:?} are malformed")]
    MalformedCommitments {
        /// Their owners, ascending.
        signers: Vec<u16>,
    },
    /// The package does not carry the commitments of the nonces that were to sign it.
    #[error("the signing package does not hold our own commitments")]
    OwnCommitments,
    /// The signature shares are not exactly those of the package's signers.
    #[error("signature shares are missing from {missing:?} and unexpected from {unexpected:?}")]
    SignerSetDiffers {
        /// Signers without a share, ascending.
        missing: Vec<u16>,
        /// Shares without a signer, ascending.
        unexpected: Vec<u16>,
    },
    /// Signature shares that do not verify.
    #[error("the signature shares of {signers:?} do not verify")]
    InvalidSignatureShares {
        /// All of their owners, ascending.
        signers: Vec<u16>,
    },
    /// The signature does not verify under the public key.
    #[error("the signature does not verify")]
    InvalidSignature,

    /// The FROST library refused for a reason that checks before it should have excluded.
    #[error("unexpected refusal by the FROST library: {detail}")]
    Library {
        /// The library's own words.
        detail: String,
    },
}

impl ThresholdError {
    /// Participants this error shows to have deviated from the protocol, ascending; empty when it shows nobody.
    ///
    /// Right only as far as the caller is right about who sent what: see the crate's opening page. Commitments in a
    /// signing package came through the coordinator, who can make an honest signer look bad; nodes sign
    /// [`SigningPackage::hash`](crate::sign::SigningPackage::hash) so that this, too, can be told.
    #[must_use]
    pub fn culprits(&self) -> Vec<u16> {
        match self {
            Self::UnknownRound { from, .. }
            | Self::ForeignCeremony { from, .. }
            | Self::WrongLength { from, .. }
            | Self::ConflictingMessages { from, .. }
            | Self::MalformedMessage { from, .. }
            | Self::ProofOfKnowledge { from }
            | Self::ForeignSecret { from }
            | Self::SecretShare { from } => vec![*from],
            Self::MalformedCommitments { signers } | Self::InvalidSignatureShares { signers } => {
                signers.clone()
            }
            Self::UnknownProfile { .. }
            | Self::ProfileMismatch { .. }
            | Self::Threshold { .. }
            | Self::TooManyParticipants { .. }
            | Self::NotInRoster { .. }
            | Self::ShareMissing { .. }
            | Self::TargetHelps { .. }
            | Self::MalformedMaterial { .. }
            | Self::ForeignShare { .. }
            | Self::DerivationUnsupported { .. }
            | Self::HardenedIndex { .. }
            | Self::PathTooDeep { .. }
            | Self::InvalidChild { .. }
            | Self::UnknownSender { .. }
            | Self::Misaddressed { .. }
            | Self::SessionOver
            | Self::TranscriptDiffers { .. }
            | Self::TooFewSigners { .. }
            | Self::UnknownSigners { .. }
            | Self::OwnCommitments
            | Self::SignerSetDiffers { .. }
            | Self::InvalidSignature
            | Self::Library { .. } => Vec::new(),
        }
    }

    /// `Ok` if `threshold` signers out of `participants` make sense.
    pub(crate) fn check_threshold(threshold: u16, participants: usize) -> Result<(), Self> {
        if participants > crate::limits::PARTICIPANTS_MAX {
            return Err(Self::TooManyParticipants { participants });
        }
        if threshold < crate::limits::THRESHOLD_MIN || usize::from(threshold) > participants {
            return Err(Self::Threshold { threshold, participants });
        }
        Ok(())
    }

    /// `Ok` if `signers` is empty.
    pub(crate) fn unless_empty(
        signers: BTreeSet<u16>,
        error: impl FnOnce(Vec<u16>) -> Self,
    ) -> Result<(), Self> {
        if signers.is_empty() { Ok(()) } else { Err(error(signers.into_iter().collect())) }
    }
}

//! Witnesses of the log: cosigners that state that they saw it grow and never change (C2SP `tlog-witness` and
//! `tlog-cosignature`, its Ed25519 form).
//!
//! Everything that a witness sends is hostile until it verifies. A size in an answer is not signed, so it proves nothing;
//! only a checkpoint that the log's own key signed proves what the log once was, which [`LogStanding`] compares.

use super::checkpoint::{Checkpoint, SignedCheckpoint, SignedCheckpointError};
use super::note::{
    COSIGNATURE, KEY_ID_BYTES, KeyName, NoteError, NoteSignature, VerifierKeyError, key_id, parse_key,
    write_key,
};
use super::{empty_root, hash_to_base64, number};
use crate::ed25519::{PublicKey, SIGNATURE_BYTES};
use crate::ids::Hex32;
use std::fmt;
use std::str::FromStr;

/// The longest answer of a witness that is parsed: room for 16 lines with long names.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// How far the time of a new cosignature may be from the reader's clock.
pub const CLOCK_SKEW_SECONDS_MAX: u64 = 600;

/// The most hashes of a consistency proof in a request.
const PROOF_HASHES_MAX: usize = 63;

/// The public key of a witness. Its text is that of a verifier key with signature type 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessKey {
    name: KeyName,
    // INVARIANT: follows from name and key; checked by `from_str`.
    id: [u8; KEY_ID_BYTES],
    key: PublicKey,
}

/// A cosignature that verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosignature {
    /// The name of the witness.
    pub witness: KeyName,
    /// When the witness signed, by its own clock, in seconds since 1970.
    pub time_seconds: u64,
}

/// How the present log relates to a checkpoint that its own key signed earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStanding {
    /// The log begins with the one of the checkpoint.
    Consistent,
    /// The log is smaller than it once was: its database is an old copy, or lost its end.
    Behind {
        /// The log's present size.
        ours: u64,
        /// The size that was signed.
        signed: u64,
    },
    /// The log had another root at the size of the checkpoint: it was changed, or continued from an old copy.
    Forked {
        /// The size of the checkpoint.
        size: u64,
    },
}

/// The reason why the answer of a witness is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is longer than [`ANSWER_BYTES_MAX`].
    #[error("the answer is longer than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// It is not a sequence of signature lines.
    #[error("the answer is not a sequence of signature lines")]
    NotLines,
    /// No line is by the key of this witness.
    #[error("the answer has no cosignature by `{0}`")]
    NoCosignature(KeyName),
    /// The cosignature is not one over this checkpoint.
    #[error("the cosignature of `{0}` does not verify")]
    BadCosignature(KeyName),
    /// The time of the cosignature is more than [`CLOCK_SKEW_SECONDS_MAX`] from the reader's clock.
    #[error("the cosignature is dated {time_seconds} s since 1970, but it is {now_seconds}")]
    Time {
        /// When the witness says that it signed.
        time_seconds: u64,
        /// The reader's clock.
        now_seconds: u64,
    },
}

/// The reason why a checkpoint cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The earlier log is larger than the checkpoint.
    #[error("the witness is at {old}, above the checkpoint's {size}")]
    Sizes {
        /// The size that the witness has.
        old: u64,
        /// The size of the checkpoint.
        size: u64,
    },
    /// The number of hashes is not one of a proof between these sizes.
    #[error("a proof of {0} hashes does not belong in this request")]
    Proof(usize),
}

impl WitnessKey {
    /// The name of the witness.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// Whether this is the same key, or one of the same name.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.name == other.name || self.key == other.key
    }

    /// The time of this line if the witness signed exactly `text`. `None` when it did not.
    fn verify(&self, text: &str, line: &NoteSignature) -> Option<u64> {
        let (time, signature) = line.bytes.split_first_chunk::<8>()?;
        let signature: &[u8; SIGNATURE_BYTES] = signature.try_into().ok()?;
        let time_seconds = u64::from_be_bytes(*time);
        let message = format!("cosignature/v1\ntime {time_seconds}\n{text}");
        let is_time = i64::try_from(time_seconds).is_ok();
        (is_time && self.key.verifies(message.as_bytes(), signature)).then_some(time_seconds)
    }

    fn is_named_by(&self, line: &NoteSignature) -> bool {
        self.name == line.name && self.id == line.id
    }
}

impl FromStr for WitnessKey {
    type Err = VerifierKeyError;

    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        let (name, kind, key) = parse_key(text)?;
        if kind != COSIGNATURE {
            return Err(VerifierKeyError::NotAWitness(kind));
        }
        if key.is_weak() {
            return Err(VerifierKeyError::NotAPoint);
        }
        Ok(Self { id: key_id(&name, kind, key), name, key })
    }
}

impl fmt::Display for WitnessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, &self.name, COSIGNATURE, self.key)
    }
}

impl SignedCheckpoint {
    /// The cosignatures by these witnesses, at most one of each. Lines by other keys are ignored.
    ///
    /// # Errors
    /// [`NoteError::BadSignature`] when a line by one of these witnesses is not a cosignature of this checkpoint.
    pub fn cosignatures<'a>(
        &self,
        witnesses: impl IntoIterator<Item = &'a WitnessKey>,
    ) -> Result<Vec<Cosignature>, NoteError> {
        let mut found = Vec::new();
        for witness in witnesses {
            let mut latest = None;
            for line in self.note.signatures().iter().filter(|line| witness.is_named_by(line)) {
                let time = witness.verify(self.note.text(), line);
                latest = latest.max(Some(time.ok_or_else(|| NoteError::BadSignature(witness.name.clone()))?));
            }
            found.extend(
                latest.map(|time_seconds| Cosignature { witness: witness.name.clone(), time_seconds }),
            );
        }
        Ok(found)
    }

    /// This checkpoint with the cosignature from the answer of a witness, instead of an earlier one by the same witness.
    /// Nothing else of the answer is kept.
    pub fn with_answer(
        &self,
        answer: &str,
        witness: &WitnessKey,
        now_seconds: u64,
    ) -> Result<Self, AnswerError> {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(AnswerError::TooLong);
        }
        let lines =
            answer.strip_suffix('\n').ok_or(AnswerError::NotLines)?.split('\n').map(NoteSignature::parse);
        let lines = lines.collect::<Option<Vec<_>>>().ok_or(AnswerError::NotLines)?;
        let line = lines.into_iter().find(|line| witness.is_named_by(line));
        let line = line.ok_or_else(|| AnswerError::NoCosignature(witness.name.clone()))?;
        let time = witness.verify(self.note.text(), &line);
        let time_seconds = time.ok_or_else(|| AnswerError::BadCosignature(witness.name.clone()))?;
        if time_seconds.abs_diff(now_seconds) > CLOCK_SKEW_SECONDS_MAX {
            return Err(AnswerError::Time { time_seconds, now_seconds });
        }
        let note = self.note.replacing(|other| witness.is_named_by(other), line);
        Ok(Self { checkpoint: self.checkpoint.clone(), note })
    }
}

/// The body of `POST <prefix>/add-checkpoint` for a witness whose latest checkpoint of this log has the size `old`, with
/// the proof that the checkpoint's log begins with that one.
pub fn add_checkpoint(
    old: u64,
    proof: &[Hex32],
    checkpoint: &SignedCheckpoint,
) -> Result<String, RequestError> {
    let size = checkpoint.unverified().size();
    if old > size {
        return Err(RequestError::Sizes { old, size });
    }
    let is_empty_proof = old == 0 || old == size;
    if proof.len() > PROOF_HASHES_MAX || proof.is_empty() != is_empty_proof {
        return Err(RequestError::Proof(proof.len()));
    }
    let hashes: String = proof.iter().map(|hash| hash_to_base64(*hash) + "\n").collect();
    Ok(format!("old {old}\n{hashes}\n{checkpoint}"))
}

/// The size in a 409 answer of a witness. It is not signed: use it to choose a proof, never as evidence about the log.
#[must_use]
pub fn conflict_size(answer: &str) -> Option<u64> {
    number(answer.strip_suffix('\n')?)
}

impl LogStanding {
    /// Compares the present log, of `ours` events, with a checkpoint that one of the log's own keys signed.
    /// `root_at_signed` is the present log's root at the checkpoint's size, and is read only if the log has that size.
    ///
    /// # Errors
    /// [`SignedCheckpointError`] when the checkpoint is not by these keys, so that it proves nothing.
    pub fn of(
        ours: u64,
        root_at_signed: Option<Hex32>,
        signed: &SignedCheckpoint,
        keys: &[super::VerifierKey],
    ) -> Result<Self, SignedCheckpointError> {
        let signed: &Checkpoint = signed.verify(keys)?;
        let (size, root) = (signed.size(), signed.root());
        if ours < size {
            return Ok(Self::Behind { ours, signed: size });
        }
        let own = if size == 0 { Some(empty_root()) } else { root_at_signed };
        Ok(if own == Some(root) { Self::Consistent } else { Self::Forked { size } })
    }
}

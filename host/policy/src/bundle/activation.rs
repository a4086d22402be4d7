//! Activation records: a signed statement that brings an older bundle back (a rollback).
//!
//! Without a record, a bundle with a lower sequence than the active one is refused. A record needs the same signatures as a
//! bundle: every role of the trust policy must reach its threshold. Its own sequence must be higher than every sequence before,
//! so an old record has no effect when it is offered again.

use super::{BundleError, TrustPolicy, strict};
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::canonical;
use gateway_domain::dsse::{Envelope, Signature, key_id, pre_authentication_encoding};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use serde::{Deserialize, Serialize};

/// DSSE payload type of a signed activation record.
pub const ACTIVATION_PAYLOAD_TYPE: &str = "application/vnd.svc.policy-activation.v1+json";

/// Longest reason, in bytes: it is shown with the activation.
pub const REASON_BYTES_MAX: usize = 1_024;

/// The name of the file in error messages.
const FILE: &str = "activation record";

/// The signed content of an activation record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActivationRecord {
    /// Higher than every sequence that was ever active. The next bundle must have a higher one.
    #[serde(deserialize_with = "canonical::integer")]
    pub sequence: u64,
    /// The hash of the bundle to activate.
    pub bundle_hash: Hex32,
    /// The reason, for people; not blank, at most [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
    /// The last instant at which the record may take effect, by the gateway's clock; `None` for no limit. A bundle that it
    /// activated stays active.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_after_ms: Option<EpochMs>,
}

/// A record that passed [`ActivationRecord::verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedActivation {
    // INVARIANT: private, so that only `verify` makes one.
    record: ActivationRecord,
    signers: Vec<String>,
}

impl SignedActivation {
    /// The signed content.
    #[must_use]
    pub const fn record(&self) -> &ActivationRecord {
        &self.record
    }

    /// Ids of the trusted keys whose signatures were counted, ascending.
    #[must_use]
    pub fn signers(&self) -> &[String] {
        &self.signers
    }
}

impl ActivationRecord {
    /// Reads a record's file, an envelope with all its signatures, and checks it against the trust policy.
    pub fn verify(bytes: &[u8], trust: &TrustPolicy, now: EpochMs) -> Result<SignedActivation, BundleError> {
        let record = Self::parse(bytes)?;
        let signers =
            trust.check(ACTIVATION_PAYLOAD_TYPE, &record.payload()?, [(FILE, bytes)].into_iter())?;
        match record.not_after_ms {
            Some(not_after) if now > not_after => {
                Err(BundleError::ActivationExpired { not_after_ms: not_after.0, now_ms: now.0 })
            }
            _ => Ok(SignedActivation { record, signers }),
        }
    }

    /// Reads a record's file, without checking its signatures.
    ///
    /// # Errors
    /// As [`ActivationRecord::read`], and for a file that is not an envelope.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        Self::read(&strict::parse(FILE, bytes)?)
    }

    /// Reads the record in an envelope, without checking its signatures.
    ///
    /// # Errors
    /// [`BundleError`] when the payload is not an activation record in canonical form.
    pub fn read(envelope: &Envelope) -> Result<Self, BundleError> {
        let invalid = |fault: String| BundleError::Json { file: FILE.to_owned(), fault };
        let payload = envelope.payload(ACTIVATION_PAYLOAD_TYPE);
        let payload = payload.map_err(|source| BundleError::Signature { file: FILE.to_owned(), source })?;
        let record: Self = serde_json::from_slice(&payload).map_err(|fault| invalid(fault.to_string()))?;
        if record.payload()? != payload {
            return Err(BundleError::NotStrict { file: FILE.to_owned(), pointer: String::new() });
        }
        Ok(record)
    }

    /// Signs the record with these keys. [`ActivationRecord::countersign`] adds another signer's signature.
    ///
    /// # Errors
    /// [`BundleError::Reason`] for a reason that is blank or too long.
    pub fn sign(&self, keys: &[&SigningKey]) -> Result<Envelope, BundleError> {
        let payload = self.payload()?;
        let signatures: Vec<_> =
            keys.iter().map(|key| signature(ACTIVATION_PAYLOAD_TYPE, &payload, key)).collect();
        Ok(Envelope::seal(ACTIVATION_PAYLOAD_TYPE, &payload, &signatures))
    }

    /// The same envelope with one more signature, which replaces an earlier one by the same key.
    ///
    /// # Errors
    /// As [`ActivationRecord::read`].
    pub fn countersign(envelope: &Envelope, key: &SigningKey) -> Result<Envelope, BundleError> {
        let added = Self::read(envelope)?.sign(&[key])?;
        let is_new = |signature: &&Signature| added.signatures.iter().all(|it| it.keyid != signature.keyid);
        let kept: Vec<_> = envelope.signatures.iter().filter(is_new).cloned().collect();
        Ok(Envelope { signatures: [kept, added.signatures].concat(), ..added })
    }

    /// The canonical bytes that are signed.
    fn payload(&self) -> Result<Vec<u8>, BundleError> {
        if self.reason.trim().is_empty() || self.reason.len() > REASON_BYTES_MAX {
            return Err(BundleError::Reason);
        }
        canonical::to_bytes(self).map_err(|source| BundleError::Canonical { file: FILE.to_owned(), source })
    }
}

/// A key's id, and its signature of a payload of this type, for an [`Envelope`].
#[must_use]
pub fn signature(payload_type: &str, payload: &[u8], key: &SigningKey) -> (String, [u8; 64]) {
    let signed = pre_authentication_encoding(payload_type, payload);
    (key_id(key.verifying_key().as_bytes()), key.sign(&signed).to_bytes())
}

//! DSSE envelopes (protocol version 1.0.2): signatures over exact bytes, so that verification needs no canonical form.

use crate::ed25519::{PublicKey, SIGNATURE_BYTES};
use crate::ids::Hex32;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A signed payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The type of the payload; signed with it.
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    /// Base64 of the signed bytes.
    pub payload: String,
    /// The signatures, one for each signer.
    pub signatures: Vec<Signature>,
}

/// One signer's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The id of the key: see [`key_id`].
    pub keyid: String,
    /// Base64 of the 64 signature bytes.
    pub sig: String,
}

/// A role in which people sign, for example `author` or `security`, or `rates` for the document of this name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// The name of the role.
    pub role: String,
    /// How many different keys of the role must sign; at least 1.
    pub threshold: usize,
    /// Ed25519 public keys, hexadecimal. To replace a key, list the old and the new one for a while.
    pub keys: BTreeSet<Hex32>,
}

/// Trusted keys, by [`key_id`].
#[derive(Clone, Debug, Default)]
pub struct KeySet(BTreeMap<String, PublicKey>);

/// The reason why an envelope is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The payload is of another type.
    #[error("payload type is `{0}`")]
    PayloadType(String),
    /// The payload or a signature is not base64, or a signature by a trusted key is not 64 bytes.
    #[error("`{0}` is not well formed")]
    Encoding(&'static str),
    /// No signature is by a trusted key.
    #[error("no signature is by a trusted key")]
    UnknownSigner,
    /// A signature by a trusted key is wrong.
    #[error("the signature of key `{0}` does not verify")]
    BadSignature(String),
    /// The 32 bytes are not an Ed25519 public key.
    #[error("`{0}` is not an Ed25519 public key")]
    BadKey(String),
}

/// The first 32 hexadecimal characters of `SHA-256("svc/key/v1" || public key)`.
#[must_use]
pub fn key_id(public_key: &[u8; 32]) -> String {
    let mut id = crate::canonical::digest_bytes("svc/key/v1", public_key).to_string();
    id.truncate(32);
    id
}

/// The bytes that are signed: `DSSEv1 SP LEN(type) SP type SP LEN(payload) SP payload`.
#[must_use]
pub fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {} {} ", payload_type.len(), payload_type, payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

impl Envelope {
    /// Wraps a payload and its signatures (`keyid`, 64 bytes).
    #[must_use]
    pub fn seal(payload_type: &str, payload: &[u8], signatures: &[(String, [u8; 64])]) -> Self {
        let encode =
            |(keyid, sig): &(String, [u8; 64])| Signature { keyid: keyid.clone(), sig: STANDARD.encode(sig) };
        Self {
            payload_type: payload_type.to_owned(),
            payload: STANDARD.encode(payload),
            signatures: signatures.iter().map(encode).collect(),
        }
    }

    /// The payload, without verification: for example, for a tool that shows it to the next signer.
    ///
    /// # Errors
    /// [`EnvelopeError::PayloadType`], [`EnvelopeError::Encoding`].
    pub fn payload(&self, payload_type: &str) -> Result<Vec<u8>, EnvelopeError> {
        if self.payload_type != payload_type {
            return Err(EnvelopeError::PayloadType(self.payload_type.clone()));
        }
        STANDARD.decode(&self.payload).map_err(|_| EnvelopeError::Encoding("payload"))
    }

    /// The payload, and the ids of the trusted keys that signed it, each once. Signatures by other keys are ignored, but a
    /// wrong signature by a trusted key is an error.
    ///
    /// # Errors
    /// [`EnvelopeError`]; [`EnvelopeError::UnknownSigner`] when no trusted key signed.
    pub fn verify(&self, payload_type: &str, keys: &KeySet) -> Result<(Vec<u8>, Vec<String>), EnvelopeError> {
        let payload = self.payload(payload_type)?;
        let signed = pre_authentication_encoding(payload_type, &payload);
        let mut signers = Vec::new();
        for signature in &self.signatures {
            let Some(key) = keys.0.get(&signature.keyid) else { continue };
            let bytes = STANDARD.decode(&signature.sig).map_err(|_| EnvelopeError::Encoding("sig"))?;
            let bytes: [u8; SIGNATURE_BYTES] =
                bytes.try_into().map_err(|_| EnvelopeError::Encoding("sig"))?;
            if !key.verifies(&signed, &bytes) {
                return Err(EnvelopeError::BadSignature(signature.keyid.clone()));
            }
            if !signers.contains(&signature.keyid) {
                signers.push(signature.keyid.clone());
            }
        }
        if signers.is_empty() { Err(EnvelopeError::UnknownSigner) } else { Ok((payload, signers)) }
    }
}

impl KeySet {
    /// The number of different keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A set of raw public keys.
    ///
    /// # Errors
    /// [`EnvelopeError::BadKey`] for bytes that are not a point of the curve.
    pub fn new(public_keys: impl IntoIterator<Item = [u8; 32]>) -> Result<Self, EnvelopeError> {
        let parse = |bytes: [u8; 32]| match PublicKey::from_bytes(&bytes) {
            Some(key) => Ok((key_id(&bytes), key)),
            None => Err(EnvelopeError::BadKey(Hex32::new(bytes).to_string())),
        };
        public_keys.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }
}

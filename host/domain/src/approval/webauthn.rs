//! WebAuthn assertions whose challenge is the digest of an approval's statement (WebAuthn level 3, section 7.2).
//!
//! Verification needs no session, because the challenge follows from the approval. Signature counters are ignored: a node
//! stores nothing about a credential, and synchronised passkeys have no counters.

use super::{ApprovalError, Base64Url, limits};
use crate::ed25519::PublicKey;
use crate::ids::Hex32;
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

const RP_HASH_BYTES: usize = 32;
/// SHA-256 of the relying party's id, one byte of flags, four of a counter (section 6.1).
const AUTHENTICATOR_DATA_BYTES_MIN: usize = 37;
const SEC1_UNCOMPRESSED_BYTES: usize = 65;

/// Bits of the flags.
const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const BACKUP_ELIGIBLE: u8 = 0x08;
const BACKED_UP: u8 = 0x10;
const ATTESTED_CREDENTIAL: u8 = 0x40;
const EXTENSIONS: u8 = 0x80;

/// A trusted credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credential {
    pub(super) id: Base64Url,
    pub(super) key: CredentialKey,
    pub(super) rp_id: String,
    pub(super) origins: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CredentialKey {
    Es256(VerifyingKey),
    EdDsa(PublicKey),
}

/// The client data of section 5.8.1; browsers may add members.
#[derive(Deserialize)]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(rename = "crossOrigin", default)]
    cross_origin: bool,
    #[serde(rename = "topOrigin", default)]
    top_origin: Option<String>,
}

impl CredentialKey {
    /// Decodes an uncompressed point; `None` when it is not on the curve.
    pub(super) fn es256(bytes: &[u8]) -> Option<Self> {
        let whole = Some(bytes).filter(|bytes| bytes.len() == SEC1_UNCOMPRESSED_BYTES)?;
        VerifyingKey::from_sec1_bytes(whole).ok().map(Self::Es256)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Es256(key) => key.to_encoded_point(false).as_bytes().to_vec(),
            Self::EdDsa(key) => key.to_bytes().to_vec(),
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Es256(key) => {
                let signature = Signature::from_der(signature);
                signature.is_ok_and(|signature| key.verify(message, &signature).is_ok())
            }
            Self::EdDsa(key) => signature.try_into().is_ok_and(|signature| key.verifies(message, signature)),
        }
    }
}

impl Credential {
    /// The steps of section 7.2 that apply without a session, in its order.
    pub(super) fn verify(
        &self,
        challenge: Hex32,
        authenticator_data: &[u8],
        client_data: &[u8],
        signature: &[u8],
    ) -> Result<(), ApprovalError> {
        check_length("authenticator_data", authenticator_data, limits::AUTHENTICATOR_DATA_BYTES_MAX)?;
        check_length("client_data_json", client_data, limits::CLIENT_DATA_BYTES_MAX)?;
        check_length("signature", signature, limits::SIGNATURE_BYTES_MAX)?;
        self.check_client_data(challenge, client_data)?;
        self.check_authenticator_data(authenticator_data)?;
        let client_data_hash: [u8; 32] = Sha256::digest(client_data).into();
        let signed = [authenticator_data, &client_data_hash].concat();
        if self.key.verifies(&signed, signature) { Ok(()) } else { Err(ApprovalError::BadSignature) }
    }

    fn check_client_data(&self, challenge: Hex32, bytes: &[u8]) -> Result<(), ApprovalError> {
        let malformed = ApprovalError::Malformed("client_data_json");
        // serde would also accept an array of the members' values.
        if bytes.first() != Some(&b'{') {
            return Err(malformed);
        }
        let data: ClientData = serde_json::from_slice(bytes).map_err(|_| malformed)?;
        if data.kind != "webauthn.get" {
            return Err(ApprovalError::WrongType);
        }
        if data.challenge != Base64Url(challenge.as_bytes().to_vec()).to_string() {
            return Err(ApprovalError::WrongChallenge);
        }
        if !self.origins.contains(&data.origin) {
            return Err(ApprovalError::WrongOrigin(data.origin));
        }
        if data.cross_origin || data.top_origin.is_some() {
            return Err(ApprovalError::CrossOrigin);
        }
        Ok(())
    }

    fn check_authenticator_data(&self, bytes: &[u8]) -> Result<(), ApprovalError> {
        let malformed = ApprovalError::Malformed("authenticator_data");
        let Some((rp_id_hash, [flags, ..])) = bytes.split_at_checked(RP_HASH_BYTES) else {
            return Err(malformed);
        };
        let expected: [u8; 32] = Sha256::digest(&self.rp_id).into();
        if rp_id_hash != expected {
            return Err(ApprovalError::WrongRp);
        }
        let has = |flag: u8| flags & flag != 0;
        if !has(USER_PRESENT) {
            return Err(ApprovalError::UserNotPresent);
        }
        if !has(USER_VERIFIED) {
            return Err(ApprovalError::UserNotVerified);
        }
        // An assertion has no attested credential data, and only extensions may follow the counter.
        let is_whole = match bytes.len().checked_sub(AUTHENTICATOR_DATA_BYTES_MIN) {
            None => false,
            Some(0) => !has(EXTENSIONS),
            Some(_) => has(EXTENSIONS),
        };
        let is_sound = !has(ATTESTED_CREDENTIAL) && (has(BACKUP_ELIGIBLE) || !has(BACKED_UP));
        if is_whole && is_sound { Ok(()) } else { Err(malformed) }
    }
}

fn check_length(what: &'static str, bytes: &[u8], bytes_max: usize) -> Result<(), ApprovalError> {
    if bytes.len() > bytes_max { Err(ApprovalError::Malformed(what)) } else { Ok(()) }
}

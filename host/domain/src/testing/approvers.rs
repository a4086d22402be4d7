//! Test approvers: keys, and a WebAuthn authenticator with its browser.

use crate::approval::{Approval, ApprovalSignature, ApprovalSubject, Base64Url};
use crate::ids::Hex32;
use ed25519_dalek::Signer;
use p256::ecdsa::Signature;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use crate::samples::approval;

/// The relying party of every [`Authenticator`].
pub const RP_ID: &str = "approve.example";
/// The origin of every [`Authenticator`].
pub const ORIGIN: &str = "https://approve.example";

/// An Ed25519 key with a fixed seed.
pub fn key(byte: u8) -> ed25519_dalek::SigningKey {
    ed25519_dalek::SigningKey::from_bytes(&[byte; 32])
}

/// A key's entry in a registry.
pub fn key_entry(key: &ed25519_dalek::SigningKey) -> Value {
    json!({ "kind": "ed25519", "public_key": Hex32::new(key.verifying_key().to_bytes()) })
}

/// An approver of tenant `default` in the role `approver`.
pub fn entry(subject_id: &str, keys: &[Value]) -> Value {
    json!({ "subject_id": subject_id, "tenants": ["default"], "roles": ["approver"], "keys": keys })
}

/// A registry's text.
pub fn registry(entries: &[Value]) -> String {
    json!({ "format": "svc/approvers/v2", "approvers": entries }).to_string()
}

/// The approval, signed with a key.
pub fn signed(
    mut approval: Approval,
    subject: &ApprovalSubject<'_>,
    key: &ed25519_dalek::SigningKey,
) -> Approval {
    let message = subject.statement(&approval).message().unwrap();
    approval.signature = Some(Box::new(signature(key, &message)));
    approval
}

/// A key's signature over the message of a statement.
pub fn signature(key: &ed25519_dalek::SigningKey, message: &[u8]) -> ApprovalSignature {
    let public_key = Hex32::new(key.verifying_key().to_bytes());
    let signature = crate::ed25519::Signature::new(key.sign(message).to_bytes());
    ApprovalSignature::Ed25519 { public_key, signature }
}

/// A WebAuthn authenticator with its browser.
#[derive(Clone, Debug)]
pub struct Authenticator {
    key: p256::ecdsa::SigningKey,
    credential_id: Vec<u8>,
    origin: String,
    flags: u8,
}

impl Authenticator {
    /// An authenticator with a fixed key.
    pub fn new(byte: u8) -> Self {
        let key = p256::ecdsa::SigningKey::from_slice(&[byte; 32]).unwrap();
        Self { key, credential_id: vec![byte; 16], origin: ORIGIN.to_owned(), flags: 0x05 }
    }

    /// The same authenticator with other flags (section 6.1); the default is user present and verified, `0x05`.
    pub fn with_flags(&self, flags: u8) -> Self {
        Self { flags, ..self.clone() }
    }

    /// The same authenticator, used at another origin.
    pub fn at_origin(&self, origin: &str) -> Self {
        Self { origin: origin.to_owned(), ..self.clone() }
    }

    /// The credential's entry in a registry.
    pub fn entry(&self) -> Value {
        let point = self.key.verifying_key().to_encoded_point(false);
        json!({
            "kind": "webauthn", "credential_id": Base64Url(self.credential_id.clone()), "algorithm": "ES256",
            "public_key": hex::encode(point.as_bytes()), "rp_id": RP_ID, "origins": [ORIGIN],
        })
    }

    /// The approval with an assertion over this challenge.
    pub fn asserted(&self, mut approval: Approval, challenge: Hex32) -> Approval {
        approval.signature = Some(Box::new(self.assertion(challenge)));
        approval
    }

    /// An assertion over this challenge.
    pub fn assertion(&self, challenge: Hex32) -> ApprovalSignature {
        let challenge = Base64Url(challenge.as_bytes().to_vec());
        let client = json!({ "type": "webauthn.get", "challenge": challenge, "origin": self.origin });
        let client = client.to_string().into_bytes();
        let hash = |bytes: &[u8]| <[u8; 32]>::from(Sha256::digest(bytes));
        let data = [hash(RP_ID.as_bytes()).as_slice(), &[self.flags, 0, 0, 0, 9]].concat();
        let message = [data.as_slice(), &hash(&client)].concat();
        let signature: Signature = self.key.sign(&message);
        ApprovalSignature::Webauthn {
            credential_id: Base64Url(self.credential_id.clone()),
            authenticator_data: Base64Url(data),
            client_data_json: Base64Url(client),
            signature: Base64Url(signature.to_der().as_bytes().to_vec()),
        }
    }

    /// The approval, signed correctly.
    pub fn signed(&self, approval: Approval, subject: &ApprovalSubject<'_>) -> Approval {
        let challenge = subject.statement(&approval).digest().unwrap();
        self.asserted(approval, challenge)
    }
}

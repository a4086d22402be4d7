//! Signed approvals: the statement that approvers sign, and the form of their signatures.

use crate::strict::Fault;
use gateway_domain::approval::{ApprovalSignature as Signature, ApprovalSubject, TAG};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;

/// The kind of an approver's signature.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignatureKind {
    /// Ed25519 (RFC 8032) over the message.
    Ed25519,
    /// A WebAuthn assertion whose challenge is the message's SHA-256.
    Webauthn,
}

/// An approver's signature: `public_key` and `signature` of an Ed25519 key, everything but `public_key` of a WebAuthn
/// credential.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ApprovalSignature {
    /// The kind of signature.
    pub kind: SignatureKind,
    /// Ed25519: the key, 64 hexadecimal characters.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub public_key: Option<String>,
    /// WebAuthn: the credential's id, base64url without padding, as all of its members.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", max_length = 1024)]
    pub credential_id: Option<String>,
    /// WebAuthn: the authenticator data.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", max_length = 1024)]
    pub authenticator_data: Option<String>,
    /// WebAuthn: the client data, as the browser serialised it.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", max_length = 1024)]
    pub client_data_json: Option<String>,
    /// Ed25519: 128 hexadecimal characters. WebAuthn: base64url.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", max_length = 1024)]
    pub signature: String,
}

impl ApprovalSignature {
    /// The signature in its canonical form. `at`: the signature's JSON pointer.
    ///
    /// # Errors
    /// [`Fault`] at the member that is missing, malformed, or of the other kind.
    pub fn parse(self, at: &str) -> Result<Signature, Fault> {
        let Self { kind, public_key, credential_id, authenticator_data, client_data_json, signature } = self;
        let webauthn = [
            ("credential_id", &credential_id),
            ("authenticator_data", &authenticator_data),
            ("client_data_json", &client_data_json),
        ];
        match kind {
            SignatureKind::Ed25519 => {
                absent(at, "ed25519", &webauthn)?;
                Ok(Signature::Ed25519 {
                    public_key: given(at, "public_key", public_key.as_deref())?,
                    signature: given(at, "signature", Some(&signature))?,
                })
            }
            SignatureKind::Webauthn => {
                absent(at, "webauthn", &[("public_key", &public_key)])?;
                Ok(Signature::Webauthn {
                    credential_id: given(at, "credential_id", credential_id.as_deref())?,
                    authenticator_data: given(at, "authenticator_data", authenticator_data.as_deref())?,
                    client_data_json: given(at, "client_data_json", client_data_json.as_deref())?,
                    signature: given(at, "signature", Some(&signature))?,
                })
            }
        }
    }
}

fn given<T: FromStr<Err: fmt::Display>>(at: &str, name: &str, text: Option<&str>) -> Result<T, Fault> {
    let at = format!("{at}/{name}");
    let text = text.ok_or_else(|| Fault::at(&at, "is required"))?;
    text.parse().map_err(|invalid: T::Err| Fault::at(&at, invalid.to_string()))
}

fn absent(at: &str, kind: &str, members: &[(&str, &Option<String>)]) -> Result<(), Fault> {
    match members.iter().find(|(_, value)| value.is_some()) {
        Some((name, _)) => {
            Err(Fault::at(format!("{at}/{name}"), format!("is not a member of kind `{kind}`")))
        }
        None => Ok(()),
    }
}

/// The statement that approvers sign. It can be computed from the operation: an approver that signs it unchecked trusts the
/// gateway for its content.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalStatementView {
    /// The tenant that owns the operation.
    pub tenant: String,
    /// The operation's id.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub operation_id: Hex32,
    /// The key that is to sign or to change.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub key_id: Hex32,
    /// Hash of the operation's intent.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub intent_hash: Hex32,
    /// The tag that the message begins with.
    pub tag: &'static str,
    /// The message, with the placeholders `{approved_at_ms}` for the number, and `{roles}` and `{subject_id}` for the JSON texts
    /// of these members of the approval's body.
    pub template: String,
}

impl ApprovalStatementView {
    /// The statement for this subject.
    ///
    /// # Errors
    /// [`CanonicalError`], which a subject never causes.
    pub fn new(subject: &ApprovalSubject<'_>) -> Result<Self, CanonicalError> {
        Ok(Self {
            tenant: subject.tenant.0.clone(),
            operation_id: subject.operation_id.0,
            key_id: subject.key_id.0,
            intent_hash: subject.intent_hash,
            tag: TAG,
            template: subject.template()?,
        })
    }
}

//! Signed approvals: the statement that approvers sign, and the shape of their signatures.

use gateway_domain::approval::{APPROVAL_TAG, ApprovalSignature as Signature, ApprovalSubject};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use gateway_service::strict::{Fault, FaultCode};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;

/// The kind of an approver's signature.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureKind {
    /// Ed25519 (RFC 8032) over the message.
    Ed25519,
    /// A WebAuthn assertion whose challenge is the message's SHA-256.
    Webauthn,
}

/// An approver's signature. Kind `ed25519` has `public_key` and `signature`; kind `webauthn` has every member except
/// `public_key`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ApprovalSignature {
    /// The kind of signature.
    #[schema(value_type = String)]
    pub kind: SignatureKind,
    /// Ed25519: the public key, 64 hexadecimal characters.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub public_key: Option<String>,
    /// WebAuthn: the credential's id, base64url without padding.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", max_length = 1024)]
    pub credential_id: Option<String>,
    /// WebAuthn: the authenticator data, base64url without padding.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", max_length = 1024)]
    pub authenticator_data: Option<String>,
    /// WebAuthn: the client data as the browser serialised it, base64url without padding.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", max_length = 1024)]
    pub client_data_json: Option<String>,
    /// The signature. Ed25519: 128 hexadecimal characters. WebAuthn: base64url without padding.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", max_length = 1024)]
    pub signature: String,
}

impl ApprovalSignature {
    /// Parses the signature. `at`: its JSON pointer.
    pub fn parse(&self, at: &str) -> Result<Signature, Fault> {
        let Self { kind, public_key, credential_id, authenticator_data, client_data_json, signature } = self;
        let webauthn = [
            ("credential_id", credential_id),
            ("authenticator_data", authenticator_data),
            ("client_data_json", client_data_json),
        ];
        match kind {
            SignatureKind::Ed25519 => {
                check_absent(at, "ed25519", &webauthn)?;
                Ok(Signature::Ed25519 {
                    public_key: parse_member(at, "public_key", public_key.as_deref())?,
                    signature: parse_member(at, "signature", Some(signature))?,
                })
            }
            SignatureKind::Webauthn => {
                check_absent(at, "webauthn", &[("public_key", public_key)])?;
                Ok(Signature::Webauthn {
                    credential_id: parse_member(at, "credential_id", credential_id.as_deref())?,
                    authenticator_data: parse_member(
                        at,
                        "authenticator_data",
                        authenticator_data.as_deref(),
                    )?,
                    client_data_json: parse_member(at, "client_data_json", client_data_json.as_deref())?,
                    signature: parse_member(at, "signature", Some(signature))?,
                })
            }
        }
    }
}

fn parse_member<T: FromStr<Err: fmt::Display>>(at: &str, name: &str, text: Option<&str>) -> Result<T, Fault> {
    let at = format!("{at}/{name}");
    let text = text.ok_or_else(|| Fault::at(&at, "is required").of(FaultCode::Required))?;
    text.parse().map_err(|invalid: T::Err| Fault::at(&at, invalid.to_string()))
}

fn check_absent(at: &str, kind: &str, members: &[(&str, &Option<String>)]) -> Result<(), Fault> {
    match members.iter().find(|(_, value)| value.is_some()) {
        Some((name, _)) => {
            Err(Fault::at(format!("{at}/{name}"), format!("is not a member of kind `{kind}`")))
        }
        None => Ok(()),
    }
}

/// The statement that approvers sign. An approver can compute it from the operation; one that signs it without doing so
/// trusts the gateway for its content.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalStatementView {
    /// The tenant that owns the operation.
    pub tenant: String,
    /// The operation's id.
    pub operation_id: Hex32,
    /// Id of the key that signs, is created, or changes.
    pub key_id: Hex32,
    /// Hash of the operation's intent.
    pub intent_hash: Hex32,
    /// The subject id of the client that submitted the operation.
    pub submitter: String,
    /// The domain tag, with which the message begins.
    pub tag: &'static str,
    /// The message, with the placeholders `{approved_at_ms}`, `{roles}` and `{subject_id}`. Replace each by the canonical JSON
    /// (RFC 8785) of that member of the approval's body.
    pub template: String,
    /// The message of a rejection, with the placeholders `{reason}`, `{rejected_at_ms}`, `{roles}` and `{subject_id}`.
    pub rejection_template: String,
    /// The message of an abort, with the placeholders `{aborted_at_ms}`, `{lost_participants}` (a list of decimal numbers as texts),
    /// `{reason}`, `{roles}` and `{subject_id}`.
    pub abort_template: String,
}

impl ApprovalStatementView {
    /// The statement for this subject.
    pub fn new(subject: &ApprovalSubject<'_>) -> Result<Self, CanonicalError> {
        Ok(Self {
            tenant: subject.tenant.0.clone(),
            operation_id: subject.operation_id.0,
            key_id: subject.key_id.0,
            intent_hash: subject.intent_hash,
            submitter: subject.submitter.to_owned(),
            tag: APPROVAL_TAG,
            template: subject.template()?,
            rejection_template: subject.rejection_template()?,
            abort_template: subject.abort_template()?,
        })
    }
}

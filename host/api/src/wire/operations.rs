//! Shapes of the signing operations.

use super::approvals::ApprovalSignature;
use super::names::{key_ref, name};
use super::{ClientBinding, RequestShape, not_empty, roster, threshold};
use crate::state::Options;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::{Bip32, Intent, Payment, PublicationMode, SigningTerms};
use gateway_domain::operation::SIGNATURE_SCOPE;
use gateway_domain::roster::Roster;
use gateway_engine::{Approve, Publish, Recover};
use gateway_service::strict::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Longest currency, bytes.
const CURRENCY_BYTES_MAX: usize = 64;

/// Longest `epoch_fence_token_hex`, characters: twice a Hex32.
const FENCE_CHARACTERS_MAX: usize = 128;

/// A payment.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PaymentIntent {
    /// The paying account: visible characters with single spaces between them, in Unicode's normalization form C.
    #[schema(min_length = 1)]
    pub from_account: String,
    /// The receiving account, as `from_account`.
    #[schema(min_length = 1)]
    pub to_account: String,
    /// Amount in minor units of the currency, a signed 64-bit integer.
    pub amount_minor: i64,
    /// The currency, at most 64 bytes.
    #[schema(min_length = 1, max_length = 64)]
    pub currency: String,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// A Taproot output (BIP 341). Its output key signs; the internal key is the key, or the child key that `bip32` names.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Taproot {
    /// The root of the output's script tree. Without it only the key can spend the output (BIP 86).
    pub merkle_root: Option<Hex32>,
}

/// Body of `POST /v1/operations/sign`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SignOperationRequest {
    /// Unique for this tenant: resubmission returns the existing operation.
    #[schema(min_length = 1)]
    pub idempotency_key: String,
    /// The key's name. Required in production; in development, without it, a key is created.
    #[schema(min_length = 1)]
    pub key_ref: Option<String>,
    /// The payment.
    pub payment: PaymentIntent,
    /// The child key that signs, below the key's child for payments; without it that child itself.
    pub bip32: Option<Bip32>,
    /// 0-based signer indices, each once.
    #[schema(value_type = Roster)]
    pub requested_participants: Vec<u16>,
    /// The number of signers, if it is more than the key's threshold.
    #[schema(minimum = 2, maximum = 64)]
    pub threshold: Option<u16>,
    /// Fence token, the key's `active_epoch_root`: execution fails when the key has another one.
    #[schema(pattern = "^[0-9a-f]{1,128}$")]
    pub epoch_fence_token_hex: Option<String>,
    /// The party that publishes.
    pub publication_mode: PublicationMode,
    /// The caller.
    pub client: ClientBinding,
}

impl RequestShape for SignOperationRequest {
    type Checked = Intent;

    fn check(&self, _: &Options) -> Result<Intent, Fault> {
        not_empty("/idempotency_key", &self.idempotency_key)?;
        let requested_participants = roster("/requested_participants", &self.requested_participants)?;
        let threshold =
            self.threshold.map(|it| threshold(it, &requested_participants, "/requested_participants"));
        let terms = SigningTerms {
            threshold: threshold.transpose()?,
            requested_participants,
            bip32: self.bip32.as_ref().map(parse_bip32).transpose()?,
            taproot: None,
            epoch_fence_token_hex: self.epoch_fence_token_hex.clone().map(parse_fence_token).transpose()?,
            public_key_artifact_ref: None,
            publication_mode: self.publication_mode,
        };
        let key_ref = self.key_ref.as_deref().map(|name| key_ref("/key_ref", name)).transpose()?;
        Ok(Intent::Payment(Payment {
            key_ref,
            from_account: name("/payment/from_account", &self.payment.from_account)?,
            to_account: name("/payment/to_account", &self.payment.to_account)?,
            amount_minor: self.payment.amount_minor,
            currency: currency(&self.payment.currency)?,
            reference: self.payment.reference.clone(),
            terms,
        }))
    }

    fn client(&self) -> Option<&ClientBinding> {
        Some(&self.client)
    }
}

/// Databases index payments by account and currency together.
fn currency(text: &str) -> Result<String, Fault> {
    if text.len() > CURRENCY_BYTES_MAX {
        let message = format!("must be at most {CURRENCY_BYTES_MAX} bytes, not {}", text.len());
        return Err(Fault::at("/payment/currency", message));
    }
    not_empty("/payment/currency", text)
}

pub(super) fn parse_bip32(bip32: &Bip32) -> Result<Bip32, Fault> {
    not_empty("/bip32/network", &bip32.network)?;
    bip32.indices().map_err(|invalid| Fault::at("/bip32/path", invalid.to_string()))?;
    Ok(bip32.clone())
}

pub(super) fn parse_fence_token(token: String) -> Result<String, Fault> {
    let is_hex = token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if token.is_empty() || token.len() > FENCE_CHARACTERS_MAX || !is_hex {
        let message = format!("must be 1 to {FENCE_CHARACTERS_MAX} lowercase hexadecimal characters");
        return Err(Fault::at("/epoch_fence_token_hex", message));
    }
    Ok(token)
}

/// Body of `POST .../approve`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ApproveOperationRequest {
    /// The approver.
    #[schema(min_length = 1)]
    pub subject_id: String,
    /// The roles in which the approver approves.
    pub roles: Vec<String>,
    /// The approver's clock, epoch milliseconds; not verified.
    pub approved_at_ms: i64,
    /// The approver's signature over the operation's `approval_statement`.
    pub signature: Option<ApprovalSignature>,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for ApproveOperationRequest {
    type Checked = Approve;

    fn check(&self, _: &Options) -> Result<Approve, Fault> {
        let signature = self.signature.as_ref().map(|signature| signature.parse("/signature"));
        Ok(Approve {
            subject_id: not_empty("/subject_id", &self.subject_id)?,
            roles: self.roles.clone(),
            claimed_at_ms: self.approved_at_ms,
            signature: signature.transpose()?.map(Box::new),
            requester: None,
            request_id: None,
        })
    }

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }
}

/// A secret object that is discarded unread: the strict reader checks that it is an object, and overwrites it with the body.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Discarded;

/// Body of `POST .../execute`; may be missing.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ExecuteOperationRequest {
    /// The caller's clock, epoch milliseconds; not verified.
    pub requested_at_ms: Option<i64>,
    /// Ignored secret: must be an object, and is discarded unread.
    #[schema(value_type = Option<Object>)]
    pub signing_share_mul: Option<Discarded>,
    /// Ignored secret: must be an object, and is discarded unread.
    #[schema(value_type = Option<Object>)]
    pub recovery_helper_shares: Option<Discarded>,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for ExecuteOperationRequest {
    type Checked = ();

    fn check(&self, _: &Options) -> Result<(), Fault> {
        Ok(())
    }

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }
}

/// The scopes in which a payment is published.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PublicationScope {
    /// The signature.
    Signature,
}

/// Body of `POST /v1/operations/{operationId}/publish`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PublishOperationRequest {
    /// The scope.
    pub scope: PublicationScope,
    /// The caller's clock, epoch milliseconds; not verified.
    pub requested_at_ms: i64,
    /// The `result_ref` that the caller expects; not checked if absent.
    pub expected_result_ref: Option<String>,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for PublishOperationRequest {
    type Checked = Publish;

    fn check(&self, _: &Options) -> Result<Publish, Fault> {
        let PublicationScope::Signature = self.scope;
        Ok(Publish {
            scope: SIGNATURE_SCOPE.to_owned(),
            expected_result_ref: self.expected_result_ref.clone(),
            requested_at_ms: self.requested_at_ms,
            requester: None,
        })
    }

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }
}

/// Body of `POST .../node-recovery`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct NodeRecoveryRequest {
    /// The id of an effect, as the operation's evidence lists it.
    #[schema(min_length = 1)]
    pub effect_id: String,
    /// The result root that the caller expects the effect to have.
    pub result_root: Hex32,
    /// Ignored secret: must be an object, and is discarded unread.
    #[schema(value_type = Option<Object>)]
    pub secret_kernel_payload: Option<Discarded>,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for NodeRecoveryRequest {
    type Checked = Recover;

    fn check(&self, _: &Options) -> Result<Recover, Fault> {
        Ok(Recover {
            effect_id: not_empty("/effect_id", &self.effect_id)?,
            result_root: self.result_root,
            requester: None,
        })
    }

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }
}

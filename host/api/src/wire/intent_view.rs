//! The shapes of intents in evidence and views, for the OpenAPI document only: the values are `gateway_domain::intent::Intent`,
//! to which [`super::view`] adds the members of [`IntentView`].

use super::custody_view::CustodyOperationType;
use super::operations::{Bip32, Taproot};
use super::{PublicationMode, participants};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An intent with its hash and key. The document has one schema for each kind of intent in its place, with these members.
#[derive(ToSchema)]
pub struct IntentView {
    /// The type of operation.
    pub operation_type: CustodyOperationType,
    /// `SHA-256("svc/intent/v1" || canonical intent)`: approvals, the admission decision and the nodes bind to it.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub intent_hash: String,
    /// The name of the key that signs, is created or is changed.
    pub key_ref: String,
    /// The id of that key.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub key_id: String,
}

/// An intent, by `kind`.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum Intent {
    /// A payment.
    Payment(PaymentTerms),
    /// A signature over a digest.
    AssetAction(AssetActionIntent),
    /// The creation of a key.
    KeyCreate(KeyCreateIntent),
    /// New shares for the same share holders.
    Refresh(RefreshIntent),
    /// New shares for a new roster and threshold.
    Reshare(ReshareIntent),
    /// A new key that replaces this one.
    Rotate(RotateIntent),
    /// One participant's share, rebuilt with the help of others.
    Recover(RecoverIntent),
}

/// The members of every signature.
#[derive(ToSchema)]
pub struct SigningIntent {
    /// The requested signers, by index, ascending.
    #[schema(schema_with = participants)]
    pub requested_participants: Vec<u16>,
    /// The requested number of signers; absent for the key's threshold.
    #[schema(minimum = 2, maximum = 64)]
    pub threshold: Option<u16>,
    /// The root of the epoch that the key must be in; absent for any.
    #[schema(pattern = "^[0-9a-f]{1,128}$")]
    pub epoch_fence_token_hex: Option<String>,
    /// The key's public key at submission, `<profile>:<public key hex>`; absent if the key was not generated yet.
    pub public_key_artifact_ref: Option<String>,
    /// The party that publishes.
    pub publication_mode: PublicationMode,
}

/// A payment.
#[derive(ToSchema)]
pub struct PaymentTerms {
    /// The members of every signature.
    #[serde(flatten)]
    pub terms: SigningIntent,
    /// The paying account.
    pub from_account: String,
    /// The receiving account.
    pub to_account: String,
    /// Amount in minor units of the currency, a signed 64-bit integer.
    pub amount_minor: i64,
    /// The currency.
    pub currency: String,
    /// Free text.
    pub reference: Option<String>,
    /// The child key that signs, below the key's child for payments; absent for that child itself.
    pub bip32: Option<Bip32>,
}

/// A signature over a digest.
#[derive(ToSchema)]
pub struct AssetActionIntent {
    /// The members of every signature.
    #[serde(flatten)]
    pub terms: SigningIntent,
    /// The asset that moves.
    pub asset_id: String,
    /// Kind of asset action.
    pub action: String,
    /// The chain of the action.
    pub chain_id: String,
    /// The 32 bytes to sign.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub request_digest: String,
    /// Root of the typed data from which the caller computed the digest; not verified.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub typed_data_root: String,
    /// The child key that signs; absent for the key itself.
    pub bip32: Option<Bip32>,
    /// The Taproot output whose output key signs; absent if none does.
    pub taproot: Option<Taproot>,
    /// The caller's fields that accompany the digest.
    pub public_fields: Option<BTreeMap<String, String>>,
}

/// The creation of a key.
#[derive(ToSchema)]
pub struct KeyCreateIntent {
    /// The asset of the key.
    pub asset_id: String,
    /// The purpose, for people.
    pub purpose: String,
    /// The share holders, by index, ascending.
    #[schema(schema_with = participants)]
    pub participants: Vec<u16>,
    /// The number of participants that must sign together.
    #[schema(minimum = 2, maximum = 64)]
    pub threshold: u16,
    /// The signature profile.
    pub signature_profile: SignatureProfile,
    /// The requested name of the profile, if it was an alias.
    pub requested_signature_profile: Option<String>,
    /// The chains that the key is meant for; recorded and not enforced.
    pub chains: Option<Vec<String>>,
}

/// The members of every change of a key.
#[derive(ToSchema)]
pub struct KeyChangeIntent {
    /// The name of the epoch that the key will be in.
    pub target_epoch: String,
    /// The reason, as free text.
    pub reason: String,
    /// The party that publishes.
    pub publication_mode: PublicationMode,
    /// The caller's free fields.
    pub metadata: Option<BTreeMap<String, String>>,
    /// The key's public key at submission, `<profile>:<public key hex>`; absent if the key was not generated yet.
    pub public_key_artifact_ref: Option<String>,
}

/// New shares for the same share holders.
#[derive(ToSchema)]
pub struct RefreshIntent {
    /// The members of every change of a key.
    #[serde(flatten)]
    pub change: KeyChangeIntent,
}

/// New shares for a new roster and threshold.
#[derive(ToSchema)]
pub struct ReshareIntent {
    /// The members of every change of a key.
    #[serde(flatten)]
    pub change: KeyChangeIntent,
    /// The new share holders, by index, ascending.
    #[schema(schema_with = participants)]
    pub new_participants: Vec<u16>,
    /// The number of participants that must sign together.
    #[schema(minimum = 2, maximum = 64)]
    pub threshold: u16,
}

/// A new key that replaces this one.
#[derive(ToSchema)]
pub struct RotateIntent {
    /// The members of every change of a key.
    #[serde(flatten)]
    pub change: KeyChangeIntent,
    /// The new key's name.
    pub new_key_ref: String,
    /// The share holders of the new key, by index, ascending.
    #[schema(schema_with = participants)]
    pub participants: Vec<u16>,
    /// The number of participants that must sign together.
    #[schema(minimum = 2, maximum = 64)]
    pub threshold: u16,
}

/// One participant's share, rebuilt with the help of others.
#[derive(ToSchema)]
pub struct RecoverIntent {
    /// The members of every change of a key.
    #[serde(flatten)]
    pub change: KeyChangeIntent,
    /// The reference of the case that authorised the recovery.
    pub recovery_case_ref: String,
    /// The participant whose share is rebuilt, by index.
    pub recovering_participant: u16,
    /// The participants that help, by index, ascending.
    #[schema(schema_with = participants)]
    pub helper_participants: Vec<u16>,
    /// Content ids of the helpers' contributions.
    pub helper_share_cids: Vec<String>,
    /// The expected Merkle root of the contributions; absent for any.
    pub expected_helper_admission_root: Option<String>,
}

/// The signature profiles.
#[derive(ToSchema)]
pub enum SignatureProfile {
    /// Ed25519 (RFC 8032), made with FROST (RFC 9591).
    #[schema(rename = "frost-ed25519-sha512")]
    FrostEd25519Sha512,
    /// BIP-340 over secp256k1, made with FROST.
    #[schema(rename = "frost-secp256k1-sha256-tr")]
    FrostSecp256k1Sha256Tr,
}

/// The published signature. Without members before publication, and for operations on keys.
#[derive(ToSchema)]
pub struct OperationResult {
    /// The signature profile.
    pub signature_profile: Option<SignatureProfile>,
    /// The public key that the signature verifies with: the key's, of a payment the key's `payments_public_key_hex`, or that of a child
    /// key or output key of these.
    pub public_key_hex: Option<String>,
    /// The 32 bytes that are signed.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub signed_digest: Option<String>,
    /// The signature, 64 bytes.
    #[schema(pattern = "^[0-9a-f]{128}$")]
    pub signature_hex: Option<String>,
    /// The nodes that signed, by index.
    pub signers: Option<Vec<u16>>,
    /// The hash of the signing package, which the signers' receipts name.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub package_hash: Option<String>,
}

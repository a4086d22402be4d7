//! Response shapes of custody operations and keys.

use super::view::{OperationView, roster};
use gateway_domain::contribution::{Contributions, HelperAdmission};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::{Intent, OperationType, SignatureProfile};
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::operation::{ExternalExport, Operation, target};
use gateway_engine::ports::{DerivedKeys, Record};
use serde::Serialize;
use utoipa::ToSchema;

/// Answer to a request that creates a custody operation.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyOperationResponse {
    /// The operation.
    pub operation: CustodyOperationView,
}

/// An operation of the custody family.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyOperationView {
    /// The members of every operation.
    #[serde(flatten)]
    pub operation: OperationView,
    /// The type of operation.
    pub operation_type: OperationType,
    /// The name of the key in the request.
    pub key_ref: String,
    /// The asset that the request names, else the key's.
    pub asset_id: String,
    /// The tenant that owns the operation.
    pub tenant_id: String,
    /// The name of the key that gets a new epoch: for a rotation the new key. Null for a signature.
    #[schema(required = true)]
    pub target_key_ref: Option<String>,
    /// The name of that epoch if it is a Hex32, else the tagged SHA-256 of the name. Null for a signature.
    #[schema(required = true)]
    pub target_epoch_hex: Option<Hex32>,
    /// The threshold in that epoch. Null for a signature.
    #[schema(required = true)]
    pub target_threshold: Option<u16>,
    /// The share holders in that epoch. Empty for a signature.
    pub target_participants: Vec<u16>,
    /// The last recorded state on an external rail; absent until one is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_export: Option<ExternalExport>,
}

impl CustodyOperationView {
    /// The view of any operation, with the members that custody operations have in addition.
    #[must_use]
    pub fn new(view: OperationView, record: &Record, key: Option<&CustodyKey>) -> Self {
        let operation = &record.operation;
        let admitted = operation.admission.as_ref().map(|admission| admission.decision.target.clone());
        let target = admitted.unwrap_or_else(|| target(operation, key));
        let target_slot = operation.successor.as_ref().unwrap_or(&operation.key);
        Self {
            operation: view,
            operation_type: operation.intent.operation_type(),
            key_ref: operation.key.key_ref.0.clone(),
            asset_id: asset_id(operation, key),
            tenant_id: operation.tenant.0.clone(),
            target_key_ref: target.as_ref().map(|_| target_slot.key_ref.0.clone()),
            target_epoch_hex: target.as_ref().map(|target| target.epoch.hex32()),
            target_threshold: target.as_ref().map(|target| target.threshold.0),
            target_participants: target.map(|target| roster(&target.participants)).unwrap_or_default(),
            external_export: operation.export.clone(),
        }
    }
}

/// The asset that the request names, else the key's.
fn asset_id(operation: &Operation, key: Option<&CustodyKey>) -> String {
    match &operation.intent {
        Intent::AssetAction(action) => action.asset_id.clone(),
        Intent::KeyCreate(create) => create.asset_id.clone(),
        Intent::Payment(_)
        | Intent::Refresh(_)
        | Intent::Reshare(_)
        | Intent::Rotate(_)
        | Intent::Recover(_) => key.map(|key| key.asset_id.clone()).unwrap_or_default(),
    }
}

/// What helpers would contribute to the recovery of a share.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecoveryContributions {
    /// Root of the epoch that the contributions are for. In another epoch they are others.
    pub active_epoch_root: Hex32,
    /// For `helper_share_cids` of the recovery, whose `helper_participants` must then be ascending.
    #[schema(value_type = Vec<String>)]
    pub helper_share_cids: Vec<Hex32>,
    /// For `expected_helper_admission_root` of the recovery.
    pub expected_helper_admission_root: Hex32,
    /// The helpers' signed statements, by participant ascending.
    pub admissions: Vec<HelperAdmission>,
}

impl From<Contributions> for RecoveryContributions {
    fn from(Contributions { case, admissions, root }: Contributions) -> Self {
        Self {
            active_epoch_root: case.epoch_root,
            helper_share_cids: admissions.iter().map(|admission| admission.cid).collect(),
            expected_helper_admission_root: root,
            admissions,
        }
    }
}

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyKeysResponse {
    /// The keys, newest first.
    pub keys: Vec<CustodyKeyView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A page of custody operations.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyOperationsResponse {
    /// The operations, newest first.
    pub operations: Vec<CustodyOperationView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A custody key.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyKeyView {
    /// The key's name.
    pub key_ref: String,
    /// The key's state.
    pub state: KeyState,
    /// The key's id.
    pub key_id: Hex32,
    /// `<profile>:<public key hex>`; empty until the key is generated.
    pub public_key_artifact_ref: String,
    /// The public key, 32 bytes in hexadecimal: of Ed25519 (RFC 8032), or the x coordinate on secp256k1 (BIP-340). Empty until the
    /// key is generated.
    #[schema(pattern = "^([0-9a-f]{64})?$")]
    pub public_key_hex: String,
    /// The public key that verifies payments without `bip32`, in the same form: that of the key's child for payments. Empty until the
    /// key is generated.
    #[schema(pattern = "^([0-9a-f]{64})?$")]
    pub payments_public_key_hex: String,
    /// The signature profile.
    #[schema(value_type = SignatureProfile)]
    pub signature_profile: String,
    /// The tenant that owns the key.
    pub tenant_id: String,
    /// The asset of the key.
    pub asset_id: String,
    /// The purpose, for people.
    pub purpose: String,
    /// Time of the request that created the key, milliseconds since 1970.
    pub created_at_ms: u64,
    /// The name of the key's current epoch.
    pub active_epoch: String,
    /// The root of that epoch, used as the fence token of signatures; 64 zeros until the key is generated.
    pub active_epoch_root: Hex32,
    /// Time at which that epoch began, milliseconds since 1970; null until the key is generated.
    #[schema(required = true)]
    pub active_epoch_since_ms: Option<u64>,
    /// The number of participants that must sign together.
    pub threshold: u16,
    /// The share holders, by index.
    pub participants: Vec<u16>,
    /// Id of the key's latest operation.
    pub latest_operation_id: Hex32,
    /// The name of the key that this one replaces; absent if it replaces no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// The name of the key that replaces this one; absent if no key does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

/// The public forms of a key, or of a child of it. `host/docs/addresses.md` says which addresses they give.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyDerivation {
    /// The key's name.
    pub key_ref: String,
    /// The key's id.
    pub key_id: Hex32,
    /// The signature profile.
    #[schema(value_type = SignatureProfile)]
    pub signature_profile: String,
    /// The key's state; a rotated key no longer signs.
    pub state: KeyState,
    /// The path of the child; null for the key itself.
    #[schema(required = true)]
    pub path: Option<String>,
    /// The public key, 32 bytes in hexadecimal: of Ed25519 (RFC 8032), or the x coordinate on secp256k1 (BIP-340).
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub public_key_hex: String,
    /// The point on secp256k1, compressed (SEC 1), 33 bytes in hexadecimal; null for Ed25519.
    #[schema(required = true, pattern = "^0[23][0-9a-f]{64}$")]
    pub compressed_public_key_hex: Option<String>,
    /// The extended public key (BIP-32, version bytes `xpub`), with which anyone can compute all public keys below it; null when
    /// `taproot_output_key_hex` is.
    #[schema(required = true, pattern = "^xpub[1-9A-HJ-NP-Za-km-z]{107}$")]
    pub extended_public_key: Option<String>,
    /// The Taproot output key without scripts (BIP-86), 32 bytes in hexadecimal. Signatures for it need `taproot` in the request.
    /// Null if the key cannot sign for it: for Ed25519, and for a rotated key.
    #[schema(required = true, pattern = "^[0-9a-f]{64}$")]
    pub taproot_output_key_hex: Option<String>,
}

impl KeyDerivation {
    /// The forms of the key, or of its child at `path`. `derived` is `None` for Ed25519.
    #[must_use]
    pub fn new(key: &CustodyKey, path: Option<String>, derived: Option<DerivedKeys>) -> Self {
        let own = key.public.as_ref().map(|public| public.public_key_hex.clone());
        let can_spend = key.state.can_sign();
        let (public_key_hex, point, addresses) = match derived {
            None => (own.unwrap_or_default(), None, None),
            Some(DerivedKeys { public_key_hex, point_hex, extended_public_key, taproot_output_key_hex }) => {
                (public_key_hex, Some(point_hex), Some((extended_public_key, taproot_output_key_hex)))
            }
        };
        let (extended, output_key) = addresses.filter(|_| can_spend).unzip();
        Self {
            key_ref: key.key_ref.0.clone(),
            key_id: key.key_id.0,
            signature_profile: key.signature_profile.clone(),
            state: key.state,
            path,
            public_key_hex,
            compressed_public_key_hex: point,
            extended_public_key: extended,
            taproot_output_key_hex: output_key,
        }
    }
}

impl CustodyKeyView {
    /// The key with its latest operation.
    #[must_use]
    pub fn new(key: &CustodyKey, latest: OperationId) -> Self {
        Self {
            key_ref: key.key_ref.0.clone(),
            state: key.state,
            key_id: key.key_id.0,
            public_key_artifact_ref: key.public_key_artifact_ref(),
            public_key_hex: key
                .public
                .as_ref()
                .map(|public| public.public_key_hex.clone())
                .unwrap_or_default(),
            payments_public_key_hex: key.payments_public_key_hex(),
            signature_profile: key.signature_profile.clone(),
            tenant_id: key.tenant.0.clone(),
            asset_id: key.asset_id.clone(),
            purpose: key.purpose.clone(),
            created_at_ms: key.created_at_ms.0,
            active_epoch: key.epoch.name.0.clone(),
            active_epoch_root: key.epoch.root,
            active_epoch_since_ms: key.epoch_since_ms.map(|at| at.0),
            threshold: key.threshold.0,
            participants: roster(&key.participants),
            latest_operation_id: latest.0,
            replaces: key.replaces.as_ref().map(|key_ref| key_ref.0.clone()),
            replaced_by: key.replaced_by.as_ref().map(|key_ref| key_ref.0.clone()),
        }
    }
}

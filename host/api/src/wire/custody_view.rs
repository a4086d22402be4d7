//! Custody operations and keys as callers see them.

use super::view::{OperationView, roster};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::{Intent, KeyUse, OperationType};
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::operation::{ExternalExport, Operation, target};
use gateway_engine::ports::Record;
use serde::Serialize;
use utoipa::ToSchema;

/// Answer of every request that creates a custody operation.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyOperationResponse {
    /// The operation.
    pub operation: CustodyOperationView,
}

/// An operation of the custody family.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyOperationView {
    /// What every operation has.
    #[serde(flatten)]
    pub operation: OperationView,
    /// What is done to or with the key.
    #[schema(value_type = CustodyOperationType)]
    pub operation_type: OperationType,
    /// The key.
    pub key_ref: String,
    /// The asset it is about.
    pub asset_id: String,
    /// Whose.
    pub tenant_id: String,
    /// When it was submitted, epoch milliseconds.
    pub created_at_ms: u64,
    /// When it last changed, epoch milliseconds.
    pub updated_at_ms: u64,
    /// The key whose generation it makes: the new one of a rotation. Null for a signature, which makes none.
    #[schema(required = true)]
    pub target_key_ref: Option<String>,
    /// That generation's name: as it is when it is a Hex32, else its tagged SHA-256.
    #[schema(required = true, value_type = Option<String>, pattern = "^[0-9a-f]{64}$")]
    pub target_epoch_hex: Option<Hex32>,
    /// How many of its holders must sign together.
    #[schema(required = true)]
    pub target_threshold: Option<u16>,
    /// Who will hold its shares.
    pub target_participants: Vec<u16>,
    /// Where it is on an external rail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub external_export: Option<ExternalExport>,
}

/// The kinds of custody operations.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's own words")]
pub enum CustodyOperationType {
    KeyCreate,
    Sign,
    Refresh,
    Reshare,
    Rotate,
    Recover,
}

impl CustodyOperationView {
    /// The operation with what its key tells.
    #[must_use]
    pub fn new(record: &Record, key: Option<&CustodyKey>) -> Self {
        let operation = &record.operation;
        let admitted = operation.admission.as_ref().map(|admission| admission.decision.target.clone());
        let target = admitted.unwrap_or_else(|| target(operation, key));
        let target_slot = operation.successor.as_ref().unwrap_or(&operation.key);
        Self {
            operation: OperationView::from(record),
            operation_type: operation.intent.operation_type(),
            key_ref: operation.key.key_ref.0.clone(),
            asset_id: asset_id(operation, key),
            tenant_id: operation.tenant.0.clone(),
            created_at_ms: operation.created_at_ms.0,
            updated_at_ms: operation.updated_at_ms.0,
            target_key_ref: target.as_ref().map(|_| target_slot.key_ref.0.clone()),
            target_epoch_hex: target.as_ref().map(|target| target.epoch.hex32()),
            target_threshold: target.as_ref().map(|target| target.threshold.0),
            target_participants: target.map(|target| roster(&target.participants)).unwrap_or_default(),
            external_export: operation.export.clone(),
        }
    }
}

/// The asset that the request names, else the one the key is for.
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

/// Operations of a key.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyOperationsResponse {
    /// Newest first.
    pub operations: Vec<CustodyOperationView>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A custody key.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustodyKeyView {
    /// The caller's name for it.
    pub key_ref: String,
    /// Where it is in its life.
    #[schema(value_type = CustodyKeyState)]
    pub state: KeyState,
    /// Its id.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub key_id: Hex32,
    /// `<profile>:<public key hex>`; empty until it was generated.
    pub public_key_artifact_ref: String,
    /// What it signs for, for ever; null until the first signing operation on it is admitted, where its creation left
    /// that open.
    #[schema(required = true, value_type = Option<super::custody::KeyUse>)]
    pub serves: Option<KeyUse>,
    /// The generation that signs.
    pub active_epoch: String,
    /// Its root, the fence token of signatures; 64 zeros until it was generated.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub active_epoch_root: Hex32,
    /// How many must sign together.
    pub threshold: u16,
    /// Who holds shares.
    pub participants: Vec<u16>,
    /// The latest of its operations.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub latest_operation_id: Hex32,
    /// The key whose place it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// The key that took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

/// The states of a key.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "decisions.md 5")]
pub enum CustodyKeyState {
    Creating,
    Active,
    Refreshing,
    Resharing,
    Recovering,
    Rotating,
    Rotated,
    Failed,
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
            serves: key.serves,
            active_epoch: key.epoch.name.0.clone(),
            active_epoch_root: key.epoch.root,
            threshold: key.threshold.0,
            participants: roster(&key.participants),
            latest_operation_id: latest.0,
            replaces: key.replaces.as_ref().map(|key_ref| key_ref.0.clone()),
            replaced_by: key.replaced_by.as_ref().map(|key_ref| key_ref.0.clone()),
        }
    }
}

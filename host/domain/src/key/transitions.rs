//! The changes that an operation's events make to its keys.

use super::{CustodyKey, Epoch, FIRST_EPOCH, KeyState};
use crate::ids::{EpochName, Hex32};
use crate::intent::{Intent, KeyCreate, OperationType, Rotate};
use crate::operation::event::{Change, Event};
use crate::operation::state::Operation;

/// The keys of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The key that the operation signs with, creates or changes.
    pub subject: Option<CustodyKey>,
    /// The key that a rotation creates.
    pub successor: Option<CustodyKey>,
}

/// The keys after an operation's event. `operation` is the operation *after* the event. A signing operation changes none.
#[must_use]
pub fn after(keys: Keys, operation: &Operation, event: &Event) -> Keys {
    let Keys { subject, successor } = keys;
    match &operation.intent {
        Intent::Payment(_) | Intent::AssetAction(_) => Keys { subject, successor },
        Intent::KeyCreate(create) => {
            let new = Some(CustodyKey::creating(operation, create));
            Keys { subject: after_creation(subject, new, operation, event), successor }
        }
        Intent::Rotate(rotate) => {
            let new = subject.as_ref().and_then(|subject| subject.successor(operation, rotate));
            let successor = after_creation(successor, new, operation, event);
            Keys { subject: after_change(subject, operation, event), successor }
        }
        Intent::Refresh(_) | Intent::Reshare(_) | Intent::Recover(_) => {
            Keys { subject: after_change(subject, operation, event), successor }
        }
    }
}

/// The key that an operation creates, from its submission on. `new` is the key to be created; a key that exists under
/// its name is kept, unless its creation failed.
fn after_creation(
    key: Option<CustodyKey>,
    new: Option<CustodyKey>,
    operation: &Operation,
    event: &Event,
) -> Option<CustodyKey> {
    if !matches!(event.change, Change::Submitted(_)) {
        let is_ours = |key: &CustodyKey| key.created_by == operation.id && key.state == KeyState::Creating;
        return key.map(|key| if is_ours(&key) { apply(key, operation, event) } else { key });
    }
    match (key, new) {
        (None, new) => new,
        (Some(failed), Some(new)) if failed.is_name_free() => {
            Some(CustodyKey { revision: failed.revision.saturating_add(1), ..new })
        }
        (Some(key), _) => Some(key),
    }
}

/// The key that a lifecycle operation changes, from the start of its execution on. Before that, the operation changes
/// nothing.
fn after_change(key: Option<CustodyKey>, operation: &Operation, event: &Event) -> Option<CustodyKey> {
    let key = key?;
    let starts = matches!(event.change, Change::ExecutionRequested { .. }) && key.busy_with.is_none();
    let is_executing = key.busy_with == Some(operation.id);
    Some(if starts || is_executing { apply(key, operation, event) } else { key })
}

/// Applies a change of the operation that creates or changes the key.
fn apply(mut key: CustodyKey, operation: &Operation, event: &Event) -> CustodyKey {
    let successor = operation.successor.as_ref().filter(|successor| successor.key_id != key.key_id);
    match &event.change {
        Change::ExecutionRequested { .. } => {
            key.busy_with = Some(operation.id);
            key.state = busy_state(&key, operation);
        }
        // A rotation's new generation belongs to the successor.
        Change::EpochDecided { .. } if successor.is_some() => return key,
        Change::EpochDecided { staged, .. } => {
            if key.public.is_some() {
                key.past_epochs.push(key.epoch.name);
            }
            key.epoch = staged.epoch.clone();
            key.epoch_since_ms = Some(event.at_ms);
            key.public = Some(staged.public.clone());
            key.participants = staged.participants.clone();
            key.threshold = staged.threshold;
        }
        Change::Executed { .. } => {
            key.busy_with = None;
            key.state = if successor.is_some() { KeyState::Rotated } else { KeyState::Active };
            key.replaced_by = successor.map(|successor| successor.key_ref.clone());
        }
        Change::DiscardAcked { .. } | Change::Failed { .. } => {
            key.busy_with = None;
            key.state = if key.public.is_some() { KeyState::Active } else { KeyState::Failed };
        }
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::RejectionRecorded { .. }
        | Change::ApprovalsLapsed { .. }
        | Change::ApprovalsWaived { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::AdmissionPostponed { .. }
        | Change::AdmissionResumed
        | Change::DecisionSigned { .. }
        | Change::AdmissionApplied { .. }
        | Change::ReceiptMaterialized { .. }
        | Change::CeremonyStarted { .. }
        | Change::AttemptLost { .. }
        | Change::EpochAcked { .. }
        | Change::PublicationRequested { .. }
        | Change::Published { .. }
        | Change::Aborted { .. }
        | Change::NodesGivenUp { .. }
        | Change::ReplayNoted { .. }
        | Change::RecoveryRecorded(_)
        | Change::ExternallyExported(_) => return key,
    }
    key.revision = key.revision.saturating_add(1);
    key
}

/// The state of a key while an operation executes on it.
fn busy_state(key: &CustodyKey, operation: &Operation) -> KeyState {
    match operation.intent.operation_type() {
        OperationType::KeyCreate => KeyState::Creating,
        OperationType::Rotate if key.created_by == operation.id => KeyState::Creating,
        OperationType::Rotate => KeyState::Rotating,
        OperationType::Refresh => KeyState::Refreshing,
        OperationType::Reshare => KeyState::Resharing,
        OperationType::Recover => KeyState::Recovering,
        OperationType::Sign => KeyState::Active,
    }
}

impl CustodyKey {
    /// The key of a key creation, at its submission.
    fn creating(operation: &Operation, create: &KeyCreate) -> Self {
        Self {
            key_id: operation.key.key_id,
            key_ref: operation.key.key_ref.clone(),
            tenant: operation.tenant.clone(),
            asset_id: create.asset_id.clone(),
            purpose: create.purpose.clone(),
            signature_profile: create.signature_profile.clone(),
            state: KeyState::Creating,
            threshold: create.threshold,
            participants: create.participants.clone(),
            epoch: Epoch { name: EpochName(FIRST_EPOCH.to_owned()), root: Hex32::ZERO },
            epoch_since_ms: None,
            past_epochs: Vec::new(),
            public: None,
            replaces: None,
            replaced_by: None,
            created_by: operation.id,
            created_at_ms: operation.created_at_ms,
            busy_with: None,
            revision: 0,
        }
    }

    /// The key that a rotation creates, at its submission: the same asset, purpose and profile.
    fn successor(&self, operation: &Operation, rotate: &Rotate) -> Option<Self> {
        let slot = operation.successor.clone()?;
        Some(Self {
            key_id: slot.key_id,
            key_ref: slot.key_ref,
            tenant: self.tenant.clone(),
            asset_id: self.asset_id.clone(),
            purpose: self.purpose.clone(),
            signature_profile: self.signature_profile.clone(),
            state: KeyState::Creating,
            threshold: rotate.threshold,
            participants: rotate.participants.clone(),
            epoch: Epoch { name: rotate.change.target_epoch.clone(), root: Hex32::ZERO },
            epoch_since_ms: None,
            past_epochs: Vec::new(),
            public: None,
            replaces: Some(self.key_ref.clone()),
            replaced_by: None,
            created_by: operation.id,
            created_at_ms: operation.created_at_ms,
            busy_with: None,
            revision: 0,
        })
    }
}

#[cfg(test)]
mod tests;

//! A custody key as the gateway knows it: no share is ever here.

use crate::canonical::{self, CanonicalError};
use crate::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::intent::{Intent, KeyCreate, OperationType};
use crate::operation::{Change, Operation};
use crate::roster::{Roster, Threshold};
use serde::{Deserialize, Serialize};

/// Where a key is in its life (decisions.md 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's own words")]
pub enum KeyState {
    Creating,
    Active,
    Refreshing,
    Resharing,
    Recovering,
    Rotating,
    Rotated,
    Failed,
}

impl KeyState {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Active => "active",
            Self::Refreshing => "refreshing",
            Self::Resharing => "resharing",
            Self::Recovering => "recovering",
            Self::Rotating => "rotating",
            Self::Rotated => "rotated",
            Self::Failed => "failed",
        }
    }

    /// Whether the key signs: a refresh or reshare does not stop it.
    #[must_use]
    pub const fn can_sign(self) -> bool {
        match self {
            Self::Active | Self::Refreshing | Self::Resharing | Self::Recovering | Self::Rotating => true,
            Self::Creating | Self::Rotated | Self::Failed => false,
        }
    }
}

/// One generation of a key's shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its name; the first is `1`.
    pub name: EpochName,
    /// The fence token: [`epoch_root`]. Zero until shares exist.
    pub root: Hex32,
}

/// The public half of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicKey {
    /// The key that signatures verify under: 32 bytes, hexadecimal.
    pub public_key_hex: String,
    /// The group's public package (verifying shares, threshold, chain code), hexadecimal; its format is the
    /// `threshold` crate's.
    pub package_hex: String,
}

/// A custody key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustodyKey {
    /// Fixed from the moment the create operation is stored.
    pub key_id: KeyId,
    /// The caller's name for it.
    pub key_ref: KeyRef,
    /// Whose key.
    pub tenant: Tenant,
    /// The asset it is for.
    pub asset_id: String,
    /// What it is for.
    pub purpose: String,
    /// One of ours (decisions.md 5).
    pub signature_profile: String,
    /// Where it is in its life.
    pub state: KeyState,
    /// How many must sign together.
    pub threshold: Threshold,
    /// Who holds shares.
    pub participants: Roster,
    /// The generation that signs.
    pub epoch: Epoch,
    /// None until the key was generated.
    pub public: Option<PublicKey>,
    /// The operation that creates it.
    pub created_by: OperationId,
    /// The lifecycle operation that executes on it.
    // INVARIANT: Some only between ExecutionRequested and Executed/Failed of that operation; kept by `after`.
    pub busy_with: Option<OperationId>,
    /// How often it changed: the store compares it before it writes.
    pub revision: u64,
}

/// `SHA-256("svc/epoch/v1" || {key_id, epoch, package})`: names one generation of shares.
///
/// # Errors
/// [`CanonicalError`], which these values do not give.
pub fn epoch_root(key_id: KeyId, epoch: &EpochName, package_hex: &str) -> Result<Hex32, CanonicalError> {
    #[derive(Serialize)]
    struct Generation<'a> {
        key_id: KeyId,
        epoch: &'a EpochName,
        package: &'a str,
    }
    canonical::digest("svc/epoch/v1", &Generation { key_id, epoch, package: package_hex })
}

impl CustodyKey {
    /// The contract's `public_key_artifact_ref`: `<profile>:<public key hex>`, empty until generation.
    #[must_use]
    pub fn public_key_artifact_ref(&self) -> String {
        let public = self.public.as_ref();
        public
            .map(|public| format!("{}:{}", self.signature_profile, public.public_key_hex))
            .unwrap_or_default()
    }

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
            epoch: Epoch { name: EpochName("1".to_owned()), root: Hex32::ZERO },
            public: None,
            created_by: operation.id,
            busy_with: None,
            revision: 0,
        }
    }
}

/// The key after an operation's event: the one home of key transitions. `operation` is the operation *after*
/// the event. Signing leaves keys alone.
#[must_use]
pub fn after(key: Option<CustodyKey>, operation: &Operation, change: &Change) -> Option<CustodyKey> {
    let kind = operation.intent.operation_type();
    if kind == OperationType::Sign {
        return key;
    }
    if let (Change::Submitted(_), Intent::KeyCreate(create)) = (change, &operation.intent) {
        return match key {
            None => Some(CustodyKey::creating(operation, create)),
            // A creation that failed left nothing behind: the name is free for another.
            Some(failed) if failed.state == KeyState::Failed && failed.public.is_none() => {
                let revision = failed.revision.saturating_add(1);
                Some(CustodyKey { revision, ..CustodyKey::creating(operation, create) })
            }
            Some(key) => Some(key),
        };
    }
    let mut key = key?;
    // Only the operation that holds the key moves it: one that expires in the queue leaves it alone.
    let takes = matches!(change, Change::ExecutionRequested { .. }) && key.busy_with.is_none();
    let creates = key.created_by == operation.id && key.state == KeyState::Creating;
    if !(takes || creates || key.busy_with == Some(operation.id)) {
        return Some(key);
    }
    let settled = if kind == OperationType::Rotate { KeyState::Rotated } else { KeyState::Active };
    match change {
        Change::ExecutionRequested { .. } => {
            key.busy_with = Some(operation.id);
            key.state = busy_state(kind);
        }
        Change::EpochDecided { staged } => {
            key.epoch = staged.epoch.clone();
            key.public = Some(staged.public.clone());
            key.participants = staged.participants.clone();
            key.threshold = staged.threshold;
        }
        Change::Executed { .. } => {
            key.busy_with = None;
            key.state = settled;
        }
        Change::Failed { .. } => {
            key.busy_with = None;
            key.state = if key.public.is_some() { KeyState::Active } else { KeyState::Failed };
        }
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::DecisionSigned { .. }
        | Change::AdmissionApplied { .. }
        | Change::ReceiptMaterialized { .. }
        | Change::CeremonyStarted { .. }
        | Change::AttemptLost { .. }
        | Change::EpochAcked { .. }
        | Change::PublicationRequested { .. }
        | Change::Published { .. }
        | Change::Aborted { .. }
        | Change::ReplayNoted { .. }
        | Change::RecoveryRecorded(_) => return Some(key),
    }
    key.revision = key.revision.saturating_add(1);
    Some(key)
}

const fn busy_state(kind: OperationType) -> KeyState {
    match kind {
        OperationType::KeyCreate => KeyState::Creating,
        OperationType::Refresh => KeyState::Refreshing,
        OperationType::Reshare => KeyState::Resharing,
        OperationType::Rotate => KeyState::Rotating,
        OperationType::Recover => KeyState::Recovering,
        OperationType::Sign => KeyState::Active,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::PublicationMode;
    use crate::operation::Failure;
    use crate::operation::samples::{Kind, intent, submission};
    use crate::operation::{open, replay};
    use crate::time::EpochMs;

    fn operation(kind: Kind, number: u8) -> Operation {
        let intent = intent(kind, PublicationMode::Manual);
        let submission = crate::operation::Submission {
            operation_id: OperationId(Hex32::new([number; 32])),
            ..submission(intent, 1)
        };
        replay(&open(submission, EpochMs(1))).unwrap()
    }

    fn failed() -> Change {
        let failure = Failure { code: "approval_expired".into(), detail: String::new(), culprits: vec![] };
        Change::Failed { failure, policy: None }
    }

    fn active() -> CustodyKey {
        let create = operation(Kind::KeyCreate, 1);
        let Intent::KeyCreate(intent) = &create.intent else { panic!() };
        CustodyKey { state: KeyState::Active, ..CustodyKey::creating(&create, intent) }
    }

    #[test]
    fn only_the_operation_that_holds_a_key_moves_it() {
        let (holder, waiting) = (operation(Kind::Refresh, 2), operation(Kind::Reshare, 3));
        let requested = Change::ExecutionRequested { requested_at_ms: None };
        let busy = after(Some(active()), &holder, &requested).unwrap();
        assert_eq!((busy.busy_with, busy.state), (Some(holder.id), KeyState::Refreshing));
        assert_eq!(after(Some(busy.clone()), &waiting, &failed()), Some(busy.clone()));
        assert_eq!(after(Some(busy.clone()), &waiting, &requested), Some(busy.clone()));
        let freed = after(Some(busy), &holder, &failed()).unwrap();
        assert_eq!(freed.busy_with, None);
        let rotated = CustodyKey { state: KeyState::Rotated, ..active() };
        assert_eq!(after(Some(rotated.clone()), &waiting, &failed()), Some(rotated));
    }

    #[test]
    fn a_creation_that_fails_before_it_executes_fails_its_key() {
        let create = operation(Kind::KeyCreate, 1);
        let Intent::KeyCreate(intent) = &create.intent else { panic!() };
        let creating = CustodyKey::creating(&create, intent);
        assert_eq!(after(Some(creating), &create, &failed()).unwrap().state, KeyState::Failed);
    }
}

//! A custody key as the gateway knows it: no share is ever here.

use crate::canonical::{self, CanonicalError};
use crate::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::intent::{Intent, KeyCreate, KeyUse, OperationType, Rotate};
use crate::operation::{Change, Operation, Refusal};
use crate::roster::{ParticipantIndex, Roster, Threshold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The epoch that every created key begins with (decisions.md 5).
pub const FIRST_EPOCH: &str = "1";

/// Epochs a key may have had: their names are kept with it, so that none comes twice.
pub const EPOCHS_MAX: usize = 1024;

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
    /// What it signs for; none until the first signing operation on it is admitted, in a deployment that lets keys be
    /// created without it.
    // INVARIANT: once set it never changes; kept by `bound`, and by each node that holds a share.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub serves: Option<KeyUse>,
    /// The signing operation whose admission settled `serves`; none when the key's creation did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub serves_since: Option<OperationId>,
    /// Where it is in its life.
    pub state: KeyState,
    /// How many must sign together.
    pub threshold: Threshold,
    /// Who holds shares.
    pub participants: Roster,
    /// The generation that signs.
    pub epoch: Epoch,
    /// The names of generations that signed before, oldest first.
    // INVARIANT: at most EPOCHS_MAX, and never the name of `epoch`; kept by `check_epoch`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub past_epochs: Vec<EpochName>,
    /// None until the key was generated.
    pub public: Option<PublicKey>,
    /// The key whose place it takes, when a rotation made it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaces: Option<KeyRef>,
    /// The key that took its place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaced_by: Option<KeyRef>,
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
    /// Whether every participant must hold exactly this epoch: the key signs, and no operation is making another.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.state.can_sign() && self.busy_with.is_none()
    }

    /// The contract's `public_key_artifact_ref`: `<profile>:<public key hex>`, empty until generation.
    #[must_use]
    pub fn public_key_artifact_ref(&self) -> String {
        let public = self.public.as_ref();
        public
            .map(|public| format!("{}:{}", self.signature_profile, public.public_key_hex))
            .unwrap_or_default()
    }

    /// Whether another may take its name: a creation that failed left nothing behind.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.state == KeyState::Failed && self.public.is_none()
    }

    /// Whether the key may have the epoch that an intent asks for: a name it never had, and a decimal one above all
    /// decimal ones it had. A rotation names the first epoch of another key.
    ///
    /// # Errors
    /// [`Refusal::EpochConflict`].
    pub fn check_epoch(&self, intent: &Intent) -> Result<(), Refusal> {
        let asked = match intent {
            Intent::Refresh(refresh) => &refresh.change.target_epoch,
            Intent::Reshare(reshare) => &reshare.change.target_epoch,
            Intent::Recover(recover) => &recover.change.target_epoch,
            Intent::Payment(_) | Intent::AssetAction(_) | Intent::KeyCreate(_) | Intent::Rotate(_) => {
                return Ok(());
            }
        };
        let conflict = |why: String| Err(Refusal::EpochConflict(why));
        if self.past_epochs.len() >= EPOCHS_MAX {
            return conflict(format!("the key has had {EPOCHS_MAX} epochs, as many as a key may: rotate it"));
        }
        let had = || self.past_epochs.iter().chain([&self.epoch.name]);
        if had().any(|name| name == asked) {
            return conflict(format!("the key has had epoch `{asked}`: it needs a name it never had"));
        }
        let latest = had().filter_map(|name| decimal(name).map(|value| (value, name))).max();
        match (decimal(asked), latest) {
            (Some(asked_value), Some((value, latest))) if asked_value <= value => conflict(format!(
                "epoch `{asked}` does not come after `{latest}`: decimal epochs must increase"
            )),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    fn creating(operation: &Operation, create: &KeyCreate) -> Self {
        Self {
            key_id: operation.key.key_id,
            key_ref: operation.key.key_ref.clone(),
            tenant: operation.tenant.clone(),
            asset_id: create.asset_id.clone(),
            purpose: create.purpose.clone(),
            signature_profile: create.signature_profile.clone(),
            serves: create.serves,
            serves_since: None,
            state: KeyState::Creating,
            threshold: create.threshold,
            participants: create.participants.clone(),
            epoch: Epoch { name: EpochName(FIRST_EPOCH.to_owned()), root: Hex32::ZERO },
            past_epochs: Vec::new(),
            public: None,
            replaces: None,
            replaced_by: None,
            created_by: operation.id,
            busy_with: None,
            revision: 0,
        }
    }

    /// The key that a rotation makes: what this one is for, with shares of its own.
    fn successor(&self, operation: &Operation, rotate: &Rotate) -> Option<Self> {
        let slot = operation.successor.clone()?;
        Some(Self {
            key_id: slot.key_id,
            key_ref: slot.key_ref,
            tenant: self.tenant.clone(),
            asset_id: self.asset_id.clone(),
            purpose: self.purpose.clone(),
            signature_profile: self.signature_profile.clone(),
            // Inherited once the rotation executes: until then it may still be settled.
            serves: None,
            serves_since: None,
            state: KeyState::Creating,
            threshold: rotate.threshold,
            participants: rotate.participants.clone(),
            epoch: Epoch { name: rotate.change.target_epoch.clone(), root: Hex32::ZERO },
            past_epochs: Vec::new(),
            public: None,
            replaces: Some(self.key_ref.clone()),
            replaced_by: None,
            created_by: operation.id,
            busy_with: None,
            revision: 0,
        })
    }
}

/// The value of a decimal name, as its number of digits and its digits.
fn decimal(name: &EpochName) -> Option<(usize, &str)> {
    let is_decimal = !name.0.is_empty() && name.0.bytes().all(|byte| byte.is_ascii_digit());
    let digits = name.0.trim_start_matches('0');
    is_decimal.then_some((digits.len(), digits))
}

/// What each participant must hold, of the keys that no operation is changing.
#[must_use]
pub fn holders(keys: &[CustodyKey]) -> BTreeMap<ParticipantIndex, Vec<(KeyId, Epoch)>> {
    let mut holders: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for key in keys.iter().filter(|key| key.is_settled()) {
        for participant in key.participants.iter() {
            holders.entry(participant).or_default().push((key.key_id, key.epoch.clone()));
        }
    }
    holders
}

/// The keys of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The one it is about.
    pub subject: Option<CustodyKey>,
    /// The one that a rotation makes.
    pub successor: Option<CustodyKey>,
}

/// The keys after an operation's event: the one home of key transitions. `operation` is the operation *after*
/// the event. Signing leaves a key alone, but for what the key serves.
#[must_use]
pub fn after(keys: Keys, operation: &Operation, change: &Change) -> Keys {
    let Keys { subject, successor } = keys;
    match &operation.intent {
        Intent::Payment(_) | Intent::AssetAction(_) => {
            Keys { subject: subject.map(|key| bound(key, operation, change)), successor }
        }
        Intent::KeyCreate(create) => {
            let new = Some(CustodyKey::creating(operation, create));
            Keys { subject: made(subject, new, operation, change), successor }
        }
        Intent::Rotate(rotate) => {
            let new = subject.as_ref().and_then(|subject| subject.successor(operation, rotate));
            let mut successor = made(successor, new, operation, change);
            if let (Change::Executed { .. }, Some(key), Some(old)) = (change, &mut successor, &subject)
                && key.created_by == operation.id
            {
                (key.serves, key.serves_since) = (old.serves, old.serves_since);
            }
            Keys { subject: held(subject, operation, change), successor }
        }
        Intent::Refresh(_) | Intent::Reshare(_) | Intent::Recover(_) => {
            Keys { subject: held(subject, operation, change), successor }
        }
    }
}

/// A key that is signed with: the first signing operation admitted on it settles what it serves, where its creation did
/// not.
fn bound(key: CustodyKey, operation: &Operation, change: &Change) -> CustodyKey {
    let settles = matches!(change, Change::DecisionSigned { .. }) && key.serves.is_none();
    if !settles {
        return key;
    }
    let revision = key.revision.saturating_add(1);
    CustodyKey { serves: operation.intent.key_use(), serves_since: Some(operation.id), revision, ..key }
}

/// A key that the operation makes: its name is taken at submission.
fn made(
    key: Option<CustodyKey>,
    new: Option<CustodyKey>,
    operation: &Operation,
    change: &Change,
) -> Option<CustodyKey> {
    if !matches!(change, Change::Submitted(_)) {
        let is_ours = |key: &CustodyKey| key.created_by == operation.id && key.state == KeyState::Creating;
        return key.map(|key| if is_ours(&key) { moved(key, operation, change) } else { key });
    }
    match (key, new) {
        (None, new) => new,
        (Some(failed), Some(new)) if failed.is_free() => {
            Some(CustodyKey { revision: failed.revision.saturating_add(1), ..new })
        }
        (Some(key), _) => Some(key),
    }
}

/// A key that the operation changes. Only the operation that holds it moves it: one that expires in the queue leaves
/// it alone.
fn held(key: Option<CustodyKey>, operation: &Operation, change: &Change) -> Option<CustodyKey> {
    let key = key?;
    let takes = matches!(change, Change::ExecutionRequested { .. }) && key.busy_with.is_none();
    let holds = key.busy_with == Some(operation.id);
    Some(if takes || holds { moved(key, operation, change) } else { key })
}

fn moved(mut key: CustodyKey, operation: &Operation, change: &Change) -> CustodyKey {
    let successor = operation.successor.as_ref().filter(|successor| successor.key_id != key.key_id);
    match change {
        Change::ExecutionRequested { .. } => {
            key.busy_with = Some(operation.id);
            key.state = busy_state(&key, operation);
        }
        // The new generation is the successor's, where there is one.
        Change::EpochDecided { .. } if successor.is_some() => return key,
        Change::EpochDecided { staged, .. } => {
            if key.public.is_some() {
                key.past_epochs.push(key.epoch.name);
            }
            key.epoch = staged.epoch.clone();
            key.public = Some(staged.public.clone());
            key.participants = staged.participants.clone();
            key.threshold = staged.threshold;
        }
        Change::Executed { .. } => {
            key.busy_with = None;
            key.state = if successor.is_some() { KeyState::Rotated } else { KeyState::Active };
            key.replaced_by = successor.map(|successor| successor.key_ref.clone());
        }
        Change::Failed { .. } => {
            key.busy_with = None;
            key.state = if key.public.is_some() { KeyState::Active } else { KeyState::Failed };
        }
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::ApprovalsWaived { .. }
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
        | Change::RecoveryRecorded(_)
        | Change::ExternallyExported(_) => return key,
    }
    key.revision = key.revision.saturating_add(1);
    key
}

/// What a key is called while an operation executes on it.
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

#[cfg(test)]
mod tests;

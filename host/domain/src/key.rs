//! A custody key as the gateway knows it: no share is ever here.

use crate::canonical::{self, CanonicalError};
use crate::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::intent::KeyUse;
use crate::roster::{ParticipantIndex, Roster, Threshold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub mod fit;
pub mod transitions;

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

/// New shares, staged durably on every node that is to hold one, and not yet in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The generation.
    pub epoch: Epoch,
    /// Its public half.
    pub public: PublicKey,
    /// Who holds its shares.
    pub participants: Roster,
    /// How many must sign together.
    pub threshold: Threshold,
}

impl Staged {
    /// The contract's `result_ref` of an operation that makes shares.
    ///
    /// # Errors
    /// [`CanonicalError`], which no generation gives.
    pub fn result_ref(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/result/v1", self)
    }
}

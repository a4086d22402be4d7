//! A custody key as the gateway stores it, without shares.

use crate::canonical::{self, CanonicalError};
use crate::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::roster::{ParticipantIndex, Roster, Threshold};
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub mod fit;
mod payments;
pub mod transitions;

pub use payments::payments_public_key;

/// The first epoch of a key, unless a rotation creates it: that request names the first epoch.
pub const FIRST_EPOCH: &str = "1";

/// The most past epochs of one key. Their names are stored with the key, so that none is used twice.
pub const EPOCHS_MAX: usize = 1024;

crate::wire_words! {
    /// The states of a key.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CustodyKeyState))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[expect(missing_docs, reason = "the variants are the contract's words")]
    pub enum KeyState {
        Creating = "creating",
        Active = "active",
        Refreshing = "refreshing",
        Resharing = "resharing",
        Recovering = "recovering",
        Rotating = "rotating",
        Rotated = "rotated",
        Failed = "failed",
    }
}

impl KeyState {
    /// Whether the key signs. It continues to sign while an operation changes it.
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Epoch {
    /// The epoch's name.
    pub name: EpochName,
    /// [`epoch_root`] of the generation, which a request may name as its fence. Zero until shares exist.
    pub root: Hex32,
}

/// The public half of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicKey {
    /// The public key that verifies signatures: 32 bytes, hexadecimal.
    pub public_key_hex: String,
    /// The group's public package (verifying shares, threshold, chain code), hexadecimal; its format is the
    /// `threshold` crate's.
    pub package_hex: String,
}

/// A custody key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustodyKey {
    /// The id, fixed when the creation is submitted.
    pub key_id: KeyId,
    /// The caller's name for the key.
    pub key_ref: KeyRef,
    /// The tenant that owns the key.
    pub tenant: Tenant,
    /// The asset that the key is for.
    pub asset_id: String,
    /// The caller's purpose of the key.
    pub purpose: String,
    /// One of [`SIGNATURE_PROFILES`](crate::intent::SIGNATURE_PROFILES).
    pub signature_profile: String,
    /// The key's state.
    pub state: KeyState,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
    /// The participants that hold shares.
    pub participants: Roster,
    /// The generation of shares that signs.
    pub epoch: Epoch,
    /// The time at which that generation replaced the one before it; `None` until the key is generated.
    pub epoch_since_ms: Option<EpochMs>,
    /// The names of earlier generations that signed, oldest first.
    // INVARIANT: at most EPOCHS_MAX, and never the name of `epoch`; kept by `check_epoch`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub past_epochs: Vec<EpochName>,
    /// The public half; `None` until the key is generated.
    pub public: Option<PublicKey>,
    /// The key that it replaces, when a rotation created it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaces: Option<KeyRef>,
    /// The key that replaced it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaced_by: Option<KeyRef>,
    /// The operation that created it.
    pub created_by: OperationId,
    /// The time at which that operation was submitted.
    pub created_at_ms: EpochMs,
    /// The lifecycle operation that is executing on it.
    // INVARIANT: Some only between ExecutionRequested and Executed/Failed of that operation; kept by `after`.
    pub busy_with: Option<OperationId>,
    /// The number of changes so far. The store compares it before it writes.
    pub revision: u64,
}

/// `SHA-256("svc/epoch/v1" || {key_id, epoch, package})`: identifies one generation of shares.
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
    /// Whether every participant must hold its share of exactly this epoch: the key signs, and no operation is changing it.
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

    /// [`Self::public_key_artifact_ref`], if the key is generated.
    #[must_use]
    pub fn generated_artifact_ref(&self) -> Option<String> {
        self.public.as_ref().map(|_| self.public_key_artifact_ref())
    }

    /// The public key of payments: 32 bytes, hexadecimal; empty until generation.
    #[must_use]
    pub fn payments_public_key_hex(&self) -> String {
        payments_public_key(self.key_id, &self.public_key_artifact_ref()).unwrap_or_default()
    }

    /// Whether the key's name can be used again: its creation failed and no shares were made.
    #[must_use]
    pub fn is_name_free(&self) -> bool {
        self.state == KeyState::Failed && self.public.is_none()
    }
}

/// The shares that each participant must hold, by key and epoch. Leaves out keys that do not sign or that an operation is
/// changing.
#[must_use]
pub fn expected_shares(keys: &[CustodyKey]) -> BTreeMap<ParticipantIndex, Vec<(KeyId, Epoch)>> {
    let mut shares: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for key in keys.iter().filter(|key| key.is_settled()) {
        for participant in key.participants.iter() {
            shares.entry(participant).or_default().push((key.key_id, key.epoch.clone()));
        }
    }
    shares
}

/// The public data of new shares that every receiver has staged durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Staged {
    /// The generation of shares.
    pub epoch: Epoch,
    /// Its public half.
    pub public: PublicKey,
    /// The participants that hold its shares.
    pub participants: Roster,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
}

impl Staged {
    /// The contract's `result_ref` of an operation that makes shares.
    pub fn result_ref(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/result/v1", self)
    }
}

//! Changes of a key's life.

use super::{KeyUse, PublicationMode};
use crate::ids::{EpochName, KeyRef};
use crate::roster::{ParticipantIndex, Roster, Threshold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The signature profiles that keys may have.
pub const SIGNATURE_PROFILES: [&str; 2] = ["frost-ed25519-sha512", "frost-secp256k1-sha256-tr"];

/// Longest name of an epoch, characters (decisions.md 5).
pub const EPOCH_CHARACTERS_MAX: usize = 128;

/// Distributed generation of a new key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreate {
    /// The asset the key is for.
    pub asset_id: String,
    /// What the key is for.
    pub purpose: String,
    /// Who will hold shares.
    pub participants: Roster,
    /// How many must sign together.
    pub threshold: Threshold,
    /// One of [`SIGNATURE_PROFILES`], after aliases were resolved (decisions.md 5).
    pub signature_profile: String,
    /// What was asked for, where an alias stood for the profile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested_signature_profile: Option<String>,
    /// Chains the key is meant for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub chains: Vec<String>,
    /// What the key will sign for; without it, the first signing operation admitted on the key settles it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub serves: Option<KeyUse>,
}

/// What every change of an existing key carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// The epoch the key will be in.
    pub target_epoch: EpochName,
    /// Why, in the submitter's words.
    pub reason: String,
    /// Who publishes.
    pub publication_mode: PublicationMode,
    /// Free fields of the caller.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub metadata: BTreeMap<String, String>,
}

/// Same roster, threshold and public key; new shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refresh {
    /// Epoch, reason, publication.
    #[serde(flatten)]
    pub change: Lifecycle,
}

/// New roster and threshold; same public key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reshare {
    /// Epoch, reason, publication.
    #[serde(flatten)]
    pub change: Lifecycle,
    /// Who will hold shares.
    pub new_participants: Roster,
    /// How many of them must sign together.
    pub threshold: Threshold,
}

/// A new key that takes this one's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotate {
    /// Epoch, reason, publication.
    #[serde(flatten)]
    pub change: Lifecycle,
    /// The new key's name.
    pub new_key_ref: KeyRef,
    /// Who will hold its shares.
    pub participants: Roster,
    /// How many of them must sign together.
    pub threshold: Threshold,
}

/// One participant's share, rebuilt from the helpers'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recover {
    /// Epoch, reason, publication.
    #[serde(flatten)]
    pub change: Lifecycle,
    /// The case that authorised the recovery.
    pub recovery_case_ref: String,
    /// Whose share is rebuilt.
    pub recovering_participant: ParticipantIndex,
    /// Who helps, at least the key's threshold.
    pub helper_participants: Roster,
    /// Content ids of the helpers' contributions.
    pub helper_share_cids: Vec<String>,
    /// Merkle root the contributions must have, when the caller pins it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected_helper_admission_root: Option<String>,
}

//! Creation and changes of keys.

use crate::ids::{EpochName, Hex32, KeyRef};
use crate::roster::{ParticipantIndex, Roster, Threshold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The supported signature profiles.
pub const SIGNATURE_PROFILES: [&str; 2] = ["frost-ed25519-sha512", "frost-secp256k1-sha256-tr"];

/// The longest name of an epoch, characters.
pub const EPOCH_CHARACTERS_MAX: usize = 128;

/// Who starts the publication of an executed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublicationMode {
    /// A client, by the publish endpoint.
    Manual,
    /// The gateway, right after execution.
    Automatic,
}

/// Distributed generation of a new key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreate {
    /// The asset the key is for.
    pub asset_id: String,
    /// The caller's purpose of the key.
    pub purpose: String,
    /// The participants that will hold shares.
    pub participants: Roster,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
    /// One of [`SIGNATURE_PROFILES`], after aliases are resolved.
    pub signature_profile: String,
    /// The requested name of the profile, if it was an alias.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested_signature_profile: Option<String>,
    /// The chains that the key is meant for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub chains: Vec<String>,
}

/// The members that all changes of a key share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// The epoch that the key will be in.
    pub target_epoch: EpochName,
    /// The submitter's reason, as free text.
    pub reason: String,
    /// Who starts the publication.
    pub publication_mode: PublicationMode,
    /// The caller's free fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub metadata: BTreeMap<String, String>,
    /// The public key of the operation's key, as `<profile>:<public key hex>`; `None` if the key was not generated yet when the operation was
    /// submitted. No caller states it: the gateway fills it in, approvers sign it, and each node compares it with the key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub public_key_artifact_ref: Option<String>,
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
    /// The participants that will hold shares.
    pub new_participants: Roster,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
}

/// A new key that replaces this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotate {
    /// Epoch, reason, publication.
    #[serde(flatten)]
    pub change: Lifecycle,
    /// The new key's name.
    pub new_key_ref: KeyRef,
    /// The participants that will hold shares of the new key.
    pub participants: Roster,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
}

/// One participant's share, rebuilt with the helpers' shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recover {
    /// Epoch, reason, publication.
    #[serde(flatten)]
    pub change: Lifecycle,
    /// The reference of the case that authorised the recovery.
    pub recovery_case_ref: String,
    /// The participant whose share is rebuilt.
    pub recovering_participant: ParticipantIndex,
    /// The participants that help; at least the key's threshold.
    pub helper_participants: Roster,
    /// Content ids of the helpers' contributions, by helper ascending, which the nodes compare. In development also other texts,
    /// which are recorded only. Empty if the caller fixes none.
    pub helper_share_cids: Vec<String>,
    /// The expected root over the contributions, if the caller fixes it; as above.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected_helper_admission_root: Option<String>,
}

/// What a recovery fixes of its helpers' contributions, as far as it can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixedContributions {
    /// The content ids, by helper ascending; empty if the recovery fixes none.
    pub cids: Vec<Hex32>,
    /// The root over them.
    pub root: Option<Hex32>,
}

impl Recover {
    /// The contributions that the nodes compare.
    #[must_use]
    pub fn fixed_contributions(&self) -> FixedContributions {
        let cids: Option<_> = self.helper_share_cids.iter().map(|cid| cid.parse().ok()).collect();
        let root = self.expected_helper_admission_root.as_ref().and_then(|root| root.parse().ok());
        FixedContributions { cids: cids.unwrap_or_default(), root }
    }

    /// The members with texts that the nodes do not compare, because they are not content ids or not a root.
    #[must_use]
    pub fn uncompared_members(&self) -> Vec<&'static str> {
        let FixedContributions { cids, root } = self.fixed_contributions();
        let mut members = Vec::new();
        if cids.len() != self.helper_share_cids.len() {
            members.push("/helper_share_cids");
        }
        if root.is_none() && self.expected_helper_admission_root.is_some() {
            members.push("/expected_helper_admission_root");
        }
        members
    }
}

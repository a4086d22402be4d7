//! Creation and changes of keys.

use crate::ids::{EpochName, Hex32, KeyRef};
use crate::roster::{ParticipantIndex, Roster, Threshold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The supported signature profiles.
pub const SIGNATURE_PROFILES: [&str; 2] = ["frost-ed25519-sha512", "frost-secp256k1-sha256-tr"];

/// One of [`SIGNATURE_PROFILES`], for the OpenAPI document.
#[cfg(feature = "openapi")]
#[derive(Debug)]
pub struct SignatureProfile;

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for SignatureProfile {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        crate::openapi::words("The signature profiles.", SIGNATURE_PROFILES)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for SignatureProfile {}

/// The longest name of an epoch, characters.
pub const EPOCH_CHARACTERS_MAX: usize = 128;

/// The party that publishes an executed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PublicationMode {
    /// A client, by the publish endpoint.
    Manual,
    /// The gateway, right after execution.
    Automatic,
}

/// The creation of a key.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = KeyCreateIntent))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreate {
    /// The asset of the key.
    pub asset_id: String,
    /// The purpose, for people.
    pub purpose: String,
    /// The share holders, by index, ascending.
    pub participants: Roster,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
    /// The signature profile.
    // One of SIGNATURE_PROFILES, after aliases are resolved.
    #[cfg_attr(feature = "openapi", schema(value_type = SignatureProfile))]
    pub signature_profile: String,
    /// The requested name of the profile, if it was an alias.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested_signature_profile: Option<String>,
    /// The chains that the key is meant for; recorded and not enforced.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub chains: Vec<String>,
}

/// The members of every change of a key.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = KeyChangeIntent))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// The name of the epoch that the key will be in.
    pub target_epoch: EpochName,
    /// The reason, as free text.
    pub reason: String,
    /// The party that publishes.
    pub publication_mode: PublicationMode,
    /// The caller's free fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub metadata: BTreeMap<String, String>,
    /// The key's public key at submission, `<profile>:<public key hex>`; absent if the key was not generated yet.
    // No caller states it: the gateway fills it in, approvers sign it, and each node compares it with the key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub public_key_artifact_ref: Option<String>,
}

/// New shares for the same share holders.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RefreshIntent))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refresh {
    /// The members of every change of a key.
    #[serde(flatten)]
    pub change: Lifecycle,
}

/// New shares for a new roster and threshold.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ReshareIntent))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reshare {
    /// The members of every change of a key.
    #[serde(flatten)]
    pub change: Lifecycle,
    /// The new share holders, by index, ascending.
    pub new_participants: Roster,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
}

/// A new key that replaces this one.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RotateIntent))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotate {
    /// The members of every change of a key.
    #[serde(flatten)]
    pub change: Lifecycle,
    /// The new key's name.
    pub new_key_ref: KeyRef,
    /// The share holders of the new key, by index, ascending.
    pub participants: Roster,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
}

/// One participant's share, rebuilt with the help of others.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RecoverIntent))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recover {
    /// The members of every change of a key.
    #[serde(flatten)]
    pub change: Lifecycle,
    /// The reference of the case that authorised the recovery.
    pub recovery_case_ref: String,
    /// The participant whose share is rebuilt, by index.
    pub recovering_participant: ParticipantIndex,
    /// The participants that help, by index, ascending.
    // At least the key's threshold.
    pub helper_participants: Roster,
    /// Content ids of the helpers' contributions.
    // By helper ascending; the nodes compare them. In development also other texts, which are recorded only. Empty if the caller fixes
    // none.
    pub helper_share_cids: Vec<String>,
    /// The expected Merkle root of the contributions; absent for any.
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

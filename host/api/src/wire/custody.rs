//! Request shapes of the custody family.

use super::names::key_ref;
use super::operations::fence;
use super::{ClientBinding, PublicationMode, not_empty, participants, roster};
use crate::state::Options;
use crate::strict::{Fault, TEXT_BYTES_MAX};
use gateway_domain::ids::{EpochName, Hex32, KeyRef};
use gateway_domain::intent::{
    self, AssetAction, EPOCH_CHARACTERS_MAX, Intent, KeyCreate, Lifecycle, Recover, Refresh, Reshare, Rotate,
    SigningTerms,
};
use gateway_domain::operation::{ExportState, ExternalExport};
use gateway_domain::roster::{ParticipantIndex, Roster, Threshold};
use gateway_engine::Export;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

type Texts = BTreeMap<String, String>;

/// A request to create an operation on the key of its path.
pub trait KeyRequest {
    /// The request's own name, where it has one.
    fn idempotency_key(&self) -> Option<&str>;

    /// The caller.
    fn client(&self) -> &ClientBinding;

    /// The intent, checked. Client and idempotency key are no part of it.
    ///
    /// # Errors
    /// [`Fault`] at what is impossible.
    fn intent(&self) -> Result<Intent, Fault>;
}

/// Body of `POST /v1/custody/keys`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CustodyKeyCreateRequest {
    /// The key's name, unique within the tenant: not `.` or `..`, in Unicode's normalization form C, of visible characters and single
    /// spaces between them.
    #[schema(min_length = 1)]
    pub key_ref: String,
    /// Whose key.
    #[schema(min_length = 1)]
    pub tenant_id: String,
    /// The asset it is for.
    #[schema(min_length = 1)]
    pub asset_id: String,
    /// What it is for.
    #[schema(min_length = 1)]
    pub purpose: String,
    /// How many must sign together.
    #[schema(minimum = 2, maximum = 64)]
    pub threshold: u16,
    /// Who holds shares: 0-based indices, each once.
    #[schema(schema_with = participants)]
    pub participants: Vec<u16>,
    /// A signature profile, or another name of one.
    #[schema(min_length = 1)]
    pub signature_profile: String,
    /// Chains the key is meant for.
    #[serde(default)]
    pub chains: Vec<String>,
    /// What the key signs for, for ever. Left out, production takes `asset_actions`, and development what the first
    /// signing operation admitted on the key is.
    pub serves: Option<KeyUse>,
    /// The caller.
    pub client: ClientBinding,
}

/// What a key signs for.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyUse {
    /// Payments under `/v1/operations`.
    Payments,
    /// Signatures under `/v1/custody/keys/{keyRef}/sign`.
    AssetActions,
}

impl From<KeyUse> for intent::KeyUse {
    fn from(serves: KeyUse) -> Self {
        match serves {
            KeyUse::Payments => Self::Payments,
            KeyUse::AssetActions => Self::AssetActions,
        }
    }
}

impl CustodyKeyCreateRequest {
    /// The key's name and the intent, checked.
    ///
    /// # Errors
    /// [`Fault`] at what is impossible.
    pub fn parse(&self, options: &Options) -> Result<(KeyRef, Intent), Fault> {
        let key_ref = key_ref("/key_ref", &self.key_ref)?;
        text("/tenant_id", &self.tenant_id)?;
        let participants = roster("/participants", &self.participants)?;
        let asked = text("/signature_profile", &self.signature_profile)?;
        let profiles = &options.signature_profiles;
        let profile = profiles
            .resolve(&asked)
            .ok_or_else(|| Fault::at("/signature_profile", format!("must be one of {}", profiles.names())))?;
        let create = KeyCreate {
            asset_id: text("/asset_id", &self.asset_id)?,
            purpose: text("/purpose", &self.purpose)?,
            threshold: threshold(&participants, self.threshold)?,
            participants,
            signature_profile: profile.to_owned(),
            requested_signature_profile: (asked != profile).then_some(asked),
            chains: self.chains.clone(),
            serves: self.serves.map(Into::into).or(options.keys_serve),
        };
        Ok((key_ref, Intent::KeyCreate(create)))
    }
}

/// Body of `POST /v1/custody/keys/{keyRef}/sign`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CustodySignRequest {
    /// The request's own name on this key: resubmission returns the existing operation.
    #[schema(min_length = 1)]
    pub idempotency_key: String,
    /// The asset moved.
    #[schema(min_length = 1)]
    pub asset_id: String,
    /// Kind of asset action.
    #[schema(min_length = 1)]
    pub action: String,
    /// The chain it happens on.
    #[schema(min_length = 1)]
    pub chain_id: String,
    /// The 32 bytes that are signed.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub request_digest: Hex32,
    /// Root of the typed data the digest was computed from.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub typed_data_root: Hex32,
    /// 0-based signer indices, each once.
    #[schema(schema_with = participants)]
    pub requested_participants: Vec<u16>,
    /// Fence that rejects execution across an epoch change.
    #[schema(pattern = "^[0-9a-f]{1,128}$")]
    pub epoch_fence_token_hex: Option<String>,
    /// Who publishes.
    pub publication_mode: PublicationMode,
    /// The caller.
    pub client: ClientBinding,
    /// What the caller wants seen beside the digest.
    #[serde(default)]
    pub public_fields: BTreeMap<String, String>,
}

impl KeyRequest for CustodySignRequest {
    fn idempotency_key(&self) -> Option<&str> {
        Some(&self.idempotency_key)
    }

    fn client(&self) -> &ClientBinding {
        &self.client
    }

    fn intent(&self) -> Result<Intent, Fault> {
        let terms = SigningTerms {
            requested_participants: roster("/requested_participants", &self.requested_participants)?,
            threshold: None,
            epoch_fence_token_hex: self.epoch_fence_token_hex.clone().map(fence).transpose()?,
            publication_mode: self.publication_mode.into(),
        };
        Ok(Intent::AssetAction(AssetAction {
            asset_id: text("/asset_id", &self.asset_id)?,
            action: text("/action", &self.action)?,
            chain_id: text("/chain_id", &self.chain_id)?,
            request_digest: self.request_digest,
            typed_data_root: self.typed_data_root,
            public_fields: texts("/public_fields", &self.public_fields)?,
            terms,
        }))
    }
}

/// A request with the members that every change of a key has, and its own.
macro_rules! change_request {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident: $type:ty,)* } $intent:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
        pub struct $name {
            /// The request's own name on this key; without one its content names it.
            #[schema(min_length = 1)]
            pub idempotency_key: Option<String>,
            /// The epoch the key will be in: a name it never had, above all decimal ones it had when it is decimal.
            #[schema(min_length = 1, max_length = 128)]
            pub target_epoch: String,
            /// Why.
            #[schema(min_length = 1)]
            pub reason: String,
            /// Who publishes.
            pub publication_mode: PublicationMode,
            /// The caller.
            pub client: ClientBinding,
            /// Free fields.
            pub metadata: Option<BTreeMap<String, String>>,
            $($(#[$member_doc])* pub $member: $type,)*
        }

        impl $name {
            fn change(&self) -> Result<Lifecycle, Fault> {
                Ok(Lifecycle {
                    target_epoch: epoch(&self.target_epoch)?,
                    reason: text("/reason", &self.reason)?,
                    publication_mode: self.publication_mode.into(),
                    metadata: texts("/metadata", &self.metadata.clone().unwrap_or_default())?,
                })
            }
        }

        impl KeyRequest for $name {
            fn idempotency_key(&self) -> Option<&str> {
                self.idempotency_key.as_deref()
            }

            fn client(&self) -> &ClientBinding {
                &self.client
            }

            fn intent(&self) -> Result<Intent, Fault> {
                let intent: fn(&Self) -> Result<Intent, Fault> = $intent;
                intent(self)
            }
        }
    };
}

change_request! {
    /// Body of `POST /v1/custody/keys/{keyRef}/refresh`.
    CustodyKeyRefreshRequest {}
    |request| Ok(Intent::Refresh(Refresh { change: request.change()? }))
}

change_request! {
    /// Body of `POST /v1/custody/keys/{keyRef}/reshare`.
    CustodyKeyReshareRequest {
        /// Who will hold shares.
        #[schema(schema_with = participants)]
        new_participants: Vec<u16>,
        /// How many of them must sign together.
        #[schema(minimum = 2, maximum = 64)]
        threshold: u16,
    }
    |request| {
        let new_participants = roster("/new_participants", &request.new_participants)?;
        let threshold = threshold(&new_participants, request.threshold)?;
        Ok(Intent::Reshare(Reshare { change: request.change()?, new_participants, threshold }))
    }
}

change_request! {
    /// Body of `POST /v1/custody/keys/{keyRef}/rotate`.
    CustodyKeyRotateRequest {
        /// The new key's name: as that of a creation.
        #[schema(min_length = 1)]
        new_key_ref: String,
        /// Who will hold its shares.
        #[schema(schema_with = participants)]
        participants: Vec<u16>,
        /// How many of them must sign together.
        #[schema(minimum = 2, maximum = 64)]
        threshold: u16,
    }
    |request| {
        let participants = roster("/participants", &request.participants)?;
        let threshold = threshold(&participants, request.threshold)?;
        let new_key_ref = key_ref("/new_key_ref", &request.new_key_ref)?;
        Ok(Intent::Rotate(Rotate { change: request.change()?, new_key_ref, participants, threshold }))
    }
}

change_request! {
    /// Body of `POST /v1/custody/keys/{keyRef}/recover`.
    CustodyKeyRecoverRequest {
        /// The case that authorised the recovery.
        #[schema(min_length = 1)]
        recovery_case_ref: String,
        /// Whose share is rebuilt.
        #[schema(maximum = 1023)]
        recovering_participant: u16,
        /// Who helps: at least the key's threshold, without the recovering participant.
        #[schema(schema_with = participants)]
        helper_participants: Vec<u16>,
        /// Content ids of the helpers' contributions: the caller's own, part of what is approved and compared with nothing.
        helper_share_cids: Vec<String>,
        /// Merkle root that the caller expects the contributions to have: part of what is approved and compared with nothing. That
        /// each helper contributed to this key's share, the nodes verify themselves.
        expected_helper_admission_root: Option<String>,
    }
    |request| {
        let recovering_participant = ParticipantIndex(request.recovering_participant);
        let helper_participants = roster("/helper_participants", &request.helper_participants)?;
        if helper_participants.as_set().contains(&recovering_participant) {
            let message = format!("must not name participant `{recovering_participant}`, whose share is recovered");
            return Err(Fault::at("/helper_participants", message));
        }
        Ok(Intent::Recover(Recover {
            change: request.change()?,
            recovery_case_ref: text("/recovery_case_ref", &request.recovery_case_ref)?,
            recovering_participant,
            helper_participants,
            helper_share_cids: request.helper_share_cids.clone(),
            expected_helper_admission_root: request.expected_helper_admission_root.clone(),
        }))
    }
}

/// How far an export is.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the contract's own words")]
pub enum ExternalExportState {
    Submitted,
    Accepted,
    Settled,
}

/// Body of `POST .../external-export`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CustodyExternalExportRequest {
    /// The operation's publication receipt.
    pub publication_receipt: String,
    /// Which rail.
    #[schema(min_length = 1)]
    pub rail: String,
    /// The caller's reference of this step.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub export_ref: Hex32,
    /// How far it is.
    pub state: ExternalExportState,
    /// The rail's name for it.
    #[schema(min_length = 1)]
    pub external_id: String,
    /// The caller's clock, epoch milliseconds: a claim.
    pub exported_at_ms: i64,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl CustodyExternalExportRequest {
    /// The request in the engine's terms, checked.
    ///
    /// # Errors
    /// [`Fault`] for an empty name.
    pub fn export(self) -> Result<Export, Fault> {
        let export = ExternalExport {
            rail: not_empty("/rail", self.rail)?,
            export_ref: self.export_ref,
            state: match self.state {
                ExternalExportState::Submitted => ExportState::Submitted,
                ExternalExportState::Accepted => ExportState::Accepted,
                ExternalExportState::Settled => ExportState::Settled,
            },
            external_id: not_empty("/external_id", self.external_id)?,
            exported_at_ms: self.exported_at_ms,
        };
        Ok(Export { publication_receipt: self.publication_receipt, export, requester: None })
    }
}

fn text(pointer: &str, text: &str) -> Result<String, Fault> {
    not_empty(pointer, text.to_owned())
}

fn threshold(participants: &Roster, threshold: u16) -> Result<Threshold, Fault> {
    participants.threshold(threshold).map_err(|impossible| Fault::at("/threshold", impossible.to_string()))
}

fn epoch(name: &str) -> Result<EpochName, Fault> {
    if name.is_empty() || name.chars().count() > EPOCH_CHARACTERS_MAX {
        let message = format!("must be 1 to {EPOCH_CHARACTERS_MAX} characters");
        return Err(Fault::at("/target_epoch", message));
    }
    Ok(EpochName(name.to_owned()))
}

/// Values are held to their limit where they are read; names are not.
fn texts(pointer: &str, texts: &Texts) -> Result<Texts, Fault> {
    match texts.keys().find(|name| name.len() > TEXT_BYTES_MAX) {
        Some(_) => Err(Fault::at(pointer, format!("must have names of at most {TEXT_BYTES_MAX} bytes"))),
        None => Ok(texts.clone()),
    }
}

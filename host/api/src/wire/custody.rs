//! Request shapes of the custody family.

use super::names::key_ref;
use super::operations::{Taproot, parse_bip32, parse_fence_token};
use super::{ClientBinding, RequestShape, not_empty, roster, threshold};
use crate::state::Options;
use gateway_domain::ids::{EpochName, Hex32, KeyRef};
use gateway_domain::intent::{
    self, AssetAction, Bip32, EPOCH_CHARACTERS_MAX, Intent, KeyCreate, Lifecycle, PublicationMode, Recover,
    Refresh, Reshare, Rotate, SigningTerms,
};
use gateway_domain::roster::{ParticipantIndex, Roster};
use gateway_engine::{Publish, RequestedRecovery};
use gateway_service::strict::{Fault, TEXT_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

type Texts = BTreeMap<String, String>;

/// A request to create an operation on the key of its path.
pub trait KeyRequest: RequestShape<Checked = Intent> {
    /// The idempotency key, if the request has one.
    fn idempotency_key(&self) -> Option<&str>;

    /// The caller's claim about itself.
    fn into_client(self) -> ClientBinding;
}

/// Body of `POST /v1/custody/keys`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CustodyKeyCreateRequest {
    /// The key's name, unique within the tenant: visible characters with single spaces between them, in Unicode's normalization
    /// form C, and not `.` or `..`.
    #[schema(min_length = 1)]
    pub key_ref: String,
    /// The tenant that owns the key.
    #[schema(min_length = 1)]
    pub tenant_id: String,
    /// The asset of the key.
    #[schema(min_length = 1)]
    pub asset_id: String,
    /// The purpose, for people.
    #[schema(min_length = 1)]
    pub purpose: String,
    /// The number of participants that must sign together.
    #[schema(minimum = 2, maximum = 64)]
    pub threshold: u16,
    /// The share holders: 0-based indices, each once.
    #[schema(value_type = Roster)]
    pub participants: Vec<u16>,
    /// A signature profile, or an alias of one.
    #[schema(min_length = 1)]
    pub signature_profile: String,
    /// The chains that the key is meant for; recorded and not enforced.
    #[serde(default)]
    pub chains: Vec<String>,
    /// The caller.
    pub client: ClientBinding,
}

impl RequestShape for CustodyKeyCreateRequest {
    type Checked = (KeyRef, Intent);

    fn check(&self, options: &Options) -> Result<(KeyRef, Intent), Fault> {
        let key_ref = key_ref("/key_ref", &self.key_ref)?;
        not_empty("/tenant_id", &self.tenant_id)?;
        let participants = roster("/participants", &self.participants)?;
        let requested = not_empty("/signature_profile", &self.signature_profile)?;
        let profiles = &options.signature_profiles;
        let profile = profiles
            .resolve(&requested)
            .ok_or_else(|| Fault::at("/signature_profile", format!("must be one of {}", profiles.names())))?;
        let create = KeyCreate {
            asset_id: not_empty("/asset_id", &self.asset_id)?,
            purpose: not_empty("/purpose", &self.purpose)?,
            threshold: threshold(self.threshold, &participants, "/participants")?,
            participants,
            signature_profile: profile.to_owned(),
            requested_signature_profile: (requested != profile).then_some(requested),
            chains: self.chains.clone(),
        };
        Ok((key_ref, Intent::KeyCreate(create)))
    }

    fn client(&self) -> Option<&ClientBinding> {
        Some(&self.client)
    }
}

/// Body of `POST /v1/custody/keys/{keyRef}/sign`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CustodySignRequest {
    /// Unique for this key: resubmission returns the existing operation.
    #[schema(min_length = 1)]
    pub idempotency_key: String,
    /// The asset that moves.
    #[schema(min_length = 1)]
    pub asset_id: String,
    /// Kind of asset action.
    #[schema(min_length = 1)]
    pub action: String,
    /// The chain of the action.
    #[schema(min_length = 1)]
    pub chain_id: String,
    /// The 32 bytes to sign.
    pub request_digest: Hex32,
    /// Root of the typed data from which the caller computed the digest; not verified.
    pub typed_data_root: Hex32,
    /// 0-based signer indices, each once.
    #[schema(value_type = Roster)]
    pub requested_participants: Vec<u16>,
    /// The child key that signs; without it the key itself. Only for keys of `frost-secp256k1-sha256-tr`.
    pub bip32: Option<Bip32>,
    /// The Taproot output that the signature spends: its output key signs. Only for keys of `frost-secp256k1-sha256-tr`.
    pub taproot: Option<Taproot>,
    /// Fence token, the key's `active_epoch_root`: execution fails when the key has another one.
    #[schema(pattern = "^[0-9a-f]{1,128}$")]
    pub epoch_fence_token_hex: Option<String>,
    /// The party that publishes.
    pub publication_mode: PublicationMode,
    /// The caller.
    pub client: ClientBinding,
    /// Additional texts, part of the approved intent.
    #[serde(default)]
    pub public_fields: BTreeMap<String, String>,
}

impl KeyRequest for CustodySignRequest {
    fn idempotency_key(&self) -> Option<&str> {
        Some(&self.idempotency_key)
    }

    fn into_client(self) -> ClientBinding {
        self.client
    }
}

impl RequestShape for CustodySignRequest {
    type Checked = Intent;

    fn client(&self) -> Option<&ClientBinding> {
        Some(&self.client)
    }

    fn check(&self, _: &Options) -> Result<Intent, Fault> {
        not_empty("/idempotency_key", &self.idempotency_key)?;
        let terms = SigningTerms {
            requested_participants: roster("/requested_participants", &self.requested_participants)?,
            threshold: None,
            bip32: self.bip32.as_ref().map(parse_bip32).transpose()?,
            taproot: self
                .taproot
                .as_ref()
                .map(|taproot| intent::Taproot { merkle_root: taproot.merkle_root }),
            epoch_fence_token_hex: self.epoch_fence_token_hex.clone().map(parse_fence_token).transpose()?,
            public_key_artifact_ref: None,
            publication_mode: self.publication_mode,
        };
        Ok(Intent::AssetAction(AssetAction {
            asset_id: not_empty("/asset_id", &self.asset_id)?,
            action: not_empty("/action", &self.action)?,
            chain_id: not_empty("/chain_id", &self.chain_id)?,
            request_digest: self.request_digest,
            typed_data_root: self.typed_data_root,
            public_fields: texts("/public_fields", &self.public_fields)?,
            terms,
        }))
    }
}

/// Declares the request for a change of a key: the members that all changes have, and its own.
macro_rules! change_request {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident: $type:ty,)* } $intent:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
        pub struct $name {
            /// Unique for this key. Without it, a digest of the content takes its place.
            #[schema(min_length = 1)]
            pub idempotency_key: Option<String>,
            /// The name of the key's next epoch, which the key never had before. A decimal name must exceed its earlier decimal
            /// ones.
            #[schema(min_length = 1, max_length = 128)]
            pub target_epoch: String,
            /// The reason.
            #[schema(min_length = 1)]
            pub reason: String,
            /// The party that publishes.
            pub publication_mode: PublicationMode,
            /// The caller.
            pub client: ClientBinding,
            /// Additional texts, part of the approved intent.
            pub metadata: Option<BTreeMap<String, String>>,
            $($(#[$member_doc])* pub $member: $type,)*
        }

        impl $name {
            fn change(&self) -> Result<Lifecycle, Fault> {
                Ok(Lifecycle {
                    target_epoch: epoch(&self.target_epoch)?,
                    reason: not_empty("/reason", &self.reason)?,
                    publication_mode: self.publication_mode,
                    metadata: texts("/metadata", &self.metadata.clone().unwrap_or_default())?,
                    public_key_artifact_ref: None,
                })
            }
        }

        impl KeyRequest for $name {
            fn idempotency_key(&self) -> Option<&str> {
                self.idempotency_key.as_deref()
            }

            fn into_client(self) -> ClientBinding {
                self.client
            }
        }

        impl RequestShape for $name {
            type Checked = Intent;

            fn client(&self) -> Option<&ClientBinding> {
                Some(&self.client)
            }

            fn check(&self, options: &Options) -> Result<Intent, Fault> {
                self.idempotency_key.as_ref().map(|key| not_empty("/idempotency_key", key)).transpose()?;
                let intent: fn(&Self, &Options) -> Result<Intent, Fault> = $intent;
                intent(self, options)
            }
        }
    };
}

change_request! {
    /// Body of `POST /v1/custody/keys/{keyRef}/refresh`.
    CustodyKeyRefreshRequest {}
    |request, _| Ok(Intent::Refresh(Refresh { change: request.change()? }))
}

change_request! {
    /// Body of `POST /v1/custody/keys/{keyRef}/reshare`.
    CustodyKeyReshareRequest {
        /// The new share holders.
        #[schema(value_type = Roster)]
        new_participants: Vec<u16>,
        /// The number of these participants that must sign together.
        #[schema(minimum = 2, maximum = 64)]
        threshold: u16,
    }
    |request, _| {
        let new_participants = roster("/new_participants", &request.new_participants)?;
        let threshold = threshold(request.threshold, &new_participants, "/new_participants")?;
        Ok(Intent::Reshare(Reshare { change: request.change()?, new_participants, threshold }))
    }
}

change_request! {
    /// Body of `POST /v1/custody/keys/{keyRef}/rotate`.
    CustodyKeyRotateRequest {
        /// The new key's name; the rules for `key_ref` at creation apply.
        #[schema(min_length = 1)]
        new_key_ref: String,
        /// The share holders of the new key.
        #[schema(value_type = Roster)]
        participants: Vec<u16>,
        /// The number of these participants that must sign together.
        #[schema(minimum = 2, maximum = 64)]
        threshold: u16,
    }
    |request, _| {
        let participants = roster("/participants", &request.participants)?;
        let threshold = threshold(request.threshold, &participants, "/participants")?;
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
        /// The participant whose share is rebuilt.
        #[schema(maximum = 1023)]
        recovering_participant: u16,
        /// The helpers: at least the key's threshold, without the recovering participant.
        #[schema(value_type = Roster)]
        helper_participants: Vec<u16>,
        /// The content ids of the helpers' contributions, in the order of `helper_participants`, as
        /// `POST /v1/custody/keys/{keyRef}/recover/contributions` answers them: part of the approved intent, and compared by the
        /// nodes. Empty to compare none. In development also other texts, which are recorded with a warning.
        helper_share_cids: Vec<String>,
        /// The root over the contributions, as that answer has it; treated as the content ids are.
        expected_helper_admission_root: Option<String>,
    }
    |request, options| {
        let (recovering_participant, helper_participants) =
            parse_recovery(request.recovering_participant, &request.helper_participants)?;
        let root = request.expected_helper_admission_root.clone();
        if options.content_ids_only && root.as_ref().is_some_and(|root| root.parse::<Hex32>().is_err()) {
            return Err(Fault::at("/expected_helper_admission_root", "must be 64 lowercase hexadecimal characters"));
        }
        Ok(Intent::Recover(Recover {
            change: request.change()?,
            recovery_case_ref: not_empty("/recovery_case_ref", &request.recovery_case_ref)?,
            recovering_participant,
            helper_participants,
            helper_share_cids: content_ids(request, options)?,
            expected_helper_admission_root: root,
        }))
    }
}

fn parse_recovery(recovering: u16, helpers: &[u16]) -> Result<(ParticipantIndex, Roster), Fault> {
    let recovering = ParticipantIndex(recovering);
    let helpers = roster("/helper_participants", helpers)?;
    if helpers.as_set().contains(&recovering) {
        let message = format!("must not name participant `{recovering}`, whose share is recovered");
        return Err(Fault::at("/helper_participants", message).compared_with("/recovering_participant"));
    }
    Ok((recovering, helpers))
}

/// The content ids of the helpers' contributions, by helper ascending. Texts that are no content ids stay as they are.
fn content_ids(request: &CustodyKeyRecoverRequest, options: &Options) -> Result<Vec<String>, Fault> {
    let CustodyKeyRecoverRequest { helper_share_cids: cids, helper_participants: helpers, .. } = request;
    let made_up = cids.iter().position(|cid| cid.parse::<Hex32>().is_err());
    if let Some(index) = made_up {
        if options.content_ids_only {
            let pointer = format!("/helper_share_cids/{index}");
            let message = "must be a content id that the contributions of the recovery have: 64 lowercase hexadecimal characters";
            return Err(Fault::at(pointer, message));
        }
        return Ok(cids.clone());
    }
    if !cids.is_empty() && cids.len() != helpers.len() {
        let message = format!("must have `{}` content ids, one for each helper, or none", helpers.len());
        return Err(Fault::at("/helper_share_cids", message).compared_with("/helper_participants"));
    }
    let by_helper: BTreeMap<_, _> = helpers.iter().zip(cids).collect();
    Ok(by_helper.into_values().cloned().collect())
}

/// Body of `POST /v1/custody/keys/{keyRef}/recover/contributions`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RecoveryContributionsRequest {
    /// The case that authorises the recovery.
    #[schema(min_length = 1)]
    pub recovery_case_ref: String,
    /// The participant whose share would be rebuilt.
    #[schema(maximum = 1023)]
    pub recovering_participant: u16,
    /// The helpers: at least the key's threshold, without the recovering participant.
    #[schema(value_type = Roster)]
    pub helper_participants: Vec<u16>,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for RecoveryContributionsRequest {
    type Checked = RequestedRecovery;

    fn check(&self, _: &Options) -> Result<RequestedRecovery, Fault> {
        let recovery_case_ref = not_empty("/recovery_case_ref", &self.recovery_case_ref)?;
        let (recovering_participant, helper_participants) =
            parse_recovery(self.recovering_participant, &self.helper_participants)?;
        Ok(RequestedRecovery { recovery_case_ref, recovering_participant, helper_participants })
    }

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }
}

/// Body of `POST /v1/custody/operations/{operationId}/publish`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CustodyPublishRequest {
    /// `signature` for a signature; any text that is not empty for others.
    #[schema(min_length = 1, example = "signature")]
    pub scope: String,
    /// The caller's clock, epoch milliseconds; not verified.
    pub requested_at_ms: i64,
    /// The `result_ref` that the caller expects; not checked if absent.
    pub expected_result_ref: Option<String>,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for CustodyPublishRequest {
    type Checked = Publish;

    fn check(&self, _: &Options) -> Result<Publish, Fault> {
        Ok(Publish {
            scope: not_empty("/scope", &self.scope)?,
            expected_result_ref: self.expected_result_ref.clone(),
            requested_at_ms: self.requested_at_ms,
            requester: None,
        })
    }

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }
}

fn epoch(name: &str) -> Result<EpochName, Fault> {
    if name.is_empty() || name.chars().count() > EPOCH_CHARACTERS_MAX {
        let message = format!("must be 1 to {EPOCH_CHARACTERS_MAX} characters");
        return Err(Fault::at("/target_epoch", message));
    }
    Ok(EpochName(name.to_owned()))
}

/// Checks the length of the members' names. The strict reader has checked the values.
fn texts(pointer: &str, texts: &Texts) -> Result<Texts, Fault> {
    match texts.keys().find(|name| name.len() > TEXT_BYTES_MAX) {
        Some(_) => Err(Fault::at(pointer, format!("must have names of at most {TEXT_BYTES_MAX} bytes"))),
        None => Ok(texts.clone()),
    }
}

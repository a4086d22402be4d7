//! The work that an operation is requested to do. An [`Intent`] is of one of two families.

mod lifecycle;
mod signing;

#[cfg(feature = "openapi")]
pub use lifecycle::SignatureProfile;
pub use lifecycle::{
    EPOCH_CHARACTERS_MAX, FixedContributions, KeyCreate, Lifecycle, PublicationMode, Recover, Refresh,
    Reshare, Rotate, SIGNATURE_PROFILES,
};
pub use signing::{AssetAction, BIP32_INDEX_MAX, Bip32, InvalidBip32Path, Payment, SigningTerms, Taproot};

use crate::canonical::{self, CanonicalError};
use crate::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use serde::{Deserialize, Serialize};

/// The families of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = OperationFamily))]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Product signing under `/v1/operations`.
    Product,
    /// The key lifecycle under `/v1/custody`.
    Custody,
}

crate::wire_words! {
    /// The types of custody operations.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CustodyOperationType))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[expect(missing_docs, reason = "the variants are the contract's words")]
    pub enum OperationType {
        KeyCreate = "key_create",
        Sign = "sign",
        Refresh = "refresh",
        Reshare = "reshare",
        Rotate = "rotate",
        Recover = "recover",
    }
}

/// The request without `client` and idempotency key. Approvals and the admission decision are bound to its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Intent {
    /// A product payment to be signed.
    Payment(Payment),
    /// A custody signature over a digest.
    AssetAction(AssetAction),
    /// Distributed key generation.
    KeyCreate(KeyCreate),
    /// New shares; same roster, threshold and public key.
    Refresh(Refresh),
    /// New shares for a new roster and threshold; same public key.
    Reshare(Reshare),
    /// A new key that replaces this one.
    Rotate(Rotate),
    /// One participant's share, rebuilt with the helpers' shares.
    Recover(Recover),
}

impl Intent {
    /// The family whose paths serve this operation.
    #[must_use]
    pub const fn family(&self) -> Family {
        match self {
            Self::Payment(_) => Family::Product,
            Self::AssetAction(_)
            | Self::KeyCreate(_)
            | Self::Refresh(_)
            | Self::Reshare(_)
            | Self::Rotate(_)
            | Self::Recover(_) => Family::Custody,
        }
    }

    /// The key that the intent names. `None` for a custody operation, whose path names the key, and for a payment
    /// without one.
    #[must_use]
    pub const fn key_ref(&self) -> Option<&KeyRef> {
        match self {
            Self::Payment(payment) => payment.key_ref.as_ref(),
            Self::AssetAction(_)
            | Self::KeyCreate(_)
            | Self::Refresh(_)
            | Self::Reshare(_)
            | Self::Rotate(_)
            | Self::Recover(_) => None,
        }
    }

    /// The contract's `operation_type`.
    #[must_use]
    pub const fn operation_type(&self) -> OperationType {
        match self {
            Self::Payment(_) | Self::AssetAction(_) => OperationType::Sign,
            Self::KeyCreate(_) => OperationType::KeyCreate,
            Self::Refresh(_) => OperationType::Refresh,
            Self::Reshare(_) => OperationType::Reshare,
            Self::Rotate(_) => OperationType::Rotate,
            Self::Recover(_) => OperationType::Recover,
        }
    }

    /// The signing terms; `None` when the operation signs nothing.
    #[must_use]
    pub const fn signing_terms(&self) -> Option<&SigningTerms> {
        match self {
            Self::Payment(payment) => Some(&payment.terms),
            Self::AssetAction(action) => Some(&action.terms),
            Self::KeyCreate(_) | Self::Refresh(_) | Self::Reshare(_) | Self::Rotate(_) | Self::Recover(_) => {
                None
            }
        }
    }

    /// The public key of the existing key that the operation is on, as `<profile>:<public key hex>`, if the intent names it.
    #[must_use]
    pub const fn public_key_artifact_ref(&self) -> Option<&String> {
        match self {
            Self::Payment(Payment { terms, .. }) | Self::AssetAction(AssetAction { terms, .. }) => {
                terms.public_key_artifact_ref.as_ref()
            }
            Self::KeyCreate(_) => None,
            Self::Refresh(Refresh { change })
            | Self::Reshare(Reshare { change, .. })
            | Self::Rotate(Rotate { change, .. })
            | Self::Recover(Recover { change, .. }) => change.public_key_artifact_ref.as_ref(),
        }
    }

    /// The same intent, naming this public key of the key that it is on. A key creation names none.
    #[must_use]
    pub fn naming(mut self, public_key_artifact_ref: Option<String>) -> Self {
        match &mut self {
            Self::Payment(Payment { terms, .. }) | Self::AssetAction(AssetAction { terms, .. }) => {
                terms.public_key_artifact_ref = public_key_artifact_ref;
            }
            Self::KeyCreate(_) => {}
            Self::Refresh(Refresh { change })
            | Self::Reshare(Reshare { change, .. })
            | Self::Rotate(Rotate { change, .. })
            | Self::Recover(Recover { change, .. }) => {
                change.public_key_artifact_ref = public_key_artifact_ref;
            }
        }
        self
    }

    /// Who starts the publication; key creation is always automatic.
    #[must_use]
    pub const fn publication_mode(&self) -> PublicationMode {
        match self {
            Self::Payment(payment) => payment.terms.publication_mode,
            Self::AssetAction(action) => action.terms.publication_mode,
            Self::KeyCreate(_) => PublicationMode::Automatic,
            Self::Refresh(refresh) => refresh.change.publication_mode,
            Self::Reshare(reshare) => reshare.change.publication_mode,
            Self::Rotate(rotate) => rotate.change.publication_mode,
            Self::Recover(recover) => recover.change.publication_mode,
        }
    }

    /// `SHA-256("svc/intent/v1" || canonical intent)`.
    pub fn hash(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/intent/v1", self)
    }

    /// The 32 bytes that are signed. For an asset action, the caller's digest. Otherwise
    /// `SHA-256("svc/signing-request/v2" || {intent, key_id, operation_id})`, which is different for each operation.
    pub fn request_digest(&self, operation_id: OperationId, key_id: KeyId) -> Result<Hex32, CanonicalError> {
        #[derive(Serialize)]
        struct SigningRequest<'a> {
            intent: &'a Intent,
            key_id: KeyId,
            operation_id: OperationId,
        }
        match self {
            Self::AssetAction(action) => Ok(action.request_digest),
            Self::Payment(_)
            | Self::KeyCreate(_)
            | Self::Refresh(_)
            | Self::Reshare(_)
            | Self::Rotate(_)
            | Self::Recover(_) => {
                let request = SigningRequest { intent: self, key_id, operation_id };
                canonical::digest("svc/signing-request/v2", &request)
            }
        }
    }
}

/// The operation's id, the same for every retry of one request (`host/docs/interface.md`, section *Identity and
/// idempotency*). `key_ref` is used for the custody family only.
pub fn operation_id(
    tenant: &Tenant,
    family: Family,
    key_ref: Option<&KeyRef>,
    idempotency_key: &str,
) -> Result<OperationId, CanonicalError> {
    #[derive(Serialize)]
    struct Named<'a> {
        tenant: &'a Tenant,
        family: Family,
        #[serde(skip_serializing_if = "Option::is_none")]
        key_ref: Option<&'a KeyRef>,
        idempotency_key: &'a str,
    }
    let key_ref = match family {
        Family::Product => None,
        Family::Custody => key_ref,
    };
    canonical::digest("svc/operation-id/v1", &Named { tenant, family, key_ref, idempotency_key })
        .map(OperationId)
}

/// The key's id, `SHA-256("svc/key-id/v1" || {tenant_id, key_ref})`.
pub fn key_id(tenant: &Tenant, key_ref: &KeyRef) -> Result<KeyId, CanonicalError> {
    #[derive(Serialize)]
    struct Named<'a> {
        tenant_id: &'a Tenant,
        key_ref: &'a KeyRef,
    }
    canonical::digest("svc/key-id/v1", &Named { tenant_id: tenant, key_ref }).map(KeyId)
}

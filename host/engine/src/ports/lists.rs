//! Lists of operations and keys, newest first.

use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, KeyRef, Tenant};
use gateway_domain::intent::{Family, OperationType};
use gateway_domain::key::KeyState;
use gateway_domain::operation::State;
use gateway_domain::time::EpochMs;

/// The operations and keys that a caller can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Those of all tenants: in development without authentication.
    Everything,
    /// Those of one tenant.
    Tenant(Tenant),
}

impl Visibility {
    /// Whether the caller can see this tenant's operations and keys.
    #[must_use]
    pub fn includes(&self, tenant: &Tenant) -> bool {
        match self {
            Self::Everything => true,
            Self::Tenant(visible) => visible == tenant,
        }
    }
}

/// The operations that a list has: those to which everything that is given applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationFilter {
    /// The family.
    pub family: Family,
    /// The state.
    pub state: Option<State>,
    /// The type.
    pub operation_type: Option<OperationType>,
    /// The name of the key in the request.
    pub key_ref: Option<KeyRef>,
    /// The idempotency key. One of the custody family is found only with its `key_ref`.
    pub idempotency_key: Option<String>,
    /// Only operations that wait for approvals.
    pub awaits_approvals: bool,
    /// The times of submission.
    pub created: Created,
}

/// The keys that a list has: those to which everything that is given applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFilter {
    /// The state.
    pub state: Option<KeyState>,
    /// The name.
    pub key_ref: Option<KeyRef>,
    /// The times of the requests that created them.
    pub created: Created,
}

/// Times of creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Created {
    /// Only later ones.
    pub after: Option<EpochMs>,
    /// Only earlier ones.
    pub before: Option<EpochMs>,
}

/// A place in a list, which goes from later places to earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The time of creation.
    pub created_at: EpochMs,
    /// The id of the operation or key.
    pub id: Hex32,
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// In order. There may be fewer than asked for, although more follow: a search reads a limited number of rows.
    pub places: Vec<Place>,
    /// The place after which the list goes on; `None` at its end.
    pub next: Option<Place>,
}

/// Finds operations and keys. What it finds is not checked against events.
#[async_trait]
pub trait ListRecords: Send + Sync {
    /// At most `n_max` operations that the caller can see, newest first; with `after`, only those that follow this place.
    async fn operations_listed(
        &self,
        visibility: &Visibility,
        filter: &OperationFilter,
        after: Option<Place>,
        n_max: u32,
    ) -> Result<Listed, Unavailable>;

    /// As [`Self::operations_listed`], for keys.
    async fn keys_listed(
        &self,
        visibility: &Visibility,
        filter: &KeyFilter,
        after: Option<Place>,
        n_max: u32,
    ) -> Result<Listed, Unavailable>;
}

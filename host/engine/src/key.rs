//! Reads of keys, for a caller.

use crate::engine::{Engine, Inner, Visibility};
use crate::error::EngineError;
use crate::ports::{ReadError, Record};
use gateway_domain::binding::TENANT_DEFAULT;
use gateway_domain::ids::{KeyRef, OperationId, Tenant};
use gateway_domain::intent;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::Operation;

/// A key as a caller names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTarget {
    /// What the caller can see.
    pub visibility: Visibility,
    /// The name.
    pub key_ref: KeyRef,
}

/// Some of a key's operations.
#[derive(Clone, Debug)]
pub struct KeyOperations {
    /// The key.
    pub key: CustodyKey,
    /// Newest first.
    pub records: Vec<Record>,
    /// Where the next page begins, when there is one.
    pub next: Option<u64>,
}

impl Engine {
    /// The key, and the latest of its operations.
    ///
    /// # Errors
    /// [`EngineError`]: `KeyNotFound`, `KeyAmbiguous`, `Unavailable`.
    pub async fn key(&self, target: &KeyTarget) -> Result<(CustodyKey, OperationId), EngineError> {
        let key = self.0.find_key(target).await?;
        let latest = self.0.ports.reads.key_operations(key.key_id, None, 1).await?;
        let latest = latest.first().map_or(key.created_by, |(_, id)| *id);
        Ok((key, latest))
    }

    /// The key's custody operations, newest first, at most `n_max`, from where `before` says.
    ///
    /// # Errors
    /// [`EngineError`]: `KeyNotFound`, `KeyAmbiguous`, `Unavailable`.
    pub async fn key_operations(
        &self,
        target: &KeyTarget,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<KeyOperations, EngineError> {
        let key = self.0.find_key(target).await?;
        let mut places =
            self.0.ports.reads.key_operations(key.key_id, before, n_max.saturating_add(1)).await?;
        let n_max = usize::try_from(n_max).unwrap_or(usize::MAX);
        let has_more = places.len() > n_max;
        places.truncate(n_max);
        let next = places.last().filter(|_| has_more).map(|(place, _)| *place);
        let mut records = Vec::with_capacity(places.len());
        for (_, id) in places {
            match self.0.ports.reads.operation_find(id, &target.visibility).await {
                Ok(record) => records.extend(record),
                // Asked for by its id it answers with an error, and readiness names it; the others are sound.
                Err(ReadError::Damaged(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(KeyOperations { key, records, next })
    }

    /// Whose key it is: the tenant of what is submitted on it.
    ///
    /// # Errors
    /// [`EngineError`]: `KeyNotFound`, `KeyAmbiguous`, `Unavailable`.
    pub async fn key_owner(&self, target: &KeyTarget) -> Result<Tenant, EngineError> {
        self.0.find_key(target).await.map(|key| key.tenant)
    }

    /// The key an operation is about.
    ///
    /// # Errors
    /// [`EngineError`]: `Unavailable`.
    pub async fn key_of(&self, operation: &Operation) -> Result<Option<CustodyKey>, EngineError> {
        Ok(self.0.ports.reads.key_load(operation.key.key_id).await?)
    }
}

impl Inner {
    /// The key, unless it is unknown or not this caller's: one answer for both. A caller that sees every tenant means
    /// the default one's, else the only one of this name.
    async fn find_key(&self, target: &KeyTarget) -> Result<CustodyKey, EngineError> {
        let KeyTarget { visibility, key_ref } = target;
        let unknown = || EngineError::KeyNotFound(key_ref.0.clone());
        let default = Tenant(TENANT_DEFAULT.to_owned());
        let tenant = match visibility {
            Visibility::Tenant(tenant) => tenant,
            Visibility::Everything => &default,
        };
        let own = self.ports.reads.key_load(intent::key_id(tenant, key_ref)?).await?;
        match (own, visibility) {
            (Some(key), _) => Ok(key),
            (None, Visibility::Tenant(_)) => Err(unknown()),
            (None, Visibility::Everything) => match *self.ports.reads.keys_named(key_ref, 2).await? {
                [] => Err(unknown()),
                [only] => self.ports.reads.key_load(only).await?.ok_or_else(unknown),
                [..] => Err(EngineError::KeyAmbiguous(key_ref.0.clone())),
            },
        }
    }
}

//! A store whose next read of a key can be paused, so that a test can change the key before the reader goes on.

use async_trait::async_trait;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::Payment;
use gateway_domain::key::CustodyKey;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Damage, Due, KeyQuorum, ReadError, ReadOperations, Record};
use gateway_engine::{Unavailable, Visibility};
use gateway_store::Store;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// A pause after the next read of a key: the reader signals `has_read`, then waits for `goes_on`.
pub(crate) struct Pause {
    pub(crate) has_read: oneshot::Sender<()>,
    pub(crate) goes_on: oneshot::Receiver<()>,
}

pub(crate) struct PausingStore {
    pub(crate) store: Arc<Store>,
    pub(crate) next: Arc<Mutex<Option<Pause>>>,
}

#[async_trait]
impl ReadOperations for PausingStore {
    async fn key_load(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError> {
        let key = self.store.key_load(id).await;
        let pause = self.next.lock().unwrap().take();
        if let Some(Pause { has_read, goes_on }) = pause {
            has_read.send(()).unwrap();
            goes_on.await.unwrap();
        }
        key
    }

    async fn keys_after(&self, after: Option<KeyId>, n_max: u32) -> Result<Vec<CustodyKey>, Unavailable> {
        self.store.keys_after(after, n_max).await
    }

    async fn operation_find(
        &self,
        id: OperationId,
        visibility: &Visibility,
    ) -> Result<Option<Record>, ReadError> {
        self.store.operation_find(id, visibility).await
    }

    async fn operation_load(&self, id: OperationId) -> Result<Option<Record>, ReadError> {
        self.store.operation_load(id).await
    }

    async fn operation_events(&self, id: OperationId) -> Result<Vec<ChainedEvent>, ReadError> {
        self.store.operation_events(id).await
    }

    async fn operations_owing(
        &self,
        now: EpochMs,
        n_of_tenant_max: u32,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        self.store.operations_owing(now, n_of_tenant_max, n_max).await
    }

    async fn operations_overdue(
        &self,
        submitted_before: EpochMs,
        admitted_before: EpochMs,
        now: EpochMs,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        self.store.operations_overdue(submitted_before, admitted_before, now, n_max).await
    }

    async fn key_operations(
        &self,
        id: KeyId,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<Vec<(u64, OperationId)>, Unavailable> {
        self.store.key_operations(id, before, n_max).await
    }

    async fn keys_named(&self, key_ref: &KeyRef, n_max: u32) -> Result<Vec<KeyId>, Unavailable> {
        self.store.keys_named(key_ref, n_max).await
    }

    async fn key_quorums(&self, n_max: u32) -> Result<Vec<KeyQuorum>, Unavailable> {
        self.store.key_quorums(n_max).await
    }

    async fn spending_totals(
        &self,
        tenant: &Tenant,
        payment: &Payment,
        now: EpochMs,
    ) -> Result<SpendingTotals, Unavailable> {
        self.store.spending_totals(tenant, payment, now).await
    }

    fn damage(&self) -> Vec<Damage> {
        self.store.damage()
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        self.store.ping().await
    }
}

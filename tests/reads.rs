//! A store whose reads pass through a hook. Part of both test programs: one pauses reads, the other puts them on a simulated
//! network.

use async_trait::async_trait;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::key::CustodyKey;
use gateway_domain::policy::spending::Parties;
use gateway_domain::policy::{PaidProof, SpendingTotals};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Damage, Due, KeyQuorum, ReadError, ReadOperations, Record};
use gateway_engine::{Unavailable, Visibility};
use gateway_store::Store;
use std::sync::Arc;

/// What happens around each read of a store.
pub(crate) trait AroundReads: Send + Sync {
    fn store(&self) -> &Arc<Store>;

    /// Makes a read, which is of this operation if it is of one.
    fn around<T, E, F>(
        &self,
        name: &'static str,
        operation: Option<OperationId>,
        read: impl FnOnce(Arc<Store>) -> F + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static;
}

/// The reads of a store through this hook.
pub(crate) struct Reads<H>(pub(crate) H);

#[async_trait]
impl<H: AroundReads> ReadOperations for Reads<H> {
    async fn operation_find(
        &self,
        id: OperationId,
        visibility: &Visibility,
    ) -> Result<Option<Record>, ReadError> {
        let visibility = visibility.clone();
        let read = move |store: Arc<Store>| async move { store.operation_find(id, &visibility).await };
        self.0.around("operation_find", Some(id), read).await
    }

    async fn operation_load(&self, id: OperationId) -> Result<Option<Record>, ReadError> {
        let read = move |store: Arc<Store>| async move { store.operation_load(id).await };
        self.0.around("operation_load", Some(id), read).await
    }

    async fn operation_events(&self, id: OperationId) -> Result<Vec<ChainedEvent>, ReadError> {
        let read = move |store: Arc<Store>| async move { store.operation_events(id).await };
        self.0.around("operation_events", Some(id), read).await
    }

    async fn operations_owing(
        &self,
        now: EpochMs,
        n_of_tenant_max: u32,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        let read =
            move |store: Arc<Store>| async move { store.operations_owing(now, n_of_tenant_max, n_max).await };
        self.0.around("operations_owing", None, read).await
    }

    async fn operations_overdue(
        &self,
        submitted_before: EpochMs,
        admitted_before: EpochMs,
        now: EpochMs,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        let read = move |store: Arc<Store>| async move {
            store.operations_overdue(submitted_before, admitted_before, now, n_max).await
        };
        self.0.around("operations_overdue", None, read).await
    }

    async fn key_operations(
        &self,
        id: KeyId,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<Vec<(u64, OperationId)>, Unavailable> {
        let read = move |store: Arc<Store>| async move { store.key_operations(id, before, n_max).await };
        self.0.around("key_operations", None, read).await
    }

    async fn keys_named(&self, key_ref: &KeyRef, n_max: u32) -> Result<Vec<KeyId>, Unavailable> {
        let key_ref = key_ref.clone();
        let read = move |store: Arc<Store>| async move { store.keys_named(&key_ref, n_max).await };
        self.0.around("keys_named", None, read).await
    }

    async fn key_load(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError> {
        let read = move |store: Arc<Store>| async move { store.key_load(id).await };
        self.0.around("key_load", None, read).await
    }

    async fn keys_after(&self, after: Option<KeyId>, n_max: u32) -> Result<Vec<CustodyKey>, Unavailable> {
        let read = move |store: Arc<Store>| async move { store.keys_after(after, n_max).await };
        self.0.around("keys_after", None, read).await
    }

    async fn key_quorums(&self, n_max: u32) -> Result<Vec<KeyQuorum>, Unavailable> {
        let read = move |store: Arc<Store>| async move { store.key_quorums(n_max).await };
        self.0.around("key_quorums", None, read).await
    }

    async fn spending_totals(&self, parties: &Parties, now: EpochMs) -> Result<SpendingTotals, Unavailable> {
        let parties = parties.clone();
        let read = move |store: Arc<Store>| async move { store.spending_totals(&parties, now).await };
        self.0.around("spending_totals", None, read).await
    }

    async fn payments_to(
        &self,
        key_id: KeyId,
        recipient: &str,
        n_max: usize,
    ) -> Result<Vec<PaidProof>, ReadError> {
        let recipient = recipient.to_owned();
        let read = move |store: Arc<Store>| async move { store.payments_to(key_id, &recipient, n_max).await };
        self.0.around("payments_to", None, read).await
    }

    async fn n_pending(&self, tenant: &Tenant, person: &str) -> Result<u64, Unavailable> {
        let (tenant, person) = (tenant.clone(), person.to_owned());
        let read = move |store: Arc<Store>| async move { store.n_pending(&tenant, &person).await };
        self.0.around("n_pending", None, read).await
    }

    fn damage(&self) -> Vec<Damage> {
        self.0.store().damage()
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        self.0.around("ping", None, |store: Arc<Store>| async move { store.ping().await }).await
    }
}

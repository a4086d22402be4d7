//! The engine's ports for the store and the authority. Each call is a message, whose delivery the schedule chooses.

use crate::network::{Body, Claim, Handled, Message, Network, Origin, Peer, Slot};
use crate::parts::AuthorityProcess;
use async_trait::async_trait;
use gateway_domain::admission::{Admission, AdmissionDecision, Authorities, verify_signed};
use gateway_domain::dsse::Envelope;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::Payment;
use gateway_domain::key::CustodyKey;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    AdmissionRequest, Commit, CommitOperations, Committed, Damage, DecisionRecord, Deferral, Due, KeyQuorum,
    PreviewRecord, RateLimited, ReadError, ReadOperations, Record, SignAdmission, SignError,
};
use gateway_engine::{Dependency, Token, Unavailable, Visibility};
use gateway_store::Store;
use policy_authority::DecisionRequest;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One replica's way to the store and the authority.
#[derive(Clone)]
pub(crate) struct Ways {
    pub(crate) network: Network,
    pub(crate) origin: Origin,
    pub(crate) store: Arc<Store>,
}

pub(crate) fn no_store() -> Unavailable {
    Unavailable::new(Dependency::Store, "the simulated disk failed")
}

/// The word of a result in the trace.
fn word<T, E>(result: &Result<T, E>) -> String {
    if result.is_ok() { "ok" } else { "unavailable" }.to_owned()
}

impl Ways {
    async fn ask<T, E, F>(
        &self,
        point: &'static str,
        operation: Option<OperationId>,
        claim: Claim,
        name: fn(&Result<T, E>) -> String,
        call: F,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        F: FnOnce(Arc<Store>) -> Answer<Result<T, E>> + Send + 'static,
    {
        let slot = Slot::default();
        let (answered, failed) = (slot.clone(), slot.clone());
        let work = move |store: Arc<Store>| -> Answer<Handled> {
            Box::pin(async move {
                let answer = call(store).await;
                Handled { outcome: name(&answer), hand_over: Box::new(move || answered.put(answer)) }
            })
        };
        self.network.send(Message {
            due: 0,
            origin: self.origin,
            peer: Peer::Store,
            point,
            operation,
            claim,
            size_shown: 0,
            body: Body::Store(Box::new(work)),
            fail: Arc::new(move || failed.put(Err(no_store().into()))),
            is_late: false,
        });
        slot.await
    }

    async fn read<T, E, F>(&self, operation: Option<OperationId>, call: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        F: FnOnce(Arc<Store>) -> Answer<Result<T, E>> + Send + 'static,
    {
        self.ask("read", operation, Claim::Nothing, word, call).await
    }
}

#[async_trait]
impl CommitOperations for Ways {
    async fn commit(&self, commit: Commit) -> Result<Committed, Unavailable> {
        let (id, claim) = (commit.operation.id, Claim::Commit(Box::new(commit.clone())));
        let call = |store: Arc<Store>| -> Answer<_> { Box::pin(async move { store.commit(commit).await }) };
        let name = |answer: &Result<Committed, Unavailable>| match answer {
            Ok(Committed::Conflict) => "conflict".to_owned(),
            Ok(Committed::Written(_)) | Err(_) => word(answer),
        };
        self.ask("commit", Some(id), claim, name, call).await
    }

    async fn decision_record(&self, record: DecisionRecord) -> Result<(), Unavailable> {
        let call =
            |store: Arc<Store>| -> Answer<_> { Box::pin(async move { store.decision_record(record).await }) };
        self.ask("decision_record", None, Claim::Nothing, word, call).await
    }

    async fn commit_with_token(
        &self,
        commit: Commit,
        token: Token,
    ) -> Result<RateLimited<Box<Record>>, Unavailable> {
        let call = |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.commit_with_token(commit, token).await })
        };
        self.ask("commit", None, Claim::Nothing, word, call).await
    }

    async fn decision_record_with_token(
        &self,
        record: DecisionRecord,
        token: Token,
    ) -> Result<RateLimited<()>, Unavailable> {
        let call = |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.decision_record_with_token(record, token).await })
        };
        self.ask("decision_record", None, Claim::Nothing, word, call).await
    }

    async fn preview_record(&self, record: PreviewRecord, n_kept: u32) -> Result<(), Unavailable> {
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.preview_record(record, n_kept).await })
        };
        self.ask("preview", None, Claim::Nothing, word, call).await
    }

    async fn defer(&self, deferrals: &[Deferral], now: EpochMs) -> Result<(), Unavailable> {
        let deferrals = deferrals.to_vec();
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.defer(&deferrals, now).await })
        };
        self.ask("defer", None, Claim::Nothing, word, call).await
    }

    async fn probe_write(&self, at: EpochMs) -> Result<(), Unavailable> {
        let call =
            move |store: Arc<Store>| -> Answer<_> { Box::pin(async move { store.probe_write(at).await }) };
        self.ask("probe", None, Claim::Nothing, word, call).await
    }
}

#[async_trait]
impl ReadOperations for Ways {
    async fn operation_find(
        &self,
        id: OperationId,
        visibility: &Visibility,
    ) -> Result<Option<Record>, ReadError> {
        let visibility = visibility.clone();
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.operation_find(id, &visibility).await })
        };
        self.read(Some(id), call).await
    }

    async fn operation_load(&self, id: OperationId) -> Result<Option<Record>, ReadError> {
        let call =
            move |store: Arc<Store>| -> Answer<_> { Box::pin(async move { store.operation_load(id).await }) };
        self.read(Some(id), call).await
    }

    async fn operation_events(&self, id: OperationId) -> Result<Vec<ChainedEvent>, ReadError> {
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.operation_events(id).await })
        };
        self.read(Some(id), call).await
    }

    async fn operations_owing(
        &self,
        now: EpochMs,
        n_of_tenant_max: u32,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.operations_owing(now, n_of_tenant_max, n_max).await })
        };
        self.read(None, call).await
    }

    async fn operations_overdue(
        &self,
        submitted_before: EpochMs,
        admitted_before: EpochMs,
        now: EpochMs,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(
                async move { store.operations_overdue(submitted_before, admitted_before, now, n_max).await },
            )
        };
        self.read(None, call).await
    }

    async fn key_operations(
        &self,
        id: KeyId,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<Vec<(u64, OperationId)>, Unavailable> {
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.key_operations(id, before, n_max).await })
        };
        self.read(None, call).await
    }

    async fn keys_named(&self, key_ref: &KeyRef, n_max: u32) -> Result<Vec<KeyId>, Unavailable> {
        let key_ref = key_ref.clone();
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.keys_named(&key_ref, n_max).await })
        };
        self.read(None, call).await
    }

    async fn key_load(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError> {
        let call =
            move |store: Arc<Store>| -> Answer<_> { Box::pin(async move { store.key_load(id).await }) };
        self.read(None, call).await
    }

    async fn keys_after(&self, after: Option<KeyId>, n_max: u32) -> Result<Vec<CustodyKey>, Unavailable> {
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.keys_after(after, n_max).await })
        };
        self.read(None, call).await
    }

    async fn key_quorums(&self, n_max: u32) -> Result<Vec<KeyQuorum>, Unavailable> {
        let call =
            move |store: Arc<Store>| -> Answer<_> { Box::pin(async move { store.key_quorums(n_max).await }) };
        self.read(None, call).await
    }

    async fn spending_totals(
        &self,
        tenant: &Tenant,
        payment: &Payment,
        now: EpochMs,
    ) -> Result<SpendingTotals, Unavailable> {
        let (tenant, payment) = (tenant.clone(), payment.clone());
        let call = move |store: Arc<Store>| -> Answer<_> {
            Box::pin(async move { store.spending_totals(&tenant, &payment, now).await })
        };
        self.read(None, call).await
    }

    fn damage(&self) -> Vec<Damage> {
        self.store.damage()
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        let call = |store: Arc<Store>| -> Answer<_> { Box::pin(async move { store.ping().await }) };
        self.read(None, call).await
    }
}

#[async_trait]
impl SignAdmission for Ways {
    /// As the gateway asks an authority in a process of its own: with the operation's events.
    async fn sign(&self, request: AdmissionRequest<'_>) -> Result<Admission, SignError> {
        let id = request.operation.id;
        let events = self.operation_events(id).await.map_err(ReadError::into_unavailable)?;
        let sent = DecisionRequest {
            events: events.into_iter().map(Into::into).collect(),
            bundle_hash: request.policy.bundle_hash,
            policy: request.policy.into(),
            key: request.key.cloned(),
            derivation: request.derivation.cloned(),
            not_before_ms: request.not_before_ms,
            not_after_ms: request.not_after_ms,
        };
        let slot = Slot::default();
        let (answered, failed) = (slot.clone(), slot.clone());
        let work = move |authority: Arc<crate::parts::AuthorityProcess>| -> Answer<Handled> {
            Box::pin(async move {
                let answer = authority.decide(&sent).await;
                let answer = answer.map_err(|why| Unavailable::new(Dependency::Authority, why.to_string()));
                let outcome = word(&answer);
                Handled { outcome, hand_over: Box::new(move || answered.put(answer)) }
            })
        };
        self.network.send(Message {
            due: 0,
            origin: self.origin,
            peer: Peer::Authority,
            point: "decision",
            operation: Some(id),
            claim: Claim::Nothing,
            size_shown: 0,
            body: Body::Authority(Box::new(work)),
            fail: Arc::new(move || {
                failed.put(Err(Unavailable::new(Dependency::Authority, "no answer in time")));
            }),
            is_late: false,
        });
        Ok(slot.await?)
    }

    fn verify(&self, envelope: &Envelope) -> Option<AdmissionDecision> {
        let pinned = Authorities::new([AuthorityProcess::key().public_key()], 1).ok()?;
        verify_signed(envelope, &pinned).ok().map(|admission| admission.decision)
    }

    async fn check(&self) -> Result<(), Unavailable> {
        Ok(())
    }
}

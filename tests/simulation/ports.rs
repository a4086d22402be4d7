//! The engine's ports for the store and the authority. Each call is a message, whose delivery the schedule chooses.

use crate::network::{Body, Claim, Handled, Handling, Message, Network, Origin, Peer, Slot};
use crate::parts::AuthorityProcess;
use crate::reads::{AroundReads, Reads};
use async_trait::async_trait;
use gateway_domain::admission::{Admission, AdmissionDecision, Authorities, verify_signed};
use gateway_domain::dsse::Envelope;
use gateway_domain::evidence::{ChainedEvent, continued};
use gateway_domain::ids::OperationId;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    AdmissionRequest, Commit, CommitOperations, Committed, DecisionRecord, Deferral, PreviewRecord,
    RateLimited, ReadError, ReadOperations as _, Record, SignAdmission, SignError,
};
use gateway_engine::{Dependency, Token, Unavailable};
use gateway_store::Store;
use policy_authority::DecisionRequest;
use std::sync::Arc;

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
        call: impl FnOnce(Arc<Store>) -> F + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let (slot, answer) = Slot::new();
        let failed = Arc::clone(&slot);
        let work = move |store: Arc<Store>| -> Handling {
            Box::pin(async move {
                let answer = call(store).await;
                Handled { outcome: name(&answer), hand_over: Box::new(move || slot.put(answer)) }
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
        answer.await
    }

    /// A write of which the judge need know nothing.
    async fn write<T, F>(
        &self,
        point: &'static str,
        call: impl FnOnce(Arc<Store>) -> F + Send + 'static,
    ) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Unavailable>> + Send + 'static,
    {
        self.ask(point, None, Claim::Nothing, word, call).await
    }
}

#[async_trait]
impl CommitOperations for Ways {
    async fn commit(&self, commit: Commit) -> Result<Committed, Unavailable> {
        let (id, claim) = (commit.operation.id, Claim::Commit(Box::new(commit.clone())));
        let call = |store: Arc<Store>| async move { store.commit(commit).await };
        let name = |answer: &Result<Committed, Unavailable>| match answer {
            Ok(Committed::Conflict) => "conflict".to_owned(),
            Ok(Committed::Written(_)) | Err(_) => word(answer),
        };
        self.ask("commit", Some(id), claim, name, call).await
    }

    async fn decision_record(&self, record: DecisionRecord) -> Result<Option<u64>, Unavailable> {
        let call = |store: Arc<Store>| async move { store.decision_record(record).await };
        self.write("decision_record", call).await
    }

    async fn commit_with_token(
        &self,
        commit: Commit,
        token: Token,
    ) -> Result<RateLimited<Box<Record>>, Unavailable> {
        let call = |store: Arc<Store>| async move { store.commit_with_token(commit, token).await };
        self.write("commit", call).await
    }

    async fn decision_record_with_token(
        &self,
        record: DecisionRecord,
        token: Token,
    ) -> Result<RateLimited<Option<u64>>, Unavailable> {
        let call = |store: Arc<Store>| async move { store.decision_record_with_token(record, token).await };
        self.write("decision_record", call).await
    }

    async fn preview_record(&self, record: PreviewRecord, n_kept: u32) -> Result<(), Unavailable> {
        let call = move |store: Arc<Store>| async move { store.preview_record(record, n_kept).await };
        self.write("preview", call).await
    }

    async fn defer(&self, deferrals: &[Deferral], now: EpochMs) -> Result<(), Unavailable> {
        let deferrals = deferrals.to_vec();
        let call = move |store: Arc<Store>| async move { store.defer(&deferrals, now).await };
        self.write("defer", call).await
    }

    async fn probe_write(&self, at: EpochMs) -> Result<(), Unavailable> {
        self.write("probe", move |store: Arc<Store>| async move { store.probe_write(at).await }).await
    }
}

impl AroundReads for Ways {
    fn store(&self) -> &Arc<Store> {
        &self.store
    }

    async fn around<T, E, F>(
        &self,
        _: &'static str,
        operation: Option<OperationId>,
        read: impl FnOnce(Arc<Store>) -> F + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.ask("read", operation, Claim::Nothing, word, read).await
    }
}

#[async_trait]
impl SignAdmission for Ways {
    /// As the gateway asks an authority in a process of its own: with the operation's events.
    async fn sign(
        &self,
        request: AdmissionRequest<'_>,
        unrecorded: &[ChainedEvent],
    ) -> Result<Admission, SignError> {
        let id = request.operation.id;
        let events = Reads(self.clone()).operation_events(id).await;
        let events = events.map_err(ReadError::into_unavailable)?;
        let events = continued(events, unrecorded).ok_or(SignError::Outdated)?;
        let sent = DecisionRequest {
            events: events.into_iter().map(Into::into).collect(),
            bundle_hash: request.policy.bundle_hash,
            policy: request.policy.into(),
            key: request.key.cloned(),
            derivation: request.derivation.cloned(),
            not_before_ms: request.not_before_ms,
            not_after_ms: request.not_after_ms,
        };
        let (slot, answer) = Slot::new();
        let failed = Arc::clone(&slot);
        let work = move |authority: Arc<AuthorityProcess>| -> Handling {
            Box::pin(async move {
                let answer = authority.decide(&sent).await;
                let answer = answer.map_err(|why| Unavailable::new(Dependency::Authority, why.to_string()));
                Handled { outcome: word(&answer), hand_over: Box::new(move || slot.put(answer)) }
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
        Ok(answer.await?)
    }

    fn verify(&self, envelope: &Envelope) -> Option<AdmissionDecision> {
        let pinned = Authorities::new([AuthorityProcess::key().public_key()], 1).ok()?;
        verify_signed(envelope, &pinned).ok().map(|admission| admission.decision)
    }

    async fn check(&self) -> Result<(), Unavailable> {
        Ok(())
    }
}

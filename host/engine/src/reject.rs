//! Ends by people: load → policy → decide → commit. An approver rejects an operation before its admission or aborts a change of a key after
//! it, or the submitter cancels it.

use crate::approve::Sender;
use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::ports::Record;
use crate::session::{Target, Targeted, UseCase};
use gateway_domain::approval::{ApprovalSignature, Rejection};
use gateway_domain::names::is_same_person;
use gateway_domain::operation::{Action, Operation, Refusal, Requester};
use gateway_domain::roster::ParticipantIndex;
use std::collections::BTreeSet;

/// A parsed request to reject an operation, or to abort a change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The approver.
    pub subject_id: String,
    /// The roles in which they reject.
    pub roles: Vec<String>,
    /// The reason, for people.
    pub reason: String,
    /// For an abort, the receivers of new shares that are lost.
    pub lost: Option<BTreeSet<ParticipantIndex>>,
    /// The time by the approver's clock, epoch milliseconds, unverified.
    pub claimed_at_ms: i64,
    /// The approver's own signature over the statement of the rejection or the abort; `None` if it did not sign.
    pub signature: Option<Box<ApprovalSignature>>,
    /// The client that sent the request.
    pub requester: Option<Requester>,
    /// The request's id.
    pub request_id: Option<String>,
}

/// A parsed request to cancel an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The reason, for people.
    pub reason: String,
    /// The client that sent the request.
    pub requester: Option<Requester>,
}

impl Engine {
    /// Records a rejection; the last one needed ends the operation.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `RateLimited`, `Unavailable`.
    pub async fn reject(&self, target: Target, reject: Reject) -> Result<Record, EngineError> {
        self.run(Targeted(target, reject)).await
    }

    /// Records an abort; the last one needed ends a change of a key before its result is certain, or has it do without lost nodes after
    /// that. Waits for the nodes that answer as [`Self::execute`] does; those that do not are asked again later.
    pub async fn abort(&self, target: Target, abort: Reject) -> Result<Record, EngineError> {
        let (subject_id, lost) = (abort.subject_id.clone(), abort.lost.clone());
        let is_recorded = move |operation: &Operation| {
            let is_own = |one: &Rejection| is_same_person(&one.subject_id, &subject_id) && one.lost == lost;
            operation.rejections.iter().any(is_own)
        };
        let work = self.run(Targeted(target.clone(), abort));
        self.answer_in_time(target, work, is_recorded).await
    }

    /// Cancels an operation for its submitter.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn cancel(&self, target: Target, cancel: Cancel) -> Result<Record, EngineError> {
        self.run(Targeted(target, cancel)).await
    }
}

impl UseCase for Targeted<Reject> {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let Targeted(target, reject) = self;
        let mut session = engine.session(target).await?;
        let rejection = Rejection {
            subject_id: reject.subject_id.clone(),
            roles: reject.roles.clone(),
            registered: engine.registered(&session.operation.tenant, &reject.subject_id)?,
            reason: reject.reason.clone(),
            lost: reject.lost.clone(),
            claimed_at_ms: reject.claimed_at_ms,
            rejected_at_ms: engine.ports.clock.now(),
            signature: reject.signature.clone(),
        };
        let statement = session.operation.approval_subject().rejection(&rejection);
        let signature = rejection.signature.as_deref();
        engine.check_signature(&session.operation, &statement, signature, rejection.rejected_at_ms)?;
        if session.expire()? > 0 {
            session.commit().await?;
        }
        let (approval, requester) = (rejection.as_approval(), reject.requester.as_ref());
        let sender = Sender { requester, request_id: reject.request_id.as_deref() };
        let policy = match session.operation.needs_evaluation_of(rejection.person()) {
            true => Some(engine.evaluate_with(&session.operation, &approval, sender).await?),
            false => None,
        };
        let (at, aborts) = (rejection.rejected_at_ms, rejection.lost.is_some());
        let action = Action::Reject { rejection, policy: policy.clone() };
        match (session.decide_at(at, requester, action), policy) {
            (Err(refusal @ Refusal::ApproverNotPermitted { .. }), Some(policy)) => {
                engine.record_refused_approval(&session.operation, &approval, policy, sender).await?;
                return Err(refusal.into());
            }
            (decided, _) => decided?,
        };
        session.commit().await?;
        let driven = if aborts { session.drive().await } else { Ok(()) };
        match driven {
            Ok(()) => {}
            // The abort is durable. What the operation owes to nodes that do not answer, the reconciler will drive.
            Err(EngineError::Unavailable(why)) => {
                tracing::warn!(operation_id = %target.id, %why, "not all nodes have taken note of the abort");
            }
            Err(other) => return Err(other),
        }
        Ok(session.into_record())
    }
}

impl UseCase for Targeted<Cancel> {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let Targeted(target, Cancel { reason, requester }) = self;
        let mut session = engine.session(target).await?;
        let client = requester.as_ref().and_then(|requester| requester.client.clone());
        session.decide_for(requester.as_ref(), Action::Cancel { client, reason: reason.clone() })?;
        session.commit().await?;
        Ok(session.into_record())
    }
}

//! Ends before admission: load → policy → decide → commit. An approver rejects an operation, or its submitter cancels it.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::ports::Record;
use crate::session::{Target, UseCase};
use gateway_domain::approval::{ApprovalSignature, Rejection};
use gateway_domain::operation::{Action, Refusal, Requester};

/// A parsed request to reject an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The approver.
    pub subject_id: String,
    /// The roles in which they reject.
    pub roles: Vec<String>,
    /// The reason, for people.
    pub reason: String,
    /// The time by the approver's clock, epoch milliseconds, unverified.
    pub claimed_at_ms: i64,
    /// The approver's own signature over the rejection statement; `None` if it did not sign.
    pub signature: Option<Box<ApprovalSignature>>,
    /// The client that sent the request.
    pub requester: Option<Requester>,
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
        self.run((target, reject)).await
    }

    /// Cancels an operation for its submitter.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn cancel(&self, target: Target, cancel: Cancel) -> Result<Record, EngineError> {
        self.run((target, cancel)).await
    }
}

impl UseCase for (Target, Reject) {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let (target, reject) = self;
        let mut session = engine.session(target).await?;
        let rejection = Rejection {
            subject_id: reject.subject_id.clone(),
            roles: reject.roles.clone(),
            reason: reject.reason.clone(),
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
        let policy = match session.operation.needs_evaluation_of(&reject.subject_id) {
            true => Some(engine.evaluate_with(&session.operation, &approval, requester).await?),
            false => None,
        };
        let (at, action) = (rejection.rejected_at_ms, Action::Reject { rejection, policy: policy.clone() });
        match (session.decide_at(at, requester, action), policy) {
            (Err(refusal @ Refusal::ApproverNotPermitted { .. }), Some(policy)) => {
                engine.record_refused_approval(&session.operation, &approval, policy, requester).await?;
                return Err(refusal.into());
            }
            (decided, _) => decided?,
        };
        session.commit().await?;
        Ok(session.into_record())
    }
}

impl UseCase for (Target, Cancel) {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let (target, Cancel { reason, requester }) = self;
        let mut session = engine.session(target).await?;
        let client = requester.as_ref().and_then(|requester| requester.client.clone());
        session.decide_for(requester.as_ref(), Action::Cancel { client, reason: reason.clone() })?;
        session.commit().await?;
        Ok(session.into_record())
    }
}

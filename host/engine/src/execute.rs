//! Execution and publication: load → decide → commit → drive.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::ports::Record;
use crate::secret::Secrets;
use crate::target::{Target, until_unraced};
use gateway_domain::operation::{Action, Operation, Phase, Refusal, Requester};
use std::future::Future;
use std::sync::Arc;

/// A request to publish, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// What is published.
    pub scope: String,
    /// The result the caller means.
    pub expected_result_ref: Option<String>,
    /// The caller's clock, epoch milliseconds: a claim.
    pub requested_at_ms: i64,
    /// Who sent it.
    pub requester: Option<Requester>,
}

/// A request to execute, as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execute {
    /// The caller's clock, epoch milliseconds: a claim.
    pub requested_at_ms: Option<i64>,
    /// Who sent it.
    pub requester: Option<Requester>,
}

impl Engine {
    /// Brings an admitted operation to execution. When that takes longer than the deployment lets a caller wait, the
    /// answer is the operation as it is, and the work goes on.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn execute(
        &self,
        target: Target,
        execute: Execute,
        secrets: Secrets,
    ) -> Result<Record, EngineError> {
        let (engine, wanted, secrets) = (self.clone(), target.clone(), Arc::new(secrets));
        let work =
            async move { until_unraced(|| Box::pin(engine.0.execute(&wanted, &execute, &secrets))).await };
        self.answer_in_time(target, self.run_to_end(work)).await
    }

    /// Brings an executed operation to publication.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn publish(&self, target: Target, publish: Publish) -> Result<Record, EngineError> {
        let (engine, wanted) = (self.clone(), target.clone());
        let work = async move { until_unraced(|| Box::pin(engine.0.publish(&wanted, &publish))).await };
        self.answer_in_time(target, self.run_to_end(work)).await
    }

    pub(crate) async fn answer_in_time(
        &self,
        target: Target,
        work: impl Future<Output = Result<Record, EngineError>>,
    ) -> Result<Record, EngineError> {
        match tokio::time::timeout(self.rules().answer_within, work).await {
            Ok(answer) => answer,
            Err(_too_late) => self.operation(&target).await,
        }
    }
}

impl Inner {
    /// The answer is the operation as it was executed, even where automatic publication has followed: the contract's
    /// response has the state `executed`, and the next read shows `published`.
    async fn execute(
        &self,
        target: &Target,
        execute: &Execute,
        secrets: &Secrets,
    ) -> Result<Record, EngineError> {
        let _turn = self.locks.lock(target.id).await?;
        let mut draft = self.find_draft(target).await?;
        let done_before = is_executed(&draft.operation);
        // A quorum that could not be made a decision yet is tried again first.
        if matches!(draft.operation.phase, Phase::Deciding | Phase::Admitting) {
            self.make_key_for(&draft.operation).await?;
            self.drive(&mut draft, secrets).await?;
        }
        let keys = self.keys_of(&draft.operation).await?;
        let key = keys.subject.clone().map(Box::new);
        let ask = Action::Execute { requested_at_ms: execute.requested_at_ms, key };
        if draft.ask_for(execute.requester.as_ref(), self.ports.clock.now(), ask)? > 0 {
            draft.decided_on(keys);
        }
        self.drive_until(&mut draft, secrets, is_executed).await?;
        let executed = draft.record();
        if let Some(failure) = &executed.operation.failure {
            return Err(Refusal::Failed(failure.clone()).into());
        }
        match self.drive(&mut draft, secrets).await {
            Ok(()) if done_before => Ok(draft.into_record()),
            Ok(()) => Ok(executed),
            // The result is durable; publication is owed and will be driven again.
            Err(EngineError::Unavailable(why)) => {
                tracing::warn!(operation_id = %target.id, %why, "automatic publication is postponed");
                Ok(executed)
            }
            Err(other) => Err(other),
        }
    }

    async fn publish(&self, target: &Target, publish: &Publish) -> Result<Record, EngineError> {
        let _turn = self.locks.lock(target.id).await?;
        let mut draft = self.find_draft(target).await?;
        let ask = Action::Publish {
            scope: publish.scope.clone(),
            expected_result_ref: publish.expected_result_ref.clone(),
            requested_at_ms: publish.requested_at_ms,
        };
        draft.ask_for(publish.requester.as_ref(), self.ports.clock.now(), ask)?;
        self.drive(&mut draft, &Secrets::default()).await?;
        Ok(draft.into_record())
    }
}

const fn is_executed(operation: &Operation) -> bool {
    match operation.phase {
        Phase::Executed | Phase::Publishing | Phase::Published => true,
        Phase::Submitted
        | Phase::PendingApproval
        | Phase::Deciding
        | Phase::Admitting
        | Phase::Admitted
        | Phase::IssuingReceipt
        | Phase::ReceiptMaterialized
        | Phase::Executing { .. }
        | Phase::CommittingEpoch { .. }
        | Phase::Discarding
        | Phase::Failed => false,
    }
}

//! The use cases after admission: execution, node recovery, publication and external export.

use crate::engine::{Engine, Inner};
use crate::error::{Dependency, EngineError, Unavailable};
use crate::ports::Record;
use crate::session::{Target, Targeted, UseCase};
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{
    Action, ExternalExport, Operation, Phase, Recovery, Refusal, Requester, SettledEffect, recovery,
};
use std::future::Future;

/// A parsed request to execute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execute {
    /// The time by the caller's clock, epoch milliseconds, unverified.
    pub requested_at_ms: Option<i64>,
    /// The client that sent the request.
    pub requester: Option<Requester>,
}

/// A parsed request to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The scope of the publication: `signature` for a signing operation.
    pub scope: String,
    /// The result that the caller expects to publish; `None` for any.
    pub expected_result_ref: Option<String>,
    /// The time by the caller's clock, epoch milliseconds, unverified.
    pub requested_at_ms: i64,
    /// The client that sent the request.
    pub requester: Option<Requester>,
}

/// A parsed request to recover one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recover {
    /// The effect's id.
    pub effect_id: String,
    /// The result root that the caller expects.
    pub result_root: Hex32,
    /// The client that sent the request.
    pub requester: Option<Requester>,
}

/// A parsed request to record an external export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The operation's publication receipt.
    pub publication_receipt: String,
    /// The state of the export.
    pub export: ExternalExport,
    /// The client that sent the request.
    pub requester: Option<Requester>,
}

impl Engine {
    /// Publishes the result of an executed operation; waits as [`Self::execute`] does.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn publish(&self, target: Target, publish: Publish) -> Result<Record, EngineError> {
        let work = self.run(Targeted(target.clone(), publish));
        let is_requested =
            |operation: &Operation| matches!(operation.phase, Phase::Publishing | Phase::Published);
        self.answer_in_time(target, work, is_requested).await
    }

    /// Reports the outcome of the named effect. If the effect is not settled, first performs the steps that the
    /// operation owes.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn recover(&self, target: Target, recover: Recover) -> Result<(Recovery, Record), EngineError> {
        self.run(Targeted(target, recover)).await
    }

    /// Records the state of the published result on an external rail.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn export(&self, target: Target, export: Export) -> Result<Record, EngineError> {
        self.run(Targeted(target, export)).await
    }

    /// The result of `work`, or after the time limit the operation in its present state. If that does not show by then what was requested,
    /// because other work on the operation waits for nodes, the request is not answered as done: it may still be refused, or lost.
    pub(crate) async fn answer_in_time(
        &self,
        target: Target,
        work: impl Future<Output = Result<Record, EngineError>>,
        is_recorded: impl Fn(&Operation) -> bool,
    ) -> Result<Record, EngineError> {
        if let Ok(answer) = tokio::time::timeout(self.rules().answer_within, work).await {
            return answer;
        }
        let record = self.operation(&target).await?;
        if is_recorded(&record.operation) {
            return Ok(record);
        }
        let why = "nodes are at work on the operation, and the request is not recorded yet";
        Err(Unavailable::new(Dependency::Runtime, why).into())
    }
}

impl UseCase for Targeted<Execute> {
    type Answer = Record;

    /// Answers the first request with the operation as executed, even if automatic publication has followed: the contract's
    /// response has the state `executed`. A repeat answers with the present state.
    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let Targeted(target, execute) = self;
        let mut session = engine.session(target).await?;
        let was_executed = is_executed(&session.operation);
        // The quorum is reached, but the admission is not complete, because a dependency did not answer, the key did not exist, or the
        // policy postponed it.
        if matches!(session.operation.phase, Phase::Deciding | Phase::Postponed { .. } | Phase::Admitting) {
            session.drive().await?;
        }
        let keys = engine.keys_of(&session.operation).await?;
        let key = keys.subject.clone().map(Box::new);
        let action = Action::Execute { requested_at_ms: execute.requested_at_ms, key };
        if session.decide_for(execute.requester.as_ref(), action)? > 0 {
            session.expect_keys(keys);
        }
        session.drive_until(is_executed).await?;
        let executed = session.record();
        if let Some(failure) = &executed.operation.failure {
            return Err(Refusal::Failed(failure.clone()).into());
        }
        match session.drive().await {
            Ok(()) if was_executed => Ok(session.into_record()),
            Ok(()) => Ok(executed),
            // The result is durable. The operation owes its publication, which the reconciler will drive.
            Err(EngineError::Unavailable(why)) => {
                tracing::warn!(operation_id = %target.id, %why, "automatic publication is postponed");
                Ok(executed)
            }
            Err(other) => Err(other),
        }
    }
}

impl UseCase for Targeted<Publish> {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let Targeted(target, publish) = self;
        let mut session = engine.session(target).await?;
        let action = Action::Publish {
            scope: publish.scope.clone(),
            expected_result_ref: publish.expected_result_ref.clone(),
            requested_at_ms: publish.requested_at_ms,
        };
        session.decide_for(publish.requester.as_ref(), action)?;
        session.drive().await?;
        Ok(session.into_record())
    }
}

impl UseCase for Targeted<Recover> {
    type Answer = (Recovery, Record);

    async fn run(&self, engine: &Inner) -> Result<Self::Answer, EngineError> {
        let Targeted(target, recover) = self;
        let mut session = engine.session(target).await?;
        let is_named = |settled: &SettledEffect| settled.id.to_string() == recover.effect_id;
        if !session.operation.settled.iter().any(is_named) {
            session.drive().await?;
        }
        let now = engine.ports.clock.now();
        let (recovery, _) = recovery(&session.operation, &recover.effect_id, recover.result_root, now)?;
        let action =
            Action::Recover { effect_id: recover.effect_id.clone(), result_root: recover.result_root };
        session.decide_at(now, recover.requester.as_ref(), action)?;
        session.commit().await?;
        Ok((recovery, session.into_record()))
    }
}

impl UseCase for Targeted<Export> {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let Targeted(target, Export { publication_receipt, export, requester }) = self;
        let mut session = engine.session(target).await?;
        let (publication_receipt, export) = (publication_receipt.clone(), export.clone());
        session.decide_for(requester.as_ref(), Action::Export { publication_receipt, export })?;
        session.commit().await?;
        Ok(session.into_record())
    }
}

/// Whether its execution has been requested.
pub(crate) const fn is_requested(operation: &Operation) -> bool {
    !matches!(
        operation.phase,
        Phase::Submitted
            | Phase::PendingApproval
            | Phase::Deciding
            | Phase::Postponed { .. }
            | Phase::Admitting
            | Phase::Admitted
    )
}

const fn is_executed(operation: &Operation) -> bool {
    match operation.phase {
        Phase::Executed | Phase::Publishing | Phase::Published => true,
        Phase::Submitted
        | Phase::PendingApproval
        | Phase::Deciding
        | Phase::Postponed { .. }
        | Phase::Admitting
        | Phase::Admitted
        | Phase::IssuingReceipt
        | Phase::ReceiptMaterialized
        | Phase::Executing { .. }
        | Phase::CommittingEpoch { .. }
        | Phase::Discarding
        | Phase::DiscardingRest { .. }
        | Phase::Failed => false,
    }
}

//! The one loop that sequences effects: load → next → perform → settle → commit → again, until it rests.

use crate::draft::Draft;
use crate::engine::Inner;
use crate::error::{Dependency, EngineError, Unavailable};
use crate::failpoint::failpoint;
use crate::perform::Performed;
use crate::secret::Secrets;
use gateway_domain::key::Keys;
use gateway_domain::operation::{Action, Effect, Operation, Outcome, Phase, Refusal, Step, next};

impl Inner {
    /// Drives an operation to rest. The caller holds its lock. What was decided before is committed first: nothing
    /// is done to the world that is not yet durable.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when somebody did not answer: the operation still owes its step, and a later
    /// drive takes it from there.
    pub(crate) async fn drive(&self, draft: &mut Draft, secrets: &Secrets) -> Result<(), EngineError> {
        self.drive_until(draft, secrets, |_| false).await
    }

    /// As [`Self::drive`], stopping early once the operation is where the caller wants it.
    pub(crate) async fn drive_until(
        &self,
        draft: &mut Draft,
        secrets: &Secrets,
        is_there: impl Fn(&Operation) -> bool + Send,
    ) -> Result<(), EngineError> {
        loop {
            match next(&draft.operation) {
                _ if is_there(&draft.operation) => return draft.commit(self).await,
                Step::Rest => return draft.commit(self).await,
                Step::Record(ask) => {
                    draft.ask(self.ports.clock.now(), *ask)?;
                }
                Step::Perform(effect) => {
                    draft.commit(self).await?;
                    tracing::debug!(effect_id = %effect.id, "performing");
                    let Performed { outcome, turn, decided_on } =
                        self.perform(&effect, &draft.operation, secrets).await?;
                    failpoint(performed(&effect));
                    self.settle(draft, &effect, outcome)?;
                    if let (Some(_), Some(_)) = (&decided_on, draft.operation.intent.key_use()) {
                        draft.decided_on(Keys { subject: decided_on, successor: None });
                    }
                    if turn.is_some() {
                        // Whoever is next must read what this one decided.
                        draft.commit(self).await?;
                    }
                }
            }
        }
    }

    /// As [`Self::drive`]; a decision about a key that does not sign yet stays owed, and the approvals are kept.
    pub(crate) async fn drive_or_wait(&self, draft: &mut Draft) -> Result<(), EngineError> {
        match self.drive(draft, &Secrets::default()).await {
            Err(EngineError::Refused(Refusal::KeyNotActive { .. })) => Ok(()),
            driven => driven,
        }
    }

    fn settle(&self, draft: &mut Draft, effect: &Effect, outcome: Outcome) -> Result<(), EngineError> {
        let result_root = outcome.result_root()?;
        let missing = missing(&draft.operation, &outcome);
        let settle = Action::Settle { effect: effect.id, outcome, result_root };
        match draft.ask(self.ports.clock.now(), settle)? {
            0 => Err(Unavailable::new(Dependency::Runtime, missing).into()),
            _ => Ok(()),
        }
    }
}

/// Which planned nodes an answer lacks, for people.
fn missing(operation: &Operation, outcome: &Outcome) -> String {
    let (Some(plan), Outcome::Acked(receipts)) = (operation.plan(), outcome) else {
        return "the step could not be completed".to_owned();
    };
    let silent =
        plan.nodes.iter().filter(|node| !receipts.iter().any(|receipt| receipt.participant == **node));
    let silent = silent.map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let needed = if operation.phase == Phase::Discarding && !plan.stages_epoch() {
        let n_needed = plan.holders.len().saturating_sub(plan.n_holders_required).saturating_add(1);
        format!("discard receipts of {n_needed} that released no share are needed")
    } else if plan.stages_epoch() {
        "everyone who gets a share is needed".to_owned()
    } else {
        format!("{} are needed", plan.n_holders_required)
    };
    format!("{} of {} participants answered, {needed}; silent: {silent}", receipts.len(), plan.nodes.len())
}

/// The failpoint after an effect and before its record.
const fn performed(effect: &Effect) -> &'static str {
    use gateway_domain::operation::EffectStep;
    match effect.id.step {
        EffectStep::Decision => "performed-decision",
        EffectStep::Admission => "performed-admission",
        EffectStep::PolicyReceipt => "performed-policy-receipt",
        EffectStep::Execute => "performed-execute",
        EffectStep::CommitEpoch => "performed-commit-epoch",
        EffectStep::Publish => "performed-publish",
        EffectStep::Discard => "performed-discard",
    }
}

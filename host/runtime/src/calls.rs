//! From an operation to the calls its nodes must get: the fleet knows the order of steps from the operation alone.

use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::operation::{Effect, EffectId, EffectStep, Operation};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::{Dependency, Unavailable};
use gateway_node::{AdmitRequest, Call, Chain};

/// The operation as its nodes are shown it.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub(crate) operation: &'a Operation,
    admission_hash: Hex32,
}

impl<'a> Calls<'a> {
    /// # Errors
    /// [`Dependency::Runtime`] for an operation without a decision, which the core never sends here.
    pub(crate) fn new(operation: &'a Operation) -> Result<Self, Unavailable> {
        let admission = operation.admission.as_deref();
        let admission = admission.ok_or_else(|| unavailable("the operation has no admission decision"))?;
        Ok(Self { operation, admission_hash: admission.admission_hash })
    }

    /// The call that performs this effect on one node.
    pub(crate) fn call(&self, effect: &Effect, participant: ParticipantIndex) -> Result<Call, Unavailable> {
        self.named(effect.id, participant).map_err(|error| unavailable(&error.to_string()))
    }

    /// An earlier step, for a node that missed it.
    pub(crate) fn missed(
        &self,
        step: EffectStep,
        participant: ParticipantIndex,
    ) -> Result<Call, Unavailable> {
        self.named(self.effect(step), participant).map_err(|error| unavailable(&error.to_string()))
    }

    /// The admission, with everything it rests on.
    pub(crate) fn admit(&self) -> Result<AdmitRequest, Unavailable> {
        let operation = self.operation;
        let admission = operation.admission.as_deref();
        let admission = admission.ok_or_else(|| unavailable("the operation has no admission decision"))?;
        Ok(AdmitRequest {
            effect: self.effect(EffectStep::Admission),
            intent: operation.intent.clone(),
            approvals: operation.approvals.clone(),
            envelope: admission.envelope.clone(),
        })
    }

    /// The attempt at the ceremony that gave the result.
    pub(crate) fn executed_attempt(&self) -> u32 {
        let settled = self.operation.settled.iter().rev();
        settled.map(|settled| settled.id).find(|id| id.step == EffectStep::Execute).map_or(1, |id| id.attempt)
    }

    const fn effect(&self, step: EffectStep) -> EffectId {
        EffectId { operation: self.operation.id, step, attempt: 1 }
    }

    fn named(&self, effect: EffectId, participant: ParticipantIndex) -> Result<Call, CanonicalError> {
        let admission_hash = self.admission_hash;
        let chain = Chain { admission_hash, operation_id: self.operation.id, participant };
        let signs = self.operation.intent.operation_type() == OperationType::Sign;
        let previous = match effect.step {
            EffectStep::Decision | EffectStep::Admission => admission_hash,
            EffectStep::PolicyReceipt | EffectStep::Discard => chain.after_admission()?,
            EffectStep::Execute => chain.after_receipt()?,
            EffectStep::CommitEpoch => chain.after_execute(self.executed_attempt())?,
            EffectStep::Publish if signs => chain.after_execute(self.executed_attempt())?,
            EffectStep::Publish => chain.after_commit_epoch(self.executed_attempt())?,
        };
        Ok(Call { effect, admission_hash, previous })
    }
}

pub(crate) fn unavailable(detail: &str) -> Unavailable {
    Unavailable::new(Dependency::Runtime, detail)
}

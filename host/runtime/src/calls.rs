//! From an operation to the calls its nodes must get: the fleet knows the order of steps from the operation alone.

use gateway_domain::admission::AdmissionDecision;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{Effect, EffectId, EffectStep, Operation};
use gateway_domain::receipt::Chain;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::{Dependency, Unavailable};
use gateway_node::{AdmitRequest, Call, Owner, Published};

/// The operation as its nodes are shown it.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub(crate) operation: &'a Operation,
    /// What admitted it.
    pub(crate) decision: &'a AdmissionDecision,
    admission_hash: Hex32,
}

impl<'a> Calls<'a> {
    /// # Errors
    /// [`Dependency::Runtime`] for an operation without a decision, which the core never sends here.
    pub(crate) fn new(operation: &'a Operation) -> Result<Self, Unavailable> {
        let admission = operation.admission.as_deref();
        let admission = admission.ok_or_else(|| unavailable("the operation has no admission decision"))?;
        Ok(Self { operation, decision: &admission.decision, admission_hash: admission.admission_hash })
    }

    /// The steps of the operation on one node.
    pub(crate) fn chain(&self, participant: ParticipantIndex) -> Chain {
        let Self { operation, admission_hash, .. } = *self;
        Chain { admission_hash, operation_id: operation.id, participant }
    }

    /// What is published.
    pub(crate) fn result(&self) -> Result<Published, Unavailable> {
        let Operation { signature, staged, .. } = self.operation;
        let signature = signature.as_deref().cloned().map(Published::Signature);
        let generation = || staged.clone().map(Published::Generation);
        signature.or_else(generation).ok_or_else(|| unavailable("the operation has no result"))
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
            owner: Owner { tenant: operation.tenant.clone(), key_ref: operation.key.key_ref.clone() },
            envelope: admission.envelope.clone(),
        })
    }

    const fn effect(&self, step: EffectStep) -> EffectId {
        EffectId { operation: self.operation.id, step, attempt: 1 }
    }

    fn named(&self, effect: EffectId, participant: ParticipantIndex) -> Result<Call, CanonicalError> {
        let (operation_type, executed) =
            (self.operation.intent.operation_type(), self.operation.executed_attempt());
        let previous = self.chain(participant).before(effect.step, operation_type, executed)?;
        Ok(Call { effect, admission_hash: self.admission_hash, previous })
    }
}

pub(crate) fn unavailable(detail: &str) -> Unavailable {
    Unavailable::new(Dependency::Runtime, detail)
}

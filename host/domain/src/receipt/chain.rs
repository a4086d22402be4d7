//! The order of a node's steps, as a hash chain that the gateway and the node compute independently.
//!
//! ```text
//! sign        admission → policy-receipt → execute.k → publish
//! other       admission → policy-receipt → execute.k → commit-epoch → publish
//! any         admission → discard
//! attempt     policy-receipt → discard.k
//! ```
//!
//! `k` is the attempt that produced the result. An attempt that failed is not part of the chain: the next one follows the policy
//! receipt again, and the receipt for discarding an attempt stands beside the chain. A call names the transition that it follows
//! (the contract's `prev_transition_hash`).

use crate::canonical::{self, CanonicalError};
use crate::ids::{Hex32, OperationId};
use crate::intent::OperationType;
use crate::roster::ParticipantIndex;
use crate::step::EffectStep;
use serde::Serialize;

/// The chain of one operation on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Hash of the admission, which the chain starts from.
    pub admission_hash: Hex32,
    /// The operation.
    pub operation_id: OperationId,
    /// The node.
    pub participant: ParticipantIndex,
}

#[derive(Serialize)]
struct Transition {
    previous: Hex32,
    step: EffectStep,
    attempt: u32,
    operation_id: OperationId,
    participant: ParticipantIndex,
}

/// Every transition is `SHA-256("svc/node-transition/v1" || {previous, step, attempt, operation_id, participant})`.
impl Chain {
    /// The transition that a call of this step follows; `executed` is the attempt that produced the result.
    pub fn before(
        &self,
        step: EffectStep,
        operation_type: OperationType,
        executed: u32,
    ) -> Result<Hex32, CanonicalError> {
        match step {
            EffectStep::Decision | EffectStep::Admission => Ok(self.admission_hash),
            EffectStep::PolicyReceipt | EffectStep::Discard => self.after_admission(),
            EffectStep::Execute => self.after_receipt(),
            EffectStep::CommitEpoch => self.after_execute(executed),
            EffectStep::Publish => match operation_type {
                OperationType::Sign => self.after_execute(executed),
                OperationType::KeyCreate
                | OperationType::Refresh
                | OperationType::Reshare
                | OperationType::Rotate
                | OperationType::Recover => self.after_commit_epoch(executed),
            },
        }
    }

    /// The transition of the admission, which follows the admission hash itself.
    pub fn after_admission(&self) -> Result<Hex32, CanonicalError> {
        self.link(self.admission_hash, EffectStep::Admission, 1)
    }

    /// The transition of the policy receipt.
    pub fn after_receipt(&self) -> Result<Hex32, CanonicalError> {
        self.link(self.after_admission()?, EffectStep::PolicyReceipt, 1)
    }

    /// The transition of this attempt of the ceremony.
    pub fn after_execute(&self, attempt: u32) -> Result<Hex32, CanonicalError> {
        self.link(self.after_receipt()?, EffectStep::Execute, attempt)
    }

    /// The transition of the promotion of the shares that this attempt staged.
    pub fn after_commit_epoch(&self, attempt: u32) -> Result<Hex32, CanonicalError> {
        self.link(self.after_execute(attempt)?, EffectStep::CommitEpoch, 1)
    }

    /// The transition of the publication of the result of this attempt.
    pub fn after_publish(
        &self,
        operation_type: OperationType,
        executed: u32,
    ) -> Result<Hex32, CanonicalError> {
        self.link(self.before(EffectStep::Publish, operation_type, executed)?, EffectStep::Publish, 1)
    }

    /// The transition of the discard.
    pub fn after_discard(&self) -> Result<Hex32, CanonicalError> {
        self.link(self.after_admission()?, EffectStep::Discard, 1)
    }

    /// The transition of discarding this attempt of the ceremony. It stands beside the chain: the operation goes on.
    pub fn after_attempt_discard(&self, attempt: u32) -> Result<Hex32, CanonicalError> {
        self.link(self.after_receipt()?, EffectStep::Discard, attempt)
    }

    fn link(&self, previous: Hex32, step: EffectStep, attempt: u32) -> Result<Hex32, CanonicalError> {
        let Self { operation_id, participant, .. } = *self;
        let transition = Transition { previous, step, attempt, operation_id, participant };
        canonical::digest("svc/node-transition/v1", &transition)
    }
}

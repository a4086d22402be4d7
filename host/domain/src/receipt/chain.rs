//! The order of a node's steps, as a chain of hashes that both sides compute.
//!
//! ```text
//! sign        admission → policy-receipt → execute.k → publish
//! other       admission → policy-receipt → execute.k → commit-epoch → publish
//! any         admission → discard
//! ```
//!
//! `k` is the attempt that gave the result: lost attempts start from the receipt again and are no part of the chain. A
//! call names the transition it believes to come before it (the contract's `prev_transition_hash`).

use crate::canonical::{self, CanonicalError};
use crate::ids::{Hex32, OperationId};
use crate::intent::OperationType;
use crate::roster::ParticipantIndex;
use crate::step::EffectStep;
use serde::Serialize;

/// The chain of one operation on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Where it starts.
    pub admission_hash: Hex32,
    /// Whose.
    pub operation_id: OperationId,
    /// On which node.
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
    /// The transition that a call of this step follows; `executed` is the attempt at the ceremony that gave the result.
    ///
    /// # Errors
    /// As [`Self::after_admission`].
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

    /// After the admission, which follows the admission hash itself.
    ///
    /// # Errors
    /// [`CanonicalError`], which these values do not give.
    pub fn after_admission(&self) -> Result<Hex32, CanonicalError> {
        self.link(self.admission_hash, EffectStep::Admission, 1)
    }

    /// After the policy receipt.
    ///
    /// # Errors
    /// As [`Self::after_admission`].
    pub fn after_receipt(&self) -> Result<Hex32, CanonicalError> {
        self.link(self.after_admission()?, EffectStep::PolicyReceipt, 1)
    }

    /// After this attempt at the ceremony.
    ///
    /// # Errors
    /// As [`Self::after_admission`].
    pub fn after_execute(&self, attempt: u32) -> Result<Hex32, CanonicalError> {
        self.link(self.after_receipt()?, EffectStep::Execute, attempt)
    }

    /// After the promotion of what this attempt staged. It happens once, however often it was asked for.
    ///
    /// # Errors
    /// As [`Self::after_admission`].
    pub fn after_commit_epoch(&self, attempt: u32) -> Result<Hex32, CanonicalError> {
        self.link(self.after_execute(attempt)?, EffectStep::CommitEpoch, 1)
    }

    /// After publication of what this attempt gave.
    ///
    /// # Errors
    /// As [`Self::after_admission`].
    pub fn after_publish(
        &self,
        operation_type: OperationType,
        executed: u32,
    ) -> Result<Hex32, CanonicalError> {
        self.link(self.before(EffectStep::Publish, operation_type, executed)?, EffectStep::Publish, 1)
    }

    /// After the operation was given up.
    ///
    /// # Errors
    /// As [`Self::after_admission`].
    pub fn after_discard(&self) -> Result<Hex32, CanonicalError> {
        self.link(self.after_admission()?, EffectStep::Discard, 1)
    }

    fn link(&self, previous: Hex32, step: EffectStep, attempt: u32) -> Result<Hex32, CanonicalError> {
        let Self { operation_id, participant, .. } = *self;
        let transition = Transition { previous, step, attempt, operation_id, participant };
        canonical::digest("svc/node-transition/v1", &transition)
    }
}

//! What a node did, with exactly what its receipt says of it.

use super::{Chain, ReceiptStatement};
use crate::admission::AdmissionDecision;
use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::intent::OperationType;
use crate::step::EffectStep;
use serde::Serialize;

/// A step that a node made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptKind {
    /// It verified the decision and keeps it.
    Admitted,
    /// It fixed what the policy said, and on what: the operation is about to be executed.
    PolicyReceipt(PolicyBasis),
    /// It released its one share of a signature.
    Signed {
        /// The attempt at the ceremony.
        attempt: u32,
        /// What is signed.
        signed_digest: Hex32,
        /// The signing package that the share is for, and so with whom and for which child key.
        package_hash: Hex32,
    },
    /// It staged its share of a new generation; one that only dealt has seen the generation made.
    Staged {
        /// The attempt at the ceremony.
        attempt: u32,
        /// Root of the generation.
        epoch_root: Hex32,
    },
    /// It put the generation in force; one that leaves is told which.
    Promoted {
        /// The attempt that staged it.
        attempt: u32,
        /// Root of the generation.
        epoch_root: Hex32,
    },
    /// It opened the publication gate for this result.
    Published {
        /// The attempt that gave it.
        attempt: u32,
        /// What kind of operation: it says which step came before.
        operation_type: OperationType,
        /// The contract's `result_ref`.
        result_ref: Hex32,
    },
    /// It discarded the operation and what it had staged, for good. It releases no share of a signature any more, and has
    /// released none.
    Discarded,
}

/// What a policy was asked and answered, by which bundle, over which approvals: as the decision has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyBasis {
    /// See [`AdmissionDecision::bundle_hash`].
    pub bundle_hash: Hex32,
    /// See [`AdmissionDecision::policy_input_hash`].
    pub policy_input_hash: Hex32,
    /// See [`AdmissionDecision::policy_output_hash`].
    pub policy_output_hash: Hex32,
    /// See [`AdmissionDecision::approvals_root`].
    pub approvals_root: Hex32,
}

impl From<&AdmissionDecision> for PolicyBasis {
    fn from(decision: &AdmissionDecision) -> Self {
        Self {
            bundle_hash: decision.bundle_hash,
            policy_input_hash: decision.policy_input_hash,
            policy_output_hash: decision.policy_output_hash,
            approvals_root: decision.approvals_root,
        }
    }
}

impl ReceiptKind {
    /// Its step.
    #[must_use]
    pub const fn step(&self) -> EffectStep {
        match self {
            Self::Admitted => EffectStep::Admission,
            Self::PolicyReceipt(_) => EffectStep::PolicyReceipt,
            Self::Signed { .. } | Self::Staged { .. } => EffectStep::Execute,
            Self::Promoted { .. } => EffectStep::CommitEpoch,
            Self::Published { .. } => EffectStep::Publish,
            Self::Discarded => EffectStep::Discard,
        }
    }

    /// What a receipt says that the step was about.
    ///
    /// | step | subject |
    /// |---|---|
    /// | `admission`, `discard` | the admission hash |
    /// | `policy-receipt` | `SHA-256("svc/receipt/policy/v1" ‖ JCS(`[`PolicyBasis`]`))` |
    /// | `execute`, of a signature | `SHA-256("svc/receipt/share/v1" ‖ JCS({signed_digest, package_hash}))` |
    /// | `execute`, of new shares, and `commit-epoch` | the generation's epoch root |
    /// | `publish` | the `result_ref` |
    ///
    /// # Errors
    /// [`CanonicalError`], which these values do not give.
    pub fn subject(&self, admission_hash: Hex32) -> Result<Hex32, CanonicalError> {
        #[derive(Serialize)]
        struct Share {
            signed_digest: Hex32,
            package_hash: Hex32,
        }
        match *self {
            Self::Admitted | Self::Discarded => Ok(admission_hash),
            Self::PolicyReceipt(basis) => canonical::digest("svc/receipt/policy/v1", &basis),
            Self::Signed { signed_digest, package_hash, .. } => {
                canonical::digest("svc/receipt/share/v1", &Share { signed_digest, package_hash })
            }
            Self::Staged { epoch_root, .. } | Self::Promoted { epoch_root, .. } => Ok(epoch_root),
            Self::Published { result_ref, .. } => Ok(result_ref),
        }
    }

    /// As it stands in a statement: which attempt of the step.
    const fn attempt(&self) -> u32 {
        match *self {
            Self::Signed { attempt, .. } | Self::Staged { attempt, .. } => attempt,
            Self::Admitted
            | Self::PolicyReceipt(_)
            | Self::Promoted { .. }
            | Self::Published { .. }
            | Self::Discarded => 1,
        }
    }

    /// Where the step leaves the node's chain.
    fn head(&self, chain: &Chain) -> Result<Hex32, CanonicalError> {
        match *self {
            Self::Admitted => chain.after_admission(),
            Self::PolicyReceipt(_) => chain.after_receipt(),
            Self::Signed { attempt, .. } | Self::Staged { attempt, .. } => chain.after_execute(attempt),
            Self::Promoted { attempt, .. } => chain.after_commit_epoch(attempt),
            Self::Published { attempt, operation_type, .. } => chain.after_publish(operation_type, attempt),
            Self::Discarded => chain.after_discard(),
        }
    }
}

impl Chain {
    /// What this node states when it has done this.
    ///
    /// # Errors
    /// [`CanonicalError`], which these values do not give.
    pub fn statement(&self, deed: &ReceiptKind) -> Result<ReceiptStatement, CanonicalError> {
        Ok(ReceiptStatement {
            operation_id: self.operation_id,
            participant: self.participant,
            step: deed.step(),
            attempt: deed.attempt(),
            admission_hash: self.admission_hash,
            transition_hash: deed.head(self)?,
            subject: deed.subject(self.admission_hash)?,
        })
    }
}

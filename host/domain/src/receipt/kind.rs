//! The kinds of receipts, each with the data that its statement needs.

use super::chain::Chain;
use crate::admission::AdmissionDecision;
use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::intent::OperationType;
use crate::step::EffectStep;
use serde::Serialize;

/// A step that a node performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptKind {
    /// It verified and stored the decision.
    Admitted,
    /// It recorded the policy evaluation that the decision is based on, before the execution.
    PolicyReceipt(PolicyBasis),
    /// It released its signature share. A node releases at most one for each operation.
    Signed {
        /// The attempt of the ceremony.
        attempt: u32,
        /// The digest that is signed.
        signed_digest: Hex32,
        /// Hash of the signing package that the share is for: it fixes the signers and the child key.
        package_hash: Hex32,
    },
    /// It staged its share of a new generation, or dealt to those that did.
    Staged {
        /// The attempt of the ceremony.
        attempt: u32,
        /// Root of the generation.
        epoch_root: Hex32,
    },
    /// It activated the new generation, or learned of it as a node that leaves.
    Promoted {
        /// The attempt that staged the generation.
        attempt: u32,
        /// Root of the generation.
        epoch_root: Hex32,
    },
    /// It opened the publication gate for this result.
    Published {
        /// The attempt that produced the result.
        attempt: u32,
        /// The type of the operation, which determines the step before.
        operation_type: OperationType,
        /// The contract's `result_ref`.
        result_ref: Hex32,
    },
    /// It discarded the operation and any share staged for it. It has not released a signature share for it, and
    /// never will.
    Discarded,
    /// It discarded an attempt of the ceremony: it has released no signature share and staged no share in it, and never will.
    AttemptDiscarded {
        /// The attempt.
        attempt: u32,
    },
}

/// The policy evaluation that the admission decision is based on.
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
    /// The step that the receipt is for.
    #[must_use]
    pub const fn step(&self) -> EffectStep {
        match self {
            Self::Admitted => EffectStep::Admission,
            Self::PolicyReceipt(_) => EffectStep::PolicyReceipt,
            Self::Signed { .. } | Self::Staged { .. } => EffectStep::Execute,
            Self::Promoted { .. } => EffectStep::CommitEpoch,
            Self::Published { .. } => EffectStep::Publish,
            Self::Discarded | Self::AttemptDiscarded { .. } => EffectStep::Discard,
        }
    }

    /// The subject of the step, as a receipt states it.
    ///
    /// | step | subject |
    /// |---|---|
    /// | `admission`, `discard` | the admission hash |
    /// | `policy-receipt` | `SHA-256("svc/receipt/policy/v1" ‖ JCS(`[`PolicyBasis`]`))` |
    /// | `execute`, of a signature | `SHA-256("svc/receipt/share/v1" ‖ JCS({signed_digest, package_hash}))` |
    /// | `execute`, of new shares, and `commit-epoch` | the generation's epoch root |
    /// | `publish` | the `result_ref` |
    pub fn subject(&self, admission_hash: Hex32) -> Result<Hex32, CanonicalError> {
        #[derive(Serialize)]
        struct Share {
            signed_digest: Hex32,
            package_hash: Hex32,
        }
        match *self {
            Self::Admitted | Self::Discarded | Self::AttemptDiscarded { .. } => Ok(admission_hash),
            Self::PolicyReceipt(basis) => canonical::digest("svc/receipt/policy/v1", &basis),
            Self::Signed { signed_digest, package_hash, .. } => {
                canonical::digest("svc/receipt/share/v1", &Share { signed_digest, package_hash })
            }
            Self::Staged { epoch_root, .. } | Self::Promoted { epoch_root, .. } => Ok(epoch_root),
            Self::Published { result_ref, .. } => Ok(result_ref),
        }
    }

    /// The attempt that a statement names.
    pub(super) const fn attempt(&self) -> u32 {
        match *self {
            Self::Signed { attempt, .. }
            | Self::Staged { attempt, .. }
            | Self::AttemptDiscarded { attempt } => attempt,
            Self::Admitted
            | Self::PolicyReceipt(_)
            | Self::Promoted { .. }
            | Self::Published { .. }
            | Self::Discarded => 1,
        }
    }

    /// Head of the node's chain after the step.
    pub(super) fn head(&self, chain: &Chain) -> Result<Hex32, CanonicalError> {
        match *self {
            Self::Admitted => chain.after_admission(),
            Self::PolicyReceipt(_) => chain.after_receipt(),
            Self::Signed { attempt, .. } | Self::Staged { attempt, .. } => chain.after_execute(attempt),
            Self::Promoted { attempt, .. } => chain.after_commit_epoch(attempt),
            Self::Published { attempt, operation_type, .. } => chain.after_publish(operation_type, attempt),
            Self::Discarded => chain.after_discard(),
            Self::AttemptDiscarded { attempt } => chain.after_attempt_discard(attempt),
        }
    }
}

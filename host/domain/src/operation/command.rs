//! Commands that move an operation, and the reasons why one is refused.

use super::effect::{Failure, Outcome};
use super::event::ExternalExport;
use crate::approval::{Approval, ApprovalError};
use crate::ids::Hex32;
use crate::intent::KeyUse;
use crate::key::CustodyKey;
use crate::policy;
use crate::step::EffectId;
use crate::time::EpochMs;

/// A request to move an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The time of the request, by the gateway's clock.
    pub at: EpochMs,
    /// The requested action.
    pub action: Action,
}

/// The requested action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Count an approval. `policy` is the evaluation over all approvals including this one; the engine omits it
    /// when [`super::approval_is_open`] says that the approval cannot count.
    Approve {
        /// The vote.
        approval: Approval,
        /// The evaluation, which says which approvals count.
        policy: Option<policy::Outcome>,
    },
    /// Create a key without waiting for approvals. `policy` is the evaluation over the approvals so far, with none required.
    WaiveApprovals {
        /// The evaluation.
        policy: policy::Outcome,
    },
    /// Bring the operation to execution.
    Execute {
        /// The time of the request by the caller's clock, unverified.
        requested_at_ms: Option<i64>,
        /// The current key; `None` for a key creation that has not generated it yet.
        key: Option<Box<CustodyKey>>,
    },
    /// Record that the ceremony begins, before any node takes part in it.
    BeginCeremony,
    /// Record the outcome of an effect.
    Settle {
        /// The effect.
        effect: EffectId,
        /// Its outcome.
        outcome: Outcome,
        /// Digest of the outcome, see [`Outcome::result_root`].
        result_root: Hex32,
    },
    /// Bring the operation to publication.
    Publish {
        /// The scope of the publication: `signature` for a signing operation.
        scope: String,
        /// The result that the caller expects to publish.
        expected_result_ref: Option<String>,
        /// The time of the request by the caller's clock, unverified.
        requested_at_ms: i64,
    },
    /// Record the recovery of one effect.
    Recover {
        /// The effect's id, as the caller gave it.
        effect_id: String,
        /// The result the caller expects.
        result_root: Hex32,
    },
    /// Record the progress of the published result on an external rail.
    Export {
        /// The publication receipt that the caller gave.
        publication_receipt: String,
        /// The state of the export.
        export: ExternalExport,
    },
    /// Fail an operation whose approvals are missing for too long.
    Expire {
        /// The longest time from submission to quorum, milliseconds.
        approval_ttl_ms: u64,
    },
    /// Record that the idempotency key was used again with another body.
    NoteReplay {
        /// Digest of that body.
        body_digest: Hex32,
    },
}

/// The reason why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Execution before admission, or publication before execution.
    #[error("operation was not executed: {missing}")]
    NotExecuted {
        /// What has to happen first.
        missing: String,
    },
    /// Publication of another result.
    #[error("`expected_result_ref` is not the operation's result `{actual}`")]
    ResultRefMismatch {
        /// The operation's result.
        actual: Hex32,
    },
    /// Publication in a scope this operation does not have.
    #[error("`/scope` must be {allowed}")]
    PublicationScope {
        /// The scopes that are allowed.
        allowed: &'static str,
    },
    /// The policy does not count this approver.
    #[error("approval of `{subject_id}` does not count{}", why(.reasons))]
    ApproverNotPermitted {
        /// The approver's subject id.
        subject_id: String,
        /// The policy's reasons.
        reasons: Vec<String>,
    },
    /// The approval's signature is missing or wrong.
    #[error("approval of `{subject_id}` is refused: `{}`: {fault}", .fault.as_str())]
    ApprovalNotSigned {
        /// The approver's subject id.
        subject_id: String,
        /// The fault of the signature.
        fault: ApprovalError,
    },
    /// The policy denies the operation itself.
    #[error("policy denies the operation{}", why(.reasons))]
    PolicyRejected {
        /// The policy's reasons.
        reasons: Vec<String>,
    },
    /// The operation has failed.
    #[error("operation failed: {}", .0.detail)]
    Failed(Failure),
    /// The key is not in the epoch that the caller fenced.
    #[error("`epoch_fence_token_hex` is not the key's active epoch root `{actual}`")]
    EpochFenceMismatch {
        /// The root of the key's active epoch.
        actual: Hex32,
    },
    /// The key does not sign, or cannot be changed, in its present state.
    #[error("key is `{state}`")]
    KeyNotActive {
        /// The key's state.
        state: &'static str,
    },
    /// The key signs for the other family of operations.
    #[error("the key serves `{}` and signs nothing else; a key of its own is needed", serves.as_str())]
    KeyServesOther {
        /// The family that the key signs for.
        serves: KeyUse,
    },
    /// Another lifecycle operation executes on the key.
    #[error("another lifecycle operation is executing on the key")]
    KeyBusy,
    /// The epoch cannot follow the key's, or the key has left the epoch that the operation was admitted in.
    #[error("{0}")]
    EpochConflict(String),
    /// Export of another publication.
    #[error("`publication_receipt` is not the operation's; its view has it")]
    PublicationReceiptMismatch,
    /// The export would go backwards, or is another export.
    #[error(
        "the export is `{}` on rail `{}` as `{}`: the same export may only go forward",
        .0.state.as_str(), .0.rail, .0.external_id
    )]
    ExportConflict(ExternalExport),
    /// A recovery of a known effect with another result.
    #[error("effect `{effect_id}` has the result root `{actual}`")]
    RecoveryConflict {
        /// The effect.
        effect_id: String,
        /// Its recorded result.
        actual: Hex32,
    },
}

fn why(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

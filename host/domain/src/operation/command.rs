//! Commands that move an operation, and the reasons for refusing one.

use super::effect::{Failure, Outcome};
use super::event::ExternalExport;
use crate::approval::{Approval, ApprovalError, LapsedApproval, Rejection};
use crate::binding::ClientBinding;
use crate::ids::Hex32;
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
    /// Record an approval.
    Approve {
        /// The approval.
        approval: Approval,
        /// The policy evaluation over all approvals including this one. `None` when [`super::approval_is_open`] is false:
        /// the approval cannot count then.
        policy: Option<policy::Outcome>,
    },
    /// Record that an approver rejects the operation, or aborts the change of a key: ends it before its result is certain, or after that has
    /// it do without receivers that are lost.
    Reject {
        /// The rejection.
        rejection: Rejection,
        /// The policy evaluation over the approvals so far and one of this subject. `None` when
        /// [`Operation::needs_evaluation_of`](super::Operation::needs_evaluation_of) is false.
        policy: Option<policy::Outcome>,
    },
    /// Cancel the operation for its submitter.
    Cancel {
        /// The caller; `None` without authentication.
        client: Option<ClientBinding>,
        /// The reason, for people.
        reason: String,
    },
    /// Stop counting approvals whose signatures no longer verify.
    LapseApprovals {
        /// The approvals.
        lapsed: Vec<LapsedApproval>,
        /// The policy evaluation over the approvals that still count.
        policy: policy::Outcome,
    },
    /// Create a key without waiting for approvals.
    WaiveApprovals {
        /// The policy evaluation over the approvals so far, with none required by the deployment.
        policy: policy::Outcome,
    },
    /// Wait until the time before which the policy does not allow the admission.
    PostponeAdmission {
        /// The policy evaluation at the admission, which allows it with the obligation `admit_not_before`.
        policy: policy::Outcome,
    },
    /// Decide the admission of a postponed operation, if its time is reached.
    ResumeAdmission,
    /// Request the execution of an admitted operation.
    Execute {
        /// The time of the request by the caller's clock, unverified.
        requested_at_ms: Option<i64>,
        /// The key as stored, which must still be able to do what the intent requests. `None` skips this check; a key
        /// creation has nothing to check.
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
    },
    /// Request the publication of the result.
    Publish {
        /// The scope of the publication: `signature` for a signing operation.
        scope: String,
        /// The result that the caller expects to publish; `None` for any.
        expected_result_ref: Option<String>,
        /// The time of the request by the caller's clock, unverified.
        requested_at_ms: i64,
    },
    /// Record the recovery of one effect.
    Recover {
        /// The effect's id, as the caller gave it.
        effect_id: String,
        /// The result root that the caller expects.
        result_root: Hex32,
    },
    /// Record the progress of the published result on an external rail.
    Export {
        /// The publication receipt that the caller gave.
        publication_receipt: String,
        /// The state of the export.
        export: ExternalExport,
    },
    /// Fail an operation that has no quorum, or no signed decision, for too long.
    Expire {
        /// The longest time from submission to the decision, milliseconds, without the time for which the admission is postponed.
        approval_ttl_ms: u64,
    },
    /// Record that the idempotency key was used again with another body.
    NoteReplay {
        /// Digest of that body.
        body_digest: Hex32,
    },
}

/// The reason for refusing a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request comes too early: execution before admission, publication before execution, or export before publication.
    #[error("the operation is not ready: {missing}")]
    NotExecuted {
        /// The state of the operation, or the condition that is not met, for people.
        missing: String,
    },
    /// The caller expects to publish another result.
    #[error("`expected_result_ref` is not the operation's result `{actual}`")]
    ResultRefMismatch {
        /// The operation's result.
        actual: Hex32,
    },
    /// The operation cannot be published in this scope.
    #[error("`/scope` must be {allowed}")]
    PublicationScope {
        /// The scopes that are allowed.
        allowed: &'static str,
    },
    /// The policy does not count this approver.
    #[error("approval of `{subject_id}` does not count: {}", approval_reasons_text(.reasons))]
    ApproverNotPermitted {
        /// The approver's subject id.
        subject_id: String,
        /// The policy's reasons for this approval; empty if it gives none.
        reasons: Vec<String>,
    },
    /// The approval's signature is missing or wrong, its time is not acceptable, or the registry cannot be read.
    #[error("approval of `{subject_id}` is refused: `{}`: {fault}", .fault.as_str())]
    ApprovalNotSigned {
        /// The approver's subject id.
        subject_id: String,
        /// The reason.
        fault: ApprovalError,
    },
    /// The policy denies the operation.
    #[error("policy denies the operation: {}", policy::join(.reasons))]
    PolicyRejected {
        /// The policy's reasons.
        reasons: Vec<policy::Statement>,
    },
    /// Another client than the submitter wants to cancel it.
    #[error("only the client and subject that submitted the operation may cancel it")]
    NotSubmitter,
    /// It is too late to reject or cancel the operation.
    #[error("the operation is admitted: it can no longer be rejected or cancelled")]
    Admitted,
    /// The operation has failed.
    #[error("operation failed: {}", .0.detail)]
    Failed(Failure),
    /// A key in this state cannot sign or be changed.
    #[error("the key is `{state}`")]
    KeyNotActive {
        /// The key's state.
        state: &'static str,
    },
    /// Another lifecycle operation executes on the key.
    #[error("another lifecycle operation is executing on the key")]
    KeyBusy,
    /// The requested epoch cannot follow the key's epochs, or the key has left the epoch that the operation was
    /// admitted in.
    #[error("{0}")]
    EpochConflict(String),
    /// The operation cannot be aborted, or not with these lost receivers.
    #[error("the operation cannot be aborted: {0}")]
    NotAbortable(String),
    /// The caller names another publication than the operation's.
    #[error("`publication_receipt` is not the operation's publication receipt")]
    PublicationReceiptMismatch,
    /// The export's state would go back, or the request is about another export.
    #[error(
        "the export is `{}` on rail `{}` as `{}`: the same export may only go forward",
        .0.state.as_str(), .0.rail, .0.external_id
    )]
    ExportConflict(ExternalExport),
    /// The effect, or an earlier recovery of it, has another result root than the caller expects.
    #[error("effect `{effect_id}` has the result root `{actual}`")]
    RecoveryConflict {
        /// The effect's id.
        effect_id: String,
        /// The recorded result root.
        actual: Hex32,
    },
}

fn approval_reasons_text(reasons: &[String]) -> String {
    if reasons.is_empty() { "the policy gives no reason".to_owned() } else { reasons.join("; ") }
}

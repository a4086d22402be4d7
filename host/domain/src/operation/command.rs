//! What may be asked of an operation, and why it may be refused.

use super::effect::{Failure, Outcome};
use super::event::ExternalExport;
use crate::approval::{Approval, ApprovalFault};
use crate::ids::Hex32;
use crate::intent::KeyUse;
use crate::key::CustodyKey;
use crate::policy;
use crate::step::EffectId;
use crate::time::EpochMs;

/// A request to move an operation, with the instant it was made (the gateway's clock).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// When.
    pub at: EpochMs,
    /// What.
    pub action: Action,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Count an approval. `policy` is the evaluation over the approvals with this one; the engine leaves it out
    /// where [`super::approval_is_open`] says that nothing depends on it.
    Approve {
        /// The vote.
        approval: Approval,
        /// Who counts, in the policy's judgement.
        policy: Option<policy::Outcome>,
    },
    /// Make a key without waiting for approvals. `policy` is the evaluation over those there are, with none required.
    WaiveApprovals {
        /// Whether the policy agrees.
        policy: policy::Outcome,
    },
    /// Bring the operation to execution.
    Execute {
        /// The caller's clock: a claim.
        requested_at_ms: Option<i64>,
        /// The key as it stands; none while key creation has not generated it.
        key: Option<Box<CustodyKey>>,
    },
    /// Record that the ceremony begins: durable before the world is touched.
    BeginCeremony,
    /// Take the world's answer to an effect.
    Settle {
        /// Which effect.
        effect: EffectId,
        /// What came of it.
        outcome: Outcome,
        /// Digest of it, see [`Outcome::result_root`].
        result_root: Hex32,
    },
    /// Bring the operation to publication.
    Publish {
        /// What is published: `signature` for a signing operation.
        scope: String,
        /// The result the caller believes it publishes.
        expected_result_ref: Option<String>,
        /// The caller's clock: a claim.
        requested_at_ms: i64,
    },
    /// Record the recovery of one effect.
    Recover {
        /// The effect as the caller names it.
        effect_id: String,
        /// The result the caller expects.
        result_root: Hex32,
    },
    /// Record how far an external rail took the published result.
    Export {
        /// The publication the caller means.
        publication_receipt: String,
        /// How far it is.
        export: ExternalExport,
    },
    /// Give up on approvals older than this many milliseconds.
    Expire {
        /// How long approvals may take.
        approval_ttl_ms: u64,
    },
    /// Record that the same idempotency key came with another body.
    NoteReplay {
        /// Digest of that body.
        body_digest: Hex32,
    },
}

/// The caller may not, now or ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Execution before admission, or publication before execution.
    #[error("operation was not executed: {missing}")]
    NotExecuted {
        /// What is missing.
        missing: String,
    },
    /// Publication of another result.
    #[error("`expected_result_ref` is not the operation's result `{actual}`")]
    ResultRefMismatch {
        /// The operation's.
        actual: Hex32,
    },
    /// Publication in a scope this operation does not have.
    #[error("`/scope` must be {allowed}")]
    PublicationScope {
        /// What is allowed.
        allowed: &'static str,
    },
    /// The policy does not count this approver.
    #[error("approval of `{subject_id}` does not count{}", why(.reasons))]
    ApproverNotPermitted {
        /// Who.
        subject_id: String,
        /// The policy's reasons.
        reasons: Vec<String>,
    },
    /// The approval is not signed as it must be.
    #[error("approval of `{subject_id}` is refused: `{}`: {fault}", .fault.as_str())]
    ApprovalNotSigned {
        /// Who.
        subject_id: String,
        /// Why.
        fault: ApprovalFault,
    },
    /// The policy denies the operation itself.
    #[error("policy denies the operation{}", why(.reasons))]
    PolicyRejected {
        /// The policy's reasons.
        reasons: Vec<String>,
    },
    /// The operation failed for good.
    #[error("operation failed: {}", .0.detail)]
    Failed(Failure),
    /// The key moved to another epoch than the caller fenced.
    #[error("`epoch_fence_token_hex` is not the key's active epoch root `{actual}`")]
    EpochFenceMismatch {
        /// The key's.
        actual: Hex32,
    },
    /// The key does not sign or change in this state.
    #[error("key is `{state}`")]
    KeyNotActive {
        /// Where it is.
        state: &'static str,
    },
    /// The key signs for the other family.
    #[error("the key serves `{}` and signs nothing else; a key of its own is needed", serves.as_str())]
    KeyServesOther {
        /// What the key signs for.
        serves: KeyUse,
    },
    /// Another lifecycle operation executes on the key.
    #[error("another lifecycle operation is executing on the key")]
    KeyBusy,
    /// The epoch cannot follow the key's, or the key left the one the operation was admitted in.
    #[error("{0}")]
    EpochConflict(String),
    /// Export of another publication.
    #[error("`publication_receipt` is not the operation's; its view has it")]
    PublicationReceiptMismatch,
    /// The export would go backwards, or is another one.
    #[error(
        "the export is `{}` on rail `{}` as `{}`: the same export may only go forward",
        .0.state.as_str(), .0.rail, .0.external_id
    )]
    ExportConflict(ExternalExport),
    /// A recovery of a known effect with another result.
    #[error("effect `{effect_id}` has the result root `{actual}`")]
    RecoveryConflict {
        /// Which effect.
        effect_id: String,
        /// Its result.
        actual: Hex32,
    },
}

fn why(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

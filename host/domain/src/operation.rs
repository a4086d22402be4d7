//! The state machine of an operation.
//!
//! ```text
//! Submitted → PendingApproval → Deciding ⇄ Postponed
//!   Deciding → Admitting → Admitted → IssuingReceipt → ReceiptMaterialized
//!   → Executing ─(sign)────────────────────────→ Executed → Publishing → Published
//!             └─(new shares)→ CommittingEpoch ─↗
//! any phase before Executed that has not decided an epoch → [Discarding → [DiscardingRest]] → Failed
//! ```
//!
//! An operation for which nodes may hold staged shares, or an admission to sign, fails by way of Discarding. A signature cannot come
//! to be once so many nodes have signed a discard receipt that fewer than the threshold remain, and new shares cannot come in force
//! once one of their receivers has: then the key is free, and the other receivers discard what they hold. If the nodes had completed
//! the ceremony before, the operation goes on with its result.
//!
//! Three pure functions move it: [`decide`] turns a command into events, [`evolve`] applies an event, and [`next`]
//! gives the step that the operation owes. Effects follow from *state*, never from a command, so the first try, a
//! retry and the recovery after a crash take one path.

mod abort;
mod approve;
pub(crate) mod command;
mod effect;
mod evaluation;
pub(crate) mod event;
mod execute;
mod export;
mod next;
mod order;
mod phase;
mod plan;
mod postpone;
mod publish;
mod receipts;
mod recover;
mod reject;
mod settle;
pub(crate) mod state;
#[cfg(test)]
mod tests;

pub use crate::key::Staged;
pub use crate::step::{EffectId, EffectStep};
pub use approve::approval_is_open;
pub use command::{Action, Command, Refusal};
pub use effect::{Effect, Failure, Outcome, SignatureResult};
pub use evaluation::{Evaluation, evaluations};
pub use event::{
    Change, Event, ExportState, ExternalExport, KeySlot, Recovery, RecoveryOutcome, Requester,
    SIGNATURE_SCOPE, SettledEffect, Submission,
};
pub use next::{Step, may_wait_for_outcome, next};
pub use order::{contradicts_content, may_follow};
pub use phase::{NextAction, OwnStep, Phase, State};
pub use plan::{Plan, plan, target};
pub use receipts::signed_receipts;
pub use recover::recovery;
pub use reject::contradicts_ends;
pub use settle::ATTEMPTS_MAX;
pub use state::{Operation, apply, evolve, replay};

use crate::admission::Derivation;
use crate::key::CustodyKey;
use crate::policy;
use crate::time::EpochMs;

/// The content of an admission decision, for the authority to sign: what [`EffectStep::Decision`] needs.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// The operation, which has its quorum.
    pub operation: &'a Operation,
    /// The policy's outcome over its approvals, an `ALLOW`.
    pub policy: &'a policy::Outcome,
    /// The key; `None` for key creation.
    pub key: Option<&'a CustodyKey>,
    /// The derived key that signs, if it is not the key itself.
    pub derivation: Option<&'a Derivation>,
    /// The first valid instant.
    pub not_before_ms: EpochMs,
    /// The first instant that is no longer valid.
    pub not_after_ms: EpochMs,
}

/// The first events of an operation.
#[must_use]
pub fn open(submission: Submission, at: EpochMs) -> Vec<Event> {
    let follow = approve::request(&submission.policy, at);
    stamp(at, std::iter::once(Change::Submitted(Box::new(submission))).chain(follow).collect())
}

/// The events that a command causes; no events for a repeat, which is not an error. The time of an event is never
/// before the time of the previous one.
///
/// # Errors
/// [`Refusal`] when the command is not permitted, now or ever.
pub fn decide(operation: &Operation, command: &Command) -> Result<Vec<Event>, Refusal> {
    // The clock may be set back; the times of an operation's events never go back.
    let at = command.at.max(operation.updated_at_ms);
    let changes = match &command.action {
        Action::Approve { approval, policy } => approve::decide(operation, approval, policy.as_ref(), at),
        Action::Reject { rejection, policy } => reject::decide(operation, rejection, policy.as_ref()),
        Action::Cancel { client, reason } => reject::cancel(operation, client.as_ref(), reason),
        Action::LapseApprovals { lapsed, policy } => Ok(approve::lapse(operation, lapsed, policy, at)),
        Action::WaiveApprovals { policy } => Ok(approve::waive(operation, policy, at)),
        Action::PostponeAdmission { policy } => Ok(postpone::postpone(operation, policy, at)),
        Action::ResumeAdmission => Ok(postpone::resume(operation, at)),
        Action::Expire { approval_ttl_ms } => Ok(approve::expire(operation, command.at, *approval_ttl_ms)),
        Action::Execute { requested_at_ms, key } => {
            execute::decide(operation, *requested_at_ms, key.as_deref(), command.at)
        }
        Action::BeginCeremony => Ok(execute::begin_ceremony(operation)),
        Action::Settle { effect, outcome } => {
            return Ok(stamp_settled(at, *effect, settle::decide(operation, *effect, outcome)));
        }
        Action::Publish { scope, expected_result_ref, requested_at_ms } => {
            publish::decide(operation, scope, expected_result_ref.as_deref(), *requested_at_ms)
        }
        Action::Recover { effect_id, result_root } => {
            recover::decide(operation, effect_id, *result_root, command.at)
        }
        Action::Export { publication_receipt, export } => {
            export::decide(operation, publication_receipt, export)
        }
        Action::NoteReplay { body_digest } => Ok(recover::note_replay(operation, *body_digest)),
    }?;
    Ok(stamp(at, changes))
}

/// The events of these changes; the first one names the effect that caused them.
fn stamp_settled(at: EpochMs, id: EffectId, changes: Vec<Change>) -> Vec<Event> {
    let mut events = stamp(at, changes);
    if let Some(first) = events.first_mut() {
        let result_root = order::outcome_root(&first.change);
        first.settles = result_root.map(|result_root| SettledEffect { id, result_root });
    }
    events
}

/// The events of these changes, without a requester.
fn stamp(at_ms: EpochMs, changes: Vec<Change>) -> Vec<Event> {
    changes.into_iter().map(|change| Event { at_ms, change, requested_by: None, settles: None }).collect()
}

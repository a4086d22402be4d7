//! The whole life of an operation.
//!
//! ```text
//! Submitted → PendingApproval → Deciding → Applying → Admitted → Materializing → ReceiptMaterialized
//!   → Preparing ─(sign)────────────────────────→ Executed → Publishing → Published
//!             └─(new shares)→ Committing ──────↗
//! any phase before Executed that has not decided an epoch → [Discarding] → Failed
//! ```
//!
//! A signing operation with a decision fails by way of Discarding: it becomes Failed when so many nodes have signed a discard
//! receipt that fewer than the threshold are left.
//!
//! Three pure functions move it: [`decide`] says what a command makes happen, [`evolve`] what an event makes of
//! the operation, [`next`] what the operation owes. Effects follow from *state*, never from a command, so the
//! first try, a retry and recovery after a crash are one path.

mod approve;
mod command;
mod course;
mod effect;
mod evaluation;
mod event;
mod evolve;
mod execute;
mod export;
mod owed;
mod phase;
mod plan;
mod publish;
mod recover;
mod settle;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::samples;

pub use approve::approval_is_open;
pub use command::{Action, Command, Refusal};
pub use course::may_follow;
pub use effect::{Effect, EffectId, EffectStep, Failure, Outcome, SignatureResult};
pub use evaluation::{Evaluation, evaluations};
pub use event::{
    Change, Event, ExportState, ExternalExport, KeySlot, Recovery, RecoveryOutcome, Requester, SettledEffect,
    Submission,
};
pub use evolve::{evolve, replay};
pub use owed::{Step, next};
pub use phase::{NextAction, Phase, State};
pub use plan::{Plan, Staged, plan, target};
pub use recover::recovery;
pub use settle::ATTEMPTS_MAX;

use crate::admission::Admission;
use crate::approval::limits::CLOCK_SKEW_MS;
use crate::approval::{Approval, ApprovalFault, ApprovalSubject, claimed_between};
use crate::binding::ClientBinding;
use crate::ids::{Hex32, OperationId, Tenant};
use crate::intent::{Intent, OperationType};
use crate::policy;
use crate::roster::ParticipantIndex;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Other bodies under one idempotency key that are kept in evidence.
const REPLAYS_MAX: usize = 64;

/// An operation as its events made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name for ever.
    pub id: OperationId,
    /// How many events made it: the store compares it before it writes.
    pub revision: u64,
    /// Whose.
    pub tenant: Tenant,
    /// Who submitted it.
    pub submitter: ClientBinding,
    /// What is to be done.
    pub intent: Intent,
    /// What approvals, admission and nodes bind to.
    pub intent_hash: Hex32,
    /// The key it is about.
    pub key: KeySlot,
    /// The key that a rotation makes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub successor: Option<KeySlot>,
    /// Digest of the request body.
    pub body_digest: Hex32,
    /// Where it is.
    pub phase: Phase,
    /// The approvals that count, oldest first, one a subject.
    pub approvals: Vec<Approval>,
    /// The subjects of approvals that came after the quorum.
    pub late_approvals: Vec<String>,
    /// The latest evaluation.
    pub policy: policy::Outcome,
    /// The signed decision, once there is one.
    pub admission: Option<Box<Admission>>,
    /// Empty until the receipt step.
    pub policy_receipt_id: String,
    /// New shares, from the point of no return on.
    pub staged: Option<Box<Staged>>,
    /// The result, once executed.
    pub result_ref: Option<Hex32>,
    /// The signature, when one was made.
    pub signature: Option<Box<SignatureResult>>,
    /// The receipt, once published.
    pub publication_receipt: Option<String>,
    /// Where it is on an external rail.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub export: Option<ExternalExport>,
    /// Why it failed or is being abandoned.
    pub failure: Option<Failure>,
    /// Effects that came to their end, in order.
    pub settled: Vec<SettledEffect>,
    /// Digests of other bodies that came under the same idempotency key.
    pub replays: Vec<Hex32>,
    /// Recoveries asked for, in order.
    pub recoveries: Vec<Recovery>,
    /// When it was submitted.
    pub created_at_ms: EpochMs,
    /// When it last changed.
    pub updated_at_ms: EpochMs,
}

impl Operation {
    /// The view's `state`. A signing operation in `Discarding` is still `executing`: a signature may exist.
    #[must_use]
    pub const fn state(&self) -> State {
        if self.is_being_given_up() { State::Executing } else { self.phase.state() }
    }

    const fn is_being_given_up(&self) -> bool {
        matches!((&self.phase, self.intent.operation_type()), (Phase::Discarding, OperationType::Sign))
    }

    /// The endpoints that advance it. What a custody signature moves is on its way until its rail has settled it.
    #[must_use]
    pub fn next_actions(&self) -> &'static [NextAction] {
        let is_settled = self.export.as_ref().is_some_and(|export| export.state == ExportState::Settled);
        match (&self.intent, &self.phase) {
            (Intent::AssetAction(_), Phase::Published) if !is_settled => &[NextAction::ExternalExport],
            _ if self.is_being_given_up() => &[NextAction::Execute],
            (_, phase) => phase.next_actions(self.intent.publication_mode()),
        }
    }

    /// What its approvals are about.
    #[must_use]
    pub const fn approval_subject(&self) -> ApprovalSubject<'_> {
        let Self { tenant, id, key, intent_hash, .. } = self;
        ApprovalSubject { tenant, operation_id: *id, key_id: key.key_id, intent_hash: *intent_hash }
    }

    /// Whether an approval that came now may say that it was given then, by its giver's clock. Operations have the ids that
    /// their names give them: one from before the submission is of another operation of the same name.
    ///
    /// # Errors
    /// [`ApprovalFault`]: `InFuture`, `TooOld`.
    pub fn may_be_approved_at(&self, claimed_at_ms: i64, now: EpochMs) -> Result<(), ApprovalFault> {
        let submitted = EpochMs(self.created_at_ms.0.saturating_sub(CLOCK_SKEW_MS));
        claimed_between(claimed_at_ms, submitted, now)
    }

    /// Who must do what; none before the decision.
    #[must_use]
    pub fn plan(&self) -> Option<Plan> {
        self.admission.as_ref().map(|admission| plan(&admission.decision))
    }

    /// The attempt at the ceremony that gave the result, once one did.
    #[must_use]
    pub fn executed_attempt(&self) -> u32 {
        let settled = self.settled.iter().rev().map(|settled| settled.id);
        settled.filter(|id| id.step == EffectStep::Execute).map(|id| id.attempt).next().unwrap_or(1)
    }

    /// The nodes that take part; none before the decision.
    #[must_use]
    pub fn planned_nodes(&self) -> BTreeSet<ParticipantIndex> {
        self.plan().map(|plan| plan.nodes).unwrap_or_default()
    }
}

/// The events that open an operation.
#[must_use]
pub fn open(submission: Submission, at: EpochMs) -> Vec<Event> {
    let quorum = submission.policy.quorum.clone();
    let mut changes = vec![
        Change::Submitted(Box::new(submission)),
        Change::ApprovalRequested { required: quorum.required },
    ];
    if quorum.required == 0 && quorum.satisfied {
        changes.push(Change::QuorumReached);
    }
    stamp(at, changes)
}

/// What a command makes happen. No events means that it is so already: a repeat is an answer, not an error. No event is of
/// an earlier time than the one before it.
///
/// # Errors
/// [`Refusal`] when the caller may not.
pub fn decide(operation: &Operation, command: &Command) -> Result<Vec<Event>, Refusal> {
    // The clock may be put back; the times of an operation's events never go back.
    let at = command.at.max(operation.updated_at_ms);
    let changes = match &command.ask {
        Action::Approve { approval, policy } => approve::decide(operation, approval, policy.as_ref()),
        Action::WaiveApprovals { policy } => Ok(approve::waive(operation, policy)),
        Action::Expire { approval_ttl_ms } => Ok(approve::expire(operation, command.at, *approval_ttl_ms)),
        Action::Execute { requested_at_ms, key } => {
            execute::decide(operation, *requested_at_ms, key.as_deref(), command.at)
        }
        Action::BeginCeremony => Ok(execute::begin_ceremony(operation)),
        Action::Settle { effect, outcome, result_root } => {
            return Ok(settled(
                at,
                *effect,
                *result_root,
                settle::decide(operation, *effect, outcome, *result_root),
            ));
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
        Action::NoteReplay { body_digest } => Ok(note_replay(operation, *body_digest)),
    }?;
    Ok(stamp(at, changes))
}

/// Each other body is noted once, and only so many of them.
fn note_replay(operation: &Operation, body_digest: Hex32) -> Vec<Change> {
    let is_known = operation.body_digest == body_digest || operation.replays.contains(&body_digest);
    if is_known || operation.replays.len() >= REPLAYS_MAX {
        return Vec::new();
    }
    vec![Change::ReplayNoted { body_digest }]
}

/// The first of the events says which effect they end.
fn settled(at: EpochMs, id: EffectId, result_root: Hex32, changes: Vec<Change>) -> Vec<Event> {
    let mut events = stamp(at, changes);
    if let Some(first) = events.first_mut() {
        first.settles = Some(SettledEffect { id, result_root });
    }
    events
}

fn stamp(at_ms: EpochMs, changes: Vec<Change>) -> Vec<Event> {
    changes.into_iter().map(|change| Event { at_ms, change, requested_by: None, settles: None }).collect()
}

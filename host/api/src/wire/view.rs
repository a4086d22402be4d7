//! [`OperationView`]: an operation as responses show it.

use super::approvals::ApprovalStatementView;
use super::policy::PolicyPreview;
use crate::warning::Warning;
use gateway_domain::approval::{LapsedApproval, Rejection};
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId};
use gateway_domain::intent::{Family, OperationType};
use gateway_domain::names::is_same_person;
use gateway_domain::openapi::words;
use gateway_domain::operation::{Failure, NextAction, Operation, OwnStep, Recovery, SignatureResult, State};
use gateway_domain::policy::Missing;
use gateway_domain::roster::Roster;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::Record;
use gateway_evidence::summary::result;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An operation.
#[derive(Debug, Serialize, ToSchema)]
pub struct OperationView {
    /// The operation's id.
    pub operation_id: Hex32,
    /// The state.
    pub state: State,
    /// The intent as submitted, with `operation_type`, `intent_hash`, `key_ref` and `key_id`. Never changes.
    #[schema(value_type = IntentView)]
    pub intent: Value,
    /// The approvals so far.
    pub approvals: ApprovalsView,
    /// The rejections so far; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<RejectionView>,
    /// The statement that approvers sign; present while `next_actions` has `approve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_statement: Option<ApprovalStatementView>,
    /// The latest policy evaluation.
    pub policy: PolicyPreview,
    /// Hashes and receipts of the operation.
    pub runtime: RuntimeView,
    /// The published signature; empty before publication, and for operations on keys.
    #[schema(value_type = SignatureResult)]
    pub result: Value,
    /// The actions that the operation's state allows now: the last path segment of each endpoint.
    pub next_actions: &'static [NextAction],
    /// Method and path of each next action, and as `self` of the operation.
    pub links: BTreeMap<&'static str, Link>,
    /// The step that the gateway completes by itself: read the operation again at `links.self` for its outcome. Null while it
    /// waits for a request, and at its end.
    #[schema(required = true)]
    pub in_progress: Option<OwnStep>,
    /// Why the operation failed, or is being discarded; null otherwise.
    #[schema(required = true)]
    pub failure: Option<FailureView>,
    /// What the gateway ignored or replaced in the request that this answers; empty on reads.
    pub warnings: Vec<Warning>,
    /// Time of submission, milliseconds since 1970.
    pub created_at_ms: u64,
    /// Time of the latest change, milliseconds since 1970.
    pub updated_at_ms: u64,
    /// Time at which the operation fails if it is not admitted by then, milliseconds since 1970; null once it is admitted or has
    /// failed. The time for which the policy postpones the admission does not count.
    #[schema(required = true)]
    pub expires_at_ms: Option<u64>,
}

/// The members that a view adds to the intent. The document has one schema for each kind of intent in its place, with these members.
#[derive(Serialize, ToSchema)]
struct IntentView {
    /// The type of operation.
    operation_type: OperationType,
    /// `SHA-256("svc/intent/v1" || canonical intent)`: approvals, the admission decision and the nodes bind to it.
    intent_hash: Hex32,
    /// The name of the key that signs, is created or is changed.
    key_ref: KeyRef,
    /// The id of that key.
    key_id: KeyId,
}

/// Answer of `POST /v1/operations/sign`.
#[derive(Debug, Serialize, ToSchema)]
pub struct SignOperationResponse {
    /// The operation.
    pub operation: OperationView,
}

/// Answer of `POST .../node-recovery`.
#[derive(Debug, Serialize, ToSchema)]
pub struct OperationNodeRecoveryResponse {
    /// The recovery of the effect.
    pub recovery: Recovery,
    /// The operation.
    pub operation: OperationView,
}

/// A page of operations.
#[derive(Debug, Serialize, ToSchema)]
pub struct OperationsResponse {
    /// The operations, newest first.
    pub operations: Vec<OperationView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Whose approval operations await.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Awaiting {
    /// The caller's.
    Me,
}

/// The reason why an operation failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailureView {
    /// The code, on which clients can rely: `approval_expired`, `policy_rejected`, `admission_expired`, `epoch_fence_mismatch` and
    /// others.
    pub code: String,
    /// What happened, for people. The wording may change.
    pub message: String,
    /// The participants that caused it by misbehaving, by index.
    pub culprits: Vec<u16>,
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code.clone(),
            message: failure.detail.clone(),
            culprits: failure.culprits.iter().map(|participant| participant.0).collect(),
        }
    }
}

/// The states of an operation, in PascalCase.
struct RuntimePhase;

impl PartialSchema for RuntimePhase {
    fn schema() -> RefOr<Schema> {
        words("The states of an operation, in PascalCase.", State::ALL.map(State::runtime_phase))
    }
}

impl ToSchema for RuntimePhase {}

/// Approvals so far.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalsView {
    /// The number of approvals that count towards the quorum.
    pub approved: usize,
    /// The number required.
    pub required: u32,
    /// The subject ids of the approvers that count.
    pub subjects: Vec<String>,
    /// Who must approve yet: people of any group, and of each group that the policy names. One person may count for several.
    pub missing: Vec<Missing>,
    /// Approvals that counted and no longer do; absent without any. Their approvers may approve again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lapsed: Vec<LapsedApproval>,
    /// Time before which the policy does not allow the admission, milliseconds since 1970, while the operation waits for it with its
    /// quorum; null otherwise. Then the policy is evaluated again, without a request.
    #[schema(required = true)]
    pub admit_not_before_ms: Option<u64>,
}

/// A rejection, or an abort.
#[derive(Debug, Serialize, ToSchema)]
pub struct RejectionView {
    /// The approver's subject id.
    pub subject_id: String,
    /// The roles in which the approver rejected.
    pub roles: Vec<String>,
    /// The reason.
    pub reason: String,
    /// For an abort of a change of a key, the receivers of new shares that are lost; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_participants: Option<Vec<u16>>,
    /// Time of the rejection by the gateway's clock, milliseconds since 1970.
    pub rejected_at_ms: u64,
}

impl From<&Rejection> for RejectionView {
    fn from(rejection: &Rejection) -> Self {
        Self {
            subject_id: rejection.subject_id.clone(),
            roles: rejection.roles.clone(),
            reason: rejection.reason.clone(),
            lost_participants: rejection.lost.as_ref().map(|lost| lost.iter().map(|node| node.0).collect()),
            rejected_at_ms: rejection.rejected_at_ms.0,
        }
    }
}

/// Hashes and receipts of an operation.
#[derive(Debug, Serialize, ToSchema)]
pub struct RuntimeView {
    /// The state, in PascalCase.
    #[schema(value_type = RuntimePhase)]
    pub phase: String,
    /// Head of the operation's hash chain.
    pub record_root: Hex32,
    /// Root of the log of all events right after the operation's last event.
    pub ledger_root: Hex32,
    /// Hash of the signed admission decision; 64 zeros until it is signed.
    pub admission_hash: Hex32,
    /// Id of the nodes' policy receipts; empty until they are issued.
    pub policy_receipt_id: String,
    /// Always null: this runtime has no permits.
    #[schema(required = true)]
    pub permit_binding_id: Option<String>,
    /// Hash of the result; null until the operation is executed.
    #[schema(required = true)]
    pub result_ref: Option<Hex32>,
    /// Id of the nodes' publication receipts; null until publication.
    #[schema(required = true)]
    pub publication_receipt: Option<String>,
}

/// The method and path of an endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub struct Link {
    /// HTTP method.
    pub method: &'static str,
    /// Path.
    pub href: String,
}

impl OperationView {
    /// The view of an operation whose approvals expire at `expires_at`, and of which these no longer count, in the answer to a request with
    /// these warnings.
    #[must_use]
    pub fn new(
        record: &Record,
        expires_at: Option<EpochMs>,
        lapsed: Vec<LapsedApproval>,
        warnings: Vec<Warning>,
    ) -> Self {
        let operation = &record.operation;
        Self {
            operation_id: operation.id.0,
            state: operation.state(),
            intent: intent(operation),
            approvals: approvals(operation, lapsed),
            rejections: operation.rejections.iter().map(RejectionView::from).collect(),
            approval_statement: approval_statement(operation),
            policy: PolicyPreview::from(&operation.policy),
            runtime: runtime(record),
            result: result(operation),
            next_actions: operation.next_actions(),
            links: links(operation),
            in_progress: operation.phase.in_progress(),
            failure: operation.failure.as_ref().map(FailureView::from),
            warnings,
            created_at_ms: operation.created_at_ms.0,
            updated_at_ms: operation.updated_at_ms.0,
            expires_at_ms: expires_at.map(|at| at.0),
        }
    }
}

fn approvals(operation: &Operation, lapsed: Vec<LapsedApproval>) -> ApprovalsView {
    let has_lapsed = |subject: &str| lapsed.iter().any(|one| is_same_person(&one.subject_id, subject));
    let quorum = operation.policy.quorum.clone().without(has_lapsed);
    let missing = quorum.missing();
    ApprovalsView {
        approved: quorum.subjects.len(),
        required: quorum.required,
        subjects: quorum.subjects,
        missing,
        lapsed,
        admit_not_before_ms: operation.admit_not_before().map(|at| at.0),
    }
}

fn approval_statement(operation: &Operation) -> Option<ApprovalStatementView> {
    let is_awaited = operation.next_actions().contains(&NextAction::Approve);
    (is_awaited || operation.may_be_rejected() || operation.may_abort())
        .then(|| ApprovalStatementView::new(&operation.approval_subject()).ok())
        .flatten()
}

fn runtime(record: &Record) -> RuntimeView {
    let operation = &record.operation;
    RuntimeView {
        phase: operation.state().runtime_phase().to_owned(),
        record_root: record.record_root,
        ledger_root: record.ledger_root,
        admission_hash: operation
            .admission
            .as_ref()
            .map_or(Hex32::ZERO, |admission| admission.admission_hash),
        policy_receipt_id: operation.policy_receipt_id.clone(),
        permit_binding_id: None,
        result_ref: operation.result_ref,
        publication_receipt: operation.publication_receipt.clone(),
    }
}

/// The intent, with the operation's key, hash and type.
fn intent(operation: &Operation) -> Value {
    let view = IntentView {
        operation_type: operation.intent.operation_type(),
        intent_hash: operation.intent_hash,
        key_ref: operation.key.key_ref.clone(),
        key_id: operation.key.key_id,
    };
    let mut members = json!(operation.intent);
    if let (Value::Object(members), Value::Object(added)) = (&mut members, json!(view)) {
        members.extend(added);
    }
    members
}

/// The roster's participants, ascending.
#[must_use]
pub fn roster(roster: &Roster) -> Vec<u16> {
    roster.iter().map(|participant| participant.0).collect()
}

/// The operation's path.
pub(crate) fn path(family: Family, id: OperationId) -> String {
    match family {
        Family::Product => format!("/v1/operations/{id}"),
        Family::Custody => format!("/v1/custody/operations/{id}"),
    }
}

fn links(operation: &Operation) -> BTreeMap<&'static str, Link> {
    let own = path(operation.intent.family(), operation.id);
    let may_be_rejected = operation.may_be_rejected();
    let ends = [("abort", operation.may_abort()), ("reject", may_be_rejected), ("cancel", may_be_rejected)];
    let ends = ends.into_iter().filter_map(|(end, is_possible)| is_possible.then_some(end));
    let actions = operation.next_actions().iter().map(|action| action.as_str()).chain(ends);
    let action = |name| (name, Link { method: "POST", href: format!("{own}/{name}") });
    let mut links: BTreeMap<_, _> = actions.map(action).collect();
    links.insert("self", Link { method: "GET", href: own });
    links
}

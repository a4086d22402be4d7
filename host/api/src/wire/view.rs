//! [`OperationView`]: an operation as responses show it.

use super::approvals::ApprovalStatementView;
use super::intent_view::{IntentView, OperationResult};
use super::policy::PolicyPreview;
use crate::warning::Warning;
use gateway_domain::approval::{LapsedApproval, Rejection};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::Family;
use gateway_domain::names::is_same_person;
use gateway_domain::operation::{Failure, NextAction, Operation, OwnStep, State};
use gateway_domain::roster::Roster;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::Record;
use gateway_evidence::summary::result;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An operation.
#[derive(Debug, Serialize, ToSchema)]
pub struct OperationView {
    /// The operation's id.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub operation_id: Hex32,
    /// The state.
    #[schema(value_type = OperationState)]
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
    #[schema(value_type = OperationResult)]
    pub result: Value,
    /// The actions that the operation's state allows now: the last path segment of each endpoint.
    #[schema(value_type = Vec<ActionName>)]
    pub next_actions: Vec<String>,
    /// Method and path of each next action, and as `self` of the operation.
    pub links: BTreeMap<String, Link>,
    /// The step that the gateway completes by itself: read the operation again at `links.self` for its outcome. Null while it
    /// waits for a request, and at its end.
    #[schema(required = true, value_type = Option<StepInProgress>)]
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
    /// failed.
    #[schema(required = true)]
    pub expires_at_ms: Option<u64>,
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

/// A step that the gateway completes by itself.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum StepInProgress {
    /// The authority decides on the approved operation, and the nodes check and store the decision.
    Admission,
    /// The nodes sign, or change their shares.
    Execution,
    /// The nodes record that the result is published.
    Publication,
    /// The nodes erase what they have of an operation that fails.
    Discard,
}

/// The states of an operation.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the state names of the interface")]
pub enum OperationState {
    Submitted,
    PendingApproval,
    Admitted,
    ReceiptMaterialized,
    Executing,
    Executed,
    Published,
    Failed,
}

/// The states of an operation, in PascalCase.
#[derive(ToSchema)]
#[expect(missing_docs, reason = "the state names of the interface")]
pub enum RuntimePhase {
    Submitted,
    PendingApproval,
    Admitted,
    ReceiptMaterialized,
    Executing,
    Executed,
    Published,
    Failed,
}

/// The endpoints that advance an operation, by the last segment of their paths.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the last segments of the paths")]
pub enum ActionName {
    Approve,
    Execute,
    Publish,
    NodeRecovery,
    ExternalExport,
}

/// Approvals so far.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalsView {
    /// The number of approvals that count towards the quorum.
    pub approved: usize,
    /// The number required.
    pub required: u32,
    /// The subject ids of the approvers that count.
    pub subjects: Vec<String>,
    /// Approvals that counted and no longer do; absent without any. Their approvers may approve again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lapsed: Vec<LapsedApprovalView>,
}

/// An approval that no longer counts.
#[derive(Debug, Serialize, ToSchema)]
pub struct LapsedApprovalView {
    /// The approver's subject id.
    pub subject_id: String,
    /// The reason: `key_revoked`, `key_expired`, `too_old`, `role_not_held` and others (`host/docs/approvals.md`).
    pub reason: String,
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
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub record_root: Hex32,
    /// Root of the log of all events right after the operation's last event.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub ledger_root: Hex32,
    /// Hash of the signed admission decision; 64 zeros until it is signed.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub admission_hash: Hex32,
    /// Id of the nodes' policy receipts; empty until they are issued.
    pub policy_receipt_id: String,
    /// Always null: this runtime has no permits.
    #[schema(required = true)]
    pub permit_binding_id: Option<String>,
    /// Hash of the result; null until the operation is executed.
    #[schema(required = true, value_type = Option<String>, pattern = "^[0-9a-f]{64}$")]
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
        let next_actions = operation.next_actions().iter().map(|action| action.as_str().to_owned());
        let next_actions: Vec<String> = next_actions.collect();
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
            links: links(operation, &next_actions),
            next_actions,
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
    let quorum = &operation.policy.quorum;
    let counts = |subject: &&String| !lapsed.iter().any(|one| is_same_person(&one.subject_id, subject));
    let subjects: Vec<String> = quorum.subjects.iter().filter(counts).cloned().collect();
    let view = |LapsedApproval { subject_id, reason }| LapsedApprovalView { subject_id, reason };
    ApprovalsView {
        approved: subjects.len(),
        required: quorum.required,
        subjects,
        lapsed: lapsed.into_iter().map(view).collect(),
    }
}

fn approval_statement(operation: &Operation) -> Option<ApprovalStatementView> {
    let is_awaited = operation.next_actions().contains(&NextAction::Approve);
    (is_awaited || operation.may_abort())
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
    let mut summary = match serde_json::to_value(&operation.intent) {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::new(),
    };
    let add =
        |summary: &mut Map<String, Value>, name: &str, value: Value| summary.insert(name.to_owned(), value);
    add(&mut summary, "operation_type", json!(operation.intent.operation_type()));
    add(&mut summary, "intent_hash", json!(operation.intent_hash));
    add(&mut summary, "key_ref", json!(operation.key.key_ref));
    add(&mut summary, "key_id", json!(operation.key.key_id));
    Value::Object(summary)
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

fn links(operation: &Operation, next_actions: &[String]) -> BTreeMap<String, Link> {
    let own = path(operation.intent.family(), operation.id);
    let may_be_rejected = operation.may_be_rejected();
    let action = |name: &String| (name.clone(), Link { method: "POST", href: format!("{own}/{name}") });
    let mut links: BTreeMap<_, _> = next_actions.iter().map(action).collect();
    let ends = [("abort", operation.may_abort()), ("reject", may_be_rejected), ("cancel", may_be_rejected)];
    for (end, _) in ends.into_iter().filter(|(_, is_possible)| *is_possible) {
        links.insert(end.to_owned(), Link { method: "POST", href: format!("{own}/{end}") });
    }
    links.insert("self".to_owned(), Link { method: "GET", href: own });
    links
}

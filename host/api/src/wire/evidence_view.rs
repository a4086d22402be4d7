//! The shapes of evidence and audit logs, for the OpenAPI document only: `gateway_evidence` writes the documents.
//! `host/docs/evidence.md` says how to verify them.

use super::external_export::ExternalExportView;
use super::intent_view::{Intent, OperationResult};
use super::policy::PolicyDecision;
use super::view::OperationState;
use utoipa::ToSchema;

/// A page of an operation's evidence, for offline verification.
#[derive(ToSchema)]
pub struct EvidenceDocument {
    /// `svc/evidence/v4`.
    pub format: String,
    /// The members of every page.
    #[serde(flatten)]
    pub page: EvidencePage,
    /// The tenant that owns the operation.
    pub tenant: String,
    /// The client that submitted it.
    pub submitter: Submitter,
    /// The intent as submitted.
    pub intent: Intent,
    /// `SHA-256("svc/intent/v1" || canonical intent)`.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub intent_hash: String,
    /// The name of the key that signs, is created or is changed.
    pub key_ref: String,
    /// The id of that key.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub key_id: String,
    /// The approvals that count, oldest first.
    pub approvals: Vec<EvidenceApproval>,
    /// Every recorded policy evaluation, oldest first.
    pub policy: Vec<EvidenceEvaluation>,
    /// The authority's signed decision; null before admission.
    #[schema(required = true)]
    pub decision: Option<EvidenceDecision>,
    /// The receipts that nodes signed, by step.
    pub receipts: Vec<StepReceipts>,
    /// The completed effects, in order.
    pub effects: Vec<CompletedEffect>,
    /// Hash of the result; null before execution.
    #[schema(required = true, pattern = "^[0-9a-f]{64}$")]
    pub result_ref: Option<String>,
    /// The published signature.
    pub result: OperationResult,
    /// Id of the nodes' publication receipts; null before publication.
    #[schema(required = true)]
    pub publication_receipt: Option<String>,
    /// The last recorded state on an external rail; null before one is recorded.
    #[schema(required = true)]
    pub external_export: Option<ExternalExportView>,
    /// The key as the operation's events leave it.
    pub key: EvidenceKey,
    /// The time of the statement, milliseconds since 1970.
    pub stated_at_ms: u64,
    /// The statement that this was the operation's last event at that time, as a signed note.
    pub statement: String,
}

/// A page of an operation's audit log: its events, with accounts, free texts and operands as hashes.
#[derive(ToSchema)]
pub struct AuditDocument {
    /// `svc/audit-log/v3`.
    pub format: String,
    /// The members of every page.
    #[serde(flatten)]
    pub page: EvidencePage,
}

/// The members of every page of evidence and audit logs.
#[derive(ToSchema)]
pub struct EvidencePage {
    /// The operation's id.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub operation_id: String,
    /// The family of the operation.
    pub family: OperationFamily,
    /// The operation's state.
    pub state: OperationState,
    /// The hash of the operation's last event.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub record_root: String,
    /// The root of the log of all events right after that event.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub ledger_root: String,
    /// The proof that that event is in the log.
    #[schema(required = true)]
    pub log: Option<EvidenceLog>,
    /// The number of the operation's events.
    pub total_events: u64,
    /// Whether this page lacks some of them.
    pub truncated: bool,
    /// The hash of the event before the first one on this page; 64 zeros if the page begins with the first event.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub previous_hash: String,
    /// `after_seq` of the next page; null on the last one.
    #[schema(required = true)]
    pub next_after_seq: Option<u64>,
    /// The events on this page, oldest first.
    pub events: Vec<EvidenceEvent>,
}

/// The families of operations.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum OperationFamily {
    /// Payments under `/v1/operations`.
    Product,
    /// Keys and their signatures under `/v1/custody`.
    Custody,
}

/// The client that submitted an operation.
#[derive(ToSchema)]
pub struct Submitter {
    /// The client's id.
    pub client_id: String,
    /// The subject's id.
    pub subject_id: String,
    /// The subject's roles.
    pub roles: Vec<String>,
    /// The caller's scopes.
    pub scopes: Vec<String>,
    /// The tenant, if the caller named or had one.
    pub tenant: Option<String>,
}

/// An approval.
#[derive(ToSchema)]
pub struct EvidenceApproval {
    /// The approver's subject id.
    pub subject_id: String,
    /// The approver's roles.
    pub roles: Vec<String>,
    /// The time by the approver's clock, milliseconds since 1970.
    pub claimed_at_ms: i64,
    /// The time at which the gateway received it, milliseconds since 1970.
    pub approved_at_ms: u64,
    /// The approver's signature, if the approval is signed: see `host/docs/approvals.md`.
    #[schema(value_type = Option<Object>)]
    pub signature: Option<serde_json::Value>,
}

/// A policy evaluation.
#[derive(ToSchema)]
pub struct EvidenceEvaluation {
    /// The number of the event that recorded it.
    pub seq: u64,
    /// The step at which the policy was asked: `submit`, `approval` or `admission`.
    pub moment: String,
    /// The decision.
    pub decision: PolicyDecision,
    /// The id of the bundle.
    pub bundle_id: String,
    /// SHA-256 of the bundle's canonical manifest.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub bundle_hash: String,
    /// The digest of the policy's input.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub input_hash: String,
    /// The digest of the policy's output.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub output_hash: String,
    /// The fuel that the evaluation used.
    pub fuel_used: u64,
}

/// The authority's signed decision.
#[derive(ToSchema)]
pub struct EvidenceDecision {
    /// The hash of the decision.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub admission_hash: String,
    /// The decision as a DSSE envelope.
    #[schema(value_type = Object)]
    pub envelope: serde_json::Value,
}

/// The receipts of one step.
#[derive(ToSchema)]
pub struct StepReceipts {
    /// The step: `admission`, `policy-receipt`, `execute`, `commit-epoch`, `publish` or `discard`.
    pub step: String,
    /// A receipt of each node.
    pub receipts: Vec<NodeReceiptView>,
}

/// A node's receipt.
#[derive(ToSchema)]
pub struct NodeReceiptView {
    /// The node, by index.
    pub participant: u16,
    /// The hash of the step, chained to the node's earlier ones of this operation.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub transition_hash: String,
    /// The position of the receipt in the node's own log, from 0.
    pub log_index: u64,
    /// The node's Ed25519 signature over both.
    #[schema(pattern = "^[0-9a-f]{128}$")]
    pub node_signature: String,
}

/// A completed effect, which a node recovery may name.
#[derive(ToSchema)]
pub struct CompletedEffect {
    /// The effect's id.
    pub effect_id: String,
    /// The digest of its outcome.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub result_root: String,
}

/// A key as an operation's events leave it. Members that the events do not show are null.
#[derive(ToSchema)]
pub struct EvidenceKey {
    /// The key's name.
    pub key_ref: String,
    /// The key's id.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub key_id: String,
    /// `<profile>:<public key hex>`.
    #[schema(required = true)]
    pub public_key_artifact_ref: Option<String>,
    /// The public key that verifies payments without `bip32`.
    #[schema(required = true, pattern = "^[0-9a-f]{64}$")]
    pub payments_public_key_hex: Option<String>,
    /// The name of the key's epoch.
    #[schema(required = true)]
    pub active_epoch: Option<String>,
    /// The root of that epoch.
    #[schema(required = true, pattern = "^[0-9a-f]{64}$")]
    pub active_epoch_root: Option<String>,
    /// The key that replaces this one, once a rotation is executed.
    #[schema(required = true)]
    pub successor: Option<EvidenceSuccessor>,
}

/// The key that a rotation made.
#[derive(ToSchema)]
pub struct EvidenceSuccessor {
    /// The key's name.
    pub key_ref: String,
    /// The key's id.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub key_id: String,
    /// `<profile>:<public key hex>`.
    #[schema(required = true)]
    pub public_key_artifact_ref: Option<String>,
    /// The public key that verifies payments without `bip32`.
    #[schema(required = true, pattern = "^[0-9a-f]{64}$")]
    pub payments_public_key_hex: Option<String>,
    /// The name of the key's epoch.
    #[schema(required = true)]
    pub active_epoch: Option<String>,
    /// The root of that epoch.
    #[schema(required = true, pattern = "^[0-9a-f]{64}$")]
    pub active_epoch_root: Option<String>,
}

/// The proof that the operation's last event is in the log of all events.
#[derive(ToSchema)]
pub struct EvidenceLog {
    /// The event's index in the log, from 0.
    pub index: u64,
    /// A C2SP `tlog-proof` with a signed checkpoint.
    pub proof: String,
    /// The hashes that prove that the log at `ledger_root` is a prefix of the log at the checkpoint.
    pub consistency: Vec<String>,
}

/// An event, with commitments in place of the members that can be withheld.
#[derive(ToSchema)]
pub struct EvidenceEvent {
    /// The event's number in the operation, from 1.
    pub seq: u64,
    /// The hash of this event and of the hash of the previous one.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub event_hash: String,
    /// The event as it was hashed.
    pub event: EventContent,
    /// The openings of the commitments that this document discloses.
    #[schema(value_type = Vec<Object>)]
    pub disclosures: Vec<serde_json::Value>,
}

/// An event. In place of a member that is not disclosed stands an object with its `commitment`.
#[derive(ToSchema)]
pub struct EventContent {
    /// The time, milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    pub change: EventChange,
    /// The client whose request caused this event and perhaps the ones after it.
    #[schema(value_type = Option<Object>)]
    pub asked_by: Option<serde_json::Value>,
    /// The effect whose outcome caused this event and perhaps the ones after it.
    pub settles: Option<SettledEffect>,
}

/// A completed effect.
#[derive(ToSchema)]
pub struct SettledEffect {
    /// The effect's id.
    pub id: EffectId,
    /// The digest of its outcome.
    pub result_root: Commitment,
}

/// What stands in the place of a value that a document may withhold. The openings of those that it discloses are in `disclosures`.
#[derive(ToSchema)]
pub struct Commitment {
    /// The hash of the value's place, a salt and the value.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub commitment: String,
}

/// The id of an effect. `effect_id` in requests is its members in this order, joined by dots.
#[derive(ToSchema)]
pub struct EffectId {
    /// The operation's id.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub operation: String,
    /// The step.
    pub step: EffectStep,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// The steps of an operation that have effects.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub enum EffectStep {
    /// The policy is evaluated over the approvals, and the authority signs the decision.
    Decision,
    /// The nodes store the decision.
    Admission,
    /// The nodes sign the policy receipt.
    PolicyReceipt,
    /// The nodes sign, or make new shares.
    Execute,
    /// The nodes use the new shares.
    CommitEpoch,
    /// The nodes sign the publication receipt.
    Publish,
    /// The nodes discard the operation.
    Discard,
}

/// A change of an operation; each type has further members, which `host/docs/evidence.md` names.
#[derive(ToSchema)]
pub struct EventChange {
    /// The type of change.
    #[serde(rename = "type")]
    pub kind: EventType,
}

/// The types of changes, in the order of an operation's life.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum EventType {
    /// The operation was created.
    Submitted,
    /// It waits for approvals.
    ApprovalRequested,
    /// An approval was received and counts.
    ApprovalRecorded,
    /// Approvals that no longer verify stop counting.
    ApprovalsLapsed,
    /// An approver rejected the operation.
    RejectionRecorded,
    /// Development only: a key is created without the approvals that are missing.
    ApprovalsWaived,
    /// An approval arrived after the quorum, and changes nothing.
    LateApprovalRecorded,
    /// The quorum is reached.
    QuorumReached,
    /// The policy allowed the operation, and the authority signed the decision.
    DecisionSigned,
    /// Enough nodes verified and stored the decision.
    AdmissionApplied,
    /// A client requested the execution.
    ExecutionRequested,
    /// Enough nodes signed the policy receipt.
    ReceiptMaterialized,
    /// The nodes began to sign, or to make shares.
    CeremonyStarted,
    /// An attempt failed, and another follows.
    AttemptLost,
    /// Every receiver has stored its new share.
    EpochDecided,
    /// The nodes use the new shares.
    EpochAcked,
    /// The signature or the new shares exist.
    Executed,
    /// The publication began.
    PublicationRequested,
    /// The result is published.
    Published,
    /// The operation ends, once its nodes have discarded it.
    Aborted,
    /// Receivers of new shares discarded the operation: it has failed, and the key is free.
    DiscardAcked,
    /// An approver declared receivers lost, and the operation does without them.
    NodesGivenUp,
    /// The operation failed.
    Failed,
    /// A request with the same idempotency key had another body.
    ReplayNoted,
    /// An effect was recovered by a request.
    RecoveryRecorded,
    /// The result moved on an external rail.
    ExternallyExported,
}

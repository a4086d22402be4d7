//! The shapes of evidence and audit logs, for the OpenAPI document only: `gateway_evidence` writes the documents.
//! `host/docs/evidence.md` says how to verify them.

use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::{Family, Intent};
use gateway_domain::openapi::words;
use gateway_domain::operation::{EffectId, ExternalExport, SignatureResult, State};
use gateway_domain::policy::Decision;
use gateway_domain::receipt::NodeReceipt;
use gateway_domain::redaction::rules::CHANGES;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

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
    pub submitter: ClientBinding,
    /// The intent as submitted.
    pub intent: Intent,
    /// `SHA-256("svc/intent/v1" || canonical intent)`.
    pub intent_hash: Hex32,
    /// The name of the key that signs, is created or is changed.
    pub key_ref: String,
    /// The id of that key.
    pub key_id: Hex32,
    /// The approvals that count, oldest first.
    pub approvals: Vec<Approval>,
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
    #[schema(required = true)]
    pub result_ref: Option<Hex32>,
    /// The published signature.
    pub result: SignatureResult,
    /// Id of the nodes' publication receipts; null before publication.
    #[schema(required = true)]
    pub publication_receipt: Option<String>,
    /// The last recorded state on an external rail; null before one is recorded.
    #[schema(required = true)]
    pub external_export: Option<ExternalExport>,
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
    pub operation_id: Hex32,
    /// The family of the operation.
    pub family: Family,
    /// The operation's state.
    pub state: State,
    /// The hash of the operation's last event.
    pub record_root: Hex32,
    /// The root of the log of all events right after that event.
    pub ledger_root: Hex32,
    /// The proof that that event is in the log.
    #[schema(required = true)]
    pub log: Option<EvidenceLog>,
    /// The number of the operation's events.
    pub total_events: u64,
    /// Whether this page lacks some of them.
    pub truncated: bool,
    /// The hash of the event before the first one on this page; 64 zeros if the page begins with the first event.
    pub previous_hash: Hex32,
    /// `after_seq` of the next page; null on the last one.
    #[schema(required = true)]
    pub next_after_seq: Option<u64>,
    /// The events on this page, oldest first.
    pub events: Vec<EvidenceEvent>,
}

/// A policy evaluation.
#[derive(ToSchema)]
pub struct EvidenceEvaluation {
    /// The number of the event that recorded it.
    pub seq: u64,
    /// The step at which the policy was asked: `submit`, `approval` or `admission`.
    pub moment: String,
    /// The decision.
    pub decision: Decision,
    /// The id of the bundle.
    pub bundle_id: String,
    /// SHA-256 of the bundle's canonical manifest.
    pub bundle_hash: Hex32,
    /// The digest of the policy's input.
    pub input_hash: Hex32,
    /// The digest of the policy's output.
    pub output_hash: Hex32,
    /// The fuel that the evaluation used.
    pub fuel_used: u64,
}

/// The authority's signed decision.
#[derive(ToSchema)]
pub struct EvidenceDecision {
    /// The hash of the decision.
    pub admission_hash: Hex32,
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
    pub receipts: Vec<NodeReceipt>,
}

/// A completed effect, which a node recovery may name.
#[derive(ToSchema)]
pub struct CompletedEffect {
    /// The effect's id.
    pub effect_id: String,
    /// The digest of its outcome.
    pub result_root: Hex32,
}

/// A key as an operation's events leave it. Members that the events do not show are null.
#[derive(ToSchema)]
pub struct EvidenceKey {
    /// The members of either key.
    #[serde(flatten)]
    pub key: EvidenceSuccessor,
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
    pub key_id: Hex32,
    /// `<profile>:<public key hex>`.
    #[schema(required = true)]
    pub public_key_artifact_ref: Option<String>,
    /// The public key that verifies payments without `bip32`.
    #[schema(required = true)]
    pub payments_public_key_hex: Option<Hex32>,
    /// The name of the key's epoch.
    #[schema(required = true)]
    pub active_epoch: Option<String>,
    /// The root of that epoch.
    #[schema(required = true)]
    pub active_epoch_root: Option<Hex32>,
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
    pub event_hash: Hex32,
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
    pub commitment: Hex32,
}

/// A change of an operation; each type has further members, which `host/docs/evidence.md` names.
#[derive(ToSchema)]
pub struct EventChange {
    /// The type of change.
    #[serde(rename = "type")]
    pub kind: EventType,
}

/// The types of changes.
pub struct EventType;

impl PartialSchema for EventType {
    fn schema() -> RefOr<Schema> {
        words("The types of changes.", CHANGES.iter().map(|(name, _)| *name))
    }
}

impl ToSchema for EventType {}

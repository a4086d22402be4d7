//! The evidence view of a custody operation: what was asked, who approved, what was decided, what the nodes confirmed,
//! what came of it, and the chain of events that says so. Nothing but what the redaction lists.

use super::view::result;
use gateway_domain::ids::Hex32;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Change, Event, Operation};
use gateway_domain::receipt::NodeReceipt;
use gateway_domain::redaction;
use gateway_engine::ports::Record;
use serde_json::{Value, json};

/// Bytes kept free for what stands around the events.
pub(crate) const ENVELOPE_BYTES: usize = 2048;

/// The evidence, with as many of the newest events as `bytes_max` has room for beside the rest.
#[must_use]
pub fn evidence(
    record: &Record,
    events: &[(Event, Hex32)],
    key: Option<&CustodyKey>,
    bytes_max: usize,
) -> Value {
    let operation = &record.operation;
    let mut evidence = json!({
        "operation_id": operation.id,
        "state": operation.state(),
        "intent": redaction::intent(&operation.intent),
        "intent_hash": operation.intent_hash,
        "submitter": redaction::client(&operation.submitter),
        "approvals": operation.approvals,
        "decision": operation.admission.as_ref().map(|admission| {
            json!({ "admission_hash": admission.admission_hash, "envelope": admission.envelope })
        }),
        "receipts": events.iter().filter_map(|(event, _)| receipts(&event.change)).collect::<Vec<_>>(),
        "effects": effects(operation),
        "result_ref": operation.result_ref,
        "result": result(operation),
        "publication_receipt": operation.publication_receipt,
        "external_export": operation.export.as_ref().map(redaction::export),
        "key": key.map(key_evidence),
        "record_root": record.record_root,
        "ledger_root": record.ledger_root,
        "total_events": events.len(),
    });
    let room = bytes_max.saturating_sub(evidence.to_string().len()).saturating_sub(ENVELOPE_BYTES);
    let (shown, truncated) = newest(operation, events, room);
    if let Value::Object(members) = &mut evidence {
        members.insert("truncated".to_owned(), json!(truncated));
        members.insert("events".to_owned(), json!(shown));
    }
    evidence
}

/// As many of the newest redacted events as fit, oldest first, and whether any was left out.
pub(crate) fn newest(
    operation: &Operation,
    events: &[(Event, Hex32)],
    bytes_max: usize,
) -> (Vec<Value>, bool) {
    let (mut shown, mut n_bytes) = (Vec::new(), 0);
    for (index, (event, hash)) in events.iter().enumerate().rev() {
        let entry =
            json!({ "seq": index + 1, "event_hash": hash, "event": redaction::event(operation, event) });
        n_bytes += entry.to_string().len() + 1;
        if n_bytes > bytes_max {
            break;
        }
        shown.push(entry);
    }
    shown.reverse();
    let truncated = shown.len() < events.len();
    (shown, truncated)
}

/// What nodes confirmed with this change.
fn receipts(change: &Change) -> Option<Value> {
    let told = |step: &str, receipts: &[NodeReceipt]| Some(json!({ "step": step, "receipts": receipts }));
    match change {
        Change::AdmissionApplied { receipts } => told("admission", receipts),
        Change::ReceiptMaterialized { receipts, .. } => told("policy-receipt", receipts),
        Change::EpochDecided { receipts, .. } => told("execute", receipts),
        Change::EpochAcked { receipts } => told("commit-epoch", receipts),
        Change::Executed { receipts, .. } if !receipts.is_empty() => told("execute", receipts),
        Change::Published { receipts, .. } => told("publish", receipts),
        Change::Failed { receipts, .. } if !receipts.is_empty() => told("discard", receipts),
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::DecisionSigned { .. }
        | Change::ExecutionRequested { .. }
        | Change::CeremonyStarted { .. }
        | Change::AttemptLost { .. }
        | Change::Executed { .. }
        | Change::PublicationRequested { .. }
        | Change::Aborted { .. }
        | Change::Failed { .. }
        | Change::ReplayNoted { .. }
        | Change::RecoveryRecorded(_)
        | Change::ExternallyExported(_) => None,
    }
}

/// The runtime effects that came to their end: what node recovery may name.
fn effects(operation: &Operation) -> Vec<Value> {
    let effect = |settled: &gateway_domain::operation::SettledEffect| json!({ "effect_id": settled.id.to_string(), "result_root": settled.result_root });
    operation.settled.iter().map(effect).collect()
}

/// The key as it is now; its epoch root is the fence token of signatures.
fn key_evidence(key: &CustodyKey) -> Value {
    json!({
        "key_ref": key.key_ref,
        "key_id": key.key_id,
        "state": key.state,
        "public_key_artifact_ref": key.public_key_artifact_ref(),
        "active_epoch": key.epoch.name,
        "active_epoch_root": key.epoch.root,
        "past_epochs": key.past_epochs,
        "replaces": key.replaces,
        "replaced_by": key.replaced_by,
    })
}

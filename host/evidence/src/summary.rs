//! What a document says of an operation besides its events. All of it follows from the events, so a reader derives it
//! again and compares.

use gateway_domain::operation::{Change, Event, NodeReceipt, Operation, Phase, evaluations};
use serde_json::{Map, Value, json};

/// The members of an operation's evidence that follow from its events.
#[must_use]
pub fn summary(operation: &Operation, events: &[Event]) -> Map<String, Value> {
    let value = json!({
        "operation_id": operation.id,
        "family": operation.intent.family(),
        "tenant": operation.tenant,
        "state": operation.state(),
        "key_ref": operation.key.key_ref,
        "key_id": operation.key.key_id,
        "intent": operation.intent,
        "intent_hash": operation.intent_hash,
        "submitter": operation.submitter,
        "approvals": operation.approvals,
        "policy": decisions(events),
        "decision": operation.admission.as_ref().map(|admission| {
            json!({ "admission_hash": admission.admission_hash, "envelope": admission.envelope })
        }),
        "receipts": events.iter().filter_map(|event| receipts(&event.change)).collect::<Vec<_>>(),
        "effects": effects(operation),
        "result_ref": operation.result_ref,
        "result": result(operation),
        "publication_receipt": operation.publication_receipt,
        "external_export": operation.export,
        "total_events": events.len(),
    });
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// The signature, which leaves through the publication gate only.
#[must_use]
pub fn result(operation: &Operation) -> Value {
    match (&operation.phase, &operation.signature) {
        (Phase::Published, Some(signature)) => json!(signature),
        (_, Some(_) | None) => json!({}),
    }
}

/// Every evaluation that moved the operation: which bundle said what to which question.
fn decisions(events: &[Event]) -> Vec<Value> {
    let told = |evaluation: &gateway_domain::operation::Evaluation| {
        let outcome = &evaluation.outcome;
        json!({
            "seq": evaluation.seq, "moment": evaluation.input.moment, "decision": outcome.decision,
            "bundle_id": outcome.bundle_id, "bundle_hash": outcome.bundle_hash,
            "input_hash": outcome.input_hash, "output_hash": outcome.output_hash,
            "fuel_used": outcome.fuel_used,
        })
    };
    evaluations(events).iter().map(told).collect()
}

/// What nodes confirmed with this change.
fn receipts(change: &Change) -> Option<Value> {
    let told = |step: &str, receipts: &[NodeReceipt]| Some(json!({ "step": step, "receipts": receipts }));
    match change {
        Change::AdmissionApplied { receipts } => told("admission", receipts),
        Change::ReceiptMaterialized { receipts, .. } => told("policy-receipt", receipts),
        Change::Published { receipts, .. } => told("publish", receipts),
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::DecisionSigned { .. }
        | Change::ExecutionRequested { .. }
        | Change::CeremonyStarted { .. }
        | Change::AttemptLost { .. }
        | Change::EpochDecided { .. }
        | Change::EpochAcked { .. }
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

//! What a document says of an operation besides its events. All of it follows from the events, so a reader derives it
//! again and compares.

use crate::course::course;
use gateway_domain::operation::signed_receipts;
use gateway_domain::operation::{Event, Operation, Phase, evaluations};
use serde_json::{Map, Value, json};

/// The members of an operation's identity.
pub(crate) const IDENTITY: [&str; 4] = ["operation_id", "family", "state", "total_events"];

/// What an audit log says of an operation besides its events.
#[must_use]
pub fn identity(operation: &Operation, n_events: usize) -> Map<String, Value> {
    members(json!({
        "operation_id": operation.id,
        "family": operation.intent.family(),
        "state": operation.state(),
        "total_events": n_events,
    }))
}

/// The members of an operation's evidence that follow from its events: its identity, and all else.
#[must_use]
pub fn summary(operation: &Operation, events: &[Event]) -> Map<String, Value> {
    let mut summary = members(json!({
        "tenant": operation.tenant,
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
        "receipts": receipts(events),
        "effects": effects(operation),
        "result_ref": operation.result_ref,
        "result": result(operation),
        "publication_receipt": operation.publication_receipt,
        "external_export": operation.export,
    }));
    summary.extend(identity(operation, events.len()));
    summary
}

fn members(value: Value) -> Map<String, Value> {
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

/// What nodes signed, step by step.
fn receipts(events: &[Event]) -> Vec<Value> {
    let mut told = Vec::new();
    course(events, |_, before, event| {
        if let Some((deed, receipts)) = signed_receipts(before, event) {
            told.push(json!({ "step": deed.step().as_str(), "receipts": receipts }));
        }
    });
    told
}

/// The runtime effects that came to their end: what node recovery may name.
fn effects(operation: &Operation) -> Vec<Value> {
    let effect = |settled: &gateway_domain::operation::SettledEffect| json!({ "effect_id": settled.id.to_string(), "result_root": settled.result_root });
    operation.settled.iter().map(effect).collect()
}

//! The members of a document that describe the operation. All of them follow from the events, so a reader derives them
//! again and compares.

use crate::package::Package;
use gateway_domain::ids::Hex32;
use gateway_domain::key::payments_public_key;
use gateway_domain::operation::{
    Event, KeySlot, Operation, Phase, Staged, evaluations, evolve, replay, signed_receipts,
};
use serde_json::{Map, Value, json};

/// The members of an operation's identity.
pub(crate) const IDENTITY: [&str; 4] = ["operation_id", "family", "state", "total_events"];

/// The members of an audit log that follow from its events.
#[must_use]
pub fn identity(operation: &Operation, n_events: usize) -> Map<String, Value> {
    members(json!({
        "operation_id": operation.id,
        "family": operation.intent.family(),
        "state": operation.state(),
        "total_events": n_events,
    }))
}

/// The members of evidence that follow from its events, including [`identity`].
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
        "key": key(operation),
    }));
    summary.extend(identity(operation, events.len()));
    summary
}

/// The key as the operation's events leave it, and the one that replaces it. What later operations made of them is in their evidence.
/// Members that the events do not show are null.
fn key(operation: &Operation) -> Value {
    let decision = operation.admission.as_ref().map(|admission| &admission.decision);
    let decided = decision.filter(|decision| decision.epoch_root != Hex32::ZERO);
    let made = staged_of(operation, &operation.key);
    let epoch = made
        .map(|staged| (&staged.epoch.name, staged.epoch.root))
        .or(decided.map(|decision| (&decision.epoch, decision.epoch_root)));
    let successor = operation.successor.as_ref().filter(|_| operation.result_ref.is_some());
    let public_key = public_key(operation);
    let payments =
        |slot: &KeySlot, key: Option<&String>| key.and_then(|key| payments_public_key(slot.key_id, key));
    json!({
        "key_id": operation.key.key_id,
        "key_ref": operation.key.key_ref,
        "public_key_artifact_ref": public_key,
        "payments_public_key_hex": payments(&operation.key, public_key.as_ref()),
        "active_epoch": epoch.map(|(name, _)| name),
        "active_epoch_root": epoch.map(|(_, root)| root),
        "successor": successor.map(|slot| {
            let staged = staged_of(operation, slot);
            let public_key = staged.and_then(made_key);
            json!({
                "key_id": slot.key_id,
                "key_ref": slot.key_ref,
                "public_key_artifact_ref": public_key,
                "payments_public_key_hex": payments(slot, public_key.as_ref()),
                "active_epoch": staged.map(|staged| &staged.epoch.name),
                "active_epoch_root": staged.map(|staged| staged.epoch.root),
            })
        }),
    })
}

/// The shares that the operation made of this key.
fn staged_of<'o>(operation: &'o Operation, slot: &KeySlot) -> Option<&'o Staged> {
    let of = operation.successor.as_ref().unwrap_or(&operation.key);
    operation.staged.as_deref().filter(|_| of == slot)
}

/// The contract's `public_key_artifact_ref` of the key of these shares, read from the bytes that the nodes signed for.
pub(crate) fn made_key(staged: &Staged) -> Option<String> {
    Package::read(&staged.public.package_hex).map(|package| package.artifact_ref())
}

/// The contract's `public_key_artifact_ref` of the operation's key: of the shares that it made, else as its intent names it.
pub(crate) fn public_key(operation: &Operation) -> Option<String> {
    let made = staged_of(operation, &operation.key).and_then(made_key);
    made.or_else(|| operation.intent.public_key_artifact_ref().cloned())
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// The signature, if the operation is published.
#[must_use]
pub fn result(operation: &Operation) -> Value {
    match (&operation.phase, &operation.signature) {
        (Phase::Published, Some(signature)) => json!(signature),
        (_, Some(_) | None) => json!({}),
    }
}

/// The policy evaluations that the events store: bundle, digests of input and output, decision.
fn decisions(events: &[Event]) -> Vec<Value> {
    let entry = |evaluation: &gateway_domain::operation::Evaluation| {
        let outcome = &evaluation.outcome;
        json!({
            "seq": evaluation.seq, "moment": evaluation.input.moment, "decision": outcome.decision,
            "bundle_id": outcome.bundle_id, "bundle_hash": outcome.bundle_hash,
            "input_hash": outcome.input_hash, "output_hash": outcome.output_hash,
            "fuel_used": outcome.fuel_used,
        })
    };
    evaluations(events).iter().map(entry).collect()
}

/// The receipts that nodes signed, by step.
fn receipts(events: &[Event]) -> Vec<Value> {
    let mut steps = Vec::new();
    for_each_event(events, |_, before, event| {
        let signed = signed_receipts(before, event);
        for of_step in signed.chunk_by(|(one, _), (next, _)| one.step() == next.step()) {
            let step = of_step.first().map_or("", |(kind, _)| kind.step().as_str());
            let receipts: Vec<_> = of_step.iter().map(|(_, receipt)| receipt).collect();
            steps.push(json!({ "step": step, "receipts": receipts }));
        }
    });
    steps
}

/// The settled effects, which a node recovery may name.
fn effects(operation: &Operation) -> Vec<Value> {
    let effect = |settled: &gateway_domain::operation::SettledEffect| json!({ "effect_id": settled.id.to_string(), "result_root": settled.result_root });
    operation.settled.iter().map(effect).collect()
}

/// Calls `each` for every event after the submission, with its index from 0 and the operation before it. Calls it for no
/// event if the events do not start with a submission.
pub(crate) fn for_each_event<'e>(events: &'e [Event], mut each: impl FnMut(usize, &Operation, &'e Event)) {
    let Some((first, rest)) = events.split_first() else { return };
    let Some(mut before) = replay(std::slice::from_ref(first)) else { return };
    for (index, event) in (1..).zip(rest) {
        each(index, &before, event);
        before = evolve(before, event);
    }
}

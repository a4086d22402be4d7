//! What an audit reader may see: an allow-list. A field nobody listed is not shown.
//!
//! Account names keep their last four characters; token ids and certificate hashes are left out; a signature is shown
//! once it was published. (Salted commitments to what is left out come with the evidence exports.)

use crate::binding::ClientBinding;
use crate::intent::{Intent, Lifecycle};
use crate::operation::{Change, Event, ExternalExport, Operation, Phase, SignatureResult, Submission};
use crate::policy::{Input, Outcome, Statement};
use serde_json::{Value, json};

/// One event as an audit reader sees it. `operation` is the operation now: it says whether a signature was published.
#[must_use]
pub fn event(operation: &Operation, event: &Event) -> Value {
    let mut shown = change(operation, &event.change);
    if let Value::Object(members) = &mut shown {
        members.insert("at_ms".to_owned(), json!(event.at_ms));
        if let Some(asker) = &event.asked_by {
            let asked_by = json!({
                "client": asker.client.as_ref().map(client), "unknown_fields": asker.unknown_fields,
            });
            members.insert("asked_by".to_owned(), asked_by);
        }
        if let Some(settles) = &event.settles {
            let effect = json!({ "effect_id": settles.id.to_string(), "result_root": settles.result_root });
            members.insert("settles".to_owned(), effect);
        }
    }
    shown
}

fn change(operation: &Operation, change: &Change) -> Value {
    match change {
        Change::Submitted(submission) => submitted(submission),
        Change::ApprovalRequested { required } => {
            json!({ "type": "approval_requested", "required": required })
        }
        Change::ApprovalRecorded { approval, policy } => json!({
            "type": "approval_recorded", "approval": approval, "policy": verdict(policy),
        }),
        Change::LateApprovalRecorded { approval } => {
            json!({ "type": "late_approval_recorded", "approval": approval })
        }
        Change::QuorumReached => json!({ "type": "quorum_reached" }),
        Change::DecisionSigned { policy, admission } => json!({
            "type": "decision_signed", "policy": verdict(policy), "admission_hash": admission.admission_hash,
            "decision": admission.decision, "envelope": admission.envelope,
        }),
        Change::AdmissionApplied { receipts } => json!({ "type": "admission_applied", "receipts": receipts }),
        Change::ExecutionRequested { requested_at_ms } => {
            json!({ "type": "execution_requested", "requested_at_ms": requested_at_ms })
        }
        Change::ReceiptMaterialized { receipts, policy_receipt_id } => json!({
            "type": "receipt_materialized", "receipts": receipts, "policy_receipt_id": policy_receipt_id,
        }),
        Change::CeremonyStarted { attempt } => json!({ "type": "ceremony_started", "attempt": attempt }),
        Change::AttemptLost { attempt, reason } => {
            json!({ "type": "attempt_lost", "attempt": attempt, "reason": reason })
        }
        Change::EpochDecided { staged, receipts } => {
            json!({ "type": "epoch_decided", "staged": staged, "receipts": receipts })
        }
        Change::EpochAcked { receipts } => json!({ "type": "epoch_acked", "receipts": receipts }),
        Change::Executed { result_ref, signature, receipts } => json!({
            "type": "executed", "result_ref": result_ref, "receipts": receipts,
            "signature": signature.as_deref().map(|signature| published(operation, signature)),
        }),
        Change::PublicationRequested { scope, requested_at_ms } => {
            json!({ "type": "publication_requested", "scope": scope, "requested_at_ms": requested_at_ms })
        }
        Change::Published { receipts, publication_receipt } => json!({
            "type": "published", "receipts": receipts, "publication_receipt": publication_receipt,
        }),
        Change::Aborted { failure } => {
            json!({ "type": "aborted", "failure": { "code": failure.code, "culprits": failure.culprits } })
        }
        Change::Failed { failure, policy, receipts } => json!({
            "type": "failed", "failure": { "code": failure.code, "culprits": failure.culprits },
            "policy": policy.as_ref().map(verdict), "receipts": receipts,
        }),
        Change::ReplayNoted { body_digest } => json!({ "type": "replay_noted", "body_digest": body_digest }),
        Change::RecoveryRecorded(recovery) => json!({ "type": "recovery_recorded", "recovery": recovery }),
        Change::ExternallyExported(export) => {
            json!({ "type": "externally_exported", "export": self::export(export) })
        }
    }
}

fn submitted(submission: &Submission) -> Value {
    json!({
        "type": "submitted",
        "operation_id": submission.operation_id,
        "tenant": submission.tenant,
        "submitter": client(&submission.submitter),
        "intent": intent(&submission.intent),
        "intent_hash": submission.intent_hash,
        "key": submission.key,
        "successor": submission.successor,
        "body_digest": submission.body_digest,
        "unknown_fields": submission.unknown_fields,
        "policy": verdict(&submission.policy),
    })
}

/// What was judged, by which bytes: codes and names, not the operands, which name accounts.
fn verdict(outcome: &Outcome) -> Value {
    let codes = |statements: &[Statement]| statements.iter().map(|one| one.code.clone()).collect::<Vec<_>>();
    json!({
        "decision": outcome.decision,
        "bundle_id": outcome.bundle_id,
        "bundle_hash": outcome.bundle_hash,
        "reasons": codes(&outcome.reasons),
        "obligations": codes(&outcome.obligations),
        "facts": outcome.facts.iter().map(|fact| &fact.name).collect::<Vec<_>>(),
        "quorum": outcome.quorum,
        "input_hash": outcome.input_hash,
        "output_hash": outcome.output_hash,
        "fuel_used": outcome.fuel_used,
        "fault": outcome.fault,
    })
}

/// Where a result is on a rail.
#[must_use]
pub fn export(export: &ExternalExport) -> Value {
    json!({
        "rail": export.rail, "export_ref": export.export_ref, "state": export.state,
        "external_id": last_four(&export.external_id), "exported_at_ms": export.exported_at_ms,
    })
}

/// What a policy was asked, for the machine's own operator: everything but what identifies a credential, which no policy
/// is shown. `input_hash` is over what is left out too: only the store can prove it.
#[must_use]
pub fn policy_input(input: &Input) -> Value {
    json!({
        "moment": input.moment,
        "intent_hash": input.intent_hash,
        "tenant": input.tenant,
        "key_ref": input.key_ref,
        "submitter": client(&input.submitter),
        "intent": input.intent,
        "approvals": input.approvals,
    })
}

/// Who, without what identifies a credential.
#[must_use]
pub fn client(binding: &ClientBinding) -> Value {
    json!({
        "client_id": binding.client_id,
        "subject_id": binding.subject_id,
        "roles": binding.roles,
        "scopes": binding.scopes,
        "tenant": binding.tenant,
    })
}

/// What was asked, without account names and free texts.
#[must_use]
pub fn intent(intent: &Intent) -> Value {
    match intent {
        Intent::Payment(payment) => json!({
            "kind": "payment",
            "key_ref": payment.key_ref,
            "from_account": last_four(&payment.from_account),
            "to_account": last_four(&payment.to_account),
            "amount_minor": payment.amount_minor,
            "currency": payment.currency,
            "bip32": payment.bip32,
            "terms": payment.terms,
        }),
        Intent::AssetAction(action) => json!({
            "kind": "asset_action",
            "asset_id": action.asset_id,
            "action": action.action,
            "chain_id": action.chain_id,
            "request_digest": action.request_digest,
            "typed_data_root": action.typed_data_root,
            "terms": action.terms,
        }),
        Intent::KeyCreate(create) => json!({
            "kind": "key_create",
            "asset_id": create.asset_id,
            "purpose": create.purpose,
            "participants": create.participants,
            "threshold": create.threshold,
            "signature_profile": create.signature_profile,
            "requested_signature_profile": create.requested_signature_profile,
            "chains": create.chains,
        }),
        Intent::Refresh(refresh) => change_of(intent, &refresh.change, json!({})),
        Intent::Reshare(reshare) => {
            let new = json!({ "new_participants": reshare.new_participants, "threshold": reshare.threshold });
            change_of(intent, &reshare.change, new)
        }
        Intent::Rotate(rotate) => {
            let new = json!({
                "new_key_ref": rotate.new_key_ref, "participants": rotate.participants,
                "threshold": rotate.threshold,
            });
            change_of(intent, &rotate.change, new)
        }
        Intent::Recover(recover) => {
            let who = json!({
                "recovery_case_ref": recover.recovery_case_ref,
                "recovering_participant": recover.recovering_participant,
                "helper_participants": recover.helper_participants,
            });
            change_of(intent, &recover.change, who)
        }
    }
}

/// A change of a key without its free texts.
fn change_of(intent: &Intent, change: &Lifecycle, mut shown: Value) -> Value {
    if let Value::Object(members) = &mut shown {
        members.insert("kind".to_owned(), json!(intent.operation_type()));
        members.insert("target_epoch".to_owned(), json!(change.target_epoch));
        members.insert("publication_mode".to_owned(), json!(change.publication_mode));
    }
    shown
}

/// `…1234`; names of four characters or fewer are left out whole.
fn last_four(account: &str) -> String {
    let n_characters = account.chars().count();
    let kept = if n_characters > 4 { n_characters - 4 } else { n_characters };
    format!("…{}", account.chars().skip(kept).collect::<String>())
}

fn published(operation: &Operation, signature: &SignatureResult) -> Value {
    if operation.phase == Phase::Published {
        json!(signature)
    } else {
        json!({ "signature_profile": signature.signature_profile, "signers": signature.signers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_names_keep_four_characters() {
        assert_eq!(last_four("acct-98765"), "…8765");
        assert_eq!(last_four("abcd"), "…");
        assert_eq!(last_four(""), "…");
    }
}

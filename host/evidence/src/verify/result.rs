//! Checks the threshold signature: the admitted digest, key and signers. For a failed operation, checks that none can
//! exist.

use super::operation::Replayed;
use super::report::{Findings, Report};
use crate::roots::Roots;
use crate::signature::{self, signing_key};
use gateway_domain::intent::OperationType;
use gateway_domain::operation::{Change, Phase, SignatureResult, replay};
use gateway_domain::receipt::participants;

const NAME: &str = "signature";

pub(crate) fn check(replayed: &Replayed, roots: &Roots, report: &mut Report) {
    let executed = replayed.events.iter().enumerate().find_map(|(index, event)| match &event.change {
        Change::Executed { result_ref, signature: Some(signature), .. } => {
            Some((index, result_ref, signature))
        }
        _ => None,
    });
    let Some((index, result_ref, signature)) = executed else {
        check_unsigned(replayed, report);
        return;
    };
    if replayed.operation.phase != Phase::Published {
        report.not_checked(NAME, "the signature exists, but is disclosed only after its publication");
        return;
    }
    let at = format!("/events/{index}/event/change");
    let mut findings = Findings::default();
    if let Err(error) = signature::verify(signature) {
        findings.add(format!("{at}/signature"), error.to_string());
    }
    match signature.result_ref() {
        Ok(root) => findings.same(&format!("{at}/result_ref"), "the digest of the result", result_ref, &root),
        Err(error) => findings.add(format!("{at}/signature"), error.to_string()),
    }
    check_admitted(replayed, signature, &at, &mut findings);
    check_pinned_key(replayed, roots, signature, &at, &mut findings);
    report.add(
        NAME,
        findings,
        format!("`{}` verifies under `{}`", signature.signature_profile, signature.public_key_hex),
    );
}

/// Checks that no signature can exist for a failed operation: it has discard receipts from so many nodes that the
/// others are too few to sign.
fn check_unsigned(replayed: &Replayed, report: &mut Report) {
    let operation = &replayed.operation;
    if operation.phase != Phase::Failed || operation.intent.operation_type() != OperationType::Sign {
        return;
    }
    let failed = replayed.events.iter().enumerate().find_map(|(index, event)| match &event.change {
        Change::Failed { receipts, .. } => Some((index, receipts)),
        _ => None,
    });
    let Some((index, receipts)) = failed else { return };
    let before = replayed.events.get(..index).and_then(replay);
    let Some(plan) =
        before.filter(|before| before.phase == Phase::Discarding).and_then(|before| before.plan())
    else {
        let why = if operation.admission.is_some() {
            "it failed without the discard receipts of its nodes"
        } else {
            "it failed before a decision was recorded, so no node signed a receipt"
        };
        report.not_checked(NAME, format!("that none exists is claimed by the gateway alone: {why}"));
        return;
    };
    let refusing = participants(receipts);
    // The check `receipts` reports too few receipts.
    if plan.is_discarded(&refusing) {
        let (n_refusing, n_nodes) = (refusing.len(), plan.holders.len());
        let n_needed = plan.n_holders_required;
        let seen = format!(
            "none: {n_refusing} of {n_nodes} nodes discarded the operation, and a signature needs {n_needed}"
        );
        report.add(NAME, Findings::default(), seen);
    }
}

/// Checks that the signature is over the admitted digest, by the admitted key and enough admitted signers.
fn check_admitted(replayed: &Replayed, signature: &SignatureResult, at: &str, findings: &mut Findings) {
    let Some(admission) = &replayed.operation.admission else {
        findings.add(at, "a signature exists, but the operation was never admitted");
        return;
    };
    let decision = &admission.decision;
    let digest_at = format!("{at}/signature/signed_digest");
    findings.same(&digest_at, "the admitted digest", &signature.signed_digest, &decision.request_digest);
    if let Some(child) = &decision.derivation {
        let key_at = format!("{at}/signature/public_key_hex");
        findings.same(&key_at, "the admitted derived key", &signature.public_key_hex, &child.public_key_hex);
    }
    if !signature.signers.as_set().is_subset(decision.participants.as_set()) {
        findings.add(format!("{at}/signature/signers"), "a signer was not admitted");
    }
    if signature.signers.as_set().len() < decision.threshold.count() {
        findings.add(format!("{at}/signature/signers"), "there are fewer signers than the threshold");
    }
}

/// Compares the key with the one that follows from the key in the roots. A child key is in the decision alone.
fn check_pinned_key(
    replayed: &Replayed,
    roots: &Roots,
    signature: &SignatureResult,
    at: &str,
    findings: &mut Findings,
) {
    let operation = &replayed.operation;
    let key_id = operation.key.key_id;
    let pinned = roots.keys.get(&key_id).and_then(|pinned| signing_key(&operation.intent, key_id, pinned));
    let Some(expected) = pinned else { return };
    let actual = format!("{}:{}", signature.signature_profile, signature.public_key_hex);
    findings.same(&format!("{at}/signature/public_key_hex"), "the key in the roots", &actual, &expected);
}

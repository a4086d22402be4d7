//! The threshold signature: over what was admitted, under the key it was admitted for; or, of a failed operation, its absence.

use super::report::{Findings, Report};
use super::story::Story;
use crate::roots::Roots;
use crate::signature;
use gateway_domain::intent::OperationType;
use gateway_domain::operation::{Change, Phase, SignatureResult, replay};
use gateway_domain::receipt::participants;

const NAME: &str = "signature";

pub(crate) fn check(story: &Story, roots: &Roots, report: &mut Report) {
    let executed = story.events.iter().enumerate().find_map(|(index, event)| match &event.change {
        Change::Executed { result_ref, signature: Some(signature), .. } => {
            Some((index, result_ref, signature))
        }
        _ => None,
    });
    let Some((index, result_ref, signature)) = executed else {
        unsigned(story, report);
        return;
    };
    if story.operation.phase != Phase::Published {
        report.not_checked(NAME, "it was made, and stays closed until it is published");
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
    admitted(story, signature, &at, &mut findings);
    pinned(story, roots, signature, &at, &mut findings);
    report.add(
        NAME,
        findings,
        format!("`{}` verifies under `{}`", signature.signature_profile, signature.public_key_hex),
    );
}

/// A signing operation that failed after its decision has the discard receipts of so many nodes that the others are too few.
fn unsigned(story: &Story, report: &mut Report) {
    let operation = &story.operation;
    if operation.phase != Phase::Failed || operation.intent.operation_type() != OperationType::Sign {
        return;
    }
    let failed = story.events.iter().enumerate().find_map(|(index, event)| match &event.change {
        Change::Failed { receipts, .. } => Some((index, receipts)),
        _ => None,
    });
    let Some((index, receipts)) = failed else { return };
    let before = story.events.get(..index).and_then(replay);
    let Some(plan) =
        before.filter(|before| before.phase == Phase::Discarding).and_then(|before| before.plan())
    else {
        let why = if operation.admission.is_some() {
            "it failed without the discard receipts of its nodes"
        } else {
            "it failed before a decision was recorded, and no node was asked"
        };
        report.not_checked(NAME, format!("that there is none rests on the gateway's word: {why}"));
        return;
    };
    let refusing = participants(receipts);
    // Too few receipts fail the check `receipts`.
    if plan.is_discarded(&refusing) {
        let (n_refusing, n_nodes) = (refusing.len(), plan.holders.len());
        let n_needed = plan.n_holders_required;
        let seen = format!(
            "none: {n_refusing} of {n_nodes} nodes discarded the operation, and {n_needed} must sign"
        );
        report.add(NAME, Findings::default(), seen);
    }
}

fn admitted(story: &Story, signature: &SignatureResult, at: &str, findings: &mut Findings) {
    let Some(admission) = &story.operation.admission else {
        findings.add(at, "something was signed that was never admitted");
        return;
    };
    let decision = &admission.decision;
    let digest_at = format!("{at}/signature/signed_digest");
    findings.same(&digest_at, "what was admitted", &signature.signed_digest, &decision.request_digest);
    if let Some(child) = &decision.derivation {
        let key_at = format!("{at}/signature/public_key_hex");
        findings.same(&key_at, "the admitted child key", &signature.public_key_hex, &child.public_key_hex);
    }
    if !signature.signers.as_set().is_subset(decision.participants.as_set()) {
        findings.add(format!("{at}/signature/signers"), "somebody signed who was not admitted");
    }
    if signature.signers.as_set().len() < decision.threshold.count() {
        findings.add(format!("{at}/signature/signers"), "fewer signed than the threshold");
    }
}

/// A child key is not the pinned one; it is in the decision instead.
fn pinned(story: &Story, roots: &Roots, signature: &SignatureResult, at: &str, findings: &mut Findings) {
    let is_child =
        story.operation.admission.as_ref().is_some_and(|admission| admission.decision.derivation.is_some());
    let Some(pinned) = roots.keys.get(&story.operation.key.key_id).filter(|_| !is_child) else { return };
    let stands = format!("{}:{}", signature.signature_profile, signature.public_key_hex);
    findings.same(&format!("{at}/signature/public_key_hex"), "the key among the roots", &stands, pinned);
}

//! The threshold signature: over what was admitted, under the key it was admitted for.

use super::report::{Findings, Report};
use super::story::Story;
use crate::roots::Roots;
use crate::signature;
use gateway_domain::operation::{Change, Phase, SignatureResult};

const NAME: &str = "signature";

pub(crate) fn check(story: &Story, roots: &Roots, report: &mut Report) {
    let executed = story.events.iter().enumerate().find_map(|(index, event)| match &event.change {
        Change::Executed { result_ref, signature: Some(signature), .. } => {
            Some((index, result_ref, signature))
        }
        _ => None,
    });
    let Some((index, result_ref, signature)) = executed else {
        report.open(NAME, "nothing was signed");
        return;
    };
    if story.operation.phase != Phase::Published {
        report.open(NAME, "it is not published yet");
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

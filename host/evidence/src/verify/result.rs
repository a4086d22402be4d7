//! Checks the threshold signature: the admitted digest, key and signers.

use super::operation::Replayed;
use crate::report::{Findings, Report};
use crate::roots::Roots;
use crate::summary::public_key;
use gateway_domain::operation::{Change, Operation, Phase, SignatureResult};
use gateway_domain::signature::{self, signing_key};

const NAME: &str = "signature";

pub(crate) fn check(replayed: &Replayed, roots: &Roots, report: &mut Report) {
    let executed = replayed.events.iter().enumerate().find_map(|(index, event)| match &event.change {
        Change::Executed { result_ref, signature: Some(signature), .. } => {
            Some((index, result_ref, signature))
        }
        _ => None,
    });
    let Some((index, result_ref, signature)) = executed else { return };
    if replayed.operation.phase != Phase::Published {
        report.not_checked(NAME, "the signature exists, but is disclosed only after its publication");
        return;
    }
    let at = format!("/events/{index}/event/change");
    let mut findings = Findings::default();
    let SignatureResult { signature_profile, public_key_hex, signed_digest, signature_hex, .. } =
        signature.as_ref();
    let verified = signature::verify(signature_profile, public_key_hex, *signed_digest, signature_hex);
    if let Err(error) = verified {
        findings.add(format!("{at}/signature"), error.to_string());
    }
    match signature.result_ref() {
        Ok(root) => findings.same(&format!("{at}/result_ref"), "the digest of the result", result_ref, &root),
        Err(error) => findings.add(format!("{at}/signature"), error.to_string()),
    }
    check_admitted(replayed, signature, &at, &mut findings);
    check_key(&replayed.operation, signature, roots, &at, &mut findings);
    report.add(
        NAME,
        findings,
        format!("`{}` verifies under `{}`", signature.signature_profile, signature.public_key_hex),
    );
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

/// Checks that the signature is by the operation's key, or the key that is derived from it. For a child, which follows from the chain code,
/// which evidence does not have, the decision names the key.
fn check_key(
    operation: &Operation,
    signature: &SignatureResult,
    roots: &Roots,
    at: &str,
    findings: &mut Findings,
) {
    let key = public_key(operation).or_else(|| roots.keys.get(&operation.key.key_id).cloned());
    let Some(expected) = key.and_then(|key| signing_key(&operation.intent, operation.key.key_id, &key))
    else {
        return;
    };
    let actual = format!("{}:{}", signature.signature_profile, signature.public_key_hex);
    findings.same(
        &format!("{at}/signature/public_key_hex"),
        "the operation's signing key",
        &actual,
        &expected,
    );
}

//! Checks that the authority signed this operation, with these approvals, as this policy allowed it.

use super::operation::Replayed;
use crate::report::{Findings, Report};
use crate::roots::Roots;
use gateway_domain::admission::{self, Admission, Derivation};
use gateway_domain::approval::{Approval, approvals_root, n_distinct_people};
use gateway_domain::error_chain;
use gateway_domain::intent::{Intent, Taproot};
use gateway_domain::operation::{Change, Event, Operation, replay};
use gateway_domain::policy;
use std::fmt::Display;

const NAME: &str = "admission";

pub(crate) fn check(replayed: &Replayed, roots: &Roots, report: &mut Report) {
    let decided = replayed.events.iter().enumerate().find_map(|(index, event)| match &event.change {
        Change::DecisionSigned { policy, admission } => Some((index, event, policy, admission)),
        _ => None,
    });
    let Some((index, event, policy, admission)) = decided else { return };
    let at = format!("/events/{index}/event/change");
    let mut findings = Findings::default();
    check_envelope(event, admission, roots, &format!("{at}/admission"), &mut findings);
    if let Some(operation) = replayed.events.get(..=index).and_then(replay) {
        check_decision(&operation, policy, admission, &format!("{at}/admission/decision"), &mut findings);
        check_quorum(&operation, policy, &at, &mut findings);
    }
    let seen = format!(
        "signed with {} approvals, of {} required",
        policy.quorum.subjects.len(),
        policy.quorum.required
    );
    report.add(NAME, findings, seen);
}

/// Checks that the authority signed the envelope, and that the decision beside it is the one in the envelope.
fn check_envelope(event: &Event, admission: &Admission, roots: &Roots, at: &str, findings: &mut Findings) {
    match admission::verify(&admission.envelope, &roots.authorities, event.at_ms) {
        Err(error) => findings.add(format!("{at}/envelope"), error_chain(&error)),
        Ok(signed) => {
            if signed.decision != admission.decision {
                findings.add(format!("{at}/decision"), "differs from the decision that the authority signed");
            }
            let hash_at = format!("{at}/admission_hash");
            findings.same(
                &hash_at,
                "the hash of the signed decision",
                &admission.admission_hash,
                &signed.admission_hash,
            );
        }
    }
}

/// Checks that the decision is about this operation, its policy evaluation and its approvals.
fn check_decision(
    operation: &Operation,
    policy: &policy::Outcome,
    admission: &Admission,
    at: &str,
    findings: &mut Findings,
) {
    let decision = &admission.decision;
    let mut check = |name: &str, what: &str, actual: &dyn Display, expected: &dyn Display| {
        findings.same(&format!("{at}/{name}"), what, &actual.to_string(), &expected.to_string());
    };
    let kind = operation.intent.operation_type();
    check("operation_id", "the operation", &decision.operation_id, &operation.id);
    check("operation_type", "the operation's type", &decision.operation_type.as_str(), &kind.as_str());
    check("intent_hash", "the intent's hash", &decision.intent_hash, &operation.intent_hash);
    check("key_id", "the key", &decision.key_id, &operation.key.key_id);
    check("bundle_hash", "the deciding bundle", &decision.bundle_hash, &policy.bundle_hash);
    let (input, output) = (&policy.input_hash, &policy.output_hash);
    check("policy_input_hash", "the digest of the policy input", &decision.policy_input_hash, input);
    check("policy_output_hash", "the digest of the policy output", &decision.policy_output_hash, output);
    if let Ok(digest) = operation.intent.request_digest(operation.id, operation.key.key_id) {
        check("request_digest", "the digest to be signed", &decision.request_digest, &digest);
    }
    let decided = decision
        .derivation
        .as_ref()
        .map(|Derivation { payments, path, taproot, .. }| signer(*payments, path.as_ref(), taproot.as_ref()));
    let terms = operation.intent.signing_terms();
    let intended = terms.map(|terms| {
        let is_payment = matches!(operation.intent, Intent::Payment(_));
        signer(is_payment, terms.bip32.as_ref().map(|child| &child.path), terms.taproot.as_ref())
    });
    let own = || OWN_KEY.to_owned();
    check("derivation", "the signing key", &decided.unwrap_or_else(own), &intended.unwrap_or_else(own));
    if let Ok(root) = approvals_root(operation.intent_hash, &operation.approvals) {
        check("approvals_root", "the root of the approvals", &decision.approvals_root, &root);
    }
}

/// The key that signs if none is derived.
const OWN_KEY: &str = "the key itself";

/// The key that signs, in words.
fn signer(payments: bool, path: Option<&String>, taproot: Option<&Taproot>) -> String {
    let root = if payments { "the key for payments" } else { OWN_KEY };
    let key = path.map_or(root.to_owned(), |path| format!("child {path} of {root}"));
    match taproot {
        None => key,
        Some(Taproot { merkle_root: None }) => format!("the Taproot output key of {key} without scripts"),
        Some(Taproot { merkle_root: Some(root) }) => {
            format!("the Taproot output key of {key} with the script tree {root}")
        }
    }
}

/// Checks that the policy allowed the operation, and that the quorum counts enough different people, all of whom approved.
fn check_quorum(operation: &Operation, policy: &policy::Outcome, at: &str, findings: &mut Findings) {
    let policy::Quorum { subjects, required, satisfied, groups: _ } = &policy.quorum;
    let approved = |subject: &String| operation.has_approval_of(subject);
    let counts = |approval: &&Approval| policy.quorum.counts(&approval.subject_id);
    let enough = n_distinct_people(operation.approvals.iter().filter(counts)) >= *required;
    let is_sound = policy.quorum.check().is_ok();
    if !(policy.is_allowed() && *satisfied && is_sound && enough && subjects.iter().all(approved)) {
        findings.add(
            format!("{at}/policy/quorum"),
            "the policy did not allow the operation, the quorum counts a person who did not approve, or too few people, or a group lacks a person",
        );
    }
}

//! Documents that a gateway's policy read.

use crate::asked::{NOW, approved, decide, offer, request_with, rules, submission, verifier};
use crate::support::{authority, key};
use ed25519_dalek::SigningKey;
use gateway_domain::approval::SigningRule;
use gateway_domain::operation::replay;
use gateway_domain::policy::document::{DocumentError, Mark};
use gateway_domain::policy::facts::facts_for;
use gateway_domain::policy::{Moment, SignedDocument};
use gateway_domain::time::EpochMs;
use gateway_policy::testing::{
    author, engine, key as bundle_key, public, rates, rates_bundle, role, signed_document, verify,
};
use gateway_policy::{Evaluator, Pins, RepeatError, Trust, TrustPolicy};
use policy_authority::{DecisionRequest, Policies, Record, Unverified, Verifier};
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

fn document(sequence: u64, signer: &SigningKey) -> SignedDocument {
    signed_document(&rates(sequence, EpochMs(NOW.0 + Mark::GRACE_MS * 2)), &[signer])
}

/// The request of a gateway whose policy read this document, for a payment that Alice and Bob approved.
fn reading(document: &SignedDocument, now: EpochMs) -> DecisionRequest {
    static EVALUATOR: LazyLock<Evaluator> = LazyLock::new(|| {
        Evaluator::load(&engine(), &verify(rates_bundle(1, &bundle_key(1)), &author()).unwrap()).unwrap()
    });
    let events = approved(submission("acct-2"), &["alice", "bob"]);
    let (operation, key) = (replay(&events).unwrap(), key());
    let facts = facts_for(&rules(), Some(&key), operation.intent.signing_terms(), None, now);
    let facts = facts.with_documents(&[Arc::new(document.clone())], now);
    let asked = operation.request(Moment::Admission, &operation.approvals);
    let outcome = EVALUATOR.evaluate(&asked, &facts, EVALUATOR.fuel_max()).raise_quorum_to(2);
    request_with(&outcome, events, Some(&key), now)
}

/// An authority that trusts the policy, and documents of the key 2 unless it is revoked.
fn trusting(revoked: &[&SigningKey], record: Record) -> Verifier {
    let roots = TrustPolicy {
        documents: vec![role("rates", 1, &[&bundle_key(2)])],
        revoked: revoked.iter().map(|key| public(key)).collect(),
        ..author()
    };
    let trust = Trust::new(true);
    trust.replace(Ok(&serde_json::to_vec(&roots).unwrap()), Pins::default()).unwrap();
    let policies = Policies::new(trust, Arc::default());
    policies.offer(offer(rates_bundle(1, &bundle_key(1))), NOW).unwrap();
    Verifier { policies, record, ..verifier(SigningRule::Off) }
}

#[test]
fn document_counts_with_a_signature_that_the_authority_trusts() {
    let (rater, other) = (bundle_key(2), bundle_key(3));
    let decided = |revoked: &[&SigningKey], request: &DecisionRequest| {
        decide(&trusting(revoked, Record::in_memory()), request, NOW).map(drop)
    };
    let request = reading(&document(1, &rater), NOW);
    decided(&[], &request).unwrap();
    let unmet =
        |refused: &Unverified| matches!(refused, Unverified::Document(DocumentError::RoleUnmet { .. }));
    for refused in [decided(&[&rater], &request), decided(&[], &reading(&document(1, &other), NOW))]
        .map(Result::unwrap_err)
    {
        assert!(unmet(&refused) && !refused.is_final(), "{refused}");
    }
    let mut without = request;
    without.policy.documents.clear();
    let refused = decided(&[], &without).unwrap_err();
    assert!(matches!(refused, Unverified::NotRepeated(RepeatError::OtherFacts)), "{refused}");
}

#[tokio::test]
async fn authority_does_not_go_back_to_an_older_document() {
    let (folder, signer) = (TempDir::new().unwrap(), authority(1));
    let open = async || {
        let database = folder.path().join("record/authority.db");
        Record::open(&database, &folder.path().join("size"), &signer.public_key()).await.unwrap()
    };
    let (rater, later) = (bundle_key(2), EpochMs(NOW.0 + Mark::GRACE_MS));
    let decided = async |verifier: &Verifier, sequence, at| {
        let verified = verifier.verify(&reading(&document(sequence, &rater), at), at)?;
        verifier.admit(&signer, verified).await.map(drop)
    };
    let first = trusting(&[], open().await);
    for sequence in [4, 5, 4] {
        decided(&first, sequence, NOW).await.unwrap();
    }
    first.record.close().await;
    let again = trusting(&[], open().await);
    for (sequence, at) in [(3, NOW), (4, later)] {
        let refused = decided(&again, sequence, at).await.unwrap_err();
        let older = DocumentError::Older { name: "rates".into(), sequence, reached: 5 };
        assert!(matches!(&refused, Unverified::Document(error) if *error == older), "{refused}");
    }
    decided(&again, 6, later).await.unwrap();
    again.record.close().await;
    let embedded = trusting(&[], Record::in_memory());
    decided(&embedded, 5, NOW).await.unwrap();
    assert!(matches!(decided(&embedded, 3, NOW).await, Err(Unverified::Document(_))));
}

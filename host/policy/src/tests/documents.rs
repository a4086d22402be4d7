//! Signed documents: what an evaluation reads, what it records, and what a verifier accepts.

use crate::testing::{
    NOW, author, engine, key, load, payment, public, rates, rates_bundle, rates_guest, role, signed_document,
    verify,
};
use crate::{BundleError, Evaluator, Pins, RepeatError, Trust, TrustPolicy, TrustedBundles};
use ed25519_dalek::SigningKey;
use gateway_domain::policy::document::{Document, DocumentError};
use gateway_domain::policy::{Decision, Facts, FaultKind, Moment, Outcome, Recorded, SignedDocument};
use gateway_domain::time::EpochMs;
use serde_json::json;
use std::sync::Arc;

fn evaluator() -> Evaluator {
    Evaluator::load(&engine(), &verify(rates_bundle(1, &key(1)), &author()).unwrap()).unwrap()
}

fn facts(documents: &[Arc<SignedDocument>]) -> Facts {
    Facts::from_pairs([("time.now_ms", NOW.0.to_string())]).with_documents(documents, NOW)
}

fn evaluated(evaluator: &Evaluator, documents: &[Arc<SignedDocument>]) -> Outcome {
    let sample = payment("acct-2", &["bob", "carol"]);
    evaluator.evaluate(&sample.request(Moment::Admission), &facts(documents), u64::MAX)
}

fn valid(sequence: u64) -> Arc<SignedDocument> {
    Arc::new(signed_document(&rates(sequence, NOW), &[&key(2)]))
}

#[test]
fn document_is_recorded_with_its_hash_and_the_time() {
    let (evaluator, document) = (evaluator(), valid(1));
    let outcome = evaluated(&evaluator, std::slice::from_ref(&document));
    assert_eq!((outcome.decision, &outcome.fault), (Decision::Allow, &None));
    let read: Vec<_> = outcome.facts.iter().map(ToString::to_string).collect();
    assert_eq!(read, [format!("time.now_ms={}", NOW.0), format!("document.rates={}", document.hash)]);
    assert_eq!(outcome.documents, std::slice::from_ref(&document.envelope));

    let expired = Arc::new(signed_document(&rates(1, EpochMs(NOW.0 - 1)), &[&key(2)]));
    for documents in [&[][..], &[expired]] {
        let outcome = evaluated(&evaluator, documents);
        assert_eq!(outcome.decision, Decision::Deny);
        assert_eq!(outcome.facts[1].to_string(), "document.rates=(none)");
        assert_eq!(outcome.documents, []);
    }
}

#[test]
fn document_that_the_manifest_does_not_declare_is_not_read() {
    let evaluator = load(&engine(), &rates_guest()).unwrap();
    let outcome = evaluated(&evaluator, &[valid(1)]);
    assert_eq!(outcome.fault_kind(), Some(FaultKind::UndeclaredFact));
    assert_eq!(outcome.documents, []);
}

#[test]
fn repetition_needs_the_documents_that_were_read_and_no_others() {
    let (evaluator, document) = (evaluator(), valid(1));
    let sample = payment("acct-2", &["bob", "carol"]);
    let request = sample.request(Moment::Admission);
    let outcome = evaluated(&evaluator, &[document]).raise_quorum_to(2);
    let recorded = Recorded::from(&outcome);
    assert_eq!(evaluator.repeat(&request, &recorded).unwrap(), outcome);
    let other = Document { content: json!({ "EUR": "2" }), ..rates(1, NOW) };
    let holidays = Document { name: "holidays".into(), ..rates(1, NOW) };
    let signed = |document: &Document| signed_document(document, &[&key(2)]).envelope;
    for documents in [vec![], vec![signed(&other)], vec![signed(&rates(1, NOW)), signed(&holidays)]] {
        let altered = Recorded { documents, ..recorded.clone() };
        assert_eq!(evaluator.repeat(&request, &altered), Err(RepeatError::OtherFacts));
    }
    let twice = Recorded { documents: vec![signed(&other); 2], ..recorded };
    let refused = evaluator.repeat(&request, &twice).unwrap_err();
    assert!(matches!(refused, RepeatError::Document(DocumentError::Twice(_))), "{refused}");
}

/// Trust roots by which these keys, `threshold` of them, sign the document `rates`.
fn roots(threshold: usize, keys: &[&SigningKey], revoked: &[&SigningKey]) -> TrustPolicy {
    TrustPolicy {
        documents: vec![role("rates", threshold, keys)],
        revoked: revoked.iter().map(|key| public(key)).collect(),
        ..author()
    }
}

#[test]
fn document_counts_only_with_the_signatures_of_its_role() {
    let (rater, other) = (key(2), key(3));
    let verified = |trust: &TrustPolicy, document: &SignedDocument| {
        let trusting = Trust::new(true);
        trusting.replace(Ok(&serde_json::to_vec(trust).unwrap()), Pins::default()).unwrap();
        let bundles = TrustedBundles::new(trusting, Arc::default());
        bundles.documents(std::slice::from_ref(&document.envelope)).map(drop)
    };
    let (by_one, by_both) =
        (signed_document(&rates(1, NOW), &[&rater]), signed_document(&rates(1, NOW), &[&rater, &other]));
    let unmet = |have, need| Err(DocumentError::RoleUnmet { name: "rates".into(), have, need });
    assert_eq!(verified(&roots(1, &[&rater], &[]), &by_one), Ok(()));
    assert_eq!(verified(&roots(2, &[&rater, &other], &[]), &by_both), Ok(()));
    assert_eq!(verified(&roots(2, &[&rater, &other], &[]), &by_one), unmet(1, 2));
    assert_eq!(verified(&roots(1, &[&other], &[]), &by_one), unmet(0, 1));
    assert_eq!(verified(&roots(1, &[&rater], &[&rater]), &by_one), unmet(0, 1), "it is revoked");
    assert_eq!(verified(&author(), &by_one), Err(DocumentError::NoRole("rates".into())));
    let by_author = signed_document(&rates(1, NOW), &[&key(1)]);
    assert_eq!(verified(&roots(1, &[&rater], &[]), &by_author), unmet(0, 1), "who signs bundles");
    let mut forged = by_one.clone();
    let payload = rates(2, NOW).to_payload().unwrap();
    forged.envelope.payload = gateway_domain::dsse::Envelope::seal("", &payload, &[]).payload;
    let refused = verified(&roots(1, &[&rater], &[]), &forged).unwrap_err();
    assert!(matches!(refused, DocumentError::Signature { .. }), "{refused}");
}

#[test]
fn roles_of_documents_that_cannot_be_meant_are_refused() {
    let parse = |trust: &TrustPolicy| TrustPolicy::parse(&serde_json::to_vec(trust).unwrap());
    parse(&roots(1, &[&key(2)], &[])).unwrap();
    let with = |documents| TrustPolicy { documents, ..author() };
    for (documents, part) in [
        (vec![role("rates", 1, &[&key(1)])], "in two roles"),
        (vec![role("rates", 0, &[&key(2)])], "threshold 0"),
        (vec![role("Rates", 1, &[&key(2)])], "not a name"),
        (vec![role("rates", 1, &[&key(2)]), role("rates", 1, &[&key(3)])], "two documents `rates`"),
    ] {
        let refused = parse(&with(documents)).unwrap_err();
        assert!(matches!(&refused, BundleError::TrustRoots(why) if why.contains(part)), "{refused}");
    }
    // One person may sign several.
    parse(&with(vec![role("rates", 1, &[&key(2)]), role("holidays", 1, &[&key(2)])])).unwrap();
}

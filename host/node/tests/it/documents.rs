//! Documents that the policy read. As in `policy`, everything but the nodes is the attacker's, the authority's key included.

use crate::policy::{counting_bundle, offer_to_all, with_bundle};
use crate::support::{Group, NOW};
use ed25519_dalek::SigningKey;
use gateway_domain::operation::EffectStep;
use gateway_domain::policy::SignedDocument;
use gateway_domain::policy::document::Mark;
use gateway_domain::time::EpochMs;
use gateway_node::testing::{Case, SUITES, asset_action, trust_roots};
use gateway_node::{AdmitRequest, Code, NodeError};
use gateway_policy::testing::{key, public, rates, role, signed_document};
use gateway_policy::{BundleFiles, Pins, TrustPolicy};
use std::sync::Arc;

const LATER: EpochMs = EpochMs(NOW + Mark::GRACE_MS * 4);

/// Roots that trust these keys with documents named `rates`, and have revoked some.
fn trust(group: &Group, keys: &[&SigningKey], revoked: &[&SigningKey]) {
    let mut roots = TrustPolicy::parse(&trust_roots()).unwrap();
    roots.documents = vec![role("rates", 1, keys)];
    roots.revoked = revoked.iter().map(|key| public(key)).collect();
    group.policy_trust.replace(Ok(&serde_json::to_vec(&roots).unwrap()), Pins::default()).unwrap();
}

async fn group() -> (Group, BundleFiles) {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let files = counting_bundle(&["document.rates"]);
    offer_to_all(&group, &files).await;
    trust(&group, &[&key(2)], &[]);
    (group, files)
}

fn document(sequence: u64) -> Arc<SignedDocument> {
    Arc::new(signed_document(&rates(sequence, LATER), &[&key(2)]))
}

fn case(group: &Group, id: u8, files: &BundleFiles, document: &Arc<SignedDocument>) -> Case {
    let mut case = with_bundle(group.case(id, asset_action(&[0, 1, 2], 7)), files);
    case.documents = vec![Arc::clone(document)];
    case.facts.insert("time.now_ms".into(), NOW.to_string());
    case.decision.not_after_ms = LATER;
    case
}

fn detail(refused: Result<impl std::fmt::Debug, NodeError>) -> String {
    match refused {
        Err(NodeError::Rejected(rejection)) => {
            assert_eq!(rejection.code, Code::PolicyRefused, "{rejection}");
            rejection.detail
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn policy_reads_the_document_that_the_node_trusts() {
    let (group, files) = group().await;
    let case = case(&group, 1, &files, &document(1));
    for (node, participant) in group.nodes.iter().zip(0..) {
        node.admit(&case.request()).await.unwrap();
        node.policy_receipt(&case.call(participant, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
    }
    // A key that is revoked before the execution counts no more.
    trust(&group, &[&key(2)], &[&key(2)]);
    assert!(detail(group.round_one(&case, 0, 1).await).contains("signed by 0 of 1"));
    trust(&group, &[&key(2)], &[]);
    group.sign(&case, 1).await;
}

#[tokio::test]
async fn document_that_the_node_does_not_trust_is_refused() {
    let (group, files) = group().await;
    let valid = document(1);
    let by = |signer: &SigningKey| Arc::new(signed_document(&rates(1, LATER), &[signer]));
    let expired = Arc::new(signed_document(&rates(1, EpochMs(NOW - 1)), &[&key(2)]));
    for (document, part) in [(by(&key(3)), "signed by 0 of 1"), (expired, "`document.rates=")] {
        let request = case(&group, 1, &files, &document).request();
        assert!(detail(group.nodes[0].admit(&request).await).contains(part), "{part}");
    }
    let request = case(&group, 1, &files, &valid).request();
    let altered = |alter: &dyn Fn(&mut AdmitRequest)| {
        let mut request = request.clone();
        alter(&mut request);
        request
    };
    let other = by(&key(2)).envelope.clone();
    assert_eq!(other, valid.envelope);
    for (request, part) in [
        (altered(&|it| it.policy.documents.clear()), "other facts or documents"),
        (altered(&|it| it.policy.documents.push(it.policy.documents[0].clone())), "two documents"),
        (altered(&|it| it.policy.documents[0] = document(2).envelope.clone()), "other facts or documents"),
        (altered(&|it| it.policy.documents[0].payload.clear()), "not a document"),
        (altered(&|it| it.policy.facts[1].value = Some("00".repeat(32))), "other facts or documents"),
    ] {
        let refused = detail(group.nodes[0].admit(&request).await);
        assert!(refused.contains(part), "{part}: {refused}");
    }
    group.nodes[0].admit(&request).await.unwrap();
}

#[tokio::test]
async fn node_does_not_go_back_to_an_older_document() {
    let (mut group, files) = group().await;
    let admit_at = async |group: &Group, id: u8, document: &Arc<SignedDocument>, now_ms: u64| {
        let mut case = case(group, id, &files, document);
        case.facts.insert("time.now_ms".into(), now_ms.to_string());
        group.nodes[0].admit(&case.request()).await.map(drop)
    };
    let admit = async |group: &Group, id: u8, document: &Arc<SignedDocument>| {
        admit_at(group, id, document, NOW).await
    };
    admit(&group, 1, &document(4)).await.unwrap();
    admit(&group, 2, &document(5)).await.unwrap();
    // Operations that were evaluated with the one before arrive after it.
    admit(&group, 3, &document(4)).await.unwrap();
    let refused = detail(admit(&group, 4, &document(3)).await);
    assert!(refused.contains("sequence 3, and another one with sequence 5"), "{refused}");
    let later = NOW + Mark::GRACE_MS;
    group.set_time(later);
    assert!(detail(admit_at(&group, 4, &document(4), later).await).contains("sequence 4"));
    group.restart(0).await;
    let refused = detail(admit_at(&group, 4, &document(4), later).await);
    assert!(refused.contains("sequence 4"), "after a restart: {refused}");
    admit_at(&group, 5, &document(5), later).await.unwrap();
    // A row that was altered is damage, and no admission rests on it.
    group.execute_sql(0, "UPDATE document SET sequence = 1").await;
    let unread = admit_at(&group, 6, &document(6), later).await;
    assert!(matches!(unread, Err(NodeError::Unavailable { .. })), "{unread:?}");
}

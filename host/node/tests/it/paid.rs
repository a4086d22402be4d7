//! Earlier payments, of which the attacker's policy facts speak. As in `policy`, everything but the nodes is the attacker's, the authority's
//! key included.

use crate::policy::{approved, counting_bundle, group, offer_to_all, with_bundle};
use crate::support::Group;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::operation::EffectStep;
use gateway_domain::policy::PaidProof;
use gateway_domain::policy::paid::{FIRST_PAID_MS, PAID_COUNT};
use gateway_domain::testing::paid::Payer;
use gateway_domain::time::EpochMs;
use gateway_node::testing::{Case, authority, paying};
use gateway_node::{AdmitRequest, Code, NodeError};
use gateway_policy::BundleFiles;

/// A signed payment to `acct-2`, and its proof.
async fn paid(group: &Group, files: &BundleFiles, id: u8) -> PaidProof {
    let case = with_bundle(approved(group, id, paying("acct-2", 12_500)), files);
    group.admit(&case).await;
    let signature = group.sign(&case, 1).await;
    let AdmitRequest { intent, envelope, .. } = case.request();
    PaidProof { intent, decision: envelope, signature: signature.signature_hex.parse().unwrap() }
}

/// A payment to `acct-2` whose policy read these facts.
fn stating(group: &Group, files: &BundleFiles, first_ms: Option<u64>, count: Option<usize>) -> Case {
    let mut case = with_bundle(approved(group, 9, paying("acct-2", 12_500)), files);
    case.facts.extend(first_ms.map(|first_ms| (FIRST_PAID_MS.to_owned(), first_ms.to_string())));
    case.facts.extend(count.map(|count| (PAID_COUNT.to_owned(), count.to_string())));
    case
}

fn request(case: &Case, proofs: &[&PaidProof]) -> AdmitRequest {
    let mut request = case.request();
    request.policy.proven_by = proofs.iter().map(|proof| (*proof).clone()).collect();
    request
}

/// Checks that no node admits it, for this reason.
async fn assert_refused(group: &Group, case: &Case, proofs: &[&PaidProof], part: &str) {
    for node in &group.nodes {
        let Err(NodeError::Rejected(rejection)) = node.admit(&request(case, proofs)).await else {
            panic!("admitted: {part}");
        };
        assert_eq!(rejection.code, Code::PolicyRefused, "{rejection:?}");
        assert!(rejection.detail.contains(part), "{part}: {}", rejection.detail);
    }
}

async fn bundle(group: &Group) -> BundleFiles {
    let files = counting_bundle(&[FIRST_PAID_MS, PAID_COUNT]);
    offer_to_all(group, &files).await;
    files
}

fn first_ms(proof: &PaidProof) -> u64 {
    proof.unverified_decision().unwrap().not_before_ms.0
}

#[tokio::test]
async fn facts_about_earlier_payments_must_be_what_their_proofs_say() {
    let group = group().await;
    let files = bundle(&group).await;
    let (one, two) = (paid(&group, &files, 1).await, paid(&group, &files, 2).await);
    let first = first_ms(&one);
    for (first_ms, count, proofs, part) in [
        (Some(first + 1), Some(2), &[&one, &two][..], "`recipient.first_paid_ms="),
        (Some(first), Some(3), &[&one, &two], "`recipient.paid_count=3`"),
        (Some(first), Some(2), &[&one], "`recipient.paid_count=2`"),
        (Some(first), Some(1), &[], "`recipient.first_paid_ms="),
        (None, Some(1), &[], "`recipient.paid_count=1`"),
        (None, None, &[&one], "`recipient.first_paid_ms=(none)`"),
        (Some(first), Some(2), &[&one, &one], "stated twice"),
    ] {
        let case = stating(&group, &files, first_ms, count);
        assert_refused(&group, &case, proofs, part).await;
    }
    let case = stating(&group, &files, Some(first), Some(2));
    for (node, participant) in group.nodes.iter().zip(0..) {
        node.admit(&request(&case, &[&one, &two])).await.unwrap();
        node.policy_receipt(&case.call(participant, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
    }
    group.sign(&case, 1).await;
}

#[tokio::test]
async fn earlier_payment_that_the_nodes_did_not_sign_is_refused() {
    let group = group().await;
    let files = bundle(&group).await;
    let genuine = paid(&group, &files, 1).await;
    let key_id = genuine.unverified_decision().unwrap().key_id;
    // The authority's key signs any decision that the attacker wants.
    let payer = Payer { key_id, authority: authority(1), ..Payer::new(7) };
    let at = EpochMs(first_ms(&genuine));
    let id = OperationId(Hex32::new([5; 32]));
    let decided = payer.proof(id, paying("acct-2", 1), at);
    let borrowed = PaidProof { signature: genuine.signature, ..decided.clone() };
    let other_authority = Payer { authority: authority(2), ..payer };
    let untrusted = other_authority.proof(id, paying("acct-2", 1), at);
    let renamed = PaidProof { intent: paying("acct-2", 7), ..genuine.clone() };
    let case = stating(&group, &files, Some(at.0), Some(1));
    for (proof, part) in [
        (&decided, "is not signed by the key"),
        (&borrowed, "is not signed by the key"),
        (&untrusted, "is not signed by the authority"),
        (&renamed, "is on another intent"),
    ] {
        assert_refused(&group, &case, &[proof], part).await;
    }
    group.nodes[0].admit(&request(&case, &[&genuine])).await.unwrap();
}

/// Another recipient's history does not make this one known, and no payment proves itself.
#[tokio::test]
async fn earlier_payment_must_be_another_one_to_the_same_recipient() {
    let mut group = group().await;
    group.rules.permitted_recipients = "acct-2,acct-3".into();
    group.restart_all().await;
    let files = bundle(&group).await;
    let genuine = paid(&group, &files, 1).await;
    let mut other = with_bundle(approved(&group, 9, paying("acct-3", 12_500)), &files);
    let stated = [(FIRST_PAID_MS, first_ms(&genuine).to_string()), (PAID_COUNT, "1".to_owned())];
    other.facts.extend(stated.map(|(name, value)| (name.to_owned(), value)));
    assert_refused(&group, &other, &[&genuine], "is no payment to this recipient").await;
    let case = stating(&group, &files, Some(first_ms(&genuine)), Some(1));
    let AdmitRequest { intent, envelope, .. } = case.request();
    let itself = PaidProof { intent, decision: envelope, ..genuine };
    assert_refused(&group, &case, &[&itself], "the payment itself").await;
}

/// A node whose clock was set back far finds the payments in its future.
#[tokio::test]
async fn earlier_payment_in_the_future_is_refused() {
    let group = group().await;
    let files = bundle(&group).await;
    let genuine = paid(&group, &files, 1).await;
    let key_id = genuine.unverified_decision().unwrap().key_id;
    let payer = Payer { key_id, authority: authority(1), ..Payer::new(7) };
    let at = EpochMs(crate::support::NOW + CLOCK_SKEW_MS + 1);
    let future = payer.proof(OperationId(Hex32::new([5; 32])), paying("acct-2", 1), at);
    let case = stating(&group, &files, Some(at.0), Some(1));
    assert_refused(&group, &case, &[&future], "is in the future").await;
}

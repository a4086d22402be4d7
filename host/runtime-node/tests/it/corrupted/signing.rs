//! Rows 11, 12, 18 and 19 of the table: what a node checks before a signature share leaves it.

use super::victims::{NOW, Victims, approved_by, assert_refused};
use gateway_domain::receipt::NodeReceipt;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::testing::approvers::{key, key_entry};
use gateway_node::testing::{Case, bundle_key, hex32, payment, registered, trust_roots};
use gateway_policy::Pins;
use gateway_threshold::derive::derive;
use gateway_threshold::sign::SigningPackage;
use serde_json::json;
use std::sync::Arc;

/// Row 11. Two shares with the same nonces for different packages would reveal the key share.
#[tokio::test]
async fn nonces_sign_one_package_and_do_not_survive_a_restart() {
    let mut victims = Victims::with_key().await;
    let case = victims.payment(1);
    victims.admit_all(&case).await;
    let package = victims.package(&case, &[0, 1], 1).await;
    let share = victims.share(0, &case, 1, &package).await.unwrap();
    assert_eq!(victims.share(0, &case, 1, &package).await.unwrap(), share, "a repeat gets the same share");
    let mut other = package.clone();
    other.commitments.insert(2, victims.package(&case, &[2], 1).await.commitments[&2].clone());
    let answer = victims.share(0, &case, 1, &other).await;
    assert_refused("a second package", answer, "session_consumed", "");
    let repeated = victims.commit(0, &case, 1).await.unwrap();
    assert_eq!(repeated["type"], "share", "no new nonces for the attempt: {repeated}");
    // The nonces that the node has open.
    let next = victims.payment(2);
    victims.admit_all(&next).await;
    let open = victims.package(&next, &[0, 1], 1).await;
    victims.restart().await;
    assert_refused("nonces of before", victims.share(0, &next, 1, &open).await, "attempt_lost", "");
    assert_eq!(victims.share(0, &case, 1, &package).await.unwrap(), share, "the mark is on disk");
    assert_refused("a second package", victims.share(0, &case, 1, &other).await, "session_consumed", "");
    let fresh = victims.commit(0, &next, 1).await.unwrap();
    assert_ne!(fresh["commitments_hex"], json!(hex::encode(&open.commitments[&0])));
    assert_refused("the old commitments", victims.share(0, &next, 1, &open).await, "package_refused", "");
}

/// Row 12. Each trick costs the node its nonces, and no more.
#[tokio::test]
async fn package_must_have_the_admitted_message_tweak_signers_and_own_commitments() {
    let victims = Victims::with_key().await;
    let case = victims.case(1, payment(&[0, 1], None));
    for participant in 0..2 {
        victims.admit(participant, &case).await.unwrap();
        victims.receipt(participant, &case).await.unwrap();
    }
    let tweak = derive(victims.keys(), &[7]).unwrap().tweak;
    type Alter<'a> = &'a dyn Fn(&mut SigningPackage);
    let tricks: [(&str, Alter<'_>, &str, &str); 7] = [
        ("another message", &|it| it.message = vec![7; 32], "package_refused", "another message"),
        ("a longer message", &|it| it.message.push(0), "package_refused", "another message"),
        ("another key", &|it| it.tweak = Some(tweak), "package_refused", "another derived key"),
        ("fewer signers", &|it| _ = it.commitments.remove(&1), "package_refused", "fewer signers"),
        (
            "a signer that was not admitted",
            &|it| {
                let other = it.commitments[&1].clone();
                it.commitments.insert(2, other);
            },
            "package_refused",
            "not admitted",
        ),
        (
            "other commitments of the node",
            &|it| {
                let other = it.commitments[&1].clone();
                it.commitments.insert(0, other);
            },
            "package_refused",
            "this node's commitments",
        ),
        (
            "commitments that are no points",
            &|it| _ = it.commitments.insert(1, vec![0; 66]),
            "ceremony_misbehaviour",
            "",
        ),
    ];
    for (attempt, (what, alter, error, part)) in (1..).zip(tricks) {
        let package = victims.package(&case, &[0, 1], attempt).await;
        let mut altered = package.clone();
        alter(&mut altered);
        assert_refused(what, victims.share(0, &case, attempt, &altered).await, error, part);
        let answer = victims.share(0, &case, attempt, &package).await;
        assert_refused("the nonces are gone", answer, "attempt_lost", "");
        let answer = victims.commit(0, &case, attempt).await;
        assert_refused("no others for the attempt", answer, "attempt_lost", "");
    }
    let package = victims.package(&case, &[0, 1], 9).await;
    victims.share(0, &case, 9, &package).await.unwrap();
    victims.assert_still_sign(2).await;
}

/// Row 18. A receipt of the discard proves that no signature can be made with a share of the node; so one that signed issues none while
/// another signer may still sign.
#[tokio::test]
async fn discarded_signature_is_never_signed_and_a_signed_one_is_never_discarded() {
    let mut victims = Victims::with_key().await;
    let case = victims.payment(1);
    victims.admit_all(&case).await;
    let package = victims.package(&case, &[0, 1], 1).await;
    victims.share(0, &case, 1, &package).await.unwrap();
    victims.discard(1, &case, &[]).await.unwrap();
    for _ in 0..2 {
        let answer = victims.discard(0, &case, &[]).await;
        assert_refused("a discard after the share", answer, "attempt_not_discarded", "completed attempt 1");
        for (what, answer) in [
            ("the admission again", victims.admit(1, &case).await),
            ("nonces", victims.commit(1, &case, 1).await),
            ("further nonces", victims.commit(1, &case, 2).await),
        ] {
            assert_refused(what, answer, "operation_discarded", "");
        }
        assert!(victims.share(1, &case, 1, &package).await.is_err(), "the nonces that were open");
        victims.restart().await;
    }
    let unknown = victims.payment(2);
    victims.discard(1, &unknown, &[]).await.unwrap();
    let answer = victims.admit(1, &unknown).await;
    assert_refused("an operation that was discarded before it came", answer, "operation_discarded", "");
    victims.assert_still_sign(3).await;
}

/// Row 13.
#[tokio::test]
async fn second_package_needs_the_receipt_of_another_signer_of_the_first() {
    let victims = Victims::with_key().await;
    let case = victims.payment(1);
    victims.admit_all(&case).await;
    let package = victims.package(&case, &[0, 1], 1).await;
    victims.share(0, &case, 1, &package).await.unwrap();
    let of_another = victims.discard_attempt(2, &case, 1).await.unwrap();
    let of_another_attempt = victims.discard_attempt(1, &case, 2).await.unwrap();
    let forged = NodeReceipt { participant: ParticipantIndex(1), ..of_another.clone() };
    for (what, receipts) in [
        ("no receipt", vec![]),
        ("of no signer", vec![of_another]),
        ("for another attempt", vec![of_another_attempt]),
        ("of another node", vec![forged]),
    ] {
        let answer = victims.commit_after(0, &case, 3, receipts).await;
        assert_refused(what, answer, "attempt_not_discarded", "completed attempt 1");
    }
    let answer = victims.discard_attempt(0, &case, 1).await.map(|receipt| json!(receipt));
    assert_refused("the signer's own", answer, "step_out_of_order", "completed the attempt");
    let receipt = victims.discard_attempt(1, &case, 1).await.unwrap();
    assert!(victims.share(1, &case, 1, &package).await.is_err(), "it signs no more in the attempt");
    victims.commit_after(0, &case, 3, vec![receipt]).await.unwrap();
}

/// Row 19: before a signature, and before a change of the key.
#[tokio::test]
async fn approver_or_bundle_revoked_since_the_admission_stops_the_execution() {
    let victims = Victims::with_key().await;
    let case = victims.payment(1);
    let (refresh, start) = victims.refresh(2);
    victims.admit_all(&case).await;
    victims.admit_all(&refresh).await;
    let refused = async |what: &str, error: &str| {
        assert_refused(what, victims.commit(0, &case, 1).await, error, "");
        assert_refused(what, victims.start(0, &refresh, 1, &start).await, error, "");
    };
    let mut revoked = key_entry(&key(1));
    revoked["revoked_at_ms"] = json!(NOW);
    victims.approvers.replace_registry(Some(Arc::new(registered(revoked))));
    refused("a revoked key of an approver", "approval_refused").await;
    victims.approvers.replace_registry(None);
    refused("a registry that cannot be read", "unavailable").await;
    victims.approvers.replace_registry(Some(Arc::new(registered(key_entry(&key(1))))));
    let mut roots: serde_json::Value = serde_json::from_slice(&trust_roots()).unwrap();
    let public = gateway_domain::ids::Hex32::new(bundle_key().verifying_key().to_bytes());
    roots["revoked"] = json!([public]);
    victims.trust.replace(Ok(roots.to_string().as_bytes()), Pins::default()).unwrap();
    refused("a revoked key of the bundle", "policy_refused").await;
    let other = Pins::parse(&hex32(7).to_string()).unwrap();
    victims.trust.replace(Ok(&trust_roots()), other).unwrap();
    refused("a bundle that is no longer pinned", "policy_refused").await;
    victims.trust.replace(Ok(&trust_roots()), Pins::default()).unwrap();
    victims.commit(0, &case, 1).await.unwrap();
    victims.start(0, &refresh, 1, &start).await.unwrap();
    let unapproved: Case = approved_by(victims.payment(4), &["alice"]);
    assert!(victims.admit(0, &unapproved).await.is_err());
}

//! The nonce rule: a pair of nonces makes at most one signature share.

use crate::support::{Group, NOW, admitted, assert_lost, code};
use gateway_domain::operation::EffectStep;
use gateway_node::limits::NONCES_TTL_MS;
use gateway_node::testing::{Case, NOT_AFTER, SUITES, asset_action, payment, refresh};
use gateway_node::{Code, NodeError, RoundOne};
use gateway_threshold::sign::SigningPackage;
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::JoinSet;

/// The same package with another co-signer. Shares of both with the same nonces would reveal the key share.
async fn other_package(group: &Group, case: &Case, package: &SigningPackage) -> SigningPackage {
    let RoundOne::Committed(third) = group.round_one(case, 2, 1).await.unwrap() else { panic!() };
    let mut other = package.clone();
    other.commitments.remove(&1);
    other.commitments.insert(2, third);
    other
}

#[tokio::test]
async fn repeated_package_gets_the_same_share_and_another_package_is_refused() {
    let (group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    let other = other_package(&group, &case, &package).await;
    let share = group.round_two(&case, 0, 1, &package).await.unwrap();
    assert_eq!(group.round_two(&case, 0, 1, &package).await.unwrap(), share);
    assert_eq!(code(group.round_two(&case, 0, 1, &other).await), Code::SessionConsumed);
    let again = group.round_one(&case, 0, 1).await.unwrap();
    assert_eq!(again, RoundOne::Consumed { package: package.clone(), signed: share.clone() });
    assert_eq!(code(group.round_two(&case, 0, 1, &other).await), Code::SessionConsumed);
    assert_eq!(group.round_two(&case, 0, 1, &package).await.unwrap(), share);
}

#[tokio::test]
async fn released_share_is_the_same_after_a_restart() {
    let (mut group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    let mut other = package.clone();
    let RoundOne::Committed(third) = group.round_one(&case, 2, 1).await.unwrap() else { panic!() };
    other.commitments.insert(2, third);
    let mut shares = BTreeMap::new();
    for signer in [0, 1] {
        shares.insert(signer, group.round_two(&case, signer, 1, &package).await.unwrap());
    }
    let signature = group.result(&case, &package, &shares);
    for signer in [0, 1] {
        group.restart(signer).await;
        let expected = RoundOne::Consumed { package: package.clone(), signed: shares[&signer].clone() };
        assert_eq!(group.round_one(&case, signer, 1).await.unwrap(), expected);
        assert_eq!(group.round_two(&case, signer, 1, &package).await.unwrap(), shares[&signer]);
        assert_eq!(code(group.round_two(&case, signer, 1, &other).await), Code::SessionConsumed);
        assert_eq!(code(group.round_one(&case, signer, 0).await), Code::AttemptSuperseded);
    }
    assert_eq!(group.result(&case, &package, &shares), signature);
}

#[tokio::test]
async fn open_commitments_are_repeated() {
    let (group, case) = admitted().await;
    let first = group.round_one(&case, 0, 1).await.unwrap();
    assert_eq!(group.round_one(&case, 0, 1).await.unwrap(), first);
    assert_ne!(group.round_one(&case, 0, 2).await.unwrap(), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_concurrent_packages_get_one_share() {
    let (group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    let other = other_package(&group, &case, &package).await;
    let mut both = package.clone();
    both.commitments.extend(other.commitments.clone());
    let call = case.call(0, EffectStep::Execute, 1, 1);
    let mut callers = JoinSet::new();
    for n in 0..20 {
        let (node, package) = (group.nodes[0].clone(), [&package, &other, &both][n % 3].clone());
        callers.spawn(async move { node.signing_share(&call, &package).await });
    }
    let answers = callers.join_all().await;
    let shares: BTreeSet<_> =
        answers.iter().filter_map(|answer| Some(&answer.as_ref().ok()?.share)).collect();
    assert_eq!(shares.len(), 1, "{answers:?}");
    for answer in answers.into_iter().filter(Result::is_err) {
        assert_eq!(code(answer), Code::SessionConsumed);
    }
}

#[tokio::test]
async fn package_with_a_signer_that_was_not_admitted_is_refused() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let (all, two) = (group.case(1, asset_action(&[0, 1, 2], 7)), group.case(2, asset_action(&[0, 1], 7)));
    group.admit(&all).await;
    let RoundOne::Committed(third) = group.round_one(&all, 2, 1).await.unwrap() else { panic!() };
    let node = &group.nodes[0];
    node.admit(&two.request()).await.unwrap();
    node.policy_receipt(&two.call(0, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
    let mut package = group.package(&two, &[0], 1).await;
    package.commitments.insert(2, third);
    assert_eq!(code(group.round_two(&two, 0, 1, &package).await), Code::PackageRefused);
}

#[tokio::test]
async fn raised_threshold_is_enforced() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let mut case = group.case(1, payment(&[0, 1, 2], None));
    case.decision.threshold = gateway_domain::roster::Threshold(3);
    group.admit(&case).await;
    let two = group.package(&case, &[0, 1], 1).await;
    assert_eq!(code(group.round_two(&case, 0, 1, &two).await), Code::PackageRefused);
    let three = group.package(&case, &[0, 1, 2], 2).await;
    group.round_two(&case, 0, 2, &three).await.unwrap();
}

#[tokio::test]
async fn earlier_attempt_is_superseded() {
    let (group, case) = admitted().await;
    let first = group.package(&case, &[0, 1], 1).await;
    let third = group.package(&case, &[0, 1], 3).await;
    assert_eq!(code(group.round_one(&case, 0, 2).await), Code::AttemptSuperseded);
    assert_eq!(code(group.round_two(&case, 0, 1, &first).await), Code::AttemptSuperseded);
    group.round_two(&case, 0, 3, &third).await.unwrap();
    assert_eq!(code(group.round_one(&case, 0, 2).await), Code::AttemptSuperseded, "also from the database");
    assert_lost(group.round_two(&case, 0, 1, &first).await);
    // Another attempt has fresh nonces, so it can sign another package, once the other signer has discarded the third attempt.
    let discarded = [group.discard_attempt(&case, 1, 3).await.unwrap()];
    group.round_one_after(&case, 0, 4, &discarded).await.unwrap();
    let fourth = group.package(&case, &[0, 1], 4).await;
    group.round_two(&case, 0, 4, &fourth).await.unwrap();
}

#[tokio::test]
async fn nonces_expire() {
    let (group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    group.set_time(NOW + NONCES_TTL_MS);
    group.round_two(&case, 1, 1, &package).await.unwrap();
    group.set_time(NOW + NONCES_TTL_MS + 1);
    assert_lost(group.round_two(&case, 0, 1, &package).await);
    assert_lost(group.round_one(&case, 0, 1).await);
    group.package(&case, &[0, 2], 2).await;
}

#[tokio::test]
async fn decision_that_expires_between_the_rounds_signs_nothing() {
    let (group, case) = admitted().await;
    group.set_time(NOT_AFTER.0 - 1);
    let package = group.package(&case, &[0, 1], 2).await;
    let share = group.round_two(&case, 1, 2, &package).await.unwrap();
    group.set_time(NOT_AFTER.0);
    assert_eq!(code(group.round_two(&case, 0, 2, &package).await), Code::AdmissionExpired);
    assert_eq!(group.round_two(&case, 1, 2, &package).await.unwrap(), share, "it was signed in time");
}

#[tokio::test]
async fn node_without_a_store_releases_no_share() {
    let (group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    group.nodes[0].close().await;
    let answer = group.round_two(&case, 0, 1, &package).await;
    assert!(matches!(answer, Err(NodeError::Unavailable { .. })), "{answer:?}");
    let shown = answer.unwrap_err().to_string();
    assert!(!shown.contains("node-0") && !shown.contains('/'), "{shown}");
}

#[tokio::test]
async fn digest_of_a_refresh_is_not_signed() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let change = group.key_change(refresh("2"), "2", &[0, 1, 2], 2);
    group.admit(&change).await;
    let answer = group.nodes[0].signing_commit(&change.call(0, EffectStep::Execute, 1, 1), &[]).await;
    assert_eq!(
        code(answer),
        Code::StepOutOfOrder,
        "a holder has the key's share, but no signature was approved"
    );
}

#[tokio::test]
async fn policy_receipt_of_a_signature_brings_the_commitments_of_its_first_attempt() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.case(9, asset_action(&[0, 1, 2], 9));
    group.admit(&case).await;
    let call = |step| case.call(0, step, 1, 1);
    let receipt = group.nodes[0].policy_receipt(&call(EffectStep::PolicyReceipt)).await.unwrap();
    let round_one = group.nodes[0].signing_commit(&call(EffectStep::Execute), &[]).await.unwrap();
    assert_eq!(round_one, RoundOne::Committed(receipt.commitments.unwrap()));
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let change = group.key_change(refresh("2"), "2", &[0, 1, 2], 2);
    group.admit(&change).await;
    let receipt =
        group.nodes[0].policy_receipt(&change.call(0, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
    assert_eq!(receipt.commitments, None);
}

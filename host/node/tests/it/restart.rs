//! A restart drops nonces, and keeps released shares.

use crate::support::{admitted, assert_lost, code};
use gateway_node::{Code, RoundOne};
use std::collections::BTreeMap;

#[tokio::test]
async fn restart_drops_nonces_and_the_next_attempt_signs() {
    let (mut group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    group.restart(0).await;
    assert_lost(group.round_two(&case, 0, 1, &package).await);
    group.sign(&case, 2).await;
}

#[tokio::test]
async fn fresh_nonces_of_a_repeated_attempt_do_not_sign_the_old_package() {
    let (mut group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    group.restart(0).await;
    let RoundOne::Committed(fresh) = group.round_one(&case, 0, 1).await.unwrap() else { panic!() };
    assert_ne!(package.commitments[&0], fresh);
    assert_eq!(code(group.round_two(&case, 0, 1, &package).await), Code::PackageRefused);
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

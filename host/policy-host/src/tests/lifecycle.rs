//! Activation of bundles, with real files and a real store. `rollback` tests activation records, and `trust` revocation and
//! expiry.

pub(in crate::tests) mod deployment;
mod documents;
mod rollback;
mod trust;

use deployment::{Deployment, bundle, hash_of};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{ActivationKind, DescribePolicies};
use gateway_policy::testing::{NOW, key};

#[tokio::test(flavor = "multi_thread")]
async fn the_offered_bundle_is_activated_and_the_next_one_follows() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    deployment.offer(&bundle(2));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(2)));
    let status = lifecycle.status(10).await.unwrap();
    let history: Vec<_> = status.history.iter().map(|it| (it.activation_sequence, it.kind)).collect();
    assert_eq!(history, [(2, ActivationKind::Activate), (1, ActivationKind::Activate)]);
    let active = status.active.unwrap();
    assert_eq!((active.activated_at_ms, active.signers.len()), (NOW, 1));
    assert_eq!(active.bundle.unwrap().sequence, 2);
    assert_eq!((status.fault, status.refused.len(), status.last_refusal), (None, 0, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_bundle_and_another_of_the_same_sequence_are_refused() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(5)).await;
    let other =
        gateway_policy::testing::signed(&bundle(5), &[&key(1)], |manifest| manifest.version = "other".into());
    for refused in [bundle(4), other] {
        deployment.offer(&refused);
        deployment::watch(&lifecycle).await;
        assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(5)));
        let health = lifecycle.health();
        assert_eq!((health.fault, health.refused.len()), (None, 1), "the active bundle still evaluates");
        assert_eq!(health.refused[0].bundle_hash, Some(hash_of(&refused)));
        assert!(health.refused[0].why.contains("is not above 5"), "{:?}", health.refused);
    }
    // The active bundle offered again is neither refused nor recorded.
    deployment.offer(&bundle(5));
    deployment::watch(&lifecycle).await;
    let status = lifecycle.status(10).await.unwrap();
    assert_eq!((status.refused.len(), status.history.len()), (0, 1));
    assert!(status.last_refusal.is_some(), "the last refusal is still reported");
    // The same after a restart.
    drop(lifecycle);
    deployment.offer(&bundle(4));
    let lifecycle = deployment.open().await.unwrap();
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(5)));
    assert_eq!(lifecycle.health().refused.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_copied_folder_is_refused_and_activated_when_complete() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer(&gateway_policy::testing::without(&bundle(2), "policy.wasm"));
    deployment::watch(&lifecycle).await;
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    assert!(lifecycle.health().refused[0].why.contains("`policy.wasm` is missing"));
    deployment.offer(&bundle(2));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(2)));
    assert_eq!(lifecycle.health().refused, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_whose_vectors_fail_is_not_activated() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer(&deployment::failing_its_vectors(2));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    assert!(lifecycle.health().refused[0].why.contains("vector `"), "{:?}", lifecycle.health());
    assert_eq!(lifecycle.status(10).await.unwrap().history.len(), 1, "the refused bundle is not recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_bundle_without_vectors_is_not_activated() {
    let without_vectors = |sequence| {
        let name = "tests/one.json";
        gateway_policy::testing::signed(
            &gateway_policy::testing::without(&bundle(sequence), name),
            &[&key(1)],
            |manifest| {
                manifest.files.remove(name).unwrap();
            },
        )
    };
    let deployment = Deployment::new();
    deployment.offer(&without_vectors(1));
    let refused = deployment.open().await.unwrap_err();
    assert!(refused.to_string().contains("the bundle has no test vectors"), "{refused}");
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer(&without_vectors(2));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    assert!(lifecycle.health().refused[0].why.contains("no test vectors"), "{:?}", lifecycle.health());
}

#[tokio::test(flavor = "multi_thread")]
async fn bundle_not_yet_valid_is_activated_when_it_becomes_valid() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    let tomorrow = gateway_policy::testing::signed(&bundle(2), &[&key(1)], |manifest| {
        manifest.not_before_ms = Some(NOW.0 + 1_000);
    });
    deployment.offer(&tomorrow);
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    deployment.clock.set(EpochMs(NOW.0 + 1_000));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&tomorrow));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_the_folder_runs_with_the_last_good_bundle() {
    let deployment = Deployment::new();
    deployment.start(&bundle(3)).await;
    deployment.remove_bundle();
    let lifecycle = deployment.open().await.unwrap();
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(3)));
    assert_eq!(deployment::fault(&lifecycle).await, None, "the bundle evaluates");
    let health = lifecycle.health();
    assert_eq!((health.fault, health.refused[0].offer), (None, "bundle"));
}

#[tokio::test(flavor = "multi_thread")]
async fn first_start_with_a_broken_bundle_fails() {
    let deployment = Deployment::new();
    deployment.offer(&gateway_policy::testing::without(&bundle(1), "policy.wasm"));
    let refused = deployment.open().await.unwrap_err();
    assert!(refused.to_string().contains("`policy.wasm` is missing"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activation_by_another_replica_is_followed() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    let other = deployment.clone_parts();
    other.start(&bundle(2)).await;
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(2)));
}

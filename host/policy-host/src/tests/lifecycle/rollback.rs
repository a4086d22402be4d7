//! Rollbacks by activation records.

use super::deployment::{self, Deployment, bundle, hash_of};
use gateway_engine::ports::{ActivationKind, DescribePolicies};
use gateway_policy::testing::{author, key, role, signed, trust};

#[tokio::test(flavor = "multi_thread")]
async fn signed_record_rolls_back_once() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer(&bundle(2));
    deployment::watch(&lifecycle).await;
    deployment.record(3, &bundle(1), &[&key(1)]);
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    let status = lifecycle.status(10).await.unwrap();
    let rollback = &status.history[0];
    assert_eq!((rollback.activation_sequence, rollback.kind), (3, ActivationKind::Rollback));
    assert_eq!((rollback.reason.as_str(), rollback.signers.len()), ("a test", 1));
    assert_eq!(status.refused, []);

    // The newer bundle in the folder is not activated again, even after a restart.
    drop(lifecycle);
    let lifecycle = deployment.open().await.unwrap();
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    assert_eq!(lifecycle.health().refused[0].offer, "bundle");

    // A bundle with a higher sequence than the record is activated. Then the record has no effect.
    deployment.offer(&bundle(4));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(4)));
    drop(lifecycle);
    let lifecycle = deployment.open().await.unwrap();
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(4)));
    let refused = lifecycle.health().refused;
    assert_eq!((refused.len(), refused[0].offer), (1, "activation"));
    assert!(refused[0].why.contains("sequence 3 is not above 4"), "{refused:?}");
    assert_eq!(lifecycle.status(10).await.unwrap().history.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_record_changes_nothing() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer(&bundle(2));
    deployment::watch(&lifecycle).await;
    let refused = async |why: &str| {
        deployment::watch(&lifecycle).await;
        assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(2)));
        let refused = lifecycle.health().refused;
        assert!(refused[0].offer == "activation" && refused[0].why.contains(why), "{refused:?}");
    };
    deployment.record(3, &bundle(1), &[&key(9)]);
    refused("role `author` has 0 of 1").await;
    deployment.record(2, &bundle(1), &[&key(1)]);
    refused("sequence 2 is not above 2").await;
    deployment.record(u64::MAX, &bundle(1), &[&key(1)]);
    refused("is above the limit of 9007199254740992").await;
    deployment.record(3, &bundle(7), &[&key(1)]);
    refused("is in the store or in the folder").await;
    std::fs::write(deployment.path("activation.json"), "{").unwrap();
    refused("`activation record` is not valid").await;
    std::fs::remove_file(deployment.path("activation.json")).unwrap();
    deployment::watch(&lifecycle).await;
    assert_eq!(lifecycle.health().refused, []);
    assert_eq!(lifecycle.status(10).await.unwrap().history.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_author_stops_a_rollback_to_what_it_signed() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.trust(&trust(vec![role("author", 1, &[&key(1), &key(2)])], &[]));
    let newer = signed(&bundle(2), &[&key(2)], |_| ());
    deployment.offer(&newer);
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&newer));
    deployment.trust(&trust(vec![role("author", 1, &[&key(1), &key(2)])], &[&key(1)]));
    deployment.record(3, &bundle(1), &[&key(2)]);
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&newer));
    let refused = lifecycle.health().refused;
    assert!(refused[0].why.contains("role `author` has 0 of 1"), "{refused:?}");
    // With the signature of a trusted key in the folder, it is accepted.
    deployment.offer(&signed(&bundle(1), &[&key(2)], |_| ()));
    deployment.record(4, &bundle(1), &[&key(2)]);
    deployment::watch(&lifecycle).await;
    assert_eq!((deployment::active(&lifecycle), lifecycle.health().refused), (hash_of(&bundle(1)), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_may_name_the_folders_own_bundle() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(5)).await;
    deployment.trust(&author());
    deployment.offer(&bundle(3));
    deployment.record(6, &bundle(3), &[&key(1)]);
    deployment::watch(&lifecycle).await;
    assert_eq!((deployment::active(&lifecycle), lifecycle.health().refused), (hash_of(&bundle(3)), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_by_a_revoked_key_stops_until_a_trusted_key_names_the_bundle() {
    let deployment = Deployment::new();
    let both = vec![role("author", 1, &[&key(1), &key(2)])];
    deployment.trust(&trust(both.clone(), &[]));
    // The old bundle is signed by key 1. An attacker with key 2 signs a record that activates it again.
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer(&bundle(2));
    deployment::watch(&lifecycle).await;
    deployment.record(3, &bundle(1), &[&key(2)]);
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    deployment.trust(&trust(both, &[&key(2)]));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::fault(&lifecycle).await, Some("untrusted_bundle"));
    let refused = lifecycle.health().refused;
    assert!(refused[0].why.contains("the activation record 3 "), "{refused:?}");
    // Offering the same bundle in the folder does not make the record trusted.
    deployment.offer(&bundle(1));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::fault(&lifecycle).await, Some("untrusted_bundle"));
    let restarted = deployment.open().await.unwrap();
    assert_eq!(restarted.health().fault, Some("no_active_bundle"));
    // A record by a trusted key does.
    deployment.record(4, &bundle(1), &[&key(1)]);
    for lifecycle in [&lifecycle, &restarted] {
        deployment::watch(lifecycle).await;
        assert_eq!((deployment::fault(lifecycle).await, lifecycle.health().refused), (None, vec![]));
        assert_eq!(deployment::active(lifecycle), hash_of(&bundle(1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn activation_deleted_from_the_store_does_not_restore_the_previous_bundle() {
    let deployment = Deployment::new();
    deployment.start(&bundle(1)).await;
    deployment.offer(&bundle(2));
    let (lifecycle, store) = deployment.open_on_tampered_store().await;
    store.hide_above(1);
    deployment.remove_bundle();
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(2)));
    assert!(lifecycle.health().refused.iter().any(|it| it.offer == "active"), "{:?}", lifecycle.health());
}

//! Bundles and activations. The high-water mark only rises.

use super::Deployment;
use super::samples::hex32;
use crate::Store;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    Activated, Activation, ActivationKind, CommitOperations, StorePolicies, StoredBundle,
};
use std::sync::Arc;

fn bundle(byte: u8) -> StoredBundle {
    let file = |name: &str| (name.to_owned(), vec![byte; 3]);
    StoredBundle {
        bundle_hash: hex32(byte),
        bundle_id: "guard".into(),
        files: vec![file("manifest.json"), file("signatures/a.json")],
    }
}

fn activation(sequence: u64, byte: u8) -> Activation {
    Activation {
        at_ms: EpochMs(sequence * 10),
        sequence,
        bundle_hash: hex32(byte),
        kind: ActivationKind::Activate,
        signers: vec!["alice".into(), "bob".into()],
        reason: String::new(),
    }
}

pub(crate) async fn activate(store: &Store, sequence: u64, byte: u8) -> Activated {
    store.activation_append(activation(sequence, byte), bundle(byte)).await.unwrap()
}

pub(crate) async fn high_water_mark_only_rises(deployment: &impl Deployment) {
    let store = deployment.open().await;
    assert_eq!(store.activations(10).await.unwrap(), []);
    assert_eq!(activate(&store, 5, 1).await, Activated::Recorded);
    assert_eq!(activate(&store, 5, 1).await, Activated::AlreadyActive);
    assert_eq!(activate(&store, 5, 2).await, Activated::Superseded { reached: 5 });
    assert_eq!(activate(&store, 4, 2).await, Activated::Superseded { reached: 5 });
    assert_eq!(store.bundle_load(hex32(2)).await.unwrap(), None, "a refused bundle is not stored");
    assert_eq!(activate(&store, 7, 2).await, Activated::Recorded);
    store.close().await;
    let store = deployment.open().await;
    assert_eq!(activate(&store, 5, 1).await, Activated::Superseded { reached: 7 });
    assert_eq!(store.activations(10).await.unwrap(), [activation(7, 2), activation(5, 1)]);
    assert_eq!(store.activations(1).await.unwrap(), [activation(7, 2)]);
}

pub(crate) async fn rollback_is_an_activation_with_a_higher_sequence(deployment: &impl Deployment) {
    let store = deployment.open().await;
    activate(&store, 1, 1).await;
    activate(&store, 2, 2).await;
    let back = Activation {
        kind: ActivationKind::Rollback,
        signers: Vec::new(),
        reason: "it refuses \"payroll\"".into(),
        ..activation(3, 1)
    };
    let again = async || store.activation_append(back.clone(), bundle(1)).await.unwrap();
    assert_eq!(again().await, Activated::Recorded);
    assert_eq!(again().await, Activated::AlreadyActive);
    // The active bundle is accepted with its own, lower sequence; the bundle that it replaced is not.
    assert_eq!(activate(&store, 1, 1).await, Activated::AlreadyActive);
    assert_eq!(activate(&store, 2, 2).await, Activated::Superseded { reached: 3 });
    activate(&store, 4, 3).await;
    assert_eq!(again().await, Activated::Superseded { reached: 4 }, "a rollback record works once");
    assert_eq!(store.activations(2).await.unwrap(), [activation(4, 3), back]);
}

pub(crate) async fn bundle_is_read_back_with_the_latest_signatures(deployment: &impl Deployment) {
    let store = deployment.open().await;
    activate(&store, 1, 1).await;
    assert_eq!(store.bundle_load(hex32(1)).await.unwrap(), Some(bundle(1)));
    let mut resigned = bundle(1);
    resigned.files[1] = ("signatures/b.json".into(), vec![9]);
    let activated = store.activation_append(activation(1, 1), resigned.clone()).await.unwrap();
    assert_eq!(activated, Activated::AlreadyActive);
    assert_eq!(store.bundle_load(hex32(1)).await.unwrap(), Some(resigned));
    assert_eq!(store.bundle_file(hex32(1), "manifest.json").await.unwrap(), Some(vec![1; 3]));
    assert_eq!(store.bundle_file(hex32(1), "signatures/a.json").await.unwrap(), None);
    assert_eq!(store.bundle_file(hex32(9), "manifest.json").await.unwrap(), None);
}

pub(crate) async fn one_of_16_concurrent_activations_of_a_sequence_is_recorded(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let tasks: Vec<_> = (1..=16)
        .map(|byte| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { activate(&store, 1, byte).await })
        })
        .collect();
    let mut n_recorded = 0;
    for task in tasks {
        match task.await.unwrap() {
            Activated::Recorded => n_recorded += 1,
            other => assert_eq!(other, Activated::Superseded { reached: 1 }),
        }
    }
    assert_eq!((n_recorded, store.activations(20).await.unwrap().len()), (1, 1));
}

pub(crate) async fn sequence_too_large_for_a_column_is_an_error(deployment: &impl Deployment) {
    let store = deployment.open().await;
    assert!(
        store
            .activation_append(Activation { sequence: u64::MAX, ..activation(1, 1) }, bundle(1))
            .await
            .is_err()
    );
    assert_eq!(store.activations(10).await.unwrap(), []);
}

pub(crate) async fn write_probe_fails_when_the_store_is_closed(deployment: &impl Deployment) {
    let store = deployment.open().await;
    store.probe_write(EpochMs(1)).await.unwrap();
    store.probe_write(EpochMs(2)).await.unwrap();
    store.close().await;
    assert!(store.probe_write(EpochMs(3)).await.is_err());
}

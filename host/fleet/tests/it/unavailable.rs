//! Nodes that are down or lost their database: the others continue if they are enough.

use crate::support::{World, operation};
use gateway_domain::operation::{Outcome, Phase};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Dependency;
use gateway_node::testing::{SUITES, asset_action, key_create, roster};

#[tokio::test]
async fn other_nodes_sign_when_one_lost_its_database() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    world.lose(&[0]).await;
    let signature = world.signed(operation(1, asset_action(&[0, 1, 2], 7))).await;
    assert_eq!(signature.signers, roster(&[1, 2]));
}

#[tokio::test]
async fn other_nodes_sign_when_a_share_was_altered() {
    let mut world = World::with_key(3, 2, SUITES[1]).await;
    let sql = "UPDATE share SET secret = CAST(secret || x'00' AS BLOB)";
    world.change(0, sql).await;
    let signature = world.signed(operation(1, asset_action(&[0, 1, 2], 7))).await;
    assert_eq!(signature.signers, roster(&[1, 2]));
    world.change(1, sql).await;
    let signing = world.until_ceremony(operation(2, asset_action(&[0, 1, 2], 8))).await;
    let why = world.perform_pending(&signing).await.unwrap_err();
    assert_eq!(
        why.detail,
        "1 of 2 required signers are available; \
         participant 0: a secret of the node was altered, or moved from another row; \
         participant 1: a secret of the node was altered, or moved from another row"
    );
}

#[tokio::test]
async fn fleet_does_not_start_under_another_key() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    world.fleet.close().await;
    let other = world.fleet_under(2);
    assert!(other.open_existing().await.unwrap_err().is_wrong_kek());
    other.close().await;
    // A node whose database cannot be opened does not prevent the start.
    world.break_disk(&[0]).await;
    world.fleet.open_existing().await.unwrap();
    let signed = world.complete(operation(1, asset_action(&[0, 1, 2], 7))).await;
    assert_eq!(signed.phase, Phase::Published);
}

#[tokio::test]
async fn other_nodes_sign_when_one_is_lost_after_admission() {
    let mut world = World::with_key(3, 2, SUITES[1]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    world.break_disk(&[1]).await;
    world.signed(signing).await;
}

#[tokio::test]
async fn error_for_too_few_nodes_names_participants_and_no_paths() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    world.break_disk(&[0, 2]).await;
    let why = world.perform_pending(&signing).await.unwrap_err();
    assert_eq!(why.dependency, Dependency::Runtime);
    assert_eq!(
        why.detail,
        "1 of 2 required signers are available; participant 0: the node's store cannot be opened; \
         participant 2: the node's store cannot be opened"
    );
    let fresh = operation(2, asset_action(&[0, 1, 2], 8));
    let deciding = world.drive(fresh, |operation| operation.phase == Phase::Admitting).await.unwrap();
    let Outcome::Acked(receipts) = world.perform_pending(&deciding).await.unwrap() else { panic!() };
    assert_eq!(receipts.len(), 1, "the domain decides whether that is enough");
    world.break_disk(&[1]).await;
    let why = world.perform_pending(&deciding).await.unwrap_err();
    assert!(why.detail.contains("participant 1: "), "{why}");
    assert!(!why.detail.contains(".db") && !why.detail.contains('/'), "{why}");
}

#[tokio::test]
async fn node_that_missed_the_admission_catches_up() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    // Node 2 is down until the ceremony, and then node 0 goes down.
    let path = world.path(2);
    world.fleet.close().await;
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    std::fs::create_dir(&path).unwrap();
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    world.fleet.close().await;
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    world.break_disk(&[0]).await;
    let signature = world.signed(signing).await;
    assert_eq!(signature.signers, roster(&[1, 2]));
}

#[tokio::test]
async fn key_creation_waits_for_every_node_without_using_up_attempts() {
    let mut world = World::new();
    let creating = world.until_ceremony(operation(100, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    let path = world.path(2);
    world.fleet.close().await;
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    std::fs::create_dir(&path).unwrap();
    for _ in 0..3 {
        let why = world.perform_pending(&creating).await.unwrap_err();
        assert!(why.detail.contains("participant 2: the node's store cannot be opened"), "{why}");
    }
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    // The others had begun the attempt, so it is lost. The next one succeeds.
    assert!(matches!(world.perform_pending(&creating).await.unwrap(), Outcome::AttemptLost { .. }));
    let created = world.complete(creating).await;
    assert_eq!(created.phase, Phase::Published);
    assert_eq!(created.staged.unwrap().participants, roster(&[0, 1, 2]));
}

#[tokio::test]
async fn signer_that_fails_in_round_two_is_chosen_last_in_the_next_attempt() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    // Node 0 cannot mark nonces as used, so it answers round one but not round two.
    world.fail_nonce_marks(0).await;
    let lost = world.perform_pending(&signing).await.unwrap();
    let Outcome::AttemptLost { reason: why, .. } = &lost else { panic!("{lost:?}") };
    assert!(why.contains("participant 0: the node's store failed"), "{why}");
    let signature = world.signed(signing).await;
    assert!(!signature.signers.as_set().contains(&ParticipantIndex(0)));
}

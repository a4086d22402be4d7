//! Refresh, reshare, rotation and recovery of a key on real nodes, and the shares that remain in their databases.

use crate::support::{KEY, SUCCESSOR, World, check_signature, operation};
use gateway_domain::intent::Intent;
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::operation::{Operation, Phase, SignatureResult};
use gateway_domain::roster::Threshold;
use gateway_node::testing::{SUITES, asset_action, payment, recover, refresh, reshare, roster, rotate};

impl World {
    fn key(&self) -> CustodyKey {
        self.keys[&KEY].clone()
    }

    /// Completes an operation with this intent.
    async fn complete_intent(&mut self, id: u8, intent: Intent) {
        let changed = self.complete(operation(id, intent)).await;
        assert_eq!(changed.phase, Phase::Published, "{:?}", changed.failure);
    }

    /// Signs with these participants, and checks the signature.
    async fn sign(&mut self, id: u8, participants: &[u16]) -> SignatureResult {
        self.signed(operation(id, asset_action(participants, id))).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshed_key_keeps_its_public_key() {
    for suite in SUITES {
        let mut world = World::with_key(3, 2, suite).await;
        let before = world.key();
        world.complete_intent(1, refresh("2")).await;
        let after = world.key();
        assert_eq!(after.public_key_artifact_ref(), before.public_key_artifact_ref());
        assert_eq!(
            (after.epoch.name.0.as_str(), after.state, after.busy_with),
            ("2", KeyState::Active, None)
        );
        assert_ne!(after.epoch.root, before.epoch.root);
        for pair in [[0, 1], [0, 2], [1, 2]] {
            let signature = world.sign(10 + u8::try_from(pair[0] + pair[1]).unwrap(), &pair).await;
            assert!(before.public_key_artifact_ref().ends_with(&signature.public_key_hex));
        }
        assert_eq!(shares(&world, 0).await, [("1", "erased"), ("2", "active")].map(to_owned));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reshared_key_is_held_only_by_its_new_roster() {
    for suite in SUITES {
        let mut world = World::with_key(3, 2, suite).await;
        let before = world.key();
        world.complete_intent(1, reshare("2", &[1, 2, 3, 4, 5], 3)).await;
        let after = world.key();
        assert_eq!(after.public_key_artifact_ref(), before.public_key_artifact_ref());
        assert_eq!((after.participants.clone(), after.threshold), (roster(&[1, 2, 3, 4, 5]), Threshold(3)));
        let joined = world.sign(2, &[3, 4, 5]).await;
        assert!(before.public_key_artifact_ref().ends_with(&joined.public_key_hex));
        world.sign(3, &[1, 2, 3]).await;
        // Participant 0 has left: its share is erased.
        assert_eq!(shares(&world, 0).await, [("1", "erased")].map(to_owned));
        assert_eq!(shares(&world, 1).await, [("1", "erased"), ("2", "active")].map(to_owned));
        // To a third roster, without a member of the first.
        world.complete_intent(4, reshare("3", &[6, 7], 2)).await;
        world.sign(5, &[6, 7]).await;
    }
}

#[tokio::test]
async fn child_key_survives_a_refresh() {
    let mut world = World::with_key(3, 2, SUITES[1]).await;
    let child = |signed: Operation| {
        check_signature(signed.signature.as_ref().unwrap());
        signed.signature.unwrap().public_key_hex
    };
    let before = child(world.complete(operation(1, payment(&[0, 1, 2], Some("0/17")))).await);
    world.complete_intent(2, refresh("2")).await;
    let after = child(world.complete(operation(3, payment(&[0, 1, 2], Some("0/17")))).await);
    assert_eq!(after, before);
}

#[tokio::test]
async fn rotated_key_no_longer_signs_and_its_successor_does() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let signing = world.until_ceremony(operation(9, asset_action(&[0, 1, 2], 7))).await;
    world.complete_intent(1, rotate("r1", &[1, 2, 3], 2)).await;
    let (old, new) = (world.key(), world.keys[&SUCCESSOR].clone());
    assert_eq!((old.state, new.state), (KeyState::Rotated, KeyState::Active));
    assert_ne!(old.public_key_artifact_ref(), new.public_key_artifact_ref());
    assert_eq!((new.epoch.name.0.as_str(), new.participants.clone()), ("r1", roster(&[1, 2, 3])));
    // The nodes themselves refuse an operation that was admitted before.
    let late = world.complete(signing).await;
    assert_eq!(late.phase, Phase::Failed);
    // The old shares are retired and not erased: funds may have to be moved from the old address.
    assert_eq!(shares(&world, 0).await, [("1", "retired")].map(to_owned));
    assert_eq!(shares(&world, 3).await, [("r1", "active")].map(to_owned));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_share_is_recovered_from_the_others() {
    for suite in SUITES {
        let mut world = World::with_key(5, 3, suite).await;
        let before = world.key();
        world.lose(&[2]).await;
        world.complete_intent(1, recover("2", 2, &[0, 1, 4])).await;
        let after = world.key();
        assert_eq!(after.public, before.public);
        assert_eq!(after.epoch.name.0, "2");
        world.sign(2, &[2, 3, 4]).await;
        world.sign(3, &[0, 1, 3]).await;
        assert_eq!(shares(&world, 2).await, [("2", "active")].map(to_owned));
        assert_eq!(shares(&world, 3).await, [("1", "erased"), ("2", "active")].map(to_owned));
    }
}

/// A reshare is published late, when the node that left has a share again.
#[tokio::test]
async fn late_publication_erases_only_the_generation_it_replaced() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let executed = |operation: &Operation| operation.phase == Phase::Publishing;
    let late = world.drive(operation(1, reshare("2", &[0, 1, 3], 2)), executed).await.unwrap();
    let back = world.drive(operation(2, reshare("3", &[0, 1, 2], 3)), executed).await.unwrap();
    assert_eq!(world.complete(late).await.phase, Phase::Published);
    assert_eq!(world.complete(back).await.phase, Phase::Published);
    assert_eq!(shares(&world, 2).await, [("1", "erased"), ("3", "active")].map(to_owned));
    world.sign(3, &[0, 1, 2]).await;
}

/// The old key signs until its successor is active on every node.
#[tokio::test]
async fn key_signs_while_its_rotation_waits_for_a_node() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let committing = |operation: &Operation| matches!(operation.phase, Phase::CommittingEpoch { .. });
    let rotating = world.drive(operation(1, rotate("r1", &[0, 1, 3], 2)), committing).await.unwrap();
    let outcome = world.perform_pending(&rotating).await.unwrap();
    world.sign(2, &[0, 1, 2]).await;
    let rotating = world.record_outcome(rotating, outcome);
    assert_eq!(world.complete(rotating).await.phase, Phase::Published);
    assert_eq!(shares(&world, 2).await, [("1", "retired")].map(to_owned));
}

#[tokio::test]
async fn share_that_does_not_open_is_recovered() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    world.fleet.close().await;
    world.change(2, "UPDATE share SET secret = zeroblob(200)").await;
    world.restart().await;
    world.complete_intent(1, recover("2", 2, &[0, 1])).await;
    world.sign(2, &[1, 2]).await;
}

#[tokio::test]
async fn reshare_does_not_need_leaving_holders() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    world.break_disk(&[0]).await;
    world.complete_intent(1, reshare("2", &[1, 2, 3], 2)).await;
    world.sign(2, &[1, 3]).await;
}

#[tokio::test]
async fn key_signs_while_its_refresh_waits_for_a_node() {
    let mut world = World::with_key(5, 3, SUITES[0]).await;
    let refreshing = world.until_ceremony(operation(1, refresh("2"))).await;
    world.break_disk(&[3]).await;
    let why = world.perform_pending(&refreshing).await.unwrap_err().to_string();
    assert!(why.contains("participant 3"), "{why}");
    world.sign(2, &[0, 1, 2]).await;
    std::fs::remove_dir(world.path(3)).unwrap();
}

fn to_owned((epoch, state): (&str, &str)) -> (String, String) {
    (epoch.to_owned(), state.to_owned())
}

/// The epoch and state of every share of a node, by epoch.
pub(crate) async fn shares(world: &World, participant: u16) -> Vec<(String, String)> {
    use sqlx::{ConnectOptions, Connection};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(world.path(participant)).read_only(true);
    let mut conn = options.connect().await.unwrap();
    let sql = "SELECT epoch, state FROM share ORDER BY epoch";
    let rows = sqlx::query_as(sql).fetch_all(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    rows
}

//! A node whose database was replaced by an older copy stops at its next call, and the others continue.

use crate::support::{World, operation};
use gateway_domain::operation::Phase;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::DriveNodes;
use gateway_node::testing::{SUITES, asset_action, roster};

/// Copies the database of a closed node.
fn copy(world: &World, participant: u16) -> Vec<u8> {
    std::fs::read(world.path(participant)).unwrap()
}

#[tokio::test]
async fn restored_node_stops_at_its_next_call_and_the_others_sign() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    world.fleet.close().await;
    let backup = copy(&world, 0);
    let signed = world.complete(operation(1, asset_action(&[0, 1, 2], 7))).await;
    assert_eq!(signed.signature.unwrap().signers, roster(&[0, 1]));
    // The gateway keeps running while the node restarts.
    world.fleet.close().await;
    std::fs::write(world.path(0), &backup).unwrap();

    let signature = world.signed(operation(2, asset_action(&[0, 1, 2], 8))).await;
    assert_eq!(signature.signers, roster(&[1, 2]));
    let node = world.node(0).await;
    assert!(node.is_stopped());
    let stopped = node.log_head().await.unwrap().head.size;

    // It stays stopped after a restart of the gateway too, and readiness names it.
    world.restart().await;
    assert!(world.node(0).await.is_stopped());
    let status = loop {
        world.fleet.check().await;
        let status = world.fleet.nodes_status().await.unwrap();
        if !status.faults.is_empty() {
            break status;
        }
    };
    let fault = &status.faults[&ParticipantIndex(0)];
    assert_eq!(
        fault.findings,
        ["rolled_back, one 1: the node has stopped: its database is older than what it signed"]
    );
    assert!(!status.open.contains(&ParticipantIndex(0)));
    assert_eq!(world.node(0).await.log_head().await.unwrap().head.size, stopped, "it signed nothing");
}

#[tokio::test]
async fn node_that_is_restored_to_its_newest_state_continues() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    world.complete(operation(1, asset_action(&[0, 1, 2], 7))).await;
    world.fleet.close().await;
    let backup = copy(&world, 0);
    std::fs::write(world.path(0), &backup).unwrap();
    let signed = world.complete(operation(2, asset_action(&[0, 1, 2], 8))).await;
    assert_eq!(signed.signature.unwrap().signers, roster(&[0, 1]));
}

/// Only node 1 still knows the operation. It confirms the publication alone, but not before the others have refused it.
#[tokio::test]
async fn signature_that_other_nodes_forgot_is_published() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    world.fleet.close().await;
    let backups = [0, 2].map(|forgetful| (forgetful, copy(&world, forgetful)));
    let signing = operation(1, asset_action(&[0, 1, 2], 7));
    let signed = world.drive(signing, |operation| operation.phase == Phase::Publishing).await.unwrap();
    let sizes = [(0, world.node(0).await.log_size()), (2, world.node(2).await.log_size())];
    world.fleet.close().await;
    for (forgetful, backup) in backups {
        std::fs::write(world.path(forgetful), &backup).unwrap();
    }
    world.perform_pending(&signed).await.unwrap_err();
    for (forgetful, size) in sizes {
        world.node(forgetful).await.readmit(size).await.unwrap();
    }
    world.signed(signed).await;
}

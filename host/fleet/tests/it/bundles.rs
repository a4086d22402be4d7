//! Nodes that do not have the policy bundle of a decision get it within the same effect.

use crate::support::{World, check_signature, operation};
use gateway_domain::operation::Phase;
use gateway_node::testing::{SUITES, asset_action, refresh};

#[tokio::test]
async fn node_without_the_bundle_gets_it_within_the_same_effect() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let forget = "DELETE FROM bundle";
    let forget_files = "DELETE FROM bundle_file";
    for (id, intent, phases) in [
        (1, asset_action(&[0, 1, 2], 7), [Phase::Admitting, Phase::Executing { attempt: 1 }]),
        (2, refresh("2"), [Phase::Admitting, Phase::Executing { attempt: 1 }]),
    ] {
        let mut reached = operation(id, intent);
        for phase in phases {
            reached = world.drive(reached, |operation| operation.phase == phase).await.unwrap();
            for participant in [0, 2] {
                world.change(participant, forget).await;
                world.change(participant, forget_files).await;
            }
            world.restart().await;
        }
        let done = world.complete(reached).await;
        assert_eq!(done.phase, Phase::Published, "{:?}", done.failure);
        if let Some(signature) = &done.signature {
            check_signature(signature);
        }
    }
}

#[tokio::test]
async fn operation_waits_while_the_bundle_cannot_be_found() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    for participant in 0..3 {
        world.change(participant, "DELETE FROM bundle").await;
        world.change(participant, "DELETE FROM bundle_file").await;
    }
    world.restart().await;
    world.hide_bundles(true);
    let submitted = operation(1, asset_action(&[0, 1, 2], 7));
    let (waiting, why) = world.drive(submitted, |_| false).await.unwrap_err();
    assert_eq!(waiting.phase, Phase::Admitting);
    assert!(why.detail.contains("does not have the policy bundle"), "{}", why.detail);
    world.hide_bundles(false);
    assert_eq!(world.complete(*waiting).await.phase, Phase::Published);
}

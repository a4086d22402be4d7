//! Operations that are given up: with nodes that are lost, and after the nodes have completed the ceremony.

use crate::lifecycle::shares;
use crate::support::{KEY, World, check_signature, operation};
use gateway_domain::approval::Rejection;
use gateway_domain::key::KeyState;
use gateway_domain::operation::{Action, EffectStep, Failure, Operation, Outcome, Phase};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::testing::samples::verdict;
use gateway_domain::time::EpochMs;
use gateway_node::RoundOne;
use gateway_node::testing::{SUITES, asset_action, recover, refresh, reshare, roster};
use gateway_threshold::sign::SigningPackage;
use std::collections::BTreeMap;

/// An abort by an approver whom the policy counts.
fn abort(lost: &[u16]) -> Action {
    let rejection = Rejection {
        subject_id: "alice".into(),
        roles: vec!["approver".into()],
        registered: None,
        reason: "drill".into(),
        lost: Some(lost.iter().copied().map(ParticipantIndex).collect()),
        claimed_at_ms: 1,
        rejected_at_ms: EpochMs(1),
        signature: None,
    };
    Action::Reject { rejection, policy: Some(verdict(&["alice".into()], 1)) }
}

fn refusal() -> Outcome {
    let failure = Failure { code: "drill".into(), detail: "given up".into(), culprits: vec![] };
    Outcome::Rejected { failure, policy: None }
}

/// Drives the operation as far as the nodes that answer bring it.
async fn as_far_as_possible(world: &mut World, operation: Operation) -> Operation {
    *world.drive(operation, |_| false).await.unwrap_err().0
}

#[tokio::test(flavor = "multi_thread")]
async fn receiver_that_is_lost_before_the_decision_does_not_keep_the_key_busy() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let refreshing = world.until_ceremony(operation(1, refresh("2"))).await;
    world.break_disk(&[2]).await;
    world.perform_pending(&refreshing).await.unwrap_err();
    assert_eq!(world.keys[&KEY].state, KeyState::Refreshing);

    let aborted = world.apply(refreshing, abort(&[]));
    let discarding = as_far_as_possible(&mut world, aborted).await;
    let undiscarded = [ParticipantIndex(2)].into();
    assert_eq!(discarding.phase, Phase::DiscardingRest { round: 2, undiscarded });
    assert_eq!((world.keys[&KEY].state, world.keys[&KEY].busy_with), (KeyState::Active, None));
    world.signed(operation(2, asset_action(&[0, 1, 2], 7))).await;
    let reshared = world.complete(operation(3, reshare("2", &[0, 1], 2))).await;
    assert_eq!(reshared.phase, Phase::Published, "{:?}", reshared.failure);

    let given_up = world.apply(discarding, abort(&[2]));
    assert_eq!(given_up.phase, Phase::Failed);
    assert_eq!(given_up.failure.unwrap().code, "aborted");
}

#[tokio::test(flavor = "multi_thread")]
async fn receiver_that_is_lost_after_the_decision_is_recovered() {
    let mut world = World::with_key(3, 2, SUITES[1]).await;
    let is_decided = |operation: &Operation| matches!(operation.phase, Phase::CommittingEpoch { .. });
    let decided = world.drive(operation(1, refresh("2")), is_decided).await.unwrap();
    // Its disk is full, and soon after lost.
    let full = "CREATE TRIGGER full BEFORE INSERT ON log_entry BEGIN SELECT RAISE(ABORT, 'disk full'); END";
    world.change(2, full).await;
    let waiting = as_far_as_possible(&mut world, decided).await;
    assert_eq!(waiting.promoted_receipts.len(), 2);

    let executed = world.apply(waiting, abort(&[2]));
    assert_eq!(world.keys[&KEY].state, KeyState::Active);
    world.lose(&[2]).await;
    let published = world.complete(executed).await;
    assert_eq!(published.phase, Phase::Published);
    let kept = [("1", "retired"), ("2", "active")].map(to_owned);
    assert_eq!(shares(&world, 0).await, kept, "a share that might be needed was erased");

    let recovered = world.complete(operation(2, recover("3", 2, &[0, 1]))).await;
    assert_eq!(recovered.phase, Phase::Published, "{:?}", recovered.failure);
    let erased = [("1", "erased"), ("2", "erased"), ("3", "active")].map(to_owned);
    assert_eq!(shares(&world, 0).await, erased);
    world.signed(operation(3, asset_action(&[0, 2], 7))).await;
}

fn to_owned((epoch, state): (&str, &str)) -> (String, String) {
    (epoch.to_owned(), state.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_change_that_all_receivers_had_staged_completes() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let refreshing = world.until_ceremony(operation(1, refresh("2"))).await;
    let staged = world.perform_pending(&refreshing).await.unwrap();
    assert!(matches!(staged, Outcome::Staged { .. }));
    let aborted = world.apply(refreshing, abort(&[]));
    let published = world.complete(aborted).await;
    assert_eq!((published.phase, published.failure), (Phase::Published, None));
    assert_eq!(world.keys[&KEY].epoch.name.0, "2");
}

/// The gateway lost the outcome, and refused the operation since. The signature exists, so it must be shown.
#[tokio::test(flavor = "multi_thread")]
async fn signature_that_exists_is_the_result_of_an_operation_that_was_given_up() {
    let changes =
        [None, Some(refresh("2")), Some(reshare("2", &[0, 1, 2, 3, 4], 3)), Some(reshare("2", &[2, 3], 2))];
    for (number, change) in changes.into_iter().enumerate() {
        let mut world = World::with_key(3, 2, SUITES[number % 2]).await;
        let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
        let signed = world.perform_pending(&signing).await.unwrap();
        let Outcome::Signed { signature, .. } = signed else { panic!("{signed:?}") };
        let discarding = world.record_outcome(signing, refusal());
        assert_eq!(discarding.phase, Phase::Discarding);
        if let Some(change) = change {
            let changed = world.complete(operation(2, change)).await;
            assert_eq!(changed.phase, Phase::Published);
        }
        let published = world.complete(discarding).await;
        assert_eq!((published.phase, published.failure), (Phase::Published, None));
        assert_eq!(published.signature, Some(signature));
    }
}

/// Two replicas performed the first attempt at the same time: each made a package of these signers, and had some of them sign it.
async fn make_packages(world: &World, signing: &Operation, packages: &[(&[u16], &[u16])]) {
    let case = world.case(signing);
    let call = |node| case.call(node, EffectStep::Execute, 1, 1);
    let mut commitments = BTreeMap::new();
    for node in signing.planned_nodes().iter().map(|node| node.0) {
        let committed = world.node(node).await.signing_commit(&call(node), &[]).await.unwrap();
        let RoundOne::Committed(bytes) = committed else { panic!("{committed:?}") };
        commitments.insert(node, bytes);
    }
    for (signers, released_by) in packages {
        let package = SigningPackage {
            message: case.decision().request_digest.as_bytes().to_vec(),
            commitments: signers.iter().map(|signer| (*signer, commitments[signer].clone())).collect(),
            tweak: None,
        };
        for &node in *released_by {
            world.node(node).await.signing_share(&call(node), &package).await.unwrap();
        }
    }
}

#[tokio::test]
async fn attempt_with_two_packages_that_cannot_be_completed_ends() {
    for is_given_up in [false, true] {
        let mut world = World::with_key(5, 3, SUITES[1]).await;
        let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2, 3, 4], 7))).await;
        make_packages(&world, &signing, &[(&[1, 2, 4], &[2, 4]), (&[0, 1, 4], &[0, 1])]).await;
        world.break_disk(&[3]).await;
        if is_given_up {
            let given_up = world.record_outcome(signing, refusal());
            let failed = world.complete(given_up).await;
            assert_eq!((failed.phase, failed.failure.unwrap().code.as_str()), (Phase::Failed, "drill"));
        } else {
            let lost = world.perform_pending(&signing).await.unwrap();
            let Outcome::AttemptLost { receipts, .. } = &lost else { panic!("{lost:?}") };
            assert!(receipts.iter().all(|receipt| receipt.package_hash.is_some()), "{receipts:?}");
            world.signed(signing).await;
        }
    }
}

/// Node 2 may have signed its package before it was restored, so the operation is given up. It says so, and does not wait in silence.
#[tokio::test]
async fn attempt_whose_last_signer_was_restored_ends_with_its_refusal() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    world.fleet.close().await;
    let backup = std::fs::read(world.path(2)).unwrap();
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    make_packages(&world, &signing, &[(&[1, 2], &[1]), (&[0, 1], &[0])]).await;
    let size = world.node(2).await.log_size();
    world.fleet.close().await;
    std::fs::write(world.path(2), &backup).unwrap();
    world.perform_pending(&signing).await.unwrap_err();
    world.node(2).await.readmit(size).await.unwrap();
    let given_up = as_far_as_possible(&mut world, signing).await;
    let failure = given_up.failure.unwrap();
    assert_eq!(given_up.phase, Phase::Discarding);
    assert_eq!(failure.code, "decided_before_readmission");
    assert!(failure.detail.starts_with("participant 2 refuses"), "{failure:?}");
}

/// Node 2 refuses since it was restored. Node 4 discards the attempt once it can be reached, so the operation is not given up before.
#[tokio::test]
async fn attempt_waits_for_a_signer_that_can_still_discard_it() {
    let mut world = World::with_key(5, 3, SUITES[1]).await;
    world.fleet.close().await;
    let backup = std::fs::read(world.path(2)).unwrap();
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2, 3, 4], 7))).await;
    make_packages(&world, &signing, &[(&[1, 2, 4], &[1])]).await;
    let size = world.node(2).await.log_size();
    world.fleet.close().await;
    std::fs::write(world.path(2), &backup).unwrap();
    // Node 2 stops when it is called for another operation.
    world.complete(operation(2, asset_action(&[0, 1, 2, 3, 4], 8))).await;
    world.node(2).await.readmit(size).await.unwrap();
    world.fleet.close().await;
    let aside = world.path(4).with_extension("aside");
    std::fs::rename(world.path(4), &aside).unwrap();
    world.break_disk(&[4]).await;
    let waiting = world.perform_pending(&signing).await.unwrap_err();
    assert!(waiting.to_string().contains("may still be completed"), "{waiting}");

    std::fs::remove_dir(world.path(4)).unwrap();
    std::fs::rename(&aside, world.path(4)).unwrap();
    world.restart().await;
    world.signed(signing).await;
}

#[tokio::test]
async fn package_that_can_be_completed_is_found_beside_one_that_cannot() {
    let mut world = World::with_key(5, 3, SUITES[0]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2, 3, 4], 7))).await;
    make_packages(&world, &signing, &[(&[1, 3, 4], &[1, 4]), (&[0, 2, 4], &[0, 2])]).await;
    // A third replica has the commitments in hand, and makes a third package.
    world.perform_pending(&signing).await.unwrap_err();
    let Outcome::Signed { signature, .. } = world.perform_pending(&signing).await.unwrap() else { panic!() };
    assert_eq!(signature.signers, roster(&[1, 3, 4]));
    check_signature(&signature);
    assert_eq!(world.complete(signing).await.signature, Some(signature));
}

//! Refusals by nodes end the operation with a stable code when too few nodes are left.

use crate::support::{World, operation};
use gateway_domain::ids::EpochName;
use gateway_domain::operation::{Failure, Operation, Outcome, Phase};
use gateway_node::testing::{NOT_AFTER, SUITES, asset_action, hex32, key_create};

fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Rejected { failure, policy: None } => failure,
        other => panic!("{other:?}"),
    }
}

/// Drives the operation to its admission.
async fn until_admission(world: &mut World, operation: Operation) -> Operation {
    world.drive(operation, |operation| operation.phase == Phase::Admitting).await.unwrap()
}

#[tokio::test]
async fn expired_admission_ends_the_operation() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let deciding = until_admission(&mut world, operation(1, asset_action(&[0, 1, 2], 7))).await;
    let signing = world.until_ceremony(operation(2, asset_action(&[0, 1, 2], 8))).await;
    world.set_time(NOT_AFTER.0);
    for late in [deciding, signing] {
        let failed = world.complete(late).await;
        assert_eq!(failed.phase, Phase::Failed);
        assert_eq!(failed.failure.unwrap().code, "admission_expired");
    }
}

#[tokio::test]
async fn another_epoch_ends_the_operation() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let mut signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    world.keys.values_mut().for_each(|key| key.epoch.root = hex32(1));
    let stale = until_admission(&mut world, operation(2, asset_action(&[0, 1, 2], 8))).await;
    assert_eq!(failure(world.perform_pending(&stale).await.unwrap()).code, "epoch_conflict");
    if let Some(admission) = &mut signing.admission {
        admission.decision.epoch = EpochName("2".into());
    }
    assert_eq!(failure(world.perform_pending(&signing).await.unwrap()).code, "epoch_conflict");
}

#[tokio::test]
async fn admission_that_nodes_refuse_ends_the_operation() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let mut deciding = until_admission(&mut world, operation(1, asset_action(&[0, 1, 2], 7))).await;
    deciding.approvals.truncate(1);
    let failure = failure(world.perform_pending(&deciding).await.unwrap());
    assert_eq!(failure.code, "admission_refused");
    assert_eq!(failure.detail, "participant 0 refuses: the decision is based on other approvals");
}

#[tokio::test]
async fn operation_ends_when_too_few_nodes_can_still_make_the_step() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    for (id, refusing) in [(1, vec![1]), (2, vec![1, 2])] {
        let deciding = until_admission(&mut world, operation(id, asset_action(&[0, 1, 2], 7))).await;
        let mut other = world.case(&deciding);
        other.decision.not_after_ms.0 += 1;
        for participant in &refusing {
            world.node(*participant).await.admit(&other.request()).await.unwrap();
        }
        let outcome = world.perform_pending(&deciding).await.unwrap();
        if refusing.len() == 1 {
            assert!(matches!(&outcome, Outcome::Acked(receipts) if receipts.len() == 2), "{outcome:?}");
        } else {
            assert_eq!(failure(outcome).code, "admission_conflict");
        }
    }
}

#[tokio::test]
async fn existing_key_is_not_created_again() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let again = until_admission(&mut world, operation(2, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    assert_eq!(failure(world.perform_pending(&again).await.unwrap()).code, "epoch_conflict");
}

#[tokio::test]
async fn discarded_key_can_be_created_again() {
    let mut world = World::new();
    let creating = world.until_ceremony(operation(100, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    let staged = world.perform_pending(&creating).await.unwrap();
    assert!(matches!(staged, Outcome::Staged { .. }));
    let refusal = Failure { code: "drill".into(), detail: "given up".into(), culprits: vec![] };
    let discarding = world.record_outcome(creating, Outcome::Rejected { failure: refusal, policy: None });
    assert_eq!(discarding.phase, Phase::Discarding);
    let failed = world.complete(discarding).await;
    assert_eq!(failed.phase, Phase::Failed);
    world.keys.clear();
    let made = world.complete(operation(101, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    assert_eq!(made.phase, Phase::Published, "{:?}", made.failure);
}

/// Two of three nodes sign. Node 0 released its share, and discards the operation since node 1 discarded the attempt.
#[tokio::test]
async fn signing_operation_fails_when_too_few_nodes_are_left_to_sign() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    world.fail_nonce_marks(1).await;
    assert!(
        matches!(world.perform_pending(&signing).await.unwrap(), Outcome::AttemptLost { .. }),
        "node 0 released its share"
    );
    world.set_time(NOT_AFTER.0);
    let refused = world.perform_pending(&signing).await.unwrap();
    let discarding = world.record_outcome(signing, refused);
    assert_eq!(discarding.phase, Phase::Discarding);
    let Outcome::Acked(receipts) = world.perform_pending(&discarding).await.unwrap() else { panic!() };
    assert_eq!(receipts.iter().map(|receipt| receipt.participant.0).collect::<Vec<_>>(), [0, 1, 2]);
    let failed = world.complete(discarding).await;
    assert_eq!(failed.phase, Phase::Failed);
    assert!(failed.signature.is_none() && failed.failure.unwrap().code == "admission_expired");
}

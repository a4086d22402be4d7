//! Repeats effects after the nodes lost what they held only in memory, as in a crash. An attempt is lost if only some nodes
//! released their signature share, or during key generation; otherwise the outcome is the same.

use crate::support::{World, check_signature, effect, operation};
use gateway_domain::intent::Intent;
use gateway_domain::operation::{EffectStep, Operation, Outcome, Phase};
use gateway_domain::receipt::Chain;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::testing::{SUITES, asset_action, key_create, recover, refresh, reshare, rotate};
use gateway_node::{Call, CeremonyStart, RoundOne, Subject};
use gateway_threshold::sign::SigningPackage;
use std::collections::BTreeMap;

/// The call that a node gets for the operation's pending effect.
fn call(world: &World, operation: &Operation, participant: u16) -> Call {
    let admission_hash = operation.admission.as_ref().unwrap().admission_hash;
    let participant = ParticipantIndex(participant);
    let chain = Chain { admission_hash, operation_id: operation.id, participant };
    let decision = &operation.admission.as_ref().unwrap().decision;
    let profile = match &operation.intent {
        Intent::KeyCreate(create) => &create.signature_profile,
        _ => &world.keys[&decision.key_id].signature_profile,
    };
    let profile = profile.parse().unwrap();
    let subject = Subject::new(decision, profile);
    Call { effect: effect(operation).id, admission_hash, previous: chain.after_receipt().unwrap(), subject }
}

/// Collects these signers' commitments of round one, and returns the signing package.
async fn collect_package(world: &World, operation: &Operation, signers: &[u16]) -> SigningPackage {
    let mut commitments = BTreeMap::new();
    for signer in signers {
        let node = world.node(*signer).await;
        match node.signing_commit(&call(world, operation, *signer), &[]).await.unwrap() {
            RoundOne::Committed(bytes) => _ = commitments.insert(*signer, bytes),
            other => panic!("{other:?}"),
        }
    }
    let message =
        operation.intent.request_digest(operation.id, operation.key.key_id).unwrap().as_bytes().to_vec();
    SigningPackage { message, commitments, tweak: None }
}

#[tokio::test]
async fn crash_after_all_signed_gives_the_same_signature() {
    for suite in SUITES {
        let mut world = World::with_key(3, 2, suite).await;
        let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
        let first = world.perform_pending(&signing).await.unwrap();
        let Outcome::Signed { signature, .. } = &first else { panic!("{first:?}") };
        check_signature(signature);
        for _ in 0..3 {
            world.restart().await;
            assert_eq!(world.perform_pending(&signing).await.unwrap(), first);
        }
        // Also after the decision has expired.
        world.set_time(gateway_node::testing::NOT_AFTER.0);
        assert_eq!(world.perform_pending(&signing).await.unwrap(), first);
        assert_eq!(world.complete(signing).await.phase, Phase::Published);
    }
}

#[tokio::test]
async fn operation_signs_after_a_crash_between_the_rounds() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    let stale = collect_package(&world, &signing, &[0, 1]).await;
    world.restart().await;
    for signer in [0, 1] {
        let node = world.node(signer).await;
        assert!(node.signing_share(&call(&world, &signing, signer), &stale).await.is_err());
    }
    world.signed(signing).await;
}

#[tokio::test]
async fn crash_after_some_signed_costs_one_attempt() {
    for suite in SUITES {
        let mut world = World::with_key(5, 3, suite).await;
        let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2, 3, 4], 7))).await;
        let package = collect_package(&world, &signing, &[0, 1, 2]).await;
        for signer in [0, 1] {
            let node = world.node(signer).await;
            node.signing_share(&call(&world, &signing, signer), &package).await.unwrap();
        }
        world.restart().await;
        let lost = world.perform_pending(&signing).await.unwrap();
        assert!(matches!(lost, Outcome::AttemptLost { .. }), "{lost:?}");
        let next = world.record_outcome(signing, lost);
        assert_eq!(next.phase, Phase::Executing { attempt: 2 });
        world.signed(next).await;
    }
}

#[tokio::test]
async fn new_coordinator_completes_a_partly_signed_package() {
    let mut world = World::with_key(3, 2, SUITES[1]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    let package = collect_package(&world, &signing, &[0, 2]).await;
    let first = world.node(2).await.signing_share(&call(&world, &signing, 2), &package).await.unwrap();
    // The coordinator stopped after one of two shares. A new one must use the same package, of the same signers.
    let other = world.fleet_under(1);
    let stopped = std::mem::replace(&mut world.fleet, other);
    world.fleet = stopped.forgetful();
    let Outcome::Signed { signature, .. } = world.perform_pending(&signing).await.unwrap() else { panic!() };
    check_signature(&signature);
    assert_eq!(signature.signers, gateway_node::testing::roster(&[0, 2]));
    assert_eq!(world.node(2).await.signing_share(&call(&world, &signing, 2), &package).await.unwrap(), first);
}

/// A key's creation, every kind of change of a key, and a signature after each change of its shares.
pub(crate) fn all_kinds() -> Vec<Operation> {
    vec![
        operation(100, key_create(&[0, 1, 2], 2, SUITES[1])),
        operation(1, asset_action(&[0, 1, 2], 7)),
        operation(2, refresh("2")),
        operation(3, asset_action(&[0, 1, 2], 8)),
        operation(4, reshare("3", &[1, 2, 3, 4], 3)),
        operation(5, asset_action(&[1, 3, 4], 9)),
        operation(6, recover("4", 1, &[2, 3, 4])),
        operation(7, asset_action(&[1, 2, 3], 10)),
        operation(8, rotate("r1", &[0, 1, 2], 2)),
    ]
}

#[tokio::test]
async fn repeated_effect_has_the_same_outcome_after_a_crash() {
    let mut world = World::new();
    for mut operation in all_kinds() {
        while operation.phase != Phase::Published {
            let is_pending = |at: &Operation| {
                use gateway_domain::operation::{Step, next};
                matches!(next(at), Step::Perform(effect) if effect.id.step != EffectStep::Decision)
            };
            operation = world.drive(operation, is_pending).await.unwrap();
            if operation.phase == Phase::Published {
                break;
            }
            // The process crashes before it records the outcome.
            let unrecorded = world.perform_pending(&operation).await.unwrap();
            world.restart().await;
            let outcome = world.perform_pending(&operation).await.unwrap();
            assert_eq!(outcome, unrecorded, "{:?}", effect(&operation));
            world.restart().await;
            operation = world.record_outcome(operation, outcome);
        }
    }
}

#[tokio::test]
async fn key_creation_lost_in_a_crash_succeeds_in_the_next_attempt() {
    let mut world = World::new();
    let creating = world.until_ceremony(operation(100, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    for participant in [0, 1, 2] {
        let node = world.node(participant).await;
        node.ceremony_start(&call(&world, &creating, participant), &CeremonyStart::default()).await.unwrap();
    }
    world.restart().await;
    let lost = world.perform_pending(&creating).await.unwrap();
    assert!(matches!(lost, Outcome::AttemptLost { .. }), "{lost:?}");
    let created = world.complete(creating).await;
    assert_eq!(created.phase, Phase::Published);
    world.signed(operation(1, asset_action(&[0, 1, 2], 7))).await;
}

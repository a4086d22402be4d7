//! Whole operations: keys are created and sign, in every suite and size.

use crate::support::{World, check_signature, effect, operation};
use gateway_domain::intent::Intent;
use gateway_domain::operation::{Outcome, Phase};
use gateway_domain::roster::Threshold;
use gateway_engine::ports::DriveNodes;
use gateway_node::testing::{SUITES, asset_action, payment};
use std::sync::Arc;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread")]
async fn created_keys_sign() {
    for suite in SUITES {
        for (n, threshold) in [(3, 2), (5, 3)] {
            let mut world = World::with_key(n, threshold, suite).await;
            let participants: Vec<u16> = (0..n).collect();
            let signature = world.signed(operation(1, asset_action(&participants, 7))).await;
            assert_eq!(signature.signed_digest, gateway_node::testing::hex32(7));
            assert_eq!(signature.signers.n_participants(), usize::from(threshold));
            let key = world.keys.values().next().unwrap();
            assert_eq!(key.public_key_artifact_ref(), format!("{suite}:{}", signature.public_key_hex));
        }
    }
}

#[tokio::test]
async fn subset_signs_and_a_threshold_can_be_raised() {
    let mut world = World::with_key(5, 3, SUITES[0]).await;
    let subset = world.signed(operation(1, asset_action(&[1, 3, 4], 7))).await;
    assert_eq!(subset.signers, gateway_node::testing::roster(&[1, 3, 4]));
    let mut raised = asset_action(&[0, 1, 2, 3, 4], 8);
    if let Intent::AssetAction(action) = &mut raised {
        action.terms.threshold = Some(Threshold(4));
    }
    let raised = world.signed(operation(2, raised)).await;
    assert_eq!(raised.signers.n_participants(), 4);
}

#[tokio::test]
async fn child_key_signs() {
    let mut world = World::with_key(3, 2, SUITES[1]).await;
    let signed = world.complete(operation(1, payment(&[0, 1, 2], Some("0/17")))).await;
    let signature = signed.signature.unwrap();
    check_signature(&signature);
    let key = world.keys.values().next().unwrap().public.clone().unwrap();
    assert_ne!(signature.public_key_hex, key.public_key_hex);
    let admitted = signed.admission.unwrap().decision.derivation.unwrap();
    assert_eq!(signature.public_key_hex, admitted.public_key_hex);
}

#[tokio::test]
async fn impossible_derivation_path_is_explained() {
    let world = World::with_key(3, 2, SUITES[0]).await;
    let key = world.keys.values().next().unwrap();
    assert_eq!(
        world.fleet.derived_keys(key, &[0, 1]).unwrap_err(),
        "profile `frost-ed25519-sha512` has no non-hardened derivation"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_callers_of_one_effect_get_one_signature() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    let world = Arc::new(world);
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let (world, signing) = (Arc::clone(&world), signing.clone());
        callers.spawn(async move { world.perform_pending(&signing).await.unwrap() });
    }
    let outcomes = callers.join_all().await;
    let Outcome::Signed { signature, .. } = &outcomes[0] else { panic!("{outcomes:?}") };
    check_signature(signature);
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_callers_of_one_key_creation_get_one_key() {
    let mut world = World::new();
    let create = gateway_node::testing::key_create(&[0, 1, 2], 2, SUITES[0]);
    let creating = world.until_ceremony(operation(100, create)).await;
    let world = Arc::new(world);
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let (world, creating) = (Arc::clone(&world), creating.clone());
        callers.spawn(async move { world.perform_pending(&creating).await.unwrap() });
    }
    let outcomes = callers.join_all().await;
    assert!(matches!(outcomes[0], Outcome::Staged { .. }), "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
}

#[tokio::test]
async fn repeated_effect_has_the_same_outcome() {
    let mut world = World::new();
    for submitted in crate::crash::all_kinds() {
        let mut operation = submitted;
        loop {
            let Ok(reached) = world.drive(operation, effect_is_for_nodes).await else { panic!() };
            operation = reached;
            if operation.phase == Phase::Published {
                break;
            }
            let first = world.perform_pending(&operation).await.unwrap();
            let again = world.perform_pending(&operation).await.unwrap();
            assert_eq!(first, again, "{:?}", effect(&operation));
            operation = world.record_outcome(operation, first);
        }
    }
}

fn effect_is_for_nodes(operation: &gateway_domain::operation::Operation) -> bool {
    use gateway_domain::operation::{EffectStep, Step, next};
    matches!(next(operation), Step::Perform(effect) if effect.id.step != EffectStep::Decision)
}

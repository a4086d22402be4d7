//! What approvers sign names the public key of the key that the operation is on.

use crate::harness::custody::{
    self, KEYS, create_key, execute, key, key_path, recover, refresh, reshare, rotate, sign,
};
use crate::harness::process::SIGN;
use crate::harness::samples::{self, approval, payment, with};
use crate::harness::verify;
use crate::harness::world::World;
use serde_json::{Value, json};

const NAME: &str = "/intent/public_key_artifact_ref";

fn payment_on(key_ref: &str) -> Value {
    with(payment("p"), "/key_ref", json!(key_ref))
}

#[tokio::test]
async fn every_operation_on_a_generated_key_names_its_public_key() {
    let world = World::start().await;
    let created = custody::submit(&world, KEYS, &key("pending")).await;
    assert_eq!(created.pointer(NAME), None);
    let public = create_key(&world, "vault").await["public_key_artifact_ref"].clone();
    let paid = samples::submit(&world, &payment_on("vault")).await;
    assert_eq!(paid.pointer(NAME), Some(&public));
    for (action, body) in [
        ("/sign", sign("s")),
        ("/refresh", refresh("2")),
        ("/reshare", reshare("3")),
        ("/rotate", rotate("vault-2")),
        ("/recover", recover("4")),
    ] {
        let submitted = custody::submit(&world, &key_path("vault", action), &body).await;
        assert_eq!(submitted.pointer(NAME), Some(&public), "{action}");
    }
}

/// Only the gateway fills it in, and it is no part of what a repeated request is compared with.
#[tokio::test]
async fn callers_do_not_state_the_public_key() {
    let world = World::start().await;
    let public = create_key(&world, "vault").await["public_key_artifact_ref"].clone();
    let stated = with(payment_on("vault"), "/public_key_artifact_ref", json!("frost-ed25519-sha512:11"));
    let answer = world.post(SIGN, &stated).await;
    assert!(answer.header("warning").contains("/public_key_artifact_ref"), "{}", answer.header("warning"));
    assert_eq!(answer.ok()["operation"].pointer(NAME), Some(&public));
}

#[tokio::test]
async fn signature_submitted_before_its_key_is_generated_names_none_and_is_made() {
    let world = World::start().await;
    let creation = custody::submit(&world, KEYS, &key("vault")).await;
    let body = sign("early");
    let early = custody::submit(&world, &key_path("vault", "/sign"), &body).await;
    assert_eq!(early.pointer(NAME), None);
    execute(&world, KEYS, &key("vault")).await;
    assert_eq!(world.get(&custody::path(&creation, "")).await.ok()["state"], "published");
    // The same request later is the same operation.
    let repeated = world.post(&key_path("vault", "/sign"), &body).await;
    assert_eq!(repeated.header("warning"), "");
    let repeated = repeated.ok();
    assert_eq!(repeated["operation"]["operation_id"], early["operation_id"]);
    assert_eq!(repeated["operation"].pointer(NAME), None);
    verify::signature(&custody::publish(&world, &key_path("vault", "/sign"), &body).await);
}

/// The nodes that join would know the key from the gateway and the authority alone.
#[tokio::test]
async fn reshare_to_new_nodes_that_names_no_key_is_not_admitted() {
    let world = World::start().await;
    custody::submit(&world, KEYS, &key("vault")).await;
    let early = custody::submit(&world, &key_path("vault", "/reshare"), &reshare("2")).await;
    execute(&world, KEYS, &key("vault")).await;
    for subject in ["alice", "bob"] {
        world.post(&custody::path(&early, "/approve"), &approval(subject)).await;
    }
    let failed = world.get(&custody::path(&early, "")).await.ok();
    assert_eq!((&failed["state"], &failed["failure"]["code"]), (&json!("failed"), &json!("key_changed")));
    let message = failed["failure"]["message"].as_str().unwrap();
    assert!(message.contains("public_key_artifact_ref"), "{message}");
}

#[tokio::test]
async fn key_is_reshared_to_a_disjoint_roster_under_the_name_that_approvers_signed() {
    let world = World::start().await;
    let before = create_key(&world, "vault").await;
    let body = with(with(reshare("2"), "/new_participants", json!([3, 4])), "/threshold", json!(2));
    let reshared = execute(&world, &key_path("vault", "/reshare"), &body).await;
    assert_eq!(reshared.pointer(NAME), Some(&before["public_key_artifact_ref"]));
    let after = world.get(&key_path("vault", "")).await.ok();
    assert_eq!(after["public_key_artifact_ref"], before["public_key_artifact_ref"]);
    let body = with(sign("s"), "/requested_participants", json!([3, 4]));
    verify::signature(&custody::publish(&world, &key_path("vault", "/sign"), &body).await);
}

//! A key signs either payments or asset actions, so that no caller can have a payment's digest signed as an asset action.

use crate::harness::custody::{self, KEYS, create_key, execute, key, key_path, rotate, sign};
use crate::harness::process::SIGN;
use crate::harness::samples::{self, approval, payment, with};
use crate::harness::verify;
use crate::harness::world::{World, parse_settings};
use gateway_domain::intent::KeyUse;
use operation_gateway::compose;
use serde_json::{Value, json};
use std::sync::Arc;

/// Creates an active key for this use; returns its view.
async fn create_serving_key(world: &World, key_ref: &str, serves: &str) -> Value {
    let body = with(key(key_ref), "/serves", json!(serves));
    execute(world, KEYS, &body).await;
    let view = world.get(&key_path(key_ref, "")).await.ok();
    assert_eq!((&view["state"], &view["serves"]), (&json!("active"), &json!(serves)));
    view
}

fn payment_on(key_ref: &str, idempotency_key: &str) -> Value {
    with(payment(idempotency_key), "/key_ref", json!(key_ref))
}

#[tokio::test]
async fn digest_of_a_denied_payment_is_not_signed_as_an_asset_action() {
    let world = World::start().await;
    let paying = create_serving_key(&world, "paying", "payments").await;
    let denied = with(payment_on("paying", "denied"), "/payment/amount_minor", json!(-1));
    world.post(SIGN, &denied).await.fails(403, "policy_rejected");
    let message =
        world.post(&key_path("paying", "/sign"), &sign("forgery")).await.fails(409, "custody_key_not_active");
    assert!(message.contains("signs only `payments`"), "{message}");
    verify::signature(&samples::publish(&world, &payment_on("paying", "paid")).await);
    assert_eq!(world.get(&key_path("paying", "")).await.ok()["serves"], paying["serves"]);
}

#[tokio::test]
async fn payment_on_an_asset_key_is_rejected_at_key_ref() {
    let world = World::start().await;
    create_serving_key(&world, "vault", "asset_actions").await;
    let message = world.post(SIGN, &payment_on("vault", "p")).await.fails(400, "invalid_json");
    assert!(message.starts_with("`/key_ref`") && message.contains("asset_actions"), "{message}");
    verify::signature(&custody::publish(&world, &key_path("vault", "/sign"), &sign("move")).await);
    let wrong = with(key("other"), "/serves", json!("both"));
    let message = world.post(KEYS, &wrong).await.fails(400, "invalid_json");
    assert!(message.contains("/serves"), "{message}");
}

#[tokio::test]
async fn first_admitted_signature_fixes_the_use_of_a_key_without_one() {
    let world = World::ticking().await;
    assert_eq!(create_key(&world, "open").await["serves"], Value::Null);
    // While no operation on the key is admitted, both families may submit.
    let paid = samples::submit(&world, &payment_on("open", "late")).await;
    let moved = custody::submit(&world, &key_path("open", "/sign"), &sign("first")).await;
    assert_eq!(world.get(&key_path("open", "")).await.ok()["serves"], Value::Null);
    for subject in ["alice", "bob"] {
        world.post(&custody::path(&moved, "/approve"), &approval(subject)).await.ok();
    }
    assert_eq!(world.get(&key_path("open", "")).await.ok()["serves"], "asset_actions");
    world.post(&samples::path(&paid, "/approve"), &approval("alice")).await.ok();
    world.post(&samples::path(&paid, "/approve"), &approval("bob")).await.fails(409, "operation_failed");
    world.post(SIGN, &payment_on("open", "later")).await.fails(400, "invalid_json");
    verify::signature(&custody::publish(&world, &key_path("open", "/sign"), &sign("first")).await);
}

/// Both may be decided while the key has no use; the decision that commits second must be made again.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_admissions_of_both_families_fix_one_use() {
    let world = Arc::new(World::start().await);
    for round in 0..4 {
        let key_ref = format!("open-{round}");
        create_key(&world, &key_ref).await;
        let paid = samples::submit(&world, &payment_on(&key_ref, &key_ref)).await;
        let moved = custody::submit(&world, &key_path(&key_ref, "/sign"), &sign("move")).await;
        let paths = [samples::path(&paid, "/approve"), custody::path(&moved, "/approve")];
        for path in &paths {
            world.post(path, &approval("alice")).await.ok();
        }
        let mut n_admitted = 0;
        for answer in world.post_concurrently(paths.map(|path| (path, approval("bob"))).into()).await {
            n_admitted += usize::from(answer.status == 200);
            assert!(answer.status == 200 || answer.json["error"] == "operation_failed", "{}", answer.json);
        }
        assert_eq!(n_admitted, 1);
    }
}

#[tokio::test]
async fn rotation_inherits_the_use_of_the_replaced_key() {
    let world = World::start().await;
    create_serving_key(&world, "vault", "payments").await;
    execute(&world, &key_path("vault", "/rotate"), &rotate("vault-2")).await;
    assert_eq!(world.get(&key_path("vault-2", "")).await.ok()["serves"], "payments");
    let body = with(sign("m"), "/requested_participants", json!([2, 3]));
    world.post(&key_path("vault-2", "/sign"), &body).await.fails(409, "custody_key_not_active");
}

#[tokio::test]
async fn key_created_for_a_payment_serves_payments() {
    let world = World::start().await;
    samples::publish(&world, &payment_on("created-on-use", "p")).await;
    assert_eq!(world.get(&key_path("created-on-use", "")).await.ok()["serves"], "payments");
    world.post(&key_path("created-on-use", "/sign"), &sign("m")).await.fails(409, "custody_key_not_active");
}

#[tokio::test]
async fn two_equal_payments_are_signed_over_different_digests() {
    let world = World::start().await;
    let (one, two) =
        (samples::publish(&world, &payment("one")).await, samples::publish(&world, &payment("two")).await);
    let elsewhere = samples::publish(&world, &payment_on("other", "three")).await;
    let digests: std::collections::BTreeSet<_> = [&one, &two, &elsewhere]
        .map(|view| view["result"]["signed_digest"].as_str().unwrap().to_owned())
        .into();
    assert_eq!(digests.len(), 3);
}

#[test]
fn production_keys_serve_asset_actions_unless_created_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = parse_settings(folder.path(), &[]);
    assert_eq!(compose::options(&settings).keys_serve, None);
    settings.profile = operation_gateway::settings::Profile::Production;
    assert_eq!(compose::options(&settings).keys_serve, Some(KeyUse::AssetActions));
}

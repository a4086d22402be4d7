//! A key serves one family: a digest that a custody platform sends is never signed by a key that signs payments.

use crate::harness::custody::{self, executed, key, made, on_key, rotate, sign};
use crate::harness::samples::{self, approval, payment, with};
use crate::harness::verify;
use crate::harness::world::{World, parsed};
use gateway_domain::intent::KeyUse;
use operation_gateway::compose;
use serde_json::{Value, json};
use std::sync::Arc;

const KEYS: &str = "/v1/custody/keys";

/// An active key for this use.
async fn serving(world: &World, key_ref: &str, serves: &str) -> Value {
    let body = with(key(key_ref), "/serves", json!(serves));
    executed(world, KEYS, &body).await;
    let view = world.get(&on_key(key_ref, "")).await.ok();
    assert_eq!((&view["state"], &view["serves"]), (&json!("active"), &json!(serves)));
    view
}

fn on(key_ref: &str, idempotency_key: &str) -> Value {
    with(payment(idempotency_key), "/key_ref", json!(key_ref))
}

#[tokio::test]
async fn digest_of_a_denied_payment_is_not_signed_as_an_asset_action() {
    let world = World::start().await;
    let paying = serving(&world, "paying", "payments").await;
    world
        .post("/v1/operations/sign", &with(on("paying", "denied"), "/payment/amount_minor", json!(-1)))
        .await
        .fails(403, "policy_rejected");
    let message =
        world.post(&on_key("paying", "/sign"), &sign("forgery")).await.fails(409, "custody_key_not_active");
    assert!(message.contains("signs only `payments`"), "{message}");
    verify::signature(&samples::published(&world, &on("paying", "paid")).await);
    assert_eq!(world.get(&on_key("paying", "")).await.ok()["serves"], paying["serves"]);
}

#[tokio::test]
async fn payment_on_an_asset_key_is_rejected_at_key_ref() {
    let world = World::start().await;
    serving(&world, "vault", "asset_actions").await;
    let message = world.post("/v1/operations/sign", &on("vault", "p")).await.fails(400, "invalid_json");
    assert!(message.starts_with("`/key_ref`") && message.contains("asset_actions"), "{message}");
    verify::signature(&custody::published(&world, &on_key("vault", "/sign"), &sign("move")).await);
    let wrong = with(key("other"), "/serves", json!("both"));
    let message = world.post(KEYS, &wrong).await.fails(400, "invalid_json");
    assert!(message.contains("/serves"), "{message}");
}

#[tokio::test]
async fn first_admitted_signature_fixes_an_open_keys_use() {
    let world = World::ticking().await;
    assert_eq!(made(&world, "open").await["serves"], Value::Null);
    // Both families are accepted while nothing is admitted.
    let paid = samples::submitted(&world, &on("open", "late")).await;
    let moved = custody::submitted(&world, &on_key("open", "/sign"), &sign("first")).await;
    assert_eq!(world.get(&on_key("open", "")).await.ok()["serves"], Value::Null);
    for subject in ["alice", "bob"] {
        world.post(&custody::path(&moved, "/approve"), &approval(subject)).await.ok();
    }
    assert_eq!(world.get(&on_key("open", "")).await.ok()["serves"], "asset_actions");
    world.post(&samples::path(&paid, "/approve"), &approval("alice")).await.ok();
    world.post(&samples::path(&paid, "/approve"), &approval("bob")).await.fails(409, "operation_failed");
    world.post("/v1/operations/sign", &on("open", "later")).await.fails(400, "invalid_json");
    verify::signature(&custody::published(&world, &on_key("open", "/sign"), &sign("first")).await);
}

/// Each is decided on the key as it was read; the one that commits second decides again.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_admissions_of_both_families_fix_one_use() {
    let world = Arc::new(World::start().await);
    for round in 0..4 {
        let key_ref = format!("open-{round}");
        made(&world, &key_ref).await;
        let paid = samples::submitted(&world, &on(&key_ref, &key_ref)).await;
        let moved = custody::submitted(&world, &on_key(&key_ref, "/sign"), &sign("move")).await;
        let paths = [samples::path(&paid, "/approve"), custody::path(&moved, "/approve")];
        for path in &paths {
            world.post(path, &approval("alice")).await.ok();
        }
        let last = paths.map(|path| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.post(&path, &approval("bob")).await })
        });
        let mut n_admitted = 0;
        for answer in last {
            let answer = answer.await.unwrap();
            n_admitted += usize::from(answer.status == 200);
            assert!(answer.status == 200 || answer.json["error"] == "operation_failed", "{}", answer.json);
        }
        assert_eq!(n_admitted, 1);
    }
}

#[tokio::test]
async fn rotation_inherits_the_use_of_the_replaced_key() {
    let world = World::start().await;
    serving(&world, "vault", "payments").await;
    executed(&world, &on_key("vault", "/rotate"), &rotate("vault-2")).await;
    assert_eq!(world.get(&on_key("vault-2", "")).await.ok()["serves"], "payments");
    world
        .post(&on_key("vault-2", "/sign"), &with(sign("m"), "/requested_participants", json!([2, 3])))
        .await
        .fails(409, "custody_key_not_active");
}

#[tokio::test]
async fn key_made_for_a_payment_serves_payments() {
    let world = World::start().await;
    samples::published(&world, &on("made-on-use", "p")).await;
    assert_eq!(world.get(&on_key("made-on-use", "")).await.ok()["serves"], "payments");
    world.post(&on_key("made-on-use", "/sign"), &sign("m")).await.fails(409, "custody_key_not_active");
}

#[tokio::test]
async fn two_equal_payments_are_signed_over_different_digests() {
    let world = World::start().await;
    let (one, two) = (
        samples::published(&world, &payment("one")).await,
        samples::published(&world, &payment("two")).await,
    );
    let elsewhere = samples::published(&world, &on("other", "three")).await;
    let digests: std::collections::BTreeSet<_> = [&one, &two, &elsewhere]
        .map(|view| view["result"]["signed_digest"].as_str().unwrap().to_owned())
        .into();
    assert_eq!(digests.len(), 3);
}

#[test]
fn production_keys_serve_asset_actions_unless_created_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = parsed(folder.path(), &[]);
    assert_eq!(compose::options(&settings).keys_serve, None);
    settings.profile = operation_gateway::settings::Profile::Production;
    assert_eq!(compose::options(&settings).keys_serve, Some(KeyUse::AssetActions));
}

//! In development, an approved operation makes the key that it names (`host/docs/interface.md`, section *Keys*).

use crate::harness::custody::{self, key, on_key, refresh, sign};
use crate::harness::samples::{self, payment, publication, with};
use crate::harness::timed::TimedWorld;
use crate::harness::verify;
use crate::harness::world::World;
use serde_json::{Value, json};

const KEYS: &str = "/v1/custody/keys";

/// The creation that awaits approvals.
async fn pending(world: &World) -> Value {
    let creation = custody::submitted(world, KEYS, &key("cold")).await;
    assert_eq!(creation["approvals"]["required"], 2);
    creation
}

async fn changes(world: &World, operation: &Value) -> Vec<String> {
    let audit = world.get(&custody::path(operation, "/audit-replay")).await.ok();
    let events = audit["events"].as_array().unwrap();
    events.iter().map(|entry| entry["event"]["change"]["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn custody_signature_makes_a_key_that_awaits_approvals() {
    let world = World::ticking().await;
    let creation = pending(&world).await;
    let early = custody::admitted(&world, &on_key("cold", "/sign"), &sign("early")).await;
    assert_eq!(
        (&early["state"], &early["next_actions"]),
        (&json!("pending_approval"), &json!(["approve", "execute"]))
    );
    let executed = world.post_nothing(&custody::path(&early, "/execute")).await.ok();
    assert_eq!(executed["state"], "executed");
    verify::signature(&world.post(&custody::path(&early, "/publish"), &publication()).await.ok());
    assert_eq!(world.get(&on_key("cold", "")).await.ok()["state"], "active");
    let made = world.get(&custody::path(&creation, "")).await.ok();
    assert_eq!((&made["approvals"]["required"], &made["approvals"]["approved"]), (&json!(0), &json!(0)));
    let kinds = changes(&world, &creation).await;
    assert_eq!(kinds[1..5], ["approval_requested", "approvals_waived", "quorum_reached", "decision_signed"]);
    // A later approval of it is too late, and nothing is made twice.
    world.post(&custody::path(&creation, "/approve"), &samples::approval("alice")).await.ok();
    let again = world.post_nothing(&custody::path(&creation, "/execute")).await.ok();
    assert_eq!(again["result"], made["result"]);
}

#[tokio::test]
async fn payment_waits_for_its_key_and_then_makes_it() {
    let world = World::ticking().await;
    let creation = pending(&world).await;
    let payment = with(payment("early"), "/key_ref", json!("cold"));
    let early = samples::admitted(&world, &payment).await;
    assert_eq!(early["state"], "pending_approval");
    assert_eq!(
        changes(&world, &creation).await,
        ["submitted", "approval_requested"],
        "nothing is made before"
    );
    assert_eq!(world.post_nothing(&samples::path(&early, "/execute")).await.ok()["state"], "executed");
    verify::signature(&world.post(&samples::path(&early, "/publish"), &publication()).await.ok());
}

#[tokio::test]
async fn unapproved_or_non_signing_operation_makes_no_key() {
    let world = World::ticking().await;
    let creation = pending(&world).await;
    let few = custody::submitted(&world, &on_key("cold", "/sign"), &sign("few")).await;
    world.post(&custody::path(&few, "/approve"), &samples::approval("alice")).await.ok();
    world.post_nothing(&custody::path(&few, "/execute")).await.fails(409, "operation_not_executed");
    let change = custody::admitted(&world, &on_key("cold", "/refresh"), &refresh("2")).await;
    world.post_nothing(&custody::path(&change, "/execute")).await.fails(409, "custody_key_not_active");
    assert_eq!(changes(&world, &creation).await, ["submitted", "approval_requested"]);
}

#[tokio::test]
async fn expired_creation_makes_no_key() {
    let world = TimedWorld::start(&[("approval_ttl_ms", "10000")]).await;
    let creation = pending(&world).await;
    world.advance_ms(6_000);
    let early = custody::admitted(&world, &on_key("cold", "/sign"), &sign("early")).await;
    world.advance_ms(6_000);
    world.post_nothing(&custody::path(&early, "/execute")).await.fails(409, "operation_failed");
    assert_eq!(changes(&world, &creation).await, ["submitted", "approval_requested", "failed"]);
}

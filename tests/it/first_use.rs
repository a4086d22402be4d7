//! In development, an approved signing operation creates the key that it names (`host/docs/interface.md`, section *Keys*).

use crate::harness::bundles::{self, Site, release_without_custody};
use crate::harness::custody::{self, KEYS, key, key_path, refresh, sign};
use crate::harness::process::SIGN;
use crate::harness::samples::{self, payment, publication, with};
use crate::harness::timed::TimedWorld;
use crate::harness::verify;
use crate::harness::world::World;
use gateway_engine::ports::ReadOperations as _;
use serde_json::{Value, json};

/// Submits the creation of the key `cold`, which then awaits two approvals; returns its view.
async fn submit_creation(world: &World) -> Value {
    let creation = custody::submit(world, KEYS, &key("cold")).await;
    assert_eq!(creation["approvals"]["required"], 2);
    creation
}

/// The types of an operation's events.
async fn event_types(world: &World, operation: &Value) -> Vec<String> {
    let audit = world.get(&custody::path(operation, "/audit-replay")).await.ok();
    let events = audit["events"].as_array().unwrap();
    events.iter().map(|entry| entry["event"]["change"]["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn custody_signature_creates_a_key_whose_creation_awaits_approvals() {
    let world = World::ticking().await;
    let creation = submit_creation(&world).await;
    let early = custody::admit(&world, &key_path("cold", "/sign"), &sign("early")).await;
    assert_eq!(
        (&early["state"], &early["next_actions"]),
        (&json!("pending_approval"), &json!(["approve", "execute"]))
    );
    let executed = world.post_nothing(&custody::path(&early, "/execute")).await.ok();
    assert_eq!(executed["state"], "executed");
    verify::signature(&world.post(&custody::path(&early, "/publish"), &publication()).await.ok());
    assert_eq!(world.get(&key_path("cold", "")).await.ok()["state"], "active");
    let made = world.get(&custody::path(&creation, "")).await.ok();
    assert_eq!((&made["approvals"]["required"], &made["approvals"]["approved"]), (&json!(0), &json!(0)));
    let kinds = event_types(&world, &creation).await;
    assert_eq!(kinds[1..5], ["approval_requested", "approvals_waived", "quorum_reached", "decision_signed"]);
    // A later approval of the creation changes nothing, and executing it again returns the same key.
    world.post(&custody::path(&creation, "/approve"), &samples::approval("alice")).await.ok();
    let again = world.post_nothing(&custody::path(&creation, "/execute")).await.ok();
    assert_eq!(again["result"], made["result"]);
}

#[tokio::test]
async fn payment_creates_its_key_when_it_is_executed() {
    let world = World::ticking().await;
    let creation = submit_creation(&world).await;
    let payment = with(payment("early"), "/key_ref", json!("cold"));
    let early = samples::admit(&world, &payment).await;
    assert_eq!(early["state"], "pending_approval");
    assert_eq!(
        event_types(&world, &creation).await,
        ["submitted", "approval_requested"],
        "the key was created before the execution"
    );
    assert_eq!(world.post_nothing(&samples::path(&early, "/execute")).await.ok()["state"], "executed");
    verify::signature(&world.post(&samples::path(&early, "/publish"), &publication()).await.ok());
}

#[tokio::test]
async fn unapproved_or_non_signing_operation_creates_no_key() {
    let world = World::ticking().await;
    let creation = submit_creation(&world).await;
    let few = custody::submit(&world, &key_path("cold", "/sign"), &sign("few")).await;
    world.post(&custody::path(&few, "/approve"), &samples::approval("alice")).await.ok();
    world.post_nothing(&custody::path(&few, "/execute")).await.fails(409, "operation_not_executed");
    let change = custody::admit(&world, &key_path("cold", "/refresh"), &refresh("2")).await;
    world.post_nothing(&custody::path(&change, "/execute")).await.fails(409, "custody_key_not_active");
    assert_eq!(event_types(&world, &creation).await, ["submitted", "approval_requested"]);
}

#[tokio::test]
async fn expired_creation_creates_no_key() {
    let world = TimedWorld::start(&[("approval_ttl_ms", "10000")]).await;
    let creation = submit_creation(&world).await;
    world.advance_ms(6_000);
    let early = custody::admit(&world, &key_path("cold", "/sign"), &sign("early")).await;
    world.advance_ms(6_000);
    world.post_nothing(&custody::path(&early, "/execute")).await.fails(409, "custody_key_not_active");
    assert_eq!(event_types(&world, &creation).await, ["submitted", "approval_requested", "failed"]);
}

#[test]
fn denied_creation_of_a_key_that_a_payment_needs_is_named() {
    let site = Site::new();
    site.offer(&release_without_custody(1, &bundles::key(1)));
    let process = site.start(0, None);
    let unnamed = with(payment("unnamed"), "/key_ref", Value::Null);
    let (status, refused) = process.call("POST", SIGN, Some(&unnamed));
    assert_eq!((status, &refused["error"]), (403, &json!("policy_rejected")), "{refused}");
    assert_eq!(refused["reasons"][0]["code"], "key_operation_not_permitted");
    let message = refused["message"].as_str().unwrap();
    let named = "policy denies the creation of key `development/2-of-0-1-2`, which development makes when a payment needs it (permit \
                 `key_create` in the policy, or name an existing key in `key_ref`): key_operation_not_permitted";
    assert!(message.starts_with(named), "{message}");
}

#[tokio::test]
async fn operation_that_waits_for_its_key_is_tried_after_waits_that_double_up_to_a_minute() {
    let world = TimedWorld::start(&[]).await;
    submit_creation(&world).await;
    custody::admit(&world, &key_path("cold", "/sign"), &sign("early")).await;
    let waited = async |after_ms| {
        let due = world.store.operations_owing(world.now().plus_ms(after_ms), 9, 9).await.unwrap();
        due.iter().map(|due| due.waited_ms).collect::<Vec<_>>()
    };
    for wait_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
        assert_eq!(world.engine.reconcile().await, 0);
        assert_eq!((waited(wait_ms - 1).await, waited(wait_ms).await), (vec![], vec![wait_ms]));
        world.advance_ms(wait_ms.try_into().unwrap());
    }
}

//! Rejections and cancellations that did not happen as they are told.

use super::Forgery;
use crate::harness::samples::{path, payment, publish, rejection, submit};
use crate::harness::world::World;
use serde_json::{Value, json};

fn rejected_by(subject: &str, at_ms: &Value) -> Value {
    json!({
        "at_ms": at_ms,
        "change": {
            "type": "rejection_recorded",
            "rejection": {
                "subject_id": subject, "roles": ["approver"], "reason": "no", "claimed_at_ms": 0, "rejected_at_ms": at_ms,
            },
        },
    })
}

#[tokio::test]
async fn forged_ends_of_an_operation_are_found() {
    let world = World::start().await;
    let published = publish(&world, &payment("one")).await;
    let forgery = Forgery::of(&world, &path(&published, "/evidence")).await;
    let first = forgery.forger.index_of("approval_recorded");
    // An approver was told that the payment is rejected, and it went on.
    for (subject, at) in [("alice", first + 2), ("mallory", first + 1)] {
        let forged = forgery.forger.with_events(|events| {
            let at_ms = events[first]["at_ms"].clone();
            events.insert(first + 1, rejected_by(subject, &at_ms));
        });
        forgery.assert_finds(&forged.await, &format!("/events/{at}/event/change/type"));
    }

    let operation = submit(&world, &payment("two")).await;
    world.post(&path(&operation, "/reject"), &rejection("bob")).await.ok();
    let forgery = Forgery::of(&world, &path(&operation, "/evidence")).await;
    let at = forgery.forger.index_of("rejection_recorded");
    let forged = forgery.forger.with_events(|events| drop(events.remove(at))).await;
    forgery.assert_finds(&forged, &format!("/events/{at}/event/change/type"));

    let operation = submit(&world, &payment("three")).await;
    world.post(&path(&operation, "/cancel"), &json!({ "reason": "twice" })).await.ok();
    let forgery = Forgery::of(&world, &path(&operation, "/evidence")).await;
    let by_another = |event: &mut Value| {
        event["asked_by"] = json!({ "client": {
            "client_id": "desk", "subject_id": "mallory", "roles": [], "scopes": [], "tenant": "default",
        } });
    };
    forgery.assert_alteration_found("failed", by_another, "/type").await;
}

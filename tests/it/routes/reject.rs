use super::{UNKNOWN, assert_refused_by_name};
use crate::evidence::{assert_holds, roots, verify};
use crate::harness::custody::{self, KEYS, key};
use crate::harness::modes::TestCaller;
use crate::harness::process::SIGN;
use crate::harness::recording::TWO_REJECTIONS;
use crate::harness::samples::{admit, approval, path, payment, rejection, submit, with};
use crate::harness::world::World;
use serde_json::{Value, json};

fn client(subject: &str) -> Value {
    json!({ "client_id": "desk", "subject_id": subject, "roles": [], "scopes": [] })
}

fn cancellation() -> Value {
    json!({ "reason": "the invoice was paid already" })
}

#[tokio::test]
async fn rejection_ends_an_operation_and_evidence_says_who_and_why() {
    let world = World::start().await;
    for family in ["product", "custody"] {
        let (operation, at) = match family {
            "product" => {
                let operation = submit(&world, &payment("one")).await;
                let at = path(&operation, "");
                (operation, at)
            }
            _ => {
                let operation = custody::submit(&world, KEYS, &key("cold")).await;
                let at = custody::path(&operation, "");
                (operation, at)
            }
        };
        assert_eq!(operation["links"]["reject"], json!({ "method": "POST", "href": format!("{at}/reject") }));
        assert_eq!(operation["links"]["cancel"]["href"], format!("{at}/cancel"));
        assert_eq!(operation["next_actions"], json!(["approve"]));
        world.post(&format!("{at}/approve"), &approval("alice")).await.ok();
        let rejected = world.post(&format!("{at}/reject"), &rejection("bob")).await.ok();
        assert_eq!(
            (&rejected["state"], &rejected["failure"]["code"]),
            (&json!("failed"), &json!("rejected"))
        );
        assert_eq!(rejected["failure"]["message"], "rejected by `bob`: not our supplier");
        assert_eq!(rejected["rejections"][0]["reason"], "not our supplier");
        assert_eq!(rejected["links"].get("reject"), None);
        let again = world.post(&format!("{at}/reject"), &rejection("bob")).await.ok();
        assert_eq!(again, rejected, "a repeat changes nothing");
        for (action, body) in [
            ("reject", rejection("alice")),
            ("approve", approval("carol")),
            ("cancel", cancellation()),
            ("execute", json!({})),
        ] {
            world.post(&format!("{at}/{action}"), &body).await.fails(409, "operation_failed");
        }
        let evidence = world.get(&format!("{at}/evidence")).await.ok();
        assert_holds(&verify(&evidence, &roots(&world).await), &["chain", "operation", "log"]);
        let events = evidence["events"].as_array().unwrap();
        let types: Vec<_> =
            events.iter().map(|entry| entry["event"]["change"]["type"].as_str().unwrap()).collect();
        assert_eq!(types[types.len() - 3..], ["approval_recorded", "rejection_recorded", "failed"]);
        let audit = world.get(&format!("{at}/audit-replay")).await.ok().to_string();
        assert!(audit.contains("rejection_recorded") && !audit.contains("not our supplier"), "{audit}");
    }
}

#[tokio::test]
async fn who_approved_may_still_reject_and_others_must_count() {
    let world = World::with(&[("separation_of_duties", "true")]).await;
    let operation = submit(&world, &payment("one")).await;
    let reject = path(&operation, "/reject");
    // The submitter's approval would not count.
    world.post(&reject, &rejection("carol")).await.fails(403, "approver_not_permitted");
    assert_eq!(world.get(&path(&operation, "")).await.ok()["state"], "pending_approval");
    world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    let rejected = world.post(&reject, &rejection("alice")).await.ok();
    assert_eq!(rejected["failure"]["code"], "rejected");
}

#[tokio::test]
async fn policy_may_ask_for_two_rejections() {
    let world = World::ticking().await;
    let pay = |name: &str| with(payment(name), "/payment/reference", json!(TWO_REJECTIONS));
    let outvoted = submit(&world, &pay("one")).await;
    let rejected = world.post(&path(&outvoted, "/reject"), &rejection("bob")).await.ok();
    assert_eq!((&rejected["state"], &rejected["failure"]), (&json!("pending_approval"), &Value::Null));
    assert_eq!(rejected["rejections"][0]["subject_id"], "bob");
    world.post(&path(&outvoted, "/approve"), &approval("bob")).await.fails(403, "approver_not_permitted");
    for subject in ["alice", "dave"] {
        world.post(&path(&outvoted, "/approve"), &approval(subject)).await.ok();
    }
    assert_eq!(world.get(&path(&outvoted, "")).await.ok()["state"], "admitted");
    let ended = submit(&world, &pay("two")).await;
    world.post(&path(&ended, "/reject"), &rejection("bob")).await.ok();
    world.post(&path(&ended, "/reject"), &rejection("bob")).await.ok();
    assert_eq!(world.get(&path(&ended, "")).await.ok()["state"], "pending_approval", "a repeat counts once");
    let ended = world.post(&path(&ended, "/reject"), &rejection("dave")).await.ok();
    assert_eq!(ended["failure"]["code"], "rejected");
}

#[tokio::test]
async fn only_the_submitter_cancels() {
    let world = World::start().await;
    let caller = |client, subject, tenant| {
        let scopes = "operations.sign";
        TestCaller { client, subject, roles: "operator", scopes, tenant: Some(tenant) }.headers()
    };
    let body = with(payment("one"), "/client", client("carol"));
    let submitted = world.call_as(&caller("desk", "carol", "default"), "POST", SIGN, &body).await.ok();
    let cancel = path(&submitted["operation"], "/cancel");
    let as_caller = |headers: Vec<(&'static str, &'static str)>| {
        let (world, cancel) = (&world, &cancel);
        async move { world.call_as(&headers, "POST", cancel, &cancellation()).await }
    };
    as_caller(caller("desk", "dave", "default")).await.fails(403, "client_binding_mismatch");
    as_caller(caller("other", "carol", "default")).await.fails(403, "client_binding_mismatch");
    as_caller(caller("desk", "carol", "other")).await.fails(404, "operation_not_found");
    let cancelled = as_caller(caller("desk", "carol", "default")).await.ok();
    assert_eq!((&cancelled["state"], &cancelled["failure"]["code"]), (&json!("failed"), &json!("cancelled")));
    assert_eq!(
        as_caller(caller("desk", "carol", "default")).await.ok(),
        cancelled,
        "a repeat changes nothing"
    );
    let evidence = world.get(&path(&submitted["operation"], "/evidence")).await.ok();
    assert_holds(&verify(&evidence, &roots(&world).await), &["chain", "operation", "log"]);
}

#[tokio::test]
async fn admitted_operation_can_neither_be_rejected_nor_cancelled() {
    let world = World::start().await;
    let operation = admit(&world, &payment("one")).await;
    assert!(operation["links"].get("reject").is_none() && operation["links"].get("cancel").is_none());
    world.post(&path(&operation, "/reject"), &rejection("dave")).await.fails(409, "operation_admitted");
    world.post(&path(&operation, "/cancel"), &cancellation()).await.fails(409, "operation_admitted");
    assert_eq!(world.get(&path(&operation, "")).await.ok(), operation);
}

#[tokio::test]
async fn cancelled_creation_of_a_key_leaves_its_name_free() {
    let world = World::start().await;
    let operation = custody::submit(&world, KEYS, &key("cold")).await;
    world.post(&custody::path(&operation, "/cancel"), &cancellation()).await.ok();
    let again = with(key("cold"), "/idempotency_key", json!("again"));
    custody::submit(&world, KEYS, &again).await;
}

#[tokio::test]
async fn invalid_bodies_are_refused_by_member_and_change_nothing() {
    let world = World::start().await;
    let operation = submit(&world, &payment("one")).await;
    let cases = [
        ("/subject_id", Value::Null, "`/subject_id` is required"),
        ("/subject_id", json!(""), "`/subject_id` must not be empty"),
        ("/roles", Value::Null, "`/roles` is required"),
        ("/reason", Value::Null, "`/reason` is required"),
        ("/reason", json!(""), "`/reason` must not be empty"),
        ("/rejected_at_ms", json!("now"), "`/rejected_at_ms` must be an integer from"),
    ];
    assert_refused_by_name(&world, &path(&operation, "/reject"), &rejection("alice"), &cases).await;
    let cases = [
        ("/reason", Value::Null, "`/reason` is required"),
        ("/reason", json!(""), "`/reason` must not be empty"),
    ];
    assert_refused_by_name(&world, &path(&operation, "/cancel"), &cancellation(), &cases).await;
    assert_eq!(world.get(&path(&operation, "")).await.ok(), operation);
    for (action, body) in [("reject", rejection("a")), ("cancel", cancellation())] {
        let unknown = format!("/v1/operations/{UNKNOWN}/{action}");
        world.post(&unknown, &body).await.fails(404, "operation_not_found");
    }
}

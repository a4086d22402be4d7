use super::custody_operations::{GETS, POSTS};
use super::{NOT_HEX32, UNKNOWN};
use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::samples::{path, payment, submit, with};
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn malformed_ids_are_refused_before_identity_and_body() {
    let world = World::start().await;
    let without_subject = [("x-client-id", "desk")];
    for id in NOT_HEX32 {
        for (family, method, actions) in [
            ("operations", "POST", &POSTS[..4]),
            ("operations", "GET", &GETS[..]),
            ("custody/operations", "POST", &POSTS[..]),
            ("custody/operations", "GET", &GETS[..]),
        ] {
            for action in actions {
                let path = format!("/v1/{family}/{id}{action}");
                let answer = world.call_as(&without_subject, method, &path, &json!("no valid body")).await;
                answer.fails(400, "invalid_operation_id");
            }
        }
    }
}

#[tokio::test]
async fn unknown_operation_is_not_found() {
    let world = World::start().await;
    world.get(&format!("/v1/operations/{UNKNOWN}")).await.fails(404, "operation_not_found");
}

#[tokio::test]
async fn operation_of_another_tenant_gets_exactly_the_answer_of_an_unknown_one() {
    let world = World::start().await;
    let body = with(payment("ours"), "/client/tenant", json!("acme"));
    let operation = submit(&world, &body).await;
    let identity =
        |tenant| TestCaller { tenant: Some(tenant), ..test_caller("eve", "operations.*") }.headers();
    let ours = path(&operation, "");
    world.call_as(&identity("acme"), "GET", &ours, &Value::Null).await.ok();
    let theirs = world.call_as(&identity("other"), "GET", &ours, &Value::Null).await;
    let unknown = format!("/v1/operations/{UNKNOWN}");
    let missing = world.call_as(&identity("other"), "GET", &unknown, &Value::Null).await;
    assert_eq!(theirs.without_request_id(), missing.without_request_id());
    theirs.fails(404, "operation_not_found");
}

#[tokio::test]
async fn same_request_of_two_tenants_creates_two_operations() {
    let world = World::start().await;
    let acme = submit(&world, &with(payment("same"), "/client/tenant", json!("acme"))).await;
    let other = submit(&world, &with(payment("same"), "/client/tenant", json!("other"))).await;
    assert_ne!(acme["operation_id"], other["operation_id"]);
    assert_ne!(acme["intent"]["key_id"], other["intent"]["key_id"]);
}

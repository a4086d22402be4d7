use crate::harness::samples::{admit, client, path, payment, submit, with};
use crate::harness::world::World;
use serde_json::json;

#[tokio::test]
async fn execution_before_admission_reports_the_missing_approvals() {
    let world = World::start().await;
    let operation = submit(&world, &payment("early")).await;
    let message =
        world.post_nothing(&path(&operation, "/execute")).await.fails(409, "operation_not_executed");
    assert_eq!(message, "the operation is not ready: it has 0 of 2 approvals");
}

#[tokio::test]
async fn invalid_bodies_get_the_error_code_of_the_endpoint() {
    let world = World::start().await;
    let operation = admit(&world, &payment("bodies")).await;
    let execute = path(&operation, "/execute");
    for body in
        ["[]", "7", "{\"requested_at_ms\":\"x\"}", "{\"signing_share_mul\":[1]}", "{", "{\"a\":1,\"a\":2}"]
    {
        world.post_text(&execute, body).await.fails(400, "invalid_execute_request");
    }
    assert_eq!(world.get(&path(&operation, "")).await.ok(), operation);
}

#[tokio::test]
async fn absent_blank_and_empty_object_bodies_are_equal() {
    let world = World::start().await;
    for (key, body) in [("a", ""), ("b", " \n"), ("c", "{}"), ("d", "{\"requested_at_ms\":null}")] {
        let operation = admit(&world, &payment(key)).await;
        assert_eq!(world.post_text(&path(&operation, "/execute"), body).await.ok()["state"], "executed");
    }
    let operation = admit(&world, &payment("e")).await;
    let body = json!({ "requested_at_ms": 1, "client": client(), "signing_share_mul": {"x": 1} });
    assert_eq!(world.post(&path(&operation, "/execute"), &body).await.ok()["state"], "executed");
}

#[tokio::test]
async fn stale_fence_is_refused_and_the_operation_stays() {
    let world = World::start().await;
    let fenced = with(payment("fence"), "/epoch_fence_token_hex", json!("00ff"));
    let operation = admit(&world, &fenced).await;
    let message = world.post_nothing(&path(&operation, "/execute")).await.fails(409, "epoch_fence_mismatch");
    let root = message.split('`').rev().nth(1).unwrap().to_owned();
    assert_eq!(world.get(&path(&operation, "")).await.ok()["state"], "admitted");
    let right = with(payment("fence-2"), "/epoch_fence_token_hex", json!(root));
    let operation = admit(&world, &right).await;
    assert_eq!(world.post_nothing(&path(&operation, "/execute")).await.ok()["state"], "executed");
}

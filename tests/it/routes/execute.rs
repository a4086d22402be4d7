use crate::harness::process::SIGN;
use crate::harness::samples::{admit, client, path, payment, submit, with};
use crate::harness::world::World;
use axum::body::Body;
use axum::http::Request;
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
async fn fence_that_does_not_hold_is_warned_of_and_fails_the_operation() {
    let world = World::start().await;
    let fenced = with(payment("fence"), "/epoch_fence_token_hex", json!("00ff"));
    let answer = world.post(SIGN, &fenced).await;
    assert!(answer.header("warning").contains("execution will fail"), "{}", answer.header("warning"));
    let submitted = answer.ok()["operation"].clone();
    let warning = &submitted["warnings"][0];
    assert_eq!(
        (&warning["code"], &warning["pointer"]),
        (&json!("epoch_fence_mismatch"), &json!("/epoch_fence_token_hex"))
    );
    let operation = admit(&world, &fenced).await;
    let execute = path(&operation, "/execute");
    let message = world.post_nothing(&execute).await.fails(409, "epoch_fence_mismatch");
    let root = message.split('`').rev().nth(1).unwrap().to_owned();
    let failed = world.get(&path(&operation, "")).await.ok();
    assert_eq!(
        (&failed["state"], &failed["failure"]["code"]),
        (&json!("failed"), &json!("epoch_fence_mismatch"))
    );
    world.post_nothing(&execute).await.fails(409, "epoch_fence_mismatch");
    let right = with(payment("fence-2"), "/epoch_fence_token_hex", json!(root));
    let operation = admit(&world, &right).await;
    assert_eq!(operation["warnings"], json!([]));
    assert_eq!(world.post_nothing(&path(&operation, "/execute")).await.ok()["state"], "executed");
}

#[tokio::test]
async fn body_of_zero_bytes_has_no_media_type() {
    let world = World::start().await;
    let operation = admit(&world, &payment("no-body")).await;
    let execute = |body: &'static str| {
        let request = Request::post(path(&operation, "/execute"));
        request.header("content-type", "application/x-www-form-urlencoded").body(Body::from(body)).unwrap()
    };
    world.send(execute("{}")).await.fails(415, "unsupported_media_type");
    assert_eq!(world.send(execute("")).await.ok()["state"], "executed");
}

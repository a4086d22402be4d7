use crate::harness::samples::payment;
use crate::harness::world::World;
use axum::body::Body;
use axum::http::Request;
use serde_json::json;

#[tokio::test]
async fn probes_answer() {
    let world = World::start().await;
    assert_eq!(world.get("/healthz").await.ok()["status"], "ok");
    assert_eq!(world.get("/readyz").await.ok()["status"], "ready");
}

#[tokio::test]
async fn strangers_get_the_error_body() {
    let world = World::start().await;
    world.get("/v1/nothing").await.fails(404, "not_found");
    world.get("/").await.fails(404, "not_found");
    let wrong = world.get("/v1/operations/sign").await;
    assert_eq!(wrong.header("allow"), "POST");
    wrong.fails(405, "method_not_allowed");
    let text =
        Request::post("/v1/operations/sign").header("content-type", "text/plain").body(Body::from("{}"));
    world.send(text.unwrap()).await.fails(415, "unsupported_media_type");
    let body = Body::from(payment("charset").to_string());
    let json = Request::post("/v1/operations/sign").header("content-type", "application/json; charset=utf-8");
    world.send(json.body(body).unwrap()).await.ok();
}

#[tokio::test]
async fn every_answer_names_its_request_and_forbids_caching() {
    let world = World::start().await;
    for path in ["/healthz", "/v1/nothing", "/v1/operations/xx"] {
        let answer = world.get(path).await;
        assert!(!answer.header("x-request-id").is_empty());
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    let echoed = world.call_as(&[("x-request-id", "trace-1")], "GET", "/healthz", &json!(null)).await;
    assert_eq!(echoed.header("x-request-id"), "trace-1");
    let hostile = world.call_as(&[("x-request-id", "a b\"c")], "GET", "/healthz", &json!(null)).await;
    assert_ne!(hostile.header("x-request-id"), "a b\"c");
}

use crate::harness::custody::{self, KEYS};
use crate::harness::process::SIGN;
use crate::harness::samples::payment;
use crate::harness::world::World;
use axum::body::Body;
use axum::http::Request;
use serde_json::json;

#[tokio::test]
async fn probes_answer_200() {
    let world = World::start().await;
    assert_eq!(world.get("/healthz").await.ok()["status"], "ok");
    let ready = world.get("/readyz").await.ok();
    assert_eq!(ready["status"], "ready");
    let checks = ready["checks"].as_object().unwrap();
    let names: Vec<_> = checks.keys().collect();
    assert_eq!(
        names,
        [
            "approvers",
            "audit_append",
            "authentication",
            "authority",
            "nodes",
            "policy",
            "records",
            "replicas",
            "store"
        ]
    );
    assert!(checks.values().all(|check| check["status"] == "ok"), "{ready}");
}

#[tokio::test]
async fn missing_store_fails_both_readiness_checks() {
    let world = World::start().await;
    world.store.close().await;
    let answer = world.get("/readyz").await;
    assert_eq!((answer.status.as_u16(), &answer.json["status"]), (503, &json!("not_ready")));
    let status = |name: &str| answer.json["checks"][name]["status"].clone();
    assert_eq!(["store", "audit_append"].map(status), ["failed", "failed"], "{}", answer.json);
    let other_checks = ["policy", "authority", "nodes", "authentication"];
    assert_eq!(other_checks.map(status), ["ok"; 4], "{}", answer.json);
    assert_eq!(answer.json["checks"]["audit_append"]["detail"], "the database cannot be written");
}

#[tokio::test]
async fn key_with_too_few_nodes_is_reported_by_readiness() {
    let world = World::ticking().await;
    // One key needs two of the nodes 0, 1, 2; the other three of 1, 2, 3, 4.
    custody::execute(&world, KEYS, &custody::key("first")).await;
    custody::execute(&world, KEYS, &custody::key("second")).await;
    custody::execute(&world, &custody::key_path("second", "/reshare"), &custody::reshare("2")).await;
    for (unreachable, why) in [
        (&[][..], None),
        (&[4], None),
        (&[0, 4], None),
        (&[3, 4], Some("2 of the nodes 1, 2, 3, 4 can be opened, and their keys need 3")),
        (&[0, 1], Some("1 of the nodes 0, 1, 2 can be opened, and their keys need 2")),
    ] {
        world.faults.set_unreachable(unreachable);
        let answer = world.get("/readyz").await;
        let status = if why.is_some() { ("not_ready", "failed", 503) } else { ("ready", "ok", 200) };
        let nodes = &answer.json["checks"]["nodes"];
        let reported = (answer.json["status"].as_str(), nodes["status"].as_str(), answer.status.as_u16());
        assert_eq!(reported, (Some(status.0), Some(status.1), status.2), "{unreachable:?}: {}", answer.json);
        assert_eq!(nodes["detail"].as_str(), why, "{unreachable:?}");
    }
}

#[tokio::test]
async fn consecutive_probes_write_once() {
    let world = World::ticking().await;
    let before = world.store.counters().jobs;
    for _ in 0..20 {
        world.get("/readyz").await.ok();
    }
    assert_eq!(world.store.counters().jobs - before, 1, "anyone may probe, so probes must be cheap");
}

#[tokio::test]
async fn metrics_have_no_label_that_a_caller_can_choose() {
    let world = World::start().await;
    let secret = "caller-chosen-9f2b";
    world.get(&format!("/v1/{secret}")).await;
    world.get(&format!("/v1/operations/{secret}")).await;
    world.call_as(&[("x-request-id", secret)], "PATCH", "/healthz", &json!(null)).await;
    world.call_as(&[], "BREW", "/healthz", &json!(null)).await;
    let text = world.text("/metrics").await;
    assert!(!text.contains(secret) && !text.contains("BREW"), "{text}");
    for line in [
        "# TYPE operation_gateway_requests_total counter",
        "operation_gateway_requests_total{method=\"GET\",route=\"(unmatched)\",status=\"404\"}",
        "operation_gateway_requests_total{method=\"GET\",route=\"/v1/operations/{operationId}\",status=\"400\"}",
        "operation_gateway_requests_total{method=\"other\",route=\"/healthz\",status=\"405\"}",
        "# HELP operation_gateway_policy_judges ",
        "operation_gateway_policy_judges 1",
    ] {
        assert!(text.contains(line), "`{line}` is not in {text}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_get_the_error_body() {
    let world = World::start().await;
    world.get("/v1/nothing").await.fails(404, "not_found");
    world.get("/").await.fails(404, "not_found");
    let wrong = world.get(SIGN).await;
    assert_eq!(wrong.header("allow"), "POST");
    wrong.fails(405, "method_not_allowed");
    let text = Request::post(SIGN).header("content-type", "text/plain").body(Body::from("{}"));
    let message = world.send(text.unwrap()).await.fails(415, "unsupported_media_type");
    assert_eq!(message, "the `Content-Type` must be `application/json`, not `text/plain`");
    let packed = Request::post(SIGN).header("content-encoding", "gzip").body(Body::from("{}"));
    let message = world.send(packed.unwrap()).await.fails(415, "unsupported_media_type");
    assert_eq!(message, "the body must be sent without `Content-Encoding: gzip`");
    let nothing = world.post_nothing(SIGN).await.fails(400, "invalid_json");
    assert_eq!(nothing, "the body is missing");
    let body = Body::from(payment("charset").to_string());
    let json = Request::post(SIGN)
        .header("content-type", "application/json; charset=utf-8")
        .header("content-encoding", "identity");
    world.send(json.body(body).unwrap()).await.ok();
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_forbids_caching() {
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

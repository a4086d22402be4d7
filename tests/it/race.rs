//! Concurrent callers: one operation, one admission, one signature.

use crate::harness::custody::{self, KEYS};
use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::pausing::Pause;
use crate::harness::samples::{admit, approval, path, payment, publication, submit, with};
use crate::harness::wire::poll_async;
use crate::harness::world::{Answer, World};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Posts to one path concurrently, with the body that `body` makes for each caller; all must succeed.
async fn post_concurrently(
    world: &Arc<World>,
    n_callers: usize,
    path: &str,
    body: impl Fn(usize) -> Value,
) -> Vec<Value> {
    let calls = (0..n_callers).map(|caller| (path.to_owned(), body(caller))).collect();
    world.post_concurrently(calls).await.into_iter().map(Answer::ok).collect()
}

/// The number of events of a type in the operation's log.
async fn n_events(world: &World, operation: &Value, kind: &str) -> usize {
    let audit = world.get(&path(operation, "/audit-replay")).await.ok();
    audit["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["event"]["change"]["type"] == kind)
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_submissions_with_one_idempotency_key_make_one_operation() {
    let world = Arc::new(World::start().await);
    let views = post_concurrently(&world, 50, "/v1/operations/sign", |_| payment("one")).await;
    let first = &views[0]["operation"];
    assert!(views.iter().all(|view| view["operation"] == *first), "all answers show one operation");
    assert_eq!(n_events(&world, first, "submitted").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_concurrent_last_approvals_admit_once() {
    let world = Arc::new(World::ticking().await);
    let operation = submit(&world, &payment("approvals")).await;
    world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    let views = post_concurrently(&world, 20, &path(&operation, "/approve"), |caller| {
        approval(&format!("bob-{caller}"))
    })
    .await;
    for view in &views {
        assert_eq!(view["state"], "admitted", "{view}");
        assert_eq!(view["runtime"]["admission_hash"], views[0]["runtime"]["admission_hash"]);
        assert_eq!(view["approvals"]["approved"], 2);
    }
    assert_eq!(n_events(&world, &operation, "quorum_reached").await, 1);
    assert_eq!(n_events(&world, &operation, "decision_signed").await, 1);
    assert_eq!(n_events(&world, &operation, "late_approval_recorded").await, 19);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_concurrent_executions_sign_once() {
    let world = Arc::new(World::ticking().await);
    let operation = admit(&world, &payment("executes")).await;
    let views = post_concurrently(&world, 20, &path(&operation, "/execute"), |_| json!({})).await;
    assert!(views.iter().all(|view| view["state"] == "executed"));
    assert!(views.iter().all(|view| view["runtime"]["result_ref"] == views[0]["runtime"]["result_ref"]));
    assert_eq!(n_events(&world, &operation, "executed").await, 1);
    assert_eq!(n_events(&world, &operation, "ceremony_started").await, 1);
}

/// `FaultyNodes` panics when two effects of one operation are performed at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn effects_of_one_operation_are_performed_one_at_a_time() {
    let world = Arc::new(World::ticking().await);
    let operation = submit(&world, &payment("turns")).await;
    world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    let reconciling = tokio::spawn({
        let world = Arc::clone(&world);
        async move {
            loop {
                world.engine.reconcile().await;
            }
        }
    });
    post_concurrently(&world, 10, &path(&operation, "/approve"), |caller| approval(&format!("bob-{caller}")))
        .await;
    post_concurrently(&world, 10, &path(&operation, "/execute"), |_| json!({})).await;
    post_concurrently(&world, 10, &path(&operation, "/publish"), |_| publication()).await;
    assert!(!reconciling.is_finished(), "the reconciler overlapped with a request");
    reconciling.abort();
}

/// The sorted error codes; `ok` for a successful answer.
fn codes(answers: &[Answer]) -> Vec<String> {
    let code = |answer: &Answer| answer.json["error"].as_str().unwrap_or("ok").to_owned();
    let mut codes: Vec<_> = answers.iter().map(code).collect();
    codes.sort();
    codes
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_creations_of_one_key_make_one() {
    let world = Arc::new(World::start().await);
    let views = post_concurrently(&world, 50, KEYS, |_| custody::key("one")).await;
    assert!(
        views.iter().all(|view| view["operation"] == views[0]["operation"]),
        "all answers show one operation"
    );
    let calls = |number: usize| {
        let body = with(custody::key("two"), "/purpose", json!(format!("purpose-{number}")));
        (KEYS.to_owned(), body)
    };
    let answers = world.post_concurrently((0..50).map(calls).collect()).await;
    let mut expected = vec!["custody_key_exists".to_owned(); 49];
    expected.push("ok".to_owned());
    assert_eq!(codes(&answers), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_two_concurrent_rotations_to_one_name_succeeds() {
    let world = Arc::new(World::ticking().await);
    for key_ref in ["a", "b"] {
        custody::create_key(&world, key_ref).await;
    }
    for round in 0..8 {
        let new = format!("new-{round}");
        let body = with(custody::rotate(&new), "/idempotency_key", json!(new));
        let calls = ["a", "b"].map(|key_ref| (custody::key_path(key_ref, "/rotate"), body.clone()));
        let answers = world.post_concurrently(calls.to_vec()).await;
        assert_eq!(codes(&answers), ["custody_key_exists", "ok"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_of_one_key_execute_one_at_a_time() {
    let world = Arc::new(World::ticking().await);
    for round in 0..4 {
        let key_ref = format!("key-{round}");
        world.faults.set_unavailable(false);
        custody::create_key(&world, &key_ref).await;
        let mut calls = Vec::new();
        for epoch in 2..10 {
            let refresh = custody::refresh(&epoch.to_string());
            let operation = custody::admit(&world, &custody::key_path(&key_ref, "/refresh"), &refresh).await;
            calls.push((custody::path(&operation, "/execute"), json!({})));
        }
        world.faults.set_unavailable(true);
        let answers = world.post_concurrently(calls).await;
        let mut expected = vec!["custody_key_busy".to_owned(); 7];
        expected.push("runtime_unavailable".to_owned());
        assert_eq!(codes(&answers), expected, "only one may hold the key");
    }
}

/// The first reads the key as free; the second takes the key before the first commits its decision.
#[tokio::test(flavor = "multi_thread")]
async fn key_change_with_a_version_conflict_is_decided_again() {
    let world = Arc::new(World::ticking().await);
    custody::create_key(&world, "vault").await;
    let refresh = custody::key_path("vault", "/refresh");
    let first = custody::admit(&world, &refresh, &custody::refresh("2")).await;
    let second = custody::admit(&world, &refresh, &custody::refresh("3")).await;
    world.faults.set_unavailable(true);
    let ((has_read, reads), (go_on, goes_on)) = (oneshot::channel(), oneshot::channel());
    *world.pause.lock().unwrap() = Some(Pause { has_read, goes_on });
    let first_execution = tokio::spawn({
        let (world, path) = (Arc::clone(&world), custody::path(&first, "/execute"));
        async move { world.post_nothing(&path).await }
    });
    reads.await.unwrap();
    world.post_nothing(&custody::path(&second, "/execute")).await.fails(503, "runtime_unavailable");
    go_on.send(()).unwrap();
    first_execution.await.unwrap().fails(409, "custody_key_busy");
    assert_eq!(world.get(&custody::path(&first, "")).await.ok()["state"], "admitted");
}

/// A caller that waits for an operation learns that it exists, and that it is being worked on.
#[tokio::test]
async fn another_tenants_busy_operation_is_not_found_at_once() {
    let world = Arc::new(World::ticking().await);
    custody::create_key(&world, "cold").await;
    let refresh = custody::key_path("cold", "/refresh");
    let busy = custody::admit(&world, &refresh, &custody::refresh("2")).await;
    let ((has_read, reads), (go_on, goes_on)) = (oneshot::channel(), oneshot::channel());
    *world.pause.lock().unwrap() = Some(Pause { has_read, goes_on });
    let execution = tokio::spawn({
        let (world, path) = (Arc::clone(&world), custody::path(&busy, "/execute"));
        async move { world.post_nothing(&path).await }
    });
    reads.await.unwrap();
    let eve = TestCaller { tenant: Some("other"), ..test_caller("eve", "custody.*") }.headers();
    for (action, body) in [
        ("/execute", json!({})),
        ("/abort", custody::abort("eve", &[])),
        ("/cancel", json!({ "reason": "r" })),
    ] {
        // Never returns if it waits for the operation, which waits for this test.
        world
            .call_as(&eve, "POST", &custody::path(&busy, action), &body)
            .await
            .fails(404, "operation_not_found");
    }
    go_on.send(()).unwrap();
    execution.await.unwrap().ok();
}

#[tokio::test]
async fn request_that_waits_for_work_on_its_operation_is_not_answered_as_done() {
    let world = World::ticking_with(&[("answer_within_ms", "200")]).await;
    custody::create_key(&world, "cold").await;
    let path_of = |action: &str| custody::key_path("cold", action);
    let refreshing = custody::admit(&world, &path_of("/refresh"), &custody::refresh("2")).await;
    let stopped = world.faults.stop();
    let view = world.post_nothing(&custody::path(&refreshing, "/execute")).await.ok();
    assert_eq!((&view["state"], &view["in_progress"]), (&json!("executing"), &json!("execution")));
    // Neither is in the events. When the nodes answer it may be too late.
    let aborting = custody::path(&refreshing, "/abort");
    world.post(&aborting, &custody::abort("alice", &[])).await.fails(503, "runtime_unavailable");
    let publishing = custody::path(&refreshing, "/publish");
    world.post(&publishing, &custody::publication()).await.fails(503, "runtime_unavailable");
    drop(stopped);
    let aborted = |view: &Value| view["rejections"].is_array();
    let read = async || world.get(&custody::path(&refreshing, "")).await.ok();
    let ended = poll_async(read, |view| view["in_progress"].is_null() && view["state"] != "admitted").await;
    assert_eq!(ended["state"] == "failed", aborted(&ended), "{ended}");
    let again = world.post(&aborting, &custody::abort("alice", &[])).await;
    assert_eq!(again.status == 200, aborted(&ended), "{ended}");
}

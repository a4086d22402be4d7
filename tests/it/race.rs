//! Many callers at once: one operation, one admission, one signature.

use crate::harness::samples::{admitted, approval, path, payment, submitted};
use crate::harness::world::World;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

/// Sends the same request from many tasks at once.
async fn at_once(
    world: &Arc<World>,
    n_callers: usize,
    path: &str,
    body: impl Fn(usize) -> Value,
) -> Vec<Value> {
    let calls: Vec<_> = (0..n_callers)
        .map(|caller| {
            let (world, path, body) = (Arc::clone(world), path.to_owned(), body(caller));
            tokio::spawn(async move { world.post(&path, &body).await })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.json);
        answers.push(answer.json);
    }
    answers
}

/// How many events of a type the operation's log has.
async fn n_events(world: &World, operation: &Value, kind: &str) -> usize {
    let audit = world.get(&path(operation, "/audit-replay")).await.ok();
    audit["events"].as_array().unwrap().iter().filter(|entry| entry["event"]["type"] == kind).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_submits_with_one_key_make_one_operation() {
    let world = Arc::new(World::start().await);
    let views = at_once(&world, 50, "/v1/operations/sign", |_| payment("one")).await;
    let first = &views[0]["operation"];
    assert!(views.iter().all(|view| view["operation"] == *first), "all see one operation");
    assert_eq!(n_events(&world, first, "submitted").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_last_approvals_admit_once() {
    let world = Arc::new(World::start().await);
    let operation = submitted(&world, &payment("approvals")).await;
    world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    let views =
        at_once(&world, 20, &path(&operation, "/approve"), |caller| approval(&format!("bob-{caller}"))).await;
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
async fn twenty_executes_sign_once() {
    let world = Arc::new(World::start().await);
    let operation = admitted(&world, &payment("executes")).await;
    let views = at_once(&world, 20, &path(&operation, "/execute"), |_| json!({})).await;
    assert!(views.iter().all(|view| view["state"] == "executed"));
    assert!(views.iter().all(|view| view["runtime"]["result_ref"] == views[0]["runtime"]["result_ref"]));
    assert_eq!(n_events(&world, &operation, "executed").await, 1);
    assert_eq!(n_events(&world, &operation, "ceremony_started").await, 1);
}

use super::assert_refused_by_name;
use crate::harness::samples::{admit, execute, path, payment, publication, with};
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn publication_before_execution_is_refused() {
    let world = World::start().await;
    let operation = admit(&world, &payment("early")).await;
    let answer = world.post(&path(&operation, "/publish"), &publication()).await;
    assert!(answer.fails(409, "operation_not_executed").contains("`admitted`"));
}

#[tokio::test]
async fn publication_with_another_result_or_scope_is_refused() {
    let world = World::start().await;
    let operation = execute(&world, &payment("result")).await;
    let publish = path(&operation, "/publish");
    let other = with(publication(), "/expected_result_ref", json!("0".repeat(64)));
    let message = world.post(&publish, &other).await.fails(409, "result_ref_mismatch");
    assert!(message.contains(operation["runtime"]["result_ref"].as_str().unwrap()));
    let cases = [
        ("/scope", json!("everything"), "`/scope` must be `signature`"),
        ("/scope", json!(""), "`/scope` must be `signature`"),
        ("/scope", Value::Null, "`/scope` is required"),
        ("/requested_at_ms", Value::Null, "`/requested_at_ms` is required"),
    ];
    assert_refused_by_name(&world, &publish, &publication(), &cases).await;
    let right = with(publication(), "/expected_result_ref", operation["runtime"]["result_ref"].clone());
    assert_eq!(world.post(&publish, &right).await.ok()["state"], "published");
    world.post(&publish, &other).await.fails(409, "result_ref_mismatch");
}

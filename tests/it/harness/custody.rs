//! Functions that take a custody operation to a state.

use super::samples::approval;
use super::world::World;
use serde_json::Value;

pub(crate) use gateway_domain::testing::requests::{
    abort, custody_desk as client, export, key, publication, recover, refresh, reshare, rotate, sign,
};

/// The path of all keys; posting to it creates one.
pub(crate) const KEYS: &str = "/v1/custody/keys";

/// The path of a key's view, or of an action on it such as `/sign`.
pub(crate) fn key_path(key_ref: &str, action: &str) -> String {
    format!("/v1/custody/keys/{key_ref}{action}")
}

/// The path of an operation's view, or of an action on it such as `/approve`.
pub(crate) fn path(operation: &Value, action: &str) -> String {
    format!("/v1/custody/operations/{}{action}", operation["operation_id"].as_str().unwrap())
}

/// Posts a body to a path; returns the view of the new operation.
pub(crate) async fn submit(world: &World, path: &str, body: &Value) -> Value {
    world.post(path, body).await.ok()["operation"].clone()
}

/// Submits an operation and approves it as Alice and as Bob; returns its view.
pub(crate) async fn admit(world: &World, path: &str, body: &Value) -> Value {
    let operation = submit(world, path, body).await;
    for subject in ["alice", "bob"] {
        world.post(&self::path(&operation, "/approve"), &approval(subject)).await.ok();
    }
    world.get(&self::path(&operation, "")).await.ok()
}

/// As [`admit`], and executes the operation.
pub(crate) async fn execute(world: &World, path: &str, body: &Value) -> Value {
    let operation = admit(world, path, body).await;
    world.post_nothing(&self::path(&operation, "/execute")).await.ok()
}

/// As [`execute`], and publishes the result.
pub(crate) async fn publish(world: &World, path: &str, body: &Value) -> Value {
    let operation = execute(world, path, body).await;
    world.post(&self::path(&operation, "/publish"), &publication()).await.ok()
}

/// Creates an active key; returns its view.
pub(crate) async fn create_key(world: &World, key_ref: &str) -> Value {
    execute(world, KEYS, &key(key_ref)).await;
    world.get(&key_path(key_ref, "")).await.ok()
}

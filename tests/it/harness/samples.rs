//! Functions that take a payment to a state.

use super::process::SIGN;
use super::world::World;
use serde_json::Value;

pub(crate) use gateway_domain::testing::requests::{
    approval, payment, publication, rejection, treasury_desk as client, with,
};

/// The path of a payment's view, or of an action on it such as `/approve`.
pub(crate) fn path(operation: &Value, action: &str) -> String {
    format!("/v1/operations/{}{action}", operation["operation_id"].as_str().unwrap())
}

/// Submits a payment; returns the view.
pub(crate) async fn submit(world: &World, body: &Value) -> Value {
    world.post(SIGN, body).await.ok()["operation"].clone()
}

/// Submits a payment and approves it as Alice and as Bob; returns the last view.
pub(crate) async fn admit(world: &World, body: &Value) -> Value {
    let operation = submit(world, body).await;
    let approve = path(&operation, "/approve");
    world.post(&approve, &approval("alice")).await.ok();
    world.post(&approve, &approval("bob")).await.ok()
}

/// As [`admit`], and executes the payment.
pub(crate) async fn execute(world: &World, body: &Value) -> Value {
    let operation = admit(world, body).await;
    world.post_nothing(&path(&operation, "/execute")).await.ok()
}

/// As [`execute`], and publishes the signature.
pub(crate) async fn publish(world: &World, body: &Value) -> Value {
    let operation = execute(world, body).await;
    world.post(&path(&operation, "/publish"), &publication()).await.ok()
}

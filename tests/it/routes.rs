//! The answers of each endpoint; the modules are named as in `host/api/src/routes`.

mod approve;
mod audit_replay;
mod custody_keys;
mod custody_operations;
mod decisions;
mod events;
mod execute;
mod faults;
mod health;
mod lists;
mod log;
mod node_recovery;
mod policy_bundles;
mod policy_preview;
mod policy_shadow;
mod publish;
mod reject;
mod show;
mod sign;
mod views;
mod webhooks;

use crate::harness::samples::with;
use crate::harness::world::World;
use serde_json::Value;

/// The id of no operation.
const UNKNOWN: &str = "00000000000000000000000000000000000000000000000000000000000000ff";

/// Texts that are not operation ids.
const NOT_HEX32: [&str; 5] = ["1", "zz", "%00", "%ff", "ABCDEF"];

/// Replaces one member of a valid body at a time; each body must be refused with a message that begins with the expected text.
async fn assert_refused_by_name(world: &World, path: &str, valid: &Value, cases: &[(&str, Value, &str)]) {
    for (pointer, value, expected) in cases {
        let answer = world.post(path, &with(valid.clone(), pointer, value.clone())).await;
        let message = answer.fails(400, "invalid_json");
        assert!(message.starts_with(expected), "{path} {pointer}: {message}");
    }
}

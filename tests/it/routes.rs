//! Each endpoint's answers, errors first; mirrors `host/api/src/routes`.

mod approve;
mod audit_replay;
mod custody_keys;
mod custody_operations;
mod execute;
mod health;
mod log;
mod node_recovery;
mod policy_bundles;
mod policy_preview;
mod publish;
mod show;
mod sign;
mod views;

/// An id without an operation.
const UNKNOWN: &str = "00000000000000000000000000000000000000000000000000000000000000ff";

/// Texts that are not ids.
const NOT_HEX32: [&str; 5] = ["1", "zz", "%00", "%ff", "ABCDEF"];

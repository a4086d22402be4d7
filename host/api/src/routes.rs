//! Handlers: take what the signature says, call the engine, show the answer. Nothing else.

pub mod custody_keys;
pub mod custody_operations;
pub mod evidence;
pub mod health;
pub mod lifecycle;
pub mod log;
pub mod operations;
pub mod policy;

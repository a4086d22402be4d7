//! Handlers: take what the signature says, call the engine, show the answer. Nothing else.

pub mod audit;
pub mod health;
pub mod lifecycle;
pub mod operations;
pub mod policy;

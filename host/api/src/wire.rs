//! Request and response shapes of the contract, and how requests become domain values.

pub mod common;
pub mod operations;
pub mod policy;
pub mod view;

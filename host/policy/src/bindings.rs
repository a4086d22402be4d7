//! The contract as Rust types: see `wit/policy.wit`.
//!
//! The request borrows, so that its strings go from the caller's values straight into the guest's memory.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "policy",
    ownership: Borrowing { duplicate_if_necessary: true },
    imports: { default: trappable },
});

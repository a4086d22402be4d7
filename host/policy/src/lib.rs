//! Runs signed policy bundles as WebAssembly components.
//!
//! A policy has no access to files, the network, a clock or randomness. Each evaluation has fixed limits and a fresh instance.
//! A failed evaluation is a DENY with a named fault.
//!
//! Not in this crate: the database that stores bundles, the timer and the signal that trigger a reload, and the effect of a
//! decision on an operation.
//!
//! Start at [`Bundle::verify`] (files to bundle), then [`Evaluator::load`] (bundle to compiled policy), then
//! [`PolicyHost`] (the engine's port), then [`lifecycle`] (from an offered bundle to the active one). `wit/policy.wit` defines
//! what a policy may import; [`limits`] has the limits.

/// `wit/policy.wit` as Rust types. The request borrows, so that its strings are copied only once, into the guest's memory.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "policy",
        ownership: Borrowing { duplicate_if_necessary: true },
        imports: { default: trappable },
    });
}
pub mod bundle;
mod convert;
pub mod counters;
mod data;
mod engine;
mod evaluator;
mod fact_names;
mod fault;
mod host;
pub mod lifecycle;
pub mod limits;
mod outcome;
mod self_test;
mod shadow;
mod state;
mod wasi;
mod worker_pool;

pub use bundle::{Bundle, BundleError, BundleFiles, Pins, TrustPolicy};
pub use engine::{EngineError, PolicyEngine};
pub use evaluator::{Evaluation, Evaluator, RetainedInstance};
pub use fault::EvaluationFault;
pub use host::PolicyHost;
pub use lifecycle::Lifecycle;
pub use outcome::RawEvaluation;

/// Signed bundles of real and of hostile guests.
#[cfg(test)]
mod tests {
    mod activation;
    mod bundles;
    mod convert;
    mod data;
    mod default_policy;
    mod fuzz;
    mod host;
    mod hostile;
    mod lifecycle;
    mod shadow;
    mod support;
    mod wasi;
}

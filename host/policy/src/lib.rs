//! Runs signed policy bundles as WebAssembly components.
//!
//! A bundle is code that can only decide: it has no files, network, clock or randomness, fixed limits, and a fresh
//! instance for every evaluation. Every failure is a DENY with a named fault, never a verdict.
//!
//! Not in this crate: the database that stores bundles, the timer and the signal that trigger a reload, and the effect of a
//! decision on an operation.
//!
//! Start at [`Bundle::verify`] (files to bundle), then [`Evaluator::load`] (bundle to compiled policy), then
//! [`PolicyHost`] (the engine's port), then [`lifecycle`] (from an offered bundle to the active one). `wit/policy.wit` has
//! what a policy may import; [`limits`] has every limit.

/// `wit/policy.wit` as Rust types. The request borrows, so that its strings are copied once: into the guest's memory.
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
pub use evaluator::{Evaluation, Evaluator, RawEvaluation, RetainedInstance};
pub use fault::EvaluationFault;
pub use host::PolicyHost;
pub use lifecycle::Lifecycle;

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

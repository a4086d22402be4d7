//! Runs signed policy bundles as WebAssembly components.
//!
//! A bundle is code that can do nothing but decide: no file, network, clock or randomness, fixed limits, and a fresh
//! instance for every evaluation. Whatever goes wrong is a DENY of a named kind, never a verdict.
//!
//! Deliberately absent: the database that bundles are kept in, the timer and the signal that make it look for new ones,
//! and what a decision means for an operation.
//!
//! Start at [`Bundle::verify`] (files to bundle), then [`Evaluator::load`] (bundle to compiled policy), then
//! [`PolicyHost`] (the engine's port), then [`lifecycle`] (from an offered bundle to the active one). What a policy may import is in `wit/policy.wit`; every bound is in [`limits`].

mod apart;
mod bindings;
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

pub use bundle::{Bundle, BundleError, BundleFiles, Pins, TrustPolicy};
pub use engine::{EngineError, PolicyEngine};
pub use evaluator::{Evaluation, Evaluator, Judged, Kept};
pub use fault::EvaluationFault;
pub use host::PolicyHost;
pub use lifecycle::Lifecycle;
#[cfg(test)]
mod tests;

//! Runs signed policy bundles as WebAssembly components.
//!
//! A policy has no access to files, the network, a clock or randomness. Each evaluation has fixed limits and a fresh instance.
//! A failed evaluation is a DENY with a named fault.
//!
//! Not in this crate: which bundle is active (`gateway_policy_host`), and the effect of a decision on an operation.
//!
//! Start at [`Bundle::verify`] (files to bundle), then [`Evaluator::load`] (bundle to compiled policy). [`TrustedBundles`] is for a
//! party that gets bundles from another one, repeats its evaluations ([`Evaluator::repeat`]) and compares them with what it knows
//! ([`Known`]). `wit/policy.wit` defines
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
mod calendar;
mod convert;
mod data;
mod engine;
mod evaluator;
mod fact_names;
mod fault;
mod known;
pub mod limits;
mod offer;
mod outcome;
mod repeat;
#[cfg(feature = "snapshot")]
pub mod snapshot;
mod standing;
mod state;
#[cfg(feature = "testing")]
pub mod testing;
mod totals;
mod trust_file;
mod trusted;
mod wasi;

pub use bundle::EngineError;
pub use bundle::{Bundle, BundleError, BundleFiles, Pins, TrustPolicy};
pub use engine::PolicyEngine;
pub use evaluator::{Evaluator, RetainedInstance};
pub use known::{Disagreement, Known, KnownKey, Shares};
pub use offer::{
    BUNDLE_SUPERSEDED, BUNDLE_UNKNOWN, BundleOffer, OFFER_BODY_BYTES_MAX, OfferBundleRequest, OfferFault,
};
pub use outcome::{RawEvaluation, without_bundle};
pub use repeat::RepeatError;
pub use standing::{Ranked, Standing, Superseded};
pub use totals::TotalsError;
pub use trust_file::TrustFile;
pub use trusted::{CompiledBundles, Trust, TrustedBundle, TrustedBundles};

/// Signed bundles of real and of hostile guests.
#[cfg(test)]
mod tests {
    mod activation;
    mod archive;
    mod bundles;
    mod convert;
    mod data;
    mod default_policy;
    mod documents;
    mod fuzz;
    mod hostile;
    mod obligations;
    mod snapshot;
    mod trusted;
    mod wasi;
}

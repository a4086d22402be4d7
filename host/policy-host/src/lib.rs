//! Implements the engine's ports for policies: which bundle is active, and its evaluations.
//!
//! Not in this crate: bundles and their evaluation (`gateway_policy`), the database that stores bundles, the timer and the signal
//! that trigger a reload, and the effect of a decision on an operation.
//!
//! Start at [`PolicyHost`] (evaluates requests with the active bundle), then [`lifecycle`] (from an offered bundle to the active
//! one).

pub mod counters;
mod host;
pub mod lifecycle;
mod shadow;
mod worker_pool;

pub use host::PolicyHost;
pub use lifecycle::Lifecycle;

/// The host and the lifecycle, with real bundles.
#[cfg(test)]
mod tests {
    mod host;
    mod lifecycle;
    mod shadow;
}

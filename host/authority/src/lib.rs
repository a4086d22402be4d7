//! Signs admission decisions, the only requests that runtime nodes act on.
//!
//! [`Authority`] signs a consistent request: an `ALLOW`, a satisfied quorum, an approval by each person that the quorum counts. In a
//! process of its own it trusts no caller: [`Verifier`] first reads the operation from its chained events, checks the approvers'
//! signatures and the times, and evaluates the policy itself.
//!
//! Start with [`Authority`]; `decision.rs` builds the decision, `verify.rs` has the checks of a request from another process, and
//! `policies.rs` the bundles that it trusts.

mod decision;
mod policies;
mod signer;
mod verify;

pub use decision::Refusal;
pub use policies::Policies;
pub use signer::Authority;
pub use verify::{DECISIONS_MAX, DecisionAnswer, DecisionRequest, HistoryEvent, Unverified, Verifier};

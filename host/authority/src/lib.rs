//! Signs admission decisions, the only requests that runtime nodes act on.
//!
//! [`Authority`] signs a consistent request: an `ALLOW`, a satisfied quorum, an approval by each person that the quorum counts. In a
//! process of its own it trusts no caller: [`Verifier`] first reads the operation from its chained events, and checks the approvers'
//! signatures, and the times.
//!
//! Start with [`Authority`]; `decision.rs` builds the decision, `verify.rs` has the checks of a request from another process.

mod decision;
mod signer;
mod verify;

pub use decision::Refusal;
pub use signer::Authority;
pub use verify::{DecisionAnswer, DecisionRequest, HistoryEvent, Unverified, Verifier};

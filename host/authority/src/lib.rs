//! Signs admission decisions, the only requests that runtime nodes act on.
//!
//! [`Authority`] signs a consistent request: an `ALLOW`, a satisfied quorum, an approval by each person that the quorum counts. In a
//! process of its own it trusts no caller: [`Verifier`] first reads the operation from its chained events, checks the approvers'
//! signatures and the times, and evaluates the policy itself. Then it compares the request with its [`Record`] of what it decided
//! before, which has the decision durably before it is signed. [`main`] is that process.
//!
//! Start with [`Authority`]; `decision.rs` builds the decision, `verify.rs` has the checks of a request from another process,
//! `policies.rs` the bundles that it trusts, and `record.rs` the record: `payments.rs` and `marks.rs` have its tables. `process.rs` is
//! the process, with its `settings.rs` and `routes.rs`.

mod decision;
mod error;
mod marks;
mod payments;
mod policies;
mod process;
mod record;
pub mod routes;
mod row;
pub mod settings;
mod signer;
mod verified;
mod verify;

pub use decision::Refusal;
pub use error::{DECISION_REFUSED, RecordError, RecordFailure, Unverified};
pub use policies::Policies;
pub use process::main;
pub use record::Record;
pub use signer::Authority;
pub use verified::Verified;
pub use verify::{DECISIONS_MAX, DecisionAnswer, DecisionRequest, HistoryEvent, Verifier};

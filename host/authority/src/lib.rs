//! Turns a quorum and a policy outcome into a signed admission decision: the only thing a runtime node believes.
//!
//! The authority judges nothing itself. It states what it was shown (decisions.md 10), after checking that what it was
//! shown hangs together: an `ALLOW`, a satisfied quorum, and as many approvals as that quorum claims. Beside it, with
//! a key of its own, stands whoever signs the heads of the log of all events. Deliberately absent: policy (another
//! adapter), and any way to sign anything else with either key.
//!
//! Start with [`EmbeddedAuthority`]; `decision.rs` says what goes into a decision, [`LogSigner`] signs checkpoints.

mod checkpoint;
mod decision;
mod embedded;

pub use checkpoint::LogSigner;
pub use embedded::EmbeddedAuthority;

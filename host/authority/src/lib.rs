//! Turns a quorum and a policy outcome into a signed admission decision: the only thing a runtime node believes.
//!
//! The authority judges nothing itself. It states what it was shown (decisions.md 10), after checking that what it was
//! shown hangs together: an `ALLOW`, a satisfied quorum, and as many approvals as that quorum claims. Deliberately
//! absent: policy (another adapter), and any way to sign anything but an admission decision.
//!
//! Start with [`EmbeddedAuthority`]; `decision.rs` says what goes into a decision, [`keys`] where the key lies.

mod decision;
mod embedded;
pub mod keys;

pub use embedded::EmbeddedAuthority;

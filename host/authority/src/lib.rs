//! Signs admission decisions, the only requests that runtime nodes act on, and checkpoints of the log.
//!
//! The authority does not evaluate policy. It checks that a request is consistent (an `ALLOW`, a satisfied quorum, an approval by
//! each person that the quorum counts) and signs a decision. A second signer, with another key, signs checkpoints of the log of
//! all events, and statements about the log.
//!
//! Start with [`EmbeddedAuthority`]; `decision.rs` builds the decision, [`LogSigner`] signs checkpoints.

mod checkpoint;
mod decision;
mod embedded;

pub use checkpoint::LogSigner;
pub use embedded::EmbeddedAuthority;

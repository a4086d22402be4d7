//! Signs admission decisions, the only requests that runtime nodes act on, and checkpoints of the log.
//!
//! The authority does not evaluate policy. It checks that the request it gets is consistent (an `ALLOW`, a satisfied
//! quorum, as many approvals as that quorum counts) and signs a statement of it. A second signer, with a key of its own,
//! signs the checkpoints of the log of all events. Neither key can sign anything else.
//!
//! Start with [`EmbeddedAuthority`]; `decision.rs` builds the decision, [`LogSigner`] signs checkpoints.

mod checkpoint;
mod decision;
mod embedded;

pub use checkpoint::LogSigner;
pub use embedded::EmbeddedAuthority;

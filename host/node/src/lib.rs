//! A runtime node: verifies each decision itself, keeps one share a key, and never signs twice.
//!
//! **A node trusts nobody** (decisions.md 10). It pins the authorities it believes, and the approvers whose signatures it
//! verifies, and counts approvals itself; a caller
//! can make it stop, never make it sign what was not admitted. What it signs comes from its own stored admission, not
//! from the call. Deliberately absent: policy, knowledge of other nodes (messages go through the caller), and clocks
//! (an argument).
//!
//! Reading order: [`Node`] (the steps of an operation), `judge` (what an admission must be), `approvals` (what its
//! approvals must be), `gate` (what a call must
//! be), [`Chain`](gateway_domain::receipt::Chain) (the order of steps), `receipt`
//! (the node's signed word), `signing` and `sessions` (the nonce rule), `ceremony` and `part` (making shares),
//! `mail` (messages between nodes), `vault` and `sealing` (secrets at rest), `check` (whether all of it is as it was).
//!
//! | step | what it checks | durable |
//! |---|---|---|
//! | [`Node::admit`] | signature, validity, intent, approvals, participants, epoch, derivation | the statement |
//! | [`Node::materialize_receipt`] | call, order, validity, epoch | the step |
//! | [`Node::signing_commit`] | the same | nothing: nonces live in memory only |
//! | [`Node::signing_share`] | the same, and the package | the mark that the nonces are used, with package and share |
//! | [`Node::ceremony_start`] | call, order, validity, epoch, who holds the key | that the attempt was begun |
//! | [`Node::ceremony_deliver`] | the protocol's own checks | the staged share |
//! | [`Node::commit_epoch`] | call, order, that exactly this generation is staged | the promotion |
//! | [`Node::publish`] | call, order, the signature | the step |
//! | [`Node::discard`] | that nothing was committed | that the operation is over |
//!
//! Whoever asked for a step that is durable gets a signed receipt for it. A receipt follows from what is stored, so that
//! a repeat, also after a restart, is answered with the very same one.

mod admit;
mod approvals;
mod call;
mod ceremony;
mod check;
mod error;
mod gate;
mod generations;
mod identity;
mod judge;
pub mod limits;
mod mail;
mod node;
mod package;
mod part;
mod peers;
mod receipt;
mod row;
mod row_hash;
mod sealing;
mod sessions;
mod signing;
mod steps;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
mod vault;

pub use call::{AdmitRequest, Call, CeremonyStart, CommitEpoch, Owner, Publication, Published};
pub use ceremony::CeremonyAnswer;
pub use check::{Cursor, Damage, NodeFile, Scope};
pub use error::{Code, NodeError, Rejection};
pub use gateway_seal::relay::{Envelope, Header};
pub use generations::Generations;
pub use identity::read_identity;
pub use node::{Clock, Node, NodeConfig};
pub use peers::{PeerConflict, Peers};
pub use signing::{RoundOne, SignedShare};

//! A runtime node: verifies each decision itself, keeps one share a key, and never signs twice.
//!
//! **A node trusts nobody** (decisions.md 10). It pins the authorities it believes and counts approvals itself; a caller
//! can make it stop, never make it sign what was not admitted. What it signs comes from its own stored admission, not
//! from the call. Deliberately absent: policy, knowledge of other nodes (messages go through the caller), and clocks
//! (an argument).
//!
//! Reading order: [`Node`] (the steps of an operation), `judge` (what an admission must be), `gate` (what a call must
//! be), [`Chain`] (the order of steps), `signing` and `sessions` (the nonce rule), `keygen`, `vault` and `sealing`
//! (secrets at rest).
//!
//! | step | what it checks | durable |
//! |---|---|---|
//! | [`Node::admit`] | signature, validity, intent, approvals, participants, epoch, derivation | the statement |
//! | [`Node::materialize_receipt`] | call, order, validity, epoch | the step |
//! | [`Node::signing_commit`] | the same | nothing: nonces live in memory only |
//! | [`Node::signing_share`] | the same, and the package | the mark that the nonces are used, with package and share |
//! | [`Node::keygen_start`] | call, order, validity, that there is no such key | that the attempt was begun |
//! | [`Node::keygen_deliver`] | the protocol's own checks | the staged share |
//! | [`Node::commit_epoch`] | call, order, that exactly this generation is staged | the promotion |
//! | [`Node::publish`] | call, order, the signature | the step |
//! | [`Node::discard`] | that nothing was committed | that the operation is over |

mod admit;
mod call;
mod chain;
mod error;
mod gate;
mod generations;
mod judge;
mod keygen;
pub mod limits;
mod node;
mod package;
mod row;
mod sealing;
mod sessions;
mod signing;
mod steps;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
mod vault;

pub use call::{AdmitRequest, Call, CommitEpoch, ExecuteSecrets, Publication};
pub use chain::Chain;
pub use error::{Code, NodeError, Rejection};
pub use generations::Generations;
pub use keygen::KeygenAnswer;
pub use node::{Clock, Node, NodeConfig};
pub use signing::RoundOne;

//! A runtime node: holds shares of keys, verifies every decision itself, and never signs twice with the same nonces.
//!
//! **A node trusts no caller.** It pins the authorities whose decisions it accepts, counts approvals itself, and verifies the
//! approvers' signatures if its settings say so. **It runs the policy itself**, with a bundle that it verified under its own trust
//! roots, and compares the facts that the policy read with what it knows. A caller can stop it but cannot make it sign what was not
//! admitted: what it signs comes from its own stored admission, not from the call. It has no connection to other nodes (the caller
//! relays messages), and reads the time from the clock in its settings only.
//!
//! Folders know each other in one direction:
//!
//! | folder | what it is | knows |
//! |---|---|---|
//! | `error`, `limits`, `call`, `peers`, `settings` | refusals, the arguments of calls, and what an operator configures | nothing below |
//! | `store` | the tables: secrets (`sealing`, `vault`), operations, used nonces (`consumed`), bundles, payments, the log | those |
//! | `memory` | open nonces (`sessions`) and ceremonies, decoded keys, the log's size (`watch`), findings of checks | `store` |
//! | `node` | [`Node`]: opens its database, and signs receipts | `memory` |
//! | `log` | the log as callers see it, and `rollback` | `node` |
//! | `admission` | the checks of a decision: `verify`, `approvals`, `policy` with `bundles`; and those of a later call: `gate` | `node` |
//! | `steps` | `signing` by the nonce rule, `attempts` (when another may begin), promotion, publication, `discard` | `admission` |
//! | `ceremony` | making shares: the `part` of this node, its `mail`, its `contribution` to a recovery | `steps` |
//! | `check` | whether the database is intact, and the node's `health` | `node` |
//! | `wire` | the shapes of calls and answers over HTTP | `ceremony` |
//!
//! The order of an operation's steps is in [`Chain`](gateway_domain::receipt::Chain).
//!
//! | step | checks | writes durably |
//! |---|---|---|
//! | [`Node::offer_bundle`] | signatures, pins, validity, test vectors | the bundle |
//! | [`Node::admit`] | signature, validity, intent, approvals, policy, facts, participants, epoch, derivation | the statement |
//! | [`Node::policy_receipt`] | call, order, validity, epoch | the step |
//! | [`Node::signing_commit`] | the same, that no earlier attempt can be completed, and all checks of the admission again | nothing: nonces are in memory only |
//! | [`Node::signing_share`] | the same, and the package | the mark that the nonces are used, with package and share |
//! | [`Node::ceremony_start`] | call, order, epoch, the key's holders, the same | that the attempt has begun |
//! | [`Node::ceremony_deliver`] | the messages, and those of the protocol | the staged share |
//! | [`Node::commit_epoch`] | call, order, that exactly this generation is staged, here and by all other receivers | the promotion |
//! | [`Node::publish`] | call, order, the result, that all receivers of new shares promoted them | the step |
//! | [`Node::discard_attempt`] | that the attempt is not completed | that the attempt is discarded |
//! | [`Node::discard`] | that no generation is promoted, and no completed attempt can be completed elsewhere | that the operation is discarded |
//!
//! The calls that make a step return a signed receipt, which is also an entry of the node's own log (`log`). A repeated call returns
//! the same receipt, also after a restart. A node that is shown a receipt or head that its log does not have was restored from an
//! older copy of its database: it stops until an operator readmits it (`rollback`).

mod admission;
mod call;
mod ceremony;
mod check;
mod error;
pub mod limits;
mod log;
mod node;
mod peers;
#[cfg(feature = "samples")]
pub mod samples;
mod settings;
mod steps;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod wire;

/// What the node's database holds: each file reads and writes some of its tables, and knows no node.
mod store {
    pub(crate) mod bundles;
    pub(crate) mod columns;
    pub(crate) mod consumed;
    pub(crate) mod log;
    pub(crate) mod operation;
    pub(crate) mod rollback;
    pub(crate) mod row_hash;
    pub(crate) mod sealing;
    pub(crate) mod spending;
    pub(crate) mod tables;
    pub(crate) mod transaction;
    pub(crate) mod vault;
}

/// What a node has in memory only, and loses when it restarts.
mod memory {
    pub(crate) mod ceremonies;
    pub(crate) mod generations;
    pub(crate) mod health;
    #[cfg(feature = "testing")]
    pub(crate) mod lies;
    pub(crate) mod sessions;
    pub(crate) mod watch;
}

pub use admission::verify::derivation;
pub use call::{
    AdmitRequest, Call, CeremonyStart, CommitEpoch, Discard, Owner, Publication, Published, ShownReceipt,
    Subject, ceremony_id,
};
pub use ceremony::CeremonyAnswer;
pub use ceremony::contribution::{admitted_contributions, public_case};
pub use ceremony::part::protocol;
pub use check::NodeFile;
pub use check::health::{NodeStatus, unreadable};
pub use error::{Code, NodeError, NodeRejection, PeerConflict};
pub use gateway_policy::{BundleOffer, CompiledBundles, Trust};
pub use gateway_seal::relay::{Complaint, Envelope, Header};
pub use memory::generations::Generations;
pub use node::{Node, OperationState, read_identity};
pub use peers::{Peers, PeersFile};
pub use settings::{Clock, NodeConfig, NodeSettings};
pub use steps::PolicyReceipt;
pub use steps::signing::{RoundOne, SignedShare};
pub use store::tables::{Cursor, Damage, Scope};

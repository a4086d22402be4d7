//! A runtime node: holds shares of keys, verifies every decision itself, and never signs twice with the same nonces.
//!
//! **A node trusts no caller.** It pins the authorities whose decisions it accepts, counts approvals itself, and verifies the
//! approvers' signatures if its settings say so. **It runs the policy itself**, with a bundle that it verified under its own trust
//! roots, and compares the facts that the policy read with what it knows. A caller can stop it but cannot make it sign what was not
//! admitted: what it signs comes from its own stored admission, not from the call. It has no connection to other nodes (the caller
//! relays messages), and reads the time from the clock in its settings only.
//!
//! Reading order: [`Node`] (settings, database, receipts), `verify` (the checks of an admission), `approvals` (the checks of its
//! approvals), `policy` and `spending` (its own run of the policy, with [`gateway_policy::Known`]), `bundles` (the bundles that it trusts), `gate` (the
//! checks of a later call), [`Chain`](gateway_domain::receipt::Chain) (the order of steps), `steps`, `attempts` and `discard` (when
//! another attempt may begin, and when an operation ends), `signing`, `sessions` and `consumed` (the nonce rule), `ceremony` and
//! `part` (making shares), `contribution` (to a recovery), `mail` (messages between nodes), `vault` and `sealing` (secrets at rest), `log` and `rollback`, `check`
//! (whether the database is intact).
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
mod memory;
mod node;
mod peers;
mod settings;
mod steps;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod wire;

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

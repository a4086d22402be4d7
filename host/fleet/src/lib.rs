//! The fleet of runtime nodes: performs an effect of an operation on the nodes and returns its outcome.
//!
//! The fleet calls the nodes, collects their answers, verifies their receipts and relays their messages. It never reads a share
//! or a nonce, and each node verifies the decisions itself. The crate does not retry: the engine performs an effect again until
//! it has an outcome. Nothing that the fleet has in memory is needed after a restart.
//!
//! Files depend on each other in one direction: `memory`, `node` ([`RuntimeNode`], the steps of a node) → `fleet` → `nodes` (in this
//! process or behind HTTP), `fan_out` (concurrent calls) → `calls` (their arguments) → `acks` (receipts and outcomes) → `ceremony` (`signing`
//! with `package`, `shares` with `blame`, and `attempts` that are given up) → `effects` (which effect calls which step).

mod acks;
mod calls;
mod effects;
mod fan_out;
mod files;
mod fleet;
mod memory;
mod node;

/// Executions: attempts at a signature, and at new shares.
mod ceremony {
    pub(crate) mod attempts;
    pub(crate) mod blame;
    pub(crate) mod package;
    pub(crate) mod shares;
    pub(crate) mod signing;
}

/// The two kinds of nodes.
mod nodes {
    pub(crate) mod embedded;
    pub(crate) mod remote;
}

pub use fan_out::HISTOGRAMS;
pub use files::{
    FleetConfig, IdentityError, check_file, identities, missing_shares_in_file, open_file,
    participants_with_database, readmit, rewrap,
};
pub use fleet::{FindBundle, Fleet};
pub use gateway_node::limits::CHECKED_ROWS;
pub use gateway_node::{BundleOffer, Damage, NodeFile, NodeSettings, PeersFile};
pub use node::{Nodes, RuntimeNode};
pub use nodes::embedded::{EmbeddedFleet, EmbeddedNodes};
pub use nodes::remote::{NodeAddress, RemoteFleet, RemoteNodes};

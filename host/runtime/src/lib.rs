//! The fleet of runtime nodes: performs an effect of an operation on the nodes and returns its outcome.
//!
//! The fleet calls the nodes, collects their answers, verifies their receipts and relays their messages. It never reads a share
//! or a nonce, and each node verifies the decisions itself. The crate does not retry: the engine performs an effect again until
//! it has an outcome. Nothing that the fleet has in memory is needed after a restart.
//!
//! Start with [`Fleet`] and [`RuntimeNode`], the steps of a node; then `effects` (which effect calls which step of a node), `calls` (the arguments of the calls),
//! `signing` (with `begun`) and `shares` (executions), `blame` (who made one fail) and `acks` (receipts and outcomes).

mod acks;
mod attempts;
mod begun;
mod blame;
mod bundles;
mod calls;
mod commitments;
mod effects;
mod fan_out;
mod files;
mod fleet;
mod newest;
mod node;
mod remote;
mod shares;
mod signing;
mod suspects;

pub use bundles::FindBundle;
pub use fan_out::HISTOGRAMS;
pub use files::{
    IdentityError, check_file, identities, missing_shares_in_file, open_file, participants_with_database,
    readmit, rewrap,
};
pub use fleet::{EmbeddedFleet, EmbeddedNodes, Fleet, FleetConfig};
pub use gateway_node::limits::CHECKED_ROWS;
pub use gateway_node::{BundleOffer, Damage, NodeFile, NodeSettings, PeersFile};
pub use node::{Nodes, RuntimeNode};
pub use remote::{NodeAddress, RemoteFleet, RemoteNodes};

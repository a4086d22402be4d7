//! The fleet of runtime nodes as the engine sees it: one effect in, one outcome out.
//!
//! The fleet calls the nodes, collects their answers and relays their messages. Every node checks every decision again, and
//! the fleet holds no secret. The core judges whether enough nodes answered. The crate has no retries (an effect stays owed
//! until it is settled) and no state that a restart would miss.
//!
//! Start with [`EmbeddedFleet`]; then `effects` (which effect calls which step of a node), `calls` (the calls themselves),
//! `signing` and `shares` (the ceremonies) and `acks` (what answers mean, and which receipts count).

mod acks;
mod calls;
mod effects;
mod fan_out;
mod files;
mod fleet;
mod health;
mod shares;
mod signing;
mod suspects;

pub use files::{
    IdentityError, check_file, identities, missing_shares_in_file, participants_with_database, rewrap,
};
pub use fleet::{EmbeddedFleet, FleetConfig};
pub use gateway_node::limits::CHECKED_ROWS;
pub use gateway_node::{Damage, NodeSettings};

//! The fleet of runtime nodes as the engine sees it: one effect in, one outcome out.
//!
//! The fleet asks, collects and relays; it decides nothing that a node does not check again, and holds no secret. Whether
//! enough nodes answered is the core's judgement, not this crate's. Deliberately absent: retries (an effect stays owed
//! until it is settled) and any state that a restart would miss.
//!
//! Start with [`EmbeddedFleet`]; then `dispatch` (which effect is what), `signing` and `shares` (the ceremonies), `receipts`
//! (whether a node's word is its word) and `acks` (what answers mean).

mod acks;
mod calls;
mod config;
mod dispatch;
mod fan_out;
mod files;
mod fleet;
mod health;
mod identities;
mod receipts;
mod rewrap;
mod shares;
mod signing;
mod steps;
mod suspects;

pub use config::FleetConfig;
pub use files::{check_file, file_lacks};
pub use fleet::{EmbeddedFleet, existing};
pub use gateway_node::Damage;
pub use gateway_node::limits::CHECKED_ROWS;
pub use identities::{IdentityError, identities};
pub use rewrap::rewrap;

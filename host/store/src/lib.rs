//! Durable commits and reads: the engine's [`CommitOperations`], [`ReadOperations`], [`ReadLog`] and [`KeepPolicies`] on a
//! database.
//!
//! Deliberately absent: rules. What a commit holds was decided before it came here; this crate compares revisions, adds
//! events to the log of all events, and writes everything or nothing. It looks into an operation only for the columns
//! that are searched.
//!
//! Start at [`Store::open`]; tools beside a gateway read what was decided with [`Decisions::open`],
//! and check that everything agrees with [`Fsck::open`]. `encode` makes rows and `decode` reads them, the same for every backend; `ledger` is the
//! arithmetic of the log. A backend is one module (`sqlite`) that implements the engine's ports, one folder of migrations,
//! and one line that runs the contract suite (`contract`).
//!
//! [`CommitOperations`]: gateway_engine::ports::CommitOperations
//! [`KeepPolicies`]: gateway_engine::ports::KeepPolicies
//! [`ReadLog`]: gateway_engine::ports::ReadLog
//! [`ReadOperations`]: gateway_engine::ports::ReadOperations

mod cache;
#[cfg(test)]
mod contract;
mod decisions;
mod decode;
mod encode;
mod error;
mod fsck;
mod history;
mod row;
mod sqlite;

pub use decisions::{Cursor, InvalidCursor, Place, Recorded};
pub use error::OpenError;
pub use fsck::{Checked, Finding, Fsck, Head};
pub use sqlite::{Counters, Decisions, Store};

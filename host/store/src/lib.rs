//! Durable commits and reads: the engine's ports [`CommitOperations`], [`ReadOperations`], [`ReadLog`] and
//! [`StorePolicies`] on a database.
//!
//! The store has no rules about operations: the engine decides before it commits. This crate compares revisions,
//! appends the events to the log of all events, and writes a commit as a whole or not at all. On reading, it compares
//! operations and keys with their events.
//!
//! Start at [`Store::open`]. Tools that run beside a gateway read decisions with [`Decisions::open`] and check the store's
//! consistency with [`Fsck::open`]. `record` has what is kept, as rows; `change` has each write, which `sqlite` and `postgres` run; both
//! are read by the same code. `contract` is the test suite that both must pass.
//!
//! [`CommitOperations`]: gateway_engine::ports::CommitOperations
//! [`StorePolicies`]: gateway_engine::ports::StorePolicies
//! [`ReadLog`]: gateway_engine::ports::ReadLog
//! [`ReadOperations`]: gateway_engine::ports::ReadOperations

mod change;
#[cfg(test)]
mod contract;
mod database;
mod decisions;
mod error;
mod fsck;
mod postgres;
mod record;
mod sql;
mod sqlite;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use change::Counters;
pub use database::{CopyError, OpenError, backup, is_postgres, production_fault, restore};
pub use decisions::{Cursor, Decisions, InvalidCursor, PastEvent};
pub use fsck::{Checked, Fsck, Head};
pub use gateway_engine::ports::{DecisionPosition, RecordedDecision};
pub use postgres::{CONNECTIONS, OpenError as PostgresError, Peer, Peers, Presence};
pub use record::finding::Finding;
pub use store::read::Unfinished;
pub use store::retention::{Expiring, ROWS_PER_TRANSACTION_MAX, SPENDING_KEPT_MS_MIN, Size};
pub use store::{HISTOGRAMS, Store};

//! What operations, keys, approvals and evidence *are*, and how they may move.
//!
//! Deliberately absent: I/O, clocks, randomness, async. Time and identifiers are arguments; a caller that has a
//! value of these types need not check it again.
//!
//! Reading order: [`operation`] (the whole life of an operation), [`intent`] (what may be asked), [`policy`] (what a
//! policy is asked and answers), [`admission`] (what an authority signs), [`receipt`] (what a node signs), [`key`],
//! [`evidence`], [`log`] (where all events go); below them [`canonical`] (the only bytes that are ever hashed),
//! [`dsse`], [`ed25519`], [`json`], [`roster`], [`ids`].

pub mod admission;
pub mod approval;
pub mod binding;
pub mod canonical;
mod chain;
pub mod dsse;
pub mod ed25519;
pub mod evidence;
pub mod ids;
pub mod intent;
pub mod json;
pub mod key;
pub mod log;
pub mod operation;
pub mod policy;
pub mod receipt;
pub mod redaction;
pub mod roster;
pub mod step;
pub mod time;

pub use chain::chain;

//! Writes: each is stated once, for both databases, but for commits: [`crate::postgres`] writes many in one statement.

mod activation;
mod commit;
mod decision;
mod preview;
mod quota;
mod script;
mod write;

pub(crate) use activation::ActivationWrite;
pub(crate) use commit::{CommitWrite, FIXED, SET_KEY, due_after, is_outdated};
pub(crate) use decision::DecisionWrite;
pub(crate) use preview::PreviewsWrite;
pub(crate) use quota::{full_after, is_exhausted};
pub use write::Counters;
pub(crate) use write::{Change, InTurn, Write};

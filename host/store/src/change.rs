//! Writes: each is stated once, for both databases.

mod activation;
mod commit;
mod decision;
mod preview;
mod quota;
mod script;
mod write;

pub(crate) use activation::ActivationWrite;
pub(crate) use commit::CommitWrite;
pub(crate) use decision::DecisionWrite;
pub(crate) use preview::PreviewsWrite;
pub use write::Counters;
pub(crate) use write::{Change, InTurn, Write};

//! What a node has in memory only, and loses when it restarts.

pub(crate) mod generations;
pub(crate) mod sessions;

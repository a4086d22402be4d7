//! What a node has in memory only, and loses when it restarts.

pub(crate) mod ceremonies;
pub(crate) mod generations;
pub(crate) mod health;
pub(crate) mod sessions;
pub(crate) mod watch;

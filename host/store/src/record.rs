//! What the store keeps, as rows: written, read back, and rebuilt from events.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod finding;
pub(crate) mod frontier;
pub(crate) mod history;
